/* The arithmetic of residency: worked examples with numbers by hand, then properties over random models. */
#include "stream_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE = 4096, MIB = 1024 * 1024 };

static sl_residency_plan plan(const sl_residency_options *opt, uint64_t avail)
{
    sl_residency_plan p;
    sl_err err = {0};
    if (sl_residency_plan_for(opt, avail, &p, &err) != SL_OK) fail_msg("%s", err.msg);
    return p;
}

static uint64_t used(const sl_residency_plan *p)
{
    return p->resident_bytes + p->window_bytes + p->staging_bytes;
}

/* n units of one tensor each, 1 MiB in rows of one page, page aligned, back to back. */
static void pages_world(world *w, uint32_t n)
{
    world_begin(w, 1);
    for (uint32_t i = 0; i < n; i++) {
        const sl_tensor *t = world_tensor(w, 0, 0, SL_F32, 1024, 256);
        world_unit(w);
        world_rows(w, t, 1024, 0, 256);
    }
}

/* ---- by hand ---- */

/* total(t) = 10 (1 MiB - t) + 2 t = 6 MiB at t = 512 KiB. */
static void test_half(void **state)
{
    (void)state;
    static world w;
    pages_world(&w, 10);
    sl_residency_options opt = world_options(&w, PAGE);
    sl_residency_plan p = plan(&opt, 6 * MIB);
    assert_true(p.fits);
    assert_int_equal(p.t_bytes, 512 * 1024);
    assert_int_equal(p.resident_bytes, 5 * MIB);
    assert_int_equal(p.window_bytes, MIB);
    assert_int_equal(p.n_window, 2);
    assert_int_equal(p.stream_bytes, 5 * MIB);
    assert_int_equal(p.staging_bytes, 0);
    assert_int_equal(p.minimum_bytes, 2 * MIB);
    assert_int_equal(p.full_bytes, 10 * MIB);
    assert_int_equal(p.unit_bytes, 10 * MIB);
}

/* 96 units; k rows of a page streamed by each, three windows: 96 MiB - 93 k pages.  For 94 MiB (2 MiB = 512 pages less)
 * k = 6 spares 558 pages, 46 too many: 46 units stream one row less. */
static void test_third_window_and_last_page(void **state)
{
    (void)state;
    static world w;
    pages_world(&w, 96);
    sl_residency_options opt = world_options(&w, PAGE);
    sl_residency_plan p = plan(&opt, 94 * MIB);
    assert_int_equal(p.n_window, 3);
    assert_int_equal(p.window_bytes, 3 * 6 * PAGE);
    assert_int_equal(used(&p), 94 * MIB);
    assert_int_equal(p.stream_bytes, (96 * 6 - 46) * PAGE);
}

static void test_edges(void **state)
{
    (void)state;
    static world w;
    pages_world(&w, 10);
    sl_residency_options opt = world_options(&w, PAGE);
    sl_residency_plan p = plan(&opt, 10 * MIB);
    assert_true(p.fits);
    assert_int_equal(p.t_bytes, 0);
    assert_int_equal(p.stream_bytes, 0);
    assert_int_equal(p.window_bytes, 0);
    assert_int_equal(p.n_window, 0);
    assert_int_equal(p.resident_bytes, 10 * MIB);
    p = plan(&opt, UINT64_MAX);
    assert_int_equal(used(&p), 10 * MIB);

    p = plan(&opt, 2 * MIB);
    assert_true(p.fits);
    assert_int_equal(p.t_bytes, MIB);
    assert_int_equal(p.resident_bytes, 0);
    assert_int_equal(p.stream_bytes, 10 * MIB);
    p = plan(&opt, 2 * MIB - 1);
    assert_false(p.fits);
    assert_int_equal(used(&p), 2 * MIB); /* what it would take */
    p = plan(&opt, 0);
    assert_false(p.fits);
}

/* One unit of 8 MiB among 20 of 1 MiB: keeping the surplus costs 7 MiB once, windows for it would cost 16. */
static void test_outlier_is_not_windowed(void **state)
{
    (void)state;
    static world w;
    pages_world(&w, 20);
    const sl_tensor *t = world_tensor(&w, 0, 0, SL_F32, 1024, 8 * 256);
    world_unit(&w);
    world_rows(&w, t, 1024, 0, 8 * 256);
    sl_residency_options opt = world_options(&w, PAGE);
    sl_residency_plan p = plan(&opt, 9 * MIB);
    assert_int_equal(p.minimum_bytes, 9 * MIB);
    assert_true(p.fits);
    assert_int_equal(p.resident_bytes, 7 * MIB);
    assert_int_equal(p.window_bytes, 2 * MIB);
    assert_int_equal(p.stream_bytes, 21 * MIB);
}

