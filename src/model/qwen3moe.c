/* Qwen3 with experts: Qwen3's block, in most layers with softmax-routed experts in place of the MLP.  Weights are divided by
 * their sum where config.json says so; GGUF files have no such setting and are always run that way. */
#include "model/layers.h"
#include "model/moe.h"

static void configure(sl_model_config *c, const sl_settings *s)
{
    sl_config_late_window(c, s);
    if (!sl_config_moe(c, s, "moe_intermediate_size")) return;
    if (s->json)
        sl_config_sparse_step(c, s);
    else
        c->moe.routing.normalise = true;
}

static const char *const gguf_arch[] = {"qwen3moe", NULL};
static const char *const hf_type[] = {"qwen3_moe", NULL};

const sl_family sl_family_qwen3moe = {
    .name = "qwen3moe",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM | 1u << SL_V_Q_NORM | 1u << SL_V_K_NORM,
    .layer = sl_layer_pre_norm,
};
