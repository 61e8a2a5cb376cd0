/* Values: making them, truth, equality, order, iteration.  Python's rules throughout. */
#include "text/template/template_int.h"

#include <math.h>
#include <stdio.h>

/* ---- limits and failing ---- */

void sl_tpl_down(sl_tpl_run *r)
{
    if (++r->depth > SL_TPL_MAX_DEPTH)
        sl_tpl_fail(&r->heap, SL_ERR_LIMIT, "nested more than %d deep", SL_TPL_MAX_DEPTH);
}

void sl_tpl_type_error(sl_tpl_run *r, const char *fmt, ...)
{
    char what[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    sl_tpl_fail(&r->heap, SL_ERR_FORMAT, "%s", what);
}

/* ---- making ---- */

const sl_tpl_str *sl_tpl_str_new(sl_tpl_heap *h, const char *p, size_t n, bool user)
{
    sl_tpl_str *s = sl_tpl_take(h, sizeof *s);
    char *own = sl_tpl_take(h, n + 1);
    if (n) memcpy(own, p, n);
    s->p = own;
    s->n = n;
    s->user = user;
    return s;
}

sl_tpl_value sl_tpl_text_value(sl_tpl_run *r, const char *p)
{
    sl_tpl_str *s = sl_tpl_take(&r->heap, sizeof *s);
    s->p = p;
    s->n = strlen(p);
    return sl_tpl_of_str(s);
}

sl_tpl_list *sl_tpl_list_new(sl_tpl_run *r, size_t cap)
{
    sl_tpl_list *l = sl_tpl_take(&r->heap, sizeof *l);
    if (cap) l->at = sl_tpl_take(&r->heap, cap * sizeof *l->at);
    l->cap = cap;
    return l;
}

void sl_tpl_list_add(sl_tpl_run *r, sl_tpl_list *l, sl_tpl_value v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        sl_tpl_value *at = sl_tpl_take(&r->heap, cap * sizeof *at);
        if (l->n) memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = v;
}

sl_tpl_value sl_tpl_list_value(sl_tpl_list *l)
{
    return (sl_tpl_value){.kind = SL_TPL_LIST, .l = l};
}

sl_tpl_value sl_tpl_tuple2(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b)
{
    sl_tpl_list *l = sl_tpl_list_new(r, 2);
    sl_tpl_list_add(r, l, a);
    sl_tpl_list_add(r, l, b);
    return (sl_tpl_value){.kind = SL_TPL_TUPLE, .l = l};
}

sl_tpl_value sl_tpl_iter_value(sl_tpl_run *r, sl_tpl_value source)
{
    sl_tpl_iter *it = sl_tpl_take(&r->heap, sizeof *it);
    it->source = source;
    return (sl_tpl_value){.kind = SL_TPL_ITER, .iter = it};
}

/* ---- undefined ---- */

sl_tpl_value sl_tpl_undefined(sl_tpl_run *r, const char *hint)
{
    sl_tpl_undef *u = sl_tpl_take(&r->heap, sizeof *u);
    u->hint = hint;
    return (sl_tpl_value){.kind = SL_TPL_UNDEFINED, .u = u};
}

sl_tpl_value sl_tpl_undefined_of(sl_tpl_run *r, sl_tpl_value object, sl_tpl_value name)
{
    sl_tpl_undef *u = sl_tpl_take(&r->heap, sizeof *u);
    u->object = object;
    u->name = name;
    return (sl_tpl_value){.kind = SL_TPL_UNDEFINED, .u = u};
}

/* "None", "'str object'", as Jinja words it. */
static void object_name(sl_tpl_value v, char buf[64])
{
    if (v.kind == SL_TPL_NONE)
        strcpy(buf, "None");
    else
        snprintf(buf, 64, "%s object", v.kind == SL_TPL_NAMESPACE
                                           ? "transformers.utils.chat_template_utils.TemplateNamespace"
                                           : sl_tpl_type_name(v));
}

void sl_tpl_use_undefined(sl_tpl_run *r, sl_tpl_value v)
{
    const sl_tpl_undef *u = v.u;
    char object[64];
    if (u->hint) sl_tpl_type_error(r, "%s", u->hint);
    sl_tpl_text name = {0};
    sl_tpl_repr(r, &name, u->name);
    sl_tpl_add(r, &name, "", 1, false);
    if (u->object.kind == SL_TPL_MISSING) sl_tpl_type_error(r, "%s is undefined", name.p);
    object_name(u->object, object);
    if (u->unsafe)
        sl_tpl_type_error(r, "access to attribute %s of '%s' object is unsafe.", name.p, sl_tpl_type_name(u->object));
    if (u->name.kind != SL_TPL_STR) sl_tpl_type_error(r, "%s has no element %s", object, name.p);
    sl_tpl_type_error(r, "'%s' has no attribute %s", object, name.p);
}

const char *sl_tpl_type_name(sl_tpl_value v)
{
    static const char *const names[] = {
        [SL_TPL_MISSING] = "missing",   [SL_TPL_UNDEFINED] = "Undefined", [SL_TPL_NONE] = "NoneType",
        [SL_TPL_BOOL] = "bool",         [SL_TPL_INT] = "int",             [SL_TPL_FLOAT] = "float",
        [SL_TPL_STR] = "str",           [SL_TPL_LIST] = "list",           [SL_TPL_TUPLE] = "tuple",
        [SL_TPL_DICT] = "dict",         [SL_TPL_KEYS] = "dict_keys",      [SL_TPL_VALUES] = "dict_values",
        [SL_TPL_ITEMS] = "dict_items",  [SL_TPL_RANGE] = "range",         [SL_TPL_ITER] = "generator",
        [SL_TPL_NAMESPACE] = "TemplateNamespace", [SL_TPL_LOOP] = "LoopContext", [SL_TPL_MACRO] = "Macro",
        [SL_TPL_FUNCTION] = "builtin_function_or_method", [SL_TPL_JOINER] = "Joiner",
    };
    return v.kind == SL_TPL_STR && v.s->safe ? "Markup" : names[v.kind];
}

/* ---- length and truth ---- */

bool sl_tpl_length(sl_tpl_value v, size_t *n)
{
    switch (v.kind) {
    case SL_TPL_UNDEFINED:
        *n = 0;
        return true;
    case SL_TPL_STR:
        *n = sl_tpl_str_chars(v.s);
        return true;
    case SL_TPL_LIST:
    case SL_TPL_TUPLE:
        *n = v.l->n;
        return true;
    case SL_TPL_DICT:
    case SL_TPL_KEYS:
    case SL_TPL_VALUES:
    case SL_TPL_ITEMS:
        *n = v.d->n;
        return true;
    case SL_TPL_RANGE:
        *n = v.range->n;
        return true;
    default:
        return false;
    }
}

bool sl_tpl_truth(sl_tpl_run *r, sl_tpl_value v)
{
    size_t n;
    switch (v.kind) {
    case SL_TPL_NONE:
        return false;
    case SL_TPL_BOOL:
        return v.b;
    case SL_TPL_INT:
        return v.i != 0;
    case SL_TPL_FLOAT:
        return v.f != 0;
    case SL_TPL_UNDEFINED:
        if (v.u->unsafe) sl_tpl_use_undefined(r, v);
        return false;
    case SL_TPL_STR:
        return v.s->n != 0;
    case SL_TPL_LOOP:
        return sl_tpl_loop_length(r, v.loop) != 0;
    default:
        return !sl_tpl_length(v, &n) || n != 0;
    }
}

/* ---- equality and order ---- */

static bool lists_equal(sl_tpl_run *r, const sl_tpl_list *a, const sl_tpl_list *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (!sl_tpl_equal(r, a->at[i], b->at[i])) return false;
    return true;
}

static bool dicts_equal(sl_tpl_run *r, const sl_tpl_dict *a, const sl_tpl_dict *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const sl_tpl_value *other = sl_tpl_dict_get(r, b, a->at[i].key);
        if (!other || !sl_tpl_equal(r, a->at[i].value, *other)) return false;
    }
    return true;
}

