/* Tensor names to roles.  GGUF names are used as they are; Hugging Face names carry a prefix that depends on the
 * packaging (text-only or inside a multimodal model). */
#include "model/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static const char *const gguf_matrix[SL_W_COUNT] = {
    [SL_W_Q] = "blk.%u.attn_q.weight",       [SL_W_K] = "blk.%u.attn_k.weight",
    [SL_W_V] = "blk.%u.attn_v.weight",       [SL_W_O] = "blk.%u.attn_output.weight",
    [SL_W_GATE] = "blk.%u.ffn_gate.weight",  [SL_W_UP] = "blk.%u.ffn_up.weight",
    [SL_W_DOWN] = "blk.%u.ffn_down.weight",
};
static const char *const hf_matrix[SL_W_COUNT] = {
    [SL_W_Q] = "layers.%u.self_attn.q_proj.weight",  [SL_W_K] = "layers.%u.self_attn.k_proj.weight",
    [SL_W_V] = "layers.%u.self_attn.v_proj.weight",  [SL_W_O] = "layers.%u.self_attn.o_proj.weight",
    [SL_W_GATE] = "layers.%u.mlp.gate_proj.weight",  [SL_W_UP] = "layers.%u.mlp.up_proj.weight",
    [SL_W_DOWN] = "layers.%u.mlp.down_proj.weight",
};
static const char *const hf_prefixes[] = {"model.", "language_model.model.", "model.language_model."};

#define NAME_BYTES 192

typedef struct {
    sl_tensor_map *map;
    sl_model *m;
    const sl_store *store;
    bool hf;
    const char *prefix;       /* of Hugging Face names */
    const sl_tensor **used;   /* every tensor with a role */
    size_t n_used;
} builder;

int32_t sl_tensor_layer(const char *name)
{
    const char *p = strstr(name, "layers.");
    p = p ? p + strlen("layers.") : strncmp(name, "blk.", 4) == 0 ? name + 4 : NULL;
    if (!p || *p < '0' || *p > '9') return -1;
    unsigned long n = strtoul(p, NULL, 10);
    return n < SL_MAX_LAYER ? (int32_t)n : -1;
}

static const char *layer_name(const builder *b, const char *format, uint32_t layer, char buf[NAME_BYTES])
{
    char local[NAME_BYTES];
    const char *at = strstr(format, "%u");
    snprintf(local, sizeof local, "%.*s%u%s", (int)(at - format), format, layer, at + 2);
    snprintf(buf, NAME_BYTES, "%s%s", b->hf ? b->prefix : "", local);
    return buf;
}

static const sl_tensor *use(builder *b, const sl_tensor *t)
{
    if (t) b->used[b->n_used++] = t;
    return t;
}

static sl_status check_shape(const builder *b, const sl_tensor *t, uint32_t n_dims, uint64_t rows, uint64_t cols, sl_err *err)
{
    if (t->n_dims == n_dims && t->dims[0] == rows && (n_dims == 1 || t->dims[1] == cols)) return SL_OK;
    char shape[96];
    int at = 0;
    for (uint32_t i = 0; i < t->n_dims && at < 80; i++)
        at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%" PRIu64, i ? ", " : "", t->dims[i]);
    shape[at] = 0;
    if (n_dims == 1)
        return sl_fail(err, SL_ERR_FORMAT, "%s: tensor %s has shape [%s], expected [%" PRIu64 "]", sl_store_path(b->store),
                       t->name, shape, rows);
    return sl_fail(err, SL_ERR_FORMAT, "%s: tensor %s has shape [%s], expected [%" PRIu64 ", %" PRIu64 "]",
                   sl_store_path(b->store), t->name, shape, rows, cols);
}

static sl_status missing(const builder *b, const char *name, sl_err *err)
{
    return sl_fail(err, SL_ERR_FORMAT, "%s: tensor %s is missing, which family %s needs", sl_store_path(b->store), name,
                   b->m->family->name);
}

/* ---- ends of the network ---- */

static sl_status find_prefix(builder *b, sl_err *err)
{
    char name[NAME_BYTES];
    for (size_t i = 0; i < sizeof hf_prefixes / sizeof hf_prefixes[0]; i++) {
        b->prefix = hf_prefixes[i];
        snprintf(name, sizeof name, "%sembed_tokens.weight", b->prefix);
        if (sl_store_find(b->store, name)) return SL_OK;
    }
    return missing(b, "model.embed_tokens.weight", err);
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
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", b->hf ? b->prefix : "", b->hf ? "embed_tokens.weight" : "token_embd.weight");
    m->embd = use(b, sl_store_find(b->store, name));
    if (!m->embd) return missing(b, name, err);
    if (m->embd->n_dims != 2 || m->embd->dims[1] != m->c.n_embd || m->embd->dims[0] > SL_MAX_VOCAB)
        return check_shape(b, m->embd, 2, sl_min_u64(m->embd->dims[0], SL_MAX_VOCAB), m->c.n_embd, err);
    m->c.n_vocab = (uint32_t)m->embd->dims[0];
    snprintf(name, sizeof name, "%s%s", b->hf ? b->prefix : "", b->hf ? "norm.weight" : "output_norm.weight");
    b->map->final_norm = use(b, sl_store_find(b->store, name));
    if (!b->map->final_norm) return missing(b, name, err);
    sl_status rc = check_shape(b, b->map->final_norm, 1, m->c.n_embd, 0, err);
    if (rc != SL_OK) return rc;
    const sl_tensor *d = m->c.rope.divisors;
    if (d && (rc = check_shape(b, use(b, d), 1, m->c.n_rot / 2, 0, err)) != SL_OK) return rc;
    return find_head(b, log, err);
}

