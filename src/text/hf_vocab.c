/* A tokenizer from tokenizer.json (model BPE), tokenizer_config.json and generation_config.json.
 *
 * The file reaches tens of MB and is read by events, never as a tree: one pass notes where its parts are, then the
 * vocabulary is indexed by id, stored in the order of ids, and the merges follow.  Only the small components become
 * trees.
 *
 * As in `transformers`: added tokens come from both files, tokens named in tokenizer_config.json are control tokens,
 * and add_bos_token / add_eos_token, where given, count more than the post_processor. */
#include "text/text_int.h"

#include "os/io.h"

#include <string.h>

enum {
    MAX_FILE_BYTES = 512 << 20,
    MAX_PART_BYTES = 1 << 20, /* of a component */
};
#define NOWHERE UINT32_MAX

typedef struct {
    size_t from, to; /* in the text; from 0: absent */
} stretch;

typedef struct {
    sl_tokenizer *t; /* RANKS is the kind of a zeroed one */
    const sl_log *log;
    sl_err *err;
    const char *dir;
    const char *file; /* tokenizer.json */
    const char *text;
    size_t n_text;
    stretch normalizer, pre_tokenizer, post_processor, decoder, vocab, merges;
    bool is_bpe;
    sl_json *trees[4];
    sl_hf_parts parts;
    sl_hf_names names;
    sl_hf_settings settings;
    uint32_t n, n_rows;
    uint32_t *key_at; /* [n]: where in text the key with this id begins; NOWHERE: none */
    uint32_t cap_key;
    uint32_t *added_at; /* [n]: row of names with this id */
    size_t text_bytes;  /* of all tokens */
    bool starts[256];   /* first bytes of tokens named by text alone */
    bool spaced;        /* normalised text has spaces for U+2581 */
    int64_t eos;
} reader;

/* ---- where things are ---- */

static bool key_is(const sl_json_reader *j, const char *key)
{
    return j->str.len == strlen(key) && (j->str.len == 0 || memcmp(j->str.data, key, j->str.len) == 0);
}

static sl_status bad_json(const reader *r, const sl_json_reader *j)
{
    return sl_hf_bad_json(j, r->file, r->err);
}

static sl_status unsupported(const reader *r, const char *what)
{
    return sl_fail(r->err, SL_ERR_UNSUPPORTED, "%s: %s is not supported", r->file, what);
}

static sl_status skip_to(const reader *r, sl_json_reader *j, stretch *s)
{
    s->from = j->pos;
    if (!sl_json_skip(j)) return bad_json(r, j);
    s->to = j->pos;
    return SL_OK;
}

static sl_status scan_flag(const reader *r, sl_json_reader *j, bool *out)
{
    sl_json_event ev = sl_json_read(j);
    *out = ev == SL_JSON_TRUE;
    return ev == SL_JSON_TRUE || ev == SL_JSON_FALSE || ev == SL_JSON_NULL ? SL_OK : bad_json(r, j);
}

static sl_status scan_type(reader *r, sl_json_reader *j)
{
    char what[96] = "model ", shown[64];
    if (sl_json_read(j) != SL_JSON_STRING) return bad_json(r, j);
    r->is_bpe = key_is(j, "BPE");
    if (r->is_bpe) return SL_OK;
    strcat(what, sl_text_show(j->str.data ? j->str.data : "", j->str.len, shown));
    return unsupported(r, what);
}

/* Settings that must be null, "" or 0. */
static sl_status scan_unused(const reader *r, sl_json_reader *j, const char *what)
{
    sl_json_event ev = sl_json_read(j);
    if (ev == SL_JSON_NULL || (ev == SL_JSON_STRING && j->str.len == 0)) return SL_OK;
    if (ev == SL_JSON_NUMBER && j->number >= 0 && j->number <= 0) return SL_OK;
    return ev == SL_JSON_STRING || ev == SL_JSON_NUMBER ? unsupported(r, what) : bad_json(r, j);
}

static sl_status scan_unk(reader *r, sl_json_reader *j)
{
    sl_json_event ev = sl_json_read(j);
    if (ev == SL_JSON_NULL) return SL_OK;
    if (ev != SL_JSON_STRING) return bad_json(r, j);
    sl_hf_named row = {.id = SL_NO_ID, .role = SL_ROLE_MODEL_UNK, .attr = SL_TOK_UNKNOWN};
    return sl_hf_names_add(&r->names, row, j->str.data, j->str.len, r->err);
}

