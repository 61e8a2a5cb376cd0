/* From a template's text to tokens: what Jinja's lexer does with trim_blocks, lstrip_blocks and loop controls on.
 *
 * The first newline after a block or comment goes; blanks between the start of a line and a block or comment go; "-" at
 * a tag takes all white space on its side, "+" keeps it; one newline at the very end of the template goes. */
#include "text/template/template_int.h"
#include "text/text_int.h"

#include <stdlib.h>

typedef struct {
    sl_tpl_heap *h;
    const char *text;
    size_t n, pos;
    uint32_t line;
    bool line_starting; /* the last thing taken ended with a newline, or nothing was */
    sl_tpl_tokens *out;
    char open[256]; /* brackets to be closed */
    uint32_t n_open;
} lexer;

static sl_tpl_token *push(lexer *x, sl_tpl_token_kind kind)
{
    sl_tpl_tokens *o = x->out;
    if (o->n == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 256;
        sl_tpl_token *at = sl_tpl_take(x->h, cap * sizeof *at);
        if (o->n) memcpy(at, o->at, o->n * sizeof *at);
        o->at = at;
        o->cap = cap;
    }
    o->at[o->n] = (sl_tpl_token){.kind = kind, .line = x->line};
    return &o->at[o->n++];
}

_Noreturn static void fail(lexer *x, const char *what)
{
    x->h->line = x->line;
    sl_tpl_fail(x->h, SL_ERR_FORMAT, "%s", what);
}

static bool at(const lexer *x, const char *s)
{
    size_t n = strlen(s);
    return x->n - x->pos >= n && memcmp(x->text + x->pos, s, n) == 0;
}

static char peek(const lexer *x)
{
    return x->pos < x->n ? x->text[x->pos] : 0;
}

static void count_lines(lexer *x, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        x->line += x->text[i] == '\n';
}

static void advance(lexer *x, size_t to)
{
    count_lines(x, x->pos, to);
    x->line_starting = to > x->pos ? x->text[to - 1] == '\n' : false;
    x->pos = to;
}

static size_t skip_space(const lexer *x, size_t i)
{
    uint32_t cp;
    size_t len;
    while (i < x->n && (len = sl_utf8_decode(x->text + i, x->n - i, &cp)) && sl_tpl_is_space(cp))
        i += len;
    return i;
}

/* ---- outside of tags ---- */

/* Where text [from, to) ends when the tag behind it strips to the left. */
static size_t strip_end(const lexer *x, size_t from, size_t to)
{
    uint32_t cp;
    size_t len;
    while (to > from && (len = sl_char_before(x->text, to, &cp)) && sl_tpl_is_space(cp) && to - from >= len)
        to -= len;
    return to;
}

/* The same for lstrip_blocks. */
static size_t lstrip_end(const lexer *x, size_t from, size_t to, bool line_starting)
{
    size_t line = to;
    while (line > from && x->text[line - 1] != '\n')
        line--;
    if ((line > from || line_starting) && skip_space(x, line) >= to) return line;
    return to;
}

static void push_data(lexer *x, size_t from, size_t to)
{
    if (from == to) return;
    sl_tpl_token *t = push(x, SL_TPL_T_DATA);
    t->p = x->text + from;
    t->n = to - from;
}

/* Text up to a tag of 2 bytes at `tag`; a sign behind it is taken too. */
static void take_data(lexer *x, size_t tag, bool is_variable)
{
    size_t from = x->pos, end = tag, next = tag + 2;
    char sign = next < x->n ? x->text[next] : 0;
    if (sign == '-')
        end = strip_end(x, from, tag);
    else if (sign != '+' && !is_variable)
        end = lstrip_end(x, from, tag, x->line_starting);
    push_data(x, from, end);
    advance(x, next + (sign == '-' || sign == '+'));
}

/* Behind "%}" or "#}": one newline goes. */
static size_t after_end(const lexer *x, size_t i)
{
    return i < x->n && x->text[i] == '\n' ? i + 1 : i;
}

/* The end of a block tag at pos, "%}" with its sign; 0: not here. */
static size_t block_end(const lexer *x, char c)
{
    char plain[3] = {c, '}', 0}, minus[4] = {'-', c, '}', 0}, plus[4] = {'+', c, '}', 0};
    if (at(x, plus)) return x->pos + 3;
    if (at(x, minus)) return skip_space(x, x->pos + 3);
    return at(x, plain) ? after_end(x, x->pos + 2) : 0;
}

static void take_comment(lexer *x)
{
    size_t begin = x->pos, end = 0;
    while (x->pos < x->n && !(end = block_end(x, '#')))
        x->pos++;
    if (!end) fail(x, "a comment is not closed");
    x->pos = begin;
    advance(x, end);
}

