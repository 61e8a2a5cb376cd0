/* What does a step cost here?  Times the model's own layers by the engine's own sweep, in a small engine that holds a sample
 * of the units: one layer of each kind, a block of the head, more of both so that no cache holds them all.  The weights are a
 * pattern, so that nothing is read from the drive; the split between what stays and what passes through windows is that of the
 * plan, but windows are never waited for.  Left out: rows of the embedding table, and the same sample with real reads: a few
 * sweeps of a few layers told less of a whole sweep's reads than the probed rate does (docs/experiments.tsv). */
#include "engine/forecast.h"

#include "os/os.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_BYTES ((uint64_t)192 << 20) /* beyond a processor's share of the last cache */
#define KINDS_BYTES  ((uint64_t)1 << 30)   /* beyond this no further kind joins the sample */
#define KV_BYTES     ((uint64_t)64 << 20)  /* of one layer of the sample */
#define ONE_S        0.15                  /* for one-token sweeps at one position */
#define MANY_S       0.25                  /* for a chunk */

enum { MAX_SAMPLE = 56, MAX_HEAD = 24, MAX_SWEEP = 32, LEAST_SWEEP = 3, FEW_TOK = 16 };

/* ---- a reader that reads nothing ---- */

enum { PATTERN_BYTES = 1 << 16 };

typedef struct {
    sl_io io;
    bool filling; /* while loading; what windows hold later does not matter */
    uint8_t pattern[PATTERN_BYTES];
} pattern_io;

static sl_status pattern_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    pattern_io *p = (pattern_io *)io;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        uint8_t *dst = reqs[i]->dst;
        for (size_t at = 0; p->filling && at < reqs[i]->bytes; at += PATTERN_BYTES)
            memcpy(dst + at, p->pattern, sl_min_u64(PATTERN_BYTES, reqs[i]->bytes - at));
    }
    return SL_OK;
}

static sl_status pattern_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    (void)io, (void)req, (void)err;
    return SL_OK;
}

static bool pattern_poll(sl_io *io, sl_io_req *req)
{
    (void)io, (void)req;
    return true;
}

static void pattern_close(sl_io *io)
{
    sl_free(io);
}

static const sl_io_ops pattern_ops = {
    .submit = pattern_submit, .wait = pattern_wait, .poll = pattern_poll, .close = pattern_close};

/* Every 16-bit half is a small float16, so scales of any block format are plausible; speed depends on no value. */
static pattern_io *pattern_open(const sl_io *like)
{
    pattern_io *p = sl_calloc(1, sizeof *p);
    if (!p) return NULL;
    p->io = (sl_io){.ops = &pattern_ops, .name = "pattern", .align = like->align, .piece_bytes = SIZE_MAX, .depth = 1};
    p->filling = true;
    for (uint32_t i = 0; i < PATTERN_BYTES; i += 2) {
        uint32_t r = i * 2654435761u >> 11; /* Knuth's multiplicative hash */
        p->pattern[i] = (uint8_t)r;
        p->pattern[i + 1] = (uint8_t)(0x20 | (r >> 8 & 0x8f));
    }
    return p;
}

/* ---- what is in the sample ---- */

typedef struct {
    sl_engine e;
    sl_session *session;
    pattern_io *weights;
    sl_costs *costs;
    sl_unit units[MAX_SAMPLE];
    uint32_t exec[MAX_SAMPLE], kind[MAX_SAMPLE], n_exec, n_head;
    uint64_t bytes; /* of the units, the spare one left out */
    int32_t *tokens;
    sl_tensor table; /* the first rows of the embedding, so many as the sample's head has */

    double at[MAX_SAMPLE];                   /* when each layer of the sweep under way was done */
    double times[MAX_SAMPLE + 1][MAX_SWEEP]; /* per position, the head last */
} sample;

