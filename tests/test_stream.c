/* Residency at work: whatever the reader, policy, budget and order of units, the matrices hold the file's bytes; reads
 * are what the plan says; failures leave nothing behind.
 *
 * Most tests run over a "late" reader of their own, which is as awkward as the contract allows: memory is scribbled
 * over at submission and only filled when waited for or polled, requests are checked (alignment, overlap with others
 * under way, waited for once), and any read or submission can fail. */
#include "os/os.h"
#include "stream_world.h"

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
    uint64_t n_read, n_submit;
    uint64_t fail_read, fail_submit; /* 1-based; 0: never */
    uint64_t broken_file;            /* every read of this file + 1 fails */
    bool never_polls;                /* nothing is done before it is waited for */
    uint32_t n_wrong;                /* violations of the contract */
    world_rng rng;
} late_io;

static void wrong(late_io *l, const char *what)
{
    fprintf(stderr, "late reader: %s\n", what);
    l->n_wrong++;
}

static bool overlaps(const sl_io_req *a, const sl_io_req *b)
{
    const uint8_t *pa = a->dst, *pb = b->dst;
    return pa < pb + b->bytes && pb < pa + a->bytes;
}

static void accept(late_io *l, sl_io_req *q)
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

static sl_status late_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    late_io *l = (late_io *)io;
    bool fails = ++l->n_submit == l->fail_submit;
    for (size_t i = 0; i < (fails ? n / 2 : n); i++) accept(l, reqs[i]);
    return fails ? sl_fail(err, SL_ERR_NOMEM, "injected at submission %llu", (unsigned long long)l->n_submit) : SL_OK;
}

static void fill_in(late_io *l, sl_io_req *q)
{
    if (q->state == 2) return;
    uint64_t size = l->sizes[q->file], left = q->offset_bytes < size ? size - q->offset_bytes : 0;
    if (q->os_errno == 0) world_fill(q->dst, q->file, q->offset_bytes, q->need_bytes); /* no byte more */
    l->io.bytes_read += sl_min_u64(left, q->bytes);
    q->state = 2;
}

static sl_status late_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    late_io *l = (late_io *)io;
    uint32_t i = 0;
    while (i < l->n_flight && l->flight[i] != req) i++;
    if (i == l->n_flight) {
        wrong(l, "wait for a request that is not under way");
        return sl_fail(err, SL_ERR_IO, "not under way");
    }
    l->flight[i] = l->flight[--l->n_flight];
    fill_in(l, req);
    req->state = 0;
    return req->os_errno ? sl_fail(err, SL_ERR_IO, "injected at file %u offset %llu", req->file,
                                   (unsigned long long)req->offset_bytes)
                         : SL_OK;
}

static bool late_poll(sl_io *io, sl_io_req *req)
{
    late_io *l = (late_io *)io;
    if (req->state == 1 && !l->never_polls && world_below(&l->rng, 3) == 0) fill_in(l, req);
    return req->state == 2;
}

static const sl_io_ops late_ops = {.submit = late_submit, .wait = late_wait, .poll = late_poll};

static void late_open(late_io *l, const world *w, uint32_t align)
{
    *l = (late_io){.io = {.ops = &late_ops, .name = "late", .align = align, .piece_bytes = MIB, .depth = 8},
                   .sizes = w->file_bytes, .n_file = w->n_file, .rng = {7}};
}

/* ---- helpers ---- */

static sl_err last_err;

static void ok(sl_status rc)
{
    if (rc != SL_OK) fail_msg("status %d: %s", (int)rc, last_err.msg);
}

static sl_residency_plan plan_of(const sl_residency_options *opt, uint64_t avail)
{
    sl_residency_plan p;
    ok(sl_residency_plan_for(opt, avail, &p, &last_err));
    return p;
}

static sl_residency *open_loaded(const sl_residency_options *opt, uint64_t avail, sl_io *io, sl_ledger *ledger)
{
    sl_residency *r = NULL;
    ok(sl_residency_open(&r, opt, avail, io, ledger, &last_err));
    ok(sl_residency_load(r, NULL, NULL, NULL, &last_err));
    return r;
}

/* One sweep, one unit at a time, every byte compared. */
static void sweep(sl_residency *r, const world *w, const uint32_t *seq, uint32_t n, bool again)
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

static uint32_t in_order(const world *w, uint32_t *seq)
{
    for (uint32_t i = 0; i < w->n_unit; i++) seq[i] = i;
    return w->n_unit;
}

static uint64_t budget_at(const sl_residency_options *opt, uint64_t share, uint64_t of)
{
    sl_residency_plan p = plan_of(opt, 0);
    return p.minimum_bytes + (p.full_bytes - p.minimum_bytes) * share / of;
}

static const sl_policy policies[] = {SL_POLICY_AUTO, SL_POLICY_LRU, SL_POLICY_FIFO};
static const uint32_t aligns[] = {1, 512, 4096};

/* ---- bytes ---- */

/* Different sequences one after the other: all, part, back to front, with repeats, again or not, cut short. */
static void many_sweeps(sl_residency *r, const world *w, world_rng *rng)
{
    uint32_t seq[WORLD_UNITS * 2], n = in_order(w, seq);
    sweep(r, w, seq, n, true);
    sweep(r, w, seq, n, true);
    for (int k = 0; k < 6; k++) {
        uint32_t n_some = 1 + (uint32_t)world_below(rng, 2 * n);
        for (uint32_t i = 0; i < n_some; i++) {
            seq[i] = (uint32_t)world_below(rng, n);
            if (i && world_below(rng, 4) == 0) seq[i] = seq[i - 1];
        }
        sweep(r, w, seq, n_some, world_below(rng, 2));
        if (world_below(rng, 3) == 0) sl_residency_quiesce(r);
    }
    for (uint32_t i = 0; i < n; i++) seq[i] = n - 1 - i;
    sweep(r, w, seq, n, false);
    sweep(r, w, seq, 0, true);
}

