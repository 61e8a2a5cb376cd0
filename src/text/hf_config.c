/* What a Hugging Face directory says about single tokens: the added_tokens of tokenizer.json, and tokenizer_config.json
 * with its named tokens (bos_token, ...) and switches.  Read by events: both can have thousands of entries, and the
 * config often carries a chat template that is nobody's business here. */
#include "text/text_int.h"

#include "os/io.h"

#include <errno.h>
#include <string.h>

enum { MAX_CONFIG_BYTES = 64 << 20 };

/* ---- the list ---- */

sl_status sl_hf_names_add(sl_hf_names *x, sl_hf_named row, const char *text, size_t n_bytes, sl_err *err)
{
    if (x->n == x->cap) {
        uint32_t cap = x->cap ? x->cap * 2 : 32;
        sl_hf_named *rows = sl_realloc(x->rows, (size_t)cap * sizeof *rows);
        if (!rows) return sl_fail(err, SL_ERR_NOMEM, "no memory for %u added tokens", cap);
        x->rows = rows;
        x->cap = cap;
    }
    if (!x->text.max) sl_buf_init(&x->text, UINT32_MAX);
    row.off = (uint32_t)x->text.len;
    row.len = (uint32_t)n_bytes;
    sl_buf_add(&x->text, text, n_bytes);
    if (x->text.failed) return sl_fail(err, SL_ERR_NOMEM, "no memory for %u added tokens", x->n + 1);
    x->rows[x->n++] = row;
    return SL_OK;
}

void sl_hf_names_close(sl_hf_names *x)
{
    sl_free(x->rows);
    sl_buf_free(&x->text);
    *x = (sl_hf_names){0};
}

sl_status sl_hf_bad_json(const sl_json_reader *r, const char *file, sl_err *err)
{
    if (r->str.failed) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a string", file);
    return sl_fail(err, SL_ERR_FORMAT, "%s: %s, at byte %zu", file, r->error ? r->error : "not what is expected here",
                   r->pos);
}

/* ---- one added token ---- */

static bool key_is(const sl_json_reader *r, const char *key)
{
    return r->str.len == strlen(key) && (r->str.len == 0 || memcmp(r->str.data, key, r->str.len) == 0);
}

