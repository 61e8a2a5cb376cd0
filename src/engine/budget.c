/* One number bounds all memory: how it is split.
 *
 *   budget = base + tokenizer + always + KV + scratch + (windows + resident weights) + expert slots
 *
 * base is what the process holds already (program, libraries, heap) plus a margin for what it will touch while running:
 * code pages, thread stacks, the kernel's page tables and rings.  KV is counted for the whole context at once, so that
 * a session can't outgrow the budget later; scratch grows with the prefill chunk.  The rest goes to the residency.
 *
 * A mixture's routed experts have slots.  What every token uses comes first, then slots from what is left; only when that
 * is less than two layers need at once do slots come first, since then it is their number that bounds the speed. */
#include "engine/engine_int.h"

#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CTX_DEFAULT   4096u
#define CTX_STEP      64u
#define CHUNK_DEFAULT 512u
#define CHUNK_TIGHT   8u          /* what a minimal budget is planned with */
#define MARGIN_FIXED  (3u << 19)  /* 1.5 MiB: code pages, stacks, io rings, allocator slack; measured 0.9 */
#define MARGIN_PART   256u        /* and this part of the budget: page tables are 1/512 of what they map */
#define BASE_STEP     (1u << 18)
#define BASE_FLOOR    (13u << 19) /* 6.5 MiB, margin included: above what fresh processes were seen to vary between (4.5 to
                                     5.8), so that a budget that a plan named works in the run after it */

/* Blocks are mapped, and entered in the ledger, in whole pages. */
static uint64_t pages(uint64_t bytes)
{
    return sl_round_up(bytes, 4096);
}

static uint64_t min_ctx(const sl_parts *p)
{
    return sl_min_u64(CTX_STEP, p->model->c.ctx_train_tok);
}

sl_kv_type sl_kv_type_for(const sl_engine_options *opt)
{
    if (opt->backend == SL_BACKEND_SCALAR) return SL_KV_F32;
    return opt->kv == SL_KV_AUTO ? SL_KV_F16 : opt->kv;
}

/* Areas start on pages, so that they can be committed one by one. */
uint64_t sl_kv_bytes_for(const sl_parts *p, sl_kv_type type, uint32_t ctx_tok)
{
    uint64_t row = sl_kv_row_bytes(type, (uint32_t)sl_model_kv_row_elems(p->model));
    return pages(row * ctx_tok) * sl_model_kv_areas(p->model) * p->n_exec;
}

uint64_t sl_forward_bytes(const sl_model *m, uint32_t chunk_tok)
{
    sl_forward f = {0};
    sl_arena measure = {.cap = SIZE_MAX};
    sl_forward_layout(&f, &measure, m, chunk_tok);
    return measure.used + 64;
}

static uint64_t logits_bytes(const sl_parts *p)
{
    return (uint64_t)p->model->c.n_vocab * sizeof(float);
}

void sl_backend_options_for(const sl_parts *p, const sl_engine_options *opt, uint32_t chunk_tok, sl_backend_options *out)
{
    const sl_model_config *c = &p->model->c;
    *out = (sl_backend_options){
        .kind = opt->backend == SL_BACKEND_AUTO ? SL_BACKEND_CPU : opt->backend,
        .level = opt->cpu,
        .n_thread = opt->n_threads ? opt->n_threads : sl_cpu_count(),
        .max_tok = chunk_tok,
        .max_in = sl_model_widest(p->model),
        .max_head_dim = sl_model_attn_dim(p->model),
        .scales_apart = p->model->experts && p->model->experts[c->n_layer - 1].form == SL_EXPERT_MXFP4_APART,
        .turned = p->model->experts && p->model->experts[c->n_layer - 1].form == SL_EXPERT_TURNED,
        .n_job_input = c->latent.kv_rank ? c->n_head : c->moe.routing.n_used,
    };
}

static uint64_t scratch_bytes(const sl_parts *p, const sl_engine_options *opt, uint32_t chunk_tok)
{
    sl_backend_options b;
    sl_backend_options_for(p, opt, chunk_tok, &b);
    return pages(sl_forward_bytes(p->model, chunk_tok)) + pages(sl_backend_scratch_bytes(&b)) + pages(logits_bytes(p)) +
           sl_sampler_reserve_bytes(p->model) + sl_grammar_reserve_bytes(p, opt->n_constrained);
}

void sl_residency_options_for(const sl_parts *p, const sl_engine_options *opt, uint32_t align, bool views,
                              uint32_t chunk_tok, sl_residency_options *out)
{
    const sl_model *m = p->model;
    *out = (sl_residency_options){
        .store = p->store,
        .units = m->units,
        .n_unit = m->n_unit,
        .table = m->embd,
        .table_n_in = m->c.n_embd,
        .max_table_rows = chunk_tok,
        .policy = opt->policy,
        .align = align,
        .views = views,
        .load_late = opt->load_late,
    };
}

typedef struct {
    const sl_parts *p;
    const sl_engine_options *opt;
    uint32_t align;
    bool views;
    uint64_t fixed; /* base, tokenizer, always */
} split;

