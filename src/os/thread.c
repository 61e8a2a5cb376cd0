#include "os/thread.h"

#include <signal.h>

int sl_thread_start(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc = pthread_attr_init(&attr);
    if (rc) return rc;
    pthread_attr_setstacksize(&attr, stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(out, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}
