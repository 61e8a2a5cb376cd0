/* The mixture-of-experts block: router, choice of experts, grouped products, and the sum.
 *
 * A chunk's tokens are grouped by expert.  A batch is some experts of a wave whose rows fit the scratch: their rows of h are
 * gathered, all gate and up products go out together, then all down products.  Every output row keeps its place until
 * all are there; then each token's are added in the order of its routing.  So nothing depends on which expert came when, on
 * how waves and batches were cut, or on which tokens share a chunk. */
#include "model/layers.h"
#include "model/moe.h"

#include "base/mathx.h"

#include <string.h>

enum { WAVE = 16 }; /* experts taken from the source at a time: enough work for all threads in decoding */

void sl_moe_layout(sl_moe_scratch *s, sl_arena *a, const sl_model_config *c, uint32_t max_tok)
{
    const sl_moe_config *moe = &c->moe;
    size_t n_expert = moe->routing.n_expert, n_used = moe->routing.n_used;
    s->n_slot = (uint32_t)n_used + (moe->n_ff_shared > 0);
    s->max_row = max_tok > WAVE ? max_tok : WAVE;
    s->logits = sl_arena_take(a, n_expert * max_tok, sizeof(float), 64);
    s->ids = sl_arena_take(a, n_used * max_tok, sizeof(uint32_t), 64);
    s->weights = sl_arena_take(a, (size_t)s->n_slot * max_tok, sizeof(float), 64);
    s->row = sl_arena_take(a, (size_t)s->n_slot * max_tok, sizeof(uint32_t), 64);
    s->token = sl_arena_take(a, n_used * max_tok, sizeof(uint32_t), 64);
    s->first = sl_arena_take(a, n_expert + 1, sizeof(uint32_t), 64);
    s->used = sl_arena_take(a, n_expert, sizeof(uint32_t), 64);
    s->in = sl_arena_take(a, (size_t)s->max_row * c->n_embd, sizeof(float), 64);
    s->gate = sl_arena_take(a, (size_t)s->max_row * moe->n_ff, sizeof(float), 64);
    s->up = sl_arena_take(a, (size_t)s->max_row * moe->n_ff, sizeof(float), 64);
    s->out = sl_arena_take(a, (size_t)s->n_slot * max_tok * c->n_embd, sizeof(float), 64);
}

/* ---- which token goes where ---- */

static void route(sl_forward *f, const sl_layer *l)
{
    sl_moe_scratch *s = &f->moe;
    const sl_routing *r = &f->m->c.moe.routing;
    sl_product p = {&l->w[SL_W_ROUTER], s->logits, r->n_expert};
    sl_matmul(f->be, &p, 1, f->h, f->m->c.n_embd, f->n_tok);
    if (l->v[SL_V_ROUTER_BIAS]) sl_add_bias(f->be, s->logits, r->n_expert, l->v[SL_V_ROUTER_BIAS], r->n_expert, f->n_tok);
    sl_route(f->be, r, s->logits, l->v[SL_V_CHOICE_BIAS], s->ids, r->n_used, s->weights, s->n_slot, f->n_tok);
}

/* Fills first, used, token and row by counting; returns the number of experts used. */
static uint32_t group(sl_forward *f)
{
    sl_moe_scratch *s = &f->moe;
    uint32_t n_expert = f->m->c.moe.routing.n_expert, n_used = f->m->c.moe.routing.n_used, n = 0;
    memset(s->first, 0, (n_expert + 1) * sizeof *s->first);
    for (uint32_t i = 0; i < f->n_tok * n_used; i++) s->first[s->ids[i] + 1]++;
    for (uint32_t e = 0; e < n_expert; e++) {
        if (s->first[e + 1]) s->used[n++] = e;
        s->first[e + 1] += s->first[e];
    }
    /* first[e] moves on while rows are dealt out, and so becomes the start of e + 1 */
    for (uint32_t t = 0; t < f->n_tok; t++)
        for (uint32_t k = 0; k < n_used; k++) {
            uint32_t at = s->first[s->ids[t * n_used + k]]++;
            s->token[at] = t;
            s->row[t * s->n_slot + k] = at;
        }
    memmove(s->first + 1, s->first, n_expert * sizeof *s->first);
    s->first[0] = 0;
    return n;
}

/* ---- the shared expert ---- */

