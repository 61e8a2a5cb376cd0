/* Statements. */
#include "text/template/template_int.h"
#include "text/text_int.h"

#include <stdio.h>

typedef struct {
    sl_tpl_node **body;
    uint32_t n_body;
} body;

static body parse_until(sl_tpl_parser *p, const char *const *ends);

static const char *const end_set[] = {"endset", NULL}, *const end_for[] = {"endfor", NULL},
                         *const end_for_else[] = {"endfor", "else", NULL}, *const end_if[] = {"endif", NULL},
                         *const end_if_else[] = {"elif", "else", "endif", NULL},
                         *const end_with[] = {"endwith", NULL}, *const end_macro[] = {"endmacro", NULL},
                         *const end_call[] = {"endcall", NULL}, *const end_filter[] = {"endfilter", NULL},
                         *const end_generation[] = {"endgeneration", NULL};

static void expect_block_end(sl_tpl_parser *p)
{
    if (p->at->kind != SL_TPL_T_BLOCK_END) sl_tpl_unexpected(p, "'%}'");
    p->at++;
}

/* Statements behind a tag, up to the tag that ends them; its name is then the next token. */
static void parse_body(sl_tpl_parser *p, sl_tpl_node *n, const char *const *ends)
{
    sl_tpl_skip_op(p, ":");
    expect_block_end(p);
    body b = parse_until(p, ends);
    n->body = b.body;
    n->n_body = b.n_body;
}

static sl_tpl_node *parse_set(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_SET, p->at->line);
    n->a = sl_tpl_parse_target(p, true, NULL);
    if (sl_tpl_skip_op(p, "=")) {
        n->b = sl_tpl_parse_tuple(p, true, NULL);
        return n;
    }
    n->op = SL_TPL_SET_BLOCK;
    if (sl_tpl_at_op(p, "|")) n->b = sl_tpl_parse_filters(p, NULL, false);
    parse_body(p, n, end_set);
    p->at++;
    return n;
}

static sl_tpl_node *parse_for(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_FOR, p->at->line);
    n->a = sl_tpl_parse_target(p, false, "in");
    sl_tpl_expect_name(p, "in");
    n->b = sl_tpl_parse_tuple(p, false, "recursive");
    if (sl_tpl_skip_name(p, "if")) n->c = sl_tpl_parse_expression(p, true);
    n->recursive = sl_tpl_skip_name(p, "recursive");
    p->n_loop++;
    parse_body(p, n, end_for_else);
    p->n_loop--;
    if (!sl_tpl_skip_name(p, "else")) {
        p->at++;
        return n;
    }
    sl_tpl_node other = {0};
    parse_body(p, &other, end_for);
    p->at++;
    n->other = other.body;
    n->n_other = other.n_body;
    return n;
}

/* Behind "if" or "elif". */
static sl_tpl_node *parse_if(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_IF, p->at->line), *last = n;
    sl_tpl_node *chain[128]; /* finished from the inside out: an elif is an if in the else part of the one before */
    uint32_t n_chain = 0;
    for (;;) {
        last->a = sl_tpl_parse_tuple(p, false, NULL);
        parse_body(p, last, end_if_else);
        if (!sl_tpl_skip_name(p, "elif")) break;
        if (n_chain == 128) sl_tpl_unexpected(p, "fewer branches");
        chain[n_chain++] = last;
        last = sl_tpl_node_new(p, SL_TPL_IF, p->at->line);
    }
    if (sl_tpl_skip_name(p, "else")) {
        sl_tpl_node other = {0};
        parse_body(p, &other, end_if);
        last->other = other.body;
        last->n_other = other.n_body;
    }
    p->at++;
    while (n_chain) {
        sl_tpl_node **one = sl_tpl_take(p->heap, sizeof *one);
        *one = sl_tpl_node_done(p, last);
        last = chain[--n_chain];
        last->other = one;
        last->n_other = 1;
    }
    return n;
}

