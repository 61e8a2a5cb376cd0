/* Machine, memory blocks and plain files.  Control groups are read from made-up trees. */
#include "os/io.h"
#include "os/mem.h"
#include "os/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static char root[64]; /* a fresh folder per test */

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        mkdir(full, 0755);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/sluice-os-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)type, (void)f;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- control groups ---- */

static const char mounts_v2[] = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
                                "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

static void nothing_known_is_no_limit(void **state)
{
    (void)state;
    assert_true(sl_mem_spare_bytes_at(root) == UINT64_MAX);
    assert_int_equal(sl_cpu_count_at(root, 12), 12);
    assert_int_equal(sl_cpu_count_at(root, 0), 1);
    put("/proc/self/cgroup", "garbage\n0::\n:::\n");
    put("/proc/self/mountinfo", "1\n2 3 4\n - cgroup2\n5 - cgroup2 x y\n - \n");
    assert_true(sl_mem_spare_bytes_at(root) == UINT64_MAX);
    assert_int_equal(sl_cpu_count_at(root, 3), 3);
}

static void available_memory_bounds(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:          100000 kB\nMemAvailable:    2000000 kB\n");
    assert_true(sl_mem_spare_bytes_at(root) == (uint64_t)2000000 * 1024);
}

static void address_space_limit_bounds(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemAvailable:    9000000 kB\n");
    put("/proc/self/statm", "1000 500 100 20 0 300 0\n");
    put("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                             "Max stack size            8388608              unlimited            bytes     \n"
                             "Max address space         1073741824           unlimited            bytes     \n");
    assert_true(sl_mem_spare_bytes_at(root) == GIB - 1000 * (uint64_t)sysconf(_SC_PAGESIZE));
    put("/proc/self/limits", "Max address space         unlimited            unlimited            bytes     \n");
    assert_true(sl_mem_spare_bytes_at(root) == (uint64_t)9000000 * 1024);
    put("/proc/self/limits", "Max address space         4096                 unlimited            bytes     \n");
    assert_true(sl_mem_spare_bytes_at(root) == 0);
}

static void v2_takes_the_tightest_ancestor(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemAvailable:    99000000 kB\n");
    put("/proc/self/mountinfo", mounts_v2);
    put("/proc/self/cgroup", "0::/user.slice/job.scope\n");
    put("/sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
    assert_true(sl_mem_spare_bytes_at(root) == (uint64_t)99000000 * 1024);
    assert_int_equal(sl_cpu_count_at(root, 16), 16);

    put("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n"); /* the parent */
    put("/sys/fs/cgroup/user.slice/memory.current", "3221225472\n");
    put("/sys/fs/cgroup/user.slice/memory.stat",
        "anon 1\nfile 7\nworkingset_refault_file 9\ninactive_file 1073741824\nactive_file 5\n");
    put("/sys/fs/cgroup/user.slice/cpu.max", "450000 100000\n");
    assert_true(sl_mem_spare_bytes_at(root) == 2 * GIB); /* 4 - 3 + 1 of cache */
    assert_int_equal(sl_cpu_count_at(root, 16), 4);
    assert_int_equal(sl_cpu_count_at(root, 3), 3);

    put("/sys/fs/cgroup/user.slice/job.scope/memory.high", "1073741824\n"); /* the group itself, by memory.high */
    put("/sys/fs/cgroup/user.slice/job.scope/memory.current", "1048576\n");
    put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "150000 100000\n");
    assert_true(sl_mem_spare_bytes_at(root) == GIB - MIB);
    assert_int_equal(sl_cpu_count_at(root, 16), 1); /* floor of 1.5 */

    put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "20000 100000\n");
    assert_int_equal(sl_cpu_count_at(root, 16), 1); /* a fifth is still one thread */
    put("/sys/fs/cgroup/user.slice/job.scope/memory.current", "99999999999\n");
    assert_true(sl_mem_spare_bytes_at(root) == 0); /* over the limit already */
}

static void v2_more_cache_than_usage_is_not_negative(void **state)
{
    (void)state;
    put("/proc/self/mountinfo", mounts_v2);
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "1000000\n");
    put("/sys/fs/cgroup/memory.current", "500000\n");
    put("/sys/fs/cgroup/memory.stat", "inactive_file 900000\n");
    assert_true(sl_mem_spare_bytes_at(root) == 1000000);
    put("/sys/fs/cgroup/memory.max", "0\n");
    assert_true(sl_mem_spare_bytes_at(root) == 0);
}