static void check_table(sl_residency *r, const world *w, world_rng *rng)
{
    uint64_t row_bytes = w->table->size_bytes / w->table->dims[0];
    int32_t ids[19];
    uint8_t *dst = malloc(19 * row_bytes);
    for (uint32_t n = 0; n <= 19; n += 1 + (uint32_t)world_below(rng, 6)) {
        for (uint32_t i = 0; i < n; i++) {
            ids[i] = (int32_t)world_below(rng, w->table->dims[0]);
            if (i && world_below(rng, 3) == 0) ids[i] = ids[i - 1]; /* twice */
            if (i && world_below(rng, 3) == 0 && ids[i - 1] > 0) ids[i] = ids[i - 1] - 1; /* neighbours, descending */
        }
        memset(dst, 0x11, 19 * row_bytes);
        ok(sl_residency_table_rows(r, ids, n, dst, &last_err));
        for (uint32_t i = 0; i < n; i++) {
            uint64_t at = w->table->offset_bytes + (uint64_t)ids[i] * row_bytes;
            assert_true(world_compare(dst + i * row_bytes, w->table->file, at, row_bytes) == row_bytes);
        }
        for (uint64_t k = n * row_bytes; k < 19 * row_bytes; k++) assert_int_equal(dst[k], 0x11);
    }
    free(dst);
}

static void check_memory(const sl_residency *r, const sl_residency_plan *p, const sl_ledger *ledger)
{
    sl_residency_plan real;
    sl_residency_get_plan(r, &real);
    assert_memory_equal(&real, p, sizeof real);
    assert_int_equal(ledger->used[SL_MEM_RESIDENT], p->resident_bytes);
    assert_int_equal(ledger->used[SL_MEM_WINDOW], p->window_bytes + p->staging_bytes);
}

static void test_bytes_with_late_reader(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world_make(&w, seed);
        world_rng rng = {seed};
        for (uint64_t share = 0; share <= 8; share += 1 + share / 4) {
            sl_residency_options opt = world_options(&w, aligns[world_below(&rng, 3)]);
            opt.policy = policies[world_below(&rng, 3)];
            uint64_t avail = budget_at(&opt, share, 8), live = sl_alloc_live_bytes();
            sl_residency_plan p = plan_of(&opt, avail);
            sl_ledger ledger;
            sl_ledger_init(&ledger, avail);
            late_open(&late, &w, opt.align);
            sl_residency *r = open_loaded(&opt, avail, &late.io, &ledger);
            check_memory(r, &p, &ledger);
            check_table(r, &w, &rng);
            many_sweeps(r, &w, &rng);
            check_table(r, &w, &rng);
            sl_residency_close(r);
            assert_int_equal(late.n_wrong, 0);
            assert_int_equal(late.n_flight, 0);
            assert_int_equal(ledger.total, 0);
            assert_int_equal(sl_alloc_live_bytes(), live);
        }
    }
}

/* ---- real readers ---- */

typedef struct {
    const char *name;
    sl_io_method method;
    bool memory, views, faulty;
} reader;

static const reader readers[] = {
    {"memory", SL_IO_AUTO, true, false, false},   {"memory, views", SL_IO_AUTO, true, true, false},
    {"pread", SL_IO_PREAD, false, false, false},  {"uring", SL_IO_URING, false, false, false},
    {"buffered", SL_IO_BUFFERED, false, false, false}, {"mmap", SL_IO_MMAP, false, true, false},
    {"mmap, read", SL_IO_MMAP, false, false, false},   {"pread, delayed", SL_IO_PREAD, false, false, true},
    {"uring, delayed", SL_IO_URING, false, false, true},
};

typedef struct {
    char paths[WORLD_FILES][64];
    uint8_t *data[WORLD_FILES];
    uint32_t n;
} files;

static void files_write(files *f, const world *w)
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

static void files_remove(files *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        free(f->data[i]);
        unlink(f->paths[i]);
    }
}

static sl_status reader_open(sl_io **io, const reader *kind, const files *f, const world *w, sl_io_faults *faults)
{
    const char *paths[WORLD_FILES];
    for (uint32_t i = 0; i < f->n; i++) paths[i] = f->paths[i];
    sl_status rc = kind->memory
                       ? sl_io_open_memory(io, (const uint8_t *const *)f->data, w->file_bytes, f->n, &last_err)
                       : sl_io_open(io, kind->method, paths, w->file_bytes, f->n, NULL, &last_err);
    if (rc != SL_OK || !kind->faulty) return rc;
    return sl_io_open_faulty(io, *io, faults, &last_err);
}

static void one_reader(const reader *kind, const files *f, const world *w, uint64_t seed, uint64_t share)
{
    world_rng rng = {seed * 31 + share};
    sl_io_faults faults = {.delay_max_us = 300, .seed = seed};
    sl_io *io = NULL;
    if (reader_open(&io, kind, f, w, &faults) == SL_ERR_UNSUPPORTED) {
        printf("reader %s left out: %s\n", kind->name, last_err.msg);
        return;
    }
    assert_non_null(io);
    sl_residency_options opt = world_options(w, io->align);
    opt.views = kind->views;
    opt.policy = policies[world_below(&rng, 3)];
    uint64_t avail = budget_at(&opt, share, 4);
    sl_residency_plan p = plan_of(&opt, avail);
    sl_ledger ledger;
    sl_ledger_init(&ledger, avail);
    sl_residency *r = open_loaded(&opt, avail, io, &ledger);
    check_memory(r, &p, &ledger);
    check_table(r, w, &rng);
    many_sweeps(r, w, &rng);
    sl_residency_close(r);
    sl_io_close(io);
    assert_int_equal(ledger.total, 0);
}

