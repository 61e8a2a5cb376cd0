/* Room backend: the compute facade.  Framework code calls these functions and nothing lower.  `scalar` (float32, for the
 * reader) defines what every operation means; `cpu` has SIMD and threads, and one arithmetic (design.md section 3): its
 * bits depend on nothing but the operands, so not on level, threads, number of tokens in a call or row pieces.
 *
 * The law of the cpu backend, operation by operation, stands at each function below; portable C, AVX2 and AVX-512
 * must give the same bits.  Everything is compiled with -ffp-contract=off.
 *
 * "sum16": element i goes to partial sum i % 16 (in order of i, by fmaf for products), then s[j] += s[j+8] for j<8,
 * s[j] += s[j+4] for j<4, s[j] += s[j+2] for j<2, s[0] + s[1].
 *
 * Vectors are float32, contiguous unless a stride (ld, in floats) is given.  No operation allocates.  Outputs may not
 * overlap inputs unless the comment says so. */
#ifndef SL_BACKEND_H
#define SL_BACKEND_H

#include "base/ledger.h"
#include "os/os.h"
#include "os/pool.h"
#include "quant/quant.h"

typedef struct sl_backend sl_backend;

typedef struct {
    sl_backend_kind kind;
    sl_cpu_level level;    /* AUTO: the best of this machine; UNSUPPORTED when forced beyond it */
    uint32_t n_thread;     /* 0: sl_cpu_count() */
    uint32_t max_tok;      /* largest n_tok of a call */
    uint32_t max_in;       /* largest n_in of a matrix */
    uint32_t max_head_dim; /* for attention scratch */
    bool scales_apart;     /* matrices with scales apart will come (sl_matrix.scales) */
    bool turned;           /* matrices that lie transposed will come (sl_matrix.turned_bytes) */
    uint32_t n_job_input;  /* inputs of one token each that sl_matmul_jobs does at once; more are done in turns */
} sl_backend_options;

/* Scratch (quantised activations, attention partials, panels) that open() will take, for the plan; whole pages. */
uint64_t sl_backend_scratch_bytes(const sl_backend_options *opt);
/* errors  UNSUPPORTED: a level that this machine lacks (the message names those it has); BUDGET, NOMEM.  scalar has one
 *         level and takes no notice of opt->level. */
sl_status sl_backend_open(sl_backend **out, const sl_backend_options *opt, sl_ledger *ledger, sl_err *err);
void sl_backend_close(sl_backend *b);
const char *sl_backend_name(const sl_backend *b);  /* "cpu", "scalar" */
const char *sl_backend_level(const sl_backend *b); /* "portable", "avx2", "avx512" */
uint32_t sl_backend_threads(const sl_backend *b);
/* Can the backend multiply by matrices of this type? (the support table) */
bool sl_backend_supports(const sl_backend *b, const sl_type_info *type);

/* y[t][r] = sum_i w[r][i] * x[t][i] for several matrices that share their input (q, k, v; gate, up).
 *
 * shapes  x [n_tok][n_in] with stride ld_x; y [n_tok][n_out] with stride ld_y
 * law     Q8_0 Q4_0 Q5_0 MXFP4: x is quantised per 16 elements: d = max|x| / 127 (float32), q = rint(x * (1/d)) half to even,
 *         d <= 2^-128 or not finite gives q = 0.  Per row: acc = 0; for each block of 32 in order, for each half h of it
 *         acc = fmaf(dw * d_h, (float)isum_h, acc), isum_h = exact integer sum of (code - offset) * q over the half.
         (MXFP4: dw = 2^(e - 128), and twice the code's value for code - offset.)
 *         Q4_1 Q5_1: as above with plain codes, then after the block's halves acc = fmaf(m, s, acc),
 *         s = fmaf(d_1, (float)sum_1(q), d_0 * (float)sum_0(q)).  (One scale for 32 would do with an operation less, but
 *         doubles the divergence from float32: docs/experiments.tsv.)
 *         K-quants: x per 256 elements by the same rule; isum = sum over sub-blocks of scale * sum(code * q) (for
 *         Q6_K of scale * sum((code - 32) * q)), exact in int32; acc = fmaf(dw * d, (float)isum, acc); then Q4_K Q5_K:
 *         acc = fmaf(-(dmin * d), (float)sum(min_g * sum_g(q)), acc).
 *         F32 F16 BF16: x stays float32; sum16 over the row.
 *         scalar: everything in float32 after dequantisation, no activation is quantised. */
typedef struct {
    const sl_matrix *w;
    float *y;
    size_t ld_y;
} sl_product;
void sl_matmul(sl_backend *b, const sl_product *p, uint32_t n_product, const float *x, size_t ld_x, uint32_t n_tok);

