/* The cache of routed experts when things fail: every read, submission and allocation once; cancels; real readers with
 * faults.  After any of them the next request is right. */
#include "experts_world.h"

static xworld w;
static late_io late;

static const sl_experts_path paths[] = {SL_EXPERTS_EXACT, SL_EXPERTS_STAGED, SL_EXPERTS_HOT, SL_EXPERTS_LAYER};

/* A life with at most one failure; what failed is done again. */
static sl_status life(const sl_experts_options *opt, uint64_t avail, sl_io *io, sl_ledger *ledger, sl_status expect)
{
    sl_experts *x = NULL;
    sl_status rc, seen = SL_OK;
    sl_err err = {0};
#define TRY(call)                                                                                                      \
    while ((rc = (call)) != SL_OK) {                                                                                   \
        assert_true(rc == expect && err.msg[0]);                                                                       \
        assert_int_equal(seen, SL_OK);                                                                                 \
        seen = rc;                                                                                                     \
    }
    TRY(sl_experts_open(&x, opt, avail, io, ledger, &err))
    TRY(sl_experts_load(x, NULL, NULL, NULL, &err))
    for (int i = 0; i < 3; i++) TRY(xw_decode(&w, x, 3, (uint64_t)i, &err))
#undef TRY
    sl_experts_stats st;
    sl_experts_get_stats(x, &st);
    assert_true(st.failed <= 1);
    if (st.failed) seen = expect; /* of something that was read ahead: nobody is told */
    sl_experts_close(x);
    return seen;
}

static void walk(const sl_experts_options *opt, uint64_t avail, bool of_submit)
{
    for (uint64_t at = 1;; at += 1 + at / 8) {
        sl_ledger ledger;
        sl_ledger_init(&ledger, avail);
        uint64_t live = sl_alloc_live_bytes();
        late_open(&late, &w.w, opt->align);
        if (of_submit)
            late.fail_submit = at;
        else
            late.fail_read = at;
        sl_status rc = life(opt, avail, &late.io, &ledger, of_submit ? SL_ERR_NOMEM : SL_ERR_IO);
        assert_int_equal(late.n_wrong, 0);
        assert_int_equal(late.n_flight, 0);
        assert_int_equal(ledger.total, 0);
        assert_int_equal(sl_alloc_live_bytes(), live);
        bool reached = (of_submit ? late.n_submit : late.n_read) >= at;
        assert_true(reached || rc == SL_OK);
        if (!reached) return;
    }
}

static void test_every_read_and_submission_fails_once(void **state)
{
    (void)state;
    xw_mixed(&w);
    for (size_t p = 0; p < 4; p++)
        for (uint32_t n_slot = 2; n_slot <= 92; n_slot += 45) {
            sl_experts_options opt = xw_options(&w, PAGE);
            opt.how.path = paths[p];
            opt.how.predict = p % 2 ? SL_PREDICT_HISTORY : SL_PREDICT_LOOKAHEAD;
            opt.how.prefetch_always = true;
            uint64_t avail = xw_bytes(&opt, n_slot);
            walk(&opt, avail, false);
            walk(&opt, avail, true);
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
    xw_mixed(&w);
    sl_experts_options opt = xw_options(&w, PAGE);
    uint64_t avail = xw_bytes(&opt, 30);
    for (int at = 1;; at++) {
        sl_ledger ledger;
        sl_ledger_init(&ledger, avail);
        late_open(&late, &w.w, PAGE);
        uint64_t live = sl_alloc_live_bytes();
        int left = at;
        sl_alloc_set_hook(fail_nth, &left);
        sl_status rc = life(&opt, avail, &late.io, &ledger, SL_ERR_NOMEM);
        sl_alloc_set_hook(NULL, NULL);
        assert_int_equal(sl_alloc_live_bytes(), live);
        assert_int_equal(ledger.total, 0);
        if (rc == SL_OK) {
            assert_true(at > 4);
            assert_true(left > 0); /* and nothing was allocated that could have failed later */
            break;
        }
    }
}

static void test_nothing_is_allocated_between_tokens(void **state)
{
    (void)state;
    xw_mixed(&w);
    sl_experts_options opt = xw_options(&w, PAGE);
    opt.how.predict = SL_PREDICT_HISTORY;
    late_open(&late, &w.w, PAGE);
    sl_experts *x = xw_open(&opt, xw_bytes(&opt, 30), &late.io, NULL);
    int left = 1;
    sl_alloc_set_hook(fail_nth, &left);
    sl_status rc = xw_decode(&w, x, 20, 1, &last_err);
    sl_alloc_set_hook(NULL, NULL);
    ok(rc);
    assert_int_equal(left, 1);
    sl_experts_close(x);
}

static void test_a_failed_read_names_file_tensor_and_expert(void **state)
{
    (void)state;
    static files f;
    xw_even(&w, 3, 16);
    files_write(&f, &w.w);
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (readers[i].views || readers[i].memory) continue;
        for (int64_t at = 1; at <= 6; at++)
            for (int is_short = 0; is_short < 2; is_short++) {
                sl_io *io = NULL;
                sl_io_faults faults = {0};
                reader kind = readers[i];
                kind.faulty = true;
                if (is_short)
                    faults.short_at = at;
                else
                    faults.fail_at = at;
                sl_status rc = reader_open(&io, &kind, &f, &w.w, &faults);
                if (rc == SL_ERR_UNSUPPORTED) continue;
                ok(rc);
                sl_experts_options opt = xw_options(&w, io->align);
                sl_experts *x = xw_open(&opt, xw_bytes(&opt, 20), io, NULL);
                const uint32_t ids[] = {4, 11};
                sl_err err = {0};
                assert_int_equal(xw_run(&w, x, 1, ids, 2, 2, &err), SL_ERR_IO);
                char expert[32], tensor[48];
                snprintf(expert, sizeof expert, "layer 1, expert %u,", at <= 3 ? 4 : 11);
                snprintf(tensor, sizeof tensor, "tensor \"%s\"", w.layers[1].piece[(at - 1) % 3].stack->name);
                if (!strstr(err.msg, expert) || !strstr(err.msg, tensor) || !strstr(err.msg, "sluice-stream"))
                    fail_msg("\"%s\" does not name %s and %s", err.msg, expert, tensor);
                if (!is_short) assert_int_equal(err.os_errno, EIO);
                ok(xw_run(&w, x, 1, ids, 2, 2, &last_err));
                ok(xw_decode(&w, x, 5, 9, &last_err));
                sl_experts_close(x);
                sl_io_close(io);
            }
    }
    files_remove(&f);
}

