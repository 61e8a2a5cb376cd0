/* Pull reader for large JSON documents: strict RFC 8259, one event at a time, never recursive, no tree.  Two choices
 * the RFC leaves open: a lone surrogate escape becomes U+FFFD, and a number too large for float64 is an error.
 * Duplicate keys are not noticed: nothing is remembered.
 *
 * Life of the reader: `state` says what may come next; containers are a stack of bytes.  ERROR and END stay. */
#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WANT_VALUE,        /* at the start, after a colon, after a comma in an array */
    WANT_VALUE_OR_END, /* right after '[' */
    WANT_KEY_OR_END,   /* right after '{' */
    WANT_COMMA_OR_END, /* after a value in a container */
    DONE,              /* after the outermost value */
    FAILED,
};
enum { IN_OBJECT, IN_ARRAY };

void sl_json_reader_init(sl_json_reader *r, const char *text, size_t n_bytes)
{
    *r = (sl_json_reader){.text = text, .n_bytes = n_bytes, .max_depth = sizeof r->stack, .state = WANT_VALUE};
    sl_buf_init(&r->str, n_bytes); /* decoding never makes text longer */
}

void sl_json_reader_free(sl_json_reader *r)
{
    sl_buf_free(&r->str);
}

static sl_json_event fail(sl_json_reader *r, const char *why)
{
    r->error = why;
    r->state = FAILED;
    return SL_JSON_ERROR;
}

/* The next byte that is not white space, or -1 at the end. */
static int skip_space(sl_json_reader *r)
{
    while (r->pos < r->n_bytes) {
        char c = r->text[r->pos];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return (unsigned char)c;
        r->pos++;
    }
    return -1;
}

/* ---- strings ---- */

/* Four hex digits at s. */
static bool hex4(const char *s, uint32_t *v)
{
    *v = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t c = (unsigned char)s[i], l = c | 32;
        uint32_t d = c - '0' < 10 ? c - '0' : l - 'a' < 6 ? l - 'a' + 10 : 99;
        if (d == 99) return false;
        *v = *v << 4 | d;
    }
    return true;
}

/* \uXXXX with pos behind the 'u'; joins a surrogate pair. */
static bool unicode_escape(sl_json_reader *r)
{
    uint32_t hi, lo;
    if (r->n_bytes - r->pos < 4 || !hex4(r->text + r->pos, &hi)) {
        fail(r, "four hex digits must follow \\u");
        return false;
    }
    r->pos += 4;
    const char *s = r->text + r->pos;
    if (hi >= 0xD800 && hi < 0xDC00 && r->n_bytes - r->pos >= 6 && s[0] == '\\' && s[1] == 'u' && hex4(s + 2, &lo) &&
        lo >= 0xDC00 && lo < 0xE000) {
        hi = 0x10000 + ((hi - 0xD800) << 10) + (lo - 0xDC00);
        r->pos += 6;
    }
    char out[4];
    sl_buf_add(&r->str, out, sl_utf8_encode(hi, out)); /* a lone surrogate comes out as U+FFFD */
    return true;
}

/* The escape at pos, which stands behind the backslash. */
static bool escape(sl_json_reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->pos < r->n_bytes ? r->text[r->pos] : 0;
    const char *at = c ? strchr(from, c) : NULL;
    if (c != 'u' && !at) {
        fail(r, "unknown escape in a string");
        return false;
    }
    r->pos++;
    if (c == 'u') return unicode_escape(r);
    sl_buf_add(&r->str, to + (at - from), 1);
    return true;
}

/* Length of the run at s that stands for itself: valid UTF-8 without quote, backslash and control characters. */
static size_t plain_run(const char *s, size_t n)
{
    size_t i = 0;
    uint32_t cp;
    while (i < n) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\' || c < 0x20) break;
        size_t len = c < 0x80 ? 1 : sl_utf8_decode(s + i, n - i, &cp);
        if (!len) break;
        i += len;
    }
    return i;
}

