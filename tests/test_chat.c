/* Chat templates of a model: where they are found, the form that messages get, turns that are continued, and ids in which
 * nobody can forge a turn. */
#include "tok_build.h"

#include "base/json.h"
#include "text/chat_int.h"

static sl_chat *open_text(const char *source)
{
    sl_chat *c = NULL;
    sl_err err = {0};
    if (sl_chat_open_text(&c, "T", source, strlen(source), &err) != SL_OK) fail_msg("%s", err.msg);
    return c;
}

static sl_status try_render(const sl_chat *c, const char *json, char **text_, sl_err *err)
{
    sl_chat_prompt *p = NULL;
    size_t n;
    *text_ = NULL;
    sl_status rc = sl_chat_render(&p, c, json, strlen(json), NULL, err);
    if (rc == SL_OK) *text_ = strdup(sl_chat_prompt_text(p, &n));
    sl_chat_prompt_close(p);
    return rc;
}

static void check_prompt(const sl_chat *c, const char *json, const char *want)
{
    sl_err err = {0};
    char *got;
    if (try_render(c, json, &got, &err) != SL_OK) fail_msg("%s: %s", json, err.msg);
    assert_string_equal(got, want);
    free(got);
}

static void check_no_prompt(const sl_chat *c, const char *json, sl_status want, const char *words)
{
    sl_err err = {0};
    char *got;
    sl_status rc = try_render(c, json, &got, &err);
    free(got);
    if (rc != want || !strstr(err.msg, words)) fail_msg("%s: %d %s", json, rc, err.msg);
}

/* ---- the form of messages ---- */

#define EACH(body)   "{% for m in messages %}" body "{% endfor %}"
#define TEXTS        EACH("[{{ m.role + ':' + m.content }}]")
#define USER(c)      "{\"messages\": [{\"role\": \"user\", \"content\": " c "}]}"
#define PARTS        "[{\"type\": \"text\", \"text\": \"one\"}, {\"type\": \"text\", \"text\": \" two\"}]"
#define CALL(content, args)                                                                                            \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", " content                       \
    "\"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": " args "}}]}]}"

