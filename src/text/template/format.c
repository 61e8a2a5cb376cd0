/* "%s" % x and "{}".format(x): the parts that templates use. */
#include "text/template/template_int.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    char fill, align, sign; /* 0: not given */
    bool zero, alt, comma;
    int width, precision; /* -1: not given */
    char type;
} spec;

enum { MAX_WIDTH = 10000 };

_Noreturn static void bad(sl_tpl_run *r, const char *what)
{
    sl_tpl_type_error(r, "format: %s", what);
}

static int number(sl_tpl_run *r, const sl_tpl_str *f, size_t *i)
{
    int n = -1;
    for (; *i < f->n && isdigit((unsigned char)f->p[*i]); ++*i) {
        n = (n < 0 ? 0 : n) * 10 + (f->p[*i] - '0');
        if (n > MAX_WIDTH) bad(r, "a width or precision is too large");
    }
    return n;
}

/* ---- one value ---- */

static void pad(sl_tpl_run *r, sl_tpl_text *t, int64_t n, char c)
{
    for (; n > 0; n--)
        sl_tpl_add(r, t, &c, 1, false);
}

static void put_padded(sl_tpl_run *r, sl_tpl_text *t, const spec *s, const sl_tpl_str *x, char align)
{
    int64_t room = s->width - (int64_t)sl_tpl_str_chars(x);
    if (room < 0) room = 0;
    if (s->align) align = s->align;
    char c = s->fill ? s->fill : ' ';
    int64_t left = align == '>' ? room : align == '^' ? room / 2 : 0;
    size_t sign = align == '=' && x->n && (x->p[0] == '-' || x->p[0] == '+');
    sl_tpl_add_slice(r, t, x, 0, sign);
    pad(r, t, align == '=' ? room : left, c);
    sl_tpl_add_slice(r, t, x, sign, x->n);
    pad(r, t, align == '=' ? 0 : room - left, c);
}

static void put_float(sl_tpl_run *r, sl_tpl_text *t, const spec *s, double f)
{
    char buf[512];
    int precision = s->precision < 0 ? 6 : s->precision > 300 ? 300 : s->precision;
    double shown = s->type == '%' ? f * 100 : f;
    if (shown > 1e150 || shown < -1e150) bad(r, "a number is too large");
    switch (s->type) {
    case 'e':
        snprintf(buf, sizeof buf, "%.*e", precision, shown);
        break;
    case 'g':
        snprintf(buf, sizeof buf, "%.*g", precision, shown);
        break;
    default:
        snprintf(buf, sizeof buf, s->type == '%' ? "%.*f%%" : "%.*f", precision, shown);
        break;
    }
    sl_tpl_text x = {0};
    if (s->sign == '+' && f >= 0) sl_tpl_add_c(r, &x, "+");
    sl_tpl_add_c(r, &x, buf);
    put_padded(r, t, s, sl_tpl_text_str(r, &x), s->zero ? '=' : '>');
}

static void put_int(sl_tpl_run *r, sl_tpl_text *t, const spec *s, int64_t v)
{
    char digits[32], buf[64];
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
    const char *prefix = !s->alt ? "" : s->type == 'x' ? "0x" : s->type == 'X' ? "0X" : s->type == 'o' ? "0o" : "";
    const char *format = s->type == 'x' ? "%llx" : s->type == 'X' ? "%llX" : s->type == 'o' ? "%llo" : "%llu";
    int n = snprintf(digits, sizeof digits, format, (unsigned long long)u), k = 0;
    if (v < 0)
        buf[k++] = '-';
    else if (s->sign == '+' || s->sign == ' ')
        buf[k++] = s->sign;
    k += snprintf(buf + k, 8, "%s", prefix);
    for (int i = 0; i < n; i++) {
        if (s->comma && i && (n - i) % 3 == 0) buf[k++] = ',';
        buf[k++] = digits[i];
    }
    buf[k] = 0;
    put_padded(r, t, s, sl_tpl_text_value(r, strcpy(sl_tpl_take(&r->heap, (size_t)k + 1), buf)).s, s->zero ? '=' : '>');
}

static void put_text(sl_tpl_run *r, sl_tpl_text *t, const spec *s, const sl_tpl_str *x, char align)
{
    if (s->precision >= 0) x = sl_tpl_str_slice(r, x, 0, sl_tpl_str_at(x, (size_t)s->precision));
    put_padded(r, t, s, x, align);
}

