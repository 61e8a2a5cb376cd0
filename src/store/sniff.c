/* What a file is, by its first bytes: the file's extension is a hint and no more.  Most "broken models" are something
 * else that was saved under the model's name; saying what spares the user a search. */
#include "store/store_int.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_MAX = 512 };

typedef struct {
    const char *path; /* for messages */
    uint64_t file_bytes;
    char head[HEAD_MAX + 1]; /* terminated */
    size_t n;
} sniff;

static bool begins(const sniff *f, const char *magic, size_t n)
{
    return f->n >= n && memcmp(f->head, magic, n) == 0;
}

static sl_status refuse_lfs(const sniff *f, sl_err *err)
{
    const char *size = strstr(f->head, "\nsize ");
    char text[24];
    uint64_t bytes = size ? strtoull(size + 6, NULL, 10) : 0;
    if (!size)
        return sl_fail(err, SL_ERR_FORMAT,
                       "%s: a git-lfs pointer, not the model: the real file still has to be fetched (git lfs pull)",
                       f->path);
    return sl_fail(err, SL_ERR_FORMAT,
                   "%s: a git-lfs pointer, not the model: the real file of %" PRIu64
                   " bytes (%s) still has to be fetched (git lfs pull)",
                   f->path, bytes, sl_size_text(bytes, text));
}

/* Markup: a login, error or license page in place of the file. */
static bool is_web_page(const sniff *f)
{
    static const char *const starts[] = {"<!doctype", "<html", "<head", "<body", "<?xml", "<!--", "<error"};
    const char *p = f->head;
    if (memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;
    while (isspace((unsigned char)*p))
        p++;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncasecmp(p, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

static const char *foreign_kind(const sniff *f)
{
    static const struct {
        const char *magic, *kind;
    } kinds[] = {
        {"PK\x03\x04", "a ZIP archive (a PyTorch checkpoint?)"},
        {"\x80\x02", "a Python pickle (a PyTorch checkpoint?)"},
        {"\x1f\x8b", "a gzip archive, to be unpacked first"},
        {"BZh", "a bzip2 archive, to be unpacked first"},
        {"\x28\xb5\x2f\xfd", "a zstd archive, to be unpacked first"},
        {"\x89HDF", "an HDF5 file"},
        {"lmgg", "a GGML file of before 2023, which must be converted to GGUF"},
        {"fmgg", "a GGML file of before 2023, which must be converted to GGUF"},
        {"tjgg", "a GGML file of 2023 (GGJT), which must be converted to GGUF"},
        {"algg", "a GGML adapter file"},
        {"{\"", "JSON text (an error message saved as a file?)"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (begins(f, kinds[i].magic, strlen(kinds[i].magic))) return kinds[i].kind;
    return NULL;
}

/* A header length that fits the file, then an object. */
static bool is_safetensors(const sniff *f)
{
    uint64_t n;
    if (f->n < 9) return false;
    memcpy(&n, f->head, sizeof n);
    return f->head[8] == '{' && n <= f->file_bytes - 8;
}

static sl_status read_head(sniff *f, const char *path, sl_err *err)
{
    sl_file_info info;
    sl_status rc = sl_file_stat(path, &info, err);
    if (rc != SL_OK) return rc;
    *f = (sniff){.path = sl_show_path(path), .file_bytes = info.size_bytes};
    if (info.is_dir) return sl_fail(err, SL_ERR_FORMAT, "%s: a directory where a file is needed", f->path);
    f->n = sl_min_u64(info.size_bytes, HEAD_MAX);
    return f->n ? sl_file_read_at(path, 0, f->head, f->n, err) : SL_OK; /* a pipe would block */
}

sl_status sl_sniff_file(sl_sniffed *out, const char *path, sl_err *err)
{
    sniff f;
    sl_status rc = read_head(&f, path, err);
    if (rc != SL_OK) return rc;
    *out = SL_SNIFF_GGUF;
    if (begins(&f, "GGUF", 4)) return SL_OK;
    if (f.n == 0)
        return sl_fail(err, SL_ERR_FORMAT, "%s: an empty file (0 bytes): the real file still has to be fetched",
                       f.path);
    static const char lfs[] = "version https://git-lfs.github.com/spec/";
    if (begins(&f, lfs, sizeof lfs - 1)) return refuse_lfs(&f, err);
    if (is_web_page(&f))
        return sl_fail(err, SL_ERR_FORMAT,
                       "%s: a web page (HTML or XML), not a model: the download answered with a page, the real file of "
                       "the model still has to be fetched",
                       f.path);
    *out = SL_SNIFF_SAFETENSORS;
    if (is_safetensors(&f)) return SL_OK;
    const char *kind = foreign_kind(&f);
    if (kind) return sl_fail(err, SL_ERR_FORMAT, "%s: not a model file but %s", f.path, kind);
    if (sl_has_suffix(path, ".safetensors")) return SL_OK; /* the parser says what is wrong with it */
    *out = SL_SNIFF_GGUF;
    if (sl_has_suffix(path, ".gguf")) return SL_OK;
    return sl_fail(err, SL_ERR_FORMAT, "%s: neither a GGUF nor a safetensors file", f.path);
}
