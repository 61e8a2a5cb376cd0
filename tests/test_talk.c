/* The parts of sluice chat: JSON walked and messages kept; ten turns that read only what is new and say what a fresh reading
 * of the whole says. */
#include "cli/chat_voice.h"
#include "cli/json_in.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char tiny[] = "tests/fixtures/tiny/qwen2/qwen2-f32.gguf";
static const char smollm2_name[] = "smollm2-135m-instruct-q4_1.gguf";

/* ---- JSON ---- */

static void test_walk(void **state)
{
    (void)state;
    static const char text[] = " {\"a\" : [1, {\"x\": \"]}\\\"\"}] , \"b\":\"c,d\", \"e\": tru }";
    static const char *const keys[] = {"a", "b", "e"}, *const values[] = {"[1, {\"x\": \"]}\\\"\"}]", "\"c,d\"", "tru"};
    cli_json_walk w;
    cli_json_item item;
    assert_true(cli_json_walk_begin(&w, text, sizeof text - 1));
    for (size_t i = 0; i < 3; i++) {
        assert_true(cli_json_walk_next(&w, &item));
        assert_int_equal(item.n_key, 1);
        assert_memory_equal(item.key, keys[i], 1);
        assert_int_equal(item.n_value, strlen(values[i]));
        assert_memory_equal(item.value, values[i], item.n_value);
    }
    assert_false(cli_json_walk_next(&w, &item));
    assert_true(cli_json_find(text, sizeof text - 1, "b", &item));
    assert_false(cli_json_find(text, sizeof text - 1, "c", &item));
}

/* Any beginning of a text, in a block of its own so that a byte too far is seen by a sanitizer: ends, and stays inside. */
static void test_walk_cut(void **state)
{
    (void)state;
    static const char text[] = "[{\"role\": \"us\\\"er\", \"n\": [[1], {}]}, 5, \"\\\\\"]";
    for (size_t n = 0; n < sizeof text; n++) {
        char *part = malloc(n + 1);
        cli_json_walk w;
        cli_json_item item;
        size_t n_item = 0;
        memcpy(part, text, n);
        char *exact = realloc(part, n ? n : 1);
        if (cli_json_walk_begin(&w, exact, n)) {
            while (cli_json_walk_next(&w, &item)) {
                assert_true(item.value >= exact && item.value + item.n_value <= exact + n);
                cli_json_find(item.value, item.n_value, "n", &(cli_json_item){0});
                assert_true(++n_item <= 3);
            }
        }
        free(exact);
    }
}

/* ---- messages ---- */

static void test_talk(void **state)
{
    (void)state;
    cli_talk t = {0};
    char *request = NULL;
    size_t n = 0;
    assert_int_equal(cli_talk_set_system(&t, "S"), CLI_DONE);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(cli_talk_add(&t, CLI_ROLE_USER, "q\n\"\xff", 4), CLI_DONE);
        assert_int_equal(cli_talk_add_json(&t, CLI_ROLE_ASSISTANT, "{\"role\": \"assistant\"}", 21), CLI_DONE);
    }
    assert_int_equal(cli_talk_turns(&t), 20);
    cli_talk_drop_oldest(&t, 19);
    assert_int_equal(t.n, 3);
    assert_int_equal(cli_talk_set_system(&t, "T"), CLI_DONE);
    assert_int_equal(cli_talk_request(&t, 0, &request, &n), CLI_DONE);
    assert_string_equal(request, "{\"messages\": [{\"role\": \"system\", \"content\": \"T\"}, {\"role\": \"user\", \"content\": "
                                 "\"q\\n\\\"\xef\xbf\xbd\"}, {\"role\": \"assistant\"}], \"enable_thinking\": false, "
                                 "\"add_generation_prompt\": true}");
    free(request);
    assert_int_equal(cli_talk_set_system(&t, ""), CLI_DONE);
    assert_false(cli_talk_has_system(&t));
    assert_int_equal(t.n, 2);
    cli_talk_drop_oldest(&t, 5);
    assert_int_equal(t.n, 0);
    cli_talk_free(&t);
}

