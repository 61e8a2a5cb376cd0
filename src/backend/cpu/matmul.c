/* sl_matmul and sl_matmul_jobs of the cpu backend: quantises the activations, cuts the rows of all products into chunks,
 * and lets the threads fetch them.  The law is in backend.h, what a kernel is in matmul_int.h.
 *
 * A call for one token is one dispatch: the caller quantises (a microsecond) and then joins the others.  With more
 * tokens quantising is a dispatch of its own, and products of different rules follow each other, so that one area
 * serves both.  Jobs are put together as far as all their inputs find room.
 *
 * Every thread has a range of chunks of its own, one behind the other in memory, and takes of the others' only when it is
 * through: one counter that all of them raise would cost a small chunk as much as its arithmetic. */
#include "backend/backend_int.h"
#include "backend/cpu/matmul_int.h"

#include <stdatomic.h>

enum {
    BATCH = 32,                /* products per dispatch */
    CHUNKS_PER_THREAD = 16,    /* so that a stalled core holds up little */
    CHUNK_MIN_BYTES = 8 << 10, /* of weights: below this fetching the next chunk costs more than it gains */
    CHUNK_MAX_BYTES = 256 << 10,
    AHEAD_BYTES = 6 << 10, /* how far to prefetch, in whole groups or panels */
    RANGES = 64,           /* threads beyond that share */
    SOLO_BYTES = 16 << 10,   /* weight bytes times tokens that are not worth waking anyone for */
    SOLO_ELEMENTS = 16384,   /* of activations to quantise: the same */
    ALIGN = 64,
};

static const sl_mm_level *level_of(sl_cpu_level level)
{
#if defined(__x86_64__)
    if (level == SL_CPU_AVX512) return &sl_mm_avx512;
    if (level == SL_CPU_AVX2) return &sl_mm_avx2;
#endif
    (void)level;
    return &sl_mm_portable;
}

static const sl_mm_kernel *kernel_of(const sl_mm_level *level, uint32_t type_id)
{
    for (uint32_t i = 0; i < SL_MM_N_KERNEL; i++)
        if ((uint32_t)level->kernel[i].type == type_id) return &level->kernel[i];
    return NULL;
}

bool sl_cpu_matmul_supports(const sl_type_info *type)
{
    return kernel_of(&sl_mm_portable, type->id) != NULL;
}

/* ---- scratch: a piece of a panel per thread, then the activations ---- */

/* Bytes that activations of n_tok tokens take. */
static uint64_t act_bytes(uint32_t n_tok, uint32_t n_in, unsigned rules)
{
    sl_arena arena = {0};
    sl_qact a = {.n_in = (uint32_t)sl_round_up(n_in, 256), .n_tok = n_tok, .width = n_tok > 1 ? SL_ACT_WIDTH : 1};
    sl_qact_layout(&a, &arena, rules);
    return arena.failed ? UINT64_MAX / 4 : arena.used;
}

/* Where a thread puts the rows of a panel together whose scales lie apart, or which lie transposed. */
static uint64_t joined_bytes(const sl_backend_options *opt)
{
    uint64_t row = opt->turned ? (uint64_t)opt->max_in * 4 : opt->scales_apart ? (uint64_t)opt->max_in / 32 * 17 : 0;
    return sl_round_up(SL_MM_PANEL * row, ALIGN);
}

/* Inputs of one token each that find room together. */
static uint32_t job_inputs(const sl_backend_options *opt)
{
    return opt->n_job_input < 1 ? 1 : opt->n_job_input > BATCH ? BATCH : opt->n_job_input;
}

static uint64_t acts_bytes(const sl_backend_options *opt)
{
    uint64_t one = act_bytes(1, opt->max_in, SL_RULE_32 | SL_RULE_256);
    uint64_t many =
        sl_max_u64(act_bytes(opt->max_tok, opt->max_in, SL_RULE_32), act_bytes(opt->max_tok, opt->max_in, SL_RULE_256));
    return sl_max_u64(one * job_inputs(opt), many);
}

