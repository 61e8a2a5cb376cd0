/* OLMoE: Llama's block with RMSNorms over all of q and all of k before rotation, perhaps a clamp on q, k and v after them,
 * and softmax-routed experts without renormalisation.  GGUF keeps the row order of q and k. */
#include "model/layers.h"
#include "model/moe.h"

static void configure(sl_model_config *c, const sl_settings *s)
{
    c->qk_norm_whole = true;
    c->qkv_clip = (float)sl_setting_float(s, "attention.clamp_kqv", "clip_qkv", 0);
    sl_config_moe(c, s, "intermediate_size");
}

static const char *const gguf_arch[] = {"olmoe", NULL};
static const char *const hf_type[] = {"olmoe", NULL};

const sl_family sl_family_olmoe = {
    .name = "olmoe",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM | 1u << SL_V_Q_NORM | 1u << SL_V_K_NORM,
    .layer = sl_layer_pre_norm,
};