static void test_bytes_with_real_readers(void **state)
{
    (void)state;
    static world w;
    for (uint64_t seed = 40; seed < 44; seed++) {
        files f;
        world_make(&w, seed);
        files_write(&f, &w);
        for (size_t k = 0; k < sizeof readers / sizeof readers[0]; k++)
            for (uint64_t share = 0; share <= 4; share += 2) one_reader(&readers[k], &f, &w, seed, share);
        files_remove(&f);
    }
}

/* Large enough for huge pages, for pieces of a request, and for advice to drop. */
static void large_world(world *w)
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

static void test_large_units(void **state)
{
    (void)state;
    static world w;
    files f;
    large_world(&w);
    files_write(&f, &w);
    for (size_t k = 0; k < sizeof readers / sizeof readers[0]; k++) {
        sl_io *io = NULL;
        sl_io_faults faults = {.delay_max_us = 1000, .seed = k};
        if (reader_open(&io, &readers[k], &f, &w, &faults) == SL_ERR_UNSUPPORTED) {
            printf("reader %s left out: %s\n", readers[k].name, last_err.msg);
            continue;
        }
        sl_residency_options opt = world_options(&w, io->align);
        opt.views = readers[k].views;
        sl_residency *r = open_loaded(&opt, budget_at(&opt, 1, 3), io, NULL);
        sl_residency_plan p;
        sl_residency_get_plan(r, &p);
        uint32_t seq[6], n = in_order(&w, seq);
        uint64_t loaded = io->bytes_read;
        for (int s = 0; s < 3; s++) sweep(r, &w, seq, n, true);
        sl_residency_quiesce(r);
        sl_residency_stats stats;
        sl_residency_get_stats(r, &stats);
        assert_int_equal(stats.acquired, 18);
        assert_int_equal(stats.released, 18);
        assert_int_equal(stats.tensors_loaded, 36);
        assert_int_equal(stats.tensors_released, 36);
        assert_int_equal(stats.failed, 0);
        if (!readers[k].views) {
            uint64_t ahead = p.n_window * p.stream_bytes / 6;
            assert_in_range(io->bytes_read - loaded, 3 * p.stream_bytes - PAGE, 3 * p.stream_bytes + ahead);
        } else if (io->ops->advise) {
            assert_true(io->n_need >= 18);
            assert_true(io->n_drop >= 18 - p.n_window);
        }
        sl_residency_close(r);
        sl_io_close(io);
    }
    files_remove(&f);
}

/* Rows listed twice in a unit, overlapping rows, and a tensor that two units share: unusual, and right at every cut.
 * Shared rows are kept once. */
static void test_overlapping_rows(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    world_begin(&w, 1);
    w.file_bytes[0] = 5;
    const sl_tensor *a = world_tensor(&w, 0, 0, SL_Q4_0, 512, 100), *b = world_tensor(&w, 0, 9, SL_Q6_K, 512, 50);
    for (int u = 0; u < 3; u++) {
        const sl_tensor *own = world_tensor(&w, 0, 100000, SL_F16, 256, 80);
        world_unit(&w);
        world_rows(&w, a, 512, 20, 60);
        world_rows(&w, own, 256, 0, 80);
        world_rows(&w, a, 512, 0, 100);
        world_rows(&w, b, 512, 10, 40);
        world_rows(&w, b, 512, 10, 40);
    }
    for (size_t k = 0; k < 3; k++) {
        sl_residency_options opt = world_options(&w, aligns[k]);
        sl_residency_plan full = plan_of(&opt, UINT64_MAX);
        uint64_t once = a->size_bytes + 40 * 420 + 3 * 80 * 512;
        assert_in_range(full.full_bytes, once, once + 2 * 4096 + 6 * PAGE);
        for (uint64_t share = 0; share <= 150; share++) {
            uint32_t seq[] = {0, 1, 2, 1, 1};
            late_open(&late, &w, aligns[k]);
            sl_residency *r = open_loaded(&opt, budget_at(&opt, share, 150), &late.io, NULL);
            for (int s = 0; s < 2; s++) sweep(r, &w, seq, 5, true);
            sl_residency_close(r);
            assert_int_equal(late.n_wrong, 0);
        }
    }
}

/* mmap: what is not wanted soon is given back at release, not later; neighbours in the same pages stay. */
static void test_pages_are_dropped(void **state)
{
    (void)state;
    static world w;
    files f;
    large_world(&w);
    files_write(&f, &w);
    sl_io *io = NULL;
    ok(reader_open(&io, &readers[5], &f, &w, NULL));
    assert_string_equal(io->name, "mmap");
    sl_residency_options opt = world_options(&w, io->align);
    opt.views = true;
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 1, 3), io, NULL);
    sl_matrix m[2];
    const uint32_t seq[] = {0, 1, 0, 3};
    uint64_t need = io->n_need;
    assert_true(need > 0); /* the resident part */
    ok(sl_residency_begin(r, seq, 4, false, &last_err));
    assert_int_equal(io->n_need, need + 2);
    for (uint32_t i = 0; i < 4; i++) {
        static const uint64_t drops[] = {0, 1, 2, 3}; /* unit 0 is wanted again after step 0 */
        ok(sl_residency_acquire(r, i, m, &last_err));
        assert_true(world_check_views(&w, seq[i], m));
        sl_residency_release(r, i);
        assert_int_equal(io->n_drop, drops[i]);
    }
    assert_int_equal(io->n_need, need + 3);
    sl_residency_close(r);
    sl_io_close(io);
    files_remove(&f);
}

/* ---- what is read ---- */

