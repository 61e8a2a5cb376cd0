/* Pages of a block, made resident at once or by a thread.
 *
 * A page costs the kernel its zeroing, and on a virtual machine perhaps a page of the host: gigabytes take seconds.  The
 * thread lets that pass beside the first reads and computing.  It only ever runs ahead of them: who touches a page that it
 * has not reached gets it then.  A page that can't be had is left to that touch too. */
#include "os/mem_int.h"

#include "base/base.h"
#include "os/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum {
    STEP_BYTES = 8 << 20, /* stopping waits for one of them */
    STACK_BYTES = 256 << 10,
};

struct sl_filler {
    pthread_t thread;
    uint8_t *p;
    size_t bytes;
    atomic_bool stop;
    bool running; /* there is a thread */
};

bool sl_populate(uint8_t *p, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    int rc;
    do
        rc = madvise(p, bytes, MADV_POPULATE_WRITE);
    while (rc != 0 && (errno == EINTR || errno == EAGAIN));
    if (rc == 0) return true;
    if (errno != EINVAL) return false; /* EINVAL: a kernel before 5.14 */
#endif
    for (size_t i = 0; i < bytes; i += 4096)
        __atomic_fetch_or(p + i, 0, __ATOMIC_RELAXED); /* a write that may race with a real one */
    return true;
}

static void *fill(void *arg)
{
    sl_filler *f = arg;
    for (size_t at = 0; at < f->bytes && !atomic_load(&f->stop); at += STEP_BYTES)
        if (!sl_populate(f->p + at, f->bytes - at < STEP_BYTES ? f->bytes - at : STEP_BYTES)) break;
    return NULL;
}

sl_filler *sl_filler_start(uint8_t *p, size_t bytes)
{
    sl_filler *f = sl_calloc(1, sizeof *f);
    if (!f) return NULL;
    f->p = p;
    f->bytes = bytes;
    f->running = sl_thread_start(&f->thread, STACK_BYTES, fill, f) == 0;
    if (!f->running) fill(f);
    return f;
}

void sl_filler_wait(sl_filler *f)
{
    if (!f) return;
    if (f->running) pthread_join(f->thread, NULL);
    sl_free(f);
}

void sl_filler_stop(sl_filler *f)
{
    if (f) atomic_store(&f->stop, true);
    sl_filler_wait(f);
}
