/* Inside the room: how generated text becomes a message.  Read in this order: dialects (data), JSON as it arrives,
 * values, calls, the steps of a call, the reply.
 *
 *   reply.c          text in: finds markers, releases what is none, hands calls to the steps
 *   reply_say.c      text out: two channels, white space around markers, events
 *   reply_steps.c    runs the steps of a call over held text, stopping wherever the text does
 *   reply_header.c   harmony's message headers
 *   reply_call.c     names, arguments and ids of calls; reads JSON calls
 *   reply_value.c    raw parameter text to JSON, by the tool's schema
 *   reply_literal.c  Python's and Gemma's literals to JSON
 *   reply_tree.c     MiniMax M3's tags to JSON
 *   reply_json.c     JSON checked byte by byte
 *   reply_dialect.c  markers and steps of every dialect, and which template speaks which
 *   reply_tokens.c   tokens in, of which only some may show
 *   reply_message.c  the whole message as JSON
 */
#ifndef SL_REPLY_INT_H
#define SL_REPLY_INT_H

#include "base/json.h"
#include "text/text_int.h"

/* ---- dialects ---- */

/* What must come next in the text of a call.  A step that succeeds goes on to step `to`, or to the next one when 0. */
typedef enum {
    SL_STEP_SPACE,  /* white space, or none */
    SL_STEP_LIT,    /* text */
    SL_STEP_TRY,    /* text and on to the next step; anything else: to step `to`, and no call when that is 0 */
    SL_STEP_PEEK,   /* the same, and the text is not taken */
    SL_STEP_GOTO,   /* nothing: to step `to` */
    SL_STEP_NAME,   /* the function's name */
    SL_STEP_ID,     /* the call's id */
    SL_STEP_SKIP,   /* a word that tells nothing */
    SL_STEP_KEY,    /* a parameter's name and text behind it */
    SL_STEP_VALUE,  /* its raw value and text behind it, where one of follow[] comes next */
    SL_STEP_ARGS,   /* all arguments: a JSON object */
    SL_STEP_CALL,   /* the whole call: a JSON object with name and arguments */
    SL_STEP_CALLS,  /* a JSON array of such */
    SL_STEP_PAIRS,  /* a JSON array of {name: arguments} */
    SL_STEP_PYTHON, /* [name(key=literal, ...), ...] */
    SL_STEP_KWARGS, /* (key=literal, ...) behind a name that ends with ".call" */
    SL_STEP_GEMMA,  /* {key:literal,...} in Gemma's notation */
    SL_STEP_TREE,   /* MiniMax M3's tags and text behind them */
    SL_STEP_HEADER, /* the rest of a harmony message header; a call's name, or text in a channel */
    SL_STEP_ADD,    /* nothing: what was read is a call */
    SL_STEP_COMMIT, /* nothing: calls added so far are reported, their text is gone */
    SL_STEP_EOF,    /* the end of the whole text */
    SL_STEP_END,    /* back to text */
    SL_STEP_LAST,   /* closes a list of steps; never reached */
} sl_reply_op;

enum {
    SL_STEP_LINES = 1,    /* VALUE: one newline after the opening and one before the closing text are not part of it */
    SL_STEP_STRING = 2,   /* VALUE: a string, whatever the schema says */
    SL_STEP_PARSED = 4,   /* VALUE: JSON, whatever the schema says */
    SL_STEP_CDATA = 8,    /* VALUE: <![CDATA[...]]> stands for what is inside */
    SL_STEP_KNOWN = 16,   /* NAME, CALL: the name must be a tool's */
    SL_STEP_WHOLE = 32,   /* CALL: arguments must be there */
    SL_STEP_KEEP_ID = 64, /* CALLS: the model's "id" is the call's */
    SL_STEP_KIMI = 128,   /* ID: "functions.NAME:INDEX", which holds the name too */
};

typedef struct {
    uint8_t op, to, flags;
    const char *text;
    const char *follow[2]; /* VALUE: what may come next, behind white space */
    const char *stop;      /* VALUE: the call ended and another began, so the value was never closed; or NULL */
} sl_reply_step;

enum { SL_IN_CONTENT = 1, SL_IN_REASONING = 2, SL_AT_START = 4 /* of a part: nothing but white space before it */ };
typedef enum {
    SL_MARK_THINK,  /* reasoning follows */
    SL_MARK_ANSWER, /* content follows */
    SL_MARK_CALL,   /* steps; only a marker when the request has tools */
    SL_MARK_STEPS,  /* steps */
} sl_reply_mark_kind;
typedef struct {
    const char *text;
    uint8_t kind, where;
    const sl_reply_step *steps;
} sl_reply_mark;

