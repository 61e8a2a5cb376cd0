/* From a tensor directory to a model: which family, which tensors play which role, what a unit holds.
 * Every tensor of the file must have a role: a tensor that a family doesn't know would be silently wrong output. */
#include "model/family.h"
#include "model/tensors.h"

#include <stdio.h>
#include <string.h>

/* ---- which family ---- */

static bool listed(const char *const *names, const char *p, size_t n)
{
    for (; *names; names++)
        if (strlen(*names) == n && memcmp(*names, p, n) == 0) return true;
    return false;
}

const sl_family *sl_model_family_of(const sl_store *store, const char **arch, size_t *arch_bytes)
{
    bool gguf = sl_store_get_format(store) == SL_STORE_GGUF;
    const char *p = NULL;
    size_t n = 0;
    if (gguf)
        sl_store_meta_string(store, "general.architecture", &p, &n, NULL);
    else
        p = sl_json_string(sl_json_get(sl_store_config(store), "model_type"), &n);
    *arch = p;
    *arch_bytes = n;
    for (size_t i = 0; p && sl_family_at(i); i++)
        if (listed(gguf ? sl_family_at(i)->gguf_arch : sl_family_at(i)->hf_type, p, n)) return sl_family_at(i);
    return NULL;
}

static sl_status find_family(sl_model *m, const sl_store *store, sl_err *err)
{
    const char *p;
    size_t n;
    sl_buf known;
    m->family = sl_model_family_of(store, &p, &n);
    if (m->family) return SL_OK;
    if (!p)
        return sl_fail(err, SL_ERR_FORMAT, "%s: %s is missing, so the architecture is not known", sl_store_path(store),
                       sl_store_get_format(store) == SL_STORE_GGUF ? "general.architecture" : "model_type of config.json");
    sl_buf_init(&known, 1024);
    for (size_t i = 0; sl_family_at(i); i++) sl_buf_printf(&known, "%s%s", i ? ", " : "", sl_family_at(i)->name);
    sl_fail(err, SL_ERR_UNSUPPORTED, "%s: architecture '%.*s' is not supported; supported: %s", sl_store_path(store), (int)n,
            p, known.data ? known.data : "");
    sl_buf_free(&known);
    return SL_ERR_UNSUPPORTED;
}

/* ---- settings ---- */

static sl_status check_activation(const sl_model *m, const sl_settings *s, sl_err *err)
{
    size_t n = 0;
    const char *act = sl_json_string(sl_json_get(s->json, "hidden_activation"), &n);
    if (!act) act = sl_json_string(sl_json_get(s->json, "hidden_act"), &n);
    if (!act) return SL_OK;
    const char *want = m->c.act == SL_ACT_SILU ? "silu" : "gelu_pytorch_tanh";
    if (n == strlen(want) && memcmp(act, want, n) == 0) return SL_OK;
    return sl_fail(err, SL_ERR_UNSUPPORTED, "%s: activation '%.*s' is not supported for family %s (it uses %s)",
                   sl_store_path(s->store), (int)n, act, m->family->name, want);
}

static sl_status read_settings(sl_model *m, const sl_store *store, sl_err *err)
{
    char arch[64] = "";
    const char *p;
    size_t n;
    sl_err first = {0};
    sl_model_family_of(store, &p, &n);
    snprintf(arch, sizeof arch, "%.*s", (int)n, p);
    sl_settings s = {.store = store, .arch = arch, .err = &first, .json_top = sl_store_config(store)};
    s.json = sl_json_get(s.json_top, "text_config");
    if (!s.json) s.json = s.json_top;
    s.latent = m->family->latent;
    sl_config_common(&m->c, &s);
    if (!first.code && m->family->configure) m->family->configure(&m->c, &s);
    if (first.code) return sl_fail(err, first.code, "%s", first.msg);
    return check_activation(m, &s, err);
}

/* ---- units ---- */

