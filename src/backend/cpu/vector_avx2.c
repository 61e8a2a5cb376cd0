/* AVX2 kernels on rows: vector.c on 8 lanes, bit for bit; sum16 is two accumulators.  Tails go through masks. */
#if defined(__x86_64__)
#include "backend/cpu/kernels.h"

#include "backend/cpu/lanes_avx2.h"
#include "backend/kv_row.h"

#include <math.h>
#include <string.h>

/* The tree of sum16; lo are the partial sums 0..7. */
static float sum_tree(__m256 lo, __m256 hi)
{
    __m256 a = _mm256_add_ps(lo, hi);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* s + v * v in the first n lanes. */
static __m256 add_squares(__m256 s, const float *x, size_t n)
{
    __m256i m = first_lanes(n);
    __m256 v = _mm256_maskload_ps(x, m);
    return _mm256_blendv_ps(s, _mm256_fmadd_ps(v, v, s), _mm256_castsi256_ps(m));
}

static void rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    __m256 lo = _mm256_setzero_ps(), hi = lo;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 u = _mm256_loadu_ps(x + i), v = _mm256_loadu_ps(x + i + 8);
        lo = _mm256_fmadd_ps(u, u, lo);
        hi = _mm256_fmadd_ps(v, v, hi);
    }
    if (i < n) lo = add_squares(lo, x + i, n - i);
    if (i + 8 < n) hi = add_squares(hi, x + i + 8, n - i - 8);

    const __m256 r = _mm256_set1_ps(1.0f / sqrtf(sum_tree(lo, hi) / (float)n + eps));
    for (i = 0; i < n; i += 8) {
        __m256 u = _mm256_mul_ps(load_part(x + i, n - i), r);
        store_part(y + i, n - i, _mm256_mul_ps(u, load_part(w + i, n - i)));
    }
}

/* The first n of 8 pairs (i, i + n_pair) of one head. */
static void rotate_halves(float *x, size_t n_pair, size_t n, __m256 s, __m256 c)
{
    __m256 a = load_part(x, n), b = load_part(x + n_pair, n);
    store_part(x, n, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
    store_part(x + n_pair, n, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
}

/* Four pairs (2i, 2i + 1); s and c hold each pair's value twice. */
static void rotate_neighbours(float *x, size_t n_float, __m256 s, __m256 c)
{
    __m256 v = load_part(x, n_float), swapped = _mm256_permute_ps(v, _MM_SHUFFLE(2, 3, 0, 1));
    store_part(x, n_float, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(swapped, s)));
}

static void rope(float *x, uint32_t n_head, uint32_t head_dim, float position, const sl_rope *rope)
{
    const __m256i twice_lo = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256i twice_hi = _mm256_add_epi32(twice_lo, _mm256_set1_epi32(4));
    size_t n_pair = rope->n_rot / 2;
    for (size_t i = 0; i < n_pair; i += 8) {
        size_t n = n_pair - i;
        __m256 freq = load_part(rope->inv_freq + i, n), s, c;
        sincos_8(_mm256_mul_ps(_mm256_set1_ps(position), freq), &s, &c);
        s = _mm256_mul_ps(s, _mm256_set1_ps(rope->mscale));
        c = _mm256_mul_ps(c, _mm256_set1_ps(rope->mscale));
        if (!rope->interleaved) {
            for (uint32_t h = 0; h < n_head; h++)
                rotate_halves(x + (size_t)h * head_dim + i, n_pair, n, s, c);
            continue;
        }
        __m256 s_lo = _mm256_permutevar8x32_ps(s, twice_lo), c_lo = _mm256_permutevar8x32_ps(c, twice_lo);
        __m256 s_hi = _mm256_permutevar8x32_ps(s, twice_hi), c_hi = _mm256_permutevar8x32_ps(c, twice_hi);
        for (uint32_t h = 0; h < n_head; h++) {
            float *p = x + (size_t)h * head_dim + 2 * i;
            rotate_neighbours(p, 2 * n, s_lo, c_lo);
            if (n > 4) rotate_neighbours(p + 8, 2 * n - 8, s_hi, c_hi);
        }
    }
}

static void glu(float *y, const float *gate, const float *up, size_t n, sl_act act)
{
    for (size_t i = 0; i < n; i += 8) {
        __m256 g = load_part(gate + i, n - i);
        g = act == SL_ACT_SILU ? silu_8(g) : gelu_tanh_8(g);
        store_part(y + i, n - i, _mm256_mul_ps(g, load_part(up + i, n - i)));
    }
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, n - i, _mm256_add_ps(load_part(y + i, n - i), load_part(x + i, n - i)));
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, n - i, _mm256_fmadd_ps(_mm256_set1_ps(a), load_part(x + i, n - i), load_part(y + i, n - i)));
}

