/* See chat_entry.h. */
#include "cli/chat_entry.h"

#include <stdlib.h>
#include <string.h>

static const char quotes[] = "\"\"\"";
enum { N_QUOTES = 3 };

static const char first_prompt[] = "> ", next_prompt[] = ". ";

static bool append(cli_entry *e, const char *text, size_t n_bytes)
{
    if (e->cap - e->n_bytes <= n_bytes) {
        size_t cap = 2 * e->cap + n_bytes + 1;
        char *larger = realloc(e->text, cap);
        if (!larger) {
            cli_fail_memory("what was entered");
            return false;
        }
        e->text = larger;
        e->cap = cap;
    }
    memcpy(e->text + e->n_bytes, text, n_bytes);
    e->n_bytes += n_bytes;
    e->text[e->n_bytes] = 0;
    return true;
}

/* The next line of the entry; a line break stands before it. */
static cli_line_result read_next(cli_entry *e, cli_line *l, const char **text, size_t *n_bytes)
{
    cli_line_result result = cli_line_read(l, next_prompt, text, n_bytes);
    if (result == CLI_LINE_READ && !append(e, "\n", 1)) return CLI_LINE_FAILED;
    return result;
}

/* Lines joined by backslashes; the first is text. */
static cli_line_result join_lines(cli_entry *e, cli_line *l, const char *text, size_t n_bytes)
{
    cli_line_result result = CLI_LINE_READ;
    bool more = n_bytes && text[n_bytes - 1] == '\\';
    while (append(e, text, n_bytes - more)) {
        if (!more) return CLI_LINE_READ;
        result = read_next(e, l, &text, &n_bytes);
        if (result != CLI_LINE_READ) return result;
        more = n_bytes && text[n_bytes - 1] == '\\';
    }
    return CLI_LINE_FAILED;
}

/* A block; the first line is text, behind the quotes that open it. */
static cli_line_result read_block(cli_entry *e, cli_line *l, const char *text, size_t n_bytes)
{
    for (bool is_first = true;; is_first = false) {
        bool ends = n_bytes >= N_QUOTES && memcmp(text + n_bytes - N_QUOTES, quotes, N_QUOTES) == 0;
        if (ends) n_bytes -= N_QUOTES;
        /* quotes alone on their line end no line of the text */
        if (ends && !n_bytes && e->n_bytes) e->text[--e->n_bytes] = 0;
        if (!append(e, text, n_bytes)) return CLI_LINE_FAILED;
        if (ends) return CLI_LINE_READ;
        cli_line_result result = CLI_LINE_READ;
        if (is_first && !n_bytes) /* nor do those that open it begin one */
            result = cli_line_read(l, next_prompt, &text, &n_bytes);
        else
            result = read_next(e, l, &text, &n_bytes);
        if (result != CLI_LINE_READ) return result;
    }
}

cli_line_result cli_entry_read(cli_entry *e, cli_line *l)
{
    const char *text;
    size_t n_bytes = 0;
    e->n_bytes = 0;
    e->is_command = false;
    cli_line_result result = cli_line_read(l, first_prompt, &text, &n_bytes);
    if (result != CLI_LINE_READ) {
        e->n_bytes = result == CLI_LINE_INTERRUPTED ? n_bytes : 0;
        return result;
    }
    e->is_command = text[0] == '/';
    if (n_bytes >= N_QUOTES && memcmp(text, quotes, N_QUOTES) == 0)
        result = read_block(e, l, text + N_QUOTES, n_bytes - N_QUOTES);
    else
        result = join_lines(e, l, text, n_bytes);
    if (result == CLI_LINE_INTERRUPTED) e->n_bytes = 1;
    return result == CLI_LINE_END ? CLI_LINE_READ : result;
}

void cli_entry_free(cli_entry *e)
{
    free(e->text);
    *e = (cli_entry){0};
}