typedef enum { SL_IDS_CALL, SL_IDS_NINE } sl_reply_ids; /* "call_" and 24 characters; 9 characters */
enum { SL_REPLY_MAX_MARKS = 12 };
typedef struct {
    const char *name;
    const char *needs[3]; /* a template that holds all of these speaks it */
    const char *token;    /* so does a model with this token, when its template shows nothing */
    sl_reply_mark marks[7];
    const sl_reply_step *at_start; /* tried at the start of the content, without a marker */
    bool start_is_call;            /* only when the request has tools */
    const char *think, *answer;    /* where it has its own; NULL: by the template */
    sl_reply_ids ids;
} sl_reply_dialect_row;

typedef struct {
    const char *begin, *end;
} sl_reply_think;

/* The row of a name, NULL: none.  Row 0 has no markers. */
const sl_reply_dialect_row *sl_reply_dialect_find(const char *name);
/* The row that the source text of a template (or a token of t, NULL allowed) shows; row 0 when none does. */
const sl_reply_dialect_row *sl_reply_dialect_detect(const char *source, const sl_tokenizer *t);
/* The dialect's own thinking markers, or those the template or tokens show; begin is NULL when there are none. */
sl_reply_think sl_reply_think_detect(const sl_reply_dialect_row *row, const char *source, const sl_tokenizer *t);

/* ---- JSON as it arrives ---- */

/* Checks an object or array byte by byte, strict as sl_json_read(). */
typedef struct {
    uint8_t state, depth, hex;
    const char *word; /* what is left of true, false, null */
    uint8_t stack[64];
} sl_reply_json;
typedef enum { SL_SCAN_MORE, SL_SCAN_DONE, SL_SCAN_BAD } sl_scan;
void sl_reply_json_init(sl_reply_json *j);
/* DONE with the closing bracket. */
sl_scan sl_reply_json_feed(sl_reply_json *j, char c);

enum {
    SL_KIND_STRING = 1,
    SL_KIND_NUMBER = 2,
    SL_KIND_BOOL = 4,
    SL_KIND_NULL = 8,
    SL_KIND_OBJECT = 16,
    SL_KIND_ARRAY = 32
};
/* What JSON value the text is, white space around it allowed; 0: none, or more than one. */
unsigned sl_reply_json_kind(const char *text, size_t n);

/* Finds the end of a bracketed literal; what it holds is checked afterwards. */
typedef struct {
    bool gemma; /* strings stand between <|"|>, else between ' or " with escapes */
    bool escaped;
    char quote; /* 0: outside a string */
    uint8_t n_quote, depth;
    char stack[64];
} sl_reply_brackets;
sl_scan sl_reply_brackets_feed(sl_reply_brackets *b, char c);

/* ---- values ---- */

/* Appends text as a JSON string, quotes included. */
void sl_reply_put_string(sl_buf *out, const char *text, size_t n);

typedef struct {
    const char *text;
    size_t n, pos;
    bool gemma;
    uint32_t depth;
} sl_reply_literal;
/* Reads one literal at pos and appends it as JSON; false: it is none. */
bool sl_reply_literal_read(sl_reply_literal *l, sl_buf *out);
/* Reads "(key=literal, ...)" at pos and appends a JSON object. */
bool sl_reply_kwargs_read(sl_reply_literal *l, sl_buf *out);

/* A parameter's raw text as JSON.  schema: of the parameter, NULL when not known; flags: SL_STEP_STRING and _PARSED. */
void sl_reply_put_value(sl_buf *out, const sl_json *schema, unsigned flags, const char *text, size_t n);

/* What kinds of value a schema allows; 0: it does not say. */
unsigned sl_reply_schema_kinds(const sl_json *schema);
/* Stands on either side of Gemma's strings, before each of M3's tags. */
#define SL_GEMMA_QUOTE "<|\"|>"
#define SL_M3_MARK     "]<]minimax[>["
/* Appends tagged arguments as a JSON object; schema: of all arguments, NULL when not known. */
bool sl_reply_tree_read(sl_buf *out, const sl_json *schema, const char *text, size_t n);

/* ---- calls ---- */

typedef struct {
    char *id, *name, *args; /* id: NULL until reported when the model gave none */
    size_t n_args;
} sl_reply_call;

/* ---- the reply ---- */

enum { SL_REPLY_MAX_CALLS = 1024, SL_REPLY_MAX_NAME = 256, SL_REPLY_MAX_KEY = 1024, SL_REPLY_MAX_HEADER = 256 };
enum { SL_CONTENT, SL_REASONING, SL_N_CHANNEL };

typedef struct {
    sl_buf text;       /* reported, all but what came with the piece under way */
    size_t n_sent;     /* of it, in events */
    sl_buf space;      /* white space behind it, not reported yet */
    bool after_marker; /* a marker stands behind the last text */
    bool joint;        /* the next text is a part of its own: a newline goes between, where no white space is */
} sl_reply_channel;

