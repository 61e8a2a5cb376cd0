/* The table of flags, and what walks it: parsing and help.  A new flag is a row here and a field in options.h. */
#include "cli/options.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

typedef enum {
    KIND_FLAG,
    KIND_TEXT,
    KIND_TEXTS,
    KIND_SIZE,
    KIND_U32,
    KIND_U64,
    KIND_FLOAT,
    KIND_DOUBLE,
    KIND_ENUM
} kind;

typedef struct {
    const char *name; /* "--ctx" or "-p" */
    kind kind;
    size_t offset;     /* of the value in cli_options */
    uint32_t commands; /* bit 1 << cli_command_id for each that takes it */
    const char *value; /* what help calls the value; of an enum its names, in the enum's order, "a|b|c" */
    double min, max;   /* of numbers but KIND_U64, both allowed */
    const char *help;
} flag;

#define BIT(command) (1u << (command))
#define AT(field)    offsetof(cli_options, field)

enum {
    ENGINE = BIT(CLI_RUN) | BIT(CLI_PLAN) | BIT(CLI_BENCH) | BIT(CLI_LOGITS) | BIT(CLI_PERPLEXITY) | BIT(CLI_CHAT),
    TALKS = BIT(CLI_RUN) | BIT(CLI_CHAT),
    EVERY = BIT(CLI_N_COMMAND) - 1,
    JSON =
        BIT(CLI_INSPECT) | BIT(CLI_PLAN) | BIT(CLI_BENCH) | BIT(CLI_PERPLEXITY) | BIT(CLI_TOKENIZE) | BIT(CLI_MODELS),
};

