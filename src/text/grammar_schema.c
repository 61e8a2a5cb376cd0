/* JSON Schema: conjunctions, references, alternatives, types.  What is not understood is refused by name; nothing that
 * restricts a value is passed over. */
#include "text/schema_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ---- */

/* Writes the JSON pointer of target below v; false: it is not there.  part of buf up to len is v's own. */
static bool find_path(const sl_json *v, const sl_json *target, char *buf, size_t cap, size_t len)
{
    const char *key;
    const sl_json *child;
    if (v == target) return true;
    if (sl_json_is_object(v))
        for (void *it = NULL; sl_json_next(v, &it, &key, &child);) {
            int n = snprintf(buf + len, cap - len, "/%s", key);
            if (n > 0 && len + (size_t)n < cap && find_path(child, target, buf, cap, len + (size_t)n)) return true;
        }
    if (sl_json_is_array(v))
        for (size_t i = 0; i < sl_json_count(v); i++) {
            int n = snprintf(buf + len, cap - len, "/%zu", i);
            if (n > 0 && len + (size_t)n < cap && find_path(sl_json_at(v, i), target, buf, cap, len + (size_t)n)) return true;
        }
    buf[len] = 0;
    return false;
}

void sl_schema_fail(sl_schema *s, sl_status code, const sl_json *v, const char *keyword, const char *why)
{
    char path[400] = "#", shown[64], shown_path[401];
    if (s->b->rc != SL_OK) return;
    find_path(s->root, v, path, sizeof path, 1);
    size_t n = 0; /* keys are the caller's text: no control characters in a message */
    for (const char *p = path; *p; p++)
        shown_path[n++] = (uint8_t)*p < 0x20 || *p == 0x7F ? '?' : *p;
    shown_path[n] = 0;
    sl_gb_fail(s->b, code, "keyword \"%s\" at %s %s", sl_gram_show(keyword, strlen(keyword), shown), shown_path, why);
}

/* ---- keywords ---- */

typedef enum { KEY_UNKNOWN, KEY_NOTE, KEY_LOGIC, KEY_RESTRICTS, KEY_TRIVIAL } key_kind;
static const struct {
    const char *name;
    key_kind kind;
    unsigned types; /* the types it restricts; 0: all */
} keywords[] = {
    {"type", KEY_RESTRICTS, 0},
    {"properties", KEY_RESTRICTS, SL_TYPE_OBJECT},
    {"required", KEY_RESTRICTS, SL_TYPE_OBJECT},
    {"additionalProperties", KEY_RESTRICTS, SL_TYPE_OBJECT},
    {"items", KEY_RESTRICTS, SL_TYPE_ARRAY},
    {"prefixItems", KEY_RESTRICTS, SL_TYPE_ARRAY},
    {"minItems", KEY_RESTRICTS, SL_TYPE_ARRAY},
    {"maxItems", KEY_RESTRICTS, SL_TYPE_ARRAY},
    {"enum", KEY_RESTRICTS, 0},
    {"const", KEY_RESTRICTS, 0},
    {"minLength", KEY_RESTRICTS, SL_TYPE_STRING},
    {"maxLength", KEY_RESTRICTS, SL_TYPE_STRING},
    {"pattern", KEY_RESTRICTS, SL_TYPE_STRING},
    {"format", KEY_RESTRICTS, SL_TYPE_STRING},
    {"minimum", KEY_RESTRICTS, SL_TYPE_NUMBER},
    {"maximum", KEY_RESTRICTS, SL_TYPE_NUMBER},
    {"exclusiveMinimum", KEY_RESTRICTS, SL_TYPE_NUMBER},
    {"exclusiveMaximum", KEY_RESTRICTS, SL_TYPE_NUMBER},
    {"multipleOf", KEY_RESTRICTS, SL_TYPE_NUMBER},
    {"$ref", KEY_LOGIC, 0},
    {"$defs", KEY_LOGIC, 0},
    {"definitions", KEY_LOGIC, 0},
    {"allOf", KEY_LOGIC, 0},
    {"anyOf", KEY_LOGIC, 0},
    {"oneOf", KEY_LOGIC, 0},
    {"$schema", KEY_NOTE, 0},
    {"$id", KEY_NOTE, 0},
    {"$comment", KEY_NOTE, 0},
    {"title", KEY_NOTE, 0},
    {"description", KEY_NOTE, 0},
    {"default", KEY_NOTE, 0},
    {"examples", KEY_NOTE, 0},
    {"example", KEY_NOTE, 0},
    {"deprecated", KEY_NOTE, 0},
    {"readOnly", KEY_NOTE, 0},
    {"writeOnly", KEY_NOTE, 0},
    {"discriminator", KEY_NOTE, 0},
    {"uniqueItems", KEY_TRIVIAL, 0},           /* only false */
    {"unevaluatedProperties", KEY_TRIVIAL, 0}, /* ... what is not declared is never written anyway */
};

