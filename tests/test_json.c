/* JSON: what both readers accept and refuse, and that they see the same document. */
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tree ---- */

static sl_json *parse(const char *text)
{
    sl_json *root = NULL;
    sl_err err = {0};
    if (sl_json_parse(&root, "test", text, strlen(text), &err) != SL_OK) fail_msg("%s", err.msg);
    return root;
}

static void tree_getters_tell_kinds_apart(void **state)
{
    (void)state;
    sl_json *root = parse("{\"i\": -7, \"r\": 2.0, \"e\": 1e3, \"t\": true, \"n\": null, \"s\": \"a\\u0000b\", "
                          "\"a\": [1, [], {}], \"o\": {\"k\": \"v\"}}");
    int64_t i;
    double d;
    bool b;
    size_t n;
    assert_true(sl_json_is_object(root) && !sl_json_is_array(root) && sl_json_count(root) == 8);
    assert_true(sl_json_int(sl_json_get(root, "i"), &i) && i == -7);
    assert_true(sl_json_number(sl_json_get(root, "i"), &d) && d == -7);
    assert_false(sl_json_int(sl_json_get(root, "r"), &i)); /* written as a real */
    assert_false(sl_json_int(sl_json_get(root, "e"), &i));
    assert_true(sl_json_number(sl_json_get(root, "e"), &d) && d == 1000);
    assert_true(sl_json_bool(sl_json_get(root, "t"), &b) && b);
    assert_false(sl_json_bool(sl_json_get(root, "i"), &b));
    assert_null(sl_json_get(root, "n"));
    assert_null(sl_json_get(root, "absent"));
    assert_null(sl_json_get(sl_json_get(root, "a"), "k"));
    const char *s = sl_json_string(sl_json_get(root, "s"), &n);
    assert_true(n == 3 && memcmp(s, "a\0b", 3) == 0);
    assert_null(sl_json_string(sl_json_get(root, "i"), &n));
    assert_int_equal(n, 0);
    const sl_json *a = sl_json_get(root, "a");
    assert_true(sl_json_is_array(a) && sl_json_count(a) == 3 && sl_json_at(a, 3) == NULL);
    assert_true(sl_json_is_array(sl_json_at(a, 1)) && sl_json_is_object(sl_json_at(a, 2)));
    assert_true(sl_json_is_string(sl_json_get(sl_json_get(root, "o"), "k")));
    sl_json_free(root);
}

static void tree_tolerates_null_everywhere(void **state)
{
    (void)state;
    int64_t i;
    double d;
    bool b;
    size_t n;
    void *iter = NULL;
    const char *key;
    const sl_json *v;
    assert_null(sl_json_get(NULL, "x"));
    assert_null(sl_json_at(NULL, 0));
    assert_null(sl_json_string(NULL, &n));
    assert_null(sl_json_string(NULL, NULL));
    assert_false(sl_json_int(NULL, &i) || sl_json_number(NULL, &d) || sl_json_bool(NULL, &b));
    assert_false(sl_json_is_object(NULL) || sl_json_is_array(NULL) || sl_json_is_string(NULL));
    assert_int_equal(sl_json_count(NULL), 0);
    assert_false(sl_json_next(NULL, &iter, &key, &v));
    sl_json_free(NULL);
}

static void tree_walks_in_file_order(void **state)
{
    (void)state;
    sl_json *root = parse("{\"z\":1,\"a\":2,\"m\":3,\"b\":null}");
    const char *want[] = {"z", "a", "m", "b"}, *key;
    const sl_json *v;
    void *iter = NULL;
    size_t n = 0;
    while (sl_json_next(root, &iter, &key, &v))
        assert_string_equal(key, want[n++]);
    assert_int_equal(n, 4);
    sl_json_free(root);
}

