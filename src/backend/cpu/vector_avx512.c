/* AVX-512 kernels on rows: vector.c on 16 lanes, bit for bit.  Tails are masked, so no lane is ever summed that the law
 * does not name. */
#if defined(__x86_64__)
#include "backend/cpu/kernels.h"

#include "backend/cpu/lanes_avx512.h"
#include "backend/kv_row.h"

#include <math.h>
#include <string.h>

/* The tree of sum16. */
static float sum_tree(__m512 s)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

static void rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    __m512 s = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 v = _mm512_loadu_ps(x + i);
        s = _mm512_fmadd_ps(v, v, s);
    }
    __mmask16 tail = first_lanes(n - i);
    __m512 v = _mm512_maskz_loadu_ps(tail, x + i);
    s = _mm512_mask3_fmadd_ps(v, v, s, tail);

    const __m512 r = _mm512_set1_ps(1.0f / sqrtf(sum_tree(s) / (float)n + eps));
    for (i = 0; i < n; i += 16) {
        __m512 u = _mm512_mul_ps(load_part(x + i, n - i), r);
        store_part(y + i, n - i, _mm512_mul_ps(u, load_part(w + i, n - i)));
    }
}

/* The first n of 16 pairs (i, i + n_pair) of one head. */
static void rotate_halves(float *x, size_t n_pair, size_t n, __m512 s, __m512 c)
{
    __m512 a = load_part(x, n), b = load_part(x + n_pair, n);
    store_part(x, n, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
    store_part(x + n_pair, n, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
}

/* Eight pairs (2i, 2i + 1); s and c hold each pair's value twice. */
static void rotate_neighbours(float *x, size_t n_float, __m512 s, __m512 c)
{
    __m512 v = load_part(x, n_float), swapped = _mm512_permute_ps(v, _MM_SHUFFLE(2, 3, 0, 1));
    store_part(x, n_float, _mm512_fmaddsub_ps(v, c, _mm512_mul_ps(swapped, s)));
}

static void rope(float *x, uint32_t n_head, uint32_t head_dim, float position, const sl_rope *rope)
{
    const __m512i twice_lo = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i twice_hi = _mm512_add_epi32(twice_lo, _mm512_set1_epi32(8));
    size_t n_pair = rope->n_rot / 2;
    for (size_t i = 0; i < n_pair; i += 16) {
        size_t n = n_pair - i;
        __m512 freq = load_part(rope->inv_freq + i, n), s, c;
        sincos_16(_mm512_mul_ps(_mm512_set1_ps(position), freq), &s, &c);
        s = _mm512_mul_ps(s, _mm512_set1_ps(rope->mscale));
        c = _mm512_mul_ps(c, _mm512_set1_ps(rope->mscale));
        if (!rope->interleaved) {
            for (uint32_t h = 0; h < n_head; h++)
                rotate_halves(x + (size_t)h * head_dim + i, n_pair, n, s, c);
            continue;
        }
        __m512 s_lo = _mm512_permutexvar_ps(twice_lo, s), c_lo = _mm512_permutexvar_ps(twice_lo, c);
        __m512 s_hi = _mm512_permutexvar_ps(twice_hi, s), c_hi = _mm512_permutexvar_ps(twice_hi, c);
        for (uint32_t h = 0; h < n_head; h++) {
            float *p = x + (size_t)h * head_dim + 2 * i;
            rotate_neighbours(p, 2 * n, s_lo, c_lo);
            if (n > 8) rotate_neighbours(p + 16, 2 * n - 16, s_hi, c_hi);
        }
    }
}

static void glu(float *y, const float *gate, const float *up, size_t n, sl_act act)
{
    for (size_t i = 0; i < n; i += 16) {
        __m512 g = load_part(gate + i, n - i);
        g = act == SL_ACT_SILU ? silu_16(g) : gelu_tanh_16(g);
        store_part(y + i, n - i, _mm512_mul_ps(g, load_part(up + i, n - i)));
    }
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        store_part(y + i, n - i, _mm512_add_ps(load_part(y + i, n - i), load_part(x + i, n - i)));
    }
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        store_part(y + i, n - i, _mm512_fmadd_ps(_mm512_set1_ps(a), load_part(x + i, n - i), load_part(y + i, n - i)));
}

static void scale(float *y, float s, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        store_part(y + i, n - i, _mm512_mul_ps(load_part(y + i, n - i), _mm512_set1_ps(s)));
    }
}

