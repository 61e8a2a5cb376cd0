/* Private to the cache of routed experts.
 *
 * Reading order: experts_plan.c (an expert on disk and in a slot; how many slots), experts_open.c (memory), experts_slots.c
 * (who lies where, LRU, reads of a slot), experts_demand.c (the source: begin, next, down, done, end), experts_ahead.c
 * (what is read before anybody asks: predictions, warm start, whole layers), experts_use.c (use counts, hot experts). */
#ifndef SL_EXPERTS_INT_H
#define SL_EXPERTS_INT_H

#include "os/mem.h"
#include "stream/experts.h"

#include <string.h>

enum {
    SL_EXPERTS_MAX_CLASS = 8,
    SL_EXPERTS_MAX_AHEAD = 64, /* ids of a token that HISTORY remembers */
};
#define SL_NO_SLOT UINT32_MAX
#define SL_NO_KEY  UINT32_MAX

/* ---- on disk and in a slot ---- */

/* One read of an expert: one piece, or small neighbours together. */
typedef struct {
    uint64_t offset, bytes, need; /* aligned outward; need: from offset to the last byte wanted */
    uint64_t at;                  /* in the slot */
    uint32_t file;
} sl_expert_read;

typedef struct {
    uint32_t n_read;
    sl_expert_read reads[SL_EXPERT_MAX_PIECE]; /* in the order of need */
    uint64_t at[SL_EXPERT_MAX_PIECE];          /* of each piece in the slot */
    uint8_t read_of[SL_EXPERT_MAX_PIECE];      /* which read brings it */
    uint64_t bytes;                            /* of the slot */
} sl_expert_place;
void sl_expert_place_of(const sl_expert_layer *l, uint32_t expert, uint32_t align, sl_expert_place *out);
uint64_t sl_expert_bytes(const sl_expert_layer *l, uint32_t expert); /* as in the file */

/* ---- size classes ---- */

typedef struct {
    uint64_t slot_bytes;
    uint32_t n_layer, n_expert; /* that use the class */
} sl_experts_class;

typedef struct {
    sl_experts_options opt;
    uint32_t align, width; /* width: experts of the widest layer */
    uint32_t n_class, n_expert;
    uint64_t expert_bytes, token_bytes;
    uint8_t *class_of; /* [n_layer] */
    sl_experts_class classes[SL_EXPERTS_MAX_CLASS];
} sl_experts_layout;
sl_status sl_experts_layout_open(sl_experts_layout *l, const sl_experts_options *opt, sl_err *err);
void sl_experts_layout_close(sl_experts_layout *l); /* takes a zeroed struct */
/* Bookkeeping of n_slot slots, in whole pages. */
uint64_t sl_experts_book_bytes(const sl_experts_layout *l, uint32_t n_slot);
/* The largest number of slots whose memory is within avail_bytes, into n_slot [n_class]; the least when none is. */
void sl_experts_choose(const sl_experts_layout *l, uint64_t avail_bytes, sl_experts_plan *plan, uint32_t *n_slot);

/* ---- state ---- */

typedef enum { SL_SLOT_EMPTY, SL_SLOT_READING, SL_SLOT_READY } sl_slot_state;
typedef enum { SL_AHEAD_NO, SL_AHEAD_PREDICTED, SL_AHEAD_WARM, SL_AHEAD_LAYER } sl_ahead;

typedef struct {
    uint32_t key; /* layer * width + expert; SL_NO_KEY when empty */
    uint32_t newer, older; /* in the LRU list of its class, while listed */
    uint32_t n_pin;
    uint32_t reading_at; /* index in x->reading, while reading */
    uint8_t state, ahead; /* ahead: read before anybody asked, and not used yet */
    uint8_t i_class;
    bool listed;          /* hot slots are not */
    bool sent;            /* its requests were submitted */
    bool background;      /* nobody has asked for it yet */
    bool dropped;         /* its reads are being given up */
    uint8_t n_read, arrived; /* requests; bit mask of those that were waited for */
    uint8_t read_of[SL_EXPERT_MAX_PIECE];
    uint64_t at[SL_EXPERT_MAX_PIECE];
    uint64_t read_bytes;  /* of its requests */
    double issued_s;
    uint8_t *mem; /* NULL with views */
    sl_io_req reqs[SL_EXPERT_MAX_PIECE];
} sl_slot;

/* A class at run time: a list from the newest to the oldest.  Empty slots stand at its old end. */
typedef struct {
    uint32_t newest, oldest;
    uint32_t first_slot, n_slot;
    uint32_t n_pinned, n_ahead; /* n_ahead: slots with ahead set to PREDICTED */
} sl_slot_list;

typedef enum { SL_DEMAND_WAITS, SL_DEMAND_HAS_SLOT, SL_DEMAND_OUT, SL_DEMAND_DONE } sl_demand_state;
typedef struct {
    uint32_t id, slot;
    uint8_t state;
} sl_demand;

typedef struct {
    uint64_t bits[SL_MAX_EXPERT / 64];
} sl_expert_set;

/* How well a layer was predicted of late. */
typedef struct {
    sl_expert_set named; /* by the last prediction; empty: there was none, or it has been judged */
    uint16_t n;          /* of them */
    uint16_t n_before, before[SL_EXPERTS_MAX_AHEAD]; /* what the layer used for the token before */
    float worth;                                     /* part of what was read ahead that was used, smoothed */
    uint32_t off_until;                              /* sweep at which it is tried again */
} sl_layer_forecast;

