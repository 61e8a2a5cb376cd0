/* Matrix kernels for AVX2 with FMA and F16C: tiles of 8 rows x 4 tokens for panels, float rows, and the level's table.
 * One token and unpacking are in matmul_x86.h.  Lanes are rows; in float types they are the partial sums of one row. */
#if defined(__x86_64__)
#include "backend/cpu/matmul_x86.h"

#include "base/mathx.h"

#include <math.h>

enum { R = 8 };

/* ---- tiles ---- */

/* How many vpmaddubsw results may be added in 16 bits; see matmul_x86.h. */
ALWAYS int steps_in_16_bits(sl_type type)
{
    switch (type) {
    case SL_Q8_0:
        return 1;
    case SL_Q6_K:
        return 2;
    case SL_Q5_0:
    case SL_Q5_1:
    case SL_Q5_K:
    case SL_MXFP4:
        return 4;
    default:
        return 8;
    }
}

ALWAYS __m256i products(sl_type type, __m256i w, const int8_t *q)
{
    __m256i x = _mm256_set1_epi32(load_i32(q));
    if (type == SL_Q8_0) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

/* Keeps the compiler from regrouping an integer sum: it would make all terms first, more than there are registers. */
ALWAYS __m256i hold(__m256i v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* isum[t] += factor * the products of n units (of four codes) of eight rows with T tokens. */
ALWAYS void add_units(sl_type type, int T, int n, const uint8_t *w, const int8_t *q, __m256i factor, __m256i *isum)
{
    const int most = steps_in_16_bits(type), step = most < n ? most : n;
    UNROLL
    for (int k = 0; k < n; k += step) {
        __m256i s[4];
        UNROLL
        for (int i = 0; i < step; i++) {
            __m256i v = load_256(w + (k + i) * R * 4);
            UNROLL
            for (int t = 0; t < T; t++) {
                __m256i p = products(type, v, q + ((k + i) * SL_ACT_WIDTH + t) * 4);
                s[t] = i ? hold(_mm256_add_epi16(s[t], p)) : p;
            }
        }
        UNROLL
        for (int t = 0; t < T; t++)
            isum[t] = hold(add_pairs(isum[t], s[t], factor));
    }
}

ALWAYS __m256 times(__m256 d, const float *xd)
{
    return _mm256_mul_ps(d, _mm256_broadcast_ss(xd));
}

ALWAYS void block_32(sl_type type, int T, const uint8_t *w, const sl_qrows *x, __m256 *acc)
{
    const int offset = sl_mm_offset_log2(type);
    __m256 d = _mm256_loadu_ps((const float *)(const void *)(w + 8 * R * 4));
    UNROLL
    for (int h = 0; h < 2; h++) {
        const int32_t *sum = x->sum + h * SL_ACT_WIDTH;
        __m256i isum[4];
        UNROLL
        for (int t = 0; t < T; t++)
            isum[t] = _mm256_setzero_si256();
        add_units(type, T, 4, w + h * 4 * R * 4, x->q + h * 4 * SL_ACT_WIDTH * 4, _mm256_set1_epi16(1), isum);
        UNROLL
        for (int t = 0; t < T; t++) {
            if (offset >= 0) isum[t] = _mm256_sub_epi32(isum[t], _mm256_slli_epi32(_mm256_set1_epi32(sum[t]), offset));
            acc[t] = _mm256_fmadd_ps(times(d, x->d + h * SL_ACT_WIDTH + t), _mm256_cvtepi32_ps(isum[t]), acc[t]);
        }
    }
    if (!sl_mm_has_min(type)) return;
    __m256 min = _mm256_loadu_ps((const float *)(const void *)(w + 9 * R * 4));
    UNROLL
    for (int t = 0; t < T; t++)
        acc[t] = _mm256_fmadd_ps(min, _mm256_broadcast_ss(x->s + t), acc[t]);
}

/* sum[t] = the products of n pairs of words with the tokens' sums of neighbours. */
ALWAYS void add_sums(int T, int n, const uint8_t *w, const int16_t *x, __m256i *sum)
{
    UNROLL
    for (int t = 0; t < T; t++)
        sum[t] = _mm256_setzero_si256();
    UNROLL
    for (int k = 0; k < n; k++) {
        __m256i v = load_256(w + k * R * 4);
        UNROLL
        for (int t = 0; t < T; t++)
            sum[t] = add_pairs(sum[t], v, _mm256_set1_epi32(load_i32(x + (k * SL_ACT_WIDTH + t) * 2)));
    }
}

ALWAYS void block_256(sl_type type, int T, const uint8_t *w, const sl_qrows *x, __m256 *acc)
{
    const int n_scale = type == SL_Q6_K ? 16 : 8, n = 64 / n_scale; /* units per scale */
    const uint8_t *scale = w + 64 * R * 4, *pairs = scale + n_scale * R * 4, *d = pairs + n_scale / 2 * R * 4;
    __m256i isum[4], sum[4];
    __m256 dw = _mm256_loadu_ps((const float *)(const void *)d);
    UNROLL
    for (int t = 0; t < T; t++)
        isum[t] = _mm256_setzero_si256();
    for (int g = 0; g < n_scale; g++)
        add_units(type, T, n, w + g * n * R * 4, x->q + g * n * SL_ACT_WIDTH * 4, load_256(scale + g * R * 4), isum);
    add_sums(T, n_scale / 2, pairs, type == SL_Q6_K ? x->sum16 : x->sum32, sum);
    UNROLL
    for (int t = 0; t < T; t++) {
        if (type == SL_Q6_K) isum[t] = _mm256_sub_epi32(isum[t], _mm256_slli_epi32(sum[t], 5));
        acc[t] = _mm256_fmadd_ps(times(dw, x->d + t), _mm256_cvtepi32_ps(isum[t]), acc[t]);
    }
    if (type == SL_Q6_K) return;
    __m256 min = _mm256_loadu_ps((const float *)(const void *)(d + R * 4));
    UNROLL
    for (int t = 0; t < T; t++)
        acc[t] = _mm256_fnmadd_ps(times(min, x->d + t), _mm256_cvtepi32_ps(sum[t]), acc[t]);
}

/* T tokens of a group from token t0 on, through all blocks of a piece. */
ALWAYS void tile_of(sl_type type, int T, const tile_args *p, uint32_t t0)
{
    const uint8_t *w = p->piece;
    const __m256i rows =
        _mm256_cmpgt_epi32(_mm256_set1_epi32((int)p->n_row), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    float *y = p->y + t0 * p->ld_y;
    __m256 acc[4];
    UNROLL
    for (int t = 0; t < T; t++)
        acc[t] = p->b0 ? _mm256_maskload_ps(y + (size_t)t * p->ld_y, rows) : _mm256_setzero_ps();
    for (uint32_t b = p->b0; b < p->b0 + p->n_block; b++, w += piece_block_bytes(type, R)) {
        sl_qrows x = sl_mm_is_k(type) ? sl_qact_at256(p->a, p->group, b, t0) : sl_qact_at32(p->a, p->group, b, t0);
        if (sl_mm_is_k(type))
            block_256(type, T, w, &x, acc);
        else
            block_32(type, T, w, &x, acc);
    }
    UNROLL
    for (int t = 0; t < T; t++)
        _mm256_maskstore_ps(y + (size_t)t * p->ld_y, rows, acc[t]);
}

ALWAYS void tile(sl_type type, const tile_args *p)
{
    uint32_t t = 0;
    for (; t + 4 <= p->n_tok; t += 4)
        tile_of(type, 4, p, t);
    if (t + 2 <= p->n_tok) tile_of(type, 2, p, t), t += 2;
    if (t < p->n_tok) tile_of(type, 1, p, t);
}

/* ---- float types: two vectors hold partial sums 0-7 and 8-15 ---- */

typedef struct {
    __m256 low, high;
} sums16;

ALWAYS __m256 floats_8(sl_type type, const uint8_t *p)
{
    if (type == SL_F16) return _mm256_cvtph_ps(load_128(p));
    if (type == SL_BF16) return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(p)), 16));
    return _mm256_loadu_ps((const float *)(const void *)p);
}