/* ---- ten turns ---- */

static const char *const questions[] = {
    "Hello! Who are you?",
    "What is the capital of France?",
    "And of Italy?",
    "Write a haiku about rain.",
    "Now in capital letters: \"rain\".",
    "Wie heißt du? Antworte auf Deutsch.",
    "Count from one to five.",
    "def f(x):\n    return x + 1\n\nWhat does f(2) return?",
    "Is that right? \xf0\x9f\x99\x82",
    "Thanks, goodbye.",
};

enum { N_TURNS = sizeof questions / sizeof *questions };

static cli_options options(const char *model, const char *template, uint32_t n_predict)
{
    cli_options o;
    assert_int_equal(cli_options_init(&o, CLI_CHAT), CLI_DONE);
    cli_set_quiet(true);
    o.model = model;
    o.chat_template = template;
    o.sampler.temp = 0;
    o.n_predict = n_predict;
    o.engine.ctx_tok = 1500;
    o.engine.n_threads = 1;
    return o;
}

/* Asks; the answer joins the talk. */
static void ask(cli_partner *p, const cli_options *o, cli_talk *t, const char *text, cli_turn *turn)
{
    const char *message;
    size_t n_bytes;
    assert_int_equal(cli_talk_add(t, CLI_ROLE_USER, text, strlen(text)), CLI_DONE);
    assert_int_equal(cli_partner_answer(p, o, t, NULL, NULL, turn, &message, &n_bytes), CLI_DONE);
    assert_non_null(message);
    assert_int_equal(cli_talk_add_json(t, CLI_ROLE_ASSISTANT, message, n_bytes), CLI_DONE);
}

/* The same turn by a session that held nothing: the same tokens.  talk's last message is the answer. */
static void assert_fresh_is_same(cli_partner *fresh, const cli_partner *p, const cli_options *o, cli_talk *t,
                                 const cli_turn *turn)
{
    const char *message;
    size_t n_bytes;
    cli_turn again;
    cli_talk asked = *t;
    asked.n--;
    sl_session_reset(fresh->m.session);
    assert_int_equal(cli_partner_answer(fresh, o, &asked, NULL, NULL, &again, &message, &n_bytes), CLI_DONE);
    assert_int_equal(again.n_kept, 0);
    assert_int_equal(again.n_prompt, turn->n_prompt);
    assert_int_equal(again.n_token, turn->n_token);
    assert_memory_equal(fresh->made, p->made, turn->n_token * sizeof *p->made);
    assert_memory_equal(message, t->messages[t->n - 1].json, n_bytes);
}

/* keeps_all: the template renders an answer as it was generated, so all that the session holds is kept. */
static void converse(const char *model, const char *template, uint32_t n_predict, bool keeps_all)
{
    cli_options o = options(model, template, n_predict);
    cli_partner p, fresh;
    cli_talk t = {0};
    size_t n_last_prompt = 0, n_fed = 0, n_prompt = 0;
    assert_int_equal(cli_partner_open(&p, &o), CLI_DONE);
    assert_int_equal(cli_partner_open(&fresh, &o), CLI_DONE);
    for (int i = 0; i < N_TURNS; i++) {
        cli_turn turn;
        size_t n_held = sl_session_pos_tok(p.m.session);
        ask(&p, &o, &t, questions[i], &turn);
        if (keeps_all) assert_int_equal(turn.n_kept, n_held);
        assert_true(turn.n_kept + 1 >= n_last_prompt);
        assert_fresh_is_same(&fresh, &p, &o, &t, &turn);
        n_last_prompt = turn.n_prompt;
        n_prompt += turn.n_prompt;
        n_fed += turn.n_prompt - turn.n_kept;
    }
    print_message("%d turns: %zu tokens of prompts, %zu of them read\n", N_TURNS, n_prompt, n_fed);
    assert_true(n_fed < n_prompt / 3);
    cli_talk_free(&t);
    cli_partner_close(&p);
    cli_partner_close(&fresh);
}

