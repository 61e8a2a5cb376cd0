/* Limits that control groups put on this process, versions 1 and 2 side by side (hybrid systems have both).
 *
 * /proc/self/cgroup names the group per hierarchy, /proc/self/mountinfo where the hierarchies are mounted and which
 * part of them is visible there.  A limit of any ancestor counts, so the walk goes from the group up to the mount
 * point.  In a container the named group often is not visible below the mount: then the mount point itself is the
 * group. */
#include "os/os_int.h"

#include "os/io.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TEXT_BYTES ((size_t)4 << 20)   /* mountinfo of a busy container host */
#define V1_NO_LIMIT    ((uint64_t)1 << 60) /* version 1 writes "none" as a number just below 2^63 */

char *sl_text_at(const char *root, const char *path)
{
    char full[PATH_MAX], *text;
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof full) return NULL;
    return sl_file_read_all(full, MAX_TEXT_BYTES, &text, NULL, NULL) == SL_OK ? text : NULL;
}

bool sl_text_number(const char *text, const char *name, uint64_t *out)
{
    size_t n = strlen(name);
    for (const char *p = text; p; p = strchr(p, '\n'), p += p != NULL)
        if (strncmp(p, name, n) == 0) {
            char *end;
            p += n + strspn(p + n, " \t");
            *out = strtoull(p, &end, 10);
            return end != p && *p != '-';
        }
    return false;
}

/* A file that holds one number; "max", "-1" and anything unreadable are false. */
static bool number_in(const char *root, const char *dir, const char *file, uint64_t *out)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    char *text = n > 0 && (size_t)n < sizeof path ? sl_text_at(root, path) : NULL;
    bool ok = text && sl_text_number(text, "", out);
    sl_free(text);
    return ok;
}

static uint64_t stat_field(const char *root, const char *dir, const char *field)
{
    char path[PATH_MAX];
    uint64_t v = 0;
    int n = snprintf(path, sizeof path, "%s/memory.stat", dir);
    char *text = n > 0 && (size_t)n < sizeof path ? sl_text_at(root, path) : NULL;
    if (text && !sl_text_number(text, field, &v)) v = 0;
    sl_free(text);
    return v;
}

/* ---- where the groups are ---- */

/* mountinfo writes blanks and backslashes in paths as \ooo. */
static void unescape_octal(char *s)
{
    char *to = s;
    for (; *s; to++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 4;
        } else {
            *to = *s++;
        }
    }
    *to = 0;
}

/* Is word one of the comma-separated words of list [n]? */
static bool has_word(const char *list, size_t n, const char *word)
{
    size_t w = strlen(word);
    for (const char *p = list, *end = list + n; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t len = (size_t)((comma ? comma : end) - p);
        if (len == w && memcmp(p, word, w) == 0) return true;
        p += len + 1;
    }
    return false;
}

/* The group's path from /proc/self/cgroup: "4:memory:/a/b" for a controller of version 1, "0::/a/b" for version 2
 * (controller NULL). */
static bool group_path(const char *groups, const char *controller, char path[PATH_MAX])
{
    for (const char *line = groups, *next; line && *line; line = next) {
        const char *eol = strchr(line, '\n');
        next = eol ? eol + 1 : NULL;
        const char *end = eol ? eol : line + strlen(line);
        const char *c1 = memchr(line, ':', (size_t)(end - line));
        const char *c2 = c1 ? memchr(c1 + 1, ':', (size_t)(end - c1 - 1)) : NULL;
        if (!c2) continue;
        bool unified = c2 == c1 + 1 && *line == '0';
        if (controller ? !has_word(c1 + 1, (size_t)(c2 - c1 - 1), controller) : !unified) continue;
        size_t n = (size_t)(end - c2 - 1);
        if (n >= PATH_MAX) return false;
        memcpy(path, c2 + 1, n);
        path[n] = 0;
        return true;
    }
    return false;
}

/* One line of mountinfo: "36 35 98:0 /root /mount/point opts optional... - type source superopts". */
static bool parse_mount(char *line, const char *controller, char **mount_root, char **mount_point)
{
    char *dash = strstr(line, " - ");
    if (!dash) return false;
    char *save, *type = strtok_r(dash + 3, " ", &save);
    char *source = strtok_r(NULL, " ", &save), *super = strtok_r(NULL, " ", &save);
    if (!type || !source || strcmp(type, controller ? "cgroup" : "cgroup2") != 0) return false;
    if (controller && (!super || !has_word(super, strlen(super), controller))) return false;
    *dash = 0;
    char *field = strtok_r(line, " ", &save);
    for (int i = 0; i < 3 && field; i++)
        field = strtok_r(NULL, " ", &save);
    *mount_root = field;
    *mount_point = field ? strtok_r(NULL, " ", &save) : NULL;
    if (!*mount_point) return false;
    unescape_octal(*mount_root);
    unescape_octal(*mount_point);
    return true;
}

typedef struct {
    char dir[PATH_MAX]; /* the group's folder */
    size_t n_mount;     /* length of the part that is the mount point: the walk ends there */
} group;

