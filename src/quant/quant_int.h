/* Inside the room: the decoders that the table in types.c points to.  Bit-equal to the gguf package; src at any
 * alignment, n a multiple of the type's block. */
#ifndef SL_QUANT_INT_H
#define SL_QUANT_INT_H

#include "quant/quant.h"

void sl_decode_f32(const void *src, float *dst, size_t n);
void sl_decode_f16(const void *src, float *dst, size_t n);
void sl_decode_bf16(const void *src, float *dst, size_t n);
void sl_decode_q8_0(const void *src, float *dst, size_t n);
void sl_decode_q4_0(const void *src, float *dst, size_t n);
void sl_decode_q4_1(const void *src, float *dst, size_t n);
void sl_decode_q5_0(const void *src, float *dst, size_t n);
void sl_decode_q5_1(const void *src, float *dst, size_t n);
void sl_decode_q4_k(const void *src, float *dst, size_t n);
void sl_decode_q5_k(const void *src, float *dst, size_t n);
void sl_decode_q6_k(const void *src, float *dst, size_t n);
void sl_decode_mxfp4(const void *src, float *dst, size_t n);

#endif
