/* Fuzz target: a GGUF file from memory.  Refused with a reason, or accepted, and then every tensor lies inside the
 * data, no two overlap, and everything in the metadata can be read. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_CHECK(x)                                                                                                  \
    do {                                                                                                               \
        if (!(x)) abort();                                                                                             \
    } while (0)

static volatile uint64_t sink; /* so that reading is not optimised away */

static void check_tensors(const sl_store *s, size_t size)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < sl_store_tensor_count(s); i++) {
        const sl_tensor *t = sl_store_tensor(s, i);
        FUZZ_CHECK(t->name[0] && t->type && t->n_dims <= 4 && t->file == 0);
        FUZZ_CHECK(t->offset_bytes <= size && t->size_bytes <= size - t->offset_bytes);
        FUZZ_CHECK(sl_store_find(s, t->name) == t);
        uint64_t row, rows = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
        uint64_t row_len = t->n_dims ? t->dims[t->n_dims - 1] : 1;
        FUZZ_CHECK(row_len > 0 && sl_type_row_bytes(t->type, row_len, &row));
        FUZZ_CHECK(rows / row_len * row == t->size_bytes);
        sum += t->size_bytes;
    }
    FUZZ_CHECK(sum <= size); /* no overlap */
}

static void read_array(const sl_meta *m)
{
    const char *p;
    size_t n, count = 0;
    int64_t v;
    double d;
    for (uint64_t pos = 0; sl_meta_string_next(m, &pos, &p, &n); count++)
        for (size_t k = 0; k < n; k++)
            sink += (uint8_t)p[k];
    FUZZ_CHECK(m->elem_type != SL_GV_STRING || count == m->count);
    for (uint64_t i = 0; i < m->count && i < 100000; i++)
        sink += (sl_meta_int_at(m, i, &v) ? (uint64_t)v : 0) + (sl_meta_float_at(m, i, &d) && d > 0);
    FUZZ_CHECK(!sl_meta_int_at(m, m->count, &v) && !sl_meta_float_at(m, m->count, &d));
}

static void read_metadata(const sl_store *s)
{
    for (size_t i = 0; i < sl_store_meta_count(s); i++) {
        const sl_meta *m = sl_store_meta_at(s, i);
        int64_t v;
        double d;
        bool t;
        const char *p;
        size_t n;
        FUZZ_CHECK(sl_store_meta(s, m->key) == m);
        if (m->type == SL_GV_ARRAY) read_array(m);
        if (sl_store_meta_string(s, m->key, &p, &n, NULL))
            for (size_t k = 0; k < n; k++)
                sink += (uint8_t)p[k];
        bool any = sl_store_meta_int(s, m->key, &v, NULL) || sl_store_meta_float(s, m->key, &d, NULL) ||
                   sl_store_meta_bool(s, m->key, &t, NULL);
        sink += any;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sl_err err = {0};
    sl_store *s = NULL;
    if (sl_gguf_parse_memory(&s, "fuzz.gguf", data, size, &err) != SL_OK) {
        FUZZ_CHECK(s == NULL && err.code != SL_OK && err.msg[0] != 0 && !strchr(err.msg, '\n'));
        return 0;
    }
    check_tensors(s, size);
    read_metadata(s);
    sl_store_check_types(s, &err);
    sl_store_drop_metadata(s);
    check_tensors(s, size);
    sl_store_close(s);
    return 0;
}
