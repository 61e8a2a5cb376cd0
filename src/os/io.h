/* All weight bytes come through one table of functions: uring (O_DIRECT), pread lanes (O_DIRECT), buffered, mmap,
 * memory, and faulty for tests.  The implementations are interchangeable; a test says their outputs are equal.
 *
 * Life of a read: the caller owns an sl_io_req (zeroed at birth), fills it, submits it with others, and may not touch
 * dst until wait() says it is done.  A request is waited for once, also when it failed, and may then be used again.
 * close() waits for what is under way and drops what has not begun.  One thread at a time calls submit, wait and poll;
 * uring has no thread of its own, so more than depth pieces move on only in these calls. */
#ifndef SL_IO_H
#define SL_IO_H

#include "base/base.h"

typedef struct sl_io sl_io;

/* Pieces of background requests under way unless the caller says otherwise: enough to keep a drive busy, and no more for a
 * demand read to wait for. */
enum { SL_IO_BACKGROUND = 4 };

typedef struct sl_io_req {
    uint32_t file;         /* index into the files given at open */
    uint64_t offset_bytes; /* multiple of io->align */
    void *dst;             /* multiple of io->align */
    size_t bytes;          /* multiple of io->align; may reach beyond the end of the file */
    size_t need_bytes;     /* fewer than this read is an error (unexpected end of file) */
    bool background;       /* yields to all others: its pieces are cut when nothing else waits, a few at a time */
    /* private to the implementation: */
    struct sl_io_req *next;
    size_t done_bytes;
    int os_errno; /* 0, or why it failed; -1: unexpected end of file */
    int n_pending;
    int state; /* 0 idle, 1 under way, 2 done; accessed with __atomic builtins */
} sl_io_req;

typedef struct {
    /* errors  ARG: a request makes no sense, and none of the batch is submitted.  memory and mmap read at once. */
    sl_status (*submit)(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err);
    /* Waits until req is done; err names file, offset and reason when it failed. */
    sl_status (*wait)(sl_io *io, sl_io_req *req, sl_err *err);
    bool (*poll)(sl_io *io, sl_io_req *req); /* done already? never blocks */
    /* For requests under way, else nothing happens; NULL when the method reads at submission.  drop gives a request up after
     * the pieces of it that are under way: its wait ends with CANCELED, unless all of it had been read.  hurry makes a
     * background request an ordinary one. */
    void (*drop)(sl_io *io, sl_io_req *req);
    void (*hurry)(sl_io *io, sl_io_req *req);
    /* mmap and memory only, else NULL: the bytes where they lie. */
    const uint8_t *(*view)(sl_io *io, uint32_t file, uint64_t offset, uint64_t bytes);
    /* mmap only, else NULL: will-need rounds outward to pages, drop inward. */
    void (*advise)(sl_io *io, uint32_t file, uint64_t offset, uint64_t bytes, bool need);
    void (*close)(sl_io *io);
} sl_io_ops;

struct sl_io {
    const sl_io_ops *ops;
    const char *name;   /* "uring", "pread", "buffered", "mmap", "memory", "faulty" */
    uint32_t align;     /* of offset, dst and bytes; 1 when it does not matter */
    size_t piece_bytes; /* a larger request is cut into pieces of this size */
    uint32_t depth;
    uint32_t background; /* pieces of background requests under way at most; whoever submits may change it at any time (__atomic) */
    /* Owned by the caller, may be NULL: once true, wait() gives a request up after the pieces of it that are under way,
     * and ends with CANCELED. */
    const volatile bool *cancel;
    uint64_t bytes_read, reads; /* bytes that arrived, requests that ended (__atomic); views count in neither */
    uint64_t n_need, n_drop;    /* madvise calls */
};

/* Opens paths for reading by method.  AUTO: uring with O_DIRECT, else pread lanes with O_DIRECT, else buffered; each
 * step down gives one note that says why.  A forced method that the filesystem refuses (direct I/O refused at open or
 * at the first read) falls back to buffered with one note as well; uring refused by the kernel is UNSUPPORTED.
 * expect_bytes[i] is the size seen when the headers were parsed: another size now is an IO error (NULL: not compared).
 * owns   paths are copied */
sl_status sl_io_open(sl_io **out, sl_io_method method, const char *const *paths, const uint64_t *expect_bytes,
                     size_t n_path, const sl_log *log, sl_err *err);
/* The bytes of n "files" in memory (borrowed). */
sl_status sl_io_open_memory(sl_io **out, const uint8_t *const *data, const uint64_t *sizes, size_t n, sl_err *err);

/* What goes wrong, and when: for tests.  Takes ownership of real, also when it fails; faults are borrowed. */
typedef struct {
    int64_t fail_at;       /* the n-th submitted read fails with EIO (1-based; 0: never) */
    int64_t short_at;      /* the n-th read comes back half filled, which is an unexpected end of file */
    uint32_t delay_max_us; /* each read is held back 0..this, pseudo-random */
    uint64_t seed;
    int64_t calls; /* counter, readable by the test */
} sl_io_faults;
sl_status sl_io_open_faulty(sl_io **out, sl_io *real, sl_io_faults *faults, sl_err *err);

static inline sl_status sl_io_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    return io->ops->submit(io, reqs, n, err);
}
static inline sl_status sl_io_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    return io->ops->wait(io, req, err);
}
static inline void sl_io_drop(sl_io *io, sl_io_req *req)
{
    if (io->ops->drop) io->ops->drop(io, req);
}
static inline void sl_io_hurry(sl_io *io, sl_io_req *req)
{
    if (io->ops->hurry) io->ops->hurry(io, req);
}
/* One read, waited for. */
sl_status sl_io_read_now(sl_io *io, uint32_t file, uint64_t offset, void *dst, size_t bytes, size_t need, sl_err *err);
void sl_io_close(sl_io *io);

/* ---- plain files, for headers and small documents ---- */
typedef struct {
    uint64_t size_bytes, mtime_ns, inode, device;
    bool is_dir;
} sl_file_info;
sl_status sl_file_stat(const char *path, sl_file_info *out, sl_err *err);
/* Reads [offset, offset + bytes) into dst; a short file is an error that names both sizes. */
sl_status sl_file_read_at(const char *path, uint64_t offset, void *dst, size_t bytes, sl_err *err);
/* A whole file, NUL added, at most max_bytes.  Free with sl_free. */
sl_status sl_file_read_all(const char *path, size_t max_bytes, char **out, size_t *n_bytes, sl_err *err);
/* Writes a whole file under another name beside it and renames it, so that readers see the old or the new one.  Missing
 * directories of the path are made (for the owner only). */
sl_status sl_file_replace(const char *path, const void *data, size_t bytes, sl_err *err);
/* Names in a directory, sorted; free with sl_file_list_free. */
sl_status sl_file_list(const char *dir, char ***names, size_t *n, sl_err *err);
void sl_file_list_free(char **names, size_t n);

/* Measures the drive as an engine reads by this method: 1 MiB at a time into huge pages, up to 16 under way, in runs of
 * 16 MiB at random places of the file, for about seconds or 2 GB, with at most max_bytes of memory. */
sl_status sl_drive_probe(const char *path, sl_io_method method, uint64_t max_bytes, double seconds, double *bytes_s,
                         sl_err *err);
/* Measures memory bandwidth of n threads reading 256 MiB (at most max_bytes, at most a quarter of what is spare) again
 * and again for about seconds: the best pass. */
sl_status sl_memory_probe(uint32_t n_threads, double seconds, uint64_t max_bytes, double *bytes_s, sl_err *err);

#endif
