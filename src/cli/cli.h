/* What the files of the command share: exit codes, messages, progress, interruption, small files, sizes.
 *
 * The command sees the library through sluice.h alone.  Standard output carries results only; everything else goes to
 * standard error, one line per message, each beginning with "error:", "warning:" or "note:", or is progress. */
#ifndef CLI_H
#define CLI_H

#include "sluice.h"

#include <stdio.h>

typedef enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NO_FIT = 3, /* the memory budget */
    CLI_INTERRUPTED = 130,
} cli_exit;

/* ---- message.c ---- */

void cli_set_quiet(bool quiet); /* hides notes and progress */
bool cli_quiet(void);
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A row of a report that was asked for: a note that --quiet does not hide. */
void cli_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints what the library said and returns the exit code that belongs to its status. */
cli_exit cli_fail(const sl_err *err);
cli_exit cli_fail_memory(const char *what); /* "no memory for <what>" */
/* Prints text from a file: control characters become "\xNN", so that no name can steer a terminal. */
void cli_put_clean(FILE *f, const char *s);
void cli_log(void *user, sl_log_level level, const char *msg); /* an sl_log_fn */

/* ---- progress.c: shown only for work that takes over a second ---- */

void cli_progress(void *user, const sl_progress *p); /* an sl_progress_fn */
/* The same for work that the command counts itself, from begin to the last step; unit is "chunks" or the like. */
void cli_progress_begin(void);
void cli_progress_steps(const char *what, const char *unit, uint64_t done, uint64_t total);
void cli_progress_clear(void); /* takes an unfinished line off the terminal, before other output */

/* ---- interrupt.c ---- */

/* Starts the thread that waits for SIGINT and SIGTERM.  Before any other thread exists. */
void cli_interrupt_start(void);
bool cli_interrupted(void);
const volatile bool *cli_interrupt_flag(void);
/* The session that an interruption cancels; NULL: none.  Returns only when the former one is no longer used. */
void cli_interrupt_watch(sl_session *s);
/* For a command that goes on after Ctrl-C: from now on it raises the flag and cancels the session, until
 * cli_interrupt_lower() takes both back.  A second one meanwhile, and SIGTERM, end the process, with the terminal's settings
 * as they are now. */
void cli_interrupt_keep(void);
void cli_interrupt_lower(void);

/* ---- file.c ---- */

/* A whole file ("-": standard input), NUL added; free() it.  Prints its own error. */
cli_exit cli_read_file(const char *path, char **data, size_t *n_bytes);
/* Writes to standard output at once; false after an error, which finish reports. */
bool cli_write(const char *data, size_t n_bytes);
/* Ends an unfinished line, if somebody is looking at it. */
void cli_end_line(void);
/* Flushes standard output; a failed write turns success into failure. */
cli_exit cli_finish(cli_exit code);
double cli_now_s(void);

/* ---- value.c: numbers and names as people write them ---- */

/* "4G", "1.5GiB", "300MB", "4096": K M G T and KiB ... are powers of 1024, KB MB GB TB of 1000.  Whole bytes. */
bool cli_parse_size(const char *text, uint64_t *bytes);
bool cli_parse_u64(const char *text, uint64_t *value);  /* decimal digits only */
bool cli_parse_double(const char *text, double *value); /* decimal, finite */
/* "1,2,3" (blanks allowed), each at most INT32_MAX; free() the result.  0 ids is fine. */
bool cli_parse_ids(const char *text, int32_t **ids, size_t *n);
/* "61.0 MiB"; returns buf. */
const char *cli_size_text(uint64_t bytes, char buf[24]);

#endif
