/* Sluice: language models larger than memory, streamed from disk.
 *
 * The only public header.  In the order a caller meets things: errors, model files, tokenizer, plan,
 * engine, session, sampler, replies.  Handles are opaque; option structs are filled by their init function, so
 * that a new field breaks no source.  The library never prints, exits or aborts on input: a failing
 * call returns a status and writes one sentence into the caller's sl_err (NULL is allowed everywhere).
 * Closers take NULL.  Two engines may live in one process.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_VERSION "0.1.0"
#define SL_API __attribute__((visibility("default")))

/* ---- errors, log, progress ---------------------------------------------------------------------- */

typedef enum {
    SL_OK = 0,
    SL_ERR_NOMEM,       /* allocation refused, nothing changed              */
    SL_ERR_IO,          /* the OS said no; sl_err.os_errno has its reason    */
    SL_ERR_FORMAT,      /* the file is not what it claims to be              */
    SL_ERR_UNSUPPORTED, /* valid, but not in this build or on this machine   */
    SL_ERR_LIMIT,       /* a documented bound was hit (context full, ...)    */
    SL_ERR_BUDGET,      /* does not fit the memory budget                    */
    SL_ERR_ARG,         /* an argument makes no sense                        */
    SL_ERR_CANCELED,    /* the caller asked us to stop                       */
} sl_status;

typedef struct {
    sl_status code;
    int os_errno;  /* 0 when the OS was not involved */
    char msg[768]; /* one sentence, owned by the caller */
} sl_err;

typedef enum { SL_LOG_NOTE, SL_LOG_WARNING } sl_log_level;
typedef void (*sl_log_fn)(void *user, sl_log_level level, const char *msg);

typedef enum { SL_PHASE_LOAD, SL_PHASE_PREFILL, SL_PHASE_PROBE } sl_phase;
typedef struct {
    sl_phase phase;
    uint64_t done_bytes, total_bytes; /* total 0: not known */
    uint64_t done_tok, total_tok;
    double elapsed_s;
} sl_progress;
typedef void (*sl_progress_fn)(void *user, const sl_progress *p);

/* ---- what is on disk ---------------------------------------------------------------------------- */

/* The tensor directory of a model file or directory, from headers alone (no weight is read). */
typedef struct sl_model_file sl_model_file;

typedef struct {
    const char *name;      /* as in the file */
    const char *type;      /* "Q4_1", "F32", ... */
    uint32_t n_dims;
    uint64_t dims[4];      /* outermost first: a linear weight is [out, in] */
    const char *file;      /* path of the file that holds it */
    uint64_t offset_bytes; /* in that file */
    uint64_t size_bytes;
    int32_t layer;         /* -1: not part of a layer */
    bool supported;        /* this build can compute with the type */
} sl_tensor_info;

typedef struct {
    const char *format;       /* "gguf" or "safetensors" */
    const char *architecture; /* as in the file */
    const char *family;       /* NULL: no family of this build runs it */
    const char *name;         /* "" when the file does not say */
    uint32_t n_layer, n_vocab, n_embd, n_head, n_head_kv, head_dim, n_ff, n_expert, n_expert_used;
    uint32_t ctx_train_tok;
    uint64_t n_param;
    uint64_t weight_bytes; /* sum over all tensors */
    uint64_t expert_bytes; /* of them routed experts; 0 without experts */
    uint64_t active_bytes; /* weights that one token uses: all but the experts that it is not routed to */
    uint32_t n_file;
    bool tied_head;
} sl_model_info;

SL_API sl_status sl_model_file_open(sl_model_file **out, const char *model, sl_err *err);
SL_API void sl_model_file_close(sl_model_file *m);
SL_API size_t sl_model_file_tensor_count(const sl_model_file *m);
SL_API void sl_model_file_tensor(const sl_model_file *m, size_t i, sl_tensor_info *out);
SL_API void sl_model_file_info(const sl_model_file *m, sl_model_info *out);
/* Metadata as text, for people: arrays are shortened.  buf is always terminated. */
SL_API size_t sl_model_file_meta_count(const sl_model_file *m);
SL_API const char *sl_model_file_meta(const sl_model_file *m, size_t i, char *buf, size_t buf_bytes);

