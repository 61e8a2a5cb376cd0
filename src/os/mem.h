/* Big blocks of memory: anonymous mappings, 2 MiB aligned, in huge pages where the system gives them (the same direct
 * reads run several times faster into huge pages; design.md section 4). */
#ifndef SL_MEM_H
#define SL_MEM_H

#include "base/ledger.h"

typedef struct {
    uint8_t *ptr;
    size_t bytes;        /* asked for */
    size_t mapped_bytes; /* with the guard page behind */
    void *map;           /* what munmap needs */
    struct sl_filler *filler; /* whose pages still come; NULL: no thread makes them */
    sl_ledger *ledger;
    sl_mem_kind kind;
} sl_block;

/* HUGE: huge pages wanted, and all resident at once.  LAZY, or neither: small pages that come when touched, so resident
 * is what was touched or committed (a KV block grows in many places; huge pages would make 2 MiB resident in each).
 * Both: huge pages that come when touched.  HUGE and BEHIND: a thread makes them resident from the front on, while the block
 * is in use already. */
enum { SL_BLOCK_HUGE = 1, SL_BLOCK_LAZY = 2, SL_BLOCK_BEHIND = 4 };

/* Enters bytes in the ledger (NULL: none) and maps them, zeroed.  bytes is rounded up to 4 KiB, not to 2 MiB: the tail
 * after the last whole huge page uses small ones, so that nothing beyond bytes is ever resident.  An inaccessible guard
 * page follows.  0 bytes give an empty block.
 * errors  BUDGET, NOMEM; both name what */
sl_status sl_block_open(sl_block *b, sl_ledger *ledger, sl_mem_kind kind, uint64_t bytes, unsigned flags,
                        const char *what, sl_err *err);
/* Populates [from, from + bytes) of a LAZY block now, so that later touches do not fault. */
sl_status sl_block_commit(sl_block *b, uint64_t from, uint64_t bytes, sl_err *err);
/* Waits until a BEHIND block is resident. */
void sl_block_settle(sl_block *b);
/* True when at least half of what is resident of the block lies in huge pages (smaps). */
bool sl_block_is_huge(const sl_block *b);
void sl_block_close(sl_block *b); /* takes a zeroed struct */

#endif
