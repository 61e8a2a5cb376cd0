/* Properties that hold for every family without being asked: the same bits at every budget, read method, policy, thread
 * count and chunk; rewind then feed equals fresh; a cancel or a failure leaves the position; nothing leaks when reads or
 * allocations fail, and no wrong token comes out. */
#include "support.h"

#include "engine/engine_int.h"

#include <pthread.h>
#include <unistd.h>

static const char *const models[] = {
    "tests/fixtures/tiny/llama/llama-f32.gguf",     "tests/fixtures/tiny/llama-untied/hf",
    "tests/fixtures/tiny/smollm2/smollm2-f32.gguf", "tests/fixtures/tiny/qwen2/qwen2-f32.gguf",
    "tests/fixtures/tiny/qwen3/hf",                 "tests/fixtures/tiny/gemma3/gemma3-f32.gguf",
    "tests/fixtures/tiny/qwen3moe/qwen3moe-fused.gguf", "tests/fixtures/tiny/qwen2moe/hf",
    "tests/fixtures/tiny/deepseek3/hf", "tests/fixtures/tiny/gpt-oss/hf",
    "tests/fixtures/tiny/gpt-oss/hf-plain",
    "tests/fixtures/tiny/quant/q64-Q4_1.gguf",      "tests/fixtures/tiny/quant/q256-Q6_K.gguf",
};
/* From N_STREAM on the models are so small that holding them is cheaper than two windows. */
enum { N_MODEL = sizeof models / sizeof models[0], N_STREAM = 11, N_PROMPT = 40, N_GEN = 6 };

/* Ids that every fixture's vocabulary has. */
static void prompt_ids(int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)((i * 37 + 11) % 300);
}

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static int32_t argmax(const float *v, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (v[i] > v[best]) best = i;
    return (int32_t)best;
}

static size_t vocab_of(const sl_engine *e)
{
    sl_model_info info;
    sl_engine_info(e, &info);
    return info.n_vocab;
}

/* A greedy run on s; the digest covers the bits of all logits.  0: it failed, err says why. */
static uint64_t greedy(sl_session *s, size_t n_vocab, sl_err *err)
{
    int32_t ids[N_PROMPT], next;
    uint64_t h = 0xcbf29ce484222325u;
    prompt_ids(ids, N_PROMPT);
    sl_status rc = sl_session_feed(s, ids, N_PROMPT, err);
    for (int i = 0; rc == SL_OK; i++) {
        const float *logits = sl_session_logits(s);
        h = mix(h, logits, n_vocab * sizeof(float));
        if (i == N_GEN) return h;
        next = argmax(logits, n_vocab);
        rc = sl_session_feed(s, &next, 1, err);
    }
    return 0;
}

/* The budget split alone: no probe of drive and memory, which a plan for people makes. */
static sl_plan plan_of(const char *model, const sl_engine_options *o)
{
    sl_parts parts = {0};
    sl_plan plan;
    sl_err err = {0};
    ASSERT_OK(sl_parts_open(&parts, model, o, &err), err);
    ASSERT_OK(sl_budget_split(&parts, o, 4096, o->io == SL_IO_MMAP, NULL, &plan, &err), err);
    sl_parts_close(&parts);
    return plan;
}

/* The tightest budget that works plus extra: the models here are smaller than what a test process gains and loses between
 * two calls, so the planned minimum is only where the search starts. */
static sl_status open_tight(sl_engine **e, const char *model, sl_engine_options *o, uint64_t extra, sl_io_wrap wrap, void *user,
                            sl_err *err)
{
    sl_status rc = SL_ERR_BUDGET;
    for (int i = 0; rc == SL_ERR_BUDGET && i < 100; i++) { /* under sanitizers the process grows from call to call */
        *err = (sl_err){0};
        o->memory_bytes = plan_of(model, o).minimum_bytes + extra + (uint64_t)i * i * 1024;
        rc = sl_engine_open_wrapped(e, model, o, wrap, user, err);
    }
    return rc;
}

