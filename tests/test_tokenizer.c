/* The tokenizer on GGUF vocabularies: the 2,000 lines of tests/fixtures/text with ids from llama.cpp and `tokenizers`,
 * vocabularies small enough to merge by hand, control tokens in texts, and files that are wrong. */
#include "tok_build.h"

#define FIXTURES "tests/fixtures/"

/* ---- lines with expected ids ---- */

/* The next line of f without its newline, or NULL. */
static char *next_line(FILE *f, size_t *n)
{
    static char *line;
    static size_t cap;
    ssize_t len = getline(&line, &cap, f);
    if (len < 0) return NULL;
    if (len && line[len - 1] == '\n') line[--len] = 0;
    *n = (size_t)len;
    return line;
}

static size_t unescape(char *s, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\' && i + 1 < n) {
            i++;
            s[out++] = s[i] == 'n' ? '\n' : s[i] == 't' ? '\t' : s[i];
        } else {
            s[out++] = s[i];
        }
    }
    return out;
}

static size_t parse_ids(const char *s, int32_t *ids)
{
    size_t n = 0;
    while (*s) {
        char *end;
        ids[n++] = (int32_t)strtol(s, &end, 10);
        s = *end == ',' ? end + 1 : end;
    }
    return n;
}

/* Where the text begins with BOS, the references put a second one before it; this library does not (one BOS). */
static size_t one_bos(const sl_tokenizer *t, int32_t *want, size_t n)
{
    if (n < 2 || want[0] != sl_tokenizer_bos(t) || want[1] != want[0]) return n;
    memmove(want, want + 1, (n - 1) * sizeof *want);
    return n - 1;
}

static unsigned compare_lines(sl_tokenizer *t, const char *texts, const char *ids, const char *what)
{
    FILE *ft = fopen(texts, "rb"), *fi = fopen(ids, "rb");
    if (!ft || !fi) fail_msg("%s or %s is missing", texts, ids);
    static int32_t want[8192], got[8192];
    unsigned n_line = 0, n_one = 0;
    size_t n;
    for (char *line; (line = next_line(fi, &n)); n_line++) {
        size_t n_want = parse_ids(line, want), n_kept = one_bos(t, want, n_want), n_got = 0;
        sl_err err = {0};
        n_one += n_kept != n_want;
        line = next_line(ft, &n);
        assert_non_null(line);
        n = unescape(line, n);
        if (sl_tokenize(t, line, n, SL_ENCODE_BOS | SL_ENCODE_SPECIAL, got, 8192, &n_got, &err) != SL_OK)
            fail_msg("%s, line %u: %s", what, n_line + 1, err.msg);
        if (n_got != n_kept || memcmp(got, want, n_got * sizeof *got) != 0)
            fail_msg("%s, line %u: '%.*s' has %zu other ids than the %zu expected", what, n_line + 1, (int)n, line,
                     n_got, n_kept);
    }
    assert_true(n_one <= 1); /* no more than the one line that the list has for it */
    fclose(ft);
    fclose(fi);
    return n_line;
}

static void compare_model(const char *path, const char *name, const char *which, unsigned n_want)
{
    char texts[256], ids[256];
    sl_tokenizer *t;
    sl_err err = {0};
    snprintf(texts, sizeof texts, FIXTURES "text/%s.txt", which);
    snprintf(ids, sizeof ids, FIXTURES "text/%s.%s.ids", which, name);
    if (sl_tokenizer_open(&t, path, NULL, NULL, &err) != SL_OK) fail_msg("%s: %s", path, err.msg);
    assert_int_equal(compare_lines(t, texts, ids, path), n_want);
    sl_tokenizer_close(t);
}

static void test_tiny_models_give_the_reference_ids(void **state)
{
    (void)state;
    static const char *const families[][2] = {{"tiny-gpt2", "llama"},
                                              {"tiny-smollm", "smollm2"},
                                              {"tiny-qwen2", "qwen2"},
                                              {"tiny-llama3", "llama3-rope"},
                                              {"tiny-gemma", "gemma3"}};
    for (size_t i = 0; i < 5; i++) {
        char path[256];
        snprintf(path, sizeof path, FIXTURES "tiny/%s/hf", families[i][1]);
        compare_model(path, families[i][0], "lines", 2000);
        snprintf(path, sizeof path, FIXTURES "tiny/%s/%s-f32.gguf", families[i][1], families[i][1]);
        compare_model(path, families[i][0], "lines", 2000);
    }
}

