/* 8 lanes: partial loads and stores, and the elementary functions of base/mathx.h, which follow the numbered steps of
 * base/mathx_poly.h bit for bit.  Included by *_avx2.c only. */
#ifndef SL_LANES_AVX2_H
#define SL_LANES_AVX2_H

#include "base/mathx_poly.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Mask of lanes [0, n) of 8, for maskload, maskstore and blendv. */
static inline __m256i first_lanes(size_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), lane);
}

/* The first n of 8 lanes; full vectors take the unmasked form, which is much faster on some machines. */
static inline __m256 load_part(const float *x, size_t n)
{
    return n >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first_lanes(n));
}

static inline void store_part(float *y, size_t n, __m256 v)
{
    if (n >= 8)
        _mm256_storeu_ps(y, v);
    else
        _mm256_maskstore_ps(y, first_lanes(n), v);
}

static inline __m256 negative_8(__m256 x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

/* 2^i for i in [-126, 127] */
static inline __m256 power_of_two_8(__m256i i)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(i, _mm256_set1_epi32(127)), 23));
}

static inline __m256 nan_or_8(__m256 x, __m256 y)
{
    return _mm256_blendv_ps(y, _mm256_add_ps(x, x), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

static inline __m256 exp_8(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(SL_EXP_MAGIC);
    __m256 c = _mm256_min_ps(_mm256_set1_ps(SL_EXP_HI), x);
    c = _mm256_max_ps(_mm256_set1_ps(SL_EXP_LO), c);
    __m256 t = _mm256_fmadd_ps(c, _mm256_set1_ps(SL_EXP_LOG2E), magic);
    __m256 n = _mm256_sub_ps(t, magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(SL_EXP_MINUS_LN2_HI), c);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(SL_EXP_MINUS_LN2_LO), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(SL_EXP_C6), r, _mm256_set1_ps(SL_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SL_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SL_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SL_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i i = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(magic));
    __m256i i1 = _mm256_srai_epi32(i, 1), i2 = _mm256_sub_epi32(i, i1);
    return nan_or_8(x, _mm256_mul_ps(_mm256_mul_ps(p, power_of_two_8(i1)), power_of_two_8(i2)));
}

static inline __m256 tanh_8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    __m256 z = _mm256_andnot_ps(sign, x);
    __m256 s = _mm256_mul_ps(z, z);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(SL_TANH_C5), s, _mm256_set1_ps(SL_TANH_C4));
    p = _mm256_fmadd_ps(p, s, _mm256_set1_ps(SL_TANH_C3));
    p = _mm256_fmadd_ps(p, s, _mm256_set1_ps(SL_TANH_C2));
    p = _mm256_fmadd_ps(p, s, _mm256_set1_ps(SL_TANH_C1));
    p = _mm256_fmadd_ps(p, s, _mm256_set1_ps(SL_TANH_C0));
    p = _mm256_fmadd_ps(_mm256_mul_ps(p, s), z, z);
    __m256 e = exp_8(_mm256_add_ps(z, z));
    __m256 q = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(e, one)));
    __m256 y = _mm256_blendv_ps(q, p, _mm256_cmp_ps(z, _mm256_set1_ps(SL_TANH_SPLIT), _CMP_LT_OQ));
    return nan_or_8(x, _mm256_or_ps(y, _mm256_and_ps(x, sign)));
}

static inline __m256 silu_8(__m256 x)
{
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), exp_8(negative_8(x))));
}

static inline __m256 gelu_tanh_8(__m256 x)
{
    __m256 s = _mm256_mul_ps(x, x);
    __m256 i = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(SL_GELU_CUBE), s), x, x);
    __m256 t = tanh_8(_mm256_mul_ps(_mm256_set1_ps(SL_GELU_SCALE), i));
    return _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(0.5f), x), _mm256_add_ps(_mm256_set1_ps(1.0f), t));
}

/* Four angles reduced: r in [-pi/4, pi/4]; the quadrant is in the low half of each 64-bit lane. */
static inline __m128 reduce_angle_4(__m128 x, __m256i *quadrant)
{
    __m256d d = _mm256_cvtps_pd(x);
    __m256d t = _mm256_fmadd_pd(d, _mm256_set1_pd(SL_SINCOS_2_OVER_PI), _mm256_set1_pd(SL_SINCOS_MAGIC));
    __m256d k = _mm256_sub_pd(t, _mm256_set1_pd(SL_SINCOS_MAGIC));
    __m256d a = _mm256_fmadd_pd(k, _mm256_set1_pd(SL_SINCOS_MINUS_PIO2_HI), d);
    a = _mm256_fmadd_pd(k, _mm256_set1_pd(SL_SINCOS_MINUS_PIO2_LO), a);
    *quadrant = _mm256_castpd_si256(t);
    return _mm256_cvtpd_ps(a);
}

static inline void sincos_8(__m256 x, __m256 *sin_x, __m256 *cos_x)
{
    __m256i i_lo, i_hi;
    __m128 r_lo = reduce_angle_4(_mm256_castps256_ps128(x), &i_lo);
    __m128 r_hi = reduce_angle_4(_mm256_extractf128_ps(x, 1), &i_hi);
    __m256 r = _mm256_set_m128(r_hi, r_lo);
    /* low halves of the 64-bit lanes, in order */
    __m256 mixed = _mm256_shuffle_ps(_mm256_castsi256_ps(i_lo), _mm256_castsi256_ps(i_hi), _MM_SHUFFLE(2, 0, 2, 0));
    __m256i i = _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), _MM_SHUFFLE(3, 1, 2, 0));

    __m256 z = _mm256_mul_ps(r, r);
    __m256 s = _mm256_fmadd_ps(_mm256_set1_ps(SL_SIN_C2), z, _mm256_set1_ps(SL_SIN_C1));
    s = _mm256_fmadd_ps(s, z, _mm256_set1_ps(SL_SIN_C0));
    s = _mm256_fmadd_ps(_mm256_mul_ps(s, z), r, r);
    __m256 c = _mm256_fmadd_ps(_mm256_set1_ps(SL_COS_C2), z, _mm256_set1_ps(SL_COS_C1));
    c = _mm256_fmadd_ps(c, z, _mm256_set1_ps(SL_COS_C0));
    __m256 h = _mm256_fmadd_ps(z, _mm256_set1_ps(-0.5f), _mm256_set1_ps(1.0f));
    c = _mm256_fmadd_ps(c, _mm256_mul_ps(z, z), h);

    const __m256i one = _mm256_set1_epi32(1), two = _mm256_set1_epi32(2);
    __m256 odd = _mm256_castsi256_ps(_mm256_slli_epi32(i, 31)); /* blendv looks at the sign */
    __m256i flip_s = _mm256_slli_epi32(_mm256_and_si256(i, two), 30);
    __m256i flip_c = _mm256_slli_epi32(_mm256_and_si256(_mm256_add_epi32(i, one), two), 30);
    __m256 sine = _mm256_xor_ps(_mm256_blendv_ps(s, c, odd), _mm256_castsi256_ps(flip_s));
    __m256 cosine = _mm256_xor_ps(_mm256_blendv_ps(c, s, odd), _mm256_castsi256_ps(flip_c));

    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    __m256 ok = _mm256_cmp_ps(size, _mm256_set1_ps(SL_SINCOS_LIMIT), _CMP_LE_OQ);
    *sin_x = _mm256_blendv_ps(nan, sine, ok);
    *cos_x = _mm256_blendv_ps(nan, cosine, ok);
}

#endif