/* ---- tokenizer ---------------------------------------------------------------------------------- */

typedef struct sl_tokenizer sl_tokenizer;

enum {
    SL_ENCODE_BOS = 1,     /* add BOS (and EOS) where the model's settings say so */
    SL_ENCODE_SPECIAL = 2, /* control tokens written in the text become control tokens */
};

SL_API sl_status sl_tokenizer_open(sl_tokenizer **out, const char *model, sl_log_fn log, void *log_user, sl_err *err);
SL_API void sl_tokenizer_close(sl_tokenizer *t);
/* Encodes text [n_bytes] into ids, at most cap.  *n_ids is the number the text needs, even when that
 * exceeds cap (then SL_ERR_LIMIT). */
SL_API sl_status sl_tokenize(sl_tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int32_t *ids, size_t cap,
                             size_t *n_ids, sl_err *err);
/* The exact bytes of one token inside a text, *n_bytes of them; NULL for an id out of range.  Control
 * tokens give an empty string unless special is set. */
SL_API const char *sl_token_bytes(const sl_tokenizer *t, int32_t id, bool special, size_t *n_bytes);
/* Bytes of a whole sequence; *n_bytes as n_ids above. */
SL_API sl_status sl_detokenize(sl_tokenizer *t, const int32_t *ids, size_t n, bool special, char *out, size_t cap,
                               size_t *n_bytes, sl_err *err);
SL_API uint32_t sl_tokenizer_vocab(const sl_tokenizer *t);
SL_API int32_t sl_tokenizer_bos(const sl_tokenizer *t); /* -1: none */
SL_API bool sl_tokenizer_is_end(const sl_tokenizer *t, int32_t id);

/* Streaming detokeniser: never emits half a character. */
typedef struct sl_detok sl_detok;
SL_API sl_status sl_detok_open(sl_detok **out, const sl_tokenizer *t, bool special, sl_err *err);
/* Adds a token; *text [*n_bytes] is what became complete, valid UTF-8, owned by d until the next call. */
SL_API void sl_detok_add(sl_detok *d, int32_t id, const char **text, size_t *n_bytes);
/* Ends the text: an incomplete tail becomes one U+FFFD. */
SL_API void sl_detok_end(sl_detok *d, const char **text, size_t *n_bytes);
SL_API void sl_detok_close(sl_detok *d);

/* ---- chat templates ------------------------------------------------------------------------------ */

/* The templates by which a model's conversations become prompts, compiled.  Rendering never changes it: threads may
 * share one.  Takes some hundred KB that no engine's budget knows of unless it is opened before the engine. */
typedef struct sl_chat sl_chat;
typedef struct sl_chat_prompt sl_chat_prompt;

/* choice  NULL: the model's own; the name of a plain one ("chatml", "llama3", ...: docs/templates.md); else a file.
 * errors  UNSUPPORTED: there is none, or it uses what this engine lacks (with the line); FORMAT: its syntax, with the
 *         line; ARG: the choice is nothing of these */
SL_API sl_status sl_chat_open(sl_chat **out, const char *model, const char *choice, sl_log_fn log, void *log_user,
                              sl_err *err);
/* A template alone, from text [n_bytes]; name: for messages.  bos_token and so on are then the request's matter. */
SL_API sl_status sl_chat_open_text(sl_chat **out, const char *name, const char *text, size_t n_bytes, sl_err *err);
SL_API void sl_chat_close(sl_chat *c);
/* The source of the template that a request with or without tools is rendered by. */
SL_API const char *sl_chat_template(const sl_chat *c, bool with_tools, size_t *n_bytes);

typedef struct {
    size_t struct_size;
    int64_t now_s; /* what templates that ask take for the time, seconds since 1970; 0: the clock's */
    bool as_is;    /* the template sees the request's keys as they are: no message is put into the form it expects */
} sl_chat_options;
SL_API void sl_chat_options_init(sl_chat_options *opt);

