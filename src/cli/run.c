/* sluice run: completes a text.  Everything that can be refused is refused before a weight is read: while the engine opens,
 * it shows the tokenizer and the plan, which come from headers alone, and takes the context that the text needs (settle).
 * The weights that stay are read along with the prompt. */
#include "cli/commands.h"
#include "cli/expert_trace.h"
#include "cli/constrain.h"
#include "cli/run_stats.h"
#include "cli/chat_prompt.h"
#include "cli/stop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const cli_options *o;
    double begin_s;
    FILE *stats_file; /* NULL: none wanted */
    cli_expert_trace trace;
    int32_t *prompt, *made;
    size_t n_prompt, n_made;
    uint32_t ctx_tok;
    cli_exit settled; /* how the settling ended, which has then said why */
    cli_model m;
    sl_sampler *sampler;
    sl_detok *detok;
    cli_stop *stop;
    cli_constraint constraint;
    sl_grammar *grammar; /* NULL: none */
    cli_run_result result;
} run;

/* ---- before any weight is read ---- */

static cli_exit check_prompt(const run *r)
{
    if (r->n_prompt) return CLI_DONE;
    cli_error("the prompt is empty and this model has no BOS token to begin with; give a text with -p or -f");
    return CLI_FAILED;
}

/* The ids of a user's turn by the chat template. */
static cli_exit encode_turn(run *r, const sl_tokenizer *t, const char *text, size_t n_bytes)
{
    sl_chat_prompt *prompt = NULL;
    char *request = NULL;
    size_t n_request = 0;
    cli_exit code = cli_chat_request(r->o->system, text, n_bytes, &request, &n_request);
    if (code == CLI_DONE) code = cli_chat_render(r->o, request, n_request, &prompt);
    if (code == CLI_DONE) code = cli_chat_encode(prompt, t, &r->prompt, &r->n_prompt);
    sl_chat_prompt_close(prompt);
    free(request);
    return code;
}

static cli_exit check_flags(const cli_options *o)
{
    const char *flag = o->system ? "--system" : o->chat_template ? "--template" : NULL;
    if (o->chat || !flag) return CLI_DONE;
    cli_error("%s: is of use with --chat only", flag);
    return CLI_USAGE;
}

static cli_exit encode_prompt(run *r, sl_tokenizer *t)
{
    char *text = NULL;
    size_t n_bytes = 0;
    cli_exit code = cli_read_text(r->o, &text, &n_bytes);
    if (code != CLI_DONE) return code;
    if (r->o->chat)
        code = encode_turn(r, t, text, n_bytes);
    else
        code = cli_encode(t, text, n_bytes, SL_ENCODE_BOS | SL_ENCODE_SPECIAL, &r->prompt, &r->n_prompt);
    free(text);
    return code == CLI_DONE ? check_prompt(r) : code;
}

/* Without --ctx the context is what this run needs, if the budget can hold that much at all; else the default. */
static cli_exit choose_context(run *r, const sl_plan *plan)
{
    uint32_t given = r->o->engine.ctx_tok;
    uint64_t need = r->n_prompt + (uint64_t)r->o->n_predict;
    uint64_t most = plan->ctx_max_tok > plan->ctx_tok ? plan->ctx_max_tok : plan->ctx_tok;
    r->ctx_tok = !given && need <= most ? (uint32_t)need : plan->ctx_tok;
    if (r->n_prompt > r->ctx_tok) {
        cli_error("the prompt has %zu tokens, the context holds %u%s", r->n_prompt, r->ctx_tok,
                  given ? " (--ctx)" : "; --ctx sets a larger one");
        return CLI_FAILED;
    }
    return CLI_DONE;
}

static cli_exit open_files(run *r)
{
    const char *path = r->o->stats_json;
    cli_exit code = cli_expert_trace_open(&r->trace, r->o->expert_trace);
    if (code != CLI_DONE || !path) return code;
    r->stats_file = fopen(path, "w");
    if (r->stats_file) return CLI_DONE;
    cli_error("--stats-json '%s': cannot be written: %s", path, strerror(errno));
    return CLI_FAILED;
}

