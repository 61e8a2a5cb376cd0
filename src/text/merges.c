/* The merge table of a BPE with ranks: 8 bytes a merge, grouped by the left token, found by binary search.  A hash
 * table over pairs would take twice as much, and half a million merges are common.
 *
 * A merge whose parts or result are no (mergeable) token is left out and counted: it could never matter, or the file
 * means something this program does not know; the caller warns. */
#include "text/text_int.h"

#include <string.h>

sl_status sl_merge_list_open(sl_merge_list *l, uint32_t expected, sl_err *err)
{
    *l = (sl_merge_list){.cap = expected ? expected : 1};
    l->raw = sl_malloc((size_t)l->cap * sizeof *l->raw);
    l->buf = sl_malloc((size_t)3 * SL_TOK_MAX_TOKEN_BYTES);
    if (!l->raw || !l->buf) return sl_fail(err, SL_ERR_NOMEM, "no memory for %u merges", expected);
    return SL_OK;
}

void sl_merge_list_close(sl_merge_list *l)
{
    sl_free(l->raw);
    sl_free(l->buf);
    *l = (sl_merge_list){0};
}

static sl_status grow(sl_merge_list *l, sl_err *err)
{
    if (l->n < l->cap) return SL_OK;
    uint32_t cap = l->cap + l->cap / 2 + 1024;
    struct sl_merge_raw *raw = l->n > UINT32_MAX / 4 ? NULL : sl_realloc(l->raw, (size_t)cap * sizeof *raw);
    if (!raw) return sl_fail(err, SL_ERR_NOMEM, "no memory for %u merges", cap);
    l->raw = raw;
    l->cap = cap;
    return SL_OK;
}

sl_status sl_merge_list_add(sl_merge_list *l, const sl_vocab *v, const char *left, size_t n_left, const char *right,
                            size_t n_right, sl_err *err)
{
    int32_t a = sl_vocab_find_raw(v, left, n_left, l->buf), b = sl_vocab_find_raw(v, right, n_right, l->buf), c = -1;
    if (a >= 0 && b >= 0) {
        size_t n_a, n_b;
        const char *p = sl_vocab_text(v, (uint32_t)a, &n_a), *q = sl_vocab_text(v, (uint32_t)b, &n_b);
        memcpy(l->buf, p, n_a);
        memcpy(l->buf + n_a, q, n_b);
        c = sl_vocab_find(v, l->buf, n_a + n_b);
    }
    if (c < 0) {
        l->n_ignored++;
        return SL_OK;
    }
    sl_status rc = grow(l, err);
    if (rc != SL_OK) return rc;
    l->raw[l->n++] = (struct sl_merge_raw){(uint32_t)a, (uint32_t)b, (uint32_t)c};
    return SL_OK;
}

/* ---- sorting: two stable counting passes, by right and then by left ---- */

/* count[k] becomes where the items with key k begin. */
static void begin_of_groups(uint32_t *count, uint32_t n_key)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k <= n_key; k++) {
        uint32_t n = count[k];
        count[k] = at;
        at += n;
    }
}

static void order_by_right(const sl_merge_list *l, uint32_t *order, uint32_t *count, uint32_t n_token)
{
    memset(count, 0, ((size_t)n_token + 1) * sizeof *count);
    for (uint32_t i = 0; i < l->n; i++)
        count[l->raw[i].right]++;
    begin_of_groups(count, n_token);
    for (uint32_t i = 0; i < l->n; i++)
        order[count[l->raw[i].right]++] = i;
}

static void place_by_left(const sl_merge_list *l, const uint32_t *order, sl_merges *m, uint32_t n_token)
{
    memset(m->first, 0, ((size_t)n_token + 1) * sizeof *m->first);
    for (uint32_t i = 0; i < l->n; i++)
        m->first[l->raw[i].left]++;
    begin_of_groups(m->first, n_token);
    for (uint32_t k = 0; k < l->n; k++) {
        const struct sl_merge_raw *r = &l->raw[order[k]];
        m->rows[m->first[r->left]++] =
            (uint64_t)r->right << (64 - m->id_bits) | (uint64_t)r->id << (64 - 2 * m->id_bits) | order[k];
    }
    /* first[left] now is where the next group begins: move it back by one group. */
    memmove(m->first + 1, m->first, (size_t)n_token * sizeof *m->first);
    m->first[0] = 0;
}

static uint32_t right_of(const sl_merges *m, uint64_t row)
{
    return (uint32_t)(row >> (64 - m->id_bits));
}

/* Of a pair that is listed twice the first (lower) rank stays. */
static void drop_doubles(sl_merges *m, uint32_t n_token)
{
    uint32_t out = 0;
    for (uint32_t left = 0; left < n_token; left++) {
        uint32_t from = m->first[left], to = m->first[left + 1], begin = out;
        for (uint32_t i = from; i < to; i++)
            if (out == begin || right_of(m, m->rows[out - 1]) != right_of(m, m->rows[i])) m->rows[out++] = m->rows[i];
        m->first[left] = begin;
    }
    m->first[n_token] = m->n = out;
}

sl_status sl_merge_list_finish(sl_merge_list *l, sl_merges *out, const sl_vocab *v, sl_err *err)
{
    uint32_t n_token = v->n, *order = sl_malloc((size_t)l->n * sizeof *order);
    out->n = l->n;
    out->id_bits = 1;
    while (n_token >> out->id_bits)
        out->id_bits++;
    if ((uint64_t)l->n >> (64 - 2 * out->id_bits)) {
        sl_free(order);
        return sl_fail(err, SL_ERR_FORMAT, "%u merges, the limit for %u tokens is %llu", l->n, n_token,
                       (1ull << (64 - 2 * out->id_bits)) - 1);
    }
    out->first = sl_malloc(((size_t)n_token + 1) * sizeof *out->first);
    out->rows = sl_malloc((size_t)l->n * sizeof *out->rows);
    bool ok = order && out->first && out->rows;
    if (ok) {
        order_by_right(l, order, out->first, n_token);
        place_by_left(l, order, out, n_token);
        drop_doubles(out, n_token);
    }
    sl_free(order);
    return ok ? SL_OK : sl_fail(err, SL_ERR_NOMEM, "no memory for a table of %u merges", l->n);
}

void sl_merges_close(sl_merges *m)
{
    sl_free(m->first);
    sl_free(m->rows);
    *m = (sl_merges){0};
}

bool sl_merges_find(const sl_merges *m, uint32_t left, uint32_t right, uint32_t *rank, uint32_t *id)
{
    uint32_t lo = m->first[left], end = m->first[left + 1], hi = end;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (right_of(m, m->rows[mid]) < right)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == end || right_of(m, m->rows[lo]) != right) return false;
    unsigned rank_bits = 64 - 2 * m->id_bits;
    *rank = (uint32_t)(m->rows[lo] & ((1ull << rank_bits) - 1));
    *id = (uint32_t)(m->rows[lo] >> rank_bits) & ((1u << m->id_bits) - 1);
    return true;
}
