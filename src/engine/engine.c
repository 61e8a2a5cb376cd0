/* A loaded model with its memory: opened in the order parts, read method, budget, backend, resident set. */
#include "engine/engine_int.h"

#include "os/os.h"

#include <string.h>

void sl_engine_options_init(sl_engine_options *opt)
{
    memset(opt, 0, sizeof *opt);
    opt->struct_size = sizeof *opt;
}

sl_status sl_engine_check_options(const sl_engine_options *opt, sl_err *err)
{
    if (opt->struct_size != sizeof *opt)
        return sl_fail(err, SL_ERR_ARG, "engine options of %zu bytes, this library has %zu: call sl_engine_options_init",
                       opt->struct_size, sizeof *opt);
    if (opt->n_threads > 256) return sl_fail(err, SL_ERR_ARG, "%u threads, at most 256", opt->n_threads);
    if (opt->n_constrained > 1024)
        return sl_fail(err, SL_ERR_ARG, "memory for %u grammars, at most 1024", opt->n_constrained);
    if (opt->prefill_chunk_tok > 8192)
        return sl_fail(err, SL_ERR_ARG, "a prefill chunk of %u tokens, at most 8192", opt->prefill_chunk_tok);
    if (opt->ctx_tok > SL_MAX_CTX) return sl_fail(err, SL_ERR_ARG, "a context of %u tokens, at most %d", opt->ctx_tok, SL_MAX_CTX);
    if (opt->backend == SL_BACKEND_SCALAR && opt->kv != SL_KV_AUTO && opt->kv != SL_KV_F32)
        return sl_fail(err, SL_ERR_ARG, "the scalar backend keeps its cache in f32");
    return SL_OK;
}

/* ---- opening ---- */

sl_status sl_parts_check_kv(const sl_parts *p, const sl_engine_options *opt, sl_err *err)
{
    uint64_t n = sl_model_kv_row_elems(p->model);
    if (sl_kv_type_for(opt) != SL_KV_Q8 || n % 32 == 0) return SL_OK;
    return sl_fail(err, SL_ERR_UNSUPPORTED, "%s: a q8 cache needs rows of a multiple of 32 elements, this model has %u",
                   sl_store_path(p->store), (uint32_t)n);
}

sl_status sl_parts_open_io(const sl_parts *p, const sl_engine_options *opt, const sl_log *log, sl_io **out, sl_err *err)
{
    size_t n = sl_store_file_count(p->store);
    const char **paths = sl_calloc(n, sizeof *paths);
    uint64_t *sizes = sl_calloc(n, sizeof *sizes);
    sl_status rc = paths && sizes ? SL_OK : sl_fail(err, SL_ERR_NOMEM, "no memory for %zu file names", n);
    for (size_t i = 0; rc == SL_OK && i < n; i++) {
        paths[i] = sl_store_file_path(p->store, i);
        sizes[i] = sl_store_file_bytes(p->store, i);
    }
    if (rc == SL_OK) rc = sl_io_open(out, opt->io, paths, sizes, n, log, err);
    sl_free(paths);
    sl_free(sizes);
    return rc;
}

static sl_status enter_fixed(sl_engine *e, sl_err *err)
{
    sl_status rc = sl_ledger_take(&e->ledger, SL_MEM_BASE, e->plan.base_bytes, err);
    if (rc == SL_OK) rc = sl_ledger_take(&e->ledger, SL_MEM_TOKENIZER, e->plan.tokenizer_bytes, err);
    /* a sampler is opened by the caller, but its memory is this process's */
    if (rc == SL_OK) rc = sl_ledger_take(&e->ledger, SL_MEM_SCRATCH, sl_sampler_reserve_bytes(e->parts.model), err);
    return rc;
}

static sl_status open_scratch(sl_engine *e, sl_err *err)
{
    uint64_t bytes = sl_forward_bytes(e->parts.model, e->plan.prefill_chunk_tok);
    sl_status rc = sl_block_open(&e->scratch, &e->ledger, SL_MEM_SCRATCH, bytes, SL_BLOCK_LAZY, "activations", err);
    if (rc != SL_OK) return rc;
    sl_arena carve = {.base = e->scratch.ptr, .cap = e->scratch.bytes};
    sl_forward_layout(&e->fwd, &carve, e->parts.model, e->plan.prefill_chunk_tok);
    e->fwd.m = e->parts.model;
    e->fwd.be = e->be;
    e->fwd.kv_type = e->kv_type;
    return SL_OK;
}

/* Every unit of the model, unless a sample was chosen before. */
static sl_status open_sequence(sl_engine *e, sl_err *err)
{
    const sl_model *m = e->parts.model;
    e->views = sl_calloc(m->max_unit_rows, sizeof *e->views);
    if (!e->views) return sl_fail(err, SL_ERR_NOMEM, "no memory for views of weights");
    if (e->units) return SL_OK;
    e->units = m->units;
    e->n_unit = m->n_unit;
    e->n_head = m->n_head_block;
    e->table = m->embd;
    e->sequence = sl_calloc(e->parts.n_exec + m->n_head_block, sizeof *e->sequence);
    if (!e->sequence) return sl_fail(err, SL_ERR_NOMEM, "no memory for the order of layers");
    memcpy(e->sequence, e->parts.exec, e->parts.n_exec * sizeof *e->sequence);
    for (uint32_t b = 0; b < m->n_head_block; b++) e->sequence[e->parts.n_exec + b] = m->c.n_layer + b;
    return SL_OK;
}

