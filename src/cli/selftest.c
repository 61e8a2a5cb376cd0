/* sluice selftest: promise "same tokens" on this machine with this model.  The same prompt is completed under many
 * combinations of budget, read method, threads, prompt chunk and CPU level; a digest over the tokens and over the raw
 * bits of the logits of every step must be the same each time. */
#include "cli/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPT = 24 };

typedef struct {
    const char *name;
    uint32_t value;
} choice;

/* The budgets are parts of the file, in percent; two have a meaning of their own. */
enum { MINIMUM = 0, ALL = 1000 };
static const choice budgets[] = {{"minimum", MINIMUM}, {"25 %", 25}, {"50 %", 50}, {"all", ALL}};
static const choice methods[] = {
    {"uring", SL_IO_URING}, {"pread", SL_IO_PREAD}, {"buffered", SL_IO_BUFFERED}, {"mmap", SL_IO_MMAP}};
static const choice thread_counts[] = {{"1", 1}, {"2", 2}};
static const choice chunks[] = {{"1", 1}, {"7", 7}, {"whole", N_PROMPT}};
static const choice levels[] = {
    {"auto", SL_CPU_AUTO}, {"portable", SL_CPU_PORTABLE}, {"avx2", SL_CPU_AVX2}, {"avx512", SL_CPU_AVX512}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct {
    const choice *budget, *method, *threads, *chunk, *level;
} combination;

typedef struct {
    const cli_options *o;
    uint64_t file_bytes;
    uint32_t n_vocab;
    int32_t prompt[N_PROMPT];
    uint64_t digest; /* of the first run */
    char first[96];  /* its description */
    uint32_t n_run, n_skip, n_differ, n_planned, n_seen;
    char differs[96]; /* the first that does */
} selftest;

/* ---- one run ---- */

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t digest_add(uint64_t digest, const void *data, size_t n_bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < n_bytes; i++)
        digest = (digest ^ p[i]) * UINT64_C(0x100000001b3);
    return digest;
}

static int32_t best_token(const float *logits, uint32_t n_vocab)
{
    uint32_t best = 0;
    for (uint32_t v = 1; v < n_vocab; v++)
        best = logits[v] > logits[best] ? v : best;
    return (int32_t)best;
}

static sl_status generate(const selftest *t, sl_session *s, uint64_t *digest, sl_err *err)
{
    sl_status status = sl_session_feed(s, t->prompt, N_PROMPT, err);
    *digest = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < t->o->n_predict && status == SL_OK; i++) {
        const float *logits = sl_session_logits(s);
        int32_t token = best_token(logits, t->n_vocab);
        *digest = digest_add(*digest, &token, sizeof token);
        *digest = digest_add(*digest, logits, t->n_vocab * sizeof *logits);
        if (i + 1 < t->o->n_predict) status = sl_session_feed(s, &token, 1, err);
    }
    return status;
}

/* Opens, generates, closes. */
static sl_status run_engine(const selftest *t, const sl_engine_options *opt, uint64_t *digest, sl_err *err)
{
    sl_engine *engine = NULL;
    sl_session *session = NULL;
    sl_status status = sl_engine_open(&engine, t->o->model, opt, err);
    if (status == SL_OK) status = sl_session_open(&session, engine, err);
    if (status == SL_OK) {
        cli_interrupt_watch(session);
        status = generate(t, session, digest, err);
        cli_interrupt_watch(NULL);
    }
    sl_session_close(session);
    sl_engine_close(engine);
    return status;
}

static void options_of(const selftest *t, const combination *c, sl_engine_options *opt)
{
    *opt = t->o->engine;
    opt->ctx_tok = N_PROMPT + t->o->n_predict;
    opt->no_probe = true;
    opt->progress = NULL;
    opt->log = NULL;
    opt->io = (sl_io_method)c->method->value;
    opt->n_threads = c->threads->value;
    opt->prefill_chunk_tok = c->chunk->value;
    opt->cpu = (sl_cpu_level)c->level->value;
    opt->memory_bytes = t->file_bytes / 100 * c->budget->value;
    if (c->budget->value == MINIMUM) opt->memory_bytes = 1;
}

/* Sets the budget; below is true when the wanted one is under the minimum, which then takes its place. */
static sl_status settle_budget(const selftest *t, const combination *c, sl_engine_options *opt, bool *below,
                               sl_err *err)
{
    sl_plan plan;
    sl_status status = sl_engine_plan(t->o->model, opt, &plan, err);
    if (status != SL_OK) return status;
    *below = opt->memory_bytes < plan.minimum_bytes && c->budget->value != MINIMUM;
    if (opt->memory_bytes < plan.minimum_bytes) opt->memory_bytes = plan.minimum_bytes;
    if (c->budget->value == ALL) opt->memory_bytes = plan.minimum_bytes + 2 * t->file_bytes;
    return SL_OK;
}

/* The minimum is what this process holds and what the model needs beyond that; between plan and open the process may
 * have grown by a few pages (a heap that doesn't shrink), so a refusal is planned again. */
static sl_status run_settled(const selftest *t, const combination *c, sl_engine_options *opt, bool *below,
                             uint64_t *digest, sl_err *err)
{
    sl_status status = SL_ERR_BUDGET;
    for (int i = 0; i < 3 && status == SL_ERR_BUDGET; i++) {
        status = settle_budget(t, c, opt, below, err);
        if (status == SL_OK) status = run_engine(t, opt, digest, err);
    }
    return status;
}

