/* Which experts a mixture's router chose, as text: a line "layer: e e e" per layer and sweep (of a prompt's chunk all tokens'
 * together), and a line "decode" where decoding begins.  For replaying against other cache policies. */
#ifndef CLI_EXPERT_TRACE_H
#define CLI_EXPERT_TRACE_H

#include "cli/cli.h"

typedef struct {
    const char *path;
    FILE *file; /* NULL: none wanted */
} cli_expert_trace;

/* path may be NULL: nothing is written. */
cli_exit cli_expert_trace_open(cli_expert_trace *t, const char *path);
/* From now on the engine's choices are written. */
void cli_expert_trace_follow(cli_expert_trace *t, sl_engine *e);
void cli_expert_trace_decode(cli_expert_trace *t);
/* Closes; an error of writing is reported here. */
cli_exit cli_expert_trace_close(cli_expert_trace *t);

#endif
