/* The methods of lists and dicts, and finding a method.  transformers forbids templates to change a list or a dict;
 * real ones do it (and run elsewhere), so here they may change what they made themselves, but nothing that came in. */
#include "text/template/template_int.h"

#define METHOD(name)                                                                                                   \
    static sl_tpl_value name(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw)
#define UNUSED (void)r, (void)self, (void)arg, (void)raw

static size_t position(sl_tpl_run *r, sl_tpl_value v, size_t n, const char *method)
{
    if (!sl_tpl_is_integral(v)) sl_tpl_type_error(r, "%s: an integer is needed, not %s", method, sl_tpl_type_name(v));
    int64_t i = sl_tpl_integral(v);
    return i < 0 ? (size_t)(i + (int64_t)n) : (size_t)i; /* out of range stays out of range */
}

/* ---- lists ---- */

METHOD(l_append)
{
    UNUSED;
    sl_tpl_list_add(r, self.l, arg[0]);
    return sl_tpl_none();
}

METHOD(l_extend)
{
    UNUSED;
    const sl_tpl_list *more = sl_tpl_to_list(r, arg[0]); /* a copy: it may be this very list */
    for (size_t i = 0; i < more->n; i++)
        sl_tpl_list_add(r, self.l, more->at[i]);
    return sl_tpl_none();
}

METHOD(l_insert)
{
    UNUSED;
    sl_tpl_list *l = self.l;
    size_t at = position(r, arg[0], l->n, "insert");
    if (at > l->n) at = sl_tpl_integral(arg[0]) < 0 ? 0 : l->n;
    sl_tpl_list_add(r, l, arg[1]);
    sl_tpl_tick(r, (l->n - at) >> 4);
    memmove(&l->at[at + 1], &l->at[at], (l->n - 1 - at) * sizeof *l->at);
    l->at[at] = arg[1];
    return sl_tpl_none();
}

static sl_tpl_value remove_at(sl_tpl_run *r, sl_tpl_list *l, size_t i)
{
    sl_tpl_value v = l->at[i];
    sl_tpl_tick(r, (l->n - i) >> 4);
    memmove(&l->at[i], &l->at[i + 1], (l->n - 1 - i) * sizeof *l->at);
    l->n--;
    return v;
}

METHOD(l_pop)
{
    UNUSED;
    if (!self.l->n) sl_tpl_type_error(r, "pop from empty list");
    size_t i = sl_tpl_given(arg[0]) ? position(r, arg[0], self.l->n, "pop") : self.l->n - 1;
    if (i >= self.l->n) sl_tpl_type_error(r, "pop index out of range");
    return remove_at(r, self.l, i);
}

static size_t find(sl_tpl_run *r, const sl_tpl_list *l, sl_tpl_value v)
{
    for (size_t i = 0; i < l->n; i++)
        if (sl_tpl_equal(r, l->at[i], v)) return i;
    return SIZE_MAX;
}

METHOD(l_remove)
{
    UNUSED;
    size_t i = find(r, self.l, arg[0]);
    if (i == SIZE_MAX) sl_tpl_type_error(r, "list.remove(x): x not in list");
    remove_at(r, self.l, i);
    return sl_tpl_none();
}

METHOD(l_index)
{
    UNUSED;
    size_t i = find(r, self.l, arg[0]);
    if (i == SIZE_MAX) sl_tpl_type_error(r, "the value is not in list");
    return sl_tpl_int((int64_t)i);
}

METHOD(l_count)
{
    UNUSED;
    int64_t n = 0;
    for (size_t i = 0; i < self.l->n; i++)
        n += sl_tpl_equal(r, self.l->at[i], arg[0]);
    return sl_tpl_int(n);
}

METHOD(l_clear)
{
    UNUSED;
    self.l->n = 0;
    return sl_tpl_none();
}

METHOD(l_copy)
{
    UNUSED;
    return sl_tpl_list_value(sl_tpl_to_list(r, self));
}

METHOD(l_reverse)
{
    UNUSED;
    sl_tpl_list *l = self.l;
    for (size_t i = 0; i < l->n / 2; i++) {
        sl_tpl_value v = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = v;
    }
    return sl_tpl_none();
}

/* ---- dicts ---- */

METHOD(d_get)
{
    UNUSED;
    const sl_tpl_value *v = sl_tpl_dict_get(r, self.d, arg[0]);
    return v ? *v : sl_tpl_given(arg[1]) ? arg[1] : sl_tpl_none();
}

METHOD(d_keys)
{
    UNUSED;
    return (sl_tpl_value){.kind = SL_TPL_KEYS, .d = self.d};
}

METHOD(d_values)
{
    UNUSED;
    return (sl_tpl_value){.kind = SL_TPL_VALUES, .d = self.d};
}

METHOD(d_items)
{
    UNUSED;
    return (sl_tpl_value){.kind = SL_TPL_ITEMS, .d = self.d};
}

static void add_all(sl_tpl_run *r, sl_tpl_dict *to, const sl_tpl_dict *from)
{
    for (size_t i = 0; i < from->n; i++) {
        sl_tpl_tick(r, 1);
        sl_tpl_dict_set(r, to, from->at[i].key, from->at[i].value);
    }
}

