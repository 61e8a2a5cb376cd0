/* Slots: which expert lies in which, in what order they may go, and their reads.
 *
 * Rules of replacement, by number in the code:
 *  1. A pinned slot never goes.
 *  2. An empty slot goes first: empty slots stand at the old end.
 *  3. STAGED: a layer that has its quota gives one of its own; else the oldest of a layer beyond its quota goes.
 *  4. Else the one that was in demand longest ago goes (LRU).
 *  5. A slot that was read ahead and not used yet, or is being read, goes only when there is no other, and never for
 *     something else that is read ahead.  Its reads are waited for first: memory under way is never given away.
 *  6. HOT: hot slots are not in the list. */
#include "stream/experts_int.h"

#include "os/os.h"

#include <assert.h>

static uint32_t index_of(const sl_experts *x, const sl_slot *s)
{
    return (uint32_t)(s - x->slots);
}

static const sl_expert_layer *layer_of(const sl_experts *x, const sl_slot *s)
{
    return &x->layout.opt.layers[s->key / x->layout.width];
}

/* ---- the list ---- */

void sl_slot_link_newest(sl_experts *x, sl_slot *s)
{
    sl_slot_list *l = &x->lists[s->i_class];
    uint32_t i = index_of(x, s);
    s->newer = SL_NO_SLOT;
    s->older = l->newest;
    if (l->newest != SL_NO_SLOT)
        x->slots[l->newest].newer = i;
    else
        l->oldest = i;
    l->newest = i;
    s->listed = true;
}

void sl_slot_link_oldest(sl_experts *x, sl_slot *s)
{
    sl_slot_list *l = &x->lists[s->i_class];
    uint32_t i = index_of(x, s);
    s->older = SL_NO_SLOT;
    s->newer = l->oldest;
    if (l->oldest != SL_NO_SLOT)
        x->slots[l->oldest].older = i;
    else
        l->newest = i;
    l->oldest = i;
    s->listed = true;
}

void sl_slot_unlink(sl_experts *x, sl_slot *s)
{
    sl_slot_list *l = &x->lists[s->i_class];
    if (!s->listed) return;
    if (s->newer != SL_NO_SLOT)
        x->slots[s->newer].older = s->older;
    else
        l->newest = s->older;
    if (s->older != SL_NO_SLOT)
        x->slots[s->older].newer = s->newer;
    else
        l->oldest = s->newer;
    s->listed = false;
}

void sl_slot_touch(sl_experts *x, sl_slot *s)
{
    if (!s->listed) return;
    sl_slot_unlink(x, s);
    sl_slot_link_newest(x, s);
}

void sl_slot_pin(sl_experts *x, sl_slot *s)
{
    if (s->n_pin++ == 0) x->lists[s->i_class].n_pinned++;
}

void sl_slot_unpin(sl_experts *x, sl_slot *s)
{
    assert(s->n_pin > 0);
    if (--s->n_pin == 0) x->lists[s->i_class].n_pinned--;
}

void sl_slot_set_ahead(sl_experts *x, sl_slot *s, sl_ahead ahead)
{
    sl_slot_list *l = &x->lists[s->i_class];
    if (s->ahead == SL_AHEAD_PREDICTED) l->n_ahead--;
    if (ahead == SL_AHEAD_PREDICTED) l->n_ahead++;
    s->ahead = (uint8_t)ahead;
}

/* ---- reads under way ---- */

static void enter_demand(sl_experts *x)
{
    if (x->n_reading_demand++ == 0) x->demand_from_s = sl_now_s();
}

static void leave_demand(sl_experts *x)
{
    if (--x->n_reading_demand == 0) x->sweep_busy_s += sl_now_s() - x->demand_from_s;
}

static void enter_reading(sl_experts *x, sl_slot *s)
{
    s->state = SL_SLOT_READING;
    s->issued_s = sl_now_s();
    s->reading_at = x->n_reading;
    if (x->n_reading == 0) x->busy_from_s = s->issued_s;
    x->reading[x->n_reading++] = index_of(x, s);
    if (!s->background) enter_demand(x);
}

static void leave_reading(sl_experts *x, sl_slot *s, sl_slot_state state)
{
    uint32_t last = x->reading[--x->n_reading];
    x->reading[s->reading_at] = last;
    x->slots[last].reading_at = s->reading_at;
    if (x->n_reading == 0) x->stats.busy_s += sl_now_s() - x->busy_from_s;
    if (!s->background) leave_demand(x);
    s->state = (uint8_t)state;
}

