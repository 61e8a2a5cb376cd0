/* The forward pass over one chunk: embed, layers, final norm, head by blocks.  The engine calls these in order and
 * holds the units meanwhile. */
#include "model/family.h"

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
    f->k = sl_arena_take(a, n_kv * max_tok, sizeof(float), 64);
    f->v = sl_arena_take(a, n_kv * max_tok, sizeof(float), 64);
    f->gate = sl_arena_take(a, (size_t)c->n_ff * max_tok, sizeof(float), 64);
    f->up = sl_arena_take(a, (size_t)c->n_ff * max_tok, sizeof(float), 64);
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

void sl_forward_layer(sl_forward *f, uint32_t i_layer, const sl_matrix *views)
{
    const sl_model *m = f->m;
    sl_layer l;
    bool local = m->c.window && m->c.windowed[i_layer];
    memcpy(l.w, views, sizeof l.w);
    memcpy(l.v, m->v[i_layer], sizeof l.v);
    l.window = local ? m->c.window : 0;
    l.rope = m->c.has_rope_local && m->c.windowed[i_layer] ? &m->rope_local : &m->rope;
    m->family->layer(f, &l);
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
    if (c->final_softcap > 0) sl_softcap(f->be, logits, c->n_vocab, c->final_softcap, c->n_vocab, n_row);
}
