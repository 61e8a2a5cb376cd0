/* How the part that stays comes into memory: in pieces, each read once, several of them under way.
 *
 * load() reads them all before anything computes.  With load_late nothing is read by then: a sweep asks for the pieces of
 * the units that it comes to, in order, between the reads of their streamed parts, so that computing begins with the first
 * unit's last byte and the drive has work as long as pieces are missing.
 *
 * A piece belongs to one extent and may serve several units (pages that two of them share, a tied table's rows).  One that
 * could not be read is missing again: whoever needs it reads it anew, and meets the error if it lasts. */
#include "stream/stream_int.h"

#include "os/os.h"

enum { MISSING, COMING, HERE };
static const double PROGRESS_S = 0.1;

/* Pieces [first, end). */
typedef struct {
    uint32_t first, end;
} span;

/* ---- pieces ---- */

sl_status sl_arrival_open(sl_residency *r, sl_err *err)
{
    sl_arrival *a = &r->arrival;
    uint64_t n = 0;
    a->first = sl_calloc(r->n_keep + 1u, sizeof *a->first);
    for (uint32_t i = 0; a->first && i < r->n_keep; i++) {
        n += (r->keep[i].bytes + SL_ARRIVAL_BYTES - 1) / SL_ARRIVAL_BYTES;
        a->total_bytes += r->keep[i].bytes;
        a->first[i + 1] = (uint32_t)n; /* 2^56 bytes are 2^34 pieces, which no memory holds */
    }
    a->state = a->first && n < UINT32_MAX ? sl_calloc(n + 1, 1) : NULL;
    if (!a->state) return sl_fail(err, SL_ERR_NOMEM, "no memory for the order of resident weights");
    a->n_missing = (uint32_t)n;
    for (uint32_t i = 0; i < SL_ARRIVAL_DEPTH; i++)
        a->piece[i] = SL_NO_PIECE;
    return SL_OK;
}

void sl_arrival_close(sl_residency *r)
{
    sl_free(r->arrival.first);
    sl_free(r->arrival.state);
}

static span pieces_of(const sl_residency *r, uint32_t file, uint64_t offset, uint64_t bytes)
{
    const sl_extent *e = sl_extent_find(r->keep, r->n_keep, file, offset, bytes);
    if (!e) return (span){0, 0};
    uint32_t first = r->arrival.first[e - r->keep];
    uint64_t at = offset - e->offset;
    return (span){first + (uint32_t)(at / SL_ARRIVAL_BYTES), first + (uint32_t)((at + bytes - 1) / SL_ARRIVAL_BYTES) + 1};
}

static sl_io_req request_of(const sl_residency *r, uint32_t piece)
{
    uint32_t lo = 0, hi = r->n_keep; /* the extent whose first piece is the last one not above */
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (r->arrival.first[mid] <= piece)
            lo = mid;
        else
            hi = mid;
    }
    const sl_extent *e = &r->keep[lo];
    uint64_t at = (uint64_t)(piece - r->arrival.first[lo]) * SL_ARRIVAL_BYTES;
    uint64_t bytes = sl_min_u64(e->bytes - at, SL_ARRIVAL_BYTES), need = e->need > at ? e->need - at : 0;
    return (sl_io_req){.file = e->file,
                       .offset_bytes = e->offset + at,
                       .dst = r->resident.ptr + e->at + at,
                       .bytes = bytes,
                       .need_bytes = sl_min_u64(need, bytes)};
}

/* ---- reads ---- */

void sl_arrival_tell(sl_arrival *a, bool last)
{
    double now = sl_now_s();
    if (!a->progress || (!last && now - a->told_s < PROGRESS_S)) return;
    a->told_s = now;
    sl_progress p = {.phase = SL_PHASE_LOAD,
                     .done_bytes = a->done_bytes,
                     .total_bytes = a->total_bytes,
                     .elapsed_s = now - a->start_s};
    a->progress(a->user, &p);
}

/* Waits for a request of the ring. */
static sl_status finish(sl_residency *r, uint32_t slot, sl_err *err)
{
    sl_arrival *a = &r->arrival;
    uint32_t piece = a->piece[slot];
    if (piece == SL_NO_PIECE) return SL_OK;
    sl_status rc = sl_io_wait(r->io, &a->reqs[slot], err);
    a->piece[slot] = SL_NO_PIECE;
    a->all_sent = a->all_sent && rc == SL_OK;
    a->state[piece] = rc == SL_OK ? HERE : MISSING;
    if (rc != SL_OK) {
        r->stats.failed++;
        return rc;
    }
    a->n_missing--;
    a->done_bytes += a->reqs[slot].bytes;
    sl_arrival_tell(a, a->n_missing == 0);
    return SL_OK;
}

/* Starts reading a piece that is missing.  The ring is used in order, so the slot's last piece is the oldest.
 * *room is false when that one is still under way and may_wait is not set: nothing was done. */
static sl_status start(sl_residency *r, uint32_t piece, bool may_wait, bool *room, sl_err *err)
{
    sl_arrival *a = &r->arrival;
    uint32_t slot = a->n_sent % SL_ARRIVAL_DEPTH;
    sl_io_req *req = &a->reqs[slot];
    *room = a->piece[slot] == SL_NO_PIECE || may_wait || r->io->ops->poll(r->io, req);
    if (!*room) return SL_OK;
    finish(r, slot, NULL); /* who needs it meets the error */
    *req = request_of(r, piece);
    sl_status rc = sl_io_submit(r->io, &req, 1, err);
    if (rc != SL_OK) {
        sl_stream_settle(r->io, &req, 1);
        r->stats.failed++;
        return rc;
    }
    a->piece[slot] = piece;
    a->state[piece] = COMING;
    a->n_sent++;
    return SL_OK;
}