static sl_status residency(const split *s, uint32_t chunk, uint64_t avail, sl_residency_plan *out, sl_err *err)
{
    sl_residency_options o;
    sl_residency_options_for(s->p, s->opt, s->align, s->views, chunk, &o);
    return sl_residency_plan_for(&o, avail, out, err);
}

static uint64_t left(uint64_t budget, uint64_t used)
{
    return budget > used ? budget - used : 0;
}

/* What weights get. */
typedef struct {
    sl_residency_plan r;
    sl_experts_plan x; /* all 0 for a dense model */
    uint64_t minimum, full;
} weights;

/* Bytes of avail that go to slots.  An embedding table that a token reads one row of stays out of memory rather than
 * experts. */
static uint64_t for_slots(const weights *w, uint64_t avail)
{
    bool all = w->full <= avail;
    uint64_t slots = left(avail, all ? w->r.full_bytes : w->r.units_bytes);
    if (slots < w->x.least_bytes) slots = sl_min_u64(w->x.least_bytes, left(avail, w->r.minimum_bytes));
    return sl_max_u64(slots, w->x.minimum_bytes);
}

static sl_status divide(const split *s, uint32_t chunk, uint64_t avail, weights *out, sl_err *err)
{
    sl_experts_options o;
    *out = (weights){.r.fits = false};
    sl_status rc = residency(s, chunk, avail, &out->r, err);
    if (rc != SL_OK) return rc;
    out->minimum = out->r.minimum_bytes;
    out->full = out->r.full_bytes;
    if (!sl_has_experts(s->p)) return SL_OK;
    sl_experts_options_for(s->p, s->opt, s->align, s->views, &o);
    if ((rc = sl_experts_plan_for(&o, avail, &out->x, err)) != SL_OK) return rc;
    out->minimum += out->x.minimum_bytes;
    out->full += out->x.full_bytes;
    if ((rc = sl_experts_plan_for(&o, for_slots(out, avail), &out->x, err)) != SL_OK) return rc;
    rc = residency(s, chunk, left(avail, out->x.total_bytes), &out->r, err);
    out->r.fits = out->r.fits && out->x.fits;
    return rc;
}

/* The context when none was asked for: all of the usual size if the model then still fits whole (full), else what a
 * quarter of the room holds, but never more than leaves what streaming needs at least. */
static uint32_t choose_ctx(const split *s, uint64_t budget, uint64_t full, uint64_t least, uint64_t per_tok)
{
    uint64_t want = sl_min_u64(CTX_DEFAULT, s->p->model->c.ctx_train_tok), room = left(budget, s->fixed);
    if (room > full && per_tok * want <= room - full) return (uint32_t)want;
    /* areas are whole pages, so a step of tokens may cost a page more in each */
    uint64_t pages_of_areas = 4096ull * sl_model_kv_areas(s->p->model) * s->p->n_exec;
    uint64_t most = left(room, least + pages_of_areas);
    uint64_t ctx = sl_round_down(sl_min_u64(room / 4, most) / per_tok, CTX_STEP);
    return (uint32_t)sl_min_u64(want, sl_max_u64(ctx, min_ctx(s->p)));
}

/* The largest chunk whose scratch takes at most an eighth of what is left (a larger chunk saves sweeps, memory saves
 * bytes in every sweep). */
static uint32_t choose_chunk(const split *s, uint64_t room, uint32_t ctx)
{
    uint32_t chunk = CHUNK_DEFAULT;
    while (chunk > CHUNK_TIGHT && scratch_bytes(s->p, s->opt, chunk) > room / 8) chunk /= 2;
    return chunk < ctx ? chunk : ctx;
}

static void fill_minimum(const split *s, sl_plan *out, uint64_t weights_min)
{
    uint32_t tight = out->prefill_chunk_tok < CHUNK_TIGHT ? out->prefill_chunk_tok : CHUNK_TIGHT;
    if (s->opt->prefill_chunk_tok) tight = out->prefill_chunk_tok;
    uint64_t sum = s->fixed + out->kv_bytes + scratch_bytes(s->p, s->opt, tight) + weights_min;
    /* the margin is a part of the budget, so solve sum + budget / MARGIN_PART <= budget */
    out->minimum_bytes = sl_round_up(sum + sum / (MARGIN_PART - 1) + 1, 4096);
    uint64_t without_kv = out->minimum_bytes - out->kv_bytes;
    uint64_t most = left(out->budget_bytes, without_kv) / out->kv_bytes_per_tok;
    out->ctx_max_tok = (uint32_t)sl_min_u64(most, s->p->model->c.ctx_train_tok);
}

static void fill_experts(sl_plan *out, const sl_experts_plan *x, const sl_experts_record *record)
{
    if (!x->n_expert) return;
    out->expert_bytes = x->total_bytes;
    out->expert_slots = x->n_slot;
    out->expert_useful_slots = x->useful_slots;
    out->expert_count = x->n_expert;
    out->expert_slot_bytes = x->slot_bytes;
    out->expert_token_bytes = x->token_bytes;
    out->expert_hit_rate = sl_experts_expect(x, record);
    out->model_bytes += x->token_bytes;
    out->stream_bytes += (uint64_t)((1 - out->expert_hit_rate) * (double)x->token_bytes);
    out->prompt_bytes += (uint64_t)((1 - (double)x->n_slot / x->n_expert) * (double)x->expert_bytes);
    out->total_bytes += x->total_bytes;
}

