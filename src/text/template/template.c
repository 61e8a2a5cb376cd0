/* Compiling and rendering: where failures land and memory is given back. */
#include "text/template/template_int.h"

#include <stdio.h>

enum { MAX_TEMPLATE_MEMORY = 64 << 20, MIN_RUN_MEMORY = 256 << 20 };

/* ---- compiling ---- */

/* "\r\n" and "\r" become "\n"; one at the very end goes. */
static void copy_text(sl_tpl *t, const char *text, size_t n)
{
    char *p = sl_tpl_take(&t->heap, n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n') continue;
        p[k++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (k && p[k - 1] == '\n') p[--k] = 0;
    t->text = p;
    t->n_bytes = k;
}

static void compile(sl_tpl *t, const char *text, size_t n_bytes)
{
    sl_tpl_tokens tokens;
    size_t bad = sl_utf8_valid_prefix(text, n_bytes);
    if (n_bytes > SL_TPL_MAX_BYTES)
        sl_tpl_fail(&t->heap, SL_ERR_LIMIT, "the template has %zu bytes, the limit is %d", n_bytes, SL_TPL_MAX_BYTES);
    if (bad < n_bytes) sl_tpl_fail(&t->heap, SL_ERR_FORMAT, "the template is not valid UTF-8 at byte %zu", bad);
    copy_text(t, text, n_bytes);
    sl_tpl_lex(&t->heap, t->text, t->n_bytes, &tokens);
    sl_tpl_parse(&t->heap, &tokens, t);
    sl_tpl_resolve_names(t);
}

sl_status sl_tpl_compile(sl_tpl **out, const char *name, const char *text, size_t n_bytes, sl_err *err)
{
    sl_tpl *t = sl_calloc(1, sizeof *t);
    if (!t) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a template", name);
    t->heap = (sl_tpl_heap){.max_bytes = MAX_TEMPLATE_MEMORY, .line = 1, .err = err};
    t->heap.name = t->name = sl_strdup(name);
    if (!t->name) {
        sl_tpl_close(t);
        return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a template", name);
    }
    if (setjmp(t->heap.back)) {
        sl_status rc = t->heap.rc;
        sl_tpl_close(t);
        return rc;
    }
    compile(t, text, n_bytes);
    *out = t;
    return SL_OK;
}

void sl_tpl_close(sl_tpl *t)
{
    if (!t) return;
    sl_tpl_heap_free(&t->heap);
    sl_free(t->name);
    sl_free(t);
}

/* ---- what a template reads ---- */

static bool mentioned(const sl_tpl_node *n, const char *word);

static bool any_mentioned(sl_tpl_node *const *list, uint32_t n, const char *word)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] && mentioned(list[i], word)) return true;
    return false;
}

static bool mentioned(const sl_tpl_node *n, const char *word)
{
    sl_tpl_node *own[] = {n->a, n->b, n->c, n->d};
    if ((n->op == SL_TPL_NAME || n->op == SL_TPL_GETATTR) && sl_tpl_str_is(n->name, word)) return true;
    if (n->op == SL_TPL_CONST && n->value.kind == SL_TPL_STR && sl_tpl_str_is(n->value.s, word)) return true;
    return any_mentioned(own, 4, word) || any_mentioned(n->list, n->n, word) ||
           any_mentioned(n->named, n->n_named, word) || any_mentioned(n->body, n->n_body, word) ||
           any_mentioned(n->other, n->n_other, word);
}

bool sl_tpl_mentions(const sl_tpl *t, const char *word)
{
    return any_mentioned(t->body, t->n_body, word);
}

/* ---- rendering ---- */

void sl_tpl_output_free(sl_tpl_output *o)
{
    sl_free(o->text);
    sl_free(o->plain);
    *o = (sl_tpl_output){0};
}

/* Calls for every stretch of the user's; returns their number.  spans: NULL to count. */
static size_t find_spans(const sl_tpl_text *t, sl_text_span *spans)
{
    size_t n = 0;
    if (!t->mask) {
        if (spans && t->user && t->n) spans[0] = (sl_text_span){0, t->n};
        return t->user && t->n;
    }
    for (size_t i = 0, end; i < t->n; i = end) {
        const uint8_t *change = memchr(t->mask + i, !t->mask[i], t->n - i);
        end = change ? (size_t)(change - t->mask) : t->n;
        if (!t->mask[i]) continue;
        if (spans) spans[n] = (sl_text_span){i, end};
        n++;
    }
    return n;
}

/* Out of the heap that is about to go. */
static sl_status keep(const sl_tpl_text *t, sl_tpl_output *out, const char *name, sl_err *err)
{
    size_t n = find_spans(t, NULL);
    out->text = sl_strndup(t->p ? t->p : "", t->n);
    out->plain = sl_malloc((n ? n : 1) * sizeof *out->plain);
    if (!out->text || !out->plain) {
        sl_tpl_output_free(out);
        return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for the rendered text", name);
    }
    out->n_bytes = t->n;
    out->n_plain = find_spans(t, out->plain);
    return SL_OK;
}

static void render(sl_tpl_run *r, sl_tpl_setup setup, void *user)
{
    r->vars = sl_tpl_dict_new(r);
    r->out = sl_tpl_take(&r->heap, sizeof *r->out);
    setup(r, r->vars, user);
    sl_tpl_env *env = sl_tpl_env_new(r, r->t->scope, NULL);
    sl_tpl_env_begin(r, env, r->t->scope);
    sl_tpl_exec(r, r->t->body, r->t->n_body, env);
}

sl_status sl_tpl_render(const sl_tpl *t, sl_tpl_setup setup, void *user, const sl_tpl_terms *terms, sl_tpl_output *out,
                        sl_err *err)
{
    size_t input_bytes = terms->input_bytes < SL_TPL_MAX_OUTPUT ? terms->input_bytes : SL_TPL_MAX_OUTPUT;
    *out = (sl_tpl_output){0};
    sl_tpl_run *r = sl_calloc(1, sizeof *r);
    if (!r) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory to render", t->name);
    r->t = t;
    r->now_s = terms->now_s;
    r->max_ms = terms->max_ms ? terms->max_ms : SL_TPL_MAX_MS;
    r->heap = (sl_tpl_heap){.max_bytes = MIN_RUN_MEMORY + 16 * input_bytes, .name = t->name, .line = 1, .err = err};
    sl_status rc;
    if (setjmp(r->heap.back))
        rc = r->heap.rc;
    else {
        render(r, setup, user);
        rc = keep(r->out, out, t->name, err);
    }
    sl_tpl_heap_free(&r->heap);
    sl_free(r);
    return rc;
}
