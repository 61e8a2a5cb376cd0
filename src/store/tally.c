/* Tensors whose type cannot be used: counted while reading, refused once with everything a user needs to know. */
#include "store/store_int.h"

#include <stdio.h>
#include <string.h>

static void add(sl_type_tally *t, uint64_t key, const char *type, const char *note, const char *tensor)
{
    t->n_tensor++;
    for (size_t i = 0; i < t->n_row; i++) {
        if (t->row[i].key != key) continue;
        t->row[i].n++;
        return;
    }
    if (t->n_row == SL_TALLY_MAX) {
        t->n_unlisted++;
        return;
    }
    size_t i = t->n_row++;
    t->row[i].key = key;
    t->row[i].note = note;
    t->row[i].n = 1;
    snprintf(t->row[i].type, sizeof t->row[i].type, "%s", type);
    sl_show(tensor, strlen(tensor), t->row[i].first);
}

void sl_tally_add(sl_type_tally *t, const sl_type_info *type, uint32_t id, const char *tensor)
{
    char text[32];
    snprintf(text, sizeof text, "id %u", (unsigned)id);
    if (type)
        add(t, id, type->name, type->note, tensor);
    else /* forks number their own types from about 96 up */
        add(t, id, text, id >= 96 && id < SL_TYPE_PRIVATE ? "not in the standard, perhaps ik_llama.cpp's" : NULL,
            tensor);
}

void sl_tally_add_dtype(sl_type_tally *t, const char *dtype, const char *tensor)
{
    char text[64];
    size_t n = strlen(dtype);
    add(t, sl_hash_bytes(dtype, n), sl_show(dtype, n < 40 ? n : 40, text), NULL, tensor);
}

/* detail 0: count and type; 1: the first tensor too; 2: notes too.  Returns the length it takes. */
static size_t list_rows(const sl_type_tally *t, int detail, char *buf, size_t cap)
{
    size_t used = 0;
    for (size_t i = 0; i < t->n_row; i++) {
        const char *note = detail > 1 ? t->row[i].note : NULL, *first = detail > 0 ? t->row[i].first : NULL;
        size_t left = used < cap ? cap - used : 0;
        int n = snprintf(left ? buf + used : NULL, left, "%s%zu of type %s%s%s%s%s%s%s", i ? ", " : "", t->row[i].n,
                         t->row[i].type, note || first ? " (" : "", note ? note : "", note && first ? "; " : "",
                         first ? "first '" : "", first ? first : "",
                         first  ? "')"
                         : note ? ")"
                                : "");
        used += n > 0 ? (size_t)n : 0;
    }
    return used;
}

sl_status sl_tally_refuse(const sl_type_tally *t, const char *path, const char *why, sl_err *err)
{
    if (t->n_tensor == 0) return SL_OK;
    char rows[400], more[64] = "";
    int detail = 2;
    while (list_rows(t, detail, rows, sizeof rows) >= sizeof rows && detail > 0)
        detail--;
    if (t->n_unlisted) snprintf(more, sizeof more, ", %zu of further types", t->n_unlisted);
    return sl_fail(err, SL_ERR_UNSUPPORTED, "%s: %zu tensor%s of a type %s: %s%s; supported: %s", sl_show_path(path),
                   t->n_tensor, t->n_tensor == 1 ? " is" : "s are", why, rows, more, sl_type_supported_list());
}
