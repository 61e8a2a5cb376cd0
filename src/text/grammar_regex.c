/* Regular expressions: ECMA-262's syntax (which JSON Schema names) as far as it is regular.  Characters are Unicode code
 * points.  No look-around, no back references, no word boundaries, no flags; ^ and $ only at the ends of an alternative
 * that is not in parentheses.  Lazy quantifiers match the same texts as greedy ones and are taken as such. */
#include "text/grammar_int.h"

#include <string.h>

typedef struct {
    sl_gram_builder *b;
    const sl_gram_regex *re;
    const char *p, *end;
    uint32_t depth, n_property;
} parser;

enum { MAX_PROPERTIES = 32 }; /* each looks at every character there is */

static uint32_t fail(parser *p, const char *at, const char *why)
{
    char shown[64];
    sl_gb_fail(p->b, SL_ERR_FORMAT, "%s, at byte %zu: '%s'", why, (size_t)(at - p->re->text),
               sl_gram_show(at, (size_t)(p->end - at), shown));
    return 0;
}

static uint32_t unsupported(parser *p, const char *at, const char *what)
{
    sl_gb_fail(p->b, SL_ERR_UNSUPPORTED, "%s is not supported, at byte %zu", what, (size_t)(at - p->re->text));
    return 0;
}

static bool looking_at(const parser *p, char c)
{
    return p->p < p->end && *p->p == c;
}

static bool take_char(parser *p, char c)
{
    if (!looking_at(p, c)) return false;
    p->p++;
    return true;
}

/* ---- characters ---- */

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Up to max hexadecimal digits, at least min. */
static bool take_hex(parser *p, int min, int max, uint32_t *v)
{
    int n = 0;
    for (*v = 0; n < max && p->p < p->end && hex_value(*p->p) >= 0; n++)
        *v = *v * 16 + (uint32_t)hex_value(*p->p++);
    return n >= min;
}

