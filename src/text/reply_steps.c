/* Runs the steps of a call over the text that came so far.  Each step looks at every byte once, remembers how far it
 * got, and fails at the first byte that cannot be right; only short things (names, keys, closing texts) are looked at
 * again when the text stops inside them.  So the cost stays linear however the text is cut and however hostile it is.
 *
 * A step sees at most max_call_bytes of a call.  The bound counts from where the call began, not from where a piece of
 * text happened to end: the outcome must not depend on the cuts. */
#include "text/reply_int.h"

#include <string.h>

typedef enum { NEXT, ELSE, MORE, BAD, OVER } verdict;

typedef struct {
    sl_reply *r;
    sl_reply_run *run;
    const sl_reply_step *s;
    const char *text; /* of r->in */
    size_t end;       /* what is visible of it */
    bool limited;     /* there is no more to be seen */
} view;

/* The step needs text behind the end of what is visible. */
static verdict more(view *v)
{
    if (v->limited) v->run->pos = v->end;
    return v->limited || v->r->over ? BAD : MORE;
}

static verdict bad_at(view *v, size_t pos)
{
    v->run->pos = pos;
    return BAD;
}

/* ---- literals ---- */

static verdict step_space(view *v)
{
    while (v->run->pos < v->end && sl_reply_is_space(v->text[v->run->pos]))
        v->run->pos++;
    return v->run->pos < v->end || (v->r->over && !v->limited) ? NEXT : more(v);
}

static verdict step_literal(view *v)
{
    size_t pos = v->run->pos;
    bool optional = v->s->op != SL_STEP_LIT && v->s->to;
    switch (sl_reply_lit(v->text + pos, v->end - pos, v->s->text)) {
    case SL_LIT_WHOLE:
        if (v->s->op != SL_STEP_PEEK) v->run->pos += strlen(v->s->text);
        return NEXT;
    case SL_LIT_PART:
        if (optional && v->r->over && !v->limited) return ELSE;
        return more(v);
    default:
        return optional ? ELSE : BAD;
    }
}

/* ---- names and keys ---- */

static bool set(view *v, sl_buf *b, const char *text, size_t n)
{
    b->len = 0;
    sl_buf_add(b, text, n);
    return sl_reply_check(v->r, b);
}

/* "functions.NAME:INDEX", of which NAME is the function. */
static bool kimi_name(view *v, const char *id, size_t n)
{
    const char *dot = memchr(id, '.', n), *colon = memrchr(id, ':', n);
    if (!dot || !colon || colon < dot) return false;
    return set(v, &v->run->name, dot + 1, (size_t)(colon - dot - 1));
}

static verdict step_name(view *v)
{
    size_t from = v->run->from, n = 0;
    while (from + n < v->end && n <= SL_REPLY_MAX_NAME && sl_reply_name_ok(v->text + from + n, 1))
        n++;
    if (n > SL_REPLY_MAX_NAME) return bad_at(v, from + n);
    if (from + n == v->end) return more(v);
    if (n == 0) return BAD;
    const char *p = v->text + from;
    v->run->pos = from + n;
    if (v->s->op == SL_STEP_SKIP) return NEXT;
    if (!set(v, v->s->op == SL_STEP_ID ? &v->run->id : &v->run->name, p, n)) return BAD;
    if (v->s->flags & SL_STEP_KIMI && !kimi_name(v, p, n)) return BAD;
    return v->s->flags & SL_STEP_KNOWN && !sl_reply_tool(v->r, p, n) ? BAD : NEXT;
}

static verdict step_key(view *v)
{
    size_t from = v->run->from;
    for (size_t i = from; i < v->end; i++) {
        if (v->text[i] == '\n' || i - from > SL_REPLY_MAX_KEY) return bad_at(v, i);
        sl_lit lit = sl_reply_lit(v->text + i, v->end - i, v->s->text);
        if (lit == SL_LIT_NO) continue;
        if (lit == SL_LIT_PART) return more(v);
        if (i == from) return BAD;
        v->run->pos = i + strlen(v->s->text);
        return set(v, &v->run->key, v->text + from, i - from) ? NEXT : BAD;
    }
    return more(v);
}

/* ---- raw values ---- */

