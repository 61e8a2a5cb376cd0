/* The cpu backend's kernels for everything but matrices: one table per level, all with the same bits (backend.h has the
 * law).  A kernel sees plain rows and no threads; cpu.c and attend.c cut the work and call it.
 *
 * Vectors are float32 at any 4-byte alignment and any length, unless a comment says otherwise. */
#ifndef SL_CPU_KERNELS_H
#define SL_CPU_KERNELS_H

#include "backend/backend_int.h"

enum {
    SL_KV_BLOCK = 64,              /* positions that one softmax step of attention covers */
    SL_SCORE_LD = SL_KV_BLOCK + 16 /* floats between rows of scores: kernels may write up to 15 beyond n_pos */
};

typedef struct sl_cpu_kernels {
    sl_cpu_level level;

    /* ---- one row (vector*.c) ---- */
    /* y may be x */
    void (*rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps);
    /* one token's heads, in place */
    void (*rope)(float *x, uint32_t n_head, uint32_t head_dim, float position, const sl_rope *rope);
    void (*kv_store)(sl_kv_type type, void *dst, const float *src, size_t n);
    /* y may be gate */
    void (*glu)(float *y, const float *gate, const float *up, size_t n, sl_act act);
    void (*add)(float *y, const float *x, size_t n);
    /* y = fmaf(a, x, y) */
    void (*axpy)(float *y, float a, const float *x, size_t n);
    void (*scale)(float *y, float s, size_t n);
    void (*softcap)(float *y, float cap, size_t n);
    /* x = sl_expf(x) */
    void (*exp)(float *x, size_t n);

    /* ---- attention (attend*.c) ---- */
    /* Elements [first, first + n) of a KV row, as sl_kv_row_load. */
    void (*kv_load)(sl_kv_type type, float *dst, const void *row, size_t first, size_t n);
    /* s[i][j] = sum16(q[i] . k[j]) for n_query queries (pointers) and n_pos rows of k (stride ld_k).
     * s has row stride SL_SCORE_LD */
    void (*scores)(float *s, const float *const *q, uint32_t n_query, const float *k, size_t ld_k, uint32_t n_pos,
                   uint32_t head_dim);
    /* One row of at most 64 scores, scaled and capped, becomes exp(s - max); returns max. */
    float (*softmax)(float *s, uint32_t n_pos, float scale, float softcap);
    /* o[i][d] = sum over j in order of p[i][j] * v[j][d] by fmaf from 0, i < n_query.  p has row stride SL_SCORE_LD, o
     * has ld_o, a multiple of 16, and may be written up to there */
    void (*weigh)(float *o, size_t ld_o, const float *p, uint32_t n_query, const float *v, size_t ld_v, uint32_t n_pos,
                  uint32_t head_dim);
    /* o = fmaf(o, a, o_b * c) */
    void (*merge)(float *o, const float *o_b, float a, float c, size_t n);
} sl_cpu_kernels;

extern const sl_cpu_kernels sl_cpu_kernels_portable;
#if defined(__x86_64__)
extern const sl_cpu_kernels sl_cpu_kernels_avx2, sl_cpu_kernels_avx512;
#endif

/* Each level's table stands at the end of vector*.c; these are in attend_*.c. */
#define SL_ATTEND_KERNELS(level)                                                                                       \
    void sl_scores_##level(float *s, const float *const *q, uint32_t n_query, const float *k, size_t ld_k,             \
                           uint32_t n_pos, uint32_t head_dim);                                                         \
    float sl_softmax_##level(float *s, uint32_t n_pos, float scale, float softcap);                                    \
    void sl_weigh_##level(float *o, size_t ld_o, const float *p, uint32_t n_query, const float *v, size_t ld_v,        \
                          uint32_t n_pos, uint32_t head_dim);                                                          \
    void sl_merge_##level(float *o, const float *o_b, float a, float c, size_t n);
SL_ATTEND_KERNELS(portable)
SL_ATTEND_KERNELS(avx2)
SL_ATTEND_KERNELS(avx512)
#undef SL_ATTEND_KERNELS
/* sum16 of a[i] * b[i] */
float sl_sum16_portable(const float *a, const float *b, size_t n);

/* ---- the driver of attention (attend.c) ---- */
void sl_cpu_attend(sl_backend *b, const sl_attention *a);

#endif
