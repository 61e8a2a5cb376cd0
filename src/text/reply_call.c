/* Calls: names, arguments, ids.  A call is added when its text is whole and reported when its dialect says that it
 * stands; until then it can be dropped. */
#include "text/reply_int.h"

#include <string.h>

bool sl_reply_name_ok(const char *name, size_t n)
{
    if (n == 0 || n > SL_REPLY_MAX_NAME) return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] <= ' ' || strchr("<>\"'{}[](),;=\x7f", name[i])) return false;
    return true;
}

/* ---- the request's tools ---- */

/* Functions stand in an object of their own (OpenAI), or bare (Anthropic). */
static const sl_json *function_of(const sl_json *tool)
{
    const sl_json *f = sl_json_get(tool, "function");
    return f ? f : tool;
}

sl_status sl_reply_tools_open(sl_reply *r, const char *tools, sl_err *err)
{
    sl_status rc = sl_json_parse(&r->tools, "tools", tools, strlen(tools), err);
    if (rc != SL_OK) return rc;
    if (!sl_json_is_array(r->tools)) return sl_fail(err, SL_ERR_FORMAT, "tools: an array is expected");
    for (size_t i = 0; i < sl_json_count(r->tools); i++)
        if (!sl_json_is_string(sl_json_get(function_of(sl_json_at(r->tools, i)), "name")))
            return sl_fail(err, SL_ERR_FORMAT, "tools[%zu]: a function has no name", i);
    return SL_OK;
}

const sl_json *sl_reply_tool(const sl_reply *r, const char *name, size_t n)
{
    for (size_t i = 0; i < sl_json_count(r->tools); i++) {
        const sl_json *f = function_of(sl_json_at(r->tools, i));
        size_t n_name;
        const char *s = sl_json_string(sl_json_get(f, "name"), &n_name);
        if (s && n_name == n && memcmp(s, name, n) == 0) return f;
    }
    return NULL;
}

const sl_json *sl_reply_args_schema(const sl_reply *r, const char *name, size_t n_name)
{
    const sl_json *f = sl_reply_tool(r, name, n_name), *p = sl_json_get(f, "parameters");
    return p ? p : sl_json_get(f, "input_schema");
}

const sl_json *sl_reply_schema(const sl_reply *r, const char *name, size_t n_name, const char *key, size_t n_key)
{
    char k[SL_REPLY_MAX_KEY + 1];
    if (n_key > SL_REPLY_MAX_KEY || memchr(key, 0, n_key)) return NULL;
    memcpy(k, key, n_key);
    k[n_key] = 0;
    return sl_json_get(sl_json_get(sl_reply_args_schema(r, name, n_name), "properties"), k);
}

/* ---- adding ---- */

static bool grow(sl_reply *r)
{
    if (r->n_call < r->cap_call) return true;
    size_t cap = r->cap_call ? 2 * r->cap_call : 4;
    sl_reply_call *c = sl_realloc(r->calls, cap * sizeof *c);
    if (!c) return false;
    r->calls = c;
    r->cap_call = cap;
    return true;
}

bool sl_reply_call_add(sl_reply *r, const char *name, size_t n_name, const char *id, size_t n_id, const char *args,
                       size_t n_args)
{
    if (!sl_reply_name_ok(name, n_name) || r->n_call == SL_REPLY_MAX_CALLS) return false;
    if (!grow(r)) {
        sl_reply_die(r, SL_ERR_NOMEM, "no memory for a tool call");
        return false;
    }
    sl_reply_call c = {.name = sl_strndup(name, n_name), .args = sl_strndup(args, n_args), .n_args = n_args};
    if (n_id) c.id = sl_strndup(id, n_id);
    r->calls[r->n_call++] = c;
    if (c.name && c.args && (c.id || !n_id)) return true;
    sl_reply_die(r, SL_ERR_NOMEM, "no memory for a tool call");
    return false;
}

/* ---- reading JSON calls ---- */

