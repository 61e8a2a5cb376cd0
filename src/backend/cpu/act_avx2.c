/* Quantises activations with AVX2, for the levels avx2 and avx512.  See act.h.
 *
 * Eight blocks at a time, each in a lane of its own where it comes to maxima, scales and sums: the same block of eight
 * tokens that stand side by side, or eight blocks of the only token. */
#if defined(__x86_64__)
#include "backend/cpu/act.h"

#include <immintrin.h>
#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* ---- eight lanes ---- */

/* Lane i of the result is the largest of v[i], unsigned. */
ALWAYS __m256i max_crosswise(const __m256i v[8])
{
    __m256i h[4], a, b;
    UNROLL
    for (int i = 0; i < 4; i++)
        h[i] =
            _mm256_max_epu32(_mm256_blend_epi32(v[i], v[i + 4], 0xf0), _mm256_permute2x128_si256(v[i], v[i + 4], 0x21));
    a = _mm256_max_epu32(_mm256_unpacklo_epi32(h[0], h[1]), _mm256_unpackhi_epi32(h[0], h[1]));
    b = _mm256_max_epu32(_mm256_unpacklo_epi32(h[2], h[3]), _mm256_unpackhi_epi32(h[2], h[3]));
    return _mm256_max_epu32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* The largest |x| of n (a multiple of 16), as bits, in one of eight places. */
ALWAYS __m256i top_of(const float *x, uint32_t n)
{
    const __m256i abs = _mm256_set1_epi32(0x7fffffff);
    __m256i m0 = _mm256_setzero_si256(), m1 = m0;
    for (uint32_t i = 0; i < n; i += 16) {
        m0 = _mm256_max_epu32(m0, _mm256_and_si256(abs, _mm256_loadu_si256((const void *)(x + i))));
        m1 = _mm256_max_epu32(m1, _mm256_and_si256(abs, _mm256_loadu_si256((const void *)(x + i + 8))));
    }
    return _mm256_max_epu32(m0, m1);
}

typedef struct {
    __m256 d;
    float inv[8];
    int32_t usable[8]; /* all bits, or none: then all q are 0 */
} scales;

/* Scales of eight blocks of n, which begin `at` floats from x. */
ALWAYS scales scales_of(const float *const x[8], uint32_t at, uint32_t n)
{
    scales s;
    __m256i v[8], top;
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = top_of(x[i] + at, n);
    top = max_crosswise(v);
    s.d = _mm256_div_ps(_mm256_castsi256_ps(top), _mm256_set1_ps(127));
    __m256i finite = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x7f800000), top);
    __m256 usable = _mm256_cmp_ps(s.d, _mm256_set1_ps(0x1p-128f), _CMP_GT_OQ);
    usable = _mm256_and_ps(usable, _mm256_castsi256_ps(finite));
    _mm256_storeu_ps(s.inv, _mm256_div_ps(_mm256_set1_ps(1), s.d));
    _mm256_storeu_si256((void *)s.usable, _mm256_castps_si256(usable));
    return s;
}

ALWAYS __m256i to_int(const float *x, __m256 inv)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inv));
}

/* 32 codes of block i, in order, the first 16 by scale s, the others by scale z; |code| <= 127, so that nothing
 * saturates. */
ALWAYS __m256i codes(const float *x, const scales *s, const scales *z, int i)
{
    __m256 inv = _mm256_set1_ps(s->inv[i]), inz = _mm256_set1_ps(z->inv[i]);
    __m256i a = _mm256_packs_epi32(to_int(x, inv), to_int(x + 8, inv));
    __m256i b = _mm256_packs_epi32(to_int(x + 16, inz), to_int(x + 24, inz));
    a = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_and_si256(a, _mm256_set_m128i(_mm_set1_epi32(z->usable[i]), _mm_set1_epi32(s->usable[i])));
}

/* Sums of four neighbours. */
ALWAYS __m256i sums_of_4(__m256i q)
{
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
}

