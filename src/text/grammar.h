/* Constrained output: grammars compiled to an automaton over bytes, and the tokens that each position of a text allows.
 *
 *   sl_gram         a compiled grammar, read-only: rules, each a nondeterministic automaton over bytes whose edges may
 *                   call other rules
 *   sl_token_trie   the texts of a vocabulary as one tree over bytes; one per tokenizer
 *   sl_guide        where one text stands in a grammar; knows which tokens may come next
 *
 * docs/constrained-output.md has the dialects and the design. */
#ifndef SL_GRAMMAR_H
#define SL_GRAMMAR_H

#include "text/text.h"

/* ---- compiled grammars ---- */

typedef struct sl_gram sl_gram;

typedef struct {
    sl_grammar_kind kind;
    const char *text; /* not for SL_GRAMMAR_JSON */
    size_t text_bytes;
    const char *trigger;   /* free text up to and including this comes first; NULL: none */
    bool trigger_required; /* a text that ends without the trigger is refused */
    uint64_t max_bytes;    /* what compiling may hold at once */
} sl_gram_options;

/* errors  FORMAT: the text is not what kind says (with place); UNSUPPORTED: valid, but not here (schemas: names keyword
 *         and path); LIMIT: too large, too deep, too long; NOMEM */
sl_status sl_gram_open(sl_gram **out, const sl_gram_options *o, sl_err *err);
void sl_gram_close(sl_gram *g);
uint64_t sl_gram_bytes(const sl_gram *g);

/* Tool calls as one JSON object each: {"<name_key>": name, "<arguments_key>": arguments}. */
sl_status sl_gram_open_tools(sl_gram **out, const sl_tool_grammar_options *o, uint64_t max_bytes, sl_err *err);

/* ---- the vocabulary as a tree ---- */

typedef struct sl_token_trie sl_token_trie;

/* Keeps t (borrowed).  Tokens that end generation, control tokens and tokens of more than 255 bytes are left out. */
sl_status sl_token_trie_open(sl_token_trie **out, const sl_tokenizer *t, sl_err *err);
void sl_token_trie_close(sl_token_trie *tr);
uint64_t sl_token_trie_bytes(const sl_token_trie *tr);
/* At most so much, from the vocabulary alone. */
uint64_t sl_token_trie_bound_bytes(const sl_tokenizer *t);

/* ---- a position ---- */

typedef struct sl_guide sl_guide;

enum { SL_GUIDE_MAX_CONTROL = 32, SL_GUIDE_MAX_ROLLBACK = 32 };

/* A guide at the beginning of a text.  Everything it will need is allocated here: max_bytes, of which pages are touched
 * as they are used; at least sl_guide_least_bytes().  n_vocab: rows of the model's logits.  control: tokens left out of the
 * tree that the grammar may write all the same; their text stands for them.  gram and trie are borrowed.
 * errors  LIMIT, NOMEM, ARG (control) */
sl_status sl_guide_open(sl_guide **out, const sl_gram *gram, const sl_token_trie *trie, uint32_t n_vocab,
                        const int32_t *control, size_t n_control, uint64_t max_bytes, sl_err *err);
void sl_guide_close(sl_guide *gd);
uint64_t sl_guide_least_bytes(uint32_t n_vocab);
/* Back to the beginning. */
sl_status sl_guide_reset(sl_guide *gd, sl_err *err);
/* The tokens that may come next, bit id of word id / 64; [(n_vocab + 63) / 64] words, valid until the next call.
 * errors  LIMIT: too much work or memory for one token; FORMAT: no token is allowed */
sl_status sl_guide_mask(sl_guide *gd, const uint64_t **mask, sl_err *err);
/* *allowed: whether sl_guide_mask would allow the token; far cheaper. */
sl_status sl_guide_allows(sl_guide *gd, int32_t token, bool *allowed, sl_err *err);
/* The token is part of the text.  errors  ARG: the grammar does not allow it (the position is unchanged); LIMIT */
sl_status sl_guide_accept(sl_guide *gd, int32_t token, sl_err *err);
/* Takes the last n accepted tokens back, n <= SL_GUIDE_MAX_ROLLBACK of them.  errors  ARG */
sl_status sl_guide_rollback(sl_guide *gd, size_t n, sl_err *err);
bool sl_guide_can_end(const sl_guide *gd);  /* the text is complete as it is */
bool sl_guide_must_end(const sl_guide *gd); /* ... and nothing can follow */

#endif
