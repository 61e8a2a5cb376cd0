/* JSON in, for other rooms: a tree over jansson for small documents (config.json, safetensors headers), and a pull
 * reader that never builds a tree for large ones (tokenizer.json reaches tens of MB). */
#ifndef SL_JSON_H
#define SL_JSON_H

#include "base/base.h"

/* ---- tree ---- */
typedef struct sl_json sl_json; /* a value inside a tree; borrowed from its root */

/* Strict: valid UTF-8, no duplicate keys, bounded depth, nothing after the value.  err names what, with its line.
 * Integers beyond 64 bits are reals.  Memory is jansson's: not counted, not refused by sl_alloc_set_hook(). */
sl_status sl_json_parse(sl_json **out, const char *what, const char *text, size_t n_bytes, sl_err *err);
void sl_json_free(sl_json *root);
const sl_json *sl_json_get(const sl_json *object, const char *key); /* NULL: absent, null, or not an object */
bool sl_json_is_object(const sl_json *v);
bool sl_json_is_array(const sl_json *v);
bool sl_json_is_string(const sl_json *v);
bool sl_json_is_null(const sl_json *v); /* a null that stands there: absent is false */
bool sl_json_int(const sl_json *v, int64_t *out);   /* integers written as integers only */
bool sl_json_number(const sl_json *v, double *out); /* integers and reals */
bool sl_json_bool(const sl_json *v, bool *out);
const char *sl_json_string(const sl_json *v, size_t *n_bytes); /* NULL: not a string */
size_t sl_json_count(const sl_json *v);                        /* elements of an array or object */
const sl_json *sl_json_at(const sl_json *array, size_t i);
/* Walks an object in file order: start with *iter NULL; false at the end. */
bool sl_json_next(const sl_json *object, void **iter, const char **key, const sl_json **value);

/* ---- pull reader ----
 * Strict RFC 8259, at most 64 deep.  Lone surrogate escapes become U+FFFD; duplicate keys are not noticed.  A number is
 * an integer when it is written as one and fits.  END and ERROR stay. */
typedef enum {
    SL_JSON_END,
    SL_JSON_ERROR,
    SL_JSON_OBJECT,
    SL_JSON_OBJECT_END,
    SL_JSON_ARRAY,
    SL_JSON_ARRAY_END,
    SL_JSON_KEY,
    SL_JSON_STRING,
    SL_JSON_NUMBER,
    SL_JSON_TRUE,
    SL_JSON_FALSE,
    SL_JSON_NULL,
} sl_json_event;

typedef struct {
    const char *text;
    size_t n_bytes, pos;
    uint32_t depth, max_depth;
    uint8_t stack[64]; /* object or array, per depth */
    uint8_t state;
    sl_buf str;    /* decoded text of the last KEY or STRING */
    double number; /* of the last NUMBER */
    bool is_int;
    int64_t integer;
    const char *error; /* after ERROR: why, near byte pos; str.failed then tells "no memory" from a bad document */
} sl_json_reader;

void sl_json_reader_init(sl_json_reader *r, const char *text, size_t n_bytes);
sl_json_event sl_json_read(sl_json_reader *r);
/* Skips the value that comes next (whole objects and arrays); false when no value comes: a key, an end, an error. */
bool sl_json_skip(sl_json_reader *r);
void sl_json_reader_free(sl_json_reader *r);

#endif
