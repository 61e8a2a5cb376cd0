/* Nodes, stacks, items: where a byte leads.  Nothing here allocates; running out of room is a fault that the caller of the
 * whole operation sees at its end. */
#include "text/guide_int.h"

#include <stdlib.h>
#include <string.h>

static void fault(sl_guide *gd, sl_guide_fault f)
{
    if (gd->fault == SL_FAULT_NONE) gd->fault = f;
}

static bool work(sl_guide *gd, uint32_t n)
{
    gd->work += n;
    if (gd->work > SL_GUIDE_MAX_WORK) fault(gd, SL_FAULT_WORK);
    return gd->fault == SL_FAULT_NONE;
}

uint32_t sl_guide_take(sl_guide *gd, uint32_t n)
{
    if (n > gd->max_pool - gd->n_pool) {
        fault(gd, SL_FAULT_MEMORY);
        return 0;
    }
    gd->n_pool += n;
    return gd->n_pool - n;
}

/* ---- nodes ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Adds a state and what empty arcs reach from it to list, each once; states that can't be finished stay out. */
static uint32_t add_closure(sl_guide *gd, uint32_t n, uint32_t state)
{
    const sl_gram *g = gd->g;
    uint32_t at = n;
    if (gd->seen[state] == gd->stamp || g->need[state] == SL_GRAM_NEVER) return n;
    gd->seen[state] = gd->stamp;
    gd->list[n++] = state;
    for (; at < n; at++)
        for (uint32_t i = g->first[gd->list[at]]; i < g->first[gd->list[at] + 1]; i++) {
            const sl_gram_arc *a = &g->arcs[i];
            if (a->kind != SL_EDGE_EMPTY || gd->seen[a->to] == gd->stamp || g->need[a->to] == SL_GRAM_NEVER) continue;
            gd->seen[a->to] = gd->stamp;
            gd->list[n++] = a->to;
        }
    return n;
}

static void new_stamp(sl_guide *gd)
{
    if (++gd->stamp == 0) {
        memset(gd->seen, 0, gd->g->n_state * sizeof *gd->seen);
        gd->stamp = 1;
    }
}

/* Keeps the states that do more than pass on, sorted. */
static uint32_t trim(sl_guide *gd, uint32_t n)
{
    const sl_gram *g = gd->g;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t s = gd->list[k];
        bool acts = false;
        for (uint32_t i = g->first[s]; i < g->first[s + 1] && !acts; i++)
            acts = g->arcs[i].kind != SL_EDGE_EMPTY;
        if (acts) gd->list[kept++] = s;
    }
    qsort(gd->list, kept, sizeof *gd->list, by_number);
    return kept;
}

static void describe(sl_guide *gd, sl_guide_node *d)
{
    const sl_gram *g = gd->g;
    d->need = SL_GRAM_NEVER;
    for (uint32_t k = 0; k < d->n_set; k++) {
        uint32_t s = gd->pool[d->set + k];
        if (g->need[s] < d->need) d->need = g->need[s];
        for (uint32_t i = g->first[s]; i < g->first[s + 1]; i++) {
            uint8_t kind = g->arcs[i].kind;
            d->flags |= kind == SL_EDGE_BYTES ? SL_NODE_BYTES : kind == SL_EDGE_CALL ? SL_NODE_CALLS : 0;
            d->flags |= kind == SL_EDGE_END ? SL_NODE_END : 0;
        }
    }
}

/* The rules a node calls, each once, their targets not yet known. */
static void list_calls(sl_guide *gd, sl_guide_node *d)
{
    const sl_gram *g = gd->g;
    uint32_t n = 0, kept = 0;
    for (uint32_t k = 0; k < d->n_set; k++) {
        uint32_t s = gd->pool[d->set + k];
        for (uint32_t i = g->first[s]; i < g->first[s + 1]; i++)
            if (g->arcs[i].kind == SL_EDGE_CALL) gd->list[n++] = g->arcs[i].arg;
    }
    qsort(gd->list, n, sizeof *gd->list, by_number);
    for (uint32_t k = 0; k < n; k++)
        if (!kept || gd->list[kept - 1] != gd->list[k]) gd->list[kept++] = gd->list[k];
    uint32_t at = sl_guide_take(gd, 2 * kept);
    if (!at) return;
    for (uint32_t k = 0; k < kept; k++) {
        gd->pool[at + 2 * k] = gd->list[k];
        gd->pool[at + 2 * k + 1] = SL_STEP_UNKNOWN;
    }
    d->calls = at;
    d->n_call = kept;
}

