/* Inside the template engine: memory, values, syntax tree, and what the files share.
 *
 * Failing: every function here may leave by longjmp to the one place that began the work (compile or render), where the
 * whole heap is given back.  Nothing that must be freed by hand is held across a call, which is what makes this safe,
 * and it keeps a language with errors at every operation readable.
 *
 * Where text came from: each byte of a string is the template's or the user's (sl_tpl_str); every operation carries
 * that along.  A control token in the prompt counts only where the template wrote all of it. */
#ifndef SL_TEXT_TEMPLATE_INT_H
#define SL_TEXT_TEMPLATE_INT_H

#include "text/template/template.h"

#include <setjmp.h>
#include <string.h>

/* ---- memory ---- */

typedef struct sl_tpl_chunk sl_tpl_chunk;
typedef struct {
    sl_tpl_chunk *chunks;
    size_t used, max_bytes;
    const char *name; /* of the template, for messages */
    uint32_t line;
    jmp_buf back;
    sl_status rc;
    sl_err *err;
} sl_tpl_heap;
void *sl_tpl_take(sl_tpl_heap *h, size_t bytes); /* zeroed, aligned for any value */
void sl_tpl_heap_free(sl_tpl_heap *h);
/* Fails with "NAME, line N: ..." */
_Noreturn void sl_tpl_fail(sl_tpl_heap *h, sl_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Fails with these words alone. */
_Noreturn void sl_tpl_refuse(sl_tpl_heap *h, sl_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- values ---- */

typedef enum {
    SL_TPL_MISSING, /* a variable or argument that was not given; never seen by a template */
    SL_TPL_UNDEFINED,
    SL_TPL_NONE,
    SL_TPL_BOOL,
    SL_TPL_INT,
    SL_TPL_FLOAT,
    SL_TPL_STR,
    SL_TPL_LIST,
    SL_TPL_TUPLE,
    SL_TPL_DICT,
    SL_TPL_KEYS, /* views of a dict, in the order of sub-kinds */
    SL_TPL_VALUES,
    SL_TPL_ITEMS,
    SL_TPL_RANGE,
    SL_TPL_ITER, /* what generators become: consumed by iterating, no length */
    SL_TPL_NAMESPACE,
    SL_TPL_LOOP,
    SL_TPL_MACRO,
    SL_TPL_FUNCTION, /* a global function, or a method with its object */
    SL_TPL_JOINER,
} sl_tpl_kind;

typedef struct sl_tpl_str sl_tpl_str;
typedef struct sl_tpl_list sl_tpl_list;
typedef struct sl_tpl_range sl_tpl_range;
typedef struct sl_tpl_iter sl_tpl_iter;
typedef struct sl_tpl_loop sl_tpl_loop;
typedef struct sl_tpl_macro sl_tpl_macro;
typedef struct sl_tpl_function sl_tpl_function;
typedef struct sl_tpl_undef sl_tpl_undef;

typedef struct {
    sl_tpl_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const sl_tpl_str *s;
        sl_tpl_list *l;
        sl_tpl_dict *d; /* dicts, views, namespaces */
        const sl_tpl_range *range;
        sl_tpl_iter *iter;
        sl_tpl_loop *loop;
        const sl_tpl_macro *macro;
        const sl_tpl_function *function;
        const sl_tpl_undef *u;
    };
} sl_tpl_value;

/* A buffer that the string ending at `used` may grow into, so that appending in a loop is linear. */
typedef struct {
    char *p;
    uint8_t *mask; /* NULL: nothing here is mixed */
    size_t used, cap;
} sl_tpl_tail;

/* Immutable UTF-8.  mask[i] is 1 where byte i is the user's; NULL: all as `user` says. */
struct sl_tpl_str {
    const char *p;
    size_t n;
    const uint8_t *mask;
    sl_tpl_tail *tail; /* NULL: not at the end of one */
    bool user;
    bool safe; /* Jinja's Markup: "+" escapes what is added to it */
};

struct sl_tpl_list {
    sl_tpl_value *at;
    size_t n, cap;
    bool frozen; /* came in from outside: the template may not change it */
};

typedef struct {
    sl_tpl_value key, value;
    uint64_t hash;
} sl_tpl_entry;
/* In the order of insertion. */
struct sl_tpl_dict {
    sl_tpl_entry *at;
    size_t n, cap;
    uint32_t *slots; /* NULL while small; index + 1 of an entry */
    size_t n_slot;
    bool frozen;
};

struct sl_tpl_range {
    int64_t start, step;
    uint64_t n;
};

struct sl_tpl_iter {
    sl_tpl_value source; /* never an ITER */
    size_t pos;          /* of strings: a byte; else an element */
};

/* Why a value is undefined, for the message when it is used. */
struct sl_tpl_undef {
    const char *hint; /* the whole message, or NULL */
    sl_tpl_value object; /* MISSING: a variable */
    sl_tpl_value name;
    bool unsafe; /* using it is forbidden, not a lookup that failed */
};

typedef struct {
    const sl_tpl_value *at;
    size_t n;
    const sl_tpl_str *const *names; /* of the keyword arguments */
    const sl_tpl_value *named;
    size_t n_named;
} sl_tpl_args;

/* A built-in filter, test, method or function.  params: names with blanks between; NULL: takes what comes, in raw.
 * arg[i] is MISSING where not given, which the first n_required are not. */
typedef sl_tpl_value (*sl_tpl_fn)(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_value *arg, const sl_tpl_args *raw);
typedef struct {
    const char *name;
    sl_tpl_fn fn;
    const char *params;
    uint32_t n_required;
} sl_tpl_builtin;
enum { SL_TPL_MAX_PARAMS = 6 };
struct sl_tpl_function {
    const sl_tpl_builtin *builtin;
    sl_tpl_value self;
};

/* ---- syntax tree ---- */

typedef enum {
    /* expressions */
    SL_TPL_CONST,
    SL_TPL_NAME,
    SL_TPL_NSREF, /* ns.x as a target */
    SL_TPL_TUPLE_OF,
    SL_TPL_LIST_OF,
    SL_TPL_DICT_OF, /* list: key, value, key, value ... */
    SL_TPL_COND,    /* a if b else c */
    SL_TPL_OR,
    SL_TPL_AND,
    SL_TPL_NOT,
    SL_TPL_COMPARE, /* a, then list: operands; ops: their operators */
    SL_TPL_ADD,
    SL_TPL_SUB,
    SL_TPL_MUL,
    SL_TPL_DIV,
    SL_TPL_FLOORDIV,
    SL_TPL_MOD,
    SL_TPL_POW,
    SL_TPL_CONCAT, /* list */
    SL_TPL_NEG,
    SL_TPL_POS,
    SL_TPL_GETATTR, /* a.name */
    SL_TPL_GETITEM, /* a[b] */
    SL_TPL_SLICE,   /* a[b:c:d] */
    SL_TPL_CALL,    /* a(args) */
    SL_TPL_FILTER,  /* a | name(args) */
    SL_TPL_TEST,    /* a is name(args) */
    /* statements */
    SL_TPL_OUTPUT, /* list: expressions */
    SL_TPL_FOR,    /* a in b if c: body else other */
    SL_TPL_IF,     /* a: body; other: what follows elif and else */
    SL_TPL_SET,    /* a = b */
    SL_TPL_SET_BLOCK, /* a = body, filtered by b */
    SL_TPL_WITH,      /* list: targets, values alternating */
    SL_TPL_MACRO_DEF,
    SL_TPL_CALL_BLOCK, /* a: the call */
    SL_TPL_FILTER_BLOCK,
    SL_TPL_SCOPE, /* body in a scope of its own, its output taken as one string (generation) */
    SL_TPL_BREAK,
    SL_TPL_CONTINUE,
} sl_tpl_op;

typedef enum { SL_TPL_EQ, SL_TPL_NE, SL_TPL_LT, SL_TPL_LE, SL_TPL_GT, SL_TPL_GE, SL_TPL_IN, SL_TPL_NOT_IN } sl_tpl_rel;

/* How a variable of a scope begins (names.c). */
typedef enum { SL_TPL_BY_PARAM, SL_TPL_BY_LOOKUP, SL_TPL_BY_OUTER, SL_TPL_BY_NOTHING } sl_tpl_begin;
typedef struct {
    const sl_tpl_str *name;
    sl_tpl_begin begin;
    uint32_t hops, slot; /* BY_OUTER: where, counted from the parent */
} sl_tpl_var;
typedef struct sl_tpl_scope {
    struct sl_tpl_scope *parent;
    sl_tpl_var *vars;
    uint32_t n, cap;
} sl_tpl_scope;

typedef struct sl_tpl_node {
    uint8_t op;
    bool recursive;     /* FOR */
    bool has_dyn_args;  /* the last of list is *args */
    bool has_dyn_named; /* the last of named is **kwargs */
    uint16_t depth;     /* of the tree below */
    uint32_t line;
    struct sl_tpl_node *a, *b, *c, *d;
    struct sl_tpl_node **list; /* operands, arguments, parameters */
    uint32_t n;
    uint32_t n_default; /* MACRO_DEF, CALL_BLOCK: the last of the parameters that have one, in named */
    struct sl_tpl_node **named; /* keyword arguments; defaults of parameters */
    const sl_tpl_str **names;   /* their names */
    uint32_t n_named;
    struct sl_tpl_node **body, **other; /* statements */
    uint32_t n_body, n_other;
    const sl_tpl_str *name;
    const uint8_t *ops; /* of COMPARE: sl_tpl_rel */
    sl_tpl_value value; /* CONST */
    const sl_tpl_builtin *builtin; /* FILTER, TEST; NULL: unknown, fails when it is reached */
    const sl_tpl_undef *undef;     /* NAME: what it is when it has no value */
    uint32_t hops, slot;           /* NAME, NSREF */
    sl_tpl_scope *scope, *test_scope, *else_scope;
    int32_t loop_slot, caller_slot, kwargs_slot, varargs_slot; /* in scope; -1: not used */
} sl_tpl_node;

struct sl_tpl {
    sl_tpl_heap heap;
    char *name;
    const char *text; /* newlines normalised */
    size_t n_bytes;
    sl_tpl_node **body;
    uint32_t n_body;
    sl_tpl_scope *scope;
};

/* ---- lexer.c ---- */

typedef enum {
    SL_TPL_T_END,
    SL_TPL_T_DATA,
    SL_TPL_T_VARIABLE_BEGIN,
    SL_TPL_T_VARIABLE_END,
    SL_TPL_T_BLOCK_BEGIN,
    SL_TPL_T_BLOCK_END,
    SL_TPL_T_NAME,
    SL_TPL_T_STRING,
    SL_TPL_T_INT,
    SL_TPL_T_FLOAT,
    SL_TPL_T_OPERATOR,
} sl_tpl_token_kind;
typedef struct {
    sl_tpl_token_kind kind;
    uint32_t line;
    char op[3];  /* OPERATOR: as written */
    const char *p; /* NAME, DATA; STRING: unescaped */
    size_t n;
    int64_t i;
    double f;
} sl_tpl_token;
typedef struct {
    sl_tpl_token *at;
    size_t n, cap;
} sl_tpl_tokens;
/* Cuts the whole template; the last token is END. */
void sl_tpl_lex(sl_tpl_heap *h, const char *text, size_t n_bytes, sl_tpl_tokens *out);

/* ---- parser.c, parse_expr.c, names.c ---- */

typedef struct {
    sl_tpl_heap *heap;
    const sl_tpl_token *at; /* the next token */
    uint32_t depth;
    uint32_t n_loop; /* for loops around */
} sl_tpl_parser;
void sl_tpl_parse(sl_tpl_heap *h, const sl_tpl_tokens *tokens, sl_tpl *t);
sl_tpl_node *sl_tpl_node_new(sl_tpl_parser *p, sl_tpl_op op, uint32_t line);
/* To be called once the children stand: bounds the depth of the tree. */
sl_tpl_node *sl_tpl_node_done(sl_tpl_parser *p, sl_tpl_node *n);
typedef struct {
    sl_tpl_node **at;
    uint32_t n, cap;
} sl_tpl_nodes;
void sl_tpl_nodes_add(sl_tpl_heap *h, sl_tpl_nodes *l, sl_tpl_node *n);
sl_tpl_node *sl_tpl_parse_expression(sl_tpl_parser *p, bool with_cond);
/* One expression, or a tuple.  ends: a name that may follow a last comma, or NULL. */
sl_tpl_node *sl_tpl_parse_tuple(sl_tpl_parser *p, bool with_cond, const char *ends);
sl_tpl_node *sl_tpl_parse_target(sl_tpl_parser *p, bool with_namespace, const char *ends);
sl_tpl_node *sl_tpl_parse_filters(sl_tpl_parser *p, sl_tpl_node *input, bool start_inline);
void sl_tpl_enter(sl_tpl_parser *p); /* bounds recursion; leave when done */
void sl_tpl_leave(sl_tpl_parser *p);
bool sl_tpl_at_op(const sl_tpl_parser *p, const char *op);
bool sl_tpl_at_name(const sl_tpl_parser *p, const char *name);
bool sl_tpl_skip_op(sl_tpl_parser *p, const char *op);
bool sl_tpl_skip_name(sl_tpl_parser *p, const char *name);
void sl_tpl_expect_op(sl_tpl_parser *p, const char *op);
void sl_tpl_expect_name(sl_tpl_parser *p, const char *name);
const sl_tpl_str *sl_tpl_expect_word(sl_tpl_parser *p);
_Noreturn void sl_tpl_unexpected(sl_tpl_parser *p, const char *wanted);

void sl_tpl_resolve_names(sl_tpl *t);

/* ---- running ---- */

typedef struct sl_tpl_env {
    struct sl_tpl_env *parent;
    sl_tpl_value at[];
} sl_tpl_env;

struct sl_tpl_macro {
    const sl_tpl_node *node;
    const sl_tpl_str *name; /* NULL: of a call block */
    sl_tpl_env *env;
};

/* Text being put together. */
typedef struct {
    char *p;
    uint8_t *mask;  /* NULL until mixed */
    size_t n, cap;
    bool user;      /* of all bytes while mask is NULL */
} sl_tpl_text;

struct sl_tpl_run {
    sl_tpl_heap heap;
    const sl_tpl *t;
    sl_tpl_dict *vars;
    sl_tpl_text *out; /* where output goes now */
    uint32_t depth;
    uint64_t steps;
    int64_t now_s;
    uint64_t deadline_ns; /* set at the first look at the clock */
    uint32_t max_ms;
};

/* Counts n steps of work; fails at the limits of steps and time. */
void sl_tpl_tick(sl_tpl_run *r, size_t n);
void sl_tpl_down(sl_tpl_run *r); /* one level deeper; fails at the limit */
static inline void sl_tpl_up(sl_tpl_run *r)
{
    r->depth--;
}
_Noreturn void sl_tpl_type_error(sl_tpl_run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Using an undefined value. */
_Noreturn void sl_tpl_use_undefined(sl_tpl_run *r, sl_tpl_value v);

/* ---- value.c, dict.c ---- */

static inline sl_tpl_value sl_tpl_none(void)
{
    return (sl_tpl_value){.kind = SL_TPL_NONE};
}
static inline sl_tpl_value sl_tpl_bool(bool b)
{
    return (sl_tpl_value){.kind = SL_TPL_BOOL, .b = b};
}
static inline sl_tpl_value sl_tpl_int(int64_t i)
{
    return (sl_tpl_value){.kind = SL_TPL_INT, .i = i};
}
static inline sl_tpl_value sl_tpl_float(double f)
{
    return (sl_tpl_value){.kind = SL_TPL_FLOAT, .f = f};
}
static inline sl_tpl_value sl_tpl_of_str(const sl_tpl_str *s)
{
    return (sl_tpl_value){.kind = SL_TPL_STR, .s = s};
}
static inline bool sl_tpl_given(sl_tpl_value v)
{
    return v.kind != SL_TPL_MISSING;
}
static inline bool sl_tpl_is_integral(sl_tpl_value v)
{
    return v.kind == SL_TPL_INT || v.kind == SL_TPL_BOOL;
}
static inline int64_t sl_tpl_integral(sl_tpl_value v)
{
    return v.kind == SL_TPL_BOOL ? v.b : v.i;
}
static inline bool sl_tpl_is_number(sl_tpl_value v)
{
    return sl_tpl_is_integral(v) || v.kind == SL_TPL_FLOAT;
}
static inline double sl_tpl_number(sl_tpl_value v)
{
    return v.kind == SL_TPL_FLOAT ? v.f : (double)sl_tpl_integral(v);
}
sl_tpl_value sl_tpl_undefined(sl_tpl_run *r, const char *hint);
sl_tpl_value sl_tpl_undefined_of(sl_tpl_run *r, sl_tpl_value object, sl_tpl_value name);
const char *sl_tpl_type_name(sl_tpl_value v); /* Python's */

const sl_tpl_str *sl_tpl_str_new(sl_tpl_heap *h, const char *p, size_t n, bool user); /* copies */
sl_tpl_value sl_tpl_text_value(sl_tpl_run *r, const char *p); /* template's own, borrowed */
sl_tpl_list *sl_tpl_list_new(sl_tpl_run *r, size_t cap);
void sl_tpl_list_add(sl_tpl_run *r, sl_tpl_list *l, sl_tpl_value v);
sl_tpl_value sl_tpl_list_value(sl_tpl_list *l);
sl_tpl_value sl_tpl_tuple2(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b);
sl_tpl_value sl_tpl_iter_value(sl_tpl_run *r, sl_tpl_value source);

sl_tpl_dict *sl_tpl_dict_new(sl_tpl_run *r);
void sl_tpl_dict_set(sl_tpl_run *r, sl_tpl_dict *d, sl_tpl_value key, sl_tpl_value value);
/* NULL: absent.  Fails when the key is not hashable. */
sl_tpl_value *sl_tpl_dict_get(sl_tpl_run *r, const sl_tpl_dict *d, sl_tpl_value key);
sl_tpl_value *sl_tpl_dict_find(sl_tpl_run *r, const sl_tpl_dict *d, const char *key);
void sl_tpl_dict_put(sl_tpl_run *r, sl_tpl_dict *d, const char *key, sl_tpl_value value); /* key: borrowed */
bool sl_tpl_dict_remove(sl_tpl_run *r, sl_tpl_dict *d, sl_tpl_value key);

bool sl_tpl_truth(sl_tpl_run *r, sl_tpl_value v);
bool sl_tpl_equal(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b);
/* Python's <: -1, 0, 1; fails when the types have no order.  what: the operator, for the message. */
int sl_tpl_order(sl_tpl_run *r, sl_tpl_value a, sl_tpl_value b, const char *what);
bool sl_tpl_hashable(sl_tpl_value v);
uint64_t sl_tpl_hash(sl_tpl_run *r, sl_tpl_value v);
bool sl_tpl_contains(sl_tpl_run *r, sl_tpl_value container, sl_tpl_value item);
/* len(); false when the type has none. */
bool sl_tpl_length(sl_tpl_value v, size_t *n);
bool sl_tpl_iterable(sl_tpl_value v);
/* Fails when v is not iterable. */
sl_tpl_iter sl_tpl_iterate(sl_tpl_run *r, sl_tpl_value v);
bool sl_tpl_next(sl_tpl_run *r, sl_tpl_iter *it, sl_tpl_value *out);
sl_tpl_list *sl_tpl_to_list(sl_tpl_run *r, sl_tpl_value v); /* a new one */

/* ---- str.c ---- */

void sl_tpl_add(sl_tpl_run *r, sl_tpl_text *t, const char *p, size_t n, bool user);
void sl_tpl_add_str(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_str *s);
void sl_tpl_add_slice(sl_tpl_run *r, sl_tpl_text *t, const sl_tpl_str *s, size_t from, size_t to);
void sl_tpl_add_c(sl_tpl_run *r, sl_tpl_text *t, const char *literal);
const sl_tpl_str *sl_tpl_text_str(sl_tpl_run *r, const sl_tpl_text *t);
sl_tpl_value sl_tpl_text_done(sl_tpl_run *r, const sl_tpl_text *t);
const sl_tpl_str *sl_tpl_str_concat(sl_tpl_run *r, const sl_tpl_str *a, const sl_tpl_str *b);
const sl_tpl_str *sl_tpl_str_slice(sl_tpl_run *r, const sl_tpl_str *s, size_t from, size_t to); /* bytes */
bool sl_tpl_str_is(const sl_tpl_str *s, const char *literal);
bool sl_tpl_str_user(const sl_tpl_str *s); /* any byte of it */
bool sl_tpl_str_same(const sl_tpl_str *a, const sl_tpl_str *b);
size_t sl_tpl_str_chars(const sl_tpl_str *s);
/* Byte position of character i (clamped to the end). */
size_t sl_tpl_str_at(const sl_tpl_str *s, size_t i);
size_t sl_tpl_char_len(const char *p); /* of valid UTF-8 */
/* First place of needle at or behind from; SIZE_MAX: none. */
size_t sl_tpl_str_find(const sl_tpl_str *s, const sl_tpl_str *needle, size_t from);
bool sl_tpl_is_space(uint32_t cp);  /* as Python's str.isspace */
bool sl_tpl_ends_line(uint32_t cp); /* as Python's str.splitlines */
enum { SL_TPL_LEFT = 1, SL_TPL_RIGHT = 2 };
/* chars: NULL for white space. */
const sl_tpl_str *sl_tpl_str_strip(sl_tpl_run *r, const sl_tpl_str *s, const sl_tpl_str *chars, unsigned sides);
const sl_tpl_str *sl_tpl_str_replace(sl_tpl_run *r, const sl_tpl_str *s, const sl_tpl_str *from, const sl_tpl_str *to,
                                     int64_t count);
const sl_tpl_str *sl_tpl_str_escape(sl_tpl_run *r, const sl_tpl_str *s); /* HTML */
const sl_tpl_str *sl_tpl_str_mark_safe(sl_tpl_run *r, const sl_tpl_str *s, bool safe);

/* ---- cases.c ---- */

typedef enum { SL_TPL_UPPER, SL_TPL_LOWER, SL_TPL_TITLE, SL_TPL_CAPITAL, SL_TPL_SWAP } sl_tpl_case;
const sl_tpl_str *sl_tpl_str_case(sl_tpl_run *r, const sl_tpl_str *s, sl_tpl_case how);

/* ---- show.c, json.c ---- */

void sl_tpl_show(sl_tpl_run *r, sl_tpl_text *t, sl_tpl_value v);  /* str() */
void sl_tpl_repr(sl_tpl_run *r, sl_tpl_text *t, sl_tpl_value v);
const sl_tpl_str *sl_tpl_to_str(sl_tpl_run *r, sl_tpl_value v);
void sl_tpl_show_float(double f, char buf[32]);
typedef struct {
    bool ascii, sort_keys;
    bool has_indent;
    const sl_tpl_str *indent;           /* the text of one level */
    const sl_tpl_str *item, *key;       /* separators */
} sl_tpl_json_style;
sl_tpl_value sl_tpl_to_json(sl_tpl_run *r, sl_tpl_value v, const sl_tpl_json_style *style);
/* Builds a value from JSON; its strings are the user's.  what: for the message; code: of the failure. */
sl_tpl_value sl_tpl_from_json(sl_tpl_run *r, const char *what, const char *json, size_t n_bytes, bool frozen,
                              sl_status code);

/* ---- format.c ---- */

sl_tpl_value sl_tpl_percent(sl_tpl_run *r, const sl_tpl_str *format, sl_tpl_value args);
sl_tpl_value sl_tpl_brace_format(sl_tpl_run *r, const sl_tpl_str *format, const sl_tpl_args *args);

/* ---- operators.c ---- */

sl_tpl_value sl_tpl_arith(sl_tpl_run *r, sl_tpl_op op, sl_tpl_value a, sl_tpl_value b);
sl_tpl_value sl_tpl_negate(sl_tpl_run *r, sl_tpl_value v, bool minus);
bool sl_tpl_compare(sl_tpl_run *r, sl_tpl_rel rel, sl_tpl_value a, sl_tpl_value b);
sl_tpl_value sl_tpl_getitem(sl_tpl_run *r, sl_tpl_value object, sl_tpl_value key);
sl_tpl_value sl_tpl_getattr(sl_tpl_run *r, sl_tpl_value object, const sl_tpl_str *name);
sl_tpl_value sl_tpl_slice(sl_tpl_run *r, sl_tpl_value object, sl_tpl_value from, sl_tpl_value to, sl_tpl_value step);

/* ---- eval.c, exec.c, call.c, loop.c ---- */

typedef enum { SL_TPL_GO_ON, SL_TPL_GO_BREAK, SL_TPL_GO_CONTINUE } sl_tpl_flow;
sl_tpl_value sl_tpl_eval(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env);
sl_tpl_flow sl_tpl_exec(sl_tpl_run *r, sl_tpl_node *const *body, uint32_t n, sl_tpl_env *env);
void sl_tpl_assign(sl_tpl_run *r, const sl_tpl_node *target, sl_tpl_value v, sl_tpl_env *env);
sl_tpl_env *sl_tpl_env_new(sl_tpl_run *r, const sl_tpl_scope *s, sl_tpl_env *parent);
/* Begins its variables, but not the parameters. */
void sl_tpl_env_begin(sl_tpl_run *r, sl_tpl_env *env, const sl_tpl_scope *s);
sl_tpl_value sl_tpl_call(sl_tpl_run *r, sl_tpl_value f, const sl_tpl_args *args);
sl_tpl_value sl_tpl_call_builtin(sl_tpl_run *r, const sl_tpl_builtin *b, sl_tpl_value self, const sl_tpl_args *args);
sl_tpl_value sl_tpl_call_macro(sl_tpl_run *r, const sl_tpl_macro *m, const sl_tpl_args *args);
sl_tpl_value sl_tpl_call_loop(sl_tpl_run *r, const sl_tpl_loop *l, const sl_tpl_args *args);
sl_tpl_flow sl_tpl_exec_for(sl_tpl_run *r, const sl_tpl_node *n, sl_tpl_env *env);
/* loop.NAME; MISSING when there is no such attribute. */
sl_tpl_value sl_tpl_loop_attr(sl_tpl_run *r, sl_tpl_loop *l, const sl_tpl_str *name, sl_tpl_value self);
size_t sl_tpl_loop_length(sl_tpl_run *r, sl_tpl_loop *l);
/* The value of a dotted path, as the attribute= of filters. */
sl_tpl_value sl_tpl_path(sl_tpl_run *r, sl_tpl_value v, sl_tpl_value path);

/* ---- tables ---- */

const sl_tpl_builtin *sl_tpl_filter_find(const sl_tpl_str *name);
const sl_tpl_builtin *sl_tpl_test_find(const sl_tpl_str *name);
/* MISSING: the type has no such method. */
sl_tpl_value sl_tpl_method(sl_tpl_run *r, sl_tpl_value self, const sl_tpl_str *name);
sl_tpl_value sl_tpl_global(sl_tpl_run *r, const sl_tpl_str *name);
bool sl_tpl_run_test(sl_tpl_run *r, const sl_tpl_builtin *b, sl_tpl_value v, const sl_tpl_args *args);
const sl_tpl_builtin *sl_tpl_builtin_in(const sl_tpl_builtin *table, size_t n, const sl_tpl_str *name);
/* The filters about sequences (filters_seq.c). */
extern const sl_tpl_builtin sl_tpl_seq_filters[];
extern const size_t sl_tpl_n_seq_filters;
extern const sl_tpl_builtin sl_tpl_str_methods[], sl_tpl_list_methods[], sl_tpl_dict_methods[];
extern const size_t sl_tpl_n_str_methods, sl_tpl_n_list_methods, sl_tpl_n_dict_methods;

#endif