static size_t find_keyword(const char *name)
{
    size_t i = 0;
    while (i < sizeof keywords / sizeof *keywords && strcmp(keywords[i].name, name) != 0)
        i++;
    return i;
}

/* Refuses what is not understood; tells whether the object restricts anything or has alternatives. */
static void check_keywords(sl_schema *s, const sl_json *v, bool *restricts)
{
    const char *key;
    const sl_json *value;
    *restricts = false;
    for (void *it = NULL; sl_json_next(v, &it, &key, &value) && s->b->rc == SL_OK;) {
        size_t k = find_keyword(key);
        bool flag = true;
        if (k == sizeof keywords / sizeof *keywords) {
            if (strncmp(key, "x-", 2) != 0) sl_schema_fail(s, SL_ERR_UNSUPPORTED, v, key, "is not supported");
        } else if (keywords[k].kind == KEY_TRIVIAL) {
            if (!sl_json_bool(value, &flag) || flag) sl_schema_fail(s, SL_ERR_UNSUPPORTED, v, key, "is supported only as false");
        } else {
            *restricts |= keywords[k].kind == KEY_RESTRICTS;
        }
    }
}

/* ---- references ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* One step of a pointer, %XX and ~0 ~1 undone, into buf; *p moves to the next slash or the end. */
static bool take_step(const char **p, char *buf, size_t cap)
{
    size_t n = 0;
    for (++*p; **p && **p != '/'; ++*p) {
        char c = **p;
        if (c == '%' && hex_digit((*p)[1]) >= 0 && hex_digit((*p)[2]) >= 0) {
            c = (char)(hex_digit((*p)[1]) * 16 + hex_digit((*p)[2]));
            *p += 2;
        }
        if (c == '~' && ((*p)[1] == '0' || (*p)[1] == '1')) c = *++*p == '0' ? '~' : '/';
        if (n + 1 == cap) return false;
        buf[n++] = c;
    }
    buf[n] = 0;
    return true;
}

static const sl_json *resolve(sl_schema *s, const sl_json *v, const char *ref)
{
    const sl_json *at = s->root;
    char step[256];
    if (ref[0] != '#' || (ref[1] && ref[1] != '/')) {
        sl_schema_fail(s, SL_ERR_UNSUPPORTED, v, "$ref", "is supported only inside the document (#/...)");
        return NULL;
    }
    for (const char *p = ref + 1; at && *p;) {
        if (!take_step(&p, step, sizeof step)) at = NULL;
        if (at && sl_json_is_array(at)) {
            char *end;
            unsigned long i = strtoul(step, &end, 10);
            at = *step && !*end && i < sl_json_count(at) ? sl_json_at(at, i) : NULL;
        } else if (at) {
            at = sl_json_get(at, step);
        }
    }
    if (!at) sl_schema_fail(s, SL_ERR_FORMAT, v, "$ref", "leads nowhere");
    return at;
}

/* ---- conjunctions ---- */

