/* Room quant: the table against the format's published sizes, decoders against hand-made blocks and against vectors
 * that the gguf package made (tests/fixtures/quant). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "quant/quant.h"

/* ---- the table ---- */

/* Sizes as the GGUF standard gives them; has: this build must compute with it. */
static const struct {
    uint32_t id;
    const char *name;
    uint32_t block, block_bytes;
    bool has;
} standard[] = {
    /* clang-format off */
    {0, "F32", 1, 4, true},        {1, "F16", 1, 2, true},        {2, "Q4_0", 32, 18, true},     {3, "Q4_1", 32, 20, true},
    {6, "Q5_0", 32, 22, true},     {7, "Q5_1", 32, 24, true},     {8, "Q8_0", 32, 34, true},     {9, "Q8_1", 32, 36, false},
    {10, "Q2_K", 256, 84, false},  {11, "Q3_K", 256, 110, false}, {12, "Q4_K", 256, 144, true},  {13, "Q5_K", 256, 176, true},
    {14, "Q6_K", 256, 210, true},  {15, "Q8_K", 256, 292, false}, {16, "IQ2_XXS", 256, 66, false},
    {17, "IQ2_XS", 256, 74, false}, {18, "IQ3_XXS", 256, 98, false}, {19, "IQ1_S", 256, 50, false},
    {20, "IQ4_NL", 32, 18, false}, {21, "IQ3_S", 256, 110, false}, {22, "IQ2_S", 256, 82, false},
    {23, "IQ4_XS", 256, 136, false}, {24, "I8", 1, 1, false},     {25, "I16", 1, 2, false},      {26, "I32", 1, 4, false},
    {27, "I64", 1, 8, false},      {28, "F64", 1, 8, false},      {29, "IQ1_M", 256, 56, false}, {30, "BF16", 1, 2, true},
    {34, "TQ1_0", 256, 54, false}, {35, "TQ2_0", 256, 66, false}, {39, "MXFP4", 32, 17, true},  {40, "NVFP4", 64, 36, false},
    {41, "Q1_0", 128, 18, false},  {42, "Q2_0", 64, 18, false},
    /* clang-format on */
};

static void test_table_has_the_standard_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++) {
        const sl_type_info *t = sl_type_find(standard[i].id);
        assert_non_null(t);
        assert_string_equal(t->name, standard[i].name);
        assert_int_equal(t->block, standard[i].block);
        assert_int_equal(t->block_bytes, standard[i].block_bytes);
        assert_int_equal(t->dequantise != NULL, standard[i].has);
    }
}

static void test_removed_types_are_named_and_have_no_size(void **state)
{
    (void)state;
    static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38};
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        const sl_type_info *t = sl_type_find(removed[i]);
        uint64_t bytes;
        assert_non_null(t);
        assert_non_null(t->note);
        assert_int_equal(t->block, 0);
        assert_null(t->dequantise);
        assert_false(sl_type_row_bytes(t, 256, &bytes));
    }
    static const uint32_t unknown[] = {43, 96, 152, 999, 1014, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_null(sl_type_find(unknown[i]));
}

static void test_ids_and_names_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; sl_type_at(i); i++) {
        assert_ptr_equal(sl_type_find(sl_type_at(i)->id), sl_type_at(i));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(sl_type_at(i)->name, sl_type_at(k)->name);
    }
}

static void test_supported_list_is_the_decoder_column(void **state)
{
    (void)state;
    char list[512] = "";
    const sl_type_info *t;
    for (size_t i = 0; (t = sl_type_at(i)); i++) {
        if (!t->dequantise) continue;
        if (list[0]) strcat(list, ", ");
        strcat(list, t->name);
    }
    assert_string_equal(sl_type_supported_list(), list);
}

static void test_row_bytes_checks_blocks_and_wrapping(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_true(sl_type_row_bytes(sl_type_find(SL_Q6_K), 512, &n));
    assert_int_equal(n, 420);
    assert_true(sl_type_row_bytes(sl_type_find(SL_Q4_0), 0, &n));
    assert_int_equal(n, 0);
    assert_false(sl_type_row_bytes(sl_type_find(SL_Q4_0), 33, &n));
    assert_false(sl_type_row_bytes(sl_type_find(SL_Q4_K), 128, &n));
    assert_false(sl_type_row_bytes(sl_type_find(SL_F32), UINT64_C(1) << 62, &n));
    /* the count times 18 wraps to 128: the division must come first */
    assert_true(sl_type_row_bytes(sl_type_find(SL_Q4_0), UINT64_C(1024819115206086208), &n));
    assert_true(n == UINT64_C(1024819115206086208) / 32 * 18);
}

