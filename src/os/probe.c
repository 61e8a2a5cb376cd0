/* Short measurements of the drive and of the memory, for forecasts.  Both take what an engine would get: direct reads
 * of 1 MiB into huge pages, a few at a time; compute threads streaming through memory. */
#include "os/io.h"
#include "os/mem.h"
#include "os/os.h"
#include "os/pool.h"

#include <string.h>

/* ---- drive ---- */

enum { N_UNDER_WAY = 4 };
#define READ_BYTES ((uint64_t)1 << 20)
#define MAX_PROBE  ((uint64_t)2000000000)

typedef struct {
    sl_io *io;
    sl_io_req reqs[N_UNDER_WAY];
    uint64_t file_bytes, read_bytes; /* read_bytes: of one request */
    uint64_t rng;
} drive;

/* A random place for request i; a file smaller than one read is read from its start again and again. */
static sl_status read_somewhere(drive *d, sl_io_req *r, sl_err *err)
{
    uint64_t places = d->file_bytes > d->read_bytes ? (d->file_bytes - d->read_bytes) / d->io->align + 1 : 1;
    d->rng = d->rng * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
    r->offset_bytes = (d->rng >> 20) % places * d->io->align;
    r->bytes = d->read_bytes;
    r->need_bytes = sl_min_u64(d->read_bytes, d->file_bytes - r->offset_bytes);
    return sl_io_submit(d->io, &r, 1, err);
}

static sl_status run_drive(drive *d, double seconds, double *bytes_s, sl_err *err)
{
    uint64_t got = 0;
    sl_status rc = SL_OK;
    double start = sl_now_s(), now = start;
    for (int i = 0; i < N_UNDER_WAY && rc == SL_OK; i++)
        rc = read_somewhere(d, &d->reqs[i], err);
    for (int i = 0; rc == SL_OK; i = (i + 1) % N_UNDER_WAY) {
        rc = sl_io_wait(d->io, &d->reqs[i], err);
        got += d->reqs[i].need_bytes;
        now = sl_now_s();
        if (now - start >= seconds || got >= MAX_PROBE) break;
        if (rc == SL_OK) rc = read_somewhere(d, &d->reqs[i], err);
    }
    if (rc == SL_OK) *bytes_s = (double)got / (now > start ? now - start : 1e-9);
    return rc;
}

sl_status sl_drive_probe(const char *path, double seconds, double *bytes_s, sl_err *err)
{
    sl_file_info info;
    sl_block block = {0};
    drive d = {.rng = (uint64_t)(sl_now_s() * 1e9)}; /* another place each time: the host may cache */
    sl_status rc = sl_file_stat(path, &info, err);
    if (rc != SL_OK) return rc;
    if (info.size_bytes == 0)
        return sl_fail(err, SL_ERR_FORMAT, "%s: an empty file says nothing about its drive", path);
    if ((rc = sl_io_open(&d.io, SL_IO_AUTO, &path, &info.size_bytes, 1, NULL, err)) != SL_OK) return rc;
    d.file_bytes = info.size_bytes;
    d.read_bytes = info.size_bytes < READ_BYTES ? sl_round_up(info.size_bytes, d.io->align) : READ_BYTES;
    rc = sl_block_open(&block, NULL, SL_MEM_WINDOW, N_UNDER_WAY * READ_BYTES, SL_BLOCK_HUGE, "drive probe", err);
    for (int i = 0; i < N_UNDER_WAY && rc == SL_OK; i++)
        d.reqs[i].dst = block.ptr + (size_t)i * READ_BYTES;
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

static void sum_share(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    sweep *s = arg;
    const size_t line = 8; /* words of a cache line; 8 sums hide the latency of the additions */
    size_t n = s->n_word / line;
    uint64_t acc[8] = {0};
    for (size_t i = n * i_thread / n_thread, end = n * (i_thread + 1) / n_thread; i < end; i++)
        for (size_t j = 0; j < line; j++)
            acc[j] += s->words[i * line + j];
    s->sums[i_thread] += acc[0] + acc[1] + acc[2] + acc[3] + acc[4] + acc[5] + acc[6] + acc[7];
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