/* The node of the sorted states list [n]; SL_STEP_DEAD: none, or a fault. */
static uint32_t intern(sl_guide *gd, uint32_t n)
{
    if (!n || !work(gd, n)) return SL_STEP_DEAD;
    uint32_t slot = (uint32_t)sl_hash_bytes(gd->list, n * sizeof *gd->list) & gd->node_hash_mask;
    for (uint32_t i = gd->node_hash[slot]; i; i = gd->nodes[i].hash_next)
        if (gd->nodes[i].n_set == n && memcmp(gd->pool + gd->nodes[i].set, gd->list, n * sizeof *gd->list) == 0) return i;
    if (gd->n_node == gd->max_node) fault(gd, SL_FAULT_MEMORY);
    uint32_t set = gd->fault == SL_FAULT_NONE ? sl_guide_take(gd, n) : 0;
    if (!set) return SL_STEP_DEAD;
    memcpy(gd->pool + set, gd->list, n * sizeof *gd->list);
    sl_guide_node d = {.set = set, .n_set = n};
    describe(gd, &d);
    if (d.flags & SL_NODE_CALLS) list_calls(gd, &d);
    if (gd->fault != SL_FAULT_NONE) return SL_STEP_DEAD;
    d.hash_next = gd->node_hash[slot];
    gd->nodes[gd->n_node] = d;
    gd->node_hash[slot] = gd->n_node;
    return gd->n_node++;
}

uint32_t sl_guide_start_node(sl_guide *gd, uint32_t rule)
{
    if (gd->start[rule]) return gd->start[rule];
    new_stamp(gd);
    uint32_t node = intern(gd, trim(gd, add_closure(gd, 0, gd->g->start[rule])));
    if (node != SL_STEP_DEAD || gd->fault == SL_FAULT_NONE) gd->start[rule] = node;
    return node;
}

/* The node behind a call. */
static uint32_t call_target(sl_guide *gd, uint32_t node, uint32_t i_call)
{
    const sl_gram *g = gd->g;
    sl_guide_node d = gd->nodes[node];
    uint32_t *known = &gd->pool[d.calls + 2 * i_call + 1], rule = known[-1], n = 0;
    if (*known != SL_STEP_UNKNOWN) return *known;
    new_stamp(gd);
    for (uint32_t k = 0; k < d.n_set; k++) {
        uint32_t s = gd->pool[d.set + k];
        for (uint32_t i = g->first[s]; i < g->first[s + 1]; i++)
            if (g->arcs[i].kind == SL_EDGE_CALL && g->arcs[i].arg == rule) n = add_closure(gd, n, g->arcs[i].to);
    }
    if (!work(gd, n + d.n_set)) return SL_STEP_DEAD;
    uint32_t to = intern(gd, trim(gd, n));
    if (gd->fault == SL_FAULT_NONE) *known = to;
    return to;
}

uint32_t sl_guide_step(sl_guide *gd, uint32_t node, uint8_t byte)
{
    const sl_gram *g = gd->g;
    sl_guide_node *d = &gd->nodes[node];
    uint32_t n = 0;
    if (!(d->flags & SL_NODE_BYTES)) return SL_STEP_DEAD;
    if (!d->row) {
        uint32_t row = sl_guide_take(gd, g->n_class);
        if (!row) return SL_STEP_DEAD;
        memset(gd->pool + row, 0, g->n_class * sizeof *gd->pool);
        d->row = row;
    }
    uint32_t *known = &gd->pool[d->row + g->class_of[byte]];
    if (*known != SL_STEP_UNKNOWN) return *known;
    new_stamp(gd);
    for (uint32_t k = 0; k < d->n_set; k++) {
        uint32_t s = gd->pool[d->set + k];
        for (uint32_t i = g->first[s]; i < g->first[s + 1]; i++) {
            const sl_gram_arc *a = &g->arcs[i];
            if (a->kind == SL_EDGE_BYTES && a->lo <= byte && byte <= a->hi) n = add_closure(gd, n, a->to);
        }
    }
    if (!work(gd, n + d->n_set)) return SL_STEP_DEAD;
    uint32_t to = intern(gd, trim(gd, n));
    if (gd->fault == SL_FAULT_NONE) *known = to;
    return to;
}

/* ---- stacks ---- */

static uint32_t stack_slot(uint32_t node, uint32_t parent)
{
    return (uint32_t)(((uint64_t)node * 0x9E3779B1u + (uint64_t)parent * 0x85EBCA77u) >> 7) & (2 * SL_GUIDE_MAX_STACKS - 1);
}