/* Joins mount point and group.  False when the group is not visible there; g is then the mount point itself. */
static bool place(const char *root, const char *mount_root, const char *mount_point, const char *path, group *g)
{
    char full[2 * PATH_MAX];
    size_t skip = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    bool below = strncmp(path, mount_root, skip) == 0 && (path[skip] == '/' || !path[skip]) && !strstr(path, "/..");
    const char *rest = below && strcmp(path + skip, "/") != 0 ? path + skip : "";
    g->n_mount = strlen(mount_point);
    int n = snprintf(g->dir, sizeof g->dir, "%s%s", mount_point, rest);
    bool fits = n > 0 && (size_t)n < sizeof g->dir;
    snprintf(full, sizeof full, "%s%s", root, g->dir);
    if (below && fits && access(full, F_OK) == 0) return true;
    g->dir[g->n_mount] = 0;
    return false;
}

/* Searches mountinfo for the hierarchy; of several mounts, the first that shows the group, else the first. */
static bool search_mounts(const char *root, char *mounts, const char *controller, const char *path, group *g)
{
    bool found = false;
    group candidate;
    for (char *line = mounts, *next; line; line = next) {
        char *mount_root, *mount_point, *eol = strchr(line, '\n');
        next = eol ? eol + 1 : NULL;
        if (eol) *eol = 0;
        if (!parse_mount(line, controller, &mount_root, &mount_point)) continue;
        if (strlen(mount_point) >= sizeof candidate.dir) continue;
        bool visible = place(root, mount_root, mount_point, path, &candidate);
        if (visible || !found) *g = candidate;
        found = true;
        if (visible) break;
    }
    return found;
}

/* Finds this process's group in the hierarchy of controller (version 1) or the unified one (NULL). */
static bool find_group(const char *root, const char *controller, group *g)
{
    char path[PATH_MAX];
    char *groups = sl_text_at(root, "/proc/self/cgroup");
    char *mounts = groups ? sl_text_at(root, "/proc/self/mountinfo") : NULL;
    bool found = mounts && group_path(groups, controller, path) && search_mounts(root, mounts, controller, path, g);
    sl_free(mounts);
    sl_free(groups);
    return found;
}

/* From a group to its parent; false when g is the mount point already. */
static bool go_up(group *g)
{
    if (!g->dir[g->n_mount]) return false;
    char *slash = strrchr(g->dir + g->n_mount, '/');
    if (!slash) return false;
    *slash = 0;
    return true;
}

/* ---- memory ---- */

static uint64_t spare_below(uint64_t limit, uint64_t usage, uint64_t reclaimable)
{
    usage -= sl_min_u64(reclaimable, usage);
    return limit > usage ? limit - usage : 0;
}

static uint64_t spare_v2(const char *root, const char *dir)
{
    uint64_t max = UINT64_MAX, high = UINT64_MAX, usage = 0;
    if (!number_in(root, dir, "memory.max", &max)) max = UINT64_MAX;
    if (!number_in(root, dir, "memory.high", &high)) high = UINT64_MAX; /* above it the kernel slows the process down */
    uint64_t limit = sl_min_u64(max, high);
    if (limit == UINT64_MAX || !number_in(root, dir, "memory.current", &usage)) return limit;
    return spare_below(limit, usage, stat_field(root, dir, "inactive_file "));
}

static uint64_t spare_v1(const char *root, const char *dir)
{
    uint64_t limit, usage;
    if (!number_in(root, dir, "memory.limit_in_bytes", &limit) || limit >= V1_NO_LIMIT) return UINT64_MAX;
    if (!number_in(root, dir, "memory.usage_in_bytes", &usage)) return limit;
    return spare_below(limit, usage, stat_field(root, dir, "total_inactive_file "));
}

uint64_t sl_cgroup_spare_bytes(const char *root)
{
    group g;
    uint64_t spare = UINT64_MAX;
    for (bool more = find_group(root, NULL, &g); more; more = go_up(&g))
        spare = sl_min_u64(spare, spare_v2(root, g.dir));
    for (bool more = find_group(root, "memory", &g); more; more = go_up(&g))
        spare = sl_min_u64(spare, spare_v1(root, g.dir));
    return spare;
}

/* ---- processors ---- */

static uint32_t whole_cpus(uint64_t quota, uint64_t period)
{
    if (!period) return UINT32_MAX;
    uint64_t n = quota / period;
    return n < 1 ? 1 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* cpu.max is "quota period" or "max period", in microseconds. */
static uint32_t cpus_v2(const char *root, const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/cpu.max", dir);
    char *text = n > 0 && (size_t)n < sizeof path ? sl_text_at(root, path) : NULL;
    uint64_t quota, period;
    bool limited = text && sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) == 2;
    sl_free(text);
    return limited ? whole_cpus(quota, period) : UINT32_MAX;
}

static uint32_t cpus_v1(const char *root, const char *dir)
{
    uint64_t quota, period; /* a quota of -1 means none and does not parse as a number here */
    if (!number_in(root, dir, "cpu.cfs_quota_us", &quota) || !number_in(root, dir, "cpu.cfs_period_us", &period))
        return UINT32_MAX;
    return whole_cpus(quota, period);
}

uint32_t sl_cgroup_cpus(const char *root)
{
    group g;
    uint32_t n = UINT32_MAX, m;
    for (bool more = find_group(root, NULL, &g); more; more = go_up(&g)) {
        m = cpus_v2(root, g.dir);
        n = m < n ? m : n;
    }
    for (bool more = find_group(root, "cpu", &g); more; more = go_up(&g)) {
        m = cpus_v1(root, g.dir);
        n = m < n ? m : n;
    }
    return n;
}
