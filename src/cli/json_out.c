/* See json_out.h.  Nothing is kept in memory: values go to the file as they come. */
#include "cli/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Length of the valid UTF-8 character at s, 0 when there is none: no overlong form, no surrogate, none above U+10FFFF
 * (Unicode 15, table 3-7). */
static size_t character_length(const unsigned char *s, size_t n)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (length > n) return 0;
    if (s[0] == 0xe0) low = 0xa0;
    if (s[0] == 0xed) high = 0x9f;
    if (s[0] == 0xf0) low = 0x90;
    if (s[0] == 0xf4) high = 0x8f;
    for (size_t i = 1; i < length; i++) {
        if (s[i] < low || s[i] > high) return 0;
        low = 0x80, high = 0xbf;
    }
    return length;
}

static void put_character(FILE *f, const unsigned char *s, size_t length)
{
    switch (s[0]) {
    case '"':
        fputs("\\\"", f);
        return;
    case '\\':
        fputs("\\\\", f);
        return;
    case '\n':
        fputs("\\n", f);
        return;
    case '\r':
        fputs("\\r", f);
        return;
    case '\t':
        fputs("\\t", f);
        return;
    default:
        break;
    }
    if (s[0] < 0x20 || s[0] == 0x7f)
        fprintf(f, "\\u%04x", s[0]);
    else
        fwrite(s, 1, length, f);
}

void cli_json_put_string(FILE *f, const char *s, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)s;
    fputc('"', f);
    for (size_t i = 0; i < n_bytes;) {
        size_t length = character_length(p + i, n_bytes - i);
        if (length)
            put_character(f, p + i, length);
        else
            fputs("\xef\xbf\xbd", f); /* U+FFFD for each byte that is no part of a character */
        i += length ? length : 1;
    }
    fputc('"', f);
}

void cli_json_put_ids(FILE *f, const int32_t *ids, size_t n)
{
    fputc('[', f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s%" PRId32, i ? "," : "", ids[i]);
    fputc(']', f);
}

static void new_line(cli_json *j)
{
    if (!j->pretty) return;
    fputc('\n', j->f);
    for (unsigned i = 0; i < j->depth; i++)
        fputs("  ", j->f);
}

/* Comma, indentation and key of the next value. */
static void next(cli_json *j, const char *key)
{
    uint32_t bit = 1u << j->depth;
    if (j->depth) {
        if (j->has_item & bit) fputc(',', j->f);
        new_line(j);
    }
    j->has_item |= bit;
    if (!key || (j->is_array & bit)) return;
    cli_json_put_string(j->f, key, strlen(key));
    fputs(j->pretty ? ": " : ":", j->f);
}

static void open_value(cli_json *j, const char *key, bool is_array)
{
    next(j, key);
    fputc(is_array ? '[' : '{', j->f);
    j->depth++;
    uint32_t bit = 1u << j->depth;
    j->has_item &= ~bit;
    j->is_array = is_array ? j->is_array | bit : j->is_array & ~bit;
}

void cli_json_begin(cli_json *j, FILE *f, bool pretty)
{
    *j = (cli_json){.f = f, .pretty = pretty};
    open_value(j, NULL, false);
}

void cli_json_end(cli_json *j)
{
    while (j->depth)
        cli_json_close(j);
    fputc('\n', j->f);
}

void cli_json_object(cli_json *j, const char *key)
{
    open_value(j, key, false);
}

void cli_json_array(cli_json *j, const char *key)
{
    open_value(j, key, true);
}

void cli_json_close(cli_json *j)
{
    uint32_t bit = 1u << j->depth;
    j->depth--;
    if (j->has_item & bit) new_line(j);
    fputc(j->is_array & bit ? ']' : '}', j->f);
}

void cli_json_bytes(cli_json *j, const char *key, const char *s, size_t n_bytes)
{
    next(j, key);
    cli_json_put_string(j->f, s, n_bytes);
}

void cli_json_string(cli_json *j, const char *key, const char *s)
{
    if (s)
        cli_json_bytes(j, key, s, strlen(s));
    else
        cli_json_null(j, key);
}

void cli_json_u64(cli_json *j, const char *key, uint64_t v)
{
    next(j, key);
    fprintf(j->f, "%" PRIu64, v);
}

void cli_json_i64(cli_json *j, const char *key, int64_t v)
{
    next(j, key);
    fprintf(j->f, "%" PRId64, v);
}

void cli_json_f64(cli_json *j, const char *key, double v)
{
    next(j, key);
    if (isfinite(v))
        fprintf(j->f, "%.9g", v);
    else
        fputs("null", j->f);
}

void cli_json_bool(cli_json *j, const char *key, bool v)
{
    next(j, key);
    fputs(v ? "true" : "false", j->f);
}

void cli_json_null(cli_json *j, const char *key)
{
    next(j, key);
    fputs("null", j->f);
}

void cli_json_ids(cli_json *j, const char *key, const int32_t *ids, size_t n)
{
    next(j, key);
    cli_json_put_ids(j->f, ids, n);
}
