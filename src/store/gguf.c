/* GGUF: header, key/value pairs and tensor list of one file.  Weight bytes are not touched.
 *
 * The header's length is written nowhere, so it is read in growing steps and walked until the walk reaches its end:
 * the walk checks and allocates nothing, what it accepted is then gone through again to fill the directory.
 *
 * Bounds.  Every length is compared with what is left of the file before it is used; beyond that:
 *   header             256 MiB (a Gemma vocabulary of 262,144 tokens makes 6)
 *   version            2 or 3, little-endian
 *   key/value pairs    65,536; keys of 1 to 65,535 bytes, each once, without control characters
 *   arrays             2^30 elements, not of arrays
 *   general.alignment  any integer type; a power of two, 1 to 65,536
 *   tensors            100,000; names of 1 to 255 bytes, each once; 0 to 4 dimensions, each at least 1
 *   tensor             a known type, whole blocks in a row, at most 2^48 bytes, at a multiple of the alignment */
#include "store/store_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_READ = 1 << 20, HEADER_MAX = 256 << 20, KV_MAX = 65536, KEY_MAX = 65535, ALIGN_MAX = 65536 };
enum { HEAD_BYTES = 24, KV_LEAST = 8 + 1 + 4 + 1, TENSOR_LEAST = 8 + 1 + 4 + 4 + 8 };

typedef struct {
    const sl_store_file *f;
    const char *path; /* for messages */
    sl_err *err;
    sl_cursor c;         /* over the bytes at hand, which start at the file's first byte */
    uint64_t want_bytes; /* not 0: the header goes on, come again with this many bytes */
    uint64_t n_tensor, n_kv;
    uint64_t kv_end, alignment;
    uint64_t keys_bytes, names_bytes; /* of keys and tensor names with a NUL each */
} gguf;

typedef struct {
    const char *name; /* not terminated */
    uint64_t name_bytes, dims[4], offset;
    uint32_t n_dims, type;
} raw_tensor;

/* ---- taking bytes ---- */

/* Fails when the file has too few bytes; sets want_bytes when only the bytes at hand are too few. */
static sl_status need(gguf *g, uint64_t bytes, const char *what)
{
    if (sl_cursor_need(&g->c, bytes)) return SL_OK;
    uint64_t left = g->f->size_bytes - g->c.pos;
    if (bytes > left)
        return sl_fail(g->err, SL_ERR_FORMAT,
                       "%s: the file ends inside its header: %s at byte %zu takes %" PRIu64 " bytes and %" PRIu64
                       " are left",
                       g->path, what, g->c.pos, bytes, left);
    if (bytes > HEADER_MAX - g->c.pos)
        return sl_fail(g->err, SL_ERR_LIMIT, "%s: the header is longer than %d bytes: %s at byte %zu takes %" PRIu64,
                       g->path, HEADER_MAX, what, g->c.pos, bytes);
    g->want_bytes = g->c.pos + bytes;
    return SL_ERR_IO;
}

static sl_status take_u32(gguf *g, const char *what, uint32_t *v)
{
    sl_status rc = need(g, 4, what);
    if (rc == SL_OK) sl_cursor_u32(&g->c, v);
    return rc;
}

static sl_status take_u64(gguf *g, const char *what, uint64_t *v)
{
    sl_status rc = need(g, 8, what);
    if (rc == SL_OK) sl_cursor_u64(&g->c, v);
    return rc;
}

static sl_status take_string(gguf *g, const char *what, uint64_t least, uint64_t most, const char **p, uint64_t *n)
{
    const uint8_t *bytes;
    sl_status rc = take_u64(g, what, n);
    if (rc != SL_OK) return rc;
    if (*n < least || *n > most)
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: %s has length %" PRIu64 ", which is outside %" PRIu64 " to %" PRIu64,
                       g->path, what, *n, least, most);
    if ((rc = need(g, *n, what)) != SL_OK) return rc;
    sl_cursor_bytes(&g->c, *n, &bytes);
    *p = (const char *)bytes;
    return SL_OK;
}

/* ---- walking: file head ---- */