/* ---- one line ---- */

static void describe(const combination *c, bool below, char buf[96])
{
    snprintf(buf, 96, "budget %s%s, io %s, threads %s, chunk %s, cpu %s", c->budget->name,
             below ? " (below minimum)" : "", c->method->name, c->threads->name, c->chunk->name, c->level->name);
}

static void compare(selftest *t, const char *what, uint64_t digest)
{
    bool same = t->n_run == 0 || digest == t->digest;
    printf("%-78s %016" PRIx64 "%s\n", what, digest, same ? "" : "  DIFFERS");
    fflush(stdout);
    if (!t->n_run++) {
        t->digest = digest;
        memcpy(t->first, what, sizeof t->first);
    }
    if (!same && !t->n_differ++) memcpy(t->differs, what, sizeof t->differs);
}

static cli_exit run_combination(selftest *t, const combination *c)
{
    char what[96];
    sl_engine_options opt;
    sl_err err = {0};
    bool below = false;
    uint64_t digest = 0;
    options_of(t, c, &opt);
    sl_status status = run_settled(t, c, &opt, &below, &digest, &err);
    describe(c, below, what);
    cli_progress_steps("selftest", "runs", ++t->n_seen, t->n_planned);
    if (status == SL_OK) {
        compare(t, what, digest);
        return CLI_DONE;
    }
    if (status == SL_ERR_CANCELED) return cli_fail(&err);
    if (status != SL_ERR_UNSUPPORTED) {
        cli_error("%s: %s", what, err.msg);
        return CLI_FAILED;
    }
    cli_progress_clear();
    printf("%-78s skipped: %s\n", what, err.msg);
    t->n_skip++;
    return CLI_DONE;
}

/* ---- all of them ---- */

/* --quick and the CPU levels beside the best one take a part of the list: the ends of each range. */
static bool is_wanted(const selftest *t, const combination *c)
{
    bool other_level = c->level->value != SL_CPU_AUTO;
    bool scalar = t->o->engine.backend == SL_BACKEND_SCALAR;
    bool ends = c->budget->value == MINIMUM || c->budget->value == ALL;
    if (other_level) return !scalar && ends && c->method->value == SL_IO_PREAD && c->chunk->value != 7;
    if (!t->o->quick) return true;
    return ends && (c->method->value == SL_IO_URING || c->method->value == SL_IO_MMAP) && c->chunk->value != 1;
}

static cli_exit walk(selftest *t, cli_exit (*visit)(selftest *t, const combination *c))
{
    const size_t n[5] = {COUNT(levels), COUNT(budgets), COUNT(methods), COUNT(thread_counts), COUNT(chunks)};
    size_t total = n[0] * n[1] * n[2] * n[3] * n[4];
    for (size_t i = 0; i < total; i++) {
        size_t rest = i;
        combination c;
        c.chunk = &chunks[rest % n[4]], rest /= n[4];
        c.threads = &thread_counts[rest % n[3]], rest /= n[3];
        c.method = &methods[rest % n[2]], rest /= n[2];
        c.budget = &budgets[rest % n[1]], rest /= n[1];
        c.level = &levels[rest];
        cli_exit code = is_wanted(t, &c) ? visit(t, &c) : CLI_DONE;
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

static cli_exit count(selftest *t, const combination *c)
{
    (void)c;
    t->n_planned++;
    return CLI_DONE;
}

static cli_exit read_headers(selftest *t)
{
    sl_err err = {0};
    sl_model_file *file = NULL;
    sl_model_info info;
    if (sl_model_file_open(&file, t->o->model, &err) != SL_OK) return cli_fail(&err);
    sl_model_file_info(file, &info);
    sl_model_file_close(file);
    if (!info.n_vocab) {
        cli_error("%s: no vocabulary size is known, so there are no tokens to test with", t->o->model);
        return CLI_FAILED;
    }
    t->file_bytes = info.weight_bytes;
    t->n_vocab = info.n_vocab;
    /* fixed, spread over the vocabulary; 7919 is a prime */
    for (uint32_t i = 0; i < N_PROMPT; i++)
        t->prompt[i] = (int32_t)((1 + UINT64_C(7919) * i * (i + 3)) % info.n_vocab);
    return CLI_DONE;
}

static cli_exit conclude(const selftest *t)
{
    if (t->n_differ) {
        cli_error("selftest: %u of %u runs differ; the first is [%s], compared with [%s]", t->n_differ, t->n_run,
                  t->differs, t->first);
        return CLI_FAILED;
    }
    if (!t->n_run) {
        cli_error("selftest: none of %u combinations runs on this machine", t->n_skip);
        return CLI_FAILED;
    }
    if (t->n_skip) cli_note("%u combinations skipped, see above", t->n_skip);
    printf("selftest: %u runs, one digest %016" PRIx64 "\n", t->n_run, t->digest);
    return CLI_DONE;
}

cli_exit cli_selftest(const cli_options *o)
{
    selftest t = {.o = o};
    cli_exit code = read_headers(&t);
    if (code != CLI_DONE) return code;
    walk(&t, count);
    cli_progress_begin();
    code = walk(&t, run_combination);
    return code == CLI_DONE ? conclude(&t) : code;
}
