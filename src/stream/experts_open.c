/* Opening, loading, closing: a plan becomes slots and bookkeeping, each one block in the ledger. */
#include "stream/experts_int.h"
#include "stream/stream_int.h"

#include "os/os.h"

enum { DEFAULT_HOT_INTERVAL = 4, LOAD_DEPTH = 4 };
static const float DEFAULT_DECAY = 0.998f;
static const double PROGRESS_S = 0.1;

/* Runs twice, to measure and to carve. */
static void lay_out(sl_experts *x, sl_arena *a, const sl_experts_layout *l, uint32_t n_slot)
{
    size_t n_layer = l->opt.n_layer, width = l->width, n_key = n_layer * width;
    x->slots = sl_arena_take(a, n_slot, sizeof *x->slots, SL_LINE_BYTES);
    x->reading = sl_arena_take(a, n_slot, sizeof *x->reading, SL_LINE_BYTES);
    x->slot_of = sl_arena_take(a, n_key, sizeof *x->slot_of, SL_LINE_BYTES);
    x->counts = sl_arena_take(a, n_key, sizeof *x->counts, SL_LINE_BYTES);
    x->warm = sl_arena_take(a, n_key, sizeof *x->warm, SL_LINE_BYTES);
    x->hot = sl_arena_take(a, n_key, sizeof *x->hot, SL_LINE_BYTES);
    x->sorted = sl_arena_take(a, width, sizeof *x->sorted, SL_LINE_BYTES);
    x->demand = sl_arena_take(a, width, sizeof *x->demand, SL_LINE_BYTES);
    x->batch = sl_arena_take(a, width * SL_EXPERT_MAX_PIECE, sizeof *x->batch, SL_LINE_BYTES);
    x->layer_slots = sl_arena_take(a, n_layer, sizeof *x->layer_slots, SL_LINE_BYTES);
    x->forecasts = sl_arena_take(a, n_layer, sizeof *x->forecasts, SL_LINE_BYTES);
}

uint64_t sl_experts_book_bytes(const sl_experts_layout *l, uint32_t n_slot)
{
    sl_experts x;
    sl_arena measure = {.cap = SIZE_MAX};
    lay_out(&x, &measure, l, n_slot);
    return sl_round_up(measure.used, SL_PAGE_BYTES);
}

static uint64_t slots_bytes(const sl_experts *x)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < x->layout.n_class; c++) sum += x->lists[c].n_slot * x->layout.classes[c].slot_bytes;
    return sl_round_up(sum, SL_PAGE_BYTES);
}

static sl_status take_memory(sl_experts *x, sl_err *err)
{
    uint64_t book = sl_experts_book_bytes(&x->layout, x->plan.n_slot), bytes = slots_bytes(x);
    sl_status rc = sl_block_open(&x->book, x->ledger, SL_MEM_EXPERTS, book, 0, "bookkeeping of experts", err);
    if (rc != SL_OK) return rc;
    if (!x->layout.opt.views) {
        rc = sl_block_open(&x->slots_block, x->ledger, SL_MEM_EXPERTS, bytes, SL_BLOCK_HUGE | SL_BLOCK_BEHIND, "expert slots",
                           err);
        if (rc == SL_OK) x->stats.huge = sl_block_is_huge(&x->slots_block);
    } else if (x->ledger) {
        rc = sl_ledger_take(x->ledger, SL_MEM_EXPERTS, bytes, err);
        if (rc == SL_OK) x->ledger_views = bytes;
    }
    return rc;
}

