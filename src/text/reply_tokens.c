/* Which control tokens the parser must see.  Markers often are control tokens or contain some; all others (turn
 * markers, fill-in-the-middle markers that a model writes by mistake) are nobody's text and must not show. */
#include "text/reply_int.h"

#include <string.h>

static bool within(const char *marker, const char *token, size_t n)
{
    return marker && memmem(marker, strlen(marker), token, n) != NULL;
}

/* Texts that a step looks for beside those in its row. */
static bool within_own(const sl_reply_step *s, const char *token, size_t n)
{
    static const char *const header[] = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"};
    for (size_t i = 0; s->op == SL_STEP_HEADER && i < sizeof header / sizeof header[0]; i++)
        if (within(header[i], token, n)) return true;
    return (s->op == SL_STEP_GEMMA && within(SL_GEMMA_QUOTE, token, n)) ||
           (s->op == SL_STEP_TREE && within(SL_M3_MARK, token, n));
}

static bool within_steps(const sl_reply_step *steps, const char *token, size_t n)
{
    for (const sl_reply_step *s = steps; s && s->op != SL_STEP_LAST; s++)
        if (within(s->text, token, n) || within(s->stop, token, n) || within_own(s, token, n)) return true;
    return false;
}

bool sl_reply_needs(const sl_reply *r, const char *token, size_t n_bytes)
{
    if (!n_bytes) return false;
    for (size_t i = 0; i < r->n_mark; i++)
        if (within(r->marks[i].text, token, n_bytes) || within_steps(r->marks[i].steps, token, n_bytes)) return true;
    return within_steps(r->at_start, token, n_bytes);
}

sl_status sl_reply_push_token(sl_reply *r, int32_t id, sl_err *err)
{
    size_t n;
    if (!r->tokenizer) return sl_fail(err, SL_ERR_ARG, "reply: opened without a tokenizer");
    const char *text = sl_token_bytes(r->tokenizer, id, false, &n);
    if (!text) return sl_fail(err, SL_ERR_ARG, "reply: token %d is not in the vocabulary", id);
    if (n == 0) {
        text = sl_token_bytes(r->tokenizer, id, true, &n);
        if (!sl_reply_needs(r, text, n)) n = 0;
    }
    return sl_reply_push(r, text, n, err);
}
