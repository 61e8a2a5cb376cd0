/* sluice perplexity: as llama.cpp's llama-perplexity computes it, so that the numbers compare.  The text is tokenised
 * once; it is cut into chunks of --ctx tokens, and what is left over at the end is not used; in each chunk the first
 * token becomes BOS where the model wants one; the second half of each chunk is scored, each token given those before
 * it. */
#include "cli/commands.h"
#include "cli/json_out.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    const cli_options *o;
    cli_model m;
    int32_t *ids;
    size_t n, n_chunk;
    uint32_t ctx_tok, n_vocab;
    int32_t bos;             /* -1: the model wants none */
    const int32_t *targets;  /* of the rows being fed */
    double sum, sum_squares; /* of -log p */
    size_t n_scored;
} perplexity;

/* -log softmax(row)[target], in double. */
static double surprise(const float *row, uint32_t n_vocab, int32_t target)
{
    double top = row[0], sum = 0;
    for (uint32_t v = 1; v < n_vocab; v++)
        top = row[v] > top ? row[v] : top;
    for (uint32_t v = 0; v < n_vocab; v++)
        sum += exp(row[v] - top);
    return top + log(sum) - row[target];
}

static bool score(void *user, size_t i, const float *row)
{
    perplexity *p = user;
    double v = surprise(row, p->n_vocab, p->targets[i]);
    p->sum += v;
    p->sum_squares += v * v;
    p->n_scored++;
    return true;
}

static cli_exit run_chunk(perplexity *p, size_t chunk)
{
    sl_err err = {0};
    int32_t *ids = p->ids + chunk * p->ctx_tok;
    uint32_t half = p->ctx_tok / 2;
    if (p->bos >= 0) ids[0] = p->bos;
    sl_session_reset(p->m.session);
    p->targets = ids + half + 1;
    if (half && sl_session_feed(p->m.session, ids, half, &err) != SL_OK) return cli_fail(&err);
    if (sl_session_feed_all(p->m.session, ids + half, p->ctx_tok - 1 - half, score, p, &err) != SL_OK)
        return cli_fail(&err);
    return CLI_DONE;
}

/* Does the model's own setting put BOS in front of a text? */
static cli_exit find_bos(perplexity *p, sl_tokenizer *t)
{
    int32_t *ids = NULL;
    size_t n = 0;
    cli_exit code = cli_encode(t, "", 0, SL_ENCODE_BOS, &ids, &n);
    p->bos = code == CLI_DONE && n && ids[0] == sl_tokenizer_bos(t) ? ids[0] : -1;
    free(ids);
    return code;
}

static cli_exit check_length(const perplexity *p)
{
    if (p->n_chunk) return CLI_DONE;
    cli_error("%s: has %zu tokens, one chunk takes %u (--ctx)", p->o->file, p->n, p->ctx_tok);
    return CLI_FAILED;
}

static cli_exit encode(perplexity *p)
{
    sl_tokenizer *t = NULL;
    sl_err err = {0};
    char *text = NULL;
    size_t n_bytes = 0;
    cli_exit code = cli_read_text(p->o, &text, &n_bytes);
    if (code != CLI_DONE) return code;
    if (sl_tokenizer_open(&t, p->o->model, NULL, NULL, &err) != SL_OK) code = cli_fail(&err);
    if (code == CLI_DONE) code = find_bos(p, t);
    if (code == CLI_DONE) code = cli_encode(t, text, n_bytes, SL_ENCODE_BOS, &p->ids, &p->n);
    sl_tokenizer_close(t);
    free(text);
    p->n_chunk = p->n / p->ctx_tok;
    return code == CLI_DONE ? check_length(p) : code;
}

static cli_exit score_all(perplexity *p)
{
    sl_model_info info;
    sl_engine_options opt = p->o->engine;
    opt.ctx_tok = p->ctx_tok;
    opt.no_probe = true;
    opt.progress = NULL; /* chunks are counted here */
    cli_exit code = cli_model_open(&p->m, p->o->model, &opt);
    if (code != CLI_DONE) return code;
    sl_engine_info(p->m.engine, &info);
    p->n_vocab = info.n_vocab;
    cli_progress_begin();
    for (size_t i = 0; i < p->n_chunk && code == CLI_DONE; i++) {
        code = run_chunk(p, i);
        cli_progress_steps("perplexity", "chunks", i + 1, p->n_chunk);
    }
    return code;
}

static void print_result(const perplexity *p)
{
    double n = (double)p->n_scored, mean = p->sum / n, variance = p->sum_squares / n - mean * mean;
    double value = exp(mean), error = n > 1 && variance > 0 ? value * sqrt(variance / (n - 1)) : 0;
    cli_json j;
    if (!p->o->json) {
        printf("tokens      %zu\nchunks      %zu of %u\nscored      %zu\nperplexity  %.5f +/- %.5f\n", p->n, p->n_chunk,
               p->ctx_tok, p->n_scored, value, error);
        return;
    }
    cli_json_begin(&j, stdout, true);
    cli_json_u64(&j, "tokens", p->n);
    cli_json_u64(&j, "chunks", p->n_chunk);
    cli_json_u64(&j, "ctx", p->ctx_tok);
    cli_json_u64(&j, "scored", p->n_scored);
    cli_json_f64(&j, "perplexity", value);
    cli_json_f64(&j, "error", error);
    cli_json_end(&j);
}

cli_exit cli_perplexity(const cli_options *o)
{
    perplexity p = {.o = o, .ctx_tok = o->engine.ctx_tok ? o->engine.ctx_tok : 512};
    if (p.ctx_tok < 4) {
        cli_error("--ctx '%u': must be at least 4 for a perplexity", p.ctx_tok);
        return CLI_USAGE;
    }
    cli_exit code = encode(&p);
    if (code == CLI_DONE) code = score_all(&p);
    if (code == CLI_DONE) print_result(&p);
    cli_model_close(&p.m);
    free(p.ids);
    return code;
}
