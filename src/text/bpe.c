/* Byte pair encoding of one piece: symbols in a linked list, candidates in a heap, the best pair first (lowest rank or
 * highest score, then leftmost).  A candidate is stale when its symbol has another rank by now.
 *
 * Time is n log n and memory 36 bytes per byte of the longest piece: the heap holds 1.5 n entries, and when it is full
 * of stale ones it is made anew from the symbols, which at least n/2 pushes have paid for.
 *
 * Characters that no token contains side by side can never be merged: pieces of a character BPE are cut there first,
 * which for ordinary text leaves words, and gives the same tokens. */
#include "text/text_int.h"

#include <string.h>

/* ---- heap of rank << 32 | symbol, smallest first ---- */

static void sift_down(uint64_t *h, uint32_t n, uint32_t i)
{
    uint64_t v = h[i];
    for (uint32_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && h[k + 1] < h[k]) k++;
        if (v <= h[k]) break;
        h[i] = h[k];
    }
    h[i] = v;
}

static void heap_rebuild(sl_encoder *e)
{
    e->n_heap = 0;
    for (uint32_t i = 0; i < e->n_symbol; i++)
        if (e->symbols[i].rank != SL_NO_RANK) e->heap[e->n_heap++] = (uint64_t)e->symbols[i].rank << 32 | i;
    for (uint32_t i = e->n_heap / 2; i-- > 0;)
        sift_down(e->heap, e->n_heap, i);
}

/* For a symbol whose rank has been set: a rebuild enters it too. */
static void heap_push(sl_encoder *e, uint32_t symbol)
{
    uint64_t v = (uint64_t)e->symbols[symbol].rank << 32 | symbol;
    if (e->n_heap == e->cap_heap) {
        heap_rebuild(e);
        return;
    }
    uint32_t i = e->n_heap++;
    for (; i > 0 && v < e->heap[(i - 1) / 2]; i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = v;
}

static uint64_t heap_pop(sl_encoder *e)
{
    uint64_t top = e->heap[0];
    e->heap[0] = e->heap[--e->n_heap];
    if (e->n_heap) sift_down(e->heap, e->n_heap, 0);
    return top;
}

/* ---- symbols ---- */

/* What has no token is dropped as if it were not there, so that its neighbours can merge (as `tokenizers` does). */
static bool drops_unknown(const sl_tokenizer *t)
{
    return t->bpe == SL_BPE_RANKS && t->unk < 0;
}

#define NO_SYMBOL UINT32_MAX

static sl_status reserve(sl_encoder *e, size_t n)
{
    if (n <= e->cap_symbol) return SL_OK;
    size_t cap = n + n / 4 + 64;
    sl_free(e->symbols); /* the old contents are not needed */
    sl_free(e->heap);
    e->cap_symbol = 0;
    e->cap_heap = cap + cap / 2;
    e->symbols = sl_malloc(cap * sizeof *e->symbols);
    e->heap = sl_malloc(e->cap_heap * sizeof *e->heap);
    if (!e->symbols || !e->heap) return sl_fail(e->err, SL_ERR_NOMEM, "no memory to encode a piece of %zu bytes", n);
    e->cap_symbol = cap;
    return SL_OK;
}

static void add_symbol(sl_encoder *e, size_t start, int32_t id)
{
    uint32_t i = e->n_symbol++;
    e->symbols[i] = (sl_symbol){.start = (uint32_t)start, .prev = i - 1, .next = i + 1, .id = id, .rank = SL_NO_RANK};
}

/* Character at text + i: its length; a byte that is no character counts as one. */
static size_t char_length(const char *text, size_t n, size_t i)
{
    uint32_t cp;
    size_t len = sl_utf8_decode(text + i, n - i, &cp);
    return len ? len : 1;
}

static bool has_byte_tokens(const sl_tokenizer *t, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t->vocab.byte_id[(uint8_t)p[i]] < 0) return false;
    return true;
}

