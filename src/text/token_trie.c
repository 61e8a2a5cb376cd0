/* The texts of a vocabulary as one tree over bytes, in preorder: a walk down the array that skips what is refused.  Tokens
 * with equal texts become leaves beside each other. */
#include "text/guide_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 255 };

static bool is_in_tree(const sl_tokenizer *t, uint32_t id)
{
    size_t n;
    if (t->vocab.attr[id] & SL_ATTR_END) return false;
    const char *text = sl_token_bytes(t, (int32_t)id, false, &n);
    return text && n >= 1 && n <= MAX_DEPTH;
}

static int by_text(const void *a, const void *b, void *user)
{
    const sl_vocab *v = user;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    size_t nx, ny;
    const char *tx = sl_vocab_text(v, x, &nx), *ty = sl_vocab_text(v, y, &ny);
    int c = memcmp(tx, ty, nx < ny ? nx : ny);
    if (c) return c;
    return nx != ny ? (nx > ny) - (nx < ny) : (x > y) - (x < y);
}

static size_t common(const char *a, size_t na, const char *b, size_t nb)
{
    size_t i = 0;
    while (i < na && i < nb && a[i] == b[i])
        i++;
    return i;
}

/* open: the node at each depth of the path; n_open: its length. */
typedef struct {
    sl_token_trie *tr;
    uint32_t open[MAX_DEPTH + 1];
    size_t n_open;
} growth;

static void close_to(growth *gr, size_t depth)
{
    while (gr->n_open > depth) {
        uint32_t i = gr->open[--gr->n_open];
        gr->tr->nodes[i].skip = (gr->tr->n - i) & SL_TRIE_MAX_SKIP;
    }
}

/* Appends one token's new nodes. */
static void add(growth *gr, const char *text, size_t n, uint32_t id, bool twin)
{
    sl_token_trie *tr = gr->tr;
    while (gr->n_open + 1 < n) {
        tr->nodes[tr->n] = (sl_trie_node){(uint8_t)text[gr->n_open], (uint8_t)(gr->n_open + 1), 1, SL_TRIE_NO_TOKEN};
        gr->open[gr->n_open++] = tr->n++;
    }
    tr->nodes[tr->n] = (sl_trie_node){(uint8_t)text[n - 1], (uint8_t)n, 1, id & SL_TRIE_NO_TOKEN};
    if (!twin) gr->open[gr->n_open++] = tr->n; /* a twin stays a leaf; the last of its kind gets the children */
    tr->n++;
}

/* ids: sorted by text.  0: too many. */
static uint32_t count_nodes(const sl_vocab *v, const uint32_t *ids, uint32_t n)
{
    uint64_t total = 0;
    const char *before = "";
    size_t n_before = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t len;
        const char *text = sl_vocab_text(v, ids[i], &len);
        size_t same = common(before, n_before, text, len);
        total += same == len ? 1 : len - same;
        before = text;
        n_before = len;
    }
    return total < SL_TRIE_MAX_SKIP ? (uint32_t)total : 0;
}

static void fill(sl_token_trie *tr, const sl_vocab *v, const uint32_t *ids, uint32_t n)
{
    growth gr = {.tr = tr};
    const char *before = "";
    size_t n_before = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t len, n_next = 0;
        const char *text = sl_vocab_text(v, ids[i], &len), *next = i + 1 < n ? sl_vocab_text(v, ids[i + 1], &n_next) : "";
        size_t same = common(before, n_before, text, len);
        close_to(&gr, same < len ? same : len - 1);
        add(&gr, text, len, ids[i], n_next == len && memcmp(next, text, len) == 0);
        before = text;
        n_before = len;
    }
    close_to(&gr, 0);
}

sl_status sl_token_trie_open(sl_token_trie **out, const sl_tokenizer *t, sl_err *err)
{
    const sl_vocab *v = &t->vocab;
    uint32_t n = 0;
    sl_token_trie *tr = sl_calloc(1, sizeof *tr);
    uint32_t *ids = sl_malloc((size_t)v->n_usable * sizeof *ids);
    if (!tr || !ids) goto no_memory;
    tr->t = t;
    for (uint32_t id = 0; id < v->n_usable; id++)
        if (is_in_tree(t, id)) ids[n++] = id;
    qsort_r(ids, n, sizeof *ids, by_text, (void *)(uintptr_t)v);
    uint32_t n_node = count_nodes(v, ids, n);
    if (n && !n_node) {
        sl_token_trie_close(tr);
        sl_free(ids);
        return sl_fail(err, SL_ERR_LIMIT, "the tokens' texts are too long for constrained output");
    }
    tr->nodes = sl_malloc(n_node * sizeof *tr->nodes);
    if (!tr->nodes) goto no_memory;
    fill(tr, v, ids, n);
    sl_free(ids);
    *out = tr;
    return SL_OK;

no_memory:
    sl_token_trie_close(tr);
    sl_free(ids);
    return sl_fail(err, SL_ERR_NOMEM, "no memory for the tree of %u tokens", v->n_usable);
}

void sl_token_trie_close(sl_token_trie *tr)
{
    if (!tr) return;
    sl_free(tr->nodes);
    sl_free(tr);
}

uint64_t sl_token_trie_bytes(const sl_token_trie *tr)
{
    return sizeof *tr + (uint64_t)tr->n * sizeof *tr->nodes;
}

uint64_t sl_token_trie_bound_bytes(const sl_tokenizer *t)
{
    uint64_t text = t->vocab.off[t->vocab.n];
    return sizeof(sl_token_trie) + (text + t->vocab.n) * sizeof(sl_trie_node) + (uint64_t)t->vocab.n * sizeof(uint32_t);
}
