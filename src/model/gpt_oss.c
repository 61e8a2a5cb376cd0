/* gpt-oss: biases everywhere, a learned score per head that takes part in the softmax and has no value (sink), windowed and full
 * layers in turns, YaRN, and experts with a clamped gate, chosen by their logits and weighed by the softmax over those chosen.
 *
 * GGUF calls the norm before the experts post_attention_norm, and has gate and up apart.  It has no key for YaRN's unrounded
 * bounds, which config.json asks for: they are the model's, so they are used for both.  (llama.cpp rounds them.)  In Hugging Face
 * files gate and up take turns, row by row, also in their bias, and MXFP4 codes and scales are tensors of their own; dequantised
 * experts lie transposed there, one input after the other, gate and up taking turns among the outputs. */
#include "model/layers.h"
#include "model/moe.h"

#include <stdio.h>
#include <string.h>

/* Every second layer, the first one windowed, unless the file has a list of its own. */
static void windowed_layers(sl_model_config *c, const sl_settings *s)
{
    char key[128];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", s->arch);
    const sl_meta *list = s->json ? NULL : sl_store_meta(s->store, key);
    bool listed = list && list->type == SL_GV_ARRAY && list->count == c->n_layer;
    const sl_json *types = s->json ? sl_json_get(s->json, "layer_types") : NULL;
    if (types && sl_json_count(types) != c->n_layer)
        sl_fail(s->err, SL_ERR_FORMAT, "%s: layer_types has %zu entries for %u layers", sl_store_path(s->store),
                sl_json_count(types), c->n_layer);
    for (uint32_t i = 0; i < c->n_layer; i++) {
        int64_t flag = i % 2 == 0;
        if (listed) sl_meta_int_at(list, i, &flag);
        const char *type = types ? sl_json_string(sl_json_at(types, i), NULL) : NULL;
        if (type) flag = strcmp(type, "sliding_attention") == 0;
        c->windowed[i] = flag != 0;
    }
}

static void configure(sl_model_config *c, const sl_settings *s)
{
    c->window = (uint32_t)sl_setting_int(s, "attention.sliding_window", "sliding_window", 128, 1, SL_MAX_CTX);
    windowed_layers(c, s);
    if (!s->json) c->rope.no_truncate = true;
    if (!sl_config_moe(c, s, "intermediate_size")) {
        sl_fail(s->err, SL_ERR_FORMAT, "%s: gpt-oss without experts", sl_store_path(s->store));
        return;
    }
    c->moe.routing.score = SL_SCORE_SOFTMAX_SELECTED;
    c->moe.turned = true;
    c->moe.glu_alpha = 1.702f;
    c->moe.glu_limit = (float)sl_setting_float(s, NULL, "swiglu_limit", 7);
    if (!(c->moe.glu_limit > 0))
        sl_fail(s->err, SL_ERR_FORMAT, "%s: swiglu_limit is %g", sl_store_path(s->store), (double)c->moe.glu_limit);
}

static const char *const gguf_arch[] = {"gpt-oss", NULL};
static const char *const hf_type[] = {"gpt_oss", NULL};

static const char *const gguf_vector[SL_V_COUNT] = {
    [SL_V_ATTN_NORM] = "blk.%u.attn_norm.weight",
    [SL_V_FFN_NORM] = "blk.%u.post_attention_norm.weight",
    [SL_V_Q_BIAS] = "blk.%u.attn_q.bias",
    [SL_V_K_BIAS] = "blk.%u.attn_k.bias",
    [SL_V_V_BIAS] = "blk.%u.attn_v.bias",
    [SL_V_O_BIAS] = "blk.%u.attn_output.bias",
    [SL_V_ROUTER_BIAS] = "blk.%u.ffn_gate_inp.bias",
    [SL_V_GATE_BIAS] = "blk.%u.ffn_gate_exps.bias",
    [SL_V_UP_BIAS] = "blk.%u.ffn_up_exps.bias",
    [SL_V_DOWN_BIAS] = "blk.%u.ffn_down_exps.bias",
    [SL_V_SINKS] = "blk.%u.attn_sinks.weight",
};

static const char *const hf_vector[SL_V_COUNT] = {
    [SL_V_ATTN_NORM] = "layers.%u.input_layernorm.weight",
    [SL_V_FFN_NORM] = "layers.%u.post_attention_layernorm.weight",
    [SL_V_Q_BIAS] = "layers.%u.self_attn.q_proj.bias",
    [SL_V_K_BIAS] = "layers.%u.self_attn.k_proj.bias",
    [SL_V_V_BIAS] = "layers.%u.self_attn.v_proj.bias",
    [SL_V_O_BIAS] = "layers.%u.self_attn.o_proj.bias",
    [SL_V_ROUTER_BIAS] = "layers.%u.mlp.router.bias",
    [SL_V_GATE_BIAS] = "layers.%u.mlp.experts.gate_up_proj_bias@0",
    [SL_V_UP_BIAS] = "layers.%u.mlp.experts.gate_up_proj_bias@1",
    [SL_V_DOWN_BIAS] = "layers.%u.mlp.experts.down_proj_bias",
    [SL_V_SINKS] = "layers.%u.self_attn.sinks",
};

const sl_family sl_family_gpt_oss = {
    .name = "gpt-oss",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = gguf_vector,
    .hf_vector = hf_vector,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM | 1u << SL_V_Q_BIAS | 1u << SL_V_K_BIAS | 1u << SL_V_V_BIAS |
                1u << SL_V_O_BIAS | 1u << SL_V_ROUTER_BIAS | 1u << SL_V_GATE_BIAS | 1u << SL_V_UP_BIAS |
                1u << SL_V_DOWN_BIAS | 1u << SL_V_SINKS,
    .layer = sl_layer_pre_norm,
};
