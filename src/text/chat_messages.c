/* From a request to a template's variables.  Templates differ in what they expect of messages: content as text or as
 * parts, arguments as an object or as text, a system turn or none.  Requests come in the form of the OpenAI API; here
 * they get the form that this template takes, as its habits say.  With as_is nothing is changed. */
#include "text/chat_int.h"
#include "text/template/template_int.h"

#include <ctype.h>

/* Marks the end of the message that is to be continued; transformers does the same, with this text.  Templates that
 * strip the content take away the blank, which tells that the content's own blanks went too. */
static const char continue_mark[] = "CONTINUE_FINAL_MESSAGE_TAG ";

typedef struct {
    sl_tpl_run *r;
    sl_chat_job *job;
    const sl_chat_habits *habits;
    sl_tpl_dict *vars;
    size_t i_message; /* for messages to people */
} setup;

_Noreturn static void wrong(setup *s, const char *what)
{
    sl_tpl_refuse(&s->r->heap, SL_ERR_ARG, "messages[%zu]: %s", s->i_message, what);
}

static sl_tpl_value *get(setup *s, const sl_tpl_dict *d, const char *key)
{
    return sl_tpl_dict_find(s->r, d, key);
}

static void put(setup *s, sl_tpl_dict *d, const char *key, sl_tpl_value v)
{
    sl_tpl_dict_put(s->r, d, key, v);
}

static void drop(setup *s, sl_tpl_dict *d, const char *key)
{
    sl_tpl_dict_remove(s->r, d, sl_tpl_text_value(s->r, key));
}

static bool is_text(const sl_tpl_value *v, const char *text)
{
    return v && v->kind == SL_TPL_STR && sl_tpl_str_is(v->s, text);
}

static sl_tpl_value own(setup *s, const char *text)
{
    return sl_tpl_text_value(s->r, text);
}

/* ---- roles ---- */

static bool is_plain_word(const sl_tpl_str *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!isalnum((unsigned char)s->p[i]) && s->p[i] != '_' && s->p[i] != '-') return false;
    return s->n && s->n <= 32;
}

/* Templates build control tokens of roles ("<|" + role + "|>"), so a role counts as the template's own text.  It is a
 * word of letters then: it can name a turn, which is what it is for, and nothing else. */
static void trust_role(setup *s, sl_tpl_dict *m)
{
    const sl_tpl_value *role = get(s, m, "role");
    if (!role || role->kind != SL_TPL_STR || !is_plain_word(role->s)) return;
    put(s, m, "role", sl_tpl_of_str(sl_tpl_str_new(&s->r->heap, role->s->p, role->s->n, false)));
}

/* ---- content ---- */

/* The text of a part; this engine's models read nothing else. */
static const sl_tpl_str *part_text(setup *s, sl_tpl_value part, size_t i)
{
    const sl_tpl_value *type = part.kind == SL_TPL_DICT ? get(s, part.d, "type") : NULL;
    const sl_tpl_value *text = part.kind == SL_TPL_DICT ? get(s, part.d, "text") : NULL;
    if (part.kind == SL_TPL_STR) return part.s;
    if (text && text->kind == SL_TPL_STR && (!type || is_text(type, "text"))) return text->s;
    if (type && type->kind == SL_TPL_STR)
        sl_tpl_refuse(&s->r->heap, SL_ERR_ARG,
                      "messages[%zu].content[%zu]: parts of type '%.*s' can't be given to this model", s->i_message, i,
                      (int)(type->s->n < 40 ? type->s->n : 40), type->s->p);
    sl_tpl_refuse(&s->r->heap, SL_ERR_ARG, "messages[%zu].content[%zu]: must be a part with a type and a text",
                  s->i_message, i);
}

static sl_tpl_value join_parts(setup *s, const sl_tpl_list *l)
{
    sl_tpl_text t = {0};
    for (size_t i = 0; i < l->n; i++)
        sl_tpl_add_str(s->r, &t, part_text(s, l->at[i], i));
    return sl_tpl_text_done(s->r, &t);
}

