/* The compute facade, and its operations on rows; attention is in test_attend.c, matrices in test_backend_matrix.c.
 * test_backend --bench prints times instead. */
#include "backend_case.h"

#include "backend/cpu/kernels.h"
#include "base/mathx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- operations on rows ---- */

typedef enum { RMSNORM, ROPE, GLU_SILU, GLU_GELU, ADD, BIAS, SCALE, SOFTCAP, STORE_F16, STORE_Q8, N_OP } op;
static const char *const op_names[N_OP] = {"rmsnorm", "rope",  "glu silu", "glu gelu",     "add",
                                           "bias",    "scale", "softcap",  "kv store f16", "kv store q8"};

typedef struct {
    op op;
    uint32_t n, n_tok;
    /* rope */
    uint32_t n_head, pos;
    sl_rope rope;
    const float *x, *u, *w; /* x, u [n_tok][n + 3], w [n] */
} row_op;

static void run_row_op(const bc_case *c, sl_backend *b, uint32_t first, uint32_t n_tok, float *out, size_t ld)
{
    const row_op *o = c->operands;
    size_t ld_x = o->n + 3;
    const float *x = o->x + first * ld_x, *u = o->u + first * ld_x;
    for (uint32_t t = 0; t < n_tok && o->op != RMSNORM && o->op < STORE_F16; t++)
        memcpy(out + t * ld, x + t * ld_x, o->n * sizeof *x); /* in place */
    switch (o->op) {
    case RMSNORM:
        sl_rmsnorm(b, out, ld, x, ld_x, o->w, o->n, n_tok, 1e-5f);
        break;
    case ROPE:
        sl_rope_apply(b, out, ld, o->n_head, o->n / o->n_head, n_tok, o->pos + first, &o->rope);
        break;
    case GLU_SILU:
        sl_glu(b, out, ld, out, ld, u, ld_x, o->n, n_tok, SL_ACT_SILU);
        break;
    case GLU_GELU:
        sl_glu(b, out, ld, out, ld, u, ld_x, o->n, n_tok, SL_ACT_GELU_TANH);
        break;
    case ADD:
        sl_add(b, out, ld, u, ld_x, o->n, n_tok);
        break;
    case BIAS:
        sl_add_bias(b, out, ld, o->w, o->n, n_tok);
        break;
    case SCALE:
        sl_scale(b, out, ld, 1.7f, o->n, n_tok);
        break;
    case SOFTCAP:
        sl_softcap(b, out, ld, 1.5f, o->n, n_tok);
        break;
    default: {
        sl_kv_type type = o->op == STORE_F16 ? SL_KV_F16 : SL_KV_Q8;
        static uint8_t rows[BC_MAX_TOK * BC_MAX_IN * 2]; /* they lie close together */
        sl_kv_store(b, type, rows, x, ld_x, o->n, n_tok);
        for (uint32_t t = 0; t < n_tok; t++)
            memcpy(out + t * ld, rows + t * c->n_out * 4, c->n_out * 4);
    }
    }
}

static void expect_rope(const row_op *o, uint32_t tok, double *out)
{
    uint32_t head_dim = o->n / o->n_head, n_pair = o->rope.n_rot / 2;
    const float *x = o->x + tok * (o->n + 3);
    for (uint32_t i = 0; i < o->n; i++)
        out[i] = x[i];
    for (uint32_t h = 0; h < o->n_head; h++)
        for (uint32_t i = 0; i < n_pair; i++) {
            double angle = (float)(o->pos + tok) * o->rope.inv_freq[i]; /* rounded once, by the law */
            uint32_t a = h * head_dim + (o->rope.interleaved ? 2 * i : i);
            uint32_t b = h * head_dim + (o->rope.interleaved ? 2 * i + 1 : i + n_pair);
            double c = cos(angle) * o->rope.mscale, s = sin(angle) * o->rope.mscale;
            out[a] = x[a] * c - x[b] * s;
            out[b] = x[b] * c + x[a] * s;
        }
}

