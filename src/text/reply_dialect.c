/* What the known models write around calls and reasoning, as data.  Facts from their chat templates; docs/replies.md
 * has the table of families.  Steps are numbered from 0 within their list: SL_STEP_TRY and _GOTO count in it. */
#include "text/reply_int.h"

#include <string.h>

/* clang-format off */
#define SPACE         {.op = SL_STEP_SPACE}
#define LIT(s)        {.op = SL_STEP_LIT, .text = (s)}
#define TRY(s, other) {.op = SL_STEP_TRY, .text = (s), .to = (other)}
#define PEEK(s, other) {.op = SL_STEP_PEEK, .text = (s), .to = (other)}
#define GOTO(there)   {.op = SL_STEP_GOTO, .to = (there)}
#define NAME          {.op = SL_STEP_NAME}
#define KNOWN_NAME    {.op = SL_STEP_NAME, .flags = SL_STEP_KNOWN}
#define ID            {.op = SL_STEP_ID}
#define SKIP          {.op = SL_STEP_SKIP}
#define KEY(s)        {.op = SL_STEP_KEY, .text = (s)}
#define VALUE(close, how, next, end, no_end, there)                                                                    \
    {.op = SL_STEP_VALUE, .text = (close), .flags = (how), .follow = {(next), (end)}, .stop = (no_end), .to = (there)}
#define ARGS          {.op = SL_STEP_ARGS}
#define CALL(how)     {.op = SL_STEP_CALL, .flags = (how)}
#define CALLS(how)    {.op = SL_STEP_CALLS, .flags = (how)}
#define HEADER        {.op = SL_STEP_HEADER}
#define ADD           {.op = SL_STEP_ADD}
#define COMMIT        {.op = SL_STEP_COMMIT}
#define END           {.op = SL_STEP_END}
#define LAST          {.op = SL_STEP_LAST}
#define OP(what)      {.op = (what)}

/* ---- JSON inside markers ---- */

/* One JSON call, closed. */
static const sl_reply_step hermes[] = {SPACE, CALL(0), SPACE, LIT("</tool_call>"), COMMIT, END, LAST};
/* An array of JSON calls, closed. */
#define ARRAY(close, op) {SPACE, op, SPACE, LIT(close), COMMIT, END, LAST}
static const sl_reply_step nemotron[] = ARRAY("</TOOLCALL>", CALLS(0));
static const sl_reply_step cohere[] = ARRAY("<|END_ACTION|>", CALLS(0));
static const sl_reply_step command_r[] = ARRAY("```", CALLS(0));
static const sl_reply_step apertus[] = ARRAY("<|tools_suffix|>", OP(SL_STEP_PAIRS));
static const sl_reply_step lfm2[] = ARRAY("<|tool_call_end|>", OP(SL_STEP_PYTHON));
/* An array, not closed. */
static const sl_reply_step open_array[] = {SPACE, CALLS(0), COMMIT, END, LAST};
static const sl_reply_step open_call[] = {SPACE, CALL(0), COMMIT, END, LAST};
/* An array, or calls one after the other. */
static const sl_reply_step tool_calls[] = {
    SPACE, PEEK("[", 3),         CALLS(0), /* 3 */ SPACE, TRY("</tool_calls>", 7),
    COMMIT, END, /* 7 */ CALL(0), GOTO(3), LAST,
};
/* Granite 3 does not close it, Phi 4 mini does. */
static const sl_reply_step granite3[] = {
    SPACE, PEEK("[", 8), CALLS(0), COMMIT, /* 4 */ SPACE, TRY("<|/tool_call|>", 7), GOTO(7), /* 7 */ END,
    /* 8 */ CALL(0), COMMIT, GOTO(4), LAST,
};

/* Llama 3: the whole message is the call, or several with semicolons between.  The first three steps let other JSON go
 * at once. */
static const sl_reply_step llama_bare[] = {
    SPACE, PEEK("{\"name\"", 3), GOTO(4), /* 3 */ PEEK("{\"type\"", 0),
    /* 4 */ CALL(SL_STEP_KNOWN | SL_STEP_WHOLE), SPACE, TRY(";", 9), SPACE, GOTO(4),
    /* 9 */ OP(SL_STEP_EOF), COMMIT, END, LAST,
};
/* Behind <|python_tag|>: JSON again, or name.call(key="value"). */
static const sl_reply_step llama_tag[] = {
    SPACE, PEEK("{", 8), /* 2 */ CALL(0), COMMIT, SPACE, TRY(";", 12), SPACE, GOTO(2),
    /* 8 */ NAME, OP(SL_STEP_KWARGS), ADD, COMMIT, /* 12 */ END, LAST,
};