/* ---- printf style ---- */

static const sl_tpl_str *repr_of(sl_tpl_run *r, sl_tpl_value v)
{
    sl_tpl_text t = {0};
    sl_tpl_repr(r, &t, v);
    return sl_tpl_text_str(r, &t);
}

static void put_percent(sl_tpl_run *r, sl_tpl_text *t, spec *s, sl_tpl_value v)
{
    int64_t whole;
    switch (s->type) {
    case 's':
        put_text(r, t, s, sl_tpl_to_str(r, v), '>');
        return;
    case 'r':
        put_text(r, t, s, repr_of(r, v), '>');
        return;
    case 'd':
    case 'i':
    case 'x':
    case 'X':
    case 'o':
        if (v.kind == SL_TPL_FLOAT && (s->type == 'd' || s->type == 'i') && v.f > -0x1p63 && v.f < 0x1p63)
            whole = (int64_t)v.f;
        else if (sl_tpl_is_integral(v))
            whole = sl_tpl_integral(v);
        else
            sl_tpl_type_error(r, "%%%c format: a real number is required, not %s", s->type, sl_tpl_type_name(v));
        put_int(r, t, s, whole);
        return;
    case 'f':
    case 'F':
    case 'e':
    case 'g':
        if (!sl_tpl_is_number(v)) sl_tpl_type_error(r, "must be real number, not %s", sl_tpl_type_name(v));
        put_float(r, t, s, sl_tpl_number(v));
        return;
    default:
        bad(r, "an unsupported format character");
    }
}

/* "%(name)s": the name, whose closing bracket is passed. */
static sl_tpl_value mapped(sl_tpl_run *r, const sl_tpl_str *f, size_t *i, sl_tpl_value args)
{
    const char *end = memchr(f->p + *i, ')', f->n - *i);
    if (!end) bad(r, "incomplete format key");
    if (args.kind != SL_TPL_DICT) bad(r, "format requires a mapping");
    sl_tpl_value key = sl_tpl_of_str(sl_tpl_str_slice(r, f, *i, (size_t)(end - f->p)));
    const sl_tpl_value *v = sl_tpl_dict_get(r, args.d, key);
    if (!v) bad(r, "a key is not in the mapping");
    *i = (size_t)(end - f->p) + 1;
    return *v;
}

sl_tpl_value sl_tpl_percent(sl_tpl_run *r, const sl_tpl_str *f, sl_tpl_value args)
{
    sl_tpl_text t = {0};
    size_t done = 0, next = 0, n_args = args.kind == SL_TPL_TUPLE ? args.l->n : 1;
    for (size_t i = 0; i < f->n; i++) {
        if (f->p[i] != '%') continue;
        spec s = {.width = -1, .precision = -1};
        sl_tpl_value v = {0};
        sl_tpl_add_slice(r, &t, f, done, i++);
        if (i < f->n && f->p[i] == '(') {
            i++;
            v = mapped(r, f, &i, args);
        }
        for (; i < f->n && f->p[i] && strchr("-+ 0#", f->p[i]); i++) {
            if (f->p[i] == '-') s.align = '<';
            if (f->p[i] == '+' || f->p[i] == ' ') s.sign = f->p[i];
            if (f->p[i] == '0') s.zero = true;
            if (f->p[i] == '#') s.alt = true;
        }
        s.width = number(r, f, &i);
        if (i < f->n && f->p[i] == '.') {
            i++;
            s.precision = number(r, f, &i);
            if (s.precision < 0) s.precision = 0;
        }
        if (i >= f->n) bad(r, "incomplete format");
        s.type = f->p[i];
        if (s.zero && !s.align) s.fill = '0';
        done = i + 1;
        if (s.type == '%') {
            sl_tpl_add_c(r, &t, "%");
            continue;
        }
        if (!sl_tpl_given(v)) {
            if (next >= n_args) bad(r, "not enough arguments for format string");
            v = args.kind == SL_TPL_TUPLE ? args.l->at[next] : args;
            next++;
        }
        put_percent(r, &t, &s, v);
    }
    if (next < n_args && args.kind != SL_TPL_DICT) bad(r, "not all arguments converted during string formatting");
    sl_tpl_add_slice(r, &t, f, done, f->n);
    return sl_tpl_text_done(r, &t);
}

/* ---- str.format ---- */