struct sl_experts {
    sl_expert_source source; /* first */
    sl_experts_layout layout;
    sl_experts_plan plan;
    sl_io *io;
    sl_ledger *ledger;
    sl_block slots_block, book;
    uint64_t ledger_views; /* with views: entered without a block */
    bool loaded;

    sl_slot *slots;               /* [n_slot] */
    sl_slot_list lists[SL_EXPERTS_MAX_CLASS];
    uint32_t *slot_of;            /* [n_layer * width] */
    uint32_t *reading, n_reading; /* [n_slot] slots with reads under way */
    uint32_t n_reading_demand;

    /* the layer in demand */
    uint32_t layer;
    sl_demand *demand;  /* [width] */
    uint32_t n_demand, n_waiting, n_left; /* without a slot; not handed out */
    sl_io_req **batch;  /* [width * SL_EXPERT_MAX_PIECE] */
    bool active;

    /* use */
    float *counts;    /* [n_layer * width] */
    float *sorted;    /* [width] */
    bool *hot;        /* [n_layer * width] */
    uint32_t *layer_slots; /* [n_layer] slots that hold its experts */
    uint32_t *warm;   /* [n_layer * width] keys, most used first */
    uint32_t n_warm, i_warm;
    uint32_t sweep, sweep_tok;
    sl_experts_path path; /* of this sweep */
    sl_layer_forecast *forecasts; /* [n_layer] */
    double busy_from_s, demand_from_s; /* when reads began to be under way */
    double sweep_from_s, sweep_busy_s; /* this sweep's time with demand reads under way */
    float busy_part;                   /* of the sweeps lately, smoothed */
    bool busy_known;

    void (*hook)(void *user, uint32_t layer, const uint32_t *ids, uint32_t n);
    void *hook_user;
    sl_experts_stats stats;
};

extern const sl_expert_source_ops sl_experts_source_ops; /* experts_demand.c */

/* ---- slots (experts_slots.c) ---- */

static inline uint32_t sl_expert_key(const sl_experts *x, uint32_t layer, uint32_t expert)
{
    return layer * x->layout.width + expert;
}
static inline sl_slot_list *sl_experts_list(sl_experts *x, uint32_t layer)
{
    return &x->lists[x->layout.class_of[layer]];
}
void sl_slot_link_newest(sl_experts *x, sl_slot *s);
void sl_slot_link_oldest(sl_experts *x, sl_slot *s);
void sl_slot_unlink(sl_experts *x, sl_slot *s);
void sl_slot_touch(sl_experts *x, sl_slot *s); /* becomes the newest */
void sl_slot_pin(sl_experts *x, sl_slot *s);
void sl_slot_unpin(sl_experts *x, sl_slot *s);
/* A slot for an expert of layer, emptied; NULL: none.  ahead: only one that nobody needs now, without waiting. */
sl_slot *sl_slot_take(sl_experts *x, uint32_t layer, bool ahead);
/* Gives an empty slot its expert and fills its requests, which the caller submits (adds them to batch, *n_batch). */
void sl_slot_assign(sl_experts *x, sl_slot *s, uint32_t layer, uint32_t expert, bool background, sl_io_req **batch,
                    uint32_t *n_batch);
/* Submits; on failure all slots of the batch are empty again. */
sl_status sl_slots_submit(sl_experts *x, sl_io_req **batch, uint32_t n_batch, sl_err *err);
/* Are the first n_piece pieces there, as far as can be told without waiting? */
bool sl_slot_has(sl_experts *x, const sl_slot *s, uint32_t n_piece);
/* Waits for the first n_piece pieces; a failed read leaves the slot empty and unpinned. */
sl_status sl_slot_wait(sl_experts *x, sl_slot *s, uint32_t n_piece, sl_err *err);
/* Takes note of reads that have ended, of slots that nobody has pinned. */
void sl_slots_reap(sl_experts *x);
/* Somebody asks for what was read in the background. */
void sl_slot_hurry(sl_experts *x, sl_slot *s);
/* What was read ahead is of no use: reads that have not begun are given up, the slot is the first to go. */
void sl_slot_discard(sl_experts *x, sl_slot *s);
/* Empties a slot: waits for its reads, gives up those that have not begun. */
void sl_slot_empty(sl_experts *x, sl_slot *s);
void sl_slot_set_ahead(sl_experts *x, sl_slot *s, sl_ahead ahead);
/* Matrices of a slot whose pieces are there. */
sl_status sl_slot_views(sl_experts *x, const sl_slot *s, sl_matrix *pieces, sl_err *err);

static inline bool sl_expert_set_has(const sl_expert_set *s, uint32_t id)
{
    return s->bits[id / 64] >> id % 64 & 1;
}
sl_expert_set sl_expert_set_of(const uint32_t *ids, uint32_t n, uint32_t n_expert); /* ids below n_expert alone */

/* ---- ahead (experts_ahead.c) ---- */

/* begin() has the layer's ids: what was predicted is compared, what was not used is the first to go. */
void sl_experts_judge(sl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n);
void sl_experts_count_used(sl_experts *x, sl_slot *s); /* in demand for the first time since it was read ahead */
void sl_experts_read_on(sl_experts *x, uint32_t layer);  /* HISTORY's next layer, LAYER's other experts */

/* ---- use (experts_use.c) ---- */

void sl_experts_note_use(sl_experts *x, uint32_t key);
/* The n of each layer that were used most of late are hot from now on (as many as leave room for others). */
void sl_experts_choose_hot(sl_experts *x, uint32_t n);
void sl_experts_release_hot(sl_experts *x);
uint32_t sl_experts_quota(const sl_experts *x, uint32_t layer); /* STAGED: slots that a layer keeps to itself */

#endif
