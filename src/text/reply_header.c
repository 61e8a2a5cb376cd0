/* Harmony (gpt-oss): every message has a header, [<|start|>ROLE][ to=WHO][<|channel|>CHANNEL[ to=WHO]][
 * json]<|message|>, where WHO and the constraint may stand on either side of the channel.  Three channels are known; a
 * function is addressed as functions.NAME. */
#include "text/reply_int.h"

#include <string.h>

static const char *find(const char *text, size_t n, const char *lit)
{
    return memmem(text, n, lit, strlen(lit));
}

/* The word at p, up to a blank, a marker or the end. */
static size_t word(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && p[n] != '<' && !sl_reply_is_space(p[n]))
        n++;
    return n;
}

static bool is(const char *p, size_t n, const char *s)
{
    return n == strlen(s) && memcmp(p, s, n) == 0;
}

bool sl_reply_header(sl_reply *r, const char *text, size_t n)
{
    static const char START[] = "<|start|>", CHANNEL[] = "<|channel|>", TO[] = "to=", FUNCTIONS[] = "functions.";
    const char *end = text + n, *channel = find(text, n, CHANNEL), *to = find(text, n, TO);
    unsigned where = SL_CONTENT;
    if (sl_reply_lit(text, n, START) == SL_LIT_WHOLE && sl_reply_lit(text + 9, n - 9, "assistant") != SL_LIT_WHOLE)
        return false; /* the model plays someone else */
    if (channel) {
        const char *name = channel + sizeof CHANNEL - 1;
        size_t len = word(name, end);
        if (is(name, len, "analysis"))
            where = SL_REASONING;
        else if (!is(name, len, "final") && !is(name, len, "commentary"))
            return false;
    }
    r->run.name.len = 0;
    if (!to) {
        sl_reply_turn(r, where, true);
        return true;
    }
    to += sizeof TO - 1;
    size_t len = word(to, end);
    if (sl_reply_lit(to, len, FUNCTIONS) == SL_LIT_WHOLE) {
        to += sizeof FUNCTIONS - 1;
        len -= sizeof FUNCTIONS - 1;
    }
    if (!r->tools || !sl_reply_name_ok(to, len)) return false;
    sl_buf_add(&r->run.name, to, len);
    return sl_reply_check(r, &r->run.name);
}
