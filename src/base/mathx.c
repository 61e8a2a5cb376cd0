/* Elementary functions, scalar form.  The numbered steps and all float32 constants are in mathx_poly.h; whoever changes
 * a line here changes every SIMD copy with it.  Left out: anything that needs the rounding mode or sets errno. */
#include "base/mathx.h"

#include "base/mathx_poly.h"

#include <math.h>

static inline uint32_t bits32(float f)
{
    union {
        float f;
        uint32_t u;
    } v = {f};
    return v.u;
}

static inline float float_of(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } v = {u};
    return v.f;
}

static inline uint64_t bits64(double d)
{
    union {
        double d;
        uint64_t u;
    } v = {d};
    return v.u;
}

static inline double double_of(uint64_t u)
{
    union {
        uint64_t u;
        double d;
    } v = {u};
    return v.d;
}

/* v >> 1 with the sign kept, without relying on what a compiler does with negative numbers. */
static inline uint32_t half_signed(uint32_t v)
{
    return (v >> 1) | (v & 0x80000000u);
}

float sl_expf(float x)
{
    float c = SL_EXP_HI < x ? SL_EXP_HI : x;
    c = SL_EXP_LO > c ? SL_EXP_LO : c;
    float t = fmaf(c, SL_EXP_LOG2E, SL_EXP_MAGIC);
    float n = t - SL_EXP_MAGIC;
    float r = fmaf(n, SL_EXP_MINUS_LN2_HI, c);
    r = fmaf(n, SL_EXP_MINUS_LN2_LO, r);

    float p = fmaf(SL_EXP_C6, r, SL_EXP_C5);
    p = fmaf(p, r, SL_EXP_C4);
    p = fmaf(p, r, SL_EXP_C3);
    p = fmaf(p, r, SL_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);

    uint32_t i = bits32(t) - bits32(SL_EXP_MAGIC);
    uint32_t i1 = half_signed(i), i2 = i - i1;
    float y = p * float_of((i1 + 127u) << 23) * float_of((i2 + 127u) << 23);
    return x != x ? x + x : y;
}

float sl_tanhf(float x)
{
    float z = float_of(bits32(x) & 0x7fffffffu);
    float s = z * z;
    float p = fmaf(SL_TANH_C5, s, SL_TANH_C4);
    p = fmaf(p, s, SL_TANH_C3);
    p = fmaf(p, s, SL_TANH_C2);
    p = fmaf(p, s, SL_TANH_C1);
    p = fmaf(p, s, SL_TANH_C0);
    p = fmaf(p * s, z, z);

    float e = sl_expf(z + z);
    float q = 1.0f - 2.0f / (e + 1.0f);
    float y = z < SL_TANH_SPLIT ? p : q;
    y = float_of(bits32(y) | (bits32(x) & 0x80000000u));
    return x != x ? x + x : y;
}

void sl_sincosf(float x, float *sin_x, float *cos_x)
{
    double d = (double)x;
    double t = fma(d, SL_SINCOS_2_OVER_PI, SL_SINCOS_MAGIC);
    double k = t - SL_SINCOS_MAGIC;
    double a = fma(k, SL_SINCOS_MINUS_PIO2_HI, d);
    a = fma(k, SL_SINCOS_MINUS_PIO2_LO, a);

    float r = (float)a, z = r * r;
    float s = fmaf(SL_SIN_C2, z, SL_SIN_C1);
    s = fmaf(s, z, SL_SIN_C0);
    s = fmaf(s * z, r, r);
    float c = fmaf(SL_COS_C2, z, SL_COS_C1);
    c = fmaf(c, z, SL_COS_C0);
    float h = fmaf(z, -0.5f, 1.0f);
    c = fmaf(c, z * z, h);

    uint32_t i = (uint32_t)bits64(t);
    float s1 = i & 1u ? c : s, c1 = i & 1u ? s : c;
    s1 = float_of(bits32(s1) ^ ((i & 2u) << 30));
    c1 = float_of(bits32(c1) ^ (((i + 1u) & 2u) << 30));
    bool in_range = float_of(bits32(x) & 0x7fffffffu) <= SL_SINCOS_LIMIT;
    *sin_x = in_range ? s1 : float_of(0x7fc00000u);
    *cos_x = in_range ? c1 : float_of(0x7fc00000u);
}

