/* The tensor directory: how it grows file by file, what is checked once it is whole, and how it is read.  Where the
 * files come from is in gguf_split.c and hf_dir.c, what a header means in gguf.c and safetensors.c. */
#include "store/store_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening and closing ---- */

static bool holds_safetensors(char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sl_has_suffix(names[i], ".safetensors") || sl_has_suffix(names[i], ".safetensors.index.json")) return true;
    return false;
}

static sl_status refuse_directory(const char *dir, char *const *names, size_t n, sl_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (sl_has_suffix(names[i], ".bin") || sl_has_suffix(names[i], ".pth") || sl_has_suffix(names[i], ".pt"))
            return sl_fail(err, SL_ERR_UNSUPPORTED,
                           "%s: the directory holds neither a .gguf nor a .safetensors file, and PyTorch files such as "
                           "%s are not read",
                           sl_show_path(dir), sl_show_path(names[i]));
    return sl_fail(err, SL_ERR_FORMAT, "%s: the directory holds neither a .gguf nor a .safetensors file",
                   sl_show_path(dir));
}

static sl_status open_directory(sl_store **out, const char *dir, const sl_log *log, sl_err *err)
{
    char **names = NULL, *gguf = NULL;
    size_t n = 0;
    sl_status rc = sl_file_list(dir, &names, &n, err);
    if (rc != SL_OK) return rc;
    rc = sl_gguf_pick(&gguf, dir, names, n, err);
    if (rc == SL_OK && gguf) {
        if (holds_safetensors(names, n))
            sl_note(log, "%s holds GGUF and safetensors files, the GGUF is used", sl_show_path(dir));
        rc = sl_gguf_open(out, dir, gguf, log, err);
    } else if (rc == SL_OK && holds_safetensors(names, n)) {
        rc = sl_hf_open(out, dir, dir, NULL, log, err);
    } else if (rc == SL_OK) {
        rc = refuse_directory(dir, names, n, err);
    }
    sl_free(gguf);
    sl_file_list_free(names, n);
    return rc;
}

/* A safetensors file alone: its directory has the configuration, and the other shards when it is one of several. */
static sl_status open_safetensors(sl_store **out, const char *path, const sl_log *log, sl_err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *dir = slash ? sl_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : sl_strdup(".");
    if (!dir) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for its directory's name", sl_show_path(path));
    size_t prefix;
    uint32_t no, count;
    bool shard = sl_shard_name(name, ".safetensors", &prefix, &no, &count) && count > 1;
    sl_status rc = sl_hf_open(out, path, dir, shard ? NULL : name, log, err);
    sl_free(dir);
    return rc;
}

sl_status sl_store_open(sl_store **out, const char *model, const sl_log *log, sl_err *err)
{
    sl_file_info info;
    sl_sniffed kind;
    sl_status rc = sl_file_stat(model, &info, err);
    if (rc != SL_OK) return rc;
    if (info.is_dir) return open_directory(out, model, log, err);
    if ((rc = sl_sniff_file(&kind, model, err)) != SL_OK) return rc;
    if (kind == SL_SNIFF_GGUF) return sl_gguf_open(out, model, model, log, err);
    return open_safetensors(out, model, log, err);
}

sl_status sl_store_new(sl_store **out, sl_store_format format, const char *path, sl_err *err)
{
    sl_store *s = sl_calloc(1, sizeof *s);
    char *copy = sl_strdup(path);
    if (!s || !copy) {
        sl_free(s);
        sl_free(copy);
        return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a model's directory", sl_show_path(path));
    }
    s->format = format;
    s->path = copy;
    *out = s;
    return SL_OK;
}

void sl_store_close(sl_store *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_file; i++) {
        sl_free(s->files[i].path);
        sl_free(s->files[i].names);
    }
    sl_free(s->files);
    sl_free(s->tensors);
    sl_name_index_free(&s->by_name);
    sl_meta_set_free(&s->meta);
    sl_json_free(s->config);
    sl_json_free(s->generation_config);
    sl_free(s->path);
    sl_free(s);
}

/* ---- growing ---- */

