/* A model's chat templates as an object: opening, choosing, rendering, and the ids of what was rendered. */
#include "text/chat_int.h"
#include "text/text_int.h"

#include "os/io.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct sl_chat_prompt {
    sl_tpl_output out;
};

enum { MAX_TEMPLATE_FILE = 4 << 20 };

/* ---- opening ---- */

void sl_chat_close(sl_chat *c)
{
    if (!c) return;
    for (uint32_t i = 0; i < c->n; i++) {
        sl_free(c->at[i].name);
        sl_free(c->at[i].source);
        sl_tpl_close(c->at[i].tpl);
    }
    for (uint32_t i = 0; i < c->n_token; i++)
        sl_free(c->token[i].text);
    sl_free(c->model);
    sl_free(c);
}

static const sl_chat_one *find_one(const sl_chat *c, const char *name, size_t n)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (strlen(c->at[i].name) == n && memcmp(c->at[i].name, name, n) == 0) return &c->at[i];
    return NULL;
}

sl_status sl_chat_add(sl_chat *c, const char *name, size_t n_name, const char *source, size_t n_source, sl_err *err)
{
    char label[300], shown[64];
    if (find_one(c, name, n_name)) return SL_OK;
    if (c->n == SL_CHAT_MAX_TEMPLATES)
        return sl_fail(err, SL_ERR_LIMIT, "%s: more than %d chat templates", c->model, SL_CHAT_MAX_TEMPLATES);
    sl_chat_one *one = &c->at[c->n++];
    *one = (sl_chat_one){.n_source = n_source};
    one->name = sl_strndup(name, n_name);
    one->source = sl_strndup(source, n_source);
    if (!one->name || !one->source) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a chat template", c->model);
    snprintf(label, sizeof label, "%.200s: chat template '%s'", c->model, sl_text_show(name, n_name, shown));
    return sl_tpl_compile(&one->tpl, label, source, n_source, err);
}

sl_status sl_chat_add_token(sl_chat *c, const char *name, const char *text, size_t n, sl_err *err)
{
    for (uint32_t i = 0; i < c->n_token; i++)
        if (strcmp(c->token[i].name, name) == 0) return SL_OK;
    if (c->n_token == SL_CHAT_MAX_TOKENS || sl_utf8_valid_prefix(text, n) < n) return SL_OK;
    c->token[c->n_token].name = name;
    c->token[c->n_token].text = sl_strndup(text, n);
    if (!c->token[c->n_token].text) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for %s", c->model, name);
    c->n_token++;
    return SL_OK;
}

static sl_status new_chat(sl_chat **out, const char *model, sl_err *err)
{
    sl_chat *c = sl_calloc(1, sizeof *c);
    if (c) c->model = sl_strdup(model);
    if (c && c->model) {
        *out = c;
        return SL_OK;
    }
    sl_chat_close(c);
    return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for chat templates", model);
}

/* The template that the caller chose: one of ours, or a file. */
static sl_status add_choice(sl_chat *c, const char *choice, sl_err *err)
{
    const char *own = sl_chat_default(choice);
    char names[160], *text = NULL;
    size_t n = 0;
    sl_err why = {0};
    if (own) return sl_chat_add(c, "default", 7, own, strlen(own), err);
    if (sl_file_read_all(choice, MAX_TEMPLATE_FILE, &text, &n, &why) != SL_OK) {
        sl_chat_default_names(names);
        if (why.code == SL_ERR_NOMEM) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for the template", choice);
        return sl_fail(err, SL_ERR_ARG,
                       "'%.100s' is neither a template of this engine (%s) nor a file that can be read: %.200s", choice,
                       names, why.msg);
    }
    sl_status rc = sl_chat_add(c, "default", 7, text, n, err);
    sl_free(text);
    return rc;
}

static sl_status probe_all(sl_chat *c, sl_err *err)
{
    sl_status rc = SL_OK;
    for (uint32_t i = 0; i < c->n && rc == SL_OK; i++)
        rc = sl_chat_probe(c, &c->at[i], err);
    return rc;
}

static sl_status fill_chat(sl_chat *c, const sl_store *store, const char *choice, sl_err *err)
{
    char names[160];
    sl_status rc = sl_chat_load(c, store, !choice, err);
    if (rc == SL_OK && choice) rc = add_choice(c, choice, err);
    if (rc != SL_OK) return rc;
    if (c->n) return probe_all(c, err);
    sl_chat_default_names(names);
    return sl_fail(err, SL_ERR_UNSUPPORTED,
                   "%s: the model has no chat template; one can be given (--template FILE, or one of %s)", c->model,
                   names);
}

sl_status sl_chat_open(sl_chat **out, const char *model, const char *choice, sl_log_fn log, void *log_user, sl_err *err)
{
    sl_log to = {log, log_user};
    sl_store *store;
    sl_chat *c = NULL;
    sl_status rc = sl_store_open(&store, model, &to, err);
    if (rc != SL_OK) return rc;
    rc = new_chat(&c, model, err);
    if (rc == SL_OK) rc = fill_chat(c, store, choice, err);
    sl_store_close(store);
    if (rc != SL_OK)
        sl_chat_close(c);
    else
        *out = c;
    return rc;
}