static uint32_t all_of(const sl_slot *s)
{
    return (1u << s->n_read) - 1;
}

static bool has_arrived(const sl_slot *s, uint32_t i_read)
{
    return s->arrived >> i_read & 1;
}

static void name_failure(sl_experts *x, const sl_slot *s, uint32_t i_read, sl_err *err)
{
    uint32_t k = 0, expert = s->key % x->layout.width;
    int os_errno = err->os_errno;
    if (err->code == SL_ERR_CANCELED) return;
    while (s->read_of[k] != i_read) k++;
    sl_unit_rows rows = sl_expert_rows(layer_of(x, s), expert, k);
    sl_fail(err, err->code, "layer %u, expert %u, tensor \"%s\": %s", s->key / x->layout.width, expert, rows.tensor->name,
            err->msg);
    err->os_errno = os_errno;
}

/* Waits for one request of a slot; a failure empties the slot. */
static sl_status take_read(sl_experts *x, sl_slot *s, uint32_t i_read, sl_err *err)
{
    sl_err why = {0};
    sl_status rc = sl_io_wait(x->io, &s->reqs[i_read], &why);
    s->arrived |= (uint8_t)(1u << i_read);
    if (rc == SL_OK) {
        if (s->arrived == all_of(s)) leave_reading(x, s, SL_SLOT_READY);
        return SL_OK;
    }
    name_failure(x, s, i_read, &why);
    if (err) *err = why;
    if (rc != SL_ERR_CANCELED) x->stats.failed++;
    sl_slot_empty(x, s);
    return rc;
}

bool sl_slot_has(sl_experts *x, const sl_slot *s, uint32_t n_piece)
{
    if (s->state == SL_SLOT_READY) return true;
    for (uint32_t k = 0; k < n_piece; k++)
        if (!has_arrived(s, s->read_of[k]) && !x->io->ops->poll(x->io, (sl_io_req *)&s->reqs[s->read_of[k]])) return false;
    return true;
}

sl_status sl_slot_wait(sl_experts *x, sl_slot *s, uint32_t n_piece, sl_err *err)
{
    sl_status rc = SL_OK;
    if (s->state == SL_SLOT_READY) return SL_OK;
    double from = sl_now_s();
    uint32_t has = layer_of(x, s)->n_piece;
    for (uint32_t k = 0; k < n_piece && k < has && s->state == SL_SLOT_READING; k++)
        if (!has_arrived(s, s->read_of[k])) rc = take_read(x, s, s->read_of[k], err);
    x->stats.wait_s += sl_now_s() - from;
    return rc;
}

static bool reap(sl_experts *x, sl_slot *s)
{
    for (uint32_t i = 0; i < s->n_read; i++) {
        if (has_arrived(s, i)) continue;
        if (!x->io->ops->poll(x->io, &s->reqs[i])) return false;
        if (take_read(x, s, i, NULL) != SL_OK) return true;
    }
    return true;
}

void sl_slots_reap(sl_experts *x)
{
    for (uint32_t i = 0; i < x->n_reading;) {
        sl_slot *s = &x->slots[x->reading[i]];
        if (s->n_pin || !s->sent || !reap(x, s)) i++; /* else the last has taken its place */
    }
}

/* ---- giving and taking ---- */

static void advise(sl_experts *x, const sl_slot *s, bool need)
{
    sl_expert_place p;
    if (!x->io->ops->advise) return;
    sl_expert_place_of(layer_of(x, s), s->key % x->layout.width, 1, &p);
    for (uint32_t i = 0; i < p.n_read; i++)
        x->io->ops->advise(x->io, p.reads[i].file, p.reads[i].offset, p.reads[i].need, need);
}

void sl_slot_hurry(sl_experts *x, sl_slot *s)
{
    if (s->state != SL_SLOT_READING || !s->background) return;
    s->background = false;
    enter_demand(x);
    for (uint32_t i = 0; i < s->n_read; i++)
        if (!has_arrived(s, i)) sl_io_hurry(x->io, &s->reqs[i]);
}