static void tree_refusal_names_document_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line;
    } cases[] = {{"{\"a\":1,\n\"a\":2}", "line 2"},
                 {"[1,2", "line 1"},
                 {"{} x", "line 1"},
                 {"[1,\n\n]", "line 3"},
                 {"\"\xff\"", "line 1"},
                 {"", "line 1"},
                 {"[NaN]", "line 1"},
                 {"{'a':1}", "line 1"},
                 {"[1e999]", "line 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_json *root = NULL;
        sl_err err = {0};
        assert_int_equal(sl_json_parse(&root, "config.json", cases[i].text, strlen(cases[i].text), &err),
                         SL_ERR_FORMAT);
        assert_null(root);
        assert_non_null(strstr(err.msg, "config.json"));
        assert_non_null(strstr(err.msg, cases[i].line));
    }
}

static void tree_bounds_its_depth(void **state)
{
    (void)state;
    size_t n = 100000;
    char *deep = malloc(n);
    memset(deep, '[', n);
    sl_json *root;
    sl_err err;
    assert_int_equal(sl_json_parse(&root, "deep", deep, n, &err), SL_ERR_FORMAT);
    free(deep);
}

static void integers_beyond_64_bits_become_reals(void **state)
{
    (void)state;
    sl_json *root = parse("{\"max\": 1000000000000000019884624838656, \"neg\":-99999999999999999999,\n"
                          "\"in \\\"string\": \"99999999999999999999\", \"fits\": 9223372036854775807,"
                          "\"one more\": 9223372036854775808, \"frac\": 0.12345678901234567890123, "
                          "\"exp\": 12345678901234567890123e-3, \"list\": [18446744073709551616,-1]}");
    int64_t i;
    double d;
    assert_true(sl_json_number(sl_json_get(root, "max"), &d) && d == 1e30);
    assert_false(sl_json_int(sl_json_get(root, "max"), &i));
    assert_true(sl_json_number(sl_json_get(root, "neg"), &d) && d == -1e20);
    assert_string_equal(sl_json_string(sl_json_get(root, "in \"string"), NULL), "99999999999999999999");
    assert_true(sl_json_int(sl_json_get(root, "fits"), &i) && i == INT64_MAX);
    assert_true(sl_json_number(sl_json_get(root, "one more"), &d) && d == 0x1p63);
    assert_true(sl_json_number(sl_json_get(root, "frac"), &d) && d == 0.12345678901234567890123);
    assert_true(sl_json_number(sl_json_get(root, "exp"), &d) && d == 12345678901234567890.123);
    assert_true(sl_json_int(sl_json_at(sl_json_get(root, "list"), 1), &i) && i == -1);
    sl_json_free(root);
    root = parse("99999999999999999999999");
    assert_true(sl_json_number(root, &d) && d == 1e23 - 8388608);
    sl_json_free(root);
}

/* ---- pull reader ---- */

/* Events as letters: { } [ ] K S N t f n, E for end, ! for error. */
static const char *events_of(const char *text, size_t n_bytes)
{
    static char out[4096];
    static const char letters[] = "E!{}[]KSNtfn";
    sl_json_reader r;
    sl_json_reader_init(&r, text, n_bytes);
    size_t n = 0;
    sl_json_event ev;
    do {
        ev = sl_json_read(&r);
        out[n++] = letters[ev];
    } while (ev != SL_JSON_END && ev != SL_JSON_ERROR && n < sizeof out - 1);
    out[n] = 0;
    if (ev == SL_JSON_ERROR) assert_non_null(r.error);
    if (n < sizeof out - 1) assert_int_equal(sl_json_read(&r), ev); /* both stay */
    sl_json_reader_free(&r);
    return out;
}

static const char *events(const char *text)
{
    return events_of(text, strlen(text));
}

static void reader_gives_events_in_order(void **state)
{
    (void)state;
    assert_string_equal(events("{}"), "{}E");
    assert_string_equal(events(" [ ] "), "[]E");
    assert_string_equal(events("{\"a\":[1,-2.5e3,{\"b\":null}],\"c\":\"d\"}"), "{K[NN{Kn}]KS}E");
    assert_string_equal(events("[true,false,null,[],{},\"\"]\n"), "[tfn[]{}S]E");
    assert_string_equal(events("0"), "NE");
    assert_string_equal(events("\t\"x\"\r\n"), "SE");
    assert_string_equal(events("[[[[]],[]]]"), "[[[[]][]]]E");
    assert_string_equal(events("{\"\":{\"\":{}}}"), "{K{K{}}}E");
}

