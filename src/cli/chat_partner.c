/* See chat_partner.h. */
#include "cli/chat_partner.h"
#include "cli/chat_prompt.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static cli_exit open_rest(cli_partner *p)
{
    sl_plan plan;
    sl_engine_get_plan(p->m.engine, &plan);
    p->ctx_tok = plan.ctx_tok;
    p->held = malloc(p->ctx_tok * sizeof *p->held);
    p->made = malloc(((size_t)p->ctx_tok + 1) * sizeof *p->made);
    if (!p->held || !p->made) return cli_fail_memory("the conversation's tokens");
    if (sl_engine_tokenizer(p->m.engine)) return CLI_DONE;
    cli_error("the model has no tokenizer");
    return CLI_FAILED;
}

cli_exit cli_partner_open(cli_partner *p, const cli_options *o)
{
    sl_err err = {0};
    sl_engine_options opt = o->engine;
    *p = (cli_partner){0};
    opt.no_probe = true;
    /* first: a model without a usable template is refused before a weight is read */
    if (sl_chat_open(&p->chat, o->model, o->chat_template, cli_log, NULL, &err) != SL_OK) return cli_fail(&err);
    malloc_trim(0); /* the engine's budget covers what this process still holds */
    cli_exit code = cli_model_open(&p->m, o->model, &opt);
    if (code == CLI_DONE) code = open_rest(p);
    if (code != CLI_DONE) cli_partner_close(p);
    return code;
}

static void close_answer(cli_partner *p)
{
    sl_reply_close(p->reply);
    sl_sampler_close(p->sampler);
    p->reply = NULL;
    p->sampler = NULL;
}

void cli_partner_close(cli_partner *p)
{
    close_answer(p);
    cli_model_close(&p->m);
    sl_chat_close(p->chat);
    free(p->held);
    free(p->made);
    *p = (cli_partner){0};
}

/* ---- the prompt ---- */

cli_exit cli_partner_render(const cli_partner *p, const cli_options *o, const cli_talk *talk, sl_chat_prompt **prompt)
{
    sl_err err = {0};
    char *request = NULL;
    size_t n_bytes = 0;
    cli_exit code = cli_talk_request(talk, (int)o->thinking - 1, &request, &n_bytes);
    if (code == CLI_DONE && sl_chat_render(prompt, p->chat, request, n_bytes, NULL, &err) != SL_OK) {
        code = cli_fail(&err);
        if (code == CLI_USAGE) code = CLI_FAILED; /* the messages are wrong, not the command line */
    }
    free(request);
    return code;
}

static cli_exit open_answer(cli_partner *p, const cli_options *o, const sl_chat_prompt *prompt, cli_reply_fn each,
                            void *user)
{
    sl_err err = {0};
    sl_model_info info;
    sl_sampler_options sampling = o->sampler;
    sl_reply_options opt;
    size_t n_bytes;
    close_answer(p);
    sl_engine_info(p->m.engine, &info);
    sampling.seed += p->n_answer;
    if (sl_sampler_open(&p->sampler, info.n_vocab, &sampling, &err) != SL_OK) return cli_fail(&err);
    sl_reply_options_init(&opt);
    opt.chat_template = sl_chat_template(p->chat, false, &n_bytes);
    opt.tokenizer = sl_engine_tokenizer(p->m.engine);
    opt.prompt = sl_chat_prompt_text(prompt, &n_bytes);
    opt.each = each;
    opt.user = user;
    return sl_reply_open(&p->reply, &opt, &err) == SL_OK ? CLI_DONE : cli_fail(&err);
}

static cli_exit check_room(const cli_partner *p, size_t n_prompt)
{
    if (n_prompt && n_prompt <= p->ctx_tok) return CLI_DONE;
    if (!n_prompt)
        cli_error("the template made an empty prompt of the conversation");
    else
        cli_error("the conversation has %zu tokens, the context holds %u: /clear begins a new one, /drop N forgets its "
                  "oldest N turns, and --ctx sets a larger context at the start", n_prompt, p->ctx_tok);
    return CLI_FAILED;
}

/* How much of the prompt the session holds; the last token is always fed, for its logits. */
static size_t common_tok(const cli_partner *p, const int32_t *prompt, size_t n_prompt)
{
    size_t n = 0, most = sl_session_pos_tok(p->m.session);
    if (most > n_prompt - 1) most = n_prompt - 1;
    while (n < most && p->held[n] == prompt[n])
        n++;
    return n;
}

static sl_status feed(cli_partner *p, const int32_t *tokens, size_t n, sl_err *err)
{
    size_t pos = sl_session_pos_tok(p->m.session);
    sl_status rc = sl_session_feed(p->m.session, tokens, n, err);
    if (rc == SL_OK) memcpy(p->held + pos, tokens, n * sizeof *tokens);
    return rc;
}