static double expect_element(const row_op *o, double x, double u, double w, double rms)
{
    switch (o->op) {
    case RMSNORM:
        return x / rms * w;
    case GLU_SILU:
        return x / (1 + exp(-x)) * u;
    case GLU_GELU:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * u;
    case ADD:
        return x + u;
    case BIAS:
        return x + w;
    case SCALE:
        return x * 1.7f;
    default:
        return 1.5 * tanh(x / 1.5);
    }
}

static void expect_row_op(const bc_case *c, uint32_t tok, double *out)
{
    const row_op *o = c->operands;
    const float *x = o->x + tok * (o->n + 3), *u = o->u + tok * (o->n + 3);
    double sum = 0;
    if (o->op == ROPE) {
        expect_rope(o, tok, out);
        return;
    }
    for (uint32_t i = 0; i < o->n; i++)
        sum += (double)x[i] * x[i];
    double rms = sqrt(sum / o->n + 1e-5f);
    for (uint32_t i = 0; i < o->n; i++)
        out[i] = expect_element(o, x[i], u[i], o->w[i], rms);
}

static bc_case row_case(const row_op *o)
{
    bool store = o->op >= STORE_F16;
    bc_case c = {.n_tok = o->n_tok,
                 .n_out = o->n,
                 .run = run_row_op,
                 .expect = store ? NULL : expect_row_op,
                 .tol_scalar = 1e-6,
                 .tol_cpu = store ? 0 : 1e-5,
                 .operands = o};
    if (store) c.n_out = (uint32_t)sl_kv_row_bytes(o->op == STORE_F16 ? SL_KV_F16 : SL_KV_Q8, o->n) / 4;
    snprintf(c.name, sizeof c.name, "%s %u, %u tok", op_names[o->op], o->n, o->n_tok);
    if (o->op == ROPE)
        snprintf(c.name, sizeof c.name, "rope %s %u x %u, %u rotated, %u tok at %u",
                 o->rope.interleaved ? "2i" : "i+n/2", o->n_head, o->n / o->n_head, o->rope.n_rot, o->n_tok, o->pos);
    return c;
}

enum { ROW_FLOATS = 160 * (BC_MAX_IN * 4 + 3) };
static float *row_x, *row_u;

static int open_rows(void **state)
{
    bc_rng r = {77};
    row_x = malloc(ROW_FLOATS * sizeof *row_x);
    row_u = malloc(ROW_FLOATS * sizeof *row_u);
    if (!row_x || !row_u) return -1;
    bc_fill(&r, row_x, ROW_FLOATS);
    bc_fill(&r, row_u, ROW_FLOATS);
    for (size_t i = 0; i < ROW_FLOATS; i += 97)
        row_x[i] *= 30; /* beyond where tanh and silu bend */
    return bc_open(state);
}

static int close_rows(void **state)
{
    free(row_x);
    free(row_u);
    return bc_close(state);
}

static row_op make_row_op(op kind, uint32_t n, uint32_t n_tok)
{
    /* + 1: not aligned to vectors */
    return (row_op){.op = kind, .n = n, .n_tok = n_tok, .n_head = 1, .x = row_x + 1, .u = row_u + 2, .w = row_u + 101};
}

/* Lengths around lanes and pieces; the last ones are large enough to be spread over threads. */
static const uint32_t row_shapes[][2] = {{1, 3},    {7, 2},     {8, 1},     {9, 2},   {15, 1},  {16, 3},
                                         {17, 1},   {31, 2},    {33, 4},    {64, 5},  {576, 7}, {640, 3},
                                         {2048, 9}, {1001, 40}, {4097, 13}, {8192, 3}};

static void row_operations_agree(void **state)
{
    (void)state;
    for (op k = RMSNORM; k < STORE_F16; k++) {
        if (k == ROPE) continue;
        for (size_t i = 0; i < COUNT(row_shapes); i++) {
            row_op o = make_row_op(k, row_shapes[i][0], row_shapes[i][1]);
            bc_case c = row_case(&o);
            bc_check(&c);
        }
    }
    for (op k = STORE_F16; k < N_OP; k++)
        for (uint32_t n = 64; n <= 2048; n *= 2) {
            row_op o = make_row_op(k, n, 140 * 64 / n + 9);
            bc_case c = row_case(&o);
            bc_check(&c);
        }
}