/* What has not arrived will not be read, but for pieces under way. */
static void count_wasted(sl_experts *x, const sl_slot *s)
{
    x->stats.prefetch_wasted++;
    if (s->state == SL_SLOT_READY) x->stats.wasted_bytes += s->read_bytes;
    for (uint32_t i = 0; s->state == SL_SLOT_READING && i < s->n_read; i++)
        if (has_arrived(s, i)) x->stats.wasted_bytes += s->reqs[i].bytes;
}

void sl_slot_discard(sl_experts *x, sl_slot *s)
{
    count_wasted(x, s);
    sl_slot_set_ahead(x, s, SL_AHEAD_NO);
    if (s->state == SL_SLOT_READING) {
        s->dropped = true;
        for (uint32_t i = 0; i < s->n_read; i++)
            if (!has_arrived(s, i)) sl_io_drop(x->io, &s->reqs[i]);
    }
    uint32_t oldest = x->lists[s->i_class].oldest;
    if (!s->listed || x->slots[oldest].state == SL_SLOT_EMPTY) return; /* rule 2 */
    sl_slot_unlink(x, s);
    sl_slot_link_oldest(x, s);
}

void sl_slot_empty(sl_experts *x, sl_slot *s)
{
    if (s->state == SL_SLOT_EMPTY) return;
    if (s->ahead == SL_AHEAD_PREDICTED) count_wasted(x, s);
    if (s->state == SL_SLOT_READING) {
        for (uint32_t i = 0; i < s->n_read; i++)
            if (!has_arrived(s, i)) sl_io_drop(x->io, &s->reqs[i]);
        for (uint32_t i = 0; i < s->n_read; i++)
            if (!has_arrived(s, i)) sl_io_wait(x->io, &s->reqs[i], NULL);
        leave_reading(x, s, SL_SLOT_EMPTY);
    } else if (x->layout.opt.views) {
        advise(x, s, false);
    }
    sl_slot_set_ahead(x, s, SL_AHEAD_NO);
    while (s->n_pin) sl_slot_unpin(x, s);
    x->slot_of[s->key] = SL_NO_SLOT;
    x->layer_slots[s->key / x->layout.width]--;
    s->key = SL_NO_KEY;
    s->state = SL_SLOT_EMPTY;
    sl_slot_unlink(x, s);
    sl_slot_link_oldest(x, s);
}

static bool is_last_resort(const sl_slot *s)
{
    return s->state == SL_SLOT_READING || s->ahead == SL_AHEAD_PREDICTED;
}

/* Rule 3.  own: the layer has its quota. */
static bool may_go(const sl_experts *x, const sl_slot *s, uint32_t layer, bool own)
{
    if (s->state == SL_SLOT_EMPTY) return !own;
    uint32_t of = s->key / x->layout.width;
    return own ? of == layer : x->layer_slots[of] > sl_experts_quota(x, of);
}

static sl_slot *find_staged(sl_experts *x, uint32_t layer)
{
    bool own = x->layer_slots[layer] >= sl_experts_quota(x, layer);
    for (uint32_t i = sl_experts_list(x, layer)->oldest; i != SL_NO_SLOT; i = x->slots[i].newer) {
        sl_slot *s = &x->slots[i];
        if (!s->n_pin && !is_last_resort(s) && may_go(x, s, layer, own)) return s;
    }
    return NULL;
}

static sl_slot *find_oldest(sl_experts *x, uint32_t layer, bool ahead)
{
    sl_slot *last_resort = NULL;
    for (uint32_t i = sl_experts_list(x, layer)->oldest; i != SL_NO_SLOT; i = x->slots[i].newer) {
        sl_slot *s = &x->slots[i];
        if (s->n_pin) continue;
        if (!is_last_resort(s)) return s;
        if (!last_resort) last_resort = s;
    }
    return ahead ? NULL : last_resort;
}

sl_slot *sl_slot_take(sl_experts *x, uint32_t layer, bool ahead)
{
    sl_slot *s = x->path == SL_EXPERTS_STAGED ? find_staged(x, layer) : NULL;
    if (!s) s = find_oldest(x, layer, ahead);
    if (!s) return NULL;
    if (s->state == SL_SLOT_READY) x->stats.evictions++;
    sl_slot_empty(x, s);
    return s;
}

