/* What the AVX2 and AVX-512 matrix kernels have in common: decoding blocks, a group of rows times one token, unpacking
 * a panel.  Included by matmul_avx2.c and matmul_avx512.c only, and compiled for either: with VNNI where there is VNNI.
 *
 * One token: eight rows side by side, so that the float part of the law (scale, fmaf in order of the blocks) is done for
 * eight rows at once, each in its own lane.  A block of each row becomes a vector of partial integer sums, and the eight
 * vectors are added up crosswise into one of eight row sums; where 16 bytes hold a whole block (four bits), words of the
 * eight rows are turned first instead, and nothing is left to add up.  What comes next is prefetched meanwhile: eight
 * streams that jump at every group are more than the hardware foresees (without: a third of the speed).
 *
 * 16-bit sums: vpmaddubsw adds two products, at most 2 * 127 * 15 (4 bits), 31 (5), 63 (6) or 128 (|Q8_0|), so 3810,
 * 7874, 16002 or 32512: nothing saturates, and 8, 4, 2 or 1 of them may be added in 16 bits. */
#ifndef SL_CPU_MATMUL_X86_H
#define SL_CPU_MATMUL_X86_H

#include "backend/cpu/matmul_int.h"

#include <immintrin.h>

/* log2 of what codes_32 adds to the codes of Q8_0. */
#if defined(__AVX512VNNI__)
enum { CODE_OFFSET_Q8 = 7 };
#else
enum { CODE_OFFSET_Q8 = -1 };
#endif

#define ALWAYS static inline __attribute__((always_inline))
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLL /* or the checks of every copy would take half a minute to compile */
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

ALWAYS __m128i load_128(const void *p)
{
    return _mm_loadu_si128(p);
}
ALWAYS __m256i load_256(const void *p)
{
    return _mm256_loadu_si256(p);
}
ALWAYS void store_256(void *p, __m256i v)
{
    _mm256_storeu_si256(p, v);
}

ALWAYS int32_t load_i32(const void *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* To the second-level cache, for work that is some microseconds away. */
ALWAYS void prefetch_far(const uint8_t *p, uint32_t bytes)
{
    UNROLL
    for (uint32_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

/* ---- prefetching for one token ----
 * While a group of rows is computed with, as many bytes of a later one are fetched, in the order of memory: the
 * hardware's own prefetching goes along with that.  Small groups are fetched into the first-level cache (near), where
 * they and what is being computed with find room; larger ones into the second-level cache. */
typedef struct {
    const uint8_t *at;
    bool near;
} fetcher;

enum { NEAR_BYTES = 8 << 10 };

ALWAYS fetcher fetch_from(const uint8_t *ahead, size_t row_bytes)
{
    return (fetcher){ahead, row_bytes * SL_MM_GROUP <= NEAR_BYTES};
}

ALWAYS void fetch(fetcher *f, uint32_t bytes)
{
    if (f->near) {
        UNROLL
        for (uint32_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)f->at + i, _MM_HINT_T0);
    } else {
        UNROLL
        for (uint32_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)f->at + i, _MM_HINT_T1);
    }
    f->at += bytes;
}

/* ---- decoding ---- */

/* The codes of low nibbles; what else is in the bytes does not matter. */
ALWAYS __m256i code_of(sl_type type, __m256i v)
{
    v = _mm256_and_si256(v, _mm256_set1_epi8(15));
    if (type != SL_MXFP4) return v;
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi8(SL_MM_FP4_CODES)), v);
}

/* 16 bytes as 32 nibbles: the low ones in the low lane. */
ALWAYS __m256i nibbles(const uint8_t *p)
{
    __m128i v = load_128(p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

/* Adds 16 to code i where bit i of the four bytes at p is set. */
ALWAYS __m256i add_fifth_bits(__m256i code, const uint8_t *p)
{
#if defined(__AVX512VL__)
    return _mm256_mask_add_epi8(code, sl_mm_u32(p), code, _mm256_set1_epi8(16));
#else
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    __m256i v = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(load_i32(p)), spread), bit);
    return _mm256_or_si256(code, _mm256_and_si256(_mm256_cmpeq_epi8(v, bit), _mm256_set1_epi8(16)));
#endif
}