static sl_status scan_model_key(reader *r, sl_json_reader *j)
{
    if (key_is(j, "type")) return scan_type(r, j);
    if (key_is(j, "vocab")) return skip_to(r, j, &r->vocab);
    if (key_is(j, "merges")) return skip_to(r, j, &r->merges);
    if (key_is(j, "unk_token")) return scan_unk(r, j);
    if (key_is(j, "fuse_unk")) return scan_flag(r, j, &r->t->fuse_unk);
    if (key_is(j, "byte_fallback")) return scan_flag(r, j, &r->t->byte_fallback);
    if (key_is(j, "ignore_merges")) return scan_flag(r, j, &r->t->ignore_merges);
    if (key_is(j, "dropout")) return scan_unused(r, j, "a model with dropout");
    if (key_is(j, "continuing_subword_prefix")) return scan_unused(r, j, "a model with continuing_subword_prefix");
    if (key_is(j, "end_of_word_suffix")) return scan_unused(r, j, "a model with end_of_word_suffix");
    return sl_json_skip(j) ? SL_OK : bad_json(r, j);
}

static sl_status scan_model(reader *r, sl_json_reader *j)
{
    sl_json_event ev;
    sl_status rc = SL_OK;
    if (sl_json_read(j) != SL_JSON_OBJECT) return bad_json(r, j);
    while (rc == SL_OK && (ev = sl_json_read(j)) != SL_JSON_OBJECT_END)
        rc = ev == SL_JSON_KEY ? scan_model_key(r, j) : bad_json(r, j);
    return rc;
}

static sl_status scan_added(reader *r, sl_json_reader *j)
{
    sl_json_event ev = sl_json_read(j);
    sl_status rc = SL_OK;
    if (ev == SL_JSON_NULL) return SL_OK;
    if (ev != SL_JSON_ARRAY) return bad_json(r, j);
    while (rc == SL_OK && (ev = sl_json_read(j)) != SL_JSON_ARRAY_END)
        rc = ev == SL_JSON_OBJECT ? sl_hf_read_added(&r->names, j, SL_NO_ID, r->file, r->err) : bad_json(r, j);
    return rc;
}

static sl_status scan_key(reader *r, sl_json_reader *j)
{
    if (key_is(j, "normalizer")) return skip_to(r, j, &r->normalizer);
    if (key_is(j, "pre_tokenizer")) return skip_to(r, j, &r->pre_tokenizer);
    if (key_is(j, "post_processor")) return skip_to(r, j, &r->post_processor);
    if (key_is(j, "decoder")) return skip_to(r, j, &r->decoder);
    if (key_is(j, "added_tokens")) return scan_added(r, j);
    if (key_is(j, "model")) return scan_model(r, j);
    return sl_json_skip(j) ? SL_OK : bad_json(r, j);
}

static sl_status scan(reader *r)
{
    sl_json_reader j;
    sl_json_event ev;
    sl_status rc = SL_OK;
    sl_json_reader_init(&j, r->text, r->n_text);
    if (sl_json_read(&j) != SL_JSON_OBJECT) rc = bad_json(r, &j);
    while (rc == SL_OK && (ev = sl_json_read(&j)) != SL_JSON_OBJECT_END)
        rc = ev == SL_JSON_KEY ? scan_key(r, &j) : bad_json(r, &j);
    sl_json_reader_free(&j);
    if (rc != SL_OK) return rc;
    if (!r->vocab.from || !r->merges.from)
        return sl_fail(r->err, SL_ERR_FORMAT, "%s: the model has no %s", r->file, r->vocab.from ? "merges" : "vocab");
    return SL_OK;
}

/* ---- components ---- */

static sl_status parse_part(reader *r, stretch s, unsigned i, const sl_json **out)
{
    if (!s.from) return SL_OK;
    if (s.to - s.from > MAX_PART_BYTES)
        return sl_fail(r->err, SL_ERR_UNSUPPORTED, "%s: a component of %zu bytes, the limit is %d", r->file,
                       s.to - s.from, MAX_PART_BYTES);
    sl_status rc = sl_json_parse(&r->trees[i], r->file, r->text + s.from, s.to - s.from, r->err);
    if (rc == SL_OK && sl_json_is_object(r->trees[i])) *out = r->trees[i];
    return rc;
}

