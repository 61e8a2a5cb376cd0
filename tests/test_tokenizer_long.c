/* The tokenizer on texts that hurt: long runs of one character, texts that are no text, and memory that is refused. */
#include "tok_build.h"

/* ---- long runs ----
 * Time is that of this process; sanitizers get ten times as much.  What is quadratic takes minutes here. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SECONDS = 20 };
#else
enum { SECONDS = 2 };
#endif

typedef struct {
    char *p;
    size_t n;
} long_text;

static long_text repeat(const char *unit, size_t n_unit, const char *tail)
{
    size_t len = strlen(unit), end = strlen(tail);
    long_text t = {malloc(len * n_unit + end), len * n_unit + end};
    for (size_t i = 0; i < n_unit; i++)
        memcpy(t.p + i * len, unit, len);
    memcpy(t.p + n_unit * len, tail, end);
    return t;
}

static long_text base64_line(size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    long_text t = {malloc(n), n};
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        t.p[i] = digits[seed >> 26];
    }
    return t;
}

/* Encodes and decodes again: the same bytes, in time. */
static void check_long(sl_tokenizer *t, long_text text_, bool exact, const char *what)
{
    size_t cap = text_.n + 16, n, n_back;
    int32_t *ids = malloc(cap * sizeof *ids);
    char *back = malloc(text_.n + 16);
    sl_err err = {0};
    double from = cpu_s();
    if (sl_tokenize(t, text_.p, text_.n, SL_ENCODE_SPECIAL, ids, cap, &n, &err) != SL_OK)
        fail_msg("%s: %s", what, err.msg);
    if (cpu_s() - from > SECONDS) fail_msg("%s: %.1f s", what, cpu_s() - from);
    if (exact) {
        assert_int_equal(sl_detokenize(t, ids, n, true, back, text_.n + 16, &n_back, &err), SL_OK);
        if (n_back != text_.n || memcmp(back, text_.p, n_back) != 0) fail_msg("%s: other text comes back", what);
    }
    free(ids);
    free(back);
}

/* part: the runs are this many times shorter than the reported ones */
static void check_all_runs(sl_tokenizer *t, bool exact, size_t part, const char *name)
{
    long_text runs[] = {
        repeat("A", 1000000 / part, ""),
        repeat("Z", 131072 / part, ""),
        repeat(" ", 200000 / part, ""),
        repeat(" ", 200000 / part, "x"),
        repeat("\n", 100000 / part, ""),
        repeat("\u00a0", 65536 / part, ""),
        base64_line(300000 / part),
        repeat("1", 300000 / part, ""),
        repeat("12345,", 60000 / part, "x"),
        repeat(" \n", 100000 / part, "x"),
        repeat("漢", 100000 / part, ""),
        repeat("!?", 150000 / part, ""),
        repeat("'", 200000 / part, ""),
        repeat("<", 200000 / part, ""),
        repeat("<|im_", 50000 / part, ""),
        repeat("e\u0301", 100000 / part, ""),
        repeat("\u0301\u0316", 80000 / part, ""),
        repeat("\xff", 200000 / part, ""),
        repeat("a\xff", 100000 / part, ""),
        repeat("a b", 100000 / part, ""),
        repeat("aAbB", 100000 / part, ""),
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s, run %zu", name, i);
        check_long(t, runs[i], exact, what);
        free(runs[i].p);
    }
}

/* Every pre-tokenizer pattern that differs in kind. */
static void test_long_runs_through_every_pattern(void **state)
{
    (void)state;
    static const char *const pres[] = {
        "gpt-2",     "llama-bpe",  "qwen2",    "gpt-4o", "tekken",     "deepseek-v3", "deepseek-llm", "deepseek-coder",
        "smollm",    "falcon",     "bloom",    "viking", "bailingmoe", "seed-coder",  "kimi-k2",      "superbpe",
        "tiny_aya",  "exaone-moe", "afmoe",    "jais-2", "minicpm5",   "laguna",      "default",      "youtu",
        "chameleon", "ufakzeka",   "spark2_5", "qwen35", "olmo"};
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++) {
        vocab *v = new_vocab("gpt2", pres[i]);
        heard log = {0};
        add_bytes(v);
        add_merge(v, "A", "A"), add_merge(v, "AA", "AA"), add_merge(v, " ", " "), add_merge(v, "  ", "  ");
        add_merge(v, "\n", "\n"), add_merge(v, "1", "1"), add_merge(v, "\xc2", "\xa0"), add_merge(v, "!", "?");
        add(v, "<|im_start|>", 3, 0), add(v, "<|im_end|>", 3, 0);
        set_bool(v, "tokenizer.ggml.add_bos_token", false);
        sl_tokenizer *t = must_build(v, &log);
        if (log.n_warning) fail_msg("%s: %s", pres[i], log.last);
        bool nfc = strstr("qwen2 qwen35 olmo", pres[i]); /* other bytes may come back */
        check_all_runs(t, !nfc, i < 3 ? 1 : 8, pres[i]);
        sl_tokenizer_close(t);
        free(v);
    }
}

