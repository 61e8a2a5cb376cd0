/* Inside the room: what every reading method shares (io.c), and how io.c opens each of them. */
#ifndef SL_IO_INT_H
#define SL_IO_INT_H

#include "os/io.h"

#include <sys/types.h>

#define SL_IO_PIECE_BYTES  ((size_t)1 << 20) /* a larger request is cut into these, so that several run at once */
#define SL_IO_DIRECT_ALIGN 4096u             /* least alignment of direct reads, whatever the device allows */

enum { SL_REQ_IDLE, SL_REQ_UNDER_WAY, SL_REQ_DONE };

typedef struct {
    char *path; /* owned */
    int fd;
    uint64_t size_bytes; /* when it was opened */
} sl_io_file;

/* First member of every implementation. */
typedef struct {
    sl_io io;
    sl_io_file *files; /* owned */
    size_t n_file;
    uint32_t n_background; /* pieces of background requests under way; guarded as the queue is */
} sl_io_base;

/* A part of a request, under way: bytes [offset_bytes, + bytes) of its file, of which got_bytes have arrived. */
typedef struct {
    sl_io_req *req;
    uint64_t offset_bytes;
    uint8_t *dst;
    size_t bytes, got_bytes;
    int os_errno;
    uint32_t n_retry;
    bool background; /* its request was one when it was cut */
} sl_io_piece;

/* ---- files ---- */

/* Opens every path (O_DIRECT when direct) and compares sizes with expect_bytes (NULL: not compared).
 * *refused (direct only): errno of a refusal of direct I/O, or 0; the status is then OK but nothing is left open. */
sl_status sl_io_files_open(sl_io_base *b, const char *const *paths, const uint64_t *expect_bytes, size_t n_path,
                           bool direct, int *refused, const char **refused_path, sl_err *err);
void sl_io_files_close(sl_io_base *b);

/* ---- requests ---- */

/* errors  ARG names the field; nothing is then submitted */
sl_status sl_io_check(const sl_io_base *b, sl_io_req *const *reqs, size_t n, sl_err *err);
/* Marks a request as under way with nothing cut from it yet. */
void sl_io_begin(sl_io_req *r);
bool sl_io_is_done(const sl_io_req *r);
/* Turns a done request into the status of its wait, and idle again. */
sl_status sl_io_finish(const sl_io_base *b, sl_io_req *r, sl_err *err);

/* Cuts the next piece from r (its done_bytes says how far pieces were cut); false when nothing is left to cut. */
bool sl_io_cut(const sl_io_base *b, sl_io_req *r, sl_io_piece *p);
/* Requests with something left to cut, first in, first out; those in the background wait for the others. */
typedef struct {
    sl_io_req *head, *tail;
} sl_io_list;
typedef struct {
    sl_io_list ordinary, background;
} sl_io_queue;
void sl_io_push(sl_io_queue *q, sl_io_req *r);
/* The next piece of the first request; a request leaves the queue with its last piece, or when it has failed. */
bool sl_io_next_piece(sl_io_base *b, sl_io_queue *q, sl_io_piece *p);
/* A request that failed may still stand in the queue: it must leave before it is done, as its owner may reuse it then.
 */
void sl_io_unlink(sl_io_queue *q, const sl_io_req *r);

/* Takes the result of one read of a piece, n bytes or -errno.  True: read on, at offset_bytes + got_bytes. */
bool sl_io_took(const sl_io_base *b, sl_io_piece *p, ssize_t n);
/* Enters a finished piece in its request; true when that was the last one, and the caller publishes DONE. */
bool sl_io_piece_done(sl_io_base *b, const sl_io_piece *p);
void sl_io_publish(sl_io_base *b, sl_io_req *r);
/* When the caller has asked for it (io.cancel): nothing more of r is cut, and r is done now if nothing of it is under
 * way.  The queue's lock is held, where there is one. */
void sl_io_cancel_if_asked(sl_io_base *b, sl_io_queue *q, sl_io_req *r);
/* drop and hurry of the table, with the queue's lock held. */
void sl_io_drop_queued(sl_io_base *b, sl_io_queue *q, sl_io_req *r);
void sl_io_hurry_queued(sl_io_queue *q, sl_io_req *r);
/* The whole request by pread, now: for methods without lanes. */
void sl_io_read_plain(sl_io_base *b, sl_io_req *r);

/* ---- the methods: each takes over the opened files of from on success ---- */

sl_status sl_io_lanes_open(sl_io **out, sl_io_base *from, bool direct, sl_err *err);
/* UNSUPPORTED when the kernel has no io_uring for us; the reason is the message. */
sl_status sl_io_uring_open(sl_io **out, sl_io_base *from, sl_err *err);
sl_status sl_io_mmap_open(sl_io **out, sl_io_base *from, sl_err *err);

#endif