static void add_at(sl_schema *s, sl_schema_conj *c, const sl_json *v, unsigned depth)
{
    bool flag, restricts;
    if (s->b->rc != SL_OK) return;
    if (depth > SL_GRAM_MAX_NEST) {
        sl_schema_fail(s, SL_ERR_LIMIT, v, "$ref", "runs in a circle, or $ref and allOf are nested deeper than 64");
        return;
    }
    if (sl_json_bool(v, &flag)) {
        c->never |= !flag;
        return;
    }
    if (!sl_json_is_object(v)) {
        sl_gb_fail(s->b, SL_ERR_FORMAT, "a schema must be an object, true or false");
        return;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->part[i] != v) continue;
        if (c->chosen >> i & 1) sl_schema_fail(s, SL_ERR_UNSUPPORTED, v, "anyOf", "has itself as an alternative");
        return;
    }
    check_keywords(s, v, &restricts);
    const sl_json *ref = sl_json_get(v, "$ref"), *all = sl_json_get(v, "allOf");
    if (restricts || sl_json_get(v, "anyOf") || sl_json_get(v, "oneOf")) {
        if (c->n == SL_SCHEMA_MAX_PARTS) {
            sl_schema_fail(s, SL_ERR_LIMIT, v, "allOf", "brings more than 16 schemas together");
            return;
        }
        c->part[c->n++] = v;
    }
    if (ref && !sl_json_is_string(ref)) sl_schema_fail(s, SL_ERR_FORMAT, v, "$ref", "must be a string");
    if (all && !sl_json_is_array(all)) sl_schema_fail(s, SL_ERR_FORMAT, v, "allOf", "must be a list");
    const sl_json *to = ref && s->b->rc == SL_OK ? resolve(s, v, sl_json_string(ref, NULL)) : NULL;
    if (to) add_at(s, c, to, depth + 1);
    for (size_t i = 0; all && i < sl_json_count(all); i++)
        add_at(s, c, sl_json_at(all, i), depth + 1);
}

void sl_schema_add(sl_schema *s, sl_schema_conj *c, const sl_json *v)
{
    add_at(s, c, v, 0);
}

uint32_t sl_schema_rule(sl_schema *s, const sl_schema_conj *c)
{
    if (s->b->rc != SL_OK) return 0;
    if (!c->n && !c->never) return sl_json_rule_get(&s->j, SL_JSON_ANY);
    for (uint32_t i = 0; i < s->n_entry; i++) {
        const sl_schema_conj *o = &s->entries[i].conj;
        if (o->n == c->n && o->chosen == c->chosen && o->never == c->never && memcmp(o->part, c->part, c->n * sizeof *c->part) == 0)
            return s->entries[i].rule;
    }
    if (!sl_gb_grow(s->b, (void **)&s->entries, s->n_entry, &s->cap_entry, sizeof *s->entries)) return 0;
    s->entries[s->n_entry] = (sl_schema_entry){*c, sl_gb_rule(s->b)};
    return s->entries[s->n_entry++].rule;
}

uint32_t sl_schema_value(sl_schema *s, uint32_t from, const sl_schema_conj *c)
{
    uint32_t to = sl_gb_state(s->b);
    sl_gb_call(s->b, from, sl_schema_rule(s, c), to);
    return to;
}

void sl_schema_count(sl_schema *s, const sl_schema_conj *c, const char *keyword, bool least, uint32_t *value)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const sl_json *v = sl_json_get(c->part[i], keyword);
        double n;
        if (!v) continue;
        if (!sl_json_number(v, &n) || n < 0 || n != (double)(int64_t)n)
            sl_schema_fail(s, SL_ERR_FORMAT, c->part[i], keyword, "must be a whole number from 0");
        else if (n > SL_GRAM_MAX_REPEAT && !least)
            sl_schema_fail(s, SL_ERR_LIMIT, c->part[i], keyword, "is above the limit of 10000");
        else if (least ? n < *value : n > *value)
            *value = n > SL_GRAM_MAX_REPEAT ? UINT32_MAX : (uint32_t)n; /* a bound beyond the limit is no bound that matters */
    }
}

/* ---- alternatives ---- */

/* The first part whose alternatives are still to be chosen, or n. */
static uint32_t open_part(const sl_schema_conj *c, const sl_json **list, const char **keyword)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->chosen >> i & 1) continue;
        *keyword = sl_json_get(c->part[i], "anyOf") ? "anyOf" : "oneOf";
        *list = sl_json_get(c->part[i], *keyword);
        if (*list) return i;
    }
    return c->n;
}

