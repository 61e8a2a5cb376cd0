/* Writes NumPy's file format, version 1.0: float32, C order. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The header of an array [n_row][n_col], or of a vector [n_col] when n_row is 0.  The data follow as they are in memory
 * (little-endian).  False when the write fails. */
bool cli_npy_header(FILE *f, size_t n_row, size_t n_col);
bool cli_npy_row(FILE *f, const float *row, size_t n_col);

#endif
