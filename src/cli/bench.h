/* The parts of `sluice bench`: bench.c measures, bench_sum.c makes medians, bench_out.c reports. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/commands.h"

/* One repetition: a plan, a fresh engine, a prompt, tokens one by one. */
typedef struct {
    sl_plan plan; /* forecast, and the rates of drive and memory just before */
    double load_s;
    double prefill_s, prefill_compute_s, prefill_wait_s;
    double decode_s, decode_compute_s, decode_wait_s; /* of all tokens */
    uint64_t prefill_bytes, decode_bytes, decode_hits, decode_misses; /* hits of experts */
} bench_sample;

/* One of the settings that are compared; without --vs there is only the first. */
typedef struct {
    const char *name; /* as --vs has it; "" is the command line's own */
    cli_options o;
    bench_sample *samples; /* [n_repeat] */
    uint32_t n_sample;
    sl_stats stats; /* of the last repetition */
} bench_arm;

/* Medians over the repetitions; rates per second, times in seconds, 0 where nothing is known. */
typedef struct {
    double prefill_tok_s, prefill_min, prefill_max;
    double decode_tok_s, decode_min, decode_max;
    double prefill_compute_s, prefill_wait_s, prefill_other_s; /* of the prompt */
    double decode_compute_s, decode_wait_s, decode_other_s;    /* of one token */
    double prefill_bytes, bytes_per_token, load_s;
    double drive_bytes_s, memory_bytes_s;
    double limit_tok_s, share; /* what drive and memory would allow, and how much of it was reached */
    bool drive_bound;
    double hit_rate, expected_hit_rate; /* of experts, decoding; below 0: a dense model */
    double forecast_tok_s, forecast_error, forecast_prefill_tok_s, forecast_prefill_error, forecast_load_s;
} bench_summary;

cli_exit bench_sum_up(const bench_arm *a, bench_summary *s);
/* Medians of first / second over pairs of repetitions. */
cli_exit bench_ratios(const bench_arm *a, const bench_arm *b, double *prefill, double *decode);

/* s [n_arm]; ratios count where there are two arms. */
void bench_print_text(const bench_arm *a, const bench_summary *s, uint32_t n_arm, const double ratios[2]);
void bench_print_json(const bench_arm *a, const bench_summary *s, uint32_t n_arm, const double ratios[2]);

#endif