static void draw_alternatives(sl_schema *s, const sl_schema_conj *c, uint32_t i, const sl_json *list, const char *keyword,
                              uint32_t from, uint32_t to)
{
    const sl_json *part = c->part[i];
    bool restricts;
    if (!sl_json_is_array(list) || !sl_json_count(list)) sl_schema_fail(s, SL_ERR_FORMAT, part, keyword, "must be a list of schemas");
    if (sl_json_get(part, "anyOf") && sl_json_get(part, "oneOf"))
        sl_schema_fail(s, SL_ERR_UNSUPPORTED, part, "oneOf", "is not supported beside anyOf");
    check_keywords(s, part, &restricts);
    for (size_t k = 0; s->b->rc == SL_OK && k < sl_json_count(list); k++) {
        sl_schema_conj way = *c;
        if (restricts) {
            way.chosen |= 1u << i;
        } else { /* the part has said all it has to say */
            memmove(way.part + i, way.part + i + 1, (way.n - i - 1) * sizeof *way.part);
            way.n--;
            way.chosen = (way.chosen & ((1u << i) - 1)) | (way.chosen >> (i + 1) << i);
        }
        sl_schema_add(s, &way, sl_json_at(list, k));
        sl_gb_call(s->b, from, sl_schema_rule(s, &way), to);
    }
}

/* ---- types ---- */

static unsigned type_bit(const char *name)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    for (unsigned i = 0; i < 7; i++)
        if (strcmp(names[i], name) == 0) return 1u << i;
    return 0;
}

static unsigned types_of(sl_schema *s, const sl_json *part)
{
    const sl_json *t = sl_json_get(part, "type");
    bool list = t && sl_json_is_array(t);
    unsigned types = 0;
    for (size_t i = 0; t && i < (list ? sl_json_count(t) : 1); i++) {
        const char *name = sl_json_string(list ? sl_json_at(t, i) : t, NULL);
        unsigned bit = name ? type_bit(name) : 0;
        if (!bit) sl_schema_fail(s, SL_ERR_FORMAT, part, "type", "names no type");
        types |= bit;
    }
    return types;
}

/* The types that all parts allow.  Where none names one, those that its keywords are about. */
static unsigned common_types(sl_schema *s, const sl_schema_conj *c, bool *named)
{
    unsigned types = SL_TYPE_ANY, hinted = 0;
    *named = false;
    for (uint32_t i = 0; i < c->n; i++) {
        unsigned t = types_of(s, c->part[i]);
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
            if (keywords[k].types && sl_json_get(c->part[i], keywords[k].name)) hinted |= keywords[k].types;
        if (!sl_json_get(c->part[i], "type")) continue;
        *named = true;
        if (t & SL_TYPE_NUMBER) t |= SL_TYPE_INTEGER;
        types &= t;
    }
    if (!*named && hinted) types = hinted;
    if (types & SL_TYPE_NUMBER) types &= ~(unsigned)SL_TYPE_INTEGER; /* every integer is one */
    return types;
}

/* ---- enum and const ---- */

static bool equal(const sl_json *a, const sl_json *b)
{
    double x, y;
    bool p, q;
    if (sl_json_number(a, &x)) return sl_json_number(b, &y) && x == y;
    if (sl_json_bool(a, &p)) return sl_json_bool(b, &q) && p == q;
    if (sl_json_is_null(a)) return sl_json_is_null(b);
    if (sl_json_is_string(a)) {
        size_t n, m;
        const char *s = sl_json_string(a, &n), *t = sl_json_string(b, &m);
        return t && n == m && memcmp(s, t, n) == 0;
    }
    if (sl_json_is_array(a) != sl_json_is_array(b) || sl_json_is_object(a) != sl_json_is_object(b) || sl_json_count(a) != sl_json_count(b))
        return false;
    for (size_t i = 0; sl_json_is_array(a) && i < sl_json_count(a); i++)
        if (!equal(sl_json_at(a, i), sl_json_at(b, i))) return false;
    const char *key;
    const sl_json *v;
    for (void *it = NULL; sl_json_is_object(a) && sl_json_next(a, &it, &key, &v);) {
        const sl_json *o = sl_json_get(b, key);
        if (o ? !equal(v, o) : !sl_json_is_null(v)) return false;
    }
    return true;
}

