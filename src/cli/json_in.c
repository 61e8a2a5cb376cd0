/* See json_in.h. */
#include "cli/json_in.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(cli_json_walk *w)
{
    while (w->at < w->end && is_blank(*w->at))
        w->at++;
}

static bool take(cli_json_walk *w, char c)
{
    skip_blanks(w);
    if (w->at == w->end || *w->at != c) return false;
    w->at++;
    return true;
}

/* Behind the string that begins at p; end when it does not end. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++) {
        if (*p == '\\' && p + 1 < end) p++;
    }
    return p < end ? p + 1 : end;
}

/* Behind the value that begins at p.  Which bracket closes which is not looked at: in valid JSON counting is enough. */
static const char *skip_value(const char *p, const char *end)
{
    size_t depth = 0;
    while (p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (*p == '}' || *p == ']') {
            if (!depth) return p; /* of what the value is in */
            depth--;
            p++;
        } else if (!depth && (*p == ',' || is_blank(*p))) {
            return p;
        } else {
            p++;
            continue;
        }
        if (!depth) return p;
    }
    return end;
}

bool cli_json_walk_begin(cli_json_walk *w, const char *text, size_t n_bytes)
{
    *w = (cli_json_walk){.at = text, .end = text + n_bytes};
    w->is_object = take(w, '{');
    return w->is_object || take(w, '[');
}

bool cli_json_walk_next(cli_json_walk *w, cli_json_item *item)
{
    *item = (cli_json_item){0};
    take(w, ',');
    skip_blanks(w);
    if (w->at == w->end || *w->at == '}' || *w->at == ']') return false;
    if (w->is_object) {
        if (*w->at != '"') return false;
        const char *behind = skip_string(w->at, w->end);
        item->key = w->at + 1;
        item->n_key = behind - w->at < 2 ? 0 : (size_t)(behind - w->at) - 2;
        w->at = behind;
        if (!take(w, ':')) return false;
        skip_blanks(w);
    }
    item->value = w->at;
    w->at = skip_value(w->at, w->end);
    item->n_value = (size_t)(w->at - item->value);
    return item->n_value > 0;
}

bool cli_json_find(const char *text, size_t n_bytes, const char *key, cli_json_item *item)
{
    cli_json_walk w;
    if (!cli_json_walk_begin(&w, text, n_bytes) || !w.is_object) return false;
    while (cli_json_walk_next(&w, item)) {
        if (item->n_key == strlen(key) && memcmp(item->key, key, item->n_key) == 0) return true;
    }
    return false;
}
