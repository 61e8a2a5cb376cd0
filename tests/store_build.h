/* For tests of the store: files built byte by byte, wrong on purpose where a test wants it, and directories to put them
 * in.  Knows the formats from their description only and shares no code with the parsers. */
#ifndef STORE_BUILD_H
#define STORE_BUILD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <dirent.h>
#include <cmocka.h>

#include "store/store.h"

/* ---- bytes ---- */

typedef struct {
    uint8_t *p;
    size_t n, cap;
} bytes;

static inline void put(bytes *b, const void *src, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n) + 64;
        b->p = realloc(b->p, b->cap);
        if (!b->p) abort();
    }
    if (n) memcpy(b->p + b->n, src, n);
    b->n += n;
}
/* clang-format off */
static inline void u8(bytes *b, unsigned v) { uint8_t x = (uint8_t)v; put(b, &x, 1); }
static inline void u16(bytes *b, unsigned v) { uint16_t x = (uint16_t)v; put(b, &x, 2); }
static inline void u32(bytes *b, uint32_t v) { put(b, &v, 4); }
static inline void u64(bytes *b, uint64_t v) { put(b, &v, 8); }
static inline void f32(bytes *b, float v) { put(b, &v, 4); }
static inline void text(bytes *b, const char *s) { put(b, s, strlen(s)); }
/* clang-format on */
static inline void fill(bytes *b, size_t n, uint8_t v)
{
    while (n--)
        put(b, &v, 1);
}

/* ---- GGUF ---- */

static inline void str(bytes *b, const char *s)
{
    u64(b, strlen(s));
    text(b, s);
}
static inline void head(bytes *b, uint32_t version, uint64_t n_tensor, uint64_t n_kv)
{
    text(b, "GGUF");
    u32(b, version);
    u64(b, n_tensor);
    u64(b, n_kv);
}
static inline void kv(bytes *b, const char *key, uint32_t type)
{
    str(b, key);
    u32(b, type);
}
/* clang-format off */
static inline void kv_u32(bytes *b, const char *key, uint32_t v) { kv(b, key, SL_GV_U32); u32(b, v); }
static inline void kv_str(bytes *b, const char *key, const char *v) { kv(b, key, SL_GV_STRING); str(b, v); }
/* clang-format on */
static inline void kv_array(bytes *b, const char *key, uint32_t elem, uint64_t n)
{
    kv(b, key, SL_GV_ARRAY);
    u32(b, elem);
    u64(b, n);
}
/* dims: fastest first, as in the file. */
static inline void tensor(bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                          uint64_t offset)
{
    str(b, name);
    u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        u64(b, dims[i]);
    u32(b, type);
    u64(b, offset);
}
#define DIMS(...)                                                                                                      \
    (const uint64_t[])                                                                                                 \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
static inline void pad(bytes *b, size_t align)
{
    while (b->n % align)
        u8(b, 0);
}

/* ---- safetensors ---- */

/* The header as given, and n_data bytes of data. */
static inline void safetensors(bytes *b, const char *json, size_t n_data)
{
    u64(b, strlen(json));
    text(b, json);
    fill(b, n_data, 0);
}

/* ---- directories ---- */

static inline char *dir_new(void)
{
    char *dir = strdup("/tmp/sluice-test-XXXXXX");
    if (!mkdtemp(dir)) abort();
    return dir;
}
/* In a static ring: a few are alive at a time. */
static inline const char *in_dir(const char *dir, const char *name)
{
    static char ring[8][512];
    static unsigned at;
    char *p = ring[at++ % 8];
    snprintf(p, sizeof ring[0], "%s/%s", dir, name);
    return p;
}
static inline void put_file(const char *dir, const char *name, const void *p, size_t n)
{
    FILE *f = fopen(in_dir(dir, name), "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) abort();
}
static inline void put_text(const char *dir, const char *name, const char *s)
{
    put_file(dir, name, s, strlen(s));
}
/* Writes b and empties it. */
static inline void put_bytes(const char *dir, const char *name, bytes *b)
{
    put_file(dir, name, b->p, b->n);
    free(b->p);
    *b = (bytes){0};
}
static inline void dir_free(char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' || strlen(e->d_name) > 2) unlink(in_dir(dir, e->d_name));
    if (d) closedir(d);
    rmdir(dir);
    free(dir);
}

/* ---- checks ---- */

/* A refusal: nothing handed out, the code, one line, and every given piece (up to NULL) in the sentence. */
static inline void check_refused(sl_status rc, sl_status want, const sl_store *s, const sl_err *err, const char *what,
                                 ...)
{
    if (rc != want || s || err->code != want) fail_msg("%s: status %d, wanted %d: %s", what, rc, want, err->msg);
    if (strchr(err->msg, '\n') || !err->msg[0]) fail_msg("%s: not one line: %s", what, err->msg);
    va_list ap;
    va_start(ap, what);
    for (const char *piece; (piece = va_arg(ap, const char *));)
        if (!strstr(err->msg, piece)) fail_msg("%s: '%s' is not in: %s", what, piece, err->msg);
    va_end(ap);
}
static inline sl_store *must_open(const char *path)
{
    sl_store *s = NULL;
    sl_err err = {0};
    if (sl_store_open(&s, path, NULL, &err) != SL_OK) fail_msg("%s: %s", path, err.msg);
    return s;
}
/* Counts warnings and notes, keeps the last one. */
typedef struct {
    int n_warning, n_note;
    char last[768];
} heard;
static inline void hear(void *user, sl_log_level level, const char *msg)
{
    heard *h = user;
    ++*(level == SL_LOG_WARNING ? &h->n_warning : &h->n_note);
    snprintf(h->last, sizeof h->last, "%s", msg);
}
/* Makes the n-th allocation from now fail. */
static inline bool fail_nth(void *user)
{
    return --*(long *)user == 0;
}

#endif
