/* Room store: what is on disk.  GGUF (single, split) and Hugging Face directories of safetensors (sharded through the
 * index) become one tensor directory plus metadata.  Parses headers only; weight bytes are read by others through os/io.h.
 * Everything in a file is hostile until checked: the bounds are the table at the head of gguf.c and safetensors.c. */
#ifndef SL_STORE_H
#define SL_STORE_H

#include "base/base.h"
#include "base/json.h"
#include "quant/quant.h"

typedef enum { SL_STORE_GGUF, SL_STORE_SAFETENSORS } sl_store_format;

typedef struct {
    const char *name;              /* as in the file: 1..255 bytes of UTF-8 without control characters, unique */
    const sl_type_info *type;      /* never NULL; type->dequantise may be */
    uint32_t n_dims;               /* 0..4 */
    uint64_t dims[4];              /* outermost first (a linear weight is [out, in]); unused ones are 1; safetensors
                                    * may have a dimension of 0, the tensor is then listed with size 0 */
    uint32_t file;                 /* index of the file that holds it */
    uint64_t offset_bytes, size_bytes; /* within the file's size: checked */
} sl_tensor;

typedef struct sl_store sl_store;

/* model: a .gguf file (any shard), a directory with one GGUF model (helper files such as mmproj are passed over) or
 * with safetensors and a config.json, or one safetensors file beside its config.json.  Content decides, not the file's
 * extension.  Opens and checks every shard: sizes, ranges, duplicates, overlaps, counts.
 * errors  FORMAT names file, field or tensor, the value and the bound; every tensor of an unknown type is counted in one
 *         message.  Git-LFS pointers, HTML pages and empty files are named as such. */
sl_status sl_store_open(sl_store **out, const char *model, const sl_log *log, sl_err *err);
void sl_store_close(sl_store *s);
/* A store may list tensors of types that cannot be computed with (type->dequantise NULL), so that they can be
 * inspected.  This refuses them, all in one message with counts.
 * errors  UNSUPPORTED */
sl_status sl_store_check_types(const sl_store *s, sl_err *err);

sl_store_format sl_store_get_format(const sl_store *s);
const char *sl_store_path(const sl_store *s);      /* as given */
size_t sl_store_file_count(const sl_store *s);
const char *sl_store_file_path(const sl_store *s, size_t i);
uint64_t sl_store_file_bytes(const sl_store *s, size_t i);
size_t sl_store_tensor_count(const sl_store *s);
const sl_tensor *sl_store_tensor(const sl_store *s, size_t i); /* in file order */
const sl_tensor *sl_store_find(const sl_store *s, const char *name); /* NULL: absent */

/* ---- GGUF metadata ---- */
typedef enum { SL_GV_U8, SL_GV_I8, SL_GV_U16, SL_GV_I16, SL_GV_U32, SL_GV_I32, SL_GV_F32, SL_GV_BOOL, SL_GV_STRING,
               SL_GV_ARRAY, SL_GV_U64, SL_GV_I64, SL_GV_F64 } sl_gguf_type;
typedef struct {
    const char *key; /* terminated */
    uint32_t type, elem_type; /* sl_gguf_type; elem_type for arrays */
    uint64_t count;           /* array elements */
    const uint8_t *data;      /* first byte of the value, any alignment: of a string its first character, of an array
                               * its first element (for strings: that one's u64 length) */
    uint64_t data_bytes;
} sl_meta;
size_t sl_store_meta_count(const sl_store *s);
const sl_meta *sl_store_meta_at(const sl_store *s, size_t i);
const sl_meta *sl_store_meta(const sl_store *s, const char *key); /* NULL: absent (always, for safetensors) */
/* Typed getters: false when absent.  A value of the wrong kind is false too and, when err is given, fails it: check
 * err->code (err is not touched otherwise, so several calls can share one check).  Integers of any width and signedness
 * are accepted when the value fits. */
bool sl_store_meta_int(const sl_store *s, const char *key, int64_t *out, sl_err *err);
bool sl_store_meta_float(const sl_store *s, const char *key, double *out, sl_err *err); /* integers too */
bool sl_store_meta_bool(const sl_store *s, const char *key, bool *out, sl_err *err);
/* Borrowed, not terminated. */
bool sl_store_meta_string(const sl_store *s, const char *key, const char **p, size_t *n, sl_err *err);
/* Element i of an array of integers / numbers / strings; false beyond the end and for another kind of value.  Strings are
 * walked with a cursor: start *pos at 0; borrowed, not terminated. */
bool sl_meta_int_at(const sl_meta *m, uint64_t i, int64_t *out);
bool sl_meta_float_at(const sl_meta *m, uint64_t i, double *out);
bool sl_meta_string_next(const sl_meta *m, uint64_t *pos, const char **p, size_t *n);

/* ---- Hugging Face directory ---- */
const sl_json *sl_store_config(const sl_store *s);            /* config.json; NULL for GGUF */
const sl_json *sl_store_generation_config(const sl_store *s); /* NULL when absent */

/* Frees the header bytes of GGUF files (vocabulary arrays and the like); metadata getters then find nothing but the
 * tensor directory stays.  Called when tokenizer and config have been built. */
void sl_store_drop_metadata(sl_store *s);
uint64_t sl_store_header_bytes(const sl_store *s); /* memory held now */

/* ---- for fuzzing: parse from memory, one file ----
 * data is borrowed until the store is closed.  A GGUF shard is taken as if it were whole; config.json is absent. */
sl_status sl_gguf_parse_memory(sl_store **out, const char *name, const uint8_t *data, size_t n_bytes, sl_err *err);
sl_status sl_safetensors_parse_memory(sl_store **out, const char *name, const uint8_t *data, size_t n_bytes, sl_err *err);

#endif
