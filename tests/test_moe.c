/* The operations of a mixture of experts: routing against tests/fixtures/route.txt (tools/make_route_vectors.py), products of
 * many inputs, the weighted sum, the clamped gate, and the views of experts in every layout. */
#include "backend_case.h"

#include "stream/expert_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- routing ---- */

enum { N_EXPERT = 16, MAX_TOKEN = 8 };

static size_t numbers(const char *p, float *out, size_t max)
{
    size_t n = 0;
    for (char *end; n < max; p = end) {
        float v = strtof(p, &end);
        if (end == p) break;
        out[n++] = v;
    }
    return n;
}

static sl_routing parse_rule(const char *line, bool *biased)
{
    char score[16], group[16];
    int normalise, bias;
    sl_routing r = {.n_expert = N_EXPERT};
    int n = sscanf(line, "rule %15s %d %f %d %u %u %15s %u", score, &normalise, &r.scale, &bias, &r.n_group, &r.n_group_used,
                   group, &r.n_used);
    assert_int_equal(n, 8);
    r.score = !strcmp(score, "softmax") ? SL_SCORE_SOFTMAX : !strcmp(score, "sigmoid") ? SL_SCORE_SIGMOID
                                                                                      : SL_SCORE_SOFTMAX_SELECTED;
    r.group_score = !strcmp(group, "max") ? SL_GROUP_MAX : SL_GROUP_TOP2;
    r.normalise = normalise;
    *biased = bias;
    return r;
}

static void check_choice(const char *line, const uint32_t *ids, const float *weights, uint32_t n, const char *rule)
{
    const char *p = line + 1;
    for (uint32_t s = 0; s < n; s++) {
        unsigned id;
        float w;
        int used;
        assert_int_equal(sscanf(p, " %u:%f%n", &id, &w, &used), 2);
        p += used;
        if (ids[s] != id || !(fabsf(weights[s] - w) <= 2e-6f * fabsf(w)))
            fail_msg("%s slot %u is %u:%g, expected %u:%g", rule, s, ids[s], (double)weights[s], id, (double)w);
    }
}

static void every_rule_agrees_with_the_oracle(void **state)
{
    (void)state;
    static float tokens[MAX_TOKEN * N_EXPERT], bias[N_EXPERT];
    char line[1024], rule[128] = "";
    size_t n_token = 0, at = 0, n_rule = 0, n_cpu;
    uint32_t ids[MAX_TOKEN * 4];
    float weights[MAX_TOKEN * 5];
    sl_routing r = {0};
    const bc_backend *cpu = bc_cpu(&n_cpu);
    FILE *f = fopen("tests/fixtures/route.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        bool biased;
        if (!strncmp(line, "bias ", 5)) {
            assert_int_equal(numbers(line + 5, bias, N_EXPERT), N_EXPERT);
        } else if (!strncmp(line, "token ", 6)) {
            assert_int_equal(numbers(line + 6, tokens + n_token++ * N_EXPERT, N_EXPERT), N_EXPERT);
        } else if (!strncmp(line, "rule ", 5)) {
            snprintf(rule, sizeof rule, "%.120s", line);
            r = parse_rule(line, &biased);
            sl_backend *b = n_rule % 2 ? bc_scalar() : cpu[n_rule % n_cpu].b;
            sl_route(b, &r, tokens, biased ? bias : NULL, ids, 4, weights, 5, (uint32_t)n_token);
            n_rule++;
            at = 0;
        } else {
            check_choice(line, ids + at * 4, weights + at * 5, r.n_used, rule);
            at++;
        }
    }
    fclose(f);
    assert_int_equal(n_rule, 192);
    assert_int_equal(n_token, 5);
}

static void routing_has_one_value(void **state)
{
    enum { N_TOK = 37, N = 128, USED = 8 };
    static float z[N_TOK * N], w[2][N_TOK * USED];
    static uint32_t ids[2][N_TOK * USED];
    bc_rng rng = {5};
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    const sl_routing r = {.n_expert = N, .n_used = USED, .score = SL_SCORE_SIGMOID, .n_group = 8, .n_group_used = 4,
                          .group_score = SL_GROUP_TOP2, .normalise = true, .scale = 2.5f};
    (void)state;
    bc_fill(&rng, z, COUNT(z));
    sl_route(bc_scalar(), &r, z, NULL, ids[0], USED, w[0], USED, N_TOK);
    for (size_t i = 0; i < n_cpu; i++) {
        sl_route(cpu[i].b, &r, z, NULL, ids[1], USED, w[1], USED, N_TOK);
        assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
        assert_memory_equal(w[0], w[1], sizeof w[0]);
        for (uint32_t t = 0; t < N_TOK; t++) sl_route(cpu[i].b, &r, z + t * N, NULL, ids[1] + t * USED, USED, w[1] + t * USED, USED, 1);
        assert_memory_equal(w[0], w[1], sizeof w[0]);
    }
}

