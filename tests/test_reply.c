/* Replies: every text is parsed whole, cut at every byte, and byte by byte; events joined and the message must be the
 * same each time.  Expectations are written out here, or come from the models' own templates (tests/fixtures/replies,
 * made by tools/check_replies.py). */
#include "base/json.h"
#include "support.h"
#include "text/text_int.h"

#include <time.h>

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"b\": {\"type\": \"boolean\"}, \"o\": {\"type\": "
    "\"object\"}, \"a\": {\"type\": \"array\"}, \"sn\": {\"type\": [\"string\", \"null\"]}, \"u\": {\"anyOf\": "
    "[{\"type\": "
    "\"string\"}, {\"type\": \"number\"}]}, \"e\": {\"enum\": [\"x\", \"1\"]}, \"ref\": {\"$ref\": \"#/x\"}}}}}, "
    "{\"name\": "
    "\"g\", \"input_schema\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\"}}}}]";

typedef struct {
    const char *dialect, *hints, *prompt, *tools;
    const char *text;
    size_t n; /* 0: strlen */
} input;

/* Events joined: reasoning, content, and per call "id name args". */
typedef struct {
    char *text[3];
    size_t len[3], cap[3], n_event;
    uint32_t calls;
    bool open;
} joined;

static void append(joined *j, int what, const char *p, size_t n)
{
    if (j->len[what] + n >= j->cap[what]) {
        j->cap[what] = 2 * (j->len[what] + n + 1);
        j->text[what] = realloc(j->text[what], j->cap[what]);
        assert_non_null(j->text[what]);
    }
    memcpy(j->text[what] + j->len[what], p, n);
    j->text[what][j->len[what] += n] = 0;
}

static void each(void *user, const sl_reply_event *e)
{
    joined *j = user;
    static const char *const ends[] = {" ", "\n"};
    j->n_event++;
    switch (e->kind) {
    case SL_REPLY_REASONING:
    case SL_REPLY_CONTENT:
        assert_false(j->open);
        assert_true(e->n_bytes > 0);
        append(j, e->kind == SL_REPLY_CONTENT, e->text, e->n_bytes);
        break;
    case SL_REPLY_CALL_BEGIN:
        assert_false(j->open);
        assert_int_equal(e->i_call, j->calls);
        append(j, 2, e->id, strlen(e->id));
        append(j, 2, ends[0], 1);
        append(j, 2, e->name, strlen(e->name));
        append(j, 2, ends[0], 1);
        j->open = true;
        break;
    case SL_REPLY_CALL_ARGS:
        assert_true(j->open && e->i_call == j->calls);
        append(j, 2, e->text, e->n_bytes);
        break;
    case SL_REPLY_CALL_END:
        assert_true(j->open && e->i_call == j->calls++);
        append(j, 2, ends[1], 1);
        j->open = false;
        break;
    }
}

static void clear(joined *j)
{
    for (int i = 0; i < 3; i++)
        free(j->text[i]);
    *j = (joined){0};
}

static sl_reply *open_reply(const input *in, joined *j)
{
    sl_reply_options opt;
    sl_reply *r = NULL;
    sl_err err = {0};
    sl_reply_options_init(&opt);
    opt.dialect = in->dialect;
    opt.chat_template = in->hints;
    opt.prompt = in->prompt;
    opt.tools = in->tools;
    opt.id_seed = 42;
    opt.each = j ? each : NULL;
    opt.user = j;
    ASSERT_OK(sl_reply_open(&r, &opt, &err), err);
    return r;
}

static void push(sl_reply *r, const char *text, size_t n)
{
    sl_err err = {0};
    char *copy = malloc(n + 1); /* of its own, so that a sanitizer sees a byte too many */
    memcpy(copy, text, n);
    ASSERT_OK(sl_reply_push(r, copy, n, &err), err);
    free(copy);
}

/* The message's JSON after feeding the text in pieces of `step` bytes (0: one cut at `cut`); to be freed. */
static char *parse(const input *in, joined *j, size_t cut, size_t step)
{
    size_t n = in->n ? in->n : strlen(in->text), bytes;
    const char *json;
    sl_err err = {0};
    sl_reply *r = open_reply(in, j);
    for (size_t i = 0; i < n;) {
        size_t take = step ? step : i < cut ? cut : n - i;
        if (take > n - i) take = n - i;
        push(r, in->text + i, take);
        i += take;
    }
    ASSERT_OK(sl_reply_finish(r, &err), err);
    assert_int_equal(sl_reply_held_bytes(r), 0);
    assert_int_equal(sl_reply_call_count(r), j->calls);
    ASSERT_OK(sl_reply_message(r, &json, &bytes, &err), err);
    assert_int_equal(strlen(json), bytes);
    char *out = strdup(json);
    sl_reply_close(r);
    return out;
}

static void assert_same_joined(const joined *a, const joined *b, size_t cut)
{
    for (int i = 0; i < 3; i++)
        if (a->len[i] != b->len[i] || (a->len[i] && memcmp(a->text[i], b->text[i], a->len[i]) != 0))
            fail_msg("cut at %zu: '%s', whole: '%s'", cut, b->text[i] ? b->text[i] : "", a->text[i] ? a->text[i] : "");
}

static const char *text_of(const joined *j, int what)
{
    return j->text[what] ? j->text[what] : "";
}

/* The message must hold what the events said. */
static void assert_message(const char *json, const joined *j)
{
    sl_json *m = NULL;
    sl_err err = {0};
    size_t n;
    ASSERT_OK(sl_json_parse(&m, "message", json, strlen(json), &err), err);
    const sl_json *calls = sl_json_get(m, "tool_calls");
    const char *content = sl_json_string(sl_json_get(m, "content"), &n);
    assert_true(content ? n == j->len[1] && memcmp(content, text_of(j, 1), n) == 0 : j->calls && !j->len[1]);
    const char *reasoning = sl_json_string(sl_json_get(m, "reasoning_content"), &n);
    assert_true(reasoning ? n && n == j->len[0] && memcmp(reasoning, text_of(j, 0), n) == 0 : !j->len[0]);
    assert_int_equal(sl_json_count(calls), j->calls);
    sl_buf all;
    sl_buf_init(&all, SIZE_MAX);
    for (size_t i = 0; i < sl_json_count(calls); i++) {
        const sl_json *c = sl_json_at(calls, i), *f = sl_json_get(c, "function");
        assert_string_equal(sl_json_string(sl_json_get(c, "type"), &n), "function");
        sl_buf_printf(&all, "%s ", sl_json_string(sl_json_get(c, "id"), &n));
        sl_buf_printf(&all, "%s ", sl_json_string(sl_json_get(f, "name"), &n));
        sl_buf_printf(&all, "%s\n", sl_json_string(sl_json_get(f, "arguments"), &n));
    }
    assert_string_equal(all.data ? all.data : "", text_of(j, 2));
    sl_buf_free(&all);
    sl_json_free(m);
}

