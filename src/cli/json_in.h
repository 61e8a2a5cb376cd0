/* Walks over JSON text without building anything: the members of an object, the items of an array, as stretches of the
 * text.  Valid JSON is walked rightly; in anything else the walk ends early or hands out stretches that are no JSON, never
 * one outside of the text. */
#ifndef CLI_JSON_IN_H
#define CLI_JSON_IN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *at, *end;
    bool is_object;
} cli_json_walk;

typedef struct {
    const char *key; /* between the quotes, as written; NULL in arrays */
    size_t n_key;
    const char *value;
    size_t n_value;
} cli_json_item;

/* False when text [n_bytes] begins neither an object nor an array. */
bool cli_json_walk_begin(cli_json_walk *w, const char *text, size_t n_bytes);
bool cli_json_walk_next(cli_json_walk *w, cli_json_item *item);
/* The value of a member of the object text [n_bytes]; false when there is none.  Keys with escapes are not found. */
bool cli_json_find(const char *text, size_t n_bytes, const char *key, cli_json_item *item);

#endif
