/* The vocabulary against a position.  What an item allows by itself depends on its node alone and is kept (sl_node_mask);
 * only tokens that run past the end of the item's rule are looked at each time, from where the rule may end in the tree.
 *
 * So in the body of a JSON string the mask is a copy of one that was made before, plus a look at what may follow a closing
 * quote here. */
#include "text/guide_int.h"

#include <string.h>

static void set_bit(uint64_t *bits, uint32_t id)
{
    bits[id >> 6] |= (uint64_t)1 << (id & 63);
}

/* ---- down the tree ---- */

typedef struct {
    uint64_t *bits;
    bool exits; /* note where the rule of the first item may have ended */
    uint32_t n_exit;
} sink;

/* The usual case of a level: one item, whose next node neither calls nor ends.  Its node, or UNKNOWN when it takes more
 * than that to tell. */
static inline uint32_t simple_step(const sl_guide *gd, const sl_guide_level *up, uint8_t byte)
{
    if (up->n != 1) return SL_STEP_UNKNOWN;
    const sl_guide_node *d = &gd->nodes[gd->items[up->from].node];
    uint32_t to = d->row ? gd->pool[d->row + gd->g->class_of[byte]] : SL_STEP_UNKNOWN;
    if (to <= SL_STEP_DEAD) return to;
    const sl_guide_node *next = &gd->nodes[to];
    uint32_t depth = gd->stacks[gd->items[up->from].stack].depth;
    return next->flags == SL_NODE_BYTES && depth + next->need <= gd->reach && depth + next->need <= SL_GRAM_MAX_STACK
               ? to
               : SL_STEP_UNKNOWN;
}

/* Nodes [from, to) of the tree, which lie below depth base, from levels[0] on. */
static void walk(sl_guide *gd, uint32_t from, uint32_t to, unsigned base, sink *out)
{
    const sl_trie_node *tree = gd->trie->nodes;
    for (uint32_t i = from; i < to && gd->fault == SL_FAULT_NONE;) {
        sl_trie_node t = tree[i];
        const sl_guide_level *up = &gd->levels[t.depth - base - 1];
        sl_guide_level *lv = &gd->levels[t.depth - base];
        uint32_t node = simple_step(gd, up, t.byte);
        if (node >= SL_NODE_FIRST && up->from + 1 < SL_GUIDE_WALK_ITEMS) {
            gd->items[up->from + 1] = (sl_guide_item){node, gd->items[up->from].stack};
            *lv = (sl_guide_level){.from = up->from + 1, .n = 1};
        } else if (node == SL_STEP_DEAD || !sl_guide_advance(gd, up, t.byte, lv)) {
            i += t.skip;
            continue;
        }
        if (t.token != SL_TRIE_NO_TOKEN) set_bit(out->bits, t.token);
        if (lv->exit && out->exits && t.skip > 1) {
            if (out->n_exit < SL_GUIDE_MAX_EXITS) gd->exits[out->n_exit] = i;
            out->n_exit++;
        }
        i += lv->n ? 1 : t.skip;
    }
}

/* ---- what a node allows by itself ---- */

static const sl_node_mask *mask_at(const sl_guide *gd, uint32_t at)
{
    return (const sl_node_mask *)(const void *)(gd->pool + at);
}

/* Puts what was found into the pool; fewer tokens than the bit field has words are listed. */
static uint32_t store(sl_guide *gd, const sink *found)
{
    uint32_t n_token = 0;
    for (uint32_t w = 0; w < gd->n_word; w++)
        n_token += (uint32_t)__builtin_popcountll(found->bits[w]);
    sl_node_mask m = {.n_token = n_token, .n_exit = found->n_exit, .reach = gd->reach};
    m.whole = found->n_exit > SL_GUIDE_MAX_EXITS;
    m.sparse = n_token < 2 * gd->n_word;
    if (m.whole) m = (sl_node_mask){.whole = true, .sparse = true};
    uint32_t n = m.sparse ? m.n_token : 2 * gd->n_word;
    uint32_t at = sl_guide_take(gd, SL_NODE_MASK_WORDS + n + m.n_exit);
    if (!at) return 0;
    uint32_t *p = gd->pool + at + SL_NODE_MASK_WORDS, k = 0;
    memcpy(gd->pool + at, &m, sizeof m);
    if (!m.sparse) memcpy(p, found->bits, n * sizeof *p);
    for (uint32_t w = 0; w < gd->n_word && m.sparse && k < n; w++)
        for (uint64_t bits = found->bits[w]; bits; bits &= bits - 1)
            p[k++] = w * 64 + (uint32_t)__builtin_ctzll(bits);
    memcpy(p + n, gd->exits, m.n_exit * sizeof *p);
    return at;
}

/* Where the node's mask lies in the pool; 0: a fault. */
static uint32_t node_mask(sl_guide *gd, uint32_t node)
{
    if (gd->nodes[node].mask) return gd->nodes[node].mask;
    sink found = {.bits = gd->scratch, .exits = true};
    memset(gd->scratch, 0, gd->n_word * sizeof *gd->scratch);
    gd->items[0] = (sl_guide_item){node, SL_STACK_BASE};
    gd->levels[0] = (sl_guide_level){.n = 1};
    gd->reach = gd->nodes[node].need;
    walk(gd, 0, gd->trie->n, 0, &found);
    if (gd->fault != SL_FAULT_NONE) return 0;
    gd->nodes[node].mask = store(gd, &found);
    return gd->nodes[node].mask;
}

/* ---- a position ---- */

