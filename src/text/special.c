/* Added tokens in a text: which one begins here, and where is the next?  A sorted list of their texts, narrowed byte by
 * byte, does the work of a trie in 12 bytes a token; thousands of tokens with one first letter cost a few steps.
 *
 * Leftmost, then longest.  User-defined tokens are always recognised; control tokens (and the unknown token's text)
 * only with SL_ENCODE_SPECIAL and outside the plain spans. */
#include "text/text_int.h"

#include <string.h>

sl_status sl_special_open(sl_special *s, uint32_t expected, bool spaced, sl_err *err)
{
    *s = (sl_special){.cap = expected ? expected : 1, .spaced = spaced};
    sl_buf_init(&s->text, UINT32_MAX);
    s->rows = sl_malloc((size_t)s->cap * sizeof *s->rows);
    return s->rows ? SL_OK : sl_fail(err, SL_ERR_NOMEM, "no memory for %u added tokens", expected);
}

void sl_special_close(sl_special *s)
{
    sl_free(s->rows);
    sl_buf_free(&s->text);
    *s = (sl_special){0};
}

uint64_t sl_special_bytes(const sl_special *s)
{
    return (uint64_t)s->cap * sizeof *s->rows + s->text.cap;
}

/* One byte of a text as it is compared; *step: how many bytes it stands for. */
static uint8_t byte_at(const sl_special *s, const char *text, size_t n, size_t i, size_t *step)
{
    bool line = s->spaced && n - i >= 3 && memcmp(text + i, SL_LOW_LINE, 3) == 0;
    *step = line ? 3 : 1;
    return line ? ' ' : (uint8_t)text[i];
}

sl_status sl_special_add(sl_special *s, uint32_t id, const char *text, size_t n_bytes, sl_err *err)
{
    if (n_bytes == 0) return SL_OK;
    if (s->n == s->cap) {
        uint32_t cap = s->cap * 2;
        sl_special_row *rows = sl_realloc(s->rows, (size_t)cap * sizeof *rows);
        if (!rows) return sl_fail(err, SL_ERR_NOMEM, "no memory for %u added tokens", cap);
        s->rows = rows;
        s->cap = cap;
    }
    size_t off = s->text.len, step;
    for (size_t i = 0; i < n_bytes; i += step) {
        char c = (char)byte_at(s, text, n_bytes, i, &step);
        sl_buf_add(&s->text, &c, 1);
    }
    if (s->text.failed) return sl_fail(err, SL_ERR_NOMEM, "no memory for the text of %u added tokens", s->n + 1);
    s->rows[s->n++] = (sl_special_row){(uint32_t)off, (uint32_t)(s->text.len - off), id};
    return SL_OK;
}

/* ---- sorting ---- */

static int compare(const sl_special *s, sl_special_row a, sl_special_row b)
{
    uint32_t n = a.len < b.len ? a.len : b.len;
    int c = memcmp(s->text.data + a.off, s->text.data + b.off, n);
    if (c) return c;
    if (a.len != b.len) return a.len < b.len ? -1 : 1;
    return a.id < b.id ? -1 : a.id > b.id;
}

/* Lets row i sink to its place in the heap [0, n) with the largest on top. */
static void sink(sl_special *s, uint32_t i, uint32_t n)
{
    sl_special_row row = s->rows[i];
    for (uint32_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && compare(s, s->rows[k], s->rows[k + 1]) < 0) k++;
        if (compare(s, row, s->rows[k]) >= 0) break;
        s->rows[i] = s->rows[k];
    }
    s->rows[i] = row;
}

void sl_special_seal(sl_special *s)
{
    for (uint32_t i = s->n / 2; i-- > 0;)
        sink(s, i, s->n);
    for (uint32_t n = s->n; n-- > 1;) {
        sl_special_row top = s->rows[0];
        s->rows[0] = s->rows[n];
        s->rows[n] = top;
        sink(s, 0, n);
    }
    uint32_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        s->first[b] = i;
        while (i < s->n && (uint8_t)s->text.data[s->rows[i].off] == b)
            i++;
    }
    s->first[256] = i;
}