static void test_reads_are_the_plans(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    for (uint64_t seed = 100; seed < 120; seed++) {
        world_make(&w, seed);
        w.table = NULL; /* counted bytes are then the units' only */
        sl_residency_options opt = world_options(&w, aligns[seed % 3]);
        for (uint64_t share = 0; share <= 6; share++) {
            late_open(&late, &w, opt.align);
            sl_residency_plan p = plan_of(&opt, budget_at(&opt, share, 6));
            sl_residency *r = open_loaded(&opt, budget_at(&opt, share, 6), &late.io, NULL);
            uint32_t seq[WORLD_UNITS], n = in_order(&w, seq);
            /* reads reach up to a page beyond the end of each file, where there is nothing */
            uint64_t ends = w.n_file * (uint64_t)PAGE;
            assert_in_range(late.io.bytes_read, p.resident_bytes - sl_min_u64(p.resident_bytes, PAGE + ends),
                            p.resident_bytes);
            for (int s = 0; s < 3; s++) {
                sweep(r, &w, seq, n, true);
                sl_residency_quiesce(r);
                uint64_t before = late.io.bytes_read;
                sweep(r, &w, seq, n, true);
                sl_residency_quiesce(r); /* as much is read ahead now as was then: a whole cycle between */
                uint64_t got = late.io.bytes_read - before;
                assert_in_range(got, p.stream_bytes - sl_min_u64(p.stream_bytes, ends), p.stream_bytes);
            }
            if (share == 6) assert_int_equal(p.stream_bytes, 0);
            sl_residency_close(r);
            assert_int_equal(late.n_wrong, 0);
        }
    }
}

/* Equal units of whole pages: every number is known. */
static void even_world(world *w, uint32_t n_unit, uint32_t n_row)
{
    world_begin(w, 1);
    for (uint32_t i = 0; i < n_unit; i++) {
        const sl_tensor *t = world_tensor(w, 0, 0, SL_F32, 1024, n_row);
        world_unit(w);
        world_rows(w, t, 1024, 0, n_row);
    }
}

/* 8 (16 - k) + 2 k pages of memory is 80 at k = 8: half of each unit stays, and the gaps of 32 KiB between the halves
 * are read over nowhere, since memory is dearer than requests. */
static void test_halves(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 8, 16);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, 80 * PAGE, &late.io, NULL);
    assert_int_equal(late.n_read, 8);
    assert_int_equal(late.io.bytes_read, 8 * 8 * PAGE);
    const uint32_t seq[] = {3};
    sl_matrix m[1];
    ok(sl_residency_begin(r, seq, 1, false, &last_err));
    ok(sl_residency_acquire(r, 0, m, &last_err));
    assert_int_equal(m[0].n_part, 2);
    assert_int_equal(m[0].part[0].n_row, 8);
    assert_int_equal(m[0].part[1].first_row, 8);
    assert_int_equal(late.n_read, 9);
    assert_int_equal(late.io.bytes_read, 9 * 8 * PAGE);
    sl_residency_close(r); /* with a unit held */
    assert_int_equal(late.n_wrong, 0);
}

typedef struct {
    uint32_t n, units[64];
} hook_log;

static void on_prefetch(void *user, uint32_t unit)
{
    hook_log *h = user;
    h->units[h->n++] = unit;
}

static void test_windows_step_by_step(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 5, 16);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency_plan p = plan_of(&opt, 0);
    sl_residency *r = open_loaded(&opt, p.minimum_bytes, &late.io, NULL);
    hook_log hook = {0};
    sl_residency_set_prefetch_hook(r, on_prefetch, &hook);
    sl_matrix m[1];
    sl_residency_stats s;
    assert_int_equal(late.n_read, 0); /* nothing is resident */

    const uint32_t seq[] = {0, 1, 2, 3, 4};
    ok(sl_residency_begin(r, seq, 5, true, &last_err));
    assert_int_equal(late.n_flight, 2); /* both windows are under way before anything is asked for */
    ok(sl_residency_acquire(r, 0, m, &last_err));
    assert_int_equal(late.n_flight, 1); /* waits for its own only */
    sl_residency_release(r, 0);
    assert_int_equal(late.n_flight, 2); /* unit 2 starts in the window of unit 0 */
    for (uint32_t i = 1; i < 5; i++) {
        ok(sl_residency_acquire(r, i, m, &last_err));
        sl_residency_release(r, i);
    }
    sl_residency_end(r);
    assert_int_equal(late.n_read, 7); /* five, and the next sweep's first two */
    assert_int_equal(late.n_flight, 2);
    assert_int_equal(hook.n, 7);
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(hook.units[i], i % 5);
    sl_residency_get_stats(r, &s);
    assert_int_equal(s.prefetched, 7);
    assert_int_equal(s.misses, 5);
    assert_int_equal(s.hits, 0);

    sl_residency_quiesce(r);
    assert_int_equal(late.n_flight, 0);
    ok(sl_residency_begin(r, seq, 2, false, &last_err)); /* both are there */
    assert_int_equal(late.n_flight, 0);
    for (uint32_t i = 0; i < 2; i++) {
        ok(sl_residency_acquire(r, i, m, &last_err));
        assert_true(world_check_views(&w, i, m));
        sl_residency_release(r, i);
    }
    sl_residency_end(r);
    assert_int_equal(late.n_read, 7); /* not again: nothing is expected */

    const uint32_t other[] = {4, 1, 4, 4, 1}; /* unit 1 is kept, unit 0 is not wanted */
    ok(sl_residency_begin(r, other, 5, true, &last_err));
    for (uint32_t i = 0; i < 5; i++) {
        ok(sl_residency_acquire(r, i, m, &last_err));
        assert_true(world_check_views(&w, other[i], m));
        sl_residency_release(r, i);
    }
    sl_residency_end(r);
    assert_int_equal(late.n_read, 8);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* A changed sequence while reads for the old one are under way. */
