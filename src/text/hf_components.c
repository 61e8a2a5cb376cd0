/* The components of a tokenizer.json: normalizer, pre_tokenizer, decoder, post_processor.  They are small and come here
 * as trees (the vocabulary never is one).  What is supported is what the tables below name; anything else is refused by
 * its name, because a component that is passed over gives wrong tokens without a sign of it. */
#include "text/text_int.h"

#include <string.h>

typedef struct {
    sl_tokenizer *t;
    const char *file;
    const char *role;                    /* "normalizer", ... for messages */
    const char *list_key;                /* of a Sequence */
    bool seen_byte_level, seen_low_line; /* pre_tokenizer, normalizer: how the vocabulary's strings are made */
    bool other_splits;                   /* a split that is not on a literal space */
    sl_text_form form;
    sl_err *err;
} parts;

typedef sl_status (*part_fn)(parts *p, const sl_json *v);
typedef struct {
    const char *type;
    part_fn fn;
} part_row;

static sl_status refuse(const parts *p, const char *what)
{
    return sl_fail(p->err, SL_ERR_UNSUPPORTED, "%s: %s %s is not supported", p->file, p->role, what);
}

static sl_status no_memory(const parts *p)
{
    return sl_fail(p->err, SL_ERR_NOMEM, "%s: no memory for the %s", p->file, p->role);
}

static bool text_is(const sl_json *v, const char *s)
{
    size_t n;
    const char *p = sl_json_string(v, &n);
    return p && n == strlen(s) && memcmp(p, s, n) == 0;
}

static bool flag(const sl_json *v, const char *key, bool standard)
{
    bool b = standard;
    sl_json_bool(sl_json_get(v, key), &b);
    return b;
}

/* Calls the row of v's type; a Sequence does so for its elements. */
static sl_status dispatch(parts *p, const sl_json *v, const part_row *rows, size_t n_row, unsigned depth)
{
    if (!v) return SL_OK;
    const char *type = sl_json_string(sl_json_get(v, "type"), NULL);
    char shown[64];
    if (!type) return sl_fail(p->err, SL_ERR_FORMAT, "%s: a %s has no type", p->file, p->role);
    if (strcmp(type, "Sequence") == 0) {
        const sl_json *list = sl_json_get(v, p->list_key);
        if (!sl_json_is_array(list) || depth > 8)
            return sl_fail(p->err, SL_ERR_FORMAT, "%s: a %s Sequence has no list '%s', or is nested too deep", p->file,
                           p->role, p->list_key);
        for (size_t i = 0; i < sl_json_count(list); i++) {
            sl_status rc = dispatch(p, sl_json_at(list, i), rows, n_row, depth + 1);
            if (rc != SL_OK) return rc;
        }
        return SL_OK;
    }
    for (size_t i = 0; i < n_row; i++)
        if (strcmp(type, rows[i].type) == 0) return rows[i].fn(p, v);
    return refuse(p, sl_text_show(type, strlen(type), shown));
}

#define DISPATCH(p, v, table) dispatch(p, v, table, sizeof table / sizeof table[0], 0)

static sl_status pass_over(parts *p, const sl_json *v)
{
    (void)p;
    (void)v;
    return SL_OK;
}

/* A pattern {"String": s} or {"Regex": s}. */
static sl_status read_pattern(const parts *p, const sl_json *v, const char **text, size_t *n, bool *is_regex)
{
    const sl_json *pattern = sl_json_get(v, "pattern"), *s = sl_json_get(pattern, "String");
    *is_regex = s == NULL;
    *text = sl_json_string(s ? s : sl_json_get(pattern, "Regex"), n);
    return *text ? SL_OK
                 : sl_fail(p->err, SL_ERR_FORMAT, "%s: a %s has a pattern without String or Regex", p->file, p->role);
}

/* ---- normalizer ---- */

static sl_status add_norm(parts *p, const sl_norm_step *s, sl_norm_step **out)
{
    if (p->t->n_norm == SL_TOK_MAX_STEPS) return refuse(p, "with more than 24 steps");
    *out = &p->t->norm[p->t->n_norm++];
    **out = *s;
    return SL_OK;
}

