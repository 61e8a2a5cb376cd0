/* Attention of the cpu backend: how the work is cut, and the walk over blocks of 64 positions; the arithmetic is in the
 * kernels (attend_*.c).
 *
 * The queries of one kv head, n_tok * group of them (query i is head i % group of token i / group), go through in
 * tiles, so that a block of K and V is widened to float32 once and serves all of them from the cache.  A block gives
 * each query a partial result (o_b, m_b, l_b); partial results are merged into (out, m, l) in position order.  Two ways
 * to do this:
 *
 *   direct   a thread takes a tile and walks its blocks, merging as it goes: prefill, and short contexts
 *   spread   threads take blocks, each with all kv heads, and leave partial results in scratch, which are merged
 *            afterwards: few tokens and a long context.  Scratch is bounded, so a long context goes in waves of blocks.
 *            A block's K is one piece of memory, and so is its V: while one is at work the next is fetched in the order
 *            of memory, which a single head's rows, far apart, would not be.
 *
 * Both do the same operations on the same numbers, so how work is cut never shows in the bits. */
#include "backend/cpu/kernels.h"

#include "base/mathx.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    TILE_MAX = 64, /* queries */
    TILE_MIN = 16,
    SPREAD_ROWS = 1024,     /* partial results that scratch holds */
    SPREAD_MIN_BLOCKS = 4,  /* or the threads would wait for each other */
    SPREAD_MAX_QUERY = 256, /* of all heads: at least four blocks fit a wave */
    SMALL_WORK = 1 << 16,   /* multiply-adds of Q K that are not worth waking threads for (a few microseconds) */
    PREFETCH_ROWS = 8,
};

/* What blocks leave behind: rows of o, and m and l of each.  l is 0 for a query that saw nothing of the block
 * (otherwise the largest score alone adds 1). */
typedef struct {
    float *o, *m, *l;
} results;

typedef struct {
    float *k, *v;  /* [64][ld] widened rows */
    float *s;      /* [SPREAD_MAX_QUERY][SL_SCORE_LD] scores, then weights */
    float *factor; /* [2][TILE_MAX] of a merge */
    float *m, *l;  /* [TILE_MAX] direct: running results */
    results block; /* [TILE_MAX] direct: of one block */
    uintptr_t ahead; /* spread: what to fetch next, in the order of memory; 0: rows of the same head */
} lane;

typedef struct {
    const sl_attention *a;
    const sl_cpu_kernels *kern;
    uint32_t group, n_query; /* heads per kv head; queries per kv head */
    uint32_t tile, n_tile;   /* queries per tile; tiles per kv head */
    size_t ld;               /* floats between rows of o, k, v in scratch */
    uint8_t *lanes;
    size_t lane_bytes;
    results partial;               /* [SPREAD_ROWS] */
    float *m, *l;                  /* [SPREAD_MAX_QUERY] spread: running results */
    uint32_t first_block, n_block; /* of this wave */
    atomic_uint next;              /* item to be taken */
} attend_job;

/* ---- scratch ---- */

static size_t padded(uint32_t head_dim)
{
    return ((size_t)head_dim + 15) / 16 * 16;
}

static float *take_floats(sl_arena *a, size_t n)
{
    return sl_arena_take(a, n, sizeof(float), 64);
}

static void take_results(results *r, sl_arena *a, size_t n, size_t ld)
{
    r->o = take_floats(a, n * ld);
    r->m = take_floats(a, n);
    r->l = take_floats(a, n);
}

static void lane_layout(lane *w, sl_arena *a, size_t ld)
{
    w->k = take_floats(a, SL_KV_BLOCK * ld);
    w->v = take_floats(a, SL_KV_BLOCK * ld);
    w->s = take_floats(a, SPREAD_MAX_QUERY * SL_SCORE_LD);
    w->factor = take_floats(a, 2 * TILE_MAX);
    w->m = take_floats(a, TILE_MAX);
    w->l = take_floats(a, TILE_MAX);
    take_results(&w->block, a, TILE_MAX, ld);
}

static void shared_layout(attend_job *j, sl_arena *a, size_t ld)
{
    take_results(&j->partial, a, SPREAD_ROWS, ld);
    j->m = take_floats(a, SPREAD_MAX_QUERY);
    j->l = take_floats(a, SPREAD_MAX_QUERY);
}

