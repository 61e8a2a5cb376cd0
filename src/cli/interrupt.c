/* Ctrl-C and SIGTERM.  A thread of its own waits for them, so that nothing has to be async-signal-safe: it raises the
 * flag, cancels the session under way, and ends the process by force when that has not come to an end in time (a read
 * that hangs in the kernel, a long parse).  A second Ctrl-C ends it at once.  A conversation is kept through Ctrl-C. */
#include "cli/cli.h"

#include <pthread.h>
#include <signal.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static volatile bool canceled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards session: it is not closed while being canceled */
static sl_session *session;
static bool keeps;                /* guarded by lock, as terminal is */
static struct termios terminal;   /* what a line editor changes */
static bool has_terminal;

/* From Ctrl-C to the end is less than a second in any case. */
static const struct timespec patience = {.tv_nsec = 700 * 1000 * 1000};

typedef enum { GO_ON, END_SOON, END_NOW } verdict;

/* Raises the flag and cancels the session. */
static verdict interrupt(int signal_number)
{
    pthread_mutex_lock(&lock);
    verdict v = !keeps ? END_SOON : signal_number == SIGINT && !cli_interrupted() ? GO_ON : END_NOW;
    __atomic_store_n(&canceled, true, __ATOMIC_RELEASE);
    if (session) sl_session_cancel(session);
    pthread_mutex_unlock(&lock);
    return v;
}

static void *wait_for_signal(void *arg)
{
    const sigset_t *set = arg;
    int signal_number;
    verdict v;
    do {
        if (sigwait(set, &signal_number) != 0) return NULL;
        v = interrupt(signal_number);
    } while (v == GO_ON);
    if (v == END_SOON) sigtimedwait(set, NULL, &patience);
    if (has_terminal) tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    _exit(CLI_INTERRUPTED);
}

void cli_interrupt_start(void)
{
    static sigset_t set;
    pthread_t thread;
    pthread_attr_t attr;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    /* every later thread inherits the mask, so the signals reach the waiting one only */
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0 || pthread_attr_init(&attr) != 0) return;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256 * 1024); /* the default counts 8 MiB towards RLIMIT_AS */
    if (pthread_create(&thread, &attr, wait_for_signal, &set) != 0) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_attr_destroy(&attr);
}

bool cli_interrupted(void)
{
    return __atomic_load_n(&canceled, __ATOMIC_ACQUIRE);
}

const volatile bool *cli_interrupt_flag(void)
{
    return &canceled;
}

void cli_interrupt_watch(sl_session *s)
{
    pthread_mutex_lock(&lock);
    session = s;
    if (s && cli_interrupted()) sl_session_cancel(s);
    pthread_mutex_unlock(&lock);
}

void cli_interrupt_keep(void)
{
    pthread_mutex_lock(&lock);
    keeps = true;
    has_terminal = tcgetattr(STDIN_FILENO, &terminal) == 0;
    pthread_mutex_unlock(&lock);
}

void cli_interrupt_lower(void)
{
    pthread_mutex_lock(&lock);
    __atomic_store_n(&canceled, false, __ATOMIC_RELEASE);
    if (session) sl_session_uncancel(session);
    pthread_mutex_unlock(&lock);
}
