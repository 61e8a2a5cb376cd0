/* Metadata of a GGUF file, read by key.  Writers mix the integer types for one and the same key, so integers are taken
 * in any width; everything else must have the type that is asked for. */
#include "store/store_int.h"

#include <inttypes.h>
#include <string.h>

const char *sl_gguf_type_name(uint32_t type)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return type < sizeof names / sizeof names[0] ? names[type] : "unknown";
}

uint32_t sl_gguf_scalar_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* in the order of sl_gguf_type */
    return bytes[type];
}

const sl_meta *sl_meta_set_find(const sl_meta_set *x, const char *key)
{
    size_t i = sl_name_index_find(&x->by_key, key);
    return i == SIZE_MAX ? NULL : &x->metas[i];
}

void sl_meta_set_free(sl_meta_set *x)
{
    sl_free(x->owned);
    sl_free(x->metas);
    sl_free(x->keys);
    sl_name_index_free(&x->by_key);
    *x = (sl_meta_set){0};
}

/* ---- one value of a given type at p ---- */

static bool load_int(uint32_t type, const uint8_t *p, int64_t *out)
{
    uint64_t raw = 0;
    if (type == SL_GV_STRING || type == SL_GV_ARRAY || type == SL_GV_BOOL) return false;
    memcpy(&raw, p, sl_gguf_scalar_bytes(type)); /* little-endian: the rest stays 0 */
    *out = (int64_t)raw;
    switch (type) {
    case SL_GV_F32:
    case SL_GV_F64:
        return false;
    case SL_GV_U64:
        return raw <= INT64_MAX;
    case SL_GV_I8:
        *out = (int8_t)raw;
        return true;
    case SL_GV_I16:
        *out = (int16_t)raw;
        return true;
    case SL_GV_I32:
        *out = (int32_t)raw;
        return true;
    default:
        return true;
    }
}

static bool load_float(uint32_t type, const uint8_t *p, double *out)
{
    float f;
    int64_t i;
    if (type == SL_GV_F64) {
        memcpy(out, p, sizeof *out);
        return true;
    }
    if (type == SL_GV_F32) {
        memcpy(&f, p, sizeof f);
        *out = (double)f;
        return true;
    }
    if (!load_int(type, p, &i)) return false;
    *out = (double)i;
    return true;
}

bool sl_meta_is_int(const sl_meta *m, int64_t *out)
{
    return load_int(m->type, m->data, out);
}

/* ---- getters by key ---- */

static void wrong_kind(const sl_store *s, const sl_meta *m, const char *wanted, sl_err *err)
{
    sl_fail(err, SL_ERR_FORMAT, "%s: key '%s' holds a value of type %s that is not %s", sl_show_path(s->files[0].path),
            m->key, sl_gguf_type_name(m->type), wanted);
}

size_t sl_store_meta_count(const sl_store *s)
{
    return s->meta.n;
}

const sl_meta *sl_store_meta_at(const sl_store *s, size_t i)
{
    return &s->meta.metas[i];
}

const sl_meta *sl_store_meta(const sl_store *s, const char *key)
{
    return sl_meta_set_find(&s->meta, key);
}

bool sl_store_meta_int(const sl_store *s, const char *key, int64_t *out, sl_err *err)
{
    const sl_meta *m = sl_store_meta(s, key);
    int64_t v;
    if (!m) return false;
    if (!load_int(m->type, m->data, &v)) {
        wrong_kind(s, m, "an integer below 2^63", err);
        return false;
    }
    *out = v;
    return true;
}

bool sl_store_meta_float(const sl_store *s, const char *key, double *out, sl_err *err)
{
    const sl_meta *m = sl_store_meta(s, key);
    double v;
    if (!m) return false;
    if (!load_float(m->type, m->data, &v)) {
        wrong_kind(s, m, "a number", err);
        return false;
    }
    *out = v;
    return true;
}

bool sl_store_meta_bool(const sl_store *s, const char *key, bool *out, sl_err *err)
{
    const sl_meta *m = sl_store_meta(s, key);
    if (!m) return false;
    if (m->type != SL_GV_BOOL || m->data[0] > 1) {
        wrong_kind(s, m, "true (1) or false (0)", err);
        return false;
    }
    *out = m->data[0] == 1;
    return true;
}

bool sl_store_meta_string(const sl_store *s, const char *key, const char **p, size_t *n, sl_err *err)
{
    const sl_meta *m = sl_store_meta(s, key);
    if (!m) return false;
    if (m->type != SL_GV_STRING) {
        wrong_kind(s, m, "a string", err);
        return false;
    }
    *p = (const char *)m->data;
    *n = m->data_bytes;
    return true;
}

/* ---- elements of arrays ---- */

static const uint8_t *element(const sl_meta *m, uint64_t i)
{
    if (m->type != SL_GV_ARRAY || m->elem_type == SL_GV_STRING || i >= m->count) return NULL;
    return m->data + i * sl_gguf_scalar_bytes(m->elem_type);
}

bool sl_meta_int_at(const sl_meta *m, uint64_t i, int64_t *out)
{
    const uint8_t *p = element(m, i);
    return p && load_int(m->elem_type, p, out);
}

bool sl_meta_float_at(const sl_meta *m, uint64_t i, double *out)
{
    const uint8_t *p = element(m, i);
    return p && load_float(m->elem_type, p, out);
}

bool sl_meta_string_next(const sl_meta *m, uint64_t *pos, const char **p, size_t *n)
{
    if (m->type != SL_GV_ARRAY || m->elem_type != SL_GV_STRING) return false;
    sl_cursor c = {.data = m->data, .size = m->data_bytes, .pos = *pos};
    uint64_t bytes;
    const uint8_t *text;
    if (!sl_cursor_u64(&c, &bytes) || !sl_cursor_bytes(&c, bytes, &text)) return false;
    *p = (const char *)text;
    *n = bytes;
    *pos = c.pos;
    return true;
}