static sl_status refuse_version(gguf *g, uint32_t version)
{
    if (version == 1)
        return sl_fail(g->err, SL_ERR_UNSUPPORTED,
                       "%s: GGUF version 1 is not read, only 2 and 3: convert the model again", g->path);
    if ((version & 0xffff) == 0 && version != 0) /* the bytes of a small number in the other order */
        return sl_fail(g->err, SL_ERR_UNSUPPORTED,
                       "%s: a big-endian GGUF file (version %u), only little-endian is read", g->path,
                       (unsigned)__builtin_bswap32(version));
    return sl_fail(g->err, SL_ERR_FORMAT, "%s: GGUF version is %u, only 2 and 3 exist", g->path, (unsigned)version);
}

/* A count of things that take at least `least` bytes each. */
static sl_status check_count(gguf *g, const char *what, uint64_t n, uint64_t least, uint64_t most)
{
    uint64_t left = g->f->size_bytes - g->c.pos;
    if (n > left / least)
        return sl_fail(g->err, SL_ERR_FORMAT,
                       "%s: %s is %" PRIu64 ", but the %" PRIu64 " bytes left have room for at most %" PRIu64, g->path,
                       what, n, left, left / least);
    if (n > most)
        return sl_fail(g->err, SL_ERR_LIMIT, "%s: %s is %" PRIu64 ", the limit is %" PRIu64, g->path, what, n, most);
    return SL_OK;
}

static sl_status walk_head(gguf *g)
{
    const uint8_t *magic = g->c.data;
    uint32_t version = 0;
    if (g->f->size_bytes < HEAD_BYTES)
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: the file has %" PRIu64 " bytes, a GGUF header takes at least %d",
                       g->path, g->f->size_bytes, HEAD_BYTES);
    if (memcmp(magic, "GGUF", 4) != 0)
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: not a GGUF file: it begins with bytes %02x %02x %02x %02x", g->path,
                       magic[0], magic[1], magic[2], magic[3]);
    g->c.pos = 4;
    sl_cursor_u32(&g->c, &version); /* the 24 bytes are at hand */
    if (version != 2 && version != 3) return refuse_version(g, version);
    sl_cursor_u64(&g->c, &g->n_tensor);
    sl_cursor_u64(&g->c, &g->n_kv);
    sl_status rc = check_count(g, "the tensor count", g->n_tensor, TENSOR_LEAST, SL_MAX_TENSORS);
    return rc == SL_OK ? check_count(g, "the key count", g->n_kv, KV_LEAST, KV_MAX) : rc;
}

/* ---- walking: key/value pairs ---- */

static sl_status walk_array(gguf *g, sl_meta *m, const char *what)
{
    sl_status rc = take_u32(g, what, &m->elem_type);
    if (rc == SL_OK) rc = take_u64(g, what, &m->count);
    if (rc != SL_OK) return rc;
    if (m->elem_type == SL_GV_ARRAY)
        return sl_fail(g->err, SL_ERR_UNSUPPORTED, "%s: %s is an array of arrays, which is not read", g->path, what);
    if (m->elem_type > SL_GV_F64)
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: %s is an array of unknown type %u (0 to 12 exist)", g->path, what,
                       (unsigned)m->elem_type);
    if (m->count > (uint64_t)1 << 30)
        return sl_fail(g->err, SL_ERR_LIMIT, "%s: %s has %" PRIu64 " elements, the limit is %u", g->path, what,
                       m->count, 1u << 30);
    bool strings = m->elem_type == SL_GV_STRING;
    uint64_t least = m->count * (strings ? 8 : sl_gguf_scalar_bytes(m->elem_type)), n;
    if ((rc = need(g, least, what)) != SL_OK) return rc;
    size_t start = g->c.pos;
    m->data = g->c.data + start;
    if (!strings) sl_cursor_skip(&g->c, least);
    for (uint64_t i = 0; strings && i < m->count && rc == SL_OK; i++) {
        const char *text;
        rc = take_string(g, what, 0, UINT64_MAX, &text, &n);
    }
    m->data_bytes = g->c.pos - start;
    return rc;
}