static uint64_t digest_and_close(const char *model, sl_engine *e)
{
    sl_session *s = NULL;
    sl_err err = {0};
    ASSERT_OK(sl_session_open(&s, e, &err), err);
    uint64_t h = greedy(s, vocab_of(e), &err);
    if (!h) fail_msg("%s: %s", model, err.msg);
    sl_stats st;
    sl_engine_stats(e, &st);
    assert_true(st.ledger_peak_bytes <= st.budget_bytes);
    sl_session_close(s);
    sl_engine_close(e);
    return h;
}

static uint64_t run(const char *model, const sl_engine_options *o)
{
    sl_engine *e = NULL;
    sl_err err = {0};
    ASSERT_OK(sl_engine_open(&e, model, o, &err), err);
    return digest_and_close(model, e);
}

/* The same under a tight budget; how many bytes a sweep reads goes to *stream_bytes. */
static uint64_t run_tight(const char *model, sl_engine_options *o, uint64_t extra, uint64_t *stream_bytes)
{
    sl_engine *e = NULL;
    sl_err err = {0};
    sl_plan p;
    ASSERT_OK(open_tight(&e, model, o, extra, NULL, NULL, &err), err);
    sl_engine_get_plan(e, &p);
    *stream_bytes = p.stream_bytes;
    return digest_and_close(model, e);
}

/* ---- the same tokens ---- */

static void test_one_digest(void **state)
{
    static const sl_io_method methods[] = {SL_IO_URING, SL_IO_PREAD, SL_IO_BUFFERED, SL_IO_MMAP};
    static const uint32_t chunks[] = {1, 7, N_PROMPT};
    (void)state;
    for (size_t m = 0; m < N_MODEL; m++) {
        sl_engine_options o;
        support_engine_options(&o);
        uint64_t want = run(models[m], &o);
        size_t n_run = 0, n_stream = 0;
        for (int b = 0; b < 4; b++)
            for (size_t k = 0; k < 12; k++) {
                support_engine_options(&o);
                o.io = methods[k % 4];
                o.prefill_chunk_tok = chunks[(k + (size_t)b) % 3];
                o.n_threads = 1 + (uint32_t)(k / 4);
                o.load_late = (k + (size_t)b) % 2;
                uint64_t stream = 0, extra = plan_of(models[m], &o).model_bytes * (uint64_t)b / 12;
                uint64_t got = run_tight(models[m], &o, extra, &stream);
                if (got != want) fail_msg("%s: another digest at budget %d, case %zu", models[m], b, k);
                n_run++;
                n_stream += stream > 0;
            }
        print_message("%-48s %016llx in %zu runs, %zu of them streaming\n", models[m], (unsigned long long)want, n_run,
                      n_stream);
        if (m < N_STREAM) assert_true(n_stream >= n_run / 4);
    }
}

static void test_policies_and_levels_agree(void **state)
{
    static const sl_policy policies[] = {SL_POLICY_PIN, SL_POLICY_LRU, SL_POLICY_FIFO};
    static const sl_cpu_level levels[] = {SL_CPU_PORTABLE, SL_CPU_AVX2, SL_CPU_AVX512};
    size_t n_stream = 0;
    (void)state;
    for (size_t m = 0; m < N_MODEL; m++) {
        sl_engine_options o;
        support_engine_options(&o);
        uint64_t want = run(models[m], &o);
        for (size_t i = 0; i < 3; i++) {
            support_engine_options(&o);
            o.policy = policies[i];
            uint64_t stream = 0;
            assert_int_equal(run_tight(models[m], &o, 0, &stream), want);
            n_stream += stream > 0;
            if (!sl_cpu_has(levels[i])) continue;
            support_engine_options(&o);
            o.cpu = levels[i];
            assert_int_equal(run(models[m], &o), want);
        }
    }
    assert_true(n_stream >= N_STREAM); /* in some runs more memory was free than planned with */
}