/* Decodes the string at pos (behind the opening quote) into str. */
static bool read_string(sl_json_reader *r)
{
    r->str.len = 0;
    for (;;) {
        size_t n = plain_run(r->text + r->pos, r->n_bytes - r->pos);
        sl_buf_add(&r->str, r->text + r->pos, n);
        r->pos += n;
        if (r->str.failed) return fail(r, "no memory for a string"), false;
        if (r->pos == r->n_bytes) return fail(r, "a string does not end"), false;
        unsigned char c = (unsigned char)r->text[r->pos];
        if (c < 0x20) return fail(r, "a control character in a string must be escaped"), false;
        if (c >= 0x80) return fail(r, "a string is not valid UTF-8"), false;
        r->pos++;
        if (c == '"') return true;
        if (!escape(r)) return false;
    }
}

/* ---- numbers ---- */

typedef struct {
    uint64_t mantissa; /* the first 19 significant digits */
    int32_t exp10;
    bool exact; /* nothing was left out of the mantissa */
    bool negative, is_int;
} decimal;

static size_t digits(const sl_json_reader *r, size_t i)
{
    while (i < r->n_bytes && r->text[i] >= '0' && r->text[i] <= '9')
        i++;
    return i;
}

/* Adds the digits of text[from, to) to d; fraction digits lower the exponent. */
static void take_digits(decimal *d, const char *text, size_t from, size_t to, bool fraction)
{
    for (size_t i = from; i < to; i++) {
        if (d->mantissa > (UINT64_MAX - 9) / 10) {
            d->exact = d->is_int = false;
            return;
        }
        d->mantissa = d->mantissa * 10 + (uint64_t)(text[i] - '0');
        d->exp10 -= fraction;
    }
}

/* Scans the number at pos by the RFC's grammar; the text's end goes to *end. */
static bool scan_number(sl_json_reader *r, decimal *d, size_t *end)
{
    size_t i = r->pos, to;
    *d = (decimal){.exact = true, .is_int = true, .negative = r->text[i] == '-'};
    if (d->negative) i++;
    to = digits(r, i);
    if (to == i || (r->text[i] == '0' && to > i + 1)) return false;
    take_digits(d, r->text, i, to, false);
    i = to;
    if (i < r->n_bytes && r->text[i] == '.') {
        to = digits(r, ++i);
        if (to == i) return false;
        d->is_int = false;
        take_digits(d, r->text, i, to, true);
        i = to;
    }
    if (i < r->n_bytes && (r->text[i] | 32) == 'e') {
        i++;
        bool minus = i < r->n_bytes && r->text[i] == '-';
        if (minus || (i < r->n_bytes && r->text[i] == '+')) i++;
        to = digits(r, i);
        if (to == i) return false;
        d->is_int = false;
        int32_t e = 0;
        for (; i < to; i++)
            e = e < 100000 ? e * 10 + (r->text[i] - '0') : e;
        d->exp10 += minus ? -e : e;
    }
    *end = i;
    return true;
}

/* float64 of the literal.  Up to 2^53 times or over a power of ten up to 10^22, both sides are exact, so one
 * operation rounds right (Clinger 1990); the rest goes to strtod, in the C locale whatever the program has set. */
static bool to_double(const sl_json_reader *r, const decimal *d, size_t end, double *out)
{
    static const double p10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (d->exact && d->mantissa <= (uint64_t)1 << 53 && d->exp10 >= -22 && d->exp10 <= 22) {
        double v = (double)d->mantissa;
        v = d->exp10 < 0 ? v / p10[-d->exp10] : v * p10[d->exp10];
        *out = d->negative ? -v : v;
        return true;
    }
    char copy[512];
    size_t n = end - r->pos;
    if (n >= sizeof copy) return false;
    memcpy(copy, r->text + r->pos, n);
    copy[n] = 0;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a constant object in glibc and musl: costs nothing */
    if (!c) return false;
    *out = strtod_l(copy, NULL, c);
    freelocale(c);
    return isfinite(*out);
}

static bool to_int64(const decimal *d, int64_t *out)
{
    if (!d->is_int || d->mantissa > (uint64_t)INT64_MAX + d->negative) return false;
    *out = d->negative ? (int64_t)(0 - d->mantissa) : (int64_t)d->mantissa;
    return true;
}

