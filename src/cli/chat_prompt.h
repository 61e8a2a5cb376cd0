/* Prompts by a model's chat template, for the commands that talk. */
#ifndef CLI_CHAT_PROMPT_H
#define CLI_CHAT_PROMPT_H

#include "cli/options.h"

/* Each prints its own error. */

/* Renders a request (JSON) by the template of o->model, or the one that --template names.  Close the prompt. */
cli_exit cli_chat_render(const cli_options *o, const char *request, size_t n_bytes, sl_chat_prompt **prompt);
/* The prompt's ids; free() them. */
cli_exit cli_chat_encode(const sl_chat_prompt *prompt, const sl_tokenizer *t, int32_t **ids, size_t *n);
/* The request of one turn.  system: NULL for none; free() the request. */
cli_exit cli_chat_request(const char *system, const char *user, size_t n_user, char **request, size_t *n_bytes);

#endif
