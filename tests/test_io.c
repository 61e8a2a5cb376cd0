/* Reading weights: all methods give the same bytes, and everything that can go wrong is an error with a name. */
#include "os/io.h"

#include "os/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <dlfcn.h>
#include <liburing.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE_A ((uint64_t)5 * 1024 * 1024 + 123) /* odd on purpose */
#define SIZE_B ((uint64_t)70001)
#define ALIGN  4096u

/* ---- the place, and system calls that misbehave in it ----
 * These definitions stand before those of the C library and of liburing. */

typedef enum {
    SYS_WELL,
    SYS_REFUSE_DIRECT,
    SYS_SHORT,
    SYS_ODD,
    SYS_INTERRUPT,
    SYS_STUCK,
    SYS_BUSY,
    SYS_BROKEN
} misbehaviour;
static bool has_direct;       /* the folder of these tests takes direct reads */
static misbehaviour sys_mode; /* atomic: lanes read it */
static int sys_calls, sys_results;

/* Yes or no for the n-th time, without a rhythm that a retry could fall into step with. */
static bool coin(int n)
{
    return ((uint32_t)n * 2654435761u >> 15) & 1;
}

ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
    misbehaviour mode = __atomic_load_n(&sys_mode, __ATOMIC_ACQUIRE);
    int call = __atomic_add_fetch(&sys_calls, 1, __ATOMIC_RELAXED);
    bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
    if (mode == SYS_REFUSE_DIRECT && direct) return errno = EINVAL, -1;
    if (mode == SYS_STUCK || (mode == SYS_INTERRUPT && coin(call))) return errno = EINTR, -1;
    if (mode == SYS_SHORT && n > ALIGN) n = ALIGN;
    ssize_t got = (ssize_t)syscall(SYS_pread64, fd, buf, n, offset);
    if (mode == SYS_ODD && got > 2 * (ssize_t)ALIGN) got = 2 * ALIGN - 100; /* the bytes behind are not to be trusted */
    return got;
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned n_wait)
{
    static int (*real)(struct io_uring *, unsigned);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit_and_wait");
    int call = ++sys_calls;
    if (sys_mode == SYS_BROKEN) return -ENXIO;
    if (sys_mode == SYS_BUSY && call % 4) return call % 4 == 1 ? -EAGAIN : call % 4 == 2 ? -EBUSY : -EINTR;
    int rc = real(ring, n_wait);
    for (unsigned i = *ring->cq.khead, end = __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE); i != end; i++) {
        struct io_uring_cqe *cqe = &ring->cq.cqes[i & ring->cq.ring_mask];
        if (sys_mode == SYS_SHORT && cqe->res > (int)ALIGN) cqe->res = ALIGN;
        if (sys_mode == SYS_ODD && cqe->res > 2 * (int)ALIGN) cqe->res = 2 * ALIGN - 100;
        if (sys_mode == SYS_INTERRUPT && coin(++sys_results)) cqe->res = -EINTR;
        if (sys_mode == SYS_STUCK) cqe->res = -EAGAIN;
    }
    return rc;
}

/* For tests of what only direct reading does. */
static void need_direct(void)
{
    if (has_direct) return;
    print_message("skipped: no filesystem here takes direct reads\n");
    skip();
}

static void misbehave(misbehaviour mode)
{
    __atomic_store_n(&sys_calls, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&sys_mode, mode, __ATOMIC_RELEASE);
}

static char dir[64], path_a[128], path_b[128];
static uint8_t *data_a, *data_b;

static uint64_t rng = 88172645463325252u;
static uint64_t rnd(uint64_t below)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return rng % below;
}

static void write_file(const char *path, const uint8_t *data, uint64_t bytes)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

/* Whether a fresh folder below parent (then left in dir) takes direct reads. */
static bool try_parent(const char *parent)
{
    char probe[96];
    snprintf(dir, sizeof dir, "%s/sluice-io-XXXXXX", parent);
    if (!mkdtemp(dir)) return false;
    snprintf(probe, sizeof probe, "%s/probe", dir);
    int fd = open(probe, O_RDWR | O_CREAT | O_DIRECT, 0600);
    void *block = aligned_alloc(ALIGN, ALIGN);
    bool ok = fd >= 0 && write(fd, memset(block, 1, ALIGN), ALIGN) == ALIGN && pread(fd, block, ALIGN, 0) == ALIGN;
    free(block);
    if (fd >= 0) close(fd);
    unlink(probe);
    return ok || (rmdir(dir), false);
}

/* Each test begins with fresh files, on a filesystem with direct I/O: /tmp may be a tmpfs of an old kernel. */
static int make_files(void **state)
{
    (void)state;
    has_direct = try_parent("/tmp") || try_parent("/var/tmp") || try_parent(".");
    if (!has_direct) {
        strcpy(dir, "/tmp/sluice-io-XXXXXX");
        if (!mkdtemp(dir)) return -1;
    }
    snprintf(path_a, sizeof path_a, "%s/a.gguf", dir);
    snprintf(path_b, sizeof path_b, "%s/b.gguf", dir);
    data_a = malloc(SIZE_A);
    data_b = malloc(SIZE_B);
    for (uint64_t i = 0; i < SIZE_A; i++)
        data_a[i] = (uint8_t)(i * 131 ^ i >> 9 ^ i >> 17);
    for (uint64_t i = 0; i < SIZE_B; i++)
        data_b[i] = (uint8_t)(255 - i % 251);
    write_file(path_a, data_a, SIZE_A);
    write_file(path_b, data_b, SIZE_B);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    __atomic_store_n(&sys_mode, SYS_WELL, __ATOMIC_RELEASE);
    free(data_a);
    free(data_b);
    unlink(path_a);
    unlink(path_b);
    return rmdir(dir);
}

