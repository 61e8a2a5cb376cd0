/* The compute facade: opens a backend, carves its scratch, and hands every operation to the implementation chosen.
 * Asserts catch our own mistakes (shapes, types, overlap of sizes with what open() was told); nothing here computes. */
#include "backend/backend_int.h"

#include <assert.h>
#include <string.h>

#define PAGE_BYTES 4096

/* ---- open and close ---- */

static sl_cpu_level best_level(void)
{
    if (sl_cpu_has(SL_CPU_AVX512)) return SL_CPU_AVX512;
    return sl_cpu_has(SL_CPU_AVX2) ? SL_CPU_AVX2 : SL_CPU_PORTABLE;
}

/* Replaces every "choose for me" by what is chosen.  scalar has one level, whatever was asked for. */
static sl_backend_options resolve(const sl_backend_options *opt)
{
    sl_backend_options r = *opt;
    if (r.kind == SL_BACKEND_AUTO) r.kind = SL_BACKEND_CPU;
    if (r.kind == SL_BACKEND_SCALAR) r.level = SL_CPU_PORTABLE;
    if (r.level == SL_CPU_AUTO) r.level = best_level();
    if (!r.n_thread) r.n_thread = sl_cpu_count();
    return r;
}

static void init(sl_backend *b, const sl_backend_options *opt)
{
    *b = (sl_backend){.opt = resolve(opt)};
    b->ops = b->opt.kind == SL_BACKEND_SCALAR ? &sl_scalar_ops : &sl_cpu_ops;
}

/* Bytes of scratch in whole pages, UINT64_MAX when no memory could be that large. */
static uint64_t measure(sl_backend *b)
{
    sl_arena a = {0};
    b->ops->layout(b, &a);
    if (a.failed || a.used > SIZE_MAX - PAGE_BYTES) return UINT64_MAX;
    return sl_round_up(a.used, PAGE_BYTES);
}

uint64_t sl_backend_scratch_bytes(const sl_backend_options *opt)
{
    sl_backend b;
    init(&b, opt);
    return measure(&b);
}

static sl_status check_level(const sl_backend_options *opt, sl_err *err)
{
    if (opt->level == SL_CPU_PORTABLE || sl_cpu_has(opt->level)) return SL_OK;
    bool avx2 = sl_cpu_has(SL_CPU_AVX2), avx512 = sl_cpu_has(SL_CPU_AVX512);
    return sl_fail(err, SL_ERR_UNSUPPORTED, "cpu level %s was asked for, but this machine has only portable%s%s",
                   sl_cpu_level_name(opt->level), avx2 ? ", avx2" : "", avx512 ? ", avx512" : "");
}

static sl_status take_scratch(sl_backend *b, sl_ledger *ledger, sl_err *err)
{
    uint64_t bytes = measure(b);
    if (!bytes) return SL_OK;
    sl_status rc = sl_block_open(&b->scratch, ledger, SL_MEM_SCRATCH, bytes, SL_BLOCK_HUGE, "backend scratch", err);
    if (rc != SL_OK) return rc;
    sl_arena a = {.base = b->scratch.ptr, .cap = b->scratch.bytes};
    b->ops->layout(b, &a);
    assert(!a.failed);
    return SL_OK;
}

sl_status sl_backend_open(sl_backend **out, const sl_backend_options *opt, sl_ledger *ledger, sl_err *err)
{
    sl_backend *b = sl_calloc(1, sizeof *b);
    if (!b) return sl_fail(err, SL_ERR_NOMEM, "no memory for a backend handle");
    init(b, opt);
    sl_status rc = check_level(&b->opt, err);
    if (rc == SL_OK) rc = take_scratch(b, ledger, err);
    if (rc == SL_OK) rc = sl_pool_open(&b->pool, b->opt.n_thread, err);
    if (rc != SL_OK) {
        sl_backend_close(b);
        return rc;
    }
    *out = b;
    return SL_OK;
}

void sl_backend_close(sl_backend *b)
{
    if (!b) return;
    sl_pool_close(b->pool);
    sl_block_close(&b->scratch);
    sl_free(b);
}

const char *sl_backend_name(const sl_backend *b)
{
    return b->ops->name;
}

const char *sl_backend_level(const sl_backend *b)
{
    return sl_cpu_level_name(b->opt.level);
}

uint32_t sl_backend_threads(const sl_backend *b)
{
    return b->opt.n_thread;
}

bool sl_backend_supports(const sl_backend *b, const sl_type_info *type)
{
    return type && b->ops->supports(b, type);
}

