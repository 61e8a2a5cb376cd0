/* Numbers, sizes and lists as people write them.  Strict: the whole text must be the value, so that a typing error is
 * an error and not another number. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "12", "1.5", ".5": length of the number at the start of text, 0 when there is none. */
static size_t decimal_length(const char *text)
{
    size_t whole = 0, n, fraction = 0;
    while (is_digit(text[whole]))
        whole++;
    n = whole;
    if (text[n] == '.') {
        n++;
        while (is_digit(text[n]))
            n++, fraction++;
    }
    return whole + fraction ? n : 0;
}

bool cli_parse_u64(const char *text, uint64_t *value)
{
    uint64_t v = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (!is_digit(*text) || __builtin_mul_overflow(v, 10u, &v)) return false;
        if (__builtin_add_overflow(v, (uint64_t)(*text - '0'), &v)) return false;
    }
    *value = v;
    return true;
}

bool cli_parse_double(const char *text, double *value)
{
    const char *p = text + (*text == '-');
    size_t n = decimal_length(p);
    if (!n) return false;
    if (p[n] == 'e' || p[n] == 'E') {
        const char *digits = p + n + 1 + (p[n + 1] == '-' || p[n + 1] == '+');
        if (!is_digit(*digits)) return false;
        while (is_digit(*digits))
            digits++;
        n = (size_t)(digits - p);
    }
    if (p[n]) return false;
    *value = strtod(text, NULL);
    return isfinite(*value);
}

/* 1 for no unit; 0 for an unknown one. */
static uint64_t unit_bytes(const char *unit)
{
    static const char letters[] = "kmgt";
    uint64_t binary = 1024, decimal = 1000;
    if (!*unit || strcasecmp(unit, "b") == 0) return 1;
    for (const char *l = letters; *l; l++, binary *= 1024, decimal *= 1000) {
        if ((*unit | 0x20) != *l) continue;
        if (!unit[1] || strcasecmp(unit + 1, "ib") == 0) return binary;
        return strcasecmp(unit + 1, "b") == 0 ? decimal : 0;
    }
    return 0;
}

bool cli_parse_size(const char *text, uint64_t *bytes)
{
    size_t n = decimal_length(text);
    uint64_t unit = n ? unit_bytes(text + n) : 0;
    if (!unit || n > 40) return false;
    /* long double: 64 bits of precision, so whole numbers of bytes stay exact */
    long double v = strtold(text, NULL) * (long double)unit;
    if (!(v < 0x1p63L)) return false;
    *bytes = (uint64_t)v;
    return true;
}

static bool parse_id(const char **p, int32_t *id)
{
    char *end;
    while (**p == ' ')
        ++*p;
    if (!is_digit(**p)) return false;
    errno = 0;
    unsigned long long v = strtoull(*p, &end, 10);
    if (errno || v > INT32_MAX) return false;
    while (*end == ' ' || *end == '\n')
        end++;
    *p = end;
    *id = (int32_t)v;
    return true;
}

bool cli_parse_ids(const char *text, int32_t **ids, size_t *n)
{
    size_t count = 1;
    for (const char *p = text; *p; p++)
        count += *p == ',';
    *ids = malloc(count * sizeof **ids);
    *n = 0;
    if (!*ids) return false;
    if (!text[strspn(text, " \n")]) return true;
    for (const char *p = text; *n < count; p++) {
        if (!parse_id(&p, &(*ids)[*n]) || (*p && *p != ',')) break;
        ++*n;
        if (!*p) return true;
    }
    free(*ids);
    *ids = NULL;
    return false;
}

const char *cli_size_text(uint64_t bytes, char buf[24])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes / 1024;
    size_t u = 0;
    while (v >= 1000 && u + 1 < sizeof units / sizeof *units)
        v /= 1024, u++;
    if (bytes < 1024)
        snprintf(buf, 24, "%u B", (unsigned)bytes);
    else
        snprintf(buf, 24, "%.*f %s", v < 100 ? 1 : 0, v, units[u]);
    return buf;
}
