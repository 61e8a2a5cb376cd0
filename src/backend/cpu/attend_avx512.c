/* AVX-512 kernels of attention; kernels.h says what each does, attend_portable.c is their definition.
 *
 * Scores: a tile is 16 (query, position) pairs with one 16-lane accumulator each, which are the 16 partial sums of
 * sum16; the tree of all 16 sums is then done at once by transposing.  Weighing: a tile is 4 queries x 64 columns. */
#if defined(__x86_64__)
#include "backend/cpu/kernels.h"

#include "backend/cpu/lanes_avx512.h"

#include <math.h>

/* ---- scores ---- */

/* [x, y] -> sums j + 8: 128-bit lanes x0 x1 y0 y1 */
static inline __m512 halve_8(__m512 x, __m512 y)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
}

/* sums j + 4: one 128-bit lane for each of four dots */
static inline __m512 halve_4(__m512 x, __m512 y)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd));
}

/* sums j + 2: two floats for each of eight dots */
static inline __m512 halve_2(__m512 x, __m512 y)
{
    return _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xee));
}

static inline __m512 halve_1(__m512 x, __m512 y)
{
    return _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xdd));
}

/* Partial sums of four dots -> 128-bit lane i holds the four last partial sums of dot i. */
static inline __m512 four_dots(__m512 a, __m512 b, __m512 c, __m512 d)
{
    return halve_4(halve_8(a, b), halve_8(c, d));
}

/* Lane i, element e of the result is dot i of group e. */
static inline __m512 sixteen_dots(__m512 g0, __m512 g1, __m512 g2, __m512 g3)
{
    return halve_1(halve_2(g0, g1), halve_2(g2, g3));
}

/* 4 queries x 4 positions. */
static void tile_4x4(float *s, const float *const *q, const float *const *k, uint32_t n)
{
    __m512 a00 = _mm512_setzero_ps(), a01 = a00, a02 = a00, a03 = a00, a10 = a00, a11 = a00, a12 = a00, a13 = a00;
    __m512 a20 = a00, a21 = a00, a22 = a00, a23 = a00, a30 = a00, a31 = a00, a32 = a00, a33 = a00;
#define LINE(load, fma, j)                                                                                             \
    do {                                                                                                               \
        __m512 kj = load(k[j] + i);                                                                                    \
        a0##j = fma(q0, kj, a0##j);                                                                                    \
        a1##j = fma(q1, kj, a1##j);                                                                                    \
        a2##j = fma(q2, kj, a2##j);                                                                                    \
        a3##j = fma(q3, kj, a3##j);                                                                                    \
    } while (0)
#define COLUMN(load, fma)                                                                                              \
    do {                                                                                                               \
        __m512 q0 = load(q[0] + i), q1 = load(q[1] + i), q2 = load(q[2] + i), q3 = load(q[3] + i);                     \
        LINE(load, fma, 0);                                                                                            \
        LINE(load, fma, 1);                                                                                            \
        LINE(load, fma, 2);                                                                                            \
        LINE(load, fma, 3);                                                                                            \
    } while (0)
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        COLUMN(_mm512_loadu_ps, _mm512_fmadd_ps);
    if (i < n) {
        const __mmask16 m = first_lanes(n - i);
#define LOAD_M(p)      _mm512_maskz_loadu_ps(m, p)
#define FMA_M(a, b, c) _mm512_mask3_fmadd_ps(a, b, c, m)
        COLUMN(LOAD_M, FMA_M);
#undef LOAD_M
#undef FMA_M
    }
#undef COLUMN
#undef LINE
    __m512 g0 = four_dots(a00, a10, a20, a30), g1 = four_dots(a01, a11, a21, a31);
    __m512 g2 = four_dots(a02, a12, a22, a32), g3 = four_dots(a03, a13, a23, a33);
    __m512 r = sixteen_dots(g0, g1, g2, g3); /* lane = query, element = position */
    _mm_storeu_ps(s, _mm512_castps512_ps128(r));
    _mm_storeu_ps(s + SL_SCORE_LD, _mm512_extractf32x4_ps(r, 1));
    _mm_storeu_ps(s + 2 * SL_SCORE_LD, _mm512_extractf32x4_ps(r, 2));
    _mm_storeu_ps(s + 3 * SL_SCORE_LD, _mm512_extractf32x4_ps(r, 3));
}

