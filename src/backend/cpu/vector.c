/* Portable kernels on rows: the law of backend.h written out with fmaf, for any architecture.  Slow where fmaf is a
 * library call; the SIMD files repeat it lane by lane. */
#include "backend/cpu/kernels.h"

#include "backend/kv_row.h"
#include "base/mathx.h"

#include <math.h>

static void rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float r = 1.0f / sqrtf(sl_sum16_portable(x, x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

static void rope(float *x, uint32_t n_head, uint32_t head_dim, float position, const sl_rope *rope)
{
    uint32_t n_pair = rope->n_rot / 2, step = rope->interleaved ? 2 : 1, apart = rope->interleaved ? 1 : n_pair;
    for (uint32_t i = 0; i < n_pair; i++) {
        float s, c;
        sl_sincosf(position * rope->inv_freq[i], &s, &c);
        s *= rope->mscale;
        c *= rope->mscale;
        for (uint32_t h = 0; h < n_head; h++) {
            float *p = x + (size_t)h * head_dim + i * step, a = p[0], b = p[apart];
            p[0] = fmaf(a, c, -(b * s));
            p[apart] = fmaf(b, c, a * s);
        }
    }
}

static void glu(float *y, const float *gate, const float *up, size_t n, sl_act act)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (act == SL_ACT_SILU ? sl_siluf(gate[i]) : sl_gelu_tanhf(gate[i])) * up[i];
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void scale(float *y, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= s;
}

static void softcap(float *y, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = cap * sl_tanhf(y[i] / cap);
}

static void exp_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = sl_expf(x[i]);
}

const sl_cpu_kernels sl_cpu_kernels_portable = {
    .level = SL_CPU_PORTABLE,
    .rmsnorm = rmsnorm,
    .rope = rope,
    .kv_store = sl_kv_row_store,
    .glu = glu,
    .add = add,
    .axpy = axpy,
    .scale = scale,
    .softcap = softcap,
    .exp = exp_row,
    .kv_load = sl_kv_row_load,
    .scores = sl_scores_portable,
    .softmax = sl_softmax_portable,
    .weigh = sl_weigh_portable,
    .merge = sl_merge_portable,
};
