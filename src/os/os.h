/* Room os: what the machine is and has.  Files are in io.h, big memory in mem.h, threads in pool.h. */
#ifndef SL_OS_H
#define SL_OS_H

#include "base/base.h"

double sl_now_s(void); /* monotonic seconds */

/* CPU levels this process may use: AVX2 needs AVX2+FMA+F16C, AVX512 needs F, BW, VL, DQ and VNNI, and the OS's consent.
 */
bool sl_cpu_has(sl_cpu_level level);
const char *sl_cpu_level_name(sl_cpu_level level);

/* Threads worth computing with: min(affinity, floor(CPU quota of all ancestor cgroups v1 and v2)), at least 1. */
uint32_t sl_cpu_count(void);

/* Memory this process could still take: the least of MemAvailable, every ancestor cgroup's limit minus its usage
 * (v1 and v2; inactive file cache counts as free), RLIMIT_AS minus the address space in use. */
uint64_t sl_mem_spare_bytes(void);
uint64_t sl_mem_rss_bytes(void);      /* VmRSS now */
uint64_t sl_mem_peak_rss_bytes(void); /* VmHWM */

/* For tests: the same arithmetic over a made-up tree (root stands for "/", NULL is the real one). */
uint64_t sl_mem_spare_bytes_at(const char *root);
uint32_t sl_cpu_count_at(const char *root, uint32_t n_affinity);

#endif
