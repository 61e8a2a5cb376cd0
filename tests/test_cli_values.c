/* What the command makes of numbers and sizes, and what it writes as JSON and NPY: expectations written out by hand. */
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/npy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- values ---- */

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"17b", 17},
        {"4K", 4096},
        {"4k", 4096},
        {"4KiB", 4096},
        {"4KB", 4000},
        {"64M", 67108864},
        {"64MiB", 67108864},
        {"64MB", 64000000},
        {"1.5G", 1610612736},
        {".5GiB", 536870912},
        {"2T", 2199023255552},
        {"1.5GB", 1500000000},
        {"0.1K", 102},
        {"9007199254740993", 9007199254740993},
    };
    static const char *const bad[] = {"",          "K",   "4 K",  " 4K", "-1",  "+1",   "4X",  "4Ki",
                                      "4KiBs",     "1e3", "0x10", "nan", "inf", "1,5G", "4G4", "99999999999999999999",
                                      "16777216T", "."};
    uint64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(cli_parse_size(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (cli_parse_size(bad[i], &bytes)) fail_msg("'%s' was taken for %llu", bad[i], (unsigned long long)bytes);
    }
}

static void test_whole_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "1.0", "0x1", "1e3", "18446744073709551616"};
    uint64_t v;
    assert_true(cli_parse_u64("18446744073709551615", &v));
    assert_true(v == UINT64_MAX);
    assert_true(cli_parse_u64("007", &v));
    assert_int_equal(v, 7);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(cli_parse_u64(bad[i], &v));
}

static void test_real_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "-",    ".",  "nan", "inf",   "0x1p3", "1e",
                                      "1e+", "1.5x", " 1", "1 ",  "1e999", "--1"};
    double v;
    assert_true(cli_parse_double("0.7", &v) && v == 0.7);
    assert_true(cli_parse_double("-2", &v) && v == -2);
    assert_true(cli_parse_double(".5", &v) && v == 0.5);
    assert_true(cli_parse_double("5.", &v) && v == 5);
    assert_true(cli_parse_double("1e-3", &v) && v == 0.001);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(cli_parse_double(bad[i], &v));
}

static void test_ids(void **state)
{
    (void)state;
    static const char *const bad[] = {",", "1,", ",1", "1,,2", "-1", "1 2", "1;2", "2147483648", "x", "1,x", "1.0"};
    int32_t *ids;
    size_t n;
    assert_true(cli_parse_ids("1, 22,2147483647\n", &ids, &n));
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 22);
    assert_int_equal(ids[2], INT32_MAX);
    free(ids);
    assert_true(cli_parse_ids("", &ids, &n));
    assert_int_equal(n, 0);
    free(ids);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (cli_parse_ids(bad[i], &ids, &n)) fail_msg("'%s' was taken for %zu ids", bad[i], n);
    }
}

static void test_size_texts(void **state)
{
    (void)state;
    char buf[24];
    assert_string_equal(cli_size_text(0, buf), "0 B");
    assert_string_equal(cli_size_text(1023, buf), "1023 B");
    assert_string_equal(cli_size_text(1536, buf), "1.5 KiB");
    assert_string_equal(cli_size_text(98362432, buf), "93.8 MiB");
    assert_string_equal(cli_size_text(253113024, buf), "241 MiB");
    assert_string_equal(cli_size_text(UINT64_MAX, buf), "16777216 TiB");
}

/* ---- files ---- */

static char *text_of(FILE *f, size_t *n)
{
    char *text = NULL;
    long end = ftell(f);
    rewind(f);
    text = calloc(1, (size_t)end + 1);
    *n = fread(text, 1, (size_t)end, f);
    fclose(f);
    return text;
}

static void check_string(const char *bytes, size_t n_bytes, const char *want)
{
    FILE *f = tmpfile();
    size_t n;
    cli_json_put_string(f, bytes, n_bytes);
    char *text = text_of(f, &n);
    assert_string_equal(text, want);
    free(text);
}

#define CHECK_STRING(bytes, want) check_string(bytes, sizeof bytes - 1, want)

