/* Decoders: blocks of a quantised type to float32.  They define what the bits of a weight mean; the products in the
 * backend read the same layouts by themselves.  Layouts: docs/formats.md.  Every float operation stands here in the
 * order of the gguf package (multiply, then add or subtract, each rounded), so results are equal to the bit, subnormal
 * scales included.  Blocks lie at any alignment: 18, 20, 34 and 210 bytes are no multiples of anything useful. */
#include "quant/quant_int.h"
#include "base/mathx.h"

#include <string.h>

static float load_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return sl_f16_to_f32(h);
}

/* ---- plain floats ---- */

void sl_decode_f32(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * sizeof *dst);
}

void sl_decode_f16(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = load_f16(p + 2 * i);
}

void sl_decode_bf16(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, sizeof h);
        dst[i] = sl_bf16_to_f32(h);
    }
}

/* ---- blocks of 32: a byte of nibbles holds elements j and j + 16 ---- */

/* {f16 d; i8 q[32]}: w = d * q */
void sl_decode_q8_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 34, dst += 32) {
        float d = load_f16(p);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)(int8_t)p[2 + j];
    }
}

/* {f16 d; u8 q[16]}: w = d * (code - 8) */
void sl_decode_q4_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 18, dst += 32) {
        float d = load_f16(p);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)((p[2 + j] & 15) - 8);
            dst[j + 16] = d * (float)((p[2 + j] >> 4) - 8);
        }
    }
}

/* {f16 d, m; u8 q[16]}: w = d * code + m */
void sl_decode_q4_1(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 20, dst += 32) {
        float d = load_f16(p), m = load_f16(p + 2);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)(p[4 + j] & 15) + m;
            dst[j + 16] = d * (float)(p[4 + j] >> 4) + m;
        }
    }
}

/* Codes of 5 bits: nibbles as above, the fifth bit of element i is bit i of the u32 at high. */
static void unpack_5bit(const uint8_t *high, const uint8_t *q, int code[32])
{
    uint32_t h;
    memcpy(&h, high, sizeof h);
    for (int j = 0; j < 16; j++) {
        code[j] = (q[j] & 15) | (int)(h >> j & 1) << 4;
        code[j + 16] = (q[j] >> 4) | (int)(h >> (j + 16) & 1) << 4;
    }
}

/* {f16 d; u32 high; u8 q[16]}: w = d * (code - 16) */
void sl_decode_q5_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 22, dst += 32) {
        float d = load_f16(p);
        int code[32];
        unpack_5bit(p + 2, p + 6, code);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)(code[j] - 16);
    }
}

/* {f16 d, m; u32 high; u8 q[16]}: w = d * code + m */
void sl_decode_q5_1(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 24, dst += 32) {
        float d = load_f16(p), m = load_f16(p + 2);
        int code[32];
        unpack_5bit(p + 4, p + 8, code);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)code[j] + m;
    }
}

/* ---- K-quants: blocks of 256 in groups of 32 (Q6_K: of 16) with scales of their own ---- */

/* Eight scales and eight mins of 6 bits in 12 bytes: four whole of each first, the others in nibbles plus the two bits
 * left over above. */
static void unpack_scales(const uint8_t sc[12], uint8_t scale[8], uint8_t min[8])
{
    for (int g = 0; g < 4; g++) {
        scale[g] = sc[g] & 63;
        min[g] = sc[g + 4] & 63;
        scale[g + 4] = (uint8_t)((sc[g + 8] & 15) | (sc[g] >> 6) << 4);
        min[g + 4] = (uint8_t)((sc[g + 8] >> 4) | (sc[g + 4] >> 6) << 4);
    }
}

/* {f16 d, dmin; u8 sc[12]; u8 q[128]}: w = (d * scale_g) * code - dmin * min_g.  Groups 2k and 2k + 1 are the low and
 * the high nibbles of the same 32 bytes. */
