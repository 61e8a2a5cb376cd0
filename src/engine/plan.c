/* sl_engine_plan: the budget split from headers alone, then a short look at drive, memory and processor, then the forecast. */
#include "engine/forecast.h"

#include "os/os.h"

#define DRIVE_S   0.4 /* together with the memory's and the processor's about a second and a half */
#define MEMORY_S  0.2
#define LEAST_MEM ((uint64_t)1 << 16)

#define PROMPT_TOK  512u /* what is forecast when nothing was said */
#define PREDICT_TOK 64u

/* The probes' buffers obey the budget: what the plan gives to weights is free for them. */
static sl_status probe_rates(const sl_parts *p, const sl_engine_options *opt, sl_plan *out, sl_err *err)
{
    uint64_t room = out->window_bytes + out->resident_bytes + out->expert_bytes;
    sl_backend_options b;
    sl_status rc = SL_OK;
    out->drive_bytes_s = opt->drive_bytes_s;
    if (out->drive_bytes_s <= 0)
        rc = sl_drive_probe(sl_store_file_path(p->store, 0), opt->io, room, DRIVE_S, &out->drive_bytes_s, err);
    sl_backend_options_for(p, opt, out->prefill_chunk_tok, &b);
    if (rc == SL_OK && room >= LEAST_MEM) rc = sl_memory_probe(b.n_thread, MEMORY_S, room, &out->memory_bytes_s, err);
    return rc;
}

static void set_scene(const sl_engine_options *opt, sl_plan *out)
{
    uint32_t half = out->ctx_tok > 1 ? out->ctx_tok / 2 : 1;
    uint32_t prompt = opt->forecast_prompt_tok ? opt->forecast_prompt_tok : PROMPT_TOK;
    out->prompt_tok = (uint32_t)sl_min_u64(prompt, opt->forecast_prompt_tok ? out->ctx_tok : half);
    uint32_t predict = opt->forecast_predict_tok ? opt->forecast_predict_tok : PREDICT_TOK;
    out->predict_tok = (uint32_t)sl_min_u64(predict, out->ctx_tok - out->prompt_tok);
}

static sl_status look_and_forecast(const sl_parts *p, const sl_engine_options *opt, double open_s, sl_plan *out, sl_err *err)
{
    sl_io *io = NULL;
    sl_costs costs;
    set_scene(opt, out);
    sl_status rc = probe_rates(p, opt, out, err);
    if (rc != SL_OK) return rc;
    if (sl_has_experts(p) && opt->io == SL_IO_MMAP) { /* timing its experts would read them */
        sl_forecast_mapped(out);
        return rc;
    }
    rc = sl_parts_open_io(p, opt, &(sl_log){0}, &io, err);
    if (rc == SL_OK) rc = sl_costs_measure(&costs, p, opt, out, io, err);
    costs.open_s = open_s;
    if (rc == SL_OK) sl_forecast(out, &costs);
    sl_io_close(io);
    return rc == SL_ERR_BUDGET ? SL_OK : rc; /* the smallest budgets have no room for the sample: nothing is forecast */
}

sl_status sl_engine_plan(const char *model, const sl_engine_options *opt, sl_plan *out, sl_err *err)
{
    sl_parts p = {0};
    sl_experts_record record = {0};
    sl_log log = {opt->log, opt->log_user};
    bool views = opt->io == SL_IO_MMAP;
    uint32_t align = opt->io == SL_IO_BUFFERED || views ? 1 : 4096;
    double start = sl_now_s();
    sl_status rc = sl_engine_check_options(opt, err);
    if (rc == SL_OK) rc = sl_parts_open(&p, model, opt, err);
    double open_s = sl_now_s() - start;
    if (rc == SL_OK) rc = sl_parts_check_kv(&p, opt, err);
    if (rc == SL_OK) sl_record_open(&record, &p, opt->cache_dir, &log);
    if (rc == SL_OK) rc = sl_budget_split(&p, opt, align, views, &record, out, err);
    if (rc == SL_OK && !out->fits) sl_budget_refuse(&p, out, err);
    if (rc == SL_OK && out->fits && !opt->no_probe) rc = look_and_forecast(&p, opt, open_s, out, err);
    sl_experts_record_close(&record);
    sl_parts_close(&p);
    return rc;
}
