/* Arithmetic, comparison, subscripts. */
#include "text/template/template_int.h"

#include <math.h>

/* ---- arithmetic ---- */

static const char *const symbols[] = {
    [SL_TPL_ADD] = "+",       [SL_TPL_SUB] = "-", [SL_TPL_MUL] = "*",         [SL_TPL_DIV] = "/",
    [SL_TPL_FLOORDIV] = "//", [SL_TPL_MOD] = "%", [SL_TPL_POW] = "** or pow()",
};

_Noreturn static void unsupported(sl_tpl_run *r, sl_tpl_op op, sl_tpl_value a, sl_tpl_value b)
{
    if (op == SL_TPL_ADD && (a.kind == SL_TPL_STR || a.kind == SL_TPL_LIST || a.kind == SL_TPL_TUPLE))
        sl_tpl_type_error(r, "can only concatenate %s (not \"%s\") to %s", sl_tpl_type_name(a), sl_tpl_type_name(b),
                          sl_tpl_type_name(a));
    sl_tpl_type_error(r, "unsupported operand type(s) for %s: '%s' and '%s'", symbols[op], sl_tpl_type_name(a),
                      sl_tpl_type_name(b));
}

_Noreturn static void too_large(sl_tpl_run *r)
{
    sl_tpl_fail(&r->heap, SL_ERR_LIMIT, "a whole number beyond 64 bits");
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static sl_tpl_value int_pow(sl_tpl_run *r, int64_t a, int64_t b)
{
    int64_t v = 1;
    if (b < 0) return sl_tpl_float(pow((double)a, (double)b));
    if (a == 0 || a == 1) return sl_tpl_int(b ? a : 1);
    if (a == -1) return sl_tpl_int(b & 1 ? -1 : 1);
    for (; b; b--)
        if (__builtin_mul_overflow(v, a, &v)) too_large(r);
    return sl_tpl_int(v);
}

static sl_tpl_value int_arith(sl_tpl_run *r, sl_tpl_op op, int64_t a, int64_t b)
{
    int64_t v = 0;
    bool over = false;
    if ((op == SL_TPL_DIV || op == SL_TPL_FLOORDIV || op == SL_TPL_MOD) && b == 0)
        sl_tpl_type_error(r, op == SL_TPL_DIV ? "division by zero" : "integer division or modulo by zero");
    if (op == SL_TPL_FLOORDIV && a == INT64_MIN && b == -1) too_large(r);
    switch (op) {
    case SL_TPL_ADD:
        over = __builtin_add_overflow(a, b, &v);
        break;
    case SL_TPL_SUB:
        over = __builtin_sub_overflow(a, b, &v);
        break;
    case SL_TPL_MUL:
        over = __builtin_mul_overflow(a, b, &v);
        break;
    case SL_TPL_DIV:
        return sl_tpl_float((double)a / (double)b);
    case SL_TPL_FLOORDIV:
        v = floor_div(a, b);
        break;
    case SL_TPL_MOD:
        v = b == -1 ? 0 : a % b;
        if (v && (v < 0) != (b < 0)) v += b;
        break;
    default:
        return int_pow(r, a, b);
    }
    if (over) too_large(r);
    return sl_tpl_int(v);
}

static sl_tpl_value float_arith(sl_tpl_run *r, sl_tpl_op op, double a, double b)
{
    double m;
    if ((op == SL_TPL_DIV || op == SL_TPL_FLOORDIV || op == SL_TPL_MOD) && b == 0)
        sl_tpl_type_error(r, op == SL_TPL_MOD ? "float modulo" : "float division by zero");
    switch (op) {
    case SL_TPL_ADD:
        return sl_tpl_float(a + b);
    case SL_TPL_SUB:
        return sl_tpl_float(a - b);
    case SL_TPL_MUL:
        return sl_tpl_float(a * b);
    case SL_TPL_DIV:
        return sl_tpl_float(a / b);
    case SL_TPL_FLOORDIV:
        return sl_tpl_float(floor(a / b));
    case SL_TPL_MOD:
        m = fmod(a, b);
        return sl_tpl_float(m != 0 && (m < 0) != (b < 0) ? m + b : m);
    default:
        return sl_tpl_float(pow(a, b));
    }
}

static sl_tpl_value add_strings(sl_tpl_run *r, const sl_tpl_str *a, const sl_tpl_str *b)
{
    if (a->safe != b->safe) {
        a = a->safe ? a : sl_tpl_str_escape(r, a);
        b = b->safe ? b : sl_tpl_str_escape(r, b);
        return sl_tpl_of_str(sl_tpl_str_mark_safe(r, sl_tpl_str_concat(r, a, b), true));
    }
    return sl_tpl_of_str(sl_tpl_str_concat(r, a, b));
}

static sl_tpl_value add_lists(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b)
{
    sl_tpl_tick(r, (a.l->n + b.l->n) >> 3);
    sl_tpl_list *l = sl_tpl_list_new(r, a.l->n + b.l->n);
    for (size_t i = 0; i < a.l->n; i++)
        sl_tpl_list_add(r, l, a.l->at[i]);
    for (size_t i = 0; i < b.l->n; i++)
        sl_tpl_list_add(r, l, b.l->at[i]);
    return (sl_tpl_value){.kind = a.kind, .l = l};
}

static sl_tpl_value repeat(sl_tpl_run *r, sl_tpl_value v, int64_t times)
{
    if (times < 0) times = 0;
    size_t n = v.kind == SL_TPL_STR ? v.s->n : v.l->n, total;
    if (__builtin_mul_overflow(n, (size_t)times, &total) || total > SL_TPL_MAX_OUTPUT)
        sl_tpl_fail(&r->heap, SL_ERR_LIMIT, "a value is repeated %lld times", (long long)times);
    if (v.kind == SL_TPL_STR) {
        sl_tpl_text t = {0};
        for (int64_t i = 0; i < times && n; i++)
            sl_tpl_add_str(r, &t, v.s);
        return sl_tpl_of_str(sl_tpl_str_mark_safe(r, sl_tpl_text_str(r, &t), v.s->safe));
    }
    sl_tpl_list *l = sl_tpl_list_new(r, total);
    sl_tpl_tick(r, total);
    for (size_t i = 0; i < total; i++)
        sl_tpl_list_add(r, l, v.l->at[i % n]);
    return (sl_tpl_value){.kind = v.kind, .l = l};
}

static bool is_sequence(sl_tpl_value v)
{
    return v.kind == SL_TPL_STR || v.kind == SL_TPL_LIST || v.kind == SL_TPL_TUPLE;
}

sl_tpl_value sl_tpl_arith(sl_tpl_run *r, sl_tpl_op op, sl_tpl_value a, sl_tpl_value b)
{
    if (a.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, a);
    if (op == SL_TPL_MOD && a.kind == SL_TPL_STR) return sl_tpl_percent(r, a.s, b);
    if (b.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, b);
    if (sl_tpl_is_integral(a) && sl_tpl_is_integral(b))
        return int_arith(r, op, sl_tpl_integral(a), sl_tpl_integral(b));
    if (sl_tpl_is_number(a) && sl_tpl_is_number(b)) return float_arith(r, op, sl_tpl_number(a), sl_tpl_number(b));
    if (op == SL_TPL_ADD && a.kind == SL_TPL_STR && b.kind == SL_TPL_STR) return add_strings(r, a.s, b.s);
    if (op == SL_TPL_ADD && a.kind == b.kind && (a.kind == SL_TPL_LIST || a.kind == SL_TPL_TUPLE))
        return add_lists(r, a, b);
    if (op == SL_TPL_MUL && is_sequence(a) && sl_tpl_is_integral(b)) return repeat(r, a, sl_tpl_integral(b));
    if (op == SL_TPL_MUL && is_sequence(b) && sl_tpl_is_integral(a)) return repeat(r, b, sl_tpl_integral(a));
    unsupported(r, op, a, b);
}

sl_tpl_value sl_tpl_negate(sl_tpl_run *r, sl_tpl_value v, bool minus)
{
    if (v.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, v);
    if (v.kind == SL_TPL_FLOAT) return sl_tpl_float(minus ? -v.f : v.f);
    if (!sl_tpl_is_integral(v))
        sl_tpl_type_error(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+', sl_tpl_type_name(v));
    int64_t i = sl_tpl_integral(v);
    if (minus && i == INT64_MIN) too_large(r);
    return sl_tpl_int(minus ? -i : i);
}

bool sl_tpl_compare(sl_tpl_run *r, sl_tpl_rel rel, sl_tpl_value a, sl_tpl_value b)
{
    switch (rel) {
    case SL_TPL_EQ:
        return sl_tpl_equal(r, a, b);
    case SL_TPL_NE:
        return !sl_tpl_equal(r, a, b);
    case SL_TPL_LT:
        return sl_tpl_order(r, a, b, "<") < 0;
    case SL_TPL_LE:
        return sl_tpl_order(r, a, b, "<=") <= 0;
    case SL_TPL_GT:
        return sl_tpl_order(r, a, b, ">") > 0;
    case SL_TPL_GE:
        return sl_tpl_order(r, a, b, ">=") >= 0;
    case SL_TPL_IN:
        return sl_tpl_contains(r, b, a);
    default:
        return !sl_tpl_contains(r, b, a);
    }
}

/* ---- subscripts ---- */

static sl_tpl_value element(sl_tpl_run *r, sl_tpl_value object, size_t i)
{
    if (object.kind == SL_TPL_RANGE)
        return sl_tpl_int(object.range->start + (int64_t)i * object.range->step);
    if (object.kind != SL_TPL_STR) return object.l->at[i];
    size_t from = sl_tpl_str_at(object.s, i);
    sl_tpl_tick(r, from >> 8);
    return sl_tpl_of_str(sl_tpl_str_slice(r, object.s, from, from + sl_tpl_char_len(object.s->p + from)));
}

static bool is_indexable(sl_tpl_value v)
{
    return is_sequence(v) || v.kind == SL_TPL_RANGE;
}

/* Methods and the attributes of loops and namespaces; MISSING: none. */
static sl_tpl_value attribute(sl_tpl_run *r, sl_tpl_value object, const sl_tpl_str *name)
{
    if (object.kind == SL_TPL_LOOP) return sl_tpl_loop_attr(r, object.loop, name, object);
    if (object.kind == SL_TPL_NAMESPACE) {
        const sl_tpl_value *v = sl_tpl_dict_get(r, object.d, sl_tpl_of_str(name));
        return v ? *v : (sl_tpl_value){0};
    }
    if (object.kind == SL_TPL_MACRO && sl_tpl_str_is(name, "name"))
        return object.macro->name ? sl_tpl_of_str(object.macro->name) : sl_tpl_none();
    return sl_tpl_method(r, object, name);
}

sl_tpl_value sl_tpl_getitem(sl_tpl_run *r, sl_tpl_value object, sl_tpl_value key)
{
    size_t n = 0;
    if (object.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, object);
    if (object.kind == SL_TPL_DICT && sl_tpl_hashable(key)) {
        const sl_tpl_value *v = sl_tpl_dict_get(r, object.d, key);
        if (v) return *v;
    }
    if (is_indexable(object) && sl_tpl_is_integral(key) && sl_tpl_length(object, &n)) {
        int64_t i = sl_tpl_integral(key);
        if (i < 0) i += (int64_t)n;
        if (i >= 0 && (uint64_t)i < n) return element(r, object, (size_t)i);
    }
    if (key.kind == SL_TPL_STR) {
        sl_tpl_value v = attribute(r, object, key.s);
        if (sl_tpl_given(v)) return v;
    }
    return sl_tpl_undefined_of(r, object, key);
}

sl_tpl_value sl_tpl_getattr(sl_tpl_run *r, sl_tpl_value object, const sl_tpl_str *name)
{
    if (object.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, object);
    sl_tpl_value v = attribute(r, object, name);
    if (sl_tpl_given(v)) return v;
    if (object.kind == SL_TPL_DICT) {
        const sl_tpl_value *item = sl_tpl_dict_get(r, object.d, sl_tpl_of_str(name));
        if (item) return *item;
    }
    return sl_tpl_undefined_of(r, object, sl_tpl_of_str(name));
}

/* A bound of a slice; false: not given. */
static bool bound(sl_tpl_run *r, sl_tpl_value v, int64_t *out)
{
    if (!sl_tpl_given(v) || v.kind == SL_TPL_NONE) return false;
    if (!sl_tpl_is_integral(v))
        sl_tpl_type_error(r, "slice indices must be integers or None or have an __index__ method");
    *out = sl_tpl_integral(v);
    return true;
}

static int64_t clamp(int64_t i, int64_t n, int64_t lo, int64_t hi)
{
    if (i < 0) i = i < -n ? lo : i + n;
    return i < lo ? lo : i > hi ? hi : i;
}

static sl_tpl_value take_slice(sl_tpl_run *r, sl_tpl_value object, int64_t from, int64_t count, int64_t step)
{
    sl_tpl_tick(r, (size_t)count);
    if (object.kind != SL_TPL_STR) {
        sl_tpl_list *l = sl_tpl_list_new(r, (size_t)count);
        for (int64_t i = 0; i < count; i++)
            sl_tpl_list_add(r, l, element(r, object, (size_t)(from + i * step)));
        return (sl_tpl_value){.kind = object.kind == SL_TPL_TUPLE ? SL_TPL_TUPLE : SL_TPL_LIST, .l = l};
    }
    const sl_tpl_str *s = object.s;
    size_t at = sl_tpl_str_at(s, (size_t)(from < 0 ? 0 : from));
    if (step == 1) {
        sl_tpl_str rest = {.p = s->p + at, .n = s->n - at};
        return sl_tpl_of_str(sl_tpl_str_slice(r, s, at, at + sl_tpl_str_at(&rest, (size_t)count)));
    }
    sl_tpl_text t = {0};
    for (int64_t i = 0; i < count; i++) {
        sl_tpl_add_slice(r, &t, s, at, at + sl_tpl_char_len(s->p + at));
        for (int64_t k = 0; k < step && at < s->n && i + 1 < count; k++)
            at += sl_tpl_char_len(s->p + at);
        for (int64_t k = 0; k < -step && at > 0 && i + 1 < count; k++)
            while (((uint8_t)s->p[--at] & 0xC0) == 0x80) {
            }
    }
    return sl_tpl_of_str(sl_tpl_str_mark_safe(r, sl_tpl_text_str(r, &t), s->safe));
}

sl_tpl_value sl_tpl_slice(sl_tpl_run *r, sl_tpl_value object, sl_tpl_value from, sl_tpl_value to, sl_tpl_value step)
{
    int64_t by = 1, lo = 0, hi = 0;
    size_t length = 0;
    if (object.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, object);
    if (!is_indexable(object)) sl_tpl_type_error(r, "'%s' object is not subscriptable", sl_tpl_type_name(object));
    sl_tpl_length(object, &length);
    int64_t n = (int64_t)length;
    bound(r, step, &by);
    if (by == 0) sl_tpl_type_error(r, "slice step cannot be zero");
    if (by > n + 1) by = n + 1; /* no difference, and nothing overflows */
    if (by < -n - 1) by = -n - 1;
    int64_t floor = by < 0 ? -1 : 0, ceiling = by < 0 ? n - 1 : n;
    lo = bound(r, from, &lo) ? clamp(lo, n, floor, ceiling) : by < 0 ? n - 1 : 0;
    hi = bound(r, to, &hi) ? clamp(hi, n, floor, ceiling) : by < 0 ? -1 : n;
    int64_t count = by > 0 ? (hi - lo + by - 1) / by : (lo - hi - by - 1) / -by;
    return take_slice(r, object, lo, count < 0 ? 0 : count, by);
}