uint64_t sl_cpu_matmul_scratch_bytes(const sl_backend_options *opt)
{
    uint32_t n_thread = opt->n_thread ? opt->n_thread : sl_cpu_count();
    return ALIGN + (uint64_t)n_thread * (SL_MM_PIECE_BYTES + joined_bytes(opt)) + acts_bytes(opt);
}

/* ---- the work of one dispatch ---- */

typedef struct {
    const sl_mm_kernel *kernel;
    const sl_qact *act;
    const sl_matrix *w;
    float *y;
    size_t ld_y;
    uint32_t step;        /* rows of a group or panel */
    uint32_t rows;        /* of a chunk */
    uint32_t first_chunk; /* number of the product's first */
    uint32_t lead;        /* rows from those at work to those to be prefetched */
} item;

/* Chunks [next, end) that nobody has begun.  next may pass end; relaxed: the pool orders everything else. */
typedef struct {
    _Alignas(ALIGN) atomic_uint next;
    uint32_t end;
} range;

typedef struct {
    uint8_t *pieces; /* [n_thread][piece_bytes]: a piece of a panel, then joined rows */
    size_t piece_bytes;
    uint32_t n_item, n_chunk, n_range;
    item items[BATCH];
    range ranges[RANGES];
} job;

typedef struct {
    const item *it;
    uint32_t row, end;
} chunk;

static chunk chunk_at(const job *j, uint32_t i)
{
    const item *it = j->items + j->n_item - 1;
    while (i < it->first_chunk)
        it--;
    chunk c = {.it = it, .row = (i - it->first_chunk) * it->rows};
    c.end = c.row + (it->w->n_out - c.row < it->rows ? it->w->n_out - c.row : it->rows);
    return c;
}

static const uint8_t *row_at(const sl_matrix *w, uint32_t row)
{
    uint32_t i = w->n_part > 1 && row >= w->part[1].first_row;
    return w->part[i].data + (size_t)(row - w->part[i].first_row) * w->row_bytes;
}

/* Rows that lie one behind the other, and are used where they lie. */
static bool plain(const sl_matrix *w, uint32_t row, uint32_t n)
{
    return !w->scales && !w->turned_bytes && (w->n_part == 1 || row >= w->part[1].first_row || row + n <= w->part[1].first_row);
}

/* Bytes of an output's weights. */
static uint64_t output_bytes(const sl_matrix *w)
{
    return w->turned_bytes ? (uint64_t)w->n_in * w->type->block_bytes : w->row_bytes;
}

static void point_at(sl_mm_rows *rows, const sl_matrix *w, uint32_t row, uint32_t n, uint32_t step, uint8_t *joined)
{
    size_t bytes = w->scales ? (size_t)w->n_in / 32 * 17 : output_bytes(w);
    if (n == step && plain(w, row, n)) {
        const uint8_t *first = row_at(w, row);
        for (uint32_t i = 0; i < step; i++)
            rows->row[i] = first + i * w->row_bytes;
        return;
    }
    for (uint32_t i = 0; i < n && w->scales; i++)
        sl_mxfp4_join(row_at(w, row + i), row_at(w->scales, row + i), joined + i * bytes, w->n_in);
    if (w->turned_bytes) sl_matrix_turn(w, row, n, joined);
    for (uint32_t i = 0; i < step; i++) {
        uint32_t k = i < n ? i : n - 1;
        rows->row[i] = w->scales || w->turned_bytes ? joined + k * bytes : row_at(w, row + k);
    }
}

/* Rows [row, row + n) of a chunk: one group or panel. */
static void multiply(const item *it, const sl_mm_rows *rows, uint32_t row, uint32_t n, uint8_t *piece)
{
    float y[SL_MM_GROUP];
    if (it->act->n_tok > 1) {
        it->kernel->many(rows, n, it->act, piece, it->y + row, it->ld_y);
    } else if (n == SL_MM_GROUP) {
        it->kernel->one(rows, it->act, it->y + row);
    } else {
        it->kernel->one(rows, it->act, y);
        memcpy(it->y + row, y, n * sizeof *y);
    }
}