static void compare_real(const char *file, const char *name)
{
    const char *dir = getenv("MODELS");
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "build/models", file);
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not there (tools/fetch_models)\n", path);
        skip();
    }
    compare_model(path, name, "lines", 2000);
    compare_model(path, name, "edge", 25);
}

static void test_smollm2_gives_the_reference_ids(void **state)
{
    (void)state;
    compare_real("smollm2-135m-instruct-q4_1.gguf", "smollm2");
}

static void test_gemma3_gives_the_reference_ids(void **state)
{
    (void)state;
    compare_real("gemma-3-270m-q4_k_m.gguf", "gemma3");
}

/* ---- byte-level BPE by hand ---- */

static void test_byte_merges_go_by_rank_then_from_the_left(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "gpt-2");
    add_bytes(v);
    int ab = add_merge(v, "a", "b"), bc = add_merge(v, "b", "c"), aa = add_merge(v, "a", "a");
    int abc = add_merge(v, "ab", "c"), the = add_merge(v, " ", "t"), e_acute = add_merge(v, "\xc3", "\xa9");
    int end = add(v, "<|endoftext|>", 3, 0);
    sl_tokenizer *t = must_build(v, NULL);
    CHECK_IDS(t, "abc", 0, abc); /* ab has the lower rank, then ab + c */
    CHECK_IDS(t, "xbc", 0, 'x', bc);
    CHECK_IDS(t, "aaa", 0, aa, 'a'); /* the leftmost of equals */
    CHECK_IDS(t, "aaaa", 0, aa, aa);
    CHECK_IDS(t, "aab", 0, 'a', ab); /* ab before aa */
    CHECK_IDS(t, "x t", 0, 'x', the);
    CHECK_IDS(t, "\xc3\xa9", 0, e_acute);
    CHECK_IDS(t, "ab bc", 0, ab, ' ', bc); /* pieces: no merge across */
    CHECK_IDS(t, "", 0, -1);
    CHECK_IDS(t, "<|endoftext|>", SL_ENCODE_SPECIAL, end);
    assert_int_equal(sl_tokenizer_vocab(t), v->n);
    sl_tokenizer_close(t);
    free(v);
}

static void test_ignore_merges_takes_whole_pieces(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        vocab *v = new_vocab("gpt2", i ? "llama-bpe" : "dbrx");
        add_bytes(v);
        add(v, "xyz", 1, 0); /* a token that no merge makes */
        sl_tokenizer *t = must_build(v, NULL);
        if (i)
            CHECK_IDS(t, "xyz", 0, 256);
        else
            CHECK_IDS(t, "xyz", 0, 'x', 'y', 'z');
        sl_tokenizer_close(t);
        free(v);
    }
}

static void test_missing_bytes_become_unknown_or_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        vocab *v = new_vocab("gpt2", "gpt-2");
        add(v, "a", 1, 0);
        add(v, "b", 1, 0);
        add(v, "<unk>", 3, 0);
        if (i) set_int(v, "tokenizer.ggml.unknown_token_id", 2);
        sl_tokenizer *t = must_build(v, NULL);
        if (i)
            CHECK_IDS(t, "a?b", 0, 0, 2, 1);
        else
            CHECK_IDS(t, "a?b", 0, 0, 1);
        sl_tokenizer_close(t);
        free(v);
    }
}

/* An added token called é and the byte E9 (whose disguise is é) are two different things. */
static void test_added_text_is_not_a_disguise(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "gpt-2");
    add_bytes(v);
    int added = add(v, "é", 4, 0), odd = add(v, "日", 1, 0); /* no disguise at all */
    sl_tokenizer *t = must_build(v, NULL);
    size_t n;
    CHECK_IDS(t, "é", 0, added);
    CHECK_IDS(t, "\xe9", 0, 0xE9);
    CHECK_IDS(t, "日", 0, 0xE6, 0x97, 0xA5); /* what is no disguise can't be merged into */
    assert_memory_equal(sl_token_bytes(t, added, false, &n), "\xc3\xa9", 2);
    assert_memory_equal(sl_token_bytes(t, 0xE9, false, &n), "\xe9", 1);
    assert_int_equal(n, 1);
    assert_memory_equal(sl_token_bytes(t, odd, false, &n), "\xe6\x97\xa5", 3);
    sl_tokenizer_close(t);
    free(v);
}

