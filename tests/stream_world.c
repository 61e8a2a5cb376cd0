/* See stream_world.h. */
#include "stream_world.h"

#include <stdio.h>
#include <string.h>

uint64_t world_random(world_rng *r)
{
    uint64_t z = (r->state += 0x9E3779B97F4A7C15u); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t world_below(world_rng *r, uint64_t n)
{
    return world_random(r) % n;
}

/* ---- bytes ---- */

/* Cheap, since most of the tests' time is spent here; odd steps make every word of a file different. */
static uint64_t word_at(uint32_t file, uint64_t i)
{
    uint64_t z = i * 0x9E3779B97F4A7C15u + file;
    return z ^ z >> 32;
}

uint8_t world_byte(uint32_t file, uint64_t offset)
{
    return (uint8_t)(word_at(file, offset / 8) >> (offset % 8 * 8));
}

void world_fill(uint8_t *dst, uint32_t file, uint64_t offset, uint64_t bytes)
{
    uint64_t i = 0;
    for (; i < bytes && (offset + i) % 8; i++)
        dst[i] = world_byte(file, offset + i);
    for (; i + 8 <= bytes; i += 8) {
        uint64_t word = word_at(file, (offset + i) / 8);
        memcpy(dst + i, &word, 8);
    }
    for (; i < bytes; i++)
        dst[i] = world_byte(file, offset + i);
}

static uint64_t compare_bytes(const uint8_t *p, uint32_t file, uint64_t offset, uint64_t from, uint64_t to)
{
    while (from < to && p[from] == world_byte(file, offset + from))
        from++;
    return from;
}

uint64_t world_compare(const uint8_t *p, uint32_t file, uint64_t offset, uint64_t bytes)
{
    uint64_t head = sl_min_u64((8 - offset % 8) % 8, bytes), i = head;
    if (compare_bytes(p, file, offset, 0, head) < head) return compare_bytes(p, file, offset, 0, head);
    for (; i + 8 <= bytes; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        if (word != word_at(file, (offset + i) / 8)) break;
    }
    return compare_bytes(p, file, offset, i, bytes);
}

/* ---- building ---- */

void world_begin(world *w, uint32_t n_file)
{
    memset(w, 0, sizeof *w);
    w->n_file = n_file;
}

static uint64_t row_bytes_of(const sl_type_info *type, uint32_t n_in)
{
    return (uint64_t)n_in / type->block * type->block_bytes;
}

sl_tensor *world_tensor(world *w, uint32_t file, uint64_t gap, uint32_t type, uint32_t n_in, uint32_t n_row)
{
    uint32_t i = w->n_tensor++;
    snprintf(w->names[i], sizeof w->names[i], "blk.%u.weight", i);
    sl_tensor *t = &w->tensors[i];
    *t = (sl_tensor){.name = w->names[i],
                     .type = sl_type_find(type),
                     .n_dims = 2,
                     .dims = {n_row, n_in, 1, 1},
                     .file = file,
                     .offset_bytes = w->file_bytes[file] + gap};
    t->size_bytes = row_bytes_of(t->type, n_in) * n_row;
    w->file_bytes[file] = t->offset_bytes + t->size_bytes;
    return t;
}

void world_unit(world *w)
{
    w->units[w->n_unit++] = (sl_unit){.rows = &w->rows[w->n_rows]};
}

void world_rows(world *w, const sl_tensor *t, uint32_t n_in, uint32_t first_row, uint32_t n_row)
{
    w->rows[w->n_rows++] = (sl_unit_rows){.tensor = t, .n_in = n_in, .first_row = first_row, .n_row = n_row};
    w->units[w->n_unit - 1].n_rows++;
}

static const uint32_t all_types[] = {SL_F32, SL_F16, SL_BF16, SL_Q8_0, SL_Q4_0, SL_Q4_1, SL_Q5_1, SL_Q4_K, SL_Q6_K};

static uint64_t random_gap(world_rng *r, bool gguf)
{
    static const uint64_t large[] = {4096, 5000, 65536, 65537, 70001, 200000};
    if (world_below(r, 6) == 0) return large[world_below(r, 6)];
    return gguf ? 0 : world_below(r, 3) == 0 ? world_below(r, 40) : 0;
}

static sl_tensor *random_tensor(world *w, world_rng *r, bool gguf, uint32_t max_row)
{
    uint32_t file = (uint32_t)world_below(r, w->n_file), type = all_types[world_below(r, 9)];
    uint32_t n_in = 256 * (1 + (uint32_t)world_below(r, 6));
    uint64_t gap = random_gap(r, gguf);
    if (gguf) gap = sl_round_up(w->file_bytes[file] + gap, 32) - w->file_bytes[file];
    return world_tensor(w, file, gap, type, n_in, 1 + (uint32_t)world_below(r, max_row));
}

static uint32_t n_in_of(const sl_tensor *t)
{
    return (uint32_t)t->dims[1];
}

static void layers(world *w, world_rng *r, bool gguf)
{
    uint32_t n_layer = 1 + (uint32_t)world_below(r, 12), n_each = 1 + (uint32_t)world_below(r, 9);
    bool alike = world_below(r, 2);
    for (uint32_t l = 0; l < n_layer; l++) {
        uint32_t n = alike ? n_each : 1 + (uint32_t)world_below(r, 9);
        const sl_tensor *own[9];
        for (uint32_t i = 0; i < n; i++)
            own[i] = random_tensor(w, r, gguf, world_below(r, 10) ? 40 : 300);
        world_unit(w);
        for (uint32_t i = n; i > 0; i--)
            world_rows(w, own[i - 1], n_in_of(own[i - 1]), 0, (uint32_t)own[i - 1]->dims[0]);
    }
}

static void head(world *w, world_rng *r, const sl_tensor *t)
{
    uint32_t n_row = (uint32_t)t->dims[0], block = 1 + (uint32_t)world_below(r, n_row);
    if (n_row / block > 20) block = n_row / 20 + 1;
    for (uint32_t i = 0; i < n_row; i += block) {
        world_unit(w);
        world_rows(w, t, n_in_of(t), i, i + block < n_row ? block : n_row - i);
    }
}

void world_make(world *w, uint64_t seed)
{
    world_rng r = {seed};
    world_begin(w, 1 + (uint32_t)world_below(&r, WORLD_FILES));
    bool gguf = world_below(&r, 2);
    for (uint32_t f = 0; f < w->n_file; f++)
        w->file_bytes[f] = gguf ? 32 * world_below(&r, 500) : world_below(&r, 9000);
    sl_tensor *table = random_tensor(w, &r, gguf, 500);
    layers(w, &r, gguf);
    w->tied = world_below(&r, 2);
    if (w->tied)
        head(w, &r, table);
    else
        head(w, &r, random_tensor(w, &r, gguf, 500));
    w->table = table;
    w->table_n_in = n_in_of(table);
}

sl_residency_options world_options(const world *w, uint32_t align)
{
    return (sl_residency_options){.units = w->units,
                                  .n_unit = w->n_unit,
                                  .table = w->table,
                                  .table_n_in = w->table_n_in,
                                  .max_table_rows = 19,
                                  .align = align};
}

/* ---- checking ---- */

uint64_t world_unit_bytes(const world *w, uint32_t unit)
{
    uint64_t sum = 0;
    const sl_unit *u = &w->units[unit];
    for (uint32_t i = 0; i < u->n_rows; i++)
        sum += row_bytes_of(u->rows[i].tensor->type, u->rows[i].n_in) * u->rows[i].n_row;
    return sum;
}

uint64_t world_max_row_bytes(const world *w)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < w->n_rows; i++)
        max = sl_max_u64(max, row_bytes_of(w->rows[i].tensor->type, w->rows[i].n_in));
    return max;
}

