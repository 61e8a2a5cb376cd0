/* Ranges of rows on disk: collected from the units, cut into a part that stays and a part that is streamed, and merged
 * into reads.  The same merging runs to measure (plan) and to build (open), so the two cannot disagree.
 *
 * What stays of a unit is a prefix of it in file order and what is streamed is the rest: one cut per unit, so each side
 * is about as few reads as the file allows.  A cut falls between two rows.  Left out: which cut to take (plan.c). */
#include "stream/stream_int.h"

#include <stdlib.h>

/* ---- merging ---- */

typedef struct {
    uint32_t align;
    uint64_t max_gap;
    sl_extent *out; /* NULL: count only */
    uint32_t n;
    uint64_t bytes; /* memory so far */
    bool open;      /* a range is being grown */
    uint32_t file;
    uint64_t start, end;
} merger;

static void flush(merger *m)
{
    if (!m->open) return;
    uint64_t from = sl_round_down(m->start, m->align), to = sl_round_up(m->end, m->align);
    if (m->out)
        m->out[m->n] = (sl_extent){.offset = from,
                                   .bytes = to - from,
                                   .need = m->end - from,
                                   .at = m->bytes,
                                   .file = m->file,
                                   .lead = (uint32_t)(m->start - from)};
    m->n++;
    m->bytes += to - from;
    m->open = false;
}

/* Ranges come sorted by start; overlapping ones are welcome.  A unit that lists rows twice may have its cut inside the
 * first listing, so that the second starts a little before it: hence the minimum. */
static void add(merger *m, uint32_t file, uint64_t start, uint64_t end)
{
    bool joins = m->open && file == m->file &&
                 (start <= m->end + m->max_gap || sl_round_down(start, m->align) <= sl_round_up(m->end, m->align));
    if (joins) {
        m->start = sl_min_u64(m->start, start);
        m->end = sl_max_u64(m->end, end);
        return;
    }
    flush(m);
    m->open = true;
    m->file = file;
    m->start = start;
    m->end = end;
}

uint32_t sl_layout_resident(const sl_layout *l, sl_extent *out, uint64_t *bytes)
{
    merger m = {.align = l->align, .max_gap = SL_KEEP_GAP_BYTES, .out = out};
    for (uint32_t i = 0; i < l->n_range; i++) {
        const sl_range *g = &l->ranges[l->order[i]];
        if (g->keep) add(&m, g->file, g->offset, g->offset + g->keep);
    }
    flush(&m);
    *bytes = m.bytes;
    return m.n;
}

uint32_t sl_layout_unit(const sl_layout *l, uint32_t unit, sl_extent *out, uint64_t *bytes)
{
    merger m = {.align = l->align, .max_gap = SL_STREAM_GAP_BYTES, .out = out};
    for (uint32_t i = l->first[unit]; i < l->first[unit + 1]; i++) {
        const sl_range *g = &l->ranges[i];
        if (g->keep < g->bytes) add(&m, g->file, g->offset + g->keep, g->offset + g->bytes);
    }
    flush(&m);
    *bytes = m.bytes;
    return m.n;
}

const sl_extent *sl_extent_find(const sl_extent *extents, uint32_t n, uint32_t file, uint64_t offset, uint64_t bytes)
{
    uint32_t lo = 0, hi = n; /* the last extent that starts at or before the offset is at lo - 1 */
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const sl_extent *e = &extents[mid];
        if (e->file < file || (e->file == file && e->offset <= offset))
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0) return NULL;
    const sl_extent *e = &extents[lo - 1];
    bool holds = e->file == file && offset >= e->offset && offset + bytes <= e->offset + e->need;
    return holds ? e : NULL;
}

/* ---- cutting ---- */

static void cut_unit(sl_layout *l, uint32_t unit, uint64_t t)
{
    for (uint32_t i = l->first[unit + 1]; i > l->first[unit]; i--) {
        sl_range *g = &l->ranges[i - 1];
        uint64_t streamed = g->bytes <= t ? g->bytes : sl_round_down(t, g->row_bytes);
        g->keep = g->bytes - streamed;
        t = g->keep ? 0 : t - streamed; /* a tail: nothing before the cut is streamed */
    }
}

void sl_layout_cut(sl_layout *l, const sl_cut *cut)
{
    for (uint32_t u = 0; u < l->opt.n_unit; u++)
        cut_unit(l, u, cut->t - (u < cut->n_less ? 1 : 0));
    if (l->opt.table) {
        sl_range *g = &l->ranges[l->n_range - 1];
        g->keep = cut->table ? g->bytes : 0;
    }
}