/* A gap of 64 KiB is read over and has to fit in the window; a larger one is not. */
static void test_gaps(void **state)
{
    (void)state;
    static const struct {
        uint64_t gap, window;
    } cases[] = {{0, 2 * MIB}, {65536, 2 * MIB + 65536}, {65536 + PAGE, 2 * MIB}, {10, 2 * MIB + PAGE}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        static world w;
        world_begin(&w, 1);
        for (int u = 0; u < 4; u++) {
            const sl_tensor *a = world_tensor(&w, 0, 0, SL_F32, 1024, 256);
            const sl_tensor *b = world_tensor(&w, 0, cases[c].gap, SL_F32, 1024, 256);
            w.file_bytes[0] = sl_round_up(w.file_bytes[0], PAGE);
            world_unit(&w);
            world_rows(&w, a, 1024, 0, 256);
            world_rows(&w, b, 1024, 0, 256);
        }
        sl_residency_options opt = world_options(&w, PAGE);
        sl_residency_plan p = plan(&opt, 0);
        assert_int_equal(p.minimum_bytes, 2 * cases[c].window);
        assert_int_equal(p.stream_bytes, 4 * cases[c].window);
    }
}

static void test_table(void **state)
{
    (void)state;
    static world w;
    pages_world(&w, 8);
    w.table = world_tensor(&w, 0, 0, SL_F32, 1024, 512); /* 2 MiB, untied */
    w.table_n_in = 1024;
    sl_residency_options opt = world_options(&w, PAGE);
    opt.max_table_rows = 16; /* rows are pages: 64 KiB, and a page or so for requests */
    sl_residency_plan p = plan(&opt, 10 * MIB);
    assert_int_equal(p.full_bytes, 10 * MIB);
    assert_true(p.table_resident);
    assert_int_equal(p.staging_bytes, 0);
    assert_int_equal(p.resident_bytes, 10 * MIB);

    p = plan(&opt, 10 * MIB - 1);
    assert_true(p.fits && !p.table_resident);
    assert_int_equal(p.stream_bytes, 0); /* all units stay, rows of the table are read */
    assert_in_range(p.staging_bytes, 16 * PAGE + 1, 16 * PAGE + 2 * PAGE);
    uint64_t staging = p.staging_bytes;

    p = plan(&opt, 8 * MIB);
    assert_false(p.table_resident);
    assert_true(p.stream_bytes > 0);
    assert_int_equal(p.minimum_bytes, 2 * MIB + staging);

    opt.views = true; /* the file itself is the memory */
    p = plan(&opt, 8 * MIB);
    assert_int_equal(p.staging_bytes, 0);

    opt.views = false; /* tied: the table is the last two units */
    pages_world(&w, 8);
    w.tensors[6].size_bytes *= 2;
    w.tensors[7].size_bytes = 0;
    w.rows[7] = (sl_unit_rows){.tensor = &w.tensors[6], .n_in = 1024, .first_row = 256, .n_row = 256};
    w.table = &w.tensors[6];
    opt.table = w.table;
    p = plan(&opt, 8 * MIB);
    assert_false(p.table_resident);
    assert_int_equal(p.full_bytes, 8 * MIB);
    assert_int_equal(p.staging_bytes, 0);
    assert_int_equal(p.stream_bytes, 0);
    p = plan(&opt, 8 * MIB - 1);
    assert_int_equal(p.staging_bytes, staging);
}

/* A row read by itself: the alignment around it, at the worst offset that occurs. */
static void test_staging_of_odd_rows(void **state)
{
    (void)state;
    static const struct {
        uint64_t gap;
        uint32_t n_in, pages;
    } cases[] = {{0, 1024, 1}, {4, 1024, 2}, {0, 768, 2}, {0, 512, 1}, {32, 512, 2}, {1, 256, 2}, {0, 3072, 3}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        static world w;
        world_begin(&w, 1);
        w.table = world_tensor(&w, 0, cases[c].gap, SL_F32, cases[c].n_in, 20000);
        w.table_n_in = cases[c].n_in;
        sl_residency_options opt = world_options(&w, PAGE);
        opt.max_table_rows = 1000;
        sl_residency_plan p = plan(&opt, 2 * w.table->size_bytes);
        assert_true(p.table_resident);
        assert_int_equal(p.full_bytes, sl_round_up(w.table->size_bytes + cases[c].gap, PAGE));
        p = plan(&opt, p.full_bytes - 1);
        uint64_t rows = 1000ull * cases[c].pages * PAGE;
        assert_in_range(p.minimum_bytes, rows, rows + 1000 * 128);
    }
}

