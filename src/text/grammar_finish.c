/* From a drawn graph to a frozen grammar: only what the root reaches is kept; what each state needs to be finished is
 * worked out; grammars that no text can finish, or that call themselves before reading a byte, are refused. */
#include "text/grammar_int.h"

#include <stdio.h>
#include <string.h>

/* What freezing needs for its own duration. */
typedef struct {
    sl_gram_builder *b;
    sl_gram *g;
    uint32_t *number;   /* [builder's states] new number, or NONE */
    uint32_t *old;      /* [n_state] and back */
    uint32_t *in_first; /* [n_state + 1] arcs into a state */
    uint32_t *in_arc, *in_from; /* [n_arc] */
    uint32_t *call_first;       /* [n_rule + 1] arcs that call a rule, as indices of in_arc */
    uint32_t *call_in;
    uint32_t *stack; /* [2 * n_state] */
    uint16_t *null;  /* [n_state] NEVER: no end without a byte */
} freeze;

static void *take(freeze *f, size_t count, size_t bytes)
{
    sl_gram_builder *b = f->b;
    if (b->rc != SL_OK) return NULL;
    if (count * bytes > b->max_bytes - b->used_bytes) {
        char size[24];
        sl_gb_fail(b, SL_ERR_LIMIT, "compiling it takes more than %s of memory", sl_size_text(b->max_bytes, size));
        return NULL;
    }
    b->used_bytes += count * bytes;
    void *p = sl_calloc(count, bytes);
    if (!p) sl_gb_fail(b, SL_ERR_NOMEM, "no memory to compile it");
    return p;
}

/* ---- numbering ---- */

static void reach(freeze *f, uint32_t state)
{
    if (f->number[state] != SL_GRAM_NONE) return;
    f->old[f->g->n_state] = state;
    f->number[state] = f->g->n_state++;
}

static void number_states(freeze *f)
{
    sl_gram_builder *b = f->b;
    sl_gram *g = f->g;
    f->number = take(f, b->n_state, sizeof *f->number);
    f->old = take(f, b->n_state, sizeof *f->old);
    g->start = take(f, b->n_rule, sizeof *g->start);
    if (b->rc != SL_OK) return;
    g->n_rule = b->n_rule;
    g->root = b->root;
    memset(f->number, 0xFF, b->n_state * sizeof *f->number);
    reach(f, b->rules[b->root].start);
    for (uint32_t i = 0; i < g->n_state; i++)
        for (uint32_t e = b->head[f->old[i]]; e != SL_GRAM_NONE; e = b->edges[e].next) {
            const sl_gram_edge *edge = &b->edges[e];
            g->n_arc++;
            if (edge->kind != SL_EDGE_END) reach(f, edge->to);
            if (edge->kind == SL_EDGE_CALL) reach(f, b->rules[edge->arg].start);
        }
    for (uint32_t r = 0; r < b->n_rule; r++)
        g->start[r] = f->number[b->rules[r].start];
}

static void copy_arcs(freeze *f)
{
    sl_gram_builder *b = f->b;
    sl_gram *g = f->g;
    uint32_t n = 0;
    g->first = take(f, g->n_state + 1, sizeof *g->first);
    g->arcs = take(f, g->n_arc, sizeof *g->arcs);
    g->need = take(f, g->n_state, sizeof *g->need);
    if (b->rc != SL_OK) return;
    for (uint32_t i = 0; i < g->n_state; i++) {
        g->first[i] = n;
        for (uint32_t e = b->head[f->old[i]]; e != SL_GRAM_NONE; e = b->edges[e].next) {
            const sl_gram_edge *edge = &b->edges[e];
            g->arcs[n++] = (sl_gram_arc){.kind = edge->kind, .lo = edge->lo, .hi = edge->hi, .arg = edge->arg,
                                         .to = edge->kind == SL_EDGE_END ? 0 : f->number[edge->to]};
        }
    }
    g->first[g->n_state] = n;
}

