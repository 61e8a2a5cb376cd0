/* Tensor names to roles.  GGUF names are used as they are; Hugging Face names carry a prefix that depends on the
 * packaging (text-only or inside a multimodal model). */
#include "model/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { ALTERNATIVES = 4 };

/* A name that ends in "@i" stands for half i of the tensor's rows; of a vector for the even (0) or odd (1) elements. */
static const char *const gguf_matrix[SL_W_COUNT][ALTERNATIVES] = {
    [SL_W_Q] = {"blk.%u.attn_q.weight"},
    [SL_W_K] = {"blk.%u.attn_k.weight"},
    [SL_W_V] = {"blk.%u.attn_v.weight"},
    [SL_W_O] = {"blk.%u.attn_output.weight"},
    [SL_W_GATE] = {"blk.%u.ffn_gate.weight"},
    [SL_W_UP] = {"blk.%u.ffn_up.weight"},
    [SL_W_DOWN] = {"blk.%u.ffn_down.weight"},
    [SL_W_ROUTER] = {"blk.%u.ffn_gate_inp.weight"},
    [SL_W_SHARED_GATE] = {"blk.%u.ffn_gate_shexp.weight"},
    [SL_W_SHARED_UP] = {"blk.%u.ffn_up_shexp.weight"},
    [SL_W_SHARED_DOWN] = {"blk.%u.ffn_down_shexp.weight"},
    [SL_W_Q_A] = {"blk.%u.attn_q_a.weight"},
    [SL_W_Q_B] = {"blk.%u.attn_q_b.weight"},
    [SL_W_KV_A] = {"blk.%u.attn_kv_a_mqa.weight"},
    [SL_W_K_B] = {"blk.%u.attn_k_b.weight"},
    [SL_W_V_B] = {"blk.%u.attn_v_b.weight"},
    [SL_W_KV_B] = {"blk.%u.attn_kv_b.weight"},
};
static const char *const hf_matrix[SL_W_COUNT][ALTERNATIVES] = {
    [SL_W_Q] = {"layers.%u.self_attn.q_proj.weight"},
    [SL_W_K] = {"layers.%u.self_attn.k_proj.weight"},
    [SL_W_V] = {"layers.%u.self_attn.v_proj.weight"},
    [SL_W_O] = {"layers.%u.self_attn.o_proj.weight"},
    [SL_W_GATE] = {"layers.%u.mlp.gate_proj.weight"},
    [SL_W_UP] = {"layers.%u.mlp.up_proj.weight"},
    [SL_W_DOWN] = {"layers.%u.mlp.down_proj.weight"},
    [SL_W_ROUTER] = {"layers.%u.mlp.gate.weight", "layers.%u.block_sparse_moe.gate.weight",
                     "layers.%u.block_sparse_moe.router.layer.weight", "layers.%u.mlp.router.weight"},
    [SL_W_SHARED_GATE] = {"layers.%u.mlp.shared_expert.gate_proj.weight", "layers.%u.mlp.shared_experts.gate_proj.weight",
                          "layers.%u.shared_mlp.input_linear.weight@0"},
    [SL_W_SHARED_UP] = {"layers.%u.mlp.shared_expert.up_proj.weight", "layers.%u.mlp.shared_experts.up_proj.weight",
                        "layers.%u.shared_mlp.input_linear.weight@1"},
    [SL_W_SHARED_DOWN] = {"layers.%u.mlp.shared_expert.down_proj.weight", "layers.%u.mlp.shared_experts.down_proj.weight",
                          "layers.%u.shared_mlp.output_linear.weight"},
    [SL_W_Q_A] = {"layers.%u.self_attn.q_a_proj.weight"},
    [SL_W_Q_B] = {"layers.%u.self_attn.q_b_proj.weight"},
    [SL_W_KV_A] = {"layers.%u.self_attn.kv_a_proj_with_mqa.weight"},
    [SL_W_KV_B] = {"layers.%u.self_attn.kv_b_proj.weight"},
};
static const char *const hf_prefixes[] = {"model.", "language_model.model.", "model.language_model."};

