/* The cache of routed experts: plans, LRU against a naive model, waves, paths, predictions, readers.  Faults are in
 * test_experts_faults.c. */
#include "experts_world.h"

static xworld w;
static late_io late;

/* ---- plans ---- */

static void test_a_plan_uses_what_it_is_given(void **state)
{
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++) {
        if (mixed)
            xw_mixed(&w);
        else
            xw_even(&w, 4, 16);
        for (size_t a = 0; a < 3; a++) {
            sl_experts_options opt = xw_options(&w, aligns[a]);
            sl_experts_plan p, before = {0};
            ok(sl_experts_plan_for(&opt, 0, &p, &last_err));
            assert_false(p.fits);
            assert_true(mixed ? p.n_class > 1 && p.n_class < 5 : p.n_class == 1);
            assert_int_equal(p.n_expert, mixed ? 16 + 12 + 16 + 24 + 24 : 64);
            assert_int_equal(p.useful_slots, XW_TOP * (mixed ? 5 : 4));
            uint64_t full = p.full_bytes, step = full / 97;
            for (uint64_t avail = p.minimum_bytes; avail <= full; avail += step) {
                ok(sl_experts_plan_for(&opt, avail, &p, &last_err));
                assert_true(p.fits && p.total_bytes <= avail && p.n_slot >= before.n_slot);
                assert_true(avail - p.total_bytes < (p.n_class + 1) * p.slot_bytes + PAGE); /* nothing is left lying */
                assert_int_equal(p.resident, avail == full);
                before = p;
            }
            ok(sl_experts_plan_for(&opt, full, &p, &last_err));
            assert_true(p.resident && p.n_slot == p.n_expert);
            ok(sl_experts_plan_for(&opt, full * 2, &p, &last_err));
            assert_int_equal(p.total_bytes, full);
        }
    }
}

static void test_the_expected_hit_rate_grows_with_the_part_that_fits(void **state)
{
    (void)state;
    sl_experts_plan p = {.n_expert = 3072, .useful_slots = 192};
    double last = 0;
    for (p.n_slot = 1; p.n_slot < 3072; p.n_slot++) {
        double h = sl_experts_hit_rate(&p);
        assert_true(p.n_slot < 192 ? h == 0 : h >= last && h > 0 && h < 1);
        last = h;
    }
    p.n_slot = 768; /* a quarter: published traces lie between 0.67 and 0.80 */
    assert_true(sl_experts_hit_rate(&p) > 0.67 && sl_experts_hit_rate(&p) < 0.80);
    p.resident = true;
    assert_true(sl_experts_hit_rate(&p) == 1);
}

static void test_what_does_not_fit_is_refused_with_the_sum(void **state)
{
    (void)state;
    xw_even(&w, 4, 16);
    sl_experts_options opt = xw_options(&w, PAGE);
    sl_experts_plan p;
    sl_experts *x = NULL;
    late_open(&late, &w.w, PAGE);
    ok(sl_experts_plan_for(&opt, 0, &p, &last_err));
    assert_int_equal(sl_experts_open(&x, &opt, p.minimum_bytes - 1, &late.io, NULL, &last_err), SL_ERR_BUDGET);
    assert_non_null(strstr(last_err.msg, "one at a time"));
    opt.align = 512;
    misuse(sl_experts_open(&x, &opt, p.full_bytes, &late.io, NULL, &last_err), "alignment");
    opt.align = PAGE;
    opt.views = true;
    misuse(sl_experts_open(&x, &opt, p.full_bytes, &late.io, NULL, &last_err), "views");
    assert_null(x);
}

/* ---- against a naive model ---- */

typedef struct {
    uint32_t keys[XW_LAYERS * XW_EXPERTS]; /* newest first */
    uint32_t n, cap;
    uint64_t hits, misses, evictions;
} naive;

static bool naive_touch(naive *m, uint32_t key)
{
    uint32_t i = 0;
    while (i < m->n && m->keys[i] != key) i++;
    bool found = i < m->n;
    if (!found) m->n++;
    memmove(m->keys + 1, m->keys, i * sizeof *m->keys);
    m->keys[0] = key;
    return found;
}