/* Whatever the numbers, ids stay distinct and in range: they index memory. */
static void nan_logits_still_choose_experts(void **state)
{
    (void)state;
    float z[N_EXPERT], w[5];
    uint32_t ids[5];
    for (int score = 0; score < 3; score++)
        for (uint32_t groups = 1; groups <= 4; groups += 3)
            for (uint32_t bad = 0; bad < 3; bad++) {
                sl_routing r = {.n_expert = N_EXPERT, .n_used = 5, .score = (sl_score)score, .n_group = groups,
                                .n_group_used = groups > 1 ? 2 : 1, .scale = 1};
                for (uint32_t i = 0; i < N_EXPERT; i++) z[i] = bad == 0 || i % 3 == bad ? NAN : bad == 1 ? INFINITY : -INFINITY;
                sl_route(bc_scalar(), &r, z, NULL, ids, 5, w, 5, 1);
                for (uint32_t i = 0; i < 5; i++) {
                    assert_true(ids[i] < N_EXPERT);
                    for (uint32_t k = 0; k < i; k++) assert_int_not_equal(ids[i], ids[k]);
                }
            }
}

/* ---- products of many inputs ---- */

enum { JOB_IN = 512, JOB_OUT = 27, N_JOB = 45, JOB_TOK = 8 };

static void check_jobs(const char *name, sl_backend *b, const sl_matrix *w, size_t n_w, const float *x)
{
    static const uint32_t n_tok[] = {1, JOB_TOK, 1, 1, 3, 5, JOB_TOK};
    static float got[N_JOB][JOB_TOK * JOB_OUT], want[N_JOB][JOB_TOK * JOB_OUT];
    sl_matmul_job jobs[N_JOB];
    memset(got, 0, sizeof got);
    memset(want, 0, sizeof want);
    for (size_t i = 0; i < N_JOB; i++) {
        /* three share an input, and their types have different rules */
        jobs[i] = (sl_matmul_job){&w[i % n_w], x + i / 3 * 7, got[i], JOB_IN, JOB_OUT, n_tok[i / 3 % COUNT(n_tok)]};
        sl_product p = {jobs[i].w, want[i], JOB_OUT};
        sl_matmul(b, &p, 1, jobs[i].x, JOB_IN, jobs[i].n_tok);
    }
    sl_matmul_jobs(b, jobs, N_JOB);
    for (size_t i = 0; i < N_JOB; i++)
        if (memcmp(got[i], want[i], sizeof got[i])) fail_msg("job %zu differs from a product of its own on %s", i, name);
}

/* Room for one input of JOB_TOK tokens and one rule: jobs go out one by one, and rule by rule. */
static void check_little_room(const sl_matrix *w, size_t n_w, const float *x)
{
    sl_backend_options opt = {.kind = SL_BACKEND_CPU, .n_thread = 3, .max_tok = JOB_TOK, .max_in = JOB_IN, .max_head_dim = 8};
    sl_backend *b = NULL;
    assert_int_equal(sl_backend_open(&b, &opt, NULL, NULL), SL_OK);
    check_jobs("cpu with little room", b, w, n_w, x);
    sl_backend_close(b);
}