typedef sl_tensor_builder builder;

int32_t sl_tensor_layer(const char *name)
{
    const char *p = strstr(name, "layers.");
    p = p ? p + strlen("layers.") : strncmp(name, "blk.", 4) == 0 ? name + 4 : NULL;
    if (!p || *p < '0' || *p > '9') return -1;
    unsigned long n = strtoul(p, NULL, 10);
    return n < SL_MAX_LAYER ? (int32_t)n : -1;
}

const char *sl_tensor_name(const builder *b, const char *format, uint32_t n, char buf[SL_NAME_BYTES])
{
    const char *at = strstr(format, "%u");
    snprintf(buf, SL_NAME_BYTES, "%s%.*s%u%s", b->hf ? b->prefix : "", (int)(at - format), format, n, at + 2);
    return buf;
}

static const sl_tensor *use(builder *b, const sl_tensor *t)
{
    if (t) b->used[b->n_used++] = t;
    return t;
}

const sl_tensor *sl_tensor_use(builder *b, const char *name)
{
    return use(b, sl_store_find(b->store, name));
}

uint64_t sl_tensor_elems(const sl_tensor *t)
{
    uint64_t n = 1; /* of a tensor that the store has accepted, so no overflow */
    for (uint32_t i = 0; i < t->n_dims; i++) n *= t->dims[i];
    return n;
}

uint64_t sl_tensor_map_length(const sl_tensor_map *map, const sl_tensor *t, uint32_t role)
{
    return map->half[role] ? sl_tensor_elems(t) / 2 : sl_tensor_elems(t);
}

static void shape_text(char buf[96], uint32_t n_dims, const uint64_t *dims)
{
    int at = 0;
    buf[0] = 0;
    for (uint32_t i = 0; i < n_dims && at < 70; i++)
        at += snprintf(buf + at, 96 - (size_t)at, "%s%" PRIu64, i ? ", " : "", dims[i]);
}

sl_status sl_tensor_check_shape(const builder *b, const sl_tensor *t, uint32_t n_dims, const uint64_t *dims, sl_err *err)
{
    bool same = t->n_dims == n_dims;
    for (uint32_t i = 0; same && i < n_dims; i++) same = t->dims[i] == dims[i];
    if (same) return SL_OK;
    char have[96], want[96];
    shape_text(have, t->n_dims, t->dims);
    shape_text(want, n_dims, dims);
    return sl_fail(err, SL_ERR_FORMAT, "%s: tensor %s has shape [%s], expected [%s]", sl_store_path(b->store), t->name, have,
                   want);
}

static sl_status check_shape(const builder *b, const sl_tensor *t, uint32_t n_dims, uint64_t rows, uint64_t cols, sl_err *err)
{
    const uint64_t dims[2] = {rows, cols};
    return sl_tensor_check_shape(b, t, n_dims, dims, err);
}

sl_status sl_tensor_missing(const builder *b, const char *name, sl_err *err)
{
    return sl_fail(err, SL_ERR_FORMAT, "%s: tensor %s is missing, which family %s needs", sl_store_path(b->store), name,
                   b->m->family->name);
}

/* ---- ends of the network ---- */

static sl_status find_prefix(builder *b, sl_err *err)
{
    char name[SL_NAME_BYTES];
    for (size_t i = 0; i < sizeof hf_prefixes / sizeof hf_prefixes[0]; i++) {
        b->prefix = hf_prefixes[i];
        snprintf(name, sizeof name, "%sembed_tokens.weight", b->prefix);
        if (sl_store_find(b->store, name)) return SL_OK;
    }
    return sl_tensor_missing(b, "model.embed_tokens.weight", err);
}

