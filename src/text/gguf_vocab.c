/* A tokenizer from GGUF metadata: models `gpt2` (byte-level BPE), `llama` (SentencePiece BPE) and `gemma4` (BPE over
 * characters).  The others (t5, bert, rwkv, plamo2, whitespace) are refused by name.
 *
 * A GGUF file does not carry a normaliser.  NFC is applied for the pre-tokenizers qwen2, qwen35, command-r and olmo, as
 * the families' own tokenizers do (llama.cpp does not).  An unknown or missing pre-tokenizer is warned about and
 * llama.cpp's default taken.
 *
 * Ids that are missing are not invented, with one exception: a `llama` vocabulary whose tokens 0, 1 and 2 are of the
 * right kind has the unknown token, BOS and EOS there, as the format's definition says. */
#include "text/text_int.h"

#include <math.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

typedef struct {
    sl_tokenizer *t;
    const sl_store *store;
    const char *path;
    const sl_log *log;
    sl_err *err;
    const sl_meta *tokens, *types, *scores, *merges;
    uint32_t n, n_rows;
    const sl_pre *pre;
    sl_text_form form;
    bool is_gemma4;
    int64_t bos, eos, unk; /* -1: not named */
    bool rstrip;           /* Phi-3: control tokens swallow the blanks behind them */
} reader;

static sl_status wrong(const reader *r, const char *key, const char *why)
{
    return sl_fail(r->err, SL_ERR_FORMAT, "%s: %s %s", r->path, key, why);
}

/* ---- what the file has ---- */

static bool string_is(const char *p, size_t n, const char *s)
{
    return n == strlen(s) && memcmp(p, s, n) == 0;
}

static sl_status read_kind(reader *r)
{
    const char *p = NULL;
    size_t n = 0;
    sl_err bad = {0};
    if (!sl_store_meta_string(r->store, KEY("model"), &p, &n, &bad))
        return bad.code ? wrong(r, KEY("model"), "is no string") : wrong(r, KEY("model"), "is missing");
    r->t->bpe = SL_BPE_RANKS;
    r->form = SL_FORM_BYTES;
    if (string_is(p, n, "gpt2")) return SL_OK;
    r->form = SL_FORM_SPACED;
    r->is_gemma4 = string_is(p, n, "gemma4");
    if (r->is_gemma4) return SL_OK;
    r->t->bpe = SL_BPE_SCORES;
    if (string_is(p, n, "llama")) return SL_OK;
    return sl_fail(r->err, SL_ERR_UNSUPPORTED, "%s: %s is '%.*s'; supported are gpt2, llama and gemma4", r->path,
                   KEY("model"), (int)(n < 40 ? n : 40), p);
}

typedef enum { INTEGERS, NUMBERS, STRINGS } array_of;

static bool holds(const sl_meta *m, array_of what)
{
    uint32_t e = m->elem_type;
    if (m->type != SL_GV_ARRAY) return false;
    if (what == STRINGS) return e == SL_GV_STRING;
    return e != SL_GV_STRING && e != SL_GV_ARRAY && e != SL_GV_BOOL &&
           (what == NUMBERS || (e != SL_GV_F32 && e != SL_GV_F64));
}

/* An array with at least n elements; *out stays NULL when it is absent. */
static sl_status find_array(const reader *r, const char *key, array_of what, uint64_t n, const sl_meta **out)
{
    static const char *const names[] = {"integers", "numbers", "strings"};
    const sl_meta *m = sl_store_meta(r->store, key);
    if (!m) return SL_OK;
    if (!holds(m, what)) return sl_fail(r->err, SL_ERR_FORMAT, "%s: %s is no array of %s", r->path, key, names[what]);
    if (m->count < n)
        return sl_fail(r->err, SL_ERR_FORMAT, "%s: %s has %llu elements for %llu tokens", r->path, key,
                       (unsigned long long)m->count, (unsigned long long)n);
    *out = m;
    return SL_OK;
}

