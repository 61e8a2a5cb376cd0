/* The engine's side of routed experts: what the cache is told of the model, its record from run to run, warnings. */
#include "engine/engine_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool sl_has_experts(const sl_parts *p)
{
    return p->model->experts != NULL;
}

void sl_experts_options_for(const sl_parts *p, const sl_engine_options *opt, uint32_t align, bool views,
                            sl_experts_options *out)
{
    const sl_model *m = p->model;
    *out = (sl_experts_options){.layers = m->experts,
                                .n_layer = m->c.n_layer,
                                .top_k = m->c.moe.routing.n_used,
                                .align = align,
                                .views = views,
                                .how = opt->experts};
    if (opt->predict != SL_PREDICT_AUTO) out->how.predict = opt->predict;
}

/* ---- the record ---- */

/* Of the model's files: what they are called does not matter, what they are does. */
static uint64_t identity_of(const sl_store *s)
{
    uint64_t h = 0;
    for (size_t i = 0; i < sl_store_file_count(s); i++) {
        sl_file_info info = {0};
        uint64_t part[3] = {h};
        if (sl_file_stat(sl_store_file_path(s, i), &info, NULL) != SL_OK) return 0;
        part[1] = info.size_bytes;
        part[2] = info.mtime_ns;
        h = sl_hash_bytes(part, sizeof part);
    }
    for (size_t i = 0; i < sl_store_tensor_count(s); i++) {
        const sl_tensor *t = sl_store_tensor(s, i);
        uint64_t part[4] = {h, sl_hash_bytes(t->name, strlen(t->name)), t->type->id, t->offset_bytes};
        h = sl_hash_bytes(part, sizeof part);
    }
    return h;
}

/* The record's file into buf; false when there is nowhere to keep it. */
static bool record_path(const char *dir, uint64_t identity, char *buf, size_t bytes)
{
    if (!dir || !identity) return false;
    int n = snprintf(buf, bytes, "%s/%016" PRIx64 ".experts", dir, identity);
    return n > 0 && (size_t)n < bytes;
}

void sl_record_open(sl_experts_record *r, const sl_parts *p, const char *dir, const sl_log *log)
{
    char path[SL_PATH_BYTES];
    sl_err why = {0};
    uint32_t width = 0;
    *r = (sl_experts_record){.identity = identity_of(p->store)};
    if (!sl_has_experts(p) || !record_path(dir, r->identity, path, sizeof path)) return;
    for (uint32_t i = 0; i < p->model->c.n_layer; i++)
        if (p->model->experts[i].n_expert > width) width = p->model->experts[i].n_expert;
    sl_status rc = sl_experts_record_load(r, path, r->identity, p->model->c.n_layer, width, &why);
    if (rc == SL_ERR_FORMAT) sl_note(log, "%s", why.msg);
}

/* What the run has learned is worth keeping, but not worth an error. */
void sl_engine_keep_record(sl_engine *e)
{
    char path[SL_PATH_BYTES];
    sl_err why = {0};
    sl_experts_stats st;
    if (!e->experts || !e->cache_dir) return;
    sl_experts_get_stats(e->experts, &st);
    if (st.hits + st.misses == 0 || !record_path(e->cache_dir, e->record.identity, path, sizeof path)) return;
    if (sl_experts_record_save(&e->record, e->experts, path, &why) != SL_OK)
        sl_note(&e->log, "the use of experts is not kept for the next run: %s", why.msg);
}

/* ---- opening ---- */

static void warn_if_few(sl_engine *e)
{
    char useful[24];
    sl_experts_plan p;
    sl_experts_get_plan(e->experts, &p);
    if (p.n_slot >= p.useful_slots) return;
    uint64_t more = p.useful_bytes - p.total_bytes;
    sl_warn(&e->log,
            "memory holds %u experts, one token uses %u: most are read again for every token; %s (--memory) would hold them",
            p.n_slot, p.useful_slots, sl_size_text(e->plan.budget_bytes + more + more / 128, useful));
}

sl_status sl_engine_open_experts(sl_engine *e, sl_io *io, sl_err *err)
{
    sl_experts_options o;
    if (!sl_has_experts(&e->parts)) return SL_OK;
    sl_experts_options_for(&e->parts, &e->opt, io->align, io->ops->view != NULL, &o);
    sl_status rc = sl_experts_open(&e->experts, &o, e->plan.expert_bytes, io, &e->ledger, err);
    if (rc != SL_OK) return rc;
    e->fwd.experts = sl_experts_source(e->experts);
    warn_if_few(e);
    rc = sl_experts_load(e->experts, e->opt.cancel, e->opt.progress, e->opt.progress_user, err);
    if (rc != SL_OK) return rc;
    if (e->record.counts) sl_experts_warm(e->experts, e->record.counts);
    return SL_OK;
}

void sl_engine_set_expert_hook(sl_engine *e, void (*hook)(void *user, uint32_t layer, const uint32_t *ids, uint32_t n),
                               void *user)
{
    if (e->experts) sl_experts_set_hook(e->experts, hook, user);
}