static void test_slots(void **state)
{
    (void)state;
    static world w;
    pages_world(&w, 10);
    sl_residency_options opt = world_options(&w, PAGE);
    for (int i = 0; i < 2; i++) {
        opt.policy = i ? SL_POLICY_LRU : SL_POLICY_FIFO;
        sl_residency_plan p = plan(&opt, 5 * MIB + MIB / 2);
        assert_true(p.fits);
        assert_int_equal(p.n_window, 5);
        assert_int_equal(p.window_bytes, 5 * MIB);
        assert_int_equal(p.resident_bytes, 0);
        assert_int_equal(p.stream_bytes, 10 * MIB);
        assert_int_equal(p.minimum_bytes, 2 * MIB);
        assert_int_equal(p.full_bytes, 10 * MIB);
        p = plan(&opt, 11 * MIB);
        assert_int_equal(p.n_window, 10);
        assert_int_equal(p.stream_bytes, 0); /* after the first sweep */
        p = plan(&opt, 2 * MIB - 1);
        assert_false(p.fits);
    }
}

static void test_nothing(void **state)
{
    (void)state;
    sl_residency_options opt = {.align = PAGE};
    sl_residency_plan p = plan(&opt, 0);
    assert_true(p.fits);
    assert_int_equal(p.minimum_bytes, 0);
    assert_int_equal(p.full_bytes, 0);
    opt.policy = SL_POLICY_LRU;
    p = plan(&opt, 0);
    assert_true(p.fits);
    sl_unit empty[3] = {{0}};
    opt.units = empty;
    opt.n_unit = 3;
    p = plan(&opt, 0);
    assert_true(p.fits);
    opt.policy = SL_POLICY_PIN;
    p = plan(&opt, 0);
    assert_true(p.fits);
}

/* ---- refusals ---- */

static void refused(const sl_residency_options *opt, sl_status code, const char *part)
{
    sl_residency_plan p;
    sl_err err = {0};
    assert_int_equal(sl_residency_plan_for(opt, 1 << 30, &p, &err), code);
    if (!strstr(err.msg, part)) fail_msg("\"%s\" does not say \"%s\"", err.msg, part);
    assert_int_equal(sl_residency_plan_for(opt, 1 << 30, &p, NULL), code);
}

static void test_refusals(void **state)
{
    (void)state;
    static world w;
    pages_world(&w, 3);
    sl_residency_options opt = world_options(&w, PAGE);
    opt.align = 0;
    refused(&opt, SL_ERR_ARG, "alignment 0");
    opt.align = 513;
    refused(&opt, SL_ERR_ARG, "alignment 513");
    opt.align = 1 << 20;
    refused(&opt, SL_ERR_ARG, "alignment 1048576");
    opt.align = PAGE;

    w.rows[1].n_row = 0;
    refused(&opt, SL_ERR_ARG, "blk.1.weight");
    w.rows[1].n_row = 257;
    refused(&opt, SL_ERR_ARG, "which has 256");
    w.rows[1].n_row = UINT32_MAX;
    w.rows[1].first_row = UINT32_MAX;
    refused(&opt, SL_ERR_ARG, "unit 1");
    w.rows[1] = w.rows[0];
    w.rows[1].n_in = 0;
    refused(&opt, SL_ERR_ARG, "rows of 0 elements");
    w.rows[1].n_in = 1024;
    w.tensors[2].type = sl_type_find(SL_Q4_K);
    w.rows[2].n_in = 100;
    refused(&opt, SL_ERR_ARG, "Q4_K");
    w.rows[2] = w.rows[0];

    w.table = &w.tensors[1];
    opt.table = w.table;
    opt.table_n_in = 0;
    refused(&opt, SL_ERR_ARG, "table \"blk.1.weight\"");
    opt.table_n_in = 1024 * 257;
    refused(&opt, SL_ERR_ARG, "table \"blk.1.weight\"");
    opt.table = NULL;

    w.tensors[0].size_bytes = 1ull << 57;
    for (uint32_t i = 0; i < 3; i++)
        w.rows[i] = (sl_unit_rows){.tensor = &w.tensors[0], .n_in = 1u << 31, .n_row = 1u << 24};
    refused(&opt, SL_ERR_LIMIT, "2^56");
}

/* ---- properties ---- */