/* The 32 codes of a block, in order, as the unsigned operand of a dot product: with VNNI those of Q8_0 have 128 added,
 * without they are signed. */
ALWAYS __m256i codes_32(sl_type type, const uint8_t *p)
{
    switch (type) {
#if defined(__AVX512VNNI__)
    case SL_Q8_0:
        return _mm256_xor_si256(load_256(p + 2), _mm256_set1_epi8(-128));
#else
    case SL_Q8_0:
        return load_256(p + 2);
#endif
    case SL_Q4_0:
        return nibbles(p + 2);
    case SL_Q4_1:
        return nibbles(p + 4);
    case SL_MXFP4:
        return code_of(type, nibbles(p + 1));
    case SL_Q5_0:
        return add_fifth_bits(nibbles(p + 6), p + 2);
    default:
        return add_fifth_bits(nibbles(p + 8), p + 4); /* Q5_1 */
    }
}

/* Bits 4 and 5 (mask says which) of v, shifted left by n; right where n is negative. */
ALWAYS __m256i bits_at(__m256i v, int n, char mask)
{
    v = n < 0 ? _mm256_srli_epi16(v, -n) : _mm256_slli_epi16(v, n);
    return _mm256_and_si256(v, _mm256_set1_epi8(mask));
}

/* Codes of the four sub-blocks of 32 in half h of a K-quant block.  a, b and high are its bytes, the first and second
 * 32 of codes and 32 of high bits, in any order of bytes that is the same for all. */
ALWAYS void split_128(sl_type type, int h, __m256i a, __m256i b, __m256i high, __m256i code[4])
{
    const __m256i low = _mm256_set1_epi8(15);
    __m256i a_low = _mm256_and_si256(a, low), a_high = _mm256_and_si256(_mm256_srli_epi16(a, 4), low);
    __m256i b_low = _mm256_and_si256(b, low), b_high = _mm256_and_si256(_mm256_srli_epi16(b, 4), low);
    if (type == SL_Q6_K) {
        code[0] = _mm256_or_si256(a_low, bits_at(high, 4, 0x30));
        code[1] = _mm256_or_si256(b_low, bits_at(high, 2, 0x30));
        code[2] = _mm256_or_si256(a_high, bits_at(high, 0, 0x30));
        code[3] = _mm256_or_si256(b_high, bits_at(high, -2, 0x30));
        return;
    }
    code[0] = a_low;
    code[1] = a_high;
    code[2] = b_low;
    code[3] = b_high;
    if (type != SL_Q5_K) return;
    UNROLL
    for (int i = 0; i < 4; i++)
        code[i] = _mm256_or_si256(code[i], bits_at(high, 4 - 4 * h - i, 0x10));
}

/* Where those bytes stand in a block; there are no high ones in Q4_K. */
ALWAYS uint32_t codes_at(sl_type type, uint32_t h)
{
    return (type == SL_Q4_K ? 16 : type == SL_Q5_K ? 48 : 0) + h * 64;
}

ALWAYS uint32_t high_at(sl_type type, uint32_t h)
{
    return type == SL_Q6_K ? 128 + h * 32 : 16;
}

ALWAYS void codes_128(sl_type type, const uint8_t *p, int h, __m256i code[4])
{
    const uint8_t *q = p + codes_at(type, (uint32_t)h);
    split_128(type, h, load_256(q), load_256(q + 32), load_256(p + high_at(type, (uint32_t)h)), code);
}

/* The f16 at `at` in each of eight rows. */
ALWAYS __m256 halves_8(const uint8_t *const *row, size_t at)
{
    __m128i a = _mm_cvtsi32_si128(sl_mm_u16(row[0] + at)), b = _mm_cvtsi32_si128(sl_mm_u16(row[4] + at));
    a = _mm_insert_epi16(a, sl_mm_u16(row[1] + at), 1);
    b = _mm_insert_epi16(b, sl_mm_u16(row[5] + at), 1);
    a = _mm_insert_epi16(a, sl_mm_u16(row[2] + at), 2);
    b = _mm_insert_epi16(b, sl_mm_u16(row[6] + at), 2);
    a = _mm_insert_epi16(a, sl_mm_u16(row[3] + at), 3);
    b = _mm_insert_epi16(b, sl_mm_u16(row[7] + at), 3);
    return _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b));
}