/* clang-format off */
static const flag flags[] = {
    {"-p", KIND_TEXT, AT(prompt), BIT(CLI_RUN) | BIT(CLI_TOKENIZE), "TEXT", 0, 0, "the text"},
    {"-p", KIND_U32, AT(n_prompt), BIT(CLI_BENCH), "N", 1, 1e6, "tokens of the prompt (default 128)"},
    {"-p", KIND_U32, AT(n_prompt), BIT(CLI_PLAN), "N", 1, 1e6, "forecast a prompt of N tokens (default 512, or half of the context)"},
    {"-f", KIND_TEXT, AT(file), BIT(CLI_RUN) | BIT(CLI_TOKENIZE) | BIT(CLI_PERPLEXITY), "FILE", 0, 0, "the text, from a file; - is standard input"},
    {"-f", KIND_TEXT, AT(file), BIT(CLI_TEMPLATE), "FILE", 0, 0, "the messages, as JSON; - is standard input"},
    {"--template", KIND_TEXT, AT(chat_template), BIT(CLI_TEMPLATE) | TALKS, "NAME|FILE", 0, 0, "a chat template in place of the model's own: chatml, llama3, ... or a file"},
    {"--ids", KIND_FLAG, AT(ids), BIT(CLI_TEMPLATE), NULL, 0, 0, "the prompt's token ids, as JSON, instead of its text"},
    {"--chat", KIND_FLAG, AT(chat), BIT(CLI_RUN), NULL, 0, 0, "the text is a user's turn: the chat template makes the prompt"},
    {"--system", KIND_TEXT, AT(system), BIT(CLI_RUN), "TEXT", 0, 0, "the system text before it, with --chat"},
    {"--system", KIND_TEXT, AT(system), BIT(CLI_CHAT), "TEXT", 0, 0, "the system text that the conversation begins with"},
    {"--thinking", KIND_ENUM, AT(thinking), BIT(CLI_CHAT), "auto|off|on", 0, 0, "whether the template is to make the model think (enable_thinking)"},
    {"--show-thinking", KIND_FLAG, AT(show_thinking), BIT(CLI_CHAT), NULL, 0, 0, "thoughts also where standard output is no terminal"},
    {"--no-history", KIND_FLAG, AT(no_history), BIT(CLI_CHAT), NULL, 0, 0, "keep no file of the lines that were typed"},
    {"-n", KIND_U32, AT(n_predict), BIT(CLI_RUN), "N", 0, 1e9, "tokens to generate at most (default 128)"},
    {"-n", KIND_U32, AT(n_predict), BIT(CLI_CHAT), "N", 1, 1e9, "tokens of an answer at most (default: what the context holds)"},
    {"-n", KIND_U32, AT(n_predict), BIT(CLI_BENCH), "N", 1, 1e6, "tokens to decode (default 32)"},
    {"-n", KIND_U32, AT(n_predict), BIT(CLI_PLAN), "N", 1, 1e6, "and N generated tokens (default 64)"},
    {"-n", KIND_U32, AT(n_predict), BIT(CLI_SELFTEST), "N", 1, 1e4, "tokens to generate in each run (default 16)"},
    {"-r", KIND_U32, AT(n_repeat), BIT(CLI_BENCH), "N", 1, 1000, "repetitions; medians are reported (default 3)"},
    {"--vs", KIND_TEXT, AT(vs), BIT(CLI_BENCH), "SETTINGS", 0, 0, "measure in turn with these flags added: \"--memory 2G --io pread\""},

    {"--temp", KIND_FLOAT, AT(sampler.temp), TALKS, "T", 0, 100, "temperature; 0 is greedy"},
    {"--top-k", KIND_U32, AT(sampler.top_k), TALKS, "K", 0, 1e9, "keep the K most likely tokens; 0: all"},
    {"--top-p", KIND_FLOAT, AT(sampler.top_p), TALKS, "P", 0.0001, 1, "keep the likeliest tokens that make up P; 1: all"},
    {"--min-p", KIND_FLOAT, AT(sampler.min_p), TALKS, "P", 0, 1, "drop tokens below P times the best one; 0: none"},
    {"--repeat-penalty", KIND_FLOAT, AT(sampler.repeat_penalty), TALKS, "X", 0.01, 100, "against repetition; 1: off"},
    {"--presence-penalty", KIND_FLOAT, AT(sampler.presence_penalty), TALKS, "X", -100, 100, "subtracted for any use; 0: off"},
    {"--frequency-penalty", KIND_FLOAT, AT(sampler.frequency_penalty), TALKS, "X", -100, 100, "subtracted for every use; 0: off"},
    {"--repeat-last", KIND_U32, AT(sampler.repeat_last_tok), TALKS, "N", 0, 1e6, "tokens the penalties look back on; 0: all"},
    {"--seed", KIND_U64, AT(sampler.seed), TALKS, "N", 0, 0, "of the sampler (default: a random one)"},
    {"--greedy", KIND_FLAG, AT(greedy), TALKS, NULL, 0, 0, "always the most likely token; same as --temp 0"},
    {"--stop", KIND_TEXTS, AT(stops), BIT(CLI_RUN), "TEXT", 0, 0, "end before this text; may be given 16 times"},
    {"--ignore-eos", KIND_FLAG, AT(ignore_eos), BIT(CLI_RUN), NULL, 0, 0, "go on after an end token"},
    {"--json", KIND_FLAG, AT(json), BIT(CLI_RUN), NULL, 0, 0, "the text is a JSON object"},
    {"--json-schema", KIND_TEXT, AT(json_schema), BIT(CLI_RUN), "FILE|{...}", 0, 0, "the text is JSON that satisfies this schema"},
    {"--grammar", KIND_TEXT, AT(grammar), BIT(CLI_RUN), "FILE", 0, 0, "the text keeps to these rules (GBNF)"},
    {"--regex", KIND_TEXT, AT(regex), BIT(CLI_RUN), "TEXT", 0, 0, "the whole text matches this regular expression"},

    {"--tokens", KIND_TEXT, AT(tokens), BIT(CLI_LOGITS) | BIT(CLI_DETOKENIZE), "1,2,3", 0, 0, "the ids"},
    {"--out", KIND_TEXT, AT(out), BIT(CLI_LOGITS), "FILE", 0, 0, "the NPY file to write"},
    {"--all", KIND_FLAG, AT(all), BIT(CLI_LOGITS), NULL, 0, 0, "logits of every position, not only the last"},
    {"--split", KIND_U32, AT(split), BIT(CLI_LOGITS), "K", 1, 1e6, "feed K tokens at once, then one by one"},
    {"--lines", KIND_FLAG, AT(lines), BIT(CLI_TOKENIZE), NULL, 0, 0, "every line is a text of its own"},
    {"--no-bos", KIND_FLAG, AT(no_bos), BIT(CLI_TOKENIZE), NULL, 0, 0, "add neither BOS nor EOS"},
    {"--no-special", KIND_FLAG, AT(no_special), BIT(CLI_TOKENIZE) | BIT(CLI_DETOKENIZE), NULL, 0, 0, "control tokens are plain text; in ids, nothing"},
    {"--quick", KIND_FLAG, AT(quick), BIT(CLI_SELFTEST), NULL, 0, 0, "fewer combinations"},

    {"--memory", KIND_SIZE, AT(engine.memory_bytes), ENGINE, "SIZE", 1, 0x1p60, "bound on the whole process (default: what the machine can spare)"},
    {"--ctx", KIND_U32, AT(engine.ctx_tok), ENGINE, "N", 1, 16777216, "tokens of context"},
    {"--threads", KIND_U32, AT(engine.n_threads), ENGINE, "N", 1, 1024, "compute threads (default: processors this process may use)"},
    {"--prefill-chunk", KIND_U32, AT(engine.prefill_chunk_tok), ENGINE, "N", 1, 65536, "tokens in one sweep of the prompt"},
    {"--kv", KIND_ENUM, AT(engine.kv), ENGINE | BIT(CLI_SELFTEST), "auto|f32|f16|q8", 0, 0, "type of the KV cache"},
    {"--backend", KIND_ENUM, AT(engine.backend), ENGINE | BIT(CLI_SELFTEST), "auto|cpu|scalar", 0, 0, "how to compute"},
    {"--cpu", KIND_ENUM, AT(engine.cpu), ENGINE, "auto|portable|avx2|avx512", 0, 0, "instructions to use"},
    {"--io", KIND_ENUM, AT(engine.io), ENGINE, "auto|uring|pread|buffered|mmap", 0, 0, "how to read weights"},
    {"--policy", KIND_ENUM, AT(engine.policy), ENGINE, "auto|pin|lru|fifo", 0, 0, "which weights stay in memory"},
    {"--experts", KIND_TEXT, AT(experts), ENGINE, "HOW", 0, 0, "of mixtures: exact, staged, hot or layer, a preset, fields (docs/experts.md)"},
    {"--predict", KIND_ENUM, AT(engine.predict), ENGINE, "auto|off|history|lookahead", 0, 0, "experts to read before they are asked for"},
    {"--no-warm", KIND_FLAG, AT(no_warm), TALKS | BIT(CLI_PLAN) | BIT(CLI_BENCH), NULL, 0, 0, "neither use nor keep what earlier runs learned of experts"},
    {"--expert-trace", KIND_TEXT, AT(expert_trace), BIT(CLI_RUN), "FILE", 0, 0, "write which experts were used, a line per layer"},
    {"--layers", KIND_TEXT, AT(engine.layers), ENGINE, "LIST", 0, 0, "run these layers in this order: 0-3,7,7"},
    {"--max-layers", KIND_U32, AT(engine.max_layers), ENGINE, "N", 1, 1e6, "run the first N layers"},
    {"--drive", KIND_DOUBLE, AT(drive_mb_s), BIT(CLI_PLAN) | BIT(CLI_BENCH), "MB/S", 0.001, 1e9, "forecast with this rate instead of measuring"},

    {"--stats", KIND_FLAG, AT(stats), BIT(CLI_RUN), NULL, 0, 0, "rates, memory and reads on standard error at the end"},
    {"--stats-json", KIND_TEXT, AT(stats_json), BIT(CLI_RUN), "FILE", 0, 0, "the same and more as JSON"},
    {"--json", KIND_FLAG, AT(json), JSON, NULL, 0, 0, "JSON on standard output"},
    {"--quiet", KIND_FLAG, AT(quiet), EVERY, NULL, 0, 0, "no notes, no progress"},
    {"--help", KIND_FLAG, AT(want_help), EVERY, NULL, 0, 0, "this list"},
};
/* clang-format on */

