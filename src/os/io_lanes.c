/* pread lanes: two threads that take pieces from one queue, first in, first out.  With O_DIRECT this is "pread";
 * without it "buffered", where every piece is dropped from the page cache again, so that the cache does not grow behind
 * the budget's back.  Two lanes, because one leaves the drive idle between reads and more only lengthen its queue. */
#include "os/io_int.h"

#include "os/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#define N_LANE      2
#define STACK_BYTES ((size_t)256 << 10)

typedef struct {
    sl_io_base base;
    bool direct;
    pthread_t lanes[N_LANE];
    uint32_t n_started;

    pthread_mutex_t lock; /* the only lock; guards what follows and the private fields of requests that are under way */
    pthread_cond_t work;  /* the queue got longer, or stop */
    pthread_cond_t done;  /* a piece, and so perhaps a request, became done */
    sl_io_queue queue;
    bool stop;
} lanes_io;

/* Outward: only whole pages are dropped, and the rests of many small reads would add up. */
static void drop_pages(int fd, uint64_t offset, size_t bytes)
{
    const uint64_t page = 4096; /* larger pages are then dropped less often, which only costs cache */
    uint64_t from = sl_round_down(offset, page), end = sl_round_up(offset + bytes, page);
    posix_fadvise(fd, (off_t)from, (off_t)(end - from), POSIX_FADV_DONTNEED);
}

static void read_piece(lanes_io *l, sl_io_piece *p)
{
    int fd = l->base.files[p->req->file].fd;
    ssize_t n;
    do {
        n = pread(fd, p->dst + p->got_bytes, p->bytes - p->got_bytes, (off_t)(p->offset_bytes + p->got_bytes));
    } while (sl_io_took(&l->base, p, n < 0 ? -errno : n));
    if (!l->direct) drop_pages(fd, p->offset_bytes, p->bytes);
}

static void *lane_main(void *arg)
{
    lanes_io *l = arg;
    sl_io_piece p;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        if (!sl_io_next_piece(&l->base, &l->queue, &p)) {
            if (l->stop) break;
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        read_piece(l, &p);
        pthread_mutex_lock(&l->lock);
        if (sl_io_piece_done(&l->base, &p)) {
            sl_io_unlink(&l->queue, p.req);
            sl_io_publish(&l->base, p.req);
        }
        pthread_cond_broadcast(&l->done); /* after every piece: a waiter may have been told to give up */
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static sl_status lanes_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    lanes_io *l = (lanes_io *)io;
    sl_status rc = sl_io_check(&l->base, reqs, n, err);
    if (rc != SL_OK) return rc;
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < n; i++) {
        sl_io_begin(reqs[i]);
        if (reqs[i]->bytes)
            sl_io_push(&l->queue, reqs[i]);
        else
            sl_io_publish(&l->base, reqs[i]);
    }
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return SL_OK;
}

static sl_status lanes_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    lanes_io *l = (lanes_io *)io;
    if (!sl_io_is_done(req)) {
        pthread_mutex_lock(&l->lock);
        while (!sl_io_is_done(req)) {
            sl_io_cancel_if_asked(&l->base, &l->queue, req);
            if (!sl_io_is_done(req)) pthread_cond_wait(&l->done, &l->lock);
        }
        pthread_mutex_unlock(&l->lock);
    }
    return sl_io_finish(&l->base, req, err);
}

static bool lanes_poll(sl_io *io, sl_io_req *req)
{
    (void)io;
    return sl_io_is_done(req);
}

static void lanes_drop(sl_io *io, sl_io_req *req)
{
    lanes_io *l = (lanes_io *)io;
    pthread_mutex_lock(&l->lock);
    sl_io_drop_queued(&l->base, &l->queue, req);
    pthread_mutex_unlock(&l->lock);
}

static void lanes_hurry(sl_io *io, sl_io_req *req)
{
    lanes_io *l = (lanes_io *)io;
    pthread_mutex_lock(&l->lock);
    sl_io_hurry_queued(&l->queue, req);
    pthread_cond_broadcast(&l->work); /* lanes may sleep because enough of the background was under way */
    pthread_mutex_unlock(&l->lock);
}

/* Pieces under way are read to their end, since the owner of dst may free it after close; the rest is dropped. */
static void lanes_close(sl_io *io)
{
    lanes_io *l = (lanes_io *)io;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    l->queue = (sl_io_queue){0};
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (uint32_t i = 0; i < l->n_started; i++)
        pthread_join(l->lanes[i], NULL);
    pthread_cond_destroy(&l->done);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    sl_io_files_close(&l->base);
    sl_free(l);
}

static const sl_io_ops lanes_ops = {.submit = lanes_submit,
                                    .wait = lanes_wait,
                                    .poll = lanes_poll,
                                    .drop = lanes_drop,
                                    .hurry = lanes_hurry,
                                    .close = lanes_close};

static int start_lanes(lanes_io *l)
{
    int rc = 0;
    for (; l->n_started < N_LANE && !rc; l->n_started += !rc)
        rc = sl_thread_start(&l->lanes[l->n_started], STACK_BYTES, lane_main, l);
    return rc;
}

sl_status sl_io_lanes_open(sl_io **out, sl_io_base *from, bool direct, sl_err *err)
{
    lanes_io *l = sl_calloc(1, sizeof *l);
    if (!l) return sl_fail(err, SL_ERR_NOMEM, "no memory for reading lanes");
    l->base = *from;
    *from = (sl_io_base){0};
    l->base.io = (sl_io){.ops = &lanes_ops,
                         .name = direct ? "pread" : "buffered",
                         .align = l->base.io.align,
                         .piece_bytes = SL_IO_PIECE_BYTES,
                         .depth = N_LANE,
                         .background = SL_IO_BACKGROUND};
    l->direct = direct;
    for (size_t i = 0; i < l->base.n_file && !direct; i++) /* read-ahead would fetch what nobody asked for */
        posix_fadvise(l->base.files[i].fd, 0, 0, POSIX_FADV_RANDOM);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    int rc = start_lanes(l);
    if (rc) {
        lanes_close(&l->base.io);
        return sl_fail_os(err, rc, "a reading thread cannot be started");
    }
    *out = &l->base.io;
    return SL_OK;
}