/* Starts what is missing of the pieces; *room as for one. */
static sl_status start_all(sl_residency *r, span s, bool may_wait, bool *room, sl_err *err)
{
    sl_status rc = SL_OK;
    *room = true;
    for (uint32_t p = s.first; rc == SL_OK && *room && p < s.end; p++)
        if (r->arrival.state[p] == MISSING) rc = start(r, p, may_wait, room, err);
    return rc;
}

static sl_status wait_all(sl_residency *r, span s, sl_err *err)
{
    sl_status rc = SL_OK;
    for (uint32_t i = 0; rc == SL_OK && i < SL_ARRIVAL_DEPTH; i++) {
        uint32_t piece = r->arrival.piece[i];
        if (piece != SL_NO_PIECE && piece >= s.first && piece < s.end) rc = finish(r, i, err);
    }
    return rc;
}

/* Makes the pieces be there.  Starting one may have to give up another that failed, so it is looked at again. */
static sl_status bring(sl_residency *r, span s, sl_err *err)
{
    bool room;
    for (uint32_t p = s.first; p < s.end; p++) {
        span one = {p, p + 1};
        sl_status rc = start_all(r, one, true, &room, err);
        if (rc == SL_OK && r->arrival.state[p] == COMING) rc = wait_all(r, one, err);
        if (rc != SL_OK) return rc;
    }
    return SL_OK;
}

/* ---- what is asked for ---- */

sl_status sl_arrival_rows(sl_residency *r, uint32_t file, uint64_t offset, uint64_t bytes, bool wait, sl_err *err)
{
    bool room;
    if (!r->arrival.n_missing) return SL_OK;
    span s = pieces_of(r, file, offset, bytes);
    return wait ? bring(r, s, err) : start_all(r, s, true, &room, err);
}

/* Starts what is missing of a unit, or waits for it. */
static sl_status unit_pieces(sl_residency *r, uint32_t unit, bool may_wait, bool wait, bool *room, sl_err *err)
{
    const sl_layout *l = &r->layout;
    sl_status rc = SL_OK;
    *room = true;
    for (uint32_t i = l->first[unit]; rc == SL_OK && *room && i < l->first[unit + 1]; i++) {
        const sl_range *g = &l->ranges[i];
        if (!g->keep) continue;
        span s = pieces_of(r, g->file, g->offset, g->keep);
        rc = wait ? bring(r, s, err) : start_all(r, s, may_wait, room, err);
    }
    return rc;
}

sl_status sl_arrival_start(sl_residency *r, uint32_t unit, sl_err *err)
{
    bool room;
    return r->arrival.n_missing ? unit_pieces(r, unit, true, false, &room, err) : SL_OK;
}

sl_status sl_arrival_wait(sl_residency *r, uint32_t unit, sl_err *err)
{
    bool room;
    return r->arrival.n_missing ? unit_pieces(r, unit, true, true, &room, err) : SL_OK;
}

void sl_arrival_ahead(sl_residency *r, uint32_t unit)
{
    bool room;
    if (r->arrival.n_missing && !r->arrival.all_sent) unit_pieces(r, unit, false, false, &room, NULL);
}

void sl_arrival_read_ahead(sl_residency *r)
{
    sl_arrival *a = &r->arrival;
    if (!a->n_missing || a->all_sent || !r->active) return;
    bool room = true;
    /* Where units stream, no further than one unit beyond the windows: first reads into memory have its pages made, which
     * should be spread over the sweep as its other reads are. */
    uint32_t left = r->n_step - r->pos, n = r->plan.n_window ? r->plan.n_window + 1 : left;
    if (n > left) n = left;
    for (uint32_t i = r->pos; i < r->pos + n; i++)
        if (unit_pieces(r, r->steps[i].unit, false, false, &room, NULL) != SL_OK || !room) return;
    a->all_sent = n == left; /* of this sweep: what is left belongs to units that it has not */
}

bool sl_arrival_has(const sl_residency *r, const sl_range *g)
{
    if (!r->arrival.n_missing) return true;
    span s = pieces_of(r, g->file, g->offset, g->keep);
    for (uint32_t p = s.first; p < s.end; p++)
        if (r->arrival.state[p] != HERE) return false;
    return true;
}

void sl_arrival_settle(sl_residency *r)
{
    for (uint32_t i = 0; i < SL_ARRIVAL_DEPTH; i++)
        finish(r, i, NULL);
}

sl_status sl_arrival_all(sl_residency *r, const volatile bool *cancel, sl_err *err)
{
    sl_arrival *a = &r->arrival;
    sl_status rc = SL_OK;
    for (uint32_t p = 0; rc == SL_OK && p < a->first[r->n_keep]; p++) {
        uint32_t slot = a->n_sent % SL_ARRIVAL_DEPTH;
        if (cancel && *cancel)
            rc = sl_fail(err, SL_ERR_CANCELED, "loading was canceled after %llu of %llu bytes",
                         (unsigned long long)a->done_bytes, (unsigned long long)a->total_bytes);
        if (rc == SL_OK) rc = finish(r, slot, err);
        bool room;
        if (rc == SL_OK && a->state[p] == MISSING) rc = start(r, p, true, &room, err);
    }
    if (rc != SL_OK) a->progress = NULL; /* the rest comes, but for nothing */
    for (uint32_t i = 0; i < SL_ARRIVAL_DEPTH; i++) {
        sl_status read = finish(r, i, rc == SL_OK ? err : NULL);
        if (rc == SL_OK) rc = read;
    }
    return rc;
}
