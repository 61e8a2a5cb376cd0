/* Windows: memory that the streamed part of any one unit can be read into, and which unit gets which.
 *
 * Rules, by number in the code:
 *  1. A window is found by its unit, not by its step: what was read ahead for the next sweep, or is listed twice, is
 *     found again.
 *  2. Memory under way is never given to another unit: its reads are waited for first, or (reading ahead) it is
 *     passed over.
 *  3. Windows in use and windows wanted soon are never taken.
 *  4. pin: wanted are the units in use and the next ones in order, as many as there are windows.  Any other window
 *     may be taken: the sequence is known, so nothing better could be held.
 *  5. lru, fifo: wanted are the units in use and the next one.  Of the others the one with the oldest stamp goes:
 *     lru stamps when acquiring, fifo when reading.
 *
 * With views a window has no memory: reading is advice to the kernel, and giving it up is advice to drop. */
#include "stream/stream_int.h"

#include "os/os.h"

/* Dropping less is not worth a system call and a page table walk. */
enum { DROP_BYTES = 1024 * 1024 };

void sl_stream_settle(sl_io *io, sl_io_req *const *reqs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (__atomic_load_n(&reqs[i]->state, __ATOMIC_ACQUIRE) != 0) sl_io_wait(io, reqs[i], NULL);
}

sl_window *sl_window_find(const sl_residency *r, uint32_t unit)
{
    for (uint32_t i = 0; i < r->plan.n_window; i++)
        if (r->windows[i].unit == unit) return &r->windows[i];
    return NULL;
}

/* ---- reads of one window ---- */

static void advise(sl_residency *r, uint32_t unit, bool need)
{
    if (!r->io->ops->advise) return;
    for (uint32_t i = r->stream_first[unit]; i < r->stream_first[unit + 1]; i++) {
        const sl_extent *e = &r->stream[i];
        uint64_t bytes = e->need - e->lead; /* without the pages' other users */
        if (need || bytes >= DROP_BYTES) r->io->ops->advise(r->io, e->file, e->offset + e->lead, bytes, need);
    }
}

static uint32_t fill_requests(sl_residency *r, sl_window *w, uint32_t unit)
{
    uint32_t first = r->stream_first[unit], n = r->stream_first[unit + 1] - first;
    for (uint32_t i = 0; i < n; i++) {
        const sl_extent *e = &r->stream[first + i];
        w->reqs[i] = (sl_io_req){.file = e->file,
                                 .offset_bytes = e->offset,
                                 .dst = w->mem + e->at,
                                 .bytes = e->bytes,
                                 .need_bytes = e->need};
        r->batch[i] = &w->reqs[i];
    }
    return n;
}

static void make_empty(sl_residency *r, sl_window *w)
{
    if (w->state == SL_WINDOW_READY && r->layout.opt.views) advise(r, w->unit, false);
    w->state = SL_WINDOW_EMPTY;
    w->unit = SL_NO_UNIT;
}

static sl_status start(sl_residency *r, sl_window *w, uint32_t unit, sl_err *err)
{
    if (r->layout.opt.views) {
        advise(r, unit, true);
        w->state = SL_WINDOW_READY;
    } else {
        uint32_t n = fill_requests(r, w, unit);
        sl_status rc = sl_io_submit(r->io, r->batch, n, err);
        if (rc != SL_OK) {
            sl_stream_settle(r->io, r->batch, n);
            r->stats.failed++;
            return rc;
        }
        w->state = SL_WINDOW_READING;
    }
    w->unit = unit;
    w->fresh = true;
    if (r->layout.opt.policy == SL_POLICY_FIFO) w->stamp = ++r->clock;
    return SL_OK;
}

/* All requests are waited for, whatever became of the first: only then is the memory ours again. */
sl_status sl_window_wait(sl_residency *r, sl_window *w, sl_err *err)
{
    if (w->state != SL_WINDOW_READING) return SL_OK;
    uint32_t n = r->stream_first[w->unit + 1] - r->stream_first[w->unit];
    sl_status rc = SL_OK;
    for (uint32_t i = 0; i < n; i++) {
        sl_status read = sl_io_wait(r->io, &w->reqs[i], rc == SL_OK ? err : NULL);
        if (rc == SL_OK) rc = read;
    }
    w->state = SL_WINDOW_READY;
    if (rc != SL_OK) {
        make_empty(r, w);
        r->stats.failed++;
    }
    return rc;
}

