/* Filters about one value: text, numbers, JSON. */
#include "text/template/template_int.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FILTER(name)                                                                                                   \
    static sl_tpl_value name(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw)
#define UNUSED (void)r, (void)self, (void)arg, (void)raw

/* ---- arguments ---- */

static const sl_tpl_str *text_of(sl_tpl_run *r, sl_tpl_value v)
{
    return sl_tpl_to_str(r, v);
}

static int64_t int_arg(sl_tpl_run *r, sl_tpl_value v, int64_t otherwise)
{
    if (!sl_tpl_given(v)) return otherwise;
    if (v.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, v);
    if (!sl_tpl_is_integral(v))
        sl_tpl_type_error(r, "'%s' object cannot be interpreted as an integer", sl_tpl_type_name(v));
    return sl_tpl_integral(v);
}

static bool bool_arg(sl_tpl_run *r, sl_tpl_value v)
{
    return sl_tpl_given(v) && sl_tpl_truth(r, v);
}

static sl_tpl_value cased(sl_tpl_run *r, sl_tpl_value v, sl_tpl_case how)
{
    return sl_tpl_of_str(sl_tpl_str_case(r, text_of(r, v), how));
}

/* ---- text ---- */

FILTER(f_upper)
{
    UNUSED;
    return cased(r, self, SL_TPL_UPPER);
}

FILTER(f_lower)
{
    UNUSED;
    return cased(r, self, SL_TPL_LOWER);
}

FILTER(f_capitalize)
{
    UNUSED;
    return cased(r, self, SL_TPL_CAPITAL);
}

static bool starts_word(const sl_tpl_str *s, size_t i)
{
    uint32_t cp;
    char c = s->p[i];
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' ||
           (sl_utf8_decode(s->p + i, s->n - i, &cp) && sl_tpl_is_space(cp));
}

/* Unlike Python's title(): only blanks and brackets begin a word. */
FILTER(f_title)
{
    UNUSED;
    const sl_tpl_str *s = text_of(r, self);
    sl_tpl_text t = {0};
    bool begins = true;
    for (size_t i = 0, end; i < s->n; i = end) {
        end = i + sl_tpl_char_len(s->p + i);
        bool separator = starts_word(s, i);
        while (!begins && !separator && end < s->n && !starts_word(s, end))
            end += sl_tpl_char_len(s->p + end);
        const sl_tpl_str *part = sl_tpl_str_slice(r, s, i, end);
        sl_tpl_add_str(r, &t, separator ? part : sl_tpl_str_case(r, part, begins ? SL_TPL_UPPER : SL_TPL_LOWER));
        begins = separator;
    }
    return sl_tpl_text_done(r, &t);
}

FILTER(f_trim)
{
    UNUSED;
    bool given = sl_tpl_given(arg[0]) && arg[0].kind != SL_TPL_NONE;
    if (given && arg[0].kind != SL_TPL_STR) sl_tpl_type_error(r, "strip arg must be None or str");
    return sl_tpl_of_str(
        sl_tpl_str_strip(r, text_of(r, self), given ? arg[0].s : NULL, SL_TPL_LEFT | SL_TPL_RIGHT));
}

FILTER(f_replace)
{
    UNUSED;
    int64_t count = arg[2].kind == SL_TPL_NONE ? -1 : int_arg(r, arg[2], -1);
    return sl_tpl_of_str(sl_tpl_str_mark_safe(
        r, sl_tpl_str_replace(r, text_of(r, self), text_of(r, arg[0]), text_of(r, arg[1]), count), false));
}

FILTER(f_string)
{
    UNUSED;
    return sl_tpl_of_str(text_of(r, self));
}

FILTER(f_safe)
{
    UNUSED;
    return sl_tpl_of_str(sl_tpl_str_mark_safe(r, text_of(r, self), true));
}

