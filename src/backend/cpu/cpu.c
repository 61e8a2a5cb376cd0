/* The cpu backend's table, and how its operations on rows are cut into pieces for the threads.  A piece is a range of
 * one row; work too small to be worth waking threads for stays with the caller. */
#include "backend/cpu/kernels.h"

#include <string.h>

enum {
    SMALL_ELEMENTS = 16384, /* about the microseconds that waking the threads takes */
    PIECE_ELEMENTS = 4096,  /* of a row, for operations whose elements do not depend on each other */
};

/* ---- table and scratch ---- */

static const sl_cpu_kernels *kernels_of(sl_cpu_level level)
{
#if defined(__x86_64__)
    if (level == SL_CPU_AVX512) return &sl_cpu_kernels_avx512;
    if (level == SL_CPU_AVX2) return &sl_cpu_kernels_avx2;
#endif
    (void)level;
    return &sl_cpu_kernels_portable;
}

static void layout(sl_backend *b, sl_arena *a)
{
    uint64_t act_bytes = sl_cpu_matmul_scratch_bytes(&b->opt), attn_bytes = sl_cpu_attend_scratch_bytes(&b->opt);
    b->kernels = kernels_of(b->opt.level);
    b->act = sl_arena_take(a, act_bytes, 1, 64);
    b->attn = sl_arena_take(a, attn_bytes, 1, 64);
}

static bool supports(const sl_backend *b, const sl_type_info *type)
{
    (void)b;
    return sl_cpu_matmul_supports(type);
}

/* ---- pieces ---- */

typedef struct row_job row_job;
struct row_job {
    /* Elements [from, from + n) of row t. */
    void (*piece)(const row_job *j, uint32_t t, size_t from, size_t n);
    const sl_cpu_kernels *kern;
    uint32_t n_row;
    size_t n, n_piece; /* elements of a row; of a piece: n where the whole row is needed at once */
    /* operands; each operation uses some */
    float *y;
    const float *x, *u;
    size_t ld_y, ld_x, ld_u;
    float value;
    uint32_t n_head, pos;
    const sl_rope *rope;
    sl_act act;
    sl_kv_type kv;
    uint8_t *dst;
    const uint32_t *row;
    uint32_t n_slot;
};

static void run_share(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    const row_job *j = arg;
    uint64_t per_row = (j->n + j->n_piece - 1) / j->n_piece, i, to;
    sl_share(per_row * j->n_row, i_thread, n_thread, &i, &to);
    for (; i < to; i++) {
        size_t from = i % per_row * j->n_piece;
        j->piece(j, (uint32_t)(i / per_row), from, j->n - from < j->n_piece ? j->n - from : j->n_piece);
    }
}

static void run(sl_backend *b, row_job *j)
{
    j->kern = b->kernels;
    if (b->opt.n_thread == 1 || (uint64_t)j->n * j->n_row < SMALL_ELEMENTS)
        run_share(j, 0, 1);
    else
        sl_pool_run(b->pool, run_share, j);
}

static void rmsnorm_row(const row_job *j, uint32_t t, size_t from, size_t n)
{
    (void)from;
    j->kern->rmsnorm(j->y + t * j->ld_y, j->x + t * j->ld_x, j->u, n, j->value);
}

static void rope_row(const row_job *j, uint32_t t, size_t from, size_t n)
{
    (void)from;
    j->kern->rope(j->y + t * j->ld_y, j->n_head, (uint32_t)(n / j->n_head), (float)(j->pos + t), j->rope);
}

static void kv_store_row(const row_job *j, uint32_t t, size_t from, size_t n)
{
    (void)from;
    j->kern->kv_store(j->kv, j->dst + t * sl_kv_row_bytes(j->kv, (uint32_t)n), j->x + t * j->ld_x, n);
}

static void glu_piece(const row_job *j, uint32_t t, size_t from, size_t n)
{
    j->kern->glu(j->y + t * j->ld_y + from, j->x + t * j->ld_x + from, j->u + t * j->ld_u + from, n, j->act);
}

static void add_piece(const row_job *j, uint32_t t, size_t from, size_t n)
{
    j->kern->add(j->y + t * j->ld_y + from, j->x + t * j->ld_x + from, n);
}

static void combine_piece(const row_job *j, uint32_t t, size_t from, size_t n)
{
    float *y = j->y + t * j->ld_y + from;
    memset(y, 0, n * sizeof *y);
    for (uint32_t s = 0; s < j->n_slot; s++)
        j->kern->axpy(y, j->u[t * j->n_slot + s], j->x + j->row[t * j->n_slot + s] * j->n + from, n);
}

