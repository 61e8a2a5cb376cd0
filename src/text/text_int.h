/* Inside the room: what a tokenizer is made of and what its files share.  Read in this order: the text form, the
 * vocabulary, merging, special tokens, the two pipelines (normalise, split), the tokenizer itself, the encoder.
 *
 * A text on its way to ids (encode.c):
 *   special.c      cut out added tokens             <|im_start|> is one token, whatever stands around it
 *   normalizer.c   rewrite what lies between        NFC, space -> U+2581, ...
 *   splitter.c     cut it into pieces               words, digits, runs of blanks
 *   bpe.c          merge each piece into tokens
 */
#ifndef SL_TEXT_INT_H
#define SL_TEXT_INT_H

#include "text/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    SL_TOK_MAX_VOCAB = (1 << 22) - 1, /* tokens; the largest known vocabulary has 262,144 */
    SL_TOK_MAX_TOKEN_BYTES = 1 << 16, /* of one token */
    SL_TOK_MAX_STEPS = 24,            /* of a normalizer or of a splitter */
    SL_TOK_MAX_AFFIX = 8,             /* tokens put before or after a text */
    SL_TOK_MAX_PATTERN_BYTES = 1 << 15,
};
#define SL_TOK_MAX_TEXT_BYTES ((size_t)1 << 30) /* positions are 32-bit; normalising may grow a text */

/* ---- tokens ---- */

/* Numbered as in GGUF's tokenizer.ggml.token_type. */
enum {
    SL_TOK_UNDEFINED, /* treated as normal */
    SL_TOK_NORMAL,
    SL_TOK_UNKNOWN, /* stands for what has no token */
    SL_TOK_CONTROL,
    SL_TOK_USER, /* always cut out of a text, and visible */
    SL_TOK_UNUSED,
    SL_TOK_BYTE,
};
/* One byte per token: its type and how it behaves. */
enum {
    SL_ATTR_TYPE = 7,
    SL_ATTR_END = 8,          /* ends generation */
    SL_ATTR_LSTRIP = 16,      /* swallows blanks before it */
    SL_ATTR_RSTRIP = 32,      /* ... after it */
    SL_ATTR_WORD = 64,        /* only where no word character touches it */
    SL_ATTR_NORMALIZED = 128, /* looked for after normalising */
};

/* What a vocabulary's strings are, and so what is stored.  Only this one form is kept: it is both what a text is
 * matched with and what a token writes.
 *   BYTES   the strings are bytes in GPT-2's printable disguise; stored undisguised
 *   SPACED  U+2581 stands for a space; stored as a space
 *   PLAIN   stored as they are
 * Tokens that no merge can make (added tokens, byte tokens, strings that are not of the form) keep their own text and
 * are not in the hash table, so that "é" the added token and the bytes E9 of another cannot be taken for each other. */
#define SL_LOW_LINE "\xe2\x96\x81" /* U+2581 */
typedef enum { SL_FORM_BYTES, SL_FORM_SPACED, SL_FORM_PLAIN } sl_text_form;

typedef struct {
    sl_text_form form;
    uint32_t n, cap;   /* tokens so far, in all */
    uint32_t n_usable; /* ids at or above have no row in the model: never produced */
    char *text;        /* one block */
    size_t text_cap;
    uint32_t *off;   /* [cap + 1] */
    uint8_t *attr;   /* [cap] */
    uint32_t *slots; /* open addressing: id in the low 22 bits, ten bits of the hash above; UINT32_MAX: free */
    uint32_t slot_mask;
    uint32_t max_token_bytes;
    int32_t byte_id[256]; /* token of a single byte; -1: none */
    uint8_t *joints; /* [256 * 256 / 8], not for BYTES: which byte pairs occur inside a token where a character ends */
} sl_vocab;