/* What to prefetch while rows [row, row + step) of c are at work: rows a little later, perhaps of the next chunk. */
static const uint8_t *ahead_of(const chunk *c, const chunk *next, uint32_t row)
{
    const sl_matrix *w = c->it->w;
    if (w->turned_bytes || (next && next->it->w->turned_bytes)) return w->part[0].data; /* turned rows are in the cache */
    uint64_t later = (uint64_t)row + c->it->lead;
    if (later < c->end) return row_at(w, (uint32_t)later);
    if (!next) return row_at(w, row);
    later = next->row + sl_min_u64(later - c->end, next->end - next->row - 1);
    return row_at(next->it->w, (uint32_t)later);
}

/* next is what this thread probably does after c; NULL: nothing. */
static void run_chunk(const chunk *c, const chunk *next, uint8_t *piece)
{
    const uint32_t step = c->it->step;
    sl_mm_rows rows;
    for (uint32_t row = c->row; row < c->end; row += step) {
        uint32_t n = c->end - row < step ? c->end - row : step;
        point_at(&rows, c->it->w, row, n, step, piece + SL_MM_PIECE_BYTES);
        rows.ahead = ahead_of(c, next, row);
        multiply(c->it, &rows, row, n, piece);
    }
}

/* The next chunk for a thread: of its own range, then of the others'. */
static bool claim(job *j, uint32_t i_thread, uint32_t *i_chunk)
{
    for (uint32_t k = 0; k < j->n_range; k++) {
        range *r = &j->ranges[(i_thread + k) % j->n_range];
        if (atomic_load_explicit(&r->next, memory_order_relaxed) >= r->end) continue;
        *i_chunk = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        if (*i_chunk < r->end) return true;
    }
    return false;
}

static void work(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    job *j = arg;
    (void)n_thread;
    uint8_t *piece = j->pieces + i_thread * j->piece_bytes;
    for (uint32_t i; claim(j, i_thread, &i);) {
        bool last = i + 1 == j->n_chunk;
        chunk c = chunk_at(j, i), next = last ? c : chunk_at(j, i + 1);
        run_chunk(&c, last ? NULL : &next, piece);
    }
}

/* ---- cutting ---- */

static uint64_t item_bytes(const item *it)
{
    return it->w->n_out * output_bytes(it->w);
}

/* Chunks of about equal work, whole groups or panels each. */
static void cut(job *j, uint32_t n_thread)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < j->n_item; i++) sum += item_bytes(&j->items[i]);
    uint64_t want = sl_max_u64(CHUNK_MIN_BYTES, sum / (n_thread * CHUNKS_PER_THREAD));
    want = sl_min_u64(want, CHUNK_MAX_BYTES);
    j->n_chunk = 0;
    for (uint32_t i = 0; i < j->n_item; i++) {
        item *it = &j->items[i];
        uint64_t steps = sl_max_u64(1, want / (1 + it->act->n_tok / 8) / (output_bytes(it->w) * it->step));
        steps = sl_min_u64(steps, (it->w->n_out + it->step - 1) / it->step);
        it->rows = (uint32_t)steps * it->step;
        it->lead = it->step * (1 + (uint32_t)(AHEAD_BYTES / (1 + it->w->row_bytes * it->step)));
        it->first_chunk = j->n_chunk;
        j->n_chunk += (it->w->n_out + it->rows - 1) / it->rows;
    }
}

/* A range for every thread. */
static void share_out(job *j, uint32_t n_thread)
{
    j->n_range = n_thread < RANGES ? n_thread : RANGES;
    for (uint32_t i = 0; i < j->n_range; i++) {
        uint64_t from, to;
        sl_share(j->n_chunk, i, j->n_range, &from, &to);
        atomic_store_explicit(&j->ranges[i].next, (uint32_t)from, memory_order_relaxed);
        j->ranges[i].end = (uint32_t)to;
    }
}

static bool is_small(const job *j)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < j->n_item; i++) sum += item_bytes(&j->items[i]) * j->items[i].act->n_tok;
    return sum < SOLO_BYTES;
}