static const char mounts_v1[] = "30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                                "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                                "33 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                                "34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

static void v1_takes_the_tightest_ancestor(void **state)
{
    (void)state;
    put("/proc/self/mountinfo", mounts_v1);
    put("/proc/self/cgroup", "12:cpuset:/elsewhere\n5:cpu,cpuacct:/a/b\n4:memory:/a/b\n1:name=systemd:/x\n0::/x\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    assert_true(sl_mem_spare_bytes_at(root) == UINT64_MAX);
    assert_int_equal(sl_cpu_count_at(root, 7), 7);

    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1610612736\n");
    put("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 536870912\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "1\n"); /* not the cpu hierarchy */
    assert_true(sl_mem_spare_bytes_at(root) == GIB);
    assert_int_equal(sl_cpu_count_at(root, 7), 2);

    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n"); /* the root of the hierarchy */
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(sl_cpu_count_at(root, 7), 1);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "0\n"); /* nonsense is not divided by */
    assert_int_equal(sl_cpu_count_at(root, 7), 2);
}

static void in_a_container_the_mount_is_the_group(void **state)
{
    (void)state;
    put("/proc/self/mountinfo", mounts_v2);
    put("/proc/self/cgroup", "0::/docker/0123456789abcdef\n"); /* not below the mount */
    put("/sys/fs/cgroup/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
    assert_true(sl_mem_spare_bytes_at(root) == GIB);
    assert_int_equal(sl_cpu_count_at(root, 64), 3);
    put("/proc/self/cgroup", "0::/../other\n"); /* a group outside the namespace */
    assert_true(sl_mem_spare_bytes_at(root) == GIB);
}

static void a_bind_mounted_part_is_found(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
    put("/proc/self/mountinfo", "40 30 0:27 /docker/other /mnt/wrong rw - cgroup cgroup rw,memory\n"
                                "41 30 0:27 /docker/abc /mnt/with\\040blank rw - cgroup cgroup rw,memory\n");
    put("/mnt/wrong/memory.limit_in_bytes", "1\n");
    put("/mnt/with blank/inner/memory.limit_in_bytes", "3000000\n");
    put("/mnt/with blank/inner/memory.usage_in_bytes", "1000000\n");
    put("/mnt/with blank/memory.limit_in_bytes", "2500000\n");
    put("/mnt/with blank/memory.usage_in_bytes", "1000000\n");
    assert_true(sl_mem_spare_bytes_at(root) == 1500000);
}

static void this_machine_answers(void **state)
{
    (void)state;
    uint64_t spare = sl_mem_spare_bytes(), rss = sl_mem_rss_bytes(), peak = sl_mem_peak_rss_bytes();
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_in_range(sl_cpu_count(), 1, CPU_COUNT(&set));
    assert_in_range(spare, MIB, (uint64_t)1 << 50);
    assert_in_range(rss, 100 * 1024, (uint64_t)1 << 40);
    assert_true(peak + MIB >= rss); /* the kernel counts both lazily */
    double a = sl_now_s();
    usleep(2000);
    assert_true(sl_now_s() - a >= 0.0019);
}

static void cpu_levels_follow_from_each_other(void **state)
{
    (void)state;
    assert_true(sl_cpu_has(SL_CPU_PORTABLE));
    assert_true(!sl_cpu_has(SL_CPU_AVX512) || sl_cpu_has(SL_CPU_AVX2));
#if defined(__x86_64__)
    __builtin_cpu_init();
    assert_int_equal(sl_cpu_has(SL_CPU_AVX2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(sl_cpu_has(SL_CPU_AVX512),
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512vnni"));
#else
    assert_false(sl_cpu_has(SL_CPU_AVX2));
#endif
    assert_string_equal(sl_cpu_level_name(SL_CPU_AVX512), "avx512");
    assert_string_equal(sl_cpu_level_name(SL_CPU_PORTABLE), "portable");
}

/* ---- blocks ---- */

static uint64_t resident_bytes(const uint8_t *p, uint64_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (bytes + page - 1) / page, count = 0;
    unsigned char *in = malloc(n);
    assert_int_equal(mincore((void *)(uintptr_t)p, bytes, in), 0);
    for (size_t i = 0; i < n; i++)
        count += in[i] & 1;
    free(in);
    return count * page;
}

static void blocks_are_zeroed_aligned_and_entered(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 4096, 4097, 65536, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB + 12345};
    static const unsigned flags[] = {0, SL_BLOCK_HUGE, SL_BLOCK_LAZY, SL_BLOCK_HUGE | SL_BLOCK_LAZY};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t k = 0; k < 4; k++) {
            sl_ledger l;
            sl_block b;
            sl_err err = {0};
            uint64_t rounded = sl_round_up(sizes[i], 4096);
            sl_ledger_init(&l, rounded);
            assert_int_equal(sl_block_open(&b, &l, SL_MEM_KV, sizes[i], flags[k], "test", &err), SL_OK);
            assert_true(b.bytes == sizes[i] && l.used[SL_MEM_KV] == rounded);
            assert_int_equal((uintptr_t)b.ptr % 4096, 0);
            if (sizes[i] >= 2 * MIB && (flags[k] & SL_BLOCK_HUGE)) assert_int_equal((uintptr_t)b.ptr % (2 * MIB), 0);
            uint64_t resident = resident_bytes(b.ptr, sizes[i]);
            assert_int_equal(resident, flags[k] == SL_BLOCK_HUGE ? rounded : 0);
            for (uint64_t at = 0; at < sizes[i]; at += 509)
                assert_int_equal(b.ptr[at], 0);
            memset(b.ptr, 0x5A, sizes[i]);
            sl_block_close(&b);
            assert_true(l.total == 0 && l.peak == rounded && b.ptr == NULL);
        }
}

static void pages_that_come_behind(void **state)
{
    (void)state;
    enum { BYTES = 96 * MIB + 8192 };
    sl_block b;
    for (int settled = 0; settled < 2; settled++) {
        assert_int_equal(sl_block_open(&b, NULL, SL_MEM_EXPERTS, BYTES, SL_BLOCK_HUGE | SL_BLOCK_BEHIND, "slots", NULL), SL_OK);
        assert_true(resident_bytes(b.ptr, 2 * MIB) == 2 * MIB); /* the first are there at once */
        for (uint64_t at = 0; at < BYTES; at += 4096) /* used while they come: nothing that is written is lost */
            memset(b.ptr + at, 1 + (int)(at / 4096 % 250), 64);
        if (settled) {
            sl_block_settle(&b);
            assert_true(b.filler == NULL && resident_bytes(b.ptr, BYTES) == BYTES);
        }
        for (uint64_t at = 0; at < BYTES; at += 4096) assert_int_equal(b.ptr[at + 63], 1 + at / 4096 % 250);
        sl_block_close(&b);
    }
    assert_int_equal(sl_block_open(&b, NULL, SL_MEM_EXPERTS, BYTES, SL_BLOCK_HUGE | SL_BLOCK_BEHIND, "slots", NULL), SL_OK);
    sl_block_close(&b); /* while they still come */
    assert_true(b.ptr == NULL && b.filler == NULL);
}

static void lazy_blocks_hold_what_was_committed(void **state)
{
    (void)state;
    sl_block b;
    sl_err err = {0};
    assert_int_equal(sl_block_open(&b, NULL, SL_MEM_KV, 64 * MIB + 100, SL_BLOCK_LAZY, "kv", &err), SL_OK);
    assert_int_equal(resident_bytes(b.ptr, b.bytes), 0);
    uint64_t committed = 0;
    for (int layer = 0; layer < 8; layer++) /* as a KV cache grows: a few rows in each of many places */
        for (int step = 0; step < 3; step++) {
            uint64_t at = (uint64_t)layer * 8 * MIB + (uint64_t)step * 50000;
            assert_int_equal(sl_block_commit(&b, at, 50000, &err), SL_OK);
            committed += 50000;
            assert_in_range(resident_bytes(b.ptr, b.bytes), committed, committed + 2 * MIB);
        }
    b.ptr[100] = 7;
    assert_int_equal(sl_block_commit(&b, 0, 4096, &err), SL_OK); /* what is there stays */
    assert_int_equal(b.ptr[100], 7);
    assert_int_equal(sl_block_commit(&b, b.bytes, 0, &err), SL_OK);
    assert_int_equal(sl_block_commit(&b, b.bytes - 10, 10, &err), SL_OK);
    assert_int_equal(sl_block_commit(&b, b.bytes - 10, 11, &err), SL_ERR_ARG);
    assert_int_equal(sl_block_commit(&b, UINT64_MAX, 2, &err), SL_ERR_ARG);
    assert_false(sl_block_is_huge(&b));
    sl_block_close(&b);
}

static void huge_blocks_lie_in_huge_pages(void **state)
{
    (void)state;
    char mode[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (f && !fgets(mode, sizeof mode, f)) mode[0] = 0;
    if (f) fclose(f);
    if (!mode[0] || strstr(mode, "[never]")) {
        print_message("skipped: transparent huge pages are off\n");
        skip();
    }
    sl_block b, small;
    assert_int_equal(sl_block_open(&b, NULL, SL_MEM_RESIDENT, 16 * MIB + 5000, SL_BLOCK_HUGE, "weights", NULL), SL_OK);
    assert_int_equal(sl_block_open(&small, NULL, SL_MEM_RESIDENT, 16 * MIB, 0, "weights", NULL), SL_OK);
    memset(small.ptr, 1, 16 * MIB);
    bool huge = sl_block_is_huge(&b);
    assert_false(sl_block_is_huge(&small));
    sl_block_close(&b);
    sl_block_close(&small);
    assert_false(sl_block_is_huge(&b)); /* closed */
    if (!huge) {
        print_message("skipped: the system had no free huge pages\n");
        skip();
    }
}

static void refused_blocks_leave_nothing_behind(void **state)
{
    (void)state;
    sl_ledger l;
    sl_block b;
    sl_err err = {0};
    sl_ledger_init(&l, 10 * MIB);
    assert_int_equal(sl_block_open(&b, &l, SL_MEM_WINDOW, 11 * MIB, SL_BLOCK_HUGE, "windows of layer 3", &err),
                     SL_ERR_BUDGET);
    assert_non_null(strstr(err.msg, "windows of layer 3"));
    assert_true(l.total == 0 && b.ptr == NULL);
    sl_block_close(&b);

    assert_int_equal(sl_block_open(&b, NULL, SL_MEM_KV, UINT64_MAX - 5, 0, "kv", &err), SL_ERR_NOMEM);
    assert_int_equal(sl_block_open(&b, NULL, SL_MEM_KV, (uint64_t)1 << 50, SL_BLOCK_LAZY, "kv", &err), SL_ERR_NOMEM);
    assert_non_null(strstr(err.msg, "kv"));
    sl_block_close(&b);

    assert_int_equal(sl_block_open(&b, &l, SL_MEM_KV, 0, SL_BLOCK_HUGE, "nothing", &err), SL_OK);
    assert_true(b.ptr == NULL && l.total == 0 && !sl_block_is_huge(&b));
    assert_int_equal(sl_block_commit(&b, 0, 0, &err), SL_OK);
    sl_block_close(&b);
    sl_block_close(&(sl_block){0});
    sl_block_close(NULL);
}

static bool always(void *user)
{
    (void)user;
    return true;
}

static void blocks_obey_the_allocation_hook(void **state)
{
    (void)state;
    sl_ledger l;
    sl_block b;
    sl_err err = {0};
    sl_ledger_init(&l, 0);
    sl_alloc_set_hook(always, NULL);
    sl_status rc = sl_block_open(&b, &l, SL_MEM_SCRATCH, 100000, 0, "scratch", &err);
    sl_alloc_set_hook(NULL, NULL);
    assert_int_equal(rc, SL_ERR_NOMEM);
    assert_true(l.total == 0 && strstr(err.msg, "scratch") != NULL);
    assert_int_equal(sl_block_open(&b, &l, SL_MEM_SCRATCH, 100000, SL_BLOCK_LAZY, "scratch", &err), SL_OK);
    sl_alloc_set_hook(always, NULL);
    rc = sl_block_commit(&b, 0, 100000, &err);
    sl_alloc_set_hook(NULL, NULL);
    assert_int_equal(rc, SL_ERR_NOMEM);
    sl_block_close(&b);
}

/* In a child: an overrun of a block by one byte beyond its page ends the process. */
static void a_guard_page_ends_every_block(void **state)
{
    (void)state;
    for (int inside = 0; inside < 2; inside++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            signal(SIGSEGV, SIG_DFL);
            sl_block b;
            if (sl_block_open(&b, NULL, SL_MEM_KV, 2 * MIB + 4096, SL_BLOCK_HUGE, "x", NULL) != SL_OK) _exit(3);
            ((volatile uint8_t *)b.ptr)[2 * MIB + 4096 - inside] = 1;
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (inside)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        else
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
}

/* ---- plain files ---- */

static const char *at(const char *path)
{
    static char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    return full;
}

static void files_are_read_and_described(void **state)
{
    (void)state;
    put("/doc.json", "{\"a\": 1}\n");
    sl_file_info info;
    sl_err err = {0};
    char *text, part[5] = "";
    size_t n;
    assert_int_equal(sl_file_stat(at("/doc.json"), &info, &err), SL_OK);
    assert_true(info.size_bytes == 9 && !info.is_dir && info.inode != 0 &&
                info.mtime_ns > (uint64_t)1600000000 * 1000000000);
    assert_int_equal(sl_file_stat(root, &info, &err), SL_OK);
    assert_true(info.is_dir);
    assert_int_equal(sl_file_read_all(at("/doc.json"), 9, &text, &n, &err), SL_OK);
    assert_true(n == 9 && strcmp(text, "{\"a\": 1}\n") == 0);
    sl_free(text);
    assert_int_equal(sl_file_read_at(at("/doc.json"), 1, part, 4, &err), SL_OK);
    assert_memory_equal(part, "\"a\":", 4);
    assert_int_equal(sl_file_read_at(at("/doc.json"), 9, part, 0, &err), SL_OK);
    put("/empty", "");
    assert_int_equal(sl_file_read_all(at("/empty"), 100, &text, &n, &err), SL_OK);
    assert_true(n == 0 && text && text[0] == 0);
    sl_free(text);
}

static void file_errors_name_file_and_numbers(void **state)
{
    (void)state;
    sl_err err = {0};
    sl_file_info info;
    char *text = NULL, buf[64];
    assert_int_equal(sl_file_stat(at("/nowhere"), &info, &err), SL_ERR_IO);
    assert_true(err.os_errno == ENOENT && strstr(err.msg, "/nowhere"));
    assert_int_equal(sl_file_read_all(at("/nowhere"), 10, &text, NULL, &err), SL_ERR_IO);
    assert_int_equal(sl_file_read_at(at("/nowhere"), 0, buf, 1, &err), SL_ERR_IO);
    put("/ten", "0123456789");
    assert_int_equal(sl_file_read_at(at("/ten"), 4, buf, 8, &err), SL_ERR_IO);
    assert_true(strstr(err.msg, "/ten") && strstr(err.msg, " 10 ") && strstr(err.msg, " 12 "));
    assert_int_equal(sl_file_read_at(at("/ten"), 400, buf, 8, &err), SL_ERR_IO);
    assert_true(strstr(err.msg, " 10 ") && strstr(err.msg, " 408 "));
    assert_int_equal(sl_file_read_at(at("/ten"), UINT64_MAX - 3, buf, 8, &err), SL_ERR_ARG);
    assert_int_equal(sl_file_read_at(at("/ten"), (uint64_t)1 << 63, buf, 8, &err), SL_ERR_ARG);
    assert_int_equal(sl_file_read_all(at("/ten"), 9, &text, NULL, &err), SL_ERR_LIMIT);
    assert_true(strstr(err.msg, "10 bytes") && strstr(err.msg, " 9 "));
    assert_int_equal(sl_file_read_all(root, 100, &text, NULL, &err), SL_ERR_IO);
    assert_int_equal(err.os_errno, EISDIR);
    assert_int_equal(sl_file_read_at(root, 0, buf, 1, &err), SL_ERR_IO);
    assert_null(text);
}

/* Files of /proc say that they are empty and are not. */
static void files_without_a_size_are_read_to_their_end(void **state)
{
    (void)state;
    char *text;
    size_t n;
    sl_err err = {0};
    assert_int_equal(sl_file_read_all("/proc/self/status", 65536, &text, &n, &err), SL_OK);
    assert_true(n > 100 && strstr(text, "VmRSS:"));
    sl_free(text);
    assert_int_equal(sl_file_read_all("/proc/self/status", 100, &text, &n, &err), SL_ERR_LIMIT);
}

static void directories_are_listed_sorted(void **state)
{
    (void)state;
    char name[32], **names;
    size_t n;
    sl_err err = {0};
    for (int i = 99; i >= 0; i--) {
        snprintf(name, sizeof name, "/model-%05d.gguf", i);
        put(name, "");
    }
    assert_int_equal(sl_file_list(root, &names, &n, &err), SL_OK);
    assert_int_equal(n, 100);
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "model-%05d.gguf", (int)i);
        assert_string_equal(names[i], name);
    }
    sl_file_list_free(names, n);
    assert_int_equal(sl_file_list(at("/nowhere"), &names, &n, &err), SL_ERR_IO);
    put("/sub/x", "");
    assert_int_equal(unlink(at("/sub/x")), 0);
    assert_int_equal(sl_file_list(at("/sub"), &names, &n, &err), SL_OK);
    assert_int_equal(n, 0);
    sl_file_list_free(names, n);
}

static bool fail_at_zero(void *user)
{
    int *left = user;
    return (*left)-- == 0;
}

static void file_calls_survive_any_failed_allocation(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "/f%d", i);
        put(name, "some text");
    }
    uint64_t before = sl_alloc_live_bytes();
    sl_status rc = SL_ERR_NOMEM;
    int n_try = 0;
    for (; rc != SL_OK; n_try++) {
        char *text = NULL, **names = NULL;
        size_t n = 0;
        int left = n_try;
        sl_err err = {0};
        sl_alloc_set_hook(fail_at_zero, &left);
        rc = sl_file_read_all(at("/f3"), 100, &text, NULL, &err);
        if (rc == SL_OK) rc = sl_file_list(root, &names, &n, &err);
        sl_alloc_set_hook(NULL, NULL);
        assert_true(rc == SL_OK || (rc == SL_ERR_NOMEM && err.msg[0]));
        sl_free(text);
        sl_file_list_free(names, n);
        assert_int_equal(sl_alloc_live_bytes(), before);
    }
    assert_in_range(n_try, 40, 60);
}

/* ---- probes ---- */

static void probes_measure_something(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 5000, 3 * 1024 * 1024 + 77};
    double bytes_s = 0;
    sl_err err = {0};
    for (size_t i = 0; i < 3; i++) {
        FILE *f = fopen(at("/weights"), "w");
        assert_non_null(f);
        for (size_t k = 0; k < sizes[i]; k++)
            putc((int)k, f);
        fclose(f);
        bytes_s = 0;
        if (sl_drive_probe(at("/weights"), SL_IO_AUTO, 8 << 20, 0.05, &bytes_s, &err) != SL_OK) fail_msg("%s", err.msg);
        assert_true(bytes_s > 1 && bytes_s < 1e12);
    }
    put("/empty", "");
    assert_int_equal(sl_drive_probe(at("/empty"), SL_IO_AUTO, 8 << 20, 0.05, &bytes_s, &err), SL_ERR_FORMAT);
    assert_int_equal(sl_drive_probe(at("/nowhere"), SL_IO_AUTO, 8 << 20, 0.05, &bytes_s, &err), SL_ERR_IO);
    for (uint32_t n = 1; n <= 3; n += 2) {
        bytes_s = 0;
        if (sl_memory_probe(n, 0.02, 64 << 20, &bytes_s, &err) != SL_OK) fail_msg("%s", err.msg);
        assert_true(bytes_s > 1e7 && bytes_s < 1e13);
    }
    assert_int_equal(sl_memory_probe(0, 0.02, 64 << 20, &bytes_s, &err), SL_ERR_ARG);
}

