/* JSON trees for small documents, over jansson; the only file that knows jansson.  Large documents go through
 * json_reader.c.  An sl_json is a json_t under another name.
 *
 * jansson allocates with plain malloc: its hook is process-wide and belongs to the application, so trees are neither
 * counted nor refused by sl_alloc_set_hook().  They are small and live while a model's headers are parsed. */
#include "base/json.h"

#include <jansson.h>
#include <string.h>

/* ---- integers beyond 64 bits ----
 * Valid JSON, and common: tokenizers write 1e30 as an integer for "no limit".  jansson refuses them, so they are
 * rewritten as reals before parsing. */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The integer literal at text[i..]: true when it does not fit; *end is where it ends.  Anything that turns out to be a
 * real, or is not a number at all, is jansson's business. */
static bool oversized_integer(const char *text, size_t n, size_t i, size_t *end)
{
    size_t from = i;
    if (i < n && text[i] == '-') i++;
    size_t digits = i;
    while (i < n && is_digit(text[i]))
        i++;
    *end = i > from ? i : from + 1;
    if (i - digits < 19 || (i < n && (text[i] == '.' || text[i] == 'e' || text[i] == 'E'))) return false;
    if (i - digits > 19) return true;
    return memcmp(text + digits, "9223372036854775807", 19) > 0; /* -2^63 becomes a real as well: no loss in float64 */
}

/* Finds the next oversized integer outside strings at or after *pos, which is moved behind it. */
static bool next_oversized(const char *text, size_t n, size_t *pos, bool *in_string)
{
    size_t i = *pos;
    while (i < n) {
        char c = text[i];
        if (*in_string) {
            if (c == '"') *in_string = false;
            i += c == '\\' ? 2 : 1;
        } else if (c == '-' || is_digit(c)) {
            bool big = oversized_integer(text, n, i, &i);
            *pos = i;
            if (big) return true;
            while (i < n && (is_digit(text[i]) || strchr("+-.eE", text[i] ? text[i] : '"')))
                i++; /* the rest of a real: digits of a fraction are no integer */
        } else {
            *in_string = c == '"';
            i++;
        }
    }
    *pos = n;
    return false;
}

/* A copy with ".0" behind each oversized integer; *out stays NULL when there is none.  False: no memory. */
static bool rewrite_oversized(const char *text, size_t n, char **out, size_t *n_out)
{
    size_t count = 0;
    bool in_string = false;
    for (size_t pos = 0; next_oversized(text, n, &pos, &in_string);)
        count++;
    if (!count) return true;
    char *p = *out = sl_malloc(n + 2 * count);
    if (!p) return false;
    size_t from = 0;
    in_string = false;
    for (size_t pos = 0; next_oversized(text, n, &pos, &in_string); from = pos) {
        memcpy(p, text + from, pos - from);
        p += pos - from;
        memcpy(p, ".0", 2);
        p += 2;
    }
    memcpy(p, text + from, n - from);
    *n_out = n + 2 * count;
    return true;
}

/* ---- parse ---- */

sl_status sl_json_parse(sl_json **out, const char *what, const char *text, size_t n_bytes, sl_err *err)
{
    char *copy = NULL;
    size_t n_copy = 0;
    if (!rewrite_oversized(text, n_bytes, &copy, &n_copy))
        return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for %zu bytes of JSON", what, n_bytes);
    json_error_t e;
    json_t *root = json_loadb(copy ? copy : text, copy ? n_copy : n_bytes,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    sl_free(copy);
    if (!root && json_error_code(&e) == json_error_out_of_memory)
        return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for %zu bytes of JSON", what, n_bytes);
    if (!root)
        return sl_fail(err, SL_ERR_FORMAT, "%s: not valid JSON at line %d, column %d: %s", what, e.line, e.column,
                       e.text);
    *out = (sl_json *)root;
    return SL_OK;
}

void sl_json_free(sl_json *root)
{
    json_decref((json_t *)root);
}

/* ---- look ---- */

static const json_t *node(const sl_json *v)
{
    return (const json_t *)v;
}

const sl_json *sl_json_get(const sl_json *object, const char *key)
{
    const json_t *v = json_object_get(node(object), key);
    return json_is_null(v) ? NULL : (const sl_json *)v;
}

bool sl_json_is_object(const sl_json *v)
{
    return json_is_object(node(v));
}

bool sl_json_is_array(const sl_json *v)
{
    return json_is_array(node(v));
}

bool sl_json_is_string(const sl_json *v)
{
    return json_is_string(node(v));
}

bool sl_json_is_null(const sl_json *v)
{
    return json_is_null(node(v));
}

bool sl_json_int(const sl_json *v, int64_t *out)
{
    if (!json_is_integer(node(v))) return false;
    *out = json_integer_value(node(v));
    return true;
}

bool sl_json_number(const sl_json *v, double *out)
{
    if (!json_is_number(node(v))) return false;
    *out = json_number_value(node(v));
    return true;
}

bool sl_json_bool(const sl_json *v, bool *out)
{
    if (!json_is_boolean(node(v))) return false;
    *out = json_is_true(node(v));
    return true;
}

const char *sl_json_string(const sl_json *v, size_t *n_bytes)
{
    const char *s = json_string_value(node(v));
    if (n_bytes) *n_bytes = s ? json_string_length(node(v)) : 0;
    return s;
}

size_t sl_json_count(const sl_json *v)
{
    return json_is_array(node(v)) ? json_array_size(node(v)) : json_object_size(node(v));
}

const sl_json *sl_json_at(const sl_json *array, size_t i)
{
    return (const sl_json *)json_array_get(node(array), i);
}

bool sl_json_next(const sl_json *object, void **iter, const char **key, const sl_json **value)
{
    json_t *o = (json_t *)(uintptr_t)object; /* jansson's iterators want it mutable but do not change it */
    *iter = *iter ? json_object_iter_next(o, *iter) : json_object_iter(o);
    if (!*iter) return false;
    *key = json_object_iter_key(*iter);
    *value = (const sl_json *)json_object_iter_value(*iter);
    return true;
}