static void test_kv_types_and_scalar_agree_roughly(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_err err = {0};
    float *first = NULL;
    static const struct {
        sl_backend_kind backend;
        sl_kv_type kv;
    } kinds[] = {{SL_BACKEND_SCALAR, SL_KV_F32}, {SL_BACKEND_CPU, SL_KV_F32}, {SL_BACKEND_CPU, SL_KV_F16}, {SL_BACKEND_CPU, SL_KV_Q8}};
    for (size_t i = 0; i < 4; i++) {
        sl_engine *e = NULL;
        sl_session *s = NULL;
        int32_t ids[N_PROMPT];
        prompt_ids(ids, N_PROMPT);
        support_engine_options(&o);
        o.backend = kinds[i].backend;
        o.kv = kinds[i].kv;
        ASSERT_OK(sl_engine_open(&e, models[4], &o, &err), err);
        ASSERT_OK(sl_session_open(&s, e, &err), err);
        ASSERT_OK(sl_session_feed(s, ids, N_PROMPT, &err), err);
        size_t bytes = vocab_of(e) * sizeof(float);
        if (!first) {
            first = malloc(bytes);
            memcpy(first, sl_session_logits(s), bytes);
        }
        assert_true(support_relative_l2(sl_session_logits(s), first, vocab_of(e)) < 3e-2);
        sl_session_close(s);
        sl_engine_close(e);
    }
    free(first);
}

/* ---- position ---- */

typedef struct {
    sl_engine *e;
    sl_session *s;
    size_t n_vocab;
} opened;

static opened open_model(const char *model, const sl_engine_options *o)
{
    opened x = {0};
    sl_err err = {0};
    ASSERT_OK(sl_engine_open(&x.e, model, o, &err), err);
    ASSERT_OK(sl_session_open(&x.s, x.e, &err), err);
    x.n_vocab = vocab_of(x.e);
    return x;
}

static void close_model(opened *x)
{
    sl_session_close(x->s);
    sl_engine_close(x->e);
}

static void test_rewind_equals_fresh(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_MODEL; m++) {
        sl_engine_options o;
        sl_err err = {0};
        int32_t ids[N_PROMPT];
        prompt_ids(ids, N_PROMPT);
        support_engine_options(&o);
        opened x = open_model(models[m], &o);
        ASSERT_OK(sl_session_feed(x.s, ids, N_PROMPT, &err), err);
        float *want = malloc(x.n_vocab * sizeof *want);
        memcpy(want, sl_session_logits(x.s), x.n_vocab * sizeof *want);
        ASSERT_OK(sl_session_rewind(x.s, 13, &err), err);
        assert_null(sl_session_logits(x.s));
        ASSERT_OK(sl_session_feed(x.s, (const int32_t[]){5, 6, 7}, 3, &err), err);
        ASSERT_OK(sl_session_rewind(x.s, 13, &err), err);
        ASSERT_OK(sl_session_feed(x.s, ids + 13, N_PROMPT - 13, &err), err);
        assert_memory_equal(want, sl_session_logits(x.s), x.n_vocab * sizeof *want);
        sl_session_reset(x.s);
        ASSERT_OK(sl_session_feed(x.s, ids, N_PROMPT, &err), err);
        assert_memory_equal(want, sl_session_logits(x.s), x.n_vocab * sizeof *want);
        free(want);
        close_model(&x);
    }
}

static void test_full_context_is_a_clear_error(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_err err = {0};
    int32_t ids[64];
    prompt_ids(ids, 64);
    support_engine_options(&o);
    o.ctx_tok = 48;
    opened x = open_model(models[0], &o);
    assert_int_equal(sl_session_room_tok(x.s), 48);
    assert_int_equal(sl_session_feed(x.s, ids, 49, &err), SL_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "48"));
    ASSERT_OK(sl_session_feed(x.s, ids, 48, &err), err);
    assert_int_equal(sl_session_feed(x.s, ids, 1, &err), SL_ERR_LIMIT);
    assert_int_equal(sl_session_pos_tok(x.s), 48);
    assert_non_null(sl_session_logits(x.s));
    close_model(&x);
}