static void test_messages_get_the_form(void **state)
{
    (void)state;
    static const struct {
        const char *source, *json, *want;
    } rows[] = {
        {TEXTS, USER("\"hi\""), "[user:hi]"},
        {TEXTS, "[{\"role\": \"user\", \"content\": \"hi\"}]", "[user:hi]"},
        {TEXTS, USER(PARTS), "[user:one two]"},
        {TEXTS, USER("null"), "[user:]"},
        {TEXTS, "[{\"role\": \"user\"}]", "[user:]"},
        {EACH("{% if m.content is string %}S{{ m.content }}{% else %}{% for p in m.content %}P{{ p.text }}{% endfor %}{% endif %}"),
         USER(PARTS), "PoneP two"},
        {EACH("{% for p in m.content %}P{{ p.text }}{% endfor %}"), USER("\"hi\""), "Phi"},
        {TEXTS, "[{\"role\": \"developer\", \"content\": \"d\"}, {\"role\": \"user\", \"content\": \"u\"}]", "[system:d][user:u]"},
        {EACH("{% if m.role == 'developer' %}D{% endif %}{{ m.content }}"),
         "[{\"role\": \"developer\", \"content\": \"d\"}]", "Dd"},
        {EACH("{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}[{{ m.content }}]"),
         "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"u\"}]", "[S\n\nu]"},
        /* arguments */
        {EACH("{% for c in m.tool_calls %}{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %}"),
         CALL("\"content\": \"\", ", "\"{\\\"a\\\": 1}\""), "a=1"},
        {EACH("{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}"),
         CALL("", "\"{\\\"a\\\": [1, 2.0]}\""), "{\"a\": [1, 2.0]}"},
        {EACH("{% for c in m.tool_calls %}{{ '<' + c.function.arguments + '>' }}{% endfor %}"),
         CALL("", "{\"a\": [1, null, \"x\"]}"), "<{\"a\": [1, null, \"x\"]}>"},
        /* no content beside a call */
        {EACH("{% if m.tool_calls %}{% if m.content is none %}{{ m.tool_calls[0].function.arguments.arg | default('N') }}"
              "{% endif %}{% else %}{{ m.content }}{% endif %}"), CALL("", "{}"), "uN"},
        {EACH("{{ m.content + (m.tool_calls | tojson if m.tool_calls else '') }}"), CALL("\"content\": null, ", "{}"),
         "u[{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]"},
        {EACH("{% if 'content' in m %}C{% endif %}{{ m.tool_calls | tojson if m.tool_calls }}"), CALL("\"content\": null, ", "{}"),
         "C[{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]"},
        /* variables */
        {"{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ x }}", USER("\"h\""), "TrueTrueTrue"},
        {"{{ add_generation_prompt }}", "[{\"role\": \"assistant\", \"content\": \"h\"}]", "False"},
        {"{{ add_generation_prompt }}", "{\"messages\": [], \"add_generation_prompt\": false}", "False"},
        {"{{ x }}{{ enable_thinking }}", "{\"messages\": [], \"x\": 1, \"chat_template_kwargs\": {\"enable_thinking\": false}}",
         "1False"},
        {EACH("{{ m.reasoning_content }}/{{ m.thinking }}"),
         "[{\"role\": \"assistant\", \"content\": \"\", \"reasoning\": \"r\", \"name\": null}]", "r/r"},
        {EACH("{{ m.name is defined }}"), "[{\"role\": \"user\", \"content\": \"\", \"name\": null}]", "False"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sl_chat *c = open_text(rows[i].source);
        sl_err err = {0};
        char *got;
        if (try_render(c, rows[i].json, &got, &err) != SL_OK) fail_msg("%s: %s", rows[i].source, err.msg);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s\n%s\ngives %s, not %s", rows[i].source, rows[i].json, got, rows[i].want);
        free(got);
        sl_chat_close(c);
    }
}

static void test_wrong_requests_name_the_place(void **state)
{
    (void)state;
    sl_chat *c = open_text(TEXTS), *t = open_text(TEXTS "{{ tools }}");
    check_no_prompt(c, "[3]", SL_ERR_ARG, "messages[0]: must be an object");
    check_no_prompt(c, "[{\"content\": \"x\"}]", SL_ERR_ARG, "messages[0]: a role is missing");
    check_no_prompt(c, USER("5"), SL_ERR_ARG, "messages[0]: the content must be");
    check_no_prompt(c, USER("[{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"image_url\"}]"), SL_ERR_ARG,
                  "messages[0].content[1]: parts of type 'image_url'");
    check_no_prompt(c, USER("[7]"), SL_ERR_ARG, "messages[0].content[0]: must be a part");
    check_no_prompt(c, "{\"messages\": [], \"tools\": [{}]}", SL_ERR_UNSUPPORTED, "no place for tools");
    check_no_prompt(c, CALL("", "\"{\""), SL_ERR_ARG, "the arguments of a tool call is no JSON");
    check_no_prompt(c, "{}", SL_ERR_ARG, "no list of messages");
    check_no_prompt(c, "5", SL_ERR_ARG, "no list of messages");
    check_prompt(t, "{\"messages\": [], \"tools\": [1]}", "[1]");
    sl_chat_close(c);
    sl_chat_close(t);
}

/* ---- continuing ---- */

#define CONTINUE(content)                                                                                              \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": " content           \
    "}], \"continue_final_message\": true}"

static void test_last_message_is_continued(void **state)
{
    (void)state;
    sl_chat *plain = open_text(EACH("<{{ m.content }}>")), *trim = open_text(EACH("<{{ m.content | trim }}>"));
    sl_chat *lost = open_text("{{ messages[0].content }}");
    check_prompt(plain, CONTINUE("\"It is\""), "<u><It is");
    check_prompt(plain, CONTINUE("\"It is \\n\""), "<u><It is \n");
    check_prompt(trim, CONTINUE("\"It is \\n\""), "<u><It is");
    check_prompt(plain, CONTINUE(PARTS), "<u><one two");
    check_prompt(plain, CONTINUE("\"\""), "<u><");
    check_no_prompt(lost, CONTINUE("\"x\""), SL_ERR_ARG, "does not appear in the prompt");
    check_no_prompt(plain, "{\"messages\": [], \"continue_final_message\": true}", SL_ERR_ARG, "no message to continue");
    check_no_prompt(plain, "{\"messages\": [], \"continue_final_message\": true, \"add_generation_prompt\": true}", SL_ERR_ARG,
                  "exclude each other");
    sl_chat_close(plain);
    sl_chat_close(trim);
    sl_chat_close(lost);
}

/* ---- where templates are ---- */

/* A byte-level vocabulary with <s> 256, </s> 257 and the text "ab" 258; templates as given. */
static char *write_gguf(const char *dir, const char *plain, const char *tool_use, bool add_bos)
{
    bytes b = {0};
    head(&b, 3, 0, 9 + !!plain + 2 * !!tool_use);
    kv_str(&b, "general.architecture", "llama");
    kv_str(&b, "tokenizer.ggml.model", "gpt2");
    kv_str(&b, "tokenizer.ggml.pre", "gpt-2");
    kv_array(&b, "tokenizer.ggml.tokens", SL_GV_STRING, 259);
    for (unsigned i = 0; i < 256; i++) {
        char c[4];
        disguise(i, c);
        str(&b, c);
    }
    str(&b, "<s>"), str(&b, "</s>"), str(&b, "ab");
    kv_array(&b, "tokenizer.ggml.token_type", SL_GV_I32, 259);
    for (unsigned i = 0; i < 259; i++)
        u32(&b, i == 256 || i == 257 ? 3 : 1);
    kv_array(&b, "tokenizer.ggml.merges", SL_GV_STRING, 1), str(&b, "a b");
    kv(&b, "tokenizer.ggml.bos_token_id", SL_GV_U32), u32(&b, 256);
    kv(&b, "tokenizer.ggml.eos_token_id", SL_GV_U32), u32(&b, 257);
    kv(&b, "tokenizer.ggml.add_bos_token", SL_GV_BOOL), u8(&b, add_bos);
    if (plain) kv_str(&b, "tokenizer.chat_template", plain);
    if (tool_use) {
        kv_array(&b, "tokenizer.chat_templates", SL_GV_STRING, 1), str(&b, "tool_use");
        kv_str(&b, "tokenizer.chat_template.tool_use", tool_use);
    }
    pad(&b, 32);
    put_bytes(dir, "m.gguf", &b);
    return strdup(in_dir(dir, "m.gguf"));
}

static sl_chat *open_model(const char *model, const char *choice)
{
    sl_chat *c = NULL;
    sl_err err = {0};
    if (sl_chat_open(&c, model, choice, NULL, NULL, &err) != SL_OK) fail_msg("%s", err.msg);
    return c;
}

static void test_gguf_templates(void **state)
{
    (void)state;
    char *dir = dir_new(), *model = write_gguf(dir, "D{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}", "T{{ tools }}", false);
    sl_chat *c = open_model(model, NULL);
    size_t n;
    check_prompt(c, "[]", "D<s></s>False");
    check_prompt(c, "{\"messages\": [], \"tools\": []}", "D<s></s>False");
    check_prompt(c, "{\"messages\": [], \"tools\": null}", "D<s></s>False");
    check_prompt(c, "{\"messages\": [], \"tools\": [{\"a\": 1}]}", "T[{'a': 1}]");
    assert_string_equal(sl_chat_template(c, true, &n), "T{{ tools }}");
    assert_int_equal(n, 12);
    assert_int_equal(sl_chat_template(c, false, &n)[0], 'D');
    sl_chat_close(c);
    c = open_model(model, "chatml");
    check_prompt(c, "[{\"role\": \"user\", \"content\": \"u\"}]", "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n");
    sl_chat_close(c);
    free(model);
    dir_free(dir);
}

static void test_models_without_a_template(void **state)
{
    (void)state;
    char *dir = dir_new(), *model = write_gguf(dir, NULL, NULL, false);
    sl_chat *c = NULL;
    sl_err err = {0};
    assert_int_equal(sl_chat_open(&c, model, NULL, NULL, NULL, &err), SL_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "the model has no chat template"));
    assert_int_equal(sl_chat_open(&c, model, "nope", NULL, NULL, &err), SL_ERR_ARG);
    assert_non_null(strstr(err.msg, "chatml, gemma, llama2, llama3, mistral, phi3, zephyr"));
    put_file(dir, "t.jinja", "F{{ bos_token }}", 16);
    c = open_model(model, in_dir(dir, "t.jinja"));
    check_prompt(c, "[]", "F<s>");
    sl_chat_close(c);
    free(model);
    dir_free(dir);
}