static sl_status parse_parts(reader *r)
{
    sl_status rc = parse_part(r, r->normalizer, 0, &r->parts.normalizer);
    if (rc == SL_OK) rc = parse_part(r, r->pre_tokenizer, 1, &r->parts.pre_tokenizer);
    if (rc == SL_OK) rc = parse_part(r, r->post_processor, 2, &r->parts.post_processor);
    if (rc == SL_OK) rc = parse_part(r, r->decoder, 3, &r->parts.decoder);
    r->parts.file = r->file;
    return rc;
}

/* ---- the vocabulary ---- */

static sl_status no_memory(const reader *r)
{
    return sl_fail(r->err, SL_ERR_NOMEM, "%s: no memory for a vocabulary", r->file);
}

/* Makes room in an array of positions for index id. */
static bool reach(uint32_t **at, uint32_t *cap, uint32_t id)
{
    if (id < *cap) return true;
    uint32_t more = *cap + *cap / 2 > id ? *cap + *cap / 2 : id + 1024;
    uint32_t *p = sl_realloc(*at, (size_t)more * sizeof *p);
    if (!p) return false;
    memset(p + *cap, 0xFF, (size_t)(more - *cap) * sizeof *p);
    *at = p;
    *cap = more;
    return true;
}

/* Where the next key's quote is: behind white space and a comma. */
static size_t next_quote(const reader *r, size_t pos)
{
    while (pos < r->n_text && r->text[pos] != '"')
        pos++;
    return pos;
}

static sl_status index_entry(reader *r, sl_json_reader *j, size_t quote)
{
    char shown[64];
    size_t n_key = j->str.len;
    if (sl_json_read(j) != SL_JSON_NUMBER) return bad_json(r, j);
    if (!j->is_int || j->integer < 0 || j->integer >= SL_TOK_MAX_VOCAB)
        return sl_fail(r->err, SL_ERR_FORMAT, "%s: vocab: '%s' has an id that is no integer from 0 to %d", r->file,
                       sl_text_show(j->str.data ? j->str.data : "", n_key, shown), SL_TOK_MAX_VOCAB - 1);
    uint32_t id = (uint32_t)j->integer;
    if (!reach(&r->key_at, &r->cap_key, id)) return no_memory(r);
    if (r->key_at[id] != NOWHERE)
        return sl_fail(r->err, SL_ERR_FORMAT, "%s: vocab: id %u is given twice, also to '%s'", r->file, id,
                       sl_text_show(j->str.data ? j->str.data : "", n_key, shown));
    r->key_at[id] = (uint32_t)quote;
    r->text_bytes += n_key;
    if (id >= r->n) r->n = id + 1;
    return SL_OK;
}

static sl_status index_vocab(reader *r)
{
    sl_json_reader j;
    sl_json_event ev;
    sl_status rc = SL_OK;
    sl_json_reader_init(&j, r->text + r->vocab.from, r->n_text - r->vocab.from);
    if (sl_json_read(&j) != SL_JSON_OBJECT) rc = bad_json(r, &j);
    while (rc == SL_OK) {
        size_t quote = next_quote(r, r->vocab.from + j.pos);
        if ((ev = sl_json_read(&j)) == SL_JSON_OBJECT_END) break;
        rc = ev == SL_JSON_KEY ? index_entry(r, &j, quote) : bad_json(r, &j);
    }
    sl_json_reader_free(&j);
    return rc;
}

/* Indexes the added tokens; of two with one id the first counts. */
static sl_status index_added(reader *r)
{
    uint32_t cap = 0;
    for (uint32_t i = 0; i < r->names.n; i++) {
        const sl_hf_named *a = &r->names.rows[i];
        r->text_bytes += a->len;
        if (a->id == SL_NO_ID) {
            if (a->len) r->starts[(uint8_t)r->names.text.data[a->off]] = true;
        } else if (a->id >= r->n) {
            r->n = a->id + 1;
        }
    }
    if (r->n == 0) return sl_fail(r->err, SL_ERR_FORMAT, "%s: vocab is empty", r->file);
    if (!reach(&r->key_at, &r->cap_key, r->n - 1) || !reach(&r->added_at, &cap, r->n - 1)) return no_memory(r);
    for (uint32_t i = 0; i < r->names.n; i++) {
        const sl_hf_named *a = &r->names.rows[i];
        if (a->id != SL_NO_ID && r->added_at[a->id] == NOWHERE) r->added_at[a->id] = i;
    }
    if (r->text_bytes > UINT32_MAX)
        return sl_fail(r->err, SL_ERR_FORMAT, "%s: vocab has more than 4 GB of text", r->file);
    return SL_OK;
}

