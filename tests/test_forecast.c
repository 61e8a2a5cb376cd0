/* The forecast: its arithmetic against costs that follow a known law, and the measuring of costs on tiny models. */
#include "support.h"

#include "engine/forecast.h"

#include <math.h>

/* The law that forecast.c assumes, written anew: seconds of n tokens from pos on. */
static double law(uint32_t n, uint32_t pos, uint32_t window, double fixed, double each, double attention)
{
    double sum = fixed + n * each, seen = pos + (n + 1) / 2.0;
    if (window && seen > window) seen = window;
    return sum + attention * n * seen;
}

enum { FEW = 32, MANY = 64, FAR = 1000 };

static sl_kind_cost kind_of_law(double n, uint32_t window, double fixed, double each, double attention)
{
    sl_kind_cost k = {.n = n, .window = window};
    k.many_s[0] = law(FEW, 0, window, fixed, each, attention);
    k.many_s[1] = law(MANY, 0, window, fixed, each, attention);
    k.many_s[2] = law(FEW, FAR, window, fixed, each, attention);
    k.one_s[0] = law(1, 0, window, fixed / 10, each, attention * 2);
    k.one_s[1] = law(1, FAR, window, fixed / 10, each, attention * 2);
    return k;
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want))) fail_msg("%.12g, not %.12g", got, want);
}

static void test_costs_between_and_beyond_what_was_timed(void **state)
{
    (void)state;
    sl_costs c = {.n_kind = 1, .few_tok = FEW, .many_tok = MANY, .far_tok = FAR};
    static const uint32_t windows[] = {0, 128};
    for (size_t w = 0; w < 2; w++) {
        c.kind[0] = kind_of_law(1, windows[w], 1e-3, 2e-5, 3e-9);
        for (uint32_t n = 2; n <= 512; n *= 2)
            for (uint32_t pos = 0; pos < 5000; pos += 700)
                near(sl_kind_seconds(&c, &c.kind[0], n, pos), law(n, pos, windows[w], 1e-3, 2e-5, 3e-9));
        for (uint32_t pos = 0; pos < 5000; pos += 700)
            near(sl_kind_seconds(&c, &c.kind[0], 1, pos), law(1, pos, windows[w], 1e-4, 2e-5, 6e-9));
    }
}

/* A head runs for one token whatever the chunk; timings that noise turned upside down give no negative cost. */
static void test_costs_of_a_head_and_of_noise(void **state)
{
    (void)state;
    sl_costs c = {.n_kind = 1, .few_tok = FEW, .many_tok = MANY, .far_tok = FAR};
    c.kind[0] = kind_of_law(1, 0, 0, 1e-3, 0);
    c.kind[0].head = true;
    near(sl_kind_seconds(&c, &c.kind[0], 512, 0), c.kind[0].one_s[0]);
    c.kind[0] = (sl_kind_cost){.n = 1, .one_s = {2, 1}, .many_s = {3, 2, 1}};
    near(sl_kind_seconds(&c, &c.kind[0], 1, 4000), 2);
    near(sl_kind_seconds(&c, &c.kind[0], 4000, 4000), 2);
}

static sl_costs two_layers_and_head(void)
{
    sl_costs c = {.n_kind = 2, .few_tok = FEW, .many_tok = MANY, .far_tok = FAR};
    c.kind[0] = kind_of_law(2, 0, 0, 1e-3, 0);
    c.kind[1] = kind_of_law(2, 0, 0, 1e-3, 0);
    c.kind[1].head = true;
    return c;
}