/* Renders a request: JSON text [n_bytes], {"messages": [...], "tools": [...], "add_generation_prompt": true,
 * "continue_final_message": false, ...any variable of the template} or the list of messages alone.
 *
 * errors  ARG: the template raises, with its message; or the request is wrong, with the place; UNSUPPORTED: tools that
 *         the template has no place for; FORMAT: the template fails with this request, with the line; LIMIT, NOMEM */
SL_API sl_status sl_chat_render(sl_chat_prompt **out, const sl_chat *c, const char *json, size_t n_bytes,
                                const sl_chat_options *opt, sl_err *err);
SL_API void sl_chat_prompt_close(sl_chat_prompt *p);
SL_API const char *sl_chat_prompt_text(const sl_chat_prompt *p, size_t *n_bytes); /* terminated, owned by p */
/* The stretches [from, to) of the text that came out of the request: no control token is recognised in them. */
SL_API size_t sl_chat_prompt_user_count(const sl_chat_prompt *p);
SL_API void sl_chat_prompt_user_span(const sl_chat_prompt *p, size_t i, size_t *from, size_t *to);
/* The prompt's ids, with the model's BOS before them unless the template wrote it; else as sl_tokenize. */
SL_API sl_status sl_chat_prompt_tokenize(const sl_chat_prompt *p, const sl_tokenizer *t, int32_t *ids, size_t cap,
                                         size_t *n_ids, sl_err *err);

/* ---- engine ------------------------------------------------------------------------------------- */

typedef enum { SL_IO_AUTO, SL_IO_URING, SL_IO_PREAD, SL_IO_BUFFERED, SL_IO_MMAP } sl_io_method;
typedef enum { SL_POLICY_AUTO, SL_POLICY_PIN, SL_POLICY_LRU, SL_POLICY_FIFO } sl_policy;
typedef enum { SL_BACKEND_AUTO, SL_BACKEND_CPU, SL_BACKEND_SCALAR } sl_backend_kind;
typedef enum { SL_CPU_AUTO, SL_CPU_PORTABLE, SL_CPU_AVX2, SL_CPU_AVX512 } sl_cpu_level;
typedef enum { SL_KV_AUTO, SL_KV_F32, SL_KV_F16, SL_KV_Q8 } sl_kv_type;

/* Routed experts of mixtures: which of them stay in memory, and what is read before the router asks (docs/experts.md).  All
 * choices give the same tokens.  AUTO is EXACT, or HOT when memory holds less than one token's experts. */
typedef enum { SL_EXPERTS_AUTO, SL_EXPERTS_EXACT, SL_EXPERTS_STAGED, SL_EXPERTS_HOT, SL_EXPERTS_LAYER } sl_experts_path;
typedef enum { SL_PREDICT_AUTO, SL_PREDICT_OFF, SL_PREDICT_HISTORY, SL_PREDICT_LOOKAHEAD } sl_predict;
/* Names are Edge0's where it has one; 0: the default in brackets. */
typedef struct {
    sl_experts_path path;
    sl_predict predict;
    uint32_t cache_slots;         /* experts in memory at most [as many as fit] */
    uint32_t staged_n;            /* STAGED: slots of a layer, twice [experts of a token] */
    uint32_t hot_per_layer;       /* HOT: experts of a layer that stay [half of the slots] */
    uint32_t hot_update_interval; /* tokens between two choices of them [4] */
    float hot_decay;              /* of use counts, per token [0.998] */
    uint32_t prefetch_cap;        /* experts read ahead and not used yet, at most [four times a token's in a layer] */
    bool prefetch_always;         /* read ahead also where it has proved useless, or the drive has no time for it */
    bool full_layer_prefill;      /* prompts: LAYER, whatever the path */
    uint32_t prefill_full_layers; /* LAYER: only the first so many layers [all] */
    uint32_t prefill_hot;         /* prompts: HOT with so many, whatever the path [the path] */
} sl_expert_options;
/* Reads "staged,staged_n=4,prefetch_cap=8": a path or one of the presets staged_k4, staged_k8, prod_k8, then fields.
 * errors  ARG names the word */
SL_API sl_status sl_expert_options_parse(const char *text, sl_expert_options *out, sl_err *err);

