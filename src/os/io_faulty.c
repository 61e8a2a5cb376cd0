/* Reading that goes wrong on purpose, around any other method: for tests of everything above. */
#include "os/io_int.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    sl_io io;
    sl_io_ops ops; /* without view and advise when the real method has none */
    sl_io *real;   /* owned */
    sl_io_faults *faults;
    uint64_t rng;
} faulty_io;

/* xorshift64 (Marsaglia 2003); never zero. */
static uint64_t next_random(faulty_io *f)
{
    f->rng ^= f->rng << 13;
    f->rng ^= f->rng >> 7;
    f->rng ^= f->rng << 17;
    return f->rng;
}

static void copy_counters(faulty_io *f)
{
    f->io.bytes_read = __atomic_load_n(&f->real->bytes_read, __ATOMIC_RELAXED);
    f->io.reads = __atomic_load_n(&f->real->reads, __ATOMIC_RELAXED);
    f->io.n_need = __atomic_load_n(&f->real->n_need, __ATOMIC_RELAXED);
    f->io.n_drop = __atomic_load_n(&f->real->n_drop, __ATOMIC_RELAXED);
}

/* A request that is done before it began: every method's wait() reports what stands in it. */
static void finish_with(sl_io_req *r, int os_errno)
{
    sl_io_begin(r);
    r->os_errno = os_errno;
    __atomic_store_n(&r->state, SL_REQ_DONE, __ATOMIC_RELEASE);
}

/* Reads for real, then spoils the second half, so that whoever uses it anyway is seen. */
static sl_status come_back_short(faulty_io *f, sl_io_req *r, sl_err *err)
{
    sl_status rc = sl_io_submit(f->real, &r, 1, err);
    if (rc == SL_OK) rc = sl_io_wait(f->real, r, err);
    if (rc != SL_OK) return rc;
    memset((uint8_t *)r->dst + r->bytes / 2, 0xEE, r->bytes - r->bytes / 2);
    finish_with(r, -1);
    return SL_OK;
}

static sl_status faulty_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    faulty_io *f = (faulty_io *)io;
    sl_status rc = SL_OK;
    for (size_t i = 0; i < n && rc == SL_OK; i++) {
        sl_io_req *r = reqs[i];
        int64_t call = ++f->faults->calls;
        if (call == f->faults->fail_at)
            finish_with(r, EIO);
        else if (call == f->faults->short_at)
            rc = come_back_short(f, r, err);
        else
            rc = sl_io_submit(f->real, &reqs[i], 1, err);
    }
    copy_counters(f);
    return rc;
}

static sl_status faulty_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    faulty_io *f = (faulty_io *)io;
    uint32_t most = f->faults->delay_max_us;
    if (most) usleep((useconds_t)(next_random(f) % ((uint64_t)most + 1)));
    sl_status rc = sl_io_wait(f->real, req, err);
    copy_counters(f);
    return rc;
}

/* Held back means that now and then a finished read is not seen yet. */
static bool faulty_poll(sl_io *io, sl_io_req *req)
{
    faulty_io *f = (faulty_io *)io;
    if (f->faults->delay_max_us && next_random(f) & 1) return false;
    return f->real->ops->poll(f->real, req);
}

static void faulty_drop(sl_io *io, sl_io_req *req)
{
    sl_io_drop(((faulty_io *)io)->real, req);
}

static void faulty_hurry(sl_io *io, sl_io_req *req)
{
    sl_io_hurry(((faulty_io *)io)->real, req);
}

static const uint8_t *faulty_view(sl_io *io, uint32_t file, uint64_t offset, uint64_t bytes)
{
    faulty_io *f = (faulty_io *)io;
    return f->real->ops->view(f->real, file, offset, bytes);
}

static void faulty_advise(sl_io *io, uint32_t file, uint64_t offset, uint64_t bytes, bool need)
{
    faulty_io *f = (faulty_io *)io;
    f->real->ops->advise(f->real, file, offset, bytes, need);
    copy_counters(f);
}

static void faulty_close(sl_io *io)
{
    faulty_io *f = (faulty_io *)io;
    sl_io_close(f->real);
    sl_free(f);
}

sl_status sl_io_open_faulty(sl_io **out, sl_io *real, sl_io_faults *faults, sl_err *err)
{
    faulty_io *f = sl_calloc(1, sizeof *f);
    if (!f) {
        sl_io_close(real);
        return sl_fail(err, SL_ERR_NOMEM, "no memory for faulty reading");
    }
    f->ops = (sl_io_ops){.submit = faulty_submit,
                         .wait = faulty_wait,
                         .poll = faulty_poll,
                         .drop = faulty_drop,
                         .hurry = faulty_hurry,
                         .view = real->ops->view ? faulty_view : NULL,
                         .advise = real->ops->advise ? faulty_advise : NULL,
                         .close = faulty_close};
    f->io = *real;
    f->io.ops = &f->ops;
    f->io.name = "faulty";
    f->real = real;
    f->faults = faults;
    f->rng = faults->seed * 2 + 1;
    *out = &f->io;
    return SL_OK;
}