static void test_bad_tokens_and_rewinds(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_err err = {0};
    support_engine_options(&o);
    opened x = open_model(models[0], &o);
    const int32_t bad[] = {1, -1}, big[] = {1, (int32_t)x.n_vocab};
    assert_int_equal(sl_session_feed(x.s, bad, 2, &err), SL_ERR_ARG);
    assert_int_equal(sl_session_feed(x.s, big, 2, &err), SL_ERR_ARG);
    assert_int_equal(sl_session_feed(x.s, big, 0, &err), SL_ERR_ARG);
    assert_int_equal(sl_session_rewind(x.s, 1, &err), SL_ERR_ARG);
    assert_int_equal(sl_session_pos_tok(x.s), 0);
    close_model(&x);
}

static void cancel_in_hook(void *user, const sl_layer_event *e)
{
    if (e->position == 1) sl_session_cancel(user);
}

static void test_cancel_leaves_the_position(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_err err = {0};
    int32_t ids[N_PROMPT];
    prompt_ids(ids, N_PROMPT);
    support_engine_options(&o);
    opened x = open_model(models[5], &o);
    ASSERT_OK(sl_session_feed(x.s, ids, 10, &err), err);
    sl_session_set_layer_hook(x.s, cancel_in_hook, x.s);
    assert_int_equal(sl_session_feed(x.s, ids + 10, N_PROMPT - 10, &err), SL_ERR_CANCELED);
    assert_int_equal(sl_session_pos_tok(x.s), 10);
    assert_int_equal(sl_residency_pinned_count(x.e->res), 0);
    sl_session_set_layer_hook(x.s, NULL, NULL);
    sl_session_uncancel(x.s);
    ASSERT_OK(sl_session_feed(x.s, ids + 10, N_PROMPT - 10, &err), err);
    float *want = malloc(x.n_vocab * sizeof *want);
    memcpy(want, sl_session_logits(x.s), x.n_vocab * sizeof *want);
    sl_session_reset(x.s);
    ASSERT_OK(sl_session_feed(x.s, ids, N_PROMPT, &err), err);
    assert_memory_equal(want, sl_session_logits(x.s), x.n_vocab * sizeof *want);
    free(want);
    close_model(&x);
}

/* ---- layers ---- */

typedef struct {
    uint32_t index[16];
    size_t n;
    bool first_ok, last_ok;
} seen_layers;

static void note_layer(void *user, const sl_layer_event *e)
{
    seen_layers *s = user;
    if (s->n < 16) s->index[s->n] = e->layer_index;
    if (e->is_first) s->first_ok = e->position == 0;
    if (e->is_last) s->last_ok = e->position + 1 == s->n + 1;
    s->n++;
}

static void test_layer_lists(void **state)
{
    static const struct {
        const char *spec;
        uint32_t want[8], n;
    } good[] = {{"0", {0}, 1}, {"1,0", {1, 0}, 2}, {"0-1", {0, 1}, 2}, {" 1 , 1,0 - 1 ", {1, 1, 0, 1}, 4}};
    static const char *const bad[] = {"", " ", "x", "0,", ",0", "0--1", "1-0", "0-", "99", "0-99", "0 1", "-1", "0,,1"};
    (void)state;
    sl_engine_options o;
    sl_err err = {0};
    support_engine_options(&o);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        o.layers = good[i].spec;
        opened x = open_model(models[0], &o);
        seen_layers seen = {0};
        int32_t id = 5;
        sl_session_set_layer_hook(x.s, note_layer, &seen);
        ASSERT_OK(sl_session_feed(x.s, &id, 1, &err), err);
        assert_int_equal(seen.n, good[i].n);
        assert_memory_equal(seen.index, good[i].want, good[i].n * sizeof(uint32_t));
        assert_true(seen.first_ok && seen.last_ok);
        close_model(&x);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sl_engine *e = NULL;
        o.layers = bad[i];
        assert_int_equal(sl_engine_open(&e, models[0], &o, &err), SL_ERR_ARG);
        assert_null(e);
    }
    o.layers = "0";
    o.max_layers = 1;
    sl_engine *e = NULL;
    assert_int_equal(sl_engine_open(&e, models[0], &o, &err), SL_ERR_ARG);
}

