/* GGUF as it lies on disk: headers longer than one read, short downloads, shards, directories, and files that are
 * something else.  Also: every allocation of an open may fail. */
#include "store_build.h"

/* A model of n F32 tensors of 8 elements, blk.<from>.w and on; extra: a split shard's keys when count > 0. */
static void model(bytes *b, unsigned from, unsigned n, unsigned no, unsigned count, unsigned total)
{
    char name[32];
    head(b, 3, n, (no == 0) + (count ? 3 : 0));
    if (no == 0) kv_str(b, "general.architecture", "llama");
    if (count) {
        kv(b, "split.no", SL_GV_U16), u16(b, no);
        kv(b, "split.count", SL_GV_U16), u16(b, count);
        kv(b, "split.tensors.count", SL_GV_I32), u32(b, total);
    }
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blk.%u.w", from + i);
        tensor(b, name, 1, DIMS(8), 0, 32 * i);
    }
    pad(b, 32);
    fill(b, 32 * n, (uint8_t)(no + 1));
}

static void put_model(const char *dir, const char *name, unsigned from, unsigned n, unsigned no, unsigned count,
                      unsigned total)
{
    bytes b = {0};
    model(&b, from, n, no, count, total);
    put_bytes(dir, name, &b);
}

/* m-0000N-of-00003.gguf: 2 + 3 + 1 tensors */
static void put_split(const char *dir)
{
    put_model(dir, "m-00001-of-00003.gguf", 0, 2, 0, 3, 6);
    put_model(dir, "m-00002-of-00003.gguf", 2, 3, 1, 3, 6);
    put_model(dir, "m-00003-of-00003.gguf", 5, 1, 2, 3, 6);
}

static void refuse(const char *path, sl_status want, const char *a, const char *b, const char *c)
{
    sl_store *s = NULL;
    sl_err err = {0};
    check_refused(sl_store_open(&s, path, NULL, &err), want, s, &err, path, a, b, c, NULL);
}

/* ---- one file ---- */

/* 200,000 strings of 3 to 40 bytes: the header passes the first read of 1 MiB more than once, and a length or a string
 * lies across every border. */
static void test_a_header_of_several_reads(void **state)
{
    (void)state;
    enum { N = 200000 };
    char *dir = dir_new(), token[64];
    bytes b = {0};
    head(&b, 3, 1, 3);
    kv_array(&b, "tokenizer.ggml.tokens", SL_GV_STRING, N);
    for (int i = 0; i < N; i++) {
        snprintf(token, sizeof token, "t%d%.*s", i, i % 33, "---------------------------------");
        str(&b, token);
    }
    kv_array(&b, "tokenizer.ggml.scores", SL_GV_F32, N);
    for (int i = 0; i < N; i++)
        f32(&b, (float)i);
    kv_u32(&b, "last", 42);
    tensor(&b, "x", 1, DIMS(8), 0, 0);
    size_t header_end = b.n;
    pad(&b, 32);
    fill(&b, 4 << 20, 7);
    put_bytes(dir, "big.gguf", &b);

    sl_store *s = must_open(in_dir(dir, "big.gguf"));
    const sl_meta *tokens = sl_store_meta(s, "tokenizer.ggml.tokens");
    uint64_t pos = 0;
    const char *p;
    size_t n, count = 0;
    while (sl_meta_string_next(tokens, &pos, &p, &n)) {
        snprintf(token, sizeof token, "t%zu%.*s", count, (int)(count % 33), "---------------------------------");
        assert_true(n == strlen(token) && memcmp(p, token, n) == 0);
        count++;
    }
    assert_int_equal(count, N);
    double d;
    assert_true(sl_meta_float_at(sl_store_meta(s, "tokenizer.ggml.scores"), N - 1, &d) && d == N - 1);
    int64_t v;
    assert_true(sl_store_meta_int(s, "last", &v, NULL) && v == 42);
    assert_true(header_end > 5u << 20);
    assert_true(sl_store_header_bytes(s) < header_end + 8192); /* flat: nothing per element */
    uint64_t live = sl_alloc_live_bytes();
    sl_store_drop_metadata(s);
    assert_true(live - sl_alloc_live_bytes() > 5u << 20);
    assert_true(sl_store_header_bytes(s) < 8192);
    assert_string_equal(sl_store_tensor(s, 0)->name, "x");
    sl_store_close(s);
    dir_free(dir);
}