/* Sums of the first and the last 16 of 32 codes, block i in lane i. */
ALWAYS void half_sums(const __m256i q[8], __m256i sum[2])
{
    __m256i v[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = sums_of_4(q[i]);
    __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    sum[0] = _mm256_permute2x128_si256(a, b, 0x20);
    sum[1] = _mm256_permute2x128_si256(a, b, 0x31);
}

/* Stores 32 codes of eight tokens side by side. */
ALWAYS void store_side_by_side(int8_t *to, const __m256i q[8])
{
    __m256i a[8], b[8];
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(q[i], q[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(q[i], q[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_si256((void *)(to + i * 32), _mm256_permute2x128_si256(b[i], b[i + 4], 0x20));
        _mm256_storeu_si256((void *)(to + 128 + i * 32), _mm256_permute2x128_si256(b[i], b[i + 4], 0x31));
    }
}

/* ---- rule 32 ---- */

typedef struct {
    __m256i q[8], sum[2];
    __m256 d[2], s;
} eight_32;

ALWAYS eight_32 quantise_32(const float *const x[8])
{
    eight_32 r;
    scales s = scales_of(x, 0, 16), z = scales_of(x, 16, 16);
    UNROLL
    for (int i = 0; i < 8; i++)
        r.q[i] = codes(x[i], &s, &z, i);
    half_sums(r.q, r.sum);
    r.d[0] = s.d;
    r.d[1] = z.d;
    r.s = _mm256_fmadd_ps(z.d, _mm256_cvtepi32_ps(r.sum[1]), _mm256_mul_ps(s.d, _mm256_cvtepi32_ps(r.sum[0])));
    return r;
}

/* Eight tokens side by side. */
static void store_32(const sl_qrows *to, const eight_32 *v)
{
    for (int h = 0; h < 2; h++) {
        _mm256_storeu_ps(to->d + h * 8, v->d[h]);
        _mm256_storeu_si256((void *)(to->sum + h * 8), v->sum[h]);
    }
    _mm256_storeu_ps(to->s, v->s);
}

/* n <= 8 blocks of one token, one after the other: halves take turns. */
static void store_blocks_32(const sl_qrows *to, const eight_32 *v, uint32_t n)
{
    float d[2][8], s[8];
    int32_t sum[2][8];
    for (int h = 0; h < 2; h++) {
        _mm256_storeu_ps(d[h], v->d[h]);
        _mm256_storeu_si256((void *)sum[h], v->sum[h]);
    }
    _mm256_storeu_ps(s, v->s);
    for (uint32_t i = 0; i < n; i++) {
        to->d[i * 2] = d[0][i];
        to->d[i * 2 + 1] = d[1][i];
        to->sum[i * 2] = sum[0][i];
        to->sum[i * 2 + 1] = sum[1][i];
        to->s[i] = s[i];
    }
}

/* Pointers to n blocks `step` floats apart; what is missing repeats the last. */
static void point_at(const float *x[8], const float *first, size_t step, uint32_t n)
{
    for (uint32_t i = 0; i < 8; i++)
        x[i] = first + step * (i < n ? i : n - 1);
}

static void tokens_32(const sl_qact *a, const float *first, uint32_t n_tok, uint32_t group)
{
    for (uint32_t b = 0; b < a->n_in / 32; b++) {
        const float *x[8];
        sl_qrows to = sl_qact_at32(a, group, b, 0);
        point_at(x, first + b * 32, a->ld_x, n_tok);
        eight_32 v = quantise_32(x);
        store_32(&to, &v);
        store_side_by_side(to.q, v.q);
    }
}

static void token_32(const sl_qact *a)
{
    const uint32_t n_block = a->n_in / 32;
    for (uint32_t b = 0; b < n_block; b += 8) {
        uint32_t n = n_block - b < 8 ? n_block - b : 8;
        const float *x[8];
        sl_qrows to = sl_qact_at32(a, 0, b, 0);
        point_at(x, a->x + b * 32, 32, n);
        eight_32 v = quantise_32(x);
        memcpy(to.q, v.q, n * 32);
        store_blocks_32(&to, &v, n);
    }
}

/* ---- rule 256 ---- */

/* A sub-block of 32 of eight blocks. */
typedef struct {
    __m256i q[8];
    __m256i sum16; /* of its halves, a pair of int16 per block */
    __m256i sum32; /* int32 */
} eight_sub;

ALWAYS __m256i pairs(__m256i first, __m256i second)
{
    return _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0xaa);
}

ALWAYS eight_sub quantise_sub(const float *const x[8], uint32_t at, const scales *s)
{
    eight_sub r;
    __m256i sum[2];
    UNROLL
    for (int i = 0; i < 8; i++)
        r.q[i] = codes(x[i] + at, s, s, i);
    half_sums(r.q, sum);
    r.sum16 = pairs(sum[0], sum[1]);
    r.sum32 = _mm256_add_epi32(sum[0], sum[1]);
    return r;
}

static void tokens_256(const sl_qact *a, const float *first, uint32_t n_tok, uint32_t group)
{
    for (uint32_t b = 0; b < a->n_in / 256; b++) {
        const float *x[8];
        sl_qrows to = sl_qact_at256(a, group, b, 0);
        point_at(x, first + (size_t)b * 256, a->ld_x, n_tok);
        scales s = scales_of(x, 0, 256);
        __m256i even = _mm256_setzero_si256();
        _mm256_storeu_ps(to.d, s.d);
        for (uint32_t g = 0; g < 8; g++) {
            eight_sub v = quantise_sub(x, g * 32, &s);
            store_side_by_side(to.q + (size_t)g * 32 * SL_ACT_WIDTH, v.q);
            _mm256_storeu_si256((void *)(to.sum16 + g * SL_ACT_WIDTH * 2), v.sum16);
            if (g % 2) _mm256_storeu_si256((void *)(to.sum32 + g / 2 * SL_ACT_WIDTH * 2), pairs(even, v.sum32));
            even = v.sum32;
        }
    }
}

static void token_256(const sl_qact *a)
{
    const uint32_t n_block = a->n_in / 256;
    for (uint32_t b = 0; b < n_block; b += 8) {
        uint32_t n = n_block - b < 8 ? n_block - b : 8;
        const float *x[8];
        float d[8];
        sl_qrows to = sl_qact_at256(a, 0, b, 0);
        point_at(x, a->x + (size_t)b * 256, 256, n);
        scales s = scales_of(x, 0, 256);
        _mm256_storeu_ps(d, s.d);
        memcpy(to.d, d, n * sizeof *d);
        for (uint32_t g = 0; g < 8; g++) {
            eight_sub v = quantise_sub(x, g * 32, &s);
            int32_t sum16[8], sum32[8];
            _mm256_storeu_si256((void *)sum16, v.sum16);
            _mm256_storeu_si256((void *)sum32, v.sum32);
            for (uint32_t i = 0; i < n; i++) {
                _mm256_storeu_si256((void *)(to.q + i * 256 + g * 32), v.q[i]);
                memcpy(to.sum16 + i * 16 + g * 2, &sum16[i], sizeof sum16[i]);
                to.sum32[i * 8 + g] = (int16_t)sum32[i];
            }
        }
    }
}

void sl_qact_group_avx2(const sl_qact *a, unsigned rules, uint32_t group)
{
    uint32_t t0 = group * a->width, n_tok = a->n_tok - t0 < a->width ? a->n_tok - t0 : a->width;
    const float *x = a->x + (size_t)t0 * a->ld_x;
    if (a->width == 1) {
        if (rules & SL_RULE_32) token_32(a);
        if (rules & SL_RULE_256) token_256(a);
        return;
    }
    if (rules & SL_RULE_32) tokens_32(a, x, n_tok, group);
    if (rules & SL_RULE_256) tokens_256(a, x, n_tok, group);
}
#endif
