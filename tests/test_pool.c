/* Compute threads: every thread runs every job once, what was written before is seen after, and closing always ends. */
#include "os/pool.h"

#include "os/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    uint32_t n_thread;
    uint64_t calls[64];  /* per thread; plain memory on purpose: the pool must order it */
    uint64_t input;      /* written by the caller before each job */
    uint64_t output[64]; /* read by the caller after it */
    bool bad;
} job;

static void count(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    job *j = arg;
    if (n_thread != j->n_thread || i_thread >= n_thread) j->bad = true;
    j->calls[i_thread]++;
    j->output[i_thread] = j->input * 3 + i_thread;
}

static void every_thread_runs_every_job(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 8; n++) {
        sl_pool *p;
        sl_err err = {0};
        job j = {.n_thread = n};
        assert_int_equal(sl_pool_open(&p, n, &err), SL_OK);
        assert_int_equal(sl_pool_count(p), n);
        for (uint64_t k = 1; k <= 2000; k++) {
            j.input = k;
            sl_pool_run(p, count, &j);
            for (uint32_t i = 0; i < n; i++)
                if (j.calls[i] != k || j.output[i] != k * 3 + i) fail_msg("job %d, thread %u of %u", (int)k, i, n);
        }
        assert_false(j.bad);
        sl_pool_close(p);
    }
}

/* One thread's result is another's input in the next job. */
static void pass_on(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    uint64_t(*v)[64] = arg;
    uint64_t round = v[0][63];
    v[(round + 1) & 1][i_thread] = v[round & 1][(i_thread + 1) % n_thread] + 1;
}

static void results_travel_between_threads(void **state)
{
    (void)state;
    enum { N = 5, ROUNDS = 3000 };
    static uint64_t v[2][64];
    sl_pool *p;
    assert_int_equal(sl_pool_open(&p, N, NULL), SL_OK);
    for (uint64_t r = 0; r < ROUNDS; r++) {
        v[0][63] = r;
        sl_pool_run(p, pass_on, v);
    }
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(v[ROUNDS & 1][i], ROUNDS);
    sl_pool_close(p);
}

static void sleep_a_little(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    (void)n_thread;
    usleep(i_thread * 700);
    count(arg, i_thread, n_thread);
}

static void sleeping_threads_wake_up(void **state)
{
    (void)state;
    sl_pool *p;
    job j = {.n_thread = 4};
    assert_int_equal(sl_pool_open(&p, 4, NULL), SL_OK);
    for (uint64_t k = 1; k <= 20; k++) { /* long pauses before jobs and inside them: both sides reach the futex */
        usleep(3000);
        j.input = k;
        sl_pool_run(p, k % 2 ? sleep_a_little : count, &j);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(j.calls[i], k);
    }
    usleep(20000);
    sl_pool_close(p); /* while they sleep */
}

static void pools_close_at_any_time(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        sl_pool *p;
        job j = {.n_thread = 3};
        assert_int_equal(sl_pool_open(&p, 3, NULL), SL_OK);
        if (i % 3) sl_pool_run(p, count, &j);
        if (i % 2) usleep((useconds_t)(i * 5));
        sl_pool_close(p);
    }
    sl_pool_close(NULL);
}

static void idle_threads_use_no_processor(void **state)
{
    (void)state;
    sl_pool *p;
    job j = {.n_thread = 4};
    struct timespec a, b;
    assert_int_equal(sl_pool_open(&p, 4, NULL), SL_OK);
    sl_pool_run(p, count, &j);
    usleep(100000); /* enough for three threads to end their spinning on a busy machine */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    usleep(200000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double used = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
    assert_true(used < 0.1);
    sl_pool_close(p);
}

static void two_pools_live_side_by_side(void **state)
{
    (void)state;
    sl_pool *p, *q;
    job a = {.n_thread = 2}, b = {.n_thread = 3};
    assert_int_equal(sl_pool_open(&p, 2, NULL), SL_OK);
    assert_int_equal(sl_pool_open(&q, 3, NULL), SL_OK);
    for (int i = 0; i < 200; i++) {
        sl_pool_run(p, count, &a);
        sl_pool_run(q, count, &b);
    }
    assert_true(a.calls[1] == 200 && b.calls[2] == 200);
    sl_pool_close(p);
    sl_pool_close(q);
}

static void blocked(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    (void)n_thread;
    sigset_t now;
    if (i_thread == 0) usleep(50000); /* so that the other share goes to the other thread */
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    ((int *)arg)[i_thread] = sigismember(&now, SIGINT);
}

static void signals_stay_with_the_application(void **state)
{
    (void)state;
    sl_pool *p;
    int is_blocked[2] = {-1, -1};
    assert_int_equal(sl_pool_open(&p, 2, NULL), SL_OK);
    sl_pool_run(p, blocked, is_blocked);
    assert_true(is_blocked[0] == 0 && is_blocked[1] == 1);
    sl_pool_close(p);
}

static bool fail_at_zero(void *user)
{
    int *left = user;
    return (*left)-- == 0;
}

static void senseless_counts_and_no_memory_are_refused(void **state)
{
    (void)state;
    sl_pool *p = NULL;
    sl_err err = {0};
    assert_int_equal(sl_pool_open(&p, 0, &err), SL_ERR_ARG);
    assert_int_equal(sl_pool_open(&p, 100000, &err), SL_ERR_ARG);
    assert_non_null(strstr(err.msg, "100000"));
    uint64_t before = sl_alloc_live_bytes();
    for (int n = 0, rc = SL_ERR_NOMEM; rc != SL_OK; n++) {
        int left = n;
        sl_alloc_set_hook(fail_at_zero, &left);
        rc = sl_pool_open(&p, 2, &err);
        sl_alloc_set_hook(NULL, NULL);
        assert_true(rc == SL_OK || (rc == SL_ERR_NOMEM && err.msg[0]));
        if (rc == SL_OK) sl_pool_close(p);
        assert_int_equal(sl_alloc_live_bytes(), before);
        assert_true(n < 20);
    }
}

static void do_nothing(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    (void)arg, (void)i_thread, (void)n_thread;
}

/* A worker may wake for the last job only when the pool is already being closed. */
static void test_closing_right_behind_a_job(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        sl_pool *p;
        assert_int_equal(sl_pool_open(&p, 2 + (uint32_t)i % 3, NULL), SL_OK);
        for (int k = 0; k <= i % 3; k++) sl_pool_run(p, do_nothing, NULL);
        sl_pool_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closing_right_behind_a_job),
        cmocka_unit_test(every_thread_runs_every_job),
        cmocka_unit_test(results_travel_between_threads),
        cmocka_unit_test(sleeping_threads_wake_up),
        cmocka_unit_test(pools_close_at_any_time),
        cmocka_unit_test(idle_threads_use_no_processor),
        cmocka_unit_test(two_pools_live_side_by_side),
        cmocka_unit_test(signals_stay_with_the_application),
        cmocka_unit_test(senseless_counts_and_no_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
