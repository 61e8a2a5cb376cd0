/* The tokenizer on tokenizer.json: components, the dialect of its patterns, normal forms, added tokens, settings in the
 * files beside it, and what is refused.  Where pieces or matches are expected, they are what the `tokenizers` package
 * (0.23.3) gave for the same input. */
#include "tok_build.h"

#include "text/text_int.h"

/* ---- a tokenizer.json ---- */

typedef struct {
    const char *normalizer, *pre, *post, *decoder; /* JSON; NULL: null */
    const char *added;                             /* elements of added_tokens */
    const char *model;                             /* more members of the model, each with a comma behind */
    const char *pieces[24];                        /* tokens 256 and up, plain */
    const char *merges;                            /* elements; NULL: none */
} json_spec;

static void json_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            fprintf(f, "\\u%04x", *s);
        else
            fputc(*s, f);
    fputc('"', f);
}

#define OR_NULL(s) ((s) ? (s) : "null")

/* All bytes in disguise, then the pieces. */
static char *byte_level_json(const json_spec *j, size_t *n)
{
    char *text = NULL, token[600];
    FILE *f = open_memstream(&text, n);
    fprintf(f, "{\"version\": \"1.0\", \"added_tokens\": [%s], \"normalizer\": %s, \"pre_tokenizer\": %s, ",
            j->added ? j->added : "", OR_NULL(j->normalizer),
            j->pre ? j->pre : "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}");
    fprintf(f, "\"post_processor\": %s, \"decoder\": %s, \"model\": {\"type\": \"BPE\", %s \"vocab\": {",
            OR_NULL(j->post), j->decoder ? j->decoder : "{\"type\": \"ByteLevel\"}", j->model ? j->model : "");
    for (unsigned b = 0; b < 256; b++) {
        disguise(b, token);
        json_string(f, token);
        fprintf(f, ": %u, ", b);
    }
    for (unsigned i = 0; j->pieces[i]; i++) {
        disguise_text(j->pieces[i], token);
        json_string(f, token);
        fprintf(f, ": %u, ", 256 + i);
    }
    fprintf(f, "\"<last>\": 300}, \"merges\": [%s]}}", j->merges ? j->merges : "");
    fclose(f);
    return text;
}

static sl_status parse(sl_tokenizer **out, const json_spec *j, sl_err *err)
{
    size_t n;
    char *text = byte_level_json(j, &n);
    *out = NULL;
    sl_status rc = sl_tokenizer_parse_json(out, "tokenizer.json", text, n, err);
    free(text);
    return rc;
}

static sl_tokenizer *must_parse(const json_spec *j)
{
    sl_tokenizer *t;
    sl_err err = {0};
    if (parse(&t, j, &err) != SL_OK) fail_msg("%s", err.msg);
    return t;
}

/* ---- how a text is cut ----
 * Each expected piece is a token of its own and pieces that are tokens are taken whole: wrong cuts give other ids. */

static void check_pieces(const char *pre, const char *text_, const char *const *pieces)
{
    json_spec j = {.model = "\"ignore_merges\": true,"};
    char seq[2048];
    int want[64];
    unsigned n = 0, n_piece = 0;
    snprintf(seq, sizeof seq,
             "{\"type\": \"Sequence\", \"pretokenizers\": [%s, {\"type\": \"ByteLevel\", "
             "\"add_prefix_space\": false, \"use_regex\": false}]}",
             pre);
    j.pre = seq;
    for (; pieces[n]; n++) {
        unsigned k = 0;
        while (k < n_piece && strcmp(j.pieces[k], pieces[n]) != 0)
            k++;
        if (!pieces[n][1]) {
            want[n] = (unsigned char)pieces[n][0];
            continue;
        }
        if (k == n_piece) j.pieces[n_piece++] = pieces[n];
        want[n] = 256 + (int)k;
    }
    want[n] = -1;
    sl_tokenizer *t = must_parse(&j);
    check_ids_n(t, text_, strlen(text_), 0, want, __LINE__);
    sl_tokenizer_close(t);
}
#define PIECES(pre, text_, ...) check_pieces(pre, text_, (const char *const[]){__VA_ARGS__, NULL})
#define SPLIT(pattern, behavior, invert)                                                                               \
    "{\"type\": \"Split\", \"pattern\": " pattern ", \"behavior\": \"" behavior "\", \"invert\": " invert "}"
#define DASH "{\"String\": \"-\"}"

