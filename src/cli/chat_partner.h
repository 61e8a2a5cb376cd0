/* The model as a partner in a conversation: engine, session, template, and the tokens that the session holds, so that each
 * answer costs only what is new. */
#ifndef CLI_CHAT_PARTNER_H
#define CLI_CHAT_PARTNER_H

#include "cli/chat_talk.h"
#include "cli/commands.h"

typedef struct {
    cli_model m;
    sl_chat *chat;
    uint32_t ctx_tok;
    uint32_t n_answer; /* so far: answer i draws with seed + i, so that a second try differs and a session can be repeated */
    int32_t *held;     /* [ctx_tok] what the session holds, sl_session_pos_tok() of them */
    int32_t *made;     /* [ctx_tok + 1] the last answer, without the token that ended it */
    sl_sampler *sampler; /* of the last answer, as reply is */
    sl_reply *reply;
} cli_partner;

/* What an answer cost. */
typedef struct {
    size_t n_prompt, n_kept; /* tokens of the conversation before the answer; of them those the session held already */
    size_t n_token;          /* of the answer, in partner.made */
    size_t n_step;           /* sweeps of one token */
    double prefill_s, decode_s;
    uint64_t hits, misses; /* weights that a sweep found in memory, or had to read; of mixtures experts only */
    uint64_t read_bytes;
    const char *finish; /* "end", "length", "context", "interrupted", "error" */
} cli_turn;

typedef void (*cli_reply_fn)(void *user, const sl_reply_event *event);

/* Each prints its own error. */

cli_exit cli_partner_open(cli_partner *p, const cli_options *o);
void cli_partner_close(cli_partner *p);
/* The conversation's prompt; close it. */
cli_exit cli_partner_render(const cli_partner *p, const cli_options *o, const cli_talk *talk, sl_chat_prompt **prompt);
/* Answers talk, whose last message is the user's, with o's sampler and token limit; each sees the answer while it comes.
 * *message [*n_bytes] is it as JSON, p's until the next answer; NULL when there is none.  An interruption is no failure:
 * the turn's finish tells it, and what came until then is the answer. */
cli_exit cli_partner_answer(cli_partner *p, const cli_options *o, const cli_talk *talk, cli_reply_fn each, void *user,
                            cli_turn *turn, const char **message, size_t *n_bytes);

#endif
