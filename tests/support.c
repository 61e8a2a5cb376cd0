#include "support.h"

#include <math.h>
#include <sys/stat.h>

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *buf = malloc((size_t)size + 1);
    if (!buf || fread(buf, 1, (size_t)size, f) != (size_t)size) fail_msg("cannot read %s", path);
    fclose(f);
    buf[size] = 0;
    *n = (size_t)size;
    return buf;
}

int32_t *support_read_ids(const char *path, size_t *n)
{
    size_t bytes;
    char *text = read_all(path, &bytes), *p = text;
    int32_t *ids = malloc((bytes + 1) * sizeof *ids);
    *n = 0;
    while (*p) {
        char *end;
        long v = strtol(p, &end, 10);
        if (end == p) {
            p++;
            continue;
        }
        ids[(*n)++] = (int32_t)v;
        p = end;
    }
    free(text);
    return ids;
}

float *support_read_f32(const char *path, size_t *n)
{
    size_t bytes;
    float *v = (float *)(void *)read_all(path, &bytes);
    *n = bytes / sizeof(float);
    return v;
}

double support_relative_l2(const float *a, const float *b, size_t n)
{
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        diff += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(diff / norm);
}

bool support_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

void support_engine_options(sl_engine_options *o)
{
    sl_engine_options_init(o);
    o->ctx_tok = 128;
}

bool support_collect(void *user, size_t i, const float *logits)
{
    support_rows *r = user;
    (void)i;
    memcpy(r->rows + r->n * r->n_vocab, logits, r->n_vocab * sizeof(float));
    r->n++;
    return true;
}
