/* See stop.h.  Works byte by byte on the text that is held back, which is always shorter than the longest stop text;
 * with a handful of short texts nothing cleverer is worth its lines. */
#include "cli/stop.h"

#include <stdlib.h>
#include <string.h>

struct cli_stop {
    const char *const *texts;
    size_t n;
    char *buf; /* what was given out by the last call, then what is held back */
    size_t n_shown, n_buf, cap;
};

cli_stop *cli_stop_open(const char *const *texts, size_t n)
{
    cli_stop *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->texts = texts;
    s->n = n;
    return s;
}

void cli_stop_close(cli_stop *s)
{
    if (s) free(s->buf);
    free(s);
}

/* Drops what was given out, and makes room for n more bytes. */
static bool make_room(cli_stop *s, size_t n)
{
    s->n_buf -= s->n_shown;
    if (s->n_buf) memmove(s->buf, s->buf + s->n_shown, s->n_buf);
    s->n_shown = 0;
    if (s->n_buf + n <= s->cap) return true;
    size_t cap = 2 * (s->n_buf + n) + 256;
    char *buf = realloc(s->buf, cap);
    if (!buf) return false;
    s->buf = buf;
    s->cap = cap;
    return true;
}

/* Length of the longest stop text that the held text ends with, 0: none. */
static size_t complete_length(const cli_stop *s, const char *held, size_t n)
{
    size_t best = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t length = strlen(s->texts[i]);
        if (length > best && length <= n && memcmp(held + n - length, s->texts[i], length) == 0) best = length;
    }
    return best;
}

static bool may_begin(const cli_stop *s, const char *tail, size_t n)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strncmp(s->texts[i], tail, n) == 0 && strlen(s->texts[i]) > n) return true;
    }
    return false;
}

/* Gives out what cannot begin a stop text any more. */
static void let_go(cli_stop *s)
{
    while (s->n_shown < s->n_buf && !may_begin(s, s->buf + s->n_shown, s->n_buf - s->n_shown))
        s->n_shown++;
}

cli_stop_result cli_stop_add(cli_stop *s, const char *text, size_t n_bytes, const char **out, size_t *n_out)
{
    size_t n_match = 0;
    *out = NULL;
    *n_out = 0;
    if (!make_room(s, n_bytes)) return CLI_STOP_NO_MEMORY;
    for (size_t i = 0; i < n_bytes && !n_match; i++) {
        s->buf[s->n_buf++] = text[i];
        n_match = complete_length(s, s->buf + s->n_shown, s->n_buf - s->n_shown);
        if (n_match)
            s->n_shown = s->n_buf -= n_match;
        else
            let_go(s);
    }
    *out = s->buf;
    *n_out = s->n_shown;
    return n_match ? CLI_STOP_FOUND : CLI_STOP_NOT_YET;
}

void cli_stop_end(cli_stop *s, const char **out, size_t *n_out)
{
    *out = s->buf ? s->buf + s->n_shown : NULL;
    *n_out = s->n_buf - s->n_shown;
    s->n_shown = s->n_buf;
}
