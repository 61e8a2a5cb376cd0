/* The command: one table of commands, dispatch, and the three that need no model (help, models, version). */
#include "cli/commands.h"
#include "cli/json_out.h"

#include <string.h>

typedef struct {
    const char *name;
    cli_command_id id;
    cli_exit (*run)(const cli_options *o);
    const char *words; /* what follows the name, for help */
    bool needs_model;
    const char *summary;
} command;

static cli_exit show_models(const cli_options *o);
static cli_exit show_help(const cli_options *o);
static cli_exit show_version(const cli_options *o);

static const command commands[] = {
    {"run", CLI_RUN, cli_run, "MODEL -p TEXT", true, "complete a text"},
    {"chat", CLI_CHAT, cli_chat, "MODEL", true, "talk with a model, in a terminal or from a pipe"},
    {"inspect", CLI_INSPECT, cli_inspect, "MODEL", true, "what is in a model's files, and whether this build runs it"},
    {"plan", CLI_PLAN, cli_plan, "MODEL", true, "what would fit into memory, and how fast it would be"},
    {"bench", CLI_BENCH, cli_bench, "MODEL", true, "measure reading prompts and generating"},
    {"logits", CLI_LOGITS, cli_logits, "MODEL --tokens 1,2,3 --out FILE", true, "write logits as an NPY file"},
    {"perplexity", CLI_PERPLEXITY, cli_perplexity, "MODEL -f FILE", true, "how well the model predicts a text"},
    {"tokenize", CLI_TOKENIZE, cli_tokenize, "MODEL -p TEXT", true, "the token ids of a text"},
    {"detokenize", CLI_DETOKENIZE, cli_detokenize, "MODEL --tokens 1,2,3", true, "the text of token ids"},
    {"template", CLI_TEMPLATE, cli_template, "MODEL -f FILE", true, "the prompt that a conversation becomes"},
    {"selftest", CLI_SELFTEST, cli_selftest, "MODEL", true,
     "same tokens under every budget, read method and thread count"},
    {"models", CLI_MODELS, show_models, "", false, "the model families that this build runs"},
    {"help", CLI_HELP, show_help, "[COMMAND]", false, "this list, or the flags of a command"},
    {"version", CLI_VERSION, show_version, "", false, "the version"},
};

static const size_t n_commands = sizeof commands / sizeof *commands;

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < n_commands; i++) {
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    }
    return NULL;
}

static cli_exit unknown_command(const char *name)
{
    cli_error("'%s' is not a command; 'sluice help' lists them", name);
    return CLI_USAGE;
}

/* ---- help, models, version ---- */

static void print_overview(void)
{
    fputs("Sluice runs language models that are larger than memory, streaming their weights from disk.\n\n"
          "usage: sluice COMMAND [MODEL] [FLAG ...]\n\n",
          stdout);
    for (size_t i = 0; i < n_commands; i++)
        printf("  %-12s %s\n", commands[i].name, commands[i].summary);
    fputs("\nMODEL is a .gguf file (any shard of a split one) or a directory with a GGUF or Hugging Face model.\n"
          "Sizes take K M G T and KiB MiB GiB TiB (powers of 1024) and KB MB GB TB (powers of 1000).\n"
          "SLUICE_BACKEND is the default of --backend.\n"
          "Exit codes: 0 done, 1 failed, 2 usage, 3 does not fit the memory budget, 130 interrupted.\n",
          stdout);
}

static cli_exit print_command(const command *c)
{
    printf("usage: sluice %s %s [FLAG ...]\n\n%s\n\n", c->name, c->words, c->summary);
    cli_options_print(stdout, c->id);
    return CLI_DONE;
}

static cli_exit show_help(const cli_options *o)
{
    if (!o->model) {
        print_overview();
        return CLI_DONE;
    }
    const command *c = find_command(o->model);
    return c ? print_command(c) : unknown_command(o->model);
}

static cli_exit show_models(const cli_options *o)
{
    cli_json j;
    if (!o->json) {
        for (size_t i = 0; i < sl_family_count(); i++)
            puts(sl_family_name(i));
        return CLI_DONE;
    }
    cli_json_begin(&j, stdout, true);
    cli_json_array(&j, "families");
    for (size_t i = 0; i < sl_family_count(); i++)
        cli_json_string(&j, NULL, sl_family_name(i));
    cli_json_end(&j);
    return CLI_DONE;
}

static cli_exit show_version(const cli_options *o)
{
    (void)o;
    puts("sluice " SL_VERSION);
    return CLI_DONE;
}

/* ---- dispatch ---- */

static cli_exit check_words(const command *c, const cli_options *o)
{
    if (c->needs_model && !o->model) {
        cli_error("%s: the model is missing; usage: sluice %s %s", c->name, c->name, c->words);
        return CLI_USAGE;
    }
    if (!c->needs_model && c->id != CLI_HELP && o->model) {
        cli_error("%s '%s': takes no words", c->name, o->model);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static cli_exit run_command(const command *c, int argc, char *const *argv)
{
    cli_options o;
    cli_exit code = cli_options_init(&o, c->id);
    if (code == CLI_DONE) code = cli_options_parse(&o, c->id, argc, argv);
    if (code == CLI_DONE && o.want_help) return print_command(c);
    if (code == CLI_DONE) code = check_words(c, &o);
    if (code != CLI_DONE) return code;
    cli_interrupt_start();
    return c->run(&o);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        cli_error("no command was given; 'sluice help' lists them");
        return CLI_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0) word = "version";
    const command *c = find_command(word);
    return (int)cli_finish(c ? run_command(c, argc - 2, argv + 2) : unknown_command(word));
}
