/* Attention and KV rows.  test_attend --bench prints times instead. */
#include "backend_case.h"

#include "backend/cpu/kernels.h"
#include "backend/kv_row.h"
#include "base/mathx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t n_head, n_head_kv, head_dim, pos, n_tok, window;
    float softcap;
    sl_kv_type kv;
} shape;

/* Sinks of heads: some far below the scores, some above them. */
static const float sink_values[] = {0.3f, -2, 4, 1, -30, 25, 0, 0.5f};

/* The rows of a case: exact values beside the bytes. */
typedef struct {
    shape s;
    bool sinks;
    float *q; /* [n_tok][ld_q] */
    size_t ld_q;
    uint8_t *k, *v; /* [pos + n_tok] rows */
    float *kf, *vf; /* what the bytes mean */
    uint64_t row_bytes;
} operands;

static const char *kv_name(sl_kv_type t)
{
    return t == SL_KV_F16 ? "f16" : t == SL_KV_Q8 ? "q8" : "f32";
}

/* ---- KV rows, made and read without the library ---- */

static void encode_q8(uint8_t *to, const float *x)
{
    float max = 0;
    for (int i = 0; i < 32; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    uint16_t h = bc_f16_from_double(max / 127.0f);
    float d = (float)bc_f16_to_double(h);
    memcpy(to, &h, 2);
    for (int i = 0; i < 32; i++) {
        float q = d > 0 ? nearbyintf(x[i] * (1.0f / d)) : 0;
        int8_t code = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
        memcpy(to + 2 + i, &code, 1);
    }
}

static void encode_row(sl_kv_type type, uint8_t *to, const float *x, size_t n)
{
    if (type == SL_KV_F32) memcpy(to, x, n * 4);
    for (size_t i = 0; type == SL_KV_F16 && i < n; i++) {
        uint16_t h = bc_f16_from_double(x[i]);
        memcpy(to + 2 * i, &h, 2);
    }
    for (size_t i = 0; type == SL_KV_Q8 && i < n; i += 32)
        encode_q8(to + i / 32 * 34, x + i);
}

static void decode_row(sl_kv_type type, float *to, const uint8_t *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        if (type == SL_KV_F32) {
            memcpy(to + i, row + 4 * i, 4);
        } else if (type == SL_KV_F16) {
            memcpy(&h, row + 2 * i, 2);
            to[i] = (float)bc_f16_to_double(h);
        } else {
            memcpy(&h, row + i / 32 * 34, 2);
            to[i] = (float)bc_f16_to_double(h) * (float)(int8_t)row[i / 32 * 34 + 2 + i % 32];
        }
    }
}

/* ---- cases ---- */

static void run_attend(const bc_case *c, sl_backend *b, uint32_t first, uint32_t n, float *out, size_t ld)
{
    const operands *o = c->operands;
    const shape *s = &o->s;
    sl_attention a = {.out = out,
                      .q = o->q + first * o->ld_q,
                      .ld_out = ld,
                      .ld_q = o->ld_q,
                      .k = o->k,
                      .v = o->v,
                      .row_bytes = o->row_bytes,
                      .type = s->kv,
                      .n_head = s->n_head,
                      .n_head_kv = s->n_head_kv,
                      .head_dim = s->head_dim,
                      .n_tok = n,
                      .pos = s->pos + first,
                      .window = s->window,
                      .scale = 1.0f / sqrtf((float)s->head_dim),
                      .softcap = s->softcap,
                      .sinks = o->sinks ? sink_values : NULL};
    sl_attend(b, &a);
}