/* A file that claims a header no model has, sparse so that it costs nothing: refused before it is read. */
static void test_a_header_beyond_the_limit(void **state)
{
    (void)state;
    char *dir = dir_new();
    bytes b = {0};
    head(&b, 3, 0, 1);
    kv(&b, "huge", SL_GV_STRING), u64(&b, UINT64_C(300) << 20);
    put_bytes(dir, "m.gguf", &b);
    assert_int_equal(truncate(in_dir(dir, "m.gguf"), INT64_C(400) << 20), 0);
    refuse(in_dir(dir, "m.gguf"), SL_ERR_LIMIT, "longer than 268435456 bytes", "key 'huge'", NULL);
    dir_free(dir);
}

/* S04: by one byte, and to 60 percent. */
static void test_short_downloads_say_what_is_missing(void **state)
{
    (void)state;
    char *dir = dir_new(), missing[64];
    bytes b = {0};
    model(&b, 0, 10, 0, 0, 0);
    put_file(dir, "m.gguf", b.p, b.n - 1);
    refuse(in_dir(dir, "m.gguf"), SL_ERR_FORMAT, "m.gguf: truncated, 1 byte is missing", "the first of 1", "'blk.9.w'");
    size_t kept = b.n - 320 + 32 * 6; /* exactly six tensors left */
    put_file(dir, "m.gguf", b.p, kept);
    snprintf(missing, sizeof missing, "truncated, %zu bytes are missing", b.n - kept);
    refuse(in_dir(dir, "m.gguf"), SL_ERR_FORMAT, missing, "the first of 4", "'blk.6.w'");
    put_bytes(dir, "m.gguf", &b);
    sl_store_close(must_open(in_dir(dir, "m.gguf")));
    dir_free(dir);
}

static void test_content_decides_not_the_extension(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_model(dir, "model.bin", 0, 1, 0, 0, 0);
    put_model(dir, "model.safetensors", 0, 1, 0, 0, 0);
    sl_store *s = must_open(in_dir(dir, "model.bin"));
    assert_string_equal(sl_store_path(s), in_dir(dir, "model.bin"));
    sl_store_close(s);
    s = must_open(in_dir(dir, "model.safetensors"));
    assert_int_equal(sl_store_get_format(s), SL_STORE_GGUF);
    sl_store_close(s);
    dir_free(dir);
}

/* S08 and its relatives. */
static void test_files_that_are_no_models_are_named(void **state)
{
    (void)state;
    static const char lfs[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 3825807360\n";
    static const struct {
        const char *text;
        size_t n;
        const char *piece[2];
    } kinds[] = {
        {lfs, sizeof lfs - 1, {"git-lfs pointer", "3825807360 bytes (3.83 GB)"}},
        {lfs, 60, {"git-lfs pointer", "still has to be fetched"}},
        {"", 0, {"empty", "0 bytes"}},
        {"\n <!DOCTYPE html><html>", 23, {"web page", "fetched"}},
        {"\xef\xbb\xbf<HTML><body>", 15, {"web page", NULL}},
        {"<?xml version='1.0'?><Error>", 28, {"web page", NULL}},
        {"{\"error\":\"Invalid credentials\"}", 31, {"JSON text", NULL}},
        {"PK\x03\x04zzzzzzzzzzzz", 16, {"ZIP", "PyTorch"}},
        {"\x80\x02}q\x00.zzzzzzzzzz", 16, {"pickle", NULL}},
        {"\x1f\x8b\x08zzzzzzzz", 11, {"gzip", NULL}},
        {"tjgg\x03\0\0\0", 8, {"GGML", "converted to GGUF"}},
    };
    static const char *const names[] = {"model.gguf", "model.safetensors", "model"};
    char *dir = dir_new();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (size_t k = 0; k < 3; k++) {
            put_file(dir, names[k], kinds[i].text, kinds[i].n);
            refuse(in_dir(dir, names[k]), SL_ERR_FORMAT, names[k], kinds[i].piece[0], kinds[i].piece[1]);
        }
    put_text(dir, "noise", "once upon a time");
    refuse(in_dir(dir, "noise"), SL_ERR_FORMAT, "neither a GGUF nor a safetensors file", NULL, NULL);
    put_text(dir, "noise.gguf", "once upon a time there was a file");
    refuse(in_dir(dir, "noise.gguf"), SL_ERR_FORMAT, "not a GGUF file", "6f 6e 63 65", NULL);
    dir_free(dir);
}

static void test_paths_that_do_not_exist(void **state)
{
    (void)state;
    char *dir = dir_new();
    sl_store *s = NULL;
    sl_err err = {0};
    check_refused(sl_store_open(&s, in_dir(dir, "no.gguf"), NULL, &err), SL_ERR_IO, s, &err, "absent", "no.gguf", NULL);
    assert_int_not_equal(err.os_errno, 0);
    refuse(dir, SL_ERR_FORMAT, "neither a .gguf nor a .safetensors", NULL, NULL);
    put_text(dir, "pytorch_model.bin", "x");
    refuse(dir, SL_ERR_UNSUPPORTED, "neither a .gguf nor a .safetensors", "pytorch_model.bin", NULL);
    dir_free(dir);
}

/* ---- shards ---- */

static void check_split(const char *path)
{
    sl_store *s = must_open(path);
    char name[32];
    assert_int_equal(sl_store_tensor_count(s), 6);
    assert_int_equal(sl_store_file_count(s), 3);
    assert_string_equal(sl_store_path(s), path);
    static const uint32_t file[] = {0, 0, 1, 1, 1, 2};
    for (unsigned i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "blk.%u.w", i);
        const sl_tensor *t = sl_store_find(s, name);
        assert_ptr_equal(t, sl_store_tensor(s, i));
        assert_int_equal(t->file, file[i]);
        assert_true(t->offset_bytes + t->size_bytes <= sl_store_file_bytes(s, t->file));
        snprintf(name, sizeof name, "m-%05u-of-00003.gguf", t->file + 1);
        assert_non_null(strstr(sl_store_file_path(s, t->file), name));
    }
    assert_non_null(sl_store_meta(s, "general.architecture")); /* the first shard's, whichever was named */
    sl_store_close(s);
}