/* Layers 0..n-1 listed, or by count: the same; repeated layers keep keys and values apart (prefill equals decode). */
static void test_layer_subsets_compute(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_err err = {0};
    int32_t ids[12];
    prompt_ids(ids, 12);
    support_engine_options(&o);
    o.layers = "0,1,1,0";
    opened x = open_model(models[0], &o);
    ASSERT_OK(sl_session_feed(x.s, ids, 12, &err), err);
    float *want = malloc(x.n_vocab * sizeof *want);
    memcpy(want, sl_session_logits(x.s), x.n_vocab * sizeof *want);
    sl_session_reset(x.s);
    for (int i = 0; i < 12; i++) ASSERT_OK(sl_session_feed(x.s, ids + i, 1, &err), err);
    assert_memory_equal(want, sl_session_logits(x.s), x.n_vocab * sizeof *want);
    free(want);
    close_model(&x);
    support_engine_options(&o);
    o.max_layers = 1;
    uint64_t by_count = run(models[0], &o);
    o.max_layers = 0;
    o.layers = "0";
    assert_int_equal(run(models[0], &o), by_count);
}

/* ---- budget ---- */

static void test_too_small_a_budget_is_refused_with_the_sum(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_err err = {0};
    sl_engine *e = NULL;
    support_engine_options(&o);
    o.memory_bytes = 4 << 20;
    assert_int_equal(sl_engine_open(&e, models[0], &o, &err), SL_ERR_BUDGET);
    assert_non_null(strstr(err.msg, "KV cache"));
    assert_non_null(strstr(err.msg, "at least"));
    o.memory_bytes = plan_of(models[0], &o).minimum_bytes + (64 << 20);
    o.ctx_tok = 10000000;
    assert_int_equal(sl_engine_open(&e, models[0], &o, &err), SL_ERR_BUDGET);
    assert_non_null(strstr(err.msg, "largest context that fits"));
}

typedef struct {
    uint32_t n_call, want_tok;
    sl_status answer;
    bool tokenizer;
} settling;

static sl_status on_settle(void *user, sl_tokenizer *t, const sl_plan *plan, uint32_t *ctx_tok, sl_err *err)
{
    settling *s = user;
    s->n_call++;
    s->tokenizer = t != NULL;
    assert_true(plan->fits && plan->ctx_tok > 0);
    *ctx_tok = s->want_tok;
    return s->answer == SL_OK ? SL_OK : sl_fail(err, s->answer, "not this one");
}

static void test_the_context_is_settled_while_opening(void **state)
{
    (void)state;
    settling s = {.want_tok = 65};
    sl_engine_options o;
    sl_err err = {0};
    sl_engine *e = NULL;
    sl_plan p;
    support_engine_options(&o);
    uint64_t want = run(models[0], &o);
    o.ctx_tok = 0;
    o.settle = on_settle;
    o.settle_user = &s;
    ASSERT_OK(sl_engine_open(&e, models[0], &o, &err), err);
    sl_engine_get_plan(e, &p);
    assert_int_equal(s.n_call, 1);
    assert_int_equal(p.ctx_tok, 65);
    assert_int_equal(s.tokenizer, sl_engine_tokenizer(e) != NULL);
    assert_int_equal(digest_and_close(models[0], e), want);
    s.want_tok = UINT32_MAX;
    assert_int_equal(sl_engine_open(&e, models[0], &o, &err), SL_ERR_ARG);
    s.answer = SL_ERR_LIMIT;
    assert_int_equal(sl_engine_open(&e, models[0], &o, &err), SL_ERR_LIMIT);
    assert_string_equal(err.msg, "not this one");
}

static void test_two_engines_in_one_process(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_err err = {0};
    support_engine_options(&o);
    uint64_t a = run(models[0], &o), b = run(models[4], &o);
    opened x = open_model(models[0], &o), y = open_model(models[4], &o);
    assert_int_equal(greedy(x.s, x.n_vocab, &err), a);
    assert_int_equal(greedy(y.s, y.n_vocab, &err), b);
    close_model(&x);
    close_model(&y);
}

/* ---- faults ---- */

