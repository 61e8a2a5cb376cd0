/* GGUF, one file: what is read, and every way of being wrong that the format's rules name.  Each wrong file is parsed
 * from memory and, written to disk, through sl_store_open; both must refuse it with the same reason.  Shards,
 * directories and things that are not GGUF at all are in test_store_files.c. */
#include "store_build.h"

/* ---- a good file with everything in it ---- */

static void good(bytes *b)
{
    head(b, 3, 3, 20);
    kv_str(b, "general.architecture", "llama");
    kv(b, "a.u8", SL_GV_U8), u8(b, 200);
    kv(b, "a.i8", SL_GV_I8), u8(b, 0xff);
    kv(b, "a.u16", SL_GV_U16), u16(b, 65535);
    kv(b, "a.i16", SL_GV_I16), u16(b, 0x8000);
    kv_u32(b, "a.u32", 0xfffffffe);
    kv(b, "a.i32", SL_GV_I32), u32(b, 0xffffffff);
    kv(b, "a.f32", SL_GV_F32), f32(b, 0.25f);
    kv(b, "a.bool", SL_GV_BOOL), u8(b, 1);
    kv(b, "a.bool2", SL_GV_BOOL), u8(b, 2);
    kv(b, "a.u64", SL_GV_U64), u64(b, INT64_MAX);
    kv(b, "a.u64.big", SL_GV_U64), u64(b, UINT64_MAX);
    kv(b, "a.i64", SL_GV_I64), u64(b, (uint64_t)INT64_MIN);
    kv(b, "a.f64", SL_GV_F64), put(b, &(double){1e300}, 8);
    kv_str(b, "a.empty", "");
    kv_array(b, "tokens", SL_GV_STRING, 3), str(b, "a"), str(b, ""), str(b, "\xff\n");
    kv_array(b, "scores", SL_GV_F32, 2), f32(b, -1.5f), f32(b, 2);
    kv_array(b, "types", SL_GV_I16, 3), u16(b, 1), u16(b, 0xffff), u16(b, 3);
    kv_array(b, "none", SL_GV_U64, 0);
    kv(b, "Odd Key/Name!", SL_GV_I32), u32(b, 5); /* spelling is not checked */
    tensor(b, "blk.0.w", 2, DIMS(64, 3), 8, 0);   /* Q8_0: 2 blocks a row, 204 bytes */
    tensor(b, "blk.0.scalar", 0, DIMS(0), 0, 224);
    tensor(b, "blk.0.e", 4, DIMS(2, 3, 4, 5), 30, 288); /* BF16, not back to back: allowed */
    pad(b, 32);
    fill(b, 288 + 240, 0);
}

static sl_store *parse_good(bytes *b)
{
    sl_store *s = NULL;
    sl_err err = {0};
    good(b);
    if (sl_gguf_parse_memory(&s, "good.gguf", b->p, b->n, &err) != SL_OK) fail_msg("%s", err.msg);
    return s;
}

static void test_tensors_are_listed(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = parse_good(&b);
    assert_int_equal(sl_store_get_format(s), SL_STORE_GGUF);
    assert_int_equal(sl_store_tensor_count(s), 3);
    assert_int_equal(sl_store_file_count(s), 1);
    assert_int_equal(sl_store_file_bytes(s, 0), b.n);
    const sl_tensor *w = sl_store_find(s, "blk.0.w"), *scalar = sl_store_find(s, "blk.0.scalar");
    const sl_tensor *e = sl_store_find(s, "blk.0.e");
    assert_ptr_equal(w, sl_store_tensor(s, 0));
    assert_ptr_equal(e, sl_store_tensor(s, 2));
    assert_string_equal(w->type->name, "Q8_0");
    assert_true(w->n_dims == 2 && w->dims[0] == 3 && w->dims[1] == 64 && w->dims[2] == 1 && w->dims[3] == 1);
    assert_int_equal(w->size_bytes, 204);
    assert_true(scalar->n_dims == 0 && scalar->dims[0] == 1 && scalar->size_bytes == 4);
    assert_true(e->dims[0] == 5 && e->dims[1] == 4 && e->dims[2] == 3 && e->dims[3] == 2 && e->size_bytes == 240);
    assert_int_equal(w->offset_bytes, b.n - 528);
    assert_int_equal(e->offset_bytes + e->size_bytes, b.n);
    assert_null(sl_store_find(s, "blk.0."));
    assert_null(sl_store_find(s, ""));
    assert_null(sl_store_config(s));
    sl_store_close(s);
    free(b.p);
}

static int64_t want_int(const sl_store *s, const char *key)
{
    int64_t v = 12345;
    sl_err err = {0};
    assert_true(sl_store_meta_int(s, key, &v, &err));
    assert_int_equal(err.code, SL_OK);
    return v;
}