/* Behind "{%" and its sign: the position after "raw %}", or 0. */
static size_t raw_begin(const lexer *x)
{
    lexer y = *x;
    y.pos = skip_space(x, x->pos);
    if (!at(&y, "raw")) return 0;
    y.pos = skip_space(x, y.pos + 3);
    if (at(&y, "%}")) return y.pos + 2;
    return at(&y, "-%}") ? skip_space(x, y.pos + 3) : 0;
}

/* At "{%": the position after "endraw %}", or 0. */
static size_t raw_end(const lexer *x, size_t tag)
{
    lexer y = *x;
    y.pos = tag + 2;
    if (peek(&y) == '-' || peek(&y) == '+') y.pos++;
    y.pos = skip_space(x, y.pos);
    if (!at(&y, "endraw")) return 0;
    y.pos = skip_space(x, y.pos + 6);
    return block_end(&y, '%');
}

static void take_raw(lexer *x)
{
    size_t tag = x->pos, end = 0;
    for (; tag + 1 < x->n; tag++)
        if (x->text[tag] == '{' && x->text[tag + 1] == '%' && (end = raw_end(x, tag))) break;
    if (!end) fail(x, "a raw block is not closed");
    take_data(x, tag, false);
    advance(x, end);
}

/* ---- inside of tags ---- */

static size_t skip_digits(const lexer *x, size_t i, int base)
{
    for (size_t last = i;; i++) {
        char c = i < x->n ? x->text[i] : 0;
        int v = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
        if (v < base)
            last = i + 1;
        else if (c != '_' || i != last || i + 1 >= x->n)
            return last;
    }
}

/* Copies [from, to) without "_". */
static char *digits_of(lexer *x, size_t from, size_t to)
{
    char *s = sl_tpl_take(x->h, to - from + 1);
    size_t n = 0;
    for (size_t i = from; i < to; i++)
        if (x->text[i] != '_') s[n++] = x->text[i];
    return s;
}

static bool is_digit(const lexer *x, size_t i)
{
    return i < x->n && x->text[i] >= '0' && x->text[i] <= '9';
}

/* The end of a float at pos; 0: it is an integer. */
static size_t float_end(const lexer *x)
{
    if (x->pos && x->text[x->pos - 1] == '.') return 0;
    size_t i = skip_digits(x, x->pos, 10), end = 0;
    if (i + 1 < x->n && x->text[i] == '.' && is_digit(x, i + 1)) i = end = skip_digits(x, i + 1, 10);
    if (i < x->n && (x->text[i] | 32) == 'e') {
        size_t k = i + 1;
        if (k < x->n && (x->text[k] == '+' || x->text[k] == '-')) k++;
        if (is_digit(x, k)) end = skip_digits(x, k, 10);
    }
    return end;
}

static void take_number(lexer *x)
{
    size_t end = float_end(x);
    if (end) {
        push(x, SL_TPL_T_FLOAT)->f = strtod(digits_of(x, x->pos, end), NULL);
        advance(x, end);
        return;
    }
    char second = x->pos + 1 < x->n ? (char)(x->text[x->pos + 1] | 32) : 0;
    int base = peek(x) != '0' ? 10 : second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 10;
    size_t from = base == 10 ? x->pos : x->pos + 2;
    end = skip_digits(x, from, base);
    if (end == from) { /* "0x" and no digit: the zero alone */
        base = 10;
        from = x->pos;
        end = from + 1;
    }
    char *stop, *s = digits_of(x, from, end);
    unsigned long long v = strtoull(s, &stop, base);
    if (v > INT64_MAX) fail(x, "a number is too large");
    push(x, SL_TPL_T_INT)->i = (int64_t)v;
    advance(x, end);
}

static void take_name(lexer *x)
{
    size_t i = x->pos, len;
    uint32_t cp;
    while (i < x->n && (len = sl_utf8_decode(x->text + i, x->n - i, &cp)) && (cp == '_' || sl_char_is_word(cp)))
        i += len;
    sl_tpl_token *t = push(x, SL_TPL_T_NAME);
    t->p = x->text + x->pos;
    t->n = i - x->pos;
    advance(x, i);
}

static uint32_t hex(lexer *x, const char *p, const char *end, int n)
{
    uint32_t v = 0;
    for (int i = 0; i < n; i++) {
        char c = p + i < end ? p[i] : 0;
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = v << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            fail(x, "a string has a broken escape");
    }
    return v;
}

