/* A GGUF model from any of its shards, or from a directory.  Shards are found by name, PREFIX-00002-of-00003.gguf, and
 * must agree with it: split.count, split.no and split.tensors.count are checked.  Each shard is a complete GGUF with a
 * data section of its own; only the first one's metadata are kept. */
#include "store/store_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    char *path; /* of the shard at hand; its number is written in place */
    size_t prefix;
    uint32_t count; /* 1: not split */
} parts;

static sl_status parts_init(parts *p, const char *path, sl_err *err)
{
    uint32_t no;
    *p = (parts){.path = sl_strdup(path)};
    if (!p->path) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for its name", sl_show_path(path));
    if (!sl_shard_name(path, ".gguf", &p->prefix, &no, &p->count)) p->count = 1;
    return SL_OK;
}

/* "-00001-of-00003.gguf" stands at prefix. */
static const char *part_path(parts *p, uint32_t i)
{
    char digits[16];
    if (p->count > 1) {
        snprintf(digits, sizeof digits, "%05u", (unsigned)(i + 1) % 100000);
        memcpy(p->path + p->prefix + 1, digits, 5);
    }
    return p->path;
}

static sl_status check_all_exist(parts *p, sl_err *err)
{
    for (uint32_t i = 0; i < p->count; i++) {
        sl_err local = {0};
        sl_file_info info;
        if (sl_file_stat(part_path(p, i), &info, &local) == SL_OK) continue;
        if (p->count == 1) return sl_fail_os(err, local.os_errno, "%s", sl_show_path(p->path));
        return sl_fail_os(err, local.os_errno, "%s: part %u of %u of the model cannot be opened", sl_show_path(p->path),
                          (unsigned)i + 1, (unsigned)p->count);
    }
    return SL_OK;
}

static int64_t meta_int_or(const sl_meta_set *x, const char *key, int64_t fallback)
{
    const sl_meta *m = sl_meta_set_find(x, key);
    int64_t v = -1; /* of the wrong kind: no value that can be right */
    if (!m) return fallback;
    return sl_meta_is_int(m, &v) ? v : -1;
}

/* Does shard i of the name say so itself? */
static sl_status check_part(const parts *p, uint32_t i, const sl_meta_set *meta, sl_err *err)
{
    int64_t count = meta_int_or(meta, "split.count", p->count > 1 ? 0 : 1);
    int64_t no = meta_int_or(meta, "split.no", p->count > 1 ? -1 : 0);
    const char *path = sl_show_path(p->path);
    if (p->count == 1 && count > 1)
        return sl_fail(err, SL_ERR_FORMAT,
                       "%s: part %" PRId64 " of a model in %" PRId64
                       " parts (split.count), but its name does not end in "
                       "-00001-of-0000N.gguf as it must for the others to be found",
                       path, no + 1, count);
    if (p->count > 1 && count != p->count)
        return sl_fail(err, SL_ERR_FORMAT, "%s: the name says %u parts, key 'split.count' says %" PRId64, path,
                       (unsigned)p->count, count);
    if (p->count > 1 && no != i)
        return sl_fail(err, SL_ERR_FORMAT,
                       "%s: the name says part %u, key 'split.no' says %" PRId64 " (counted from 0)", path,
                       (unsigned)i + 1, no);
    return SL_OK;
}

static sl_status add_part(sl_store *s, parts *p, uint32_t i, sl_type_tally *tally, sl_err *err)
{
    sl_meta_set later = {0}, *meta = i ? &later : &s->meta;
    sl_sniffed kind;
    sl_status rc = sl_sniff_file(&kind, part_path(p, i), err);
    if (rc == SL_OK && kind != SL_SNIFF_GGUF)
        rc = sl_fail(err, SL_ERR_FORMAT, "%s: a safetensors file where a GGUF is needed", sl_show_path(p->path));
    if (rc == SL_OK) rc = sl_store_add_file(s, p->path, NULL, 0, err);
    if (rc == SL_OK) rc = sl_gguf_parse_file(s, meta, tally, err);
    if (rc == SL_OK) rc = check_part(p, i, meta, err);
    sl_meta_set_free(&later);
    return rc;
}

static sl_status check_tensor_count(const sl_store *s, sl_err *err)
{
    int64_t n = meta_int_or(&s->meta, "split.tensors.count", (int64_t)s->n_tensor);
    if (s->n_file == 1 || n == (int64_t)s->n_tensor) return SL_OK;
    return sl_fail(err, SL_ERR_FORMAT, "%s: the %zu parts hold %zu tensors, key 'split.tensors.count' says %" PRId64,
                   sl_show_path(s->path), s->n_file, s->n_tensor, n);
}

sl_status sl_gguf_open(sl_store **out, const char *model, const char *path, const sl_log *log, sl_err *err)
{
    parts p;
    sl_store *s = NULL;
    sl_type_tally tally = {0};
    sl_status rc = parts_init(&p, path, err);
    if (rc == SL_OK) rc = check_all_exist(&p, err);
    if (rc == SL_OK) rc = sl_store_new(&s, SL_STORE_GGUF, model, err);
    for (uint32_t i = 0; i < p.count && rc == SL_OK; i++)
        rc = add_part(s, &p, i, &tally, err);
    if (rc == SL_OK) rc = sl_store_finish(s, &tally, NULL, log, err);
    if (rc == SL_OK) rc = check_tensor_count(s, err);
    sl_free(p.path);
    if (rc == SL_OK)
        *out = s;
    else
        sl_store_close(s);
    return rc;
}

/* ---- directories ---- */

static bool same_model(const char *a, const char *b)
{
    size_t na, nb;
    uint32_t no, count_a, count_b;
    return sl_shard_name(a, ".gguf", &na, &no, &count_a) && sl_shard_name(b, ".gguf", &nb, &no, &count_b) &&
           count_a == count_b && na == nb && memcmp(a, b, na) == 0;
}

/* The models among the names (sorted, so that shards of one lie side by side): how many, the last one's name, and a
 * list of them for a message. */
static size_t list_models(char *const *names, size_t n_name, bool helpers, const char **name, sl_buf *list)
{
    size_t n = 0;
    for (size_t i = 0; i < n_name; i++) {
        if (!sl_has_suffix(names[i], ".gguf") || names[i][0] == '.' || sl_is_helper_name(names[i]) != helpers) continue;
        if (n && same_model(*name, names[i])) continue;
        *name = names[i];
        if (n < 8) sl_buf_printf(list, "%s%.80s", n ? ", " : "", names[i]);
        n++;
    }
    return n;
}

sl_status sl_gguf_pick(char **path, const char *dir, char *const *names, size_t n_name, sl_err *err)
{
    sl_buf list;
    const char *name = NULL;
    sl_status rc = SL_OK;
    sl_buf_init(&list, 1024);
    size_t n = list_models(names, n_name, false, &name, &list);
    bool only_helpers = n == 0;
    if (only_helpers) n = list_models(names, n_name, true, &name, &list);
    if (n > 1)
        rc = sl_fail(err, SL_ERR_ARG, "%s: the directory holds %zu GGUF %s, name one of them: %.400s%s",
                     sl_show_path(dir), n, only_helpers ? "files and all seem to be helpers of a model" : "models",
                     list.data ? list.data : "", n > 8 ? ", ..." : "");
    if (n == 1 && !(*path = sl_path_join(dir, name)))
        rc = sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a file name", sl_show_path(dir));
    sl_buf_free(&list);
    return rc;
}