sl_status sl_vocab_open(sl_vocab *v, sl_text_form form, uint32_t n, uint32_t n_usable, size_t text_bytes, sl_err *err);
/* Appends token number v->n.  text: as in the file, at most SL_TOK_MAX_TOKEN_BYTES. */
sl_status sl_vocab_add(sl_vocab *v, unsigned attr, const char *text, size_t n_bytes, sl_err *err);
/* After the last token: gives spare memory back, fills byte_id of BYTES. */
void sl_vocab_seal(sl_vocab *v);
void sl_vocab_close(sl_vocab *v);
/* The mergeable token with these bytes, or -1. */
int32_t sl_vocab_find(const sl_vocab *v, const char *bytes, size_t n_bytes);
/* The same for a string as the file has it; buf of SL_TOK_MAX_TOKEN_BYTES. */
int32_t sl_vocab_find_raw(const sl_vocab *v, const char *text, size_t n_bytes, char *buf);
/* Any token with this text, added ones first; linear, for settings.  -1: none */
int32_t sl_vocab_find_any(const sl_vocab *v, const char *text, size_t n_bytes);
uint64_t sl_vocab_bytes(const sl_vocab *v);

static inline unsigned sl_vocab_type(const sl_vocab *v, uint32_t id)
{
    return v->attr[id] & SL_ATTR_TYPE;
}
static inline const char *sl_vocab_text(const sl_vocab *v, uint32_t id, size_t *n_bytes)
{
    *n_bytes = v->off[id + 1] - v->off[id];
    return v->text + v->off[id];
}
/* May a merge cross from byte a to byte b, where b begins a character? */
static inline bool sl_vocab_joins(const sl_vocab *v, char a, char b)
{
    unsigned i = (unsigned)(uint8_t)a << 8 | (uint8_t)b;
    return v->joints[i >> 3] >> (i & 7) & 1;
}
/* "<0x4F>" -> 0x4F; exactly two hex digits, else -1. */
int sl_byte_token_value(const char *text, size_t n_bytes);

/* ---- merging ---- */

/* Merges by rank: rows grouped by left token (first[left] .. first[left + 1]) and sorted.  A row is one word: right,
 * result, rank from the top, ids of id_bits each. */
typedef struct {
    uint32_t *first; /* [n tokens + 1] */
    uint64_t *rows;
    uint32_t n;
    unsigned id_bits;
} sl_merges;

/* While building: in the order of the file. */
typedef struct {
    struct sl_merge_raw {
        uint32_t left, right, id;
    } * raw;
    uint32_t n, cap;
    uint64_t n_ignored; /* merges of or into something that is no token */
    char *buf;          /* of 3 * SL_TOK_MAX_TOKEN_BYTES */
} sl_merge_list;
sl_status sl_merge_list_open(sl_merge_list *l, uint32_t expected, sl_err *err);
sl_status sl_merge_list_add(sl_merge_list *l, const sl_vocab *v, const char *left, size_t n_left, const char *right,
                            size_t n_right, sl_err *err);
sl_status sl_merge_list_finish(sl_merge_list *l, sl_merges *out, const sl_vocab *v, sl_err *err);
void sl_merge_list_close(sl_merge_list *l);
void sl_merges_close(sl_merges *m);
/* False: this pair does not merge. */
bool sl_merges_find(const sl_merges *m, uint32_t left, uint32_t right, uint32_t *rank, uint32_t *id);

/* ---- special tokens ---- */

typedef struct {
    uint32_t off, len, id;
} sl_special_row;
typedef struct {
    sl_special_row *rows; /* sorted by text, then by id */
    uint32_t n, cap;
    uint32_t first[257]; /* rows by first byte */
    sl_buf text;
    bool spaced; /* U+2581 in a text counts as a space, as in SentencePiece */
} sl_special;
typedef struct {
    size_t from, to; /* what is cut out, swallowed blanks included */
    uint32_t id;
} sl_special_match;
sl_status sl_special_open(sl_special *s, uint32_t expected, bool spaced, sl_err *err);
sl_status sl_special_add(sl_special *s, uint32_t id, const char *text, size_t n_bytes, sl_err *err);
/* After the last one. */
void sl_special_seal(sl_special *s);
void sl_special_close(sl_special *s);
uint64_t sl_special_bytes(const sl_special *s);

/* ---- characters ---- */

