/* JSON itself: the rules that JSON mode and schemas share.  A model could otherwise fill its answer with blanks or digits
 * without end, so between tokens there is at most one space, or one newline with an indentation, and numbers have at most
 * 15 digits before and 15 behind the point (what a double keeps) and an exponent of two. */
#include "text/grammar_int.h"

#include <string.h>

enum { MAX_INDENT = 20, MAX_DIGITS = 15, MAX_EXPONENT = 2 };

/* ---- small pieces ---- */

uint32_t sl_json_space(sl_json_rules *j, uint32_t from)
{
    uint32_t to = sl_gb_state(j->b);
    sl_gb_call(j->b, from, sl_json_rule_get(j, SL_JSON_WS), to);
    return to;
}

uint32_t sl_json_colon(sl_json_rules *j, uint32_t from)
{
    uint32_t colon = sl_gb_literal(j->b, from, ":", 1), to = sl_gb_state(j->b);
    sl_gb_empty(j->b, colon, to);
    sl_gb_bytes(j->b, colon, ' ', ' ', to);
    return to;
}

uint32_t sl_json_elements(sl_json_rules *j, uint32_t from, char close, sl_json_element element, void *user)
{
    sl_gram_builder *b = j->b;
    uint32_t first = sl_json_space(j, from), one = element(user, first);
    uint32_t comma = sl_gb_literal(b, one, ",", 1), next = sl_json_space(j, comma);
    sl_gb_empty(b, element(user, next), one);
    uint32_t last = sl_json_space(j, one), to = sl_gb_literal(b, last, &close, 1);
    sl_gb_bytes(b, first, (uint8_t)close, (uint8_t)close, to);
    return to;
}

uint32_t sl_json_literal(sl_gram_builder *b, uint32_t from, const char *text, size_t n_bytes)
{
    from = sl_gb_literal(b, from, "\"", 1);
    for (size_t i = 0, len; i < n_bytes && b->rc == SL_OK; i += len) {
        uint32_t cp;
        len = sl_utf8_decode(text + i, n_bytes - i, &cp);
        if (!len) {
            sl_gb_fail(b, SL_ERR_FORMAT, "a text is not valid UTF-8");
            break;
        }
        if (cp >= 0x20 && cp != '"' && cp != '\\') {
            from = sl_gb_literal(b, from, text + i, len);
            continue;
        }
        uint32_t to = sl_gb_state(b);
        sl_gb_chars(b, from, sl_gb_set_of_range(b, cp, cp), true, to);
        from = to;
    }
    return sl_gb_literal(b, from, "\"", 1);
}

/* ---- rules ---- */

static void draw_ws(sl_gram_builder *b, uint32_t from, uint32_t to)
{
    sl_gb_empty(b, from, to);
    sl_gb_bytes(b, from, ' ', ' ', to);
    uint32_t at = sl_gb_literal(b, from, "\n", 1);
    sl_gb_empty(b, at, to);
    for (int i = 0; i < MAX_INDENT; i++) {
        uint32_t next = sl_gb_state(b);
        sl_gb_bytes(b, at, ' ', ' ', next);
        sl_gb_bytes(b, at, '\t', '\t', next);
        sl_gb_empty(b, next, to);
        at = next;
    }
}

static void hex(sl_gram_builder *b, uint32_t from, uint32_t to)
{
    sl_gb_bytes(b, from, '0', '9', to);
    sl_gb_bytes(b, from, 'a', 'f', to);
    sl_gb_bytes(b, from, 'A', 'F', to);
}

static uint32_t two_hex(sl_gram_builder *b, uint32_t from, uint32_t to)
{
    uint32_t mid = sl_gb_state(b);
    hex(b, from, mid);
    hex(b, mid, to);
    return to;
}

/* Either case of the letters from lo to hi. */
static void letters(sl_gram_builder *b, uint32_t from, char lo, char hi, uint32_t to)
{
    sl_gb_bytes(b, from, (uint8_t)lo, (uint8_t)hi, to);
    sl_gb_bytes(b, from, (uint8_t)(lo - 'a' + 'A'), (uint8_t)(hi - 'a' + 'A'), to);
}

/* A backslash, u and four digits; surrogates in pairs only. */
static void draw_unicode_escape(sl_gram_builder *b, uint32_t from, uint32_t to)
{
    uint32_t u = sl_gb_literal(b, from, "\\u", 2), rest2 = sl_gb_state(b), rest3 = sl_gb_state(b), d = sl_gb_state(b);
    two_hex(b, rest2, to);
    hex(b, rest3, rest2);
    sl_gb_bytes(b, u, '0', '9', rest3);
    letters(b, u, 'a', 'c', rest3);
    letters(b, u, 'e', 'f', rest3);
    letters(b, u, 'd', 'd', d);
    sl_gb_bytes(b, d, '0', '7', rest2);
    uint32_t high2 = sl_gb_state(b), high = sl_gb_state(b), low = sl_gb_state(b);
    sl_gb_bytes(b, d, '8', '9', high2);
    letters(b, d, 'a', 'b', high2);
    two_hex(b, high2, high);
    uint32_t u2 = sl_gb_literal(b, high, "\\u", 2);
    letters(b, u2, 'd', 'd', low);
    letters(b, low, 'c', 'f', rest2);
}