static bool same_kind_equal(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b)
{
    switch (a.kind) {
    case SL_TPL_UNDEFINED:
    case SL_TPL_NONE:
        return true;
    case SL_TPL_STR:
        return sl_tpl_str_same(a.s, b.s);
    case SL_TPL_LIST:
    case SL_TPL_TUPLE:
        return a.l == b.l || lists_equal(r, a.l, b.l);
    case SL_TPL_DICT:
        return a.d == b.d || dicts_equal(r, a.d, b.d);
    case SL_TPL_RANGE:
        return a.range->n == b.range->n && (!a.range->n || (a.range->start == b.range->start &&
                                                            (a.range->n == 1 || a.range->step == b.range->step)));
    default: /* the others are equal to themselves */
        return memcmp(&a.d, &b.d, sizeof(void *)) == 0;
    }
}

bool sl_tpl_equal(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b)
{
    bool equal;
    sl_tpl_tick(r, 1);
    sl_tpl_down(r);
    if (sl_tpl_is_integral(a) && sl_tpl_is_integral(b))
        equal = sl_tpl_integral(a) == sl_tpl_integral(b);
    else if (sl_tpl_is_number(a) && sl_tpl_is_number(b))
        equal = sl_tpl_number(a) == sl_tpl_number(b);
    else
        equal = a.kind == b.kind && same_kind_equal(r, a, b);
    sl_tpl_up(r);
    return equal;
}