/* ---- hand-made blocks ---- */

static void decode(uint32_t id, const void *src, float *dst, size_t n)
{
    sl_type_find(id)->dequantise(src, dst, n);
}

static void test_simple_blocks_by_hand(void **state)
{
    (void)state;
    float v[64];
    uint8_t q8[34] = {0x00, 0x38, 1, 0xff, 127, 0x80}; /* d = 0.5 */
    decode(SL_Q8_0, q8, v, 32);
    assert_true(v[0] == 0.5f && v[1] == -0.5f && v[2] == 63.5f && v[3] == -64.0f && v[4] == 0.0f);

    uint8_t q4[18] = {0x00, 0x40, 0xf0, 0x3a}; /* d = 2; byte 0: elements 0 and 16 */
    decode(SL_Q4_0, q4, v, 32);
    assert_true(v[0] == -16.0f && v[16] == 14.0f && v[1] == 4.0f && v[17] == -10.0f);

    uint8_t q41[20] = {0x00, 0x3c, 0x00, 0xc2, 0x21}; /* d = 1, m = -3 */
    decode(SL_Q4_1, q41, v, 32);
    assert_true(v[0] == -2.0f && v[16] == -1.0f && v[1] == -3.0f && v[31] == -3.0f);

    uint8_t q5[22] = {0x00, 0x3c, 0x01, 0x00, 0x02, 0x80, 0x12}; /* d = 1; fifth bits of 0, 17 and 31 */
    decode(SL_Q5_0, q5, v, 32);
    assert_true(v[0] == 2.0f && v[16] == -15.0f && v[17] == 0.0f && v[31] == 0.0f && v[1] == -16.0f);

    uint8_t q51[24] = {0x00, 0x3c, 0x00, 0x3c, 0x00, 0x00, 0x01, 0x00, 0x0f}; /* d = m = 1; fifth bit of 16 */
    decode(SL_Q5_1, q51, v, 32);
    assert_true(v[0] == 16.0f && v[16] == 17.0f && v[1] == 1.0f);
}

/* The largest 6-bit scale in group 0 and group 7, the largest min in group 4. */
static void test_k_scales_by_hand(void **state)
{
    (void)state;
    float v[256];
    uint8_t b[176] = {0x00, 0x3c, 0x00, 0x40}; /* d = 1, dmin = 2 */
    uint8_t *sc = b + 4;
    sc[0] = 63;        /* scale 0 = 63 */
    sc[3] = 3 << 6;    /* scale 7: high bits */
    sc[11] = 15;       /* scale 7: low bits; = 63 */
    sc[8] = 5 << 4;    /* min 4: low bits */
    sc[4] = 1 << 6;    /* min 4: high bits; = 21 */
    b[16] = 2;         /* Q4_K: element 0, code 2 */
    b[16 + 96] = 0x30; /* element 224 = group 7, code 3 */
    decode(SL_Q4_K, b, v, 256);
    assert_true(v[0] == 126.0f && v[224] == 189.0f && v[128] == -42.0f && v[1] == 0.0f && v[32] == 0.0f);

    memset(b + 16, 0, 160);
    b[16 + 5] = 0x81; /* fifth bits of element 5 of groups 0 and 7 */
    b[48 + 5] = 0x01; /* low bits of element 5 of group 0 */
    decode(SL_Q5_K, b, v, 256);
    assert_true(v[5] == 17 * 63.0f && v[229] == 16 * 63.0f && v[128] == -42.0f && v[37] == 0.0f);
}

static void test_q6_k_by_hand(void **state)
{
    (void)state;
    float v[256];
    uint8_t b[210] = {0};
    b[208] = 0x00, b[209] = 0x3c; /* d = 1 */
    for (int i = 0; i < 16; i++)
        b[192 + i] = (uint8_t)(i - 8);
    b[0] = 0x51;       /* elements 0 (1) and 64 (5) */
    b[128] = 0x32;     /* element 0: high 2; element 64: high 3 */
    b[64 + 33] = 0xf0; /* element 128 + 96 + 1 */
    decode(SL_Q6_K, b, v, 256);
    assert_true(v[0] == -8.0f * (33 - 32) && v[64] == -4.0f * (53 - 32));
    assert_true(v[225] == 6.0f * (15 - 32) && v[255] == 7.0f * -32.0f && v[128] == 0.0f);
}

