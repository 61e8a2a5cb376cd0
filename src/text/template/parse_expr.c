/* Expressions, in Jinja's order of precedence: conditional, or, and, not, comparisons and in, + -, ~, * / // %, **,
 * unary minus, then filters and tests. */
#include "text/template/template_int.h"
#include "text/text_int.h"

/* ---- tokens ---- */

bool sl_tpl_at_op(const sl_tpl_parser *p, const char *op)
{
    return p->at->kind == SL_TPL_T_OPERATOR && strcmp(p->at->op, op) == 0;
}

static bool is_name(const sl_tpl_token *t, const char *name)
{
    return t->kind == SL_TPL_T_NAME && t->n == strlen(name) && memcmp(t->p, name, t->n) == 0;
}

bool sl_tpl_at_name(const sl_tpl_parser *p, const char *name)
{
    return is_name(p->at, name);
}

bool sl_tpl_skip_op(sl_tpl_parser *p, const char *op)
{
    bool here = sl_tpl_at_op(p, op);
    p->at += here;
    return here;
}

bool sl_tpl_skip_name(sl_tpl_parser *p, const char *name)
{
    bool here = sl_tpl_at_name(p, name);
    p->at += here;
    return here;
}

void sl_tpl_unexpected(sl_tpl_parser *p, const char *wanted)
{
    static const char *const names[] = {
        [SL_TPL_T_END] = "the end of the template", [SL_TPL_T_DATA] = "text",
        [SL_TPL_T_VARIABLE_BEGIN] = "'{{'",         [SL_TPL_T_VARIABLE_END] = "'}}'",
        [SL_TPL_T_BLOCK_BEGIN] = "'{%'",            [SL_TPL_T_BLOCK_END] = "'%}'",
        [SL_TPL_T_STRING] = "a string",             [SL_TPL_T_INT] = "a number",
        [SL_TPL_T_FLOAT] = "a number",
    };
    char buf[64];
    const sl_tpl_token *t = p->at;
    p->heap->line = t->line;
    if (t->kind == SL_TPL_T_OPERATOR)
        sl_tpl_fail(p->heap, SL_ERR_FORMAT, "'%s' where %s should stand", t->op, wanted);
    if (t->kind == SL_TPL_T_NAME)
        sl_tpl_fail(p->heap, SL_ERR_FORMAT, "'%s' where %s should stand", sl_text_show(t->p, t->n, buf), wanted);
    sl_tpl_fail(p->heap, SL_ERR_FORMAT, "%s where %s should stand", names[t->kind], wanted);
}

void sl_tpl_expect_op(sl_tpl_parser *p, const char *op)
{
    char wanted[8] = "'";
    strcat(strcat(wanted, op), "'");
    if (!sl_tpl_skip_op(p, op)) sl_tpl_unexpected(p, wanted);
}

void sl_tpl_expect_name(sl_tpl_parser *p, const char *name)
{
    if (!sl_tpl_skip_name(p, name)) sl_tpl_unexpected(p, name);
}

/* The text of tokens lives as long as the template. */
static const sl_tpl_str *borrow(sl_tpl_parser *p, const char *s, size_t n)
{
    sl_tpl_str *v = sl_tpl_take(p->heap, sizeof *v);
    v->p = s;
    v->n = n;
    return v;
}

const sl_tpl_str *sl_tpl_expect_word(sl_tpl_parser *p)
{
    if (p->at->kind != SL_TPL_T_NAME) sl_tpl_unexpected(p, "a name");
    const sl_tpl_token *t = p->at++;
    return borrow(p, t->p, t->n);
}

/* ---- nodes ---- */

enum { MAX_TREE_DEPTH = 300, MAX_PARSE_DEPTH = 150 };

sl_tpl_node *sl_tpl_node_new(sl_tpl_parser *p, sl_tpl_op op, uint32_t line)
{
    sl_tpl_node *n = sl_tpl_take(p->heap, sizeof *n);
    n->op = (uint8_t)op;
    n->line = line;
    n->loop_slot = n->caller_slot = n->kwargs_slot = n->varargs_slot = -1;
    return n;
}

static void deepen(sl_tpl_node *n, sl_tpl_node *const *children, uint32_t n_child)
{
    for (uint32_t i = 0; i < n_child; i++)
        if (children[i] && children[i]->depth >= n->depth) n->depth = (uint16_t)(children[i]->depth + 1);
}