/* Called once by sl_engine_open, with the tokenizer (NULL: the model has none) and the plan, before memory is taken for
 * weights: a caller that knows its prompt may set the context that it needs (*ctx_tok, at most plan->ctx_max_tok), for which
 * the memory is then split anew.  What it has allocated counts as the program's.  Any status but OK ends open with it. */
typedef struct sl_plan sl_plan;
typedef sl_status (*sl_settle_fn)(void *user, sl_tokenizer *tokenizer, const sl_plan *plan, uint32_t *ctx_tok, sl_err *err);

typedef struct {
    size_t struct_size;         /* set by the init function */
    uint64_t memory_bytes;      /* bound on the whole process; 0: what the machine can spare */
    uint32_t ctx_tok;           /* 0: the largest useful one that fits, at most 4096 */
    uint32_t n_threads;         /* 0: from affinity and CPU quota */
    uint32_t prefill_chunk_tok; /* 0: the largest that fits, at most 512 */
    sl_kv_type kv;
    sl_backend_kind backend;
    sl_cpu_level cpu;
    sl_io_method io;
    sl_policy policy;
    sl_expert_options experts; /* of mixtures; predict overrides what experts says, unless AUTO */
    sl_predict predict;
    const char *cache_dir; /* use counts of experts are kept here from run to run; NULL: they are not */
    uint32_t n_constrained; /* grammars in use at a time (sl_grammar_open) that memory is kept for; 0: none */
    const char *layers;   /* "0-3,7,7": run these, in this order; NULL: all */
    uint32_t max_layers;  /* run the first n; 0: all; not with layers */
    double drive_bytes_s; /* forecast with this rate; 0: probe the drive */
    bool no_probe;        /* plan from headers alone: neither drive, memory nor processor is measured (no forecast) */
    uint32_t forecast_prompt_tok, forecast_predict_tok; /* what a plan forecasts; 0: 512 and 64, or what the context holds */
    sl_log_fn log;
    void *log_user;
    sl_progress_fn progress;
    void *progress_user;
    const volatile bool *cancel; /* polled while loading: once true, open ends with CANCELED; NULL: never */
    bool load_late;       /* open reads no weights that stay: the first prompt does, computing meanwhile (reading by mmap is
                             as ever); progress is then called while feeding */
    sl_settle_fn settle;  /* NULL: nothing to settle */
    void *settle_user;
} sl_engine_options;

SL_API void sl_engine_options_init(sl_engine_options *opt);

/* The budget split and forecast.  Sizes in bytes, rates per second. */
struct sl_plan {
    bool fits;
    uint64_t budget_bytes;       /* the bound */
    uint64_t base_bytes;         /* program, libraries, stacks, small objects */
    uint64_t tokenizer_bytes;
    uint64_t always_bytes;       /* norms, biases and other small weights, always resident */
    uint64_t kv_bytes;           /* for ctx_tok */
    uint64_t kv_bytes_per_tok;
    uint64_t scratch_bytes;      /* activations and logits */
    uint64_t window_bytes;       /* memory that streamed weights pass through */
    uint64_t resident_bytes;     /* weights that stay */
    uint64_t expert_bytes;       /* slots of routed experts */
    uint64_t total_bytes;        /* sum of the above */
    uint64_t minimum_bytes;      /* the smallest budget that works with this ctx_tok */
    uint64_t model_bytes;        /* weights that a token touches */
    uint64_t stream_bytes;       /* of these, read from the drive per token (experts: as the hit rate leads to expect) */
    uint64_t prompt_bytes;       /* read from the drive per chunk of a prompt */
    uint32_t expert_count, expert_slots; /* routed experts in all layers, and how many fit; 0: a dense model */
    uint32_t expert_useful_slots; /* one token's: with fewer, most are read again for every token */
    uint64_t expert_slot_bytes, expert_token_bytes; /* of the largest slot; of one token's experts */
    double expert_hit_rate;      /* to expect when decoding: from this model's record, else from published curves */
    uint32_t ctx_tok, ctx_max_tok; /* chosen; largest that fits the budget */
    uint32_t prefill_chunk_tok;
    uint32_t n_window;
    double drive_bytes_s, memory_bytes_s; /* measured or given; 0: not probed */

