/* The scalar backend: what every operation means, in float32, for the reader.  It is never tuned; only matrix rows and
 * attention heads are spread over the pool, so that tests on real models end.  Read scalar.c, then matmul.c, attend.c.
 */
#ifndef SL_SCALAR_H
#define SL_SCALAR_H

#include "backend/backend_int.h"

/* Floats of scratch per thread: a matrix row or one head of a K or V row, padded to whole cache lines. */
static inline size_t sl_scalar_row_floats(const sl_backend_options *opt)
{
    size_t n = opt->max_in > opt->max_head_dim ? opt->max_in : opt->max_head_dim;
    return (n + 15) / 16 * 16;
}

/* sum of a[i] * b[i].  Sixteen partial sums: a long plain sum would lose digits that the tests want. */
float sl_scalar_dot(const float *a, const float *b, size_t n);

void sl_scalar_matmul(sl_backend *b, const sl_product *p, uint32_t n_product, const float *x, size_t ld_x,
                      uint32_t n_tok);
void sl_scalar_matmul_jobs(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job);
void sl_scalar_attend(sl_backend *b, const sl_attention *a);

#endif
