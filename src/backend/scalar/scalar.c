/* Scalar backend: its table, and every operation on vectors.  Matrices are in matmul.c, attention in attend.c. */
#include "backend/scalar/scalar.h"

#include "backend/kv_row.h"
#include "base/mathx.h"

#include <math.h>

static void layout(sl_backend *b, sl_arena *a)
{
    b->row = sl_arena_take(a, b->opt.n_thread, sl_scalar_row_floats(&b->opt) * sizeof(float), 64);
}

static bool supports(const sl_backend *b, const sl_type_info *type)
{
    (void)b;
    return type->dequantise != NULL;
}

float sl_scalar_dot(const float *a, const float *b, size_t n)
{
    float s[16] = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t j = 0; j < 16; j++)
            s[j] += a[i + j] * b[i + j];
    for (size_t j = 0; i + j < n; j++)
        s[j] += a[i + j] * b[i + j];
    for (size_t half = 8; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            s[j] += s[j + half];
    return s[0];
}

static void rmsnorm(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, const float *w, uint32_t n,
                    uint32_t n_row, float eps)
{
    (void)b;
    for (uint32_t t = 0; t < n_row; t++, x += ld_x, y += ld_y) {
        float r = 1.0f / sqrtf(sl_scalar_dot(x, x, n) / (float)n + eps);
        for (uint32_t i = 0; i < n; i++)
            y[i] = x[i] * r * w[i];
    }
}

static void rotate_head(float *x, float position, const sl_rope *rope)
{
    uint32_t n_pair = rope->n_rot / 2;
    for (uint32_t i = 0; i < n_pair; i++) {
        float s, c;
        sl_sincosf(position * rope->inv_freq[i], &s, &c);
        s *= rope->mscale;
        c *= rope->mscale;
        float *first = rope->interleaved ? x + 2 * i : x + i;
        float *second = rope->interleaved ? x + 2 * i + 1 : x + i + n_pair;
        float u = *first, v = *second;
        *first = u * c - v * s;
        *second = v * c + u * s;
    }
}

static void rope_apply(sl_backend *b, float *x, size_t ld_x, uint32_t n_head, uint32_t head_dim, uint32_t n_tok,
                       uint32_t pos, const sl_rope *rope)
{
    (void)b;
    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t h = 0; h < n_head; h++)
            rotate_head(x + t * ld_x + (size_t)h * head_dim, (float)(pos + t), rope);
}

static void kv_store(sl_backend *b, sl_kv_type type, void *dst, const float *src, size_t ld_src, uint32_t n,
                     uint32_t n_tok)
{
    (void)b;
    for (uint32_t t = 0; t < n_tok; t++)
        sl_kv_row_store(type, (uint8_t *)dst + t * sl_kv_row_bytes(type, n), src + t * ld_src, n);
}

static void glu(sl_backend *b, float *y, size_t ld_y, const float *gate, size_t ld_gate, const float *up, size_t ld_up,
                uint32_t n, uint32_t n_tok, sl_act act)
{
    (void)b;
    for (uint32_t t = 0; t < n_tok; t++, y += ld_y, gate += ld_gate, up += ld_up)
        for (uint32_t i = 0; i < n; i++)
            y[i] = (act == SL_ACT_SILU ? sl_siluf(gate[i]) : sl_gelu_tanhf(gate[i])) * up[i];
}

static void add(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, uint32_t n, uint32_t n_tok)
{
    (void)b;
    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t i = 0; i < n; i++)
            y[t * ld_y + i] += x[t * ld_x + i];
}

static void add_bias(sl_backend *b, float *y, size_t ld_y, const float *bias, uint32_t n, uint32_t n_tok)
{
    add(b, y, ld_y, bias, 0, n, n_tok);
}

static void axpy(sl_backend *b, float *y, float a, const float *x, size_t n)
{
    (void)b;
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void combine(sl_backend *b, float *y, size_t ld_y, const float *x, const uint32_t *row, const float *weights,
                    uint32_t n_slot, uint32_t n, uint32_t n_tok)
{
    (void)b;
    for (uint32_t t = 0; t < n_tok; t++, row += n_slot, weights += n_slot)
        for (uint32_t i = 0; i < n; i++) {
            float sum = 0;
            for (uint32_t s = 0; s < n_slot; s++) sum = fmaf(weights[s], x[(size_t)row[s] * n + i], sum);
            y[t * ld_y + i] = sum;
        }
}

static void scale(sl_backend *b, float *y, size_t ld_y, float s, uint32_t n, uint32_t n_tok)
{
    (void)b;
    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t i = 0; i < n; i++)
            y[t * ld_y + i] *= s;
}

static void softcap(sl_backend *b, float *y, size_t ld_y, float cap, uint32_t n, uint32_t n_tok)
{
    (void)b;
    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t i = 0; i < n; i++)
            y[t * ld_y + i] = cap * sl_tanhf(y[t * ld_y + i] / cap);
}

const sl_backend_ops sl_scalar_ops = {
    .name = "scalar",
    .layout = layout,
    .supports = supports,
    .matmul = sl_scalar_matmul,
    .matmul_jobs = sl_scalar_matmul_jobs,
    .axpy = axpy,
    .combine = combine,
    .rmsnorm = rmsnorm,
    .rope = rope_apply,
    .kv_store = kv_store,
    .attend = sl_scalar_attend,
    .glu = glu,
    .add = add,
    .add_bias = add_bias,
    .scale = scale,
    .softcap = softcap,
};
