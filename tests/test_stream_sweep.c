/* The protocol of a sweep: what is read when, which window goes, what lru and fifo do, misuse, loading. */
#include "stream_late.h"

typedef struct {
    uint32_t n, units[64];
} hook_log;

static void on_prefetch(void *user, uint32_t unit)
{
    hook_log *h = user;
    h->units[h->n++] = unit;
}

static void test_windows_step_by_step(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 5, 16);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency_plan p = plan_of(&opt, 0);
    sl_residency *r = open_loaded(&opt, p.minimum_bytes, &late.io, NULL);
    hook_log hook = {0};
    sl_residency_set_prefetch_hook(r, on_prefetch, &hook);
    sl_matrix m[1];
    sl_residency_stats s;
    assert_int_equal(late.n_read, 0); /* nothing is resident */

    const uint32_t seq[] = {0, 1, 2, 3, 4};
    ok(sl_residency_begin(r, seq, 5, true, &last_err));
    assert_int_equal(late.n_flight, 2); /* both windows are under way before anything is asked for */
    ok(sl_residency_acquire(r, 0, m, &last_err));
    assert_int_equal(late.n_flight, 1); /* waits for its own only */
    sl_residency_release(r, 0);
    assert_int_equal(late.n_flight, 2); /* unit 2 starts in the window of unit 0 */
    for (uint32_t i = 1; i < 5; i++) {
        ok(sl_residency_acquire(r, i, m, &last_err));
        sl_residency_release(r, i);
    }
    sl_residency_end(r);
    assert_int_equal(late.n_read, 7); /* five, and the next sweep's first two */
    assert_int_equal(late.n_flight, 2);
    assert_int_equal(hook.n, 7);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(hook.units[i], i % 5);
    sl_residency_get_stats(r, &s);
    assert_int_equal(s.prefetched, 7);
    assert_int_equal(s.misses, 5);
    assert_int_equal(s.hits, 0);

    sl_residency_quiesce(r);
    assert_int_equal(late.n_flight, 0);
    ok(sl_residency_begin(r, seq, 2, false, &last_err)); /* both are there */
    assert_int_equal(late.n_flight, 0);
    for (uint32_t i = 0; i < 2; i++) {
        ok(sl_residency_acquire(r, i, m, &last_err));
        assert_true(world_check_views(&w, i, m));
        sl_residency_release(r, i);
    }
    sl_residency_end(r);
    assert_int_equal(late.n_read, 7); /* not again: nothing is expected */

    const uint32_t other[] = {4, 1, 4, 4, 1}; /* unit 1 is kept, unit 0 is not wanted */
    ok(sl_residency_begin(r, other, 5, true, &last_err));
    for (uint32_t i = 0; i < 5; i++) {
        ok(sl_residency_acquire(r, i, m, &last_err));
        assert_true(world_check_views(&w, other[i], m));
        sl_residency_release(r, i);
    }
    sl_residency_end(r);
    assert_int_equal(late.n_read, 8);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* Two windows, one in use: the other is for the very next unit, though a later one lies in it. */
static void test_soonest_unit_gets_the_window(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 5, 16);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 0, 1), &late.io, NULL);
    const uint32_t seq[] = {0, 2, 0, 1, 2};
    sl_matrix m[1];
    ok(sl_residency_begin(r, seq, 5, false, &last_err));
    for (uint32_t i = 0; i < 3; i++) {
        ok(sl_residency_acquire(r, i, m, &last_err));
        if (i < 2) sl_residency_release(r, i);
    }
    assert_int_equal(late.n_read, 3);
    assert_int_equal(late.n_flight, 1);
    assert_int_equal(late.flight[0]->offset_bytes, w.tensors[1].offset_bytes);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* Driving asks the reader once while anything is under way, waits for nothing and changes nothing. */