/* Mistral: an array; from the eleventh tokenizer on NAME[CALL_ID]ID[ARGS]{...}, of which only name and braces are always
 * there. */
static const sl_reply_step mistral[] = {
    SPACE, PEEK("[", 5), CALLS(SL_STEP_KEEP_ID), COMMIT, END,
    /* 5 */ NAME, TRY("[CALL_ID]", 8), ID, /* 8 */ TRY("[ARGS]", 9), /* 9 */ SPACE, ARGS, ADD, COMMIT, END, LAST,
};

/* ---- the name in a marker, arguments in JSON ---- */

#define DEEPSEEK_BEGIN "<｜tool▁call▁begin｜>"
#define DEEPSEEK_SEP   "<｜tool▁sep｜>"
#define DEEPSEEK_END   "<｜tool▁call▁end｜>"
/* V3.1: NAME SEP {...}.  V3 and R1: function SEP NAME and {...} in a code fence. */
static const sl_reply_step deepseek[] = {
    SPACE, LIT(DEEPSEEK_BEGIN), /* 2 */ SPACE, NAME, LIT(DEEPSEEK_SEP), SPACE, PEEK("{", 9), ARGS, GOTO(16),
    /* 9 */ NAME, SPACE, LIT("```json"), SPACE, ARGS, SPACE, LIT("```"),
    /* 16 */ SPACE, LIT(DEEPSEEK_END), ADD, COMMIT, SPACE, TRY(DEEPSEEK_BEGIN, 23), GOTO(2),
    /* 23 */ LIT("<｜tool▁calls▁end｜>"), END, LAST,
};

#define KIMI_BEGIN "<|tool_call_begin|>"
static const sl_reply_step kimi_k2[] = {
    SPACE, LIT(KIMI_BEGIN), /* 2 */ SPACE, {.op = SL_STEP_ID, .flags = SL_STEP_KIMI}, SPACE,
    LIT("<|tool_call_argument_begin|>"), SPACE, ARGS, SPACE, LIT("<|tool_call_end|>"), ADD, COMMIT, SPACE,
    TRY(KIMI_BEGIN, 15), GOTO(2), /* 15 */ LIT("<|tool_calls_section_end|>"), END, LAST,
};

#define SOLAR_BEGIN "<|tool_call:begin|>"
static const sl_reply_step solar[] = {
    SPACE, LIT(SOLAR_BEGIN), /* 2 */ ID, LIT("<|tool_call:name|>"), NAME, LIT("<|tool_call:args|>"), SPACE, ARGS, SPACE,
    LIT("<|tool_call:end|>"), ADD, COMMIT, SPACE, TRY(SOLAR_BEGIN, 15), GOTO(2), /* 15 */ LIT("<|calls|>"), END, LAST,
};

static const sl_reply_step functionary31[] = {NAME, LIT(">"), SPACE, ARGS, SPACE, LIT("</function>"), ADD, COMMIT, END, LAST};
/* Functionary 3.2: >>>NAME, newline, JSON; >>>all, newline, text. */
static const sl_reply_step functionary32[] = {TRY("all\n", 3), COMMIT, END, /* 3 */ KNOWN_NAME, LIT("\n"), SPACE, ARGS,
                                              ADD, COMMIT, END, LAST,
};

static const sl_reply_step harmony[] = {HEADER, SPACE, ARGS, ADD, COMMIT, END, LAST};
/* At the start the prompt has written <|start|>assistant. */
static const sl_reply_step harmony_start[] = {SPACE, PEEK("to=", 3), GOTO(4), /* 3 */ PEEK("<|channel|>", 0),
                                              /* 4 */ HEADER, SPACE, ARGS, ADD, COMMIT, END, LAST,
};

static const sl_reply_step gemma4[] = {LIT("call:"), NAME, OP(SL_STEP_GEMMA), SPACE, LIT("<tool_call|>"), ADD, COMMIT, END, LAST};

