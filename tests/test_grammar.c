/* Constrained output without a model: each dialect's texts taken and refused by hand, masks against a naive reading of every
 * token, positions taken back, hostile inputs. */
#include "gram_world.h"

/* ---- JSON ---- */

static void test_json(void **state)
{
    (void)state;
    CHECK_TEXTS(SL_GRAMMAR_JSON, NULL,
                LIST("{}", "{\"a\": 1}", "{\"a\":1,\"b\":[true,false,null]}", "{ }", "{\n  \"a\": {}\n}", "{\"\\u00e9\\n\": \"\xc3\xa9\"}",
                     "{\"x\": -0.5e-12, \"y\": [1, 2, [3, []]]}", "{\"s\": \"\\ud83d\\ude00\"}"),
                LIST("", "[]", "1", "\"a\"", "{", "{\"a\"}", "{\"a\": 01}", "{\"a\": 1,}", "{a: 1}", "{\"a\": \"\n\"}",
                     "{\"a\": \"\\ud83d\"}", "{\"a\": \"\xff\"}", "{}{}", "{} ", " {}", "{  }", "{\"a\" : 1}", "{\"a\": .5}", "{\"a\": 1.}",
                     "{\"a\": tru}", "{\"a\": \"\\x\"}", "{\"a\": 1234567890123456}"));
}

/* ---- regular expressions ---- */