typedef struct {
    sl_json_reader r;
    sl_buf name, id, args;
    bool has_args, bad;
} call_reader;

/* The value that comes next as text of the document, without the space before it. */
static bool span(sl_json_reader *r, const char **text, size_t *n)
{
    size_t from = r->pos;
    while (from < r->n_bytes && sl_reply_is_space(r->text[from]))
        from++;
    if (!sl_json_skip(r)) return false;
    *text = r->text + from;
    *n = r->pos - from;
    return true;
}

static bool read_text(call_reader *c, sl_buf *out)
{
    if (out->len || sl_json_read(&c->r) != SL_JSON_STRING) return false; /* twice the same key: which one counts? */
    sl_buf_add(out, c->r.str.data, c->r.str.len);
    return true;
}

/* Arguments: an object, an object written inside a string, or null for none. */
static bool read_args(call_reader *c)
{
    const char *text = NULL;
    size_t n = 0;
    if (c->has_args || !span(&c->r, &text, &n)) return false;
    c->has_args = true;
    if (*text == '"') {
        text = c->r.str.data;
        n = c->r.str.len;
    } else if (*text == 'n') {
        text = "{}";
        n = 2;
    }
    if (!text || sl_reply_json_kind(text, n) != SL_KIND_OBJECT) return false;
    sl_buf_add(&c->args, text, n);
    return true;
}

static bool key_is(const call_reader *c, const char *key)
{
    return c->r.str.len == strlen(key) && memcmp(c->r.str.data, key, c->r.str.len) == 0;
}

static bool read_member(call_reader *c)
{
    if (key_is(c, "name") || key_is(c, "tool_name")) return read_text(c, &c->name);
    if (key_is(c, "arguments") || key_is(c, "parameters")) return read_args(c);
    if (key_is(c, "id")) {
        const char *text;
        size_t n;
        if (!span(&c->r, &text, &n)) return false;
        if (*text == '"') sl_buf_add(&c->id, c->r.str.data, c->r.str.len);
        return true;
    }
    return sl_json_skip(&c->r);
}

static bool id_ok(const sl_buf *id)
{
    if (id->len == 0 || id->len > SL_REPLY_MAX_NAME) return false;
    for (size_t i = 0; i < id->len; i++)
        if ((unsigned char)id->data[i] <= ' ' || id->data[i] == 0x7f) return false;
    return true;
}

static bool add_read(sl_reply *r, call_reader *c, unsigned flags)
{
    bool keep = flags & SL_STEP_KEEP_ID && id_ok(&c->id);
    if (!c->name.len || (!c->has_args && flags & SL_STEP_WHOLE)) return false;
    if (flags & SL_STEP_KNOWN && !sl_reply_tool(r, c->name.data, c->name.len)) return false;
    return sl_reply_call_add(r, c->name.data, c->name.len, c->id.data, keep ? c->id.len : 0,
                             c->has_args ? c->args.data : "{}", c->has_args ? c->args.len : 2);
}

/* The rest of an object whose brace was read. */
static bool read_call(sl_reply *r, call_reader *c, unsigned flags)
{
    sl_json_event ev;
    c->name.len = c->id.len = c->args.len = 0;
    c->has_args = false;
    while ((ev = sl_json_read(&c->r)) == SL_JSON_KEY)
        if (!read_member(c)) return false;
    return ev == SL_JSON_OBJECT_END && add_read(r, c, flags);
}

/* The same for {name: arguments}. */
static bool read_pair(sl_reply *r, call_reader *c)
{
    c->name.len = c->id.len = c->args.len = 0;
    c->has_args = false;
    if (sl_json_read(&c->r) != SL_JSON_KEY) return false;
    sl_buf_add(&c->name, c->r.str.data, c->r.str.len);
    return read_args(c) && sl_json_read(&c->r) == SL_JSON_OBJECT_END && add_read(r, c, 0);
}

static void reader_open(call_reader *c, const char *json, size_t n)
{
    *c = (call_reader){0};
    sl_json_reader_init(&c->r, json, n);
    sl_buf_init(&c->name, n);
    sl_buf_init(&c->id, n);
    sl_buf_init(&c->args, n + 2);
}