static void take_role(reader *r, sl_hf_role role, uint32_t id)
{
    if (id >= r->t->vocab.n_usable) return;
    if (role == SL_ROLE_BOS) r->t->bos = (int32_t)id;
    if (role == SL_ROLE_EOS) r->eos = id;
    if (role == SL_ROLE_MODEL_UNK) r->t->unk = (int32_t)id;
}

/* What the tokens named by text alone make of the token with this text. */
static uint8_t attr_by_name(reader *r, uint32_t id, uint8_t attr, const char *p, size_t n)
{
    if (n == 0 || !r->starts[(uint8_t)*p]) return attr;
    for (uint32_t i = 0; i < r->names.n; i++) {
        sl_hf_named *a = &r->names.rows[i];
        if (a->id != SL_NO_ID || a->len != n || memcmp(r->names.text.data + a->off, p, n) != 0) continue;
        a->found = true;
        take_role(r, a->role, id);
        unsigned type = attr & SL_ATTR_TYPE;
        if (a->role != SL_ROLE_MODEL_UNK || type == SL_TOK_NORMAL)
            attr = (uint8_t)((attr & ~SL_ATTR_TYPE) | (a->attr & SL_ATTR_TYPE));
    }
    return attr;
}

/* Lists an added token to be looked for, before or after normalising. */
static sl_status list_special(reader *r, uint32_t id, uint8_t attr, const char *p, size_t n)
{
    sl_tokenizer *t = r->t;
    if (id >= t->vocab.n_usable) return SL_OK;
    if (!(attr & SL_ATTR_NORMALIZED) || t->n_norm == 0) return sl_special_add(&t->special, id, p, n, r->err);
    sl_buf bufs[2];
    sl_matcher m = {0};
    sl_buf_init(&bufs[0], SL_TOK_MAX_TEXT_BYTES);
    sl_buf_init(&bufs[1], SL_TOK_MAX_TEXT_BYTES);
    sl_status rc = sl_normalize(t->norm, t->n_norm, true, bufs, &m, &p, &n, r->err);
    if (rc == SL_OK) rc = sl_special_add(&t->special_normalized, id, p, n, r->err);
    sl_buf_free(&bufs[0]);
    sl_buf_free(&bufs[1]);
    sl_matcher_close(&m);
    return rc;
}

static sl_status add_token(reader *r, uint32_t id, uint8_t attr, const char *p, size_t n)
{
    attr = attr_by_name(r, id, attr, p, n);
    sl_status rc = sl_vocab_add(&r->t->vocab, attr, p, n, r->err);
    if (rc != SL_OK) return r->err ? sl_fail(r->err, rc, "%s: %s", r->file, r->err->msg) : rc;
    unsigned type = attr & SL_ATTR_TYPE;
    return type == SL_TOK_CONTROL || type == SL_TOK_USER ? list_special(r, id, attr, p, n) : SL_OK;
}

static sl_status add_key(reader *r, uint32_t id)
{
    sl_json_reader j;
    sl_json_reader_init(&j, r->text + r->key_at[id], r->n_text - r->key_at[id]);
    sl_status rc;
    if (sl_json_read(&j) != SL_JSON_STRING) {
        rc = bad_json(r, &j);
    } else {
        const char *p = j.str.data ? j.str.data : "";
        bool is_byte = r->t->byte_fallback && sl_byte_token_value(p, j.str.len) >= 0;
        rc = add_token(r, id, is_byte ? SL_TOK_BYTE : SL_TOK_NORMAL, p, j.str.len);
    }
    sl_json_reader_free(&j);
    return rc;
}

/* Token number id: an added one, one of the vocabulary, or a gap. */
static sl_status add_any(reader *r, uint32_t id)
{
    if (r->added_at[id] != NOWHERE) {
        const sl_hf_named *a = &r->names.rows[r->added_at[id]];
        return add_token(r, id, a->attr, a->len ? r->names.text.data + a->off : "", a->len);
    }
    if (r->key_at[id] != NOWHERE) return add_key(r, id);
    return sl_vocab_add(&r->t->vocab, SL_TOK_UNUSED, "", 0, r->err);
}

