/* Gemma 3, text part: norms before and after each branch, a norm over every head of q and k, windowed layers with their
 * own rotation base between full ones, GELU-tanh gate, embeddings scaled by sqrt(n_embd), tied head.
 *
 * Hugging Face files store norm weights minus one; GGUF converters have added the one.  The embedding scale is exact
 * (a bfloat16 run of the reference rounds it; a float32 run and llama.cpp don't).  GGUF has no key for the attention
 * scale: it is 1/sqrt(head_dim), except in the 27B size (62 layers), where it is 1/sqrt(n_embd / n_head). */
#include "model/family.h"
#include "model/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PERIOD_DEFAULT 6

/* GGUF: sliding_window_pattern may be a period or a list of bools; Hugging Face: layer_types or a period. */
static void windowed_layers(sl_model_config *c, const sl_settings *s)
{
    const sl_json *types = s->json ? sl_json_get(s->json, "layer_types") : NULL;
    const char *period_key = s->json && !sl_setting_has(s, NULL, "sliding_window_pattern") ? "_sliding_window_pattern"
                                                                                          : "sliding_window_pattern";
    const sl_meta *list = NULL;
    if (!s->json) {
        char key[128];
        snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", s->arch);
        list = sl_store_meta(s->store, key);
        if (list && list->type != SL_GV_ARRAY) list = NULL;
    }
    if ((types && sl_json_count(types) != c->n_layer) || (list && list->count != c->n_layer)) {
        sl_fail(s->err, SL_ERR_FORMAT, "%s: the list of layer types has %zu entries for %u layers", sl_store_path(s->store),
                types ? sl_json_count(types) : (size_t)list->count, c->n_layer);
        return;
    }
    int64_t period = PERIOD_DEFAULT;
    if (!types && !list)
        period = sl_setting_int(s, "attention.sliding_window_pattern", period_key, PERIOD_DEFAULT, 1, SL_MAX_LAYER);
    for (uint32_t i = 0; i < c->n_layer; i++) {
        int64_t flag = 0;
        if (types) {
            const char *t = sl_json_string(sl_json_at(types, i), NULL);
            flag = t && strcmp(t, "sliding_attention") == 0;
        } else if (list) {
            sl_meta_int_at(list, i, &flag);
        } else {
            flag = (i + 1) % (uint32_t)period != 0;
        }
        c->windowed[i] = flag != 0;
    }
}

/* Version 5 of transformers nests one object per layer type under rope_parameters; before, there were flat keys. */
static void rope_settings(sl_model_config *c, const sl_settings *s)
{
    c->has_rope_local = true;
    c->rope_local = (sl_rope_config){.base = 10000, .factor = 1};
    if (!s->json) {
        c->rope_local.base = sl_setting_float(s, "rope.freq_base_swa", NULL, 10000);
        return;
    }
    const sl_json *p = sl_json_get(s->json, "rope_parameters");
    const sl_json *full = p ? sl_json_get(p, "full_attention") : NULL;
    const sl_json *local = p ? sl_json_get(p, "sliding_attention") : NULL;
    if (!full && !sl_setting_has(s, NULL, "rope_theta")) c->rope.base = 1e6;
    if (full) sl_rope_from_json(&c->rope, full, c, s);
    if (local) sl_rope_from_json(&c->rope_local, local, c, s);
    else c->rope_local.base = sl_setting_float(s, NULL, "rope_local_base_freq", 10000);
}

static void configure(sl_model_config *c, const sl_settings *s)
{
    c->act = SL_ACT_GELU_TANH;
    c->norm_plus_one = s->json != NULL;
    c->embd_scale = sqrtf((float)c->n_embd);
    double scalar = s->json ? sl_setting_float(s, NULL, "query_pre_attn_scalar", 256)
                    : c->n_layer == 62 ? (double)c->n_embd / c->n_head
                                       : c->head_dim;
    c->attn_scale = (float)(1.0 / sqrt(scalar));
    c->attn_softcap = (float)sl_setting_float(s, "attn_logit_softcapping", "attn_logit_softcapping", 0);
    c->final_softcap = (float)sl_setting_float(s, "final_logit_softcapping", "final_logit_softcapping", 0);
    c->window = (uint32_t)sl_setting_int(s, "attention.sliding_window", "sliding_window", s->json ? 4096 : 0, 0, SL_MAX_CTX);
    windowed_layers(c, s);
    rope_settings(c, s);
}

static void layer(sl_forward *f, const sl_layer *l)
{
    sl_step_norm(f, l->v[SL_V_ATTN_NORM]);
    sl_step_qkv(f, l);
    sl_step_qk_norm(f, l);
    sl_step_rope(f, l);
    sl_step_attend(f, l);
    sl_step_attn_out(f, l);
    sl_step_norm_branch(f, l->v[SL_V_ATTN_POST_NORM]);
    sl_step_residual(f);

    sl_step_norm(f, l->v[SL_V_FFN_NORM]);
    sl_step_gated_mlp(f, l);
    sl_step_norm_branch(f, l->v[SL_V_FFN_POST_NORM]);
    sl_step_residual(f);
}

static const char *const gguf_arch[] = {"gemma3", NULL};
static const char *const hf_type[] = {"gemma3_text", "gemma3", NULL};

static const char *const hf_vector[SL_V_COUNT] = {
    [SL_V_ATTN_NORM] = "layers.%u.input_layernorm.weight",
    [SL_V_ATTN_POST_NORM] = "layers.%u.post_attention_layernorm.weight",
    [SL_V_FFN_NORM] = "layers.%u.pre_feedforward_layernorm.weight",
    [SL_V_FFN_POST_NORM] = "layers.%u.post_feedforward_layernorm.weight",
    [SL_V_Q_NORM] = "layers.%u.self_attn.q_norm.weight",
    [SL_V_K_NORM] = "layers.%u.self_attn.k_norm.weight",
};

const sl_family sl_family_gemma3 = {
    .name = "gemma3",
    .gguf_arch = gguf_arch,
    .hf_type = hf_type,
    .gguf_vector = sl_gguf_vector_names,
    .hf_vector = hf_vector,
    .configure = configure,
    .required = 1u << SL_V_ATTN_NORM | 1u << SL_V_FFN_NORM | 1u << SL_V_ATTN_POST_NORM | 1u << SL_V_FFN_POST_NORM |
                1u << SL_V_Q_NORM | 1u << SL_V_K_NORM,
    .layer = layer,
};