static void expect_head(const operands *o, uint32_t t, uint32_t head, double *out)
{
    const shape *s = &o->s;
    uint32_t n = s->n_head_kv * s->head_dim, g = head / (s->n_head / s->n_head_kv) * s->head_dim;
    uint32_t last = s->pos + t, first = s->window && last + 1 > s->window ? last + 1 - s->window : 0;
    const float *q = o->q + t * o->ld_q + head * s->head_dim;
    double scale = 1.0f / sqrtf((float)s->head_dim), max = -INFINITY, sum = 0;
    double *score = malloc((last + 1) * sizeof *score);
    for (uint32_t p = first; p <= last; p++) {
        double dot = 0;
        for (uint32_t d = 0; d < s->head_dim; d++)
            dot += (double)q[d] * o->kf[(size_t)p * n + g + d];
        score[p] = dot * scale;
        if (s->softcap > 0) score[p] = s->softcap * tanh(score[p] / s->softcap);
        max = fmax(max, score[p]);
    }
    if (o->sinks) {
        max = fmax(max, sink_values[head]);
        sum = exp(sink_values[head] - max);
    }
    for (uint32_t d = 0; d < s->head_dim; d++)
        out[d] = 0;
    for (uint32_t p = first; p <= last; p++) {
        double w = exp(score[p] - max);
        sum += w;
        for (uint32_t d = 0; d < s->head_dim; d++)
            out[d] += w * o->vf[(size_t)p * n + g + d];
    }
    for (uint32_t d = 0; d < s->head_dim; d++)
        out[d] /= sum;
    free(score);
}

static void expect_attend(const bc_case *c, uint32_t t, double *out)
{
    const operands *o = c->operands;
    for (uint32_t h = 0; h < o->s.n_head; h++)
        expect_head(o, t, h, out + h * o->s.head_dim);
}

static uint8_t *make_rows(const operands *o, bc_rng *r, float **values)
{
    const shape *s = &o->s;
    size_t n = s->n_head_kv * s->head_dim, n_row = s->pos + s->n_tok;
    float *x = malloc(n * sizeof *x);
    uint8_t *rows = malloc(n_row * o->row_bytes);
    *values = malloc(n_row * n * sizeof **values);
    memset(rows, 0xff, n_row * o->row_bytes); /* NaN in every format, where rows are padded */
    for (size_t p = 0; p < n_row; p++) {
        bc_fill(r, x, n);
        encode_row(s->kv, rows + p * o->row_bytes, x, n);
        decode_row(s->kv, *values + p * n, rows + p * o->row_bytes, n);
    }
    free(x);
    return rows;
}

static operands make_operands(const shape *s)
{
    bc_rng r = {s->n_head * 7919 + s->head_dim * 31 + s->pos + s->window};
    operands o = {.s = *s, .ld_q = (size_t)s->n_head * s->head_dim + 3};
    /* rows need not be packed; float32 ones keep their alignment, the others get none */
    o.row_bytes = sl_kv_row_bytes(s->kv, s->n_head_kv * s->head_dim) + (s->kv == SL_KV_F32 ? 8 : 5);
    o.q = malloc(s->n_tok * o.ld_q * sizeof *o.q);
    bc_fill(&r, o.q, s->n_tok * o.ld_q);
    for (size_t i = 0; i < s->n_tok * o.ld_q; i++)
        o.q[i] *= 2; /* softmax with some peaks */
    o.k = make_rows(&o, &r, &o.kf);
    o.v = make_rows(&o, &r, &o.vf);
    return o;
}

static void free_operands(operands *o)
{
    free(o->q);
    free(o->k);
    free(o->v);
    free(o->kf);
    free(o->vf);
}

static bc_case make_case(const operands *o)
{
    const shape *s = &o->s;
    bc_case c = {.n_tok = s->n_tok,
                 .n_out = s->n_head * s->head_dim,
                 .run = run_attend,
                 .expect = expect_attend,
                 .tol_scalar = 1e-5,
                 .tol_cpu = 1e-5,
                 .operands = o};
    snprintf(c.name, sizeof c.name, "attend %s %u/%u x %u, %u tok at %u, window %u, cap %g", kv_name(s->kv), s->n_head,
             s->n_head_kv, s->head_dim, s->n_tok, s->pos, s->window, (double)s->softcap);
    return c;
}