#define IN_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOT(nothing_known_is_no_limit),
        IN_ROOT(available_memory_bounds),
        IN_ROOT(address_space_limit_bounds),
        IN_ROOT(v2_takes_the_tightest_ancestor),
        IN_ROOT(v2_more_cache_than_usage_is_not_negative),
        IN_ROOT(v1_takes_the_tightest_ancestor),
        IN_ROOT(in_a_container_the_mount_is_the_group),
        IN_ROOT(a_bind_mounted_part_is_found),
        cmocka_unit_test(this_machine_answers),
        cmocka_unit_test(cpu_levels_follow_from_each_other),
        cmocka_unit_test(blocks_are_zeroed_aligned_and_entered),
        cmocka_unit_test(pages_that_come_behind),
        cmocka_unit_test(lazy_blocks_hold_what_was_committed),
        cmocka_unit_test(huge_blocks_lie_in_huge_pages),
        cmocka_unit_test(refused_blocks_leave_nothing_behind),
        cmocka_unit_test(blocks_obey_the_allocation_hook),
        cmocka_unit_test(a_guard_page_ends_every_block),
        IN_ROOT(files_are_read_and_described),
        IN_ROOT(file_errors_name_file_and_numbers),
        cmocka_unit_test(files_without_a_size_are_read_to_their_end),
        IN_ROOT(directories_are_listed_sorted),
        IN_ROOT(file_calls_survive_any_failed_allocation),
        IN_ROOT(probes_measure_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
