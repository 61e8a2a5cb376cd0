/* One timeline of tokens: its keys and values, its logits.
 *
 * KV layout: per executed layer an area of K rows and one of V rows, each for the whole context, page-aligned.  The
 * address range and the ledger entry are taken at once (so a session can't fail for memory later); pages are committed
 * in geometric steps as the text grows, before a sweep and never inside one. */
#include "engine/engine_int.h"

#include "os/os.h"

#include <string.h>

#define COMMIT_FIRST_TOK 64u
#define ROWS_MAX         64u /* feed_all: rows of logits per sweep */

static sl_status open_kv(sl_session *s, sl_err *err)
{
    sl_engine *e = s->e;
    s->ctx_tok = e->plan.ctx_tok;
    s->row_bytes = sl_kv_row_bytes(e->kv_type, (uint32_t)sl_model_kv_row_elems(e->parts.model));
    s->area_bytes = sl_round_up(s->row_bytes * s->ctx_tok, 4096);
    uint64_t bytes = sl_kv_bytes_for(&e->parts, e->kv_type, s->ctx_tok);
    return sl_block_open(&s->kv, &e->ledger, SL_MEM_KV, bytes, SL_BLOCK_LAZY, "KV cache", err);
}

sl_status sl_session_open(sl_session **out, sl_engine *e, sl_err *err)
{
    sl_session *s = sl_calloc(1, sizeof *s);
    if (!s) return sl_fail(err, SL_ERR_NOMEM, "no memory for a session");
    s->e = e;
    uint64_t logits_bytes = (uint64_t)e->parts.model->c.n_vocab * sizeof(float);
    sl_status rc = open_kv(s, err);
    if (rc == SL_OK)
        rc = sl_block_open(&s->logits_block, &e->ledger, SL_MEM_SCRATCH, logits_bytes, 0, "logits", err);
    if (rc != SL_OK) {
        sl_session_close(s);
        return rc;
    }
    s->logits = (float *)(void *)s->logits_block.ptr;
    *out = s;
    return SL_OK;
}

void sl_session_close(sl_session *s)
{
    if (!s) return;
    sl_block_close(&s->kv);
    sl_block_close(&s->logits_block);
    sl_block_close(&s->rows_block);
    sl_free(s);
}

/* ---- growth ---- */

static sl_status commit_areas(sl_session *s, uint32_t from_tok, uint32_t to_tok, sl_err *err)
{
    for (uint32_t i = 0; i < sl_model_kv_areas(s->e->parts.model) * s->e->parts.n_exec; i++) {
        uint64_t from = i * s->area_bytes + from_tok * s->row_bytes;
        sl_status rc = sl_block_commit(&s->kv, from, (to_tok - from_tok) * s->row_bytes, err);
        if (rc != SL_OK) return rc;
    }
    return SL_OK;
}

static sl_status grow(sl_session *s, uint32_t need_tok, sl_err *err)
{
    uint32_t to = s->committed_tok ? s->committed_tok : COMMIT_FIRST_TOK;
    if (need_tok <= s->committed_tok) return SL_OK;
    while (to < need_tok) to *= 2;
    if (to > s->ctx_tok) to = s->ctx_tok;
    sl_status rc = commit_areas(s, s->committed_tok, to, err);
    if (rc == SL_OK) s->committed_tok = to;
    return rc;
}

/* ---- feeding ---- */

static sl_status check_feed(const sl_session *s, const int32_t *tokens, size_t n, sl_err *err)
{
    uint32_t n_vocab = s->e->parts.model->c.n_vocab;
    if (n == 0) return sl_fail(err, SL_ERR_ARG, "no tokens to feed");
    if (n > s->ctx_tok - s->n_tok)
        return sl_fail(err, SL_ERR_LIMIT, "the context is full: %u tokens are in it, %zu more asked for, %u is its size",
                       s->n_tok, n, s->ctx_tok);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= n_vocab)
            return sl_fail(err, SL_ERR_ARG, "token %zu is %d, outside 0 to %u", i, tokens[i], n_vocab - 1);
    return SL_OK;
}

static uint64_t bytes_read(const sl_session *s)
{
    return __atomic_load_n(&s->e->io->bytes_read, __ATOMIC_RELAXED);
}

static void report(const sl_session *s, size_t done, size_t n, double start, uint64_t start_bytes)
{
    const sl_engine_options *o = &s->e->opt;
    if (!o->progress || n < 2) return;
    sl_progress p = {.phase = SL_PHASE_PREFILL,
                     .done_bytes = bytes_read(s) - start_bytes,
                     .done_tok = done,
                     .total_tok = n,
                     .elapsed_s = sl_now_s() - start};
    o->progress(o->progress_user, &p);
}

/* A pass over tokens in chunks; rows: logits of every token go to each(), else those of the last stay in s->logits. */
typedef struct {
    uint32_t chunk;
    bool (*each)(void *user, size_t i, const float *logits);
    void *user;
} pass;

