/* Opening and closing: a plan's numbers become blocks of memory, ledger entries and lists of reads.
 *
 * Bookkeeping (ranges, extents, requests: some ten KB for a model of a hundred layers) is small objects, covered by the
 * ledger's base entry; blocks are exactly the plan's bytes. */
#include "stream/stream_int.h"

#include <string.h>

static sl_status no_memory(sl_err *err)
{
    return sl_fail(err, SL_ERR_NOMEM, "no memory for the bookkeeping of resident and streamed weights");
}

static sl_status refuse(const sl_residency_plan *p, uint64_t avail_bytes, sl_err *err)
{
    char need[24], have[24], full[24], each[24], stage[24], keep[24];
    return sl_fail(err, SL_ERR_BUDGET,
                   "weights need at least %s (%s resident, %u windows of %s in all, %s for rows of the table) and "
                   "%s are left for them; more than %s would be of no use",
                   sl_size_text(p->minimum_bytes, need), sl_size_text(p->resident_bytes, keep), p->n_window,
                   sl_size_text(p->window_bytes, each), sl_size_text(p->staging_bytes, stage),
                   sl_size_text(avail_bytes, have), sl_size_text(p->full_bytes, full));
}

static sl_status check_reader(const sl_residency_options *opt, const sl_io *io, sl_err *err)
{
    if (opt->views && !io->ops->view) return sl_fail(err, SL_ERR_ARG, "read method %s gives no views", io->name);
    if (!opt->views && (opt->align == 0 || opt->align % io->align))
        return sl_fail(err, SL_ERR_ARG, "read method %s needs an alignment of %u, the plan has %u", io->name, io->align,
                       opt->align);
    return SL_OK;
}

/* ---- memory ---- */

static sl_status enter_views(sl_residency *r, sl_err *err)
{
    const sl_residency_plan *p = &r->plan;
    sl_status rc = sl_ledger_take(r->ledger, SL_MEM_RESIDENT, p->resident_bytes, err);
    if (rc != SL_OK) return rc;
    r->ledger_resident = p->resident_bytes;
    rc = sl_ledger_take(r->ledger, SL_MEM_WINDOW, p->window_bytes + p->staging_bytes, err);
    if (rc == SL_OK) r->ledger_moving = p->window_bytes + p->staging_bytes;
    return rc;
}

static sl_status take_memory(sl_residency *r, sl_err *err)
{
    const sl_residency_plan *p = &r->plan;
    sl_status rc = SL_OK;
    /* what is loaded late becomes resident with its first read, in the order of use; else ahead of the reads */
    unsigned pages = SL_BLOCK_HUGE | (r->layout.opt.load_late ? SL_BLOCK_LAZY : SL_BLOCK_BEHIND);
    if (r->layout.opt.views) return r->ledger ? enter_views(r, err) : SL_OK;
    if (p->resident_bytes)
        rc = sl_block_open(&r->resident, r->ledger, SL_MEM_RESIDENT, p->resident_bytes, pages,
                           "resident weights", err);
    if (rc == SL_OK && p->window_bytes + p->staging_bytes)
        rc = sl_block_open(&r->moving, r->ledger, SL_MEM_WINDOW, p->window_bytes + p->staging_bytes, SL_BLOCK_HUGE,
                           "windows and staging", err);
    if (rc != SL_OK) return rc;
    if (p->staging_bytes) r->stage = r->moving.ptr + p->window_bytes;
    if (r->moving.ptr || r->resident.ptr)
        r->stats.huge = sl_block_is_huge(p->window_bytes || !r->resident.ptr ? &r->moving : &r->resident);
    return SL_OK;
}

/* ---- lists of reads ---- */

static sl_status list_resident(sl_residency *r, sl_err *err)
{
    uint64_t bytes;
    uint32_t n = sl_layout_resident(&r->layout, NULL, &bytes);
    r->keep = sl_calloc(n + 1u, sizeof *r->keep);
    if (!r->keep) return no_memory(err);
    r->n_keep = sl_layout_resident(&r->layout, r->keep, &bytes);
    return sl_arrival_open(r, err);
}

