/* Qwen2 with experts (Qwen1.5-MoE, Qwen2-57B-A14B): Qwen2's block with biases on q, k and v, softmax-routed experts whose
 * weights are not renormalised unless the file says so, and a shared expert times the sigmoid of a row of its own. */
#include "model/layers.h"
#include "model/moe.h"

static void configure(sl_model_config *c, const sl_settings *s)
{
    sl_config_late_window(c, s);
    if (!sl_config_moe(c, s, "moe_intermediate_size")) return;
    if (s->json) sl_config_sparse_step(c, s);
    c->moe.n_ff_shared = (uint32_t)sl_setting_int(s, "expert_shared_feed_forward_length", "shared_expert_intermediate_size",
                                                  c->n_ff, 1, SL_MAX_FF);
}

static const char *const gguf_arch[] = {"qwen2moe", NULL};
static const char *const hf_type[] = {"qwen2_moe", NULL};

const sl_family sl_family_qwen2moe = {
    .name = "qwen2moe",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM | 1u << SL_V_Q_BIAS | 1u << SL_V_K_BIAS | 1u << SL_V_V_BIAS |
                1u << SL_V_SHARED_SCALE,
    .layer = sl_layer_pre_norm,
};