static sl_status open_residency(sl_engine *e, sl_io *io, sl_err *err)
{
    sl_residency_options o;
    sl_residency_options_for(&e->parts, &e->opt, io->align, io->ops->view != NULL, e->plan.prefill_chunk_tok, &o);
    o.units = e->units;
    o.n_unit = e->n_unit;
    o.table = e->table;
    uint64_t avail = e->plan.window_bytes + e->plan.resident_bytes;
    sl_status rc = sl_residency_open(&e->res, &o, avail, io, &e->ledger, err);
    if (rc != SL_OK) return rc;
    e->fwd.res = e->res;
    rc = sl_residency_load(e->res, e->opt.cancel, e->opt.progress, e->opt.progress_user, err);
    return rc == SL_OK ? sl_engine_open_experts(e, io, err) : rc;
}

/* Strings of the options live as long as the call only. */
static sl_status copy_options(sl_engine *e, const sl_engine_options *opt, sl_err *err)
{
    e->opt = *opt;
    e->opt.layers = e->opt.cache_dir = NULL;
    if (!opt->cache_dir) return SL_OK;
    e->cache_dir = sl_strdup(opt->cache_dir);
    return e->cache_dir ? SL_OK : sl_fail(err, SL_ERR_NOMEM, "no memory for an engine");
}

sl_status sl_engine_open_memory(sl_engine *e, sl_io *io, sl_err *err)
{
    sl_status rc;
    sl_backend_options b;
    sl_backend_options_for(&e->parts, &e->opt, e->plan.prefill_chunk_tok, &b);
    if ((rc = enter_fixed(e, err)) != SL_OK) return rc;
    if ((rc = sl_model_load_always(e->parts.model, e->io, &e->ledger, err)) != SL_OK) return rc;
    if ((rc = sl_backend_open(&e->be, &b, &e->ledger, err)) != SL_OK) return rc;
    if ((rc = open_scratch(e, err)) != SL_OK) return rc;
    if ((rc = open_sequence(e, err)) != SL_OK) return rc;
    return open_residency(e, io, err);
}

static sl_status split_budget(sl_engine *e, sl_err *err)
{
    sl_status rc = sl_budget_split(&e->parts, &e->opt, e->io->align, e->io->ops->view != NULL, &e->record, &e->plan, err);
    return rc == SL_OK && !e->plan.fits ? sl_budget_refuse(&e->parts, &e->plan, err) : rc;
}

/* The plan, and once more when the caller has looked at it. */
static sl_status settle(sl_engine *e, sl_err *err)
{
    sl_status rc = split_budget(e, err);
    if (rc != SL_OK || !e->opt.settle) return rc;
    rc = e->opt.settle(e->opt.settle_user, e->parts.tok, &e->plan, &e->opt.ctx_tok, err);
    if (rc == SL_OK) rc = sl_engine_check_options(&e->opt, err);
    if (rc != SL_OK) return rc;
    sl_parts_measure_base(&e->parts);
    return split_budget(e, err);
}

sl_status sl_engine_open(sl_engine **out, const char *model, const sl_engine_options *opt, sl_err *err)
{
    return sl_engine_open_wrapped(out, model, opt, NULL, NULL, err);
}

sl_status sl_engine_open_wrapped(sl_engine **out, const char *model, const sl_engine_options *opt, sl_io_wrap wrap,
                                 void *user, sl_err *err)
{
    double start = sl_now_s();
    sl_status rc = sl_engine_check_options(opt, err);
    if (rc != SL_OK) return rc;
    sl_engine *e = sl_calloc(1, sizeof *e);
    if (!e) return sl_fail(err, SL_ERR_NOMEM, "no memory for an engine");
    e->log = (sl_log){opt->log, opt->log_user};
    e->kv_type = sl_kv_type_for(opt);
    if ((rc = copy_options(e, opt, err)) != SL_OK) goto fail;
    if ((rc = sl_parts_open(&e->parts, model, opt, err)) != SL_OK) goto fail;
    sl_record_open(&e->record, &e->parts, e->cache_dir, &e->log);
    if ((rc = sl_parts_check_kv(&e->parts, opt, err)) != SL_OK) goto fail;
    if ((rc = sl_parts_open_io(&e->parts, opt, &e->log, &e->io, err)) != SL_OK) goto fail;
    e->io->cancel = opt->cancel;
    if (wrap && (rc = wrap(user, &e->io, err)) != SL_OK) goto fail;
    if ((rc = settle(e, err)) != SL_OK) goto fail;
    sl_ledger_init(&e->ledger, e->plan.budget_bytes);
    if ((rc = sl_engine_open_memory(e, e->io, err)) != SL_OK) goto fail;
    e->io->cancel = NULL;
    e->load_bytes_read = __atomic_load_n(&e->io->bytes_read, __ATOMIC_RELAXED);
    e->load_s = sl_now_s() - start;
    *out = e;
    return SL_OK;
fail:
    sl_engine_close(e);
    return rc;
}

