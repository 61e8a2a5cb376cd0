/* Every read, submission and allocation fails once in turn: the step can be repeated, bytes stay right, nothing leaks.
 */
#include "stream_late.h"

/* Everything a user of the room does; each step may fail once and is then done again. */
static sl_status life(const world *w, const sl_residency_options *opt, uint64_t avail, sl_io *io, sl_ledger *ledger,
                      sl_status expect)
{
    sl_residency *r = NULL;
    sl_matrix views[MAX_ROWS];
    sl_status rc, seen = SL_OK;
    sl_err err = {0};
    uint32_t seq[WORLD_UNITS], n = in_order(w, seq);
    static uint8_t row[8 * 1024];
    const int32_t id = (int32_t)w->table->dims[0] - 1;
    const uint64_t row_bytes = w->table->size_bytes / w->table->dims[0],
                   row_at = w->table->offset_bytes + id * row_bytes;
#define TRY(call)                                                                                                      \
    while ((rc = (call)) != SL_OK) {                                                                                   \
        assert_true(rc == expect && err.msg[0]);                                                                       \
        assert_int_equal(seen, SL_OK);                                                                                 \
        seen = rc;                                                                                                     \
    }
    TRY(sl_residency_open(&r, opt, avail, io, ledger, &err))
    TRY(sl_residency_load(r, NULL, NULL, NULL, &err))
    for (int s = 0; s < 2; s++) {
        TRY(sl_residency_begin(r, seq, n, true, &err))
        memset(row, 0, sizeof row);
        TRY(sl_residency_table_rows(r, &id, 1, row, &err))
        assert_int_equal(world_compare(row, w->table->file, row_at, row_bytes), row_bytes);
        for (uint32_t i = 0; i < n; i++) {
            while ((rc = sl_residency_acquire(r, i, views, &err)) != SL_OK) {
                assert_true(rc == expect && err.msg[0] && seen == SL_OK);
                assert_int_equal(sl_residency_pinned_count(r), 0);
                seen = rc;
            }
            assert_true(world_check_views(w, seq[i], views));
            sl_residency_release(r, i);
        }
        sl_residency_end(r);
    }
#undef TRY
    sl_residency_stats st;
    sl_residency_get_stats(r, &st);
    if (st.failed) seen = expect; /* a read ahead for a third sweep that nobody asked for */
    sl_residency_close(r);
    return seen;
}

static void walk_failures(const world *w, const sl_residency_options *opt, uint64_t avail, bool of_submit)
{
    static late_io late;
    for (uint64_t at = 1;; at++) {
        sl_ledger ledger;
        sl_ledger_init(&ledger, avail);
        uint64_t live = sl_alloc_live_bytes();
        late_open(&late, w, opt->align);
        if (of_submit)
            late.fail_submit = at;
        else
            late.fail_read = at;
        life(w, opt, avail, &late.io, &ledger, of_submit ? SL_ERR_NOMEM : SL_ERR_IO);
        assert_int_equal(late.n_wrong, 0);
        assert_int_equal(late.n_flight, 0);
        assert_int_equal(ledger.total, 0);
        assert_int_equal(sl_alloc_live_bytes(), live);
        if ((of_submit ? late.n_submit : late.n_read) < at) break; /* the failure lay beyond the end */
    }
}

static void test_every_read_and_submission_fails_once(void **state)
{
    (void)state;
    static world w;
    for (uint64_t seed = 200; seed < 203; seed++) {
        world_make(&w, seed);
        sl_residency_options opt = world_options(&w, aligns[seed % 3]);
        for (size_t k = 0; k < 3; k++) {
            opt.policy = policies[k];
            uint64_t avail = budget_at(&opt, 1 + seed % 2, 3);
            for (int late = 0; late < 2; late++) {
                opt.load_late = late;
                walk_failures(&w, &opt, avail, false);
                walk_failures(&w, &opt, avail, true);
            }
        }
    }
}

static bool fail_nth(void *user)
{
    int *left = user;
    return --*left == 0;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    world_make(&w, 210);
    for (int round = 0; round < 3; round++) {
        bool views = round == 1;
        files f;
        files_write(&f, &w);
        sl_io *memory = NULL;
        ok(sl_io_open_memory(&memory, (const uint8_t *const *)f.data, w.file_bytes, f.n, &last_err));
        sl_residency_options opt = world_options(&w, PAGE);
        opt.views = views;
        opt.load_late = round == 2;
        uint64_t avail = budget_at(&opt, 1, 2), live = sl_alloc_live_bytes();
        for (int at = 1;; at++) {
            sl_ledger ledger;
            sl_ledger_init(&ledger, avail);
            late_open(&late, &w, PAGE);
            int left = at;
            sl_alloc_set_hook(fail_nth, &left);
            sl_status rc = life(&w, &opt, avail, views ? memory : &late.io, &ledger, SL_ERR_NOMEM);
            sl_alloc_set_hook(NULL, NULL);
            assert_int_equal(sl_alloc_live_bytes(), live);
            assert_int_equal(ledger.total, 0);
            assert_int_equal(late.n_flight, 0);
            if (rc == SL_OK) {
                assert_true(at > (views ? 10 : 12));
                break;
            }
        }
        sl_io_close(memory);
        files_remove(&f);
    }
}

/* A drive that stays broken: every attempt is an error, the rest goes on working. */
static void test_lasting_failure(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    world_begin(&w, 2);
    for (uint32_t i = 0; i < 6; i++) {
        const sl_tensor *t = world_tensor(&w, i == 3, 0, SL_F32, 1024, 64);
        world_unit(&w);
        world_rows(&w, t, 1024, 0, 64);
    }
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 1, 2), &late.io, NULL);
    late.broken_file = 2;
    const uint32_t seq[] = {2, 3, 4};
    sl_matrix m[1];
    for (int s = 0; s < 3; s++) {
        ok(sl_residency_begin(r, seq, 3, true, &last_err));
        ok(sl_residency_acquire(r, 0, m, &last_err));
        sl_residency_release(r, 0);
        for (int k = 0; k < 3; k++)
            assert_int_equal(sl_residency_acquire(r, 1, m, &last_err), SL_ERR_IO);
        assert_non_null(strstr(last_err.msg, "file 1"));
        assert_int_equal(sl_residency_pinned_count(r), 0);
        sl_residency_end(r);
    }
    const uint32_t healthy[] = {0, 1, 2, 4, 5};
    sweep(r, &w, healthy, 5, true);
    late.broken_file = 0;
    sweep(r, &w, seq, 3, false);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
    assert_int_equal(late.n_flight, 0);
}

/* The project's own faulty reader over real files: one error or one short read at each place in turn. */
static void test_faulty_reader(void **state)
{
    (void)state;
    static world w;
    files f;
    world_make(&w, 220);
    files_write(&f, &w);
    const reader kind = {SL_IO_PREAD, false, false, true};
    for (int shorts = 0; shorts < 2; shorts++) {
        for (int64_t at = 1;; at += 1 + at / 8) {
            sl_io_faults faults = {.delay_max_us = 50, .seed = (uint64_t)at};
            *(shorts ? &faults.short_at : &faults.fail_at) = at;
            sl_io *io = NULL;
            ok(reader_open(&io, &kind, &f, &w, &faults));
            sl_residency_options opt = world_options(&w, io->align);
            opt.load_late = at % 2;
            life(&w, &opt, budget_at(&opt, 1, 2), io, NULL, SL_ERR_IO);
            sl_io_close(io);
            if (faults.calls < at) break;
        }
    }
    files_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_read_and_submission_fails_once),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_lasting_failure),
        cmocka_unit_test(test_faulty_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