typedef struct {
    int n;
    char msg[768];
} notes;

static void take_note(void *user, sl_log_level level, const char *msg)
{
    notes *t = user;
    if (level == SL_LOG_NOTE) t->n++;
    snprintf(t->msg, sizeof t->msg, "%s", msg);
}

/* ---- every way to open the two files ---- */

enum { WAY_URING, WAY_PREAD, WAY_BUFFERED, WAY_MMAP, WAY_AUTO, WAY_MEMORY, WAY_FAULTY, N_WAY };
static const char *const way_names[] = {"uring", "pread", "buffered", "mmap", "auto", "memory", "faulty"};
static const sl_io_method way_methods[] = {SL_IO_URING, SL_IO_PREAD, SL_IO_BUFFERED, SL_IO_MMAP,
                                           SL_IO_AUTO,  SL_IO_AUTO,  SL_IO_PREAD};
static sl_io_faults no_faults;

/* NULL, said aloud, where this machine's kernel has no io_uring. */
static sl_io *open_way(int way)
{
    sl_io *io = NULL;
    sl_err err = {0};
    const char *const paths[] = {path_a, path_b};
    const uint64_t sizes[] = {SIZE_A, SIZE_B};
    sl_status rc;
    if (way == WAY_MEMORY) {
        const uint8_t *const data[] = {data_a, data_b};
        rc = sl_io_open_memory(&io, data, sizes, 2, &err);
    } else {
        rc = sl_io_open(&io, way_methods[way], paths, sizes, 2, NULL, &err);
    }
    if (rc == SL_ERR_UNSUPPORTED && way == WAY_URING) {
        print_message("skipped for uring: %s\n", err.msg);
        return NULL;
    }
    if (rc == SL_OK && way == WAY_FAULTY) rc = sl_io_open_faulty(&io, io, &no_faults, &err);
    if (rc != SL_OK) fail_msg("%s: %s", way_names[way], err.msg);
    return io;
}

#define FOR_EVERY_WAY(io)                                                                                              \
    for (int way = 0; way < N_WAY; way++)                                                                              \
        for (sl_io *io = open_way(way); io; sl_io_close(io), io = NULL)

/* A random request that starts inside the file; the end may lie beyond it. */
static void random_request(sl_io_req *r, uint8_t *dst, size_t room)
{
    uint64_t size = (r->file = (uint32_t)rnd(2)) ? SIZE_B : SIZE_A;
    uint64_t blocks = size / ALIGN + 1;
    r->offset_bytes = rnd(3) ? rnd(blocks) * ALIGN : (blocks - 1 - rnd(2)) * ALIGN; /* every third at the tail */
    r->bytes = (1 + rnd(rnd(2) ? room / ALIGN : 3)) * ALIGN;
    uint64_t there = size - r->offset_bytes;
    r->need_bytes = r->bytes < there ? r->bytes : there;
    r->dst = dst;
    memset(dst, 0xA5, r->bytes);
}

static void expect_bytes(const sl_io_req *r)
{
    const uint8_t *want = (r->file ? data_b : data_a) + r->offset_bytes;
    if (memcmp(r->dst, want, r->need_bytes) != 0)
        fail_msg("other bytes from file %u at %zu", r->file, (size_t)r->offset_bytes);
}

static void all_methods_read_the_same_bytes(void **state)
{
    (void)state;
    const size_t room = (size_t)3 << 20; /* several pieces */
    uint8_t *dst = aligned_alloc(ALIGN, room);
    FOR_EVERY_WAY(io)
    {
        assert_true(io->align == 1 || (io->align >= ALIGN && (io->align & (io->align - 1)) == 0));
        uint64_t needed = 0;
        for (int i = 0; i < 60; i++) {
            sl_io_req r = {0}, *list[] = {&r};
            sl_err err = {0};
            random_request(&r, dst, room);
            assert_int_equal(sl_io_submit(io, list, 1, &err), SL_OK);
            if (sl_io_wait(io, &r, &err) != SL_OK) fail_msg("%s: %s", io->name, err.msg);
            expect_bytes(&r);
            needed += r.need_bytes;
        }
        assert_true(io->bytes_read >= needed && io->reads == 60);
    }
    free(dst);
}