static bool check_one(uint32_t unit, const sl_unit_rows *rows, const sl_matrix *m)
{
    const sl_tensor *t = rows->tensor;
    uint64_t row_bytes = row_bytes_of(t->type, rows->n_in);
    uint32_t next = 0;
    bool ok = m->type == t->type && m->n_in == rows->n_in && m->n_out == rows->n_row && m->row_bytes == row_bytes &&
              m->n_part >= 1 && m->n_part <= 2;
    for (uint32_t p = 0; ok && p < m->n_part; p++) {
        uint64_t at = t->offset_bytes + (rows->first_row + next) * row_bytes, n = m->part[p].n_row * row_bytes;
        ok = m->part[p].first_row == next && n > 0;
        uint64_t same = ok ? world_compare(m->part[p].data, t->file, at, n) : 0;
        if (ok && same != n) {
            fprintf(stderr, "unit %u, %s, part %u: byte %llu of %llu differs\n", unit, t->name, p,
                    (unsigned long long)same, (unsigned long long)n);
            return false;
        }
        next += m->part[p].n_row;
    }
    if (!ok || next != rows->n_row) {
        fprintf(stderr, "unit %u, %s: wrong shape: %u parts cover %u of %u rows\n", unit, t->name, m->n_part, next,
                rows->n_row);
        return false;
    }
    return true;
}

bool world_check_views(const world *w, uint32_t unit, const sl_matrix *views)
{
    const sl_unit *u = &w->units[unit];
    for (uint32_t i = 0; i < u->n_rows; i++)
        if (!check_one(unit, &u->rows[i], &views[i])) return false;
    return true;
}