/* Behind \u: four digits, a pair of surrogates, or digits in braces. */
static uint32_t take_unicode(parser *p, const char *at)
{
    uint32_t v, low;
    if (take_char(p, '{')) {
        if (!take_hex(p, 1, 6, &v) || !take_char(p, '}') || v > 0x10FFFF) return fail(p, at, "a bad \\u{...}");
        return v;
    }
    if (!take_hex(p, 4, 4, &v)) return fail(p, at, "\\u takes four hexadecimal digits");
    if (v < 0xD800 || v > 0xDFFF) return v;
    if (v < 0xDC00 && p->end - p->p >= 6 && p->p[0] == '\\' && p->p[1] == 'u') {
        p->p += 2;
        if (take_hex(p, 4, 4, &low) && low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
    }
    return fail(p, at, "half of a surrogate pair is no character");
}

static void take_property(parser *p, const char *at, bool negated, sl_cp_set *out)
{
    sl_cp_set s = {0};
    const char *name = p->p + 1, *close = looking_at(p, '{') ? memchr(name, '}', (size_t)(p->end - name)) : NULL;
    if (!close) {
        fail(p, at, "\\p takes a name in braces");
        return;
    }
    if (++p->n_property > MAX_PROPERTIES) {
        sl_gb_fail(p->b, SL_ERR_LIMIT, "more than %d properties (\\p)", MAX_PROPERTIES);
        return;
    }
    if (!sl_cp_add_property(&s, name, (size_t)(close - name))) unsupported(p, at, "this property of \\p (general categories are)");
    if (negated) sl_cp_negate(&s);
    sl_cp_add_set(out, &s);
    sl_cp_free(&s);
    p->p = close + 1;
}

/* Behind a backslash: adds a set to out and returns true, or gives one character. */
static bool take_escape(parser *p, sl_cp_set *out, uint32_t *cp, bool in_class)
{
    static const char named[] = "t\tn\nr\rf\fv\v0\0";
    const char *at = p->p - 1;
    if (p->p == p->end) return fail(p, at, "a backslash at the end"), false;
    char c = *p->p++;
    if (strchr("dDwWsS", c)) {
        sl_cp_set s = {0};
        sl_cp_add_escape(&s, (char)(c | 32));
        if (!(c & 32)) sl_cp_negate(&s);
        sl_cp_add_set(out, &s);
        sl_cp_free(&s);
        return true;
    }
    if (c == 'p' || c == 'P') return take_property(p, at, c == 'P', out), true;
    if (c == '0' && p->p < p->end && *p->p >= '0' && *p->p <= '9') return unsupported(p, at, "an octal escape"), false;
    for (size_t i = 0; i + 1 < sizeof named; i += 2)
        if (named[i] == c) return *cp = (uint8_t)named[i + 1], false;
    if (c == 'b' && in_class) return *cp = 8, false;
    if (c == 'x') {
        if (!take_hex(p, 2, 2, cp)) fail(p, at, "\\x takes two hexadecimal digits");
        return false;
    }
    if (c == 'u') return *cp = take_unicode(p, at), false;
    if (c == 'c' && p->p < p->end && (*p->p | 32) >= 'a' && (*p->p | 32) <= 'z') return *cp = (uint32_t)*p->p++ & 31, false;
    if (c >= '1' && c <= '9') return unsupported(p, at, "a back reference"), false;
    if (c == 'b' || c == 'B') return unsupported(p, at, "a word boundary"), false;
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return fail(p, at, "an unknown escape"), false;
    p->p--; /* any other character stands for itself */
    size_t len = sl_utf8_decode(p->p, (size_t)(p->end - p->p), cp);
    p->p += len;
    return false;
}

static uint32_t take_plain(parser *p)
{
    uint32_t cp = 0;
    p->p += sl_utf8_decode(p->p, (size_t)(p->end - p->p), &cp); /* valid: checked at the start */
    return cp;
}

/* ---- classes ---- */

/* One member: a set (true) or a character. */
static bool take_member(parser *p, sl_cp_set *out, uint32_t *cp)
{
    if (take_char(p, '\\')) return take_escape(p, out, cp, true);
    *cp = take_plain(p);
    return false;
}

/* Behind the opening bracket; returns the set. */
static uint32_t take_class(parser *p)
{
    const char *at = p->p - 1;
    sl_cp_set s = {0};
    bool negated = take_char(p, '^');
    while (p->b->rc == SL_OK && p->p < p->end && *p->p != ']') {
        uint32_t lo = 0, hi = 0;
        const char *here = p->p;
        bool set = take_member(p, &s, &lo);
        bool range = p->end - p->p >= 2 && p->p[0] == '-' && p->p[1] != ']';
        if (!range) {
            if (!set) sl_cp_add(&s, lo, lo);
            continue;
        }
        p->p++;
        if (take_member(p, &s, &hi) || set) fail(p, here, "a range between sets");
        else if (hi < lo) fail(p, here, "a range that runs backwards");
        sl_cp_add(&s, lo, hi);
    }
    if (!take_char(p, ']')) fail(p, at, "a class without ]");
    if (negated) sl_cp_negate(&s);
    if (p->b->rc == SL_OK && !s.n && !s.failed) fail(p, at, "a class that no character is in");
    return sl_gb_set(p->b, &s);
}

static uint32_t dot_set(parser *p)
{
    sl_cp_set s = {0};
    sl_cp_add(&s, '\n', '\n');
    sl_cp_add(&s, '\r', '\r');
    sl_cp_add(&s, 0x2028, 0x2029);
    sl_cp_negate(&s);
    return sl_gb_set(p->b, &s);
}

/* ---- structure ---- */

static uint32_t parse_alternatives(parser *p, uint32_t from);

/* Behind an opening parenthesis. */
static uint32_t parse_group(parser *p, uint32_t from)
{
    const char *at = p->p - 1;
    if (++p->depth > SL_GRAM_MAX_NEST) {
        sl_gb_fail(p->b, SL_ERR_LIMIT, "parentheses nested deeper than %d", SL_GRAM_MAX_NEST);
        return 0;
    }
    if (take_char(p, '?')) {
        bool p_name = p->end - p->p >= 2 && p->p[0] == 'P' && p->p[1] == '<';
        bool name = p->end - p->p >= 2 && p->p[0] == '<' && p->p[1] != '=' && p->p[1] != '!';
        if (p_name || name) {
            const char *close = memchr(p->p, '>', (size_t)(p->end - p->p));
            if (!close) return fail(p, at, "a group's name without >");
            p->p = close + 1;
        } else if (!take_char(p, ':')) {
            return unsupported(p, at, "look-around, or a group with flags,");
        }
    }
    uint32_t to = parse_alternatives(p, from);
    if (!take_char(p, ')')) return fail(p, at, "a parenthesis that is not closed");
    p->depth--;
    return to;
}

static uint32_t parse_set(parser *p, uint32_t from, uint32_t set)
{
    uint32_t to = sl_gb_state(p->b);
    sl_gb_chars(p->b, from, set, p->re->json, to);
    return to;
}

static uint32_t parse_atom(parser *p, uint32_t from)
{
    const char *at = p->p;
    uint32_t cp = 0;
    sl_cp_set s = {0};
    if (take_char(p, '(')) return parse_group(p, from);
    if (take_char(p, '[')) return parse_set(p, from, take_class(p));
    if (take_char(p, '.')) return parse_set(p, from, dot_set(p));
    if (strchr("*+?{", *p->p)) return fail(p, at, "nothing to repeat");
    if (*p->p == '^' || *p->p == '$') return unsupported(p, at, "^ or $ inside an expression");
    bool set = false;
    if (take_char(p, '\\'))
        set = take_escape(p, &s, &cp, false);
    else
        cp = take_plain(p);
    if (!set) sl_cp_add(&s, cp, cp);
    return parse_set(p, from, sl_gb_set(p->b, &s));
}

static bool take_number(parser *p, uint32_t *v)
{
    const char *at = p->p;
    for (*v = 0; p->p < p->end && *p->p >= '0' && *p->p <= '9'; p->p++)
        if (*v <= SL_GRAM_MAX_REPEAT) *v = *v * 10 + (uint32_t)(*p->p - '0');
    return p->p > at;
}

/* Behind an opening brace. */
static void take_counts(parser *p, uint32_t *min, uint32_t *max)
{
    const char *at = p->p - 1;
    bool ok = take_number(p, min);
    *max = *min;
    if (ok && take_char(p, ',') && !take_number(p, max)) *max = UINT32_MAX;
    if (!ok || !take_char(p, '}'))
        fail(p, at, "a repetition takes the form {m}, {m,} or {m,n}");
    else if (*min > SL_GRAM_MAX_REPEAT || (*max != UINT32_MAX && *max > SL_GRAM_MAX_REPEAT))
        sl_gb_fail(p->b, SL_ERR_LIMIT, "a repetition of more than %d", SL_GRAM_MAX_REPEAT);
    else if (*max < *min)
        fail(p, at, "a repetition whose bounds are the wrong way round");
}

/* A quantifier, if one stands here. */
static bool take_quantifier(parser *p, uint32_t *min, uint32_t *max)
{
    *min = 0, *max = UINT32_MAX;
    if (take_char(p, '+'))
        *min = 1;
    else if (take_char(p, '?'))
        *max = 1;
    else if (take_char(p, '{'))
        take_counts(p, min, max);
    else if (!take_char(p, '*'))
        return false;
    const char *at = p->p;
    if (take_char(p, '+')) unsupported(p, at, "a possessive quantifier");
    take_char(p, '?'); /* lazy */
    if (p->p < p->end && strchr("*+?{", *p->p)) fail(p, p->p, "a quantifier behind a quantifier");
    return true;
}

static uint32_t parse_sequence(parser *p, uint32_t from)
{
    while (p->b->rc == SL_OK && p->p < p->end && *p->p != '|' && *p->p != ')') {
        if (*p->p == '$' && p->depth == 0 && (p->p + 1 == p->end || p->p[1] == '|')) break;
        uint32_t min, max;
        sl_gram_part part = sl_gb_part_begin(p->b);
        uint32_t out = parse_atom(p, part.in);
        sl_gb_part_end(p->b, &part, out);
        if (p->b->rc == SL_OK && take_quantifier(p, &min, &max)) {
            from = sl_gb_repeat(p->b, from, &part, min, max);
        } else {
            sl_gb_empty(p->b, from, part.in);
            from = out;
        }
    }
    return from;
}

/* Anything, of any length. */
static void draw_anything(parser *p, uint32_t at)
{
    sl_gb_chars(p->b, at, sl_gb_set_of_range(p->b, 0, 0x10FFFF), p->re->json, at);
}

/* One alternative outside all parentheses, with its anchors. */
static uint32_t parse_outer(parser *p, uint32_t from)
{
    uint32_t begin = sl_gb_state(p->b);
    sl_gb_empty(p->b, from, begin);
    if (!take_char(p, '^') && p->re->search) draw_anything(p, begin);
    uint32_t at = parse_sequence(p, begin), end = sl_gb_state(p->b);
    sl_gb_empty(p->b, at, end);
    if (!take_char(p, '$') && p->re->search) draw_anything(p, end);
    return end;
}

static uint32_t parse_alternatives(parser *p, uint32_t from)
{
    uint32_t to = sl_gb_state(p->b);
    do
        sl_gb_empty(p->b, p->depth ? parse_sequence(p, from) : parse_outer(p, from), to);
    while (p->b->rc == SL_OK && take_char(p, '|'));
    return to;
}

uint32_t sl_gram_draw_regex(sl_gram_builder *b, uint32_t from, const sl_gram_regex *re)
{
    parser p = {.b = b, .re = re, .p = re->text, .end = re->text + re->n_bytes};
    size_t valid = sl_utf8_valid_prefix(re->text, re->n_bytes);
    if (valid < re->n_bytes) {
        sl_gb_fail(b, SL_ERR_FORMAT, "a regular expression that is not valid UTF-8 at byte %zu", valid);
        return 0;
    }
    sl_gram_part part = sl_gb_part_begin(b);
    uint32_t out = parse_alternatives(&p, part.in);
    sl_gb_part_end(b, &part, out);
    if (b->rc == SL_OK && p.p < p.end) return fail(&p, p.p, "a closing parenthesis without an opening one");
    if (re->min || re->max != UINT32_MAX) return sl_gb_count(b, from, &part, re->min, re->max);
    sl_gb_empty(b, from, part.in);
    return out;
}
