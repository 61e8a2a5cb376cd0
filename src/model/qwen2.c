/* Qwen2 and Qwen2.5: Llama's block with biases on q, k and v; rotation pairs are halves in every file format.
 * With use_sliding_window, layers from max_window_layers on see a window only. */
#include "model/family.h"
#include "model/layers.h"

static const char *const gguf_arch[] = {"qwen2", NULL};
static const char *const hf_type[] = {"qwen2", NULL};

const sl_family sl_family_qwen2 = {
    .name = "qwen2",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = sl_config_late_window,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM | 1u << SL_V_Q_BIAS | 1u << SL_V_K_BIAS | 1u << SL_V_V_BIAS,
    .layer = sl_layer_pre_norm,
};