sl_tpl_node *sl_tpl_node_done(sl_tpl_parser *p, sl_tpl_node *n)
{
    sl_tpl_node *own[] = {n->a, n->b, n->c, n->d};
    deepen(n, own, 4);
    deepen(n, n->list, n->n);
    deepen(n, n->named, n->n_named);
    deepen(n, n->body, n->n_body);
    deepen(n, n->other, n->n_other);
    p->heap->line = n->line;
    if (n->depth > MAX_TREE_DEPTH)
        sl_tpl_fail(p->heap, SL_ERR_LIMIT, "nested more than %d deep", MAX_TREE_DEPTH);
    return n;
}

void sl_tpl_nodes_add(sl_tpl_heap *h, sl_tpl_nodes *l, sl_tpl_node *n)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        sl_tpl_node **at = sl_tpl_take(h, cap * sizeof *at);
        if (l->n) memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = n;
}

void sl_tpl_enter(sl_tpl_parser *p)
{
    p->heap->line = p->at->line;
    if (++p->depth > MAX_PARSE_DEPTH)
        sl_tpl_fail(p->heap, SL_ERR_LIMIT, "nested more than %d deep", MAX_PARSE_DEPTH);
}

void sl_tpl_leave(sl_tpl_parser *p)
{
    p->depth--;
}

static sl_tpl_node *binary(sl_tpl_parser *p, sl_tpl_op op, sl_tpl_node *a, sl_tpl_node *b)
{
    sl_tpl_node *n = sl_tpl_node_new(p, op, a->line);
    n->a = a;
    n->b = b;
    return sl_tpl_node_done(p, n);
}

static sl_tpl_node *constant(sl_tpl_parser *p, sl_tpl_value v, uint32_t line)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_CONST, line);
    n->value = v;
    return n;
}

/* ---- arguments ---- */

static void add_name(sl_tpl_parser *p, sl_tpl_node *n, const sl_tpl_str *name)
{
    const sl_tpl_str **names = sl_tpl_take(p->heap, (n->n_named + 1) * sizeof *names);
    if (n->n_named) memcpy(names, n->names, n->n_named * sizeof *names);
    names[n->n_named] = name;
    n->names = names;
}

static bool at_keyword(const sl_tpl_parser *p)
{
    const sl_tpl_token *next = p->at + 1;
    return p->at->kind == SL_TPL_T_NAME && next->kind == SL_TPL_T_OPERATOR && strcmp(next->op, "=") == 0;
}

static void parse_argument(sl_tpl_parser *p, sl_tpl_node *n, sl_tpl_nodes *list, sl_tpl_nodes *named)
{
    static const char wrong[] = "an argument in this order";
    if (sl_tpl_skip_op(p, "*")) {
        if (n->has_dyn_args || n->has_dyn_named) sl_tpl_unexpected(p, wrong);
        n->has_dyn_args = true;
        sl_tpl_nodes_add(p->heap, list, sl_tpl_parse_expression(p, true));
    } else if (sl_tpl_skip_op(p, "**")) {
        if (n->has_dyn_named) sl_tpl_unexpected(p, wrong);
        n->has_dyn_named = true;
        n->d = sl_tpl_parse_expression(p, true);
    } else if (at_keyword(p)) {
        if (n->has_dyn_named || named->n >= 64) sl_tpl_unexpected(p, wrong);
        add_name(p, n, sl_tpl_expect_word(p));
        p->at++;
        sl_tpl_nodes_add(p->heap, named, sl_tpl_parse_expression(p, true));
        n->n_named = named->n;
    } else {
        if (n->has_dyn_args || n->has_dyn_named || named->n) sl_tpl_unexpected(p, wrong);
        sl_tpl_nodes_add(p->heap, list, sl_tpl_parse_expression(p, true));
    }
}

/* "(...)": positional into list, keywords into names and named, **kwargs into d. */
static void parse_arguments(sl_tpl_parser *p, sl_tpl_node *n)
{
    sl_tpl_nodes list = {0}, named = {0};
    sl_tpl_expect_op(p, "(");
    for (bool first = true; !sl_tpl_at_op(p, ")"); first = false) {
        if (!first) sl_tpl_expect_op(p, ",");
        if (sl_tpl_at_op(p, ")")) break;
        parse_argument(p, n, &list, &named);
    }
    sl_tpl_expect_op(p, ")");
    n->list = list.at;
    n->n = list.n;
    n->named = named.at;
    n->n_named = named.n;
}

