/* What a template expects of messages, found out by giving it small conversations: a form counts as taken when its text
 * shows up and nothing looks like a value that was printed by mistake.  Nothing is looked for in the template's source,
 * whose spelling is free. */
#include "text/chat_int.h"

#include <stdio.h>
#include <string.h>

#define NEEDLE "zq-needle-qz"

typedef struct {
    const sl_chat *chat;
    sl_chat_one *one;
    sl_err err;
    bool stop, no_memory;
} probe;

enum { MAX_MS = 200 }; /* of one probe; they take far below one */

/* Values printed by mistake: dicts as Python or JSON writes them, null, text quoted twice. */
static const char *const mistakes[] = {"{'", "\"text\": \"" NEEDLE, "{\\\"arg", "None"};

/* Renders a request; does its text contain NEEDLE, and no mistake that isn't the template's own words? */
static bool works(probe *p, const char *json)
{
    sl_tpl_output out;
    sl_chat_job job = {.chat = p->chat, .one = p->one, .json = json, .n_bytes = strlen(json), .as_is = true,
                       .max_ms = MAX_MS};
    if (p->stop) return false;
    sl_status rc = sl_chat_run(&job, 0, &out, &p->err);
    p->no_memory = rc == SL_ERR_NOMEM;
    p->stop = p->no_memory || rc == SL_ERR_LIMIT; /* a hostile template would be so again */
    if (rc != SL_OK) return false;
    const char *at = strstr(out.text, NEEDLE);
    for (size_t i = 0; at && i < sizeof mistakes / sizeof *mistakes; i++)
        if (strstr(out.text, mistakes[i]) && !strstr(p->one->source, mistakes[i])) at = NULL;
    sl_tpl_output_free(&out);
    return at != NULL;
}

static bool works_with(probe *p, const char *messages, const char *tools)
{
    char json[2048];
    snprintf(json, sizeof json,
             "{\"messages\": [%s], \"tools\": %s, \"documents\": null, \"add_generation_prompt\": true}", messages, tools);
    return works(p, json);
}

#define TOOL(name)                                                                                                     \
    "[{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"description\": \"d\", \"parameters\": "          \
    "{\"type\": \"object\", \"properties\": {\"arg\": {\"type\": \"string\", \"description\": \"a\"}}, "                 \
    "\"required\": [\"arg\"]}}}]"
#define USER "{\"role\": \"user\", \"content\": \"u\"}"

static void probe_calls(probe *p)
{
    static const char *const contents[] = {"", "\"content\": \"\", ", "\"content\": null, "};
    static const char *const args[] = {"{\"arg\": \"" NEEDLE "\"}", "\"{\\\"arg\\\": \\\"" NEEDLE "\\\"}\""};
    char messages[1024];
    for (int as_text = 0; as_text < 2; as_text++)
        for (int how = 0; how < 3; how++) {
            snprintf(messages, sizeof messages,
                     USER ", {\"role\": \"assistant\", %s\"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", "
                          "\"function\": {\"name\": \"f\", \"arguments\": %s}}]}, {\"role\": \"tool\", "
                          "\"tool_call_id\": \"call00001\", \"name\": \"f\", \"content\": \"r\"}",
                     contents[how], args[as_text]);
            if (!works_with(p, messages, TOOL("f"))) continue;
            p->one->habits.args_are_text = as_text;
            p->one->habits.no_content = (sl_no_content)how;
            return;
        }
    p->one->habits.no_content = SL_NO_CONTENT_EMPTY;
}

sl_status sl_chat_probe(const sl_chat *c, sl_chat_one *one, sl_err *err)
{
    probe p = {.chat = c, .one = one};
    sl_chat_habits *h = &one->habits;
    h->takes_string = works_with(&p, "{\"role\": \"user\", \"content\": \"" NEEDLE "\"}", "null");
    h->takes_parts =
        works_with(&p, "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"" NEEDLE "\"}]}", "null");
    h->takes_system = works_with(&p, "{\"role\": \"system\", \"content\": \"" NEEDLE "\"}, " USER, "null") ||
                      works_with(&p,
                                 "{\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": \"" NEEDLE
                                 "\"}]}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"u\"}]}",
                                 "null");
    h->takes_tools = sl_tpl_mentions(one->tpl, "tools") || strcmp(one->name, "tool_use") == 0;
    probe_calls(&p);
    return p.no_memory ? sl_fail(err, SL_ERR_NOMEM, "%s: no memory to look at the chat template", c->model) : SL_OK;
}