/* No head in the file means that it shares the embedding's rows, whatever the settings say; a head in the file is used. */
static sl_status find_head(builder *b, const sl_log *log, sl_err *err)
{
    sl_model *m = b->m;
    m->head = use(b, sl_store_find(b->store, b->hf ? "lm_head.weight" : "output.weight"));
    if (!m->head && b->hf) m->head = use(b, sl_store_find(b->store, "language_model.lm_head.weight"));
    m->c.tied = m->head == NULL;
    bool says_tied = true;
    const sl_json *config = sl_store_config(b->store);
    if (b->hf && m->c.tied && sl_json_bool(sl_json_get(config, "tie_word_embeddings"), &says_tied) && !says_tied)
        sl_warn(log, "%s: config.json says the output head is not tied, but the file has none: the embedding is used",
                sl_store_path(b->store));
    if (m->c.tied) m->head = m->embd;
    return m->c.tied ? SL_OK : check_shape(b, m->head, 2, m->c.n_vocab, m->c.n_embd, err);
}

static sl_status find_ends(builder *b, const sl_log *log, sl_err *err)
{
    sl_model *m = b->m;
    char name[SL_NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", b->hf ? b->prefix : "", b->hf ? "embed_tokens.weight" : "token_embd.weight");
    m->embd = use(b, sl_store_find(b->store, name));
    if (!m->embd) return sl_tensor_missing(b, name, err);
    if (m->embd->n_dims != 2 || m->embd->dims[1] != m->c.n_embd || m->embd->dims[0] > SL_MAX_VOCAB)
        return check_shape(b, m->embd, 2, sl_min_u64(m->embd->dims[0], SL_MAX_VOCAB), m->c.n_embd, err);
    m->c.n_vocab = (uint32_t)m->embd->dims[0];
    snprintf(name, sizeof name, "%s%s", b->hf ? b->prefix : "", b->hf ? "norm.weight" : "output_norm.weight");
    b->map->final_norm = use(b, sl_store_find(b->store, name));
    if (!b->map->final_norm) return sl_tensor_missing(b, name, err);
    sl_status rc = check_shape(b, b->map->final_norm, 1, m->c.n_embd, 0, err);
    if (rc != SL_OK) return rc;
    const sl_tensor *d = m->c.rope.divisors;
    if (d && (rc = check_shape(b, use(b, d), 1, m->c.n_rot / 2, 0, err)) != SL_OK) return rc;
    return find_head(b, log, err);
}

/* ---- layers ---- */

static void matrix_shape(const sl_model_config *c, sl_matrix_role role, uint64_t *rows, uint64_t *cols)
{
    const sl_latent_config *l = &c->latent;
    uint64_t n_out = (uint64_t)c->n_head * (l->kv_rank ? l->n_v : c->head_dim);
    uint64_t n_q = (uint64_t)c->n_head * c->head_dim, n_kv = (uint64_t)c->n_head_kv * c->head_dim;
    const uint64_t shapes[SL_W_COUNT][2] = {
        [SL_W_Q] = {n_q, c->n_embd},     [SL_W_K] = {n_kv, c->n_embd},  [SL_W_V] = {n_kv, c->n_embd},
        [SL_W_O] = {c->n_embd, n_out},     [SL_W_GATE] = {c->n_ff, c->n_embd}, [SL_W_UP] = {c->n_ff, c->n_embd},
        [SL_W_DOWN] = {c->n_embd, c->n_ff},
        [SL_W_ROUTER] = {c->moe.routing.n_expert, c->n_embd},
        [SL_W_SHARED_GATE] = {c->moe.n_ff_shared, c->n_embd},
        [SL_W_SHARED_UP] = {c->moe.n_ff_shared, c->n_embd},
        [SL_W_SHARED_DOWN] = {c->n_embd, c->moe.n_ff_shared},
        [SL_W_Q_A] = {l->q_rank, c->n_embd},
        [SL_W_Q_B] = {n_q, l->q_rank},
        [SL_W_KV_A] = {l->kv_rank + l->n_rope, c->n_embd},
        [SL_W_K_B] = {(uint64_t)c->n_head * l->kv_rank, l->n_nope},
        [SL_W_V_B] = {(uint64_t)c->n_head * l->n_v, l->kv_rank},
        [SL_W_KV_B] = {(uint64_t)c->n_head * (l->n_nope + l->n_v), l->kv_rank},
    };
    *rows = shapes[role][0];
    *cols = shapes[role][1];
}

static uint64_t vector_length(const sl_model_config *c, sl_vector_role role)
{
    switch (role) {
    case SL_V_Q_NORM: return c->qk_norm_whole ? (uint64_t)c->n_head * c->head_dim : c->head_dim;
    case SL_V_K_NORM: return c->qk_norm_whole ? (uint64_t)c->n_head_kv * c->head_dim : c->head_dim;
    case SL_V_Q_BIAS: return (uint64_t)c->n_head * c->head_dim;
    case SL_V_K_BIAS:
    case SL_V_V_BIAS: return (uint64_t)c->n_head_kv * c->head_dim;
    case SL_V_ROUTER_BIAS:
    case SL_V_CHOICE_BIAS: return c->moe.routing.n_expert;
    case SL_V_GATE_BIAS:
    case SL_V_UP_BIAS: return c->moe.n_ff;
    case SL_V_SINKS: return c->n_head;
    case SL_V_Q_A_NORM: return c->latent.q_rank;
    case SL_V_KV_A_NORM: return c->latent.kv_rank;
    default: return c->n_embd;
    }
}

/* Which matrices a layer has: attention of one kind or the other, an MLP or experts. */
static bool has_matrix(const sl_model_config *c, uint32_t layer, sl_matrix_role role)
{
    const sl_latent_config *l = &c->latent;
    switch (role) {
    case SL_W_Q: return !l->q_rank;
    case SL_W_K:
    case SL_W_V: return !l->kv_rank;
    case SL_W_Q_A:
    case SL_W_Q_B: return l->q_rank;
    case SL_W_KV_A: return l->kv_rank;
    case SL_W_K_B:
    case SL_W_V_B: return l->kv_rank && l->split;
    case SL_W_KV_B: return l->kv_rank && !l->split;
    case SL_W_GATE:
    case SL_W_UP:
    case SL_W_DOWN: return !c->sparse[layer];
    case SL_W_ROUTER: return c->sparse[layer];
    case SL_W_SHARED_GATE:
    case SL_W_SHARED_UP:
    case SL_W_SHARED_DOWN: return c->sparse[layer] && c->moe.n_ff_shared;
    default: return true;
    }
}

/* The first of a role's names that the file has; half: 0 or 1 of the rows, -1: all. */
static const sl_tensor *find_named(builder *b, const char *const *names, uint32_t layer, int *half)
{
    char name[SL_NAME_BYTES];
    for (uint32_t i = 0; i < ALTERNATIVES && names[i]; i++) {
        sl_tensor_name(b, names[i], layer, name);
        char *at = strchr(name, '@');
        *half = at ? at[1] - '0' : -1;
        if (at) *at = 0;
        const sl_tensor *t = sl_tensor_use(b, name);
        if (t) return t;
    }
    return NULL;
}

static sl_status find_matrix(builder *b, uint32_t layer, sl_matrix_role role, sl_err *err)
{
    const char *const *names = (b->hf ? hf_matrix : gguf_matrix)[role];
    char name[SL_NAME_BYTES];
    uint64_t rows, cols;
    int half;
    const sl_tensor *t = find_named(b, names, layer, &half);
    if (!t) return sl_tensor_missing(b, sl_tensor_name(b, names[0], layer, name), err);
    matrix_shape(&b->m->c, role, &rows, &cols);
    const uint64_t by_head[3] = {b->m->c.n_head, rows / b->m->c.n_head, cols};
    sl_status rc = role == SL_W_K_B || role == SL_W_V_B ? sl_tensor_check_shape(b, t, 3, by_head, err)
                                                        : check_shape(b, t, 2, half < 0 ? rows : 2 * rows, cols, err);
    if (rc != SL_OK) return rc;
    uint32_t first = half > 0 ? (uint32_t)rows : 0;
    b->map->w[layer * SL_W_COUNT + (uint32_t)role] = (sl_unit_rows){t, (uint32_t)cols, first, (uint32_t)rows};
    b->m->roles[layer] |= 1u << role;
    return SL_OK;
}

static sl_status find_matrices(builder *b, uint32_t layer, sl_err *err)
{
    sl_status rc = SL_OK;
    for (int k = 0; rc == SL_OK && k < SL_W_COUNT; k++)
        if (has_matrix(&b->m->c, layer, (sl_matrix_role)k)) rc = find_matrix(b, layer, (sl_matrix_role)k, err);
    if (rc == SL_OK && b->m->c.sparse[layer]) rc = sl_tensor_find_experts(b, layer, err);
    return rc;
}

static bool has_vector(const sl_model_config *c, uint32_t layer, sl_vector_role role)
{
    switch (role) {
    case SL_V_SHARED_SCALE: return c->sparse[layer] && c->moe.n_ff_shared;
    case SL_V_ROUTER_BIAS:
    case SL_V_CHOICE_BIAS:
    case SL_V_GATE_BIAS:
    case SL_V_UP_BIAS:
    case SL_V_DOWN_BIAS: return c->sparse[layer];
    case SL_V_Q_A_NORM: return c->latent.q_rank;
    case SL_V_KV_A_NORM: return c->latent.kv_rank;
    default: return true;
    }
}

/* A vector, which some files write as a matrix of one row; or one for every expert. */
static sl_status check_vector(const builder *b, const sl_tensor *t, sl_vector_role role, sl_err *err)
{
    uint64_t n = vector_length(&b->m->c, role);
    if (role == SL_V_GATE_BIAS || role == SL_V_UP_BIAS || role == SL_V_DOWN_BIAS)
        return check_shape(b, t, 2, b->m->c.moe.routing.n_expert, b->map->half[role] ? 2 * n : n, err);
    if (t->n_dims == 2 && t->dims[0] == 1) return check_shape(b, t, 2, 1, n, err);
    return check_shape(b, t, 1, n, 0, err);
}

static sl_status find_vectors(builder *b, uint32_t layer, sl_err *err)
{
    const sl_family *f = b->m->family;
    const char *const *names = b->hf ? f->hf_vector : f->gguf_vector;
    char name[SL_NAME_BYTES];
    for (int k = 0; k < SL_V_COUNT; k++) {
        if (!names[k] || !has_vector(&b->m->c, layer, (sl_vector_role)k)) continue;
        char *at = strchr((char *)sl_tensor_name(b, names[k], layer, name), '@');
        b->map->half[k] = at ? (uint8_t)(at[1] - '0' + 1) : 0;
        if (at) *at = 0;
        const sl_tensor *t = sl_tensor_use(b, name);
        if (!t && (f->required >> k & 1)) return sl_tensor_missing(b, name, err);
        if (!t) continue;
        sl_status rc = check_vector(b, t, (sl_vector_role)k, err);
        if (rc != SL_OK) return rc;
        b->map->v[layer * SL_V_COUNT + (uint32_t)k] = t;
        b->map->largest_vector_bytes = sl_max_u64(b->map->largest_vector_bytes, t->size_bytes);
    }
    return SL_OK;
}

/* ---- nothing may be left over ---- */

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const sl_tensor *const *)a, y = (uintptr_t) * (const sl_tensor *const *)b;
    return x < y ? -1 : x > y;
}