sl_status sl_store_add_file(sl_store *s, const char *path, const uint8_t *memory, uint64_t memory_bytes, sl_err *err)
{
    sl_file_info info = {.size_bytes = memory_bytes};
    if (s->n_file == SL_MAX_FILES)
        return sl_fail(err, SL_ERR_LIMIT, "%s: more than %d files", sl_show_path(s->path), SL_MAX_FILES);
    sl_status rc = memory ? SL_OK : sl_file_stat(path, &info, err);
    if (rc != SL_OK) return rc;
    if (info.is_dir) return sl_fail(err, SL_ERR_FORMAT, "%s: a directory where a file is needed", sl_show_path(path));
    if (s->n_file == s->cap_file) {
        size_t cap = s->cap_file ? 2 * s->cap_file : 4;
        sl_store_file *p = sl_realloc(s->files, cap * sizeof *p);
        if (!p) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for %zu files", sl_show_path(s->path), cap);
        s->files = p;
        s->cap_file = cap;
    }
    char *copy = sl_strdup(path);
    if (!copy) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for the file's name", sl_show_path(path));
    s->files[s->n_file++] = (sl_store_file){.path = copy, .size_bytes = info.size_bytes, .memory = memory};
    return SL_OK;
}

sl_status sl_store_reserve(sl_store *s, uint64_t n, uint64_t names_bytes, sl_tensor **tensors, char **names,
                           sl_err *err)
{
    sl_store_file *f = &s->files[s->n_file - 1];
    if (n > SL_MAX_TENSORS - s->n_tensor)
        return sl_fail(err, SL_ERR_LIMIT, "%s: the tensor count passes %d with this file's %" PRIu64,
                       sl_show_path(f->path), SL_MAX_TENSORS, n);
    sl_tensor *p = sl_realloc(s->tensors, (s->n_tensor + n) * sizeof *p);
    if (p) s->tensors = p;
    f->names = p ? sl_malloc(names_bytes) : NULL;
    if (!f->names)
        return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a directory of %" PRIu64 " tensors", sl_show_path(f->path),
                       n);
    f->names_bytes = names_bytes;
    *tensors = p + s->n_tensor;
    *names = f->names;
    memset(*tensors, 0, n * sizeof **tensors);
    s->n_tensor += n;
    return SL_OK;
}

sl_status sl_store_read_at(const sl_store_file *f, uint64_t offset, void *dst, size_t bytes, sl_err *err)
{
    if (!f->memory) return sl_file_read_at(f->path, offset, dst, bytes, err);
    if (offset > f->size_bytes || bytes > f->size_bytes - offset)
        return sl_fail(err, SL_ERR_IO, "%s: %zu bytes at %" PRIu64 " are beyond its %" PRIu64, f->path, bytes, offset,
                       f->size_bytes);
    memcpy(dst, f->memory + offset, bytes);
    return SL_OK;
}

bool sl_tensor_bytes(const sl_type_info *type, const uint64_t dims[4], uint64_t *bytes)
{
    uint64_t n = 1;
    bool empty = false;
    for (int i = 0; i < 4; i++) { /* a 0 must not hide that the others wrap */
        if (dims[i] == 0)
            empty = true;
        else if (!sl_mul_u64(n, dims[i], &n))
            return false;
    }
    if (!sl_mul_u64(n / type->block, type->block_bytes, bytes) || *bytes > SL_MAX_TENSOR_BYTES) return false;
    if (empty) *bytes = 0;
    return true;
}

const char *sl_show_dims(const sl_tensor *t, char buf[96])
{
    size_t used = 0;
    buf[used++] = '[';
    for (uint32_t i = 0; i < t->n_dims; i++)
        used += (size_t)snprintf(buf + used, 96 - used, "%s%" PRIu64, i ? ", " : "", t->dims[i]);
    snprintf(buf + used, 96 - used, "]");
    return buf;
}

/* ---- checks over the whole directory ---- */

static int by_place(const void *a, const void *b, void *tensors)
{
    uint32_t i, j;
    memcpy(&i, a, sizeof i);
    memcpy(&j, b, sizeof j);
    const sl_tensor *s = (const sl_tensor *)tensors + i, *t = (const sl_tensor *)tensors + j;
    if (s->file != t->file) return s->file < t->file ? -1 : 1;
    if (s->offset_bytes != t->offset_bytes) return s->offset_bytes < t->offset_bytes ? -1 : 1;
    if (s->size_bytes != t->size_bytes) return s->size_bytes < t->size_bytes ? -1 : 1; /* empty ones first */
    return (i > j) - (i < j);
}

static bool beyond(const sl_tensor *t, uint64_t file_bytes)
{
    return t->size_bytes > file_bytes || t->offset_bytes > file_bytes - t->size_bytes;
}

/* A download that stopped early: what is missing, and which tensor is the first to lack bytes.  order: the file's
 * tensors by place. */