static void test_behaviors_of_a_split(void **state)
{
    (void)state;
    PIECES(SPLIT(DASH, "Isolated", "false"), "a--b-c-", "a", "-", "-", "b", "-", "c", "-");
    PIECES(SPLIT(DASH, "Removed", "false"), "a--b-c-", "a", "b", "c");
    PIECES(SPLIT(DASH, "Removed", "true"), "a--b-c-", "-", "-", "-", "-");
    PIECES(SPLIT(DASH, "MergedWithPrevious", "false"), "a--b-c-", "a-", "-", "b-", "c-");
    PIECES(SPLIT(DASH, "MergedWithPrevious", "true"), "a--b-c-", "a", "-", "-b", "-c", "-");
    PIECES(SPLIT(DASH, "MergedWithNext", "false"), "a--b-c-", "a", "-", "-b", "-c", "-");
    PIECES(SPLIT(DASH, "MergedWithNext", "true"), "a--b-c-", "a-", "-", "b-", "c-");
    PIECES(SPLIT(DASH, "Contiguous", "false"), "a--b-c-", "a", "--", "b", "-", "c", "-");
    PIECES(SPLIT("{\"String\": \".*\"}", "Isolated", "false"), "a.*b", "a", ".*", "b"); /* a literal, no pattern */
}

static void test_named_steps(void **state)
{
    (void)state;
    PIECES("{\"type\": \"Digits\", \"individual_digits\": true}", "a12½b", "a", "1", "2", "½", "b");
    PIECES("{\"type\": \"Digits\", \"individual_digits\": false}", "a12½³b", "a", "12½³", "b");
    PIECES("{\"type\": \"Punctuation\"}", "a$b—e€f!?", "a", "$", "b", "—", "e€f", "!", "?");
    PIECES("{\"type\": \"WhitespaceSplit\"}",
           " a\xc2\x85"
           "bc  d",
           "a", "bc", "d");
    PIECES("{\"type\": \"Whitespace\"}", "ab, c\xe2\x80\x8d!?", "ab", ",", "c\xe2\x80\x8d", "!?");
    PIECES("{\"type\": \"Sequence\", \"pretokenizers\": []}", "a b", "a b");
    PIECES("{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"prepend_scheme\": \"always\"}", "  hi there", "▁",
           "▁hi", "▁there");
    PIECES("{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"prepend_scheme\": \"never\"}", "hi there", "hi",
           "▁there");
    PIECES("{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"add_prefix_space\": true, \"split\": false}",
           "hi there", "▁hi▁there");
}

#define RE(pattern) SPLIT("{\"Regex\": \"" pattern "\"}", "Isolated", "false")

static void test_dialect_of_patterns(void **state)
{
    (void)state;
    PIECES(RE("(?i:'s|'t|'re)"), "a'ſ b'S c's 'K", "a", "'ſ", " b", "'S", " c", "'s", " 'K");
    PIECES(RE("\\\\s+"),
           "a\u180eb\u200bc\xc2\x85"
           "d\x1c"
           "e\u00a0f",
           "a\u180eb\u200bc", "\xc2\x85",
           "d\x1c"
           "e",
           "\u00a0", "f");
    PIECES(RE("\\\\w+"), "a\u0301b‿c_d٣½ⅷ①", "a\u0301b‿c_d٣½ⅷ", "①");
    PIECES(RE("\\\\p{Han}+"), "漢字々〇〆、。ー「A", "漢字々〇", "〆、。ー「A");
    PIECES(RE("\\\\p{^Han}+"), "漢a", "漢", "a");
    PIECES(RE("a{1,2}+"), "aaaaab", "aaaaa", "b");
    PIECES(RE("\\\\s+$"), "a  \n b  ", "a", "  ", "\n b", "  ");
    PIECES(RE("[\\\\p{L}&&[^\\\\p{Han}]]+"), "ab漢字cd", "ab", "漢字", "cd");
    PIECES(RE("[a-z&&[^aeiou]]+"), "hello world", "h", "e", "ll", "o ", "w", "o", "rld");
    PIECES(RE("[a-c[x-z]0]+"), "abxz09", "abxz0", "9");
    PIECES(RE("(?=(\\\\d{3})+(?!\\\\d))"), "1234567x123", "1", "234", "567x", "123");
    PIECES(RE("\\\\u00e9|\\\\h{2}"), "zéff", "z", "é", "ff");
    PIECES(RE("(?m:a.)"), "a\nb", "a\n", "b");
    PIECES(RE("[[:alpha:]]+"), "é1", "é", "1");
    PIECES(RE("\\\\bb"), "ab b", "ab ", "b");
}