static void for_shapes(const shape *shapes, size_t n, bool sinks, void (*each)(const bc_case *))
{
    for (size_t i = 0; i < n; i++) {
        operands o = make_operands(&shapes[i]);
        o.sinks = sinks;
        bc_case c = make_case(&o);
        each(&c);
        free_operands(&o);
    }
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* n_head, n_head_kv, head_dim, pos, n_tok, window, softcap, kv */
static const shape shapes[] = {
    /* positions around block borders, one token and a few */
    {3, 3, 64, 0, 1, 0, 0, SL_KV_F16},
    {3, 1, 64, 1, 1, 0, 0, SL_KV_F16},
    {4, 1, 64, 63, 1, 0, 0, SL_KV_F16},
    {4, 4, 64, 64, 1, 0, 0, SL_KV_F32},
    {8, 1, 64, 65, 1, 0, 0, SL_KV_Q8},
    {9, 3, 64, 62, 5, 0, 0, SL_KV_F16},
    {9, 3, 64, 511, 3, 0, 0, SL_KV_F32},
    {2, 1, 128, 2000, 1, 0, 0, SL_KV_F16},
    {5, 1, 96, 2000, 2, 0, 0, SL_KV_Q8},
    /* head sizes, whole and not whole in lanes, heads that begin inside a q8 block */
    {4, 2, 16, 70, 3, 0, 0, SL_KV_Q8},
    {6, 2, 80, 130, 4, 0, 0, SL_KV_Q8},
    {4, 4, 24, 130, 4, 0, 0, SL_KV_Q8},
    {4, 4, 24, 65, 2, 0, 0, SL_KV_F16},
    {3, 1, 36, 65, 2, 0, 0, SL_KV_F32},
    {7, 1, 28, 66, 2, 0, 0, SL_KV_F16},
    {2, 1, 46, 129, 3, 0, 0, SL_KV_F32},
    {2, 1, 7, 65, 3, 0, 0, SL_KV_F16},
    {1, 1, 1, 65, 2, 0, 0, SL_KV_F32},
    {4, 1, 256, 100, 2, 0, 0, SL_KV_F16},
    {4, 2, 112, 200, 6, 0, 0, SL_KV_F32},
    {2, 2, 192, 65, 5, 0, 0, SL_KV_Q8},
    /* windows */
    {4, 2, 32, 0, 9, 1, 0, SL_KV_F16},
    {3, 1, 64, 511, 4, 5, 0, SL_KV_F16},
    {4, 1, 64, 60, 12, 5, 0, SL_KV_Q8},
    {4, 4, 64, 500, 20, 64, 0, SL_KV_F16},
    {8, 2, 64, 1000, 3, 512, 0, SL_KV_F32},
    {2, 1, 64, 2000, 1, 512, 0, SL_KV_Q8},
    {2, 1, 32, 190, 70, 64, 0, SL_KV_F32},
    /* soft caps */
    {4, 2, 64, 130, 3, 0, 50, SL_KV_F16},
    {2, 1, 256, 65, 2, 64, 2, SL_KV_F32},
    /* chunks */
    {3, 3, 64, 0, 150, 0, 0, SL_KV_F16},
    {6, 2, 48, 33, 100, 0, 0, SL_KV_F16},
    {8, 1, 64, 64, 65, 0, 0, SL_KV_Q8},
    {3, 1, 128, 0, 129, 17, 30, SL_KV_F32},
    /* blocks spread over five threads in several waves of scratch */
    {8, 1, 32, 700, 25, 0, 0, SL_KV_F16},
    {7, 7, 16, 600, 30, 333, 0, SL_KV_F32},
    /* more query heads to a kv head than a tile of queries */
    {70, 1, 16, 80, 2, 0, 0, SL_KV_F16},
};

/* at most as many heads as there are sinks */
static const shape sink_shapes[] = {
    {4, 2, 64, 0, 9, 0, 0, SL_KV_F32},   {8, 1, 32, 700, 25, 0, 0, SL_KV_F16}, {8, 8, 64, 500, 3, 128, 0, SL_KV_Q8},
    {8, 2, 16, 2000, 1, 0, 0, SL_KV_F16}, {1, 1, 64, 0, 1, 0, 0, SL_KV_F16},
};

static void attention_with_sinks_agrees(void **state)
{
    (void)state;
    for_shapes(sink_shapes, COUNT(sink_shapes), true, bc_check);
}

static void attention_agrees(void **state)
{
    (void)state;
    for_shapes(shapes, COUNT(shapes), false, bc_check);
}

/* ---- the law, written once more without the library's kernels ---- */

static float law_dot(const float *a, const float *b, uint32_t n)
{
    float s[16] = {0};
    for (uint32_t i = 0; i < n; i++)
        s[i % 16] = fmaf(a[i], b[i], s[i % 16]);
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++)
            s[j] += s[j + half];
    return s[0];
}

