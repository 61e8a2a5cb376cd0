/* Where a mixture-of-experts block gets its experts' matrices from.  The block (model/moe.c) asks for the experts of one
 * layer, takes them in whatever order and in as many waves as the source hands them out, and says when it is done with
 * each.  It sums outputs in routing order, so the order of arrival never shows.
 *
 * Two kinds: sl_expert_whole (below), for experts that are part of their layer's unit; and a cache of slots.
 *
 * One layer, one chunk of tokens:
 *
 *     begin(layer, ids, n)                      reads of all that is missing start
 *     repeat  next(out, max, &n)                waits until at least one expert's gate and up are usable
 *             ... gate and up products ...
 *             down(e)                           waits until e's down is usable too
 *             ... down product ...
 *             done(e)                           e's memory may be used for another
 *     until n == 0                              all of the n ids were handed out
 *     end()                                     also after a failure: nothing stays held
 *
 * The block never holds more than it was handed, so a source with fewer slots than ids makes waves. */
#ifndef SL_EXPERT_SOURCE_H
#define SL_EXPERT_SOURCE_H

#include "stream/stream.h"

/* ---- where experts lie on disk ---- */

/* How the matrices of one expert are stored. */
typedef enum {
    SL_EXPERT_SEPARATE,    /* gate, up, down */
    SL_EXPERT_GATE_UP,     /* gate's rows, then up's, in one matrix of 2 n_ff rows; down */
    SL_EXPERT_INTERLEAVED, /* the same with gate in even rows and up in odd ones; down */
    SL_EXPERT_TURNED,      /* all transposed: [n_embd][gate and up by turns], [n_ff][n_embd] (floats, gpt-oss) */
    SL_EXPERT_MXFP4_APART, /* interleaved: codes and scales of gate and up, codes and scales of down (bytes, gpt-oss) */
} sl_expert_form;

enum { SL_EXPERT_MAX_PIECE = 4, SL_MAX_EXPERT = 1024 };

/* One piece of every expert of a layer: a stack, or a tensor each. */
typedef struct {
    const sl_tensor *stack;       /* [n_expert][n_row][n_in]; NULL: a tensor each */
    const sl_tensor *const *each; /* [n_expert] of [n_row][n_in] */
    uint32_t n_in, n_row;         /* of one expert, as it lies */
} sl_expert_piece;

/* The experts of one layer.  Pieces stand in the order in which they are needed: down is the last. */
typedef struct {
    sl_expert_form form;
    uint32_t n_expert; /* 0: the layer has none */
    uint32_t n_piece;  /* 3, 2, 2, 2 or 4, by form */
    sl_expert_piece piece[SL_EXPERT_MAX_PIECE];
} sl_expert_layer;

static inline sl_unit_rows sl_expert_rows(const sl_expert_layer *l, uint32_t expert, uint32_t i_piece)
{
    const sl_expert_piece *p = &l->piece[i_piece];
    if (p->stack) return (sl_unit_rows){p->stack, p->n_in, expert * p->n_row, p->n_row};
    return (sl_unit_rows){p->each[expert], p->n_in, 0, p->n_row};
}

/* ---- what a source hands out ---- */

typedef struct {
    uint32_t id;
    sl_matrix gate, up, down; /* [n_ff][n_embd] twice, [n_embd][n_ff]; down not before down() */
    sl_matrix gate_scales, up_scales, down_scales; /* where they lie apart; n_part 0: nowhere */
    void *slot;               /* the source's own */
} sl_expert;

/* Points the matrices at their scales: after the last copy of e, before its matrices are used. */
static inline void sl_expert_link(sl_expert *e)
{
    e->gate.scales = e->gate_scales.n_part ? &e->gate_scales : NULL;
    e->up.scales = e->up_scales.n_part ? &e->up_scales : NULL;
    e->down.scales = e->down_scales.n_part ? &e->down_scales : NULL;
}

/* Rows first, first + step, ... of m, n of them, as a matrix of its own. */
sl_matrix sl_matrix_rows(const sl_matrix *m, uint32_t first, uint32_t n, uint32_t step);
/* Its columns, likewise, as the outputs of a matrix that lies transposed. */
sl_matrix sl_matrix_columns(const sl_matrix *m, uint32_t first, uint32_t n, uint32_t step);

/* gate, up and down from an expert's pieces in memory [n_piece] (each whole, in one or two parts). */
void sl_expert_views(const sl_expert_layer *l, const sl_matrix *pieces, sl_expert *e);

typedef struct sl_expert_source sl_expert_source;

typedef struct {
    /* ids [n]: distinct, ascending, below the layer's n_expert.  One layer at a time. */
    sl_status (*begin)(sl_expert_source *s, uint32_t layer, const uint32_t *ids, uint32_t n, sl_err *err);
    /* At most max experts, at least one unless all were handed out (*n = 0).  May hand out as few as it likes; may wait
     * for experts that the block holds only if it has handed out none of them since. */
    sl_status (*next)(sl_expert_source *s, sl_expert *out, uint32_t max, uint32_t *n, sl_err *err);
    sl_status (*down)(sl_expert_source *s, sl_expert *e, sl_err *err);
    void (*done)(sl_expert_source *s, sl_expert *e);
    void (*end)(sl_expert_source *s);

    /* The rest may be NULL. */
    /* Called now and then while computing; never blocks. */
    void (*drive)(sl_expert_source *s);
    /* Is it worth predicting what layer will need, to read it ahead?  Between begin and end of the layer before. */
    bool (*wants)(sl_expert_source *s, uint32_t layer);
    /* What layer will probably need, ids [n] likeliest first. */
    void (*ahead)(sl_expert_source *s, uint32_t layer, const uint32_t *ids, uint32_t n);
} sl_expert_source_ops;

/* The head of every source. */
struct sl_expert_source {
    const sl_expert_source_ops *ops;
};

/* ---- experts that came with their layer's unit ---- */

typedef struct {
    sl_expert_source base;
    const sl_expert_layer *layer;
    const sl_matrix *views; /* the unit's views from its first expert on: per piece one matrix of a stack, or
                             * [n_expert] of a tensor each */
    const uint32_t *ids;    /* of begin */
    uint32_t n, next;
} sl_expert_whole;

/* Number of rows entries that a layer's experts take in its unit, and entry i of them. */
uint32_t sl_expert_unit_count(const sl_expert_layer *l);
sl_unit_rows sl_expert_unit_rows(const sl_expert_layer *l, uint32_t i);
void sl_expert_whole_init(sl_expert_whole *w, const sl_expert_layer *l, const sl_matrix *views);

#endif
