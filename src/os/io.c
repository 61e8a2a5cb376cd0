/* Reading weights: choice of the method, opening of files, and what all methods do alike with requests and pieces.
 *
 * A request is cut into pieces; a piece is read until it is full, or its file ends, or an error.  A short read in the
 * middle of a file is continued.  Whether the end of the file is an error depends on need_bytes alone. */
#include "os/io_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_RETRY 1000 /* EINTR, EAGAIN and short reads per piece before it counts as failed */

/* ---- files ---- */

/* Alignment that direct reads of fd need, or 0 when the filesystem says that it has none. */
static uint32_t direct_align(int fd)
{
    uint32_t align = SL_IO_DIRECT_ALIGN;
#ifdef STATX_DIOALIGN
    struct statx sx;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 && (sx.stx_mask & STATX_DIOALIGN)) {
        if (!sx.stx_dio_mem_align || !sx.stx_dio_offset_align) return 0;
        while (align < sx.stx_dio_mem_align || align < sx.stx_dio_offset_align)
            align *= 2;
    }
#else
    (void)fd;
#endif
    return align;
}

/* Direct I/O may be refused as late as the first read: errno of such a refusal, else 0.  Other errors are not this
 * function's: the real read will meet and name them. */
static int try_direct_read(int fd, uint32_t align)
{
    void *buf;
    if (posix_memalign(&buf, align, align) != 0) return 0;
    ssize_t n = pread(fd, buf, align, 0);
    int why = n < 0 ? errno : 0;
    free(buf);
    return why == EINVAL || why == EOPNOTSUPP || why == ENOTSUP ? why : 0;
}

static sl_status open_one(sl_io_file *f, uint64_t expect, bool compare, bool direct, uint32_t *align, int *refused,
                          sl_err *err)
{
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
    if (f->fd < 0 && direct && (errno == EINVAL || errno == EOPNOTSUPP)) {
        *refused = errno;
        return SL_OK;
    }
    if (f->fd < 0) return sl_fail_os(err, errno, "%s: cannot be opened", f->path);
    struct stat st;
    if (fstat(f->fd, &st) != 0) return sl_fail_os(err, errno, "%s: cannot be read", f->path);
    if (S_ISDIR(st.st_mode)) return sl_fail_os(err, EISDIR, "%s: cannot be read", f->path);
    f->size_bytes = (uint64_t)st.st_size;
    if (compare && f->size_bytes != expect)
        return sl_fail(err, SL_ERR_IO,
                       "%s: the file has %" PRIu64 " bytes now, it had %" PRIu64 " when its header was read", f->path,
                       f->size_bytes, expect);
    if (!direct) return SL_OK;
    uint32_t need = direct_align(f->fd);
    *refused = need ? try_direct_read(f->fd, need) : EINVAL;
    if (need > *align) *align = need;
    return SL_OK;
}

sl_status sl_io_files_open(sl_io_base *b, const char *const *paths, const uint64_t *expect_bytes, size_t n_path,
                           bool direct, int *refused, const char **refused_path, sl_err *err)
{
    sl_status rc = SL_OK;
    b->files = sl_calloc(n_path, sizeof *b->files);
    if (!b->files) return sl_fail(err, SL_ERR_NOMEM, "no memory to open %zu files", n_path);
    b->io.align = direct ? SL_IO_DIRECT_ALIGN : 1;
    *refused = 0;
    for (size_t i = 0; i < n_path && rc == SL_OK && !*refused; i++) {
        sl_io_file *f = &b->files[b->n_file++];
        f->fd = -1;
        f->path = sl_strdup(paths[i]);
        if (!f->path)
            rc = sl_fail(err, SL_ERR_NOMEM, "no memory to open %s", paths[i]);
        else
            rc = open_one(f, expect_bytes ? expect_bytes[i] : 0, expect_bytes != NULL, direct, &b->io.align, refused,
                          err);
        *refused_path = paths[i];
    }
    if (rc != SL_OK || *refused) sl_io_files_close(b);
    return rc;
}

