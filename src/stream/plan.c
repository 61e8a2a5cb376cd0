/* How a number of bytes is divided between weights that stay and windows that the others pass through.
 *
 * pin: with sizes b_u and n windows, streaming at most t bytes of every unit costs
 *     total(t) = sum_u max(b_u - t, 0) + n * t + staging
 * (plus alignment), which falls by one byte per unit larger than t and rises by n.  So it is least at the (n+1)-th
 * largest b_u, and below that falls steadily as t grows: the t to take is the smallest whose total fits, found by
 * bisection.  What remains then is less than one step of all units; a second bisection lets the first units take
 * that step too.
 *
 * Windows: two are enough for reads and computing to overlap when every step takes as long as the last (one unit is
 * computed while the next is read).  A third lets the drive go on while a step takes longer than usual, and is taken
 * when a window is less than 1/16 of the memory, so that it costs little residence.
 *
 * lru, fifo: slots of the largest unit's size, as many as fit. */
#include "stream/stream_int.h"

#include <string.h>

enum { THIRD_WINDOW_PART = 16 };

typedef struct {
    sl_cut cut;
    sl_cost cost;
} choice;

static choice weigh(sl_layout *l, sl_cut cut)
{
    choice c = {.cut = cut};
    sl_layout_cut(l, &cut);
    sl_layout_cost(l, &cut, &c.cost);
    return c;
}

static choice cheaper(choice a, choice b)
{
    return b.cost.total < a.cost.total ? b : a;
}

/* ---- pin ---- */

/* Least memory with n windows.  Sizes are tried around the optimum of the formula, since alignment blurs it; ascending,
 * so that of equal ones the smallest t wins. */
static choice cheapest_stream(sl_layout *l, uint32_t n_window)
{
    choice best = {.cost.total = UINT64_MAX};
    for (uint32_t i = n_window + 1; i > 0; i--) {
        uint64_t t = l->largest[i - 1];
        if (t) best = cheaper(best, weigh(l, (sl_cut){.t = t, .n_window = n_window}));
    }
    return best;
}

/* The smallest t that fits, given one that does; t = 0 is known not to. */
static choice bisect_t(sl_layout *l, choice fits, uint64_t avail)
{
    uint64_t lo = 0;
    while (fits.cut.t - lo > 1) {
        choice c = weigh(l, (sl_cut){.t = lo + (fits.cut.t - lo) / 2, .n_window = fits.cut.n_window});
        if (c.cost.total <= avail)
            fits = c;
        else
            lo = c.cut.t;
    }
    return fits;
}

/* As many units as possible stream one step less than the others. */
static choice bisect_less(sl_layout *l, choice fits, uint64_t avail)
{
    uint32_t too_many = l->opt.n_unit; /* all: that would be t - 1 */
    while (too_many - fits.cut.n_less > 1) {
        sl_cut cut = fits.cut;
        cut.n_less += (too_many - fits.cut.n_less) / 2;
        choice c = weigh(l, cut);
        if (c.cost.total <= avail)
            fits = c;
        else
            too_many = cut.n_less;
    }
    return fits;
}

static choice stream_with(sl_layout *l, choice cheapest, uint64_t avail)
{
    return bisect_less(l, bisect_t(l, cheapest, avail), avail);
}

static choice choose_stream(sl_layout *l, choice cheapest, uint64_t avail)
{
    choice two = stream_with(l, cheapest, avail);
    if (two.cost.window >= avail / THIRD_WINDOW_PART) return two;
    choice three = cheapest_stream(l, 3);
    if (three.cost.total > avail) return two;
    three = stream_with(l, three, avail);
    return three.cost.window < avail / THIRD_WINDOW_PART ? three : two;
}

static choice choose_pin(sl_layout *l, uint64_t avail, sl_residency_plan *plan)
{
    choice full = weigh(l, (sl_cut){.table = l->opt.table && !l->tied});
    choice units = weigh(l, (sl_cut){0}); /* the table is read row by row */
    choice stream = cheapest_stream(l, 2);
    choice least = cheaper(full, cheaper(units, stream));
    plan->full_bytes = full.cost.total;
    plan->units_bytes = units.cost.total;
    plan->minimum_bytes = least.cost.total;
    if (avail >= full.cost.total) return full;
    if (avail >= units.cost.total) return units;
    if (avail >= stream.cost.total) return choose_stream(l, stream, avail);
    return least;
}

/* ---- lru, fifo ---- */

static choice weigh_slots(sl_layout *l, uint64_t n_slot, bool table)
{
    uint32_t n = n_slot < l->opt.n_unit ? (uint32_t)n_slot : l->opt.n_unit;
    return weigh(l, (sl_cut){.t = UINT64_MAX, .n_window = n, .table = table});
}

static choice choose_slots(sl_layout *l, uint64_t avail, sl_residency_plan *plan)
{
    choice full = weigh_slots(l, l->opt.n_unit, l->opt.table && !l->tied);
    choice units = weigh_slots(l, l->opt.n_unit, false);
    choice least = weigh_slots(l, 2, false); /* one in use, one read ahead */
    plan->full_bytes = full.cost.total;
    plan->units_bytes = units.cost.total;
    plan->minimum_bytes = cheaper(full, least).cost.total;
    if (avail >= full.cost.total) return full;
    if (avail >= units.cost.total) return units;
    if (avail < least.cost.total) return cheaper(full, least);
    uint64_t room = sl_round_down(avail - least.cost.staging, SL_PAGE_BYTES); /* a block is whole pages */
    return weigh_slots(l, room / least.cost.window, false);
}

/* ---- both ---- */

/* Bytes read by one sweep over all units, when the same sweep comes again and again: all or nothing, since a cycle
 * longer than the windows gives no hit. */
static uint64_t sweep_bytes(const sl_cost *c)
{
    return c->n_window < c->n_stream ? c->stream : 0;
}

uint64_t sl_plan_choose(sl_layout *l, uint64_t avail_bytes, sl_residency_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    choice c = sl_layout_is_cache(l) ? choose_slots(l, avail_bytes, plan) : choose_pin(l, avail_bytes, plan);
    sl_layout_cut(l, &c.cut);
    plan->fits = c.cost.total <= avail_bytes;
    plan->resident_bytes = c.cost.resident;
    plan->staging_bytes = c.cost.staging;
    plan->window_bytes = c.cost.total - c.cost.resident - c.cost.staging;
    plan->n_window = c.cost.n_window;
    plan->stream_bytes = sweep_bytes(&c.cost);
    plan->unit_bytes = l->unit_bytes;
    plan->t_bytes = sl_min_u64(c.cut.t, l->largest[0]);
    plan->table_resident = c.cut.table;
    return c.cost.window;
}

sl_status sl_residency_plan_for(const sl_residency_options *opt, uint64_t avail_bytes, sl_residency_plan *out,
                                sl_err *err)
{
    sl_layout l;
    sl_status rc = sl_layout_open(&l, opt, err);
    if (rc != SL_OK) return rc;
    sl_plan_choose(&l, avail_bytes, out);
    sl_layout_close(&l);
    return SL_OK;
}