static void test_changed_sequence_waits_for_memory(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 6, 8);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 0, 1), &late.io, NULL);
    const uint32_t first[] = {0, 1, 2}, second[] = {5, 4, 1, 3};
    sl_matrix m[1];
    for (int k = 0; k < 20; k++) {
        ok(sl_residency_begin(r, first, 3, true, &last_err));
        if (k % 2) {
            ok(sl_residency_acquire(r, 0, m, &last_err));
            assert_true(world_check_views(&w, 0, m));
        }
        sl_residency_end(r); /* early, with a unit held */
        assert_int_equal(sl_residency_pinned_count(r), 0);
        sweep(r, &w, second, 4, k % 3 == 0);
    }
    sl_residency_quiesce(r);
    late.never_polls = true; /* reading ahead does not wait for reads that nobody wants; asking for a unit does */
    ok(sl_residency_begin(r, first, 3, true, &last_err));
    assert_int_equal(late.n_flight, 2);
    uint64_t before = late.n_read;
    ok(sl_residency_begin(r, second, 4, false, &last_err));
    assert_int_equal(late.n_flight, 2);
    assert_int_equal(late.n_read, before + 1); /* of unit 1, wanted by both; unit 5 has to wait */
    ok(sl_residency_acquire(r, 0, m, &last_err));
    assert_true(world_check_views(&w, 5, m));
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
    assert_int_equal(late.n_flight, 0);
}

static void test_several_held(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 64, 64);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, plan_of(&opt, 0).full_bytes - 200 * PAGE, &late.io, NULL);
    sl_residency_plan p;
    sl_residency_get_plan(r, &p);
    assert_int_equal(p.n_window, 3);
    const uint32_t seq[] = {10, 11, 11, 12, 13, 14};
    sl_matrix m[6];
    ok(sl_residency_begin(r, seq, 6, false, &last_err));
    for (uint32_t i = 0; i < 4; i++) ok(sl_residency_acquire(r, i, &m[i], &last_err)); /* three units: 11 twice */
    assert_int_equal(sl_residency_pinned_count(r), 4);
    assert_int_equal(sl_residency_acquire(r, 4, &m[4], &last_err), SL_ERR_LIMIT);
    assert_non_null(strstr(last_err.msg, "all 3 are in use"));
    for (uint32_t i = 0; i < 4; i++) assert_true(world_check_views(&w, seq[i], &m[i]));
    sl_residency_release(r, 1);
    assert_int_equal(sl_residency_acquire(r, 4, &m[4], &last_err), SL_ERR_LIMIT); /* step 2 still holds unit 11 */
    sl_residency_release(r, 2);
    ok(sl_residency_acquire(r, 4, &m[4], &last_err));
    assert_true(world_check_views(&w, 13, &m[4]));
    assert_true(world_check_views(&w, 10, &m[0]));
    assert_true(world_check_views(&w, 12, &m[3]));
    assert_int_equal(sl_residency_pinned_count(r), 3);
    sl_residency_release(r, 0);
    sl_residency_release(r, 0); /* twice changes nothing */
    assert_int_equal(sl_residency_pinned_count(r), 2);
    ok(sl_residency_acquire(r, 5, &m[5], &last_err));
    assert_true(world_check_views(&w, 14, &m[5]));
    sl_residency_end(r);
    assert_int_equal(sl_residency_pinned_count(r), 0);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* ---- lru and fifo ---- */

typedef struct {
    uint64_t hits, misses, evictions;
} counts;

static counts run_slots(const world *w, sl_policy policy, uint32_t n_slot, const uint32_t *seq, uint32_t n)
{
    static late_io late;
    sl_residency_options opt = world_options(w, PAGE);
    opt.policy = policy;
    late_open(&late, w, PAGE);
    sl_residency *r = open_loaded(&opt, n_slot * 8 * PAGE, &late.io, NULL);
    sl_residency_plan p;
    sl_residency_get_plan(r, &p);
    assert_int_equal(p.n_window, n_slot);
    sweep(r, w, seq, n, false);
    sl_residency_stats s;
    sl_residency_get_stats(r, &s);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
    assert_int_equal(late.n_read, s.misses);
    return (counts){s.hits, s.misses, s.evictions};
}

/* By hand, three slots.  0 1 2 are read; 0 and 1 hit; 3 is read ahead while 1 is in use: lru drops 2, fifo drops 0, the
 * first that was read.  Then 0 hits under lru; under fifo it is read again, dropping 1. */
static void test_lru_and_fifo(void **state)
{
    (void)state;
    static world w;
    even_world(&w, 8, 8);
    const uint32_t seq[] = {0, 1, 2, 0, 1, 3, 0};
    counts c = run_slots(&w, SL_POLICY_LRU, 3, seq, 7);
    assert_int_equal(c.misses, 4);
    assert_int_equal(c.hits, 3);
    assert_int_equal(c.evictions, 1);
    c = run_slots(&w, SL_POLICY_FIFO, 3, seq, 7);
    assert_int_equal(c.misses, 5);
    assert_int_equal(c.hits, 2);
    assert_int_equal(c.evictions, 2);

    const uint32_t cycle[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = 1; i < 3; i++) {
        c = run_slots(&w, policies[i], 7, cycle, 16);
        assert_int_equal(c.hits, 0); /* the reason for pin */
        assert_int_equal(c.evictions, 9);
        c = run_slots(&w, policies[i], 8, cycle, 16);
        assert_int_equal(c.hits, 8);
        assert_int_equal(c.evictions, 0);
    }
}

/* ---- protocol ---- */

static void misuse(sl_status rc, const char *part)
{
    assert_int_equal(rc, SL_ERR_ARG);
    if (!strstr(last_err.msg, part)) fail_msg("\"%s\" does not say \"%s\"", last_err.msg, part);
}