static void many_requests_are_under_way_at_once(void **state)
{
    (void)state;
    enum { N = 50 };
    const size_t room = (size_t)1 << 18;
    uint8_t *dst = aligned_alloc(ALIGN, N * room);
    FOR_EVERY_WAY(io)
    {
        sl_io_req reqs[N] = {0}, *list[N];
        bool waited[N] = {false};
        sl_err err = {0};
        for (int i = 0; i < N; i++) {
            list[i] = &reqs[i];
            random_request(list[i], dst + (size_t)i * room, room);
        }
        assert_int_equal(sl_io_submit(io, list, 30, &err), SL_OK);
        assert_int_equal(sl_io_submit(io, list + 30, N - 30, &err), SL_OK);
        for (int left = N; left > 0; left--) { /* in random order */
            int i = (int)rnd(N);
            while (waited[i])
                i = (i + 1) % N;
            waited[i] = true;
            assert_int_equal(sl_io_wait(io, &reqs[i], &err), SL_OK);
            expect_bytes(&reqs[i]);
        }
        assert_int_equal(sl_io_submit(io, list, 5, &err), SL_OK); /* a waited request may be used again */
        for (int i = 0; i < 5; i++)
            assert_int_equal(sl_io_wait(io, &reqs[i], &err), SL_OK);
        assert_int_equal(sl_io_submit(io, list, 0, &err), SL_OK);
    }
    free(dst);
}

static void polling_sees_the_end(void **state)
{
    (void)state;
    uint8_t *dst = aligned_alloc(ALIGN, 4 << 20);
    FOR_EVERY_WAY(io)
    {
        sl_io_req r = {.dst = dst, .bytes = 4 << 20, .need_bytes = 4 << 20}, *list[] = {&r};
        assert_int_equal(sl_io_submit(io, list, 1, NULL), SL_OK);
        for (int i = 0; !io->ops->poll(io, &r); i++) {
            usleep(500);
            assert_true(i < 20000);
        }
        assert_true(io->ops->poll(io, &r)); /* stays so until it is waited for */
        assert_int_equal(sl_io_wait(io, &r, NULL), SL_OK);
        expect_bytes(&r);
    }
    free(dst);
}

static void closing_waits_for_what_is_under_way(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++)
        for (int way = 0; way < N_WAY; way++) {
            sl_io *io = open_way(way);
            if (!io) continue;
            uint8_t *dst = aligned_alloc(ALIGN, 8 << 20);
            sl_io_req reqs[8] = {0}, *list[8];
            for (int i = 0; i < 8; i++) {
                list[i] = &reqs[i];
                reqs[i] = (sl_io_req){
                    .dst = dst + ((size_t)i << 20), .bytes = 1 << 20, .need_bytes = 1 << 20, .offset_bytes = 4096};
            }
            assert_int_equal(sl_io_submit(io, list, 8, NULL), SL_OK);
            sl_io_close(io);
            free(dst); /* a sanitizer or the allocator would notice a late write */
        }
    sl_io_close(NULL);
}

/* ---- ends of files and refusals ---- */

static void the_end_of_the_file_is_an_error_where_bytes_are_needed(void **state)
{
    (void)state;
    uint8_t *dst = aligned_alloc(ALIGN, 6 << 20);
    const uint64_t tail = SIZE_A / ALIGN * ALIGN;
    FOR_EVERY_WAY(io)
    {
        sl_err err = {0};
        assert_int_equal(sl_io_read_now(io, 0, tail, dst, ALIGN, SIZE_A - tail, &err), SL_OK);
        assert_memory_equal(dst, data_a + tail, SIZE_A - tail);
        assert_int_equal(sl_io_read_now(io, 0, tail, dst, ALIGN, SIZE_A - tail + 1, &err), SL_ERR_IO);
        assert_int_equal(err.os_errno, 0);
        assert_non_null(strstr(err.msg, "unexpected end of file"));
        char offset[32];
        snprintf(offset, sizeof offset, "offset %zu", (size_t)tail);
        assert_non_null(strstr(err.msg, offset));
        assert_non_null(strstr(err.msg, way == WAY_MEMORY ? "memory file 0" : path_a));
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, 6 << 20, 6 << 20, &err),
                         SL_ERR_IO); /* many pieces, the last short */
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, 6 << 20, SIZE_A, &err), SL_OK);
        assert_memory_equal(dst, data_a, SIZE_A);
        assert_int_equal(sl_io_read_now(io, 0, 64 << 20, dst, ALIGN, 1, &err), SL_ERR_IO);
        assert_int_equal(sl_io_read_now(io, 0, 64 << 20, dst, ALIGN, 0, &err), SL_OK);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, 0, 0, &err), SL_OK);
    }
    free(dst);
}

static void senseless_requests_are_refused(void **state)
{
    (void)state;
    uint8_t *dst = aligned_alloc(ALIGN, 2 * ALIGN);
    FOR_EVERY_WAY(io)
    {
        sl_err err = {0};
        assert_int_equal(sl_io_read_now(io, 2, 0, dst, ALIGN, 0, &err), SL_ERR_ARG);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, ALIGN, ALIGN + 1, &err), SL_ERR_ARG);
        assert_int_equal(sl_io_read_now(io, 0, UINT64_MAX & ~(uint64_t)(ALIGN - 1), dst, ALIGN, 0, &err), SL_ERR_ARG);
        bool direct = io->align > 1;
        assert_int_equal(sl_io_read_now(io, 0, 512, dst, ALIGN, ALIGN, &err), direct ? SL_ERR_ARG : SL_OK);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst + 1, ALIGN, ALIGN, &err), direct ? SL_ERR_ARG : SL_OK);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, 100, 100, &err), direct ? SL_ERR_ARG : SL_OK);
        sl_io_req good = {.dst = dst, .bytes = ALIGN, .need_bytes = ALIGN}, bad = good, *list[] = {&good, &bad};
        bad.file = 9;
        assert_int_equal(sl_io_submit(io, list + (way == WAY_FAULTY), 2 - (way == WAY_FAULTY), &err), SL_ERR_ARG);
        assert_int_equal(sl_io_submit(io, list, 1, &err), SL_OK);      /* the refused batch left nothing behind */
        assert_int_equal(sl_io_submit(io, list, 1, &err), SL_ERR_ARG); /* twice under way */
        assert_int_equal(sl_io_wait(io, &good, &err), SL_OK);
    }
    free(dst);
}

