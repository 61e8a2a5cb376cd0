/* Reading before anybody asks.  Everything here goes through the reader's background, behind all demand reads, into slots
 * that the layer at work does not need, and is dropped or adopted when the truth is known.  So it can cost bytes, never
 * tokens; whether it pays is measured per layer and for the drive, and what doesn't pay stops by itself:
 *   - a layer of whose predicted reads fewer than WORTH_LEAST were used lately is left alone for RETRY_SWEEPS tokens;
 *   - while demand reads alone keep the drive busy for more than BUSY_MOST of the time, nothing is read ahead. */
#include "stream/experts_int.h"

#include "os/os.h"

#include <stdlib.h>

enum { RETRY_SWEEPS = 64, WARM_DEPTH = 2 };
static const float WORTH_LEAST = 0.35f, WORTH_AGAIN = 0.5f, BUSY_MOST = 0.9f, SMOOTH = 0.1f;

/* ---- is it worth it ---- */

sl_expert_set sl_expert_set_of(const uint32_t *ids, uint32_t n, uint32_t n_expert)
{
    sl_expert_set s = {{0}};
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < n_expert) s.bits[ids[i] / 64] |= UINT64_C(1) << ids[i] % 64;
    return s;
}

/* The slot of an expert that was read ahead by a prediction and not used yet; NULL: there is none. */
static sl_slot *predicted_slot(sl_experts *x, uint32_t layer, uint32_t id)
{
    uint32_t at = x->slot_of[sl_expert_key(x, layer, id)];
    return at != SL_NO_SLOT && x->slots[at].ahead == SL_AHEAD_PREDICTED ? &x->slots[at] : NULL;
}

static void judge_worth(sl_experts *x, sl_layer_forecast *f, uint32_t n_used, uint32_t n_wasted)
{
    if (!(n_used + n_wasted)) return;
    float now = (float)n_used / (float)(n_used + n_wasted);
    f->worth += SMOOTH * (now - f->worth);
    if (f->worth >= WORTH_LEAST) return;
    f->worth = WORTH_AGAIN;
    f->off_until = x->sweep + RETRY_SWEEPS;
}

void sl_experts_judge(sl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    sl_layer_forecast *f = &x->forecasts[layer];
    uint32_t n_used = 0, n_wasted = 0, n_expert = x->layout.opt.layers[layer].n_expert;
    if (!f->n) return;
    sl_expert_set used = sl_expert_set_of(ids, n, n_expert);
    x->stats.predicted += f->n;
    x->stats.routed += n;
    for (uint32_t e = 0; e < n_expert; e++) {
        if (!sl_expert_set_has(&f->named, e)) continue;
        bool right = sl_expert_set_has(&used, e);
        sl_slot *ahead = predicted_slot(x, layer, e);
        x->stats.predicted_right += right;
        n_used += ahead && right;
        n_wasted += ahead && !right;
        if (ahead && !right) sl_slot_discard(x, ahead);
    }
    f->n = 0;
    judge_worth(x, f, n_used, n_wasted);
}

bool sl_experts_wants(const sl_experts *x, uint32_t layer)
{
    const sl_experts_options *o = &x->layout.opt;
    if (o->how.predict == SL_PREDICT_OFF || x->plan.resident || !x->sweep_tok || x->n_waiting) return false;
    if (layer >= o->n_layer || !o->layers[layer].n_expert) return false;
    if (x->sweep_tok > 1 && x->path == SL_EXPERTS_LAYER) return false;
    if (o->how.prefetch_always) return true;
    if (x->sweep < x->forecasts[layer].off_until) return false;
    return x->sweep_tok > 1 || x->busy_part <= BUSY_MOST;
}

/* Waiting saved: the time that its bytes take at the drive's rate, or since they were asked for if that is less. */
void sl_experts_count_used(sl_experts *x, sl_slot *s)
{
    if (s->ahead == SL_AHEAD_PREDICTED) {
        double bytes = (double)(x->stats.demand_bytes + x->stats.prefetch_bytes + x->stats.warm_bytes);
        double took = bytes > 0 ? (double)s->read_bytes * x->stats.busy_s / bytes : 0, since = sl_now_s() - s->issued_s;
        x->stats.prefetch_used++;
        x->stats.hidden_s += took < since ? took : since;
    }
    sl_slot_set_ahead(x, s, SL_AHEAD_NO);
}

/* ---- predictions ---- */

/* A later prediction for the same layer: what it no longer names is given up. */
static void revise(sl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    sl_layer_forecast *f = &x->forecasts[layer];
    uint32_t n_expert = x->layout.opt.layers[layer].n_expert;
    sl_expert_set now = sl_expert_set_of(ids, n, n_expert);
    for (uint32_t e = 0; f->n && e < n_expert; e++) {
        sl_slot *s = sl_expert_set_has(&f->named, e) && !sl_expert_set_has(&now, e) ? predicted_slot(x, layer, e) : NULL;
        if (s) sl_slot_discard(x, s);
    }
    f->named = now;
    f->n = (uint16_t)n;
}

