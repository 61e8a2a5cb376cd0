/* The matrix kernels against the law of sl_matmul, stated again here from the format descriptions, element by element:
 * every type, level, odd shape, number of tokens and threads must give exactly these bits.  The weights end right
 * before a page that may not be touched. */
#include "backend/backend_int.h"
#include "backend/cpu/matmul_int.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { MAX_ROW = 193, MAX_TOK = 33, MAX_IN = 2048 };

static uint64_t seed = 88172645463325252u;

static uint32_t random_u32(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static float random_float(void)
{
    return (float)(int32_t)random_u32() * 0x1p-31f;
}

/* ---- the law ---- */

static float half(const uint8_t *p)
{
    unsigned h = p[0] | p[1] << 8, e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
    return (float)(h >> 15 ? -v : v);
}

static float bfloat(const uint8_t *p)
{
    uint32_t u = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static int low(int v)
{
    return v & 15;
}
static int high(int v)
{
    return v >> 4 & 15;
}
static int nibble_32(const uint8_t *qs, int i)
{
    return i < 16 ? low(qs[i]) : high(qs[i - 16]);
}
static int bit(const uint8_t *p, int i)
{
    return p[i / 8] >> i % 8 & 1;
}

/* Integer value of element i of a block: the code less its offset. */
static int code(sl_type type, const uint8_t *B, int i)
{
    static const int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    int g = i / 32, l = i % 32, h = i / 128, k = i % 128 / 32;
    switch (type) {
    case SL_Q4_0:
        return nibble_32(B + 2, i) - 8;
    case SL_MXFP4:
        return fp4[nibble_32(B + 1, i)];
    case SL_Q4_1:
        return nibble_32(B + 4, i);
    case SL_Q5_0:
        return (nibble_32(B + 6, i) | bit(B + 2, i) << 4) - 16;
    case SL_Q5_1:
        return nibble_32(B + 8, i) | bit(B + 4, i) << 4;
    case SL_Q8_0:
        return (int8_t)B[2 + i];
    case SL_Q4_K:
        return g % 2 ? high(B[16 + 32 * (g / 2) + l]) : low(B[16 + 32 * (g / 2) + l]);
    case SL_Q5_K: {
        int v = B[48 + 32 * (g / 2) + l];
        return (g % 2 ? high(v) : low(v)) + 16 * (B[16 + l] >> g & 1);
    }
    case SL_Q6_K: {
        int v = B[64 * h + 32 * (k & 1) + l];
        return ((k < 2 ? low(v) : high(v)) | (B[128 + 32 * h + l] >> 2 * k & 3) << 4) - 32;
    }
    default:
        return 0;
    }
}

/* Scale and minimum of group g of Q4_K and Q5_K. */
static void scale_k(const uint8_t *sc, int g, int *s, int *m)
{
    *s = g < 4 ? sc[g] & 63 : low(sc[g + 4]) | (sc[g - 4] >> 6) << 4;
    *m = g < 4 ? sc[g + 4] & 63 : high(sc[g + 4]) | (sc[g] >> 6) << 4;
}

static float quantise(const float *x, int n, int8_t *q)
{
    float most = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(x[i])) most = NAN;
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    }
    float d = most / 127;
    for (int i = 0; i < n; i++)
        q[i] = d > 0x1p-128f && d < INFINITY ? (int8_t)nearbyintf(x[i] * (1 / d)) : 0;
    return d;
}

static float scale_32(sl_type type, const uint8_t *row)
{
    return type == SL_MXFP4 ? (float)ldexp(1, row[0] - 128) : half(row);
}

static float law_32(sl_type type, const uint8_t *row, const float *x, int n_in)
{
    int bytes = (int)sl_mm_block_bytes(type);
    float acc = 0;
    for (int b = 0; b < n_in / 32; b++, row += bytes) {
        float s = 0;
        for (int h = 0; h < 2; h++) { /* halves of the block */
            int8_t q[16];
            float d = quantise(x + b * 32 + h * 16, 16, q);
            int isum = 0, sum = 0;
            for (int i = 0; i < 16; i++)
                isum += code(type, row, h * 16 + i) * q[i], sum += q[i];
            acc = fmaf(scale_32(type, row) * d, (float)isum, acc);
            s = h ? fmaf(d, (float)sum, s) : d * (float)sum;
        }
        if (type == SL_Q4_1 || type == SL_Q5_1) acc = fmaf(half(row + 2), s, acc);
    }
    return acc;
}