/* Parses at every cut; *j gets the events of the whole. */
static char *parse_all_ways(const input *in, joined *j)
{
    size_t n = in->n ? in->n : strlen(in->text);
    char *whole = parse(in, j, n, 0);
    assert_message(whole, j);
    for (size_t cut = 0; cut < n; cut++) { /* 0: byte by byte */
        joined k = {0};
        char *got = parse(in, &k, cut, cut ? 0 : 1);
        if (strcmp(got, whole) != 0) fail_msg("cut at %zu: %s, whole: %s", cut, got, whole);
        assert_same_joined(j, &k, cut);
        free(got);
        clear(&k);
    }
    return whole;
}

/* "name args\n..." without the ids. */
static void strip_ids(const char *calls, char *out)
{
    while (*calls) {
        const char *name = strchr(calls, ' ') + 1, *end = strchr(name, '\n');
        /* arguments may hold raw newlines: a call ends where the next id begins */
        while (end[1] && strncmp(end + 1, "call_", 5) != 0)
            end = strchr(end + 1, '\n');
        memcpy(out, name, (size_t)(end + 1 - name));
        out += end + 1 - name;
        calls = end + 1;
    }
    *out = 0;
}

static void expect(input in, const char *reasoning, const char *content, const char *calls)
{
    joined j = {0};
    free(parse_all_ways(&in, &j));
    char *got = calloc(1, j.len[2] + 1);
    strip_ids(text_of(&j, 2), got);
    if (strcmp(text_of(&j, 0), reasoning) != 0)
        fail_msg("%s\nreasoning '%s', not '%s'", in.text, text_of(&j, 0), reasoning);
    if (strcmp(text_of(&j, 1), content) != 0) fail_msg("%s\ncontent '%s', not '%s'", in.text, text_of(&j, 1), content);
    if (strcmp(got, calls) != 0) fail_msg("%s\ncalls '%s', not '%s'", in.text, got, calls);
    free(got);
    clear(&j);
}

static void expect_in(const char *dialect, const char *text, const char *content, const char *calls)
{
    expect((input){.dialect = dialect, .hints = "", .tools = TOOLS, .text = text}, "", content, calls);
}

/* No call: the text comes back as it is. */
static void expect_text(const char *dialect, const char *text)
{
    expect_in(dialect, text, text, "");
}

/* ---- thinking and white space ---- */

static void think(const char *prompt, const char *text, const char *reasoning, const char *content)
{
    expect((input){.dialect = "hermes", .hints = "</think>", .prompt = prompt, .tools = TOOLS, .text = text}, reasoning,
           content, "");
}

static void thinking_in_prompt_or_output(void **state)
{
    (void)state;
    think(NULL, "<think>\nA b.\n</think>\n\nC.", "A b.", "C.");
    think("x<|im_start|>assistant\n", "<think>A</think>C", "A", "C");
    think("<|im_start|>assistant\n<think>\n", "A\n</think>\nC", "A", "C");
    think("<think>\n\n</think>\n\n", "C", "", "C");
    think("<think>\n\n</think>\n\n", "\n\nC", "", "C");
    think(NULL, "<think>\n\n</think>\n\nC", "", "C");
    think(NULL, "</think>C", "", "C"); /* closed, never opened */
    think(NULL, "\n <think>A</think>C", "A", "C");
    think(NULL, "What is <think>?</think>", "", "What is <think>?</think>"); /* not at the start: text */
    think("<think>", "cut of", "cut of", "");                                /* the token limit */
    think("<think>", "cut\n", "cut\n", "");
    think("<think>", "A </thi", "A </thi", "");
    think("<think>", "<think>A</think>C", "<think>A", "C");
    think("<think>", "A</think>C</think>D", "A", "C</think>D");
    think(NULL, "  Indented\n", "", "  Indented\n");
    think(NULL, "", "", "");
    think(NULL, " \n", "", " \n");
    think("<think>", "\n\n", "", "");
    think(NULL, "a <", "", "a <");
    think(NULL, "<think", "", "<think");
}

static void thinking_can_be_set(void **state)
{
    (void)state;
    static const struct {
        sl_thinking thinking;
        const char *reasoning, *content;
    } cases[] = {{SL_THINKING_AUTO, "", "A"}, {SL_THINKING_BEGUN, "A", ""}, {SL_THINKING_NOT_BEGUN, "", "A"}};
    for (size_t i = 0; i < 3; i++) {
        sl_reply_options opt;
        sl_reply *r = NULL;
        sl_err err = {0};
        joined j = {0};
        sl_reply_options_init(&opt);
        opt.chat_template = "...</think>...";
        opt.thinking = cases[i].thinking;
        opt.each = each;
        opt.user = &j;
        ASSERT_OK(sl_reply_open(&r, &opt, &err), err);
        push(r, "A", 1);
        ASSERT_OK(sl_reply_finish(r, &err), err);
        assert_string_equal(text_of(&j, 0), cases[i].reasoning);
        assert_string_equal(text_of(&j, 1), cases[i].content);
        sl_reply_close(r);
        clear(&j);
    }
}

static void calls_inside_thinking_are_text(void **state)
{
    (void)state;
    expect(
        (input){.dialect = "hermes",
                .hints = "</think>",
                .tools = TOOLS,
                .text =
                    "<think>I write <tool_call>{\"name\": \"f\"}</tool_call>\n</think>\n<tool_call>{\"name\": \"g\", "
                    "\"arguments\": {\"x\": \"</think>\"}}</tool_call>"},
        "I write <tool_call>{\"name\": \"f\"}</tool_call>", "", "g {\"x\": \"</think>\"}\n");
}