/* ---- name and each argument in tags ---- */

/* <function=NAME><parameter=KEY>VALUE</parameter></function>, in a marker of its own. */
#define FUNCTION_TAGS(open, close, how)                                                                                \
    {                                                                                                                  \
        SPACE, LIT("<function="), NAME, LIT(">"), /* 4 */ SPACE, TRY("<parameter=", 8), KEY(">"),                      \
            VALUE("</parameter>", how, "<parameter=", "</function>", "</function>\n" close "\n" open, 4),              \
            /* 8 */ LIT("</function>"), SPACE, LIT(close), ADD, COMMIT, END, LAST,                                     \
    }
static const sl_reply_step qwen_xml[] = FUNCTION_TAGS("<tool_call>", "</tool_call>", SL_STEP_LINES);
static const sl_reply_step seed[] = FUNCTION_TAGS("<seed:tool_call>", "</seed:tool_call>", 0);
/* Qwen3-Coder at times forgets to open the marker. */
static const sl_reply_step qwen_bare[] = {
    KNOWN_NAME, LIT(">"), /* 2 */ SPACE, TRY("<parameter=", 6), KEY(">"),
    VALUE("</parameter>", SL_STEP_LINES, "<parameter=", "</function>", NULL, 2),
    /* 6 */ LIT("</function>"), ADD, COMMIT, SPACE, TRY("</tool_call>", 11), /* 11 */ END, LAST,
};

/* <invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>, any number between two markers. */
#define INVOKE_TAGS(pre, close)                                                                                        \
    {                                                                                                                  \
        SPACE, LIT("<" pre "invoke name=\""), /* 2 */ NAME, LIT("\">"), /* 4 */ SPACE,                                 \
            TRY("<" pre "parameter name=\"", 8), KEY("\">"),                                                           \
            VALUE("</" pre "parameter>", 0, "<" pre "parameter name=\"", "</" pre "invoke>", NULL, 4),                 \
            /* 8 */ LIT("</" pre "invoke>"), ADD, COMMIT, SPACE, TRY("<" pre "invoke name=\"", 14), GOTO(2),           \
            /* 14 */ LIT(close), END, LAST,                                                                            \
    }
static const sl_reply_step minimax_m2[] = INVOKE_TAGS("", "</minimax:tool_call>");

#define M3_INVOKE SL_M3_MARK "<invoke name=\""
static const sl_reply_step minimax_m3[] = {
    SPACE, LIT(M3_INVOKE), /* 2 */ NAME, LIT("\">"), {.op = SL_STEP_TREE, .text = SL_M3_MARK "</invoke>"}, ADD, COMMIT, SPACE,
    TRY(M3_INVOKE, 10), GOTO(2), /* 10 */ LIT(SL_M3_MARK "</tool_call>"), END, LAST,
};

/* Muse: M2's tags behind a header " to=NAME<|message|>", which tells nothing new. */
static const sl_reply_step muse[] = INVOKE_TAGS("atem:", "</atem:function_calls>");
static const sl_reply_step muse_to[] = {NAME, LIT("<|message|>"), COMMIT, END, LAST};

/* DeepSeek V3.2 and V4: the same with a type of its own for each parameter. */
#define DSML "｜DSML｜"
#define DSML_NEXT "<" DSML "parameter name=\""
#define DSML_CLOSE "</" DSML "parameter>"
#define DSML_TAGS(close)                                                                                               \
    {                                                                                                                  \
        SPACE, LIT("<" DSML "invoke name=\""), /* 2 */ NAME, LIT("\">"), /* 4 */ SPACE, TRY(DSML_NEXT, 11),            \
            KEY("\" string=\""), TRY("true\">", 9),                                                                    \
            VALUE(DSML_CLOSE, SL_STEP_STRING, DSML_NEXT, "</" DSML "invoke>", NULL, 4),                                \
            /* 9 */ LIT("false\">"), VALUE(DSML_CLOSE, SL_STEP_PARSED, DSML_NEXT, "</" DSML "invoke>", NULL, 4),       \
            /* 11 */ LIT("</" DSML "invoke>"), ADD, COMMIT, SPACE, TRY("<" DSML "invoke name=\"", 17), GOTO(2),        \
            /* 17 */ LIT(close), END, LAST,                                                                            \
    }
