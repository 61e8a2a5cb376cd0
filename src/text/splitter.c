/* Cutting a text into the pieces that are merged one by one: a list of steps, each applied to what the one before left.
 * Depth first, so that pieces come out in order and nothing is stored but what a step rewrites. */
#include "text/text_int.h"

#include <string.h>

static sl_status emit(sl_splitter *s, uint32_t i_step, const char *text, size_t from, size_t to)
{
    return from < to ? sl_split(s, i_step + 1, text + from, to - from) : SL_OK;
}

/* ---- by pattern ---- */

/* Stretches of a text, matches and gaps in turn, joined as the behaviour says.  At most one waits for its neighbour. */
typedef struct {
    sl_splitter *s;
    uint32_t i_step;
    const char *text;
    size_t from, to;
    bool waiting, is_match;
} joiner;

static sl_status flush(joiner *j)
{
    bool had = j->waiting;
    j->waiting = false;
    return had ? emit(j->s, j->i_step, j->text, j->from, j->to) : SL_OK;
}

static sl_status hold(joiner *j, size_t from, size_t to, bool is_match)
{
    sl_status rc = flush(j);
    j->from = from;
    j->to = to;
    j->is_match = is_match;
    j->waiting = true;
    return rc;
}

static sl_status take(joiner *j, size_t from, size_t to, bool matched)
{
    const sl_split_step *step = &j->s->steps[j->i_step];
    bool is_match = matched != step->invert, joins = false;
    switch (step->behavior) {
    case SL_ISOLATED:
        return emit(j->s, j->i_step, j->text, from, to);
    case SL_REMOVED:
        return is_match ? SL_OK : emit(j->s, j->i_step, j->text, from, to);
    case SL_CONTIGUOUS:
        joins = is_match == j->is_match;
        break;
    case SL_MERGED_WITH_PREVIOUS:
        joins = is_match && !j->is_match;
        break;
    case SL_MERGED_WITH_NEXT:
        joins = !is_match && j->is_match;
        break;
    }
    if (!j->waiting || !joins) return hold(j, from, to, is_match);
    j->to = to;
    j->is_match = is_match;
    return SL_OK;
}

static sl_status no_memory(const sl_splitter *s, size_t n)
{
    return sl_fail(s->err, SL_ERR_NOMEM, "no memory to cut %zu bytes of text into pieces", n);
}

/* Finds as Oniguruma's iterator does: no empty match right behind another match. */
static sl_status split_regex(sl_splitter *s, uint32_t i_step, const char *text, size_t n)
{
    joiner j = {.s = s, .i_step = i_step, .text = text};
    size_t done = 0, start = 0, from, to;
    bool matched_before = false;
    sl_status rc = SL_OK;
    while (rc == SL_OK && start <= n) {
        sl_match_result r = sl_regex_find(s->steps[i_step].re, s->matcher, text, n, start, &from, &to);
        if (r == SL_MATCH_NOMEM) return no_memory(s, n);
        if (r == SL_MATCH_NONE) break;
        bool empty = from == to;
        if (!empty || !matched_before || from != done) {
            if (from > done) rc = take(&j, done, from, false);
            if (rc == SL_OK) rc = take(&j, from, to, true);
            done = to;
            matched_before = true;
        }
        uint32_t cp;
        size_t len = empty && to < n ? sl_utf8_decode(text + to, n - to, &cp) : 0;
        start = empty ? to + (len ? len : 1) : to;
    }
    if (rc == SL_OK && done < n) rc = take(&j, done, n, false);
    return rc == SL_OK ? flush(&j) : rc;
}

/* ---- digits in threes from the right ---- */

static bool is_run_char(sl_digits_rule rule, uint32_t cp)
{
    return rule == SL_DIGITS_ANY_NUMBER ? sl_char_is_number(cp) : sl_char_is_digit(cp);
}

