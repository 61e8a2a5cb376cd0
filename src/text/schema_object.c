/* Objects: declared properties in the order of the schema, each at most once; what is required but not declared behind them;
 * then, where additionalProperties allows it, others whose names are none of the declared. */
#include "text/schema_int.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    bool required;
} property;

typedef struct {
    sl_schema *s;
    const sl_schema_conj *c;
    property *list;
    uint32_t n, cap;
    bool others;
    sl_schema_conj other; /* what holds for values of other names */
} object;

/* ---- which properties there are ---- */

static void add_property(object *o, const char *name)
{
    if (o->n == SL_SCHEMA_MAX_PROPERTIES) {
        sl_schema_fail(o->s, SL_ERR_LIMIT, o->c->part[0], "properties", "has more than 2000 names");
        return;
    }
    if (!sl_gb_grow(o->s->b, (void **)&o->list, o->n, &o->cap, sizeof *o->list)) return;
    o->list[o->n++] = (property){.name = name};
}

static property *find_property(object *o, const char *name)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (strcmp(o->list[i].name, name) == 0) return &o->list[i];
    return NULL;
}

static void collect_declared(object *o, uint32_t i_part)
{
    const sl_json *v = o->c->part[i_part], *props = sl_json_get(v, "properties"), *child;
    const char *key;
    if (props && !sl_json_is_object(props)) sl_schema_fail(o->s, SL_ERR_FORMAT, v, "properties", "must be an object");
    for (void *it = NULL; props && o->s->b->rc == SL_OK && sl_json_next(props, &it, &key, &child);) {
        bool known = false;
        for (uint32_t k = 0; k < i_part && !known; k++)
            known = sl_json_get(sl_json_get(o->c->part[k], "properties"), key) != NULL;
        if (!known) add_property(o, key);
    }
}

static void collect_required(object *o, const sl_json *v)
{
    const sl_json *req = sl_json_get(v, "required");
    if (req && !sl_json_is_array(req)) sl_schema_fail(o->s, SL_ERR_FORMAT, v, "required", "must be a list of names");
    for (size_t i = 0; req && o->s->b->rc == SL_OK && i < sl_json_count(req); i++) {
        const char *name = sl_json_string(sl_json_at(req, i), NULL);
        if (!name) {
            sl_schema_fail(o->s, SL_ERR_FORMAT, v, "required", "must be a list of names");
            return;
        }
        property *p = find_property(o, name);
        if (!p) add_property(o, name);
        if (!p && o->s->b->rc == SL_OK) p = &o->list[o->n - 1];
        if (p) p->required = true;
    }
}

/* Other names may come where some part says so and none forbids it; where no part says anything of names at all, any. */
static void settle_others(object *o)
{
    bool said = false, allowed = false;
    for (uint32_t i = 0; i < o->c->n; i++) {
        const sl_json *extra = sl_json_get(o->c->part[i], "additionalProperties");
        said |= extra || sl_json_get(o->c->part[i], "properties") || sl_json_get(o->c->part[i], "required");
        if (!extra) continue;
        allowed = true;
        sl_schema_add(o->s, &o->other, extra);
    }
    o->others = (allowed || !said) && !o->other.never;
}

/* What holds for the value of a name: what each part says of it, or else of names that it does not declare. */
static sl_schema_conj value_of(object *o, const char *name)
{
    sl_schema_conj v = {0};
    for (uint32_t i = 0; i < o->c->n; i++) {
        const sl_json *own = sl_json_get(sl_json_get(o->c->part[i], "properties"), name);
        if (!own) own = sl_json_get(o->c->part[i], "additionalProperties");
        if (own) sl_schema_add(o->s, &v, own);
    }
    return v;
}