float sl_siluf(float x)
{
    float e = sl_expf(-x);
    return x / (1.0f + e);
}

float sl_gelu_tanhf(float x)
{
    float s = x * x;
    float i = fmaf(SL_GELU_CUBE * s, x, x);
    float u = SL_GELU_SCALE * i;
    return (0.5f * x) * (1.0f + sl_tanhf(u));
}

/* ---- float64, for tables made at load; not copied by any kernel ---- */

static const double LN2_HI = 0x1.62e42fefa39efp-1, LN2_LO = 0x1.abc9e3b39803fp-56;

/* As sl_expf: n ln2 + r, 1 + r + r^2 q(r) with q of degree 9 (3.8e-18), scaled in two steps. */
double sl_exp64(double x)
{
    static const double q[] = {0x1.000000000000ap-1,  0x1.55555555554f7p-3,  0x1.55555555506b7p-5,
                               0x1.1111111128465p-7,  0x1.6c16c18494ae9p-10, 0x1.a01a012845dcfp-13,
                               0x1.a01998dabcce7p-16, 0x1.71df281564554p-19, 0x1.28ae9a57ff584p-22,
                               0x1.ad7e0d2dfa75ep-26};
    if (x != x) return x + x;
    double c = fmin(fmax(x, -746.0), 710.0);
    double t = fma(c, 0x1.71547652b82fep+0, SL_SINCOS_MAGIC), n = t - SL_SINCOS_MAGIC;
    double r = fma(n, -LN2_HI, c);
    r = fma(n, -LN2_LO, r);

    double p = q[9];
    for (int i = 8; i >= 0; i--)
        p = fma(p, r, q[i]);
    p = fma(r * r, p, r) + 1.0;

    int i = (int)n, i1 = i / 2, i2 = i - i1;
    return p * double_of((uint64_t)(i1 + 1023) << 52) * double_of((uint64_t)(i2 + 1023) << 52);
}

/* x = 2^k m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1) = 2s + s^3 p(s^2) (2.5e-18). */
double sl_log64(double x)
{
    static const double c[] = {0x1.5555555555593p-1, 0x1.999999997f8a7p-2, 0x1.249249423e4fap-2, 0x1.c71c51c6711efp-3,
                               0x1.74664d759f371p-3, 0x1.39a02efda0faap-3, 0x1.2f15bac287d73p-3};
    if (!(x > 0) || x > 0x1.fffffffffffffp1023) return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    int k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t u = bits64(x) + 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu; /* so that m >= sqrt(1/2) */
    k += (int)(u >> 52) - 1023;
    double m = double_of((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);

    double f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double p = c[6];
    for (int i = 5; i >= 0; i--)
        p = fma(p, z, c[i]);
    /* 2s = f - s f, so f stands exact in front and only the small rest is rounded twice. */
    double rest = s * (z * p - f);
    return fma(k, LN2_HI, f + fma(k, LN2_LO, rest));
}

/* ---- float16 ---- */

float sl_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
    if (e == 31) return float_of(sign | 0x7f800000u | m << 13 | (m ? 0x400000u : 0));
    if (e) return float_of(sign | (e + 112u) << 23 | m << 13);
    /* subnormal: m * 2^-24, exact in float32 */
    return float_of(bits32((float)m * 0x1p-24f) | sign);
}

/* Rounds v * 2^-n to an integer, ties to even; 1 <= n <= 31. */
static inline uint32_t round_shift(uint32_t v, uint32_t n)
{
    uint32_t odd = (v >> n) & 1u;
    return (v + ((1u << (n - 1)) - 1u) + odd) >> n;
}

uint16_t sl_f32_to_f16(float f)
{
    uint32_t u = bits32(f), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x1ffu));
    if (a >= 0x47800000u) return (uint16_t)(sign | 0x7c00u); /* 65536 and up */
    if (a >= 0x38800000u)                                    /* normal; rounding may carry into infinity */
        return (uint16_t)(sign | round_shift(a - 0x38000000u, 13));
    if (a < 0x33000000u) return (uint16_t)sign; /* below 2^-25: zero (2^-25 itself is a tie, to even) */
    uint32_t m = (a & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign | round_shift(m, 126u - (a >> 23)));
}
