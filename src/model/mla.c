/* Latent attention (DeepSeek-V2 and -V3), in its absorbed form, for prefill and decoding alike.
 *
 * Per token only a latent c [kv_rank] and one rotated key k_pe [n_rope] are cached.  A head's key is (Wk_h c, k_pe) and its
 * value Wv_h c, so with q' = Wk_h^T q_nope
 *     score = scale * (q' . c + q_pe . k_pe)          and          out_h = Wv_h * (sum of weights * c)
 * which is ordinary attention with one key/value head of kv_rank + n_rope dimensions, whose values are the keys (what the sum
 * makes of the rotated part is not looked at).
 *
 * GGUF has Wk transposed per head (k_b [n_head][kv_rank][n_nope]) and Wv (v_b) apart; Hugging Face and older GGUF files have one
 * matrix with n_nope rows of keys and n_v rows of values for each head (kv_b). */
#include "model/layers.h"

#include <string.h>

enum { HEADS = 32 }; /* in one call */

static void project(sl_forward *f, const sl_matrix *w, float *y, const float *x)
{
    sl_product p = {w, y, w->n_out};
    sl_matmul(f->be, &p, 1, x, w->n_in, f->n_tok);
}

/* q [n_head][n_nope + n_rope] and latent [kv_rank + n_rope], normed and rotated. */
static void queries_and_latent(sl_forward *f, const sl_layer *l)
{
    const sl_model_config *c = &f->m->c;
    const sl_latent_config *d = &c->latent;
    uint32_t width = d->kv_rank + d->n_rope;
    if (d->q_rank) {
        project(f, &l->w[SL_W_Q_A], f->q_low, f->h);
        sl_rmsnorm(f->be, f->q_low, d->q_rank, f->q_low, d->q_rank, l->v[SL_V_Q_A_NORM], d->q_rank, f->n_tok, d->eps);
        project(f, &l->w[SL_W_Q_B], f->q, f->q_low);
    } else {
        project(f, &l->w[SL_W_Q], f->q, f->h);
    }
    project(f, &l->w[SL_W_KV_A], f->latent, f->h);
    sl_rmsnorm(f->be, f->latent, width, f->latent, width, l->v[SL_V_KV_A_NORM], d->kv_rank, f->n_tok, d->eps);
    sl_rope_apply(f->be, f->q + d->n_nope, (size_t)c->n_head * c->head_dim, c->n_head, c->head_dim, f->n_tok, f->pos, l->rope);
    sl_rope_apply(f->be, f->latent + d->kv_rank, width, 1, d->n_rope, f->n_tok, f->pos, l->rope);
}

/* The matrix of one head: keys, or values. */
static sl_matrix head_of(const sl_forward *f, const sl_layer *l, uint32_t h, bool values)
{
    const sl_latent_config *d = &f->m->c.latent;
    if (!d->split) {
        uint32_t first = h * (d->n_nope + d->n_v);
        return sl_matrix_rows(&l->w[SL_W_KV_B], values ? first + d->n_nope : first, values ? d->n_v : d->n_nope, 1);
    }
    if (values) return sl_matrix_rows(&l->w[SL_W_V_B], h * d->n_v, d->n_v, 1);
    return sl_matrix_rows(&l->w[SL_W_K_B], h * d->kv_rank, d->kv_rank, 1);
}

/* y of every head from x of every head, by the heads' own matrices. */
static void by_heads(sl_forward *f, const sl_layer *l, bool values, const float *x, uint32_t n_x, float *y, uint32_t n_y)
{
    uint32_t n_head = f->m->c.n_head;
    sl_matrix w[HEADS];
    sl_matmul_job jobs[HEADS];
    for (uint32_t h = 0, n; h < n_head && !sl_step_canceled(f); h += n) {
        n = n_head - h < HEADS ? n_head - h : HEADS;
        for (uint32_t i = 0; i < n; i++) {
            w[i] = head_of(f, l, h + i, values);
            jobs[i] = (sl_matmul_job){&w[i], x + (size_t)(h + i) * n_x, y + (size_t)(h + i) * n_y, (size_t)n_head * n_x,
                                      (size_t)n_head * n_y, f->n_tok};
        }
        if (values || f->m->c.latent.split)
            sl_matmul_jobs(f->be, jobs, n);
        else
            sl_matmul_transposed(f->be, jobs, n);
    }
}

void sl_step_latent_attend(sl_forward *f, const sl_layer *l)
{
    const sl_model_config *c = &f->m->c;
    const sl_latent_config *d = &c->latent;
    uint32_t width = d->kv_rank + d->n_rope;
    if (sl_step_canceled(f)) return;
    queries_and_latent(f, l);
    sl_kv_store(f->be, f->kv_type, (uint8_t *)f->kv_k + f->pos * f->kv_row_bytes, f->latent, width, width, f->n_tok);
    by_heads(f, l, false, f->q, c->head_dim, f->absorbed, width);
    for (size_t i = 0; i < (size_t)f->n_tok * c->n_head; i++)
        memcpy(f->absorbed + i * width + d->kv_rank, f->q + i * c->head_dim + d->n_nope, d->n_rope * sizeof *f->q);
    size_t ld = (size_t)c->n_head * width;
    sl_attention a = {.out = f->mixed, .q = f->absorbed, .ld_out = ld, .ld_q = ld, .k = f->kv_k, .v = f->kv_k,
                      .row_bytes = f->kv_row_bytes, .type = f->kv_type, .n_head = c->n_head, .n_head_kv = 1, .head_dim = width,
                      .n_tok = f->n_tok, .pos = f->pos, .scale = c->attn_scale};
    sl_attend(f->be, &a);
    by_heads(f, l, true, f->mixed, width, f->att, d->n_v);
}