/* One row so long that its elements are spread, as logits are. */
static void one_long_row_is_spread(void **state)
{
    (void)state;
    for (op k = GLU_SILU; k <= SOFTCAP; k++) {
        row_op o = make_row_op(k, 100003, 1);
        bc_case c = row_case(&o);
        bc_check(&c);
    }
}

/* n_head, head_dim, n_rot, n_tok, pos */
static const uint32_t rope_shapes[][5] = {
    {3, 64, 64, 4, 0},       {9, 64, 64, 1, 5},    {4, 128, 64, 3, 1000},   {1, 2, 2, 3, 9},        {2, 24, 20, 5, 70},
    {2, 80, 80, 3, 4000},    {5, 256, 256, 2, 77}, {2, 36, 34, 2, 1000000}, {32, 128, 128, 12, 60}, {3, 96, 0, 2, 3},
    {2, 48, 6, 2, 16777215}, {2, 64, 50, 2, 300},  {1, 20, 18, 2, 12},      {3, 16, 10, 1, 40}};

static void rope_agrees(void **state)
{
    (void)state;
    static float freq[128];
    for (int i = 0; i < 128; i++)
        freq[i] = (float)pow(10000, -i / 64.0);
    for (size_t i = 0; i < 2 * COUNT(rope_shapes); i++) {
        const uint32_t *s = rope_shapes[i / 2];
        row_op o = make_row_op(ROPE, s[0] * s[1], s[3]);
        o.n_head = s[0];
        o.pos = s[4];
        o.rope = (sl_rope){.inv_freq = freq, .mscale = i % 3 ? 1.0f : 1.23f, .n_rot = s[2], .interleaved = i % 2};
        bc_case c = row_case(&o);
        bc_check(&c);
    }
}

/* y may be x: the bits are those of a separate output. */
static void rmsnorm_in_place(void **state)
{
    (void)state;
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    enum { N = 577, ROWS = 40 };
    static float apart[ROWS * N], same[ROWS * N];
    for (size_t i = 0; i < n_cpu; i++) {
        memcpy(same, row_x, sizeof same);
        sl_rmsnorm(cpu[i].b, apart, N, row_x, N, row_u, N, ROWS, 1e-6f);
        sl_rmsnorm(cpu[i].b, same, N, same, N, row_u, N, ROWS, 1e-6f);
        assert_memory_equal(apart, same, sizeof same);
    }
}

/* ---- elementary functions: every level has the bits of base/mathx.h ---- */

enum { BATCH = 4096 };

/* About 900 thousand floats: all sizes and signs, subnormals, infinities, NaN; then the ones between. */
static uint32_t sample(uint64_t i)
{
    static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x7f800000,
                                       0xff800000, 0x7fc00000, 0xffc12345, 0x7f7fffff, 0xff7fffff,
                                       0x00800000, 0x42b17218, 0xc2cff1b5, 0x3f200000, 0x3f1fffff,
                                       0x4f000000, 0x4f000001, 0xcf000000, 0x3f800000, 0xc2aeac50};
    return i < COUNT(special) ? special[i] : (uint32_t)(i * 4801);
}

static void check_function(const char *name, const float *x, const float *got, float (*f)(float), size_t n,
                           const char *level)
{
    for (size_t i = 0; i < n; i++)
        if (!bc_same(got[i], f(x[i])))
            fail_msg("%s(%.9g, %08x) at level %s is %.9g, not %.9g", name, x[i], bc_bits(x[i]), level, got[i], f(x[i]));
}

static float sine(float x)
{
    float s, c;
    sl_sincosf(x, &s, &c);
    return s;
}

static float cosine(float x)
{
    float s, c;
    sl_sincosf(x, &s, &c);
    return c;
}