/* ---- finding ---- */

/* The first row of [lo, hi) whose byte at depth is at least c; all rows there are longer than depth. */
static uint32_t lower_bound(const sl_special *s, uint32_t lo, uint32_t hi, uint32_t depth, unsigned c)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if ((uint8_t)s->text.data[s->rows[mid].off + depth] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool sl_special_is_plain(const sl_encoder *e, size_t from, size_t to)
{
    size_t lo = 0, hi = e->n_plain; /* the first span that ends behind from */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (e->plain[mid].to <= from)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < e->n_plain && e->plain[lo].from < to;
}

typedef struct {
    const sl_encoder *e;
    const sl_special *s;
    const char *text;
    size_t n, base;
} search;

static bool stands_alone(const search *q, size_t from, size_t to)
{
    uint32_t cp;
    if (from > 0 && sl_char_before(q->text, from, &cp) && sl_char_is_word(cp)) return false;
    return !(to < q->n && sl_utf8_decode(q->text + to, q->n - to, &cp) && sl_char_is_word(cp));
}

static bool is_allowed(const search *q, uint32_t id, size_t from, size_t to)
{
    uint8_t attr = q->e->t->vocab.attr[id];
    if ((attr & SL_ATTR_TYPE) != SL_TOK_USER) {
        if (!(q->e->flags & SL_ENCODE_SPECIAL) || q->e->no_control) return false;
        if (q->base != SIZE_MAX && sl_special_is_plain(q->e, q->base + from, q->base + to)) return false;
    }
    return !(attr & SL_ATTR_WORD) || stands_alone(q, from, to);
}

/* The longest allowed token that begins at text + at. */
static bool longest_at(const search *q, size_t at, sl_special_match *out)
{
    size_t step, i = at;
    uint8_t c = byte_at(q->s, q->text, q->n, i, &step);
    uint32_t lo = q->s->first[c], hi = q->s->first[c + 1u];
    bool found = false;
    for (uint32_t depth = 1; lo < hi; depth++) {
        i += step;
        for (bool taken = false; lo < hi && q->s->rows[lo].len == depth; lo++) {
            if (taken || !is_allowed(q, q->s->rows[lo].id, at, i)) continue;
            *out = (sl_special_match){at, i, q->s->rows[lo].id};
            found = taken = true;
        }
        if (i == q->n || lo == hi) break;
        c = byte_at(q->s, q->text, q->n, i, &step);
        lo = lower_bound(q->s, lo, hi, depth, c);
        hi = lower_bound(q->s, lo, hi, depth, c + 1u);
    }
    return found;
}

static void swallow_blanks(const search *q, size_t floor, sl_special_match *m)
{
    uint8_t attr = q->e->t->vocab.attr[m->id];
    uint32_t cp;
    size_t len;
    if (attr & SL_ATTR_LSTRIP)
        while (m->from > floor && (len = sl_char_before(q->text, m->from, &cp)) && sl_char_is_space(cp) &&
               m->from - floor >= len)
            m->from -= len;
    if (attr & SL_ATTR_RSTRIP)
        while (m->to < q->n && (len = sl_utf8_decode(q->text + m->to, q->n - m->to, &cp)) && sl_char_is_space(cp))
            m->to += len;
}

bool sl_special_find(const sl_encoder *e, const sl_special *s, const char *text, size_t n_bytes, size_t start,
                     size_t floor, size_t base, sl_special_match *out)
{
    search q = {e, s, text, n_bytes, base};
    if (s->n == 0) return false;
    for (size_t i = start; i < n_bytes; i++) {
        uint8_t c = (uint8_t)text[i];
        if (s->first[c] == s->first[c + 1u] && !(s->spaced && c == 0xE2)) continue;
        if (!longest_at(&q, i, out)) continue;
        swallow_blanks(&q, floor, out);
        return true;
    }
    return false;
}