static size_t lane_bytes(const sl_backend_options *opt)
{
    sl_arena a = {0};
    lane w = {0};
    lane_layout(&w, &a, padded(opt->max_head_dim));
    return (a.used + 63) / 64 * 64;
}

static size_t shared_bytes(const sl_backend_options *opt)
{
    sl_arena a = {0};
    attend_job j;
    shared_layout(&j, &a, padded(opt->max_head_dim));
    return (a.used + 63) / 64 * 64;
}

uint64_t sl_cpu_attend_scratch_bytes(const sl_backend_options *opt)
{
    return (uint64_t)lane_bytes(opt) * opt->n_thread + shared_bytes(opt);
}

static lane lane_of(const attend_job *j, uint32_t i_thread)
{
    lane w = {.ahead = 0};
    sl_arena a = {.base = j->lanes + i_thread * j->lane_bytes, .cap = j->lane_bytes};
    lane_layout(&w, &a, j->ld);
    return w;
}

/* ---- who sees what ---- */

/* Positions [*from, *to) that token t sees. */
static void seen_by(const sl_attention *a, uint32_t t, uint32_t *from, uint32_t *to)
{
    *to = a->pos + t + 1;
    *from = a->window && *to > a->window ? *to - a->window : 0;
}

/* The same inside block b; empty when *from >= *to. */
static void seen_in_block(const sl_attention *a, uint32_t t, uint32_t b, uint32_t *from, uint32_t *to)
{
    uint32_t begin = b * SL_KV_BLOCK, end = begin + SL_KV_BLOCK;
    seen_by(a, t, from, to);
    if (*from < begin) *from = begin;
    if (*to > end) *to = end;
}

static float *out_of(const attend_job *j, uint32_t head_kv, uint32_t i)
{
    size_t head = head_kv * j->group + i % j->group;
    return j->a->out + i / j->group * j->a->ld_out + head * j->a->head_dim;
}

static const float *query_of(const attend_job *j, uint32_t head_kv, uint32_t i)
{
    size_t head = head_kv * j->group + i % j->group;
    return j->a->q + i / j->group * j->a->ld_q + head * j->a->head_dim;
}

/* ---- one block of one tile ---- */

/* A kv head's rows [from, to) as float32: where they lie, or widened into dst.  Fetches meanwhile as many bytes from
 * *ahead on, or where that is 0 the same head's rows a little later: they lie row_bytes apart, too far for the hardware
 * to guess. */
static const float *widen(const attend_job *j, float *dst, const void *kv, uint32_t head_kv, uint32_t from, uint32_t to,
                          size_t *ld, uintptr_t *ahead)
{
    const sl_attention *a = j->a;
    const uint8_t *row = (const uint8_t *)kv + from * a->row_bytes;
    size_t first = (size_t)head_kv * a->head_dim;
    uint64_t bytes = sl_kv_row_bytes(a->type, a->head_dim), step = *ahead ? bytes : a->row_bytes;
    uintptr_t fetch =
        *ahead ? *ahead : (uintptr_t)row + PREFETCH_ROWS * a->row_bytes + sl_kv_row_bytes(a->type, (uint32_t)first);
    bool plain = a->type == SL_KV_F32;
    *ld = plain ? a->row_bytes / sizeof(float) : j->ld;
    for (uint32_t p = from; p < to; p++, fetch += step) {
        for (uint64_t i = 0; i < bytes; i += 64)
            __builtin_prefetch((const void *)(fetch + i));
        if (!plain) j->kern->kv_load(a->type, dst + (p - from) * *ld, row + (p - from) * a->row_bytes, first, a->head_dim);
    }
    if (*ahead) *ahead = fetch;
    return plain ? (const float *)(const void *)row + first : dst;
}

/* l[i] = sum of row i of p in order; four rows at a time, since one sum alone would wait for each addition. */
static void sum_rows(float *l, const float *p, uint32_t n, uint32_t n_pos)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4, p += 4 * SL_SCORE_LD) {
        float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (uint32_t j = 0; j < n_pos; j++) {
            s0 += p[j];
            s1 += p[SL_SCORE_LD + j];
            s2 += p[2 * SL_SCORE_LD + j];
            s3 += p[3 * SL_SCORE_LD + j];
        }
        l[i] = s0;
        l[i + 1] = s1;
        l[i + 2] = s2;
        l[i + 3] = s3;
    }
    for (; i < n; i++, p += SL_SCORE_LD) {
        l[i] = 0;
        for (uint32_t j = 0; j < n_pos; j++)
            l[i] += p[j];
    }
}

