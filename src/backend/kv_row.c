/* KV rows, portable form. */
#include "backend/kv_row.h"

#include "base/mathx.h"

#include <math.h>
#include <string.h>

uint64_t sl_kv_row_bytes(sl_kv_type type, uint32_t n)
{
    if (type == SL_KV_Q8) return (uint64_t)n / SL_KV_Q8_BLOCK * SL_KV_Q8_BYTES;
    return (uint64_t)n * (type == SL_KV_F16 ? 2 : 4);
}

bool sl_kv_q8_scale(float max, uint16_t *d_f16, float *d)
{
    *d_f16 = sl_f32_to_f16(max / 127.0f);
    *d = sl_f16_to_f32(*d_f16);
    return *d > 0 && *d <= 65504.0f; /* false for NaN */
}

/* The largest |x|.  Compared as integers: an infinity beats every number, and a NaN beats an infinity. */
static float max_abs(const float *x, size_t n)
{
    uint32_t max = 0;
    float f;
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, 4);
        u &= 0x7fffffffu;
        if (u > max) max = u;
    }
    memcpy(&f, &max, 4);
    return f;
}

static void store_q8_block(uint8_t *dst, const float *src)
{
    uint16_t h;
    float d;
    bool scaled = sl_kv_q8_scale(max_abs(src, SL_KV_Q8_BLOCK), &h, &d);
    memcpy(dst, &h, 2);
    memset(dst + 2, 0, SL_KV_Q8_BLOCK);
    if (!scaled) return;
    float inverse = 1.0f / d;
    for (size_t i = 0; i < SL_KV_Q8_BLOCK; i++) {
        /* Beyond 127 only where d is subnormal in float16 and was rounded down. */
        float q = rintf(src[i] * inverse);
        int8_t code = (int8_t)(q > 127.0f ? 127.0f : q < -127.0f ? -127.0f : q);
        memcpy(dst + 2 + i, &code, 1);
    }
}

void sl_kv_row_store(sl_kv_type type, void *dst, const float *src, size_t n)
{
    uint8_t *to = dst;
    if (type == SL_KV_F16) {
        for (size_t i = 0; i < n; i++, to += 2) {
            uint16_t h = sl_f32_to_f16(src[i]);
            memcpy(to, &h, 2);
        }
    } else if (type == SL_KV_Q8) {
        for (size_t i = 0; i < n; i += SL_KV_Q8_BLOCK, to += SL_KV_Q8_BYTES)
            store_q8_block(to, src + i);
    } else {
        memcpy(to, src, n * sizeof *src);
    }
}

static void load_q8(float *dst, const uint8_t *row, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        const uint8_t *block = row + i / SL_KV_Q8_BLOCK * SL_KV_Q8_BYTES;
        uint16_t h;
        int8_t q;
        memcpy(&h, block, 2);
        memcpy(&q, block + 2 + i % SL_KV_Q8_BLOCK, 1);
        *dst++ = (float)q * sl_f16_to_f32(h);
    }
}

void sl_kv_row_load(sl_kv_type type, float *dst, const void *row, size_t first, size_t n)
{
    const uint8_t *from = row;
    if (type == SL_KV_F16) {
        for (size_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, from + (first + i) * 2, 2);
            dst[i] = sl_f16_to_f32(h);
        }
    } else if (type == SL_KV_Q8) {
        load_q8(dst, from, first, n);
    } else {
        memcpy(dst, from + first * sizeof *dst, n * sizeof *dst);
    }
}
