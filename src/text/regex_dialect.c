/* From the dialect of tokenizer.json (Oniguruma, Ruby syntax) to PCRE2's.  What differs:
 *   \s \S \w \d \b \h   Unicode's White_Space and word characters, hex digits; PCRE2 counts U+180E as blank and, up to
 *                       10.42, no marks as word characters
 *   [:alpha:] and kin   Unicode properties
 *   \p{Han}             the script; PCRE2 means script extensions unless told "sc:"
 *   \uHHHH              a code point
 *   [a&&[^b]] [a[bc]]   intersection and union of classes
 *   a{1,3}+             a repeated interval; possessive in PCRE2
 *   (?m:...)            dot matches newline, which PCRE2 calls s
 * A pattern that uses something else is passed on as it is: PCRE2 knows it, or refuses it by name. */
#include "text/text_int.h"

#include <string.h>

enum { MAX_GROUPS = 64, MAX_OPERANDS = 4 };
#define SPACE_ITEMS      "\\p{Z}\\t-\\r\\x{85}"
#define CLASS_WORD_ITEMS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* Outside of a class Oniguruma's \w has the superscripts and fractions of Latin-1 too. */
#define WORD_ITEMS CLASS_WORD_ITEMS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"
#define HEX_ITEMS  "0-9A-Fa-f"

typedef struct {
    const char *p;
    size_t n, i;
    sl_buf *out;
    size_t atom;              /* where in out the last atom begins: what a quantifier is about */
    size_t group[MAX_GROUPS]; /* where in out the open groups begin */
    size_t n_group;
    const char *what;
    sl_err *err;
} dialect;

static void put(sl_buf *b, const char *s)
{
    sl_buf_add(b, s, strlen(s));
}

static bool at(const dialect *d, const char *s)
{
    size_t n = strlen(s);
    return d->n - d->i >= n && memcmp(d->p + d->i, s, n) == 0;
}

static sl_status refuse(const dialect *d, const char *why)
{
    return sl_fail(d->err, SL_ERR_UNSUPPORTED, "%s: %s, at byte %zu of the pattern '%.*s'", d->what, why, d->i,
                   (int)(d->n < 120 ? d->n : 120), d->p);
}

/* Is it the name of a script?  PCRE2 itself is asked. */
static bool is_script(const char *name, size_t n)
{
    char pattern[64] = "\\p{sc:";
    int code;
    size_t where;
    if (n < 3 || n > 40 || memchr(name, ':', n)) return false;
    memcpy(pattern + 6, name, n);
    pattern[6 + n] = '}';
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, 7 + n, PCRE2_UTF, &code, &where, NULL);
    pcre2_code_free(re);
    return re != NULL;
}

/* \p{...} or \P{...} with i on the letter. */
static void property(dialect *d, sl_buf *out)
{
    bool negated = d->p[d->i] == 'P';
    const char *open = d->p + d->i + 1, *end = d->n - d->i > 1 ? memchr(open, '}', d->n - d->i - 1) : NULL;
    if (!end || *open != '{') { /* \pL, or broken: PCRE2's business */
        sl_buf_printf(out, "\\%c", d->p[d->i++]);
        return;
    }
    const char *name = open + 1;
    if (name < end && *name == '^') {
        negated = !negated;
        name++;
    }
    size_t n = (size_t)(end - name);
    sl_buf_printf(out, "\\%c{%s%.*s}", negated ? 'P' : 'p', is_script(name, n) ? "sc:" : "", (int)n, name);
    d->i = (size_t)(end + 1 - d->p);
}

/* Escapes that mean the same inside and outside of a class; i stands on the letter. */
static void common_escape(dialect *d, sl_buf *out)
{
    char c = d->p[d->i];
    if (c == 'p' || c == 'P') {
        property(d, out);
    } else if (c == 'u' && d->n - d->i >= 5) {
        sl_buf_printf(out, "\\x{%.4s}", d->p + d->i + 1);
        d->i += 5;
    } else if (c == 'Q' || c == 'E') { /* quoting in PCRE2, plain letters here */
        sl_buf_add(out, &c, 1);
        d->i++;
    } else {
        sl_buf_add(out, "\\", 1);
        sl_buf_add(out, &c, 1);
        d->i++;
    }
}

static sl_status escape_outside(dialect *d)
{
    static const struct {
        char letter;
        const char *text;
    } table[] = {
        {'s', "[" SPACE_ITEMS "]"},
        {'S', "[^" SPACE_ITEMS "]"},
        {'w', "[" WORD_ITEMS "]"},
        {'W', "[^" WORD_ITEMS "]"},
        {'d', "\\p{Nd}"},
        {'D', "\\P{Nd}"},
        {'h', "[" HEX_ITEMS "]"},
        {'H', "[^" HEX_ITEMS "]"},
        {'b', "(?:(?<=[" WORD_ITEMS "])(?![" WORD_ITEMS "])|(?<![" WORD_ITEMS "])(?=[" WORD_ITEMS "]))"},
        {'B', "(?:(?<=[" WORD_ITEMS "])(?=[" WORD_ITEMS "])|(?<![" WORD_ITEMS "])(?![" WORD_ITEMS "]))"},
    };
    d->atom = d->out->len;
    d->i++;
    if (d->i == d->n) return refuse(d, "a backslash ends the pattern");
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++)
        if (table[k].letter == d->p[d->i]) {
            put(d->out, table[k].text);
            d->i++;
            return SL_OK;
        }
    common_escape(d, d->out);
    return SL_OK;
}