/* Hits first, then misses; with room for all of a layer no eviction ever meets one of them. */
static void naive_demand(naive *m, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    bool there[XW_EXPERTS] = {0};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < m->n; k++)
            if (m->keys[k] == layer * XW_EXPERTS + ids[i]) there[i] = true;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++) {
            if (there[i] == (pass == 1)) continue;
            if (there[i])
                m->hits++;
            else
                m->misses++;
            naive_touch(m, layer * XW_EXPERTS + ids[i]);
            if (m->n > m->cap) {
                m->n--;
                m->evictions++;
            }
        }
}

static void test_lru_is_that_of_a_naive_model(void **state)
{
    (void)state;
    static naive m;
    xw_even(&w, 6, XW_EXPERTS);
    for (uint32_t n_slot = XW_TOP; n_slot < 6 * XW_EXPERTS; n_slot += n_slot < 30 ? 1 : 13) {
        sl_experts_options opt = xw_options(&w, PAGE);
        opt.how.cache_slots = n_slot;
        late_open(&late, &w.w, PAGE);
        sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
        m = (naive){.cap = n_slot};
        world_rng r = {n_slot};
        for (int t = 0; t < 40; t++)
            for (uint32_t l = 0; l < 6; l++) {
                uint32_t ids[XW_EXPERTS], n = 1 + (uint32_t)world_below(&r, XW_TOP);
                xw_ids(&r, XW_EXPERTS, ids, n);
                ok(xw_run(&w, x, l, ids, n, 3, &last_err));
                naive_demand(&m, l, ids, n);
            }
        sl_experts_stats st;
        sl_experts_get_stats(x, &st);
        assert_int_equal(st.hits, m.hits);
        assert_int_equal(st.misses, m.misses);
        assert_int_equal(st.evictions, m.evictions);
        assert_int_equal(late.n_read, 3 * m.misses);
        sl_experts_close(x);
        assert_int_equal(late.n_wrong, 0);
        assert_int_equal(late.n_flight, 0);
    }
}

/* ---- waves ---- */

static void test_few_slots_make_waves_and_read_each_expert_once(void **state)
{
    (void)state;
    xw_even(&w, 3, XW_EXPERTS);
    uint32_t all[XW_EXPERTS];
    for (uint32_t i = 0; i < XW_EXPERTS; i++) all[i] = i;
    for (uint32_t n_slot = 1; n_slot <= XW_EXPERTS; n_slot++)
        for (uint32_t max = 1; max <= XW_EXPERTS; max += 5) {
            sl_experts_options opt = xw_options(&w, PAGE);
            opt.how.cache_slots = n_slot;
            late_open(&late, &w.w, PAGE);
            sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
            for (uint32_t l = 0; l < 3; l++) {
                uint64_t before = late.n_read;
                ok(xw_run(&w, x, l, all, XW_EXPERTS, max, &last_err));
                assert_int_equal(late.n_read - before, 3 * XW_EXPERTS);
            }
            uint64_t before = late.n_read;
            ok(xw_run(&w, x, 2, all, XW_EXPERTS, max, &last_err)); /* what the last wave left is used first */
            assert_int_equal(late.n_read - before, 3 * (XW_EXPERTS - n_slot));
            sl_experts_close(x);
            assert_int_equal(late.n_wrong, 0);
        }
}

static void test_all_misses_of_a_layer_are_under_way_at_once(void **state)
{
    (void)state;
    xw_even(&w, 2, 16);
    sl_experts_options opt = xw_options(&w, PAGE);
    opt.how.cache_slots = 20;
    late_open(&late, &w.w, PAGE);
    late.never_polls = true;
    sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
    const uint32_t ids[] = {1, 3, 5, 9};
    sl_expert_source *s = sl_experts_source(x);
    ok(s->ops->begin(s, 0, ids, 4, &last_err));
    assert_int_equal(late.n_flight, 12);
    assert_int_equal(late.n_submit, 1);
    for (uint32_t i = 1; i < 12; i++) /* an expert's gate and up before its down, experts in order */
        assert_true(late.flight[i]->offset_bytes > late.flight[i - 1]->offset_bytes || i % 3 == 0);
    sl_expert e;
    uint32_t n;
    ok(s->ops->next(s, &e, 1, &n, &last_err));
    assert_int_equal(n, 1);
    assert_int_equal(late.n_flight, 10); /* down is not waited for yet */
    s->ops->end(s);
    ok(xw_run(&w, x, 0, ids, 4, 4, &last_err)); /* and what is under way is not read again */
    assert_int_equal(late.n_read, 12);
    sl_experts_close(x);
}

