/* Matrix kernels for AVX-512 with VNNI: tiles of 16 rows x 8 tokens for panels, float rows, and the level's table.  One
 * token and unpacking are in matmul_x86.h.  Lanes are rows; in float types lanes are the 16 partial sums of one row. */
#if defined(__x86_64__)
#include "backend/cpu/matmul_x86.h"

enum { R = 16 };

/* ---- tiles ---- */

ALWAYS __m512i unit(const uint8_t *w, int i)
{
    return _mm512_loadu_si512(w + i * R * 4);
}

ALWAYS __m512 floats(const uint8_t *w, int i)
{
    return _mm512_loadu_ps(w + i * R * 4);
}

/* isum[t] += the products of n units (of four codes) of 16 rows with T tokens. */
ALWAYS void add_units(int T, int n, const uint8_t *w, const int8_t *q, __m512i *isum)
{
    UNROLL
    for (int k = 0; k < n; k++) {
        __m512i v = unit(w, k);
        UNROLL
        for (int t = 0; t < T; t++)
            isum[t] = _mm512_dpbusd_epi32(isum[t], v, _mm512_set1_epi32(load_i32(q + (k * SL_ACT_WIDTH + t) * 4)));
    }
}

ALWAYS __m512 times(__m512 d, const float *xd)
{
    return _mm512_mul_ps(d, _mm512_set1_ps(*xd));
}

/* The offset of all codes times the sum of x is taken off before anything is added. */
ALWAYS void block_32(sl_type type, int T, const uint8_t *w, const sl_qrows *x, __m512 *acc)
{
    const int offset = type == SL_Q8_0 ? CODE_OFFSET_Q8 : sl_mm_offset_log2(type);
    __m512 d = floats(w, 8);
    UNROLL
    for (int h = 0; h < 2; h++) {
        __m512i isum[8];
        UNROLL
        for (int t = 0; t < T; t++)
            isum[t] =
                offset < 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(-x->sum[h * SL_ACT_WIDTH + t] * (1 << offset));
        add_units(T, 4, w + h * 4 * R * 4, x->q + h * 4 * SL_ACT_WIDTH * 4, isum);
        UNROLL
        for (int t = 0; t < T; t++)
            acc[t] = _mm512_fmadd_ps(times(d, x->d + h * SL_ACT_WIDTH + t), _mm512_cvtepi32_ps(isum[t]), acc[t]);
    }
    if (!sl_mm_has_min(type)) return;
    __m512 min = floats(w, 9);
    UNROLL
    for (int t = 0; t < T; t++)
        acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(x->s[t]), acc[t]);
}

/* sum[t] = the products of n pairs of words with the tokens' sums of neighbours. */
ALWAYS void add_sums(int T, int n, const uint8_t *w, const int16_t *x, __m512i *sum)
{
    UNROLL
    for (int t = 0; t < T; t++)
        sum[t] = _mm512_setzero_si512();
    UNROLL
    for (int k = 0; k < n; k++) {
        __m512i v = unit(w, k);
        UNROLL
        for (int t = 0; t < T; t++)
            sum[t] = _mm512_dpwssd_epi32(sum[t], v, _mm512_set1_epi32(load_i32(x + (k * SL_ACT_WIDTH + t) * 2)));
    }
}

ALWAYS void block_256(sl_type type, int T, const uint8_t *w, const sl_qrows *x, __m512 *acc)
{
    const int n_scale = type == SL_Q6_K ? 16 : 8, n = 64 / n_scale; /* units per scale */
    const uint8_t *scale = w + 64 * R * 4, *pairs = scale + n_scale * R * 4, *d = pairs + n_scale / 2 * R * 4;
    __m512i isum[8], sum[8];
    UNROLL
    for (int t = 0; t < T; t++)
        isum[t] = _mm512_setzero_si512();
    for (int g = 0; g < n_scale; g++) {
        __m512i s = unit(scale, g), dot[8];
        UNROLL
        for (int t = 0; t < T; t++)
            dot[t] = _mm512_setzero_si512();
        add_units(T, n, w + g * n * R * 4, x->q + g * n * SL_ACT_WIDTH * 4, dot);
        UNROLL
        for (int t = 0; t < T; t++)
            isum[t] = _mm512_add_epi32(isum[t], _mm512_mullo_epi32(dot[t], s));
    }
    add_sums(T, n_scale / 2, pairs, type == SL_Q6_K ? x->sum16 : x->sum32, sum);
    UNROLL
    for (int t = 0; t < T; t++) {
        if (type == SL_Q6_K) isum[t] = _mm512_sub_epi32(isum[t], _mm512_slli_epi32(sum[t], 5));
        acc[t] = _mm512_fmadd_ps(times(floats(d, 0), x->d + t), _mm512_cvtepi32_ps(isum[t]), acc[t]);
    }
    if (type == SL_Q6_K) return;
    UNROLL
    for (int t = 0; t < T; t++)
        acc[t] = _mm512_fnmadd_ps(times(floats(d, 1), x->d + t), _mm512_cvtepi32_ps(sum[t]), acc[t]);
}