/* S05 */
static void test_any_shard_or_the_directory_opens_the_model(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_split(dir);
    put_text(dir, "README.md", "# m");
    check_split(in_dir(dir, "m-00001-of-00003.gguf"));
    check_split(in_dir(dir, "m-00002-of-00003.gguf"));
    check_split(in_dir(dir, "m-00003-of-00003.gguf"));
    check_split(dir);
    dir_free(dir);
}

static void test_wrong_shards_are_refused(void **state)
{
    (void)state;
    char *dir = dir_new();
    const char *third = "m-00003-of-00003.gguf";
    put_split(dir);
    unlink(in_dir(dir, third));
    refuse(in_dir(dir, "m-00001-of-00003.gguf"), SL_ERR_IO, third, "part 3 of 3", NULL);
    refuse(dir, SL_ERR_IO, third, "part 3 of 3", NULL);
    put_model(dir, third, 5, 1, 1, 3, 6);
    refuse(dir, SL_ERR_FORMAT, third, "part 3", "'split.no' says 1");
    put_model(dir, third, 5, 1, 2, 4, 6);
    refuse(dir, SL_ERR_FORMAT, third, "3 parts", "'split.count' says 4");
    put_model(dir, third, 5, 2, 2, 3, 6);
    refuse(dir, SL_ERR_FORMAT, "hold 7 tensors", "'split.tensors.count' says 6", NULL);
    put_model(dir, third, 5, 1, 1, 0, 0); /* no split keys at all */
    refuse(dir, SL_ERR_FORMAT, third, "'split.count' says 0", NULL);
    put_text(dir, third, "version https://git-lfs.github.com/spec/v1\nsize 77\n");
    refuse(dir, SL_ERR_FORMAT, third, "git-lfs pointer", "77 bytes");
    bytes b = {0};
    model(&b, 5, 1, 2, 3, 6);
    put_file(dir, third, b.p, b.n - 5);
    refuse(dir, SL_ERR_FORMAT, third, "truncated", "'blk.5.w'");
    put_bytes(dir, third, &b);
    rename(in_dir(dir, third), in_dir(dir, "other.gguf"));
    refuse(in_dir(dir, "other.gguf"), SL_ERR_FORMAT, "part 3 of a model in 3 parts", "name does not end in", NULL);
    dir_free(dir);
}

/* S06, split GGUF */
static void test_one_tensor_in_two_shards(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_split(dir);
    put_model(dir, "m-00003-of-00003.gguf", 1, 1, 2, 3, 6);
    refuse(dir, SL_ERR_FORMAT, "'blk.1.w' is in both", "m-00001-of-00003.gguf", "m-00003-of-00003.gguf");
    dir_free(dir);
}