FILTER(f_escape)
{
    UNUSED;
    const sl_tpl_str *s = text_of(r, self);
    return sl_tpl_of_str(s->safe ? s : sl_tpl_str_mark_safe(r, sl_tpl_str_escape(r, s), true));
}

/* The line of s at i, without its end; *next: where the one after it begins. */
static size_t line_end(const sl_tpl_str *s, size_t i, size_t *next)
{
    uint32_t cp;
    for (size_t len; i < s->n; i += len) {
        len = sl_utf8_decode(s->p + i, s->n - i, &cp);
        if (!sl_tpl_ends_line(cp)) continue;
        *next = i + len + (cp == '\r' && i + 1 < s->n && s->p[i + 1] == '\n');
        return i;
    }
    *next = s->n;
    return s->n;
}

FILTER(f_indent)
{
    UNUSED;
    const sl_tpl_str *s = text_of(r, self), *by;
    sl_tpl_text t = {0}, spaces = {0};
    bool first = bool_arg(r, arg[1]), blank = bool_arg(r, arg[2]), more = true;
    if (arg[0].kind == SL_TPL_STR)
        by = arg[0].s;
    else {
        for (int64_t i = int_arg(r, arg[0], 4); i > 0; i--)
            sl_tpl_add_c(r, &spaces, " ");
        by = sl_tpl_text_str(r, &spaces);
    }
    if (first) sl_tpl_add_str(r, &t, by);
    for (size_t i = 0, next; more; i = next) {
        size_t end = line_end(s, i, &next);
        if (i) sl_tpl_add_c(r, &t, "\n");
        if (i && (end > i || blank)) sl_tpl_add_str(r, &t, by);
        sl_tpl_add_slice(r, &t, s, i, end);
        more = next > end; /* a text that ends with a newline has an empty line more */
    }
    return sl_tpl_text_done(r, &t);
}

FILTER(f_center)
{
    UNUSED;
    const sl_tpl_str *s = text_of(r, self);
    int64_t width = int_arg(r, arg[0], 80), n = (int64_t)sl_tpl_str_chars(s);
    int64_t pad = width > n ? width - n : 0, left = pad / 2 + (pad & width & 1);
    sl_tpl_text t = {0};
    for (int64_t i = 0; i < pad; i++) {
        if (i == left) sl_tpl_add_str(r, &t, s);
        sl_tpl_add_c(r, &t, " ");
    }
    if (left == pad) sl_tpl_add_str(r, &t, s);
    return sl_tpl_text_done(r, &t);
}

/* length, killwords, end, leeway */
FILTER(f_truncate)
{
    UNUSED;
    const sl_tpl_str *s = text_of(r, self);
    const sl_tpl_str *end = sl_tpl_given(arg[2]) ? text_of(r, arg[2]) : text_of(r, sl_tpl_text_value(r, "..."));
    int64_t length = int_arg(r, arg[0], 255), n_end = (int64_t)sl_tpl_str_chars(end);
    int64_t leeway = arg[3].kind == SL_TPL_NONE ? 5 : int_arg(r, arg[3], 5);
    if (length < n_end || leeway < 0) sl_tpl_type_error(r, "expected length >= %lld", (long long)n_end);
    if ((int64_t)sl_tpl_str_chars(s) <= length + leeway) return sl_tpl_of_str(s);
    size_t cut = sl_tpl_str_at(s, (size_t)(length - n_end));
    if (!bool_arg(r, arg[1])) {
        const char *space = memrchr(s->p, ' ', cut);
        if (space) cut = (size_t)(space - s->p);
    }
    return sl_tpl_of_str(sl_tpl_str_concat(r, sl_tpl_str_slice(r, s, 0, cut), end));
}

FILTER(f_wordcount)
{
    UNUSED;
    const sl_tpl_str *s = text_of(r, self);
    int64_t n = 0;
    bool in_word = false;
    for (size_t i = 0; i < s->n; i++) {
        bool word = isalnum((unsigned char)s->p[i]) || s->p[i] == '_' || (s->p[i] & 0x80);
        n += word && !in_word;
        in_word = word;
    }
    return sl_tpl_int(n);
}