static void symbols_of_bytes(sl_encoder *e, const char *text, size_t n)
{
    bool drops = drops_unknown(e->t);
    for (size_t i = 0; i < n; i++) {
        int32_t id = e->t->vocab.byte_id[(uint8_t)text[i]];
        if (id >= 0 || !drops) add_symbol(e, i, id);
    }
}

static void symbols_of_chars(sl_encoder *e, const char *text, size_t n)
{
    const sl_tokenizer *t = e->t;
    for (size_t i = 0, len; i < n; i += len) {
        len = char_length(text, n, i);
        int32_t id = sl_vocab_find(&t->vocab, text + i, len);
        if (id >= 0 || t->bpe == SL_BPE_SCORES || !t->byte_fallback || !has_byte_tokens(t, text + i, len)) {
            if (id >= 0 || !drops_unknown(t)) add_symbol(e, i, id);
            continue;
        }
        for (size_t k = 0; k < len; k++)
            add_symbol(e, i + k, t->vocab.byte_id[(uint8_t)text[i + k]]);
    }
}

/* ---- merging ---- */

/* Scores as ranks: a higher float has a lower rank.  Scores are never NaN, so no rank is SL_NO_RANK. */
static uint32_t rank_of_score(float score)
{
    uint32_t u;
    memcpy(&u, &score, sizeof u);
    return u & 0x80000000u ? u : ~(u | 0x80000000u);
}

/* Sets the rank of merging symbol i with its successor. */
static void rate(sl_encoder *e, const char *text, size_t n, uint32_t i)
{
    sl_symbol *a = &e->symbols[i];
    const sl_tokenizer *t = e->t;
    a->rank = SL_NO_RANK;
    if (a->next == NO_SYMBOL) return;
    const sl_symbol *b = &e->symbols[a->next];
    if (t->bpe == SL_BPE_SCORES) {
        size_t end = b->next == NO_SYMBOL ? n : e->symbols[b->next].start;
        a->merged = sl_vocab_find(&t->vocab, text + a->start, end - a->start);
        if (a->merged >= 0) a->rank = rank_of_score(t->scores[a->merged]);
    } else if (a->id >= 0 && b->id >= 0) {
        uint32_t rank, id;
        if (!sl_merges_find(&t->merges, (uint32_t)a->id, (uint32_t)b->id, &rank, &id)) return;
        a->merged = (int32_t)id;
        a->rank = rank;
    }
}

static void merge_at(sl_encoder *e, const char *text, size_t n, uint32_t i)
{
    sl_symbol *a = &e->symbols[i], *b = &e->symbols[a->next];
    a->id = a->merged;
    a->next = b->next;
    b->rank = SL_NO_RANK;
    if (a->next != NO_SYMBOL) e->symbols[a->next].prev = i;
    rate(e, text, n, i);
    if (a->rank != SL_NO_RANK) heap_push(e, i);
    if (a->prev == NO_SYMBOL) return;
    rate(e, text, n, a->prev);
    if (e->symbols[a->prev].rank != SL_NO_RANK) heap_push(e, a->prev);
}

static void merge_all(sl_encoder *e, const char *text, size_t n)
{
    if (e->n_symbol < 2) return;
    for (uint32_t i = 0; i < e->n_symbol; i++)
        rate(e, text, n, i);
    heap_rebuild(e);
    while (e->n_heap) {
        uint64_t top = heap_pop(e);
        uint32_t i = (uint32_t)top;
        if (e->symbols[i].rank == top >> 32) merge_at(e, text, n, i);
    }
}

/* ---- output ---- */

static void emit_unknown(sl_encoder *e)
{
    if (e->t->unk >= 0 && !(e->t->fuse_unk && e->unk_before)) sl_emit(e, e->t->unk);
    e->unk_before = true;
}

static void emit_known(sl_encoder *e, int32_t id)
{
    sl_emit(e, id);
    e->unk_before = false;
}