/* The pairs of f16 at `at`. */
ALWAYS void half_pairs_8(const uint8_t *const *row, size_t at, __m256 *first, __m256 *second)
{
    const __m256i apart =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    __m256i v =
        _mm256_setr_epi32(load_i32(row[0] + at), load_i32(row[1] + at), load_i32(row[2] + at), load_i32(row[3] + at),
                          load_i32(row[4] + at), load_i32(row[5] + at), load_i32(row[6] + at), load_i32(row[7] + at));
    v = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, apart), 0xd8);
    *first = _mm256_cvtph_ps(_mm256_castsi256_si128(v));
    *second = _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1));
}

/* 2^(e - 128) of the byte e at `at` in each of eight rows; the first two powers are subnormal. */
ALWAYS __m256 powers_8(const uint8_t *const *row, size_t at)
{
    __m256i e = _mm256_setr_epi32(row[0][at], row[1][at], row[2][at], row[3][at], row[4][at], row[5][at], row[6][at],
                                  row[7][at]);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

/* Scales of the blocks at `at` in eight rows; min only where the type has one. */
ALWAYS void scales_8(sl_type type, const uint8_t *const *row, size_t at, __m256 *d, __m256 *min)
{
    if (sl_mm_has_min(type)) {
        half_pairs_8(row, at, d, min);
    } else if (type == SL_MXFP4) {
        *d = powers_8(row, at);
        *min = _mm256_setzero_ps();
    } else {
        *d = halves_8(row, at + (type == SL_Q6_K ? 208 : 0));
        *min = _mm256_setzero_ps();
    }
}

/* ---- integer dot products ---- */

/* Pairs of 16-bit products added into acc. */
ALWAYS __m256i add_pairs(__m256i acc, __m256i a, __m256i b)
{
#if defined(__AVX512VNNI__)
    return _mm256_dpwssd_epi32(acc, a, b);
#else
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
#endif
}

/* Eight partial sums of 32 products of codes_32. */
ALWAYS __m256i dot_32(sl_type type, __m256i code, __m256i x)
{
#if defined(__AVX512VNNI__)
    (void)type;
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), code, x);
#else
    if (type == SL_Q8_0) { /* signed times signed: the sign moves over; |-128| is 128, unsigned */
        x = _mm256_sign_epi8(x, code);
        code = _mm256_abs_epi8(code);
    }
    return _mm256_madd_epi16(_mm256_maddubs_epi16(code, x), _mm256_set1_epi16(1));
#endif
}