static void test_integers_of_any_width(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = parse_good(&b);
    sl_err err = {0};
    int64_t v = 77;
    assert_int_equal(want_int(s, "a.u8"), 200);
    assert_int_equal(want_int(s, "a.i8"), -1);
    assert_int_equal(want_int(s, "a.u16"), 65535);
    assert_int_equal(want_int(s, "a.i16"), -32768);
    assert_int_equal(want_int(s, "a.u32"), 0xfffffffe);
    assert_int_equal(want_int(s, "a.i32"), -1);
    assert_true(want_int(s, "a.u64") == INT64_MAX);
    assert_true(want_int(s, "a.i64") == INT64_MIN);
    assert_int_equal(want_int(s, "Odd Key/Name!"), 5);
    assert_false(sl_store_meta_int(s, "a.absent", &v, &err));
    assert_int_equal(err.code, SL_OK); /* absent is no error */
    static const char *const wrong[] = {"a.u64.big", "a.f32", "a.bool", "general.architecture", "types"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        err = (sl_err){0};
        assert_false(sl_store_meta_int(s, wrong[i], &v, &err));
        assert_int_equal(err.code, SL_ERR_FORMAT);
        assert_non_null(strstr(err.msg, wrong[i]));
        assert_false(sl_store_meta_int(s, wrong[i], &v, NULL));
    }
    assert_int_equal(v, 77); /* untouched by all of that */
    sl_store_close(s);
    free(b.p);
}

static void test_other_values(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = parse_good(&b);
    sl_err err = {0};
    double d;
    bool t = false;
    const char *p;
    size_t n;
    assert_true(sl_store_meta_float(s, "a.f32", &d, &err) && d == 0.25);
    assert_true(sl_store_meta_float(s, "a.f64", &d, &err) && d == 1e300);
    assert_true(sl_store_meta_float(s, "a.i8", &d, &err) && d == -1);
    assert_true(sl_store_meta_bool(s, "a.bool", &t, &err) && t);
    assert_true(sl_store_meta_string(s, "general.architecture", &p, &n, &err) && n == 5 && memcmp(p, "llama", 5) == 0);
    assert_true(sl_store_meta_string(s, "a.empty", &p, &n, &err) && n == 0);
    assert_int_equal(err.code, SL_OK);
    assert_false(sl_store_meta_bool(s, "a.bool2", &t, &err)); /* 2 is neither */
    assert_int_equal(err.code, SL_ERR_FORMAT);
    assert_false(sl_store_meta_bool(s, "a.u8", &t, NULL));
    assert_false(sl_store_meta_float(s, "a.empty", &d, NULL));
    assert_false(sl_store_meta_string(s, "tokens", &p, &n, NULL));
    sl_store_close(s);
    free(b.p);
}

static void test_arrays_are_walked_in_bounds(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = parse_good(&b);
    const sl_meta *tokens = sl_store_meta(s, "tokens"), *scores = sl_store_meta(s, "scores");
    const sl_meta *types = sl_store_meta(s, "types"), *none = sl_store_meta(s, "none");
    static const char *const want[] = {"a", "", "\xff\n"};
    uint64_t pos = 0;
    const char *p;
    size_t n;
    int64_t i;
    double d;
    for (size_t k = 0; k < 3; k++) {
        assert_true(sl_meta_string_next(tokens, &pos, &p, &n));
        assert_true(n == strlen(want[k]) && memcmp(p, want[k], n) == 0);
    }
    assert_false(sl_meta_string_next(tokens, &pos, &p, &n));
    pos = UINT64_MAX;
    assert_false(sl_meta_string_next(tokens, &pos, &p, &n));
    pos = 1; /* inside a length: whatever comes out, it must stay inside */
    while (sl_meta_string_next(tokens, &pos, &p, &n))
        assert_true((const uint8_t *)p + n <= tokens->data + tokens->data_bytes);
    assert_true(sl_meta_float_at(scores, 1, &d) && d == 2);
    assert_false(sl_meta_float_at(scores, 2, &d));
    assert_false(sl_meta_float_at(scores, UINT64_MAX, &d));
    assert_false(sl_meta_int_at(scores, 0, &i));
    assert_true(sl_meta_int_at(types, 1, &i) && i == -1);
    assert_true(sl_meta_float_at(types, 2, &d) && d == 3);
    assert_false(sl_meta_int_at(none, 0, &i));
    assert_true(none->count == 0 && none->data_bytes == 0 && tokens->count == 3);
    pos = 0; /* S13: an array of another kind than the reader expects */
    assert_false(sl_meta_string_next(types, &pos, &p, &n));
    assert_false(sl_meta_int_at(tokens, 0, &i));
    assert_false(sl_meta_int_at(sl_store_meta(s, "a.u8"), 0, &i));
    sl_store_close(s);
    free(b.p);
}

