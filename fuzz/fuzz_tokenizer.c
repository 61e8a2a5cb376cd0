/* Fuzz target: tokenizers from hostile files, and hostile texts through good tokenizers.  By the first byte:
 *   'G'   a GGUF file (its magic begins so): built if it can be, then used
 *   '{'   a tokenizer.json: the same
 *   'B'   a text for a byte-level tokenizer: every byte comes back
 *   'S'   a text for a SentencePiece tokenizer: every byte comes back
 *   'R'   a pattern, NUL, a text: matches lie in order inside the text
 *   'D'   ids for the detokeniser: what comes out is valid UTF-8 */
#include "text/text_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_CHECK(x)                                                                                                  \
    do {                                                                                                               \
        if (!(x)) abort();                                                                                             \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_IDS = 1 << 16 };
static int32_t ids[MAX_IDS];
static char back[1 << 18];

/* ---- good tokenizers ---- */

static sl_tokenizer *byte_level(void)
{
    static sl_tokenizer *t;
    if (t) return t;
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    FUZZ_CHECK(f);
    fprintf(
        f,
        "{\"added_tokens\": [{\"id\": 256, \"content\": \"<|end|>\", \"special\": true, \"rstrip\": true}, {\"id\": "
        "257, "
        "\"content\": \"\\n\\n\", \"special\": false}], \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
        "[{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
        "\\\\p{L}+|\\\\p{N}{1,3}| "
        "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, "
        "\"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", \"use_regex\": false}]}, \"model\": {\"vocab\": {");
    unsigned odd = 0;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        fprintf(f, "\"\\u%04x\": %u, ", printable ? b : 256 + odd++, b);
    }
    fprintf(f, "\"aa\": 258, \"aaaa\": 259, \"\\u0120a\": 260}, \"merges\": [\"a a\", \"aa aa\", \"\\u0120 a\"]}}");
    fclose(f);
    FUZZ_CHECK(sl_tokenizer_parse_json(&t, "fuzz", text, n, NULL) == SL_OK);
    free(text);
    return t;
}

static void put(FILE *f, const char *s)
{
    uint64_t n = strlen(s);
    fwrite(&n, 8, 1, f);
    fwrite(s, 1, n, f);
}

static void put_array(FILE *f, const char *key, uint32_t type, uint64_t n)
{
    uint32_t array = SL_GV_ARRAY;
    put(f, key);
    fwrite(&array, 4, 1, f);
    fwrite(&type, 4, 1, f);
    fwrite(&n, 8, 1, f);
}

static sl_tokenizer *sentencepiece(void)
{
    static sl_tokenizer *t;
    static const char *const words[] = {"a", "aa", "▁", "▁▁", "▁a", "é", "日", "<tool>"};
    enum { N_WORD = 8, N = 256 + N_WORD };
    if (t) return t;
    char *blob = NULL, name[8];
    size_t n;
    FILE *f = open_memstream(&blob, &n);
    FUZZ_CHECK(f);
    fwrite("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0", 1, 24, f);
    uint32_t string = SL_GV_STRING;
    put(f, "general.architecture"), fwrite(&string, 4, 1, f), put(f, "llama");
    put(f, "tokenizer.ggml.model"), fwrite(&string, 4, 1, f), put(f, "llama");
    put_array(f, "tokenizer.ggml.tokens", SL_GV_STRING, N);
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof name, "<0x%02X>", i & 255);
        put(f, i < 256 ? name : words[i - 256]);
    }
    put_array(f, "tokenizer.ggml.token_type", SL_GV_I32, N);
    for (unsigned i = 0; i < N; i++)
        fwrite(&(int32_t){i < 256 ? 6 : i == N - 1 ? 4 : 1}, 4, 1, f);
    put_array(f, "tokenizer.ggml.scores", SL_GV_F32, N);
    for (unsigned i = 0; i < N; i++)
        fwrite(&(float){-(float)(i % 5)}, 4, 1, f);
    put(f, "tokenizer.ggml.add_space_prefix"); /* false: one behind <tool> would not be taken away again */
    fwrite(&(uint32_t){SL_GV_BOOL}, 4, 1, f), fwrite("", 1, 1, f);
    fwrite("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 1, 31, f);
    fclose(f);
    sl_store *s = NULL;
    FUZZ_CHECK(sl_gguf_parse_memory(&s, "fuzz", (uint8_t *)blob, n, NULL) == SL_OK);
    FUZZ_CHECK(sl_tokenizer_build(&t, s, 0, NULL, NULL) == SL_OK);
    sl_store_close(s);
    free(blob);
    return t;
}

/* ---- using one ---- */

/* Encodes; every id must be one of the vocabulary.  Returns their number, at most MAX_IDS. */
static size_t encode(sl_tokenizer *t, const char *text, size_t n, unsigned flags)
{
    size_t n_ids = 0;
    sl_err err = {0};
    sl_status rc = sl_tokenize(t, text, n, flags, ids, MAX_IDS, &n_ids, &err);
    FUZZ_CHECK(rc == SL_OK || (rc == SL_ERR_LIMIT && n_ids > MAX_IDS && err.msg[0]));
    n_ids = n_ids < MAX_IDS ? n_ids : MAX_IDS;
    for (size_t i = 0; i < n_ids; i++)
        FUZZ_CHECK(ids[i] >= 0 && (uint32_t)ids[i] < sl_tokenizer_vocab(t));
    return n_ids;
}

