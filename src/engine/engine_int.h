/* Inside the room: the parts of an engine and a session. */
#ifndef SL_ENGINE_INT_H
#define SL_ENGINE_INT_H

#include "model/model.h"
#include "stream/experts.h"
#include "text/grammar.h"
#include "text/text.h"

/* What is known before any memory is taken: headers, tokenizer, settings. */
typedef struct {
    sl_store *store;
    sl_model *model;
    sl_tokenizer *tok; /* NULL: the model directory has none */
    sl_model_info info;
    char *name, *arch;
    uint32_t *exec; /* layers to run, in order */
    uint32_t n_exec;
    uint64_t base_bytes; /* of the process, tokenizer and directory left out */
} sl_parts;

sl_status sl_parts_open(sl_parts *p, const char *model, const sl_engine_options *opt, sl_err *err);
void sl_parts_close(sl_parts *p);
/* What the process holds beyond what the ledger will list: measured after headers, and texts, were parsed and freed. */
void sl_parts_measure_base(sl_parts *p);

/* Parts of the public description (parts.c): totals of the directory; shapes of an understood model. */
void sl_model_info_from_store(sl_model_info *info, const sl_store *store);
void sl_model_info_from_config(sl_model_info *info, const sl_model *m);

/* What can be said against options before a model is looked at, and against a cache type for this model. */
sl_status sl_engine_check_options(const sl_engine_options *opt, sl_err *err);
sl_status sl_parts_check_kv(const sl_parts *p, const sl_engine_options *opt, sl_err *err);

/* Backend options for a chunk size; kv type with AUTO resolved for the backend. */
void sl_backend_options_for(const sl_parts *p, const sl_engine_options *opt, uint32_t chunk_tok, sl_backend_options *out);
sl_kv_type sl_kv_type_for(const sl_engine_options *opt);

/* The budget split (budget.c).  align and views as the read method has them; fills every byte count of out.
 * Never fails for lack of budget: out->fits says.  record: what is known of a mixture's experts. */
sl_status sl_budget_split(const sl_parts *p, const sl_engine_options *opt, uint32_t align, bool views,
                          const sl_experts_record *record, sl_plan *out, sl_err *err);
/* The sentence for a plan that does not fit; returns BUDGET. */
sl_status sl_budget_refuse(const sl_parts *p, const sl_plan *plan, sl_err *err);
void sl_residency_options_for(const sl_parts *p, const sl_engine_options *opt, uint32_t align, bool views,
                              uint32_t chunk_tok, sl_residency_options *out);
uint64_t sl_forward_bytes(const sl_model *m, uint32_t chunk_tok); /* activations + one row of logits */
uint64_t sl_sampler_reserve_bytes(const sl_model *m);             /* what the largest sampler of a session takes */
/* What n grammars in use at a time take, and the tree of the vocabulary (grammar.c). */
uint64_t sl_grammar_reserve_bytes(const sl_parts *p, uint32_t n);
uint64_t sl_kv_bytes_for(const sl_parts *p, sl_kv_type type, uint32_t ctx_tok);

/* Routed experts (experts.c). */
enum { SL_PATH_BYTES = 4096 };
bool sl_has_experts(const sl_parts *p);
void sl_experts_options_for(const sl_parts *p, const sl_engine_options *opt, uint32_t align, bool views,
                            sl_experts_options *out);
/* What earlier runs have left in dir (NULL: none); empty when there is nothing. */
void sl_record_open(sl_experts_record *r, const sl_parts *p, const char *dir, const sl_log *log);
sl_status sl_engine_open_experts(sl_engine *e, sl_io *io, sl_err *err);
void sl_engine_keep_record(sl_engine *e); /* what the run has learned, for the next */

/* "0-3,7,7" to a list; NULL and 0: all layers.  errors ARG, naming the entry */
sl_status sl_layer_list_parse(const char *spec, uint32_t max_layers, uint32_t n_layer, uint32_t **out, uint32_t *n,
                              sl_err *err);

struct sl_engine {
    sl_engine_options opt;
    sl_log log;
    sl_parts parts;
    sl_plan plan;
    sl_ledger ledger;
    sl_io *io;
    sl_backend *be;
    sl_residency *res;
    sl_experts *experts; /* NULL: a dense model */
    sl_experts_record record;
    char *cache_dir; /* owned; NULL: no record */
    sl_kv_type kv_type;

    /* scratch shared by all sessions: one feeds at a time */
    sl_block scratch;
    sl_forward fwd;
    sl_matrix *views;     /* [max_unit_rows] of the unit that runs */
    const sl_unit *units; /* [n_unit] what the residency holds: the model's own, or a sample of them (calibrate.c) */
    uint32_t n_unit, n_head;
    const sl_tensor *table; /* the embedding table, or the sample's part of it */
    uint32_t *sequence;   /* units of a sweep: n_exec layers, then n_head blocks of the head */
    int busy;           /* atomic: a session is feeding */

    sl_token_trie *trie; /* of the vocabulary, made with the first grammar */
    uint64_t trie_bytes; /* in the ledger */

    uint64_t layers_executed, failed, load_bytes_read;
    double compute_s, load_s; /* inside layers and head blocks; opening */
};

struct sl_grammar {
    sl_engine *e;
    sl_gram *gram;
    uint64_t bytes; /* in the ledger */
    int32_t control[SL_GUIDE_MAX_CONTROL];
    size_t n_control;
};
/* A guide at the beginning of a text, *bytes of it in the ledger. */
sl_status sl_grammar_guide(sl_grammar *g, uint32_t n_vocab, sl_guide **out, uint64_t *bytes, sl_err *err);
void sl_grammar_guide_close(sl_grammar *g, sl_guide *guide, uint64_t bytes);

struct sl_session {
    sl_engine *e;
    sl_block kv;           /* [n_exec][K and V][ctx] rows */
    uint64_t row_bytes, area_bytes; /* of one row; of K (or V) of one layer */
    uint32_t ctx_tok, committed_tok, n_tok;
    sl_block logits_block;
    float *logits;         /* [vocab] of the last token */
    bool logits_valid;
    sl_block rows_block;   /* feed_all: [rows_tok][vocab] */
    uint32_t rows_tok;
    volatile bool cancel;
    void (*hook)(void *user, const sl_layer_event *e);
    void *hook_user;
};

/* Everything that is entered in the ledger, in the order fixed parts, small weights, backend, scratch, order of units,
 * resident set; io is where the matrices come from.  Wants opt, parts, plan, kv_type, io and the ledger's budget filled in,
 * and takes every unit of the model when e->units is not set. */
sl_status sl_engine_open_memory(sl_engine *e, sl_io *io, sl_err *err);
void sl_engine_close_memory(sl_engine *e);
/* Opens the model's files by opt->io. */
sl_status sl_parts_open_io(const sl_parts *p, const sl_engine_options *opt, const sl_log *log, sl_io **out, sl_err *err);

/* sl_engine_open with the read table put through wrap first (tests: the faulty reader).  wrap owns io on success. */
typedef sl_status (*sl_io_wrap)(void *user, sl_io **io, sl_err *err);
sl_status sl_engine_open_wrapped(sl_engine **out, const char *model, const sl_engine_options *opt, sl_io_wrap wrap,
                                 void *user, sl_err *err);

/* One sweep over the executed layers for tokens [n] at position pos (sweep.c).  n_row > 0: logits of the last n_row
 * tokens into logits [n_row][vocab]. */
sl_status sl_sweep(sl_session *s, const int32_t *tokens, uint32_t n, uint32_t pos, uint32_t n_row, float *logits,
                   bool again, sl_err *err);

#endif