/* S13: ids that no vocabulary has are read as they are; what they mean is for the tokenizer to refuse. */
static void test_token_ids_are_read_as_written(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = NULL;
    head(&b, 3, 0, 5);
    kv_u32(&b, "tokenizer.ggml.eos_token_id", 999999);
    kv(&b, "tokenizer.ggml.bos_token_id", SL_GV_I32), u32(&b, (uint32_t)-1);
    kv_array(&b, "tokenizer.ggml.tokens", SL_GV_STRING, 0);
    kv_array(&b, "tokenizer.ggml.scores", SL_GV_F32, 1), f32(&b, 0);
    kv_array(&b, "tokenizer.ggml.token_type", SL_GV_STRING, 1), str(&b, "x");
    assert_int_equal(sl_gguf_parse_memory(&s, "vocab.gguf", b.p, b.n, NULL), SL_OK);
    int64_t v;
    assert_int_equal(want_int(s, "tokenizer.ggml.eos_token_id"), 999999);
    assert_int_equal(want_int(s, "tokenizer.ggml.bos_token_id"), -1);
    assert_int_equal(sl_store_meta(s, "tokenizer.ggml.tokens")->count, 0);
    assert_false(sl_meta_int_at(sl_store_meta(s, "tokenizer.ggml.token_type"), 0, &v));
    assert_int_equal(sl_store_tensor_count(s), 0);
    sl_store_close(s);
    free(b.p);
}

static void test_dropping_metadata_keeps_the_directory(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = parse_good(&b);
    uint64_t before = sl_store_header_bytes(s);
    assert_int_equal(sl_store_meta_count(s), 20);
    assert_string_equal(sl_store_meta_at(s, 1)->key, "a.u8");
    sl_store_drop_metadata(s);
    memset(b.p, 0xAA, b.n); /* nothing may point there any more */
    assert_true(sl_store_header_bytes(s) < before);
    assert_int_equal(sl_store_meta_count(s), 0);
    assert_null(sl_store_meta(s, "a.u8"));
    assert_string_equal(sl_store_find(s, "blk.0.e")->name, "blk.0.e");
    sl_store_drop_metadata(s);
    sl_store_close(s);
    free(b.p);
}

/* ---- files that must be refused ---- */

/* One tensor 'blk.0.x' at offset, and n_data bytes. */
static void one(bytes *b, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset, size_t n_data)
{
    head(b, 3, 1, 0);
    tensor(b, "blk.0.x", n_dims, dims, type, offset);
    pad(b, 32);
    fill(b, n_data, 0);
}
static void key_value(bytes *b, const char *key, uint32_t type)
{
    head(b, 3, 0, 1);
    kv(b, key, type);
}
static void align_u32(bytes *b, uint32_t v)
{
    head(b, 3, 0, 1);
    kv_u32(b, "general.alignment", v);
}
static void two(bytes *b, const char *first, const char *second, uint64_t offset)
{
    head(b, 3, 2, 0);
    tensor(b, first, 1, DIMS(8), 0, 0);
    tensor(b, second, 1, DIMS(8), 0, offset);
    pad(b, 32);
    fill(b, 64, 0);
}