static sl_status walk_value(gguf *g, sl_meta *m, const char *what)
{
    const char *text;
    sl_status rc = take_u32(g, what, &m->type);
    if (rc != SL_OK) return rc;
    if (m->type > SL_GV_F64)
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: %s has unknown value type %u (0 to 12 exist)", g->path, what,
                       (unsigned)m->type);
    if (m->type == SL_GV_ARRAY) return walk_array(g, m, what);
    if (m->type == SL_GV_STRING) {
        rc = take_string(g, what, 0, UINT64_MAX, &text, &m->data_bytes);
        m->data = rc == SL_OK ? (const uint8_t *)text : NULL;
        return rc;
    }
    m->data_bytes = sl_gguf_scalar_bytes(m->type);
    if ((rc = need(g, m->data_bytes, what)) != SL_OK) return rc;
    sl_cursor_bytes(&g->c, m->data_bytes, &m->data);
    return SL_OK;
}

static sl_status read_alignment(gguf *g, const sl_meta *m)
{
    int64_t v = 0;
    if (!sl_meta_is_int(m, &v))
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: key 'general.alignment' is not an integer below 2^63 but of type %s",
                       g->path, sl_gguf_type_name(m->type));
    if (v < 1 || v > ALIGN_MAX || (v & (v - 1)) != 0)
        return sl_fail(g->err, SL_ERR_FORMAT,
                       "%s: key 'general.alignment' is %" PRId64 ", it must be a power of two from 1 to %d", g->path, v,
                       ALIGN_MAX);
    g->alignment = (uint64_t)v;
    return SL_OK;
}

/* One pair.  m->key is left pointing at the key in the header, not terminated, *key_bytes long. */
static sl_status walk_pair(gguf *g, uint64_t i, sl_meta *m, uint64_t *key_bytes)
{
    char what[80], shown[64];
    snprintf(what, sizeof what, "key %" PRIu64, i);
    sl_status rc = take_string(g, what, 1, KEY_MAX, &m->key, key_bytes);
    if (rc != SL_OK) return rc;
    const char *fault = sl_name_fault(m->key, *key_bytes);
    snprintf(what, sizeof what, "key '%s'", sl_show(m->key, *key_bytes, shown));
    if (fault) return sl_fail(g->err, SL_ERR_FORMAT, "%s: the name of %s %s", g->path, what, fault);
    return walk_value(g, m, what);
}

static sl_status walk_pairs(gguf *g)
{
    static const char alignment[] = "general.alignment";
    for (uint64_t i = 0; i < g->n_kv; i++) {
        sl_meta m = {0};
        uint64_t key_bytes;
        sl_status rc = walk_pair(g, i, &m, &key_bytes);
        if (rc == SL_OK && key_bytes == sizeof alignment - 1 && memcmp(m.key, alignment, key_bytes) == 0)
            rc = read_alignment(g, &m);
        if (rc != SL_OK) return rc;
        g->keys_bytes += key_bytes + 1;
    }
    g->kv_end = g->c.pos;
    return SL_OK;
}

/* ---- walking: tensor list ---- */

static sl_status walk_tensor(gguf *g, uint64_t i, raw_tensor *r)
{
    char what[80], shown[64];
    snprintf(what, sizeof what, "the name of tensor %" PRIu64, i);
    sl_status rc = take_string(g, what, 1, SL_MAX_NAME_BYTES, &r->name, &r->name_bytes);
    if (rc != SL_OK) return rc;
    const char *fault = sl_name_fault(r->name, r->name_bytes);
    if (fault)
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: %s (%s) %s", g->path, what, sl_show(r->name, r->name_bytes, shown),
                       fault);
    snprintf(what, sizeof what, "tensor '%s'", sl_show(r->name, r->name_bytes, shown));
    if ((rc = take_u32(g, what, &r->n_dims)) != SL_OK) return rc;
    if (r->n_dims > 4)
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: %s has %u dimensions, the limit is 4", g->path, what,
                       (unsigned)r->n_dims);
    for (uint32_t d = 0; d < r->n_dims && rc == SL_OK; d++)
        rc = take_u64(g, what, &r->dims[d]);
    if (rc == SL_OK) rc = take_u32(g, what, &r->type);
    return rc == SL_OK ? take_u64(g, what, &r->offset) : rc;
}

