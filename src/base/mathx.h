/* The project's own elementary functions: one definition, in plain C with written-out fused operations, so that every
 * kernel (portable, AVX2, AVX-512) and every machine gives the same bits.  SIMD versions evaluate the very same
 * polynomial with the very same operations.  Double versions serve tables built at load (rope frequencies). */
#ifndef SL_MATHX_H
#define SL_MATHX_H

#include <stdbool.h>
#include <stdint.h>

/* float32: the exact steps, which SIMD copies follow, are written in mathx_poly.h */
float sl_expf(float x);                               /* <= 2 ulp; 0 below -103.98, +inf above 88.73 */
float sl_tanhf(float x);                              /* <= 4 ulp */
void sl_sincosf(float x, float *sin_x, float *cos_x); /* |x| up to 1e7, reduced in double; abs error <= 2e-7 */
float sl_siluf(float x);                              /* x / (1 + exp(-x)) */
float sl_gelu_tanhf(float x);                         /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */

double sl_exp64(double x);
double sl_log64(double x); /* x > 0 */
/* a > 0 */
static inline double sl_pow64(double a, double b)
{
    return sl_exp64(b * sl_log64(a));
}

float sl_f16_to_f32(uint16_t h); /* exact, subnormals and infinities included */
uint16_t sl_f32_to_f16(float f); /* round to nearest even, as vcvtps2ph; NaN made quiet */
static inline float sl_bf16_to_f32(uint16_t b)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)b << 16};
    return v.f;
}

#endif
