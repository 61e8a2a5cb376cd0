/* The ledger: every big allocation is entered here before the memory is taken, and refused beyond the budget. */
#include "base/ledger.h"

#include <assert.h>

static const char *const kind_names[SL_MEM_KINDS] = {
    [SL_MEM_BASE] = "program",
    [SL_MEM_TOKENIZER] = "tokenizer",
    [SL_MEM_ALWAYS] = "small weights",
    [SL_MEM_RESIDENT] = "resident weights",
    [SL_MEM_WINDOW] = "windows",
    [SL_MEM_EXPERTS] = "expert slots",
    [SL_MEM_KV] = "KV cache",
    [SL_MEM_SCRATCH] = "scratch",
    [SL_MEM_GRAMMAR] = "constrained output",
};

const char *sl_mem_kind_name(sl_mem_kind kind)
{
    return (unsigned)kind < SL_MEM_KINDS ? kind_names[kind] : "unknown";
}

void sl_ledger_init(sl_ledger *l, uint64_t budget_bytes)
{
    *l = (sl_ledger){.budget_bytes = budget_bytes};
}

sl_status sl_ledger_take(sl_ledger *l, sl_mem_kind kind, uint64_t bytes, sl_err *err)
{
    char asked[24], used[24], budget[24];
    uint64_t limit = l->budget_bytes ? l->budget_bytes : UINT64_MAX;
    assert((unsigned)kind < SL_MEM_KINDS);
    if (l->total > limit || bytes > limit - l->total)
        return sl_fail(err, SL_ERR_BUDGET,
                       "%s: %s (%llu bytes) more do not fit, %s of the memory budget of %s are used", kind_names[kind],
                       sl_size_text(bytes, asked), (unsigned long long)bytes, sl_size_text(l->total, used),
                       sl_size_text(l->budget_bytes, budget));
    l->used[kind] += bytes;
    l->total += bytes;
    if (l->total > l->peak) l->peak = l->total;
    return SL_OK;
}

void sl_ledger_give(sl_ledger *l, sl_mem_kind kind, uint64_t bytes)
{
    assert((unsigned)kind < SL_MEM_KINDS && l->used[kind] >= bytes && l->total >= bytes);
    l->used[kind] -= bytes;
    l->total -= bytes;
}
