/* What bench found, for people and as JSON.  The names of the JSON keys are fixed: scripts use them. */
#include "cli/bench.h"
#include "cli/json_out.h"

/* ---- text ---- */

static void print_share(const char *label, double compute_s, double wait_s, double other_s)
{
    double sum = compute_s + wait_s + other_s;
    if (sum <= 0) return;
    printf("  %-10s%.1f ms: %.0f %% computing, %.0f %% waiting for reads, %.0f %% other\n", label, 1e3 * sum,
           100 * compute_s / sum, 100 * wait_s / sum, 100 * other_s / sum);
}

static void print_rates(const bench_arm *a, const bench_summary *s)
{
    char size[24];
    printf("prompt      %u tokens: %.1f tok/s (%.1f to %.1f in %u runs), %s read\n", a->o.n_prompt, s->prefill_tok_s,
           s->prefill_min, s->prefill_max, a->n_sample, cli_size_text((uint64_t)s->prefill_bytes, size));
    print_share("in all", s->prefill_compute_s, s->prefill_wait_s, s->prefill_other_s);
    printf("decode      %u tokens: %.2f tok/s (%.2f to %.2f in %u runs), %s read per token\n", a->o.n_predict,
           s->decode_tok_s, s->decode_min, s->decode_max, a->n_sample,
           cli_size_text((uint64_t)s->bytes_per_token, size));
    print_share("per token", s->decode_compute_s, s->decode_wait_s, s->decode_other_s);
}

static void print_experts(const sl_expert_stats *x, const bench_summary *s)
{
    char size[24];
    if (s->hit_rate < 0) return;
    printf("experts     %u slots, path %s: %.1f %% found in memory (%.0f %% expected)\n", x->slots, x->path,
           100 * s->hit_rate, 100 * s->expected_hit_rate);
    if (x->prefetch_issued)
        printf("predict     %s: recall %.0f %%, precision %.0f %%, %s read for nothing, about %.3f s hidden\n", x->predict,
               100 * x->recall, 100 * x->precision, cli_size_text(x->wasted_bytes, size), x->hidden_s);
}

static void print_limit(const bench_summary *s)
{
    char drive[24], memory[24];
    printf("measured    drive %s/s, memory %s/s\n", cli_size_text((uint64_t)s->drive_bytes_s, drive),
           cli_size_text((uint64_t)s->memory_bytes_s, memory));
    if (s->share > 0)
        printf("limit       %.2f tok/s, by the %s; reached %.0f %%\n", s->limit_tok_s, s->drive_bound ? "drive" : "memory",
               100 * s->share);
    if (s->forecast_tok_s > 0 && s->forecast_prefill_tok_s <= 0)
        printf("forecast    decode %.2f tok/s, measured is %+.0f %%\n", s->forecast_tok_s, 100 * s->forecast_error);
    if (s->forecast_tok_s > 0 && s->forecast_prefill_tok_s > 0)
        printf("forecast    prompt %.1f tok/s, measured is %+.0f %%; decode %.2f tok/s, measured is %+.0f %%\n",
               s->forecast_prefill_tok_s, 100 * s->forecast_prefill_error, s->forecast_tok_s, 100 * s->forecast_error);
}

static void print_how(const sl_stats *e)
{
    char a[24], b[24];
    printf("memory      peak %s of a budget of %s\n", cli_size_text(e->peak_rss_bytes, a), cli_size_text(e->budget_bytes, b));
    printf("how         %s on %s (%u threads), reads by %s, policy %s, KV %s, %s pages\n", e->backend, e->cpu,
           e->threads, e->io_method, e->policy, e->kv, e->huge_pages ? "huge" : "small");
}

void bench_print_text(const bench_arm *a, const bench_summary *s, uint32_t n_arm, const double ratios[2])
{
    for (uint32_t k = 0; k < n_arm; k++) {
        if (n_arm == 2) printf("%s%c  %s\n", k ? "\n" : "", 'A' + (int)k, k ? a[k].name : "as the command line says");
        print_rates(&a[k], &s[k]);
        print_experts(&a[k].stats.experts, &s[k]);
        print_limit(&s[k]);
        print_how(&a[k].stats);
    }
    if (n_arm == 2) printf("\nA / B       prompt %.3f, decode %.3f (medians over %u pairs)\n", ratios[0], ratios[1], a->n_sample);
}

/* ---- JSON ---- */

/* What is not known is null. */
static void put_known(cli_json *j, const char *key, bool known, double v)
{
    if (known)
        cli_json_f64(j, key, v);
    else
        cli_json_null(j, key);
}

