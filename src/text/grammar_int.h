/* Inside the room: building grammars.  The four front ends (grammar_json.c and grammar_schema*.c, grammar_regex.c,
 * grammar_gbnf.c) draw edges into a builder; grammar_finish.c checks the graph and freezes it; guide*.c walk it.
 *
 * A rule is a graph of states from its start to its end.  Four kinds of edges: empty, a range of bytes, a set of
 * characters (becomes bytes when frozen), a call of a rule. */
#ifndef SL_GRAMMAR_INT_H
#define SL_GRAMMAR_INT_H

#include "text/grammar.h"

enum {
    SL_GRAM_MAX_TEXT_BYTES = 1 << 20, /* of a schema, expression or grammar */
    SL_GRAM_MAX_STATES = 1 << 17,
    SL_GRAM_MAX_EDGES = 1 << 18,
    SL_GRAM_MAX_RULES = 1 << 12,
    SL_GRAM_MAX_REPEAT = 10000, /* {m,n}, minLength, maxItems ... */
    SL_GRAM_MAX_NEST = 64,      /* parentheses; schemas inside schemas without a property between */
    SL_GRAM_MAX_STACK = 512,    /* open calls of a text: a nesting of about 170 in JSON */
    SL_GRAM_INLINE_STATES = 48, /* rules up to this size without loops are copied into their callers (GBNF) */
};
#define SL_GRAM_NONE UINT32_MAX

/* ---- sets of characters ---- */

typedef struct {
    uint32_t lo, hi;
} sl_cp_range;
typedef struct {
    sl_cp_range *r;
    uint32_t n, cap;
    bool failed; /* sticky: no memory */
} sl_cp_set;
void sl_cp_add(sl_cp_set *s, uint32_t lo, uint32_t hi);
void sl_cp_add_set(sl_cp_set *s, const sl_cp_set *other);
void sl_cp_normalise(sl_cp_set *s); /* sorted, disjoint, not touching */
void sl_cp_negate(sl_cp_set *s);    /* over U+0000 to U+10FFFF */
void sl_cp_free(sl_cp_set *s);
/* What \d \w \s stand for (ECMA-262); letter is lower case. */
void sl_cp_add_escape(sl_cp_set *s, char letter);
/* \p{name}: general categories by one or two letters; false: no such category. */
bool sl_cp_add_property(sl_cp_set *s, const char *name, size_t n_bytes);

/* ---- builder ---- */

typedef enum { SL_EDGE_EMPTY, SL_EDGE_BYTES, SL_EDGE_CHARS, SL_EDGE_JSON_CHARS, SL_EDGE_CALL, SL_EDGE_END } sl_edge_kind;
typedef struct {
    uint32_t to, next; /* next: of the same state */
    uint32_t arg;      /* rule of a CALL, set of CHARS */
    uint8_t kind, lo, hi;
} sl_gram_edge;
typedef struct {
    uint32_t start, end;
    const char *name; /* borrowed; NULL: none */
    uint32_t n_name;
} sl_gram_rule;
typedef struct {
    uint32_t off, n;
} sl_gram_set;

/* Failure is sticky: after one, every drawing call does nothing and returns 0. */
typedef struct {
    uint32_t *head; /* [n_state] first edge */
    uint32_t n_state, cap_state;
    sl_gram_edge *edges;
    uint32_t n_edge, cap_edge;
    sl_gram_rule *rules;
    uint32_t n_rule, cap_rule;
    sl_cp_range *ranges; /* of all sets */
    uint32_t n_range, cap_range;
    sl_gram_set *sets;
    uint32_t n_set, cap_set;
    uint32_t root; /* rule */
    bool inline_rules;
    const char *what; /* for messages: "schema", "regular expression", "grammar" */
    uint64_t used_bytes, max_bytes;
    sl_status rc;
    sl_err *err;
} sl_gram_builder;

