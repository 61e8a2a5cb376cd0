/* The steps of layers.h over the backend facade.  No family is named here: what differs comes in through the layer and
 * the model's settings. */
#include "model/layers.h"

/* A product of a whole chunk may take seconds on a large model; it is cut into token groups of about this many
 * multiply-adds, so that a cancel is seen in time.  The cut cannot change a bit (backend.h, the law). */
#define GROUP_WORK 4000000000ull
#define GROUP_MIN  16u

/* Between two pieces of work: keeps the drive busy and looks whether the caller has had enough. */
bool sl_step_canceled(sl_forward *f)
{
    if (f->res) sl_residency_drive(f->res);
    if (f->experts && f->experts->ops->drive) f->experts->ops->drive(f->experts);
    if (f->cancel && *f->cancel) f->canceled = true;
    return f->canceled;
}

static uint32_t group_tok(const sl_product *p, uint32_t n_product)
{
    uint64_t work = 1;
    for (uint32_t i = 0; i < n_product; i++) work += (uint64_t)p[i].w->n_in * p[i].w->n_out;
    uint64_t n = GROUP_WORK / work;
    return n < GROUP_MIN ? GROUP_MIN : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static void multiply(sl_forward *f, const sl_product *p, uint32_t n_product, const float *x, size_t ld_x)
{
    uint32_t step = group_tok(p, n_product);
    sl_product part[3];
    for (uint32_t t = 0; t < f->n_tok && !sl_step_canceled(f); t += step) {
        uint32_t n = f->n_tok - t < step ? f->n_tok - t : step;
        for (uint32_t i = 0; i < n_product; i++) {
            part[i] = p[i];
            part[i].y += t * p[i].ld_y;
        }
        sl_matmul(f->be, part, n_product, x + t * ld_x, ld_x, n);
    }
}

static void add_bias(sl_forward *f, float *y, const float *bias, uint32_t n)
{
    if (bias) sl_add_bias(f->be, y, n, bias, n, f->n_tok);
}

void sl_step_norm(sl_forward *f, const float *w)
{
    uint32_t n = f->m->c.n_embd;
    sl_rmsnorm(f->be, f->h, n, f->x, n, w, n, f->n_tok, f->m->c.eps);
}

void sl_step_norm_branch(sl_forward *f, const float *w)
{
    uint32_t n = f->m->c.n_embd;
    sl_rmsnorm(f->be, f->h, n, f->h, n, w, n, f->n_tok, f->m->c.eps);
}

void sl_step_qkv(sl_forward *f, const sl_layer *l)
{
    uint32_t n_q = l->w[SL_W_Q].n_out, n_kv = l->w[SL_W_K].n_out;
    sl_product p[3] = {{&l->w[SL_W_Q], f->q, n_q}, {&l->w[SL_W_K], f->k, n_kv}, {&l->w[SL_W_V], f->v, n_kv}};
    multiply(f, p, 3, f->h, f->m->c.n_embd);
    add_bias(f, f->q, l->v[SL_V_Q_BIAS], n_q);
    add_bias(f, f->k, l->v[SL_V_K_BIAS], n_kv);
    add_bias(f, f->v, l->v[SL_V_V_BIAS], n_kv);
}

static void clip(float *x, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

void sl_step_qkv_clip(sl_forward *f, const sl_layer *l)
{
    float limit = f->m->c.qkv_clip;
    clip(f->q, (size_t)l->w[SL_W_Q].n_out * f->n_tok, limit);
    clip(f->k, (size_t)l->w[SL_W_K].n_out * f->n_tok, limit);
    clip(f->v, (size_t)l->w[SL_W_V].n_out * f->n_tok, limit);
}

void sl_step_qk_norm(sl_forward *f, const sl_layer *l)
{
    const sl_model_config *c = &f->m->c;
    uint32_t d_q = c->head_dim, d_k = d_q, n_q = f->n_tok, n_k = n_q; /* rows, and how many */
    if (c->qk_norm_whole)
        d_q *= c->n_head, d_k *= c->n_head_kv;
    else
        n_q *= c->n_head, n_k *= c->n_head_kv;
    sl_rmsnorm(f->be, f->q, d_q, f->q, d_q, l->v[SL_V_Q_NORM], d_q, n_q, c->eps);
    sl_rmsnorm(f->be, f->k, d_k, f->k, d_k, l->v[SL_V_K_NORM], d_k, n_k, c->eps);
}

void sl_step_rope(sl_forward *f, const sl_layer *l)
{
    const sl_model_config *c = &f->m->c;
    uint32_t d = c->head_dim;
    sl_rope_apply(f->be, f->q, (size_t)c->n_head * d, c->n_head, d, f->n_tok, f->pos, l->rope);
    sl_rope_apply(f->be, f->k, (size_t)c->n_head_kv * d, c->n_head_kv, d, f->n_tok, f->pos, l->rope);
}

void sl_step_attend(sl_forward *f, const sl_layer *l)
{
    const sl_model_config *c = &f->m->c;
    uint32_t n_q = c->n_head * c->head_dim, n_kv = c->n_head_kv * c->head_dim;
    uint64_t at = f->pos * f->kv_row_bytes;
    if (sl_step_canceled(f)) return;
    sl_kv_store(f->be, f->kv_type, (uint8_t *)f->kv_k + at, f->k, n_kv, n_kv, f->n_tok);
    sl_kv_store(f->be, f->kv_type, (uint8_t *)f->kv_v + at, f->v, n_kv, n_kv, f->n_tok);
    sl_attention a = {.out = f->att, .q = f->q, .ld_out = n_q, .ld_q = n_q, .k = f->kv_k, .v = f->kv_v,
                      .row_bytes = f->kv_row_bytes, .type = f->kv_type, .n_head = c->n_head, .n_head_kv = c->n_head_kv,
                      .head_dim = c->head_dim, .n_tok = f->n_tok, .pos = f->pos, .window = l->window,
                      .scale = c->attn_scale, .softcap = c->attn_softcap, .sinks = l->v[SL_V_SINKS]};
    sl_attend(f->be, &a);
}

void sl_step_attn_out(sl_forward *f, const sl_layer *l)
{
    uint32_t n = f->m->c.n_embd;
    sl_product p = {&l->w[SL_W_O], f->h, n};
    multiply(f, &p, 1, f->att, l->w[SL_W_O].n_in);
    add_bias(f, f->h, l->v[SL_V_O_BIAS], n);
}

void sl_step_gated_mlp(sl_forward *f, const sl_layer *l)
{
    const sl_model_config *c = &f->m->c;
    uint32_t n = c->n_ff;
    sl_product in[2] = {{&l->w[SL_W_GATE], f->gate, n}, {&l->w[SL_W_UP], f->up, n}};
    multiply(f, in, 2, f->h, c->n_embd);
    sl_glu(f->be, f->gate, n, f->gate, n, f->up, n, n, f->n_tok, c->act);
    sl_product out = {&l->w[SL_W_DOWN], f->h, c->n_embd};
    multiply(f, &out, 1, f->gate, n);
}

void sl_step_residual(sl_forward *f)
{
    uint32_t n = f->m->c.n_embd;
    if (f->m->c.residual_scale != 1) sl_scale(f->be, f->h, n, f->m->c.residual_scale, n, f->n_tok);
    sl_add(f->be, f->x, n, f->h, n, n, f->n_tok);
}

void sl_layer_feed_forward(sl_forward *f, const sl_layer *l)
{
    sl_step_norm(f, l->v[SL_V_FFN_NORM]);
    if (l->experts)
        sl_step_moe(f, l);
    else
        sl_step_gated_mlp(f, l);
    sl_step_residual(f);
}

void sl_layer_pre_norm(sl_forward *f, const sl_layer *l)
{
    sl_step_norm(f, l->v[SL_V_ATTN_NORM]);
    sl_step_qkv(f, l);
    if (l->v[SL_V_Q_NORM]) sl_step_qk_norm(f, l);
    if (f->m->c.qkv_clip > 0) sl_step_qkv_clip(f, l);
    sl_step_rope(f, l);
    sl_step_attend(f, l);
    sl_step_attn_out(f, l);
    sl_step_residual(f);

    sl_layer_feed_forward(f, l);
}
