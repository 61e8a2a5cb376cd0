/* Rotation frequencies by the scaling rules, in double, once per model.
 *
 * With w_i = base^(-2i/R), R = n_rot:
 *   linear   w_i / factor
 *   llama3   lambda = 2 pi / w_i; below orig/high: w_i; above orig/low: w_i / factor; between, with
 *            s = (orig/lambda - low) / (high - low): (1-s) w_i/factor + s w_i
 *   yarn     c(n) = R ln(orig/(2 pi n)) / (2 ln base); lo = c(beta_fast), hi = c(beta_slow), rounded outward unless told
 *            not to; r = clamp((i-lo)/(hi-lo), 0, 1); w_i/factor r + w_i (1-r); cos and sin are multiplied by m
 * Sources: the papers' reference forms as transformers evaluates them; test vectors in tests/test_rope.c. */
#include "model/family.h"

#include "base/mathx.h"

#include <math.h>

#define PI 3.14159265358979323846

static double llama3(const sl_rope_config *r, double w)
{
    double lambda = 2 * PI / w;
    if (lambda < r->orig_ctx / r->high_freq) return w;
    if (lambda > r->orig_ctx / r->low_freq) return w / r->factor;
    double s = (r->orig_ctx / lambda - r->low_freq) / (r->high_freq - r->low_freq);
    return (1 - s) * w / r->factor + s * w;
}

static double yarn_dim(const sl_rope_config *r, double n_rot, double turns)
{
    return n_rot * sl_log64(r->orig_ctx / (2 * PI * turns)) / (2 * sl_log64(r->base));
}

static double yarn(const sl_rope_config *r, uint32_t n_rot, uint32_t i, double w)
{
    double lo = yarn_dim(r, n_rot, r->beta_fast), hi = yarn_dim(r, n_rot, r->beta_slow);
    if (!r->no_truncate) lo = floor(lo), hi = ceil(hi);
    if (lo < 0) lo = 0;
    if (hi > n_rot - 1) hi = n_rot - 1;
    if (lo == hi) hi += 0.001;
    double t = (i - lo) / (hi - lo);
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return w / r->factor * t + w * (1 - t);
}

static double yarn_m(const sl_rope_config *r)
{
    if (r->attn_factor > 0) return r->attn_factor;
    return r->factor <= 1 ? 1 : 0.1 * sl_log64(r->factor) + 1;
}

void sl_rope_table(const sl_rope_config *r, uint32_t n_rot, const float *divisors, float *inv_freq, float *mscale)
{
    for (uint32_t i = 0; i < n_rot / 2; i++) {
        double w = i ? sl_pow64(r->base, -2.0 * i / n_rot) : 1;
        switch (r->scaling) {
        case SL_ROPE_NONE: break;
        case SL_ROPE_LINEAR: w /= r->factor; break;
        case SL_ROPE_LLAMA3: w = llama3(r, w); break;
        case SL_ROPE_YARN: w = yarn(r, n_rot, i, w); break;
        }
        inv_freq[i] = (float)(divisors ? w / divisors[i] : w);
    }
    *mscale = r->scaling == SL_ROPE_YARN ? (float)yarn_m(r) : 1.0f;
}
