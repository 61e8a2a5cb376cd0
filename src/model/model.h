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
#include "stream/expert_source.h"
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

/* The matrices of a layer, in the order in which its unit lists those that the layer has; its experts follow them. */
typedef enum {
    SL_W_Q, SL_W_K, SL_W_V, SL_W_O, SL_W_GATE, SL_W_UP, SL_W_DOWN,
    SL_W_ROUTER, SL_W_SHARED_GATE, SL_W_SHARED_UP, SL_W_SHARED_DOWN,
    /* latent attention: q through a narrow middle; the latent and the shared rotated key; what makes keys and values of it,
     * apart (per head transposed keys, then values) or in one */
    SL_W_Q_A, SL_W_Q_B, SL_W_KV_A, SL_W_K_B, SL_W_V_B, SL_W_KV_B, SL_W_COUNT
} sl_matrix_role;

/* The small tensors of a layer; absent ones are NULL. */
typedef enum {
    SL_V_ATTN_NORM, SL_V_FFN_NORM, SL_V_ATTN_POST_NORM, SL_V_FFN_POST_NORM, SL_V_Q_NORM, SL_V_K_NORM,
    SL_V_Q_BIAS, SL_V_K_BIAS, SL_V_V_BIAS, SL_V_O_BIAS,
    SL_V_SHARED_SCALE, /* a row: the shared expert's output is multiplied by sigmoid(row . h) */
    SL_V_ROUTER_BIAS,  /* added to the router's logits */
    SL_V_CHOICE_BIAS,  /* added to the scores for the choice of experts only */
    SL_V_GATE_BIAS, SL_V_UP_BIAS, SL_V_DOWN_BIAS, /* of all experts, one after the other */
    SL_V_SINKS,        /* a score per head */
    SL_V_Q_A_NORM, SL_V_KV_A_NORM,
    SL_V_COUNT
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

/* Latent attention (MLA): widths of a head's parts, and of what is cached. */
typedef struct {
    uint32_t kv_rank; /* of the latent that keys and values are made of; 0: ordinary attention */
    uint32_t q_rank;  /* 0: q has no narrow middle */
    uint32_t n_nope, n_rope, n_v;
    bool split;       /* the file has k_b and v_b apart */
    float eps;        /* of the norms of the latents */
} sl_latent_config;

/* The mixture-of-experts block of a model: everything that families differ in. */
typedef struct {
    uint32_t n_ff;        /* of one expert */
    uint32_t n_ff_shared; /* of the expert that every token goes through, 0: none */
    sl_routing routing;   /* n_expert 0: the model has no experts */
    bool turned;          /* float stacks of Hugging Face files lie transposed (SL_EXPERT_TURNED) */
    float glu_alpha, glu_limit; /* the clamped gate (sl_glu_limited); 0: the plain one */
} sl_moe_config;

typedef struct {
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, ctx_train_tok;
    float eps, attn_scale, attn_softcap, final_softcap, embd_scale; /* softcaps: 0 off */
    float residual_scale, logit_scale; /* branches before they are added, logits: multiplied by it */
    float qkv_clip;                    /* q, k, v are kept in [-clip, clip]; 0: off */
    bool qk_norm_whole;                /* the norms of q and k run over all heads together */
    uint32_t n_rot;
    bool rope_interleaved, tied, norm_plus_one; /* plus one: the file stores w - 1 */
    sl_act act;
    sl_rope_config rope, rope_local; /* local: for windowed layers, when the family has it */
    bool has_rope_local;
    uint32_t window;                 /* width of windowed layers, 0: none */
    bool windowed[SL_MAX_LAYER];
    sl_moe_config moe;
    sl_latent_config latent; /* head_dim is then n_nope + n_rope, n_rot is n_rope */
    bool sparse[SL_MAX_LAYER]; /* has experts in place of the MLP */
} sl_model_config;

typedef struct sl_family sl_family;
typedef struct sl_tensor_map sl_tensor_map; /* tensors.h */

/* A layer as its steps see it: matrices are views valid while the unit is acquired. */
typedef struct {
    sl_matrix w[SL_W_COUNT];
    const float *v[SL_V_COUNT];
    uint32_t index;
    const sl_expert_layer *experts; /* NULL: a dense layer */
    const sl_matrix *expert_views;  /* when they came with the unit */
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
    sl_unit_rows *rows, *head_rows; /* what units point into */
    uint32_t max_unit_rows;   /* views of the largest unit */
    uint32_t *roles;          /* [n_layer] bit mask of the sl_matrix_role that the layer has */
    sl_expert_layer *experts; /* [n_layer], n_expert 0 in dense layers; NULL: a dense model */
    uint64_t expert_bytes;    /* of all routed experts of all layers */

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

/* Takes the experts out of the layers' units: they will come from a source of their own (sl_forward.experts).  Before
 * anything is planned from the units. */
void sl_model_leave_experts_out(sl_model *m);

uint64_t sl_model_kv_row_elems(const sl_model *m); /* of K, and of V, per layer and token; of the latent */
uint32_t sl_model_kv_areas(const sl_model *m);     /* 2: K and V; 1: latents, which serve as both */
uint32_t sl_model_widest(const sl_model *m);       /* largest n_in of a matrix */
uint32_t sl_model_attn_dim(const sl_model *m);     /* width of a head as attention sees it */

/* ---- the forward pass over one chunk of tokens ---- */

/* What the mixture-of-experts block works with.  A slot is one of the n_slot places of a token: its n_used experts, then the
 * shared one.  "Grouped" rows stand by expert, ascending, and by token within one. */
typedef struct {
    uint32_t n_slot, max_row; /* max_row: grouped rows that one batch of products takes */
    float *logits;            /* [max_tok][n_expert] */
    uint32_t *ids;            /* [max_tok][n_used] */
    float *weights;           /* [max_tok][n_slot] */
    uint32_t *row;            /* [max_tok][n_slot]: where in out the slot's output stands */
    uint32_t *token;          /* [max_tok * n_used]: of each grouped row */
    uint32_t *first;          /* [n_expert + 1]: first grouped row of each expert */
    uint32_t *used;           /* [n_expert]: experts with rows, ascending */
    float *in;                /* [max_row][n_embd] */
    float *gate, *up;         /* [max_row][n_ff] */
    float *out;               /* [max_tok * n_slot][n_embd]: grouped rows, then the shared expert's */
} sl_moe_scratch;

/* Activations; all [max_tok][...] float32.  Laid out by sl_forward_layout, which runs twice (measure, carve). */
typedef struct {
    const sl_model *m;
    sl_backend *be;
    uint32_t n_tok, pos; /* of this chunk */
    float *x;            /* [n_embd]  the residual stream */
    float *h;            /* [n_embd]  normed input, or a branch's output */
    float *q, *att;      /* [n_head * head_dim] */
    float *k, *v;        /* [n_head_kv * head_dim] */
    /* latent attention; per head [kv_rank + n_rope]: queries in terms of the latent, and the sum of latents */
    float *q_low, *latent, *absorbed, *mixed; /* [q_rank], [kv_rank + n_rope], [n_head][...] twice */
    float *gate, *up;    /* [n_ff], or of the shared expert when that is wider */
    sl_moe_scratch moe;
    uint8_t *raw;        /* raw embedding rows */
    /* KV of the layer that runs */
    void *kv_k, *kv_v;
    uint64_t kv_row_bytes;
    sl_kv_type kv_type;
    const volatile bool *cancel; /* polled between steps; NULL: never */
    bool canceled;
    sl_residency *res;           /* driven between steps; NULL: nothing streams */
    sl_expert_source *experts;   /* NULL: experts are part of their layer's unit */
    sl_status status;            /* of a source that failed; the remaining steps do nothing useful */
    sl_err err;
} sl_forward;

void sl_forward_layout(sl_forward *f, sl_arena *a, const sl_model *m, uint32_t max_tok);
/* x = scaled embedding rows of tokens [n_tok]. */
sl_status sl_forward_embed(sl_forward *f, sl_residency *r, const int32_t *tokens, sl_err *err);
/* x = layer i (views in unit order) applied to x.
 * errors  of the source of experts: IO, ...; after a cancel the layer is not whole (f->canceled) */
sl_status sl_forward_layer(sl_forward *f, uint32_t i_layer, const sl_matrix *views, sl_err *err);
/* h [n_row][n_embd] = final norm of the last n_row tokens. */
void sl_forward_final_norm(sl_forward *f, uint32_t n_row);
/* logits [n_row][n_vocab], columns of this head block, from h. */
void sl_forward_head_block(sl_forward *f, uint32_t i_block, const sl_matrix *view, uint32_t n_row, float *logits);
/* After all blocks: the family's last touches (soft cap) on logits [n_row][n_vocab]. */
void sl_forward_head_finish(sl_forward *f, uint32_t n_row, float *logits);

#endif