static void test_merges_of_strangers_are_ignored_and_counted(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "gpt-2");
    heard log = {0};
    add_bytes(v);
    v->merges[v->n_merge++] = "a zz"; /* zz is no token */
    v->merges[v->n_merge++] = "nospace";
    v->merges[v->n_merge++] = "a c"; /* ac is no token */
    v->merges[v->n_merge++] = "";
    int ab = add_merge(v, "a", "b");
    add(v, "<|endoftext|>", 3, 0); /* or there would be a second warning */
    sl_tokenizer *t = must_build(v, &log);
    CHECK_IDS(t, "ab", 0, ab);
    CHECK_IDS(t, "ac", 0, 'a', 'c');
    assert_int_equal(log.n_warning, 1);
    assert_non_null(strstr(log.last, "4 of 5 merges"));
    sl_tokenizer_close(t);
    free(v);
}

/* ---- SentencePiece BPE by hand ---- */

static vocab *spm_vocab(void)
{
    vocab *v = new_vocab("llama", NULL);
    add(v, "<unk>", 2, 0);
    add(v, "<s>", 3, 0);
    add(v, "</s>", 3, 0);
    set_int(v, "tokenizer.ggml.bos_token_id", 1);
    set_int(v, "tokenizer.ggml.eos_token_id", 2);
    set_int(v, "tokenizer.ggml.unknown_token_id", 0);
    return v;
}

static void test_scores_decide_then_the_left(void **state)
{
    (void)state;
    vocab *v = spm_vocab();
    set_bool(v, "tokenizer.ggml.add_space_prefix", false);
    set_bool(v, "tokenizer.ggml.add_bos_token", false);
    int a = add(v, "a", 1, -10), b = add(v, "b", 1, -11), c = add(v, "c", 1, -12), space = add(v, "▁", 1, -13);
    int ab = add(v, "ab", 1, -3), bc = add(v, "bc", 1, -2), aa = add(v, "aa", 1, -1), xb = add(v, "▁b", 1, -3);
    int aaa = add(v, "aaa", 1, -5), zero = add(v, "cc", 1, -0.0f), zero2 = add(v, "cb", 1, 0.0f);
    sl_tokenizer *t = must_build(v, NULL);
    CHECK_IDS(t, "abc", 0, a, bc); /* -2 beats -3 */
    CHECK_IDS(t, "ab", 0, ab);
    CHECK_IDS(t, "aaa", 0, aaa);       /* aa, then aa + a */
    CHECK_IDS(t, "aaaaa", 0, aa, aaa); /* both aa are made before aaa */
    CHECK_IDS(t, "a b", 0, a, xb);     /* ab is not adjacent */
    CHECK_IDS(t, "b ", 0, b, space);
    CHECK_IDS(t, "ccb", 0, zero, b); /* -0 and 0 are equal: leftmost */
    CHECK_IDS(t, "cb", 0, zero2);
    CHECK_IDS(t, "c", 0, c);
    sl_tokenizer_close(t);
    free(v);
}

static void test_bytes_stand_for_characters_without_token(void **state)
{
    (void)state;
    vocab *v = spm_vocab();
    set_bool(v, "tokenizer.ggml.add_space_prefix", false);
    int first = add_byte_tokens(v), a = add(v, "a", 1, -1);
    sl_tokenizer *t = must_build(v, NULL);
    CHECK_IDS(t, "aéa", 0, a, first + 0xC3, first + 0xA9, a);
    CHECK_IDS(t,
              "\xff"
              "a\x80",
              0, first + 0xFF, a, first + 0x80); /* bytes that are no text */
    CHECK_IDS(t, "<0x41>", 0, first + '<', first + '0', first + 'x', first + '4', first + '1', first + '>');
    sl_tokenizer_close(t);
    v->types[first + 0x41] = 1; /* without one of them: unknown, once for a run */
    v->tokens[first + 0x41] = "zzz";
    t = must_build(v, NULL);
    CHECK_IDS(t, "aAAa", 0, a, 0, a);
    sl_tokenizer_close(t);
    free(v);
}