static void test_json_strings(void **state)
{
    (void)state;
    CHECK_STRING("", "\"\"");
    CHECK_STRING("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    CHECK_STRING("\n\r\t\b\0\x1f\x7f", "\"\\n\\r\\t\\u0008\\u0000\\u001f\\u007f\"");
    CHECK_STRING("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    CHECK_STRING("a\x80z", "\"a\xef\xbf\xbdz\"");                                             /* lone continuation */
    CHECK_STRING("\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"");                                 /* overlong */
    CHECK_STRING("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");                 /* surrogate */
    CHECK_STRING("\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* above U+10FFFF */
    CHECK_STRING("\xf0\x9f\x98", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");                 /* cut off */
    CHECK_STRING("\xe2\x82"
                 "A",
                 "\"\xef\xbf\xbd\xef\xbf\xbd"
                 "A\"");
}

static void write_document(FILE *f, bool pretty)
{
    static const int32_t ids[] = {1, -1, 300};
    cli_json j;
    cli_json_begin(&j, f, pretty);
    cli_json_string(&j, "s", "x\"");
    cli_json_string(&j, "none", NULL);
    cli_json_u64(&j, "u", UINT64_MAX);
    cli_json_i64(&j, "i", -5);
    cli_json_f64(&j, "f", 0.1);
    cli_json_f64(&j, "nan", (double)NAN);
    cli_json_bool(&j, "b", true);
    cli_json_ids(&j, "ids", ids, 3);
    cli_json_array(&j, "a");
    cli_json_object(&j, NULL);
    cli_json_close(&j);
    cli_json_array(&j, NULL);
    cli_json_u64(&j, NULL, 1);
    cli_json_u64(&j, NULL, 2);
    cli_json_close(&j);
    cli_json_close(&j);
    cli_json_object(&j, "o");
    cli_json_null(&j, "k");
    cli_json_end(&j);
}

static void test_json_documents(void **state)
{
    (void)state;
    static const char *const want[2] = {
        "{\"s\":\"x\\\"\",\"none\":null,\"u\":18446744073709551615,\"i\":-5,\"f\":0.1,\"nan\":null,\"b\":true,"
        "\"ids\":[1,-1,300],\"a\":[{},[1,2]],\"o\":{\"k\":null}}\n",
        "{\n  \"s\": \"x\\\"\",\n  \"none\": null,\n  \"u\": 18446744073709551615,\n  \"i\": -5,\n  \"f\": 0.1,\n"
        "  \"nan\": null,\n  \"b\": true,\n  \"ids\": [1,-1,300],\n  \"a\": [\n    {},\n    [\n      1,\n      2\n    "
        "]\n  ],\n"
        "  \"o\": {\n    \"k\": null\n  }\n}\n"};
    for (int pretty = 0; pretty < 2; pretty++) {
        FILE *f = tmpfile();
        size_t n;
        write_document(f, pretty);
        char *text = text_of(f, &n);
        assert_string_equal(text, want[pretty]);
        free(text);
    }
}

static void test_npy(void **state)
{
    (void)state;
    static const float row[3] = {1.0f, -2.5f, 0.0f};
    static const unsigned char one[4] = {0, 0, 0x80, 0x3f};
    FILE *f = tmpfile();
    size_t n;
    assert_true(cli_npy_header(f, 2, 3));
    assert_true(cli_npy_row(f, row, 3) && cli_npy_row(f, row, 3));
    char *bytes = text_of(f, &n);
    assert_int_equal(n, 128 + 2 * 12);
    assert_memory_equal(bytes, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ",
                        70);
    assert_int_equal(bytes[127], '\n');
    assert_memory_equal(bytes + 128, one, 4);
    free(bytes);

    f = tmpfile();
    assert_true(cli_npy_header(f, 0, 49152));
    bytes = text_of(f, &n);
    assert_int_equal(n, 128);
    assert_non_null(strstr(bytes + 10, "'shape': (49152,), }"));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),          cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_real_numbers),   cmocka_unit_test(test_ids),
        cmocka_unit_test(test_size_texts),     cmocka_unit_test(test_json_strings),
        cmocka_unit_test(test_json_documents), cmocka_unit_test(test_npy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