/* The attribute bit that a switch of this name sets; 0: it is no switch. */
static unsigned bit_of_key(const sl_json_reader *r)
{
    static const struct {
        const char *key;
        unsigned bit;
    } rows[] = {{"single_word", SL_ATTR_WORD},
                {"lstrip", SL_ATTR_LSTRIP},
                {"rstrip", SL_ATTR_RSTRIP},
                {"normalized", SL_ATTR_NORMALIZED},
                {"special", SL_TOK_CONTROL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (key_is(r, rows[i].key)) return rows[i].bit;
    return 0;
}

/* The value of one key into row and content. */
static bool read_member(sl_json_reader *r, sl_hf_named *row, sl_buf *content, bool *special)
{
    unsigned bit = bit_of_key(r);
    if (bit) {
        sl_json_event ev = sl_json_read(r);
        if (ev != SL_JSON_TRUE && ev != SL_JSON_FALSE) return false;
        if (bit == SL_TOK_CONTROL)
            *special = ev == SL_JSON_TRUE;
        else if (ev == SL_JSON_TRUE)
            row->attr |= (uint8_t)bit;
        return true;
    }
    if (key_is(r, "content")) {
        if (sl_json_read(r) != SL_JSON_STRING) return false;
        content->len = 0;
        sl_buf_add(content, r->str.data, r->str.len);
        return true;
    }
    if (!key_is(r, "id")) return sl_json_skip(r);
    if (sl_json_read(r) != SL_JSON_NUMBER || !r->is_int || r->integer < 0 || r->integer >= SL_TOK_MAX_VOCAB)
        return false;
    row->id = (uint32_t)r->integer;
    return true;
}

sl_status sl_hf_read_added(sl_hf_names *x, sl_json_reader *r, uint32_t id, const char *file, sl_err *err)
{
    sl_hf_named row = {.id = id};
    sl_buf content;
    bool special = false, ok = true;
    sl_json_event ev = SL_JSON_KEY;
    sl_buf_init(&content, r->n_bytes);
    while (ok && (ev = sl_json_read(r)) == SL_JSON_KEY)
        ok = read_member(r, &row, &content, &special);
    row.attr |= special ? SL_TOK_CONTROL : SL_TOK_USER;
    sl_status rc;
    if (!ok || ev != SL_JSON_OBJECT_END)
        rc = sl_hf_bad_json(r, file, err);
    else if (content.failed)
        rc = sl_fail(err, SL_ERR_NOMEM, "%s: no memory for an added token", file);
    else if (content.len > SL_TOK_MAX_TOKEN_BYTES)
        rc = sl_fail(err, SL_ERR_FORMAT, "%s: added token %u has more than %d bytes", file, row.id,
                     SL_TOK_MAX_TOKEN_BYTES);
    else if (row.id == SL_NO_ID)
        rc = sl_fail(err, SL_ERR_FORMAT, "%s: an added token has no id", file);
    else
        rc = sl_hf_names_add(x, row, content.data ? content.data : "", content.len, err);
    sl_buf_free(&content);
    return rc;
}

/* ---- tokenizer_config.json ---- */

typedef struct {
    sl_hf_names *names;
    sl_hf_settings *out;
    sl_json_reader r;
    const char *file;
    sl_err *err;
} config;

/* A token by name: a string, an object with its content, or null. */
static sl_status read_name(config *c, sl_hf_role role, sl_json_event ev)
{
    sl_json_reader *r = &c->r;
    sl_hf_named row = {.id = SL_NO_ID, .role = role, .attr = SL_TOK_CONTROL};
    sl_status rc = SL_OK;
    if (ev == SL_JSON_NULL || ev == SL_JSON_FALSE) return SL_OK;
    if (ev == SL_JSON_STRING) return sl_hf_names_add(c->names, row, r->str.data, r->str.len, c->err);
    if (ev != SL_JSON_OBJECT) return sl_hf_bad_json(r, c->file, c->err);
    while (rc == SL_OK && (ev = sl_json_read(r)) == SL_JSON_KEY) {
        if (!key_is(r, "content")) {
            if (!sl_json_skip(r)) return sl_hf_bad_json(r, c->file, c->err);
            continue;
        }
        if (sl_json_read(r) != SL_JSON_STRING) return sl_hf_bad_json(r, c->file, c->err);
        rc = sl_hf_names_add(c->names, row, r->str.data, r->str.len, c->err);
    }
    return rc != SL_OK || ev == SL_JSON_OBJECT_END ? rc : sl_hf_bad_json(r, c->file, c->err);
}

/* A list of names; newer files may have an object of them instead. */
static sl_status read_names(config *c)
{
    sl_json_event ev = sl_json_read(&c->r);
    sl_status rc = SL_OK;
    if (ev == SL_JSON_NULL) return SL_OK;
    if (ev != SL_JSON_ARRAY && ev != SL_JSON_OBJECT) return sl_hf_bad_json(&c->r, c->file, c->err);
    sl_json_event last = ev == SL_JSON_ARRAY ? SL_JSON_ARRAY_END : SL_JSON_OBJECT_END;
    while (rc == SL_OK && (ev = sl_json_read(&c->r)) != last)
        if (ev != SL_JSON_KEY) rc = read_name(c, SL_ROLE_OTHER, ev);
    return rc;
}

/* {"0": {added token}, ...} */
static sl_status read_decoder(config *c)
{
    sl_status rc = SL_OK;
    sl_json_event ev;
    if (sl_json_read(&c->r) != SL_JSON_OBJECT) return sl_hf_bad_json(&c->r, c->file, c->err);
    while (rc == SL_OK && (ev = sl_json_read(&c->r)) != SL_JSON_OBJECT_END) {
        uint32_t id = 0;
        if (ev != SL_JSON_KEY) return sl_hf_bad_json(&c->r, c->file, c->err);
        for (size_t i = 0; i < c->r.str.len; i++) {
            unsigned d = (unsigned)(uint8_t)c->r.str.data[i] - '0';
            id = d < 10 && id < SL_TOK_MAX_VOCAB ? id * 10 + d : SL_TOK_MAX_VOCAB;
        }
        if (id >= SL_TOK_MAX_VOCAB || c->r.str.len == 0)
            return sl_fail(c->err, SL_ERR_FORMAT, "%s: added_tokens_decoder has a key that is no id from 0 to %d",
                           c->file, SL_TOK_MAX_VOCAB - 1);
        if (sl_json_read(&c->r) != SL_JSON_OBJECT) return sl_hf_bad_json(&c->r, c->file, c->err);
        rc = sl_hf_read_added(c->names, &c->r, id, c->file, c->err);
    }
    return rc;
}

static sl_status read_switch(config *c, int *out)
{
    sl_json_event ev = sl_json_read(&c->r);
    if (ev == SL_JSON_TRUE || ev == SL_JSON_FALSE) *out = ev == SL_JSON_TRUE;
    return ev == SL_JSON_TRUE || ev == SL_JSON_FALSE || ev == SL_JSON_NULL ? SL_OK
                                                                           : sl_hf_bad_json(&c->r, c->file, c->err);
}

static sl_status read_key(config *c)
{
    static const struct {
        const char *key;
        sl_hf_role role;
    } tokens[] = {{"bos_token", SL_ROLE_BOS},   {"eos_token", SL_ROLE_EOS},   {"unk_token", SL_ROLE_UNK},
                  {"pad_token", SL_ROLE_OTHER}, {"sep_token", SL_ROLE_OTHER}, {"cls_token", SL_ROLE_OTHER},
                  {"mask_token", SL_ROLE_OTHER}};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        if (key_is(&c->r, tokens[i].key)) return read_name(c, tokens[i].role, sl_json_read(&c->r));
    if (key_is(&c->r, "add_bos_token")) return read_switch(c, &c->out->add_bos);
    if (key_is(&c->r, "add_eos_token")) return read_switch(c, &c->out->add_eos);
    if (key_is(&c->r, "added_tokens_decoder")) return read_decoder(c);
    if (key_is(&c->r, "additional_special_tokens") || key_is(&c->r, "extra_special_tokens")) return read_names(c);
    return sl_json_skip(&c->r) ? SL_OK : sl_hf_bad_json(&c->r, c->file, c->err);
}

static sl_status read_config(config *c)
{
    sl_status rc = SL_OK;
    sl_json_event ev;
    if (sl_json_read(&c->r) != SL_JSON_OBJECT) return sl_hf_bad_json(&c->r, c->file, c->err);
    while (rc == SL_OK && (ev = sl_json_read(&c->r)) != SL_JSON_OBJECT_END)
        rc = ev == SL_JSON_KEY ? read_key(c) : sl_hf_bad_json(&c->r, c->file, c->err);
    return rc;
}

char *sl_hf_path(const char *dir, const char *name)
{
    size_t n = strlen(dir), m = strlen(name);
    char *p = sl_malloc(n + m + 2);
    if (!p) return NULL;
    memcpy(p, dir, n);
    if (n && p[n - 1] != '/') p[n++] = '/';
    memcpy(p + n, name, m + 1);
    return p;
}

sl_status sl_hf_read_config(sl_hf_names *x, sl_hf_settings *out, const char *dir, sl_err *err)
{
    char *path = sl_hf_path(dir, "tokenizer_config.json"), *text = NULL;
    size_t n = 0;
    sl_file_info info;
    sl_err absent = {0};
    if (!path) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a file name", dir);
    sl_status rc = SL_OK;
    if (sl_file_stat(path, &info, &absent) == SL_OK || absent.os_errno != ENOENT) {
        rc = sl_file_read_all(path, MAX_CONFIG_BYTES, &text, &n, err);
        if (rc == SL_OK) {
            config c = {.names = x, .out = out, .file = path, .err = err};
            sl_json_reader_init(&c.r, text, n);
            rc = read_config(&c);
            sl_json_reader_free(&c.r);
        }
        sl_free(text);
    }
    sl_free(path);
    return rc;
}
