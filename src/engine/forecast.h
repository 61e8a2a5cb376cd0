/* Inside the room: what a step costs (calibrate.c measures it) and what follows from that (forecast.c computes it). */
#ifndef SL_FORECAST_H
#define SL_FORECAST_H

#include "engine/engine_int.h"

enum { SL_MAX_KIND = 8 };

/* Units that cost the same: layers with the same types and shapes and the same attention window, or the head. */
typedef struct {
    double n;        /* so many of them in a sweep; a part of one where a unit differs only in size */
    uint64_t bytes;  /* of one */
    uint32_t window; /* of its attention, 0: full */
    bool head;       /* runs for one token of a chunk only */
    double one_s[2];  /* seconds for one token: at position 0, at costs.far_tok */
    double many_s[3]; /* seconds for costs.few_tok tokens at 0, many_tok at 0, few_tok at far_tok */
} sl_kind_cost;

typedef struct {
    sl_kind_cost kind[SL_MAX_KIND + 1];
    uint32_t n_kind;
    double open_s;        /* headers and tokenizer */
    uint32_t few_tok, many_tok, far_tok; /* few == many: only that number was timed; far 0: only position 0 */
} sl_costs;

/* Times the sample's units: about a second without reading a weight.  Memory is entered in a ledger of the plan's budget and
 * given back.
 * errors  as sl_engine_open */
sl_status sl_costs_measure(sl_costs *out, const sl_parts *p, const sl_engine_options *opt, const sl_plan *plan, sl_io *io,
                           sl_err *err);

/* Seconds of computing a unit for n tokens from position pos on. */
double sl_kind_seconds(const sl_costs *c, const sl_kind_cost *k, uint32_t n_tok, uint32_t pos);

/* Fills the forecast of a plan whose split and whose drive and memory rates are filled in: a prompt of plan->prompt_tok, then
 * plan->predict_tok tokens one by one. */
void sl_forecast(sl_plan *plan, const sl_costs *c);
/* The same for a mixture in mapped memory, without timing its layers. */
void sl_forecast_mapped(sl_plan *plan);

#endif