static uint64_t unit_bytes(const sl_unit *u)
{
    uint64_t sum = 0, row = 0;
    for (uint32_t i = 0; i < u->n_rows; i++) {
        sl_type_row_bytes(u->rows[i].tensor->type, u->rows[i].n_in, &row);
        sum += row * u->rows[i].n_row;
    }
    return sum;
}

static bool same_shape(const sl_unit *a, const sl_unit *b)
{
    bool same = a->n_rows == b->n_rows;
    for (uint32_t i = 0; same && i < a->n_rows; i++)
        same = a->rows[i].tensor->type == b->rows[i].tensor->type && a->rows[i].n_in == b->rows[i].n_in &&
               a->rows[i].n_row == b->rows[i].n_row;
    return same;
}

static uint32_t window_of(const sl_model *m, uint32_t layer)
{
    return m->c.window && m->c.windowed[layer] ? m->c.window : 0;
}

/* The kind of a layer that is like one already in the sample; else the one nearest in size. */
static uint32_t kind_of(const sample *s, const sl_model *m, uint32_t layer, bool *same)
{
    const sl_costs *c = s->costs;
    uint64_t bytes = unit_bytes(&m->units[layer]), least = UINT64_MAX;
    uint32_t nearest = 0;
    *same = false;
    for (uint32_t i = 0; i < s->n_exec && !*same; i++) {
        *same = same_shape(&m->units[s->exec[i]], &m->units[layer]) && window_of(m, s->exec[i]) == window_of(m, layer);
        if (*same) return s->kind[i];
    }
    for (uint32_t k = 0; k < c->n_kind; k++) {
        uint64_t far = bytes > c->kind[k].bytes ? bytes - c->kind[k].bytes : c->kind[k].bytes - bytes;
        if (far < least) least = far, nearest = k;
    }
    return nearest;
}

static void add_layer(sample *s, const sl_model *m, uint32_t layer, uint32_t kind)
{
    s->units[s->n_exec] = m->units[layer];
    s->exec[s->n_exec] = layer;
    s->kind[s->n_exec++] = kind;
    s->bytes += unit_bytes(&m->units[layer]);
}

/* A layer of each kind, and how many of it there are. */
static void choose_kinds(sample *s, const sl_parts *p)
{
    const sl_model *m = p->model;
    sl_costs *c = s->costs;
    for (uint32_t i = 0; i < p->n_exec; i++) {
        bool same;
        uint64_t bytes = unit_bytes(&m->units[p->exec[i]]);
        uint32_t k = kind_of(s, m, p->exec[i], &same);
        if (!same && c->n_kind < SL_MAX_KIND && (c->n_kind == 0 || s->bytes + bytes <= KINDS_BYTES)) {
            k = c->n_kind++;
            c->kind[k] = (sl_kind_cost){.bytes = bytes, .window = window_of(m, p->exec[i])};
            add_layer(s, m, p->exec[i], k);
        }
        c->kind[k].n += (double)bytes / (double)c->kind[k].bytes;
    }
}

static bool chosen(const sample *s, uint32_t layer)
{
    for (uint32_t i = 0; i < s->n_exec; i++)
        if (s->exec[i] == layer) return true;
    return false;
}

/* More of them, until no cache holds the sample. */
static void choose_more(sample *s, const sl_parts *p)
{
    for (uint32_t i = 0; i < p->n_exec && s->n_exec + 1 + MAX_HEAD < MAX_SAMPLE && s->bytes < SAMPLE_BYTES; i++) {
        bool same;
        uint32_t k = kind_of(s, p->model, p->exec[i], &same);
        if (same && !chosen(s, p->exec[i])) add_layer(s, p->model, p->exec[i], k);
    }
}