static uint64_t bytes_of(const sl_unit_rows *r)
{
    uint64_t row = 0;
    sl_type_row_bytes(r->tensor->type, r->n_in, &row);
    return row * r->n_row;
}

static uint32_t layer_rows(const sl_model *m, uint32_t layer)
{
    uint32_t n = (uint32_t)__builtin_popcount(m->roles[layer]);
    return n + (m->experts ? sl_expert_unit_count(&m->experts[layer]) : 0);
}

/* Blocks of the head are about as large as a layer, so that one window size serves both. */
static uint32_t head_block_rows(const sl_model *m)
{
    uint64_t largest = 1;
    for (uint32_t i = 0; i < m->c.n_layer; i++) {
        uint64_t sum = 0; /* without experts, which don't pass through windows */
        for (int k = 0; k < __builtin_popcount(m->roles[i]); k++) sum += bytes_of(&m->units[i].rows[k]);
        largest = sl_max_u64(largest, sum);
    }
    uint64_t n_block = (m->head->size_bytes + largest - 1) / largest;
    uint64_t rows = (m->c.n_vocab + n_block - 1) / n_block;
    return (uint32_t)sl_min_u64(sl_round_up(rows, 16), m->c.n_vocab);
}

/* The matrices that the layer has, in the order of their roles, then its experts. */
static void fill_layer(sl_model *m, uint32_t layer, sl_unit_rows *r)
{
    const sl_unit_rows *w = m->map->w + (size_t)layer * SL_W_COUNT;
    m->units[layer] = (sl_unit){r, layer_rows(m, layer)};
    if (m->units[layer].n_rows > m->max_unit_rows) m->max_unit_rows = m->units[layer].n_rows;
    for (uint32_t k = 0; k < SL_W_COUNT; k++)
        if (w[k].tensor) *r++ = w[k];
    uint32_t n = m->experts ? sl_expert_unit_count(&m->experts[layer]) : 0;
    for (uint32_t k = 0; k < n; k++) *r++ = sl_expert_unit_rows(&m->experts[layer], k);
}

static sl_status no_units(sl_err *err)
{
    return sl_fail(err, SL_ERR_NOMEM, "no memory for the list of layers");
}

static sl_status make_head_units(sl_model *m, sl_err *err)
{
    uint32_t block_rows = head_block_rows(m);
    m->n_head_block = (m->c.n_vocab + block_rows - 1) / block_rows;
    m->n_unit = m->c.n_layer + m->n_head_block;
    sl_unit *units = sl_realloc(m->units, m->n_unit * sizeof *units);
    if (!units) return no_units(err);
    m->units = units;
    m->head_rows = sl_calloc(m->n_head_block, sizeof *m->head_rows);
    if (!m->head_rows) return no_units(err);
    for (uint32_t b = 0; b < m->n_head_block; b++) {
        uint32_t first = b * block_rows;
        m->units[m->c.n_layer + b] = (sl_unit){&m->head_rows[b], 1};
        m->head_rows[b] =
            (sl_unit_rows){m->head, m->c.n_embd, first, (uint32_t)sl_min_u64(block_rows, m->c.n_vocab - first)};
    }
    return SL_OK;
}

static sl_status make_units(sl_model *m, sl_err *err)
{
    size_t n = 0;
    for (uint32_t i = 0; i < m->c.n_layer; i++) n += layer_rows(m, i);
    m->units = sl_calloc(m->c.n_layer, sizeof *m->units);
    m->rows = sl_calloc(n, sizeof *m->rows);
    if (!m->units || !m->rows) return no_units(err);
    sl_unit_rows *r = m->rows;
    for (uint32_t i = 0; i < m->c.n_layer; r += m->units[i++].n_rows) fill_layer(m, i, r);
    return make_head_units(m, err);
}

void sl_model_leave_experts_out(sl_model *m)
{
    for (uint32_t i = 0; i < m->c.n_layer; i++) m->units[i].n_rows = (uint32_t)__builtin_popcount(m->roles[i]);
}

