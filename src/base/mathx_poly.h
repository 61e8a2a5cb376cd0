/* Constants and exact steps of the elementary functions.  mathx.c is the scalar form; SIMD copies (backend/cpu) use the
 * same constants and the same operations in the same order, lane by lane, and so give the same bits.
 *
 * Rules of the notation: every line is one IEEE operation rounded to nearest even; fma(a, b, c) is one fused rounding
 * of a * b + c; "m ? a : b" is a select by mask, so nothing branches; comparisons with NaN are false.  bits() and flt()
 * reinterpret, integer arithmetic wraps in 32 (64) bits.  NaN gives x + x (quiet, payload kept).
 *
 * expf(x)                                              float32, no branch
 *   1  c = EXP_HI < x ? EXP_HI : x                     NaN passes; _mm_min_ps(EXP_HI, x) is this
 *   2  c = EXP_LO > c ? EXP_LO : c                     _mm_max_ps(EXP_LO, c)
 *   3  t = fma(c, EXP_LOG2E, EXP_MAGIC)                the integer n stands in the low bits of t
 *   4  n = t - EXP_MAGIC
 *   5  r = fma(n, EXP_MINUS_LN2_HI, c)                 exact; |r| <= 0.3466
 *   6  r = fma(n, EXP_MINUS_LN2_LO, r)
 *   7  p = fma(EXP_C6, r, EXP_C5); p = fma(p, r, EXP_C4); p = fma(p, r, EXP_C3); p = fma(p, r, EXP_C2);
 *      p = fma(p, r, 1); p = fma(p, r, 1)
 *   8  i = bits(t) - bits(EXP_MAGIC)  (int32: n);  i1 = i >> 1 arithmetic;  i2 = i - i1
 *   9  y = (p * flt((i1 + 127) << 23)) * flt((i2 + 127) << 23)      two factors, so that subnormals are rounded once
 *  10  y = isnan(x) ? x + x : y                        (steps 8 and 9 give any value then)
 *
 * tanhf(x)                                             float32, odd: bits of tanh(-x) are those of -tanh(x)
 *   1  z = |x|
 *   2  s = z * z
 *   3  p = fma(TANH_C5, s, TANH_C4); ... C3, C2, C1, C0
 *   4  p = fma(p * s, z, z)                            p * s is rounded first
 *   5  e = expf(z + z)                                 inf is fine
 *   6  q = 1 - 2 / (e + 1)                             add, divide, subtract
 *   7  y = z < TANH_SPLIT ? p : q
 *   8  y = y with the sign bit of x
 *   9  y = isnan(x) ? x + x : y
 *
 * sincosf(x)                                           reduced in float64, polynomials in float32
 *   1  d = (double)x;  t = fma(d, SINCOS_2_OVER_PI, SINCOS_MAGIC)
 *   2  k = t - SINCOS_MAGIC
 *   3  a = fma(k, SINCOS_MINUS_PIO2_HI, d); a = fma(k, SINCOS_MINUS_PIO2_LO, a)
 *   4  r = (float)a;  z = r * r
 *   5  s = fma(SIN_C2, z, SIN_C1); s = fma(s, z, SIN_C0); s = fma(s * z, r, r)
 *   6  c = fma(COS_C2, z, COS_C1); c = fma(c, z, COS_C0); h = fma(z, -0.5, 1); c = fma(c, z * z, h)
 *   7  i = low 32 bits of bits(t)                      k modulo 4 in its two low bits
 *   8  sin = i & 1 ? c : s;  cos = i & 1 ? s : c
 *   9  sign of sin flipped when i & 2; sign of cos flipped when (i + 1) & 2
 *  10  both NaN (flt(0x7fc00000)) unless |x| <= SINCOS_LIMIT
 *
 * siluf(x)       x / (1 + expf(-x))                    negate (sign bit), exp, add, divide
 * gelu_tanhf(x)  s = x * x;  i = fma(GELU_CUBE * s, x, x);  u = GELU_SCALE * i;
 *                y = (0.5 * x) * (1 + tanhf(u))
 *
 * The polynomials are minimax fits made for this project (Remez in 60 digits, error weighted by the function's size,
 * coefficients rounded one by one); the largest relative error of each before rounding stands beside it. */
#ifndef SL_MATHX_POLY_H
#define SL_MATHX_POLY_H

/* exp on |r| <= ln2 / 2: 1 + r + r^2 * (C2 + ... + C6 r^4), 3.1e-9 */
#define SL_EXP_HI           89.0f   /* exp(89) overflows */
#define SL_EXP_LO           -104.5f /* exp(-104.5) rounds to 0 */
#define SL_EXP_LOG2E        0x1.715476p+0f
#define SL_EXP_MAGIC        0x1.8p+23f /* 12582912: adding it rounds to an integer */
#define SL_EXP_MINUS_LN2_HI -0x1.62e43p-1f
#define SL_EXP_MINUS_LN2_LO 0x1.05c61p-29f
#define SL_EXP_C2           0x1.fffffcp-2f
#define SL_EXP_C3           0x1.55549p-3f
#define SL_EXP_C4           0x1.5558fcp-5f
#define SL_EXP_C5           0x1.123b9ap-7f
#define SL_EXP_C6           0x1.6a2154p-10f

/* tanh on |x| < 0.625: x + x^3 * (C0 + ... + C5 x^10), 1.6e-10 */
#define SL_TANH_SPLIT 0.625f
#define SL_TANH_C0    -0x1.555554p-2f
#define SL_TANH_C1    0x1.111064p-3f
#define SL_TANH_C2    -0x1.b9ee0cp-5f
#define SL_TANH_C3    0x1.638588p-6f
#define SL_TANH_C4    -0x1.0bd73cp-7f
#define SL_TANH_C5    0x1.187188p-9f

/* sin and cos on |r| <= pi / 4: r + r^3 * (C0 + C1 z + C2 z^2), 1.8e-9; 1 - z/2 + z^2 * (C0 + C1 z + C2 z^2), 9.6e-11
 */
#define SL_SINCOS_LIMIT         0x1p31f /* beyond it no useful digit is left in a float32 angle */
#define SL_SINCOS_2_OVER_PI     0x1.45f306dc9c883p-1
#define SL_SINCOS_MAGIC         0x1.8p+52
#define SL_SINCOS_MINUS_PIO2_HI -0x1.921fb54442d18p+0
#define SL_SINCOS_MINUS_PIO2_LO -0x1.1a62633145c07p-54
#define SL_SIN_C0               -0x1.55554p-3f
#define SL_SIN_C1               0x1.1105a8p-7f
#define SL_SIN_C2               -0x1.98d6b8p-13f
#define SL_COS_C0               0x1.55554ap-5f
#define SL_COS_C1               -0x1.6c0c82p-10f
#define SL_COS_C2               0x1.99ff4p-16f

/* gelu, tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Hendrycks and Gimpel 2016 */
#define SL_GELU_SCALE 0.7978845608028654f
#define SL_GELU_CUBE  0.044715f

#endif