/* clang-format off */
static void magic_only(bytes *b) { text(b, "GGUF"); }
static void short_head(bytes *b) { head(b, 3, 0, 0), b->n = 23; }
static void version_0(bytes *b) { head(b, 0, 0, 0); }
static void version_1(bytes *b) { head(b, 1, 0, 0); }
static void version_4(bytes *b) { head(b, 4, 0, 0); }
static void big_endian(bytes *b) { head(b, 0x03000000, 0, 0); }
static void n_tensor_negative(bytes *b) { head(b, 3, UINT64_MAX, 0); }
static void n_tensor_wraps(bytes *b) { head(b, 3, UINT64_C(1) << 60, 0), fill(b, 1000, 0); }
static void n_kv_huge(bytes *b) { head(b, 3, 0, UINT64_C(1) << 40), fill(b, 1000, 0); }
static void n_kv_over(bytes *b) { head(b, 3, 0, 65537), fill(b, 65537 * 14, 0); }
static void n_tensor_over(bytes *b) { head(b, 3, 100001, 0), fill(b, 100001 * 25, 0); }
static void key_empty(bytes *b) { key_value(b, "", SL_GV_U64), u64(b, 0); }
static void key_huge(bytes *b) { head(b, 3, 0, 1), u64(b, UINT64_MAX), fill(b, 64, 'k'); }
static void key_65536(bytes *b) { head(b, 3, 0, 1), u64(b, 65536), fill(b, 65536 + 16, 'k'); }
static void key_cut(bytes *b) { head(b, 3, 0, 1), u64(b, 100), fill(b, 20, 'k'); }
static void key_with_nul(bytes *b) { head(b, 3, 0, 1), u64(b, 3), put(b, "a\0b", 3), u32(b, SL_GV_U8), u8(b, 0); }
static void key_with_escape(bytes *b) { key_value(b, "a\n\033[2J", SL_GV_U8), u8(b, 0); }
static void key_not_utf8(bytes *b) { key_value(b, "\xc0\xaf", SL_GV_U8), u8(b, 0); }
static void key_twice(bytes *b) { head(b, 3, 0, 2), kv_u32(b, "twin", 1), kv_u32(b, "twin", 1); }
static void value_type_13(bytes *b) { key_value(b, "k", 13), u64(b, 0); }
static void value_cut(bytes *b) { key_value(b, "k", SL_GV_U64), u32(b, 0); }
static void string_huge(bytes *b) { key_value(b, "k", SL_GV_STRING), u64(b, UINT64_MAX), fill(b, 40, 0); }
static void string_cut(bytes *b) { key_value(b, "k", SL_GV_STRING), u64(b, 5), fill(b, 4, 'x'); }
static void array_nested(bytes *b) { head(b, 3, 0, 1), kv_array(b, "k", SL_GV_ARRAY, 1), u32(b, 4), u64(b, 0); }
static void array_type_99(bytes *b) { head(b, 3, 0, 1), kv_array(b, "k", 99, 1), u64(b, 0); }
static void array_wraps(bytes *b) { head(b, 3, 0, 1), kv_array(b, "k", SL_GV_U64, UINT64_C(1) << 61), u64(b, 0); }
static void array_huge(bytes *b) { head(b, 3, 0, 1), kv_array(b, "k", SL_GV_STRING, 1u << 30), fill(b, 100, 0); }
static void array_cut(bytes *b)
{
    head(b, 3, 0, 1), kv_array(b, "k", SL_GV_STRING, 2), str(b, "abc"), u64(b, 9), u8(b, 1);
}
static void align_0(bytes *b) { align_u32(b, 0); }
static void align_3(bytes *b) { align_u32(b, 3); }
static void align_2_31(bytes *b) { align_u32(b, 1u << 31); }
static void align_2_17(bytes *b) { align_u32(b, 1u << 17); }
static void align_negative(bytes *b) { key_value(b, "general.alignment", SL_GV_I8), u8(b, 0x80); }
static void align_string(bytes *b) { head(b, 3, 0, 1), kv_str(b, "general.alignment", "32"); }
static void align_float(bytes *b) { key_value(b, "general.alignment", SL_GV_F32), f32(b, 32); }
static void align_array(bytes *b) { head(b, 3, 0, 1), kv_array(b, "general.alignment", SL_GV_U32, 1), u32(b, 32); }
static void name_empty(bytes *b) { two(b, "", "b", 32); }
static void name_twice(bytes *b) { two(b, "twin", "twin", 32); }
static void name_control(bytes *b) { two(b, "a\nerror: b", "b", 32); }
static void name_256(bytes *b)
{
    char name[257];
    memset(name, 'n', 256);
    name[256] = 0;
    two(b, name, "b", 32);
}
static void dims_5(bytes *b) { one(b, 5, DIMS(1, 1, 1, 1, 1), 0, 0, 4); }
static void dims_huge(bytes *b) { head(b, 3, 1, 0), str(b, "blk.0.x"), u32(b, UINT32_MAX), fill(b, 64, 0); }
static void dim_zero(bytes *b) { one(b, 2, DIMS(64, 0), 0, 0, 4); }
static void size_wraps_to_16(bytes *b) { one(b, 2, DIMS(4, (UINT64_C(1) << 60) + 1), 0, 0, 64); }
static void product_wraps_to_0(bytes *b) { one(b, 2, DIMS(UINT64_C(1) << 32, UINT64_C(1) << 32), 0, 0, 64); }
static void product_wraps_late(bytes *b)
{
    one(b, 4, DIMS(UINT64_C(1) << 20, UINT64_C(1) << 20, UINT64_C(1) << 20, UINT64_C(1) << 20), 0, 0, 64);
}
static void q4_row_wraps(bytes *b) { one(b, 1, DIMS(UINT64_C(1024819115206086208)), 2, 0, 128); }
static void sum_wraps(bytes *b)
{
    head(b, 3, 2, 0);
    tensor(b, "big.a", 1, DIMS(UINT64_C(1) << 61), 0, 0);
    tensor(b, "big.b", 1, DIMS(UINT64_C(1) << 61), 0, 0);
    pad(b, 32);
    fill(b, 64, 0);
}
static void row_not_whole(bytes *b) { one(b, 2, DIMS(48, 2), 2, 0, 64); }
static void scalar_of_blocks(bytes *b) { one(b, 0, DIMS(0), 8, 0, 64); }
static void offset_odd(bytes *b) { one(b, 1, DIMS(8), 0, 4, 64); }
static void offset_wraps(bytes *b) { one(b, 1, DIMS(8), 0, UINT64_MAX - 31, 64); }
static void offset_beyond(bytes *b) { one(b, 1, DIMS(8), 0, 1 << 20, 64); }
static void end_beyond(bytes *b) { one(b, 1, DIMS(17), 0, 0, 64); }
static void overlap(bytes *b)
{
    head(b, 3, 2, 0);
    tensor(b, "over.a", 1, DIMS(16), 0, 0);
    tensor(b, "over.b", 1, DIMS(8), 0, 32);
    pad(b, 32);
    fill(b, 64, 0);
}
static void overlap_same(bytes *b) { two(b, "over.a", "over.b", 0); }
static void list_cut(bytes *b) { head(b, 3, 1, 0), str(b, "blk.0.x"), u32(b, 2), u64(b, 4), fill(b, 10, 0); }
static void type_152(bytes *b) { one(b, 1, DIMS(256), 152, 0, 1024); }
static void type_removed(bytes *b) { one(b, 1, DIMS(256), 36, 0, 1024); }
static void type_2_31(bytes *b) { one(b, 1, DIMS(256), 1u << 31, 0, 1024); }
static void type_private(bytes *b) { one(b, 1, DIMS(256), SL_TYPE_PRIVATE + 1, 0, 1024); }
static void types_mixed(bytes *b) /* S11 */
{
    head(b, 3, 6, 0);
    tensor(b, "blk.0.ffn_down_exps.weight", 1, DIMS(256), 152, 0);
    tensor(b, "blk.1.ffn_down_exps.weight", 1, DIMS(256), 36, 256);
    tensor(b, "blk.2.ffn_down_exps.weight", 1, DIMS(256), 152, 512);
    tensor(b, "blk.3.ffn_down_exps.weight", 1, DIMS(256), 1u << 31, 768);
    tensor(b, "blk.4.ffn_down_exps.weight", 1, DIMS(256), 39, 1024); /* known by size: not named here */
    tensor(b, "blk.5.ffn_down_exps.weight", 1, DIMS(256), 5, 1280);
    pad(b, 32);
    fill(b, 4096, 0);
}