static const size_t n_flags = sizeof flags / sizeof *flags;

/* ---- one value ---- */

static cli_exit bad_value(const flag *f, const char *name, const char *text)
{
    switch (f->kind) {
    case KIND_ENUM:
        cli_error("%s '%s': must be one of %s", name, text, f->value);
        break;
    case KIND_SIZE:
        cli_error("%s '%s': must be a size from 1 byte to 1 EiB, such as 4G, 512MiB or 300MB", name, text);
        break;
    case KIND_U32:
        cli_error("%s '%s': must be a whole number from %.0f to %.0f", name, text, f->min, f->max);
        break;
    case KIND_U64:
        cli_error("%s '%s': must be a whole number from 0 to %" PRIu64, name, text, UINT64_MAX);
        break;
    default:
        cli_error("%s '%s': must be a number from %g to %g", name, text, f->min, f->max);
        break;
    }
    return CLI_USAGE;
}

/* Index of text in "a|b|c", or -1. */
static int enum_index(const char *names, const char *text)
{
    size_t n = strlen(text);
    for (int i = 0;; i++) {
        size_t length = strcspn(names, "|");
        if (n == length && memcmp(names, text, n) == 0) return i;
        if (!names[length]) return -1;
        names += length + 1;
    }
}

static bool store_whole(const flag *f, void *field, const char *text)
{
    uint64_t v;
    bool parsed = f->kind == KIND_SIZE ? cli_parse_size(text, &v) : cli_parse_u64(text, &v);
    bool bounded = f->kind != KIND_U64;
    if (!parsed || (bounded && ((double)v < f->min || (double)v > f->max))) return false;
    if (f->kind == KIND_U32)
        *(uint32_t *)field = (uint32_t)v;
    else
        *(uint64_t *)field = v;
    return true;
}