void sl_gb_init(sl_gram_builder *b, const char *what, uint64_t max_bytes, sl_err *err);
void sl_gb_free(sl_gram_builder *b);
/* The first failure counts; returns it. */
sl_status sl_gb_fail(sl_gram_builder *b, sl_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Room for one more element in an array of the builder's accounting; false: failed. */
bool sl_gb_grow(sl_gram_builder *b, void **array, uint32_t n, uint32_t *cap, size_t elem_bytes);

uint32_t sl_gb_state(sl_gram_builder *b);
uint32_t sl_gb_rule(sl_gram_builder *b); /* a rule with a start and an end, nothing between */
void sl_gb_empty(sl_gram_builder *b, uint32_t from, uint32_t to);
void sl_gb_bytes(sl_gram_builder *b, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
void sl_gb_call(sl_gram_builder *b, uint32_t from, uint32_t rule, uint32_t to);
/* A character of the set; json: as it stands in a JSON string (quotes, backslashes, controls escaped). */
void sl_gb_chars(sl_gram_builder *b, uint32_t from, uint32_t set, bool json, uint32_t to);
/* These bytes; returns the state behind them. */
uint32_t sl_gb_literal(sl_gram_builder *b, uint32_t from, const char *bytes, size_t n_bytes);
/* The number of an interned set; normalises and takes s's contents. */
uint32_t sl_gb_set(sl_gram_builder *b, sl_cp_set *s);
uint32_t sl_gb_set_of_range(sl_gram_builder *b, uint32_t lo, uint32_t hi);

/* A piece of graph: the states from first on, in to out, with no edge to the outside. */
typedef struct {
    uint32_t first, n, in, out;
} sl_gram_part;
sl_gram_part sl_gb_part_begin(sl_gram_builder *b);          /* with a fresh in */
void sl_gb_part_end(sl_gram_builder *b, sl_gram_part *p, uint32_t out); /* all states made since belong to it */
/* The part min to max times (UINT32_MAX: no bound), between from and the state that is returned.  The part is used up. */
uint32_t sl_gb_repeat(sl_gram_builder *b, uint32_t from, const sl_gram_part *p, uint32_t min, uint32_t max);
/* The part, which has only empty and character edges, with its characters counted: between min and max. */
uint32_t sl_gb_count(sl_gram_builder *b, uint32_t from, const sl_gram_part *p, uint32_t min, uint32_t max);

/* Any bytes up to and including the trigger (1 to 255 bytes), from from to to; unless it is required, the text may also end
 * before it, in end. */
void sl_gb_trigger(sl_gram_builder *b, const char *trigger, bool required, uint32_t from, uint32_t to, uint32_t end);

/* Replaces CHARS edges by edges over bytes (grammar_chars.c). */
void sl_gb_expand_chars(sl_gram_builder *b);
/* Copies small rules without loops into their callers: a loop over a rule of one character would otherwise leave and
 * enter the rule at each, and no token's check could be kept (grammar_inline.c). */
void sl_gb_inline_rules(sl_gram_builder *b);

/* ---- frozen ---- */

typedef struct {
    uint32_t to, arg;
    uint8_t kind, lo, hi; /* EMPTY, BYTES, CALL or END */
} sl_gram_arc;

struct sl_gram {
    uint32_t n_state, n_arc, n_rule, n_class, root;
    uint32_t *first;  /* [n_state + 1] arcs of a state */
    sl_gram_arc *arcs;
    uint32_t *start;  /* [n_rule] */
    uint16_t *need;   /* [n_state] open calls that finishing the rule takes at least; SL_GRAM_NEVER: it can't be finished */
    uint8_t class_of[256]; /* bytes that no arc tells apart */
};
#define SL_GRAM_NEVER UINT16_MAX

/* Checks and freezes; the builder stays the caller's. */
sl_status sl_gram_finish(sl_gram **out, sl_gram_builder *b);

/* ---- JSON's own rules, drawn when first asked for ---- */

typedef enum {
    SL_JSON_WS,      /* nothing, a space, or a newline and up to 20 spaces or tabs */
    SL_JSON_TEXT,    /* a string with its quotes */
    SL_JSON_REAL,
    SL_JSON_INTEGER,
    SL_JSON_ANY,
    SL_JSON_MAP,     /* an object of any values */
    SL_JSON_LIST,
    SL_JSON_RULES
} sl_json_rule;
typedef struct {
    sl_gram_builder *b;
    uint32_t rule[SL_JSON_RULES]; /* number + 1; 0: not drawn */
} sl_json_rules;
uint32_t sl_json_rule_get(sl_json_rules *j, sl_json_rule which);
/* Whitespace that may stand here; returns the state behind it. */
uint32_t sl_json_space(sl_json_rules *j, uint32_t from);
/* A colon and the space that may follow. */
uint32_t sl_json_colon(sl_json_rules *j, uint32_t from);
/* from is behind the opening bracket of an object or array; element draws one from a state to the one it returns. */
typedef uint32_t (*sl_json_element)(void *user, uint32_t from);
uint32_t sl_json_elements(sl_json_rules *j, uint32_t from, char close, sl_json_element element, void *user);
/* The text as a JSON string, quotes included. */
uint32_t sl_json_literal(sl_gram_builder *b, uint32_t from, const char *text, size_t n_bytes);

/* ---- front ends: each draws into rule b->root ---- */

void sl_gram_draw_json(sl_gram_builder *b);
void sl_gram_draw_schema(sl_gram_builder *b, const char *text, size_t n_bytes);
void sl_gram_draw_gbnf(sl_gram_builder *b, const char *text, size_t n_bytes);

/* A regular expression between from and the state that is returned.
 *   json      characters are escaped as in a JSON string
 *   search    without ^ or $ anything may stand before or behind (JSON Schema's pattern)
 *   min, max  characters */
typedef struct {
    const char *text;
    size_t n_bytes;
    bool json, search;
    uint32_t min, max; /* 0, UINT32_MAX: any number */
} sl_gram_regex;
uint32_t sl_gram_draw_regex(sl_gram_builder *b, uint32_t from, const sl_gram_regex *re);

/* The bytes of the text with escapes of C (\n, \x..., not printable) for a message: at most 40 characters. */
const char *sl_gram_show(const char *text, size_t n_bytes, char buf[64]);

#endif