static int sign(bool less, bool more)
{
    return more - less;
}

static int order_lists(sl_tpl_run *r, const sl_tpl_list *a, const sl_tpl_list *b, const char *what)
{
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (!sl_tpl_equal(r, a->at[i], b->at[i])) return sl_tpl_order(r, a->at[i], b->at[i], what);
    return sign(a->n < b->n, a->n > b->n);
}

int sl_tpl_order(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b, const char *what)
{
    sl_tpl_tick(r, 1);
    if (a.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, a);
    if (b.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, b);
    if (sl_tpl_is_integral(a) && sl_tpl_is_integral(b))
        return sign(sl_tpl_integral(a) < sl_tpl_integral(b), sl_tpl_integral(a) > sl_tpl_integral(b));
    if (sl_tpl_is_number(a) && sl_tpl_is_number(b))
        return sign(sl_tpl_number(a) < sl_tpl_number(b), sl_tpl_number(a) > sl_tpl_number(b));
    if (a.kind == SL_TPL_STR && b.kind == SL_TPL_STR) { /* UTF-8 sorts as its characters do */
        int c = memcmp(a.s->p, b.s->p, a.s->n < b.s->n ? a.s->n : b.s->n);
        return c ? sign(c < 0, c > 0) : sign(a.s->n < b.s->n, a.s->n > b.s->n);
    }
    if (a.kind == b.kind && (a.kind == SL_TPL_LIST || a.kind == SL_TPL_TUPLE)) {
        sl_tpl_down(r);
        int c = order_lists(r, a.l, b.l, what);
        sl_tpl_up(r);
        return c;
    }
    sl_tpl_type_error(r, "'%s' not supported between instances of '%s' and '%s'", what, sl_tpl_type_name(a),
                      sl_tpl_type_name(b));
}

/* ---- hashing ---- */

bool sl_tpl_hashable(sl_tpl_value v)
{
    if (v.kind == SL_TPL_TUPLE) {
        for (size_t i = 0; i < v.l->n; i++)
            if (!sl_tpl_hashable(v.l->at[i])) return false;
        return true;
    }
    return v.kind != SL_TPL_LIST && v.kind != SL_TPL_DICT && v.kind != SL_TPL_NAMESPACE && v.kind != SL_TPL_KEYS &&
           v.kind != SL_TPL_ITEMS;
}

static uint64_t hash_number(double f, bool is_int, int64_t i)
{
    if (!is_int && f >= -0x1p62 && f <= 0x1p62 && f == (double)(int64_t)f) {
        is_int = true;
        i = (int64_t)f;
    }
    return is_int ? sl_hash_bytes(&i, sizeof i) : sl_hash_bytes(&f, sizeof f);
}

uint64_t sl_tpl_hash(sl_tpl_run *r, sl_tpl_value v)
{
    uint64_t h = (uint64_t)v.kind * 0x9E3779B97F4A7C15u;
    if (!sl_tpl_hashable(v)) sl_tpl_type_error(r, "unhashable type: '%s'", sl_tpl_type_name(v));
    sl_tpl_tick(r, 1);
    switch (v.kind) {
    case SL_TPL_BOOL:
    case SL_TPL_INT:
        return hash_number(0, true, sl_tpl_integral(v));
    case SL_TPL_FLOAT:
        return hash_number(v.f, false, 0);
    case SL_TPL_STR:
        return sl_hash_bytes(v.s->p, v.s->n);
    case SL_TPL_TUPLE:
        sl_tpl_down(r);
        for (size_t i = 0; i < v.l->n; i++)
            h = h * 0x100000001B3u ^ sl_tpl_hash(r, v.l->at[i]);
        sl_tpl_up(r);
        return h;
    case SL_TPL_UNDEFINED:
    case SL_TPL_NONE:
        return h;
    default:
        return sl_hash_bytes(&v.d, sizeof v.d);
    }
}

