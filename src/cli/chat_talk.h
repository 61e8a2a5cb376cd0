/* The conversation of `sluice chat`: a list of messages, each a JSON object in the OpenAI API's form. */
#ifndef CLI_CHAT_TALK_H
#define CLI_CHAT_TALK_H

#include "cli/cli.h"

typedef enum { CLI_ROLE_SYSTEM, CLI_ROLE_USER, CLI_ROLE_ASSISTANT, CLI_ROLE_OTHER } cli_role;

typedef struct {
    cli_role role;
    char *json; /* owned, terminated */
    size_t n_bytes;
} cli_talk_message;

/* A system message, if there is one, is the first. */
typedef struct {
    cli_talk_message *messages;
    size_t n, cap;
} cli_talk;

/* Each prints its own error and changes nothing then. */

/* Appends a message of that role with text [n_bytes] as content; bytes that are not UTF-8 become U+FFFD. */
cli_exit cli_talk_add(cli_talk *t, cli_role role, const char *text, size_t n_bytes);
/* Appends a message that is JSON already. */
cli_exit cli_talk_add_json(cli_talk *t, cli_role role, const char *json, size_t n_bytes);
/* Sets, replaces or (text "") takes away the system message. */
cli_exit cli_talk_set_system(cli_talk *t, const char *text);

bool cli_talk_has_system(const cli_talk *t);
size_t cli_talk_turns(const cli_talk *t); /* messages of the user */
/* Forgets all but the first n messages. */
void cli_talk_cut(cli_talk *t, size_t n);
/* Forgets the oldest n turns of the user and what was said to each; the system message stays. */
void cli_talk_drop_oldest(cli_talk *t, size_t n);
void cli_talk_free(cli_talk *t);

/* The request that sl_chat_render() takes; free() it.  thinking: the template's enable_thinking, -1: as it pleases. */
cli_exit cli_talk_request(const cli_talk *t, int thinking, char **request, size_t *n_bytes);
/* Writes a JSON list, a message a line.  An existing file is replaced only if it looks like one of these. */
cli_exit cli_talk_save(const cli_talk *t, const char *path);
/* Reads such a list, or an object with "messages"; t is empty before.  What the messages hold is for the template to judge. */
cli_exit cli_talk_load(cli_talk *t, const char *path);

#endif