/* A folder that is a model by links to a fixture's files. */
static char *model_folder(const char *config)
{
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json"};
    char *dir = dir_new(), from[400], to[300], here[200];
    if (!getcwd(here, sizeof here)) abort();
    for (size_t i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "%s/tests/fixtures/tiny/llama/hf/%s", here, names[i]);
        snprintf(to, sizeof to, "%s/%s", dir, names[i]);
        if (symlink(from, to) != 0) abort();
    }
    put_file(dir, "tokenizer_config.json", config, strlen(config));
    return dir;
}

static void test_folder_templates(void **state)
{
    (void)state;
    char *dir = model_folder("{\"bos_token\": {\"content\": \"<B>\", \"lstrip\": false}, \"eos_token\": \"<E>\", \"chat_template\": "
                             "[{\"name\": \"tool_use\", \"template\": \"T\"}, {\"name\": \"default\", \"template\": "
                             "\"D{{ bos_token + eos_token }}\"}], \"tokenizer_class\": {\"x\": [1]}}");
    sl_chat *c = open_model(dir, NULL);
    check_prompt(c, "[]", "D<B><E>");
    check_prompt(c, "{\"x\": {\"tools\": []}, \"tools\": [1], \"messages\": []}", "T");
    sl_chat_close(c);
    put_file(dir, "chat_template.json", "{\"chat_template\": \"J\"}", 22);
    c = open_model(dir, NULL);
    check_prompt(c, "[]", "J");
    sl_chat_close(c);
    put_file(dir, "chat_template.jinja", "F{{ eos_token }}\n", 17);
    c = open_model(dir, NULL);
    check_prompt(c, "[]", "F<E>");
    sl_chat_close(c);
    dir_free(dir);
}

