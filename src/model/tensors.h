/* Inside the room: which tensor plays which role, found by the names of a family and checked for shape and type. */
#ifndef SL_TENSORS_H
#define SL_TENSORS_H

#include "model/family.h"

struct sl_tensor_map {
    sl_unit_rows *w;     /* [n_layer][SL_W_COUNT], tensor NULL where the layer has none */
    const sl_tensor **v; /* [n_layer][SL_V_COUNT], NULL where absent */
    uint8_t half[SL_V_COUNT]; /* 0: whole; 1 or 2: the even or the odd elements of a tensor of twice the length */
    const sl_tensor **each; /* [n_layer][pieces][n_expert] of experts with a tensor each; NULL: none */
    const sl_tensor *final_norm;
    uint64_t largest_vector_bytes;
};

/* errors  FORMAT: a tensor is missing or has another shape than the settings say; UNSUPPORTED: a type without decoder,
 *         or tensors that the family has no role for */
sl_status sl_tensor_map_build(sl_tensor_map *map, sl_model *m, const sl_store *store, const sl_log *log, sl_err *err);
void sl_tensor_map_free(sl_tensor_map *map);

/* ---- while a map is built ---- */

enum { SL_NAME_BYTES = 192 };

typedef struct {
    sl_tensor_map *map;
    sl_model *m;
    const sl_store *store;
    bool hf;
    const char *prefix;     /* of Hugging Face names */
    const sl_tensor **used; /* every tensor with a role */
    size_t n_used;
} sl_tensor_builder;

/* format with its first %u replaced by n, and for Hugging Face the prefix before it; returns buf. */
const char *sl_tensor_name(const sl_tensor_builder *b, const char *format, uint32_t n, char buf[SL_NAME_BYTES]);
/* The tensor of that name, entered as used; NULL: absent. */
const sl_tensor *sl_tensor_use(sl_tensor_builder *b, const char *name);
/* dims [n_dims].  errors FORMAT, with both shapes */
sl_status sl_tensor_check_shape(const sl_tensor_builder *b, const sl_tensor *t, uint32_t n_dims, const uint64_t *dims,
                                sl_err *err);
sl_status sl_tensor_missing(const sl_tensor_builder *b, const char *name, sl_err *err);
uint64_t sl_tensor_elems(const sl_tensor *t);
uint64_t sl_tensor_map_length(const sl_tensor_map *map, const sl_tensor *t, uint32_t role); /* of a vector, as it is kept */
/* The experts of one sparse layer, in any of the layouts that files use (experts.c): fills m->experts[layer].
 * errors  FORMAT: none of the layouts is there whole, or a shape is wrong */
sl_status sl_tensor_find_experts(sl_tensor_builder *b, uint32_t layer, sl_err *err);

/* Codes and scales of experts that lie apart: bytes that are computed with, though their type has no decoder. */
bool sl_tensor_is_code(const sl_model *m, const sl_tensor *t);

/* For inspect: the family of a store (NULL: none) and the architecture's name in the file (not terminated). */
const sl_family *sl_model_family_of(const sl_store *store, const char **arch, size_t *arch_bytes);
/* The number in "blk.N." or "layers.N." of a tensor's name; -1: not part of a layer. */
int32_t sl_tensor_layer(const char *name);

#endif
