/* Matrix products: every type against double precision, and against the law of backend.h written once more.
 * test_backend_matrix --bench prints times instead. */
#include "backend_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- cases ---- */

/* Weights of a type: random codes, scales of a size that keeps products near 1. */
static void put_scale(uint8_t *at, bc_rng *r, float lo, float hi)
{
    float d = bc_uniform(r, lo, hi);
    uint16_t h = bc_f16_from_double(bc_random(r) & 1 ? d : -d);
    memcpy(at, &h, 2);
}

static void make_block(const sl_type_info *t, uint8_t *b, bc_rng *r)
{
    uint16_t h;
    float f = bc_uniform(r, -1, 1);
    for (uint32_t i = 0; i < t->block_bytes; i++)
        b[i] = (uint8_t)bc_random(r);
    switch (t->id) {
    case SL_F32:
        memcpy(b, &f, 4);
        break;
    case SL_F16:
        h = bc_f16_from_double(f);
        memcpy(b, &h, 2);
        break;
    case SL_BF16:
        h = (uint16_t)(bc_bits(f) >> 16);
        memcpy(b, &h, 2);
        break;
    case SL_Q4_0:
    case SL_Q5_0:
        put_scale(b, r, 0.05f, 0.1f);
        break;
    case SL_MXFP4:
        b[0] = (uint8_t)(122 + bc_random(r) % 5);
        break;
    case SL_Q8_0:
        put_scale(b, r, 0.005f, 0.01f);
        break;
    case SL_Q4_1:
    case SL_Q5_1:
        put_scale(b, r, 0.05f, 0.1f);
        put_scale(b + 2, r, 0.1f, 1.0f);
        break;
    case SL_Q4_K:
    case SL_Q5_K:
        put_scale(b, r, 1e-3f, 2e-3f);
        put_scale(b + 2, r, 1e-3f, 1e-2f);
        break;
    case SL_Q6_K:
        put_scale(b + 208, r, 1e-4f, 2e-4f);
        break;
    default:
        fail_msg("no test weights for type %s", t->name);
    }
}

/* A matrix whose rows lie at an odd address, and the same in two parts. */
typedef struct {
    sl_matrix whole, halves;
    uint8_t *memory, *second;
} weights;

static weights make_weights(const sl_type_info *t, uint32_t n_in, uint32_t n_out, uint32_t misalign, uint64_t seed)
{
    weights w = {.whole = {.type = t, .n_in = n_in, .n_out = n_out, .n_part = 1}};
    bc_rng r = {seed};
    uint64_t row = 0;
    assert_true(sl_type_row_bytes(t, n_in, &row));
    w.whole.row_bytes = row;
    w.memory = malloc(misalign + row * n_out);
    for (uint64_t i = 0; i < row * n_out; i += t->block_bytes)
        make_block(t, w.memory + misalign + i, &r);
    w.whole.part[0].data = w.memory + misalign;
    w.whole.part[0].n_row = n_out;

    uint32_t cut = n_out / 3;
    w.halves = w.whole;
    w.halves.n_part = 2;
    w.halves.part[0].n_row = cut;
    w.second = malloc(misalign + 1 + row * (n_out - cut));
    memcpy(w.second + misalign + 1, w.memory + misalign + row * cut, row * (n_out - cut));
    w.halves.part[1].data = w.second + misalign + 1;
    w.halves.part[1].first_row = cut;
    w.halves.part[1].n_row = n_out - cut;
    return w;
}

static void free_weights(weights *w)
{
    free(w->memory);
    free(w->second);
}

typedef struct {
    const sl_matrix *w;
    const float *x; /* [n_tok][ld_x] */
    size_t ld_x;
} product;

static void run_product(const bc_case *c, sl_backend *b, uint32_t first, uint32_t n, float *out, size_t ld)
{
    const product *p = c->operands;
    sl_product y = {p->w, out, ld};
    sl_matmul(b, &y, 1, p->x + first * p->ld_x, p->ld_x, n);
}

static void expect_product(const bc_case *c, uint32_t tok, double *out)
{
    const product *p = c->operands;
    float *row = malloc(p->w->n_in * sizeof *row);
    for (uint32_t r = 0; r < p->w->n_out; r++) {
        p->w->type->dequantise(p->w->part[0].data + r * p->w->row_bytes, row, p->w->n_in);
        out[r] = 0;
        for (uint32_t i = 0; i < p->w->n_in; i++)
            out[r] += (double)row[i] * p->x[tok * p->ld_x + i];
    }
    free(row);
}