static void check_plan(const world *w, const sl_residency_options *opt, uint64_t avail, const sl_residency_plan *p)
{
    uint32_t align = opt->align;
    assert_int_equal(p->fits, avail >= p->minimum_bytes);
    if (!p->fits) {
        assert_true(used(p) == p->minimum_bytes);
        return;
    }
    assert_true(used(p) <= avail);
    assert_true(p->minimum_bytes <= p->full_bytes);
    assert_int_equal(p->resident_bytes % PAGE + p->window_bytes % PAGE + p->staging_bytes % PAGE, 0);
    uint64_t sum = 0, largest = 0;
    for (uint32_t u = 0; u < w->n_unit; u++) {
        sum += world_unit_bytes(w, u);
        largest = sl_max_u64(largest, world_unit_bytes(w, u));
    }
    assert_int_equal(p->unit_bytes, sum);
    assert_true(p->t_bytes <= largest);
    if (opt->policy == SL_POLICY_LRU || p->n_window >= w->n_unit) return;
    if (avail >= p->full_bytes) assert_true(p->stream_bytes == 0 && p->staging_bytes == 0 && p->n_window == 0);
    if (p->stream_bytes == 0) return;
    assert_in_range(p->n_window, 1, 3);
    if (p->n_window == 3) assert_true(p->window_bytes / 3 < avail / 16 + PAGE);

    /* Every unit leaves at most t behind, to the row; what is resident is not streamed. */
    uint64_t gaps = (uint64_t)w->n_rows * (65536 + 2 * align);
    uint64_t must_stay = 0, may_pass = 0;
    for (uint32_t u = 0; u < w->n_unit; u++) {
        uint64_t b = world_unit_bytes(w, u);
        must_stay += b > p->t_bytes ? b - p->t_bytes : 0;
        may_pass += sl_min_u64(b, p->t_bytes);
    }
    assert_true(p->resident_bytes >= must_stay);
    assert_true(p->stream_bytes <= may_pass + gaps);
    assert_true(p->resident_bytes + p->stream_bytes >= sum);

    /* To the last page: another row, with the page it may begin and the one it may end in, would not have fitted.
     * (The cheapest plan of all may leave more: there t is as large as it is useful.) */
    if (p->n_window >= 2) {
        uint64_t step = world_max_row_bytes(w) + 6 * sl_max_u64(align, PAGE);
        assert_true(avail - used(p) < step);
    }
}

static void walk_budgets(const world *w, const sl_residency_options *opt)
{
    sl_residency_plan p = plan(opt, 0);
    uint64_t from = p.minimum_bytes, to = p.full_bytes, span = to - from;
    world_rng r = {w->n_rows};
    uint64_t before = UINT64_MAX;
    for (int i = 0; i <= 40; i++) {
        uint64_t avail = from + span * (uint64_t)i / 40;
        if (i % 4 == 1) avail += world_below(&r, PAGE) % (span / 40 + 1);
        p = plan(opt, avail);
        check_plan(w, opt, avail, &p);
        /* more memory never means more reading, but for what a third window takes */
        uint64_t extra = p.n_window == 3 ? 2 * p.window_bytes + (uint64_t)w->n_unit * (65536 + 2 * PAGE) : 0;
        uint64_t noise = opt->policy == SL_POLICY_LRU ? 0 : (uint64_t)w->n_unit * 65536;
        if (before != UINT64_MAX) assert_true(p.stream_bytes <= before + extra + noise);
        before = p.stream_bytes;
    }
    if (from) {
        p = plan(opt, from - 1);
        check_plan(w, opt, from - 1, &p);
    }
    p = plan(opt, to + 12345678);
    check_plan(w, opt, to + 12345678, &p);
    assert_true(used(&p) <= to);
}

static void test_random_models(void **state)
{
    (void)state;
    static const uint32_t aligns[] = {1, 512, 4096};
    static world w;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        world_make(&w, seed);
        sl_residency_options opt = world_options(&w, aligns[seed % 3]);
        opt.views = seed % 7 == 0;
        walk_budgets(&w, &opt);
        opt.policy = SL_POLICY_LRU;
        walk_budgets(&w, &opt);
    }
}

/* ---- allocation failures ---- */

static bool fail_nth(void *user)
{
    int *left = user;
    return --*left == 0;
}

static void test_failed_allocations(void **state)
{
    (void)state;
    static world w;
    world_make(&w, 5);
    sl_residency_options opt = world_options(&w, PAGE);
    uint64_t live = sl_alloc_live_bytes();
    sl_status rc = SL_ERR_NOMEM;
    int n = 0;
    while (rc != SL_OK) {
        int left = ++n;
        sl_residency_plan p;
        sl_err err = {0};
        sl_alloc_set_hook(fail_nth, &left);
        rc = sl_residency_plan_for(&opt, 1 << 20, &p, &err);
        sl_alloc_set_hook(NULL, NULL);
        assert_true(rc == SL_OK || (rc == SL_ERR_NOMEM && err.msg[0]));
        assert_int_equal(sl_alloc_live_bytes(), live);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_third_window_and_last_page),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_outlier_is_not_windowed),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_staging_of_odd_rows),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_random_models),
        cmocka_unit_test(test_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
