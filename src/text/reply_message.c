/* The whole message as JSON in OpenAI's form. */
#include "text/reply_int.h"

#include <string.h>

static void put(sl_buf *out, const char *text)
{
    sl_buf_add(out, text, strlen(text));
}

static void put_call(sl_buf *out, const sl_reply_call *c)
{
    put(out, "{\"id\": ");
    sl_reply_put_string(out, c->id, strlen(c->id));
    put(out, ", \"type\": \"function\", \"function\": {\"name\": ");
    sl_reply_put_string(out, c->name, strlen(c->name));
    put(out, ", \"arguments\": ");
    sl_reply_put_string(out, c->args, c->n_args);
    put(out, "}}");
}

sl_status sl_reply_message(sl_reply *r, const char **json, size_t *n_bytes, sl_err *err)
{
    const sl_buf *content = &r->ch[SL_CONTENT].text, *reasoning = &r->ch[SL_REASONING].text;
    sl_buf *out = &r->message;
    if (r->status != SL_OK) return sl_fail(err, r->status, "%s", r->why);
    out->len = 0;
    put(out, "{\"role\": \"assistant\", \"content\": ");
    if (content->len || !r->n_reported)
        sl_reply_put_string(out, content->data, content->len);
    else
        put(out, "null");
    if (reasoning->len) {
        put(out, ", \"reasoning_content\": ");
        sl_reply_put_string(out, reasoning->data, reasoning->len);
    }
    for (size_t i = 0; i < r->n_reported; i++) {
        put(out, i ? ", " : ", \"tool_calls\": [");
        put_call(out, &r->calls[i]);
    }
    put(out, r->n_reported ? "]}" : "}");
    if (!sl_reply_check(r, out)) return sl_fail(err, r->status, "%s", r->why);
    *json = out->data;
    *n_bytes = out->len;
    return SL_OK;
}
