/* Arena: one block carved by a layout function that has measured it before. */
#include "base/base.h"

void *sl_arena_take(sl_arena *a, size_t count, size_t size, size_t align)
{
    size_t pad = (align - a->used % align) % align;
    size_t cap = a->base ? a->cap : SIZE_MAX;
    size_t room = cap > a->used ? cap - a->used : 0;
    if (a->failed || pad > room || (size && count > (room - pad) / size)) {
        a->failed = true;
        return NULL;
    }
    void *p = a->base ? a->base + a->used + pad : NULL;
    a->used += pad + count * size;
    return p;
}
