/* sluice logits: float32 logits of given tokens as an NPY file, for checking against other engines. */
#include "cli/commands.h"
#include "cli/npy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const cli_options *o;
    cli_model m;
    int32_t *ids;
    size_t n;
    uint32_t n_vocab;
    FILE *f;
    int write_errno;
} logits;

static cli_exit check_options(logits *l)
{
    const cli_options *o = l->o;
    if (!o->tokens || !o->out) {
        cli_error("%s is missing: logits needs --tokens 1,2,3 and --out FILE", o->tokens ? "--out" : "--tokens");
        return CLI_USAGE;
    }
    if (!cli_parse_ids(o->tokens, &l->ids, &l->n) || !l->n) {
        cli_error("--tokens '%.60s': must be at least one id from 0 to 2147483647, with commas between", o->tokens);
        return CLI_USAGE;
    }
    if (o->split > l->n) {
        cli_error("--split '%u': must be at most %zu, the number of tokens", o->split, l->n);
        return CLI_USAGE;
    }
    if (o->engine.ctx_tok && o->engine.ctx_tok < l->n) {
        cli_error("--tokens: %zu tokens, the context holds %u (--ctx)", l->n, o->engine.ctx_tok);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

static cli_exit write_failed(const logits *l, int reason)
{
    cli_error("--out '%s': cannot be written: %s", l->o->out, strerror(reason ? reason : EIO));
    return CLI_FAILED;
}

static bool write_row(logits *l, const float *row)
{
    if (cli_npy_row(l->f, row, l->n_vocab)) return true;
    l->write_errno = errno;
    return false;
}

static bool each_row(void *user, size_t i, const float *row)
{
    logits *l = user;
    (void)i;
    return write_row(l, row);
}

/* Feeds ids [from, from + n) and, with --all, writes a row for each. */
static cli_exit feed(logits *l, size_t from, size_t n)
{
    sl_err err = {0};
    sl_status status = l->o->all ? sl_session_feed_all(l->m.session, l->ids + from, n, each_row, l, &err)
                                 : sl_session_feed(l->m.session, l->ids + from, n, &err);
    if (status == SL_OK) return CLI_DONE;
    return l->write_errno ? write_failed(l, l->write_errno) : cli_fail(&err);
}

static cli_exit compute(logits *l)
{
    size_t first = l->o->split ? l->o->split : l->n;
    cli_exit code = feed(l, 0, first);
    for (size_t i = first; i < l->n && code == CLI_DONE; i++)
        code = feed(l, i, 1);
    if (code == CLI_DONE && !l->o->all && !write_row(l, sl_session_logits(l->m.session)))
        return write_failed(l, l->write_errno);
    return code;
}

/* Devices and pipes are not ours to remove. */
static bool is_plain_file(FILE *f)
{
    struct stat s;
    return fstat(fileno(f), &s) == 0 && S_ISREG(s.st_mode);
}

/* A file that is not complete does not stay. */
static cli_exit write_file(logits *l)
{
    l->f = fopen(l->o->out, "wb");
    if (!l->f) return write_failed(l, errno);
    bool is_plain = is_plain_file(l->f);
    cli_exit code = CLI_DONE;
    if (!cli_npy_header(l->f, l->o->all ? l->n : 0, l->n_vocab)) code = write_failed(l, errno);
    if (code == CLI_DONE) code = compute(l);
    if (fclose(l->f) != 0 && code == CLI_DONE) code = write_failed(l, errno);
    if (code != CLI_DONE && is_plain) unlink(l->o->out);
    return code;
}

static cli_exit open_model(logits *l)
{
    sl_model_info info;
    sl_engine_options opt = l->o->engine;
    if (!opt.ctx_tok) opt.ctx_tok = (uint32_t)l->n;
    opt.no_probe = true;
    cli_exit code = cli_model_open(&l->m, l->o->model, &opt);
    if (code != CLI_DONE) return code;
    sl_engine_info(l->m.engine, &info);
    l->n_vocab = info.n_vocab;
    return CLI_DONE;
}

cli_exit cli_logits(const cli_options *o)
{
    logits l = {.o = o};
    cli_exit code = check_options(&l);
    if (code == CLI_DONE) code = open_model(&l);
    if (code == CLI_DONE) code = write_file(&l);
    cli_model_close(&l.m);
    free(l.ids);
    return code;
}