/* One block: o, *m and *l from positions [from, to). */
static void law_block(const operands *o, const float *q, uint32_t g, uint32_t from, uint32_t to, float *out, float *m,
                      float *l)
{
    const shape *s = &o->s;
    uint32_t n = s->n_head_kv * s->head_dim;
    float p[64];
    *m = -INFINITY;
    *l = 0;
    for (uint32_t j = from; j < to; j++) {
        float x = 1.0f / sqrtf((float)s->head_dim) * law_dot(q, o->kf + (size_t)j * n + g, s->head_dim);
        p[j - from] = s->softcap > 0 ? s->softcap * sl_tanhf(x / s->softcap) : x;
        *m = p[j - from] > *m ? p[j - from] : *m;
    }
    for (uint32_t d = 0; d < s->head_dim; d++)
        out[d] = 0;
    for (uint32_t j = from; j < to; j++) {
        float w = sl_expf(p[j - from] - *m);
        *l += w;
        for (uint32_t d = 0; d < s->head_dim; d++)
            out[d] = fmaf(w, o->vf[(size_t)j * n + g + d], out[d]);
    }
}

static void law_head(const operands *o, uint32_t t, uint32_t head, float *out)
{
    const shape *s = &o->s;
    uint32_t g = head / (s->n_head / s->n_head_kv) * s->head_dim;
    uint32_t end = s->pos + t + 1, p = s->window && end > s->window ? end - s->window : 0;
    const float *q = o->q + t * o->ld_q + head * s->head_dim;
    float m = 0, l = 0, o_b[BC_MAX_HEAD_DIM], m_b, l_b;
    for (bool first = true; p < end; first = false) {
        uint32_t to = (p / 64 + 1) * 64 < end ? (p / 64 + 1) * 64 : end;
        law_block(o, q, g, p, to, first ? out : o_b, first ? &m : &m_b, first ? &l : &l_b);
        p = to;
        if (first) continue;
        float top = m > m_b ? m : m_b, a = sl_expf(m - top), c = sl_expf(m_b - top);
        l = fmaf(l, a, l_b * c);
        for (uint32_t d = 0; d < s->head_dim; d++)
            out[d] = fmaf(out[d], a, o_b[d] * c);
        m = top;
    }
    float last = 1.0f / l;
    if (o->sinks) {
        float z = sink_values[head], top = m > z ? m : z, a = sl_expf(m - top);
        last = a / fmaf(l, a, sl_expf(z - top));
    }
    for (uint32_t d = 0; d < s->head_dim; d++)
        out[d] *= last;
}

static void check_law(const bc_case *c)
{
    const operands *o = c->operands;
    size_t n, floats = (size_t)c->n_tok * c->n_out;
    const bc_backend *cpu = bc_cpu(&n);
    float *got = malloc(floats * sizeof *got), *want = malloc(floats * sizeof *want);
    for (uint32_t i = 0; i < c->n_tok * o->s.n_head; i++)
        law_head(o, i / o->s.n_head, i % o->s.n_head, want + (size_t)i * o->s.head_dim);
    for (size_t i = 0; i < n; i++) {
        if (cpu[i].level == SL_CPU_PORTABLE && n > 4) continue; /* bc_check has it equal to the others */
        c->run(c, cpu[i].b, 0, c->n_tok, got, c->n_out);
        for (size_t k = 0; k < floats; k++)
            if (bc_bits(got[k]) != bc_bits(want[k]))
                fail_msg("%s, %s: element %zu is %.9g, the law says %.9g", c->name, cpu[i].name, k, got[k], want[k]);
    }
    free(got);
    free(want);
}

static void attention_follows_the_law(void **state)
{
    (void)state;
    for_shapes(shapes, COUNT(shapes), false, check_law);
}