/* Bytes that no arc tells apart share a class. */
static void find_classes(sl_gram *g)
{
    bool cut[257] = {false};
    for (uint32_t i = 0; i < g->n_arc; i++)
        if (g->arcs[i].kind == SL_EDGE_BYTES) cut[g->arcs[i].lo] = cut[g->arcs[i].hi + 1] = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (byte && cut[byte]) g->n_class++;
        g->class_of[byte] = (uint8_t)g->n_class;
    }
    g->n_class++;
}

/* ---- what can be finished ---- */

static void sort_in(freeze *f)
{
    sl_gram *g = f->g;
    f->in_first = take(f, g->n_state + 2, sizeof *f->in_first);
    f->in_arc = take(f, g->n_arc, sizeof *f->in_arc);
    f->in_from = take(f, g->n_arc, sizeof *f->in_from);
    f->call_first = take(f, g->n_rule + 2, sizeof *f->call_first);
    f->call_in = take(f, g->n_arc, sizeof *f->call_in);
    f->stack = take(f, 2 * (size_t)g->n_state, sizeof *f->stack);
    f->null = take(f, g->n_state, sizeof *f->null);
    if (f->b->rc != SL_OK) return;
    /* counting sort, twice: [k + 2] counts, [k + 1] moves while filling, and ends as the start of k + 1 */
    for (uint32_t i = 0; i < g->n_arc; i++) {
        if (g->arcs[i].kind != SL_EDGE_END) f->in_first[g->arcs[i].to + 2]++;
        if (g->arcs[i].kind == SL_EDGE_CALL) f->call_first[g->arcs[i].arg + 2]++;
    }
    for (uint32_t s = 2; s <= g->n_state + 1; s++)
        f->in_first[s] += f->in_first[s - 1];
    for (uint32_t r = 2; r <= g->n_rule + 1; r++)
        f->call_first[r] += f->call_first[r - 1];
    for (uint32_t s = 0; s < g->n_state; s++)
        for (uint32_t i = g->first[s]; i < g->first[s + 1]; i++) {
            if (g->arcs[i].kind == SL_EDGE_END) continue;
            uint32_t at = f->in_first[g->arcs[i].to + 1]++;
            f->in_arc[at] = i;
            f->in_from[at] = s;
            if (g->arcs[i].kind == SL_EDGE_CALL) f->call_in[f->call_first[g->arcs[i].arg + 1]++] = at;
        }
}

typedef struct {
    uint16_t *value; /* [n_state] */
    bool bytes;      /* arcs over bytes count as a way */
    uint32_t *now, *next;
    uint32_t n_now, n_next, level;
} spread;

/* State s can be finished at level v, which is this one or the next. */
static void relax(spread *sp, uint32_t s, uint32_t v)
{
    if (sp->value[s] <= v) return;
    sp->value[s] = (uint16_t)v;
    if (v == sp->level)
        sp->now[sp->n_now++] = s;
    else
        sp->next[sp->n_next++] = s;
}

/* s is settled: whoever can go on to it, or calls the rule that starts with it, may be. */
static void settle(freeze *f, spread *sp, uint32_t s, const uint32_t *rule_of)
{
    const sl_gram *g = f->g;
    for (uint32_t i = f->in_first[s]; i < f->in_first[s + 1]; i++) {
        const sl_gram_arc *a = &g->arcs[f->in_arc[i]];
        if (a->kind == SL_EDGE_BYTES && !sp->bytes) continue;
        uint32_t callee = a->kind == SL_EDGE_CALL ? sp->value[g->start[a->arg]] : 0;
        if (callee > sp->level) continue; /* not settled: this arc will be looked at from there */
        uint32_t v = a->kind == SL_EDGE_CALL && callee == sp->level ? sp->level + 1 : sp->level;
        relax(sp, f->in_from[i], v);
    }
    uint32_t r = rule_of[s];
    if (r == SL_GRAM_NONE) return;
    for (uint32_t k = f->call_first[r]; k < f->call_first[r + 1]; k++) {
        uint32_t at = f->call_in[k];
        if (sp->value[g->arcs[f->in_arc[at]].to] <= sp->level) relax(sp, f->in_from[at], sp->level + 1);
    }
}

