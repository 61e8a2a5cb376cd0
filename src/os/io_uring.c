/* io_uring with direct I/O: up to DEPTH pieces under way, the rest of the requests queued here and submitted as
 * completions come.  DEPTH is for a prompt's long steps: nobody looks at the ring while one runs, and the drive must not
 * run dry meanwhile.  There is no helper thread: submit, wait and poll drive the ring, one thread at a time, and reaping
 * for one request reaps for all.
 *
 * Files are registered when the kernel lets us.  Buffers are not: registration pins memory against RLIMIT_MEMLOCK, and
 * in huge pages the kernel has one page to look up per 2 MiB anyway. */
#include "os/io_int.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <unistd.h>

#define DEPTH     64u
#define ALL_SLOTS UINT64_MAX
#define MAX_BUSY  2000 /* milliseconds that the kernel may answer "busy" before the ring counts as broken */

typedef struct {
    sl_io_base base;
    struct io_uring ring;
    bool ring_open, fixed_files;
    int broken; /* errno of a submission that failed for good: nothing is submitted any more */
    int n_busy;

    sl_io_piece slots[DEPTH]; /* a completion's user_data is its slot */
    uint64_t free_slots;      /* bit per slot */
    uint32_t entered[DEPTH];  /* slots in the submission ring that the kernel has not taken yet, in order */
    uint32_t n_entered;
    sl_io_queue queue;
} uring_io;

/* ---- pieces in and out ---- */

static void complete(uring_io *u, uint32_t i_slot)
{
    sl_io_piece *p = &u->slots[i_slot];
    u->free_slots |= UINT64_C(1) << i_slot;
    if (!sl_io_piece_done(&u->base, p)) return;
    sl_io_unlink(&u->queue, p->req);
    sl_io_publish(&u->base, p->req);
}

static void fail_piece(uring_io *u, uint32_t i_slot)
{
    u->slots[i_slot].os_errno = u->broken;
    complete(u, i_slot);
}

/* Enters what is left of a slot's piece.  The ring has DEPTH entries and no more pieces exist: there is always one. */
static void enter(uring_io *u, uint32_t i_slot)
{
    sl_io_piece *p = &u->slots[i_slot];
    struct io_uring_sqe *sqe = u->broken ? NULL : io_uring_get_sqe(&u->ring);
    if (!sqe) {
        fail_piece(u, i_slot);
        return;
    }
    int fd = u->fixed_files ? (int)p->req->file : u->base.files[p->req->file].fd;
    io_uring_prep_read(sqe, fd, p->dst + p->got_bytes, (unsigned)(p->bytes - p->got_bytes),
                       p->offset_bytes + p->got_bytes);
    if (u->fixed_files) sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, i_slot);
    u->entered[u->n_entered++] = i_slot;
}

/* Cuts pieces from the queue into free slots. */
static void pump(uring_io *u)
{
    while (u->free_slots) {
        uint32_t i = (uint32_t)__builtin_ctzll(u->free_slots);
        if (!sl_io_next_piece(&u->base, &u->queue, &u->slots[i])) return;
        u->free_slots &= ~(UINT64_C(1) << i);
        enter(u, i);
    }
}

/* The kernel took the first n entered slots. */
static void forget_entered(uring_io *u, uint32_t n)
{
    if (n > u->n_entered) n = u->n_entered;
    u->n_entered -= n;
    memmove(u->entered, u->entered + n, u->n_entered * sizeof u->entered[0]);
}

/* The ring takes nothing more.  Pieces the kernel has are still awaited; those it never took fail here. */
static void give_up(uring_io *u, int os_errno)
{
    u->broken = os_errno;
    uint32_t n = u->n_entered;
    u->n_entered = 0;
    for (uint32_t i = 0; i < n; i++)
        fail_piece(u, u->entered[i]);
}

static void take_completions(uring_io *u)
{
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&u->ring, &cqe) == 0) {
        uint32_t i_slot = (uint32_t)io_uring_cqe_get_data64(cqe);
        int n = cqe->res;
        io_uring_cqe_seen(&u->ring, cqe);
        if (sl_io_took(&u->base, &u->slots[i_slot], n))
            enter(u, i_slot);
        else
            complete(u, i_slot);
    }
}

