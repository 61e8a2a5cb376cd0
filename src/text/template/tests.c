/* What can follow "is". */
#include "text/template/template_int.h"


#define TEST(name)                                                                                                     \
    static sl_tpl_value name(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw)
#define IS(name, expression)                                                                                           \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        (void)r, (void)self, (void)arg, (void)raw;                                                                     \
        return sl_tpl_bool(expression);                                                                                \
    }

/* Has it len() and []? */
static bool is_sequence(sl_tpl_value v)
{
    return v.kind == SL_TPL_STR || v.kind == SL_TPL_LIST || v.kind == SL_TPL_TUPLE || v.kind == SL_TPL_DICT ||
           v.kind == SL_TPL_RANGE || v.kind == SL_TPL_UNDEFINED;
}

static bool is_callable(sl_tpl_value v)
{
    return v.kind == SL_TPL_MACRO || v.kind == SL_TPL_FUNCTION || v.kind == SL_TPL_LOOP || v.kind == SL_TPL_JOINER ||
           v.kind == SL_TPL_UNDEFINED;
}

static bool is_same(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b)
{
    if (a.kind != b.kind) return false;
    if (a.kind == SL_TPL_LIST || a.kind == SL_TPL_DICT) return a.l == b.l;
    return sl_tpl_equal(r, a, b);
}

/* Has it letters with case, and all of them this one? */
static bool all_case(sl_tpl_run *r, sl_tpl_value v, sl_tpl_case how)
{
    const sl_tpl_str *s = sl_tpl_to_str(r, v);
    return sl_tpl_str_same(s, sl_tpl_str_case(r, s, how)) &&
           !sl_tpl_str_same(s, sl_tpl_str_case(r, s, how == SL_TPL_UPPER ? SL_TPL_LOWER : SL_TPL_UPPER));
}

static int64_t remainder_of(sl_tpl_run *r, sl_tpl_value v, sl_tpl_value by)
{
    sl_tpl_value m = sl_tpl_arith(r, SL_TPL_MOD, v, by);
    return m.kind == SL_TPL_FLOAT ? (m.f == 1 ? 1 : m.f == 0 ? 0 : 2) : m.kind == SL_TPL_INT ? m.i : 2;
}

IS(t_boolean, self.kind == SL_TPL_BOOL)
IS(t_true, self.kind == SL_TPL_BOOL && self.b)
IS(t_false, self.kind == SL_TPL_BOOL && !self.b)
IS(t_integer, self.kind == SL_TPL_INT)
IS(t_float, self.kind == SL_TPL_FLOAT)
IS(t_number, sl_tpl_is_number(self))
IS(t_string, self.kind == SL_TPL_STR)
IS(t_mapping, self.kind == SL_TPL_DICT)
IS(t_sequence, is_sequence(self))
IS(t_iterable, sl_tpl_iterable(self))
IS(t_callable, is_callable(self))
IS(t_none, self.kind == SL_TPL_NONE)
IS(t_defined, self.kind != SL_TPL_UNDEFINED)
IS(t_undefined, self.kind == SL_TPL_UNDEFINED)
IS(t_odd, remainder_of(r, self, sl_tpl_int(2)) == 1)
IS(t_even, remainder_of(r, self, sl_tpl_int(2)) == 0)
IS(t_divisible, remainder_of(r, self, arg[0]) == 0)
IS(t_lower, all_case(r, self, SL_TPL_LOWER))
IS(t_upper, all_case(r, self, SL_TPL_UPPER))
IS(t_escaped, self.kind == SL_TPL_STR && self.s->safe)
IS(t_same, is_same(r, self, arg[0]))
IS(t_eq, sl_tpl_compare(r, SL_TPL_EQ, self, arg[0]))
IS(t_ne, sl_tpl_compare(r, SL_TPL_NE, self, arg[0]))
IS(t_lt, sl_tpl_compare(r, SL_TPL_LT, self, arg[0]))
IS(t_le, sl_tpl_compare(r, SL_TPL_LE, self, arg[0]))
IS(t_gt, sl_tpl_compare(r, SL_TPL_GT, self, arg[0]))
IS(t_ge, sl_tpl_compare(r, SL_TPL_GE, self, arg[0]))
IS(t_in, sl_tpl_contains(r, arg[0], self))
IS(t_filter, self.kind == SL_TPL_STR && sl_tpl_filter_find(self.s))
IS(t_test, self.kind == SL_TPL_STR && sl_tpl_test_find(self.s))

static const sl_tpl_builtin tests[] = {
    {"boolean", t_boolean, "", 0},      {"true", t_true, "", 0},           {"false", t_false, "", 0},
    {"integer", t_integer, "", 0},      {"float", t_float, "", 0},         {"number", t_number, "", 0},
    {"string", t_string, "", 0},        {"mapping", t_mapping, "", 0},     {"sequence", t_sequence, "", 0},
    {"iterable", t_iterable, "", 0},    {"callable", t_callable, "", 0},   {"none", t_none, "", 0},
    {"defined", t_defined, "", 0},      {"undefined", t_undefined, "", 0}, {"odd", t_odd, "", 0},
    {"even", t_even, "", 0},            {"divisibleby", t_divisible, "num", 1},
    {"lower", t_lower, "", 0},          {"upper", t_upper, "", 0},         {"escaped", t_escaped, "", 0},
    {"sameas", t_same, "other", 1},     {"eq", t_eq, "other", 1},          {"equalto", t_eq, "other", 1},
    {"==", t_eq, "other", 1},           {"ne", t_ne, "other", 1},          {"!=", t_ne, "other", 1},
    {"lt", t_lt, "other", 1},           {"lessthan", t_lt, "other", 1},    {"<", t_lt, "other", 1},
    {"le", t_le, "other", 1},           {"<=", t_le, "other", 1},          {"gt", t_gt, "other", 1},
    {"greaterthan", t_gt, "other", 1},  {">", t_gt, "other", 1},           {"ge", t_ge, "other", 1},
    {">=", t_ge, "other", 1},           {"in", t_in, "seq", 1},            {"filter", t_filter, "", 0},
    {"test", t_test, "", 0},
};

const sl_tpl_builtin *sl_tpl_test_find(const sl_tpl_str *name)
{
    return sl_tpl_builtin_in(tests, sizeof tests / sizeof *tests, name);
}

bool sl_tpl_run_test(sl_tpl_run *r, const sl_tpl_builtin *b, sl_tpl_value v, const sl_tpl_args *args)
{
    return sl_tpl_call_builtin(r, b, v, args).b;
}
