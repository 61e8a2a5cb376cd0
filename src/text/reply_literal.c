/* Literals that are not JSON, to JSON: Python's (True, None, 'text', (1, 2)), which some models write as arguments, and
 * Gemma's ({key:<|"|>text<|"|>}).  What neither notation knows is refused, never guessed. */
#include "text/reply_int.h"

#include <string.h>

enum { MAX_DEPTH = 60 };
static const char GEMMA_QUOTE[] = SL_GEMMA_QUOTE;

static void skip_space(sl_reply_literal *l)
{
    while (l->pos < l->n && sl_reply_is_space(l->text[l->pos]))
        l->pos++;
}

static bool take(sl_reply_literal *l, const char *lit)
{
    skip_space(l);
    if (sl_reply_lit(l->text + l->pos, l->n - l->pos, lit) != SL_LIT_WHOLE) return false;
    l->pos += strlen(lit);
    return true;
}

void sl_reply_put_string(sl_buf *out, const char *text, size_t n)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t plain = 0;
    sl_buf_add(out, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        sl_buf_add(out, text + plain, i - plain);
        plain = i + 1;
        const char *at = c ? strchr(from, c) : NULL;
        if (at)
            sl_buf_printf(out, "\\%c", to[at - from]);
        else
            sl_buf_printf(out, "\\u%04x", c);
    }
    if (plain < n) sl_buf_add(out, text + plain, n - plain); /* an empty string may be NULL */
    sl_buf_add(out, "\"", 1);
}

/* ---- strings ---- */

/* Hex digits at pos, as many as asked for. */
static bool hex(sl_reply_literal *l, size_t digits, uint32_t *v)
{
    *v = 0;
    if (l->n - l->pos < digits) return false;
    for (size_t i = 0; i < digits; i++) {
        uint32_t c = (unsigned char)l->text[l->pos++], low = c | 32;
        if (!(c >= '0' && c <= '9') && !(low >= 'a' && low <= 'f')) return false;
        *v = *v << 4 | (c <= '9' ? c - '0' : low - 'a' + 10);
    }
    return true;
}

/* The escape at pos, behind its backslash; one that Python does not know stands for itself. */
static bool escape(sl_reply_literal *l, sl_buf *plain)
{
    static const char from[] = "\\'\"abfnrtv0", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = l->text[l->pos++], utf8[4];
    const char *at = c ? strchr(from, c) : NULL;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t cp;
    if (c == '\n') return true;
    if (digits) {
        if (!hex(l, digits, &cp)) return false;
        sl_buf_add(plain, utf8, sl_utf8_encode(cp, utf8));
    } else if (at) {
        sl_buf_add(plain, c == '0' ? "" : to + (at - from), 1);
    } else {
        sl_buf_add(plain, "\\", 1);
        sl_buf_add(plain, &c, 1);
    }
    return true;
}

static bool python_string(sl_reply_literal *l, sl_buf *out, char quote)
{
    sl_buf plain;
    bool ok = false;
    sl_buf_init(&plain, l->n + 4);
    while (l->pos < l->n) {
        char c = l->text[l->pos++];
        if (c == quote) {
            ok = true;
            break;
        }
        if (c != '\\')
            sl_buf_add(&plain, &c, 1);
        else if (l->pos == l->n || !escape(l, &plain))
            break;
    }
    if (ok) sl_reply_put_string(out, plain.data, plain.len);
    if (plain.failed) out->failed = true;
    sl_buf_free(&plain);
    return ok;
}

/* A string at pos, if one begins there; *is_one tells. */
static bool string(sl_reply_literal *l, sl_buf *out, bool *is_one)
{
    skip_space(l);
    *is_one = true;
    if (l->gemma && take(l, GEMMA_QUOTE)) {
        const char *from = l->text + l->pos, *to = memmem(from, l->n - l->pos, GEMMA_QUOTE, sizeof GEMMA_QUOTE - 1);
        if (!to) return false;
        sl_reply_put_string(out, from, (size_t)(to - from));
        l->pos += (size_t)(to - from) + sizeof GEMMA_QUOTE - 1;
        return true;
    }
    char c = l->pos < l->n ? l->text[l->pos] : 0;
    *is_one = !l->gemma && (c == '\'' || c == '"');
    if (!*is_one) return false;
    l->pos++;
    return python_string(l, out, c);
}

