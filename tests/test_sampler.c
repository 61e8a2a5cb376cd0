/* The sampler's stages one by one, against small distributions worked out by hand, and its draws against frequencies. */
#include "support.h"

#include <math.h>

static sl_sampler_options neutral(float temp)
{
    sl_sampler_options o;
    sl_sampler_options_init(&o);
    o.temp = temp;
    o.top_k = 0;
    o.top_p = 1;
    o.min_p = 0;
    return o;
}

static sl_sampler *open_sampler(uint32_t n, const sl_sampler_options *o)
{
    sl_sampler *sm = NULL;
    sl_err err = {0};
    ASSERT_OK(sl_sampler_open(&sm, n, o, &err), err);
    return sm;
}

/* How often each of n tokens comes in 20,000 draws. */
static void frequencies(const sl_sampler_options *o, const float *logits, uint32_t n, double *f)
{
    enum { DRAWS = 20000 };
    sl_sampler *sm = open_sampler(n, o);
    sl_err err = {0};
    for (uint32_t i = 0; i < n; i++) f[i] = 0;
    for (int k = 0; k < DRAWS; k++) {
        int32_t t;
        ASSERT_OK(sl_sample(sm, logits, &t, &err), err);
        f[t] += 1.0 / DRAWS;
    }
    sl_sampler_close(sm);
}

static void check_frequencies(const sl_sampler_options *o, const float *logits, uint32_t n, const double *want)
{
    double f[16];
    frequencies(o, logits, n, f);
    for (uint32_t i = 0; i < n; i++)
        if (fabs(f[i] - want[i]) > 0.015) fail_msg("token %u: %.3f of the draws, want %.3f", i, f[i], want[i]);
}

/* p = 0.5, 0.3, 0.2 */
static const float three[] = {-0.693147181f, -1.203972804f, -1.609437912f};

static void test_greedy_takes_first_maximum(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(0);
    sl_sampler *sm = open_sampler(4, &o);
    const float v[] = {1, 3, 3, -1};
    int32_t t;
    assert_int_equal(sl_sample(sm, v, &t, NULL), SL_OK);
    assert_int_equal(t, 1);
    sl_sampler_close(sm);
}

static void test_plain_softmax(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(1);
    check_frequencies(&o, three, 3, (const double[]){0.5, 0.3, 0.2});
}

static void test_temperature(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(0.5f); /* squares the probabilities */
    check_frequencies(&o, three, 3, (const double[]){0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38});
}

static void test_top_k_ties_by_id(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(1);
    o.top_k = 2;
    const float v[] = {0, 1, 1, 1};
    check_frequencies(&o, v, 4, (const double[]){0, 0.5, 0.5, 0});
}

static void test_top_p_includes_the_crossing_token(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(1);
    o.top_p = 0.6f;
    check_frequencies(&o, three, 3, (const double[]){0.625, 0.375, 0});
    o.top_p = 0.01f;
    check_frequencies(&o, three, 3, (const double[]){1, 0, 0});
}

static void test_min_p(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(1);
    o.min_p = 0.5f; /* 0.2 < 0.5 * 0.5 */
    check_frequencies(&o, three, 3, (const double[]){0.625, 0.375, 0});
}

static void test_penalties_count_distinct_tokens(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(0);
    o.repeat_penalty = 2;
    sl_sampler *sm = open_sampler(3, &o);
    const float v[] = {4, 3, -1};
    int32_t t;
    for (int i = 0; i < 5; i++) sl_sampler_accept(sm, 0); /* 4 / 2 = 2 once, not five times */
    assert_int_equal(sl_sample(sm, v, &t, NULL), SL_OK);
    assert_int_equal(t, 1);
    sl_sampler_accept(sm, 1); /* 1.5 < 2 */
    assert_int_equal(sl_sample(sm, v, &t, NULL), SL_OK);
    assert_int_equal(t, 0);
    sl_sampler_close(sm);
}

static void test_frequency_presence_and_window(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(0);
    o.frequency_penalty = 1;
    o.presence_penalty = 0.25f;
    o.repeat_last_tok = 2;
    sl_sampler *sm = open_sampler(2, &o);
    const float v[] = {2, 1};
    int32_t t;
    sl_sampler_accept(sm, 0); /* 2 - 1.25 < 1 */
    assert_int_equal(sl_sample(sm, v, &t, NULL), SL_OK);
    assert_int_equal(t, 1);
    sl_sampler_accept(sm, 1);
    sl_sampler_accept(sm, 1); /* token 0 has left the window of two */
    assert_int_equal(sl_sample(sm, v, &t, NULL), SL_OK);
    assert_int_equal(t, 0);
    sl_sampler_close(sm);
}

static void test_seed_fixes_the_draws(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(1);
    o.seed = 42;
    int32_t first[32], again[32], other[32];
    int32_t *const runs[] = {first, again, other};
    for (int r = 0; r < 3; r++) {
        o.seed = r == 2 ? 43 : 42;
        sl_sampler *sm = open_sampler(3, &o);
        for (int i = 0; i < 32; i++) assert_int_equal(sl_sample(sm, three, &runs[r][i], NULL), SL_OK);
        sl_sampler_close(sm);
    }
    assert_memory_equal(first, again, sizeof first);
    assert_true(memcmp(first, other, sizeof first) != 0);
}

static void test_broken_logits_are_an_error(void **state)
{
    (void)state;
    sl_sampler_options o = neutral(1);
    sl_sampler *sm = open_sampler(3, &o);
    sl_err err = {0};
    int32_t t = 7;
    const float nan_logits[] = {0, NAN, 1}, inf_logits[] = {0, INFINITY, 1}, none[] = {-INFINITY, -INFINITY, -INFINITY};
    assert_int_equal(sl_sample(sm, nan_logits, &t, &err), SL_ERR_FORMAT);
    assert_int_equal(sl_sample(sm, inf_logits, &t, &err), SL_ERR_FORMAT);
    assert_int_equal(sl_sample(sm, none, &t, &err), SL_ERR_FORMAT);
    assert_int_equal(t, 7);
    sl_sampler_close(sm);
}

static void test_options_are_bounded(void **state)
{
    (void)state;
    struct {
        const char *field;
        sl_sampler_options o;
    } bad[] = {{"temp", neutral(-1)}, {"top-p", neutral(1)}, {"min-p", neutral(1)}, {"repeat-penalty", neutral(1)},
               {"temp", neutral(NAN)}, {"presence-penalty", neutral(1)}, {"frequency-penalty", neutral(1)}};
    bad[1].o.top_p = 0;
    bad[2].o.min_p = 1.5f;
    bad[3].o.repeat_penalty = 0;
    bad[5].o.presence_penalty = INFINITY;
    bad[6].o.frequency_penalty = NAN;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sl_sampler *sm = NULL;
        sl_err err = {0};
        assert_int_equal(sl_sampler_open(&sm, 3, &bad[i].o, &err), SL_ERR_ARG);
        assert_non_null(strstr(err.msg, bad[i].field));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_takes_first_maximum), cmocka_unit_test(test_plain_softmax),
        cmocka_unit_test(test_temperature),                cmocka_unit_test(test_top_k_ties_by_id),
        cmocka_unit_test(test_top_p_includes_the_crossing_token), cmocka_unit_test(test_min_p),
        cmocka_unit_test(test_penalties_count_distinct_tokens),   cmocka_unit_test(test_frequency_presence_and_window),
        cmocka_unit_test(test_seed_fixes_the_draws),       cmocka_unit_test(test_broken_logits_are_an_error),
        cmocka_unit_test(test_options_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
