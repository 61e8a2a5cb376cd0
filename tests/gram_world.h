/* For tests of constrained output: a small vocabulary whose tokens cross every border of JSON, and texts against
 * grammars. */
#ifndef GRAM_WORLD_H
#define GRAM_WORLD_H

#include "support.h"
#include "text/guide_int.h"
#include "tok_build.h"

enum { WORLD_CONTROL = 256, WORLD_END = 257, WORLD_BYTES_MAX = 8 << 20 };

/* Bytes are ids 0 to 255; then a control token, an end token, and words. */
static inline sl_tokenizer *world_tokenizer(void)
{
    static const char *const words[] = {
        "{\"",  "\":",    "\": ",  "\": \"", "\", \"", "\"}",   "\"},",  "\",",    "\"]",    "\"],",  "],",    "},",
        "}}",   "]}",     "}]",    "[[",     "{}",     "[]",    "[\"",   " \"",    "  ",     "\n",    "\n  ",  "\n    ",
        ",\n",  "{\n",    "}\n",   " {",     " [",     "true",  "false", "null",   " true",  " null", "name",  "\"name\"",
        "age",  "\"age",  " 1",    "12",     "123",    "-1",    "0.5",   "1e",     "E+",     "\\n",   "\\u",   "\\u00",
        "\\\"", "\\\\",   "abc",   "hello",  " world", "a\"b",  "a\",",  "2024",   "-01",    ":",     "T12",   "\xc3\xa9",
        "\xe6", "\x97\xa5", "\xf0\x9f", "\x98\x80", "(",      ")",     "+",     "aa",     "aaa",    "ab",    "ba",    "\xa5\"",
        "<tool_call>", "</tool_call>", "</think>", "k>{\"", "1\"",   ".",     "1,",     "0}",     "\"\"",   "\"\":", "\\ud8", "3d\\ude"};
    vocab *v = new_vocab("gpt2", "gpt-2");
    sl_tokenizer *t;
    add_bytes(v);
    add(v, "<|ctl|>", 3, 0);
    add(v, "<|im_end|>", 3, 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char c[64];
        disguise_text(words[i], c);
        add(v, keep(v, c), 1, 0);
    }
    add(v, keep(v, "abc"), 4, 0); /* the same text again */
    t = must_build(v, NULL);
    free(v);
    return t;
}

typedef struct {
    sl_tokenizer *t;
    sl_token_trie *trie;
    sl_gram *g;
    sl_guide *gd;
} world;

static inline void world_close(world *w)
{
    sl_guide_close(w->gd);
    sl_gram_close(w->g);
    sl_token_trie_close(w->trie);
    sl_tokenizer_close(w->t);
}

/* The status of compiling; the world is open when it is OK. */
static inline sl_status world_open(world *w, const sl_gram_options *o, sl_err *err)
{
    sl_gram_options opt = *o;
    *w = (world){0};
    if (!opt.max_bytes) opt.max_bytes = WORLD_BYTES_MAX;
    sl_status rc = sl_gram_open(&w->g, &opt, err);
    if (rc != SL_OK) return rc;
    w->t = world_tokenizer();
    ASSERT_OK(sl_token_trie_open(&w->trie, w->t, err), *err);
    uint32_t n = sl_tokenizer_vocab(w->t);
    rc = sl_guide_open(&w->gd, w->g, w->trie, n, NULL, 0, sl_guide_least_bytes(n) + sl_gram_bytes(w->g), err);
    if (rc != SL_OK) world_close(w);
    return rc;
}

static inline void open_world(world *w, sl_grammar_kind kind, const char *text)
{
    sl_err err = {0};
    sl_gram_options o = {.kind = kind, .text = text, .text_bytes = text ? strlen(text) : 0};
    if (world_open(w, &o, &err) != SL_OK) fail_msg("%s: %s", text, err.msg);
}

/* Does the grammar take the whole text, byte by byte? */
static inline bool takes(world *w, const char *text, size_t n)
{
    sl_err err = {0};
    ASSERT_OK(sl_guide_reset(w->gd, &err), err);
    for (size_t i = 0; i < n; i++)
        if (sl_guide_accept(w->gd, (uint8_t)text[i], &err) != SL_OK) return false;
    return sl_guide_can_end(w->gd);
}

/* yes and no: lists that end with NULL. */
static inline void check_texts(sl_grammar_kind kind, const char *grammar, const char *const *yes, const char *const *no)
{
    world w;
    open_world(&w, kind, grammar);
    for (; *yes; yes++)
        if (!takes(&w, *yes, strlen(*yes))) fail_msg("%s does not take '%s'", grammar ? grammar : "JSON", *yes);
    for (; *no; no++)
        if (takes(&w, *no, strlen(*no))) fail_msg("%s takes '%s'", grammar ? grammar : "JSON", *no);
    world_close(&w);
}
#define LIST(...)                 ((const char *const[]){__VA_ARGS__, NULL})
#define CHECK_TEXTS(kind, g, yes, no) check_texts(kind, g, yes, no)

