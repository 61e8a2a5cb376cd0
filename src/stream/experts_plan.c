/* An expert on disk and in a slot, and how many slots a number of bytes gives.
 *
 * A piece is read by itself, at its own alignment, into its own part of the slot; so gate and up can compute while down is
 * still on its way.  Neighbours in the file are read together only while the read stays small: below a megabyte a
 * request costs more than waiting for a little more (peers report about 100 microseconds each).
 *
 * Slots come in classes by size.  Layers whose experts need at most a sixteenth more than the smallest of a class share
 * it; each class gets the same part of its experts, so no layer is favoured. */
#include "stream/experts_int.h"
#include "stream/stream_int.h"

#include <stdlib.h>

enum { JOIN_BYTES = 1024 * 1024, JOIN_GAP_BYTES = 64 * 1024, CLASS_PART = 16 };
#define EXPERT_LIMIT ((uint64_t)1 << 40)

/* ---- one expert ---- */

typedef struct {
    uint64_t start, end;
    uint32_t file, piece;
} span;

static span span_of(const sl_expert_layer *l, uint32_t expert, uint32_t i_piece)
{
    sl_unit_rows r = sl_expert_rows(l, expert, i_piece);
    uint64_t row_bytes = r.n_in / r.tensor->type->block * r.tensor->type->block_bytes;
    uint64_t start = r.tensor->offset_bytes + r.first_row * row_bytes;
    return (span){start, start + r.n_row * row_bytes, r.tensor->file, i_piece};
}

uint64_t sl_expert_bytes(const sl_expert_layer *l, uint32_t expert)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < l->n_piece; k++) {
        span s = span_of(l, expert, k);
        sum += s.end - s.start;
    }
    return sum;
}

static bool before(const span *a, const span *b)
{
    return a->file != b->file ? a->file < b->file : a->start < b->start;
}

static void sort_spans(span *s, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && before(&s[k], &s[k - 1]); k--) {
            span t = s[k];
            s[k] = s[k - 1];
            s[k - 1] = t;
        }
}

static bool joins(const span *a, const span *b)
{
    return a->file == b->file && b->start >= a->end && b->start - a->end <= JOIN_GAP_BYTES &&
           b->end - a->start <= JOIN_BYTES;
}

/* Groups neighbours; group [n] becomes the index of each sorted span's group.  returns their number */
static uint32_t group_spans(const span *s, uint32_t n, uint32_t *group)
{
    span whole = s[0];
    group[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        bool join = joins(&whole, &s[i]);
        group[i] = group[i - 1] + !join;
        if (join)
            whole.end = s[i].end;
        else
            whole = s[i];
    }
    return group[n - 1] + 1;
}

/* The reads in the order of the first piece that they bring. */
void sl_expert_place_of(const sl_expert_layer *l, uint32_t expert, uint32_t align, sl_expert_place *out)
{
    span s[SL_EXPERT_MAX_PIECE];
    uint32_t group[SL_EXPERT_MAX_PIECE], n = l->n_piece;
    for (uint32_t k = 0; k < n; k++) s[k] = span_of(l, expert, k);
    sort_spans(s, n);
    group_spans(s, n, group);
    *out = (sl_expert_place){0};
    bool placed[SL_EXPERT_MAX_PIECE] = {0};
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = 0, first, last;
        while (s[i].piece != k) i++;
        if (placed[i]) continue;
        for (first = i; first > 0 && group[first - 1] == group[i];) first--;
        for (last = i; last + 1 < n && group[last + 1] == group[i];) last++;
        uint64_t from = sl_round_down(s[first].start, align), to = sl_round_up(s[last].end, align);
        out->reads[out->n_read] = (sl_expert_read){
            .offset = from, .bytes = to - from, .need = s[last].end - from, .at = out->bytes, .file = s[i].file};
        for (uint32_t j = first; j <= last; j++) {
            placed[j] = true;
            out->at[s[j].piece] = out->bytes + (s[j].start - from);
            out->read_of[s[j].piece] = (uint8_t)out->n_read;
        }
        out->bytes += to - from;
        out->n_read++;
    }
}

