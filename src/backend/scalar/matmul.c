/* Scalar matrix products: a weight row is dequantised once and multiplied with every token. */
#include "backend/scalar/scalar.h"

typedef struct {
    const sl_product *p;
    const float *x;
    size_t ld_x;
    uint32_t n_tok;
    float *row; /* [n_thread][ld_row] */
    size_t ld_row;
} matmul_job;

static const uint8_t *row_data(const sl_matrix *w, uint32_t r)
{
    uint32_t i = w->n_part > 1 && r >= w->part[1].first_row;
    return w->part[i].data + (r - w->part[i].first_row) * w->row_bytes;
}

/* Output r of a matrix that lies transposed. */
static void widen_turned(const sl_matrix *w, uint32_t r, float *row)
{
    for (uint32_t i = 0; i < w->n_part; i++)
        for (uint32_t k = 0; k < w->part[i].n_row; k++)
            w->type->dequantise(w->part[i].data + k * w->row_bytes + (size_t)r * w->turned_bytes,
                                row + w->part[i].first_row + k, 1);
}

/* Row r in float32. */
static void widen_row(const sl_matrix *w, uint32_t r, float *row)
{
    enum { STEP = 1024 };
    uint8_t blocks[STEP / 32 * 17];
    if (w->turned_bytes) {
        widen_turned(w, r, row);
        return;
    }
    const uint8_t *data = row_data(w, r);
    if (!w->scales) {
        w->type->dequantise(data, row, w->n_in);
        return;
    }
    const uint8_t *scales = row_data(w->scales, r);
    for (uint32_t i = 0; i < w->n_in; i += STEP) {
        uint32_t n = w->n_in - i < STEP ? w->n_in - i : STEP;
        sl_mxfp4_join(data + i / 2, scales + i / 32, blocks, n);
        w->type->dequantise(blocks, row + i, n);
    }
}

/* One thread's share of the rows of one product. */
static void multiply_rows(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    const matmul_job *j = arg;
    const sl_matrix *w = j->p->w;
    float *row = j->row + i_thread * j->ld_row;
    uint64_t from, to;
    sl_share(w->n_out, i_thread, n_thread, &from, &to);
    for (uint32_t r = (uint32_t)from; r < to; r++) {
        widen_row(w, r, row);
        for (uint32_t t = 0; t < j->n_tok; t++)
            j->p->y[t * j->p->ld_y + r] = sl_scalar_dot(row, j->x + t * j->ld_x, w->n_in);
    }
}

void sl_scalar_matmul(sl_backend *b, const sl_product *p, uint32_t n_product, const float *x, size_t ld_x,
                      uint32_t n_tok)
{
    for (uint32_t i = 0; i < n_product; i++) {
        matmul_job j = {&p[i], x, ld_x, n_tok, b->row, sl_scalar_row_floats(&b->opt)};
        sl_pool_run(b->pool, multiply_rows, &j);
    }
}

void sl_scalar_matmul_jobs(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job)
{
    for (uint32_t i = 0; i < n_job; i++) {
        sl_product p = {jobs[i].w, jobs[i].y, jobs[i].ld_y};
        sl_scalar_matmul(b, &p, 1, jobs[i].x, jobs[i].ld_x, jobs[i].n_tok);
    }
}