static void test_small_neighbours_are_read_together(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    world_begin(&w.w, 1);
    w.n_layer = 1;
    w.layers[0] = (sl_expert_layer){.form = SL_EXPERT_SEPARATE, .n_expert = 4, .n_piece = 3};
    for (uint32_t e = 0; e < 4; e++)
        for (uint32_t k = 0; k < 3; k++) w.each[0][k][e] = world_tensor(&w.w, 0, 5, SL_Q8_0, 256, 256);
    for (uint32_t k = 0; k < 3; k++) w.layers[0].piece[k] = (sl_expert_piece){.each = w.each[0][k], .n_in = 256, .n_row = 256};
    sl_experts_options opt = xw_options(&w, PAGE);
    opt.how.cache_slots = 2;
    late_open(&late, &w.w, PAGE);
    sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
    const uint32_t ids[] = {0, 3};
    ok(xw_run(&w, x, 0, ids, 2, 2, &last_err));
    assert_int_equal(late.n_read, 2);
    sl_experts_close(x);
}

/* ---- every path, prediction and reader gives the right bytes ---- */

static const sl_experts_path paths[] = {SL_EXPERTS_EXACT, SL_EXPERTS_STAGED, SL_EXPERTS_HOT, SL_EXPERTS_LAYER};
static const sl_predict predicts[] = {SL_PREDICT_OFF, SL_PREDICT_HISTORY, SL_PREDICT_LOOKAHEAD};

static void check_stats(const sl_experts *x)
{
    sl_experts_stats st;
    sl_experts_get_stats(x, &st);
    assert_true(st.hits + st.misses > 0);
    assert_int_equal(st.failed, 0);
    assert_true(st.prefetch_used + st.prefetch_wasted <= st.prefetch_issued);
    assert_true(st.predicted_right <= st.predicted && st.predicted_right <= st.routed);
    assert_true(st.wasted_bytes <= st.prefetch_bytes && st.hidden_s >= 0 && st.wait_s >= 0);
}

static void test_every_path_and_prediction_gives_the_right_bytes(void **state)
{
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++) {
        if (mixed)
            xw_mixed(&w);
        else
            xw_even(&w, 5, 16);
        for (uint32_t n_slot = 1; n_slot < 92; n_slot += n_slot < 9 ? 1 : 17)
            for (size_t p = 0; p < 4; p++)
                for (size_t q = 0; q < 3; q++) {
                    sl_experts_options opt = xw_options(&w, aligns[(p + q) % 3]);
                    opt.how.path = paths[p];
                    opt.how.predict = predicts[q];
                    opt.how.prefetch_always = n_slot % 2;
                    opt.how.hot_update_interval = 2;
                    opt.how.cache_slots = n_slot;
                    late_open(&late, &w.w, opt.align);
                    late.never_polls = n_slot % 3 == 0;
                    sl_ledger ledger;
                    sl_ledger_init(&ledger, 0);
                    sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, &ledger);
                    ok(xw_decode(&w, x, 16, n_slot, &last_err));
                    check_stats(x);
                    sl_experts_close(x);
                    assert_int_equal(late.n_wrong, 0);
                    assert_int_equal(late.n_flight, 0);
                    assert_int_equal(ledger.total, 0);
                }
    }
}

static void test_every_reader_gives_the_right_bytes(void **state)
{
    (void)state;
    static files f;
    xw_mixed(&w);
    files_write(&f, &w.w);
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++)
        for (uint32_t n_slot = 3; n_slot < 100; n_slot += 24) {
            sl_io *io = NULL;
            sl_io_faults faults = {.delay_max_us = 300, .seed = n_slot};
            sl_status rc = reader_open(&io, &readers[i], &f, &w.w, &faults);
            if (rc == SL_ERR_UNSUPPORTED) continue;
            ok(rc);
            for (size_t q = 0; q < 3; q++) {
                sl_experts_options opt = xw_options(&w, io->align);
                opt.views = readers[i].views;
                opt.how.predict = predicts[q];
                opt.how.path = paths[(n_slot + i) % 4];
                opt.how.cache_slots = n_slot;
                sl_experts *x = xw_open(&opt, UINT64_MAX / 4, io, NULL);
                float counts[XW_LAYERS * XW_EXPERTS];
                for (size_t k = 0; k < XW_LAYERS * XW_EXPERTS; k++) counts[k] = (float)(k % 5);
                sl_experts_warm(x, counts);
                ok(xw_decode(&w, x, 12, n_slot + q, &last_err));
                check_stats(x);
                sl_experts_close(x);
            }
            sl_io_close(io);
        }
    files_remove(&f);
}

