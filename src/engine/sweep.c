/* The executor: one pass over the layers for one chunk of tokens.
 *
 * The life of a token is the list in sl_sweep: embed, each layer with its unit held, final norm, head by blocks.  The
 * residency reads ahead while layers compute; a failure or a cancel ends the sweep with nothing held. */
#include "engine/engine_int.h"

static sl_status canceled(sl_err *err)
{
    return sl_fail(err, SL_ERR_CANCELED, "canceled");
}

static void set_kv(sl_session *s, uint32_t position)
{
    sl_forward *f = &s->e->fwd;
    uint32_t n_area = sl_model_kv_areas(s->e->parts.model);
    f->kv_k = s->kv.ptr + (size_t)position * n_area * s->area_bytes;
    f->kv_v = n_area == 2 ? (uint8_t *)f->kv_k + s->area_bytes : f->kv_k;
    f->kv_row_bytes = s->row_bytes;
}

static void call_hook(sl_session *s, const int32_t *tokens, uint32_t position)
{
    sl_engine *e = s->e;
    sl_layer_event ev = {
        .layer_index = e->parts.exec[position],
        .position = position,
        .is_first = position == 0,
        .is_last = position == e->parts.n_exec - 1,
        .tokens = tokens,
        .n_tok = e->fwd.n_tok,
        .hidden = e->fwd.x,
        .n_embd = e->fwd.m->c.n_embd,
    };
    s->hook(s->hook_user, &ev);
}

static sl_status run_layer(sl_session *s, const int32_t *tokens, uint32_t position, sl_err *err)
{
    sl_engine *e = s->e;
    sl_status rc = sl_residency_acquire(e->res, position, e->views, err);
    if (rc != SL_OK) return rc;
    set_kv(s, position);
    double from = sl_now_s();
    rc = sl_forward_layer(&e->fwd, e->parts.exec[position], e->views, err);
    e->compute_s += sl_now_s() - from;
    sl_residency_release(e->res, position);
    if (e->fwd.canceled || s->cancel) return canceled(err);
    if (rc != SL_OK) return rc;
    e->layers_executed++;
    if (s->hook) call_hook(s, tokens, position);
    return SL_OK;
}

static sl_status run_head(sl_session *s, uint32_t n_row, float *logits, sl_err *err)
{
    sl_engine *e = s->e;
    sl_forward_final_norm(&e->fwd, n_row);
    for (uint32_t b = 0; b < e->n_head; b++) {
        uint32_t at = e->parts.n_exec + b;
        sl_status rc = sl_residency_acquire(e->res, at, e->views, err);
        if (rc != SL_OK) return rc;
        double from = sl_now_s();
        sl_forward_head_block(&e->fwd, b, &e->views[0], n_row, logits);
        e->compute_s += sl_now_s() - from;
        sl_residency_release(e->res, at);
        if (s->cancel) return canceled(err);
    }
    sl_forward_head_finish(&e->fwd, n_row, logits);
    return SL_OK;
}

static sl_status run_units(sl_session *s, const int32_t *tokens, uint32_t n_row, float *logits, sl_err *err)
{
    sl_status rc = sl_forward_embed(&s->e->fwd, s->e->res, tokens, err);
    for (uint32_t i = 0; rc == SL_OK && i < s->e->parts.n_exec; i++) rc = run_layer(s, tokens, i, err);
    if (rc == SL_OK && n_row) rc = run_head(s, n_row, logits, err);
    return rc;
}

sl_status sl_sweep(sl_session *s, const int32_t *tokens, uint32_t n, uint32_t pos, uint32_t n_row, float *logits,
                   bool again, sl_err *err)
{
    sl_engine *e = s->e;
    e->fwd.n_tok = n;
    e->fwd.pos = pos;
    e->fwd.cancel = &s->cancel;
    e->fwd.canceled = false;
    e->io->cancel = &s->cancel;
    if (e->experts) sl_experts_sweep(e->experts, n);
    uint32_t n_unit = e->parts.n_exec + (n_row ? e->n_head : 0);
    sl_status rc = sl_residency_begin(e->res, e->sequence, n_unit, again, err);
    if (rc != SL_OK) return rc;
    rc = run_units(s, tokens, n_row, logits, err);
    sl_residency_end(e->res);
    e->io->cancel = NULL; /* what is read ahead now belongs to no request */
    if (rc != SL_OK) e->failed++;
    return rc;
}
