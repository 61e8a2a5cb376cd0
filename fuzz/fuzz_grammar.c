/* Fuzz target: hostile schemas, expressions and rules, and texts against those that compile.  By the first byte:
 *   'J'   bytes of a text for JSON mode
 *   'S'   a schema, 'R' a regular expression, 'G' rules, 'T' a list of tools; NUL; bytes of a text
 * Whatever the guide accepts, its mask must have said so, and going back must lead to the same place. */
#include "text/guide_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_CHECK(x)                                                                                                  \
    do {                                                                                                               \
        if (!(x)) abort();                                                                                             \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TEXT = 48, MAX_BYTES = 4 << 20 };

/* All bytes, an end, and a few words over the borders of JSON. */
static sl_token_trie *vocabulary(uint32_t *n_vocab)
{
    static sl_tokenizer *t;
    static sl_token_trie *trie;
    static const char *const words[] = {"{\\\"", "\\\":", "\\\",", "\\\"}", "}}", "]]", "aa", "12", "true", "\\u0120\\\""};
    if (!trie) {
        char *text = NULL;
        size_t n;
        unsigned odd = 0, id = 257;
        FILE *f = open_memstream(&text, &n);
        FUZZ_CHECK(f);
        fprintf(f, "{\"added_tokens\": [{\"id\": 256, \"content\": \"<|im_end|>\", \"special\": true}], \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                   "\"use_regex\": false}, \"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {");
        for (unsigned b = 0; b < 256; b++) {
            bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
            fprintf(f, "\"\\u%04x\": %u, ", printable ? b : 256 + odd++, b);
        }
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            fprintf(f, "%s\"%s\": %u", i ? ", " : "", words[i], id++);
        fprintf(f, "}}}");
        fclose(f);
        FUZZ_CHECK(sl_tokenizer_parse_json(&t, "fuzz", text, n, NULL) == SL_OK);
        FUZZ_CHECK(sl_token_trie_open(&trie, t, NULL) == SL_OK);
        free(text);
    }
    *n_vocab = sl_tokenizer_vocab(t);
    return trie;
}

static void use(const sl_gram *g, const uint8_t *text, size_t n)
{
    uint32_t n_vocab;
    sl_token_trie *trie = vocabulary(&n_vocab);
    sl_guide *gd = NULL;
    sl_err err = {0};
    const uint64_t *mask;
    sl_status rc = sl_guide_open(&gd, g, trie, n_vocab, NULL, 0, sl_guide_least_bytes(n_vocab) + sl_gram_bytes(g), &err);
    FUZZ_CHECK(rc == SL_OK || err.msg[0]);
    for (size_t i = 0; rc == SL_OK && i < n && i < MAX_TEXT; i++) {
        bool allowed = false;
        rc = sl_guide_mask(gd, &mask, &err);
        FUZZ_CHECK(rc == SL_OK || err.msg[0]);
        if (rc != SL_OK || sl_guide_allows(gd, text[i], &allowed, &err) != SL_OK) break;
        FUZZ_CHECK(allowed == (mask[text[i] >> 6] >> (text[i] & 63) & 1));
        rc = sl_guide_accept(gd, text[i], &err);
        FUZZ_CHECK((rc == SL_OK) == allowed || rc == SL_ERR_LIMIT);
        if (rc != SL_OK || i % 7 != 6) continue;
        FUZZ_CHECK(sl_guide_rollback(gd, 1, &err) == SL_OK);
        rc = sl_guide_accept(gd, text[i], &err);
        FUZZ_CHECK(rc == SL_OK || rc == SL_ERR_LIMIT);
    }
    sl_guide_close(gd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sl_gram *g = NULL;
    sl_err err = {0};
    sl_status rc;
    if (size < 1) return 0;
    const char *text = (const char *)data + 1, *nul = memchr(text, 0, size - 1);
    size_t n = *data == 'J' ? 0 : nul ? (size_t)(nul - text) : size - 1, at = *data == 'J' ? 1 : nul ? n + 2 : size;
    if (*data == 'T') {
        sl_tool_grammar_options o = {.struct_size = sizeof o, .tools = text, .tools_bytes = n, .prefix = "<", .required = size & 1, .parallel = true};
        rc = sl_gram_open_tools(&g, &o, MAX_BYTES, &err);
    } else {
        sl_grammar_kind kind = *data == 'S' ? SL_GRAMMAR_SCHEMA : *data == 'R' ? SL_GRAMMAR_REGEX : *data == 'G' ? SL_GRAMMAR_GBNF : SL_GRAMMAR_JSON;
        sl_gram_options o = {.kind = kind, .text = text, .text_bytes = n, .max_bytes = MAX_BYTES};
        rc = sl_gram_open(&g, &o, &err);
    }
    FUZZ_CHECK((rc == SL_OK) == (g != NULL));
    FUZZ_CHECK(rc == SL_OK || err.msg[0]);
    if (g) use(g, data + at, size - at);
    sl_gram_close(g);
    return 0;
}