static sl_status find_arrays(reader *r)
{
    sl_status rc = find_array(r, KEY("tokens"), STRINGS, 0, &r->tokens);
    if (rc != SL_OK) return rc;
    if (!r->tokens) return wrong(r, KEY("tokens"), "is missing");
    if (r->tokens->count == 0) return wrong(r, KEY("tokens"), "is empty");
    if (r->tokens->count > SL_TOK_MAX_VOCAB || r->tokens->data_bytes > UINT32_MAX)
        return sl_fail(r->err, SL_ERR_FORMAT, "%s: %s has %llu tokens, the limit is %d", r->path, KEY("tokens"),
                       (unsigned long long)r->tokens->count, SL_TOK_MAX_VOCAB);
    r->n = (uint32_t)r->tokens->count;
    rc = find_array(r, KEY("token_type"), INTEGERS, r->n, &r->types);
    if (rc == SL_OK) rc = find_array(r, KEY("scores"), NUMBERS, r->n, &r->scores);
    if (rc == SL_OK) rc = find_array(r, KEY("merges"), STRINGS, 0, &r->merges);
    if (rc != SL_OK) return rc;
    if (r->t->bpe == SL_BPE_SCORES && !r->scores) return wrong(r, KEY("scores"), "is missing");
    if (r->t->bpe == SL_BPE_RANKS && !r->merges) return wrong(r, KEY("merges"), "is missing");
    if (r->n_rows && r->n_rows < r->n)
        sl_warn(r->log, "%s: %u tokens, but the model has %u rows for them: tokens %u and up are never produced",
                r->path, r->n, r->n_rows, r->n_rows);
    return SL_OK;
}

/* A special token's id, -1 when it is not named or not usable. */
static sl_status read_id(const reader *r, const char *key, int64_t *id)
{
    sl_err bad = {0};
    uint32_t usable = r->n_rows && r->n_rows < r->n ? r->n_rows : r->n;
    *id = -1;
    if (!sl_store_meta_int(r->store, key, id, &bad)) {
        *id = -1;
        return bad.code ? wrong(r, key, "is no integer") : SL_OK;
    }
    if (*id >= 0 && *id < (int64_t)usable) return SL_OK;
    sl_warn(r->log, "%s: %s is %lld, the usable tokens are 0 to %u: ignored", r->path, key, (long long)*id, usable - 1);
    *id = -1;
    return SL_OK;
}

static sl_status read_flag(const reader *r, const char *key, bool *value)
{
    sl_err bad = {0};
    sl_store_meta_bool(r->store, key, value, &bad);
    return bad.code ? wrong(r, key, "is neither true nor false") : SL_OK;
}

static sl_status read_ids(reader *r)
{
    sl_status rc = read_id(r, KEY("bos_token_id"), &r->bos);
    if (rc == SL_OK) rc = read_id(r, KEY("eos_token_id"), &r->eos);
    if (rc == SL_OK) rc = read_id(r, KEY("unknown_token_id"), &r->unk);
    return rc;
}

static sl_status read_pre(reader *r)
{
    const char *p = NULL;
    size_t n = 0;
    sl_err bad = {0};
    r->pre = &sl_pre_default;
    if (r->form != SL_FORM_BYTES) return SL_OK;
    if (!sl_store_meta_string(r->store, KEY("pre"), &p, &n, &bad)) {
        if (bad.code) return wrong(r, KEY("pre"), "is no string");
        sl_warn(r->log, "%s: %s is missing: the 'default' pre-tokenizer is assumed, which is wrong for most models",
                r->path, KEY("pre"));
        return SL_OK;
    }
    const sl_pre *pre = sl_pre_find(p, n);
    if (pre)
        r->pre = pre;
    else
        sl_warn(r->log,
                "%s: %s is '%.*s', which is not known: the 'default' pre-tokenizer is assumed, which is wrong for "
                "most models",
                r->path, KEY("pre"), (int)(n < 40 ? n : 40), p);
    return SL_OK;
}

static bool contains_fold(const char *p, size_t n, const char *word)
{
    size_t m = strlen(word);
    for (size_t i = 0; i + m <= n; i++) {
        size_t k = 0;
        while (k < m && (p[i + k] | 32) == (word[k] | 32))
            k++;
        if (k == m) return true;
    }
    return false;
}

static void read_name(reader *r)
{
    const char *p = NULL;
    size_t n = 0;
    if (!sl_store_meta_string(r->store, "general.name", &p, &n, NULL)) return;
    r->rstrip = contains_fold(p, n, "phi-3") || contains_fold(p, n, "phi3");
}