static sl_status call_each(sl_session *s, const pass *p, size_t done, uint32_t n, const float *rows, sl_err *err)
{
    uint32_t n_vocab = s->e->parts.model->c.n_vocab;
    for (uint32_t i = 0; i < n; i++)
        if (!p->each(p->user, done + i, rows + (size_t)i * n_vocab)) return sl_fail(err, SL_ERR_CANCELED, "canceled");
    return SL_OK;
}

static sl_status run_chunk(sl_session *s, const pass *p, const int32_t *tokens, size_t done, uint32_t n, bool last, sl_err *err)
{
    uint32_t pos = s->n_tok + (uint32_t)done;
    float *rows = s->rows_tok > 1 ? (float *)(void *)s->rows_block.ptr : s->logits;
    if (!p->each) return sl_sweep(s, tokens, n, pos, last ? 1 : 0, s->logits, last, err);
    sl_status rc = sl_sweep(s, tokens, n, pos, n, rows, true, err);
    if (rc == SL_OK) rc = call_each(s, p, done, n, rows, err);
    if (rc == SL_OK && last && rows != s->logits) {
        uint32_t n_vocab = s->e->parts.model->c.n_vocab;
        memcpy(s->logits, rows + (size_t)(n - 1) * n_vocab, n_vocab * sizeof(float));
    }
    return rc;
}

static sl_status run_pass(sl_session *s, const pass *p, const int32_t *tokens, size_t n, sl_err *err)
{
    double start = sl_now_s();
    uint64_t start_bytes = bytes_read(s);
    sl_status rc = grow(s, s->n_tok + (uint32_t)n, err);
    s->logits_valid = false;
    for (size_t done = 0; rc == SL_OK && done < n;) {
        uint32_t step = (uint32_t)sl_min_u64(p->chunk, n - done);
        if (s->cancel) return sl_fail(err, SL_ERR_CANCELED, "canceled");
        rc = run_chunk(s, p, tokens + done, done, step, done + step == n, err);
        done += step;
        if (rc == SL_OK) report(s, done, n, start, start_bytes);
    }
    if (rc != SL_OK) return rc;
    s->n_tok += (uint32_t)n;
    s->logits_valid = true;
    return SL_OK;
}

static sl_status feed(sl_session *s, const pass *p, const int32_t *tokens, size_t n, sl_err *err)
{
    sl_status rc = check_feed(s, tokens, n, err);
    if (rc != SL_OK) return rc;
    if (__atomic_exchange_n(&s->e->busy, 1, __ATOMIC_ACQUIRE))
        return sl_fail(err, SL_ERR_ARG, "another session of this engine is feeding");
    rc = run_pass(s, p, tokens, n, err);
    __atomic_store_n(&s->e->busy, 0, __ATOMIC_RELEASE);
    return rc;
}

sl_status sl_session_feed(sl_session *s, const int32_t *tokens, size_t n, sl_err *err)
{
    pass p = {.chunk = s->e->plan.prefill_chunk_tok};
    return feed(s, &p, tokens, n, err);
}

/* As many rows of logits per sweep as the budget still allows, at least the one that every session has. */
static void open_rows(sl_session *s)
{
    uint64_t row = (uint64_t)s->e->parts.model->c.n_vocab * sizeof(float);
    for (uint32_t n = ROWS_MAX; n > 1 && !s->rows_block.ptr; n /= 2) {
        if (n > s->e->plan.prefill_chunk_tok) continue;
        if (sl_block_open(&s->rows_block, &s->e->ledger, SL_MEM_SCRATCH, row * n, 0, "rows of logits", NULL) == SL_OK)
            s->rows_tok = n;
    }
    if (!s->rows_tok) s->rows_tok = 1;
}

sl_status sl_session_feed_all(sl_session *s, const int32_t *tokens, size_t n,
                              bool (*each)(void *user, size_t i, const float *logits), void *user, sl_err *err)
{
    if (!s->rows_tok) open_rows(s);
    pass p = {.chunk = s->rows_tok, .each = each, .user = user};
    return feed(s, &p, tokens, n, err);
}

/* ---- position ---- */

const float *sl_session_logits(const sl_session *s)
{
    return s->logits_valid ? s->logits : NULL;
}

uint32_t sl_session_pos_tok(const sl_session *s)
{
    return s->n_tok;
}

uint32_t sl_session_room_tok(const sl_session *s)
{
    return s->ctx_tok - s->n_tok;
}

sl_status sl_session_rewind(sl_session *s, uint32_t n_tok, sl_err *err)
{
    if (n_tok > s->n_tok) return sl_fail(err, SL_ERR_ARG, "can't rewind to %u tokens, there are %u", n_tok, s->n_tok);
    if (n_tok != s->n_tok) s->logits_valid = false;
    s->n_tok = n_tok;
    return SL_OK;
}

void sl_session_reset(sl_session *s)
{
    s->n_tok = 0;
    s->logits_valid = false;
}

void sl_session_cancel(sl_session *s)
{
    s->cancel = true;
}

void sl_session_uncancel(sl_session *s)
{
    s->cancel = false;
}

void sl_session_set_layer_hook(sl_session *s, void (*hook)(void *user, const sl_layer_event *e), void *user)
{
    s->hook = hook;
    s->hook_user = user;
}
