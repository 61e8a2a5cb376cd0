/* Growing byte buffer.  It grows by half, never beyond the maximum given at birth, and fails for good. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

void sl_buf_init(sl_buf *b, size_t max)
{
    *b = (sl_buf){.max = max < SIZE_MAX - 1 ? max : SIZE_MAX - 1};
}

/* Makes room for n more bytes and their NUL. */
static bool grow(sl_buf *b, size_t n)
{
    if (b->failed || n > b->max - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + n + 1;
    if (need <= b->cap) return true;
    size_t most = b->max + 1, cap = b->cap < most - b->cap / 2 ? b->cap + b->cap / 2 : most;
    if (cap < need) cap = need;
    if (cap < 64) cap = most < 64 ? most : 64;
    char *p = sl_realloc(b->data, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void sl_buf_add(sl_buf *b, const void *p, size_t n)
{
    if (!grow(b, n)) return;
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
}

void sl_buf_printf(sl_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) b->failed = true;
    if (n < 0 || !grow(b, (size_t)n)) return;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void sl_buf_free(sl_buf *b)
{
    sl_free(b->data);
    *b = (sl_buf){.max = b->max};
}
