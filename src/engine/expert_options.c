/* Options of the cache of experts from one line of text: a path or a preset, then fields.  Presets and fields have Edge0's
 * names; what only steers Edge0's threads, graphs and copies has no meaning here and is refused by name. */
#include "sluice.h"

#include "base/base.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum { FIELD_U32, FIELD_BOOL, FIELD_PART } field_kind;
typedef struct {
    const char *name;
    field_kind kind;
    size_t offset;
} field;

#define AT(member) offsetof(sl_expert_options, member)
static const field fields[] = {
    {"cache_slots", FIELD_U32, AT(cache_slots)},
    {"staged_n", FIELD_U32, AT(staged_n)},
    {"hot_per_layer", FIELD_U32, AT(hot_per_layer)},
    {"hot_update_interval", FIELD_U32, AT(hot_update_interval)},
    {"hot_decay", FIELD_PART, AT(hot_decay)},
    {"prefetch_cap", FIELD_U32, AT(prefetch_cap)},
    {"prefetch_always", FIELD_BOOL, AT(prefetch_always)},
    {"full_layer_prefill", FIELD_BOOL, AT(full_layer_prefill)},
    {"prefill_full_layers", FIELD_U32, AT(prefill_full_layers)},
    {"prefill_hot", FIELD_U32, AT(prefill_hot)},
};
enum { N_FIELD = sizeof fields / sizeof fields[0], WORD_BYTES = 64 };

static const struct {
    const char *name;
    sl_expert_options opt;
} choices[] = {
    {"auto", {.path = SL_EXPERTS_AUTO}},
    {"exact", {.path = SL_EXPERTS_EXACT}},
    {"staged", {.path = SL_EXPERTS_STAGED}},
    {"hot", {.path = SL_EXPERTS_HOT}},
    {"layer", {.path = SL_EXPERTS_LAYER}},
    {"staged_k4", {.path = SL_EXPERTS_STAGED, .predict = SL_PREDICT_HISTORY, .staged_n = 4, .prefill_hot = 32}},
    {"staged_k8", {.path = SL_EXPERTS_STAGED, .predict = SL_PREDICT_HISTORY, .staged_n = 8, .full_layer_prefill = true}},
    {"prod_k8", {.path = SL_EXPERTS_STAGED, .predict = SL_PREDICT_OFF, .staged_n = 8, .full_layer_prefill = true}},
};
enum { N_CHOICE = sizeof choices / sizeof choices[0] };

static bool parse_u32(const char *text, uint32_t *out)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    unsigned long long v = strtoull(text, &end, 10);
    *out = (uint32_t)v;
    return !*end && v <= 1u << 30;
}

static bool parse_bool(const char *text, bool *out)
{
    *out = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    return *out || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

static bool parse_part(const char *text, float *out)
{
    char *end;
    *out = strtof(text, &end);
    return end != text && !*end && *out > 0 && *out <= 1;
}

static sl_status set_field(sl_expert_options *out, const char *name, const char *value, sl_err *err)
{
    static const char *const kinds[] = {"a whole number up to 2^30", "true or false", "above 0 and at most 1"};
    for (size_t i = 0; i < N_FIELD; i++) {
        const field *f = &fields[i];
        void *at = (char *)out + f->offset;
        if (strcmp(name, f->name) != 0) continue;
        bool ok = f->kind == FIELD_U32 ? parse_u32(value, at) : f->kind == FIELD_BOOL ? parse_bool(value, at) : parse_part(value, at);
        return ok ? SL_OK : sl_fail(err, SL_ERR_ARG, "experts: %s is '%s', it must be %s", name, value, kinds[f->kind]);
    }
    return sl_fail(err, SL_ERR_ARG, "experts: there is no field '%s'", name);
}

static sl_status choose(sl_expert_options *out, const char *name, sl_err *err)
{
    for (size_t i = 0; i < N_CHOICE; i++) {
        if (strcmp(name, choices[i].name) != 0) continue;
        *out = choices[i].opt;
        return SL_OK;
    }
    return sl_fail(err, SL_ERR_ARG,
                   "experts: '%s' is no path (auto, exact, staged, hot, layer), no preset (staged_k4, staged_k8, prod_k8) and "
                   "no field with a value",
                   name);
}

sl_status sl_expert_options_parse(const char *text, sl_expert_options *out, sl_err *err)
{
    sl_status rc = SL_OK;
    *out = (sl_expert_options){0};
    for (bool first = true; rc == SL_OK && (*text || first); first = false) {
        char word[WORD_BYTES];
        size_t n = strcspn(text, ",");
        if (n == 0 || n >= sizeof word || (text[n] && !text[n + 1])) return sl_fail(err, SL_ERR_ARG, "experts: an empty or overlong word at '%.20s'", text);
        memcpy(word, text, n);
        word[n] = 0;
        text += n + (text[n] == ',');
        char *equals = strchr(word, '=');
        if (equals) *equals = 0;
        if (equals)
            rc = set_field(out, word, equals + 1, err);
        else if (first)
            rc = choose(out, word, err);
        else
            rc = sl_fail(err, SL_ERR_ARG, "experts: '%s' needs a value, or to be the first word", word);
    }
    return rc;
}
