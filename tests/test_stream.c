/* Residency at work: whatever the reader, policy, budget and order of units, the matrices and table rows hold the
 * file's bytes, and no more is read than the plan says.  The protocol step by step is in test_stream_sweep.c, failures
 * are in test_stream_faults.c, arithmetic in test_stream_plan.c. */
#include "stream_late.h"

/* ---- bytes ---- */

/* Different sequences one after the other: all, part, back to front, with repeats, again or not, cut short. */
static void many_sweeps(sl_residency *r, const world *w, world_rng *rng)
{
    uint32_t seq[WORLD_UNITS * 2] = {0}, n = in_order(w, seq);
    sweep(r, w, seq, n, true);
    sweep(r, w, seq, n, true);
    for (int k = 0; k < 6; k++) {
        uint32_t n_some = 1 + (uint32_t)world_below(rng, 2 * n);
        for (uint32_t i = 0; i < n_some; i++) {
            seq[i] = (uint32_t)world_below(rng, n);
            if (i && world_below(rng, 4) == 0) seq[i] = seq[i - 1];
        }
        sweep(r, w, seq, n_some, world_below(rng, 2));
        if (world_below(rng, 3) == 0) sl_residency_quiesce(r);
    }
    for (uint32_t i = 0; i < n; i++)
        seq[i] = n - 1 - i;
    sweep(r, w, seq, n, false);
    sweep(r, w, seq, 0, true);
}

static void check_table(sl_residency *r, const world *w, world_rng *rng)
{
    uint64_t row_bytes = w->table->size_bytes / w->table->dims[0];
    int32_t ids[19];
    uint8_t *dst = malloc(19 * row_bytes);
    for (uint32_t n = 0; n <= 19; n += 1 + (uint32_t)world_below(rng, 6)) {
        for (uint32_t i = 0; i < n; i++) {
            ids[i] = (int32_t)world_below(rng, w->table->dims[0]);
            if (i && world_below(rng, 3) == 0) ids[i] = ids[i - 1];                       /* twice */
            if (i && world_below(rng, 3) == 0 && ids[i - 1] > 0) ids[i] = ids[i - 1] - 1; /* neighbours, descending */
        }
        memset(dst, 0x11, 19 * row_bytes);
        ok(sl_residency_table_rows(r, ids, n, dst, &last_err));
        for (uint32_t i = 0; i < n; i++) {
            uint64_t at = w->table->offset_bytes + (uint64_t)ids[i] * row_bytes;
            assert_true(world_compare(dst + i * row_bytes, w->table->file, at, row_bytes) == row_bytes);
        }
        for (uint64_t k = n * row_bytes; k < 19 * row_bytes; k++)
            assert_int_equal(dst[k], 0x11);
    }
    free(dst);
}

static void check_memory(const sl_residency *r, const sl_residency_plan *p, const sl_ledger *ledger)
{
    sl_residency_plan real;
    sl_residency_get_plan(r, &real);
    assert_memory_equal(&real, p, sizeof real);
    assert_int_equal(ledger->used[SL_MEM_RESIDENT], p->resident_bytes);
    assert_int_equal(ledger->used[SL_MEM_WINDOW], p->window_bytes + p->staging_bytes);
}

static void test_bytes_with_late_reader(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world_make(&w, seed);
        world_rng rng = {seed};
        for (uint64_t share = 0; share <= 8; share += 1 + share / 4) {
            sl_residency_options opt = world_options(&w, aligns[world_below(&rng, 3)]);
            opt.policy = policies[world_below(&rng, 3)];
            opt.load_late = world_below(&rng, 2);
            uint64_t avail = budget_at(&opt, share, 8), live = sl_alloc_live_bytes();
            sl_residency_plan p = plan_of(&opt, avail);
            sl_ledger ledger;
            sl_ledger_init(&ledger, avail);
            late_open(&late, &w, opt.align);
            sl_residency *r = open_loaded(&opt, avail, &late.io, &ledger);
            check_memory(r, &p, &ledger);
            check_table(r, &w, &rng);
            many_sweeps(r, &w, &rng);
            check_table(r, &w, &rng);
            sl_residency_close(r);
            assert_int_equal(late.n_wrong, 0);
            assert_int_equal(late.n_flight, 0);
            assert_int_equal(ledger.total, 0);
            assert_int_equal(sl_alloc_live_bytes(), live);
        }
    }
}

/* ---- real readers ---- */

