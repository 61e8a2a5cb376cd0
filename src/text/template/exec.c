/* Statements, and calling what can be called. */
#include "text/template/template_int.h"

/* ---- variables ---- */

sl_tpl_env *sl_tpl_env_new(sl_tpl_run *r, const sl_tpl_scope *s, sl_tpl_env *parent)
{
    sl_tpl_env *env = sl_tpl_take(&r->heap, sizeof *env + s->n * sizeof env->at[0]);
    env->parent = parent;
    return env;
}

static sl_tpl_value look_up(sl_tpl_run *r, const sl_tpl_str *name)
{
    const sl_tpl_value *v = sl_tpl_dict_get(r, r->vars, sl_tpl_of_str(name));
    return v ? *v : sl_tpl_global(r, name);
}

void sl_tpl_env_begin(sl_tpl_run *r, sl_tpl_env *env, const sl_tpl_scope *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const sl_tpl_var *v = &s->vars[i];
        const sl_tpl_env *from = env;
        switch (v->begin) {
        case SL_TPL_BY_LOOKUP:
            env->at[i] = look_up(r, v->name);
            break;
        case SL_TPL_BY_OUTER: /* hops count from the parent */
            from = env->parent;
            for (uint32_t k = 0; k < v->hops; k++)
                from = from->parent;
            env->at[i] = from->at[v->slot];
            break;
        case SL_TPL_BY_NOTHING:
            env->at[i] = (sl_tpl_value){0};
            break;
        default:
            break;
        }
    }
}

static void set_attribute(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_value v, sl_tpl_env *env)
{
    for (uint32_t i = 0; i < n->hops; i++)
        env = env->parent;
    sl_tpl_value ns = env->at[n->slot];
    if (ns.kind != SL_TPL_NAMESPACE) sl_tpl_type_error(r, "cannot assign attribute on non-namespace object");
    if (n->value.s->p[0] == '_')
        sl_tpl_type_error(r, "Chat templates cannot store underscore-prefixed attributes on a namespace, but got "
                             "'%.*s'. Please rename the attribute.", (int)n->value.s->n, n->value.s->p);
    sl_tpl_dict_set(r, ns.d, n->value, v);
}

static void unpack(sl_tpl_run *r, const sl_tpl_node *target, sl_tpl_value v, sl_tpl_env *env)
{
    if (!sl_tpl_iterable(v)) sl_tpl_type_error(r, "cannot unpack non-iterable %s object", sl_tpl_type_name(v));
    sl_tpl_iter it = sl_tpl_iterate(r, v);
    sl_tpl_value item;
    sl_tpl_list *l = sl_tpl_list_new(r, target->n);
    while (l->n <= target->n && sl_tpl_next(r, &it, &item))
        sl_tpl_list_add(r, l, item);
    if (l->n > target->n) sl_tpl_type_error(r, "too many values to unpack (expected %u)", target->n);
    if (l->n < target->n)
        sl_tpl_type_error(r, "not enough values to unpack (expected %u, got %zu)", target->n, l->n);
    for (uint32_t i = 0; i < target->n; i++)
        sl_tpl_assign(r, target->list[i], l->at[i], env);
}

void sl_tpl_assign(sl_tpl_run *r, const sl_tpl_node *target, sl_tpl_value v, sl_tpl_env *env)
{
    if (target->op == SL_TPL_NSREF)
        set_attribute(r, target, v, env);
    else if (target->op != SL_TPL_NAME)
        unpack(r, target, v, env);
    else {
        for (uint32_t i = 0; i < target->hops; i++)
            env = env->parent;
        env->at[target->slot] = v;
    }
}

/* ---- statements ---- */

/* Runs a body in a scope of its own, its output into t. */
static sl_tpl_flow capture(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *inner, sl_tpl_text *t)
{
    sl_tpl_text *outer = r->out;
    sl_tpl_env_begin(r, inner, n->scope);
    r->out = t;
    sl_tpl_flow flow = sl_tpl_exec(r, n->body, n->n_body, inner);
    r->out = outer;
    return flow;
}