static void draw_text(sl_gram_builder *b, uint32_t from, uint32_t to)
{
    uint32_t body = sl_gb_literal(b, from, "\"", 1), any = sl_gb_set_of_range(b, 0, 0x10FFFF);
    sl_gb_chars(b, body, any, true, body);
    sl_gb_empty(b, sl_gb_literal(b, body, "\\/", 2), body);
    draw_unicode_escape(b, body, body);
    sl_gb_bytes(b, body, '"', '"', to);
}

/* Up to max digits, at least one; each may be the last. */
static void digits(sl_gram_builder *b, uint32_t from, int max, uint32_t to)
{
    for (int i = 0; i < max; i++) {
        uint32_t next = sl_gb_state(b);
        sl_gb_bytes(b, from, '0', '9', next);
        sl_gb_empty(b, next, to);
        from = next;
    }
}

static void draw_integer(sl_gram_builder *b, uint32_t from, uint32_t to)
{
    uint32_t unsigned_ = sl_gb_state(b), first = sl_gb_state(b);
    sl_gb_empty(b, from, unsigned_);
    sl_gb_bytes(b, from, '-', '-', unsigned_);
    sl_gb_bytes(b, unsigned_, '0', '0', to);
    sl_gb_bytes(b, unsigned_, '1', '9', first);
    sl_gb_empty(b, first, to);
    digits(b, first, MAX_DIGITS - 1, to);
}

static void draw_real(sl_gram_builder *b, uint32_t from, uint32_t to)
{
    uint32_t whole = sl_gb_state(b), fraction = sl_gb_state(b);
    draw_integer(b, from, whole);
    sl_gb_empty(b, whole, fraction);
    digits(b, sl_gb_literal(b, whole, ".", 1), MAX_DIGITS, fraction);
    sl_gb_empty(b, fraction, to);
    uint32_t e = sl_gb_state(b), sign = sl_gb_state(b);
    letters(b, fraction, 'e', 'e', e);
    sl_gb_empty(b, e, sign);
    sl_gb_bytes(b, e, '+', '+', sign);
    sl_gb_bytes(b, e, '-', '-', sign);
    digits(b, sign, MAX_EXPONENT, to);
}

static void draw_any(sl_json_rules *j, uint32_t from, uint32_t to)
{
    static const sl_json_rule kinds[] = {SL_JSON_TEXT, SL_JSON_REAL, SL_JSON_MAP, SL_JSON_LIST};
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        sl_gb_call(j->b, from, sl_json_rule_get(j, kinds[i]), to);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        sl_gb_empty(j->b, sl_gb_literal(j->b, from, words[i], strlen(words[i])), to);
}

static uint32_t any_element(void *user, uint32_t from)
{
    sl_json_rules *j = user;
    uint32_t to = sl_gb_state(j->b);
    sl_gb_call(j->b, from, sl_json_rule_get(j, SL_JSON_ANY), to);
    return to;
}

static uint32_t any_member(void *user, uint32_t from)
{
    sl_json_rules *j = user;
    uint32_t key = sl_gb_state(j->b);
    sl_gb_call(j->b, from, sl_json_rule_get(j, SL_JSON_TEXT), key);
    return any_element(j, sl_json_colon(j, key));
}

uint32_t sl_json_rule_get(sl_json_rules *j, sl_json_rule which)
{
    sl_gram_builder *b = j->b;
    if (j->rule[which]) return j->rule[which] - 1;
    uint32_t rule = sl_gb_rule(b);
    if (b->rc != SL_OK) return 0;
    j->rule[which] = rule + 1;
    uint32_t from = b->rules[rule].start, to = b->rules[rule].end;
    switch (which) {
    case SL_JSON_WS:
        draw_ws(b, from, to);
        break;
    case SL_JSON_TEXT:
        draw_text(b, from, to);
        break;
    case SL_JSON_REAL:
        draw_real(b, from, to);
        break;
    case SL_JSON_INTEGER:
        draw_integer(b, from, to);
        break;
    case SL_JSON_MAP:
        sl_gb_empty(b, sl_json_elements(j, sl_gb_literal(b, from, "{", 1), '}', any_member, j), to);
        break;
    case SL_JSON_LIST:
        sl_gb_empty(b, sl_json_elements(j, sl_gb_literal(b, from, "[", 1), ']', any_element, j), to);
        break;
    default:
        draw_any(j, from, to);
        break;
    }
    return rule;
}

void sl_gram_draw_json(sl_gram_builder *b)
{
    sl_json_rules j = {.b = b};
    sl_gb_call(b, b->rules[b->root].start, sl_json_rule_get(&j, SL_JSON_MAP), b->rules[b->root].end);
}
