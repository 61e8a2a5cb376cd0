/* The methods of strings. */
#include "text/template/template_int.h"
#include "text/text_int.h"

#include <utf8proc.h>

#define METHOD(name)                                                                                                   \
    static sl_tpl_value name(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw)
#define UNUSED (void)r, (void)self, (void)arg, (void)raw

/* ---- arguments ---- */

static const sl_tpl_str *str_arg(sl_tpl_run *r, sl_tpl_value v, const char *method)
{
    if (v.kind == SL_TPL_UNDEFINED) sl_tpl_use_undefined(r, v);
    if (v.kind != SL_TPL_STR) sl_tpl_type_error(r, "%s: a string is needed, not %s", method, sl_tpl_type_name(v));
    return v.s;
}

static bool given(sl_tpl_value v)
{
    return sl_tpl_given(v) && v.kind != SL_TPL_NONE;
}

static int64_t int_arg(sl_tpl_run *r, sl_tpl_value v, int64_t otherwise)
{
    if (!given(v)) return otherwise;
    if (!sl_tpl_is_integral(v))
        sl_tpl_type_error(r, "'%s' object cannot be interpreted as an integer", sl_tpl_type_name(v));
    return sl_tpl_integral(v);
}

/* Part of self, with its marks. */
static sl_tpl_value part(sl_tpl_run *r, sl_tpl_value self, size_t from, size_t to)
{
    return sl_tpl_of_str(sl_tpl_str_slice(r, self.s, from, to));
}

/* ---- case and blanks ---- */

METHOD(m_upper)
{
    UNUSED;
    return sl_tpl_of_str(sl_tpl_str_case(r, self.s, SL_TPL_UPPER));
}

METHOD(m_lower)
{
    UNUSED;
    return sl_tpl_of_str(sl_tpl_str_case(r, self.s, SL_TPL_LOWER));
}

METHOD(m_title)
{
    UNUSED;
    return sl_tpl_of_str(sl_tpl_str_case(r, self.s, SL_TPL_TITLE));
}

METHOD(m_capitalize)
{
    UNUSED;
    return sl_tpl_of_str(sl_tpl_str_case(r, self.s, SL_TPL_CAPITAL));
}

METHOD(m_swapcase)
{
    UNUSED;
    return sl_tpl_of_str(sl_tpl_str_case(r, self.s, SL_TPL_SWAP));
}

static sl_tpl_value strip(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, unsigned sides)
{
    const sl_tpl_str *chars = given(arg[0]) ? str_arg(r, arg[0], "strip") : NULL;
    return sl_tpl_of_str(sl_tpl_str_strip(r, self.s, chars, sides));
}

METHOD(m_strip)
{
    UNUSED;
    return strip(r, self, arg, SL_TPL_LEFT | SL_TPL_RIGHT);
}

METHOD(m_lstrip)
{
    UNUSED;
    return strip(r, self, arg, SL_TPL_LEFT);
}

METHOD(m_rstrip)
{
    UNUSED;
    return strip(r, self, arg, SL_TPL_RIGHT);
}

/* ---- splitting ---- */

/* At blanks: runs of them count once, none at the ends. */
static void split_blanks(sl_tpl_run *r, sl_tpl_value self, int64_t most, sl_tpl_list *out)
{
    const sl_tpl_str *s = self.s;
    size_t i = 0, from = SIZE_MAX, len;
    uint32_t cp;
    for (; i < s->n && (len = sl_utf8_decode(s->p + i, s->n - i, &cp)); i += len) {
        bool blank = sl_tpl_is_space(cp);
        sl_tpl_tick(r, 1);
        if (!blank && from == SIZE_MAX) {
            from = i;
            if (most == 0) break;
        } else if (blank && from != SIZE_MAX) {
            sl_tpl_list_add(r, out, part(r, self, from, i));
            from = SIZE_MAX;
            if (most > 0) most--;
        }
    }
    if (from == SIZE_MAX) return;
    sl_tpl_list_add(r, out, part(r, self, from, s->n)); /* after the last split allowed: the whole rest */
}