/* The filters of a block: the innermost reads its text from r->out. */
static sl_tpl_value filtered(sl_tpl_run *r, const sl_tpl_node *filter, sl_tpl_env *env, sl_tpl_text *t)
{
    sl_tpl_text *outer = r->out;
    r->out = t;
    sl_tpl_value v = sl_tpl_eval(r, filter, env);
    r->out = outer;
    return v;
}

static sl_tpl_flow exec_set_block(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_text t = {0};
    sl_tpl_env *inner = sl_tpl_env_new(r, n->scope, env);
    sl_tpl_flow flow = capture(r, n, inner, &t);
    if (flow == SL_TPL_GO_ON)
        sl_tpl_assign(r, n->a, n->b ? filtered(r, n->b, inner, &t) : sl_tpl_text_done(r, &t), env);
    return flow;
}

static sl_tpl_flow exec_filter_block(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_text t = {0};
    sl_tpl_env *inner = sl_tpl_env_new(r, n->scope, env);
    sl_tpl_flow flow = capture(r, n, inner, &t);
    if (flow == SL_TPL_GO_ON) sl_tpl_show(r, r->out, filtered(r, n->a, inner, &t));
    return flow;
}

static sl_tpl_flow exec_scope(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_env *inner = sl_tpl_env_new(r, n->scope, env);
    sl_tpl_env_begin(r, inner, n->scope);
    return sl_tpl_exec(r, n->body, n->n_body, inner);
}

static sl_tpl_flow exec_with(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_env *inner = sl_tpl_env_new(r, n->scope, env);
    sl_tpl_env_begin(r, inner, n->scope);
    for (uint32_t i = 0; i < n->n; i += 2)
        sl_tpl_assign(r, n->list[i], sl_tpl_eval(r, n->list[i + 1], env), inner);
    return sl_tpl_exec(r, n->body, n->n_body, inner);
}

static sl_tpl_value new_macro(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_macro *m = sl_tpl_take(&r->heap, sizeof *m);
    *m = (sl_tpl_macro){.node = n, .name = n->name, .env = env};
    return (sl_tpl_value){.kind = SL_TPL_MACRO, .macro = m};
}

/* The call is given the block as its keyword argument "caller". */
static void exec_call_block(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    sl_tpl_value caller = new_macro(r, n, env);
    sl_tpl_node *c = sl_tpl_take(&r->heap, sizeof *c), *value = sl_tpl_take(&r->heap, sizeof *value);
    const sl_tpl_str **names = sl_tpl_take(&r->heap, (n->a->n_named + 1) * sizeof *names);
    sl_tpl_node **named = sl_tpl_take(&r->heap, (n->a->n_named + 1) * sizeof *named);
    *c = *n->a;
    *value = (sl_tpl_node){.op = SL_TPL_CONST, .line = n->line, .value = caller};
    for (uint32_t i = 0; i < c->n_named; i++) {
        names[i] = c->names[i];
        named[i] = c->named[i];
    }
    names[c->n_named] = sl_tpl_str_new(&r->heap, "caller", 6, false);
    named[c->n_named++] = value;
    c->names = names;
    c->named = named;
    sl_tpl_show(r, r->out, sl_tpl_eval(r, c, env));
}

