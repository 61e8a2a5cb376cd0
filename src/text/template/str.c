/* Strings, and where each byte of them came from.  Indices that a template sees count characters; everything inside
 * counts bytes of UTF-8, which is always valid. */
#include "text/template/template_int.h"
#include "text/text_int.h"


/* ---- putting text together ---- */

_Noreturn static void too_long(sl_tpl_run *r)
{
    sl_tpl_fail(&r->heap, SL_ERR_LIMIT, "a text of more than %d MB", SL_TPL_MAX_OUTPUT >> 20);
}

static void reserve(sl_tpl_run *r, sl_tpl_text *t, size_t n)
{
    if (n > SL_TPL_MAX_OUTPUT - t->n) too_long(r);
    if (t->n + n <= t->cap) return;
    size_t cap = t->cap * 2 > t->n + n ? t->cap * 2 : t->n + n + 32;
    char *p = sl_tpl_take(&r->heap, cap);
    if (t->n) memcpy(p, t->p, t->n);
    t->p = p;
    t->cap = cap;
    if (!t->mask) return;
    uint8_t *mask = sl_tpl_take(&r->heap, cap);
    memcpy(mask, t->mask, t->n);
    t->mask = mask;
}

/* From here on bytes differ. */
static void begin_mask(sl_tpl_run *r, sl_tpl_text *t)
{
    if (t->mask) return;
    t->mask = sl_tpl_take(&r->heap, t->cap);
    memset(t->mask, t->user, t->n);
}

void sl_tpl_add(sl_tpl_run *r, sl_tpl_text *t, const char *p, size_t n, bool user)
{
    if (!n) return;
    sl_tpl_tick(r, 1 + (n >> 8));
    reserve(r, t, n);
    if (!t->n) t->user = user;
    if (t->user != user) begin_mask(r, t);
    memcpy(t->p + t->n, p, n);
    if (t->mask) memset(t->mask + t->n, user, n);
    t->n += n;
}

void sl_tpl_add_slice(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_str *s, size_t from, size_t to)
{
    if (!s->mask) {
        sl_tpl_add(r, t, s->p + from, to - from, s->user);
        return;
    }
    if (from == to) return;
    sl_tpl_tick(r, 1 + ((to - from) >> 8));
    reserve(r, t, to - from);
    begin_mask(r, t);
    memcpy(t->p + t->n, s->p + from, to - from);
    memcpy(t->mask + t->n, s->mask + from, to - from);
    t->n += to - from;
}

void sl_tpl_add_str(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_str *s)
{
    sl_tpl_add_slice(r, t, s, 0, s->n);
}

void sl_tpl_add_c(sl_tpl_run *r, sl_tpl_text *t, const char *literal)
{
    sl_tpl_add(r, t, literal, strlen(literal), false);
}

const sl_tpl_str *sl_tpl_text_str(sl_tpl_run *r, const sl_tpl_text *t)
{
    sl_tpl_str *s = sl_tpl_take(&r->heap, sizeof *s);
    s->p = t->p ? t->p : "";
    s->n = t->n;
    s->mask = t->mask;
    s->user = t->user;
    return s;
}

sl_tpl_value sl_tpl_text_done(sl_tpl_run *r, const sl_tpl_text *t)
{
    return sl_tpl_of_str(sl_tpl_text_str(r, t));
}

/* ---- concatenation ---- */

static void copy_mask(uint8_t *to, const sl_tpl_str *s)
{
    if (s->mask)
        memcpy(to, s->mask, s->n);
    else
        memset(to, s->user, s->n);
}

/* A fresh buffer that begins with a and has room to grow. */
static sl_tpl_tail *tail_of(sl_tpl_run *r, const sl_tpl_str *a, size_t n)
{
    sl_tpl_tail *tail = sl_tpl_take(&r->heap, sizeof *tail);
    tail->cap = n < 64 ? n : n * 2; /* short ones are seldom appended to again */
    tail->p = sl_tpl_take(&r->heap, tail->cap);
    memcpy(tail->p, a->p, a->n);
    tail->used = a->n;
    return tail;
}

const sl_tpl_str *sl_tpl_str_concat(sl_tpl_run *r, const sl_tpl_str *a, const sl_tpl_str *b)
{
    if (!a->n) return b;
    if (!b->n) return a;
    size_t n = a->n + b->n;
    if (n > SL_TPL_MAX_OUTPUT) too_long(r);
    sl_tpl_tail *tail = a->tail;
    if (!tail || tail->used != a->n || tail->cap < n) tail = tail_of(r, a, n);
    sl_tpl_str *s = sl_tpl_take(&r->heap, sizeof *s);
    memcpy(tail->p + a->n, b->p, b->n);
    tail->used = n;
    *s = (sl_tpl_str){.p = tail->p, .n = n, .tail = tail, .user = a->user, .safe = a->safe};
    if (!a->mask && !b->mask && a->user == b->user) return s;
    if (!tail->mask) {
        tail->mask = sl_tpl_take(&r->heap, tail->cap);
        copy_mask(tail->mask, a);
    } else if (!a->mask)
        memset(tail->mask, a->user, a->n);
    copy_mask(tail->mask + a->n, b);
    s->mask = tail->mask;
    return s;
}

const sl_tpl_str *sl_tpl_str_slice(sl_tpl_run *r, const sl_tpl_str *s, size_t from, size_t to)
{
    if (from == 0 && to == s->n) return s;
    sl_tpl_str *part = sl_tpl_take(&r->heap, sizeof *part);
    part->p = s->p + from;
    part->n = to - from;
    part->mask = s->mask ? s->mask + from : NULL;
    part->user = s->user;
    part->safe = s->safe;
    return part;
}