static float sigmoid_of(float x)
{
    return 1.0f / (1.0f + sl_expf(-x));
}

/* The weight of the shared expert: 1, or a sigmoid per token. */
static void weigh_shared(sl_forward *f, const sl_layer *l)
{
    sl_moe_scratch *s = &f->moe;
    uint32_t n = f->m->c.n_embd, slot = s->n_slot - 1;
    if (l->v[SL_V_SHARED_SCALE]) {
        sl_matrix row = {.type = sl_type_find(SL_F32), .n_in = n, .n_out = 1, .row_bytes = n * sizeof(float), .n_part = 1};
        row.part[0].data = (const uint8_t *)l->v[SL_V_SHARED_SCALE];
        row.part[0].n_row = 1;
        sl_product p = {&row, s->weights + slot, s->n_slot};
        sl_matmul(f->be, &p, 1, f->h, n, f->n_tok);
    }
    for (uint32_t t = 0; t < f->n_tok; t++) {
        float *w = &s->weights[t * s->n_slot + slot];
        *w = l->v[SL_V_SHARED_SCALE] ? sigmoid_of(*w) : 1;
        s->row[t * s->n_slot + slot] = f->n_tok * slot + t;
    }
}

static void shared(sl_forward *f, const sl_layer *l)
{
    const sl_model_config *c = &f->m->c;
    uint32_t n = c->moe.n_ff_shared;
    sl_product in[2] = {{&l->w[SL_W_SHARED_GATE], f->gate, n}, {&l->w[SL_W_SHARED_UP], f->up, n}};
    weigh_shared(f, l);
    sl_matmul(f->be, in, 2, f->h, c->n_embd, f->n_tok);
    sl_glu(f->be, f->gate, n, f->gate, n, f->up, n, n, f->n_tok, c->act);
    float *out = f->moe.out + (size_t)f->n_tok * (f->moe.n_slot - 1) * c->n_embd;
    sl_product down = {&l->w[SL_W_SHARED_DOWN], out, c->n_embd};
    sl_matmul(f->be, &down, 1, f->gate, n, f->n_tok);
}

/* ---- routed experts ---- */

static uint32_t rows_of(const sl_moe_scratch *s, uint32_t expert)
{
    return s->first[expert + 1] - s->first[expert];
}

/* Rows of h that expert reads, put at row `at` of in; a single token's needs no copy. */
static const float *gather(sl_forward *f, uint32_t expert, uint32_t at)
{
    sl_moe_scratch *s = &f->moe;
    size_t n = f->m->c.n_embd;
    if (f->n_tok == 1) return f->h;
    float *to = s->in + at * n;
    for (uint32_t i = s->first[expert]; i < s->first[expert + 1]; i++, to += n)
        memcpy(to, f->h + s->token[i] * n, n * sizeof *to);
    return s->in + at * n;
}

/* bias [n_expert][n] or NULL, of an expert, to its rows. */
static void add_bias(sl_forward *f, float *y, const float *bias, uint32_t expert, uint32_t n)
{
    if (bias) sl_add_bias(f->be, y, n, bias + (size_t)expert * n, n, rows_of(&f->moe, expert));
}

static uint32_t in_products(sl_forward *f, const sl_layer *l, sl_expert *e, uint32_t n, sl_matmul_job *jobs)
{
    sl_moe_scratch *s = &f->moe;
    uint32_t n_ff = f->m->c.moe.n_ff, n_embd = f->m->c.n_embd, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rows = rows_of(s, e[i].id);
        sl_expert_link(&e[i]);
        const float *x = gather(f, e[i].id, at);
        jobs[2 * i] = (sl_matmul_job){&e[i].gate, x, s->gate + (size_t)at * n_ff, n_embd, n_ff, rows};
        jobs[2 * i + 1] = (sl_matmul_job){&e[i].up, x, s->up + (size_t)at * n_ff, n_embd, n_ff, rows};
        at += rows;
    }
    sl_matmul_jobs(f->be, jobs, 2 * n);
    for (uint32_t i = 0; i < n; i++) {
        add_bias(f, jobs[2 * i].y, l->v[SL_V_GATE_BIAS], e[i].id, n_ff);
        add_bias(f, jobs[2 * i + 1].y, l->v[SL_V_UP_BIAS], e[i].id, n_ff);
    }
    return at;
}

