/* The families of this build, and the tensor names that most of them share. */
#include "model/family.h"

extern const sl_family sl_family_llama, sl_family_qwen2, sl_family_qwen3, sl_family_gemma3;
extern const sl_family sl_family_qwen3moe, sl_family_qwen2moe, sl_family_olmoe, sl_family_mixtral, sl_family_granitemoe;
extern const sl_family sl_family_gpt_oss, sl_family_deepseek2;

static const sl_family *const families[] = {
    &sl_family_llama,    &sl_family_qwen2, &sl_family_qwen3,   &sl_family_gemma3,     &sl_family_qwen3moe,
    &sl_family_qwen2moe, &sl_family_olmoe, &sl_family_mixtral, &sl_family_granitemoe, &sl_family_gpt_oss,
    &sl_family_deepseek2,
};

const sl_family *sl_family_at(size_t i)
{
    return i < sizeof families / sizeof families[0] ? families[i] : NULL;
}

size_t sl_family_count(void)
{
    return sizeof families / sizeof families[0];
}

const char *sl_family_name(size_t i)
{
    return i < sl_family_count() ? families[i]->name : NULL;
}

const char *const sl_gguf_vector_names[SL_V_COUNT] = {
    [SL_V_ATTN_NORM] = "blk.%u.attn_norm.weight",
    [SL_V_FFN_NORM] = "blk.%u.ffn_norm.weight",
    [SL_V_ATTN_POST_NORM] = "blk.%u.post_attention_norm.weight",
    [SL_V_FFN_POST_NORM] = "blk.%u.post_ffw_norm.weight",
    [SL_V_Q_NORM] = "blk.%u.attn_q_norm.weight",
    [SL_V_K_NORM] = "blk.%u.attn_k_norm.weight",
    [SL_V_Q_BIAS] = "blk.%u.attn_q.bias",
    [SL_V_K_BIAS] = "blk.%u.attn_k.bias",
    [SL_V_V_BIAS] = "blk.%u.attn_v.bias",
    [SL_V_O_BIAS] = "blk.%u.attn_output.bias",
    [SL_V_SHARED_SCALE] = "blk.%u.ffn_gate_inp_shexp.weight",
    [SL_V_CHOICE_BIAS] = "blk.%u.exp_probs_b.bias",
    [SL_V_Q_A_NORM] = "blk.%u.attn_q_a_norm.weight",
    [SL_V_KV_A_NORM] = "blk.%u.attn_kv_a_norm.weight",
};

const char *const sl_hf_vector_names[SL_V_COUNT] = {
    [SL_V_ATTN_NORM] = "layers.%u.input_layernorm.weight",
    [SL_V_FFN_NORM] = "layers.%u.post_attention_layernorm.weight",
    [SL_V_Q_NORM] = "layers.%u.self_attn.q_norm.weight",
    [SL_V_K_NORM] = "layers.%u.self_attn.k_norm.weight",
    [SL_V_Q_BIAS] = "layers.%u.self_attn.q_proj.bias",
    [SL_V_K_BIAS] = "layers.%u.self_attn.k_proj.bias",
    [SL_V_V_BIAS] = "layers.%u.self_attn.v_proj.bias",
    [SL_V_O_BIAS] = "layers.%u.self_attn.o_proj.bias",
    [SL_V_SHARED_SCALE] = "layers.%u.mlp.shared_expert_gate.weight",
    [SL_V_CHOICE_BIAS] = "layers.%u.mlp.gate.e_score_correction_bias",
    [SL_V_Q_A_NORM] = "layers.%u.self_attn.q_a_layernorm.weight",
    [SL_V_KV_A_NORM] = "layers.%u.self_attn.kv_a_layernorm.weight",
};