static float law_256(sl_type type, const uint8_t *row, const float *x, int n_in)
{
    int bytes = (int)sl_mm_block_bytes(type);
    float acc = 0;
    for (int b = 0; b < n_in / 256; b++, row += bytes) {
        int8_t q[256];
        float d = quantise(x + b * 256, 256, q);
        int isum = 0, msum = 0;
        for (int i = 0; i < 256; i++) {
            int s, m = 0;
            if (type == SL_Q6_K)
                s = (int8_t)row[192 + i / 16];
            else
                scale_k(row + 4, i / 32, &s, &m);
            isum += s * code(type, row, i) * q[i];
            msum += m * q[i];
        }
        acc = fmaf(half(row + (type == SL_Q6_K ? 208 : 0)) * d, (float)isum, acc);
        if (type != SL_Q6_K) acc = fmaf(-(half(row + 2) * d), (float)msum, acc);
    }
    return acc;
}

static float law_float(sl_type type, const uint8_t *row, const float *x, int n_in)
{
    float s[16] = {0}, w;
    for (int i = 0; i < n_in; i++) {
        if (type == SL_F32)
            memcpy(&w, row + i * 4, 4);
        else
            w = type == SL_F16 ? half(row + i * 2) : bfloat(row + i * 2);
        s[i % 16] = fmaf(w, x[i], s[i % 16]);
    }
    for (int j = 0; j < 8; j++)
        s[j] += s[j + 8];
    for (int j = 0; j < 4; j++)
        s[j] += s[j + 4];
    for (int j = 0; j < 2; j++)
        s[j] += s[j + 2];
    return s[0] + s[1];
}

static bool is_float(sl_type type)
{
    return type == SL_F32 || type == SL_F16 || type == SL_BF16;
}
static bool is_k(sl_type type)
{
    return type == SL_Q4_K || type == SL_Q5_K || type == SL_Q6_K;
}

static float law(sl_type type, const uint8_t *row, const float *x, int n_in)
{
    if (is_float(type)) return law_float(type, row, x, n_in);
    return is_k(type) ? law_256(type, row, x, n_in) : law_32(type, row, x, n_in);
}

/* ---- weights ---- */

typedef struct {
    uint8_t *map, *data;
    size_t map_bytes;
} guarded;

/* bytes that end at a page which may not be touched; begins after `shift` bytes of nothing when shift is not 0 */
static guarded guarded_new(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    guarded g = {.map_bytes = room + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + room, page, PROT_NONE), 0);
    g.data = g.map + room - bytes;
    return g;
}

static void guarded_free(guarded g)
{
    munmap(g.map, g.map_bytes);
}

/* A finite half of middling size. */
static void put_half(uint8_t *p)
{
    p[0] = (uint8_t)random_u32();
    p[1] = (uint8_t)((random_u32() & 0x80) | (8 + random_u32() % 8) << 2 | (random_u32() & 3));
}

static void put_element(sl_type type, uint8_t *p)
{
    float f = random_float();
    if (type == SL_F32)
        memcpy(p, &f, 4);
    else if (type == SL_F16)
        put_half(p);
    else
        memcpy(p, (uint8_t *)&f + 2, 2);
}

static void fill_weights(sl_type type, uint8_t *p, size_t n_block)
{
    size_t bytes = sl_mm_block_bytes(type);
    for (size_t b = 0; b < n_block; b++, p += bytes) {
        if (is_float(type)) {
            put_element(type, p);
            continue;
        }
        for (size_t i = 0; i < bytes; i++)
            p[i] = (uint8_t)(random_u32() >> 3);
        if (type == SL_MXFP4) {
            p[0] = (uint8_t)(b % 7 < 2 ? b % 7 : 110u + p[0] % 30u); /* the subnormal powers too */
            continue;
        }
        put_half(p + (type == SL_Q6_K ? 208 : 0));
        if (type == SL_Q4_1 || type == SL_Q5_1 || type == SL_Q4_K || type == SL_Q5_K) put_half(p + 2);
    }
}

/* ---- backends ---- */

