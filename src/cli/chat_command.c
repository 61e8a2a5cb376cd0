/* The commands inside of a conversation: one table. */
#include "cli/chat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name, *words;
    cli_exit (*run)(cli_chat_state *c, const char *words); /* "" when there are none */
    const char *help;
} command;

static cli_exit show_help(cli_chat_state *c, const char *words);

/* ---- the conversation ---- */

static cli_exit clear(cli_chat_state *c, const char *words)
{
    (void)words;
    cli_talk_cut(&c->talk, cli_talk_has_system(&c->talk));
    cli_note("the conversation is empty%s", c->talk.n ? "; the system text stays" : "");
    return CLI_DONE;
}

static cli_exit drop(cli_chat_state *c, const char *words)
{
    uint64_t n = 1;
    size_t turns = cli_talk_turns(&c->talk);
    if (*words && (!cli_parse_u64(words, &n) || !n)) {
        cli_error("/drop '%s': must be a number of turns", words);
        return CLI_USAGE;
    }
    cli_talk_drop_oldest(&c->talk, n < turns ? (size_t)n : turns);
    cli_note("%zu turns are left", cli_talk_turns(&c->talk));
    return CLI_DONE;
}

static cli_exit set_system(cli_chat_state *c, const char *words)
{
    cli_exit code = cli_talk_set_system(&c->talk, words);
    if (code == CLI_DONE) cli_note(*words ? "the system text is set" : "there is no system text now");
    return code;
}

static cli_exit need_file(const char *name, const char *words)
{
    if (*words) return CLI_DONE;
    cli_error("%s: the file's name is missing", name);
    return CLI_USAGE;
}

static cli_exit save(cli_chat_state *c, const char *words)
{
    cli_exit code = need_file("/save", words);
    if (code == CLI_DONE) code = cli_talk_save(&c->talk, words);
    if (code == CLI_DONE) cli_note("%zu messages are in %s", c->talk.n, words);
    return code;
}

/* What the template cannot render is not taken. */
static cli_exit load(cli_chat_state *c, const char *words)
{
    cli_talk talk = {0};
    sl_chat_prompt *prompt = NULL;
    cli_exit code = need_file("/load", words);
    if (code == CLI_DONE) code = cli_talk_load(&talk, words);
    if (code == CLI_DONE && talk.n) code = cli_partner_render(&c->partner, &c->o, &talk, &prompt);
    sl_chat_prompt_close(prompt);
    if (code != CLI_DONE) {
        cli_talk_free(&talk);
        return code;
    }
    cli_talk_free(&c->talk);
    c->talk = talk;
    cli_note("%zu messages, %zu of them the user's", talk.n, cli_talk_turns(&talk));
    return CLI_DONE;
}

/* The former answer comes back when there is no new one. */
static cli_exit answer_again(cli_chat_state *c, const char *words)
{
    (void)words;
    size_t n = c->talk.n;
    bool has_answer = n > 1 && c->talk.messages[n - 1].role == CLI_ROLE_ASSISTANT;
    size_t n_asked = has_answer ? n - 1 : n;
    if (!n_asked || c->talk.messages[n_asked - 1].role != CLI_ROLE_USER) {
        cli_error("/regen: there is no answer to give again");
        return CLI_FAILED;
    }
    char *former = has_answer ? strdup(c->talk.messages[n - 1].json) : NULL;
    if (has_answer && !former) return cli_fail_memory("the former answer");
    cli_talk_cut(&c->talk, n_asked);
    cli_exit code = cli_chat_answer(c);
    if (former && c->talk.n == n_asked) {
        cli_exit kept = cli_talk_add_json(&c->talk, CLI_ROLE_ASSISTANT, former, strlen(former));
        if (code == CLI_DONE) code = kept;
    }
    free(former);
    return code;
}

/* ---- settings ---- */

static const struct {
    const char *name, *flag;
} settings[] = {
    {"temp", "--temp"},
    {"top-k", "--top-k"},
    {"top-p", "--top-p"},
    {"min-p", "--min-p"},
    {"repeat-penalty", "--repeat-penalty"},
    {"presence-penalty", "--presence-penalty"},
    {"frequency-penalty", "--frequency-penalty"},
    {"repeat-last", "--repeat-last"},
    {"seed", "--seed"},
    {"n", "-n"},
    {"thinking", "--thinking"},
};

static void show_settings(const cli_options *o)
{
    static const char *const thinking[] = {"auto", "off", "on"};
    const sl_sampler_options *s = &o->sampler;
    cli_report("temp %g, top-k %" PRIu32 ", top-p %g, min-p %g", (double)s->temp, s->top_k, (double)s->top_p, (double)s->min_p);
    cli_report("repeat-penalty %g, presence-penalty %g, frequency-penalty %g, repeat-last %" PRIu32, (double)s->repeat_penalty,
               (double)s->presence_penalty, (double)s->frequency_penalty, s->repeat_last_tok);
    cli_report("seed %" PRIu64 ", n %" PRIu32 ", thinking %s", s->seed, o->n_predict, thinking[o->thinking]);
}

