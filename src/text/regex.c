/* Regular expressions by PCRE2, in UTF mode with Unicode properties, compiled just in time where the machine allows.
 *
 * Bounded in time and memory: no pattern may use more than MATCH_LIMIT steps or HEAP_LIMIT_KIB, and the JIT's stack is
 * the 32 KiB that PCRE2 takes by itself.  Where a bound is hit the text is looked at in slices, which for the patterns
 * of tokenizers (whose matches are short, or runs of one class) finds the same, and in any case finds something. */
#include "text/text_int.h"

#include <string.h>

enum {
    MATCH_LIMIT = 4 * 1000 * 1000,
    HEAP_LIMIT_KIB = 64 * 1024,
    FIRST_SLICE_BYTES = 64 * 1024,
    LAST_SLICE_BYTES = 64,
    MAX_NESTING = 60,
};

struct sl_regex {
    pcre2_code *code;
};

static void *take(size_t bytes, void *user)
{
    (void)user;
    return sl_malloc(bytes);
}

static void give(void *p, void *user)
{
    (void)user;
    sl_free(p);
}

/* ---- compiling ---- */

static sl_status fail_compile(int code, size_t where, const char *pattern, size_t n, const char *what, sl_err *err)
{
    char why[128] = "";
    if (code == PCRE2_ERROR_HEAP_FAILED) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a pattern", what);
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return sl_fail(err, SL_ERR_UNSUPPORTED, "%s: %s, at byte %zu of the pattern '%.*s'", what, why, where,
                   (int)(n < 160 ? n : 160), pattern);
}

static sl_status compile(pcre2_code **out, const sl_buf *pattern, const char *what, sl_err *err)
{
    int code = PCRE2_ERROR_HEAP_FAILED;
    size_t where = 0;
    const char *text = pattern->len ? pattern->data : "";
    pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *settings = memory ? pcre2_compile_context_create(memory) : NULL;
    *out = NULL;
    if (settings) {
        pcre2_set_newline(settings, PCRE2_NEWLINE_LF);
        pcre2_set_parens_nest_limit(settings, MAX_NESTING * 4);
        *out =
            pcre2_compile((PCRE2_SPTR)text, pattern->len,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &where, settings);
    }
    pcre2_compile_context_free(settings);
    pcre2_general_context_free(memory);
    return *out ? SL_OK : fail_compile(code, where, text, pattern->len, what, err);
}

sl_status sl_regex_open(sl_regex **out, const char *pattern, size_t n_bytes, const char *what, sl_err *err)
{
    sl_buf text;
    sl_regex *re = sl_calloc(1, sizeof *re);
    if (!re) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for a pattern", what);
    sl_status rc = sl_regex_translate(&text, pattern, n_bytes, what, err);
    if (rc == SL_OK) rc = compile(&re->code, &text, what, err);
    sl_buf_free(&text);
    if (rc != SL_OK) {
        sl_regex_close(re);
        return rc;
    }
    (void)pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE); /* only faster: a refusal changes nothing */
    *out = re;
    return SL_OK;
}

void sl_regex_close(sl_regex *re)
{
    if (!re) return;
    pcre2_code_free(re->code);
    sl_free(re);
}

uint64_t sl_regex_bytes(const sl_regex *re)
{
    size_t code = 0, jit = 0;
    pcre2_pattern_info(re->code, PCRE2_INFO_SIZE, &code);
    pcre2_pattern_info(re->code, PCRE2_INFO_JITSIZE, &jit);
    return sizeof *re + code + jit;
}

/* ---- matching ---- */

static bool matcher_ready(sl_matcher *m)
{
    if (m->data && m->limits) return true;
    pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
    if (!memory) return false;
    if (!m->data) m->data = pcre2_match_data_create(1, memory);
    if (!m->limits) m->limits = pcre2_match_context_create(memory);
    pcre2_general_context_free(memory);
    if (!m->data || !m->limits) return false;
    pcre2_set_match_limit(m->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(m->limits, HEAP_LIMIT_KIB);
    return true;
}

void sl_matcher_close(sl_matcher *m)
{
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->limits);
    *m = (sl_matcher){0};
}

static int match(const sl_regex *re, sl_matcher *m, const char *text, size_t n, size_t start)
{
    int rc = pcre2_match(re->code, (PCRE2_SPTR)text, n, start, PCRE2_NO_UTF_CHECK, m->data, m->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(re->code, (PCRE2_SPTR)text, n, start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data, m->limits);
    return rc;
}

/* Where a slice of at most bytes behind start ends, between two characters. */
static size_t slice_end(const char *text, size_t n, size_t start, size_t bytes)
{
    if (n - start <= bytes) return n;
    size_t end = start + bytes;
    while (end > start && ((uint8_t)text[end] & 0xC0) == 0x80)
        end--;
    return end;
}

/* Looks at shorter and shorter slices until one can be matched, and at no longer ones from then on; a slice without a
 * match is passed over. */
static int match_slices(const sl_regex *re, sl_matcher *m, const char *text, size_t n, size_t start)
{
    while (start < n) {
        size_t end = slice_end(text, n, start, m->slice_bytes);
        int rc = match(re, m, text, end, start);
        if (rc >= 0 || rc == PCRE2_ERROR_NOMEMORY) return rc;
        if (rc == PCRE2_ERROR_NOMATCH || m->slice_bytes <= LAST_SLICE_BYTES)
            start = end;
        else
            m->slice_bytes /= 2;
    }
    return PCRE2_ERROR_NOMATCH;
}

sl_match_result sl_regex_find(const sl_regex *re, sl_matcher *m, const char *text, size_t n_bytes, size_t start,
                              size_t *from, size_t *to)
{
    if (!matcher_ready(m)) return SL_MATCH_NOMEM;
    int rc = m->slice_bytes ? PCRE2_ERROR_MATCHLIMIT : match(re, m, text, n_bytes, start);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH && rc != PCRE2_ERROR_NOMEMORY) {
        if (!m->slice_bytes) m->slice_bytes = FIRST_SLICE_BYTES;
        rc = match_slices(re, m, text, n_bytes, start);
    }
    if (rc == PCRE2_ERROR_NOMEMORY) return SL_MATCH_NOMEM;
    if (rc < 0) return SL_MATCH_NONE;
    const size_t *at = pcre2_get_ovector_pointer(m->data);
    if (at[0] < start || at[1] < at[0]) return SL_MATCH_NONE; /* \K in a lookaround can do that */
    *from = at[0];
    *to = at[1];
    return SL_MATCH_FOUND;
}