/* ---- resident ---- */

static void test_with_room_for_all_nothing_is_read_after_load(void **state)
{
    (void)state;
    xw_mixed(&w);
    sl_experts_options opt = xw_options(&w, PAGE);
    opt.how.predict = SL_PREDICT_HISTORY;
    sl_experts_plan p;
    ok(sl_experts_plan_for(&opt, UINT64_MAX / 4, &p, &last_err));
    late_open(&late, &w.w, PAGE);
    sl_experts *x = xw_open(&opt, p.full_bytes, &late.io, NULL);
    uint64_t n_read = late.n_read;
    assert_true(n_read >= 92 && late.max_flight > 3);
    ok(xw_decode(&w, x, 20, 5, &last_err));
    assert_int_equal(late.n_read, n_read);
    sl_experts_stats st;
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.misses, 0);
    sl_experts_close(x);
}

/* ---- predictions ---- */

static sl_experts *open_for_prediction(uint32_t n_slot, sl_predict predict, bool always)
{
    xw_even(&w, 4, 16);
    sl_experts_options opt = xw_options(&w, PAGE);
    opt.how.cache_slots = n_slot;
    opt.how.predict = predict;
    opt.how.prefetch_always = always;
    late_open(&late, &w.w, PAGE);
    late.never_polls = true;
    return xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
}

static void test_what_was_predicted_right_is_a_hit_and_the_rest_is_counted(void **state)
{
    (void)state;
    sl_experts *x = open_for_prediction(24, SL_PREDICT_LOOKAHEAD, true);
    const uint32_t a[] = {0, 1, 2, 3}, guess[] = {7, 2, 9, 4}, b[] = {1, 2, 4, 8};
    sl_experts_stats st;
    sl_experts_sweep(x, 1);
    ok(xw_run(&w, x, 0, a, 4, 4, &last_err));
    sl_experts_prefetch(x, 1, guess, 4);
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.prefetch_issued, 4);
    ok(xw_run(&w, x, 1, b, 4, 4, &last_err));
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.prefetch_used, 2);
    assert_int_equal(st.prefetch_wasted, 2);
    assert_int_equal(st.predicted, 4);
    assert_int_equal(st.predicted_right, 2);
    assert_int_equal(st.hits, 0); /* predicted or not, all eight had to be read */
    assert_int_equal(st.misses, 8);
    assert_int_equal(late.n_read, 3 * (4 + 4 + 2));
    assert_true(st.wasted_bytes < st.prefetch_bytes); /* given up before they were read, or not */
    ok(xw_run(&w, x, 1, guess + 3, 1, 1, &last_err)); /* 4: there */
    const uint32_t wrong_ones[] = {7, 9};
    ok(xw_run(&w, x, 1, wrong_ones, 2, 2, &last_err)); /* given up or read, they are right */
    sl_experts_close(x);
    assert_int_equal(late.n_wrong, 0);
}

static void test_reading_ahead_takes_nothing_that_is_needed_and_keeps_to_the_cap(void **state)
{
    (void)state;
    const uint32_t a[] = {0, 1, 2, 3}, guess[] = {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    sl_experts *x = open_for_prediction(30, SL_PREDICT_LOOKAHEAD, true);
    sl_experts_stats st;
    sl_experts_sweep(x, 1);
    sl_expert_source *s = sl_experts_source(x);
    ok(s->ops->begin(s, 0, a, 4, &last_err));
    sl_experts_prefetch(x, 1, guess, 12);
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.prefetch_issued, 4 * XW_TOP - 4); /* of a guess of twelve; the cap is sixteen */
    for (uint32_t i = 0; i < late.n_flight; i++) assert_int_equal(late.flight[i]->background, i >= 12);
    s->ops->end(s);
    ok(xw_run(&w, x, 0, a, 4, 4, &last_err)); /* all still there */
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.misses, 4);
    sl_experts_close(x);

    x = open_for_prediction(8, SL_PREDICT_LOOKAHEAD, true); /* one layer's set and as many: no room to read ahead */
    sl_experts_sweep(x, 1);
    s = sl_experts_source(x);
    ok(s->ops->begin(s, 0, a, 4, &last_err));
    sl_experts_prefetch(x, 1, guess, 4);
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.prefetch_issued, 0);
    s->ops->end(s);
    sl_experts_close(x);
}

