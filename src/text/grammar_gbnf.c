/* Grammars as llama.cpp writes them (GBNF): rules of literals, classes, references, groups and repetitions.  Rules are
 * collected before their bodies are read, since they may be used before they are defined.  Tokens (<name>, <[id]>) are not
 * supported: rules are over text. */
#include "text/grammar_int.h"

#include <string.h>

typedef struct {
    sl_gram_builder *b;
    const char *text, *p, *end;
    uint32_t depth;
    bool *defined; /* [n_rule] */
} parser;

static uint32_t fail(parser *p, const char *at, const char *why)
{
    size_t line = 1;
    char shown[64];
    for (const char *c = p->text; c < at; c++)
        line += *c == '\n';
    const char *stop = at < p->end ? memchr(at, '\n', (size_t)(p->end - at)) : NULL;
    sl_gb_fail(p->b, SL_ERR_FORMAT, "line %zu: %s, at '%s'", line, why,
               sl_gram_show(at, (size_t)((stop ? stop : p->end) - at), shown));
    return 0;
}

/* ---- words ---- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Blanks and comments; newlines where they mean nothing. */
static void skip_space(parser *p, bool newlines)
{
    while (p->p < p->end) {
        char c = *p->p;
        if (c == '#') {
            const char *stop = memchr(p->p, '\n', (size_t)(p->end - p->p));
            p->p = stop ? stop : p->end;
        } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
            p->p++;
        } else {
            return;
        }
    }
}

static bool take_char(parser *p, char c)
{
    if (p->p == p->end || *p->p != c) return false;
    p->p++;
    return true;
}

static size_t name_length(const parser *p)
{
    const char *c = p->p;
    while (c < p->end && is_name(*c))
        c++;
    return (size_t)(c - p->p);
}

static uint32_t find_rule(const parser *p, const char *name, size_t n)
{
    for (uint32_t r = 0; r < p->b->n_rule; r++)
        if (p->b->rules[r].n_name == n && p->b->rules[r].name && memcmp(p->b->rules[r].name, name, n) == 0) return r;
    return SL_GRAM_NONE;
}

/* ---- characters ---- */

static bool take_hex(parser *p, int n, uint32_t *v)
{
    for (*v = 0; n > 0; n--, p->p++) {
        if (p->p == p->end) return false;
        char c = *p->p, l = (char)(c | 32);
        int d = c >= '0' && c <= '9' ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
        if (d < 0) return false;
        *v = *v * 16 + (uint32_t)d;
    }
    return *v <= 0x10FFFF && (*v < 0xD800 || *v > 0xDFFF);
}

/* One character of a literal or class. */
static uint32_t take_one(parser *p)
{
    const char *at = p->p;
    uint32_t cp = 0;
    if (p->p == p->end) return fail(p, at, "the text ends inside a literal or class");
    if (!take_char(p, '\\')) {
        p->p += sl_utf8_decode(p->p, (size_t)(p->end - p->p), &cp);
        return cp;
    }
    if (p->p == p->end) return fail(p, at, "the text ends behind a backslash");
    char c = *p->p++;
    int n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n) return take_hex(p, n, &cp) ? cp : fail(p, at, "a bad hexadecimal escape");
    if (c == 'n') return '\n';
    if (c == 't') return '\t';
    if (c == 'r') return '\r';
    if (strchr("\\\"[]-^", c)) return (uint8_t)c;
    return fail(p, at, "an unknown escape");
}

/* Behind an opening quote. */
static uint32_t parse_literal(parser *p, uint32_t from)
{
    while (p->b->rc == SL_OK && !take_char(p, '"')) {
        char bytes[4];
        uint32_t cp = take_one(p);
        from = sl_gb_literal(p->b, from, bytes, sl_utf8_encode(cp, bytes));
    }
    return from;
}

/* Behind an opening bracket. */
static uint32_t parse_class(parser *p, uint32_t from)
{
    const char *at = p->p - 1;
    sl_cp_set s = {0};
    bool negated = take_char(p, '^');
    while (p->b->rc == SL_OK && !take_char(p, ']')) {
        uint32_t lo = take_one(p), hi = lo;
        if (p->end - p->p >= 2 && p->p[0] == '-' && p->p[1] != ']') {
            p->p++;
            hi = take_one(p);
        }
        if (hi < lo) fail(p, at, "a range that runs backwards");
        sl_cp_add(&s, lo, hi);
    }
    if (negated) sl_cp_negate(&s);
    if (p->b->rc == SL_OK && !s.n && !s.failed) fail(p, at, "a class that no character is in");
    uint32_t to = sl_gb_state(p->b);
    sl_gb_chars(p->b, from, sl_gb_set(p->b, &s), false, to);
    return to;
}