static void a_changed_file_is_refused_at_open(void **state)
{
    (void)state;
    static const sl_io_method methods[] = {SL_IO_AUTO, SL_IO_PREAD, SL_IO_BUFFERED, SL_IO_MMAP};
    const char *const paths[] = {path_a, path_b};
    const uint64_t sizes[] = {SIZE_A, SIZE_B + 1};
    for (size_t i = 0; i < 4; i++) {
        sl_io *io = NULL;
        sl_err err = {0};
        assert_int_equal(sl_io_open(&io, methods[i], paths, sizes, 2, NULL, &err), SL_ERR_IO);
        assert_true(strstr(err.msg, path_b) && strstr(err.msg, "70001") && strstr(err.msg, "70002"));
        const char *const missing[] = {path_a, "/nowhere/b.gguf"};
        assert_int_equal(sl_io_open(&io, methods[i], missing, NULL, 2, NULL, &err), SL_ERR_IO);
        assert_true(err.os_errno == ENOENT && strstr(err.msg, "/nowhere/b.gguf"));
        const char *const folder[] = {dir};
        assert_int_equal(sl_io_open(&io, methods[i], folder, NULL, 1, NULL, &err), SL_ERR_IO);
        assert_int_equal(sl_io_open(&io, methods[i], paths, NULL, 0, NULL, &err), SL_ERR_ARG);
        assert_null(io);
    }
}

static void a_file_that_shrinks_is_an_error_not_a_signal(void **state)
{
    (void)state;
    static const int ways[] = {WAY_URING, WAY_PREAD, WAY_BUFFERED, WAY_MMAP};
    uint8_t *dst = aligned_alloc(ALIGN, 2 << 20);
    for (size_t i = 0; i < 4; i++) {
        sl_err err = {0};
        write_file(path_a, data_a, SIZE_A);
        sl_io *io = open_way(ways[i]);
        if (!io) continue;
        assert_int_equal(truncate(path_a, 1 << 20), 0);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, 2 << 20, 2 << 20, &err), SL_ERR_IO);
        assert_non_null(strstr(err.msg, "unexpected end of file"));
        assert_int_equal(sl_io_read_now(io, 0, 3 << 20, dst, ALIGN, ALIGN, &err), SL_ERR_IO);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, 1 << 20, 1 << 20, &err), SL_OK); /* what is left is readable */
        assert_memory_equal(dst, data_a, 1 << 20);
        sl_io_close(io);
    }
    free(dst);
}

/* ---- steps down ---- */

static void a_filesystem_without_direct_io_falls_back_with_one_note(void **state)
{
    (void)state;
    static const sl_io_method methods[] = {SL_IO_AUTO, SL_IO_URING, SL_IO_PREAD};
    char mount_point[128], path[192];
    need_direct();
    snprintf(mount_point, sizeof mount_point, "%s/ram", dir);
    snprintf(path, sizeof path, "%s/c.gguf", mount_point);
    assert_int_equal(mkdir(mount_point, 0755), 0);
    if (mount("none", mount_point, "ramfs", 0, NULL) != 0) {
        rmdir(mount_point);
        print_message("skipped: no ramfs can be mounted here: %s\n", strerror(errno));
        skip();
    }
    write_file(path, data_b, SIZE_B);
    const char *const paths[] = {path_a, path};
    for (size_t i = 0; i < 3; i++) {
        notes t = {0};
        sl_log log = {take_note, &t};
        sl_io *io = NULL;
        sl_err err = {0};
        uint8_t dst[100];
        assert_int_equal(sl_io_open(&io, methods[i], paths, NULL, 2, &log, &err), SL_OK);
        assert_string_equal(io->name, "buffered");
        assert_int_equal(io->align, 1);
        assert_int_equal(t.n, 1);
        assert_true(strstr(t.msg, path) && strstr(t.msg, "Invalid argument"));
        assert_int_equal(sl_io_read_now(io, 1, 69950, dst, sizeof dst, 51, &err), SL_OK);
        assert_memory_equal(dst, data_b + 69950, 51);
        sl_io_close(io);
    }
    unlink(path);
    umount2(mount_point, MNT_DETACH);
    assert_int_equal(rmdir(mount_point), 0);
}

static void direct_io_refused_at_the_first_read_falls_back_too(void **state)
{
    (void)state;
    static const sl_io_method methods[] = {SL_IO_AUTO, SL_IO_URING, SL_IO_PREAD};
    const char *const paths[] = {path_a, path_b};
    for (size_t i = 0; i < 3; i++) {
        notes t = {0};
        sl_log log = {take_note, &t};
        sl_io *io = NULL;
        sl_err err = {0};
        uint8_t dst[1000];
        misbehave(SYS_REFUSE_DIRECT);
        assert_int_equal(sl_io_open(&io, methods[i], paths, NULL, 2, &log, &err), SL_OK);
        assert_string_equal(io->name, "buffered");
        assert_true(t.n == 1 && strstr(t.msg, path_a) && strstr(t.msg, "Invalid argument"));
        assert_int_equal(sl_io_read_now(io, 0, 777, dst, sizeof dst, sizeof dst, &err), SL_OK);
        assert_memory_equal(dst, data_a + 777, sizeof dst);
        sl_io_close(io);
    }
}

