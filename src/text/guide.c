/* A guide's life: one block of memory for everything, positions in a ring so that some can be taken back. */
#include "text/guide_int.h"

#include <string.h>

enum { LEAST_POOL_WORDS = 1 << 16 };

/* ---- memory ---- */

typedef struct {
    uint32_t n_node, n_pool, n_hash; /* n_hash: a power of two */
} sizes;

static void layout(sl_guide *gd, sl_arena *a, const sizes *s, uint32_t n_end)
{
    gd->mask = sl_arena_take(a, gd->n_word, sizeof *gd->mask, 8);
    gd->scratch = sl_arena_take(a, gd->n_word, sizeof *gd->scratch, 8);
    gd->slots = sl_arena_take(a, SL_GUIDE_SLOTS, sizeof *gd->slots, 8);
    gd->items = sl_arena_take(a, SL_GUIDE_WALK_ITEMS, sizeof *gd->items, 8);
    gd->stacks = sl_arena_take(a, SL_GUIDE_MAX_STACKS, sizeof *gd->stacks, 8);
    gd->stack_hash = sl_arena_take(a, 2 * SL_GUIDE_MAX_STACKS, sizeof *gd->stack_hash, 8);
    gd->exits = sl_arena_take(a, SL_GUIDE_MAX_EXITS, sizeof *gd->exits, 8);
    gd->seen = sl_arena_take(a, gd->g->n_state, sizeof *gd->seen, 8);
    gd->list = sl_arena_take(a, gd->n_list, sizeof *gd->list, 8);
    gd->start = sl_arena_take(a, gd->g->n_rule, sizeof *gd->start, 8);
    gd->ends = sl_arena_take(a, n_end, sizeof *gd->ends, 8);
    gd->nodes = sl_arena_take(a, s->n_node, sizeof *gd->nodes, 8);
    gd->renumber = sl_arena_take(a, s->n_node, sizeof *gd->renumber, 8);
    gd->node_hash = sl_arena_take(a, s->n_hash, sizeof *gd->node_hash, 8);
    gd->pool = sl_arena_take(a, s->n_pool, sizeof *gd->pool, 8);
}

static uint64_t fixed_bytes(uint32_t n_vocab)
{
    return ((uint64_t)n_vocab + 63) / 64 * 16 + SL_GUIDE_SLOTS * sizeof(sl_guide_slot) +
           SL_GUIDE_WALK_ITEMS * sizeof(sl_guide_item) + SL_GUIDE_MAX_STACKS * (sizeof(sl_guide_stack) + 8) +
           SL_GUIDE_MAX_EXITS * 4;
}

uint64_t sl_guide_least_bytes(uint32_t n_vocab)
{
    return fixed_bytes(n_vocab) + 8 * ((uint64_t)n_vocab / 8) + 5 * LEAST_POOL_WORDS * 4;
}

/* Splits what the grammar's own tables leave: a quarter for nodes, the rest for what is known of them. */
static sl_status allocate(sl_guide *gd, uint64_t max_bytes, uint32_t n_end, sl_err *err)
{
    uint64_t fixed = fixed_bytes(gd->n_vocab) + (uint64_t)gd->g->n_state * 4 + (uint64_t)gd->n_list * 4 +
                     (uint64_t)gd->g->n_rule * 4 + n_end * 4 + 256;
    uint64_t left = max_bytes > fixed ? max_bytes - fixed : 0;
    sizes s = {.n_hash = 1024};
    uint64_t per_node = sizeof(sl_guide_node) + 4 + 8;
    s.n_node = (uint32_t)sl_min_u64(left / 4 / per_node, 1u << 20);
    while (s.n_hash < s.n_node)
        s.n_hash *= 2;
    uint64_t rest = s.n_node * (uint64_t)(per_node - 8) + s.n_hash * 4ull;
    s.n_pool = rest < left ? (uint32_t)sl_min_u64((left - rest) / 4, UINT32_MAX / 2) : 0;
    if (s.n_node < 256 || s.n_pool < LEAST_POOL_WORDS) {
        char have[24], need[24];
        return sl_fail(err, SL_ERR_LIMIT, "constrained output has %s of memory, this grammar and vocabulary need about %s",
                       sl_size_text(max_bytes, have), sl_size_text(fixed + sl_guide_least_bytes(gd->n_vocab), need));
    }
    sl_arena a = {.cap = SIZE_MAX};
    layout(gd, &a, &s, n_end);
    gd->bytes = a.used;
    gd->block = sl_calloc(1, a.used); /* large: mapped zero pages that become real as they are used */
    if (!gd->block) return sl_fail(err, SL_ERR_NOMEM, "no memory for constrained output");
    a = (sl_arena){.base = gd->block, .cap = a.used};
    layout(gd, &a, &s, n_end);
    gd->max_node = s.n_node;
    gd->max_pool = s.n_pool;
    gd->node_hash_mask = s.n_hash - 1;
    return SL_OK;
}

