/* Drawing the graph of a grammar: states, edges, rules, and copies of parts of it.  Every array grows within the builder's
 * bound; the first failure stays, and whatever is drawn after it is ignored. */
#include "text/grammar_int.h"
#include "text/text_int.h"

#include <stdio.h>
#include <string.h>

void sl_gb_init(sl_gram_builder *b, const char *what, uint64_t max_bytes, sl_err *err)
{
    *b = (sl_gram_builder){.what = what, .max_bytes = max_bytes, .err = err};
    sl_gb_state(b); /* state 0 belongs to nobody: it is what failed calls return */
}

void sl_gb_free(sl_gram_builder *b)
{
    sl_free(b->head);
    sl_free(b->edges);
    sl_free(b->rules);
    sl_free(b->ranges);
    sl_free(b->sets);
}

sl_status sl_gb_fail(sl_gram_builder *b, sl_status code, const char *fmt, ...)
{
    char msg[sizeof b->err->msg];
    va_list ap;
    if (b->rc != SL_OK) return b->rc;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    b->rc = code;
    return sl_fail(b->err, code, "%s: %s", b->what, msg);
}

bool sl_gb_grow(sl_gram_builder *b, void **array, uint32_t n, uint32_t *cap, size_t elem_bytes)
{
    if (b->rc != SL_OK) return false;
    if (n < *cap) return true;
    uint32_t to = *cap ? *cap + *cap / 2 : 64;
    uint64_t more = (uint64_t)(to - *cap) * elem_bytes;
    if (more > b->max_bytes - b->used_bytes) {
        char size[24];
        sl_gb_fail(b, SL_ERR_LIMIT, "compiling it takes more than %s of memory", sl_size_text(b->max_bytes, size));
        return false;
    }
    void *p = sl_realloc(*array, to * elem_bytes);
    if (!p) {
        sl_gb_fail(b, SL_ERR_NOMEM, "no memory to compile it");
        return false;
    }
    *array = p;
    *cap = to;
    b->used_bytes += more;
    return true;
}

/* ---- states, edges, rules ---- */

uint32_t sl_gb_state(sl_gram_builder *b)
{
    if (b->rc == SL_OK && b->n_state == SL_GRAM_MAX_STATES)
        sl_gb_fail(b, SL_ERR_LIMIT, "it needs more than %d states (long repetitions or lists multiply)", SL_GRAM_MAX_STATES);
    if (!sl_gb_grow(b, (void **)&b->head, b->n_state, &b->cap_state, sizeof *b->head)) return 0;
    b->head[b->n_state] = SL_GRAM_NONE;
    return b->n_state++;
}

static void add_edge(sl_gram_builder *b, uint32_t from, sl_gram_edge e)
{
    if (b->rc == SL_OK && b->n_edge == SL_GRAM_MAX_EDGES)
        sl_gb_fail(b, SL_ERR_LIMIT, "it needs more than %d steps (long repetitions or lists multiply)", SL_GRAM_MAX_EDGES);
    if (!sl_gb_grow(b, (void **)&b->edges, b->n_edge, &b->cap_edge, sizeof *b->edges)) return;
    e.next = b->head[from];
    b->edges[b->n_edge] = e;
    b->head[from] = b->n_edge++;
}

uint32_t sl_gb_rule(sl_gram_builder *b)
{
    if (b->rc == SL_OK && b->n_rule == SL_GRAM_MAX_RULES)
        sl_gb_fail(b, SL_ERR_LIMIT, "it needs more than %d rules", SL_GRAM_MAX_RULES);
    uint32_t start = sl_gb_state(b), end = sl_gb_state(b);
    if (!sl_gb_grow(b, (void **)&b->rules, b->n_rule, &b->cap_rule, sizeof *b->rules)) return 0;
    b->rules[b->n_rule] = (sl_gram_rule){.start = start, .end = end};
    add_edge(b, end, (sl_gram_edge){.kind = SL_EDGE_END});
    return b->n_rule++;
}

void sl_gb_empty(sl_gram_builder *b, uint32_t from, uint32_t to)
{
    if (from != to) add_edge(b, from, (sl_gram_edge){.kind = SL_EDGE_EMPTY, .to = to});
}

void sl_gb_bytes(sl_gram_builder *b, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to)
{
    add_edge(b, from, (sl_gram_edge){.kind = SL_EDGE_BYTES, .lo = lo, .hi = hi, .to = to});
}

void sl_gb_call(sl_gram_builder *b, uint32_t from, uint32_t rule, uint32_t to)
{
    add_edge(b, from, (sl_gram_edge){.kind = SL_EDGE_CALL, .arg = rule, .to = to});
}

void sl_gb_chars(sl_gram_builder *b, uint32_t from, uint32_t set, bool json, uint32_t to)
{
    add_edge(b, from, (sl_gram_edge){.kind = json ? SL_EDGE_JSON_CHARS : SL_EDGE_CHARS, .arg = set, .to = to});
}

uint32_t sl_gb_literal(sl_gram_builder *b, uint32_t from, const char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes && b->rc == SL_OK; i++) {
        uint32_t to = sl_gb_state(b);
        sl_gb_bytes(b, from, (uint8_t)bytes[i], (uint8_t)bytes[i], to);
        from = to;
    }
    return from;
}

/* ---- sets ---- */

static bool is_set(const sl_gram_builder *b, uint32_t i, const sl_cp_set *s)
{
    return b->sets[i].n == s->n && (!s->n || memcmp(b->ranges + b->sets[i].off, s->r, s->n * sizeof *s->r) == 0);
}