static sl_status add_unicode(parts *p, sl_norm_form form)
{
    sl_norm_step *s;
    return add_norm(p, &(sl_norm_step){.kind = SL_NORM_UNICODE, .form = form}, &s);
}

static sl_status norm_nfc(parts *p, const sl_json *v)
{
    (void)v;
    return add_unicode(p, SL_NFC);
}
static sl_status norm_nfd(parts *p, const sl_json *v)
{
    (void)v;
    return add_unicode(p, SL_NFD);
}
static sl_status norm_nfkc(parts *p, const sl_json *v)
{
    (void)v;
    return add_unicode(p, SL_NFKC);
}
static sl_status norm_nfkd(parts *p, const sl_json *v)
{
    (void)v;
    return add_unicode(p, SL_NFKD);
}

static sl_status norm_strip(parts *p, const sl_json *v)
{
    sl_norm_step *s;
    return add_norm(p,
                    &(sl_norm_step){.kind = SL_NORM_STRIP,
                                    .left = flag(v, "strip_left", true),
                                    .right = flag(v, "strip_right", true)},
                    &s);
}

/* Gives a step its replacement (a copy). */
static sl_status set_content(const parts *p, sl_norm_step *s, const sl_json *v)
{
    const char *text = sl_json_string(v, &s->n_to);
    if (!text) return sl_fail(p->err, SL_ERR_FORMAT, "%s: a %s has no text to put in", p->file, p->role);
    s->to = sl_strndup(text, s->n_to);
    return s->to ? SL_OK : no_memory(p);
}

static sl_status norm_prepend(parts *p, const sl_json *v)
{
    sl_norm_step *s = NULL;
    sl_status rc = add_norm(p, &(sl_norm_step){.kind = SL_NORM_PREPEND}, &s);
    return rc == SL_OK ? set_content(p, s, sl_json_get(v, "prepend")) : rc;
}

static sl_status norm_replace(parts *p, const sl_json *v)
{
    const char *text;
    size_t n;
    bool is_regex;
    sl_norm_step *s = NULL;
    sl_status rc = read_pattern(p, v, &text, &n, &is_regex);
    if (rc != SL_OK) return rc;
    rc = add_norm(p, &(sl_norm_step){.kind = is_regex ? SL_NORM_REGEX : SL_NORM_REPLACE}, &s);
    if (rc == SL_OK) rc = set_content(p, s, sl_json_get(v, "content"));
    if (rc != SL_OK) return rc;
    if (is_regex) return sl_regex_open(&s->re, text, n, p->file, p->err);
    s->from = sl_strndup(text, n);
    s->n_from = n;
    if (n == 1 && *text == ' ' && s->n_to == 3 && memcmp(s->to, SL_LOW_LINE, 3) == 0) p->seen_low_line = true;
    return s->from ? SL_OK : no_memory(p);
}

static const part_row normalizers[] = {
    {"NFC", norm_nfc},     {"NFD", norm_nfd},         {"NFKC", norm_nfkc},       {"NFKD", norm_nfkd},
    {"Strip", norm_strip}, {"Prepend", norm_prepend}, {"Replace", norm_replace},
};

/* ---- pre_tokenizer ---- */

static sl_status add_split(parts *p, const sl_split_step *s, sl_split_step **out)
{
    if (p->seen_byte_level) return refuse(p, "with a step behind ByteLevel");
    if (p->t->n_split == SL_TOK_MAX_STEPS) return refuse(p, "with more than 24 steps");
    *out = &p->t->split[p->t->n_split++];
    **out = *s;
    return SL_OK;
}

static sl_status add_regex(parts *p, const char *text, size_t n, sl_split_behavior behavior, bool invert)
{
    sl_split_step *s = NULL;
    sl_status rc = add_split(p, &(sl_split_step){.kind = SL_SPLIT_REGEX, .behavior = behavior, .invert = invert}, &s);
    return rc == SL_OK ? sl_regex_open(&s->re, text, n, p->file, p->err) : rc;
}

/* Punctuation, Digits and their like: a pattern of ours. */
static sl_status add_own(parts *p, const char *pattern, sl_split_behavior behavior, bool invert)
{
    p->other_splits = true;
    return add_regex(p, pattern, strlen(pattern), behavior, invert);
}