static sl_status check_inside(const sl_store *s, const sl_store_file *f, const uint32_t *order, size_t n, sl_err *err)
{
    const sl_tensor *first = NULL;
    uint64_t end = f->size_bytes;
    size_t n_cut = 0;
    for (size_t i = 0; i < n; i++) {
        const sl_tensor *t = &s->tensors[order[i]];
        uint64_t t_end;
        if (!beyond(t, f->size_bytes)) continue;
        if (!sl_add_u64(t->offset_bytes, t->size_bytes, &t_end)) t_end = UINT64_MAX;
        end = sl_max_u64(end, t_end);
        first = first ? first : t;
        n_cut++;
    }
    if (!first) return SL_OK;
    uint64_t missing = end - f->size_bytes;
    char text[24];
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: truncated, %" PRIu64 " byte%s missing (%s): the file has %" PRIu64
                   " and its tensors need %" PRIu64 "; the first of %zu affected is '%s'",
                   sl_show_path(f->path), missing, missing == 1 ? " is" : "s are", sl_size_text(missing, text),
                   f->size_bytes, end, n_cut, first->name);
}

/* exact: safetensors forbids gaps as well, so that nothing can hide in the file. */
static sl_status check_layout(const sl_store *s, const sl_store_file *f, const uint32_t *order, size_t n, bool exact,
                              sl_err *err)
{
    uint64_t end = f->data_start;
    const char *before = "the header";
    for (size_t i = 0; i < n; i++) {
        const sl_tensor *t = &s->tensors[order[i]];
        if (t->offset_bytes < end && t->size_bytes > 0)
            return sl_fail(err, SL_ERR_FORMAT,
                           "%s: tensor '%s' begins at byte %" PRIu64 " and overlaps '%s', which ends at %" PRIu64,
                           sl_show_path(f->path), t->name, t->offset_bytes, before, end);
        if (exact && t->offset_bytes != end)
            return sl_fail(err, SL_ERR_FORMAT,
                           "%s: tensor '%s' begins at byte %" PRIu64 ", but what lies before it (%s) ends at %" PRIu64
                           ": safetensors must have no gaps",
                           sl_show_path(f->path), t->name, t->offset_bytes, before, end);
        if (t->size_bytes == 0) continue;
        end = t->offset_bytes + t->size_bytes;
        before = t->name;
    }
    if (exact && end != f->size_bytes)
        return sl_fail(err, SL_ERR_FORMAT, "%s: %" PRIu64 " bytes after the last tensor belong to none",
                       sl_show_path(f->path), f->size_bytes - end);
    return SL_OK;
}

static sl_status check_ranges(const sl_store *s, sl_err *err)
{
    uint32_t *order = sl_malloc(s->n_tensor * sizeof *order);
    if (!order) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory to sort its tensors", sl_show_path(s->path));
    for (size_t i = 0; i < s->n_tensor; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, s->n_tensor, sizeof *order, by_place, s->tensors);
    sl_status rc = SL_OK;
    size_t from = 0;
    for (size_t i = 0; i < s->n_file && rc == SL_OK; i++) {
        size_t to = from;
        while (to < s->n_tensor && s->tensors[order[to]].file == i)
            to++;
        rc = check_inside(s, &s->files[i], order + from, to - from, err);
        if (rc == SL_OK)
            rc = check_layout(s, &s->files[i], order + from, to - from, s->format == SL_STORE_SAFETENSORS, err);
        from = to;
    }
    sl_free(order);
    return rc;
}

static const char *file_name(const sl_store *s, uint32_t file)
{
    const char *slash = strrchr(s->files[file].path, '/');
    return slash ? slash + 1 : s->files[file].path;
}

/* group: tensors with one name, in file order.  Keeps the one whose file the index names and marks the others; without
 * an index that says so nobody can know which copy is right. */
static sl_status keep_one(sl_store *s, const uint32_t *group, size_t n, const sl_json *weight_map, sl_err *err)
{
    const sl_tensor *a = &s->tensors[group[0]], *b = &s->tensors[group[1]];
    for (size_t i = 1; i < n; i++)
        if (s->tensors[group[i]].file == s->tensors[group[i - 1]].file)
            return sl_fail(err, SL_ERR_FORMAT, "%s: tensor '%s' occurs twice",
                           sl_show_path(s->files[s->tensors[group[i]].file].path), a->name);
    size_t n_bytes, keep = 0;
    const char *right = sl_json_string(sl_json_get(weight_map, a->name), &n_bytes);
    while (keep < n && (!right || strcmp(right, file_name(s, s->tensors[group[keep]].file)) != 0))
        keep++;
    if (keep == n)
        return sl_fail(err, SL_ERR_FORMAT, "%s: tensor '%s' is in both %s and %s, and %s", sl_show_path(s->path),
                       a->name, sl_show_path(file_name(s, a->file)), sl_show_path(file_name(s, b->file)),
                       weight_map ? "the index names neither of them" : "nothing says which one counts");
    for (size_t i = 0; i < n; i++)
        if (i != keep) s->tensors[group[i]].type = NULL;
    return SL_OK;
}