static void pattern_refused(const char *pattern)
{
    sl_regex *re = NULL;
    sl_err err = {0};
    sl_status rc = sl_regex_open(&re, pattern, strlen(pattern), "here", &err);
    if (rc != SL_ERR_UNSUPPORTED || re || strncmp(err.msg, "here: ", 6) != 0)
        fail_msg("'%s': status %d: %s", pattern, rc, err.msg);
}

static void test_broken_patterns_are_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {"(*UTF)a",     "(*LIMIT_HEAP=9999999)a",
                                         "[a",          "a(",
                                         "a)",          "\\",
                                         "[\\",         "[[[a]]]",
                                         "[a[^b]]",     "[[^a]b]",
                                         "\\C",         "[[:nope:]]",
                                         "\\p{Nope}",   "*a",
                                         "a{99999999}", "\xff",
                                         "[a&&]",       "[[:alpha:"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        pattern_refused(broken[i]);
    char deep[400] = "";
    for (int i = 0; i < 100; i++)
        strcat(deep, "(");
    pattern_refused(deep);
}

/* Patterns that are exponential, or need more stack than there is: bounded, and the text is still covered. */
static void test_heavy_patterns_are_bounded(void **state)
{
    (void)state;
    static const char *const heavy[] = {"(a|aa)+$", "(?:a|b)+", "(?:(a)|b)*c?", "(?=(a+)+x)a"};
    enum { N = 100000 };
    char *in = malloc(N);
    memset(in, 'a', N);
    in[N - 1] = 'b';
    for (size_t i = 0; i < 4; i++) {
        sl_regex *re = NULL;
        sl_matcher m = {0};
        sl_err err = {0};
        size_t at = 0, from, to, n = 0;
        double begin = cpu_s();
        assert_int_equal(sl_regex_open(&re, heavy[i], strlen(heavy[i]), "x", &err), SL_OK);
        for (; at < N && n < 10000 && sl_regex_find(re, &m, in, N, at, &from, &to) == SL_MATCH_FOUND; n++) {
            assert_true(from >= at && to >= from && to <= N);
            at = to > from ? to : to + 1;
        }
        if (cpu_s() - begin > 60) fail_msg("'%s': %.1f s", heavy[i], cpu_s() - begin);
        if (i == 1) assert_int_equal(at, N); /* all of it matches, in parts if need be */
        sl_matcher_close(&m);
        sl_regex_close(re);
    }
    free(in);
}

/* ---- normal forms ---- */

static void check_form(sl_norm_form form, const char *in, const char *want)
{
    sl_buf out;
    sl_err err = {0};
    sl_buf_init(&out, 1 << 20);
    assert_int_equal(sl_normalize_unicode(&out, in, strlen(in), form, &err), SL_OK);
    if (out.len != strlen(want) || memcmp(out.data, want, out.len) != 0) fail_msg("'%s' gives '%s'", in, out.data);
    sl_buf_free(&out);
}

static void test_normal_forms(void **state)
{
    (void)state;
    check_form(SL_NFC, "plain", "plain");
    check_form(SL_NFC, "e\u0301", "\u00e9");
    check_form(SL_NFD, "\u00e9", "e\u0301");
    check_form(SL_NFC, "a\u0301\u0316", "\u00e1\u0316"); /* 0316 comes first in order, 0301 still composes */
    check_form(SL_NFD, "a\u0301\u0316", "a\u0316\u0301");
    check_form(SL_NFC, "\u2126\u212b", "\u03a9\u00c5");
    check_form(SL_NFC, "\u0958", "\u0915\u093c"); /* excluded from composition */
    check_form(SL_NFC, "\u1100\u1161\u11a8", "\uac01");
    check_form(SL_NFD, "\uac01", "\u1100\u1161\u11a8");
    /* the example of Unicode Standard Annex 15 */
    check_form(SL_NFC, "\u1e9b\u0323", "\u1e9b\u0323");
    check_form(SL_NFD, "\u1e9b\u0323", "\u017f\u0323\u0307");
    check_form(SL_NFKC, "\u1e9b\u0323", "\u1e69");
    check_form(SL_NFKD, "\u1e9b\u0323", "s\u0323\u0307");
    check_form(SL_NFKC, "\ufb01\uff21", "fiA");
    check_form(SL_NFC, "\ufb01\uff21", "\ufb01\uff21");
}

