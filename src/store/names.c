/* Names: of tensors and keys (order, lookup, what may be in one), and how hostile text is shown in a message. */
#include "store/store_int.h"

#include <stdlib.h>
#include <string.h>

static const char *name_at(const sl_name_index *x, size_t i)
{
    const char *name;
    memcpy(&name, (const uint8_t *)x->items + i * x->stride, sizeof name); /* first member of every item */
    return name;
}

/* Equal names stay in the order of their items, so that what a message says does not depend on the sort. */
static int by_name(const void *a, const void *b, void *index)
{
    uint32_t i, j;
    memcpy(&i, a, sizeof i);
    memcpy(&j, b, sizeof j);
    int c = strcmp(name_at(index, i), name_at(index, j));
    return c ? c : (i > j) - (i < j);
}

sl_status sl_name_index_build(sl_name_index *x, const void *items, size_t stride, size_t n, sl_err *err)
{
    uint32_t *order = sl_malloc(n * sizeof *order);
    if (!order) return sl_fail(err, SL_ERR_NOMEM, "no memory for an index of %zu names", n);
    sl_name_index_free(x);
    *x = (sl_name_index){.items = items, .stride = stride, .n = n, .order = order};
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof *order, by_name, x);
    return SL_OK;
}

void sl_name_index_free(sl_name_index *x)
{
    sl_free(x->order);
    *x = (sl_name_index){0};
}

size_t sl_name_index_find(const sl_name_index *x, const char *name)
{
    size_t low = 0, high = x->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = strcmp(name, name_at(x, x->order[mid]));
        if (c == 0) return x->order[mid];
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return SIZE_MAX;
}

bool sl_name_index_group(const sl_name_index *x, size_t *from, size_t *n)
{
    for (size_t i = *from; i + 1 < x->n; i++) {
        const char *name = name_at(x, x->order[i]);
        size_t k = 1;
        while (i + k < x->n && strcmp(name, name_at(x, x->order[i + k])) == 0)
            k++;
        if (k == 1) continue;
        *from = i;
        *n = k;
        return true;
    }
    return false;
}

const char *sl_name_fault(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)name[i] < 0x20 || name[i] == 0x7f) return "holds a control character";
    return sl_utf8_valid_prefix(name, n) == n ? NULL : "is not valid UTF-8";
}

const char *sl_show(const char *s, size_t n, char buf[64])
{
    size_t shown = n < 60 ? n : 60;
    for (size_t i = 0; i < shown; i++)
        buf[i] = s[i] >= 0x20 && s[i] < 0x7f ? s[i] : '?';
    memcpy(buf + shown, "...", 4);
    if (n <= 60) buf[shown] = 0;
    return buf;
}

const char *sl_show_path(const char *path)
{
    size_t n = strlen(path), most = 240; /* of the 768 bytes a message has */
    if (n <= most) return path;
    const char *slash = strchr(path + n - most, '/');
    return slash ? slash + 1 : path + n - most;
}

/* ---- file names ---- */

bool sl_has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name), k = strlen(suffix);
    return n >= k && strcasecmp(name + n - k, suffix) == 0;
}

static bool five_digits(const char *s, uint32_t *v)
{
    *v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        *v = *v * 10 + (uint32_t)(s[i] - '0');
    }
    return true;
}

bool sl_shard_name(const char *name, const char *suffix, size_t *prefix, uint32_t *no, uint32_t *count)
{
    size_t tail = strlen("-00001-of-00003") + strlen(suffix), n = strlen(name);
    if (n < tail || !sl_has_suffix(name, suffix)) return false;
    const char *p = name + n - tail;
    if (p[0] != '-' || !five_digits(p + 1, no) || memcmp(p + 6, "-of-", 4) != 0 || !five_digits(p + 10, count))
        return false;
    *prefix = n - tail;
    return *no >= 1 && *no <= *count;
}

/* Parts of a multimodal checkpoint and adapters lie beside the model and are not it.  The words are FlatRun's list, and
 * those of files that were seen since. */
bool sl_is_helper_name(const char *name)
{
    static const char *const words[] = {"mmproj",     "mm-proj", "mm_proj", "vision",  "clip",
                                        "projection", "imgproj", "imatrix", "adapter", "consolidated"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(name, words[i])) return true;
    return false;
}

char *sl_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir), k = strlen(name);
    bool slash = n > 0 && dir[n - 1] != '/';
    char *p = sl_malloc(n + slash + k + 1);
    if (!p) return NULL;
    memcpy(p, dir, n);
    if (slash) p[n] = '/';
    memcpy(p + n + slash, name, k + 1);
    return p;
}