/* ---- classes ---- */

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Bytes of the largest expert of a layer in a slot. */
static uint64_t layer_slot_bytes(const sl_experts_layout *l, uint32_t i_layer)
{
    const sl_expert_layer *e = &l->opt.layers[i_layer];
    sl_expert_place p;
    uint64_t most = 0;
    for (uint32_t i = 0; i < e->n_expert; i++) {
        sl_expert_place_of(e, i, l->align, &p);
        most = sl_max_u64(most, p.bytes);
    }
    return most;
}

/* sorted [n_layer], ascending, layers without experts first (0).  The last class takes all that is left. */
static void make_classes(sl_experts_layout *l, const uint64_t *sorted)
{
    uint64_t smallest = 0;
    for (uint32_t i = 0; i < l->opt.n_layer; i++) {
        if (!sorted[i]) continue;
        if (!l->n_class || (sorted[i] > smallest + smallest / CLASS_PART && l->n_class < SL_EXPERTS_MAX_CLASS)) {
            l->n_class++;
            smallest = sorted[i];
        }
        l->classes[l->n_class - 1].slot_bytes = sorted[i];
    }
}

static void enter_layer(sl_experts_layout *l, uint32_t i_layer, uint64_t slot_bytes)
{
    const sl_expert_layer *e = &l->opt.layers[i_layer];
    uint8_t c = 0;
    while (slot_bytes > l->classes[c].slot_bytes) c++;
    l->class_of[i_layer] = c;
    l->classes[c].n_layer++;
    l->classes[c].n_expert += e->n_expert;
    l->n_expert += e->n_expert;
    for (uint32_t i = 0; i < e->n_expert; i++) {
        uint64_t bytes = sl_expert_bytes(e, i);
        l->expert_bytes += bytes;
        if (i < l->opt.top_k) l->token_bytes += bytes;
    }
}

static sl_status find_classes(sl_experts_layout *l, uint64_t *sizes, sl_err *err)
{
    uint32_t n = l->opt.n_layer;
    uint64_t *sorted = sizes + n;
    for (uint32_t i = 0; i < n; i++) {
        sizes[i] = sorted[i] = layer_slot_bytes(l, i);
        if (sizes[i] > EXPERT_LIMIT)
            return sl_fail(err, SL_ERR_FORMAT, "experts of layer %u have %llu bytes each, the limit is %llu", i,
                           (unsigned long long)sizes[i], (unsigned long long)EXPERT_LIMIT);
        if (l->opt.layers[i].n_expert > l->width) l->width = l->opt.layers[i].n_expert;
    }
    qsort(sorted, n, sizeof *sorted, by_size);
    make_classes(l, sorted);
    for (uint32_t i = 0; i < n; i++)
        if (sizes[i]) enter_layer(l, i, sizes[i]);
    return SL_OK;
}

sl_status sl_experts_layout_open(sl_experts_layout *l, const sl_experts_options *opt, sl_err *err)
{
    *l = (sl_experts_layout){.opt = *opt, .align = opt->align > SL_LINE_BYTES ? opt->align : SL_LINE_BYTES};
    uint64_t *sizes = sl_calloc(2 * (size_t)opt->n_layer + 1, sizeof *sizes);
    l->class_of = sl_calloc(opt->n_layer + 1u, 1);
    sl_status rc = sizes && l->class_of ? find_classes(l, sizes, err)
                                        : sl_fail(err, SL_ERR_NOMEM, "no memory to plan slots of %u layers", opt->n_layer);
    sl_free(sizes);
    if (rc == SL_OK && !l->n_expert) rc = sl_fail(err, SL_ERR_ARG, "a cache of experts for a model that has none");
    if (rc != SL_OK) sl_experts_layout_close(l);
    return rc;
}

void sl_experts_layout_close(sl_experts_layout *l)
{
    sl_free(l->class_of);
    l->class_of = NULL;
}

