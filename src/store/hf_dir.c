/* A Hugging Face directory: config.json, generation_config.json, and safetensors files, found through
 * model.safetensors.index.json when there is one.
 *
 * With an index, its files are read and no others; every tensor it maps must be in the file it names.  Without, the
 * model is model.safetensors, else all model-*.safetensors, else all *.safetensors, helpers such as adapters last;
 * numbered shards must be complete.  Tokenizer files are the text room's business. */
#include "store/store_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char index_name[] = "model.safetensors.index.json";

typedef struct {
    const char *dir;
    char **names; /* everything in dir, sorted */
    size_t n_name;
    const char **files; /* the chosen ones, borrowed from names or from index */
    size_t n_file;
    sl_json *index;
    const sl_json *weight_map; /* in index; NULL: no index */
    sl_err *err;
} hf;

static bool in_directory(const hf *h, const char *name)
{
    for (size_t i = 0; i < h->n_name; i++)
        if (strcmp(h->names[i], name) == 0) return true;
    return false;
}

/* ---- JSON documents ---- */

/* The object in dir/name; *bytes grows by its text. */
static sl_status read_object(const hf *h, const char *name, sl_json **out, uint64_t *bytes)
{
    char *path = sl_path_join(h->dir, name), *text = NULL;
    size_t n = 0;
    if (!path) return sl_fail(h->err, SL_ERR_NOMEM, "%s: no memory for a file name", sl_show_path(h->dir));
    sl_status rc = sl_file_read_all(path, SL_MAX_JSON_BYTES, &text, &n, h->err);
    if (rc == SL_OK) rc = sl_json_parse(out, sl_show_path(path), text, n, h->err);
    if (rc == SL_OK && !sl_json_is_object(*out))
        rc = sl_fail(h->err, SL_ERR_FORMAT, "%s: not a JSON object", sl_show_path(path));
    *bytes += n;
    sl_free(text);
    sl_free(path);
    return rc;
}

static sl_status read_configs(const hf *h, sl_store *s)
{
    if (!in_directory(h, "config.json"))
        return sl_fail(h->err, SL_ERR_FORMAT,
                       "%s: config.json is missing, which says what the weights beside it belong to",
                       sl_show_path(h->dir));
    sl_status rc = read_object(h, "config.json", &s->config, &s->json_bytes);
    if (rc != SL_OK || !in_directory(h, "generation_config.json")) return rc;
    return read_object(h, "generation_config.json", &s->generation_config, &s->json_bytes);
}

/* ---- files by index ---- */

/* What is wrong with a file name from an index; it must not lead out of the directory. */
static const char *file_name_fault(const char *name, size_t n)
{
    if (n == 0 || n > 255) return "has no length from 1 to 255";
    if (memchr(name, '/', n) || memchr(name, '\\', n)) return "is not a plain file name";
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return "is not a plain file name";
    return sl_name_fault(name, n);
}

static int by_text(const void *a, const void *b)
{
    const char *s, *t;
    memcpy(&s, a, sizeof s);
    memcpy(&t, b, sizeof t);
    return strcmp(s, t);
}

/* Sorts the list and drops repeats. */
static void make_unique(hf *h)
{
    size_t n = 0;
    qsort(h->files, h->n_file, sizeof *h->files, by_text);
    for (size_t i = 0; i < h->n_file; i++)
        if (n == 0 || strcmp(h->files[n - 1], h->files[i]) != 0) h->files[n++] = h->files[i];
    h->n_file = n;
}

static sl_status take_mapping(hf *h, const char *tensor, const sl_json *value)
{
    char shown[2][64];
    size_t n;
    const char *name = sl_json_string(value, &n);
    sl_show(tensor, strlen(tensor), shown[0]);
    if (!name)
        return sl_fail(h->err, SL_ERR_FORMAT, "%s: the file of tensor '%s' is not a string", index_name, shown[0]);
    const char *fault = file_name_fault(name, n);
    if (fault)
        return sl_fail(h->err, SL_ERR_FORMAT, "%s: the file of tensor '%s', '%s', %s", index_name, shown[0],
                       sl_show(name, n, shown[1]), fault);
    if (h->n_file == 0 || strcmp(h->files[h->n_file - 1], name) != 0) h->files[h->n_file++] = name; /* mostly sorted */
    return SL_OK;
}