static sl_status walk_tensors(gguf *g)
{
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        raw_tensor r = {0};
        sl_status rc = walk_tensor(g, i, &r);
        if (rc != SL_OK) return rc;
        g->names_bytes += r.name_bytes + 1;
    }
    return SL_OK;
}

static sl_status walk(gguf *g)
{
    g->c.pos = 0;
    g->want_bytes = g->keys_bytes = g->names_bytes = 0;
    g->alignment = 32;
    sl_status rc = walk_head(g);
    if (rc == SL_OK) rc = walk_pairs(g);
    return rc == SL_OK ? walk_tensors(g) : rc;
}

/* ---- filling the store ---- */

/* Keys and values of the accepted header; x->header is set. */
static sl_status fill_metas(gguf *g, sl_meta_set *x)
{
    x->metas = sl_calloc(g->n_kv, sizeof *x->metas);
    x->keys = sl_malloc(g->keys_bytes);
    x->keys_bytes = g->keys_bytes;
    x->n = g->n_kv;
    if (!x->metas || !x->keys)
        return sl_fail(g->err, SL_ERR_NOMEM, "%s: no memory for %" PRIu64 " keys", g->path, g->n_kv);
    char *key = x->keys;
    g->c = (sl_cursor){.data = x->header, .size = x->header_bytes, .pos = HEAD_BYTES};
    for (size_t i = 0; i < x->n; i++) {
        uint64_t n;
        sl_status rc = walk_pair(g, i, &x->metas[i], &n);
        if (rc != SL_OK) return rc;
        memcpy(key, x->metas[i].key, n);
        key[n] = 0;
        x->metas[i].key = key;
        key += n + 1;
    }
    sl_status rc = sl_name_index_build(&x->by_key, x->metas, sizeof *x->metas, x->n, g->err);
    size_t from = 0, n_same;
    if (rc == SL_OK && sl_name_index_group(&x->by_key, &from, &n_same))
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: key '%.200s' occurs %zu times", g->path,
                       x->metas[x->by_key.order[from]].key, n_same);
    return rc;
}

static sl_status check_dims(gguf *g, const sl_tensor *t, uint64_t row)
{
    char dims[96];
    for (uint32_t d = 0; d < t->n_dims; d++)
        if (t->dims[d] == 0)
            return sl_fail(g->err, SL_ERR_FORMAT, "%s: tensor '%s' has a dimension of 0: %s", g->path, t->name,
                           sl_show_dims(t, dims));
    if (row % t->type->block != 0)
        return sl_fail(g->err, SL_ERR_FORMAT,
                       "%s: tensor '%s' has rows of %" PRIu64
                       " elements, which is no multiple of the %u in a block of %s",
                       g->path, t->name, row, (unsigned)t->type->block, t->type->name);
    return SL_OK;
}

static sl_status fill_tensor(gguf *g, const raw_tensor *r, sl_tensor *t, uint64_t data_start)
{
    char dims[96];
    t->n_dims = r->n_dims;
    for (uint32_t d = 0; d < 4; d++)
        t->dims[d] = d < r->n_dims ? r->dims[r->n_dims - 1 - d] : 1; /* the file has the fastest first */
    sl_status rc = check_dims(g, t, r->n_dims ? r->dims[0] : 1);
    if (rc != SL_OK) return rc;
    if (!sl_tensor_bytes(t->type, t->dims, &t->size_bytes))
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: tensor '%s': size overflow: %s of %s is more than %" PRIu64 " bytes",
                       g->path, t->name, sl_show_dims(t, dims), t->type->name, SL_MAX_TENSOR_BYTES);
    if (r->offset % g->alignment != 0)
        return sl_fail(g->err, SL_ERR_FORMAT,
                       "%s: tensor '%s' lies at offset %" PRIu64 ", which is no multiple of %" PRIu64, g->path, t->name,
                       r->offset, g->alignment);
    if (!sl_add_u64(data_start, r->offset, &t->offset_bytes))
        return sl_fail(g->err, SL_ERR_FORMAT, "%s: tensor '%s': its offset %" PRIu64 " wraps", g->path, t->name,
                       r->offset);
    return SL_OK;
}

