/* Compute threads.  A job of n_thread shares is announced by raising `generation`; whoever is awake claims shares one
 * by one, the caller too, and the caller waits until none is `n_left`.  So a thread that another program keeps from its
 * core holds up nothing that it had not begun: the caller does that share itself.
 *
 * `next` holds the generation and the first share not yet claimed in one word.  A claim is a compare-and-swap on it, so
 * a thread that wakes late can only claim of the job that is open; fn and arg are read after the claim, and cannot
 * change before the claimed share is done.
 *
 * Whoever waits goes through three phases: pause instructions for a few microseconds (the usual gap between two steps
 * of a token), yields until about 50 us (a quota or another program may need the core), then a futex.  Sleepers
 * register before the kernel compares the word, and wakers change the word before they look for sleepers; both with
 * sequentially consistent operations, so one of the two always sees the other.
 *
 * Left out: affinity (the scheduler knows the quota better), nested jobs, jobs from two callers at once. */
#include "os/pool.h"

#include "os/os.h"
#include "os/thread.h"

#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_THREADS 1024
#define STACK_BYTES ((size_t)1 << 20) /* address space; kernels touch a few pages of it */
#define N_PAUSE     200               /* 5 to 15 us, by CPU */
#define N_YIELD     200               /* 30 to 80 us when nobody else wants the core */


struct sl_pool {
    uint32_t n_thread; /* with the caller */
    uint32_t n_started;
    uint32_t n_pause; /* 0 when there are more threads than cores: spinning would only keep the others away */
    pthread_t *workers; /* [n_thread - 1] */

    /* The job, written before next is set (release) and read after a claim (acquire). */
    sl_pool_fn fn;
    void *arg;
    atomic_bool stop;

    /* A cache line per word, or waiting on one would slow arrivals at the other down. */
    char pad0[64];
    atomic_uint generation;
    char pad1[64];
    _Atomic uint64_t next; /* generation << 32 | share */
    char pad3[64];
    atomic_uint n_left;
    char pad2[64];
    atomic_uint n_asleep; /* workers in or near the futex */
    atomic_uint caller_asleep;
};

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Phases one and two: true as soon as *word differs from seen (or equals it, when want_equal). */
static bool spin(const sl_pool *p, atomic_uint *word, unsigned value, bool want_equal)
{
    for (uint32_t i = 0; i < p->n_pause + N_YIELD; i++) {
        if ((atomic_load_explicit(word, memory_order_acquire) == value) == want_equal) return true;
        if (i < p->n_pause)
            cpu_pause();
        else
            sched_yield();
    }
    return false;
}

static void await_job(sl_pool *p, unsigned seen)
{
    if (spin(p, &p->generation, seen, false)) return;
    atomic_fetch_add(&p->n_asleep, 1);
    while (atomic_load(&p->generation) == seen)
        futex_wait(&p->generation, seen);
    atomic_fetch_sub(&p->n_asleep, 1);
}

/* The next share of the open job that nobody has begun. */
static bool claim(sl_pool *p, uint32_t *i_share)
{
    uint64_t next = atomic_load_explicit(&p->next, memory_order_acquire);
    while ((uint32_t)next < p->n_thread)
        if (atomic_compare_exchange_weak_explicit(&p->next, &next, next + 1, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *i_share = (uint32_t)next;
            return true;
        }
    return false;
}

static void work(sl_pool *p)
{
    for (uint32_t i; claim(p, &i);) {
        p->fn(p->arg, i, p->n_thread);
        if (atomic_fetch_sub(&p->n_left, 1) == 1 && atomic_load(&p->caller_asleep)) futex_wake_all(&p->n_left);
    }
}

static void *worker_main(void *arg)
{
    sl_pool *p = arg;
    for (unsigned seen = 0;;) {
        await_job(p, seen);
        seen = atomic_load(&p->generation); /* before stop and the claims: nothing announced after them is missed */
        if (atomic_load(&p->stop)) return NULL;
        work(p);
    }
}

static void announce(sl_pool *p)
{
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->n_asleep)) futex_wake_all(&p->generation);
}

static void await_workers(sl_pool *p)
{
    if (spin(p, &p->n_left, 0, true)) return;
    atomic_store(&p->caller_asleep, 1);
    for (unsigned left; (left = atomic_load(&p->n_left)) != 0;)
        futex_wait(&p->n_left, left);
    atomic_store(&p->caller_asleep, 0);
}

void sl_pool_run(sl_pool *p, sl_pool_fn fn, void *arg)
{
    if (p->n_thread == 1) {
        fn(arg, 0, 1);
        return;
    }
    unsigned generation = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
    p->fn = fn;
    p->arg = arg;
    atomic_store_explicit(&p->n_left, p->n_thread - 1, memory_order_relaxed);
    atomic_store_explicit(&p->next, (uint64_t)generation << 32 | 1, memory_order_release);
    announce(p);
    fn(arg, 0, p->n_thread);
    work(p);
    await_workers(p);
}

static int start_workers(sl_pool *p)
{
    int rc = 0;
    for (uint32_t i = 0; i + 1 < p->n_thread && !rc; i++) {
        rc = sl_thread_start(&p->workers[i], STACK_BYTES, worker_main, p);
        p->n_started += !rc;
    }
    return rc;
}

sl_status sl_pool_open(sl_pool **out, uint32_t n_thread, sl_err *err)
{
    if (n_thread == 0 || n_thread > MAX_THREADS)
        return sl_fail(err, SL_ERR_ARG, "thread count %u is outside 1..%u", n_thread, MAX_THREADS);
    sl_pool *p = sl_calloc(1, sizeof *p);
    pthread_t *workers = sl_calloc(n_thread, sizeof *workers);
    if (!p || !workers) {
        sl_free(p);
        sl_free(workers);
        return sl_fail(err, SL_ERR_NOMEM, "no memory for a pool of %u threads", n_thread);
    }
    p->n_thread = n_thread;
    atomic_store(&p->next, n_thread); /* nothing to claim */
    p->workers = workers;
    p->n_pause = n_thread > sl_cpu_count() ? 0 : N_PAUSE;
    int rc = start_workers(p);
    if (rc) {
        sl_pool_close(p);
        return sl_fail_os(err, rc, "thread %u of %u cannot be started", p->n_started + 1, n_thread);
    }
    *out = p;
    return SL_OK;
}

void sl_pool_close(sl_pool *p)
{
    if (!p) return;
    atomic_store(&p->stop, true);
    announce(p);
    for (uint32_t i = 0; i < p->n_started; i++)
        pthread_join(p->workers[i], NULL);
    sl_free(p->workers);
    sl_free(p);
}

uint32_t sl_pool_count(const sl_pool *p)
{
    return p->n_thread;
}
