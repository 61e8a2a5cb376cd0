/* Room stream: which weights stay in memory, which pass through windows, and when they are read.
 *
 * A sweep is a sequence of units; a unit is what one step of the forward pass needs (the matrices of one layer, or a block
 * of rows of the head).  The access pattern is a cycle, so LRU would give zero hits (design.md section 4); the default
 * policy `pin` therefore splits every unit by bytes: all but T bytes of it are resident, T bytes pass through a window,
 * with one T for the whole model, chosen so that residents plus windows use the budget to the last page.  Reads are
 * then spread evenly over the sweep, windows are small, and bytes per sweep = weights - resident, the least possible.
 * `lru` and `fifo` hold whole units in slots and evict by their rule (to compare; FlatRun's policies).
 *
 * Reads of the units ahead run while the current one computes: acquire() waits for its own unit only. */
#ifndef SL_STREAM_H
#define SL_STREAM_H

#include "base/ledger.h"
#include "os/io.h"
#include "store/store.h"

/* Rows [first_row, first_row + n_row) of a matrix tensor; a 1-row "matrix" is fine. */
typedef struct {
    const sl_tensor *tensor;
    uint32_t n_in;       /* elements per row */
    uint32_t first_row, n_row;
} sl_unit_rows;

typedef struct {
    const sl_unit_rows *rows;
    uint32_t n_rows; /* entries of rows */
} sl_unit;

typedef struct {
    const sl_store *store; /* not read: tensors say where they lie; may be NULL */
    const sl_unit *units;  /* borrowed until close */
    uint32_t n_unit;
    const sl_tensor *table; /* the embedding table, read row by row; NULL: none.  Tied: its rows also appear in units */
    uint32_t table_n_in;
    uint32_t max_table_rows; /* largest n of sl_residency_table_rows */
    sl_policy policy;        /* AUTO is PIN */
    uint32_t align;          /* of direct reads: sl_io.align, or 4096 when planning without a file open */
    bool views;              /* the read method gives views (mmap, memory): no windows of our own */
    bool load_late;          /* load() leaves the resident set to the first sweeps; without effect with views */
} sl_residency_options;

/* Pure arithmetic: how avail_bytes would be used. */
typedef struct {
    bool fits;
    uint64_t minimum_bytes;  /* windows and staging; of units larger than most also what is cheaper to keep than to window */
    uint64_t full_bytes;     /* everything resident: more than this is useless */
    uint64_t units_bytes;    /* all units resident, an untied table read row by row */
    uint64_t resident_bytes, window_bytes, staging_bytes;
    uint64_t stream_bytes;   /* read per sweep over all units, gaps and alignment included */
    uint64_t unit_bytes;     /* sum over all units */
    uint32_t n_window;
    uint64_t t_bytes;        /* T: no unit streams more (some one row less, to use the last pages) */
    bool table_resident;     /* an untied table */
} sl_residency_plan;
sl_status sl_residency_plan_for(const sl_residency_options *opt, uint64_t avail_bytes, sl_residency_plan *out, sl_err *err);

typedef struct sl_residency sl_residency;

/* Takes memory for avail_bytes (ledger kinds RESIDENT and WINDOW).  errors BUDGET when it does not fit, NOMEM. */
sl_status sl_residency_open(sl_residency **out, const sl_residency_options *opt, uint64_t avail_bytes, sl_io *io,
                            sl_ledger *ledger, sl_err *err);
/* Reads the resident set.  cancel (may be NULL) is polled between reads; progress as in the options of the engine.
 * With load_late it reads nothing: the sweeps do, each unit's part before the unit is first used and as far ahead as reads
 * can be under way; progress is then called from within them, and reads that fail are errors of acquire and table_rows. */
sl_status sl_residency_load(sl_residency *r, const volatile bool *cancel, sl_progress_fn progress, void *user, sl_err *err);
void sl_residency_close(sl_residency *r); /* waits for reads under way */

/* Announces the units of the sweep that starts now, in order (copied).  When `again` is true the same sequence is
 * expected to follow, so reading ahead wraps around to its start.  Units already read ahead and still wanted are kept. */
sl_status sl_residency_begin(sl_residency *r, const uint32_t *sequence, uint32_t n, bool again, sl_err *err);
/* Makes sequence[i] usable; i runs 0, 1, 2 ...  Waits for its reads, and starts those of the next units first.
 * views [n_rows of the unit]: matrices of n_row rows; valid until release.  Several steps may be held at once, as many as
 * there are windows; one less leaves room for reading ahead.
 * errors  IO: the unit is not held, and may be acquired again later (it is then read again)
 *         LIMIT: every window is held */
sl_status sl_residency_acquire(sl_residency *r, uint32_t i, sl_matrix *views, sl_err *err);
void sl_residency_release(sl_residency *r, uint32_t i);
/* A matrix of a unit that is resident whole, without acquiring it; false when part of it streams or is still to come. */
bool sl_residency_peek(sl_residency *r, uint32_t unit, uint32_t i_rows, sl_matrix *view);
/* Called now and then while computing: starts queued reads that the reader can't start by itself.  Never blocks. */
void sl_residency_drive(sl_residency *r);
/* Ends the sweep early or normally; nothing stays acquired. */
void sl_residency_end(sl_residency *r);
/* Stops reading ahead and waits for what is under way (before an idle time). */
void sl_residency_quiesce(sl_residency *r);

/* Raw rows of the table: ids [n] -> dst [n][row_bytes].  Resident rows are copied, the others read (one batch). */
sl_status sl_residency_table_rows(sl_residency *r, const int32_t *ids, uint32_t n, uint8_t *dst, sl_err *err);

/* FlatRun's scheduler hook: called with the unit that will be read ahead.  NULL: none. */
void sl_residency_set_prefetch_hook(sl_residency *r, void (*hook)(void *user, uint32_t unit), void *user);

typedef struct {
    uint64_t acquired, released, prefetched, failed, hits, misses, evictions;
    uint64_t tensors_loaded, tensors_released;
    uint64_t resident_bytes; /* of the resident set that are here */
    double wait_s;
    bool huge;
} sl_residency_stats;
void sl_residency_get_stats(const sl_residency *r, sl_residency_stats *out);
void sl_residency_get_plan(const sl_residency *r, sl_residency_plan *out);
uint32_t sl_residency_pinned_count(const sl_residency *r); /* units acquired now: zero between sweeps */

#endif
