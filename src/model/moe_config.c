/* Settings of mixtures of experts that families share. */
#include "model/moe.h"

/* config.json has one of these names, and transformers 5 writes another than was published with. */
static const char *experts_key(const sl_settings *s)
{
    static const char *const keys[] = {"num_local_experts", "n_routed_experts"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (sl_setting_has(s, NULL, keys[i])) return keys[i];
    return "num_experts";
}

bool sl_config_moe(sl_model_config *c, const sl_settings *s, const char *hf_ff)
{
    uint32_t n = (uint32_t)sl_setting_int(s, "expert_count", experts_key(s), 0, 0, SL_MAX_ROUTED);
    if (!n || s->err->code) return false;
    c->moe.n_ff = (uint32_t)sl_setting_int(s, "expert_feed_forward_length", hf_ff, c->n_ff, 1, SL_MAX_FF);
    c->moe.routing = (sl_routing){
        .n_expert = n,
        .n_used = (uint32_t)sl_setting_int(s, "expert_used_count", "num_experts_per_tok", -1, 1, n),
        .score = SL_SCORE_SOFTMAX,
        .scale = (float)sl_setting_float(s, "expert_weights_scale", NULL, 1),
    };
    if (!s->json && c->moe.routing.scale == 0) c->moe.routing.scale = 1; /* as other engines read it: not set */
    c->moe.routing.normalise = sl_setting_bool(s, "expert_weights_norm", "norm_topk_prob", false);
    for (uint32_t i = 0; i < c->n_layer; i++) c->sparse[i] = true;
    return true;
}

void sl_config_sparse_step(sl_model_config *c, const sl_settings *s)
{
    const sl_json *dense = s->json ? sl_json_get(s->json, "mlp_only_layers") : NULL;
    int64_t step = sl_setting_int(s, NULL, "decoder_sparse_step", 1, 1, SL_MAX_LAYER);
    for (uint32_t i = 0; i < c->n_layer; i++) c->sparse[i] = (i + 1) % step == 0;
    for (size_t i = 0; dense && i < sl_json_count(dense); i++) {
        int64_t layer;
        if (sl_json_int(sl_json_at(dense, i), &layer) && layer >= 0 && layer < c->n_layer) c->sparse[layer] = false;
    }
}
