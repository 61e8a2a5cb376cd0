/* safetensors: the JSON header of one file.  Weight bytes are not touched.
 *
 * The header goes through the pull reader twice, first to count tensors and the bytes of their names, then to fill the
 * directory: no tree is built, which for a large header would take ten times its size.
 *
 * Bounds.
 *   file          8 bytes or more; the header's length at most 100,000,000 and inside the file, checked before anything
 *                 is allocated
 *   header        one JSON object, strict, in valid UTF-8, at most 64 deep; padded with spaces at its end
 *   tensor        a known dtype; at most 4 dimensions; integers, none negative; at most 2^48 bytes, and exactly as many
 * as its data_offsets span; a dimension of 0 is legal and makes an empty tensor names         as in GGUF: 1 to 255
 * bytes, each once, no control characters; 100,000 tensors data          the tensors cover it exactly: no overlap, no
 * gap, nothing after the last (checked in store.c) Values in __metadata__ must be strings, and are not used.  Fields
 * beside dtype, shape and data_offsets are passed over. */
#include "store/store_int.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER_MAX = 100000000, DIMS_MAX = 4 };

typedef struct {
    sl_store *s;
    sl_store_file *f;
    const char *path; /* for messages */
    sl_type_tally *tally;
    sl_err *err;
    sl_json_reader r;
    uint64_t n_tensor, names_bytes;
} parser;

typedef struct {
    const char *name;
    char dtype[32];
    bool has_dtype, has_shape, has_offsets;
    uint64_t shape[DIMS_MAX], begin, end;
    uint32_t n_dims;
} entry;

static const sl_type_info *find_dtype(const char *name)
{
    static const uint32_t plain[] = {SL_F32, SL_F16, SL_BF16, 24, 25, 26, 27, 28}; /* I8 I16 I32 I64 F64 */
    const sl_type_info *t;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if ((t = sl_type_find(plain[i])) && strcmp(t->name, name) == 0) return t;
    for (size_t i = 0; (t = sl_type_at(i)); i++)
        if (t->id >= SL_TYPE_PRIVATE && strcmp(t->name, name) == 0) return t;
    return NULL;
}

/* ---- reading JSON ---- */

static sl_status refuse_json(parser *p)
{
    if (p->r.str.failed) return sl_fail(p->err, SL_ERR_NOMEM, "%s: no memory for a string of its header", p->path);
    return sl_fail(p->err, SL_ERR_FORMAT, "%s: the header is not valid JSON: %s at byte %zu of it", p->path,
                   p->r.error ? p->r.error : "it ends early", p->r.pos);
}

/* The next event, which must be the wanted one; fault says what tensor (or NULL: the header) is wrong otherwise. */
static sl_status expect(parser *p, sl_json_event wanted, const char *tensor, const char *fault)
{
    sl_json_event ev = sl_json_read(&p->r);
    if (ev == wanted) return SL_OK;
    if (ev == SL_JSON_ERROR) return refuse_json(p);
    if (!tensor) return sl_fail(p->err, SL_ERR_FORMAT, "%s: the header %s", p->path, fault);
    return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s' %s", p->path, tensor, fault);
}

/* An array of at most `most` integers; *n is how many there are. */
static sl_status take_ints(parser *p, const char *name, const char *field, uint64_t *out, uint32_t most, uint32_t *n)
{
    sl_json_event ev = sl_json_read(&p->r);
    if (ev == SL_JSON_ERROR) return refuse_json(p);
    if (ev != SL_JSON_ARRAY)
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s': %s is not an array", p->path, name, field);
    for (*n = 0; (ev = sl_json_read(&p->r)) != SL_JSON_ARRAY_END; ++*n) {
        if (ev == SL_JSON_ERROR) return refuse_json(p);
        if (*n == most)
            return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s': %s has more than %u elements", p->path, name, field,
                           (unsigned)most);
        if (ev != SL_JSON_NUMBER || !p->r.is_int || p->r.integer < 0)
            return sl_fail(p->err, SL_ERR_FORMAT,
                           "%s: tensor '%s': element %u of %s is not an integer from 0 to 2^63 - 1", p->path, name,
                           (unsigned)*n, field);
        out[*n] = (uint64_t)p->r.integer;
    }
    return SL_OK;
}

