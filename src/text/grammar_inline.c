/* Copying small rules without loops and calls into their callers, round by round, so that a rule of such rules becomes one
 * itself.  Stops quietly when the graph has grown enough: calls mean the same. */
#include "text/grammar_int.h"

enum { MAX_ROUNDS = 8, MAX_GROWN = SL_GRAM_MAX_STATES / 4 };

typedef struct {
    uint32_t state[SL_GRAM_INLINE_STATES];
    uint32_t n;
} members;

static uint32_t index_of(const members *m, uint32_t state)
{
    uint32_t i = 0;
    while (i < m->n && m->state[i] != state)
        i++;
    return i;
}

/* The states of a rule; false: too many, or it calls. */
static bool collect(const sl_gram_builder *b, const sl_gram_rule *r, members *m)
{
    *m = (members){.state = {r->start}, .n = 1};
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t e = b->head[m->state[i]]; e != SL_GRAM_NONE; e = b->edges[e].next) {
            if (b->edges[e].kind == SL_EDGE_CALL) return false;
            if (b->edges[e].kind == SL_EDGE_END || index_of(m, b->edges[e].to) < m->n) continue;
            if (m->n == SL_GRAM_INLINE_STATES) return false;
            m->state[m->n++] = b->edges[e].to;
        }
    return true;
}

/* States without a way in are taken away until none is left; what a loop feeds stays. */
static bool has_loop(const sl_gram_builder *b, const members *m)
{
    uint32_t into[SL_GRAM_INLINE_STATES] = {0}, queue[SL_GRAM_INLINE_STATES], n = 0;
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t e = b->head[m->state[i]]; e != SL_GRAM_NONE; e = b->edges[e].next)
            if (b->edges[e].kind != SL_EDGE_END) into[index_of(m, b->edges[e].to)]++;
    for (uint32_t i = 0; i < m->n; i++)
        if (!into[i]) queue[n++] = i;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t e = b->head[m->state[queue[k]]]; e != SL_GRAM_NONE; e = b->edges[e].next) {
            if (b->edges[e].kind == SL_EDGE_END) continue;
            uint32_t to = index_of(m, b->edges[e].to);
            if (--into[to] == 0) queue[n++] = to;
        }
    return n < m->n;
}

/* Draws the members again between from and to. */
static void copy(sl_gram_builder *b, const members *m, uint32_t from, uint32_t end, uint32_t to)
{
    uint32_t first = b->n_state;
    for (uint32_t i = 0; i < m->n; i++)
        sl_gb_state(b);
    for (uint32_t i = 0; i < m->n && b->rc == SL_OK; i++)
        for (uint32_t e = b->head[m->state[i]]; e != SL_GRAM_NONE && b->rc == SL_OK; e = b->edges[e].next) {
            sl_gram_edge old = b->edges[e];
            uint32_t next = first + index_of(m, old.to);
            if (old.kind == SL_EDGE_EMPTY)
                sl_gb_empty(b, first + i, next);
            else if (old.kind == SL_EDGE_BYTES)
                sl_gb_bytes(b, first + i, old.lo, old.hi, next);
            else if (old.kind != SL_EDGE_END)
                sl_gb_chars(b, first + i, old.arg, old.kind == SL_EDGE_JSON_CHARS, next);
        }
    sl_gb_empty(b, from, first);
    sl_gb_empty(b, first + index_of(m, end), to);
}

/* Replaces the calls of one rule.  A call becomes an empty edge that leads nowhere new: it is turned in place. */
static void replace_calls(sl_gram_builder *b, uint32_t rule, const members *m)
{
    sl_gram_rule r = b->rules[rule];
    if (index_of(m, r.end) == m->n) return; /* it never ends: left for the checks */
    uint32_t n = b->n_state;
    for (uint32_t s = 1; s < n && b->rc == SL_OK && b->n_state < MAX_GROWN; s++)
        for (uint32_t e = b->head[s]; e != SL_GRAM_NONE && b->rc == SL_OK && b->n_state < MAX_GROWN; e = b->edges[e].next) {
            if (b->edges[e].kind != SL_EDGE_CALL || b->edges[e].arg != rule) continue;
            uint32_t in = sl_gb_state(b), to = b->edges[e].to;
            if (b->rc != SL_OK) return;
            b->edges[e].kind = SL_EDGE_EMPTY;
            b->edges[e].to = in;
            copy(b, m, in, r.end, to);
        }
}

void sl_gb_inline_rules(sl_gram_builder *b)
{
    members m;
    uint32_t before = 0;
    for (int round = 0; round < MAX_ROUNDS && before != b->n_state && b->rc == SL_OK; round++) {
        before = b->n_state;
        for (uint32_t r = 0; r < b->n_rule && b->rc == SL_OK && b->n_state < MAX_GROWN; r++)
            if (r != b->root && collect(b, &b->rules[r], &m) && !has_loop(b, &m)) replace_calls(b, r, &m);
    }
}