/* What a token sees of the future is nothing: NaN and infinities there change no bit. */
static void future_rows_do_not_matter(void **state)
{
    (void)state;
    static const shape s = {6, 2, 64, 60, 12, 7, 0, SL_KV_F32};
    operands o = make_operands(&s);
    bc_case c = make_case(&o);
    size_t n;
    const bc_backend *cpu = bc_cpu(&n);
    float *want = malloc(c.n_tok * c.n_out * sizeof *want), *got = malloc(c.n_tok * c.n_out * sizeof *got);
    c.run(&c, cpu[0].b, 0, c.n_tok, want, c.n_out);
    for (uint32_t p = s.pos + 4; p < s.pos + s.n_tok; p++)
        for (uint64_t i = 0; i < o.row_bytes; i += 4) {
            uint32_t bad = i % 8 ? 0x7f800000u : 0x7fc00000u;
            memcpy(o.k + p * o.row_bytes + i, &bad, 4);
            memcpy(o.v + p * o.row_bytes + i, &bad, 4);
        }
    for (size_t i = 0; i < n; i++) {
        c.run(&c, cpu[i].b, 0, c.n_tok, got, c.n_out);
        for (uint32_t k = 0; k < 4 * c.n_out; k++)
            assert_int_equal(bc_bits(want[k]), bc_bits(got[k]));
        for (uint32_t k = 4 * c.n_out; k < c.n_tok * c.n_out; k++)
            assert_true(isnan(got[k]));
    }
    free(want);
    free(got);
    free_operands(&o);
}

/* Scores far apart: everything but the largest weighs nothing, and no block poisons the sum. */
static void huge_scores_do_not_overflow(void **state)
{
    (void)state;
    static const shape s = {2, 1, 32, 199, 1, 0, 0, SL_KV_F32};
    operands o = make_operands(&s);
    bc_case c = make_case(&o);
    for (size_t i = 0; i < 64; i++)
        o.q[i] = i % 32 == 0 ? 1e4f : 0;
    for (uint32_t p = 0; p < 200; p++) {
        float k = p == 70 ? 100.0f : -100.0f - (float)p;
        memcpy(o.k + p * o.row_bytes, &k, 4);
        o.kf[(size_t)p * 32] = k;
    }
    bc_check(&c);
    float out[64];
    size_t n;
    c.run(&c, bc_cpu(&n)[0].b, 0, 1, out, 64);
    assert_memory_equal(out, o.vf + 70 * 32, 32 * sizeof *out);
    free_operands(&o);
}

/* ---- KV rows ---- */

static void kv_rows_are_stored_by_the_rule(void **state)
{
    (void)state;
    static const sl_kv_type types[] = {SL_KV_F32, SL_KV_F16, SL_KV_Q8};
    static const float edge[] = {0, -0.0f, 65504, 65519.9f, 65520, 1e-8f, -6e-8f, 3e-5f, 2.5f, 1e-30f, 3e6f};
    enum { N = 96, ROWS = 40, LD = N + 1 };
    float x[ROWS * LD];
    bc_rng r = {5};
    bc_fill(&r, x, ROWS * LD);
    for (int t = 0; t < ROWS; t++)
        for (int i = 0; i < N; i++) {
            if (t % 4 == 1) x[t * LD + i] = edge[bc_random(&r) % COUNT(edge)];
            if (t % 4 == 2) x[t * LD + i] *= 3e-6f; /* the scale is subnormal in float16 */
            if (t % 4 == 3) x[t * LD + i] = i % 32 == 3 ? 1.5f : ldexpf((float)(bc_random(&r) % 255) - 127, -7);
        }
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    for (size_t k = 0; k < COUNT(types); k++) {
        uint64_t bytes = sl_kv_row_bytes(types[k], N);
        assert_int_equal(bytes, types[k] == SL_KV_F32 ? 384 : types[k] == SL_KV_F16 ? 192 : 102);
        uint8_t want[ROWS * N * 4], got[ROWS * N * 4 + 3];
        for (int t = 0; t < ROWS; t++)
            encode_row(types[k], want + t * bytes, x + t * LD, N);
        for (size_t i = 0; i <= n_cpu; i++) {
            memset(got, 0xa5, sizeof got);
            sl_kv_store(i < n_cpu ? cpu[i].b : bc_scalar(), types[k], got, x, LD, N, ROWS);
            for (size_t j = 0; j < ROWS * bytes; j++)
                if (got[j] != want[j])
                    fail_msg("%s, %s: row %zu, byte %zu is %02x, not %02x", kv_name(types[k]),
                             i < n_cpu ? cpu[i].name : "scalar", (size_t)(j / bytes), (size_t)(j % bytes), got[j],
                             want[j]);
            assert_int_equal(got[ROWS * bytes], 0xa5);
        }
    }
}