static void reader_refuses_what_the_grammar_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "[",
        "{",
        "]",
        "}",
        "[1",
        "[1,",
        "[,1]",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "[}",
        "{]",
        "[1}",
        "{\"a\":1]",
        "1 2",
        "{} {}",
        "[]]",
        "nul",
        "nulll",
        "True",
        "truE",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1.e3",
        "1e",
        "1e+",
        "0x10",
        "1_000",
        "--1",
        "1e5.5",
        "1e400",
        "-1e400",
        "\"",
        "\"abc",
        "\"a\nb\"",
        "\"\t\"",
        "\"\\\"",
        "\"\\x41\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"\\u 123\"",
        "'a'",
        "\"\\\n\"",
        "\"\xff\"",
        "\"\xc0\xaf\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x82\"",
        "\xef\xbb\xbf{}",
        "[1]\xff",
        "//c\n1",
        "/*c*/1",
        "[1,/**/2]",
        "[\x0b]",
        "[1\f]",
        "[\xc2\xa0 1]",
        "{\"a\":1,,\"b\":2}",
        "[\"a\",\n4\n,1,",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *e = events(bad[i]);
        if (e[strlen(e) - 1] != '!') fail_msg("accepted: %s", bad[i]);
    }
    assert_string_equal(events_of("[1,\0]", 5), "[N!");
    assert_string_equal(events_of("\"\0\"", 3), "!");
    assert_string_equal(events_of("1\0", 2), "N!");
}

/* The text of a lone string document. */
static void decodes_to(const char *text, const char *want, size_t n_want)
{
    sl_json_reader r;
    sl_json_reader_init(&r, text, strlen(text));
    sl_json_event ev = sl_json_read(&r);
    if (ev != SL_JSON_STRING || r.str.len != n_want || memcmp(r.str.data, want, n_want) != 0)
        fail_msg("%s became %s", text, ev == SL_JSON_STRING ? r.str.data : r.error);
    assert_int_equal(r.str.data[n_want], 0);
    assert_int_equal(sl_json_read(&r), SL_JSON_END);
    sl_json_reader_free(&r);
}

static void reader_decodes_strings(void **state)
{
    (void)state;
    decodes_to("\"\"", "", 0);
    decodes_to("\"abc\"", "abc", 3);
    decodes_to("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
    decodes_to("\"\\u0041\\u00e9\\u20AC\\u20ac\"", "A\xC3\xA9\xE2\x82\xAC\xE2\x82\xAC", 9);
    decodes_to("\"\\u0000x\"", "\0x", 2);
    decodes_to("\"\\ud83d\\ude00\"", "\xF0\x9F\x98\x80", 4);
    decodes_to("\"\\uDBFF\\uDFFF\"", "\xF4\x8F\xBF\xBF", 4);
    decodes_to("\"\xF0\x9F\x98\x80\xC4\xA0the\"", "\xF0\x9F\x98\x80\xC4\xA0the", 9);
    decodes_to("\"\x7f\"", "\x7f", 1);
}

static void lone_surrogates_become_fffd(void **state)
{
    (void)state;
    decodes_to("\"\\ud83d\"", "\xEF\xBF\xBD", 3);
    decodes_to("\"\\ude00\"", "\xEF\xBF\xBD", 3);
    decodes_to("\"x\\ud83dy\"", "x\xEF\xBF\xBDy", 5);
    decodes_to("\"\\ud83d\\n\"", "\xEF\xBF\xBD\n", 4);
    decodes_to("\"\\ud83d\\u0041\"",
               "\xEF\xBF\xBD"
               "A",
               4);
    decodes_to("\"\\ud83d\\ud83d\\ude00\"", "\xEF\xBF\xBD\xF0\x9F\x98\x80", 7);
    decodes_to("\"\\ude00\\ud83d\"", "\xEF\xBF\xBD\xEF\xBF\xBD", 6);
}

static void reader_reads_numbers_exactly(void **state)
{
    (void)state;
    static const char *const reals[] = {
        "0.1",
        "-0.0",
        "1e22",
        "1e23",
        "9007199254740993",
        "9007199254740992.5",
        "0.30000000000000004",
        "5e-324",
        "2e-324",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "123456789012345678901234567890",
        "1e-22",
        "1.5e-5",
        "3.14159",
        "179769313486231570793e288",
        "0.000000000000000000000000000000000000000000000001",
        "1E+2",
        "1e-400",
        "0e99999999",
        "8.5e-310",
        "72057594037927945",
        "9214843084008499e3",
        "1.00000000000000011102230246251565404236316680908203125",
    };
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        sl_json_reader r;
        sl_json_reader_init(&r, reals[i], strlen(reals[i]));
        assert_int_equal(sl_json_read(&r), SL_JSON_NUMBER);
        double want = strtod(reals[i], NULL);
        if (memcmp(&want, &r.number, sizeof want) != 0) fail_msg("%s read as %.17g", reals[i], r.number);
        sl_json_reader_free(&r);
    }
}

