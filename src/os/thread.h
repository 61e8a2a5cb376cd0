/* Private to the room: threads of our own. */
#ifndef SL_THREAD_H
#define SL_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts fn(arg) with every signal blocked: signals belong to the application's threads.  0, or an error number. */
int sl_thread_start(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *arg);

#endif
