/* Mixtures with an expert cache of any size: the same bits for every number of slots, path, prediction, reader, thread count
 * and chunk, with delayed reads too; failed reads end one request; what a run learns is found by the next. */
#include "support.h"

#include "engine/engine_int.h"

#include <dirent.h>
#include <unistd.h>

static const char *const models[] = {
    "tests/fixtures/tiny/qwen3moe/qwen3moe-fused.gguf", "tests/fixtures/tiny/qwen3moe/qwen3moe-each.gguf",
    "tests/fixtures/tiny/qwen2moe/hf",                  "tests/fixtures/tiny/mixtral/hf",
    "tests/fixtures/tiny/olmoe/olmoe-f32.gguf",         "tests/fixtures/tiny/granitemoe/hf",
    "tests/fixtures/tiny/gpt-oss/hf",                   "tests/fixtures/tiny/gpt-oss/hf-plain",
};
enum { N_MODEL = sizeof models / sizeof models[0], N_PROMPT = 30, N_GEN = 8 };
static const sl_experts_path paths[] = {SL_EXPERTS_AUTO, SL_EXPERTS_EXACT, SL_EXPERTS_STAGED, SL_EXPERTS_HOT, SL_EXPERTS_LAYER};
static const sl_predict predicts[] = {SL_PREDICT_OFF, SL_PREDICT_HISTORY, SL_PREDICT_LOOKAHEAD};
static const sl_io_method methods[] = {SL_IO_AUTO, SL_IO_PREAD, SL_IO_BUFFERED, SL_IO_MMAP};
static const uint32_t chunks[] = {1, 7, N_PROMPT};

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static size_t vocab_of(const sl_engine *e)
{
    sl_model_info info;
    sl_engine_info(e, &info);
    return info.n_vocab;
}

static int32_t id_at(size_t i)
{
    return (int32_t)((i * 37 + 11) % 300);
}

/* Prompt, then fixed ids one by one (they route more widely than a greedy text); the digest covers all logits. */
static sl_status feed_all(sl_engine *e, sl_session *s, uint32_t n_gen, uint64_t *digest, sl_err *err)
{
    int32_t ids[N_PROMPT];
    for (size_t i = 0; i < N_PROMPT; i++) ids[i] = id_at(i);
    *digest = 0xcbf29ce484222325u;
    sl_status rc = sl_session_feed(s, ids, N_PROMPT, err);
    for (uint32_t i = 0; rc == SL_OK; i++) {
        *digest = mix(*digest, sl_session_logits(s), vocab_of(e) * sizeof(float));
        if (i == n_gen) break;
        int32_t id = id_at(N_PROMPT + i * 3);
        rc = sl_session_feed(s, &id, 1, err);
    }
    return rc;
}

static uint64_t run(const char *model, const sl_engine_options *o, uint32_t n_gen, sl_io_wrap wrap, void *user, sl_stats *stats)
{
    sl_engine *e = NULL;
    sl_session *s = NULL;
    sl_err err = {0};
    uint64_t digest;
    ASSERT_OK(sl_engine_open_wrapped(&e, model, o, wrap, user, &err), err);
    ASSERT_OK(sl_session_open(&s, e, &err), err);
    ASSERT_OK(feed_all(e, s, n_gen, &digest, &err), err);
    assert_int_equal(sl_experts_pinned_count(e->experts), 0);
    if (stats) sl_engine_stats(e, stats);
    sl_session_close(s);
    sl_engine_close(e);
    return digest;
}

static sl_engine_options with_slots(uint32_t n_slot)
{
    sl_engine_options o;
    support_engine_options(&o);
    o.experts.cache_slots = n_slot;
    return o;
}

static uint32_t experts_of(const char *model)
{
    sl_engine_options o = with_slots(0);
    sl_plan p;
    sl_err err = {0};
    o.no_probe = true;
    ASSERT_OK(sl_engine_plan(model, &o, &p, &err), err);
    assert_int_equal(p.expert_slots, p.expert_count);
    return p.expert_count;
}

/* ---- the same bits ---- */