static void test_plain_floats(void **state)
{
    (void)state;
    float v[4];
    uint16_t half[4] = {0x0001, 0x8000, 0x7bff, 0xfc00}; /* smallest subnormal, -0, 65504, -inf */
    decode(SL_F16, half, v, 4);
    assert_true(v[0] == 5.9604644775390625e-08f && v[1] == 0 && signbit(v[1]) && v[2] == 65504.0f && v[3] == -INFINITY);
    uint16_t b[4] = {0x3f80, 0x0001, 0xff80, 0xc2f7};
    decode(SL_BF16, b, v, 4);
    uint32_t subnormal;
    memcpy(&subnormal, &v[1], 4);
    assert_true(v[0] == 1.0f && subnormal == 0x10000 && v[2] == -INFINITY && v[3] == -123.5f);
}

/* ---- vectors of the gguf package ---- */

typedef struct {
    uint32_t magic, id, n_block, n_value;
} vector_head;

static uint8_t *load_vectors(const char *name, vector_head *h)
{
    char path[128];
    snprintf(path, sizeof path, "tests/fixtures/quant/%s.bin", name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s: no vectors for a type that this build computes with", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    uint8_t *p = malloc((size_t)n);
    if (!p || fread(p, 1, (size_t)n, f) != (size_t)n) fail_msg("%s: cannot be read", path);
    fclose(f);
    memcpy(h, p, sizeof *h);
    const sl_type_info *t = sl_type_find(h->id);
    assert_int_equal(h->magic, 0x56514c53); /* "SLQV" */
    assert_non_null(t);
    assert_string_equal(t->name, name);
    assert_true(h->n_block > 0 && h->n_value == (uint64_t)h->n_block * t->block);
    assert_int_equal((size_t)n, sizeof *h + (uint64_t)h->n_block * t->block_bytes + 4 * (uint64_t)h->n_value);
    return p;
}

static bool is_nan_bits(uint32_t u)
{
    return (u & 0x7fffffff) > 0x7f800000;
}

static size_t count_unequal(const float *got, const uint8_t *want, size_t n, const char *name)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t g, w;
        memcpy(&g, &got[i], 4);
        memcpy(&w, want + 4 * i, 4);
        if (g == w || (is_nan_bits(g) && is_nan_bits(w))) continue;
        if (bad++ == 0) print_error("%s: value %zu is %08x, wanted %08x\n", name, i, g, w);
    }
    return bad;
}

static void check_type(const sl_type_info *t)
{
    vector_head h;
    uint8_t *file = load_vectors(t->name, &h);
    const uint8_t *raw = file + sizeof h, *want = raw + (size_t)h.n_block * t->block_bytes;
    size_t raw_bytes = (size_t)h.n_block * t->block_bytes;
    float *got = malloc(4 * (size_t)h.n_value + 4);
    uint8_t *shifted = malloc(raw_bytes + 3);
    for (size_t shift = 0; shift < 4;
         shift++) { /* any alignment, and not a byte beyond the blocks (sanitizers watch) */
        uint8_t *exact = shift ? shifted : malloc(raw_bytes);
        size_t at = shift ? shift - 1 : 0;
        memcpy(exact + at, raw, raw_bytes);
        memset(got, 0xAA, 4 * (size_t)h.n_value + 4);
        t->dequantise(exact + at, got, h.n_value);
        assert_int_equal(count_unequal(got, want, h.n_value, t->name), 0);
        uint32_t guard;
        memcpy(&guard, got + h.n_value, 4);
        assert_int_equal(guard, 0xAAAAAAAA);
        if (!shift) free(exact);
    }
    for (size_t b = 0; b < h.n_block; b++) { /* block by block is the same as all at once */
        t->dequantise(raw + b * t->block_bytes, got, t->block);
        assert_int_equal(count_unequal(got, want + 4 * b * t->block, t->block, t->name), 0);
    }
    free(shifted);
    free(got);
    free(file);
}

static void test_decoders_equal_the_gguf_package(void **state)
{
    (void)state;
    const sl_type_info *t;
    size_t n = 0;
    for (size_t i = 0; (t = sl_type_at(i)); i++) {
        if (!t->dequantise) continue;
        check_type(t);
        n++;
    }
    assert_int_equal(n, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_has_the_standard_sizes),
        cmocka_unit_test(test_removed_types_are_named_and_have_no_size),
        cmocka_unit_test(test_ids_and_names_are_unique),
        cmocka_unit_test(test_supported_list_is_the_decoder_column),
        cmocka_unit_test(test_row_bytes_checks_blocks_and_wrapping),
        cmocka_unit_test(test_simple_blocks_by_hand),
        cmocka_unit_test(test_k_scales_by_hand),
        cmocka_unit_test(test_q6_k_by_hand),
        cmocka_unit_test(test_plain_floats),
        cmocka_unit_test(test_decoders_equal_the_gguf_package),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
