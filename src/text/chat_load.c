/* Where a model keeps its chat templates, and the tokens that they name.
 *   GGUF     tokenizer.chat_template, and tokenizer.chat_template.NAME for each of tokenizer.chat_templates
 *   folders  chat_template.jinja, chat_template.json, or chat_template of tokenizer_config.json: a text, or a list of
 *            {"name", "template"}; the first that is there */
#include "text/chat_int.h"
#include "text/text_int.h"

#include "os/io.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FILE_BYTES = 64 << 20 };

/* ---- GGUF ---- */

static sl_status add_token_by_id(sl_chat *c, const sl_store *store, const char *key, const char *name, sl_err *err)
{
    const sl_meta *tokens = sl_store_meta(store, "tokenizer.ggml.tokens");
    const char *p = NULL;
    size_t n = 0;
    uint64_t pos = 0;
    int64_t id;
    if (!tokens || !sl_store_meta_int(store, key, &id, NULL) || id < 0 || (uint64_t)id >= tokens->count) return SL_OK;
    for (int64_t i = 0; i <= id; i++)
        if (!sl_meta_string_next(tokens, &pos, &p, &n)) return SL_OK; /* the tokenizer says what is wrong with it */
    return sl_chat_add_token(c, name, p, n, err);
}

static sl_status load_gguf_tokens(sl_chat *c, const sl_store *store, sl_err *err)
{
    static const struct {
        const char *key, *name;
    } rows[] = {{"tokenizer.ggml.bos_token_id", "bos_token"},       {"tokenizer.ggml.eos_token_id", "eos_token"},
                {"tokenizer.ggml.unknown_token_id", "unk_token"},   {"tokenizer.ggml.padding_token_id", "pad_token"},
                {"tokenizer.ggml.seperator_token_id", "sep_token"}, {"tokenizer.ggml.cls_token_id", "cls_token"},
                {"tokenizer.ggml.mask_token_id", "mask_token"}};
    sl_status rc = SL_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && rc == SL_OK; i++)
        rc = add_token_by_id(c, store, rows[i].key, rows[i].name, err);
    return rc;
}

static sl_status add_named_gguf(sl_chat *c, const sl_store *store, const char *name, size_t n_name, sl_err *err)
{
    char key[200];
    const char *p;
    size_t n;
    if (n_name > 100) return SL_OK;
    snprintf(key, sizeof key, "tokenizer.chat_template.%.*s", (int)n_name, name);
    if (!sl_store_meta_string(store, key, &p, &n, NULL)) return SL_OK;
    return sl_chat_add(c, name, n_name, p, n, err);
}

static sl_status load_gguf(sl_chat *c, const sl_store *store, sl_err *err)
{
    const sl_meta *names = sl_store_meta(store, "tokenizer.chat_templates");
    const char *p;
    size_t n;
    uint64_t pos = 0;
    sl_status rc = SL_OK;
    if (sl_store_meta_string(store, "tokenizer.chat_template", &p, &n, NULL) && n)
        rc = sl_chat_add(c, "default", 7, p, n, err);
    while (rc == SL_OK && names && sl_meta_string_next(names, &pos, &p, &n))
        rc = add_named_gguf(c, store, p, n, err);
    return rc;
}

/* ---- folders ---- */

/* The whole file; *text NULL when it is not there. */
static sl_status read_file(const char *dir, const char *name, char **text, size_t *n, sl_err *err)
{
    sl_file_info info;
    sl_err absent = {0};
    sl_status rc = SL_OK;
    char *path = sl_hf_path(dir, name);
    *text = NULL;
    if (!path) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a file name", dir);
    if (sl_file_stat(path, &info, &absent) == SL_OK) rc = sl_file_read_all(path, MAX_FILE_BYTES, text, n, err);
    sl_free(path);
    return rc;
}

static bool key_is(const sl_json_reader *r, const char *key)
{
    return r->str.len == strlen(key) && memcmp(r->str.data, key, r->str.len) == 0;
}

typedef struct {
    sl_chat *chat;
    sl_json_reader r;
    const char *file;
    sl_err *err;
    bool with_templates;
} config;

/* {"name": ..., "template": ...}, its brace read. */
static sl_status read_named(config *k)
{
    sl_buf name, text;
    sl_json_event e;
    bool ok = true;
    sl_buf_init(&name, k->r.n_bytes);
    sl_buf_init(&text, k->r.n_bytes);
    while (ok && (e = sl_json_read(&k->r)) == SL_JSON_KEY) {
        sl_buf *to = key_is(&k->r, "name") ? &name : key_is(&k->r, "template") ? &text : NULL;
        if (!to)
            ok = sl_json_skip(&k->r);
        else if ((ok = sl_json_read(&k->r) == SL_JSON_STRING))
            sl_buf_add(to, k->r.str.data, k->r.str.len);
    }
    sl_status rc;
    if (!ok || e != SL_JSON_OBJECT_END)
        rc = sl_hf_bad_json(&k->r, k->file, k->err);
    else if (name.failed || text.failed)
        rc = sl_fail(k->err, SL_ERR_NOMEM, "%s: no memory for a chat template", k->file);
    else
        rc = sl_chat_add(k->chat, name.data ? name.data : "", name.len, text.data ? text.data : "", text.len, k->err);
    sl_buf_free(&name);
    sl_buf_free(&text);
    return rc;
}