static void test_every_number_of_slots_gives_the_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_MODEL; m++) {
        sl_engine_options o = with_slots(0);
        sl_stats st;
        uint64_t want = run(models[m], &o, N_GEN, NULL, NULL, &st);
        uint32_t all = experts_of(models[m]);
        assert_int_equal(st.experts.misses, 0);
        assert_int_equal(st.experts.slots, all);
        for (uint32_t n = 1, k = 0; n <= all; n += n < 10 ? 1 : 5, k++) {
            o = with_slots(n);
            o.experts.path = paths[k % 5];
            o.predict = predicts[k % 3];
            o.io = methods[k % 4];
            o.prefill_chunk_tok = chunks[(k + m) % 3];
            o.n_threads = 1 + k % 3;
            o.experts.prefetch_always = k & 1;
            o.experts.full_layer_prefill = k % 7 == 3;
            o.experts.prefill_hot = k % 5 == 2 ? 2 : 0;
            uint64_t got = run(models[m], &o, N_GEN, NULL, NULL, &st);
            if (got != want) fail_msg("%s: another digest with %u slots (case %u)", models[m], n, k);
            if (n < all && o.io != SL_IO_MMAP) assert_true(st.experts.misses > 0 || st.experts.prefetch_used > 0);
        }
    }
}

static void test_paths_predictions_and_readers_give_the_same_bits(void **state)
{
    (void)state;
    sl_engine_options o = with_slots(0);
    uint64_t want = run(models[0], &o, N_GEN, NULL, NULL, NULL);
    uint32_t all = experts_of(models[0]);
    for (size_t p = 0; p < 5; p++)
        for (size_t q = 0; q < 3; q++)
            for (size_t i = 0; i < 4; i++) {
                o = with_slots(1 + (uint32_t)(p * 12 + q * 4 + i) * all / 61);
                o.experts.path = paths[p];
                o.experts.hot_update_interval = 1;
                o.predict = predicts[q];
                o.io = methods[i];
                o.prefill_chunk_tok = chunks[(p + q + i) % 3];
                if (run(models[0], &o, N_GEN, NULL, NULL, NULL) != want)
                    fail_msg("path %zu, prediction %zu, reader %zu: another digest", p, q, i);
            }
}

static sl_status delay(void *user, sl_io **io, sl_err *err)
{
    return sl_io_open_faulty(io, *io, user, err);
}

static void test_delayed_reads_change_nothing(void **state)
{
    (void)state;
    static const uint32_t delays_us[] = {100, 2000, 50000};
    for (size_t m = 0; m < 3; m++) {
        sl_engine_options o = with_slots(0);
        uint64_t want = run(models[m], &o, 1, NULL, NULL, NULL);
        for (size_t d = 0; d < 3; d++) {
            sl_io_faults faults = {.delay_max_us = delays_us[d], .seed = d};
            o = with_slots(d == 2 ? experts_of(models[m]) - 6 : 9);
            o.predict = predicts[(m + d) % 3];
            o.experts.prefetch_always = true;
            assert_int_equal(run(models[m], &o, 1, delay, &faults, NULL), want);
        }
    }
}

/* ---- budgets ---- */

