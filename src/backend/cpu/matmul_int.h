/* Matrix kernels of the cpu backend: what a kernel looks like, and the facts about block formats that kernels share.
 *
 * Every kernel of a type gives the same bits (the law of sl_matmul in backend.h); what differs is how rows and tokens
 * are spread over lanes.  A level (portable, avx2, avx512) is a table of kernels, one row per (type, layout) of the
 * weights; matmul_list.inc lists the types.  Another layout of resident weights is another row of that table.
 *
 * one   a row group (8 rows) times one token, straight from the file's layout: as fast as memory, for decoding
 * many  a panel (8 or 16 rows) times all tokens: the weights are decoded once, piece by piece, into int8 codes with the
 *       rows side by side, and every tile of tokens is multiplied by them while they are in the cache */
#ifndef SL_CPU_MATMUL_INT_H
#define SL_CPU_MATMUL_INT_H

#include "backend/cpu/act.h"
#include "quant/quant.h"

#include <string.h>

enum {
    SL_MM_GROUP = 8,    /* rows of a group */
    SL_MM_PANEL = 16,   /* rows of the largest panel */
    SL_MM_PIECE = 1024, /* columns decoded at a time: a piece of a panel fits the first-level cache */
    SL_MM_PIECE_BYTES = SL_MM_PANEL * SL_MM_PIECE * 3 / 2, /* codes, and scales of at most 6 bytes per 16 codes */
};

/* Where weights lie, and what will be wanted next (for prefetching; any address is safe). */
typedef struct {
    const uint8_t *row[SL_MM_PANEL]; /* of a group or panel; rows past the last one repeat it */
    const uint8_t *ahead;            /* as many bytes that will be wanted soon: rows after these */
} sl_mm_rows;

/* y [8] = the group's rows times token 0. */
typedef void sl_mm_one_fn(const sl_mm_rows *w, const sl_qact *a, float *y);

/* y[t * ld_y + i] = row i times token t, for i < n_row.  piece is scratch of SL_MM_PIECE_BYTES, 64-byte aligned. */
typedef void sl_mm_many_fn(const sl_mm_rows *w, uint32_t n_row, const sl_qact *a, uint8_t *piece, float *y,
                           size_t ld_y);

typedef struct {
    sl_type type;
    sl_rule rule;
    sl_mm_one_fn *one;
    sl_mm_many_fn *many;
} sl_mm_kernel;

typedef struct {
    const sl_mm_kernel *kernel; /* one per line of matmul_list.inc */
    uint32_t panel;             /* rows of many */
    uint32_t width;             /* of activations for many */
} sl_mm_level;

extern const sl_mm_level sl_mm_portable;
#if defined(__x86_64__)
extern const sl_mm_level sl_mm_avx2, sl_mm_avx512;
#endif

enum {
#define SL_MM_TYPE(type, name, rule) SL_MM_ROW_##type,
#include "backend/cpu/matmul_list.inc"
#undef SL_MM_TYPE
    SL_MM_N_KERNEL
};

/* ---- block formats: every argument is a constant where these are used, so that they cost nothing ---- */

static inline uint32_t sl_mm_block_bytes(sl_type type)
{
    switch (type) {
    case SL_F32:
        return 4;
    case SL_F16:
    case SL_BF16:
        return 2;
    case SL_MXFP4:
        return 17;
    case SL_Q4_0:
        return 18;
    case SL_Q4_1:
        return 20;
    case SL_Q5_0:
        return 22;
    case SL_Q5_1:
        return 24;
    case SL_Q8_0:
        return 34;
    case SL_Q4_K:
        return 144;
    case SL_Q5_K:
        return 176;
    case SL_Q6_K:
        return 210;
    }
    return 0;
}

static inline bool sl_mm_is_k(sl_type type)
{
    return type == SL_Q4_K || type == SL_Q5_K || type == SL_Q6_K;
}

/* Elements of a quantised block. */
static inline uint32_t sl_mm_block(sl_type type)
{
    return sl_mm_is_k(type) ? 256 : 32;
}

/* A second float per block: a minimum. */
static inline bool sl_mm_has_min(sl_type type)
{
    return type == SL_Q4_1 || type == SL_Q5_1 || type == SL_Q4_K || type == SL_Q5_K;
}

/* log2 of what is taken off every code, for the types of rule 32; -1: nothing.  Q8_0 codes are signed. */
static inline int sl_mm_offset_log2(sl_type type)
{
    return type == SL_Q4_0 ? 3 : type == SL_Q5_0 || type == SL_MXFP4 ? 4 : -1;
}

/* MXFP4: twice the values of the sixteen codes, plus the offset so that they are unsigned. */
#define SL_MM_FP4_CODES 16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4

static inline uint32_t sl_mm_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static inline uint16_t sl_mm_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

/* The eight scales (lowest byte first) and minima of Q4_K and Q5_K, six bits each in 12 bytes. */
static inline void sl_mm_scales_k(const uint8_t *p, uint64_t *scale, uint64_t *min)
{
    uint32_t a = sl_mm_u32(p), b = sl_mm_u32(p + 4), c = sl_mm_u32(p + 8);
    uint32_t s4 = (c & 0x0f0f0f0f) | (a >> 6 & 0x03030303) << 4, m4 = (c >> 4 & 0x0f0f0f0f) | (b >> 6 & 0x03030303)
                                                                                                  << 4;
    *scale = (a & 0x3f3f3f3f) | (uint64_t)s4 << 32;
    *min = (b & 0x3f3f3f3f) | (uint64_t)m4 << 32;
}

#endif
