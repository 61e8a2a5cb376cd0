/* Inside the room: the store while it is being built, and what its files share.
 *
 * Building: a format parser (gguf.c, safetensors.c) adds one file after the other with its tensors, checking what can
 * be seen in one header; sl_store_finish then checks what needs all of them: types, ranges against the file size,
 * overlaps, duplicates.  Nothing is usable before that. */
#ifndef SL_STORE_INT_H
#define SL_STORE_INT_H

#include "os/io.h"
#include "store/store.h"

/* ---- bounds that both formats share; the table of a format's own bounds is at the head of its parser ---- */
enum {
    SL_MAX_TENSORS = 100000,      /* over all files; the largest known checkpoint has about 60,000 */
    SL_MAX_FILES = 4096,          /* shards of one model */
    SL_MAX_NAME_BYTES = 255,      /* of a tensor */
    SL_MAX_JSON_BYTES = 64 << 20, /* an index or config file */
};
#define SL_MAX_TENSOR_BYTES ((uint64_t)1 << 48) /* far above any drive, far below where sums wrap */

typedef struct {
    char *path;
    uint64_t size_bytes;
    const uint8_t *memory; /* the file's bytes when they are given, borrowed; NULL: read them from path */
    uint64_t data_start;   /* where tensor data begins */
    char *names;           /* one block: the names of this file's tensors */
    size_t names_bytes;
} sl_store_file;

/* Items with a name as their first member, ordered by name.  A sorted list rather than a hash table: a file made to
 * collide cannot slow it down, and it costs four bytes an item. */
typedef struct {
    const void *items;
    size_t stride, n;
    uint32_t *order;
} sl_name_index;

/* The key/value pairs of one GGUF file.  meta.data points into header, meta.key into keys. */
typedef struct {
    const uint8_t *header; /* the file from its first byte to the end of the pairs */
    uint64_t header_bytes;
    uint8_t *owned; /* header when it was read, NULL when it is borrowed */
    sl_meta *metas;
    size_t n;
    char *keys;
    size_t keys_bytes;
    sl_name_index by_key;
} sl_meta_set;

struct sl_store {
    sl_store_format format;
    char *path;
    sl_store_file *files;
    size_t n_file, cap_file;
    sl_tensor *tensors;
    size_t n_tensor;
    sl_name_index by_name;
    sl_meta_set meta; /* of the first GGUF file; other shards carry nothing of interest */
    sl_json *config, *generation_config;
    uint64_t json_bytes; /* text of both */
};

/* ---- types that cannot be used, gathered into one message ---- */

enum { SL_TALLY_MAX = 12 };
typedef struct {
    struct {
        char type[48];    /* "IQ4_NL_4_4", "id 152" */
        char first[64];   /* the first tensor of this type */
        const char *note; /* or NULL */
        uint64_t key;     /* what makes two types the same */
        size_t n;
    } row[SL_TALLY_MAX];
    size_t n_row, n_tensor, n_unlisted; /* tensors in all; tensors whose type found no row */
} sl_type_tally;
/* type: NULL when id is not a known one. */
void sl_tally_add(sl_type_tally *t, const sl_type_info *type, uint32_t id, const char *tensor);
void sl_tally_add_dtype(sl_type_tally *t, const char *dtype, const char *tensor);
/* OK when nothing was counted, else UNSUPPORTED with all of it; why: "that ...", goes on from "of a type" */
sl_status sl_tally_refuse(const sl_type_tally *t, const char *path, const char *why, sl_err *err);

/* ---- building ---- */

sl_status sl_store_new(sl_store **out, sl_store_format format, const char *path, sl_err *err);
/* Adds a file (path is copied); its size is taken from the OS unless memory is given. */
sl_status sl_store_add_file(sl_store *s, const char *path, const uint8_t *memory, uint64_t memory_bytes, sl_err *err);
/* Room for n more tensors and their names in the file added last; *names is the block.  Refuses above SL_MAX_TENSORS.
 */