/* One round: fills the ring, hands it to the kernel, waits for at least n_wait completions, takes what has come. */
static void drive(uring_io *u, unsigned n_wait)
{
    pump(u);
    if (u->broken) {
        struct io_uring_cqe *cqe;
        if (n_wait && u->free_slots != ALL_SLOTS) io_uring_wait_cqe(&u->ring, &cqe);
    } else if (u->n_entered || n_wait) {
        int n = io_uring_submit_and_wait(&u->ring, n_wait);
        if (n >= 0) {
            forget_entered(u, (uint32_t)n);
            u->n_busy = 0;
        } else if ((n == -EAGAIN || n == -EBUSY) && ++u->n_busy <= MAX_BUSY) {
            if (n_wait) usleep(1000); /* the kernel is short of memory or of room for completions */
        } else if (n != -EINTR) {
            give_up(u, -n);
        }
    }
    take_completions(u);
    pump(u);
}

/* ---- the table ---- */

static sl_status uring_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    uring_io *u = (uring_io *)io;
    sl_status rc = sl_io_check(&u->base, reqs, n, err);
    if (rc != SL_OK) return rc;
    for (size_t i = 0; i < n; i++) {
        sl_io_begin(reqs[i]);
        if (reqs[i]->bytes)
            sl_io_push(&u->queue, reqs[i]);
        else
            sl_io_publish(&u->base, reqs[i]);
    }
    drive(u, 0);
    return SL_OK;
}

static sl_status uring_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    uring_io *u = (uring_io *)io;
    while (!sl_io_is_done(req)) {
        sl_io_cancel_if_asked(&u->base, &u->queue, req);
        if (!sl_io_is_done(req)) drive(u, 1);
    }
    if (u->n_entered) drive(u, 0); /* what take_completions made room for starts now, not at the next call */
    return sl_io_finish(&u->base, req, err);
}

static bool uring_poll(sl_io *io, sl_io_req *req)
{
    if (!sl_io_is_done(req)) drive((uring_io *)io, 0);
    return sl_io_is_done(req);
}

static void uring_drop(sl_io *io, sl_io_req *req)
{
    uring_io *u = (uring_io *)io;
    sl_io_drop_queued(&u->base, &u->queue, req);
}

static void uring_hurry(sl_io *io, sl_io_req *req)
{
    uring_io *u = (uring_io *)io;
    sl_io_hurry_queued(&u->queue, req);
    drive(u, 0);
}

static void uring_close(sl_io *io)
{
    uring_io *u = (uring_io *)io;
    u->queue = (sl_io_queue){0};
    while (u->ring_open && u->free_slots != ALL_SLOTS)
        drive(u, 1);
    if (u->ring_open) io_uring_queue_exit(&u->ring);
    sl_io_files_close(&u->base);
    sl_free(u);
}

static const sl_io_ops uring_ops = {.submit = uring_submit,
                                    .wait = uring_wait,
                                    .poll = uring_poll,
                                    .drop = uring_drop,
                                    .hurry = uring_hurry,
                                    .close = uring_close};

/* ---- opening ---- */

/* 0 or an errno: no io_uring in the kernel, forbidden by a sandbox, or older than the read operation (5.6). */
static int open_ring(struct io_uring *ring)
{
    int rc = io_uring_queue_init(DEPTH, ring, 0);
    if (rc < 0) return -rc;
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool reads = probe && io_uring_opcode_supported(probe, IORING_OP_READ);
    io_uring_free_probe(probe);
    if (reads) return 0;
    io_uring_queue_exit(ring);
    return EOPNOTSUPP;
}

/* Registered files save the kernel a reference per read; not being allowed to is no loss of function. */
static bool register_files(uring_io *u)
{
    int *fds = sl_malloc(u->base.n_file * sizeof *fds);
    if (!fds) return false;
    for (size_t i = 0; i < u->base.n_file; i++)
        fds[i] = u->base.files[i].fd;
    bool ok = io_uring_register_files(&u->ring, fds, (unsigned)u->base.n_file) == 0;
    sl_free(fds);
    return ok;
}

sl_status sl_io_uring_open(sl_io **out, sl_io_base *from, sl_err *err)
{
    uring_io *u = sl_calloc(1, sizeof *u);
    if (!u) return sl_fail(err, SL_ERR_NOMEM, "no memory for an io_uring");
    int why = open_ring(&u->ring);
    if (why) {
        sl_free(u);
        return sl_fail(err, SL_ERR_UNSUPPORTED, "the kernel gives no io_uring (%s)", strerrordesc_np(why));
    }
    u->ring_open = true;
    u->free_slots = ALL_SLOTS;
    u->base = *from;
    *from = (sl_io_base){0};
    u->base.io = (sl_io){.ops = &uring_ops,
                         .name = "uring",
                         .align = u->base.io.align,
                         .piece_bytes = SL_IO_PIECE_BYTES,
                         .depth = DEPTH,
                         .background = SL_IO_BACKGROUND};
    u->fixed_files = register_files(u);
    *out = &u->base.io;
    return SL_OK;
}
