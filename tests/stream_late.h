/* What the tests of room stream share: a "late" reader that is as awkward as the contract allows (memory is scribbled
 * over at submission and only filled, to the last needed byte, when waited for or polled; requests are checked for
 * alignment, overlap with others under way, and being waited for once; any read or submission can fail), real readers
 * over temporary files, and sweeps that compare every byte. */
#ifndef STREAM_LATE_H
#define STREAM_LATE_H

#include "stream_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, MIB = 1024 * 1024, MAX_FLIGHT = 4096, MAX_ROWS = 32 };

/* ---- the late reader ---- */

typedef struct {
    sl_io io; /* first */
    const uint64_t *sizes;
    uint32_t n_file;
    sl_io_req *flight[MAX_FLIGHT];
    uint32_t n_flight, max_flight;
    uint64_t n_read, n_submit, n_poll;
    uint64_t fail_read, fail_submit; /* 1-based; 0: never */
    uint64_t broken_file;            /* every read of this file + 1 fails */
    bool never_polls;                /* nothing is done before it is waited for */
    uint32_t n_wrong;                /* violations of the contract */
    world_rng rng;
} late_io;

static inline void wrong(late_io *l, const char *what)
{
    fprintf(stderr, "late reader: %s\n", what);
    l->n_wrong++;
}

static inline bool overlaps(const sl_io_req *a, const sl_io_req *b)
{
    const uint8_t *pa = a->dst, *pb = b->dst;
    return pa < pb + b->bytes && pb < pa + a->bytes;
}

static inline void accept(late_io *l, sl_io_req *q)
{
    uint32_t a = l->io.align;
    if (q->offset_bytes % a || (uintptr_t)q->dst % a || q->bytes % a) wrong(l, "unaligned request");
    if (q->state != 0) wrong(l, "request under way submitted");
    if (q->file >= l->n_file || q->bytes == 0 || q->need_bytes > q->bytes) wrong(l, "senseless request");
    if (q->offset_bytes + q->need_bytes > l->sizes[q->file]) wrong(l, "request needs bytes beyond the file");
    for (uint32_t i = 0; i < l->n_flight; i++)
        if (overlaps(l->flight[i], q)) wrong(l, "memory under way given to another request");
    memset(q->dst, 0xEE, q->bytes);
    l->n_read++;
    q->os_errno = l->n_read == l->fail_read || q->file + 1u == l->broken_file ? 5 : 0;
    q->state = 1;
    l->flight[l->n_flight++] = q;
    if (l->n_flight > l->max_flight) l->max_flight = l->n_flight;
}

static inline sl_status late_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    late_io *l = (late_io *)io;
    bool fails = ++l->n_submit == l->fail_submit;
    if (fails) n = world_below(&l->rng, n + 1); /* some are under way all the same */
    for (size_t i = 0; i < n; i++)
        accept(l, reqs[i]);
    return fails ? sl_fail(err, SL_ERR_NOMEM, "injected at submission %llu", (unsigned long long)l->n_submit) : SL_OK;
}

static inline void fill_in(late_io *l, sl_io_req *q)
{
    if (q->state == 2) return;
    uint64_t size = l->sizes[q->file], left = q->offset_bytes < size ? size - q->offset_bytes : 0;
    if (q->os_errno == 0) world_fill(q->dst, q->file, q->offset_bytes, q->need_bytes); /* no byte more */
    l->io.bytes_read += sl_min_u64(left, q->bytes);
    q->state = 2;
}

static inline sl_status late_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    late_io *l = (late_io *)io;
    uint32_t i = 0;
    while (i < l->n_flight && l->flight[i] != req)
        i++;
    if (i == l->n_flight) {
        wrong(l, "wait for a request that is not under way");
        return sl_fail(err, SL_ERR_IO, "not under way");
    }
    l->flight[i] = l->flight[--l->n_flight];
    fill_in(l, req);
    req->state = 0;
    if (req->os_errno == ECANCELED) return sl_fail(err, SL_ERR_CANCELED, "canceled");
    return req->os_errno ? sl_fail(err, SL_ERR_IO, "injected at file %u offset %llu", req->file,
                                   (unsigned long long)req->offset_bytes)
                         : SL_OK;
}

static inline bool late_poll(sl_io *io, sl_io_req *req)
{
    late_io *l = (late_io *)io;
    l->n_poll++;
    if (req->state == 1 && !l->never_polls && world_below(&l->rng, 3) == 0) fill_in(l, req);
    return req->state == 2;
}

/* Sometimes too late. */
static inline void late_drop(sl_io *io, sl_io_req *req)
{
    late_io *l = (late_io *)io;
    if (req->state != 1 || world_below(&l->rng, 3) == 0) return;
    req->os_errno = ECANCELED;
    req->state = 2;
}

static inline void late_hurry(sl_io *io, sl_io_req *req)
{
    (void)io;
    req->background = false;
}

static const sl_io_ops late_ops = {
    .submit = late_submit, .wait = late_wait, .poll = late_poll, .drop = late_drop, .hurry = late_hurry};

static inline void late_open(late_io *l, const world *w, uint32_t align)
{
    *l = (late_io){.io = {.ops = &late_ops, .name = "late", .align = align, .piece_bytes = MIB, .depth = 8},
                   .sizes = w->file_bytes,
                   .n_file = w->n_file,
                   .rng = {7}};
}

/* ---- helpers ---- */

static sl_err last_err; /* of the last call in this test program */