static sl_status take_dtype(parser *p, entry *e)
{
    char shown[64];
    sl_status rc = expect(p, SL_JSON_STRING, e->name, "has a dtype that is not a string");
    if (rc != SL_OK) return rc;
    if (p->r.str.len >= sizeof e->dtype || memchr(p->r.str.data, 0, p->r.str.len))
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s': dtype '%s' does not exist", p->path, e->name,
                       sl_show(p->r.str.data, p->r.str.len, shown));
    if (p->r.str.len) memcpy(e->dtype, p->r.str.data, p->r.str.len);
    e->dtype[p->r.str.len] = 0;
    return SL_OK;
}

static sl_status take_offsets(parser *p, entry *e)
{
    uint64_t pair[2] = {0};
    uint32_t n;
    sl_status rc = take_ints(p, e->name, "data_offsets", pair, 2, &n);
    if (rc != SL_OK) return rc;
    if (n != 2)
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s': data_offsets has %u elements, not 2", p->path, e->name,
                       (unsigned)n);
    e->begin = pair[0];
    e->end = pair[1];
    return SL_OK;
}

static sl_status take_field(parser *p, entry *e)
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    bool *seen[] = {&e->has_dtype, &e->has_shape, &e->has_offsets};
    for (size_t i = 0; i < 3; i++) {
        if (p->r.str.len != strlen(fields[i]) || memcmp(p->r.str.data, fields[i], p->r.str.len) != 0) continue;
        if (*seen[i])
            return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s' has two fields '%s'", p->path, e->name, fields[i]);
        *seen[i] = true;
        if (i == 0) return take_dtype(p, e);
        if (i == 1) return take_ints(p, e->name, "shape", e->shape, DIMS_MAX, &e->n_dims);
        return take_offsets(p, e);
    }
    return sl_json_skip(&p->r) ? SL_OK : refuse_json(p);
}

static sl_status take_entry(parser *p, entry *e)
{
    sl_json_event ev;
    sl_status rc = expect(p, SL_JSON_OBJECT, e->name, "is not described by an object");
    if (rc != SL_OK) return rc;
    while ((ev = sl_json_read(&p->r)) != SL_JSON_OBJECT_END) {
        if (ev != SL_JSON_KEY) return refuse_json(p);
        if ((rc = take_field(p, e)) != SL_OK) return rc;
    }
    const char *lacks = !e->has_dtype ? "dtype" : !e->has_shape ? "shape" : !e->has_offsets ? "data_offsets" : NULL;
    if (lacks) return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s' has no field '%s'", p->path, e->name, lacks);
    if (e->begin > e->end)
        return sl_fail(p->err, SL_ERR_FORMAT,
                       "%s: tensor '%s': data_offsets run backwards, from %" PRIu64 " to %" PRIu64, p->path, e->name,
                       e->begin, e->end);
    return SL_OK;
}

/* ---- first pass: count ---- */

static sl_status check_metadata(parser *p)
{
    sl_json_event ev;
    sl_status rc = expect(p, SL_JSON_OBJECT, NULL, "has a __metadata__ that is not an object");
    while (rc == SL_OK && (ev = sl_json_read(&p->r)) != SL_JSON_OBJECT_END) {
        if (ev != SL_JSON_KEY) return refuse_json(p);
        rc = expect(p, SL_JSON_STRING, NULL, "has a __metadata__ with a value that is not a string");
    }
    return rc;
}

static bool is_metadata(const sl_json_reader *r)
{
    static const char name[] = "__metadata__";
    return r->str.len == sizeof name - 1 && memcmp(r->str.data, name, r->str.len) == 0;
}

