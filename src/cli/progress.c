/* Progress on standard error, for work that takes over a second: percent, amount, rate, time left.  On a terminal one
 * line that is rewritten at most five times a second; elsewhere a line every five seconds. */
#include "cli/cli.h"

#include <unistd.h>

enum { LINE_BYTES = 160 };

static const double first_s = 1.0;    /* silent before */
static const double terminal_s = 0.2; /* between updates */
static const double plain_s = 5.0;

/* The one progress line of this process. */
static struct {
    double begin_s, shown_s;
    bool on_terminal; /* a line stands there without its newline */
} state;

void cli_progress_clear(void)
{
    if (!state.on_terminal) return;
    fputs("\r\033[K", stderr);
    state.on_terminal = false;
}

static bool is_due(double elapsed_s)
{
    static int terminal = -1;
    if (cli_quiet() || elapsed_s < first_s) return false;
    if (terminal < 0) terminal = isatty(STDERR_FILENO);
    double now = cli_now_s(), pause = terminal ? terminal_s : plain_s;
    if (state.shown_s > 0 && now - state.shown_s < pause) return false;
    state.shown_s = now;
    state.on_terminal = terminal;
    return true;
}

static void show(const char *line)
{
    if (state.on_terminal)
        fprintf(stderr, "\r%s\033[K", line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
}

static double fraction_of(uint64_t done, uint64_t total)
{
    return total ? (double)done / (double)total : 0;
}

/* Appends to line; what does not fit is cut. */
static void add(char line[LINE_BYTES], size_t *used, const char *text)
{
    int n = snprintf(line + *used, LINE_BYTES - *used, "%s", text);
    if (n > 0) *used += (size_t)n;
    if (*used >= LINE_BYTES) *used = LINE_BYTES - 1;
}

static void add_bytes(char line[LINE_BYTES], size_t *used, const sl_progress *p)
{
    char done[24], total[24], rate[24], part[96];
    if (!p->done_bytes) return;
    cli_size_text(p->done_bytes, done);
    cli_size_text((uint64_t)((double)p->done_bytes / p->elapsed_s), rate);
    if (p->total_bytes)
        snprintf(part, sizeof part, ", %s of %s, %s/s", done, cli_size_text(p->total_bytes, total), rate);
    else
        snprintf(part, sizeof part, ", %s read, %s/s", done, rate);
    add(line, used, part);
}

static void add_tokens(char line[LINE_BYTES], size_t *used, const sl_progress *p)
{
    char part[96];
    if (!p->total_tok) return;
    snprintf(part, sizeof part, ", %llu of %llu tokens, %.1f tok/s", (unsigned long long)p->done_tok,
             (unsigned long long)p->total_tok, (double)p->done_tok / p->elapsed_s);
    add(line, used, part);
}

static void add_left(char line[LINE_BYTES], size_t *used, double elapsed_s, double fraction)
{
    char part[48];
    if (fraction <= 0 || fraction > 1) return;
    snprintf(part, sizeof part, ", %.0f s left", elapsed_s * (1 - fraction) / fraction);
    add(line, used, part);
}

static void begin_line(char line[LINE_BYTES], size_t *used, const char *what, double elapsed_s, double fraction)
{
    char part[64];
    *used = 0;
    if (fraction > 0)
        snprintf(part, sizeof part, "%s: %.0f %%", what, 100 * fraction);
    else
        snprintf(part, sizeof part, "%s: %.0f s", what, elapsed_s);
    add(line, used, part);
}

void cli_progress(void *user, const sl_progress *p)
{
    static const char *const names[] = {[SL_PHASE_LOAD] = "loading",
                                        [SL_PHASE_PREFILL] = "reading the prompt",
                                        [SL_PHASE_PROBE] = "measuring the drive"};
    char line[LINE_BYTES];
    size_t used;
    (void)user;
    if (!is_due(p->elapsed_s)) return;
    /* a chunk of tokens may sweep the file many times: bytes then say more than tokens, if their sum is known */
    double part = p->total_bytes ? fraction_of(p->done_bytes, p->total_bytes) : fraction_of(p->done_tok, p->total_tok);
    begin_line(line, &used, names[p->phase], p->elapsed_s, part);
    add_tokens(line, &used, p);
    add_bytes(line, &used, p);
    add_left(line, &used, p->elapsed_s, part);
    show(line);
}

void cli_progress_begin(void)
{
    state.begin_s = cli_now_s();
}

void cli_progress_steps(const char *what, const char *unit, uint64_t done, uint64_t total)
{
    char line[LINE_BYTES], part[96];
    size_t used;
    double elapsed = cli_now_s() - state.begin_s, fraction = fraction_of(done, total);
    if (done >= total || !is_due(elapsed)) return;
    begin_line(line, &used, what, elapsed, fraction);
    snprintf(part, sizeof part, ", %llu of %llu %s", (unsigned long long)done, (unsigned long long)total, unit);
    add(line, &used, part);
    add_left(line, &used, elapsed, fraction);
    show(line);
}