static void put_rates(cli_json *j, const bench_arm *a, const bench_summary *s)
{
    cli_json_u64(j, "prompt_tokens", a->o.n_prompt);
    cli_json_u64(j, "decode_tokens", a->o.n_predict);
    cli_json_u64(j, "repetitions", a->n_sample);
    cli_json_f64(j, "prefill_tok_s", s->prefill_tok_s);
    cli_json_f64(j, "prefill_tok_s_min", s->prefill_min);
    cli_json_f64(j, "prefill_tok_s_max", s->prefill_max);
    cli_json_f64(j, "prefill_bytes_read", s->prefill_bytes);
    cli_json_f64(j, "prefill_compute_s", s->prefill_compute_s);
    cli_json_f64(j, "prefill_wait_s", s->prefill_wait_s);
    cli_json_f64(j, "prefill_other_s", s->prefill_other_s);
    cli_json_f64(j, "decode_tok_s", s->decode_tok_s);
    cli_json_f64(j, "decode_tok_s_min", s->decode_min);
    cli_json_f64(j, "decode_tok_s_max", s->decode_max);
    cli_json_f64(j, "bytes_read_per_token", s->bytes_per_token);
    cli_json_f64(j, "decode_compute_s", s->decode_compute_s);
    cli_json_f64(j, "decode_wait_s", s->decode_wait_s);
    cli_json_f64(j, "decode_other_s", s->decode_other_s);
    cli_json_f64(j, "load_s", s->load_s);
    put_known(j, "hit_rate", s->hit_rate >= 0, s->hit_rate);
    put_known(j, "hit_rate_expected", s->hit_rate >= 0, s->expected_hit_rate);
}

static void put_limits(cli_json *j, const bench_arm *a, const bench_summary *s)
{
    bool limit = s->limit_tok_s > 0, forecast = s->forecast_tok_s > 0;
    put_known(j, "limit_tok_s", limit, s->limit_tok_s);
    put_known(j, "share_of_limit", limit, s->share);
    cli_json_string(j, "limit", !limit ? NULL : s->drive_bound ? "drive" : "memory");
    put_known(j, "forecast_tok_s", forecast, s->forecast_tok_s);
    put_known(j, "forecast_error", forecast, s->forecast_error);
    put_known(j, "forecast_prefill_tok_s", s->forecast_prefill_tok_s > 0, s->forecast_prefill_tok_s);
    put_known(j, "forecast_prefill_error", s->forecast_prefill_tok_s > 0, s->forecast_prefill_error);
    put_known(j, "forecast_load_s", s->forecast_load_s > 0, s->forecast_load_s);
    put_known(j, "drive_bytes_s", s->drive_bytes_s > 0, s->drive_bytes_s);
    put_known(j, "memory_bytes_s", s->memory_bytes_s > 0, s->memory_bytes_s);
    cli_json_u64(j, "stream_bytes", a->samples[0].plan.stream_bytes);
    cli_json_u64(j, "model_bytes", a->samples[0].plan.model_bytes);
}

static void put_how(cli_json *j, const sl_stats *e)
{
    cli_json_u64(j, "budget_bytes", e->budget_bytes);
    cli_json_u64(j, "peak_rss_bytes", e->peak_rss_bytes);
    cli_json_string(j, "backend", e->backend);
    cli_json_string(j, "cpu", e->cpu);
    cli_json_u64(j, "threads", e->threads);
    cli_json_string(j, "io_method", e->io_method);
    cli_json_string(j, "policy", e->policy);
    cli_json_string(j, "kv", e->kv);
    cli_json_bool(j, "huge_pages", e->huge_pages);
}

static void put_arm(cli_json *j, const bench_arm *a, const bench_summary *s)
{
    put_rates(j, a, s);
    put_limits(j, a, s);
    put_how(j, &a->stats);
}

void bench_print_json(const bench_arm *a, const bench_summary *s, uint32_t n_arm, const double ratios[2])
{
    cli_json j;
    cli_json_begin(&j, stdout, true);
    if (n_arm == 1) put_arm(&j, a, s);
    for (uint32_t k = 0; n_arm == 2 && k < 2; k++) {
        cli_json_object(&j, k ? "b" : "a");
        cli_json_string(&j, "settings", a[k].name);
        put_arm(&j, &a[k], &s[k]);
        cli_json_close(&j);
    }
    if (n_arm == 2) cli_json_f64(&j, "prefill_ratio", ratios[0]);
    if (n_arm == 2) cli_json_f64(&j, "decode_ratio", ratios[1]);
    cli_json_end(&j);
}
