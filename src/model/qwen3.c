/* Qwen3 (dense): Qwen2's block without biases, but with an RMSNorm over every head of q and k before rotation.
 * head_dim is independent of n_embd / n_head.  Sliding rules as Qwen2's. */
#include "model/family.h"
#include "model/layers.h"

static const char *const gguf_arch[] = {"qwen3", NULL};
static const char *const hf_type[] = {"qwen3", NULL};

const sl_family sl_family_qwen3 = {
    .name = "qwen3",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = sl_config_late_window,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM | 1u << SL_V_Q_NORM | 1u << SL_V_K_NORM,
    .layer = sl_layer_pre_norm,
};