/* The first blocks of the head, the others of which are as large, and as many rows of the table. */
static void choose_head(sample *s, const sl_parts *p)
{
    const sl_model *m = p->model;
    const sl_unit *block = &m->units[m->c.n_layer];
    uint64_t bytes = unit_bytes(block), all = 0;
    uint32_t n_row = 0;
    for (uint32_t b = 0; b < m->n_head_block; b++) all += unit_bytes(&block[b]);
    sl_kind_cost *k = &s->costs->kind[s->costs->n_kind++];
    *k = (sl_kind_cost){.n = (double)all / (double)bytes, .bytes = bytes, .head = true};
    while (s->n_head == 0 || (s->n_head < m->n_head_block && s->n_head < MAX_HEAD && s->bytes < SAMPLE_BYTES)) {
        const sl_unit *u = &block[s->n_head];
        if (s->n_head && unit_bytes(u) != bytes) break;
        s->units[s->n_exec + s->n_head++] = *u;
        s->bytes += bytes;
        n_row += u->rows[0].n_row;
    }
    s->table = *m->embd;
    s->table.size_bytes = s->table.size_bytes / s->table.dims[0] * n_row;
    s->table.dims[0] = n_row;
}

/* ---- opening it ---- */

/* Far enough to tell what attention costs, not so far that the sample's cache outgrows its use. */
static uint32_t far_position(const sl_plan *plan, uint32_t chunk, uint32_t n_exec, uint32_t n_sample)
{
    uint64_t want = sl_max_u64(1024, plan->prompt_tok + plan->predict_tok / 2);
    uint64_t most = KV_BYTES / sl_max_u64(plan->kv_bytes_per_tok / n_exec, 1); /* all layers' cache is what the plan has */
    most = sl_min_u64(most, (uint64_t)plan->ctx_tok * n_exec / sl_max_u64(n_exec, n_sample + 1));
    uint64_t room = most > chunk ? most - chunk : 0;
    return (uint32_t)sl_min_u64(want, room);
}

/* The plan of the whole model cut down to the sample: the same bytes of each unit stay. */
static void cut_plan(sample *s, const sl_plan *plan, uint32_t n_exec)
{
    sl_plan *p = &s->e.plan;
    *p = *plan;
    double part = (double)s->bytes / (double)(plan->model_bytes - plan->expert_token_bytes);
    uint64_t share = (uint64_t)(part * (double)plan->resident_bytes);
    if (!plan->stream_bytes || plan->expert_count) share += (uint64_t)MAX_SAMPLE * 65536; /* ends of ranges */
    p->resident_bytes = sl_min_u64(sl_round_up(share, 4096), plan->resident_bytes);
    /* enough experts that no cache holds them; missing ones cost nothing here, the reader fills no slot */
    p->expert_bytes = sl_min_u64(plan->expert_bytes, SAMPLE_BYTES + 4 * plan->expert_slot_bytes);
    s->e.opt.experts = (sl_expert_options){.path = SL_EXPERTS_EXACT, .predict = SL_PREDICT_OFF};
    s->e.opt.predict = SL_PREDICT_OFF;
    p->prefill_chunk_tok = (uint32_t)sl_min_u64(plan->prefill_chunk_tok, plan->prompt_tok);
    s->costs->far_tok = far_position(plan, p->prefill_chunk_tok, n_exec, s->n_exec);
    p->ctx_tok = s->costs->far_tok + p->prefill_chunk_tok;
}

static sl_status set_order(sample *s, sl_err *err)
{
    sl_engine *e = &s->e;
    e->parts.exec = s->exec;
    e->parts.n_exec = s->n_exec;
    e->units = s->units;
    e->n_unit = s->n_exec + s->n_head;
    e->n_head = s->n_head;
    e->table = &s->table;
    e->sequence = sl_calloc(e->n_unit, sizeof *e->sequence);
    s->tokens = sl_calloc(e->plan.prefill_chunk_tok, sizeof *s->tokens);
    if (!e->sequence || !s->tokens) return sl_fail(err, SL_ERR_NOMEM, "no memory for the order of a sample");
    for (uint32_t i = 0; i < e->n_unit; i++) e->sequence[i] = i;
    for (uint32_t i = 0; i < e->plan.prefill_chunk_tok; i++) /* different ones, which a router sends different ways */
        s->tokens[i] = (int32_t)(i * 37 % s->table.dims[0]);
    return SL_OK;
}