    /* forecast; 0: not known */
    uint32_t prompt_tok, predict_tok; /* a prompt of so many tokens, then so many one by one */
    double prefill_tok_s, decode_tok_s, load_s;
    double first_token_s;                        /* opening, then the prompt with load_late; reading by mmap takes longer */
    double decode_full_tok_s;                    /* with the context full */
    double prefill_compute_s, prefill_wait_s;    /* of the whole prompt: computing, waiting for reads */
    double decode_compute_s, decode_wait_s;      /* of one token */
    char limit[32];                              /* "drive", "memory" or "compute": what bounds decoding */
};

/* Headers, then a look of one to two seconds at the drive (unless opt->drive_bytes_s is set), the memory and what the model's
 * own layers cost on this machine, within the budget's memory.  A budget that is too small is not an error here: fits is false,
 * and err->msg (if given) holds the sum.  One with no room for that look leaves the forecast unknown. */
SL_API sl_status sl_engine_plan(const char *model, const sl_engine_options *opt, sl_plan *out, sl_err *err);

typedef struct sl_engine sl_engine;

/* Loads a model: parses headers, plans the memory, reads the resident set.
 * errors  FORMAT, UNSUPPORTED, IO, NOMEM; BUDGET when it cannot fit, with the sum in the message */
SL_API sl_status sl_engine_open(sl_engine **out, const char *model, const sl_engine_options *opt, sl_err *err);
SL_API void sl_engine_close(sl_engine *e);
SL_API void sl_engine_info(const sl_engine *e, sl_model_info *out);
SL_API void sl_engine_get_plan(const sl_engine *e, sl_plan *out);
SL_API sl_tokenizer *sl_engine_tokenizer(sl_engine *e); /* owned by e; NULL when the model has none */

/* Of a mixture's routed experts; all 0 and NULL for a dense model. */
typedef struct {
    uint32_t slots;
    const char *path, *predict;
    uint64_t hits, misses;               /* a miss had to be read for this token, on demand or because it was predicted */
    uint64_t decode_hits, decode_misses; /* of these, while decoding */
    uint64_t evictions, demand_bytes, waves;
    uint64_t prefetch_issued, prefetch_used, prefetch_wasted, prefetch_bytes, wasted_bytes;
    uint64_t warm_issued, warm_bytes;    /* read at start because earlier runs used them */
    double recall, precision;            /* of predictions */
    double wait_s, hidden_s, busy_s;     /* waited for bytes; saved by predictions (estimate); reads were under way */
} sl_expert_stats;

typedef struct {
    uint64_t budget_bytes, peak_rss_bytes, ledger_peak_bytes;
    uint64_t bytes_read, reads;         /* from the drive, load included */
    uint64_t load_bytes_read;           /* of these, by opening, and for weights that stay */
    uint64_t layers_executed, tensors_loaded, tensors_released, prefetched, failed, hits, misses;
    uint64_t madvise_drops, madvise_needs;
    double io_wait_s, compute_s, load_s; /* waiting for reads; inside layers and the head; opening */
    const char *io_method, *backend, *cpu, *policy, *kv; /* what really runs */
    bool huge_pages;
    uint32_t threads;
    sl_expert_stats experts;
} sl_stats;
SL_API void sl_engine_stats(const sl_engine *e, sl_stats *out);
/* Called with what the router chose, for each layer with experts of each chunk: ids [n], ascending, of all tokens of the
 * chunk together.  NULL: none. */
SL_API void sl_engine_set_expert_hook(sl_engine *e, void (*hook)(void *user, uint32_t layer, const uint32_t *ids, uint32_t n),
                                      void *user);

/* ---- session ------------------------------------------------------------------------------------ */

typedef struct sl_session sl_session;

SL_API sl_status sl_session_open(sl_session **out, sl_engine *e, sl_err *err);
SL_API void sl_session_close(sl_session *s);