FILTER(f_urlencode)
{
    UNUSED;
    const sl_tpl_str *s = text_of(r, self);
    sl_tpl_text t = {0};
    char buf[4];
    if (self.kind == SL_TPL_DICT || self.kind == SL_TPL_LIST)
        sl_tpl_type_error(r, "urlencode of a '%s' is not supported", sl_tpl_type_name(self));
    for (size_t i = 0; i < s->n; i++) {
        char c = s->p[i];
        snprintf(buf, sizeof buf, "%%%02X", (uint8_t)c);
        bool plain = isalnum((unsigned char)c) || (c && strchr("_.-~/", c));
        sl_tpl_add(r, &t, plain ? &c : buf, plain ? 1 : 3, s->mask ? s->mask[i] : s->user);
    }
    return sl_tpl_text_done(r, &t);
}

FILTER(f_format)
{
    UNUSED;
    sl_tpl_list *l = sl_tpl_list_new(r, raw->n);
    for (size_t i = 0; i < raw->n; i++)
        sl_tpl_list_add(r, l, raw->at[i]);
    if (raw->n && raw->n_named)
        sl_tpl_type_error(r, "can't handle positional and keyword arguments at the same time");
    if (!raw->n_named)
        return sl_tpl_percent(r, text_of(r, self), (sl_tpl_value){.kind = SL_TPL_TUPLE, .l = l});
    sl_tpl_dict *d = sl_tpl_dict_new(r);
    for (size_t i = 0; i < raw->n_named; i++)
        sl_tpl_dict_set(r, d, sl_tpl_of_str(raw->names[i]), raw->named[i]);
    return sl_tpl_percent(r, text_of(r, self), (sl_tpl_value){.kind = SL_TPL_DICT, .d = d});
}

/* ---- numbers ---- */

/* int(text, base); false: it is no whole number. */
static bool parse_int(sl_tpl_run *r, const sl_tpl_str *s, int base, int64_t *out)
{
    s = sl_tpl_str_strip(r, s, NULL, SL_TPL_LEFT | SL_TPL_RIGHT);
    char buf[80], *end;
    size_t n = 0;
    for (size_t i = 0; i < s->n && n < sizeof buf - 1; i++) {
        bool inside = n && i + 1 < s->n && isalnum((unsigned char)s->p[i + 1]) && isalnum((unsigned char)buf[n - 1]);
        if (s->p[i] == '_' && inside) continue;
        buf[n++] = s->p[i];
    }
    buf[n] = 0;
    if (!n || n == sizeof buf - 1 || base < 2 || base > 36 || isspace((unsigned char)buf[0])) return false;
    size_t sign = buf[0] == '-' || buf[0] == '+';
    bool prefix = buf[sign] == '0' && ((base == 16 && (buf[sign + 1] | 32) == 'x') ||
                                       (base == 8 && (buf[sign + 1] | 32) == 'o') ||
                                       (base == 2 && (buf[sign + 1] | 32) == 'b'));
    if (prefix && base != 16) memmove(buf + sign, buf + sign + 2, n - sign - 1);
    if (!isalnum((unsigned char)buf[sign])) return false;
    errno = 0;
    *out = strtoll(buf, &end, base);
    if (errno == ERANGE) sl_tpl_fail(&r->heap, SL_ERR_LIMIT, "a whole number beyond 64 bits");
    return !*end;
}

static bool parse_float(sl_tpl_run *r, const sl_tpl_str *s, double *out)
{
    s = sl_tpl_str_strip(r, s, NULL, SL_TPL_LEFT | SL_TPL_RIGHT);
    char buf[400], *end;
    if (!s->n || s->n >= sizeof buf) return false;
    for (size_t i = 0; i < s->n; i++)
        if ((s->p[i] | 32) == 'x' || s->p[i] == '(' || !s->p[i]) return false;
    memcpy(buf, s->p, s->n);
    buf[s->n] = 0;
    *out = strtod(buf, &end);
    return !*end;
}

