/* Rewriting a text before it is cut: Unicode normal forms, replacements, a prefix, stripped ends.
 *
 * Decomposition and composition are utf8proc's tables and composer; the ordering of combining marks between them is
 * done here, by a stable counting sort: utf8proc's own is quadratic in the length of a run of marks, and a run may be
 * the whole text. */
#include "text/text_int.h"

#include <string.h>
#include <utf8proc.h>

/* ---- normal forms ---- */

/* Below U+0300 all characters are in NFC (and lead bytes tell: 0xCC begins U+0300), below U+0080 in every form. */
static bool needs_nothing(const char *text, size_t n, sl_norm_form form)
{
    uint8_t bound = form == SL_NFC ? 0xCC : 0x80;
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)text[i] >= bound) return false;
    return true;
}

typedef struct {
    int32_t *cps;
    size_t n, cap;
} points;

static bool points_reserve(points *p, size_t more)
{
    if (more <= p->cap - p->n) return true;
    size_t cap = p->cap + p->cap / 2 + more;
    int32_t *cps = sl_realloc(p->cps, cap * sizeof *cps);
    if (!cps) return false;
    p->cps = cps;
    p->cap = cap;
    return true;
}

static bool decompose(points *p, const char *text, size_t n, int options)
{
    enum { LONGEST = 32 }; /* U+FDFA decomposes into 18 */
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t len = sl_utf8_decode(text + i, n - i, &cp);
        i += len ? len : 1;
        if (!len) cp = 0xFFFD; /* cannot be: the caller gives valid text */
        if (!points_reserve(p, LONGEST)) return false;
        utf8proc_ssize_t k =
            utf8proc_decompose_char((utf8proc_int32_t)cp, p->cps + p->n, LONGEST, (utf8proc_option_t)options, NULL);
        if (k > 0 && k <= LONGEST) p->n += (size_t)k;
    }
    return true;
}

static unsigned mark_class(int32_t cp)
{
    return cp < 0x300 ? 0 : (unsigned)utf8proc_get_property(cp)->combining_class & 255u;
}

/* Stable sort of a run of marks by their class; spare is as long as the run. */
static void sort_run(int32_t *run, size_t n, int32_t *spare)
{
    size_t count[257] = {0};
    for (size_t i = 0; i < n; i++)
        count[mark_class(run[i]) + 1]++;
    for (size_t k = 1; k < 257; k++)
        count[k] += count[k - 1];
    for (size_t i = 0; i < n; i++)
        spare[count[mark_class(run[i])]++] = run[i];
    memcpy(run, spare, n * sizeof *run);
}

static bool order_marks(points *p)
{
    for (size_t i = 0; i < p->n;) {
        size_t from = i;
        bool sorted = true;
        for (; i < p->n && mark_class(p->cps[i]); i++)
            sorted = sorted && (i == from || mark_class(p->cps[i - 1]) <= mark_class(p->cps[i]));
        if (!sorted) {
            if (!points_reserve(p, i - from)) return false;
            sort_run(p->cps + from, i - from, p->cps + p->n);
        }
        if (i == from) i++;
    }
    return true;
}

static void write_points(sl_buf *out, const points *p)
{
    for (size_t i = 0; i < p->n; i++) {
        char c[4];
        sl_buf_add(out, c, sl_utf8_encode((uint32_t)p->cps[i], c));
    }
}

