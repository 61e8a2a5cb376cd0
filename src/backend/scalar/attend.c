/* Scalar attention: softmax over all visible positions, one query head of one token at a time.  The scores are computed
 * twice, first for their maximum, so that no memory grows with the context. */
#include "backend/scalar/scalar.h"

#include "backend/kv_row.h"
#include "base/mathx.h"

#include <math.h>

typedef struct {
    const sl_attention *a;
    float *row; /* [n_thread][ld_row] */
    size_t ld_row;
} attend_job;

static void load_head(const sl_attention *a, const void *rows, uint32_t p, uint32_t head_kv, float *dst)
{
    sl_kv_row_load(a->type, dst, (const uint8_t *)rows + p * a->row_bytes, (size_t)head_kv * a->head_dim, a->head_dim);
}

static float score(const sl_attention *a, const float *q, uint32_t p, uint32_t head_kv, float *row)
{
    load_head(a, a->k, p, head_kv, row);
    float s = a->scale * sl_scalar_dot(q, row, a->head_dim);
    return a->softcap > 0 ? a->softcap * sl_tanhf(s / a->softcap) : s;
}

static void attend_head(const sl_attention *a, uint32_t t, uint32_t head, float *row)
{
    const float *q = a->q + t * a->ld_q + (size_t)head * a->head_dim;
    float *out = a->out + t * a->ld_out + (size_t)head * a->head_dim;
    uint32_t head_kv = head / (a->n_head / a->n_head_kv), end = a->pos + t + 1;
    uint32_t begin = a->window && end > a->window ? end - a->window : 0;

    float max = -INFINITY, sum = 0;
    for (uint32_t p = begin; p < end; p++)
        max = fmaxf(max, score(a, q, p, head_kv, row));
    if (a->sinks) {
        max = fmaxf(max, a->sinks[head]);
        sum = sl_expf(a->sinks[head] - max);
    }
    for (uint32_t d = 0; d < a->head_dim; d++)
        out[d] = 0;
    for (uint32_t p = begin; p < end; p++) {
        float weight = sl_expf(score(a, q, p, head_kv, row) - max);
        sum += weight;
        load_head(a, a->v, p, head_kv, row);
        for (uint32_t d = 0; d < a->head_dim; d++)
            out[d] += weight * row[d];
    }
    for (uint32_t d = 0; d < a->head_dim; d++)
        out[d] /= sum;
}

static void attend_heads(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    const attend_job *j = arg;
    uint64_t from, to;
    sl_share((uint64_t)j->a->n_tok * j->a->n_head, i_thread, n_thread, &from, &to);
    for (uint64_t i = from; i < to; i++)
        attend_head(j->a, (uint32_t)(i / j->a->n_head), (uint32_t)(i % j->a->n_head), j->row + i_thread * j->ld_row);
}

void sl_scalar_attend(sl_backend *b, const sl_attention *a)
{
    attend_job j = {a, b->row, sl_scalar_row_floats(&b->opt)};
    sl_pool_run(b->pool, attend_heads, &j);
}