/* 1 query x 16 positions; k points to rows in order. */
static void tile_1x16(float *s, const float *q, const float *const *k, uint32_t n)
{
    __m512 a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0, a8 = a0, a9 = a0;
    __m512 a10 = a0, a11 = a0, a12 = a0, a13 = a0, a14 = a0, a15 = a0;
    uint32_t i = 0;
#define DOT(j)   a##j = _mm512_fmadd_ps(qi, _mm512_loadu_ps(k[j] + i), a##j)
#define DOT_M(j) a##j = _mm512_mask3_fmadd_ps(qi, _mm512_maskz_loadu_ps(m, k[j] + i), a##j, m)
#define ALL(DO)                                                                                                        \
    DO(0), DO(1), DO(2), DO(3), DO(4), DO(5), DO(6), DO(7), DO(8), DO(9), DO(10), DO(11), DO(12), DO(13), DO(14), DO(15)
    for (; i + 16 <= n; i += 16) {
        const __m512 qi = _mm512_loadu_ps(q + i);
        ALL(DOT);
    }
    if (i < n) {
        const __mmask16 m = first_lanes(n - i);
        const __m512 qi = _mm512_maskz_loadu_ps(m, q + i);
        ALL(DOT_M);
    }
#undef ALL
#undef DOT_M
#undef DOT
    __m512 g0 = four_dots(a0, a4, a8, a12), g1 = four_dots(a1, a5, a9, a13);
    __m512 g2 = four_dots(a2, a6, a10, a14), g3 = four_dots(a3, a7, a11, a15);
    _mm512_storeu_ps(s, sixteen_dots(g0, g1, g2, g3));
}

/* Pointers to rows [from, from + n_row) of k; beyond the last row the last one again, whose dots are not used. */
static inline void row_pointers(const float **rows, uint32_t n_row, const float *k, size_t ld_k, uint32_t from,
                                uint32_t n_pos)
{
    for (uint32_t j = 0; j < n_row; j++)
        rows[j] = k + (from + j < n_pos ? from + j : n_pos - 1) * ld_k;
}

enum { GROUP = 16 }; /* queries whose rows stay in the first cache while all of K passes */

/* A multiple of 4 queries. */
static void score_group(float *s, const float *const *q, uint32_t n_query, const float *k, size_t ld_k, uint32_t n_pos,
                        uint32_t head_dim)
{
    const float *rows[4];
    for (uint32_t j = 0; j < n_pos; j += 4) {
        row_pointers(rows, 4, k, ld_k, j, n_pos);
        for (uint32_t i = 0; i < n_query; i += 4)
            tile_4x4(s + i * SL_SCORE_LD + j, q + i, rows, head_dim);
    }
}

void sl_scores_avx512(float *s, const float *const *q, uint32_t n_query, const float *k, size_t ld_k, uint32_t n_pos,
                      uint32_t head_dim)
{
    const float *rows[16];
    uint32_t n_wide = n_query / 4 * 4; /* queries that go through 4x4 tiles */
    for (uint32_t i = 0; i < n_wide; i += GROUP)
        score_group(s + i * SL_SCORE_LD, q + i, n_wide - i < GROUP ? n_wide - i : GROUP, k, ld_k, n_pos, head_dim);
    for (uint32_t j = 0; j < n_pos && n_wide < n_query; j += 16) {
        row_pointers(rows, 16, k, ld_k, j, n_pos);
        for (uint32_t i = n_wide; i < n_query; i++)
            tile_1x16(s + i * SL_SCORE_LD + j, q[i], rows, head_dim);
    }
}

/* ---- softmax ---- */

float sl_softmax_avx512(float *s, uint32_t n_pos, float scale, float softcap)
{
    const __m512 k = _mm512_set1_ps(scale), cap = _mm512_set1_ps(softcap);
    __m512 max = _mm512_set1_ps(-INFINITY), v[4];
    for (uint32_t j = 0, i = 0; j < n_pos; j += 16, i++) {
        __mmask16 m = first_lanes(n_pos - j);
        v[i] = _mm512_mul_ps(k, load_part(s + j, n_pos - j));
        if (softcap > 0) v[i] = _mm512_mul_ps(cap, tanh_16(_mm512_div_ps(v[i], cap)));
        max = _mm512_mask_max_ps(max, m, v[i], max);
    }
    float top = _mm512_reduce_max_ps(max);
    for (uint32_t j = 0, i = 0; j < n_pos; j += 16, i++)
        store_part(s + j, n_pos - j, exp_16(_mm512_sub_ps(v[i], _mm512_set1_ps(top))));
    return top;
}

/* ---- weighing ---- */

