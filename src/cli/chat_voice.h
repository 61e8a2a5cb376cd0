/* How an answer is shown: thoughts apart from the answer, nothing that could steer the terminal, the status line. */
#ifndef CLI_CHAT_VOICE_H
#define CLI_CHAT_VOICE_H

#include "cli/chat_partner.h"

typedef enum { CLI_VOICE_NOTHING, CLI_VOICE_THOUGHT, CLI_VOICE_ANSWER } cli_voice_part;

typedef struct {
    bool is_terminal, is_dimmed; /* thoughts are dimmed; else they stand between lines that name them */
    bool shows_thoughts;
    cli_voice_part part; /* written last in this answer */
    bool at_line_start;
} cli_voice;

void cli_voice_init(cli_voice *v, bool show_thinking);
void cli_voice_begin(cli_voice *v);
void cli_voice_event(void *voice, const sl_reply_event *event); /* a cli_reply_fn */
/* Ends the line; the terminal is as it was. */
void cli_voice_end(cli_voice *v);
/* A note: rates, hits, memory, context. */
void cli_voice_status(const cli_partner *p, const cli_turn *turn);

#endif