/* sin and cos through a rotation of (1, 0) at position 1: a' = c - 0 s, b' = 0 c + s. */
static void check_sincos(const sl_cpu_kernels *k, const float *x, const char *level)
{
    static float pair[2 * BATCH], s[BATCH], c[BATCH];
    sl_rope rope = {.inv_freq = x, .mscale = 1, .n_rot = 2 * BATCH, .interleaved = true};
    for (int i = 0; i < BATCH; i++)
        pair[2 * i] = 1, pair[2 * i + 1] = 0;
    k->rope(pair, 1, 2 * BATCH, 1, &rope);
    for (int i = 0; i < BATCH; i++)
        c[i] = pair[2 * i], s[i] = pair[2 * i + 1] + 0.0f;
    check_function("cos", x, c, cosine, BATCH, level);
    for (int i = 0; i < BATCH; i++) /* the sum with 0 c loses the sign of a zero */
        if (sine(x[i]) != 0 || s[i] != 0) check_function("sin", x + i, s + i, sine, 1, level);
}

static void elementary_functions_have_one_value(void **state)
{
    (void)state;
    static float x[BATCH], y[BATCH], one[BATCH];
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    for (int i = 0; i < BATCH; i++)
        one[i] = 1;
    for (uint64_t at = 0; at < (1ull << 32) / 4801; at += BATCH) {
        for (int i = 0; i < BATCH; i++)
            x[i] = bc_float(sample(at + (uint64_t)i));
        for (size_t i = 0; i < n_cpu; i++) {
            const sl_cpu_kernels *k = cpu[i].b->kernels;
            const char *level = sl_cpu_level_name(cpu[i].level);
            if (cpu[i].n_thread > 1 || cpu[i].level == SL_CPU_PORTABLE) continue;
            memcpy(y, x, sizeof y);
            k->exp(y, BATCH);
            check_function("exp", x, y, sl_expf, BATCH, level);
            memcpy(y, x, sizeof y);
            k->softcap(y, 1, BATCH);
            check_function("tanh", x, y, sl_tanhf, BATCH, level);
            k->glu(y, x, one, BATCH, SL_ACT_SILU);
            check_function("silu", x, y, sl_siluf, BATCH, level);
            k->glu(y, x, one, BATCH, SL_ACT_GELU_TANH);
            check_function("gelu", x, y, sl_gelu_tanhf, BATCH, level);
            check_sincos(k, x, level);
        }
    }
}

/* ---- open ---- */

static void open_resolves_and_accounts(void **state)
{
    (void)state;
    sl_backend_options opt = {.max_tok = 64, .max_in = 4096, .max_head_dim = 128};
    uint64_t need = sl_backend_scratch_bytes(&opt);
    sl_ledger ledger;
    sl_ledger_init(&ledger, need);
    sl_backend *b = NULL;
    sl_err err = {0};
    assert_int_equal(sl_backend_open(&b, &opt, &ledger, &err), SL_OK);
    assert_int_equal(ledger.used[SL_MEM_SCRATCH], need);
    assert_string_equal(sl_backend_name(b), "cpu");
    assert_int_equal(sl_backend_threads(b), sl_cpu_count());
    assert_string_equal(sl_backend_level(b), sl_cpu_has(SL_CPU_AVX512) ? "avx512"
                                             : sl_cpu_has(SL_CPU_AVX2) ? "avx2"
                                                                       : "portable");
    sl_backend_close(b);
    assert_int_equal(ledger.total, 0);
    sl_backend_close(NULL);

    sl_ledger_init(&ledger, need - 1);
    b = NULL;
    assert_int_equal(sl_backend_open(&b, &opt, &ledger, &err), SL_ERR_BUDGET);
    assert_null(b);
    assert_int_equal(ledger.total, 0);
}