/* Products that do not share their input, for the experts of a mixture: y = x w^T for every job by the law of sl_matmul, so
 * the bits of a job do not depend on the others.  As many jobs as have room for their inputs in the scratch (n_job_input of
 * one token each, or max_tok tokens) are one piece of work for the threads. */
typedef struct {
    const sl_matrix *w;
    const float *x; /* [n_tok][n_in], stride ld_x */
    float *y;       /* [n_tok][n_out], stride ld_y */
    size_t ld_x, ld_y;
    uint32_t n_tok;
} sl_matmul_job;
void sl_matmul_jobs(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job);

/* The same with the matrices transposed: x [n_tok][n_out] and y [n_tok][n_in], n_in at most 1024 (the key half of latent
 * attention, where files have it the other way round).  law: rows of w as float32; y = fmaf(x[r], w[r], y) in order of r,
 * from 0. */
enum { SL_MAX_TRANSPOSED = 1024 };
void sl_matmul_transposed(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job);

/* y = x / sqrt(mean(x^2) + eps) * w for each of n_row rows of n.  y may be x.  law: sum16 of x*x;
 * r = 1 / sqrtf(sum / n + eps); y = (x * r) * w. */
void sl_rmsnorm(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, const float *w, uint32_t n,
                uint32_t n_row, float eps);

/* Rotates x [n_tok][n_head][head_dim] (token stride ld_x) in place; token t stands at position pos + t.
 * angle_i = (float)position * inv_freq[i] (one float32 product), i < n_rot/2; sin and cos by sl_sincosf, times mscale.
 * Pairs are (i, i + n_rot/2), or (2i, 2i+1) when interleaved.  law: a' = fmaf(a, c, -(b * s)), b' = fmaf(b, c, a * s). */
typedef struct {
    const float *inv_freq; /* [n_rot / 2] */
    float mscale;
    uint32_t n_rot;
    bool interleaved;
} sl_rope;
void sl_rope_apply(sl_backend *b, float *x, size_t ld_x, uint32_t n_head, uint32_t head_dim, uint32_t n_tok,
                   uint32_t pos, const sl_rope *rope);

/* ---- KV cache ----
 * One row per position; row = n_head_kv * head_dim elements as float32, float16 (rounded to nearest even), or blocks of
 * 32 {f16 d; i8 q[32]}: d = max|x| / 127 rounded to f16, q = rint(x * (1/d)) kept in [-127, 127], d = 0 gives q = 0.
 * A block with a NaN, an infinity or more than f16 reaches gets a d that is not finite and q = 0: it reads back as NaN,
 * so that the fault is seen. */
uint64_t sl_kv_row_bytes(sl_kv_type type, uint32_t n); /* n a multiple of 32 for Q8; type is not AUTO */
/* Stores n_tok rows of n floats at dst. */
void sl_kv_store(sl_backend *b, sl_kv_type type, void *dst, const float *src, size_t ld_src, uint32_t n, uint32_t n_tok);

/* Causal attention with online softmax.
 *
 * shapes  q, out [n_tok][n_head][head_dim] (strides ld_q, ld_out); k, v rows as above, row p at k + p * row_bytes
 *         (float32 rows on multiples of 4, the others anywhere; a head may begin inside a block of 32);
 *         rows [0, pos + n_tok) are filled; token t stands at pos + t and sees itself and, when window > 0, the
 *         window - 1 positions before it, else all.  Query head h reads kv head h / (n_head / n_head_kv).
 * law     s_j = scale * sum16(q . k_j) (K widened to float32 exactly); softcap > 0: s = softcap * sl_tanhf(s / softcap).
 *         Positions in blocks of 64 aligned to multiples of 64; only visible positions take part.  In a block: m_b = max,
 *         p_j = sl_expf(s_j - m_b), l_b = sum of p_j in order, o_b[d] = fmaf(p_j, v_j[d], o_b[d]) in order of j.  Blocks
 *         merge in order: first block as it is; then m' = max(m, m_b), a = sl_expf(m - m'), c = sl_expf(m_b - m'),
 *         l = fmaf(l, a, l_b * c), o = fmaf(o, a, o_b * c).  out = o * (1 / l).
 *         With a sink z: m' = max(m, z), a = sl_expf(m - m'), l' = fmaf(l, a, sl_expf(z - m')), out = o * (a / l').
 *         scalar: plain softmax over all visible positions in float32. */