/* Leaves the layers at work and to come their slots. */
static bool has_room(const sl_experts *x, const sl_slot_list *l)
{
    if (x->sweep_tok == 1 && l->n_ahead >= x->layout.opt.how.prefetch_cap) return false;
    return l->n_pinned + l->n_ahead + x->layout.opt.top_k < l->n_slot;
}

static bool read_ahead(sl_experts *x, uint32_t layer, uint32_t id, sl_ahead kind, uint32_t *n_batch)
{
    sl_slot *s = sl_slot_take(x, layer, true);
    if (!s) return false;
    sl_slot_assign(x, s, layer, id, true, x->batch, n_batch);
    sl_slot_set_ahead(x, s, kind);
    return true;
}

void sl_experts_prefetch(sl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    uint32_t n_batch = 0;
    if (!sl_experts_wants(x, layer) || (x->active && layer == x->layer)) return;
    if (n > x->layout.opt.layers[layer].n_expert) return;
    revise(x, layer, ids, n);
    sl_slots_reap(x);
    for (uint32_t i = 0; i < n; i++) { /* those that are there must not make room for the others */
        uint32_t at = ids[i] < x->layout.opt.layers[layer].n_expert ? x->slot_of[sl_expert_key(x, layer, ids[i])] : SL_NO_SLOT;
        if (at != SL_NO_SLOT && !x->slots[at].dropped) sl_slot_touch(x, &x->slots[at]);
    }
    for (uint32_t i = 0; i < n && has_room(x, sl_experts_list(x, layer)); i++) {
        if (ids[i] >= x->layout.opt.layers[layer].n_expert || x->slot_of[sl_expert_key(x, layer, ids[i])] != SL_NO_SLOT) continue;
        if (!read_ahead(x, layer, ids[i], SL_AHEAD_PREDICTED, &n_batch)) break;
        x->stats.prefetch_issued++;
        x->stats.prefetch_bytes += x->slots[x->slot_of[sl_expert_key(x, layer, ids[i])]].read_bytes;
    }
    sl_slots_submit(x, x->batch, n_batch, NULL);
}

static uint32_t next_layer(const sl_experts *x, uint32_t layer)
{
    uint32_t n = x->layout.opt.n_layer, i = layer;
    do
        i = (i + 1) % n;
    while (!x->layout.opt.layers[i].n_expert);
    return i;
}

static void follow_history(sl_experts *x, uint32_t layer)
{
    uint32_t ids[SL_EXPERTS_MAX_AHEAD], next = next_layer(x, layer);
    sl_layer_forecast *f = &x->forecasts[layer], *g = &x->forecasts[next];
    f->n_before = (uint16_t)(x->n_demand < SL_EXPERTS_MAX_AHEAD ? x->n_demand : SL_EXPERTS_MAX_AHEAD);
    for (uint32_t i = 0; i < f->n_before; i++) f->before[i] = (uint16_t)x->demand[i].id;
    for (uint32_t i = 0; i < g->n_before; i++) ids[i] = g->before[i];
    if (next != layer && g->n_before) sl_experts_prefetch(x, next, ids, g->n_before);
}

/* ---- whole layers ---- */

static void read_whole_layer(sl_experts *x, uint32_t layer)
{
    uint32_t n_batch = 0, most = x->layout.opt.how.prefill_full_layers;
    if (x->n_waiting || (most && layer >= most)) return;
    for (uint32_t i = 0; i < x->layout.opt.layers[layer].n_expert; i++) {
        if (x->slot_of[sl_expert_key(x, layer, i)] != SL_NO_SLOT) continue;
        if (!read_ahead(x, layer, i, SL_AHEAD_LAYER, &n_batch)) break;
        x->stats.demand_bytes += x->slots[x->slot_of[sl_expert_key(x, layer, i)]].read_bytes;
    }
    sl_slots_submit(x, x->batch, n_batch, NULL);
}

void sl_experts_read_on(sl_experts *x, uint32_t layer)
{
    if (x->path == SL_EXPERTS_LAYER) read_whole_layer(x, layer);
    if (x->layout.opt.how.predict == SL_PREDICT_HISTORY && x->sweep_tok == 1) follow_history(x, layer);
}

/* ---- warm start ---- */

static int by_count(const void *a, const void *b, void *counts)
{
    const float *c = counts;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (c[x] != c[y]) return c[x] < c[y] ? 1 : -1;
    return x < y ? -1 : 1;
}

void sl_experts_warm(sl_experts *x, const float *counts)
{
    uint32_t n_key = x->layout.opt.n_layer * x->layout.width;
    memcpy(x->counts, counts, n_key * sizeof *x->counts);
    x->n_warm = x->i_warm = 0;
    if (x->plan.resident) return;
    for (uint32_t k = 0; k < n_key; k++)
        if (counts[k] > 0 && k % x->layout.width < x->layout.opt.layers[k / x->layout.width].n_expert) x->warm[x->n_warm++] = k;
    qsort_r(x->warm, x->n_warm, sizeof *x->warm, by_count, x->counts);
}