static void scale_piece(const row_job *j, uint32_t t, size_t from, size_t n)
{
    j->kern->scale(j->y + t * j->ld_y + from, j->value, n);
}

static void softcap_piece(const row_job *j, uint32_t t, size_t from, size_t n)
{
    j->kern->softcap(j->y + t * j->ld_y + from, j->value, n);
}

/* ---- operations ---- */

static void rmsnorm(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, const float *w, uint32_t n,
                    uint32_t n_row, float eps)
{
    row_job j = {.piece = rmsnorm_row,
                 .n_row = n_row,
                 .n = n,
                 .n_piece = n,
                 .y = y,
                 .ld_y = ld_y,
                 .x = x,
                 .ld_x = ld_x,
                 .u = w,
                 .value = eps};
    run(b, &j);
}

static void rope(sl_backend *b, float *x, size_t ld_x, uint32_t n_head, uint32_t head_dim, uint32_t n_tok, uint32_t pos,
                 const sl_rope *r)
{
    size_t n = (size_t)n_head * head_dim;
    row_job j = {.piece = rope_row,
                 .n_row = n_tok,
                 .n = n,
                 .n_piece = n,
                 .y = x,
                 .ld_y = ld_x,
                 .n_head = n_head,
                 .pos = pos,
                 .rope = r};
    run(b, &j);
}

static void kv_store(sl_backend *b, sl_kv_type type, void *dst, const float *src, size_t ld_src, uint32_t n,
                     uint32_t n_tok)
{
    row_job j = {
        .piece = kv_store_row, .n_row = n_tok, .n = n, .n_piece = n, .x = src, .ld_x = ld_src, .kv = type, .dst = dst};
    run(b, &j);
}

static void glu(sl_backend *b, float *y, size_t ld_y, const float *gate, size_t ld_gate, const float *up, size_t ld_up,
                uint32_t n, uint32_t n_tok, sl_act act)
{
    row_job j = {.piece = glu_piece,
                 .n_row = n_tok,
                 .n = n,
                 .n_piece = PIECE_ELEMENTS,
                 .y = y,
                 .ld_y = ld_y,
                 .x = gate,
                 .ld_x = ld_gate,
                 .u = up,
                 .ld_u = ld_up,
                 .act = act};
    run(b, &j);
}

static void add(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, uint32_t n, uint32_t n_tok)
{
    row_job j = {.piece = add_piece,
                 .n_row = n_tok,
                 .n = n,
                 .n_piece = PIECE_ELEMENTS,
                 .y = y,
                 .ld_y = ld_y,
                 .x = x,
                 .ld_x = ld_x};
    run(b, &j);
}

static void add_bias(sl_backend *b, float *y, size_t ld_y, const float *bias, uint32_t n, uint32_t n_tok)
{
    add(b, y, ld_y, bias, 0, n, n_tok);
}

static void axpy(sl_backend *b, float *y, float a, const float *x, size_t n)
{
    b->kernels->axpy(y, a, x, n);
}

static void combine(sl_backend *b, float *y, size_t ld_y, const float *x, const uint32_t *row, const float *weights,
                    uint32_t n_slot, uint32_t n, uint32_t n_tok)
{
    row_job j = {.piece = combine_piece,
                 .n_row = n_tok,
                 .n = n,
                 .n_piece = PIECE_ELEMENTS,
                 .y = y,
                 .ld_y = ld_y,
                 .x = x,
                 .u = weights,
                 .row = row,
                 .n_slot = n_slot};
    run(b, &j);
}

static void scale(sl_backend *b, float *y, size_t ld_y, float s, uint32_t n, uint32_t n_tok)
{
    row_job j = {
        .piece = scale_piece, .n_row = n_tok, .n = n, .n_piece = PIECE_ELEMENTS, .y = y, .ld_y = ld_y, .value = s};
    run(b, &j);
}

static void softcap(sl_backend *b, float *y, size_t ld_y, float cap, uint32_t n, uint32_t n_tok)
{
    row_job j = {
        .piece = softcap_piece, .n_row = n_tok, .n = n, .n_piece = PIECE_ELEMENTS, .y = y, .ld_y = ld_y, .value = cap};
    run(b, &j);
}

const sl_backend_ops sl_cpu_ops = {
    .name = "cpu",
    .layout = layout,
    .supports = supports,
    .matmul = sl_cpu_matmul,
    .matmul_jobs = sl_cpu_matmul_jobs,
    .axpy = axpy,
    .combine = combine,
    .rmsnorm = rmsnorm,
    .rope = rope,
    .kv_store = kv_store,
    .attend = sl_cpu_attend,
    .glu = glu,
    .add = add,
    .add_bias = add_bias,
    .scale = scale,
    .softcap = softcap,
};
