/* The protocol: begin, then acquire and release step by step, then end.  Steps whose unit stays entirely need no window
 * and cannot fail.  An error leaves the step to be acquired again; nothing is ever held half. */
#include "stream/stream_int.h"

#include "os/os.h"

#include <string.h>

sl_status sl_residency_begin(sl_residency *r, const uint32_t *sequence, uint32_t n, bool again, sl_err *err)
{
    if (!r->loaded) return sl_fail(err, SL_ERR_ARG, "a sweep was begun before the resident weights were loaded");
    if (r->n_held) return sl_fail(err, SL_ERR_ARG, "a sweep was begun while %u units are acquired", r->n_held);
    for (uint32_t i = 0; i < n; i++)
        if (sequence[i] >= r->layout.opt.n_unit)
            return sl_fail(err, SL_ERR_ARG, "step %u of a sweep is unit %u of %u", i, sequence[i],
                           r->layout.opt.n_unit);
    if (n > r->cap_step) {
        sl_step *steps = sl_realloc(r->steps, (size_t)n * sizeof *steps);
        if (!steps) return sl_fail(err, SL_ERR_NOMEM, "no memory for a sweep of %u steps", n);
        r->steps = steps;
        r->cap_step = n;
    }
    for (uint32_t i = 0; i < n; i++)
        r->steps[i] = (sl_step){.unit = sequence[i]};
    r->n_step = n;
    r->pos = 0;
    r->again = again;
    r->active = true;
    r->arrival.all_sent = false;
    sl_window_read_ahead(r);
    return SL_OK;
}

/* ---- what a unit's matrices look like ---- */

static sl_matrix matrix_of(const sl_unit_rows *rows, const sl_range *g)
{
    return (sl_matrix){.type = rows->tensor->type, .n_in = rows->n_in, .n_out = rows->n_row, .row_bytes = g->row_bytes};
}

static void add_part(sl_matrix *m, const uint8_t *data, uint64_t bytes)
{
    uint32_t first = m->n_part ? m->part[0].n_row : 0;
    m->part[m->n_part].data = data;
    m->part[m->n_part].first_row = first;
    m->part[m->n_part].n_row = (uint32_t)(bytes / m->row_bytes);
    m->n_part++;
}

static sl_status views_of_file(sl_residency *r, uint32_t unit, sl_matrix *views, sl_err *err)
{
    const sl_layout *l = &r->layout;
    for (uint32_t i = l->first[unit]; i < l->first[unit + 1]; i++) {
        const sl_range *g = &l->ranges[i];
        const sl_unit_rows *rows = &l->opt.units[unit].rows[g->entry];
        const uint8_t *data = r->io->ops->view(r->io, g->file, g->offset, g->bytes);
        if (!data)
            return sl_fail(err, SL_ERR_IO, "file %u has no bytes %llu to %llu of tensor \"%s\"", g->file,
                           (unsigned long long)g->offset, (unsigned long long)(g->offset + g->bytes),
                           rows->tensor->name);
        views[g->entry] = matrix_of(rows, g);
        add_part(&views[g->entry], data, g->bytes);
    }
    return SL_OK;
}

static void views_of_memory(sl_residency *r, uint32_t unit, const sl_window *w, sl_matrix *views)
{
    const sl_layout *l = &r->layout;
    for (uint32_t i = l->first[unit]; i < l->first[unit + 1]; i++) {
        const sl_range *g = &l->ranges[i];
        sl_matrix *m = &views[g->entry];
        *m = matrix_of(&l->opt.units[unit].rows[g->entry], g);
        if (g->keep) add_part(m, r->resident.ptr + g->keep_at, g->keep);
        if (g->keep < g->bytes) add_part(m, w->mem + g->stream_at, g->bytes - g->keep);
    }
}

bool sl_residency_peek(sl_residency *r, uint32_t unit, uint32_t i_rows, sl_matrix *view)
{
    const sl_layout *l = &r->layout;
    if (!r->loaded || unit >= l->opt.n_unit || i_rows >= l->opt.units[unit].n_rows) return false;
    for (uint32_t i = l->first[unit]; i < l->first[unit + 1]; i++) {
        const sl_range *g = &l->ranges[i];
        if (g->entry != i_rows) continue;
        const uint8_t *data = r->layout.opt.views ? r->io->ops->view(r->io, g->file, g->offset, g->bytes)
                              : g->keep == g->bytes && sl_arrival_has(r, g) ? r->resident.ptr + g->keep_at
                                                                            : NULL;
        if (!data) return false;
        *view = matrix_of(&l->opt.units[unit].rows[i_rows], g);
        add_part(view, data, g->bytes);
        return true;
    }
    return false;
}