/* A sandbox as container runtimes have it: one system call answers EPERM. */
static bool forbid(long nr)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

/* Runs in a child; its exit code is the line that went wrong. */
static int without_uring(void)
{
    const char *const paths[] = {path_a};
    notes t = {0};
    sl_log log = {take_note, &t};
    sl_io *io = NULL;
    sl_err err = {0};
    if (!forbid(SYS_io_uring_setup)) return 77;
    if (sl_io_open(&io, SL_IO_URING, paths, NULL, 1, &log, &err) != SL_ERR_UNSUPPORTED) return 1;
    if (!strstr(err.msg, "io_uring") || !strstr(err.msg, "not permitted") || t.n != 0) return 2;
    if (sl_io_open(&io, SL_IO_AUTO, paths, NULL, 1, &log, &err) != SL_OK) return 3;
    if (strcmp(io->name, "pread") != 0 || t.n != 1 || !strstr(t.msg, "io_uring")) return 4;
    uint8_t *dst = aligned_alloc(ALIGN, ALIGN);
    if (sl_io_read_now(io, 0, ALIGN, dst, ALIGN, ALIGN, &err) != SL_OK || memcmp(dst, data_a + ALIGN, ALIGN) != 0)
        return 5;
    free(dst);
    sl_io_close(io);
    return 0;
}

static void a_kernel_without_uring_means_pread(void **state)
{
    (void)state;
    need_direct();
    pid_t pid = fork();
    if (pid == 0) _exit(without_uring());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no seccomp filter can be set here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void names_say_what_really_runs(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAY; way++) {
        sl_io *io = open_way(way);
        if (!io) continue;
        if (way != WAY_AUTO && way != WAY_URING && way != WAY_PREAD) assert_string_equal(io->name, way_names[way]);
        assert_int_equal(io->ops->view != NULL, way == WAY_MMAP || way == WAY_MEMORY);
        assert_int_equal(io->ops->advise != NULL, way == WAY_MMAP);
        assert_true(io->depth >= 1 && io->piece_bytes >= ALIGN);
        sl_io_close(io);
    }
}

/* ---- page cache, views ---- */

static uint64_t cached_bytes(const char *path, uint64_t bytes)
{
    int fd = open(path, O_RDONLY);
    void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    size_t n = (bytes + 4095) / 4096, count = 0;
    unsigned char *in = malloc(n);
    assert_int_equal(mincore(p, bytes, in), 0);
    for (size_t i = 0; i < n; i++)
        count += in[i] & 1;
    free(in);
    munmap(p, bytes);
    close(fd);
    return count * 4096;
}

static void drop_cache(const char *path)
{
    int fd = open(path, O_RDWR);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void only_mmap_fills_the_page_cache(void **state)
{
    (void)state;
    static const int ways[] = {WAY_URING, WAY_PREAD, WAY_BUFFERED};
    uint8_t *dst = aligned_alloc(ALIGN, 6 << 20);
    drop_cache(path_a);
    if (cached_bytes(path_a, SIZE_A) > 0) {
        free(dst);
        print_message("skipped: this filesystem keeps its page cache\n");
        skip();
    }
    for (size_t i = 0; i < 3; i++) {
        sl_io *io = open_way(ways[i]);
        if (!io) continue;
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, 6 << 20, SIZE_A, NULL), SL_OK);
        assert_true(cached_bytes(path_a, SIZE_A) <= 64 * 1024);
        sl_io_close(io);
    }
    free(dst);
}

static void views_show_the_bytes_where_they_lie(void **state)
{
    (void)state;
    static const int ways[] = {WAY_MMAP, WAY_MEMORY};
    for (size_t i = 0; i < 2; i++) {
        sl_io *io = open_way(ways[i]);
        const uint8_t *p = io->ops->view(io, 0, 12345, SIZE_A - 12345);
        assert_non_null(p);
        assert_memory_equal(p, data_a + 12345, SIZE_A - 12345);
        assert_memory_equal(io->ops->view(io, 1, 0, SIZE_B), data_b, SIZE_B);
        assert_non_null(io->ops->view(io, 1, SIZE_B, 0));
        assert_null(io->ops->view(io, 0, 12345, SIZE_A - 12344));
        assert_null(io->ops->view(io, 0, SIZE_A + 1, 0));
        assert_null(io->ops->view(io, 0, UINT64_MAX, 2));
        assert_null(io->ops->view(io, 2, 0, 1));
        sl_io_close(io);
    }
}

static uint64_t mapped_resident(const char *path)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[1024];
    bool inside = false;
    unsigned long kib = 0, v;
    while (fgets(line, sizeof line, f)) {
        unsigned long a, z;
        if (sscanf(line, "%lx-%lx ", &a, &z) == 2) inside = strstr(line, path) != NULL;
        if (inside && sscanf(line, "Rss: %lu kB", &v) == 1) kib += v;
    }
    fclose(f);
    return (uint64_t)kib * 1024;
}