static inline void check_no(sl_grammar_kind kind, const char *text, sl_status want, const char *part)
{
    world w;
    sl_err err = {0};
    sl_gram_options o = {.kind = kind, .text = text, .text_bytes = strlen(text)};
    sl_status rc = world_open(&w, &o, &err);
    if (rc == SL_OK) world_close(&w);
    if (rc != want || !strstr(err.msg, part)) fail_msg("'%.80s': status %d, '%s'; wanted %d, '%s'", text, rc, err.msg, want, part);
}

/* ---- a second opinion: every token, byte by byte, over explicit stacks ---- */

enum { NAIVE_STACK = 64, NAIVE_MAX = 4096 };
typedef struct {
    uint32_t state, depth, stack[NAIVE_STACK];
} naive_item;
typedef struct {
    naive_item *items;
    uint32_t n;
} naive;

static inline void naive_add(naive *x, const naive_item *it)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->items[i].state == it->state && x->items[i].depth == it->depth &&
            memcmp(x->items[i].stack, it->stack, it->depth * 4) == 0)
            return;
    if (x->n < NAIVE_MAX) x->items[x->n++] = *it;
}

static inline bool naive_close(const sl_gram *g, naive *x)
{
    bool can_end = false;
    for (uint32_t i = 0; i < x->n; i++) {
        naive_item it = x->items[i];
        for (uint32_t a = g->first[it.state]; a < g->first[it.state + 1]; a++) {
            naive_item next = it;
            const sl_gram_arc *arc = &g->arcs[a];
            if (arc->kind == SL_EDGE_EMPTY) {
                next.state = arc->to;
            } else if (arc->kind == SL_EDGE_CALL && it.depth < NAIVE_STACK) {
                next.stack[next.depth++] = arc->to;
                next.state = g->start[arc->arg];
            } else if (arc->kind == SL_EDGE_END && it.depth) {
                next.state = next.stack[--next.depth];
            } else {
                can_end |= arc->kind == SL_EDGE_END;
                continue;
            }
            naive_add(x, &next);
        }
    }
    return can_end;
}

/* The position after a text; false: refused. */
static inline bool naive_read(const sl_gram *g, naive *x, const char *text, size_t n, bool *can_end)
{
    naive y = {.items = malloc(NAIVE_MAX * sizeof(naive_item))};
    for (size_t i = 0; i < n && x->n; i++) {
        y.n = 0;
        for (uint32_t k = 0; k < x->n; k++)
            for (uint32_t a = g->first[x->items[k].state]; a < g->first[x->items[k].state + 1]; a++) {
                const sl_gram_arc *arc = &g->arcs[a];
                naive_item next = x->items[k];
                if (arc->kind != SL_EDGE_BYTES || (uint8_t)text[i] < arc->lo || (uint8_t)text[i] > arc->hi) continue;
                next.state = arc->to;
                naive_add(&y, &next);
            }
        *can_end = naive_close(g, &y);
        memcpy(x->items, y.items, y.n * sizeof *y.items);
        x->n = y.n;
    }
    free(y.items);
    return x->n != 0;
}

/* Compares the mask at the present position, reached by the text, with what the naive reading says of every token. */
static inline void check_mask(world *w, const char *text, size_t n_text)
{
    const uint64_t *mask;
    sl_err err = {0};
    naive at = {.items = malloc(NAIVE_MAX * sizeof(naive_item))}, x = {.items = malloc(NAIVE_MAX * sizeof(naive_item))};
    bool can_end, end2;
    naive_item start = {.state = w->g->start[w->g->root]};
    naive_add(&at, &start);
    can_end = naive_close(w->g, &at);
    if (n_text) naive_read(w->g, &at, text, n_text, &can_end);
    ASSERT_OK(sl_guide_mask(w->gd, &mask, &err), err);
    assert_int_equal(can_end, sl_guide_can_end(w->gd));
    for (uint32_t id = 0; id < sl_tokenizer_vocab(w->t); id++) {
        size_t n;
        const char *piece = sl_token_bytes(w->t, (int32_t)id, false, &n);
        bool got = mask[id >> 6] >> (id & 63) & 1, want = n != 0, again;
        memcpy(x.items, at.items, at.n * sizeof *at.items);
        x.n = at.n;
        want = n && naive_read(w->g, &x, piece, n, &end2);
        if (sl_tokenizer_is_end(w->t, (int32_t)id)) want = can_end;
        if (got != want) fail_msg("after '%.*s': token %u '%.*s' is %d, wanted %d", (int)n_text, text, id, (int)n, piece, got, want);
        ASSERT_OK(sl_guide_allows(w->gd, (int32_t)id, &again, &err), err);
        if (again != got) fail_msg("after '%.*s': token %u: mask %d, check %d", (int)n_text, text, id, got, again);
    }
    free(at.items);
    free(x.items);
}

#endif