static void test_misuse(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 4, 8);
    w.table = &w.tensors[3];
    w.table_n_in = 1024;
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = NULL;
    sl_matrix m[1];
    uint8_t row[2 * PAGE];
    const uint32_t seq[] = {0, 1, 4};
    const int32_t ids[] = {0, 8, -1};

    opt.views = true;
    misuse(sl_residency_open(&r, &opt, MIB, &late.io, NULL, &last_err), "late gives no views");
    opt.views = false;
    opt.align = 512;
    misuse(sl_residency_open(&r, &opt, MIB, &late.io, NULL, &last_err), "alignment of 4096");
    opt.align = PAGE;
    assert_int_equal(sl_residency_open(&r, &opt, 3 * PAGE, &late.io, NULL, &last_err), SL_ERR_BUDGET);
    assert_null(r);
    sl_ledger small;
    sl_ledger_init(&small, 10 * PAGE); /* someone else took what was planned with */
    assert_int_equal(sl_residency_open(&r, &opt, 32 * PAGE, &late.io, &small, &last_err), SL_ERR_BUDGET);
    assert_int_equal(small.total, 0);

    ok(sl_residency_open(&r, &opt, budget_at(&opt, 1, 2), &late.io, NULL, &last_err));
    misuse(sl_residency_begin(r, seq, 2, false, &last_err), "before the resident weights were loaded");
    misuse(sl_residency_table_rows(r, ids, 1, row, &last_err), "before weights were loaded");
    ok(sl_residency_load(r, NULL, NULL, NULL, &last_err));
    misuse(sl_residency_acquire(r, 0, m, &last_err), "step 0");
    misuse(sl_residency_begin(r, seq, 3, false, &last_err), "step 2 of a sweep is unit 4 of 4");
    ok(sl_residency_begin(r, seq, 2, false, &last_err));
    misuse(sl_residency_acquire(r, 1, m, &last_err), "step 0 of 2 is next");
    ok(sl_residency_acquire(r, 0, m, &last_err));
    misuse(sl_residency_begin(r, seq, 2, false, &last_err), "1 units are acquired");
    misuse(sl_residency_acquire(r, 0, m, &last_err), "step 1 of 2 is next");
    sl_residency_release(r, 1); /* never acquired */
    sl_residency_release(r, 77);
    assert_int_equal(sl_residency_pinned_count(r), 1);
    sl_residency_end(r);
    sl_residency_end(r);
    misuse(sl_residency_acquire(r, 1, m, &last_err), "of 0");
    misuse(sl_residency_table_rows(r, ids + 1, 1, row, &last_err), "row 8 of table");
    misuse(sl_residency_table_rows(r, ids + 2, 1, row, &last_err), "row -1 of table");
    misuse(sl_residency_table_rows(r, ids, 20, row, &last_err), "at most 19");
    sl_residency_close(r);
    sl_residency_close(NULL);

    opt.table = NULL;
    r = open_loaded(&opt, MIB, &late.io, NULL);
    misuse(sl_residency_table_rows(r, ids, 1, row, &last_err), "no table");
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

static void test_refusal_has_the_sum(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 10, 256);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = NULL;
    sl_err err = {0};
    assert_int_equal(sl_residency_open(&r, &opt, 1536 * 1024, &late.io, NULL, &err), SL_ERR_BUDGET);
    char need[24], have[24], full[24];
    assert_non_null(strstr(err.msg, sl_size_text(2 * MIB, need)));
    assert_non_null(strstr(err.msg, sl_size_text(1536 * 1024, have)));
    assert_non_null(strstr(err.msg, sl_size_text(10 * MIB, full)));
}

/* ---- loading ---- */

typedef struct {
    uint32_t n;
    uint64_t last, total;
    volatile bool cancel;
    uint32_t cancel_at; /* n-th call; 0: never */
    bool fell;
} load_log;

static void on_load(void *user, const sl_progress *p)
{
    load_log *l = user;
    if (p->phase != SL_PHASE_LOAD || p->done_bytes < l->last || p->done_bytes > p->total_bytes) l->fell = true;
    l->last = p->done_bytes;
    l->total = p->total_bytes;
    if (++l->n == l->cancel_at) l->cancel = true;
}

static void test_load(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    large_world(&w);
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency_plan p = plan_of(&opt, UINT64_MAX);
    sl_residency *r = NULL;
    ok(sl_residency_open(&r, &opt, p.full_bytes, &late.io, NULL, &last_err));
    load_log log = {.cancel = true};
    assert_int_equal(sl_residency_load(r, &log.cancel, on_load, &log, &last_err), SL_ERR_CANCELED);
    assert_int_equal(log.n, 0);
    assert_int_equal(late.n_flight, 0);
    misuse(sl_residency_begin(r, NULL, 0, false, &last_err), "before");

    log = (load_log){0};
    ok(sl_residency_load(r, &log.cancel, on_load, &log, &last_err));
    assert_true(log.n >= 1);
    assert_false(log.fell);
    assert_int_equal(log.last, p.resident_bytes);
    assert_int_equal(log.total, p.resident_bytes);
    assert_true(late.max_flight >= 4);
    /* every byte once: tensors lie back to back, so the file from the first page on */
    assert_in_range(late.io.bytes_read, w.file_bytes[0] - PAGE, w.file_bytes[0]);

    uint64_t loaded = late.io.bytes_read;
    uint32_t seq[6], n = in_order(&w, seq);
    for (int i = 0; i < 2; i++) sweep(r, &w, seq, n, true);
    assert_int_equal(late.io.bytes_read, loaded); /* nothing is read after load */
    sl_residency_stats s;
    sl_residency_get_stats(r, &s);
    assert_int_equal(s.hits, 12);
    assert_int_equal(s.misses, 0);
    assert_true(s.wait_s == 0);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* A load that takes longer than the time between two reports is reported on the way, and can be stopped there. */
static sl_status slow_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    usleep(15000);
    return late_wait(io, req, err);
}

static void test_cancel_while_loading(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    static const sl_io_ops slow = {.submit = late_submit, .wait = slow_wait, .poll = late_poll};
    even_world(&w, 1, 25 * 1024); /* 100 MiB: 25 pieces */
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    late.io.ops = &slow;
    sl_residency *r = NULL;
    ok(sl_residency_open(&r, &opt, 101 * MIB, &late.io, NULL, &last_err));
    load_log log = {.cancel_at = 1};
    assert_int_equal(sl_residency_load(r, &log.cancel, on_load, &log, &last_err), SL_ERR_CANCELED);
    assert_int_equal(log.n, 1);
    assert_true(log.last > 0 && log.last < 100 * MIB);
    assert_int_equal(log.total, 100 * MIB);
    assert_int_equal(late.n_flight, 0);
    assert_true(late.n_read < 25);
    sl_residency_close(r);
}

