/* Experts as they lie in a layer's unit: nothing to wait for, since the unit was acquired before the layer runs. */
#include "stream/expert_source.h"

/* A part that ends between two of the rows leaves the rest to the next. */
sl_matrix sl_matrix_rows(const sl_matrix *m, uint32_t first, uint32_t n, uint32_t step)
{
    sl_matrix out = {.type = m->type, .n_in = m->n_in, .n_out = n, .row_bytes = m->row_bytes * step};
    uint32_t done = 0;
    for (uint32_t i = 0; i < m->n_part && done < n; i++) {
        uint32_t from = first + done * step, end = m->part[i].first_row + m->part[i].n_row;
        if (from >= end) continue;
        uint32_t here = (end - from + step - 1) / step;
        if (here > n - done) here = n - done;
        out.part[out.n_part].data = m->part[i].data + (from - m->part[i].first_row) * m->row_bytes;
        out.part[out.n_part].first_row = done;
        out.part[out.n_part].n_row = here;
        out.n_part++;
        done += here;
    }
    return out;
}

sl_matrix sl_matrix_columns(const sl_matrix *m, uint32_t first, uint32_t n, uint32_t step)
{
    sl_matrix out = *m;
    out.n_in = m->n_out;
    out.n_out = n;
    out.turned_bytes = step * m->type->block_bytes;
    for (uint32_t i = 0; i < m->n_part; i++) out.part[i].data += (size_t)first * m->type->block_bytes;
    return out;
}

/* Bytes of codes as a matrix of MXFP4. */
static sl_matrix as_mxfp4(sl_matrix codes)
{
    codes.type = sl_type_find(SL_MXFP4);
    codes.n_in *= 2;
    return codes;
}

void sl_expert_views(const sl_expert_layer *l, const sl_matrix *pieces, sl_expert *e)
{
    uint32_t n_ff = (l->form == SL_EXPERT_TURNED ? pieces[0].n_in : pieces[0].n_out) / 2;
    switch (l->form) {
    case SL_EXPERT_SEPARATE:
        e->gate = pieces[0];
        e->up = pieces[1];
        break;
    case SL_EXPERT_GATE_UP:
        e->gate = sl_matrix_rows(&pieces[0], 0, n_ff, 1);
        e->up = sl_matrix_rows(&pieces[0], n_ff, n_ff, 1);
        break;
    case SL_EXPERT_INTERLEAVED:
        e->gate = sl_matrix_rows(&pieces[0], 0, n_ff, 2);
        e->up = sl_matrix_rows(&pieces[0], 1, n_ff, 2);
        break;
    case SL_EXPERT_TURNED:
        e->gate = sl_matrix_columns(&pieces[0], 0, n_ff, 2);
        e->up = sl_matrix_columns(&pieces[0], 1, n_ff, 2);
        e->down = sl_matrix_columns(&pieces[1], 0, pieces[1].n_in, 1);
        return;
    case SL_EXPERT_MXFP4_APART:
        e->gate = as_mxfp4(sl_matrix_rows(&pieces[0], 0, n_ff, 2));
        e->up = as_mxfp4(sl_matrix_rows(&pieces[0], 1, n_ff, 2));
        e->gate_scales = sl_matrix_rows(&pieces[1], 0, n_ff, 2);
        e->up_scales = sl_matrix_rows(&pieces[1], 1, n_ff, 2);
        break;
    }
    e->down = pieces[l->n_piece - 1];
    if (l->form != SL_EXPERT_MXFP4_APART) return;
    e->down_scales = e->down;
    e->down = as_mxfp4(pieces[2]);
}

/* ---- a layer's experts as entries of its unit ---- */

static uint32_t entries(const sl_expert_layer *l, const sl_expert_piece *p)
{
    return p->stack ? 1 : l->n_expert;
}

uint32_t sl_expert_unit_count(const sl_expert_layer *l)
{
    uint32_t n = 0;
    for (uint32_t k = 0; l->n_expert && k < l->n_piece; k++) n += entries(l, &l->piece[k]);
    return n;
}

sl_unit_rows sl_expert_unit_rows(const sl_expert_layer *l, uint32_t i)
{
    uint32_t k = 0;
    while (i >= entries(l, &l->piece[k])) i -= entries(l, &l->piece[k++]);
    const sl_expert_piece *p = &l->piece[k];
    if (p->stack) return (sl_unit_rows){p->stack, p->n_in, 0, p->n_row * l->n_expert};
    return (sl_unit_rows){p->each[i], p->n_in, 0, p->n_row};
}

/* ---- the source ---- */

static sl_status begin(sl_expert_source *s, uint32_t layer, const uint32_t *ids, uint32_t n, sl_err *err)
{
    sl_expert_whole *w = (sl_expert_whole *)s;
    (void)layer;
    (void)err;
    w->ids = ids;
    w->n = n;
    w->next = 0;
    return SL_OK;
}

static sl_status next(sl_expert_source *s, sl_expert *out, uint32_t max, uint32_t *n, sl_err *err)
{
    sl_expert_whole *w = (sl_expert_whole *)s;
    const sl_expert_layer *l = w->layer;
    (void)err;
    for (*n = 0; *n < max && w->next < w->n; (*n)++) {
        sl_matrix pieces[SL_EXPERT_MAX_PIECE];
        const sl_matrix *view = w->views;
        uint32_t id = w->ids[w->next++];
        for (uint32_t k = 0; k < l->n_piece; view += entries(l, &l->piece[k++]))
            pieces[k] = l->piece[k].stack ? sl_matrix_rows(view, id * l->piece[k].n_row, l->piece[k].n_row, 1) : view[id];
        out[*n] = (sl_expert){.id = id};
        sl_expert_views(l, pieces, &out[*n]);
    }
    return SL_OK;
}

static sl_status down(sl_expert_source *s, sl_expert *e, sl_err *err)
{
    (void)s;
    (void)e;
    (void)err;
    return SL_OK;
}

static void done(sl_expert_source *s, sl_expert *e)
{
    (void)s;
    (void)e;
}

static void end(sl_expert_source *s)
{
    (void)s;
}

static const sl_expert_source_ops ops = {.begin = begin, .next = next, .down = down, .done = done, .end = end};

void sl_expert_whole_init(sl_expert_whole *w, const sl_expert_layer *l, const sl_matrix *views)
{
    *w = (sl_expert_whole){.base = {&ops}, .layer = l, .views = views};
}