/* Leaves one tensor of each name, or refuses. */
static sl_status settle_duplicates(sl_store *s, const sl_json *weight_map, size_t *n_dropped, sl_err *err)
{
    size_t n, kept = 0;
    for (size_t from = 0; sl_name_index_group(&s->by_name, &from, &n); from += n) {
        sl_status rc = keep_one(s, s->by_name.order + from, n, weight_map, err);
        if (rc != SL_OK) return rc;
    }
    for (size_t i = 0; i < s->n_tensor; i++)
        if (s->tensors[i].type) s->tensors[kept++] = s->tensors[i];
    *n_dropped = s->n_tensor - kept;
    s->n_tensor = kept;
    return SL_OK;
}

static sl_status index_names(sl_store *s, const sl_json *weight_map, const sl_log *log, sl_err *err)
{
    size_t n_dropped = 0;
    sl_status rc = sl_name_index_build(&s->by_name, s->tensors, sizeof *s->tensors, s->n_tensor, err);
    if (rc == SL_OK) rc = settle_duplicates(s, weight_map, &n_dropped, err);
    if (rc != SL_OK || n_dropped == 0) return rc;
    sl_warn(log, "%s: %zu tensors occur in a second file, the copy that the index names is used", sl_show_path(s->path),
            n_dropped);
    return sl_name_index_build(&s->by_name, s->tensors, sizeof *s->tensors, s->n_tensor, err);
}

sl_status sl_store_finish(sl_store *s, const sl_type_tally *tally, const sl_json *weight_map, const sl_log *log,
                          sl_err *err)
{
    sl_status rc = sl_tally_refuse(tally, s->path, "whose layout is not known", err);
    if (rc == SL_OK) rc = check_ranges(s, err);
    if (rc == SL_OK) rc = index_names(s, weight_map, log, err);
    return rc;
}

sl_status sl_store_check_types(const sl_store *s, sl_err *err)
{
    sl_type_tally tally = {0};
    for (size_t i = 0; i < s->n_tensor; i++) {
        const sl_tensor *t = &s->tensors[i];
        if (!t->type->dequantise) sl_tally_add(&tally, t->type, t->type->id, t->name);
    }
    return sl_tally_refuse(&tally, s->path, "that this build cannot compute with", err);
}

/* ---- reading the directory ---- */

sl_store_format sl_store_get_format(const sl_store *s)
{
    return s->format;
}

const char *sl_store_path(const sl_store *s)
{
    return s->path;
}

size_t sl_store_file_count(const sl_store *s)
{
    return s->n_file;
}

const char *sl_store_file_path(const sl_store *s, size_t i)
{
    return s->files[i].path;
}

uint64_t sl_store_file_bytes(const sl_store *s, size_t i)
{
    return s->files[i].size_bytes;
}

size_t sl_store_tensor_count(const sl_store *s)
{
    return s->n_tensor;
}

const sl_tensor *sl_store_tensor(const sl_store *s, size_t i)
{
    return &s->tensors[i];
}

const sl_tensor *sl_store_find(const sl_store *s, const char *name)
{
    size_t i = sl_name_index_find(&s->by_name, name);
    return i == SIZE_MAX ? NULL : &s->tensors[i];
}

const sl_json *sl_store_config(const sl_store *s)
{
    return s->config;
}

const sl_json *sl_store_generation_config(const sl_store *s)
{
    return s->generation_config;
}

void sl_store_drop_metadata(sl_store *s)
{
    sl_meta_set_free(&s->meta);
}

/* A JSON tree takes about eight times its text. */
uint64_t sl_store_header_bytes(const sl_store *s)
{
    const sl_meta_set *m = &s->meta;
    uint64_t n = sizeof *s + s->cap_file * sizeof *s->files + 8 * s->json_bytes;
    for (size_t i = 0; i < s->n_file; i++)
        n += s->files[i].names_bytes + strlen(s->files[i].path) + 1;
    n += s->n_tensor * (sizeof *s->tensors + sizeof *s->by_name.order);
    return n + (m->owned ? m->header_bytes : 0) + m->n * (sizeof *m->metas + sizeof *m->by_key.order) + m->keys_bytes;
}
