/* Constrained output through an engine and a sampler: a tiny model's random logits, made to keep to a grammar. */
#include "support.h"

#include "engine/engine_int.h"

static const char path[] = "tests/fixtures/tiny/llama/llama-f32.gguf";

typedef struct {
    sl_engine *e;
    sl_session *s;
    sl_sampler *sm;
    sl_grammar *g;
} rig;

static void open_rig(rig *r, float temp, sl_grammar_kind kind, const char *text)
{
    sl_engine_options o;
    sl_sampler_options so;
    sl_grammar_options go;
    sl_model_info info;
    sl_err err = {0};
    support_engine_options(&o);
    o.n_constrained = 1;
    *r = (rig){0};
    ASSERT_OK(sl_engine_open(&r->e, path, &o, &err), err);
    ASSERT_OK(sl_session_open(&r->s, r->e, &err), err);
    sl_engine_info(r->e, &info);
    sl_sampler_options_init(&so);
    so.temp = temp;
    so.seed = 5;
    ASSERT_OK(sl_sampler_open(&r->sm, info.n_vocab, &so, &err), err);
    sl_grammar_options_init(&go);
    go.kind = kind;
    go.text = text;
    go.text_bytes = text ? strlen(text) : 0;
    ASSERT_OK(sl_grammar_open(&r->g, r->e, &go, &err), err);
}

static void close_rig(rig *r)
{
    sl_sampler_close(r->sm);
    sl_grammar_close(r->g);
    uint64_t left = r->e->ledger.used[SL_MEM_GRAMMAR];
    assert_int_equal(left, r->e->trie_bytes); /* all but the vocabulary was given back */
    sl_session_close(r->s);
    sl_engine_close(r->e);
}

/* Generates until the text is complete; false: the end of the session came first. */
static bool generate(rig *r, char *out, size_t cap)
{
    sl_err err = {0};
    sl_tokenizer *t = sl_engine_tokenizer(r->e);
    int32_t token = 1;
    size_t n_out = 0;
    sl_session_reset(r->s);
    ASSERT_OK(sl_sampler_set_grammar(r->sm, r->g, &err), err);
    ASSERT_OK(sl_session_feed(r->s, &token, 1, &err), err);
    while (!sl_sampler_is_complete(r->sm)) {
        size_t n;
        ASSERT_OK(sl_sample(r->sm, sl_session_logits(r->s), &token, &err), err);
        if (sl_tokenizer_is_end(t, token)) break;
        sl_sampler_accept(r->sm, token);
        const char *p = sl_token_bytes(t, token, false, &n);
        if (n_out + n >= cap || !sl_session_room_tok(r->s)) return false;
        memcpy(out + n_out, p, n);
        n_out += n;
        ASSERT_OK(sl_session_feed(r->s, &token, 1, &err), err);
    }
    out[n_out] = 0;
    return true;
}

static void test_text_keeps_to_the_grammar(void **state)
{
    (void)state;
    for (int temp = 0; temp <= 1; temp++) {
        rig r;
        char a[512], b[512];
        open_rig(&r, (float)temp, SL_GRAMMAR_REGEX, "[a-f]{3}-[0-9]{4}(xyz|uvw)");
        assert_true(generate(&r, a, sizeof a));
        assert_int_equal(strlen(a), 11);
        assert_true(a[3] == '-' && strspn(a, "abcdef") == 3 && strspn(a + 4, "0123456789") == 4);
        assert_true(strcmp(a + 8, "xyz") == 0 || strcmp(a + 8, "uvw") == 0);
        /* the same seed from the beginning, by a grammar that was used before */
        sl_sampler_options so;
        sl_sampler *again;
        sl_err err = {0};
        sl_sampler_options_init(&so);
        so.temp = (float)temp;
        so.seed = 5;
        sl_model_info info;
        sl_engine_info(r.e, &info);
        sl_sampler_close(r.sm);
        ASSERT_OK(sl_sampler_open(&again, info.n_vocab, &so, &err), err);
        r.sm = again;
        assert_true(generate(&r, b, sizeof b));
        assert_string_equal(a, b);
        close_rig(&r);
    }
}

