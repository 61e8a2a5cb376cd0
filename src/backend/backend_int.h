/* Inside the room: what an implementation fills, and what the cpu backend's kernels look like. */
#ifndef SL_BACKEND_INT_H
#define SL_BACKEND_INT_H

#include "backend/backend.h"
#include "os/mem.h"

typedef struct {
    const char *name;
    /* Takes the implementation's scratch from the arena; runs twice, first to measure. */
    void (*layout)(sl_backend *b, sl_arena *a);
    bool (*supports)(const sl_backend *b, const sl_type_info *type);
    void (*matmul)(sl_backend *b, const sl_product *p, uint32_t n_product, const float *x, size_t ld_x, uint32_t n_tok);
    void (*matmul_jobs)(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job);
    void (*axpy)(sl_backend *b, float *y, float a, const float *x, size_t n); /* y = fmaf(a, x, y); from any thread */
    void (*combine)(sl_backend *b, float *y, size_t ld_y, const float *x, const uint32_t *row, const float *weights,
                    uint32_t n_slot, uint32_t n, uint32_t n_tok);
    void (*rmsnorm)(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, const float *w, uint32_t n,
                    uint32_t n_row, float eps);
    void (*rope)(sl_backend *b, float *x, size_t ld_x, uint32_t n_head, uint32_t head_dim, uint32_t n_tok, uint32_t pos,
                 const sl_rope *rope);
    void (*kv_store)(sl_backend *b, sl_kv_type type, void *dst, const float *src, size_t ld_src, uint32_t n,
                     uint32_t n_tok);
    void (*attend)(sl_backend *b, const sl_attention *a);
    void (*glu)(sl_backend *b, float *y, size_t ld_y, const float *gate, size_t ld_gate, const float *up, size_t ld_up,
                uint32_t n, uint32_t n_tok, sl_act act);
    void (*add)(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, uint32_t n, uint32_t n_tok);
    void (*add_bias)(sl_backend *b, float *y, size_t ld_y, const float *bias, uint32_t n, uint32_t n_tok);
    void (*scale)(sl_backend *b, float *y, size_t ld_y, float s, uint32_t n, uint32_t n_tok);
    void (*softcap)(sl_backend *b, float *y, size_t ld_y, float cap, uint32_t n, uint32_t n_tok);
} sl_backend_ops;

struct sl_backend {
    const sl_backend_ops *ops;
    sl_backend_options opt;               /* AUTO resolved */
    sl_pool *pool;                        /* owned */
    sl_block scratch;                     /* carved by the implementation's layout function */
    const struct sl_cpu_kernels *kernels; /* cpu: the level's table for everything but matrices (cpu/kernels.h) */
    uint8_t *act;                         /* cpu: quantised activations, see cpu/act.h; 64-byte aligned */
    uint8_t *attn;                        /* cpu: attention scratch, see cpu/attend.c */
    float *row;                           /* scalar: rows widened to float32 [n_thread][sl_scalar_row_floats] */
};

extern const sl_backend_ops sl_scalar_ops;
extern const sl_backend_ops sl_cpu_ops;

/* A thread's share of n items: [*from, *to), contiguous, sizes differing by at most one. */
static inline void sl_share(uint64_t n, uint32_t i_thread, uint32_t n_thread, uint64_t *from, uint64_t *to)
{
    uint64_t each = n / n_thread, rest = n % n_thread;
    *from = i_thread * each + (i_thread < rest ? i_thread : rest);
    *to = *from + each + (i_thread < rest);
}

/* ---- cpu: matrix kernels (cpu/matmul_*.c), owned by cpu/matmul.c ---- */

/* Bytes of activation scratch that matmul needs, and its two sides; see cpu/matmul.c. */
uint64_t sl_cpu_matmul_scratch_bytes(const sl_backend_options *opt);
bool sl_cpu_matmul_supports(const sl_type_info *type);
void sl_cpu_matmul(sl_backend *b, const sl_product *p, uint32_t n_product, const float *x, size_t ld_x, uint32_t n_tok);
void sl_cpu_matmul_jobs(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job);

/* ---- mixture of experts (route.c): the code of both implementations ---- */
void sl_route_row(const sl_routing *r, const float *logits, const float *bias, uint32_t *ids, float *weights);
void sl_limit_row(float *gate, float *up, uint32_t n, float alpha, float limit);

/* ---- cpu: everything else (cpu/vector_*.c, cpu/attend_*.c) ---- */
uint64_t sl_cpu_attend_scratch_bytes(const sl_backend_options *opt);

#endif