static void test_drive(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 5, 16);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    late.never_polls = true;
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 0, 1), &late.io, NULL);
    sl_residency_drive(r);
    assert_int_equal(late.n_poll, 0);
    const uint32_t seq[] = {0, 1, 2};
    ok(sl_residency_begin(r, seq, 3, false, &last_err));
    sl_residency_drive(r);
    assert_int_equal(late.n_poll, 1);
    assert_int_equal(late.n_flight, 2);
    sl_residency_quiesce(r);
    sl_residency_drive(r);
    assert_int_equal(late.n_poll, 1);
    late.never_polls = false;
    sl_matrix m[1];
    for (uint32_t i = 0; i < 3; i++) {
        sl_residency_drive(r);
        ok(sl_residency_acquire(r, i, m, &last_err));
        assert_true(world_check_views(&w, seq[i], m));
        sl_residency_release(r, i);
    }
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* A changed sequence while reads for the old one are under way. */
static void test_changed_sequence_waits_for_memory(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 6, 8);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 0, 1), &late.io, NULL);
    const uint32_t first[] = {0, 1, 2}, second[] = {5, 4, 1, 3};
    sl_matrix m[1];
    for (int k = 0; k < 20; k++) {
        ok(sl_residency_begin(r, first, 3, true, &last_err));
        if (k % 2) {
            ok(sl_residency_acquire(r, 0, m, &last_err));
            assert_true(world_check_views(&w, 0, m));
        }
        sl_residency_end(r); /* early, with a unit held */
        assert_int_equal(sl_residency_pinned_count(r), 0);
        sweep(r, &w, second, 4, k % 3 == 0);
    }
    sl_residency_quiesce(r);
    late.never_polls = true; /* reading ahead does not wait for reads that nobody wants; asking for a unit does */
    const uint32_t third[] = {0, 2}, fourth[] = {5, 4};
    ok(sl_residency_begin(r, third, 2, true, &last_err));
    assert_int_equal(late.n_flight, 2);
    uint64_t before = late.n_read;
    ok(sl_residency_begin(r, fourth, 2, false, &last_err));
    assert_int_equal(late.n_flight, 2);
    assert_int_equal(late.n_read, before);
    ok(sl_residency_acquire(r, 0, m, &last_err));
    assert_true(world_check_views(&w, 5, m));
    assert_int_equal(late.n_read, before + 1);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
    assert_int_equal(late.n_flight, 0);
}

static void test_several_held(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 64, 64);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, plan_of(&opt, 0).full_bytes - 200 * PAGE, &late.io, NULL);
    sl_residency_plan p;
    sl_residency_get_plan(r, &p);
    assert_int_equal(p.n_window, 3);
    const uint32_t seq[] = {10, 11, 11, 12, 13, 14};
    sl_matrix m[6];
    ok(sl_residency_begin(r, seq, 6, false, &last_err));
    for (uint32_t i = 0; i < 4; i++)
        ok(sl_residency_acquire(r, i, &m[i], &last_err)); /* three units: 11 twice */
    assert_int_equal(sl_residency_pinned_count(r), 4);
    assert_int_equal(sl_residency_acquire(r, 4, &m[4], &last_err), SL_ERR_LIMIT);
    assert_non_null(strstr(last_err.msg, "all 3 are in use"));
    for (uint32_t i = 0; i < 4; i++)
        assert_true(world_check_views(&w, seq[i], &m[i]));
    sl_residency_release(r, 1);
    assert_int_equal(sl_residency_acquire(r, 4, &m[4], &last_err), SL_ERR_LIMIT); /* step 2 still holds unit 11 */
    sl_residency_release(r, 2);
    ok(sl_residency_acquire(r, 4, &m[4], &last_err));
    assert_true(world_check_views(&w, 13, &m[4]));
    assert_true(world_check_views(&w, 10, &m[0]));
    assert_true(world_check_views(&w, 12, &m[3]));
    assert_int_equal(sl_residency_pinned_count(r), 3);
    sl_residency_release(r, 0);
    sl_residency_release(r, 0); /* twice changes nothing */
    assert_int_equal(sl_residency_pinned_count(r), 2);
    ok(sl_residency_acquire(r, 5, &m[5], &last_err));
    assert_true(world_check_views(&w, 14, &m[5]));
    sl_residency_end(r);
    assert_int_equal(sl_residency_pinned_count(r), 0);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* ---- lru and fifo ---- */

