/* Granite 3 and 4 with experts: Llama's block with four multipliers (embeddings, attention scores, both branches, logits), experts
 * chosen by their logits and weighed by the softmax over those chosen, and perhaps a shared expert that is simply added.
 * GGUF converters reorder the rows of q and k as for Llama. */
#include "model/layers.h"
#include "model/moe.h"

static void configure(sl_model_config *c, const sl_settings *s)
{
    c->rope_interleaved = s->json == NULL;
    c->embd_scale = (float)sl_setting_float(s, "embedding_scale", "embedding_multiplier", 1);
    c->attn_scale = (float)sl_setting_float(s, "attention.scale", "attention_multiplier", s->json ? 1 : (double)c->attn_scale);
    c->residual_scale = (float)sl_setting_float(s, "residual_scale", "residual_multiplier", 1);
    c->logit_scale = (float)(1 / sl_setting_float(s, "logit_scale", "logits_scaling", 1));
    if (!sl_config_moe(c, s, "intermediate_size")) return;
    c->moe.routing.score = SL_SCORE_SOFTMAX_SELECTED;
    c->moe.routing.normalise = false;
    c->moe.n_ff_shared =
        (uint32_t)sl_setting_int(s, "expert_shared_feed_forward_length", "shared_intermediate_size", 0, 0, SL_MAX_FF);
}

static const char *const gguf_arch[] = {"granitemoe", NULL};
static const char *const hf_type[] = {"granitemoe", "granitemoeshared", NULL};

const sl_family sl_family_granitemoe = {
    .name = "granitemoe",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM,
    .layer = sl_layer_pre_norm,
};
