/* Room text: from text to token ids and back.  Byte-level BPE and SentencePiece BPE, from GGUF metadata or from a
 * tokenizer.json; the public functions (sl_tokenize and so on) are implemented here too. */
#ifndef SL_TEXT_H
#define SL_TEXT_H

#include "store/store.h"

/* Builds the tokenizer of an opened model.  n_vocab_rows: rows of the embedding table (ids at or above it are never
 * produced; 0: not known).  The result copies what it needs; the store may then drop its metadata.
 * Memory: two or three flat blocks through os/mem.h are not available in this room; sl_malloc is used, and
 * sl_tokenizer_bytes tells the ledger. */
sl_status sl_tokenizer_build(sl_tokenizer **out, const sl_store *store, uint32_t n_vocab_rows, const sl_log *log,
                             sl_err *err);
uint64_t sl_tokenizer_bytes(const sl_tokenizer *t);

/* Ids that end generation: eos, eot, eom, generation_config's list, and tokens whose text is a known end marker. */
size_t sl_tokenizer_end_count(const sl_tokenizer *t);

/* Part of a text, [from, to) in bytes. */
typedef struct {
    size_t from, to;
} sl_text_span;
/* sl_tokenize for a rendered chat template: a control token is recognised only where it lies wholly outside the plain
 * spans (what a user or a tool wrote), so that nobody can type a turn.  plain: sorted, not overlapping. */
sl_status sl_tokenizer_encode(const sl_tokenizer *t, const char *text, size_t n_bytes, unsigned flags,
                              const sl_text_span *plain, size_t n_plain, int32_t *ids, size_t cap, size_t *n_ids,
                              sl_err *err);

#endif
