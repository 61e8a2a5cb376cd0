/* Plain files: headers, small documents and records, directory listings.  Weights never come this way (io.h). */
#include "os/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void info_of(const struct stat *st, sl_file_info *out)
{
    *out = (sl_file_info){.size_bytes = (uint64_t)st->st_size,
                          .mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec,
                          .inode = st->st_ino,
                          .device = st->st_dev,
                          .is_dir = S_ISDIR(st->st_mode)};
}

sl_status sl_file_stat(const char *path, sl_file_info *out, sl_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return sl_fail_os(err, errno, "%s: cannot be opened", path);
    info_of(&st, out);
    return SL_OK;
}

/* Opens for reading; directories are refused by name rather than by the read that follows. */
static sl_status open_file(const char *path, int *fd, sl_file_info *info, sl_err *err)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return sl_fail_os(err, errno, "%s: cannot be opened", path);
    int why = fstat(*fd, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
    if (why) {
        close(*fd);
        return sl_fail_os(err, why, "%s: cannot be read", path);
    }
    info_of(&st, info);
    return SL_OK;
}

/* pread until n bytes, the end, or an error (-1). */
static ssize_t pread_full(int fd, char *dst, size_t n, uint64_t offset)
{
    size_t got = 0;
    while (got < n) {
        ssize_t k = pread(fd, dst + got, n - got, (off_t)(offset + got));
        if (k == 0) break;
        if (k > 0) got += (size_t)k;
        if (k < 0 && errno != EINTR) return -1;
    }
    return (ssize_t)got;
}

sl_status sl_file_read_at(const char *path, uint64_t offset, void *dst, size_t bytes, sl_err *err)
{
    int fd;
    sl_file_info info;
    uint64_t end;
    if (!sl_add_u64(offset, bytes, &end) || end > INT64_MAX)
        return sl_fail(err, SL_ERR_ARG, "%s: %zu bytes at offset %" PRIu64 " pass the largest file offset", path, bytes,
                       offset);
    sl_status rc = open_file(path, &fd, &info, err);
    if (rc != SL_OK) return rc;
    ssize_t got = pread_full(fd, dst, bytes, offset);
    if (got < 0)
        rc = sl_fail_os(err, errno, "%s: read of %zu bytes at offset %" PRIu64 " failed", path, bytes, offset);
    else if ((size_t)got < bytes)
        rc = sl_fail(err, SL_ERR_IO, "%s: the file ends at %" PRIu64 " bytes, %" PRIu64 " are needed", path,
                     offset + (uint64_t)got > info.size_bytes ? info.size_bytes : offset + (uint64_t)got, end);
    close(fd);
    return rc;
}

/* Reads to the end, at most max_bytes; pipes work too, so the size is not trusted. */
static sl_status read_to_end(const char *path, int fd, size_t max_bytes, sl_buf *b, sl_err *err)
{
    char chunk[16384];
    for (;;) {
        ssize_t k = read(fd, chunk, sizeof chunk);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return sl_fail_os(err, errno, "%s: cannot be read", path);
        if ((size_t)k > max_bytes - b->len)
            return sl_fail(err, SL_ERR_LIMIT, "%s: larger than the %zu bytes allowed for it", path, max_bytes);
        sl_buf_add(b, chunk, (size_t)k);
        if (b->failed) return sl_fail(err, SL_ERR_NOMEM, "%s: no memory to read it", path);
        if (k == 0) return SL_OK;
    }
}

sl_status sl_file_read_all(const char *path, size_t max_bytes, char **out, size_t *n_bytes, sl_err *err)
{
    int fd;
    sl_file_info info;
    sl_status rc = open_file(path, &fd, &info, err);
    if (rc != SL_OK) return rc;
    sl_buf b;
    sl_buf_init(&b, max_bytes);
    if (info.size_bytes > max_bytes)
        rc = sl_fail(err, SL_ERR_LIMIT, "%s: %" PRIu64 " bytes, at most %zu are allowed for it", path, info.size_bytes,
                     max_bytes);
    else
        rc = read_to_end(path, fd, max_bytes, &b, err);
    close(fd);
    if (rc != SL_OK) {
        sl_buf_free(&b);
        return rc;
    }
    *out = b.data;
    if (n_bytes) *n_bytes = b.len;
    return SL_OK;
}

/* ---- directories ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_name(char ***names, size_t *n, size_t *cap, const char *name)
{
    if (*n == *cap) {
        size_t grown = *cap ? *cap * 2 : 32;
        char **p = sl_realloc(*names, grown * sizeof *p);
        if (!p) return false;
        *names = p;
        *cap = grown;
    }
    (*names)[*n] = sl_strdup(name);
    if (!(*names)[*n]) return false;
    ++*n;
    return true;
}

sl_status sl_file_list(const char *dir, char ***names, size_t *n, sl_err *err)
{
    char **list = NULL;
    size_t count = 0, cap = 0;
    sl_status rc = SL_OK;
    DIR *d = opendir(dir);
    if (!d) return sl_fail_os(err, errno, "%s: cannot be listed", dir);
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (!e) {
            if (errno) rc = sl_fail_os(err, errno, "%s: cannot be listed", dir);
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (!add_name(&list, &count, &cap, e->d_name)) {
            rc = sl_fail(err, SL_ERR_NOMEM, "%s: no memory to list it", dir);
            break;
        }
    }
    closedir(d);
    if (rc != SL_OK) {
        sl_file_list_free(list, count);
        return rc;
    }
    if (count) qsort(list, count, sizeof *list, by_name);
    *names = list;
    *n = count;
    return SL_OK;
}

void sl_file_list_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sl_free(names[i]);
    sl_free(names);
}

/* ---- writing ---- */

/* Makes the directories of path, which is cut at each of them in turn. */
static sl_status make_parents(char *path, sl_err *err)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        int rc = mkdir(path, 0700), why = errno;
        sl_status bad = rc != 0 && why != EEXIST ? sl_fail_os(err, why, "%s: the directory cannot be made", path) : SL_OK;
        *at = '/';
        if (bad != SL_OK) return bad;
    }
    return SL_OK;
}

static int write_full(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno != EINTR) return errno;
        if (k > 0) p += k, n -= (size_t)k;
    }
    return 0;
}

static sl_status write_and_rename(const char *path, const char *other, const void *data, size_t bytes, sl_err *err)
{
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return sl_fail_os(err, errno, "%s: cannot be written", other);
    int why = write_full(fd, data, bytes);
    if (close(fd) != 0 && !why) why = errno;
    if (!why && rename(other, path) != 0) why = errno;
    if (!why) return SL_OK;
    unlink(other);
    return sl_fail_os(err, why, "%s: cannot be written", path);
}

sl_status sl_file_replace(const char *path, const void *data, size_t bytes, sl_err *err)
{
    size_t n = strlen(path) + 32;
    char *other = sl_malloc(n);
    if (!other) return sl_fail(err, SL_ERR_NOMEM, "no memory to write %s", path);
    snprintf(other, n, "%s.%ld", path, (long)getpid());
    sl_status rc = make_parents(other, err);
    if (rc == SL_OK) rc = write_and_rename(path, other, data, bytes, err);
    sl_free(other);
    return rc;
}
