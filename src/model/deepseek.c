/* DeepSeek-V2 and -V3: latent attention (mla.c), dense layers first, then experts with a shared one that is simply added.
 *
 * V3 scores experts by sigmoid, adds a bias for the choice only, keeps the best groups by the sum of their two best, and
 * divides the weights by their sum.  V2 takes the softmax, perhaps of the best groups by their best one, and doesn't.  Both
 * multiply by a factor at last.  A GGUF file does not say how groups are scored: by the rule of the model whose score function
 * it names.  (llama.cpp sums two for both.)
 *
 * YaRN: with ms(x) = 0.1 x ln(factor) + 1, cos and sin are scaled by ms(mscale) / ms(mscale_all_dim), and scores by
 * ms(mscale_all_dim)^2. */
#include "model/layers.h"
#include "model/moe.h"

#include "base/mathx.h"

#include <math.h>
#include <string.h>

static double json_number(const sl_json *o, const char *key)
{
    double v = 0;
    if (o) sl_json_number(sl_json_get(o, key), &v);
    return v;
}

static void yarn_scales(sl_model_config *c, const sl_settings *s)
{
    c->attn_scale = (float)(1 / sqrt((double)c->head_dim));
    if (c->rope.scaling != SL_ROPE_YARN || !(c->rope.factor > 1)) return;
    double ln = sl_log64(c->rope.factor), all;
    if (s->json) {
        const sl_json *o = sl_json_get(s->json, "rope_parameters");
        if (!o) o = sl_json_get(s->json, "rope_scaling");
        double one = json_number(o, "mscale");
        all = json_number(o, "mscale_all_dim");
        if (one != 0 && all != 0 && !(c->rope.attn_factor > 0)) c->rope.attn_factor = (0.1 * one * ln + 1) / (0.1 * all * ln + 1);
    } else {
        all = 10 * sl_setting_float(s, "rope.scaling.yarn_log_multiplier", NULL, 0);
        if (all != 0) c->rope.attn_factor = 1;
    }
    double ms = 0.1 * all * ln + 1;
    c->attn_scale = (float)(ms * ms / sqrt((double)c->head_dim));
}

static void gguf_routing(sl_model_config *c, const sl_settings *s)
{
    sl_routing *r = &c->moe.routing;
    bool sigmoid = sl_setting_int(s, "expert_gating_func", NULL, 1, 1, 2) == 2;
    r->score = sigmoid ? SL_SCORE_SIGMOID : SL_SCORE_SOFTMAX;
    r->group_score = sigmoid ? SL_GROUP_TOP2 : SL_GROUP_MAX;
    r->n_group = (uint32_t)sl_setting_int(s, "expert_group_count", NULL, 1, 0, r->n_expert);
    r->n_group_used = (uint32_t)sl_setting_int(s, "expert_group_used_count", NULL, r->n_group, 0, r->n_group);
}

static void hf_routing(sl_model_config *c, const sl_settings *s)
{
    sl_routing *r = &c->moe.routing;
    size_t n = 0;
    const char *type = sl_json_string(sl_json_get(s->json, "model_type"), &n);
    const char *method = sl_json_string(sl_json_get(s->json, "topk_method"), NULL);
    bool v3 = type && n == strlen("deepseek_v3") && memcmp(type, "deepseek_v3", n) == 0;
    r->score = v3 ? SL_SCORE_SIGMOID : SL_SCORE_SOFTMAX;
    r->group_score = v3 ? SL_GROUP_TOP2 : SL_GROUP_MAX;
    r->normalise = v3 && sl_setting_bool(s, NULL, "norm_topk_prob", true);
    r->scale = (float)sl_setting_float(s, NULL, "routed_scaling_factor", v3 ? 2.5 : 1);
    if (!v3 && (!method || strcmp(method, "group_limited_greedy") != 0)) return;
    r->n_group = (uint32_t)sl_setting_int(s, NULL, "n_group", v3 ? 8 : 1, 1, r->n_expert);
    r->n_group_used = (uint32_t)sl_setting_int(s, NULL, "topk_group", v3 ? 4 : 1, 1, r->n_group);
}

static void check_groups(const sl_model_config *c, const sl_settings *s)
{
    const sl_routing *r = &c->moe.routing;
    if (s->err->code || r->n_group <= 1) return;
    if (r->n_expert % r->n_group == 0 && r->n_group_used >= 1 && r->n_expert / r->n_group * r->n_group_used >= r->n_used) return;
    sl_fail(s->err, SL_ERR_FORMAT, "%s: %u experts in %u groups, of which %u are used, can't give %u experts",
            sl_store_path(s->store), r->n_expert, r->n_group, r->n_group_used, r->n_used);
}

static void configure(sl_model_config *c, const sl_settings *s)
{
    c->rope_interleaved = sl_setting_bool(s, NULL, "rope_interleave", true);
    c->latent.split = !s->json && sl_store_find(s->store, "blk.0.attn_k_b.weight");
    c->latent.eps = s->json ? 1e-6f : c->eps;
    yarn_scales(c, s);
    if (!sl_config_moe(c, s, "moe_intermediate_size")) return;
    if (s->json)
        hf_routing(c, s);
    else
        gguf_routing(c, s);
    check_groups(c, s);
    uint32_t n_shared = (uint32_t)sl_setting_int(s, "expert_shared_count", "n_shared_experts", 0, 0, SL_MAX_ROUTED);
    uint32_t n_dense = (uint32_t)sl_setting_int(s, "leading_dense_block_count", "first_k_dense_replace", 0, 0, c->n_layer);
    uint64_t n_ff = (uint64_t)n_shared * c->moe.n_ff;
    if (!s->err->code && n_ff > SL_MAX_FF)
        sl_fail(s->err, SL_ERR_FORMAT, "%s: %u shared experts of %u are wider than %d", sl_store_path(s->store), n_shared,
                c->moe.n_ff, SL_MAX_FF);
    c->moe.n_ff_shared = (uint32_t)n_ff;
    for (uint32_t i = 0; i < n_dense; i++) c->sparse[i] = false;
}

static void layer(sl_forward *f, const sl_layer *l)
{
    sl_step_norm(f, l->v[SL_V_ATTN_NORM]);
    sl_step_latent_attend(f, l);
    sl_step_attn_out(f, l);
    sl_step_residual(f);

    sl_layer_feed_forward(f, l);
}

static const char *const gguf_arch[] = {"deepseek2", NULL};
static const char *const hf_type[] = {"deepseek_v2", "deepseek_v3", NULL};

const sl_family sl_family_deepseek2 = {
    .name = "deepseek2",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = sl_hf_vector_names,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM | 1u << SL_V_KV_A_NORM,
    .latent = true,
    .layer = layer,
};
