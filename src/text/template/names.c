/* Which variable a name means.  Jinja settles this when it compiles, and templates depend on what follows from it:
 *   - loops, macros, call, filter, set and with blocks have a scope of their own; if has none
 *   - a name that a scope sets is that scope's: it begins as the outer scope's variable of that name; without one, as
 *     what the caller gave when it was read before it was set or is set in some branch only, else as nothing
 *   - a scope is looked at as a whole before the scopes inside it
 * Every name becomes a number of scopes to go out and a slot there. */
#include "text/template/template_int.h"

enum { MAX_VARS = 2000, MAX_WORK = 50000000 };

typedef struct {
    sl_tpl *t;
    uint64_t work; /* names compared */
} namer;

/* ---- scopes ---- */

static sl_tpl_var *var_in(namer *x, const sl_tpl_scope *s, const sl_tpl_str *name)
{
    x->work += s->n + 1;
    if (x->work > MAX_WORK) sl_tpl_fail(&x->t->heap, SL_ERR_LIMIT, "too many names");
    for (uint32_t i = 0; i < s->n; i++)
        if (sl_tpl_str_same(s->vars[i].name, name)) return &s->vars[i];
    return NULL;
}

static bool find(namer *x, const sl_tpl_scope *s, const sl_tpl_str *name, uint32_t *hops, uint32_t *slot)
{
    *hops = 0;
    for (; s; s = s->parent, ++*hops) {
        const sl_tpl_var *v = var_in(x, s, name);
        if (!v) continue;
        *slot = (uint32_t)(v - s->vars);
        return true;
    }
    return false;
}

static sl_tpl_scope *new_scope(namer *x, sl_tpl_scope *parent)
{
    sl_tpl_scope *s = sl_tpl_take(&x->t->heap, sizeof *s);
    s->parent = parent;
    return s;
}

static sl_tpl_var *define(namer *x, sl_tpl_scope *s, const sl_tpl_str *name, sl_tpl_begin begin)
{
    if (s->n == MAX_VARS) sl_tpl_fail(&x->t->heap, SL_ERR_LIMIT, "more than %d names in one scope", MAX_VARS);
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 8;
        sl_tpl_var *vars = sl_tpl_take(&x->t->heap, s->cap * sizeof *vars);
        if (s->n) memcpy(vars, s->vars, s->n * sizeof *vars);
        s->vars = vars;
    }
    s->vars[s->n] = (sl_tpl_var){.name = name, .begin = begin};
    return &s->vars[s->n++];
}

static void load(namer *x, sl_tpl_scope *s, const sl_tpl_str *name)
{
    uint32_t hops, slot;
    if (!find(x, s, name, &hops, &slot)) define(x, s, name, SL_TPL_BY_LOOKUP);
}

static int32_t parameter(namer *x, sl_tpl_scope *s, const sl_tpl_str *name)
{
    sl_tpl_var *v = var_in(x, s, name);
    if (!v) v = define(x, s, name, SL_TPL_BY_PARAM);
    v->begin = SL_TPL_BY_PARAM;
    return (int32_t)(v - s->vars);
}

/* in_branch: inside an if, so that the name may stay unset. */
static void store(namer *x, sl_tpl_scope *s, const sl_tpl_str *name, bool in_branch)
{
    uint32_t hops = 0, slot = 0;
    if (var_in(x, s, name)) return;
    bool outer = s->parent && find(x, s->parent, name, &hops, &slot);
    sl_tpl_var *v = define(x, s, name, outer ? SL_TPL_BY_OUTER : in_branch ? SL_TPL_BY_LOOKUP : SL_TPL_BY_NOTHING);
    v->hops = hops;
    v->slot = slot;
}

/* ---- what a scope reads and sets ---- */

/* Calls fn for every child expression. */
static void each_child(namer *x, const sl_tpl_node *n, sl_tpl_scope *s,
                       void (*fn)(namer *x, sl_tpl_node *n, sl_tpl_scope *s))
{
    sl_tpl_node *own[] = {n->a, n->b, n->c, n->d};
    for (size_t i = 0; i < 4; i++)
        if (own[i]) fn(x, own[i], s);
    for (uint32_t i = 0; i < n->n; i++)
        fn(x, n->list[i], s);
    for (uint32_t i = 0; i < n->n_named; i++)
        fn(x, n->named[i], s);
}