typedef struct {
    float *out;
    const float *q;
    size_t ld_out, ld_q;
    const void *k, *v;
    uint64_t row_bytes;
    sl_kv_type type;
    uint32_t n_head, n_head_kv, head_dim;
    uint32_t n_tok, pos, window;
    float scale, softcap;
    const float *sinks; /* [n_head]: a score per head that takes part in the softmax and has no value; NULL: none */
} sl_attention;
void sl_attend(sl_backend *b, const sl_attention *a);

typedef enum { SL_ACT_SILU, SL_ACT_GELU_TANH } sl_act;
/* y = act(gate) * up, n_tok rows of n; y may be gate.  law: sl_siluf, sl_gelu_tanhf (base/mathx.h). */
void sl_glu(sl_backend *b, float *y, size_t ld_y, const float *gate, size_t ld_gate, const float *up, size_t ld_up,
            uint32_t n, uint32_t n_tok, sl_act act);
/* The clamped gate of gpt-oss: with g = min(gate, limit) and u = up kept in [-limit, limit],
 * y = (u + 1) * g * sigmoid(alpha * g).  gate and up are overwritten; y may be gate.
 * law: y = sl_siluf(g * alpha) * ((u + 1) * (1 / alpha)); a NaN stays one. */
void sl_glu_limited(sl_backend *b, float *y, size_t ld_y, float *gate, size_t ld_gate, float *up, size_t ld_up, uint32_t n,
                    uint32_t n_tok, float alpha, float limit);

/* ---- mixture of experts ---- */

enum { SL_MAX_ROUTED = 1024 }; /* experts of a layer */

typedef enum {
    SL_SCORE_SOFTMAX,          /* p = softmax(z) over all experts */
    SL_SCORE_SIGMOID,          /* p = 1 / (1 + exp(-z)) */
    SL_SCORE_SOFTMAX_SELECTED, /* experts are chosen by z itself, and weighed by the softmax over those chosen */
} sl_score;

typedef enum { SL_GROUP_MAX, SL_GROUP_TOP2 } sl_group_score; /* a group's best, or the sum of its two best */

/* How a router's logits become experts and weights. */
typedef struct {
    uint32_t n_expert, n_used;
    sl_score score;
    uint32_t n_group, n_group_used; /* n_group 0 or 1: no groups; it divides n_expert */
    sl_group_score group_score;
    bool normalise;                 /* divide by the sum of the chosen weights */
    float scale;                    /* then multiply by it */
} sl_routing;

/* Chooses n_used experts for each token: ids [n_tok][n_used] and weights [n_tok][n_used] (strides ld_ids, ld_weights), best
 * first, from logits [n_tok][n_expert].  bias [n_expert] or NULL is added for the choice and never enters a weight.
 *
 * law     softmax: m = max z, e_i = sl_expf(z_i - m), p_i = e_i / (sum of e in order).  sigmoid: p_i = 1 / (1 + sl_expf(-z_i)).
 *         selected: p_i = z_i.  c_i = p_i + bias_i.  Groups are n_expert / n_group neighbours; of the n_group_used groups with
 *         the highest scores the experts stay.  Then the n_used highest c, one after the other.  Of equal scores, groups
 *         or experts, the lowest index goes first; a NaN is never higher than another.
 *         weight w_s = p of slot s; selected: softmax over the slots in their order.  normalise: w_s / (sum of w in slot order
 *         + 1e-20).  w_s * scale.  scalar and cpu share the code. */
void sl_route(sl_backend *b, const sl_routing *r, const float *logits, const float *bias, uint32_t *ids, size_t ld_ids,
              float *weights, size_t ld_weights, uint32_t n_tok);

/* y[t] = sum over slots s of weights[t][s] * x[row[t][s]], rows of n: what the experts gave, put together.
 * weights and row have n_slot per token; x rows have stride n.  law: fmaf(w, x, y) in order of s, from 0. */
void sl_combine(sl_backend *b, float *y, size_t ld_y, const float *x, const uint32_t *row, const float *weights,
                uint32_t n_slot, uint32_t n, uint32_t n_tok);

/* y += x; y += bias in every row; y *= s; y = cap * sl_tanhf(y / cap), cap > 0. */
void sl_add(sl_backend *b, float *y, size_t ld_y, const float *x, size_t ld_x, uint32_t n, uint32_t n_tok);
void sl_add_bias(sl_backend *b, float *y, size_t ld_y, const float *bias, uint32_t n, uint32_t n_tok);
void sl_scale(sl_backend *b, float *y, size_t ld_y, float s, uint32_t n, uint32_t n_tok);
void sl_softcap(sl_backend *b, float *y, size_t ld_y, float cap, uint32_t n, uint32_t n_tok);

#endif