bool sl_char_is_space(uint32_t cp);  /* Unicode White_Space */
bool sl_char_is_word(uint32_t cp);   /* letters, marks, numbers, connectors */
bool sl_char_is_digit(uint32_t cp);  /* decimal digits, Nd */
bool sl_char_is_number(uint32_t cp); /* Nd, Nl, No */
/* The character that ends at s + end (end > 0); its length, or 0 when the bytes there are no character. */
size_t sl_char_before(const char *s, size_t end, uint32_t *cp);
/* At most 60 bytes of s for a message, without control characters; returns buf. */
const char *sl_text_show(const char *s, size_t n, char buf[64]);

/* ---- regular expressions ---- */

typedef struct sl_regex sl_regex;
/* pattern: Oniguruma's dialect, as in tokenizer.json.  what: for the message. */
sl_status sl_regex_open(sl_regex **out, const char *pattern, size_t n_bytes, const char *what, sl_err *err);
void sl_regex_close(sl_regex *re);
uint64_t sl_regex_bytes(const sl_regex *re);
/* The same pattern in PCRE2's dialect; out is initialised by the callee and freed by the caller. */
sl_status sl_regex_translate(sl_buf *out, const char *pattern, size_t n_bytes, const char *what, sl_err *err);

/* What matching needs; one per caller, zeroed at first. */
typedef struct {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    size_t slice_bytes; /* 0 until a limit was hit */
} sl_matcher;
typedef enum { SL_MATCH_NONE, SL_MATCH_FOUND, SL_MATCH_NOMEM } sl_match_result;
/* The first match in valid UTF-8 text [n_bytes] at or behind start. */
sl_match_result sl_regex_find(const sl_regex *re, sl_matcher *m, const char *text, size_t n_bytes, size_t start,
                              size_t *from, size_t *to);
void sl_matcher_close(sl_matcher *m);

/* ---- normalising ---- */

typedef enum { SL_NORM_UNICODE, SL_NORM_REPLACE, SL_NORM_REGEX, SL_NORM_PREPEND, SL_NORM_STRIP } sl_norm_kind;
typedef enum { SL_NFC, SL_NFD, SL_NFKC, SL_NFKD } sl_norm_form;
typedef struct {
    sl_norm_kind kind;
    sl_norm_form form;
    bool left, right; /* STRIP */
    sl_regex *re;     /* REGEX */
    char *from, *to;  /* REPLACE, REGEX and PREPEND (to) */
    size_t n_from, n_to;
} sl_norm_step;

/* Appends to out the normal form of valid UTF-8. */
sl_status sl_normalize_unicode(sl_buf *out, const char *text, size_t n_bytes, sl_norm_form form, sl_err *err);
/* Runs all steps (PREPEND only where begins is set).  *text is replaced by the result, which lies in one of the buffers
 * or is the input. */
sl_status sl_normalize(const sl_norm_step *steps, uint32_t n_step, bool begins, sl_buf bufs[2], sl_matcher *m,
                       const char **text, size_t *n_bytes, sl_err *err);

/* ---- splitting ---- */

typedef enum {
    SL_SPLIT_REGEX,
    SL_SPLIT_DIGITS,    /* cuts runs of decimal digits (\d) in threes from the right */
    SL_SPLIT_METASPACE, /* U+2581 for spaces, one put before, cut before each */
    SL_SPLIT_PREFIX,    /* a space put before */
} sl_split_kind;
typedef enum { SL_ISOLATED, SL_REMOVED, SL_MERGED_WITH_PREVIOUS, SL_MERGED_WITH_NEXT, SL_CONTIGUOUS } sl_split_behavior;
typedef enum { SL_PREPEND_NEVER, SL_PREPEND_FIRST, SL_PREPEND_ALWAYS } sl_prepend;
typedef enum { SL_DIGITS_CUT, SL_DIGITS_AT_WORD_END, SL_DIGITS_ANY_NUMBER } sl_digits_rule;
typedef struct {
    sl_split_kind kind;
    sl_regex *re;
    sl_split_behavior behavior;
    bool invert;
    sl_digits_rule digits;
    sl_prepend prepend; /* METASPACE */
    bool cut;           /* METASPACE */
} sl_split_step;