static void test_own_templates(void **state)
{
    (void)state;
    static const struct {
        const char *name, *want;
    } rows[] = {
        {"chatml", "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
                   "<|im_start|>assistant\n"},
        {"gemma", "<s><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n<start_of_turn>user\n"
                  "c<end_of_turn>\n<start_of_turn>model\n"},
        {"llama2", "<s>[INST] a [/INST] b </s><s>[INST] c [/INST]"},
        {"llama3", "<s><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
                   "b<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nc<|eot_id|>"
                   "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        {"mistral", "<s>[INST] a[/INST] b</s>[INST] c[/INST]"},
        {"phi3", "<|user|>\na<|end|>\n<|assistant|>\nb<|end|>\n<|user|>\nc<|end|>\n<|assistant|>\n"},
        {"zephyr", "<|user|>\na</s>\n<|assistant|>\nb</s>\n<|user|>\nc</s>\n<|assistant|>\n"},
    };
    char *dir = dir_new(), *model = write_gguf(dir, NULL, NULL, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sl_chat *c = open_model(model, rows[i].name);
        check_prompt(c, "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, "
                        "{\"role\": \"user\", \"content\": \"c\"}]", rows[i].want);
        sl_chat_close(c);
    }
    free(model);
    dir_free(dir);
}

/* ---- ids ---- */

static void check_chat_ids(const char *plain, bool add_bos, const char *json, const int *want, int line)
{
    char *dir = dir_new(), *model = write_gguf(dir, plain, NULL, add_bos);
    sl_chat *c = open_model(model, NULL);
    sl_tokenizer *t = NULL;
    sl_chat_prompt *p = NULL;
    sl_err err = {0};
    int32_t ids[64];
    size_t n = 0, i = 0;
    assert_int_equal(sl_tokenizer_open(&t, model, NULL, NULL, &err), SL_OK);
    if (sl_chat_render(&p, c, json, strlen(json), NULL, &err) != SL_OK) fail_msg("%s", err.msg);
    assert_int_equal(sl_chat_prompt_tokenize(p, t, ids, 64, &n, &err), SL_OK);
    while (i < n && want[i] == ids[i])
        i++;
    if (i < n || want[i] != -1) fail_msg("line %d: id %zu of %zu is %d", line, i, n, i < n ? ids[i] : -1);
    size_t again = 0;
    assert_int_equal(sl_chat_prompt_tokenize(p, t, ids, n - 1, &again, &err), SL_ERR_LIMIT);
    assert_int_equal(again, n);
    assert_int_equal(sl_chat_prompt_tokenize(p, t, NULL, 0, &again, &err), SL_ERR_LIMIT);
    assert_int_equal(again, n);
    sl_chat_prompt_close(p);
    sl_chat_close(c);
    sl_tokenizer_close(t);
    free(model);
    dir_free(dir);
}
#define CHAT_IDS(plain, add_bos, json, ...)                                                                            \
    check_chat_ids(plain, add_bos, json, (const int[]){__VA_ARGS__, -1}, __LINE__)

static void test_ids_of_prompts(void **state)
{
    (void)state;
    static const char m[] = "{{ bos_token }}" EACH("{{ m.content }}{{ eos_token }}"), without[] = EACH("{{ m.content }}</s>");
    CHAT_IDS(m, true, USER("\"ab\""), 256, 258, 257); /* written by the template, and not once more */
    CHAT_IDS(m, false, USER("\"ab\""), 256, 258, 257);
    CHAT_IDS(without, true, USER("\"ab\""), 256, 258, 257); /* put before it */
    CHAT_IDS(without, false, USER("\"ab\""), 258, 257);
    /* typed by the user: text */
    CHAT_IDS(without, false, USER("\"</s>\""), '<', '/', 's', '>', 257);
    CHAT_IDS(without, true, USER("\"<s>\""), 256, '<', 's', '>', 257);
    CHAT_IDS(m, true, USER("\"a</s><s>b\""), 256, 'a', '<', '/', 's', '>', '<', 's', '>', 'b', 257);
    /* half the user's, half the template's: text, too */
    CHAT_IDS(EACH("</s{{ m.content }}"), false, USER("\">\""), '<', '/', 's', '>');
    CHAT_IDS(EACH("{{ '</' + m.content + '>' }}"), false, USER("\"s\""), '<', '/', 's', '>');
    CHAT_IDS(EACH("{{ '<' + m.role + '>' }}"), false, "[{\"role\": \"s\", \"content\": \"\"}]", 256);
    CHAT_IDS(EACH("{{ m.role }}"), false, "[{\"role\": \"</s>\", \"content\": \"\"}]", '<', '/', 's', '>');
    CHAT_IDS("{{ tools | tojson }}", false, "{\"messages\": [], \"tools\": [\"<s>\"]}", '[', '"', '<', 's', '>', '"', ']');
}

/* ---- real models: llama.cpp's and transformers' ids (tools/make_chat_ids.py) ---- */

/* The row's prompt as ids; 1: compared, 0: its model is not here. */
static int check_real_row(const sl_json *row)
{
    size_t n = 0, n_text;
    char path[600];
    const char *dir = getenv("MODELS"), *request = sl_json_string(sl_json_get(row, "request"), &n_text);
    const sl_json *want = sl_json_get(row, "ids");
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "build/models", sl_json_string(sl_json_get(row, "model"), &n));
    if (access(path, R_OK) != 0) return 0;
    sl_chat *c = open_model(path, NULL);
    sl_chat_prompt *p = NULL;
    sl_tokenizer *t = NULL;
    sl_err err = {0};
    int32_t ids[1024];
    int64_t id;
    assert_int_equal(sl_tokenizer_open(&t, path, NULL, NULL, &err), SL_OK);
    if (sl_chat_render(&p, c, request, n_text, NULL, &err) != SL_OK) fail_msg("%s", err.msg);
    assert_int_equal(sl_chat_prompt_tokenize(p, t, ids, 1024, &n, &err), SL_OK);
    assert_int_equal(n, sl_json_count(want));
    for (size_t i = 0; i < n; i++) {
        assert_true(sl_json_int(sl_json_at(want, i), &id));
        if (id != ids[i]) fail_msg("%s: id %zu is %d, not %d", request, i, ids[i], (int)id);
    }
    sl_chat_prompt_close(p);
    sl_tokenizer_close(t);
    sl_chat_close(c);
    return 1;
}