uint32_t sl_gb_set(sl_gram_builder *b, sl_cp_set *s)
{
    uint32_t found = 0;
    sl_cp_normalise(s);
    if (s->failed) sl_gb_fail(b, SL_ERR_NOMEM, "no memory for a set of characters");
    if (b->rc != SL_OK) goto done;
    /* most grammars have a dozen sets; looking at the last few keeps a thousand different ones cheap */
    for (uint32_t i = b->n_set; i-- > 0 && b->n_set - i <= 256;) {
        if (!is_set(b, i, s)) continue;
        found = i;
        goto done;
    }
    uint32_t off = b->n_range;
    for (uint32_t i = 0; i < s->n; i++) {
        if (!sl_gb_grow(b, (void **)&b->ranges, b->n_range, &b->cap_range, sizeof *b->ranges)) goto done;
        b->ranges[b->n_range++] = s->r[i];
    }
    if (!sl_gb_grow(b, (void **)&b->sets, b->n_set, &b->cap_set, sizeof *b->sets)) goto done;
    b->sets[b->n_set] = (sl_gram_set){off, s->n};
    found = b->n_set++;
done:
    sl_cp_free(s);
    return found;
}

uint32_t sl_gb_set_of_range(sl_gram_builder *b, uint32_t lo, uint32_t hi)
{
    sl_cp_set s = {0};
    sl_cp_add(&s, lo, hi);
    return sl_gb_set(b, &s);
}

/* ---- parts ---- */

sl_gram_part sl_gb_part_begin(sl_gram_builder *b)
{
    sl_gram_part p = {.first = b->n_state};
    p.in = sl_gb_state(b);
    return p;
}

void sl_gb_part_end(sl_gram_builder *b, sl_gram_part *p, uint32_t out)
{
    p->n = b->n_state - p->first;
    p->out = out;
}

/* Room for so many copies, or a failure before any work is done. */
static bool check_copies(sl_gram_builder *b, uint64_t copies, uint32_t n_state)
{
    if (b->rc != SL_OK) return false;
    if (copies * n_state <= SL_GRAM_MAX_STATES - b->n_state) return true;
    sl_gb_fail(b, SL_ERR_LIMIT, "%llu repetitions of something of %u states are too many: %d states in all are the limit",
               (unsigned long long)copies, n_state, SL_GRAM_MAX_STATES);
    return false;
}

/* A copy of the part's states and edges behind the last state; returns how far it is away. */
static uint32_t clone(sl_gram_builder *b, const sl_gram_part *p)
{
    uint32_t by = b->n_state - p->first;
    for (uint32_t i = 0; i < p->n; i++)
        sl_gb_state(b);
    for (uint32_t s = p->first; s < p->first + p->n && b->rc == SL_OK; s++)
        for (uint32_t e = b->head[s]; e != SL_GRAM_NONE && b->rc == SL_OK; e = b->edges[e].next) {
            sl_gram_edge copy = b->edges[e];
            copy.to += by;
            add_edge(b, s + by, copy);
        }
    return by;
}

uint32_t sl_gb_repeat(sl_gram_builder *b, uint32_t from, const sl_gram_part *p, uint32_t min, uint32_t max)
{
    bool open = max == UINT32_MAX;
    uint32_t copies = open ? (min ? min : 1) : max;
    if (copies == 0) return from;
    if (!check_copies(b, copies - 1, p->n)) return 0;
    uint32_t first_clone = b->n_state; /* all copies before any link, which would be copied too */
    for (uint32_t k = 1; k < copies; k++)
        clone(b, p);
    uint32_t to = sl_gb_state(b), at = from;
    if (min == 0) sl_gb_empty(b, from, to);
    for (uint32_t k = 0; k < copies && b->rc == SL_OK; k++) {
        uint32_t by = k ? first_clone + (k - 1) * p->n - p->first : 0;
        sl_gb_empty(b, at, p->in + by);
        at = p->out + by;
        if (k + 1 >= min) sl_gb_empty(b, at, to);
        if (open && k + 1 == copies) sl_gb_empty(b, at, p->in + by);
    }
    return to;
}

uint32_t sl_gb_count(sl_gram_builder *b, uint32_t from, const sl_gram_part *p, uint32_t min, uint32_t max)
{
    bool open = max == UINT32_MAX;
    uint32_t last = open ? min : max, base = b->n_state;
    if (!check_copies(b, (uint64_t)last + 1, p->n)) return 0;
    for (uint64_t i = 0; i < ((uint64_t)last + 1) * p->n; i++)
        sl_gb_state(b);
    for (uint32_t k = 0; k <= last && b->rc == SL_OK; k++)
        for (uint32_t s = 0; s < p->n && b->rc == SL_OK; s++)
            for (uint32_t e = b->head[p->first + s]; e != SL_GRAM_NONE && b->rc == SL_OK; e = b->edges[e].next) {
                sl_gram_edge copy = b->edges[e];
                uint32_t layer = copy.kind == SL_EDGE_EMPTY ? k : k < last ? k + 1 : open ? k : SL_GRAM_NONE;
                if (layer == SL_GRAM_NONE) continue;
                copy.to = base + layer * p->n + (copy.to - p->first);
                add_edge(b, base + k * p->n + s, copy);
            }
    uint32_t to = sl_gb_state(b);
    sl_gb_empty(b, from, base + (p->in - p->first));
    for (uint32_t k = min; k <= last; k++)
        sl_gb_empty(b, base + k * p->n + (p->out - p->first), to);
    return to;
}

const char *sl_gram_show(const char *text, size_t n_bytes, char buf[64])
{
    return sl_text_show(text, sl_utf8_valid_prefix(text, n_bytes < 40 ? n_bytes : 40), buf);
}
