/* Which tokens end generation: the ids that the files name, and tokens whose text is an end marker of some family,
 * since files often name only one of several.
 *
 * A marker counts when its token is a control, user-defined or unknown token, and also when it is an ordinary one
 * (broken conversions), except "</s>", "<EOT>" and their like, which are ordinary text in some vocabularies: "</s>" is
 * one token of Qwen's, and it is HTML. */
#include "text/text_int.h"

#include <string.h>

typedef struct {
    const char *text;
    bool may_be_text; /* counts only as an added token */
} marker;

static const marker markers[] = {
    {"<|eot_id|>", false},
    {"<|im_end|>", false},
    {"<|end|>", false},
    {"<|return|>", false},
    {"<|call|>", false},
    {"<|flush|>", false},
    {"<|calls|>", false},
    {"<|eot|>", false},
    {"<end_of_turn>", false},
    {"<|endoftext|>", false},
    {"</s>", true},
    {"<|eom_id|>", false},
    {"<|eom|>", false},
    {"<EOT>", true},
    {"_<EOT>", true},
    {"[EOT]", true},
    {"[EOS]", true},
    {"<|end_of_text|>", false},
    {"<end_of_utterance>", false},
    {"<eos>", true},
    {"<turn|>", false},
    {"<|tool_response>", false},
    {"<｜end▁of▁sentence｜>", false},
    {"[e~[", false},
    /* fill in the middle: padding and what begins another file */
    {"<|fim_pad|>", false},
    {"<fim-pad>", false},
    {"<fim_pad>", false},
    {"<|fim_repo|>", false},
    {"<|repo_name|>", false},
    {"<fim-repo>", false},
    {"<reponame>", true},
    {"<|file_sep|>", false},
};

static const marker *find_marker(const char *text, size_t n)
{
    if (n < 4 || (*text != '<' && *text != '[' && *text != '_')) return NULL;
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++)
        if (strlen(markers[i].text) == n && memcmp(markers[i].text, text, n) == 0) return &markers[i];
    return NULL;
}

bool sl_is_end_marker(const char *text, size_t n_bytes)
{
    return find_marker(text, n_bytes) != NULL;
}

static bool is_added(const sl_vocab *v, uint32_t id)
{
    unsigned type = sl_vocab_type(v, id);
    return type == SL_TOK_CONTROL || type == SL_TOK_USER || type == SL_TOK_UNKNOWN;
}

static bool has(const sl_vocab *v, const char *text)
{
    return sl_vocab_find_any(v, text, strlen(text)) >= 0;
}

/* Of harmony's vocabulary <|end|> ends a message of several, of Gemma 4's </s> is nothing. */
static bool is_exception(const sl_vocab *v, const char *text)
{
    if (strcmp(text, "<|end|>") == 0)
        return (has(v, "<|return|>") && has(v, "<|call|>")) || (has(v, "<|calls|>") && has(v, "<|flush|>"));
    return strcmp(text, "</s>") == 0 && has(v, "<|tool_response>");
}

static void mark(sl_tokenizer *t, uint32_t id)
{
    if (t->vocab.attr[id] & SL_ATTR_END) return;
    t->vocab.attr[id] |= SL_ATTR_END;
    t->n_end++;
}

void sl_tokenizer_mark_known_ends(sl_tokenizer *t)
{
    const sl_vocab *v = &t->vocab;
    for (uint32_t id = 0; id < v->n_usable; id++) {
        size_t n;
        const char *text = sl_vocab_text(v, id, &n);
        const marker *m = find_marker(text, n);
        if (m && (!m->may_be_text || is_added(v, id)) && !is_exception(v, m->text)) mark(t, id);
    }
}

int32_t sl_tokenizer_check_id(const sl_tokenizer *t, int64_t id, const char *what, const sl_log *log)
{
    if (id >= 0 && id < (int64_t)t->vocab.n_usable) return (int32_t)id;
    sl_warn(log, "%s is %lld, the usable tokens are 0 to %u: ignored", what, (long long)id, t->vocab.n_usable - 1);
    return -1;
}

void sl_tokenizer_mark_end(sl_tokenizer *t, int64_t id, const char *what, const sl_log *log)
{
    int32_t ok = sl_tokenizer_check_id(t, id, what, log);
    if (ok >= 0) mark(t, (uint32_t)ok);
}

size_t sl_tokenizer_end_count(const sl_tokenizer *t)
{
    return t->n_end;
}

bool sl_tokenizer_is_end(const sl_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n && (t->vocab.attr[id] & SL_ATTR_END);
}
