/* What several commands begin with: a model with a session, a text, its ids. */
#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>

cli_exit cli_model_open(cli_model *m, const char *model, const sl_engine_options *opt)
{
    sl_err err = {0};
    *m = (cli_model){0};
    if (sl_engine_open(&m->engine, model, opt, &err) != SL_OK)
        return opt->settle && !err.msg[0] ? CLI_FAILED : cli_fail(&err); /* a settling that fails has said why */
    if (sl_session_open(&m->session, m->engine, &err) != SL_OK) {
        cli_model_close(m);
        return cli_fail(&err);
    }
    cli_interrupt_watch(m->session);
    return CLI_DONE;
}

void cli_model_close(cli_model *m)
{
    cli_interrupt_watch(NULL);
    sl_session_close(m->session);
    sl_engine_close(m->engine);
    *m = (cli_model){0};
}

cli_exit cli_encode(sl_tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int32_t **ids, size_t *n)
{
    sl_err err = {0};
    size_t cap = n_bytes + 16; /* seldom more tokens than bytes, plus BOS and EOS */
    for (;;) {
        *ids = malloc(cap * sizeof **ids);
        if (!*ids) return cli_fail_memory("the tokens of the text");
        sl_status status = sl_tokenize(t, text, n_bytes, flags, *ids, cap, n, &err);
        if (status == SL_OK) return CLI_DONE;
        free(*ids);
        *ids = NULL;
        if (status != SL_ERR_LIMIT || *n <= cap) return cli_fail(&err);
        cap = *n;
    }
}

static cli_exit copy_prompt(const char *prompt, char **text, size_t *n_bytes)
{
    *n_bytes = strlen(prompt);
    *text = strdup(prompt);
    return *text ? CLI_DONE : cli_fail_memory("the text");
}

cli_exit cli_read_text(const cli_options *o, char **text, size_t *n_bytes)
{
    if (!o->prompt == !o->file) {
        cli_error("%s: give the text by one of -p TEXT and -f FILE", o->prompt ? "-p and -f" : "no text");
        return CLI_USAGE;
    }
    return o->prompt ? copy_prompt(o->prompt, text, n_bytes) : cli_read_file(o->file, text, n_bytes);
}