static void fill_totals(sl_plan *out, const sl_residency_plan *r)
{
    out->fits = r->fits;
    out->window_bytes = r->window_bytes + r->staging_bytes;
    out->resident_bytes = r->resident_bytes;
    out->stream_bytes = out->prompt_bytes = r->stream_bytes;
    out->model_bytes = r->unit_bytes;
    out->n_window = r->n_window;
    out->total_bytes = out->base_bytes + out->tokenizer_bytes + out->always_bytes + out->kv_bytes + out->scratch_bytes +
                       out->window_bytes + out->resident_bytes;
}

sl_status sl_budget_split(const sl_parts *p, const sl_engine_options *opt, uint32_t align, bool views,
                          const sl_experts_record *record, sl_plan *out, sl_err *err)
{
    split s = {p, opt, align, views, 0};
    weights w;
    sl_kv_type kv = sl_kv_type_for(opt);
    *out = (sl_plan){.budget_bytes = opt->memory_bytes ? opt->memory_bytes : sl_machine_spare_bytes()};
    uint64_t budget = out->budget_bytes;
    out->base_bytes = sl_max_u64(sl_round_up(p->base_bytes, BASE_STEP) + MARGIN_FIXED, BASE_FLOOR) + budget / MARGIN_PART;
    out->tokenizer_bytes = p->tok ? sl_tokenizer_bytes(p->tok) : 0;
    out->always_bytes = pages(p->model->always_bytes);
    out->kv_bytes_per_tok = sl_kv_row_bytes(kv, (uint32_t)sl_model_kv_row_elems(p->model)) *
                            sl_model_kv_areas(p->model) * p->n_exec;
    s.fixed = out->base_bytes + out->tokenizer_bytes + out->always_bytes;

    sl_status rc = divide(&s, CHUNK_TIGHT, 0, &w, err);
    if (rc != SL_OK) return rc;
    uint64_t tight = scratch_bytes(p, opt, CHUNK_TIGHT);
    out->ctx_tok = opt->ctx_tok ? opt->ctx_tok
                                : choose_ctx(&s, budget, w.full + tight, w.minimum + tight, out->kv_bytes_per_tok);
    out->kv_bytes = sl_kv_bytes_for(p, kv, out->ctx_tok);
    uint64_t room = left(budget, s.fixed + out->kv_bytes);
    uint32_t chunk = opt->prefill_chunk_tok ? opt->prefill_chunk_tok : choose_chunk(&s, room, out->ctx_tok);
    out->prefill_chunk_tok = chunk < out->ctx_tok ? chunk : out->ctx_tok;
    out->scratch_bytes = scratch_bytes(p, opt, out->prefill_chunk_tok);
    uint64_t weights_min = w.minimum;
    if ((rc = divide(&s, out->prefill_chunk_tok, left(room, out->scratch_bytes), &w, err)) != SL_OK) return rc;
    s.fixed -= budget / MARGIN_PART;
    fill_minimum(&s, out, opt->prefill_chunk_tok ? w.minimum : weights_min);
    fill_totals(out, &w.r);
    fill_experts(out, &w.x, record);
    if (out->total_bytes > budget) out->fits = false;
    return SL_OK;
}

sl_status sl_budget_refuse(const sl_parts *p, const sl_plan *plan, sl_err *err)
{
    char b[10][24];
    uint64_t stream_min = left(plan->minimum_bytes, plan->base_bytes + plan->tokenizer_bytes + plan->always_bytes +
                                                        plan->kv_bytes + plan->scratch_bytes);
    char ctx[160];
    if (plan->ctx_max_tok >= min_ctx(p))
        snprintf(ctx, sizeof ctx, "the largest context that fits is %u tokens", plan->ctx_max_tok);
    else
        snprintf(ctx, sizeof ctx, "no context fits");
    return sl_fail(err, SL_ERR_BUDGET,
                   "%s does not fit %s: it needs at least %s = program %s + tokenizer %s + norms %s + KV cache of %u tokens %s + "
                   "scratch %s + weight windows%s %s; %s",
                   sl_store_path(p->store), sl_size_text(plan->budget_bytes, b[0]), sl_size_text(plan->minimum_bytes, b[1]),
                   sl_size_text(plan->base_bytes, b[2]), sl_size_text(plan->tokenizer_bytes, b[3]),
                   sl_size_text(plan->always_bytes, b[4]), plan->ctx_tok, sl_size_text(plan->kv_bytes, b[5]),
                   sl_size_text(plan->scratch_bytes, b[6]), sl_has_experts(p) ? " and expert slots" : "",
                   sl_size_text(stream_min, b[7]), ctx);
}
