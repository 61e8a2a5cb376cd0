/* From a router's logits to experts and weights, one token at a time: the code of every implementation, since it is a
 * thousandth of the work.  The rule is written out at sl_route (backend.h). */
#include "backend/backend_int.h"

#include "base/mathx.h"

#include <math.h>
#include <string.h>

#define NORM_GUARD 1e-20f

/* e = exp(z - max z); returns the sum in order. */
static float exponentials(float *e, const float *z, uint32_t n)
{
    float max = z[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        if (z[i] > max) max = z[i];
    for (uint32_t i = 0; i < n; i++) {
        e[i] = sl_expf(z[i] - max);
        sum += e[i];
    }
    return sum;
}

static void score(const sl_routing *r, const float *z, float *p)
{
    switch (r->score) {
    case SL_SCORE_SOFTMAX: {
        float sum = exponentials(p, z, r->n_expert);
        for (uint32_t i = 0; i < r->n_expert; i++) p[i] /= sum;
        break;
    }
    case SL_SCORE_SIGMOID:
        for (uint32_t i = 0; i < r->n_expert; i++) p[i] = 1.0f / (1.0f + sl_expf(-z[i]));
        break;
    case SL_SCORE_SOFTMAX_SELECTED: memcpy(p, z, r->n_expert * sizeof *p); break;
    }
}

/* The highest of values not taken, the lowest index of equal ones. */
static uint32_t best(const float *value, const bool *taken, uint32_t n)
{
    uint32_t at = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (at == n || value[i] > value[at])) at = i;
    return at;
}

static float group_score(sl_group_score rule, const float *c, uint32_t n)
{
    float first = c[0], second = -INFINITY;
    for (uint32_t i = 1; i < n; i++) {
        if (c[i] > first) {
            second = first;
            first = c[i];
        } else if (c[i] > second) {
            second = c[i];
        }
    }
    return rule == SL_GROUP_TOP2 && n > 1 ? first + second : first;
}

/* Marks the experts of all groups but the best as taken. */
static void limit_groups(const sl_routing *r, const float *c, bool *taken)
{
    float scores[SL_MAX_ROUTED];
    bool kept[SL_MAX_ROUTED] = {false};
    uint32_t n = r->n_expert / r->n_group;
    for (uint32_t g = 0; g < r->n_group; g++) scores[g] = group_score(r->group_score, c + g * n, n);
    for (uint32_t k = 0; k < r->n_group_used; k++) kept[best(scores, kept, r->n_group)] = true;
    for (uint32_t i = 0; i < r->n_expert; i++) taken[i] = !kept[i / n];
}

void sl_route_row(const sl_routing *r, const float *logits, const float *bias, uint32_t *ids, float *weights)
{
    float p[SL_MAX_ROUTED], c[SL_MAX_ROUTED];
    bool taken[SL_MAX_ROUTED] = {false};
    score(r, logits, p);
    for (uint32_t i = 0; i < r->n_expert; i++) c[i] = bias ? p[i] + bias[i] : p[i];
    if (r->n_group > 1) limit_groups(r, c, taken);
    for (uint32_t s = 0; s < r->n_used; s++) {
        ids[s] = best(c, taken, r->n_expert);
        taken[ids[s]] = true;
        weights[s] = p[ids[s]];
    }
    if (r->score == SL_SCORE_SOFTMAX_SELECTED) {
        memcpy(c, weights, r->n_used * sizeof *c);
        float sum = exponentials(weights, c, r->n_used);
        for (uint32_t s = 0; s < r->n_used; s++) weights[s] /= sum;
    }
    float sum = 0;
    for (uint32_t s = 0; s < r->n_used; s++) sum += weights[s];
    for (uint32_t s = 0; s < r->n_used; s++) {
        float w = r->normalise ? weights[s] / (sum + NORM_GUARD) : weights[s];
        weights[s] = w * r->scale;
    }
}

void sl_limit_row(float *gate, float *up, uint32_t n, float alpha, float limit)
{
    const float inverse = 1.0f / alpha;
    for (uint32_t i = 0; i < n; i++) {
        float g = gate[i] > limit ? limit : gate[i];
        float u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        gate[i] = g * alpha;
        up[i] = (u + 1.0f) * inverse;
    }
}
