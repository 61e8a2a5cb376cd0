/* A grammar from its text: the front end that its kind names, and free text before it where a trigger is set. */
#include "text/grammar_int.h"

#include <string.h>

enum { MAX_TRIGGER = 255 };

/* How many bytes of the trigger stand at the end of its first k bytes and one more: the automaton of Knuth, Morris and
 * Pratt. */
static size_t next_match(const uint8_t *t, size_t k, unsigned byte)
{
    for (size_t n = k + 1; n > 0; n--)
        if (t[n - 1] == byte && memcmp(t, t + (k - (n - 1)), n - 1) == 0) return n;
    return 0;
}

void sl_gb_trigger(sl_gram_builder *b, const char *trigger, bool required, uint32_t from, uint32_t to, uint32_t end)
{
    size_t m = strlen(trigger);
    if (m < 1 || m > MAX_TRIGGER) {
        sl_gb_fail(b, SL_ERR_ARG, "a trigger of %zu bytes, it takes 1 to %d", m, MAX_TRIGGER);
        return;
    }
    uint32_t first = b->n_state;
    for (size_t k = 0; k < m; k++)
        sl_gb_state(b);
    if (b->rc != SL_OK) return;
    sl_gb_empty(b, from, first);
    for (size_t k = 0; k < m; k++) {
        if (!required) sl_gb_empty(b, first + (uint32_t)k, end);
        for (unsigned lo = 0, hi; lo < 256; lo = hi) { /* runs of bytes that lead to the same place */
            size_t n = next_match((const uint8_t *)trigger, k, lo);
            for (hi = lo + 1; hi < 256 && next_match((const uint8_t *)trigger, k, hi) == n; hi++) {
            }
            sl_gb_bytes(b, first + (uint32_t)k, (uint8_t)lo, (uint8_t)(hi - 1), n == m ? to : first + (uint32_t)n);
        }
    }
}

/* What the options ask for goes into an inner rule; the root is free text, then the inner rule. */
static void draw(sl_gram_builder *b, const sl_gram_options *o)
{
    uint32_t inner = sl_gb_rule(b), outer = o->trigger ? sl_gb_rule(b) : inner;
    b->root = inner;
    if (b->rc != SL_OK) return;
    switch (o->kind) {
    case SL_GRAMMAR_JSON:
        sl_gram_draw_json(b);
        break;
    case SL_GRAMMAR_REGEX: {
        sl_gram_regex re = {.text = o->text, .n_bytes = o->text_bytes, .max = UINT32_MAX};
        uint32_t out = sl_gram_draw_regex(b, b->rules[inner].start, &re);
        sl_gb_empty(b, out, b->rules[inner].end);
        break;
    }
    case SL_GRAMMAR_SCHEMA:
        sl_gram_draw_schema(b, o->text, o->text_bytes);
        break;
    case SL_GRAMMAR_GBNF:
        sl_gram_draw_gbnf(b, o->text, o->text_bytes);
        break;
    default:
        sl_gb_fail(b, SL_ERR_ARG, "no such kind of grammar: %d", (int)o->kind);
        break;
    }
    if (!o->trigger || b->rc != SL_OK) return;
    uint32_t begin = sl_gb_state(b), end = b->rules[outer].end;
    sl_gb_trigger(b, o->trigger, o->trigger_required, b->rules[outer].start, begin, end);
    sl_gb_call(b, begin, inner, end);
    b->root = outer;
}

sl_status sl_gram_open(sl_gram **out, const sl_gram_options *o, sl_err *err)
{
    static const char *const names[] = {"JSON", "schema", "regular expression", "grammar"};
    sl_gram_builder b;
    if (o->kind != SL_GRAMMAR_JSON && o->text_bytes > SL_GRAM_MAX_TEXT_BYTES)
        return sl_fail(err, SL_ERR_LIMIT, "%s: %zu bytes, the limit is %d", names[o->kind & 3], o->text_bytes,
                       SL_GRAM_MAX_TEXT_BYTES);
    sl_gb_init(&b, names[o->kind & 3], o->max_bytes, err);
    draw(&b, o);
    sl_status rc = sl_gram_finish(out, &b);
    sl_gb_free(&b);
    return rc;
}