static void on_layer(void *user, const sl_layer_event *ev)
{
    sample *s = user;
    s->at[ev->position] = sl_now_s();
}

/* The matrices are a pattern; mapped files are used as they are. */
static sl_status open_sample(sample *s, sl_io *io, sl_err *err)
{
    sl_engine *e = &s->e;
    e->io = io;
    e->log = (sl_log){0};
    e->opt.progress = NULL;
    e->opt.load_late = false;
    e->kv_type = sl_kv_type_for(&e->opt);
    sl_ledger_init(&e->ledger, e->plan.budget_bytes);
    sl_status rc = set_order(s, err);
    s->weights = rc == SL_OK ? pattern_open(io) : NULL;
    if (rc == SL_OK && !s->weights) return sl_fail(err, SL_ERR_NOMEM, "no memory for a pattern of weights");
    if (rc == SL_OK) rc = sl_engine_open_memory(e, io->ops->view ? io : &s->weights->io, err);
    if (rc == SL_OK) rc = sl_session_open(&s->session, e, err);
    if (rc == SL_OK) rc = sl_block_commit(&s->session->kv, 0, s->session->kv.bytes, err);
    if (rc == SL_OK) rc = sl_block_commit(&e->scratch, 0, e->scratch.bytes, err);
    if (rc != SL_OK) return rc;
    s->weights->filling = false;
    sl_session_set_layer_hook(s->session, on_layer, s);
    return SL_OK;
}

static void close_sample(sample *s)
{
    sl_engine *e = &s->e;
    sl_session_close(s->session);
    sl_engine_close_memory(e);
    sl_block_close(&e->parts.model->always); /* it is in the sample's ledger; an engine reads it anew */
    if (s->weights) pattern_close(&s->weights->io);
    sl_free(s->tokens);
    *e = (sl_engine){.opt = e->opt, .parts = e->parts, .plan = e->plan};
    s->session = NULL;
    s->weights = NULL;
    s->tokens = NULL;
}

/* ---- timing ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, uint32_t n)
{
    qsort(v, n, sizeof *v, compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* One sweep; the time of each position goes to column i. */
static sl_status time_sweep(sample *s, uint32_t n_tok, uint32_t pos, bool head, uint32_t i, sl_err *err)
{
    double from = sl_now_s();
    sl_status rc = sl_sweep(s->session, s->tokens, n_tok, pos, head, s->session->logits, true, err);
    double end = sl_now_s();
    uint32_t n = s->e.parts.n_exec;
    for (uint32_t k = 0; k < n; k++) {
        s->times[k][i] = s->at[k] - from;
        from = s->at[k];
    }
    s->times[n][i] = end - from;
    return rc;
}

/* Sweeps for about seconds; by_kind [n_kind]: the medians of a unit, averaged over the kind's units. */
static sl_status time_kinds(sample *s, uint32_t n_tok, uint32_t pos, bool head, double seconds, double *by_kind, sl_err *err)
{
    uint32_t n_sweep = 0, n = s->e.parts.n_exec, count[SL_MAX_KIND + 1] = {0};
    double start = sl_now_s();
    do {
        sl_status rc = time_sweep(s, n_tok, pos, head, n_sweep++, err);
        if (rc != SL_OK) return rc;
    } while (n_sweep < MAX_SWEEP && (sl_now_s() - start < seconds || (seconds > 0 && n_sweep < LEAST_SWEEP)));
    memset(by_kind, 0, s->costs->n_kind * sizeof *by_kind);
    for (uint32_t i = n > 1 ? 1 : 0; i < n; i++) { /* the first one's time has the start of the sweep in it */
        by_kind[s->kind[i]] += median(s->times[i], n_sweep);
        count[s->kind[i]]++;
    }
    for (uint32_t k = 0; k < s->costs->n_kind; k++)
        if (count[k]) by_kind[k] /= count[k];
    if (head) by_kind[s->costs->n_kind - 1] = median(s->times[n], n_sweep) / s->n_head;
    return SL_OK;
}