/* ---- primary ---- */

static sl_tpl_node *parse_name(sl_tpl_parser *p, bool with_namespace)
{
    uint32_t line = p->at->line;
    const sl_tpl_str *word = sl_tpl_expect_word(p);
    if (sl_tpl_str_is(word, "true") || sl_tpl_str_is(word, "True")) return constant(p, sl_tpl_bool(true), line);
    if (sl_tpl_str_is(word, "false") || sl_tpl_str_is(word, "False")) return constant(p, sl_tpl_bool(false), line);
    if (sl_tpl_str_is(word, "none") || sl_tpl_str_is(word, "None")) return constant(p, sl_tpl_none(), line);
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_NAME, line);
    sl_tpl_undef *u = sl_tpl_take(p->heap, sizeof *u);
    u->name = sl_tpl_of_str(word);
    n->name = word;
    n->undef = u;
    if (!with_namespace || !sl_tpl_skip_op(p, ".")) return n;
    n->op = SL_TPL_NSREF;
    n->value = sl_tpl_of_str(sl_tpl_expect_word(p));
    return n;
}

static sl_tpl_node *parse_string(sl_tpl_parser *p)
{
    const sl_tpl_token *first = p->at;
    size_t n = 0, k = 0;
    while (p->at->kind == SL_TPL_T_STRING)
        n += p->at++->n;
    char *s = sl_tpl_take(p->heap, n + 1);
    for (const sl_tpl_token *t = first; t < p->at; k += t++->n)
        memcpy(s + k, t->p, t->n);
    return constant(p, sl_tpl_of_str(borrow(p, s, n)), first->line);
}

static sl_tpl_node *parse_list(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_LIST_OF, p->at->line);
    sl_tpl_nodes list = {0};
    p->at++;
    while (!sl_tpl_at_op(p, "]")) {
        if (list.n) sl_tpl_expect_op(p, ",");
        if (sl_tpl_at_op(p, "]")) break;
        sl_tpl_nodes_add(p->heap, &list, sl_tpl_parse_expression(p, true));
    }
    p->at++;
    n->list = list.at;
    n->n = list.n;
    return sl_tpl_node_done(p, n);
}

static sl_tpl_node *parse_dict(sl_tpl_parser *p)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_DICT_OF, p->at->line);
    sl_tpl_nodes list = {0};
    p->at++;
    while (!sl_tpl_at_op(p, "}")) {
        if (list.n) sl_tpl_expect_op(p, ",");
        if (sl_tpl_at_op(p, "}")) break;
        sl_tpl_nodes_add(p->heap, &list, sl_tpl_parse_expression(p, true));
        sl_tpl_expect_op(p, ":");
        sl_tpl_nodes_add(p->heap, &list, sl_tpl_parse_expression(p, true));
    }
    p->at++;
    n->list = list.at;
    n->n = list.n;
    return sl_tpl_node_done(p, n);
}

static sl_tpl_node *parse_tuple_in(sl_tpl_parser *p, bool simple, bool with_cond, const char *ends, bool in_parens,
                                   bool with_namespace);

static sl_tpl_node *parse_primary(sl_tpl_parser *p, bool with_namespace)
{
    const sl_tpl_token *t = p->at;
    sl_tpl_node *n = NULL;
    sl_tpl_enter(p);
    if (t->kind == SL_TPL_T_NAME)
        n = parse_name(p, with_namespace);
    else if (t->kind == SL_TPL_T_STRING)
        n = parse_string(p);
    else if (t->kind == SL_TPL_T_INT || t->kind == SL_TPL_T_FLOAT) {
        p->at++;
        n = constant(p, t->kind == SL_TPL_T_INT ? sl_tpl_int(t->i) : sl_tpl_float(t->f), t->line);
    } else if (sl_tpl_skip_op(p, "(")) {
        n = parse_tuple_in(p, false, true, NULL, true, false);
        sl_tpl_expect_op(p, ")");
    } else if (sl_tpl_at_op(p, "["))
        n = parse_list(p);
    else if (sl_tpl_at_op(p, "{"))
        n = parse_dict(p);
    else
        sl_tpl_unexpected(p, "an expression");
    sl_tpl_leave(p);
    return n;
}

/* ---- what follows a primary ---- */