static void space_around_calls_is_nobodys(void **state)
{
    (void)state;
    static const char call[] = "<tool_call>\n{\"name\": \"f\"}\n</tool_call>";
    char text[256];
    snprintf(text, sizeof text, "A.\n\n%s\n", call);
    expect_in("hermes", text, "A.", "f {}\n");
    snprintf(text, sizeof text, "\n%s\n%s\n\n", call, call);
    expect_in("hermes", text, "", "f {}\nf {}\n");
    snprintf(text, sizeof text, "A.\n%s\nB.\n", call); /* between two texts it keeps them apart */
    expect_in("hermes", text, "A.\n\nB.\n", "f {}\n");
    snprintf(text, sizeof text, "\n%s\n\nB.", call);
    expect_in("hermes", text, "B.", "f {}\n");
    snprintf(text, sizeof text, "A%sB", call);
    expect_in("hermes", text, "AB", "f {}\n");
    snprintf(text, sizeof text, "A \n<tool_call>\n \nB");
    expect_text("hermes", text);
}

/* ---- calls ---- */

static void hermes_calls(void **state)
{
    (void)state;
    expect_in("hermes",
              "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"a\\n\\\"</tool_call>é\", \"n\": 1.0}}</tool_call>",
              "", "f {\"s\": \"a\\n\\\"</tool_call>é\", \"n\": 1.0}\n"); /* verbatim */
    expect_in("hermes", "<tool_call>\n{\"arguments\": {}, \"name\": \"other\", \"id\": [{}]}\n</tool_call>", "",
              "other {}\n");
    expect_in("hermes", "<tool_call>{\"name\": \"f\", \"parameters\": {\"n\": 1}}</tool_call>", "", "f {\"n\": 1}\n");
    expect_in("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"n\\\": 1}\"}</tool_call>", "",
              "f {\"n\": 1}\n");
    expect_in("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "", "f {}\n");
    expect_in("hermes", "<tool_call><tool_call>{\"name\": \"f\"}</tool_call>", "<tool_call>", "f {}\n");
    expect_in("hermes", "Use <tool_call>. <tool_call>{\"name\": \"f\"}</tool_call>", "Use <tool_call>.", "f {}\n");
}

static void malformed_calls_are_text(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",
        "{}",
        "{\"name\": \"\"}",
        "{\"name\": 1}",
        "{\"name\": \"f\", \"arguments\": [1]}",
        "[]",
        "{\"name\"}",
        "{\"name\": \"f\",}",
        "{\"name\": \"a b\"}",
        "{\"name\": \"f\", \"arguments\": \"[\"}",
        "f",
        "{'name': 1}",
        "{\"name\": \"f\"} x",
        "{\"name\": \"f\"}}",
        "{\"name\": \"f\", \"name\": \"g\"}",
        "{\"a\": 01}",
        "{\"a\": tru}",
        "{\"a\": \"\\x\"}",
        "{\"a\": \"\n\"}",
        "{\"arguments\": {}, \"arguments\": {}}",
        "{\"a\": 1.}",
        "{\"a\": 1e}",
        "{\"a\": -}",
        "{\"a\": \"\\u00g0\"}",
        "{\"name\": \"f\\u0000\"}",
        "<function=f>",
        "{\"name\": \"f\"",
        "{\"name\": \"f",
        "{\"name\": \"f\", \"arguments\": {\"a\": 1e999}}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "A <tool_call>\n%s</tool_call>\nB", bodies[i]);
        expect_text("hermes", text);
        snprintf(text, sizeof text, "<tool_call>%s", bodies[i]);
        expect_text("hermes", text);
    }
    expect_text("hermes", "<tool_call>{\"name\": \"f\"}</tool_cal");
    expect_text("hermes", "<tool_call>{\"name\": \"f\"}<tool_call>");
    expect_text("hermes", "</tool_call>");
}

static void without_tools_calls_are_text(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *text;
    } cases[] = {{"hermes", "<tool_call>{\"name\": \"f\"}</tool_call>"},
                 {"llama3", "{\"name\": \"f\", \"parameters\": {}}"},
                 {"harmony", "<|channel|>commentary to=functions.f<|message|>{}"}};
    for (size_t i = 0; i < 3; i++)
        expect((input){.dialect = cases[i].dialect, .text = cases[i].text}, "", cases[i].text, "");
}

#define QWEN(body)        "<tool_call>\n<function=f>\n" body "</function>\n</tool_call>"
#define PARAM(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

static void parameters_are_typed_by_the_schema(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *json;
    } cases[] = {
        {"s", "12", "\"12\""},
        {"s", "{\"a\": 1}", "\"{\\\"a\\\": 1}\""},
        {"s", "null", "\"null\""},
        {"s", " x ", "\" x \""},
        {"s", "", "\"\""},
        {"s", "\n\n", "\"\\n\\n\""},
        {"n", "12", "12"},
        {"n", " -3 ", "-3"},
        {"n", "1.50", "1.50"},
        {"n", "twelve", "\"twelve\""},
        {"n", "012", "\"012\""},
        {"n", "1 2", "\"1 2\""},
        {"b", "True", "true"},
        {"b", "false", "false"},
        {"b", "None", "null"},
        {"b", "yes", "\"yes\""},
        {"o", "{\"a\":[1, null]}", "{\"a\":[1, null]}"},
        {"o", "{'a': [1, None, 'x\"y', True]}", "{\"a\": [1, null, \"x\\\"y\", true]}"},
        {"o", "{", "\"{\""},
        {"o", "{'a': 1", "\"{'a': 1\""},
        {"a", "['a', (1, 2),]", "[\"a\", [1, 2]]"},
        {"a", "[1,2]", "[1,2]"},
        {"sn", "null", "null"},
        {"sn", "None", "null"},
        {"sn", "12", "\"12\""},
        {"sn", "x", "\"x\""},
        {"u", "1e3", "1e3"},
        {"u", "true", "\"true\""},
        {"e", "1", "\"1\""},
        {"ref", "1", "1"},
        {"ref", "x", "\"x\""},
        {"new", "[1]", "[1]"},
        {"new", "True", "\"True\""},
        {"new", "\"q\"", "\"q\""},
        {"new", "a\nb\t\x01", "\"a\\nb\\t\\u0001\""},
        {"s", "</a> </param </parameter", "\"</a> </param </parameter\""},
        {"s", "</parameter> or so", "\"</parameter> or so\""},
        {"s", "</function>", "\"</function>\""},
        {"s", "</tool_call>", "\"</tool_call>\""},
        {"s", "😀 日本", "\"😀 日本\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256], want[128];
        snprintf(text, sizeof text, QWEN("<parameter=%s>\n%s\n</parameter>\n"), cases[i].key, cases[i].value);
        snprintf(want, sizeof want, "f {\"%s\": %s}\n", cases[i].key, cases[i].json);
        expect_in("qwen-xml", text, "", want);
    }
}

