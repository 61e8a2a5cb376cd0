/* AVX2 kernels of attention; kernels.h says what each does, attend_portable.c is their definition.
 *
 * Scores: a tile is 4 dots (2 queries x 2 positions, or 1 x 4) with two 8-lane accumulators each, which are the 16
 * partial sums of sum16.  Weighing: a tile is 4 queries x 16 columns, or 1 x 64. */
#if defined(__x86_64__)
#include "backend/cpu/kernels.h"

#include "backend/cpu/lanes_avx2.h"

#include <math.h>

/* ---- scores ---- */

/* The trees of four dots; lo are the partial sums 0..7 of each. */
static inline __m128 four_dots(const __m256 lo[4], const __m256 hi[4])
{
    __m256 a = _mm256_add_ps(lo[0], hi[0]), b = _mm256_add_ps(lo[1], hi[1]);
    __m256 c = _mm256_add_ps(lo[2], hi[2]), d = _mm256_add_ps(lo[3], hi[3]);
    /* sums j + 4: 128-bit lanes a c, b d */
    __m256 ac = _mm256_add_ps(_mm256_permute2f128_ps(a, c, 0x20), _mm256_permute2f128_ps(a, c, 0x31));
    __m256 bd = _mm256_add_ps(_mm256_permute2f128_ps(b, d, 0x20), _mm256_permute2f128_ps(b, d, 0x31));
    /* sums j + 2: a0 a1 b0 b1 | c0 c1 d0 d1 */
    __m256 s = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xee));
    __m128 ab = _mm256_castps256_ps128(s), cd = _mm256_extractf128_ps(s, 1);
    return _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xdd));
}

/* How a step of 8 lanes loads and adds: all of them, or the first n - i of them. */
#define LOAD(x)           _mm256_loadu_ps(x)
#define ADD(s, a, b)      s = _mm256_fmadd_ps(a, b, s)
#define LOAD_PART(x)      load_part(x, n - i)
#define ADD_PART(s, a, b) s = _mm256_blendv_ps(s, _mm256_fmadd_ps(a, b, s), _mm256_castsi256_ps(first_lanes(n - i)))
/* All of a row: even steps into lo, odd ones into hi. */
#define STEPS(STEP)                                                                                                    \
    do {                                                                                                               \
        uint32_t i = 0;                                                                                                \
        while (i + 16 <= n) {                                                                                          \
            STEP(LOAD, ADD, lo);                                                                                       \
            i += 8;                                                                                                    \
            STEP(LOAD, ADD, hi);                                                                                       \
            i += 8;                                                                                                    \
        }                                                                                                              \
        if (i < n) STEP(LOAD_PART, ADD_PART, lo);                                                                      \
        i += 8;                                                                                                        \
        if (i < n) STEP(LOAD_PART, ADD_PART, hi);                                                                      \
    } while (0)

/* 2 queries x 2 positions. */
static void tile_2x2(float *s, const float *q0, const float *q1, const float *k0, const float *k1, uint32_t n)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 lo[4] = {zero, zero, zero, zero}, hi[4] = {zero, zero, zero, zero};
#define STEP(load, add, acc)                                                                                           \
    do {                                                                                                               \
        __m256 u0 = load(q0 + i), u1 = load(q1 + i), v0 = load(k0 + i), v1 = load(k1 + i);                             \
        add(acc[0], u0, v0);                                                                                           \
        add(acc[1], u0, v1);                                                                                           \
        add(acc[2], u1, v0);                                                                                           \
        add(acc[3], u1, v1);                                                                                           \
    } while (0)
    STEPS(STEP);
#undef STEP
    __m128 r = four_dots(lo, hi);
    _mm_storel_pi((__m64 *)(void *)s, r);
    _mm_storeh_pi((__m64 *)(void *)(s + SL_SCORE_LD), r);
}