static bool reader_close(sl_reply *r, call_reader *c, bool ok)
{
    if (c->r.str.failed || c->name.failed || c->id.failed || c->args.failed) {
        sl_reply_die(r, SL_ERR_NOMEM, "no memory for a tool call");
        ok = false;
    }
    sl_json_reader_free(&c->r);
    sl_buf_free(&c->name);
    sl_buf_free(&c->id);
    sl_buf_free(&c->args);
    return ok;
}

bool sl_reply_call_read(sl_reply *r, const char *json, size_t n, unsigned flags)
{
    call_reader c;
    reader_open(&c, json, n);
    return reader_close(r, &c, sl_json_read(&c.r) == SL_JSON_OBJECT && read_call(r, &c, flags));
}

bool sl_reply_calls_read(sl_reply *r, const char *json, size_t n, unsigned flags, bool pairs)
{
    call_reader c;
    size_t before = r->n_call;
    sl_json_event ev;
    reader_open(&c, json, n);
    bool ok = sl_json_read(&c.r) == SL_JSON_ARRAY;
    while (ok && (ev = sl_json_read(&c.r)) != SL_JSON_ARRAY_END)
        ok = ev == SL_JSON_OBJECT && (pairs ? read_pair(r, &c) : read_call(r, &c, flags));
    return reader_close(r, &c, ok && r->n_call > before);
}

/* ---- reporting ---- */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static bool id_taken(const sl_reply *r, const char *id)
{
    for (size_t i = 0; i < r->n_reported; i++)
        if (strcmp(r->calls[i].id, id) == 0) return true;
    return false;
}

/* An id from the caller's seed and the call's number, so that it is the same however the text was cut. */
static char *make_id(const sl_reply *r, size_t i_call)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    bool nine = r->dialect->ids == SL_IDS_NINE;
    uint64_t s = r->id_seed;
    char id[32] = "call_";
    next_random(&s);
    s ^= (uint64_t)i_call * 0xD1342543DE82EF95u;
    size_t n = nine ? 0 : 5, end = n + (nine ? 9 : 24);
    while (n < end)
        id[n++] = digits[next_random(&s) % 62];
    id[n] = 0;
    return sl_strdup(id);
}

static void send(sl_reply *r, sl_reply_kind kind, size_t i)
{
    const sl_reply_call *c = &r->calls[i];
    sl_reply_event e = {.kind = kind, .text = "", .i_call = (uint32_t)i};
    if (kind == SL_REPLY_CALL_BEGIN) {
        e.id = c->id;
        e.name = c->name;
    }
    if (kind == SL_REPLY_CALL_ARGS) {
        e.text = c->args;
        e.n_bytes = c->n_args;
    }
    if (r->each) r->each(r->user, &e);
}

void sl_reply_calls_report(sl_reply *r)
{
    if (r->n_reported < r->n_call) sl_reply_flush(r); /* text before the call comes before it */
    while (r->n_reported < r->n_call) {
        size_t i = r->n_reported;
        sl_reply_call *c = &r->calls[i];
        if (c->id && id_taken(r, c->id)) { /* a client could not tell the two calls' results apart */
            sl_free(c->id);
            c->id = NULL;
        }
        if (!c->id) c->id = make_id(r, i);
        if (!c->id) {
            sl_reply_die(r, SL_ERR_NOMEM, "no memory for the id of a tool call");
            return;
        }
        r->n_reported++;
        send(r, SL_REPLY_CALL_BEGIN, i);
        send(r, SL_REPLY_CALL_ARGS, i);
        send(r, SL_REPLY_CALL_END, i);
    }
}

void sl_reply_calls_drop(sl_reply *r)
{
    while (r->n_call > r->n_reported) {
        sl_reply_call *c = &r->calls[--r->n_call];
        sl_free(c->id);
        sl_free(c->name);
        sl_free(c->args);
    }
}
