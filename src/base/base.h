/* Room base: status and message, log callback, allocation, arena, checked sizes, bounded reader, strings.
 * Needs nothing but the C library.  Other doors of this room: ledger.h, json.h, mathx.h. */
#ifndef SL_BASE_H
#define SL_BASE_H

#include "sluice.h"

#include <stdarg.h>

/* ---- errors ---- */

/* Fills err (NULL allowed) with a printf-style sentence and returns code, so that raising reads like returning.
 * err->msg may be one of the arguments. */
sl_status sl_fail(sl_err *err, sl_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same for a failed system call: code IO, os_errno kept, ": strerror" added. */
sl_status sl_fail_os(sl_err *err, int os_errno, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- log ---- */

typedef struct {
    sl_log_fn fn; /* NULL: silent */
    void *user;
} sl_log;
void sl_note(const sl_log *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sl_warn(const sl_log *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- small allocations ----
 * Every malloc of the library goes through these, so that a test can make the n-th one fail.  Big blocks come from
 * os/mem.h and are entered in the ledger. */
void *sl_malloc(size_t bytes);
void *sl_calloc(size_t count, size_t bytes); /* NULL when count * bytes wraps */
void *sl_realloc(void *p, size_t bytes);
char *sl_strdup(const char *s);
char *sl_strndup(const char *s, size_t n);
void sl_free(void *p);

/* Test hook, process-wide on purpose: when set, called before each allocation; true makes it fail. */
void sl_alloc_set_hook(bool (*should_fail)(void *user), void *user);
bool sl_alloc_should_fail(void); /* for os/mem.c, which allocates by mmap */
/* Bytes now held through sl_malloc and friends (malloc_usable_size). */
uint64_t sl_alloc_live_bytes(void);

/* ---- arena: a layout function runs twice, first to measure (base NULL), then to carve ---- */

typedef struct {
    uint8_t *base; /* NULL: measure only */
    size_t used, cap;
    bool failed; /* sticky, so a layout needs one check at its end */
} sl_arena;
void *sl_arena_take(sl_arena *a, size_t count, size_t size, size_t align);

/* ---- checked sizes: false when the result does not fit ---- */

static inline bool sl_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool sl_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
/* Rounds up to a power of two. */
static inline bool sl_align_up_u64(uint64_t v, uint64_t align, uint64_t *out)
{
    if (!sl_add_u64(v, align - 1, out)) return false;
    *out &= ~(align - 1);
    return true;
}
static inline uint64_t sl_round_up(uint64_t v, uint64_t align) { return (v + align - 1) / align * align; }
static inline uint64_t sl_round_down(uint64_t v, uint64_t align) { return v / align * align; }
static inline uint64_t sl_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t sl_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- bounded reader over bytes in memory (little-endian) ----
 * Every taker returns false at the end of the data and leaves the position unchanged. */
typedef struct {
    const uint8_t *data;
    size_t size, pos;
} sl_cursor;
bool sl_cursor_need(const sl_cursor *c, uint64_t bytes);
bool sl_cursor_skip(sl_cursor *c, uint64_t bytes);
bool sl_cursor_u8(sl_cursor *c, uint8_t *v);
bool sl_cursor_u16(sl_cursor *c, uint16_t *v);
bool sl_cursor_u32(sl_cursor *c, uint32_t *v);
bool sl_cursor_u64(sl_cursor *c, uint64_t *v);
bool sl_cursor_bytes(sl_cursor *c, uint64_t bytes, const uint8_t **p);

/* ---- growing byte buffer with a maximum at birth ---- */
typedef struct {
    char *data; /* always NUL-terminated once something was added */
    size_t len, cap, max;
    bool failed; /* sticky: out of memory or over max */
} sl_buf;
void sl_buf_init(sl_buf *b, size_t max);
void sl_buf_add(sl_buf *b, const void *p, size_t n);
void sl_buf_printf(sl_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sl_buf_free(sl_buf *b);

/* ---- hash of bytes, for tables ---- */
uint64_t sl_hash_bytes(const void *p, size_t n);

/* "1.2 GB" into buf, for messages; returns buf. */
const char *sl_size_text(uint64_t bytes, char buf[24]);

/* Position and length of the first invalid UTF-8 sequence, or n if all is valid.  Strict: no overlong forms, no
 * surrogates, nothing above U+10FFFF. */
size_t sl_utf8_valid_prefix(const char *s, size_t n);
/* Decodes one character at s (n > 0 bytes left); returns its length, or 0 when invalid or incomplete. */
size_t sl_utf8_decode(const char *s, size_t n, uint32_t *cp);
size_t sl_utf8_encode(uint32_t cp, char out[4]);
/* Where no whole character stands at s (n > 0): length of the longest part that begins one, which is what one U+FFFD
 * replaces (Unicode 15, section 3.9).  *open: it ends with the data, so that more may follow. */
size_t sl_utf8_broken(const char *s, size_t n, bool *open);

#endif
