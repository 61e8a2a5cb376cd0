/* Private to the room: how a block's pages come. */
#ifndef SL_MEM_INT_H
#define SL_MEM_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes [p, p + bytes) resident and writable without changing what it holds; false: errno says why not. */
bool sl_populate(uint8_t *p, size_t bytes);

/* A thread that populates a range from its front on. */
typedef struct sl_filler sl_filler;

sl_filler *sl_filler_start(uint8_t *p, size_t bytes); /* without a thread to be had, at once; NULL: no memory */
/* Both end it and take NULL. */
void sl_filler_wait(sl_filler *f); /* when all is resident */
void sl_filler_stop(sl_filler *f); /* after the step at work */

#endif