static sl_status count_name(parser *p)
{
    char shown[64];
    const char *name = p->r.str.data;
    size_t n = p->r.str.len;
    const char *fault = n ? sl_name_fault(name, n) : NULL;
    if (n == 0 || n > SL_MAX_NAME_BYTES)
        return sl_fail(p->err, SL_ERR_FORMAT,
                       "%s: the name of tensor %" PRIu64 " has %zu bytes, which is outside 1 to %d", p->path,
                       p->n_tensor, n, SL_MAX_NAME_BYTES);
    if (fault)
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: the name of tensor %" PRIu64 " (%s) %s", p->path, p->n_tensor,
                       sl_show(name, n, shown), fault);
    if (++p->n_tensor > SL_MAX_TENSORS)
        return sl_fail(p->err, SL_ERR_LIMIT, "%s: the header lists more than %d tensors", p->path, SL_MAX_TENSORS);
    p->names_bytes += n + 1;
    return SL_OK;
}

static sl_status count_tensors(parser *p)
{
    sl_json_event ev;
    bool metadata = false;
    sl_status rc = expect(p, SL_JSON_OBJECT, NULL, "is not a JSON object");
    while (rc == SL_OK && (ev = sl_json_read(&p->r)) != SL_JSON_OBJECT_END) {
        if (ev != SL_JSON_KEY) return refuse_json(p);
        if (!is_metadata(&p->r)) {
            rc = count_name(p);
            if (rc == SL_OK && !sl_json_skip(&p->r)) return refuse_json(p);
        } else if (metadata) {
            return sl_fail(p->err, SL_ERR_FORMAT, "%s: the header holds __metadata__ twice", p->path);
        } else {
            metadata = true;
            rc = check_metadata(p);
        }
    }
    return rc == SL_OK ? expect(p, SL_JSON_END, NULL, "is more than one JSON value") : rc;
}

/* ---- second pass: fill ---- */

static sl_status fill_tensor(parser *p, const entry *e, sl_tensor *t)
{
    char dims[96];
    t->n_dims = e->n_dims;
    for (uint32_t d = 0; d < 4; d++)
        t->dims[d] = d < e->n_dims ? e->shape[d] : 1;
    t->offset_bytes = p->f->data_start + e->begin; /* both below 2^63 */
    t->type = find_dtype(e->dtype);
    if (!t->type) {
        sl_tally_add_dtype(p->tally, e->dtype, e->name);
        return SL_OK;
    }
    if (!sl_tensor_bytes(t->type, t->dims, &t->size_bytes))
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s': size overflow: %s of %s is more than %" PRIu64 " bytes",
                       p->path, e->name, sl_show_dims(t, dims), e->dtype, SL_MAX_TENSOR_BYTES);
    uint64_t elements = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]; /* just seen not to wrap */
    if (elements % t->type->block != 0)
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: tensor '%s': %" PRIu64 " elements of %s do not fill whole bytes",
                       p->path, e->name, elements, e->dtype);
    if (e->end - e->begin != t->size_bytes)
        return sl_fail(p->err, SL_ERR_FORMAT,
                       "%s: tensor '%s': data_offsets span %" PRIu64 " bytes, but %s of %s takes %" PRIu64, p->path,
                       e->name, e->end - e->begin, sl_show_dims(t, dims), e->dtype, t->size_bytes);
    return SL_OK;
}

/* The header was seen to be well-formed; what can still fail is memory. */
static sl_status fill_tensors(parser *p)
{
    sl_tensor *t;
    char *name;
    sl_json_event ev;
    sl_status rc = sl_store_reserve(p->s, p->n_tensor, p->names_bytes, &t, &name, p->err);
    if (rc != SL_OK) return rc;
    if ((rc = expect(p, SL_JSON_OBJECT, NULL, "is not a JSON object")) != SL_OK) return rc;
    while ((ev = sl_json_read(&p->r)) != SL_JSON_OBJECT_END) {
        if (ev != SL_JSON_KEY) return refuse_json(p);
        if (is_metadata(&p->r)) {
            if (!sl_json_skip(&p->r)) return refuse_json(p);
            continue;
        }
        entry e = {.name = name};
        memcpy(name, p->r.str.data, p->r.str.len);
        name[p->r.str.len] = 0;
        name += p->r.str.len + 1;
        if ((rc = take_entry(p, &e)) != SL_OK) return rc;
        t->name = e.name;
        t->file = (uint32_t)(p->s->n_file - 1);
        if ((rc = fill_tensor(p, &e, t++)) != SL_OK) return rc;
    }
    return SL_OK;
}

