/* How often experts were used of late, and what follows from it: which are hot, which are worth keeping for next time. */
#include "stream/experts_int.h"

#include <stdlib.h>

uint32_t sl_experts_width(const sl_experts *x)
{
    return x->layout.width;
}

const float *sl_experts_counts(const sl_experts *x)
{
    return x->counts;
}

void sl_experts_note_use(sl_experts *x, uint32_t key)
{
    x->counts[key] += 1;
}

uint32_t sl_experts_quota(const sl_experts *x, uint32_t layer)
{
    uint32_t c = x->layout.class_of[layer], each = x->lists[c].n_slot / x->layout.classes[c].n_layer;
    uint32_t want = 2 * x->layout.opt.how.staged_n;
    return each < want ? (each ? each : 1) : want;
}

/* ---- hot ---- */

/* A part of the slots always stays in the list: two tokens' experts of a layer, or half of all. */
static uint32_t hot_of_layer(const sl_experts *x, uint32_t layer, uint32_t want)
{
    uint32_t c = x->layout.class_of[layer], n = x->lists[c].n_slot, keep = 2 * x->layout.opt.top_k;
    if (keep > n / 2) keep = n - n / 2;
    uint32_t most = (n - keep) / x->layout.classes[c].n_layer;
    if (!want) want = n / 2 / x->layout.classes[c].n_layer;
    return want < most ? want : most;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The n largest counts; of equal ones those of the lower expert. */
static void choose_layer(sl_experts *x, uint32_t layer, uint32_t n)
{
    uint32_t width = x->layout.opt.layers[layer].n_expert, n_hot = 0;
    const float *counts = x->counts + sl_expert_key(x, layer, 0);
    bool *hot = x->hot + sl_expert_key(x, layer, 0);
    memset(hot, 0, width * sizeof *hot);
    if (!n || !width) return;
    memcpy(x->sorted, counts, width * sizeof *counts);
    qsort(x->sorted, width, sizeof *x->sorted, descending);
    float least = x->sorted[n < width ? n - 1 : width - 1];
    for (uint32_t i = 0; i < width; i++)
        if (counts[i] > least) hot[i] = ++n_hot;
    for (uint32_t i = 0; i < width && n_hot < n; i++)
        if (counts[i] == least && counts[i] > 0) hot[i] = ++n_hot;
}

static void relink(sl_experts *x)
{
    for (uint32_t i = 0; i < x->plan.n_slot; i++) {
        sl_slot *s = &x->slots[i];
        bool hot = s->key != SL_NO_KEY && x->hot[s->key];
        if (hot && s->listed) sl_slot_unlink(x, s);
        if (!hot && !s->listed) sl_slot_link_newest(x, s);
    }
}

void sl_experts_choose_hot(sl_experts *x, uint32_t n)
{
    for (uint32_t l = 0; l < x->layout.opt.n_layer; l++)
        if (x->layout.opt.layers[l].n_expert) choose_layer(x, l, hot_of_layer(x, l, n));
    relink(x);
}

void sl_experts_release_hot(sl_experts *x)
{
    memset(x->hot, 0, (size_t)x->layout.opt.n_layer * x->layout.width * sizeof *x->hot);
    relink(x);
}