static void backend_new(sl_backend *b, sl_cpu_level level, uint32_t n_thread, uint32_t max_tok, uint32_t max_in)
{
    *b = (sl_backend){
        .opt = {.kind = SL_BACKEND_CPU, .level = level, .n_thread = n_thread, .max_tok = max_tok, .max_in = max_in}};
    sl_err err = {0};
    assert_int_equal(sl_pool_open(&b->pool, n_thread, &err), SL_OK);
    size_t bytes = sl_cpu_matmul_scratch_bytes(&b->opt);
    uint8_t *p = malloc(bytes); /* exactly, so that the sanitizer sees the end */
    assert_non_null(p);
    memset(p, 0x5a, bytes);
    b->act = p;
}

static void backend_free(sl_backend *b)
{
    sl_pool_close(b->pool);
    free(b->act);
}

static const sl_type types[] = {
#define SL_MM_TYPE(type, name, rule) type,
#include "backend/cpu/matmul_list.inc"
#undef SL_MM_TYPE
};
enum { N_TYPE = sizeof types / sizeof *types };

static const sl_cpu_level levels[] = {SL_CPU_PORTABLE, SL_CPU_AVX2, SL_CPU_AVX512};

/* Skips the test, and says why, when this machine has not all levels; the levels it has were tested. */
static int n_level(void)
{
    int n = 1;
    while (n < 3 && sl_cpu_has(levels[n]))
        n++;
    return n;
}

static void count_missing_levels(void)
{
    if (n_level() == 3) return;
    print_message("skipped: this machine has no %s; the levels below it were tested\n",
                  sl_cpu_level_name(levels[n_level()]));
    skip();
}

/* Same bits, or both not a number. */
static bool same(float a, float b)
{
    return memcmp(&a, &b, 4) == 0 || (isnan(a) && isnan(b));
}

/* ---- one problem: weights and inputs of the largest shape, and what must come out ---- */

typedef struct {
    const sl_type_info *type;
    uint32_t n_in;
    size_t row_bytes, ld_x;
    guarded w;
    float *x, *want; /* want [MAX_TOK][MAX_ROW] */
} problem;

static problem problem_new(sl_type type, uint32_t n_in)
{
    problem p = {.type = sl_type_find((uint32_t)type), .n_in = n_in, .ld_x = n_in + 5};
    assert_non_null(p.type);
    p.row_bytes = (size_t)n_in / p.type->block * p.type->block_bytes;
    p.w = guarded_new(p.row_bytes * MAX_ROW);
    fill_weights(type, p.w.data, (size_t)n_in / p.type->block * MAX_ROW);
    p.x = malloc(MAX_TOK * p.ld_x * sizeof(float));
    p.want = malloc(MAX_TOK * MAX_ROW * sizeof(float));
    for (size_t i = 0; i < MAX_TOK * p.ld_x; i++)
        p.x[i] = random_float() * (random_u32() % 16 ? 1.0f : 20.0f);
    for (size_t t = 1; t < MAX_TOK; t += 6)
        memset(p.x + t * p.ld_x, 0, sl_min_u64(n_in, 40) * sizeof(float));
    return p;
}

/* Fills want for the last n_out rows and first n_tok tokens. */
static void expect(problem *p, size_t n_out, size_t n_tok)
{
    for (size_t t = 0; t < n_tok; t++)
        for (size_t r = MAX_ROW - n_out; r < MAX_ROW; r++)
            p->want[t * MAX_ROW + r] =
                law((sl_type)p->type->id, p->w.data + r * p->row_bytes, p->x + t * p->ld_x, (int)p->n_in);
}

static void problem_free(problem *p)
{
    guarded_free(p->w);
    free(p->x);
    free(p->want);
}

/* The last n_out rows, in two pieces when cut is not 0 (the first piece is a copy that lies elsewhere). */
static sl_matrix matrix_of(const problem *p, uint32_t n_out, uint32_t cut, guarded *copy)
{
    const uint8_t *data = p->w.data + (MAX_ROW - n_out) * p->row_bytes;
    sl_matrix m = {.type = p->type, .n_in = p->n_in, .n_out = n_out, .row_bytes = p->row_bytes, .n_part = 1};
    m.part[0].data = data;
    m.part[0].n_row = n_out;
    if (!cut) return m;
    *copy = guarded_new(cut * p->row_bytes);
    memcpy(copy->data, data, cut * p->row_bytes);
    m.n_part = 2;
    m.part[0].data = copy->data;
    m.part[0].n_row = cut;
    m.part[1].data = data + cut * p->row_bytes;
    m.part[1].first_row = cut;
    m.part[1].n_row = n_out - cut;
    return m;
}

