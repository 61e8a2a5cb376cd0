/* See run_stats.h.  The names of the JSON keys are fixed: scripts use them. */
#include "cli/run_stats.h"
#include "cli/json_out.h"

static double rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : 0;
}

static double bytes_per_token(const cli_run_result *r)
{
    return r->n_step ? (double)r->decode_bytes / (double)r->n_step : 0;
}

static double share(uint64_t part, uint64_t rest)
{
    return part + rest ? 100.0 * (double)part / (double)(part + rest) : 0;
}

static void print_experts(const sl_expert_stats *x)
{
    char a[24], b[24];
    if (!x->path) return;
    cli_report("experts    %u slots, path %s: %.1f %% hits decoding (%.1f %% in all), %s read on demand in %.3f s of waiting",
               x->slots, x->path, share(x->decode_hits, x->decode_misses), share(x->hits, x->misses),
               cli_size_text(x->demand_bytes, a), x->wait_s);
    if (x->warm_issued) cli_report("warm start %s of experts that earlier runs used", cli_size_text(x->warm_bytes, a));
    if (x->prefetch_issued)
        cli_report("predict    %s: recall %.0f %%, precision %.0f %%; %s read ahead, %s of it for nothing, about %.3f s hidden",
                   x->predict, 100 * x->recall, 100 * x->precision, cli_size_text(x->prefetch_bytes, a),
                   cli_size_text(x->wasted_bytes, b), x->hidden_s);
}

void cli_run_stats_print(const cli_run_result *r)
{
    const sl_stats *e = &r->engine;
    char a[24], b[24], c[24];
    cli_report("prompt     %zu tokens in %.3f s, %.1f tok/s", r->n_prompt, r->prefill_s,
               rate((double)r->n_prompt, r->prefill_s));
    cli_report("generated  %zu tokens in %.3f s, %.1f tok/s (ended by: %s)", r->n_token, r->decode_s,
               rate((double)r->n_step, r->decode_s), r->finish);
    cli_report("loading    %.3f s, %s read; first token after %.3f s", e->load_s, cli_size_text(e->load_bytes_read, a),
               r->ttft_s);
    cli_report("memory     peak %s of a budget of %s", cli_size_text(e->peak_rss_bytes, a),
               cli_size_text(e->budget_bytes, b));
    cli_report("reads      %s in all, %s per generated token, %s/s while decoding", cli_size_text(e->bytes_read, a),
               cli_size_text((uint64_t)bytes_per_token(r), b),
               cli_size_text((uint64_t)rate((double)r->decode_bytes, r->decode_s), c));
    cli_report("time       %.3f s computing, %.3f s waiting for reads", e->compute_s, e->io_wait_s);
    print_experts(&e->experts);
    cli_report("how        %s on %s (%u threads), reads by %s, policy %s, KV %s, %s pages", e->backend, e->cpu,
               e->threads, e->io_method, e->policy, e->kv, e->huge_pages ? "huge" : "small");
}

static void put_work(cli_json *j, const cli_run_result *r)
{
    cli_json_u64(j, "seed", r->seed);
    cli_json_u64(j, "prompt_tokens", r->n_prompt);
    cli_json_u64(j, "generated_tokens", r->n_token);
    cli_json_string(j, "finish", r->finish);
    cli_json_f64(j, "prefill_s", r->prefill_s);
    cli_json_f64(j, "decode_s", r->decode_s);
    cli_json_f64(j, "prefill_tok_s", rate((double)r->n_prompt, r->prefill_s));
    cli_json_f64(j, "decode_tok_s", rate((double)r->n_step, r->decode_s));
    cli_json_f64(j, "decode_compute_s", r->decode_compute_s);
    cli_json_f64(j, "decode_wait_s", r->decode_wait_s);
    cli_json_f64(j, "ttft_s", r->ttft_s);
}