static void fill_requests(sl_slot *s, const sl_expert_place *p, sl_io_req **batch, uint32_t *n_batch)
{
    s->n_read = (uint8_t)p->n_read;
    s->arrived = 0;
    s->sent = s->dropped = false;
    memcpy(s->at, p->at, sizeof s->at);
    memcpy(s->read_of, p->read_of, sizeof s->read_of);
    for (uint32_t i = 0; i < p->n_read; i++) {
        const sl_expert_read *r = &p->reads[i];
        s->reqs[i] = (sl_io_req){.file = r->file,
                                 .offset_bytes = r->offset,
                                 .dst = s->mem + r->at,
                                 .bytes = r->bytes,
                                 .need_bytes = r->need,
                                 .background = s->background};
        s->read_bytes += r->bytes;
        batch[(*n_batch)++] = &s->reqs[i];
    }
}

void sl_slot_assign(sl_experts *x, sl_slot *s, uint32_t layer, uint32_t expert, bool background, sl_io_req **batch,
                    uint32_t *n_batch)
{
    sl_expert_place p;
    const sl_expert_layer *l = &x->layout.opt.layers[layer];
    sl_expert_place_of(l, expert, x->layout.align, &p);
    s->key = sl_expert_key(x, layer, expert);
    s->background = background;
    s->read_bytes = 0;
    x->slot_of[s->key] = index_of(x, s);
    x->layer_slots[layer]++;
    sl_slot_touch(x, s);
    if (x->hot[s->key]) sl_slot_unlink(x, s); /* rule 6 */
    if (x->layout.opt.views) {
        s->read_bytes = sl_expert_bytes(l, expert);
        s->state = SL_SLOT_READY;
        advise(x, s, true);
        return;
    }
    fill_requests(s, &p, batch, n_batch);
    enter_reading(x, s);
}

sl_status sl_slots_submit(sl_experts *x, sl_io_req **batch, uint32_t n_batch, sl_err *err)
{
    if (!n_batch) return SL_OK;
    sl_status rc = sl_io_submit(x->io, batch, n_batch, err);
    for (uint32_t i = 0; rc != SL_OK && i < n_batch; i++)
        if (__atomic_load_n(&batch[i]->state, __ATOMIC_ACQUIRE) != 0) sl_io_wait(x->io, batch[i], NULL);
    if (rc != SL_OK) x->stats.failed++;
    for (uint32_t i = 0; i < x->n_reading;) {
        sl_slot *s = &x->slots[x->reading[i++]];
        if (s->sent) continue;
        s->sent = true;
        if (rc == SL_OK) continue;
        s->arrived = (uint8_t)all_of(s); /* settled above: nothing is under way */
        sl_slot_empty(x, s);
        i = 0;
    }
    return rc;
}

/* ---- views ---- */

static sl_status view_in_file(sl_experts *x, const sl_unit_rows *rows, uint64_t row_bytes, const uint8_t **data, sl_err *err)
{
    const sl_tensor *t = rows->tensor;
    uint64_t from = t->offset_bytes + rows->first_row * row_bytes, bytes = rows->n_row * row_bytes;
    *data = x->io->ops->view(x->io, t->file, from, bytes);
    if (*data) return SL_OK;
    return sl_fail(err, SL_ERR_IO, "file %u has no bytes %llu to %llu of tensor \"%s\"", t->file, (unsigned long long)from,
                   (unsigned long long)(from + bytes), t->name);
}

sl_status sl_slot_views(sl_experts *x, const sl_slot *s, sl_matrix *pieces, sl_err *err)
{
    const sl_expert_layer *l = layer_of(x, s);
    sl_status rc = SL_OK;
    for (uint32_t k = 0; k < l->n_piece && rc == SL_OK; k++) {
        sl_unit_rows rows = sl_expert_rows(l, s->key % x->layout.width, k);
        const sl_type_info *type = rows.tensor->type;
        sl_matrix *m = &pieces[k];
        *m = (sl_matrix){.type = type,
                         .n_in = rows.n_in,
                         .n_out = rows.n_row,
                         .row_bytes = (uint64_t)rows.n_in / type->block * type->block_bytes,
                         .n_part = 1};
        m->part[0].n_row = rows.n_row;
        if (x->layout.opt.views)
            rc = view_in_file(x, &rows, m->row_bytes, &m->part[0].data, err);
        else
            m->part[0].data = s->mem + s->at[k];
    }
    return rc;
}
