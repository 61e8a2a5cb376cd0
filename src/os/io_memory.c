/* "Files" that lie in memory: tests, embedded models, fuzzing.  A read is a copy, done at submission. */
#include "os/io_int.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    sl_io_base base;
    const uint8_t **data; /* [n_file], the bytes are borrowed */
} memory_io;

static void copy(memory_io *m, sl_io_req *r)
{
    uint64_t size = m->base.files[r->file].size_bytes;
    uint64_t left = r->offset_bytes < size ? size - r->offset_bytes : 0;
    size_t n = left < r->bytes ? (size_t)left : r->bytes;
    if (n) memcpy(r->dst, m->data[r->file] + r->offset_bytes, n);
    r->done_bytes = n;
    if (n < r->need_bytes) r->os_errno = -1;
    __atomic_fetch_add(&m->base.io.bytes_read, n, __ATOMIC_RELAXED);
    sl_io_publish(&m->base, r);
}

static sl_status memory_submit(sl_io *io, sl_io_req *const *reqs, size_t n, sl_err *err)
{
    memory_io *m = (memory_io *)io;
    sl_status rc = sl_io_check(&m->base, reqs, n, err);
    for (size_t i = 0; i < n && rc == SL_OK; i++) {
        sl_io_begin(reqs[i]);
        copy(m, reqs[i]);
    }
    return rc;
}

static sl_status memory_wait(sl_io *io, sl_io_req *req, sl_err *err)
{
    return sl_io_finish(&((memory_io *)io)->base, req, err);
}

static bool memory_poll(sl_io *io, sl_io_req *req)
{
    (void)io;
    return sl_io_is_done(req);
}

static const uint8_t *memory_view(sl_io *io, uint32_t file, uint64_t offset, uint64_t bytes)
{
    const memory_io *m = (const memory_io *)io;
    if (file >= m->base.n_file) return NULL;
    uint64_t size = m->base.files[file].size_bytes;
    return offset <= size && bytes <= size - offset ? m->data[file] + offset : NULL;
}

static void memory_close(sl_io *io)
{
    memory_io *m = (memory_io *)io;
    sl_io_files_close(&m->base);
    sl_free(m->data);
    sl_free(m);
}

static const sl_io_ops memory_ops = {
    .submit = memory_submit, .wait = memory_wait, .poll = memory_poll, .view = memory_view, .close = memory_close};

/* Messages call the files by number. */
static bool add_file(memory_io *m, const uint8_t *data, uint64_t size)
{
    char name[32];
    snprintf(name, sizeof name, "memory file %zu", m->base.n_file);
    sl_io_file *f = &m->base.files[m->base.n_file];
    *f = (sl_io_file){.path = sl_strdup(name), .fd = -1, .size_bytes = size};
    if (!f->path) return false;
    m->data[m->base.n_file++] = data;
    return true;
}

sl_status sl_io_open_memory(sl_io **out, const uint8_t *const *data, const uint64_t *sizes, size_t n, sl_err *err)
{
    memory_io *m = sl_calloc(1, sizeof *m);
    if (!m) return sl_fail(err, SL_ERR_NOMEM, "no memory to read from memory");
    m->base.io = (sl_io){.ops = &memory_ops, .name = "memory", .align = 1, .piece_bytes = SIZE_MAX, .depth = 1};
    m->base.files = sl_calloc(n, sizeof *m->base.files);
    m->data = sl_calloc(n, sizeof *m->data);
    bool ok = m->base.files && m->data;
    for (size_t i = 0; i < n && ok; i++)
        ok = add_file(m, data[i], sizes[i]);
    if (!ok) {
        memory_close(&m->base.io);
        return sl_fail(err, SL_ERR_NOMEM, "no memory to read from %zu files in memory", n);
    }
    *out = &m->base.io;
    return SL_OK;
}