static void add_mask(sl_guide *gd, const sl_node_mask *m)
{
    const uint32_t *p = (const uint32_t *)(const void *)(m + 1);
    if (m->sparse) {
        for (uint32_t k = 0; k < m->n_token; k++)
            set_bit(gd->mask, p[k]);
        return;
    }
    uint32_t *to = (uint32_t *)(void *)gd->mask;
    for (uint32_t w = 0; w < 2 * gd->n_word; w++)
        to[w] |= p[w];
}

/* Bytes, by class, that move an item of levels[0]. */
static void find_first(sl_guide *gd, bool *first)
{
    const uint8_t *class_of = gd->g->class_of;
    const sl_guide_level *lv = &gd->levels[0];
    for (unsigned byte = 0; byte < 256; byte++) {
        if (byte && class_of[byte] == class_of[byte - 1]) continue;
        bool *moves = &first[class_of[byte]];
        *moves = false;
        for (uint32_t i = 0; i < lv->n && !*moves; i++)
            *moves = sl_guide_step(gd, gd->items[lv->from + i].node, (uint8_t)byte) != SL_STEP_DEAD;
    }
}

/* Tokens that go on behind the end of the item's rule. */
static void follow_exits(sl_guide *gd, sl_guide_item it, const sl_node_mask *m)
{
    const sl_trie_node *tree = gd->trie->nodes;
    const uint32_t *exits = (const uint32_t *)(const void *)(m + 1) + (m->sparse ? m->n_token : 2 * gd->n_word);
    bool first[256];
    sink out = {.bits = gd->mask};
    if (!m->n_exit || it.stack < SL_STACK_FIRST) return;
    sl_guide_level_begin(&gd->levels[0], 0);
    sl_guide_put(gd, &gd->levels[0], gd->stacks[it.stack].node, gd->stacks[it.stack].parent);
    sl_guide_close_level(gd, &gd->levels[0]);
    if (!gd->levels[0].n) return;
    find_first(gd, first);
    gd->reach = SL_GRAM_MAX_STACK; /* nothing is kept of this walk */
    for (uint32_t k = 0; k < m->n_exit && gd->fault == SL_FAULT_NONE; k++) {
        uint32_t x = exits[k], end = x + tree[x].skip;
        for (uint32_t c = x + 1; c < end; c += tree[c].skip)
            if (first[gd->g->class_of[tree[c].byte]]) walk(gd, c, c + tree[c].skip, tree[x].depth, &out);
    }
}

static bool must_look(const sl_guide *gd, sl_guide_item it, const sl_node_mask *m)
{
    return m->whole || gd->stacks[it.stack].depth + m->reach > SL_GRAM_MAX_STACK;
}

/* The items whose masks say nothing, against the whole tree. */
static void look_at_all(sl_guide *gd, const sl_guide_slot *sl)
{
    sink out = {.bits = gd->mask};
    sl_guide_level_begin(&gd->levels[0], 0);
    for (uint32_t i = 0; i < sl->n; i++)
        if (must_look(gd, sl->items[i], mask_at(gd, gd->nodes[sl->items[i].node].mask)))
            sl_guide_put(gd, &gd->levels[0], sl->items[i].node, sl->items[i].stack);
    gd->reach = SL_GRAM_MAX_STACK;
    if (gd->levels[0].n) walk(gd, 0, gd->trie->n, 0, &out);
}

/* Tokens outside the tree. */
static void add_others(sl_guide *gd, const sl_guide_slot *sl)
{
    const sl_guide_level *lv;
    for (uint32_t i = 0; i < gd->n_end && sl->can_end; i++)
        set_bit(gd->mask, (uint32_t)gd->ends[i]);
    for (uint32_t i = 0; i < gd->n_control; i++) {
        size_t n;
        const char *text = sl_token_bytes(gd->trie->t, gd->control[i], true, &n);
        if (sl_guide_try(gd, text, n, &lv)) set_bit(gd->mask, (uint32_t)gd->control[i]);
    }
}

void sl_guide_fill_mask(sl_guide *gd)
{
    const sl_guide_slot *sl = &gd->slots[gd->slot];
    memset(gd->mask, 0, gd->n_word * sizeof *gd->mask);
    for (uint32_t i = 0; i < sl->n; i++)
        if (!node_mask(gd, sl->items[i].node)) return;
    for (uint32_t i = 0; i < sl->n && gd->fault == SL_FAULT_NONE; i++) {
        const sl_node_mask *m = mask_at(gd, gd->nodes[sl->items[i].node].mask);
        if (must_look(gd, sl->items[i], m)) continue;
        add_mask(gd, m);
        follow_exits(gd, sl->items[i], m);
    }
    if (gd->fault == SL_FAULT_NONE) look_at_all(gd, sl);
    if (gd->fault == SL_FAULT_NONE) add_others(gd, sl);
}

bool sl_guide_try(sl_guide *gd, const char *bytes, size_t n_bytes, const sl_guide_level **out)
{
    const sl_guide_slot *sl = &gd->slots[gd->slot];
    if (n_bytes < 1 || n_bytes > 255) return false;
    memcpy(gd->items, sl->items, sl->n * sizeof *sl->items);
    gd->levels[0] = (sl_guide_level){.n = sl->n};
    for (size_t i = 0; i < n_bytes; i++)
        if (!sl_guide_advance(gd, &gd->levels[i], (uint8_t)bytes[i], &gd->levels[i + 1])) return false;
    *out = &gd->levels[n_bytes];
    return true;
}
