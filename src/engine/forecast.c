/* How fast will it be?  Arithmetic only, from what calibrate.c timed and the rates of drive and memory.
 *
 * A unit (a layer, a block of the head) computes while the next one is being read, so each takes the longer of the two.
 * A prompt goes through in chunks, each of them one sweep; what stays in memory may arrive along with the first of them.
 *
 * Computing n tokens from position p on costs  fixed + n * each + n * visible * attention,  visible being the positions that a
 * token sees on average; the three constants follow from three timings.  One token has kernels of its own and two timings. */
#include "engine/forecast.h"

#include <math.h>
#include <stdio.h>

/* Positions that n tokens from pos on see on average. */
static double visible(uint32_t window, uint32_t n_tok, uint32_t pos)
{
    double seen = pos + (n_tok + 1) / 2.0;
    return window && seen > window ? window : seen;
}

static double not_less(double v, double bound)
{
    return v > bound ? v : bound;
}

static double one_token(const sl_costs *c, const sl_kind_cost *k, uint32_t pos)
{
    double near = visible(k->window, 1, 0), far = visible(k->window, 1, c->far_tok);
    if (far <= near) return k->one_s[0];
    double slope = not_less((k->one_s[1] - k->one_s[0]) / (far - near), 0);
    return k->one_s[0] + slope * (visible(k->window, 1, pos) - near);
}

double sl_kind_seconds(const sl_costs *c, const sl_kind_cost *k, uint32_t n_tok, uint32_t pos)
{
    if (n_tok == 1 || k->head) return one_token(c, k, pos);
    double few = c->few_tok, many = c->many_tok;
    double few_sees = visible(k->window, c->few_tok, 0), many_sees = visible(k->window, c->many_tok, 0);
    double far_sees = visible(k->window, c->few_tok, c->far_tok);
    double attention = far_sees > few_sees ? not_less((k->many_s[2] - k->many_s[0]) / (few * (far_sees - few_sees)), 0) : 0;
    double few_s = k->many_s[0] - attention * few * few_sees, many_s = k->many_s[1] - attention * many * many_sees;
    double each = many > few ? not_less((many_s - few_s) / (many - few), 0) : many_s / many;
    double n = n_tok;
    return not_less(many_s + (n - many) * each, 0) + attention * n * visible(k->window, n_tok, pos);
}

/* ---- sweeps ---- */

/* While a layer's missing experts are read, those that are there compute, but attention waits for nobody's reads: so much of
 * a layer's computing hides the reading of its experts. */
#define HIDES 0.5

typedef struct {
    double compute_s, wait_s; /* their sum is the time */
} sweep_time;

/* Bytes of routed experts that a sweep reads.  One token: what the hit rate leaves.  A chunk: each expert that some token
 * chose, as far as it has no slot; with k of n chosen at random, n * (1 - (1 - k / n)^tokens) of them are. */
static double expert_reads(const sl_plan *p, uint32_t n_tok)
{
    if (!p->expert_count) return 0;
    double token = (double)p->expert_token_bytes, all = token * p->expert_count / p->expert_useful_slots;
    if (n_tok == 1) return (1 - p->expert_hit_rate) * token;
    double chosen = 1 - pow(1 - (double)p->expert_useful_slots / p->expert_count, n_tok);
    return all * chosen * (1 - (double)p->expert_slots / p->expert_count);
}

/* arriving: bytes of all units that are read when a unit is first used: layers by the sweep from position 0, the head by the
 * first that has one. */