static const sl_tpl_str *separator(sl_tpl_run *r, sl_tpl_value v)
{
    const sl_tpl_str *s = str_arg(r, v, "split");
    if (!s->n) sl_tpl_type_error(r, "empty separator");
    return s;
}

METHOD(m_split)
{
    UNUSED;
    sl_tpl_list *out = sl_tpl_list_new(r, 0);
    int64_t most = int_arg(r, arg[1], -1);
    size_t from = 0, at;
    if (!given(arg[0])) {
        split_blanks(r, self, most, out);
        return sl_tpl_list_value(out);
    }
    const sl_tpl_str *by = separator(r, arg[0]);
    for (; most != 0 && (at = sl_tpl_str_find(self.s, by, from)) != SIZE_MAX; most--) {
        sl_tpl_tick(r, 1);
        sl_tpl_list_add(r, out, part(r, self, from, at));
        from = at + by->n;
    }
    sl_tpl_list_add(r, out, part(r, self, from, self.s->n));
    return sl_tpl_list_value(out);
}

/* The last place of needle in s [from, to); SIZE_MAX: none. */
static size_t find_last(sl_tpl_run *r, const sl_tpl_str *s, const sl_tpl_str *needle, size_t from, size_t to)
{
    if (to < from || needle->n > to - from) return SIZE_MAX;
    for (size_t i = to - needle->n + 1; i-- > from;) {
        sl_tpl_tick(r, (i & 63) == 0);
        if (memcmp(s->p + i, needle->p, needle->n) == 0) return i;
    }
    return SIZE_MAX;
}

static void reverse(sl_tpl_list *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        sl_tpl_value v = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = v;
    }
}

METHOD(m_rsplit)
{
    UNUSED;
    sl_tpl_list *out = sl_tpl_list_new(r, 0);
    int64_t most = int_arg(r, arg[1], -1);
    size_t to = self.s->n, at;
    if (!given(arg[0])) {
        if (most >= 0) sl_tpl_type_error(r, "rsplit at blanks with a limit is not supported");
        split_blanks(r, self, -1, out);
        return sl_tpl_list_value(out);
    }
    const sl_tpl_str *by = separator(r, arg[0]);
    for (; most != 0 && (at = find_last(r, self.s, by, 0, to)) != SIZE_MAX; most--) {
        sl_tpl_list_add(r, out, part(r, self, at + by->n, to));
        to = at;
    }
    sl_tpl_list_add(r, out, part(r, self, 0, to));
    reverse(out);
    return sl_tpl_list_value(out);
}

METHOD(m_splitlines)
{
    UNUSED;
    sl_tpl_list *out = sl_tpl_list_new(r, 0);
    const sl_tpl_str *s = self.s;
    bool keep = sl_tpl_given(arg[0]) && sl_tpl_truth(r, arg[0]);
    size_t from = 0, len;
    uint32_t cp;
    for (size_t i = 0; i < s->n && (len = sl_utf8_decode(s->p + i, s->n - i, &cp)); i += len) {
        sl_tpl_tick(r, 1);
        if (!sl_tpl_ends_line(cp)) continue;
        if (cp == '\r' && i + 1 < s->n && s->p[i + 1] == '\n') len = 2;
        sl_tpl_list_add(r, out, part(r, self, from, keep ? i + len : i));
        from = i + len;
    }
    if (from < s->n) sl_tpl_list_add(r, out, part(r, self, from, s->n));
    return sl_tpl_list_value(out);
}

static sl_tpl_value three(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b, sl_tpl_value c)
{
    sl_tpl_value v = sl_tpl_tuple2(r, a, b);
    sl_tpl_list_add(r, v.l, c);
    return v;
}

METHOD(m_partition)
{
    UNUSED;
    const sl_tpl_str *by = separator(r, arg[0]);
    size_t at = sl_tpl_str_find(self.s, by, 0);
    sl_tpl_value none = sl_tpl_text_value(r, "");
    if (at == SIZE_MAX) return three(r, self, none, none);
    return three(r, part(r, self, 0, at), part(r, self, at, at + by->n), part(r, self, at + by->n, self.s->n));
}