static void test_a_long_run_of_marks_is_ordered_in_time(void **state)
{
    (void)state;
    enum { N = 200000 };
    char *in = malloc(1 + 4 * N);
    sl_buf out;
    sl_err err = {0};
    double from = cpu_s();
    in[0] = 'q';
    for (size_t i = 0; i < N; i++)
        memcpy(in + 1 + 4 * i, "\u0301\u0316", 4); /* classes 230 and 220, in turn */
    sl_buf_init(&out, 1 << 24);
    assert_int_equal(sl_normalize_unicode(&out, in, 1 + 4 * N, SL_NFC, &err), SL_OK);
    assert_int_equal(out.len, 1 + 4 * N);
    assert_memory_equal(out.data + 1, "\u0316\u0316", 4);
    assert_memory_equal(out.data + 1 + 2 * N - 2, "\u0316\u0301", 4);
    assert_true(cpu_s() - from < 5);
    sl_buf_free(&out);
    free(in);
}

static void test_normalizers(void **state)
{
    (void)state;
    json_spec j = {.normalizer =
                       "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Strip\", "
                       "\"strip_left\": true, \"strip_right\": false}, {\"type\": \"Replace\", \"pattern\": "
                       "{\"Regex\": \"\\\\d+\"}, \"content\": \"#\"}, {\"type\": \"Replace\", \"pattern\": "
                       "{\"String\": \"ab\"}, \"content\": \"\"}, {\"type\": \"Prepend\", \"prepend\": \"^\"}]}"};
    sl_tokenizer *t = must_parse(&j);
    CHECK_IDS(t, " 12x345abab ", 0, '^', '#', 'x', '#', ' ');
    CHECK_IDS(t, "e\u0301", 0, '^', 0xC3, 0xA9);
    CHECK_IDS(t, "  ", 0, -1); /* nothing left, nothing put before it */
    CHECK_IDS(t,
              "\xff"
              "1",
              0, 0xFF, '#');
    sl_tokenizer_close(t);
}

/* ---- added tokens ---- */

#define ADDED(id, text_, flags) "{\"id\": " id ", \"content\": \"" text_ "\"" flags "}"

static void test_added_tokens_and_their_switches(void **state)
{
    (void)state;
    json_spec j = {
        .added = ADDED("301", "<l>", ", \"lstrip\": true, \"special\": true") ", " ADDED(
            "302", "<r>",
            ", \"rstrip\": true, \"special\": true") ", " ADDED("303", "the",
                                                                ", \"single_word\": true, \"special\": "
                                                                "false") ", " ADDED("304", "<r>!",
                                                                                    ", \"special\": "
                                                                                    "false") ", " ADDED("305", "  ",
                                                                                                        "")};
    sl_tokenizer *t = must_parse(&j);
    unsigned s = SL_ENCODE_SPECIAL;
    CHECK_IDS(t, "a \u3000\t<l> b", s, 'a', 301, ' ', 'b');
    CHECK_IDS(t, "<r> \u00a0\nb", s, 302, 'b');
    CHECK_IDS(t, "<r> <l>", s, 302, 301);
    CHECK_IDS(t, "the them bathe _the the.", s, 303, ' ', 't', 'h', 'e', 'm', ' ', 'b', 'a', 't', 'h', 'e', ' ', '_',
              't', 'h', 'e', ' ', 303, '.');
    CHECK_IDS(t, "<r>!x", s, 304, 'x'); /* the longest, and user-defined */
    CHECK_IDS(t, "<r>!<r>", 0, 304, '<', 'r', '>');
    CHECK_IDS(t, "   ", 0, 305, ' ');
    CHECK_IDS(t, "a<l>", 0, 'a', '<', 'l', '>');
    sl_tokenizer_close(t);
}

static void test_normalized_added_tokens_are_found_afterwards(void **state)
{
    (void)state;
    json_spec j = {
        .normalizer = "{\"type\": \"NFC\"}",
        .added = ADDED("301", "caf\u00e9", ", \"normalized\": true") ", " ADDED(
            "302", "th\u00e9", ", \"normalized\": false") ", " ADDED("303", "<s\u00e9>",
                                                                     ", \"normalized\": true, \"special\": true")};
    sl_tokenizer *t = must_parse(&j);
    CHECK_IDS(t, "cafe\u0301.", 0, 301, '.');
    CHECK_IDS(t, "th\u00e9.", 0, 302, '.');
    CHECK_IDS(t, "the\u0301.", 0, 't', 'h', 0xC3, 0xA9, '.');
    CHECK_IDS(t, "<se\u0301>", SL_ENCODE_SPECIAL, 303);
    int32_t ids[16];
    size_t n;
    sl_err err = {0};
    sl_text_span span = {2, 3}; /* a control token found after normalising must not come from plain text either */
    assert_int_equal(sl_tokenizer_encode(t, "<se\u0301>", 6, SL_ENCODE_SPECIAL, &span, 1, ids, 16, &n, &err), SL_OK);
    assert_int_equal(n, 5);
    sl_tokenizer_close(t);
}

