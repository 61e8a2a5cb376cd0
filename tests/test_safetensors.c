/* safetensors, one file and Hugging Face directories: what is read, and every way of being wrong that the format's
 * rules name.  Each wrong file is parsed from memory and, on disk beside a config.json, through sl_store_open. */
#include "store_build.h"

/* ---- a good file ---- */

static const char good_json[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"caf\\u00e9\"},"
    "\"model.norm.weight\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[24,40]},"
    "\"model.w\":{\"shape\":[2,3],\"extra\":{\"a\":[1,{\"b\":null}]},\"data_offsets\":[0,24],\"dtype\":\"F32\"},"
    "\"scalar\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[40,42]},"
    "\"empty\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[42,42]},"
    "\"packed\":{\"dtype\":\"F6_E2M3\",\"shape\":[2,2],\"data_offsets\":[42,45]},"
    "\"na\xc3\xafve.\\ud83d\\ude00\":{\"dtype\":\"I64\",\"shape\":[1,1,1,1],\"data_offsets\":[45,53]}}   ";

static sl_store *parse(const bytes *b)
{
    sl_store *s = NULL;
    sl_err err = {0};
    if (sl_safetensors_parse_memory(&s, "good", b->p, b->n, &err) != SL_OK) fail_msg("%s", err.msg);
    return s;
}

static void test_tensors_are_listed(void **state)
{
    (void)state;
    bytes b = {0};
    safetensors(&b, good_json, 53);
    sl_store *s = parse(&b);
    uint64_t start = 8 + sizeof good_json - 1;
    assert_int_equal(sl_store_get_format(s), SL_STORE_SAFETENSORS);
    assert_int_equal(sl_store_tensor_count(s), 6);
    const sl_tensor *t = sl_store_find(s, "model.w");
    assert_ptr_equal(t, sl_store_tensor(s, 1)); /* in the order of the header */
    assert_int_equal(t->type->id, SL_F32);
    assert_true(t->n_dims == 2 && t->dims[0] == 2 && t->dims[1] == 3 && t->dims[2] == 1);
    assert_true(t->offset_bytes == start && t->size_bytes == 24);
    t = sl_store_find(s, "model.norm.weight");
    assert_true(t->type->id == SL_BF16 && t->offset_bytes == start + 24 && t->size_bytes == 16);
    t = sl_store_find(s, "scalar");
    assert_true(t->type->id == SL_F16 && t->n_dims == 0 && t->dims[0] == 1 && t->size_bytes == 2);
    t = sl_store_find(s, "empty");
    assert_true(t->n_dims == 2 && t->dims[1] == 0 && t->size_bytes == 0 && t->offset_bytes == start + 42);
    t = sl_store_find(s, "packed");
    assert_true(t->size_bytes == 3 && t->type->dequantise == NULL && strcmp(t->type->name, "F6_E2M3") == 0);
    t = sl_store_find(s, "na\xc3\xafve.\xf0\x9f\x98\x80");
    assert_true(t && t->size_bytes == 8 && strcmp(t->type->name, "I64") == 0);
    assert_null(sl_store_find(s, "__metadata__"));
    assert_null(sl_store_config(s));
    assert_int_equal(sl_store_meta_count(s), 0);
    assert_null(sl_store_meta(s, "general.architecture"));
    sl_err err = {0};
    check_refused(sl_store_check_types(s, &err), SL_ERR_UNSUPPORTED, NULL, &err, "types", "2 tensors are",
                  "1 of type F6_E2M3 (first 'packed')", "1 of type I64", NULL);
    sl_store_drop_metadata(s);
    sl_store_close(s);
    free(b.p);
}

static void test_every_known_dtype_opens_with_its_size(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned bits;
        bool computes;
    } dtypes[] = {
        {"BOOL", 8, 0},        {"U8", 8, 0},          {"I8", 8, 0},   {"F8_E4M3", 8, 0}, {"F8_E5M2", 8, 0},
        {"F8_E8M0", 8, 0},     {"I16", 16, 0},        {"U16", 16, 0}, {"F16", 16, 1},    {"BF16", 16, 1},
        {"F8_E4M3FNUZ", 8, 0}, {"F8_E5M2FNUZ", 8, 0}, {"I32", 32, 0}, {"U32", 32, 0},    {"F32", 32, 1},
        {"I64", 64, 0},        {"U64", 64, 0},        {"F64", 64, 0}, {"C64", 64, 0},    {"F4", 4, 0},
        {"F6_E2M3", 6, 0},     {"F6_E3M2", 6, 0},
    };
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        bytes b = {0};
        char json[256];
        unsigned n = 24 * dtypes[i].bits / 8; /* [3, 8]: rows of F4 and F6 need not fill whole bytes alone */
        snprintf(json, sizeof json, "{\"x\":{\"dtype\":\"%s\",\"shape\":[8,3],\"data_offsets\":[0,%u]}}",
                 dtypes[i].name, n);
        safetensors(&b, json, n);
        sl_store *s = parse(&b);
        assert_string_equal(sl_store_tensor(s, 0)->type->name, dtypes[i].name);
        assert_int_equal(sl_store_tensor(s, 0)->size_bytes, n);
        assert_int_equal(sl_store_check_types(s, NULL) == SL_OK, dtypes[i].computes);
        sl_store_close(s);
        free(b.p);
    }
}

