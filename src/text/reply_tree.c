/* MiniMax M3 writes arguments as a tree of tags, <key>value</key> with <item> for the elements of arrays, where each
 * tag has a mark of its own before it.  Inside text the mark cannot occur, so nothing is escaped. */
#include "text/reply_int.h"

#include <string.h>

enum { MAX_DEPTH = 32 };
static const char MARK[] = SL_M3_MARK;

typedef struct {
    const char *p, *end;
    sl_buf *out;
    unsigned depth;
} tree;

static bool take(tree *t, const char *lit)
{
    if (sl_reply_lit(t->p, (size_t)(t->end - t->p), lit) != SL_LIT_WHOLE) return false;
    t->p += strlen(lit);
    return true;
}

static void skip_space(tree *t)
{
    while (t->p < t->end && sl_reply_is_space(*t->p))
        t->p++;
}

/* An opening tag behind white space, if one comes next; else nothing is taken. */
static bool open_tag(tree *t, const char **name, size_t *n)
{
    const char *back = t->p;
    skip_space(t);
    if (take(t, MARK) && take(t, "<") && t->p < t->end && *t->p != '/') {
        const char *from = t->p;
        while (t->p < t->end && *t->p != '>' && *t->p != '<' && *t->p != '\n' && t->p - from <= SL_REPLY_MAX_KEY)
            t->p++;
        *name = from;
        *n = (size_t)(t->p - from);
        if (*n && take(t, ">")) return true;
    }
    t->p = back;
    return false;
}

static bool close_tag(tree *t, const char *name, size_t n)
{
    if (!take(t, MARK) || !take(t, "</") || (size_t)(t->end - t->p) <= n || memcmp(t->p, name, n) != 0) return false;
    t->p += n;
    return take(t, ">");
}

static bool is_item(const char *name, size_t n)
{
    return n == 4 && memcmp(name, "item", 4) == 0;
}

static const sl_json *property(const sl_json *schema, const char *name, size_t n)
{
    char key[SL_REPLY_MAX_KEY + 2];
    if (n >= sizeof key || memchr(name, 0, n)) return NULL;
    memcpy(key, name, n);
    key[n] = 0;
    return sl_json_get(sl_json_get(schema, "properties"), key);
}

static bool content(tree *t, const sl_json *schema, const char *name, size_t n);

/* Children until something else comes, the first of which was opened. */
static bool children(tree *t, const sl_json *schema, const char *name, size_t n)
{
    bool array = is_item(name, n) && sl_reply_schema_kinds(schema) != SL_KIND_OBJECT, first = true;
    sl_buf_add(t->out, array ? "[" : "{", 1);
    do {
        if (array && !is_item(name, n)) return false;
        if (!first) sl_buf_add(t->out, ", ", 2);
        first = false;
        if (!array) {
            sl_reply_put_string(t->out, name, n);
            sl_buf_add(t->out, ": ", 2);
        }
        if (!content(t, array ? sl_json_get(schema, "items") : property(schema, name, n), name, n)) return false;
    } while (open_tag(t, &name, &n));
    skip_space(t);
    sl_buf_add(t->out, array ? "]" : "}", 1);
    return true;
}

/* What stands between the opening tag, which was taken, and the closing one, which is taken too. */
static bool content(tree *t, const sl_json *schema, const char *name, size_t n)
{
    const char *child, *from = t->p;
    size_t n_child;
    if (t->depth == MAX_DEPTH) return false;
    if (open_tag(t, &child, &n_child)) {
        t->depth++;
        bool ok = children(t, schema, child, n_child);
        t->depth--;
        return ok && close_tag(t, name, n);
    }
    const char *to = memmem(from, (size_t)(t->end - from), MARK, sizeof MARK - 1);
    if (!to) return false;
    t->p = to;
    unsigned kinds = to == from ? sl_reply_schema_kinds(schema) : 0;
    if (kinds == SL_KIND_OBJECT || kinds == SL_KIND_ARRAY)
        sl_buf_add(t->out, kinds == SL_KIND_OBJECT ? "{}" : "[]", 2);
    else
        sl_reply_put_value(t->out, schema, 0, from, (size_t)(to - from));
    return close_tag(t, name, n);
}

bool sl_reply_tree_read(sl_buf *out, const sl_json *schema, const char *text, size_t n)
{
    tree t = {.p = text, .end = text + n, .out = out};
    const char *name;
    size_t n_name;
    if (!open_tag(&t, &name, &n_name)) {
        skip_space(&t);
        sl_buf_add(out, "{}", 2);
    } else if (is_item(name, n_name) || !children(&t, schema, name, n_name)) {
        return false;
    }
    return t.p == t.end;
}