static bool has_empty(sl_experts *x, uint32_t layer)
{
    const sl_slot_list *l = sl_experts_list(x, layer);
    if (x->path == SL_EXPERTS_STAGED && x->layer_slots[layer] >= sl_experts_quota(x, layer)) return false;
    return l->oldest != SL_NO_SLOT && x->slots[l->oldest].state == SL_SLOT_EMPTY;
}

static void go_on_warming(sl_experts *x)
{
    uint32_t n_batch = 0;
    while (x->i_warm < x->n_warm && x->n_reading < WARM_DEPTH) {
        uint32_t key = x->warm[x->i_warm++], layer = key / x->layout.width;
        if (x->slot_of[key] != SL_NO_SLOT || !has_empty(x, layer)) continue;
        if (!read_ahead(x, layer, key % x->layout.width, SL_AHEAD_WARM, &n_batch)) continue;
        x->stats.warm_issued++;
        x->stats.warm_bytes += x->slots[x->slot_of[key]].read_bytes;
    }
    sl_slots_submit(x, x->batch, n_batch, NULL);
}

/* ---- calls from outside ---- */

void sl_experts_drive(sl_experts *x)
{
    if (x->n_reading) sl_slots_reap(x);
    if (x->n_reading && x->slots[x->reading[0]].n_pin) sl_slot_has(x, &x->slots[x->reading[0]], SL_EXPERT_MAX_PIECE);
    if (x->i_warm < x->n_warm && !x->n_reading_demand && !x->n_waiting) go_on_warming(x);
}

void sl_experts_quiesce(sl_experts *x)
{
    while (x->n_reading) {
        sl_slot *s = &x->slots[x->reading[0]];
        if (s->background)
            sl_slot_empty(x, s);
        else
            sl_slot_wait(x, s, SL_EXPERT_MAX_PIECE, NULL);
    }
}

/* The path of a sweep of n_tok tokens, and its hot experts. */
static void take_path(sl_experts *x, uint32_t n_tok)
{
    const sl_expert_options *o = &x->layout.opt.how;
    sl_experts_path before = x->path;
    bool prompt = n_tok > 1;
    x->path = prompt && o->full_layer_prefill ? SL_EXPERTS_LAYER : prompt && o->prefill_hot ? SL_EXPERTS_HOT : o->path;
    if (x->path == SL_EXPERTS_HOT && (before != x->path || x->sweep % o->hot_update_interval == 0))
        sl_experts_choose_hot(x, prompt && o->prefill_hot ? o->prefill_hot : o->hot_per_layer);
    if (x->path != SL_EXPERTS_HOT && before == SL_EXPERTS_HOT) sl_experts_release_hot(x);
}

/* What a chunk has read ahead of a layer that did not run after all (a list of layers leaves it out, a cancel) may be much. */
static void forget_chunk(sl_experts *x)
{
    for (uint32_t l = 0; l < x->layout.opt.n_layer; l++)
        if (x->forecasts[l].n) revise(x, l, NULL, 0);
}

void sl_experts_sweep(sl_experts *x, uint32_t n_tok)
{
    double now = sl_now_s(), took = now - x->sweep_from_s;
    if (x->n_reading_demand) {
        x->sweep_busy_s += now - x->demand_from_s;
        x->demand_from_s = now;
    }
    if (x->sweep_tok == 1 && took > 0) {
        float part = (float)(x->sweep_busy_s / took);
        x->busy_part += (x->busy_known ? SMOOTH : 1) * (part - x->busy_part);
        x->busy_known = true;
    }
    x->sweep_from_s = now;
    x->sweep_busy_s = 0;
    if (x->sweep_tok > 1) forget_chunk(x);
    x->sweep++;
    x->sweep_tok = n_tok;
    if (n_tok == 1) sl_block_settle(&x->slots_block); /* pages come beside a prompt, but not between two tokens */
    /* A chunk's steps are long, nobody looks at the reader meanwhile, and what is read ahead is as good as demanded. */
    __atomic_store_n(&x->io->background, n_tok > 1 && x->io->depth > SL_IO_BACKGROUND ? x->io->depth : SL_IO_BACKGROUND,
                     __ATOMIC_RELAXED);
    for (uint32_t k = 0; k < x->layout.opt.n_layer * x->layout.width; k++) x->counts[k] *= x->layout.opt.how.hot_decay;
    take_path(x, n_tok);
}

void sl_experts_get_stats(const sl_experts *x, sl_experts_stats *out)
{
    *out = x->stats;
    if (x->n_reading) out->busy_s += sl_now_s() - x->busy_from_s;
}
