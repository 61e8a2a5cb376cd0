/* Llama 1, 2, 3 and their kin (SmolLM2): pre-norm block, rotary positions, SiLU-gated MLP.
 *
 * GGUF converters reorder the rows of q and k per head, so that rotation pairs are neighbours (2i, 2i+1); Hugging Face
 * files keep the halves (i, i + n_rot/2).  Llama 3's frequency scaling arrives as a formula from config.json and as
 * divisors (rope_freqs.weight) in GGUF.  GGUF files of Mistral carry this architecture too and run with full attention,
 * as other engines run them; those of Mixtral have experts, whose weights are divided by their sum. */
#include "model/layers.h"
#include "model/moe.h"

static void configure(sl_model_config *c, const sl_settings *s)
{
    c->rope_interleaved = s->json == NULL;
    if (!s->json && sl_config_moe(c, s, NULL)) c->moe.routing.normalise = true;
}

static const char *const gguf_arch[] = {"llama", NULL};
static const char *const hf_type[] = {"llama", NULL};

const sl_family sl_family_llama = {
    .name = "llama",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM,
    .layer = sl_layer_pre_norm,
};