/* Scores [n][n_pos] become weights; what a query does not see becomes 0, which changes no sum of weights. */
static void weights_of_tile(const attend_job *j, float *s, const uint32_t *from, const uint32_t *to, uint32_t n,
                            uint32_t first_pos, uint32_t n_pos, results *r)
{
    for (uint32_t i = 0; i < n; i++, s += SL_SCORE_LD) {
        uint32_t begin = from[i] < to[i] ? from[i] - first_pos : 0, end = from[i] < to[i] ? to[i] - first_pos : 0;
        for (uint32_t p = 0; p < begin; p++)
            s[p] = 0;
        for (uint32_t p = end; p < n_pos; p++)
            s[p] = 0;
        r->m[i] = begin < end ? j->kern->softmax(s + begin, end - begin, j->a->scale, j->a->softcap) : -INFINITY;
    }
}

/* Queries [q0, q0 + n) of a kv head at block b: what each sees, and the positions that any of them sees (none when
 * first_pos >= end_pos). */
typedef struct {
    uint32_t head_kv, q0, n;
    uint32_t from[TILE_MAX], to[TILE_MAX], first_pos, end_pos;
} sight;

static void look(const attend_job *j, sight *v, uint32_t head_kv, uint32_t q0, uint32_t n, uint32_t b)
{
    *v = (sight){.head_kv = head_kv, .q0 = q0, .n = n, .first_pos = UINT32_MAX};
    for (uint32_t i = 0; i < n; i++) {
        seen_in_block(j->a, (q0 + i) / j->group, b, &v->from[i], &v->to[i]);
        if (v->from[i] >= v->to[i]) continue;
        if (v->from[i] < v->first_pos) v->first_pos = v->from[i];
        if (v->to[i] > v->end_pos) v->end_pos = v->to[i];
    }
}

/* The block's weights s [n][SL_SCORE_LD], and r->m and r->l. */
static void score_tile(const attend_job *j, lane *w, const sight *v, float *s, results *r)
{
    const sl_attention *a = j->a;
    const float *q[TILE_MAX];
    size_t ld;
    if (v->first_pos >= v->end_pos) {
        memset(r->l, 0, v->n * sizeof *r->l);
        return;
    }
    for (uint32_t i = 0; i < v->n; i++)
        q[i] = query_of(j, v->head_kv, v->q0 + i);
    uint32_t n_pos = v->end_pos - v->first_pos;
    const float *k = widen(j, w->k, a->k, v->head_kv, v->first_pos, v->end_pos, &ld, &w->ahead);
    j->kern->scores(s, q, v->n, k, ld, n_pos, a->head_dim);
    weights_of_tile(j, s, v->from, v->to, v->n, v->first_pos, n_pos, r);
    sum_rows(r->l, s, v->n, n_pos);
}

/* r->o, from those weights. */
static void weigh_tile(const attend_job *j, lane *w, const sight *v, const float *s, results *r)
{
    const sl_attention *a = j->a;
    size_t ld;
    if (v->first_pos >= v->end_pos) return;
    const float *values = widen(j, w->v, a->v, v->head_kv, v->first_pos, v->end_pos, &ld, &w->ahead);
    for (uint32_t i = 0, e; i < v->n; i = e) {
        /* queries that see the same: all of the tile, except where the block holds a window's or the text's end */
        for (e = i + 1; e < v->n && v->from[e] == v->from[i] && v->to[e] == v->to[i];)
            e++;
        if (v->from[i] >= v->to[i]) continue;
        uint32_t at = v->from[i] - v->first_pos;
        j->kern->weigh(r->o + i * j->ld, j->ld, s + i * SL_SCORE_LD + at, e - i, values + at * ld, ld,
                       v->to[i] - v->from[i], a->head_dim);
    }
}