/* Four units of a millisecond each; reading 4 MB at 1 GB/s hides behind them, at 100 MB/s it takes ten each. */
static void test_reading_hides_or_bounds(void **state)
{
    (void)state;
    sl_costs c = two_layers_and_head();
    sl_plan p = {.stream_bytes = 4000000, .resident_bytes = 2000000, .model_bytes = 6000000, .prefill_chunk_tok = 10,
                 .prompt_tok = 20, .predict_tok = 8, .ctx_tok = 100, .drive_bytes_s = 1e9, .memory_bytes_s = 1e12};
    sl_forecast(&p, &c);
    near(p.decode_tok_s, 250);
    near(p.decode_wait_s + 1, 1);
    assert_string_equal(p.limit, "compute");
    near(p.prefill_compute_s, 0.042); /* 20 tokens through two layers, one through two blocks */
    near(p.prefill_tok_s, 20 / 0.042);
    near(p.load_s, 0.002);
    near(p.first_token_s, 0.043); /* the 2 MB arrive meanwhile, all but half a millisecond of each block's */

    p.drive_bytes_s = 1e8;
    sl_forecast(&p, &c);
    near(p.decode_tok_s, 25);
    near(p.decode_compute_s, 0.004);
    near(p.decode_wait_s, 0.036);
    assert_string_equal(p.limit, "drive");
    near(p.prefill_compute_s + p.prefill_wait_s, 0.060); /* two sweeps of two layers, and the two blocks once */
    near(p.first_token_s, 0.080); /* 5 ms more for each unit's first use */
}

static void test_nothing_is_made_up(void **state)
{
    (void)state;
    sl_costs c = two_layers_and_head();
    sl_plan p = {.stream_bytes = 1, .prefill_chunk_tok = 4, .prompt_tok = 4, .ctx_tok = 9};
    sl_forecast(&p, &c); /* it streams, and nobody knows how fast */
    assert_true(p.decode_tok_s == 0 && p.prefill_tok_s == 0 && p.load_s == 0);
    p.stream_bytes = 0;
    sl_forecast(&p, &c);
    near(p.decode_tok_s, 250);
    assert_true(p.load_s == 0);
}

/* ---- measuring ---- */

static sl_status plan(const char *model, uint64_t memory_bytes, sl_io_method io, sl_plan *p, sl_err *err)
{
    sl_engine_options o;
    support_engine_options(&o);
    o.memory_bytes = memory_bytes;
    o.io = io;
    o.drive_bytes_s = 1e9;
    return sl_engine_plan(model, &o, p, err);
}

static void test_every_family_is_forecast(void **state)
{
    (void)state;
    static const char *const models[] = {
        "tests/fixtures/tiny/llama/llama-f32.gguf", "tests/fixtures/tiny/llama-untied/hf", "tests/fixtures/tiny/qwen2/qwen2-f32.gguf",
        "tests/fixtures/tiny/qwen3/hf", "tests/fixtures/tiny/gemma3/gemma3-f32.gguf", "tests/fixtures/tiny/quant/q256-Q6_K.gguf"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        sl_plan p, tight;
        sl_err err = {0};
        ASSERT_OK(plan(models[i], 1 << 30, i == 3 ? SL_IO_MMAP : SL_IO_AUTO, &p, &err), err);
        assert_true(p.fits && p.decode_tok_s > 0 && p.prefill_tok_s > 0 && p.decode_full_tok_s > 0);
        near(p.decode_tok_s * (p.decode_compute_s + p.decode_wait_s), 1);
        near(p.prefill_tok_s * (p.prefill_compute_s + p.prefill_wait_s), p.prompt_tok);
        assert_true(p.prompt_tok && p.prompt_tok + p.predict_tok <= p.ctx_tok);
        /* the smallest budget: what is measured must fit it too (a test process grows, so a little is added) */
        tight = p;
        for (int k = 0; k < 50 && (k == 0 || !tight.fits || !tight.decode_tok_s); k++)
            ASSERT_OK(plan(models[i], tight.minimum_bytes + ((uint64_t)(k + 1) << 20), SL_IO_AUTO, &tight, &err), err);
        assert_true(tight.fits && tight.decode_tok_s > 0);
    }
}

