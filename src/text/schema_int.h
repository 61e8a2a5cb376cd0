/* Inside the room: JSON Schema to rules.  A schema that holds at some place is a CONJUNCTION of objects of the document: the
 * object itself, what its $ref and allOf name, and the alternative that was chosen of each anyOf.  Every conjunction becomes
 * one rule, so recursion through $ref is a rule that calls itself.
 *
 *   grammar_schema.c   conjunctions, references, alternatives, types, enum
 *   schema_object.c    objects
 *   schema_scalar.c    arrays, strings; number bounds are in grammar_number.c
 *   grammar_tools.c    tool calls */
#ifndef SL_SCHEMA_INT_H
#define SL_SCHEMA_INT_H

#include "text/grammar_int.h"
#include "base/json.h"

enum { SL_SCHEMA_MAX_PARTS = 16, SL_SCHEMA_MAX_WAYS = 1024, SL_SCHEMA_MAX_PROPERTIES = 2000 };

typedef struct {
    const sl_json *part[SL_SCHEMA_MAX_PARTS];
    uint32_t chosen; /* bit i: an alternative of part i's anyOf or oneOf is in the conjunction */
    uint32_t n;
    bool never; /* false is among them */
} sl_schema_conj;

typedef struct {
    sl_schema_conj conj;
    uint32_t rule;
} sl_schema_entry;

typedef struct {
    sl_gram_builder *b;
    sl_json_rules j;
    const sl_json *root; /* of the document: what $ref begins at */
    sl_schema_entry *entries;
    uint32_t n_entry, cap_entry, n_drawn;
} sl_schema;

enum {
    SL_TYPE_NULL = 1,
    SL_TYPE_BOOLEAN = 2,
    SL_TYPE_INTEGER = 4,
    SL_TYPE_NUMBER = 8,
    SL_TYPE_STRING = 16,
    SL_TYPE_ARRAY = 32,
    SL_TYPE_OBJECT = 64,
    SL_TYPE_ANY = 127,
};

void sl_schema_init(sl_schema *s, sl_gram_builder *b);
void sl_schema_free(sl_schema *s);
/* The rule for a document's schema; draws it and all that it leads to. */
uint32_t sl_schema_root_rule(sl_schema *s, const sl_json *root);
/* Adds what v says (following $ref and allOf). */
void sl_schema_add(sl_schema *s, sl_schema_conj *c, const sl_json *v);
uint32_t sl_schema_rule(sl_schema *s, const sl_schema_conj *c);
/* A value of the conjunction; returns the state behind it. */
uint32_t sl_schema_value(sl_schema *s, uint32_t from, const sl_schema_conj *c);
/* Fails for a keyword of v: "<why>: keyword "k" at #/path". */
void sl_schema_fail(sl_schema *s, sl_status code, const sl_json *v, const char *keyword, const char *why);
/* The largest (smallest with least) value that the parts give for the keyword, which must be a count; else unchanged. */
void sl_schema_count(sl_schema *s, const sl_schema_conj *c, const char *keyword, bool least, uint32_t *value);

void sl_schema_draw_object(sl_schema *s, const sl_schema_conj *c, uint32_t from, uint32_t to);
void sl_schema_draw_array(sl_schema *s, const sl_schema_conj *c, uint32_t from, uint32_t to);
void sl_schema_draw_string(sl_schema *s, const sl_schema_conj *c, uint32_t from, uint32_t to);
void sl_schema_draw_number(sl_schema *s, const sl_schema_conj *c, bool integer, uint32_t from, uint32_t to);

/* A number between bounds that are written in at most 15 digits before and behind the point (grammar_number.c). */
typedef struct {
    bool integer;
    bool has_low, has_high, low_open, high_open; /* open: the bound itself is left out */
    double low, high;
    uint32_t multiple;  /* of this whole number; 1: any */
    uint32_t n_fraction; /* digits behind the point, at most 15 */
} sl_number_range;
void sl_gram_draw_number(sl_gram_builder *b, const sl_number_range *r, uint32_t from, uint32_t to);
/* The shortest decimal text that reads back as v. */
void sl_gram_number_text(double v, char buf[32]);

#endif