/* Merges a block's results into out, m and l of queries [q0, q0 + n); l is 0 before a query's first block. */
static void merge_block(const attend_job *j, float *factor, uint32_t head_kv, uint32_t q0, uint32_t n, results r,
                        float *m, float *l)
{
    for (uint32_t i = 0; i < n; i++) {
        bool both = r.l[i] != 0 && l[i] != 0;
        float max = r.m[i] > m[i] ? r.m[i] : m[i];
        factor[i] = both ? m[i] - max : 0;
        factor[n + i] = both ? r.m[i] - max : 0;
    }
    j->kern->exp(factor, 2 * (size_t)n);
    for (uint32_t i = 0; i < n; i++) {
        float *out = out_of(j, head_kv, q0 + i);
        const float *o_b = r.o + i * j->ld;
        if (r.l[i] == 0) continue;
        if (l[i] == 0) {
            memcpy(out, o_b, j->a->head_dim * sizeof *out);
            m[i] = r.m[i];
            l[i] = r.l[i];
            continue;
        }
        j->kern->merge(out, o_b, factor[i], factor[n + i], j->a->head_dim);
        m[i] = r.m[i] > m[i] ? r.m[i] : m[i];
        l[i] = fmaf(l[i], factor[i], r.l[i] * factor[n + i]);
    }
}

/* 1 / l, or what it becomes when the head's sink takes part. */
static float last_factor(const attend_job *j, uint32_t head_kv, uint32_t i, float m, float l)
{
    if (!j->a->sinks) return 1.0f / l;
    float z = j->a->sinks[head_kv * j->group + i % j->group], max = m > z ? m : z, a = sl_expf(m - max);
    return a / fmaf(l, a, sl_expf(z - max));
}

static void finish(const attend_job *j, uint32_t head_kv, uint32_t q0, uint32_t n, const float *m, const float *l)
{
    for (uint32_t i = 0; i < n; i++)
        j->kern->scale(out_of(j, head_kv, q0 + i), last_factor(j, head_kv, q0 + i, m[i], l[i]), j->a->head_dim);
}

static uint32_t tile_size(const attend_job *j, uint32_t q0)
{
    return j->n_query - q0 < j->tile ? j->n_query - q0 : j->tile;
}

/* ---- direct ---- */

static uint32_t claim(attend_job *j)
{
    return atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
}

static void attend_tile(attend_job *j, lane *w, uint32_t head_kv, uint32_t q0)
{
    sight v;
    uint32_t n = tile_size(j, q0), from, to, unused;
    seen_by(j->a, q0 / j->group, &from, &unused);
    seen_by(j->a, (q0 + n - 1) / j->group, &unused, &to);
    memset(w->l, 0, n * sizeof *w->l);
    for (uint32_t b = from / SL_KV_BLOCK; b * SL_KV_BLOCK < to; b++) {
        look(j, &v, head_kv, q0, n, b);
        score_tile(j, w, &v, w->s, &w->block);
        weigh_tile(j, w, &v, w->s, &w->block);
        merge_block(j, w->factor, head_kv, q0, n, w->block, w->m, w->l);
    }
    finish(j, head_kv, q0, n, w->m, w->l);
}

/* Takes tiles, the last tokens first: they see the most. */
static void attend_direct(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    (void)n_thread;
    attend_job *j = arg;
    lane w = lane_of(j, i_thread);
    uint32_t n_item = j->n_tile * j->a->n_head_kv, i;
    while ((i = claim(j)) < n_item) {
        uint32_t i_tile = j->n_tile - 1 - i / j->a->n_head_kv;
        attend_tile(j, &w, i % j->a->n_head_kv, i_tile * j->tile);
    }
}

/* ---- spread ---- */

/* Where block number i_block of a wave leaves a tile's results: [block][kv head][query]. */
static results partial_of(const attend_job *j, uint32_t i_block, uint32_t head_kv, uint32_t q0)
{
    size_t row = ((size_t)i_block * j->a->n_head_kv + head_kv) * j->n_query + q0;
    return (results){j->partial.o + row * j->ld, j->partial.m + row, j->partial.l + row};
}

/* Block number i_block of the wave: the scores of all queries, then what they weigh.  Then K, V and the K of block
 * `next` follow each other through the cache. */
static void spread_block(attend_job *j, lane *w, uint32_t i_block, uint32_t next)
{
    const sl_attention *a = j->a;
    const uint64_t block_bytes = SL_KV_BLOCK * a->row_bytes;
    uint32_t b = j->first_block + i_block, n_item = j->n_tile * a->n_head_kv;
    for (uint32_t values = 0; values < 2; values++) {
        w->ahead = values ? (uintptr_t)a->k + next * block_bytes : (uintptr_t)a->v + b * block_bytes;
        for (uint32_t i = 0; i < n_item; i++) {
            uint32_t head_kv = i / j->n_tile, q0 = i % j->n_tile * j->tile;
            float *s = w->s + (size_t)(head_kv * j->n_query + q0) * SL_SCORE_LD;
            results r = partial_of(j, i_block, head_kv, q0);
            sight v;
            look(j, &v, head_kv, q0, tile_size(j, q0), b);
            if (values)
                weigh_tile(j, w, &v, s, &r);
            else
                score_tile(j, w, &v, s, &r);
        }
    }
}