static sl_status fill_vocab(reader *r, sl_text_form form)
{
    sl_tokenizer *t = r->t;
    if (r->n_rows && r->n_rows < r->n)
        sl_warn(r->log, "%s: %u tokens, but the model has %u rows for them: tokens %u and up are never produced",
                r->file, r->n, r->n_rows, r->n_rows);
    sl_status rc = sl_vocab_open(&t->vocab, form, r->n, r->n_rows, r->text_bytes, r->err);
    if (rc == SL_OK) rc = sl_special_open(&t->special, r->names.n, false, r->err);
    if (rc == SL_OK) rc = sl_special_open(&t->special_normalized, 4, r->spaced, r->err);
    for (uint32_t id = 0; rc == SL_OK && id < r->n; id++)
        rc = add_any(r, id);
    if (rc != SL_OK) return rc;
    sl_vocab_seal(&t->vocab);
    sl_special_seal(&t->special);
    sl_special_seal(&t->special_normalized);
    for (uint32_t i = 0; i < r->names.n; i++) {
        const sl_hf_named *a = &r->names.rows[i];
        char shown[64];
        if (a->id == SL_NO_ID && !a->found && a->len)
            sl_warn(r->log, "%s: the token '%s' is named but not in the vocabulary: ignored", r->file,
                    sl_text_show(r->names.text.data + a->off, a->len, shown));
    }
    return SL_OK;
}

/* ---- merges ---- */

/* ["left", "right"], whose bracket has been read. */
static sl_status add_pair(reader *r, sl_json_reader *j, sl_merge_list *list, sl_buf *left)
{
    left->len = 0;
    if (sl_json_read(j) != SL_JSON_STRING) return bad_json(r, j);
    sl_buf_add(left, j->str.data, j->str.len);
    if (left->failed) return no_memory(r);
    if (sl_json_read(j) != SL_JSON_STRING) return bad_json(r, j);
    sl_status rc = sl_merge_list_add(list, &r->t->vocab, left->data, left->len, j->str.data, j->str.len, r->err);
    if (rc != SL_OK) return rc;
    return sl_json_read(j) == SL_JSON_ARRAY_END ? SL_OK : bad_json(r, j);
}

/* "left right", cut at the first space behind the first byte. */
static sl_status add_line(reader *r, sl_json_reader *j, sl_merge_list *list)
{
    const char *p = j->str.data, *space = j->str.len > 1 ? memchr(p + 1, ' ', j->str.len - 1) : NULL;
    if (!space) {
        list->n_ignored++;
        return SL_OK;
    }
    size_t n = (size_t)(space - p);
    return sl_merge_list_add(list, &r->t->vocab, p, n, space + 1, j->str.len - n - 1, r->err);
}

static sl_status read_merges(reader *r, sl_merge_list *list)
{
    sl_json_reader j;
    sl_json_event ev;
    sl_buf left;
    sl_buf_init(&left, r->n_text);
    sl_json_reader_init(&j, r->text + r->merges.from, r->n_text - r->merges.from);
    sl_status rc = sl_json_read(&j) == SL_JSON_ARRAY ? SL_OK : bad_json(r, &j);
    while (rc == SL_OK && (ev = sl_json_read(&j)) != SL_JSON_ARRAY_END)
        rc = ev == SL_JSON_STRING  ? add_line(r, &j, list)
             : ev == SL_JSON_ARRAY ? add_pair(r, &j, list, &left)
                                   : bad_json(r, &j);
    sl_json_reader_free(&j);
    sl_buf_free(&left);
    return rc;
}

static sl_status fill_merges(reader *r)
{
    sl_merge_list list;
    sl_status rc = sl_merge_list_open(&list, 4096, r->err);
    if (rc == SL_OK) rc = read_merges(r, &list);
    if (rc == SL_OK) rc = sl_merge_list_finish(&list, &r->t->merges, &r->t->vocab, r->err);
    if (rc == SL_OK && list.n_ignored)
        sl_warn(r->log, "%s: %llu merges are of or into something that is no token: ignored", r->file,
                (unsigned long long)list.n_ignored);
    sl_merge_list_close(&list);
    return rc;
}

/* ---- what is added, what ends ---- */

static sl_status fill_affixes(reader *r)
{
    sl_tokenizer *t = r->t;
    sl_status rc = sl_hf_template(t, &r->parts, r->err);
    if (rc != SL_OK) return rc;
    if (r->settings.add_bos >= 0 || r->settings.add_eos >= 0) {
        t->n_before = t->n_after = 0;
        if (r->settings.add_bos == 1 && t->bos < 0)
            sl_warn(r->log, "%s: BOS should be added, but no usable bos_token is named: none is added", r->file);
        if (r->settings.add_bos == 1 && t->bos >= 0) t->before[t->n_before++] = t->bos;
        if (r->settings.add_eos == 1 && r->eos >= 0) t->after[t->n_after++] = (int32_t)r->eos;
    }
    if (t->bos < 0 && t->n_before) t->bos = t->before[0];
    return SL_OK;
}