/* For each state the open calls that its end takes at least (each call one more than its callee): level by level from the
 * ends backwards, since a level only opens itself and the next. */
static void solve(freeze *f, uint16_t *value, bool bytes)
{
    sl_gram *g = f->g;
    uint32_t *rule_of = f->number; /* no longer needed, and as long as the builder's states */
    spread sp = {.value = value, .bytes = bytes, .now = f->stack, .next = f->stack + g->n_state};
    memset(value, 0xFF, g->n_state * sizeof *value);
    memset(rule_of, 0xFF, g->n_state * sizeof *rule_of);
    for (uint32_t r = 0; r < g->n_rule; r++)
        if (g->start[r] != SL_GRAM_NONE) rule_of[g->start[r]] = r;
    for (uint32_t s = 0; s < g->n_state; s++)
        for (uint32_t i = g->first[s]; i < g->first[s + 1]; i++)
            if (g->arcs[i].kind == SL_EDGE_END) relax(&sp, s, 0);
    while (sp.n_now) {
        while (sp.n_now) {
            uint32_t s = sp.now[--sp.n_now];
            if (value[s] == sp.level) settle(f, &sp, s, rule_of);
        }
        uint32_t *t = sp.now;
        sp.now = sp.next;
        sp.n_now = sp.n_next;
        sp.next = t;
        sp.n_next = 0;
        sp.level++;
    }
}

/* ---- calls before the first byte ---- */

/* Calls next(user, rule) for every rule that rule r may call before it has read a byte. */
typedef struct {
    uint32_t *stack, *seen; /* [n_state]; seen: by rule + 1 */
    uint32_t *left;         /* [n_rule] how many left calls are not yet known to end */
} left_walk;

static uint32_t left_calls(const freeze *f, left_walk *w, uint32_t r, uint32_t *calls)
{
    const sl_gram *g = f->g;
    uint32_t n = 0, n_call = 0;
    if (g->start[r] == SL_GRAM_NONE) return 0;
    w->stack[n++] = g->start[r];
    w->seen[g->start[r]] = r + 1;
    while (n) {
        uint32_t s = w->stack[--n];
        for (uint32_t i = g->first[s]; i < g->first[s + 1]; i++) {
            const sl_gram_arc *a = &g->arcs[i];
            bool passes = a->kind == SL_EDGE_EMPTY;
            if (a->kind == SL_EDGE_CALL) {
                calls[n_call++] = a->arg;
                passes = f->null[g->start[a->arg]] != SL_GRAM_NEVER;
            }
            if (!passes || w->seen[a->to] == r + 1) continue;
            w->seen[a->to] = r + 1;
            w->stack[n++] = a->to;
        }
    }
    return n_call;
}

static void fail_left(freeze *f, uint32_t r)
{
    const sl_gram_rule *rule = &f->b->rules[r];
    if (rule->name)
        sl_gb_fail(f->b, SL_ERR_FORMAT, "rule \"%.*s\" calls itself before anything is read (left recursion)",
                   (int)rule->n_name, rule->name);
    else
        sl_gb_fail(f->b, SL_ERR_FORMAT, "a part refers to itself without anything between ($ref in a circle)");
}

