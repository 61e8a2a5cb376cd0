/* Inside the room: what cgroup.c finds out for machine.c. */
#ifndef SL_OS_INT_H
#define SL_OS_INT_H

#include "os/os.h"

/* root stands for "/" in every path that is read ("" is the real one). */

/* Least of limit minus usage over the memory cgroups of this process and all their ancestors; UINT64_MAX: no limit. */
uint64_t sl_cgroup_spare_bytes(const char *root);
/* Least CPU quota in whole processors (at least 1) over the same; UINT32_MAX: no limit. */
uint32_t sl_cgroup_cpus(const char *root);

/* A small text file (proc, cgroup) as a string for sl_free; NULL when it cannot be read. */
char *sl_text_at(const char *root, const char *path);
/* The number that follows "name" at the start of a line ("MemAvailable:", "inactive_file"). */
bool sl_text_number(const char *text, const char *name, uint64_t *out);

#endif