/* 1 query x 4 positions. */
static void tile_1x4(float *s, const float *q, const float *const *k, uint32_t n)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 lo[4] = {zero, zero, zero, zero}, hi[4] = {zero, zero, zero, zero};
#define STEP(load, add, acc)                                                                                           \
    do {                                                                                                               \
        __m256 u = load(q + i);                                                                                        \
        add(acc[0], u, load(k[0] + i));                                                                                \
        add(acc[1], u, load(k[1] + i));                                                                                \
        add(acc[2], u, load(k[2] + i));                                                                                \
        add(acc[3], u, load(k[3] + i));                                                                                \
    } while (0)
    STEPS(STEP);
#undef STEP
    _mm_storeu_ps(s, four_dots(lo, hi));
}

#undef STEPS
#undef ADD_PART
#undef LOAD_PART
#undef ADD
#undef LOAD

enum { GROUP = 8 }; /* queries whose rows stay in the first cache while all of K passes */

/* An even number of queries. */
static void score_group(float *s, const float *const *q, uint32_t n_query, const float *k, size_t ld_k, uint32_t n_pos,
                        uint32_t head_dim)
{
    for (uint32_t j = 0; j < n_pos; j += 2) {
        const float *k0 = k + j * ld_k, *k1 = j + 1 < n_pos ? k0 + ld_k : k0;
        for (uint32_t i = 0; i < n_query; i += 2)
            tile_2x2(s + i * SL_SCORE_LD + j, q[i], q[i + 1], k0, k1, head_dim);
    }
}

void sl_scores_avx2(float *s, const float *const *q, uint32_t n_query, const float *k, size_t ld_k, uint32_t n_pos,
                    uint32_t head_dim)
{
    uint32_t n_wide = n_query / 2 * 2, last = n_pos - 1;
    for (uint32_t i = 0; i < n_wide; i += GROUP)
        score_group(s + i * SL_SCORE_LD, q + i, n_wide - i < GROUP ? n_wide - i : GROUP, k, ld_k, n_pos, head_dim);
    for (uint32_t j = 0; j < n_pos && n_wide < n_query; j += 4) {
        const float *rows[4]; /* beyond the last row the last one again, whose dots are not used */
        for (uint32_t r = 0; r < 4; r++)
            rows[r] = k + (j + r < last ? j + r : last) * ld_k;
        tile_1x4(s + n_wide * SL_SCORE_LD + j, q[n_wide], rows, head_dim);
    }
}

/* ---- softmax ---- */

