/* Medians, and what they are worth beside the physical limit and the forecast. */
#include "cli/bench.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts v. */
static double median(double *v, uint32_t n)
{
    qsort(v, n, sizeof *v, compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

typedef double (*getter)(const bench_sample *s, const cli_options *o);

static double prefill_rate(const bench_sample *s, const cli_options *o) { return o->n_prompt / s->prefill_s; }
static double decode_rate(const bench_sample *s, const cli_options *o) { return o->n_predict / s->decode_s; }
static double prefill_compute(const bench_sample *s, const cli_options *o) { return (void)o, s->prefill_compute_s; }
static double prefill_wait(const bench_sample *s, const cli_options *o) { return (void)o, s->prefill_wait_s; }
static double decode_compute(const bench_sample *s, const cli_options *o) { return s->decode_compute_s / o->n_predict; }
static double decode_wait(const bench_sample *s, const cli_options *o) { return s->decode_wait_s / o->n_predict; }
static double prefill_bytes(const bench_sample *s, const cli_options *o) { return (void)o, (double)s->prefill_bytes; }
static double token_bytes(const bench_sample *s, const cli_options *o) { return (double)s->decode_bytes / o->n_predict; }
static double load(const bench_sample *s, const cli_options *o) { return (void)o, s->load_s; }
static double drive(const bench_sample *s, const cli_options *o) { return (void)o, s->plan.drive_bytes_s; }
static double memory(const bench_sample *s, const cli_options *o) { return (void)o, s->plan.memory_bytes_s; }
static double forecast_decode(const bench_sample *s, const cli_options *o) { return (void)o, s->plan.decode_tok_s; }
static double forecast_prefill(const bench_sample *s, const cli_options *o) { return (void)o, s->plan.prefill_tok_s; }
static double forecast_load(const bench_sample *s, const cli_options *o) { return (void)o, s->plan.load_s; }

static double prefill_other(const bench_sample *s, const cli_options *o)
{
    return (void)o, s->prefill_s - s->prefill_compute_s - s->prefill_wait_s;
}

static double decode_other(const bench_sample *s, const cli_options *o)
{
    return (s->decode_s - s->decode_compute_s - s->decode_wait_s) / o->n_predict;
}

/* Leaves the values in v, ascending. */
static double median_of(const bench_arm *a, getter get, double *v)
{
    for (uint32_t i = 0; i < a->n_sample; i++)
        v[i] = get(&a->samples[i], &a->o);
    return median(v, a->n_sample);
}

static void set_hit_rate(const bench_arm *a, bench_summary *s)
{
    uint64_t hits = 0, all = 0;
    for (uint32_t i = 0; i < a->n_sample; i++) {
        hits += a->samples[i].decode_hits;
        all += a->samples[i].decode_hits + a->samples[i].decode_misses;
    }
    s->hit_rate = all ? (double)hits / (double)all : -1;
    s->expected_hit_rate = a->samples[0].plan.expert_hit_rate;
}

/* What no engine could beat: each streamed byte comes from the drive, each weight byte from memory (design: speed).  Which
 * experts a mixture misses is known afterwards only: what it has read counts. */
static void set_limit(const bench_arm *a, bench_summary *s)
{
    const sl_plan *p = &a->samples[0].plan;
    double stream = p->expert_count ? s->bytes_per_token : (double)p->stream_bytes;
    double drive_s = s->drive_bytes_s > 0 ? stream / s->drive_bytes_s : 0;
    double memory_s = s->memory_bytes_s > 0 ? (double)p->model_bytes / s->memory_bytes_s : 0;
    s->drive_bound = drive_s > memory_s;
    double slower = s->drive_bound ? drive_s : memory_s;
    if (slower <= 0) return;
    s->limit_tok_s = 1 / slower;
    s->share = s->decode_tok_s * slower;
}

static void set_forecast(const bench_arm *a, bench_summary *s, double *v)
{
    s->forecast_tok_s = median_of(a, forecast_decode, v);
    s->forecast_prefill_tok_s = median_of(a, forecast_prefill, v);
    s->forecast_load_s = median_of(a, forecast_load, v);
    if (s->forecast_tok_s > 0) s->forecast_error = s->decode_tok_s / s->forecast_tok_s - 1;
    if (s->forecast_prefill_tok_s > 0) s->forecast_prefill_error = s->prefill_tok_s / s->forecast_prefill_tok_s - 1;
}

cli_exit bench_sum_up(const bench_arm *a, bench_summary *s)
{
    double *v = malloc(a->n_sample * sizeof *v);
    if (!v) return cli_fail_memory("the medians");
    s->prefill_tok_s = median_of(a, prefill_rate, v);
    s->prefill_min = v[0];
    s->prefill_max = v[a->n_sample - 1];
    s->decode_tok_s = median_of(a, decode_rate, v);
    s->decode_min = v[0];
    s->decode_max = v[a->n_sample - 1];
    s->prefill_compute_s = median_of(a, prefill_compute, v);
    s->prefill_wait_s = median_of(a, prefill_wait, v);
    s->prefill_other_s = median_of(a, prefill_other, v);
    s->decode_compute_s = median_of(a, decode_compute, v);
    s->decode_wait_s = median_of(a, decode_wait, v);
    s->decode_other_s = median_of(a, decode_other, v);
    s->prefill_bytes = median_of(a, prefill_bytes, v);
    s->bytes_per_token = median_of(a, token_bytes, v);
    s->load_s = median_of(a, load, v);
    s->drive_bytes_s = median_of(a, drive, v);
    s->memory_bytes_s = median_of(a, memory, v);
    set_hit_rate(a, s);
    set_limit(a, s);
    set_forecast(a, s, v);
    free(v);
    return CLI_DONE;
}

cli_exit bench_ratios(const bench_arm *a, const bench_arm *b, double *prefill, double *decode)
{
    uint32_t n = a->n_sample;
    double *v = malloc(n * sizeof *v);
    if (!v) return cli_fail_memory("the ratios");
    for (uint32_t i = 0; i < n; i++)
        v[i] = prefill_rate(&a->samples[i], &a->o) / prefill_rate(&b->samples[i], &b->o);
    *prefill = median(v, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = decode_rate(&a->samples[i], &a->o) / decode_rate(&b->samples[i], &b->o);
    *decode = median(v, n);
    free(v);
    return CLI_DONE;
}