static void tagged_parameters(void **state)
{
    (void)state;
    expect_in("qwen-xml", "A\n" QWEN(PARAM("s", "a\nb") PARAM("n", "1")) "\n" QWEN(""), "A",
              "f {\"s\": \"a\\nb\", \"n\": 1}\nf {}\n");
    expect_in("qwen-xml", "<tool_call><function=f><parameter=n>1</parameter></function></tool_call>", "",
              "f {\"n\": 1}\n");
    expect_in("qwen-xml", "<function=g>\n" PARAM("x", "1") "</function>\n</tool_call>B", "B", "g {\"x\": \"1\"}\n");
    expect_text("qwen-xml", "<function=unknown>\n" PARAM("x", "1") "</function>"); /* bare: only a known function */
    expect_text("qwen-xml", QWEN(PARAM("s", "a") PARAM("s", "b")));                /* twice the same */
    expect_text("qwen-xml", QWEN("<parameter=>\n1\n</parameter>\n"));
    expect_text("qwen-xml", QWEN("stray " PARAM("s", "a")));
    expect_text("qwen-xml", QWEN("<parameter=s>\nnever closed\n"));
    /* one that was never closed does not swallow the next call */
    expect_in("qwen-xml", QWEN("<parameter=s>\nopen\n") "\n" QWEN(PARAM("s", "a")), QWEN("<parameter=s>\nopen\n"),
              "f {\"s\": \"a\"}\n");
    expect_in("glm",
              "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value> "
              "1</arg_value><arg_key>n</arg_key><arg_value>2</arg_value>\n</tool_call>",
              "", "f {\"s\": \" 1\", \"n\": 2}\n");
    expect_in("glm", "<tool_call>g</tool_call>", "", "g {}\n");
    expect_text("glm", "<tool_call>f x</tool_call>");
    expect_text("glm", "<tool_call></tool_call>");
    expect_text("glm", "<tool_call>f<arg_key>s</arg_key>x<arg_value>1</arg_value></tool_call>");
}

