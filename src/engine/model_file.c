/* The public view of what is on disk, for inspect: everything from headers, nothing loaded.  A model that no family of
 * this build runs can still be looked at. */
#include "engine/engine_int.h"
#include "model/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct sl_model_file {
    sl_store *store;
    sl_model *model; /* NULL: this build does not run it */
    sl_model_info info;
    char *name, *arch;
};

/* Shapes when no family reads them: the usual keys, as far as they are there. */
static void guess_shapes(sl_model_info *info, const sl_store *store, const char *arch)
{
    static const struct {
        const char *gguf, *hf;
        size_t at;
    } keys[] = {
        {"block_count", "num_hidden_layers", offsetof(sl_model_info, n_layer)},
        {"embedding_length", "hidden_size", offsetof(sl_model_info, n_embd)},
        {"attention.head_count", "num_attention_heads", offsetof(sl_model_info, n_head)},
        {"attention.head_count_kv", "num_key_value_heads", offsetof(sl_model_info, n_head_kv)},
        {"attention.key_length", "head_dim", offsetof(sl_model_info, head_dim)},
        {"feed_forward_length", "intermediate_size", offsetof(sl_model_info, n_ff)},
        {"context_length", "max_position_embeddings", offsetof(sl_model_info, ctx_train_tok)},
        {"expert_count", "num_experts", offsetof(sl_model_info, n_expert)},
        {"expert_used_count", "num_experts_per_tok", offsetof(sl_model_info, n_expert_used)},
        {"vocab_size", "vocab_size", offsetof(sl_model_info, n_vocab)},
    };
    const sl_json *json = sl_json_get(sl_store_config(store), "text_config");
    if (!json) json = sl_store_config(store);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char key[160];
        int64_t v = 0;
        snprintf(key, sizeof key, "%s.%s", arch, keys[i].gguf);
        bool have = json ? sl_json_int(sl_json_get(json, keys[i].hf), &v) : sl_store_meta_int(store, key, &v, NULL);
        uint32_t u = have && v >= 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
        if (u) memcpy((char *)info + keys[i].at, &u, sizeof u);
    }
}

static sl_status describe(sl_model_file *m, sl_err *err)
{
    const char *name = NULL, *arch = NULL;
    size_t n_name = 0, n_arch = 0;
    sl_store_meta_string(m->store, "general.name", &name, &n_name, NULL);
    const sl_family *family = sl_model_family_of(m->store, &arch, &n_arch);
    m->name = sl_strndup(name ? name : "", n_name);
    m->arch = sl_strndup(arch ? arch : "", n_arch);
    if (!m->name || !m->arch) return sl_fail(err, SL_ERR_NOMEM, "no memory for the model's name");
    guess_shapes(&m->info, m->store, m->arch);
    sl_model_info_from_store(&m->info, m->store);
    m->info.family = family ? family->name : NULL;
    m->info.name = m->name;
    m->info.architecture = m->arch;
    if (family && sl_model_open(&m->model, m->store, NULL, NULL) == SL_OK) sl_model_info_from_config(&m->info, m->model);
    return SL_OK;
}

sl_status sl_model_file_open(sl_model_file **out, const char *model, sl_err *err)
{
    sl_model_file *m = sl_calloc(1, sizeof *m);
    if (!m) return sl_fail(err, SL_ERR_NOMEM, "no memory for a model file");
    sl_status rc = sl_store_open(&m->store, model, NULL, err);
    if (rc == SL_OK) rc = describe(m, err);
    if (rc != SL_OK) {
        sl_model_file_close(m);
        return rc;
    }
    *out = m;
    return SL_OK;
}

void sl_model_file_close(sl_model_file *m)
{
    if (!m) return;
    sl_model_close(m->model);
    sl_store_close(m->store);
    sl_free(m->name);
    sl_free(m->arch);
    sl_free(m);
}

size_t sl_model_file_tensor_count(const sl_model_file *m)
{
    return sl_store_tensor_count(m->store);
}

void sl_model_file_tensor(const sl_model_file *m, size_t i, sl_tensor_info *out)
{
    const sl_tensor *t = sl_store_tensor(m->store, i);
    *out = (sl_tensor_info){
        .name = t->name,
        .type = t->type->name,
        .n_dims = t->n_dims,
        .file = sl_store_file_path(m->store, t->file),
        .offset_bytes = t->offset_bytes,
        .size_bytes = t->size_bytes,
        .layer = sl_tensor_layer(t->name),
        .supported = t->type->dequantise || (m->model && sl_tensor_is_code(m->model, t)),
    };
    memcpy(out->dims, t->dims, sizeof out->dims);
}

void sl_model_file_info(const sl_model_file *m, sl_model_info *out)
{
    *out = m->info;
}

size_t sl_model_file_meta_count(const sl_model_file *m)
{
    return sl_store_meta_count(m->store);
}

#define SHOWN_ELEMS 6

static void put_scalar(sl_buf *b, const sl_store *store, const sl_meta *m)
{
    int64_t i;
    double d;
    bool t;
    const char *p;
    size_t n;
    if (m->type == SL_GV_STRING && sl_store_meta_string(store, m->key, &p, &n, NULL))
        sl_buf_printf(b, "\"%.*s%s\"", (int)(n > 200 ? 200 : n), p, n > 200 ? "..." : "");
    else if (m->type == SL_GV_BOOL && sl_store_meta_bool(store, m->key, &t, NULL))
        sl_buf_printf(b, "%s", t ? "true" : "false");
    else if (m->type != SL_GV_F32 && m->type != SL_GV_F64 && sl_store_meta_int(store, m->key, &i, NULL))
        sl_buf_printf(b, "%" PRId64, i);
    else if (sl_store_meta_float(store, m->key, &d, NULL))
        sl_buf_printf(b, "%g", d);
    else
        sl_buf_printf(b, "?");
}

static void put_array(sl_buf *b, const sl_meta *m)
{
    uint64_t pos = 0;
    sl_buf_printf(b, "[%" PRIu64 "] ", m->count);
    for (uint64_t i = 0; i < m->count && i < SHOWN_ELEMS; i++) {
        int64_t v;
        double d;
        const char *p;
        size_t n;
        if (m->elem_type == SL_GV_STRING && sl_meta_string_next(m, &pos, &p, &n))
            sl_buf_printf(b, "\"%.*s\" ", (int)(n > 40 ? 40 : n), p);
        else if (sl_meta_int_at(m, i, &v))
            sl_buf_printf(b, "%" PRId64 " ", v);
        else if (sl_meta_float_at(m, i, &d))
            sl_buf_printf(b, "%g ", d);
    }
    if (m->count > SHOWN_ELEMS) sl_buf_printf(b, "...");
}

const char *sl_model_file_meta(const sl_model_file *m, size_t i, char *buf, size_t buf_bytes)
{
    const sl_meta *v = sl_store_meta_at(m->store, i);
    sl_buf b;
    sl_buf_init(&b, 4096);
    sl_buf_printf(&b, "%s = ", v->key);
    if (v->type == SL_GV_ARRAY)
        put_array(&b, v);
    else
        put_scalar(&b, m->store, v);
    snprintf(buf, buf_bytes, "%s", b.data ? b.data : "");
    sl_buf_free(&b);
    return buf;
}