static void test_template_adds_tokens(void **state)
{
    (void)state;
    json_spec j = {
        .added = ADDED("301", "<b>", ", \"special\": true") ", " ADDED("302", "<e>", ", \"special\": true"),
        .post = "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, {\"type\": "
                "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"x\"}}, {\"Sequence\": {\"id\": "
                "\"A\"}}, {\"SpecialToken\": {\"id\": \"y\"}}], \"pair\": [], \"special_tokens\": {\"x\": {\"ids\": "
                "[302, 301]}, \"y\": {\"ids\": [302]}}}]}"};
    sl_tokenizer *t = must_parse(&j);
    CHECK_IDS(t, "a", SL_ENCODE_BOS, 302, 301, 'a', 302);
    CHECK_IDS(t, "<b>a", SL_ENCODE_BOS | SL_ENCODE_SPECIAL, 302, 301, 'a', 302); /* one BOS */
    CHECK_IDS(t, "a", 0, 'a');
    sl_tokenizer_close(t);
}

static void test_merges_as_pairs_and_as_lines(void **state)
{
    (void)state;
    static const char *const forms[] = {"\"a b\", \"ab c\"", "[\"a\", \"b\"], [\"ab\", \"c\"]"};
    for (int i = 0; i < 2; i++) {
        json_spec j = {.pieces = {"ab", "abc"}, .merges = forms[i]};
        sl_tokenizer *t = must_parse(&j);
        CHECK_IDS(t, "abcab", 0, 257, 256);
        sl_tokenizer_close(t);
    }
}

/* ---- characters: Gemma's and Llama 2's shape ---- */

#define CHAR_MODEL                                                                                                       \
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"▁\"}, "  \
    "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}%s]}, \"model\": {\"type\": \"BPE\", "       \
    "\"unk_token\": \"<unk>\", \"fuse_unk\": true, \"byte_fallback\": true, \"vocab\": {\"<unk>\": 0, \"<s>\": 1, "      \
    "\"▁\": 2, \"a\": 3, \"▁a\": 4, \"b\": 5, \"▁▁\": 6, \"<0xC3>\": 7, \"<0xA9>\": 8, \"ab\": 9}, \"merges\": " \
    "[\"▁ ▁\", \"▁ a\", \"a b\"]}}"

static sl_tokenizer *char_tokenizer(const char *normalizer, const char *added, const char *strip)
{
    char text_[4096], tail[2048];
    sl_tokenizer *t = NULL;
    sl_err err = {0};
    snprintf(tail, sizeof tail, CHAR_MODEL, strip);
    snprintf(text_, sizeof text_,
             "{\"added_tokens\": [%s], \"normalizer\": %s, \"pre_tokenizer\": {\"type\": \"Split\", "
             "\"pattern\": {\"String\": \" \"}, \"behavior\": \"MergedWithPrevious\"}, %s",
             added, normalizer, tail);
    if (sl_tokenizer_parse_json(&t, "tokenizer.json", text_, strlen(text_), &err) != SL_OK) fail_msg("%s", err.msg);
    return t;
}

#define REPLACE_SPACE "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}"

static void test_characters_with_byte_fallback(void **state)
{
    (void)state;
    sl_tokenizer *t = char_tokenizer(REPLACE_SPACE,
                                     "{\"id\": 1, \"content\": \"<s>\", \"special\": true}, "
                                     "{\"id\": 6, \"content\": \"▁▁\", \"special\": false}",
                                     "");
    char text_[16];
    size_t n;
    sl_err err = {0};
    CHECK_IDS(t, "a ab", 0, 3, 4, 5); /* rank of "▁ a" is lower than that of "a b" */
    CHECK_IDS(t, "   a", 0, 6, 4);
    CHECK_IDS(t, "▁▁", 0, 6); /* as an added token; the merge makes the same */
    CHECK_IDS(t, "aéb", 0, 3, 7, 8, 5);
    CHECK_IDS(t, "a日日b", 0, 3, 0, 5); /* no byte tokens for it: unknown, fused */
    CHECK_IDS(t, "<s>a", SL_ENCODE_SPECIAL, 1, 3);
    assert_int_equal(sl_detokenize(t, (int32_t[]){2, 4, 7, 8, 6}, 5, false, text_, 16, &n, &err), SL_OK);
    assert_int_equal(n, 7);
    assert_memory_equal(text_, "  a\u00e9  ", 7);
    sl_tokenizer_close(t);
}

