/* See chat_line.h.  The line editor is libedit, where the build has it. */
#include "cli/chat_line.h"
#include "cli/chat_history.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef CLI_HAVE_LIBEDIT
#include <histedit.h>
#endif

struct cli_line {
    bool is_terminal;
    char *buffer; /* of getline */
    size_t cap;
#ifdef CLI_HAVE_LIBEDIT
    EditLine *editor;
    History *past;
    cli_history *file; /* NULL: none */
    FILE *screen;
    const char *prompt;
    bool interrupted;
    size_t dropped_bytes;
#endif
};

/* ---- without the editor ---- */

static cli_line_result read_plain(cli_line *l, const char *prompt, const char **text, size_t *n_bytes)
{
    if (l->is_terminal) {
        fputs(prompt, stderr);
        fflush(stderr);
    }
    errno = 0;
    ssize_t n = getline(&l->buffer, &l->cap, stdin);
    if (n < 0 && feof(stdin)) return CLI_LINE_END;
    if (n < 0) {
        cli_error("standard input: cannot be read: %s", strerror(errno));
        return CLI_LINE_FAILED;
    }
    if (n && l->buffer[n - 1] == '\n') l->buffer[--n] = 0;
    *text = l->buffer;
    *n_bytes = (size_t)n;
    return CLI_LINE_READ;
}

#ifdef CLI_HAVE_LIBEDIT

/* ---- with the editor ---- */

static char *show_prompt(EditLine *editor)
{
    cli_line *l = NULL;
    el_get(editor, EL_CLIENTDATA, &l);
    return (char *)l->prompt; /* the editor only reads it */
}

/* Ctrl-C reaches the program as a key: the line that is being typed is the editor's to drop. */
static unsigned char on_interrupt(EditLine *editor, int key)
{
    cli_line *l = NULL;
    (void)key;
    el_get(editor, EL_CLIENTDATA, &l);
    const LineInfo *line = el_line(editor);
    l->interrupted = true;
    l->dropped_bytes = (size_t)(line->lastchar - line->buffer);
    return CC_EOF;
}

/* The editor goes by the locale's encoding.  Models speak UTF-8, so does every terminal of today. */
static void set_encoding(void)
{
    if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return;
    setlocale(LC_CTYPE, "C.UTF-8");
}

static void remember(void *user, const char *line)
{
    cli_line *l = user;
    HistEvent event;
    history(l->past, &event, H_ENTER, line);
}

static cli_exit open_editor(cli_line *l, bool keep_history)
{
    HistEvent event;
    set_encoding();
    l->screen = isatty(STDOUT_FILENO) ? stdout : stderr;
    l->prompt = "";
    l->editor = el_init("sluice", stdin, l->screen, stderr);
    l->past = history_init();
    if (!l->editor || !l->past) return cli_fail_memory("the line editor");
    history(l->past, &event, H_SETSIZE, 1000);
    history(l->past, &event, H_SETUNIQUE, 1);
    el_set(l->editor, EL_CLIENTDATA, l);
    el_set(l->editor, EL_PROMPT, show_prompt);
    el_set(l->editor, EL_HIST, history, l->past);
    el_set(l->editor, EL_EDITOR, "emacs");
    el_set(l->editor, EL_SIGNAL, 1); /* a window that changes its size, Ctrl-Z */
    el_source(l->editor, NULL);      /* ~/.editrc */
    el_set(l->editor, EL_ADDFN, "sluice-interrupt", "Drops the line", on_interrupt);
    el_set(l->editor, EL_SETTY, "-d", "-isig", NULL);
    el_set(l->editor, EL_BIND, "^C", "sluice-interrupt", NULL);
    if (keep_history) l->file = cli_history_open();
    if (l->file) cli_history_load(l->file, remember, l);
    return CLI_DONE;
}

static void close_editor(cli_line *l)
{
    if (l->editor) el_end(l->editor);
    if (l->past) history_end(l->past);
    cli_history_close(l->file);
}

static void keep_line(cli_line *l, const char *line)
{
    HistEvent event;
    if (!*line || (history(l->past, &event, H_FIRST) >= 0 && strcmp(event.str, line) == 0)) return;
    remember(l, line);
    if (l->file) cli_history_add(l->file, line);
}

static cli_line_result read_edited(cli_line *l, const char *prompt, const char **text, size_t *n_bytes)
{
    int n = 0;
    l->prompt = prompt;
    l->interrupted = false;
    const char *line = el_gets(l->editor, &n);
    if (l->interrupted || !line || n <= 0) {
        fputs(l->interrupted ? "^C\n" : "\n", l->screen);
        fflush(l->screen);
        *n_bytes = l->interrupted ? l->dropped_bytes : 0;
        return l->interrupted ? CLI_LINE_INTERRUPTED : CLI_LINE_END;
    }
    free(l->buffer);
    l->buffer = strdup(line);
    if (!l->buffer) {
        cli_fail_memory("the line");
        return CLI_LINE_FAILED;
    }
    *n_bytes = strcspn(l->buffer, "\n");
    l->buffer[*n_bytes] = 0;
    keep_line(l, l->buffer);
    *text = l->buffer;
    return CLI_LINE_READ;
}

#else

static cli_exit open_editor(cli_line *l, bool keep_history)
{
    (void)l;
    (void)keep_history;
    cli_note("this build has no line editor (libedit was missing when it was built): no keys but those of the terminal "
             "itself, no history");
    return CLI_DONE;
}

static void close_editor(cli_line *l)
{
    (void)l;
}

static cli_line_result read_edited(cli_line *l, const char *prompt, const char **text, size_t *n_bytes)
{
    return read_plain(l, prompt, text, n_bytes);
}

#endif

/* ---- both ---- */

cli_exit cli_line_open(cli_line **out, bool keep_history)
{
    cli_line *l = calloc(1, sizeof *l);
    if (!l) return cli_fail_memory("the input");
    l->is_terminal = isatty(STDIN_FILENO) && (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO));
    cli_exit code = l->is_terminal ? open_editor(l, keep_history) : CLI_DONE;
    if (code == CLI_DONE)
        *out = l;
    else
        cli_line_close(l);
    return code;
}

void cli_line_close(cli_line *l)
{
    if (!l) return;
    close_editor(l);
    free(l->buffer);
    free(l);
}

bool cli_line_is_terminal(const cli_line *l)
{
    return l->is_terminal;
}

cli_line_result cli_line_read(cli_line *l, const char *prompt, const char **text, size_t *n_bytes)
{
    return l->is_terminal ? read_edited(l, prompt, text, n_bytes) : read_plain(l, prompt, text, n_bytes);
}