static sl_status read_behavior(const parts *p, const sl_json *v, sl_split_behavior *out)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const sl_json *b = sl_json_get(v, "behavior");
    *out = SL_ISOLATED;
    if (!b) return SL_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (text_is(b, names[i])) {
            *out = (sl_split_behavior)i;
            return SL_OK;
        }
    return refuse(p, "with a behavior of that name");
}

static sl_status pre_byte_level(parts *p, const sl_json *v)
{
    sl_status rc = SL_OK;
    sl_split_step *s;
    if (flag(v, "add_prefix_space", false)) rc = add_split(p, &(sl_split_step){.kind = SL_SPLIT_PREFIX}, &s);
    if (rc == SL_OK && flag(v, "use_regex", true)) rc = add_own(p, sl_pattern_gpt2, SL_ISOLATED, false);
    if (rc == SL_OK && p->seen_byte_level) return refuse(p, "with a step behind ByteLevel");
    p->seen_byte_level = p->other_splits = true;
    return rc;
}

/* A literal as a pattern: every ASCII character that is no letter or digit is escaped. */
static void quote(sl_buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c < 0x20;
        if (!plain) sl_buf_add(out, "\\", 1);
        sl_buf_add(out, text + i, 1);
    }
}

static sl_status pre_split(parts *p, const sl_json *v)
{
    const char *text;
    size_t n;
    bool is_regex;
    sl_split_behavior behavior = SL_ISOLATED;
    sl_status rc = read_pattern(p, v, &text, &n, &is_regex);
    if (rc == SL_OK) rc = read_behavior(p, v, &behavior);
    if (rc != SL_OK) return rc;
    if (is_regex || n != 1 || *text != ' ') p->other_splits = true;
    if (is_regex) return add_regex(p, text, n, behavior, flag(v, "invert", false));
    sl_buf quoted;
    sl_buf_init(&quoted, 2 * n);
    quote(&quoted, text, n);
    rc = quoted.failed ? no_memory(p)
                       : add_regex(p, n ? quoted.data : "", quoted.len, behavior, flag(v, "invert", false));
    sl_buf_free(&quoted);
    return rc;
}

static sl_status pre_digits(parts *p, const sl_json *v)
{
    return add_own(p, "\\p{N}", flag(v, "individual_digits", false) ? SL_ISOLATED : SL_CONTIGUOUS, false);
}

static sl_status pre_punctuation(parts *p, const sl_json *v)
{
    sl_split_behavior behavior = SL_ISOLATED;
    sl_status rc = read_behavior(p, v, &behavior);
    return rc == SL_OK ? add_own(p, "[\\p{P}!-/:-@\\[-`{-~]", behavior, false) : rc;
}

static sl_status pre_whitespace_split(parts *p, const sl_json *v)
{
    (void)v;
    return add_own(p, "\\s", SL_REMOVED, false);
}

#define RUST_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"
static sl_status pre_whitespace(parts *p, const sl_json *v)
{
    (void)v; /* \w+|[^\w\s]+ with the \w of Rust's regex crate, not Oniguruma's */
    return add_own(p, "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+", SL_REMOVED, true);
}

/* Older files have add_prefix_space instead of prepend_scheme. */
static sl_status read_prepend(const parts *p, const sl_json *v, sl_prepend *out)
{
    const sl_json *scheme = sl_json_get(v, "prepend_scheme");
    *out = flag(v, "add_prefix_space", true) ? SL_PREPEND_ALWAYS : SL_PREPEND_NEVER;
    if (!scheme) return SL_OK;
    if (text_is(scheme, "always"))
        *out = SL_PREPEND_ALWAYS;
    else if (text_is(scheme, "first"))
        *out = SL_PREPEND_FIRST;
    else if (text_is(scheme, "never"))
        *out = SL_PREPEND_NEVER;
    else
        return refuse(p, "Metaspace with a prepend_scheme of that name");
    return SL_OK;
}

static sl_status pre_metaspace(parts *p, const sl_json *v)
{
    sl_split_step step = {.kind = SL_SPLIT_METASPACE, .cut = flag(v, "split", true)}, *s;
    sl_status rc = read_prepend(p, v, &step.prepend);
    if (rc != SL_OK) return rc;
    if (!text_is(sl_json_get(v, "replacement"), SL_LOW_LINE))
        return refuse(p, "Metaspace with a replacement that is not U+2581");
    p->seen_low_line = p->other_splits = true;
    return add_split(p, &step, &s);
}

