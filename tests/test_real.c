/* Real models against references that other engines made (tests/fixtures/real, by tools/make_real_refs.py): logits by
 * transformers in float32, divergence and greedy text by llama.cpp.  The models are fetched, not committed; a test whose
 * model is not there is skipped.  tools/check_real makes the same checks over whole vocabularies. */
#include "support.h"

#include <math.h>

enum { N_TOP = 16, N_FIXED = 256, MAX_POS = 512 };

/* The compact form of one position: the largest logits, some fixed ones, and the log of the sum of all exponentials. */
typedef struct {
    float lse;
    uint32_t id[N_TOP];
    float top[N_TOP], fixed[N_FIXED];
} position;

typedef struct {
    uint32_t n_text, n_vocab, fixed_id[N_FIXED];
    struct {
        uint32_t n_pos;
        int32_t ids[MAX_POS];
        position at[MAX_POS];
    } text[10];
} reference;

typedef struct {
    const char *file, *dir;
    double peer_divergence; /* llama.cpp's mean, in the same compact form (summary.json, kl_top_mean) */
} real_model;

static const real_model smollm2 = {"smollm2-135m-instruct-q4_1.gguf", "tests/fixtures/real/smollm2", 2.664366e-3};
static const real_model gemma3 = {"gemma-3-270m-q4_k_m.gguf", "tests/fixtures/real/gemma3", 4.138e-3};

static void read_values(FILE *f, void *p, size_t n)
{
    if (fread(p, 4, n, f) != n) fail_msg("a reference file ends too early");
}

static reference *load(const real_model *m)
{
    char path[160];
    uint32_t head[6];
    reference *r = calloc(1, sizeof *r);
    snprintf(path, sizeof path, "%s/logits.bin", m->dir);
    FILE *f = fopen(path, "rb");
    if (!f || !r) fail_msg("cannot open %s", path);
    read_values(f, head, 6);
    assert_memory_equal(head, "SLRF", 4);
    assert_true(head[1] == 1 && head[2] == 10 && head[4] == N_TOP && head[5] == N_FIXED);
    r->n_text = head[2];
    r->n_vocab = head[3];
    read_values(f, r->fixed_id, N_FIXED);
    for (uint32_t t = 0; t < r->n_text; t++) {
        read_values(f, &r->text[t].n_pos, 1);
        assert_true(r->text[t].n_pos <= MAX_POS);
        read_values(f, r->text[t].ids, r->text[t].n_pos);
        for (uint32_t i = 0; i < r->text[t].n_pos; i++) {
            position *p = &r->text[t].at[i];
            read_values(f, &p->lse, 1);
            read_values(f, p->id, N_TOP);
            read_values(f, p->top, N_TOP);
            read_values(f, p->fixed, N_FIXED);
        }
    }
    fclose(f);
    return r;
}

/* The model's path, or NULL: then the test is skipped. */
static const char *model_path(const real_model *m, char path[256])
{
    const char *dir = getenv("MODELS");
    snprintf(path, 256, "%s/%s", dir && dir[0] ? dir : "build/models", m->file);
    if (support_exists(path)) return path;
    print_message("skipped: %s is not there (tools/fetch_models)\n", path);
    return NULL;
}

typedef struct {
    const reference *r;
    uint32_t text;
    double divergence;    /* sum over positions */
    double worst;         /* relative L2 of the worst position, over the fixed ids */
    uint32_t n_clear, n_clear_same, n;
} comparison;

static double log_sum(const float *v, size_t n)
{
    double top = v[0], sum = 0;
    for (size_t i = 1; i < n; i++) top = fmax(top, (double)v[i]);
    for (size_t i = 0; i < n; i++) sum += exp((double)v[i] - top);
    return top + log(sum);
}