static sl_status wrap_faulty(void *user, sl_io **io, sl_err *err)
{
    return sl_io_open_faulty(io, *io, user, err);
}

/* Opens and runs with the n-th read failing; true when the whole run came through with the right digest. */
static bool run_with_faults(const char *model, sl_engine_options *o, sl_io_faults *faults, uint64_t want)
{
    sl_engine *e = NULL;
    sl_session *s = NULL;
    sl_err err = {0};
    sl_status rc = open_tight(&e, model, o, 0, wrap_faulty, faults, &err);
    if (rc != SL_OK) {
        assert_int_equal(rc, SL_ERR_IO);
        assert_true(err.msg[0] != 0);
        return false;
    }
    ASSERT_OK(sl_session_open(&s, e, &err), err);
    uint64_t h = greedy(s, vocab_of(e), &err);
    if (h) {
        assert_int_equal(h, want);
    } else {
        assert_int_equal(err.code, SL_ERR_IO);
        assert_int_equal(sl_residency_pinned_count(e->res), 0);
        faults->fail_at = faults->short_at = 0; /* the drive has recovered: the next request is right */
        sl_session_reset(s);
        err = (sl_err){0};
        assert_int_equal(greedy(s, vocab_of(e), &err), want);
    }
    sl_session_close(s);
    sl_engine_close(e);
    return h != 0;
}

static void test_every_failed_read_fails_its_request_only(void **state)
{
    (void)state;
    static const sl_io_method methods[] = {SL_IO_PREAD, SL_IO_URING, SL_IO_BUFFERED};
    static const size_t which[] = {3, 1, 7}; /* 7: experts with a tensor each */
    for (size_t k = 0; k < 9; k++) {
        const char *model = models[which[k % 3]];
        sl_engine_options o;
        support_engine_options(&o);
        uint64_t want = run(model, &o);
        o.io = methods[k / 3];
        o.load_late = k % 4 < 2;
        bool done = false;
        int n = 1;
        for (; !done && n < 4000; n++) {
            sl_io_faults f = {.fail_at = k % 2 ? 0 : n, .short_at = k % 2 ? n : 0};
            done = run_with_faults(model, &o, &f, want);
        }
        assert_true(done);
        print_message("%s: walked %d reads\n", model, n - 1);
    }
}

static void test_delayed_reads_change_nothing(void **state)
{
    (void)state;
    sl_engine_options o;
    support_engine_options(&o);
    uint64_t want = run(models[3], &o);
    for (uint64_t seed = 1; seed < 4; seed++) {
        sl_io_faults f = {.delay_max_us = 3000, .seed = seed};
        assert_true(run_with_faults(models[3], &o, &f, want));
    }
}

typedef struct {
    int64_t calls, fail_at;
} alloc_walk;

static bool should_fail(void *user)
{
    alloc_walk *w = user;
    return ++w->calls == w->fail_at;
}

static void test_every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    static const size_t which[] = {0, 4, 6, 8, 9}; /* dense, then mixtures of three kinds */
    for (size_t k = 0; k < sizeof which / sizeof which[0]; k++) {
        const char *model = models[which[k]];
        sl_engine_options o;
        support_engine_options(&o);
        uint64_t want = run(model, &o);
        uint64_t live = sl_alloc_live_bytes();
        bool done = false;
        int64_t n = 1;
        /* every early allocation, then ever larger strides (a tokenizer makes thousands of the same kind) */
        for (; !done; n += 1 + n / 200) {
            alloc_walk w = {.fail_at = n};
            sl_engine *e = NULL;
            sl_session *s = NULL;
            sl_err err = {0};
            sl_alloc_set_hook(should_fail, &w);
            sl_status rc = sl_engine_open(&e, model, &o, &err);
            if (rc == SL_OK) rc = sl_session_open(&s, e, &err);
            uint64_t h = rc == SL_OK ? greedy(s, vocab_of(e), &err) : 0;
            sl_alloc_set_hook(NULL, NULL);
            done = w.calls < n;
            if (h) assert_int_equal(h, want);
            if (!h && err.code != SL_ERR_NOMEM) fail_msg("allocation %lld: status %d, %s", (long long)n, err.code, err.msg);
            sl_session_close(s);
            sl_engine_close(e);
            if (sl_alloc_live_bytes() != live) fail_msg("allocation %lld leaks", (long long)n);
        }
        print_message("%s: walked %lld allocations\n", model, (long long)n);
    }
}