static sl_status split_digits(sl_splitter *s, uint32_t i_step, const char *text, size_t n)
{
    sl_digits_rule rule = s->steps[i_step].digits;
    bool isolate = rule != SL_DIGITS_CUT; /* from its neighbours too */
    size_t done = 0, i = 0, len;
    uint32_t cp = 0;
    while (i < n && (len = sl_utf8_decode(text + i, n - i, &cp))) {
        if (!is_run_char(rule, cp)) {
            i += len;
            continue;
        }
        size_t begin = i, left = 0;
        for (; i < n && (len = sl_utf8_decode(text + i, n - i, &cp)) && is_run_char(rule, cp); i += len)
            left++;
        if (rule == SL_DIGITS_AT_WORD_END && i < n && sl_char_is_word(cp)) continue;
        for (size_t k = begin; k < i; k += len, left--) {
            len = sl_utf8_decode(text + k, n - k, &cp);
            if (left % 3 && !(isolate && k == begin)) continue;
            sl_status rc = emit(s, i_step, text, done, k);
            if (rc != SL_OK) return rc;
            done = k;
        }
        if (isolate) {
            sl_status rc = emit(s, i_step, text, done, i);
            if (rc != SL_OK) return rc;
            done = i;
        }
    }
    return emit(s, i_step, text, done, n);
}

/* ---- steps that rewrite ---- */

/* The step's buffer is in use until all its pieces have gone through the later steps; those have buffers of their own.
 */
static sl_buf *fresh_buffer(sl_splitter *s, uint32_t i_step)
{
    s->bufs[i_step].len = 0;
    return &s->bufs[i_step];
}

static sl_status split_metaspace(sl_splitter *s, uint32_t i_step, const char *text, size_t n)
{
    const sl_split_step *step = &s->steps[i_step];
    sl_buf *out = fresh_buffer(s, i_step);
    bool has = text[0] == ' ' || (n >= 3 && memcmp(text, SL_LOW_LINE, 3) == 0);
    if (!has && (step->prepend == SL_PREPEND_ALWAYS || (step->prepend == SL_PREPEND_FIRST && s->at_start)))
        sl_buf_add(out, SL_LOW_LINE, 3);
    s->at_start = false;
    for (size_t i = 0; i < n; i++)
        if (text[i] == ' ')
            sl_buf_add(out, SL_LOW_LINE, 3);
        else
            sl_buf_add(out, text + i, 1);
    if (out->failed) return no_memory(s, n);
    size_t done = 0;
    for (size_t i = 1; step->cut && i + 3 <= out->len; i++) {
        if (memcmp(out->data + i, SL_LOW_LINE, 3) != 0) continue;
        sl_status rc = emit(s, i_step, out->data, done, i);
        if (rc != SL_OK) return rc;
        done = i;
    }
    return emit(s, i_step, out->data, done, out->len);
}

static sl_status split_prefix(sl_splitter *s, uint32_t i_step, const char *text, size_t n)
{
    if (text[0] == ' ') return sl_split(s, i_step + 1, text, n);
    sl_buf *out = fresh_buffer(s, i_step);
    sl_buf_add(out, " ", 1);
    sl_buf_add(out, text, n);
    return out->failed ? no_memory(s, n) : sl_split(s, i_step + 1, out->data, out->len);
}

sl_status sl_split(sl_splitter *s, uint32_t i_step, const char *text, size_t n_bytes)
{
    if (n_bytes == 0) return SL_OK;
    if (i_step == s->n_step) return s->fn(s->user, text, n_bytes);
    switch (s->steps[i_step].kind) {
    case SL_SPLIT_REGEX:
        return split_regex(s, i_step, text, n_bytes);
    case SL_SPLIT_DIGITS:
        return split_digits(s, i_step, text, n_bytes);
    case SL_SPLIT_METASPACE:
        return split_metaspace(s, i_step, text, n_bytes);
    default:
        return split_prefix(s, i_step, text, n_bytes);
    }
}