/* KL over the reference's largest tokens and everything else as one event. */
static double divergence(const position *p, const float *got, double lse)
{
    double kl = 0, rest_p = 1, rest_q = 1;
    for (int k = 0; k < N_TOP; k++) {
        double lp = (double)p->top[k] - (double)p->lse, lq = (double)got[p->id[k]] - lse;
        kl += exp(lp) * (lp - lq);
        rest_p -= exp(lp);
        rest_q -= exp(lq);
    }
    if (rest_p > 1e-9 && rest_q > 1e-9) kl += rest_p * log(rest_p / rest_q);
    return kl;
}

static double distance(const reference *r, const position *p, const float *got)
{
    double diff = 0, norm = 0;
    for (int k = 0; k < N_FIXED; k++) {
        double d = (double)got[r->fixed_id[k]] - (double)p->fixed[k];
        diff += d * d;
        norm += (double)p->fixed[k] * (double)p->fixed[k];
    }
    return sqrt(diff / norm);
}

static bool compare(void *user, size_t i, const float *got)
{
    comparison *c = user;
    const position *p = &c->r->text[c->text].at[i];
    c->divergence += divergence(p, got, log_sum(got, c->r->n_vocab));
    c->worst = fmax(c->worst, distance(c->r, p, got));
    c->n++;
    if (p->top[0] - p->top[1] <= 0.5f) return true;
    size_t best = 0;
    for (size_t k = 1; k < c->r->n_vocab; k++)
        if (got[k] > got[best]) best = k;
    c->n_clear++;
    c->n_clear_same += best == p->id[0];
    return true;
}

static comparison run_texts(const char *path, const reference *r, sl_backend_kind backend, uint32_t n_text)
{
    sl_engine_options o;
    sl_err err = {0};
    sl_engine *e = NULL;
    sl_session *s = NULL;
    comparison c = {.r = r};
    sl_engine_options_init(&o);
    o.ctx_tok = MAX_POS;
    o.memory_bytes = 1u << 30;
    o.backend = backend;
    ASSERT_OK(sl_engine_open(&e, path, &o, &err), err);
    ASSERT_OK(sl_session_open(&s, e, &err), err);
    for (c.text = 0; c.text < n_text; c.text++) {
        sl_session_reset(s);
        ASSERT_OK(sl_session_feed_all(s, r->text[c.text].ids, r->text[c.text].n_pos, compare, &c, &err), err);
    }
    sl_session_close(s);
    sl_engine_close(e);
    return c;
}

static void check_cpu(const real_model *m)
{
    char path[256];
    if (!model_path(m, path)) skip();
    reference *r = load(m);
    comparison c = run_texts(path, r, SL_BACKEND_CPU, r->n_text);
    double mean = c.divergence / c.n;
    print_message("%s: mean KL %.3e over %u positions, llama.cpp %.3e; best token %u of %u clear ones\n", m->file, mean, c.n,
                  m->peer_divergence, c.n_clear_same, c.n_clear);
    assert_true(mean <= m->peer_divergence);
    assert_int_equal(c.n_clear_same, c.n_clear);
    free(r);
}

static void check_scalar(const real_model *m)
{
    char path[256];
    if (!model_path(m, path)) skip();
    reference *r = load(m);
    comparison c = run_texts(path, r, SL_BACKEND_SCALAR, 1);
    print_message("%s: scalar relative L2 at most %.2e over %u positions\n", m->file, c.worst, c.n);
    assert_true(c.worst <= 1e-3);
    free(r);
}

static void test_smollm2_cpu(void **state)
{
    (void)state;
    check_cpu(&smollm2);
}

static void test_smollm2_scalar(void **state)
{
    (void)state;
    check_scalar(&smollm2);
}

static void test_gemma3_cpu(void **state)
{
    (void)state;
    check_cpu(&gemma3);
}

static void test_gemma3_scalar(void **state)
{
    (void)state;
    check_scalar(&gemma3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_smollm2_cpu), cmocka_unit_test(test_smollm2_scalar),
                                       cmocka_unit_test(test_gemma3_cpu), cmocka_unit_test(test_gemma3_scalar)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