static void test_a_plan_splits_and_the_smallest_budget_works(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_MODEL; m++) {
        sl_engine_options o = with_slots(0);
        sl_err err = {0};
        uint64_t want = run(models[m], &o, 2, NULL, NULL, NULL);
        sl_parts parts = {0};
        sl_plan p;
        ASSERT_OK(sl_parts_open(&parts, models[m], &o, &err), err);
        o.memory_bytes = 1 << 20;
        ASSERT_OK(sl_budget_split(&parts, &o, 4096, false, NULL, &p, &err), err);
        assert_false(p.fits);
        sl_budget_refuse(&parts, &p, &err);
        assert_non_null(strstr(err.msg, "expert slots"));
        uint32_t last = 0;
        for (uint32_t i = 0; i < 40; i++) {
            o.memory_bytes = p.minimum_bytes + i * 65536;
            sl_plan q;
            ASSERT_OK(sl_budget_split(&parts, &o, 4096, false, NULL, &q, &err), err);
            assert_true(q.fits && q.total_bytes <= q.budget_bytes && q.expert_slots >= 1);
            assert_true(q.expert_bytes >= q.expert_slots * (q.expert_slot_bytes / 2));
            if (q.resident_bytes == 0) assert_true(q.expert_slots >= last); /* chunk and context may grow instead */
            last = q.expert_slots;
        }
        sl_parts_close(&parts);
        sl_engine *e = NULL;
        sl_status rc = SL_ERR_BUDGET;
        for (uint64_t i = 0; rc == SL_ERR_BUDGET && i < 100; i++) { /* the test process grows and shrinks */
            o.no_probe = true;
            ASSERT_OK(sl_engine_plan(models[m], &o, &p, &err), err);
            o.memory_bytes = p.minimum_bytes + i * i * 1024;
            rc = sl_engine_open(&e, models[m], &o, &err);
        }
        ASSERT_OK(rc, err);
        sl_session *s = NULL;
        uint64_t digest;
        ASSERT_OK(sl_session_open(&s, e, &err), err);
        ASSERT_OK(feed_all(e, s, 2, &digest, &err), err);
        assert_int_equal(digest, want);
        assert_true(e->ledger.peak <= e->plan.budget_bytes);
        sl_session_close(s);
        sl_engine_close(e);
    }
}

static void count_warnings(void *user, sl_log_level level, const char *msg)
{
    char *last = user;
    if (level == SL_LOG_WARNING) snprintf(last, 400, "%s", msg);
}

static void test_too_few_slots_are_warned_of_with_what_would_do(void **state)
{
    (void)state;
    char last[400] = "";
    sl_engine_options o = with_slots(2);
    o.log = count_warnings;
    o.log_user = last;
    sl_stats st;
    run(models[0], &o, 1, NULL, NULL, &st);
    assert_non_null(strstr(last, "memory holds 2 experts, one token uses"));
    assert_string_equal(st.experts.path, "hot");
    last[0] = 0;
    o.experts.cache_slots = experts_of(models[0]) - 1;
    run(models[0], &o, 1, NULL, NULL, &st);
    assert_string_equal(last, "");
    assert_string_equal(st.experts.path, "exact");
}

/* ---- failures ---- */

/* What came of failed reads. */
typedef struct {
    uint32_t n_ended, n_named, n_harmless; /* requests that ended; those whose message names what was read; reads in vain */
} failures;

static void fail_one_read(sl_predict predict, int64_t at, uint64_t want, failures *n)
{
    sl_engine_options o = with_slots(at % 2 ? 7 : experts_of(models[1]) - 3);
    sl_io_faults faults = {0};
    sl_engine *e = NULL;
    sl_session *s = NULL;
    sl_err err = {0};
    uint64_t digest;
    o.predict = predict;
    o.experts.prefetch_always = true;
    ASSERT_OK(sl_engine_open_wrapped(&e, models[1], &o, delay, &faults, &err), err);
    ASSERT_OK(sl_session_open(&s, e, &err), err);
    faults.fail_at = faults.calls + at;
    sl_status rc = feed_all(e, s, N_GEN, &digest, &err);
    if (rc != SL_OK) {
        assert_int_equal(rc, SL_ERR_IO);
        n->n_named += strstr(err.msg, "expert ") && strstr(err.msg, "tensor \"");
        n->n_ended++;
        assert_int_equal(sl_experts_pinned_count(e->experts), 0);
        assert_int_equal(sl_residency_pinned_count(e->res), 0);
        sl_session_reset(s);
        ASSERT_OK(feed_all(e, s, N_GEN, &digest, &err), err);
    } else {
        n->n_harmless += faults.calls >= faults.fail_at; /* only a prediction had asked for it, wrongly */
    }
    assert_int_equal(digest, want);
    sl_session_close(s);
    sl_engine_close(e);
}

static void test_a_failed_read_ends_one_request_and_the_next_is_right(void **state)
{
    (void)state;
    sl_engine_options o = with_slots(0);
    uint64_t want = run(models[1], &o, N_GEN, NULL, NULL, NULL);
    for (size_t p = 0; p < 3; p++) {
        failures n = {0};
        for (int64_t at = 1; at < 60; at++) fail_one_read(predicts[p], at, want, &n);
        assert_true(n.n_ended > 8 && n.n_named == n.n_ended);
        assert_true(predicts[p] == SL_PREDICT_OFF ? n.n_harmless == 0 : n.n_harmless > 0);
        print_message("prediction %zu: %u requests ended, %u failed reads were needed by nobody\n", p, n.n_ended, n.n_harmless);
    }
}