/* s[i] holds four partial sums of row i and four of row i + 4: the sums of eight rows. */
ALWAYS __m256i sums_of_pairs(const __m256i s[4])
{
    __m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1])); /* 0 1 0 1 */
    __m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3])); /* 2 3 2 3 */
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* s[i] holds eight partial sums of row i. */
ALWAYS __m256i sums_of_8(const __m256i s[8])
{
    __m256i pair[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        pair[i] =
            _mm256_add_epi32(_mm256_blend_epi32(s[i], s[i + 4], 0xf0), _mm256_permute2x128_si256(s[i], s[i + 4], 0x21));
    return sums_of_pairs(pair);
}

/* ---- one token: types of rule 32 ---- */

/* s[i] holds four partial sums of each half of a block of row i; half[h] gets the sums of half h of eight rows. */
ALWAYS void sums_of_halves(const __m256i s[8], __m256i half[2])
{
    __m256i rows[2];
    UNROLL
    for (int k = 0; k < 2; k++)
        rows[k] = sums_of_pairs(s + k * 4);
    half[0] = _mm256_permute2x128_si256(rows[0], rows[1], 0x20);
    half[1] = _mm256_permute2x128_si256(rows[0], rows[1], 0x31);
}

/* v[i] holds four units of row i and four of row i + 4; unit[k] gets unit k of all rows. */
ALWAYS void pairs_crosswise(const __m256i v[4], __m256i unit[4])
{
    __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
    __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    unit[0] = _mm256_unpacklo_epi64(a, c);
    unit[1] = _mm256_unpackhi_epi64(a, c);
    unit[2] = _mm256_unpacklo_epi64(b, d);
    unit[3] = _mm256_unpackhi_epi64(b, d);
}

/* word[k] = bytes 4k to 4k + 3 at `at` of eight rows, a row to a lane. */
ALWAYS void words_8(const uint8_t *const *row, size_t at, __m256i word[4])
{
    __m256i v[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_set_m128i(load_128(row[i + 4] + at), load_128(row[i] + at));
    pairs_crosswise(v, word);
}

/* sum plus the products of four words of codes with 16 activations.  Without VNNI four pairs are added in 16 bits: at most
 * 4 * 2 * 127 * 28, with the codes of MXFP4. */
ALWAYS __m256i add_words(__m256i sum, const __m256i code[4], const int8_t *q)
{
#if defined(__AVX512VNNI__)
    UNROLL
    for (int k = 0; k < 4; k++) /* one instruction; the compiler makes two of it */
        __asm__("vpdpbusd %2%{1to8%}, %1, %0" : "+v"(sum) : "v"(code[k]), "m"(*(const int32_t(*)[1])(const void *)(q + k * 4)));
    return sum;
#else
    __m256i pairs = _mm256_setzero_si256();
    UNROLL
    for (int k = 0; k < 4; k++)
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(code[k], _mm256_set1_epi32(load_i32(q + k * 4))));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}

/* Four-bit codes: the low nibbles of a row's 16 bytes are the first half of a block, the high ones the second.  Lanes are
 * rows from the start, so that no sums are left to be added up crosswise.  half: what the sums begin with, then they. */
ALWAYS void dots_4bit(sl_type type, const uint8_t *const *row, size_t at, const int8_t *q, __m256i half[2])
{
    __m256i word[4], first[4], second[4];
    words_8(row, at, word);
    UNROLL
    for (int k = 0; k < 4; k++) {
        first[k] = code_of(type, word[k]);
        second[k] = code_of(type, _mm256_srli_epi16(word[k], 4));
    }
    half[0] = add_words(half[0], first, q);
    half[1] = add_words(half[1], second, q + 16);
}

/* isum of both halves of the blocks at `at` in eight rows, the offset taken off; q and sum_q [2] are the activations.
 */
ALWAYS void dots_32(sl_type type, const uint8_t *const *row, size_t at, const int8_t *q, const int32_t *sum_q,
                    __m256i half[2])
{
    const int offset = type == SL_Q8_0 ? CODE_OFFSET_Q8 : sl_mm_offset_log2(type);
    for (uint32_t h = 0; h < 2; h++)
        half[h] = offset < 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(-sum_q[h] * (1 << offset));
    if (type == SL_Q4_0 || type == SL_Q4_1 || type == SL_MXFP4) {
        dots_4bit(type, row, at + sl_mm_block_bytes(type) - 16, q, half);
        return;
    }
    __m256i x = load_256(q), s[8], sum[2];
    UNROLL
    for (int i = 0; i < 8; i++)
        s[i] = dot_32(type, codes_32(type, row[i] + at), x);
    sums_of_halves(s, sum);
    for (uint32_t h = 0; h < 2; h++)
        half[h] = _mm256_add_epi32(half[h], sum[h]);
}

ALWAYS void one_32(sl_type type, const sl_mm_rows *w, const sl_qact *a, float *y)
{
    const uint32_t bytes = sl_mm_block_bytes(type), n_block = a->n_in / 32;
    const sl_qrows x = a->r32;
    fetcher f = fetch_from(w->ahead, (size_t)n_block * bytes);
    __m256 acc = _mm256_setzero_ps();
    for (uint32_t b = 0; b < n_block; b++) {
        size_t at = (size_t)b * bytes;
        __m256i half[2];
        __m256 d, min;
        fetch(&f, 8 * bytes);
        dots_32(type, w->row, at, x.q + (size_t)b * 32, x.sum + b * 2, half);
        scales_8(type, w->row, at, &d, &min);
        for (uint32_t h = 0; h < 2; h++)
            acc = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x.d[b * 2 + h])), _mm256_cvtepi32_ps(half[h]), acc);
        if (sl_mm_has_min(type)) acc = _mm256_fmadd_ps(min, _mm256_set1_ps(x.s[b]), acc);
    }
    _mm256_storeu_ps(y, acc);
}

