/* Where a layer's experts lie.  Files have them as stacks, as a tensor for every expert, and with gate and up in one tensor;
 * which of these a file uses shows in its names, whatever the family.  expert_source.h has the forms. */
#include "model/tensors.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    bool hf, each; /* each: the second %u is the expert */
    sl_expert_form form;
    const char *name[SL_EXPERT_MAX_PIECE]; /* in the order of the form's pieces */
} layout;

static const layout layouts[] = {
    {false, false, SL_EXPERT_SEPARATE,
     {"blk.%u.ffn_gate_exps.weight", "blk.%u.ffn_up_exps.weight", "blk.%u.ffn_down_exps.weight"}},
    {false, false, SL_EXPERT_GATE_UP, {"blk.%u.ffn_gate_up_exps.weight", "blk.%u.ffn_down_exps.weight"}},
    /* files from before stacks */
    {false, true, SL_EXPERT_SEPARATE, {"blk.%u.ffn_gate.%u.weight", "blk.%u.ffn_up.%u.weight", "blk.%u.ffn_down.%u.weight"}},
    {true, true, SL_EXPERT_SEPARATE,
     {"layers.%u.mlp.experts.%u.gate_proj.weight", "layers.%u.mlp.experts.%u.up_proj.weight",
      "layers.%u.mlp.experts.%u.down_proj.weight"}},
    {true, true, SL_EXPERT_SEPARATE,
     {"layers.%u.block_sparse_moe.experts.%u.w1.weight", "layers.%u.block_sparse_moe.experts.%u.w3.weight",
      "layers.%u.block_sparse_moe.experts.%u.w2.weight"}},
    {true, false, SL_EXPERT_GATE_UP, {"layers.%u.mlp.experts.gate_up_proj", "layers.%u.mlp.experts.down_proj"}},
    {true, false, SL_EXPERT_MXFP4_APART,
     {"layers.%u.mlp.experts.gate_up_proj_blocks", "layers.%u.mlp.experts.gate_up_proj_scales",
      "layers.%u.mlp.experts.down_proj_blocks", "layers.%u.mlp.experts.down_proj_scales"}},
    {true, false, SL_EXPERT_GATE_UP,
     {"layers.%u.block_sparse_moe.input_linear.weight", "layers.%u.block_sparse_moe.output_linear.weight"}},
};

/* [n_expert] before it in a stack. */
static uint32_t shape_of(const sl_model_config *c, sl_expert_layer *x, uint32_t i, uint64_t dims[3])
{
    sl_expert_piece *p = &x->piece[i];
    bool apart = x->form == SL_EXPERT_MXFP4_APART, down = apart ? i >= 2 : i == x->n_piece - 1;
    uint32_t n_in = down ? c->moe.n_ff : c->n_embd;
    if (x->form == SL_EXPERT_TURNED) {
        p->n_row = n_in;
        p->n_in = down ? c->n_embd : 2 * c->moe.n_ff;
        dims[0] = p->n_row;
        dims[1] = p->n_in;
        return 2;
    }
    p->n_row = down ? c->n_embd : x->form == SL_EXPERT_SEPARATE ? c->moe.n_ff : 2 * c->moe.n_ff;
    p->n_in = !apart ? n_in : i % 2 ? n_in / 32 : n_in / 2; /* bytes */
    dims[0] = p->n_row;
    dims[1] = apart ? n_in / 32 : n_in;
    dims[2] = 16;
    return apart && i % 2 == 0 ? 3 : 2;
}

static void piece_name(const sl_tensor_builder *b, const layout *l, uint32_t layer, uint32_t piece, uint32_t expert,
                       char buf[SL_NAME_BYTES])
{
    sl_tensor_name(b, l->name[piece], layer, buf);
    char *at = l->each ? strstr(buf, "%u") : NULL;
    if (!at) return;
    char tail[SL_NAME_BYTES];
    snprintf(tail, sizeof tail, "%s", at + 2);
    snprintf(at, SL_NAME_BYTES - (size_t)(at - buf), "%u%s", expert, tail);
}

