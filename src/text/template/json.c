/* JSON out, as json.dumps writes it, and JSON in. */
#include "base/json.h"
#include "text/template/template_int.h"

#include <math.h>
#include <stdio.h>

/* ---- out ---- */

typedef struct {
    sl_tpl_run *r;
    const sl_tpl_json_style *style;
    sl_tpl_text out;
} writer;

static void put_escape(writer *w, uint32_t cp, bool user)
{
    char buf[16];
    int n;
    switch (cp) {
    case '"':
    case '\\':
        n = snprintf(buf, sizeof buf, "\\%c", (char)cp);
        break;
    case '\b':
    case '\f':
    case '\n':
    case '\r':
    case '\t':
        n = snprintf(buf, sizeof buf, "\\%c", "btn?fr"[cp - 8]);
        break;
    default:
        if (cp > 0xFFFF)
            n = snprintf(buf, sizeof buf, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                         0xDC00 + ((cp - 0x10000) & 0x3FF));
        else
            n = snprintf(buf, sizeof buf, "\\u%04x", cp);
        break;
    }
    sl_tpl_add(w->r, &w->out, buf, (size_t)n, user);
}

static void put_string(writer *w, const sl_tpl_str *s)
{
    uint32_t cp;
    size_t done = 0;
    sl_tpl_add_c(w->r, &w->out, "\"");
    for (size_t i = 0, len; i < s->n && (len = sl_utf8_decode(s->p + i, s->n - i, &cp)); i += len) {
        if (cp >= ' ' && cp != '"' && cp != '\\' && (cp < 0x7F || !w->style->ascii)) continue;
        sl_tpl_add_slice(w->r, &w->out, s, done, i);
        put_escape(w, cp, s->mask ? s->mask[i] : s->user);
        done = i + len;
    }
    sl_tpl_tick(w->r, s->n >> 6);
    sl_tpl_add_slice(w->r, &w->out, s, done, s->n);
    sl_tpl_add_c(w->r, &w->out, "\"");
}

static void put_number(writer *w, sl_tpl_value v)
{
    char buf[32];
    if (v.kind == SL_TPL_INT)
        snprintf(buf, sizeof buf, "%lld", (long long)v.i);
    else if (isnan(v.f) || isinf(v.f))
        strcpy(buf, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
    else
        sl_tpl_show_float(v.f, buf);
    sl_tpl_add_c(w->r, &w->out, buf);
}

static void new_line(writer *w, unsigned level)
{
    if (!w->style->has_indent) return;
    sl_tpl_add_c(w->r, &w->out, "\n");
    for (unsigned i = 0; i < level; i++)
        sl_tpl_add_str(w->r, &w->out, w->style->indent);
}

static void put_value(writer *w, sl_tpl_value v, unsigned level);

static void put_list(writer *w, const sl_tpl_list *l, unsigned level)
{
    sl_tpl_add_c(w->r, &w->out, "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i) sl_tpl_add_str(w->r, &w->out, w->style->item);
        new_line(w, level + 1);
        put_value(w, l->at[i], level + 1);
    }
    if (l->n) new_line(w, level);
    sl_tpl_add_c(w->r, &w->out, "]");
}

static void put_key(writer *w, sl_tpl_value key)
{
    if (key.kind == SL_TPL_STR) {
        put_string(w, key.s);
        return;
    }
    if (key.kind != SL_TPL_NONE && !sl_tpl_is_number(key))
        sl_tpl_type_error(w->r, "keys must be str, int, float, bool or None, not %s", sl_tpl_type_name(key));
    sl_tpl_add_c(w->r, &w->out, "\"");
    put_value(w, key, 0);
    sl_tpl_add_c(w->r, &w->out, "\"");
}

static int by_key(sl_tpl_run *r, const sl_tpl_entry *a, const sl_tpl_entry *b)
{
    return sl_tpl_order(r, a->key, b->key, "<");
}

/* Insertion from the front half by half: stable, and no more than n log n comparisons. */
static const sl_tpl_entry *sorted(sl_tpl_run *r, const sl_tpl_dict *d)
{
    sl_tpl_entry *at = sl_tpl_take(&r->heap, d->n * sizeof *at);
    for (size_t i = 0; i < d->n; i++) {
        size_t lo = 0, hi = i;
        while (lo < hi) {
            size_t mid = lo + (hi - lo) / 2;
            if (by_key(r, &d->at[i], &at[mid]) < 0)
                hi = mid;
            else
                lo = mid + 1;
        }
        sl_tpl_tick(r, (i - lo) >> 4);
        memmove(&at[lo + 1], &at[lo], (i - lo) * sizeof *at);
        at[lo] = d->at[i];
    }
    return at;
}

static void put_dict(writer *w, const sl_tpl_dict *d, unsigned level)
{
    const sl_tpl_entry *at = w->style->sort_keys ? sorted(w->r, d) : d->at;
    sl_tpl_add_c(w->r, &w->out, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) sl_tpl_add_str(w->r, &w->out, w->style->item);
        new_line(w, level + 1);
        put_key(w, at[i].key);
        sl_tpl_add_str(w->r, &w->out, w->style->key);
        put_value(w, at[i].value, level + 1);
    }
    if (d->n) new_line(w, level);
    sl_tpl_add_c(w->r, &w->out, "}");
}

