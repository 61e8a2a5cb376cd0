/* See chat_history.h. */
#include "cli/chat_history.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINES = 1000, MAX_FILE_LINES = 4 * MAX_LINES };

struct cli_history {
    char *path;
    int fd; /* to append */
};

/* ---- the file ---- */

static char *make_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int n = -1;
    if (state && *state == '/') /* relative ones do not count, says the XDG base directory specification */
        n = asprintf(&path, "%s/sluice/chat-history", state);
    else if (home && *home)
        n = asprintf(&path, "%s/.local/state/sluice/chat-history", home);
    return n < 0 ? NULL : path;
}

/* Makes the folders of path that are missing; what fails shows when the file is opened. */
static void make_folders(char *path)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
}

cli_history *cli_history_open(void)
{
    cli_history *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->fd = -1;
    h->path = make_path();
    if (h->path) {
        make_folders(h->path);
        h->fd = open(h->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (h->fd < 0) cli_warning("%s: cannot be written, lines are not kept: %s", h->path, strerror(errno));
    } else {
        cli_warning("neither XDG_STATE_HOME nor HOME says where to keep the lines that are typed; they are not kept");
    }
    if (h->fd >= 0) return h;
    cli_history_close(h);
    return NULL;
}

void cli_history_close(cli_history *h)
{
    if (!h) return;
    if (h->fd >= 0) close(h->fd);
    free(h->path);
    free(h);
}

/* ---- its lines ---- */

static size_t count_lines(FILE *f)
{
    size_t n = 0;
    for (int c; (c = getc_unlocked(f)) != EOF;)
        n += c == '\n';
    rewind(f);
    return n;
}

/* The last lines take the file's place, by a second file that gets its name. */
static void cut_file(cli_history *h, FILE *f, size_t n_skip)
{
    char *path = NULL, *line = NULL;
    size_t cap = 0;
    if (asprintf(&path, "%s.new", h->path) < 0) return;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    FILE *out = fd < 0 ? NULL : fdopen(dup(fd), "w");
    while (out && getline(&line, &cap, f) > 0) {
        if (n_skip)
            n_skip--;
        else
            fputs(line, out);
    }
    bool good = out && fclose(out) == 0 && rename(path, h->path) == 0;
    if (good) {
        close(h->fd);
        h->fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    free(line);
    free(path);
    rewind(f);
}

/* A line that the editor can show: text in the terminal's encoding, no control characters. */
static bool is_showable(const char *line)
{
    for (const char *p = line; *p; p++) {
        if ((unsigned char)*p < 0x20 && *p != '\t') return false;
    }
    return *line && mbstowcs(NULL, line, 0) != (size_t)-1;
}

void cli_history_load(cli_history *h, void (*take)(void *user, const char *line), void *user)
{
    FILE *f = fopen(h->path, "r");
    char *line = NULL;
    size_t cap = 0;
    if (!f) return;
    size_t n = count_lines(f), n_skip = n > MAX_LINES ? n - MAX_LINES : 0;
    if (n > MAX_FILE_LINES) cut_file(h, f, n_skip);
    for (ssize_t length; (length = getline(&line, &cap, f)) > 0;) {
        if (line[length - 1] == '\n') line[length - 1] = 0;
        if (n_skip)
            n_skip--;
        else if (is_showable(line))
            take(user, line);
    }
    free(line);
    fclose(f);
}

void cli_history_add(cli_history *h, const char *line)
{
    char *text = NULL;
    int n = asprintf(&text, "%s\n", line);
    if (n < 0) return;
    if (write(h->fd, text, (size_t)n) != n) cli_warning("%s: a line could not be kept: %s", h->path, strerror(errno));
    free(text);
}