static void test_space_goes_before_each_text(void **state)
{
    (void)state;
    vocab *v = spm_vocab();
    int a = add(v, "a", 1, -1), sp = add(v, "▁", 1, -2), spa = add(v, "▁a", 1, -3), user = add(v, "<tool>", 4, 0);
    sl_tokenizer *t = must_build(v, NULL);
    CHECK_IDS(t, "a", 0, spa);
    CHECK_IDS(t, " a", 0, sp, spa);
    CHECK_IDS(t, "aa<tool>a</s>a", SL_ENCODE_SPECIAL, spa, a, user, spa, 2, spa);
    CHECK_IDS(t, "a▁a", 0, spa, spa);   /* U+2581 is a space */
    CHECK_IDS(t, "", SL_ENCODE_BOS, 1); /* no text, no space */
    CHECK_IDS(t, "<tool>", 0, user);
    CHECK_IDS(t, "a", SL_ENCODE_BOS, 1, spa);
    sl_tokenizer_close(t);
    free(v);
}

/* ---- against a naive merger ---- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* All substrings that are tokens, best score (then leftmost) first, quadratic: on single-byte characters. */
static size_t naive_scores(const vocab *v, const char *s, int *out)
{
    char part[64][64];
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        part[i][0] = s[i], part[i][1] = 0;
    for (;;) {
        size_t best = SIZE_MAX;
        float score = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            char both[128];
            snprintf(both, sizeof both, "%s%s", part[i], part[i + 1]);
            for (unsigned k = 3; k < v->n; k++)
                if (strcmp(v->tokens[k], both) == 0 && (best == SIZE_MAX || v->scores[k] > score)) {
                    best = i;
                    score = v->scores[k];
                }
        }
        if (best == SIZE_MAX) break;
        char joined[128];
        snprintf(joined, sizeof joined, "%s%s", part[best], part[best + 1]);
        memcpy(part[best], joined, sizeof part[0]);
        memmove(part[best + 1], part[best + 2], (n - best - 2) * sizeof part[0]);
        n--;
    }
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 3; k < v->n; k++)
            if (strcmp(v->tokens[k], part[i]) == 0) {
                out[i] = (int)k;
                break;
            }
    return n;
}

static void test_heap_agrees_with_a_naive_merger(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 40; round++) {
        vocab *v = spm_vocab();
        set_bool(v, "tokenizer.ggml.add_space_prefix", false);
        for (const char *c = "abc"; *c; c++)
            add(v, keep(v, (char[]){*c, 0}), 1, -100);
        for (int k = 0; k < 40; k++) { /* random words, many with equal scores */
            char word[8] = "";
            for (uint32_t n = 2 + next_random(&seed) % 5, i = 0; i < n; i++)
                strcat(word, (char[]){(char)('a' + next_random(&seed) % 3), 0});
            bool seen = false;
            for (unsigned i = 0; i < v->n; i++)
                seen = seen || strcmp(v->tokens[i], word) == 0;
            if (!seen) add(v, keep(v, word), 1, -(float)(next_random(&seed) % 12));
        }
        sl_tokenizer *t = must_build(v, NULL);
        for (int k = 0; k < 60; k++) {
            char s[64] = "";
            int want[65];
            uint32_t n = 1 + next_random(&seed) % 40;
            for (uint32_t i = 0; i < n; i++)
                strcat(s, (char[]){(char)('a' + next_random(&seed) % 3), 0});
            want[naive_scores(v, s, want)] = -1;
            check_ids_n(t, s, n, 0, want, __LINE__);
        }
        sl_tokenizer_close(t);
        free(v);
    }
}

/* ---- control tokens in a text ---- */