static bool float_to_int(double f, int64_t *out)
{
    if (!(f > -0x1p63 && f < 0x1p63)) return false;
    *out = (int64_t)f;
    return true;
}

FILTER(f_int)
{
    UNUSED;
    int64_t i;
    double f;
    sl_tpl_value otherwise = sl_tpl_given(arg[0]) ? arg[0] : sl_tpl_int(0);
    if (self.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, self);
    if (sl_tpl_is_integral(self)) return sl_tpl_int(sl_tpl_integral(self));
    if (self.kind == SL_TPL_FLOAT) return float_to_int(self.f, &i) ? sl_tpl_int(i) : otherwise;
    if (self.kind != SL_TPL_STR) return otherwise;
    if (parse_int(r, self.s, (int)int_arg(r, arg[1], 10), &i)) return sl_tpl_int(i);
    return parse_float(r, self.s, &f) && float_to_int(f, &i) ? sl_tpl_int(i) : otherwise;
}

FILTER(f_float)
{
    UNUSED;
    double f;
    if (self.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, self);
    if (sl_tpl_is_number(self)) return sl_tpl_float(sl_tpl_number(self));
    if (self.kind == SL_TPL_STR && parse_float(r, self.s, &f)) return sl_tpl_float(f);
    return sl_tpl_given(arg[0]) ? arg[0] : sl_tpl_float(0);
}

FILTER(f_abs)
{
    UNUSED;
    if (self.kind == SL_TPL_FLOAT) return sl_tpl_float(fabs(self.f));
    if (!sl_tpl_is_integral(self)) sl_tpl_type_error(r, "bad operand type for abs(): '%s'", sl_tpl_type_name(self));
    return sl_tpl_negate(r, self, sl_tpl_integral(self) < 0);
}

FILTER(f_round)
{
    UNUSED;
    char buf[400];
    int64_t digits = int_arg(r, arg[0], 0);
    if (!sl_tpl_is_number(self))
        sl_tpl_type_error(r, "type %s doesn't define __round__ method", sl_tpl_type_name(self));
    double f = sl_tpl_number(self);
    bool common = !sl_tpl_given(arg[1]) || (arg[1].kind == SL_TPL_STR && sl_tpl_str_is(arg[1].s, "common"));
    bool up = arg[1].kind == SL_TPL_STR && sl_tpl_str_is(arg[1].s, "ceil");
    if (digits < 0 || digits > 50)
        sl_tpl_type_error(r, "round: a precision of %lld is not supported", (long long)digits);
    if (!common && !up && !(arg[1].kind == SL_TPL_STR && sl_tpl_str_is(arg[1].s, "floor")))
        sl_tpl_type_error(r, "method must be common, ceil or floor");
    if (!common) {
        double scale = pow(10, (double)digits);
        return sl_tpl_float((up ? ceil : floor)(f * scale) / scale);
    }
    if (sl_tpl_is_integral(self)) return self;
    snprintf(buf, sizeof buf, "%.*f", (int)digits, f);
    return sl_tpl_float(strtod(buf, NULL));
}

/* ---- anything ---- */

FILTER(f_default)
{
    UNUSED;
    bool falsy = bool_arg(r, arg[1]) && !sl_tpl_truth(r, self);
    if (self.kind != SL_TPL_UNDEFINED && !falsy) return self;
    return sl_tpl_given(arg[0]) ? arg[0] : sl_tpl_text_value(r, "");
}

FILTER(f_attr)
{
    UNUSED;
    if (arg[0].kind != SL_TPL_STR) sl_tpl_type_error(r, "attribute name must be string");
    if (self.kind == SL_TPL_DICT) { /* methods, but never keys */
        sl_tpl_value v = sl_tpl_method(r, self, arg[0].s);
        return sl_tpl_given(v) ? v : sl_tpl_undefined_of(r, self, arg[0]);
    }
    return sl_tpl_getattr(r, self, arg[0].s);
}

