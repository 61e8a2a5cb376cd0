/* The table of tensor types: every id of the GGUF standard, so that messages can name what they refuse, and the
 * safetensors dtypes that GGUF lacks under private ids.  Which of them can be computed with is the decoder column and
 * nothing else.  Sizes are facts of the formats. */
#include "quant/quant_int.h"

#define REMOVED    "removed from the format, quantise the model again"
#define ACTIVATION "made for activations, not for model files"

/* clang-format off */
static const sl_type_info types[] = {
    /* computed with */
    {SL_F32,  "F32",  1, 4, sl_decode_f32, NULL},
    {SL_F16,  "F16",  1, 2, sl_decode_f16, NULL},
    {SL_BF16, "BF16", 1, 2, sl_decode_bf16, NULL},
    {SL_Q8_0, "Q8_0", 32, 34, sl_decode_q8_0, NULL},
    {SL_Q4_0, "Q4_0", 32, 18, sl_decode_q4_0, NULL},
    {SL_Q4_1, "Q4_1", 32, 20, sl_decode_q4_1, NULL},
    {SL_Q5_0, "Q5_0", 32, 22, sl_decode_q5_0, NULL},
    {SL_Q5_1, "Q5_1", 32, 24, sl_decode_q5_1, NULL},
    {SL_Q4_K, "Q4_K", 256, 144, sl_decode_q4_k, NULL},
    {SL_Q5_K, "Q5_K", 256, 176, sl_decode_q5_k, NULL},
    {SL_Q6_K, "Q6_K", 256, 210, sl_decode_q6_k, NULL},
    {SL_MXFP4, "MXFP4", 32, 17, sl_decode_mxfp4, NULL},

    /* GGUF, known by size only */
    {9,  "Q8_1", 32, 36, NULL, ACTIVATION},
    {10, "Q2_K", 256, 84, NULL, NULL},
    {11, "Q3_K", 256, 110, NULL, NULL},
    {15, "Q8_K", 256, 292, NULL, ACTIVATION},
    {16, "IQ2_XXS", 256, 66, NULL, NULL},
    {17, "IQ2_XS", 256, 74, NULL, NULL},
    {18, "IQ3_XXS", 256, 98, NULL, NULL},
    {19, "IQ1_S", 256, 50, NULL, NULL},
    {20, "IQ4_NL", 32, 18, NULL, NULL},
    {21, "IQ3_S", 256, 110, NULL, NULL},
    {22, "IQ2_S", 256, 82, NULL, NULL},
    {23, "IQ4_XS", 256, 136, NULL, NULL},
    {24, "I8", 1, 1, NULL, NULL},
    {25, "I16", 1, 2, NULL, NULL},
    {26, "I32", 1, 4, NULL, NULL},
    {27, "I64", 1, 8, NULL, NULL},
    {28, "F64", 1, 8, NULL, NULL},
    {29, "IQ1_M", 256, 56, NULL, NULL},
    {34, "TQ1_0", 256, 54, NULL, NULL},
    {35, "TQ2_0", 256, 66, NULL, NULL},
    {40, "NVFP4", 64, 36, NULL, NULL},
    {41, "Q1_0", 128, 18, NULL, NULL},
    {42, "Q2_0", 64, 18, NULL, "some forks store blocks of 128 under this id"},

    /* GGUF, removed: the size is not known any more */
    {4,  "Q4_2", 0, 0, NULL, REMOVED},
    {5,  "Q4_3", 0, 0, NULL, REMOVED},
    {31, "Q4_0_4_4", 0, 0, NULL, REMOVED},
    {32, "Q4_0_4_8", 0, 0, NULL, REMOVED},
    {33, "Q4_0_8_8", 0, 0, NULL, REMOVED},
    {36, "IQ4_NL_4_4", 0, 0, NULL, REMOVED},
    {37, "IQ4_NL_4_8", 0, 0, NULL, REMOVED},
    {38, "IQ4_NL_8_8", 0, 0, NULL, REMOVED},

    /* safetensors only; a sub-byte dtype is a block that fills whole bytes */
    {SL_TYPE_PRIVATE + 0,  "BOOL", 1, 1, NULL, NULL},
    {SL_TYPE_PRIVATE + 1,  "U8", 1, 1, NULL, NULL},
    {SL_TYPE_PRIVATE + 2,  "U16", 1, 2, NULL, NULL},
    {SL_TYPE_PRIVATE + 3,  "U32", 1, 4, NULL, NULL},
    {SL_TYPE_PRIVATE + 4,  "U64", 1, 8, NULL, NULL},
    {SL_TYPE_PRIVATE + 5,  "C64", 1, 8, NULL, NULL},
    {SL_TYPE_PRIVATE + 6,  "F8_E4M3", 1, 1, NULL, NULL},
    {SL_TYPE_PRIVATE + 7,  "F8_E5M2", 1, 1, NULL, NULL},
    {SL_TYPE_PRIVATE + 8,  "F8_E8M0", 1, 1, NULL, NULL},
    {SL_TYPE_PRIVATE + 9,  "F8_E4M3FNUZ", 1, 1, NULL, NULL},
    {SL_TYPE_PRIVATE + 10, "F8_E5M2FNUZ", 1, 1, NULL, NULL},
    {SL_TYPE_PRIVATE + 11, "F4", 2, 1, NULL, NULL},
    {SL_TYPE_PRIVATE + 12, "F6_E2M3", 4, 3, NULL, NULL},
    {SL_TYPE_PRIVATE + 13, "F6_E3M2", 4, 3, NULL, NULL},
};
/* clang-format on */

static const size_t n_type = sizeof types / sizeof types[0];

const sl_type_info *sl_type_find(uint32_t id)
{
    for (size_t i = 0; i < n_type; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

const sl_type_info *sl_type_at(size_t i)
{
    return i < n_type ? &types[i] : NULL;
}

/* Written out rather than built, so that no call has state to keep; a test compares it with the table. */
const char *sl_type_supported_list(void)
{
    return "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, MXFP4";
}

bool sl_type_row_bytes(const sl_type_info *t, uint64_t n, uint64_t *bytes)
{
    if (t->block == 0 || n % t->block != 0) return false;
    return sl_mul_u64(n / t->block, t->block_bytes, bytes);
}