/* clang-format on */

typedef struct {
    const char *name;
    void (*build)(bytes *b);
    sl_status want;
    const char *piece[4];
} hostile;

static const hostile hostiles[] = {
    {"magic-only", magic_only, SL_ERR_FORMAT, {"has 4 bytes", "at least 24"}},
    {"short-head", short_head, SL_ERR_FORMAT, {"has 23 bytes"}},
    {"version-0", version_0, SL_ERR_FORMAT, {"version is 0"}},
    {"version-1", version_1, SL_ERR_UNSUPPORTED, {"version 1"}},
    {"version-4", version_4, SL_ERR_FORMAT, {"version is 4"}},
    {"big-endian", big_endian, SL_ERR_UNSUPPORTED, {"big-endian", "version 3"}},
    {"n-tensor-negative", n_tensor_negative, SL_ERR_FORMAT, {"tensor count is 18446744073709551615"}},
    {"n-tensor-wraps", n_tensor_wraps, SL_ERR_FORMAT, {"tensor count is 1152921504606846976", "at most 40"}},
    {"n-kv-huge", n_kv_huge, SL_ERR_FORMAT, {"key count is 1099511627776", "at most 71"}},
    {"n-kv-over", n_kv_over, SL_ERR_LIMIT, {"key count is 65537", "65536"}},
    {"n-tensor-over", n_tensor_over, SL_ERR_LIMIT, {"tensor count is 100001", "100000"}},
    {"key-empty", key_empty, SL_ERR_FORMAT, {"key 0", "length 0", "1 to 65535"}},
    {"key-huge", key_huge, SL_ERR_FORMAT, {"key 0", "18446744073709551615"}},
    {"key-65536", key_65536, SL_ERR_FORMAT, {"key 0", "65536"}},
    {"key-cut", key_cut, SL_ERR_FORMAT, {"ends inside its header", "key 0", "100 bytes and 20 are left"}},
    {"key-with-nul", key_with_nul, SL_ERR_FORMAT, {"'a?b'", "control character"}},
    {"key-with-escape", key_with_escape, SL_ERR_FORMAT, {"control character"}},
    {"key-not-utf8", key_not_utf8, SL_ERR_FORMAT, {"UTF-8"}},
    {"key-twice", key_twice, SL_ERR_FORMAT, {"'twin' occurs 2 times"}},
    {"value-type-13", value_type_13, SL_ERR_FORMAT, {"'k'", "value type 13"}},
    {"value-cut", value_cut, SL_ERR_FORMAT, {"'k'", "takes 8 bytes and 4 are left"}},
    {"string-huge", string_huge, SL_ERR_FORMAT, {"'k'", "18446744073709551615 bytes and 40 are left"}},
    {"string-cut", string_cut, SL_ERR_FORMAT, {"'k'", "5 bytes and 4 are left"}},
    {"array-nested", array_nested, SL_ERR_UNSUPPORTED, {"'k'", "array of arrays"}},
    {"array-type-99", array_type_99, SL_ERR_FORMAT, {"'k'", "unknown type 99"}},
    {"array-wraps", array_wraps, SL_ERR_LIMIT, {"'k'", "2305843009213693952 elements", "1073741824"}},
    {"array-huge", array_huge, SL_ERR_FORMAT, {"'k'", "8589934592 bytes and 100 are left"}},
    {"array-cut", array_cut, SL_ERR_FORMAT, {"'k'", "9 bytes and 1 are left"}},
    {"align-0", align_0, SL_ERR_FORMAT, {"'general.alignment' is 0"}},
    {"align-3", align_3, SL_ERR_FORMAT, {"'general.alignment' is 3", "power of two"}},
    {"align-2-31", align_2_31, SL_ERR_FORMAT, {"'general.alignment' is 2147483648", "65536"}},
    {"align-2-17", align_2_17, SL_ERR_FORMAT, {"'general.alignment' is 131072"}},
    {"align-negative", align_negative, SL_ERR_FORMAT, {"'general.alignment' is -128"}},
    {"align-string", align_string, SL_ERR_FORMAT, {"'general.alignment'", "type string"}},
    {"align-float", align_float, SL_ERR_FORMAT, {"'general.alignment'", "type f32"}},
    {"align-array", align_array, SL_ERR_FORMAT, {"'general.alignment'", "type array"}},
    {"name-empty", name_empty, SL_ERR_FORMAT, {"name of tensor 0", "length 0"}},
    {"name-twice", name_twice, SL_ERR_FORMAT, {"'twin' occurs twice"}},
    {"name-control", name_control, SL_ERR_FORMAT, {"tensor 0", "a?error: b", "control character"}},
    {"name-256", name_256, SL_ERR_FORMAT, {"name of tensor 0", "length 256", "255"}},
    {"dims-5", dims_5, SL_ERR_FORMAT, {"'blk.0.x' has 5 dimensions", "4"}},
    {"dims-huge", dims_huge, SL_ERR_FORMAT, {"'blk.0.x' has 4294967295 dimensions"}},
    {"dim-zero", dim_zero, SL_ERR_FORMAT, {"'blk.0.x' has a dimension of 0", "[0, 64]"}},
    {"size-wraps-to-16", size_wraps_to_16, SL_ERR_FORMAT, {"'blk.0.x': size overflow", "[1152921504606846977, 4]"}},
    {"product-wraps-to-0", product_wraps_to_0, SL_ERR_FORMAT, {"'blk.0.x': size overflow"}},
    {"product-wraps-late", product_wraps_late, SL_ERR_FORMAT, {"'blk.0.x': size overflow"}},
    {"q4-row-wraps", q4_row_wraps, SL_ERR_FORMAT, {"'blk.0.x': size overflow", "Q4_0"}},
    {"sum-wraps", sum_wraps, SL_ERR_FORMAT, {"'big.a': size overflow"}},
    {"row-not-whole", row_not_whole, SL_ERR_FORMAT, {"'blk.0.x'", "rows of 48", "32 in a block of Q4_0"}},
    {"scalar-of-blocks", scalar_of_blocks, SL_ERR_FORMAT, {"'blk.0.x'", "rows of 1 "}},
    {"offset-odd", offset_odd, SL_ERR_FORMAT, {"'blk.0.x'", "offset 4", "multiple of 32"}},
    {"offset-wraps", offset_wraps, SL_ERR_FORMAT, {"'blk.0.x'", "18446744073709551584"}},
    {"offset-beyond", offset_beyond, SL_ERR_FORMAT, {"truncated, 1048544 bytes are missing", "'blk.0.x'"}},
    {"end-beyond", end_beyond, SL_ERR_FORMAT, {"truncated, 4 bytes are missing (4 B)", "'blk.0.x'"}},
    {"overlap", overlap, SL_ERR_FORMAT, {"'over.b'", "overlaps 'over.a'"}},
    {"overlap-same", overlap_same, SL_ERR_FORMAT, {"'over.b'", "overlaps 'over.a'"}},
    {"list-cut", list_cut, SL_ERR_FORMAT, {"ends inside its header", "'blk.0.x'"}},
    {"type-152", type_152, SL_ERR_UNSUPPORTED, {"1 tensor is", "1 of type id 152", "ik_llama.cpp", "'blk.0.x'"}},
    {"type-removed", type_removed, SL_ERR_UNSUPPORTED, {"IQ4_NL_4_4", "removed", "supported: F32, F16"}},
    {"type-2-31", type_2_31, SL_ERR_UNSUPPORTED, {"id 2147483648"}},
    {"type-private", type_private, SL_ERR_UNSUPPORTED, {"id 1001"}},
    {"types-mixed",
     types_mixed,
     SL_ERR_UNSUPPORTED,
     {"5 tensors are", "2 of type id 152", "1 of type IQ4_NL_4_4", "1 of type Q4_3"}},
};