static void bare_json_calls(void **state)
{
    (void)state;
    expect_in("llama3", "{\"name\": \"f\", \"parameters\": {\"n\": 1}}", "", "f {\"n\": 1}\n");
    expect_in("llama3", "\n{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}} ", "", "f {}\n");
    expect_in("llama3", "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", "",
              "f {}\ng {}\n");
    expect_text("llama3", "{\"name\": \"f\", \"parameters\": {}} is how to call it");
    expect_text("llama3", "{\"name\": \"f\", \"parameters\": {}};");
    expect_text("llama3", "{\"name\": \"Anna\", \"parameters\": {}}"); /* no tool of ours */
    expect_text("llama3", "{\"name\": \"f\"}");
    expect_text("llama3", "{\"age\": 3}");
    expect_text("llama3", "Call {\"name\": \"f\", \"parameters\": {}}");
    expect_in("llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "", "f {}\n");
    expect_in("llama3", "A<|python_tag|>web.call(query=\"a, b\", n=1, flag=True)", "A",
              "web {\"query\": \"a, b\", \"n\": 1, \"flag\": true}\n");
    expect_text("llama3", "<|python_tag|>print(1)");
}

static void names_in_markers(void **state)
{
    (void)state;
    expect_in("deepseek",
              "A<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\": 1}<｜tool▁call▁end｜>"
              "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{\"x\": "
              "\"```\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>B",
              "AB", "f {\"n\": 1}\ng {\"x\": \"```\"}\n");
    expect_in("deepseek",
              "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>g",
              "<｜tool▁call▁begin｜>g", "f {}\n");
    expect_in("gemma4", "<|tool_call>call:f{s:<|\"|>a{\"b<|\"|>,n:1,o:{k:[1,None,{}]},b:true}<tool_call|>", "",
              "f {\"s\": \"a{\\\"b\", \"n\": 1, \"o\": {\"k\": [1, null, {}]}, \"b\": true}\n");
    expect_text("gemma4", "<|tool_call>call:f{s:nothing quoted}<tool_call|>");
    expect_in("lfm2", "<|tool_call_start|>[f(s='it\\'s', n=-1.5), g(x=\"[)\"), f()]<|tool_call_end|>", "",
              "f {\"s\": \"it's\", \"n\": -1.5}\ng {\"x\": \"[)\"}\nf {}\n");
    expect_text("lfm2", "<|tool_call_start|>[f(1)]<|tool_call_end|>");
    expect_text("lfm2", "<|tool_call_start|>[f(s='a'), ]<|tool_call_end|>");
    expect_in("functionary-v3.2", "all\nA >>>f\n{\"n\": 1}", "A", "f {\"n\": 1}\n");
    expect_in("functionary-v3.2", "f\n{}>>>g\n{}", "", "f {}\ng {}\n");
    expect_in("functionary-v3.2", "all\n>>> print(1)", ">>> print(1)", "");
}

static void markers_that_only_surround(void **state)
{
    (void)state;
    expect((input){.dialect = "granite3",
                   .hints = "</think>",
                   .tools = TOOLS,
                   .text = "<think>A</think>\n<response>B <response>.</response>"},
           "A", "B <response>.", "");
    expect_in("granite3", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>", "", "f {}\n");
    expect_in("granite3", "<|tool_call|>{\"name\": \"f\"} B", "B", "f {}\n");
    expect((input){.dialect = "tool-calls",
                   .hints = "[BEGIN FINAL RESPONSE]",
                   .tools = TOOLS,
                   .text = "Here are my reasoning steps:\nA\n[BEGIN FINAL RESPONSE]\nB\n[END FINAL RESPONSE]\n"},
           "A", "B", "");
    expect((input){.dialect = "cohere",
                   .hints = "<|END_THINKING|>",
                   .tools = TOOLS,
                   .text = "<|START_THINKING|>A<|END_THINKING|><|START_RESPONSE|>B<|END_RESPONSE|>"},
           "A", "B", "");
}

static void dsml_parameters_have_types(void **state)
{
    (void)state;
#define P(k, s, v) "<｜DSML｜parameter name=\"" k "\" string=\"" s "\">" v "</｜DSML｜parameter>\n"
    expect_in("deepseek-v3.2",
              "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n" P("n", "true", "1") P("s", "false", "2")
                  P("a", "false", "x") "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
              "", "f {\"n\": \"1\", \"s\": 2, \"a\": \"x\"}\n");
    expect_text("deepseek-v3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n" P("n", "maybe", "1"));
}

/* ---- harmony ---- */

static void harmony(const char *text, const char *reasoning, const char *content, const char *calls)
{
    expect((input){.dialect = "harmony", .tools = TOOLS, .prompt = "<|start|>assistant", .text = text}, reasoning,
           content, calls);
}

static void harmony_channels(void **state)
{
    (void)state;
    harmony("<|channel|>analysis<|message|>A.<|end|><|start|>assistant<|channel|>final<|message|>B.", "A.", "B.", "");
    harmony("<|channel|>final<|message|>B <|x|>.<|return|>", "", "B <|x|>.", "");
    harmony("<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary to=functions.f "
            "<|constrain|>json<|message|>{\"n\": 1}<|call|>",
            "A", "", "f {\"n\": 1}\n");
    harmony(" to=functions.f<|channel|>commentary json<|message|>{}", "", "", "f {}\n");
    harmony("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
            "to=functions.f<|message|>{}",
            "", "I look.", "f {}\n");
    harmony("<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>B", "A\nB", "", "");
    harmony("<|channel|>analysis<|message|>cut", "cut", "", "");
    harmony("<|channel|>analysis<|message|>cut <|en", "cut <|en", "", "");
    harmony("Plain.", "", "Plain.", "");
    harmony("<|channel|>final<|mess", "", "<|channel|>final<|mess", "");
    harmony("<|channel|>other<|message|>x", "", "<|channel|>other<|message|>x", "");
    harmony("<|channel|>commentary to=functions.f<|message|>not json", "",
            "<|channel|>commentary to=functions.f<|message|>not json", "");
    harmony("<|channel|>final<|message|>B<|end|><|start|>functions.f to=assistant<|message|>{}", "",
            "B<|start|>functions.f to=assistant<|message|>{}", "");
}

/* ---- ids ---- */

static void ids_of(const char *dialect, const char *text, char ids[4][64])
{
    joined j = {0};
    input in = {.dialect = dialect, .tools = TOOLS, .text = text};
    free(parse_all_ways(&in, &j));
    const char *p = text_of(&j, 2);
    for (int i = 0; i < 4 && *p; i++) {
        assert_int_equal(sscanf(p, "%63s", ids[i]), 1);
        p = strchr(p, '\n') + 1;
    }
    clear(&j);
}

static void ids_suit_their_dialect(void **state)
{
    (void)state;
    char a[4][64] = {""}, b[4][64] = {""};
    static const char two[] =
        "<tool_call>{\"name\": \"f\"}</tool_call><tool_call>{\"name\": \"f\", \"id\": \"mine\"}</tool_call>";
    ids_of("hermes", two, a);
    ids_of("hermes", two, b);
    assert_string_equal(a[0], b[0]); /* of the seed alone */
    assert_string_not_equal(a[0], a[1]);
    assert_int_equal(strspn(a[0], "call_"), 5);
    assert_int_equal(strlen(a[1]), 29);
    ids_of("mistral", "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{}[TOOL_CALLS]g{}", a);
    assert_int_equal(strlen(a[0]), 9);
    assert_string_equal(a[1], "abcDEF123");
    ids_of("mistral",
           "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}, \"id\": \"abcDEF123\"}, {\"name\": \"f\", \"id\": "
           "\"abcDEF123\"}]",
           a);
    assert_string_equal(a[0], "abcDEF123");
    assert_int_equal(strlen(a[1]), 9);
    assert_string_not_equal(a[1], "abcDEF123"); /* not twice the same */
    ids_of("kimi-k2",
           "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
           "<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
           a);
    assert_string_equal(a[0], "functions.f:0");
    assert_string_equal(a[1], "functions.g:1");
}

/* ---- bytes ---- */

static void broken_characters_become_one_mark(void **state)
{
    (void)state;
    joined j = {0};
    input in = {.dialect = "hermes", .tools = TOOLS, .text = "a\xf0\x9f\x98 b\x80\xff\xe9\x00 \xc3", .n = 12};
    free(parse_all_ways(&in, &j));
    static const char want[] = "a\xef\xbf\xbd b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\0 \xef\xbf\xbd";
    assert_int_equal(j.len[1], sizeof want - 1);
    assert_memory_equal(j.text[1], want, sizeof want - 1);
    clear(&j);
    in = (input){.dialect = "hermes",
                 .tools = TOOLS,
                 .text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\xff\"}}</tool_call>"};
    free(parse_all_ways(&in, &j));
    assert_non_null(strstr(text_of(&j, 2), "{\"s\": \"\xef\xbf\xbd\"}"));
    clear(&j);
}

/* What is released after each piece. */
static void text_is_released_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *piece, *content;
        size_t held;
    } steps[] = {
        {"Hello", "Hello", 0},
        {" ", "Hello", 1}, /* may belong to a marker */
        {"<", "Hello", 2},
        {"tool", "Hello", 6},
        {"s", "Hello <tools", 0}, /* cannot become one */
        {" <tool_call>", "Hello <tools", 12},
        {"\n{\"na", "Hello <tools", 17},
        {"ME", "Hello <tools", 19},
        {"\": 1, x", "Hello <tools <tool_call>\n{\"naME\": 1, x", 0}, /* no JSON */
        {"\xf0\x9f", "Hello <tools <tool_call>\n{\"naME\": 1, x", 2},
        {"\x98\x80", "Hello <tools <tool_call>\n{\"naME\": 1, x😀", 0},
    };
    joined j = {0};
    sl_reply *r = open_reply(&(input){.dialect = "hermes", .tools = TOOLS}, &j);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        push(r, steps[i].piece, strlen(steps[i].piece));
        assert_string_equal(text_of(&j, 1), steps[i].content);
        assert_int_equal(sl_reply_held_bytes(r), steps[i].held);
    }
    sl_reply_close(r);
    clear(&j);
    r = open_reply(&(input){.dialect = "hermes", .tools = TOOLS}, &j);
    push(r, "a<b><c d", 8); /* one piece, one event */
    assert_int_equal(j.n_event, 1);
    sl_reply_close(r);
    clear(&j);
    r = open_reply(&(input){.dialect = "none"}, &j);
    push(r, "a <tool_call> \n", 15);
    assert_string_equal(text_of(&j, 1), "a <tool_call> \n");
    sl_reply_close(r);
    clear(&j);
}

