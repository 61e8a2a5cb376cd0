/* Keeps reads going while somebody computes: the uring reader has no thread of its own, and what goes beyond its queue is
 * submitted only when it is called. */
#include "stream/stream_int.h"

static bool drive_window(sl_residency *r, const sl_window *w)
{
    if (w->state != SL_WINDOW_READING) return false;
    uint32_t n = r->stream_first[w->unit + 1] - r->stream_first[w->unit];
    for (uint32_t i = 0; i < n; i++)
        if (!r->io->ops->poll(r->io, &w->reqs[i])) return true;
    return false;
}

void sl_residency_drive(sl_residency *r)
{
    if (r->layout.opt.views) return;
    sl_arrival_read_ahead(r);
    for (uint32_t i = 0; i < r->plan.n_window; i++)
        if (drive_window(r, &r->windows[i])) return; /* one call moves the whole queue */
}