static sl_tpl_value field(sl_tpl_run *r, const sl_tpl_str *name, const sl_tpl_args *args, size_t *next)
{
    size_t i = 0;
    int index = number(r, name, &i);
    if (!name->n || (index >= 0 && i == name->n)) {
        size_t at = name->n ? (size_t)index : (*next)++;
        if (at >= args->n) bad(r, "Replacement index out of range for positional args tuple");
        return args->at[at];
    }
    for (size_t k = 0; k < args->n_named; k++)
        if (sl_tpl_str_same(args->names[k], name)) return args->named[k];
    bad(r, "a field has no value, or a form that is not supported");
}

static spec parse_spec(sl_tpl_run *r, const sl_tpl_str *f)
{
    spec s = {.width = -1, .precision = -1};
    size_t i = 0;
    if (f->n > 1 && strchr("<>^=", f->p[1])) {
        s.fill = f->p[0];
        s.align = f->p[1];
        i = 2;
    } else if (f->n && strchr("<>^=", f->p[0]))
        s.align = f->p[i++];
    if (i < f->n && strchr("+- ", f->p[i])) s.sign = f->p[i++];
    if (i < f->n && f->p[i] == '#') s.alt = f->p[i++];
    if (i < f->n && f->p[i] == '0') {
        s.zero = f->p[i++];
        if (!s.fill) s.fill = '0';
    }
    s.width = number(r, f, &i);
    if (i < f->n && f->p[i] == ',') s.comma = f->p[i++];
    if (i < f->n && f->p[i] == '.') {
        i++;
        s.precision = number(r, f, &i);
        if (s.precision < 0) bad(r, "Format specifier missing precision");
    }
    if (i < f->n) s.type = f->p[i++];
    if (i < f->n || (s.type && !strchr("sdxXofFeg%", s.type))) bad(r, "Invalid format specifier");
    return s;
}

static void put_brace(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_str *f, sl_tpl_value v)
{
    spec s = parse_spec(r, f);
    if (v.kind == SL_TPL_UNDEFINED && f->n) sl_tpl_use_undefined(r, v);
    if (!f->n)
        sl_tpl_show(r, t, v);
    else if (v.kind == SL_TPL_FLOAT || (sl_tpl_is_integral(v) && s.type && strchr("fFeg%", s.type))) {
        if (!s.type) bad(r, "a float needs a type of presentation here");
        put_float(r, t, &s, sl_tpl_number(v));
    } else if (v.kind == SL_TPL_INT && s.type != 's')
        put_int(r, t, &s, v.i);
    else if (v.kind == SL_TPL_STR && (!s.type || s.type == 's'))
        put_text(r, t, &s, v.s, '<');
    else
        sl_tpl_type_error(r, "unsupported format string passed to %s.__format__", sl_tpl_type_name(v));
}

sl_tpl_value sl_tpl_brace_format(sl_tpl_run *r, const sl_tpl_str *f, const sl_tpl_args *args)
{
    sl_tpl_text t = {0};
    size_t done = 0, next = 0, i = 0;
    while (i < f->n) {
        char c = f->p[i];
        if (c != '{' && c != '}') {
            i++;
            continue;
        }
        if (i + 1 < f->n && f->p[i + 1] == c) { /* doubled: itself */
            sl_tpl_add_slice(r, &t, f, done, i + 1);
            i = done = i + 2;
            continue;
        }
        const char *end = c == '{' ? memchr(f->p + i, '}', f->n - i) : NULL;
        if (!end) bad(r, c == '{' ? "expected '}' before end of string" : "Single '}' encountered in format string");
        sl_tpl_add_slice(r, &t, f, done, i);
        const sl_tpl_str *inside = sl_tpl_str_slice(r, f, i + 1, (size_t)(end - f->p));
        const char *colon = memchr(inside->p, ':', inside->n), *bang = memchr(inside->p, '!', inside->n);
        if (bang && (!colon || bang < colon)) bad(r, "conversions are not supported");
        size_t n_name = colon ? (size_t)(colon - inside->p) : inside->n;
        sl_tpl_value v = field(r, sl_tpl_str_slice(r, inside, 0, n_name), args, &next);
        put_brace(r, &t, sl_tpl_str_slice(r, inside, colon ? n_name + 1 : n_name, inside->n), v);
        i = done = (size_t)(end - f->p) + 1;
    }
    sl_tpl_add_slice(r, &t, f, done, f->n);
    return sl_tpl_of_str(sl_tpl_str_mark_safe(r, sl_tpl_text_str(r, &t), f->safe));
}