static const sl_tpl_str *word(sl_tpl_run *r, const char *p)
{
    return sl_tpl_text_value(r, p).s;
}

/* ensure_ascii, indent, separators, sort_keys */
FILTER(f_tojson)
{
    UNUSED;
    sl_tpl_json_style style = {.ascii = bool_arg(r, arg[0]), .sort_keys = bool_arg(r, arg[3])};
    style.has_indent = sl_tpl_given(arg[1]) && arg[1].kind != SL_TPL_NONE;
    style.item = word(r, style.has_indent ? "," : ", ");
    style.key = word(r, ": ");
    if (style.has_indent && arg[1].kind == SL_TPL_STR)
        style.indent = arg[1].s;
    else if (style.has_indent) {
        sl_tpl_text t = {0};
        for (int64_t i = int_arg(r, arg[1], 0); i > 0; i--)
            sl_tpl_add_c(r, &t, " ");
        style.indent = sl_tpl_text_str(r, &t);
    }
    if (sl_tpl_given(arg[2]) && arg[2].kind != SL_TPL_NONE) {
        const sl_tpl_list *l = sl_tpl_to_list(r, arg[2]);
        if (l->n != 2 || l->at[0].kind != SL_TPL_STR || l->at[1].kind != SL_TPL_STR)
            sl_tpl_type_error(r, "tojson: separators must be two strings");
        style.item = l->at[0].s;
        style.key = l->at[1].s;
    }
    return sl_tpl_to_json(r, self, &style);
}

/* Not Jinja's, but several models' templates call it, as json.loads. */
FILTER(f_from_json)
{
    UNUSED;
    if (self.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, self);
    if (self.kind != SL_TPL_STR)
        sl_tpl_type_error(r, "the JSON object must be str, bytes or bytearray, not %s", sl_tpl_type_name(self));
    return sl_tpl_from_json(r, "the text given to from_json", self.s->p, self.s->n, false, SL_ERR_FORMAT);
}

static const sl_tpl_builtin filters[] = {
    {"abs", f_abs, "", 0},
    {"attr", f_attr, "name", 1},
    {"capitalize", f_capitalize, "", 0},
    {"center", f_center, "width", 0},
    {"d", f_default, "default_value boolean", 0},
    {"default", f_default, "default_value boolean", 0},
    {"e", f_escape, "", 0},
    {"escape", f_escape, "", 0},
    {"float", f_float, "default", 0},
    {"format", f_format, NULL, 0},
    {"from_json", f_from_json, "", 0},
    {"indent", f_indent, "width first blank", 0},
    {"int", f_int, "default base", 0},
    {"lower", f_lower, "", 0},
    {"replace", f_replace, "old new count", 2},
    {"round", f_round, "precision method", 0},
    {"safe", f_safe, "", 0},
    {"string", f_string, "", 0},
    {"title", f_title, "", 0},
    {"tojson", f_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", f_trim, "chars", 0},
    {"truncate", f_truncate, "length killwords end leeway", 0},
    {"upper", f_upper, "", 0},
    {"urlencode", f_urlencode, "", 0},
    {"wordcount", f_wordcount, "", 0},
};

const sl_tpl_builtin *sl_tpl_builtin_in(const sl_tpl_builtin *table, size_t n, const sl_tpl_str *name)
{
    for (size_t i = 0; i < n; i++)
        if (sl_tpl_str_is(name, table[i].name)) return &table[i];
    return NULL;
}

const sl_tpl_builtin *sl_tpl_filter_find(const sl_tpl_str *name)
{
    const sl_tpl_builtin *b = sl_tpl_builtin_in(filters, sizeof filters / sizeof *filters, name);
    return b ? b : sl_tpl_builtin_in(sl_tpl_seq_filters, sl_tpl_n_seq_filters, name);
}