/* What no token stands for: its bytes, or the unknown token. */
static void emit_rest(sl_encoder *e, const char *p, size_t n)
{
    bool bytes = e->t->vocab.form == SL_FORM_BYTES || e->t->byte_fallback;
    if (!bytes || !has_byte_tokens(e->t, p, n)) {
        emit_unknown(e);
        return;
    }
    for (size_t i = 0; i < n; i++)
        emit_known(e, e->t->vocab.byte_id[(uint8_t)p[i]]);
}

static void emit_symbols(sl_encoder *e, const char *text, size_t n)
{
    for (uint32_t i = 0; i != NO_SYMBOL; i = e->symbols[i].next) {
        const sl_symbol *s = &e->symbols[i];
        size_t end = s->next == NO_SYMBOL ? n : e->symbols[s->next].start;
        if (s->id >= 0)
            emit_known(e, s->id);
        else
            emit_rest(e, text + s->start, end - s->start);
    }
}

/* A stretch that cannot be cut further. */
static sl_status encode_run(sl_encoder *e, const char *text, size_t n)
{
    sl_status rc = reserve(e, n);
    if (rc != SL_OK) return rc;
    e->n_symbol = 0;
    if (e->t->vocab.form == SL_FORM_BYTES)
        symbols_of_bytes(e, text, n);
    else
        symbols_of_chars(e, text, n);
    if (e->n_symbol == 0) return SL_OK;
    e->symbols[0].prev = NO_SYMBOL;
    e->symbols[e->n_symbol - 1].next = NO_SYMBOL;
    merge_all(e, text, n);
    emit_symbols(e, text, n);
    return SL_OK;
}

/* U+2581 becomes a space: vocabularies of form SPACED hold spaces. */
static sl_status fold_low_lines(sl_encoder *e, const char **text, size_t *n)
{
    const char *p = *text, *end = p + *n, *hit = memmem(p, *n, SL_LOW_LINE, 3);
    if (!hit) return SL_OK;
    sl_buf *out = &e->fold;
    out->len = 0;
    for (; hit; hit = memmem(p, (size_t)(end - p), SL_LOW_LINE, 3)) {
        sl_buf_add(out, p, (size_t)(hit - p));
        sl_buf_add(out, " ", 1);
        p = hit + 3;
    }
    sl_buf_add(out, p, (size_t)(end - p));
    if (out->failed) return sl_fail(e->err, SL_ERR_NOMEM, "no memory to encode a piece of %zu bytes", *n);
    *text = out->data;
    *n = out->len;
    return SL_OK;
}

static bool is_newlines(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] != '\n') return false;
    return true;
}

static bool encode_whole(sl_encoder *e, const char *text, size_t n)
{
    const sl_tokenizer *t = e->t;
    if (!t->ignore_merges && !(t->newlines_whole && is_newlines(text, n))) return false;
    int32_t id = sl_vocab_find(&t->vocab, text, n);
    if (id >= 0) emit_known(e, id);
    return id >= 0;
}

sl_status sl_bpe_encode(sl_encoder *e, const char *piece, size_t n_bytes)
{
    const sl_vocab *v = &e->t->vocab;
    sl_status rc = v->form == SL_FORM_SPACED ? fold_low_lines(e, &piece, &n_bytes) : SL_OK;
    e->unk_before = false;
    if (rc != SL_OK || encode_whole(e, piece, n_bytes)) return rc;
    if (v->form == SL_FORM_BYTES || drops_unknown(e->t)) return encode_run(e, piece, n_bytes);
    for (size_t from = 0, i = 1; rc == SL_OK && from < n_bytes; i++) {
        if (i < n_bytes && (((uint8_t)piece[i] & 0xC0) == 0x80 || sl_vocab_joins(v, piece[i - 1], piece[i]))) continue;
        rc = encode_run(e, piece + from, i - from);
        from = i;
    }
    return rc;
}

void sl_bpe_encode_raw(sl_encoder *e, const char *bytes, size_t n_bytes)
{
    e->unk_before = false;
    for (size_t i = 0; i < n_bytes; i++) {
        int32_t id = e->t->vocab.byte_id[(uint8_t)bytes[i]];
        if (id >= 0)
            emit_known(e, id);
        else
            emit_unknown(e);
    }
}