static const sl_reply_step deepseek_v32[] = DSML_TAGS("</" DSML "function_calls>");
static const sl_reply_step deepseek_v4[] = DSML_TAGS("</" DSML "tool_calls>");

/* NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>, newlines between or not. */
static const sl_reply_step glm[] = {
    SPACE, NAME, /* 2 */ SPACE, TRY("<arg_key>", 8), KEY("</arg_key>"), SPACE, LIT("<arg_value>"),
    VALUE("</arg_value>", 0, "<arg_key>", "</tool_call>", "</tool_call>\n<tool_call>", 2),
    /* 8 */ LIT("</tool_call>"), ADD, COMMIT, END, LAST,
};
#define HY ":opensource>"
static const sl_reply_step hunyuan3[] = {
    SPACE, LIT("<tool_call" HY), /* 2 */ SPACE, NAME, LIT("<tool_sep" HY), /* 5 */ SPACE, TRY("<arg_key" HY, 11),
    KEY("</arg_key" HY), SPACE, LIT("<arg_value" HY),
    VALUE("</arg_value" HY, 0, "<arg_key" HY, "</tool_call" HY, NULL, 5),
    /* 11 */ LIT("</tool_call" HY), ADD, COMMIT, SPACE, TRY("<tool_call" HY, 17), GOTO(2),
    /* 17 */ LIT("</tool_calls" HY), END, LAST,
};

static const sl_reply_step minicpm5[] = {
    NAME, LIT("\">"), /* 2 */ SPACE, TRY("<param name=\"", 6), KEY("\">"),
    VALUE("</param>", SL_STEP_CDATA, "<param name=\"", "</function>", NULL, 2),
    /* 6 */ LIT("</function>"), ADD, COMMIT, END, LAST,
};

#define K3_ARG "<|open|>argument key=\""
#define K3_CLOSE "<|close|>argument<|sep|>"
#define K3_END "<|close|>call<|sep|>"
static const sl_reply_step kimi_k3[] = {
    SPACE, LIT("<|open|>call tool=\""), /* 2 */ NAME, LIT("\""), KEY("<|sep|>"), /* 5 */ SPACE, TRY(K3_ARG, 13),
    KEY("\" type=\""), TRY("string\"<|sep|>", 10), VALUE(K3_CLOSE, SL_STEP_STRING, K3_ARG, K3_END, NULL, 5),
    /* 10 */ SKIP, LIT("\"<|sep|>"), VALUE(K3_CLOSE, SL_STEP_PARSED, K3_ARG, K3_END, NULL, 5),
    /* 13 */ LIT(K3_END), ADD, COMMIT, SPACE, TRY("<|open|>call tool=\"", 19), GOTO(2),
    /* 19 */ LIT("<|close|>tools<|sep|>"), END, LAST,
};

/* ---- the table: the first row whose needs a template meets is its dialect ---- */

#define MARK(s, steps)  {(s), SL_MARK_CALL, SL_IN_CONTENT, (steps)}
#define DROP(s)         {(s), SL_MARK_ANSWER, SL_IN_CONTENT, NULL}
#define DROP_ANY(s)     {(s), SL_MARK_ANSWER, SL_IN_CONTENT | SL_IN_REASONING, NULL}
#define STEPS_ANY(s, p) {(s), SL_MARK_STEPS, SL_IN_CONTENT | SL_IN_REASONING, (p)}