/* Behind "[": an index or a slice. */
static sl_tpl_node *parse_subscript(sl_tpl_parser *p, sl_tpl_node *object)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_GETITEM, object->line);
    n->a = object;
    if (!sl_tpl_at_op(p, ":")) n->b = sl_tpl_parse_expression(p, true);
    if (sl_tpl_skip_op(p, ":")) {
        n->op = SL_TPL_SLICE;
        if (!sl_tpl_at_op(p, ":") && !sl_tpl_at_op(p, "]")) n->c = sl_tpl_parse_expression(p, true);
        if (sl_tpl_skip_op(p, ":") && !sl_tpl_at_op(p, "]")) n->d = sl_tpl_parse_expression(p, true);
    }
    sl_tpl_expect_op(p, "]");
    return sl_tpl_node_done(p, n);
}

static sl_tpl_node *parse_dot(sl_tpl_parser *p, sl_tpl_node *object)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_GETATTR, object->line);
    n->a = object;
    if (p->at->kind == SL_TPL_T_INT) {
        n->op = SL_TPL_GETITEM;
        n->b = constant(p, sl_tpl_int(p->at->i), p->at->line);
        p->at++;
    } else
        n->name = sl_tpl_expect_word(p);
    return sl_tpl_node_done(p, n);
}

static sl_tpl_node *parse_call(sl_tpl_parser *p, sl_tpl_node *callee)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_CALL, p->at->line);
    n->a = callee;
    parse_arguments(p, n);
    return sl_tpl_node_done(p, n);
}