static sl_status read_prompt(cli_partner *p, const int32_t *prompt, cli_turn *turn, sl_err *err)
{
    double begin = cli_now_s();
    turn->n_kept = common_tok(p, prompt, turn->n_prompt);
    sl_status rc = sl_session_rewind(p->m.session, (uint32_t)turn->n_kept, err);
    if (rc == SL_OK) rc = feed(p, prompt + turn->n_kept, turn->n_prompt - turn->n_kept, err);
    turn->prefill_s = cli_now_s() - begin;
    for (size_t i = 0; i < turn->n_prompt; i++)
        sl_sampler_accept(p->sampler, prompt[i]);
    return rc;
}

/* ---- the answer ---- */

/* Chooses the next token and hands it to the reply.  Sets finish when it was the last. */
static sl_status step(cli_partner *p, const cli_options *o, cli_turn *turn, sl_err *err)
{
    int32_t token;
    sl_status rc = sl_sample(p->sampler, sl_session_logits(p->m.session), &token, err);
    if (rc != SL_OK) return rc;
    if (sl_tokenizer_is_end(sl_engine_tokenizer(p->m.engine), token)) {
        turn->finish = "end";
        return SL_OK;
    }
    p->made[turn->n_token++] = token;
    sl_sampler_accept(p->sampler, token);
    rc = sl_reply_push_token(p->reply, token, err);
    if (turn->n_token == o->n_predict)
        turn->finish = "length";
    else if (!sl_session_room_tok(p->m.session))
        turn->finish = "context";
    return rc;
}

static sl_status generate(cli_partner *p, const cli_options *o, cli_turn *turn, sl_err *err)
{
    double begin = cli_now_s();
    sl_status rc = SL_OK;
    while (rc == SL_OK && !turn->finish) {
        rc = step(p, o, turn, err);
        if (rc == SL_OK && !turn->finish) {
            rc = feed(p, &p->made[turn->n_token - 1], 1, err);
            turn->n_step += rc == SL_OK;
        }
    }
    turn->decode_s = cli_now_s() - begin;
    return rc;
}

static void count_reads(const cli_partner *p, const sl_stats *before, cli_turn *turn)
{
    sl_stats now;
    sl_engine_stats(p->m.engine, &now);
    bool is_mixture = now.experts.slots > 0;
    turn->hits = is_mixture ? now.experts.hits - before->experts.hits : now.hits - before->hits;
    turn->misses = is_mixture ? now.experts.misses - before->experts.misses : now.misses - before->misses;
    turn->read_bytes = now.bytes_read - before->bytes_read;
}

/* Ends the reply; what is there of it is the answer, whatever rc says. */
static cli_exit finish(cli_partner *p, sl_status rc, sl_err *err, cli_turn *turn, const char **message, size_t *n_bytes)
{
    sl_err later = {0};
    bool canceled = rc == SL_ERR_CANCELED && cli_interrupted();
    if (rc != SL_OK) turn->finish = canceled ? "interrupted" : "error";
    if (sl_reply_finish(p->reply, &later) != SL_OK && rc == SL_OK) return cli_fail(&later);
    /* an answer that ends at once is one all the same, and a beginning is better than nothing */
    if (turn->n_token || rc == SL_OK) {
        if (sl_reply_message(p->reply, message, n_bytes, &later) != SL_OK) return cli_fail(&later);
    }
    return rc == SL_OK || canceled ? CLI_DONE : cli_fail(err);
}

static cli_exit answer(cli_partner *p, const cli_options *o, const int32_t *prompt, cli_turn *turn, const char **message,
                       size_t *n_bytes)
{
    sl_err err = {0};
    sl_stats before;
    sl_engine_stats(p->m.engine, &before);
    p->n_answer++;
    sl_status rc = read_prompt(p, prompt, turn, &err);
    if (rc == SL_OK) rc = generate(p, o, turn, &err);
    count_reads(p, &before, turn);
    return finish(p, rc, &err, turn, message, n_bytes);
}

cli_exit cli_partner_answer(cli_partner *p, const cli_options *o, const cli_talk *talk, cli_reply_fn each, void *user,
                            cli_turn *turn, const char **message, size_t *n_bytes)
{
    sl_chat_prompt *prompt = NULL;
    int32_t *ids = NULL;
    *turn = (cli_turn){0};
    *message = NULL;
    cli_exit code = cli_partner_render(p, o, talk, &prompt);
    if (code == CLI_DONE) code = cli_chat_encode(prompt, sl_engine_tokenizer(p->m.engine), &ids, &turn->n_prompt);
    if (code == CLI_DONE) code = check_room(p, turn->n_prompt);
    if (code == CLI_DONE) code = open_answer(p, o, prompt, each, user);
    sl_chat_prompt_close(prompt);
    if (code == CLI_DONE) code = answer(p, o, ids, turn, message, n_bytes);
    free(ids);
    return code;
}