static sl_tpl_flow exec_one(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    switch (n->op) {
    case SL_TPL_OUTPUT:
        sl_tpl_show(r, r->out, sl_tpl_eval(r, n->list[0], env));
        return SL_TPL_GO_ON;
    case SL_TPL_SET:
        sl_tpl_assign(r, n->a, sl_tpl_eval(r, n->b, env), env);
        return SL_TPL_GO_ON;
    case SL_TPL_IF:
        if (sl_tpl_truth(r, sl_tpl_eval(r, n->a, env))) return sl_tpl_exec(r, n->body, n->n_body, env);
        return sl_tpl_exec(r, n->other, n->n_other, env);
    case SL_TPL_FOR:
        return sl_tpl_exec_for(r, n, env);
    case SL_TPL_SET_BLOCK:
        return exec_set_block(r, n, env);
    case SL_TPL_FILTER_BLOCK:
        return exec_filter_block(r, n, env);
    case SL_TPL_WITH:
        return exec_with(r, n, env);
    case SL_TPL_SCOPE:
        return exec_scope(r, n, env);
    case SL_TPL_MACRO_DEF:
        for (uint32_t i = 0; i < n->hops; i++)
            env = env->parent; /* an if has no scope, so this is 0 */
        env->at[n->slot] = new_macro(r, n, env);
        return SL_TPL_GO_ON;
    case SL_TPL_CALL_BLOCK:
        exec_call_block(r, n, env);
        return SL_TPL_GO_ON;
    case SL_TPL_BREAK:
        return SL_TPL_GO_BREAK;
    default:
        return SL_TPL_GO_CONTINUE;
    }
}

sl_tpl_flow sl_tpl_exec(sl_tpl_run *r, sl_tpl_node *const *body, uint32_t n, sl_tpl_env *env)
{
    sl_tpl_flow flow = SL_TPL_GO_ON;
    sl_tpl_down(r);
    for (uint32_t i = 0; i < n && flow == SL_TPL_GO_ON; i++) {
        sl_tpl_tick(r, 1);
        r->heap.line = body[i]->line;
        flow = exec_one(r, body[i], env);
    }
    sl_tpl_up(r);
    return flow;
}

/* ---- calls ---- */

/* The keyword argument of this name, if it was not taken before; taken: one flag each. */
static const sl_tpl_value *take_named(const sl_tpl_args *args, bool *taken, const sl_tpl_str *name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (!taken[i] && sl_tpl_str_same(args->names[i], name)) {
            taken[i] = true;
            return &args->named[i];
        }
    return NULL;
}

static void bind_rest(sl_tpl_run *r, const sl_tpl_macro *m, const sl_tpl_args *args, bool *taken, sl_tpl_env *env)
{
    const sl_tpl_node *n = m->node;
    const char *name = m->name ? "macro" : "caller";
    sl_tpl_str word = {.p = "caller", .n = 6};
    if (n->caller_slot >= 0) {
        const sl_tpl_value *caller = take_named(args, taken, &word);
        env->at[n->caller_slot] =
            caller && caller->kind != SL_TPL_NONE ? *caller : sl_tpl_undefined(r, "No caller defined");
    }
    sl_tpl_dict *kwargs = n->kwargs_slot >= 0 ? sl_tpl_dict_new(r) : NULL;
    for (size_t i = 0; i < args->n_named; i++) {
        if (taken[i]) continue;
        if (!kwargs)
            sl_tpl_type_error(r, "%s '%.*s' takes no keyword argument '%.*s'", name, m->name ? (int)m->name->n : 0,
                              m->name ? m->name->p : "", (int)args->names[i]->n, args->names[i]->p);
        sl_tpl_dict_set(r, kwargs, sl_tpl_of_str(args->names[i]), args->named[i]);
    }
    if (kwargs) env->at[n->kwargs_slot] = (sl_tpl_value){.kind = SL_TPL_DICT, .d = kwargs};
    if (args->n > n->n && n->varargs_slot < 0)
        sl_tpl_type_error(r, "%s '%.*s' takes not more than %u argument(s)", name, m->name ? (int)m->name->n : 0,
                          m->name ? m->name->p : "", n->n);
    if (n->varargs_slot < 0) return;
    sl_tpl_list *rest = sl_tpl_list_new(r, 0);
    for (size_t i = n->n; i < args->n; i++)
        sl_tpl_list_add(r, rest, args->at[i]);
    env->at[n->varargs_slot] = (sl_tpl_value){.kind = SL_TPL_TUPLE, .l = rest};
}

static void set_defaults(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env)
{
    for (uint32_t i = 0; i < n->n; i++) {
        const sl_tpl_node *p = n->list[i];
        uint32_t first = n->n - n->n_default;
        if (sl_tpl_given(env->at[p->slot])) continue;
        env->at[p->slot] = i >= first ? sl_tpl_eval(r, n->named[i - first], env)
                                      : (sl_tpl_value){.kind = SL_TPL_UNDEFINED, .u = p->undef};
    }
}