static void add_item(job *j, const sl_mm_level *level, const sl_matrix *w, const sl_qact *act, float *y, size_t ld_y)
{
    uint32_t step = act->n_tok > 1 ? level->panel : SL_MM_GROUP;
    if (!w->n_out) return;
    j->items[j->n_item++] =
        (item){.kernel = kernel_of(level, w->type->id), .act = act, .w = w, .y = y, .ld_y = ld_y, .step = step};
}

static void dispatch(sl_backend *b, job *j)
{
    uint32_t n_thread = sl_pool_count(b->pool);
    if (!j->n_item) return;
    cut(j, n_thread);
    share_out(j, n_thread);
    if (n_thread == 1 || j->n_chunk == 1 || is_small(j))
        work(j, 0, 1);
    else
        sl_pool_run(b->pool, work, j);
    j->n_item = 0;
}

/* ---- activations ---- */

typedef struct {
    const sl_qact *acts;
    const unsigned *rules; /* of each */
    uint32_t n_act;
    sl_cpu_level level;
} quantise_job;

/* A thread's share of all groups, one input behind the other. */
static void quantise_part(void *arg, uint32_t i_thread, uint32_t n_thread)
{
    const quantise_job *q = arg;
    uint64_t all = 0, at = 0, from, to;
    for (uint32_t i = 0; i < q->n_act; i++) all += sl_qact_groups(&q->acts[i]);
    sl_share(all, i_thread, n_thread, &from, &to);
    for (uint32_t i = 0, n; i < q->n_act && at < to; i++, at += n) {
        n = sl_qact_groups(&q->acts[i]);
        if (at + n <= from) continue;
        sl_qact_quantise(&q->acts[i], q->level, q->rules[i], (uint32_t)(sl_max_u64(at, from) - at),
                         (uint32_t)(sl_min_u64(at + n, to) - at));
    }
}

static void quantise(sl_backend *b, const sl_qact *acts, const unsigned *rules, uint32_t n_act)
{
    quantise_job q = {acts, rules, n_act, b->opt.level};
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_act; i++)
        if (rules[i] != SL_RULE_FLOAT) n += (uint64_t)acts[i].n_in * acts[i].n_tok;
    if (n >= SOLO_ELEMENTS)
        sl_pool_run(b->pool, quantise_part, &q);
    else
        quantise_part(&q, 0, 1);
}

/* ---- the call ---- */

static unsigned rules_of(const sl_mm_level *level, const sl_product *p, uint32_t n_product)
{
    unsigned rules = 0;
    for (uint32_t i = 0; i < n_product; i++)
        rules |= kernel_of(level, p[i].w->type->id)->rule;
    return rules;
}

/* All products whose rule is one of rules; their activations fit the scratch together. */
static void run_rules(sl_backend *b, const sl_mm_level *level, job *j, sl_qact *act, sl_arena arena, unsigned rules,
                      const sl_product *p, uint32_t n_product)
{
    sl_qact_layout(act, &arena, rules);
    quantise(b, act, &rules, 1);
    for (uint32_t i = 0; i < n_product; i++) {
        if (!(kernel_of(level, p[i].w->type->id)->rule & rules)) continue;
        add_item(j, level, p[i].w, act, p[i].y, p[i].ld_y);
        if (j->n_item == BATCH) dispatch(b, j);
    }
    dispatch(b, j);
}

static size_t piece_bytes(const sl_backend *b)
{
    return SL_MM_PIECE_BYTES + joined_bytes(&b->opt);
}

static uint8_t *scratch_of(const sl_backend *b)
{
    return b->act + (ALIGN - (uintptr_t)b->act % ALIGN) % ALIGN;
}

void sl_cpu_matmul(sl_backend *b, const sl_product *p, uint32_t n_product, const float *x, size_t ld_x, uint32_t n_tok)
{
    const sl_mm_level *level = level_of(b->opt.level);
    uint8_t *scratch = scratch_of(b);
    sl_qact act = {.x = x, .ld_x = ld_x, .n_in = p[0].w->n_in, .n_tok = n_tok, .width = n_tok > 1 ? level->width : 1};
    job j = {.pieces = scratch, .piece_bytes = piece_bytes(b)};
    sl_arena arena = {.base = scratch + b->opt.n_thread * piece_bytes(b), .cap = SIZE_MAX / 2};
    unsigned rules = rules_of(level, p, n_product);
    if (n_tok == 1) {
        run_rules(b, level, &j, &act, arena, rules, p, n_product);
        return;
    }
    for (unsigned rule = SL_RULE_FLOAT; rule <= SL_RULE_256; rule <<= 1)
        if (rules & rule) run_rules(b, level, &j, &act, arena, rule, p, n_product);
}

