/* Rotation frequencies against values computed in double precision from the published formulas. */
#include "support.h"

#include "model/family.h"

#include <math.h>

typedef struct {
    uint32_t i;
    double want;
} point;

static void check(const sl_rope_config *r, uint32_t n_rot, const point *p, size_t n, double want_m)
{
    float inv_freq[64], m;
    sl_rope_table(r, n_rot, NULL, inv_freq, &m);
    for (size_t k = 0; k < n; k++)
        if (fabs((double)inv_freq[p[k].i] - p[k].want) > 2e-6 * p[k].want)
            fail_msg("index %u: %.9g, want %.9g", p[k].i, (double)inv_freq[p[k].i], p[k].want);
    assert_true(fabs((double)m - want_m) < 1e-6);
}

static void test_llama3(void **state)
{
    (void)state;
    sl_rope_config r = {.base = 5e5, .scaling = SL_ROPE_LLAMA3, .factor = 32, .low_freq = 1, .high_freq = 4, .orig_ctx = 8192};
    const point p[] = {{0, 1},  {8, 0.0376060309}, {14, 0.00321144599}, {15, 0.00129054793}, {16, 0.000429556797},
                       {17, 9.7082878e-05}, {18, 1.94616382e-05}, {31, 9.41830673e-08}};
    check(&r, 64, p, sizeof p / sizeof p[0], 1);
    r.factor = 8;
    const point q[] = {{28, 0.00321144599}, {29, 0.00216657076}, {30, 0.00137189357}, {31, 0.000856751413},
                       {32, 0.000524846161}, {34, 0.000178507813}, {36, 7.78465527e-05}, {63, 3.06892599e-07}};
    check(&r, 128, q, sizeof q / sizeof q[0], 1);
}

static void test_yarn(void **state)
{
    (void)state;
    sl_rope_config v3 = {.base = 1e4, .scaling = SL_ROPE_YARN, .factor = 40, .orig_ctx = 4096, .beta_fast = 32,
                         .beta_slow = 1, .attn_factor = 1};
    const point p[] = {{10, 0.0562341325}, {11, 0.0390069266}, {16, 0.0055}, {22, 0.000177827941}, {23, 3.33380358e-05},
                       {31, 3.33380358e-06}};
    check(&v3, 64, p, sizeof p / sizeof p[0], 1);
    sl_rope_config oss = {.base = 150000, .scaling = SL_ROPE_YARN, .factor = 32, .orig_ctx = 4096, .beta_fast = 32,
                          .beta_slow = 1, .no_truncate = true};
    const point q[] = {{8, 0.0508132748}, {9, 0.0317056962}, {10, 0.0193350011}, {12, 0.00679495949}, {15, 0.0010526021},
                       {17, 0.000129318701}, {18, 3.83088124e-05}, {31, 3.02351143e-07}};
    check(&oss, 64, q, sizeof q / sizeof q[0], 1.3465735902799727);
}

static void test_plain_linear_divisors(void **state)
{
    (void)state;
    float inv_freq[4], m, divisors[4] = {1, 2, 4, 8};
    sl_rope_config r = {.base = 10000, .factor = 1};
    sl_rope_table(&r, 8, divisors, inv_freq, &m);
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)inv_freq[i] - pow(10000, -i / 4.0) / divisors[i]) < 1e-7);
    r.scaling = SL_ROPE_LINEAR;
    r.factor = 4;
    sl_rope_table(&r, 8, NULL, inv_freq, &m);
    assert_true(fabs((double)inv_freq[0] - 0.25) < 1e-7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_llama3), cmocka_unit_test(test_yarn),
                                       cmocka_unit_test(test_plain_linear_divisors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