typedef struct {
    uint64_t hits, misses, evictions;
} counts;

static counts run_slots(const world *w, sl_policy policy, uint32_t n_slot, const uint32_t *seq, uint32_t n)
{
    static late_io late;
    sl_residency_options opt = world_options(w, PAGE);
    opt.policy = policy;
    late_open(&late, w, PAGE);
    sl_residency *r = open_loaded(&opt, n_slot * 8 * PAGE, &late.io, NULL);
    sl_residency_plan p;
    sl_residency_get_plan(r, &p);
    assert_int_equal(p.n_window, n_slot);
    sweep(r, w, seq, n, false);
    sl_residency_stats s;
    sl_residency_get_stats(r, &s);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
    assert_int_equal(late.n_read, s.misses);
    return (counts){s.hits, s.misses, s.evictions};
}

/* By hand, three slots.  0 1 2 are read; 0 and 1 hit; 3 is read ahead while 1 is in use: lru drops 2, fifo drops 0, the
 * first that was read.  Then 0 hits under lru; under fifo it is read again, dropping 1. */
static void test_lru_and_fifo(void **state)
{
    (void)state;
    static world w;
    even_world(&w, 8, 8);
    const uint32_t seq[] = {0, 1, 2, 0, 1, 3, 0};
    counts c = run_slots(&w, SL_POLICY_LRU, 3, seq, 7);
    assert_int_equal(c.misses, 4);
    assert_int_equal(c.hits, 3);
    assert_int_equal(c.evictions, 1);
    c = run_slots(&w, SL_POLICY_FIFO, 3, seq, 7);
    assert_int_equal(c.misses, 5);
    assert_int_equal(c.hits, 2);
    assert_int_equal(c.evictions, 2);

    const uint32_t cycle[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = 1; i < 3; i++) {
        c = run_slots(&w, policies[i], 7, cycle, 16);
        assert_int_equal(c.hits, 0); /* the reason for pin */
        assert_int_equal(c.evictions, 9);
        c = run_slots(&w, policies[i], 8, cycle, 16);
        assert_int_equal(c.hits, 8);
        assert_int_equal(c.evictions, 0);
    }
}