typedef sl_status (*sl_piece_fn)(void *user, const char *piece, size_t n_bytes);
typedef struct {
    const sl_split_step *steps;
    uint32_t n_step;
    bool at_start; /* the text begins here (Metaspace's "first") */
    sl_buf *bufs;  /* [SL_TOK_MAX_STEPS], for steps that rewrite */
    sl_matcher *matcher;
    sl_piece_fn fn;
    void *user;
    sl_err *err;
} sl_splitter;
/* Calls fn for every piece of valid UTF-8, in order. */
sl_status sl_split(sl_splitter *s, uint32_t i_step, const char *text, size_t n_bytes);

/* The GGUF names of pre-tokenizers (patterns.c). */
enum { SL_PRE_IGNORE_MERGES = 1, SL_PRE_ADD_BOS = 2, SL_PRE_NFC = 4 };
typedef struct {
    const char *name;
    const char *const *patterns; /* ends with NULL; a pattern "\1" and a digit is a SPLIT_DIGITS step of that rule */
    unsigned flags;
} sl_pre;
const sl_pre *sl_pre_find(const char *name, size_t n_bytes); /* NULL: unknown */
extern const sl_pre sl_pre_default;
extern const char sl_pattern_gpt2[];
/* ---- the tokenizer ---- */

typedef enum {
    SL_BPE_RANKS,  /* merges by rank, from single bytes (form BYTES) or from characters */
    SL_BPE_SCORES, /* merges by the score of the result, from characters */
} sl_bpe_kind;

struct sl_tokenizer {
    sl_vocab vocab;
    sl_bpe_kind bpe;
    sl_merges merges;    /* RANKS */
    float *scores;       /* SCORES: [n] */
    bool ignore_merges;  /* a piece that is a token is taken whole */
    bool newlines_whole; /* ... only if it is all newlines */
    bool byte_fallback;  /* characters only: what has no token becomes byte tokens */
    bool fuse_unk;
    int32_t unk; /* -1: none */
    int32_t bos;
    bool strip_first_space; /* detokenising takes it away again */
    sl_special special, special_normalized;
    sl_norm_step norm[SL_TOK_MAX_STEPS];
    uint32_t n_norm;
    sl_split_step split[SL_TOK_MAX_STEPS];
    uint32_t n_split;
    int32_t before[SL_TOK_MAX_AFFIX], after[SL_TOK_MAX_AFFIX]; /* added with SL_ENCODE_BOS */
    uint32_t n_before, n_after;
    uint32_t n_end;
};

/* Fills t from GGUF metadata / from the files of a Hugging Face directory. */
sl_status sl_tokenizer_from_gguf(sl_tokenizer *t, const sl_store *store, uint32_t n_rows, const sl_log *log,
                                 sl_err *err);
sl_status sl_tokenizer_from_hf(sl_tokenizer *t, const sl_store *store, uint32_t n_rows, const sl_log *log, sl_err *err);

/* A tokenizer from the text of a tokenizer.json alone (for tests and fuzzing; the text need not end with NUL). */
sl_status sl_tokenizer_parse_json(sl_tokenizer **out, const char *name, const char *json, size_t n_bytes, sl_err *err);

/* Marks one token as ending generation; an id outside the vocabulary is warned about by name. */
void sl_tokenizer_mark_end(sl_tokenizer *t, int64_t id, const char *what, const sl_log *log);
/* Marks the tokens whose text is a known end marker. */
void sl_tokenizer_mark_known_ends(sl_tokenizer *t);
/* True for texts that are end markers in some model (ends.c). */
bool sl_is_end_marker(const char *text, size_t n_bytes);
/* The id if it names a usable token, else -1 and a warning. */
int32_t sl_tokenizer_check_id(const sl_tokenizer *t, int64_t id, const char *what, const sl_log *log);

/* ---- Hugging Face directories ---- */

typedef struct {
    const char *file;                                                     /* for messages */
    const sl_json *normalizer, *pre_tokenizer, *post_processor, *decoder; /* NULL: absent */
} sl_hf_parts;
/* What the parts say about the vocabulary's strings; to be known before the vocabulary is read. */
sl_status sl_hf_form(const sl_hf_parts *p, sl_text_form *form, sl_err *err);
/* Fills the two pipelines and what detokenising strips.  *spaced: normalised text has spaces where it should have
 * U+2581, which is the same in everything that follows. */