static void test_long_runs_through_scores(void **state)
{
    (void)state;
    vocab *v = new_vocab("llama", NULL);
    add(v, "<unk>", 2, 0), add(v, "<s>", 3, 0), add(v, "</s>", 3, 0);
    set_int(v, "tokenizer.ggml.bos_token_id", 1);
    set_int(v, "tokenizer.ggml.eos_token_id", 2);
    set_bool(v, "tokenizer.ggml.add_space_prefix", false);
    add_byte_tokens(v);
    static const char *const words[] = {"A", "AA", "AAAA", "▁", "▁▁", "▁▁▁▁", "\n", "\n\n",
                                        "1", "11", "a",    "b", "ab", "▁a",   "漢"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        add(v, words[i], 1, -(float)i);
    add(v, "<|im_end|>", 3, 0);
    sl_tokenizer *t = must_build(v, NULL);
    check_all_runs(t, true, 1, "scores");
    sl_tokenizer_close(t);
    free(v);
}

/* Merging "A" x 2^k by doubling tokens has one answer. */
static void test_a_long_run_has_the_right_tokens(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "gpt-2");
    add_bytes(v);
    int two = add_merge(v, "A", "A"), four = add_merge(v, "AA", "AA");
    sl_tokenizer *t = must_build(v, NULL);
    long_text a = repeat("A", 1000003, "");
    int32_t *ids = malloc(a.n * sizeof *ids);
    size_t n;
    sl_err err = {0};
    assert_int_equal(sl_tokenize(t, a.p, a.n, 0, ids, a.n, &n, &err), SL_OK);
    assert_int_equal(n, 250002);
    for (size_t i = 0; i < 250000; i++)
        if (ids[i] != four) fail_msg("token %zu is %d", i, ids[i]);
    assert_int_equal(ids[250000], two);
    assert_int_equal(ids[250001], 'A');
    free(ids);
    free(a.p);
    sl_tokenizer_close(t);
    free(v);
}

/* ---- bytes that are no text ---- */

static void check_random_bytes(sl_tokenizer *t, uint32_t seed)
{
    for (int round = 0; round < 2000; round++) {
        char text_[64], back[80];
        int32_t ids[128];
        size_t n = 0, n_ids, n_back;
        sl_err err = {0};
        for (size_t len = seed % 64; n < len; n++) {
            seed = seed * 1664525u + 1013904223u;
            static const char often[] = "a \n\xe6\x97\xa5\xcc\x81\xf0\x9f\xff\xc0\x80\xed\xa0\x80";
            text_[n] = seed >> 31 ? (char)(seed >> 16) : often[(seed >> 16) % (sizeof often - 1)];
        }
        seed = seed * 1664525u + 1013904223u;
        assert_int_equal(sl_tokenize(t, text_, n, 0, ids, 128, &n_ids, &err), SL_OK);
        assert_int_equal(sl_detokenize(t, ids, n_ids, false, back, sizeof back, &n_back, &err), SL_OK);
        if (n_back != n || memcmp(back, text_, n) != 0) fail_msg("round %d: other bytes come back", round);
    }
}

