/* See npy.h.  Format: "\x93NUMPY", version 1 0, length of the text as uint16, a Python dictionary padded with blanks to
 * a multiple of 64 bytes and ended by a newline (numpy.lib.format). */
#include "cli/npy.h"

#include <string.h>

bool cli_npy_header(FILE *f, size_t n_row, size_t n_col)
{
    enum { PREFIX_BYTES = 10, HEADER_BYTES = 128 };
    static const unsigned char prefix[PREFIX_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, HEADER_BYTES - PREFIX_BYTES,
                                                       0};
    char header[HEADER_BYTES], shape[48];
    if (n_row)
        snprintf(shape, sizeof shape, "(%zu, %zu)", n_row, n_col);
    else
        snprintf(shape, sizeof shape, "(%zu,)", n_col);
    memcpy(header, prefix, PREFIX_BYTES);
    int n = snprintf(header + PREFIX_BYTES, HEADER_BYTES - PREFIX_BYTES,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    memset(header + PREFIX_BYTES + n, ' ', (size_t)(HEADER_BYTES - PREFIX_BYTES - n));
    header[HEADER_BYTES - 1] = '\n';
    return fwrite(header, 1, HEADER_BYTES, f) == HEADER_BYTES;
}

bool cli_npy_row(FILE *f, const float *row, size_t n_col)
{
    return fwrite(row, sizeof *row, n_col, f) == n_col;
}
