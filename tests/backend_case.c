/* The runner behind backend_case.h. */
#include "backend_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAD = 5 }; /* floats between rows of outputs */
static const uint32_t POISON = 0x7fa5a5a5u;

static bc_backend cpu[BC_MAX_BACKENDS];
static size_t n_cpu;
static sl_backend *scalar;

/* ---- backends ---- */

static sl_backend *open_backend(sl_backend_kind kind, sl_cpu_level level, uint32_t n_thread)
{
    sl_backend_options opt = {.kind = kind,
                              .level = level,
                              .n_thread = n_thread,
                              .max_tok = BC_MAX_TOK,
                              .max_in = BC_MAX_IN,
                              .max_head_dim = BC_MAX_HEAD_DIM,
                             .n_job_input = 7,
                             .scales_apart = true,
                             .turned = true};
    sl_backend *b = NULL;
    sl_err err = {0};
    if (sl_backend_open(&b, &opt, NULL, &err) != SL_OK) fail_msg("%s", err.msg);
    return b;
}

int bc_open(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 5};
    for (sl_cpu_level l = SL_CPU_PORTABLE; l <= SL_CPU_AVX512; l++) {
        if (l != SL_CPU_PORTABLE && !sl_cpu_has(l)) {
            printf("note: this machine has no %s, its kernels are not tested\n", sl_cpu_level_name(l));
            continue;
        }
        for (size_t i = 0; i < 4; i++, n_cpu++) {
            cpu[n_cpu] = (bc_backend){open_backend(SL_BACKEND_CPU, l, threads[i]), l, threads[i], ""};
            snprintf(cpu[n_cpu].name, sizeof cpu[n_cpu].name, "%s, %u threads", sl_cpu_level_name(l), threads[i]);
        }
    }
    scalar = open_backend(SL_BACKEND_SCALAR, SL_CPU_AUTO, 2);
    return 0;
}

int bc_close(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_cpu; i++)
        sl_backend_close(cpu[i].b);
    sl_backend_close(scalar);
    n_cpu = 0;
    scalar = NULL;
    return 0;
}

sl_backend *bc_scalar(void)
{
    return scalar;
}

const bc_backend *bc_cpu(size_t *n)
{
    *n = n_cpu;
    return cpu;
}

/* ---- check ---- */

static size_t stride(const bc_case *c)
{
    return c->n_out + PAD;
}

