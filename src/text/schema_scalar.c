/* Arrays, strings, and the bounds of numbers. */
#include "text/schema_int.h"

#include <math.h>
#include <string.h>

/* ---- arrays ---- */

/* The list of schemas for the first elements of a part, and the schema for those behind; NULL: it says nothing. */
static const sl_json *first_items(const sl_json *part, const sl_json **rest)
{
    const sl_json *items = sl_json_get(part, "items"), *prefix = sl_json_get(part, "prefixItems");
    *rest = items;
    if (prefix || !items || !sl_json_is_array(items)) return prefix;
    *rest = NULL; /* an older dialect's list in "items" */
    return items;
}

typedef struct {
    uint32_t min, max;
    size_t n_first;      /* elements with a schema of their own */
    bool more;           /* others may follow */
    sl_schema_conj rest; /* what holds for those */
} array;

static array describe_array(sl_schema *s, const sl_schema_conj *c)
{
    array a = {.max = UINT32_MAX};
    bool said = false;
    sl_schema_count(s, c, "minItems", false, &a.min);
    sl_schema_count(s, c, "maxItems", true, &a.max);
    for (uint32_t i = 0; i < c->n; i++) {
        const sl_json *rest, *first = first_items(c->part[i], &rest);
        if (first && !sl_json_is_array(first)) sl_schema_fail(s, SL_ERR_FORMAT, c->part[i], "prefixItems", "must be a list");
        if (first && sl_json_count(first) > a.n_first) a.n_first = sl_json_count(first);
        said |= rest != NULL;
        if (rest) sl_schema_add(s, &a.rest, rest);
    }
    /* a list of first elements alone means those; more only where minItems asks for them */
    a.more = !a.rest.never && (said || !a.n_first || a.min > a.n_first);
    if (!said && a.n_first && a.more && a.max > a.min) a.max = a.min;
    if (!a.more && a.max > a.n_first) a.max = (uint32_t)a.n_first;
    return a;
}

static sl_schema_conj element_of(sl_schema *s, const sl_schema_conj *c, size_t i)
{
    sl_schema_conj v = {0};
    for (uint32_t k = 0; k < c->n; k++) {
        const sl_json *rest, *first = first_items(c->part[k], &rest);
        const sl_json *own = first && i < sl_json_count(first) ? sl_json_at(first, i) : rest;
        if (own) sl_schema_add(s, &v, own);
    }
    return v;
}

void sl_schema_draw_array(sl_schema *s, const sl_schema_conj *c, uint32_t from, uint32_t to)
{
    sl_gram_builder *b = s->b;
    array a = describe_array(s, c);
    uint32_t at = sl_json_space(&s->j, sl_gb_literal(b, from, "[", 1)), last = sl_gb_state(b), done = 0;
    sl_gb_bytes(b, sl_json_space(&s->j, last), ']', ']', to);
    if (a.min == 0) sl_gb_bytes(b, at, ']', ']', to);
    /* one by one while elements differ or are counted; then a loop */
    uint32_t single = a.max != UINT32_MAX ? a.max : a.min > a.n_first ? a.min : (uint32_t)a.n_first;
    for (; done < single && b->rc == SL_OK; done++) {
        sl_schema_conj v = done < a.n_first ? element_of(s, c, done) : a.rest;
        uint32_t behind = sl_schema_value(s, at, &v);
        if (done + 1 >= a.min) sl_gb_empty(b, behind, last);
        if (done + 1 < a.max) at = sl_json_space(&s->j, sl_gb_literal(b, behind, ",", 1));
    }
    if (a.max != UINT32_MAX || b->rc != SL_OK) return;
    uint32_t behind = sl_schema_value(s, at, &a.rest);
    sl_gb_empty(b, behind, last);
    uint32_t next = sl_json_space(&s->j, sl_gb_literal(b, behind, ",", 1)); /* not at: an array may not end behind a comma */
    sl_gb_empty(b, sl_schema_value(s, next, &a.rest), behind);
}

/* ---- strings ---- */

#define YEAR   "(?:[1-9]\\d{3}|0[1-9]\\d\\d|00[1-9]\\d|000[1-9])"
#define LEAP   "(?:(?:[1-9]\\d|0[1-9])(?:0[48]|[2468][048]|[13579][26])|00(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26]|0[48])00)"
#define DATE   "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP "-02-29)"
/* no offset of -00:xx: not every reader takes it */
#define TIME   "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+](?:[01]\\d|2[0-3]):[0-5]\\d|-(?:0[1-9]|1\\d|2[0-3]):[0-5]\\d)"
#define OCTET  "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4   OCTET "(?:\\." OCTET "){3}"
#define GROUP  "[0-9a-fA-F]{1,4}"
#define LABEL  "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOST   LABEL "(?:\\." LABEL "){0,8}"
#define URLS   "[a-zA-Z0-9._~!$&'()*+,;=:@%/?-]"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(?:\\d{1,4}W|(?:\\d{1,4}Y)?(?:\\d{1,4}M)?\\d{1,4}D|(?:\\d{1,4}Y)?\\d{1,4}M|\\d{1,4}Y|"
                 "(?:(?:\\d{1,4}Y)?(?:\\d{1,4}M)?\\d{1,4}D)?T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S))$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"email", "^[a-zA-Z0-9_+-]{1,32}(?:\\.[a-zA-Z0-9_+-]{1,32}){0,4}@" LABEL "(?:\\." LABEL "){1,4}$"},
    {"hostname", "^" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^(?:(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,6}:" GROUP "|::(?:" GROUP ":){0,5}" GROUP "|::)$"},
    {"uri", "^(?:https?|ftp)://" HOST "(?::[1-9]\\d{0,3})?(?:/" URLS "*)?(?:#" URLS "*)?$"},
};

