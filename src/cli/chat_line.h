/* One line of input: by the line editor on a terminal, as it is from anywhere else. */
#ifndef CLI_CHAT_LINE_H
#define CLI_CHAT_LINE_H

#include "cli/cli.h"

typedef struct cli_line cli_line;

typedef enum { CLI_LINE_READ, CLI_LINE_END, CLI_LINE_INTERRUPTED, CLI_LINE_FAILED } cli_line_result;

/* keep_history: in the file of chat_history.h.  Prints its own error. */
cli_exit cli_line_open(cli_line **out, bool keep_history);
void cli_line_close(cli_line *l);
bool cli_line_is_terminal(const cli_line *l);
/* *text [*n_bytes] is the line without its end, terminated, l's until the next call; prompt is shown on a terminal only.
 * INTERRUPTED: Ctrl-C in the editor, the line is dropped; *n_bytes then tells how long it was.  FAILED: said already. */
cli_line_result cli_line_read(cli_line *l, const char *prompt, const char **text, size_t *n_bytes);

#endif
