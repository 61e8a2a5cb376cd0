/* Stop texts in a stream: what may be shown, and where the answer ends. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_stop cli_stop;

/* texts [n] are borrowed until close; none is empty.  NULL: no memory. */
cli_stop *cli_stop_open(const char *const *texts, size_t n);
void cli_stop_close(cli_stop *s);

typedef enum { CLI_STOP_NOT_YET, CLI_STOP_FOUND, CLI_STOP_NO_MEMORY } cli_stop_result;

/* Adds text of any length.  *out [*n_out] is what may be shown now, valid until the next call: everything that can no
 * longer be part of a stop text.  FOUND when one is complete; *out is then the rest before it, and the answer ends.
 * The first to be complete wins, and of several that end at one byte the longest; where the text was cut between
 * calls makes no difference. */
cli_stop_result cli_stop_add(cli_stop *s, const char *text, size_t n_bytes, const char **out, size_t *n_out);
/* What was held back, when the answer ends without a match. */
void cli_stop_end(cli_stop *s, const char **out, size_t *n_out);

#endif