static void reader_tells_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_int;
        int64_t v;
    } cases[] = {{"0", true, 0},
                 {"-0", true, 0},
                 {"151936", true, 151936},
                 {"9223372036854775807", true, INT64_MAX},
                 {"9223372036854775808", false, 0},
                 {"-9223372036854775808", true, INT64_MIN},
                 {"-9223372036854775809", false, 0},
                 {"18446744073709551615", false, 0},
                 {"18446744073709551617", false, 0},
                 {"99999999999999999999999", false, 0},
                 {"1.0", false, 0},
                 {"1e3", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_json_reader r;
        sl_json_reader_init(&r, cases[i].text, strlen(cases[i].text));
        assert_int_equal(sl_json_read(&r), SL_JSON_NUMBER);
        assert_int_equal(r.is_int, cases[i].is_int);
        if (r.is_int) assert_true(r.integer == cases[i].v);
        assert_true(r.number == strtod(cases[i].text, NULL));
        sl_json_reader_free(&r);
    }
}

static void reader_bounds_depth_and_number_length(void **state)
{
    (void)state;
    char text[1200];
    for (int depth = 63; depth <= 65; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        const char *e = events_of(text, 2 * (size_t)depth);
        assert_int_equal(e[strlen(e) - 1], depth <= 64 ? 'E' : '!');
    }
    memset(text, '[', sizeof text);
    assert_string_equal(events_of(text, sizeof text) + 64, "!");
    memset(text, '9', sizeof text);
    assert_string_equal(events_of(text, 300), "NE");
    assert_string_equal(events_of(text, 600), "!");
}

static void skip_passes_over_one_value(void **state)
{
    (void)state;
    const char *text = "{\"skip\":{\"a\":[1,{\"b\":[[]]}],\"c\":\"}\"},\"s\":\"x\",\"keep\":5}";
    sl_json_reader r;
    sl_json_reader_init(&r, text, strlen(text));
    assert_int_equal(sl_json_read(&r), SL_JSON_OBJECT);
    assert_false(sl_json_skip(&r)); /* a key comes, not a value: it is consumed all the same */
    assert_string_equal(r.str.data, "skip");
    assert_true(sl_json_skip(&r));
    assert_int_equal(sl_json_read(&r), SL_JSON_KEY);
    assert_true(sl_json_skip(&r));
    assert_int_equal(sl_json_read(&r), SL_JSON_KEY);
    assert_int_equal(sl_json_read(&r), SL_JSON_NUMBER);
    assert_true(r.is_int && r.integer == 5);
    assert_false(sl_json_skip(&r)); /* the end of the object */
    assert_false(sl_json_skip(&r)); /* the end */
    sl_json_reader_free(&r);
    sl_json_reader_init(&r, "[[1,}", 5);
    assert_false(sl_json_skip(&r));
    assert_int_equal(sl_json_read(&r), SL_JSON_ERROR);
    sl_json_reader_free(&r);
}