void sl_decode_q4_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 144) {
        float d = load_f16(p), dmin = load_f16(p + 2);
        uint8_t scale[8], min[8];
        unpack_scales(p + 4, scale, min);
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = p + 16 + 32 * (g / 2);
            int shift = 4 * (g & 1);
            float dg = d * (float)scale[g], mg = dmin * (float)min[g];
            for (int l = 0; l < 32; l++)
                *dst++ = dg * (float)(q[l] >> shift & 15) - mg;
        }
    }
}

/* {f16 d, dmin; u8 sc[12]; u8 high[32]; u8 q[128]}: as Q4_K, bit g of high[l] is the fifth bit of element l of group g
 */
void sl_decode_q5_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 176) {
        float d = load_f16(p), dmin = load_f16(p + 2);
        uint8_t scale[8], min[8];
        unpack_scales(p + 4, scale, min);
        for (int g = 0; g < 8; g++) {
            const uint8_t *high = p + 16, *q = p + 48 + 32 * (g / 2);
            int shift = 4 * (g & 1);
            float dg = d * (float)scale[g], mg = dmin * (float)min[g];
            for (int l = 0; l < 32; l++)
                *dst++ = dg * (float)((q[l] >> shift & 15) | (high[l] >> g & 1) << 4) - mg;
        }
    }
}

/* {u8 low[128]; u8 high[64]; i8 scale[16]; f16 d}: w = (d * scale) * (code - 32).  In each half of 128 elements,
 * quarter k takes nibble k / 2 of low[32 * (k & 1) + l] and bits 2k of high[l]. */
void sl_decode_q6_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 210) {
        float d = load_f16(p + 208);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, k = i % 128 / 32, l = i % 32;
            int low = p[64 * half + 32 * (k & 1) + l] >> (k < 2 ? 0 : 4) & 15;
            int high = p[128 + 32 * half + l] >> 2 * k & 3;
            float dg = d * (float)(int8_t)p[192 + i / 16];
            *dst++ = dg * (float)((low | high << 4) - 32);
        }
    }
}

/* ---- MXFP4: {u8 e; u8 q[16]}, w = 2^(e-128) * twice the value of an E2M1 code ---- */

static float half_of_e8m0(uint8_t e)
{
    uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23; /* the first two are subnormal */
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

void sl_decode_mxfp4(const void *src, float *dst, size_t n)
{
    static const int8_t value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 17, dst += 32) {
        float d = half_of_e8m0(p[0]);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)value[p[1 + j] & 15];
            dst[j + 16] = d * (float)value[p[1 + j] >> 4];
        }
    }
}

/* One input's weights; elements of 2 or 4 bytes. */
static void turn_input(const uint8_t *from, uint32_t step, uint8_t *to, uint32_t n, size_t row_bytes, uint32_t size)
{
    if (size == 2)
        for (uint32_t r = 0; r < n; r++) memcpy(to + r * row_bytes, from + (size_t)r * step, 2);
    else
        for (uint32_t r = 0; r < n; r++) memcpy(to + r * row_bytes, from + (size_t)r * step, size);
}

void sl_matrix_turn(const sl_matrix *w, uint32_t first, uint32_t n, uint8_t *rows)
{
    uint32_t size = w->type->block_bytes;
    for (uint32_t i = 0; i < w->n_part; i++) {
        const uint8_t *from = w->part[i].data + (size_t)first * w->turned_bytes;
        for (uint32_t k = 0; k < w->part[i].n_row; k++, from += w->row_bytes)
            turn_input(from, w->turned_bytes, rows + (size_t)(w->part[i].first_row + k) * size, n, (size_t)w->n_in * size, size);
    }
}

/* Even elements are low nibbles, odd ones high nibbles, eight bytes of each half of a block. */
void sl_mxfp4_join(const uint8_t *codes, const uint8_t *scales, uint8_t *blocks, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, codes += 16, blocks += 17) {
        blocks[0] = scales[b];
        for (int i = 0; i < 8; i++) {
            blocks[1 + 2 * i] = (uint8_t)((codes[i] & 15) | codes[8 + i] << 4);
            blocks[2 + 2 * i] = (uint8_t)(codes[i] >> 4 | (codes[8 + i] & 0xf0));
        }
    }
}