static void small_units(const reader *kind, uint64_t seed)
{
    static world w;
    files f;
    world_make(&w, seed);
    files_write(&f, &w);
    for (uint64_t share = 0; share <= 4; share += 2) {
        world_rng rng = {seed * 31 + share};
        sl_io_faults faults = {.delay_max_us = 300, .seed = seed};
        sl_io *io = NULL;
        ok(reader_open(&io, kind, &f, &w, &faults));
        sl_residency_options opt = world_options(&w, io->align);
        opt.views = kind->views;
        opt.policy = policies[world_below(&rng, 3)];
        opt.load_late = seed % 2;
        uint64_t avail = budget_at(&opt, share, 4);
        sl_residency_plan p = plan_of(&opt, avail);
        sl_ledger ledger;
        sl_ledger_init(&ledger, avail);
        sl_residency *r = open_loaded(&opt, avail, io, &ledger);
        check_memory(r, &p, &ledger);
        check_table(r, &w, &rng);
        many_sweeps(r, &w, &rng);
        sl_residency_close(r);
        sl_io_close(io);
        assert_int_equal(ledger.total, 0);
    }
    files_remove(&f);
}

static void check_counters(const sl_residency *r, const sl_io *io, uint64_t read, bool views)
{
    sl_residency_stats s;
    sl_residency_plan p;
    sl_residency_get_stats(r, &s);
    sl_residency_get_plan(r, &p);
    assert_int_equal(s.acquired, 18);
    assert_int_equal(s.released, 18);
    assert_int_equal(s.tensors_loaded, 36);
    assert_int_equal(s.tensors_released, 36);
    assert_int_equal(s.failed, 0);
    if (!views) {
        uint64_t ahead = p.n_window * p.stream_bytes / 6;
        assert_in_range(read, 3 * p.stream_bytes - PAGE, 3 * p.stream_bytes + ahead);
    } else if (io->ops->advise) {
        assert_true(io->n_need >= 18);
        assert_true(io->n_drop >= 18 - p.n_window);
    }
}

/* Three sweeps over units of 4 MiB, a third of them resident. */
static void large_units(const reader *kind)
{
    static world w;
    files f;
    large_world(&w);
    files_write(&f, &w);
    sl_io *io = NULL;
    sl_io_faults faults = {.delay_max_us = 1000, .seed = 9};
    ok(reader_open(&io, kind, &f, &w, &faults));
    sl_residency_options opt = world_options(&w, io->align);
    opt.views = kind->views;
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 1, 3), io, NULL);
    uint32_t seq[6], n = in_order(&w, seq);
    uint64_t loaded = io->bytes_read;
    for (int s = 0; s < 3; s++)
        sweep(r, &w, seq, n, true);
    sl_residency_quiesce(r);
    check_counters(r, io, io->bytes_read - loaded, kind->views);
    sl_residency_close(r);
    sl_io_close(io);
    files_remove(&f);
}

static bool is_here(const reader *kind)
{
    static world w;
    files f;
    sl_io *io = NULL;
    sl_io_faults faults = {0};
    even_world(&w, 1, 1);
    files_write(&f, &w);
    sl_status rc = reader_open(&io, kind, &f, &w, &faults);
    sl_io_close(io);
    files_remove(&f);
    return rc != SL_ERR_UNSUPPORTED;
}

static void test_reader(void **state)
{
    const reader *kind = *state;
    if (!is_here(kind)) {
        printf("skipped: %s\n", last_err.msg);
        skip();
    }
    for (uint64_t seed = 40; seed < 44; seed++)
        small_units(kind, seed);
    large_units(kind);
}

/* Rows listed twice in a unit, overlapping rows, and a tensor that two units share: unusual, and right at every cut.
 * Shared rows are kept once. */
static void test_overlapping_rows(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    world_begin(&w, 1);
    w.file_bytes[0] = 5;
    const sl_tensor *shared = world_tensor(&w, 0, 9, SL_Q6_K, 512, 50);
    for (int u = 0; u < 3; u++) {
        const sl_tensor *a = world_tensor(&w, 0, 0, SL_Q4_0, 512, 100),
                        *b = world_tensor(&w, 0, 100000, SL_F16, 256, 80);
        world_unit(&w);
        world_rows(&w, a, 512, 20, 60);
        world_rows(&w, b, 256, 0, 80);
        world_rows(&w, a, 512, 0, 100);
        if (u == 0) continue;
        world_rows(&w, shared, 512, 10, 40);
        world_rows(&w, shared, 512, 10, 40);
    }
    for (size_t k = 0; k < 3; k++) {
        sl_residency_options opt = world_options(&w, aligns[k]);
        sl_residency_plan full = plan_of(&opt, UINT64_MAX);
        uint64_t once = 3 * (100 * 288 + 80 * 512) + 40 * 420;
        assert_in_range(full.full_bytes, once, once + 8 * PAGE);
        for (uint64_t share = 0; share <= 40; share++) {
            uint32_t seq[] = {0, 1, 2, 1, 1};
            late_open(&late, &w, aligns[k]);
            sl_residency *r = open_loaded(&opt, budget_at(&opt, share, 40), &late.io, NULL);
            for (int s = 0; s < 2; s++)
                sweep(r, &w, seq, 5, true);
            sl_residency_close(r);
            assert_int_equal(late.n_wrong, 0);
        }
    }
}

