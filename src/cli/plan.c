/* sluice plan: the budget split as a sum, and a forecast, from headers and a short look at drive, memory and processor. */
#include "cli/commands.h"
#include "cli/json_out.h"

#include <inttypes.h>

typedef struct {
    const char *label, *key;
    uint64_t bytes;
} part;

enum { N_PART = 8 };

/* The parts of total_bytes, in the order in which they are given out. */
static void parts_of(const sl_plan *p, part parts[N_PART])
{
    const part all[N_PART] = {
        {"program and small objects", "base_bytes", p->base_bytes},
        {"tokenizer", "tokenizer_bytes", p->tokenizer_bytes},
        {"norms and other small weights", "always_bytes", p->always_bytes},
        {"KV cache", "kv_bytes", p->kv_bytes},
        {"activations and logits", "scratch_bytes", p->scratch_bytes},
        {"windows for streamed weights", "window_bytes", p->window_bytes},
        {"weights that stay", "resident_bytes", p->resident_bytes},
        {"slots of routed experts", "expert_bytes", p->expert_bytes},
    };
    for (size_t i = 0; i < N_PART; i++)
        parts[i] = all[i];
}

/* 98,362,432 */
static const char *grouped(uint64_t v, char buf[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, v), used = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) buf[used++] = ',';
        buf[used++] = digits[i];
    }
    buf[used] = 0;
    return buf;
}

static void print_row(const char *label, uint64_t bytes)
{
    char digits[32], size[24];
    printf("  %-31s%18s%12s\n", label, grouped(bytes, digits), cli_size_text(bytes, size));
}

static void print_split(const sl_plan *p)
{
    part parts[N_PART];
    parts_of(p, parts);
    puts("memory                                      bytes");
    for (size_t i = 0; i < (p->expert_count ? N_PART : N_PART - 1); i++) /* the last row is a mixture's */
        print_row(parts[i].label, parts[i].bytes);
    puts("  -------------------------------------------------------------");
    print_row("sum", p->total_bytes);
    print_row("budget", p->budget_bytes);
    print_row(p->fits ? "left" : "missing",
              p->fits ? p->budget_bytes - p->total_bytes : p->total_bytes - p->budget_bytes);
}

static void print_bounds(const sl_plan *p)
{
    char a[24];
    puts("\nbounds");
    printf("  smallest budget      %s (%" PRIu64 " bytes) with a context of %u tokens\n",
           cli_size_text(p->minimum_bytes, a), p->minimum_bytes, p->ctx_tok);
    printf("  context              %u tokens at %s each; at most %u fit this budget\n", p->ctx_tok,
           cli_size_text(p->kv_bytes_per_tok, a), p->ctx_max_tok);
    printf("  prompt               %u tokens in a sweep\n", p->prefill_chunk_tok);
}

static void print_experts(const sl_plan *p)
{
    char a[24];
    if (!p->expert_count) return;
    puts("\nrouted experts");
    printf("  slots                %u of %u experts (%.0f %%), %s each\n", p->expert_slots, p->expert_count,
           100.0 * p->expert_slots / p->expert_count, cli_size_text(p->expert_slot_bytes, a));
    printf("  one token uses       %u%s\n", p->expert_useful_slots,
           p->expert_slots < p->expert_useful_slots ? ": more than there are slots, so most are read for every token" : "");
    printf("  found in memory      %.0f %% to be expected while decoding\n", 100 * p->expert_hit_rate);
}

static void print_time(const char *label, double compute_s, double wait_s)
{
    printf("    %-19s%.1f ms computing, %.1f ms waiting for reads\n", label, 1e3 * compute_s, 1e3 * wait_s);
}

static void print_forecast(const sl_plan *p)
{
    char a[24], b[24];
    double share = p->model_bytes ? 100.0 * (double)p->stream_bytes / (double)p->model_bytes : 0;
    puts("\nforecast");
    printf("  read per token       %s of %s of weights (%.0f %%), through %u windows\n",
           cli_size_text(p->stream_bytes, a), cli_size_text(p->model_bytes, b), share, p->n_window);
    if (p->drive_bytes_s > 0) printf("  drive                %s/s\n", cli_size_text((uint64_t)p->drive_bytes_s, a));
    if (p->memory_bytes_s > 0) printf("  memory               %s/s\n", cli_size_text((uint64_t)p->memory_bytes_s, a));
    if (p->load_s > 0) printf("  loading              %.2f s\n", p->load_s);
    if (p->first_token_s > 0) printf("  first token          after %.2f s\n", p->first_token_s);
    if (p->decode_tok_s <= 0) return;
    if (p->prefill_tok_s > 0) {
        printf("  reading a prompt     %.1f tok/s (%u tokens)\n", p->prefill_tok_s, p->prompt_tok);
        print_time("the prompt", p->prefill_compute_s, p->prefill_wait_s);
    }
    printf("  generating           %.2f tok/s after it, bound by the %s", p->decode_tok_s, p->limit);
    if (p->decode_full_tok_s > 0) printf("; %.2f with the context full", p->decode_full_tok_s);
    putchar('\n');
    print_time("a token", p->decode_compute_s, p->decode_wait_s);
}