/* Nothing may be allocated between two tokens. */
static bool never(void *user)
{
    ++*(int64_t *)user;
    return false;
}

static void keep_progress(void *user, const sl_progress *p)
{
    if (p->phase == SL_PHASE_PREFILL) *(sl_progress *)user = *p;
}

/* What a prompt's progress tells is the prompt's own, whatever the engine has read for others before. */
static void test_progress_counts_from_the_feed_on(void **state)
{
    (void)state;
    sl_engine_options o;
    sl_engine *e = NULL;
    sl_session *s = NULL;
    sl_err err = {0};
    sl_progress now = {0};
    int32_t ids[N_PROMPT];
    support_engine_options(&o);
    o.progress = keep_progress;
    o.progress_user = &now;
    prompt_ids(ids, N_PROMPT);
    ASSERT_OK(open_tight(&e, models[0], &o, 0, NULL, NULL, &err), err);
    ASSERT_OK(sl_session_open(&s, e, &err), err);
    sl_stats before, after = {0};
    for (int i = 0; i < 3; i++) {
        sl_engine_stats(e, &before);
        ASSERT_OK(sl_session_feed(s, ids, 8, &err), err);
        sl_engine_stats(e, &after);
        assert_int_equal(now.done_tok, 8);
        /* this prompt's, not all since opening; none when its reads came ahead of it and the next one's come after it */
        assert_in_range(now.done_bytes, 0, after.bytes_read - before.bytes_read);
    }
    assert_true(after.bytes_read > 0);
    sl_session_close(s);
    sl_engine_close(e);
}

static void test_decoding_allocates_nothing(void **state)
{
    (void)state;
    for (int budget = 0; budget < 2; budget++) {
        sl_engine_options o;
        sl_err err = {0};
        int64_t calls = 0;
        int32_t ids[N_PROMPT], next = 3;
        prompt_ids(ids, N_PROMPT);
        support_engine_options(&o);
        opened x = {0};
        ASSERT_OK(budget ? open_tight(&x.e, models[5], &o, 0, NULL, NULL, &err) : sl_engine_open(&x.e, models[5], &o, &err), err);
        ASSERT_OK(sl_session_open(&x.s, x.e, &err), err);
        ASSERT_OK(sl_session_feed(x.s, ids, N_PROMPT, &err), err);
        sl_alloc_set_hook(never, &calls);
        /* up to position 64, where the cache commits its next pages */
        for (int i = N_PROMPT; i < 64; i++) ASSERT_OK(sl_session_feed(x.s, &next, 1, &err), err);
        sl_alloc_set_hook(NULL, NULL);
        assert_int_equal(calls, 0);
        close_model(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_digest),
        cmocka_unit_test(test_policies_and_levels_agree),
        cmocka_unit_test(test_kv_types_and_scalar_agree_roughly),
        cmocka_unit_test(test_rewind_equals_fresh),
        cmocka_unit_test(test_full_context_is_a_clear_error),
        cmocka_unit_test(test_bad_tokens_and_rewinds),
        cmocka_unit_test(test_cancel_leaves_the_position),
        cmocka_unit_test(test_layer_lists),
        cmocka_unit_test(test_layer_subsets_compute),
        cmocka_unit_test(test_too_small_a_budget_is_refused_with_the_sum),
        cmocka_unit_test(test_the_context_is_settled_while_opening),
        cmocka_unit_test(test_two_engines_in_one_process),
        cmocka_unit_test(test_every_failed_read_fails_its_request_only),
        cmocka_unit_test(test_delayed_reads_change_nothing),
        cmocka_unit_test(test_every_failed_allocation_is_an_error),
        cmocka_unit_test(test_progress_counts_from_the_feed_on),
        cmocka_unit_test(test_decoding_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