static sl_tpl_value as_parts(setup *s, sl_tpl_value text)
{
    sl_tpl_dict *part = sl_tpl_dict_new(s->r);
    sl_tpl_list *l = sl_tpl_list_new(s->r, 1);
    put(s, part, "type", own(s, "text"));
    put(s, part, "text", text);
    sl_tpl_list_add(s->r, l, (sl_tpl_value){.kind = SL_TPL_DICT, .d = part});
    return sl_tpl_list_value(l);
}

static void fix_content(setup *s, sl_tpl_dict *m)
{
    const sl_tpl_value *v = get(s, m, "content");
    bool has = v && v->kind != SL_TPL_NONE;
    if (!has) {
        sl_no_content how = get(s, m, "tool_calls") ? s->habits->no_content : SL_NO_CONTENT_EMPTY;
        if (how == SL_NO_CONTENT_ABSENT)
            drop(s, m, "content");
        else
            put(s, m, "content", how == SL_NO_CONTENT_NULL ? sl_tpl_none() : own(s, ""));
        return;
    }
    sl_tpl_value content = *v;
    if (content.kind == SL_TPL_LIST) {
        sl_tpl_value joined = join_parts(s, content.l); /* checks them too */
        if (!s->habits->takes_parts) put(s, m, "content", joined);
    } else if (content.kind == SL_TPL_STR) {
        if (!s->habits->takes_string && s->habits->takes_parts) put(s, m, "content", as_parts(s, content));
    } else
        wrong(s, "the content must be a text, a list of parts or null");
}

/* ---- tool calls and reasoning ---- */

static void fix_arguments(setup *s, sl_tpl_dict *function)
{
    const sl_tpl_value *v = get(s, function, "arguments");
    if (!v) return;
    if (v->kind == SL_TPL_STR && !s->habits->args_are_text) {
        static const char what[] = "the arguments of a tool call";
        put(s, function, "arguments", sl_tpl_from_json(s->r, what, v->s->p, v->s->n, true, SL_ERR_ARG));
    } else if (v->kind == SL_TPL_DICT && s->habits->args_are_text) {
        sl_tpl_json_style style = {.item = own(s, ", ").s, .key = own(s, ": ").s};
        put(s, function, "arguments", sl_tpl_to_json(s->r, *v, &style));
    }
}

static void fix_calls(setup *s, sl_tpl_dict *m)
{
    const sl_tpl_value *calls = get(s, m, "tool_calls");
    if (!calls) return;
    if (calls->kind != SL_TPL_LIST) wrong(s, "tool_calls must be a list");
    for (size_t i = 0; i < calls->l->n; i++) {
        const sl_tpl_value call = calls->l->at[i];
        const sl_tpl_value *f = call.kind == SL_TPL_DICT ? get(s, call.d, "function") : NULL;
        if (f && f->kind == SL_TPL_DICT)
            fix_arguments(s, f->d);
        else if (call.kind == SL_TPL_DICT)
            fix_arguments(s, call.d);
        else
            wrong(s, "a tool call must be an object");
    }
}

/* Reasoning goes by three names; templates read the first, gpt-oss the second. */
static void fix_reasoning(setup *s, sl_tpl_dict *m)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < 3; i++) {
        const sl_tpl_value *v = get(s, m, names[i]);
        if (!v) continue;
        sl_tpl_value reasoning = *v;
        put(s, m, "reasoning_content", reasoning);
        if (!get(s, m, "thinking")) put(s, m, "thinking", reasoning);
        return;
    }
}

/* A key that is null counts as absent, as in the APIs; content says for itself. */
static void drop_nulls(setup *s, sl_tpl_dict *m)
{
    for (size_t i = m->n; i-- > 0;)
        if (m->at[i].value.kind == SL_TPL_NONE && !sl_tpl_str_is(m->at[i].key.s, "content"))
            sl_tpl_dict_remove(s->r, m, m->at[i].key);
}

