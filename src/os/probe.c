/* Short measurements of the drive and of the memory, for forecasts.  Both take what an engine would get: direct reads
 * of 1 MiB into huge pages, as many under way as the method allows, in runs one behind the other; compute threads streaming
 * through memory. */
#include "os/io.h"
#include "os/mem.h"
#include "os/os.h"
#include "os/pool.h"

#include <string.h>

/* ---- drive ---- */

enum { MAX_UNDER_WAY = 16 };
#define READ_BYTES ((uint64_t)1 << 20)
#define RUN_BYTES  ((uint64_t)16 << 20) /* read in sequence before the next random place, as a layer is */
#define MAX_PROBE  ((uint64_t)2000000000)

typedef struct {
    sl_io *io;
    sl_io_req reqs[MAX_UNDER_WAY];
    uint32_t n_req;
    uint64_t file_bytes, read_bytes; /* read_bytes: of one request */
    uint64_t at, run_left, rng;
} drive;

static void jump(drive *d)
{
    uint64_t places = d->file_bytes > RUN_BYTES ? (d->file_bytes - RUN_BYTES) / d->io->align + 1 : 1;
    d->rng = d->rng * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
    d->at = (d->rng >> 20) % places * d->io->align;
    d->run_left = sl_min_u64(RUN_BYTES, d->file_bytes);
}

/* The next read of a run; a file smaller than one read is read from its start again and again. */
static sl_status read_on(drive *d, sl_io_req *r, sl_err *err)
{
    if (d->run_left < d->read_bytes) jump(d);
    r->offset_bytes = d->at;
    r->bytes = d->read_bytes;
    r->need_bytes = sl_min_u64(d->read_bytes, d->file_bytes - r->offset_bytes);
    d->at += d->read_bytes;
    d->run_left -= sl_min_u64(d->run_left, d->read_bytes);
    return sl_io_submit(d->io, &r, 1, err);
}

static sl_status run_drive(drive *d, double seconds, double *bytes_s, sl_err *err)
{
    uint64_t got = 0;
    sl_status rc = SL_OK;
    double start = sl_now_s(), now = start;
    for (uint32_t i = 0; i < d->n_req && rc == SL_OK; i++)
        rc = read_on(d, &d->reqs[i], err);
    for (uint32_t i = 0; rc == SL_OK; i = (i + 1) % d->n_req) {
        rc = sl_io_wait(d->io, &d->reqs[i], err);
        got += d->reqs[i].need_bytes;
        now = sl_now_s();
        if (now - start >= seconds || got >= MAX_PROBE) break;
        if (rc == SL_OK) rc = read_on(d, &d->reqs[i], err);
    }
    if (rc == SL_OK) *bytes_s = (double)got / (now > start ? now - start : 1e-9);
    return rc;
}

static void set_sizes(drive *d, uint64_t file_bytes, uint64_t max_bytes)
{
    uint64_t most = sl_max_u64(sl_round_down(max_bytes, d->io->align), d->io->align);
    d->file_bytes = file_bytes;
    d->read_bytes = sl_min_u64(sl_min_u64(READ_BYTES, most), sl_round_up(file_bytes, d->io->align));
    d->n_req = (uint32_t)sl_min_u64(sl_min_u64(MAX_UNDER_WAY, d->io->depth), most / d->read_bytes);
}

sl_status sl_drive_probe(const char *path, sl_io_method method, uint64_t max_bytes, double seconds, double *bytes_s,
                         sl_err *err)
{
    sl_file_info info;
    sl_block block = {0};
    drive d = {.rng = (uint64_t)(sl_now_s() * 1e9)}; /* another place each time: the host may cache */
    sl_status rc = sl_file_stat(path, &info, err);
    if (rc != SL_OK) return rc;
    if (info.size_bytes == 0)
        return sl_fail(err, SL_ERR_FORMAT, "%s: an empty file says nothing about its drive", path);
    if ((rc = sl_io_open(&d.io, method, &path, &info.size_bytes, 1, NULL, err)) != SL_OK) return rc;
    set_sizes(&d, info.size_bytes, max_bytes);
    rc = sl_block_open(&block, NULL, SL_MEM_WINDOW, d.n_req * d.read_bytes, SL_BLOCK_HUGE, "drive probe", err);
    for (uint32_t i = 0; i < d.n_req && rc == SL_OK; i++)
        d.reqs[i].dst = block.ptr + (size_t)i * d.read_bytes;
    if (rc == SL_OK) rc = run_drive(&d, seconds, bytes_s, err);
    sl_io_close(d.io); /* before the block: it waits for what is under way */
    sl_block_close(&block);
    return rc;
}

/* ---- memory ---- */

typedef struct {
    const uint64_t *words;
    size_t n_word;
    uint64_t sums[1024]; /* per thread; kept, so that the reading is not optimised away */
} sweep;

/* A cache line. */
typedef uint64_t line __attribute__((vector_size(64)));

/* Fetches ahead (beyond the end, too: any address may be fetched) as the kernels do: a processor's own prefetching ends at
 * each page of 4 KiB, also within a huge one. */
static void sum_share(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    sweep *s = arg;
    enum { AHEAD = 32 };
    const line *lines = (const line *)(const void *)s->words;
    size_t n = s->n_word * sizeof *s->words / sizeof *lines, end = n * (i_thread + 1) / n_thread;
    line acc[2] = {{0}};
    for (size_t i = n * i_thread / n_thread; i + 1 < end; i += 2) {
        __builtin_prefetch(&lines[i + AHEAD]);
        __builtin_prefetch(&lines[i + AHEAD + 1]);
        acc[0] += lines[i];
        acc[1] += lines[i + 1];
    }
    acc[0] += acc[1];
    for (size_t j = 0; j < 8; j++) s->sums[i_thread] += acc[0][j];
}

/* The best of the passes: the others lost time to somebody else. */
static double best_rate(sl_pool *pool, sweep *s, double seconds)
{
    double best = 0, start = sl_now_s(), before = start, now;
    do {
        sl_pool_run(pool, sum_share, s);
        now = sl_now_s();
        double rate = (double)(s->n_word * sizeof *s->words) / (now > before ? now - before : 1e-9);
        if (rate > best) best = rate;
        before = now;
    } while (now - start < seconds);
    return best;
}

sl_status sl_memory_probe(uint32_t n_threads, double seconds, uint64_t max_bytes, double *bytes_s, sl_err *err)
{
    const uint64_t most = (uint64_t)256 << 20; /* well above a core's share of any cache */
    sl_block block = {0};
    sl_pool *pool = NULL;
    sweep s = {0};
    uint64_t bytes = sl_round_down(sl_min_u64(sl_min_u64(most, max_bytes), sl_mem_spare_bytes() / 4), 64);
    if (bytes == 0) return sl_fail(err, SL_ERR_NOMEM, "memory probe: the machine has no memory to spare");
    sl_status rc = sl_pool_open(&pool, n_threads, err);
    if (rc == SL_OK) rc = sl_block_open(&block, NULL, SL_MEM_SCRATCH, bytes, SL_BLOCK_HUGE, "memory probe", err);
    if (rc == SL_OK) {
        s.words = (const uint64_t *)(const void *)block.ptr;
        s.n_word = bytes / sizeof *s.words;
        *bytes_s = best_rate(pool, &s, seconds);
    }
    sl_block_close(&block);
    sl_pool_close(pool);
    return rc;
}