static void test_control_tokens_need_permission(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "gpt-2");
    add_bytes(v);
    int start = add(v, "<|im_start|>", 3, 0), end = add(v, "<|im_end|>", 3, 0), user = add(v, "<think>", 4, 0);
    int longer = add(v, "<|im_end|>!", 3, 0);
    sl_tokenizer *t = must_build(v, NULL);
    int32_t ids[64];
    size_t n;
    sl_err err = {0};
    CHECK_IDS(t, "a<|im_end|>b", SL_ENCODE_SPECIAL, 'a', end, 'b');
    CHECK_IDS(t, "<|im_end|>!<|im_end|>", SL_ENCODE_SPECIAL, longer, end); /* the longest */
    CHECK_IDS(t, "<|im_end|><|im_start|>", SL_ENCODE_SPECIAL, end, start);
    CHECK_IDS(t, "<think>", 0, user); /* always */
    CHECK_IDS(t, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    CHECK_IDS(t, "<|im_en", SL_ENCODE_SPECIAL, '<', '|', 'i', 'm', '_', 'e', 'n');
    /* What a user wrote is plain, wherever it stands in a rendered prompt; a marker half inside is plain too. */
    const char *text_ = "<|im_start|><|im_end|>x<|im_end|>";
    sl_text_span plain[] = {{12, 23}}, half[] = {{21, 22}, {30, 31}};
    assert_int_equal(sl_tokenizer_encode(t, text_, strlen(text_), SL_ENCODE_SPECIAL, plain, 1, ids, 64, &n, &err),
                     SL_OK);
    assert_int_equal(n, 1 + 11 + 1);
    assert_int_equal(ids[0], start);
    assert_int_equal(ids[12], end);
    assert_int_equal(sl_tokenizer_encode(t, text_, strlen(text_), SL_ENCODE_SPECIAL, half, 2, ids, 64, &n, &err),
                     SL_OK);
    assert_int_equal(n, 1 + 10 + 1 + 10);
    sl_tokenizer_close(t);
    free(v);
}

static void test_phi3_markers_swallow_blanks(void **state)
{
    (void)state;
    vocab *v = spm_vocab();
    v->name = "Phi-3 mini";
    set_bool(v, "tokenizer.ggml.add_space_prefix", false);
    int a = add(v, "a", 1, -1), sp = add(v, "▁", 1, -1), nl = add(v, "\n", 1, -1), user = add(v, "<|user|>", 3, 0);
    sl_tokenizer *t = must_build(v, NULL);
    CHECK_IDS(t, "a <|user|> \n a", SL_ENCODE_SPECIAL, a, sp, user, a);
    CHECK_IDS(t, "<s> \n", SL_ENCODE_SPECIAL, 1, sp, nl);
    sl_tokenizer_close(t);
    free(v);
}

/* ---- BOS ---- */

static void test_one_bos(void **state)
{
    (void)state;
    vocab *v = spm_vocab();
    int a = add(v, "a", 1, -1);
    set_bool(v, "tokenizer.ggml.add_space_prefix", false);
    set_bool(v, "tokenizer.ggml.add_eos_token", true);
    sl_tokenizer *t = must_build(v, NULL);
    unsigned both = SL_ENCODE_BOS | SL_ENCODE_SPECIAL;
    CHECK_IDS(t, "a", SL_ENCODE_BOS, 1, a, 2);
    CHECK_IDS(t, "<s>a", both, 1, a, 2);       /* the template wrote it */
    CHECK_IDS(t, "<s><s>a", both, 1, 1, a, 2); /* who writes two gets two */
    CHECK_IDS(t, "a<s>", both, 1, a, 1, 2);
    assert_int_equal(sl_tokenizer_bos(t), 1);
    sl_tokenizer_close(t);
    free(v);
}

static void test_settings_that_are_missing(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", NULL); /* no pre, no bos, no eos */
    heard log = {0};
    add_bytes(v);
    set_bool(v, "tokenizer.ggml.add_bos_token", true);
    sl_tokenizer *t = must_build(v, &log);
    assert_int_equal(sl_tokenizer_bos(t), -1); /* nothing is made up */
    assert_int_equal(sl_tokenizer_end_count(t), 0);
    assert_int_equal(log.n_warning, 3); /* pre, BOS, no end */
    CHECK_IDS(t, "ab", SL_ENCODE_BOS, 'a', 'b');
    sl_tokenizer_close(t);

    v->pre = "no-such-pre";
    log = (heard){0};
    t = must_build(v, &log);
    assert_int_equal(log.n_warning, 3);
    sl_tokenizer_close(t);
    free(v);

    v = new_vocab("llama", NULL); /* BOS where the format's definition has it, with a word about it */
    add(v, "<unk>", 2, 0), add(v, "<s>", 3, 0), add(v, "</s>", 3, 0), add(v, "a", 1, 0);
    log = (heard){0};
    t = must_build(v, &log);
    assert_int_equal(sl_tokenizer_bos(t), 1);
    assert_true(sl_tokenizer_is_end(t, 2));
    assert_int_equal(log.n_warning, 3);
    sl_tokenizer_close(t);
    v->types[1] = 1; /* token 1 is an ordinary one: no BOS */
    t = must_build(v, NULL);
    assert_int_equal(sl_tokenizer_bos(t), -1);
    sl_tokenizer_close(t);
    free(v);
}

