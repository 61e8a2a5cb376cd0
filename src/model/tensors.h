/* Inside the room: which tensor plays which role, found by the names of a family and checked for shape and type. */
#ifndef SL_TENSORS_H
#define SL_TENSORS_H

#include "model/family.h"

struct sl_tensor_map {
    const sl_tensor **w; /* [n_layer][SL_W_COUNT], all present */
    const sl_tensor **v; /* [n_layer][SL_V_COUNT], NULL where absent */
    const sl_tensor *final_norm;
    uint64_t largest_vector_bytes;
};

/* errors  FORMAT: a tensor is missing or has another shape than the settings say; UNSUPPORTED: a type without decoder,
 *         or tensors that the family has no role for */
sl_status sl_tensor_map_build(sl_tensor_map *map, sl_model *m, const sl_store *store, const sl_log *log, sl_err *err);
void sl_tensor_map_free(sl_tensor_map *map);

/* For inspect: the family of a store (NULL: none) and the architecture's name in the file (not terminated). */
const sl_family *sl_model_family_of(const sl_store *store, const char **arch, size_t *arch_bytes);
/* The number in "blk.N." or "layers.N." of a tensor's name; -1: not part of a layer. */
int32_t sl_tensor_layer(const char *name);

#endif
