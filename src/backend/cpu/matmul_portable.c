/* Matrix kernels in plain C: the law of sl_matmul (backend.h) written out block by block, for any architecture.  A
 * piece of a row is decoded once for all tokens; nothing else is tuned. */
#include "backend/cpu/matmul_int.h"

#include "base/mathx.h"

#include <math.h>

#define ALWAYS static inline __attribute__((always_inline))

/* ---- quantised types ---- */

/* One block: codes with the offset taken off, and its scales. */
typedef struct {
    int8_t code[256];
    int8_t scale[16]; /* K-quants: of 32 codes each, in Q6_K of 16 */
    uint8_t min[8];   /* Q4_K, Q5_K */
    float d, m;
} block;

static void nibbles(int8_t *low, int8_t *high, const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        low[i] = (int8_t)(p[i] & 15);
        high[i] = (int8_t)(p[i] >> 4);
    }
}

/* 2^(e - 128), the scale of an MXFP4 block. */
static float half_of_e8m0(uint8_t e)
{
    union {
        uint32_t bits;
        float f;
    } v = {e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23};
    return v.f;
}

ALWAYS void decode_32(sl_type type, const uint8_t *p, block *out)
{
    static const int8_t fp4[16] = {SL_MM_FP4_CODES};
    out->d = type == SL_MXFP4 ? half_of_e8m0(p[0]) : sl_f16_to_f32(sl_mm_u16(p));
    if (sl_mm_has_min(type)) out->m = sl_f16_to_f32(sl_mm_u16(p + 2));
    if (type == SL_Q8_0) {
        memcpy(out->code, p + 2, 32);
        return;
    }
    nibbles(out->code, out->code + 16, p + sl_mm_block_bytes(type) - 16, 16);
    if (type == SL_Q5_0 || type == SL_Q5_1) {
        uint32_t high = sl_mm_u32(p + (type == SL_Q5_0 ? 2 : 4));
        for (uint32_t i = 0; i < 32; i++)
            out->code[i] |= (int8_t)((high >> i & 1) << 4);
    }
    if (type == SL_MXFP4)
        for (uint32_t i = 0; i < 32; i++)
            out->code[i] = fp4[out->code[i]];
    int offset = sl_mm_offset_log2(type);
    if (offset < 0) return;
    for (uint32_t i = 0; i < 32; i++)
        out->code[i] = (int8_t)(out->code[i] - (1 << offset));
}

static void decode_q6_k(const uint8_t *p, block *out)
{
    out->d = sl_f16_to_f32(sl_mm_u16(p + 208));
    memcpy(out->scale, p + 192, 16);
    for (uint32_t h = 0; h < 2; h++) { /* halves of 128 */
        int8_t *code = out->code + h * 128;
        const uint8_t *high = p + 128 + h * 32;
        nibbles(code, code + 64, p + h * 64, 64);
        for (uint32_t i = 0; i < 128; i++)
            code[i] = (int8_t)((code[i] | (high[i % 32] >> i / 32 * 2 & 3) << 4) - 32);
    }
}

ALWAYS void decode_k(sl_type type, const uint8_t *p, block *out)
{
    if (type == SL_Q6_K) {
        decode_q6_k(p, out);
        return;
    }
    uint64_t scale, min;
    out->d = sl_f16_to_f32(sl_mm_u16(p));
    out->m = sl_f16_to_f32(sl_mm_u16(p + 2));
    sl_mm_scales_k(p + 4, &scale, &min);
    for (uint32_t g = 0; g < 8; g++) {
        out->scale[g] = (int8_t)(scale >> g * 8 & 63);
        out->min[g] = (uint8_t)(min >> g * 8 & 63);
    }
    const uint8_t *code = p + sl_mm_block_bytes(type) - 128;
    for (uint32_t g = 0; g < 8; g += 2)
        nibbles(out->code + g * 32, out->code + g * 32 + 32, code + g * 16, 32);
    if (type == SL_Q5_K)
        for (uint32_t i = 0; i < 256; i++)
            out->code[i] |= (int8_t)((p[16 + i % 32] >> i / 32 & 1) << 4);
}

/* Exact: 32 products of at most 128 * 127. */
static int32_t dot(const int8_t *a, const int8_t *b, uint32_t n)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* acc and one block of 32 more. */
ALWAYS float add_32(sl_type type, float acc, const block *w, const sl_qrows *x)
{
    for (uint32_t h = 0; h < 2; h++)
        acc = fmaf(w->d * x->d[h], (float)dot(w->code + h * 16, x->q + h * 16, 16), acc);
    return sl_mm_has_min(type) ? fmaf(w->m, *x->s, acc) : acc;
}

/* acc and one block of 256 more.  In int32: |isum| <= 256 * 128 * 32 * 127 (Q6_K), |msum| <= 256 * 63 * 127. */
ALWAYS float add_256(sl_type type, float acc, const block *w, const sl_qrows *x)
{
    uint32_t n = type == SL_Q6_K ? 16 : 32;
    int32_t isum = 0, msum = 0;
    for (uint32_t i = 0; i < 256 / n; i++)
        isum += w->scale[i] * dot(w->code + i * n, x->q + i * n, n);
    acc = fmaf(w->d * *x->d, (float)isum, acc);
    if (!sl_mm_has_min(type)) return acc;
    for (uint32_t g = 0; g < 8; g++)
        msum += w->min[g] * x->sum32[g];
    return fmaf(-(w->m * *x->d), (float)msum, acc);
}

