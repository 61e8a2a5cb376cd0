/* Sets of characters, and their edges over bytes: as UTF-8, or as UTF-8 inside a JSON string.
 *
 * A range of code points falls into at most a handful of ranges whose encodings differ in one contiguous interval per
 * byte (the split follows from the layout of UTF-8: Unicode 15, table 3-7).  Surrogates are left out: they have no
 * encoding. */
#include "text/grammar_int.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_CP 0x10FFFFu

/* ---- sets ---- */

void sl_cp_add(sl_cp_set *s, uint32_t lo, uint32_t hi)
{
    if (s->failed || lo > hi) return;
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? 2 * s->cap : 8;
        sl_cp_range *r = sl_realloc(s->r, cap * sizeof *r);
        if (!r) {
            s->failed = true;
            return;
        }
        s->r = r;
        s->cap = cap;
    }
    s->r[s->n++] = (sl_cp_range){lo, hi};
}

void sl_cp_add_set(sl_cp_set *s, const sl_cp_set *other)
{
    s->failed |= other->failed;
    for (uint32_t i = 0; i < other->n; i++)
        sl_cp_add(s, other->r[i].lo, other->r[i].hi);
}

static int by_lo(const void *a, const void *b)
{
    uint32_t x = ((const sl_cp_range *)a)->lo, y = ((const sl_cp_range *)b)->lo;
    return (x > y) - (x < y);
}

void sl_cp_normalise(sl_cp_set *s)
{
    uint32_t n = 0;
    if (s->n) qsort(s->r, s->n, sizeof *s->r, by_lo);
    for (uint32_t i = 0; i < s->n; i++) {
        if (n && s->r[i].lo <= s->r[n - 1].hi + 1) {
            if (s->r[i].hi > s->r[n - 1].hi) s->r[n - 1].hi = s->r[i].hi;
        } else {
            s->r[n++] = s->r[i];
        }
    }
    s->n = n;
}

void sl_cp_negate(sl_cp_set *s)
{
    uint32_t at = 0;
    sl_cp_set out = {.failed = s->failed};
    sl_cp_normalise(s);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->r[i].lo > at) sl_cp_add(&out, at, s->r[i].lo - 1);
        at = s->r[i].hi + 1;
    }
    if (at <= MAX_CP) sl_cp_add(&out, at, MAX_CP);
    sl_cp_free(s);
    *s = out;
}

void sl_cp_free(sl_cp_set *s)
{
    sl_free(s->r);
    *s = (sl_cp_set){0};
}