static void put_value(writer *w, sl_tpl_value v, unsigned level)
{
    sl_tpl_tick(w->r, 1);
    sl_tpl_down(w->r);
    switch (v.kind) {
    case SL_TPL_NONE:
        sl_tpl_add_c(w->r, &w->out, "null");
        break;
    case SL_TPL_BOOL:
        sl_tpl_add_c(w->r, &w->out, v.b ? "true" : "false");
        break;
    case SL_TPL_INT:
    case SL_TPL_FLOAT:
        put_number(w, v);
        break;
    case SL_TPL_STR:
        put_string(w, v.s);
        break;
    case SL_TPL_LIST:
    case SL_TPL_TUPLE:
        put_list(w, v.l, level);
        break;
    case SL_TPL_DICT:
        put_dict(w, v.d, level);
        break;
    default:
        sl_tpl_type_error(w->r, "Object of type %s is not JSON serializable", sl_tpl_type_name(v));
    }
    sl_tpl_up(w->r);
}

sl_tpl_value sl_tpl_to_json(sl_tpl_run *r, sl_tpl_value v, const sl_tpl_json_style *style)
{
    writer w = {.r = r, .style = style};
    put_value(&w, v, 0);
    return sl_tpl_text_done(r, &w.out);
}

/* ---- in ---- */

typedef struct {
    sl_tpl_run *r;
    sl_json_reader *j;
    bool frozen;
} builder;

static sl_tpl_value build(builder *b, sl_json_event e);

static sl_tpl_value build_list(builder *b)
{
    sl_tpl_list *l = sl_tpl_list_new(b->r, 0);
    for (sl_json_event e; (e = sl_json_read(b->j)) != SL_JSON_ARRAY_END && e != SL_JSON_ERROR;)
        sl_tpl_list_add(b->r, l, build(b, e));
    l->frozen = b->frozen;
    return sl_tpl_list_value(l);
}

static sl_tpl_value build_dict(builder *b)
{
    sl_tpl_dict *d = sl_tpl_dict_new(b->r);
    while (sl_json_read(b->j) == SL_JSON_KEY) {
        const sl_tpl_str *key = sl_tpl_str_new(&b->r->heap, b->j->str.data, b->j->str.len, true);
        sl_tpl_dict_set(b->r, d, sl_tpl_of_str(key), build(b, sl_json_read(b->j)));
    }
    d->frozen = b->frozen;
    return (sl_tpl_value){.kind = SL_TPL_DICT, .d = d};
}

static sl_tpl_value build(builder *b, sl_json_event e)
{
    switch (e) {
    case SL_JSON_OBJECT:
        return build_dict(b);
    case SL_JSON_ARRAY:
        return build_list(b);
    case SL_JSON_STRING:
        return sl_tpl_of_str(sl_tpl_str_new(&b->r->heap, b->j->str.data, b->j->str.len, true));
    case SL_JSON_NUMBER:
        return b->j->is_int ? sl_tpl_int(b->j->integer) : sl_tpl_float(b->j->number);
    case SL_JSON_TRUE:
    case SL_JSON_FALSE:
        return sl_tpl_bool(e == SL_JSON_TRUE);
    default: /* null; or an error, which the caller sees in the end */
        return sl_tpl_none();
    }
}

sl_tpl_value sl_tpl_from_json(sl_tpl_run *r, const char *what, const char *json, size_t n_bytes, bool frozen,
                              sl_status code)
{
    sl_json_reader j;
    builder b = {r, &j, frozen};
    size_t bad = sl_utf8_valid_prefix(json, n_bytes);
    if (bad < n_bytes) sl_tpl_fail(&r->heap, code, "%s is not valid UTF-8 at byte %zu", what, bad);
    sl_json_reader_init(&j, json, n_bytes);
    /* the one thing outside of the heap: the reader's string, to be freed whatever happens in between */
    jmp_buf outer;
    memcpy(&outer, &r->heap.back, sizeof outer);
    if (setjmp(r->heap.back)) {
        memcpy(&r->heap.back, &outer, sizeof outer);
        sl_json_reader_free(&j);
        longjmp(r->heap.back, 1);
    }
    sl_tpl_value v = build(&b, sl_json_read(&j));
    bool nomem = j.str.failed, good = sl_json_read(&j) == SL_JSON_END;
    const char *why = j.error ? j.error : "more follows the value";
    size_t pos = j.pos;
    memcpy(&r->heap.back, &outer, sizeof outer);
    sl_json_reader_free(&j);
    if (nomem) sl_tpl_fail(&r->heap, SL_ERR_NOMEM, "no memory");
    if (!good) sl_tpl_fail(&r->heap, code, "%s is no JSON: %s, near byte %zu", what, why, pos);
    return v;
}
