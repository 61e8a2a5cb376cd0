/* Expressions, evaluated by walking the tree. */
#include "text/template/template_int.h"

#include <stdio.h>
#include <time.h>

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* a busy machine makes no template too slow */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sl_tpl_tick(sl_tpl_run *r, size_t n)
{
    uint64_t before = r->steps;
    r->steps += n;
    if (r->steps > SL_TPL_MAX_STEPS)
        sl_tpl_fail(&r->heap, SL_ERR_LIMIT, "more than %d steps of work", SL_TPL_MAX_STEPS);
    if (before >> 10 == r->steps >> 10) return; /* the clock costs more than most steps */
    uint64_t now = clock_ns();
    if (!r->deadline_ns) r->deadline_ns = now + r->max_ms * 1000000ull;
    if (now > r->deadline_ns)
        sl_tpl_fail(&r->heap, SL_ERR_LIMIT, "rendering takes more than %u ms", r->max_ms);
}

static sl_tpl_env *out_by(sl_tpl_env *env, uint32_t hops)
{
    while (hops--)
        env = env->parent;
    return env;
}

static sl_tpl_value eval_name(const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_value v = out_by(env, n->hops)->at[n->slot];
    return sl_tpl_given(v) ? v : (sl_tpl_value){.kind = SL_TPL_UNDEFINED, .u = n->undef};
}

static sl_tpl_value eval_list(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_list *l = sl_tpl_list_new(r, n->n);
    for (uint32_t i = 0; i < n->n; i++)
        sl_tpl_list_add(r, l, sl_tpl_eval(r, n->list[i], env));
    return (sl_tpl_value){.kind = n->op == SL_TPL_TUPLE_OF ? SL_TPL_TUPLE : SL_TPL_LIST, .l = l};
}

static sl_tpl_value eval_dict(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_dict *d = sl_tpl_dict_new(r);
    for (uint32_t i = 0; i < n->n; i += 2) {
        sl_tpl_value key = sl_tpl_eval(r, n->list[i], env);
        sl_tpl_dict_set(r, d, key, sl_tpl_eval(r, n->list[i + 1], env));
    }
    return (sl_tpl_value){.kind = SL_TPL_DICT, .d = d};
}

static sl_tpl_value eval_cond(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    if (sl_tpl_truth(r, sl_tpl_eval(r, n->b, env))) return sl_tpl_eval(r, n->a, env);
    if (n->c) return sl_tpl_eval(r, n->c, env);
    char *hint = sl_tpl_take(&r->heap, 120);
    snprintf(hint, 120, "the inline if-expression on line %u evaluated to false and no else section was defined.",
             n->line);
    return sl_tpl_undefined(r, hint);
}

static sl_tpl_value eval_compare(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_value left = sl_tpl_eval(r, n->a, env);
    for (uint32_t i = 0; i < n->n; i++) {
        sl_tpl_value right = sl_tpl_eval(r, n->list[i], env);
        if (!sl_tpl_compare(r, (sl_tpl_rel)n->ops[i], left, right)) return sl_tpl_bool(false);
        left = right;
    }
    return sl_tpl_bool(true);
}

static sl_tpl_value eval_concat(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    enum { LONG = 256 }; /* what grows in a loop: appended to in place */
    sl_tpl_text t = {0};
    const sl_tpl_str *first = sl_tpl_to_str(r, sl_tpl_eval(r, n->list[0], env));
    if (first->n > LONG) {
        for (uint32_t i = 1; i < n->n; i++)
            first = sl_tpl_str_concat(r, first, sl_tpl_to_str(r, sl_tpl_eval(r, n->list[i], env)));
        return sl_tpl_of_str(sl_tpl_str_mark_safe(r, first, false));
    }
    sl_tpl_add_str(r, &t, first);
    for (uint32_t i = 1; i < n->n; i++)
        sl_tpl_show(r, &t, sl_tpl_eval(r, n->list[i], env));
    return sl_tpl_text_done(r, &t);
}

static sl_tpl_value eval_slice(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_value object = sl_tpl_eval(r, n->a, env), from = {0}, to = {0}, step = {0};
    if (n->b) from = sl_tpl_eval(r, n->b, env);
    if (n->c) to = sl_tpl_eval(r, n->c, env);
    if (n->d) step = sl_tpl_eval(r, n->d, env);
    return sl_tpl_slice(r, object, from, to, step);
}

/* ---- arguments ---- */

static void add_dyn_args(sl_tpl_run *r, sl_tpl_list *l, sl_tpl_value v)
{
    sl_tpl_iter it = sl_tpl_iterate(r, v);
    for (sl_tpl_value item; sl_tpl_next(r, &it, &item);)
        sl_tpl_list_add(r, l, item);
}

