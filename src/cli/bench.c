/* sluice bench: rates of reading a prompt and of decoding, set against what the drive and the memory would allow and
 * against the forecast of `plan`.  Tokens are fixed pseudo-random ids, so that no sampling and no end token disturbs.
 */
#include "cli/commands.h"
#include "cli/json_out.h"

#include <stdlib.h>

/* One repetition. */
typedef struct {
    double prefill_s, decode_s;
    uint64_t prefill_bytes, decode_bytes;
} sample;

typedef struct {
    const cli_options *o;
    cli_model m;
    sl_plan plan; /* with the measured rates */
    int32_t *ids; /* [n_prompt + n_predict] */
    sample *samples;
    sl_stats stats;
} bench;

typedef struct {
    double prefill_tok_s, decode_tok_s, decode_slowest, decode_fastest, prefill_bytes, bytes_per_token;
    double limit_tok_s, share; /* 0: not known */
    double forecast_error;     /* measured / forecast - 1; only when there was a forecast */
} summary;

/* ---- measuring ---- */

/* Vigna's splitmix64 over the position: the same ids on every machine. */
static int32_t fixed_id(uint64_t i, uint32_t n_vocab)
{
    uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int32_t)((z ^ (z >> 31)) % n_vocab);
}

static cli_exit feed(bench *b, const int32_t *ids, size_t n)
{
    sl_err err = {0};
    return sl_session_feed(b->m.session, ids, n, &err) == SL_OK ? CLI_DONE : cli_fail(&err);
}

static uint64_t bytes_read(const bench *b)
{
    sl_stats s;
    sl_engine_stats(b->m.engine, &s);
    return s.bytes_read;
}

static cli_exit measure(bench *b, sample *s)
{
    const uint32_t n_prompt = b->o->n_prompt, n_predict = b->o->n_predict;
    sl_session_reset(b->m.session);
    uint64_t bytes = bytes_read(b);
    double begin = cli_now_s();
    cli_exit code = feed(b, b->ids, n_prompt);
    double middle = cli_now_s();
    s->prefill_s = middle - begin;
    s->prefill_bytes = bytes_read(b) - bytes;
    for (uint32_t i = 0; i < n_predict && code == CLI_DONE; i++)
        code = feed(b, b->ids + n_prompt + i, 1);
    s->decode_s = cli_now_s() - middle;
    s->decode_bytes = bytes_read(b) - bytes - s->prefill_bytes;
    return code;
}

static cli_exit measure_all(bench *b)
{
    cli_progress_begin();
    for (uint32_t i = 0; i < b->o->n_repeat; i++) {
        cli_exit code = measure(b, &b->samples[i]);
        if (code != CLI_DONE) return code;
        cli_progress_steps("measuring", "repetitions", i + 1, b->o->n_repeat);
    }
    sl_engine_stats(b->m.engine, &b->stats);
    return CLI_DONE;
}

static cli_exit open_bench(bench *b)
{
    sl_err err = {0};
    sl_model_info info;
    sl_engine_options opt = b->o->engine;
    uint32_t n = b->o->n_prompt + b->o->n_predict;
    if (!opt.ctx_tok) opt.ctx_tok = n;
    if (opt.ctx_tok < n) {
        cli_error("--ctx '%u': -p %u and -n %u need %u tokens of context", opt.ctx_tok, b->o->n_prompt, b->o->n_predict,
                  n);
        return CLI_USAGE;
    }
    if (sl_engine_plan(b->o->model, &opt, &b->plan, &err) != SL_OK) return cli_fail(&err);
    if (b->plan.drive_bytes_s > 0) opt.drive_bytes_s = b->plan.drive_bytes_s; /* measured once is enough */
    cli_exit code = cli_model_open(&b->m, b->o->model, &opt);
    if (code != CLI_DONE) return code;
    sl_engine_info(b->m.engine, &info);
    b->ids = malloc(n * sizeof *b->ids);
    b->samples = calloc(b->o->n_repeat, sizeof *b->samples);
    if (!b->ids || !b->samples) return cli_fail_memory("the samples");
    for (uint32_t i = 0; i < n; i++)
        b->ids[i] = fixed_id(i, info.n_vocab);
    return CLI_DONE;
}

/* ---- summing up ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* What no engine could beat: each streamed byte comes from the drive, each weight byte from memory (design: speed). */
static double decode_limit(const sl_plan *p)
{
    double drive_s = p->drive_bytes_s > 0 ? (double)p->stream_bytes / p->drive_bytes_s : 0;
    double memory_s = p->memory_bytes_s > 0 ? (double)p->model_bytes / p->memory_bytes_s : 0;
    double slower = drive_s > memory_s ? drive_s : memory_s;
    return slower > 0 ? 1 / slower : 0;
}

