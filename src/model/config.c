/* Settings of a model out of GGUF metadata or config.json, each read with its bounds.  The first failure stays in the
 * settings' error; getters then return their defaults, so that a reader is a plain list of assignments. */
#include "model/family.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEY_BYTES 128

static const char *full_key(const sl_settings *s, const char *key, char buf[KEY_BYTES])
{
    snprintf(buf, KEY_BYTES, "%s.%s", s->arch, key);
    return buf;
}

/* In config.json a setting of the text part may also stand at the top level. */
static const sl_json *member(const sl_settings *s, const char *key)
{
    const sl_json *v = sl_json_get(s->json, key);
    return v ? v : sl_json_get(s->json_top, key);
}

static const char *shown_key(const sl_settings *s, const char *gguf_key, const char *hf_key, char buf[KEY_BYTES])
{
    return s->json ? hf_key : full_key(s, gguf_key, buf);
}

bool sl_setting_has(const sl_settings *s, const char *gguf_key, const char *hf_key)
{
    char buf[KEY_BYTES];
    if (s->json) return hf_key && member(s, hf_key);
    return gguf_key && sl_store_meta(s->store, full_key(s, gguf_key, buf));
}

/* A per-layer array of equal values counts as that value. */
static bool gguf_int(const sl_settings *s, const char *key, int64_t *out)
{
    const sl_meta *m = sl_store_meta(s->store, key);
    if (!m || m->type != SL_GV_ARRAY) return sl_store_meta_int(s->store, key, out, s->err);
    int64_t first = 0, v = 0;
    for (uint64_t i = 0; i < m->count; i++) {
        if (!sl_meta_int_at(m, i, &v) || (i && v != first)) {
            sl_fail(s->err, SL_ERR_UNSUPPORTED, "%s: %s differs from layer to layer, which this family doesn't support",
                    sl_store_path(s->store), key);
            return false;
        }
        first = v;
    }
    *out = first;
    return m->count > 0;
}

int64_t sl_setting_int(const sl_settings *s, const char *gguf_key, const char *hf_key, int64_t dflt, int64_t lo, int64_t hi)
{
    char buf[KEY_BYTES];
    int64_t v = dflt;
    if (s->err->code) return dflt;
    if (!sl_setting_has(s, gguf_key, hf_key)) {
        if (dflt >= lo && dflt <= hi) return dflt;
        sl_fail(s->err, SL_ERR_FORMAT, "%s: %s is missing", sl_store_path(s->store), shown_key(s, gguf_key, hf_key, buf));
        return lo;
    }
    bool ok = s->json ? sl_json_int(member(s, hf_key), &v) : gguf_int(s, full_key(s, gguf_key, buf), &v);
    if (!ok) {
        if (!s->err->code)
            sl_fail(s->err, SL_ERR_FORMAT, "%s: %s is not an integer", sl_store_path(s->store),
                    shown_key(s, gguf_key, hf_key, buf));
        return lo;
    }
    if (v < lo || v > hi) {
        sl_fail(s->err, SL_ERR_FORMAT, "%s: %s is %" PRId64 ", outside %" PRId64 " to %" PRId64, sl_store_path(s->store),
                shown_key(s, gguf_key, hf_key, buf), v, lo, hi);
        return lo;
    }
    return v;
}

double sl_setting_float(const sl_settings *s, const char *gguf_key, const char *hf_key, double dflt)
{
    char buf[KEY_BYTES];
    double v = dflt;
    if (s->err->code || !sl_setting_has(s, gguf_key, hf_key)) return dflt;
    bool ok = s->json ? sl_json_number(member(s, hf_key), &v)
                      : sl_store_meta_float(s->store, full_key(s, gguf_key, buf), &v, s->err);
    if (ok && isfinite(v)) return v;
    if (!s->err->code)
        sl_fail(s->err, SL_ERR_FORMAT, "%s: %s is not a finite number", sl_store_path(s->store),
                shown_key(s, gguf_key, hf_key, buf));
    return dflt;
}

bool sl_setting_bool(const sl_settings *s, const char *gguf_key, const char *hf_key, bool dflt)
{
    char buf[KEY_BYTES];
    bool v = dflt;
    if (s->err->code || !sl_setting_has(s, gguf_key, hf_key)) return dflt;
    bool ok = s->json ? sl_json_bool(member(s, hf_key), &v)
                      : sl_store_meta_bool(s->store, full_key(s, gguf_key, buf), &v, s->err);
    if (ok) return v;
    if (!s->err->code)
        sl_fail(s->err, SL_ERR_FORMAT, "%s: %s is not true or false", sl_store_path(s->store),
                shown_key(s, gguf_key, hf_key, buf));
    return dflt;
}

/* ---- rope ---- */