static void cancel_in_hook(void *user, const sl_layer_event *e)
{
    if (e->position == 1) sl_session_cancel(user);
}

static void test_cancel_leaves_the_position(void **state)
{
    (void)state;
    for (size_t m = 0; m < 3; m++) {
        sl_engine_options o = with_slots(5);
        sl_engine *e = NULL;
        sl_session *s = NULL;
        sl_err err = {0};
        uint64_t want, digest;
        int32_t id = 5;
        o.predict = predicts[m];
        ASSERT_OK(sl_engine_open(&e, models[m], &o, &err), err);
        ASSERT_OK(sl_session_open(&s, e, &err), err);
        ASSERT_OK(feed_all(e, s, 3, &want, &err), err);
        uint32_t pos = sl_session_pos_tok(s);
        sl_session_set_layer_hook(s, cancel_in_hook, s);
        assert_int_equal(sl_session_feed(s, &id, 1, &err), SL_ERR_CANCELED);
        assert_int_equal(sl_session_pos_tok(s), pos);
        assert_int_equal(sl_experts_pinned_count(e->experts), 0);
        sl_session_set_layer_hook(s, NULL, NULL);
        sl_session_uncancel(s);
        sl_session_reset(s);
        ASSERT_OK(feed_all(e, s, 3, &digest, &err), err);
        assert_int_equal(digest, want);
        sl_session_close(s);
        sl_engine_close(e);
    }
}

static bool fail_nth(void *user)
{
    int *left = user;
    return --*left == 0;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    uint64_t live = sl_alloc_live_bytes();
    for (int at = 1;; at += 1 + at / 20) {
        sl_engine_options o = with_slots(5);
        sl_engine *e = NULL;
        sl_session *s = NULL;
        sl_err err = {0};
        uint64_t digest;
        int left = at;
        o.cache_dir = "/nonexistent";
        sl_alloc_set_hook(fail_nth, &left);
        sl_status rc = sl_engine_open(&e, models[0], &o, &err);
        if (rc == SL_OK) rc = sl_session_open(&s, e, &err);
        if (rc == SL_OK) rc = feed_all(e, s, 2, &digest, &err);
        sl_session_close(s);
        sl_engine_close(e);
        sl_alloc_set_hook(NULL, NULL);
        assert_int_equal(sl_alloc_live_bytes(), live);
        if (left > 0) {
            assert_int_equal(rc, SL_OK);
            return;
        }
        assert_true(rc == SL_ERR_NOMEM || rc == SL_OK); /* OK: only the record was not kept */
    }
}

/* ---- what a run learns ---- */

static void remove_all(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (f->d_name[0] != '.') unlink(path);
    }
    if (d) closedir(d);
    rmdir(dir);
}

static uint32_t count_files(const char *dir, char *last)
{
    uint32_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));) {
        if (f->d_name[0] == '.') continue;
        n++;
        snprintf(last, 512, "%s/%s", dir, f->d_name);
    }
    if (d) closedir(d);
    return n;
}

static void test_a_run_begins_with_what_the_one_before_used(void **state)
{
    (void)state;
    char dir[64], deep[80], file[512];
    snprintf(dir, sizeof dir, "/tmp/sluice-experts-%d", (int)getpid());
    snprintf(deep, sizeof deep, "%s/sluice", dir);
    sl_engine_options o = with_slots(14);
    uint64_t want = run(models[0], &o, N_GEN, NULL, NULL, NULL);
    sl_stats st;
    o.cache_dir = deep;
    assert_int_equal(run(models[0], &o, N_GEN, NULL, NULL, &st), want);
    assert_int_equal(st.experts.warm_issued, 0);
    assert_int_equal(count_files(deep, file), 1);
    assert_int_equal(run(models[0], &o, N_GEN, NULL, NULL, &st), want);
    assert_true(st.experts.warm_issued > 0);
    run(models[2], &o, 1, NULL, NULL, &st);
    assert_int_equal(st.experts.warm_issued, 0); /* another model has another file */
    assert_int_equal(count_files(deep, file), 2);
    remove_all(deep);
    rmdir(dir);
}