/* ---- protocol ---- */
static void test_misuse(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 4, 8);
    w.table = &w.tensors[3];
    w.table_n_in = 1024;
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = NULL;
    sl_matrix m[1];
    uint8_t row[2 * PAGE];
    const uint32_t seq[] = {0, 1, 4};
    const int32_t ids[] = {0, 8, -1};

    opt.views = true;
    misuse(sl_residency_open(&r, &opt, MIB, &late.io, NULL, &last_err), "late gives no views");
    opt.views = false;
    opt.align = 512;
    misuse(sl_residency_open(&r, &opt, MIB, &late.io, NULL, &last_err), "alignment of 4096");
    opt.align = PAGE;
    assert_int_equal(sl_residency_open(&r, &opt, 3 * PAGE, &late.io, NULL, &last_err), SL_ERR_BUDGET);
    assert_null(r);
    sl_ledger small;
    sl_ledger_init(&small, 10 * PAGE); /* someone else took what was planned with */
    assert_int_equal(sl_residency_open(&r, &opt, 32 * PAGE, &late.io, &small, &last_err), SL_ERR_BUDGET);
    assert_int_equal(small.total, 0);

    ok(sl_residency_open(&r, &opt, budget_at(&opt, 1, 2), &late.io, NULL, &last_err));
    misuse(sl_residency_begin(r, seq, 2, false, &last_err), "before the resident weights were loaded");
    misuse(sl_residency_table_rows(r, ids, 1, row, &last_err), "before weights were loaded");
    ok(sl_residency_load(r, NULL, NULL, NULL, &last_err));
    misuse(sl_residency_acquire(r, 0, m, &last_err), "step 0");
    misuse(sl_residency_begin(r, seq, 3, false, &last_err), "step 2 of a sweep is unit 4 of 4");
    ok(sl_residency_begin(r, seq, 2, false, &last_err));
    misuse(sl_residency_acquire(r, 1, m, &last_err), "step 0 of 2 is next");
    ok(sl_residency_acquire(r, 0, m, &last_err));
    misuse(sl_residency_begin(r, seq, 2, false, &last_err), "1 units are acquired");
    misuse(sl_residency_acquire(r, 0, m, &last_err), "step 1 of 2 is next");
    sl_residency_release(r, 1); /* never acquired */
    sl_residency_release(r, 77);
    assert_int_equal(sl_residency_pinned_count(r), 1);
    sl_residency_end(r);
    sl_residency_end(r);
    misuse(sl_residency_acquire(r, 1, m, &last_err), "of 0");
    misuse(sl_residency_table_rows(r, ids + 1, 1, row, &last_err), "row 8 of table");
    misuse(sl_residency_table_rows(r, ids + 2, 1, row, &last_err), "row -1 of table");
    misuse(sl_residency_table_rows(r, ids, 20, row, &last_err), "at most 19");
    sl_residency_close(r);
    sl_residency_close(NULL);

    opt.table = NULL;
    r = open_loaded(&opt, MIB, &late.io, NULL);
    misuse(sl_residency_table_rows(r, ids, 1, row, &last_err), "no table");
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

static void test_refusal_has_the_sum(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 10, 256);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = NULL;
    sl_err err = {0};
    assert_int_equal(sl_residency_open(&r, &opt, 1536 * 1024, &late.io, NULL, &err), SL_ERR_BUDGET);
    char need[24], have[24], full[24];
    assert_non_null(strstr(err.msg, sl_size_text(2 * MIB, need)));
    assert_non_null(strstr(err.msg, sl_size_text(1536 * 1024, have)));
    assert_non_null(strstr(err.msg, sl_size_text(10 * MIB, full)));
}

/* ---- loading ---- */

typedef struct {
    uint32_t n;
    uint64_t last, total;
    volatile bool cancel;
    uint32_t cancel_at; /* n-th call; 0: never */
    bool fell;
} load_log;

static void on_load(void *user, const sl_progress *p)
{
    load_log *l = user;
    if (p->phase != SL_PHASE_LOAD || p->done_bytes < l->last || p->done_bytes > p->total_bytes) l->fell = true;
    l->last = p->done_bytes;
    l->total = p->total_bytes;
    if (++l->n == l->cancel_at) l->cancel = true;
}

static void test_load(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    large_world(&w);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency_plan p = plan_of(&opt, UINT64_MAX);
    sl_residency *r = NULL;
    ok(sl_residency_open(&r, &opt, p.full_bytes, &late.io, NULL, &last_err));
    load_log log = {.cancel = true};
    assert_int_equal(sl_residency_load(r, &log.cancel, on_load, &log, &last_err), SL_ERR_CANCELED);
    assert_int_equal(log.n, 0);
    assert_int_equal(late.n_flight, 0);
    misuse(sl_residency_begin(r, NULL, 0, false, &last_err), "before");

    log = (load_log){0};
    ok(sl_residency_load(r, &log.cancel, on_load, &log, &last_err));
    assert_true(log.n >= 1);
    assert_false(log.fell);
    assert_int_equal(log.last, p.resident_bytes);
    assert_int_equal(log.total, p.resident_bytes);
    assert_true(late.max_flight >= 4);
    /* every byte once: tensors lie back to back, so the file from the first page on */
    assert_in_range(late.io.bytes_read, w.file_bytes[0] - PAGE, w.file_bytes[0]);

    uint64_t loaded = late.io.bytes_read;
    uint32_t seq[6], n = in_order(&w, seq);
    for (int i = 0; i < 2; i++)
        sweep(r, &w, seq, n, true);
    assert_int_equal(late.io.bytes_read, loaded); /* nothing is read after load */
    sl_residency_stats s;
    sl_residency_get_stats(r, &s);
    assert_int_equal(s.hits, 12);
    assert_int_equal(s.misses, 0);
    assert_true(s.wait_s == 0);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* A load that takes longer than the time between two reports is reported on the way, and can be stopped there. */
static sl_status slow_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    usleep(15000);
    return late_wait(io, req, err);
}