enum { PIECE = 1024 }; /* columns decoded at a time */

ALWAYS void decode_piece(sl_type type, const uint8_t *p, uint32_t n_block, block *w)
{
    for (uint32_t b = 0; b < n_block; b++, p += sl_mm_block_bytes(type)) {
        if (sl_mm_is_k(type))
            decode_k(type, p, &w[b]);
        else
            decode_32(type, p, &w[b]);
    }
}

/* acc and n_block blocks more, from block b0 of token t on. */
ALWAYS float add_piece(sl_type type, float acc, const block *w, uint32_t n_block, const sl_qact *a, uint32_t t,
                       uint32_t b0)
{
    for (uint32_t b = 0; b < n_block; b++) {
        sl_qrows x = sl_mm_is_k(type) ? sl_qact_at256(a, t, b0 + b, 0) : sl_qact_at32(a, t, b0 + b, 0);
        acc = sl_mm_is_k(type) ? add_256(type, acc, &w[b], &x) : add_32(type, acc, &w[b], &x);
    }
    return acc;
}

ALWAYS void row_times_all(sl_type type, const uint8_t *row, const sl_qact *a, float *y, size_t ld_y)
{
    const uint32_t n_block = a->n_in / sl_mm_block(type), most = PIECE / sl_mm_block(type);
    block w[PIECE / 32];
    for (uint32_t b0 = 0; b0 < n_block; b0 += most) {
        uint32_t n = n_block - b0 < most ? n_block - b0 : most;
        decode_piece(type, row + (size_t)b0 * sl_mm_block_bytes(type), n, w);
        for (uint32_t t = 0; t < a->n_tok; t++)
            y[t * ld_y] = add_piece(type, b0 ? y[t * ld_y] : 0, w, n, a, t, b0);
    }
}

/* ---- float types ---- */

ALWAYS float element(sl_type type, const uint8_t *row, size_t i)
{
    float f;
    if (type == SL_F16) return sl_f16_to_f32(sl_mm_u16(row + i * 2));
    if (type == SL_BF16) return sl_bf16_to_f32(sl_mm_u16(row + i * 2));
    memcpy(&f, row + i * 4, 4);
    return f;
}

static float tree(float s[16])
{
    for (uint32_t half = 8; half; half /= 2)
        for (uint32_t j = 0; j < half; j++)
            s[j] += s[j + half];
    return s[0];
}

/* n_tok <= 4 tokens from t0 on, so that an element is widened once for several. */
ALWAYS void float_row_times_some(sl_type type, const uint8_t *row, const sl_qact *a, uint32_t t0, uint32_t n_tok,
                                 float *y, size_t ld_y)
{
    float s[4][16] = {{0}};
    for (uint32_t i = 0; i < a->n_in; i++) {
        float w = element(type, row, i);
        for (uint32_t t = 0; t < n_tok; t++) {
            float *sum = &s[t][i % 16];
            *sum = fmaf(w, a->x[(t0 + t) * a->ld_x + i], *sum);
        }
    }
    for (uint32_t t = 0; t < n_tok; t++)
        y[(t0 + t) * ld_y] = tree(s[t]);
}

ALWAYS void float_row_times_all(sl_type type, const uint8_t *row, const sl_qact *a, float *y, size_t ld_y)
{
    for (uint32_t t = 0; t < a->n_tok; t += 4)
        float_row_times_some(type, row, a, t, a->n_tok - t < 4 ? a->n_tok - t : 4, y, ld_y);
}

/* ---- the table ---- */

#define SL_MM_TYPE(type, name, rule)                                                                                   \
    static void many_##name(const sl_mm_rows *w, uint32_t n_row, const sl_qact *a, uint8_t *piece, float *y,           \
                            size_t ld_y)                                                                               \
    {                                                                                                                  \
        (void)piece;                                                                                                   \
        for (uint32_t i = 0; i < n_row; i++)                                                                           \
            if (rule == SL_RULE_FLOAT)                                                                                 \
                float_row_times_all(type, w->row[i], a, y + i, ld_y);                                                  \
            else                                                                                                       \
                row_times_all(type, w->row[i], a, y + i, ld_y);                                                        \
    }                                                                                                                  \
    static void one_##name(const sl_mm_rows *w, const sl_qact *a, float *y)                                            \
    {                                                                                                                  \
        many_##name(w, SL_MM_GROUP, a, NULL, y, 0);                                                                    \
    }
#include "backend/cpu/matmul_list.inc"
#undef SL_MM_TYPE

static const sl_mm_kernel kernels[] = {
#define SL_MM_TYPE(type, name, rule) {type, rule, one_##name, many_##name},
#include "backend/cpu/matmul_list.inc"
#undef SL_MM_TYPE
};

const sl_mm_level sl_mm_portable = {kernels, SL_MM_GROUP, 1};