static uint32_t push(sl_guide *gd, uint32_t node, uint32_t parent)
{
    uint32_t slot = stack_slot(node, parent);
    for (uint32_t i = gd->stack_hash[slot]; i; i = gd->stacks[i].hash_next)
        if (gd->stacks[i].node == node && gd->stacks[i].parent == parent) return i;
    if (gd->n_stack == SL_GUIDE_MAX_STACKS) {
        fault(gd, SL_FAULT_MEMORY);
        return SL_STACK_EMPTY;
    }
    gd->stacks[gd->n_stack] = (sl_guide_stack){node, parent, gd->stacks[parent].depth + 1, gd->stack_hash[slot]};
    gd->stack_hash[slot] = gd->n_stack;
    return gd->n_stack++;
}

/* ---- items ---- */

void sl_guide_level_begin(sl_guide_level *lv, uint32_t from)
{
    *lv = (sl_guide_level){.from = from};
}

void sl_guide_put(sl_guide *gd, sl_guide_level *lv, uint32_t node, uint32_t stack)
{
    sl_guide_item *items = gd->items + lv->from;
    uint32_t deepest = gd->stacks[stack].depth + gd->nodes[node].need;
    if (deepest > gd->reach) gd->reach = (uint16_t)(deepest < UINT16_MAX ? deepest : UINT16_MAX);
    if (deepest > SL_GRAM_MAX_STACK || !work(gd, lv->n + 1)) return; /* no room to finish it: as if refused */
    for (uint32_t i = 0; i < lv->n; i++)
        if (items[i].node == node && items[i].stack == stack) return;
    if (lv->n == SL_GUIDE_MAX_ITEMS || lv->from + lv->n == SL_GUIDE_WALK_ITEMS) {
        fault(gd, SL_FAULT_ITEMS);
        return;
    }
    items[lv->n++] = (sl_guide_item){node, stack};
}

static void follow_calls(sl_guide *gd, sl_guide_level *lv, sl_guide_item it)
{
    uint32_t n = gd->nodes[it.node].n_call;
    for (uint32_t i = 0; i < n && gd->fault == SL_FAULT_NONE; i++) {
        uint32_t rule = gd->pool[gd->nodes[it.node].calls + 2 * i];
        uint32_t to = call_target(gd, it.node, i), callee = sl_guide_start_node(gd, rule);
        if (to == SL_STEP_DEAD || callee == SL_STEP_DEAD) continue;
        const sl_guide_node *d = &gd->nodes[to];
        bool last = d->flags == SL_NODE_END; /* nothing to come back for, and nothing to remember */
        if (!last && gd->stacks[it.stack].depth + d->need > SL_GRAM_MAX_STACK) {
            gd->reach = UINT16_MAX;
            continue;
        }
        uint32_t stack = last ? it.stack : push(gd, to, it.stack);
        if (gd->fault == SL_FAULT_NONE) sl_guide_put(gd, lv, callee, stack);
    }
}

void sl_guide_close_level(sl_guide *gd, sl_guide_level *lv)
{
    uint32_t kept = 0;
    sl_guide_item *items = gd->items + lv->from;
    for (uint32_t i = 0; i < lv->n && gd->fault == SL_FAULT_NONE; i++) {
        sl_guide_item it = items[i];
        uint8_t flags = gd->nodes[it.node].flags;
        if (flags & SL_NODE_END) {
            lv->can_end |= it.stack == SL_STACK_EMPTY;
            lv->exit |= it.stack == SL_STACK_BASE;
            if (it.stack >= SL_STACK_FIRST) sl_guide_put(gd, lv, gd->stacks[it.stack].node, gd->stacks[it.stack].parent);
        }
        if (flags & SL_NODE_CALLS) follow_calls(gd, lv, it);
    }
    for (uint32_t i = 0; i < lv->n; i++)
        if (gd->nodes[items[i].node].flags & SL_NODE_BYTES) items[kept++] = items[i];
    lv->n = kept;
}

bool sl_guide_advance(sl_guide *gd, const sl_guide_level *up, uint8_t byte, sl_guide_level *out)
{
    sl_guide_level_begin(out, up->from + up->n);
    for (uint32_t i = 0; i < up->n && gd->fault == SL_FAULT_NONE; i++) {
        sl_guide_item it = gd->items[up->from + i];
        uint32_t to = sl_guide_step(gd, it.node, byte);
        if (to != SL_STEP_DEAD) sl_guide_put(gd, out, to, it.stack);
    }
    sl_guide_close_level(gd, out);
    return gd->fault == SL_FAULT_NONE && (out->n || out->can_end || out->exit);
}

