/* Quantises activations with AVX2, for the levels avx2 and avx512.  See act.h. */
#if defined(__x86_64__)
#include "backend/cpu/act.h"

#include <immintrin.h>
#include <string.h>

static uint32_t max_lane(__m256i v)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* The largest |x| of n (a multiple of 32), as bits. */
static uint32_t top_bits(const float *x, uint32_t n)
{
    const __m256i abs = _mm256_set1_epi32(0x7fffffff);
    __m256i m0 = _mm256_setzero_si256(), m1 = m0;
    for (uint32_t i = 0; i < n; i += 16) {
        m0 = _mm256_max_epu32(m0, _mm256_and_si256(abs, _mm256_loadu_si256((const void *)(x + i))));
        m1 = _mm256_max_epu32(m1, _mm256_and_si256(abs, _mm256_loadu_si256((const void *)(x + i + 8))));
    }
    return max_lane(_mm256_max_epu32(m0, m1));
}

/* d and 1/d of a block; false: all q are 0. */
static bool scale_of(uint32_t top, float *d, float *inv)
{
    float m;
    memcpy(&m, &top, 4);
    *d = m / 127.0f;
    if (!(*d > 0x1p-128f) || top >= 0x7f800000) return false;
    *inv = 1.0f / *d;
    return true;
}

static __m256i to_int(const float *x, __m256 inv)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inv));
}

/* 32 codes, in order; |code| <= 127, so that nothing saturates. */
static __m256i codes(const float *x, float inv)
{
    __m256 v = _mm256_set1_ps(inv);
    __m256i a = _mm256_packs_epi32(to_int(x, v), to_int(x + 8, v));
    __m256i b = _mm256_packs_epi32(to_int(x + 16, v), to_int(x + 24, v));
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Sums of the first and last 16 of 32 codes. */
static void half_sums(__m256i q, int16_t sum[2])
{
    __m256i s = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
    sum[0] = (int16_t)_mm256_extract_epi16(s, 0);
    sum[1] = (int16_t)_mm256_extract_epi16(s, 8);
}

/* Stores the codes of one block of 32 of eight tokens side by side. */
static void store_8(int8_t *to, const __m256i q[8])
{
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(q[i], q[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(q[i], q[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_si256((void *)(to + i * 32), _mm256_permute2x128_si256(b[i], b[i + 4], 0x20));
        _mm256_storeu_si256((void *)(to + 128 + i * 32), _mm256_permute2x128_si256(b[i], b[i + 4], 0x31));
    }
}

static void block_32(const sl_qact *a, const float *x, uint32_t n_tok, sl_qrows r)
{
    __m256i q[SL_ACT_WIDTH];
    for (uint32_t t = 0; t < a->width; t++) q[t] = _mm256_setzero_si256();
    for (uint32_t t = 0; t < n_tok; t++) {
        const float *xt = x + t * a->ld_x;
        float inv;
        int16_t sum[2] = {0, 0};
        if (scale_of(top_bits(xt, 32), &r.d[t], &inv)) {
            q[t] = codes(xt, inv);
            half_sums(q[t], sum);
        }
        r.sum[t] = sum[0] + sum[1];
        r.s[t] = r.d[t] * (float)r.sum[t];
    }
    if (a->width == SL_ACT_WIDTH)
        store_8(r.q, q);
    else
        _mm256_storeu_si256((void *)r.q, q[0]);
}

static void block_256(const sl_qact *a, const float *x, uint32_t n_tok, sl_qrows r)
{
    float inv[SL_ACT_WIDTH];
    bool usable[SL_ACT_WIDTH];
    for (uint32_t t = 0; t < n_tok; t++) usable[t] = scale_of(top_bits(x + t * a->ld_x, 256), &r.d[t], &inv[t]);
    for (uint32_t g = 0; g < 8; g++) { /* sub-blocks of 32 */
        __m256i q[SL_ACT_WIDTH];
        for (uint32_t t = 0; t < a->width; t++) q[t] = _mm256_setzero_si256();
        for (uint32_t t = 0; t < n_tok; t++) {
            int16_t *sum = r.sum16 + (g * a->width + t) * 2;
            if (usable[t]) q[t] = codes(x + t * a->ld_x + g * 32, inv[t]);
            half_sums(q[t], sum);
            r.sum32[(g / 2 * a->width + t) * 2 + g % 2] = (int16_t)(sum[0] + sum[1]);
        }
        if (a->width == SL_ACT_WIDTH)
            store_8(r.q + (size_t)g * 32 * SL_ACT_WIDTH, q);
        else
            _mm256_storeu_si256((void *)(r.q + g * 32), q[0]);
    }
}

void sl_qact_group_avx2(const sl_qact *a, unsigned rules, uint32_t group)
{
    uint32_t t0 = group * a->width, n_tok = a->n_tok - t0 < a->width ? a->n_tok - t0 : a->width;
    const float *x = a->x + (size_t)t0 * a->ld_x;
    if (rules & SL_RULE_32)
        for (uint32_t b = 0; b < a->n_in / 32; b++) block_32(a, x + b * 32, n_tok, sl_qact_at32(a, group, b, 0));
    if (rules & SL_RULE_256)
        for (uint32_t b = 0; b < a->n_in / 256; b++) block_256(a, x + b * 256, n_tok, sl_qact_at256(a, group, b, 0));
}
#endif