/* ---- the rest ---- */

/* A key without quotes, up to `end`. */
static bool bare_key(sl_reply_literal *l, sl_buf *out, char end)
{
    skip_space(l);
    size_t from = l->pos, to;
    while (l->pos < l->n && !strchr("{}[](),:='\"<>\n", l->text[l->pos] ? l->text[l->pos] : ','))
        l->pos++;
    for (to = l->pos; to > from && sl_reply_is_space(l->text[to - 1]);)
        to--;
    if (to == from) return false;
    sl_reply_put_string(out, l->text + from, to - from);
    return take(l, (char[]){end, 0});
}

static bool key(sl_reply_literal *l, sl_buf *out)
{
    bool is_string;
    if (string(l, out, &is_string)) return take(l, ":");
    return !is_string && l->gemma && bare_key(l, out, ':');
}

/* Elements up to the closing bracket, behind the opening one; a comma before the closing one is Python's. */
static bool elements(sl_reply_literal *l, sl_buf *out, const char *close, bool with_keys)
{
    bool first = true;
    sl_buf_add(out, with_keys ? "{" : "[", 1);
    while (!take(l, close)) {
        if (!first && !take(l, ",")) return false;
        if (!first && take(l, close)) break;
        if (!first) sl_buf_add(out, ", ", 2);
        first = false;
        if (with_keys) {
            if (!key(l, out)) return false;
            sl_buf_add(out, ": ", 2);
        }
        if (!sl_reply_literal_read(l, out)) return false;
    }
    sl_buf_add(out, with_keys ? "}" : "]", 1);
    return true;
}

static bool word_or_number(sl_reply_literal *l, sl_buf *out)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    size_t from = l->pos;
    while (l->pos < l->n && l->text[l->pos] && !strchr("{}[](),:='\"<> \n\t\r", l->text[l->pos]))
        l->pos++;
    const char *p = l->text + from;
    size_t n = l->pos - from;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (n == strlen(words[i][0]) && memcmp(p, words[i][0], n) == 0) {
            sl_buf_add(out, words[i][1], strlen(words[i][1]));
            return true;
        }
    if (sl_reply_json_kind(p, n) != SL_KIND_NUMBER) return false;
    sl_buf_add(out, p, n);
    return true;
}

static bool container(sl_reply_literal *l, sl_buf *out, bool *is_one)
{
    *is_one = true;
    if (take(l, "{")) return elements(l, out, "}", true);
    if (take(l, "[")) return elements(l, out, "]", false);
    if (!l->gemma && take(l, "(")) return elements(l, out, ")", false);
    *is_one = false;
    return false;
}

bool sl_reply_literal_read(sl_reply_literal *l, sl_buf *out)
{
    bool is_one, ok;
    if (l->depth == MAX_DEPTH) return false;
    l->depth++;
    ok = string(l, out, &is_one);
    if (!is_one) ok = container(l, out, &is_one);
    if (!is_one) ok = word_or_number(l, out);
    l->depth--;
    return ok;
}

bool sl_reply_kwargs_read(sl_reply_literal *l, sl_buf *out)
{
    bool first = true;
    if (!take(l, "(")) return false;
    sl_buf_add(out, "{", 1);
    while (!take(l, ")")) {
        if (!first && !take(l, ",")) return false;
        if (!first && take(l, ")")) break;
        if (!first) sl_buf_add(out, ", ", 2);
        first = false;
        if (!bare_key(l, out, '=')) return false;
        sl_buf_add(out, ": ", 2);
        if (!sl_reply_literal_read(l, out)) return false;
    }
    sl_buf_add(out, "}", 1);
    return true;
}