static inline void ok(sl_status rc)
{
    if (rc != SL_OK) fail_msg("status %d: %s", (int)rc, last_err.msg);
}

static inline sl_residency_plan plan_of(const sl_residency_options *opt, uint64_t avail)
{
    sl_residency_plan p;
    ok(sl_residency_plan_for(opt, avail, &p, &last_err));
    return p;
}

static inline sl_residency *open_loaded(const sl_residency_options *opt, uint64_t avail, sl_io *io, sl_ledger *ledger)
{
    sl_residency *r = NULL;
    ok(sl_residency_open(&r, opt, avail, io, ledger, &last_err));
    ok(sl_residency_load(r, NULL, NULL, NULL, &last_err));
    return r;
}

/* One sweep, one unit at a time, every byte compared. */
static inline void sweep(sl_residency *r, const world *w, const uint32_t *seq, uint32_t n, bool again)
{
    sl_matrix views[MAX_ROWS];
    ok(sl_residency_begin(r, seq, n, again, &last_err));
    for (uint32_t i = 0; i < n; i++) {
        ok(sl_residency_acquire(r, i, views, &last_err));
        assert_int_equal(sl_residency_pinned_count(r), 1);
        assert_true(world_check_views(w, seq[i], views));
        sl_residency_release(r, i);
    }
    sl_residency_end(r);
    assert_int_equal(sl_residency_pinned_count(r), 0);
}

static inline uint32_t in_order(const world *w, uint32_t *seq)
{
    for (uint32_t i = 0; i < w->n_unit; i++)
        seq[i] = i;
    return w->n_unit;
}

static inline uint64_t budget_at(const sl_residency_options *opt, uint64_t share, uint64_t of)
{
    sl_residency_plan p = plan_of(opt, 0);
    return p.minimum_bytes + (p.full_bytes - p.minimum_bytes) * share / of;
}

static const sl_policy policies[] = {SL_POLICY_AUTO, SL_POLICY_LRU, SL_POLICY_FIFO};
static const uint32_t aligns[] = {1, 512, 4096};

/* ---- real readers ---- */

typedef struct {
    sl_io_method method;
    bool memory, views, faulty;
} reader;

/* memory, the same with views, pread, uring, buffered, mmap, mmap through reads, pread and uring delayed */
static const reader readers[] = {
    {SL_IO_AUTO, true, false, false},   {SL_IO_AUTO, true, true, false},       {SL_IO_PREAD, false, false, false},
    {SL_IO_URING, false, false, false}, {SL_IO_BUFFERED, false, false, false}, {SL_IO_MMAP, false, true, false},
    {SL_IO_MMAP, false, false, false},  {SL_IO_PREAD, false, false, true},     {SL_IO_URING, false, false, true},
};

typedef struct {
    char paths[WORLD_FILES][64];
    uint8_t *data[WORLD_FILES];
    uint32_t n;
} files;

static inline void files_write(files *f, const world *w)
{
    f->n = w->n_file;
    for (uint32_t i = 0; i < w->n_file; i++) {
        f->data[i] = malloc(w->file_bytes[i] + 1);
        world_fill(f->data[i], i, 0, w->file_bytes[i]);
        snprintf(f->paths[i], sizeof f->paths[i], "/tmp/sluice-stream-%d-%u.bin", (int)getpid(), i);
        FILE *out = fopen(f->paths[i], "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(f->data[i], 1, w->file_bytes[i], out), w->file_bytes[i]);
        assert_int_equal(fclose(out), 0);
    }
}

static inline void files_remove(files *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        free(f->data[i]);
        unlink(f->paths[i]);
    }
}

static inline sl_status reader_open(sl_io **io, const reader *kind, const files *f, const world *w,
                                    sl_io_faults *faults)
{
    const char *paths[WORLD_FILES];
    for (uint32_t i = 0; i < f->n; i++)
        paths[i] = f->paths[i];
    sl_status rc = kind->memory ? sl_io_open_memory(io, (const uint8_t *const *)f->data, w->file_bytes, f->n, &last_err)
                                : sl_io_open(io, kind->method, paths, w->file_bytes, f->n, NULL, &last_err);
    if (rc != SL_OK || !kind->faulty) return rc;
    return sl_io_open_faulty(io, *io, faults, &last_err);
}

/* ---- particular worlds ---- */

/* Equal units of whole pages: every number is known. */
static inline void even_world(world *w, uint32_t n_unit, uint32_t n_row)
{
    world_begin(w, 1);
    for (uint32_t i = 0; i < n_unit; i++) {
        const sl_tensor *t = world_tensor(w, 0, 0, SL_F32, 1024, n_row);
        world_unit(w);
        world_rows(w, t, 1024, 0, n_row);
    }
}

/* Large enough for huge pages, for pieces of a request, and for advice to drop. */
static inline void large_world(world *w)
{
    world_begin(w, 1);
    w->file_bytes[0] = 1234;
    for (int i = 0; i < 6; i++) {
        const sl_tensor *a = world_tensor(w, 0, 3, SL_Q8_0, 1024, 1200), *b = world_tensor(w, 0, 0, SL_F16, 1024, 1600);
        world_unit(w);
        world_rows(w, b, 1024, 0, 1600);
        world_rows(w, a, 1024, 0, 1200);
    }
}

static inline void misuse(sl_status rc, const char *part)
{
    assert_int_equal(rc, SL_ERR_ARG);
    if (!strstr(last_err.msg, part)) fail_msg("\"%s\" does not say \"%s\"", last_err.msg, part);
}

#endif