/* Nothing is read by load(); the first sweep reads every byte once, computing begins long before the last, and the order is
 * that of use. */
static void test_load_late(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    large_world(&w);
    sl_residency_options opt = world_options(&w, PAGE);
    opt.load_late = true;
    for (uint64_t share = 0; share <= 2; share++) { /* little stays, half, all */
        late_open(&late, &w, PAGE);
        sl_residency *r = NULL;
        uint64_t avail = budget_at(&opt, share, 2);
        sl_residency_plan p = plan_of(&opt, avail);
        ok(sl_residency_open(&r, &opt, avail, &late.io, NULL, &last_err));
        load_log log = {0};
        ok(sl_residency_load(r, &log.cancel, on_load, &log, &last_err));
        assert_int_equal(late.n_read, 0);
        uint32_t seq[6], n = in_order(&w, seq);
        sl_matrix views[MAX_ROWS];
        ok(sl_residency_begin(r, seq, n, false, &last_err));
        for (uint32_t i = 0; i < n; i++) {
            ok(sl_residency_acquire(r, i, views, &last_err));
            if (i == 0) assert_true(late.n_flight > 0 && late.io.bytes_read < w.file_bytes[0] / 2); /* the rest is coming */
            assert_true(world_check_views(&w, i, views));
            sl_residency_release(r, i);
        }
        sl_residency_end(r);
        assert_int_equal(late.n_flight, 0);
        sl_residency_stats s;
        sl_residency_get_stats(r, &s);
        assert_int_equal(s.resident_bytes, p.resident_bytes);
        if (p.resident_bytes) assert_int_equal(log.last, p.resident_bytes);
        assert_in_range(late.io.bytes_read, w.file_bytes[0] - PAGE, w.file_bytes[0] + n * 3 * PAGE); /* shared pages twice */
        uint64_t before = late.io.bytes_read;
        sweep(r, &w, seq, n, false);
        assert_in_range(late.io.bytes_read - before, p.stream_bytes - (p.stream_bytes ? PAGE : 0), p.stream_bytes);
        sl_residency_close(r);
        assert_int_equal(late.n_wrong, 0);
    }
}

static void test_cancel_while_loading(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    static const sl_io_ops slow = {.submit = late_submit, .wait = slow_wait, .poll = late_poll};
    even_world(&w, 1, 25 * 1024); /* 100 MiB: 25 pieces */
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    late.io.ops = &slow;
    sl_residency *r = NULL;
    ok(sl_residency_open(&r, &opt, 101 * MIB, &late.io, NULL, &last_err));
    load_log log = {.cancel_at = 1};
    assert_int_equal(sl_residency_load(r, &log.cancel, on_load, &log, &last_err), SL_ERR_CANCELED);
    assert_int_equal(log.n, 1);
    assert_true(log.last > 0 && log.last < 100 * MIB);
    assert_int_equal(log.total, 100 * MIB);
    assert_int_equal(late.n_flight, 0);
    assert_true(late.n_read < 25);
    sl_residency_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_step_by_step),
        cmocka_unit_test(test_soonest_unit_gets_the_window),
        cmocka_unit_test(test_drive),
        cmocka_unit_test(test_changed_sequence_waits_for_memory),
        cmocka_unit_test(test_several_held),
        cmocka_unit_test(test_lru_and_fifo),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_refusal_has_the_sum),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_load_late),
        cmocka_unit_test(test_cancel_while_loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
