/* sluice chat: a conversation, a turn at a time, from a terminal or a pipe. */
#include "cli/chat.h"

#include <string.h>

/* ---- a turn ---- */

static void count(cli_chat_state *c)
{
    c->n_answer++;
    c->n_prompt += c->last.n_prompt;
    c->n_kept += c->last.n_kept;
    c->n_token += c->last.n_token;
}

static void tell_end(const cli_chat_state *c)
{
    const char *finish = c->last.finish;
    if (strcmp(finish, "interrupted") == 0)
        cli_note(c->last.n_token ? "the answer was stopped; what there is of it counts" : "stopped before the answer began");
    else if (strcmp(finish, "length") == 0)
        cli_note("the answer ends at %u tokens; /set n N allows another number", c->o.n_predict);
    else if (strcmp(finish, "context") == 0)
        cli_note("the context of %u tokens is full: /clear begins a new conversation, /drop N forgets its oldest N turns, and "
                 "--ctx sets a larger context at the start", c->partner.ctx_tok);
}

cli_exit cli_chat_answer(cli_chat_state *c)
{
    const char *message = NULL;
    size_t n_bytes = 0;
    cli_turn turn;
    if (cli_line_is_terminal(c->line)) cli_interrupt_lower();
    cli_voice_begin(&c->voice);
    cli_exit code = cli_partner_answer(&c->partner, &c->o, &c->talk, cli_voice_event, &c->voice, &turn, &message, &n_bytes);
    if (message) cli_voice_end(&c->voice);
    if (!turn.finish) return code; /* refused before anything was read */
    c->last = turn;
    count(c);
    if (message) {
        cli_exit kept = cli_talk_add_json(&c->talk, CLI_ROLE_ASSISTANT, message, n_bytes);
        if (code == CLI_DONE) code = kept;
    }
    tell_end(c);
    if (message) cli_voice_status(&c->partner, &c->last);
    c->n_interrupt = strcmp(turn.finish, "interrupted") == 0;
    return code;
}

/* A turn that got no answer is not part of the conversation. */
static cli_exit say(cli_chat_state *c)
{
    size_t n = c->talk.n;
    cli_exit code = cli_talk_add(&c->talk, CLI_ROLE_USER, c->entry.text, c->entry.n_bytes);
    if (code == CLI_DONE) code = cli_chat_answer(c);
    if (c->talk.n == n + 1) cli_talk_cut(&c->talk, n);
    return code;
}

/* ---- the loop ---- */

/* Ctrl-C in the line editor: drops what was typed; a second one in a row ends the conversation. */
static void on_interrupt(cli_chat_state *c)
{
    bool is_empty = !c->entry.n_bytes;
    c->quits = is_empty && c->n_interrupt;
    c->n_interrupt = 1;
    if (is_empty && !c->quits) cli_note("Ctrl-C again, or Ctrl-D, ends the conversation");
}

static bool is_blank(const cli_entry *e)
{
    return strspn(e->text, " \t\r\n") == e->n_bytes;
}

/* One entry.  From a pipe the first failure ends the conversation: what follows was meant for another one. */
static cli_exit take_entry(cli_chat_state *c)
{
    cli_exit code = CLI_DONE;
    switch (cli_entry_read(&c->entry, c->line)) {
    case CLI_LINE_END:
        c->quits = true;
        return CLI_DONE;
    case CLI_LINE_FAILED:
        return CLI_FAILED;
    case CLI_LINE_INTERRUPTED:
        on_interrupt(c);
        return CLI_DONE;
    case CLI_LINE_READ:
        break;
    }
    c->n_interrupt = 0;
    if (is_blank(&c->entry)) return CLI_DONE;
    code = c->entry.is_command ? cli_chat_command(c, c->entry.text) : say(c);
    if (!cli_line_is_terminal(c->line)) return cli_interrupted() ? CLI_INTERRUPTED : code;
    return CLI_DONE;
}

static cli_exit talk(cli_chat_state *c)
{
    sl_model_info info;
    sl_engine_info(c->partner.m.engine, &info);
    if (cli_line_is_terminal(c->line)) {
        cli_interrupt_keep();
        cli_note("%s, %u tokens of context; /help lists the commands, Ctrl-D ends", info.name[0] ? info.name : c->o.model,
                 c->partner.ctx_tok);
    }
    cli_exit code = c->o.system ? cli_talk_set_system(&c->talk, c->o.system) : CLI_DONE;
    while (code == CLI_DONE && !c->quits)
        code = take_entry(c);
    return code;
}

cli_exit cli_chat(const cli_options *o)
{
    cli_chat_state c = {.o = *o};
    cli_exit code = cli_partner_open(&c.partner, &c.o);
    cli_voice_init(&c.voice, c.o.show_thinking);
    if (code == CLI_DONE) code = cli_line_open(&c.line, !c.o.no_history);
    if (code == CLI_DONE) code = talk(&c);
    cli_entry_free(&c.entry);
    cli_line_close(c.line);
    cli_talk_free(&c.talk);
    cli_partner_close(&c.partner);
    return code;
}