static sl_status files_of_index(hf *h)
{
    uint64_t bytes = 0;
    sl_status rc = read_object(h, index_name, &h->index, &bytes);
    if (rc != SL_OK) return rc;
    h->weight_map = sl_json_get(h->index, "weight_map");
    if (!sl_json_is_object(h->weight_map))
        return sl_fail(h->err, SL_ERR_FORMAT, "%s: field 'weight_map' is not an object", index_name);
    size_t n = sl_json_count(h->weight_map);
    if (n > SL_MAX_TENSORS)
        return sl_fail(h->err, SL_ERR_LIMIT, "%s: it maps %zu tensors, the limit is %d", index_name, n, SL_MAX_TENSORS);
    h->files = sl_malloc(n * sizeof *h->files);
    if (!h->files) return sl_fail(h->err, SL_ERR_NOMEM, "%s: no memory for its %zu entries", index_name, n);
    void *iter = NULL;
    const char *tensor;
    const sl_json *value;
    while (rc == SL_OK && sl_json_next(h->weight_map, &iter, &tensor, &value))
        rc = take_mapping(h, tensor, value);
    make_unique(h);
    for (size_t i = 0; i < h->n_file && rc == SL_OK; i++)
        if (!in_directory(h, h->files[i]))
            rc = sl_fail_os(h->err, ENOENT, "%s: file %s, which %s names", sl_show_path(h->dir), h->files[i],
                            index_name);
    return rc;
}

/* Every mapped tensor must be where the index says. */
static sl_status check_index(const hf *h, const sl_store *s)
{
    void *iter = NULL;
    const char *name;
    const sl_json *value;
    char shown[64];
    while (sl_json_next(h->weight_map, &iter, &name, &value)) {
        const sl_tensor *t = sl_store_find(s, name);
        const char *file = sl_json_string(value, NULL);
        if (!t)
            return sl_fail(h->err, SL_ERR_FORMAT, "%s: tensor '%s' is not in %s nor in any other file of the index",
                           index_name, sl_show(name, strlen(name), shown), file);
        const char *path = sl_store_file_path(s, t->file), *slash = strrchr(path, '/');
        if (strcmp(slash ? slash + 1 : path, file) != 0)
            return sl_fail(h->err, SL_ERR_FORMAT, "%s: tensor '%s' is said to be in %s but is in %s", index_name, name,
                           file, slash ? slash + 1 : path);
    }
    return SL_OK;
}

/* ---- files without an index ---- */

static bool is_candidate(const char *name, const char *prefix, bool helpers)
{
    if (name[0] == '.' || !sl_has_suffix(name, ".safetensors")) return false;
    return strncmp(name, prefix, strlen(prefix)) == 0 && (helpers || !sl_is_helper_name(name));
}

static void choose(hf *h, const char *prefix, bool helpers)
{
    for (size_t i = 0; i < h->n_name; i++)
        if (is_candidate(h->names[i], prefix, helpers)) h->files[h->n_file++] = h->names[i];
}

/* Are all of 1..count there, for the set that shard number i belongs to? */
static sl_status check_set(const hf *h, size_t i)
{
    size_t prefix, other;
    uint32_t no, count, want = 1, of;
    if (!sl_shard_name(h->files[i], ".safetensors", &prefix, &no, &count)) return SL_OK;
    for (size_t k = 0; k < h->n_file; k++) /* sorted: the numbers of a set rise */
        if (sl_shard_name(h->files[k], ".safetensors", &other, &no, &of) && other == prefix && of == count &&
            memcmp(h->files[k], h->files[i], prefix) == 0 && no == want)
            want++;
    if (want > count) return SL_OK;
    return sl_fail_os(h->err, ENOENT, "%s: part %u of %u of the model (%.*s-%05u-of-%05u.safetensors)",
                      sl_show_path(h->dir), (unsigned)want, (unsigned)count, (int)prefix, h->files[i], (unsigned)want,
                      (unsigned)count);
}