static void jobs_are_products(void **state)
{
    static const uint32_t types[] = {SL_F32, SL_BF16, SL_Q8_0, SL_Q4_0, SL_Q4_K, SL_Q6_K};
    static uint8_t data[COUNT(types)][JOB_OUT * JOB_IN * 4];
    static float x[N_JOB * 8 + JOB_TOK * JOB_IN];
    sl_matrix w[COUNT(types)];
    bc_rng r = {9};
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    (void)state;
    bc_fill(&r, x, COUNT(x));
    for (size_t k = 0; k < COUNT(types); k++) {
        const sl_type_info *type = sl_type_find(types[k]);
        w[k] = (sl_matrix){.type = type, .n_in = JOB_IN, .n_out = JOB_OUT, .n_part = 2};
        sl_type_row_bytes(type, JOB_IN, &w[k].row_bytes);
        /* bytes below 0x3c everywhere: finite scales in every type */
        for (size_t i = 0; i < w[k].row_bytes * JOB_OUT; i++) data[k][i] = (uint8_t)(bc_random(&r) % 0x3c);
        w[k].part[0].data = data[k];
        w[k].part[0].n_row = 10;
        w[k].part[1].data = data[k] + 10 * w[k].row_bytes;
        w[k].part[1].first_row = 10;
        w[k].part[1].n_row = JOB_OUT - 10;
    }
    check_jobs("scalar", bc_scalar(), w, COUNT(types), x);
    for (size_t i = 0; i < n_cpu; i++) check_jobs(cpu[i].name, cpu[i].b, w, COUNT(types), x);
    check_little_room(w, COUNT(types), x);
}

/* Codes and scales apart, split at other rows, every second row: the bits of the same rows as blocks. */
static void scales_apart_change_nothing(void **state)
{
    enum { N_IN = 160, N_OUT = 37, N_TOK = 5 };
    static uint8_t codes[2 * N_OUT][N_IN / 2], scales[2 * N_OUT][N_IN / 32], blocks[N_OUT][N_IN / 32 * 17];
    static float x[N_TOK * N_IN], want[N_TOK * N_OUT], got[N_TOK * N_OUT];
    bc_rng r = {12};
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    (void)state;
    bc_fill(&r, x, COUNT(x));
    for (size_t i = 0; i < 2 * N_OUT; i++) {
        for (size_t k = 0; k < sizeof codes[0]; k++) codes[i][k] = (uint8_t)bc_random(&r);
        for (size_t k = 0; k < sizeof scales[0]; k++) scales[i][k] = (uint8_t)(120 + bc_random(&r) % 9);
    }
    /* element e of a row is the low or high nibble of byte e / 2; in a block, of byte e % 16 */
    for (size_t i = 0; i < N_OUT; i++)
        for (size_t e = 0; e < N_IN; e++) {
            uint8_t *b = &blocks[i][e / 32 * 17], code = codes[2 * i + 1][e / 2] >> e % 2 * 4 & 15;
            b[0] = scales[2 * i + 1][e / 32];
            b[1 + e % 16] |= (uint8_t)(code << e % 32 / 16 * 4);
        }
    sl_matrix all = {.type = sl_type_find(1001), .n_in = N_IN / 2, .n_out = 2 * N_OUT, .row_bytes = N_IN / 2, .n_part = 2};
    all.part[0].data = codes[0], all.part[0].n_row = 21;
    all.part[1].data = codes[21], all.part[1].first_row = 21, all.part[1].n_row = 2 * N_OUT - 21;
    sl_matrix all_scales = {.type = all.type, .n_in = N_IN / 32, .n_out = 2 * N_OUT, .row_bytes = N_IN / 32, .n_part = 1};
    all_scales.part[0].data = scales[0], all_scales.part[0].n_row = 2 * N_OUT;
    sl_matrix w = sl_matrix_rows(&all, 1, N_OUT, 2), s = sl_matrix_rows(&all_scales, 1, N_OUT, 2);
    w.type = sl_type_find(SL_MXFP4);
    w.n_in = N_IN;
    w.scales = &s;
    sl_matrix joined = {.type = w.type, .n_in = N_IN, .n_out = N_OUT, .row_bytes = sizeof blocks[0], .n_part = 1};
    joined.part[0].data = blocks[0], joined.part[0].n_row = N_OUT;
    for (size_t i = 0; i <= n_cpu; i++)
        for (uint32_t n_tok = 1; n_tok <= N_TOK; n_tok += N_TOK - 1) {
            sl_backend *b = i < n_cpu ? cpu[i].b : bc_scalar();
            sl_product p = {&joined, want, N_OUT}, q = {&w, got, N_OUT};
            sl_matmul(b, &p, 1, x, N_IN, n_tok);
            sl_matmul(b, &q, 1, x, N_IN, n_tok);
            assert_memory_equal(want, got, n_tok * N_OUT * sizeof *got);
        }
}

/* Weights [n_in][2 n_out] of one type, in two parts; every second output of them as a matrix that lies transposed, against the
 * same weights row by row. */