/* ---- classes ---- */

typedef struct {
    sl_buf items;
    bool negated;
} operand;

static void escape_in_class(dialect *d, sl_buf *out)
{
    static const struct {
        char letter;
        const char *text;
    } table[] = {
        {'s', SPACE_ITEMS}, {'w', CLASS_WORD_ITEMS}, {'d', "\\p{Nd}"}, {'D', "\\P{Nd}"}, {'h', HEX_ITEMS},
    };
    d->i++;
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++)
        if (table[k].letter == d->p[d->i]) {
            put(out, table[k].text);
            d->i++;
            return;
        }
    common_escape(d, out); /* \S and \W in a class cannot be spelt out; PCRE2's differ for U+180E, and for some marks */
}

/* "[:alpha:]" at i. */
static sl_status posix_class(dialect *d, sl_buf *out)
{
    static const struct {
        const char *name, *text;
    } table[] = {
        {"[:alpha:]", "\\p{Alphabetic}"}, {"[:alnum:]", "\\p{Alphabetic}\\p{Nd}"}, {"[:digit:]", "\\p{Nd}"},
        {"[:upper:]", "\\p{Uppercase}"},  {"[:lower:]", "\\p{Lowercase}"},         {"[:punct:]", "\\p{P}\\p{S}"},
        {"[:space:]", SPACE_ITEMS},       {"[:word:]", CLASS_WORD_ITEMS},          {"[:xdigit:]", HEX_ITEMS},
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++)
        if (at(d, table[k].name)) {
            put(out, table[k].text);
            d->i += strlen(table[k].name);
            return SL_OK;
        }
    const char *end = memmem(d->p + d->i, d->n - d->i, ":]", 2);
    return refuse(d, end ? "a class '[:...:]' of that name" : "'[:' without ':]'");
}

/* One item of a class, not a nested one. */
static sl_status class_item(dialect *d, sl_buf *out)
{
    if (at(d, "[:")) return posix_class(d, out);
    if (d->p[d->i] == '\\') {
        if (d->n - d->i < 2) return refuse(d, "a backslash ends the pattern");
        escape_in_class(d, out);
        return SL_OK;
    }
    sl_buf_add(out, d->p + d->i++, 1);
    return SL_OK;
}

/* The items up to the closing bracket; i stands behind the opening one. */
static sl_status nested_class(dialect *d, operand *to, bool alone)
{
    bool negated = d->i < d->n && d->p[d->i] == '^';
    d->i += negated;
    if (negated && !alone) return refuse(d, "a negated class inside a class");
    to->negated = negated;
    for (bool first = true; d->i < d->n; first = false) {
        if (d->p[d->i] == ']' && !first) {
            d->i++;
            return SL_OK;
        }
        if (at(d, "&&") || (d->p[d->i] == '[' && !at(d, "[:"))) return refuse(d, "classes nested twice");
        sl_status rc = class_item(d, &to->items);
        if (rc != SL_OK) return rc;
    }
    return refuse(d, "a class that does not end");
}

/* Reads "a&&b&&c]" into operands; i stands behind the opening bracket and the '^'. */
static sl_status class_operands(dialect *d, operand *ops, size_t *n_op)
{
    sl_status rc = SL_OK;
    *n_op = 1;
    for (bool first = true; rc == SL_OK; first = false) {
        operand *op = &ops[*n_op - 1];
        if (d->i == d->n) return refuse(d, "a class that does not end");
        if (d->p[d->i] == ']' && !first) {
            d->i++;
            return SL_OK;
        }
        if (at(d, "&&")) {
            if (*n_op == MAX_OPERANDS) return refuse(d, "more than 4 classes intersected");
            ++*n_op;
            d->i += 2;
        } else if (d->p[d->i] == '[' && !at(d, "[:")) {
            if (op->negated) return refuse(d, "a class behind a negated class inside a class");
            d->i++;
            rc = nested_class(d, op, op->items.len == 0);
        } else if (op->negated) {
            return refuse(d, "items behind a negated class inside a class");
        } else {
            rc = class_item(d, &op->items);
        }
    }
    return rc;
}

static void put_class(sl_buf *out, const operand *op, bool flip)
{
    put(out, op->negated != flip ? "[^" : "[");
    if (op->items.len) sl_buf_add(out, op->items.data, op->items.len);
    put(out, "]");
}

/* A character that is in all operands: lookaheads for all but the first. */
static void put_intersection(sl_buf *out, const operand *ops, size_t n_op, bool negated)
{
    put(out, negated ? "(?:(?!" : "(?:");
    for (size_t k = 1; k < n_op; k++) {
        put(out, "(?=");
        put_class(out, &ops[k], false);
        put(out, ")");
    }
    put_class(out, &ops[0], false);
    put(out, negated ? ")(?s:.))" : ")");
}

