/* Room model: what a network is made of.  A family is one table row and one file (llama.c, qwen2.c, ...): it reads its
 * settings, says which tensors it has, and runs one layer as a list of named steps from layers.h.
 *
 * The model holds no weight bytes of matrices: it names them in units (stream.h) and is handed views when a step runs.
 * Small tensors (norms, biases) are read once, kept as float32, and called "always". */
#ifndef SL_MODEL_H
#define SL_MODEL_H

#include "backend/backend.h"
#include "os/io.h"
#include "os/mem.h"
#include "store/store.h"
#include "stream/stream.h"

enum {
    SL_MAX_LAYER = 1024,
    SL_MAX_EMBD = 1 << 16,
    SL_MAX_HEAD = 1024,
    SL_MAX_HEAD_DIM = 1024,
    SL_MAX_FF = 1 << 20,
    SL_MAX_VOCAB = 1 << 24,
    SL_MAX_CTX = 1 << 24,
};

/* The matrices of a layer, in the order in which its unit lists them. */
typedef enum { SL_W_Q, SL_W_K, SL_W_V, SL_W_O, SL_W_GATE, SL_W_UP, SL_W_DOWN, SL_W_COUNT } sl_matrix_role;

/* The small tensors of a layer; absent ones are NULL. */
typedef enum {
    SL_V_ATTN_NORM, SL_V_FFN_NORM, SL_V_ATTN_POST_NORM, SL_V_FFN_POST_NORM, SL_V_Q_NORM, SL_V_K_NORM,
    SL_V_Q_BIAS, SL_V_K_BIAS, SL_V_V_BIAS, SL_V_O_BIAS, SL_V_COUNT
} sl_vector_role;

typedef enum { SL_ROPE_NONE, SL_ROPE_LINEAR, SL_ROPE_LLAMA3, SL_ROPE_YARN } sl_rope_scaling;

typedef struct {
    double base;
    sl_rope_scaling scaling;
    double factor, low_freq, high_freq;      /* llama3: low and high; all: factor */
    double orig_ctx, beta_fast, beta_slow;   /* yarn; orig_ctx for llama3 too */
    double attn_factor;                      /* yarn: m, when given; 0: from the factor */
    bool no_truncate;                        /* yarn */
    const sl_tensor *divisors;               /* GGUF rope_freqs.weight: angles are divided by it; NULL: none */
} sl_rope_config;

typedef struct {
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, ctx_train_tok;
    float eps, attn_scale, attn_softcap, final_softcap, embd_scale; /* softcaps: 0 off */
    uint32_t n_rot;
    bool rope_interleaved, tied, norm_plus_one; /* plus one: the file stores w - 1 */
    sl_act act;
    sl_rope_config rope, rope_local; /* local: for windowed layers, when the family has it */
    bool has_rope_local;
    uint32_t window;                 /* width of windowed layers, 0: none */
    bool windowed[SL_MAX_LAYER];
} sl_model_config;

typedef struct sl_family sl_family;
typedef struct sl_tensor_map sl_tensor_map; /* tensors.h */

/* A layer as its steps see it: matrices are views valid while the unit is acquired. */
typedef struct {
    sl_matrix w[SL_W_COUNT];
    const float *v[SL_V_COUNT];
    uint32_t window;      /* 0: full attention */
    const sl_rope *rope;
} sl_layer;

typedef struct {
    const sl_family *family;
    sl_model_config c;
    const sl_tensor *embd, *head; /* head == embd when tied */

    /* units: one per layer (unit index = layer), then the blocks of the head */
    sl_unit *units;
    uint32_t n_unit, n_head_block;
    sl_unit_rows *rows; /* what units point into */

    sl_tensor_map *map;
    sl_block always; /* float32 copies of the small tensors and rope tables */
    const float *v[SL_MAX_LAYER][SL_V_COUNT];
    const float *final_norm;
    sl_rope rope, rope_local;
    uint64_t always_bytes;
} sl_model;

/* Finds the family, reads and bounds the settings, finds and checks every tensor.  Reads no tensor data.
 * errors  UNSUPPORTED: architecture or tensor type (all of them, counted); FORMAT: a setting or shape, by name */
sl_status sl_model_open(sl_model **out, const sl_store *store, const sl_log *log, sl_err *err);
/* Reads the small tensors.  The model needs no store metadata after this. */
sl_status sl_model_load_always(sl_model *m, sl_io *io, sl_ledger *ledger, sl_err *err);
void sl_model_close(sl_model *m);

uint64_t sl_model_kv_row_elems(const sl_model *m); /* of K, and of V, per layer and token */

/* ---- the forward pass over one chunk of tokens ---- */

/* Activations; all [max_tok][...] float32.  Laid out by sl_forward_layout, which runs twice (measure, carve). */
typedef struct {
    const sl_model *m;
    sl_backend *be;
    uint32_t n_tok, pos; /* of this chunk */
    float *x;            /* [n_embd]  the residual stream */
    float *h;            /* [n_embd]  normed input, or a branch's output */
    float *q, *att;      /* [n_head * head_dim] */
    float *k, *v;        /* [n_head_kv * head_dim] */
    float *gate, *up;    /* [n_ff] */
    uint8_t *raw;        /* raw embedding rows */
    /* KV of the layer that runs */
    void *kv_k, *kv_v;
    uint64_t kv_row_bytes;
    sl_kv_type kv_type;
    const volatile bool *cancel; /* polled between steps; NULL: never */
    bool canceled;
    sl_residency *res;           /* driven between steps; NULL: nothing streams */
} sl_forward;

void sl_forward_layout(sl_forward *f, sl_arena *a, const sl_model *m, uint32_t max_tok);
/* x = scaled embedding rows of tokens [n_tok]. */
sl_status sl_forward_embed(sl_forward *f, sl_residency *r, const int32_t *tokens, sl_err *err);
/* x = layer i (views in unit order) applied to x. */
void sl_forward_layer(sl_forward *f, uint32_t i_layer, const sl_matrix *views);
/* h [n_row][n_embd] = final norm of the last n_row tokens. */
void sl_forward_final_norm(sl_forward *f, uint32_t n_row);
/* logits [n_row][n_vocab], columns of this head block, from h. */
void sl_forward_head_block(sl_forward *f, uint32_t i_block, const sl_matrix *view, uint32_t n_row, float *logits);
/* After all blocks: the family's last touches (soft cap) on logits [n_row][n_vocab]. */
void sl_forward_head_finish(sl_forward *f, uint32_t n_row, float *logits);

#endif