/* mmap: what is not wanted soon is given back at release, not later; neighbours in the same pages stay. */
static void test_pages_are_dropped(void **state)
{
    (void)state;
    static world w;
    files f;
    large_world(&w);
    files_write(&f, &w);
    sl_io *io = NULL;
    ok(reader_open(&io, &readers[5], &f, &w, NULL));
    assert_string_equal(io->name, "mmap");
    sl_residency_options opt = world_options(&w, io->align);
    opt.views = true;
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 1, 3), io, NULL);
    sl_matrix m[2];
    const uint32_t seq[] = {0, 1, 0, 3};
    uint64_t need = io->n_need;
    assert_true(need > 0); /* the resident part */
    ok(sl_residency_begin(r, seq, 4, false, &last_err));
    assert_int_equal(io->n_need, need + 2);
    for (uint32_t i = 0; i < 4; i++) {
        static const uint64_t drops[] = {0, 1, 2, 3}; /* unit 0 is wanted again after step 0 */
        ok(sl_residency_acquire(r, i, m, &last_err));
        assert_true(world_check_views(&w, seq[i], m));
        sl_residency_release(r, i);
        assert_int_equal(io->n_drop, drops[i]);
    }
    assert_int_equal(io->n_need, need + 3);
    sl_residency_close(r);
    sl_io_close(io);
    files_remove(&f);
}

/* ---- what is read ---- */

static void test_reads_are_the_plans(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    for (uint64_t seed = 100; seed < 120; seed++) {
        world_make(&w, seed);
        w.table = NULL; /* counted bytes are then the units' only */
        sl_residency_options opt = world_options(&w, aligns[seed % 3]);
        for (uint64_t share = 0; share <= 6; share++) {
            late_open(&late, &w, opt.align);
            sl_residency_plan p = plan_of(&opt, budget_at(&opt, share, 6));
            sl_residency *r = open_loaded(&opt, budget_at(&opt, share, 6), &late.io, NULL);
            uint32_t seq[WORLD_UNITS], n = in_order(&w, seq);
            /* reads reach up to a page beyond the end of each file, where there is nothing */
            uint64_t ends = w.n_file * (uint64_t)PAGE;
            assert_in_range(late.io.bytes_read, p.resident_bytes - sl_min_u64(p.resident_bytes, PAGE + ends),
                            p.resident_bytes);
            for (int s = 0; s < 3; s++) {
                sweep(r, &w, seq, n, true);
                sl_residency_quiesce(r);
                uint64_t before = late.io.bytes_read;
                sweep(r, &w, seq, n, true);
                sl_residency_quiesce(r); /* as much is read ahead now as was then: a whole cycle between */
                uint64_t got = late.io.bytes_read - before;
                assert_in_range(got, p.stream_bytes - sl_min_u64(p.stream_bytes, ends), p.stream_bytes);
            }
            if (share == 6) assert_int_equal(p.stream_bytes, 0);
            sl_residency_close(r);
            assert_int_equal(late.n_wrong, 0);
        }
    }
}

/* 8 (16 - k) + 2 k pages of memory is 80 at k = 8: half of each unit stays, and the gaps of 32 KiB between the halves
 * are read over nowhere, since memory is dearer than requests. */
static void test_halves(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 8, 16);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, 80 * PAGE, &late.io, NULL);
    assert_int_equal(late.n_read, 8);
    assert_int_equal(late.io.bytes_read, 8 * 8 * PAGE);
    const uint32_t seq[] = {3};
    sl_matrix m[1];
    ok(sl_residency_begin(r, seq, 1, false, &last_err));
    ok(sl_residency_acquire(r, 0, m, &last_err));
    assert_int_equal(m[0].n_part, 2);
    assert_int_equal(m[0].part[0].n_row, 8);
    assert_int_equal(m[0].part[1].first_row, 8);
    assert_int_equal(late.n_read, 9);
    assert_int_equal(late.io.bytes_read, 9 * 8 * PAGE);
    sl_residency_close(r); /* with a unit held */
    assert_int_equal(late.n_wrong, 0);
}

