/* The commands, one function each; the table with their names is in main.c. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/options.h"

cli_exit cli_run(const cli_options *o);        /* run.c */
cli_exit cli_chat(const cli_options *o);       /* chat.c */
cli_exit cli_inspect(const cli_options *o);    /* inspect.c */
cli_exit cli_plan(const cli_options *o);       /* plan.c */
cli_exit cli_bench(const cli_options *o);      /* bench.c */
cli_exit cli_logits(const cli_options *o);     /* logits.c */
cli_exit cli_perplexity(const cli_options *o); /* perplexity.c */
cli_exit cli_tokenize(const cli_options *o);   /* tokens.c */
cli_exit cli_detokenize(const cli_options *o);
cli_exit cli_template(const cli_options *o);   /* chat_prompt.c */
cli_exit cli_selftest(const cli_options *o); /* selftest.c */

/* ---- open.c ---- */

/* An engine and one session of it that Ctrl-C cancels. */
typedef struct {
    sl_engine *engine;
    sl_session *session;
} cli_model;

cli_exit cli_model_open(cli_model *m, const char *model, const sl_engine_options *opt);
void cli_model_close(cli_model *m);
/* The ids of text; free() them.  Prints its own error. */
cli_exit cli_encode(sl_tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int32_t **ids, size_t *n);
/* -p TEXT or -f FILE of a command that needs exactly one of them; free() the text. */
cli_exit cli_read_text(const cli_options *o, char **text, size_t *n_bytes);

#endif
