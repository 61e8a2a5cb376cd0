/* Status, message and log: how a failing call says what, where, and which number broke which bound. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* Formats beside err first, so that err->msg may be one of the arguments ("while loading X: %s"). */
static sl_status fail_v(sl_err *err, sl_status code, int os_errno, const char *fmt, va_list ap)
{
    if (!err) return code;
    char msg[sizeof err->msg];
    vsnprintf(msg, sizeof msg, fmt, ap);
    err->code = code;
    err->os_errno = os_errno;
    memcpy(err->msg, msg, sizeof msg);
    return code;
}

sl_status sl_fail(sl_err *err, sl_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_v(err, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

sl_status sl_fail_os(sl_err *err, int os_errno, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_v(err, SL_ERR_IO, os_errno, fmt, ap);
    va_end(ap);
    if (!err) return SL_ERR_IO;
    char reason[128];
    size_t used = strlen(err->msg);
    snprintf(err->msg + used, sizeof err->msg - used, ": %s", strerror_r(os_errno, reason, sizeof reason));
    return SL_ERR_IO;
}

static void log_v(const sl_log *log, sl_log_level level, const char *fmt, va_list ap)
{
    if (!log || !log->fn) return;
    char msg[768];
    vsnprintf(msg, sizeof msg, fmt, ap);
    log->fn(log->user, level, msg);
}

void sl_note(const sl_log *log, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    log_v(log, SL_LOG_NOTE, fmt, ap);
    va_end(ap);
}

void sl_warn(const sl_log *log, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    log_v(log, SL_LOG_WARNING, fmt, ap);
    va_end(ap);
}

const char *sl_size_text(uint64_t bytes, char buf[24])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        snprintf(buf, 24, "%u B", (unsigned)bytes);
        return buf;
    }
    double v = (double)bytes / 1e3;
    size_t i = 0;
    while (v >= 999.95 && i < sizeof units / sizeof units[0] - 1) { /* what would print as 1000.0 takes the next unit */
        v /= 1e3;
        i++;
    }
    snprintf(buf, 24, i < 2 ? "%.1f %s" : "%.2f %s", v, units[i]); /* budgets are compared in GB: one digit more */
    return buf;
}