/* ---- tokens ---- */

/* The type of token i when the file has none: added tokens are known by id or by name. */
static unsigned guess_type(const reader *r, uint32_t i, const char *p, size_t n)
{
    static const char *const names[] = {"<s>", "</s>", "<unk>", "<bos>", "<pad>"};
    if ((int64_t)i == r->bos || (int64_t)i == r->eos) return SL_TOK_CONTROL;
    if ((int64_t)i == r->unk) return SL_TOK_UNKNOWN;
    if (sl_is_end_marker(p, n)) return SL_TOK_CONTROL;
    if (r->form == SL_FORM_BYTES) return SL_TOK_NORMAL;
    if (sl_byte_token_value(p, n) >= 0) return SL_TOK_BYTE;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (i < 8 && string_is(p, n, names[k])) return SL_TOK_CONTROL;
    return SL_TOK_NORMAL;
}

static sl_status type_of(const reader *r, uint32_t i, const char *p, size_t n, unsigned *type)
{
    int64_t v = -1;
    if (!r->types) {
        *type = guess_type(r, i, p, n);
        return SL_OK;
    }
    if (!sl_meta_int_at(r->types, i, &v) || v < SL_TOK_UNDEFINED || v > SL_TOK_BYTE)
        return sl_fail(r->err, SL_ERR_FORMAT, "%s: %s[%u] is %lld, types are 0 to 6", r->path, KEY("token_type"), i,
                       (long long)v);
    *type = (unsigned)v;
    return SL_OK;
}

static unsigned behavior_of(const reader *r, unsigned type, const char *p, size_t n)
{
    bool added = type == SL_TOK_CONTROL || type == SL_TOK_USER || type == SL_TOK_UNKNOWN;
    if (!r->rstrip || !(added || string_is(p, n, "</s>"))) return 0;
    bool keeps = string_is(p, n, "<unk>") || string_is(p, n, "<s>") || string_is(p, n, "<|endoftext|>");
    return keeps ? 0 : SL_ATTR_RSTRIP;
}

static sl_status add_token(reader *r, uint32_t i, const char *p, size_t n)
{
    unsigned type = SL_TOK_NORMAL;
    sl_status rc = type_of(r, i, p, n, &type);
    if (rc != SL_OK) return rc;
    rc = sl_vocab_add(&r->t->vocab, type | behavior_of(r, type, p, n), p, n, r->err);
    if (rc != SL_OK) return r->err ? sl_fail(r->err, rc, "%s: %s: %s", r->path, KEY("tokens"), r->err->msg) : rc;
    bool added = type == SL_TOK_CONTROL || type == SL_TOK_USER || type == SL_TOK_UNKNOWN;
    return added && i < r->t->vocab.n_usable ? sl_special_add(&r->t->special, i, p, n, r->err) : SL_OK;
}

static sl_status fill_tokens(reader *r)
{
    uint64_t pos = 0;
    sl_status rc = sl_vocab_open(&r->t->vocab, r->form, r->n, r->n_rows, r->tokens->data_bytes - 8ull * r->n, r->err);
    if (rc == SL_OK) rc = sl_special_open(&r->t->special, 64, r->t->bpe == SL_BPE_SCORES, r->err);
    if (!r->types)
        sl_warn(r->log, "%s: %s is missing: control tokens are known by their names only", r->path, KEY("token_type"));
    for (uint32_t i = 0; rc == SL_OK && i < r->n; i++) {
        const char *p;
        size_t n;
        if (!sl_meta_string_next(r->tokens, &pos, &p, &n))
            return wrong(r, KEY("tokens"), "ends in the middle of a string");
        rc = add_token(r, i, p, n);
    }
    if (rc != SL_OK) return rc;
    sl_vocab_seal(&r->t->vocab);
    sl_special_seal(&r->t->special);
    for (int b = 0; b < 256; b++)
        if (r->t->vocab.byte_id[b] >= 0) r->t->byte_fallback = r->form != SL_FORM_BYTES;
    return SL_OK;
}