static sl_json_event read_number(sl_json_reader *r)
{
    decimal d;
    size_t end;
    if (!scan_number(r, &d, &end)) return fail(r, "not a valid number");
    if (!to_double(r, &d, end, &r->number))
        return fail(r, "a number beyond the range of a double or of 511 characters");
    r->is_int = to_int64(&d, &r->integer);
    r->pos = end;
    return SL_JSON_NUMBER;
}

/* ---- events ---- */

static void value_done(sl_json_reader *r)
{
    r->state = r->depth ? WANT_COMMA_OR_END : DONE;
}

static sl_json_event open_container(sl_json_reader *r, uint8_t kind)
{
    if (r->depth >= r->max_depth) return fail(r, "nested deeper than 64");
    r->pos++;
    r->stack[r->depth++] = kind;
    r->state = kind == IN_OBJECT ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
    return kind == IN_OBJECT ? SL_JSON_OBJECT : SL_JSON_ARRAY;
}

static sl_json_event close_container(sl_json_reader *r)
{
    r->pos++;
    uint8_t kind = r->stack[--r->depth];
    value_done(r);
    return kind == IN_OBJECT ? SL_JSON_OBJECT_END : SL_JSON_ARRAY_END;
}

static sl_json_event read_word(sl_json_reader *r, const char *word, sl_json_event ev)
{
    size_t n = strlen(word);
    if (r->n_bytes - r->pos < n || memcmp(r->text + r->pos, word, n) != 0) return fail(r, "a value is expected");
    r->pos += n;
    return ev;
}

static sl_json_event read_scalar(sl_json_reader *r, int c)
{
    switch (c) {
    case '"':
        r->pos++;
        return read_string(r) ? SL_JSON_STRING : SL_JSON_ERROR;
    case 't':
        return read_word(r, "true", SL_JSON_TRUE);
    case 'f':
        return read_word(r, "false", SL_JSON_FALSE);
    case 'n':
        return read_word(r, "null", SL_JSON_NULL);
    default:
        if (c == '-' || (c >= '0' && c <= '9')) return read_number(r);
        return fail(r, c < 0 ? "the text ends where a value is expected" : "a value is expected");
    }
}

static sl_json_event read_value(sl_json_reader *r, int c)
{
    if (c == '{') return open_container(r, IN_OBJECT);
    if (c == '[') return open_container(r, IN_ARRAY);
    sl_json_event ev = read_scalar(r, c);
    if (ev != SL_JSON_ERROR) value_done(r);
    return ev;
}

static sl_json_event read_key(sl_json_reader *r, int c)
{
    if (c != '"') return fail(r, "a key in quotes is expected");
    r->pos++;
    if (!read_string(r)) return SL_JSON_ERROR;
    if (skip_space(r) != ':') return fail(r, "a colon is expected after a key");
    r->pos++;
    r->state = WANT_VALUE;
    return SL_JSON_KEY;
}

sl_json_event sl_json_read(sl_json_reader *r)
{
    if (r->state == FAILED) return SL_JSON_ERROR;
    int c = skip_space(r);
    bool object = r->depth && r->stack[r->depth - 1] == IN_OBJECT;
    int closer = object ? '}' : ']';
    switch (r->state) {
    case WANT_VALUE_OR_END:
        return c == closer ? close_container(r) : read_value(r, c);
    case WANT_KEY_OR_END:
        return c == closer ? close_container(r) : read_key(r, c);
    case WANT_COMMA_OR_END:
        if (c == closer) return close_container(r);
        if (c != ',') return fail(r, "a comma or the end of the array or object is expected");
        r->pos++;
        c = skip_space(r);
        return object ? read_key(r, c) : read_value(r, c);
    case DONE:
        return c < 0 ? SL_JSON_END : fail(r, "text after the end of the document");
    default:
        return read_value(r, c);
    }
}

bool sl_json_skip(sl_json_reader *r)
{
    uint32_t depth = r->depth;
    switch (sl_json_read(r)) {
    case SL_JSON_OBJECT:
    case SL_JSON_ARRAY:
        while (r->depth > depth)
            if (sl_json_read(r) == SL_JSON_ERROR) return false;
        return true;
    case SL_JSON_STRING:
    case SL_JSON_NUMBER:
    case SL_JSON_TRUE:
    case SL_JSON_FALSE:
    case SL_JSON_NULL:
        return true;
    default:
        return false; /* no value comes next */
    }
}