static sl_status bracket(dialect *d)
{
    operand ops[MAX_OPERANDS] = {0};
    size_t n_op;
    for (size_t k = 0; k < MAX_OPERANDS; k++)
        sl_buf_init(&ops[k].items, SL_TOK_MAX_PATTERN_BYTES * 8);
    d->atom = d->out->len;
    d->i++;
    bool negated = d->i < d->n && d->p[d->i] == '^';
    d->i += negated;
    sl_status rc = class_operands(d, ops, &n_op);
    for (size_t k = 0; rc == SL_OK && k < n_op; k++)
        if (ops[k].items.failed)
            rc = sl_fail(d->err, SL_ERR_NOMEM, "%s: no memory for a pattern", d->what);
        else if (ops[k].items.len == 0)
            rc = refuse(d, "an empty class");
    if (rc == SL_OK && n_op == 1) put_class(d->out, &ops[0], negated);
    if (rc == SL_OK && n_op > 1) put_intersection(d->out, ops, n_op, negated);
    for (size_t k = 0; k < MAX_OPERANDS; k++)
        sl_buf_free(&ops[k].items);
    return rc;
}

/* ---- groups and quantifiers ---- */

static sl_status open_group(dialect *d)
{
    if (at(d, "(*")) return refuse(d, "a verb '(*'");
    if (d->n_group == MAX_GROUPS) return refuse(d, "groups nested deeper than 64");
    d->group[d->n_group++] = d->out->len;
    sl_buf_add(d->out, d->p + d->i++, 1);
    if (d->i == d->n || d->p[d->i] != '?') return SL_OK;
    sl_buf_add(d->out, d->p + d->i++, 1);
    for (; d->i < d->n && d->p[d->i] && strchr("imx-", d->p[d->i]); d->i++)
        sl_buf_add(d->out, d->p[d->i] == 'm' ? "s" : d->p + d->i, 1);
    return SL_OK;
}

static size_t digits(const dialect *d, size_t i)
{
    while (i < d->n && d->p[i] >= '0' && d->p[i] <= '9')
        i++;
    return i;
}

/* Length of "{n}", "{n,}", "{n,m}" or "{,m}" at i, or 0. */
static size_t interval(const dialect *d)
{
    size_t i = d->i + 1, from = i;
    i = digits(d, i);
    if (i < d->n && d->p[i] == ',') i = digits(d, i + 1);
    return i < d->n && d->p[i] == '}' && i > from + (d->p[from] == ',') ? i + 1 - d->i : 0;
}

static void brace(dialect *d)
{
    size_t n = interval(d);
    bool repeated = n && d->i + n < d->n && d->p[d->i + n] == '+';
    if (repeated) { /* "a{1,3}+" -> "(?:a{1,3})+" */
        put(d->out, "   ");
        if (d->out->failed) return;
        memmove(d->out->data + d->atom + 3, d->out->data + d->atom, d->out->len - 3 - d->atom);
        memcpy(d->out->data + d->atom, "(?:", 3);
    }
    if (n && d->p[d->i + 1] == ',')
        sl_buf_printf(d->out, "{0%.*s", (int)(n - 1), d->p + d->i + 1);
    else
        sl_buf_add(d->out, d->p + d->i, n ? n : 1);
    if (repeated) put(d->out, ")");
    d->i += n ? n : 1;
}

static sl_status token(dialect *d)
{
    uint32_t cp;
    size_t len;
    switch (d->p[d->i]) {
    case '\\':
        return escape_outside(d);
    case '[':
        return bracket(d);
    case '(':
        return open_group(d);
    case '{':
        brace(d);
        return SL_OK;
    case ')':
        if (d->n_group == 0) return refuse(d, "')' without '('");
        d->atom = d->group[--d->n_group];
        break;
    case '*':
    case '+':
    case '?':
        break;
    default:
        d->atom = d->out->len;
        break;
    }
    len = sl_utf8_decode(d->p + d->i, d->n - d->i, &cp);
    if (len == 0) return refuse(d, "invalid UTF-8");
    sl_buf_add(d->out, d->p + d->i, len);
    d->i += len;
    return SL_OK;
}

sl_status sl_regex_translate(sl_buf *out, const char *pattern, size_t n_bytes, const char *what, sl_err *err)
{
    dialect d = {.p = pattern, .n = n_bytes, .out = out, .what = what, .err = err};
    sl_buf_init(out, SL_TOK_MAX_PATTERN_BYTES * 8);
    if (n_bytes > SL_TOK_MAX_PATTERN_BYTES)
        return sl_fail(err, SL_ERR_FORMAT, "%s: a pattern of %zu bytes, the limit is %d", what, n_bytes,
                       SL_TOK_MAX_PATTERN_BYTES);
    while (d.i < n_bytes) {
        sl_status rc = token(&d);
        if (rc != SL_OK) return rc;
    }
    if (out->failed) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a pattern", what);
    return SL_OK;
}
