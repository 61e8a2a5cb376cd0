/* Filters about sequences.  What is a generator in Python is one here (SL_TPL_ITER): true, without length, used up by
 * the first loop over it. */
#include "text/template/template_int.h"

#define FILTER(name)                                                                                                   \
    static sl_tpl_value name(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw)
#define UNUSED (void)r, (void)self, (void)arg, (void)raw

static bool given(sl_tpl_value v)
{
    return sl_tpl_given(v) && v.kind != SL_TPL_NONE;
}

static bool bool_arg(sl_tpl_run *r, sl_tpl_value v)
{
    return sl_tpl_given(v) && sl_tpl_truth(r, v);
}

static sl_tpl_value generator(sl_tpl_run *r, sl_tpl_list *l)
{
    return sl_tpl_iter_value(r, sl_tpl_list_value(l));
}

/* A part that is a number is an index. */
static sl_tpl_value path_part(const sl_tpl_str *part)
{
    int64_t i = 0;
    for (size_t k = 0; k < part->n; k++) {
        if (part->p[k] < '0' || part->p[k] > '9' || i > 1000000) return sl_tpl_of_str(part);
        i = i * 10 + (part->p[k] - '0');
    }
    return part->n ? sl_tpl_int(i) : sl_tpl_of_str(part);
}

/* otherwise: what stands in wherever a step finds nothing, or NULL. */
static sl_tpl_value follow(sl_tpl_run *r, sl_tpl_value v, sl_tpl_value path, const sl_tpl_value *otherwise)
{
    if (!given(path)) return v;
    if (path.kind != SL_TPL_STR) {
        v = sl_tpl_getitem(r, v, path);
        return otherwise && v.kind == SL_TPL_UNDEFINED ? *otherwise : v;
    }
    for (size_t from = 0, to; from <= path.s->n; from = to + 1) {
        const char *dot = memchr(path.s->p + from, '.', path.s->n - from);
        to = dot ? (size_t)(dot - path.s->p) : path.s->n;
        v = sl_tpl_getitem(r, v, path_part(sl_tpl_str_slice(r, path.s, from, to)));
        if (otherwise && v.kind == SL_TPL_UNDEFINED) v = *otherwise;
    }
    return v;
}

sl_tpl_value sl_tpl_path(sl_tpl_run *r, sl_tpl_value v, sl_tpl_value path)
{
    return follow(r, v, path, NULL);
}

static sl_tpl_value fold(sl_tpl_run *r, sl_tpl_value v, bool case_sensitive)
{
    if (case_sensitive || v.kind != SL_TPL_STR) return v;
    return sl_tpl_of_str(sl_tpl_str_case(r, v.s, SL_TPL_LOWER));
}

/* ---- length, first, last, join ---- */

FILTER(f_length)
{
    UNUSED;
    size_t n;
    if (self.kind == SL_TPL_LOOP) return sl_tpl_int((int64_t)sl_tpl_loop_length(r, self.loop));
    if (!sl_tpl_length(self, &n)) sl_tpl_type_error(r, "object of type '%s' has no len()", sl_tpl_type_name(self));
    return sl_tpl_int((int64_t)n);
}

FILTER(f_first)
{
    UNUSED;
    sl_tpl_value v;
    sl_tpl_iter it = sl_tpl_iterate(r, self);
    return sl_tpl_next(r, &it, &v) ? v : sl_tpl_undefined(r, "No first item, sequence was empty.");
}

FILTER(f_last)
{
    UNUSED;
    size_t n = 0;
    if (self.kind == SL_TPL_UNDEFINED || !sl_tpl_length(self, &n))
        sl_tpl_type_error(r, "'%s' object is not reversible", sl_tpl_type_name(self));
    if (!n) return sl_tpl_undefined(r, "No last item, sequence was empty.");
    if (self.kind == SL_TPL_LIST || self.kind == SL_TPL_TUPLE || self.kind == SL_TPL_STR || self.kind == SL_TPL_RANGE)
        return sl_tpl_getitem(r, self, sl_tpl_int(-1));
    return sl_tpl_to_list(r, self)->at[n - 1];
}

FILTER(f_join)
{
    UNUSED;
    sl_tpl_text t = {0};
    sl_tpl_iter it = sl_tpl_iterate(r, self);
    const sl_tpl_str *between = sl_tpl_given(arg[0]) ? sl_tpl_to_str(r, arg[0]) : NULL;
    bool first = true;
    for (sl_tpl_value v; sl_tpl_next(r, &it, &v); first = false) {
        if (!first && between) sl_tpl_add_str(r, &t, between);
        sl_tpl_show(r, &t, sl_tpl_path(r, v, arg[1]));
    }
    return sl_tpl_text_done(r, &t);
}