/* Tensors that carry nothing for text: old rotary tables, and other towers of a multimodal checkpoint. */
static bool may_ignore(const builder *b, const char *name)
{
    static const char *const parts[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                        "model.multi_modal_projector."};
    if (!b->hf) return false;
    size_t n = strlen(name), tail = strlen("rotary_emb.inv_freq");
    if (n >= tail && strcmp(name + n - tail, "rotary_emb.inv_freq") == 0) return true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strncmp(name, parts[i], strlen(parts[i])) == 0) return true;
    return b->m->c.latent.kv_rank && sl_tensor_layer(name) >= (int32_t)b->m->c.n_layer; /* DeepSeek's second-token layers */
}

static sl_status refuse_leftovers(builder *b, sl_err *err)
{
    const char *first = NULL;
    size_t n = 0;
    qsort(b->used, b->n_used, sizeof *b->used, by_address);
    for (size_t i = 0; i < sl_store_tensor_count(b->store); i++) {
        const sl_tensor *t = sl_store_tensor(b->store, i);
        if (bsearch(&t, b->used, b->n_used, sizeof *b->used, by_address) || may_ignore(b, t->name)) continue;
        if (!first) first = t->name;
        n++;
    }
    if (!n) return SL_OK;
    return sl_fail(err, SL_ERR_UNSUPPORTED, "%s: %zu tensor%s that family %s has no use for, the first is %s: this is a variant "
                   "that would give wrong output", sl_store_path(b->store), n, n == 1 ? "" : "s", b->m->family->name, first);
}