/* 4 queries x 64 columns. */
static void weigh_4x64(float *o, size_t ld_o, const float *p, const float *v, size_t ld_v, uint32_t n_pos)
{
    __m512 a00 = _mm512_setzero_ps(), a01 = a00, a02 = a00, a03 = a00, a10 = a00, a11 = a00, a12 = a00, a13 = a00;
    __m512 a20 = a00, a21 = a00, a22 = a00, a23 = a00, a30 = a00, a31 = a00, a32 = a00, a33 = a00;
#define QUERY(i)                                                                                                       \
    do {                                                                                                               \
        __m512 w = _mm512_set1_ps(p[i * SL_SCORE_LD + j]);                                                             \
        a##i##0 = _mm512_fmadd_ps(w, v0, a##i##0);                                                                     \
        a##i##1 = _mm512_fmadd_ps(w, v1, a##i##1);                                                                     \
        a##i##2 = _mm512_fmadd_ps(w, v2, a##i##2);                                                                     \
        a##i##3 = _mm512_fmadd_ps(w, v3, a##i##3);                                                                     \
    } while (0)
    for (uint32_t j = 0; j < n_pos; j++, v += ld_v) {
        __m512 v0 = _mm512_loadu_ps(v), v1 = _mm512_loadu_ps(v + 16);
        __m512 v2 = _mm512_loadu_ps(v + 32), v3 = _mm512_loadu_ps(v + 48);
        QUERY(0);
        QUERY(1);
        QUERY(2);
        QUERY(3);
    }
#undef QUERY
#define STORE(i)                                                                                                       \
    do {                                                                                                               \
        _mm512_storeu_ps(o + i * ld_o, a##i##0);                                                                       \
        _mm512_storeu_ps(o + i * ld_o + 16, a##i##1);                                                                  \
        _mm512_storeu_ps(o + i * ld_o + 32, a##i##2);                                                                  \
        _mm512_storeu_ps(o + i * ld_o + 48, a##i##3);                                                                  \
    } while (0)
    STORE(0);
    STORE(1);
    STORE(2);
    STORE(3);
#undef STORE
}

/* 4 queries x the first n of 16 columns. */
static void weigh_4x16(float *o, size_t ld_o, const float *p, const float *v, size_t ld_v, uint32_t n_pos, uint32_t n)
{
    const __mmask16 m = first_lanes(n);
    __m512 a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    for (uint32_t j = 0; j < n_pos; j++, v += ld_v) {
        __m512 vj = _mm512_maskz_loadu_ps(m, v);
        a0 = _mm512_fmadd_ps(_mm512_set1_ps(p[j]), vj, a0);
        a1 = _mm512_fmadd_ps(_mm512_set1_ps(p[SL_SCORE_LD + j]), vj, a1);
        a2 = _mm512_fmadd_ps(_mm512_set1_ps(p[2 * SL_SCORE_LD + j]), vj, a2);
        a3 = _mm512_fmadd_ps(_mm512_set1_ps(p[3 * SL_SCORE_LD + j]), vj, a3);
    }
    _mm512_storeu_ps(o, a0);
    _mm512_storeu_ps(o + ld_o, a1);
    _mm512_storeu_ps(o + 2 * ld_o, a2);
    _mm512_storeu_ps(o + 3 * ld_o, a3);
}

/* 1 query x 64 columns. */
static void weigh_1x64(float *o, const float *p, const float *v, size_t ld_v, uint32_t n_pos)
{
    __m512 a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    for (uint32_t j = 0; j < n_pos; j++, v += ld_v) {
        const __m512 w = _mm512_set1_ps(p[j]);
        a0 = _mm512_fmadd_ps(w, _mm512_loadu_ps(v), a0);
        a1 = _mm512_fmadd_ps(w, _mm512_loadu_ps(v + 16), a1);
        a2 = _mm512_fmadd_ps(w, _mm512_loadu_ps(v + 32), a2);
        a3 = _mm512_fmadd_ps(w, _mm512_loadu_ps(v + 48), a3);
    }
    _mm512_storeu_ps(o, a0);
    _mm512_storeu_ps(o + 16, a1);
    _mm512_storeu_ps(o + 32, a2);
    _mm512_storeu_ps(o + 48, a3);
}

static void weigh_1x16(float *o, const float *p, const float *v, size_t ld_v, uint32_t n_pos, uint32_t n)
{
    const __mmask16 m = first_lanes(n);
    __m512 a = _mm512_setzero_ps();
    for (uint32_t j = 0; j < n_pos; j++, v += ld_v)
        a = _mm512_fmadd_ps(_mm512_set1_ps(p[j]), _mm512_maskz_loadu_ps(m, v), a);
    _mm512_storeu_ps(o, a);
}

void sl_weigh_avx512(float *o, size_t ld_o, const float *p, uint32_t n_query, const float *v, size_t ld_v,
                     uint32_t n_pos, uint32_t head_dim)
{
    uint32_t i = 0;
    for (; i + 4 <= n_query; i += 4, o += 4 * ld_o, p += 4 * SL_SCORE_LD) {
        uint32_t d = 0;
        for (; d + 64 <= head_dim; d += 64)
            weigh_4x64(o + d, ld_o, p, v + d, ld_v, n_pos);
        for (; d < head_dim; d += 16)
            weigh_4x16(o + d, ld_o, p, v + d, ld_v, n_pos, head_dim - d);
    }
    for (; i < n_query; i++, o += ld_o, p += SL_SCORE_LD) {
        uint32_t d = 0;
        for (; d + 64 <= head_dim; d += 64)
            weigh_1x64(o + d, p, v + d, ld_v, n_pos);
        for (; d < head_dim; d += 16)
            weigh_1x16(o + d, p, v + d, ld_v, n_pos, head_dim - d);
    }
}

void sl_merge_avx512(float *o, const float *o_b, float a, float c, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __m512 part = _mm512_mul_ps(load_part(o_b + i, n - i), _mm512_set1_ps(c));
        store_part(o + i, n - i, _mm512_fmadd_ps(load_part(o + i, n - i), _mm512_set1_ps(a), part));
    }
}
#else
typedef int sl_not_x86; /* a file may not be empty */
#endif