/* ---- table ---- */

static void test_table_rows_share_pages(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 4, 64);
    w.table = world_tensor(&w, 0, 100, SL_F32, 256, 1000); /* four rows to a page, at an odd place */
    w.table_n_in = 256;
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 1, 3), &late.io, NULL);
    uint64_t loaded = late.n_read, bytes = late.io.bytes_read;
    int32_t ids[19] = {500, 501, 500, 500, 499, 502, 501, 500, 498, 503, 500, 501, 502, 503, 499, 498, 500, 500, 500};
    static uint8_t dst[19 * 1024];
    ok(sl_residency_table_rows(r, ids, 19, dst, &last_err));
    assert_int_equal(late.n_read, loaded + 1); /* rows 498 to 503 are neighbours */
    assert_in_range(late.io.bytes_read - bytes, 6 * 1024, 6 * 1024 + 2 * PAGE);
    for (int i = 0; i < 19; i++) {
        uint64_t at = w.table->offset_bytes + (uint64_t)ids[i] * 1024;
        assert_int_equal(world_compare(dst + i * 1024, 0, at, 1024), 1024);
    }
    const int32_t some[] = {502, 500, 507}; /* 500 and 502 share a page or lie in two that touch; so does 507 */
    loaded = late.n_read;
    ok(sl_residency_table_rows(r, some, 3, dst, &last_err));
    assert_int_equal(late.n_read, loaded + 1);
    int32_t spread[19];
    for (int i = 0; i < 19; i++)
        spread[i] = 50 * (19 - i);
    loaded = late.n_read;
    ok(sl_residency_table_rows(r, spread, 19, dst, &last_err));
    assert_int_equal(late.n_read, loaded + 19);
    assert_true(late.max_flight >= 19); /* one batch */
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

static void test_tied_rows_come_from_memory(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    world_begin(&w, 1);
    const sl_tensor *t = world_tensor(&w, 0, 0, SL_F32, 1024, 400);
    for (uint32_t i = 0; i < 4; i++) {
        world_unit(&w);
        world_rows(&w, t, 1024, i * 100, 100);
    }
    w.table = t;
    w.table_n_in = 1024;
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    /* staging is 20 pages or so; of each unit the first rows stay */
    sl_residency *r = open_loaded(&opt, 340 * PAGE, &late.io, NULL);
    sl_residency_plan p;
    sl_residency_get_plan(r, &p);
    assert_in_range(p.t_bytes / PAGE, 30, 50);
    uint64_t before = late.n_read;
    const int32_t ids[] = {0, 99, 100, 149, 399, 305};
    static uint8_t dst[6 * PAGE];
    ok(sl_residency_table_rows(r, ids, 6, dst, &last_err));
    assert_int_equal(late.n_read - before, 2); /* 99 and 399 */
    for (int i = 0; i < 6; i++)
        assert_int_equal(world_compare(dst + i * PAGE, 0, (uint64_t)ids[i] * PAGE, PAGE), PAGE);
    sl_residency_close(r);

    r = open_loaded(&opt, 400 * PAGE, &late.io, NULL);
    before = late.n_read;
    ok(sl_residency_table_rows(r, ids, 6, dst, &last_err));
    assert_int_equal(late.n_read, before);
    for (int i = 0; i < 6; i++)
        assert_int_equal(world_compare(dst + i * PAGE, 0, (uint64_t)ids[i] * PAGE, PAGE), PAGE);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

#define READER(name_, i)                                                                                               \
    {                                                                                                                  \
        .name = "test_reader: " name_, .test_func = test_reader, .initial_state = (void *)&readers[i]                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_with_late_reader),
        READER("memory", 0),
        READER("memory with views", 1),
        READER("pread", 2),
        READER("uring", 3),
        READER("buffered", 4),
        READER("mmap", 5),
        READER("mmap without views", 6),
        READER("pread, delayed", 7),
        READER("uring, delayed", 8),
        cmocka_unit_test(test_overlapping_rows),
        cmocka_unit_test(test_pages_are_dropped),
        cmocka_unit_test(test_reads_are_the_plans),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_table_rows_share_pages),
        cmocka_unit_test(test_tied_rows_come_from_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
