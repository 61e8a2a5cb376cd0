/* The source: what a layer needs for its chunk is looked up, read, handed out as it arrives, and let go.
 *
 * begin() first pins all that is there (so that no read for a missing one takes it away), then gives slots to the missing
 * ones, in order, and submits all their reads in one batch: expert by expert, the pieces of each in the order of need.
 * The block computes an expert whole before it takes the next batch, so this is the order in which it can use the bytes.
 * Those that got no slot wait, and are read one by one as done() frees slots: then experts come in waves, while the block
 * is still busy with those before them. */
#include "stream/experts_int.h"

static sl_experts *cache_of(sl_expert_source *s)
{
    return (sl_experts *)s;
}

static sl_slot *find(sl_experts *x, uint32_t layer, uint32_t id)
{
    uint32_t i = x->slot_of[sl_expert_key(x, layer, id)];
    return i == SL_NO_SLOT ? NULL : &x->slots[i];
}

/* The slot of a demand; NULL: it has none, or lost it because a read failed. */
static sl_slot *slot_of_demand(sl_experts *x, const sl_demand *d)
{
    if (d->slot == SL_NO_SLOT) return NULL;
    sl_slot *s = &x->slots[d->slot];
    return s->key == sl_expert_key(x, x->layer, d->id) ? s : NULL;
}

/* ---- begin ---- */

static sl_status check_demand(const sl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n, sl_err *err)
{
    if (x->active) return sl_fail(err, SL_ERR_ARG, "experts of layer %u begun while layer %u's are held", layer, x->layer);
    if (layer >= x->layout.opt.n_layer || n > x->layout.opt.layers[layer].n_expert)
        return sl_fail(err, SL_ERR_ARG, "%u experts of layer %u were asked for, which has not so many", n, layer);
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= x->layout.opt.layers[layer].n_expert || (i && ids[i] <= ids[i - 1]))
            return sl_fail(err, SL_ERR_ARG, "expert %u of layer %u, which has %u, or out of order", ids[i], layer,
                           x->layout.opt.layers[layer].n_expert);
    return SL_OK;
}

static void look_up(sl_experts *x, sl_demand *d)
{
    sl_slot *s = find(x, x->layer, d->id);
    if (s && s->dropped && s->state == SL_SLOT_READING) {
        sl_slot_empty(x, s);
        s = NULL;
    }
    bool miss = !s || s->ahead == SL_AHEAD_PREDICTED; /* predicted or not, it had to be read for this token */
    x->stats.misses += miss;
    x->stats.hits += !miss;
    if (x->sweep_tok == 1) x->stats.decode_misses += miss, x->stats.decode_hits += !miss;
    if (!s) {
        x->n_waiting++;
        return;
    }
    sl_experts_count_used(x, s);
    sl_slot_hurry(x, s);
    sl_slot_touch(x, s);
    sl_slot_pin(x, s);
    d->slot = x->slot_of[s->key];
    d->state = SL_DEMAND_HAS_SLOT;
}

/* After a failed submission: those that lost their slot wait again. */
static void take_back(sl_experts *x)
{
    for (uint32_t i = 0; i < x->n_demand; i++) {
        sl_demand *d = &x->demand[i];
        if (d->state != SL_DEMAND_HAS_SLOT || slot_of_demand(x, d)) continue;
        d->state = SL_DEMAND_WAITS;
        d->slot = SL_NO_SLOT;
        x->n_waiting++;
    }
}

/* Slots and reads for those that wait, as far as slots reach. */
static sl_status give_slots(sl_experts *x, sl_err *err)
{
    uint32_t n_batch = 0;
    for (uint32_t i = 0; i < x->n_demand && x->n_waiting; i++) {
        sl_demand *d = &x->demand[i];
        if (d->state != SL_DEMAND_WAITS) continue;
        sl_slot *s = sl_slot_take(x, x->layer, false);
        if (!s) break;
        sl_slot_assign(x, s, x->layer, d->id, false, x->batch, &n_batch);
        sl_slot_pin(x, s);
        x->stats.demand_bytes += s->read_bytes;
        d->slot = x->slot_of[s->key];
        d->state = SL_DEMAND_HAS_SLOT;
        x->n_waiting--;
    }
    sl_status rc = sl_slots_submit(x, x->batch, n_batch, err);
    if (rc != SL_OK) take_back(x);
    return rc;
}

static sl_status begin(sl_expert_source *source, uint32_t layer, const uint32_t *ids, uint32_t n, sl_err *err)
{
    sl_experts *x = cache_of(source);
    sl_status rc = check_demand(x, layer, ids, n, err);
    if (rc != SL_OK) return rc;
    if (x->hook) x->hook(x->hook_user, layer, ids, n);
    x->layer = layer;
    x->n_demand = x->n_left = n;
    x->n_waiting = 0;
    x->active = true;
    sl_experts_judge(x, layer, ids, n);
    for (uint32_t i = 0; i < n; i++) {
        x->demand[i] = (sl_demand){.id = ids[i], .slot = SL_NO_SLOT, .state = SL_DEMAND_WAITS};
        look_up(x, &x->demand[i]);
        sl_experts_note_use(x, sl_expert_key(x, layer, ids[i]));
    }
    rc = give_slots(x, err);
    if (rc != SL_OK) return rc;
    if (x->n_waiting) x->stats.waves++;
    sl_experts_read_on(x, layer);
    return SL_OK;
}