/* Four layers of experts, so that each token's predictions reach two layers on; late reads, so that some are given up under way;
 * a warm start beneath them.  For the thread sanitizer, too: every counter says that it really happened. */
static void test_reading_two_layers_ahead_from_a_warm_start(void **state)
{
    (void)state;
    static const uint32_t slots[] = {9, 14, 20};
    static const char *const model = "tests/fixtures/tiny/gpt-oss/hf";
    char dir[64];
    snprintf(dir, sizeof dir, "/tmp/sluice-ahead-%d", (int)getpid());
    sl_engine_options o = with_slots(0);
    uint64_t want = run(model, &o, 4 * N_GEN, NULL, NULL, NULL);
    for (size_t k = 0; k < 3; k++)
        for (int again = 0; again < 2; again++) {
            sl_io_faults faults = {.delay_max_us = 500, .seed = 7 + k};
            sl_stats st;
            o = with_slots(slots[k]);
            o.predict = SL_PREDICT_LOOKAHEAD;
            o.experts.prefetch_always = true;
            o.n_threads = 3;
            o.io = k == 1 ? SL_IO_PREAD : SL_IO_AUTO;
            o.cache_dir = dir;
            assert_int_equal(run(model, &o, 4 * N_GEN, delay, &faults, &st), want);
            print_message("%u slots: %llu warm, %llu predicted reads, %llu used, %llu wasted\n", slots[k],
                          (unsigned long long)st.experts.warm_issued, (unsigned long long)st.experts.prefetch_issued,
                          (unsigned long long)st.experts.prefetch_used, (unsigned long long)st.experts.prefetch_wasted);
            if (k == 0) /* with more room what was predicted may all be there, or be used */
                assert_true(st.experts.prefetch_issued > 0 && st.experts.prefetch_used > 0 && st.experts.prefetch_wasted > 0);
            assert_true(!again || st.experts.warm_issued > 0);
        }
    remove_all(dir);
}

static void test_damaged_records_start_cold(void **state)
{
    (void)state;
    char dir[64], file[512];
    snprintf(dir, sizeof dir, "/tmp/sluice-damaged-%d", (int)getpid());
    sl_engine_options o = with_slots(14);
    sl_stats st;
    o.cache_dir = dir;
    uint64_t want = run(models[0], &o, N_GEN, NULL, NULL, NULL);
    assert_int_equal(count_files(dir, file), 1);
    for (long at = 0; at < 600; at += 41) {
        FILE *f = fopen(file, "r+b");
        assert_non_null(f);
        fseek(f, at, SEEK_SET);
        int c = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(c ^ 0x55, f);
        fclose(f);
        assert_int_equal(run(models[0], &o, N_GEN, NULL, NULL, &st), want);
        assert_int_equal(st.experts.warm_issued, 0);
        run(models[0], &o, N_GEN, NULL, NULL, &st); /* it has been replaced by a good one */
        assert_true(st.experts.warm_issued > 0);
    }
    assert_int_equal(truncate(file, 100), 0);
    assert_int_equal(run(models[0], &o, N_GEN, NULL, NULL, &st), want);
    assert_int_equal(st.experts.warm_issued, 0);
    remove_all(dir);
    FILE *f = fopen(dir, "w"); /* no directory: nothing can be kept, and nothing else happens */
    fclose(f);
    assert_int_equal(run(models[0], &o, N_GEN, NULL, NULL, &st), want);
    unlink(dir);
}

