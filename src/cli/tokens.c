/* sluice tokenize and detokenize.  Only the tokenizer is opened, so no memory budget is concerned. */
#include "cli/commands.h"
#include "cli/json_out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static cli_exit open_tokenizer(sl_tokenizer **t, const char *model)
{
    sl_err err = {0};
    return sl_tokenizer_open(t, model, cli_log, NULL, &err) == SL_OK ? CLI_DONE : cli_fail(&err);
}

/* "  1234  "piece"": the piece quoted as in JSON. */
static void print_pieces(const sl_tokenizer *t, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes = 0;
        const char *piece = sl_token_bytes(t, ids[i], true, &n_bytes);
        printf("%8" PRId32 "  ", ids[i]);
        cli_json_put_string(stdout, piece ? piece : "", n_bytes);
        putchar('\n');
    }
}

static cli_exit tokenize_one(const cli_options *o, sl_tokenizer *t, const char *text, size_t n_bytes)
{
    unsigned flags = (o->no_bos ? 0u : SL_ENCODE_BOS) | (o->no_special ? 0u : SL_ENCODE_SPECIAL);
    int32_t *ids = NULL;
    size_t n = 0;
    cli_exit code = cli_encode(t, text, n_bytes, flags, &ids, &n);
    if (code != CLI_DONE) return code;
    if (o->json) {
        cli_json_put_ids(stdout, ids, n);
        putchar('\n');
    } else
        print_pieces(t, ids, n);
    free(ids);
    return CLI_DONE;
}

/* Each line without its newline; the last one need not have any. */
static cli_exit tokenize_lines(const cli_options *o, sl_tokenizer *t, const char *text, size_t n_bytes)
{
    const char *end = text + n_bytes;
    cli_exit code = CLI_DONE;
    for (bool first = true; text < end && code == CLI_DONE; first = false) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (!line_end) line_end = end;
        if (!first && !o->json) putchar('\n'); /* an empty line between texts */
        code = tokenize_one(o, t, text, (size_t)(line_end - text));
        text = line_end + 1;
    }
    return code;
}

cli_exit cli_tokenize(const cli_options *o)
{
    sl_tokenizer *t = NULL;
    char *text = NULL;
    size_t n_bytes = 0;
    cli_exit code = cli_read_text(o, &text, &n_bytes);
    if (code == CLI_DONE) code = open_tokenizer(&t, o->model);
    if (code == CLI_DONE) code = (o->lines ? tokenize_lines : tokenize_one)(o, t, text, n_bytes);
    sl_tokenizer_close(t);
    free(text);
    return code;
}

static cli_exit check_ids(const sl_tokenizer *t, const int32_t *ids, size_t n)
{
    uint32_t n_vocab = sl_tokenizer_vocab(t);
    for (size_t i = 0; i < n; i++) {
        if ((uint32_t)ids[i] < n_vocab) continue;
        cli_error("--tokens: id %" PRId32 " is outside the vocabulary of %u tokens", ids[i], n_vocab);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static cli_exit write_text(const cli_options *o, sl_tokenizer *t, const int32_t *ids, size_t n)
{
    sl_err err = {0};
    size_t n_bytes = 0;
    /* the first call measures */
    sl_status status = sl_detokenize(t, ids, n, !o->no_special, NULL, 0, &n_bytes, &err);
    if (status != SL_OK && status != SL_ERR_LIMIT) return cli_fail(&err);
    char *text = malloc(n_bytes + 1);
    if (!text) return cli_fail_memory("the text");
    status = sl_detokenize(t, ids, n, !o->no_special, text, n_bytes, &n_bytes, &err);
    cli_exit code = status == SL_OK ? CLI_DONE : cli_fail(&err);
    if (code == CLI_DONE && cli_write(text, n_bytes)) cli_end_line();
    free(text);
    return code;
}

cli_exit cli_detokenize(const cli_options *o)
{
    sl_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    if (!o->tokens || !cli_parse_ids(o->tokens, &ids, &n)) {
        cli_error("--tokens '%.60s': must be ids from 0 to 2147483647, with commas between",
                  o->tokens ? o->tokens : "");
        return CLI_USAGE;
    }
    cli_exit code = open_tokenizer(&t, o->model);
    if (code == CLI_DONE) code = check_ids(t, ids, n);
    if (code == CLI_DONE) code = write_text(o, t, ids, n);
    sl_tokenizer_close(t);
    free(ids);
    return code;
}