static const char *format_pattern(sl_schema *s, const sl_json *part, const char *name)
{
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0) return formats[i].pattern;
    sl_schema_fail(s, SL_ERR_UNSUPPORTED, part, "format", "names a format that is not supported");
    return NULL;
}

/* The one pattern or format of the parts; false: there is none. */
static bool find_pattern(sl_schema *s, const sl_schema_conj *c, sl_gram_regex *re)
{
    static const char *const keys[] = {"pattern", "format"};
    const sl_json *found = NULL;
    for (uint32_t i = 0; i < 2 * c->n; i++) {
        const char *key = keys[i & 1];
        const sl_json *part = c->part[i / 2], *v = sl_json_get(part, key);
        if (!v) continue;
        if (!sl_json_is_string(v)) sl_schema_fail(s, SL_ERR_FORMAT, part, key, "must be a string");
        if (found) sl_schema_fail(s, SL_ERR_UNSUPPORTED, part, key, "is not supported beside another pattern or format");
        if (s->b->rc != SL_OK) return false;
        found = v;
        re->text = sl_json_string(v, &re->n_bytes);
        if (i & 1) re->text = format_pattern(s, part, re->text), re->n_bytes = re->text ? strlen(re->text) : 0;
    }
    return found && s->b->rc == SL_OK;
}

void sl_schema_draw_string(sl_schema *s, const sl_schema_conj *c, uint32_t from, uint32_t to)
{
    sl_gram_builder *b = s->b;
    sl_gram_regex re = {.json = true, .search = true, .max = UINT32_MAX};
    sl_schema_count(s, c, "minLength", false, &re.min);
    sl_schema_count(s, c, "maxLength", true, &re.max);
    bool pattern = find_pattern(s, c, &re);
    if (b->rc != SL_OK || re.min > re.max) return;
    if (!pattern && !re.min && re.max == UINT32_MAX) {
        sl_gb_call(b, from, sl_json_rule_get(&s->j, SL_JSON_TEXT), to);
        return;
    }
    uint32_t body = sl_gb_literal(b, from, "\"", 1), end;
    if (pattern) {
        end = sl_gram_draw_regex(b, body, &re);
    } else {
        sl_gram_part any = sl_gb_part_begin(b);
        uint32_t out = sl_gb_state(b);
        sl_gb_chars(b, any.in, sl_gb_set_of_range(b, 0, 0x10FFFF), true, out);
        sl_gb_part_end(b, &any, out);
        end = sl_gb_repeat(b, body, &any, re.min, re.max);
    }
    sl_gb_bytes(b, end, '"', '"', to);
}

/* ---- bounds of numbers ---- */

/* A bound of one part tightens the range. */
static void tighten(sl_number_range *r, bool low, bool open, double v)
{
    bool *has = low ? &r->has_low : &r->has_high, *is_open = low ? &r->low_open : &r->high_open;
    double *bound = low ? &r->low : &r->high;
    bool tighter = !*has || (low ? v > *bound : v < *bound) || (v == *bound && open);
    if (!tighter) return;
    *has = true;
    *bound = v;
    *is_open = open;
}

static void read_bounds(sl_schema *s, const sl_json *part, sl_number_range *r)
{
    static const char *const keys[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    for (unsigned i = 0; i < 4; i++) {
        const sl_json *v = sl_json_get(part, keys[i]);
        double d;
        if (!v) continue;
        if (!sl_json_number(v, &d))
            sl_schema_fail(s, SL_ERR_FORMAT, part, keys[i], "must be a number");
        else
            tighten(r, !(i & 1), i >= 2, d);
    }
}

/* multipleOf: whole numbers up to 1000, or one unit of a decimal place. */
static void read_multiple(sl_schema *s, const sl_json *part, sl_number_range *r)
{
    const sl_json *v = sl_json_get(part, "multipleOf");
    double d, unit = 1;
    if (!v) return;
    if (!sl_json_number(v, &d) || d <= 0) {
        sl_schema_fail(s, SL_ERR_FORMAT, part, "multipleOf", "must be a number above 0");
        return;
    }
    for (uint32_t k = 1; d < 1 && k <= 15; k++) {
        unit = pow(10, -(double)k);
        if (fabs(unit - d) > unit * 1e-9) continue;
        if (k < r->n_fraction) r->n_fraction = k;
        return;
    }
    if (d > 1000 || d != floor(d) || (r->multiple != 1 && r->multiple != (uint32_t)d)) {
        sl_schema_fail(s, SL_ERR_UNSUPPORTED, part, "multipleOf", "is supported for one whole number up to 1000, or 0.1, 0.01 and so on");
        return;
    }
    r->multiple = (uint32_t)d;
    r->integer = true;
}

void sl_schema_draw_number(sl_schema *s, const sl_schema_conj *c, bool integer, uint32_t from, uint32_t to)
{
    sl_number_range r = {.integer = integer, .multiple = 1, .n_fraction = 15};
    for (uint32_t i = 0; i < c->n; i++) {
        read_bounds(s, c->part[i], &r);
        read_multiple(s, c->part[i], &r);
    }
    if (s->b->rc != SL_OK) return;
    bool plain = !r.has_low && !r.has_high && r.multiple == 1 && (r.n_fraction == 15 || r.integer);
    if (plain)
        sl_gb_call(s->b, from, sl_json_rule_get(&s->j, r.integer ? SL_JSON_INTEGER : SL_JSON_REAL), to);
    else
        sl_gram_draw_number(s->b, &r, from, to);
}
