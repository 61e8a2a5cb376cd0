/* Rows of the KV cache as bytes: float32, float16, or blocks of 32 {float16 d; int8 q[32]}.  This is the definition
 * that the scalar backend and the portable kernels use and that the SIMD kernels repeat bit by bit. */
#ifndef SL_KV_ROW_H
#define SL_KV_ROW_H

#include "backend/backend.h"

enum { SL_KV_Q8_BLOCK = 32, SL_KV_Q8_BYTES = 34 };

/* The scale of 32 values, as stored and widened again: d = f16(max|x| / 127).  False when the block's codes are all 0:
 * d is 0, or the block holds a NaN, an infinity or more than float16 reaches, and then d is not finite, so that the
 * block reads back as NaN and the fault is seen rather than smoothed over. */
bool sl_kv_q8_scale(float max, uint16_t *d_f16, float *d);

void sl_kv_row_store(sl_kv_type type, void *dst, const float *src, size_t n);
/* Elements [first, first + n) of a row, exact in float32. */
void sl_kv_row_load(sl_kv_type type, float *dst, const void *row, size_t first, size_t n);

#endif