sl_tpl_value sl_tpl_call_macro(sl_tpl_run *r, const sl_tpl_macro *m, const sl_tpl_args *args)
{
    const sl_tpl_node *n = m->node;
    sl_tpl_text t = {0}, *outer = r->out;
    sl_tpl_env *env = sl_tpl_env_new(r, n->scope, m->env);
    bool *taken = sl_tpl_take(&r->heap, args->n_named);
    for (uint32_t i = 0; i < n->n; i++) {
        const sl_tpl_value *v = i < args->n ? &args->at[i] : take_named(args, taken, n->list[i]->name);
        if (v) env->at[n->list[i]->slot] = *v;
    }
    bind_rest(r, m, args, taken, env);
    sl_tpl_env_begin(r, env, n->scope);
    r->out = &t;
    set_defaults(r, n, env);
    sl_tpl_exec(r, n->body, n->n_body, env);
    r->out = outer;
    return sl_tpl_text_done(r, &t);
}

/* Which parameter of "a b c" has this name; -1: none. */
static int find_param(const char *params, const sl_tpl_str *name)
{
    for (int i = 0; *params; i++) {
        size_t n = strcspn(params, " ");
        if (n == name->n && memcmp(params, name->p, n) == 0) return i;
        params += n + (params[n] == ' ');
    }
    return -1;
}

static uint32_t count_params(const char *params)
{
    uint32_t n = *params != 0;
    for (; *params; params++)
        n += *params == ' ';
    return n;
}

sl_tpl_value sl_tpl_call_builtin(sl_tpl_run *r, const sl_tpl_builtin *b, sl_tpl_value self, const sl_tpl_args *args)
{
    sl_tpl_value arg[SL_TPL_MAX_PARAMS] = {{0}};
    if (!b->params) return b->fn(r, self, arg, args);
    uint32_t most = count_params(b->params);
    if (args->n > most)
        sl_tpl_type_error(r, "%s() takes at most %u argument%s (%zu given)", b->name, most, most == 1 ? "" : "s",
                          args->n);
    for (size_t i = 0; i < args->n; i++)
        arg[i] = args->at[i];
    for (size_t i = 0; i < args->n_named; i++) {
        int k = find_param(b->params, args->names[i]);
        if (k < 0 || sl_tpl_given(arg[k]))
            sl_tpl_type_error(r, "%s() got %s '%.*s'", b->name,
                              k < 0 ? "an unexpected keyword argument" : "multiple values for argument",
                              (int)args->names[i]->n, args->names[i]->p);
        arg[k] = args->named[i];
    }
    for (uint32_t i = 0; i < b->n_required; i++)
        if (!sl_tpl_given(arg[i])) sl_tpl_type_error(r, "%s() needs %u argument(s)", b->name, b->n_required);
    return b->fn(r, self, arg, args);
}

sl_tpl_value sl_tpl_call(sl_tpl_run *r, sl_tpl_value f, const sl_tpl_args *args)
{
    switch (f.kind) {
    case SL_TPL_UNDEFINED:
        sl_tpl_use_undefined(r, f);
    case SL_TPL_MACRO:
        return sl_tpl_call_macro(r, f.macro, args);
    case SL_TPL_FUNCTION:
        return sl_tpl_call_builtin(r, f.function->builtin, f.function->self, args);
    case SL_TPL_LOOP:
        return sl_tpl_call_loop(r, f.loop, args);
    case SL_TPL_JOINER: /* its separator, but nothing the first time */
        if (f.d->n == 1) {
            sl_tpl_dict_set(r, f.d, sl_tpl_none(), sl_tpl_none());
            return sl_tpl_text_value(r, "");
        }
        return f.d->at[0].value;
    default:
        sl_tpl_type_error(r, "'%s' object is not callable", sl_tpl_type_name(f));
    }
}