static sl_tpl_node *parse_with(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_WITH, p->at->line);
    sl_tpl_nodes list = {0};
    while (p->at->kind != SL_TPL_T_BLOCK_END) {
        if (list.n) sl_tpl_expect_op(p, ",");
        sl_tpl_nodes_add(p->heap, &list, sl_tpl_parse_target(p, false, NULL));
        sl_tpl_expect_op(p, "=");
        sl_tpl_nodes_add(p->heap, &list, sl_tpl_parse_expression(p, true));
    }
    n->list = list.at;
    n->n = list.n;
    parse_body(p, n, end_with);
    p->at++;
    return n;
}

/* "(a, b=1)" of a macro or a call block. */
static void parse_signature(sl_tpl_parser *p, sl_tpl_node *n)
{
    sl_tpl_nodes list = {0}, defaults = {0};
    sl_tpl_expect_op(p, "(");
    while (!sl_tpl_at_op(p, ")")) {
        if (list.n) sl_tpl_expect_op(p, ",");
        sl_tpl_node *arg = sl_tpl_node_new(p, SL_TPL_NAME, p->at->line);
        sl_tpl_undef *u = sl_tpl_take(p->heap, sizeof *u);
        arg->name = sl_tpl_expect_word(p);
        char *hint = sl_tpl_take(p->heap, arg->name->n + 40);
        memcpy(hint, "parameter '", 11);
        memcpy(hint + 11, arg->name->p, arg->name->n);
        memcpy(hint + 11 + arg->name->n, "' was not provided", 19);
        u->name = sl_tpl_of_str(arg->name);
        u->hint = hint;
        arg->undef = u;
        if (sl_tpl_skip_op(p, "="))
            sl_tpl_nodes_add(p->heap, &defaults, sl_tpl_parse_expression(p, true));
        else if (defaults.n)
            sl_tpl_unexpected(p, "a default, as before");
        sl_tpl_nodes_add(p->heap, &list, arg);
    }
    sl_tpl_expect_op(p, ")");
    n->list = list.at;
    n->n = list.n;
    n->named = defaults.at;
    n->n_named = n->n_default = defaults.n;
}

static sl_tpl_node *parse_macro(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_MACRO_DEF, p->at->line);
    uint32_t n_loop = p->n_loop;
    n->name = sl_tpl_expect_word(p);
    n->value = sl_tpl_of_str(n->name);
    parse_signature(p, n);
    p->n_loop = 0;
    parse_body(p, n, end_macro);
    p->n_loop = n_loop;
    p->at++;
    return n;
}

static sl_tpl_node *parse_call_block(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_CALL_BLOCK, p->at->line);
    uint32_t n_loop = p->n_loop;
    if (sl_tpl_at_op(p, "(")) parse_signature(p, n);
    n->a = sl_tpl_parse_expression(p, true);
    if (n->a->op != SL_TPL_CALL) sl_tpl_unexpected(p, "a call");
    p->n_loop = 0;
    parse_body(p, n, end_call);
    p->n_loop = n_loop;
    p->at++;
    return n;
}

static sl_tpl_node *parse_filter_block(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_FILTER_BLOCK, p->at->line);
    n->a = sl_tpl_parse_filters(p, NULL, true);
    parse_body(p, n, end_filter);
    p->at++;
    return n;
}

static sl_tpl_node *parse_generation(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_SCOPE, p->at->line);
    uint32_t n_loop = p->n_loop;
    p->n_loop = 0;
    parse_body(p, n, end_generation);
    p->n_loop = n_loop;
    p->at++;
    return n;
}

static sl_tpl_node *parse_jump(sl_tpl_parser *p, sl_tpl_op op)
{
    p->heap->line = p->at->line;
    if (!p->n_loop) sl_tpl_fail(p->heap, SL_ERR_FORMAT, "break or continue outside of a loop");
    return sl_tpl_node_new(p, op, p->at->line);
}

_Noreturn static void unknown_tag(sl_tpl_parser *p, const sl_tpl_token *t)
{
    static const char *const forbidden[] = {"include", "import", "from",       "extends", "block",
                                            "do",      "trans",  "autoescape", "print",   "debug"};
    char name[64];
    bool known = false;
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        known |= t->n == strlen(forbidden[i]) && memcmp(forbidden[i], t->p, t->n) == 0;
    p->heap->line = t->line;
    sl_tpl_fail(p->heap, known ? SL_ERR_UNSUPPORTED : SL_ERR_FORMAT, "the tag '%s' %s",
                sl_text_show(t->p, t->n, name), known ? "is not supported" : "does not belong here");
}