/* Where the steps are.  Positions count in r->in. */
typedef struct {
    const sl_reply_step *steps, *at;
    bool entered; /* the step under way has begun */
    size_t pos;   /* next byte to look at */
    size_t from;  /* where the step under way began */
    size_t look;  /* VALUE: behind a closing text that may be one; 0: none */
    sl_reply_json json;
    sl_reply_brackets brackets;
    sl_buf name, id, key, args; /* of the call under way */
    uint32_t n_param;
} sl_reply_run;

struct sl_reply {
    const sl_reply_dialect_row *dialect;
    sl_reply_think think;
    sl_reply_mark marks[SL_REPLY_MAX_MARKS];
    size_t n_mark;
    bool first[256]; /* bytes that may begin a marker */
    const sl_reply_step *at_start;
    sl_json *tools;                /* NULL: no calls */
    const sl_tokenizer *tokenizer; /* borrowed; NULL: none */
    uint64_t id_seed;
    size_t max_bytes, max_call_bytes, total_bytes;
    void (*each)(void *user, const sl_reply_event *event);
    void *user;

    char broken[4]; /* a character that is not whole yet */
    size_t n_broken;
    sl_buf in; /* valid UTF-8; [at, len) is held */
    size_t at;
    bool in_call, started, seen_marker, over;
    unsigned channel;
    sl_reply_channel ch[SL_N_CHANNEL];
    sl_reply_run run;
    sl_reply_call *calls;
    size_t n_call, cap_call, n_reported;
    sl_buf message;
    sl_status status; /* what every call says from now on */
    const char *why;
};

static inline bool sl_reply_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
/* How text [n] and the literal agree: whole literal, a beginning of it that ends with the text, or not. */
typedef enum { SL_LIT_NO, SL_LIT_PART, SL_LIT_WHOLE } sl_lit;
static inline sl_lit sl_reply_lit(const char *text, size_t n, const char *lit)
{
    size_t i = 0;
    while (lit[i] && i < n && text[i] == lit[i])
        i++;
    return !lit[i] ? SL_LIT_WHOLE : i == n ? SL_LIT_PART : SL_LIT_NO;
}

/* Ends the reply for good. */
void sl_reply_die(sl_reply *r, sl_status code, const char *why);
/* Dies when one of the buffer's additions failed; true when the reply is alive. */
bool sl_reply_check(sl_reply *r, const sl_buf *b);

/* Text for the channel under way. */
void sl_reply_say(sl_reply *r, const char *text, size_t n);
/* Sends what was said since the last event. */
void sl_reply_flush(sl_reply *r);
/* A marker stands here; the text that follows goes to channel.  part: and is a part of its own. */
void sl_reply_turn(sl_reply *r, unsigned channel, bool part);
/* Reports white space that is text after all. */
void sl_reply_settle(sl_reply *r);

/* Runs the steps as far as the text goes.  MORE: the text ended; DONE: back to text at run.pos; BAD: no call, text up
 * to run.pos. */
void sl_reply_run_begin(sl_reply *r, const sl_reply_step *steps, size_t pos);
sl_scan sl_reply_run_on(sl_reply *r);
void sl_reply_run_free(sl_reply_run *run);
/* Harmony's header text [n] up to <|message|>: fills run.name when it addresses a function, else turns to its channel.
 * False: it is none. */
bool sl_reply_header(sl_reply *r, const char *text, size_t n);

bool sl_reply_name_ok(const char *name, size_t n);
/* The tool's object with "name"; NULL: not one of the request's. */
const sl_json *sl_reply_tool(const sl_reply *r, const char *name, size_t n);
/* Schema of a tool's arguments, of one of them; NULL: not known. */
const sl_json *sl_reply_args_schema(const sl_reply *r, const char *name, size_t n_name);
const sl_json *sl_reply_schema(const sl_reply *r, const char *name, size_t n_name, const char *key, size_t n_key);
sl_status sl_reply_tools_open(sl_reply *r, const char *tools, sl_err *err);
/* Adds a call that is not reported yet; strings are copied.  False: malformed, or dead. */
bool sl_reply_call_add(sl_reply *r, const char *name, size_t n_name, const char *id, size_t n_id, const char *args,
                       size_t n_args);
/* Adds the call in a JSON object, the calls in a JSON array (pairs: of {name: arguments}). */
bool sl_reply_call_read(sl_reply *r, const char *json, size_t n, unsigned flags);
bool sl_reply_calls_read(sl_reply *r, const char *json, size_t n, unsigned flags, bool pairs);
void sl_reply_calls_report(sl_reply *r);
/* Forgets the calls that were not reported. */
void sl_reply_calls_drop(sl_reply *r);

#endif
