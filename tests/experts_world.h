/* Layers of experts made of stream_world's bytes, and a driver that computes nothing but compares every byte that it is
 * handed: what the tests of the cache of experts share. */
#ifndef EXPERTS_WORLD_H
#define EXPERTS_WORLD_H

#include "stream/experts.h"
#include "stream_late.h"

enum { XW_LAYERS = 12, XW_EXPERTS = 24, XW_TOP = 4 };

typedef struct {
    world w;
    uint32_t n_layer;
    sl_expert_layer layers[XW_LAYERS];
    const sl_tensor *each[XW_LAYERS][SL_EXPERT_MAX_PIECE][XW_EXPERTS];
} xworld;

/* One piece of all experts of a layer; n_row rows each. */
static inline void xw_piece(xworld *x, uint32_t layer, uint32_t k, uint32_t file, bool stacked, uint64_t gap, uint32_t type,
                            uint32_t n_in, uint32_t n_row)
{
    sl_expert_layer *l = &x->layers[layer];
    l->piece[k] = (sl_expert_piece){.n_in = n_in, .n_row = n_row};
    if (stacked) {
        l->piece[k].stack = world_tensor(&x->w, file, gap, type, n_in, n_row * l->n_expert);
        return;
    }
    for (uint32_t e = 0; e < l->n_expert; e++) x->each[layer][k][e] = world_tensor(&x->w, file, gap, type, n_in, n_row);
    l->piece[k].each = x->each[layer][k];
}

static inline void xw_layer(xworld *x, sl_expert_form form, uint32_t n_expert, bool stacked, uint32_t file, uint64_t gap,
                            uint32_t type, uint32_t type_down, uint32_t n_ff)
{
    uint32_t i = x->n_layer++, k = 0;
    x->layers[i] = (sl_expert_layer){.form = form, .n_expert = n_expert};
    if (form == SL_EXPERT_SEPARATE) {
        xw_piece(x, i, k++, file, stacked, gap, type, 256, n_ff);
        xw_piece(x, i, k++, file, stacked, gap, type, 256, n_ff);
    } else {
        xw_piece(x, i, k++, file, stacked, gap, type, 256, 2 * n_ff);
    }
    xw_piece(x, i, k++, file, stacked, gap, type_down, n_ff, 256);
    x->layers[i].n_piece = k;
}

/* Equal layers of stacks in one file. */
static inline void xw_even(xworld *x, uint32_t n_layer, uint32_t n_expert)
{
    memset(x, 0, sizeof *x);
    world_begin(&x->w, 1);
    x->w.file_bytes[0] = 1000;
    for (uint32_t i = 0; i < n_layer; i++)
        xw_layer(x, SL_EXPERT_SEPARATE, n_expert, true, 0, 0, SL_Q4_0, SL_Q4_0, 64);
}

/* All forms, stacks and single tensors, several files and sizes, a layer without experts. */
static inline void xw_mixed(xworld *x)
{
    memset(x, 0, sizeof *x);
    world_begin(&x->w, 3);
    x->w.file_bytes[1] = 77;
    xw_layer(x, SL_EXPERT_SEPARATE, 16, true, 0, 40, SL_Q4_0, SL_Q4_0, 96);
    x->n_layer++; /* dense */
    xw_layer(x, SL_EXPERT_GATE_UP, 12, true, 1, 0, SL_Q4_0, SL_Q4_0, 96);
    xw_layer(x, SL_EXPERT_INTERLEAVED, 16, false, 2, 3, SL_Q4_0, SL_Q4_0, 96);
    xw_layer(x, SL_EXPERT_SEPARATE, 24, false, 0, 0, SL_Q8_0, SL_F16, 128);
    xw_layer(x, SL_EXPERT_SEPARATE, 24, false, 1, 70000, SL_Q8_0, SL_F16, 128);
}

static inline sl_experts_options xw_options(const xworld *x, uint32_t align)
{
    return (sl_experts_options){.layers = x->layers, .n_layer = x->n_layer, .top_k = XW_TOP, .align = align};
}

/* Memory for n slots (of each class in proportion). */
static inline uint64_t xw_bytes(const sl_experts_options *opt, uint32_t n_slot)
{
    sl_experts_plan p;
    sl_experts_options o = *opt;
    o.how.cache_slots = n_slot;
    ok(sl_experts_plan_for(&o, 0, &p, &last_err));
    return p.full_bytes;
}

static inline sl_experts *xw_open(const sl_experts_options *opt, uint64_t avail, sl_io *io, sl_ledger *ledger)
{
    sl_experts *x = NULL;
    ok(sl_experts_open(&x, opt, avail, io, ledger, &last_err));
    ok(sl_experts_load(x, NULL, NULL, NULL, &last_err));
    return x;
}

static inline bool xw_same_rows(const sl_matrix *m, const sl_unit_rows *rows, uint32_t first, uint32_t step)
{
    uint64_t bytes = (uint64_t)rows->n_in / rows->tensor->type->block * rows->tensor->type->block_bytes;
    for (uint32_t p = 0; p < m->n_part; p++)
        for (uint32_t r = 0; r < m->part[p].n_row; r++) {
            uint64_t row = rows->first_row + first + (uint64_t)(m->part[p].first_row + r) * step;
            if (world_compare(m->part[p].data + r * m->row_bytes, rows->tensor->file,
                              rows->tensor->offset_bytes + row * bytes, bytes) != bytes)
                return false;
        }
    return true;
}

