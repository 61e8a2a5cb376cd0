/* Inside the room: settings and scratch of the mixture-of-experts block.  The step itself is in layers.h. */
#ifndef SL_MOE_H
#define SL_MOE_H

#include "model/family.h"

/* Carves f->moe; runs twice, first to measure. */
void sl_moe_layout(sl_moe_scratch *s, sl_arena *a, const sl_model_config *c, uint32_t max_tok);

/* Tells src what the layers after `layer` will probably need (moe_ahead.c).  For after begin() of that layer and before its
 * products: uses what of the scratch they have not filled yet. */
void sl_moe_look_ahead(sl_forward *f, sl_expert_source *src, uint32_t layer);

/* ---- settings that mixtures share (moe_config.c) ---- */

/* Numbers and widths of experts, softmax routing, experts in every layer; renormalisation as the file says, else none.
 * hf_ff: config.json's key for the width of an expert (absent: that of the MLP).
 * false: the model has no experts, and stays dense. */
bool sl_config_moe(sl_model_config *c, const sl_settings *s, const char *hf_ff);
/* Qwen's rule for Hugging Face files: experts in every decoder_sparse_step-th layer, but not in mlp_only_layers. */
void sl_config_sparse_step(sl_model_config *c, const sl_settings *s);

#endif