static void fix_message(setup *s, sl_tpl_dict *m)
{
    drop_nulls(s, m);
    const sl_tpl_value *role = get(s, m, "role");
    if (!role || role->kind != SL_TPL_STR) wrong(s, "a role is missing");
    if (is_text(role, "developer") && !sl_tpl_mentions(s->job->one->tpl, "developer"))
        put(s, m, "role", own(s, "system"));
    fix_content(s, m);
    fix_calls(s, m);
    fix_reasoning(s, m);
}

/* A template without a system turn: its text goes before that of the first user. */
static void merge_system(setup *s, sl_tpl_list *messages)
{
    if (s->habits->takes_system || messages->n < 2) return;
    sl_tpl_dict *first = messages->at[0].d, *second = messages->at[1].d;
    const sl_tpl_value *system = get(s, first, "content"), *user = get(s, second, "content");
    if (!is_text(get(s, first, "role"), "system") || !is_text(get(s, second, "role"), "user")) return;
    if (!system || system->kind != SL_TPL_STR || !user || user->kind != SL_TPL_STR) return;
    sl_tpl_text t = {0};
    sl_tpl_add_str(s->r, &t, system->s);
    sl_tpl_add(s->r, &t, "\n\n", 2, true);
    sl_tpl_add_str(s->r, &t, user->s);
    put(s, second, "content", sl_tpl_text_done(s->r, &t));
    messages->n--;
    memmove(messages->at, messages->at + 1, messages->n * sizeof *messages->at);
}

/* ---- the turn that is to be continued ---- */

static sl_tpl_value marked(setup *s, const sl_tpl_str *text)
{
    sl_tpl_text t = {0};
    sl_tpl_add_str(s->r, &t, text);
    sl_tpl_add(s->r, &t, continue_mark, sizeof continue_mark - 1, true);
    return sl_tpl_text_done(s->r, &t);
}

static void mark_last(setup *s, sl_tpl_list *messages)
{
    s->i_message = messages->n ? messages->n - 1 : 0;
    if (!messages->n) wrong(s, "there is no message to continue");
    sl_tpl_dict *m = messages->at[messages->n - 1].d;
    const sl_tpl_value *v = get(s, m, "content");
    if (v && v->kind == SL_TPL_STR) {
        put(s, m, "content", marked(s, v->s));
        return;
    }
    for (size_t i = v && v->kind == SL_TPL_LIST ? v->l->n : 0; i-- > 0;) {
        const sl_tpl_value *text = get(s, v->l->at[i].d, "text");
        if (!text || text->kind != SL_TPL_STR) continue;
        put(s, v->l->at[i].d, "text", marked(s, text->s));
        return;
    }
    wrong(s, "the message to be continued has no content");
}

/* ---- variables ---- */

static void add_variables(setup *s, const sl_tpl_dict *from)
{
    for (size_t i = 0; i < from->n; i++) {
        sl_tpl_value key = from->at[i].key, value = from->at[i].value;
        if (!s->job->as_is && sl_tpl_str_is(key.s, "chat_template_kwargs") && value.kind == SL_TPL_DICT)
            add_variables(s, value.d);
        else
            sl_tpl_dict_set(s->r, s->vars, key, value);
    }
}

static void check_messages(setup *s, const sl_tpl_value *v)
{
    if (!v || v->kind != SL_TPL_LIST)
        sl_tpl_refuse(&s->r->heap, SL_ERR_ARG, "the request has no list of messages");
    for (s->i_message = 0; s->i_message < v->l->n; s->i_message++)
        if (v->l->at[s->i_message].kind != SL_TPL_DICT) wrong(s, "must be an object");
}

static bool truth_of(setup *s, const char *name)
{
    const sl_tpl_value *v = get(s, s->vars, name);
    return v && sl_tpl_truth(s->r, *v);
}