sl_status sl_chat_open_text(sl_chat **out, const char *name, const char *text, size_t n_bytes, sl_err *err)
{
    sl_chat *c = NULL;
    sl_status rc = new_chat(&c, name, err);
    if (rc == SL_OK) rc = sl_chat_add(c, "default", 7, text, n_bytes, err);
    if (rc == SL_OK) rc = probe_all(c, err);
    if (rc != SL_OK)
        sl_chat_close(c);
    else
        *out = c;
    return rc;
}

/* ---- choosing ---- */

/* Has the request a list of tools with something in it?  Read by events: a request may be long.  What is wrong with it
 * the rendering says. */
static sl_status has_tools(const char *json, size_t n, bool *out, sl_err *err)
{
    sl_json_reader r;
    bool found = false;
    sl_json_reader_init(&r, json, n);
    if (sl_json_read(&r) == SL_JSON_OBJECT)
        while (!found && sl_json_read(&r) == SL_JSON_KEY) {
            bool tools = r.str.len == 5 && memcmp(r.str.data, "tools", 5) == 0;
            if (!tools) {
                if (!sl_json_skip(&r)) break;
                continue;
            }
            if (sl_json_read(&r) != SL_JSON_ARRAY) break;
            sl_json_event e = sl_json_read(&r);
            found = e != SL_JSON_ARRAY_END && e != SL_JSON_ERROR;
            break;
        }
    bool failed = r.str.failed;
    sl_json_reader_free(&r);
    *out = found;
    return failed ? sl_fail(err, SL_ERR_NOMEM, "no memory to read the request") : SL_OK;
}

static const sl_chat_one *choose(const sl_chat *c, bool with_tools)
{
    const sl_chat_one *one = with_tools ? find_one(c, "tool_use", 8) : NULL;
    if (!one) one = find_one(c, "default", 7);
    return one ? one : &c->at[0];
}

const char *sl_chat_template(const sl_chat *c, bool with_tools, size_t *n_bytes)
{
    const sl_chat_one *one = choose(c, with_tools);
    *n_bytes = one->n_source;
    return one->source;
}

/* ---- rendering ---- */

void sl_chat_options_init(sl_chat_options *opt)
{
    *opt = (sl_chat_options){.struct_size = sizeof *opt};
}

sl_status sl_chat_render(sl_chat_prompt **out, const sl_chat *c, const char *json, size_t n_bytes,
                         const sl_chat_options *opt, sl_err *err)
{
    sl_chat_options defaults;
    sl_chat_options_init(&defaults);
    if (!opt) opt = &defaults;
    sl_chat_job job = {.chat = c, .json = json, .n_bytes = n_bytes, .as_is = opt->as_is};
    bool with_tools;
    sl_status rc = has_tools(json, n_bytes, &with_tools, err);
    if (rc != SL_OK) return rc;
    job.one = choose(c, with_tools);
    sl_chat_prompt *p = sl_calloc(1, sizeof *p);
    if (!p) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a prompt", c->model);
    rc = sl_chat_run(&job, opt->now_s ? opt->now_s : (int64_t)time(NULL), &p->out, err);
    if (rc != SL_OK)
        sl_free(p);
    else
        *out = p;
    return rc;
}

void sl_chat_prompt_close(sl_chat_prompt *p)
{
    if (!p) return;
    sl_tpl_output_free(&p->out);
    sl_free(p);
}

const char *sl_chat_prompt_text(const sl_chat_prompt *p, size_t *n_bytes)
{
    *n_bytes = p->out.n_bytes;
    return p->out.text;
}

size_t sl_chat_prompt_user_count(const sl_chat_prompt *p)
{
    return p->out.n_plain;
}

void sl_chat_prompt_user_span(const sl_chat_prompt *p, size_t i, size_t *from, size_t *to)
{
    *from = p->out.plain[i].from;
    *to = p->out.plain[i].to;
}

/* The model's BOS is put before a prompt that doesn't begin with it; nothing is put behind one. */
sl_status sl_chat_prompt_tokenize(const sl_chat_prompt *p, const sl_tokenizer *t, int32_t *ids, size_t cap,
                                  size_t *n_ids, sl_err *err)
{
    size_t n_before = t->n_before;
    int32_t first; /* says whether BOS is there, even for a caller who only counts */
    if (!cap) ids = &first;
    sl_err why = {0};
    sl_status rc = sl_tokenizer_encode(t, p->out.text, p->out.n_bytes, SL_ENCODE_SPECIAL, p->out.plain, p->out.n_plain,
                                       ids, cap ? cap : 1, n_ids, &why);
    if (rc != SL_OK && (rc != SL_ERR_LIMIT || *n_ids <= cap)) return sl_fail(err, rc, "%s", why.msg);
    if (n_before && *n_ids && ids[0] == t->before[n_before - 1]) n_before = 0;
    size_t n = *n_ids;
    *n_ids = n + n_before;
    if (*n_ids > cap)
        return sl_fail(err, SL_ERR_LIMIT, "the prompt has %zu tokens, there is room for %zu", *n_ids, cap);
    memmove(ids + n_before, ids, n * sizeof *ids);
    memcpy(ids, t->before, n_before * sizeof *ids);
    return SL_OK;
}