/* Trying the best token first gives what choosing among the allowed gives. */
static void test_greedy_is_the_best_allowed(void **state)
{
    (void)state;
    rig r;
    sl_err err = {0};
    sl_guide *guide;
    uint64_t bytes;
    const uint64_t *mask;
    open_rig(&r, 0, SL_GRAMMAR_JSON, NULL);
    uint32_t n_vocab = r.e->parts.info.n_vocab;
    ASSERT_OK(sl_grammar_guide(r.g, n_vocab, &guide, &bytes, &err), err);
    ASSERT_OK(sl_sampler_set_grammar(r.sm, r.g, &err), err);
    int32_t token = 1, got;
    for (int i = 0; i < 60 && !sl_guide_must_end(guide); i++) {
        ASSERT_OK(sl_session_feed(r.s, &token, 1, &err), err);
        const float *v = sl_session_logits(r.s);
        ASSERT_OK(sl_guide_mask(guide, &mask, &err), err);
        token = -1;
        for (uint32_t id = 0; id < n_vocab; id++)
            if (mask[id >> 6] >> (id & 63) & 1 && (token < 0 || v[id] > v[token])) token = (int32_t)id;
        ASSERT_OK(sl_sample(r.sm, v, &got, &err), err);
        assert_int_equal(got, token);
        if (sl_tokenizer_is_end(sl_engine_tokenizer(r.e), token)) break;
        sl_sampler_accept(r.sm, token);
        ASSERT_OK(sl_guide_accept(guide, token, &err), err);
    }
    sl_grammar_guide_close(r.g, guide, bytes);
    close_rig(&r);
}

static void test_misuse(void **state)
{
    (void)state;
    rig r;
    sl_err err = {0};
    int32_t token = 1, n;
    open_rig(&r, 1, SL_GRAMMAR_REGEX, "[0-9]+");
    ASSERT_OK(sl_session_feed(r.s, &token, 1, &err), err);
    assert_int_equal(sl_sampler_rollback_grammar(r.sm, 0, &err), SL_ERR_ARG);
    ASSERT_OK(sl_sampler_set_grammar(r.sm, r.g, &err), err);
    ASSERT_OK(sl_sample(r.sm, sl_session_logits(r.s), &n, &err), err);
    sl_sampler_accept(r.sm, n);
    ASSERT_OK(sl_sampler_rollback_grammar(r.sm, 1, &err), err);
    assert_int_equal(sl_sampler_rollback_grammar(r.sm, 1, &err), SL_ERR_ARG);
    sl_sampler_accept(r.sm, -1); /* not of this grammar */
    assert_int_equal(sl_sample(r.sm, sl_session_logits(r.s), &n, &err), SL_ERR_ARG);
    assert_non_null(strstr(err.msg, "not allowed"));
    assert_false(sl_sampler_is_complete(r.sm));
    ASSERT_OK(sl_sampler_set_grammar(r.sm, NULL, &err), err);
    ASSERT_OK(sl_sample(r.sm, sl_session_logits(r.s), &n, &err), err);
    sl_grammar_options go;
    sl_grammar *g = NULL;
    sl_grammar_options_init(&go);
    go.kind = SL_GRAMMAR_REGEX;
    assert_int_equal(sl_grammar_open(&g, r.e, &go, &err), SL_ERR_ARG);
    go.struct_size = 1;
    assert_int_equal(sl_grammar_check(&go, &err), SL_ERR_ARG);
    close_rig(&r);
}

/* Room that was not kept is refused with the ledger's sentence, and the plan counts what is kept. */
static void test_budget(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_plan without, with;
    sl_err err = {0};
    support_engine_options(&o);
    o.no_probe = true;
    ASSERT_OK(sl_engine_plan(path, &o, &without, &err), err);
    o.n_constrained = 1;
    ASSERT_OK(sl_engine_plan(path, &o, &with, &err), err);
    assert_true(with.scratch_bytes > without.scratch_bytes && with.minimum_bytes > without.minimum_bytes);
    o.n_constrained = 0;
    o.memory_bytes = without.minimum_bytes;
    sl_engine *e = NULL;
    sl_grammar *g = NULL;
    sl_grammar_options go;
    sl_grammar_options_init(&go);
    sl_status rc = SL_ERR_BUDGET;
    for (uint64_t i = 0; rc == SL_ERR_BUDGET && i < 100; i++) { /* the test process grows and shrinks */
        ASSERT_OK(sl_engine_plan(path, &o, &without, &err), err);
        o.memory_bytes = without.minimum_bytes + i * i * 1024;
        rc = sl_engine_open(&e, path, &o, &err);
    }
    ASSERT_OK(rc, err);
    e->ledger.budget_bytes = e->ledger.total; /* nothing is left */
    assert_int_equal(sl_grammar_open(&g, e, &go, &err), SL_ERR_BUDGET);
    assert_non_null(strstr(err.msg, "constrained output"));
    sl_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_keeps_to_the_grammar),
        cmocka_unit_test(test_greedy_is_the_best_allowed),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