static void fix_variables(setup *s, sl_tpl_list *messages)
{
    bool continues = truth_of(s, "continue_final_message");
    const sl_tpl_value *last = messages->n ? get(s, messages->at[messages->n - 1].d, "role") : NULL;
    if (!get(s, s->vars, "tools")) put(s, s->vars, "tools", sl_tpl_none());
    if (!get(s, s->vars, "documents")) put(s, s->vars, "documents", sl_tpl_none());
    if (!get(s, s->vars, "add_generation_prompt"))
        put(s, s->vars, "add_generation_prompt", sl_tpl_bool(!continues && !is_text(last, "assistant")));
    if (truth_of(s, "tools") && !s->habits->takes_tools)
        sl_tpl_refuse(&s->r->heap, SL_ERR_UNSUPPORTED, "this model's chat template has no place for tools");
    drop(s, s->vars, "continue_final_message");
    merge_system(s, messages);
    if (!continues) return;
    if (truth_of(s, "add_generation_prompt"))
        sl_tpl_refuse(&s->r->heap, SL_ERR_ARG, "add_generation_prompt and continue_final_message exclude each other");
    s->job->continues = true;
    mark_last(s, messages);
}

static void fill(sl_tpl_run *r, sl_tpl_dict *vars, void *user)
{
    sl_chat_job *job = user;
    setup s = {.r = r, .job = job, .habits = &job->one->habits, .vars = vars};
    sl_tpl_value doc = sl_tpl_from_json(r, "the request", job->json, job->n_bytes, true, SL_ERR_ARG);
    for (uint32_t i = 0; i < job->chat->n_token; i++)
        put(&s, vars, job->chat->token[i].name, own(&s, job->chat->token[i].text));
    if (doc.kind == SL_TPL_DICT)
        add_variables(&s, doc.d);
    else
        put(&s, vars, "messages", doc);
    const sl_tpl_value *v = get(&s, vars, "messages");
    check_messages(&s, v);
    sl_tpl_list *messages = v->l;
    for (s.i_message = 0; s.i_message < messages->n; s.i_message++) {
        if (!job->as_is) fix_message(&s, messages->at[s.i_message].d);
        trust_role(&s, messages->at[s.i_message].d);
    }
    if (!job->as_is) fix_variables(&s, messages);
}

/* ---- cutting at the mark ---- */

static size_t last_place(const sl_tpl_output *o, const char *text, size_t n)
{
    for (size_t i = o->n_bytes + 1; i-- > 0;)
        if (o->n_bytes - i >= n && memcmp(o->text + i, text, n) == 0) return i;
    return SIZE_MAX;
}

static void cut(sl_tpl_output *o, size_t n)
{
    o->n_bytes = n;
    o->text[n] = 0;
    while (o->n_plain && o->plain[o->n_plain - 1].from >= n)
        o->n_plain--;
    if (o->n_plain && o->plain[o->n_plain - 1].to > n) o->plain[o->n_plain - 1].to = n;
}

static sl_status cut_at_mark(sl_tpl_output *o, sl_err *err)
{
    size_t n = sizeof continue_mark - 2; /* without its blank */
    size_t at = last_place(o, continue_mark, n);
    if (at == SIZE_MAX)
        return sl_fail(err, SL_ERR_ARG, "the message to be continued does not appear in the prompt: this template "
                                        "changes or drops it");
    bool stripped = at + n >= o->n_bytes || o->text[at + n] != ' ';
    while (stripped && at > 0 && strchr(" \t\n\r\v\f", o->text[at - 1]))
        at--;
    cut(o, at);
    return SL_OK;
}

sl_status sl_chat_run(sl_chat_job *job, int64_t now_s, sl_tpl_output *out, sl_err *err)
{
    sl_tpl_terms terms = {.now_s = now_s, .input_bytes = job->n_bytes, .max_ms = job->max_ms};
    sl_status rc = sl_tpl_render(job->one->tpl, fill, job, &terms, out, err);
    if (rc != SL_OK || !job->continues) return rc;
    rc = cut_at_mark(out, err);
    if (rc != SL_OK) sl_tpl_output_free(out);
    return rc;
}