static void test_ids_of_real_models(void **state)
{
    (void)state;
    static char text_[1 << 16];
    FILE *f = fopen("tests/fixtures/template/ids.json", "rb");
    assert_non_null(f);
    size_t n = fread(text_, 1, sizeof text_, f), n_compared = 0;
    fclose(f);
    sl_json *root;
    sl_err err = {0};
    if (sl_json_parse(&root, "ids.json", text_, n, &err) != SL_OK) fail_msg("%s", err.msg);
    const sl_json *rows = sl_json_get(root, "rows");
    assert_true(sl_json_count(rows) >= 5);
    for (size_t i = 0; i < sl_json_count(rows); i++)
        n_compared += (size_t)check_real_row(sl_json_at(rows, i));
    sl_json_free(root);
    if (!n_compared) {
        puts("skip: no real model is there");
        skip();
    }
}

/* ---- allocations that fail ---- */

typedef struct {
    int calls, fail_at;
} failing;

static bool should_fail(void *user)
{
    failing *f = user;
    return ++f->calls == f->fail_at;
}

static void test_opening_survives_any_failed_allocation(void **state)
{
    (void)state;
    char *dir = model_folder("{\"bos_token\": {\"content\": \"<B>\"}, \"eos_token\": \"<E>\", \"chat_template\": [{\"name\": "
                             "\"default\", \"template\": \"{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}\"}]}");
    sl_status rc = SL_ERR_NOMEM;
    int n = 1;
    for (; rc != SL_OK && n < 20000; n++) {
        failing f = {.fail_at = n};
        sl_err err = {0};
        sl_chat *c = NULL;
        uint64_t live = sl_alloc_live_bytes();
        sl_alloc_set_hook(should_fail, &f);
        rc = sl_chat_open(&c, dir, NULL, NULL, NULL, &err);
        sl_alloc_set_hook(NULL, NULL);
        if (rc != SL_OK && (rc != SL_ERR_NOMEM || !err.msg[0])) fail_msg("allocation %d: %d %s", n, rc, err.msg);
        sl_chat_close(c);
        assert_int_equal(sl_alloc_live_bytes(), live);
    }
    assert_int_equal(rc, SL_OK);
    assert_true(n > 40);
    dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_get_the_form),
        cmocka_unit_test(test_wrong_requests_name_the_place),
        cmocka_unit_test(test_last_message_is_continued),
        cmocka_unit_test(test_gguf_templates),
        cmocka_unit_test(test_models_without_a_template),
        cmocka_unit_test(test_folder_templates),
        cmocka_unit_test(test_own_templates),
        cmocka_unit_test(test_ids_of_prompts),
        cmocka_unit_test(test_ids_of_real_models),
        cmocka_unit_test(test_opening_survives_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