/* A thread claims its next block before it starts on one, to know what to fetch. */
static void spread_blocks(void *arg, uint32_t i_share, uint32_t n_share)
{
    (void)n_share;
    attend_job *j = arg;
    lane w = lane_of(j, i_share);
    for (uint32_t i = claim(j), next; i < j->n_block; i = next) {
        next = claim(j);
        spread_block(j, &w, i, j->first_block + (next < j->n_block ? next : i));
    }
}

static void merge_spread(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    const attend_job *j = arg;
    lane w = lane_of(j, i_thread);
    uint64_t from, to;
    sl_share(j->n_tile * j->a->n_head_kv, i_thread, n_thread, &from, &to);
    for (uint64_t i = from; i < to; i++) {
        uint32_t head_kv = (uint32_t)i / j->n_tile, q0 = (uint32_t)i % j->n_tile * j->tile;
        size_t row = (size_t)head_kv * j->n_query + q0;
        for (uint32_t b = 0; b < j->n_block; b++)
            merge_block(j, w.factor, head_kv, q0, tile_size(j, q0), partial_of(j, b, head_kv, q0), j->m + row,
                        j->l + row);
    }
}

static void attend_spread(sl_backend *b, attend_job *j, uint32_t first_block, uint32_t end_block)
{
    uint32_t n_query = j->n_query * j->a->n_head_kv, wave = SPREAD_ROWS / n_query;
    memset(j->l, 0, n_query * sizeof *j->l);
    for (uint32_t i = first_block; i < end_block; i += wave) {
        j->first_block = i;
        j->n_block = end_block - i < wave ? end_block - i : wave;
        atomic_store_explicit(&j->next, 0, memory_order_relaxed);
        sl_pool_run(b->pool, spread_blocks, j);
        sl_pool_run(b->pool, merge_spread, j);
    }
    for (uint32_t g = 0; g < j->a->n_head_kv; g++)
        finish(j, g, 0, j->n_query, j->m + (size_t)g * j->n_query, j->l + (size_t)g * j->n_query);
}

/* ---- the choice ---- */

/* Small tiles only when there would be too few for the threads. */
static void cut_tiles(attend_job *j, uint32_t n_thread)
{
    for (j->tile = TILE_MAX;; j->tile /= 2) {
        j->n_tile = (j->n_query + j->tile - 1) / j->tile;
        if (j->tile == TILE_MIN || (uint64_t)j->n_tile * j->a->n_head_kv >= 4 * n_thread) return;
    }
}

void sl_cpu_attend(sl_backend *b, const sl_attention *a)
{
    uint32_t n_thread = b->opt.n_thread, from, to, unused;
    attend_job j = {.a = a, .kern = b->kernels, .group = a->n_head / a->n_head_kv, .ld = padded(a->head_dim)};
    j.n_query = a->n_tok * j.group;
    j.lane_bytes = lane_bytes(&b->opt);
    j.lanes = b->attn;
    sl_arena shared = {.base = b->attn + n_thread * j.lane_bytes, .cap = shared_bytes(&b->opt)};
    shared_layout(&j, &shared, j.ld);
    cut_tiles(&j, n_thread);

    seen_by(a, 0, &from, &unused);
    seen_by(a, a->n_tok - 1, &unused, &to);
    uint32_t first_block = from / SL_KV_BLOCK, end_block = (to + SL_KV_BLOCK - 1) / SL_KV_BLOCK;
    uint64_t n_query = (uint64_t)j.n_query * a->n_head_kv;
    if (n_thread == 1 || n_query * (to - from) * a->head_dim < SMALL_WORK)
        attend_direct(&j, 0, 1);
    else if (end_block - first_block < SPREAD_MIN_BLOCKS || n_query > SPREAD_MAX_QUERY)
        sl_pool_run(b->pool, attend_direct, &j);
    else
        attend_spread(b, &j, first_block, end_block);
}
