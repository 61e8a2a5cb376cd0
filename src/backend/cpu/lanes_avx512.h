/* 16 lanes: partial loads and stores, and the elementary functions of base/mathx.h, which follow the numbered steps of
 * base/mathx_poly.h bit for bit.  Included by *_avx512.c only. */
#ifndef SL_LANES_AVX512_H
#define SL_LANES_AVX512_H

#include "base/mathx_poly.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Lanes [0, n) of 16. */
static inline __mmask16 first_lanes(size_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);
}

/* The first n of 16 lanes; full vectors take the unmasked form, which is faster on some machines. */
static inline __m512 load_part(const float *x, size_t n)
{
    return n >= 16 ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(first_lanes(n), x);
}

static inline void store_part(float *y, size_t n, __m512 v)
{
    if (n >= 16)
        _mm512_storeu_ps(y, v);
    else
        _mm512_mask_storeu_ps(y, first_lanes(n), v);
}

static inline __m512 negative_16(__m512 x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

/* Steps 8 and 9, the two exact powers of two, are what vscalefps does with one rounding; step 10 needs nothing, since a
 * NaN passes through every step with its payload. */
static inline __m512 exp_16(__m512 x)
{
    __m512 c = _mm512_min_ps(_mm512_set1_ps(SL_EXP_HI), x);
    c = _mm512_max_ps(_mm512_set1_ps(SL_EXP_LO), c);
    __m512 t = _mm512_fmadd_ps(c, _mm512_set1_ps(SL_EXP_LOG2E), _mm512_set1_ps(SL_EXP_MAGIC));
    __m512 n = _mm512_sub_ps(t, _mm512_set1_ps(SL_EXP_MAGIC));
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(SL_EXP_MINUS_LN2_HI), c);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(SL_EXP_MINUS_LN2_LO), r);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(SL_EXP_C6), r, _mm512_set1_ps(SL_EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SL_EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SL_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SL_EXP_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

static inline __m512 tanh_16(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f), sign = _mm512_set1_ps(-0.0f);
    __m512 z = _mm512_andnot_ps(sign, x);
    __m512 s = _mm512_mul_ps(z, z);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(SL_TANH_C5), s, _mm512_set1_ps(SL_TANH_C4));
    p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(SL_TANH_C3));
    p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(SL_TANH_C2));
    p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(SL_TANH_C1));
    p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(SL_TANH_C0));
    p = _mm512_fmadd_ps(_mm512_mul_ps(p, s), z, z);
    __m512 e = exp_16(_mm512_add_ps(z, z));
    __m512 q = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(e, one)));
    __mmask16 small = _mm512_cmp_ps_mask(z, _mm512_set1_ps(SL_TANH_SPLIT), _CMP_LT_OQ);
    __m512 y = _mm512_mask_blend_ps(small, q, p);
    y = _mm512_or_ps(y, _mm512_and_ps(x, sign));
    return _mm512_mask_add_ps(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x, x);
}

static inline __m512 silu_16(__m512 x)
{
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), exp_16(negative_16(x))));
}

static inline __m512 gelu_tanh_16(__m512 x)
{
    __m512 s = _mm512_mul_ps(x, x);
    __m512 i = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_set1_ps(SL_GELU_CUBE), s), x, x);
    __m512 t = tanh_16(_mm512_mul_ps(_mm512_set1_ps(SL_GELU_SCALE), i));
    return _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(0.5f), x), _mm512_add_ps(_mm512_set1_ps(1.0f), t));
}

/* Eight angles reduced: r in [-pi/4, pi/4] and the quadrant. */
static inline __m256 reduce_angle_8(__m256 x, __m256i *quadrant)
{
    __m512d d = _mm512_cvtps_pd(x);
    __m512d t = _mm512_fmadd_pd(d, _mm512_set1_pd(SL_SINCOS_2_OVER_PI), _mm512_set1_pd(SL_SINCOS_MAGIC));
    __m512d k = _mm512_sub_pd(t, _mm512_set1_pd(SL_SINCOS_MAGIC));
    __m512d a = _mm512_fmadd_pd(k, _mm512_set1_pd(SL_SINCOS_MINUS_PIO2_HI), d);
    a = _mm512_fmadd_pd(k, _mm512_set1_pd(SL_SINCOS_MINUS_PIO2_LO), a);
    *quadrant = _mm512_cvtepi64_epi32(_mm512_castpd_si512(t));
    return _mm512_cvtpd_ps(a);
}

static inline void sincos_16(__m512 x, __m512 *sin_x, __m512 *cos_x)
{
    __m256i i_lo, i_hi;
    __m256 r_lo = reduce_angle_8(_mm512_castps512_ps256(x), &i_lo);
    __m256 r_hi = reduce_angle_8(_mm512_extractf32x8_ps(x, 1), &i_hi);
    __m512 r = _mm512_insertf32x8(_mm512_castps256_ps512(r_lo), r_hi, 1);
    __m512i i = _mm512_inserti32x8(_mm512_castsi256_si512(i_lo), i_hi, 1);

    __m512 z = _mm512_mul_ps(r, r);
    __m512 s = _mm512_fmadd_ps(_mm512_set1_ps(SL_SIN_C2), z, _mm512_set1_ps(SL_SIN_C1));
    s = _mm512_fmadd_ps(s, z, _mm512_set1_ps(SL_SIN_C0));
    s = _mm512_fmadd_ps(_mm512_mul_ps(s, z), r, r);
    __m512 c = _mm512_fmadd_ps(_mm512_set1_ps(SL_COS_C2), z, _mm512_set1_ps(SL_COS_C1));
    c = _mm512_fmadd_ps(c, z, _mm512_set1_ps(SL_COS_C0));
    __m512 h = _mm512_fmadd_ps(z, _mm512_set1_ps(-0.5f), _mm512_set1_ps(1.0f));
    c = _mm512_fmadd_ps(c, _mm512_mul_ps(z, z), h);

    const __m512i one = _mm512_set1_epi32(1), two = _mm512_set1_epi32(2);
    __mmask16 odd = _mm512_test_epi32_mask(i, one);
    __m512i flip_s = _mm512_slli_epi32(_mm512_and_si512(i, two), 30);
    __m512i flip_c = _mm512_slli_epi32(_mm512_and_si512(_mm512_add_epi32(i, one), two), 30);
    __m512 sine = _mm512_xor_ps(_mm512_mask_blend_ps(odd, s, c), _mm512_castsi512_ps(flip_s));
    __m512 cosine = _mm512_xor_ps(_mm512_mask_blend_ps(odd, c, s), _mm512_castsi512_ps(flip_c));

    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
    __mmask16 ok = _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(SL_SINCOS_LIMIT), _CMP_LE_OQ);
    *sin_x = _mm512_mask_blend_ps(ok, nan, sine);
    *cos_x = _mm512_mask_blend_ps(ok, nan, cosine);
}

#endif
