/* sluice bench: rates of reading a prompt and of decoding, set against what the drive and the memory would allow and
 * against the forecast of `plan`.  Tokens are fixed pseudo-random ids, so that no sampling and no end token disturbs.
 *
 * Every repetition plans and opens anew: the rates of drive and memory then belong to the same seconds, and two settings can
 * take turns (--vs) without their memory adding up. */
#include "cli/bench.h"

#include <stdlib.h>

typedef struct {
    cli_model m;
    int32_t *ids; /* [n_prompt + n_predict] */
} opened;

/* What the engine has done so far. */
typedef struct {
    double s, compute_s, wait_s;
    uint64_t bytes, hits, misses; /* hits of experts */
} mark;

/* Vigna's splitmix64 over the position: the same ids on every machine. */
static int32_t fixed_id(uint64_t i, uint32_t n_vocab)
{
    uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int32_t)((z ^ (z >> 31)) % n_vocab);
}

static cli_exit feed(opened *m, const int32_t *ids, size_t n)
{
    sl_err err = {0};
    return sl_session_feed(m->m.session, ids, n, &err) == SL_OK ? CLI_DONE : cli_fail(&err);
}

static mark now(const opened *m)
{
    sl_stats s;
    sl_engine_stats(m->m.engine, &s);
    return (mark){cli_now_s(), s.compute_s, s.io_wait_s, s.bytes_read, s.experts.hits, s.experts.misses};
}

/* The first sweep touches memory that later ones find in place, and meets an empty window. */
static cli_exit warm_up(opened *m, const cli_options *o)
{
    sl_plan p;
    sl_engine_get_plan(m->m.engine, &p);
    cli_exit code = feed(m, m->ids, p.prefill_chunk_tok < o->n_prompt ? p.prefill_chunk_tok : o->n_prompt);
    sl_session_reset(m->m.session);
    return code;
}

static cli_exit measure(opened *m, const cli_options *o, bench_sample *s)
{
    cli_exit code = warm_up(m, o);
    mark a = now(m);
    if (code == CLI_DONE) code = feed(m, m->ids, o->n_prompt);
    mark b = now(m);
    for (uint32_t i = 0; i < o->n_predict && code == CLI_DONE; i++)
        code = feed(m, m->ids + o->n_prompt + i, 1);
    mark c = now(m);
    s->prefill_s = b.s - a.s;
    s->prefill_compute_s = b.compute_s - a.compute_s;
    s->prefill_wait_s = b.wait_s - a.wait_s;
    s->prefill_bytes = b.bytes - a.bytes;
    s->decode_s = c.s - b.s;
    s->decode_compute_s = c.compute_s - b.compute_s;
    s->decode_wait_s = c.wait_s - b.wait_s;
    s->decode_bytes = c.bytes - b.bytes;
    s->decode_hits = c.hits - b.hits;
    s->decode_misses = c.misses - b.misses;
    return code;
}

/* ---- one repetition ---- */

static cli_exit make_ids(opened *m, const cli_options *o)
{
    sl_model_info info;
    uint32_t n = o->n_prompt + o->n_predict;
    sl_engine_info(m->m.engine, &info);
    m->ids = malloc(n * sizeof *m->ids);
    if (!m->ids) return cli_fail_memory("the tokens");
    for (uint32_t i = 0; i < n; i++)
        m->ids[i] = fixed_id(i, info.n_vocab);
    return CLI_DONE;
}

static cli_exit repeat(bench_arm *a)
{
    sl_err err = {0};
    opened m = {0};
    bench_sample *s = &a->samples[a->n_sample];
    if (sl_engine_plan(a->o.model, &a->o.engine, &s->plan, &err) != SL_OK) return cli_fail(&err);
    sl_engine_options opt = a->o.engine;
    opt.cache_dir = NULL; /* these ids are nobody's text: nothing is to be learned from them */
    cli_exit code = cli_model_open(&m.m, a->o.model, &opt);
    if (code == CLI_DONE) code = make_ids(&m, &a->o);
    if (code == CLI_DONE) code = measure(&m, &a->o, s);
    if (code == CLI_DONE) {
        sl_engine_stats(m.m.engine, &a->stats);
        s->load_s = a->stats.load_s;
        a->n_sample++;
    }
    cli_model_close(&m.m);
    free(m.ids);
    return code;
}

static cli_exit measure_all(bench_arm *arms, uint32_t n_arm)
{
    uint32_t n_repeat = arms[0].o.n_repeat;
    cli_progress_begin();
    for (uint32_t i = 0; i < n_repeat; i++)
        for (uint32_t k = 0; k < n_arm; k++) {
            cli_exit code = repeat(&arms[k]);
            if (code != CLI_DONE) return code;
            cli_progress_steps("measuring", "repetitions", i * n_arm + k + 1, (uint64_t)n_repeat * n_arm);
        }
    return CLI_DONE;
}

/* ---- the command ---- */

static cli_exit prepare(bench_arm *a)
{
    sl_engine_options *e = &a->o.engine;
    uint32_t n = a->o.n_prompt + a->o.n_predict;
    if (!e->ctx_tok) e->ctx_tok = n;
    if (e->ctx_tok < n) {
        cli_error("--ctx '%u': -p %u and -n %u need %u tokens of context", e->ctx_tok, a->o.n_prompt, a->o.n_predict, n);
        return CLI_USAGE;
    }
    e->forecast_prompt_tok = a->o.n_prompt;
    e->forecast_predict_tok = a->o.n_predict;
    a->samples = calloc(a->o.n_repeat, sizeof *a->samples);
    return a->samples ? CLI_DONE : cli_fail_memory("the samples");
}

static cli_exit report(const bench_arm *arms, uint32_t n_arm)
{
    bench_summary s[2] = {0};
    double ratios[2] = {0};
    cli_exit code = CLI_DONE;
    for (uint32_t k = 0; k < n_arm && code == CLI_DONE; k++)
        code = bench_sum_up(&arms[k], &s[k]);
    if (code == CLI_DONE && n_arm == 2) code = bench_ratios(&arms[0], &arms[1], &ratios[0], &ratios[1]);
    if (code != CLI_DONE) return code;
    if (arms[0].o.json)
        bench_print_json(arms, s, n_arm, ratios);
    else
        bench_print_text(arms, s, n_arm, ratios);
    return CLI_DONE;
}

cli_exit cli_bench(const cli_options *o)
{
    bench_arm arms[2] = {{.name = "", .o = *o}, {.name = o->vs, .o = *o}};
    uint32_t n_arm = o->vs ? 2 : 1;
    char *words = NULL; /* what the second arm's settings point into */
    cli_exit code = o->vs ? cli_options_parse_settings(&arms[1].o, "--vs", o->vs, &words) : CLI_DONE;
    for (uint32_t k = 0; k < n_arm && code == CLI_DONE; k++)
        code = prepare(&arms[k]);
    if (code == CLI_DONE) code = measure_all(arms, n_arm);
    if (code == CLI_DONE) code = report(arms, n_arm);
    free(arms[0].samples);
    free(arms[1].samples);
    free(words);
    return code;
}