static void test_types_that_are_missing(void **state)
{
    (void)state;
    vocab *v = spm_vocab();
    heard log = {0};
    v->no_types = true;
    set_bool(v, "tokenizer.ggml.add_space_prefix", false);
    int first = add_byte_tokens(v), a = add(v, "a", 1, 0), turn = add(v, "<end_of_turn>", 1, 0);
    sl_tokenizer *t = must_build(v, &log);
    assert_int_equal(log.n_warning, 1);
    CHECK_IDS(t, "a<end_of_turn>é</s>", SL_ENCODE_SPECIAL, a, turn, first + 0xC3, first + 0xA9, 2);
    assert_true(sl_tokenizer_is_end(t, turn));
    sl_tokenizer_close(t);
    free(v);
}

/* ---- ends ---- */

static void test_every_end_token_counts(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "gpt-2");
    add_bytes(v);
    int eos = add(v, "<|mine|>", 3, 0), eot = add(v, "<|yours|>", 3, 0), known = add(v, "<|im_end|>", 3, 0);
    int eot2 = add(v, "<|eot|>", 3, 0), other = add(v, "<|fim_middle|>", 3, 0), html = add(v, "</s>", 1, 0);
    set_int(v, "tokenizer.ggml.eos_token_id", eos);
    set_int(v, "tokenizer.ggml.eot_token_id", eot);
    sl_tokenizer *t = must_build(v, NULL);
    assert_int_equal(sl_tokenizer_end_count(t), 4);
    assert_true(sl_tokenizer_is_end(t, eos) && sl_tokenizer_is_end(t, eot));
    assert_true(sl_tokenizer_is_end(t, known) && sl_tokenizer_is_end(t, eot2));
    assert_false(sl_tokenizer_is_end(t, other) || sl_tokenizer_is_end(t, html)); /* </s> is ordinary text here */
    assert_false(sl_tokenizer_is_end(t, -1) || sl_tokenizer_is_end(t, 1 << 30));
    sl_tokenizer_close(t);
    free(v);
}

static void test_harmony_messages_end_without_the_end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        vocab *v = new_vocab("gpt2", "gpt-4o");
        add_bytes(v);
        int end = add(v, "<|end|>", 3, 0), ret = add(v, "<|return|>", 3, 0);
        if (i) add(v, "<|call|>", 3, 0);
        sl_tokenizer *t = must_build(v, NULL);
        assert_int_equal(sl_tokenizer_is_end(t, end), i == 0);
        assert_true(sl_tokenizer_is_end(t, ret));
        sl_tokenizer_close(t);
        free(v);
    }
}

/* ---- wrong files ---- */

static void refused(const vocab *v, sl_status want, const char *a, const char *b)
{
    sl_tokenizer *t;
    sl_err err = {0};
    sl_status rc = try_build(&t, v, 0, NULL, &err);
    if (rc != want || t || !strstr(err.msg, a) || !strstr(err.msg, b) || strchr(err.msg, '\n'))
        fail_msg("status %d, wanted %d with '%s' and '%s': %s", rc, want, a, b, err.msg);
}

