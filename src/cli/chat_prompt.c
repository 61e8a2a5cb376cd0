/* Prompts by a model's chat template: the request, its rendering, its ids; and sluice template, which shows them. */
#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/json_out.h"

#include <stdlib.h>
#include <string.h>

/* ---- shared ---- */

cli_exit cli_chat_render(const cli_options *o, const char *request, size_t n_bytes, sl_chat_prompt **prompt)
{
    sl_err err = {0};
    sl_chat *chat = NULL;
    if (sl_chat_open(&chat, o->model, o->chat_template, cli_log, NULL, &err) != SL_OK) return cli_fail(&err);
    sl_status rc = sl_chat_render(prompt, chat, request, n_bytes, NULL, &err);
    sl_chat_close(chat);
    if (rc == SL_OK) return CLI_DONE;
    cli_exit code = cli_fail(&err);
    return code == CLI_USAGE ? CLI_FAILED : code; /* the messages are wrong, not the command line */
}

cli_exit cli_chat_encode(const sl_chat_prompt *prompt, const sl_tokenizer *t, int32_t **ids, size_t *n)
{
    sl_err err = {0};
    size_t n_bytes;
    sl_chat_prompt_text(prompt, &n_bytes);
    size_t cap = n_bytes + 16; /* seldom more tokens than bytes, plus BOS */
    for (;;) {
        *ids = malloc(cap * sizeof **ids);
        if (!*ids) return cli_fail_memory("the tokens of the prompt");
        sl_status status = sl_chat_prompt_tokenize(prompt, t, *ids, cap, n, &err);
        if (status == SL_OK) return CLI_DONE;
        free(*ids);
        *ids = NULL;
        if (status != SL_ERR_LIMIT || *n <= cap) return cli_fail(&err);
        cap = *n;
    }
}

static void put_message(FILE *f, const char *role, const char *text, size_t n_bytes)
{
    fprintf(f, "{\"role\": \"%s\", \"content\": ", role);
    cli_json_put_string(f, text, n_bytes);
    fputs("}", f);
}

cli_exit cli_chat_request(const char *system, const char *user, size_t n_user, char **request, size_t *n_bytes)
{
    FILE *f = open_memstream(request, n_bytes);
    if (!f) return cli_fail_memory("the request");
    fputs("{\"messages\": [", f);
    if (system) {
        put_message(f, "system", system, strlen(system));
        fputs(", ", f);
    }
    put_message(f, "user", user, n_user);
    fputs("], \"add_generation_prompt\": true}", f);
    bool bad = ferror(f) != 0;
    return fclose(f) == 0 && !bad ? CLI_DONE : cli_fail_memory("the request");
}

/* ---- sluice template ---- */

static cli_exit show_ids(const cli_options *o, const sl_chat_prompt *prompt)
{
    sl_err err = {0};
    sl_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    if (sl_tokenizer_open(&t, o->model, cli_log, NULL, &err) != SL_OK) return cli_fail(&err);
    cli_exit code = cli_chat_encode(prompt, t, &ids, &n);
    if (code == CLI_DONE) {
        cli_json_put_ids(stdout, ids, n);
        putchar('\n');
    }
    free(ids);
    sl_tokenizer_close(t);
    return code;
}

cli_exit cli_template(const cli_options *o)
{
    sl_chat_prompt *prompt = NULL;
    char *request = NULL;
    size_t n_bytes = 0;
    if (!o->file) {
        cli_error("-f: the messages are missing; give a file with {\"messages\": [...]} or a list of them, - for standard "
                  "input");
        return CLI_USAGE;
    }
    cli_exit code = cli_read_file(o->file, &request, &n_bytes);
    if (code == CLI_DONE) code = cli_chat_render(o, request, n_bytes, &prompt);
    if (code == CLI_DONE && o->ids)
        code = show_ids(o, prompt);
    else if (code == CLI_DONE) {
        const char *text = sl_chat_prompt_text(prompt, &n_bytes);
        if (cli_write(text, n_bytes)) cli_end_line();
    }
    sl_chat_prompt_close(prompt);
    free(request);
    return code;
}
