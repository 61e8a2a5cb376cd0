/* What one `run` cost, for people and for programs. */
#ifndef CLI_RUN_STATS_H
#define CLI_RUN_STATS_H

#include "cli/cli.h"

typedef struct {
    uint64_t seed;
    const int32_t *prompt_ids, *tokens; /* borrowed; the generated ids only, without the end token */
    size_t n_prompt, n_token;
    size_t n_step;              /* sweeps after the prompt's: one for each generated token but the last */
    double ttft_s;              /* from the start of the command, loading included, to the first token */
    double prefill_s, decode_s; /* decoding: from the first token to the end */
    double decode_compute_s, decode_wait_s; /* of it */
    uint64_t decode_bytes;      /* read from the drive while decoding */
    const char *finish;         /* "end", "stop", "length", "context", "error", "interrupted" */
    sl_stats engine;
} cli_run_result;

void cli_run_stats_print(const cli_run_result *r);
void cli_run_stats_json(const cli_run_result *r, FILE *f);

#endif