static void test_a_chunk_reads_ahead_as_far_as_slots_reach(void **state)
{
    (void)state;
    const uint32_t a[] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t all[16];
    sl_experts *x = open_for_prediction(30, SL_PREDICT_LOOKAHEAD, false);
    sl_expert_source *s = sl_experts_source(x);
    sl_experts_stats st;
    for (uint32_t i = 0; i < 16; i++) all[i] = i;
    late.io.depth = 32;
    sl_experts_sweep(x, 8);
    assert_int_equal(late.io.background, 32); /* its steps are long: the whole queue may be read ahead */
    ok(xw_run(&w, x, 0, a, 8, 4, &last_err));
    sl_experts_prefetch(x, 1, all, 16);
    ok(s->ops->begin(s, 1, all, 16, &last_err));
    sl_experts_prefetch(x, 2, all, 16);
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.prefetch_issued, 16 + 30 - 16 - XW_TOP); /* more than a token's cap; some slots stay free for demand */
    assert_int_equal(st.prefetch_used, 16);
    s->ops->end(s);
    ok(xw_run(&w, x, 2, all, 16, 4, &last_err));
    sl_experts_prefetch(x, 3, all, 8);
    sl_experts_sweep(x, 1); /* layer 3 did not run: its experts hold no slots */
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.prefetch_wasted, 8);
    assert_int_equal(late.io.background, SL_IO_BACKGROUND);
    sl_experts_close(x);
    assert_int_equal(late.n_wrong, 0);
}

static void test_a_layer_that_is_never_guessed_right_is_left_alone(void **state)
{
    (void)state;
    const uint32_t a[] = {0, 1, 2, 3};
    sl_experts *x = open_for_prediction(24, SL_PREDICT_LOOKAHEAD, false);
    uint64_t issued = 0;
    sl_experts_stats st;
    world_rng r = {3};
    for (int t = 0; t < 60; t++) {
        sl_experts_sweep(x, 1);
        ok(xw_run(&w, x, 0, a, 4, 4, &last_err));
        uint32_t guess[4];
        for (int i = 0; i < 4; i++) guess[i] = 4 + 3 * i + (uint32_t)world_below(&r, 3);
        sl_experts_prefetch(x, 1, guess, 4);
        ok(xw_run(&w, x, 1, a, 4, 4, &last_err));
        sl_experts_get_stats(x, &st);
        if (t == 29) issued = st.prefetch_issued;
    }
    assert_true(issued > 0);
    assert_int_equal(st.prefetch_issued, issued);
    assert_false(sl_experts_wants(x, 1));
    assert_true(sl_experts_wants(x, 2));
    for (int t = 0; t < 70; t++) sl_experts_sweep(x, 1);
    assert_true(sl_experts_wants(x, 1)); /* tried again */
    sl_experts_sweep(x, 8);
    assert_true(sl_experts_wants(x, 2)); /* a chunk is predicted too */
    sl_experts_close(x);
}

static void test_history_reads_what_the_layer_used_before(void **state)
{
    (void)state;
    /* more slots than one layer needs, fewer than a token: an LRU alone would never hit */
    sl_experts *x = open_for_prediction(14, SL_PREDICT_HISTORY, true);
    const uint32_t ids[4][4] = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}};
    sl_experts_stats st;
    for (int t = 0; t < 5; t++) {
        sl_experts_sweep(x, 1);
        for (uint32_t l = 0; l < 4; l++) ok(xw_run(&w, x, l, ids[l], 4, 4, &last_err));
    }
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.misses - st.prefetch_used, 16); /* after the first token nothing is waited for that was not predicted */
    assert_int_equal(st.misses + st.hits, 5 * 16);
    assert_true(st.prefetch_used >= 4 * 8);
    assert_int_equal(st.predicted_right, st.predicted);
    sl_experts_close(x);
    assert_int_equal(late.n_wrong, 0);
}

/* ---- hot, staged, whole layers ---- */

static uint64_t misses_of(const sl_experts *x)
{
    sl_experts_stats st;
    sl_experts_get_stats(x, &st);
    return st.misses;
}