static void scale(float *y, float s, size_t n)
{
    const __m256 k = _mm256_set1_ps(s);
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, n - i, _mm256_mul_ps(load_part(y + i, n - i), k));
}

static void softcap(float *y, float cap, size_t n)
{
    const __m256 c = _mm256_set1_ps(cap);
    for (size_t i = 0; i < n; i += 8) {
        __m256 t = tanh_8(_mm256_div_ps(load_part(y + i, n - i), c));
        store_part(y + i, n - i, _mm256_mul_ps(c, t));
    }
}

static void exp_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(x + i, n - i, exp_8(load_part(x + i, n - i)));
}

/* ---- KV rows ---- */

static void store_f16(uint8_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        __m128i h = _mm256_cvtps_ph(load_part(src + i, n - i), _MM_FROUND_TO_NEAREST_INT);
        if (n - i >= 8)
            memcpy(dst + 2 * i, &h, 16);
        else
            memcpy(dst + 2 * i, &h, 2 * (n - i));
    }
}

static int32_t largest(__m256i v)
{
    __m128i a = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_max_epi32(a, _mm_shuffle_epi32(a, _MM_SHUFFLE(1, 0, 3, 2)));
    a = _mm_max_epi32(a, _mm_shuffle_epi32(a, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(a);
}

static void store_q8_block(uint8_t *dst, const float *src)
{
    const __m256i size = _mm256_set1_epi32(0x7fffffff);
    __m256 v[4];
    __m256i big = _mm256_setzero_si256(), q[4];
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(src + 8 * i);
        big = _mm256_max_epi32(big, _mm256_and_si256(_mm256_castps_si256(v[i]), size));
    }
    int32_t bits = largest(big);
    float max, d;
    uint16_t h;
    memcpy(&max, &bits, 4);
    bool scaled = sl_kv_q8_scale(max, &h, &d);
    memcpy(dst, &h, 2);
    if (!scaled) {
        memset(dst + 2, 0, SL_KV_Q8_BLOCK);
        return;
    }
    const __m256 inverse = _mm256_set1_ps(1.0f / d);
    for (int i = 0; i < 4; i++) {
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
        q[i] = _mm256_max_epi32(q[i], _mm256_set1_epi32(-127));
    }
    /* packs works in 128-bit lanes: the groups of four come out as 0 2 4 6 1 3 5 7; it saturates at 127 */
    __m256i w = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    w = _mm256_permutevar8x32_epi32(w, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)(dst + 2), w);
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
    for (size_t i = 0; i < n; i += 8) {
        __m128i h = _mm_setzero_si128();
        if (n - i >= 8)
            memcpy(&h, src + 2 * i, 16);
        else
            memcpy(&h, src + 2 * i, 2 * (n - i));
        store_part(dst + i, n - i, _mm256_cvtph_ps(h));
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
        const __m256 d = _mm256_set1_ps(_cvtsh_ss(h));
        for (size_t i = 0; i < part; i += 8) {
            int64_t codes = 0;
            if (part - i >= 8)
                memcpy(&codes, block + 2 + at + i, 8);
            else
                memcpy(&codes, block + 2 + at + i, part - i);
            __m256 q = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(codes)));
            store_part(dst + i, part - i, _mm256_mul_ps(q, d));
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

const sl_cpu_kernels sl_cpu_kernels_avx2 = {
    .level = SL_CPU_AVX2,
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
    .scores = sl_scores_avx2,
    .softmax = sl_softmax_avx2,
    .weigh = sl_weigh_avx2,
    .merge = sl_merge_avx2,
};
#else
typedef int sl_not_x86; /* a file may not be empty */
#endif
