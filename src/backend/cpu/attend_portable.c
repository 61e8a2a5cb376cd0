/* Portable kernels of attention; see kernels.h for what each does. */
#include "backend/cpu/kernels.h"

#include "base/mathx.h"

#include <math.h>

float sl_sum16_portable(const float *a, const float *b, size_t n)
{
    float s[16] = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) /* compilers turn this into lanes where fmaf is an instruction */
        for (size_t j = 0; j < 16; j++)
            s[j] = fmaf(a[i + j], b[i + j], s[j]);
    for (size_t j = 0; i + j < n; j++)
        s[j] = fmaf(a[i + j], b[i + j], s[j]);
    for (size_t half = 8; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            s[j] += s[j + half];
    return s[0];
}

void sl_scores_portable(float *s, const float *const *q, uint32_t n_query, const float *k, size_t ld_k, uint32_t n_pos,
                        uint32_t head_dim)
{
    for (uint32_t i = 0; i < n_query; i++)
        for (uint32_t j = 0; j < n_pos; j++)
            s[i * SL_SCORE_LD + j] = sl_sum16_portable(q[i], k + j * ld_k, head_dim);
}

float sl_softmax_portable(float *s, uint32_t n_pos, float scale, float softcap)
{
    float max = -INFINITY;
    for (uint32_t j = 0; j < n_pos; j++) {
        s[j] = scale * s[j];
        if (softcap > 0) s[j] = softcap * sl_tanhf(s[j] / softcap);
        if (s[j] > max) max = s[j];
    }
    for (uint32_t j = 0; j < n_pos; j++)
        s[j] = sl_expf(s[j] - max);
    return max;
}

void sl_weigh_portable(float *o, size_t ld_o, const float *p, uint32_t n_query, const float *v, size_t ld_v,
                       uint32_t n_pos, uint32_t head_dim)
{
    for (uint32_t i = 0; i < n_query; i++, o += ld_o, p += SL_SCORE_LD) {
        for (uint32_t d = 0; d < head_dim; d++)
            o[d] = 0;
        for (uint32_t j = 0; j < n_pos; j++)
            for (uint32_t d = 0; d < head_dim; d++)
                o[d] = fmaf(p[j], v[j * ld_v + d], o[d]);
    }
}

void sl_merge_portable(float *o, const float *o_b, float a, float c, size_t n)
{
    for (size_t d = 0; d < n; d++)
        o[d] = fmaf(o[d], a, o_b[d] * c);
}