static bool always(void *user)
{
    (void)user;
    return true;
}

static void reader_without_memory_is_an_error(void **state)
{
    (void)state;
    sl_json_reader r;
    sl_json_reader_init(&r, "[\"a\"]", 5);
    assert_int_equal(sl_json_read(&r), SL_JSON_ARRAY);
    sl_alloc_set_hook(always, NULL);
    assert_int_equal(sl_json_read(&r), SL_JSON_ERROR);
    sl_alloc_set_hook(NULL, NULL);
    assert_true(r.str.failed); /* how a caller tells no memory from a bad document */
    sl_json_reader_free(&r);
}

/* ---- both ---- */

/* Reads one value and compares it with the tree; false on a reader error. */
static bool same_value(sl_json_reader *r, sl_json_event ev, const sl_json *t, int depth)
{
    size_t n;
    int64_t i;
    double d;
    bool b;
    const char *s;
    if (depth > 70) return false;
    switch (ev) {
    case SL_JSON_OBJECT: {
        void *iter = NULL;
        const char *key;
        const sl_json *v;
        while ((ev = sl_json_read(r)) == SL_JSON_KEY) {
            if (!sl_json_next(t, &iter, &key, &v) || strcmp(key, r->str.data) != 0) fail_msg("key %s", r->str.data);
            if (!same_value(r, sl_json_read(r), v, depth + 1)) return false;
        }
        if (ev == SL_JSON_OBJECT_END) assert_false(sl_json_next(t, &iter, &key, &v));
        return ev == SL_JSON_OBJECT_END;
    }
    case SL_JSON_ARRAY:
        for (n = 0; (ev = sl_json_read(r)) != SL_JSON_ARRAY_END; n++)
            if (ev == SL_JSON_ERROR || !same_value(r, ev, sl_json_at(t, n), depth + 1)) return false;
        assert_int_equal(n, sl_json_count(t));
        return true;
    case SL_JSON_STRING:
        s = sl_json_string(t, &n);
        assert_true(s && n == r->str.len && memcmp(s, r->str.data, n) == 0);
        return true;
    case SL_JSON_NUMBER:
        assert_true(sl_json_number(t, &d) && (d == r->number || fabs(d - r->number) < 1e-15 * fabs(d)));
        if (r->is_int) assert_true(!sl_json_int(t, &i) ? r->integer == INT64_MIN : i == r->integer);
        return true;
    case SL_JSON_TRUE:
    case SL_JSON_FALSE:
        assert_true(sl_json_bool(t, &b) && b == (ev == SL_JSON_TRUE));
        return true;
    case SL_JSON_NULL:
        assert_false(sl_json_is_object(t) || sl_json_is_array(t) || sl_json_is_string(t) || sl_json_number(t, &d) ||
                     sl_json_bool(t, &b));
        return true;
    default:
        return false;
    }
}

/* Whatever the tree accepts, the reader accepts and sees alike; what only the reader accepts is a duplicate key, or one
 * of the escapes (lone surrogates, NUL in keys) that jansson refuses. */
static void compare_readers(const char *text, size_t n_bytes, int *n_accepted)
{
    sl_json *root = NULL;
    sl_err err = {0};
    sl_json_reader r;
    sl_json_reader_init(&r, text, n_bytes);
    if (sl_json_parse(&root, "x", text, n_bytes, &err) == SL_OK) {
        bool ok = same_value(&r, sl_json_read(&r), root, 0) && sl_json_read(&r) == SL_JSON_END;
        if (!ok) fail_msg("only the tree accepts %.*s (%s)", (int)n_bytes, text, r.error);
        ++*n_accepted;
    } else {
        sl_json_event ev;
        do
            ev = sl_json_read(&r);
        while (ev != SL_JSON_END && ev != SL_JSON_ERROR);
        if (ev == SL_JSON_END && !strstr(err.msg, "duplicate") && !memmem(text, n_bytes, "\\u", 2))
            fail_msg("only the reader accepts %.*s: %s", (int)n_bytes, text, err.msg);
    }
    sl_json_free(root);
    sl_json_reader_free(&r);
}