void sl_engine_close_memory(sl_engine *e)
{
    sl_experts_close(e->experts);
    sl_residency_close(e->res);
    sl_block_close(&e->scratch);
    sl_backend_close(e->be);
    sl_free(e->sequence);
    sl_free(e->views);
}

void sl_engine_close(sl_engine *e)
{
    if (!e) return;
    sl_engine_keep_record(e);
    sl_engine_close_memory(e);
    sl_io_close(e->io);
    sl_token_trie_close(e->trie);
    sl_parts_close(&e->parts);
    sl_experts_record_close(&e->record);
    sl_free(e->cache_dir);
    sl_free(e);
}

/* ---- what an engine says of itself ---- */

void sl_engine_info(const sl_engine *e, sl_model_info *out)
{
    *out = e->parts.info;
}

void sl_engine_get_plan(const sl_engine *e, sl_plan *out)
{
    *out = e->plan;
}

sl_tokenizer *sl_engine_tokenizer(sl_engine *e)
{
    return e->parts.tok;
}

static const char *kv_name(sl_kv_type t)
{
    return t == SL_KV_F32 ? "f32" : t == SL_KV_F16 ? "f16" : "q8";
}

static const char *policy_name(sl_policy p)
{
    return p == SL_POLICY_LRU ? "lru" : p == SL_POLICY_FIFO ? "fifo" : "pin";
}

static void stats_of_experts(const sl_engine *e, const sl_experts_stats *x, sl_expert_stats *out)
{
    static const char *const paths[] = {"auto", "exact", "staged", "hot", "layer"};
    static const char *const predicts[] = {"auto", "off", "history", "lookahead"};
    *out = (sl_expert_stats){
        .slots = e->plan.expert_slots,
        .path = paths[sl_experts_get_path(e->experts)],
        .predict = predicts[sl_experts_get_predict(e->experts)],
        .hits = x->hits,
        .misses = x->misses,
        .decode_hits = x->decode_hits,
        .decode_misses = x->decode_misses,
        .evictions = x->evictions,
        .demand_bytes = x->demand_bytes,
        .prefetch_issued = x->prefetch_issued,
        .prefetch_used = x->prefetch_used,
        .prefetch_wasted = x->prefetch_wasted,
        .prefetch_bytes = x->prefetch_bytes,
        .wasted_bytes = x->wasted_bytes,
        .warm_issued = x->warm_issued,
        .warm_bytes = x->warm_bytes,
        .waves = x->waves,
        .recall = x->routed ? (double)x->predicted_right / (double)x->routed : 0,
        .precision = x->predicted ? (double)x->predicted_right / (double)x->predicted : 0,
        .wait_s = x->wait_s,
        .hidden_s = x->hidden_s,
        .busy_s = x->busy_s,
    };
}

void sl_engine_stats(const sl_engine *e, sl_stats *out)
{
    sl_residency_stats r;
    sl_experts_stats x = {0};
    sl_residency_get_stats(e->res, &r);
    if (e->experts) sl_experts_get_stats(e->experts, &x);
    *out = (sl_stats){
        .budget_bytes = e->plan.budget_bytes,
        .peak_rss_bytes = sl_mem_peak_rss_bytes(),
        .ledger_peak_bytes = e->ledger.peak,
        .bytes_read = __atomic_load_n(&e->io->bytes_read, __ATOMIC_RELAXED),
        .reads = __atomic_load_n(&e->io->reads, __ATOMIC_RELAXED),
        .load_bytes_read = e->load_bytes_read + (e->opt.load_late ? r.resident_bytes : 0),
        .layers_executed = e->layers_executed,
        .tensors_loaded = r.tensors_loaded,
        .tensors_released = r.tensors_released,
        .prefetched = r.prefetched,
        .failed = e->failed,
        .hits = r.hits,
        .misses = r.misses,
        .madvise_drops = __atomic_load_n(&e->io->n_drop, __ATOMIC_RELAXED),
        .madvise_needs = __atomic_load_n(&e->io->n_need, __ATOMIC_RELAXED),
        .io_wait_s = r.wait_s + x.wait_s,
        .compute_s = e->compute_s - x.wait_s, /* waiting for experts happens inside layers */
        .load_s = e->load_s,
        .io_method = e->io->name,
        .backend = sl_backend_name(e->be),
        .cpu = sl_backend_level(e->be),
        .policy = policy_name(e->opt.policy),
        .kv = kv_name(e->kv_type),
        .huge_pages = r.huge,
        .threads = sl_backend_threads(e->be),
    };
    if (e->experts) stats_of_experts(e, &x, &out->experts);
}

/* ---- machine ---- */

uint64_t sl_machine_spare_bytes(void)
{
    /* an eighth is left to the rest of the machine */
    uint64_t spare = sl_mem_spare_bytes();
    return spare - spare / 8;
}

uint64_t sl_process_peak_rss_bytes(void)
{
    return sl_mem_peak_rss_bytes();
}
