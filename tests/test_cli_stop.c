/* Stop texts in a stream: every expectation is written out by hand; then every way of cutting a text into calls gives
 * the same answer. */
#include "cli/stop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    char text[512];
    size_t n;
    bool stopped;
} answer;

static void take(answer *a, const char *text, size_t n)
{
    assert_true(a->n + n < sizeof a->text);
    if (n) memcpy(a->text + a->n, text, n);
    a->n += n;
    a->text[a->n] = 0;
}

static void add(cli_stop *s, answer *a, const char *text, size_t n)
{
    const char *out;
    size_t n_out;
    if (a->stopped) return;
    cli_stop_result r = cli_stop_add(s, text, n, &out, &n_out);
    assert_int_not_equal(r, CLI_STOP_NO_MEMORY);
    take(a, out, n_out);
    a->stopped = r == CLI_STOP_FOUND;
}

static void end(cli_stop *s, answer *a)
{
    const char *out;
    size_t n_out;
    if (a->stopped) return;
    cli_stop_end(s, &out, &n_out);
    take(a, out, n_out);
}

/* Pieces are NULL-terminated. */
static answer answer_of(const char *const *stops, size_t n_stop, const char *const *pieces)
{
    answer a = {{0}, 0, false};
    cli_stop *s = cli_stop_open(stops, n_stop);
    assert_non_null(s);
    for (; *pieces; pieces++)
        add(s, &a, *pieces, strlen(*pieces));
    end(s, &a);
    cli_stop_close(s);
    return a;
}

#define STOPS(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)
#define PIECES(...)                                                                                                    \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

static void check(answer a, const char *text, bool stopped)
{
    assert_string_equal(a.text, text);
    assert_int_equal(a.stopped, stopped);
}

static void test_over_two_tokens(void **state)
{
    (void)state;
    check(answer_of(STOPS("\n\nUser:"), PIECES("hello\n\nUs", "er: x")), "hello", true);
}

static void test_held_text_comes_back_at_the_end(void **state)
{
    (void)state;
    check(answer_of(STOPS("\n\nUser:"), PIECES("hello\n\nUs")), "hello\n\nUs", false);
}

static void test_overlapping_texts(void **state)
{
    (void)state;
    check(answer_of(STOPS("ab", "abc"), PIECES("xabcy")), "x", true);
    check(answer_of(STOPS("abc", "b"), PIECES("xabcy")), "xa", true);  /* "b" is complete first */
    check(answer_of(STOPS("b", "ab"), PIECES("xab")), "x", true);      /* both end here: the longer one */
    check(answer_of(STOPS("abcd", "bce"), PIECES("abce")), "a", true); /* one candidate fails inside another */
    check(answer_of(STOPS("aab"), PIECES("a", "a", "a", "b")), "a", true);
    check(answer_of(STOPS("abab!"), PIECES("ababab", "!")), "ab", true);
}

static void test_emoji_split_over_tokens(void **state)
{
    (void)state;
    check(answer_of(STOPS("\xf0\x9f\x98\x80"), PIECES("a\xf0\x9f", "\x98",
                                                      "\x80"
                                                      "b")),
          "a", true);
    check(answer_of(STOPS("\xf0\x9f\x98\x80"), PIECES("a\xf0\x9f\x98", "\x81")), "a\xf0\x9f\x98\x81", false);
}

static void test_no_stops_pass_everything_at_once(void **state)
{
    (void)state;
    cli_stop *s = cli_stop_open(NULL, 0);
    const char *out;
    size_t n_out;
    assert_int_equal(cli_stop_add(s, "abc", 3, &out, &n_out), CLI_STOP_NOT_YET);
    assert_int_equal(n_out, 3);
    assert_memory_equal(out, "abc", 3);
    cli_stop_end(s, &out, &n_out);
    assert_int_equal(n_out, 0);
    cli_stop_close(s);
}

static void test_shows_as_early_as_possible(void **state)
{
    (void)state;
    const char *const stops[] = {"</s>"};
    cli_stop *s = cli_stop_open(stops, 1);
    const char *out;
    size_t n_out;
    cli_stop_add(s, "a < b", 5, &out, &n_out); /* nothing of it can begin the stop text any more */
    assert_int_equal(n_out, 5);
    cli_stop_add(s, " </", 3, &out, &n_out);
    assert_int_equal(n_out, 1);
    cli_stop_add(s, "x", 1, &out, &n_out);
    assert_int_equal(n_out, 3);
    assert_memory_equal(out, "</x", 3);
    cli_stop_close(s);
}

static void test_zero_bytes_in_the_text(void **state)
{
    (void)state;
    const char *const stops[] = {"ab"};
    answer a = {{0}, 0, false};
    cli_stop *s = cli_stop_open(stops, 1);
    add(s, &a, "a\0b", 3);
    add(s, &a, "\0ab", 3);
    assert_true(a.stopped);
    assert_int_equal(a.n, 4);
    assert_memory_equal(a.text, "a\0b\0", 4);
    cli_stop_close(s);
}

/* The text is over a small alphabet, so that candidates overlap often. */
static void test_cuts_make_no_difference(void **state)
{
    (void)state;
    const char *const stops[] = {"abac", "bacb", "cc", "abab"};
    uint32_t random = 12345;
    for (int round = 0; round < 2000; round++) {
        char text[25] = {0};
        for (int i = 0; i < 24; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = (char)('a' + (random >> 24) % 3);
        }
        answer whole = answer_of(stops, 4, PIECES(text)), cut = {{0}, 0, false};
        cli_stop *s = cli_stop_open(stops, 4);
        for (size_t i = 0, n; i < 24; i += n) {
            random = random * 1664525u + 1013904223u;
            n = 1 + (random >> 24) % 4;
            if (n > 24 - i) n = 24 - i;
            add(s, &cut, text + i, n);
        }
        end(s, &cut);
        cli_stop_close(s);
        assert_string_equal(cut.text, whole.text);
        assert_int_equal(cut.stopped, whole.stopped);
        /* nothing but the beginning of the text is ever shown, and no stop text in it */
        assert_memory_equal(whole.text, text, whole.n);
        for (int i = 0; i < 4; i++)
            assert_null(strstr(whole.text, stops[i]));
        if (!whole.stopped) assert_int_equal(whole.n, 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_over_two_tokens),
        cmocka_unit_test(test_held_text_comes_back_at_the_end),
        cmocka_unit_test(test_overlapping_texts),
        cmocka_unit_test(test_emoji_split_over_tokens),
        cmocka_unit_test(test_no_stops_pass_everything_at_once),
        cmocka_unit_test(test_shows_as_early_as_possible),
        cmocka_unit_test(test_zero_bytes_in_the_text),
        cmocka_unit_test(test_cuts_make_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