static void eval_named(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env, sl_tpl_args *args)
{
    sl_tpl_value dyn = {0};
    if (n->has_dyn_named) {
        dyn = sl_tpl_eval(r, n->d, env);
        if (dyn.kind != SL_TPL_DICT) sl_tpl_type_error(r, "argument after ** must be a mapping");
    }
    size_t n_dyn = n->has_dyn_named ? dyn.d->n : 0;
    const sl_tpl_str **names = sl_tpl_take(&r->heap, (n->n_named + n_dyn) * sizeof *names);
    sl_tpl_value *named = sl_tpl_take(&r->heap, (n->n_named + n_dyn) * sizeof *named);
    for (uint32_t i = 0; i < n->n_named; i++) {
        names[i] = n->names[i];
        named[i] = sl_tpl_eval(r, n->named[i], env);
    }
    for (size_t i = 0; i < n_dyn; i++) {
        if (dyn.d->at[i].key.kind != SL_TPL_STR) sl_tpl_type_error(r, "keywords must be strings");
        names[n->n_named + i] = dyn.d->at[i].key.s;
        named[n->n_named + i] = dyn.d->at[i].value;
    }
    args->names = names;
    args->named = named;
    args->n_named = n->n_named + n_dyn;
}

static void eval_args(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env, sl_tpl_args *args)
{
    *args = (sl_tpl_args){0};
    if (n->n) {
        sl_tpl_list *l = sl_tpl_list_new(r, n->n);
        for (uint32_t i = 0; i < n->n; i++) {
            sl_tpl_value v = sl_tpl_eval(r, n->list[i], env);
            if (n->has_dyn_args && i + 1 == n->n)
                add_dyn_args(r, l, v);
            else
                sl_tpl_list_add(r, l, v);
        }
        args->at = l->at;
        args->n = l->n;
    }
    if (n->n_named || n->has_dyn_named) eval_named(r, n, env, args);
}

static sl_tpl_value eval_call(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_args args;
    sl_tpl_value f = sl_tpl_eval(r, n->a, env);
    eval_args(r, n, env, &args);
    r->heap.line = n->line;
    return sl_tpl_call(r, f, &args);
}

static sl_tpl_value eval_filter(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_args args;
    sl_tpl_value v = n->a ? sl_tpl_eval(r, n->a, env) : sl_tpl_text_done(r, r->out); /* of a block: its output */
    eval_args(r, n, env, &args);
    r->heap.line = n->line;
    return sl_tpl_call_builtin(r, n->builtin, v, &args);
}

static sl_tpl_value eval_test(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_args args;
    sl_tpl_value v = sl_tpl_eval(r, n->a, env);
    eval_args(r, n, env, &args);
    return sl_tpl_bool(sl_tpl_run_test(r, n->builtin, v, &args));
}

/* ---- the switch ---- */

static sl_tpl_value eval_operator(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_value a = sl_tpl_eval(r, n->a, env);
    switch (n->op) {
    case SL_TPL_OR:
        return sl_tpl_truth(r, a) ? a : sl_tpl_eval(r, n->b, env);
    case SL_TPL_AND:
        return sl_tpl_truth(r, a) ? sl_tpl_eval(r, n->b, env) : a;
    case SL_TPL_NOT:
        return sl_tpl_bool(!sl_tpl_truth(r, a));
    case SL_TPL_NEG:
    case SL_TPL_POS:
        return sl_tpl_negate(r, a, n->op == SL_TPL_NEG);
    case SL_TPL_GETATTR:
        return sl_tpl_getattr(r, a, n->name);
    case SL_TPL_GETITEM:
        return sl_tpl_getitem(r, a, sl_tpl_eval(r, n->b, env));
    default:
        return sl_tpl_arith(r, (sl_tpl_op)n->op, a, sl_tpl_eval(r, n->b, env));
    }
}

static sl_tpl_value eval_node(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    switch (n->op) {
    case SL_TPL_CONST:
        return n->value;
    case SL_TPL_NAME:
        return eval_name(n, env);
    case SL_TPL_TUPLE_OF:
    case SL_TPL_LIST_OF:
        return eval_list(r, n, env);
    case SL_TPL_DICT_OF:
        return eval_dict(r, n, env);
    case SL_TPL_COND:
        return eval_cond(r, n, env);
    case SL_TPL_COMPARE:
        return eval_compare(r, n, env);
    case SL_TPL_CONCAT:
        return eval_concat(r, n, env);
    case SL_TPL_SLICE:
        return eval_slice(r, n, env);
    case SL_TPL_CALL:
        return eval_call(r, n, env);
    case SL_TPL_FILTER:
        return eval_filter(r, n, env);
    case SL_TPL_TEST:
        return eval_test(r, n, env);
    default:
        return eval_operator(r, n, env);
    }
}

sl_tpl_value sl_tpl_eval(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_tick(r, 1);
    sl_tpl_down(r);
    r->heap.line = n->line;
    sl_tpl_value v = eval_node(r, n, env);
    sl_tpl_up(r);
    return v;
}