static void check_turned(const sl_type_info *type, sl_backend *b, const float *x)
{
    enum { N_IN = 75, N_OUT = 37, N_TOK = 5 };
    static uint8_t lying[N_IN][2 * N_OUT * 4], rows[N_OUT][N_IN * 4];
    static float want[N_TOK * N_OUT], got[N_TOK * N_OUT];
    const uint32_t size = type->block_bytes;
    bc_rng r = {14};
    uint8_t *p = lying[0];
    for (size_t i = 0; i < (size_t)N_IN * 2 * N_OUT * size; i++) p[i] = (uint8_t)(bc_random(&r) % 0x3c);
    for (size_t i = 0; i < N_IN; i++)
        for (size_t o = 0; o < N_OUT; o++)
            memcpy(rows[0] + (o * N_IN + i) * size, p + (i * 2 * N_OUT + 2 * o + 1) * size, size);
    sl_matrix all = {.type = type, .n_in = 2 * N_OUT, .n_out = N_IN, .row_bytes = 2 * N_OUT * size, .n_part = 2};
    all.part[0].data = p, all.part[0].n_row = 21;
    all.part[1].data = p + 21 * all.row_bytes, all.part[1].first_row = 21, all.part[1].n_row = N_IN - 21;
    sl_matrix turned = sl_matrix_columns(&all, 1, N_OUT, 2);
    sl_matrix plain = {.type = type, .n_in = N_IN, .n_out = N_OUT, .row_bytes = N_IN * size, .n_part = 1};
    plain.part[0].data = rows[0], plain.part[0].n_row = N_OUT;
    for (uint32_t n_tok = 1; n_tok <= N_TOK; n_tok += N_TOK - 1) {
        sl_product q[2] = {{&plain, want, N_OUT}, {&turned, got, N_OUT}};
        sl_matmul(b, q, 2, x, N_IN, n_tok);
        assert_memory_equal(want, got, n_tok * N_OUT * sizeof *got);
    }
}

static void turned_matrices_change_nothing(void **state)
{
    static const uint32_t types[] = {SL_F32, SL_F16, SL_BF16};
    static float x[5 * 75];
    bc_rng r = {15};
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    (void)state;
    bc_fill(&r, x, COUNT(x));
    for (size_t k = 0; k < COUNT(types); k++)
        for (size_t i = 0; i <= n_cpu; i++) check_turned(sl_type_find(types[k]), i < n_cpu ? cpu[i].b : bc_scalar(), x);
}

/* Transposed products: against the law, and the same bits from every backend. */
static void transposed_products_follow_the_law(void **state)
{
    enum { N_IN = 72, N_OUT = 19, N_TOK = 4, N = 5 };
    static float w[N][N_OUT * N_IN], x[N_TOK][N * N_OUT], want[N_TOK][N * N_IN], got[N_TOK][N * N_IN];
    sl_matrix m[N];
    sl_matmul_job jobs[N];
    bc_rng r = {13};
    size_t n_cpu;
    const bc_backend *cpu = bc_cpu(&n_cpu);
    (void)state;
    bc_fill(&r, w[0], N * N_OUT * N_IN);
    bc_fill(&r, x[0], N_TOK * N * N_OUT);
    for (uint32_t i = 0; i < N; i++) {
        m[i] = (sl_matrix){.type = sl_type_find(SL_F32), .n_in = N_IN, .n_out = N_OUT, .row_bytes = N_IN * 4, .n_part = 1};
        m[i].part[0].data = (const uint8_t *)w[i];
        m[i].part[0].n_row = N_OUT;
        jobs[i] = (sl_matmul_job){&m[i], x[0] + i * N_OUT, got[0] + i * N_IN, N * N_OUT, N * N_IN, N_TOK};
        for (uint32_t t = 0; t < N_TOK; t++)
            for (uint32_t c = 0; c < N_IN; c++) {
                float sum = 0;
                for (uint32_t k = 0; k < N_OUT; k++) sum = fmaf(x[t][i * N_OUT + k], w[i][k * N_IN + c], sum);
                want[t][i * N_IN + c] = sum;
            }
    }
    for (size_t i = 0; i <= n_cpu; i++) {
        memset(got, 0xff, sizeof got);
        sl_matmul_transposed(i < n_cpu ? cpu[i].b : bc_scalar(), jobs, N);
        assert_memory_equal(want, got, sizeof got);
    }
}

