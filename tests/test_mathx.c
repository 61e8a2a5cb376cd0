/* Elementary functions against the C library in higher precision, and float16 against the hardware. */
#include "base/mathx.h"

#include "os/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Distance in units of the last place of a float32 of ref's size; subnormals have the spacing 2^-149. */
static double ulps(float got, double ref)
{
    int e = ilogb(ref);
    double unit = ldexp(1.0, e < -126 ? -149 : e - 23);
    return fabs((double)got - ref) / unit;
}

/* Walks about n floats between lo and hi by their bits, both signs of the range being given by the caller. */
#define FLOATS(x, i, lo, hi, step) for (uint32_t i = bits(lo); i <= bits(hi) && (x = from_bits(i), true); i += (step))

static void exp_is_within_2_ulp(void **state)
{
    (void)state;
    float x, at = 0;
    double worst = 0;
    FLOATS(x, i, 0.0f, 88.7228f, 4099)
    {
        double e = ulps(sl_expf(x), exp(x));
        if (e > worst) worst = e, at = x;
    }
    FLOATS(x, i, -0.0f, -103.97f, 4099)
    {
        double e = ulps(sl_expf(x), exp(x));
        if (e > worst) worst = e, at = x;
    }
    print_message("exp: worst %.3f ulp at %.9g\n", worst, (double)at);
    assert_true(worst <= 2.0);
}

static void exp_at_the_edges(void **state)
{
    (void)state;
    assert_int_equal(bits(sl_expf(0.0f)), bits(1.0f));
    assert_int_equal(bits(sl_expf(-0.0f)), bits(1.0f));
    assert_int_equal(bits(sl_expf(INFINITY)), bits(INFINITY));
    assert_int_equal(bits(sl_expf(-INFINITY)), bits(0.0f));
    assert_int_equal(bits(sl_expf(3e38f)), bits(INFINITY));
    assert_int_equal(bits(sl_expf(-3e38f)), bits(0.0f));
    assert_int_equal(bits(sl_expf(88.73f)), bits(INFINITY));
    assert_int_equal(bits(sl_expf(-103.98f)), bits(0.0f));
    assert_int_equal(bits(sl_expf(-103.2789f)), 1u); /* ln 2^-149 */
    assert_true(isfinite(sl_expf(88.72f)));
    assert_int_equal(bits(sl_expf(from_bits(0x7fa12345))), 0x7fe12345u); /* quiet, payload kept */
    assert_int_equal(bits(sl_expf(from_bits(0xffc00001))), 0xffc00001u);
    assert_int_equal(bits(sl_expf(1e-40f)), bits(1.0f));
}

static void tanh_is_within_4_ulp_and_odd(void **state)
{
    (void)state;
    float x, at = 0;
    double worst = 0;
    FLOATS(x, i, 0x1p-149f, 20.0f, 4099)
    {
        float y = sl_tanhf(x);
        double e = ulps(y, tanh(x));
        if (e > worst) worst = e, at = x;
        assert_int_equal(bits(sl_tanhf(-x)), bits(y) | 0x80000000u);
        assert_true(y <= 1.0f);
    }
    print_message("tanh: worst %.3f ulp at %.9g\n", worst, (double)at);
    assert_true(worst <= 4.0);
    for (int k = -3; k <= 3; k++) { /* around the seam of the two forms */
        x = from_bits(bits(0.625f) + (uint32_t)k);
        assert_true(ulps(sl_tanhf(x), tanh(x)) <= 4.0);
    }
}

static void tanh_at_the_edges(void **state)
{
    (void)state;
    assert_int_equal(bits(sl_tanhf(0.0f)), 0u);
    assert_int_equal(bits(sl_tanhf(-0.0f)), 0x80000000u);
    assert_int_equal(bits(sl_tanhf(INFINITY)), bits(1.0f));
    assert_int_equal(bits(sl_tanhf(-INFINITY)), bits(-1.0f));
    assert_int_equal(bits(sl_tanhf(3e38f)), bits(1.0f));
    assert_int_equal(bits(sl_tanhf(1e-42f)), bits(1e-42f));
    assert_true(isnan(sl_tanhf(NAN)));
}