/* Depth-first over the rules by their left calls; a rule met again while it is open closes a circle. */
static void check_left(freeze *f)
{
    sl_gram *g = f->g;
    enum { NEW, OPEN, DONE };
    left_walk w = {.stack = f->stack, .seen = f->stack + g->n_state};
    uint8_t *color = take(f, g->n_rule, 1);
    uint32_t *path = take(f, g->n_rule, sizeof *path), *top = take(f, g->n_rule, sizeof *top);
    uint32_t *calls = take(f, g->n_arc + 1, sizeof *calls); /* those of the rules on the path, one behind the other */
    uint32_t *begin = take(f, g->n_rule + 1, sizeof *begin);
    bool ok = f->b->rc == SL_OK;
    if (ok) memset(w.seen, 0, g->n_state * sizeof *w.seen);
    for (uint32_t r = 0; ok && r < g->n_rule; r++) {
        uint32_t n = 0;
        if (color[r] != NEW) continue;
        path[0] = r, begin[0] = 0, top[0] = left_calls(f, &w, r, calls), color[r] = OPEN, n = 1;
        while (n && ok) {
            uint32_t at = n - 1;
            if (top[at] == begin[at]) {
                color[path[at]] = DONE;
                n--;
                continue;
            }
            uint32_t callee = calls[--top[at]];
            if (color[callee] == OPEN) fail_left(f, callee), ok = false;
            if (color[callee] != NEW) continue;
            color[callee] = OPEN;
            path[n] = callee, begin[n] = top[at], top[n] = begin[n] + left_calls(f, &w, callee, calls + begin[n]), n++;
        }
    }
    sl_free(color);
    sl_free(path);
    sl_free(top);
    sl_free(calls);
    sl_free(begin);
}

/* ---- all of it ---- */

static void check_root(freeze *f)
{
    uint16_t need = f->g->need[f->g->start[f->g->root]];
    if (need == SL_GRAM_NEVER)
        sl_gb_fail(f->b, SL_ERR_FORMAT, "no text can ever satisfy it: every way through it goes on for ever or is impossible");
    else if (need >= SL_GRAM_MAX_STACK)
        sl_gb_fail(f->b, SL_ERR_LIMIT, "its shortest text is nested %u deep, the limit is %d", need, SL_GRAM_MAX_STACK);
}

static void run(freeze *f)
{
    sl_gram_builder *b = f->b;
    if (b->rc == SL_OK && b->inline_rules) sl_gb_inline_rules(b);
    if (b->rc == SL_OK) sl_gb_expand_chars(b);
    if (b->rc == SL_OK) number_states(f);
    if (b->rc == SL_OK) copy_arcs(f);
    if (b->rc == SL_OK) find_classes(f->g);
    if (b->rc == SL_OK) sort_in(f);
    if (b->rc != SL_OK) return;
    solve(f, f->null, false);
    check_left(f);
    solve(f, f->g->need, true);
    if (b->rc == SL_OK) check_root(f);
}

sl_status sl_gram_finish(sl_gram **out, sl_gram_builder *b)
{
    freeze f = {.b = b};
    if (b->rc != SL_OK) return b->rc;
    f.g = take(&f, 1, sizeof *f.g);
    if (f.g) run(&f);
    sl_free(f.number);
    sl_free(f.old);
    sl_free(f.in_first);
    sl_free(f.in_arc);
    sl_free(f.in_from);
    sl_free(f.call_first);
    sl_free(f.call_in);
    sl_free(f.stack);
    sl_free(f.null);
    if (b->rc != SL_OK) {
        sl_gram_close(f.g);
        return b->rc;
    }
    *out = f.g;
    return SL_OK;
}

void sl_gram_close(sl_gram *g)
{
    if (!g) return;
    sl_free(g->first);
    sl_free(g->arcs);
    sl_free(g->start);
    sl_free(g->need);
    sl_free(g);
}

uint64_t sl_gram_bytes(const sl_gram *g)
{
    return sizeof *g + (uint64_t)g->n_arc * sizeof *g->arcs + (uint64_t)g->n_state * (sizeof *g->first + sizeof *g->need) +
           (uint64_t)g->n_rule * sizeof *g->start;
}