static void advice_rounds_need_outward_and_drop_inward(void **state)
{
    (void)state;
    sl_io *io = open_way(WAY_MMAP);
    const uint8_t *p = io->ops->view(io, 0, 0, SIZE_A);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < SIZE_A; i += 512)
        sum += p[i];
    assert_true(sum > 0);
    uint64_t all = mapped_resident(path_a);
    assert_true(all >= SIZE_A / 4096 * 4096);
    io->ops->advise(io, 0, 100, 3000, false); /* holds no whole page */
    io->ops->advise(io, 0, 1, 2 * 4096 - 2, false);
    io->ops->advise(io, 0, 0, SIZE_A + 1, false); /* outside: nothing */
    io->ops->advise(io, 9, 0, 1, false);
    assert_int_equal(mapped_resident(path_a), all);
    assert_true(io->n_drop == 0 && io->n_need == 0);
    io->ops->advise(io, 0, 4096 + 1, 2 * 4096,
                    false); /* holds one; a kernel that mapped 2 MiB at once unmaps as much */
    assert_in_range(mapped_resident(path_a), all - (2 << 20), all - 4096);
    assert_int_equal(io->n_drop, 1);
    io->ops->advise(io, 0, 4096 + 1, 1, true);
    assert_int_equal(io->n_need, 1);
    io->ops->advise(io, 0, 0, SIZE_A, false); /* up to the end of the file: the last page too */
    assert_int_equal(mapped_resident(path_a), 0);
    assert_memory_equal(p, data_a, SIZE_A); /* and it comes back */
    sl_io_close(io);
}

static void empty_files_can_be_opened(void **state)
{
    (void)state;
    static const sl_io_method methods[] = {SL_IO_AUTO, SL_IO_PREAD, SL_IO_BUFFERED, SL_IO_MMAP};
    uint8_t *dst = aligned_alloc(ALIGN, ALIGN);
    const char *const paths[] = {path_b};
    const uint64_t zero = 0;
    write_file(path_b, data_b, 0);
    for (size_t i = 0; i < 4; i++) {
        sl_io *io;
        sl_err err = {0};
        if (sl_io_open(&io, methods[i], paths, &zero, 1, NULL, &err) != SL_OK) fail_msg("%s", err.msg);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, ALIGN, 0, &err), SL_OK);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, ALIGN, 1, &err), SL_ERR_IO);
        sl_io_close(io);
    }
    free(dst);
}

/* ---- faults ---- */

static void faults_come_when_they_were_ordered(void **state)
{
    (void)state;
    enum { N = 8 };
    uint8_t *dst = aligned_alloc(ALIGN, N * 2 * ALIGN);
    for (int way = 0; way <= WAY_MEMORY; way++)
        for (int at = 1; at <= N; at++) {
            sl_io *io = open_way(way);
            sl_io_faults f = {.fail_at = at, .short_at = at % N + 1, .delay_max_us = 50, .seed = (uint64_t)at};
            sl_io_req reqs[N] = {0}, *list[N];
            sl_err err = {0};
            if (!io) break;
            assert_int_equal(sl_io_open_faulty(&io, io, &f, &err), SL_OK);
            for (int i = 0; i < N; i++) {
                list[i] = &reqs[i];
                reqs[i] = (sl_io_req){.dst = dst + (size_t)i * 2 * ALIGN,
                                      .bytes = 2 * ALIGN,
                                      .need_bytes = 2 * ALIGN,
                                      .offset_bytes = (uint64_t)i * ALIGN};
            }
            assert_int_equal(sl_io_submit(io, list, N, &err), SL_OK);
            for (int i = 0; i < N; i++) {
                sl_status rc = sl_io_wait(io, &reqs[i], &err);
                if (i + 1 == f.fail_at)
                    assert_true(rc == SL_ERR_IO && err.os_errno == EIO && strstr(err.msg, "read of 8192 bytes"));
                else if (i + 1 == f.short_at)
                    assert_true(rc == SL_ERR_IO && err.os_errno == 0 && strstr(err.msg, "unexpected end of file"));
                else
                    expect_bytes(&reqs[i]);
            }
            assert_int_equal(f.calls, N);
            assert_int_equal(sl_io_submit(io, &list[at - 1], 1, &err), SL_OK); /* the same read again succeeds */
            assert_int_equal(sl_io_wait(io, &reqs[at - 1], &err), SL_OK);
            expect_bytes(&reqs[at - 1]);
            sl_io_close(io);
        }
    free(dst);
}

/* Told to give up, a wait ends after the pieces under way; the reader is as good as new afterwards. */
static void a_canceled_wait_ends_early_and_spoils_nothing(void **state)
{
    static const int ways[] = {0, 1, 2};
    (void)state;
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        volatile bool cancel = true;
        sl_io *io = open_way(ways[k]);
        sl_block block = {0};
        sl_err err = {0};
        assert_int_equal(sl_block_open(&block, NULL, SL_MEM_SCRATCH, 4 << 20, 0, "test", &err), SL_OK);
        sl_io_req r = {.file = 0, .offset_bytes = 0, .dst = block.ptr, .bytes = 4 << 20, .need_bytes = 4 << 20}, *list = &r;
        assert_int_equal(sl_io_submit(io, &list, 1, &err), SL_OK);
        io->cancel = &cancel;
        sl_status rc = sl_io_wait(io, &r, &err);
        assert_true(rc == SL_ERR_CANCELED || rc == SL_OK); /* everything may have been under way already */
        io->cancel = NULL;
        memset(block.ptr, 0xaa, 4 << 20);
        assert_int_equal(sl_io_submit(io, &list, 1, &err), SL_OK);
        assert_int_equal(sl_io_wait(io, &r, &err), SL_OK);
        assert_memory_equal(block.ptr, data_a, 4 << 20);
        sl_block_close(&block);
        sl_io_close(io);
    }
}