static void sincos_is_within_2e7(void **state)
{
    (void)state;
    float x, s, c;
    double worst = 0;
    FLOATS(x, i, 0.0f, 1e7f, 4099)
    {
        sl_sincosf(x, &s, &c);
        double e = fmax(fabs((double)s - sin(x)), fabs((double)c - cos(x)));
        if (e > worst) worst = e;
        float s2, c2;
        sl_sincosf(-x, &s2, &c2);
        assert_true(s2 == -s && c2 == c);
    }
    for (int pos = 0; pos < 131072; pos += 7) { /* what rope asks for */
        sl_sincosf((float)pos, &s, &c);
        double e = fmax(fabs((double)s - sin(pos)), fabs((double)c - cos(pos)));
        if (e > worst) worst = e;
    }
    print_message("sincos: worst %.3g\n", worst);
    assert_true(worst <= 2e-7);
}

static void sincos_at_the_edges(void **state)
{
    (void)state;
    float s, c;
    sl_sincosf(0.0f, &s, &c);
    assert_true(bits(s) == 0 && bits(c) == bits(1.0f));
    sl_sincosf(1e-40f, &s, &c);
    assert_true(bits(s) == bits(1e-40f) && bits(c) == bits(1.0f));
    const float bad[] = {INFINITY, -INFINITY, NAN, 3e38f, 0x1.000002p31f};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sl_sincosf(bad[i], &s, &c);
        assert_true(isnan(s) && isnan(c));
    }
    sl_sincosf(0x1p31f, &s, &c);
    assert_true(fabs((double)s - sin(0x1p31)) < 2e-7 && fabs((double)c - cos(0x1p31)) < 2e-7);
    /* the multiples of pi/2 nearest to floats, where reduction loses most */
    const float hard[] = {1.5707964f, 3.1415927f, 4.712389f, 6.2831855f, 51.8362788f, 16367173.0f / 4, 9999998.0f};
    for (size_t i = 0; i < sizeof hard / sizeof hard[0]; i++) {
        sl_sincosf(hard[i], &s, &c);
        assert_true(fabs((double)s - sin(hard[i])) <= 2e-7 && fabs((double)c - cos(hard[i])) <= 2e-7);
    }
}

static void silu_and_gelu_follow_their_formulas(void **state)
{
    (void)state;
    for (double x = -30; x <= 30; x += 0.0137) {
        float f = (float)x;
        double d = f, silu = d / (1 + exp(-d));
        double gelu = 0.5 * d * (1 + tanh(sqrt(2 / M_PI) * (d + 0.044715 * d * d * d)));
        assert_true(fabs((double)sl_siluf(f) - silu) <= 1e-6 * (fabs(silu) + 1e-3));
        /* 1 + tanh cancels on the negative side: the float32 form has an absolute error of |x| half-ulps of 1 */
        assert_true(fabs((double)sl_gelu_tanhf(f) - gelu) <= 3e-7 * (fabs(d) + 1e-3));
    }
    assert_int_equal(bits(sl_siluf(-200.0f)), 0x80000000u); /* x / inf */
    assert_true(sl_siluf(200.0f) == 200.0f && sl_gelu_tanhf(200.0f) == 200.0f);
    assert_true(isnan(sl_siluf(NAN)) && isnan(sl_gelu_tanhf(NAN)));
}

static double rel64(double got, long double want)
{
    return (double)fabsl(((long double)got - want) / want) / 0x1p-52;
}

static void exp64_and_log64_are_within_2_ulp(void **state)
{
    (void)state;
    double we = 0, wl = 0;
    for (double x = -708; x <= 709; x += 0.01937) {
        double e = rel64(sl_exp64(x), expl(x));
        if (e > we) we = e;
    }
    for (double x = 1e-300; x < 1e300; x *= 1.0173) {
        double e = rel64(sl_log64(x), logl(x));
        if (e > wl) wl = e;
    }
    for (double x = 0.5; x < 2; x += 0.0001037) { /* where log goes through zero */
        double e = rel64(sl_log64(x), logl(x));
        if (x != 1.0 && e > wl) wl = e;
    }
    print_message("exp64: %.3f, log64: %.3f ulp\n", we, wl);
    assert_true(we <= 2.0 && wl <= 2.0);
    assert_true(sl_log64(1.0) == 0.0 && sl_exp64(0.0) == 1.0);
    assert_true(sl_exp64(800) == INFINITY && sl_exp64(-800) == 0.0 && isnan(sl_exp64(NAN)));
    assert_true(sl_log64(0.0) == -INFINITY && isnan(sl_log64(-1.0)) && sl_log64(INFINITY) == INFINITY);
    assert_true(fabs(sl_log64(0x1p-1074) - log(0x1p-1074)) < 1e-12);
    assert_true(fabs(sl_exp64(-744.0) / exp(-744.0) - 1) < 0.3); /* a subnormal of few bits */
}