sl_status sl_hf_pipelines(sl_tokenizer *t, const sl_hf_parts *p, bool *spaced, sl_err *err);
/* Fills before and after from a TemplateProcessing. */
sl_status sl_hf_template(sl_tokenizer *t, const sl_hf_parts *p, sl_err *err);

/* Tokens that files name beside the vocabulary: by id and text (added tokens), or by text alone (bos_token and so on).
 */
typedef enum { SL_ROLE_NONE, SL_ROLE_BOS, SL_ROLE_EOS, SL_ROLE_UNK, SL_ROLE_OTHER, SL_ROLE_MODEL_UNK } sl_hf_role;
#define SL_NO_ID UINT32_MAX
typedef struct {
    uint32_t id; /* SL_NO_ID: by text alone */
    uint32_t off, len;
    sl_hf_role role;
    uint8_t attr;
    bool found;
} sl_hf_named;
typedef struct {
    sl_hf_named *rows;
    uint32_t n, cap;
    sl_buf text;
} sl_hf_names;
sl_status sl_hf_names_add(sl_hf_names *x, sl_hf_named row, const char *text, size_t n_bytes, sl_err *err);
void sl_hf_names_close(sl_hf_names *x);

/* An added token's object, whose opening brace has been read; id: the one that its key says, or SL_NO_ID. */
sl_status sl_hf_read_added(sl_hf_names *x, sl_json_reader *r, uint32_t id, const char *file, sl_err *err);
/* Fails with what the reader found wrong. */
sl_status sl_hf_bad_json(const sl_json_reader *r, const char *file, sl_err *err);

/* What tokenizer_config.json says, where it says it: 0 or 1. */
typedef struct {
    int add_bos, add_eos;
} sl_hf_settings;
/* A missing file is no error.  dir: of the model. */
sl_status sl_hf_read_config(sl_hf_names *x, sl_hf_settings *out, const char *dir, sl_err *err);
/* dir/name, to be freed with sl_free; NULL: no memory. */
char *sl_hf_path(const char *dir, const char *name);

/* ---- encoding ---- */

typedef struct {
    uint32_t start; /* byte position in the piece */
    uint32_t prev, next;
    int32_t id;    /* -1: no token */
    uint32_t rank; /* of merging with the next symbol; SL_NO_RANK: does not merge, or is gone */
    int32_t merged;
} sl_symbol;
#define SL_NO_RANK UINT32_MAX

typedef struct {
    const sl_tokenizer *t;
    unsigned flags;
    const sl_text_span *plain;
    size_t n_plain;
    int32_t *ids;
    size_t cap, n_ids;  /* n_ids may pass cap */
    sl_symbol *symbols; /* grown to the longest piece */
    uint64_t *heap;     /* rank << 32 | symbol */
    size_t cap_symbol, cap_heap;
    uint32_t n_symbol, n_heap;
    bool unk_before; /* the last thing put out for this piece was unk */
    bool no_control; /* this stretch touches a plain span and has lost its place in the text */
    sl_buf norm[2], fold, step[SL_TOK_MAX_STEPS];
    sl_matcher matcher;
    sl_err *err;
} sl_encoder;

static inline void sl_emit(sl_encoder *e, int32_t id)
{
    if (e->n_ids < e->cap) e->ids[e->n_ids] = id;
    e->n_ids++;
}
/* Tokens of one piece. */
sl_status sl_bpe_encode(sl_encoder *e, const char *piece, size_t n_bytes);
/* Bytes that are no text (invalid UTF-8). */
void sl_bpe_encode_raw(sl_encoder *e, const char *bytes, size_t n_bytes);
/* The next added token in text [n] at or behind start; base: where text lies in what the caller gave (for the plain
 * spans; SIZE_MAX: nowhere in particular).  floor: blanks before it are not swallowed. */
bool sl_special_find(const sl_encoder *e, const sl_special *s, const char *text, size_t n_bytes, size_t start,
                     size_t floor, size_t base, sl_special_match *out);

/* Does [from, to) of what the caller gave touch a plain span? */
bool sl_special_is_plain(const sl_encoder *e, size_t from, size_t to);

#endif