static void test_unknown_types_are_counted_over_all_shards(void **state)
{
    (void)state;
    char *dir = dir_new();
    bytes b = {0};
    for (unsigned i = 0; i < 2; i++) {
        char name[64];
        head(&b, 3, 1, 2);
        kv(&b, "split.no", SL_GV_U16), u16(&b, i);
        kv(&b, "split.count", SL_GV_U16), u16(&b, 2);
        snprintf(name, sizeof name, "blk.%u.w", i);
        tensor(&b, name, 1, DIMS(256), 200, 0);
        fill(&b, 512, 0);
        snprintf(name, sizeof name, "q-%05u-of-00002.gguf", i + 1);
        put_bytes(dir, name, &b);
    }
    refuse(dir, SL_ERR_UNSUPPORTED, "2 tensors are", "2 of type id 200", "'blk.0.w'");
    dir_free(dir);
}

/* ---- directories ---- */

static void test_directories_with_helpers_and_several_models(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_model(dir, "mmproj-F16.gguf", 0, 1, 0, 0, 0);
    sl_store_close(must_open(dir)); /* alone it is what is meant */
    put_model(dir, "Clip-vision.GGUF", 0, 1, 0, 0, 0);
    refuse(dir, SL_ERR_ARG, "2 GGUF files", "helpers", "mmproj-F16.gguf");
    put_model(dir, "tiny.gguf", 0, 2, 0, 0, 0);
    put_text(dir, "._tiny.gguf", "resource fork");
    sl_store *s = must_open(dir);
    assert_int_equal(sl_store_tensor_count(s), 2);
    sl_store_close(s);
    put_split(dir);
    refuse(dir, SL_ERR_ARG, "2 GGUF models", "m-00001-of-00003.gguf", "tiny.gguf");
    check_split(in_dir(dir, "m-00002-of-00003.gguf")); /* named, it is not ambiguous */
    dir_free(dir);
}

static void test_gguf_wins_over_safetensors_with_a_note(void **state)
{
    (void)state;
    char *dir = dir_new();
    heard h = {0};
    sl_store *s = NULL;
    put_model(dir, "a.gguf", 0, 1, 0, 0, 0);
    put_text(dir, "model.safetensors", "x");
    assert_int_equal(sl_store_open(&s, dir, &(sl_log){hear, &h}, NULL), SL_OK);
    assert_true(h.n_note == 1 && h.n_warning == 0 && strstr(h.last, "GGUF"));
    sl_store_close(s);
    dir_free(dir);
}

/* A very long path must not push the reason out of the message. */
static void test_long_paths_leave_room_for_the_reason(void **state)
{
    (void)state;
    char *dir = dir_new(), path[3000];
    size_t n = (size_t)snprintf(path, sizeof path, "%s", dir);
    while (n < 2500)
        n += (size_t)snprintf(path + n, sizeof path - n, "/.");
    snprintf(path + n, sizeof path - n, "/m.gguf");
    bytes b = {0};
    model(&b, 0, 1, 0, 0, 0);
    put_file(dir, "m.gguf", b.p, b.n - 1);
    refuse(path, SL_ERR_FORMAT, "m.gguf: truncated", "'blk.0.w'", NULL);
    free(b.p);
    dir_free(dir);
}

/* ---- faults ---- */

/* The n-th allocation fails, for every n until none is left to fail: always NOMEM, nothing leaks, nothing is handed
 * out. (A header that could not be shrunk is no failure, so OK may come before the last n.) */
static void test_any_allocation_may_fail(void **state)
{
    (void)state;
    char *dir = dir_new();
    put_split(dir);
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
        cmocka_unit_test(test_a_header_of_several_reads),
        cmocka_unit_test(test_a_header_beyond_the_limit),
        cmocka_unit_test(test_short_downloads_say_what_is_missing),
        cmocka_unit_test(test_content_decides_not_the_extension),
        cmocka_unit_test(test_files_that_are_no_models_are_named),
        cmocka_unit_test(test_paths_that_do_not_exist),
        cmocka_unit_test(test_any_shard_or_the_directory_opens_the_model),
        cmocka_unit_test(test_wrong_shards_are_refused),
        cmocka_unit_test(test_one_tensor_in_two_shards),
        cmocka_unit_test(test_unknown_types_are_counted_over_all_shards),
        cmocka_unit_test(test_directories_with_helpers_and_several_models),
        cmocka_unit_test(test_gguf_wins_over_safetensors_with_a_note),
        cmocka_unit_test(test_long_paths_leave_room_for_the_reason),
        cmocka_unit_test(test_any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
