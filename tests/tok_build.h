/* For tests of the tokenizer: small GGUF vocabularies made by hand, and comparing ids.  Knows the byte disguise and the
 * format from their description only. */
#ifndef TOK_BUILD_H
#define TOK_BUILD_H

#include "store_build.h"
#include "text/text.h"

#include <time.h>

/* GPT-2's disguise of a byte as UTF-8: printable bytes stand for themselves, the others count up from U+0100. */
static inline void disguise(unsigned byte, char out[4])
{
    unsigned n = 0, cp = byte;
    for (unsigned b = 0; b <= byte; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
        if (!printable) cp = 256 + n++;
        if (b == byte && printable) cp = byte;
    }
    if (cp < 0x80)
        snprintf(out, 4, "%c", (int)cp);
    else
        snprintf(out, 4, "%c%c", (int)(0xC0 | cp >> 6), (int)(0x80 | (cp & 63)));
}

static inline void disguise_text(const char *s, char *out)
{
    *out = 0;
    for (; *s; s++) {
        char c[4];
        disguise((unsigned char)*s, c);
        strcat(out, c);
    }
}

/* A vocabulary in the making. */
typedef struct {
    const char *model, *pre, *name; /* NULL: the key is left out */
    const char *tokens[1200];
    int types[1200];
    float scores[1200];
    unsigned n;
    const char *merges[64]; /* "left right", already disguised */
    unsigned n_merge;
    struct {
        const char *key;
        int64_t value; /* written as i32 */
        bool is_bool;
    } extra[16];
    unsigned n_extra;
    bool no_types, no_scores, no_merges;
    char pool[16384];
    size_t n_pool;
} vocab;

static inline int add(vocab *v, const char *text_, int type, float score)
{
    v->tokens[v->n] = text_;
    v->types[v->n] = type;
    v->scores[v->n] = score;
    return (int)v->n++;
}

static inline const char *keep(vocab *v, const char *s)
{
    char *p = v->pool + v->n_pool;
    v->n_pool += strlen(s) + 1;
    if (v->n_pool > sizeof v->pool) abort();
    return strcpy(p, s);
}

static inline void set_int(vocab *v, const char *key, int64_t value)
{
    v->extra[v->n_extra].key = key;
    v->extra[v->n_extra++].value = value;
}

static inline void set_bool(vocab *v, const char *key, bool value)
{
    v->extra[v->n_extra].is_bool = true;
    set_int(v, key, value);
}

/* Tokens 0 to 255 are the bytes. */
static inline void add_bytes(vocab *v)
{
    for (unsigned b = 0; b < 256; b++) {
        char c[4];
        disguise(b, c);
        add(v, keep(v, c), 1, 0);
    }
}

/* A merge of two texts (plain, here disguised) and its token; returns the token's id. */
static inline int add_merge(vocab *v, const char *left, const char *right)
{
    char a[256], b[256], both[512];
    disguise_text(left, a);
    disguise_text(right, b);
    snprintf(both, sizeof both, "%s %s", a, b);
    v->merges[v->n_merge++] = keep(v, both);
    snprintf(both, sizeof both, "%s%s", a, b);
    return add(v, keep(v, both), 1, 0);
}

/* <0x00> to <0xFF>; returns the first id. */
static inline int add_byte_tokens(vocab *v)
{
    int first = (int)v->n;
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        add(v, keep(v, name), 6, 0);
    }
    return first;
}

static inline void write_vocab(bytes *b, const vocab *v)
{
    unsigned n_kv =
        1 + !!v->model + !!v->pre + !!v->name + 1 + !v->no_types + !v->no_scores + !v->no_merges + v->n_extra;
    head(b, 3, 0, n_kv);
    kv_str(b, "general.architecture", "llama");
    if (v->name) kv_str(b, "general.name", v->name);
    if (v->model) kv_str(b, "tokenizer.ggml.model", v->model);
    if (v->pre) kv_str(b, "tokenizer.ggml.pre", v->pre);
    kv_array(b, "tokenizer.ggml.tokens", SL_GV_STRING, v->n);
    for (unsigned i = 0; i < v->n; i++)
        str(b, v->tokens[i]);
    if (!v->no_types) kv_array(b, "tokenizer.ggml.token_type", SL_GV_I32, v->n);
    for (unsigned i = 0; i < v->n && !v->no_types; i++)
        u32(b, (uint32_t)v->types[i]);
    if (!v->no_scores) kv_array(b, "tokenizer.ggml.scores", SL_GV_F32, v->n);
    for (unsigned i = 0; i < v->n && !v->no_scores; i++)
        f32(b, v->scores[i]);
    if (!v->no_merges) kv_array(b, "tokenizer.ggml.merges", SL_GV_STRING, v->n_merge);
    for (unsigned i = 0; i < v->n_merge && !v->no_merges; i++)
        str(b, v->merges[i]);
    for (unsigned i = 0; i < v->n_extra; i++) {
        kv(b, v->extra[i].key, v->extra[i].is_bool ? SL_GV_BOOL : SL_GV_I32);
        v->extra[i].is_bool ? u8(b, (unsigned)v->extra[i].value) : u32(b, (uint32_t)v->extra[i].value);
    }
    pad(b, 32);
}

static inline sl_status build_blob(sl_tokenizer **out, const bytes *b, uint32_t rows, heard *log, sl_err *err)
{
    sl_store *s = NULL;
    sl_log to = {log ? hear : NULL, log};
    sl_status rc = sl_gguf_parse_memory(&s, "test.gguf", b->p, b->n, err);
    if (rc != SL_OK) return rc;
    rc = sl_tokenizer_build(out, s, rows, &to, err);
    sl_store_close(s);
    return rc;
}

static inline sl_status try_build(sl_tokenizer **out, const vocab *v, uint32_t rows, heard *log, sl_err *err)
{
    bytes b = {0};
    *out = NULL;
    write_vocab(&b, v);
    sl_status rc = build_blob(out, &b, rows, log, err);
    free(b.p);
    return rc;
}

static inline sl_tokenizer *must_build(const vocab *v, heard *log)
{
    sl_tokenizer *t;
    sl_err err = {0};
    if (try_build(&t, v, 0, log, &err) != SL_OK) fail_msg("%s", err.msg);
    return t;
}

static inline vocab *new_vocab(const char *model, const char *pre)
{
    vocab *v = calloc(1, sizeof *v);
    if (!v) abort();
    v->model = model;
    v->pre = pre;
    v->no_scores = strcmp(model, "llama") != 0;
    v->no_merges = !v->no_scores;
    return v;
}

/* Encodes text [n] and compares with the list of ids that ends with -1. */
static inline void check_ids_n(sl_tokenizer *t, const char *text_, size_t n, unsigned flags, const int *want, int line)
{
    int32_t got[512];
    size_t n_got = 0, i = 0;
    sl_err err = {0};
    char shown[4096] = "";
    if (sl_tokenize(t, text_, n, flags, got, 512, &n_got, &err) != SL_OK) fail_msg("line %d: %s", line, err.msg);
    while (i < n_got && want[i] == got[i])
        i++;
    if (i == n_got && want[i] == -1) return;
    for (i = 0; i < n_got && strlen(shown) < 4000; i++)
        sprintf(shown + strlen(shown), " %d", got[i]);
    fail_msg("line %d: '%s' gives%s, wanted otherwise", line, text_, shown);
}
#define CHECK_IDS(t, text_, flags, ...)                                                                                \
    check_ids_n(t, text_, strlen(text_), flags, (const int[]){__VA_ARGS__, -1}, __LINE__)

/* Processor seconds of this process. */
static inline double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

#endif
