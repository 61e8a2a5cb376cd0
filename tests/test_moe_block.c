/* The mixture-of-experts block over a source that is as awkward as its contract allows: experts in a random order, a few at a
 * time, down only when it is asked for.  The bits must be those of experts that came with their layer; a failure ends the
 * request and nothing else. */
#include "support.h"

#include "engine/engine_int.h"

static const char *const models[] = {"tests/fixtures/tiny/qwen3moe/hf", "tests/fixtures/tiny/qwen3moe/qwen3moe-fused.gguf",
                                     "tests/fixtures/tiny/qwen2moe/qwen2moe-f32.gguf", "tests/fixtures/tiny/mixtral/mixtral-each.gguf"};
enum { N_PROMPT = 29, N_GEN = 4, MAX_ID = 64 };

typedef struct {
    sl_expert_source base;
    const sl_model *m;
    const sl_store *store;
    uint32_t most;       /* experts that next hands out, and how many slots there are */
    uint64_t rng;
    uint32_t fail_after; /* calls until one fails; 0: never */
    uint32_t layer, ids[MAX_ID], n, next;
    int n_held, n_open, n_call;
    uint8_t *slots[MAX_ID]; /* memory of what is held, NULL: free */
} awkward;

static uint32_t draw(awkward *a, uint32_t n)
{
    a->rng = a->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(a->rng >> 33) % n;
}

static sl_status maybe_fail(awkward *a, sl_err *err)
{
    a->n_call++;
    if (!a->fail_after || --a->fail_after) return SL_OK;
    return sl_fail(err, SL_ERR_IO, "the drive has had enough");
}

static sl_status begin(sl_expert_source *s, uint32_t layer, const uint32_t *ids, uint32_t n, sl_err *err)
{
    awkward *a = (awkward *)s;
    assert_int_equal(a->n_open++, 0);
    assert_true(n >= 1 && n <= MAX_ID && n <= a->m->experts[layer].n_expert);
    a->layer = layer;
    a->n = n;
    a->next = 0;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(ids[i] < a->m->experts[layer].n_expert && (!i || ids[i] > ids[i - 1]));
        a->ids[i] = ids[i];
    }
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = draw(a, i), id = a->ids[k];
        a->ids[k] = a->ids[i - 1];
        a->ids[i - 1] = id;
    }
    return maybe_fail(a, err);
}