static sl_tpl_node *parse_statement(sl_tpl_parser *p)
{
    const sl_tpl_token *t = p->at;
    if (t->kind != SL_TPL_T_NAME) sl_tpl_unexpected(p, "the name of a tag");
    if (sl_tpl_skip_name(p, "set")) return parse_set(p);
    if (sl_tpl_skip_name(p, "if")) return parse_if(p);
    if (sl_tpl_skip_name(p, "for")) return parse_for(p);
    if (sl_tpl_skip_name(p, "macro")) return parse_macro(p);
    if (sl_tpl_skip_name(p, "call")) return parse_call_block(p);
    if (sl_tpl_skip_name(p, "filter")) return parse_filter_block(p);
    if (sl_tpl_skip_name(p, "with")) return parse_with(p);
    if (sl_tpl_skip_name(p, "generation")) return parse_generation(p);
    if (sl_tpl_skip_name(p, "break")) return parse_jump(p, SL_TPL_BREAK);
    if (sl_tpl_skip_name(p, "continue")) return parse_jump(p, SL_TPL_CONTINUE);
    unknown_tag(p, t);
}

static void add_output(sl_tpl_parser *p, sl_tpl_nodes *list, sl_tpl_node *value)
{
    sl_tpl_nodes one = {0};
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_OUTPUT, value->line);
    sl_tpl_nodes_add(p->heap, &one, value);
    n->list = one.at;
    n->n = one.n;
    sl_tpl_nodes_add(p->heap, list, sl_tpl_node_done(p, n));
}

static void add_data(sl_tpl_parser *p, sl_tpl_nodes *list)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_CONST, p->at->line);
    sl_tpl_str *s = sl_tpl_take(p->heap, sizeof *s);
    s->p = p->at->p;
    s->n = p->at->n;
    n->value = sl_tpl_of_str(s);
    p->at++;
    add_output(p, list, n);
}

static bool at_any(const sl_tpl_parser *p, const char *const *names)
{
    for (; names && *names; names++)
        if (sl_tpl_at_name(p, *names)) return true;
    return false;
}

_Noreturn static void never_closed(sl_tpl_parser *p, const char *const *ends)
{
    char wanted[80];
    size_t last = 0;
    while (ends[last + 1])
        last++;
    snprintf(wanted, sizeof wanted, "'{%% %s %%}'", ends[last]);
    sl_tpl_unexpected(p, wanted);
}

static body parse_until(sl_tpl_parser *p, const char *const *ends)
{
    sl_tpl_nodes list = {0};
    sl_tpl_enter(p);
    while (p->at->kind != SL_TPL_T_END) {
        if (p->at->kind == SL_TPL_T_DATA)
            add_data(p, &list);
        else if (p->at->kind == SL_TPL_T_VARIABLE_BEGIN) {
            p->at++;
            add_output(p, &list, sl_tpl_parse_tuple(p, true, NULL));
            if (p->at->kind != SL_TPL_T_VARIABLE_END) sl_tpl_unexpected(p, "'}}'");
            p->at++;
        } else {
            p->at++; /* a block */
            if (at_any(p, ends)) break;
            sl_tpl_nodes_add(p->heap, &list, sl_tpl_node_done(p, parse_statement(p)));
            expect_block_end(p);
        }
    }
    if (ends && p->at->kind == SL_TPL_T_END) never_closed(p, ends);
    sl_tpl_leave(p);
    return (body){list.at, list.n};
}

void sl_tpl_parse(sl_tpl_heap *h, const sl_tpl_tokens *tokens, sl_tpl *t)
{
    sl_tpl_parser p = {.heap = h, .at = tokens->at};
    body b = parse_until(&p, NULL);
    t->body = b.body;
    t->n_body = b.n_body;
}