/* Runs the model over n new tokens and leaves logits for the last one.
 *
 * shapes   tokens [n]; sl_session_logits() is then f32 [vocab]
 * units    n counts tokens, 1 <= n <= sl_session_room_tok(s)
 * owns     tokens are borrowed for the call; logits stay with s until the next feed or close
 * blocks   yes, it may read weights from disk; sl_session_cancel() from another thread ends it early
 * errors   LIMIT (context full), ARG (id outside the vocabulary), IO, CANCELED; after any of them the
 *          position is unchanged
 * threads  one caller per session; sessions of one engine share its memory: one feeds at a time
 */
SL_API sl_status sl_session_feed(sl_session *s, const int32_t *tokens, size_t n, sl_err *err);
/* The same, and calls each(user, i, logits [vocab]) for every new token i in order; a false return stops
 * with CANCELED. */
SL_API sl_status sl_session_feed_all(sl_session *s, const int32_t *tokens, size_t n,
                                     bool (*each)(void *user, size_t i, const float *logits), void *user, sl_err *err);
SL_API const float *sl_session_logits(const sl_session *s); /* NULL before the first feed */
SL_API uint32_t sl_session_pos_tok(const sl_session *s);
SL_API uint32_t sl_session_room_tok(const sl_session *s);
/* Forgets all but the first n_tok tokens. */
SL_API sl_status sl_session_rewind(sl_session *s, uint32_t n_tok, sl_err *err);
SL_API void sl_session_reset(sl_session *s);
/* May be called from another thread or a signal handler; the feed under way ends with CANCELED.  Stays set until
 * sl_session_uncancel(). */
SL_API void sl_session_cancel(sl_session *s);
SL_API void sl_session_uncancel(sl_session *s);

/* What a layer sees, for probes and tests: called after each executed layer of each chunk.  hidden is the residual stream
 * [n_tok][n_embd] after the layer, borrowed for the call. */
typedef struct {
    uint32_t layer_index; /* in the model */
    uint32_t position;    /* in the executed sequence */
    bool is_first, is_last;
    const int32_t *tokens; /* of this chunk */
    size_t n_tok;
    const float *hidden;
    uint32_t n_embd;
} sl_layer_event;
SL_API void sl_session_set_layer_hook(sl_session *s, void (*hook)(void *user, const sl_layer_event *e), void *user);

/* ---- sampler ------------------------------------------------------------------------------------ */

/* Order: penalties, top-k, softmax at temperature 1, top-p, min-p, temperature, draw (docs/sampling.md). */
typedef struct {
    size_t struct_size;
    float temp; /* 0: greedy */
    uint32_t top_k;    /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    float repeat_penalty, presence_penalty, frequency_penalty; /* 1, 0, 0: off */
    uint32_t repeat_last_tok;                                  /* window of the penalties; 0: everything */
    uint64_t seed;
} sl_sampler_options;

typedef struct sl_sampler sl_sampler;
SL_API void sl_sampler_options_init(sl_sampler_options *opt);
/* errors  ARG names the field and its bounds */
SL_API sl_status sl_sampler_open(sl_sampler **out, uint32_t n_vocab, const sl_sampler_options *opt, sl_err *err);
SL_API void sl_sampler_close(sl_sampler *sm);
/* Tells the sampler of a token that is part of the text (prompt or generated): the penalties count it. */
SL_API void sl_sampler_accept(sl_sampler *sm, int32_t token);
/* Chooses a token from logits [vocab] (not modified).  Greedy takes the first of equal maxima.
 * errors  FORMAT when no logit is finite or one is NaN */
SL_API sl_status sl_sample(sl_sampler *sm, const float *logits, int32_t *token, sl_err *err);

/* ---- replies ------------------------------------------------------------------------------------ */

/* Generated text back to a message: reasoning, content, tool calls.  What a model writes around them is its dialect, known
 * from its chat template (docs/replies.md).  The text is fed as it comes, cut anywhere, even inside a character; events
 * joined equal the message whatever the cuts.
 *
 * Markers often are control tokens, which a detokeniser hides or shows all alike.  So feed tokens (sl_reply_push_token),
 * of which control tokens show only where the dialect knows them; or text in which those show that sl_reply_needs() tells.
 * Stop before the token that ends generation.  Bytes that are not UTF-8 become U+FFFD.
 *
 * A call is reported once it is whole and well-formed; until then its text is held back (sl_reply_held_bytes()).  What
 * turns out not to be a call is content, byte for byte.  White space that only separates parts (around markers, between
 * content and a call) belongs to none of them. */