void sl_cp_add_escape(sl_cp_set *s, char letter)
{
    static const sl_cp_range digits[] = {{'0', '9'}},
                             words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                             spaces[] = {{9, 13},           {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                         {0x2000, 0x200A},  {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                         {0x3000, 0x3000},  {0xFEFF, 0xFEFF}};
    const sl_cp_range *r = letter == 'd' ? digits : letter == 'w' ? words : spaces;
    size_t n = letter == 'd' ? 1 : letter == 'w' ? 4 : sizeof spaces / sizeof *spaces;
    for (size_t i = 0; i < n; i++)
        sl_cp_add(s, r[i].lo, r[i].hi);
}

bool sl_cp_add_property(sl_cp_set *s, const char *name, size_t n_bytes)
{
    bool known = false;
    uint32_t from = 0;
    if (n_bytes < 1 || n_bytes > 2) return false;
    for (uint32_t cp = 0; cp <= MAX_CP + 1; cp++) {
        const char *c = cp <= MAX_CP ? utf8proc_category_string((utf8proc_int32_t)cp) : "";
        if (strncmp(c, name, n_bytes) == 0) continue; /* the run [from, cp) goes on */
        known |= cp > from;
        if (cp > from) sl_cp_add(s, from, cp - 1);
        from = cp + 1;
    }
    return known;
}

/* ---- UTF-8 ---- */

/* Ends of the edges of one set, and the states shared by its longer encodings: rest[k] reads k more bytes of any value
 * that can follow. */
typedef struct {
    sl_gram_builder *b;
    uint32_t from, to;
    uint32_t rest[4];
} spread;

static uint32_t rest_state(spread *sp, unsigned n)
{
    if (n == 0) return sp->to;
    if (sp->rest[n]) return sp->rest[n];
    uint32_t next = rest_state(sp, n - 1);
    sp->rest[n] = sl_gb_state(sp->b);
    sl_gb_bytes(sp->b, sp->rest[n], 0x80, 0xBF, next);
    return sp->rest[n];
}

/* One interval per byte, n bytes. */
static void add_sequence(spread *sp, const char *lo, const char *hi, size_t n)
{
    size_t fixed = n; /* bytes before a tail that may be anything */
    while (fixed > 1 && (uint8_t)lo[fixed - 1] == 0x80 && (uint8_t)hi[fixed - 1] == 0xBF)
        fixed--;
    uint32_t at = sp->from, tail = rest_state(sp, (unsigned)(n - fixed));
    for (size_t i = 0; i < fixed; i++) {
        uint32_t next = i + 1 == fixed ? tail : sl_gb_state(sp->b);
        sl_gb_bytes(sp->b, at, (uint8_t)lo[i], (uint8_t)hi[i], next);
        at = next;
    }
}

/* lo and hi have the same number of bytes. */
static void add_same_length(spread *sp, uint32_t lo, uint32_t hi)
{
    char a[4], z[4];
    size_t n = sl_utf8_encode(lo, a);
    for (size_t i = 1; i < n; i++) {
        uint32_t m = (1u << (6 * i)) - 1;
        if ((lo & ~m) == (hi & ~m)) continue;
        if (lo & m) {
            add_same_length(sp, lo, lo | m);
            add_same_length(sp, (lo | m) + 1, hi);
            return;
        }
        if ((hi & m) != m) {
            add_same_length(sp, lo, (hi & ~m) - 1);
            add_same_length(sp, hi & ~m, hi);
            return;
        }
    }
    sl_utf8_encode(hi, z);
    add_sequence(sp, a, z, n);
}

static void add_range(spread *sp, uint32_t lo, uint32_t hi)
{
    static const sl_cp_range lengths[] = {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, MAX_CP}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t from = lo > lengths[i].lo ? lo : lengths[i].lo, to = hi < lengths[i].hi ? hi : lengths[i].hi;
        if (from <= to) add_same_length(sp, from, to);
    }
}

/* ---- JSON strings: one way to write each character, except that hexadecimal digits may have either case ---- */

static void add_hex(spread *sp, uint32_t from, unsigned digit, uint32_t to)
{
    const char *lower = "0123456789abcdef", *upper = "0123456789ABCDEF";
    sl_gb_bytes(sp->b, from, (uint8_t)lower[digit], (uint8_t)lower[digit], to);
    if (digit > 9) sl_gb_bytes(sp->b, from, (uint8_t)upper[digit], (uint8_t)upper[digit], to);
}

static void add_escaped(spread *sp, uint32_t cp, uint32_t *slash)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: the character, its letter */
    if (!*slash) sl_gb_bytes(sp->b, sp->from, '\\', '\\', *slash = sl_gb_state(sp->b));
    for (size_t i = 0; i + 1 < sizeof named - 1; i += 2)
        if ((uint8_t)named[i] == cp) {
            sl_gb_bytes(sp->b, *slash, (uint8_t)named[i + 1], (uint8_t)named[i + 1], sp->to);
            return;
        }
    uint32_t high = sl_gb_literal(sp->b, *slash, "u00", 3), low = sl_gb_state(sp->b);
    add_hex(sp, high, cp >> 4, low);
    add_hex(sp, low, cp & 15, sp->to);
}

static void add_json_range(spread *sp, uint32_t lo, uint32_t hi, uint32_t *slash)
{
    for (; lo <= hi && lo <= '\\'; lo++) {
        bool escape = lo < 0x20 || lo == '"' || lo == '\\';
        if (escape) {
            add_escaped(sp, lo, slash);
            continue;
        }
        uint32_t end = lo < '"' ? '"' - 1 : '\\' - 1; /* the run up to the next one that is escaped */
        if (end > hi) end = hi;
        add_range(sp, lo, end);
        lo = end;
    }
    if (lo <= hi) add_range(sp, lo, hi);
}

void sl_gb_expand_chars(sl_gram_builder *b)
{
    uint32_t n = b->n_state;
    for (uint32_t s = 1; s < n && b->rc == SL_OK; s++) {
        uint32_t e = b->head[s];
        b->head[s] = SL_GRAM_NONE;
        while (e != SL_GRAM_NONE && b->rc == SL_OK) {
            sl_gram_edge old = b->edges[e];
            bool json = old.kind == SL_EDGE_JSON_CHARS;
            if (!json && old.kind != SL_EDGE_CHARS) {
                b->edges[e].next = b->head[s];
                b->head[s] = e;
            } else {
                spread sp = {.b = b, .from = s, .to = old.to};
                sl_gram_set set = b->sets[old.arg];
                uint32_t slash = 0;
                for (uint32_t i = 0; i < set.n; i++) {
                    sl_cp_range r = b->ranges[set.off + i];
                    json ? add_json_range(&sp, r.lo, r.hi, &slash) : add_range(&sp, r.lo, r.hi);
                }
            }
            e = old.next;
        }
    }
}