static sl_status files_of_directory(hf *h)
{
    h->files = sl_malloc((h->n_name + 1) * sizeof *h->files);
    if (!h->files) return sl_fail(h->err, SL_ERR_NOMEM, "%s: no memory for its file names", sl_show_path(h->dir));
    if (in_directory(h, "model.safetensors")) {
        h->files[h->n_file++] = "model.safetensors";
        return SL_OK;
    }
    choose(h, "model-", false);
    if (h->n_file == 0) choose(h, "", false);
    if (h->n_file == 0) choose(h, "", true);
    if (h->n_file > SL_MAX_FILES)
        return sl_fail(h->err, SL_ERR_LIMIT, "%s: %zu safetensors files, the limit is %d", sl_show_path(h->dir),
                       h->n_file, SL_MAX_FILES);
    sl_status rc = SL_OK;
    size_t prefix, before = SIZE_MAX;
    uint32_t no, count;
    for (size_t i = 0; i < h->n_file && rc == SL_OK; i++) {
        bool shard = sl_shard_name(h->files[i], ".safetensors", &prefix, &no, &count);
        bool same = shard && before != SIZE_MAX && strncmp(h->files[i], h->files[before], prefix) == 0;
        if (shard && !same) rc = check_set(h, i);
        if (shard) before = i;
    }
    return rc;
}

/* ---- opening ---- */

static sl_status add_file(const hf *h, sl_store *s, const char *name, sl_type_tally *tally)
{
    char *path = sl_path_join(h->dir, name);
    sl_sniffed kind;
    if (!path) return sl_fail(h->err, SL_ERR_NOMEM, "%s: no memory for a file name", sl_show_path(h->dir));
    sl_status rc = sl_sniff_file(&kind, path, h->err);
    if (rc == SL_OK && kind != SL_SNIFF_SAFETENSORS)
        rc = sl_fail(h->err, SL_ERR_FORMAT, "%s: a GGUF file where safetensors are needed", sl_show_path(path));
    if (rc == SL_OK) rc = sl_store_add_file(s, path, NULL, 0, h->err);
    if (rc == SL_OK) rc = sl_safetensors_parse_file(s, tally, h->err);
    sl_free(path);
    return rc;
}

static sl_status choose_files(hf *h, const char *only)
{
    if (!only && in_directory(h, index_name)) return files_of_index(h);
    if (!only) return files_of_directory(h);
    h->files = sl_malloc(sizeof *h->files);
    if (!h->files) return sl_fail(h->err, SL_ERR_NOMEM, "%s: no memory for a file name", only);
    h->files[h->n_file++] = only;
    return SL_OK;
}

static sl_status fill(hf *h, sl_store *s, const char *only, const sl_log *log)
{
    sl_type_tally tally = {0};
    sl_status rc = sl_file_list(h->dir, &h->names, &h->n_name, h->err);
    if (rc == SL_OK) rc = choose_files(h, only);
    for (size_t i = 0; i < h->n_file && rc == SL_OK; i++)
        rc = add_file(h, s, h->files[i], &tally);
    if (rc == SL_OK) rc = read_configs(h, s);
    if (rc == SL_OK) rc = sl_store_finish(s, &tally, h->weight_map, log, h->err);
    return rc == SL_OK && h->weight_map ? check_index(h, s) : rc;
}

sl_status sl_hf_open(sl_store **out, const char *model, const char *dir, const char *only, const sl_log *log,
                     sl_err *err)
{
    sl_store *s;
    hf h = {.dir = dir, .err = err};
    sl_status rc = sl_store_new(&s, SL_STORE_SAFETENSORS, model, err);
    if (rc != SL_OK) return rc;
    rc = fill(&h, s, only, log);
    sl_json_free(h.index);
    sl_free(h.files);
    sl_file_list_free(h.names, h.n_name);
    if (rc == SL_OK)
        *out = s;
    else
        sl_store_close(s);
    return rc;
}