static void test_any_bytes_come_back(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "llama-bpe");
    add_bytes(v);
    add_merge(v, "a", "a"), add_merge(v, " ", "a"), add_merge(v, "\xe6", "\x97"), add_merge(v, "\xe6\x97", "\xa5");
    sl_tokenizer *t = must_build(v, NULL);
    check_random_bytes(t, 1);
    sl_tokenizer_close(t);
    free(v);

    v = new_vocab("llama", NULL);
    add(v, "<unk>", 2, 0), add(v, "<s>", 3, 0), add(v, "</s>", 3, 0), add_byte_tokens(v);
    add(v, "a", 1, -1), add(v, "▁", 1, -2), add(v, "日", 1, -3), add(v, "▁a", 1, -4);
    t = must_build(v, NULL); /* with its space in front, which is taken away again */
    check_random_bytes(t, 2);
    sl_tokenizer_close(t);
    free(v);
}

/* ---- memory ---- */

static void walk_failures(const vocab *v)
{
    static const char text_[] = "ab bc <|im_end|>e\u0301\u0316 \xff 12345678";
    bytes b = {0};
    write_vocab(&b, v);
    sl_store *s = NULL;
    sl_err err = {0};
    assert_int_equal(sl_gguf_parse_memory(&s, "test.gguf", b.p, b.n, &err), SL_OK);
    sl_status rc = SL_ERR_NOMEM;
    long n = 1, left = 0;
    for (; left <= 0 && n < 5000; n++) { /* until none was refused: some may be, and all is well */
        uint64_t before = sl_alloc_live_bytes();
        left = n;
        sl_tokenizer *t = NULL;
        sl_detok *d = NULL;
        int32_t ids[64];
        size_t n_ids;
        err = (sl_err){0};
        sl_alloc_set_hook(fail_nth, &left);
        rc = sl_tokenizer_build(&t, s, 0, NULL, &err);
        if (rc == SL_OK) rc = sl_tokenize(t, text_, sizeof text_ - 1, 3, ids, 64, &n_ids, &err);
        if (rc == SL_OK) rc = sl_detok_open(&d, t, false, &err);
        sl_alloc_set_hook(NULL, NULL);
        sl_detok_close(d);
        sl_tokenizer_close(t);
        if (rc != SL_OK && (rc != SL_ERR_NOMEM || !err.msg[0]))
            fail_msg("allocation %ld: status %d: %s", n, rc, err.msg);
        if (sl_alloc_live_bytes() != before) fail_msg("allocation %ld: bytes are left", n);
    }
    assert_int_equal(rc, SL_OK);
    if (n < 16) fail_msg("only %ld allocations", n);
    sl_store_close(s);
    free(b.p);
}

static void test_any_failed_allocation_is_survived(void **state)
{
    (void)state;
    static const char *const pres[] = {"qwen2", "superbpe", "deepseek-v3"};
    for (size_t i = 0; i < 3; i++) {
        vocab *v = new_vocab("gpt2", pres[i]);
        add_bytes(v);
        add_merge(v, "a", "b"), add_merge(v, "ab", "c"), add(v, "<|im_end|>", 3, 0);
        for (int k = 0; k < 80; k++) /* more added tokens than the first block holds */
            add(v, keep(v, (char[]){'<', (char)('0' + k), '>', 0}), 4, 0);
        walk_failures(v);
        free(v);
    }
    vocab *v = new_vocab("llama", NULL);
    add(v, "<unk>", 2, 0), add(v, "<s>", 3, 0), add(v, "</s>", 3, 0), add_byte_tokens(v), add(v, "▁a", 1, -1);
    walk_failures(v);
    free(v);
}

/* What is told to the ledger is what is held. */
static void test_bytes_are_told(void **state)
{
    (void)state;
    vocab *v = new_vocab("llama", NULL); /* no pattern: all memory is counted */
    add(v, "<unk>", 2, 0), add(v, "<s>", 3, 0), add(v, "</s>", 3, 0), add_byte_tokens(v);
    uint64_t before = sl_alloc_live_bytes();
    sl_tokenizer *t = must_build(v, NULL);
    uint64_t held = sl_alloc_live_bytes() - before, told = sl_tokenizer_bytes(t);
    assert_true(told <= held + 4096 && held <= told + 4096);
    sl_tokenizer_close(t);
    assert_int_equal(sl_alloc_live_bytes(), before);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_runs_through_every_pattern),   cmocka_unit_test(test_long_runs_through_scores),
        cmocka_unit_test(test_a_long_run_has_the_right_tokens),   cmocka_unit_test(test_any_bytes_come_back),
        cmocka_unit_test(test_any_failed_allocation_is_survived), cmocka_unit_test(test_bytes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
