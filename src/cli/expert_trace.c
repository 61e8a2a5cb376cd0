/* See expert_trace.h. */
#include "cli/expert_trace.h"

#include <errno.h>
#include <string.h>

static cli_exit cannot_write(const cli_expert_trace *t)
{
    cli_error("--expert-trace '%s': cannot be written: %s", t->path, strerror(errno));
    return CLI_FAILED;
}

cli_exit cli_expert_trace_open(cli_expert_trace *t, const char *path)
{
    *t = (cli_expert_trace){.path = path};
    if (!path) return CLI_DONE;
    t->file = fopen(path, "w");
    return t->file ? CLI_DONE : cannot_write(t);
}

static void write_line(void *user, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    FILE *f = user;
    fprintf(f, "%u:", layer);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, " %u", ids[i]);
    fputc('\n', f);
}

void cli_expert_trace_follow(cli_expert_trace *t, sl_engine *e)
{
    if (t->file) sl_engine_set_expert_hook(e, write_line, t->file);
}

void cli_expert_trace_decode(cli_expert_trace *t)
{
    if (t->file) fputs("decode\n", t->file);
}

cli_exit cli_expert_trace_close(cli_expert_trace *t)
{
    if (!t->file) return CLI_DONE;
    bool bad = ferror(t->file);
    if (fclose(t->file) != 0) bad = true;
    t->file = NULL;
    return bad ? cannot_write(t) : CLI_DONE;
}
