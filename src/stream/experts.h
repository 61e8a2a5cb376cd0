/* The cache of routed experts: fixed slots, one global LRU, reads that are deep and overlap computing.
 *
 * All slots are taken at the start and never grow; each holds one (layer, expert), whatever the layer.  Layers whose experts
 * differ much in size (mixed quantisation) have slots of their own size class.  The cache is an expert source
 * (expert_source.h): begin() looks up the experts that a layer needs for its chunk, pins those that are there and starts
 * the reads of all others at once; next() hands out whatever has arrived; done() unpins.  When there are fewer slots than
 * experts in demand, they come in waves, each expert read once.  With one slot everything still works, one expert at a
 * time.  A miss is always loaded, never left out; a failed read ends the request and leaves the slot empty.
 *
 * One thread at a time uses it.  Nothing is allocated after open. */
#ifndef SL_EXPERTS_H
#define SL_EXPERTS_H

#include "base/ledger.h"
#include "os/io.h"
#include "stream/expert_source.h"

/* Paths (sl_experts_path; docs/experts.md).  All give the same tokens: a path decides when bytes are read, never what is
 * computed.
 *   EXACT   one LRU over all slots, reads on demand
 *   STAGED  each layer has staged_n slots of its own, twice (one set in use, one being filled with what is predicted)
 *   HOT     the hot_per_layer experts most used lately of each layer stay; the other slots are EXACT's
 *   LAYER   a layer is read whole, in file order, as far as slots reach
 * Predictions (sl_predict).  HISTORY: the experts that a layer used for the token before.  LOOKAHEAD: whatever the caller
 * predicts (the next layer's router on this layer's state). */

typedef struct {
    const sl_expert_layer *layers; /* [n_layer], borrowed until close */
    uint32_t n_layer;
    uint32_t top_k; /* experts of one token in one layer */
    uint32_t align; /* of direct reads: sl_io.align, or 4096 when planning without a file open */
    bool views;     /* the read method gives views (mmap, memory): slots have no memory of their own */

    sl_expert_options how;
} sl_experts_options;

/* Pure arithmetic: how avail_bytes would be used. */
typedef struct {
    bool fits;
    bool resident;         /* every expert has a slot: all are read at load, none later */
    uint64_t minimum_bytes; /* one slot of each class */
    uint64_t least_bytes;   /* two layers' worth of one token: with fewer, reads can't run ahead of computing */
    uint64_t useful_bytes; /* slots for all experts of one token: with fewer, an LRU gives no hit */
    uint64_t full_bytes;   /* more than this is useless */
    uint64_t total_bytes;  /* slots and bookkeeping */
    uint64_t slot_bytes;   /* of the largest class */
    uint64_t expert_bytes; /* sum over all experts, as in the file */
    uint32_t n_expert;     /* in all layers */
    uint32_t n_slot, n_class;
    uint32_t useful_slots; /* layers with experts x top_k */
    uint64_t token_bytes;  /* of one token's experts */
} sl_experts_plan;
/* errors  NOMEM; FORMAT: experts of a layer that are larger than 2^40 bytes */
sl_status sl_experts_plan_for(const sl_experts_options *opt, uint64_t avail_bytes, sl_experts_plan *out, sl_err *err);
/* Decode hit rate to expect of an LRU that holds this part of all experts, from published traces of real models
 * (docs/experts.md); 0 below one token's experts. */
double sl_experts_hit_rate(const sl_experts_plan *p);

typedef struct sl_experts sl_experts;

/* Takes memory for avail_bytes (ledger kind EXPERTS).  errors BUDGET when it does not fit, NOMEM. */
sl_status sl_experts_open(sl_experts **out, const sl_experts_options *opt, uint64_t avail_bytes, sl_io *io,
                          sl_ledger *ledger, sl_err *err);
/* Reads all experts when the plan is resident, else nothing.  cancel (may be NULL) is polled between reads. */
sl_status sl_experts_load(sl_experts *x, const volatile bool *cancel, sl_progress_fn progress, void *user, sl_err *err);
void sl_experts_close(sl_experts *x); /* waits for reads under way */

/* The source to hand to the block that computes; as long as x lives. */
sl_expert_source *sl_experts_source(sl_experts *x);