static void scalar_ignores_levels(void **state)
{
    (void)state;
    sl_backend_options opt = {.kind = SL_BACKEND_SCALAR,
                              .level = SL_CPU_AVX512,
                              .n_thread = 1,
                              .max_tok = 1,
                              .max_in = 64,
                              .max_head_dim = 8};
    sl_backend *b = NULL;
    sl_err err = {0};
    assert_int_equal(sl_backend_open(&b, &opt, NULL, &err), SL_OK);
    assert_string_equal(sl_backend_name(b), "scalar");
    assert_string_equal(sl_backend_level(b), "portable");
    sl_backend_close(b);
}

/* The levels this machine lacks, and one that no machine has. */
static void missing_level_is_refused(void **state)
{
    (void)state;
    for (int l = SL_CPU_AVX2; l <= SL_CPU_AVX512 + 1; l++) {
        if (sl_cpu_has((sl_cpu_level)l)) continue;
        sl_backend_options opt = {
            .level = (sl_cpu_level)l, .n_thread = 1, .max_tok = 1, .max_in = 32, .max_head_dim = 8};
        sl_backend *b = NULL;
        sl_err err = {0};
        assert_int_equal(sl_backend_open(&b, &opt, NULL, &err), SL_ERR_UNSUPPORTED);
        assert_null(b);
        assert_non_null(strstr(err.msg, sl_cpu_level_name((sl_cpu_level)l)));
        assert_non_null(strstr(err.msg, "portable"));
        assert_true(!sl_cpu_has(SL_CPU_AVX2) || strstr(err.msg, "avx2"));
    }
}

static bool fail_at(void *user)
{
    int *left = user;
    return (*left)-- == 0;
}

/* Every allocation of open() fails once; nothing leaks and nothing stays in the ledger. */
static void open_survives_failed_allocations(void **state)
{
    (void)state;
    sl_backend_options opt = {.n_thread = 2, .max_tok = 4, .max_in = 256, .max_head_dim = 64};
    uint64_t before = sl_alloc_live_bytes();
    sl_status rc = SL_ERR_NOMEM;
    int n = 0;
    for (; rc != SL_OK; n++) {
        int left = n;
        sl_ledger ledger;
        sl_ledger_init(&ledger, 0);
        sl_backend *b = NULL;
        sl_err err = {0};
        sl_alloc_set_hook(fail_at, &left);
        rc = sl_backend_open(&b, &opt, &ledger, &err);
        sl_alloc_set_hook(NULL, NULL);
        assert_true(rc == SL_OK || (rc == SL_ERR_NOMEM && err.msg[0] && !b));
        sl_backend_close(b);
        assert_int_equal(ledger.total, 0);
        assert_int_equal(sl_alloc_live_bytes(), before);
        assert_true(n < 100);
    }
    assert_true(n >= 3);
}

/* ---- benchmark ---- */

static void bench_rows(void)
{
    static float freq[64];
    for (int i = 0; i < 64; i++)
        freq[i] = (float)pow(10000, -i / 64.0);
    for (op k = RMSNORM; k < N_OP; k++)
        for (uint32_t n_tok = 1; n_tok <= 64; n_tok *= 64) {
            row_op o = make_row_op(k, 2048, n_tok);
            o.n_head = 16;
            o.rope = (sl_rope){.inv_freq = freq, .mscale = 1, .n_rot = 128};
            bc_case c = row_case(&o);
            bc_bench(&c);
        }
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        if (open_rows(NULL)) return 1;
        bench_rows();
        return close_rows(NULL);
    }
    const struct CMUnitTest tests[] = {
        /* clang-format off */
        cmocka_unit_test(row_operations_agree),
        cmocka_unit_test(one_long_row_is_spread),
        cmocka_unit_test(rope_agrees),
        cmocka_unit_test(rmsnorm_in_place),
        cmocka_unit_test(elementary_functions_have_one_value),
        cmocka_unit_test(open_resolves_and_accounts),
        cmocka_unit_test(scalar_ignores_levels),
        cmocka_unit_test(missing_level_is_refused),
        cmocka_unit_test(open_survives_failed_allocations),
        /* clang-format on */
    };
    return cmocka_run_group_tests(tests, open_rows, close_rows);
}