static sl_status settle(void *user, sl_tokenizer *t, const sl_plan *plan, uint32_t *ctx_tok, sl_err *err)
{
    run *r = user;
    (void)err;
    if (t) {
        r->settled = encode_prompt(r, t);
    } else {
        cli_error("%s: has no tokenizer, which a text needs", r->o->model);
        r->settled = CLI_FAILED;
    }
    if (r->settled == CLI_DONE) r->settled = choose_context(r, plan);
    if (r->settled == CLI_DONE) r->settled = open_files(r);
    *ctx_tok = r->ctx_tok;
    return r->settled == CLI_DONE ? SL_OK : SL_ERR_CANCELED;
}

/* ---- the model ---- */

static cli_exit open_tools(run *r)
{
    sl_err err = {0};
    sl_model_info info;
    sl_engine_info(r->m.engine, &info);
    sl_tokenizer *t = sl_engine_tokenizer(r->m.engine);
    if (sl_sampler_open(&r->sampler, info.n_vocab, &r->o->sampler, &err) != SL_OK) return cli_fail(&err);
    if (r->constraint.wanted && sl_grammar_open(&r->grammar, r->m.engine, &r->constraint.opt, &err) != SL_OK) return cli_fail(&err);
    if (sl_detok_open(&r->detok, t, false, &err) != SL_OK) return cli_fail(&err);
    r->stop = cli_stop_open(r->o->stops, r->o->n_stop);
    size_t room = r->ctx_tok - r->n_prompt + 1; /* the last token is not fed, so it needs none */
    if (room > r->o->n_predict) room = r->o->n_predict;
    r->made = malloc((room + 1) * sizeof *r->made);
    return r->stop && r->made ? CLI_DONE : cli_fail_memory("the answer");
}

static cli_exit open_model(run *r)
{
    sl_engine_options opt = r->o->engine;
    opt.no_probe = true;
    opt.load_late = true;
    opt.n_constrained = r->constraint.wanted;
    opt.settle = settle;
    opt.settle_user = r;
    cli_exit code = cli_model_open(&r->m, r->o->model, &opt);
    if (r->settled != CLI_DONE) return r->settled;
    if (code == CLI_DONE) cli_expert_trace_follow(&r->trace, r->m.engine);
    return code == CLI_DONE ? open_tools(r) : code;
}

/* ---- generating ---- */

static cli_exit fail(run *r, const sl_err *err)
{
    r->result.finish = err->code == SL_ERR_CANCELED ? "interrupted" : "error";
    return cli_fail(err);
}

static cli_exit feed(run *r, const int32_t *tokens, size_t n)
{
    sl_err err = {0};
    return sl_session_feed(r->m.session, tokens, n, &err) == SL_OK ? CLI_DONE : fail(r, &err);
}

static cli_exit read_prompt(run *r)
{
    double begin = cli_now_s();
    cli_exit code = feed(r, r->prompt, r->n_prompt);
    r->result.prefill_s = cli_now_s() - begin;
    for (size_t i = 0; i < r->n_prompt; i++)
        sl_sampler_accept(r->sampler, r->prompt[i]);
    sl_err err = {0};
    if (code == CLI_DONE && r->grammar && sl_sampler_set_grammar(r->sampler, r->grammar, &err) != SL_OK) return fail(r, &err);
    return code;
}

/* Shows what the stop texts let through. */
static cli_exit show(run *r, const char *text, size_t n_bytes)
{
    const char *out;
    size_t n_out;
    cli_stop_result found = cli_stop_add(r->stop, text, n_bytes, &out, &n_out);
    if (found == CLI_STOP_NO_MEMORY) return cli_fail_memory("the text held back for --stop");
    if (found == CLI_STOP_FOUND) r->result.finish = "stop";
    return cli_write(out, n_out) ? CLI_DONE : CLI_FAILED; /* cli_finish() says why */
}

/* Chooses the next token and shows its text.  Sets finish when it was the last. */
static cli_exit step(run *r)
{
    sl_err err = {0};
    const char *text;
    size_t n_bytes;
    int32_t token;
    if (sl_sample(r->sampler, sl_session_logits(r->m.session), &token, &err) != SL_OK) return fail(r, &err);
    if (!r->n_made) r->result.ttft_s = cli_now_s() - r->begin_s;
    if (!r->o->ignore_eos && sl_tokenizer_is_end(sl_engine_tokenizer(r->m.engine), token)) {
        r->result.finish = "end";
        return CLI_DONE;
    }
    r->made[r->n_made++] = token;
    sl_sampler_accept(r->sampler, token);
    sl_detok_add(r->detok, token, &text, &n_bytes);
    cli_exit code = show(r, text, n_bytes);
    if (code != CLI_DONE || r->result.finish) return code;
    if (sl_sampler_is_complete(r->sampler))
        r->result.finish = "end";
    else if (r->n_made == r->o->n_predict)
        r->result.finish = "length";
    else if (!sl_session_room_tok(r->m.session))
        r->result.finish = "context";
    return CLI_DONE;
}

