/* Generated text back to a message, piece by piece.  Text is released as soon as no marker can begin in it; a marker
 * that opens a call hands the text to the steps of its dialect (reply_steps.c), which either report calls or say up to
 * where there is none: that part is text after all, and the search goes on behind it.  So nothing is lost, and nothing
 * is looked at from the start again. */
#include "text/reply_int.h"

#include <string.h>

enum { DEFAULT_MAX_BYTES = 16 << 20, DEFAULT_MAX_CALL_BYTES = 1 << 20, PROMPT_TAIL = 256 };

/* ---- opening ---- */

void sl_reply_options_init(sl_reply_options *opt)
{
    *opt = (sl_reply_options){
        .struct_size = sizeof *opt, .max_bytes = DEFAULT_MAX_BYTES, .max_call_bytes = DEFAULT_MAX_CALL_BYTES};
}

static void add_mark(sl_reply *r, const sl_reply_mark *m)
{
    if (!m->text || (m->kind == SL_MARK_CALL && !r->tools)) return;
    r->marks[r->n_mark++] = *m;
    r->first[(unsigned char)m->text[0]] = true;
}

static void collect_marks(sl_reply *r)
{
    const sl_reply_dialect_row *d = r->dialect;
    for (size_t i = 0; i < sizeof d->marks / sizeof d->marks[0]; i++)
        add_mark(r, &d->marks[i]);
    if (r->think.begin) {
        add_mark(r, &(sl_reply_mark){r->think.begin, SL_MARK_THINK, SL_IN_CONTENT | SL_AT_START, NULL});
        add_mark(r, &(sl_reply_mark){r->think.end, SL_MARK_ANSWER, SL_IN_REASONING, NULL});
        /* no thought at all: the prompt has opened it unknown to the caller, or the model closes what nobody opened */
        add_mark(r, &(sl_reply_mark){r->think.end, SL_MARK_ANSWER, SL_IN_CONTENT | SL_AT_START, NULL});
    }
    if (r->tools || !d->start_is_call) r->at_start = d->at_start;
}

/* Does text end with the marker?  White space at either end does not count. */
static bool ends_with(const char *text, size_t n, const char *marker)
{
    size_t len = strlen(marker);
    while (n && sl_reply_is_space(text[n - 1]))
        n--;
    while (len && sl_reply_is_space(marker[len - 1]))
        len--;
    return n >= len && len && memcmp(text + n - len, marker, len) == 0;
}

/* Where the prompt left off. */
static void begin(sl_reply *r, const sl_reply_options *opt)
{
    size_t n = opt->prompt ? strlen(opt->prompt) : 0, skip = n > PROMPT_TAIL ? n - PROMPT_TAIL : 0;
    bool known = r->think.begin != NULL;
    bool begun = known && n && ends_with(opt->prompt + skip, n - skip, r->think.begin);
    if (opt->thinking == SL_THINKING_BEGUN) begun = known;
    if (opt->thinking == SL_THINKING_NOT_BEGUN) begun = false;
    r->channel = SL_CONTENT;
    if (begun)
        sl_reply_turn(r, SL_REASONING, true);
    else if (known && n && ends_with(opt->prompt + skip, n - skip, r->think.end))
        r->seen_marker = true;
}

static void init_buffers(sl_reply *r)
{
    size_t call = r->max_call_bytes < SIZE_MAX / 16 ? 8 * r->max_call_bytes + 4096 : SIZE_MAX;
    size_t all = r->max_bytes < SIZE_MAX / 16 ? 4 * r->max_bytes + 4096 : SIZE_MAX;
    sl_buf_init(&r->in, all);
    sl_buf_init(&r->message, SIZE_MAX);
    for (int c = 0; c < SL_N_CHANNEL; c++) {
        sl_buf_init(&r->ch[c].text, all);
        sl_buf_init(&r->ch[c].space, all);
    }
    sl_buf *const parts[] = {&r->run.name, &r->run.id, &r->run.key, &r->run.args};
    for (size_t i = 0; i < 4; i++)
        sl_buf_init(parts[i], call);
}

