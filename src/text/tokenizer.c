/* The tokenizer as an object: building it from an opened model, and giving it back. */
#include "text/text_int.h"

void sl_tokenizer_close(sl_tokenizer *t)
{
    if (!t) return;
    sl_vocab_close(&t->vocab);
    sl_merges_close(&t->merges);
    sl_free(t->scores);
    sl_special_close(&t->special);
    sl_special_close(&t->special_normalized);
    for (uint32_t i = 0; i < t->n_norm; i++) {
        sl_regex_close(t->norm[i].re);
        sl_free(t->norm[i].from);
        sl_free(t->norm[i].to);
    }
    for (uint32_t i = 0; i < t->n_split; i++)
        sl_regex_close(t->split[i].re);
    sl_free(t);
}

sl_status sl_tokenizer_build(sl_tokenizer **out, const sl_store *store, uint32_t n_vocab_rows, const sl_log *log,
                             sl_err *err)
{
    sl_tokenizer *t = sl_calloc(1, sizeof *t);
    if (!t) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a tokenizer", sl_store_path(store));
    t->unk = t->bos = -1;
    sl_status rc = sl_store_get_format(store) == SL_STORE_GGUF
                       ? sl_tokenizer_from_gguf(t, store, n_vocab_rows, log, err)
                       : sl_tokenizer_from_hf(t, store, n_vocab_rows, log, err);
    if (rc != SL_OK) {
        sl_tokenizer_close(t);
        return rc;
    }
    *out = t;
    return SL_OK;
}

/* Rows of the embedding table; 0 when it goes by another name. */
static uint32_t embedding_rows(const sl_store *s)
{
    static const char *const names[] = {"token_embd.weight", "model.embed_tokens.weight",
                                        "language_model.model.embed_tokens.weight", "transformer.wte.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const sl_tensor *t = sl_store_find(s, names[i]);
        if (t && t->n_dims == 2 && t->dims[0] <= UINT32_MAX) return (uint32_t)t->dims[0];
    }
    return 0;
}

sl_status sl_tokenizer_open(sl_tokenizer **out, const char *model, sl_log_fn log, void *log_user, sl_err *err)
{
    sl_log to = {log, log_user};
    sl_store *store;
    sl_status rc = sl_store_open(&store, model, &to, err);
    if (rc != SL_OK) return rc;
    rc = sl_tokenizer_build(out, store, embedding_rows(store), &to, err);
    sl_store_close(store);
    return rc;
}

uint64_t sl_tokenizer_bytes(const sl_tokenizer *t)
{
    uint64_t n = sizeof *t + sl_vocab_bytes(&t->vocab) + sl_special_bytes(&t->special) +
                 sl_special_bytes(&t->special_normalized);
    if (t->scores) n += (uint64_t)t->vocab.n * sizeof *t->scores;
    if (t->merges.first) n += ((uint64_t)t->vocab.n + 1) * sizeof *t->merges.first;
    n += (uint64_t)t->merges.n * sizeof *t->merges.rows;
    for (uint32_t i = 0; i < t->n_norm; i++)
        n += (t->norm[i].re ? sl_regex_bytes(t->norm[i].re) : 0) + t->norm[i].n_from + t->norm[i].n_to;
    for (uint32_t i = 0; i < t->n_split; i++)
        n += t->split[i].re ? sl_regex_bytes(t->split[i].re) : 0;
    return n;
}

uint32_t sl_tokenizer_vocab(const sl_tokenizer *t)
{
    return t->vocab.n;
}

int32_t sl_tokenizer_bos(const sl_tokenizer *t)
{
    return t->bos;
}
