/* See chat_voice.h. */
#include "cli/chat_voice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char dim[] = "\033[2m", plain[] = "\033[0m";

void cli_voice_init(cli_voice *v, bool show_thinking)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool wants_color = !(no_color && *no_color) && term && *term && strcmp(term, "dumb") != 0;
    *v = (cli_voice){.is_terminal = isatty(STDOUT_FILENO)};
    v->is_dimmed = v->is_terminal && wants_color;
    v->shows_thoughts = v->is_terminal || show_thinking;
}

static void put(cli_voice *v, const char *text, size_t n_bytes)
{
    if (!n_bytes) return;
    cli_write(text, n_bytes);
    v->at_line_start = text[n_bytes - 1] == '\n';
}

static void put_text(cli_voice *v, const char *text)
{
    put(v, text, strlen(text));
}

/* Length of the control character at text[0], 0: it is none.  Those of two bytes are U+0080 to U+009F. */
static size_t control_bytes(const char *text, size_t n_bytes)
{
    unsigned char c = (unsigned char)text[0], next = n_bytes > 1 ? (unsigned char)text[1] : 0;
    if (c == '\n' || c == '\t') return 0;
    if (c < 0x20 || c == 0x7f) return 1;
    return c == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

/* On a terminal control characters become U+FFFD: what a model writes moves no cursor and sets no title. */
static void put_clean(cli_voice *v, const char *text, size_t n_bytes)
{
    size_t from = 0;
    for (size_t i = 0; v->is_terminal && i < n_bytes;) {
        size_t n = control_bytes(text + i, n_bytes - i);
        if (n) {
            put(v, text + from, i - from);
            put_text(v, "\xef\xbf\xbd");
            from = i + n;
        }
        i += n ? n : 1;
    }
    put(v, text + from, n_bytes - from);
}

static void end_thought(cli_voice *v)
{
    if (v->is_dimmed) cli_write(plain, sizeof plain - 1);
    if (!v->at_line_start) put_text(v, "\n");
    put_text(v, v->is_dimmed ? "\n" : "[answer]\n");
}

static void begin_part(cli_voice *v, cli_voice_part part)
{
    if (v->part == part) return;
    if (v->part == CLI_VOICE_THOUGHT) end_thought(v);
    if (part == CLI_VOICE_THOUGHT) {
        if (!v->at_line_start) put_text(v, "\n");
        if (v->is_dimmed)
            cli_write(dim, sizeof dim - 1);
        else
            put_text(v, "[thinking]\n");
    }
    v->part = part;
}

void cli_voice_begin(cli_voice *v)
{
    v->part = CLI_VOICE_NOTHING;
    v->at_line_start = true;
}

void cli_voice_event(void *voice, const sl_reply_event *event)
{
    cli_voice *v = voice;
    bool is_thought = event->kind == SL_REPLY_REASONING;
    if ((!is_thought && event->kind != SL_REPLY_CONTENT) || (is_thought && !v->shows_thoughts)) return;
    begin_part(v, is_thought ? CLI_VOICE_THOUGHT : CLI_VOICE_ANSWER);
    put_clean(v, event->text, event->n_bytes);
}

void cli_voice_end(cli_voice *v)
{
    if (v->part == CLI_VOICE_THOUGHT && v->is_dimmed) cli_write(plain, sizeof plain - 1);
    if (v->part == CLI_VOICE_NOTHING || !v->at_line_start) put_text(v, "\n");
    v->part = CLI_VOICE_NOTHING;
}

static double rate(size_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

void cli_voice_status(const cli_partner *p, const cli_turn *turn)
{
    sl_stats s;
    char hits[64] = "", memory[24];
    size_t n_new = turn->n_prompt - turn->n_kept;
    sl_engine_stats(p->m.engine, &s);
    if (turn->misses)
        snprintf(hits, sizeof hits, ", %.0f %% of %s found there", 100 * rate(turn->hits, (double)(turn->hits + turn->misses)),
                 s.experts.slots ? "experts" : "weights");
    cli_note("%zu tokens, %.1f tok/s; prompt %zu new, %zu kept, %.1f tok/s; memory %s%s; context %u of %u", turn->n_token,
             rate(turn->n_step, turn->decode_s), n_new, turn->n_kept, rate(n_new, turn->prefill_s),
             cli_size_text(s.peak_rss_bytes, memory), hits, sl_session_pos_tok(p->m.session), p->ctx_tok);
}