bool sl_tensor_is_code(const sl_model *m, const sl_tensor *t)
{
    const sl_expert_layer *l = m->experts;
    for (uint32_t i = 0; l && i < m->c.n_layer; i++, l++)
        for (uint32_t k = 0; l->form == SL_EXPERT_MXFP4_APART && k < l->n_piece; k++)
            if (l->piece[k].stack == t) return true;
    return false;
}

static sl_status check_types(builder *b, sl_err *err)
{
    for (size_t i = 0; i < b->n_used; i++)
        if (!b->used[i]->type->dequantise && !sl_tensor_is_code(b->m, b->used[i])) return sl_store_check_types(b->store, err);
    return SL_OK;
}

static sl_status take_lists(builder *b, sl_err *err)
{
    sl_tensor_map *map = b->map;
    sl_model *m = b->m;
    size_t n = m->c.n_layer, n_expert = m->c.moe.routing.n_expert;
    map->w = sl_calloc(n * SL_W_COUNT, sizeof *map->w);
    map->v = sl_calloc(n * SL_V_COUNT, sizeof *map->v);
    m->roles = sl_calloc(n, sizeof *m->roles);
    /* half tensors are entered twice */
    b->used = sl_calloc(sl_store_tensor_count(b->store) + n * SL_W_COUNT + 8, sizeof *b->used);
    bool ok = map->w && map->v && m->roles && b->used;
    if (n_expert) {
        map->each = sl_calloc(n * SL_EXPERT_MAX_PIECE * n_expert, sizeof *map->each);
        m->experts = sl_calloc(n, sizeof *m->experts);
        ok = ok && map->each && m->experts;
    }
    return ok ? SL_OK : sl_fail(err, SL_ERR_NOMEM, "no memory for the list of tensors");
}

sl_status sl_tensor_map_build(sl_tensor_map *map, sl_model *m, const sl_store *store, const sl_log *log, sl_err *err)
{
    builder b = {.map = map, .m = m, .store = store, .hf = sl_store_get_format(store) == SL_STORE_SAFETENSORS};
    sl_status rc = take_lists(&b, err);
    if (rc == SL_OK && b.hf) rc = find_prefix(&b, err);
    if (rc == SL_OK) rc = find_ends(&b, log, err);
    map->largest_vector_bytes = rc == SL_OK ? map->final_norm->size_bytes : 0;
    for (uint32_t i = 0; rc == SL_OK && i < m->c.n_layer; i++) {
        rc = find_matrices(&b, i, err);
        if (rc == SL_OK) rc = find_vectors(&b, i, err);
    }
    if (rc == SL_OK) rc = refuse_leftovers(&b, err);
    if (rc == SL_OK) rc = check_types(&b, err);
    sl_free(b.used);
    return rc;
}

void sl_tensor_map_free(sl_tensor_map *map)
{
    sl_free(map->w);
    sl_free(map->v);
    sl_free(map->each);
}