static sl_status fill_tensors(gguf *g, sl_store *s, sl_type_tally *tally)
{
    sl_tensor *t;
    char *name;
    sl_store_file *f = &s->files[s->n_file - 1];
    sl_status rc = sl_store_reserve(s, g->n_tensor, g->names_bytes, &t, &name, g->err);
    f->data_start = sl_round_up(g->c.pos, g->alignment); /* small numbers: cannot wrap */
    g->c.pos = g->kv_end;
    for (uint64_t i = 0; i < g->n_tensor && rc == SL_OK; i++, t++) {
        raw_tensor r = {0};
        if ((rc = walk_tensor(g, i, &r)) != SL_OK) break;
        memcpy(name, r.name, r.name_bytes);
        name[r.name_bytes] = 0;
        t->name = name;
        t->file = (uint32_t)(s->n_file - 1);
        name += r.name_bytes + 1;
        t->type = r.type < SL_TYPE_PRIVATE ? sl_type_find(r.type) : NULL;
        if (t->type && t->type->block)
            rc = fill_tensor(g, &r, t, f->data_start);
        else
            sl_tally_add(tally, t->type, r.type, t->name);
    }
    return rc;
}

/* ---- reading ---- */

/* Reads until the walk finds the end of the header; *buf is what was read. */
static sl_status read_header(gguf *g, uint8_t **buf)
{
    uint64_t have = 0, cap = sl_min_u64(FIRST_READ, g->f->size_bytes);
    for (;;) {
        uint8_t *p = sl_realloc(*buf, cap);
        if (!p) return sl_fail(g->err, SL_ERR_NOMEM, "%s: no memory for %" PRIu64 " bytes of header", g->path, cap);
        *buf = p;
        sl_status rc = sl_store_read_at(g->f, have, p + have, cap - have, g->err);
        if (rc != SL_OK) return rc;
        have = cap;
        g->c = (sl_cursor){.data = p, .size = have};
        rc = walk(g);
        if (rc == SL_OK || g->want_bytes == 0) return rc;
        cap = sl_min_u64(sl_min_u64(sl_max_u64(2 * cap, g->want_bytes), g->f->size_bytes), HEADER_MAX);
    }
}

/* Keeps only the pairs of a header that was read: the tensor list has been copied. */
static void keep_pairs(gguf *g, sl_meta_set *x, uint8_t *buf)
{
    uint8_t *p = buf ? sl_realloc(buf, g->kv_end) : NULL;
    x->owned = p ? p : buf; /* a refused shrink is no failure */
    x->header = buf ? x->owned : g->c.data;
    x->header_bytes = g->kv_end;
}

sl_status sl_gguf_parse_file(sl_store *s, sl_meta_set *meta, sl_type_tally *tally, sl_err *err)
{
    sl_store_file *f = &s->files[s->n_file - 1];
    gguf g = {.f = f, .path = sl_show_path(f->path), .err = err};
    uint8_t *buf = NULL;
    sl_status rc;
    if (f->memory) {
        g.c = (sl_cursor){.data = f->memory, .size = f->size_bytes};
        rc = walk(&g);
    } else {
        rc = read_header(&g, &buf);
    }
    if (rc == SL_OK) rc = fill_tensors(&g, s, tally);
    if (rc != SL_OK) {
        sl_free(buf);
        return rc;
    }
    keep_pairs(&g, meta, buf);
    return fill_metas(&g, meta);
}

sl_status sl_gguf_parse_memory(sl_store **out, const char *name, const uint8_t *data, size_t n_bytes, sl_err *err)
{
    sl_store *s;
    sl_type_tally tally = {0};
    sl_status rc = sl_store_new(&s, SL_STORE_GGUF, name, err);
    if (rc != SL_OK) return rc;
    rc = sl_store_add_file(s, name, data ? data : (const uint8_t *)"", n_bytes, err);
    if (rc == SL_OK) rc = sl_gguf_parse_file(s, &s->meta, &tally, err);
    if (rc == SL_OK) rc = sl_store_finish(s, &tally, NULL, NULL, err);
    if (rc == SL_OK)
        *out = s;
    else
        sl_store_close(s);
    return rc;
}