/* ---- the weighted sum, and the clamped gate ---- */

typedef struct {
    uint32_t n, n_slot;
    const float *x, *weights; /* [n_tok * n_slot][n], [n_tok][n_slot] */
    const uint32_t *row;
} sum_case;

static void run_sum(const bc_case *c, sl_backend *b, uint32_t first, uint32_t n_tok, float *out, size_t ld)
{
    const sum_case *s = c->operands;
    sl_combine(b, out, ld, s->x, s->row + first * s->n_slot, s->weights + first * s->n_slot, s->n_slot, s->n, n_tok);
}

static void expect_sum(const bc_case *c, uint32_t tok, double *out)
{
    const sum_case *s = c->operands;
    for (uint32_t i = 0; i < s->n; i++) {
        out[i] = 0;
        for (uint32_t k = 0; k < s->n_slot; k++)
            out[i] += (double)s->weights[tok * s->n_slot + k] * s->x[(size_t)s->row[tok * s->n_slot + k] * s->n + i];
    }
}

static void run_limited(const bc_case *c, sl_backend *b, uint32_t first, uint32_t n_tok, float *out, size_t ld)
{
    const sum_case *s = c->operands;
    static float up[BC_MAX_TOK * BC_MAX_IN];
    for (uint32_t t = 0; t < n_tok; t++) {
        memcpy(out + t * ld, s->x + (first + t) * s->n, s->n * sizeof *out);
        memcpy(up + t * s->n, s->x + (first + t + 7) * s->n, s->n * sizeof *up);
    }
    sl_glu_limited(b, out, ld, out, ld, up, s->n, s->n, n_tok, 1.702f, 0.75f);
}

static void expect_limited(const bc_case *c, uint32_t tok, double *out)
{
    const sum_case *s = c->operands;
    for (uint32_t i = 0; i < s->n; i++) {
        double g = fmin(s->x[tok * s->n + i], 0.75), u = fmax(-0.75, fmin(s->x[(tok + 7) * s->n + i], 0.75));
        out[i] = (u + 1) * g / (1 + exp(-1.702 * g));
    }
}

static void sums_and_gates_agree(void **state)
{
    static const uint32_t shapes[][3] = {{1, 1, 1}, {17, 3, 4}, {64, 8, 1}, {576, 9, 13}, {2048, 3, 40}};
    enum { N_X = 64 * 9 * 2048 };
    float *x = malloc(N_X * sizeof *x);
    static float weights[64 * 9];
    static uint32_t row[64 * 9];
    bc_rng r = {3};
    (void)state;
    bc_fill(&r, x, N_X);
    bc_fill(&r, weights, COUNT(weights));
    for (size_t i = 0; i < COUNT(shapes); i++) {
        uint32_t n_tok = shapes[i][2], n_slot = shapes[i][1];
        for (uint32_t k = 0; k < n_tok * n_slot; k++) row[k] = (k * 7 + 3) % (n_tok * n_slot); /* not in order */
        sum_case s = {shapes[i][0], n_slot, x, weights, row};
        bc_case c = {.n_tok = n_tok, .n_out = s.n, .run = run_sum, .expect = expect_sum, .tol_scalar = 1e-6, .tol_cpu = 0,
                     .operands = &s};
        snprintf(c.name, sizeof c.name, "combine %u slots of %u, %u tok", n_slot, s.n, n_tok);
        bc_check(&c);
        c.run = run_limited;
        c.expect = expect_limited;
        c.tol_cpu = 1e-6;
        snprintf(c.name, sizeof c.name, "clamped gate %u, %u tok", s.n, n_tok);
        bc_check(&c);
    }
    free(x);
}

/* ---- views of experts ---- */

enum { V_EXPERT = 3, V_FF = 5, V_EMBD = 2 };

/* Element [row][0] of a view. */
static float first_of(const sl_matrix *m, uint32_t row)
{
    uint32_t i = m->n_part > 1 && row >= m->part[1].first_row;
    float v;
    assert_true(row >= m->part[i].first_row && row - m->part[i].first_row < m->part[i].n_row);
    memcpy(&v, m->part[i].data + (row - m->part[i].first_row) * m->row_bytes, sizeof v);
    return v;
}

