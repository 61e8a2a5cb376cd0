/* Bounded reader over bytes in memory, and the hash that tables over such bytes use.  Little-endian data on a
 * little-endian machine (the only kind this library builds for): memcpy is the conversion. */
#include "base/base.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "file formats are little-endian and are read as they lie");
_Static_assert(sizeof(size_t) == 8, "sizes in files are 64-bit and become size_t");

bool sl_cursor_need(const sl_cursor *c, uint64_t bytes)
{
    return c->pos <= c->size && bytes <= c->size - c->pos;
}

bool sl_cursor_skip(sl_cursor *c, uint64_t bytes)
{
    if (!sl_cursor_need(c, bytes)) return false;
    c->pos += bytes;
    return true;
}

static bool take(sl_cursor *c, void *v, size_t bytes)
{
    if (!sl_cursor_need(c, bytes)) return false;
    memcpy(v, c->data + c->pos, bytes);
    c->pos += bytes;
    return true;
}

bool sl_cursor_u8(sl_cursor *c, uint8_t *v)
{
    return take(c, v, sizeof *v);
}

bool sl_cursor_u16(sl_cursor *c, uint16_t *v)
{
    return take(c, v, sizeof *v);
}

bool sl_cursor_u32(sl_cursor *c, uint32_t *v)
{
    return take(c, v, sizeof *v);
}

bool sl_cursor_u64(sl_cursor *c, uint64_t *v)
{
    return take(c, v, sizeof *v);
}

bool sl_cursor_bytes(sl_cursor *c, uint64_t bytes, const uint8_t **p)
{
    if (!sl_cursor_need(c, bytes)) return false;
    *p = bytes ? c->data + c->pos : (const uint8_t *)""; /* never NULL, so that an empty string is a string */
    c->pos += bytes;
    return true;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

/* Multiply and fold, eight bytes at a time.  Not for adversaries: tables over hostile keys bound their probes. */
uint64_t sl_hash_bytes(const void *p, size_t n)
{
    const uint8_t *b = p;
    uint64_t h = mix(n + 0x9e3779b97f4a7c15u), w;
    for (; n >= 8; n -= 8, b += 8) {
        memcpy(&w, b, 8);
        h = mix(h ^ w) + 0x9e3779b97f4a7c15u;
    }
    if (n) {
        w = 0;
        memcpy(&w, b, n);
        h = mix(h ^ w) + 0x9e3779b97f4a7c15u;
    }
    return mix(h);
}