METHOD(m_rpartition)
{
    UNUSED;
    const sl_tpl_str *by = separator(r, arg[0]);
    size_t at = find_last(r, self.s, by, 0, self.s->n);
    sl_tpl_value none = sl_tpl_text_value(r, "");
    if (at == SIZE_MAX) return three(r, none, none, self);
    return three(r, part(r, self, 0, at), part(r, self, at, at + by->n), part(r, self, at + by->n, self.s->n));
}

/* ---- looking ---- */

/* The bytes of self [from, to) that the optional bounds name; false: the beginning lies behind the end. */
static bool window(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *bounds, size_t *from, size_t *to)
{
    int64_t n = (int64_t)sl_tpl_str_chars(self.s), lo = int_arg(r, bounds[0], 0), hi = int_arg(r, bounds[1], n);
    bool inside = lo <= n;
    if (lo < 0) lo = lo + n < 0 ? 0 : lo + n;
    if (hi < 0) hi = hi + n < 0 ? 0 : hi + n;
    *from = sl_tpl_str_at(self.s, (size_t)lo);
    *to = sl_tpl_str_at(self.s, (size_t)(hi > n ? n : hi));
    return inside && *from <= *to;
}

static bool matches(sl_tpl_run *r, const sl_tpl_str *s, sl_tpl_value what, size_t from, size_t to, bool at_end)
{
    const sl_tpl_str *x = str_arg(r, what, at_end ? "endswith" : "startswith");
    return x->n <= to - from && memcmp(s->p + (at_end ? to - x->n : from), x->p, x->n) == 0;
}

/* One string or a tuple of them. */
static sl_tpl_value touches(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, bool at_end)
{
    size_t from, to;
    bool found = false;
    if (!window(r, self, arg + 1, &from, &to)) return sl_tpl_bool(false);
    if (arg[0].kind != SL_TPL_TUPLE) return sl_tpl_bool(matches(r, self.s, arg[0], from, to, at_end));
    for (size_t i = 0; i < arg[0].l->n; i++)
        found |= matches(r, self.s, arg[0].l->at[i], from, to, at_end);
    return sl_tpl_bool(found);
}

METHOD(m_startswith)
{
    UNUSED;
    return touches(r, self, arg, false);
}

METHOD(m_endswith)
{
    UNUSED;
    return touches(r, self, arg, true);
}

static int64_t chars_before(const sl_tpl_str *s, size_t at)
{
    sl_tpl_str head = {.p = s->p, .n = at};
    return (int64_t)sl_tpl_str_chars(&head);
}

static int64_t place(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, bool last)
{
    const sl_tpl_str *x = str_arg(r, arg[0], "find");
    size_t from, to, at;
    if (!window(r, self, arg + 1, &from, &to)) return -1;
    sl_tpl_tick(r, (to - from) >> 8);
    at = last ? find_last(r, self.s, x, from, to) : sl_tpl_str_find(self.s, x, from);
    return at == SIZE_MAX || at + x->n > to ? -1 : chars_before(self.s, at);
}

METHOD(m_find)
{
    UNUSED;
    return sl_tpl_int(place(r, self, arg, false));
}

METHOD(m_rfind)
{
    UNUSED;
    return sl_tpl_int(place(r, self, arg, true));
}

METHOD(m_index)
{
    UNUSED;
    int64_t i = place(r, self, arg, false);
    if (i < 0) sl_tpl_type_error(r, "substring not found");
    return sl_tpl_int(i);
}

METHOD(m_rindex)
{
    UNUSED;
    int64_t i = place(r, self, arg, true);
    if (i < 0) sl_tpl_type_error(r, "substring not found");
    return sl_tpl_int(i);
}

METHOD(m_count)
{
    UNUSED;
    const sl_tpl_str *x = str_arg(r, arg[0], "count");
    size_t from, to, at;
    int64_t n = 0;
    if (!window(r, self, arg + 1, &from, &to)) return sl_tpl_int(0);
    const sl_tpl_str *s = sl_tpl_str_slice(r, self.s, from, to);
    if (!x->n) return sl_tpl_int((int64_t)sl_tpl_str_chars(s) + 1);
    for (from = 0; (at = sl_tpl_str_find(s, x, from)) != SIZE_MAX; from = at + x->n) {
        sl_tpl_tick(r, 1);
        n++;
    }
    return sl_tpl_int(n);
}

