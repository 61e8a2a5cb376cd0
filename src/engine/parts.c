/* What an engine is planned from: headers, settings, tokenizer.  No weight is read here. */
#include "engine/engine_int.h"
#include "model/tensors.h"

#include "os/os.h"

#include <malloc.h>
#include <string.h>

static sl_status copy_names(sl_parts *p, sl_err *err)
{
    const char *name = NULL, *arch = NULL;
    size_t n_name = 0, n_arch = 0;
    sl_store_meta_string(p->store, "general.name", &name, &n_name, NULL);
    if (!name) name = sl_json_string(sl_json_get(sl_store_config(p->store), "_name_or_path"), &n_name);
    sl_model_family_of(p->store, &arch, &n_arch);
    p->name = sl_strndup(name ? name : "", name ? n_name : 0);
    p->arch = sl_strndup(arch ? arch : "", arch ? n_arch : 0);
    if (!p->name || !p->arch) return sl_fail(err, SL_ERR_NOMEM, "no memory for the model's name");
    return SL_OK;
}

void sl_model_info_from_store(sl_model_info *info, const sl_store *store)
{
    for (size_t i = 0; i < sl_store_tensor_count(store); i++) {
        const sl_tensor *t = sl_store_tensor(store, i);
        uint64_t n = 1;
        for (uint32_t d = 0; d < t->n_dims; d++) n *= t->dims[d];
        info->n_param += n;
        info->weight_bytes += t->size_bytes;
    }
    info->n_file = (uint32_t)sl_store_file_count(store);
    info->format = sl_store_get_format(store) == SL_STORE_GGUF ? "gguf" : "safetensors";
}

/* Counted by tensors, codes are half of their parameters, and scales are none. */
static void count_codes(sl_model_info *info, const sl_model *m)
{
    for (uint32_t i = 0; m->experts && i < m->c.n_layer; i++) {
        const sl_expert_layer *l = &m->experts[i];
        for (uint32_t k = 0; l->form == SL_EXPERT_MXFP4_APART && k < l->n_piece; k++)
            info->n_param += k % 2 ? 0 - l->piece[k].stack->size_bytes : l->piece[k].stack->size_bytes;
    }
}

void sl_model_info_from_config(sl_model_info *info, const sl_model *m)
{
    count_codes(info, m);
    const sl_model_config *c = &m->c;
    info->family = m->family->name;
    info->n_layer = c->n_layer;
    info->n_vocab = c->n_vocab;
    info->n_embd = c->n_embd;
    info->n_head = c->n_head;
    info->n_head_kv = c->n_head_kv;
    info->head_dim = c->head_dim;
    info->n_ff = c->n_ff;
    info->ctx_train_tok = c->ctx_train_tok;
    info->tied_head = c->tied;
    info->n_expert = c->moe.routing.n_expert;
    info->n_expert_used = c->moe.routing.n_used;
    info->expert_bytes = m->expert_bytes;
    info->active_bytes = info->weight_bytes;
    if (info->n_expert) info->active_bytes -= m->expert_bytes / info->n_expert * (info->n_expert - info->n_expert_used);
}

/* A directory without tokenizer files still runs on token ids (logits, perplexity of ids, tests); anything else that is
 * wrong with a tokenizer is an error. */
static sl_status open_tokenizer(sl_parts *p, const sl_log *log, sl_err *err)
{
    sl_err why = {0};
    sl_status rc = sl_tokenizer_build(&p->tok, p->store, p->model->c.n_vocab, log, &why);
    if (rc == SL_OK || rc == SL_ERR_UNSUPPORTED) {
        if (rc != SL_OK) sl_warn(log, "%s", why.msg);
        return SL_OK;
    }
    return sl_fail(err, rc, "%s", why.msg);
}

void sl_parts_measure_base(sl_parts *p)
{
    malloc_trim(0);
    uint64_t rss = sl_mem_rss_bytes(), tok = p->tok ? sl_tokenizer_bytes(p->tok) : 0;
    p->base_bytes = rss > tok ? rss - tok : rss;
}

sl_status sl_parts_open(sl_parts *p, const char *model, const sl_engine_options *opt, sl_err *err)
{
    sl_log log = {opt->log, opt->log_user};
    sl_status rc = sl_store_open(&p->store, model, &log, err);
    if (rc == SL_OK) rc = sl_model_open(&p->model, p->store, &log, err);
    if (rc == SL_OK) rc = sl_layer_list_parse(opt->layers, opt->max_layers, p->model->c.n_layer, &p->exec, &p->n_exec, err);
    if (rc == SL_OK) rc = copy_names(p, err);
    if (rc == SL_OK) rc = open_tokenizer(p, &log, err);
    if (rc != SL_OK) {
        sl_parts_close(p);
        return rc;
    }
    if (p->model->experts) sl_model_leave_experts_out(p->model); /* they have slots of their own */
    sl_store_drop_metadata(p->store);
    sl_model_info_from_store(&p->info, p->store);
    sl_model_info_from_config(&p->info, p->model);
    p->info.name = p->name;
    p->info.architecture = p->arch;
    sl_parts_measure_base(p);
    return SL_OK;
}

void sl_parts_close(sl_parts *p)
{
    sl_tokenizer_close(p->tok);
    sl_model_close(p->model);
    sl_store_close(p->store);
    sl_free(p->exec);
    sl_free(p->name);
    sl_free(p->arch);
    memset(p, 0, sizeof *p);
}