static void test_hot_experts_survive_a_cycle_that_defeats_lru(void **state)
{
    (void)state;
    uint64_t misses[2];
    for (int hot = 0; hot < 2; hot++) {
        xw_even(&w, 4, 16);
        sl_experts_options opt = xw_options(&w, PAGE);
        opt.how.cache_slots = 12;
        opt.how.path = hot ? SL_EXPERTS_HOT : SL_EXPERTS_EXACT;
        opt.how.hot_per_layer = 1;
        opt.how.hot_update_interval = 1;
        late_open(&late, &w.w, PAGE);
        sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
        for (uint32_t t = 0; t < 40; t++) {
            sl_experts_sweep(x, 1);
            for (uint32_t l = 0; l < 4; l++) {
                const uint32_t ids[] = {2, 5 + (t + l) % 3, 8 + (t * 3 + l) % 4, 12 + (t * 2 + l) % 4};
                ok(xw_run(&w, x, l, ids, 4, 4, &last_err));
            }
        }
        misses[hot] = misses_of(x);
        sl_experts_close(x);
    }
    assert_int_equal(misses[0], 640); /* 16 in a token, 12 slots */
    assert_true(misses[1] <= 640 - 4 * 36);
}

static void test_staged_layers_keep_their_slots(void **state)
{
    (void)state;
    xw_even(&w, 4, 16);
    sl_experts_options opt = xw_options(&w, PAGE);
    opt.how.cache_slots = 16;
    opt.how.path = SL_EXPERTS_STAGED;
    opt.how.staged_n = 2;
    late_open(&late, &w.w, PAGE);
    sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
    const uint32_t mine[] = {1, 2, 3, 4};
    uint32_t all[16];
    for (uint32_t i = 0; i < 16; i++) all[i] = i;
    for (uint32_t l = 0; l < 4; l++) ok(xw_run(&w, x, l, mine, 4, 4, &last_err));
    uint64_t before = misses_of(x);
    for (int t = 0; t < 3; t++) /* layer 0 churns through its own four */
        for (uint32_t i = 5; i < 16; i++) ok(xw_run(&w, x, 0, &all[i], 1, 1, &last_err));
    assert_int_equal(misses_of(x) - before, 33);
    before = misses_of(x);
    for (uint32_t l = 1; l < 4; l++) ok(xw_run(&w, x, l, mine, 4, 4, &last_err));
    assert_int_equal(misses_of(x), before);
    sl_experts_close(x);
}

static void test_a_whole_layer_is_read_once_somebody_asks(void **state)
{
    (void)state;
    xw_even(&w, 4, 16);
    sl_experts_options opt = xw_options(&w, PAGE);
    opt.how.cache_slots = 20;
    opt.how.path = SL_EXPERTS_LAYER;
    late_open(&late, &w.w, PAGE);
    sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
    const uint32_t some[] = {3, 9};
    uint32_t all[16];
    for (uint32_t i = 0; i < 16; i++) all[i] = i;
    ok(xw_run(&w, x, 1, some, 2, 2, &last_err));
    assert_int_equal(late.n_read, 48);
    ok(xw_run(&w, x, 1, all, 16, 16, &last_err));
    assert_int_equal(misses_of(x), 2);
    assert_int_equal(late.n_read, 48);
    sl_experts_close(x);
}

/* ---- warm start ---- */

static void test_a_warm_start_fills_empty_slots_with_the_most_used(void **state)
{
    (void)state;
    xw_even(&w, 4, 16);
    sl_experts_options opt = xw_options(&w, PAGE);
    opt.how.cache_slots = 10;
    late_open(&late, &w.w, PAGE);
    sl_experts *x = xw_open(&opt, UINT64_MAX / 4, &late.io, NULL);
    assert_int_equal(sl_experts_width(x), 16);
    float counts[64];
    for (uint32_t k = 0; k < 64; k++) counts[k] = k % 16 < 3 ? 10.0f - (float)(k % 16) : k % 16 < 5 ? 0.5f : 0;
    const uint32_t first[] = {9};
    sl_expert_source *s = sl_experts_source(x);
    ok(s->ops->begin(s, 0, first, 1, &last_err));
    sl_experts_warm(x, counts);
    sl_experts_drive(x);
    sl_experts_stats st;
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.warm_issued, 0); /* a demand is under way */
    s->ops->end(s);
    ok(xw_run(&w, x, 0, first, 1, 1, &last_err));
    for (int i = 0; i < 200; i++) {
        sl_experts_drive(x);
        assert_true(late.n_flight <= 2 * 3);
    }
    sl_experts_get_stats(x, &st);
    assert_int_equal(st.warm_issued, 9);
    assert_int_equal(st.evictions, 0);
    uint64_t before = st.misses; /* 4 of count 10, 4 of 9, 1 of 8: layer 0's */
    for (uint32_t l = 0; l < 4; l++)
        for (uint32_t e = 0; e < (l ? 2 : 3); e++) ok(xw_run(&w, x, l, &e, 1, 1, &last_err));
    assert_int_equal(misses_of(x), before);
    assert_true(sl_experts_counts(x)[0] > 10);
    sl_experts_close(x);
    assert_int_equal(late.n_wrong, 0);
}

