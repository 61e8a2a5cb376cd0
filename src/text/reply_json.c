/* Text of a call as it arrives: is this byte still part of a JSON document, of a bracketed literal, and is it the last?
 * Both remember no more than where they are, so that a megabyte of brackets costs 64 bytes and one look per byte. */
#include "text/reply_int.h"

#include <string.h>

enum {
    TOP,          /* before the document */
    VALUE,        /* a value must come */
    VALUE_OR_END, /* right after '[' */
    KEY,          /* after a comma in an object */
    KEY_OR_END,   /* right after '{' */
    COLON,
    NEXT, /* after a value */
    IN_STRING,
    IN_KEY,
    ESCAPE, /* after a backslash; ESCAPE + 1: in a key */
    ESCAPE_KEY,
    HEX,
    HEX_KEY,
    WORD,
    MINUS,
    ZERO,
    INTEGER,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS,
};

void sl_reply_json_init(sl_reply_json *j)
{
    *j = (sl_reply_json){.state = TOP};
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static sl_scan go(sl_reply_json *j, uint8_t state)
{
    j->state = state;
    return SL_SCAN_MORE;
}

static sl_scan word(sl_reply_json *j, const char *rest)
{
    j->word = rest;
    return go(j, WORD);
}

static sl_scan begin_value(sl_reply_json *j, char c)
{
    switch (c) {
    case '{':
    case '[':
        if (j->depth == sizeof j->stack) return SL_SCAN_BAD;
        j->stack[j->depth++] = (uint8_t)c;
        return go(j, c == '{' ? KEY_OR_END : VALUE_OR_END);
    case '"':
        return go(j, IN_STRING);
    case 't':
        return word(j, "rue");
    case 'f':
        return word(j, "alse");
    case 'n':
        return word(j, "ull");
    case '-':
        return go(j, MINUS);
    case '0':
        return go(j, ZERO);
    default:
        return is_digit(c) ? go(j, INTEGER) : SL_SCAN_BAD;
    }
}

/* A comma or a closing bracket. */
static sl_scan after_value(sl_reply_json *j, char c)
{
    bool object = j->stack[j->depth - 1] == '{';
    if (c == ',') return go(j, object ? KEY : VALUE);
    if (c != (object ? '}' : ']')) return SL_SCAN_BAD;
    j->depth--;
    j->state = NEXT;
    return j->depth ? SL_SCAN_MORE : SL_SCAN_DONE;
}

static sl_scan in_string(sl_reply_json *j, char c)
{
    bool key = j->state == IN_KEY;
    if (c == '"') return go(j, key ? COLON : NEXT);
    if (c == '\\') return go(j, key ? ESCAPE_KEY : ESCAPE);
    return (unsigned char)c < 0x20 ? SL_SCAN_BAD : SL_SCAN_MORE;
}

static sl_scan in_escape(sl_reply_json *j, char c)
{
    bool key = j->state == ESCAPE_KEY || j->state == HEX_KEY;
    if (j->state == ESCAPE || j->state == ESCAPE_KEY) {
        j->hex = 4;
        if (c == 'u') return go(j, key ? HEX_KEY : HEX);
        return c && strchr("\"\\/bfnrt", c) ? go(j, key ? IN_KEY : IN_STRING) : SL_SCAN_BAD;
    }
    if (!is_digit(c) && !((c | 32) >= 'a' && (c | 32) <= 'f')) return SL_SCAN_BAD;
    return --j->hex ? SL_SCAN_MORE : go(j, key ? IN_KEY : IN_STRING);
}

/* Numbers end with the first byte that is not theirs, which is then looked at as what follows a value. */
static sl_scan in_number(sl_reply_json *j, char c)
{
    bool digit = is_digit(c), whole = j->state == ZERO || j->state == INTEGER;
    switch (j->state) {
    case MINUS:
        return digit ? go(j, c == '0' ? ZERO : INTEGER) : SL_SCAN_BAD;
    case POINT:
        return digit ? go(j, FRACTION) : SL_SCAN_BAD;
    case EXPONENT:
        if (c == '+' || c == '-') return go(j, EXPONENT_SIGN);
        return digit ? go(j, EXPONENT_DIGITS) : SL_SCAN_BAD;
    case EXPONENT_SIGN:
        return digit ? go(j, EXPONENT_DIGITS) : SL_SCAN_BAD;
    default:
        break;
    }
    if (digit && j->state != ZERO) return SL_SCAN_MORE;
    if (digit) return SL_SCAN_BAD;
    if (whole && c == '.') return go(j, POINT);
    if (j->state != EXPONENT_DIGITS && (c | 32) == 'e') return go(j, EXPONENT);
    j->state = NEXT;
    return sl_reply_is_space(c) ? SL_SCAN_MORE : after_value(j, c);
}

sl_scan sl_reply_json_feed(sl_reply_json *j, char c)
{
    if (j->state >= MINUS) return in_number(j, c);
    if (j->state == IN_STRING || j->state == IN_KEY) return in_string(j, c);
    if (j->state >= ESCAPE && j->state <= HEX_KEY) return in_escape(j, c);
    if (j->state == WORD) {
        if (c != *j->word) return SL_SCAN_BAD;
        return *++j->word ? SL_SCAN_MORE : go(j, NEXT);
    }
    if (sl_reply_is_space(c)) return j->state == TOP ? SL_SCAN_BAD : SL_SCAN_MORE;
    switch (j->state) {
    case TOP:
        return c == '{' || c == '[' ? begin_value(j, c) : SL_SCAN_BAD;
    case KEY_OR_END:
    case VALUE_OR_END:
        if (c == (j->state == KEY_OR_END ? '}' : ']')) return after_value(j, c);
        if (j->state == VALUE_OR_END) return begin_value(j, c);
        return c == '"' ? go(j, IN_KEY) : SL_SCAN_BAD;
    case KEY:
        return c == '"' ? go(j, IN_KEY) : SL_SCAN_BAD;
    case COLON:
        return c == ':' ? go(j, VALUE) : SL_SCAN_BAD;
    case VALUE:
        return begin_value(j, c);
    default:
        return after_value(j, c);
    }
}

unsigned sl_reply_json_kind(const char *text, size_t n)
{
    sl_reply_json j;
    char first = 0;
    sl_reply_json_init(&j);
    sl_reply_json_feed(&j, '[');
    for (size_t i = 0; i < n; i++) {
        if (sl_reply_json_feed(&j, text[i]) != SL_SCAN_MORE || (j.depth == 1 && j.state == VALUE)) return 0;
        if (!first && !sl_reply_is_space(text[i])) first = text[i];
    }
    if (!first || sl_reply_json_feed(&j, ']') != SL_SCAN_DONE) return 0;
    switch (first) {
    case '{':
        return SL_KIND_OBJECT;
    case '[':
        return SL_KIND_ARRAY;
    case '"':
        return SL_KIND_STRING;
    case 'n':
        return SL_KIND_NULL;
    default:
        return first == 't' || first == 'f' ? SL_KIND_BOOL : SL_KIND_NUMBER;
    }
}

/* ---- brackets ---- */

/* Gemma's quote is five bytes long. */
static const char GEMMA_QUOTE[] = SL_GEMMA_QUOTE;

static sl_scan gemma_quote(sl_reply_brackets *b, char c)
{
    bool fits = c == GEMMA_QUOTE[b->n_quote];
    if (!fits && !b->quote) return SL_SCAN_BAD; /* nothing else begins so outside a string */
    b->n_quote = fits ? b->n_quote + 1 : c == GEMMA_QUOTE[0];
    if (b->n_quote < sizeof GEMMA_QUOTE - 1) return SL_SCAN_MORE;
    b->n_quote = 0;
    b->quote = b->quote ? 0 : '<';
    return SL_SCAN_MORE;
}

static sl_scan bracket(sl_reply_brackets *b, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *o = c ? strchr(open, c) : NULL, *e = c ? strchr(close, c) : NULL;
    if (o) {
        if (b->depth == sizeof b->stack) return SL_SCAN_BAD;
        b->stack[b->depth++] = close[o - open];
        return SL_SCAN_MORE;
    }
    if (e && (!b->depth || b->stack[b->depth - 1] != c)) return SL_SCAN_BAD;
    if (e) b->depth--;
    return b->depth ? SL_SCAN_MORE : e ? SL_SCAN_DONE : SL_SCAN_BAD;
}

sl_scan sl_reply_brackets_feed(sl_reply_brackets *b, char c)
{
    if (b->gemma) {
        if (b->quote || b->n_quote || c == GEMMA_QUOTE[0]) return gemma_quote(b, c);
        return bracket(b, c);
    }
    if (b->quote) {
        bool ends = !b->escaped && c == b->quote;
        b->escaped = !b->escaped && c == '\\';
        if (ends) b->quote = 0;
        return SL_SCAN_MORE;
    }
    if (c == '\'' || c == '"') {
        b->quote = c;
        return b->depth ? SL_SCAN_MORE : SL_SCAN_BAD;
    }
    return bracket(b, c);
}
