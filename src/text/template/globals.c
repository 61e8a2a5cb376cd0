/* The functions that every template has: range, dict, namespace, joiner, raise_exception, strftime_now. */
#include "text/template/template_int.h"

#include <stdio.h>
#include <time.h>

#define FUNCTION(name)                                                                                                 \
    static sl_tpl_value name(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw)
#define UNUSED (void)r, (void)self, (void)arg, (void)raw

enum { MAX_RANGE = 100000 }; /* as Jinja's sandbox */

static int64_t whole(sl_tpl_run *r, sl_tpl_value v)
{
    if (v.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, v);
    if (!sl_tpl_is_integral(v))
        sl_tpl_type_error(r, "'%s' object cannot be interpreted as an integer", sl_tpl_type_name(v));
    return sl_tpl_integral(v);
}

FUNCTION(g_range)
{
    UNUSED;
    int64_t start = sl_tpl_given(arg[1]) ? whole(r, arg[0]) : 0;
    int64_t stop = whole(r, sl_tpl_given(arg[1]) ? arg[1] : arg[0]);
    int64_t step = sl_tpl_given(arg[2]) ? whole(r, arg[2]) : 1;
    if (step == 0) sl_tpl_type_error(r, "range() arg 3 must not be zero");
    uint64_t span = step > 0 ? (stop > start ? (uint64_t)stop - (uint64_t)start : 0)
                             : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t by = step > 0 ? (uint64_t)step : -(uint64_t)step;
    uint64_t n = span ? (span - 1) / by + 1 : 0;
    if (n > MAX_RANGE)
        sl_tpl_type_error(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MAX_RANGE);
    sl_tpl_range *x = sl_tpl_take(&r->heap, sizeof *x);
    *x = (sl_tpl_range){start, step, n};
    return (sl_tpl_value){.kind = SL_TPL_RANGE, .range = x};
}

/* dict(mapping or pairs, name=value ...) */
static sl_tpl_dict *make_dict(sl_tpl_run *r, const sl_tpl_args *raw)
{
    sl_tpl_dict *d = sl_tpl_dict_new(r);
    sl_tpl_value v;
    if (raw->n > 1) sl_tpl_type_error(r, "dict expected at most 1 argument, got %zu", raw->n);
    if (raw->n && raw->at[0].kind == SL_TPL_DICT)
        for (size_t i = 0; i < raw->at[0].d->n; i++)
            sl_tpl_dict_set(r, d, raw->at[0].d->at[i].key, raw->at[0].d->at[i].value);
    else if (raw->n) {
        sl_tpl_iter it = sl_tpl_iterate(r, raw->at[0]);
        while (sl_tpl_next(r, &it, &v)) {
            const sl_tpl_list *pair = sl_tpl_to_list(r, v);
            if (pair->n != 2) sl_tpl_type_error(r, "dict update sequence has an element of length %zu", pair->n);
            sl_tpl_dict_set(r, d, pair->at[0], pair->at[1]);
        }
    }
    for (size_t i = 0; i < raw->n_named; i++)
        sl_tpl_dict_set(r, d, sl_tpl_of_str(raw->names[i]), raw->named[i]);
    return d;
}

FUNCTION(g_dict)
{
    UNUSED;
    return (sl_tpl_value){.kind = SL_TPL_DICT, .d = make_dict(r, raw)};
}

FUNCTION(g_namespace)
{
    UNUSED;
    return (sl_tpl_value){.kind = SL_TPL_NAMESPACE, .d = make_dict(r, raw)};
}

FUNCTION(g_joiner)
{
    UNUSED;
    sl_tpl_dict *d = sl_tpl_dict_new(r);
    sl_tpl_dict_put(r, d, "sep", sl_tpl_given(arg[0]) ? arg[0] : sl_tpl_text_value(r, ", "));
    return (sl_tpl_value){.kind = SL_TPL_JOINER, .d = d};
}

FUNCTION(g_raise)
{
    UNUSED;
    const sl_tpl_str *s = sl_tpl_to_str(r, arg[0]);
    sl_tpl_refuse(&r->heap, SL_ERR_ARG, "%.*s", (int)(s->n < 700 ? s->n : 700), s->p);
}

FUNCTION(g_strftime)
{
    UNUSED;
    struct tm tm;
    char format[256], out[1024];
    time_t now = (time_t)r->now_s;
    if (arg[0].kind != SL_TPL_STR)
        sl_tpl_type_error(r, "strftime() argument 1 must be str, not %s", sl_tpl_type_name(arg[0]));
    if (arg[0].s->n >= sizeof format) sl_tpl_type_error(r, "the format of strftime_now is too long");
    memcpy(format, arg[0].s->p, arg[0].s->n);
    format[arg[0].s->n] = 0;
    localtime_r(&now, &tm);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(out, sizeof out, format, &tm);
#pragma GCC diagnostic pop
    return sl_tpl_of_str(sl_tpl_str_new(&r->heap, out, n, sl_tpl_str_user(arg[0].s)));
}

static const sl_tpl_builtin globals[] = {
    {"dict", g_dict, NULL, 0},
    {"joiner", g_joiner, "sep", 0},
    {"namespace", g_namespace, NULL, 0},
    {"raise_exception", g_raise, "message", 1},
    {"range", g_range, "start stop step", 1},
    {"strftime_now", g_strftime, "format", 1},
};

sl_tpl_value sl_tpl_global(sl_tpl_run *r, const sl_tpl_str *name)
{
    const sl_tpl_builtin *b = sl_tpl_builtin_in(globals, sizeof globals / sizeof *globals, name);
    if (!b) return (sl_tpl_value){0};
    sl_tpl_function *f = sl_tpl_take(&r->heap, sizeof *f);
    *f = (sl_tpl_function){.builtin = b};
    return (sl_tpl_value){.kind = SL_TPL_FUNCTION, .function = f};
}