void sl_io_files_close(sl_io_base *b)
{
    for (size_t i = 0; i < b->n_file; i++) {
        if (b->files[i].fd >= 0) close(b->files[i].fd);
        sl_free(b->files[i].path);
    }
    sl_free(b->files);
    b->files = NULL;
    b->n_file = 0;
}

/* ---- choice of the method ---- */

typedef struct {
    const char *const *paths;
    const uint64_t *expect_bytes;
    size_t n_path;
    const sl_log *log;
} source;

static sl_status open_buffered(sl_io **out, const source *s, bool map, sl_err *err)
{
    int refused;
    const char *path;
    sl_io_base b = {0};
    sl_status rc = sl_io_files_open(&b, s->paths, s->expect_bytes, s->n_path, false, &refused, &path, err);
    if (rc != SL_OK) return rc;
    rc = map ? sl_io_mmap_open(out, &b, err) : sl_io_lanes_open(out, &b, false, err);
    if (rc != SL_OK) sl_io_files_close(&b);
    return rc;
}

/* uring, and when auto also the step from uring to lanes; files are open for direct reads. */
static sl_status open_direct_as(sl_io **out, sl_io_base *b, sl_io_method method, const sl_log *log, sl_err *err)
{
    if (method == SL_IO_PREAD) return sl_io_lanes_open(out, b, true, err);
    sl_err why = {0};
    sl_status rc = sl_io_uring_open(out, b, &why);
    if (rc == SL_ERR_UNSUPPORTED && method == SL_IO_AUTO) {
        sl_note(log, "%s, reading with pread instead", why.msg);
        return sl_io_lanes_open(out, b, true, err);
    }
    return rc == SL_OK ? rc : sl_fail(err, rc, "%s", why.msg);
}

static sl_status open_direct(sl_io **out, const source *s, sl_io_method method, sl_err *err)
{
    int refused;
    const char *path;
    sl_io_base b = {0};
    sl_status rc = sl_io_files_open(&b, s->paths, s->expect_bytes, s->n_path, true, &refused, &path, err);
    if (rc != SL_OK) return rc;
    if (refused) {
        sl_note(s->log, "%s: the filesystem refuses direct I/O (%s), reading through the page cache instead", path,
                strerrordesc_np(refused));
        return open_buffered(out, s, false, err);
    }
    rc = open_direct_as(out, &b, method, s->log, err);
    if (rc != SL_OK) sl_io_files_close(&b);
    return rc;
}

sl_status sl_io_open(sl_io **out, sl_io_method method, const char *const *paths, const uint64_t *expect_bytes,
                     size_t n_path, const sl_log *log, sl_err *err)
{
    const source s = {paths, expect_bytes, n_path, log};
    if (n_path == 0 || n_path > 65536)
        return sl_fail(err, SL_ERR_ARG, "%zu files to read from, between 1 and 65536 are possible", n_path);
    switch (method) {
    case SL_IO_AUTO:
    case SL_IO_URING:
    case SL_IO_PREAD:
        return open_direct(out, &s, method, err);
    case SL_IO_BUFFERED:
    case SL_IO_MMAP:
        return open_buffered(out, &s, method == SL_IO_MMAP, err);
    }
    return sl_fail(err, SL_ERR_ARG, "unknown I/O method %d", (int)method);
}

void sl_io_close(sl_io *io)
{
    if (io) io->ops->close(io);
}

/* ---- requests ---- */

sl_status sl_io_check(const sl_io_base *b, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    uint64_t mask = b->io.align - 1, end;
    for (size_t i = 0; i < n; i++) {
        const sl_io_req *r = reqs[i];
        if (r->file >= b->n_file) return sl_fail(err, SL_ERR_ARG, "read from file %u of %zu", r->file, b->n_file);
        if (((r->offset_bytes | r->bytes | (uintptr_t)r->dst) & mask) != 0)
            return sl_fail(err, SL_ERR_ARG, "%s: read of %zu bytes at offset %" PRIu64 " to %p is not aligned to %u",
                           b->files[r->file].path, r->bytes, r->offset_bytes, r->dst, b->io.align);
        if (!sl_add_u64(r->offset_bytes, r->bytes, &end) || end > INT64_MAX || r->need_bytes > r->bytes)
            return sl_fail(err, SL_ERR_ARG, "%s: read of %zu bytes (%zu needed) at offset %" PRIu64 " makes no sense",
                           b->files[r->file].path, r->bytes, r->need_bytes, r->offset_bytes);
        if (__atomic_load_n(&r->state, __ATOMIC_RELAXED) != SL_REQ_IDLE)
            return sl_fail(err, SL_ERR_ARG,
                           "%s: read at offset %" PRIu64 " is submitted again before it was waited for",
                           b->files[r->file].path, r->offset_bytes);
    }
    return SL_OK;
}