static void check_hostile(const hostile *h, const char *dir)
{
    bytes b = {0};
    sl_store *s = NULL;
    sl_err err = {0};
    const char *const *p = h->piece;
    h->build(&b);
    uint8_t *exact = malloc(b.n); /* so that a sanitizer sees one byte too many */
    memcpy(exact, b.p, b.n);
    sl_status rc = sl_gguf_parse_memory(&s, h->name, exact, b.n, &err);
    check_refused(rc, h->want, s, &err, h->name, h->name, p[0], p[1], p[2], p[3], NULL);
    free(exact);
    put_bytes(dir, "m.gguf", &b);
    err = (sl_err){0};
    rc = sl_store_open(&s, in_dir(dir, "m.gguf"), NULL, &err);
    check_refused(rc, h->want, s, &err, h->name, "m.gguf", p[0], p[1], p[2], p[3], NULL);
    assert_int_equal(sl_store_open(&s, in_dir(dir, "m.gguf"), NULL, NULL), h->want); /* err is optional */
}

static void test_hostile_files_are_refused(void **state)
{
    (void)state;
    char *dir = dir_new();
    uint64_t live = sl_alloc_live_bytes();
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++)
        check_hostile(&hostiles[i], dir);
    assert_int_equal(sl_alloc_live_bytes(), live);
    dir_free(dir);
}