FILTER(f_list)
{
    UNUSED;
    return sl_tpl_list_value(sl_tpl_to_list(r, self));
}

FILTER(f_items)
{
    UNUSED;
    if (self.kind == SL_TPL_UNDEFINED) return generator(r, sl_tpl_list_new(r, 0));
    if (self.kind != SL_TPL_DICT) sl_tpl_type_error(r, "Can only get item pairs from a mapping.");
    return sl_tpl_iter_value(r, (sl_tpl_value){.kind = SL_TPL_ITEMS, .d = self.d});
}

FILTER(f_reverse)
{
    UNUSED;
    if (self.kind == SL_TPL_STR)
        return sl_tpl_slice(r, self, (sl_tpl_value){0}, (sl_tpl_value){0}, sl_tpl_int(-1));
    sl_tpl_list *l = sl_tpl_to_list(r, self);
    for (size_t i = 0; i < l->n / 2; i++) {
        sl_tpl_value v = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = v;
    }
    return generator(r, l);
}

/* ---- order ---- */

typedef struct {
    sl_tpl_value key, item;
} keyed;

/* Stable.  a[n] with room beside it. */
static void merge_sort(sl_tpl_run *r, keyed *a, keyed *room, size_t n, bool reverse)
{
    if (n < 2) return;
    size_t half = n / 2, i = 0, k = half, out = 0;
    sl_tpl_down(r);
    merge_sort(r, a, room, half, reverse);
    merge_sort(r, a + half, room, n - half, reverse);
    sl_tpl_up(r);
    while (i < half && k < n) {
        int c = sl_tpl_order(r, a[k].key, a[i].key, "<");
        bool second = reverse ? c > 0 : c < 0;
        room[out++] = second ? a[k++] : a[i++];
    }
    while (i < half)
        room[out++] = a[i++];
    while (k < n)
        room[out++] = a[k++];
    memcpy(a, room, n * sizeof *a);
}

static sl_tpl_list *sort_by(sl_tpl_run *r, const sl_tpl_list *l, keyed *a, bool reverse)
{
    sl_tpl_list *out = sl_tpl_list_new(r, l->n);
    merge_sort(r, a, sl_tpl_take(&r->heap, l->n * sizeof *a), l->n, reverse);
    for (size_t i = 0; i < l->n; i++)
        sl_tpl_list_add(r, out, a[i].item);
    return out;
}

/* The key of sort: a list of the values at each of "a,b.c". */
static sl_tpl_value sort_key(sl_tpl_run *r, sl_tpl_value item, sl_tpl_value attribute, bool case_sensitive)
{
    if (attribute.kind != SL_TPL_STR || !memchr(attribute.s->p, ',', attribute.s->n))
        return fold(r, sl_tpl_path(r, item, attribute), case_sensitive);
    sl_tpl_list *l = sl_tpl_list_new(r, 2);
    for (size_t from = 0, to; from <= attribute.s->n; from = to + 1) {
        const char *comma = memchr(attribute.s->p + from, ',', attribute.s->n - from);
        to = comma ? (size_t)(comma - attribute.s->p) : attribute.s->n;
        sl_tpl_value path = sl_tpl_of_str(sl_tpl_str_slice(r, attribute.s, from, to));
        sl_tpl_list_add(r, l, fold(r, sl_tpl_path(r, item, path), case_sensitive));
    }
    return sl_tpl_list_value(l);
}

/* reverse, case_sensitive, attribute */
FILTER(f_sort)
{
    UNUSED;
    sl_tpl_list *l = sl_tpl_to_list(r, self);
    keyed *a = sl_tpl_take(&r->heap, l->n * sizeof *a);
    for (size_t i = 0; i < l->n; i++)
        a[i] = (keyed){sort_key(r, l->at[i], arg[2], bool_arg(r, arg[1])), l->at[i]};
    return sl_tpl_list_value(sort_by(r, l, a, bool_arg(r, arg[0])));
}

/* case_sensitive, by, reverse */
FILTER(f_dictsort)
{
    UNUSED;
    bool by_value = arg[1].kind == SL_TPL_STR && sl_tpl_str_is(arg[1].s, "value");
    if (self.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, self);
    if (self.kind != SL_TPL_DICT) sl_tpl_type_error(r, "'%s' object has no attribute 'items'", sl_tpl_type_name(self));
    if (sl_tpl_given(arg[1]) && !by_value && !(arg[1].kind == SL_TPL_STR && sl_tpl_str_is(arg[1].s, "key")))
        sl_tpl_type_error(r, "You can only sort by either \"key\" or \"value\"");
    sl_tpl_list *l = sl_tpl_to_list(r, (sl_tpl_value){.kind = SL_TPL_ITEMS, .d = self.d});
    keyed *a = sl_tpl_take(&r->heap, l->n * sizeof *a);
    for (size_t i = 0; i < l->n; i++)
        a[i] = (keyed){fold(r, l->at[i].l->at[by_value], bool_arg(r, arg[0])), l->at[i]};
    return sl_tpl_list_value(sort_by(r, l, a, bool_arg(r, arg[2])));
}