/* Rows of a file as a matrix in memory of their own. */
static sl_matrix read_rows(awkward *a, const sl_unit_rows *r, uint8_t *to)
{
    sl_matrix m = {.type = r->tensor->type, .n_in = r->n_in, .n_out = r->n_row, .n_part = 1};
    assert_true(sl_type_row_bytes(m.type, m.n_in, &m.row_bytes));
    FILE *f = fopen(sl_store_file_path(a->store, r->tensor->file), "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(r->tensor->offset_bytes + r->first_row * m.row_bytes), SEEK_SET), 0);
    assert_int_equal(fread(to, m.row_bytes, r->n_row, f), r->n_row);
    fclose(f);
    m.part[0].data = to;
    m.part[0].n_row = r->n_row;
    return m;
}

static sl_status next(sl_expert_source *s, sl_expert *out, uint32_t max, uint32_t *n, sl_err *err)
{
    awkward *a = (awkward *)s;
    const sl_expert_layer *l = &a->m->experts[a->layer];
    assert_int_equal(a->n_held, 0); /* whatever was handed out has come back: a source of few slots may rely on it */
    uint32_t most = 1 + draw(a, a->most);
    for (*n = 0; *n < max && *n < most && a->next < a->n; (*n)++) {
        sl_matrix pieces[SL_EXPERT_MAX_PIECE];
        uint8_t *mem = malloc(1 << 20);
        out[*n] = (sl_expert){.id = a->ids[a->next++], .slot = mem};
        for (uint32_t k = 0, at = 0; k < l->n_piece; at += (uint32_t)pieces[k].row_bytes * pieces[k].n_out, k++) {
            sl_unit_rows r = sl_expert_rows(l, out[*n].id, k);
            pieces[k] = read_rows(a, &r, mem + at);
        }
        sl_expert_views(l, pieces, &out[*n]);
        memcpy(mem + (1 << 19), &out[*n].down, sizeof out[*n].down);
        memset(&out[*n].down, 0, sizeof out[*n].down); /* not before down() */
        a->n_held++;
    }
    sl_status rc = maybe_fail(a, err);
    for (uint32_t i = 0; rc != SL_OK && i < *n; i++) free(out[i].slot), a->n_held--;
    return rc;
}

static sl_status down(sl_expert_source *s, sl_expert *e, sl_err *err)
{
    memcpy(&e->down, (uint8_t *)e->slot + (1 << 19), sizeof e->down);
    return maybe_fail((awkward *)s, err);
}

static void done(sl_expert_source *s, sl_expert *e)
{
    ((awkward *)s)->n_held--;
    memset(e->slot, 0xff, 1 << 19); /* NaN to whoever still reads it */
    free(e->slot);
}

static void end(sl_expert_source *s)
{
    awkward *a = (awkward *)s;
    assert_int_equal(a->n_held, 0);
    assert_int_equal(--a->n_open, 0);
}

static const sl_expert_source_ops ops = {.begin = begin, .next = next, .down = down, .done = done, .end = end};

/* ---- runs ---- */

typedef struct {
    sl_engine *e;
    sl_session *s;
    awkward a;
    size_t n_vocab;
} world;

static void open_world(world *w, const char *model, uint32_t chunk, uint32_t threads, uint32_t most)
{
    sl_engine_options o;
    sl_err err = {0};
    sl_model_info info;
    support_engine_options(&o);
    o.prefill_chunk_tok = chunk;
    o.n_threads = threads;
    memset(w, 0, sizeof *w);
    ASSERT_OK(sl_engine_open(&w->e, model, &o, &err), err);
    ASSERT_OK(sl_session_open(&w->s, w->e, &err), err);
    sl_engine_info(w->e, &info);
    w->n_vocab = info.n_vocab;
    w->a = (awkward){.base = {&ops}, .m = w->e->parts.model, .store = w->e->parts.store, .most = most, .rng = chunk + 77 * most};
    if (most) w->e->fwd.experts = &w->a.base;
}

static void close_world(world *w)
{
    sl_session_close(w->s);
    sl_engine_close(w->e);
}

/* All logits of a prompt and some decoded tokens after it. */
static sl_status run(world *w, float *out, sl_err *err)
{
    int32_t ids[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (i * 37 + 11) % 300;
    sl_status rc = sl_session_feed(w->s, ids, N_PROMPT, err);
    for (int i = 0; rc == SL_OK && i <= N_GEN; i++) {
        memcpy(out + (size_t)i * w->n_vocab, sl_session_logits(w->s), w->n_vocab * sizeof *out);
        int32_t id = 13 * i + 5;
        if (i < N_GEN) rc = sl_session_feed(w->s, &id, 1, err);
    }
    return rc;
}

static void order_of_arrival_never_shows(void **state)
{
    static float want[(N_GEN + 1) * 512], got[(N_GEN + 1) * 512];
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        world w;
        sl_err err = {0};
        open_world(&w, models[m], 0, 0, 0);
        assert_true(w.n_vocab <= 512);
        ASSERT_OK(run(&w, want, &err), err);
        size_t bytes = (N_GEN + 1) * w.n_vocab * sizeof(float);
        close_world(&w);
        for (uint32_t k = 0; k < 9; k++) {
            static const uint32_t chunks[] = {1, 7, N_PROMPT};
            open_world(&w, models[m], chunks[k % 3], 1 + k % 2, 1 + k / 3 * 2);
            ASSERT_OK(run(&w, got, &err), err);
            assert_true(w.a.n_call > 0);
            if (memcmp(want, got, bytes)) fail_msg("%s: other bits in case %u", models[m], k);
            close_world(&w);
        }
    }
}

/* Every call of the source fails once: the request ends, the position stays, and the same request then succeeds. */
static void a_failure_ends_one_request(void **state)
{
    static float want[(N_GEN + 1) * 512], got[(N_GEN + 1) * 512];
    (void)state;
    world w;
    sl_err err = {0};
    open_world(&w, models[0], 7, 2, 2);
    ASSERT_OK(run(&w, want, &err), err);
    int n_call = w.a.n_call;
    size_t bytes = (N_GEN + 1) * w.n_vocab * sizeof(float);
    close_world(&w);
    for (int i = 1; i < n_call; i += 1 + n_call / 40) {
        open_world(&w, models[0], 7, 2, 2);
        w.a.fail_after = (uint32_t)i;
        assert_int_equal(run(&w, got, &err), SL_ERR_IO);
        assert_non_null(strstr(err.msg, "had enough"));
        assert_int_equal(w.a.n_open, 0);
        ASSERT_OK(sl_session_rewind(w.s, 0, &err), err);
        ASSERT_OK(run(&w, got, &err), err);
        assert_memory_equal(want, got, bytes);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(order_of_arrival_never_shows), cmocka_unit_test(a_failure_ends_one_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