static void test_a_record_tells_the_hit_rate(void **state)
{
    (void)state;
    sl_experts_plan p = {.n_expert = 1000, .n_slot = 300, .useful_slots = 80};
    sl_experts_record r = {.n_point = 2, .points = {{200, 0.9f}, {600, 0.99f}}};
    double usual = sl_experts_expect(&p, NULL);
    assert_true(sl_experts_expect(&p, &r) > usual && sl_experts_expect(&p, &r) < 0.99);
    p.n_slot = 205;
    assert_true(sl_experts_expect(&p, &r) > 0.899 && sl_experts_expect(&p, &r) < 0.901);
    p.n_slot = 10;
    assert_true(sl_experts_expect(&p, &r) == 0);
    p.resident = true;
    assert_true(sl_experts_expect(&p, &r) == 1);
}

/* ---- options and the hook ---- */

static void test_options_in_a_line(void **state)
{
    (void)state;
    sl_expert_options o;
    sl_err err = {0};
    ASSERT_OK(sl_expert_options_parse("staged,staged_n=3,hot_decay=0.5,prefetch_always=true", &o, &err), err);
    assert_true(o.path == SL_EXPERTS_STAGED && o.staged_n == 3 && o.hot_decay == 0.5f && o.prefetch_always);
    ASSERT_OK(sl_expert_options_parse("prod_k8", &o, &err), err);
    assert_true(o.path == SL_EXPERTS_STAGED && o.staged_n == 8 && o.full_layer_prefill && o.predict == SL_PREDICT_OFF);
    ASSERT_OK(sl_expert_options_parse("cache_slots=64", &o, &err), err);
    assert_true(o.path == SL_EXPERTS_AUTO && o.cache_slots == 64);
    static const char *const bad[] = {"", "exact,", "exakt", "exact,hot", "hot,hot_decay=2", "cache_slots=-1", "cache_slots=4294967296",
                                      "cache_slots=", "top_k=4", "prefetch_always=maybe", "exact,,cache_slots=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err = (sl_err){0};
        assert_int_equal(sl_expert_options_parse(bad[i], &o, &err), SL_ERR_ARG);
        assert_true(strncmp(err.msg, "experts: ", 9) == 0);
    }
}

static void note(void *user, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    uint32_t *seen = user;
    seen[0]++;
    seen[1] = layer > seen[1] ? layer : seen[1];
    for (uint32_t i = 1; i < n; i++) assert_true(ids[i] > ids[i - 1]);
}

static void test_the_hook_sees_every_layer_of_every_sweep(void **state)
{
    (void)state;
    sl_engine_options o = with_slots(9);
    sl_engine *e = NULL;
    sl_session *s = NULL;
    sl_err err = {0};
    uint64_t digest;
    uint32_t seen[2] = {0};
    o.prefill_chunk_tok = 7;
    ASSERT_OK(sl_engine_open(&e, models[4], &o, &err), err);
    ASSERT_OK(sl_session_open(&s, e, &err), err);
    sl_engine_set_expert_hook(e, note, seen);
    ASSERT_OK(feed_all(e, s, N_GEN, &digest, &err), err);
    sl_model_info info;
    sl_engine_info(e, &info);
    assert_int_equal(seen[0], info.n_layer * ((N_PROMPT + 6) / 7 + N_GEN));
    assert_int_equal(seen[1], info.n_layer - 1);
    assert_true(info.n_expert > info.n_expert_used && info.n_expert_used > 0);
    sl_session_close(s);
    sl_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_of_slots_gives_the_same_bits),
        cmocka_unit_test(test_paths_predictions_and_readers_give_the_same_bits),
        cmocka_unit_test(test_delayed_reads_change_nothing),
        cmocka_unit_test(test_a_plan_splits_and_the_smallest_budget_works),
        cmocka_unit_test(test_too_few_slots_are_warned_of_with_what_would_do),
        cmocka_unit_test(test_a_failed_read_ends_one_request_and_the_next_is_right),
        cmocka_unit_test(test_cancel_leaves_the_position),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_a_run_begins_with_what_the_one_before_used),
        cmocka_unit_test(test_reading_two_layers_ahead_from_a_warm_start),
        cmocka_unit_test(test_damaged_records_start_cold),
        cmocka_unit_test(test_a_record_tells_the_hit_rate),
        cmocka_unit_test(test_options_in_a_line),
        cmocka_unit_test(test_the_hook_sees_every_layer_of_every_sweep),
    };
    return cmocka_run_group_tests_name("engine, experts", tests, NULL, NULL);
}