static void decode(sl_tokenizer *t, size_t n)
{
    sl_detok *d = NULL;
    const char *p;
    size_t n_bytes;
    FUZZ_CHECK(sl_detok_open(&d, t, false, NULL) == SL_OK);
    for (size_t i = 0; i <= n; i++) {
        if (i < n)
            sl_detok_add(d, ids[i], &p, &n_bytes);
        else
            sl_detok_end(d, &p, &n_bytes);
        FUZZ_CHECK(sl_utf8_valid_prefix(p, n_bytes) == n_bytes);
    }
    sl_detok_close(d);
}

static void use(sl_tokenizer *t, const uint8_t *data, size_t size)
{
    static const char text[] = "Hello, world!  123\n\n e\u0301 \u2581\u2581 日本 <s></s><|im_end|> \xff";
    size_t n = size < 512 ? size : 512;
    decode(t, encode(t, text, sizeof text - 1, SL_ENCODE_BOS | SL_ENCODE_SPECIAL));
    decode(t, encode(t, text, sizeof text - 1, 0));
    decode(t, encode(t, (const char *)data + size - n, n, SL_ENCODE_SPECIAL));
    for (uint32_t i = 0; i < sl_tokenizer_vocab(t); i++) {
        size_t len;
        FUZZ_CHECK(sl_token_bytes(t, (int32_t)i, true, &len) != NULL);
    }
    FUZZ_CHECK(sl_tokenizer_bos(t) < (int64_t)sl_tokenizer_vocab(t));
}

static void check_built(sl_status rc, sl_tokenizer *t, const sl_err *err, const uint8_t *data, size_t size)
{
    FUZZ_CHECK((rc == SL_OK) == (t != NULL));
    FUZZ_CHECK(rc == SL_OK || err->msg[0]);
    if (t) use(t, data, size);
    sl_tokenizer_close(t);
}

static void comes_back(sl_tokenizer *t, const char *text, size_t n)
{
    size_t n_back = 0, n_ids;
    n = n < MAX_IDS / 4 ? n : MAX_IDS / 4;
    n_ids = encode(t, text, n, 0);
    FUZZ_CHECK(sl_detokenize(t, ids, n_ids, false, back, sizeof back, &n_back, NULL) == SL_OK);
    if (memmem(text, n, "\xe2\x96\x81", 3)) return; /* a literal U+2581 comes back as a space */
    FUZZ_CHECK(n_back == n && memcmp(back, text, n) == 0);
}

static void match(const char *data, size_t size)
{
    const char *nul = memchr(data, 0, size);
    sl_regex *re = NULL;
    sl_matcher m = {0};
    sl_err err = {0};
    size_t n_pattern = nul ? (size_t)(nul - data) : size, n = nul ? size - n_pattern - 1 : 0, at = 0, from, to;
    sl_status rc = sl_regex_open(&re, data, n_pattern, "fuzz", &err);
    FUZZ_CHECK((rc == SL_OK) == (re != NULL) && (re || err.msg[0]));
    if (!re) return;
    n = nul ? sl_utf8_valid_prefix(nul + 1, n < 256 ? n : 256) : 0;
    while (at <= n && sl_regex_find(re, &m, nul ? nul + 1 : "", n, at, &from, &to) == SL_MATCH_FOUND) {
        FUZZ_CHECK(from >= at && to >= from && to <= n);
        uint32_t cp;
        size_t len = to < n ? sl_utf8_decode(nul + 1 + to, n - to, &cp) : 1;
        at = to > from ? to : to + len;
    }
    sl_matcher_close(&m);
    sl_regex_close(re);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sl_tokenizer *t = NULL;
    sl_store *s = NULL;
    sl_err err = {0};
    sl_status rc;
    const char *text = (const char *)data + 1;
    if (size == 0) return 0;
    switch (*data) {
    case 'G':
        if (sl_gguf_parse_memory(&s, "fuzz", data, size, NULL) != SL_OK) return 0;
        rc = sl_tokenizer_build(&t, s, 0, NULL, &err);
        check_built(rc, t, &err, data, size);
        sl_store_close(s);
        break;
    case '{':
        rc = sl_tokenizer_parse_json(&t, "fuzz", (const char *)data, size, &err);
        check_built(rc, t, &err, data, size);
        break;
    case 'B':
        comes_back(byte_level(), text, size - 1);
        break;
    case 'S':
        comes_back(sentencepiece(), text, size - 1);
        break;
    case 'R':
        match(text, size - 1);
        break;
    case 'D':
        for (size_t i = 1; i < size; i++)
            ids[(i - 1) % MAX_IDS] = data[i] == 255 ? -1 : data[i];
        decode(data[size - 1] & 1 ? byte_level() : sentencepiece(), size - 1 < MAX_IDS ? size - 1 : MAX_IDS);
        break;
    default:
        break;
    }
    return 0;
}
