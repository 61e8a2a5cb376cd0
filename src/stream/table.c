/* Rows of the embedding table.  Rows that are in memory for good (the table itself, or the pinned part of a tied head)
 * are copied; the others are read in one batch into the staging area, duplicates once, rows that share a page together.
 *
 * The staging area: n rows with the alignment around each, then requests, pointers to them, and sort keys. */
#include "stream/stream_int.h"

#include "os/os.h"

#include <string.h>

typedef struct {
    const sl_range *table;
    sl_io_req *reqs;   /* [n_req] by offset */
    sl_io_req **batch; /* [n_req] */
    uint64_t *keys;    /* [n_key] row << 32 | place in dst, ascending */
    uint32_t n_req, n_key;
} staging;

static staging carve(const sl_residency *r)
{
    const sl_layout *l = &r->layout;
    uint64_t n = l->opt.max_table_rows;
    staging s = {.table = &l->ranges[l->n_range - 1]};
    if (!r->stage) return s;
    uint8_t *book = r->stage + n * l->stage_row_bytes;
    book += -(uintptr_t)book & 63; /* size_staging() leaves room for it */
    s.reqs = (sl_io_req *)(void *)book;
    s.batch = (sl_io_req **)(void *)(s.reqs + n);
    s.keys = (uint64_t *)(void *)(s.batch + n);
    return s;
}

static void sift(uint64_t *v, uint32_t root, uint32_t n)
{
    for (uint32_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && v[child + 1] > v[child]) child++;
        if (v[root] >= v[child]) return;
        uint64_t t = v[root];
        v[root] = v[child];
        v[child] = t;
    }
}

/* Heapsort, since the C library's sort may allocate and this runs between two tokens. */
static void sort_keys(uint64_t *v, uint32_t n)
{
    for (uint32_t i = n / 2; i > 0; i--)
        sift(v, i - 1, n);
    for (uint32_t i = n; i > 1; i--) {
        uint64_t t = v[0];
        v[0] = v[i - 1];
        v[i - 1] = t;
        sift(v, 0, i - 1);
    }
}

static uint64_t row_offset(const staging *s, uint64_t key)
{
    return s->table->offset + (key >> 32) * s->table->row_bytes;
}

/* Turns sorted keys into reads that touch no page twice. */
static void make_requests(sl_residency *r, staging *s)
{
    uint64_t align = r->layout.align;
    uint8_t *mem = r->stage;
    for (uint32_t i = 0; i < s->n_key; i++) {
        uint64_t start = row_offset(s, s->keys[i]), end = start + s->table->row_bytes;
        sl_io_req *q = s->n_req ? &s->reqs[s->n_req - 1] : NULL;
        if (!q || sl_round_down(start, align) > q->offset_bytes + q->bytes) {
            if (q) mem += q->bytes;
            q = &s->reqs[s->n_req];
            *q = (sl_io_req){.file = s->table->file, .offset_bytes = sl_round_down(start, align), .dst = mem};
            s->batch[s->n_req++] = q;
        }
        q->need_bytes = end - q->offset_bytes;
        q->bytes = sl_round_up(q->need_bytes, align);
    }
}

static sl_status read_rows(sl_residency *r, staging *s, sl_err *err)
{
    double from = sl_now_s();
    sl_status rc = sl_io_submit(r->io, s->batch, s->n_req, err);
    if (rc != SL_OK) {
        sl_stream_settle(r->io, s->batch, s->n_req);
    } else {
        for (uint32_t i = 0; i < s->n_req; i++) {
            sl_status read = sl_io_wait(r->io, s->batch[i], rc == SL_OK ? err : NULL);
            if (rc == SL_OK) rc = read;
        }
    }
    r->stats.wait_s += sl_now_s() - from;
    return rc;
}

static void copy_staged(const staging *s, uint8_t *dst)
{
    const sl_io_req *q = s->reqs;
    for (uint32_t i = 0; i < s->n_key; i++) {
        uint64_t at = row_offset(s, s->keys[i]);
        while (at >= q->offset_bytes + q->need_bytes)
            q++;
        memcpy(dst + (s->keys[i] & UINT32_MAX) * s->table->row_bytes, (uint8_t *)q->dst + (at - q->offset_bytes),
               s->table->row_bytes);
    }
}

/* NULL: not in memory. */
static const uint8_t *row_in_memory(const sl_residency *r, const sl_range *table, uint64_t row)
{
    uint64_t offset = table->offset + row * table->row_bytes;
    if (r->layout.opt.views) return r->io->ops->view(r->io, table->file, offset, table->row_bytes);
    return sl_resident_find(r, table->file, offset, table->row_bytes);
}

static sl_status check_ids(const sl_residency *r, const int32_t *ids, uint32_t n, sl_err *err)
{
    const sl_layout *l = &r->layout;
    if (!l->opt.table) return sl_fail(err, SL_ERR_ARG, "table rows were asked for where there is no table");
    if (!r->loaded) return sl_fail(err, SL_ERR_ARG, "table rows were asked for before weights were loaded");
    if (n > l->opt.max_table_rows)
        return sl_fail(err, SL_ERR_ARG, "%u rows of table \"%s\" were asked for, at most %u are planned", n,
                       l->opt.table->name, l->opt.max_table_rows);
    const sl_range *table = &l->ranges[l->n_range - 1];
    uint64_t n_row = table->bytes / table->row_bytes;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint64_t)ids[i] >= n_row)
            return sl_fail(err, SL_ERR_ARG, "row %d of table \"%s\", which has %llu", ids[i], l->opt.table->name,
                           (unsigned long long)n_row);
    return SL_OK;
}

/* Rows that stay but have not been read yet, with the weights around them; all are asked for before the first is waited
 * for. */
static sl_status bring_rows(sl_residency *r, const sl_range *table, const int32_t *ids, uint32_t n, sl_err *err)
{
    sl_status rc = SL_OK;
    if (r->layout.opt.views || !r->arrival.n_missing) return SL_OK;
    double from = sl_now_s();
    for (uint32_t k = 0; rc == SL_OK && k < 2 * n; k++)
        rc = sl_arrival_rows(r, table->file, table->offset + (uint64_t)ids[k % n] * table->row_bytes, table->row_bytes,
                             k >= n, err);
    r->stats.wait_s += sl_now_s() - from;
    return rc;
}

sl_status sl_residency_table_rows(sl_residency *r, const int32_t *ids, uint32_t n, uint8_t *dst, sl_err *err)
{
    sl_status rc = check_ids(r, ids, n, err);
    if (rc != SL_OK) return rc;
    staging s = carve(r);
    if ((rc = bring_rows(r, s.table, ids, n, err)) != SL_OK) return rc;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *row = row_in_memory(r, s.table, (uint64_t)ids[i]);
        if (row)
            memcpy(dst + i * s.table->row_bytes, row, s.table->row_bytes);
        else if (s.keys)
            s.keys[s.n_key++] = (uint64_t)ids[i] << 32 | i;
        else
            return sl_fail(err, SL_ERR_IO, "row %d of table \"%s\" lies beyond the end of its file", ids[i],
                           r->layout.opt.table->name);
    }
    if (s.n_key == 0) return SL_OK;
    sort_keys(s.keys, s.n_key);
    make_requests(r, &s);
    rc = read_rows(r, &s, err);
    if (rc == SL_OK) copy_staged(&s, dst);
    return rc;
}
