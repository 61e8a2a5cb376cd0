/* for loops and the variable "loop". */
#include "text/template/template_int.h"

struct sl_tpl_loop {
    const sl_tpl_node *node;
    sl_tpl_env *outer, *test_env; /* test_env: NULL without a condition */
    sl_tpl_iter it;
    sl_tpl_value before, current, after; /* MISSING: none; after: looked at ahead of its turn */
    sl_tpl_list *last_changed;
    int64_t index0;
    size_t length;
    bool has_length;
    uint32_t depth0;
};

/* The next element that meets the condition. */
static bool next_raw(sl_tpl_run *r, sl_tpl_loop *l, sl_tpl_value *v)
{
    while (sl_tpl_next(r, &l->it, v)) {
        if (!l->test_env) return true;
        sl_tpl_assign(r, l->node->a, *v, l->test_env);
        if (sl_tpl_truth(r, sl_tpl_eval(r, l->node->c, l->test_env))) return true;
    }
    return false;
}

static bool advance(sl_tpl_run *r, sl_tpl_loop *l)
{
    sl_tpl_value v = l->after;
    l->after = (sl_tpl_value){0};
    if (!sl_tpl_given(v) && !next_raw(r, l, &v)) return false;
    l->index0++;
    l->before = l->current;
    l->current = v;
    return true;
}

static sl_tpl_value peek(sl_tpl_run *r, sl_tpl_loop *l)
{
    sl_tpl_value v;
    if (!sl_tpl_given(l->after) && next_raw(r, l, &v)) l->after = v;
    return l->after;
}

/* Without a length of its own, the source is drained into a list. */
size_t sl_tpl_loop_length(sl_tpl_run *r, sl_tpl_loop *l)
{
    if (l->has_length) return l->length;
    l->has_length = true;
    if (!l->test_env && sl_tpl_length(l->it.source, &l->length)) return l->length;
    sl_tpl_list *rest = sl_tpl_list_new(r, 0);
    for (sl_tpl_value v; next_raw(r, l, &v);)
        sl_tpl_list_add(r, rest, v);
    l->it = (sl_tpl_iter){.source = sl_tpl_list_value(rest)};
    l->test_env = NULL;
    l->length = rest->n + (size_t)(l->index0 + 1) + sl_tpl_given(l->after);
    return l->length;
}

static sl_tpl_value cycle(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw)
{
    (void)arg;
    if (!raw->n) sl_tpl_type_error(r, "no items for cycling given");
    return raw->at[(size_t)self.loop->index0 % raw->n];
}

static sl_tpl_value changed(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw)
{
    sl_tpl_list *now = sl_tpl_list_new(r, raw->n), *last = self.loop->last_changed;
    (void)arg;
    for (size_t i = 0; i < raw->n; i++)
        sl_tpl_list_add(r, now, raw->at[i]);
    self.loop->last_changed = now;
    return sl_tpl_bool(!last || !sl_tpl_equal(r, sl_tpl_list_value(last), sl_tpl_list_value(now)));
}

static const sl_tpl_builtin methods[] = {{"cycle", cycle, NULL, 0}, {"changed", changed, NULL, 0}};

static sl_tpl_value neighbour(sl_tpl_run *r, sl_tpl_value v, const char *hint)
{
    return sl_tpl_given(v) ? v : sl_tpl_undefined(r, hint);
}

sl_tpl_value sl_tpl_loop_attr(sl_tpl_run *r, sl_tpl_loop *l, const sl_tpl_str *name, sl_tpl_value self)
{
    if (sl_tpl_str_is(name, "index0")) return sl_tpl_int(l->index0);
    if (sl_tpl_str_is(name, "index")) return sl_tpl_int(l->index0 + 1);
    if (sl_tpl_str_is(name, "first")) return sl_tpl_bool(l->index0 == 0);
    if (sl_tpl_str_is(name, "last")) return sl_tpl_bool(!sl_tpl_given(peek(r, l)));
    if (sl_tpl_str_is(name, "previtem"))
        return neighbour(r, l->index0 ? l->before : (sl_tpl_value){0}, "there is no previous item");
    if (sl_tpl_str_is(name, "nextitem")) return neighbour(r, peek(r, l), "there is no next item");
    if (sl_tpl_str_is(name, "length")) return sl_tpl_int((int64_t)sl_tpl_loop_length(r, l));
    if (sl_tpl_str_is(name, "revindex")) return sl_tpl_int((int64_t)sl_tpl_loop_length(r, l) - l->index0);
    if (sl_tpl_str_is(name, "revindex0")) return sl_tpl_int((int64_t)sl_tpl_loop_length(r, l) - l->index0 - 1);
    if (sl_tpl_str_is(name, "depth")) return sl_tpl_int(l->depth0 + 1);
    if (sl_tpl_str_is(name, "depth0")) return sl_tpl_int(l->depth0);
    const sl_tpl_builtin *b = sl_tpl_builtin_in(methods, sizeof methods / sizeof *methods, name);
    if (!b) return (sl_tpl_value){0};
    sl_tpl_function *f = sl_tpl_take(&r->heap, sizeof *f);
    *f = (sl_tpl_function){b, self};
    return (sl_tpl_value){.kind = SL_TPL_FUNCTION, .function = f};
}

/* Jinja's else part runs when no round came to its end, so also when all of them were broken off. */
static sl_tpl_flow run_loop(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_value source, sl_tpl_env *outer,
                            uint32_t depth0)
{
    bool completed = false;
    sl_tpl_loop *l = sl_tpl_take(&r->heap, sizeof *l);
    *l = (sl_tpl_loop){.node = n, .outer = outer, .it = sl_tpl_iterate(r, source), .index0 = -1, .depth0 = depth0};
    if (n->test_scope) {
        l->test_env = sl_tpl_env_new(r, n->test_scope, outer);
        sl_tpl_env_begin(r, l->test_env, n->test_scope);
    }
    sl_tpl_env *env = sl_tpl_env_new(r, n->scope, outer);
    while (advance(r, l)) {
        sl_tpl_assign(r, n->a, l->current, env);
        if (n->loop_slot >= 0) env->at[n->loop_slot] = (sl_tpl_value){.kind = SL_TPL_LOOP, .loop = l};
        sl_tpl_env_begin(r, env, n->scope);
        sl_tpl_flow flow = sl_tpl_exec(r, n->body, n->n_body, env);
        if (flow == SL_TPL_GO_BREAK) break;
        if (flow == SL_TPL_GO_ON) completed = true;
    }
    if (completed || !n->n_other) return SL_TPL_GO_ON;
    sl_tpl_env *other = sl_tpl_env_new(r, n->else_scope, outer);
    sl_tpl_env_begin(r, other, n->else_scope);
    return sl_tpl_exec(r, n->other, n->n_other, other); /* a break there is one of the loop around */
}

sl_tpl_flow sl_tpl_exec_for(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    return run_loop(r, n, sl_tpl_eval(r, n->b, env), env, 0);
}

sl_tpl_value sl_tpl_call_loop(sl_tpl_run *r, const sl_tpl_loop *l, const sl_tpl_args *args)
{
    sl_tpl_text t = {0}, *outer = r->out;
    if (!l->node->recursive)
        sl_tpl_type_error(r, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_named) sl_tpl_type_error(r, "loop() takes one argument");
    sl_tpl_down(r);
    r->out = &t;
    run_loop(r, l->node, args->at[0], l->outer, l->depth0 + 1);
    r->out = outer;
    sl_tpl_up(r);
    return sl_tpl_text_done(r, &t);
}