static uint64_t staging_of(const sl_layout *l, const sl_cut *cut)
{
    bool rows_in_memory = l->opt.views || cut->table || (l->tied && cut->t == 0);
    return l->opt.table && !rows_in_memory ? l->stage_bytes : 0;
}

void sl_layout_cost(const sl_layout *l, const sl_cut *cut, sl_cost *out)
{
    *out = (sl_cost){.staging = staging_of(l, cut)};
    for (uint32_t u = 0; u < l->opt.n_unit; u++) {
        uint64_t bytes;
        if (sl_layout_unit(l, u, NULL, &bytes) == 0) continue;
        out->n_stream++;
        out->window = sl_max_u64(out->window, bytes);
        out->stream += bytes;
    }
    out->n_window = out->n_stream < cut->n_window ? out->n_stream : cut->n_window; /* more could never be filled */
    sl_layout_resident(l, NULL, &out->resident);
    out->resident = sl_round_up(out->resident, SL_PAGE_BYTES);
    uint64_t windows;
    if (!sl_mul_u64(out->n_window, out->window, &windows) || windows > UINT64_MAX / 4) windows = UINT64_MAX / 4;
    out->total = out->resident + sl_round_up(windows, SL_PAGE_BYTES) + out->staging;
}

/* ---- collecting ---- */

static sl_status check_rows(const sl_unit_rows *w, uint32_t unit, sl_range *out, sl_err *err)
{
    const sl_tensor *t = w->tensor;
    uint64_t row_bytes;
    if (!sl_type_row_bytes(t->type, w->n_in, &row_bytes) || row_bytes == 0)
        return sl_fail(err, SL_ERR_ARG, "unit %u: rows of %u elements do not fit type %s of tensor \"%s\"", unit,
                       w->n_in, t->type->name, t->name);
    uint64_t have = t->size_bytes / row_bytes;
    if (w->n_row == 0 || (uint64_t)w->first_row + w->n_row > have)
        return sl_fail(err, SL_ERR_ARG, "unit %u: rows %u to %llu of tensor \"%s\", which has %llu", unit, w->first_row,
                       (unsigned long long)w->first_row + w->n_row, t->name, (unsigned long long)have);
    *out = (sl_range){.offset = t->offset_bytes + w->first_row * row_bytes,
                      .bytes = w->n_row * row_bytes,
                      .row_bytes = row_bytes,
                      .file = t->file};
    return SL_OK;
}

static int by_place(const void *pa, const void *pb)
{
    const sl_range *a = pa, *b = pb;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->entry < b->entry ? -1 : a->entry > b->entry;
}

static void note_size(sl_layout *l, uint64_t bytes)
{
    for (size_t i = 0; i < sizeof l->largest / sizeof l->largest[0]; i++) {
        if (bytes <= l->largest[i]) continue;
        uint64_t smaller = l->largest[i];
        l->largest[i] = bytes;
        bytes = smaller;
    }
}

static sl_status collect_unit(sl_layout *l, uint32_t u, uint32_t *n, sl_err *err)
{
    const sl_unit *unit = &l->opt.units[u];
    uint64_t bytes = 0;
    l->first[u] = *n;
    for (uint32_t i = 0; i < unit->n_rows; i++) {
        sl_range *g = &l->ranges[*n];
        sl_status rc = check_rows(&unit->rows[i], u, g, err);
        if (rc != SL_OK) return rc;
        g->entry = i;
        bytes += g->bytes;
        (*n)++;
    }
    qsort(l->ranges + l->first[u], unit->n_rows, sizeof(sl_range), by_place);
    note_size(l, bytes);
    /* 2^56: far above any drive, and low enough that no sum of the plan can wrap */
    if (!sl_add_u64(l->unit_bytes, bytes, &l->unit_bytes) || l->unit_bytes >> 56)
        return sl_fail(err, SL_ERR_LIMIT, "units 0 to %u together have more than 2^56 bytes", u);
    return SL_OK;
}

/* A row read by itself needs the alignment around it.  Row starts take every residue base + k * gcd(row, align), so the
 * worst one is known. */
static void size_staging(sl_layout *l, const sl_range *table)
{
    uint64_t a = l->align, g = table->row_bytes;
    for (uint64_t b = a; b;) {
        uint64_t rest = g % b;
        g = b;
        b = rest;
    }
    uint64_t worst = a - g + table->offset % g;
    uint64_t n = l->opt.max_table_rows;
    l->stage_row_bytes = sl_round_up(worst + table->row_bytes, a);
    uint64_t book = sizeof(sl_io_req) + sizeof(sl_io_req *) + sizeof(uint64_t);
    l->stage_bytes = sl_round_up(n * l->stage_row_bytes + 64 + n * book, SL_PAGE_BYTES); /* 64: see carve() */
}

