/* str() and repr() of values, as Python writes them. */
#include "text/template/template_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* The shortest digits that read back as f, written as Python does: an exponent below -4 or from 16. */
void sl_tpl_show_float(double f, char buf[32])
{
    char digits[32];
    if (isnan(f) || isinf(f)) {
        strcpy(buf, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    int precision = 0;
    do
        snprintf(digits, sizeof digits, "%.*e", precision, f);
    while (precision++ < 17 && strtod(digits, NULL) != f);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        strcpy(buf, digits); /* e-07 and e+16: two digits at least, as here */
        return;
    }
    int decimals = precision - 1 - exponent; /* digits behind the point */
    snprintf(buf, 32, "%.*f", decimals > 0 ? decimals : 1, f);
}

static void show_char(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_str *s, size_t i, size_t len, uint32_t cp, char quote)
{
    char buf[12] = "";
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    if (cp == (uint8_t)quote || cp == '\\')
        snprintf(buf, sizeof buf, "\\%c", (char)cp);
    else if (cp == '\n' || cp == '\r' || cp == '\t')
        snprintf(buf, sizeof buf, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
    else if (cp < 0x20 || (cp >= 0x7F && cp < 0xA1) || cp == 0xAD)
        snprintf(buf, sizeof buf, "\\x%02x", cp);
    else if (cp > 0x7F && (c == UTF8PROC_CATEGORY_CN || (c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_CO)))
        snprintf(buf, sizeof buf, cp > 0xFFFF ? "\\U%08x" : "\\u%04x", cp);
    if (*buf)
        sl_tpl_add(r, t, buf, strlen(buf), s->mask ? s->mask[i] : s->user);
    else
        sl_tpl_add_slice(r, t, s, i, i + len);
}

static void repr_str(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_str *s)
{
    char quote = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    uint32_t cp;
    if (s->safe) sl_tpl_add_c(r, t, "Markup(");
    sl_tpl_add(r, t, &quote, 1, false);
    for (size_t i = 0, len; i < s->n && (len = sl_utf8_decode(s->p + i, s->n - i, &cp)); i += len) {
        sl_tpl_tick(r, 1);
        show_char(r, t, s, i, len, cp, quote);
    }
    sl_tpl_add(r, t, &quote, 1, false);
    if (s->safe) sl_tpl_add_c(r, t, ")");
}

static void repr_items(sl_tpl_run *r, sl_tpl_text *t, sl_tpl_value v, const char *open, const char *close)
{
    sl_tpl_iter it = sl_tpl_iterate(r, v);
    bool first = true;
    sl_tpl_add_c(r, t, open);
    for (sl_tpl_value item; sl_tpl_next(r, &it, &item); first = false) {
        if (!first) sl_tpl_add_c(r, t, ", ");
        sl_tpl_repr(r, t, item);
    }
    if (v.kind == SL_TPL_TUPLE && v.l->n == 1) sl_tpl_add_c(r, t, ",");
    sl_tpl_add_c(r, t, close);
}

static void repr_dict(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_dict *d)
{
    sl_tpl_add_c(r, t, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) sl_tpl_add_c(r, t, ", ");
        sl_tpl_repr(r, t, d->at[i].key);
        sl_tpl_add_c(r, t, ": ");
        sl_tpl_repr(r, t, d->at[i].value);
    }
    sl_tpl_add_c(r, t, "}");
}

static void repr_range(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_range *x)
{
    char buf[96];
    int64_t stop = x->start + x->step * (int64_t)x->n;
    int n = snprintf(buf, sizeof buf, "range(%lld, %lld", (long long)x->start, (long long)stop);
    sl_tpl_add(r, t, buf, (size_t)n, false);
    if (x->step != 1) sl_tpl_add(r, t, buf, (size_t)snprintf(buf, sizeof buf, ", %lld", (long long)x->step), false);
    sl_tpl_add_c(r, t, ")");
}

static void repr_number(sl_tpl_run *r, sl_tpl_text *t, sl_tpl_value v)
{
    char buf[32];
    if (v.kind == SL_TPL_FLOAT)
        sl_tpl_show_float(v.f, buf);
    else
        snprintf(buf, sizeof buf, "%lld", (long long)v.i);
    sl_tpl_add_c(r, t, buf);
}

void sl_tpl_repr(sl_tpl_run *r, sl_tpl_text *t, sl_tpl_value v)
{
    sl_tpl_down(r);
    switch (v.kind) {
    case SL_TPL_UNDEFINED:
        sl_tpl_add_c(r, t, "Undefined");
        break;
    case SL_TPL_NONE:
        sl_tpl_add_c(r, t, "None");
        break;
    case SL_TPL_BOOL:
        sl_tpl_add_c(r, t, v.b ? "True" : "False");
        break;
    case SL_TPL_INT:
    case SL_TPL_FLOAT:
        repr_number(r, t, v);
        break;
    case SL_TPL_STR:
        repr_str(r, t, v.s);
        break;
    case SL_TPL_LIST:
        repr_items(r, t, v, "[", "]");
        break;
    case SL_TPL_TUPLE:
        repr_items(r, t, v, "(", ")");
        break;
    case SL_TPL_DICT:
        repr_dict(r, t, v.d);
        break;
    case SL_TPL_KEYS:
        repr_items(r, t, v, "dict_keys([", "])");
        break;
    case SL_TPL_VALUES:
        repr_items(r, t, v, "dict_values([", "])");
        break;
    case SL_TPL_ITEMS:
        repr_items(r, t, v, "dict_items([", "])");
        break;
    case SL_TPL_RANGE:
        repr_range(r, t, v.range);
        break;
    case SL_TPL_NAMESPACE:
        sl_tpl_add_c(r, t, "<Namespace ");
        repr_dict(r, t, v.d);
        sl_tpl_add_c(r, t, ">");
        break;
    default: /* Python shows an address here */
        sl_tpl_add_c(r, t, "<");
        sl_tpl_add_c(r, t, sl_tpl_type_name(v));
        sl_tpl_add_c(r, t, " object>");
        break;
    }
    sl_tpl_up(r);
}

void sl_tpl_show(sl_tpl_run *r, sl_tpl_text *t, sl_tpl_value v)
{
    if (v.kind == SL_TPL_STR)
        sl_tpl_add_str(r, t, v.s);
    else if (v.kind != SL_TPL_UNDEFINED)
        sl_tpl_repr(r, t, v);
    else if (v.u->unsafe)
        sl_tpl_use_undefined(r, v);
}

const sl_tpl_str *sl_tpl_to_str(sl_tpl_run *r, sl_tpl_value v)
{
    sl_tpl_text t = {0};
    if (v.kind == SL_TPL_STR) return v.s;
    sl_tpl_show(r, &t, v);
    return sl_tpl_text_str(r, &t);
}