/* ---- operations ---- */

/* Parts in row order that cover all rows. */
static bool whole(const sl_matrix *w)
{
    uint32_t row = 0;
    for (uint32_t i = 0; i < w->n_part; i++) {
        if (w->part[i].first_row != row) return false;
        row += w->part[i].n_row;
    }
    if (w->scales && (w->type->id != SL_MXFP4 || w->scales->n_out != w->n_out || !whole(w->scales))) return false;
    if (w->turned_bytes && (w->type->block != 1 || w->scales)) return false;
    return w->n_part >= 1 && w->n_part <= 2 && row == (w->turned_bytes ? w->n_in : w->n_out);
}

void sl_matmul(sl_backend *b, const sl_product *p, uint32_t n_product, const float *x, size_t ld_x, uint32_t n_tok)
{
    assert(n_tok <= b->opt.max_tok);
    for (uint32_t i = 0; i < n_product; i++) {
        assert(sl_backend_supports(b, p[i].w->type));
        assert(p[i].w->n_in == p[0].w->n_in && p[i].w->n_in <= b->opt.max_in);
        assert(p[i].w->n_in % p[i].w->type->block == 0 && whole(p[i].w));
        assert(p[i].ld_y >= p[i].w->n_out || n_tok <= 1);
    }
    if (n_product && n_tok) b->ops->matmul(b, p, n_product, x, ld_x, n_tok);
}

void sl_matmul_jobs(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job)
{
    for (uint32_t i = 0; i < n_job; i++) {
        const sl_matrix *w = jobs[i].w;
        assert(jobs[i].n_tok <= b->opt.max_tok && w->n_in <= b->opt.max_in);
        assert(sl_backend_supports(b, w->type) && w->n_in % w->type->block == 0 && whole(w));
        assert(jobs[i].ld_y >= w->n_out || jobs[i].n_tok <= 1);
    }
    if (n_job) b->ops->matmul_jobs(b, jobs, n_job);
}

typedef struct {
    sl_backend *b;
    const sl_matmul_job *jobs;
    uint32_t n_job;
} transposed_job;

static void multiply_transposed(sl_backend *b, const sl_matmul_job *j)
{
    float row[SL_MAX_TRANSPOSED];
    for (uint32_t t = 0; t < j->n_tok; t++) memset(j->y + t * j->ld_y, 0, j->w->n_in * sizeof *row);
    for (uint32_t r = 0; r < j->w->n_out; r++) {
        uint32_t i = j->w->n_part > 1 && r >= j->w->part[1].first_row;
        j->w->type->dequantise(j->w->part[i].data + (r - j->w->part[i].first_row) * j->w->row_bytes, row, j->w->n_in);
        for (uint32_t t = 0; t < j->n_tok; t++) b->ops->axpy(b, j->y + t * j->ld_y, j->x[t * j->ld_x + r], row, j->w->n_in);
    }
}

static void transposed_share(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    const transposed_job *p = arg;
    uint64_t i, to;
    for (sl_share(p->n_job, i_thread, n_thread, &i, &to); i < to; i++) multiply_transposed(p->b, &p->jobs[i]);
}

void sl_matmul_transposed(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job)
{
    transposed_job p = {b, jobs, n_job};
    for (uint32_t i = 0; i < n_job; i++) assert(jobs[i].w->n_in <= SL_MAX_TRANSPOSED && !jobs[i].w->turned_bytes && whole(jobs[i].w));
    if (n_job) sl_pool_run(b->pool, transposed_share, &p);
}

void sl_rmsnorm(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, const float *w, uint32_t n,
                uint32_t n_row, float eps)
{
    if (n && n_row) b->ops->rmsnorm(b, y, ld_y, x, ld_x, w, n, n_row, eps);
}

void sl_rope_apply(sl_backend *b, float *x, size_t ld_x, uint32_t n_head, uint32_t head_dim, uint32_t n_tok,
                   uint32_t pos, const sl_rope *rope)
{
    assert(rope->n_rot % 2 == 0 && rope->n_rot <= head_dim);
    if (n_head && n_tok && rope->n_rot) b->ops->rope(b, x, ld_x, n_head, head_dim, n_tok, pos, rope);
}

void sl_kv_store(sl_backend *b, sl_kv_type type, void *dst, const float *src, size_t ld_src, uint32_t n, uint32_t n_tok)
{
    assert(type != SL_KV_AUTO && (type != SL_KV_Q8 || n % 32 == 0));
    if (n && n_tok) b->ops->kv_store(b, type, dst, src, ld_src, n, n_tok);
}

