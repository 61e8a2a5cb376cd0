/* Mixtral: Mistral's block with experts in every layer, weights divided by their sum.  Only its Hugging Face form has a name of
 * its own; GGUF files of it say `llama` and are read there (llama.c).  A window, when config.json has one, holds in all
 * layers, as in transformers. */
#include "model/layers.h"
#include "model/moe.h"

static void configure(sl_model_config *c, const sl_settings *s)
{
    c->window = (uint32_t)sl_setting_int(s, NULL, "sliding_window", 0, 0, SL_MAX_CTX);
    for (uint32_t i = 0; i < c->n_layer; i++) c->windowed[i] = c->window > 0;
    if (sl_config_moe(c, s, "intermediate_size")) c->moe.routing.normalise = true;
}

static const char *const gguf_arch[] = {NULL};
static const char *const hf_type[] = {"mixtral", NULL};

const sl_family sl_family_mixtral = {
    .name = "mixtral",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM,
    .layer = sl_layer_pre_norm,
};