sl_status sl_store_reserve(sl_store *s, uint64_t n, uint64_t names_bytes, sl_tensor **tensors, char **names,
                           sl_err *err);
sl_status sl_store_read_at(const sl_store_file *f, uint64_t offset, void *dst, size_t bytes, sl_err *err);

/* weight_map: of an index file, or NULL: which file is meant when a name occurs twice. */
sl_status sl_store_finish(sl_store *s, const sl_type_tally *tally, const sl_json *weight_map, const sl_log *log,
                          sl_err *err);

/* Parses the header of the file added last. */
sl_status sl_gguf_parse_file(sl_store *s, sl_meta_set *meta, sl_type_tally *tally, sl_err *err);
sl_status sl_safetensors_parse_file(sl_store *s, sl_type_tally *tally, sl_err *err);

/* Bytes of a tensor, every step checked; false when they wrap or pass SL_MAX_TENSOR_BYTES.  The elements must fill
 * whole blocks.  A dimension of 0 gives 0. */
bool sl_tensor_bytes(const sl_type_info *type, const uint64_t dims[4], uint64_t *bytes);
/* "[2048, 512]" into buf, for messages. */
const char *sl_show_dims(const sl_tensor *t, char buf[96]);

/* ---- metadata of one file ---- */

const sl_meta *sl_meta_set_find(const sl_meta_set *x, const char *key);
void sl_meta_set_free(sl_meta_set *x);
bool sl_meta_is_int(const sl_meta *m, int64_t *out); /* false: not an integer, or beyond int64 */
const char *sl_gguf_type_name(uint32_t type);
uint32_t sl_gguf_scalar_bytes(uint32_t type); /* of a known type; 0: string, array */

/* ---- opening by kind ---- */

typedef enum { SL_SNIFF_GGUF, SL_SNIFF_SAFETENSORS } sl_sniffed;
/* What a file holds, from its first bytes; the name only decides when they say nothing.  Refuses what is neither, and
 * says what it seems to be. */
sl_status sl_sniff_file(sl_sniffed *out, const char *path, sl_err *err);

sl_status sl_gguf_open(sl_store **out, const char *model, const char *path, const sl_log *log, sl_err *err);
/* The GGUF of a directory; *path stays NULL when it holds none.  Free with sl_free. */
sl_status sl_gguf_pick(char **path, const char *dir, char *const *names, size_t n_name, sl_err *err);
/* only: one file of the directory, or NULL for the whole model. */
sl_status sl_hf_open(sl_store **out, const char *model, const char *dir, const char *only, const sl_log *log,
                     sl_err *err);
/* Is this the name of a helper (vision projector, adapter) rather than of a model? */
bool sl_is_helper_name(const char *name);
bool sl_has_suffix(const char *name, const char *suffix); /* ASCII case ignored */
/* Parses "PREFIX-00002-of-00003.EXT"; *prefix is the length of PREFIX. */
bool sl_shard_name(const char *name, const char *suffix, size_t *prefix, uint32_t *no, uint32_t *count);
char *sl_path_join(const char *dir, const char *name); /* NULL: no memory */

/* ---- names ---- */

sl_status sl_name_index_build(sl_name_index *x, const void *items, size_t stride, size_t n, sl_err *err);
void sl_name_index_free(sl_name_index *x);
size_t sl_name_index_find(const sl_name_index *x, const char *name); /* SIZE_MAX: absent */
/* The first run of equal names at or after place *from of the order: its place and length; false when there is none. */
bool sl_name_index_group(const sl_name_index *x, size_t *from, size_t *n);

/* NULL when name is fit to be one (valid UTF-8, no control characters, which would break messages into lines), else
 * what is wrong with it. */
const char *sl_name_fault(const char *name, size_t n);
/* For messages: at most 60 bytes of s, anything but printable ASCII as '?'. */
const char *sl_show(const char *s, size_t n, char buf[64]);
/* For messages: the path, or the end of a very long one. */
const char *sl_show_path(const char *path);

#endif