static void test_what_is_asked_for_is_forecast(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_plan p;
    sl_err err = {0};
    support_engine_options(&o);
    o.ctx_tok = 64;
    o.drive_bytes_s = 1e9;
    o.forecast_prompt_tok = 60;
    o.forecast_predict_tok = 100;
    ASSERT_OK(sl_engine_plan("tests/fixtures/tiny/llama/llama-f32.gguf", &o, &p, &err), err);
    assert_int_equal(p.prompt_tok, 60);
    assert_int_equal(p.predict_tok, 4);
    o.no_probe = true;
    ASSERT_OK(sl_engine_plan("tests/fixtures/tiny/llama/llama-f32.gguf", &o, &p, &err), err);
    assert_true(p.fits && p.decode_tok_s == 0 && p.drive_bytes_s == 0 && p.memory_bytes_s == 0);
}

/* The sample's memory goes through the ledger: one that is too small for it refuses, and nothing is left behind. */
static void test_costs_obey_the_budget(void **state)
{
    (void)state;
    const char *model = "tests/fixtures/tiny/llama/llama-f32.gguf";
    sl_parts parts = {0};
    sl_engine_options o;
    sl_plan p;
    sl_costs c;
    sl_io *io = NULL;
    sl_err err = {0};
    support_engine_options(&o);
    ASSERT_OK(sl_parts_open(&parts, model, &o, &err), err);
    ASSERT_OK(sl_parts_open_io(&parts, &o, &(sl_log){0}, &io, &err), err);
    ASSERT_OK(sl_budget_split(&parts, &o, io->align, false, NULL, &p, &err), err);
    p.prompt_tok = 32;
    uint64_t live = sl_alloc_live_bytes();
    ASSERT_OK(sl_costs_measure(&c, &parts, &o, &p, io, &err), err);
    assert_int_equal(sl_alloc_live_bytes(), live);
    double n = 0;
    for (uint32_t i = 0; i < c.n_kind; i++) n += c.kind[i].n;
    near(n, parts.model->n_unit);
    assert_true(c.kind[c.n_kind - 1].head && c.kind[0].one_s[0] > 0 && c.kind[0].many_s[1] > 0);
    p.budget_bytes = p.base_bytes + p.tokenizer_bytes + 4096;
    assert_int_equal(sl_costs_measure(&c, &parts, &o, &p, io, &err), SL_ERR_BUDGET);
    assert_int_equal(sl_alloc_live_bytes(), live);
    sl_io_close(io);
    sl_parts_close(&parts);
}

typedef struct {
    int64_t calls, fail_at;
} alloc_walk;

static bool should_fail(void *user)
{
    alloc_walk *w = user;
    return ++w->calls == w->fail_at;
}

static void test_every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    uint64_t live = sl_alloc_live_bytes();
    bool done = false;
    int64_t n = 1;
    for (; !done; n += 1 + n / 200) {
        alloc_walk w = {.fail_at = n};
        sl_plan p;
        sl_err err = {0};
        sl_alloc_set_hook(should_fail, &w);
        sl_status rc = plan("tests/fixtures/tiny/quant/q64-Q4_1.gguf", 1 << 30, SL_IO_AUTO, &p, &err);
        sl_alloc_set_hook(NULL, NULL);
        done = w.calls < n;
        if (rc != SL_OK && err.code != SL_ERR_NOMEM) fail_msg("allocation %lld: status %d, %s", (long long)n, rc, err.msg);
        if (sl_alloc_live_bytes() != live) fail_msg("allocation %lld leaks", (long long)n);
    }
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs_between_and_beyond_what_was_timed),
        cmocka_unit_test(test_costs_of_a_head_and_of_noise),
        cmocka_unit_test(test_reading_hides_or_bounds),
        cmocka_unit_test(test_nothing_is_made_up),
        cmocka_unit_test(test_every_family_is_forecast),
        cmocka_unit_test(test_what_is_asked_for_is_forecast),
        cmocka_unit_test(test_costs_obey_the_budget),
        cmocka_unit_test(test_every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