METHOD(d_copy)
{
    UNUSED;
    sl_tpl_dict *d = sl_tpl_dict_new(r);
    add_all(r, d, self.d);
    return (sl_tpl_value){.kind = SL_TPL_DICT, .d = d};
}

METHOD(d_update)
{
    UNUSED;
    if (raw->n > 1 || (raw->n && raw->at[0].kind != SL_TPL_DICT)) sl_tpl_type_error(r, "update() needs one dict");
    if (raw->n) add_all(r, self.d, raw->at[0].d);
    for (size_t i = 0; i < raw->n_named; i++)
        sl_tpl_dict_set(r, self.d, sl_tpl_of_str(raw->names[i]), raw->named[i]);
    return sl_tpl_none();
}

METHOD(d_setdefault)
{
    UNUSED;
    const sl_tpl_value *v = sl_tpl_dict_get(r, self.d, arg[0]);
    sl_tpl_value otherwise = sl_tpl_given(arg[1]) ? arg[1] : sl_tpl_none();
    if (v) return *v;
    sl_tpl_dict_set(r, self.d, arg[0], otherwise);
    return otherwise;
}

METHOD(d_pop)
{
    UNUSED;
    const sl_tpl_value *v = sl_tpl_dict_get(r, self.d, arg[0]);
    if (!v && !sl_tpl_given(arg[1])) sl_tpl_type_error(r, "pop: the dict has no such key");
    if (!v) return arg[1];
    sl_tpl_value taken = *v;
    sl_tpl_dict_remove(r, self.d, arg[0]);
    return taken;
}

METHOD(d_clear)
{
    UNUSED;
    *self.d = (sl_tpl_dict){0};
    return sl_tpl_none();
}

const sl_tpl_builtin sl_tpl_list_methods[] = {
    {"append", l_append, "object", 1},       {"clear", l_clear, "", 0},   {"copy", l_copy, "", 0},
    {"count", l_count, "value", 1},          {"extend", l_extend, "iterable", 1}, {"index", l_index, "value", 1},
    {"insert", l_insert, "index object", 2}, {"pop", l_pop, "index", 0},  {"remove", l_remove, "value", 1},
    {"reverse", l_reverse, "", 0},
};
const size_t sl_tpl_n_list_methods = sizeof sl_tpl_list_methods / sizeof *sl_tpl_list_methods;

const sl_tpl_builtin sl_tpl_dict_methods[] = {
    {"clear", d_clear, "", 0},          {"copy", d_copy, "", 0},
    {"get", d_get, "key default", 1},   {"items", d_items, "", 0},
    {"keys", d_keys, "", 0},            {"pop", d_pop, "key default", 1},
    {"setdefault", d_setdefault, "key default", 1},
    {"update", d_update, NULL, 0},      {"values", d_values, "", 0},
};
const size_t sl_tpl_n_dict_methods = sizeof sl_tpl_dict_methods / sizeof *sl_tpl_dict_methods;

/* ---- finding ---- */

static bool changes(sl_tpl_fn fn)
{
    static const sl_tpl_fn all[] = {l_append, l_clear, l_extend, l_insert, l_pop,        l_remove,
                                    l_reverse, d_clear, d_pop,   d_setdefault, d_update};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] == fn) return true;
    return false;
}

static sl_tpl_value forbidden(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_str *name)
{
    sl_tpl_undef *u = sl_tpl_take(&r->heap, sizeof *u);
    *u = (sl_tpl_undef){.object = self, .name = sl_tpl_of_str(name), .unsafe = true};
    return (sl_tpl_value){.kind = SL_TPL_UNDEFINED, .u = u};
}

sl_tpl_value sl_tpl_method(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_str *name)
{
    const sl_tpl_builtin *b = NULL;
    bool frozen = false;
    if (self.kind == SL_TPL_STR)
        b = sl_tpl_builtin_in(sl_tpl_str_methods, sl_tpl_n_str_methods, name);
    else if (self.kind == SL_TPL_LIST) {
        b = sl_tpl_builtin_in(sl_tpl_list_methods, sl_tpl_n_list_methods, name);
        frozen = self.l->frozen;
    } else if (self.kind == SL_TPL_TUPLE && (sl_tpl_str_is(name, "index") || sl_tpl_str_is(name, "count")))
        b = sl_tpl_builtin_in(sl_tpl_list_methods, sl_tpl_n_list_methods, name);
    else if (self.kind == SL_TPL_DICT) {
        b = sl_tpl_builtin_in(sl_tpl_dict_methods, sl_tpl_n_dict_methods, name);
        frozen = self.d->frozen;
    }
    if (!b) return (sl_tpl_value){0};
    if (frozen && changes(b->fn)) return forbidden(r, self, name);
    sl_tpl_function *f = sl_tpl_take(&r->heap, sizeof *f);
    *f = (sl_tpl_function){b, self};
    return (sl_tpl_value){.kind = SL_TPL_FUNCTION, .function = f};
}