static void make_slots(sl_experts *x)
{
    sl_arena carve = {.base = x->book.ptr, .cap = x->book.bytes};
    lay_out(x, &carve, &x->layout, x->plan.n_slot);
    memset(x->slot_of, 0xFF, (size_t)x->layout.opt.n_layer * x->layout.width * sizeof *x->slot_of);
    for (uint32_t i = 0; i < x->layout.opt.n_layer; i++) x->forecasts[i].worth = 1;
    uint8_t *mem = x->slots_block.ptr;
    uint32_t i = 0;
    for (uint32_t c = 0; c < x->layout.n_class; c++) {
        sl_slot_list *l = &x->lists[c];
        l->newest = l->oldest = SL_NO_SLOT;
        l->first_slot = i;
        for (; i < l->first_slot + l->n_slot; i++) {
            x->slots[i] = (sl_slot){.key = SL_NO_KEY, .mem = mem, .i_class = (uint8_t)c};
            if (mem) mem += x->layout.classes[c].slot_bytes;
            sl_slot_link_newest(x, &x->slots[i]);
        }
    }
}

static sl_status check_options(const sl_experts_options *o, const sl_io *io, sl_err *err)
{
    if (o->views && !io->ops->view) return sl_fail(err, SL_ERR_ARG, "read method %s gives no views", io->name);
    if (!o->views && (o->align == 0 || o->align % io->align))
        return sl_fail(err, SL_ERR_ARG, "read method %s needs an alignment of %u, the slots have %u", io->name, io->align,
                       o->align);
    if (!o->top_k) return sl_fail(err, SL_ERR_ARG, "a cache of experts of which no token uses any");
    if (!(o->how.hot_decay >= 0 && o->how.hot_decay <= 1))
        return sl_fail(err, SL_ERR_ARG, "hot_decay is %g, it must be between 0 and 1", (double)o->how.hot_decay);
    return SL_OK;
}

/* Below one token's experts an LRU has evicted each before it is asked for again; what is used often had better stay. */
static void set_defaults(sl_expert_options *o, const sl_experts_plan *p, uint32_t top_k)
{
    if (o->path == SL_EXPERTS_AUTO) o->path = p->n_slot < p->useful_slots ? SL_EXPERTS_HOT : SL_EXPERTS_EXACT;
    if (o->predict == SL_PREDICT_AUTO) o->predict = SL_PREDICT_LOOKAHEAD;
    if (!o->staged_n) o->staged_n = top_k;
    if (!o->hot_update_interval) o->hot_update_interval = DEFAULT_HOT_INTERVAL;
    if (o->hot_decay <= 0) o->hot_decay = DEFAULT_DECAY;
    if (!o->prefetch_cap) o->prefetch_cap = 4 * top_k; /* two layers, and room for what the next guess replaces */
}

static sl_status refuse(const sl_experts_plan *p, uint64_t avail_bytes, sl_err *err)
{
    char need[24], have[24], useful[24];
    return sl_fail(err, SL_ERR_BUDGET,
                   "experts need at least %s (one at a time) and %s are left for them; all of one token's take %s",
                   sl_size_text(p->minimum_bytes, need), sl_size_text(avail_bytes, have),
                   sl_size_text(p->useful_bytes, useful));
}

sl_status sl_experts_open(sl_experts **out, const sl_experts_options *opt, uint64_t avail_bytes, sl_io *io,
                          sl_ledger *ledger, sl_err *err)
{
    uint32_t n_slot[SL_EXPERTS_MAX_CLASS];
    sl_status rc = check_options(opt, io, err);
    if (rc != SL_OK) return rc;
    sl_experts *x = sl_calloc(1, sizeof *x);
    if (!x) return sl_fail(err, SL_ERR_NOMEM, "no memory for a cache of experts");
    x->io = io;
    x->ledger = ledger;
    x->source.ops = &sl_experts_source_ops;
    if ((rc = sl_experts_layout_open(&x->layout, opt, err)) != SL_OK) goto fail;
    sl_experts_choose(&x->layout, avail_bytes, &x->plan, n_slot);
    set_defaults(&x->layout.opt.how, &x->plan, opt->top_k);
    x->path = x->layout.opt.how.path;
    if (!x->plan.fits) {
        rc = refuse(&x->plan, avail_bytes, err);
        goto fail;
    }
    for (uint32_t c = 0; c < x->layout.n_class; c++) x->lists[c].n_slot = n_slot[c];
    if ((rc = take_memory(x, err)) != SL_OK) goto fail;
    make_slots(x);
    *out = x;
    return SL_OK;

fail:
    sl_experts_close(x);
    return rc;
}

