/* A made-up model for the tests of room stream: tensors in one to three files with awkward offsets and gaps, units of
 * their rows, a table.  Byte o of file f is a fixed function of (f, o), so expectations need no copy of anything. */
#ifndef STREAM_WORLD_H
#define STREAM_WORLD_H

#include "stream/stream.h"

typedef struct {
    uint64_t state;
} world_rng;
uint64_t world_random(world_rng *r);
uint64_t world_below(world_rng *r, uint64_t n); /* 0 .. n-1 */

enum { WORLD_FILES = 3, WORLD_TENSORS = 512, WORLD_UNITS = 96 };

typedef struct {
    uint32_t n_file, n_tensor, n_unit, n_rows;
    uint64_t file_bytes[WORLD_FILES];
    sl_tensor tensors[WORLD_TENSORS];
    char names[WORLD_TENSORS][24];
    sl_unit_rows rows[WORLD_TENSORS];
    sl_unit units[WORLD_UNITS];
    const sl_tensor *table;
    uint32_t table_n_in;
    bool tied;
} world;

/* Building blocks; gap is left free in front of the tensor. */
void world_begin(world *w, uint32_t n_file);
sl_tensor *world_tensor(world *w, uint32_t file, uint64_t gap, uint32_t type, uint32_t n_in, uint32_t n_row);
void world_unit(world *w); /* starts a unit; rows are then added to it */
void world_rows(world *w, const sl_tensor *t, uint32_t n_in, uint32_t first_row, uint32_t n_row);

/* A seeded one: layers of one to nine tensors, a head cut into blocks of rows, a table that is tied or not. */
void world_make(world *w, uint64_t seed);
sl_residency_options world_options(const world *w, uint32_t align);

uint8_t world_byte(uint32_t file, uint64_t offset);
void world_fill(uint8_t *dst, uint32_t file, uint64_t offset, uint64_t bytes);
/* First offset at which p [bytes] is not what the file has, or bytes. */
uint64_t world_compare(const uint8_t *p, uint32_t file, uint64_t offset, uint64_t bytes);
uint64_t world_unit_bytes(const world *w, uint32_t unit);
uint64_t world_max_row_bytes(const world *w);

/* True when views are exactly the unit's rows; prints what is not. */
bool world_check_views(const world *w, uint32_t unit, const sl_matrix *views);

#endif