static void put_param(view *v, const char *text, size_t n)
{
    sl_reply_run *run = v->run;
    unsigned flags = v->s->flags;
    if (flags & SL_STEP_LINES && n && text[0] == '\n') {
        text++;
        n--;
    }
    if (flags & SL_STEP_LINES && n && text[n - 1] == '\n') n--;
    static const char open[] = "<![CDATA[", close[] = "]]>";
    size_t quotes = sizeof open + sizeof close - 2;
    if (flags & SL_STEP_CDATA && n >= quotes && memcmp(text, open, sizeof open - 1) == 0 &&
        memcmp(text + n - (sizeof close - 1), close, sizeof close - 1) == 0) {
        text += sizeof open - 1;
        n -= quotes;
    }
    sl_buf_add(&run->args, run->n_param ? ", " : "{", run->n_param ? 2 : 1);
    run->n_param++;
    sl_reply_put_string(&run->args, run->key.data, run->key.len);
    sl_buf_add(&run->args, ": ", 2);
    sl_reply_put_value(&run->args, sl_reply_schema(v->r, run->name.data, run->name.len, run->key.data, run->key.len),
                       flags, text, n);
}

/* The closing text stands at pos; does what must follow it?  Text that only looks like the end is part of the value. */
static verdict value_ends(view *v)
{
    sl_reply_run *run = v->run;
    while (run->look < v->end && sl_reply_is_space(v->text[run->look]))
        run->look++;
    for (size_t i = 0; i < 2 && v->s->follow[i]; i++) {
        sl_lit lit = sl_reply_lit(v->text + run->look, v->end - run->look, v->s->follow[i]);
        if (lit == SL_LIT_PART) return more(v);
        if (lit == SL_LIT_WHOLE) return NEXT;
    }
    run->look = 0;
    run->pos++;
    return ELSE;
}

/* The next byte where a closing text, or the sign that there is none, may begin. */
static size_t value_skip(const view *v, size_t pos)
{
    char a = v->s->text[0], b = v->s->stop ? v->s->stop[0] : a;
    while (pos < v->end && v->text[pos] != a && v->text[pos] != b)
        pos++;
    return pos;
}

static verdict step_value(view *v)
{
    sl_reply_run *run = v->run;
    for (;;) {
        if (run->look) {
            verdict ends = value_ends(v);
            if (ends == NEXT) break;
            if (ends != ELSE) return ends;
        }
        run->pos = value_skip(v, run->pos);
        if (run->pos == v->end) return more(v);
        const char *p = v->text + run->pos;
        size_t n = v->end - run->pos;
        sl_lit close = sl_reply_lit(p, n, v->s->text), stop = v->s->stop ? sl_reply_lit(p, n, v->s->stop) : SL_LIT_NO;
        if (stop == SL_LIT_WHOLE) return BAD;
        if (close == SL_LIT_WHOLE)
            run->look = run->pos + strlen(v->s->text);
        else if (close == SL_LIT_PART || stop == SL_LIT_PART)
            return more(v);
        else
            run->pos++;
    }
    put_param(v, v->text + run->from, run->pos - run->from);
    run->pos += strlen(v->s->text);
    return sl_reply_check(v->r, &run->args) ? NEXT : BAD;
}

/* ---- whole arguments and calls ---- */

static verdict use_json(view *v, const char *text, size_t n)
{
    bool ok;
    switch (v->s->op) {
    case SL_STEP_CALL:
        ok = sl_reply_call_read(v->r, text, n, v->s->flags);
        break;
    case SL_STEP_CALLS:
    case SL_STEP_PAIRS:
        ok = sl_reply_calls_read(v->r, text, n, v->s->flags, v->s->op == SL_STEP_PAIRS);
        break;
    default:
        ok = set(v, &v->run->args, text, n);
        break;
    }
    return ok ? NEXT : BAD;
}

static verdict step_json(view *v)
{
    sl_reply_run *run = v->run;
    char open = v->s->op == SL_STEP_ARGS || v->s->op == SL_STEP_CALL ? '{' : '[';
    while (run->pos < v->end) {
        char c = v->text[run->pos];
        if (run->pos == run->from && c != open) return BAD;
        sl_scan scan = sl_reply_json_feed(&run->json, c);
        if (scan == SL_SCAN_BAD) return BAD;
        run->pos++;
        if (scan == SL_SCAN_DONE) return use_json(v, v->text + run->from, run->pos - run->from);
    }
    return more(v);
}