static bool store_real(const flag *f, void *field, const char *text)
{
    double v;
    if (!cli_parse_double(text, &v) || v < f->min || v > f->max) return false;
    if (f->kind == KIND_FLOAT)
        *(float *)field = (float)v;
    else
        *(double *)field = v;
    return true;
}

static bool store_enum(const flag *f, void *field, const char *text)
{
    int i = enum_index(f->value, text);
    if (i < 0) return false;
    memcpy(field, &i, sizeof i);
    return true;
}

static cli_exit store_stop(cli_options *o, const char *text)
{
    if (!*text) {
        cli_error("--stop '': the empty text ends every answer before it begins");
        return CLI_USAGE;
    }
    if (o->n_stop == CLI_MAX_STOPS) {
        cli_error("--stop '%s': %d texts were given, the limit is %d", text, CLI_MAX_STOPS + 1, CLI_MAX_STOPS);
        return CLI_USAGE;
    }
    o->stops[o->n_stop++] = text;
    return CLI_DONE;
}

static cli_exit store(cli_options *o, const flag *f, const char *text)
{
    void *field = (char *)o + f->offset;
    bool ok = true;
    switch (f->kind) {
    case KIND_FLAG:
        *(bool *)field = true;
        break;
    case KIND_TEXT:
        *(const char **)field = text;
        break;
    case KIND_TEXTS:
        return store_stop(o, text);
    case KIND_SIZE:
    case KIND_U32:
    case KIND_U64:
        ok = store_whole(f, field, text);
        break;
    case KIND_FLOAT:
    case KIND_DOUBLE:
        ok = store_real(f, field, text);
        break;
    case KIND_ENUM:
        ok = store_enum(f, field, text);
        break;
    }
    return ok ? CLI_DONE : bad_value(f, f->name, text);
}

/* ---- the line ---- */

/* The row that arg names: "--ctx", "--ctx=9" or "-p". */
static const flag *find_flag(cli_command_id command, const char *arg)
{
    for (size_t i = 0; i < n_flags; i++) {
        size_t n = strlen(flags[i].name);
        if (!(flags[i].commands & BIT(command)) || strncmp(arg, flags[i].name, n) != 0) continue;
        if (!arg[n] || (arg[n] == '=' && flags[i].name[1] == '-')) return &flags[i];
    }
    return NULL;
}

static cli_exit unknown_flag(const char *arg)
{
    int n = (int)strcspn(arg, "=");
    cli_error("%.*s: this command has no such flag; --help lists those it has", n, arg);
    return CLI_USAGE;
}

static cli_exit parse_flag(cli_options *o, cli_command_id command, int argc, char *const *argv, int *i)
{
    const char *arg = argv[*i];
    const flag *f = find_flag(command, arg);
    if (!f) return unknown_flag(arg);
    const char *inline_value = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
    if (f->kind == KIND_FLAG && inline_value) {
        cli_error("%s '%s': the flag takes no value", f->name, inline_value + 1);
        return CLI_USAGE;
    }
    if (f->kind == KIND_FLAG) return store(o, f, NULL);
    if (inline_value) return store(o, f, inline_value + 1);
    if (*i + 1 >= argc) {
        cli_error("%s: the value is missing (%s)", f->name, f->value);
        return CLI_USAGE;
    }
    return store(o, f, argv[++*i]);
}

static cli_exit parse_word(cli_options *o, const char *word)
{
    if (o->model) {
        cli_error("'%s': one model was named already, '%s'; a text goes after -p", word, o->model);
        return CLI_USAGE;
    }
    o->model = word;
    return CLI_DONE;
}

/* What runs learn of experts is kept where the user keeps caches; only runs of the user's own text teach. */
static cli_exit settle_experts(cli_options *o, cli_command_id command)
{
    sl_err err = {0};
    bool learns = command == CLI_RUN || command == CLI_CHAT || command == CLI_PLAN || command == CLI_BENCH;
    if (learns && !o->no_warm && o->cache_dir[0]) o->engine.cache_dir = o->cache_dir;
    if (!o->experts || sl_expert_options_parse(o->experts, &o->engine.experts, &err) == SL_OK) return CLI_DONE;
    cli_error("--experts '%s': %s", o->experts, err.msg);
    return CLI_USAGE;
}