/* ---- one token: K-quants ---- */

/* Word i of each 128-bit lane in all words of the lane. */
ALWAYS __m256i spread_word(__m256i v, int i)
{
    return _mm256_shuffle_epi8(v, _mm256_set1_epi16((int16_t)(0x0100 + 0x0202 * i)));
}

/* Eight partial sums of scale * code * x over a block, and four of min * sum_g(x) (unused in Q6_K).  The scales are
 * words in both lanes; in Q6_K those of first halves of sub-blocks in the low lane, those of second halves in the high
 * one.  In int32: |isum| <= 256 * 128 * 63 * 127 even before the offset of Q6_K is taken off. */
ALWAYS __m256i dot_256(sl_type type, const uint8_t *p, const sl_qrows *x, __m128i *msum)
{
    __m256i scale, isum = _mm256_setzero_si256();
    if (type == SL_Q6_K) {
        const __m128i apart = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        __m128i s = load_128(p + 192); /* in natural order, as the sums of 16 neighbours are */
        __m256i off = _mm256_madd_epi16(_mm256_cvtepi8_epi16(s), load_256(x->sum16));
        isum = _mm256_sub_epi32(isum, _mm256_slli_epi32(off, 5));
        scale = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(s, apart));
    } else {
        uint64_t s, m;
        sl_mm_scales_k(p + 4, &s, &m);
        scale = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t)s)));
        *msum = _mm_madd_epi16(_mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t)m)), load_128(x->sum32));
    }
    UNROLL
    for (int h = 0; h < 2; h++) {
        __m256i code[4];
        codes_128(type, p, h, code);
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m256i s = _mm256_maddubs_epi16(code[i], load_256(x->q + h * 128 + i * 32));
            isum = add_pairs(isum, s, spread_word(scale, h * 4 + i));
        }
    }
    return isum;
}

ALWAYS void one_256(sl_type type, const sl_mm_rows *w, const sl_qact *a, float *y)
{
    const uint32_t bytes = sl_mm_block_bytes(type), n_block = a->n_in / 256;
    fetcher f = fetch_from(w->ahead, (size_t)n_block * bytes);
    __m256 acc = _mm256_setzero_ps();
    for (uint32_t b = 0; b < n_block; b++) {
        size_t at = (size_t)b * bytes;
        sl_qrows x = sl_qact_at256(a, 0, b, 0);
        __m256i isum[8], pair[4];
        __m128i msum[8];
        for (int i = 0; i < 8; i++) {
            fetch(&f, bytes);
            isum[i] = dot_256(type, w->row[i] + at, &x, &msum[i]);
        }
        __m256 d, min, xd = _mm256_set1_ps(*x.d);
        scales_8(type, w->row, at, &d, &min);
        acc = _mm256_fmadd_ps(_mm256_mul_ps(d, xd), _mm256_cvtepi32_ps(sums_of_8(isum)), acc);
        if (!sl_mm_has_min(type)) continue;
        for (int i = 0; i < 4; i++)
            pair[i] = _mm256_set_m128i(msum[i + 4], msum[i]);
        acc = _mm256_fnmadd_ps(_mm256_mul_ps(min, xd), _mm256_cvtepi32_ps(sums_of_pairs(pair)), acc);
    }
    _mm256_storeu_ps(y, acc);
}