static const part_row pre_tokenizers[] = {
    {"ByteLevel", pre_byte_level},    {"Split", pre_split},         {"Digits", pre_digits},
    {"Punctuation", pre_punctuation}, {"Metaspace", pre_metaspace}, {"WhitespaceSplit", pre_whitespace_split},
    {"Whitespace", pre_whitespace},
};

/* ---- decoder ---- */

static sl_status dec_byte_level(parts *p, const sl_json *v)
{
    (void)v;
    return p->form == SL_FORM_BYTES ? SL_OK : refuse(p, "ByteLevel without a pre_tokenizer ByteLevel");
}

static sl_status dec_replace(parts *p, const sl_json *v)
{
    const char *text;
    size_t n;
    bool is_regex;
    sl_status rc = read_pattern(p, v, &text, &n, &is_regex);
    if (rc != SL_OK) return rc;
    bool low_line = !is_regex && n == 3 && memcmp(text, SL_LOW_LINE, 3) == 0 && text_is(sl_json_get(v, "content"), " ");
    return low_line ? SL_OK : refuse(p, "Replace of something other than U+2581 by a space");
}

static sl_status dec_strip(parts *p, const sl_json *v)
{
    int64_t start = 0, stop = 0;
    sl_json_int(sl_json_get(v, "start"), &start);
    sl_json_int(sl_json_get(v, "stop"), &stop);
    if (stop != 0 || start < 0 || start > 1 || !text_is(sl_json_get(v, "content"), " "))
        return refuse(p, "Strip of something other than one leading space");
    if (start == 1) p->t->strip_first_space = true;
    return SL_OK;
}

static sl_status dec_metaspace(parts *p, const sl_json *v)
{
    sl_prepend prepend = SL_PREPEND_NEVER;
    sl_status rc = read_prepend(p, v, &prepend);
    if (rc == SL_OK && prepend != SL_PREPEND_NEVER) p->t->strip_first_space = true;
    return rc;
}

static const part_row decoders[] = {
    {"ByteLevel", dec_byte_level}, {"Replace", dec_replace}, {"ByteFallback", pass_over},
    {"Fuse", pass_over},           {"Strip", dec_strip},     {"Metaspace", dec_metaspace},
};

/* ---- what the strings of the vocabulary are ---- */

static sl_status see_byte_level(parts *p, const sl_json *v)
{
    (void)v;
    p->seen_byte_level = true;
    return SL_OK;
}

static sl_status see_low_line(parts *p, const sl_json *v)
{
    (void)v;
    p->seen_low_line = true;
    return SL_OK;
}

sl_status sl_hf_form(const sl_hf_parts *h, sl_text_form *form, sl_err *err)
{
    static const part_row pre[] = {
        {"ByteLevel", see_byte_level}, {"Split", pass_over},     {"Digits", pass_over},
        {"Punctuation", pass_over},    {"Metaspace", pass_over}, {"WhitespaceSplit", pass_over},
        {"Whitespace", pass_over},
    };
    static const part_row dec[] = {
        {"ByteLevel", pass_over}, {"Replace", see_low_line}, {"ByteFallback", pass_over},
        {"Fuse", pass_over},      {"Strip", pass_over},      {"Metaspace", see_low_line},
    };
    parts p = {.file = h->file, .role = "pre_tokenizer", .list_key = "pretokenizers", .err = err};
    sl_status rc = DISPATCH(&p, h->pre_tokenizer, pre);
    p.role = "decoder";
    p.list_key = "decoders";
    if (rc == SL_OK) rc = DISPATCH(&p, h->decoder, dec);
    *form = p.seen_byte_level ? SL_FORM_BYTES : p.seen_low_line ? SL_FORM_SPACED : SL_FORM_PLAIN;
    return rc;
}

/* In the form SPACED a space and U+2581 are the same from the first merge on: a final "space -> U+2581" followed by
 * nothing but splits on spaces (which then find none) is left out. */