static void scaling_kind(sl_rope_config *r, const char *kind, size_t n, const sl_settings *s)
{
    static const struct {
        const char *name;
        sl_rope_scaling scaling;
    } kinds[] = {{"none", SL_ROPE_NONE}, {"default", SL_ROPE_NONE}, {"linear", SL_ROPE_LINEAR},
                 {"llama3", SL_ROPE_LLAMA3}, {"yarn", SL_ROPE_YARN}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n == strlen(kinds[i].name) && memcmp(kind, kinds[i].name, n) == 0) {
            r->scaling = kinds[i].scaling;
            return;
        }
    sl_fail(s->err, SL_ERR_UNSUPPORTED, "%s: rope scaling '%.*s' is not supported (linear, llama3 and yarn are)",
            sl_store_path(s->store), (int)n, kind);
}

static void number_member(const sl_json *o, const char *key, double *v)
{
    const sl_json *m = sl_json_get(o, key);
    if (m) sl_json_number(m, v);
}

static void check_rope(const sl_rope_config *r, const sl_settings *s)
{
    if (s->err->code) return;
    bool ok = r->base > 1 && r->base < 1e15 && r->factor > 0 && r->factor < 1e6;
    if (r->scaling == SL_ROPE_LLAMA3) ok = ok && r->low_freq > 0 && r->high_freq > r->low_freq && r->orig_ctx > 0;
    if (r->scaling == SL_ROPE_YARN) ok = ok && r->orig_ctx > 0 && r->beta_fast > 0 && r->beta_slow > 0;
    if (!ok)
        sl_fail(s->err, SL_ERR_FORMAT, "%s: rope settings make no sense (base %g, factor %g, original context %g)",
                sl_store_path(s->store), r->base, r->factor, r->orig_ctx);
}

void sl_rope_from_json(sl_rope_config *r, const sl_json *o, const sl_model_config *c, const sl_settings *s)
{
    size_t n = 0;
    const char *kind = sl_json_string(sl_json_get(o, "rope_type"), &n);
    if (!kind) kind = sl_json_string(sl_json_get(o, "type"), &n);
    if (kind) scaling_kind(r, kind, n, s);
    r->orig_ctx = c->ctx_train_tok;
    r->beta_fast = 32;
    r->beta_slow = 1;
    number_member(o, "rope_theta", &r->base);
    number_member(o, "factor", &r->factor);
    number_member(o, "low_freq_factor", &r->low_freq);
    number_member(o, "high_freq_factor", &r->high_freq);
    number_member(o, "original_max_position_embeddings", &r->orig_ctx);
    number_member(s->json, "original_max_position_embeddings", &r->orig_ctx);
    number_member(o, "beta_fast", &r->beta_fast);
    number_member(o, "beta_slow", &r->beta_slow);
    number_member(o, "attention_factor", &r->attn_factor);
    bool truncate = true;
    sl_json_bool(sl_json_get(o, "truncate"), &truncate);
    r->no_truncate = !truncate;
    check_rope(r, s);
}

static void rope_from_gguf(sl_rope_config *r, const sl_model_config *c, const sl_settings *s)
{
    char buf[KEY_BYTES];
    const char *kind;
    size_t n;
    r->base = sl_setting_float(s, "rope.freq_base", NULL, 10000);
    r->divisors = sl_store_find(s->store, "rope_freqs.weight");
    if (sl_store_meta_string(s->store, full_key(s, "rope.scaling.type", buf), &kind, &n, s->err)) scaling_kind(r, kind, n, s);
    r->factor = sl_setting_float(s, "rope.scaling.factor", NULL, 1);
    r->orig_ctx = sl_setting_float(s, "rope.scaling.original_context_length", NULL, c->ctx_train_tok);
    r->beta_fast = sl_setting_float(s, "rope.scaling.yarn_beta_fast", NULL, 32);
    r->beta_slow = sl_setting_float(s, "rope.scaling.yarn_beta_slow", NULL, 1);
    check_rope(r, s);
}

static void rope_settings(sl_model_config *c, const sl_settings *s)
{
    c->rope = (sl_rope_config){.base = 10000, .factor = 1};
    if (!s->json) {
        rope_from_gguf(&c->rope, c, s);
        return;
    }
    c->rope.base = sl_setting_float(s, NULL, "rope_theta", 10000);
    const sl_json *o = member(s, "rope_parameters");
    if (!o) o = member(s, "rope_scaling");
    if (o && !sl_json_is_object(sl_json_get(o, "full_attention"))) sl_rope_from_json(&c->rope, o, c, s);
    check_rope(&c->rope, s);
}

/* ---- what every family has ---- */

static void check_heads(const sl_model_config *c, const sl_settings *s)
{
    if (s->err->code) return;
    if (c->n_head % c->n_head_kv)
        sl_fail(s->err, SL_ERR_FORMAT, "%s: %u query heads can't share %u key/value heads evenly", sl_store_path(s->store),
                c->n_head, c->n_head_kv);
    else if (c->n_rot % 2 || c->n_rot > c->head_dim)
        sl_fail(s->err, SL_ERR_FORMAT, "%s: %u rotated dimensions of %u are not an even part of a head",
                sl_store_path(s->store), c->n_rot, c->head_dim);
    else if (!(c->eps > 0 && c->eps < 1))
        sl_fail(s->err, SL_ERR_FORMAT, "%s: the norm's epsilon is %g, outside 0 to 1", sl_store_path(s->store), (double)c->eps);
}

