/* From ids to text.  A token's bytes are its stored text; control, unknown and unused tokens are invisible unless asked
 * for.  A SentencePiece tokenizer that puts a space before a text has exactly one taken away again, at the very start.
 *
 * The streaming form holds back a character that is not complete and replaces what cannot become one: U+FFFD for each
 * maximal part of a broken sequence (Unicode 15, section 3.9), as browsers and Python do. */
#include "text/text_int.h"

#include <string.h>

static bool is_visible(unsigned type)
{
    return type == SL_TOK_NORMAL || type == SL_TOK_USER || type == SL_TOK_BYTE || type == SL_TOK_UNDEFINED;
}

const char *sl_token_bytes(const sl_tokenizer *t, int32_t id, bool special, size_t *n_bytes)
{
    *n_bytes = 0;
    if (id < 0 || (uint32_t)id >= t->vocab.n) return NULL;
    if (!special && !is_visible(sl_vocab_type(&t->vocab, (uint32_t)id))) return "";
    return sl_vocab_text(&t->vocab, (uint32_t)id, n_bytes);
}

/* Takes the space away that encoding put before the text, from the first bytes of the text. */
static void strip_first(const sl_tokenizer *t, bool *started, const char **p, size_t *n)
{
    if (*n == 0 || *started) return;
    *started = true;
    if (!t->strip_first_space || **p != ' ') return;
    ++*p;
    --*n;
}

sl_status sl_detokenize(sl_tokenizer *t, const int32_t *ids, size_t n, bool special, char *out, size_t cap,
                        size_t *n_bytes, sl_err *err)
{
    size_t total = 0;
    bool started = false;
    *n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *p = sl_token_bytes(t, ids[i], special, &len);
        if (!p) return sl_fail(err, SL_ERR_ARG, "token %zu is %d, the vocabulary has %u tokens", i, ids[i], t->vocab.n);
        strip_first(t, &started, &p, &len);
        if (total < cap && len) memcpy(out + total, p, len < cap - total ? len : cap - total);
        total += len;
    }
    *n_bytes = total;
    return total > cap ? sl_fail(err, SL_ERR_LIMIT, "the text has %zu bytes, there is room for %zu", total, cap)
                       : SL_OK;
}

/* ---- streaming ---- */

enum { MAX_HELD = 3 }; /* bytes of an incomplete character */
static const char REPLACEMENT[3] = "\xef\xbf\xbd";

struct sl_detok {
    const sl_tokenizer *t;
    bool special, started;
    size_t n_held;
    char *in;  /* [MAX_HELD + longest token]: what is held, then the new bytes */
    char *out; /* [3 * the same]: every byte may become U+FFFD */
};

sl_status sl_detok_open(sl_detok **out, const sl_tokenizer *t, bool special, sl_err *err)
{
    size_t longest = MAX_HELD + (size_t)t->vocab.max_token_bytes;
    sl_detok *d = sl_calloc(1, sizeof *d);
    if (d) d->in = sl_malloc(longest);
    if (d) d->out = sl_malloc(longest * sizeof REPLACEMENT);
    if (!d || !d->in || !d->out) {
        sl_detok_close(d);
        return sl_fail(err, SL_ERR_NOMEM, "no memory for a detokeniser of tokens of up to %zu bytes", longest);
    }
    d->t = t;
    d->special = special;
    *out = d;
    return SL_OK;
}

void sl_detok_close(sl_detok *d)
{
    if (!d) return;
    sl_free(d->in);
    sl_free(d->out);
    sl_free(d);
}

void sl_detok_add(sl_detok *d, int32_t id, const char **text, size_t *n_bytes)
{
    size_t n_new, n_out = 0, i = 0;
    const char *p = sl_token_bytes(d->t, id, d->special, &n_new);
    if (p) strip_first(d->t, &d->started, &p, &n_new);
    if (n_new) memcpy(d->in + d->n_held, p, n_new);
    size_t n = d->n_held + n_new;
    d->n_held = 0;
    while (i < n) {
        uint32_t cp;
        bool open = false;
        size_t len = sl_utf8_decode(d->in + i, n - i, &cp);
        if (len) {
            memcpy(d->out + n_out, d->in + i, len);
            n_out += len;
        } else {
            len = sl_utf8_broken(d->in + i, n - i, &open);
            if (open) break;
            memcpy(d->out + n_out, REPLACEMENT, sizeof REPLACEMENT);
            n_out += sizeof REPLACEMENT;
        }
        i += len;
    }
    d->n_held = n - i; /* at most MAX_HELD: an open part is shorter than a character */
    memmove(d->in, d->in + i, d->n_held);
    *text = d->out;
    *n_bytes = n_out;
}

void sl_detok_end(sl_detok *d, const char **text, size_t *n_bytes)
{
    *n_bytes = d->n_held ? sizeof REPLACEMENT : 0;
    memcpy(d->out, REPLACEMENT, *n_bytes);
    *text = d->out;
    d->n_held = 0;
    d->started = false;
}
