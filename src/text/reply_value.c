/* Parameters of dialects that write each one between tags, as raw text: what JSON value was meant?  The tool's schema
 * says. only a string            the text itself, whatever it looks like a string or others       a value of one of the
 * others if the text is one, else the text no string                JSON; failing that Python's notation, which some
 * templates print; failing that the text no schema                JSON, else the text */
#include "text/reply_int.h"

#include <string.h>

enum { MAX_SCHEMA_DEPTH = 8 };

static unsigned kind_by_name(const sl_json *name)
{
    static const struct {
        const char *name;
        unsigned kind;
    } kinds[] = {{"string", SL_KIND_STRING}, {"number", SL_KIND_NUMBER}, {"integer", SL_KIND_NUMBER},
                 {"boolean", SL_KIND_BOOL},  {"null", SL_KIND_NULL},     {"object", SL_KIND_OBJECT},
                 {"array", SL_KIND_ARRAY}};
    size_t n;
    const char *s = sl_json_string(name, &n);
    for (size_t i = 0; s && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].name) == n && memcmp(s, kinds[i].name, n) == 0) return kinds[i].kind;
    return 0;
}

static unsigned kind_of(const sl_json *v)
{
    double d;
    bool b;
    if (sl_json_is_string(v)) return SL_KIND_STRING;
    if (sl_json_number(v, &d)) return SL_KIND_NUMBER;
    if (sl_json_bool(v, &b)) return SL_KIND_BOOL;
    return sl_json_is_object(v) ? SL_KIND_OBJECT : sl_json_is_array(v) ? SL_KIND_ARRAY : SL_KIND_NULL;
}

static unsigned schema_kinds(const sl_json *schema, unsigned depth);

/* Union over the elements of a list; 0 as soon as one is not known. */
static unsigned list_kinds(const sl_json *list, unsigned (*kinds)(const sl_json *, unsigned), unsigned depth)
{
    unsigned all = 0;
    for (size_t i = 0; i < sl_json_count(list); i++) {
        unsigned k = kinds(sl_json_at(list, i), depth);
        if (!k) return 0;
        all |= k;
    }
    return all;
}

static unsigned named_kinds(const sl_json *name, unsigned depth)
{
    (void)depth;
    return kind_by_name(name);
}

static unsigned value_kinds(const sl_json *v, unsigned depth)
{
    (void)depth;
    return kind_of(v);
}

static unsigned schema_kinds(const sl_json *schema, unsigned depth)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    const sl_json *type = sl_json_get(schema, "type"), *list;
    if (depth > MAX_SCHEMA_DEPTH) return 0;
    if (sl_json_is_string(type)) return kind_by_name(type);
    if (sl_json_is_array(type)) return list_kinds(type, named_kinds, depth);
    if ((list = sl_json_get(schema, "enum"))) return list_kinds(list, value_kinds, depth);
    if ((list = sl_json_get(schema, "const"))) return kind_of(list);
    for (size_t i = 0; i < 2; i++)
        if ((list = sl_json_get(schema, unions[i]))) return list_kinds(list, schema_kinds, depth + 1);
    return 0;
}

unsigned sl_reply_schema_kinds(const sl_json *schema)
{
    return schema_kinds(schema, 0);
}

static void trim(const char **text, size_t *n)
{
    while (*n && sl_reply_is_space(**text)) {
        ++*text;
        --*n;
    }
    while (*n && sl_reply_is_space((*text)[*n - 1]))
        --*n;
}

/* Appends the text as one of these kinds; false: it is none of them, nothing was appended. */
static bool put_parsed(sl_buf *out, unsigned kinds, const char *text, size_t n)
{
    trim(&text, &n);
    unsigned kind = sl_reply_json_kind(text, n);
    if (kind & kinds) {
        sl_buf_add(out, text, n);
        return true;
    }
    if (kind) return false;
    size_t before = out->len;
    sl_reply_literal l = {.text = text, .n = n};
    if (sl_reply_literal_read(&l, out) && l.pos == n &&
        (sl_reply_json_kind(out->data + before, out->len - before) & kinds))
        return true;
    if (out->data) out->data[out->len = before] = 0;
    return false;
}

void sl_reply_put_value(sl_buf *out, const sl_json *schema, unsigned flags, const char *text, size_t n)
{
    const unsigned all = SL_KIND_STRING | SL_KIND_NUMBER | SL_KIND_BOOL | SL_KIND_NULL | SL_KIND_OBJECT | SL_KIND_ARRAY;
    unsigned kinds = flags & (SL_STEP_STRING | SL_STEP_PARSED) ? 0 : schema_kinds(schema, 0);
    if (flags & SL_STEP_STRING || kinds == SL_KIND_STRING) {
        sl_reply_put_string(out, text, n);
        return;
    }
    if (!kinds) { /* JSON or a string: Python's notation is for those who must not mean a string */
        const char *t = text;
        size_t n_t = n;
        trim(&t, &n_t);
        if (sl_reply_json_kind(t, n_t))
            sl_buf_add(out, t, n_t);
        else
            sl_reply_put_string(out, text, n);
        return;
    }
    if (kinds & SL_KIND_STRING ? put_parsed(out, kinds & ~(unsigned)SL_KIND_STRING, text, n)
                               : put_parsed(out, all, text, n))
        return;
    sl_reply_put_string(out, text, n);
}