void sl_io_begin(sl_io_req *r)
{
    r->next = NULL;
    r->done_bytes = 0;
    r->os_errno = 0;
    r->n_pending = 0;
    __atomic_store_n(&r->state, SL_REQ_UNDER_WAY, __ATOMIC_RELAXED);
}

bool sl_io_is_done(const sl_io_req *r)
{
    return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == SL_REQ_DONE;
}

sl_status sl_io_finish(const sl_io_base *b, sl_io_req *r, sl_err *err)
{
    const char *path = b->files[r->file].path;
    __atomic_store_n(&r->state, SL_REQ_IDLE, __ATOMIC_RELAXED);
    if (r->os_errno == 0) return SL_OK;
    if (r->os_errno == ECANCELED) return sl_fail(err, SL_ERR_CANCELED, "canceled");
    if (r->os_errno < 0)
        return sl_fail(err, SL_ERR_IO,
                       "%s: read of %zu bytes at offset %" PRIu64
                       " failed: unexpected end of file, %zu bytes are needed",
                       path, r->bytes, r->offset_bytes, r->need_bytes);
    return sl_fail_os(err, r->os_errno, "%s: read of %zu bytes at offset %" PRIu64 " failed", path, r->bytes,
                      r->offset_bytes);
}

/* ---- pieces ---- */

bool sl_io_cut(const sl_io_base *b, sl_io_req *r, sl_io_piece *p)
{
    if (r->done_bytes >= r->bytes || r->os_errno != 0) return false; /* after an error the rest is not worth reading */
    size_t left = r->bytes - r->done_bytes;
    *p = (sl_io_piece){.req = r,
                       .offset_bytes = r->offset_bytes + r->done_bytes,
                       .dst = (uint8_t *)r->dst + r->done_bytes,
                       .bytes = left < b->io.piece_bytes ? left : b->io.piece_bytes};
    r->done_bytes += p->bytes;
    r->n_pending++;
    return true;
}

static sl_io_list *list_of(sl_io_queue *q, const sl_io_req *r)
{
    return r->background ? &q->background : &q->ordinary;
}

void sl_io_push(sl_io_queue *q, sl_io_req *r)
{
    sl_io_list *l = list_of(q, r);
    r->next = NULL;
    if (l->tail)
        l->tail->next = r;
    else
        l->head = r;
    l->tail = r;
}

static bool next_of(const sl_io_base *b, sl_io_list *l, sl_io_piece *p)
{
    while (l->head) {
        sl_io_req *r = l->head;
        bool cut = sl_io_cut(b, r, p);
        if (!cut || r->done_bytes >= r->bytes) {
            l->head = r->next;
            if (!l->head) l->tail = NULL;
        }
        if (cut) return true;
    }
    return false;
}

bool sl_io_next_piece(sl_io_base *b, sl_io_queue *q, sl_io_piece *p)
{
    if (next_of(b, &q->ordinary, p)) return true;
    if (b->n_background >= __atomic_load_n(&b->io.background, __ATOMIC_RELAXED)) return false;
    if (!next_of(b, &q->background, p)) return false;
    p->background = true;
    b->n_background++;
    return true;
}

void sl_io_unlink(sl_io_queue *q, const sl_io_req *r)
{
    sl_io_list *l = list_of(q, r);
    sl_io_req *before = NULL;
    for (sl_io_req *at = l->head; at; before = at, at = at->next) {
        if (at != r) continue;
        if (before)
            before->next = at->next;
        else
            l->head = at->next;
        if (l->tail == at) l->tail = before;
        return;
    }
}

