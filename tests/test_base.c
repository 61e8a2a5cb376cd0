/* Room base without JSON and mathematics: messages, allocation, arena, buffer, cursor, UTF-8, ledger. */
#include "base/base.h"
#include "base/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- status and log ---- */

static void fail_fills_the_callers_message(void **state)
{
    (void)state;
    sl_err err = {0};
    assert_int_equal(sl_fail(&err, SL_ERR_LIMIT, "%s: %d tokens, limit is %d", "prompt", 7, 5), SL_ERR_LIMIT);
    assert_int_equal(err.code, SL_ERR_LIMIT);
    assert_int_equal(err.os_errno, 0);
    assert_string_equal(err.msg, "prompt: 7 tokens, limit is 5");
    assert_int_equal(sl_fail(NULL, SL_ERR_ARG, "nobody listens %d", 1), SL_ERR_ARG);
}

static void fail_may_quote_its_own_message(void **state)
{
    (void)state;
    sl_err err = {0};
    sl_fail(&err, SL_ERR_FORMAT, "bad header");
    sl_fail(&err, err.code, "model.gguf: %s", err.msg);
    assert_string_equal(err.msg, "model.gguf: bad header");
}

static void fail_os_names_the_reason(void **state)
{
    (void)state;
    sl_err err = {0};
    assert_int_equal(sl_fail_os(&err, ENOENT, "%s: cannot be opened", "x"), SL_ERR_IO);
    assert_int_equal(err.os_errno, ENOENT);
    assert_string_equal(err.msg, "x: cannot be opened: No such file or directory");
    assert_int_equal(sl_fail_os(NULL, EIO, "x"), SL_ERR_IO);
}

static void long_messages_are_cut_not_overrun(void **state)
{
    (void)state;
    struct {
        sl_err err;
        char after[16];
    } s = {.after = "untouched"};
    char big[3000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    sl_fail(&s.err, SL_ERR_FORMAT, "%s", big);
    assert_int_equal(strlen(s.err.msg), sizeof s.err.msg - 1);
    sl_fail_os(&s.err, EIO, "%s", big);
    assert_int_equal(strlen(s.err.msg), sizeof s.err.msg - 1);
    assert_string_equal(s.after, "untouched");
}

typedef struct {
    int n;
    sl_log_level level;
    char msg[200];
} heard;

static void hear(void *user, sl_log_level level, const char *msg)
{
    heard *h = user;
    h->n++;
    h->level = level;
    snprintf(h->msg, sizeof h->msg, "%s", msg);
}

static void log_reaches_the_callback(void **state)
{
    (void)state;
    heard h = {0};
    sl_log log = {hear, &h};
    sl_note(&log, "%d files", 3);
    assert_true(h.n == 1 && h.level == SL_LOG_NOTE && strcmp(h.msg, "3 files") == 0);
    sl_warn(&log, "slow %s", "drive");
    assert_true(h.n == 2 && h.level == SL_LOG_WARNING && strcmp(h.msg, "slow drive") == 0);
    sl_note(NULL, "nobody");
    sl_warn(&(sl_log){0}, "nobody");
}

static void sizes_read_well(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {999, "999 B"},
                 {1000, "1.0 kB"},
                 {1536, "1.5 kB"},
                 {999949, "999.9 kB"},
                 {999950, "1.0 MB"},
                 {4294967296, "4.29 GB"},
                 {999999999, "1.00 GB"},
                 {1200000000, "1.20 GB"},
                 {UINT64_MAX, "18.45 EB"}};
    char buf[24];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(sl_size_text(cases[i].bytes, buf), cases[i].text);
}

/* ---- allocation ---- */

static bool fail_at_zero(void *user)
{
    int *left = user;
    return (*left)-- == 0;
}