/* ---- many products of different inputs ---- */

/* Jobs whose inputs find room together, as one piece of work. */
typedef struct {
    job j;
    sl_qact acts[BATCH];
    unsigned rules[BATCH]; /* of each */
    uint32_t n_act;
    sl_arena arena;
} batch;

/* How many jobs from the first on share its input. */
static uint32_t same_input(const sl_matmul_job *jobs, uint32_t n_job)
{
    uint32_t n = 1;
    while (n < n_job && n < BATCH && jobs[n].x == jobs[0].x && jobs[n].ld_x == jobs[0].ld_x && jobs[n].n_tok == jobs[0].n_tok &&
           jobs[n].w->n_in == jobs[0].w->n_in)
        n++;
    return n;
}

/* n jobs of one input; false: there is no room for it. */
static bool add_jobs(batch *t, const sl_mm_level *level, const sl_matmul_job *jobs, uint32_t n)
{
    sl_arena arena = t->arena;
    sl_qact *act = &t->acts[t->n_act];
    unsigned rules = 0;
    if (t->j.n_item + n > BATCH || t->n_act == BATCH) return false;
    for (uint32_t i = 0; i < n; i++) rules |= kernel_of(level, jobs[i].w->type->id)->rule;
    *act = (sl_qact){.x = jobs[0].x, .ld_x = jobs[0].ld_x, .n_in = jobs[0].w->n_in, .n_tok = jobs[0].n_tok};
    act->width = act->n_tok > 1 ? level->width : 1;
    sl_qact_layout(act, &arena, rules);
    if (arena.failed) return false;
    t->arena = arena;
    t->rules[t->n_act++] = rules;
    for (uint32_t i = 0; i < n; i++) add_item(&t->j, level, jobs[i].w, act, jobs[i].y, jobs[i].ld_y);
    return true;
}

/* Jobs from the first on, as many as one dispatch takes; returns their number, 0 if the first input alone is too large. */
static uint32_t run_batch(sl_backend *b, const sl_mm_level *level, const sl_matmul_job *jobs, uint32_t n_job)
{
    uint8_t *scratch = scratch_of(b);
    batch t = {.j = {.pieces = scratch, .piece_bytes = piece_bytes(b)},
               .arena = {.base = scratch + b->opt.n_thread * piece_bytes(b), .cap = acts_bytes(&b->opt)}};
    uint32_t done = 0;
    for (uint32_t n; done < n_job; done += n) {
        n = same_input(jobs + done, n_job - done);
        if (jobs[done].n_tok && !add_jobs(&t, level, jobs + done, n)) break;
    }
    quantise(b, t.acts, t.rules, t.n_act);
    dispatch(b, &t.j);
    return done;
}

/* Jobs of one input of many tokens and more than one rule are products: rule by rule the input has room. */
static uint32_t run_products(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job)
{
    uint32_t n = same_input(jobs, n_job);
    sl_product p[BATCH];
    for (uint32_t i = 0; i < n; i++) p[i] = (sl_product){jobs[i].w, jobs[i].y, jobs[i].ld_y};
    sl_cpu_matmul(b, p, n, jobs[0].x, jobs[0].ld_x, jobs[0].n_tok);
    return n;
}

void sl_cpu_matmul_jobs(sl_backend *b, const sl_matmul_job *jobs, uint32_t n_job)
{
    const sl_mm_level *level = level_of(b->opt.level);
    for (uint32_t i = 0, n; i < n_job; i += n) {
        n = run_batch(b, level, jobs + i, n_job - i);
        if (!n) n = run_products(b, jobs + i, n_job - i);
    }
}