sl_status sl_reply_open(sl_reply **out, const sl_reply_options *opt, sl_err *err)
{
    sl_status rc = SL_OK;
    if (!opt || opt->struct_size != sizeof *opt)
        return sl_fail(err, SL_ERR_ARG, "reply: options were not set by sl_reply_options_init");
    if (!opt->max_bytes || !opt->max_call_bytes) return sl_fail(err, SL_ERR_ARG, "reply: a limit is 0");
    const sl_reply_dialect_row *row = opt->dialect ? sl_reply_dialect_find(opt->dialect)
                                                   : sl_reply_dialect_detect(opt->chat_template, opt->tokenizer);
    if (!row) return sl_fail(err, SL_ERR_ARG, "reply: unknown dialect '%s'", opt->dialect);
    sl_reply *r = sl_calloc(1, sizeof *r);
    if (!r) return sl_fail(err, SL_ERR_NOMEM, "no memory for a reply");
    r->dialect = row;
    r->think = sl_reply_think_detect(row, opt->chat_template, opt->tokenizer);
    r->id_seed = opt->id_seed;
    r->max_bytes = opt->max_bytes;
    r->max_call_bytes = opt->max_call_bytes;
    r->tokenizer = opt->tokenizer;
    r->each = opt->each;
    r->user = opt->user;
    init_buffers(r);
    if (opt->tools && (rc = sl_reply_tools_open(r, opt->tools, err)) != SL_OK) {
        sl_reply_close(r);
        return rc;
    }
    collect_marks(r);
    begin(r, opt);
    *out = r;
    return SL_OK;
}

void sl_reply_close(sl_reply *r)
{
    if (!r) return;
    r->n_reported = 0;
    sl_reply_calls_drop(r);
    sl_free(r->calls);
    sl_json_free(r->tools);
    sl_reply_run_free(&r->run);
    for (int c = 0; c < SL_N_CHANNEL; c++) {
        sl_buf_free(&r->ch[c].text);
        sl_buf_free(&r->ch[c].space);
    }
    sl_buf_free(&r->in);
    sl_buf_free(&r->message);
    sl_free(r);
}

/* ---- finding markers ---- */

static bool mark_applies(const sl_reply *r, const sl_reply_mark *m)
{
    const sl_reply_channel *ch = &r->ch[r->channel];
    if (!(m->where & (r->channel == SL_CONTENT ? SL_IN_CONTENT : SL_IN_REASONING))) return false;
    return !(m->where & SL_AT_START) || !ch->text.len || ch->after_marker;
}

/* The longest marker at the held text's start; PART when more text could make one. */
static sl_lit find_mark(const sl_reply *r, const sl_reply_mark **found)
{
    sl_lit best = SL_LIT_NO;
    size_t longest = 0;
    for (size_t i = 0; i < r->n_mark; i++) {
        const sl_reply_mark *m = &r->marks[i];
        if (!mark_applies(r, m)) continue;
        sl_lit lit = sl_reply_lit(r->in.data + r->at, r->in.len - r->at, m->text);
        if (lit == SL_LIT_PART && !r->over) return SL_LIT_PART;
        if (lit != SL_LIT_WHOLE || strlen(m->text) <= longest) continue;
        longest = strlen(m->text);
        best = SL_LIT_WHOLE;
        *found = m;
    }
    return best;
}

static void release(sl_reply *r, size_t to)
{
    sl_reply_say(r, r->in.data + r->at, to - r->at);
    r->at = to;
}

static void begin_call(sl_reply *r, const sl_reply_step *steps, size_t pos)
{
    r->in_call = true;
    sl_reply_run_begin(r, steps, pos);
}

static void take_mark(sl_reply *r, const sl_reply_mark *m)
{
    size_t behind = r->at + strlen(m->text);
    if (m->kind == SL_MARK_CALL || m->kind == SL_MARK_STEPS) {
        begin_call(r, m->steps, behind);
        return;
    }
    r->at = behind;
    if (m->kind == SL_MARK_ANSWER) r->started = false;
    sl_reply_turn(r, m->kind == SL_MARK_THINK ? SL_REASONING : SL_CONTENT, m->kind == SL_MARK_THINK);
}

/* One stretch of text, up to a marker or the end of what came; false: nothing more can be decided. */
static bool go_on_text(sl_reply *r)
{
    const sl_reply_mark *m = NULL;
    size_t p = r->at;
    if (p == r->in.len) return false;
    if (r->at_start && !r->started && r->channel == SL_CONTENT) {
        r->started = true;
        begin_call(r, r->at_start, p);
        return true;
    }
    if (!r->first[(unsigned char)r->in.data[p]]) {
        while (p < r->in.len && !r->first[(unsigned char)r->in.data[p]])
            p++;
        release(r, p);
        return true;
    }
    switch (find_mark(r, &m)) {
    case SL_LIT_PART:
        return false;
    case SL_LIT_WHOLE:
        take_mark(r, m);
        return true;
    default:
        release(r, p + 1); /* markers begin with ASCII, so this is a whole character */
        return true;
    }
}

