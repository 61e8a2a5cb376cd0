/* What was entered: one line, or several that belong together. */
#ifndef CLI_CHAT_ENTRY_H
#define CLI_CHAT_ENTRY_H

#include "cli/chat_line.h"

typedef struct {
    char *text; /* owned, terminated */
    size_t n_bytes, cap;
    bool is_command; /* one line that begins with '/' */
} cli_entry;

/* Reads a line, and more: after a line that ends in a backslash, which then is a line break, and from """ at the beginning
 * of the first line to """ at the end of any.  The result is the last line's; INTERRUPTED also drops the lines before, and
 * n_bytes is 0 only when nothing at all was typed.  An input that ends inside of an entry ends the entry. */
cli_line_result cli_entry_read(cli_entry *e, cli_line *l);
void cli_entry_free(cli_entry *e);

#endif
