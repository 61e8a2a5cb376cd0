/* Big blocks: anonymous mappings with a guard page behind, 2 MiB aligned when they hold a whole huge page.
 *
 * Which pages a block gets:
 *   HUGE         whole 2 MiB parts from transparent huge pages, the tail in small ones, all resident at once.
 *   LAZY, or 0   small pages only.  A KV block is filled step by step in many places (one run of rows per layer); with
 *                huge pages the first row of each layer would make 2 MiB resident.  So resident = what was touched or
 *                committed, to the page, and khugepaged leaves the block alone.
 *   HUGE | LAZY  huge pages that come when touched: resident may exceed what was touched by up to 2 MiB per place.
 *   HUGE | BEHIND  as HUGE, but a thread makes them resident (mem_fill.c).
 *
 * The guard page catches overruns and keeps the kernel from merging neighbours, so that smaps speaks of one block.
 * Left out: explicit huge pages (hugetlbfs), which need an administrator. */
#include "os/mem.h"

#include "os/mem_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define SIZE_LIMIT ((uint64_t)1 << 46) /* a quarter of the address space of x86-64 */

static size_t page_bytes(void)
{
    long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (size_t)n : 4096;
}

/* Maps bytes (a multiple of the page) and a guard page, aligned to 2 MiB when asked and possible.  NULL: errno says. */
static uint8_t *map_guarded(size_t bytes, bool align)
{
    size_t page = page_bytes(), total = bytes + page, slack = align ? HUGE_BYTES : 0;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *m = mmap(NULL, total + slack, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (m == MAP_FAILED && slack) { /* an address space limit may have room for the block alone */
        slack = 0;
        m = mmap(NULL, total, PROT_READ | PROT_WRITE, flags, -1, 0);
    }
    if (m == MAP_FAILED) return NULL;
    size_t head = slack ? (HUGE_BYTES - (uintptr_t)m % HUGE_BYTES) % HUGE_BYTES : 0;
    if (head) munmap(m, head);
    if (slack > head) munmap(m + head + total, slack - head);
    mprotect(m + head + bytes, page, PROT_NONE);
    return m + head;
}

/* Advice may be refused (no THP in the kernel): then pages are small, which sl_block_is_huge() reports. */
static void advise_pages(uint8_t *p, size_t bytes, bool huge)
{
    size_t whole = huge && (uintptr_t)p % HUGE_BYTES == 0 ? bytes / HUGE_BYTES * HUGE_BYTES : 0;
    if (whole) madvise(p, whole, MADV_HUGEPAGE);
    if (whole < bytes) madvise(p + whole, bytes - whole, MADV_NOHUGEPAGE);
}

/* Huge pages at once, or the first of them at once and the others behind. */
static bool make_resident(sl_block *b, size_t bytes, unsigned flags)
{
    if (!(flags & SL_BLOCK_HUGE) || (flags & SL_BLOCK_LAZY)) return true;
    size_t now = (flags & SL_BLOCK_BEHIND) && bytes > HUGE_BYTES ? HUGE_BYTES : bytes;
    if (!sl_populate(b->ptr, now)) return false;
    if (now < bytes) b->filler = sl_filler_start(b->ptr + now, bytes - now);
    return now == bytes || b->filler;
}

static sl_status no_memory(sl_err *err, const char *what, uint64_t bytes, const char *reason)
{
    char size[24];
    return sl_fail(err, SL_ERR_NOMEM, "%s: no memory for %s (%" PRIu64 " bytes): %s", what, sl_size_text(bytes, size),
                   bytes, reason);
}

sl_status sl_block_open(sl_block *b, sl_ledger *ledger, sl_mem_kind kind, uint64_t bytes, unsigned flags,
                        const char *what, sl_err *err)
{
    *b = (sl_block){0};
    if (bytes == 0) return SL_OK;
    if (bytes > SIZE_LIMIT) return no_memory(err, what, bytes, "more than an address space holds");
    size_t rounded = sl_round_up(bytes, page_bytes());
    if (ledger) {
        sl_err why = {0};
        if (sl_ledger_take(ledger, kind, rounded, &why) != SL_OK)
            return sl_fail(err, why.code, "%s: %s", what, why.msg);
    }
    *b = (sl_block){.bytes = bytes, .ledger = ledger, .kind = kind};
    bool huge = (flags & SL_BLOCK_HUGE) && rounded >= HUGE_BYTES;
    errno = ENOMEM;
    b->ptr = sl_alloc_should_fail() ? NULL : map_guarded(rounded, huge);
    if (b->ptr) {
        b->map = b->ptr;
        b->mapped_bytes = rounded + page_bytes();
        advise_pages(b->ptr, rounded, huge);
        if (make_resident(b, rounded, flags)) return SL_OK;
    }
    int why = errno;
    sl_block_close(b);
    return no_memory(err, what, bytes, strerrordesc_np(why));
}

sl_status sl_block_commit(sl_block *b, uint64_t from, uint64_t bytes, sl_err *err)
{
    if (from > b->bytes || bytes > b->bytes - from)
        return sl_fail(err, SL_ERR_ARG, "commit of %" PRIu64 " bytes at %" PRIu64 " lies outside a block of %zu bytes",
                       bytes, from, b->bytes);
    if (!bytes) return SL_OK;
    uint64_t first = sl_round_down(from, page_bytes()), end = sl_round_up(from + bytes, page_bytes());
    if (sl_alloc_should_fail() || !sl_populate(b->ptr + first, end - first))
        return no_memory(err, sl_mem_kind_name(b->kind), bytes, "the system has no more pages");
    return SL_OK;
}

void sl_block_settle(sl_block *b)
{
    sl_filler_wait(b->filler);
    b->filler = NULL;
}

typedef struct {
    uint64_t huge_kib, resident_kib;
} page_sums;

/* Of the mappings that overlap [from, to). */
static page_sums pages_between(FILE *smaps, uintptr_t from, uintptr_t to)
{
    char line[512];
    bool inside = false;
    page_sums sum = {0};
    while (fgets(line, sizeof line, smaps)) {
        uintptr_t a, z;
        unsigned long long kib;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &a, &z) == 2)
            inside = a < to && z > from;
        else if (inside && sscanf(line, "AnonHugePages: %llu kB", &kib) == 1)
            sum.huge_kib += kib;
        else if (inside && sscanf(line, "Rss: %llu kB", &kib) == 1)
            sum.resident_kib += kib;
    }
    return sum;
}

bool sl_block_is_huge(const sl_block *b)
{
    FILE *smaps = b->ptr ? fopen("/proc/self/smaps", "re") : NULL;
    if (!smaps) return false;
    uintptr_t from = (uintptr_t)b->ptr;
    page_sums sum = pages_between(smaps, from, from + b->bytes);
    fclose(smaps);
    return sum.huge_kib >= sum.resident_kib / 2 && sum.huge_kib > 0;
}

void sl_block_close(sl_block *b)
{
    if (!b) return;
    sl_filler_stop(b->filler);
    if (b->map) munmap(b->map, b->mapped_bytes);
    if (b->ledger) sl_ledger_give(b->ledger, b->kind, sl_round_up(b->bytes, page_bytes()));
    *b = (sl_block){0};
}