/* ---- opening ---- */

static sl_status take_control(sl_guide *gd, const int32_t *control, size_t n, sl_err *err)
{
    if (n > SL_GUIDE_MAX_CONTROL)
        return sl_fail(err, SL_ERR_ARG, "%zu control tokens for a grammar, the limit is %d", n, SL_GUIDE_MAX_CONTROL);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *text = sl_token_bytes(gd->trie->t, control[i], true, &len);
        if (!text || !len || (uint32_t)control[i] >= gd->n_vocab || sl_tokenizer_is_end(gd->trie->t, control[i]))
            return sl_fail(err, SL_ERR_ARG, "control token %d of a grammar has no text, or ends generation", control[i]);
        gd->control[gd->n_control++] = control[i];
    }
    return SL_OK;
}

static uint32_t count_ends(const sl_guide *gd, int32_t *ids)
{
    const sl_vocab *v = &gd->trie->t->vocab;
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->n && id < gd->n_vocab; id++) {
        if (!(v->attr[id] & SL_ATTR_END)) continue;
        if (ids) ids[n] = (int32_t)id;
        n++;
    }
    return n;
}

static uint32_t list_size(const sl_gram *g)
{
    uint32_t calls = 0;
    for (uint32_t i = 0; i < g->n_arc; i++)
        calls += g->arcs[i].kind == SL_EDGE_CALL;
    return calls > g->n_state ? calls : g->n_state;
}

sl_status sl_guide_open(sl_guide **out, const sl_gram *gram, const sl_token_trie *trie, uint32_t n_vocab,
                        const int32_t *control, size_t n_control, uint64_t max_bytes, sl_err *err)
{
    if (n_vocab < trie->t->vocab.n_usable)
        return sl_fail(err, SL_ERR_ARG, "logits of %u tokens for a vocabulary of %u", n_vocab, trie->t->vocab.n_usable);
    sl_guide *gd = sl_calloc(1, sizeof *gd);
    if (!gd) return sl_fail(err, SL_ERR_NOMEM, "no memory for constrained output");
    gd->g = gram;
    gd->trie = trie;
    gd->n_vocab = n_vocab;
    gd->n_word = (n_vocab + 63) / 64;
    gd->n_list = list_size(gram);
    gd->n_end = count_ends(gd, NULL);
    sl_status rc = take_control(gd, control, n_control, err);
    if (rc == SL_OK) rc = allocate(gd, max_bytes, gd->n_end, err);
    if (rc == SL_OK) {
        count_ends(gd, gd->ends);
        rc = sl_guide_reset(gd, err);
    }
    if (rc != SL_OK) {
        sl_guide_close(gd);
        return rc;
    }
    *out = gd;
    return SL_OK;
}

void sl_guide_close(sl_guide *gd)
{
    if (!gd) return;
    sl_free(gd->block);
    sl_free(gd);
}

/* ---- faults ---- */

static sl_status fail_fault(sl_guide *gd, sl_err *err)
{
    sl_guide_fault f = gd->fault;
    gd->fault = SL_FAULT_NONE;
    if (gd->broken) return sl_fail(err, SL_ERR_LIMIT, "constrained output: positions in this grammar do not fit its memory");
    if (f == SL_FAULT_WORK)
        return sl_fail(err, SL_ERR_LIMIT, "constrained output: checking one token takes more than %u steps; the grammar is too ambiguous",
                       SL_GUIDE_MAX_WORK);
    if (f == SL_FAULT_ITEMS)
        return sl_fail(err, SL_ERR_LIMIT, "constrained output: the text can be read in more than %d ways at once; the grammar is too ambiguous",
                       SL_GUIDE_MAX_ITEMS);
    return sl_fail(err, SL_ERR_LIMIT, "constrained output: checking one token takes more memory than its %zu bytes", (size_t)gd->bytes);
}

/* After a failed try: true when there is room again and it is worth another. */
static bool try_again(sl_guide *gd, int attempt)
{
    if (gd->fault != SL_FAULT_MEMORY || attempt > 0) return false;
    if (sl_guide_compact(gd)) return true;
    gd->broken = true;
    return false;
}

static void begin(sl_guide *gd)
{
    gd->work = 0;
    gd->fault = SL_FAULT_NONE;
}

/* ---- positions ---- */

static void keep(sl_guide_slot *sl, const sl_guide *gd, const sl_guide_level *lv)
{
    memcpy(sl->items, gd->items + lv->from, lv->n * sizeof *sl->items);
    sl->n = lv->n;
    sl->can_end = lv->can_end;
    sl->ended = false;
}