static sl_tpl_node *parse_postfix(sl_tpl_parser *p, sl_tpl_node *n)
{
    for (;;) {
        if (sl_tpl_skip_op(p, "."))
            n = parse_dot(p, n);
        else if (sl_tpl_skip_op(p, "["))
            n = parse_subscript(p, n);
        else if (sl_tpl_at_op(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
}

static const sl_tpl_str *dotted_word(sl_tpl_parser *p)
{
    const sl_tpl_str *name = sl_tpl_expect_word(p);
    while (sl_tpl_skip_op(p, ".")) {
        const sl_tpl_str *rest = sl_tpl_expect_word(p);
        char *s = sl_tpl_take(p->heap, name->n + rest->n + 2);
        memcpy(s, name->p, name->n);
        s[name->n] = '.';
        memcpy(s + name->n + 1, rest->p, rest->n);
        name = borrow(p, s, name->n + 1 + rest->n);
    }
    return name;
}

_Noreturn static void unsupported(sl_tpl_parser *p, const char *what, const sl_tpl_node *n)
{
    char name[64];
    p->heap->line = n->line;
    sl_tpl_fail(p->heap, SL_ERR_UNSUPPORTED, "the %s '%s' is not supported", what,
                sl_text_show(n->name->p, n->name->n, name));
}

sl_tpl_node *sl_tpl_parse_filters(sl_tpl_parser *p, sl_tpl_node *input, bool start_inline)
{
    while (start_inline || sl_tpl_skip_op(p, "|")) {
        sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_FILTER, p->at->line);
        start_inline = false;
        n->a = input;
        n->name = dotted_word(p);
        n->builtin = sl_tpl_filter_find(n->name);
        if (!n->builtin) unsupported(p, "filter", n);
        if (sl_tpl_at_op(p, "(")) parse_arguments(p, n);
        input = sl_tpl_node_done(p, n);
    }
    return input;
}

/* Behind "is". */
static sl_tpl_node *parse_test(sl_tpl_parser *p, sl_tpl_node *input)
{
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_TEST, p->at->line);
    bool negated = sl_tpl_skip_name(p, "not");
    n->a = input;
    n->name = dotted_word(p);
    n->builtin = sl_tpl_test_find(n->name);
    if (!n->builtin) unsupported(p, "test", n);
    sl_tpl_token_kind kind = p->at->kind;
    bool operand = kind == SL_TPL_T_NAME || kind == SL_TPL_T_STRING || kind == SL_TPL_T_INT ||
                   kind == SL_TPL_T_FLOAT || sl_tpl_at_op(p, "[") || sl_tpl_at_op(p, "{");
    if (sl_tpl_at_name(p, "else") || sl_tpl_at_name(p, "or") || sl_tpl_at_name(p, "and")) operand = false;
    if (sl_tpl_at_op(p, "("))
        parse_arguments(p, n);
    else if (operand) {
        if (sl_tpl_at_name(p, "is")) sl_tpl_unexpected(p, "anything but a second test");
        sl_tpl_nodes list = {0};
        sl_tpl_nodes_add(p->heap, &list, parse_postfix(p, parse_primary(p, false)));
        n->list = list.at;
        n->n = list.n;
    }
    sl_tpl_node_done(p, n);
    return negated ? binary(p, SL_TPL_NOT, n, NULL) : n;
}

static sl_tpl_node *parse_filter_expr(sl_tpl_parser *p, sl_tpl_node *n)
{
    for (;;) {
        if (sl_tpl_at_op(p, "|"))
            n = sl_tpl_parse_filters(p, n, false);
        else if (sl_tpl_skip_name(p, "is"))
            n = parse_test(p, n);
        else if (sl_tpl_at_op(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
}

/* ---- operators ---- */

static sl_tpl_node *parse_unary(sl_tpl_parser *p, bool with_filter)
{
    sl_tpl_node *n;
    sl_tpl_enter(p);
    if (sl_tpl_skip_op(p, "-"))
        n = binary(p, SL_TPL_NEG, parse_unary(p, false), NULL);
    else if (sl_tpl_skip_op(p, "+"))
        n = binary(p, SL_TPL_POS, parse_unary(p, false), NULL);
    else
        n = parse_primary(p, false);
    n = parse_postfix(p, n);
    if (with_filter) n = parse_filter_expr(p, n);
    sl_tpl_leave(p);
    return n;
}

static sl_tpl_node *parse_pow(sl_tpl_parser *p)
{
    sl_tpl_node *n = parse_unary(p, true);
    while (sl_tpl_skip_op(p, "**"))
        n = binary(p, SL_TPL_POW, n, parse_unary(p, true));
    return n;
}

static sl_tpl_node *parse_product(sl_tpl_parser *p)
{
    sl_tpl_node *n = parse_pow(p);
    for (;;) {
        if (sl_tpl_skip_op(p, "*"))
            n = binary(p, SL_TPL_MUL, n, parse_pow(p));
        else if (sl_tpl_skip_op(p, "/"))
            n = binary(p, SL_TPL_DIV, n, parse_pow(p));
        else if (sl_tpl_skip_op(p, "//"))
            n = binary(p, SL_TPL_FLOORDIV, n, parse_pow(p));
        else if (sl_tpl_skip_op(p, "%"))
            n = binary(p, SL_TPL_MOD, n, parse_pow(p));
        else
            return n;
    }
}

static sl_tpl_node *parse_concat(sl_tpl_parser *p)
{
    sl_tpl_node *first = parse_product(p);
    if (!sl_tpl_at_op(p, "~")) return first;
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_CONCAT, first->line);
    sl_tpl_nodes list = {0};
    sl_tpl_nodes_add(p->heap, &list, first);
    while (sl_tpl_skip_op(p, "~"))
        sl_tpl_nodes_add(p->heap, &list, parse_product(p));
    n->list = list.at;
    n->n = list.n;
    return sl_tpl_node_done(p, n);
}

static sl_tpl_node *parse_sum(sl_tpl_parser *p)
{
    sl_tpl_node *n = parse_concat(p);
    for (;;) {
        if (sl_tpl_skip_op(p, "+"))
            n = binary(p, SL_TPL_ADD, n, parse_concat(p));
        else if (sl_tpl_skip_op(p, "-"))
            n = binary(p, SL_TPL_SUB, n, parse_concat(p));
        else
            return n;
    }
}

static bool skip_relation(sl_tpl_parser *p, uint8_t *rel)
{
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
    for (uint8_t i = 0; i < 6; i++) {
        *rel = i;
        if (sl_tpl_skip_op(p, ops[i])) return true;
    }
    *rel = SL_TPL_IN;
    if (sl_tpl_skip_name(p, "in")) return true;
    if (!sl_tpl_at_name(p, "not") || !is_name(p->at + 1, "in")) return false;
    p->at += 2;
    *rel = SL_TPL_NOT_IN;
    return true;
}

static sl_tpl_node *parse_compare(sl_tpl_parser *p)
{
    sl_tpl_node *first = parse_sum(p), *n = NULL;
    sl_tpl_nodes list = {0};
    uint8_t rel, ops[32];
    while (skip_relation(p, &rel)) {
        if (list.n == sizeof ops) sl_tpl_unexpected(p, "the end of so long a comparison");
        if (!n) n = sl_tpl_node_new(p, SL_TPL_COMPARE, first->line);
        ops[list.n] = rel;
        sl_tpl_nodes_add(p->heap, &list, parse_sum(p));
    }
    if (!n) return first;
    n->a = first;
    n->list = list.at;
    n->n = list.n;
    uint8_t *own = sl_tpl_take(p->heap, list.n);
    memcpy(own, ops, list.n);
    n->ops = own;
    return sl_tpl_node_done(p, n);
}

static sl_tpl_node *parse_not(sl_tpl_parser *p)
{
    if (!sl_tpl_skip_name(p, "not")) return parse_compare(p);
    sl_tpl_enter(p);
    sl_tpl_node *n = binary(p, SL_TPL_NOT, parse_not(p), NULL);
    sl_tpl_leave(p);
    return n;
}

static sl_tpl_node *parse_and(sl_tpl_parser *p)
{
    sl_tpl_node *n = parse_not(p);
    while (sl_tpl_skip_name(p, "and"))
        n = binary(p, SL_TPL_AND, n, parse_not(p));
    return n;
}

static sl_tpl_node *parse_or(sl_tpl_parser *p)
{
    sl_tpl_node *n = parse_and(p);
    while (sl_tpl_skip_name(p, "or"))
        n = binary(p, SL_TPL_OR, n, parse_and(p));
    return n;
}

static sl_tpl_node *parse_cond(sl_tpl_parser *p)
{
    sl_tpl_enter(p);
    sl_tpl_node *value = parse_or(p);
    while (sl_tpl_skip_name(p, "if")) {
        sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_COND, value->line);
        n->a = value;
        n->b = parse_or(p);
        if (sl_tpl_skip_name(p, "else")) n->c = parse_cond(p);
        value = sl_tpl_node_done(p, n);
    }
    sl_tpl_leave(p);
    return value;
}

sl_tpl_node *sl_tpl_parse_expression(sl_tpl_parser *p, bool with_cond)
{
    return with_cond ? parse_cond(p) : parse_or(p);
}

/* ---- tuples and targets ---- */

static bool at_tuple_end(const sl_tpl_parser *p, const char *ends)
{
    return p->at->kind == SL_TPL_T_VARIABLE_END || p->at->kind == SL_TPL_T_BLOCK_END || sl_tpl_at_op(p, ")") ||
           (ends && sl_tpl_at_name(p, ends));
}

static sl_tpl_node *parse_tuple_in(sl_tpl_parser *p, bool simple, bool with_cond, const char *ends, bool in_parens,
                                   bool with_namespace)
{
    sl_tpl_nodes list = {0};
    bool is_tuple = false;
    uint32_t line = p->at->line;
    for (;;) {
        if (list.n) sl_tpl_expect_op(p, ",");
        if (at_tuple_end(p, ends)) break;
        sl_tpl_nodes_add(p->heap, &list,
                         simple ? parse_primary(p, with_namespace) : sl_tpl_parse_expression(p, with_cond));
        if (!sl_tpl_at_op(p, ",")) break;
        is_tuple = true;
    }
    if (!is_tuple && list.n) return list.at[0];
    if (!is_tuple && !in_parens) sl_tpl_unexpected(p, "an expression");
    sl_tpl_node *n = sl_tpl_node_new(p, SL_TPL_TUPLE_OF, line);
    n->list = list.at;
    n->n = list.n;
    return sl_tpl_node_done(p, n);
}

sl_tpl_node *sl_tpl_parse_tuple(sl_tpl_parser *p, bool with_cond, const char *ends)
{
    return parse_tuple_in(p, false, with_cond, ends, false, false);
}

static void check_target(sl_tpl_parser *p, const sl_tpl_node *n)
{
    for (uint32_t i = 0; n->op == SL_TPL_TUPLE_OF && i < n->n; i++)
        check_target(p, n->list[i]);
    p->heap->line = n->line;
    if (n->op != SL_TPL_TUPLE_OF && n->op != SL_TPL_NAME && n->op != SL_TPL_NSREF)
        sl_tpl_fail(p->heap, SL_ERR_FORMAT, "a value is assigned to something that is no name");
}

sl_tpl_node *sl_tpl_parse_target(sl_tpl_parser *p, bool with_namespace, const char *ends)
{
    sl_tpl_node *n = parse_tuple_in(p, true, false, ends, false, with_namespace);
    check_target(p, n);
    return n;
}