static void allocations_are_counted(void **state)
{
    (void)state;
    uint64_t before = sl_alloc_live_bytes();
    char *a = sl_malloc(1000), *b = sl_calloc(10, 10), *c = sl_strdup("hello"), *d = sl_strndup("hello", 2);
    assert_true(a && b && c && d);
    assert_true(sl_alloc_live_bytes() >= before + 1000 + 100 + 6 + 3);
    for (int i = 0; i < 100; i++)
        assert_int_equal(b[i], 0);
    assert_string_equal(c, "hello");
    assert_string_equal(d, "he");
    a = sl_realloc(a, 100000);
    assert_non_null(a);
    assert_true(sl_alloc_live_bytes() >= before + 100000);
    a = sl_realloc(a, 10);
    sl_free(a);
    sl_free(b);
    sl_free(c);
    sl_free(d);
    sl_free(NULL);
    assert_int_equal(sl_alloc_live_bytes(), before);
}

static void hopeless_sizes_are_refused(void **state)
{
    (void)state;
    uint64_t before = sl_alloc_live_bytes();
    assert_null(sl_calloc(SIZE_MAX / 2, 3));
    assert_null(sl_calloc(3, SIZE_MAX / 2));
    assert_null(sl_strndup("x", SIZE_MAX));
    void *p = sl_malloc(0), *q = sl_calloc(0, 8);
    assert_true(p && q); /* NULL would read as refused */
    p = sl_realloc(p, 0);
    assert_non_null(p);
    sl_free(p);
    sl_free(q);
    assert_int_equal(sl_alloc_live_bytes(), before);
}

static void the_hook_refuses_the_nth(void **state)
{
    (void)state;
    int left = 2;
    sl_alloc_set_hook(fail_at_zero, &left);
    void *a = sl_malloc(8), *b = sl_calloc(1, 8), *c = sl_malloc(8), *d = sl_realloc(NULL, 8);
    sl_alloc_set_hook(NULL, NULL);
    assert_true(a && b && !c && d);
    left = 0;
    sl_alloc_set_hook(fail_at_zero, &left);
    assert_null(sl_realloc(a, 100)); /* a survives */
    assert_false(sl_alloc_should_fail());
    sl_alloc_set_hook(NULL, NULL);
    memset(a, 1, 8);
    sl_free(a);
    sl_free(b);
    sl_free(d);
}

/* ---- arena and buffer ---- */

typedef struct {
    uint8_t *a;
    double *b;
    uint16_t *c;
} laid_out;

static void lay_out(laid_out *l, sl_arena *a)
{
    l->a = sl_arena_take(a, 3, 1, 1);
    l->b = sl_arena_take(a, 5, sizeof(double), 64);
    l->c = sl_arena_take(a, 7, sizeof(uint16_t), 2);
}

static void arena_measures_what_it_carves(void **state)
{
    (void)state;
    laid_out l;
    sl_arena measure = {0};
    lay_out(&l, &measure);
    assert_true(!measure.failed && measure.used == 64 + 40 + 14);
    assert_null(l.b);

    static _Alignas(64) uint8_t block[118];
    sl_arena carve = {.base = block, .cap = sizeof block};
    lay_out(&l, &carve);
    assert_true(!carve.failed && carve.used == measure.used);
    assert_true((uint8_t *)l.b == block + 64 && (uint8_t *)l.c == block + 104);

    sl_arena tight = {.base = block, .cap = sizeof block - 1};
    lay_out(&l, &tight);
    assert_true(tight.failed && !l.c);
    assert_null(sl_arena_take(&tight, 1, 1, 1)); /* sticky */
    sl_arena wraps = {0};
    assert_null(sl_arena_take(&wraps, SIZE_MAX / 2, 3, 8));
    assert_true(wraps.failed);
}