static void test_a_cancel_ends_the_request_and_the_next_is_right(void **state)
{
    (void)state;
    static files f;
    xw_even(&w, 4, 24);
    files_write(&f, &w.w);
    uint32_t all[24], n_canceled = 0;
    for (uint32_t i = 0; i < 24; i++) all[i] = i;
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        sl_io *io = NULL;
        sl_io_faults faults = {.delay_max_us = 200, .seed = 3};
        volatile bool cancel = false;
        sl_status rc = reader_open(&io, &readers[i], &f, &w.w, &faults);
        if (rc == SL_ERR_UNSUPPORTED) continue;
        ok(rc);
        sl_experts_options opt = xw_options(&w, io->align);
        opt.views = readers[i].views;
        sl_experts *x = xw_open(&opt, xw_bytes(&opt, 30), io, NULL);
        io->cancel = &cancel;
        for (int t = 0; t < 6; t++) {
            sl_err err = {0};
            cancel = true;
            rc = xw_run(&w, x, (uint32_t)t % 4, all, 24, 24, &err);
            assert_true(rc == SL_OK || (rc == SL_ERR_CANCELED && err.msg[0])); /* some readers are faster */
            n_canceled += rc == SL_ERR_CANCELED;
            cancel = false;
            ok(xw_run(&w, x, (uint32_t)t % 4, all, 24, 24, &last_err));
        }
        io->cancel = NULL;
        sl_experts_stats st;
        sl_experts_get_stats(x, &st);
        assert_int_equal(st.failed, 0);
        sl_experts_close(x);
        sl_io_close(io);
    }
    assert_true(n_canceled > 0);
    files_remove(&f);
}

static void test_loading_everything_can_be_canceled_and_done_again(void **state)
{
    (void)state;
    xw_mixed(&w);
    sl_experts_options opt = xw_options(&w, PAGE);
    sl_experts *x = NULL;
    const volatile bool yes = true;
    late_open(&late, &w.w, PAGE);
    ok(sl_experts_open(&x, &opt, UINT64_MAX / 4, &late.io, NULL, &last_err));
    assert_int_equal(sl_experts_load(x, &yes, NULL, NULL, &last_err), SL_ERR_CANCELED);
    ok(sl_experts_load(x, NULL, NULL, NULL, &last_err));
    ok(xw_decode(&w, x, 3, 1, &last_err));
    sl_experts_close(x);
    assert_int_equal(late.n_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_read_and_submission_fails_once),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_nothing_is_allocated_between_tokens),
        cmocka_unit_test(test_a_failed_read_names_file_tensor_and_expert),
        cmocka_unit_test(test_a_cancel_ends_the_request_and_the_next_is_right),
        cmocka_unit_test(test_loading_everything_can_be_canceled_and_done_again),
    };
    return cmocka_run_group_tests_name("experts, faults", tests, NULL, NULL);
}
