/* Private to the room: the layout of units on disk and in memory, and the state of a residency.
 *
 * Reading order: extents.c (ranges of rows become reads), plan.c (how many bytes stay), open.c (what a plan takes),
 * resident.c (the part that stays), arrival.c (how it gets there), windows.c (the part that passes through), sweep.c (the
 * protocol), drive.c (reads that need a push), table.c (rows of the embedding table). */
#ifndef SL_STREAM_INT_H
#define SL_STREAM_INT_H

#include "stream/stream.h"
#include "os/mem.h"

enum {
    SL_PAGE_BYTES = 4096,            /* blocks of memory are whole pages */
    SL_LINE_BYTES = 64,              /* least alignment, so that kernels find tensors as aligned as the file has them */
    SL_STREAM_GAP_BYTES = 64 * 1024, /* reading over a gap this size costs less than another request */
    SL_KEEP_GAP_BYTES = 4096,        /* a gap inside resident memory is lost for good, so only a page of it */
};

/* Rows of one tensor that belong to a unit.  A prefix of keep bytes stays, the rest is streamed. */
typedef struct {
    uint64_t offset, bytes; /* in the file */
    uint64_t row_bytes;
    uint64_t keep;      /* bytes, whole rows */
    uint64_t keep_at;   /* where the kept part lies in the resident block */
    uint64_t stream_at; /* where the streamed part lies in a window */
    uint32_t file;
    uint32_t entry; /* index into the unit's rows, as the caller ordered them */
} sl_range;

/* One read.  offset, bytes and at are multiples of the alignment, so memory keeps the file offset modulo it. */
typedef struct {
    uint64_t offset, bytes; /* in the file, aligned outward */
    uint64_t need;          /* bytes from offset that must arrive; the rest is alignment, perhaps beyond the end */
    uint64_t at;            /* in the memory it is read into */
    uint32_t file;
    uint32_t lead; /* bytes from offset that are alignment only */
} sl_extent;

/* What the units look like on disk.  ranges are grouped by unit and in file order within a unit; the table, when there
 * is one, is one more range at the end. */
typedef struct {
    sl_residency_options opt;
    uint32_t align;
    uint32_t n_range;
    sl_range *ranges;    /* [n_range] */
    uint32_t *first;     /* [n_unit + 1]: first range of each unit */
    uint32_t *order;     /* [n_range]: all ranges by file and offset */
    uint64_t largest[4]; /* bytes of the largest units, descending */
    uint64_t unit_bytes;
    uint64_t stage_row_bytes, stage_bytes; /* of one table row read by itself, of the whole staging area */
    bool tied;                             /* every row of the table is part of some unit */
} sl_layout;

/* A decision: which bytes stay. */
typedef struct {
    uint64_t t;        /* every unit streams at most t bytes ... */
    uint32_t n_less;   /* ... and the units before this one at most t - 1 */
    uint32_t n_window; /* at most */
    bool table;        /* an untied table stays */
} sl_cut;

/* What a decision costs. */
typedef struct {
    uint64_t resident, window, staging, total; /* memory; window is one of n_window */
    uint64_t stream;                           /* bytes of all units' reads */
    uint32_t n_stream, n_window;               /* units that have such reads; windows they get */
} sl_cost;

sl_status sl_layout_open(sl_layout *l, const sl_residency_options *opt, sl_err *err);
void sl_layout_close(sl_layout *l); /* takes a zeroed struct */
/* Sets keep of every range. */
void sl_layout_cut(sl_layout *l, const sl_cut *cut);
void sl_layout_cost(const sl_layout *l, const sl_cut *cut, sl_cost *out);
/* The reads of the resident set and of one unit's streamed part, after a cut.  out may be NULL to count.
 * returns their number; *bytes is the memory they fill */
uint32_t sl_layout_resident(const sl_layout *l, sl_extent *out, uint64_t *bytes);
uint32_t sl_layout_unit(const sl_layout *l, uint32_t unit, sl_extent *out, uint64_t *bytes);
/* The extent that holds [offset, offset + bytes); NULL: none.  extents are sorted by file and offset. */
const sl_extent *sl_extent_find(const sl_extent *extents, uint32_t n, uint32_t file, uint64_t offset, uint64_t bytes);
static inline bool sl_layout_is_cache(const sl_layout *l)
{
    return l->opt.policy == SL_POLICY_LRU || l->opt.policy == SL_POLICY_FIFO;
}

/* Decides for avail_bytes and leaves the layout cut that way.  When nothing fits, the cut is the cheapest one.
 * returns the bytes of one window */
uint64_t sl_plan_choose(sl_layout *l, uint64_t avail_bytes, sl_residency_plan *plan);

#define SL_NO_UNIT UINT32_MAX
typedef enum { SL_WINDOW_EMPTY, SL_WINDOW_READING, SL_WINDOW_READY } sl_window_state;

/* A window (pin) or slot (lru, fifo): memory for the streamed part of any one unit. */
typedef struct {
    sl_window_state state;
    uint32_t unit;   /* SL_NO_UNIT when empty */
    uint32_t n_user; /* acquired positions that use it */
    bool fresh;      /* read since it was last acquired */
    uint64_t stamp;  /* lru: last acquired; fifo: read */
    uint8_t *mem;    /* NULL with views */
    sl_io_req *reqs; /* one per extent of the unit */
} sl_window;