/* Output of one product with unused floats around every row. */
static void check(sl_backend *b, const problem *p, uint32_t n_out, uint32_t n_tok, uint32_t cut)
{
    guarded copy = {0};
    sl_matrix m = matrix_of(p, n_out, cut, &copy);
    size_t ld_y = n_out + 3;
    float *y = malloc(n_tok * ld_y * sizeof(float));
    for (size_t i = 0; i < n_tok * ld_y; i++)
        y[i] = 12345;
    sl_product product = {&m, y, ld_y};
    sl_cpu_matmul(b, &product, 1, p->x, p->ld_x, n_tok);
    for (size_t t = 0; t < n_tok; t++) {
        for (size_t r = 0; r < n_out; r++) {
            float got = y[t * ld_y + r], want = p->want[t * MAX_ROW + MAX_ROW - n_out + r];
            if (!same(got, want))
                fail_msg("%s %s: n_in %u n_out %u n_tok %u cut %u threads %u: row %zu token %zu is %a, must be %a",
                         p->type->name, sl_cpu_level_name(b->opt.level), p->n_in, n_out, n_tok, cut, b->opt.n_thread, r,
                         t, (double)got, (double)want);
        }
        for (size_t r = n_out; r < ld_y; r++)
            assert_true(y[t * ld_y + r] == 12345);
    }
    free(y);
    if (cut) guarded_free(copy);
}

static const uint32_t n_outs[] = {1, 3, 7, 8, 9, 17, 64, 193};
static const uint32_t n_toks[] = {1, 2, 3, 4, 5, 7, 8, 16, 33};
static const uint32_t ins_float[] = {1, 15, 33, 250, 1031}, ins_32[] = {32, 96, 576, 1056, 2048},
                      ins_256[] = {256, 768, 1280, 2048};

static void check_all_shapes(const problem *p, sl_cpu_level level)
{
    static uint32_t turn;
    for (uint32_t n_thread = 1; n_thread <= 4; n_thread++) {
        sl_backend b;
        backend_new(&b, level, n_thread, MAX_TOK, p->n_in);
        for (size_t i = 0; i < sizeof n_outs / sizeof *n_outs; i++)
            for (size_t t = 0; t < sizeof n_toks / sizeof *n_toks; t++) {
                if (turn++ % 4 != n_thread - 1) continue; /* every shape with one number of threads */
                uint32_t cut = turn / 4 % 2 ? 0 : random_u32() % n_outs[i];
                check(&b, p, n_outs[i], n_toks[t], cut);
            }
        backend_free(&b);
    }
}

static void test_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_TYPE; i++) {
        const uint32_t *in = is_float(types[i]) ? ins_float : is_k(types[i]) ? ins_256 : ins_32;
        size_t n = is_k(types[i]) ? sizeof ins_256 / sizeof *in : sizeof ins_32 / sizeof *in;
        for (size_t k = 0; k < n; k++) {
            problem p = problem_new(types[i], in[k]);
            expect(&p, MAX_ROW, MAX_TOK);
            for (int l = 0; l < n_level(); l++)
                check_all_shapes(&p, levels[l]);
            problem_free(&p);
        }
    }
    count_missing_levels();
}

/* The result is also the product: close to what the dequantised weights give in double. */
static void test_close_to_dequantised(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_TYPE; i++) {
        enum { N_ROW = 40 };
        problem p = problem_new(types[i], 512);
        float w[512];
        double err = 0, norm = 0;
        expect(&p, N_ROW, MAX_TOK);
        for (size_t r = MAX_ROW - N_ROW; r < MAX_ROW; r++) {
            p.type->dequantise(p.w.data + r * p.row_bytes, w, 512);
            for (size_t t = 0; t < MAX_TOK; t++) {
                double sum = 0;
                for (size_t c = 0; c < 512; c++)
                    sum += (double)w[c] * (double)p.x[t * p.ld_x + c];
                double diff = sum - (double)p.want[t * MAX_ROW + r];
                err += diff * diff;
                norm += sum * sum;
            }
        }
        double bound = is_float(types[i]) ? 1e-6 : 2e-2;
        if (!(sqrt(err / norm) <= bound)) fail_msg("%s: relative error %g", p.type->name, sqrt(err / norm));
        problem_free(&p);
    }
}