/* A direct read stopped at an odd place: at the end of the file, or by a filesystem with its own mind.  In the second
 * case reading goes on from the last aligned byte. */
static bool resume_unaligned(const sl_io_base *b, sl_io_piece *p)
{
    struct stat st;
    int fd = b->files[p->req->file].fd;
    if (fstat(fd, &st) != 0 || p->offset_bytes + p->got_bytes >= (uint64_t)st.st_size) return false;
    p->got_bytes = sl_round_down(p->got_bytes, b->io.align);
    return ++p->n_retry <= MAX_RETRY;
}

bool sl_io_took(const sl_io_base *b, sl_io_piece *p, ssize_t n)
{
    if ((n == -EINTR || n == -EAGAIN) && ++p->n_retry <= MAX_RETRY) return true;
    if (n < 0) p->os_errno = (int)-n;
    if (n <= 0) return false;
    p->got_bytes += (size_t)n;
    if (p->got_bytes >= p->bytes) return false;
    return p->got_bytes % b->io.align == 0 || resume_unaligned(b, p);
}

bool sl_io_piece_done(sl_io_base *b, const sl_io_piece *p)
{
    sl_io_req *r = p->req;
    size_t from = (size_t)(p->offset_bytes - r->offset_bytes);
    size_t needed = r->need_bytes > from ? r->need_bytes - from : 0;
    if (needed > p->bytes) needed = p->bytes;
    int why = p->os_errno ? p->os_errno : p->got_bytes < needed ? -1 : 0;
    if (why && !r->os_errno) r->os_errno = why;
    __atomic_fetch_add(&b->io.bytes_read, p->got_bytes, __ATOMIC_RELAXED);
    if (p->background) b->n_background--;
    return --r->n_pending == 0 && (r->done_bytes >= r->bytes || r->os_errno != 0);
}

void sl_io_publish(sl_io_base *b, sl_io_req *r)
{
    __atomic_fetch_add(&b->io.reads, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&r->state, SL_REQ_DONE, __ATOMIC_RELEASE);
}

static void give_up(sl_io_base *b, sl_io_queue *q, sl_io_req *r)
{
    if (!r->os_errno) r->os_errno = ECANCELED;
    sl_io_unlink(q, r);
    if (r->n_pending == 0) sl_io_publish(b, r);
}

void sl_io_cancel_if_asked(sl_io_base *b, sl_io_queue *q, sl_io_req *r)
{
    if (b->io.cancel && *b->io.cancel && !sl_io_is_done(r)) give_up(b, q, r);
}

void sl_io_drop_queued(sl_io_base *b, sl_io_queue *q, sl_io_req *r)
{
    if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != SL_REQ_UNDER_WAY) return;
    if (r->done_bytes < r->bytes) give_up(b, q, r); /* else all of it is under way already */
}

void sl_io_hurry_queued(sl_io_queue *q, sl_io_req *r)
{
    if (!r->background) return;
    bool waits = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == SL_REQ_UNDER_WAY && r->done_bytes < r->bytes &&
                 r->os_errno == 0;
    sl_io_unlink(q, r);
    r->background = false;
    if (waits) sl_io_push(q, r);
}

void sl_io_read_plain(sl_io_base *b, sl_io_req *r)
{
    sl_io_piece p;
    while (sl_io_cut(b, r, &p)) {
        ssize_t n;
        do {
            n = pread(b->files[r->file].fd, p.dst + p.got_bytes, p.bytes - p.got_bytes,
                      (off_t)(p.offset_bytes + p.got_bytes));
        } while (sl_io_took(b, &p, n < 0 ? -errno : n));
        sl_io_piece_done(b, &p);
    }
    sl_io_publish(b, r);
}

sl_status sl_io_read_now(sl_io *io, uint32_t file, uint64_t offset, void *dst, size_t bytes, size_t need, sl_err *err)
{
    sl_io_req r = {.file = file, .offset_bytes = offset, .dst = dst, .bytes = bytes, .need_bytes = need};
    sl_io_req *list[] = {&r};
    sl_status rc = sl_io_submit(io, list, 1, err);
    return rc == SL_OK ? sl_io_wait(io, &r, err) : rc;
}