typedef struct {
    uint32_t unit;
    bool held; /* acquired and not released */
} sl_step;

#define SL_NO_PIECE UINT32_MAX
enum {
    SL_ARRIVAL_BYTES = 4 * 1024 * 1024, /* of a piece: progress and cancellation are this fine; the reader cuts it further */
    SL_ARRIVAL_DEPTH = 16,              /* pieces under way */
};

/* The resident set on its way into memory. */
typedef struct {
    uint32_t *first; /* [n_keep + 1]: first piece of each extent */
    uint8_t *state;  /* [pieces] missing, coming, here */
    uint32_t n_missing; /* not here */
    bool all_sent;      /* nothing is missing of the units still to come in this sweep */
    sl_io_req reqs[SL_ARRIVAL_DEPTH];
    uint32_t piece[SL_ARRIVAL_DEPTH]; /* that a request reads; SL_NO_PIECE: it is idle */
    uint32_t n_sent;
    uint64_t done_bytes, total_bytes;
    double start_s, told_s;
    sl_progress_fn progress;
    void *user;
} sl_arrival;

struct sl_residency {
    sl_layout layout;
    sl_residency_plan plan;
    sl_io *io;
    sl_ledger *ledger;
    sl_block resident, moving;               /* moving: windows, then staging */
    uint64_t ledger_resident, ledger_moving; /* with views: entered without a block */
    uint64_t window_bytes;                   /* of one */
    uint8_t *stage;                          /* NULL: the plan has no staging */

    sl_extent *keep; /* [n_keep] the resident set, by file and offset */
    uint32_t n_keep;
    bool loaded; /* or, with load_late, to be loaded by whoever needs it */
    sl_arrival arrival;
    sl_extent *stream;      /* reads of all units, one after the other */
    uint32_t *stream_first; /* [n_unit + 1] */

    sl_window *windows; /* [plan.n_window] */
    sl_io_req *reqs;    /* [plan.n_window][max_extent] */
    sl_io_req **batch;  /* [max_extent] */
    uint32_t max_extent;
    uint32_t *wanted; /* [plan.n_window + 1]: units to hold, soonest first, acquired ones before them */
    uint32_t n_wanted;
    uint64_t clock;

    sl_step *steps;                 /* the sequence under way */
    uint32_t n_step, cap_step, pos; /* pos: next to acquire */
    uint32_t n_held;
    bool active, again;

    void (*hook)(void *user, uint32_t unit);
    void *hook_user;
    sl_residency_stats stats;
};

/* Memory that holds [offset, offset + bytes) of a file for good; NULL: none does.  It may still be on its way. */
const uint8_t *sl_resident_find(const sl_residency *r, uint32_t file, uint64_t offset, uint64_t bytes);

sl_status sl_arrival_open(sl_residency *r, sl_err *err); /* after the list of extents */
void sl_arrival_close(sl_residency *r);
sl_status sl_arrival_all(sl_residency *r, const volatile bool *cancel, sl_err *err); /* reads the whole set */
/* Starts reading what is missing of a unit's resident part; makes it be there. */
sl_status sl_arrival_start(sl_residency *r, uint32_t unit, sl_err *err);
sl_status sl_arrival_wait(sl_residency *r, uint32_t unit, sl_err *err);
/* The same for rows that stay, by their place in a file: wait or only start. */
sl_status sl_arrival_rows(sl_residency *r, uint32_t file, uint64_t offset, uint64_t bytes, bool wait, sl_err *err);
/* Starts as many reads as there is room for: of one unit, of all units still to come.  Never waits; errors are left to
 * whoever needs the bytes. */
void sl_arrival_ahead(sl_residency *r, uint32_t unit);
void sl_arrival_read_ahead(sl_residency *r);
bool sl_arrival_has(const sl_residency *r, const sl_range *g); /* is all that stays of a range here? */
void sl_arrival_settle(sl_residency *r); /* waits for what is under way */
void sl_arrival_tell(sl_arrival *a, bool last);

static inline bool sl_unit_streams(const sl_residency *r, uint32_t unit)
{
    return r->stream_first[unit + 1] > r->stream_first[unit];
}
/* NULL: the unit is in no window. */
sl_window *sl_window_find(const sl_residency *r, uint32_t unit);
/* Gives the unit a window and starts its reads; waits for a window that is being read for nothing. */
sl_status sl_window_demand(sl_residency *r, uint32_t unit, sl_window **out, sl_err *err);
/* Starts reads of the units to come, as many as have a window; never waits, and leaves errors to whoever acquires. */
void sl_window_read_ahead(sl_residency *r);
/* Waits until the window's reads are done.  A failed one leaves it empty. */
sl_status sl_window_wait(sl_residency *r, sl_window *w, sl_err *err);
/* The last user has gone: with views, pages that are not wanted soon are given back. */
void sl_window_idle(sl_residency *r, sl_window *w);

/* Waits for every request that was accepted, result ignored: after a failed submit. */
void sl_stream_settle(sl_io *io, sl_io_req *const *reqs, size_t n);

#endif