static sl_tpl_value extreme(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, int sign)
{
    sl_tpl_value best = {0}, best_key = {0}, v;
    sl_tpl_iter it = sl_tpl_iterate(r, self);
    while (sl_tpl_next(r, &it, &v)) {
        sl_tpl_value key = fold(r, sl_tpl_path(r, v, arg[1]), bool_arg(r, arg[0]));
        if (sl_tpl_given(best) && sl_tpl_order(r, key, best_key, sign > 0 ? ">" : "<") * sign <= 0) continue;
        best = v;
        best_key = key;
    }
    return sl_tpl_given(best) ? best : sl_tpl_undefined(r, "No aggregated item, sequence was empty.");
}

FILTER(f_min)
{
    UNUSED;
    return extreme(r, self, arg, -1);
}

FILTER(f_max)
{
    UNUSED;
    return extreme(r, self, arg, 1);
}

FILTER(f_sum)
{
    UNUSED;
    sl_tpl_iter it = sl_tpl_iterate(r, self);
    sl_tpl_value sum = sl_tpl_given(arg[1]) ? arg[1] : sl_tpl_int(0), v;
    while (sl_tpl_next(r, &it, &v))
        sum = sl_tpl_arith(r, SL_TPL_ADD, sum, sl_tpl_path(r, v, arg[0]));
    return sum;
}

FILTER(f_unique)
{
    UNUSED;
    sl_tpl_list *l = sl_tpl_list_new(r, 0);
    sl_tpl_dict *seen = sl_tpl_dict_new(r);
    sl_tpl_iter it = sl_tpl_iterate(r, self);
    for (sl_tpl_value v; sl_tpl_next(r, &it, &v);) {
        sl_tpl_value key = fold(r, sl_tpl_path(r, v, arg[1]), bool_arg(r, arg[0]));
        if (sl_tpl_dict_get(r, seen, key)) continue;
        sl_tpl_dict_set(r, seen, key, sl_tpl_none());
        sl_tpl_list_add(r, l, v);
    }
    return generator(r, l);
}

/* ---- cutting ---- */

static int64_t positive(sl_tpl_run *r, sl_tpl_value v)
{
    if (!sl_tpl_is_integral(v) || sl_tpl_integral(v) < 1 || sl_tpl_integral(v) > 1000000)
        sl_tpl_type_error(r, "a count from 1 to 1000000 is needed");
    return sl_tpl_integral(v);
}

FILTER(f_batch)
{
    UNUSED;
    size_t size = (size_t)positive(r, arg[0]);
    sl_tpl_list *out = sl_tpl_list_new(r, 0), *part = NULL;
    sl_tpl_iter it = sl_tpl_iterate(r, self);
    for (sl_tpl_value v; sl_tpl_next(r, &it, &v);) {
        if (!part || part->n == size) {
            part = sl_tpl_list_new(r, 0);
            sl_tpl_list_add(r, out, sl_tpl_list_value(part));
        }
        sl_tpl_list_add(r, part, v);
    }
    while (part && given(arg[1]) && part->n < size) {
        sl_tpl_tick(r, 1);
        sl_tpl_list_add(r, part, arg[1]);
    }
    return generator(r, out);
}

FILTER(f_slice)
{
    UNUSED;
    size_t n_part = (size_t)positive(r, arg[0]), at = 0;
    const sl_tpl_list *l = sl_tpl_to_list(r, self);
    sl_tpl_list *out = sl_tpl_list_new(r, n_part);
    for (size_t i = 0; i < n_part; i++) {
        sl_tpl_list *part = sl_tpl_list_new(r, 0);
        bool extra = i < l->n % n_part;
        sl_tpl_tick(r, 1);
        for (size_t k = l->n / n_part + extra; k; k--)
            sl_tpl_list_add(r, part, l->at[at++]);
        if (given(arg[1]) && !extra) sl_tpl_list_add(r, part, arg[1]);
        sl_tpl_list_add(r, out, sl_tpl_list_value(part));
    }
    return generator(r, out);
}

/* ---- map, select ---- */

