/* Memory of one compilation or rendering: a list of chunks, given back at once.  Running out, of memory or of the
 * bound, leaves by the jump like every other failure. */
#include "text/template/template_int.h"

#include <stdio.h>

enum { FIRST_CHUNK = 1 << 13, LARGEST_CHUNK = 1 << 20 };

struct sl_tpl_chunk {
    sl_tpl_chunk *next;
    size_t used, cap;
    max_align_t data[];
};

static sl_tpl_chunk *add_chunk(sl_tpl_heap *h, size_t bytes)
{
    size_t cap = h->used < FIRST_CHUNK ? FIRST_CHUNK : h->used;
    if (cap > LARGEST_CHUNK) cap = LARGEST_CHUNK;
    if (cap < bytes) cap = bytes;
    if (bytes > h->max_bytes || h->used > h->max_bytes - bytes)
        sl_tpl_fail(h, SL_ERR_LIMIT, "more than %zu MB of memory are needed", h->max_bytes >> 20);
    if (cap > h->max_bytes - h->used) cap = h->max_bytes - h->used;
    sl_tpl_chunk *c = sl_malloc(sizeof *c + cap);
    if (!c) sl_tpl_fail(h, SL_ERR_NOMEM, "no memory");
    *c = (sl_tpl_chunk){.next = h->chunks, .cap = cap};
    h->chunks = c;
    h->used += cap;
    return c;
}

void *sl_tpl_take(sl_tpl_heap *h, size_t bytes)
{
    sl_tpl_chunk *c = h->chunks;
    if (bytes > SIZE_MAX / 2) sl_tpl_fail(h, SL_ERR_LIMIT, "a value is too large");
    bytes = sl_round_up(bytes ? bytes : 1, sizeof(max_align_t));
    if (!c || bytes > c->cap - c->used) c = add_chunk(h, bytes);
    void *p = (uint8_t *)c->data + c->used;
    c->used += bytes;
    return memset(p, 0, bytes);
}

void sl_tpl_heap_free(sl_tpl_heap *h)
{
    while (h->chunks) {
        sl_tpl_chunk *next = h->chunks->next;
        sl_free(h->chunks);
        h->chunks = next;
    }
    h->used = 0;
}

void sl_tpl_fail(sl_tpl_heap *h, sl_status code, const char *fmt, ...)
{
    char what[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    what[sl_utf8_valid_prefix(what, strlen(what))] = 0; /* cut where a character ends */
    h->rc = sl_fail(h->err, code, "%s, line %u: %s", h->name, h->line, what);
    longjmp(h->back, 1);
}

void sl_tpl_refuse(sl_tpl_heap *h, sl_status code, const char *fmt, ...)
{
    char what[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    what[sl_utf8_valid_prefix(what, strlen(what))] = 0;
    h->rc = sl_fail(h->err, code, "%s", what);
    longjmp(h->back, 1);
}