static cli_exit generate(run *r)
{
    if (!r->o->n_predict) r->result.finish = "length";
    while (!r->result.finish) {
        cli_exit code = step(r);
        if (code == CLI_DONE && !r->result.finish) {
            code = feed(r, &r->made[r->n_made - 1], 1);
            r->result.n_step += code == CLI_DONE;
        }
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

/* The text so far stays, whatever ended it: a character or a beginning of a stop text that was held back is shown. */
static void show_rest(run *r)
{
    const char *text, *out;
    size_t n_bytes, n_out;
    bool stopped = r->result.finish && strcmp(r->result.finish, "stop") == 0;
    if (stopped || !r->n_made) return;
    sl_detok_end(r->detok, &text, &n_bytes);
    cli_stop_result found = cli_stop_add(r->stop, text, n_bytes, &out, &n_out);
    cli_write(out, n_out);
    if (found != CLI_STOP_NOT_YET) return;
    cli_stop_end(r->stop, &out, &n_out);
    cli_write(out, n_out);
}

static cli_exit complete(run *r)
{
    sl_stats before;
    cli_exit code = read_prompt(r);
    if (code != CLI_DONE) return code;
    cli_expert_trace_decode(&r->trace);
    sl_engine_stats(r->m.engine, &before);
    double begin = cli_now_s();
    code = generate(r);
    r->result.decode_s = r->n_made ? cli_now_s() - begin : 0;
    show_rest(r);
    if (r->n_made) cli_end_line();
    sl_engine_stats(r->m.engine, &r->result.engine);
    r->result.decode_bytes = r->result.engine.bytes_read - before.bytes_read;
    r->result.decode_compute_s = r->result.engine.compute_s - before.compute_s;
    r->result.decode_wait_s = r->result.engine.io_wait_s - before.io_wait_s;
    if (r->result.finish && strcmp(r->result.finish, "context") == 0)
        cli_note("the context of %u tokens is full; --ctx sets a larger one", r->ctx_tok);
    return code;
}

/* ---- the report ---- */

static cli_exit report(run *r, cli_exit code)
{
    cli_run_result *result = &r->result;
    result->seed = r->o->sampler.seed;
    result->prompt_ids = r->prompt;
    result->n_prompt = r->n_prompt;
    result->tokens = r->made;
    result->n_token = r->n_made;
    if (!result->finish) result->finish = "error";
    sl_engine_stats(r->m.engine, &result->engine);
    if (r->o->stats) cli_run_stats_print(result);
    if (cli_expert_trace_close(&r->trace) != CLI_DONE) code = CLI_FAILED;
    if (!r->stats_file) return code;
    cli_run_stats_json(result, r->stats_file);
    if (fflush(r->stats_file) == 0 && !ferror(r->stats_file)) return code;
    cli_error("--stats-json '%s': cannot be written: %s", r->o->stats_json, strerror(errno));
    return code == CLI_DONE ? CLI_FAILED : code;
}

static void clean_up(run *r)
{
    if (r->stats_file) fclose(r->stats_file);
    if (r->trace.file) fclose(r->trace.file);
    cli_stop_close(r->stop);
    sl_detok_close(r->detok);
    sl_sampler_close(r->sampler);
    sl_grammar_close(r->grammar);
    cli_constraint_free(&r->constraint);
    cli_model_close(&r->m);
    free(r->prompt);
    free(r->made);
}

cli_exit cli_run(const cli_options *o)
{
    run r = {.o = o, .begin_s = cli_now_s()};
    cli_exit code = check_flags(o);
    if (code == CLI_DONE) code = cli_constraint_read(&r.constraint, o);
    if (code == CLI_DONE) code = open_model(&r);
    if (code == CLI_DONE) code = report(&r, complete(&r));
    clean_up(&r);
    return code;
}
