/* The file of the lines that were typed into `sluice chat`: plain text, a line each, oldest first. */
#ifndef CLI_CHAT_HISTORY_H
#define CLI_CHAT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_history cli_history;

/* The file below $XDG_STATE_HOME, or else ~/.local/state; its folders are made.  NULL, with a warning, when there can be
 * none: the conversation goes on without. */
cli_history *cli_history_open(void);
void cli_history_close(cli_history *h);
/* Hands each line of the file to take, oldest first, the last thousand of them; a file that has grown far beyond is cut. */
void cli_history_load(cli_history *h, void (*take)(void *user, const char *line), void *user);
/* Appends a line (without its end) at once, so that sessions side by side lose nothing. */
void cli_history_add(cli_history *h, const char *line);

#endif