/* ---- limits from the good side ---- */

static void test_alignment_of_any_integer_type(void **state)
{
    (void)state;
    for (int type = SL_GV_U8; type <= SL_GV_I64; type++) {
        static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 0, 0, 0, 0, 8, 8};
        if (!size[type]) continue;
        bytes b = {0};
        sl_store *s = NULL;
        head(&b, 2, 1, 1); /* version 2 has the same layout */
        kv(&b, "general.alignment", (uint32_t)type);
        put(&b, &(uint64_t){64}, size[type]);
        tensor(&b, "x", 1, DIMS(8), 0, 64);
        pad(&b, 64);
        fill(&b, 64 + 32, 0);
        assert_int_equal(sl_gguf_parse_memory(&s, "a", b.p, b.n, NULL), SL_OK);
        assert_int_equal(sl_store_find(s, "x")->offset_bytes, b.n - 32);
        assert_int_equal(sl_store_find(s, "x")->offset_bytes % 64, 0);
        sl_store_close(s);
        free(b.p);
    }
}

/* Every prefix is refused with a reason, but for those that only lack padding after the last tensor. */
static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    bytes b = {0};
    good(&b);
    for (size_t n = 0; n < b.n; n++) {
        sl_store *s = NULL;
        sl_err err = {0};
        uint8_t *exact = malloc(n ? n : 1);
        memcpy(exact, b.p, n);
        sl_status rc = sl_gguf_parse_memory(&s, "cut.gguf", exact, n, &err);
        check_refused(rc, SL_ERR_FORMAT, s, &err, "a prefix", "cut.gguf", NULL);
        free(exact);
    }
    free(b.p);
}

static void test_trailing_bytes_are_allowed(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = NULL;
    good(&b);
    fill(&b, 100, 0xee);
    assert_int_equal(sl_gguf_parse_memory(&s, "long.gguf", b.p, b.n, NULL), SL_OK);
    sl_store_close(s);
    free(b.p);
}