typedef struct sl_reply sl_reply;

typedef enum {
    SL_REPLY_REASONING,  /* text */
    SL_REPLY_CONTENT,    /* text */
    SL_REPLY_CALL_BEGIN, /* i_call, id, name */
    SL_REPLY_CALL_ARGS,  /* i_call, text: a piece of a JSON object */
    SL_REPLY_CALL_END,   /* i_call */
} sl_reply_kind;

typedef struct {
    sl_reply_kind kind;
    const char *text; /* whole characters, not terminated; like all strings here borrowed for the call */
    size_t n_bytes;
    uint32_t i_call;
    const char *id, *name;
} sl_reply_event;

typedef enum {
    SL_THINKING_AUTO, /* begun when the prompt ends with the dialect's opening marker */
    SL_THINKING_BEGUN,
    SL_THINKING_NOT_BEGUN,
} sl_thinking;

typedef struct {
    size_t struct_size;
    const char *dialect;       /* a name of sl_reply_dialect_name(); NULL: found by chat_template and tokenizer */
    const char *chat_template; /* source text; NULL: not known */
    const sl_tokenizer *tokenizer; /* its special tokens tell what the template does not show; NULL: not asked */
    const char *prompt;    /* the rendered prompt or its end (256 bytes do), for SL_THINKING_AUTO; NULL: not known */
    sl_thinking thinking;
    const char *tools;     /* JSON array as in a request, OpenAI's or Anthropic's form; NULL: calls stay content */
    uint64_t id_seed;      /* ids of calls are made from it, where the model gives none */
    size_t max_bytes;      /* of the whole text; more is LIMIT */
    size_t max_call_bytes; /* a longer call stays content */
    void (*each)(void *user, const sl_reply_event *event); /* NULL: no events */
    void *user;
} sl_reply_options;

SL_API void sl_reply_options_init(sl_reply_options *opt);
/* Nothing of opt is kept but tokenizer (borrowed until close), each and user.
 * errors  ARG (unknown dialect, no options), FORMAT (tools are not an array of functions), NOMEM */
SL_API sl_status sl_reply_open(sl_reply **out, const sl_reply_options *opt, sl_err *err);
/* errors  LIMIT (max_bytes) and NOMEM, which every later call repeats; ARG (behind the finish) */
SL_API sl_status sl_reply_push(sl_reply *r, const char *text, size_t n_bytes, sl_err *err);
/* The same for a token of the tokenizer given at open.
 * errors  also ARG: no tokenizer, id outside the vocabulary (nothing changed then) */
SL_API sl_status sl_reply_push_token(sl_reply *r, int32_t id, sl_err *err);
/* Must a control token with this text show in what is pushed? */
SL_API bool sl_reply_needs(const sl_reply *r, const char *token, size_t n_bytes);
/* The text is over, or the token limit was reached: what is held is decided.  A call that is not whole is content. */
SL_API sl_status sl_reply_finish(sl_reply *r, sl_err *err);
SL_API size_t sl_reply_held_bytes(const sl_reply *r);
SL_API uint32_t sl_reply_call_count(const sl_reply *r); /* reported so far */
/* The message as JSON in OpenAI's form: {"role": "assistant", "content", "reasoning_content", "tool_calls"}.  content is
 * null when there is none beside calls; the last two are left out when empty.  Owned by r, until close; before the
 * finish, what was reported so far, until the next push. */
SL_API sl_status sl_reply_message(sl_reply *r, const char **json, size_t *n_bytes, sl_err *err);
SL_API const char *sl_reply_dialect(const sl_reply *r);
SL_API void sl_reply_close(sl_reply *r);
/* Names of the dialects of this build; the first is "none". */
SL_API size_t sl_reply_dialect_count(void);
SL_API const char *sl_reply_dialect_name(size_t i);

/* ---- constrained output ------------------------------------------------------------------------- */

/* A grammar that a sampler's text must keep to: docs/constrained-output.md has the dialects, what of JSON Schema is
 * understood, and every limit. */
