/* Tool calls as grammars: the tools of a request, each with its parameters' schema, between the texts that a model's dialect
 * puts around them. */
#include "text/schema_int.h"

#include <string.h>

typedef struct {
    const sl_tool_grammar_options *o;
    sl_gram_builder *b;
    sl_schema s;
    uint32_t call; /* rule: one call as JSON */
    uint32_t n_call;
} tools;

static uint32_t text(tools *t, uint32_t from, const char *s)
{
    return s ? sl_gb_literal(t->b, from, s, strlen(s)) : from;
}

/* {"name": "...", "arguments": ...} */
static void draw_tool(tools *t, const char *name, const sl_json *parameters)
{
    sl_gram_builder *b = t->b;
    sl_json_rules *j = &t->s.j;
    const char *name_key = t->o->name_key ? t->o->name_key : "name";
    const char *args_key = t->o->arguments_key ? t->o->arguments_key : "arguments";
    uint32_t at = sl_json_space(j, sl_gb_literal(b, b->rules[t->call].start, "{", 1));
    at = sl_json_colon(j, sl_json_literal(b, at, name_key, strlen(name_key)));
    at = sl_gb_literal(b, sl_json_literal(b, at, name, strlen(name)), ",", 1);
    at = sl_json_colon(j, sl_json_literal(b, sl_json_space(j, at), args_key, strlen(args_key)));
    if (parameters) {
        uint32_t to = sl_gb_state(b), rule = sl_schema_root_rule(&t->s, parameters);
        sl_gb_call(b, at, rule, to);
        at = to;
    } else { /* a function without parameters */
        at = sl_gb_literal(b, sl_json_space(j, sl_gb_literal(b, at, "{", 1)), "}", 1);
    }
    at = sl_gb_literal(b, sl_json_space(j, at), "}", 1);
    sl_gb_empty(b, at, b->rules[t->call].end);
}

/* One entry of the list: {"type": "function", "function": {...}}, or the inner object alone. */
static void add_tool(tools *t, const sl_json *entry, size_t i)
{
    const sl_json *f = sl_json_get(entry, "function");
    if (!f) f = entry;
    const char *name = sl_json_string(sl_json_get(f, "name"), NULL);
    if (!name) {
        sl_gb_fail(t->b, SL_ERR_FORMAT, "tool %zu has no name", i);
        return;
    }
    if (t->o->choice && strcmp(t->o->choice, name) != 0) return;
    const sl_json *p = sl_json_get(f, "parameters");
    if (!p) p = sl_json_get(f, "input_schema");
    if (p && !sl_json_is_object(p)) sl_gb_fail(t->b, SL_ERR_FORMAT, "tool %zu: parameters must be a schema", i);
    t->n_call++;
    if (t->b->rc == SL_OK) draw_tool(t, name, p);
}

static void add_tools(tools *t)
{
    sl_json *list = NULL;
    sl_err err = {0};
    sl_status rc = sl_json_parse(&list, "the list", t->o->tools, t->o->tools_bytes, &err);
    if (rc != SL_OK) {
        sl_gb_fail(t->b, rc, "%s", err.msg);
        return;
    }
    if (!sl_json_is_array(list)) sl_gb_fail(t->b, SL_ERR_FORMAT, "the tools must be a list");
    for (size_t i = 0; t->b->rc == SL_OK && i < sl_json_count(list); i++)
        add_tool(t, sl_json_at(list, i), i);
    if (!t->n_call && t->o->choice)
        sl_gb_fail(t->b, SL_ERR_ARG, "there is no tool \"%s\" to choose", t->o->choice);
    else if (!t->n_call)
        sl_gb_fail(t->b, SL_ERR_ARG, "there are no tools to choose from");
    sl_json_free(list);
}

/* PREFIX call SUFFIX (SEPARATOR PREFIX call SUFFIX)* END; from is behind BEGIN, and behind PREFIX too when that is written. */
static void draw_calls(tools *t, uint32_t from, bool prefix_written, uint32_t to)
{
    const sl_tool_grammar_options *o = t->o;
    uint32_t body = sl_gb_state(t->b), first = prefix_written ? from : text(t, from, o->prefix), behind = sl_gb_state(t->b);
    sl_gb_empty(t->b, first, body);
    sl_gb_call(t->b, body, t->call, behind);
    uint32_t done = text(t, behind, o->suffix);
    if (o->parallel) sl_gb_empty(t->b, text(t, text(t, done, o->separator), o->prefix), body);
    sl_gb_empty(t->b, text(t, done, o->end), to);
}

static void draw(tools *t)
{
    const sl_tool_grammar_options *o = t->o;
    sl_gram_builder *b = t->b;
    char trigger[256] = "";
    uint32_t root = sl_gb_rule(b);
    b->root = root;
    t->call = sl_gb_rule(b);
    add_tools(t);
    if (b->rc != SL_OK) return;
    uint32_t at = b->rules[root].start, end = b->rules[root].end;
    if (o->after) {
        uint32_t behind = sl_gb_state(b);
        sl_gb_trigger(b, o->after, true, at, behind, end);
        at = behind;
    }
    if (o->required) {
        draw_calls(t, text(t, at, o->begin), false, end);
        return;
    }
    size_t n_begin = o->begin ? strlen(o->begin) : 0, n_prefix = o->prefix ? strlen(o->prefix) : 0;
    if (n_begin + n_prefix == 0 || n_begin + n_prefix >= sizeof trigger) {
        sl_gb_fail(b, SL_ERR_ARG, "free text before a call needs a beginning of 1 to 255 bytes to end it");
        return;
    }
    if (n_begin) memcpy(trigger, o->begin, n_begin);
    if (n_prefix) memcpy(trigger + n_begin, o->prefix, n_prefix + 1);
    uint32_t behind = sl_gb_state(b);
    sl_gb_trigger(b, trigger, false, at, behind, end);
    draw_calls(t, behind, true, end);
}

sl_status sl_gram_open_tools(sl_gram **out, const sl_tool_grammar_options *o, uint64_t max_bytes, sl_err *err)
{
    sl_gram_builder b;
    if (!o->tools) return sl_fail(err, SL_ERR_ARG, "tools: no list was given");
    if (o->tools_bytes > SL_GRAM_MAX_TEXT_BYTES)
        return sl_fail(err, SL_ERR_LIMIT, "tools: %zu bytes, the limit is %d", o->tools_bytes, SL_GRAM_MAX_TEXT_BYTES);
    sl_gb_init(&b, "tools", max_bytes, err);
    tools t = {.o = o, .b = &b};
    sl_schema_init(&t.s, &b);
    draw(&t);
    sl_status rc = sl_gram_finish(out, &b);
    sl_schema_free(&t.s);
    sl_gb_free(&b);
    return rc;
}
