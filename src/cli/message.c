/* Lines on standard error.  Every message is one line, whatever text from outside it quotes. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>

static bool quiet_wanted;

void cli_set_quiet(bool quiet)
{
    quiet_wanted = quiet;
}

bool cli_quiet(void)
{
    return quiet_wanted;
}

void cli_put_clean(FILE *f, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == 0x7f)
            fprintf(f, "\\x%02x", c);
        else
            fputc(c, f);
    }
}

static void put_line(const char *prefix, const char *text)
{
    cli_progress_clear();
    fputs(prefix, stderr);
    cli_put_clean(stderr, text);
    fputc('\n', stderr);
}

static void put_format(const char *prefix, const char *fmt, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, args) < 0) text = NULL;
    put_line(prefix, text ? text : fmt);
    free(text);
}

void cli_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_format("error: ", fmt, args);
    va_end(args);
}

void cli_warning(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_format("warning: ", fmt, args);
    va_end(args);
}

void cli_note(const char *fmt, ...)
{
    if (quiet_wanted) return;
    va_list args;
    va_start(args, fmt);
    put_format("note: ", fmt, args);
    va_end(args);
}

void cli_report(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_format("note: ", fmt, args);
    va_end(args);
}

cli_exit cli_fail(const sl_err *err)
{
    if (err->code == SL_ERR_CANCELED && cli_interrupted()) {
        cli_note("interrupted");
        return CLI_INTERRUPTED;
    }
    cli_error("%s", err->msg[0] ? err->msg : "failed without a reason");
    switch (err->code) {
    case SL_ERR_BUDGET:
        return CLI_NO_FIT;
    case SL_ERR_ARG:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

cli_exit cli_fail_memory(const char *what)
{
    cli_error("no memory for %s", what);
    return CLI_FAILED;
}

void cli_log(void *user, sl_log_level level, const char *msg)
{
    (void)user;
    if (level == SL_LOG_WARNING)
        cli_warning("%s", msg);
    else
        cli_note("%s", msg);
}
