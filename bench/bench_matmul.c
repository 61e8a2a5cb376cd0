/* Times the matrix kernels of the cpu backend by themselves: how near decoding (one token) comes to the memory's rate,
 * and how many multiply-adds a prefill makes.  Opens the room's inner doors on purpose; nothing else is timed.
 *
 *   bench_matmul [n_in n_out n_thread seconds [type [level]]]        defaults 2048 8192 2 0.3, all types, all levels
 *
 * decode   weights of at least 192 MB are gone through, so that caches do not help; GB/s of weight bytes
 * warm     the same matrix again and again; with one that fits a cache (say n_out 64) this is the kernel's own speed
 * prefill  warm, n_tok tokens; GMAC/s, and "x" = how much faster per token than one token warm
 * Every figure is the best of several passes: quote ratios between lines of one run, not the figures themselves. */
#include "backend/backend_int.h"
#include "backend/cpu/matmul_int.h"

#include <stdio.h>
#include <stdlib.h>

enum { COLD_BYTES = 192 << 20, MAX_TOK = 512 };

typedef struct {
    sl_backend b;
    const sl_type_info *type;
    sl_block weights;
    sl_matrix *m; /* [n_m], one behind the other */
    uint32_t n_m;
    float *x, *y;
    double seconds;
} bench;

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "error: no memory\n");
        exit(1);
    }
    return p;
}

static void open_backend(bench *t, sl_cpu_level level, uint32_t n_in, uint32_t n_thread)
{
    sl_err err = {0};
    t->b = (sl_backend){
        .opt = {.kind = SL_BACKEND_CPU, .level = level, .n_thread = n_thread, .max_tok = MAX_TOK, .max_in = n_in}};
    if (sl_pool_open(&t->b.pool, n_thread, &err) != SL_OK ||
        sl_block_open(&t->b.scratch, NULL, SL_MEM_SCRATCH, sl_cpu_matmul_scratch_bytes(&t->b.opt), SL_BLOCK_HUGE,
                      "scratch", &err) != SL_OK) {
        fprintf(stderr, "error: %s\n", err.msg);
        exit(1);
    }
    t->b.act = t->b.scratch.ptr;
}

static void close_backend(bench *t)
{
    sl_pool_close(t->b.pool);
    sl_block_close(&t->b.scratch);
}

/* Random weights with plausible scales in every 16-bit word: the kernels' speed does not depend on values. */
static void fill(uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        uint32_t r = (uint32_t)i * 2654435761u >> 11;
        p[i] = (uint8_t)r;
        p[i + 1] = (uint8_t)(0x20 | (r >> 8 & 0x8f));
    }
}

static void open_weights(bench *t, sl_type type, uint32_t n_in, uint32_t n_out)
{
    sl_err err = {0};
    t->type = sl_type_find((uint32_t)type);
    uint64_t row_bytes = n_in / t->type->block * t->type->block_bytes, bytes = row_bytes * n_out;
    t->n_m = (uint32_t)(COLD_BYTES / bytes) + 1;
    if (sl_block_open(&t->weights, NULL, SL_MEM_RESIDENT, bytes * t->n_m, SL_BLOCK_HUGE, "weights", &err) != SL_OK) {
        fprintf(stderr, "error: %s\n", err.msg);
        exit(1);
    }
    fill(t->weights.ptr, bytes * t->n_m);
    t->m = must(calloc(t->n_m, sizeof *t->m));
    for (uint32_t i = 0; i < t->n_m; i++) {
        t->m[i] = (sl_matrix){.type = t->type, .n_in = n_in, .n_out = n_out, .row_bytes = row_bytes, .n_part = 1};
        t->m[i].part[0].data = t->weights.ptr + i * bytes;
        t->m[i].part[0].n_row = n_out;
    }
}

/* Seconds of the best pass over n_m matrices. */
static double best(bench *t, uint32_t n_m, uint32_t n_tok)
{
    double least = 1e9, start = sl_now_s();
    do {
        double from = sl_now_s();
        for (uint32_t i = 0; i < n_m; i++) {
            sl_product p = {&t->m[i], t->y, t->m[i].n_out};
            sl_cpu_matmul(&t->b, &p, 1, t->x, t->m[i].n_in, n_tok);
        }
        double took = sl_now_s() - from;
        if (took < least) least = took;
    } while (sl_now_s() - start < t->seconds);
    return least;
}

static void run(bench *t, sl_type type, sl_cpu_level level, uint32_t n_in, uint32_t n_out, uint32_t n_thread)
{
    static const uint32_t n_tok[] = {2, 4, 8, 32, MAX_TOK};
    open_weights(t, type, n_in, n_out);
    open_backend(t, level, n_in, n_thread);
    double bytes = (double)t->m[0].row_bytes * n_out, macs = (double)n_in * n_out;
    double one = best(t, t->n_m, 1) / t->n_m, warm = best(t, 1, 1);
    printf("%-5s %-9s decode %5.1f GB/s (%5.1f warm)  prefill", t->type->name, sl_cpu_level_name(level),
           bytes / one / 1e9, bytes / warm / 1e9);
    for (size_t i = 0; i < sizeof n_tok / sizeof *n_tok; i++) {
        double s = best(t, 1, n_tok[i]);
        printf("  %3u: %6.1f (x %4.1f)", n_tok[i], macs * n_tok[i] / s / 1e9, warm * n_tok[i] / s);
    }
    printf("\n");
    fflush(stdout);
    close_backend(t);
    sl_block_close(&t->weights);
    free(t->m);
}

int main(int argc, char **argv)
{
    static const sl_type types[] = {
#define SL_MM_TYPE(type, name, rule) type,
#include "backend/cpu/matmul_list.inc"
#undef SL_MM_TYPE
    };
    uint32_t n_in = argc > 1 ? (uint32_t)atoi(argv[1]) : 2048, n_out = argc > 2 ? (uint32_t)atoi(argv[2]) : 8192;
    uint32_t n_thread = argc > 3 ? (uint32_t)atoi(argv[3]) : 2;
    bench t = {.seconds = argc > 4 ? atof(argv[4]) : 0.3};
    t.x = must(malloc((size_t)MAX_TOK * n_in * sizeof(float)));
    t.y = must(malloc((size_t)MAX_TOK * n_out * sizeof(float)));
    for (size_t i = 0; i < (size_t)MAX_TOK * n_in; i++)
        t.x[i] = (float)(i * 37 % 255) / 127 - 1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (sl_cpu_level l = SL_CPU_PORTABLE; l <= SL_CPU_AVX512; l++) {
            const sl_type_info *type = sl_type_find((uint32_t)types[i]);
            if (!sl_cpu_has(l) || n_in % type->block) continue;
            if (argc > 5 && strcmp(argv[5], type->name) != 0) continue;
            if (argc > 6 ? strcmp(argv[6], sl_cpu_level_name(l)) != 0 : l == SL_CPU_PORTABLE && n_out > 1024) continue;
            run(&t, types[i], l, n_in, n_out, n_thread);
        }
    free(t.x);
    free(t.y);
    return 0;
}
