/* Constrained output over a real vocabulary (SmolLM2's 49,152 tokens): masks against a check of every single token, and what
 * a mask costs.  Skipped without the model. */
#include "gram_world.h"

#include <unistd.h>

static sl_tokenizer *tok;
static sl_token_trie *trie;

static int open_model(void **state)
{
    (void)state;
    char path[512];
    const char *dir = getenv("MODELS");
    sl_err err = {0};
    snprintf(path, sizeof path, "%s/smollm2-135m-instruct-q4_1.gguf", dir ? dir : "build/models");
    if (access(path, R_OK) != 0) return 0;
    ASSERT_OK(sl_tokenizer_open(&tok, path, NULL, NULL, &err), err);
    ASSERT_OK(sl_token_trie_open(&trie, tok, &err), err);
    if (sl_token_trie_bytes(trie) > sl_token_trie_bound_bytes(tok)) fail_msg("the tree is larger than its bound");
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    sl_token_trie_close(trie);
    sl_tokenizer_close(tok);
    return 0;
}

static void need_model(void)
{
    if (tok) return;
    print_message("skipped: no SmolLM2 model\n");
    skip();
}

static void open_guide(world *w, sl_grammar_kind kind, const char *text)
{
    sl_err err = {0};
    sl_gram_options o = {.kind = kind, .text = text, .text_bytes = text ? strlen(text) : 0, .max_bytes = WORLD_BYTES_MAX};
    *w = (world){.t = tok, .trie = trie};
    uint32_t n = sl_tokenizer_vocab(tok);
    ASSERT_OK(sl_gram_open(&w->g, &o, &err), err);
    ASSERT_OK(sl_guide_open(&w->gd, w->g, trie, n, NULL, 0, sl_guide_least_bytes(n) + (1 << 20) + sl_gram_bytes(w->g), &err), err);
}

static void close_guide(world *w)
{
    sl_guide_close(w->gd);
    sl_gram_close(w->g);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Along the model's own tokens of the text: every mask equals the check of each token; returns the mean cost in ms. */
static double follow(sl_grammar_kind kind, const char *grammar, const char *text, size_t every)
{
    world w;
    int32_t ids[512];
    double ms[512], sum = 0;
    size_t n;
    sl_err err = {0};
    open_guide(&w, kind, grammar);
    ASSERT_OK(sl_tokenize(tok, text, strlen(text), 0, ids, 512, &n, &err), err);
    for (size_t i = 0; i < n; i++) {
        const uint64_t *mask;
        double begin = now_ms();
        ASSERT_OK(sl_guide_mask(w.gd, &mask, &err), err);
        ms[i] = now_ms() - begin;
        sum += ms[i];
        for (uint32_t id = 0; i % every == 0 && id < sl_tokenizer_vocab(tok); id++) {
            bool allowed;
            ASSERT_OK(sl_guide_allows(w.gd, (int32_t)id, &allowed, &err), err);
            if (allowed != (mask[id >> 6] >> (id & 63) & 1)) fail_msg("after %zu tokens of '%s': token %u", i, text, id);
        }
        if (sl_guide_accept(w.gd, ids[i], &err) != SL_OK) fail_msg("token %zu of '%s': %s", i, text, err.msg);
    }
    assert_true(sl_guide_can_end(w.gd));
    qsort(ms, n, sizeof *ms, by_value);
    print_message("%zu masks: mean %.3f ms, median %.3f, p99 %.3f, largest %.3f; %u nodes, %u words\n", n, sum / (double)n, ms[n / 2],
                  ms[n * 99 / 100], ms[n - 1], w.gd->n_node, w.gd->n_pool);
    close_guide(&w);
    return sum / (double)n;
}

static const char person[] =
    "{\n  \"name\": \"Maria Curie-Sk\xc5\x82odowska\",\n  \"age\": 66,\n  \"bio\": \"She said: \\\"Nothing in life is to be feared, it is only to be "
    "understood.\\\" Now is the time to understand more, so that we may fear less.\",\n  \"tags\": [\"physics\", \"chemistry\"],\n  \"score\": 0.75\n}";

static void test_json(void **state)
{
    (void)state;
    need_model();
    assert_true(follow(SL_GRAMMAR_JSON, NULL, person, 5) < 4); /* loose: the machine may be busy; docs have the real numbers */
}

static void test_schema(void **state)
{
    (void)state;
    need_model();
    static const char schema[] = "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 60}, \"age\": {\"type\": \"integer\", "
                                 "\"minimum\": 0, \"maximum\": 150}, \"bio\": {\"type\": \"string\"}, \"tags\": {\"type\": \"array\", \"items\": {\"enum\": "
                                 "[\"physics\", \"chemistry\", \"maths\"]}}, \"score\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 1}}, "
                                 "\"required\": [\"name\", \"age\", \"bio\", \"tags\", \"score\"], \"additionalProperties\": false}";
    assert_true(follow(SL_GRAMMAR_SCHEMA, schema, person, 5) < 4);
}

static void test_others(void **state)
{
    (void)state;
    need_model();
    follow(SL_GRAMMAR_REGEX, "(\\w+ )*[^a-z]{3,5}\\.", "Hello there world 123.", 1);
    follow(SL_GRAMMAR_GBNF, "root ::= item+\nitem ::= \"- \" [^\\n]+ \"\\n\"", "- bread and butter\n- milk\n", 4);
    follow(SL_GRAMMAR_GBNF,
           "root ::= s (\",\" s)*\ns ::= \"\\\"\" char* \"\\\"\"\nchar ::= [^\"\\\\] | \"\\\\\" ([\"\\\\nt] | \"u\" hex hex hex hex)\nhex ::= [0-9a-f]\n",
           "\"a common way to write strings\",\"with \\u00e9\"", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json), cmocka_unit_test(test_schema), cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