static void head_settings(sl_model_config *c, const sl_settings *s)
{
    c->head_dim = (uint32_t)sl_setting_int(s, "attention.key_length", "head_dim", c->n_embd / c->n_head, 1, SL_MAX_HEAD_DIM);
    int64_t v_dim = sl_setting_int(s, "attention.value_length", "head_dim", c->head_dim, 1, SL_MAX_HEAD_DIM);
    if (!s->err->code && v_dim != c->head_dim)
        sl_fail(s->err, SL_ERR_UNSUPPORTED, "%s: keys of %u and values of %u dimensions per head are not supported",
                sl_store_path(s->store), c->head_dim, (uint32_t)v_dim);
    c->n_rot = (uint32_t)sl_setting_int(s, "rope.dimension_count", NULL, c->head_dim, 2, SL_MAX_HEAD_DIM);
    if (s->json) c->n_rot = (uint32_t)(c->head_dim * sl_setting_float(s, NULL, "partial_rotary_factor", 1));
}

/* GGUF writes the widths of the absorbed form under the plain keys and the model's own under _mla; files from before that
 * have the model's own under the plain ones. */
static void latent_settings(sl_model_config *c, const sl_settings *s)
{
    sl_latent_config *l = &c->latent;
    bool mla = sl_setting_has(s, "attention.key_length_mla", NULL);
    const char *key = mla ? "attention.key_length_mla" : "attention.key_length";
    const char *value = mla ? "attention.value_length_mla" : "attention.value_length";
    l->kv_rank = (uint32_t)sl_setting_int(s, "attention.kv_lora_rank", "kv_lora_rank", -1, 1, SL_MAX_HEAD_DIM);
    l->q_rank = (uint32_t)sl_setting_int(s, "attention.q_lora_rank", "q_lora_rank", 0, 0, SL_MAX_EMBD);
    l->n_rope = (uint32_t)sl_setting_int(s, "rope.dimension_count", "qk_rope_head_dim", -1, 2, SL_MAX_HEAD_DIM / 2);
    l->n_v = (uint32_t)sl_setting_int(s, value, "v_head_dim", -1, 1, SL_MAX_HEAD_DIM);
    if (s->json)
        l->n_nope = (uint32_t)sl_setting_int(s, NULL, "qk_nope_head_dim", -1, 1, SL_MAX_HEAD_DIM / 2);
    else
        l->n_nope = (uint32_t)sl_setting_int(s, key, NULL, -1, l->n_rope + 1, SL_MAX_HEAD_DIM) - l->n_rope;
    if (!s->err->code && l->kv_rank + l->n_rope > SL_MAX_HEAD_DIM)
        sl_fail(s->err, SL_ERR_FORMAT, "%s: a latent of %u with %u rotated dimensions is wider than %d", sl_store_path(s->store),
                l->kv_rank, l->n_rope, SL_MAX_HEAD_DIM);
    c->n_head_kv = c->n_head;
    c->head_dim = l->n_nope + l->n_rope;
    c->n_rot = l->n_rope;
}

void sl_config_common(sl_model_config *c, const sl_settings *s)
{
    c->n_layer = (uint32_t)sl_setting_int(s, "block_count", "num_hidden_layers", -1, 1, SL_MAX_LAYER);
    c->n_embd = (uint32_t)sl_setting_int(s, "embedding_length", "hidden_size", -1, 1, SL_MAX_EMBD);
    c->n_head = (uint32_t)sl_setting_int(s, "attention.head_count", "num_attention_heads", -1, 1, SL_MAX_HEAD);
    c->n_head_kv = (uint32_t)sl_setting_int(s, "attention.head_count_kv", "num_key_value_heads", c->n_head, 1, SL_MAX_HEAD);
    /* the MLP of dense layers; a model of experts only may be without */
    bool experts_only = sl_setting_has(s, "expert_feed_forward_length", "moe_intermediate_size");
    c->n_ff = (uint32_t)sl_setting_int(s, "feed_forward_length", "intermediate_size", experts_only - 1, !experts_only, SL_MAX_FF);
    c->ctx_train_tok = (uint32_t)sl_setting_int(s, "context_length", "max_position_embeddings", 2048, 1, SL_MAX_CTX);
    if (s->latent)
        latent_settings(c, s);
    else
        head_settings(c, s);
    c->eps = (float)sl_setting_float(s, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6);
    c->attn_scale = (float)(1.0 / sqrt((double)c->head_dim));
    c->embd_scale = c->residual_scale = c->logit_scale = 1;
    c->act = SL_ACT_SILU;
    rope_settings(c, s);
    check_heads(c, s);
}

void sl_config_late_window(sl_model_config *c, const sl_settings *s)
{
    if (!sl_setting_bool(s, NULL, "use_sliding_window", false)) return;
    c->window = (uint32_t)sl_setting_int(s, NULL, "sliding_window", 4096, 1, SL_MAX_CTX);
    int64_t from = sl_setting_int(s, NULL, "max_window_layers", 28, 0, SL_MAX_LAYER);
    for (uint32_t i = 0; i < c->n_layer; i++) c->windowed[i] = i >= from;
}