static float *poisoned(const bc_case *c)
{
    size_t n = c->n_tok * stride(c);
    float *out = malloc(n * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        memcpy(out + i, &POISON, 4);
    return out;
}

/* All tokens, in batches of at most step. */
static float *run_in_batches(const bc_case *c, sl_backend *b, const char *who, uint32_t step)
{
    float *out = poisoned(c);
    for (uint32_t t = 0; t < c->n_tok; t += step) {
        uint32_t n = c->n_tok - t < step ? c->n_tok - t : step;
        c->run(c, b, t, n, out + t * stride(c), stride(c));
    }
    for (uint32_t t = 0; t < c->n_tok; t++)
        for (uint32_t i = c->n_out; i < stride(c); i++)
            if (bc_bits(out[t * stride(c) + i]) != POISON)
                fail_msg("%s, %s: wrote behind the end of token %u's row", c->name, who, t);
    return out;
}

static void check_same_bits(const bc_case *c, const char *who, uint32_t step, const float *want, const float *got)
{
    for (uint32_t t = 0; t < c->n_tok; t++)
        for (uint32_t i = 0; i < c->n_out; i++) {
            size_t at = t * stride(c) + i;
            if (bc_bits(want[at]) != bc_bits(got[at]))
                fail_msg("%s, %s, batches of %u: token %u, element %u is %.9g (%08x), not %.9g (%08x)", c->name, who,
                         step, t, i, got[at], bc_bits(got[at]), want[at], bc_bits(want[at]));
        }
}

static void check_close(const bc_case *c, const char *who, const double *want, const float *got, double tol)
{
    double d2 = 0, w2 = 0;
    for (uint32_t t = 0; t < c->n_tok; t++)
        for (uint32_t i = 0; i < c->n_out; i++) {
            double w = want[(size_t)t * c->n_out + i], d = got[t * stride(c) + i] - w;
            d2 += d * d;
            w2 += w * w;
        }
    double rel = sqrt(d2 / (w2 > 0 ? w2 : 1));
    if (!(rel <= tol)) fail_msg("%s, %s: relative L2 difference %.3g is over %.3g", c->name, who, rel, tol);
}

static void check_scalar(const bc_case *c, double *want, const float *got)
{
    if (c->expect) {
        for (uint32_t t = 0; t < c->n_tok; t++)
            c->expect(c, t, want + (size_t)t * c->n_out);
        check_close(c, "scalar", want, got, c->tol_scalar);
    }
    for (uint32_t t = 0; t < c->n_tok; t++)
        for (uint32_t i = 0; i < c->n_out; i++)
            want[(size_t)t * c->n_out + i] = got[t * stride(c) + i];
}

void bc_check(const bc_case *c)
{
    assert_true(c->n_tok <= BC_MAX_TOK);
    double *want = malloc((size_t)c->n_tok * c->n_out * sizeof *want);
    assert_non_null(want);
    float *by_scalar = run_in_batches(c, scalar, "scalar", c->n_tok);
    check_scalar(c, want, by_scalar);

    float *ref = run_in_batches(c, cpu[0].b, cpu[0].name, c->n_tok);
    if (c->tol_cpu > 0)
        check_close(c, cpu[0].name, want, ref, c->tol_cpu);
    else
        check_same_bits(c, cpu[0].name, c->n_tok, by_scalar, ref);

    const uint32_t steps[] = {c->n_tok, 1, c->n_tok / 2 + 1};
    for (size_t i = 0; i < n_cpu; i++)
        for (size_t k = i ? 0 : 1; k < 3; k++) {
            if (k && (c->n_tok == 1 || cpu[i].n_thread > 2)) continue;
            float *got = run_in_batches(c, cpu[i].b, cpu[i].name, steps[k]);
            check_same_bits(c, cpu[i].name, steps[k], ref, got);
            free(got);
        }
    free(ref);
    free(by_scalar);
    free(want);
}

/* ---- benchmark ---- */

static double ns_per_call(const bc_case *c, sl_backend *b)
{
    float *out = poisoned(c);
    double best = 1e30, s = 0;
    for (int round = 0; round < 5 && s < 0.2; round++) {
        uint32_t n = 0;
        double from = sl_now_s();
        do {
            c->run(c, b, 0, c->n_tok, out, stride(c));
            n++;
        } while ((s = sl_now_s() - from) < 0.02);
        if (s / n < best) best = s / n;
    }
    free(out);
    return best * 1e9;
}

void bc_bench(const bc_case *c)
{
    printf("%-56s", c->name);
    for (size_t i = 0; i < n_cpu; i++)
        if (cpu[i].n_thread <= 2)
            printf("  %s/%u %.0f", sl_cpu_level_name(cpu[i].level), cpu[i].n_thread, ns_per_call(c, cpu[i].b));
    printf("  ns\n");
    fflush(stdout);
}

/* ---- numbers ---- */

uint64_t bc_random(bc_rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float bc_uniform(bc_rng *r, float lo, float hi)
{
    return lo + (hi - lo) * (float)(bc_random(r) >> 40) * 0x1p-24f;
}

void bc_fill(bc_rng *r, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++)
            sum += bc_uniform(r, -1, 1);
        x[i] = sum * 0.866f;
    }
}

float bc_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

uint32_t bc_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

bool bc_same(float a, float b)
{
    return bc_bits(a) == bc_bits(b) || (isnan(a) && isnan(b));
}

double bc_f16_to_double(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

uint16_t bc_f16_from_double(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs(x);
    if (isnan(x)) return 0x7e00;
    if (a >= 65520) return sign | 0x7c00;
    int e = a > 0 ? ilogb(a) : -14;
    if (e < -14) e = -14;
    /* the code is a count of units in the last place, over the binades that begin at 2^-14 */
    double m = nearbyint(ldexp(a, 10 - e));
    return (uint16_t)(sign | (uint16_t)(m + 1024 * (e + 14)));
}