static const sl_reply_dialect_row rows[] = {
    {.name = "none"},
    {.name = "harmony",
     .needs = {"<|channel|>", "<|message|>", "analysis"},
     .token = "<|constrain|>",
     .marks = {STEPS_ANY("<|start|>", harmony), STEPS_ANY("<|channel|>", harmony), DROP_ANY("<|end|>"),
               DROP_ANY("<|return|>"), DROP_ANY("<|call|>")},
     .at_start = harmony_start},
    {.name = "gemma4",
     .needs = {"<|tool_call>call:"},
     .token = "<|tool_call>",
     .marks = {MARK("<|tool_call>", gemma4)},
     .think = "<|channel>thought\n",
     .answer = "<channel|>"},
    {.name = "deepseek-v3.2", .needs = {DSML, "'function_calls>"}, .marks = {MARK("<" DSML "function_calls>", deepseek_v32)}},
    {.name = "deepseek-v4", .needs = {DSML}, .marks = {MARK("<" DSML "tool_calls>", deepseek_v4)}},
    {.name = "deepseek",
     .needs = {"<｜tool▁calls▁begin｜>"},
     .token = "<｜tool▁calls▁begin｜>",
     .marks = {MARK("<｜tool▁calls▁begin｜>", deepseek)}},
    {.name = "kimi-k3",
     .needs = {"<|open|>", "<|sep|>", "open_tag('argument'"},
     .marks = {MARK("<|open|>tools<|sep|>", kimi_k3), DROP("<|open|>response<|sep|>"), DROP("<|close|>response<|sep|>"),
               DROP("<|close|>message<|sep|>")},
     .think = "<|open|>think<|sep|>",
     .answer = "<|close|>think<|sep|>"},
    {.name = "kimi-k2",
     .needs = {"<|tool_calls_section_begin|>"},
     .token = "<|tool_calls_section_begin|>",
     .marks = {MARK("<|tool_calls_section_begin|>", kimi_k2)}},
    {.name = "minimax-m2",
     .needs = {"<minimax:tool_call>"},
     .token = "<minimax:tool_call>",
     .marks = {MARK("<minimax:tool_call>", minimax_m2)}},
    {.name = "minimax-m3",
     .needs = {SL_M3_MARK},
     .marks = {MARK(SL_M3_MARK "<tool_call>", minimax_m3)},
     .think = "<mm:think>",
     .answer = "</mm:think>"},
    {.name = "muse",
     .needs = {"<atem:function_calls>"},
     .marks = {MARK("<atem:function_calls>", muse), {" to=self<|message|>", SL_MARK_THINK, SL_IN_CONTENT | SL_AT_START, NULL},
               {" to=", SL_MARK_STEPS, SL_IN_CONTENT | SL_AT_START, muse_to}, DROP_ANY("<|eom|>"),
               DROP_ANY("<|start|>assistant"), DROP("<|message|>")}},
    {.name = "hunyuan3",
     .needs = {":opensource", "<tool_sep"},
     .marks = {MARK("<tool_calls" HY, hunyuan3)},
     .think = "<think" HY,
     .answer = "</think" HY},
    {.name = "seed", .needs = {"<seed:tool_call>"}, .token = "<seed:tool_call>", .marks = {MARK("<seed:tool_call>", seed)}},
    {.name = "glm",
     .needs = {"<tool_call>", "<arg_key>"},
     .token = "<arg_key>",
     .marks = {MARK("<tool_call>", glm)}},
    {.name = "qwen-xml",
     .needs = {"<tool_call>", "<function=", "<parameter="},
     .marks = {MARK("<tool_call>", qwen_xml), MARK("<function=", qwen_bare)}},
    {.name = "minicpm5", .needs = {"<function name=", "<param name="}, .marks = {MARK("<function name=\"", minicpm5)}},
    {.name = "functionary-v3.1", .needs = {"<function="}, .marks = {MARK("<function=", functionary31),
               MARK("<|python_tag|>", llama_tag)}},
    {.name = "functionary-v3.2",
     .needs = {">>>all\\n"},
     .marks = {{">>>", SL_MARK_STEPS, SL_IN_CONTENT, functionary32}},
     .at_start = functionary32},
    {.name = "mistral",
     .needs = {"[TOOL_CALLS]"},
     .token = "[TOOL_CALLS]",
     .marks = {MARK("[TOOL_CALLS]", mistral)},
     .ids = SL_IDS_NINE},
    {.name = "lfm2",
     .needs = {"List of tools: ", "<|im_start|>"},
     .token = "<|tool_call_start|>",
     .marks = {MARK("<|tool_call_start|>", lfm2)}},
    {.name = "cohere",
     .needs = {"<|START_ACTION|>"},
     .token = "<|START_ACTION|>",
     .marks = {MARK("<|START_ACTION|>", cohere), DROP("<|START_RESPONSE|>"), DROP("<|END_RESPONSE|>"),
               DROP("<|START_TEXT|>"), DROP("<|END_TEXT|>")}},
    {.name = "command-r", .needs = {"Action:\\n```json"}, .marks = {MARK("Action:\n```json", command_r)}},
    {.name = "apertus",
     .needs = {"<|tools_prefix|>"},
     .token = "<|tools_prefix|>",
     .marks = {MARK("<|tools_prefix|>", apertus)}},
    {.name = "nemotron-v2", .needs = {"<TOOLCALL>"}, .token = "<TOOLCALL>", .marks = {MARK("<TOOLCALL>", nemotron)}},
    {.name = "gigachat3.1", .needs = {"<|function_call|>"}, .marks = {MARK("<|function_call|>", open_call)}},
    {.name = "gigachat3",
     .needs = {"function call", "<|role_sep|>\\n"},
     .marks = {MARK("<|message_sep|>\n\nfunction call<|role_sep|>\n", open_call),
               {"function call<|role_sep|>\n", SL_MARK_CALL, SL_IN_CONTENT | SL_AT_START, open_call}}},
    {.name = "solar",
     .needs = {"<|tool_call:begin|>"},
     .token = "<|tool_call:begin|>",
     .marks = {MARK("<|tool_calls|>", solar), DROP("<|begin|>assistant"), DROP("<|content|>"), DROP("<|end|>")},
     .think = "<|think|>",
     .answer = "<|end|>"},
    {.name = "granite3",
     .needs = {"<|tool_call|>"},
     .token = "<|tool_call|>",
     .marks = {MARK("<|tool_call|>", granite3), {"<response>", SL_MARK_ANSWER, SL_IN_CONTENT | SL_AT_START, NULL},
               DROP("</response>")}},
    {.name = "firefunction", .needs = {"functools["}, .marks = {MARK(" functools", open_array),
               {"functools", SL_MARK_CALL, SL_IN_CONTENT | SL_AT_START, open_array}}},
    {.name = "tool-calls", .needs = {"<tool_calls>"}, .marks = {MARK("<tool_calls>", tool_calls), DROP("[END FINAL RESPONSE]")}},
    {.name = "hermes", .needs = {"<tool_call>"}, .token = "<tool_call>", .marks = {MARK("<tool_call>", hermes)}},
    {.name = "llama3",
     .needs = {"<|start_header_id|>", "\"parameters\": "},
     .token = "<|python_tag|>",
     .marks = {MARK("<|python_tag|>", llama_tag)},
     .at_start = llama_bare,
     .start_is_call = true},
};
/* clang-format on */
enum { N_ROW = sizeof rows / sizeof rows[0] };