static void both_readers_agree_on_mutated_documents(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"rope\": {\"theta\": 1e4, \"s\": [1, 2.50, -3e-2]}, \"t\": "
        "true}",
        "[[], {}, \"\\ud83d\\ude00 \\\"q\\\" \\\\\", \"\xC3\xA9\xF0\x9F\x98\x80\", null, false, 12345678901234567890, "
        "-0]",
        "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
        "  -12.75E+3\n",
    };
    static const char alphabet[] = "{}[],:\"\\0123456789.eE+-truefalsn \n\tu/'\xC3\xA9\xF0\x9F\xff";
    uint64_t rng = 12345;
    int n_accepted = 0;
    for (int round = 0; round < 60000; round++) {
        char text[256];
        const char *seed = seeds[round % 4];
        size_t n = strlen(seed);
        memcpy(text, seed, n);
        for (int k = 0; k < 1 + round % 3; k++) {
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(rng >> 33) % n;
            char c = alphabet[(rng >> 20) % (sizeof alphabet - 1)];
            if ((rng >> 60) < 8)
                text[at] = c;
            else if ((rng >> 60) < 12) {
                memmove(text + at + 1, text + at, n - at);
                text[at] = c;
                n++;
            } else if (n > 1) {
                memmove(text + at, text + at + 1, n - at - 1);
                n--;
            }
        }
        char *exact = malloc(n); /* so that a sanitizer sees a read behind the end */
        memcpy(exact, text, n);
        compare_readers(exact, n, &n_accepted);
        free(exact);
    }
    print_message("%d of 60000 mutants were valid\n", n_accepted);
    assert_in_range(n_accepted, 3000, 50000);
}

static void a_large_document_streams_through(void **state)
{
    (void)state;
    sl_buf b;
    sl_buf_init(&b, (size_t)1 << 26);
    sl_buf_add(&b, "{\"vocab\":{", 10);
    enum { N = 200000 };
    for (int i = 0; i < N; i++)
        sl_buf_printf(&b, "%s\"\xC4\xA0token\\u00e9%d\":%d", i ? "," : "", i, i);
    sl_buf_add(&b, "}}", 2);
    assert_false(b.failed);
    sl_json_reader r;
    sl_json_reader_init(&r, b.data, b.len);
    int64_t next = 0;
    for (sl_json_event ev; (ev = sl_json_read(&r)) != SL_JSON_END;) {
        assert_int_not_equal(ev, SL_JSON_ERROR);
        if (ev == SL_JSON_NUMBER) assert_true(r.is_int && r.integer == next++);
    }
    assert_int_equal(next, N);
    assert_true(r.str.cap < 1000); /* memory does not grow with the document */
    sl_json_reader_free(&r);
    sl_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_getters_tell_kinds_apart),
        cmocka_unit_test(tree_tolerates_null_everywhere),
        cmocka_unit_test(tree_walks_in_file_order),
        cmocka_unit_test(tree_refusal_names_document_and_line),
        cmocka_unit_test(tree_bounds_its_depth),
        cmocka_unit_test(integers_beyond_64_bits_become_reals),
        cmocka_unit_test(reader_gives_events_in_order),
        cmocka_unit_test(reader_refuses_what_the_grammar_refuses),
        cmocka_unit_test(reader_decodes_strings),
        cmocka_unit_test(lone_surrogates_become_fffd),
        cmocka_unit_test(reader_reads_numbers_exactly),
        cmocka_unit_test(reader_tells_integers),
        cmocka_unit_test(reader_bounds_depth_and_number_length),
        cmocka_unit_test(skip_passes_over_one_value),
        cmocka_unit_test(reader_without_memory_is_an_error),
        cmocka_unit_test(both_readers_agree_on_mutated_documents),
        cmocka_unit_test(a_large_document_streams_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