/* ---- limits and hostility ---- */

static char *repeat(const char *what, size_t n_bytes)
{
    size_t len = strlen(what);
    char *s = malloc(n_bytes + 1);
    assert_non_null(s);
    for (size_t i = 0; i < n_bytes; i++)
        s[i] = what[i % len];
    s[n_bytes] = 0;
    return s;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void hostile_text_costs_linear_time(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *begin, *unit;
    } cases[] = {
        {"hermes", "", "<tool_call>"},
        {"hermes", "", "<tool_call>{"},
        {"hermes", "", "<tool_call>{\"a\":"},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": ", "{\"a\":"},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"", "x"},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [", "1,"},
        {"hermes", "", " "},
        {"hermes", "<tool_call>", " "},
        {"qwen-xml", "", "<tool_call>\n<function=f>\n<parameter=s>\n"},
        {"qwen-xml", "<tool_call>\n<function=f>\n<parameter=s>\n", "</parameter>\n"},
        {"qwen-xml", "<tool_call>\n<function=f>\n<parameter=s>\n", "</parameter>        \n"},
        {"qwen-xml", "<tool_call>\n<function=f>\n", "<parameter=s>1</parameter>"},
        {"glm", "", "<tool_call>f<arg_key>"},
        {"glm", "<tool_call>", "f"},
        {"lfm2", "<|tool_call_start|>[f(a=", "["},
        {"lfm2", "<|tool_call_start|>[", "f(),"},
        {"gemma4", "<|tool_call>call:f{a:", "<|\"|>"},
        {"gemma4", "<|tool_call>call:f", "{a:"},
        {"mistral", "[TOOL_CALLS][", "{\"name\":\"f\",\"id\":\"a\"},"},
        {"mistral", "", "[TOOL_CALLS]f{}"},
        {"harmony", "", "<|channel|>"},
        {"harmony", "", "<|start|>assistant"},
        {"deepseek", "", "<｜tool▁calls▁begin｜>"},
        {"llama3", "", "{\"name\":"},
        {"functionary-v3.2", "", ">>>"},
    };
    enum { N = 1 << 20 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = repeat(cases[i].unit, N);
        memcpy(text, cases[i].begin, strlen(cases[i].begin));
        input in = {.dialect = cases[i].dialect, .tools = TOOLS, .text = text};
        double start = seconds();
        joined whole = {0}, bytes = {0};
        char *a = parse(&in, &whole, N, 0), *b = parse(&in, &bytes, 0, 7);
        assert_string_equal(a, b);
        if (seconds() - start > 10) fail_msg("%s, '%s': %g s", cases[i].dialect, cases[i].unit, seconds() - start);
        free(a);
        free(b);
        clear(&whole);
        clear(&bytes);
        free(text);
    }
}

/* The longest call there may be, one byte less, at every cut around it. */
static void a_call_has_a_longest_length(void **state)
{
    (void)state;
    static const char call[] = "A <tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"日本\"}}</tool_call> "
                               "<tool_call>{\"name\": \"g\"}</tool_call>";
    size_t first = strlen("<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"日本\"}}</tool_call>"),
           n = strlen(call);
    for (size_t limit = first - 20; limit <= first + 1; limit++) {
        char *want = NULL;
        for (size_t cut = 1; cut <= n; cut++) {
            sl_reply_options opt;
            sl_reply *r = NULL;
            sl_err err = {0};
            const char *json;
            size_t n_json;
            sl_reply_options_init(&opt);
            opt.dialect = "hermes";
            opt.tools = TOOLS;
            opt.max_call_bytes = limit;
            ASSERT_OK(sl_reply_open(&r, &opt, &err), err);
            push(r, call, cut);
            push(r, call + cut, n - cut);
            ASSERT_OK(sl_reply_finish(r, &err), err);
            assert_int_equal(sl_reply_call_count(r), limit >= first ? 2 : 1);
            ASSERT_OK(sl_reply_message(r, &json, &n_json, &err), err);
            if (!want) want = strdup(json);
            assert_string_equal(json, want);
            sl_reply_close(r);
        }
        free(want);
    }
}

static void limits_and_wrong_use_say_why(void **state)
{
    (void)state;
    sl_reply_options opt;
    sl_reply *r = NULL;
    sl_err err = {0};
    const char *json;
    size_t n;
    sl_reply_options_init(&opt);
    opt.dialect = "klingon";
    assert_int_equal(sl_reply_open(&r, &opt, &err), SL_ERR_ARG);
    assert_non_null(strstr(err.msg, "klingon"));
    opt.dialect = "hermes";
    static const char *const bad[] = {"{}", "[", "[1]", "[{\"function\": {}}]", "[{\"name\": 1}]"};
    for (size_t i = 0; i < 5; i++) {
        opt.tools = bad[i];
        assert_int_equal(sl_reply_open(&r, &opt, &err), SL_ERR_FORMAT);
        assert_non_null(strstr(err.msg, "tools"));
    }
    opt.tools = NULL;
    opt.max_bytes = 0;
    assert_int_equal(sl_reply_open(&r, &opt, &err), SL_ERR_ARG);
    opt.max_bytes = 10;
    opt.struct_size = 1;
    assert_int_equal(sl_reply_open(&r, &opt, &err), SL_ERR_ARG);
    opt.struct_size = sizeof opt;
    ASSERT_OK(sl_reply_open(&r, &opt, &err), err);
    assert_string_equal(sl_reply_dialect(r), "hermes");
    push(r, "0123456789", 10);
    assert_int_equal(sl_reply_push(r, "a", 1, &err), SL_ERR_LIMIT);
    assert_int_equal(sl_reply_push(r, "", 0, &err), SL_ERR_LIMIT);
    assert_int_equal(sl_reply_finish(r, &err), SL_ERR_LIMIT);
    assert_int_equal(sl_reply_message(r, &json, &n, &err), SL_ERR_LIMIT);
    sl_reply_close(r);
    opt.max_bytes = 100;
    ASSERT_OK(sl_reply_open(&r, &opt, &err), err);
    ASSERT_OK(sl_reply_message(r, &json, &n, &err), err);
    assert_string_equal(json, "{\"role\": \"assistant\", \"content\": \"\"}");
    ASSERT_OK(sl_reply_finish(r, &err), err);
    ASSERT_OK(sl_reply_finish(r, &err), err);
    assert_int_equal(sl_reply_push(r, "a", 1, &err), SL_ERR_ARG);
    sl_reply_close(r);
    sl_reply_close(NULL);
}