static void test_wrong_fields_are_named(void **state)
{
    (void)state;
    vocab *v = spm_vocab();
    add(v, "a", 1, 0);
    vocab good = *v;
    v->no_scores = true;
    refused(v, SL_ERR_FORMAT, "test.gguf", "tokenizer.ggml.scores");
    *v = good, v->types[3] = 7;
    refused(v, SL_ERR_FORMAT, "tokenizer.ggml.token_type", "7");
    *v = good, v->types[3] = -1;
    refused(v, SL_ERR_FORMAT, "tokenizer.ggml.token_type", "-1");
    *v = good, v->types[3] = 6; /* a byte token that is called "a" */
    refused(v, SL_ERR_FORMAT, "token 3", "<0x");
    *v = good, v->scores[3] = __builtin_nanf("");
    refused(v, SL_ERR_FORMAT, "tokenizer.ggml.scores[3]", "number");
    *v = good, v->n = 0;
    refused(v, SL_ERR_FORMAT, "tokenizer.ggml.tokens", "empty");
    *v = good, v->model = NULL;
    refused(v, SL_ERR_FORMAT, "tokenizer.ggml.model", "missing");
    *v = good, v->model = "t5";
    refused(v, SL_ERR_UNSUPPORTED, "tokenizer.ggml.model", "t5");
    *v = good, v->model = "gpt2";
    refused(v, SL_ERR_FORMAT, "tokenizer.ggml.merges", "missing");
    *v = good, v->extra[0].is_bool = true;
    refused(v, SL_ERR_FORMAT, "tokenizer.ggml.bos_token_id", "integer");
    *v = good, set_int(v, "tokenizer.ggml.add_bos_token", 1);
    refused(v, SL_ERR_FORMAT, "tokenizer.ggml.add_bos_token", "true");
    free(v);
}

/* Arrays of the wrong length or kind: written by hand. */
static void test_wrong_arrays_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t elem;
        uint64_t n;
        const char *want;
    } cases[] = {
        {"tokenizer.ggml.scores", SL_GV_F32, 2, "2 elements for 3 tokens"},
        {"tokenizer.ggml.scores", SL_GV_STRING, 3, "array of numbers"},
        {"tokenizer.ggml.scores", SL_GV_BOOL, 3, "array of numbers"},
        {"tokenizer.ggml.token_type", SL_GV_I32, 0, "0 elements for 3 tokens"},
        {"tokenizer.ggml.token_type", SL_GV_STRING, 3, "array of integers"},
        {"tokenizer.ggml.token_type", SL_GV_F32, 3, "array of integers"},
        {"tokenizer.ggml.merges", SL_GV_I32, 3, "array of strings"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bytes b = {0};
        sl_tokenizer *t = NULL;
        sl_err err = {0};
        bool is_scores = strstr(cases[i].key, "scores");
        head(&b, 3, 0, is_scores ? 4 : 5);
        kv_str(&b, "general.architecture", "llama");
        kv_str(&b, "tokenizer.ggml.model", "llama");
        kv_array(&b, "tokenizer.ggml.tokens", SL_GV_STRING, 3), str(&b, "a"), str(&b, "b"), str(&b, "c");
        kv_array(&b, cases[i].key, cases[i].elem, cases[i].n);
        for (uint64_t k = 0; k < cases[i].n; k++)
            cases[i].elem == SL_GV_STRING ? str(&b, "1") : cases[i].elem == SL_GV_BOOL ? u8(&b, 1) : u32(&b, 1);
        if (!is_scores) kv_array(&b, "tokenizer.ggml.scores", SL_GV_F32, 3), f32(&b, 0), f32(&b, 0), f32(&b, 0);
        sl_status rc = build_blob(&t, &b, 0, NULL, &err);
        if (rc != SL_ERR_FORMAT || t || !strstr(err.msg, cases[i].key) || !strstr(err.msg, cases[i].want))
            fail_msg("case %zu: status %d: %s", i, rc, err.msg);
        free(b.p);
    }
}

static void test_ids_outside_the_vocabulary_are_disabled(void **state)
{
    (void)state;
    static const int64_t wrong[] = {999999, -1, INT32_MIN, INT32_MAX, 4};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        vocab *v = spm_vocab();
        heard log = {0};
        int a = add(v, "a", 1, 0);
        set_bool(v, "tokenizer.ggml.add_space_prefix", false);
        v->extra[0].value = v->extra[1].value = wrong[i];
        sl_tokenizer *t = must_build(v, &log);
        assert_int_equal(sl_tokenizer_bos(t), -1);
        assert_true(sl_tokenizer_is_end(t, 2)); /* by its name */
        assert_int_equal(log.n_warning, 3);     /* bos, eos, no BOS added */
        CHECK_IDS(t, "a", SL_ENCODE_BOS, a);
        sl_tokenizer_close(t);
        free(v);
    }
}