static const layout *layout_of(const sl_tensor_builder *b, uint32_t layer)
{
    char name[SL_NAME_BYTES];
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (layouts[i].hf != b->hf) continue;
        piece_name(b, &layouts[i], layer, 0, 0, name);
        if (sl_store_find(b->store, name)) return &layouts[i];
    }
    return NULL;
}

/* Piece i of every expert: its shape, and the tensors. */
static sl_status find_piece(sl_tensor_builder *b, const layout *l, uint32_t layer, uint32_t i, sl_err *err)
{
    const sl_model_config *c = &b->m->c;
    sl_expert_layer *x = &b->m->experts[layer];
    sl_expert_piece *p = &x->piece[i];
    char name[SL_NAME_BYTES];
    uint64_t dims[4] = {x->n_expert};
    uint32_t n_dims = shape_of(c, x, i, dims + 1);
    const sl_tensor **each = b->map->each + ((size_t)layer * SL_EXPERT_MAX_PIECE + i) * x->n_expert;
    for (uint32_t e = 0; e < (l->each ? x->n_expert : 1); e++) {
        piece_name(b, l, layer, i, e, name);
        const sl_tensor *t = sl_tensor_use(b, name);
        if (!t) return sl_tensor_missing(b, name, err);
        sl_status rc = sl_tensor_check_shape(b, t, l->each ? n_dims : n_dims + 1, l->each ? dims + 1 : dims, err);
        if (rc != SL_OK) return rc;
        if (x->form == SL_EXPERT_MXFP4_APART && (t->type->block != 1 || t->type->block_bytes != 1))
            return sl_fail(err, SL_ERR_FORMAT, "%s: tensor %s has type %s, expected bytes", sl_store_path(b->store), t->name,
                           t->type->name);
        if (x->form == SL_EXPERT_TURNED && t->type->block != 1)
            return sl_fail(err, SL_ERR_UNSUPPORTED, "%s: tensor %s has type %s, of which no transposed matrix can be made",
                           sl_store_path(b->store), t->name, t->type->name);
        each[e] = t;
        b->m->expert_bytes += t->size_bytes;
    }
    if (l->each)
        p->each = each;
    else
        p->stack = each[0];
    return SL_OK;
}

sl_status sl_tensor_find_experts(sl_tensor_builder *b, uint32_t layer, sl_err *err)
{
    char name[SL_NAME_BYTES];
    sl_expert_layer *x = &b->m->experts[layer];
    const layout *l = layout_of(b, layer);
    if (!l) {
        for (size_t i = 0; layouts[i].hf != b->hf || !l; i++)
            if (layouts[i].hf == b->hf) l = &layouts[i]; /* the usual one, for the message */
        piece_name(b, l, layer, 0, 0, name);
        return sl_tensor_missing(b, name, err);
    }
    *x = (sl_expert_layer){.form = l->form == SL_EXPERT_GATE_UP && l->hf && b->m->c.moe.turned ? SL_EXPERT_TURNED : l->form,
                           .n_expert = b->m->c.moe.routing.n_expert,
                           .n_piece = l->form == SL_EXPERT_SEPARATE ? 3 : l->form == SL_EXPERT_MXFP4_APART ? 4 : 2};
    if (l->form == SL_EXPERT_MXFP4_APART && (b->m->c.n_embd % 32 || b->m->c.moe.n_ff % 32))
        return sl_fail(err, SL_ERR_FORMAT, "%s: rows of %u and %u elements are no whole MXFP4 blocks of 32",
                       sl_store_path(b->store), b->m->c.n_embd, b->m->c.moe.n_ff);
    sl_status rc = SL_OK;
    for (uint32_t i = 0; rc == SL_OK && i < x->n_piece; i++) rc = find_piece(b, l, layer, i, err);
    return rc;
}