/* ---- always-resident vectors ---- */

/* Addresses of every vector; runs twice, first to measure. */
static void always_layout(sl_model *m, const sl_tensor_map *map, sl_arena *a)
{
    const sl_model_config *c = &m->c;
    for (uint32_t i = 0; i < c->n_layer; i++)
        for (int k = 0; k < SL_V_COUNT; k++) {
            const sl_tensor *t = map->v[i * SL_V_COUNT + (uint32_t)k];
            m->v[i][k] = t ? sl_arena_take(a, sl_tensor_map_length(map, t, (uint32_t)k), sizeof(float), 64) : NULL;
        }
    m->final_norm = sl_arena_take(a, c->n_embd, sizeof(float), 64);
    m->rope.inv_freq = sl_arena_take(a, c->n_rot / 2, sizeof(float), 64);
    m->rope_local.inv_freq = sl_arena_take(a, c->n_rot / 2, sizeof(float), 64);
}

sl_status sl_model_open(sl_model **out, const sl_store *store, const sl_log *log, sl_err *err)
{
    sl_status rc;
    sl_model *m = sl_calloc(1, sizeof *m);
    if (!m) return sl_fail(err, SL_ERR_NOMEM, "no memory for a model");
    if ((rc = find_family(m, store, err)) != SL_OK) goto fail;
    if ((rc = read_settings(m, store, err)) != SL_OK) goto fail;
    m->map = sl_calloc(1, sizeof *m->map);
    if (!m->map) {
        rc = sl_fail(err, SL_ERR_NOMEM, "no memory for a model");
        goto fail;
    }
    if ((rc = sl_tensor_map_build(m->map, m, store, log, err)) != SL_OK) goto fail;
    if ((rc = make_units(m, err)) != SL_OK) goto fail;
    sl_arena measure = {.cap = SIZE_MAX};
    always_layout(m, m->map, &measure);
    m->always_bytes = measure.used + 64;
    *out = m;
    return SL_OK;
fail:
    sl_model_close(m);
    return rc;
}

/* Reads a small tensor through staging memory that is aligned for direct reads. */
static sl_status read_vector(sl_model *m, sl_io *io, const sl_tensor *t, float *dst, uint8_t *staging, sl_err *err)
{
    uint64_t from = sl_round_down(t->offset_bytes, io->align);
    uint64_t skip = t->offset_bytes - from, need = skip + t->size_bytes;
    sl_status rc = sl_io_read_now(io, t->file, from, staging, sl_round_up(need, io->align), need, err);
    if (rc != SL_OK) return rc;
    uint64_t n = sl_tensor_elems(t);
    t->type->dequantise(staging + skip, dst, n);
    bool norm = strstr(t->name, "norm") != NULL;
    for (uint64_t i = 0; norm && m->c.norm_plus_one && i < n; i++) dst[i] += 1.0f;
    return SL_OK;
}

/* Every second element of a vector, from element half - 1 on. */
static sl_status read_half(sl_model *m, sl_io *io, const sl_tensor *t, uint32_t half, float *dst, uint8_t *staging, sl_err *err)
{
    uint64_t n = sl_tensor_elems(t);
    float *all = sl_calloc(n, sizeof *all);
    if (!all) return sl_fail(err, SL_ERR_NOMEM, "no memory for tensor %s", t->name);
    sl_status rc = read_vector(m, io, t, all, staging, err);
    for (uint64_t i = 0; i < n / 2; i++) dst[i] = all[2 * i + half - 1];
    sl_free(all);
    return rc;
}