/* T tokens of a group from token t0 on, through all blocks of a piece. */
ALWAYS void tile_of(sl_type type, int T, const tile_args *p, uint32_t t0)
{
    const uint8_t *w = p->piece;
    const __mmask16 rows = (__mmask16)((1u << p->n_row) - 1);
    float *y = p->y + t0 * p->ld_y;
    __m512 acc[8];
    UNROLL
    for (int t = 0; t < T; t++)
        acc[t] = p->b0 ? _mm512_maskz_loadu_ps(rows, y + (size_t)t * p->ld_y) : _mm512_setzero_ps();
    for (uint32_t b = p->b0; b < p->b0 + p->n_block; b++, w += piece_block_bytes(type, R)) {
        sl_qrows x = sl_mm_is_k(type) ? sl_qact_at256(p->a, p->group, b, t0) : sl_qact_at32(p->a, p->group, b, t0);
        if (sl_mm_is_k(type))
            block_256(type, T, w, &x, acc);
        else
            block_32(type, T, w, &x, acc);
    }
    UNROLL
    for (int t = 0; t < T; t++)
        _mm512_mask_storeu_ps(y + (size_t)t * p->ld_y, rows, acc[t]);
}

ALWAYS void tile(sl_type type, const tile_args *p)
{
    uint32_t t = 0;
    if (p->n_tok == 8) {
        tile_of(type, 8, p, 0);
        return;
    }
    if (t + 4 <= p->n_tok) tile_of(type, 4, p, t), t += 4;
    if (t + 2 <= p->n_tok) tile_of(type, 2, p, t), t += 2;
    if (t < p->n_tok) tile_of(type, 1, p, t);
}

/* ---- float types ---- */

/* Elements of a row under a mask. */
ALWAYS __m512 floats_16(sl_type type, const uint8_t *p, __mmask16 m)
{
    if (type == SL_F16) return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p));
    if (type == SL_BF16)
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
    return _mm512_maskz_loadu_ps(m, p);
}

/* The tree of sum16. */
ALWAYS float tree(__m512 s)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* Columns c of N rows and T tokens, those under the mask: the other partial sums stay as they are, to the sign of zero.
 */
ALWAYS void float_step(sl_type type, int N, int T, const uint8_t *const *row, size_t at, const float *x, size_t ld_x,
                       __mmask16 m, __m512 s[8][4])
{
    __m512 v[4];
    UNROLL
    for (int t = 0; t < T; t++)
        v[t] = _mm512_maskz_loadu_ps(m, x + (size_t)t * ld_x);
    UNROLL
    for (int i = 0; i < N; i++) {
        __m512 w = floats_16(type, row[i] + at, m);
        UNROLL
        for (int t = 0; t < T; t++)
            s[i][t] = _mm512_mask3_fmadd_ps(w, v[t], s[i][t], m);
    }
}

/* Columns [c, end) of N rows and T tokens, whole sixteens but perhaps the last; f is NULL or fetches as many bytes. */
ALWAYS void add_columns(sl_type type, int N, int T, const uint8_t *const *row, const float *x, size_t ld_x, uint32_t c,
                        uint32_t end, fetcher *f, __m512 s[8][4])
{
    const uint32_t bytes = sl_mm_block_bytes(type);
    for (; c + 16 <= end; c += 16) {
        if (f) fetch(f, 16 * bytes * (uint32_t)N);
        float_step(type, N, T, row, (size_t)c * bytes, x + c, ld_x, 0xffff, s);
    }
    if (c < end) float_step(type, N, T, row, (size_t)c * bytes, x + c, ld_x, (__mmask16)((1u << (end - c)) - 1), s);
}

ALWAYS void float_one(sl_type type, const sl_mm_rows *w, const sl_qact *a, float *y)
{
    fetcher f = fetch_from(w->ahead, (size_t)a->n_in * sl_mm_block_bytes(type));
    __m512 s[8][4];
    UNROLL
    for (int i = 0; i < SL_MM_GROUP; i++)
        s[i][0] = _mm512_setzero_ps();
    add_columns(type, SL_MM_GROUP, 1, w->row, a->x, 0, 0, a->n_in, &f, s);
    UNROLL
    for (int i = 0; i < SL_MM_GROUP; i++)
        y[i] = tree(s[i][0]);
}

/* y[t * ld_y + i] for N rows and T tokens from token t0 on. */
ALWAYS void float_tile(sl_type type, int N, int T, const uint8_t *const *row, const sl_qact *a, uint32_t t0, float *y,
                       size_t ld_y)
{
    __m512 s[8][4];
    UNROLL
    for (int i = 0; i < N; i++) {
        UNROLL
        for (int t = 0; t < T; t++)
            s[i][t] = _mm512_setzero_ps();
    }
    add_columns(type, N, T, row, a->x + t0 * a->ld_x, a->ld_x, 0, a->n_in, NULL, s);
    UNROLL
    for (int i = 0; i < N; i++) {
        UNROLL
        for (int t = 0; t < T; t++)
            y[(t0 + (uint32_t)t) * ld_y + (uint32_t)i] = tree(s[i][t]);
    }
}

/* All rows of the panel with T tokens. */
ALWAYS void float_rows(sl_type type, int T, const sl_mm_rows *w, uint32_t n_row, const sl_qact *a, uint32_t t, float *y,
                       size_t ld_y)
{
    uint32_t i = 0;
    for (; i + 4 <= n_row; i += 4)
        float_tile(type, 4, T, w->row + i, a, t, y + i, ld_y);
    for (; i < n_row; i++)
        float_tile(type, 1, T, w->row + i, a, t, y + i, ld_y);
}

ALWAYS void float_many(sl_type type, const sl_mm_rows *w, uint32_t n_row, const sl_qact *a, float *y, size_t ld_y)
{
    uint32_t t = 0;
    for (; t + 4 <= a->n_tok; t += 4)
        float_rows(type, 4, w, n_row, a, t, y, ld_y);
    for (; t < a->n_tok; t++)
        float_rows(type, 1, w, n_row, a, t, y, ld_y);
}

#include "backend/cpu/matmul_table.inc"

const sl_mm_level sl_mm_avx512 = {kernels, R, SL_ACT_WIDTH};
#endif