static void rope_frequencies_come_out_as_float32(void **state)
{
    (void)state;
    const double bases[] = {10000, 500000, 1000000, 5000000, 10000000};
    for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++)
        for (int i = 0; i < 128; i++) {
            long double want = powl((long double)bases[b], -2.0L * i / 256);
            assert_true(rel64(sl_pow64(bases[b], -2.0 * i / 256), want) < 64);
        }
    assert_true(sl_pow64(10000, 0) == 1.0);
}

/* ---- float16 ---- */

/* The definition, in words: sign, 5 bits of exponent with bias 15, 10 bits of fraction. */
static double half_value(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}

static void every_half_widens_exactly(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = sl_f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00) {
            assert_int_equal(bits(f) & 0x7f800000u, 0x7f800000u);
            assert_int_equal(isnan(f) != 0, (h & 0x3ff) != 0);
            continue;
        }
        assert_true((double)f == half_value((uint16_t)h));
        assert_int_equal(signbit(f) != 0, h >> 15);
        assert_int_equal(sl_f32_to_f16(f), h);
    }
}

static void ties_go_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double a = half_value((uint16_t)h), b = half_value((uint16_t)(h + 1)), mid = (a + b) / 2;
        float tie = (float)mid;
        assert_true((double)tie == mid);
        assert_int_equal(sl_f32_to_f16(tie), h & 1 ? h + 1 : h);
        assert_int_equal(sl_f32_to_f16(nextafterf(tie, 0)), h);
        assert_int_equal(sl_f32_to_f16(nextafterf(tie, INFINITY)), h + 1);
    }
    assert_int_equal(sl_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(sl_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(sl_f32_to_f16(-1e30f), 0xfc00);
    assert_int_equal(sl_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(sl_f32_to_f16(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(sl_f32_to_f16(-0.0f), 0x8000);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static float hw_widen(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

__attribute__((target("f16c"))) static uint16_t hw_narrow(float f)
{
    return (uint16_t)_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT));
}
#endif

static void halves_equal_the_hardware(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!sl_cpu_has(SL_CPU_AVX2)) {
        print_message("skipped: this CPU has no F16C\n");
        skip();
    }
    for (uint32_t h = 0; h < 65536; h++)
        assert_int_equal(bits(sl_f16_to_f32((uint16_t)h)), bits(hw_widen((uint16_t)h)));
    /* all bits that a half keeps, times the low bits that decide rounding */
    static const uint32_t low[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0xaaa};
    for (uint32_t top = 0; top < 1u << 19; top++)
        for (size_t i = 0; i < sizeof low / sizeof low[0]; i++) {
            float f = from_bits(top << 13 | low[i]);
            if (sl_f32_to_f16(f) != hw_narrow(f))
                fail_msg("%08x: %04x, hardware says %04x", bits(f), sl_f32_to_f16(f), hw_narrow(f));
        }
    /* below the normal halves every bit counts */
    for (uint32_t u = 0x33000000u - 4096; u < 0x38800000u + 4096; u += 61)
        assert_int_equal(sl_f32_to_f16(from_bits(u)), hw_narrow(from_bits(u)));
#else
    print_message("skipped: no F16C on this architecture\n");
    skip();
#endif
}

static void bf16_is_the_upper_half(void **state)
{
    (void)state;
    assert_true(sl_bf16_to_f32(0x3f80) == 1.0f && sl_bf16_to_f32(0xc040) == -3.0f && isinf(sl_bf16_to_f32(0x7f80)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_2_ulp),
        cmocka_unit_test(exp_at_the_edges),
        cmocka_unit_test(tanh_is_within_4_ulp_and_odd),
        cmocka_unit_test(tanh_at_the_edges),
        cmocka_unit_test(sincos_is_within_2e7),
        cmocka_unit_test(sincos_at_the_edges),
        cmocka_unit_test(silu_and_gelu_follow_their_formulas),
        cmocka_unit_test(exp64_and_log64_are_within_2_ulp),
        cmocka_unit_test(rope_frequencies_come_out_as_float32),
        cmocka_unit_test(every_half_widens_exactly),
        cmocka_unit_test(ties_go_to_even),
        cmocka_unit_test(halves_equal_the_hardware),
        cmocka_unit_test(bf16_is_the_upper_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