/* ---- forgetting ---- */

static void forget_nodes(sl_guide *gd)
{
    gd->n_node = SL_NODE_FIRST;
    gd->n_pool = 1; /* 0 means none */
    memset(gd->node_hash, 0, ((size_t)gd->node_hash_mask + 1) * sizeof *gd->node_hash);
    memset(gd->start, 0, gd->g->n_rule * sizeof *gd->start);
}

void sl_guide_forget(sl_guide *gd)
{
    forget_nodes(gd);
    gd->n_stack = SL_STACK_FIRST;
    memset(gd->stack_hash, 0, 2 * SL_GUIDE_MAX_STACKS * sizeof *gd->stack_hash);
    gd->stacks[SL_STACK_EMPTY] = gd->stacks[SL_STACK_BASE] = (sl_guide_stack){0};
}

static sl_guide_slot *kept_slot(sl_guide *gd, uint32_t back)
{
    return &gd->slots[(gd->slot + SL_GUIDE_SLOTS - back) % SL_GUIDE_SLOTS];
}

/* Marks what the kept positions need: stacks by a depth with the top bit set, nodes by live. */
#define LIVE 0x80000000u
static void mark_live(sl_guide *gd)
{
    for (uint32_t back = 0; back <= gd->n_back; back++) {
        const sl_guide_slot *sl = kept_slot(gd, back);
        for (uint32_t i = 0; i < sl->n; i++) {
            gd->nodes[sl->items[i].node].live = true;
            for (uint32_t s = sl->items[i].stack; s >= SL_STACK_FIRST && !(gd->stacks[s].depth & LIVE); s = gd->stacks[s].parent) {
                gd->stacks[s].depth |= LIVE;
                gd->nodes[gd->stacks[s].node].live = true;
            }
        }
    }
}

/* The sets of live nodes go to the walk's arena and become new nodes. */
static bool renew_nodes(sl_guide *gd)
{
    uint32_t *copy = (uint32_t *)(void *)gd->items, n = 0, before = gd->n_node, max = 2 * SL_GUIDE_WALK_ITEMS;
    for (uint32_t i = SL_NODE_FIRST; i < before; i++) {
        const sl_guide_node *d = &gd->nodes[i];
        gd->renumber[i] = d->live ? d->n_set : 0;
        if (!d->live) continue;
        if (d->n_set > max - n) return false;
        memcpy(copy + n, gd->pool + d->set, d->n_set * sizeof *copy);
        n += d->n_set;
    }
    forget_nodes(gd);
    for (uint32_t i = SL_NODE_FIRST, at = 0; i < before; i++) {
        uint32_t n_set = gd->renumber[i];
        if (!n_set) continue;
        memcpy(gd->list, copy + at, n_set * sizeof *copy);
        at += n_set;
        gd->renumber[i] = intern(gd, n_set);
    }
    return gd->fault == SL_FAULT_NONE;
}

/* Parents come before their children, so one pass down the table is enough; a new number is never above the old. */
static void renew_stacks(sl_guide *gd)
{
    uint32_t before = gd->n_stack, *renumber = (uint32_t *)(void *)gd->items;
    memset(gd->stack_hash, 0, 2 * SL_GUIDE_MAX_STACKS * sizeof *gd->stack_hash);
    gd->n_stack = SL_STACK_FIRST;
    renumber[SL_STACK_EMPTY] = SL_STACK_EMPTY;
    for (uint32_t i = SL_STACK_FIRST; i < before; i++) {
        sl_guide_stack s = gd->stacks[i];
        if (s.depth & LIVE) renumber[i] = push(gd, gd->renumber[s.node], renumber[s.parent]);
    }
    for (uint32_t back = 0; back <= gd->n_back; back++) {
        sl_guide_slot *sl = kept_slot(gd, back);
        for (uint32_t i = 0; i < sl->n; i++)
            sl->items[i] = (sl_guide_item){gd->renumber[sl->items[i].node], renumber[sl->items[i].stack]};
    }
}

bool sl_guide_compact(sl_guide *gd)
{
    gd->fault = SL_FAULT_NONE;
    gd->work = 0;
    mark_live(gd);
    if (!renew_nodes(gd)) return false;
    renew_stacks(gd);
    return gd->fault == SL_FAULT_NONE;
}
