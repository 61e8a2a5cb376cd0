/* Files as mappings: zero-copy views, with advice to the page cache.  The slowest way once a model exceeds memory; kept
 * to compare, and for small machines without direct I/O.
 *
 * A view is only as safe as the file is stable: its size is compared before it is mapped, but a file that somebody
 * shrinks later faults (SIGBUS) when its lost pages are touched.  submit() therefore copies by pread, which turns the
 * same accident into an error. */
#include "os/io_int.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    sl_io_base base;
    uint8_t **maps; /* [n_file]; NULL for an empty file */
    size_t page_bytes;
} mmap_io;

static sl_status mmap_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    mmap_io *m = (mmap_io *)io;
    sl_status rc = sl_io_check(&m->base, reqs, n, err);
    for (size_t i = 0; i < n && rc == SL_OK; i++) {
        sl_io_begin(reqs[i]);
        sl_io_read_plain(&m->base, reqs[i]);
    }
    return rc;
}

static sl_status mmap_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    return sl_io_finish(&((mmap_io *)io)->base, req, err);
}

static bool mmap_poll(sl_io *io, sl_io_req *req)
{
    (void)io;
    return sl_io_is_done(req);
}

static bool inside(const mmap_io *m, uint32_t file, uint64_t offset, uint64_t bytes)
{
    if (file >= m->base.n_file || !m->maps[file]) return false;
    uint64_t size = m->base.files[file].size_bytes;
    return offset <= size && bytes <= size - offset;
}

static const uint8_t *mmap_view(sl_io *io, uint32_t file, uint64_t offset, uint64_t bytes)
{
    const mmap_io *m = (const mmap_io *)io;
    return inside(m, file, offset, bytes) ? m->maps[file] + offset : NULL;
}

/* Need rounds outward, so that every byte asked for comes; drop rounds inward, so that no neighbour's byte goes. Advice
 * that the kernel refuses changes nothing but speed. */
static void mmap_advise(sl_io *io, uint32_t file, uint64_t offset, uint64_t bytes, bool need)
{
    mmap_io *m = (mmap_io *)io;
    if (!bytes || !inside(m, file, offset, bytes)) return;
    uint64_t from = offset, end = offset + bytes;
    from = need ? sl_round_down(from, m->page_bytes) : sl_round_up(from, m->page_bytes);
    /* The last page of a file is whole, though the file may end inside it. */
    end = need || end == m->base.files[file].size_bytes ? sl_round_up(end, m->page_bytes)
                                                        : sl_round_down(end, m->page_bytes);
    if (from >= end) return;
    madvise(m->maps[file] + from, end - from, need ? MADV_WILLNEED : MADV_DONTNEED);
    __atomic_fetch_add(need ? &io->n_need : &io->n_drop, 1, __ATOMIC_RELAXED);
}

static void mmap_close(sl_io *io)
{
    mmap_io *m = (mmap_io *)io;
    for (size_t i = 0; i < m->base.n_file; i++)
        if (m->maps[i]) munmap(m->maps[i], m->base.files[i].size_bytes);
    sl_io_files_close(&m->base);
    sl_free(m->maps);
    sl_free(m);
}

static const sl_io_ops mmap_ops = {.submit = mmap_submit,
                                   .wait = mmap_wait,
                                   .poll = mmap_poll,
                                   .view = mmap_view,
                                   .advise = mmap_advise,
                                   .close = mmap_close};

static sl_status map_all(mmap_io *m, sl_err *err)
{
    for (size_t i = 0; i < m->base.n_file; i++) {
        const sl_io_file *f = &m->base.files[i];
        if (f->size_bytes == 0) continue;
        void *p = mmap(NULL, f->size_bytes, PROT_READ, MAP_SHARED, f->fd, 0);
        if (p == MAP_FAILED) return sl_fail_os(err, errno, "%s: cannot be mapped", f->path);
        m->maps[i] = p;
    }
    return SL_OK;
}

sl_status sl_io_mmap_open(sl_io **out, sl_io_base *from, sl_err *err)
{
    long page = sysconf(_SC_PAGESIZE);
    mmap_io *m = sl_calloc(1, sizeof *m);
    uint8_t **maps = sl_calloc(from->n_file, sizeof *maps);
    if (!m || !maps) {
        sl_free(m);
        sl_free(maps);
        return sl_fail(err, SL_ERR_NOMEM, "no memory to map %zu files", from->n_file);
    }
    *m = (mmap_io){.base = *from, .maps = maps, .page_bytes = page > 0 ? (size_t)page : 4096};
    *from = (sl_io_base){0};
    m->base.io = (sl_io){.ops = &mmap_ops, .name = "mmap", .align = 1, .piece_bytes = SL_IO_PIECE_BYTES, .depth = 1};
    sl_status rc = map_all(m, err);
    if (rc != SL_OK) {
        mmap_close(&m->base.io);
        return rc;
    }
    *out = &m->base.io;
    return SL_OK;
}