/* ---- structure ---- */

static uint32_t parse_alternatives(parser *p, uint32_t from, bool nested);

static uint32_t parse_group(parser *p, uint32_t from)
{
    const char *at = p->p - 1;
    if (++p->depth > SL_GRAM_MAX_NEST) {
        sl_gb_fail(p->b, SL_ERR_LIMIT, "parentheses nested deeper than %d", SL_GRAM_MAX_NEST);
        return 0;
    }
    skip_space(p, true);
    uint32_t to = parse_alternatives(p, from, true);
    if (!take_char(p, ')')) return fail(p, at, "a parenthesis that is not closed");
    p->depth--;
    return to;
}

static uint32_t parse_reference(parser *p, uint32_t from)
{
    size_t n = name_length(p);
    uint32_t rule = find_rule(p, p->p, n), to = sl_gb_state(p->b);
    if (rule == SL_GRAM_NONE) return fail(p, p->p, "a rule that is not defined");
    p->p += n;
    sl_gb_call(p->b, from, rule, to);
    return to;
}

/* An element; false: none begins here. */
static bool parse_element(parser *p, uint32_t from, uint32_t *to)
{
    if (p->p == p->end) return false;
    if (*p->p == '<' || *p->p == '!') {
        sl_gb_fail(p->b, SL_ERR_UNSUPPORTED, "tokens in a rule (<name>, <[id]>) are not supported");
        return false;
    }
    if (take_char(p, '"'))
        *to = parse_literal(p, from);
    else if (take_char(p, '['))
        *to = parse_class(p, from);
    else if (take_char(p, '('))
        *to = parse_group(p, from);
    else if (take_char(p, '.'))
        sl_gb_chars(p->b, from, sl_gb_set_of_range(p->b, 0, 0x10FFFF), false, *to = sl_gb_state(p->b));
    else if (is_name(*p->p))
        *to = parse_reference(p, from);
    else
        return false;
    return true;
}

static bool take_number(parser *p, bool nested, uint32_t *v)
{
    const char *at = p->p;
    for (*v = 0; p->p < p->end && *p->p >= '0' && *p->p <= '9'; p->p++)
        if (*v <= SL_GRAM_MAX_REPEAT) *v = *v * 10 + (uint32_t)(*p->p - '0');
    bool any = p->p > at;
    skip_space(p, nested);
    return any;
}

/* Behind an opening brace. */
static void take_counts(parser *p, bool nested, uint32_t *min, uint32_t *max)
{
    const char *at = p->p - 1;
    skip_space(p, nested);
    bool ok = take_number(p, nested, min);
    *max = *min;
    if (ok && take_char(p, ',')) {
        skip_space(p, nested);
        if (!take_number(p, nested, max)) *max = UINT32_MAX;
    }
    if (!ok || !take_char(p, '}'))
        fail(p, at, "a repetition takes the form {m}, {m,} or {m,n}");
    else if (*min > SL_GRAM_MAX_REPEAT || (*max != UINT32_MAX && *max > SL_GRAM_MAX_REPEAT))
        sl_gb_fail(p->b, SL_ERR_LIMIT, "a repetition of more than %d", SL_GRAM_MAX_REPEAT);
    else if (*max < *min)
        fail(p, at, "a repetition whose bounds are the wrong way round");
}

static bool take_quantifier(parser *p, bool nested, uint32_t *min, uint32_t *max)
{
    *min = 0, *max = UINT32_MAX;
    if (take_char(p, '+'))
        *min = 1;
    else if (take_char(p, '?'))
        *max = 1;
    else if (take_char(p, '{'))
        take_counts(p, nested, min, max);
    else if (!take_char(p, '*'))
        return false;
    skip_space(p, nested);
    return true;
}