cli_exit cli_options_parse(cli_options *o, cli_command_id command, int argc, char *const *argv)
{
    bool words_only = false;
    for (int i = 0; i < argc; i++) {
        cli_exit code;
        if (!words_only && strcmp(argv[i], "--") == 0) {
            words_only = true;
            continue;
        }
        if (words_only || argv[i][0] != '-')
            code = parse_word(o, argv[i]);
        else if (strcmp(argv[i], "-h") == 0)
            code = CLI_DONE, o->want_help = true;
        else
            code = parse_flag(o, command, argc, argv, &i);
        if (code != CLI_DONE) return code;
    }
    if (o->greedy) o->sampler.temp = 0;
    if (o->drive_mb_s > 0) o->engine.drive_bytes_s = 1e6 * o->drive_mb_s;
    cli_set_quiet(o->quiet);
    return settle_experts(o, command);
}

/* A flag that sets a field of the engine's options. */
static bool is_setting(const flag *f)
{
    size_t from = AT(engine);
    return f && f->offset >= from && f->offset < from + sizeof(sl_engine_options);
}

cli_exit cli_options_parse_settings(cli_options *o, const char *flag_name, const char *text, char **words)
{
    char *argv[64], *rest = NULL;
    int argc = 0;
    *words = strdup(text);
    if (!*words) return cli_fail_memory("the settings");
    for (char *w = strtok_r(*words, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest)) {
        if (argc == (int)(sizeof argv / sizeof *argv)) {
            cli_error("%s '%s': more than 64 words", flag_name, text);
            return CLI_USAGE;
        }
        argv[argc++] = w;
    }
    for (int i = 0; i < argc; i++) {
        if (!is_setting(find_flag(CLI_BENCH, argv[i]))) {
            cli_error("%s '%s': '%s' is not a flag of how to run (--memory, --threads, --io and the like)", flag_name, text, argv[i]);
            return CLI_USAGE;
        }
        cli_exit code = parse_flag(o, CLI_BENCH, argc, argv, &i);
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

/* ---- defaults and help ---- */

/* $XDG_CACHE_HOME/sluice, else ~/.cache/sluice.  A relative path counts as none, as the XDG rules say. */
static void find_cache_dir(cli_options *o)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (xdg && xdg[0] == '/')
        n = snprintf(o->cache_dir, sizeof o->cache_dir, "%s/sluice", xdg);
    else if (home && home[0] == '/')
        n = snprintf(o->cache_dir, sizeof o->cache_dir, "%s/.cache/sluice", home);
    if (n <= 0 || (size_t)n >= sizeof o->cache_dir) o->cache_dir[0] = 0;
}

/* 32 bits, so that every JSON reader keeps the number as it is. */
static uint64_t random_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) seed = (uint32_t)(uint64_t)(1e9 * cli_now_s());
    return seed;
}

cli_exit cli_options_init(cli_options *o, cli_command_id command)
{
    const char *backend = getenv("SLUICE_BACKEND");
    *o = (cli_options){.n_prompt = command == CLI_BENCH ? 128 : 0, .n_repeat = 3};
    o->n_predict = command == CLI_RUN ? 128 : command == CLI_CHAT ? 1000000000 : command == CLI_BENCH ? 32 : command == CLI_PLAN ? 0 : 16;
    sl_engine_options_init(&o->engine);
    sl_sampler_options_init(&o->sampler);
    o->sampler.seed = random_seed();
    find_cache_dir(o);
    o->engine.log = cli_log;
    o->engine.progress = cli_progress;
    o->engine.cancel = cli_interrupt_flag();
    const flag *f = find_flag(command, "--backend");
    if (!f || !backend || !*backend || store_enum(f, &o->engine.backend, backend)) return CLI_DONE;
    return bad_value(f, "SLUICE_BACKEND", backend);
}

void cli_options_print(FILE *f, cli_command_id command)
{
    for (size_t i = 0; i < n_flags; i++) {
        if (!(flags[i].commands & BIT(command))) continue;
        char left[64];
        snprintf(left, sizeof left, "%s %s", flags[i].name, flags[i].value ? flags[i].value : "");
        if (strlen(left) > 24)
            fprintf(f, "  %s\n  %-24s %s\n", left, "", flags[i].help);
        else
            fprintf(f, "  %-24s %s\n", left, flags[i].help);
    }
}