static void test_regex(void **state)
{
    (void)state;
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "a|bc|", LIST("a", "bc", ""), LIST("b", "ab", "abc"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "^(ab?)*c{2,3}$", LIST("cc", "ccc", "abacc", "aaacc"), LIST("c", "cccc", "bcc", "ab"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "[a-c\\d_-]+", LIST("abc", "0-9_"), LIST("", "d", "a b"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "[^a-y\\s]", LIST("z", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80", "A"), LIST("a", " ", "\n", "\xc2\xa0", "zz", "\xc3"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "\\w+@\\w+\\.(com|org)", LIST("a@b.com", "A_1@x.org"), LIST("a@b.net", "@b.com", "a@b,com"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "(?:x(?<n>y){2}){1,2}z*?", LIST("xyy", "xyyxyyzz"), LIST("xy", "xyyxyyxyy"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "\\u00e9|\\x41|\\u{1F600}|\\ud83d\\ude01|\\t|\\.", LIST("\xc3\xa9", "A", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x81", "\t", "."),
                LIST("e", "a", "t", "\xf0\x9f\x98\x82"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "\\p{Lu}\\P{L}", LIST("A1", "\xc3\x89 "), LIST("a1", "AB", "1A"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "[\\uE000-\\uFFFF]", LIST("\xee\x80\x80", "\xef\xbf\xbf"), LIST("\xed\x9f\xbf", "\xf0\x90\x80\x80"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, ".", LIST("a", "\xc3\xa9"), LIST("\n", "\r", "\xe2\x80\xa8", ""));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "a{0}b{3}", LIST("bbb"), LIST("abbb", "bb"));
    CHECK_TEXTS(SL_GRAMMAR_REGEX, "(a{2}){2}|(b|c{1,2}){2,}", LIST("aaaa", "bb", "cccc", "bccb"), LIST("aa", "b", "ccc c"));
}

static void test_regex_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sl_status rc;
        const char *part;
    } cases[] = {
        {"(a", SL_ERR_FORMAT, "not closed"},
        {"a)", SL_ERR_FORMAT, "closing parenthesis"},
        {"[a", SL_ERR_FORMAT, "without ]"},
        {"*a", SL_ERR_FORMAT, "nothing to repeat"},
        {"a**", SL_ERR_FORMAT, "behind a quantifier"},
        {"a{2,1}", SL_ERR_FORMAT, "wrong way round"},
        {"a{x}", SL_ERR_FORMAT, "{m,n}"},
        {"[z-a]", SL_ERR_FORMAT, "backwards"},
        {"a\\", SL_ERR_FORMAT, "backslash at the end"},
        {"(?=a)", SL_ERR_UNSUPPORTED, "look-around"},
        {"(?<!a)b", SL_ERR_UNSUPPORTED, "look-around"},
        {"(a)\\1", SL_ERR_UNSUPPORTED, "back reference"},
        {"\\bword", SL_ERR_UNSUPPORTED, "word boundary"},
        {"a^b", SL_ERR_UNSUPPORTED, "^ or $"},
        {"\\p{Greek}", SL_ERR_UNSUPPORTED, "property"},
        {"\\ud83d", SL_ERR_FORMAT, "surrogate"},
        {"[^\\s\\S]", SL_ERR_FORMAT, "no character"},
        {"\xff", SL_ERR_FORMAT, "UTF-8"},
        {"a{1,1000000}", SL_ERR_LIMIT, "more than 10000"},
        {"((((a{100}){100}){100}){100}){100}", SL_ERR_LIMIT, "too many"},
        {"(([a-z]{1,100}){1,100}){1,100}", SL_ERR_LIMIT, "too many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_no(SL_GRAMMAR_REGEX, cases[i].text, cases[i].rc, cases[i].part);
}

/* ---- GBNF ---- */

static void test_gbnf(void **state)
{
    (void)state;
    CHECK_TEXTS(SL_GRAMMAR_GBNF, "root ::= \"yes\" | \"no\" # comment\n", LIST("yes", "no"), LIST("", "yesno", "y"));
    CHECK_TEXTS(SL_GRAMMAR_GBNF,
                "root ::= item+\nitem ::= \"- \" [^\\n]+ \"\\n\"\n", LIST("- a\n", "- a\n- bc\n"), LIST("", "- \n", "- a"));
    CHECK_TEXTS(SL_GRAMMAR_GBNF,
                "# sums\nroot ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= num | \"(\" expr \")\"\nnum ::= [0-9]{1,3}\n",
                LIST("1", "1+2*3", "((1))", "(1+2)*(3-4)"), LIST("", "1+", "(1", "1234", "()"));
    CHECK_TEXTS(SL_GRAMMAR_GBNF,
                "root ::= (\n  \"a\" # first\n  b?\n)\nb ::=\n  \"b\" |\n  \"c\"{2}\n", LIST("a", "ab", "acc"), LIST("ac", "b"));
    CHECK_TEXTS(SL_GRAMMAR_GBNF, "root ::= \"\\x41\\u00e9\" [\\u3041-\\u309f] .", LIST("A\xc3\xa9\xe3\x81\x82x", "A\xc3\xa9\xe3\x81\x82\n"),
                LIST("A\xc3\xa9", "A\xc3\xa9xx"));
    /* recursion to the right, in the middle, and through a rule that may be empty */
    CHECK_TEXTS(SL_GRAMMAR_GBNF, "root ::= \"a\" root | \"\"", LIST("", "a", "aaaa"), LIST("b", "ab"));
    CHECK_TEXTS(SL_GRAMMAR_GBNF, "root ::= \"(\" root \")\" | \"\"", LIST("", "()", "((()))"), LIST("(", "())", ")("));
    CHECK_TEXTS(SL_GRAMMAR_GBNF, "root ::= e \"x\" e root? e\ne ::= \"\" | \"e\"", LIST("x", "exe", "xx", "exeexe"), LIST("", "e", "exeeee"));
    CHECK_TEXTS(SL_GRAMMAR_GBNF, "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\"", LIST("c", "abcba", "aca"), LIST("abcab", "ab"));
}

static void test_gbnf_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sl_status rc;
        const char *part;
    } cases[] = {
        {"", SL_ERR_FORMAT, "no rule \"root\""},
        {"a ::= \"x\"", SL_ERR_FORMAT, "no rule \"root\""},
        {"root ::= other", SL_ERR_FORMAT, "not defined"},
        {"root ::= \"a", SL_ERR_FORMAT, "ends inside"},
        {"root ::= [a", SL_ERR_FORMAT, "ends inside"},
        {"root ::= (\"a\"", SL_ERR_FORMAT, "not closed"},
        {"root ::= \"a\"\nroot ::= \"b\"", SL_ERR_FORMAT, "twice"},
        {"root ::= \"a\" )", SL_ERR_FORMAT, "new line is expected"},
        {"root ::= *", SL_ERR_FORMAT, "nothing to repeat"},
        {"root ::= \"a\"\nb := \"a\"", SL_ERR_FORMAT, "line 2: a rule"},
        {"\n\nroot ::= \"\\q\"", SL_ERR_FORMAT, "line 3: an unknown escape"},
        {"root ::= <think>", SL_ERR_UNSUPPORTED, "tokens"},
        {"root ::= root \"a\" | \"b\"", SL_ERR_FORMAT, "\"root\" calls itself"},
        {"root ::= a\na ::= b \"x\"\nb ::= \"\" a", SL_ERR_FORMAT, "left recursion"},
        {"root ::= e root\ne ::= \"e\"?", SL_ERR_FORMAT, "left recursion"},
        {"root ::= \"a\" root", SL_ERR_FORMAT, "no text can ever"},
        {"root ::= \"a\"{1,999999999999}", SL_ERR_LIMIT, "10000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_no(SL_GRAMMAR_GBNF, cases[i].text, cases[i].rc, cases[i].part);
}

/* ---- masks ---- */

/* At every position of the text the mask is what reading each token says; and the text is a complete one. */
static void check_masks(sl_grammar_kind kind, const char *grammar, const char *text)
{
    world w;
    sl_err err = {0};
    open_world(&w, kind, grammar);
    for (size_t i = 0;; i++) {
        check_mask(&w, text, i);
        if (!text[i]) break;
        if (sl_guide_accept(w.gd, (uint8_t)text[i], &err) != SL_OK) fail_msg("'%s' at %zu: %s", text, i, err.msg);
    }
    assert_true(sl_guide_can_end(w.gd));
    world_close(&w);
}

static void test_masks(void **state)
{
    (void)state;
    check_masks(SL_GRAMMAR_JSON, NULL, "{\"name\": \"a\\\"\xc3\xa9\", \"b\": [1.5, {\n  \"c\": [[]]\n}, true], \"\": null}");
    check_masks(SL_GRAMMAR_REGEX, "(a|ab|aab)*b?\\(\\d+(,\\d{2,4})*\\)", "abaab(12,123)");
    check_masks(SL_GRAMMAR_REGEX, "[^\"]*\"[\\u00e0-\\u6fff\\u{10000}-\\u{1ffff}]+", "ab\"\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80");
    check_masks(SL_GRAMMAR_GBNF, "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\" | \"\"", "aabcbaa");
    check_masks(SL_GRAMMAR_GBNF, "root ::= s (\",\" s)*\ns ::= \"\\\"\" char* \"\\\"\"\nchar ::= [^\"\\\\] | \"\\\\\" [\"\\\\n]\n", "\"abc\\n\",\"hello\"");
    check_masks(SL_GRAMMAR_GBNF, "root ::= e \"+\" e | e\ne ::= \"(\" root \")\" | [0-9]+ | l\nl ::= \"a\" l | \"\"", "(aaa+12)+(1)");
}

/* A guide may be asked again, go back, and begin anew. */
static void test_rollback(void **state)
{
    (void)state;
    static const char text[] = "{\"name\": [1, 2, \"abc\"]}";
    world w;
    sl_err err = {0};
    open_world(&w, SL_GRAMMAR_JSON, NULL);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        ASSERT_OK(sl_guide_accept(w.gd, text[i], &err), err);
        if (i % 5 != 4) continue;
        ASSERT_OK(sl_guide_rollback(w.gd, 3, &err), err);
        check_mask(&w, text, i - 2);
        for (size_t k = i - 2; k <= i; k++)
            ASSERT_OK(sl_guide_accept(w.gd, text[k], &err), err);
    }
    assert_true(sl_guide_can_end(w.gd) && sl_guide_must_end(w.gd));
    assert_int_equal(sl_guide_accept(w.gd, '}', &err), SL_ERR_ARG);
    assert_int_equal(sl_guide_accept(w.gd, WORLD_CONTROL, &err), SL_ERR_ARG);
    assert_int_equal(sl_guide_accept(w.gd, -1, &err), SL_ERR_ARG);
    assert_int_equal(sl_guide_accept(w.gd, 1 << 20, &err), SL_ERR_ARG);
    ASSERT_OK(sl_guide_accept(w.gd, WORLD_END, &err), err);
    assert_int_equal(sl_guide_accept(w.gd, WORLD_END, &err), SL_ERR_ARG);
    const uint64_t *mask;
    assert_int_equal(sl_guide_mask(w.gd, &mask, &err), SL_ERR_FORMAT);
    assert_int_equal(sl_guide_rollback(w.gd, 33, &err), SL_ERR_ARG);
    ASSERT_OK(sl_guide_rollback(w.gd, 1, &err), err);
    assert_true(sl_guide_must_end(w.gd));
    ASSERT_OK(sl_guide_reset(w.gd, &err), err);
    check_mask(&w, "", 0);
    world_close(&w);
}

/* Deep nesting ends at a depth from which it can still be closed. */
static void test_depth(void **state)
{
    (void)state;
    world w;
    sl_err err = {0};
    int open = 0;
    open_world(&w, SL_GRAMMAR_JSON, NULL);
    for (const char *p = "{\"a\":"; *p; p++)
        ASSERT_OK(sl_guide_accept(w.gd, *p, &err), err);
    while (open < 10000 && sl_guide_accept(w.gd, '[', &err) == SL_OK)
        open++;
    assert_true(open > 100 && open < 520);
    const uint64_t *mask;
    ASSERT_OK(sl_guide_mask(w.gd, &mask, &err), err);
    for (uint32_t id = 0; id < sl_tokenizer_vocab(w.t); id++) {
        bool allowed;
        ASSERT_OK(sl_guide_allows(w.gd, (int32_t)id, &allowed, &err), err);
        assert_int_equal(allowed, mask[id >> 6] >> (id & 63) & 1);
    }
    while (open--)
        ASSERT_OK(sl_guide_accept(w.gd, ']', &err), err);
    ASSERT_OK(sl_guide_accept(w.gd, '}', &err), err);
    assert_true(sl_guide_must_end(w.gd));
    world_close(&w);
}

/* ---- triggers and control tokens ---- */

static void test_trigger(void **state)
{
    (void)state;
    world w;
    sl_err err = {0};
    sl_gram_options o = {.kind = SL_GRAMMAR_REGEX, .text = "\\d+", .text_bytes = 3, .trigger = "aab"};
    ASSERT_OK(world_open(&w, &o, &err), err);
    static const char *const yes[] = {"", "hello", "aab1", "aaaab12", "a\xff" "aab7", "aa"}, *const no[] = {"aab", "aabx", "aab1x", "xaaab!"};
    for (size_t i = 0; i < 6; i++)
        if (!takes(&w, yes[i], strlen(yes[i]))) fail_msg("'%s' is not taken", yes[i]);
    for (size_t i = 0; i < 4; i++)
        if (takes(&w, no[i], strlen(no[i]))) fail_msg("'%s' is taken", no[i]);
    ASSERT_OK(sl_guide_reset(w.gd, &err), err);
    check_mask(&w, "", 0);
    world_close(&w);
    o.trigger_required = true;
    ASSERT_OK(world_open(&w, &o, &err), err);
    assert_false(takes(&w, "hello", 5));
    assert_true(takes(&w, "aab5", 4));
    world_close(&w);
    o.trigger = "";
    assert_int_equal(world_open(&w, &o, &err), SL_ERR_ARG);
}

static void test_control_tokens(void **state)
{
    (void)state;
    world w;
    sl_err err = {0};
    bool allowed;
    const int32_t control = WORLD_CONTROL, end = WORLD_END;
    sl_guide *gd;
    open_world(&w, SL_GRAMMAR_GBNF, "root ::= \"a\"? \"<|ctl|>\" \"b\"");
    uint32_t n = sl_tokenizer_vocab(w.t);
    uint64_t most = sl_guide_least_bytes(n) + sl_gram_bytes(w.g);
    ASSERT_OK(sl_guide_allows(w.gd, WORLD_CONTROL, &allowed, &err), err);
    assert_false(allowed);
    assert_int_equal(sl_guide_open(&gd, w.g, w.trie, n, &end, 1, most, &err), SL_ERR_ARG);
    ASSERT_OK(sl_guide_open(&gd, w.g, w.trie, n, &control, 1, most, &err), err);
    const uint64_t *mask;
    ASSERT_OK(sl_guide_mask(gd, &mask, &err), err);
    assert_true(mask[WORLD_CONTROL >> 6] >> (WORLD_CONTROL & 63) & 1);
    ASSERT_OK(sl_guide_accept(gd, WORLD_CONTROL, &err), err);
    ASSERT_OK(sl_guide_accept(gd, 'b', &err), err);
    assert_true(sl_guide_must_end(gd));
    sl_guide_close(gd);
    world_close(&w);
}

/* ---- hostile ---- */

/* Opens, and asks for masks along a text as far as it goes; everything within two seconds. */
static void survive(sl_grammar_kind kind, const char *grammar, const char *text)
{
    world w;
    sl_err err = {0};
    double begin = cpu_s();
    sl_gram_options o = {.kind = kind, .text = grammar, .text_bytes = strlen(grammar)};
    sl_status rc = world_open(&w, &o, &err);
    if (rc == SL_OK) {
        const uint64_t *mask;
        for (size_t i = 0; rc == SL_OK && text[i]; i++) {
            rc = sl_guide_mask(w.gd, &mask, &err);
            if (rc == SL_OK) rc = sl_guide_accept(w.gd, (uint8_t)text[i], &err);
        }
        world_close(&w);
    }
    if (rc != SL_OK && !err.msg[0]) fail_msg("%.60s: no message", grammar);
    if (cpu_s() - begin > 2) fail_msg("%.60s: %.1f s", grammar, cpu_s() - begin);
}

static char *repeat(const char *s, size_t n)
{
    size_t len = strlen(s);
    char *p = malloc(n * len + 1);
    for (size_t i = 0; i < n; i++)
        memcpy(p + i * len, s, len);
    p[n * len] = 0;
    return p;
}

static void test_hostile(void **state)
{
    (void)state;
    survive(SL_GRAMMAR_REGEX, "(a*)*(a|aa)+(a?){50}a{50}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    survive(SL_GRAMMAR_REGEX, "(x+x+)+y", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    survive(SL_GRAMMAR_REGEX, ".*a.{300}", "aababbabababaabbabababababbabababababbababababab");
    survive(SL_GRAMMAR_REGEX, "(.*a){60}.{100}", "aababbabababaabbabababababbabababababbababababab");
    survive(SL_GRAMMAR_REGEX, "(((((\\p{L}{1,20}){1,20}){1,20}){1,20}){1,20})", "abc");
    survive(SL_GRAMMAR_GBNF, "root ::= a a a a a a a a\na ::= b b b b b b b b\nb ::= c c c c c c c c\nc ::= d d d d d d\nd ::= \"a\" | \"\"", "aaaaaaaaaaaaaaaaaaa");
    survive(SL_GRAMMAR_GBNF, "root ::= \"a\" root root \"b\" | \"a\" root \"c\" | \"a\" | \"\"", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    char *deep = repeat("(", 100000), *classes = repeat("[^\\p{L}]", 2000), *alts = repeat("a|", 60000);
    survive(SL_GRAMMAR_REGEX, deep, "");
    survive(SL_GRAMMAR_REGEX, classes, "1");
    survive(SL_GRAMMAR_REGEX, alts, "a");
    char *gbnf = malloc(strlen(deep) + 16);
    sprintf(gbnf, "root ::= %s", deep);
    survive(SL_GRAMMAR_GBNF, gbnf, "");
    free(gbnf);
    free(deep);
    free(classes);
    free(alts);
}

/* ---- no memory ---- */

typedef struct {
    int left;
} countdown;

static bool fail_at(void *user)
{
    countdown *c = user;
    return --c->left == 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    static const struct {
        sl_grammar_kind kind;
        const char *text;
    } cases[] = {{SL_GRAMMAR_JSON, ""}, {SL_GRAMMAR_REGEX, "(\\p{Lu}[^a-z]){2,5}|b"}, {SL_GRAMMAR_GBNF, "root ::= a+ \"x\"\na ::= [0-9] | \"(\" a \")\""}};
    sl_tokenizer *t = world_tokenizer();
    uint64_t before = sl_alloc_live_bytes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_status rc = SL_ERR_NOMEM;
        for (int n = 1; rc != SL_OK; n++) {
            countdown c = {n};
            sl_err err = {0};
            sl_gram *g = NULL;
            sl_token_trie *trie = NULL;
            sl_guide *gd = NULL;
            sl_gram_options o = {.kind = cases[i].kind, .text = cases[i].text, .text_bytes = strlen(cases[i].text), .max_bytes = WORLD_BYTES_MAX};
            sl_alloc_set_hook(fail_at, &c);
            rc = sl_gram_open(&g, &o, &err);
            if (rc == SL_OK) rc = sl_token_trie_open(&trie, t, &err);
            if (rc == SL_OK) rc = sl_guide_open(&gd, g, trie, sl_tokenizer_vocab(t), NULL, 0, 4 << 20, &err);
            sl_alloc_set_hook(NULL, NULL);
            assert_true(rc == SL_OK || (rc == SL_ERR_NOMEM && err.msg[0]));
            sl_guide_close(gd);
            sl_token_trie_close(trie);
            sl_gram_close(g);
            assert_int_equal(sl_alloc_live_bytes(), before);
        }
    }
    sl_tokenizer_close(t);
}

/* A bound on memory that is too small is a sentence, for the grammar and for the guide. */
static void test_bounds(void **state)
{
    (void)state;
    world w;
    sl_err err = {0};
    sl_gram_options o = {.kind = SL_GRAMMAR_REGEX, .text = "[^x]{2000}", .text_bytes = 10, .max_bytes = 100000};
    assert_int_equal(world_open(&w, &o, &err), SL_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "100.0 kB"));
    open_world(&w, SL_GRAMMAR_JSON, NULL);
    sl_guide *gd = NULL;
    assert_int_equal(sl_guide_open(&gd, w.g, w.trie, sl_tokenizer_vocab(w.t), NULL, 0, 100000, &err), SL_ERR_LIMIT);
    assert_int_equal(sl_guide_open(&gd, w.g, w.trie, 5, NULL, 0, 4 << 20, &err), SL_ERR_ARG);
    assert_null(gd);
    world_close(&w);
}

/* What is known of a grammar outgrows its memory again and again, and nothing changes for that. */
static void test_forgetting(void **state)
{
    (void)state;
    world w;
    sl_err err = {0};
    open_world(&w, SL_GRAMMAR_REGEX, "[ab]*a[ab]{14}b([ab]*a[ab]{13}b)*c");
    sl_guide_close(w.gd);
    uint32_t n = sl_tokenizer_vocab(w.t);
    ASSERT_OK(sl_guide_open(&w.gd, w.g, w.trie, n, NULL, 0, sl_guide_least_bytes(n) + 200000, &err), err);
    uint32_t before = 0, times = 0, dice = 1;
    static char text[8000];
    for (int i = 0; i < 8000; i++) {
        const uint64_t *mask;
        text[i] = "ab"[(dice = dice * 1103515245u + 12345u) >> 16 & 1];
        ASSERT_OK(sl_guide_mask(w.gd, &mask, &err), err);
        ASSERT_OK(sl_guide_accept(w.gd, text[i], &err), err);
        times += w.gd->n_pool < before;
        before = w.gd->n_pool;
    }
    assert_true(times > 0);
    check_mask(&w, text, 8000);
    ASSERT_OK(sl_guide_rollback(w.gd, 20, &err), err);
    check_mask(&w, text, 7980);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),           cmocka_unit_test(test_regex),     cmocka_unit_test(test_regex_refused),
        cmocka_unit_test(test_gbnf),           cmocka_unit_test(test_gbnf_refused), cmocka_unit_test(test_masks),
        cmocka_unit_test(test_rollback),       cmocka_unit_test(test_depth),     cmocka_unit_test(test_trigger),
        cmocka_unit_test(test_control_tokens), cmocka_unit_test(test_hostile),   cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_bounds),         cmocka_unit_test(test_forgetting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