static sl_status list_streamed(sl_residency *r, sl_err *err)
{
    const sl_layout *l = &r->layout;
    uint32_t n = 0;
    uint64_t bytes;
    r->stream_first = sl_calloc(l->opt.n_unit + 1u, sizeof *r->stream_first);
    if (!r->stream_first) return no_memory(err);
    for (uint32_t u = 0; u < l->opt.n_unit; u++) {
        uint32_t n_unit = sl_layout_unit(l, u, NULL, &bytes);
        if (n_unit > r->max_extent) r->max_extent = n_unit;
        n += n_unit;
        r->stream_first[u + 1] = n;
    }
    r->stream = sl_calloc(n + 1u, sizeof *r->stream);
    if (!r->stream) return no_memory(err);
    for (uint32_t u = 0; u < l->opt.n_unit; u++)
        sl_layout_unit(l, u, r->stream + r->stream_first[u], &bytes);
    return SL_OK;
}

/* Where both parts of every range will lie. */
static void place_ranges(sl_residency *r)
{
    const sl_layout *l = &r->layout;
    for (uint32_t u = 0; u < l->opt.n_unit; u++) {
        uint32_t first = r->stream_first[u], n = r->stream_first[u + 1] - first;
        for (uint32_t i = l->first[u]; i < l->first[u + 1]; i++) {
            sl_range *g = &l->ranges[i];
            uint64_t cut = g->offset + g->keep;
            const sl_extent *k = g->keep ? sl_extent_find(r->keep, r->n_keep, g->file, g->offset, g->keep) : NULL;
            const sl_extent *s =
                g->keep < g->bytes ? sl_extent_find(r->stream + first, n, g->file, cut, g->bytes - g->keep) : NULL;
            if (k) g->keep_at = k->at + (g->offset - k->offset);
            if (s) g->stream_at = s->at + (cut - s->offset);
        }
    }
}

static sl_status make_windows(sl_residency *r, sl_err *err)
{
    uint32_t n = r->plan.n_window;
    r->windows = sl_calloc(n + 1u, sizeof *r->windows);
    r->wanted = sl_calloc(n + 1u, sizeof *r->wanted);
    r->reqs = sl_calloc((size_t)n * r->max_extent + 1, sizeof *r->reqs);
    r->batch = sl_calloc(r->max_extent + 1u, sizeof *r->batch);
    if (!r->windows || !r->wanted || !r->reqs || !r->batch) return no_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        r->windows[i].unit = SL_NO_UNIT;
        r->windows[i].reqs = r->reqs + (size_t)i * r->max_extent;
        if (r->moving.ptr) r->windows[i].mem = r->moving.ptr + i * r->window_bytes;
    }
    return SL_OK;
}

sl_status sl_residency_open(sl_residency **out, const sl_residency_options *opt, uint64_t avail_bytes, sl_io *io,
                            sl_ledger *ledger, sl_err *err)
{
    sl_status rc = check_reader(opt, io, err);
    if (rc != SL_OK) return rc;
    sl_residency *r = sl_calloc(1, sizeof *r);
    if (!r) return no_memory(err);
    r->io = io;
    r->ledger = ledger;

    if ((rc = sl_layout_open(&r->layout, opt, err)) != SL_OK) goto fail;
    r->window_bytes = sl_plan_choose(&r->layout, avail_bytes, &r->plan);
    if (!r->plan.fits) {
        rc = refuse(&r->plan, avail_bytes, err);
        goto fail;
    }
    if ((rc = list_resident(r, err)) != SL_OK) goto fail;
    if ((rc = list_streamed(r, err)) != SL_OK) goto fail;
    place_ranges(r);
    if ((rc = take_memory(r, err)) != SL_OK) goto fail;
    if ((rc = make_windows(r, err)) != SL_OK) goto fail;
    *out = r;
    return SL_OK;

fail:
    sl_residency_close(r);
    return rc;
}

void sl_residency_close(sl_residency *r)
{
    if (!r) return;
    if (r->windows) sl_residency_quiesce(r);
    sl_arrival_close(r);
    sl_block_close(&r->resident);
    sl_block_close(&r->moving);
    if (r->ledger_resident) sl_ledger_give(r->ledger, SL_MEM_RESIDENT, r->ledger_resident);
    if (r->ledger_moving) sl_ledger_give(r->ledger, SL_MEM_WINDOW, r->ledger_moving);
    sl_free(r->keep);
    sl_free(r->stream);
    sl_free(r->stream_first);
    sl_free(r->windows);
    sl_free(r->wanted);
    sl_free(r->reqs);
    sl_free(r->batch);
    sl_free(r->steps);
    sl_layout_close(&r->layout);
    sl_free(r);
}