/* ---- how many slots ---- */

/* The part k of n_expert, for every class alike and at least one each. */
static uint32_t slots_for(const sl_experts_layout *l, uint64_t k, uint32_t *n_slot)
{
    uint32_t sum = 0;
    for (uint32_t c = 0; c < l->n_class; c++) {
        uint64_t n = l->classes[c].n_expert * k / l->n_expert;
        n_slot[c] = n ? (uint32_t)n : 1;
        sum += n_slot[c];
    }
    return sum;
}

static uint64_t total_for(const sl_experts_layout *l, uint64_t k, uint32_t *n_slot)
{
    uint64_t total = sl_experts_book_bytes(l, slots_for(l, k, n_slot));
    for (uint32_t c = 0; c < l->n_class; c++) total += n_slot[c] * l->classes[c].slot_bytes;
    return sl_round_up(total, SL_PAGE_BYTES);
}

static uint32_t useful_slots(const sl_experts_layout *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->opt.n_layer; i++) {
        uint32_t has = l->opt.layers[i].n_expert;
        n += has < l->opt.top_k ? has : l->opt.top_k;
    }
    return n;
}

void sl_experts_choose(const sl_experts_layout *l, uint64_t avail_bytes, sl_experts_plan *plan, uint32_t *n_slot)
{
    uint64_t most = l->opt.how.cache_slots && l->opt.how.cache_slots < l->n_expert ? l->opt.how.cache_slots : l->n_expert;
    *plan = (sl_experts_plan){.minimum_bytes = total_for(l, 0, n_slot),
                              .full_bytes = total_for(l, most, n_slot),
                              .useful_slots = useful_slots(l),
                              .n_expert = l->n_expert,
                              .n_class = l->n_class,
                              .slot_bytes = l->classes[l->n_class - 1].slot_bytes,
                              .expert_bytes = l->expert_bytes,
                              .token_bytes = l->token_bytes};
    plan->least_bytes = total_for(l, sl_min_u64(2 * l->opt.top_k, most), n_slot);
    plan->useful_bytes = total_for(l, plan->useful_slots, n_slot);
    uint64_t lo = 0, hi = most + 1; /* lo fits, or nothing does */
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (total_for(l, mid, n_slot) <= avail_bytes)
            lo = mid;
        else
            hi = mid;
    }
    plan->total_bytes = total_for(l, lo, n_slot);
    plan->fits = plan->total_bytes <= avail_bytes;
    plan->n_slot = slots_for(l, lo, n_slot);
    plan->resident = plan->n_slot == l->n_expert;
}

sl_status sl_experts_plan_for(const sl_experts_options *opt, uint64_t avail_bytes, sl_experts_plan *out, sl_err *err)
{
    sl_experts_layout l;
    uint32_t n_slot[SL_EXPERTS_MAX_CLASS];
    sl_status rc = sl_experts_layout_open(&l, opt, err);
    if (rc != SL_OK) return rc;
    sl_experts_choose(&l, avail_bytes, out, n_slot);
    sl_experts_layout_close(&l);
    return SL_OK;
}

/* Mean of the published curves of three families (128, 256 and 512 experts), LRU, decoding. */
double sl_experts_hit_rate(const sl_experts_plan *p)
{
    static const double part[] = {0.05, 0.08, 0.12, 0.16, 0.20, 0.25, 0.30, 0.36, 0.45, 0.64, 1.0};
    static const double hit[] = {0.35, 0.46, 0.55, 0.63, 0.68, 0.74, 0.78, 0.83, 0.87, 0.92, 1.0};
    double f = (double)p->n_slot / p->n_expert, from = 0, from_hit = 0;
    if (p->resident) return 1;
    if (p->n_slot < p->useful_slots) return 0;
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (f <= part[i]) return from_hit + (hit[i] - from_hit) * (f - from) / (part[i] - from);
        from = part[i];
        from_hit = hit[i];
    }
    return 1;
}