static float largest(__m256 v)
{
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

float sl_softmax_avx2(float *s, uint32_t n_pos, float scale, float softcap)
{
    const __m256 k = _mm256_set1_ps(scale), cap = _mm256_set1_ps(softcap);
    __m256 max = _mm256_set1_ps(-INFINITY);
    for (uint32_t j = 0; j < n_pos; j += 8) {
        __m256 v = _mm256_mul_ps(k, load_part(s + j, n_pos - j));
        if (softcap > 0) v = _mm256_mul_ps(cap, tanh_8(_mm256_div_ps(v, cap)));
        store_part(s + j, n_pos - j, v);
        __m256 larger = _mm256_max_ps(v, max);
        max = n_pos - j >= 8 ? larger : _mm256_blendv_ps(max, larger, _mm256_castsi256_ps(first_lanes(n_pos - j)));
    }
    float top = largest(max);
    for (uint32_t j = 0; j < n_pos; j += 8)
        store_part(s + j, n_pos - j, exp_8(_mm256_sub_ps(load_part(s + j, n_pos - j), _mm256_set1_ps(top))));
    return top;
}

/* ---- weighing ---- */

/* 4 queries x 16 columns. */
static void weigh_4x16(float *o, size_t ld_o, const float *p, const float *v, size_t ld_v, uint32_t n_pos)
{
    __m256 a00 = _mm256_setzero_ps(), a01 = a00, a10 = a00, a11 = a00, a20 = a00, a21 = a00, a30 = a00, a31 = a00;
#define QUERY(i)                                                                                                       \
    do {                                                                                                               \
        __m256 w = _mm256_broadcast_ss(p + i * SL_SCORE_LD + j);                                                       \
        a##i##0 = _mm256_fmadd_ps(w, v0, a##i##0);                                                                     \
        a##i##1 = _mm256_fmadd_ps(w, v1, a##i##1);                                                                     \
    } while (0)
    for (uint32_t j = 0; j < n_pos; j++, v += ld_v) {
        __m256 v0 = _mm256_loadu_ps(v), v1 = _mm256_loadu_ps(v + 8);
        QUERY(0);
        QUERY(1);
        QUERY(2);
        QUERY(3);
    }
#undef QUERY
    _mm256_storeu_ps(o, a00);
    _mm256_storeu_ps(o + 8, a01);
    _mm256_storeu_ps(o + ld_o, a10);
    _mm256_storeu_ps(o + ld_o + 8, a11);
    _mm256_storeu_ps(o + 2 * ld_o, a20);
    _mm256_storeu_ps(o + 2 * ld_o + 8, a21);
    _mm256_storeu_ps(o + 3 * ld_o, a30);
    _mm256_storeu_ps(o + 3 * ld_o + 8, a31);
}

/* 1 query x 64 columns. */
static void weigh_1x64(float *o, const float *p, const float *v, size_t ld_v, uint32_t n_pos)
{
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;
    for (uint32_t j = 0; j < n_pos; j++, v += ld_v) {
        const __m256 w = _mm256_broadcast_ss(p + j);
        a0 = _mm256_fmadd_ps(w, _mm256_loadu_ps(v), a0);
        a1 = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + 8), a1);
        a2 = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + 16), a2);
        a3 = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + 24), a3);
        a4 = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + 32), a4);
        a5 = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + 40), a5);
        a6 = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + 48), a6);
        a7 = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + 56), a7);
    }
    _mm256_storeu_ps(o, a0);
    _mm256_storeu_ps(o + 8, a1);
    _mm256_storeu_ps(o + 16, a2);
    _mm256_storeu_ps(o + 24, a3);
    _mm256_storeu_ps(o + 32, a4);
    _mm256_storeu_ps(o + 40, a5);
    _mm256_storeu_ps(o + 48, a6);
    _mm256_storeu_ps(o + 56, a7);
}

/* 1 query x the first n of 8 columns. */
static void weigh_1x8(float *o, const float *p, const float *v, size_t ld_v, uint32_t n_pos, uint32_t n)
{
    __m256 a = _mm256_setzero_ps();
    for (uint32_t j = 0; j < n_pos; j++, v += ld_v)
        a = _mm256_fmadd_ps(_mm256_broadcast_ss(p + j), load_part(v, n), a);
    _mm256_storeu_ps(o, a);
}

void sl_weigh_avx2(float *o, size_t ld_o, const float *p, uint32_t n_query, const float *v, size_t ld_v, uint32_t n_pos,
                   uint32_t head_dim)
{
    uint32_t n_quad = n_query / 4 * 4, wide = head_dim / 16 * 16;
    for (uint32_t i = 0; i < n_quad; i += 4)
        for (uint32_t d = 0; d < wide; d += 16)
            weigh_4x16(o + i * ld_o + d, ld_o, p + i * SL_SCORE_LD, v + d, ld_v, n_pos);
    for (uint32_t i = 0; i < n_query; i++) {
        uint32_t d = i < n_quad ? wide : 0;
        for (; d + 64 <= head_dim; d += 64)
            weigh_1x64(o + i * ld_o + d, p + i * SL_SCORE_LD, v + d, ld_v, n_pos);
        for (; d < head_dim; d += 8)
            weigh_1x8(o + i * ld_o + d, p + i * SL_SCORE_LD, v + d, ld_v, n_pos, head_dim - d);
    }
}

void sl_merge_avx2(float *o, const float *o_b, float a, float c, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        __m256 part = _mm256_mul_ps(load_part(o_b + i, n - i), _mm256_set1_ps(c));
        store_part(o + i, n - i, _mm256_fmadd_ps(load_part(o + i, n - i), _mm256_set1_ps(a), part));
    }
}
#else
typedef int sl_not_x86; /* a file may not be empty */
#endif