static unsigned type_of(const sl_json *v)
{
    double d;
    bool flag;
    if (sl_json_number(v, &d)) return d == (double)(int64_t)d ? SL_TYPE_INTEGER | SL_TYPE_NUMBER : SL_TYPE_NUMBER;
    if (sl_json_bool(v, &flag)) return SL_TYPE_BOOLEAN;
    return sl_json_is_null(v) ? SL_TYPE_NULL : sl_json_is_string(v) ? SL_TYPE_STRING : sl_json_is_array(v) ? SL_TYPE_ARRAY : SL_TYPE_OBJECT;
}

static uint32_t draw_constant(sl_schema *s, const sl_json *v, uint32_t from, unsigned depth);

static uint32_t draw_constant_list(sl_schema *s, const sl_json *v, uint32_t from, unsigned depth)
{
    bool object = sl_json_is_object(v);
    const char *key = NULL;
    void *it = NULL;
    const sl_json *child = NULL;
    from = sl_json_space(&s->j, sl_gb_literal(s->b, from, object ? "{" : "[", 1));
    for (size_t i = 0; s->b->rc == SL_OK && i < sl_json_count(v); i++) {
        if (i) from = sl_json_space(&s->j, sl_gb_literal(s->b, from, ",", 1));
        if (object && !sl_json_next(v, &it, &key, &child)) break;
        if (object) from = sl_json_colon(&s->j, sl_json_literal(s->b, from, key, strlen(key)));
        from = draw_constant(s, object ? child : sl_json_at(v, i), from, depth + 1);
    }
    if (sl_json_count(v)) from = sl_json_space(&s->j, from);
    return sl_gb_literal(s->b, from, object ? "}" : "]", 1);
}

static uint32_t draw_constant(sl_schema *s, const sl_json *v, uint32_t from, unsigned depth)
{
    char text[32];
    int64_t whole;
    double d;
    bool flag;
    size_t n;
    if (depth > SL_GRAM_MAX_NEST) {
        sl_gb_fail(s->b, SL_ERR_LIMIT, "a constant is nested deeper than %d", SL_GRAM_MAX_NEST);
        return 0;
    }
    if (sl_json_is_string(v)) {
        const char *p = sl_json_string(v, &n);
        return sl_json_literal(s->b, from, p, n);
    }
    if (sl_json_is_array(v) || sl_json_is_object(v)) return draw_constant_list(s, v, from, depth);
    if (sl_json_int(v, &whole))
        snprintf(text, sizeof text, "%lld", (long long)whole);
    else if (sl_json_number(v, &d))
        sl_gram_number_text(d, text);
    else
        snprintf(text, sizeof text, "%s", sl_json_bool(v, &flag) ? (flag ? "true" : "false") : "null");
    return sl_gb_literal(s->b, from, text, strlen(text));
}

/* The constants of a part: a list, or one; false: it has none. */
typedef struct {
    const sl_json *list, *one;
} constants;

static bool constants_of(sl_schema *s, const sl_json *part, constants *out)
{
    const char *key;
    const sl_json *v;
    *out = (constants){0};
    for (void *it = NULL; sl_json_next(part, &it, &key, &v);) {
        if (strcmp(key, "enum") == 0) out->list = v;
        if (strcmp(key, "const") == 0) out->one = v; /* may be null, which sl_json_get would take for absent */
    }
    if (out->list && (!sl_json_is_array(out->list) || !sl_json_count(out->list)))
        sl_schema_fail(s, SL_ERR_FORMAT, part, "enum", "must be a list of values");
    return out->list || out->one;
}

static bool is_among(const constants *k, const sl_json *v)
{
    bool found = !k->list;
    for (size_t i = 0; k->list && !found && i < sl_json_count(k->list); i++)
        found = equal(sl_json_at(k->list, i), v);
    return found && (!k->one || equal(k->one, v));
}

enum { MAX_COMPARED = 1000000 };

