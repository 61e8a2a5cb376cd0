/* What the next layers will probably need: their routers on this layer's state, before this layer's experts have added to
 * it.  Right often enough to read by, never used to compute. */
#include "model/moe.h"

enum {
    SAMPLE = 128,          /* tokens of a chunk that are asked: they name nearly all experts that the others need */
    MAX_EXPERT = SL_MAX_EXPERT,
};

/* The next layer with experts; layer itself: there is none. */
static uint32_t next_sparse(const sl_model *m, uint32_t layer)
{
    for (uint32_t i = layer + 1; i < m->c.n_layer; i++)
        if (m->c.sparse[i]) return i;
    return layer;
}

static bool router_of(sl_forward *f, uint32_t layer, sl_matrix *router)
{
    uint32_t before = f->m->roles[layer] & ((1u << SL_W_ROUTER) - 1);
    return f->res && sl_residency_peek(f->res, layer, (uint32_t)__builtin_popcount(before), router);
}

/* Of ids [n], each one once, in ascending order, as a chunk's demand has them; returns their number. */
static uint32_t distinct(uint32_t *ids, uint32_t n)
{
    uint64_t seen[MAX_EXPERT / 64] = {0};
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) seen[ids[i] / 64] |= UINT64_C(1) << ids[i] % 64;
    for (uint32_t e = 0; e < MAX_EXPERT; e++)
        if (seen[e / 64] >> e % 64 & 1) ids[k++] = e;
    return k;
}

/* Of the scratch: in, logits, ids and out, which hold nothing now. */
static void guess(sl_forward *f, sl_expert_source *src, uint32_t next)
{
    const sl_model_config *c = &f->m->c;
    const sl_routing *r = &c->moe.routing;
    sl_moe_scratch *s = &f->moe;
    const float *const *v = f->m->v[next];
    uint32_t step = (f->n_tok + SAMPLE - 1) / SAMPLE, n = (f->n_tok + step - 1) / step;
    sl_matrix router;
    if (!v[SL_V_FFN_NORM] || !src->ops->wants(src, next) || !router_of(f, next, &router)) return;
    sl_rmsnorm(f->be, s->in, c->n_embd, f->x, (size_t)step * c->n_embd, v[SL_V_FFN_NORM], c->n_embd, n, c->eps);
    sl_product p = {&router, s->logits, r->n_expert};
    sl_matmul(f->be, &p, 1, s->in, c->n_embd, n);
    if (v[SL_V_ROUTER_BIAS]) sl_add_bias(f->be, s->logits, r->n_expert, v[SL_V_ROUTER_BIAS], r->n_expert, n);
    sl_route(f->be, r, s->logits, v[SL_V_CHOICE_BIAS], s->ids, r->n_used, s->out, r->n_used, n);
    src->ops->ahead(src, next, s->ids, n == 1 ? r->n_used : distinct(s->ids, n * r->n_used));
}

/* A token: two layers on, for misses come unevenly, and what one layer leaves of the drive's time is the next one's to use;
 * the first layer with experts also speaks for the one right behind it.  A chunk: the next layer, of which it will need
 * nearly all. */
void sl_moe_look_ahead(sl_forward *f, sl_expert_source *src, uint32_t layer)
{
    const sl_model *m = f->m;
    uint32_t next = next_sparse(m, layer), after = next_sparse(m, next);
    if (!src->ops->wants || !src->ops->ahead) return;
    bool first = !m->c.sparse[0] ? next_sparse(m, 0) == layer : layer == 0;
    if ((first || f->n_tok > 1) && next != layer) guess(f, src, next);
    if (f->n_tok == 1 && after != next) guess(f, src, after);
}