sl_status sl_normalize_unicode(sl_buf *out, const char *text, size_t n_bytes, sl_norm_form form, sl_err *err)
{
    points p = {0};
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (form == SL_NFKC || form == SL_NFKD ? UTF8PROC_COMPAT : 0);
    bool ok = true;
    if (needs_nothing(text, n_bytes, form)) {
        sl_buf_add(out, text, n_bytes);
    } else {
        ok = decompose(&p, text, n_bytes, options) && order_marks(&p);
        if (ok && (form == SL_NFC || form == SL_NFKC)) {
            utf8proc_ssize_t n =
                utf8proc_normalize_utf32(p.cps, (utf8proc_ssize_t)p.n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
            p.n = n < 0 ? 0 : (size_t)n;
        }
        if (ok) write_points(out, &p);
        sl_free(p.cps);
    }
    if (!ok || out->failed) return sl_fail(err, SL_ERR_NOMEM, "no memory to normalise %zu bytes of text", n_bytes);
    return SL_OK;
}

/* ---- the other steps ---- */

static void replace(sl_buf *out, const sl_norm_step *s, const char *text, size_t n)
{
    size_t done = 0;
    while (s->n_from) {
        const char *hit = memmem(text + done, n - done, s->from, s->n_from);
        if (!hit) break;
        size_t at = (size_t)(hit - text);
        sl_buf_add(out, text + done, at - done);
        sl_buf_add(out, s->to, s->n_to);
        done = at + s->n_from;
    }
    sl_buf_add(out, text + done, n - done);
}

static bool replace_regex(sl_buf *out, const sl_norm_step *s, sl_matcher *m, const char *text, size_t n)
{
    size_t done = 0, start = 0, from, to;
    while (start <= n) {
        sl_match_result r = sl_regex_find(s->re, m, text, n, start, &from, &to);
        if (r == SL_MATCH_NOMEM) return false;
        if (r == SL_MATCH_NONE) break;
        sl_buf_add(out, text + done, from - done);
        sl_buf_add(out, s->to, s->n_to);
        done = start = to;
        if (to > from) continue;
        uint32_t cp; /* an empty match: go on behind the next character */
        size_t len = to < n ? sl_utf8_decode(text + to, n - to, &cp) : 0;
        start = to + (len ? len : 1);
    }
    if (done < n) sl_buf_add(out, text + done, n - done);
    return true;
}

static void strip(sl_buf *out, const sl_norm_step *s, const char *text, size_t n)
{
    size_t from = 0, len;
    uint32_t cp;
    while (s->left && from < n && (len = sl_utf8_decode(text + from, n - from, &cp)) && sl_char_is_space(cp))
        from += len;
    while (s->right && n > from && (len = sl_char_before(text, n, &cp)) && sl_char_is_space(cp))
        n -= len;
    sl_buf_add(out, text + from, n - from);
}

static sl_status run_step(sl_buf *out, const sl_norm_step *s, sl_matcher *m, const char *text, size_t n, sl_err *err)
{
    bool ok = true;
    switch (s->kind) {
    case SL_NORM_UNICODE:
        return sl_normalize_unicode(out, text, n, s->form, err);
    case SL_NORM_REPLACE:
        replace(out, s, text, n);
        break;
    case SL_NORM_REGEX:
        ok = replace_regex(out, s, m, text, n);
        break;
    case SL_NORM_STRIP:
        strip(out, s, text, n);
        break;
    case SL_NORM_PREPEND:
        if (n) sl_buf_add(out, s->to, s->n_to);
        sl_buf_add(out, text, n);
        break;
    }
    return ok && !out->failed ? SL_OK : sl_fail(err, SL_ERR_NOMEM, "no memory to normalise %zu bytes of text", n);
}

static bool changes_nothing(const sl_norm_step *s, const char *text, size_t n)
{
    if (s->kind == SL_NORM_UNICODE) return needs_nothing(text, n, s->form);
    return s->kind == SL_NORM_REPLACE && !(s->n_from && memmem(text, n, s->from, s->n_from));
}

sl_status sl_normalize(const sl_norm_step *steps, uint32_t n_step, bool begins, sl_buf bufs[2], sl_matcher *m,
                       const char **text, size_t *n_bytes, sl_err *err)
{
    unsigned k = 0;
    for (uint32_t i = 0; i < n_step; i++) {
        if (changes_nothing(&steps[i], *text, *n_bytes) || (!begins && steps[i].kind == SL_NORM_PREPEND)) continue;
        sl_buf *out = &bufs[k];
        out->len = 0;
        sl_status rc = run_step(out, &steps[i], m, *text, *n_bytes, err);
        if (rc != SL_OK) return rc;
        *text = out->len ? out->data : "";
        *n_bytes = out->len;
        k ^= 1;
    }
    return SL_OK;
}
