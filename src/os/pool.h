/* A persistent pool of compute threads.  The caller is one of them; the others spin for a short while after a job and
 * then sleep, so that the steps of one token cost about a microsecond each and an idle engine costs nothing. */
#ifndef SL_POOL_H
#define SL_POOL_H

#include "base/base.h"

typedef struct sl_pool sl_pool;
typedef void (*sl_pool_fn)(void *arg, uint32_t i_share, uint32_t n_share);

sl_status sl_pool_open(sl_pool **out, uint32_t n_thread, sl_err *err);
void sl_pool_close(sl_pool *p);
uint32_t sl_pool_count(const sl_pool *p);
/* Runs fn once for each of sl_pool_count() shares and returns when all are done.  Shares run at the same time when the
 * threads get their cores; a share that no thread has begun when the caller is free is done by the caller.  No two
 * shares with one number run at once, so a share may own scratch.  One caller at a time. */
void sl_pool_run(sl_pool *p, sl_pool_fn fn, void *arg);

#endif
