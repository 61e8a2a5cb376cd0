/* From ids back to text, whole and in a stream: characters cut by tokens, broken sequences, control tokens, the space
 * that SentencePiece puts in front. */
#include "tok_build.h"

/* Feeds ids to a detokeniser; everything that came out, and every single output must be valid UTF-8. */
static size_t stream(const sl_tokenizer *t, const int32_t *ids, size_t n, bool special, char *out)
{
    sl_detok *d = NULL;
    sl_err err = {0};
    const char *p;
    size_t len, total = 0;
    assert_int_equal(sl_detok_open(&d, t, special, &err), SL_OK);
    for (size_t i = 0; i <= n; i++) {
        if (i < n)
            sl_detok_add(d, ids[i], &p, &len);
        else
            sl_detok_end(d, &p, &len);
        assert_int_equal(sl_utf8_valid_prefix(p, len), len);
        memcpy(out + total, p, len);
        total += len;
    }
    sl_detok_close(d);
    out[total] = 0;
    return total;
}

static void check_stream(const sl_tokenizer *t, const int32_t *ids, size_t n, bool special, const char *want, int line)
{
    char got[512];
    stream(t, ids, n, special, got);
    if (strcmp(got, want) != 0) fail_msg("line %d: '%s', wanted '%s'", line, got, want);
}
#define STREAM(t, special, want, ...)                                                                                  \
    check_stream(t, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4, special, want, __LINE__)

static sl_tokenizer *byte_tokenizer(void)
{
    vocab *v = new_vocab("gpt2", "gpt-2");
    add_bytes(v);
    add(v, "<|im_end|>", 3, 0); /* 256 */
    add(v, "<think>", 4, 0);    /* 257 */
    add(v, "[PAD258]", 5, 0);   /* 258: unused */
    add(v, "<unk>", 2, 0);      /* 259 */
    char face[16];
    disguise_text("x\xf0\x9f\x98", face); /* 260: ends inside a character */
    add(v, keep(v, face), 1, 0);
    sl_tokenizer *t = must_build(v, NULL);
    free(v);
    return t;
}

static void test_a_character_is_held_until_it_is_whole(void **state)
{
    (void)state;
    sl_tokenizer *t = byte_tokenizer();
    sl_detok *d = NULL;
    sl_err err = {0};
    const char *p;
    size_t n;
    assert_int_equal(sl_detok_open(&d, t, false, &err), SL_OK);
    sl_detok_add(d, 260, &p, &n);
    assert_int_equal(n, 1);
    assert_memory_equal(p, "x", 1);
    sl_detok_add(d, 0x80, &p, &n);
    assert_int_equal(n, 4);
    assert_memory_equal(p, "\xf0\x9f\x98\x80", 4);
    sl_detok_add(d, 0xE6, &p, &n);
    assert_int_equal(n, 0);
    sl_detok_end(d, &p, &n); /* max_tokens fell inside a character */
    assert_int_equal(n, 3);
    assert_memory_equal(p, "\xef\xbf\xbd", 3);
    sl_detok_end(d, &p, &n); /* once */
    assert_int_equal(n, 0);
    sl_detok_add(d, 'a', &p, &n); /* and it can go on */
    assert_int_equal(n, 1);
    sl_detok_close(d);
    sl_detok_close(NULL);
    sl_tokenizer_close(t);
}

#define R "\xef\xbf\xbd"

/* One U+FFFD for each maximal part: Unicode 15, tables 3-8 to 3-11. */
static void test_broken_sequences(void **state)
{
    (void)state;
    sl_tokenizer *t = byte_tokenizer();
    STREAM(t, false, R, 0x80);
    STREAM(t, false, R "a", 0xE2, 0x82, 'a');
    STREAM(t, false, R R R "A", 0xC0, 0xAF, 0xE0, 'A');
    STREAM(t, false, R R R R R R R R "A", 0xC0, 0xAF, 0xE0, 0x80, 0xBF, 0xF0, 0x81, 0x82, 'A');
    STREAM(t, false, R R R R R R R R "A", 0xED, 0xA0, 0x80, 0xED, 0xBF, 0xBF, 0xED, 0xAF, 'A');
    STREAM(t, false, R R R R R "A" R R "B", 0xF4, 0x91, 0x92, 0x93, 0xFF, 'A', 0x80, 0xBF, 'B');
    STREAM(t, false, R R R R "A", 0xE1, 0x80, 0xE2, 0xF0, 0x91, 0x92, 0xF1, 0xBF, 'A');
    STREAM(t, false, R R, 0xF0, 0x9F, 0xF0, 0x9F);
    STREAM(t, false, R "é", 0xF0, 0x9F, 0xC3, 0xA9);
    STREAM(t, false, "\xf4\x8f\xbf\xbf" R, 0xF4, 0x8F, 0xBF, 0xBF, 0xF4);
    STREAM(t, false, R "\xf0\x9f\x98\x80", 0x9F, 0xF0, 0x9F, 0x98, 0x80);
    sl_tokenizer_close(t);
}