static inline bool xw_gate_up_right(const xworld *x, uint32_t layer, const sl_expert *e)
{
    const sl_expert_layer *l = &x->layers[layer];
    sl_unit_rows a = sl_expert_rows(l, e->id, 0), b = sl_expert_rows(l, e->id, 1);
    uint32_t n_ff = l->form == SL_EXPERT_SEPARATE ? a.n_row : a.n_row / 2;
    if (e->gate.n_out != n_ff || e->up.n_out != n_ff || e->gate.n_in != 256) return false;
    if (l->form == SL_EXPERT_SEPARATE) return xw_same_rows(&e->gate, &a, 0, 1) && xw_same_rows(&e->up, &b, 0, 1);
    if (l->form == SL_EXPERT_GATE_UP) return xw_same_rows(&e->gate, &a, 0, 1) && xw_same_rows(&e->up, &a, n_ff, 1);
    return xw_same_rows(&e->gate, &a, 0, 2) && xw_same_rows(&e->up, &a, 1, 2);
}

static inline bool xw_down_right(const xworld *x, uint32_t layer, const sl_expert *e)
{
    const sl_expert_layer *l = &x->layers[layer];
    sl_unit_rows r = sl_expert_rows(l, e->id, l->n_piece - 1);
    return e->down.n_out == 256 && xw_same_rows(&e->down, &r, 0, 1);
}

/* What a block does with a layer, at most max experts at a time.  seen counts how often each id came. */
static inline sl_status xw_run(const xworld *w, sl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t max,
                               sl_err *err)
{
    sl_expert_source *s = sl_experts_source(x);
    sl_expert out[XW_EXPERTS];
    uint32_t seen[XW_EXPERTS] = {0}, got, n_seen = 0;
    sl_status rc = s->ops->begin(s, layer, ids, n, err);
    while (rc == SL_OK) {
        rc = s->ops->next(s, out, max, &got, err);
        if (rc != SL_OK || !got) break;
        for (uint32_t i = 0; i < got; i++) {
            seen[out[i].id]++;
            n_seen++;
            assert_true(xw_gate_up_right(w, layer, &out[i]));
        }
        sl_experts_drive(x);
        for (uint32_t i = 0; i < got && rc == SL_OK; i++) {
            rc = s->ops->down(s, &out[i], err);
            if (rc != SL_OK) break;
            assert_true(xw_down_right(w, layer, &out[i]));
            s->ops->done(s, &out[i]);
        }
    }
    s->ops->end(s);
    assert_int_equal(sl_experts_pinned_count(x), 0);
    if (rc != SL_OK) return rc;
    assert_int_equal(n_seen, n);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(seen[ids[i]], 1);
    return SL_OK;
}

/* n distinct ids, ascending; skewed to the low ones. */
static inline void xw_ids(world_rng *r, uint32_t n_expert, uint32_t *ids, uint32_t n)
{
    bool in[XW_EXPERTS] = {0};
    for (uint32_t i = 0; i < n;) {
        uint64_t a = world_below(r, n_expert), b = world_below(r, n_expert), e = a < b ? a : b;
        if (!in[e]) i++;
        in[e] = true;
    }
    for (uint32_t e = 0, i = 0; e < n_expert; e++)
        if (in[e]) ids[i++] = e;
}

/* n_tok tokens, each through all layers; every seventh sweep is a chunk that wants more.  Predictions: right or wrong by
 * chance. */
static inline sl_status xw_decode(const xworld *w, sl_experts *x, uint32_t n_tok, uint64_t seed, sl_err *err)
{
    world_rng r = {seed};
    uint32_t ids[XW_LAYERS][XW_EXPERTS], n[XW_LAYERS];
    for (uint32_t t = 0; t < n_tok; t++) {
        bool chunk = t % 7 == 6;
        sl_experts_sweep(x, chunk ? 5 : 1);
        for (uint32_t l = 0; l < w->n_layer; l++) {
            uint32_t has = w->layers[l].n_expert;
            n[l] = !has ? 0 : chunk ? 1 + (uint32_t)world_below(&r, has) : has < XW_TOP ? has : XW_TOP;
            if (has) xw_ids(&r, has, ids[l], n[l]);
        }
        for (uint32_t l = 0; l < w->n_layer; l++) {
            if (!n[l]) continue;
            uint32_t guess[XW_EXPERTS], ahead = l + 1 < w->n_layer && n[l + 1] ? l + 1 : l;
            sl_status rc = xw_run(w, x, l, ids[l], n[l], 1 + (uint32_t)world_below(&r, 6), err);
            if (rc != SL_OK) return rc;
            if (ahead == l || world_below(&r, 4) == 0) continue;
            xw_ids(&r, w->layers[ahead].n_expert, guess, XW_TOP);
            sl_experts_prefetch(x, ahead, world_below(&r, 3) ? ids[ahead] : guess, XW_TOP);
            sl_experts_drive(x);
        }
    }
    return SL_OK;
}

#endif
