/* The command line, parsed: one table of commands (command.c), one table of flags (options.c). */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli/cli.h"

typedef enum {
    CLI_RUN,
    CLI_CHAT,
    CLI_INSPECT,
    CLI_PLAN,
    CLI_BENCH,
    CLI_LOGITS,
    CLI_PERPLEXITY,
    CLI_TOKENIZE,
    CLI_DETOKENIZE,
    CLI_TEMPLATE,
    CLI_SELFTEST,
    CLI_MODELS,
    CLI_HELP,
    CLI_VERSION,
    CLI_N_COMMAND
} cli_command_id;

/* Whether a template is told that thinking is wanted. */
typedef enum { CLI_THINKING_AUTO, CLI_THINKING_OFF, CLI_THINKING_ON } cli_thinking;

enum { CLI_MAX_STOPS = 16 };

typedef struct {
    const char *model; /* the word that is not a flag: MODEL, or the topic of help */
    bool want_help;

    sl_engine_options engine;   /* as its init function left it where no flag says otherwise */
    sl_sampler_options sampler; /* the seed is a random one then */
    double drive_mb_s;
    const char *experts;        /* --experts */
    bool no_warm;
    const char *expert_trace;
    char cache_dir[1024];       /* of this program for this user; "": there is none */

    const char *prompt; /* -p TEXT */
    const char *file;   /* -f FILE */
    uint32_t n_predict; /* -n of run, plan, bench, selftest */
    uint32_t n_prompt;  /* -p N of bench and plan; 0 in plan: not given */
    uint32_t n_repeat;
    const char *vs;     /* --vs */
    bool greedy, ignore_eos;
    const char *json_schema, *grammar, *regex; /* what the text of run must be; also json below */
    const char *stops[CLI_MAX_STOPS];
    uint32_t n_stop;

    const char *chat_template; /* --template NAME or FILE */
    const char *system;        /* --system of run --chat, and of chat */
    bool chat, ids;            /* --chat of run, --ids of template */

    cli_thinking thinking;     /* --thinking */
    bool show_thinking, no_history;

    const char *tokens; /* --tokens */
    const char *out;
    bool all;
    uint32_t split;
    bool lines, no_bos, no_special;

    bool json, stats, quiet, quick;
    const char *stats_json;
} cli_options;

/* Defaults of one command; reads SLUICE_BACKEND. */
cli_exit cli_options_init(cli_options *o, cli_command_id command);
/* Parses what follows the command's name.  Prints its own error: one line that names flag, value and bounds. */
cli_exit cli_options_parse(cli_options *o, cli_command_id command, int argc, char *const *argv);
/* Applies text, flags separated by blanks, of which each must be one of how to run (--memory, --io ...), on top of o; flag
 * is what the text was given to, for messages.  *words is what o then points into; free() it after o. */
cli_exit cli_options_parse_settings(cli_options *o, const char *flag, const char *text, char **words);
/* The flags of a command, a line or two each. */
void cli_options_print(FILE *f, cli_command_id command);

#endif
