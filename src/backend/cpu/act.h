/* Activations as the matrix kernels read them: quantised once per sl_matmul call, by the rules of its law (backend.h).
 *
 * Tokens stand in groups of `width` side by side, so that a kernel that works on a tile of tokens walks straight
 * through memory; width is 1 for a single token and in the portable level.  The last group may have unused places.
 *
 * What the law leaves open is settled here: the largest |x| of a block is found by its bits, so a NaN or infinity is
 * the largest; when d is not finite or 1/d would not be (d <= 2^-128), all q are 0.  A product with such a block is NaN
 * in the first case, and 0 in the second. */
#ifndef SL_CPU_ACT_H
#define SL_CPU_ACT_H

#include "base/base.h"

/* What a weight type asks of its activations.  Bits of a set. */
typedef enum {
    SL_RULE_FLOAT = 1, /* as they are */
    SL_RULE_32 = 2,    /* int8 by blocks of 32, each half of a block with a scale of its own */
    SL_RULE_256 = 4,   /* int8 by blocks of 256 */
} sl_rule;

enum { SL_ACT_WIDTH = 8 }; /* the largest width */

/* Activations of one rule; n_block = n_in / (32 or 256). */
typedef struct {
    int8_t *q;      /* [n_group][n_in / 4][width][4] */
    float *d;       /* rule 32: [n_group][n_block][2 halves][width]; rule 256: [n_group][n_block][width] */
    float *s;       /* rule 32: [n_group][n_block][width], the sum of d * q over the block */
    int32_t *sum;   /* rule 32: [n_group][n_block][2 halves][width], sum(q) */
    int16_t *sum16; /* rule 256: [n_group][n_block][8][width][2], sums of 16 neighbours, by pairs */
    int16_t *sum32; /* rule 256: [n_group][n_block][4][width][2], sums of 32 neighbours, by pairs */
} sl_qrows;

typedef struct {
    const float *x; /* [n_tok][n_in], ld_x floats from token to token */
    size_t ld_x;
    uint32_t n_in, n_tok, width;
    sl_qrows r32, r256;
} sl_qact;

static inline uint32_t sl_qact_groups(const sl_qact *a)
{
    return (a->n_tok + a->width - 1) / a->width;
}

/* Places the rows of the given rules (a set) in the arena; n_in, n_tok and width are filled in. */
void sl_qact_layout(sl_qact *a, sl_arena *arena, unsigned rules);

/* Quantises the tokens of groups [first, end) by the given rules. */
void sl_qact_quantise(const sl_qact *a, sl_cpu_level level, unsigned rules, uint32_t first, uint32_t end);

/* The same for one group, by level. */
void sl_qact_group_portable(const sl_qact *a, unsigned rules, uint32_t group);
void sl_qact_group_avx2(const sl_qact *a, unsigned rules, uint32_t group);

/* Where token t of a group stands, from a block on. */
static inline sl_qrows sl_qact_at32(const sl_qact *a, uint32_t group, uint32_t block, uint32_t t)
{
    const sl_qrows *r = &a->r32;
    size_t n_block = a->n_in / 32, i = (group * n_block + block) * a->width;
    return (sl_qrows){.q = r->q + i * 32 + t * 4, .d = r->d + i * 2 + t, .s = r->s + i + t, .sum = r->sum + i * 2 + t};
}

static inline sl_qrows sl_qact_at256(const sl_qact *a, uint32_t group, uint32_t block, uint32_t t)
{
    const sl_qrows *r = &a->r256;
    size_t n_block = a->n_in / 256, i = (group * n_block + block) * a->width;
    return (sl_qrows){.q = r->q + i * 256 + t * 4,
                      .d = r->d + i + t,
                      .sum16 = r->sum16 + i * 16 + t * 2,
                      .sum32 = r->sum32 + i * 8 + t * 2};
}

#endif
