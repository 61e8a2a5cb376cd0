/* The part that stays: read before anything computes, or left to the sweeps (arrival.c), and looked up by its place in the
 * file.
 *
 * With views nothing is copied: the pages are asked for and touched, so that they are in memory when load() returns.
 * Left out: keeping them there (that is the kernel's to decide; mmap is for comparison). */
#include "stream/stream_int.h"

#include "os/os.h"

const uint8_t *sl_resident_find(const sl_residency *r, uint32_t file, uint64_t offset, uint64_t bytes)
{
    const sl_extent *e = sl_extent_find(r->keep, r->n_keep, file, offset, bytes);
    return e ? r->resident.ptr + e->at + (offset - e->offset) : NULL;
}

/* Faults the pages of a piece in: one byte of each is read. */
static void touch(const uint8_t *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += SL_PAGE_BYTES)
        (void)*(const volatile uint8_t *)(p + i);
}

static sl_status touch_piece(sl_residency *r, const sl_extent *e, uint64_t at, uint64_t bytes, sl_err *err)
{
    sl_io *io = r->io;
    uint64_t need = sl_min_u64(e->need > at ? e->need - at : 0, bytes);
    if (!io->ops->advise || !need) return SL_OK;
    const uint8_t *p = io->ops->view(io, e->file, e->offset + at, need);
    if (!p)
        return sl_fail(err, SL_ERR_IO, "file %u has no bytes %llu to %llu", e->file, (unsigned long long)(e->offset + at),
                       (unsigned long long)(e->offset + at + need));
    io->ops->advise(io, e->file, e->offset + at, need, true);
    touch(p, need);
    return SL_OK;
}

static sl_status touch_all(sl_residency *r, const volatile bool *cancel, sl_err *err)
{
    sl_arrival *a = &r->arrival;
    for (uint32_t i = 0; i < r->n_keep; i++) {
        const sl_extent *e = &r->keep[i];
        for (uint64_t at = 0, bytes; at < e->bytes; at += bytes) {
            bytes = sl_min_u64(e->bytes - at, SL_ARRIVAL_BYTES);
            if (cancel && *cancel)
                return sl_fail(err, SL_ERR_CANCELED, "loading was canceled after %llu of %llu bytes",
                               (unsigned long long)a->done_bytes, (unsigned long long)a->total_bytes);
            sl_status rc = touch_piece(r, e, at, bytes, err);
            if (rc != SL_OK) return rc;
            a->done_bytes += bytes;
            sl_arrival_tell(a, false);
        }
    }
    a->n_missing = 0;
    if (a->total_bytes) sl_arrival_tell(a, true);
    return SL_OK;
}

sl_status sl_residency_load(sl_residency *r, const volatile bool *cancel, sl_progress_fn progress, void *user,
                            sl_err *err)
{
    sl_arrival *a = &r->arrival;
    a->progress = progress;
    a->user = user;
    a->start_s = a->told_s = sl_now_s();
    sl_status rc = SL_OK;
    if (r->layout.opt.views)
        rc = touch_all(r, cancel, err);
    else if (!r->layout.opt.load_late)
        rc = sl_arrival_all(r, cancel, err);
    r->loaded = rc == SL_OK;
    return rc;
}