/* ---- layers ---- */

static void matrix_shape(const sl_model_config *c, sl_matrix_role role, uint64_t *rows, uint64_t *cols)
{
    uint64_t n_q = (uint64_t)c->n_head * c->head_dim, n_kv = (uint64_t)c->n_head_kv * c->head_dim;
    const uint64_t shapes[SL_W_COUNT][2] = {
        [SL_W_Q] = {n_q, c->n_embd},     [SL_W_K] = {n_kv, c->n_embd},  [SL_W_V] = {n_kv, c->n_embd},
        [SL_W_O] = {c->n_embd, n_q},     [SL_W_GATE] = {c->n_ff, c->n_embd}, [SL_W_UP] = {c->n_ff, c->n_embd},
        [SL_W_DOWN] = {c->n_embd, c->n_ff},
    };
    *rows = shapes[role][0];
    *cols = shapes[role][1];
}

static uint64_t vector_length(const sl_model_config *c, sl_vector_role role)
{
    switch (role) {
    case SL_V_Q_NORM:
    case SL_V_K_NORM: return c->head_dim;
    case SL_V_Q_BIAS: return (uint64_t)c->n_head * c->head_dim;
    case SL_V_K_BIAS:
    case SL_V_V_BIAS: return (uint64_t)c->n_head_kv * c->head_dim;
    default: return c->n_embd;
    }
}

static sl_status find_matrices(builder *b, uint32_t layer, sl_err *err)
{
    char name[NAME_BYTES];
    for (int k = 0; k < SL_W_COUNT; k++) {
        uint64_t rows, cols;
        const sl_tensor *t = use(b, sl_store_find(b->store, layer_name(b, (b->hf ? hf_matrix : gguf_matrix)[k], layer, name)));
        if (!t) return missing(b, name, err);
        matrix_shape(&b->m->c, (sl_matrix_role)k, &rows, &cols);
        sl_status rc = check_shape(b, t, 2, rows, cols, err);
        if (rc != SL_OK) return rc;
        b->map->w[layer * SL_W_COUNT + (uint32_t)k] = t;
    }
    return SL_OK;
}

static sl_status find_vectors(builder *b, uint32_t layer, sl_err *err)
{
    const sl_family *f = b->m->family;
    const char *const *names = b->hf ? f->hf_vector : f->gguf_vector;
    char name[NAME_BYTES];
    for (int k = 0; k < SL_V_COUNT; k++) {
        if (!names[k]) continue;
        const sl_tensor *t = use(b, sl_store_find(b->store, layer_name(b, names[k], layer, name)));
        if (!t && (f->required >> k & 1)) return missing(b, name, err);
        if (!t) continue;
        sl_status rc = check_shape(b, t, 1, vector_length(&b->m->c, (sl_vector_role)k), 0, err);
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
    return false;
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

static sl_status check_types(builder *b, sl_err *err)
{
    for (size_t i = 0; i < b->n_used; i++)
        if (!b->used[i]->type->dequantise) return sl_store_check_types(b->store, err);
    return SL_OK;
}

sl_status sl_tensor_map_build(sl_tensor_map *map, sl_model *m, const sl_store *store, const sl_log *log, sl_err *err)
{
    builder b = {.map = map, .m = m, .store = store, .hf = sl_store_get_format(store) == SL_STORE_SAFETENSORS};
    sl_status rc = SL_OK;
    uint32_t n = m->c.n_layer;
    map->w = sl_calloc((size_t)n * SL_W_COUNT, sizeof *map->w);
    map->v = sl_calloc((size_t)n * SL_V_COUNT, sizeof *map->v);
    b.used = sl_calloc((size_t)n * (SL_W_COUNT + SL_V_COUNT) + 8, sizeof *b.used);
    if (!map->w || !map->v || !b.used) rc = sl_fail(err, SL_ERR_NOMEM, "no memory for the list of tensors");
    if (rc == SL_OK && b.hf) rc = find_prefix(&b, err);
    if (rc == SL_OK) rc = find_ends(&b, log, err);
    map->largest_vector_bytes = rc == SL_OK ? map->final_norm->size_bytes : 0;
    for (uint32_t i = 0; rc == SL_OK && i < n; i++) {
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
}