/* eos_token_id of a config: an integer or a list of them. */
static void mark_ends(reader *r, const sl_json *config, const char *what)
{
    const sl_json *v = sl_json_get(config, "eos_token_id");
    int64_t id;
    if (sl_json_int(v, &id)) sl_tokenizer_mark_end(r->t, id, what, r->log);
    for (size_t i = 0; sl_json_is_array(v) && i < sl_json_count(v); i++)
        if (sl_json_int(sl_json_at(v, i), &id)) sl_tokenizer_mark_end(r->t, id, what, r->log);
}

static void fill_ends(reader *r, const sl_store *store)
{
    if (r->eos >= 0) sl_tokenizer_mark_end(r->t, r->eos, "eos_token", r->log);
    mark_ends(r, sl_store_generation_config(store), "generation_config.json: eos_token_id");
    mark_ends(r, sl_store_config(store), "config.json: eos_token_id");
    mark_ends(r, sl_json_get(sl_store_config(store), "text_config"), "config.json: text_config: eos_token_id");
    sl_tokenizer_mark_known_ends(r->t);
    if (r->t->n_end == 0) sl_warn(r->log, "%s: no token that ends generation is known", r->dir);
}

/* ---- all of it ---- */

/* With text in place; dir NULL: nothing but the text is read. */
static sl_status load(reader *r)
{
    sl_text_form form = SL_FORM_PLAIN;
    sl_status rc;
    r->settings = (sl_hf_settings){-1, -1};
    if ((rc = scan(r)) != SL_OK) return rc;
    if (r->dir && (rc = sl_hf_read_config(&r->names, &r->settings, r->dir, r->err)) != SL_OK) return rc;
    if ((rc = parse_parts(r)) != SL_OK) return rc;
    if ((rc = sl_hf_form(&r->parts, &form, r->err)) != SL_OK) return rc;
    if ((rc = sl_hf_pipelines(r->t, &r->parts, &r->spaced, r->err)) != SL_OK) return rc;
    if ((rc = index_vocab(r)) != SL_OK) return rc;
    if ((rc = index_added(r)) != SL_OK) return rc;
    if ((rc = fill_vocab(r, form)) != SL_OK) return rc;
    if ((rc = fill_merges(r)) != SL_OK) return rc;
    return fill_affixes(r);
}

static void reader_close(reader *r)
{
    for (size_t i = 0; i < sizeof r->trees / sizeof r->trees[0]; i++)
        sl_json_free(r->trees[i]);
    sl_hf_names_close(&r->names);
    sl_free(r->key_at);
    sl_free(r->added_at);
}

sl_status sl_tokenizer_from_hf(sl_tokenizer *t, const sl_store *store, uint32_t n_rows, const sl_log *log, sl_err *err)
{
    reader r = {.t = t, .log = log, .err = err, .dir = sl_store_path(store), .n_rows = n_rows, .eos = -1};
    char *text = NULL, *file = sl_hf_path(r.dir, "tokenizer.json");
    if (!file) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a file name", r.dir);
    r.file = file;
    sl_status rc = sl_file_read_all(file, MAX_FILE_BYTES, &text, &r.n_text, err);
    r.text = text;
    if (rc == SL_OK) rc = load(&r);
    if (rc == SL_OK) fill_ends(&r, store);
    reader_close(&r);
    sl_free(text);
    sl_free(file);
    return rc;
}

sl_status sl_tokenizer_parse_json(sl_tokenizer **out, const char *name, const char *json, size_t n_bytes, sl_err *err)
{
    sl_tokenizer *t = sl_calloc(1, sizeof *t);
    if (!t) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a tokenizer", name);
    reader r = {.t = t, .err = err, .file = name, .text = json, .n_text = n_bytes, .eos = -1};
    t->unk = t->bos = -1;
    sl_status rc = load(&r);
    if (rc == SL_OK) sl_tokenizer_mark_known_ends(t);
    reader_close(&r);
    if (rc != SL_OK) {
        sl_tokenizer_close(t);
        return rc;
    }
    *out = t;
    return SL_OK;
}