static sl_status fill_scores(reader *r)
{
    r->t->scores = sl_malloc((size_t)r->n * sizeof *r->t->scores);
    if (!r->t->scores) return sl_fail(r->err, SL_ERR_NOMEM, "%s: no memory for %u scores", r->path, r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        double v = 0;
        if (!sl_meta_float_at(r->scores, i, &v) || isnan(v))
            return sl_fail(r->err, SL_ERR_FORMAT, "%s: %s[%u] is no number", r->path, KEY("scores"), i);
        r->t->scores[i] = (float)v + 0.0f; /* -0 becomes 0: equal scores must have equal bits */
    }
    return SL_OK;
}

/* "left right": the parts are cut at the first space behind the first byte. */
static sl_status add_merge(reader *r, sl_merge_list *list, const char *p, size_t n)
{
    const char *space = n > 1 ? memchr(p + 1, ' ', n - 1) : NULL;
    if (!space) {
        list->n_ignored++;
        return SL_OK;
    }
    size_t n_left = (size_t)(space - p);
    return sl_merge_list_add(list, &r->t->vocab, p, n_left, space + 1, n - n_left - 1, r->err);
}

static sl_status fill_merges(reader *r)
{
    sl_merge_list list;
    uint64_t pos = 0, n_merge = r->merges->count;
    if (n_merge > UINT32_MAX / 8) return wrong(r, KEY("merges"), "has more than 536870911 entries");
    sl_status rc = sl_merge_list_open(&list, (uint32_t)n_merge, r->err);
    for (uint64_t i = 0; rc == SL_OK && i < n_merge; i++) {
        const char *p;
        size_t n;
        if (sl_meta_string_next(r->merges, &pos, &p, &n))
            rc = add_merge(r, &list, p, n);
        else
            rc = wrong(r, KEY("merges"), "ends in the middle of a string");
    }
    if (rc == SL_OK) rc = sl_merge_list_finish(&list, &r->t->merges, &r->t->vocab, r->err);
    if (rc == SL_OK && list.n_ignored)
        sl_warn(r->log, "%s: %llu of %llu merges are of or into something that is no token: ignored", r->path,
                (unsigned long long)list.n_ignored, (unsigned long long)n_merge);
    sl_merge_list_close(&list);
    return rc;
}

/* ---- the way of a text ---- */

static sl_status add_split(reader *r, const char *pattern)
{
    sl_split_step *s = &r->t->split[r->t->n_split];
    *s = (sl_split_step){.behavior = SL_ISOLATED};
    if (pattern[0] == '\1') {
        s->kind = SL_SPLIT_DIGITS;
        s->digits = (sl_digits_rule)pattern[1];
    } else {
        sl_status rc = sl_regex_open(&s->re, pattern, strlen(pattern), r->pre->name, r->err);
        if (rc != SL_OK) return rc;
    }
    r->t->n_split++;
    return SL_OK;
}

static sl_status fill_pipeline(reader *r)
{
    sl_tokenizer *t = r->t;
    if (r->form == SL_FORM_BYTES) {
        t->ignore_merges = r->pre->flags & SL_PRE_IGNORE_MERGES;
        if (r->pre->flags & SL_PRE_NFC) t->norm[t->n_norm++] = (sl_norm_step){.kind = SL_NORM_UNICODE, .form = SL_NFC};
        for (size_t i = 0; r->pre->patterns[i]; i++) {
            sl_status rc = add_split(r, r->pre->patterns[i]);
            if (rc != SL_OK) return rc;
        }
        return SL_OK;
    }
    bool prefix = t->bpe == SL_BPE_SCORES;
    sl_status rc = read_flag(r, KEY("add_space_prefix"), &prefix);
    if (rc == SL_OK && prefix) {
        t->strip_first_space = true;
        t->norm[0] = (sl_norm_step){.kind = SL_NORM_PREPEND, .to = sl_strdup(" "), .n_to = 1};
        if (!t->norm[0].to) return sl_fail(r->err, SL_ERR_NOMEM, "%s: no memory for a tokenizer", r->path);
        t->n_norm = 1;
    }
    t->fuse_unk = t->bpe == SL_BPE_SCORES; /* as SentencePiece writes them */
    t->newlines_whole = r->is_gemma4;
    return rc == SL_OK && r->is_gemma4 ? add_split(r, "[^\\n]+|[\\n]+") : rc;
}

