/* Quantises activations: layout, the portable version, and the choice of version.  See act.h. */
#include "backend/cpu/act.h"

#include <math.h>
#include <string.h>

void sl_qact_layout(sl_qact *a, sl_arena *arena, unsigned rules)
{
    size_t n_slot = (size_t)sl_qact_groups(a) * a->width, n_32 = n_slot * (a->n_in / 32),
           n_256 = n_slot * (a->n_in / 256);
    if (rules & SL_RULE_32) {
        a->r32.q = sl_arena_take(arena, n_32, 32, 64);
        a->r32.d = sl_arena_take(arena, n_32 * 2, sizeof(float), 64);
        a->r32.s = sl_arena_take(arena, n_32, sizeof(float), 64);
        a->r32.sum = sl_arena_take(arena, n_32 * 2, sizeof(int32_t), 64);
    }
    if (rules & SL_RULE_256) {
        a->r256.q = sl_arena_take(arena, n_256, 256, 64);
        a->r256.d = sl_arena_take(arena, n_256, sizeof(float), 64);
        a->r256.sum16 = sl_arena_take(arena, n_256, 16 * sizeof(int16_t), 64);
        a->r256.sum32 = sl_arena_take(arena, n_256, 8 * sizeof(int16_t), 64);
    }
}

void sl_qact_quantise(const sl_qact *a, sl_cpu_level level, unsigned rules, uint32_t first, uint32_t end)
{
    for (uint32_t g = first; g < end; g++) {
#if defined(__x86_64__)
        if (level != SL_CPU_PORTABLE) {
            sl_qact_group_avx2(a, rules, g);
            continue;
        }
#endif
        (void)level;
        sl_qact_group_portable(a, rules, g);
    }
}

/* ---- portable ---- */

/* q [n] of x [n]; returns d. */
static float quantise(int8_t *q, const float *x, uint32_t n)
{
    union {
        uint32_t bits;
        float f;
    } top = {0}, v;
    for (uint32_t i = 0; i < n; i++) {
        v.f = x[i];
        v.bits &= 0x7fffffff;
        if (v.bits > top.bits) top = v;
    }
    float d = top.f / 127.0f;
    bool usable = d > 0x1p-128f && top.bits < 0x7f800000;
    float inv = usable ? 1.0f / d : 0;
    for (uint32_t i = 0; i < n; i++)
        q[i] = usable ? (int8_t)lrintf(x[i] * inv) : 0;
    return d;
}

static int sum_of(const int8_t *q, uint32_t n)
{
    int sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += q[i];
    return sum;
}

/* Spreads q [n] of one token over its places; to[0] is its first. */
static void place(int8_t *to, const int8_t *q, uint32_t n, uint32_t width)
{
    for (uint32_t i = 0; i < n; i += 4)
        memcpy(to + (size_t)i * width, q + i, 4);
}

static void token_32(const sl_qact *a, const float *x, uint32_t group, uint32_t t)
{
    for (uint32_t b = 0; b < a->n_in / 32; b++) {
        sl_qrows r = sl_qact_at32(a, group, b, t);
        int8_t q[32];
        for (uint32_t h = 0; h < 2; h++) {
            r.d[h * a->width] = quantise(q + h * 16, x + b * 32 + h * 16, 16);
            r.sum[h * a->width] = sum_of(q + h * 16, 16);
        }
        *r.s = fmaf(r.d[a->width], (float)r.sum[a->width], r.d[0] * (float)r.sum[0]);
        place(r.q, q, 32, a->width);
    }
}

static void token_256(const sl_qact *a, const float *x, uint32_t group, uint32_t t)
{
    for (uint32_t b = 0; b < a->n_in / 256; b++) {
        sl_qrows r = sl_qact_at256(a, group, b, t);
        int8_t q[256];
        *r.d = quantise(q, x + b * 256, 256);
        for (uint32_t i = 0; i < 16; i++)
            r.sum16[i / 2 * a->width * 2 + i % 2] = (int16_t)sum_of(q + i * 16, 16);
        for (uint32_t i = 0; i < 8; i++)
            r.sum32[i / 2 * a->width * 2 + i % 2] = (int16_t)sum_of(q + i * 32, 32);
        place(r.q, q, 256, a->width);
    }
}

void sl_qact_group_portable(const sl_qact *a, unsigned rules, uint32_t group)
{
    for (uint32_t t = 0; t < a->width && group * a->width + t < a->n_tok; t++) {
        const float *x = a->x + (size_t)(group * a->width + t) * a->ld_x;
        if (rules & SL_RULE_32) token_32(a, x, group, t);
        if (rules & SL_RULE_256) token_256(a, x, group, t);
    }
}