/* Background reads are read too; those dropped end early, those hurried don't; others get past them. */
static void background_reads_can_be_dropped_and_hurried(void **state)
{
    (void)state;
    enum { N = 12, BYTES = 1 << 20 };
    uint8_t *dst = aligned_alloc(ALIGN, (N + 1) * (size_t)BYTES);
    FOR_EVERY_WAY(io)
    {
        sl_io_req reqs[N + 1] = {0}, *list[N + 1];
        sl_err err = {0};
        for (int i = 0; i <= N; i++) {
            list[i] = &reqs[i];
            reqs[i] = (sl_io_req){.offset_bytes = (uint64_t)(i % 5) * BYTES,
                                  .dst = dst + (size_t)i * BYTES,
                                  .bytes = BYTES,
                                  .need_bytes = BYTES,
                                  .background = i < N};
        }
        assert_int_equal(sl_io_submit(io, list, N + 1, &err), SL_OK);
        sl_io_drop(io, &reqs[N - 1]);
        sl_io_drop(io, &reqs[5]);
        sl_io_hurry(io, &reqs[7]);
        sl_io_hurry(io, &reqs[N]); /* an ordinary one: nothing happens */
        assert_int_equal(sl_io_wait(io, &reqs[N], &err), SL_OK);
        expect_bytes(&reqs[N]);
        for (int i = N - 1; i >= 0; i--) {
            bool may_miss = i == N - 1 || i == 5;
            sl_status rc = sl_io_wait(io, &reqs[i], &err);
            assert_true(rc == SL_OK || (may_miss && rc == SL_ERR_CANCELED));
            if (rc == SL_OK) expect_bytes(&reqs[i]);
        }
        if (io->ops->drop && io->depth > 2) { /* uring: twelve don't fit the background's few */
            assert_int_equal(sl_io_submit(io, list, N, &err), SL_OK);
            sl_io_drop(io, &reqs[N - 1]);
            assert_int_equal(sl_io_wait(io, &reqs[N - 1], &err), SL_ERR_CANCELED);
            for (int i = 0; i < N - 1; i++) assert_int_equal(sl_io_wait(io, &reqs[i], &err), SL_OK);
        }
        sl_io_drop(io, &reqs[0]); /* not under way */
        sl_io_hurry(io, &reqs[0]);
    }
    free(dst);
}

static void a_real_read_error_is_reported(void **state)
{
    (void)state;
    static const sl_io_method methods[] = {SL_IO_URING, SL_IO_PREAD, SL_IO_BUFFERED, SL_IO_MMAP};
    uint8_t *dst =
        mmap(NULL, 4 * ALIGN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* the kernel cannot write here */
    const char *const paths[] = {path_a};
    for (size_t i = 0; i < 4; i++) {
        sl_io *io = NULL;
        sl_err err = {0};
        sl_status rc = sl_io_open(&io, methods[i], paths, NULL, 1, NULL, &err);
        if (rc == SL_ERR_UNSUPPORTED) continue;
        assert_int_equal(rc, SL_OK);
        assert_int_equal(sl_io_read_now(io, 0, 8192, dst, 4 * ALIGN, ALIGN, &err), SL_ERR_IO);
        assert_int_equal(err.os_errno, EFAULT);
        assert_true(strstr(err.msg, path_a) && strstr(err.msg, "offset 8192") && strstr(err.msg, "16384 bytes"));
        sl_io_close(io);
    }
    munmap(dst, 4 * ALIGN);
}

static void interrupted_and_short_reads_go_on(void **state)
{
    (void)state;
    static const int ways[] = {WAY_URING, WAY_PREAD, WAY_BUFFERED, WAY_MMAP};
    static const misbehaviour modes[] = {SYS_SHORT, SYS_ODD, SYS_INTERRUPT, SYS_BUSY};
    const size_t room = (size_t)6 << 20;
    uint8_t *dst = aligned_alloc(ALIGN, room);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++) {
            sl_err err = {0};
            sl_io *io = open_way(ways[i]);
            if (!io) continue;
            misbehave(modes[k]);
            memset(dst, 0xA5, room);
            if (sl_io_read_now(io, 0, 0, dst, room, SIZE_A, &err) != SL_OK)
                fail_msg("%s, %d: %s", io->name, (int)k, err.msg);
            assert_memory_equal(dst, data_a, SIZE_A);
            misbehave(SYS_WELL);
            sl_io_close(io);
        }
    free(dst);
}