/* ---- names that are not declared: written in one way only, so that none can be one of the declared in disguise ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const property *)a)->name, ((const property *)b)->name);
}

/* names[from, to) share their first at bytes, which have been written; rest: any text up to the quote. */
static void draw_other(object *o, const property *names, uint32_t from, uint32_t to, size_t at, uint32_t state, uint32_t rest, uint32_t end)
{
    sl_gram_builder *b = o->s->b;
    sl_cp_set taken = {0};
    if (at > SL_GRAM_MAX_STACK) sl_gb_fail(b, SL_ERR_LIMIT, "a property's name has more than %d bytes", SL_GRAM_MAX_STACK);
    bool is_name = from < to && !names[from].name[at];
    for (uint32_t i = from + is_name, k; i < to && b->rc == SL_OK; i = k) {
        uint32_t cp = 0, next = sl_gb_state(b);
        size_t len = sl_utf8_decode(names[i].name + at, strlen(names[i].name + at), &cp);
        for (k = i + 1; k < to && memcmp(names[k].name + at, names[i].name + at, len) == 0; k++) {
        }
        sl_cp_add(&taken, cp, cp);
        sl_gb_chars(b, state, sl_gb_set_of_range(b, cp, cp), true, next);
        draw_other(o, names, i, k, at + len, next, rest, end);
    }
    sl_cp_negate(&taken);
    sl_gb_chars(b, state, sl_gb_set(b, &taken), true, rest);
    if (!is_name) sl_gb_bytes(b, state, '"', '"', end);
}

static uint32_t draw_other_member(object *o, property *sorted, uint32_t from)
{
    sl_gram_builder *b = o->s->b;
    uint32_t key = sl_gb_literal(b, from, "\"", 1), rest = sl_gb_state(b), end = sl_gb_state(b);
    sl_gb_chars(b, rest, sl_gb_set_of_range(b, 0, 0x10FFFF), true, rest);
    sl_gb_bytes(b, rest, '"', '"', end);
    draw_other(o, sorted, 0, o->n, 0, key, rest, end);
    return sl_schema_value(o->s, sl_json_colon(&o->s->j, end), &o->other);
}

/* ---- the members ---- */

/* Three states walk along the properties: nothing written yet, something written, and behind a comma. */
typedef struct {
    uint32_t none, some, comma;
} front;

static uint32_t comma(object *o, uint32_t some)
{
    return sl_json_space(&o->s->j, sl_gb_literal(o->s->b, some, ",", 1));
}

static front draw_member(object *o, front f, const property *p)
{
    sl_gram_builder *b = o->s->b;
    sl_schema_conj value = value_of(o, p->name);
    front next = {sl_gb_state(b), sl_gb_state(b), sl_gb_state(b)};
    uint32_t key = sl_gb_state(b);
    sl_gb_empty(b, f.none, key);
    sl_gb_empty(b, comma(o, f.some), f.comma);
    sl_gb_empty(b, f.comma, key);
    uint32_t colon = sl_json_colon(&o->s->j, sl_json_literal(b, key, p->name, strlen(p->name)));
    sl_gb_empty(b, sl_schema_value(o->s, colon, &value), next.some);
    if (p->required) return next;
    sl_gb_empty(b, f.none, next.none);
    sl_gb_empty(b, f.some, next.some);
    sl_gb_empty(b, f.comma, next.comma);
    return next;
}

static void draw_members(object *o, uint32_t from, uint32_t to)
{
    sl_gram_builder *b = o->s->b;
    uint32_t inside = sl_json_space(&o->s->j, sl_gb_literal(b, from, "{", 1));
    front f = {inside, sl_gb_state(b), sl_gb_state(b)};
    for (uint32_t i = 0; i < o->n && b->rc == SL_OK; i++)
        f = draw_member(o, f, &o->list[i]);
    if (o->others && b->rc == SL_OK) {
        uint32_t key = sl_gb_state(b);
        if (o->n) qsort(o->list, o->n, sizeof *o->list, by_name);
        sl_gb_empty(b, f.none, key);
        sl_gb_empty(b, f.comma, key);
        sl_gb_empty(b, comma(o, f.some), f.comma);
        sl_gb_empty(b, draw_other_member(o, o->list, key), f.some);
    }
    sl_gb_bytes(b, f.none, '}', '}', to);
    sl_gb_bytes(b, sl_json_space(&o->s->j, f.some), '}', '}', to);
}

void sl_schema_draw_object(sl_schema *s, const sl_schema_conj *c, uint32_t from, uint32_t to)
{
    object o = {.s = s, .c = c};
    for (uint32_t i = 0; i < c->n; i++)
        collect_declared(&o, i);
    for (uint32_t i = 0; i < c->n; i++)
        collect_required(&o, c->part[i]);
    settle_others(&o);
    if (s->b->rc == SL_OK) draw_members(&o, from, to);
    sl_free(o.list);
}
