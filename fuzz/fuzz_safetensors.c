/* Fuzz target: a safetensors file from memory.  Refused with a reason, or accepted, and then the tensors cover the data
 * exactly. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_CHECK(x)                                                                                                  \
    do {                                                                                                               \
        if (!(x)) abort();                                                                                             \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sl_err err = {0};
    sl_store *s = NULL;
    if (sl_safetensors_parse_memory(&s, "fuzz.safetensors", data, size, &err) != SL_OK) {
        FUZZ_CHECK(s == NULL && err.code != SL_OK && err.msg[0] != 0 && !strchr(err.msg, '\n'));
        return 0;
    }
    uint64_t sum = 0, header;
    memcpy(&header, data, sizeof header);
    for (size_t i = 0; i < sl_store_tensor_count(s); i++) {
        const sl_tensor *t = sl_store_tensor(s, i);
        FUZZ_CHECK(t->name[0] && t->type && t->n_dims <= 4 && t->file == 0);
        FUZZ_CHECK(t->offset_bytes <= size && t->size_bytes <= size - t->offset_bytes);
        FUZZ_CHECK(sl_store_find(s, t->name) == t);
        sum += t->size_bytes;
    }
    FUZZ_CHECK(sum == size - 8 - header);
    sl_store_check_types(s, &err);
    sl_store_close(s);
    return 0;
}