/* ---- misuse, hook ---- */

static void test_misuse_is_refused(void **state)
{
    (void)state;
    sl_experts *x = open_for_prediction(8, SL_PREDICT_OFF, false);
    sl_expert_source *s = sl_experts_source(x);
    const uint32_t ids[] = {0, 1, 1, 16};
    misuse(s->ops->begin(s, 4, ids, 2, &last_err), "layer 4");
    misuse(s->ops->begin(s, 0, ids, 3, &last_err), "out of order");
    misuse(s->ops->begin(s, 0, ids + 3, 1, &last_err), "expert 16");
    ok(s->ops->begin(s, 0, ids, 2, &last_err));
    misuse(s->ops->begin(s, 1, ids, 2, &last_err), "held");
    s->ops->end(s);
    s->ops->end(s);
    sl_experts_prefetch(x, 99, ids, 1);
    assert_false(sl_experts_wants(x, 99));
    sl_experts_close(x);
    sl_experts_close(NULL);
}

static void note_demand(void *user, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    char *text = user;
    sprintf(text + strlen(text), "%u:", layer);
    for (uint32_t i = 0; i < n; i++) sprintf(text + strlen(text), " %u", ids[i]);
}

static void test_the_hook_sees_what_was_routed(void **state)
{
    (void)state;
    char text[64] = "";
    sl_experts *x = open_for_prediction(8, SL_PREDICT_OFF, false);
    const uint32_t ids[] = {3, 5, 15};
    sl_experts_set_hook(x, note_demand, text);
    ok(xw_run(&w, x, 2, ids, 3, 3, &last_err));
    assert_string_equal(text, "2: 3 5 15");
    sl_experts_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_uses_what_it_is_given),
        cmocka_unit_test(test_the_expected_hit_rate_grows_with_the_part_that_fits),
        cmocka_unit_test(test_what_does_not_fit_is_refused_with_the_sum),
        cmocka_unit_test(test_lru_is_that_of_a_naive_model),
        cmocka_unit_test(test_few_slots_make_waves_and_read_each_expert_once),
        cmocka_unit_test(test_all_misses_of_a_layer_are_under_way_at_once),
        cmocka_unit_test(test_small_neighbours_are_read_together),
        cmocka_unit_test(test_every_path_and_prediction_gives_the_right_bytes),
        cmocka_unit_test(test_every_reader_gives_the_right_bytes),
        cmocka_unit_test(test_with_room_for_all_nothing_is_read_after_load),
        cmocka_unit_test(test_what_was_predicted_right_is_a_hit_and_the_rest_is_counted),
        cmocka_unit_test(test_reading_ahead_takes_nothing_that_is_needed_and_keeps_to_the_cap),
        cmocka_unit_test(test_a_chunk_reads_ahead_as_far_as_slots_reach),
        cmocka_unit_test(test_a_layer_that_is_never_guessed_right_is_left_alone),
        cmocka_unit_test(test_history_reads_what_the_layer_used_before),
        cmocka_unit_test(test_hot_experts_survive_a_cycle_that_defeats_lru),
        cmocka_unit_test(test_staged_layers_keep_their_slots),
        cmocka_unit_test(test_a_whole_layer_is_read_once_somebody_asks),
        cmocka_unit_test(test_a_warm_start_fills_empty_slots_with_the_most_used),
        cmocka_unit_test(test_misuse_is_refused),
        cmocka_unit_test(test_the_hook_sees_what_was_routed),
    };
    return cmocka_run_group_tests_name("experts", tests, NULL, NULL);
}