static void test_an_empty_file_of_tensors(void **state)
{
    (void)state;
    bytes b = {0};
    safetensors(&b, "{}", 0);
    sl_store *s = parse(&b);
    assert_int_equal(sl_store_tensor_count(s), 0);
    assert_null(sl_store_find(s, "x"));
    sl_store_close(s);
    free(b.p);
}

/* ---- files that must be refused ---- */

typedef struct {
    const char *name, *json;
    size_t n_data;
    sl_status want;
    const char *piece[3];
} hostile;

#define T(rest) "{\"a\":{\"dtype\":\"F32\"," rest "}}"
#define AB(a, b)                                                                                                       \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" a "},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"          \
    "\"data_offsets\":" b "}}"
#define DEEP64 "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["

static const hostile hostiles[] = {
    /* the JSON */
    {"array", "[]", 0, SL_ERR_FORMAT, {"does not begin with '{'"}},
    {"space-first", " {}", 0, SL_ERR_FORMAT, {"does not begin with '{'"}},
    {"no-header", "", 4, SL_ERR_FORMAT, {"does not begin with '{'"}},
    {"unclosed", "{", 0, SL_ERR_FORMAT, {"not valid JSON"}},
    {"two-values", "{}{}", 0, SL_ERR_FORMAT, {"not valid JSON"}},
    {"trailing-comma", T("\"shape\":[1],\"data_offsets\":[0,4],"), 4, SL_ERR_FORMAT, {"not valid JSON"}},
    {"not-utf8", "{\"\xff\":{}}", 0, SL_ERR_FORMAT, {"UTF-8"}},
    {"raw-newline", "{\"a\nb\":{}}", 0, SL_ERR_FORMAT, {"control character"}},
    {"deep", "{\"a\":" DEEP64, 0, SL_ERR_FORMAT, {"deeper than 64"}},
    {"deep-metadata", "{\"__metadata__\":{\"k\":" DEEP64, 0, SL_ERR_FORMAT, {"__metadata__", "not a string"}},
    /* names */
    {"name-empty",
     "{\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
     4,
     SL_ERR_FORMAT,
     {"tensor 0", "0 bytes"}},
    {"name-nul",
     "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
     4,
     SL_ERR_FORMAT,
     {"control character"}},
    {"name-escape", "{\"a\\u001b[2J\":{}}", 0, SL_ERR_FORMAT, {"a?[2J", "control character"}},
    {"name-twice",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[4,8]}}",
     8,
     SL_ERR_FORMAT,
     {"'a' occurs twice"}},
    {"name-twice-escaped",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"\\u0061\":{\"dtype\":\"F32\","
     "\"shape\":[1],\"data_offsets\":[4,8]}}",
     8,
     SL_ERR_FORMAT,
     {"'a' occurs twice"}},
    {"metadata-twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, SL_ERR_FORMAT, {"__metadata__ twice"}},
    {"metadata-number", "{\"__metadata__\":{\"k\":1}}", 0, SL_ERR_FORMAT, {"__metadata__", "not a string"}},
    {"metadata-array", "{\"__metadata__\":[]}", 0, SL_ERR_FORMAT, {"__metadata__", "not an object"}},
    /* fields */
    {"entry-null", "{\"a\":null}", 0, SL_ERR_FORMAT, {"'a' is not described by an object"}},
    {"no-dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, SL_ERR_FORMAT, {"'a' has no field 'dtype'"}},
    {"no-shape", T("\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"'a' has no field 'shape'"}},
    {"no-offsets", T("\"shape\":[1]"), 4, SL_ERR_FORMAT, {"'a' has no field 'data_offsets'"}},
    {"field-twice", T("\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"two fields 'shape'"}},
    {"dtype-number",
     "{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     SL_ERR_FORMAT,
     {"'a'", "dtype", "not a string"}},
    {"dtype-unknown",
     "{\"a\":{\"dtype\":\"F7\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F7\",\"shape\":[1],"
     "\"data_offsets\":[4,8]}}",
     8,
     SL_ERR_UNSUPPORTED,
     {"2 of type F7 (first 'a')", "supported: F32, F16, BF16"}},
    {"dtype-of-gguf",
     "{\"a\":{\"dtype\":\"Q8_0\",\"shape\":[32],\"data_offsets\":[0,34]}}",
     34,
     SL_ERR_UNSUPPORTED,
     {"1 of type Q8_0"}},
    {"dtype-long",
     "{\"a\":{\"dtype\":\"FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     SL_ERR_FORMAT,
     {"'a'", "does not exist"}},
    {"shape-string", T("\"shape\":\"1\",\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"'a'", "shape is not an array"}},
    {"shape-real", T("\"shape\":[1.0],\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"'a'", "element 0 of shape"}},
    {"shape-exponent", T("\"shape\":[1e0],\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"'a'", "element 0 of shape"}},
    {"shape-negative", T("\"shape\":[-1],\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"'a'", "element 0 of shape"}},
    {"shape-2-63",
     T("\"shape\":[9223372036854775808],\"data_offsets\":[0,4]"),
     4,
     SL_ERR_FORMAT,
     {"'a'", "element 0 of shape"}},
    {"shape-nested", T("\"shape\":[[1]],\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"'a'", "element 0 of shape"}},
    {"shape-5", T("\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"'a'", "shape has more than 4"}},
    {"size-wraps-to-16",
     T("\"shape\":[4,1152921504606846977],\"data_offsets\":[0,16]"),
     16,
     SL_ERR_FORMAT,
     {"'a': size overflow"}},
    {"product-wraps-to-0",
     T("\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"),
     0,
     SL_ERR_FORMAT,
     {"'a': size overflow"}},
    {"zero-hides-wrap",
     T("\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]"),
     0,
     SL_ERR_FORMAT,
     {"'a': size overflow"}},
    {"half-bytes",
     "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}",
     1,
     SL_ERR_FORMAT,
     {"'a'", "3 elements of F4"}},
    {"span-too-long", T("\"shape\":[1],\"data_offsets\":[0,8]"), 8, SL_ERR_FORMAT, {"'a'", "span 8 bytes", "takes 4"}},
    {"span-too-short", T("\"shape\":[2],\"data_offsets\":[0,4]"), 4, SL_ERR_FORMAT, {"'a'", "span 4 bytes", "takes 8"}},
    /* offsets, S07 */
    {"offsets-1", T("\"shape\":[1],\"data_offsets\":[4]"), 4, SL_ERR_FORMAT, {"'a'", "data_offsets has 1 elements"}},
    {"offsets-0", T("\"shape\":[1],\"data_offsets\":[]"), 4, SL_ERR_FORMAT, {"'a'", "data_offsets has 0 elements"}},
    {"offsets-3",
     T("\"shape\":[1],\"data_offsets\":[0,4,8]"),
     4,
     SL_ERR_FORMAT,
     {"'a'", "data_offsets has more than 2"}},
    {"offsets-backwards",
     T("\"shape\":[4],\"data_offsets\":[16,0]"),
     16,
     SL_ERR_FORMAT,
     {"'a'", "backwards, from 16 to 0"}},
    {"offsets-strings",
     T("\"shape\":[1],\"data_offsets\":[\"0\",\"4\"]"),
     4,
     SL_ERR_FORMAT,
     {"'a'", "element 0 of data_offsets"}},
    {"offsets-negative",
     T("\"shape\":[1],\"data_offsets\":[0,-4]"),
     4,
     SL_ERR_FORMAT,
     {"'a'", "element 1 of data_offsets"}},
    {"offsets-wrap",
     T("\"shape\":[1],\"data_offsets\":[9223372036854775803,9223372036854775807]"),
     4,
     SL_ERR_FORMAT,
     {"truncated", "'a'"}},
    {"beyond", AB("[0,8]", "[8,16]"), 12, SL_ERR_FORMAT, {"truncated, 4 bytes are missing", "'b'"}},
    {"overlap", AB("[0,8]", "[4,12]"), 12, SL_ERR_FORMAT, {"'b'", "overlaps 'a'"}},
    {"overlap-same", AB("[0,8]", "[0,8]"), 8, SL_ERR_FORMAT, {"'b'", "overlaps 'a'"}},
    {"gap-first", T("\"shape\":[1],\"data_offsets\":[4,8]"), 8, SL_ERR_FORMAT, {"'a'", "the header", "no gaps"}},
    {"gap", AB("[0,8]", "[12,20]"), 20, SL_ERR_FORMAT, {"'b'", "no gaps"}},
    {"gap-by-empty",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}",
     4,
     SL_ERR_FORMAT,
     {"'a'", "no gaps"}},
    {"tail", AB("[0,8]", "[8,16]"), 17, SL_ERR_FORMAT, {"1 bytes after the last tensor"}},
    {"tail-alone", "{}", 3, SL_ERR_FORMAT, {"3 bytes after the last tensor"}},
};

static const char *config_text = "{\"model_type\":\"llama\"}";

static void check_refusal(const char *name, bytes *b, sl_status want, const char *const piece[3], const char *dir)
{
    sl_store *s = NULL;
    sl_err err = {0};
    uint8_t *exact = malloc(b->n ? b->n : 1); /* so that a sanitizer sees one byte too many */
    memcpy(exact, b->p, b->n);
    sl_status rc = sl_safetensors_parse_memory(&s, name, exact, b->n, &err);
    check_refused(rc, want, s, &err, name, name, piece[0], piece[1], piece[2], NULL);
    free(exact);
    put_bytes(dir, "model.safetensors", b);
    err = (sl_err){0};
    rc = sl_store_open(&s, dir, NULL, &err);
    check_refused(rc, want, s, &err, name, "model.safetensors", piece[0], piece[1], piece[2], NULL);
}

static void test_hostile_headers_are_refused(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_text(dir, "config.json", config_text);
    uint64_t live = sl_alloc_live_bytes();
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        const hostile *h = &hostiles[i];
        bytes b = {0};
        /* dtype-unknown and the like name the directory, not the file: the path of the model */
        const char *piece[3] = {h->piece[0], h->piece[1], h->piece[2]};
        safetensors(&b, h->json, h->n_data);
        sl_store *s = NULL;
        sl_err err = {0};
        if (h->want == SL_ERR_UNSUPPORTED) {
            check_refused(sl_safetensors_parse_memory(&s, h->name, b.p, b.n, &err), h->want, s, &err, h->name, piece[0],
                          piece[1], piece[2], NULL);
            put_bytes(dir, "model.safetensors", &b);
            check_refused(sl_store_open(&s, dir, NULL, &err), h->want, s, &err, h->name, dir, piece[0], piece[1],
                          piece[2], NULL);
        } else {
            check_refusal(h->name, &b, h->want, piece, dir);
        }
    }
    assert_int_equal(sl_alloc_live_bytes(), live);
    dir_free(dir);
}

/* S07: lengths that would make a careless reader allocate or wrap. */
static void test_hostile_lengths_are_refused_before_allocating(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_text(dir, "config.json", config_text);
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63, 100000001};
    bytes b = {0};
    for (size_t i = 0; i < 4; i++) {
        u64(&b, lengths[i]);
        check_refusal("length", &b, SL_ERR_FORMAT, (const char *const[3]){"the limit is 100000000"}, dir);
    }
    safetensors(&b, "{}", 0);
    b.p[0] = 3; /* file size - 8 + 1 */
    check_refusal("one-too-long", &b, SL_ERR_FORMAT, (const char *const[3]){"length is 3 bytes", "only 2 follow"}, dir);
    u64(&b, 99999999);
    text(&b, "{}");
    check_refusal("far-too-long", &b, SL_ERR_FORMAT, (const char *const[3]){"only 2 follow"}, dir);
    for (size_t n = 0; n < 8; n++) {
        fill(&b, n, 1);
        if (n > 0) check_refusal("short", &b, SL_ERR_FORMAT, (const char *const[3]){"at least 8"}, dir);
    }
    free(b.p);
    dir_free(dir);
}

/* S07: nesting of 100,000, in the header and in the JSON documents beside it. */
static void test_deep_nesting_does_not_use_the_stack(void **state)
{
    (void)state;
    char *dir = dir_new();
    size_t n = 100000;
    char *json = malloc(n + 8);
    memcpy(json, "{\"a\":", 5);
    memset(json + 5, '[', n);
    json[n + 5] = 0;
    bytes b = {0};
    put_text(dir, "config.json", config_text);
    safetensors(&b, json, 0);
    check_refusal("deep", &b, SL_ERR_FORMAT, (const char *const[3]){"deeper than 64"}, dir);
    safetensors(&b, "{}", 0);
    put_bytes(dir, "model.safetensors", &b);
    sl_store_close(must_open(dir));
    put_file(dir, "config.json", json, n + 5);
    sl_store *s = NULL;
    sl_err err = {0};
    check_refused(sl_store_open(&s, dir, NULL, &err), SL_ERR_FORMAT, s, &err, "deep config", "config.json", NULL);
    free(json);
    dir_free(dir);
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    bytes b = {0};
    safetensors(&b, good_json, 53);
    for (size_t n = 0; n < b.n; n++) {
        sl_store *s = NULL;
        sl_err err = {0};
        uint8_t *exact = malloc(n ? n : 1);
        memcpy(exact, b.p, n);
        check_refused(sl_safetensors_parse_memory(&s, "cut", exact, n, &err), SL_ERR_FORMAT, s, &err, "a prefix", "cut",
                      NULL);
        free(exact);
    }
    free(b.p);
}

/* ---- Hugging Face directories ---- */

/* One F32 tensor of 2 elements per name (up to NULL), all bytes v. */
static void put_tensors(const char *dir, const char *file, uint8_t v, const char *const *names)
{
    bytes b = {0}, json = {0};
    char entry[256];
    size_t n = 0;
    for (; names[n]; n++) {
        snprintf(entry, sizeof entry, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%zu,%zu]}",
                 n ? "," : "{", names[n], 8 * n, 8 * n + 8);
        text(&json, entry);
    }
    text(&json, "}");
    u8(&json, 0);
    safetensors(&b, (char *)json.p, 0);
    fill(&b, 8 * n, v);
    put_bytes(dir, file, &b);
    free(json.p);
}
#define NAMES(...)                                                                                                     \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

static const char shard1[] = "model-00001-of-00002.safetensors", shard2[] = "model-00002-of-00002.safetensors";
static const char index_file[] = "model.safetensors.index.json";

static char *sharded(void)
{
    char *dir = dir_new();
    put_text(dir, "config.json", config_text);
    put_tensors(dir, shard1, 1, NAMES("w.0", "w.1"));
    put_tensors(dir, shard2, 2, NAMES("w.2"));
    return dir;
}
static void put_index(const char *dir, const char *map)
{
    char json[1024];
    snprintf(json, sizeof json, "{\"metadata\":{\"total_size\":1},\"weight_map\":{%s}}", map);
    put_text(dir, index_file, json);
}
#define GOOD_MAP                                                                                                       \
    "\"w.0\":\"model-00001-of-00002.safetensors\",\"w.1\":\"model-00001-of-00002.safetensors\","                       \
    "\"w.2\":\"model-00002-of-00002.safetensors\""

static void refuse(const char *path, sl_status want, const char *a, const char *b, const char *c)
{
    sl_store *s = NULL;
    sl_err err = {0};
    check_refused(sl_store_open(&s, path, NULL, &err), want, s, &err, path, a, b, c, NULL);
}

static void check_sharded(const char *path)
{
    sl_store *s = must_open(path);
    assert_int_equal(sl_store_tensor_count(s), 3);
    assert_int_equal(sl_store_file_count(s), 2);
    const sl_tensor *t = sl_store_find(s, "w.2");
    assert_non_null(strstr(sl_store_file_path(s, t->file), shard2));
    assert_string_equal(sl_json_string(sl_json_get(sl_store_config(s), "model_type"), NULL), "llama");
    assert_null(sl_store_generation_config(s));
    assert_true(sl_store_header_bytes(s) > 0);
    sl_store_close(s);
}

static void test_shards_with_and_without_an_index(void **state)
{
    (void)state;
    char *dir = sharded();
    check_sharded(dir);
    check_sharded(in_dir(dir, shard2)); /* S05: any shard means the model */
    put_index(dir, GOOD_MAP);
    put_tensors(dir, "consolidated.safetensors", 9, NAMES("w.0", "other")); /* not in the index: not read */
    put_text(dir, "broken.safetensors", "");
    check_sharded(dir);
    dir_free(dir);
}

static void test_one_file_and_its_configuration(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_tensors(dir, "model.safetensors", 1, NAMES("w.0"));
    refuse(dir, SL_ERR_FORMAT, "config.json is missing", NULL, NULL);
    put_text(dir, "config.json", config_text);
    put_text(dir, "generation_config.json", "{\"eos_token_id\":[1,2]}");
    put_tensors(dir, "extra.safetensors", 1, NAMES("w.9")); /* beside model.safetensors: not part of it */
    sl_store *s = must_open(dir);
    assert_int_equal(sl_store_tensor_count(s), 1);
    assert_int_equal(sl_json_count(sl_json_get(sl_store_generation_config(s), "eos_token_id")), 2);
    sl_store_close(s);
    s = must_open(in_dir(dir, "extra.safetensors"));
    assert_non_null(sl_store_find(s, "w.9"));
    assert_non_null(sl_store_config(s));
    sl_store_close(s);
    put_text(dir, "generation_config.json", "{");
    refuse(dir, SL_ERR_FORMAT, "generation_config.json", NULL, NULL);
    put_text(dir, "generation_config.json", "[]");
    refuse(dir, SL_ERR_FORMAT, "generation_config.json", "not a JSON object", NULL);
    dir_free(dir);
}

static void test_other_file_names(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_text(dir, "config.json", config_text);
    put_tensors(dir, "adapter_model.safetensors", 1, NAMES("lora"));
    sl_store_close(must_open(dir)); /* alone it is what is meant */
    put_tensors(dir, "weights.a.safetensors", 1, NAMES("w.0"));
    put_tensors(dir, "weights.b.safetensors", 1, NAMES("w.1"));
    put_text(dir, "._weights.a.safetensors", "resource fork");
    sl_store *s = must_open(dir);
    assert_int_equal(sl_store_file_count(s), 2);
    assert_null(sl_store_find(s, "lora"));
    sl_store_close(s);
    dir_free(dir);
}

static void test_missing_shards_are_named(void **state)
{
    (void)state;
    char *dir = sharded();
    unlink(in_dir(dir, shard1));
    refuse(dir, SL_ERR_IO, "part 1 of 2", shard1, NULL);
    put_index(dir, GOOD_MAP);
    refuse(dir, SL_ERR_IO, shard1, index_file, NULL);
    dir_free(dir);
}

/* S04, S08 */
static void test_bad_shards_are_named(void **state)
{
    (void)state;
    char *dir = sharded();
    bytes b = {0};
    safetensors(&b, "{\"w.2\":{\"dtype\":\"F32\",\"shape\":[2048],\"data_offsets\":[0,8192]}}", 4096);
    put_bytes(dir, shard2, &b);
    refuse(dir, SL_ERR_FORMAT, shard2, "truncated, 4096 bytes are missing", "'w.2'");
    put_text(dir, shard2, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n");
    refuse(dir, SL_ERR_FORMAT, shard2, "git-lfs pointer", "4976698672 bytes");
    put_text(dir, shard2, "GGUF, really");
    refuse(dir, SL_ERR_FORMAT, shard2, "GGUF", NULL);
    dir_free(dir);
}

static void test_index_must_be_sound(void **state)
{
    (void)state;
    static const struct {
        const char *map, *piece[2];
    } maps[] = {
        {"\"w.0\":\"../model-00001-of-00002.safetensors\"", {"'w.0'", "not a plain file name"}},
        {"\"w.0\":\"/etc/passwd\"", {"'w.0'", "not a plain file name"}},
        {"\"w.0\":\"..\\\\x\"", {"'w.0'", "not a plain file name"}},
        {"\"w.0\":\"..\"", {"'w.0'", "not a plain file name"}},
        {"\"w.0\":\"\"", {"'w.0'", "no length"}},
        {"\"w.0\":\"a\\u0000b\"", {"'w.0'", "control character"}},
        {"\"w.0\":\"a\\nb\"", {"'w.0'", "control character"}},
        {"\"w.0\":7", {"'w.0'", "not a string"}},
        {GOOD_MAP ",\"w.3\":\"model-00002-of-00002.safetensors\"", {"'w.3' is not in model-00002", index_file}},
        {"\"w.0\":\"model-00001-of-00002.safetensors\",\"w.2\":\"model-00001-of-00002.safetensors\"",
         {"'w.2' is not in", NULL}},
        {"\"w.0\":\"model-00002-of-00002.safetensors\",\"w.1\":\"model-00001-of-00002.safetensors\"",
         {"'w.0' is said to be in model-00002", "but is in model-00001"}},
    };
    char *dir = sharded();
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        put_index(dir, maps[i].map);
        refuse(dir, SL_ERR_FORMAT, maps[i].piece[0], maps[i].piece[1], NULL);
    }
    put_text(dir, index_file, "{\"weight_map\":[]}");
    refuse(dir, SL_ERR_FORMAT, index_file, "weight_map", NULL);
    put_text(dir, index_file, "{\"weight_map\":{\"w.0\":\"a\",\"w.0\":\"b\"}}");
    refuse(dir, SL_ERR_FORMAT, index_file, "line 1", NULL);
    put_text(dir, index_file, "nonsense");
    refuse(dir, SL_ERR_FORMAT, index_file, NULL, NULL);
    dir_free(dir);
}

/* S06 */
static void test_one_tensor_in_two_shards(void **state)
{
    (void)state;
    char *dir = sharded();
    heard h = {0};
    sl_store *s = NULL;
    put_tensors(dir, shard2, 2, NAMES("w.1", "w.2"));
    refuse(dir, SL_ERR_FORMAT, "'w.1' is in both", shard1, shard2);
    put_index(dir, "\"w.0\":\"model-00001-of-00002.safetensors\",\"w.2\":\"model-00002-of-00002.safetensors\"");
    refuse(dir, SL_ERR_FORMAT, "'w.1' is in both", "the index names neither", NULL);
    put_index(dir, "\"w.0\":\"model-00001-of-00002.safetensors\",\"w.1\":\"model-00002-of-00002.safetensors\","
                   "\"w.2\":\"model-00002-of-00002.safetensors\"");
    assert_int_equal(sl_store_open(&s, dir, &(sl_log){hear, &h}, NULL), SL_OK);
    assert_int_equal(h.n_warning, 1);
    assert_int_equal(sl_store_tensor_count(s), 3);
    assert_non_null(strstr(sl_store_file_path(s, sl_store_find(s, "w.1")->file), shard2));
    for (size_t i = 0; i < 3; i++) /* the order and the lookup still fit together */
        assert_ptr_equal(sl_store_find(s, sl_store_tensor(s, i)->name), sl_store_tensor(s, i));
    sl_store_close(s);
    dir_free(dir);
}

/* Three copies, and the index names the last one. */
static void test_one_tensor_in_three_shards(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_text(dir, "config.json", config_text);
    put_tensors(dir, "a.safetensors", 1, NAMES("x", "w.0"));
    put_tensors(dir, "b.safetensors", 1, NAMES("x", "w.1"));
    put_tensors(dir, "c.safetensors", 1, NAMES("x", "w.2"));
    put_index(dir,
              "\"x\":\"c.safetensors\",\"w.0\":\"a.safetensors\",\"w.1\":\"b.safetensors\",\"w.2\":\"c.safetensors\"");
    sl_store *s = must_open(dir);
    assert_int_equal(sl_store_tensor_count(s), 4);
    assert_non_null(strstr(sl_store_file_path(s, sl_store_find(s, "x")->file), "c.safetensors"));
    sl_store_close(s);
    dir_free(dir);
}

static void test_any_allocation_may_fail(void **state)
{
    (void)state;
    char *dir = sharded();
    put_index(dir, GOOD_MAP);
    put_text(dir, "generation_config.json", "{}");
    uint64_t live = sl_alloc_live_bytes();
    int refused = 0;
    for (long n = 1;; n++) {
        sl_store *s = NULL;
        sl_err err = {0};
        long left = n;
        sl_alloc_set_hook(fail_nth, &left);
        sl_status rc = sl_store_open(&s, dir, NULL, &err);
        sl_alloc_set_hook(NULL, NULL);
        if (rc != SL_OK) check_refused(rc, SL_ERR_NOMEM, s, &err, "a failed allocation", NULL);
        refused += rc != SL_OK;
        sl_store_close(s);
        assert_int_equal(sl_alloc_live_bytes(), live);
        if (left > 0) break;
    }
    assert_true(refused > 30);
    dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_listed),
        cmocka_unit_test(test_every_known_dtype_opens_with_its_size),
        cmocka_unit_test(test_an_empty_file_of_tensors),
        cmocka_unit_test(test_hostile_headers_are_refused),
        cmocka_unit_test(test_hostile_lengths_are_refused_before_allocating),
        cmocka_unit_test(test_deep_nesting_does_not_use_the_stack),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_shards_with_and_without_an_index),
        cmocka_unit_test(test_one_file_and_its_configuration),
        cmocka_unit_test(test_other_file_names),
        cmocka_unit_test(test_missing_shards_are_named),
        cmocka_unit_test(test_bad_shards_are_named),
        cmocka_unit_test(test_index_must_be_sound),
        cmocka_unit_test(test_one_tensor_in_two_shards),
        cmocka_unit_test(test_one_tensor_in_three_shards),
        cmocka_unit_test(test_any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
