/* Dicts: entries in the order of insertion; beyond a few, a table of slots beside them. */
#include "text/template/template_int.h"

enum { SMALL = 8 };

sl_tpl_dict *sl_tpl_dict_new(sl_tpl_run *r)
{
    return sl_tpl_take(&r->heap, sizeof(sl_tpl_dict));
}

static void put_slot(sl_tpl_dict *d, size_t i)
{
    size_t s = d->at[i].hash & (d->n_slot - 1);
    while (d->slots[s])
        s = (s + 1) & (d->n_slot - 1);
    d->slots[s] = (uint32_t)i + 1;
}

static void rebuild(sl_tpl_run *r, sl_tpl_dict *d)
{
    size_t n = 32;
    while (n < d->cap * 2)
        n *= 2;
    if (n != d->n_slot)
        d->slots = sl_tpl_take(&r->heap, n * sizeof *d->slots);
    else
        memset(d->slots, 0, n * sizeof *d->slots);
    d->n_slot = n;
    for (size_t i = 0; i < d->n; i++)
        put_slot(d, i);
}

/* Index of a key; SIZE_MAX: absent. */
static size_t find(sl_tpl_run *r, const sl_tpl_dict *d, sl_tpl_value key, uint64_t hash)
{
    if (!d->slots) {
        for (size_t i = 0; i < d->n; i++)
            if (d->at[i].hash == hash && sl_tpl_equal(r, d->at[i].key, key)) return i;
        return SIZE_MAX;
    }
    for (size_t s = hash & (d->n_slot - 1); d->slots[s]; s = (s + 1) & (d->n_slot - 1)) {
        size_t i = d->slots[s] - 1;
        sl_tpl_tick(r, 1); /* keys made to collide cost time, and that is bounded */
        if (d->at[i].hash == hash && sl_tpl_equal(r, d->at[i].key, key)) return i;
    }
    return SIZE_MAX;
}

sl_tpl_value *sl_tpl_dict_get(sl_tpl_run *r, const sl_tpl_dict *d, sl_tpl_value key)
{
    size_t i = find(r, d, key, sl_tpl_hash(r, key));
    return i == SIZE_MAX ? NULL : &d->at[i].value;
}

sl_tpl_value *sl_tpl_dict_find(sl_tpl_run *r, const sl_tpl_dict *d, const char *key)
{
    sl_tpl_str s = {.p = key, .n = strlen(key)};
    return sl_tpl_dict_get(r, d, sl_tpl_of_str(&s));
}

void sl_tpl_dict_set(sl_tpl_run *r, sl_tpl_dict *d, sl_tpl_value key, sl_tpl_value value)
{
    uint64_t hash = sl_tpl_hash(r, key);
    size_t i = find(r, d, key, hash);
    if (i != SIZE_MAX) {
        d->at[i].value = value;
        return;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 4;
        if (cap > UINT32_MAX / 4) sl_tpl_fail(&r->heap, SL_ERR_LIMIT, "a dict is too large");
        sl_tpl_entry *at = sl_tpl_take(&r->heap, cap * sizeof *at);
        if (d->n) memcpy(at, d->at, d->n * sizeof *at);
        d->at = at;
        d->cap = cap;
        if (cap > SMALL) rebuild(r, d);
    }
    d->at[d->n] = (sl_tpl_entry){key, value, hash};
    if (d->slots) put_slot(d, d->n);
    d->n++;
}

void sl_tpl_dict_put(sl_tpl_run *r, sl_tpl_dict *d, const char *key, sl_tpl_value value)
{
    sl_tpl_dict_set(r, d, sl_tpl_text_value(r, key), value);
}

bool sl_tpl_dict_remove(sl_tpl_run *r, sl_tpl_dict *d, sl_tpl_value key)
{
    size_t i = find(r, d, key, sl_tpl_hash(r, key));
    if (i == SIZE_MAX) return false;
    sl_tpl_tick(r, d->n);
    memmove(&d->at[i], &d->at[i + 1], (d->n - i - 1) * sizeof *d->at);
    d->n--;
    if (d->slots) rebuild(r, d);
    return true;
}