static void test_characters_with_a_prefix(void **state)
{
    (void)state;
    sl_tokenizer *t = char_tokenizer(
        "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"▁\"}, " REPLACE_SPACE "]}",
        "{\"id\": 1, \"content\": \"<s>\", \"special\": true}",
        ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
    char text_[16];
    size_t n;
    sl_err err = {0};
    CHECK_IDS(t, "a", 0, 4);
    CHECK_IDS(t, "b<s>a", SL_ENCODE_SPECIAL, 2, 5, 1, 4); /* each stretch gets one */
    assert_int_equal(sl_detokenize(t, (int32_t[]){1, 4, 4}, 3, false, text_, 16, &n, &err), SL_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(text_, "a a", 3);
    sl_tokenizer_close(t);
}

/* ---- what is refused ---- */

static void spec_refused(json_spec j, sl_status want, const char *a)
{
    sl_tokenizer *t;
    sl_err err = {0};
    sl_status rc = parse(&t, &j, &err);
    if (rc != want || t || !strstr(err.msg, a) || !strstr(err.msg, "tokenizer.json"))
        fail_msg("status %d, wanted %d with '%s': %s", rc, want, a, err.msg);
}

static void test_unsupported_components_are_named(void **state)
{
    (void)state;
    sl_status u = SL_ERR_UNSUPPORTED;
    spec_refused((json_spec){.normalizer = "{\"type\": \"Lowercase\"}"}, u, "normalizer Lowercase");
    spec_refused((json_spec){.normalizer = "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AA==\"}"}, u,
                 "Precompiled");
    spec_refused((json_spec){.pre = "{\"type\": \"UnicodeScripts\"}"}, u, "pre_tokenizer UnicodeScripts");
    spec_refused((json_spec){.pre =
                                 "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": "
                                 "\"Digits\"}]}"},
                 u, "behind ByteLevel");
    spec_refused((json_spec){.pre = SPLIT("{\"Regex\": \"(\"}", "Isolated", "false")}, u, "pattern");
    spec_refused((json_spec){.pre = SPLIT(DASH, "Sideways", "false")}, u, "behavior");
    spec_refused((json_spec){.decoder = "{\"type\": \"WordPiece\"}"}, u, "decoder WordPiece");
    spec_refused((json_spec){.post = "{\"type\": \"BertProcessing\"}"}, u, "post_processor BertProcessing");
    spec_refused((json_spec){.model = "\"dropout\": 0.1,"}, u, "dropout");
    spec_refused((json_spec){.model = "\"end_of_word_suffix\": \"</w>\","}, u, "end_of_word_suffix");
    spec_refused((json_spec){.model = "\"type\": \"Unigram\","}, u, "model Unigram");
    spec_refused((json_spec){.pre = "{}"}, SL_ERR_FORMAT, "type");
    spec_refused((json_spec){.added = "{\"content\": \"x\"}"}, SL_ERR_FORMAT, "id");
    spec_refused((json_spec){.added = ADDED("4194303", "x", "")}, SL_ERR_FORMAT, "byte");
    spec_refused((json_spec){.merges = "7"}, SL_ERR_FORMAT, "byte");
    spec_refused((json_spec){.merges = "[\"a\"]"}, SL_ERR_FORMAT, "byte");
}

static void text_refused(const char *s, const char *want)
{
    sl_tokenizer *t = NULL;
    sl_err err = {0};
    sl_status rc = sl_tokenizer_parse_json(&t, "tokenizer.json", s, strlen(s), &err);
    if (rc != SL_ERR_FORMAT || t || !strstr(err.msg, want)) fail_msg("status %d, '%s' wanted: %s", rc, want, err.msg);
}

static void test_wrong_documents_are_refused(void **state)
{
    (void)state;
    text_refused("", "byte 0");
    text_refused("[]", "byte");
    text_refused("{}", "vocab");
    text_refused("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}", "merges");
    text_refused("{\"model\": {\"vocab\": {}, \"merges\": []}}", "empty");
    text_refused("{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}", "'a'");
    text_refused("{\"model\": {\"vocab\": {\"a\": 4194303}, \"merges\": []}}", "'a'");
    text_refused("{\"model\": {\"vocab\": {\"a\": 0.5}, \"merges\": []}}", "'a'");
    text_refused("{\"model\": {\"vocab\": {\"a\": 3, \"b\": 3}, \"merges\": []}}", "twice");
    text_refused("{\"model\": {\"vocab\": [], \"merges\": []}}", "byte");
    text_refused("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}", "byte"); /* cut off */
}

/* ---- a directory ---- */

static char *new_model_dir(const json_spec *j)
{
    char *dir = dir_new();
    bytes b = {0};
    size_t n;
    char *text_ = byte_level_json(j, &n);
    safetensors(&b, "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    put_bytes(dir, "model.safetensors", &b);
    put_file(dir, "tokenizer.json", text_, n);
    free(text_);
    put_text(dir, "config.json", "{\"model_type\": \"llama\", \"eos_token_id\": 13}");
    return dir;
}

static sl_tokenizer *open_dir(const char *dir, heard *log)
{
    sl_tokenizer *t = NULL;
    sl_err err = {0};
    if (sl_tokenizer_open(&t, dir, log ? hear : NULL, log, &err) != SL_OK) fail_msg("%s", err.msg);
    return t;
}

static void test_ends_are_the_union_of_all_files(void **state)
{
    (void)state;
    json_spec j = {
        .added = ADDED("12", "<|eot|>", ", \"special\": true") ", " ADDED("14", "<|fim|>", ", \"special\": true")};
    char *dir = new_model_dir(&j);
    put_text(dir, "generation_config.json", "{\"eos_token_id\": [10, 999999]}");
    put_text(dir, "tokenizer_config.json",
             "{\"eos_token\": {\"content\": \"<last>\", \"lstrip\": false}, \"add_eos_token\": "
             "true, \"pad_token\": \"<nowhere>\", \"chat_template\": \"{{ x }}\"}");
    heard log = {0};
    sl_tokenizer *t = open_dir(dir, &log);
    assert_int_equal(sl_tokenizer_end_count(t), 4);
    assert_true(sl_tokenizer_is_end(t, 10) && sl_tokenizer_is_end(t, 12) && sl_tokenizer_is_end(t, 13));
    assert_true(sl_tokenizer_is_end(t, 300) && !sl_tokenizer_is_end(t, 14));
    assert_int_equal(log.n_warning, 2); /* 999999, <nowhere> */
    CHECK_IDS(t, "a", SL_ENCODE_BOS, 'a', 300);
    CHECK_IDS(t, "<last>", SL_ENCODE_SPECIAL, 300); /* named, and so a control token */
    CHECK_IDS(t, "<last>", 0, '<', 'l', 'a', 's', 't', '>');
    size_t n;
    assert_string_equal(sl_token_bytes(t, 14, false, &n), ""); /* no control token's text is shown */
    sl_tokenizer_close(t);
    dir_free(dir);
}

static void test_config_beats_the_template(void **state)
{
    (void)state;
    json_spec j = {.added = ADDED("301", "<b>", ", \"special\": true"),
                   .post = "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<b>\"}}, "
                           "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<b>\": {\"ids\": [301]}}}"};
    char *dir = new_model_dir(&j);
    sl_tokenizer *t = open_dir(dir, NULL);
    CHECK_IDS(t, "a", SL_ENCODE_BOS, 301, 'a');
    assert_int_equal(sl_tokenizer_bos(t), 301);
    sl_tokenizer_close(t);
    put_text(dir, "tokenizer_config.json", "{\"add_bos_token\": false, \"bos_token\": \"<b>\"}");
    t = open_dir(dir, NULL);
    CHECK_IDS(t, "a", SL_ENCODE_BOS, 'a');
    assert_int_equal(sl_tokenizer_bos(t), 301);
    sl_tokenizer_close(t);
    put_text(dir, "tokenizer_config.json",
             "{\"added_tokens_decoder\": {\"302\": {\"content\": \"<n>\", \"special\": true}, "
             "\"301\": {\"content\": \"<other>\"}}, \"add_bos_token\": null}");
    t = open_dir(dir, NULL);
    CHECK_IDS(t, "a<n><b>", SL_ENCODE_BOS | SL_ENCODE_SPECIAL, 301, 'a', 302, 301);
    assert_int_equal(sl_tokenizer_vocab(t), 303);
    sl_tokenizer_close(t);
    dir_free(dir);
}

static void test_files_that_are_wrong_or_missing(void **state)
{
    (void)state;
    char *dir = new_model_dir(&(json_spec){0});
    static const char *const configs[] = {"[]",
                                          "{",
                                          "{\"bos_token\": 3}",
                                          "{\"added_tokens_decoder\": {\"x\": {}}}",
                                          "{\"added_tokens_decoder\": {\"1\": []}}",
                                          "{\"add_bos_token\": \"yes\"}"};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        sl_tokenizer *t = NULL;
        sl_err err = {0};
        put_text(dir, "tokenizer_config.json", configs[i]);
        assert_int_equal(sl_tokenizer_open(&t, dir, NULL, NULL, &err), SL_ERR_FORMAT);
        assert_null(t);
        assert_non_null(strstr(err.msg, "tokenizer_config.json"));
    }
    unlink(in_dir(dir, "tokenizer.json"));
    sl_tokenizer *t = NULL;
    sl_err err = {0};
    assert_int_equal(sl_tokenizer_open(&t, dir, NULL, NULL, &err), SL_ERR_IO);
    assert_non_null(strstr(err.msg, "tokenizer.json"));
    dir_free(dir);
}

/* ---- memory that is refused ---- */

static void test_json_survives_any_failed_allocation(void **state)
{
    (void)state;
    json_spec j = {
        .normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Replace\", "
                      "\"pattern\": {\"Regex\": \"x+\"}, \"content\": \"y\"}, {\"type\": \"Prepend\", \"prepend\": "
                      "\"z\"}]}",
        .added = ADDED("301", "caf\u00e9", ", \"normalized\": true") ", " ADDED("302", "<s>", ", \"special\": true"),
        .pieces = {"ab", "abc"},
        .merges = "\"a b\", [\"ab\", \"c\"]",
        .model = "\"unk_token\": \"<s>\",",
        .pre = "{\"type\": \"Sequence\", \"pretokenizers\": [" SPLIT(
            DASH, "Removed",
            "false") ", {\"type\": "
                     "\"Metaspace\", \"replacement\": \"▁\"}, {\"type\": \"ByteLevel\", \"add_prefix_space\": true}]}"};
    char *dir = new_model_dir(&j);
    put_text(dir, "tokenizer_config.json",
             "{\"bos_token\": \"<s>\", \"add_bos_token\": true, \"added_tokens_decoder\": "
             "{\"303\": {\"content\": \"<n>\"}}}");
    sl_store *s = must_open(dir);
    static const char text_[] = "abc-cafe\u0301 x<s>\xff\u0301\u0316q";
    sl_status rc = SL_ERR_NOMEM;
    long n = 1, left = 0;
    for (; left <= 0 && n < 5000; n++) { /* until none was refused: some may be, and all is well */
        uint64_t before = sl_alloc_live_bytes();
        left = n;
        sl_tokenizer *t = NULL;
        sl_err err = {0};
        int32_t ids[64];
        size_t n_ids;
        sl_alloc_set_hook(fail_nth, &left);
        rc = sl_tokenizer_build(&t, s, 0, NULL, &err);
        if (rc == SL_OK) rc = sl_tokenize(t, text_, sizeof text_ - 1, 3, ids, 64, &n_ids, &err);
        sl_alloc_set_hook(NULL, NULL);
        sl_tokenizer_close(t);
        if (rc != SL_OK && (rc != SL_ERR_NOMEM || !err.msg[0]))
            fail_msg("allocation %ld: status %d: %s", n, rc, err.msg);
        if (sl_alloc_live_bytes() != before) fail_msg("allocation %ld: bytes are left", n);
    }
    assert_int_equal(rc, SL_OK);
    if (n < 60) fail_msg("only %ld allocations", n);
    sl_store_close(s);
    dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_behaviors_of_a_split),
        cmocka_unit_test(test_named_steps),
        cmocka_unit_test(test_dialect_of_patterns),
        cmocka_unit_test(test_broken_patterns_are_refused),
        cmocka_unit_test(test_heavy_patterns_are_bounded),
        cmocka_unit_test(test_normal_forms),
        cmocka_unit_test(test_a_long_run_of_marks_is_ordered_in_time),
        cmocka_unit_test(test_normalizers),
        cmocka_unit_test(test_added_tokens_and_their_switches),
        cmocka_unit_test(test_normalized_added_tokens_are_found_afterwards),
        cmocka_unit_test(test_template_adds_tokens),
        cmocka_unit_test(test_merges_as_pairs_and_as_lines),
        cmocka_unit_test(test_characters_with_byte_fallback),
        cmocka_unit_test(test_characters_with_a_prefix),
        cmocka_unit_test(test_unsupported_components_are_named),
        cmocka_unit_test(test_wrong_documents_are_refused),
        cmocka_unit_test(test_ends_are_the_union_of_all_files),
        cmocka_unit_test(test_config_beats_the_template),
        cmocka_unit_test(test_files_that_are_wrong_or_missing),
        cmocka_unit_test(test_json_survives_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