/* ---- special ids ---- */

/* The format's default for `llama` vocabularies, where the token there is of the right kind. */
static void assume_id(const reader *r, const char *key, int64_t *id, uint32_t standard)
{
    if (*id >= 0 || r->t->bpe != SL_BPE_SCORES || standard >= r->t->vocab.n_usable || sl_store_meta(r->store, key))
        return;
    unsigned type = sl_vocab_type(&r->t->vocab, standard);
    if (type != SL_TOK_CONTROL && type != SL_TOK_UNKNOWN) return;
    size_t n;
    const char *text = sl_vocab_text(&r->t->vocab, standard, &n);
    sl_warn(r->log, "%s: %s is missing: %u ('%.*s') is assumed", r->path, key, standard, (int)(n < 40 ? n : 40), text);
    *id = standard;
}

static sl_status fill_affixes(reader *r)
{
    sl_tokenizer *t = r->t;
    bool add_bos = t->bpe == SL_BPE_SCORES || (r->form == SL_FORM_BYTES && r->pre->flags & SL_PRE_ADD_BOS);
    bool add_eos = false;
    sl_status rc = read_flag(r, KEY("add_bos_token"), &add_bos);
    if (rc == SL_OK) rc = read_flag(r, KEY("add_eos_token"), &add_eos);
    if (rc != SL_OK) return rc;
    add_bos = add_bos || r->is_gemma4; /* its files say false and mean true */
    t->bos = (int32_t)r->bos;
    t->unk = (int32_t)r->unk;
    if (add_bos && r->bos < 0)
        sl_warn(r->log, "%s: BOS should be added, but no usable %s is given: none is added", r->path,
                KEY("bos_token_id"));
    if (add_eos && r->eos < 0)
        sl_warn(r->log, "%s: EOS should be added, but no usable %s is given: none is added", r->path,
                KEY("eos_token_id"));
    if (add_bos && r->bos >= 0) t->before[t->n_before++] = (int32_t)r->bos;
    if (add_eos && r->eos >= 0) t->after[t->n_after++] = (int32_t)r->eos;
    return SL_OK;
}

static sl_status fill_ends(reader *r)
{
    static const char *const keys[] = {KEY("eot_token_id"), KEY("eom_token_id"), KEY("fim_pad_token_id"),
                                       KEY("fim_rep_token_id"), KEY("fim_sep_token_id")};
    if (r->eos >= 0) sl_tokenizer_mark_end(r->t, r->eos, KEY("eos_token_id"), r->log);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id;
        sl_status rc = read_id(r, keys[i], &id);
        if (rc != SL_OK) return rc;
        if (id >= 0) sl_tokenizer_mark_end(r->t, id, keys[i], r->log);
    }
    sl_tokenizer_mark_known_ends(r->t);
    if (r->t->n_end == 0) sl_warn(r->log, "%s: no token that ends generation is known", r->path);
    return SL_OK;
}

sl_status sl_tokenizer_from_gguf(sl_tokenizer *t, const sl_store *store, uint32_t n_rows, const sl_log *log,
                                 sl_err *err)
{
    reader r = {.t = t, .store = store, .path = sl_store_path(store), .log = log, .err = err, .n_rows = n_rows};
    sl_status rc;
    if ((rc = read_kind(&r)) != SL_OK) return rc;
    if ((rc = find_arrays(&r)) != SL_OK) return rc;
    if ((rc = read_ids(&r)) != SL_OK) return rc;
    if ((rc = read_pre(&r)) != SL_OK) return rc;
    read_name(&r);
    if ((rc = fill_tokens(&r)) != SL_OK) return rc;
    if ((rc = t->bpe == SL_BPE_SCORES ? fill_scores(&r) : fill_merges(&r)) != SL_OK) return rc;
    if ((rc = fill_pipeline(&r)) != SL_OK) return rc;
    assume_id(&r, KEY("bos_token_id"), &r.bos, 1);
    assume_id(&r, KEY("eos_token_id"), &r.eos, 2);
    assume_id(&r, KEY("unknown_token_id"), &r.unk, 0);
    if ((rc = fill_affixes(&r)) != SL_OK) return rc;
    return fill_ends(&r);
}