/* A matrix of n rows over data, cut before row cut (0 or n: not at all). */
static sl_matrix cut_matrix(const float *data, uint32_t n, uint32_t n_in, uint32_t cut)
{
    sl_matrix m = {.type = sl_type_find(SL_F32), .n_in = n_in, .n_out = n, .row_bytes = n_in * 4u, .n_part = 1};
    m.part[0].data = (const uint8_t *)data;
    m.part[0].n_row = cut ? cut : n;
    if (cut && cut < n) {
        m.n_part = 2;
        m.part[1].data = (const uint8_t *)(data + (size_t)cut * n_in);
        m.part[1].first_row = cut;
        m.part[1].n_row = n - cut;
    }
    return m;
}

/* Stacks whose row r of expert e begins with a number that tells both, cut at every row. */
static void views_find_their_rows(void **state)
{
    static float gate[V_EXPERT * 2 * V_FF * V_EMBD], up[V_EXPERT * V_FF * V_EMBD], down[V_EXPERT * V_EMBD * V_FF];
    (void)state;
    for (int form = SL_EXPERT_SEPARATE; form <= SL_EXPERT_INTERLEAVED; form++) {
        uint32_t rows = form == SL_EXPERT_SEPARATE ? V_FF : 2 * V_FF;
        sl_tensor t = {0};
        sl_expert_layer l = {.form = (sl_expert_form)form, .n_expert = V_EXPERT, .n_piece = form == SL_EXPERT_SEPARATE ? 3 : 2};
        l.piece[0] = (sl_expert_piece){&t, NULL, V_EMBD, rows};
        l.piece[1] = (sl_expert_piece){&t, NULL, V_EMBD, V_FF};
        l.piece[l.n_piece - 1] = (sl_expert_piece){&t, NULL, V_FF, V_EMBD};
        for (uint32_t i = 0; i < V_EXPERT * rows; i++) gate[i * V_EMBD] = (float)i;
        for (uint32_t i = 0; i < V_EXPERT * V_FF; i++) up[i * V_EMBD] = 1000 + (float)i;
        for (uint32_t i = 0; i < V_EXPERT * V_EMBD; i++) down[i * V_FF] = 2000 + (float)i;
        for (uint32_t cut = 0; cut < V_EXPERT * rows; cut++) {
            sl_matrix views[3] = {cut_matrix(gate, V_EXPERT * rows, V_EMBD, cut), cut_matrix(up, V_EXPERT * V_FF, V_EMBD, cut % 15)};
            views[l.n_piece - 1] = cut_matrix(down, V_EXPERT * V_EMBD, V_FF, cut % 6);
            sl_expert_whole w;
            sl_expert e[V_EXPERT];
            const uint32_t ids[2] = {0, 2};
            uint32_t n;
            sl_expert_whole_init(&w, &l, views);
            w.base.ops->begin(&w.base, 0, ids, 2, NULL);
            w.base.ops->next(&w.base, e, V_EXPERT, &n, NULL);
            assert_int_equal(n, 2);
            for (uint32_t k = 0; k < n; k++) {
                assert_int_equal(e[k].id, ids[k]);
                assert_int_equal(e[k].gate.n_out, V_FF);
                assert_int_equal(e[k].up.n_out, V_FF);
                for (uint32_t r = 0; r < V_FF; r++) {
                    float g = (float)(ids[k] * rows + (form == SL_EXPERT_INTERLEAVED ? 2 * r : r));
                    float u = form == SL_EXPERT_SEPARATE ? 1000 + g : form == SL_EXPERT_GATE_UP ? g + V_FF : g + 1;
                    assert_true(first_of(&e[k].gate, r) == g && first_of(&e[k].up, r) == u);
                }
                for (uint32_t r = 0; r < V_EMBD; r++) assert_true(first_of(&e[k].down, r) == 2000 + (float)(ids[k] * V_EMBD + r));
            }
            w.base.ops->next(&w.base, e, V_EXPERT, &n, NULL);
            assert_int_equal(n, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_agrees_with_the_oracle), cmocka_unit_test(routing_has_one_value),
        cmocka_unit_test(nan_logits_still_choose_experts),   cmocka_unit_test(jobs_are_products),
        cmocka_unit_test(scales_apart_change_nothing),       cmocka_unit_test(turned_matrices_change_nothing),
        cmocka_unit_test(transposed_products_follow_the_law),
        cmocka_unit_test(sums_and_gates_agree),              cmocka_unit_test(views_find_their_rows),
    };
    return cmocka_run_group_tests(tests, bc_open, bc_close);
}