void sl_experts_close(sl_experts *x)
{
    if (!x) return;
    if (x->slots) sl_experts_quiesce(x);
    sl_block_close(&x->slots_block);
    sl_block_close(&x->book);
    if (x->ledger_views) sl_ledger_give(x->ledger, SL_MEM_EXPERTS, x->ledger_views);
    sl_experts_layout_close(&x->layout);
    sl_free(x);
}

/* ---- loading everything ---- */

typedef struct {
    sl_experts *x;
    uint32_t layer, expert; /* next to read */
    sl_slot *ring[LOAD_DEPTH];
    uint32_t n_sent, n_done;
} loader;

static sl_status send_next(loader *l, sl_err *err)
{
    sl_experts *x = l->x;
    uint32_t n_batch = 0;
    while (l->layer < x->layout.opt.n_layer && l->expert == x->layout.opt.layers[l->layer].n_expert) {
        l->layer++;
        l->expert = 0;
    }
    if (l->layer == x->layout.opt.n_layer) return SL_OK;
    sl_slot *s = sl_slot_take(x, l->layer, false);
    sl_slot_assign(x, s, l->layer, l->expert++, false, x->batch, &n_batch);
    sl_slot_pin(x, s);
    l->ring[l->n_sent++ % LOAD_DEPTH] = s;
    return sl_slots_submit(x, x->batch, n_batch, err);
}

static void tell(const loader *l, sl_progress_fn progress, void *user, double from, double *told)
{
    double now = sl_now_s();
    const sl_experts_plan *p = &l->x->plan;
    if (!progress || (now - *told < PROGRESS_S && l->n_done < p->n_expert)) return;
    *told = now;
    sl_progress out = {.phase = SL_PHASE_LOAD,
                       .done_bytes = p->expert_bytes / p->n_expert * l->n_done,
                       .total_bytes = p->expert_bytes,
                       .elapsed_s = now - from};
    if (l->n_done == p->n_expert) out.done_bytes = p->expert_bytes;
    progress(user, &out);
}

sl_status sl_experts_load(sl_experts *x, const volatile bool *cancel, sl_progress_fn progress, void *user, sl_err *err)
{
    loader l = {.x = x};
    double from = sl_now_s(), told = from;
    sl_status rc = SL_OK;
    while (x->plan.resident && rc == SL_OK && l.n_done < x->plan.n_expert) {
        if (cancel && *cancel) {
            rc = sl_fail(err, SL_ERR_CANCELED, "loading was canceled after %u of %u experts", l.n_done, x->plan.n_expert);
            break;
        }
        while (rc == SL_OK && l.n_sent < x->plan.n_expert && l.n_sent - l.n_done < LOAD_DEPTH) rc = send_next(&l, err);
        if (rc != SL_OK) break;
        sl_slot *s = l.ring[l.n_done % LOAD_DEPTH];
        rc = sl_slot_wait(x, s, SL_EXPERT_MAX_PIECE, err);
        if (rc != SL_OK) break;
        l.n_done++;
        sl_slot_unpin(x, s);
        tell(&l, progress, user, from, &told);
    }
    for (uint32_t i = 0; i < x->plan.n_slot; i++) /* after a failure some are still under way */
        while (x->slots[i].n_pin) sl_slot_unpin(x, &x->slots[i]);
    if (rc == SL_OK) x->loaded = true;
    x->stats = (sl_experts_stats){.huge = x->stats.huge};
    return rc;
}

sl_experts_path sl_experts_get_path(const sl_experts *x)
{
    return x->layout.opt.how.path;
}

sl_predict sl_experts_get_predict(const sl_experts *x)
{
    return x->layout.opt.how.predict;
}

void sl_experts_get_plan(const sl_experts *x, sl_experts_plan *out)
{
    *out = x->plan;
}
