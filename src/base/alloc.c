/* Small allocations, counted, and refusable by a test.  The counter and the hook are the only process-wide state of the
 * library: allocation has no handle to hang them on. */
#include "base/base.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef bool hook_fn(void *user);
static _Atomic(hook_fn *) hook;
static _Atomic(void *) hook_user;
static atomic_uint_fast64_t live_bytes; /* relaxed: a number to show, it orders nothing */

void sl_alloc_set_hook(bool (*should_fail)(void *user), void *user)
{
    /* Off first, user second, on last: a hook never sees another hook's user. */
    atomic_store(&hook, NULL);
    atomic_store(&hook_user, user);
    atomic_store(&hook, should_fail);
}

bool sl_alloc_should_fail(void)
{
    hook_fn *fn = atomic_load_explicit(&hook, memory_order_acquire);
    return fn && fn(atomic_load(&hook_user));
}

uint64_t sl_alloc_live_bytes(void)
{
    return atomic_load_explicit(&live_bytes, memory_order_relaxed);
}

static void *count_in(void *p)
{
    if (p) atomic_fetch_add_explicit(&live_bytes, malloc_usable_size(p), memory_order_relaxed);
    return p;
}

static void count_out(size_t usable)
{
    atomic_fetch_sub_explicit(&live_bytes, usable, memory_order_relaxed);
}

/* Zero bytes give a real pointer, so that NULL always means refused. */
void *sl_malloc(size_t bytes)
{
    if (sl_alloc_should_fail()) return NULL;
    return count_in(malloc(bytes ? bytes : 1));
}

void *sl_calloc(size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total) || sl_alloc_should_fail()) return NULL;
    return count_in(calloc(1, total ? total : 1));
}

void *sl_realloc(void *p, size_t bytes)
{
    if (sl_alloc_should_fail()) return NULL;
    size_t before = p ? malloc_usable_size(p) : 0;
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q) return NULL; /* p is still there and still counted */
    count_out(before);
    return count_in(q);
}

char *sl_strndup(const char *s, size_t n)
{
    if (n == SIZE_MAX) return NULL;
    char *p = sl_malloc(n + 1);
    if (!p) return NULL;
    if (n) memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *sl_strdup(const char *s)
{
    return sl_strndup(s, strlen(s));
}

void sl_free(void *p)
{
    if (!p) return;
    count_out(malloc_usable_size(p));
    free(p);
}