/* ---- acquire and release ---- */

/* Waits for both parts of the unit while the next ones are being read. */
static sl_status wait_for_unit(sl_residency *r, uint32_t unit, sl_window **out, sl_err *err)
{
    sl_window *w = NULL;
    sl_status rc = sl_arrival_start(r, unit, err);
    if (rc == SL_OK && sl_unit_streams(r, unit)) rc = sl_window_demand(r, unit, &w, err);
    if (rc != SL_OK) return rc;
    if (w) w->n_user++;
    r->pos++;
    sl_window_read_ahead(r);
    rc = sl_arrival_wait(r, unit, err);
    if (rc == SL_OK && w) rc = sl_window_wait(r, w, err);
    if (rc == SL_OK) {
        *out = w;
        return SL_OK;
    }
    if (w) w->n_user--;
    r->pos--;
    return rc;
}

static sl_status hold_unit(sl_residency *r, uint32_t unit, sl_window **out, sl_err *err)
{
    if (!sl_unit_streams(r, unit) && !r->arrival.n_missing) {
        r->pos++;
        return SL_OK;
    }
    double from = sl_now_s();
    sl_status rc = wait_for_unit(r, unit, out, err);
    r->stats.wait_s += sl_now_s() - from;
    return rc;
}

static void count_acquired(sl_residency *r, uint32_t unit, sl_window *w)
{
    r->n_held++;
    r->stats.acquired++;
    r->stats.tensors_loaded += r->layout.opt.units[unit].n_rows;
    if (w && w->fresh)
        r->stats.misses++;
    else
        r->stats.hits++;
    if (!w) return;
    w->fresh = false;
    if (r->layout.opt.policy == SL_POLICY_LRU) w->stamp = ++r->clock;
}

static void drop_user(sl_residency *r, sl_window *w)
{
    if (--w->n_user == 0) sl_window_idle(r, w);
}

sl_status sl_residency_acquire(sl_residency *r, uint32_t i, sl_matrix *views, sl_err *err)
{
    if (!r->active || i >= r->n_step || i != r->pos)
        return sl_fail(err, SL_ERR_ARG, "step %u was acquired where step %u of %u is next", i, r->pos,
                       r->active ? r->n_step : 0);
    uint32_t unit = r->steps[i].unit;
    sl_window *w = NULL;
    sl_status rc = hold_unit(r, unit, &w, err);
    if (rc != SL_OK) return rc;
    if (r->layout.opt.views)
        rc = views_of_file(r, unit, views, err);
    else
        views_of_memory(r, unit, w, views);
    if (rc != SL_OK) {
        r->pos--;
        if (w) drop_user(r, w);
        return rc;
    }
    r->steps[i].held = true;
    count_acquired(r, unit, w);
    return SL_OK;
}

static void release_step(sl_residency *r, uint32_t i)
{
    uint32_t unit = r->steps[i].unit;
    r->steps[i].held = false;
    r->n_held--;
    r->stats.released++;
    r->stats.tensors_released += r->layout.opt.units[unit].n_rows;
    if (sl_unit_streams(r, unit)) drop_user(r, sl_window_find(r, unit));
}

void sl_residency_release(sl_residency *r, uint32_t i)
{
    if (!r->active || i >= r->n_step || !r->steps[i].held) return;
    release_step(r, i);
    sl_window_read_ahead(r);
}

void sl_residency_end(sl_residency *r)
{
    for (uint32_t i = 0; i < r->pos; i++)
        if (r->steps[i].held) release_step(r, i);
    r->active = false;
}

void sl_residency_quiesce(sl_residency *r)
{
    for (uint32_t i = 0; i < r->plan.n_window; i++)
        sl_window_wait(r, &r->windows[i], NULL);
    sl_arrival_settle(r);
}

/* ---- small things ---- */

void sl_residency_set_prefetch_hook(sl_residency *r, void (*hook)(void *user, uint32_t unit), void *user)
{
    r->hook = hook;
    r->hook_user = user;
}

void sl_residency_get_stats(const sl_residency *r, sl_residency_stats *out)
{
    *out = r->stats;
    out->resident_bytes = r->layout.opt.views ? 0 : r->arrival.done_bytes;
    if (r->layout.opt.load_late) out->huge = sl_block_is_huge(r->resident.ptr ? &r->resident : &r->moving);
}

void sl_residency_get_plan(const sl_residency *r, sl_residency_plan *out)
{
    *out = r->plan;
}

uint32_t sl_residency_pinned_count(const sl_residency *r)
{
    return r->n_held;
}