static void test_types_without_a_decoder_open_but_do_not_pass(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = NULL;
    sl_err err = {0};
    head(&b, 3, 4, 0);
    tensor(&b, "blk.0.a", 1, DIMS(256), 23, 0);
    tensor(&b, "blk.0.b", 1, DIMS(32), 20, 160);
    tensor(&b, "blk.0.c", 1, DIMS(256), 23, 192);
    tensor(&b, "blk.0.d", 1, DIMS(4), 0, 352);
    pad(&b, 32);
    fill(&b, 512, 0);
    assert_int_equal(sl_gguf_parse_memory(&s, "iq.gguf", b.p, b.n, &err), SL_OK);
    assert_int_equal(sl_store_find(s, "blk.0.a")->size_bytes, 136);
    assert_int_equal(sl_store_find(s, "blk.0.b")->size_bytes, 18);
    check_refused(sl_store_check_types(s, &err), SL_ERR_UNSUPPORTED, NULL, &err, "types", "iq.gguf", "3 tensors are",
                  "2 of type IQ4_XS (first 'blk.0.a')", "1 of type IQ4_NL (first 'blk.0.b')", "supported: F32, ", NULL);
    sl_store_close(s);
    free(b.p);
}

/* Many kinds at once must still make one readable sentence with the list of supported types. */
static void test_a_crowd_of_unknown_types_fits_one_message(void **state)
{
    (void)state;
    bytes b = {0};
    sl_store *s = NULL;
    sl_err err = {0};
    char name[64];
    head(&b, 3, 40, 0);
    for (uint32_t i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "blk.%u.a_tensor_with_quite_a_long_name.weight", i);
        tensor(&b, name, 1, DIMS(256), 4000000000u + i, 1024 * i);
    }
    pad(&b, 32);
    fill(&b, 41000, 0);
    sl_status rc = sl_gguf_parse_memory(&s, "crowd.gguf", b.p, b.n, &err);
    check_refused(rc, SL_ERR_UNSUPPORTED, s, &err, "crowd", "40 tensors are", "1 of type id 4000000000",
                  "28 of further types", "supported: F32, ", "Q6_K", NULL);
    free(b.p);
}

/* ---- random damage ---- */

static uint64_t xorshift(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

static void test_damaged_files_never_leave_their_bytes(void **state)
{
    (void)state;
    bytes b = {0};
    good(&b);
    uint64_t rng = 88172645463325252u;
    uint8_t *copy = malloc(b.n);
    size_t accepted = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, b.p, b.n);
        for (uint64_t k = xorshift(&rng) % 4 + 1; k > 0; k--) {
            uint8_t *p = copy + xorshift(&rng) % (b.n - 528);
            *p = xorshift(&rng) % 2 ? (uint8_t)xorshift(&rng) : (uint8_t)(*p ^ 1u << xorshift(&rng) % 8);
        }
        sl_store *s = NULL;
        sl_err err = {0};
        if (sl_gguf_parse_memory(&s, "damaged", copy, b.n, &err) != SL_OK) {
            assert_true(s == NULL && err.msg[0]);
            continue;
        }
        accepted++;
        for (size_t i = 0; i < sl_store_tensor_count(s); i++) {
            const sl_tensor *t = sl_store_tensor(s, i);
            assert_true(t->offset_bytes <= b.n && t->size_bytes <= b.n - t->offset_bytes);
        }
        sl_store_close(s);
    }
    assert_true(accepted > 100 && accepted < 19000); /* the damage does something, and not always */
    free(copy);
    free(b.p);
}

/* An adversary's names: all alike but for their tails.  Finding duplicates must not become quadratic. */
static void test_many_similar_names(void **state)
{
    (void)state;
    enum { N = 60000 };
    bytes b = {0};
    sl_store *s = NULL;
    char name[250];
    head(&b, 3, N, 0);
    memset(name, 'x', sizeof name);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name + 230, 19, "%06u", i * 7919u % 1000000);
        tensor(&b, name, 1, DIMS(1), 0, 32 * i);
    }
    pad(&b, 32);
    fill(&b, 32 * N, 0);
    assert_int_equal(sl_gguf_parse_memory(&s, "many", b.p, b.n, NULL), SL_OK);
    for (uint32_t i = 0; i < N; i += 997)
        assert_ptr_equal(sl_store_find(s, sl_store_tensor(s, i)->name), sl_store_tensor(s, i));
    sl_store_close(s);
    free(b.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_listed),
        cmocka_unit_test(test_integers_of_any_width),
        cmocka_unit_test(test_other_values),
        cmocka_unit_test(test_arrays_are_walked_in_bounds),
        cmocka_unit_test(test_token_ids_are_read_as_written),
        cmocka_unit_test(test_dropping_metadata_keeps_the_directory),
        cmocka_unit_test(test_hostile_files_are_refused),
        cmocka_unit_test(test_alignment_of_any_integer_type),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_trailing_bytes_are_allowed),
        cmocka_unit_test(test_types_without_a_decoder_open_but_do_not_pass),
        cmocka_unit_test(test_a_crowd_of_unknown_types_fits_one_message),
        cmocka_unit_test(test_damaged_files_never_leave_their_bytes),
        cmocka_unit_test(test_many_similar_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
