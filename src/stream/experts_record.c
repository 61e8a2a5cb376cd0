/* The record of a model's experts, kept from run to run: bytes in one file, and what to make of them.
 *
 * The file: head (below), counts as float32 [n_layer][width], all little-endian as the machine has it; the check value
 * covers everything behind it.  A record that does not fit is no harm: the run starts cold. */
#include "stream/experts_int.h"

#include <math.h>

enum { ENOUGH = 2000, NEAR_PART = 20 }; /* demands that make a hit rate worth noting; slots within a twentieth are alike */
static const char MAGIC[8] = "SLXPRT1";

typedef struct {
    char magic[8];
    uint64_t check, identity;
    uint32_t n_layer, width, n_point, zero;
    struct {
        uint32_t n_slot;
        float hit_rate;
    } points[SL_EXPERTS_POINTS];
} head;
_Static_assert(sizeof(head) == 40 + 8 * SL_EXPERTS_POINTS, "the file's layout");

static uint64_t check_of(const char *data, size_t bytes)
{
    const size_t from = offsetof(head, identity);
    return sl_hash_bytes(data + from, bytes - from);
}

static const char *what_is_wrong(const char *data, size_t bytes, uint64_t identity, uint32_t n_layer, uint32_t width)
{
    head h;
    if (bytes < sizeof h) return "it is cut off";
    memcpy(&h, data, sizeof h);
    if (memcmp(h.magic, MAGIC, sizeof h.magic) != 0) return "it is no such record";
    if (h.check != check_of(data, bytes)) return "it is damaged";
    if (h.identity != identity) return "the model has changed since";
    if (h.n_layer != n_layer || h.width != width || h.n_point > SL_EXPERTS_POINTS) return "its shape is another";
    if (bytes != sizeof h + (size_t)n_layer * width * sizeof(float)) return "its size is wrong";
    return NULL;
}

static sl_status unpack(sl_experts_record *r, const char *data, const char *path, sl_err *err)
{
    head h;
    memcpy(&h, data, sizeof h);
    size_t n = (size_t)h.n_layer * h.width;
    *r = (sl_experts_record){.identity = h.identity, .n_layer = h.n_layer, .width = h.width, .n_point = h.n_point};
    memcpy(r->points, h.points, sizeof r->points);
    r->counts = sl_calloc(n, sizeof *r->counts);
    if (!r->counts) return sl_fail(err, SL_ERR_NOMEM, "no memory for %s", path);
    memcpy(r->counts, data + sizeof h, n * sizeof *r->counts);
    for (size_t i = 0; i < n; i++)
        if (!(r->counts[i] >= 0 && r->counts[i] < 1e9f)) r->counts[i] = 0;
    return SL_OK;
}

sl_status sl_experts_record_load(sl_experts_record *r, const char *path, uint64_t identity, uint32_t n_layer,
                                 uint32_t width, sl_err *err)
{
    char *data = NULL;
    size_t bytes = 0;
    *r = (sl_experts_record){.identity = identity, .n_layer = n_layer, .width = width};
    sl_status rc = sl_file_read_all(path, sizeof(head) + (size_t)n_layer * width * sizeof(float), &data, &bytes, err);
    if (rc != SL_OK) return rc;
    const char *why = what_is_wrong(data, bytes, identity, n_layer, width);
    rc = why ? sl_fail(err, SL_ERR_FORMAT, "%s: the record of experts is not used: %s", path, why) : unpack(r, data, path, err);
    sl_free(data);
    return rc;
}

void sl_experts_record_close(sl_experts_record *r)
{
    sl_free(r->counts);
    r->counts = NULL;
}

/* ---- hit rates ---- */

static bool are_near(uint32_t a, uint32_t b)
{
    uint32_t less = a < b ? a : b, more = a < b ? b : a;
    return more - less <= less / NEAR_PART;
}

/* The point nearest to n_slot; NULL: there is none. */
static uint32_t nearest(const sl_experts_record *r, uint32_t n_slot)
{
    uint32_t best = SL_NO_SLOT, gap = UINT32_MAX;
    for (uint32_t i = 0; i < r->n_point; i++) {
        uint32_t have = r->points[i].n_slot, d = have > n_slot ? have - n_slot : n_slot - have;
        if (d < gap) best = i, gap = d;
    }
    return best;
}

/* A new rate counts for half of what is known by then; when all places are taken the nearest gives way. */
static void note_rate(sl_experts_record *r, uint32_t n_slot, float rate)
{
    uint32_t i = nearest(r, n_slot);
    if (i != SL_NO_SLOT && are_near(r->points[i].n_slot, n_slot)) {
        r->points[i].hit_rate = (r->points[i].hit_rate + rate) / 2;
        return;
    }
    if (r->n_point < SL_EXPERTS_POINTS) i = r->n_point++;
    r->points[i].n_slot = n_slot;
    r->points[i].hit_rate = rate;
}

double sl_experts_expect(const sl_experts_plan *p, const sl_experts_record *r)
{
    double usual = sl_experts_hit_rate(p);
    uint32_t i = r && !p->resident ? nearest(r, p->n_slot) : SL_NO_SLOT;
    if (i == SL_NO_SLOT) return usual;
    double seen = r->points[i].hit_rate;
    if (are_near(r->points[i].n_slot, p->n_slot)) return seen;
    sl_experts_plan then = *p;
    then.n_slot = r->points[i].n_slot;
    double usual_then = sl_experts_hit_rate(&then);
    if (usual <= 0 || usual_then <= 0) return usual;
    return 1 - pow(1 - usual, log(1 - fmin(seen, 0.999)) / log(1 - fmin(usual_then, 0.999)));
}

/* ---- saving ---- */

static sl_status take_counts(sl_experts_record *r, const sl_experts *x, sl_err *err)
{
    size_t n = (size_t)r->n_layer * r->width;
    if (!r->counts) r->counts = sl_calloc(n, sizeof *r->counts);
    if (!r->counts) return sl_fail(err, SL_ERR_NOMEM, "no memory to keep the use of experts");
    memcpy(r->counts, x->counts, n * sizeof *r->counts); /* they began with those of the record */
    return SL_OK;
}

sl_status sl_experts_record_save(sl_experts_record *r, const sl_experts *x, const char *path, sl_err *err)
{
    r->n_layer = x->layout.opt.n_layer;
    r->width = x->layout.width;
    sl_status rc = take_counts(r, x, err);
    if (rc != SL_OK) return rc;
    uint64_t n_demand = x->stats.decode_hits + x->stats.decode_misses;
    if (n_demand >= ENOUGH && !x->plan.resident)
        note_rate(r, x->plan.n_slot, (float)((double)x->stats.decode_hits / (double)n_demand));
    head h = {.identity = r->identity, .n_layer = r->n_layer, .width = r->width, .n_point = r->n_point};
    size_t n = (size_t)r->n_layer * r->width * sizeof(float), bytes = sizeof h + n;
    memcpy(h.magic, MAGIC, sizeof h.magic);
    memcpy(h.points, r->points, sizeof h.points);
    char *data = sl_malloc(bytes);
    if (!data) return sl_fail(err, SL_ERR_NOMEM, "no memory to keep the use of experts");
    memcpy(data, &h, sizeof h);
    memcpy(data + sizeof h, r->counts, n);
    h.check = check_of(data, bytes);
    memcpy(data, &h, sizeof h);
    rc = sl_file_replace(path, data, bytes, err);
    sl_free(data);
    return rc;
}