/* /set NAME VALUE is the flag of that name, with its bounds and messages. */
static cli_exit set(cli_chat_state *c, const char *words)
{
    size_t n = strcspn(words, " \t"), n_blank = strspn(words + n, " \t");
    char *value = strdup(words + n + n_blank);
    cli_options o = c->o;
    cli_exit code = CLI_USAGE;
    if (!value) return cli_fail_memory("the value");
    if (!n) {
        show_settings(&c->o);
        code = CLI_DONE;
    }
    size_t i = 0, n_settings = sizeof settings / sizeof *settings;
    while (n && i < n_settings && (strlen(settings[i].name) != n || memcmp(settings[i].name, words, n) != 0))
        i++;
    if (i == n_settings) {
        cli_error("/set '%.*s': there is no such setting; /set alone lists them", (int)n, words);
    } else if (n && !*value) {
        cli_error("/set %s: the value is missing", settings[i].name);
    } else if (n) {
        char flag[32];
        snprintf(flag, sizeof flag, "%s", settings[i].flag);
        o.greedy = false; /* it would overrule temp; the temperature it stands for is set already */
        code = cli_options_parse(&o, CLI_CHAT, 2, (char *[]){flag, value});
    }
    if (n && code == CLI_DONE) {
        if (o.sampler.seed != c->o.sampler.seed) c->partner.n_answer = 0;
        c->o.sampler = o.sampler;
        c->o.n_predict = o.n_predict;
        c->o.thinking = o.thinking;
        cli_note("%s %s", settings[i].name, value);
    }
    free(value);
    return code;
}

/* ---- the session ---- */

static cli_exit show_stats(cli_chat_state *c, const char *words)
{
    sl_stats e;
    char a[24], b[24];
    (void)words;
    sl_engine_stats(c->partner.m.engine, &e);
    if (c->n_answer) cli_voice_status(&c->partner, &c->last);
    cli_report("conversation  %zu messages, %zu turns; context %u of %u tokens", c->talk.n, cli_talk_turns(&c->talk),
               sl_session_pos_tok(c->partner.m.session), c->partner.ctx_tok);
    cli_report("answers       %" PRIu64 " with %" PRIu64 " tokens; prompts %" PRIu64 " tokens read, %" PRIu64 " kept", c->n_answer,
               c->n_token, c->n_prompt - c->n_kept, c->n_kept);
    cli_report("memory        peak %s of a budget of %s", cli_size_text(e.peak_rss_bytes, a), cli_size_text(e.budget_bytes, b));
    cli_report("reads         %s in all; %.3f s computing, %.3f s waiting for reads", cli_size_text(e.bytes_read, a),
               e.compute_s, e.io_wait_s);
    cli_report("how           %s on %s (%u threads), reads by %s, policy %s, KV %s", e.backend, e.cpu, e.threads, e.io_method,
               e.policy, e.kv);
    return CLI_DONE;
}

static cli_exit quit(cli_chat_state *c, const char *words)
{
    (void)words;
    c->quits = true;
    return CLI_DONE;
}

/* ---- the table ---- */

/* clang-format off */
static const command commands[] = {
    {"/help", "", show_help, "this list"},
    {"/clear", "", clear, "begin a new conversation; the system text stays"},
    {"/drop", "[N]", drop, "forget the oldest N turns (default 1), when the context is full"},
    {"/system", "[TEXT]", set_system, "set the system text; without TEXT there is none"},
    {"/regen", "", answer_again, "answer the last turn again"},
    {"/save", "FILE", save, "write the conversation as JSON"},
    {"/load", "FILE", load, "go on with a saved conversation in place of this one"},
    {"/set", "[NAME VALUE]", set, "change a setting: temp, top-k, top-p, min-p, seed, n, ...; alone: list them"},
    {"/stats", "", show_stats, "what it has cost so far"},
    {"/quit", "", quit, "end; so does Ctrl-D"},
};
/* clang-format on */

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static cli_exit show_help(cli_chat_state *c, const char *words)
{
    (void)c;
    (void)words;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].words);
        cli_report("%-20s %s", left, commands[i].help);
    }
    cli_report("%-20s %s", "Ctrl-C", "stop the answer; twice in a row, end");
    cli_report("%-20s %s", "a line ending in \\", "goes on in the next one; \"\"\" begins and ends a text of many lines");
    return CLI_DONE;
}

/* Cuts blanks off both ends. */
static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        text[--n] = 0;
    return text;
}

cli_exit cli_chat_command(cli_chat_state *c, char *line)
{
    size_t n = strcspn(line, " \t\n");
    char *words = line + n;
    if (*words) *words++ = 0;
    words = trim(words);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, line) != 0) continue;
        if (*words && !*commands[i].words) {
            cli_error("%s '%s': takes no words", line, words);
            return CLI_USAGE;
        }
        return commands[i].run(c, words);
    }
    cli_error("'%s' is no command; /help lists them, and a blank before the slash makes it a text", line);
    return CLI_USAGE;
}