static const sl_tpl_value *named(const sl_tpl_args *args, const char *name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (sl_tpl_str_is(args->names[i], name)) return &args->named[i];
    return NULL;
}

/* The arguments behind the first n. */
static sl_tpl_args rest(const sl_tpl_args *args, size_t n)
{
    sl_tpl_args a = *args;
    a.n = args->n > n ? args->n - n : 0;
    a.at = a.n ? args->at + n : NULL;
    return a;
}

static const sl_tpl_builtin *find_named(sl_tpl_run *r, sl_tpl_value name, bool is_test)
{
    if (name.kind != SL_TPL_STR) sl_tpl_type_error(r, "the name of a %s must be a string", is_test ? "test" : "filter");
    const sl_tpl_builtin *b = is_test ? sl_tpl_test_find(name.s) : sl_tpl_filter_find(name.s);
    if (!b)
        sl_tpl_type_error(r, "No %s named '%.*s'.", is_test ? "test" : "filter", (int)(name.s->n < 80 ? name.s->n : 80),
                          name.s->p);
    return b;
}

FILTER(f_map)
{
    UNUSED;
    const sl_tpl_value *path = named(raw, "attribute");
    sl_tpl_list *l = sl_tpl_list_new(r, 0);
    if (!sl_tpl_truth(r, self)) return generator(r, l);
    if (!path && !raw->n) sl_tpl_type_error(r, "map requires a filter argument");
    const sl_tpl_builtin *b = raw->n ? find_named(r, raw->at[0], false) : NULL;
    sl_tpl_args args = rest(raw, 1);
    sl_tpl_iter it = sl_tpl_iterate(r, self);
    sl_tpl_down(r);
    for (sl_tpl_value v; sl_tpl_next(r, &it, &v);)
        sl_tpl_list_add(r, l, b ? sl_tpl_call_builtin(r, b, v, &args) : follow(r, v, *path, named(raw, "default")));
    sl_tpl_up(r);
    return generator(r, l);
}

static sl_tpl_value select(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_args *raw, bool by_attribute, bool keep)
{
    size_t skip = by_attribute;
    sl_tpl_list *l = sl_tpl_list_new(r, 0);
    if (!sl_tpl_truth(r, self)) return generator(r, l);
    if (raw->n < skip) sl_tpl_type_error(r, "Missing parameter for attribute name");
    const sl_tpl_builtin *b = raw->n > skip ? find_named(r, raw->at[skip], true) : NULL;
    sl_tpl_args args = rest(raw, skip + 1);
    sl_tpl_iter it = sl_tpl_iterate(r, self);
    for (sl_tpl_value v; sl_tpl_next(r, &it, &v);) {
        sl_tpl_value x = by_attribute ? sl_tpl_path(r, v, raw->at[0]) : v;
        bool holds = b ? sl_tpl_run_test(r, b, x, &args) : sl_tpl_truth(r, x);
        if (holds == keep) sl_tpl_list_add(r, l, v);
    }
    return generator(r, l);
}

FILTER(f_select)
{
    UNUSED;
    return select(r, self, raw, false, true);
}

FILTER(f_reject)
{
    UNUSED;
    return select(r, self, raw, false, false);
}

FILTER(f_selectattr)
{
    UNUSED;
    return select(r, self, raw, true, true);
}

FILTER(f_rejectattr)
{
    UNUSED;
    return select(r, self, raw, true, false);
}

const sl_tpl_builtin sl_tpl_seq_filters[] = {
    {"batch", f_batch, "linecount fill_with", 1},
    {"count", f_length, "", 0},
    {"dictsort", f_dictsort, "case_sensitive by reverse", 0},
    {"first", f_first, "", 0},
    {"items", f_items, "", 0},
    {"join", f_join, "d attribute", 0},
    {"last", f_last, "", 0},
    {"length", f_length, "", 0},
    {"list", f_list, "", 0},
    {"map", f_map, NULL, 0},
    {"max", f_max, "case_sensitive attribute", 0},
    {"min", f_min, "case_sensitive attribute", 0},
    {"reject", f_reject, NULL, 0},
    {"rejectattr", f_rejectattr, NULL, 0},
    {"reverse", f_reverse, "", 0},
    {"select", f_select, NULL, 0},
    {"selectattr", f_selectattr, NULL, 0},
    {"slice", f_slice, "slices fill_with", 1},
    {"sort", f_sort, "reverse case_sensitive attribute", 0},
    {"sum", f_sum, "attribute start", 0},
    {"unique", f_unique, "case_sensitive attribute", 0},
};
const size_t sl_tpl_n_seq_filters = sizeof sl_tpl_seq_filters / sizeof *sl_tpl_seq_filters;