/* Draws the constants that every part allows; false: no part has any. */
static bool draw_constants(sl_schema *s, const sl_schema_conj *c, unsigned types, uint32_t from, uint32_t to)
{
    constants first = {0}, other;
    uint32_t source = 0;
    while (source < c->n && !constants_of(s, c->part[source], &first))
        source++;
    if (source == c->n) return false;
    uint64_t n_first = first.list ? sl_json_count(first.list) : 1;
    for (uint32_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
            if (keywords[k].types && sl_json_get(c->part[i], keywords[k].name))
                sl_schema_fail(s, SL_ERR_UNSUPPORTED, c->part[i], keywords[k].name, "is not supported together with enum or const");
    for (size_t k = 0; s->b->rc == SL_OK && k < n_first; k++) {
        const sl_json *v = first.list ? sl_json_at(first.list, k) : first.one;
        bool fits = (type_of(v) & types) != 0 && (!first.one || equal(first.one, v));
        for (uint32_t i = source + 1; i < c->n && fits; i++) {
            if (!constants_of(s, c->part[i], &other)) continue;
            if (other.list && sl_json_count(other.list) * n_first > MAX_COMPARED)
                sl_schema_fail(s, SL_ERR_LIMIT, c->part[i], "enum", "is too long to be compared with another");
            fits = s->b->rc == SL_OK && is_among(&other, v);
        }
        if (fits) sl_gb_empty(s->b, draw_constant(s, v, from, 0), to);
    }
    return true;
}

/* ---- rules ---- */

static void draw_types(sl_schema *s, const sl_schema_conj *c, unsigned types, uint32_t from, uint32_t to)
{
    sl_gram_builder *b = s->b;
    if (types & SL_TYPE_OBJECT) sl_schema_draw_object(s, c, from, to);
    if (types & SL_TYPE_ARRAY) sl_schema_draw_array(s, c, from, to);
    if (types & SL_TYPE_STRING) sl_schema_draw_string(s, c, from, to);
    if (types & (SL_TYPE_NUMBER | SL_TYPE_INTEGER)) sl_schema_draw_number(s, c, !(types & SL_TYPE_NUMBER), from, to);
    if (types & SL_TYPE_BOOLEAN) {
        sl_gb_empty(b, sl_gb_literal(b, from, "true", 4), to);
        sl_gb_empty(b, sl_gb_literal(b, from, "false", 5), to);
    }
    if (types & SL_TYPE_NULL) sl_gb_empty(b, sl_gb_literal(b, from, "null", 4), to);
}

static void draw(sl_schema *s, sl_schema_conj c, uint32_t rule)
{
    const sl_json *list = NULL;
    const char *keyword = NULL;
    bool named;
    uint32_t from = s->b->rules[rule].start, to = s->b->rules[rule].end;
    if (c.never) return; /* no text; whoever calls it finds that out when the grammar is finished */
    uint32_t i = open_part(&c, &list, &keyword);
    if (i < c.n) {
        draw_alternatives(s, &c, i, list, keyword, from, to);
        return;
    }
    unsigned types = common_types(s, &c, &named);
    /* "integer" also allows constants such as 1.0 */
    if (draw_constants(s, &c, types & SL_TYPE_NUMBER ? types | SL_TYPE_INTEGER : types, from, to)) return;
    draw_types(s, &c, types, from, to);
}

void sl_schema_init(sl_schema *s, sl_gram_builder *b)
{
    *s = (sl_schema){.b = b, .j = {.b = b}};
}

void sl_schema_free(sl_schema *s)
{
    sl_free(s->entries);
}

uint32_t sl_schema_root_rule(sl_schema *s, const sl_json *root)
{
    sl_schema_conj c = {0};
    s->root = root;
    sl_schema_add(s, &c, root);
    uint32_t rule = sl_schema_rule(s, &c);
    for (; s->n_drawn < s->n_entry && s->b->rc == SL_OK; s->n_drawn++)
        draw(s, s->entries[s->n_drawn].conj, s->entries[s->n_drawn].rule);
    return rule;
}

void sl_gram_draw_schema(sl_gram_builder *b, const char *text, size_t n_bytes)
{
    sl_json *root = NULL;
    sl_err err = {0};
    sl_schema s;
    sl_status rc = sl_json_parse(&root, "the text", text, n_bytes, &err);
    if (rc != SL_OK) {
        sl_gb_fail(b, rc, "%s", err.msg);
        return;
    }
    sl_schema_init(&s, b);
    uint32_t rule = sl_schema_root_rule(&s, root);
    if (b->rc == SL_OK) sl_gb_call(b, b->rules[b->root].start, rule, b->rules[b->root].end);
    sl_schema_free(&s);
    sl_json_free(root);
}
