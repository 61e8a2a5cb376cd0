/* Whole input files, standard output, and the clock. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const size_t max_input_bytes = (size_t)1 << 30; /* a prompt or a text, never a model */

static int write_errno; /* why standard output failed, 0: it did not */

/* Reads f to its end, doubling the buffer; NULL with errno set. */
static char *read_all(FILE *f, size_t *n_bytes)
{
    size_t cap = 64 * 1024, used = 0, got;
    char *data = malloc(cap);
    while (data && (got = fread(data + used, 1, cap - used - 1, f)) > 0) {
        used += got;
        if (cap - used > 1) continue;
        char *larger = used < max_input_bytes ? realloc(data, cap *= 2) : NULL;
        if (!larger) {
            errno = used < max_input_bytes ? ENOMEM : EFBIG;
            free(data);
            return NULL;
        }
        data = larger;
    }
    if (!data || ferror(f)) {
        free(data);
        return NULL;
    }
    data[used] = 0;
    *n_bytes = used;
    return data;
}

cli_exit cli_read_file(const char *path, char **data, size_t *n_bytes)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    if (f) *data = read_all(f, n_bytes);
    int reason = errno;
    if (f && !is_stdin) fclose(f);
    if (f && *data) return CLI_DONE;
    cli_error("%s: cannot be read: %s", is_stdin ? "standard input" : path, strerror(reason));
    return CLI_FAILED;
}

bool cli_write(const char *data, size_t n_bytes)
{
    if (n_bytes) cli_progress_clear();
    if (!write_errno && (fwrite(data, 1, n_bytes, stdout) != n_bytes || fflush(stdout) != 0)) write_errno = errno;
    return !write_errno;
}

void cli_end_line(void)
{
    if (isatty(STDOUT_FILENO)) cli_write("\n", 1);
}

cli_exit cli_finish(cli_exit code)
{
    cli_progress_clear();
    if (!write_errno && (fflush(stdout) != 0 || ferror(stdout))) write_errno = errno ? errno : EIO;
    if (!write_errno) return code;
    cli_error("standard output cannot be written: %s", strerror(write_errno));
    return code == CLI_DONE ? CLI_FAILED : code;
}

double cli_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