/* ---- table ---- */

static void test_table_rows_share_pages(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    even_world(&w, 4, 64);
    w.table = world_tensor(&w, 0, 100, SL_F32, 256, 1000); /* four rows to a page, at an odd place */
    w.table_n_in = 256;
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 1, 3), &late.io, NULL);
    uint64_t loaded = late.n_read, bytes = late.io.bytes_read;
    int32_t ids[19] = {500, 501, 500, 500, 499, 502, 501, 500, 498, 503, 500, 501, 502, 503, 499, 498, 500, 500, 500};
    static uint8_t dst[19 * 1024];
    ok(sl_residency_table_rows(r, ids, 19, dst, &last_err));
    assert_int_equal(late.n_read, loaded + 1); /* rows 498 to 503 are neighbours */
    assert_in_range(late.io.bytes_read - bytes, 6 * 1024, 6 * 1024 + 2 * PAGE);
    for (int i = 0; i < 19; i++) {
        uint64_t at = w.table->offset_bytes + (uint64_t)ids[i] * 1024;
        assert_int_equal(world_compare(dst + i * 1024, 0, at, 1024), 1024);
    }
    const int32_t some[] = {502, 500, 507}; /* 500 and 502 share a page or lie in two that touch; so does 507 */
    loaded = late.n_read;
    ok(sl_residency_table_rows(r, some, 3, dst, &last_err));
    assert_int_equal(late.n_read, loaded + 1);
    int32_t spread[19];
    for (int i = 0; i < 19; i++) spread[i] = 50 * (19 - i);
    loaded = late.n_read;
    ok(sl_residency_table_rows(r, spread, 19, dst, &last_err));
    assert_int_equal(late.n_read, loaded + 19);
    assert_true(late.max_flight >= 19); /* one batch */
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

static void test_tied_rows_come_from_memory(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    world_begin(&w, 1);
    const sl_tensor *t = world_tensor(&w, 0, 0, SL_F32, 1024, 400);
    for (uint32_t i = 0; i < 4; i++) {
        world_unit(&w);
        world_rows(&w, t, 1024, i * 100, 100);
    }
    w.table = t;
    w.table_n_in = 1024;
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    /* staging is 20 pages or so; of each unit the first rows stay */
    sl_residency *r = open_loaded(&opt, 340 * PAGE, &late.io, NULL);
    sl_residency_plan p;
    sl_residency_get_plan(r, &p);
    assert_in_range(p.t_bytes / PAGE, 30, 50);
    uint64_t before = late.n_read;
    const int32_t ids[] = {0, 99, 100, 149, 399, 305};
    static uint8_t dst[6 * PAGE];
    ok(sl_residency_table_rows(r, ids, 6, dst, &last_err));
    assert_int_equal(late.n_read - before, 2); /* 99 and 399 */
    for (int i = 0; i < 6; i++)
        assert_int_equal(world_compare(dst + i * PAGE, 0, (uint64_t)ids[i] * PAGE, PAGE), PAGE);
    sl_residency_close(r);

    r = open_loaded(&opt, 400 * PAGE, &late.io, NULL);
    before = late.n_read;
    ok(sl_residency_table_rows(r, ids, 6, dst, &last_err));
    assert_int_equal(late.n_read, before);
    for (int i = 0; i < 6; i++)
        assert_int_equal(world_compare(dst + i * PAGE, 0, (uint64_t)ids[i] * PAGE, PAGE), PAGE);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
}

/* ---- failures ---- */

/* Everything a user of the room does; each step may fail once and is then done again. */
static sl_status life(const world *w, const sl_residency_options *opt, uint64_t avail, sl_io *io, sl_ledger *ledger,
                      sl_status expect)
{
    sl_residency *r = NULL;
    sl_matrix views[MAX_ROWS];
    sl_status rc, seen = SL_OK;
    sl_err err = {0};
    uint32_t seq[WORLD_UNITS], n = in_order(w, seq);
    static uint8_t row[64 * 1024];
    const int32_t id = (int32_t)w->table->dims[0] - 1;
#define TRY(call)                                                                                                          \
    while ((rc = (call)) != SL_OK) {                                                                                       \
        assert_true(rc == expect && err.msg[0]);                                                                           \
        assert_int_equal(seen, SL_OK);                                                                                     \
        seen = rc;                                                                                                         \
    }
    TRY(sl_residency_open(&r, opt, avail, io, ledger, &err))
    TRY(sl_residency_load(r, NULL, NULL, NULL, &err))
    for (int s = 0; s < 2; s++) {
        TRY(sl_residency_begin(r, seq, n, true, &err))
        TRY(sl_residency_table_rows(r, &id, 1, row, &err))
        for (uint32_t i = 0; i < n; i++) {
            while ((rc = sl_residency_acquire(r, i, views, &err)) != SL_OK) {
                assert_true(rc == expect && err.msg[0] && seen == SL_OK);
                assert_int_equal(sl_residency_pinned_count(r), 0);
                seen = rc;
            }
            assert_true(world_check_views(w, seq[i], views));
            sl_residency_release(r, i);
        }
        sl_residency_end(r);
    }
#undef TRY
    sl_residency_stats st;
    sl_residency_get_stats(r, &st);
    if (st.failed) seen = expect; /* a read ahead for a third sweep that nobody asked for */
    sl_residency_close(r);
    return seen;
}