/* One escape at p, behind the backslash; returns what follows it.  Unknown ones stay as they are. */
static const char *unescape(lexer *x, const char *p, const char *end, char *out, size_t *n)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char *known = strchr(from, *p);
    uint32_t cp = 0;
    if (*p == '\n') return p + 1;
    if (known && *p) {
        out[(*n)++] = to[known - from];
        return p + 1;
    }
    int width = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    if (width) {
        cp = hex(x, p + 1, end, width);
        p += 1 + width;
    } else if (*p >= '0' && *p <= '7') {
        for (int i = 0; i < 3 && p < end && *p >= '0' && *p <= '7'; i++)
            cp = cp * 8 + (uint32_t)(*p++ - '0');
    } else if (*p == 'N')
        fail(x, "a character named in a string, which this engine has no table for");
    else {
        out[(*n)++] = '\\';
        return p;
    }
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) cp = 0xFFFD;
    *n += sl_utf8_encode(cp, out + *n);
    return p;
}

static void take_string(lexer *x)
{
    char quote = peek(x);
    size_t end = x->pos + 1;
    while (end < x->n && x->text[end] != quote)
        end += x->text[end] == '\\' ? 2 : 1;
    if (end >= x->n) fail(x, "a string is not closed");
    const char *p = x->text + x->pos + 1, *stop = x->text + end;
    char *s = sl_tpl_take(x->h, (size_t)(stop - p) * 2 + 8); /* an octal escape may become two bytes */
    size_t n = 0;
    while (p < stop) {
        if (*p == '\\')
            p = unescape(x, p + 1, stop, s, &n);
        else
            s[n++] = *p++;
    }
    sl_tpl_token *t = push(x, SL_TPL_T_STRING);
    t->p = s;
    t->n = n;
    advance(x, end + 1);
}

static void balance(lexer *x, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        x->h->line = x->line;
        if (x->n_open == sizeof x->open)
            sl_tpl_fail(x->h, SL_ERR_LIMIT, "brackets are nested more than %zu deep", sizeof x->open);
        x->open[x->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        char what[64] = "unexpected ' '";
        what[12] = c;
        if (!x->n_open || x->open[--x->n_open] != c) fail(x, what);
    }
}

static void take_operator(lexer *x)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    char what[] = "unexpected character ' '";
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (at(x, two[i])) n = 2;
    if (n == 1 && !strchr("+-/*%~[](){}><=.:|,;", peek(x))) {
        if (peek(x) >= ' ' && peek(x) < 127) what[22] = peek(x);
        fail(x, what);
    }
    if (n == 1) balance(x, peek(x));
    sl_tpl_token *t = push(x, SL_TPL_T_OPERATOR);
    memcpy(t->op, x->text + x->pos, n);
    advance(x, x->pos + n);
}

static void take_token(lexer *x)
{
    char c = peek(x);
    uint32_t cp;
    size_t space = skip_space(x, x->pos);
    if (space > x->pos)
        advance(x, space);
    else if (c >= '0' && c <= '9')
        take_number(x);
    else if (sl_utf8_decode(x->text + x->pos, x->n - x->pos, &cp) && (cp == '_' || sl_char_is_word(cp)))
        take_name(x);
    else if (c == '\'' || c == '"')
        take_string(x);
    else
        take_operator(x);
}

static void take_tag(lexer *x, bool is_variable)
{
    size_t end;
    push(x, is_variable ? SL_TPL_T_VARIABLE_BEGIN : SL_TPL_T_BLOCK_BEGIN);
    for (;; take_token(x)) {
        if (x->pos >= x->n) fail(x, "the template ends inside a tag");
        if (x->n_open) continue;
        if (!is_variable)
            end = block_end(x, '%');
        else
            end = at(x, "-}}") ? skip_space(x, x->pos + 3) : at(x, "}}") ? x->pos + 2 : 0;
        if (end) break;
    }
    push(x, is_variable ? SL_TPL_T_VARIABLE_END : SL_TPL_T_BLOCK_END);
    advance(x, end);
}

static void take_root(lexer *x)
{
    size_t tag = x->pos;
    while (tag + 1 < x->n && !(x->text[tag] == '{' && strchr("{%#", x->text[tag + 1]) && x->text[tag + 1]))
        tag++;
    if (tag + 1 >= x->n) {
        push_data(x, x->pos, x->n);
        advance(x, x->n);
        return;
    }
    char c = x->text[tag + 1];
    take_data(x, tag, c == '{');
    size_t raw = c == '%' ? raw_begin(x) : 0;
    if (c == '#')
        take_comment(x);
    else if (raw) {
        advance(x, raw);
        take_raw(x);
    } else
        take_tag(x, c == '{');
}

void sl_tpl_lex(sl_tpl_heap *h, const char *text, size_t n_bytes, sl_tpl_tokens *out)
{
    lexer x = {.h = h, .text = text, .n = n_bytes, .line = 1, .line_starting = true, .out = out};
    *out = (sl_tpl_tokens){0};
    while (x.pos < x.n)
        take_root(&x);
    push(&x, SL_TPL_T_END);
}