static sweep_time sweep(const sl_plan *p, const sl_costs *c, uint32_t n_tok, uint32_t pos, bool head, double arriving)
{
    sweep_time t = {0};
    double units = 0, layers = 0;
    for (uint32_t i = 0; i < c->n_kind; i++) units += c->kind[i].n, layers += c->kind[i].head ? 0 : c->kind[i].n;
    double stream = not_less((double)p->stream_bytes - expert_reads(p, 1), 0);
    double rate = p->drive_bytes_s;
    double read_s = rate > 0 && units > 0 ? stream / units / rate : 0;
    double arrive_s = rate > 0 && units > 0 ? arriving / units / rate : 0;
    double experts_s = p->drive_bytes_s > 0 && layers > 0 ? expert_reads(p, n_tok) / layers / p->drive_bytes_s : 0;
    for (uint32_t i = 0; i < c->n_kind; i++) {
        const sl_kind_cost *k = &c->kind[i];
        if (k->head && !head) continue;
        double s = sl_kind_seconds(c, k, n_tok, pos);
        t.compute_s += k->n * s;
        bool first = k->head || pos == 0;
        t.wait_s += k->n * not_less(read_s + (first ? arrive_s : 0) - s, 0);
        if (!k->head) t.wait_s += k->n * not_less(experts_s - HIDES * s, 0);
    }
    return t;
}

static sweep_time prompt(const sl_plan *p, const sl_costs *c, double arriving)
{
    sweep_time sum = {0};
    for (uint32_t pos = 0; pos < p->prompt_tok;) {
        uint32_t n = (uint32_t)sl_min_u64(p->prefill_chunk_tok, p->prompt_tok - pos);
        sweep_time t = sweep(p, c, n, pos, pos + n == p->prompt_tok, arriving);
        sum.compute_s += t.compute_s;
        sum.wait_s += t.wait_s;
        pos += n;
    }
    return sum;
}

/* What bounds decoding, and what is left of it when that is taken away. */
static const char *bound_of(const sl_plan *p, sweep_time t)
{
    double memory_s = p->memory_bytes_s > 0 ? (double)p->model_bytes / p->memory_bytes_s : 0;
    if (t.wait_s > (t.compute_s + t.wait_s) / 4) return "drive";
    return memory_s > t.compute_s / 2 ? "memory" : "compute";
}

/* Loading first, then a prompt (bench); or what stays arrives along with the prompt, all but experts that all fit (run). */
static void set_load(sl_plan *p, const sl_costs *c)
{
    if (p->drive_bytes_s <= 0) return;
    double before_s = c ? c->open_s : 0;
    if (p->expert_slots == p->expert_count) before_s += (double)p->expert_bytes / p->drive_bytes_s;
    p->load_s = before_s + (double)p->resident_bytes / p->drive_bytes_s;
    if (!c) return;
    sweep_time along = prompt(p, c, (double)p->resident_bytes);
    p->first_token_s = before_s + along.compute_s + along.wait_s;
}

void sl_forecast(sl_plan *p, const sl_costs *c)
{
    sweep_time first = prompt(p, c, 0), next = sweep(p, c, 1, p->prompt_tok + p->predict_tok / 2, true, 0);
    sweep_time full = sweep(p, c, 1, p->ctx_tok - 1, true, 0);
    if (p->stream_bytes && p->drive_bytes_s <= 0) return;
    p->prefill_compute_s = first.compute_s;
    p->prefill_wait_s = first.wait_s;
    p->decode_compute_s = next.compute_s;
    p->decode_wait_s = next.wait_s;
    p->prefill_tok_s = p->prompt_tok / (first.compute_s + first.wait_s);
    p->decode_tok_s = 1 / (next.compute_s + next.wait_s);
    p->decode_full_tok_s = 1 / (full.compute_s + full.wait_s);
    set_load(p, c);
    snprintf(p->limit, sizeof p->limit, "%s", bound_of(p, next));
}

/* A mixture in mapped memory, whose layers are not timed: decoding from the rates of drive and memory. */
void sl_forecast_mapped(sl_plan *p)
{
    if (p->memory_bytes_s <= 0 || (p->stream_bytes && p->drive_bytes_s <= 0)) return;
    sweep_time t = {.compute_s = (double)p->model_bytes / p->memory_bytes_s};
    double read_s = p->stream_bytes ? (double)p->stream_bytes / p->drive_bytes_s : 0;
    t.wait_s = not_less(read_s - HIDES * t.compute_s, 0);
    p->decode_compute_s = t.compute_s;
    p->decode_wait_s = t.wait_s;
    p->decode_tok_s = 1 / (t.compute_s + t.wait_s);
    set_load(p, NULL);
    snprintf(p->limit, sizeof p->limit, "%s", bound_of(p, t));
}
