/* From text to ids: added tokens are cut out, what lies between is normalised, cut into pieces and merged.
 *
 * Any bytes can be encoded.  Stretches of valid UTF-8 go the whole way; bytes that are no text become their byte tokens
 * (the unknown token where the vocabulary has none) and never meet a pattern or a normal form.
 *
 * With SL_ENCODE_BOS the model's tokens before and after a text are added; where the text itself begins with that BOS
 * (chat templates write it), as a control token and not as text, it is not added twice. */
#include "text/text_int.h"

#include <string.h>

static sl_status encode_piece(void *user, const char *piece, size_t n)
{
    return sl_bpe_encode(user, piece, n);
}

static sl_status encode_pieces(sl_encoder *e, const char *text, size_t n, bool at_start)
{
    sl_splitter s = {.steps = e->t->split,
                     .n_step = e->t->n_split,
                     .at_start = at_start,
                     .bufs = e->step,
                     .matcher = &e->matcher,
                     .fn = encode_piece,
                     .user = e,
                     .err = e->err};
    return sl_split(&s, 0, text, n);
}

/* Normalised text, which may hold added tokens that are looked for only now. */
static sl_status encode_normalized(sl_encoder *e, const char *text, size_t n, size_t base, bool at_start)
{
    const sl_special *s = &e->t->special_normalized;
    sl_special_match m;
    size_t done = 0;
    while (s->n && sl_special_find(e, s, text, n, done, done, base, &m)) {
        sl_status rc = encode_pieces(e, text + done, m.from - done, at_start && done == 0);
        if (rc != SL_OK) return rc;
        sl_emit(e, (int32_t)m.id);
        done = m.to;
    }
    return encode_pieces(e, text + done, n - done, at_start && done == 0);
}

/* Valid UTF-8 at base; begins: nothing stands between it and the added token (or the start) before it. */
static sl_status encode_valid(sl_encoder *e, const char *text, size_t n, size_t base, bool begins)
{
    const char *p = text;
    size_t n_p = n;
    sl_status rc = sl_normalize(e->t->norm, e->t->n_norm, begins, e->norm, &e->matcher, &p, &n_p, e->err);
    if (rc != SL_OK) return rc;
    bool moved = p != text;
    e->no_control = moved && sl_special_is_plain(e, base, base + n);
    rc = encode_normalized(e, p, n_p, moved ? SIZE_MAX : base, begins && base == 0);
    e->no_control = false;
    return rc;
}

/* What lies between two added tokens. */
static sl_status encode_gap(sl_encoder *e, const char *text, size_t from, size_t to)
{
    sl_status rc = SL_OK;
    for (size_t i = from; rc == SL_OK && i < to;) {
        size_t n = sl_utf8_valid_prefix(text + i, to - i), bad = 0;
        uint32_t cp;
        if (n) rc = encode_valid(e, text + i, n, i, i == from);
        i += n;
        while (i + bad < to && sl_utf8_decode(text + i + bad, to - i - bad, &cp) == 0)
            bad++;
        if (bad && rc == SL_OK) sl_bpe_encode_raw(e, text + i, bad);
        i += bad;
    }
    return rc;
}

static sl_status encode_text(sl_encoder *e, const char *text, size_t n)
{
    const sl_tokenizer *t = e->t;
    bool has_bos = (e->flags & SL_ENCODE_BOS) && t->n_before;
    sl_special_match m;
    size_t done = 0;
    while (sl_special_find(e, &t->special, text, n, done, done, 0, &m)) {
        sl_status rc = encode_gap(e, text, done, m.from);
        if (rc != SL_OK) return rc;
        bool again = has_bos && m.from == 0 && done == 0 && t->before[t->n_before - 1] == (int32_t)m.id;
        if (!again) sl_emit(e, (int32_t)m.id);
        done = m.to;
    }
    return encode_gap(e, text, done, n);
}

static void encoder_close(sl_encoder *e)
{
    sl_free(e->symbols);
    sl_free(e->heap);
    sl_buf_free(&e->norm[0]);
    sl_buf_free(&e->norm[1]);
    sl_buf_free(&e->fold);
    for (size_t i = 0; i < SL_TOK_MAX_STEPS; i++)
        sl_buf_free(&e->step[i]);
    sl_matcher_close(&e->matcher);
}

static void encoder_open(sl_encoder *e)
{
    sl_buf_init(&e->norm[0], SL_TOK_MAX_TEXT_BYTES * 3);
    sl_buf_init(&e->norm[1], SL_TOK_MAX_TEXT_BYTES * 3);
    sl_buf_init(&e->fold, SL_TOK_MAX_TEXT_BYTES * 3);
    for (size_t i = 0; i < SL_TOK_MAX_STEPS; i++)
        sl_buf_init(&e->step[i], SL_TOK_MAX_TEXT_BYTES * 3);
}

sl_status sl_tokenizer_encode(const sl_tokenizer *t, const char *text, size_t n_bytes, unsigned flags,
                              const sl_text_span *plain, size_t n_plain, int32_t *ids, size_t cap, size_t *n_ids,
                              sl_err *err)
{
    sl_encoder e = {.t = t, .flags = flags, .plain = plain, .n_plain = n_plain, .ids = ids, .cap = cap, .err = err};
    *n_ids = 0;
    if (n_bytes > SL_TOK_MAX_TEXT_BYTES)
        return sl_fail(err, SL_ERR_LIMIT, "a text of %zu bytes, the limit is %zu", n_bytes, SL_TOK_MAX_TEXT_BYTES);
    encoder_open(&e);
    for (uint32_t i = 0; (flags & SL_ENCODE_BOS) && i < t->n_before; i++)
        sl_emit(&e, t->before[i]);
    sl_status rc = encode_text(&e, text, n_bytes);
    for (uint32_t i = 0; (flags & SL_ENCODE_BOS) && i < t->n_after; i++)
        sl_emit(&e, t->after[i]);
    encoder_close(&e);
    if (rc != SL_OK) return rc;
    *n_ids = e.n_ids;
    if (e.n_ids > cap)
        return sl_fail(err, SL_ERR_LIMIT, "the text has %zu tokens, there is room for %zu", e.n_ids, cap);
    return SL_OK;
}

sl_status sl_tokenize(sl_tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int32_t *ids, size_t cap,
                      size_t *n_ids, sl_err *err)
{
    return sl_tokenizer_encode(t, text, n_bytes, flags, NULL, 0, ids, cap, n_ids, err);
}