ALWAYS float float_at(sl_type type, const uint8_t *p)
{
    float f;
    if (type == SL_F16) return _cvtsh_ss(sl_mm_u16(p));
    if (type == SL_BF16) return sl_bf16_to_f32(sl_mm_u16(p));
    memcpy(&f, p, 4);
    return f;
}

/* The n < 16 elements that are left, one by one, and the tree. */
static float finish(sl_type type, sums16 s, const uint8_t *w, const float *x, uint32_t n)
{
    float v[16];
    _mm256_storeu_ps(v, s.low);
    _mm256_storeu_ps(v + 8, s.high);
    for (uint32_t i = 0; i < n; i++)
        v[i] = fmaf(float_at(type, w + i * sl_mm_block_bytes(type)), x[i], v[i]);
    for (uint32_t half = 8; half; half /= 2)
        for (uint32_t j = 0; j < half; j++)
            v[j] += v[j + half];
    return v[0];
}

/* Columns [c, end), whole sixteens, of N rows and T tokens; f is NULL or fetches as many bytes. */
ALWAYS void add_columns(sl_type type, int N, int T, const uint8_t *const *row, const float *x, size_t ld_x, uint32_t c,
                        uint32_t end, fetcher *f, sums16 *sums)
{
    const uint32_t bytes = sl_mm_block_bytes(type);
    sums16 s[4][4];
    UNROLL
    for (int i = 0; i < N * T; i++)
        s[i / T][i % T] = sums[i];
    for (; c < end; c += 16) {
        if (f) fetch(f, 16 * bytes * (uint32_t)N);
        UNROLL
        for (int i = 0; i < N; i++) {
            __m256 low = floats_8(type, row[i] + (size_t)c * bytes),
                   high = floats_8(type, row[i] + (size_t)(c + 8) * bytes);
            UNROLL
            for (int t = 0; t < T; t++) {
                const float *xt = x + (size_t)t * ld_x + c;
                s[i][t].low = _mm256_fmadd_ps(low, _mm256_loadu_ps(xt), s[i][t].low);
                s[i][t].high = _mm256_fmadd_ps(high, _mm256_loadu_ps(xt + 8), s[i][t].high);
            }
        }
    }
    UNROLL
    for (int i = 0; i < N * T; i++)
        sums[i] = s[i / T][i % T];
}