static bc_case product_case(const product *p, uint32_t n_tok)
{
    bool exact_x = p->w->type->block == 1;                      /* float weights: activations are not quantised */
    double scatter = 1 + 4 / sqrt((double)n_tok * p->w->n_out); /* of the difference, when there are few outputs */
    bc_case c = {.n_tok = n_tok,
                 .n_out = p->w->n_out,
                 .run = run_product,
                 .expect = expect_product,
                 .tol_scalar = 2e-6,
                 .tol_cpu = exact_x ? 1e-5 : 1e-2 * scatter,
                 .operands = p};
    snprintf(c.name, sizeof c.name, "matmul %s %u -> %u, %u tok", p->w->type->name, p->w->n_in, p->w->n_out, n_tok);
    return c;
}

static float *make_x(uint32_t n_tok, size_t ld, uint64_t seed)
{
    bc_rng r = {seed};
    float *x = malloc(n_tok * ld * sizeof *x);
    bc_fill(&r, x, n_tok * ld);
    for (size_t i = 0; i < n_tok * ld; i++)
        x[i] *= i / 256 % 2 ? 0.01f : 1; /* blocks of unlike sizes */
    return x;
}

/* Two parts give the bits of one, on every backend. */
static void check_parts(const weights *w, const product *p, uint32_t n_tok)
{
    product halves = {&w->halves, p->x, p->ld_x};
    bc_case one = product_case(p, n_tok), two = product_case(&halves, n_tok);
    size_t bytes = (size_t)n_tok * one.n_out * 4, n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    float *a = malloc(bytes), *b = malloc(bytes);
    for (size_t i = 0; i <= n_cpu; i++) {
        sl_backend *be = i < n_cpu ? cpu[i].b : bc_scalar();
        memset(a, 0xff, bytes);
        memset(b, 0xee, bytes);
        one.run(&one, be, 0, n_tok, a, one.n_out);
        two.run(&two, be, 0, n_tok, b, one.n_out);
        if (memcmp(a, b, bytes)) fail_msg("%s: two parts give other bits than one (backend %zu)", one.name, i);
    }
    free(a);
    free(b);
}

static void products_agree(const sl_type_info *t)
{
    static const uint32_t small[] = {32, 64, 96, 576, 640, 2048}, large[] = {256, 512, 768, 2048};
    static const uint32_t outs[] = {1, 3, 17, 192}, toks[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33};
    const uint32_t *ins = t->block == 256 ? large : small;
    size_t n_ins = t->block == 256 ? COUNT(large) : COUNT(small), n_case = t->id;
    for (size_t i = 0; i < n_ins; i++)
        for (size_t k = 0; k < COUNT(outs); k++, n_case++) {
            uint32_t n_tok = ins[i] * outs[k] > 300000 ? 9 : toks[n_case * 5 % COUNT(toks)];
            size_t ld = ins[i] + n_case % 4;
            weights w = make_weights(t, ins[i], outs[k], (uint32_t)(1 + n_case * 7 % 31), n_case);
            float *x = make_x(n_tok, ld, n_case);
            product p = {&w.whole, x, ld};
            bc_case c = product_case(&p, n_tok);
            bc_check(&c);
            if (outs[k] >= 3) check_parts(&w, &p, n_tok);
            free(x);
            free_weights(&w);
        }
}

static void every_matrix_type_agrees(void **state)
{
    (void)state;
    size_t n_cpu, n_type = 0;
    sl_backend *cpu = bc_cpu(&n_cpu)[0].b;
    for (size_t i = 0; sl_type_at(i); i++) {
        const sl_type_info *t = sl_type_at(i);
        if (!t->dequantise) {
            assert_false(sl_backend_supports(bc_scalar(), t));
            continue;
        }
        n_type++;
        assert_true(sl_backend_supports(bc_scalar(), t));
        if (!sl_backend_supports(cpu, t)) fail_msg("the cpu backend cannot multiply by %s", t->name);
        products_agree(t);
    }
    assert_true(n_type >= 11);
}

/* ---- the law of quantised products, written once more without the library ---- */

/* A block unpacked: integer codes with their offset taken off; K: a scale and a minimum per group of codes. */
typedef struct {
    int code[256], scale[16], min[16];
    uint32_t group; /* codes per scale and min */
    float d, m;     /* m: the block's offset (Q4_1, Q5_1) or dmin (K) */
} block;

static float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return (float)bc_f16_to_double(h);
}

/* 32 codes of 4 bits at p: elements 0..15 in the low halves; a fifth bit from high. */
static void codes_of_32(block *b, const uint8_t *p, uint32_t high, int offset)
{
    for (int i = 0; i < 16; i++) {
        b->code[i] = (p[i] & 15) + (int)((high >> i & 1) << 4) - offset;
        b->code[i + 16] = (p[i] >> 4) + (int)((high >> (i + 16) & 1) << 4) - offset;
    }
}