/* ---- allocation ---- */

typedef struct {
    unsigned calls, fail_at;
} alloc_fault;

static bool fault(void *user)
{
    alloc_fault *f = user;
    return ++f->calls == f->fail_at;
}

static sl_status run_once(const input *in, sl_err *err)
{
    sl_reply_options opt;
    sl_reply *r = NULL;
    const char *json;
    size_t n;
    sl_reply_options_init(&opt);
    opt.dialect = in->dialect;
    opt.chat_template = "</think>";
    opt.tools = TOOLS;
    sl_status rc = sl_reply_open(&r, &opt, err);
    for (const char *p = in->text; rc == SL_OK && *p; p++)
        rc = sl_reply_push(r, p, 1, err);
    if (rc == SL_OK) rc = sl_reply_finish(r, err);
    if (rc == SL_OK) rc = sl_reply_message(r, &json, &n, err);
    if (rc == SL_OK) assert_int_equal(sl_reply_call_count(r), 2);
    sl_reply_close(r);
    return rc;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    static const input inputs[] = {
        {.dialect = "hermes",
         .text = "<think>a</think>b <tool_call>{\"name\": \"f\", \"arguments\": "
                 "\"{}\"}</tool_call>\n<tool_call>{\"name\": \"g\", \"id\": \"\\u00e9\"}</tool_call> c"},
        {.dialect = "qwen-xml", .text = "a " QWEN(PARAM("s", "\"") PARAM("o", "{'a': 'b'}")) QWEN("")},
        {.dialect = "lfm2", .text = "<|tool_call_start|>[f(s='it\\'s', n=-1.5), g(x=\"[)\")]<|tool_call_end|>"},
        {.dialect = "kimi-k2",
         .text = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_"
                 "call_end|>"
                 "<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_"
                 "end|>"},
        {.dialect = "harmony",
         .text = "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant "
                 "to=functions.g<|channel|>commentary<|message|>{}"},
        {.dialect = "mistral",
         .text = "[TOOL_CALLS][{\"name\": \"f\", \"id\": \"123456789\"}, {\"name\": \"f\", \"id\": \"123456789\"}]"},
        {.dialect = "gemma4",
         .text = "<|tool_call>call:f{s:<|\"|>a<|\"|>}<tool_call|><|tool_call>call:g{}<tool_call|>"},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        uint64_t live = sl_alloc_live_bytes();
        for (unsigned n = 1;; n++) {
            alloc_fault f = {.fail_at = n};
            sl_err err = {0};
            sl_alloc_set_hook(fault, &f);
            sl_status rc = run_once(&inputs[i], &err);
            sl_alloc_set_hook(NULL, NULL);
            assert_int_equal(sl_alloc_live_bytes(), live);
            if (f.calls < n) {
                ASSERT_OK(rc, err);
                break;
            }
            if (rc != SL_ERR_NOMEM || !err.msg[0]) fail_msg("%s, allocation %u: status %d", inputs[i].dialect, n, rc);
            assert_true(n < 1000);
        }
    }
}

/* ---- what templates show ---- */

static void dialects_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *source, *dialect;
    } cases[] = {
        {NULL, "none"},
        {"{{ messages }}", "none"},
        {"'<tool_call>\\n'", "hermes"},
        {"<tool_call> <function= <parameter=", "qwen-xml"},
        {"<tool_call>...<arg_key>", "glm"},
        {"'[TOOL_CALLS]'", "mistral"},
        {"<｜tool▁calls▁begin｜>", "deepseek"},
        {"<|start|> <|channel|>analysis<|message|>", "harmony"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_reply *r = open_reply(&(input){.hints = cases[i].source}, NULL);
        assert_string_equal(sl_reply_dialect(r), cases[i].dialect);
        sl_reply_close(r);
    }
    assert_string_equal(sl_reply_dialect_name(0), "none");
    assert_null(sl_reply_dialect_name(sl_reply_dialect_count()));
    for (size_t i = 0; i < sl_reply_dialect_count(); i++) { /* names open, and are one each */
        sl_reply *r = open_reply(&(input){.dialect = sl_reply_dialect_name(i), .tools = TOOLS}, NULL);
        assert_string_equal(sl_reply_dialect(r), sl_reply_dialect_name(i));
        assert_false(sl_reply_needs(r, "\x01", 1)); /* looks at every step */
        sl_reply_close(r);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(sl_reply_dialect_name(i), sl_reply_dialect_name(k));
    }
}

/* ---- tokens ---- */

static const char VOCAB[] =
    "{\"added_tokens\": [{\"id\": 4, \"content\": \"<tool_call>\", \"special\": true}, {\"id\": 5, \"content\": "
    "\"</tool_call>\", \"special\": true}, {\"id\": 6, \"content\": \"<|fim|>\", \"special\": true}, {\"id\": 7, "
    "\"content\": \"</think>\", \"special\": false}, {\"id\": 8, \"content\": \"{\\\"name\\\": \\\"f\\\"}\", "
    "\"special\": false}], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": true}, \"model\": {\"type\": "
    "\"BPE\", "
    "\"vocab\": {\"a\": 0, \"\\u00c3\": 1, \"\\u00a9\": 2, \"b\": 3}, \"merges\": []}}";