/* ---- the file ---- */

static sl_status header_length(parser *p, uint64_t *n)
{
    uint64_t file_bytes = p->f->size_bytes;
    if (file_bytes < 8)
        return sl_fail(p->err, SL_ERR_FORMAT,
                       "%s: the file has %" PRIu64 " bytes, a safetensors header takes at least 8", p->path,
                       file_bytes);
    sl_status rc = sl_store_read_at(p->f, 0, n, sizeof *n, p->err);
    if (rc != SL_OK) return rc;
    if (*n > HEADER_MAX)
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: the header's length is %" PRIu64 " bytes, the limit is %d", p->path,
                       *n, HEADER_MAX);
    if (*n > file_bytes - 8)
        return sl_fail(p->err, SL_ERR_FORMAT,
                       "%s: the header's length is %" PRIu64 " bytes, but only %" PRIu64
                       " follow: not a safetensors file, or "
                       "truncated",
                       p->path, *n, file_bytes - 8);
    return SL_OK;
}

/* *text is the header, *buf what must be freed. */
static sl_status read_header(parser *p, char **buf, const char **text, uint64_t *n)
{
    sl_status rc = header_length(p, n);
    if (rc != SL_OK) return rc;
    p->f->data_start = 8 + *n;
    *text = (const char *)p->f->memory;
    if (*text) {
        *text += 8;
    } else {
        if (!(*buf = sl_malloc(*n)))
            return sl_fail(p->err, SL_ERR_NOMEM, "%s: no memory for a header of %" PRIu64 " bytes", p->path, *n);
        *text = *buf;
        rc = sl_store_read_at(p->f, 8, *buf, *n, p->err);
    }
    if (rc == SL_OK && (*n == 0 || **text != '{'))
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: the header does not begin with '{'", p->path);
    return rc;
}

sl_status sl_safetensors_parse_file(sl_store *s, sl_type_tally *tally, sl_err *err)
{
    sl_store_file *f = &s->files[s->n_file - 1];
    parser p = {.s = s, .f = f, .path = sl_show_path(f->path), .tally = tally, .err = err};
    char *buf = NULL;
    const char *text;
    uint64_t n = 0;
    sl_status rc = read_header(&p, &buf, &text, &n);
    if (rc == SL_OK) {
        sl_json_reader_init(&p.r, text, n);
        rc = count_tensors(&p);
        sl_json_reader_free(&p.r);
    }
    if (rc == SL_OK) {
        sl_json_reader_init(&p.r, text, n);
        rc = fill_tensors(&p);
        sl_json_reader_free(&p.r);
    }
    sl_free(buf);
    return rc;
}

sl_status sl_safetensors_parse_memory(sl_store **out, const char *name, const uint8_t *data, size_t n_bytes,
                                      sl_err *err)
{
    sl_store *s;
    sl_type_tally tally = {0};
    sl_status rc = sl_store_new(&s, SL_STORE_SAFETENSORS, name, err);
    if (rc != SL_OK) return rc;
    rc = sl_store_add_file(s, name, data ? data : (const uint8_t *)"", n_bytes, err);
    if (rc == SL_OK) rc = sl_safetensors_parse_file(s, &tally, err);
    if (rc == SL_OK) rc = sl_store_finish(s, &tally, NULL, NULL, err);
    if (rc == SL_OK)
        *out = s;
    else
        sl_store_close(s);
    return rc;
}