/* "[name(key=literal), ...]" */
static bool read_python(view *v, sl_reply_literal *l)
{
    l->pos = 1;
    for (;;) {
        while (l->pos < l->n && sl_reply_is_space(l->text[l->pos]))
            l->pos++;
        size_t from = l->pos;
        while (l->pos < l->n && sl_reply_name_ok(l->text + l->pos, 1))
            l->pos++;
        v->run->args.len = 0;
        const char *name = l->text + from;
        size_t n = l->pos - from;
        if (!sl_reply_kwargs_read(l, &v->run->args) || !sl_reply_check(v->r, &v->run->args)) return false;
        if (!sl_reply_call_add(v->r, name, n, NULL, 0, v->run->args.data, v->run->args.len)) return false;
        while (l->pos < l->n && sl_reply_is_space(l->text[l->pos]))
            l->pos++;
        if (l->text[l->pos] != ',') break;
        l->pos++;
    }
    v->run->args.len = 0;
    return l->pos + 1 == l->n;
}

static bool use_literal(view *v, const char *text, size_t n)
{
    static const char CALL[] = ".call";
    sl_reply_run *run = v->run;
    sl_reply_literal l = {.text = text, .n = n, .gemma = v->s->op == SL_STEP_GEMMA};
    if (v->s->op == SL_STEP_PYTHON) return read_python(v, &l);
    run->args.len = 0;
    if (v->s->op == SL_STEP_GEMMA) return sl_reply_literal_read(&l, &run->args) && l.pos == n;
    size_t suffix = sizeof CALL - 1;
    if (run->name.len <= suffix || memcmp(run->name.data + run->name.len - suffix, CALL, suffix) != 0) return false;
    run->name.len -= suffix;
    return sl_reply_kwargs_read(&l, &run->args) && l.pos == n;
}

static verdict step_literals(view *v)
{
    sl_reply_run *run = v->run;
    char open = v->s->op == SL_STEP_PYTHON ? '[' : v->s->op == SL_STEP_KWARGS ? '(' : '{';
    while (run->pos < v->end) {
        char c = v->text[run->pos];
        if (run->pos == run->from && c != open) return BAD;
        sl_scan scan = sl_reply_brackets_feed(&run->brackets, c);
        if (scan == SL_SCAN_BAD) return BAD;
        run->pos++;
        if (scan == SL_SCAN_MORE) continue;
        bool ok = use_literal(v, v->text + run->from, run->pos - run->from);
        return sl_reply_check(v->r, &run->args) && ok ? NEXT : BAD;
    }
    return more(v);
}

static bool args_ok(view *v);

static verdict step_tree(view *v)
{
    sl_reply_run *run = v->run;
    for (; run->pos < v->end; run->pos++) {
        if (v->text[run->pos] != v->s->text[0]) continue;
        sl_lit lit = sl_reply_lit(v->text + run->pos, v->end - run->pos, v->s->text);
        if (lit == SL_LIT_PART) break;
        if (lit == SL_LIT_NO) continue;
        const sl_json *schema = sl_reply_args_schema(v->r, run->name.data, run->name.len);
        run->args.len = 0;
        bool ok = sl_reply_tree_read(&run->args, schema, v->text + run->from, run->pos - run->from);
        run->pos += strlen(v->s->text);
        return sl_reply_check(v->r, &run->args) && ok && args_ok(v) ? NEXT : BAD;
    }
    return more(v);
}

static verdict step_header(view *v)
{
    static const char MESSAGE[] = "<|message|>";
    size_t from = v->run->from;
    for (size_t i = from; i < v->end; i++) {
        if (v->text[i] == '\n' || i - from > SL_REPLY_MAX_HEADER) return bad_at(v, i);
        if (v->text[i] != '<') continue;
        sl_lit lit = sl_reply_lit(v->text + i, v->end - i, MESSAGE);
        if (lit == SL_LIT_PART) return more(v);
        if (lit == SL_LIT_NO) continue;
        v->run->pos = i + sizeof MESSAGE - 1;
        if (!sl_reply_header(v->r, v->text + v->r->at, i - v->r->at)) return BAD;
        return v->run->name.len ? NEXT : OVER;
    }
    return more(v);
}

/* ---- bookkeeping ---- */

/* Arguments that were put together here are parsed once more: a parameter given twice makes no call. */
static bool args_ok(view *v)
{
    sl_json *tree = NULL;
    sl_status rc = sl_json_parse(&tree, "arguments", v->run->args.data, v->run->args.len, NULL);
    sl_json_free(tree);
    if (rc == SL_ERR_NOMEM) sl_reply_die(v->r, rc, "no memory for a tool call");
    return rc == SL_OK;
}