/* ---- panels ----
 * A decoded block of a panel of R rows, everything [..][R] in units of four bytes:
 *   rule 32    codes [8][R][4] u8 (codes_32), d [R] f32, where the type has one min [R] f32
 *   Q4_K Q5_K  codes [64][R][4], scales [8][R], pairs of minima i16 [4][R][2], d [R], min [R]
 *   Q6_K       codes [64][R][4], scales [16][R], pairs of scales i16 [8][R][2], d [R]
 * A scale is an int32 with VNNI, else the same int16 twice. */

ALWAYS uint32_t piece_block_bytes(sl_type type, uint32_t r)
{
    if (type == SL_Q6_K) return (64 + 16 + 8 + 1) * 4 * r;
    if (sl_mm_is_k(type)) return (64 + 8 + 4 + 2) * 4 * r;
    return (sl_mm_has_min(type) ? 10u : 9u) * 4 * r;
}

/* v[i] holds eight units of row i. */
ALWAYS void crosswise(const __m256i v[8], __m256i unit[8])
{
    __m256i low[4], high[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        low[i] = _mm256_permute2x128_si256(v[i], v[i + 4], 0x20);
        high[i] = _mm256_permute2x128_si256(v[i], v[i + 4], 0x31);
    }
    pairs_crosswise(low, unit);
    pairs_crosswise(high, unit + 4);
}

ALWAYS void load_crosswise(const uint8_t *const *row, size_t at, __m256i unit[8])
{
    __m256i v[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = load_256(row[i] + at);
    crosswise(v, unit);
}

/* n units, the first at `to`; returns the place after them. */
ALWAYS uint8_t *store_units(uint8_t *to, size_t stride, const __m256i *unit, int n)
{
    UNROLL
    for (int i = 0; i < n; i++, to += stride)
        store_256(to, unit[i]);
    return to;
}

/* Eight scales as units. */
ALWAYS __m256i scale_units(__m256i s)
{
#if defined(__AVX512VNNI__)
    return s;
#else
    return _mm256_or_si256(_mm256_and_si256(s, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(s, 16));
#endif
}

/* Scales of a K-quant block of eight rows; returns the place after them. */
ALWAYS uint8_t *unpack_scales_256(sl_type type, const uint8_t *const *row, size_t at, uint8_t *to, size_t stride)
{
    __m256i v[8], unit[8];
    uint64_t s[8], m[8];
    if (type == SL_Q6_K) {
        for (int h = 0; h < 2; h++) {
            for (int i = 0; i < 8; i++)
                v[i] = scale_units(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(row[i] + at + 192 + h * 8))));
            crosswise(v, unit);
            to = store_units(to, stride, unit, 8);
        }
        for (int i = 0; i < 8; i++)
            v[i] = _mm256_cvtepi8_epi16(load_128(row[i] + at + 192));
        crosswise(v, unit);
        return store_units(to, stride, unit, 8);
    }
    for (int i = 0; i < 8; i++) {
        sl_mm_scales_k(row[i] + at + 4, &s[i], &m[i]);
        v[i] = scale_units(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)s[i])));
    }
    crosswise(v, unit);
    to = store_units(to, stride, unit, 8);
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_cvtepu8_epi16(_mm_set_epi64x((int64_t)m[i + 4], (int64_t)m[i]));
    pairs_crosswise(v, unit);
    return store_units(to, stride, unit, 4);
}

/* Codes of the blocks at `at` in eight rows; what is nibbles is turned crosswise first and taken apart then. */
ALWAYS uint8_t *unpack_codes_32(sl_type type, const uint8_t *const *row, size_t at, uint8_t *to, size_t stride)
{
    const __m256i low = _mm256_set1_epi8(15);
    __m256i v[8], unit[8];
    if (type == SL_Q4_0 || type == SL_Q4_1) {
        at += sl_mm_block_bytes(type) - 16;
        UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = _mm256_set_m128i(load_128(row[i + 4] + at), load_128(row[i] + at));
        pairs_crosswise(v, unit);
        UNROLL
        for (int i = 0; i < 4; i++) {
            unit[i + 4] = _mm256_and_si256(_mm256_srli_epi16(unit[i], 4), low);
            unit[i] = _mm256_and_si256(unit[i], low);
        }
    } else {
        UNROLL
        for (int i = 0; i < 8; i++)
            v[i] = codes_32(type, row[i] + at);
        crosswise(v, unit);
    }
    return store_units(to, stride, unit, 8);
}