/* ---- iterating ---- */

bool sl_tpl_iterable(sl_tpl_value v)
{
    size_t n;
    return v.kind == SL_TPL_ITER || v.kind == SL_TPL_LOOP || sl_tpl_length(v, &n);
}

sl_tpl_iter sl_tpl_iterate(sl_tpl_run *r, sl_tpl_value v)
{
    if (v.kind == SL_TPL_UNDEFINED && v.u->unsafe) sl_tpl_use_undefined(r, v);
    if (!sl_tpl_iterable(v) || v.kind == SL_TPL_LOOP)
        sl_tpl_type_error(r, "'%s' object is not iterable", sl_tpl_type_name(v));
    return (sl_tpl_iter){.source = v};
}

static bool next_char(sl_tpl_run *r, sl_tpl_iter *it, sl_tpl_value *out)
{
    const sl_tpl_str *s = it->source.s;
    if (it->pos >= s->n) return false;
    size_t end = it->pos + sl_tpl_char_len(s->p + it->pos);
    *out = sl_tpl_of_str(sl_tpl_str_slice(r, s, it->pos, end));
    it->pos = end;
    return true;
}

static bool next_entry(sl_tpl_run *r, sl_tpl_iter *it, sl_tpl_value *out)
{
    const sl_tpl_dict *d = it->source.d;
    if (it->pos >= d->n) return false;
    const sl_tpl_entry *e = &d->at[it->pos++];
    if (it->source.kind == SL_TPL_VALUES)
        *out = e->value;
    else if (it->source.kind == SL_TPL_ITEMS)
        *out = sl_tpl_tuple2(r, e->key, e->value);
    else
        *out = e->key;
    return true;
}

bool sl_tpl_next(sl_tpl_run *r, sl_tpl_iter *it, sl_tpl_value *out)
{
    sl_tpl_tick(r, 1);
    switch (it->source.kind) {
    case SL_TPL_STR:
        return next_char(r, it, out);
    case SL_TPL_LIST:
    case SL_TPL_TUPLE:
        if (it->pos >= it->source.l->n) return false;
        *out = it->source.l->at[it->pos++];
        return true;
    case SL_TPL_DICT:
    case SL_TPL_KEYS:
    case SL_TPL_VALUES:
    case SL_TPL_ITEMS:
        return next_entry(r, it, out);
    case SL_TPL_RANGE:
        if (it->pos >= it->source.range->n) return false;
        *out = sl_tpl_int(it->source.range->start + (int64_t)it->pos++ * it->source.range->step);
        return true;
    case SL_TPL_ITER:
        return sl_tpl_next(r, it->source.iter, out);
    default: /* undefined */
        return false;
    }
}

sl_tpl_list *sl_tpl_to_list(sl_tpl_run *r, sl_tpl_value v)
{
    size_t n = 0;
    sl_tpl_iter it = sl_tpl_iterate(r, v);
    if (v.kind == SL_TPL_LIST || v.kind == SL_TPL_TUPLE) n = v.l->n;
    sl_tpl_list *l = sl_tpl_list_new(r, n);
    for (sl_tpl_value item; sl_tpl_next(r, &it, &item);)
        sl_tpl_list_add(r, l, item);
    return l;
}

bool sl_tpl_contains(sl_tpl_run *r, sl_tpl_value container, sl_tpl_value item)
{
    if (container.kind == SL_TPL_STR) {
        if (item.kind == SL_TPL_UNDEFINED || item.kind != SL_TPL_STR)
            sl_tpl_type_error(r, "'in <string>' requires string as left operand, not %s", sl_tpl_type_name(item));
        sl_tpl_tick(r, container.s->n / 64);
        return sl_tpl_str_find(container.s, item.s, 0) != SIZE_MAX;
    }
    if (container.kind == SL_TPL_DICT || container.kind == SL_TPL_KEYS)
        return sl_tpl_dict_get(r, container.d, item) != NULL;
    if (!sl_tpl_iterable(container) || container.kind == SL_TPL_LOOP)
        sl_tpl_type_error(r, "argument of type '%s' is not iterable", sl_tpl_type_name(container));
    sl_tpl_iter it = sl_tpl_iterate(r, container);
    for (sl_tpl_value v; sl_tpl_next(r, &it, &v);)
        if (sl_tpl_equal(r, v, item)) return true;
    return false;
}