static bool is_done(sl_residency *r, const sl_window *w)
{
    if (w->state != SL_WINDOW_READING) return true;
    uint32_t n = r->stream_first[w->unit + 1] - r->stream_first[w->unit];
    for (uint32_t i = 0; i < n; i++)
        if (!r->io->ops->poll(r->io, &w->reqs[i])) return false;
    return true;
}

/* ---- who gets which ---- */

static bool is_wanted(const sl_residency *r, uint32_t unit)
{
    for (uint32_t i = 0; i < r->n_wanted; i++)
        if (r->wanted[i] == unit) return true;
    return false;
}

static void want(sl_residency *r, uint32_t unit)
{
    if (!is_wanted(r, unit)) r->wanted[r->n_wanted++] = unit;
}

/* Rules 4 and 5. */
static void find_wanted(sl_residency *r)
{
    r->n_wanted = 0;
    for (uint32_t i = 0; i < r->plan.n_window; i++)
        if (r->windows[i].n_user) want(r, r->windows[i].unit);
    uint32_t n_ahead = !r->active ? 0 : r->again ? r->n_step : r->n_step - r->pos;
    for (uint32_t k = 0; k < n_ahead && r->n_wanted < r->plan.n_window; k++) {
        uint32_t unit = r->steps[(r->pos + k) % r->n_step].unit;
        if (!sl_unit_streams(r, unit)) continue;
        want(r, unit);
        if (sl_layout_is_cache(&r->layout)) break;
    }
}

/* Is a a better window to take than b? */
static bool better(const sl_window *a, const sl_window *b)
{
    if ((a->state == SL_WINDOW_EMPTY) != (b->state == SL_WINDOW_EMPTY)) return a->state == SL_WINDOW_EMPTY;
    if ((a->state == SL_WINDOW_READING) != (b->state == SL_WINDOW_READING)) return b->state == SL_WINDOW_READING;
    return a->stamp < b->stamp;
}

/* A window for another unit, emptied (rules 2 and 3); NULL: none.  may_wait: for reads under way. */
static sl_window *take(sl_residency *r, bool may_wait)
{
    sl_window *best = NULL;
    for (uint32_t i = 0; i < r->plan.n_window; i++) {
        sl_window *w = &r->windows[i];
        if (w->n_user || (w->state != SL_WINDOW_EMPTY && is_wanted(r, w->unit))) continue;
        if (!may_wait && !is_done(r, w)) continue;
        if (!best || better(w, best)) best = w;
    }
    if (!best) return NULL;
    sl_window_wait(r, best, NULL); /* nobody wants the result */
    if (best->state == SL_WINDOW_READY && sl_layout_is_cache(&r->layout)) r->stats.evictions++;
    make_empty(r, best);
    return best;
}

sl_status sl_window_demand(sl_residency *r, uint32_t unit, sl_window **out, sl_err *err)
{
    *out = sl_window_find(r, unit); /* rule 1 */
    if (*out) return SL_OK;
    find_wanted(r);
    sl_window *w = take(r, true);
    if (!w) return sl_fail(err, SL_ERR_LIMIT, "unit %u needs a window and all %u are in use", unit, r->plan.n_window);
    sl_status rc = start(r, w, unit, err);
    if (rc == SL_OK) *out = w;
    return rc;
}

void sl_window_read_ahead(sl_residency *r)
{
    find_wanted(r);
    for (uint32_t i = 0; i < r->n_wanted; i++) {
        uint32_t unit = r->wanted[i];
        sl_arrival_ahead(r, unit);
        if (sl_window_find(r, unit)) continue;
        sl_window *w = take(r, false);
        if (!w) break;
        if (r->hook) r->hook(r->hook_user, unit);
        if (start(r, w, unit, NULL) != SL_OK) break;
        r->stats.prefetched++;
    }
    sl_arrival_read_ahead(r);
}

void sl_window_idle(sl_residency *r, sl_window *w)
{
    if (!r->layout.opt.views || sl_layout_is_cache(&r->layout) || w->state != SL_WINDOW_READY) return;
    find_wanted(r);
    if (!is_wanted(r, w->unit)) make_empty(r, w);
}