static void read_names(namer *x, sl_tpl_node *n, sl_tpl_scope *s)
{
    x->t->heap.line = n->line;
    if (n->op == SL_TPL_NAME || n->op == SL_TPL_NSREF)
        load(x, s, n->name);
    else
        each_child(x, n, s, read_names);
}

static void store_target(namer *x, const sl_tpl_node *n, sl_tpl_scope *s, bool in_branch)
{
    if (n->op == SL_TPL_NAME)
        store(x, s, n->name, in_branch);
    else if (n->op == SL_TPL_NSREF)
        load(x, s, n->name);
    else
        for (uint32_t i = 0; i < n->n; i++)
            store_target(x, n->list[i], s, in_branch);
}

static void declare_target(namer *x, const sl_tpl_node *n, sl_tpl_scope *s)
{
    if (n->op == SL_TPL_NAME) {
        if (sl_tpl_str_is(n->name, "loop"))
            sl_tpl_fail(&x->t->heap, SL_ERR_FORMAT, "'loop' can't be the variable of a loop");
        parameter(x, s, n->name);
    } else
        for (uint32_t i = 0; i < n->n; i++)
            declare_target(x, n->list[i], s);
}

static void survey(namer *x, sl_tpl_node *const *body, uint32_t n, sl_tpl_scope *s, bool in_branch)
{
    for (uint32_t i = 0; i < n; i++) {
        const sl_tpl_node *e = body[i];
        x->t->heap.line = e->line;
        switch (e->op) {
        case SL_TPL_OUTPUT:
            read_names(x, e->list[0], s);
            break;
        case SL_TPL_SET:
            read_names(x, e->b, s);
            store_target(x, e->a, s, in_branch);
            break;
        case SL_TPL_SET_BLOCK:
            store_target(x, e->a, s, in_branch);
            break;
        case SL_TPL_FOR:
            read_names(x, e->b, s);
            break;
        case SL_TPL_IF:
            read_names(x, e->a, s);
            survey(x, e->body, e->n_body, s, true);
            survey(x, e->other, e->n_other, s, true);
            break;
        case SL_TPL_WITH:
            for (uint32_t k = 1; k < e->n; k += 2)
                read_names(x, e->list[k], s);
            break;
        case SL_TPL_MACRO_DEF:
            store(x, s, e->name, in_branch);
            break;
        case SL_TPL_CALL_BLOCK:
        case SL_TPL_FILTER_BLOCK:
            read_names(x, e->a, s);
            break;
        default:
            break;
        }
    }
}

/* ---- does a body read this name? ---- */

static bool reads(const sl_tpl_node *n, const char *name);

static bool any_reads(sl_tpl_node *const *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] && reads(list[i], name)) return true;
    return false;
}

static bool reads(const sl_tpl_node *n, const char *name)
{
    sl_tpl_node *own[] = {n->a, n->b, n->c, n->d};
    if (n->op == SL_TPL_NAME && sl_tpl_str_is(n->name, name)) return true;
    return any_reads(own, 4, name) || any_reads(n->list, n->n, name) || any_reads(n->named, n->n_named, name) ||
           any_reads(n->body, n->n_body, name) || any_reads(n->other, n->n_other, name);
}

/* ---- binding names to slots ---- */

static void bind_body(namer *x, sl_tpl_node *const *body, uint32_t n, sl_tpl_scope *s);

static void bind(namer *x, sl_tpl_node *n, sl_tpl_scope *s)
{
    x->t->heap.line = n->line;
    if (n->op != SL_TPL_NAME && n->op != SL_TPL_NSREF) {
        each_child(x, n, s, bind);
        return;
    }
    if (find(x, s, n->name, &n->hops, &n->slot)) return;
    define(x, s, n->name, SL_TPL_BY_LOOKUP); /* read where the survey does not look */
    find(x, s, n->name, &n->hops, &n->slot);
}

static const sl_tpl_str *word(namer *x, const char *p)
{
    return sl_tpl_str_new(&x->t->heap, p, strlen(p), false);
}