static void buffer_grows_to_its_maximum(void **state)
{
    (void)state;
    sl_buf b;
    sl_buf_init(&b, 1000);
    sl_buf_add(&b, NULL, 0);
    assert_true(b.data && b.data[0] == 0 && b.len == 0);
    for (int i = 0; i < 1000; i++) {
        char c = (char)('a' + i % 26);
        sl_buf_add(&b, &c, 1);
    }
    assert_true(!b.failed && b.len == 1000 && b.data[1000] == 0 && b.data[999] == 'a' + 999 % 26);
    sl_buf_add(&b, "x", 1);
    assert_true(b.failed && b.len == 1000);
    sl_buf_add(&b, "", 0); /* sticky, and nothing changes */
    assert_true(b.failed && b.len == 1000);
    sl_buf_free(&b);
    assert_true(!b.data && !b.failed && b.max == 1000);
    sl_buf_printf(&b, "%s-%04d", "id", 42);
    sl_buf_printf(&b, "%c", '!');
    assert_string_equal(b.data, "id-0042!");
    sl_buf_printf(&b, "%1000d", 1);
    assert_true(b.failed && b.len == 8 && strcmp(b.data, "id-0042!") == 0);
    sl_buf_free(&b);
}

static void buffer_survives_no_memory(void **state)
{
    (void)state;
    sl_buf b;
    int left = 1;
    sl_buf_init(&b, SIZE_MAX);
    sl_alloc_set_hook(fail_at_zero, &left);
    sl_buf_add(&b, "abc", 3);
    char big[500] = {0};
    sl_buf_add(&b, big, sizeof big);
    sl_alloc_set_hook(NULL, NULL);
    assert_true(b.failed && b.len == 3 && strcmp(b.data, "abc") == 0);
    sl_buf_free(&b);
}

/* ---- cursor and sizes ---- */