static sl_status read_rope_tables(sl_model *m, sl_io *io, float *divisors, uint8_t *staging, sl_err *err)
{
    const sl_tensor *d = m->c.rope.divisors;
    sl_status rc = d ? read_vector(m, io, d, divisors, staging, err) : SL_OK;
    if (rc != SL_OK) return rc;
    for (uint32_t i = 0; d && i < m->c.n_rot / 2; i++)
        if (!(divisors[i] > 0))
            return sl_fail(err, SL_ERR_FORMAT, "%s: value %u is %g, not above 0", d->name, i, (double)divisors[i]);
    sl_rope_table(&m->c.rope, m->c.n_rot, d ? divisors : NULL, (float *)m->rope.inv_freq, &m->rope.mscale);
    sl_rope_table(m->c.has_rope_local ? &m->c.rope_local : &m->c.rope, m->c.n_rot, NULL, (float *)m->rope_local.inv_freq,
                  &m->rope_local.mscale);
    m->rope.n_rot = m->rope_local.n_rot = m->c.n_rot;
    m->rope.interleaved = m->rope_local.interleaved = m->c.rope_interleaved;
    return SL_OK;
}

static sl_status read_vectors(sl_model *m, sl_io *io, uint8_t *staging, sl_err *err)
{
    sl_status rc = read_vector(m, io, m->map->final_norm, (float *)m->final_norm, staging, err);
    for (uint32_t i = 0; rc == SL_OK && i < m->c.n_layer; i++)
        for (int k = 0; rc == SL_OK && k < SL_V_COUNT; k++) {
            const sl_tensor *t = m->map->v[i * SL_V_COUNT + (uint32_t)k];
            uint32_t half = m->map->half[k];
            if (t) rc = half ? read_half(m, io, t, half, (float *)m->v[i][k], staging, err)
                             : read_vector(m, io, t, (float *)m->v[i][k], staging, err);
        }
    return rc;
}

sl_status sl_model_load_always(sl_model *m, sl_io *io, sl_ledger *ledger, sl_err *err)
{
    sl_block staging = {0};
    float divisors[SL_MAX_HEAD_DIM / 2];
    sl_status rc = sl_block_open(&m->always, ledger, SL_MEM_ALWAYS, m->always_bytes, 0, "norms and biases", err);
    if (rc != SL_OK) return rc;
    sl_arena carve = {.base = m->always.ptr, .cap = m->always.bytes};
    always_layout(m, m->map, &carve);
    uint64_t largest = sl_max_u64(m->map->largest_vector_bytes, sizeof divisors) + 2 * io->align;
    rc = sl_block_open(&staging, NULL, SL_MEM_SCRATCH, sl_round_up(largest, io->align), 0, "staging", err);
    if (rc == SL_OK) rc = read_vectors(m, io, staging.ptr, err);
    if (rc == SL_OK) rc = read_rope_tables(m, io, divisors, staging.ptr, err);
    sl_block_close(&staging);
    return rc;
}

void sl_model_close(sl_model *m)
{
    if (!m) return;
    sl_block_close(&m->always);
    if (m->map) sl_tensor_map_free(m->map);
    sl_free(m->map);
    sl_free(m->units);
    sl_free(m->rows);
    sl_free(m->head_rows);
    sl_free(m->roles);
    sl_free(m->experts);
    sl_free(m);
}

uint64_t sl_model_kv_row_elems(const sl_model *m)
{
    return m->c.latent.kv_rank ? sl_model_attn_dim(m) : (uint64_t)m->c.n_head_kv * m->c.head_dim;
}

uint32_t sl_model_kv_areas(const sl_model *m)
{
    return m->c.latent.kv_rank ? 1 : 2;
}

uint32_t sl_model_attn_dim(const sl_model *m)
{
    return m->c.latent.kv_rank ? m->c.latent.kv_rank + m->c.latent.n_rope : m->c.head_dim;
}

uint32_t sl_model_widest(const sl_model *m)
{
    const sl_model_config *c = &m->c;
    const uint32_t widths[] = {c->n_embd, c->n_ff, c->n_head * c->head_dim, c->moe.n_ff, c->moe.n_ff_shared,
                               c->n_head * c->latent.n_v, c->latent.q_rank, c->latent.kv_rank};
    uint32_t widest = 0;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        if (widths[i] > widest) widest = widths[i];
    return widest;
}