/* ---- several products in one call ---- */

static void check_mixed(sl_cpu_level level, uint32_t n_thread, uint32_t n_tok)
{
    enum { N = 19 }; /* more than one dispatch takes */
    sl_backend b;
    problem p[N];
    sl_matrix m[N];
    sl_product product[N];
    guarded none;
    backend_new(&b, level, n_thread, n_tok, 512);
    for (size_t i = 0; i < N; i++) {
        p[i] = problem_new(types[i % N_TYPE], 512);
        uint32_t n_out = 1 + random_u32() % MAX_ROW;
        m[i] = matrix_of(&p[i], n_out, 0, &none);
        product[i] = (sl_product){&m[i], malloc(n_tok * n_out * sizeof(float)), n_out};
    }
    m[3].n_out = m[3].part[0].n_row = 0;
    sl_cpu_matmul(&b, product, N, p[0].x, p[0].ld_x, n_tok);
    for (size_t i = 0; i < N; i++) {
        const uint8_t *rows = m[i].part[0].data;
        for (size_t t = 0; t < n_tok; t++)
            for (size_t r = 0; r < m[i].n_out; r++) {
                float want = law(types[i % N_TYPE], rows + r * m[i].row_bytes, p[0].x + t * p[0].ld_x, 512);
                assert_true(same(product[i].y[t * m[i].n_out + r], want));
            }
    }
    for (size_t i = 0; i < N; i++)
        free(product[i].y), problem_free(&p[i]);
    backend_free(&b);
}

static void test_products_of_all_types_in_one_call(void **state)
{
    (void)state;
    for (int l = 0; l < n_level(); l++) {
        check_mixed(levels[l], 1, 1);
        check_mixed(levels[l], 2, 1);
        check_mixed(levels[l], 1, 3);
        check_mixed(levels[l], 3, 11);
    }
    count_missing_levels();
}

/* ---- hostile inputs ---- */

/* Random bytes everywhere, scales included: infinities, NaN, -128 in Q8_0. */
static void test_hostile_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_TYPE; i++) {
        problem p = problem_new(types[i], 512);
        for (size_t k = 0; k < p.row_bytes * MAX_ROW; k++)
            p.w.data[k] = (uint8_t)(random_u32() % 4 ? random_u32() >> 5 : k % 2 ? 0x80 : 0xff);
        expect(&p, MAX_ROW, 9);
        for (int l = 0; l < n_level(); l++) {
            sl_backend b;
            backend_new(&b, levels[l], 2, 9, 512);
            check(&b, &p, MAX_ROW, 1, 0);
            check(&b, &p, MAX_ROW, 9, 0);
            backend_free(&b);
        }
        problem_free(&p);
    }
    count_missing_levels();
}

/* The largest sums that can be: all codes and activations at their ends. */
static void test_extreme_codes(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x00, 0xff, 0x80, 0x7f};
    for (size_t i = 0; i < N_TYPE; i++) {
        if (is_float(types[i])) continue;
        problem p = problem_new(types[i], 512);
        uint32_t block = sl_mm_block_bytes(types[i]), n_block = 512 / p.type->block;
        for (size_t r = 0; r < MAX_ROW; r++)
            for (size_t k = 0; k < n_block; k++) {
                uint8_t *B = p.w.data + r * p.row_bytes + k * block;
                memset(B, bytes[(r + k) % 4], block);
                if (types[i] == SL_MXFP4) {
                    B[0] = 127;
                    continue;
                }
                put_half(B + (types[i] == SL_Q6_K ? 208 : 0));
                if (types[i] != SL_Q6_K && types[i] != SL_Q8_0) put_half(B + 2);
                if (types[i] == SL_Q6_K) memset(B + 192, bytes[r % 4], 16);
            }
        for (size_t t = 0; t < MAX_TOK; t++)
            for (size_t c = 0; c < 512; c++)
                p.x[t * p.ld_x + c] = t % 3 == 0 ? 3.0f : t % 3 == 1 ? -2.5f : c % 2 ? 1.5f : -1.5f;
        expect(&p, 49, MAX_TOK);
        for (int l = 0; l < n_level(); l++) {
            sl_backend b;
            backend_new(&b, levels[l], 2, MAX_TOK, 512);
            check(&b, &p, 49, 1, 0);
            check(&b, &p, 49, 4, 0);
            check(&b, &p, 49, MAX_TOK, 0);
            backend_free(&b);
        }
        problem_free(&p);
    }
    count_missing_levels();
}

