/* From logits to a token.  The order of the stages and every formula are in docs/sampling.md; here they are in that order.
 *
 * Elementary functions are the project's own and sums run in a fixed order, so that a seed means the same token on every
 * machine.  The generator is counter-based: the n-th draw depends on seed and n only. */
#include "engine/engine_int.h"

#include "base/mathx.h"

#include <math.h>
#include <string.h>

typedef struct {
    float logit;
    int32_t id;
    double p;
} candidate;

struct sl_sampler {
    sl_sampler_options o;
    uint32_t n_vocab;
    uint64_t n_draw;
    bool penalties;
    uint32_t *count;     /* [n_vocab] occurrences inside the window; NULL without penalties */
    int32_t *window;     /* ring of the last repeat_last_tok tokens; NULL: no bound */
    uint32_t n_window, at_window;
    candidate *cand;     /* [n_cand_max]; NULL when greedy */
    uint32_t n_cand_max;
    sl_grammar *grammar; /* NULL: none */
    sl_guide *guide;
    uint64_t guide_bytes;
    sl_err refused; /* why an accepted token broke the grammar; code OK: none did */
};

uint64_t sl_sampler_reserve_bytes(const sl_model *m)
{
    return (uint64_t)m->c.n_vocab * (sizeof(candidate) + sizeof(uint32_t));
}

void sl_sampler_options_init(sl_sampler_options *o)
{
    *o = (sl_sampler_options){.struct_size = sizeof *o, .temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f,
                              .repeat_penalty = 1};
}

static sl_status check(const sl_sampler_options *o, sl_err *err)
{
    if (o->struct_size != sizeof *o)
        return sl_fail(err, SL_ERR_ARG, "sampler options of %zu bytes, this library has %zu", o->struct_size, sizeof *o);
    if (!(o->temp >= 0 && o->temp <= 100)) return sl_fail(err, SL_ERR_ARG, "temp is %g, outside 0 to 100", (double)o->temp);
    if (!(o->top_p > 0 && o->top_p <= 1)) return sl_fail(err, SL_ERR_ARG, "top-p is %g, outside (0, 1]", (double)o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1)) return sl_fail(err, SL_ERR_ARG, "min-p is %g, outside 0 to 1", (double)o->min_p);
    if (!(o->repeat_penalty > 0 && o->repeat_penalty <= 100))
        return sl_fail(err, SL_ERR_ARG, "repeat-penalty is %g, outside (0, 100]", (double)o->repeat_penalty);
    if (!(fabsf(o->presence_penalty) <= 100))
        return sl_fail(err, SL_ERR_ARG, "presence-penalty is %g, outside -100 to 100", (double)o->presence_penalty);
    if (!(fabsf(o->frequency_penalty) <= 100))
        return sl_fail(err, SL_ERR_ARG, "frequency-penalty is %g, outside -100 to 100", (double)o->frequency_penalty);
    return SL_OK;
}

static bool allocate(sl_sampler *sm)
{
    if (sm->penalties && !(sm->count = sl_calloc(sm->n_vocab, sizeof *sm->count))) return false;
    if (sm->penalties && sm->o.repeat_last_tok && !(sm->window = sl_calloc(sm->o.repeat_last_tok, sizeof *sm->window)))
        return false;
    if (sm->o.temp == 0) return true;
    sm->n_cand_max = sm->o.top_k && sm->o.top_k < sm->n_vocab ? sm->o.top_k : sm->n_vocab;
    sm->cand = sl_calloc(sm->n_cand_max, sizeof *sm->cand);
    return sm->cand != NULL;
}

sl_status sl_sampler_open(sl_sampler **out, uint32_t n_vocab, const sl_sampler_options *o, sl_err *err)
{
    sl_status rc = check(o, err);
    if (rc != SL_OK) return rc;
    if (!n_vocab) return sl_fail(err, SL_ERR_ARG, "a vocabulary of 0 tokens");
    sl_sampler *sm = sl_calloc(1, sizeof *sm);
    if (!sm) return sl_fail(err, SL_ERR_NOMEM, "no memory for a sampler");
    sm->o = *o;
    sm->n_vocab = n_vocab;
    sm->penalties = o->repeat_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0;
    if (!allocate(sm)) {
        sl_sampler_close(sm);
        return sl_fail(err, SL_ERR_NOMEM, "no memory for a sampler over %u tokens", n_vocab);
    }
    *out = sm;
    return SL_OK;
}

