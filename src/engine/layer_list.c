/* Which layers run, and in what order: "0-3,7,7" or the first N.  Ranges are inclusive, repeats are allowed (each run of a
 * layer keeps keys and values of its own), blanks are ignored. */
#include "engine/engine_int.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 4096 };

static const char *skip_blank(const char *p)
{
    while (isspace((unsigned char)*p)) p++;
    return p;
}

static bool number(const char **p, unsigned long *v)
{
    *p = skip_blank(*p);
    if (!isdigit((unsigned char)**p)) return false;
    char *end;
    *v = strtoul(*p, &end, 10);
    *p = skip_blank(end);
    return true;
}

static sl_status bad(const char *spec, const char *why, sl_err *err)
{
    return sl_fail(err, SL_ERR_ARG, "layer list '%.200s': %s", spec, why);
}

/* One entry "A" or "A-B" appended to list. */
static sl_status entry(const char *spec, const char **p, uint32_t n_layer, uint32_t *list, uint32_t *n, sl_err *err)
{
    unsigned long a, b;
    if (!number(p, &a)) return bad(spec, "an entry is not a number or a range A-B", err);
    b = a;
    if (**p == '-') {
        (*p)++;
        if (!number(p, &b)) return bad(spec, "a range has no end", err);
    }
    if (**p && **p != ',') return bad(spec, "an entry is not a number or a range A-B", err);
    if (a > b) return bad(spec, "a range runs backwards", err);
    if (b >= n_layer)
        return sl_fail(err, SL_ERR_ARG, "layer list '%.200s': layer %lu is not in the model, which has layers 0 to %u", spec,
                       a >= n_layer ? a : b, n_layer - 1);
    for (; a <= b; a++) {
        if (*n == MAX_ENTRIES) return bad(spec, "more than 4096 layers", err);
        list[(*n)++] = (uint32_t)a;
    }
    return SL_OK;
}

static sl_status first_layers(uint32_t max_layers, uint32_t n_layer, uint32_t *list, uint32_t *n, sl_err *err)
{
    if (max_layers > n_layer)
        return sl_fail(err, SL_ERR_ARG, "max layers is %u, but the model has %u", max_layers, n_layer);
    *n = max_layers ? max_layers : n_layer;
    for (uint32_t i = 0; i < *n; i++) list[i] = i;
    return SL_OK;
}

static sl_status parse(const char *spec, uint32_t n_layer, uint32_t *list, uint32_t *n, sl_err *err)
{
    const char *p = skip_blank(spec);
    if (!*p) return bad(spec, "it is empty", err);
    for (;; p++) {
        sl_status rc = entry(spec, &p, n_layer, list, n, err);
        if (rc != SL_OK) return rc;
        if (!*p) return SL_OK;
    }
}

sl_status sl_layer_list_parse(const char *spec, uint32_t max_layers, uint32_t n_layer, uint32_t **out, uint32_t *n,
                              sl_err *err)
{
    if (spec && max_layers) return sl_fail(err, SL_ERR_ARG, "a layer list and a number of layers exclude each other");
    uint32_t *list = sl_calloc(spec ? MAX_ENTRIES : n_layer, sizeof *list);
    if (!list) return sl_fail(err, SL_ERR_NOMEM, "no memory for the list of layers");
    *n = 0;
    sl_status rc = spec ? parse(spec, n_layer, list, n, err) : first_layers(max_layers, n_layer, list, n, err);
    if (rc != SL_OK) {
        sl_free(list);
        return rc;
    }
    *out = list;
    return SL_OK;
}