void sl_attend(sl_backend *b, const sl_attention *a)
{
    assert(a->type != SL_KV_AUTO && a->head_dim <= b->opt.max_head_dim);
    assert(a->n_head_kv && a->n_head % a->n_head_kv == 0);
    assert(a->row_bytes >= sl_kv_row_bytes(a->type, a->n_head_kv * a->head_dim));
    if (a->n_head && a->n_tok && a->head_dim) b->ops->attend(b, a);
}

void sl_glu(sl_backend *b, float *y, size_t ld_y, const float *gate, size_t ld_gate, const float *up, size_t ld_up,
            uint32_t n, uint32_t n_tok, sl_act act)
{
    if (n && n_tok) b->ops->glu(b, y, ld_y, gate, ld_gate, up, ld_up, n, n_tok, act);
}

typedef struct {
    float *gate, *up;
    size_t ld_gate, ld_up;
    uint32_t n, n_tok;
    float alpha, limit;
} limit_job;

static void limit_share(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    const limit_job *j = arg;
    uint64_t t, to;
    for (sl_share(j->n_tok, i_thread, n_thread, &t, &to); t < to; t++)
        sl_limit_row(j->gate + t * j->ld_gate, j->up + t * j->ld_up, j->n, j->alpha, j->limit);
}

void sl_glu_limited(sl_backend *b, float *y, size_t ld_y, float *gate, size_t ld_gate, float *up, size_t ld_up, uint32_t n,
                    uint32_t n_tok, float alpha, float limit)
{
    assert(alpha > 0 && limit > 0);
    limit_job j = {gate, up, ld_gate, ld_up, n, n_tok, alpha, limit};
    if (n_tok > 16)
        sl_pool_run(b->pool, limit_share, &j);
    else
        limit_share(&j, 0, 1);
    sl_glu(b, y, ld_y, gate, ld_gate, up, ld_up, n, n_tok, SL_ACT_SILU);
}

typedef struct {
    const sl_routing *r;
    const float *logits, *bias;
    uint32_t *ids;
    float *weights;
    size_t ld_ids, ld_weights;
    uint32_t n_tok;
} route_job;

static void route_share(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    const route_job *j = arg;
    uint64_t t, to;
    for (sl_share(j->n_tok, i_thread, n_thread, &t, &to); t < to; t++)
        sl_route_row(j->r, j->logits + t * j->r->n_expert, j->bias, j->ids + t * j->ld_ids, j->weights + t * j->ld_weights);
}

void sl_route(sl_backend *b, const sl_routing *r, const float *logits, const float *bias, uint32_t *ids, size_t ld_ids,
              float *weights, size_t ld_weights, uint32_t n_tok)
{
    assert(r->n_used >= 1 && r->n_used <= r->n_expert && r->n_expert <= SL_MAX_ROUTED);
    assert(r->n_group <= 1 || (r->n_expert % r->n_group == 0 && r->n_group_used >= 1 && r->n_group_used <= r->n_group &&
                               r->n_expert / r->n_group * r->n_group_used >= r->n_used));
    route_job j = {r, logits, bias, ids, weights, ld_ids, ld_weights, n_tok};
    if (n_tok > 4)
        sl_pool_run(b->pool, route_share, &j);
    else
        route_share(&j, 0, 1);
}

void sl_combine(sl_backend *b, float *y, size_t ld_y, const float *x, const uint32_t *row, const float *weights,
                uint32_t n_slot, uint32_t n, uint32_t n_tok)
{
    if (n && n_tok) b->ops->combine(b, y, ld_y, x, row, weights, n_slot, n, n_tok);
}

void sl_add(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, uint32_t n, uint32_t n_tok)
{
    if (n && n_tok) b->ops->add(b, y, ld_y, x, ld_x, n, n_tok);
}

void sl_add_bias(sl_backend *b, float *y, size_t ld_y, const float *bias, uint32_t n, uint32_t n_tok)
{
    if (n && n_tok) b->ops->add_bias(b, y, ld_y, bias, n, n_tok);
}

void sl_scale(sl_backend *b, float *y, size_t ld_y, float s, uint32_t n, uint32_t n_tok)
{
    if (n && n_tok) b->ops->scale(b, y, ld_y, s, n, n_tok);
}

void sl_softcap(sl_backend *b, float *y, size_t ld_y, float cap, uint32_t n, uint32_t n_tok)
{
    assert(cap > 0);
    if (n && n_tok) b->ops->softcap(b, y, ld_y, cap, n, n_tok);
}