/* Four rows at a time: eight would not fit the registers. */
ALWAYS void float_one(sl_type type, const sl_mm_rows *w, const sl_qact *a, float *y)
{
    const uint32_t bytes = sl_mm_block_bytes(type), whole = a->n_in / 16 * 16;
    fetcher f = fetch_from(w->ahead, (size_t)a->n_in * bytes);
    sums16 s[SL_MM_GROUP];
    for (int i = 0; i < SL_MM_GROUP; i++)
        s[i].low = s[i].high = _mm256_setzero_ps();
    for (int i = 0; i < SL_MM_GROUP; i += 4)
        add_columns(type, 4, 1, w->row + i, a->x, 0, 0, whole, &f, s + i);
    for (int i = 0; i < SL_MM_GROUP; i++)
        y[i] = finish(type, s[i], w->row[i] + (size_t)whole * bytes, a->x + whole, a->n_in - whole);
}

/* y[t * ld_y + i] for N rows and T tokens from token t0 on. */
ALWAYS void float_tile(sl_type type, int N, int T, const uint8_t *const *row, const sl_qact *a, uint32_t t0, float *y,
                       size_t ld_y)
{
    const uint32_t whole = a->n_in / 16 * 16;
    const float *x = a->x + t0 * a->ld_x;
    sums16 s[12];
    for (int i = 0; i < N * T; i++)
        s[i].low = s[i].high = _mm256_setzero_ps();
    add_columns(type, N, T, row, x, a->ld_x, 0, whole, NULL, s);
    for (int i = 0; i < N; i++)
        for (int t = 0; t < T; t++)
            y[(t0 + (uint32_t)t) * ld_y + (uint32_t)i] =
                finish(type, s[i * T + t], row[i] + (size_t)whole * sl_mm_block_bytes(type),
                       x + (size_t)t * a->ld_x + whole, a->n_in - whole);
}

ALWAYS void float_many(sl_type type, const sl_mm_rows *w, uint32_t n_row, const sl_qact *a, float *y, size_t ld_y)
{
    uint32_t t = 0, i;
    for (; t + 3 <= a->n_tok; t += 3) {
        for (i = 0; i + 2 <= n_row; i += 2)
            float_tile(type, 2, 3, w->row + i, a, t, y + i, ld_y);
        if (i < n_row) float_tile(type, 1, 3, w->row + i, a, t, y + i, ld_y);
    }
    for (; t < a->n_tok; t++) {
        for (i = 0; i + 4 <= n_row; i += 4)
            float_tile(type, 4, 1, w->row + i, a, t, y + i, ld_y);
        for (; i < n_row; i++)
            float_tile(type, 1, 1, w->row + i, a, t, y + i, ld_y);
    }
}

#include "backend/cpu/matmul_table.inc"

const sl_mm_level sl_mm_avx2 = {kernels, R, SL_ACT_WIDTH};
#endif