static sl_status read_templates(config *k)
{
    sl_json_event e = sl_json_read(&k->r);
    sl_status rc = SL_OK;
    if (e == SL_JSON_STRING) return sl_chat_add(k->chat, "default", 7, k->r.str.data, k->r.str.len, k->err);
    if (e == SL_JSON_NULL) return SL_OK;
    if (e != SL_JSON_ARRAY) return sl_hf_bad_json(&k->r, k->file, k->err);
    while (rc == SL_OK && (e = sl_json_read(&k->r)) != SL_JSON_ARRAY_END)
        rc = e == SL_JSON_OBJECT ? read_named(k) : sl_hf_bad_json(&k->r, k->file, k->err);
    return rc;
}

/* A text, or an object with its content. */
static sl_status read_token(config *k, const char *name)
{
    sl_json_event e = sl_json_read(&k->r);
    if (e == SL_JSON_STRING) return sl_chat_add_token(k->chat, name, k->r.str.data, k->r.str.len, k->err);
    if (e != SL_JSON_OBJECT) return SL_OK;
    sl_status rc = SL_OK;
    while (rc == SL_OK && (e = sl_json_read(&k->r)) == SL_JSON_KEY) {
        bool content = key_is(&k->r, "content");
        if (content && sl_json_read(&k->r) == SL_JSON_STRING)
            rc = sl_chat_add_token(k->chat, name, k->r.str.data, k->r.str.len, k->err);
        else if (content || !sl_json_skip(&k->r))
            return sl_hf_bad_json(&k->r, k->file, k->err);
    }
    return rc != SL_OK || e == SL_JSON_OBJECT_END ? rc : sl_hf_bad_json(&k->r, k->file, k->err);
}

static sl_status read_key(config *k)
{
    static const char *const tokens[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                         "sep_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (key_is(&k->r, tokens[i])) return read_token(k, tokens[i]);
    if (k->with_templates && key_is(&k->r, "chat_template")) return read_templates(k);
    return sl_json_skip(&k->r) ? SL_OK : sl_hf_bad_json(&k->r, k->file, k->err);
}

static sl_status read_config(sl_chat *c, const char *dir, const char *name, bool with_templates, sl_err *err)
{
    char *text;
    size_t n = 0;
    sl_status rc = read_file(dir, name, &text, &n, err);
    if (rc != SL_OK || !text) return rc;
    config k = {.chat = c, .file = name, .err = err, .with_templates = with_templates};
    sl_json_reader_init(&k.r, text, n);
    sl_json_event e = sl_json_read(&k.r);
    rc = e == SL_JSON_OBJECT ? SL_OK : sl_hf_bad_json(&k.r, name, err);
    while (rc == SL_OK && (e = sl_json_read(&k.r)) != SL_JSON_OBJECT_END)
        rc = e == SL_JSON_KEY ? read_key(&k) : sl_hf_bad_json(&k.r, name, err);
    sl_json_reader_free(&k.r);
    sl_free(text);
    return rc;
}

static sl_status load_folder(sl_chat *c, const char *dir, bool with_templates, sl_err *err)
{
    char *text = NULL;
    size_t n = 0;
    sl_status rc = with_templates ? read_file(dir, "chat_template.jinja", &text, &n, err) : SL_OK;
    if (rc == SL_OK && text) rc = sl_chat_add(c, "default", 7, text, n, err);
    sl_free(text);
    if (rc == SL_OK && with_templates) rc = read_config(c, dir, "chat_template.json", true, err);
    return rc == SL_OK ? read_config(c, dir, "tokenizer_config.json", with_templates, err) : rc;
}

/* The folder of a model that is named by one of its files. */
static sl_status load_beside(sl_chat *c, const char *path, bool with_templates, sl_err *err)
{
    sl_file_info info;
    size_t n = strlen(path);
    if (sl_file_stat(path, &info, NULL) == SL_OK && info.is_dir) return load_folder(c, path, with_templates, err);
    while (n && path[n - 1] != '/')
        n--;
    char *dir = n ? sl_strndup(path, n) : sl_strdup(".");
    if (!dir) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a file name", path);
    sl_status rc = load_folder(c, dir, with_templates, err);
    sl_free(dir);
    return rc;
}

sl_status sl_chat_load(sl_chat *c, const sl_store *store, bool with_templates, sl_err *err)
{
    if (sl_store_get_format(store) != SL_STORE_GGUF) return load_beside(c, sl_store_path(store), with_templates, err);
    sl_status rc = load_gguf_tokens(c, store, err);
    return rc == SL_OK && with_templates ? load_gguf(c, store, err) : rc;
}
