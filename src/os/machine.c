/* What the machine is and has: clock, CPU levels, processors, memory to spare, memory in use. */
#include "os/os_int.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

double sl_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- CPU levels ---- */

#if defined(__x86_64__)

/* XCR0: which register files the operating system saves; without its consent the instructions fault. */
static uint32_t os_saves(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static bool bits_set(uint32_t v, uint32_t bits)
{
    return (v & bits) == bits;
}

/* Bit numbers: Intel SDM volume 2, CPUID; volume 1, 13.3 for XCR0. */
static sl_cpu_level best_level(void)
{
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29 }; /* leaf 1, ecx */
    enum { AVX2 = 1 << 5, F512 = 1 << 16, DQ = 1 << 17, BW = 1 << 30 };       /* leaf 7, ebx */
    const uint32_t vl = 1u << 31, vnni = 1u << 11;                            /* leaf 7, ebx; ecx */
    const uint32_t ymm = 0x6, zmm = 0xE6;
    uint32_t a, b, c, d, b7, c7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bits_set(c, OSXSAVE | AVX | FMA | F16C)) return SL_CPU_PORTABLE;
    if (!bits_set(os_saves(), ymm) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d) || !bits_set(b7, AVX2))
        return SL_CPU_PORTABLE;
    if (!bits_set(os_saves(), zmm) || !bits_set(b7, F512 | DQ | BW) || !bits_set(b7, vl) || !bits_set(c7, vnni))
        return SL_CPU_AVX2;
    return SL_CPU_AVX512;
}

#else

static sl_cpu_level best_level(void)
{
    return SL_CPU_PORTABLE;
}

#endif

bool sl_cpu_has(sl_cpu_level level)
{
    return level <= SL_CPU_PORTABLE || level <= best_level();
}

const char *sl_cpu_level_name(sl_cpu_level level)
{
    static const char *const names[] = {"auto", "portable", "avx2", "avx512"};
    return (unsigned)level < sizeof names / sizeof names[0] ? names[level] : "unknown";
}

/* ---- processors ---- */

/* CPUs of the affinity mask; the mask grows until the kernel's own fits. */
static uint32_t affinity_count(void)
{
    for (size_t n_cpu = 1024; n_cpu <= (size_t)1 << 16; n_cpu *= 2) {
        size_t bytes = CPU_ALLOC_SIZE(n_cpu);
        cpu_set_t *set = sl_malloc(bytes);
        if (!set) break;
        int n = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        sl_free(set);
        if (n > 0) return (uint32_t)n;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

uint32_t sl_cpu_count_at(const char *root, uint32_t n_affinity)
{
    uint32_t quota = sl_cgroup_cpus(root ? root : "");
    uint32_t n = quota < n_affinity ? quota : n_affinity;
    return n ? n : 1;
}

uint32_t sl_cpu_count(void)
{
    return sl_cpu_count_at(NULL, affinity_count());
}

/* ---- memory ---- */

static uint64_t available_bytes(const char *root)
{
    uint64_t kib;
    char *text = sl_text_at(root, "/proc/meminfo");
    bool ok = text && sl_text_number(text, "MemAvailable:", &kib);
    sl_free(text);
    return ok && kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
}

/* RLIMIT_AS minus the size of the address space, both from proc so that a made-up tree can say them. */
static uint64_t address_space_left(const char *root)
{
    uint64_t limit, pages;
    char *limits = sl_text_at(root, "/proc/self/limits");
    bool bounded = limits && sl_text_number(limits, "Max address space", &limit); /* "unlimited" is no number */
    sl_free(limits);
    char *statm = bounded ? sl_text_at(root, "/proc/self/statm") : NULL;
    bool known = statm && sl_text_number(statm, "", &pages);
    sl_free(statm);
    if (!bounded) return UINT64_MAX;
    uint64_t used = known ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    return limit > used ? limit - used : 0;
}

uint64_t sl_mem_spare_bytes_at(const char *root)
{
    const char *r = root ? root : "";
    uint64_t spare = sl_min_u64(available_bytes(r), sl_cgroup_spare_bytes(r));
    spare = sl_min_u64(spare, address_space_left(r));
    if (spare != UINT64_MAX || root) return spare;
    return (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE); /* no proc file system */
}

uint64_t sl_mem_spare_bytes(void)
{
    return sl_mem_spare_bytes_at(NULL);
}

/* A "kB" line of /proc/self/status; allocates nothing, so that it may be asked between tokens. */
static bool status_bytes(const char *name, uint64_t *out)
{
    char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return false;
    text[n] = 0;
    uint64_t kib;
    if (!sl_text_number(text, name, &kib)) return false;
    *out = kib * 1024;
    return true;
}

uint64_t sl_mem_rss_bytes(void)
{
    uint64_t v;
    return status_bytes("VmRSS:", &v) ? v : 0;
}

uint64_t sl_mem_peak_rss_bytes(void)
{
    uint64_t v;
    struct rusage u;
    if (status_bytes("VmHWM:", &v)) return v;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}
