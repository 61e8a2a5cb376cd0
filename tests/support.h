/* Helpers that several C tests share: fixtures in, differences out. */
#ifndef SL_TEST_SUPPORT_H
#define SL_TEST_SUPPORT_H

#include "sluice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka wants these first */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Comma or blank separated integers of a file; the caller frees. */
int32_t *support_read_ids(const char *path, size_t *n);
/* Raw little-endian float32; the caller frees. */
float *support_read_f32(const char *path, size_t *n);
/* sqrt(sum (a-b)^2 / sum b^2) */
double support_relative_l2(const float *a, const float *b, size_t n);
bool support_exists(const char *path);

/* Options for tests: no log, silent. */
void support_engine_options(sl_engine_options *o);

/* Collects logits rows of sl_session_feed_all. */
typedef struct {
    float *rows;
    size_t n_vocab, n;
} support_rows;
bool support_collect(void *user, size_t i, const float *logits);

/* Fails the test with the library's message when rc is not OK. */
#define ASSERT_OK(rc, err)                                                                                             \
    do {                                                                                                               \
        if ((rc) != SL_OK) fail_msg("%s", (err).msg);                                                                  \
    } while (0)

#endif