static verdict step_add(view *v)
{
    sl_reply_run *run = v->run;
    if (run->n_param) {
        sl_buf_add(&run->args, "}", 1);
        if (!sl_reply_check(v->r, &run->args) || !args_ok(v)) return BAD;
    }
    bool ok = sl_reply_call_add(v->r, run->name.data, run->name.len, run->id.data, run->id.len,
                                run->args.len ? run->args.data : "{}", run->args.len ? run->args.len : 2);
    run->name.len = run->id.len = run->args.len = 0;
    run->n_param = 0;
    return ok ? NEXT : BAD;
}

static verdict step_commit(view *v)
{
    sl_reply_calls_report(v->r);
    sl_reply_turn(v->r, v->r->channel, false);
    v->r->at = v->run->pos;
    return v->r->status == SL_OK ? NEXT : BAD;
}

static verdict step_eof(view *v)
{
    if (v->run->pos < v->r->in.len) return BAD;
    return v->r->over ? NEXT : MORE;
}

static verdict do_step(view *v)
{
    switch ((sl_reply_op)v->s->op) {
    case SL_STEP_SPACE:
        return step_space(v);
    case SL_STEP_LIT:
    case SL_STEP_TRY:
    case SL_STEP_PEEK:
        return step_literal(v);
    case SL_STEP_GOTO:
        return NEXT;
    case SL_STEP_NAME:
    case SL_STEP_ID:
    case SL_STEP_SKIP:
        return step_name(v);
    case SL_STEP_KEY:
        return step_key(v);
    case SL_STEP_VALUE:
        return step_value(v);
    case SL_STEP_ARGS:
    case SL_STEP_CALL:
    case SL_STEP_CALLS:
    case SL_STEP_PAIRS:
        return step_json(v);
    case SL_STEP_PYTHON:
    case SL_STEP_KWARGS:
    case SL_STEP_GEMMA:
        return step_literals(v);
    case SL_STEP_TREE:
        return step_tree(v);
    case SL_STEP_HEADER:
        return step_header(v);
    case SL_STEP_ADD:
        return step_add(v);
    case SL_STEP_COMMIT:
        return step_commit(v);
    case SL_STEP_EOF:
        return step_eof(v);
    case SL_STEP_END:
    case SL_STEP_LAST:
        break;
    }
    return OVER;
}

/* ---- running ---- */

void sl_reply_run_begin(sl_reply *r, const sl_reply_step *steps, size_t pos)
{
    sl_reply_run *run = &r->run;
    run->steps = run->at = steps;
    run->pos = pos;
    run->entered = false;
    run->name.len = run->id.len = run->args.len = 0;
    run->n_param = 0;
}

void sl_reply_run_free(sl_reply_run *run)
{
    sl_buf_free(&run->name);
    sl_buf_free(&run->id);
    sl_buf_free(&run->key);
    sl_buf_free(&run->args);
}

static void look(view *v, sl_reply *r)
{
    size_t held = r->in.len - r->at;
    *v = (view){.r = r, .run = &r->run, .s = r->run.at, .text = r->in.data, .end = r->in.len};
    if (held < r->max_call_bytes) return;
    v->end = r->at + r->max_call_bytes;
    while (v->end > r->at && v->end < r->in.len && ((unsigned char)v->text[v->end] & 0xC0) == 0x80)
        v->end--;
    v->limited = true;
}

static void enter(sl_reply_run *run)
{
    if (run->entered) return;
    run->entered = true;
    run->from = run->pos;
    run->look = 0;
    sl_reply_json_init(&run->json);
    run->brackets = (sl_reply_brackets){.gemma = run->at->op == SL_STEP_GEMMA};
}

sl_scan sl_reply_run_on(sl_reply *r)
{
    sl_reply_run *run = &r->run;
    for (;;) {
        view v;
        look(&v, r);
        enter(run);
        verdict got = do_step(&v);
        if (got == MORE) return SL_SCAN_MORE;
        if (got == OVER) {
            r->at = run->pos; /* what the last steps took, such as the marker that closes a section, is no text */
            return SL_SCAN_DONE;
        }
        if (got == BAD) {
            sl_reply_calls_drop(r);
            return SL_SCAN_BAD;
        }
        const sl_reply_step *s = run->at;
        bool jump = got == ELSE || (s->to && s->op != SL_STEP_TRY && s->op != SL_STEP_PEEK);
        run->at = jump ? run->steps + s->to : s + 1;
        run->entered = false;
    }
}