static uint32_t parse_sequence(parser *p, uint32_t from, bool nested)
{
    while (p->b->rc == SL_OK) {
        uint32_t min, max, out = 0;
        sl_gram_part part = sl_gb_part_begin(p->b);
        if (!parse_element(p, part.in, &out)) {
            if (p->p < p->end && strchr("*+?{", *p->p)) fail(p, p->p, "nothing to repeat");
            break;
        }
        skip_space(p, nested);
        sl_gb_part_end(p->b, &part, out);
        bool more = p->b->rc == SL_OK && take_quantifier(p, nested, &min, &max);
        if (!more) sl_gb_empty(p->b, from, part.in);
        from = more ? sl_gb_repeat(p->b, from, &part, min, max) : out;
        while (p->b->rc == SL_OK && more && take_quantifier(p, nested, &min, &max)) {
            /* x?* and the like: the whole so far, which has no bound of its own any more */
            return fail(p, p->p, "a quantifier behind a quantifier");
        }
    }
    return from;
}

static uint32_t parse_alternatives(parser *p, uint32_t from, bool nested)
{
    uint32_t to = sl_gb_state(p->b);
    do {
        skip_space(p, true); /* a newline behind | goes on with the rule */
        sl_gb_empty(p->b, parse_sequence(p, from, nested), to);
    } while (p->b->rc == SL_OK && take_char(p, '|'));
    return to;
}

/* ---- rules ---- */

/* Is p at "name ::="?  Moves behind it. */
static bool take_head(parser *p, const char **name, size_t *n)
{
    const char *at = p->p;
    *name = at;
    *n = name_length(p);
    p->p += *n;
    skip_space(p, false);
    if (*n && p->end - p->p >= 3 && memcmp(p->p, "::=", 3) == 0) {
        p->p += 3;
        return true;
    }
    p->p = at;
    return false;
}

/* Behind an opening quote or bracket: up to its end, or the line's. */
static void skip_quoted(parser *p, char close)
{
    while (p->p < p->end && *p->p != close && *p->p != '\n')
        p->p += *p->p == '\\' && p->p + 1 < p->end ? 2 : 1;
    if (p->p < p->end) p->p++;
}

/* All rules of the text, by their heads, wherever a name is followed by "::=". */
static void collect_rules(parser *p)
{
    const char *name;
    size_t n;
    while (p->p < p->end && p->b->rc == SL_OK) {
        skip_space(p, true);
        if (p->p == p->end) break;
        const char *at = p->p;
        if (*at == '"' || *at == '[') {
            p->p++;
            skip_quoted(p, *at == '"' ? '"' : ']');
        } else if (!take_head(p, &name, &n)) {
            p->p += name_length(p) ? name_length(p) : 1;
        } else if (find_rule(p, name, n) != SL_GRAM_NONE) {
            fail(p, at, "a rule that is defined twice");
        } else {
            uint32_t r = sl_gb_rule(p->b);
            if (p->b->rc == SL_OK) p->b->rules[r].name = name, p->b->rules[r].n_name = (uint32_t)n;
        }
    }
    p->p = p->text;
}

static void parse_rules(parser *p)
{
    const char *name;
    size_t n;
    skip_space(p, true);
    while (p->p < p->end && p->b->rc == SL_OK) {
        if (!take_head(p, &name, &n)) {
            fail(p, p->p, "a rule (name ::= ...) is expected");
            return;
        }
        uint32_t r = find_rule(p, name, n);
        if (r == SL_GRAM_NONE) {
            fail(p, name, "a rule (name ::= ...) is expected");
            return;
        }
        skip_space(p, true);
        uint32_t from = p->b->rules[r].start, to = parse_alternatives(p, from, false);
        if (p->b->rc == SL_OK) sl_gb_empty(p->b, to, p->b->rules[r].end);
        if (p->b->rc == SL_OK && p->p < p->end && *p->p != '\n' && *p->p != '\r') fail(p, p->p, "an element or a new line is expected");
        skip_space(p, true);
    }
}

void sl_gram_draw_gbnf(sl_gram_builder *b, const char *text, size_t n_bytes)
{
    parser p = {.b = b, .text = text, .p = text, .end = text + n_bytes};
    size_t valid = sl_utf8_valid_prefix(text, n_bytes);
    if (valid < n_bytes) {
        sl_gb_fail(b, SL_ERR_FORMAT, "not valid UTF-8 at byte %zu", valid);
        return;
    }
    b->inline_rules = true;
    collect_rules(&p);
    uint32_t root = find_rule(&p, "root", 4);
    if (b->rc == SL_OK && root == SL_GRAM_NONE) sl_gb_fail(b, SL_ERR_FORMAT, "there is no rule \"root\"");
    if (b->rc == SL_OK) parse_rules(&p);
    if (b->rc == SL_OK) sl_gb_call(b, b->rules[b->root].start, root, b->rules[b->root].end);
}