static cli_exit sum_up(const bench *b, summary *s)
{
    uint32_t n = b->o->n_repeat;
    double *v = malloc(n * sizeof *v);
    if (!v) return cli_fail_memory("the medians");
    for (uint32_t i = 0; i < n; i++)
        v[i] = b->o->n_prompt / b->samples[i].prefill_s;
    s->prefill_tok_s = median(v, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = (double)b->samples[i].prefill_bytes;
    s->prefill_bytes = median(v, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = (double)b->samples[i].decode_bytes / b->o->n_predict;
    s->bytes_per_token = median(v, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = b->o->n_predict / b->samples[i].decode_s;
    s->decode_tok_s = median(v, n);
    s->decode_slowest = v[0];
    s->decode_fastest = v[n - 1];
    free(v);
    s->limit_tok_s = decode_limit(&b->plan);
    if (s->limit_tok_s > 0) s->share = s->decode_tok_s / s->limit_tok_s;
    if (b->plan.decode_tok_s > 0) s->forecast_error = s->decode_tok_s / b->plan.decode_tok_s - 1;
    return CLI_DONE;
}

/* ---- reporting ---- */

static void print_text(const bench *b, const summary *s)
{
    char a[24], c[24];
    const sl_stats *e = &b->stats;
    printf("prompt      %u tokens: %.1f tok/s, %s read\n", b->o->n_prompt, s->prefill_tok_s,
           cli_size_text((uint64_t)s->prefill_bytes, a));
    printf("decode      %u tokens: %.2f tok/s (%.2f to %.2f in %u runs), %s read per token\n", b->o->n_predict,
           s->decode_tok_s, s->decode_slowest, s->decode_fastest, b->o->n_repeat,
           cli_size_text((uint64_t)s->bytes_per_token, a));
    if (s->share > 0) printf("limit       %.2f tok/s; reached %.0f %%\n", s->limit_tok_s, 100 * s->share);
    if (b->plan.decode_tok_s > 0)
        printf("forecast    %.2f tok/s; measured is %+.0f %%\n", b->plan.decode_tok_s, 100 * s->forecast_error);
    printf("memory      peak %s of a budget of %s\n", cli_size_text(e->peak_rss_bytes, a),
           cli_size_text(e->budget_bytes, c));
    printf("how         %s on %s (%u threads), reads by %s, policy %s, KV %s, %s pages\n", e->backend, e->cpu,
           e->threads, e->io_method, e->policy, e->kv, e->huge_pages ? "huge" : "small");
}

static void put_rates(cli_json *j, const bench *b, const summary *s)
{
    cli_json_u64(j, "prompt_tokens", b->o->n_prompt);
    cli_json_u64(j, "decode_tokens", b->o->n_predict);
    cli_json_u64(j, "repetitions", b->o->n_repeat);
    cli_json_f64(j, "prefill_tok_s", s->prefill_tok_s);
    cli_json_f64(j, "prefill_bytes_read", s->prefill_bytes);
    cli_json_f64(j, "decode_tok_s", s->decode_tok_s);
    cli_json_f64(j, "decode_tok_s_min", s->decode_slowest);
    cli_json_f64(j, "decode_tok_s_max", s->decode_fastest);
    cli_json_f64(j, "bytes_read_per_token", s->bytes_per_token);
    cli_json_null(j, "hit_rate"); /* of experts, which this build does not run */
}

static void put_limits(cli_json *j, const bench *b, const summary *s)
{
    const sl_plan *p = &b->plan;
    if (s->limit_tok_s > 0)
        cli_json_f64(j, "limit_tok_s", s->limit_tok_s), cli_json_f64(j, "share_of_limit", s->share);
    else
        cli_json_null(j, "limit_tok_s"), cli_json_null(j, "share_of_limit");
    if (p->decode_tok_s > 0)
        cli_json_f64(j, "forecast_tok_s", p->decode_tok_s);
    else
        cli_json_null(j, "forecast_tok_s");
    if (p->decode_tok_s > 0)
        cli_json_f64(j, "forecast_error", s->forecast_error);
    else
        cli_json_null(j, "forecast_error");
    cli_json_f64(j, "drive_bytes_s", p->drive_bytes_s);
    cli_json_f64(j, "memory_bytes_s", p->memory_bytes_s);
    cli_json_u64(j, "stream_bytes", p->stream_bytes);
    cli_json_u64(j, "model_bytes", p->model_bytes);
}

static void print_json(const bench *b, const summary *s)
{
    cli_json j;
    const sl_stats *e = &b->stats;
    cli_json_begin(&j, stdout, true);
    put_rates(&j, b, s);
    put_limits(&j, b, s);
    cli_json_u64(&j, "budget_bytes", e->budget_bytes);
    cli_json_u64(&j, "peak_rss_bytes", e->peak_rss_bytes);
    cli_json_string(&j, "backend", e->backend);
    cli_json_string(&j, "cpu", e->cpu);
    cli_json_u64(&j, "threads", e->threads);
    cli_json_string(&j, "io_method", e->io_method);
    cli_json_string(&j, "policy", e->policy);
    cli_json_string(&j, "kv", e->kv);
    cli_json_bool(&j, "huge_pages", e->huge_pages);
    cli_json_end(&j);
}

cli_exit cli_bench(const cli_options *o)
{
    bench b = {.o = o};
    summary s = {0};
    cli_exit code = open_bench(&b);
    if (code == CLI_DONE) code = measure_all(&b);
    if (code == CLI_DONE) code = sum_up(&b, &s);
    if (code == CLI_DONE && o->json)
        print_json(&b, &s);
    else if (code == CLI_DONE)
        print_text(&b, &s);
    cli_model_close(&b.m);
    free(b.ids);
    free(b.samples);
    return code;
}