static sl_status time_one(sample *s, sl_err *err)
{
    sl_costs *c = s->costs;
    double by_kind[SL_MAX_KIND + 1];
    const uint32_t at[2] = {0, c->far_tok};
    for (uint32_t i = 0; i < 2; i++) {
        sl_status rc = time_kinds(s, 1, at[i], true, ONE_S, by_kind, err);
        if (rc != SL_OK) return rc;
        for (uint32_t k = 0; k < c->n_kind; k++) c->kind[k].one_s[i] = by_kind[k];
    }
    return SL_OK;
}

/* As many tokens of a chunk as take about MANY_S. */
static uint32_t affordable(uint32_t chunk, uint32_t few, double few_s)
{
    double most = few * MANY_S / few_s;
    if (most >= chunk) return chunk;
    return (uint32_t)sl_max_u64(sl_round_down((uint64_t)most, FEW_TOK), few);
}

static sl_status time_many(sample *s, sl_err *err)
{
    sl_costs *c = s->costs;
    uint32_t chunk = s->e.plan.prefill_chunk_tok, few = chunk < FEW_TOK ? chunk : FEW_TOK;
    double by_kind[SL_MAX_KIND + 1];
    double start = sl_now_s();
    sl_status rc = time_kinds(s, few, 0, false, 0, by_kind, err);
    c->many_tok = affordable(chunk, few, sl_now_s() - start);
    c->few_tok = c->many_tok / 2 > few ? c->many_tok / 2 : few;
    const uint32_t n_tok[3] = {c->few_tok, c->many_tok, c->few_tok}, at[3] = {0, 0, c->far_tok};
    for (uint32_t i = 0; rc == SL_OK && i < 3; i++) {
        rc = time_kinds(s, n_tok[i], at[i], false, i == 1 ? MANY_S : MANY_S / 2, by_kind, err);
        for (uint32_t k = 0; rc == SL_OK && k < c->n_kind; k++) c->kind[k].many_s[i] = by_kind[k];
    }
    return rc;
}

/* The order of the sample: a spare layer, whose time is not used, then one of each kind, then more. */
static void lead_in(sample *s)
{
    memmove(s->exec + 1, s->exec, s->n_exec * sizeof *s->exec);
    memmove(s->kind + 1, s->kind, s->n_exec * sizeof *s->kind);
    memmove(s->units + 1, s->units, (s->n_exec + s->n_head) * sizeof *s->units);
    s->n_exec++;
    uint32_t spare = s->n_exec - 1; /* the last one: the longest ago when the sweep begins anew */
    s->exec[0] = s->exec[spare];
    s->kind[0] = s->kind[spare];
    s->units[0] = s->units[spare];
}

static sl_status measure(sample *s, sl_err *err)
{
    sl_status rc = time_one(s, err);
    s->e.parts.n_exec = s->costs->n_kind; /* the spare one and each kind of layer once */
    if (rc == SL_OK) rc = time_many(s, err);
    return rc;
}

sl_status sl_costs_measure(sl_costs *out, const sl_parts *p, const sl_engine_options *opt, const sl_plan *plan, sl_io *io,
                           sl_err *err)
{
    memset(out, 0, sizeof *out);
    sample *s = sl_calloc(1, sizeof *s);
    if (!s) return sl_fail(err, SL_ERR_NOMEM, "no memory for a sample of the model");
    s->costs = out;
    s->e.opt = *opt;
    s->e.parts = *p;
    choose_kinds(s, p);
    choose_more(s, p);
    choose_head(s, p);
    lead_in(s);
    cut_plan(s, plan, p->n_exec);
    sl_status rc = open_sample(s, io, err);
    if (rc == SL_OK) rc = measure(s, err);
    close_sample(s);
    sl_free(s);
    return rc;
}