static const sl_reply_think thinks[] = {
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"},
};
enum { N_THINK = sizeof thinks / sizeof thinks[0] };

/* ---- which one ---- */

size_t sl_reply_dialect_count(void)
{
    return N_ROW;
}

const char *sl_reply_dialect_name(size_t i)
{
    return i < N_ROW ? rows[i].name : NULL;
}

const sl_reply_dialect_row *sl_reply_dialect_find(const char *name)
{
    for (size_t i = 0; i < N_ROW; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

static bool has_token(const sl_tokenizer *t, const char *text)
{
    return t && sl_vocab_find_any(&t->vocab, text, strlen(text)) >= 0;
}

static bool shows_all(const char *source, const char *const needs[3])
{
    for (int i = 0; i < 3 && needs[i]; i++)
        if (!strstr(source, needs[i])) return false;
    return needs[0] != NULL;
}

const sl_reply_dialect_row *sl_reply_dialect_detect(const char *source, const sl_tokenizer *t)
{
    for (size_t i = 0; source && i < N_ROW; i++)
        if (shows_all(source, rows[i].needs)) return &rows[i];
    for (size_t i = 0; i < N_ROW; i++)
        if (rows[i].token && has_token(t, rows[i].token)) return &rows[i];
    return &rows[0];
}

sl_reply_think sl_reply_think_detect(const sl_reply_dialect_row *row, const char *source, const sl_tokenizer *t)
{
    if (row->think) return (sl_reply_think){row->think, row->answer};
    for (size_t i = 0; source && i < N_THINK; i++)
        if (strstr(source, thinks[i].end)) return thinks[i];
    for (size_t i = 0; i < N_THINK; i++)
        if (has_token(t, thinks[i].end)) return thinks[i];
    return (sl_reply_think){0};
}