static void print_text(const sl_plan *p)
{
    print_split(p);
    print_bounds(p);
    if (p->fits) print_experts(p);
    if (p->fits) print_forecast(p);
}

/* A forecast that is not known is null. */
static void put_known(cli_json *j, const char *key, double v)
{
    if (v > 0)
        cli_json_f64(j, key, v);
    else
        cli_json_null(j, key);
}

static void put_forecast(cli_json *j, const sl_plan *p)
{
    put_known(j, "drive_bytes_s", p->drive_bytes_s);
    put_known(j, "memory_bytes_s", p->memory_bytes_s);
    cli_json_u64(j, "prompt_tokens", p->prompt_tok);
    cli_json_u64(j, "predict_tokens", p->predict_tok);
    put_known(j, "load_s", p->load_s);
    put_known(j, "first_token_s", p->first_token_s);
    put_known(j, "prefill_tok_s", p->prefill_tok_s);
    put_known(j, "prefill_compute_s", p->prefill_compute_s);
    put_known(j, "decode_tok_s", p->decode_tok_s);
    put_known(j, "decode_full_tok_s", p->decode_full_tok_s);
    put_known(j, "decode_compute_s", p->decode_compute_s);
    bool known = p->decode_tok_s > 0; /* a wait may well be 0 */
    if (known)
        cli_json_f64(j, "prefill_wait_s", p->prefill_wait_s), cli_json_f64(j, "decode_wait_s", p->decode_wait_s);
    else
        cli_json_null(j, "prefill_wait_s"), cli_json_null(j, "decode_wait_s");
    cli_json_string(j, "limit", p->limit[0] ? p->limit : NULL);
}

static void print_json(const sl_plan *p, const char *why)
{
    cli_json j;
    part parts[N_PART];
    parts_of(p, parts);
    cli_json_begin(&j, stdout, true);
    cli_json_bool(&j, "fits", p->fits);
    cli_json_string(&j, "message", p->fits ? NULL : why);
    cli_json_u64(&j, "budget_bytes", p->budget_bytes);
    for (size_t i = 0; i < N_PART; i++)
        cli_json_u64(&j, parts[i].key, parts[i].bytes);
    cli_json_u64(&j, "total_bytes", p->total_bytes);
    cli_json_u64(&j, "minimum_bytes", p->minimum_bytes);
    cli_json_u64(&j, "kv_bytes_per_tok", p->kv_bytes_per_tok);
    cli_json_u64(&j, "ctx_tok", p->ctx_tok);
    cli_json_u64(&j, "ctx_max_tok", p->ctx_max_tok);
    cli_json_u64(&j, "prefill_chunk_tok", p->prefill_chunk_tok);
    cli_json_u64(&j, "model_bytes", p->model_bytes);
    cli_json_u64(&j, "stream_bytes", p->stream_bytes);
    cli_json_u64(&j, "n_window", p->n_window);
    cli_json_u64(&j, "prompt_bytes", p->prompt_bytes);
    cli_json_u64(&j, "expert_count", p->expert_count);
    cli_json_u64(&j, "expert_slots", p->expert_slots);
    cli_json_u64(&j, "expert_useful_slots", p->expert_useful_slots);
    cli_json_u64(&j, "expert_slot_bytes", p->expert_slot_bytes);
    if (p->expert_count)
        cli_json_f64(&j, "expert_hit_rate", p->expert_hit_rate);
    else
        cli_json_null(&j, "expert_hit_rate");
    put_forecast(&j, p);
    cli_json_end(&j);
}

cli_exit cli_plan(const cli_options *o)
{
    sl_plan p;
    sl_err err = {0};
    sl_engine_options opt = o->engine;
    opt.forecast_prompt_tok = o->n_prompt;
    opt.forecast_predict_tok = o->n_predict;
    if (sl_engine_plan(o->model, &opt, &p, &err) != SL_OK) return cli_fail(&err);
    if (o->json)
        print_json(&p, err.msg);
    else
        print_text(&p);
    if (p.fits) return CLI_DONE;
    fflush(stdout); /* the table first, then why it does not work */
    err.code = SL_ERR_BUDGET;
    return cli_fail(&err);
}