/* Odd lengths, float16: nothing behind the row is touched. */
static void f16_rows_of_any_length(void **state)
{
    (void)state;
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    float x[40];
    bc_rng r = {6};
    bc_fill(&r, x, 40);
    for (size_t i = 0; i < n_cpu; i++)
        for (uint32_t n = 1; n <= 40; n++) {
            uint8_t want[80], got[81];
            memset(got, 0xa5, sizeof got);
            encode_row(SL_KV_F16, want, x, n);
            sl_kv_store(cpu[i].b, SL_KV_F16, got, x, n, n, 1);
            assert_memory_equal(got, want, 2 * n);
            assert_int_equal(got[2 * n], 0xa5);
        }
}

/* A q8 block with a NaN, an infinity or something beyond float16 reads back as NaN, not as numbers. */
static void bad_values_stay_visible_in_q8(void **state)
{
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 1e9f};
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    for (size_t k = 0; k < COUNT(bad); k++) {
        float x[64], back[64];
        uint8_t want[68], got[68];
        for (int i = 0; i < 64; i++)
            x[i] = (float)i;
        x[7] = bad[k];
        sl_kv_store(bc_scalar(), SL_KV_Q8, want, x, 64, 64, 1);
        decode_row(SL_KV_Q8, back, want, 64);
        for (int i = 0; i < 32; i++)
            assert_true(isnan(back[i]));
        for (int i = 32; i < 64; i++)
            assert_true(fabsf(back[i] - x[i]) <= 0.3f);
        for (size_t i = 0; i < n_cpu; i++) {
            sl_kv_store(cpu[i].b, SL_KV_Q8, got, x, 64, 64, 1);
            assert_memory_equal(got, want, 68);
        }
    }
}

/* ---- benchmark ---- */

static const shape bench_shapes[] = {
    {9, 3, 64, 100, 1, 0, 0, SL_KV_F16},    {9, 3, 64, 2000, 1, 0, 0, SL_KV_F16},
    {9, 3, 64, 2000, 1, 0, 0, SL_KV_F32},   {9, 3, 64, 2000, 1, 0, 0, SL_KV_Q8},
    {32, 8, 128, 4000, 1, 0, 0, SL_KV_F16}, {4, 1, 256, 2000, 1, 512, 0, SL_KV_F16},
    {9, 3, 64, 0, 128, 0, 0, SL_KV_F16},    {9, 3, 64, 1900, 64, 0, 0, SL_KV_F16},
    {8, 2, 128, 1900, 64, 0, 0, SL_KV_F16}, {8, 2, 128, 1900, 64, 0, 0, SL_KV_Q8},
    {8, 2, 128, 1900, 64, 0, 0, SL_KV_F32},
};

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        bc_open(NULL);
        for_shapes(bench_shapes, COUNT(bench_shapes), false, bc_bench);
        return bc_close(NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_agrees), cmocka_unit_test(attention_with_sinks_agrees),
        cmocka_unit_test(attention_follows_the_law),
        cmocka_unit_test(future_rows_do_not_matter),
        cmocka_unit_test(huge_scores_do_not_overflow),
        cmocka_unit_test(kv_rows_are_stored_by_the_rule),
        cmocka_unit_test(f16_rows_of_any_length),
        cmocka_unit_test(bad_values_stay_visible_in_q8),
    };
    return cmocka_run_group_tests(tests, bc_open, bc_close);
}