static void gate(sl_forward *f, uint32_t rows)
{
    sl_moe_scratch *s = &f->moe;
    const sl_moe_config *moe = &f->m->c.moe;
    uint32_t n = moe->n_ff;
    if (moe->glu_limit > 0)
        sl_glu_limited(f->be, s->gate, n, s->gate, n, s->up, n, n, rows, moe->glu_alpha, moe->glu_limit);
    else
        sl_glu(f->be, s->gate, n, s->gate, n, s->up, n, n, rows, f->m->c.act);
}

static void down_products(sl_forward *f, const sl_layer *l, sl_expert *e, uint32_t n, sl_matmul_job *jobs)
{
    sl_moe_scratch *s = &f->moe;
    uint32_t n_ff = f->m->c.moe.n_ff, n_embd = f->m->c.n_embd, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rows = rows_of(s, e[i].id);
        sl_expert_link(&e[i]);
        float *y = s->out + (size_t)s->first[e[i].id] * n_embd;
        jobs[i] = (sl_matmul_job){&e[i].down, s->gate + (size_t)at * n_ff, y, n_ff, n_embd, rows};
        at += rows;
    }
    sl_matmul_jobs(f->be, jobs, n);
    for (uint32_t i = 0; i < n; i++) add_bias(f, jobs[i].y, l->v[SL_V_DOWN_BIAS], e[i].id, n_embd);
}

/* Experts e [n], whose rows fit the scratch together. */
static sl_status run_batch(sl_forward *f, const sl_layer *l, sl_expert_source *src, sl_expert *e, uint32_t n)
{
    sl_matmul_job jobs[2 * WAVE];
    sl_status rc = SL_OK;
    if (sl_step_canceled(f)) return SL_OK;
    gate(f, in_products(f, l, e, n, jobs));
    for (uint32_t i = 0; rc == SL_OK && i < n; i++) rc = src->ops->down(src, &e[i], &f->err);
    if (rc == SL_OK) down_products(f, l, e, n, jobs);
    return rc;
}

/* A wave in as few batches as the scratch allows; every expert of it is given back. */
static sl_status run_wave(sl_forward *f, const sl_layer *l, sl_expert_source *src, sl_expert *e, uint32_t n)
{
    sl_status rc = SL_OK;
    for (uint32_t i = 0, k; rc == SL_OK && i < n; i = k) {
        uint32_t rows = rows_of(&f->moe, e[i].id);
        for (k = i + 1; k < n && rows + rows_of(&f->moe, e[k].id) <= f->moe.max_row; k++) rows += rows_of(&f->moe, e[k].id);
        rc = run_batch(f, l, src, e + i, k - i);
    }
    for (uint32_t i = 0; i < n; i++) src->ops->done(src, &e[i]);
    return rc;
}

static sl_status run_waves(sl_forward *f, const sl_layer *l, sl_expert_source *src)
{
    sl_expert e[WAVE];
    for (uint32_t n;;) {
        sl_status rc = src->ops->next(src, e, WAVE, &n, &f->err);
        if (rc == SL_OK && n) rc = run_wave(f, l, src, e, n);
        if (rc != SL_OK || !n || f->canceled) return rc;
    }
}

void sl_step_moe(sl_forward *f, const sl_layer *l)
{
    const sl_model_config *c = &f->m->c;
    sl_moe_scratch *s = &f->moe;
    sl_expert_whole whole;
    sl_expert_source *src = f->experts;
    if (f->status != SL_OK || sl_step_canceled(f)) return;
    if (!src) {
        sl_expert_whole_init(&whole, l->experts, l->expert_views);
        src = &whole.base;
    }
    route(f, l);
    uint32_t n = group(f);
    f->status = src->ops->begin(src, l->index, s->used, n, &f->err);
    if (f->status == SL_OK) sl_moe_look_ahead(f, src, l->index);
    if (f->status == SL_OK && c->moe.n_ff_shared) shared(f, l); /* while experts are being read */
    if (f->status == SL_OK) f->status = run_waves(f, l, src);
    src->ops->end(src);
    if (f->status != SL_OK || f->canceled) return;
    sl_combine(f->be, f->h, c->n_embd, s->out, s->row, s->weights, s->n_slot, c->n_embd, f->n_tok);
}