static void bind_for(namer *x, sl_tpl_node *n, sl_tpl_scope *s)
{
    bind(x, n->b, s);
    n->scope = new_scope(x, s);
    declare_target(x, n->a, n->scope); /* first, so that the target has the same slots in test_scope */
    if (n->recursive || any_reads(n->body, n->n_body, "loop")) n->loop_slot = parameter(x, n->scope, word(x, "loop"));
    survey(x, n->body, n->n_body, n->scope, false);
    if (n->c) {
        n->test_scope = new_scope(x, s);
        declare_target(x, n->a, n->test_scope);
        read_names(x, n->c, n->test_scope);
        bind(x, n->c, n->test_scope);
    }
    bind(x, n->a, n->scope);
    bind_body(x, n->body, n->n_body, n->scope);
    n->else_scope = new_scope(x, s);
    survey(x, n->other, n->n_other, n->else_scope, false);
    bind_body(x, n->other, n->n_other, n->else_scope);
}

/* A special variable of macros, when the body reads it and no parameter has its name. */
static int32_t special(namer *x, const sl_tpl_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->n; i++)
        if (sl_tpl_str_is(n->list[i]->name, name)) return -1;
    return any_reads(n->body, n->n_body, name) ? parameter(x, n->scope, word(x, name)) : -1;
}

static void bind_macro(namer *x, sl_tpl_node *n, sl_tpl_scope *s)
{
    n->scope = new_scope(x, s);
    for (uint32_t i = 0; i < n->n; i++)
        parameter(x, n->scope, n->list[i]->name);
    n->caller_slot = special(x, n, "caller");
    n->kwargs_slot = special(x, n, "kwargs");
    n->varargs_slot = special(x, n, "varargs");
    for (uint32_t i = 0; i < n->n_default; i++)
        read_names(x, n->named[i], n->scope);
    survey(x, n->body, n->n_body, n->scope, false);
    for (uint32_t i = 0; i < n->n; i++)
        bind(x, n->list[i], n->scope);
    for (uint32_t i = 0; i < n->n_default; i++)
        bind(x, n->named[i], n->scope);
    bind_body(x, n->body, n->n_body, n->scope);
}

/* set, filter and generation blocks: a scope, and a filter that reads in it. */
static void bind_block(namer *x, sl_tpl_node *n, sl_tpl_node *filter, sl_tpl_scope *s)
{
    n->scope = new_scope(x, s);
    survey(x, n->body, n->n_body, n->scope, false);
    if (filter) {
        read_names(x, filter, n->scope);
        bind(x, filter, n->scope);
    }
    bind_body(x, n->body, n->n_body, n->scope);
}

static void bind_with(namer *x, sl_tpl_node *n, sl_tpl_scope *s)
{
    n->scope = new_scope(x, s);
    for (uint32_t i = 0; i < n->n; i += 2)
        declare_target(x, n->list[i], n->scope);
    survey(x, n->body, n->n_body, n->scope, false);
    for (uint32_t i = 0; i < n->n; i++)
        bind(x, n->list[i], i % 2 ? s : n->scope);
    bind_body(x, n->body, n->n_body, n->scope);
}

static void bind_one(namer *x, sl_tpl_node *n, sl_tpl_scope *s)
{
    switch (n->op) {
    case SL_TPL_FOR:
        bind_for(x, n, s);
        break;
    case SL_TPL_IF:
        bind(x, n->a, s);
        bind_body(x, n->body, n->n_body, s);
        bind_body(x, n->other, n->n_other, s);
        break;
    case SL_TPL_MACRO_DEF:
        find(x, s, n->name, &n->hops, &n->slot);
        bind_macro(x, n, s);
        break;
    case SL_TPL_CALL_BLOCK:
        bind(x, n->a, s);
        bind_macro(x, n, s);
        break;
    case SL_TPL_SET_BLOCK:
        bind(x, n->a, s);
        bind_block(x, n, n->b, s);
        break;
    case SL_TPL_FILTER_BLOCK:
        bind_block(x, n, n->a, s);
        break;
    case SL_TPL_SCOPE:
        bind_block(x, n, NULL, s);
        break;
    case SL_TPL_WITH:
        bind_with(x, n, s);
        break;
    default:
        each_child(x, n, s, bind);
        break;
    }
}

static void bind_body(namer *x, sl_tpl_node *const *body, uint32_t n, sl_tpl_scope *s)
{
    for (uint32_t i = 0; i < n; i++)
        bind_one(x, body[i], s);
}

void sl_tpl_resolve_names(sl_tpl *t)
{
    namer x = {.t = t};
    t->scope = new_scope(&x, NULL);
    survey(&x, t->body, t->n_body, t->scope, false);
    bind_body(&x, t->body, t->n_body, t->scope);
}