static void tokens_show_only_what_the_dialect_knows(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 6, 1, 2, 7, 4, 8, 5, 6, 3};
    sl_tokenizer *t = NULL;
    sl_reply *r = NULL;
    sl_err err = {0};
    joined j = {0};
    sl_reply_options opt;
    ASSERT_OK(sl_tokenizer_parse_json(&t, "test", VOCAB, strlen(VOCAB), &err), err);
    sl_reply_options_init(&opt);
    opt.tokenizer = t; /* which has <tool_call> and </think>: so nothing else need be told */
    opt.tools = TOOLS;
    opt.each = each;
    opt.user = &j;
    opt.thinking = SL_THINKING_BEGUN;
    ASSERT_OK(sl_reply_open(&r, &opt, &err), err);
    assert_string_equal(sl_reply_dialect(r), "hermes");
    assert_true(sl_reply_needs(r, "<tool_call>", 11) && sl_reply_needs(r, "</tool_call>", 12));
    assert_true(sl_reply_needs(r, "<think>", 7) && sl_reply_needs(r, "</think>", 8));
    assert_false(sl_reply_needs(r, "<|fim|>", 7) || sl_reply_needs(r, "", 0));
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        ASSERT_OK(sl_reply_push_token(r, ids[i], &err), err);
    assert_int_equal(sl_reply_push_token(r, -1, &err), SL_ERR_ARG);
    assert_int_equal(sl_reply_push_token(r, 9, &err), SL_ERR_ARG);
    ASSERT_OK(sl_reply_finish(r, &err), err);
    assert_string_equal(text_of(&j, 0), "aé");
    assert_string_equal(text_of(&j, 1), "b");
    assert_int_equal(j.calls, 1);
    sl_reply_close(r);
    sl_tokenizer_close(t);
    clear(&j);
    r = open_reply(&(input){.dialect = "harmony", .tools = TOOLS}, NULL);
    static const char *const harmony_tokens[] = {"<|start|>",   "<|channel|>", "<|constrain|>",
                                                 "<|message|>", "<|end|>",     "<|call|>"};
    for (size_t i = 0; i < 6; i++)
        assert_true(sl_reply_needs(r, harmony_tokens[i], strlen(harmony_tokens[i])));
    assert_int_equal(sl_reply_push_token(r, 0, &err), SL_ERR_ARG);
    sl_reply_close(r);
    r = open_reply(&(input){.dialect = "gemma4", .tools = TOOLS}, NULL);
    assert_true(sl_reply_needs(r, "<|\"|>", 5) && sl_reply_needs(r, "<tool_call|>", 12) &&
                !sl_reply_needs(r, "<turn|>", 7));
    sl_reply_close(r);
}

/* ---- renderings of real templates ---- */

static bool same(const sl_json *a, const sl_json *b)
{
    double x, y;
    bool p, q;
    size_t n, m;
    if (sl_json_is_string(a)) {
        const char *s = sl_json_string(a, &n), *t = sl_json_string(b, &m);
        return t && n == m && memcmp(s, t, n) == 0;
    }
    if (sl_json_number(a, &x)) return sl_json_number(b, &y) && x == y;
    if (sl_json_bool(a, &p)) return sl_json_bool(b, &q) && p == q;
    if (sl_json_count(a) != sl_json_count(b) || sl_json_is_object(a) != sl_json_is_object(b)) return false;
    if (sl_json_is_array(a)) {
        for (size_t i = 0; i < sl_json_count(a); i++)
            if (!same(sl_json_at(a, i), sl_json_at(b, i))) return false;
        return sl_json_is_array(b);
    }
    void *iter = NULL;
    const char *key;
    const sl_json *v;
    while (sl_json_next(a, &iter, &key, &v))
        if (!same(v, sl_json_get(b, key))) return false;
    return sl_json_is_object(a) || !sl_json_is_array(b);
}

static const char *str(const sl_json *row, const char *key)
{
    size_t n;
    const char *s = sl_json_string(sl_json_get(row, key), &n);
    return s ? s : "";
}

static void assert_row(const sl_json *row, const char *json)
{
    sl_json *m = NULL;
    sl_err err = {0};
    const sl_json *want = sl_json_get(row, "message"), *calls = sl_json_get(want, "tool_calls");
    ASSERT_OK(sl_json_parse(&m, "message", json, strlen(json), &err), err);
    const sl_json *got = sl_json_get(m, "tool_calls");
    bool ok = strcmp(str(m, "content"), str(want, "content")) == 0 &&
              strcmp(str(m, "reasoning_content"), str(want, "reasoning_content")) == 0 &&
              sl_json_count(got) == sl_json_count(calls);
    for (size_t i = 0; ok && i < sl_json_count(calls); i++) {
        const sl_json *f = sl_json_get(sl_json_at(got, i), "function"), *w = sl_json_at(calls, i);
        const char *text = str(f, "arguments");
        sl_json *args = NULL;
        ASSERT_OK(sl_json_parse(&args, "arguments", text, strlen(text), &err), err);
        ok = strcmp(str(f, "name"), str(w, "name")) == 0 && same(args, sl_json_get(w, "arguments"));
        sl_json_free(args);
    }
    if (!ok) fail_msg("%s, %s: %s", str(row, "template"), str(row, "case"), json);
    sl_json_free(m);
}

static void real_templates_come_back(void **state)
{
    (void)state;
    FILE *f = fopen("tests/fixtures/replies/rendered.jsonl", "r");
    char *line = NULL, *tools = NULL;
    size_t cap = 0, n_row = 0;
    ssize_t n;
    assert_non_null(f);
    while ((n = getline(&line, &cap, f)) > 0) {
        if (!tools) { /* the first line */
            tools = strdup(line);
            continue;
        }
        sl_json *row = NULL;
        sl_err err = {0};
        joined j = {0};
        ASSERT_OK(sl_json_parse(&row, "fixture", line, (size_t)n, &err), err);
        input in = {.dialect = str(row, "dialect"),
                    .hints = str(row, "hints"),
                    .prompt = str(row, "prompt"),
                    .tools = tools,
                    .text = str(row, "text")};
        char *got = parse_all_ways(&in, &j);
        assert_row(row, got);
        free(got);
        clear(&j);
        sl_json_free(row);
        n_row++;
    }
    assert_true(n_row > 100);
    free(tools);
    free(line);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thinking_in_prompt_or_output),
        cmocka_unit_test(thinking_can_be_set),
        cmocka_unit_test(calls_inside_thinking_are_text),
        cmocka_unit_test(space_around_calls_is_nobodys),
        cmocka_unit_test(hermes_calls),
        cmocka_unit_test(malformed_calls_are_text),
        cmocka_unit_test(without_tools_calls_are_text),
        cmocka_unit_test(parameters_are_typed_by_the_schema),
        cmocka_unit_test(tagged_parameters),
        cmocka_unit_test(bare_json_calls),
        cmocka_unit_test(names_in_markers),
        cmocka_unit_test(markers_that_only_surround),
        cmocka_unit_test(dsml_parameters_have_types),
        cmocka_unit_test(harmony_channels),
        cmocka_unit_test(ids_suit_their_dialect),
        cmocka_unit_test(broken_characters_become_one_mark),
        cmocka_unit_test(text_is_released_at_once),
        cmocka_unit_test(hostile_text_costs_linear_time),
        cmocka_unit_test(a_call_has_a_longest_length),
        cmocka_unit_test(limits_and_wrong_use_say_why),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(dialects_are_found),
        cmocka_unit_test(tokens_show_only_what_the_dialect_knows),
        cmocka_unit_test(real_templates_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
