/* The parts of `sluice chat`: chat.c is the loop, chat_command.c what begins with a slash; the other chat_*.h are nouns of
 * their own. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli/chat_entry.h"
#include "cli/chat_voice.h"

typedef struct {
    cli_options o; /* as the command line and /set have it */
    cli_partner partner;
    cli_talk talk;
    cli_line *line;
    cli_entry entry;
    cli_voice voice;
    cli_turn last; /* the last answer's; of several their sums are below */
    uint64_t n_answer, n_prompt, n_kept, n_token;
    uint32_t n_interrupt; /* Ctrl-C since something was entered */
    bool quits;
} cli_chat_state;

/* Answers the conversation, whose last message is the user's, and adds the answer to it.  Without an answer nothing is
 * added, and the code says whether that is a failure. */
cli_exit cli_chat_answer(cli_chat_state *c);
/* Does what a line that begins with a slash asks for.  Prints its own error. */
cli_exit cli_chat_command(cli_chat_state *c, char *line);

#endif