sl_status sl_guide_reset(sl_guide *gd, sl_err *err)
{
    begin(gd);
    if (gd->broken || !gd->n_node) sl_guide_forget(gd);
    gd->broken = false;
    gd->n_back = 0;
    gd->slots[gd->slot].n = 0;
    for (int attempt = 0;; attempt++) {
        sl_guide_level_begin(&gd->levels[0], 0);
        uint32_t start = sl_guide_start_node(gd, gd->g->root);
        if (start != SL_STEP_DEAD) sl_guide_put(gd, &gd->levels[0], start, SL_STACK_EMPTY);
        sl_guide_close_level(gd, &gd->levels[0]);
        if (gd->fault == SL_FAULT_NONE) break;
        if (gd->fault == SL_FAULT_MEMORY && attempt == 0) {
            begin(gd);
            sl_guide_forget(gd);
            continue;
        }
        return fail_fault(gd, err);
    }
    keep(&gd->slots[gd->slot], gd, &gd->levels[0]);
    return SL_OK;
}

sl_status sl_guide_mask(sl_guide *gd, const uint64_t **mask, sl_err *err)
{
    uint64_t any = 0;
    for (int attempt = 0;; attempt++) {
        begin(gd);
        if (gd->broken) return fail_fault(gd, err);
        sl_guide_fill_mask(gd);
        if (gd->fault == SL_FAULT_NONE) break;
        if (!try_again(gd, attempt)) return fail_fault(gd, err);
    }
    for (uint32_t w = 0; w < gd->n_word; w++)
        any |= gd->mask[w];
    if (!any) return sl_fail(err, SL_ERR_FORMAT, "constrained output: no token of this vocabulary can go on from here");
    *mask = gd->mask;
    return SL_OK;
}

/* Where the token leads; *out NULL: it is an end.  *allowed false: nowhere. */
static sl_status follow(sl_guide *gd, int32_t token, bool *allowed, const sl_guide_level **out, sl_err *err)
{
    const sl_tokenizer *t = gd->trie->t;
    size_t n = 0;
    bool known = token >= 0 && (uint32_t)token < gd->n_vocab && (uint32_t)token < t->vocab.n, control = false;
    *allowed = false;
    *out = NULL;
    if (known && sl_tokenizer_is_end(t, token)) {
        *allowed = gd->slots[gd->slot].can_end;
        return SL_OK;
    }
    for (uint32_t i = 0; i < gd->n_control; i++)
        control |= gd->control[i] == token;
    const char *text = known ? sl_token_bytes(t, token, control, &n) : NULL;
    if (!text || !n || (uint32_t)token >= t->vocab.n_usable) return SL_OK;
    for (int attempt = 0;; attempt++) {
        begin(gd);
        if (gd->broken) return fail_fault(gd, err);
        *allowed = sl_guide_try(gd, text, n, out);
        if (gd->fault == SL_FAULT_NONE) return SL_OK;
        if (!try_again(gd, attempt)) return fail_fault(gd, err);
    }
}

sl_status sl_guide_allows(sl_guide *gd, int32_t token, bool *allowed, sl_err *err)
{
    const sl_guide_level *lv;
    return follow(gd, token, allowed, &lv, err);
}

sl_status sl_guide_accept(sl_guide *gd, int32_t token, sl_err *err)
{
    const sl_guide_level *lv;
    bool allowed;
    sl_status rc = follow(gd, token, &allowed, &lv, err);
    if (rc != SL_OK) return rc;
    if (!allowed) return sl_fail(err, SL_ERR_ARG, "token %d is not allowed here by the grammar", token);
    gd->slot = (gd->slot + 1) % SL_GUIDE_SLOTS;
    if (gd->n_back < SL_GUIDE_MAX_ROLLBACK) gd->n_back++;
    if (lv)
        keep(&gd->slots[gd->slot], gd, lv);
    else
        gd->slots[gd->slot].n = 0, gd->slots[gd->slot].can_end = false, gd->slots[gd->slot].ended = true;
    return SL_OK;
}

sl_status sl_guide_rollback(sl_guide *gd, size_t n, sl_err *err)
{
    if (n > gd->n_back)
        return sl_fail(err, SL_ERR_ARG, "%zu tokens to take back, the grammar remembers %u", n, gd->n_back);
    gd->slot = (gd->slot + SL_GUIDE_SLOTS - (uint32_t)n) % SL_GUIDE_SLOTS;
    gd->n_back -= (uint32_t)n;
    return SL_OK;
}

bool sl_guide_can_end(const sl_guide *gd)
{
    return gd->slots[gd->slot].can_end || gd->slots[gd->slot].ended;
}

bool sl_guide_must_end(const sl_guide *gd)
{
    return sl_guide_can_end(gd) && gd->slots[gd->slot].n == 0;
}