static void cursor_stops_at_the_end(void **state)
{
    (void)state;
    const uint8_t data[] = {1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'};
    sl_cursor c = {data, sizeof data, 0};
    uint8_t a;
    uint16_t b;
    uint32_t d;
    uint64_t e;
    const uint8_t *p;
    assert_true(sl_cursor_u8(&c, &a) && sl_cursor_u16(&c, &b) && sl_cursor_u32(&c, &d) && sl_cursor_u64(&c, &e));
    assert_true(a == 1 && b == 2 && d == 3 && e == 4 && c.pos == 15);
    assert_false(sl_cursor_u32(&c, &d));
    assert_false(sl_cursor_bytes(&c, 3, &p));
    assert_false(sl_cursor_skip(&c, UINT64_MAX));
    assert_false(sl_cursor_need(&c, UINT64_MAX - 14)); /* pos + this wraps to 0 */
    assert_int_equal(c.pos, 15);
    assert_true(sl_cursor_bytes(&c, 2, &p) && p[0] == 'a' && p[1] == 'b');
    assert_true(sl_cursor_need(&c, 0) && !sl_cursor_need(&c, 1) && !sl_cursor_u8(&c, &a));
    assert_true(sl_cursor_bytes(&c, 0, &p) && p != NULL);
    sl_cursor none = {NULL, 0, 0};
    assert_true(!sl_cursor_u8(&none, &a) && sl_cursor_skip(&none, 0) && sl_cursor_bytes(&none, 0, &p));
}

static void checked_sizes_refuse_to_wrap(void **state)
{
    (void)state;
    uint64_t v;
    assert_true(sl_mul_u64(1u << 31, 1u << 31, &v) && v == (uint64_t)1 << 62);
    assert_false(sl_mul_u64((uint64_t)1 << 32, (uint64_t)1 << 32, &v));
    assert_false(sl_add_u64(UINT64_MAX, 1, &v));
    assert_true(sl_align_up_u64(4097, 4096, &v) && v == 8192);
    assert_false(sl_align_up_u64(UINT64_MAX - 10, 32, &v));
    assert_true(sl_round_up(7, 3) == 9 && sl_round_down(7, 3) == 6);
}

static void hash_tells_neighbours_apart(void **state)
{
    (void)state;
    enum { N = 4096 };
    static uint64_t seen[2 * N];
    uint8_t zeros[64] = {0};
    for (uint32_t i = 0; i < N; i++) {
        seen[2 * i] = sl_hash_bytes(&i, sizeof i);
        char text[32];
        seen[2 * i + 1] = sl_hash_bytes(text, (size_t)snprintf(text, sizeof text, "model.layers.%u.weight", i));
    }
    uint32_t low[256] = {0};
    for (size_t i = 0; i < 2 * N; i++) {
        low[seen[i] & 255]++;
        for (size_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
    }
    for (size_t i = 0; i < 256; i++) /* 32 expected per bucket; 5 sigma are 28 */
        assert_in_range(low[i], 4, 60);
    for (size_t n = 1; n < sizeof zeros; n++) /* the length counts, not only the bytes */
        assert_true(sl_hash_bytes(zeros, n) != sl_hash_bytes(zeros, n - 1));
}

/* ---- UTF-8 ---- */

/* The definition, without a table: the shortest encoding of a scalar value. */
static size_t reference_encode(uint32_t cp, uint8_t out[4])
{
    if (cp < 0x80) return out[0] = (uint8_t)cp, 1;
    if (cp < 0x800) return out[0] = (uint8_t)(0xC0 + cp / 64), out[1] = (uint8_t)(0x80 + cp % 64), 2;
    if (cp < 0x10000)
        return out[0] = (uint8_t)(0xE0 + cp / 4096), out[1] = (uint8_t)(0x80 + cp / 64 % 64),
               out[2] = (uint8_t)(0x80 + cp % 64), 3;
    return out[0] = (uint8_t)(0xF0 + cp / 262144), out[1] = (uint8_t)(0x80 + cp / 4096 % 64),
           out[2] = (uint8_t)(0x80 + cp / 64 % 64), out[3] = (uint8_t)(0x80 + cp % 64), 4;
}

static void every_scalar_value_goes_round(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        uint8_t want[4];
        char got[4];
        uint32_t back = 0;
        bool surrogate = cp >= 0xD800 && cp <= 0xDFFF;
        size_t n = reference_encode(cp, want), m = sl_utf8_encode(cp, got);
        if (surrogate) {
            assert_true(m == 3 && memcmp(got, "\xEF\xBF\xBD", 3) == 0);
            assert_true(sl_utf8_decode((char *)want, n, &back) == 0);
            continue;
        }
        assert_true(n == m && memcmp(want, got, n) == 0);
        assert_true(sl_utf8_decode(got, n, &back) == n && back == cp);
        assert_true(n == 1 || sl_utf8_decode(got, n - 1, &back) == 0);
    }
    char out[4];
    assert_true(sl_utf8_encode(0x110000, out) == 3 && memcmp(out, "\xEF\xBF\xBD", 3) == 0);
}

/* All two-byte and, with a fixed tail, all lead/second pairs of longer forms: valid exactly when some value has them.
 */
static void only_shortest_forms_are_valid(void **state)
{
    (void)state;
    static uint8_t valid[256][256]; /* [lead][second]: length of the valid form that begins so */
    for (uint32_t cp = 0x80; cp <= 0x10FFFF; cp++) {
        uint8_t e[4];
        if (cp >= 0xD800 && cp <= 0xDFFF) continue;
        size_t n = reference_encode(cp, e);
        valid[e[0]][e[1]] = (uint8_t)n;
    }
    for (uint32_t a = 0x80; a < 256; a++)
        for (uint32_t b = 0; b < 256; b++) {
            char s[4] = {(char)a, (char)b, (char)0x80, (char)0xBF};
            uint32_t cp;
            assert_int_equal(sl_utf8_decode(s, 4, &cp), valid[a][b]);
        }
}

static void valid_prefix_finds_the_first_fault(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t valid;
    } cases[] = {{"", 0},
                 {"plain ascii longer than a word", 30},
                 {"h\xC3\xA9llo \xF0\x9F\x98\x80 \xE2\x82\xAC", 15},
                 {"12345678\x80", 8},
                 {"1234567\xFF"
                  "9",
                  7},
                 {"abc\xF0\x9F\x98", 3},
                 {"\xC0\xAF", 0},
                 {"a\xED\xA0\x80", 1},
                 {"\xF4\x90\x80\x80", 0},
                 {"ok\xE2\x28\xA1", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(sl_utf8_valid_prefix(cases[i].text, strlen(cases[i].text)), cases[i].valid);
    assert_int_equal(sl_utf8_valid_prefix("\0\0\0\0\0\0\0\0\0", 9), 9);
}

/* ---- ledger ---- */

static void ledger_keeps_the_budget(void **state)
{
    (void)state;
    sl_ledger l;
    sl_err err = {0};
    sl_ledger_init(&l, 1000);
    assert_int_equal(sl_ledger_take(&l, SL_MEM_KV, 600, &err), SL_OK);
    assert_int_equal(sl_ledger_take(&l, SL_MEM_WINDOW, 401, &err), SL_ERR_BUDGET);
    assert_non_null(strstr(err.msg, sl_mem_kind_name(SL_MEM_WINDOW)));
    assert_non_null(strstr(err.msg, "401"));
    assert_non_null(strstr(err.msg, "600 B"));
    assert_non_null(strstr(err.msg, "1.0 kB"));
    assert_true(l.total == 600 && l.used[SL_MEM_WINDOW] == 0);
    assert_int_equal(sl_ledger_take(&l, SL_MEM_WINDOW, 400, &err), SL_OK);
    assert_int_equal(sl_ledger_take(&l, SL_MEM_WINDOW, 1, NULL), SL_ERR_BUDGET);
    sl_ledger_give(&l, SL_MEM_KV, 600);
    assert_true(l.total == 400 && l.peak == 1000 && l.used[SL_MEM_KV] == 0);
    assert_int_equal(sl_ledger_take(&l, SL_MEM_KV, UINT64_MAX, NULL), SL_ERR_BUDGET);
}

static void ledger_without_budget_still_counts(void **state)
{
    (void)state;
    sl_ledger l;
    sl_ledger_init(&l, 0);
    assert_int_equal(sl_ledger_take(&l, SL_MEM_RESIDENT, (uint64_t)1 << 63, NULL), SL_OK);
    assert_int_equal(sl_ledger_take(&l, SL_MEM_RESIDENT, (uint64_t)1 << 63, NULL),
                     SL_ERR_BUDGET); /* the sum would wrap */
    assert_true(l.peak == (uint64_t)1 << 63);
    for (int k = 0; k < SL_MEM_KINDS; k++)
        assert_true(sl_mem_kind_name((sl_mem_kind)k)[0] != 0);
    assert_string_equal(sl_mem_kind_name(SL_MEM_KINDS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_the_callers_message), cmocka_unit_test(fail_may_quote_its_own_message),
        cmocka_unit_test(fail_os_names_the_reason),       cmocka_unit_test(long_messages_are_cut_not_overrun),
        cmocka_unit_test(log_reaches_the_callback),       cmocka_unit_test(sizes_read_well),
        cmocka_unit_test(allocations_are_counted),        cmocka_unit_test(hopeless_sizes_are_refused),
        cmocka_unit_test(the_hook_refuses_the_nth),       cmocka_unit_test(arena_measures_what_it_carves),
        cmocka_unit_test(buffer_grows_to_its_maximum),    cmocka_unit_test(buffer_survives_no_memory),
        cmocka_unit_test(cursor_stops_at_the_end),        cmocka_unit_test(checked_sizes_refuse_to_wrap),
        cmocka_unit_test(hash_tells_neighbours_apart),    cmocka_unit_test(every_scalar_value_goes_round),
        cmocka_unit_test(only_shortest_forms_are_valid),  cmocka_unit_test(valid_prefix_finds_the_first_fault),
        cmocka_unit_test(ledger_keeps_the_budget),        cmocka_unit_test(ledger_without_budget_still_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
