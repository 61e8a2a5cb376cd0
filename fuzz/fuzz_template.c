/* Fuzz target: chat templates and requests.  An input is a template, NUL, a request (without one: a small conversation).
 * Whatever they are: compiling and rendering succeed or say why, a prompt is valid UTF-8, the user's stretches lie in it
 * in order, and a second rendering gives the same. */
#include "text/chat_int.h"
#include "text/text_int.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_CHECK(x)                                                                                                  \
    do {                                                                                                               \
        if (!(x)) abort();                                                                                             \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_MS = 40 };

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S <\\u00e9>\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", "
    "\"text\": \"a b\"}]}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": "
    "\"f\", \"arguments\": {\"x\": 1.5}}}]}, {\"role\": \"tool\", \"content\": \"r\"}], \"tools\": [{\"type\": \"function\", "
    "\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"number\"}}}}}]}";

static void check_output(const sl_tpl_output *o)
{
    size_t done = 0;
    FUZZ_CHECK(o->text && o->text[o->n_bytes] == 0);
    FUZZ_CHECK(sl_utf8_valid_prefix(o->text, o->n_bytes) == o->n_bytes);
    for (size_t i = 0; i < o->n_plain; i++) {
        FUZZ_CHECK(o->plain[i].from >= done && o->plain[i].to > o->plain[i].from && o->plain[i].to <= o->n_bytes);
        done = o->plain[i].to;
    }
}

static sl_status render(const sl_chat *c, const sl_chat_one *one, const char *json, size_t n, bool as_is, sl_tpl_output *out)
{
    sl_err err = {0};
    sl_chat_job job = {.chat = c, .one = one, .json = json, .n_bytes = n, .as_is = as_is, .max_ms = MAX_MS};
    sl_status rc = sl_chat_run(&job, 1764600000, out, &err);
    FUZZ_CHECK(rc == SL_OK || (rc == SL_ERR_ARG && err.code == rc) || err.msg[0]); /* a template may raise nothing */
    return rc;
}

static void use(const sl_tpl *tpl, const char *json, size_t n, unsigned how)
{
    sl_chat c = {.model = "fuzz"};
    sl_chat_one one = {.name = "fuzz", .tpl = (sl_tpl *)tpl, .source = ""};
    one.habits = (sl_chat_habits){.takes_string = how & 1, .takes_parts = how & 2, .takes_system = how & 4,
                                  .takes_tools = true, .args_are_text = how & 8, .no_content = how % 3};
    sl_tpl_output a, b;
    sl_status rc = render(&c, &one, json, n, how & 16, &a);
    if (rc != SL_OK) return;
    check_output(&a);
    if (render(&c, &one, json, n, how & 16, &b) == SL_OK) { /* the clock may end it this time */
        FUZZ_CHECK(a.n_bytes == b.n_bytes && memcmp(a.text, b.text, a.n_bytes) == 0 && a.n_plain == b.n_plain);
        sl_tpl_output_free(&b);
    }
    sl_tpl_output_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sl_tpl *t = NULL;
    sl_err err = {0};
    const char *text = (const char *)data, *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - text) : size;
    sl_status rc = sl_tpl_compile(&t, "fuzz", n ? text : "", n, &err);
    FUZZ_CHECK((rc == SL_OK) == (t != NULL) && (t || err.msg[0]));
    if (!t) return 0;
    (void)sl_tpl_mentions(t, "tools");
    unsigned how = (unsigned)(size * 7 + (n ? data[n - 1] : 0));
    if (nul)
        use(t, nul + 1, size - n - 1, how);
    else
        use(t, conversation, sizeof conversation - 1, how);
    sl_tpl_close(t);
    return 0;
}