static void walk_failures(const world *w, const sl_residency_options *opt, uint64_t avail, bool of_submit)
{
    static late_io late;
    for (uint64_t at = 1;; at++) {
        sl_ledger ledger;
        sl_ledger_init(&ledger, avail);
        uint64_t live = sl_alloc_live_bytes();
        late_open(&late, w, opt->align);
        if (of_submit)
            late.fail_submit = at;
        else
            late.fail_read = at;
        life(w, opt, avail, &late.io, &ledger, of_submit ? SL_ERR_NOMEM : SL_ERR_IO);
        assert_int_equal(late.n_wrong, 0);
        assert_int_equal(late.n_flight, 0);
        assert_int_equal(ledger.total, 0);
        assert_int_equal(sl_alloc_live_bytes(), live);
        if ((of_submit ? late.n_submit : late.n_read) < at) break; /* the failure lay beyond the end */
    }
}

static void test_every_read_and_submission_fails_once(void **state)
{
    (void)state;
    static world w;
    for (uint64_t seed = 200; seed < 203; seed++) {
        world_make(&w, seed);
        sl_residency_options opt = world_options(&w, aligns[seed % 3]);
        for (size_t k = 0; k < 3; k++) {
            opt.policy = policies[k];
            uint64_t avail = budget_at(&opt, 1 + seed % 2, 3);
            walk_failures(&w, &opt, avail, false);
            walk_failures(&w, &opt, avail, true);
        }
    }
}

static bool fail_nth(void *user)
{
    int *left = user;
    return --*left == 0;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    world_make(&w, 210);
    for (int views = 0; views < 2; views++) {
        files f;
        files_write(&f, &w);
        sl_io *memory = NULL;
        ok(sl_io_open_memory(&memory, (const uint8_t *const *)f.data, w.file_bytes, f.n, &last_err));
        sl_residency_options opt = world_options(&w, PAGE);
        opt.views = views;
        uint64_t avail = budget_at(&opt, 1, 2), live = sl_alloc_live_bytes();
        for (int at = 1;; at++) {
            sl_ledger ledger;
            sl_ledger_init(&ledger, avail);
            late_open(&late, &w, PAGE);
            int left = at;
            sl_alloc_set_hook(fail_nth, &left);
            sl_status rc = life(&w, &opt, avail, views ? memory : &late.io, &ledger, SL_ERR_NOMEM);
            sl_alloc_set_hook(NULL, NULL);
            assert_int_equal(sl_alloc_live_bytes(), live);
            assert_int_equal(ledger.total, 0);
            assert_int_equal(late.n_flight, 0);
            if (rc == SL_OK) {
                assert_true(at > (views ? 10 : 12));
                break;
            }
        }
        sl_io_close(memory);
        files_remove(&f);
    }
}

/* A drive that stays broken: every attempt is an error, the rest goes on working. */
static void test_lasting_failure(void **state)
{
    (void)state;
    static world w;
    static late_io late;
    world_begin(&w, 2);
    for (uint32_t i = 0; i < 6; i++) {
        const sl_tensor *t = world_tensor(&w, i == 3, 0, SL_F32, 1024, 64);
        world_unit(&w);
        world_rows(&w, t, 1024, 0, 64);
    }
    sl_residency_options opt = world_options(&w, PAGE);
    late_open(&late, &w, PAGE);
    sl_residency *r = open_loaded(&opt, budget_at(&opt, 1, 2), &late.io, NULL);
    late.broken_file = 2;
    const uint32_t seq[] = {2, 3, 4};
    sl_matrix m[1];
    for (int s = 0; s < 3; s++) {
        ok(sl_residency_begin(r, seq, 3, true, &last_err));
        ok(sl_residency_acquire(r, 0, m, &last_err));
        sl_residency_release(r, 0);
        for (int k = 0; k < 3; k++) assert_int_equal(sl_residency_acquire(r, 1, m, &last_err), SL_ERR_IO);
        assert_non_null(strstr(last_err.msg, "file 1"));
        assert_int_equal(sl_residency_pinned_count(r), 0);
        sl_residency_end(r);
    }
    const uint32_t healthy[] = {0, 1, 2, 4, 5};
    sweep(r, &w, healthy, 5, true);
    late.broken_file = 0;
    sweep(r, &w, seq, 3, false);
    sl_residency_close(r);
    assert_int_equal(late.n_wrong, 0);
    assert_int_equal(late.n_flight, 0);
}

/* The project's own faulty reader over real files: one error or one short read at each place in turn. */
static void test_faulty_reader(void **state)
{
    (void)state;
    static world w;
    files f;
    world_make(&w, 220);
    files_write(&f, &w);
    const reader kind = {"pread, faulty", SL_IO_PREAD, false, false, true};
    for (int shorts = 0; shorts < 2; shorts++) {
        for (int64_t at = 1;; at += 1 + at / 8) {
            sl_io_faults faults = {.delay_max_us = 50, .seed = (uint64_t)at};
            *(shorts ? &faults.short_at : &faults.fail_at) = at;
            sl_io *io = NULL;
            ok(reader_open(&io, &kind, &f, &w, &faults));
            sl_residency_options opt = world_options(&w, io->align);
            life(&w, &opt, budget_at(&opt, 1, 2), io, NULL, SL_ERR_IO);
            sl_io_close(io);
            if (faults.calls < at) break;
        }
    }
    files_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_with_late_reader),
        cmocka_unit_test(test_bytes_with_real_readers),
        cmocka_unit_test(test_large_units),
        cmocka_unit_test(test_pages_are_dropped),
        cmocka_unit_test(test_overlapping_rows),
        cmocka_unit_test(test_reads_are_the_plans),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_windows_step_by_step),
        cmocka_unit_test(test_changed_sequence_waits_for_memory),
        cmocka_unit_test(test_several_held),
        cmocka_unit_test(test_lru_and_fifo),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_refusal_has_the_sum),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_cancel_while_loading),
        cmocka_unit_test(test_table_rows_share_pages),
        cmocka_unit_test(test_tied_rows_come_from_memory),
        cmocka_unit_test(test_every_read_and_submission_fails_once),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_lasting_failure),
        cmocka_unit_test(test_faulty_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