/* The eight 6-bit scales and minima of Q4_K and Q5_K (12 bytes). */
static void k_scales(block *b, const uint8_t *s)
{
    for (int g = 0; g < 8; g++) {
        b->scale[g] = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        b->min[g] = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
}

static block unpack_k45(const uint8_t *p, bool five)
{
    block b = {.group = 32, .d = half_at(p), .m = half_at(p + 2)};
    const uint8_t *qh = p + 16, *q = p + (five ? 48 : 16);
    k_scales(&b, p + 4);
    for (int i = 0; i < 256; i++) {
        int g = i / 32, byte = q[g / 2 * 32 + i % 32];
        b.code[i] = g % 2 ? byte >> 4 : byte & 15;
        if (five) b.code[i] += (qh[i % 32] >> g & 1) << 4;
    }
    return b;
}

static block unpack_q6k(const uint8_t *p)
{
    block b = {.group = 16, .d = half_at(p + 208)};
    for (int i = 0; i < 256; i++) {
        int half = i / 128, j = i % 128, part = j / 32, l = j % 32;
        int low = p[64 * half + l + part % 2 * 32], high = p[128 + 32 * half + l] >> 2 * part & 3;
        b.code[i] = ((part < 2 ? low & 15 : low >> 4) | high << 4) - 32;
        b.scale[i / 16] = (int8_t)p[192 + i / 16];
    }
    return b;
}

static block unpack(const sl_type_info *t, const uint8_t *p)
{
    static const int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    block b = {.d = half_at(p)};
    uint32_t high = 0;
    switch (t->id) {
    case SL_Q4_0:
        codes_of_32(&b, p + 2, 0, 8);
        break;
    case SL_MXFP4:
        b.d = (float)ldexp(1, p[0] - 128);
        for (int i = 0; i < 32; i++)
            b.code[i] = fp4[i < 16 ? p[1 + i] & 15 : p[1 + i - 16] >> 4];
        break;
    case SL_Q4_1:
        codes_of_32(&b, p + 4, 0, 0);
        b.m = half_at(p + 2);
        break;
    case SL_Q5_0:
        memcpy(&high, p + 2, 4);
        codes_of_32(&b, p + 6, high, 16);
        break;
    case SL_Q5_1:
        memcpy(&high, p + 4, 4);
        codes_of_32(&b, p + 8, high, 0);
        b.m = half_at(p + 2);
        break;
    case SL_Q8_0:
        for (int i = 0; i < 32; i++)
            b.code[i] = (int8_t)p[2 + i];
        break;
    case SL_Q4_K:
        return unpack_k45(p, false);
    case SL_Q5_K:
        return unpack_k45(p, true);
    default:
        return unpack_q6k(p);
    }
    return b;
}

/* Activations [n] quantised with one scale, which is returned. */
static float law_quantise(const float *x, int n, int *q)
{
    float max = 0;
    for (int i = 0; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    float d = max / 127.0f;
    for (int i = 0; i < n; i++)
        q[i] = d > 0 ? (int)rintf(x[i] * (1.0f / d)) : 0;
    return d;
}

/* Types in blocks of 32: a scale for each half of the activations. */
static float law_block_32(const sl_type_info *t, const block *b, const float *x, float acc)
{
    float s = 0;
    for (int h = 0; h < 2; h++) {
        int q[16], isum = 0, qsum = 0;
        float d = law_quantise(x + 16 * h, 16, q);
        for (int i = 0; i < 16; i++) {
            isum += b->code[16 * h + i] * q[i];
            qsum += q[i];
        }
        acc = fmaf(b->d * d, (float)isum, acc);
        s = h ? fmaf(d, (float)qsum, s) : d * (float)qsum;
    }
    return t->id == SL_Q4_1 || t->id == SL_Q5_1 ? fmaf(b->m, s, acc) : acc;
}

static float law_block_256(const sl_type_info *t, const block *b, const float *x, float acc)
{
    int q[256], isum = 0, msum = 0;
    float d = law_quantise(x, 256, q);
    for (int i = 0; i < 256; i++) {
        isum += b->scale[i / (int)b->group] * b->code[i] * q[i];
        msum += b->min[i / (int)b->group] * q[i];
    }
    acc = fmaf(b->d * d, (float)isum, acc);
    return t->id == SL_Q6_K ? acc : fmaf(-(b->m * d), (float)msum, acc);
}

static float law_float_row(const float *w, const float *x, uint32_t n)
{
    float s[16] = {0};
    for (uint32_t i = 0; i < n; i++)
        s[i % 16] = fmaf(w[i], x[i], s[i % 16]);
    for (int j = 0; j < 8; j++)
        s[j] += s[j + 8];
    for (int j = 0; j < 4; j++)
        s[j] += s[j + 4];
    for (int j = 0; j < 2; j++)
        s[j] += s[j + 2];
    return s[0] + s[1];
}

static float law_row(const sl_type_info *t, const uint8_t *row, const float *x, uint32_t n)
{
    if (t->block == 1) {
        float w[BC_MAX_IN];
        t->dequantise(row, w, n);
        return law_float_row(w, x, n);
    }
    float acc = 0;
    for (uint32_t i = 0; i < n; i += t->block, row += t->block_bytes) {
        block b = unpack(t, row);
        acc = t->block == 256 ? law_block_256(t, &b, x + i, acc) : law_block_32(t, &b, x + i, acc);
    }
    return acc;
}

static void products_follow_the_law(void **state)
{
    (void)state;
    enum { N_OUT = 37, N_TOK = 11 };
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    for (size_t k = 0; sl_type_at(k); k++) {
        const sl_type_info *t = sl_type_at(k);
        if (!t->dequantise) continue;
        uint32_t n_in = t->block == 256 ? 768 : t->block == 1 ? 601 : 672;
        weights w = make_weights(t, n_in, N_OUT, 3, k);
        float *x = make_x(N_TOK, n_in, k), y[N_TOK][N_OUT];
        memset(x + n_in, 0, n_in * sizeof *x); /* a token of zeros: d is 0 */
        for (uint32_t i = 0; i < n_in; i += 2)
            x[2 * n_in + i] = ldexpf(1, (int)(i % 60) - 90); /* tiny ones */
        for (uint32_t i = 3 * n_in; i < N_TOK * n_in; i += 173)
            x[i] *= 20; /* outliers */
        for (size_t i = 0; i < n_cpu; i++) {
            sl_product p = {&w.whole, y[0], N_OUT};
            sl_matmul(cpu[i].b, &p, 1, x, n_in, N_TOK);
            for (uint32_t j = 0; j < N_TOK * N_OUT; j++) {
                uint32_t tok = j / N_OUT, r = j % N_OUT;
                float want = law_row(t, w.memory + 3 + r * w.whole.row_bytes, x + tok * n_in, n_in);
                if (bc_bits(want) != bc_bits(y[tok][r]))
                    fail_msg("%s, %s: row %u, token %u is %.9g, the law says %.9g", t->name, cpu[i].name, r, tok,
                             y[tok][r], want);
            }
        }
        free(x);
        free_weights(&w);
    }
}

/* q, k, v of one input in one call, types and sizes mixed, give what single calls give. */
static void products_share_their_input(void **state)
{
    (void)state;
    static const sl_type types[] = {SL_Q4_K, SL_Q8_0, SL_F16, SL_Q6_K, SL_Q4_1};
    static const uint32_t outs[] = {192, 17, 3, 33, 64};
    enum { N = COUNT(types), N_IN = 512, N_TOK = 6 };
    weights w[N];
    for (size_t i = 0; i < N; i++)
        w[i] = make_weights(sl_type_find(types[i]), N_IN, outs[i], (uint32_t)i, 40 + i);
    float *x = make_x(N_TOK, N_IN, 4);
    static float together[N][N_TOK * 192], alone[N_TOK * 192];
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    for (size_t i = 0; i <= n_cpu; i++)
        for (uint32_t n_tok = 1; n_tok <= N_TOK; n_tok += N_TOK - 1) {
            sl_backend *b = i < n_cpu ? cpu[i].b : bc_scalar();
            sl_product p[N];
            for (size_t k = 0; k < N; k++)
                p[k] = (sl_product){&w[k].whole, together[k], outs[k]};
            sl_matmul(b, p, N, x, N_IN, n_tok);
            for (size_t k = 0; k < N; k++) {
                sl_product one = {&w[k].whole, alone, outs[k]};
                sl_matmul(b, &one, 1, x, N_IN, n_tok);
                assert_memory_equal(alone, together[k], n_tok * outs[k] * sizeof *alone);
            }
        }
    free(x);
    for (size_t i = 0; i < N; i++)
        free_weights(&w[i]);
}

/* ---- benchmark ---- */

static void bench_products(void)
{
    for (size_t i = 0; sl_type_at(i); i++) {
        const sl_type_info *t = sl_type_at(i);
        for (uint32_t n_tok = 1; n_tok <= 64 && t->dequantise; n_tok *= 64) {
            weights w = make_weights(t, 2048, 1024, 0, i);
            float *x = make_x(n_tok, 2048, i);
            product p = {&w.whole, x, 2048};
            bc_case c = product_case(&p, n_tok);
            bc_bench(&c);
            free(x);
            free_weights(&w);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        bc_open(NULL);
        bench_products();
        return bc_close(NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_matrix_type_agrees),
        cmocka_unit_test(products_follow_the_law),
        cmocka_unit_test(products_share_their_input),
    };
    return cmocka_run_group_tests(tests, bc_open, bc_close);
}