static sl_status collect_table(sl_layout *l, sl_err *err)
{
    const sl_tensor *t = l->opt.table;
    sl_range *g = &l->ranges[l->n_range - 1];
    uint64_t row_bytes;
    if (!sl_type_row_bytes(t->type, l->opt.table_n_in, &row_bytes) || row_bytes == 0 || t->size_bytes < row_bytes)
        return sl_fail(err, SL_ERR_ARG, "table \"%s\" of type %s and %llu bytes has no rows of %u elements", t->name,
                       t->type->name, (unsigned long long)t->size_bytes, l->opt.table_n_in);
    if (t->size_bytes >> 56 || row_bytes >> 31)
        return sl_fail(err, SL_ERR_LIMIT, "table \"%s\": %llu bytes in rows of %llu are beyond 2^56 and 2^31", t->name,
                       (unsigned long long)t->size_bytes, (unsigned long long)row_bytes);
    *g = (sl_range){.offset = t->offset_bytes,
                    .bytes = sl_round_down(t->size_bytes, row_bytes),
                    .row_bytes = row_bytes,
                    .file = t->file};
    size_staging(l, g);
    return SL_OK;
}

static int by_place_of_index(const void *pa, const void *pb, void *ranges)
{
    const sl_range *base = ranges;
    return by_place(&base[*(const uint32_t *)pa], &base[*(const uint32_t *)pb]);
}

/* Do the units' rows cover the whole table?  Then keeping the units keeps the table. */
static bool units_cover_table(const sl_layout *l)
{
    const sl_range *table = &l->ranges[l->n_range - 1];
    uint64_t covered = table->offset;
    for (uint32_t i = 0; i < l->n_range; i++) {
        const sl_range *g = &l->ranges[l->order[i]];
        if (g != table && g->file == table->file && g->offset <= covered)
            covered = sl_max_u64(covered, g->offset + g->bytes);
    }
    return covered >= table->offset + table->bytes;
}

static sl_status collect(sl_layout *l, sl_err *err)
{
    uint32_t n = 0;
    for (uint32_t u = 0; u < l->opt.n_unit; u++) {
        sl_status rc = collect_unit(l, u, &n, err);
        if (rc != SL_OK) return rc;
    }
    l->first[l->opt.n_unit] = n;
    if (l->opt.table) {
        sl_status rc = collect_table(l, err);
        if (rc != SL_OK) return rc;
    }
    for (uint32_t i = 0; i < l->n_range; i++)
        l->order[i] = i;
    qsort_r(l->order, l->n_range, sizeof *l->order, by_place_of_index, l->ranges);
    l->tied = l->opt.table && units_cover_table(l);
    return SL_OK;
}

static sl_status count_ranges(sl_layout *l, sl_err *err)
{
    uint64_t n = l->opt.table ? 1 : 0;
    for (uint32_t u = 0; u < l->opt.n_unit; u++)
        n += l->opt.units[u].n_rows;
    if (l->opt.n_unit >= SL_NO_UNIT || n > INT32_MAX)
        return sl_fail(err, SL_ERR_LIMIT, "%u units with %llu row ranges are more than 2^31", l->opt.n_unit,
                       (unsigned long long)n);
    l->n_range = (uint32_t)n;
    return SL_OK;
}

sl_status sl_layout_open(sl_layout *l, const sl_residency_options *opt, sl_err *err)
{
    *l = (sl_layout){.opt = *opt};
    if (opt->align == 0 || (opt->align & (opt->align - 1)) || opt->align > SL_PAGE_BYTES) /* blocks begin with a page */
        return sl_fail(err, SL_ERR_ARG, "alignment %u of reads is not a power of two up to %u", opt->align,
                       (unsigned)SL_PAGE_BYTES);
    /* With views the memory is the file's pages, whatever the reads would need. */
    uint32_t least = opt->views ? SL_PAGE_BYTES : SL_LINE_BYTES;
    l->align = opt->align < least ? least : opt->align;

    sl_status rc = count_ranges(l, err);
    if (rc != SL_OK) return rc;
    l->ranges = sl_calloc(l->n_range + 1u, sizeof *l->ranges);
    l->order = sl_calloc(l->n_range + 1u, sizeof *l->order);
    l->first = sl_calloc(opt->n_unit + 1u, sizeof *l->first);
    if (l->ranges && l->order && l->first)
        rc = collect(l, err);
    else
        rc = sl_fail(err, SL_ERR_NOMEM, "no memory for the layout of %u units", opt->n_unit);
    if (rc != SL_OK) sl_layout_close(l);
    return rc;
}

void sl_layout_close(sl_layout *l)
{
    sl_free(l->ranges);
    sl_free(l->order);
    sl_free(l->first);
    *l = (sl_layout){0};
}