/* What runs: AUTO resolved. */
sl_experts_path sl_experts_get_path(const sl_experts *x);
sl_predict sl_experts_get_predict(const sl_experts *x);

/* A sweep of n_tok tokens begins: use counts decay, a prompt's path may differ, predictions are for n_tok 1 only. */
void sl_experts_sweep(sl_experts *x, uint32_t n_tok);
/* Is a prediction for this layer wanted now?  False when prediction is off, has proved useless for the layer, or the
 * drive has no time to spare: then it need not be computed. */
bool sl_experts_wants(const sl_experts *x, uint32_t layer);
/* Reads ahead what layer will probably need, ids [n] most likely first: misses only, behind all demand reads, at most as
 * many as the cap allows, into slots that nobody needs now.  Never waits; errors are left to the demand. */
void sl_experts_prefetch(sl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n);
/* Called now and then while computing: starts queued reads that the reader can't start by itself, and reads the warm
 * start's experts while the drive has nothing else to do.  Never blocks. */
void sl_experts_drive(sl_experts *x);
/* Gives up what was read ahead and waits for what is under way (before an idle time, and before the reader is closed). */
void sl_experts_quiesce(sl_experts *x);

/* ---- use counts, for the warm start ---- */

/* counts [n_layer][sl_experts_width()]: decayed uses. */
uint32_t sl_experts_width(const sl_experts *x); /* experts of the widest layer */
const float *sl_experts_counts(const sl_experts *x);
/* Takes counts of an earlier run (same shape) and will read the most used experts into empty slots, when the drive is
 * idle.  Nothing when everything is resident. */
void sl_experts_warm(sl_experts *x, const float *counts);

/* What earlier runs of a model have learned: how often its experts were used, and which part of them was found in so many
 * slots.  A small file, replaced as a whole. */
enum { SL_EXPERTS_POINTS = 12 };
typedef struct {
    uint64_t identity; /* of the model's files */
    uint32_t n_layer, width;
    float *counts; /* [n_layer][width], owned */
    uint32_t n_point;
    struct {
        uint32_t n_slot;
        float hit_rate;
    } points[SL_EXPERTS_POINTS];
} sl_experts_record;
/* errors  IO: there is none, or it cannot be read; FORMAT: it is damaged, or of another model or shape */
sl_status sl_experts_record_load(sl_experts_record *r, const char *path, uint64_t identity, uint32_t n_layer,
                                 uint32_t width, sl_err *err);
/* Adds what x has seen (its counts; its hit rate, when it has decoded enough to say) to what r has, and writes it. */
sl_status sl_experts_record_save(sl_experts_record *r, const sl_experts *x, const char *path, sl_err *err);
void sl_experts_record_close(sl_experts_record *r); /* takes a zeroed struct */
/* The hit rate to expect: r's own, or where it has none near, the published curve set right by r's nearest point.
 * r may be NULL. */
double sl_experts_expect(const sl_experts_plan *p, const sl_experts_record *r);

/* Called at each begin(): what the router chose.  NULL: none. */
void sl_experts_set_hook(sl_experts *x, void (*hook)(void *user, uint32_t layer, const uint32_t *ids, uint32_t n),
                         void *user);

typedef struct {
    uint64_t hits, misses; /* experts in demand that were in memory; that had to be read, on demand or by a prediction */
    uint64_t decode_hits, decode_misses; /* of these, in sweeps of one token */
    uint64_t evictions, failed;
    uint64_t demand_bytes;              /* read for misses */
    uint64_t prefetch_issued, prefetch_bytes;
    uint64_t prefetch_used, prefetch_wasted, wasted_bytes; /* wasted: evicted or given up before any use */
    uint64_t warm_issued, warm_bytes;
    uint64_t predicted, routed, predicted_right; /* where a prediction was made: its size, the demand, what both name */
    uint64_t waves;                                        /* begin() calls that had fewer slots than misses */
    double wait_s;                                         /* spent waiting for bytes */
    double hidden_s;                                       /* waiting that reading ahead has saved: an estimate */
    double busy_s;                                         /* with reads under way */
    bool huge;
} sl_experts_stats;
void sl_experts_get_stats(const sl_experts *x, sl_experts_stats *out);
void sl_experts_get_plan(const sl_experts *x, sl_experts_plan *out);
uint32_t sl_experts_pinned_count(const sl_experts *x); /* zero between layers */

#endif