/* ---- next, down, done, end ---- */

static uint32_t before_down(const sl_experts *x)
{
    return x->layout.opt.layers[x->layer].n_piece - 1;
}

static sl_status hand_out(sl_experts *x, sl_demand *d, sl_expert *out, sl_err *err)
{
    sl_matrix pieces[SL_EXPERT_MAX_PIECE];
    sl_slot *s = slot_of_demand(x, d);
    sl_status rc = sl_slot_wait(x, s, before_down(x), err);
    if (rc == SL_OK) rc = sl_slot_views(x, s, pieces, err);
    if (rc != SL_OK) return rc;
    *out = (sl_expert){.id = d->id, .slot = d};
    sl_expert_views(&x->layout.opt.layers[x->layer], pieces, out);
    d->state = SL_DEMAND_OUT;
    x->n_left--;
    return SL_OK;
}

static sl_demand *first_with_slot(sl_experts *x)
{
    for (uint32_t i = 0; i < x->n_demand; i++)
        if (x->demand[i].state == SL_DEMAND_HAS_SLOT) return &x->demand[i];
    return NULL;
}

/* What is there already; when that is nothing, the first to come is waited for. */
static sl_status next(sl_expert_source *source, sl_expert *out, uint32_t max, uint32_t *n, sl_err *err)
{
    sl_experts *x = cache_of(source);
    sl_status rc = SL_OK;
    *n = 0;
    if (!x->n_left || !max) return SL_OK;
    if (x->n_waiting && !first_with_slot(x)) rc = give_slots(x, err);
    for (uint32_t i = 0; rc == SL_OK && i < x->n_demand && *n < max; i++) {
        sl_demand *d = &x->demand[i];
        if (d->state == SL_DEMAND_HAS_SLOT && sl_slot_has(x, slot_of_demand(x, d), before_down(x)))
            rc = hand_out(x, d, &out[(*n)++], err);
    }
    if (rc != SL_OK || *n) return rc;
    sl_demand *first = first_with_slot(x);
    if (!first)
        return sl_fail(err, SL_ERR_LIMIT, "layer %u needs another expert and all %u slots are held", x->layer,
                       sl_experts_list(x, x->layer)->n_slot);
    rc = hand_out(x, first, out, err);
    *n = rc == SL_OK;
    return rc;
}

static sl_status down(sl_expert_source *source, sl_expert *e, sl_err *err)
{
    sl_experts *x = cache_of(source);
    sl_slot *s = slot_of_demand(x, e->slot);
    if (!s) return sl_fail(err, SL_ERR_ARG, "expert %u of layer %u is not held", e->id, x->layer);
    return sl_slot_wait(x, s, SL_EXPERT_MAX_PIECE, err);
}

static void let_go(sl_experts *x, sl_demand *d)
{
    sl_slot *s = slot_of_demand(x, d);
    if (s && s->n_pin) sl_slot_unpin(x, s);
    d->state = SL_DEMAND_DONE;
    d->slot = SL_NO_SLOT;
}

static void done(sl_expert_source *source, sl_expert *e)
{
    sl_experts *x = cache_of(source);
    sl_demand *d = e->slot;
    if (!x->active || d->state != SL_DEMAND_OUT) return;
    let_go(x, d);
    if (x->n_waiting) give_slots(x, NULL); /* next() tries again, and says what is wrong */
}

static void end(sl_expert_source *source)
{
    sl_experts *x = cache_of(source);
    if (!x->active) return;
    for (uint32_t i = 0; i < x->n_demand; i++)
        if (x->demand[i].state == SL_DEMAND_HAS_SLOT || x->demand[i].state == SL_DEMAND_OUT) let_go(x, &x->demand[i]);
    x->n_demand = x->n_left = x->n_waiting = 0;
    x->active = false;
}

static void drive(sl_expert_source *source)
{
    sl_experts_drive(cache_of(source));
}

static bool wants(sl_expert_source *source, uint32_t layer)
{
    const sl_experts *x = cache_of(source);
    return x->layout.opt.how.predict == SL_PREDICT_LOOKAHEAD && sl_experts_wants(x, layer);
}

static void ahead(sl_expert_source *source, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    sl_experts_prefetch(cache_of(source), layer, ids, n);
}

const sl_expert_source_ops sl_experts_source_ops = {begin, next, down, done, end, drive, wants, ahead};

sl_expert_source *sl_experts_source(sl_experts *x)
{
    return &x->source;
}

uint32_t sl_experts_pinned_count(const sl_experts *x)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < x->layout.n_class; c++) n += x->lists[c].n_pinned;
    return n;
}

void sl_experts_set_hook(sl_experts *x, void (*hook)(void *user, uint32_t layer, const uint32_t *ids, uint32_t n), void *user)
{
    x->hook = hook;
    x->hook_user = user;
}