static bool leave_out_low_lines(sl_tokenizer *t, const parts *p)
{
    sl_norm_step *last = t->n_norm ? &t->norm[t->n_norm - 1] : NULL;
    if (p->form != SL_FORM_SPACED || p->other_splits || !last || last->kind != SL_NORM_REPLACE) return false;
    if (last->n_from != 1 || *last->from != ' ' || last->n_to != 3 || memcmp(last->to, SL_LOW_LINE, 3) != 0)
        return false;
    sl_free(last->from);
    sl_free(last->to);
    *last = (sl_norm_step){0};
    t->n_norm--;
    while (t->n_split)
        sl_regex_close(t->split[--t->n_split].re);
    return true;
}

sl_status sl_hf_pipelines(sl_tokenizer *t, const sl_hf_parts *h, bool *spaced, sl_err *err)
{
    parts p = {.t = t, .file = h->file, .role = "normalizer", .list_key = "normalizers", .err = err};
    sl_status rc = sl_hf_form(h, &p.form, err);
    if (rc == SL_OK) rc = DISPATCH(&p, h->normalizer, normalizers);
    p.role = "pre_tokenizer";
    p.list_key = "pretokenizers";
    if (rc == SL_OK) rc = DISPATCH(&p, h->pre_tokenizer, pre_tokenizers);
    p.role = "decoder";
    p.list_key = "decoders";
    if (rc == SL_OK) rc = DISPATCH(&p, h->decoder, decoders);
    if (rc != SL_OK) return rc;
    if (p.form == SL_FORM_SPACED && !p.seen_low_line)
        return refuse(&p, "that writes U+2581 as a space, while neither normalizer nor pre_tokenizer makes them,");
    *spaced = leave_out_low_lines(t, &p);
    return SL_OK;
}

/* ---- post_processor ---- */

static sl_status add_affix(const parts *p, int32_t *ids, uint32_t *n, const sl_json *id)
{
    int64_t v = -1;
    if (!sl_json_int(id, &v) || v < 0 || v >= (int64_t)p->t->vocab.n_usable)
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: the post_processor adds token %lld, the usable tokens are 0 to %u",
                       p->file, (long long)v, p->t->vocab.n_usable - 1);
    if (*n == SL_TOK_MAX_AFFIX) return refuse(p, "TemplateProcessing that adds more than 8 tokens");
    ids[(*n)++] = (int32_t)v;
    return SL_OK;
}

static sl_status add_special(const parts *p, const sl_json *template, const sl_json *name, bool behind)
{
    sl_tokenizer *t = p->t;
    const char *key = sl_json_string(name, NULL);
    const sl_json *ids = key ? sl_json_get(sl_json_get(sl_json_get(template, "special_tokens"), key), "ids") : NULL;
    if (!sl_json_is_array(ids))
        return sl_fail(p->err, SL_ERR_FORMAT, "%s: TemplateProcessing names a token that its special_tokens lack",
                       p->file);
    for (size_t i = 0; i < sl_json_count(ids); i++) {
        sl_status rc = behind ? add_affix(p, t->after, &t->n_after, sl_json_at(ids, i))
                              : add_affix(p, t->before, &t->n_before, sl_json_at(ids, i));
        if (rc != SL_OK) return rc;
    }
    return SL_OK;
}

static sl_status post_template(parts *p, const sl_json *v)
{
    const sl_json *single = sl_json_get(v, "single");
    bool behind = false;
    for (size_t i = 0; i < sl_json_count(single); i++) {
        const sl_json *item = sl_json_at(single, i), *special = sl_json_get(item, "SpecialToken");
        if (special) {
            sl_status rc = add_special(p, v, sl_json_get(special, "id"), behind);
            if (rc != SL_OK) return rc;
        } else if (!behind && text_is(sl_json_get(sl_json_get(item, "Sequence"), "id"), "A")) {
            behind = true;
        } else {
            return refuse(p, "TemplateProcessing of anything but one text between tokens");
        }
    }
    return SL_OK;
}

sl_status sl_hf_template(sl_tokenizer *t, const sl_hf_parts *h, sl_err *err)
{
    static const part_row rows[] = {{"ByteLevel", pass_over}, {"TemplateProcessing", post_template}};
    parts p = {.t = t, .file = h->file, .role = "post_processor", .list_key = "processors", .err = err};
    return DISPATCH(&p, h->post_processor, rows);
}