static void put_cost(cli_json *j, const cli_run_result *r)
{
    const sl_stats *e = &r->engine;
    cli_json_u64(j, "budget_bytes", e->budget_bytes);
    cli_json_u64(j, "peak_rss_bytes", e->peak_rss_bytes);
    cli_json_u64(j, "ledger_peak_bytes", e->ledger_peak_bytes);
    cli_json_u64(j, "bytes_read", e->bytes_read);
    cli_json_f64(j, "bytes_read_per_token", bytes_per_token(r));
    cli_json_u64(j, "reads", e->reads);
    cli_json_f64(j, "load_s", e->load_s);
    cli_json_u64(j, "load_bytes_read", e->load_bytes_read);
    cli_json_f64(j, "io_wait_s", e->io_wait_s);
    cli_json_f64(j, "compute_s", e->compute_s);
}

/* Of a dense model what is read ahead are its units, and all of them are used. */
static void put_experts(cli_json *j, const sl_stats *e)
{
    const sl_expert_stats *x = &e->experts;
    cli_json_u64(j, "expert_hits", x->hits);
    cli_json_u64(j, "expert_misses", x->misses);
    cli_json_u64(j, "prefetch_issued", x->path ? x->prefetch_issued : e->prefetched);
    if (!x->path) {
        cli_json_null(j, "prefetch_used");
        return;
    }
    cli_json_u64(j, "prefetch_used", x->prefetch_used);
    cli_json_u64(j, "prefetch_wasted", x->prefetch_wasted);
    cli_json_u64(j, "prefetch_bytes", x->prefetch_bytes);
    cli_json_u64(j, "prefetch_wasted_bytes", x->wasted_bytes);
    cli_json_f64(j, "predict_recall", x->recall);
    cli_json_f64(j, "predict_precision", x->precision);
    cli_json_f64(j, "predict_hidden_s", x->hidden_s);
    cli_json_u64(j, "expert_slots", x->slots);
    cli_json_string(j, "expert_path", x->path);
    cli_json_string(j, "predict", x->predict);
    cli_json_u64(j, "expert_decode_hits", x->decode_hits);
    cli_json_u64(j, "expert_decode_misses", x->decode_misses);
    cli_json_u64(j, "expert_evictions", x->evictions);
    cli_json_u64(j, "expert_demand_bytes", x->demand_bytes);
    cli_json_u64(j, "expert_waves", x->waves);
    cli_json_u64(j, "warm_issued", x->warm_issued);
    cli_json_u64(j, "warm_bytes", x->warm_bytes);
    cli_json_f64(j, "expert_wait_s", x->wait_s);
    cli_json_f64(j, "drive_busy_s", x->busy_s);
}

static void put_streaming(cli_json *j, const sl_stats *e)
{
    put_experts(j, e);
    cli_json_u64(j, "layers_executed", e->layers_executed);
    cli_json_u64(j, "tensors_loaded", e->tensors_loaded);
    cli_json_u64(j, "tensors_released", e->tensors_released);
    cli_json_u64(j, "failed", e->failed);
    cli_json_u64(j, "hits", e->hits);
    cli_json_u64(j, "misses", e->misses);
    cli_json_u64(j, "madvise_drops", e->madvise_drops);
    cli_json_u64(j, "madvise_needs", e->madvise_needs);
}

static void put_machinery(cli_json *j, const sl_stats *e)
{
    cli_json_string(j, "io_method", e->io_method);
    cli_json_u64(j, "threads", e->threads);
    cli_json_string(j, "backend", e->backend);
    cli_json_string(j, "cpu", e->cpu);
    cli_json_string(j, "policy", e->policy);
    cli_json_string(j, "kv", e->kv);
    cli_json_bool(j, "huge_pages", e->huge_pages);
    cli_json_string(j, "routing", e->experts.path ? "native" : NULL);
}

void cli_run_stats_json(const cli_run_result *r, FILE *f)
{
    cli_json j;
    cli_json_begin(&j, f, true);
    put_work(&j, r);
    put_cost(&j, r);
    put_streaming(&j, &r->engine);
    put_machinery(&j, &r->engine);
    cli_json_ids(&j, "prompt_ids", r->prompt_ids, r->n_prompt);
    cli_json_ids(&j, "tokens", r->tokens, r->n_token);
    cli_json_end(&j);
}
