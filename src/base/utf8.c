/* UTF-8, strict (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF. */
#include "base/base.h"

#include <string.h>

/* The second byte decides what the lead byte alone cannot: these are its bounds, per lead byte. */
static void second_bounds(uint8_t lead, uint8_t *lo, uint8_t *hi)
{
    *lo = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *hi = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
}

size_t sl_utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const uint8_t *b = (const uint8_t *)s;
    if (n == 0) return 0;
    if (b[0] < 0x80) {
        *cp = b[0];
        return 1;
    }
    size_t len = b[0] < 0xC2 ? 0 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : b[0] < 0xF5 ? 4 : 0;
    if (len == 0 || len > n) return 0;
    uint8_t lo, hi;
    second_bounds(b[0], &lo, &hi);
    if (b[1] < lo || b[1] > hi) return 0;
    uint32_t v = b[0] & (0xFFu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((b[i] & 0xC0) != 0x80) return 0;
        v = v << 6 | (b[i] & 0x3Fu);
    }
    *cp = v;
    return len;
}

size_t sl_utf8_broken(const char *s, size_t n, bool *open)
{
    const uint8_t *b = (const uint8_t *)s;
    size_t need = b[0] < 0xC2 ? 1 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : b[0] < 0xF5 ? 4 : 1, i = 1;
    uint8_t lo, hi;
    second_bounds(b[0], &lo, &hi);
    for (; i < need && i < n && b[i] >= lo && b[i] <= hi; i++) {
        lo = 0x80;
        hi = 0xBF;
    }
    *open = i < need && i == n;
    return i;
}

size_t sl_utf8_valid_prefix(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t w;
        if (n - i >= 8 && (memcpy(&w, s + i, 8), (w & 0x8080808080808080u) == 0)) {
            i += 8; /* most text is ASCII */
            continue;
        }
        uint32_t cp;
        size_t len = sl_utf8_decode(s + i, n - i, &cp);
        if (!len) return i;
        i += len;
    }
    return n;
}

/* A surrogate or a value above U+10FFFF has no encoding: it becomes U+FFFD. */
size_t sl_utf8_encode(uint32_t cp, char out[4])
{
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) cp = 0xFFFD;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3F));
    out[0] = (char)((0xF00u >> len & 0xFFu) | cp); /* 110xxxxx, 1110xxxx, 11110xxx */
    return len;
}
