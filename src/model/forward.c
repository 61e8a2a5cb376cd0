/* The forward pass over one chunk: embed, layers, final norm, head by blocks.  The engine calls these in order and
 * holds the units meanwhile. */
#include "model/family.h"
#include "model/moe.h"

#include <string.h>

void sl_forward_layout(sl_forward *f, sl_arena *a, const sl_model *m, uint32_t max_tok)
{
    const sl_model_config *c = &m->c;
    size_t n_q = (size_t)c->n_head * c->head_dim, n_kv = (size_t)c->n_head_kv * c->head_dim;
    uint64_t row_bytes = 0;
    sl_type_row_bytes(m->embd->type, c->n_embd, &row_bytes);
    f->x = sl_arena_take(a, (size_t)c->n_embd * max_tok, sizeof(float), 64);
    f->h = sl_arena_take(a, (size_t)c->n_embd * max_tok, sizeof(float), 64);
    f->q = sl_arena_take(a, n_q * max_tok, sizeof(float), 64);
    f->att = sl_arena_take(a, n_q * max_tok, sizeof(float), 64);
    if (c->latent.kv_rank) n_kv = 0; /* in latent */
    f->k = sl_arena_take(a, n_kv * max_tok, sizeof(float), 64);
    f->v = sl_arena_take(a, n_kv * max_tok, sizeof(float), 64);
    const sl_latent_config *l = &c->latent;
    size_t n_low = (size_t)c->n_head * (l->kv_rank + l->n_rope);
    if (l->kv_rank) {
        if ((size_t)c->n_head * l->n_v > n_q) f->att = sl_arena_take(a, (size_t)c->n_head * l->n_v * max_tok, sizeof(float), 64);
        f->q_low = sl_arena_take(a, (size_t)l->q_rank * max_tok, sizeof(float), 64);
        f->latent = sl_arena_take(a, (size_t)(l->kv_rank + l->n_rope) * max_tok, sizeof(float), 64);
        f->absorbed = sl_arena_take(a, n_low * max_tok, sizeof(float), 64);
        f->mixed = sl_arena_take(a, n_low * max_tok, sizeof(float), 64);
    }
    size_t n_ff = c->moe.n_ff_shared > c->n_ff ? c->moe.n_ff_shared : c->n_ff;
    f->gate = sl_arena_take(a, n_ff * max_tok, sizeof(float), 64);
    f->up = sl_arena_take(a, n_ff * max_tok, sizeof(float), 64);
    if (c->moe.routing.n_expert) sl_moe_layout(&f->moe, a, c, max_tok);
    f->raw = sl_arena_take(a, row_bytes, max_tok, 64);
}

sl_status sl_forward_embed(sl_forward *f, sl_residency *r, const int32_t *tokens, sl_err *err)
{
    const sl_model_config *c = &f->m->c;
    const sl_type_info *type = f->m->embd->type;
    uint64_t row_bytes = 0;
    sl_type_row_bytes(type, c->n_embd, &row_bytes);
    sl_status rc = sl_residency_table_rows(r, tokens, f->n_tok, f->raw, err);
    if (rc != SL_OK) return rc;
    for (uint32_t t = 0; t < f->n_tok; t++)
        type->dequantise(f->raw + t * row_bytes, f->x + (size_t)t * c->n_embd, c->n_embd);
    if (c->embd_scale != 1) sl_scale(f->be, f->x, c->n_embd, c->embd_scale, c->n_embd, f->n_tok);
    return SL_OK;
}

sl_status sl_forward_layer(sl_forward *f, uint32_t i_layer, const sl_matrix *views, sl_err *err)
{
    const sl_model *m = f->m;
    sl_layer l = {.index = i_layer};
    bool local = m->c.window && m->c.windowed[i_layer];
    for (uint32_t role = 0; role < SL_W_COUNT; role++)
        if (m->roles[i_layer] >> role & 1) l.w[role] = *views++;
    if (m->c.sparse[i_layer]) l.experts = &m->experts[i_layer];
    l.expert_views = views;
    memcpy(l.v, m->v[i_layer], sizeof l.v);
    l.window = local ? m->c.window : 0;
    l.rope = m->c.has_rope_local && m->c.windowed[i_layer] ? &m->rope_local : &m->rope;
    f->status = SL_OK;
    m->family->layer(f, &l);
    if (f->status == SL_OK) return SL_OK;
    return sl_fail(err, f->status, "%s", f->err.msg);
}

void sl_forward_final_norm(sl_forward *f, uint32_t n_row)
{
    uint32_t n = f->m->c.n_embd;
    const float *from = f->x + (size_t)(f->n_tok - n_row) * n;
    sl_rmsnorm(f->be, f->h, n, from, n, f->m->final_norm, n, n_row, f->m->c.eps);
}

void sl_forward_head_block(sl_forward *f, uint32_t i_block, const sl_matrix *view, uint32_t n_row, float *logits)
{
    const sl_model *m = f->m;
    const sl_unit_rows *rows = m->units[m->c.n_layer + i_block].rows;
    sl_product p = {view, logits + rows->first_row, m->c.n_vocab};
    sl_matmul(f->be, &p, 1, f->h, m->c.n_embd, n_row);
}

void sl_forward_head_finish(sl_forward *f, uint32_t n_row, float *logits)
{
    const sl_model_config *c = &f->m->c;
    if (c->logit_scale != 1) sl_scale(f->be, logits, c->n_vocab, c->logit_scale, c->n_vocab, n_row);
    if (c->final_softcap > 0) sl_softcap(f->be, logits, c->n_vocab, c->final_softcap, c->n_vocab, n_row);
}