ALWAYS uint8_t *unpack_codes_256(sl_type type, const uint8_t *const *row, size_t at, uint8_t *to, size_t stride)
{
    __m256i a[8], b[8], high[8], code[4];
    UNROLL
    for (int h = 0; h < 2; h++, to += 32 * stride) {
        load_crosswise(row, at + codes_at(type, (uint32_t)h), a);
        load_crosswise(row, at + codes_at(type, (uint32_t)h) + 32, b);
        if (type == SL_Q6_K || h == 0) load_crosswise(row, at + high_at(type, (uint32_t)h), high);
        UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            split_128(type, h, a[i], b[i], high[i], code);
            store_units(to + i * stride, 8 * stride, code, 4);
        }
    }
    return to;
}

/* Eight rows of a panel of r, n_block blocks from block b0 on; as many bytes are prefetched from ahead on. */
ALWAYS void unpack_8(sl_type type, const uint8_t *const *row, uint32_t b0, uint32_t n_block, uint8_t *to, uint32_t r,
                     const uint8_t *ahead)
{
    const uint32_t bytes = sl_mm_block_bytes(type);
    const size_t stride = r * 4;
    for (uint32_t b = 0; b < n_block; b++, to += piece_block_bytes(type, r), ahead += 8 * bytes) {
        size_t at = (size_t)(b0 + b) * bytes;
        uint8_t *next;
        __m256 d, min;
        prefetch_far(ahead, 8 * bytes);
        if (sl_mm_is_k(type)) {
            next = unpack_codes_256(type, row, at, to, stride);
            next = unpack_scales_256(type, row, at, next, stride);
        } else {
            next = unpack_codes_32(type, row, at, to, stride);
        }
        scales_8(type, row, at, &d, &min);
        _mm256_storeu_ps((float *)(void *)next, d);
        if (sl_mm_has_min(type)) _mm256_storeu_ps((float *)(void *)(next + stride), min);
    }
}

/* A panel of r rows times all tokens: piece by piece, and within a piece group of tokens by group.  tile() takes the
 * piece's blocks [b0, b0 + n) and the tokens of one group, and goes on from what stands in y unless b0 is 0. */
typedef struct {
    const uint8_t *piece;
    const sl_qact *a;
    uint32_t b0, n_block, group, n_tok, n_row;
    float *y; /* of the group's first token */
    size_t ld_y;
} tile_args;

ALWAYS void many_rows(sl_type type, uint32_t r, void (*tile)(const tile_args *), const sl_mm_rows *w, uint32_t n_row,
                      const sl_qact *a, uint8_t *piece, float *y, size_t ld_y)
{
    const uint32_t n_block = a->n_in / sl_mm_block(type), most = SL_MM_PIECE / sl_mm_block(type);
    for (uint32_t b0 = 0; b0 < n_block; b0 += most) {
        tile_args t = {.piece = piece, .a = a, .b0 = b0, .n_row = n_row, .ld_y = ld_y};
        t.n_block = n_block - b0 < most ? n_block - b0 : most;
        for (uint32_t i = 0; i < r; i += 8) {
            size_t done = (size_t)(b0 * r + t.n_block * i) * sl_mm_block_bytes(type);
            unpack_8(type, w->row + i, b0, t.n_block, piece + i * 4, r, w->ahead + done);
        }
        for (t.group = 0; t.group < sl_qact_groups(a); t.group++) {
            uint32_t t0 = t.group * SL_ACT_WIDTH;
            t.n_tok = a->n_tok - t0 < SL_ACT_WIDTH ? a->n_tok - t0 : SL_ACT_WIDTH;
            t.y = y + t0 * ld_y;
            tile(&t);
        }
    }
}

#endif
