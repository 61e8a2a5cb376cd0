/* --json, --json-schema, --grammar, --regex: what the text of an answer must be. */
#ifndef CLI_CONSTRAIN_H
#define CLI_CONSTRAIN_H

#include "cli/options.h"

typedef struct {
    bool wanted;
    sl_grammar_options opt;
    char *file; /* NULL: the text came from the command line */
} cli_constraint;

/* Reads and checks what the flags ask for.  Prints its own error. */
cli_exit cli_constraint_read(cli_constraint *c, const cli_options *o);
void cli_constraint_free(cli_constraint *c);

#endif
