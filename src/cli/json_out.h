/* A JSON writer: strings escaped, invalid UTF-8 replaced by U+FFFD, numbers that JSON has no form for written as null.
 */
#ifndef CLI_JSON_OUT_H
#define CLI_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    FILE *f;
    bool pretty;
    unsigned depth;    /* at most 32 */
    uint32_t is_array; /* bit d: the value open at depth d is an array */
    uint32_t has_item; /* bit d: a comma is due there */
} cli_json;

/* Starts a document whose outermost value is an object.  key is NULL inside arrays. */
void cli_json_begin(cli_json *j, FILE *f, bool pretty);
void cli_json_end(cli_json *j);
void cli_json_object(cli_json *j, const char *key);
void cli_json_array(cli_json *j, const char *key);
void cli_json_close(cli_json *j);                                  /* the innermost object or array */
void cli_json_string(cli_json *j, const char *key, const char *s); /* NULL: null */
void cli_json_bytes(cli_json *j, const char *key, const char *s, size_t n_bytes);
void cli_json_u64(cli_json *j, const char *key, uint64_t v);
void cli_json_i64(cli_json *j, const char *key, int64_t v);
void cli_json_f64(cli_json *j, const char *key, double v);
void cli_json_bool(cli_json *j, const char *key, bool v);
void cli_json_null(cli_json *j, const char *key);
void cli_json_ids(cli_json *j, const char *key, const int32_t *ids, size_t n); /* on one line */

/* The parts, for documents that are a bare array or a line each. */
void cli_json_put_string(FILE *f, const char *s, size_t n_bytes);
void cli_json_put_ids(FILE *f, const int32_t *ids, size_t n);

#endif