const sl_tpl_str *sl_tpl_str_mark_safe(sl_tpl_run *r, const sl_tpl_str *s, bool safe)
{
    if (s->safe == safe) return s;
    sl_tpl_str *copy = sl_tpl_take(&r->heap, sizeof *copy);
    *copy = *s;
    copy->tail = NULL;
    copy->safe = safe;
    return copy;
}

/* ---- looking ---- */

bool sl_tpl_str_is(const sl_tpl_str *s, const char *literal)
{
    return s->n == strlen(literal) && memcmp(s->p, literal, s->n) == 0;
}

bool sl_tpl_str_same(const sl_tpl_str *a, const sl_tpl_str *b)
{
    return a->n == b->n && (a->p == b->p || memcmp(a->p, b->p, a->n) == 0);
}

bool sl_tpl_str_user(const sl_tpl_str *s)
{
    return s->mask ? memchr(s->mask, 1, s->n) != NULL : s->user && s->n;
}

size_t sl_tpl_char_len(const char *p)
{
    uint8_t c = (uint8_t)*p;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

size_t sl_tpl_str_chars(const sl_tpl_str *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += ((uint8_t)s->p[i] & 0xC0) != 0x80;
    return n;
}

size_t sl_tpl_str_at(const sl_tpl_str *s, size_t i)
{
    size_t at = 0;
    for (; i && at < s->n; i--)
        at += sl_tpl_char_len(s->p + at);
    return at;
}

size_t sl_tpl_str_find(const sl_tpl_str *s, const sl_tpl_str *needle, size_t from)
{
    if (from > s->n) return SIZE_MAX;
    if (!needle->n) return from;
    const char *p = memmem(s->p + from, s->n - from, needle->p, needle->n);
    return p ? (size_t)(p - s->p) : SIZE_MAX;
}

bool sl_tpl_is_space(uint32_t cp)
{
    return (cp >= 0x1C && cp <= 0x1F) || sl_char_is_space(cp);
}

bool sl_tpl_ends_line(uint32_t cp)
{
    return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

/* ---- strip, replace, escape ---- */

static bool in_set(const sl_tpl_str *chars, uint32_t cp)
{
    uint32_t c;
    for (size_t i = 0, len; i < chars->n; i += len) {
        len = sl_utf8_decode(chars->p + i, chars->n - i, &c);
        if (!len) return false;
        if (c == cp) return true;
    }
    return false;
}

const sl_tpl_str *sl_tpl_str_strip(sl_tpl_run *r, const sl_tpl_str *s, const sl_tpl_str *chars, unsigned sides)
{
    size_t from = 0, to = s->n, len;
    uint32_t cp;
    while ((sides & SL_TPL_LEFT) && from < to && (len = sl_utf8_decode(s->p + from, to - from, &cp)) &&
           (chars ? in_set(chars, cp) : sl_tpl_is_space(cp)))
        from += len;
    while ((sides & SL_TPL_RIGHT) && to > from && (len = sl_char_before(s->p, to, &cp)) &&
           (chars ? in_set(chars, cp) : sl_tpl_is_space(cp)))
        to -= len;
    sl_tpl_tick(r, (s->n - (to - from)) * (1 + (chars ? chars->n : 0)) >> 4);
    return sl_tpl_str_slice(r, s, from, to);
}

/* Python puts `to` between all characters when `from` is empty. */
static const sl_tpl_str *interleave(sl_tpl_run *r, const sl_tpl_str *s, const sl_tpl_str *to, int64_t count)
{
    sl_tpl_text t = {0};
    size_t i = 0;
    for (; count != 0; count--) {
        sl_tpl_tick(r, 1);
        sl_tpl_add_str(r, &t, to);
        if (i == s->n) break;
        size_t end = i + sl_tpl_char_len(s->p + i);
        sl_tpl_add_slice(r, &t, s, i, end);
        i = end;
    }
    sl_tpl_add_slice(r, &t, s, i, s->n);
    return sl_tpl_text_str(r, &t);
}

const sl_tpl_str *sl_tpl_str_replace(sl_tpl_run *r, const sl_tpl_str *s, const sl_tpl_str *from, const sl_tpl_str *to,
                                     int64_t count)
{
    if (!from->n) return interleave(r, s, to, count);
    sl_tpl_text t = {0};
    size_t done = 0, at;
    for (; count != 0 && (at = sl_tpl_str_find(s, from, done)) != SIZE_MAX; count--) {
        sl_tpl_tick(r, 1);
        sl_tpl_add_slice(r, &t, s, done, at);
        sl_tpl_add_str(r, &t, to);
        done = at + from->n;
    }
    if (!done) return s;
    sl_tpl_add_slice(r, &t, s, done, s->n);
    return sl_tpl_text_str(r, &t);
}

const sl_tpl_str *sl_tpl_str_escape(sl_tpl_run *r, const sl_tpl_str *s)
{
    static const struct {
        char c;
        const char *text;
    } rows[] = {{'&', "&amp;"}, {'>', "&gt;"}, {'<', "&lt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    sl_tpl_text t = {0};
    size_t done = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            if (s->p[i] != rows[k].c) continue;
            sl_tpl_add_slice(r, &t, s, done, i);
            sl_tpl_add(r, &t, rows[k].text, strlen(rows[k].text), s->mask ? s->mask[i] : s->user);
            done = i + 1;
        }
    if (!done) return s;
    sl_tpl_add_slice(r, &t, s, done, s->n);
    return sl_tpl_text_str(r, &t);
}