typedef enum {
    SL_GRAMMAR_JSON,   /* any JSON object */
    SL_GRAMMAR_SCHEMA, /* what a JSON Schema describes */
    SL_GRAMMAR_REGEX,  /* what a regular expression matches as a whole */
    SL_GRAMMAR_GBNF,   /* rules as llama.cpp writes them */
} sl_grammar_kind;

typedef struct {
    size_t struct_size;
    sl_grammar_kind kind;
    const char *text; /* the schema, expression or rules; not for JSON */
    size_t text_bytes;
    const char *trigger;    /* free text up to and including this comes first ("</think>", "<tool_call>"); NULL: none */
    bool trigger_required;  /* a text may not end before it */
    const int32_t *control; /* control tokens that the grammar may write, as their text (at most 32) */
    size_t n_control;
} sl_grammar_options;

/* Tool calls, each as one JSON object: BEGIN (PREFIX {"name": ..., "arguments": {...}} SUFFIX) SEPARATOR ... END.  Any text
 * may be NULL: empty. */
typedef struct {
    size_t struct_size;
    const char *tools; /* JSON, as in a request: [{"type": "function", "function": {"name", "parameters"}}, ...] */
    size_t tools_bytes;
    const char *choice; /* a name: this tool; NULL: any of them */
    bool required;      /* a call must come, and nothing but calls; false: free text until BEGIN PREFIX is written */
    bool parallel;      /* more than one call */
    const char *begin, *prefix, *suffix, *separator, *end;
    const char *name_key, *arguments_key; /* NULL: "name", "arguments" */
    const char *after;      /* free text up to and including this comes before everything ("</think>") */
    const int32_t *control; /* as above */
    size_t n_control;
} sl_tool_grammar_options;

typedef struct sl_grammar sl_grammar;

SL_API void sl_grammar_options_init(sl_grammar_options *opt);
SL_API void sl_tool_grammar_options_init(sl_tool_grammar_options *opt);
/* Compiles a grammar for the vocabulary of an engine.  Its memory is entered in the engine's budget, where
 * sl_engine_options.n_constrained has kept room; texts are not kept.
 * threads  as sl_session_open: one at a time per engine
 * errors   FORMAT: the text is wrong, says where; UNSUPPORTED: names the keyword or construct; LIMIT: too large, too deep,
 *          too ambiguous; BUDGET, NOMEM */
SL_API sl_status sl_grammar_open(sl_grammar **out, sl_engine *e, const sl_grammar_options *opt, sl_err *err);
SL_API sl_status sl_grammar_open_tools(sl_grammar **out, sl_engine *e, const sl_tool_grammar_options *opt, sl_err *err);
/* Only compiles: what open would refuse without looking at an engine is refused. */
SL_API sl_status sl_grammar_check(const sl_grammar_options *opt, sl_err *err);
SL_API void sl_grammar_close(sl_grammar *g); /* after the samplers that use it */

/* From here on the sampler chooses only tokens that keep to g; control tokens never, end tokens exactly where the text is
 * complete.  The text begins with the next accepted token (tell the prompt's before).  NULL: no longer.  Again: from the
 * beginning.  sl_sample then fails with FORMAT when no token can go on, ARG when a token was accepted that g does not
 * allow, LIMIT when a check takes too much work. */
SL_API sl_status sl_sampler_set_grammar(sl_sampler *sm, sl_grammar *g, sl_err *err);
/* The text is complete, and nothing but an end token can follow: no need to sample one. */
SL_API bool sl_sampler_is_complete(const sl_sampler *sm);
/* Takes the grammar back by the last n accepted tokens, n <= 32; the penalties are not taken back. */
SL_API sl_status sl_sampler_rollback_grammar(sl_sampler *sm, size_t n, sl_err *err);

/* ---- machine ------------------------------------------------------------------------------------ */

SL_API uint64_t sl_machine_spare_bytes(void);          /* what a budget of 0 becomes */
SL_API uint64_t sl_process_peak_rss_bytes(void);
SL_API size_t sl_family_count(void);
SL_API const char *sl_family_name(size_t i);

#ifdef __cplusplus
}
#endif
#endif
