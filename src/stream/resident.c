/* The part that stays: read once, with several requests under way, and looked up by its place in the file.
 *
 * With views nothing is copied: the pages are asked for and touched, so that they are in memory when load() returns.
 * Left out: keeping them there (that is the kernel's to decide; mmap is for comparison). */
#include "stream/stream_int.h"

#include "os/os.h"

enum {
    PIECE_BYTES = 4 * 1024 * 1024, /* progress and cancellation are this fine */
    DEPTH = 8,                     /* pieces under way; the reader cuts each further */
};
static const double PROGRESS_S = 0.1;

typedef struct {
    sl_residency *r;
    const volatile bool *cancel;
    sl_progress_fn progress;
    void *user;
    double start_s, told_s;
    uint64_t done_bytes, total_bytes;
    uint32_t i_keep;   /* extent that the next piece is of ... */
    uint64_t at_bytes; /* ... and where in it */
} loader;

const uint8_t *sl_resident_find(const sl_residency *r, uint32_t file, uint64_t offset, uint64_t bytes)
{
    const sl_extent *e = sl_extent_find(r->keep, r->n_keep, file, offset, bytes);
    return e ? r->resident.ptr + e->at + (offset - e->offset) : NULL;
}

static void tell(loader *l, bool last)
{
    double now = sl_now_s();
    if (!l->progress || (!last && now - l->told_s < PROGRESS_S)) return;
    l->told_s = now;
    sl_progress p = {.phase = SL_PHASE_LOAD,
                     .done_bytes = l->done_bytes,
                     .total_bytes = l->total_bytes,
                     .elapsed_s = now - l->start_s};
    l->progress(l->user, &p);
}

static bool canceled(const loader *l)
{
    return l->cancel && *l->cancel;
}

/* The next piece of the resident set as a request; false at its end. */
static bool next_piece(loader *l, sl_io_req *req)
{
    const sl_residency *r = l->r;
    if (l->i_keep == r->n_keep) return false;
    const sl_extent *e = &r->keep[l->i_keep];
    uint64_t left = e->bytes - l->at_bytes, bytes = sl_min_u64(left, PIECE_BYTES);
    uint64_t need = e->need > l->at_bytes ? e->need - l->at_bytes : 0;
    *req = (sl_io_req){.file = e->file,
                       .offset_bytes = e->offset + l->at_bytes,
                       .bytes = bytes,
                       .need_bytes = sl_min_u64(need, bytes)};
    if (!r->layout.opt.views) req->dst = r->resident.ptr + e->at + l->at_bytes;
    l->at_bytes += bytes;
    if (l->at_bytes == e->bytes) {
        l->i_keep++;
        l->at_bytes = 0;
    }
    return true;
}

/* Keeps DEPTH pieces under way in a ring; after a failure only waits for those that are. */
static sl_status read_all(loader *l, sl_err *err)
{
    sl_io_req ring[DEPTH];
    uint32_t n_sent = 0, n_done = 0;
    sl_status rc = SL_OK;
    for (;;) {
        while (rc == SL_OK && n_sent - n_done < DEPTH) {
            sl_io_req *req = &ring[n_sent % DEPTH];
            if (canceled(l))
                rc = sl_fail(err, SL_ERR_CANCELED, "loading was canceled after %llu of %llu bytes",
                             (unsigned long long)l->done_bytes, (unsigned long long)l->total_bytes);
            if (rc != SL_OK || !next_piece(l, req)) break;
            rc = sl_io_submit(l->r->io, &req, 1, err);
            if (rc == SL_OK)
                n_sent++;
            else
                sl_stream_settle(l->r->io, &req, 1);
        }
        if (n_done == n_sent) return rc;
        sl_io_req *oldest = &ring[n_done++ % DEPTH];
        sl_status read = sl_io_wait(l->r->io, oldest, rc == SL_OK ? err : NULL);
        if (rc == SL_OK) rc = read;
        l->done_bytes += oldest->bytes;
        if (rc == SL_OK) tell(l, false);
    }
}

/* Faults the pages of a piece in: one byte of each is read. */
static void touch(const uint8_t *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += SL_PAGE_BYTES)
        (void)*(const volatile uint8_t *)(p + i);
}

static sl_status touch_all(loader *l, sl_err *err)
{
    sl_io *io = l->r->io;
    sl_io_req piece;
    while (next_piece(l, &piece)) {
        if (canceled(l))
            return sl_fail(err, SL_ERR_CANCELED, "loading was canceled after %llu of %llu bytes",
                           (unsigned long long)l->done_bytes, (unsigned long long)l->total_bytes);
        if (io->ops->advise && piece.need_bytes) {
            const uint8_t *p = io->ops->view(io, piece.file, piece.offset_bytes, piece.need_bytes);
            if (!p)
                return sl_fail(err, SL_ERR_IO, "file %u has no bytes %llu to %llu", piece.file,
                               (unsigned long long)piece.offset_bytes,
                               (unsigned long long)(piece.offset_bytes + piece.need_bytes));
            io->ops->advise(io, piece.file, piece.offset_bytes, piece.need_bytes, true);
            touch(p, piece.need_bytes);
        }
        l->done_bytes += piece.bytes;
        tell(l, false);
    }
    return SL_OK;
}

sl_status sl_residency_load(sl_residency *r, const volatile bool *cancel, sl_progress_fn progress, void *user,
                            sl_err *err)
{
    double now = sl_now_s();
    loader l = {.r = r, .cancel = cancel, .progress = progress, .user = user, .start_s = now, .told_s = now};
    for (uint32_t i = 0; i < r->n_keep; i++)
        l.total_bytes += r->keep[i].bytes;
    r->loaded = false;
    sl_status rc = r->layout.opt.views ? touch_all(&l, err) : read_all(&l, err);
    if (rc != SL_OK) return rc;
    r->loaded = true;
    if (l.total_bytes) tell(&l, true);
    return SL_OK;
}