void sl_sampler_close(sl_sampler *sm)
{
    if (!sm) return;
    if (sm->grammar) sl_grammar_guide_close(sm->grammar, sm->guide, sm->guide_bytes);
    sl_free(sm->count);
    sl_free(sm->window);
    sl_free(sm->cand);
    sl_free(sm);
}

/* ---- the grammar ---- */

sl_status sl_sampler_set_grammar(sl_sampler *sm, sl_grammar *g, sl_err *err)
{
    sm->refused.code = SL_OK;
    if (g && g == sm->grammar) return sl_guide_reset(sm->guide, err);
    sl_guide *guide = NULL;
    uint64_t bytes = 0;
    sl_status rc = g ? sl_grammar_guide(g, sm->n_vocab, &guide, &bytes, err) : SL_OK;
    if (rc != SL_OK) return rc;
    if (sm->grammar) sl_grammar_guide_close(sm->grammar, sm->guide, sm->guide_bytes);
    sm->grammar = g;
    sm->guide = guide;
    sm->guide_bytes = bytes;
    return SL_OK;
}

bool sl_sampler_is_complete(const sl_sampler *sm)
{
    return sm->guide && sm->refused.code == SL_OK && sl_guide_must_end(sm->guide);
}

sl_status sl_sampler_rollback_grammar(sl_sampler *sm, size_t n, sl_err *err)
{
    if (!sm->guide) return sl_fail(err, SL_ERR_ARG, "the sampler has no grammar to take back");
    if (sm->refused.code != SL_OK) return sl_fail(err, sm->refused.code, "%s", sm->refused.msg);
    return sl_guide_rollback(sm->guide, n, err);
}

/* ---- the text so far ---- */

void sl_sampler_accept(sl_sampler *sm, int32_t token)
{
    if (sm->guide && sm->refused.code == SL_OK) sl_guide_accept(sm->guide, token, &sm->refused);
    if (!sm->penalties || token < 0 || (uint32_t)token >= sm->n_vocab) return;
    sm->count[token]++;
    if (!sm->window) return;
    if (sm->n_window == sm->o.repeat_last_tok)
        sm->count[sm->window[sm->at_window]]--;
    else
        sm->n_window++;
    sm->window[sm->at_window] = token;
    sm->at_window = (sm->at_window + 1) % sm->o.repeat_last_tok;
}

/* ---- 1. penalties: once per distinct token ---- */

static float penalised(const sl_sampler *sm, const float *logits, uint32_t id)
{
    float v = logits[id];
    if (!sm->penalties || !sm->count[id]) return v;
    v = v > 0 ? v / sm->o.repeat_penalty : v * sm->o.repeat_penalty;
    return v - (float)sm->count[id] * sm->o.frequency_penalty - sm->o.presence_penalty;
}

/* ---- 2. top-k: the best n of the vocabulary, a heap with the worst kept one on top ---- */

/* Ties go to the lower id. */
static bool better(const candidate *a, const candidate *b)
{
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

static void swap(candidate *a, candidate *b)
{
    candidate t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(candidate *h, uint32_t n, uint32_t i)
{
    for (uint32_t worst = i;; i = worst) {
        for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
            if (better(&h[worst], &h[k])) worst = k;
        if (worst == i) return;
        swap(&h[i], &h[worst]);
    }
}

static void heap_build(candidate *h, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;) sift_down(h, n, i);
}

/* The first token at or behind id that the mask allows (NULL: all), or n. */
static inline uint32_t next_allowed(const uint64_t *mask, uint32_t n, uint32_t id)
{
    while (mask && id < n) {
        uint64_t rest = mask[id >> 6] >> (id & 63);
        if (rest) return id + (uint32_t)__builtin_ctzll(rest);
        id = (id | 63) + 1;
    }
    return id < n ? id : n;
}

/* Leaves the best most (or fewer, when fewer are allowed) of all allowed tokens in cand, best first; returns their
 * number, at least 1. */
static uint32_t take_best(sl_sampler *sm, const float *logits, const uint64_t *mask, uint32_t most)
{
    candidate *h = sm->cand;
    uint32_t n = 0, id = next_allowed(mask, sm->n_vocab, 0);
    for (; n < most && id < sm->n_vocab; id = next_allowed(mask, sm->n_vocab, id + 1))
        h[n++] = (candidate){penalised(sm, logits, id), (int32_t)id, 0};
    heap_build(h, n);
    for (; id < sm->n_vocab; id = next_allowed(mask, sm->n_vocab, id + 1)) {
        candidate c = {penalised(sm, logits, id), (int32_t)id, 0};
        if (!better(&c, &h[0])) continue;
        h[0] = c;
        sift_down(h, n, 0);
    }
    for (uint32_t i = n; i-- > 1;) {
        swap(&h[0], &h[i]);
        sift_down(h, i, 0);
    }
    return n;
}

/* ---- 3. to 6. ---- */

static double weights(candidate *c, uint32_t n, double temp)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        c[i].p = sl_exp64(((double)c[i].logit - (double)c[0].logit) / temp);
        sum += c[i].p;
    }
    return sum;
}