static void softcap(float *y, float cap, size_t n)
{
    const __m512 c = _mm512_set1_ps(cap);
    for (size_t i = 0; i < n; i += 16) {
        __m512 t = tanh_16(_mm512_div_ps(load_part(y + i, n - i), c));
        store_part(y + i, n - i, _mm512_mul_ps(c, t));
    }
}

static void exp_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        store_part(x + i, n - i, exp_16(load_part(x + i, n - i)));
    }
}

/* ---- KV rows ---- */

static void store_f16(uint8_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __m256i h = _mm512_cvtps_ph(load_part(src + i, n - i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        if (n - i >= 16)
            memcpy(dst + 2 * i, &h, sizeof h);
        else
            _mm256_mask_storeu_epi16(dst + 2 * i, first_lanes(n - i), h);
    }
}

static void store_q8_block(uint8_t *dst, const float *src)
{
    __m512 lo = _mm512_loadu_ps(src), hi = _mm512_loadu_ps(src + 16);
    __m512i big = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(lo)), _mm512_castps_si512(_mm512_abs_ps(hi)));
    int32_t bits = _mm512_reduce_max_epi32(big);
    float max, d;
    uint16_t h;
    memcpy(&max, &bits, 4);
    bool scaled = sl_kv_q8_scale(max, &h, &d);
    memcpy(dst, &h, 2);
    __m128i q[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
    if (scaled) {
        const __m512 inverse = _mm512_set1_ps(1.0f / d);
        const __m512i least = _mm512_set1_epi32(-127);
        __m512i i_lo = _mm512_cvtps_epi32(_mm512_mul_ps(lo, inverse));
        __m512i i_hi = _mm512_cvtps_epi32(_mm512_mul_ps(hi, inverse));
        q[0] = _mm512_cvtsepi32_epi8(_mm512_max_epi32(i_lo, least)); /* saturates at 127 */
        q[1] = _mm512_cvtsepi32_epi8(_mm512_max_epi32(i_hi, least));
    }
    memcpy(dst + 2, q, sizeof q);
}

static void kv_store(sl_kv_type type, void *dst, const float *src, size_t n)
{
    uint8_t *to = dst;
    if (type == SL_KV_F16) {
        store_f16(to, src, n);
    } else if (type == SL_KV_Q8) {
        for (size_t i = 0; i < n; i += SL_KV_Q8_BLOCK, to += SL_KV_Q8_BYTES)
            store_q8_block(to, src + i);
    } else {
        memcpy(to, src, n * sizeof *src);
    }
}

static void load_f16(float *dst, const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __m256i h = _mm256_maskz_loadu_epi16(first_lanes(n - i), src + 2 * i);
        store_part(dst + i, n - i, _mm512_cvtph_ps(h));
    }
}

/* A head may begin and end inside a block. */
static void load_q8(float *dst, const uint8_t *row, size_t first, size_t n)
{
    while (n) {
        const uint8_t *block = row + first / SL_KV_Q8_BLOCK * SL_KV_Q8_BYTES;
        size_t at = first % SL_KV_Q8_BLOCK, part = n < SL_KV_Q8_BLOCK - at ? n : SL_KV_Q8_BLOCK - at;
        uint16_t h;
        memcpy(&h, block, 2);
        const __m512 d = _mm512_set1_ps(_cvtsh_ss(h));
        for (size_t i = 0; i < part; i += 16) {
            __m512i q = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first_lanes(part - i), block + 2 + at + i));
            store_part(dst + i, part - i, _mm512_mul_ps(_mm512_cvtepi32_ps(q), d));
        }
        dst += part;
        first += part;
        n -= part;
    }
}

static void kv_load(sl_kv_type type, float *dst, const void *row, size_t first, size_t n)
{
    const uint8_t *from = row;
    if (type == SL_KV_F16) {
        load_f16(dst, from + 2 * first, n);
    } else if (type == SL_KV_Q8) {
        load_q8(dst, from, first, n);
    } else {
        memcpy(dst, from + first * sizeof *dst, n * sizeof *dst);
    }
}

const sl_cpu_kernels sl_cpu_kernels_avx512 = {
    .level = SL_CPU_AVX512,
    .rmsnorm = rmsnorm,
    .rope = rope,
    .kv_store = kv_store,
    .glu = glu,
    .add = add,
    .axpy = axpy,
    .scale = scale,
    .softcap = softcap,
    .exp = exp_row,
    .kv_load = kv_load,
    .scores = sl_scores_avx512,
    .softmax = sl_softmax_avx512,
    .weigh = sl_weigh_avx512,
    .merge = sl_merge_avx512,
};
#else
typedef int sl_not_x86; /* a file may not be empty */
#endif