static bool is_alpha(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

static bool is_alnum(uint32_t cp)
{
    return is_alpha(cp) || sl_char_is_number(cp);
}

static bool all_chars(const sl_tpl_str *s, bool (*fits)(uint32_t cp))
{
    uint32_t cp;
    for (size_t i = 0, len; i < s->n && (len = sl_utf8_decode(s->p + i, s->n - i, &cp)); i += len)
        if (!fits(cp)) return false;
    return s->n != 0;
}

METHOD(m_isdigit)
{
    UNUSED;
    return sl_tpl_bool(all_chars(self.s, sl_char_is_digit));
}

METHOD(m_isnumeric)
{
    UNUSED;
    return sl_tpl_bool(all_chars(self.s, sl_char_is_number));
}

METHOD(m_isalpha)
{
    UNUSED;
    return sl_tpl_bool(all_chars(self.s, is_alpha));
}

METHOD(m_isalnum)
{
    UNUSED;
    return sl_tpl_bool(all_chars(self.s, is_alnum));
}

METHOD(m_isspace)
{
    UNUSED;
    return sl_tpl_bool(all_chars(self.s, sl_tpl_is_space));
}

static sl_tpl_value only_case(sl_tpl_run *r, const sl_tpl_str *s, sl_tpl_case how, sl_tpl_case other)
{
    return sl_tpl_bool(sl_tpl_str_same(s, sl_tpl_str_case(r, s, how)) &&
                       !sl_tpl_str_same(s, sl_tpl_str_case(r, s, other)));
}

METHOD(m_isupper)
{
    UNUSED;
    return only_case(r, self.s, SL_TPL_UPPER, SL_TPL_LOWER);
}

METHOD(m_islower)
{
    UNUSED;
    return only_case(r, self.s, SL_TPL_LOWER, SL_TPL_UPPER);
}

/* ---- making ---- */

METHOD(m_replace)
{
    UNUSED;
    const sl_tpl_str *from = str_arg(r, arg[0], "replace"), *to = str_arg(r, arg[1], "replace");
    if (self.s->safe && !to->safe) to = sl_tpl_str_escape(r, to);
    return sl_tpl_of_str(sl_tpl_str_mark_safe(
        r, sl_tpl_str_replace(r, self.s, from, to, int_arg(r, arg[2], -1)), self.s->safe));
}

METHOD(m_join)
{
    UNUSED;
    sl_tpl_text t = {0};
    sl_tpl_iter it = sl_tpl_iterate(r, arg[0]);
    size_t i = 0;
    for (sl_tpl_value v; sl_tpl_next(r, &it, &v); i++) {
        if (v.kind != SL_TPL_STR)
            sl_tpl_type_error(r, "sequence item %zu: expected str instance, %s found", i, sl_tpl_type_name(v));
        if (i) sl_tpl_add_str(r, &t, self.s);
        sl_tpl_add_str(r, &t, v.s);
    }
    return sl_tpl_text_done(r, &t);
}

METHOD(m_format)
{
    UNUSED;
    return sl_tpl_brace_format(r, self.s, raw);
}

METHOD(m_removeprefix)
{
    UNUSED;
    const sl_tpl_str *x = str_arg(r, arg[0], "removeprefix");
    bool has = matches(r, self.s, arg[0], 0, self.s->n, false);
    return part(r, self, has ? x->n : 0, self.s->n);
}

METHOD(m_removesuffix)
{
    UNUSED;
    const sl_tpl_str *x = str_arg(r, arg[0], "removesuffix");
    bool has = matches(r, self.s, arg[0], 0, self.s->n, true);
    return part(r, self, 0, self.s->n - (has ? x->n : 0));
}

/* self with n_left and n_right fill characters around. */
static sl_tpl_value fill(sl_tpl_run *r, sl_tpl_value self, int64_t n_left, int64_t n_right, sl_tpl_value with)
{
    sl_tpl_text t = {0};
    const sl_tpl_str *c = given(with) ? str_arg(r, with, "just") : sl_tpl_text_value(r, " ").s;
    if (sl_tpl_str_chars(c) != 1) sl_tpl_type_error(r, "The fill character must be exactly one character long");
    for (; n_left > 0; n_left--)
        sl_tpl_add_str(r, &t, c);
    sl_tpl_add_str(r, &t, self.s);
    for (; n_right > 0; n_right--)
        sl_tpl_add_str(r, &t, c);
    return sl_tpl_text_done(r, &t);
}

static int64_t missing(sl_tpl_run *r, sl_tpl_value self, sl_tpl_value width)
{
    int64_t n = int_arg(r, width, 0) - (int64_t)sl_tpl_str_chars(self.s);
    return n < 0 ? 0 : n;
}

METHOD(m_ljust)
{
    UNUSED;
    return fill(r, self, 0, missing(r, self, arg[0]), arg[1]);
}

METHOD(m_rjust)
{
    UNUSED;
    return fill(r, self, missing(r, self, arg[0]), 0, arg[1]);
}

METHOD(m_center)
{
    UNUSED;
    int64_t n = missing(r, self, arg[0]), left = n / 2 + (n & int_arg(r, arg[0], 0) & 1);
    return fill(r, self, left, n - left, arg[1]);
}

METHOD(m_zfill)
{
    UNUSED;
    int64_t n = missing(r, self, arg[0]);
    size_t sign = self.s->n && (self.s->p[0] == '-' || self.s->p[0] == '+');
    sl_tpl_text t = {0};
    sl_tpl_add_slice(r, &t, self.s, 0, sign);
    for (; n > 0; n--)
        sl_tpl_add_c(r, &t, "0");
    sl_tpl_add_slice(r, &t, self.s, sign, self.s->n);
    return sl_tpl_text_done(r, &t);
}

const sl_tpl_builtin sl_tpl_str_methods[] = {
    {"capitalize", m_capitalize, "", 0},
    {"center", m_center, "width fillchar", 1},
    {"count", m_count, "sub start end", 1},
    {"endswith", m_endswith, "suffix start end", 1},
    {"find", m_find, "sub start end", 1},
    {"format", m_format, NULL, 0},
    {"index", m_index, "sub start end", 1},
    {"isalnum", m_isalnum, "", 0},
    {"isalpha", m_isalpha, "", 0},
    {"isdecimal", m_isdigit, "", 0},
    {"isdigit", m_isdigit, "", 0},
    {"islower", m_islower, "", 0},
    {"isnumeric", m_isnumeric, "", 0},
    {"isspace", m_isspace, "", 0},
    {"isupper", m_isupper, "", 0},
    {"join", m_join, "iterable", 1},
    {"ljust", m_ljust, "width fillchar", 1},
    {"lower", m_lower, "", 0},
    {"lstrip", m_lstrip, "chars", 0},
    {"partition", m_partition, "sep", 1},
    {"removeprefix", m_removeprefix, "prefix", 1},
    {"removesuffix", m_removesuffix, "suffix", 1},
    {"replace", m_replace, "old new count", 2},
    {"rfind", m_rfind, "sub start end", 1},
    {"rindex", m_rindex, "sub start end", 1},
    {"rjust", m_rjust, "width fillchar", 1},
    {"rpartition", m_rpartition, "sep", 1},
    {"rsplit", m_rsplit, "sep maxsplit", 0},
    {"rstrip", m_rstrip, "chars", 0},
    {"split", m_split, "sep maxsplit", 0},
    {"splitlines", m_splitlines, "keepends", 0},
    {"startswith", m_startswith, "prefix start end", 1},
    {"strip", m_strip, "chars", 0},
    {"swapcase", m_swapcase, "", 0},
    {"title", m_title, "", 0},
    {"upper", m_upper, "", 0},
    {"zfill", m_zfill, "width", 1},
};
const size_t sl_tpl_n_str_methods = sizeof sl_tpl_str_methods / sizeof *sl_tpl_str_methods;