static void test_control_tokens_are_invisible(void **state)
{
    (void)state;
    sl_tokenizer *t = byte_tokenizer();
    STREAM(t, false, "a<think>b", 'a', 256, 257, 258, 259, 'b');
    STREAM(t, true, "a<|im_end|><think>[PAD258]<unk>b", 'a', 256, 257, 258, 259, 'b');
    STREAM(t, false, "\xf0\x9f\x98\x80", 0xF0, 0x9F, 256, 0x98, 0x80); /* does not cut a character */
    STREAM(t, false, "ab", 'a', -1, 100000, 'b');                      /* ids that are none */
    char out[8];
    size_t n;
    sl_err err = {0};
    assert_int_equal(sl_detokenize(t, (int32_t[]){'a', 261}, 2, false, out, 8, &n, &err), SL_ERR_ARG);
    assert_non_null(strstr(err.msg, "261"));
    assert_int_equal(sl_detokenize(t, (int32_t[]){'a', 'b', 'c'}, 3, false, out, 2, &n, &err), SL_ERR_LIMIT);
    assert_int_equal(n, 3);
    assert_memory_equal(out, "ab", 2);
    assert_int_equal(sl_detokenize(t, (int32_t[]){0xFF, 256}, 2, false, out, 8, &n, &err), SL_OK); /* the exact bytes */
    assert_int_equal(n, 1);
    sl_tokenizer_close(t);
}

/* tokens: 3.. */
static sl_tokenizer *spm_tokenizer(bool prefix)
{
    vocab *v = new_vocab("llama", NULL);
    add(v, "<unk>", 2, 0), add(v, "<s>", 3, 0), add(v, "</s>", 3, 0);
    add(v, "▁a", 1, -1);    /* 3 */
    add(v, "▁", 1, -2);     /* 4 */
    add(v, "b", 1, -3);     /* 5 */
    add(v, "▁▁▁", 1, -4);   /* 6 */
    add(v, "<0xE6>", 6, 0); /* 7 */
    add(v, "<0x97>", 6, 0); /* 8 */
    add(v, "<0xa5>", 6, 0); /* 9 */
    add(v, "<tool>", 4, 0); /* 10 */
    add(v, "<0x20>", 6, 0); /* 11 */
    set_bool(v, "tokenizer.ggml.add_space_prefix", prefix);
    sl_tokenizer *t = must_build(v, NULL);
    free(v);
    return t;
}

static void test_exactly_one_space_is_taken_away(void **state)
{
    (void)state;
    sl_tokenizer *t = spm_tokenizer(true);
    STREAM(t, false, "a a", 3, 3);
    STREAM(t, false, " a", 4, 3);
    STREAM(t, false, "  b", 6, 5);
    STREAM(t, false, "b a", 5, 3);
    STREAM(t, false, "a", 1, 3);    /* BOS is not seen */
    STREAM(t, true, "<s> a", 1, 3); /* or is the beginning */
    STREAM(t, false, "<tool> a", 10, 3);
    STREAM(t, false, "日", 4, 7, 8, 9);
    STREAM(t, false, "b", 11, 5);
    STREAM(t, false, R " a", 7, 8, 3);
    sl_tokenizer_close(t);
    t = spm_tokenizer(false);
    STREAM(t, false, " a a", 3, 3);
    sl_tokenizer_close(t);
}

/* A lossy decoder written the other way round: tries every length at every place (Unicode's definition D93b). */
static size_t lossy(const uint8_t *s, size_t n, char *out)
{
    size_t total = 0;
    for (size_t i = 0; i < n;) {
        size_t best = 1, whole = 0;
        for (size_t len = 1; len <= 4 && i + len <= n; len++) {
            uint32_t cp;
            if (sl_utf8_decode((const char *)s + i, len, &cp) == len) whole = len;
        }
        for (size_t len = 2; !whole && len <= 3 && i + len <= n; len++) { /* does some ending make it a character? */
            for (unsigned tail = 0; tail < 64 * 64; tail++) {
                char t[4] = {(char)s[i], (char)s[i + 1], len > 2 ? (char)s[i + 2] : (char)(0x80 | tail >> 6),
                             (char)(0x80 | (tail & 63))};
                uint32_t cp;
                size_t k = sl_utf8_decode(t, 4, &cp);
                if (k > len) {
                    best = len;
                    break;
                }
            }
        }
        memcpy(out + total, whole ? (const char *)s + i : R, whole ? whole : 3);
        total += whole ? whole : 3;
        i += whole ? whole : best;
    }
    return total;
}

static void test_stream_equals_the_whole(void **state)
{
    (void)state;
    sl_tokenizer *t = byte_tokenizer();
    static const uint8_t often[] = {'a',  0x80, 0xBF, 0x9F, 0xE0, 0xA0, 0xED, 0xF0,
                                    0x90, 0xF4, 0x8F, 0xC3, 0xA9, 0xE6, 0x97, 0xA5};
    uint32_t seed = 3;
    for (int round = 0; round < 3000; round++) {
        int32_t ids[24];
        char bytes_[128], streamed[256], wanted[256];
        size_t n = 0, n_bytes;
        sl_err err = {0};
        for (; n < 24; n++) {
            seed = seed * 1664525u + 1013904223u;
            ids[n] = seed >> 28 ? often[(seed >> 16) % 16] : 260;
        }
        assert_int_equal(sl_detokenize(t, ids, n, false, bytes_, sizeof bytes_, &n_bytes, &err), SL_OK);
        size_t got = stream(t, ids, n, false, streamed), want = lossy((uint8_t *)bytes_, n_bytes, wanted);
        if (got != want || memcmp(streamed, wanted, got) != 0) fail_msg("round %d differs", round);
    }
    sl_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_character_is_held_until_it_is_whole),
        cmocka_unit_test(test_broken_sequences),
        cmocka_unit_test(test_control_tokens_are_invisible),
        cmocka_unit_test(test_exactly_one_space_is_taken_away),
        cmocka_unit_test(test_stream_equals_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
