/* The ledger: which part of the budget is used for what.  Every allocation above 64 KiB that lives longer than a
 * call is entered here, before the memory is taken; entering more than the budget has left is refused. */
#ifndef SL_LEDGER_H
#define SL_LEDGER_H

#include "base/base.h"

typedef enum {
    SL_MEM_BASE,      /* program, libraries, stacks, tensor directory, small objects: an estimate entered once */
    SL_MEM_TOKENIZER,
    SL_MEM_ALWAYS,    /* norms, biases, rope tables */
    SL_MEM_RESIDENT,  /* pinned weights */
    SL_MEM_WINDOW,    /* windows and staging */
    SL_MEM_EXPERTS,   /* slots of routed experts */
    SL_MEM_KV,
    SL_MEM_SCRATCH,   /* activations, logits, quantised activations */
    SL_MEM_GRAMMAR,   /* constrained output: the vocabulary as a tree, grammars, positions in them */
    SL_MEM_KINDS
} sl_mem_kind;

typedef struct sl_ledger {
    uint64_t budget_bytes; /* 0: no bound */
    uint64_t used[SL_MEM_KINDS];
    uint64_t total, peak;
} sl_ledger; /* one thread at a time: entered while loading and opening sessions, never in the token loop */

void sl_ledger_init(sl_ledger *l, uint64_t budget_bytes);
/* errors  BUDGET: names the kind, the bytes, what is used and the budget */
sl_status sl_ledger_take(sl_ledger *l, sl_mem_kind kind, uint64_t bytes, sl_err *err);
void sl_ledger_give(sl_ledger *l, sl_mem_kind kind, uint64_t bytes);
const char *sl_mem_kind_name(sl_mem_kind kind);

#endif