/* Keeps the fewest whose probabilities reach p, the one that crosses included; at least one. */
static uint32_t top_p(const candidate *c, uint32_t n, double sum, double p)
{
    double seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        seen += c[i].p;
        if (seen >= p * sum) return i + 1;
    }
    return n;
}

static uint32_t min_p(const candidate *c, uint32_t n, double p)
{
    uint32_t kept = 1;
    while (kept < n && c[kept].p >= p * c[0].p) kept++;
    return kept;
}

/* SplitMix64's finaliser over seed and draw number, 53 bits in [0, 1). */
static double draw(uint64_t seed, uint64_t n)
{
    uint64_t z = seed + (n + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

static int32_t pick(const candidate *c, uint32_t n, double r)
{
    double seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        seen += c[i].p;
        if (r < seen) return c[i].id;
    }
    return c[n - 1].id;
}

static int32_t best_of(const sl_sampler *sm, const float *logits, const uint64_t *mask)
{
    uint32_t best = next_allowed(mask, sm->n_vocab, 0);
    float top = penalised(sm, logits, best);
    for (uint32_t id = next_allowed(mask, sm->n_vocab, best + 1); id < sm->n_vocab;
         id = next_allowed(mask, sm->n_vocab, id + 1)) {
        float v = penalised(sm, logits, id);
        if (v > top) top = v, best = id;
    }
    return (int32_t)best;
}

/* With a grammar the best of all tokens is tried first: when it is allowed it is also the best of those allowed, and the
 * mask need not be made. */
static sl_status greedy(sl_sampler *sm, const float *logits, int32_t *token, sl_err *err)
{
    bool allowed = true;
    const uint64_t *mask;
    *token = best_of(sm, logits, NULL);
    sl_status rc = sm->guide ? sl_guide_allows(sm->guide, *token, &allowed, err) : SL_OK;
    if (rc != SL_OK || allowed) return rc;
    rc = sl_guide_mask(sm->guide, &mask, err);
    if (rc == SL_OK) *token = best_of(sm, logits, mask);
    return rc;
}

/* A model that computes NaN or infinity has no next token: saying so beats inventing one. */
static sl_status check_logits(const sl_sampler *sm, const float *logits, sl_err *err)
{
    for (uint32_t i = 0; i < sm->n_vocab; i++)
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return sl_fail(err, SL_ERR_FORMAT, "logit %u is %g: the model's numbers are broken", i, (double)logits[i]);
    return SL_OK;
}

sl_status sl_sample(sl_sampler *sm, const float *logits, int32_t *token, sl_err *err)
{
    sl_status rc = check_logits(sm, logits, err);
    if (rc != SL_OK) return rc;
    if (sm->refused.code != SL_OK) return sl_fail(err, sm->refused.code, "%s", sm->refused.msg);
    if (sm->o.temp == 0) return greedy(sm, logits, token, err);
    const uint64_t *mask = NULL;
    if (sm->guide && (rc = sl_guide_mask(sm->guide, &mask, err)) != SL_OK) return rc;
    candidate *c = sm->cand;
    uint32_t n = take_best(sm, logits, mask, sm->n_cand_max);
    if (c[0].logit == -INFINITY) return sl_fail(err, SL_ERR_FORMAT, "every logit is -inf");
    double sum = weights(c, n, 1);
    if (sm->o.top_p < 1) n = top_p(c, n, sum, (double)sm->o.top_p);
    if (sm->o.min_p > 0) n = min_p(c, n, (double)sm->o.min_p);
    sum = weights(c, n, (double)sm->o.temp);
    *token = pick(c, n, draw(sm->o.seed, sm->n_draw++) * sum);
    return SL_OK;
}