static void a_read_that_never_comes_through_fails(void **state)
{
    (void)state;
    need_direct();
    static const int ways[] = {WAY_URING, WAY_PREAD, WAY_BUFFERED};
    uint8_t *dst = aligned_alloc(ALIGN, ALIGN);
    for (size_t i = 0; i < 3; i++) {
        sl_err err = {0};
        sl_io *io = open_way(ways[i]);
        if (!io) continue;
        misbehave(SYS_STUCK);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, ALIGN, ALIGN, &err), SL_ERR_IO);
        assert_int_equal(err.os_errno, i ? EINTR : EAGAIN);
        misbehave(SYS_WELL);
        assert_int_equal(sl_io_read_now(io, 0, 0, dst, ALIGN, ALIGN, &err), SL_OK);
        sl_io_close(io);
    }
    free(dst);
}

/* The kernel has taken some pieces when the ring breaks: those arrive, the others fail, and nothing hangs. */
static void a_broken_ring_fails_its_requests(void **state)
{
    (void)state;
    need_direct();
    enum { N = 24 };
    sl_io *io = open_way(WAY_URING);
    if (!io) skip(); /* open_way said why */
    uint8_t *dst = aligned_alloc(ALIGN, N << 20);
    sl_io_req reqs[N] = {0}, *list[N];
    sl_err err = {0};
    for (int i = 0; i < N; i++) {
        list[i] = &reqs[i];
        reqs[i] = (sl_io_req){.dst = dst + ((size_t)i << 20), .bytes = 1 << 20, .need_bytes = 1 << 20};
    }
    assert_int_equal(sl_io_submit(io, list, 4, &err), SL_OK);
    misbehave(SYS_BROKEN);
    assert_int_equal(sl_io_submit(io, list + 4, N - 4, &err), SL_OK);
    for (int i = 0; i < N; i++) {
        sl_status rc = sl_io_wait(io, &reqs[i], &err);
        if (i < 4)
            expect_bytes(&reqs[i]);
        else
            assert_true(rc == SL_ERR_IO && err.os_errno == ENXIO && strstr(err.msg, path_a));
        assert_int_equal(rc, i < 4 ? SL_OK : SL_ERR_IO);
    }
    misbehave(SYS_WELL);
    assert_int_equal(sl_io_read_now(io, 0, 0, dst, ALIGN, ALIGN, &err), SL_ERR_IO); /* for good */
    sl_io_close(io);
    free(dst);
}

static bool fail_at_zero(void *user)
{
    int *left = user;
    return (*left)-- == 0;
}

static void opening_survives_any_failed_allocation(void **state)
{
    (void)state;
    uint64_t before = sl_alloc_live_bytes();
    const char *const paths[] = {path_a, path_b};
    const uint8_t *const data[] = {data_a, data_b};
    const uint64_t sizes[] = {SIZE_A, SIZE_B};
    for (int m = SL_IO_AUTO; m <= SL_IO_MMAP + 1; m++)
        for (int n = 0, rc = SL_ERR_NOMEM; rc != SL_OK; n++) {
            int left = n;
            sl_io *io = NULL;
            sl_err err = {0};
            sl_alloc_set_hook(fail_at_zero, &left);
            if (m > SL_IO_MMAP)
                rc = (int)sl_io_open_memory(&io, data, sizes, 2, &err);
            else
                rc = (int)sl_io_open(&io, (sl_io_method)m, paths, sizes, 2, NULL, &err);
            if (rc == SL_OK) rc = (int)sl_io_open_faulty(&io, io, &no_faults, &err);
            sl_alloc_set_hook(NULL, NULL);
            if (rc == SL_ERR_UNSUPPORTED) break;
            assert_true(rc == SL_OK || (rc == SL_ERR_NOMEM && err.msg[0]));
            if (rc == SL_OK) sl_io_close(io);
            assert_int_equal(sl_alloc_live_bytes(), before);
            assert_true(n < 30);
        }
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, make_files, remove_files)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FILES(all_methods_read_the_same_bytes),
        WITH_FILES(many_requests_are_under_way_at_once),
        WITH_FILES(polling_sees_the_end),
        WITH_FILES(closing_waits_for_what_is_under_way),
        WITH_FILES(the_end_of_the_file_is_an_error_where_bytes_are_needed),
        WITH_FILES(senseless_requests_are_refused),
        WITH_FILES(a_changed_file_is_refused_at_open),
        WITH_FILES(a_file_that_shrinks_is_an_error_not_a_signal),
        WITH_FILES(a_filesystem_without_direct_io_falls_back_with_one_note),
        WITH_FILES(direct_io_refused_at_the_first_read_falls_back_too),
        WITH_FILES(a_kernel_without_uring_means_pread),
        WITH_FILES(names_say_what_really_runs),
        WITH_FILES(only_mmap_fills_the_page_cache),
        WITH_FILES(views_show_the_bytes_where_they_lie),
        WITH_FILES(advice_rounds_need_outward_and_drop_inward),
        WITH_FILES(empty_files_can_be_opened),
        WITH_FILES(faults_come_when_they_were_ordered),
        WITH_FILES(a_canceled_wait_ends_early_and_spoils_nothing),
        WITH_FILES(background_reads_can_be_dropped_and_hurried),
        WITH_FILES(a_real_read_error_is_reported),
        WITH_FILES(interrupted_and_short_reads_go_on),
        WITH_FILES(a_read_that_never_comes_through_fails),
        WITH_FILES(a_broken_ring_fails_its_requests),
        WITH_FILES(opening_survives_any_failed_allocation),
    };
    /* Mounts of these tests stay in a namespace of their own, where that is allowed. */
    if (unshare(CLONE_NEWNS) == 0) mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
