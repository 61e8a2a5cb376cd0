/* Inside the room: a model's chat templates, and what each of them expects of messages. */
#ifndef SL_TEXT_CHAT_INT_H
#define SL_TEXT_CHAT_INT_H

#include "text/template/template.h"

/* How a template takes an assistant's message that has tool calls and no content. */
typedef enum { SL_NO_CONTENT_ABSENT, SL_NO_CONTENT_EMPTY, SL_NO_CONTENT_NULL } sl_no_content;

/* Found by rendering small conversations once (chat_probe.c). */
typedef struct {
    bool takes_string; /* content as a string */
    bool takes_parts;  /* content as a list of parts */
    bool takes_system;
    bool takes_tools;
    bool args_are_text; /* arguments of a tool call as JSON text, not as an object */
    sl_no_content no_content;
} sl_chat_habits;

typedef struct {
    char *name; /* "default", "tool_use", ... */
    sl_tpl *tpl;
    char *source;
    size_t n_source;
    sl_chat_habits habits;
} sl_chat_one;

enum { SL_CHAT_MAX_TEMPLATES = 16, SL_CHAT_MAX_TOKENS = 8 };
struct sl_chat {
    char *model; /* for messages */
    sl_chat_one at[SL_CHAT_MAX_TEMPLATES];
    uint32_t n;
    /* bos_token and so on: variables that every template sees, the model's own text */
    struct {
        const char *name;
        char *text;
    } token[SL_CHAT_MAX_TOKENS];
    uint32_t n_token;
};

/* Copies and compiles.  name and source: text [n], borrowed.  A second one of a name is ignored. */
sl_status sl_chat_add(sl_chat *c, const char *name, size_t n_name, const char *source, size_t n_source, sl_err *err);
/* name: a literal.  The first one of a name wins. */
sl_status sl_chat_add_token(sl_chat *c, const char *name, const char *text, size_t n, sl_err *err);
/* All templates and tokens of an opened model; none is no error.  with_templates false: the tokens alone. */
sl_status sl_chat_load(sl_chat *c, const sl_store *store, bool with_templates, sl_err *err);
/* One of our own templates by its name; NULL: none. */
const char *sl_chat_default(const char *name);
void sl_chat_default_names(char buf[160]); /* "chatml, gemma, ..." */

/* What one rendering is given. */
typedef struct {
    const sl_chat *chat;
    const sl_chat_one *one;
    const char *json;
    size_t n_bytes;
    bool as_is;
    uint32_t max_ms; /* 0: the usual */
    bool continues;  /* set while rendering: the last message is to be continued */
} sl_chat_job;
/* Renders; without as_is the messages are put into the form that the template expects (chat_messages.c). */
sl_status sl_chat_run(sl_chat_job *job, int64_t now_s, sl_tpl_output *out, sl_err *err);
/* Fills the habits of one template. */
sl_status sl_chat_probe(const sl_chat *c, sl_chat_one *one, sl_err *err);

#endif