static void test_ids_beyond_the_rows_are_never_produced(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "gpt-2");
    heard log = {0};
    add_bytes(v);
    int ab = add_merge(v, "a", "b"), bc = add_merge(v, "b", "c"), user = add(v, "<u>", 4, 0);
    set_int(v, "tokenizer.ggml.eos_token_id", user);
    sl_tokenizer *t;
    sl_err err = {0};
    size_t n;
    assert_int_equal(try_build(&t, v, (uint32_t)bc, &log, &err), SL_OK);
    CHECK_IDS(t, "ab", 0, ab);
    CHECK_IDS(t, "bc", 0, 'b', 'c');
    CHECK_IDS(t, "<u>", SL_ENCODE_SPECIAL, '<', 'u', '>');
    assert_int_equal(sl_tokenizer_end_count(t), 0);
    assert_true(log.n_warning >= 2);
    assert_non_null(sl_token_bytes(t, user, false, &n)); /* asking is harmless */
    assert_null(sl_token_bytes(t, (int32_t)v->n, false, &n));
    assert_null(sl_token_bytes(t, -1, false, &n));
    sl_tokenizer_close(t);
    assert_int_equal(try_build(&t, v, v->n + 1000, NULL, &err), SL_OK); /* padding rows are usual */
    CHECK_IDS(t, "bc", 0, bc);
    sl_tokenizer_close(t);
    free(v);
}

static void test_a_short_buffer_is_told_the_need(void **state)
{
    (void)state;
    vocab *v = new_vocab("gpt2", "gpt-2");
    add_bytes(v);
    sl_tokenizer *t = must_build(v, NULL);
    int32_t ids[4] = {-7, -7, -7, -7};
    size_t n = 0;
    sl_err err = {0};
    assert_int_equal(sl_tokenize(t, "abcdef", 6, 0, ids, 3, &n, &err), SL_ERR_LIMIT);
    assert_int_equal(n, 6);
    assert_int_equal(ids[2], 'c');
    assert_int_equal(ids[3], -7);
    assert_int_equal(sl_tokenize(t, "abcdef", 6, 0, NULL, 0, &n, NULL), SL_ERR_LIMIT);
    assert_int_equal(n, 6);
    sl_tokenizer_close(t);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_models_give_the_reference_ids),
        cmocka_unit_test(test_smollm2_gives_the_reference_ids),
        cmocka_unit_test(test_gemma3_gives_the_reference_ids),
        cmocka_unit_test(test_byte_merges_go_by_rank_then_from_the_left),
        cmocka_unit_test(test_ignore_merges_takes_whole_pieces),
        cmocka_unit_test(test_missing_bytes_become_unknown_or_nothing),
        cmocka_unit_test(test_added_text_is_not_a_disguise),
        cmocka_unit_test(test_merges_of_strangers_are_ignored_and_counted),
        cmocka_unit_test(test_scores_decide_then_the_left),
        cmocka_unit_test(test_bytes_stand_for_characters_without_token),
        cmocka_unit_test(test_space_goes_before_each_text),
        cmocka_unit_test(test_heap_agrees_with_a_naive_merger),
        cmocka_unit_test(test_control_tokens_need_permission),
        cmocka_unit_test(test_phi3_markers_swallow_blanks),
        cmocka_unit_test(test_one_bos),
        cmocka_unit_test(test_settings_that_are_missing),
        cmocka_unit_test(test_types_that_are_missing),
        cmocka_unit_test(test_every_end_token_counts),
        cmocka_unit_test(test_harmony_messages_end_without_the_end),
        cmocka_unit_test(test_wrong_fields_are_named),
        cmocka_unit_test(test_wrong_arrays_are_named),
        cmocka_unit_test(test_ids_outside_the_vocabulary_are_disabled),
        cmocka_unit_test(test_ids_beyond_the_rows_are_never_produced),
        cmocka_unit_test(test_a_short_buffer_is_told_the_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
