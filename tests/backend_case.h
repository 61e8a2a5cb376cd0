/* Operation cases for the backends: one list per test file is conformance test and benchmark.
 *
 * bc_check() runs a case on every backend this machine has: scalar, and cpu at each level with 1, 2, 3 and 5 threads.
 *   scalar    against the case's own expectation in double precision
 *   cpu       against scalar, within the case's tolerance
 *   cpu       every level and thread count bit by bit the same, whole, token by token, and in two uneven batches
 * Outputs are poisoned before, and what lies between their rows must still be poison afterwards. */
#ifndef BACKEND_CASE_H
#define BACKEND_CASE_H

#include "backend/backend.h"

/* cmocka wants these first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { BC_MAX_TOK = 160, BC_MAX_IN = 2048, BC_MAX_HEAD_DIM = 256, BC_MAX_BACKENDS = 16 };

typedef struct bc_case bc_case;
struct bc_case {
    char name[128];
    uint32_t n_tok, n_out;
    /* Tokens [first, first + n) of the case into rows of out, n_out floats each, ld from row to row. */
    void (*run)(const bc_case *c, sl_backend *b, uint32_t first, uint32_t n, float *out, size_t ld);
    void (*expect)(const bc_case *c, uint32_t tok, double *out); /* NULL: none */
    double tol_scalar, tol_cpu;                                  /* relative L2; tol_cpu 0: the very bits of scalar */
    const void *operands;
};

typedef struct {
    sl_backend *b;
    sl_cpu_level level;
    uint32_t n_thread;
    char name[32];
} bc_backend;

/* cmocka group fixtures */
int bc_open(void **state);
int bc_close(void **state);
sl_backend *bc_scalar(void);
/* All cpu backends; the first is portable with one thread. */
const bc_backend *bc_cpu(size_t *n);

void bc_check(const bc_case *c);
/* Prints nanoseconds per call for each cpu level with one and two threads. */
void bc_bench(const bc_case *c);

/* ---- numbers ---- */
typedef struct {
    uint64_t state;
} bc_rng;
uint64_t bc_random(bc_rng *r);
float bc_uniform(bc_rng *r, float lo, float hi);
/* n floats, roughly normal with deviation 1. */
void bc_fill(bc_rng *r, float *x, size_t n);
float bc_float(uint32_t bits);
uint32_t bc_bits(float f);
/* Bit-equal, or both NaN. */
bool bc_same(float a, float b);
double bc_f16_to_double(uint16_t h);
/* Nearest float16, ties to even, by arithmetic in double. */
uint16_t bc_f16_from_double(double x);

#endif
