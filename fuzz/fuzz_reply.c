/* Fuzz target: hostile text through every dialect.  The first byte chooses the dialect, the second the cuts; the rest
 * is the text.  Whatever the cuts, events joined and the message are those of the whole text; both are valid UTF-8,
 * arguments are JSON objects, and text without markers is never changed. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_CHECK(x)                                                                                                  \
    do {                                                                                                               \
        if (!(x)) abort();                                                                                             \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char TOOLS[] =
    "[{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": "
    "{\"type\": \"integer\"}, \"o\": {\"type\": \"object\"}, \"u\": {\"type\": [\"string\", \"null\"]}}}}, {\"name\": "
    "\"g\"}]";

typedef struct {
    sl_buf text[3]; /* reasoning, content, calls */
} joined;

static void each(void *user, const sl_reply_event *e)
{
    joined *j = user;
    FUZZ_CHECK(sl_utf8_valid_prefix(e->text, e->n_bytes) == e->n_bytes);
    switch (e->kind) {
    case SL_REPLY_REASONING:
    case SL_REPLY_CONTENT:
        FUZZ_CHECK(e->n_bytes > 0);
        sl_buf_add(&j->text[e->kind], e->text, e->n_bytes);
        break;
    case SL_REPLY_CALL_BEGIN:
        FUZZ_CHECK(e->name[0] && e->id[0]);
        sl_buf_printf(&j->text[2], "%u %s %s ", e->i_call, e->id, e->name);
        break;
    case SL_REPLY_CALL_ARGS: {
        sl_json_reader r;
        sl_json_event ev;
        sl_json_reader_init(&r, e->text, e->n_bytes);
        FUZZ_CHECK(sl_json_read(&r) == SL_JSON_OBJECT);
        while ((ev = sl_json_read(&r)) != SL_JSON_END)
            FUZZ_CHECK(ev != SL_JSON_ERROR);
        sl_json_reader_free(&r);
        sl_buf_add(&j->text[2], e->text, e->n_bytes);
        break;
    }
    case SL_REPLY_CALL_END:
        sl_buf_add(&j->text[2], "\n", 1);
        break;
    }
}

static char *parse(const char *dialect, unsigned cuts, const char *text, size_t n, joined *j)
{
    sl_reply_options opt;
    sl_reply *r = NULL;
    const char *json;
    size_t n_json;
    for (int i = 0; i < 3; i++)
        sl_buf_init(&j->text[i], SIZE_MAX);
    sl_reply_options_init(&opt);
    opt.dialect = dialect;
    opt.chat_template = cuts & 128 ? "</think>" : NULL;
    opt.tools = cuts & 64 ? NULL : TOOLS;
    opt.thinking = cuts & 32 ? SL_THINKING_BEGUN : SL_THINKING_AUTO;
    opt.max_call_bytes = 200;
    opt.each = each;
    opt.user = j;
    FUZZ_CHECK(sl_reply_open(&r, &opt, NULL) == SL_OK);
    size_t step = cuts & 31 ? cuts & 31 : n;
    for (size_t i = 0; i < n; i += step) {
        size_t take = n - i < step ? n - i : step;
        FUZZ_CHECK(sl_reply_push(r, text + i, take, NULL) == SL_OK);
        FUZZ_CHECK(sl_reply_held_bytes(r) <= 3 * n);
    }
    FUZZ_CHECK(sl_reply_finish(r, NULL) == SL_OK);
    FUZZ_CHECK(sl_reply_held_bytes(r) == 0);
    FUZZ_CHECK(sl_reply_message(r, &json, &n_json, NULL) == SL_OK);
    char *copy = strdup(json);
    FUZZ_CHECK(copy != NULL);
    sl_reply_close(r);
    return copy;
}

static void free_joined(joined *j)
{
    for (int i = 0; i < 3; i++)
        sl_buf_free(&j->text[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const char *dialect = sl_reply_dialect_name(data[0] % sl_reply_dialect_count()), *text = (const char *)data + 2;
    unsigned same = data[1] & ~31u;
    size_t n = size - 2;
    joined whole, cut;
    char *a = parse(dialect, same, text, n, &whole), *b = parse(dialect, data[1], text, n, &cut);
    FUZZ_CHECK(strcmp(a, b) == 0);
    for (int i = 0; i < 3; i++)
        FUZZ_CHECK(whole.text[i].len == cut.text[i].len &&
                   (!whole.text[i].len || memcmp(whole.text[i].data, cut.text[i].data, whole.text[i].len) == 0));
    bool plain = sl_utf8_valid_prefix(text, n) == n;
    for (size_t i = 0; i < n; i++)
        plain = plain && !memchr("<>[]{}|\n\t\r Af", text[i], 14);
    if (plain && !(data[1] & 32))
        FUZZ_CHECK(whole.text[1].len == n && (!n || memcmp(whole.text[1].data, text, n) == 0));
    free(a);
    free(b);
    free_joined(&whole);
    free_joined(&cut);
    return 0;
}
