/* Room quant: block formats.  One table row per type; a new type is a row, a decoder, and is then tested by being listed. */
#ifndef SL_QUANT_H
#define SL_QUANT_H

#include "base/base.h"

/* The numbers are GGUF's type ids.  Dtypes that only safetensors has get ids from SL_TYPE_PRIVATE up, which no
 * GGUF file may use. */
typedef enum {
    SL_F32 = 0, SL_F16 = 1, SL_Q4_0 = 2, SL_Q4_1 = 3, SL_Q5_0 = 6, SL_Q5_1 = 7, SL_Q8_0 = 8,
    SL_Q4_K = 12, SL_Q5_K = 13, SL_Q6_K = 14, SL_BF16 = 30, SL_MXFP4 = 39,
} sl_type;
enum { SL_TYPE_PRIVATE = 1000 };

typedef struct {
    uint32_t id;
    const char *name;      /* "Q4_K" */
    uint32_t block;        /* elements per block; 0: the size is not known (removed types), the store refuses these */
    uint32_t block_bytes;
    /* n elements (a multiple of block) from src (any alignment) into dst; bit-equal to the gguf package. NULL: the type
     * has a known size but cannot be computed with yet. */
    void (*dequantise)(const void *src, float *dst, size_t n);
    const char *note;      /* for messages about types that are known but not supported, else NULL */
} sl_type_info;

const sl_type_info *sl_type_find(uint32_t id); /* NULL: not known at all */
const sl_type_info *sl_type_at(size_t i);      /* NULL at the end: walks the table */
/* "F32, F16, ..." of all types that can be computed with. */
const char *sl_type_supported_list(void);
/* Bytes of a row of n elements; false when n is not a multiple of the block or the size wraps. */
bool sl_type_row_bytes(const sl_type_info *t, uint64_t n, uint64_t *bytes);

/* MXFP4 as Hugging Face files have it, codes and scales apart, to blocks as GGUF has them: of n elements (a multiple of 32),
 * codes [n / 2] with element 2i in the low nibble of byte i, scales [n / 32], blocks [n / 32][17]. */
void sl_mxfp4_join(const uint8_t *codes, const uint8_t *scales, uint8_t *blocks, size_t n);

/* A weight matrix in memory: n_out rows of row_bytes each, in one or two pieces (rows that stay resident, rows that
 * were streamed in).  Data may lie at any alignment. */
typedef struct sl_matrix {
    const sl_type_info *type;
    uint32_t n_in, n_out;
    uint64_t row_bytes;
    const struct sl_matrix *scales; /* MXFP4 with its scales apart: rows of n_in / 32 bytes, and of n_in / 2 here; else NULL */
    /* Not 0: the matrix lies transposed, types of one element per block only.  What row_bytes and parts call a row is then the
     * weights of one input, in steps of turned_bytes from output to output, and parts cover [0, n_in). */
    uint32_t turned_bytes;
    uint32_t n_part; /* 1 or 2; parts are in row order and cover [0, n_out) */
    struct {
        const uint8_t *data; /* row first_row */
        uint32_t first_row, n_row;
    } part[2];
} sl_matrix;

/* rows [n][n_in]: outputs first, first + 1, ... of a matrix that lies transposed, each in one piece. */
void sl_matrix_turn(const sl_matrix *w, uint32_t first, uint32_t n, uint8_t *rows);

#endif