static bool go_on_call(sl_reply *r)
{
    sl_scan scan = sl_reply_run_on(r);
    if (scan == SL_SCAN_MORE || r->status != SL_OK) return false;
    r->in_call = false;
    if (scan == SL_SCAN_BAD && r->run.pos > r->at) release(r, r->run.pos);
    return true;
}

static void go_on(sl_reply *r)
{
    while (r->status == SL_OK && (r->in_call ? go_on_call(r) : go_on_text(r)))
        ;
    if (r->in_call || !r->at || r->at < r->in.len / 2) return;
    memmove(r->in.data, r->in.data + r->at, r->in.len - r->at);
    r->in.len -= r->at;
    r->at = 0;
}

/* ---- text in ---- */

static sl_status say_status(const sl_reply *r, sl_err *err)
{
    return r->status == SL_OK ? SL_OK : sl_fail(err, r->status, "%s", r->why);
}

/* Appends bytes as characters; what is no character becomes U+FFFD, and one cut at the end waits for its rest. */
static void take_bytes(sl_reply *r, const char *s, size_t n)
{
    while (n) {
        size_t valid = sl_utf8_valid_prefix(s, n);
        sl_buf_add(&r->in, s, valid);
        s += valid;
        n -= valid;
        if (!n) break;
        bool open;
        size_t len = sl_utf8_broken(s, n, &open);
        if (open && !r->over) {
            memcpy(r->broken, s, n);
            r->n_broken = n;
            break;
        }
        sl_buf_add(&r->in, "\xef\xbf\xbd", 3);
        s += len;
        n -= len;
    }
}

/* Completes the character that the last piece cut, byte by byte; returns how many bytes of s it took. */
static size_t mend(sl_reply *r, const char *s, size_t n)
{
    size_t taken = 0;
    while (r->n_broken && taken < n) {
        char joined[4];
        size_t len = r->n_broken + 1;
        memcpy(joined, r->broken, r->n_broken);
        joined[len - 1] = s[taken];
        bool open;
        uint32_t cp;
        if (!sl_utf8_decode(joined, len, &cp) && sl_utf8_broken(joined, len, &open) < len) {
            sl_buf_add(&r->in, "\xef\xbf\xbd", 3); /* this byte begins something else */
            r->n_broken = 0;
            break;
        }
        taken++;
        r->n_broken = 0;
        take_bytes(r, joined, len);
    }
    return taken;
}

sl_status sl_reply_push(sl_reply *r, const char *text, size_t n_bytes, sl_err *err)
{
    if (r->over) return sl_fail(err, SL_ERR_ARG, "reply: text behind its end");
    if (r->status == SL_OK && n_bytes > r->max_bytes - r->total_bytes)
        sl_reply_die(r, SL_ERR_LIMIT, "the reply is longer than its limit");
    if (r->status != SL_OK) return say_status(r, err);
    r->total_bytes += n_bytes;
    size_t mended = mend(r, text, n_bytes);
    take_bytes(r, text + mended, n_bytes - mended);
    if (sl_reply_check(r, &r->in)) go_on(r);
    if (r->status == SL_OK) sl_reply_flush(r);
    return say_status(r, err);
}

sl_status sl_reply_finish(sl_reply *r, sl_err *err)
{
    if (r->over || r->status != SL_OK) return say_status(r, err);
    r->over = true;
    if (r->n_broken) sl_buf_add(&r->in, "\xef\xbf\xbd", 3);
    r->n_broken = 0;
    if (sl_reply_check(r, &r->in)) go_on(r);
    if (r->status == SL_OK) sl_reply_settle(r);
    if (r->status == SL_OK) sl_reply_flush(r);
    return say_status(r, err);
}

size_t sl_reply_held_bytes(const sl_reply *r)
{
    return r->in.len - r->at + r->n_broken + r->ch[r->channel].space.len;
}

uint32_t sl_reply_call_count(const sl_reply *r)
{
    return (uint32_t)r->n_reported;
}

const char *sl_reply_dialect(const sl_reply *r)
{
    return r->dialect->name;
}