static void test_ten_turns_tiny(void **state)
{
    (void)state;
    converse(tiny, "chatml", 8, false);
}

/* Case: a template that renders a past answer otherwise than it was generated costs that answer, not what is before. */
static void test_template_that_changes_answers(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages %}[{{ m.role }}] {% if m.role == 'assistant' %}(said) {% endif %}"
                                 "{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}";
    char path[] = "/tmp/chat-template-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, source, sizeof source - 1), sizeof source - 1);
    close(fd);
    converse(tiny, path, 8, false);
    unlink(path);
}

static const char *smollm2(void)
{
    static char path[512];
    const char *folder = getenv("MODELS");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "build/models", smollm2_name);
    if (access(path, R_OK) == 0) return path;
    print_message("skipped: %s is not there\n", path);
    return NULL;
}

static void test_ten_turns_real(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    print_message("skipped: minutes under the address sanitizer; the tiny models' turns run\n");
    skip();
#endif
    const char *model = smollm2();
    if (!model) skip();
    converse(model, NULL, 24, true);
}

/* ---- what is shown ---- */

/* What a voice writes for the events "T..." (a thought) and "A..." (of an answer). */
static char *spoken(cli_voice *v, const char *const *events)
{
    char path[] = "/tmp/voice-XXXXXX", *text = calloc(1, 512);
    int fd = mkstemp(path), former = dup(STDOUT_FILENO);
    assert_non_null(text);
    assert_true(fd >= 0 && former >= 0);
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    cli_voice_begin(v);
    for (; *events; events++) {
        const char *said = *events + 1;
        sl_reply_event e = {.kind = **events == 'T' ? SL_REPLY_REASONING : SL_REPLY_CONTENT, .text = said, .n_bytes = strlen(said)};
        cli_voice_event(v, &e);
    }
    cli_voice_end(v);
    fflush(stdout);
    dup2(former, STDOUT_FILENO);
    close(former);
    assert_true(pread(fd, text, 511, 0) >= 0);
    close(fd);
    unlink(path);
    return text;
}

static void check_spoken(cli_voice v, const char *const *events, const char *want)
{
    char *text = spoken(&v, events);
    assert_string_equal(text, want);
    free(text);
}

static void test_voice(void **state)
{
    (void)state;
    static const char *const both[] = {"Thm", "T, yes", "AYes", "A.", NULL}, *const thought[] = {"Thm", NULL};
    static const char *const steering[] = {"Aa\033[2J\x07" "b\tc\n", "A\xc2\x9b" "d\xc3\xa9", NULL}, *const nothing[] = {NULL};
    const cli_voice dimmed = {.is_terminal = true, .is_dimmed = true, .shows_thoughts = true};
    const cli_voice no_color = {.is_terminal = true, .shows_thoughts = true}, pipe = {0};
    check_spoken(dimmed, both, "\033[2mhm, yes\033[0m\n\nYes.\n");
    check_spoken(dimmed, thought, "\033[2mhm\033[0m\n");
    check_spoken(no_color, both, "[thinking]\nhm, yes\n[answer]\nYes.\n");
    check_spoken(pipe, both, "Yes.\n");
    check_spoken(pipe, thought, "\n");
    check_spoken(pipe, nothing, "\n");
    check_spoken(dimmed, steering, "a\xef\xbf\xbd[2J\xef\xbf\xbd" "b\tc\n\xef\xbf\xbd" "d\xc3\xa9\n");
    check_spoken(pipe, steering, "a\033[2J\x07" "b\tc\n\xc2\x9b" "d\xc3\xa9\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_walk_cut),
        cmocka_unit_test(test_talk),
        cmocka_unit_test(test_voice),
        cmocka_unit_test(test_ten_turns_tiny),
        cmocka_unit_test(test_template_that_changes_answers),
        cmocka_unit_test(test_ten_turns_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