/* Zeros, negative zeros, halves to be rounded, subnormals, huge values, infinities and NaN among the activations. */
static void test_odd_activations(void **state)
{
    (void)state;
    static const float odd[] = {0,         -0.0f,       0.5f,  1.5f,   -2.5f,    127,       0x1p-149f, -0x1.8p-147f,
                                0x1p-121f, 0x1.fp-127f, 3e38f, -1e30f, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < N_TYPE; i++) {
        problem p = problem_new(types[i], 512);
        for (size_t t = 0; t < MAX_TOK; t++)
            for (size_t c = 0; c < 512; c++) {
                size_t kind = t < 15 ? t : random_u32() % 15;
                bool all = t >= 6 && t < 10;
                if (all || c % 37 == t) p.x[t * p.ld_x + c] = odd[kind];
                if (t < 6) p.x[t * p.ld_x + c] = odd[random_u32() % 6];
                if (t >= 6 && t < 10 && c % 3) p.x[t * p.ld_x + c] *= random_float();
            }
        expect(&p, 9, MAX_TOK);
        for (int l = 0; l < n_level(); l++) {
            sl_backend b;
            backend_new(&b, levels[l], 2, MAX_TOK, 512);
            float *x = p.x, *want = p.want;
            check(&b, &p, 9, MAX_TOK, 0);
            for (size_t t = 0; t < MAX_TOK; t++, p.x += p.ld_x, p.want += MAX_ROW)
                check(&b, &p, 9, 1, 0);
            p.x = x;
            p.want = want;
            backend_free(&b);
        }
        problem_free(&p);
    }
    count_missing_levels();
}

/* Products that round to -0 everywhere: columns that are not there must not turn a partial sum into +0. */
static void test_sign_of_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_TYPE; i++) {
        if (!is_float(types[i])) continue;
        problem p = problem_new(types[i], 17);
        for (size_t k = 0; k < (size_t)MAX_ROW * 17; k++) {
            static const uint8_t small[][4] = {
                {0, 0, 0x80, 0x80}, {1, 0x80}, {0x80, 0x80}}; /* negative, of F32 F16 BF16 */
            size_t bytes = p.type->block_bytes;
            memcpy(p.w.data + k * bytes, small[i], bytes);
        }
        for (size_t c = 0; c < MAX_TOK * p.ld_x; c++)
            p.x[c] = 0x1p-140f;
        expect(&p, 9, 5);
        assert_true(same(p.want[MAX_ROW - 1], -0.0f));
        for (int l = 0; l < n_level(); l++) {
            sl_backend b;
            backend_new(&b, levels[l], 1, 5, 17);
            check(&b, &p, 9, 1, 0);
            check(&b, &p, 9, 5, 0);
            backend_free(&b);
        }
        problem_free(&p);
    }
    count_missing_levels();
}

static void test_scratch_and_support(void **state)
{
    (void)state;
    sl_backend_options opt = {.n_thread = 2, .max_tok = 1, .max_in = 4096};
    uint64_t one = sl_cpu_matmul_scratch_bytes(&opt);
    opt.max_tok = 512;
    assert_true(one > 4096 && one < 128 << 10);
    assert_true(sl_cpu_matmul_scratch_bytes(&opt) < 512 * 4096 * 7 / 4);
    for (size_t i = 0; sl_type_at(i); i++) {
        bool listed = false;
        for (size_t k = 0; k < N_TYPE; k++)
            listed |= sl_type_at(i)->id == (uint32_t)types[k];
        assert_int_equal(sl_cpu_matmul_supports(sl_type_at(i)), listed);
        if (listed && !is_float((sl_type)sl_type_at(i)->id))
            assert_int_equal(sl_mm_block_bytes((sl_type)sl_type_at(i)->id), sl_type_at(i)->block_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_close_to_dequantised),
        cmocka_unit_test(test_products_of_all_types_in_one_call),
        cmocka_unit_test(test_hostile_weights),
        cmocka_unit_test(test_extreme_codes),
        cmocka_unit_test(test_odd_activations),
        cmocka_unit_test(test_sign_of_zero),
        cmocka_unit_test(test_scratch_and_support),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
