/* The steps that layers are made of.  Each works on the chunk in f: x is the residual stream, h the branch.
 * A step polls f->cancel; after a cancel the remaining steps do nothing useful and the engine drops the chunk. */
#ifndef SL_LAYERS_H
#define SL_LAYERS_H

#include "model/model.h"

void sl_step_norm(sl_forward *f, const float *w);           /* h = rmsnorm(x) * w */
void sl_step_norm_branch(sl_forward *f, const float *w);    /* h = rmsnorm(h) * w (post norms) */
void sl_step_qkv(sl_forward *f, const sl_layer *l);         /* q, k, v = W h (+ bias) */
void sl_step_qk_norm(sl_forward *f, const sl_layer *l);     /* per head, before rope */
void sl_step_qkv_clip(sl_forward *f, const sl_layer *l);    /* q, k, v kept in [-qkv_clip, qkv_clip] */
void sl_step_rope(sl_forward *f, const sl_layer *l);        /* q and k in place */
void sl_step_attend(sl_forward *f, const sl_layer *l);      /* stores k, v; att = attention(q) */
void sl_step_latent_attend(sl_forward *f, const sl_layer *l); /* att = latent attention of h (mla.c) */
void sl_step_attn_out(sl_forward *f, const sl_layer *l);    /* h = Wo att (+ bias) */
void sl_step_gated_mlp(sl_forward *f, const sl_layer *l);   /* h = down(act(gate h) * up h) */
void sl_step_moe(sl_forward *f, const sl_layer *l);         /* h = sum of routed experts of h, and the shared one (moe.c) */
void sl_step_residual(sl_forward *f);                       /* x += h, h times the residual scale first */

/* For steps in other files: between two pieces of work, keeps the drive busy and looks whether to go on. */
bool sl_step_canceled(sl_forward *f);

/* The second half of a block: norm, experts or gated MLP, residual. */
void sl_layer_feed_forward(sl_forward *f, const sl_layer *l);
/* The pre-norm block of Llama and its descendants, from the steps above; q and k are normed where the layer has norms
 * for them, and experts take the place of the MLP where the layer has them. */
void sl_layer_pre_norm(sl_forward *f, const sl_layer *l);

#endif
