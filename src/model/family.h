/* Inside the room: what a family's file provides, and the registry of them.  docs/adding-a-model.md is the tour. */
#ifndef SL_FAMILY_H
#define SL_FAMILY_H

#include "model/model.h"

/* Where settings come from; helpers in config.c read either form. */
typedef struct {
    const sl_store *store;
    const char *arch;         /* GGUF: key prefix */
    const sl_json *json;      /* Hugging Face: the text part of config.json, else NULL */
    const sl_json *json_top;  /* its top level */
    bool latent;              /* widths of heads are the family's to read */
    sl_err *err;              /* first failure; getters do nothing after it */
} sl_settings;

struct sl_family {
    const char *name;
    const char *const *gguf_arch; /* NULL-terminated */
    const char *const *hf_type;   /* model_type values, NULL-terminated */
    /* Tensor names per role, with %u for the layer; NULL: the family has none.  GGUF then Hugging Face (without prefix). */
    const char *const *gguf_vector;
    const char *const *hf_vector;
    /* Adds what the common settings (sl_config_common) do not know. */
    void (*configure)(sl_model_config *c, const sl_settings *s);
    /* Vectors that must be there: bit mask of sl_vector_role. */
    uint32_t required;
    bool latent; /* latent attention: configure sets the widths of heads */
    void (*layer)(sl_forward *f, const sl_layer *l);
};

const sl_family *sl_family_at(size_t i); /* NULL at the end */

/* The usual names; a family may bring its own table. */
extern const char *const sl_gguf_vector_names[SL_V_COUNT];
extern const char *const sl_hf_vector_names[SL_V_COUNT];

/* ---- settings (config.c) ---- */
/* Shapes, eps, rope, ties: everything families share. */
void sl_config_common(sl_model_config *c, const sl_settings *s);
/* key: without prefix.  Absent gives dflt; a wrong kind or a value outside [lo, hi] fails s->err. */
int64_t sl_setting_int(const sl_settings *s, const char *gguf_key, const char *hf_key, int64_t dflt, int64_t lo, int64_t hi);
double sl_setting_float(const sl_settings *s, const char *gguf_key, const char *hf_key, double dflt);
bool sl_setting_bool(const sl_settings *s, const char *gguf_key, const char *hf_key, bool dflt);
bool sl_setting_has(const sl_settings *s, const char *gguf_key, const char *hf_key);
/* Qwen's rule: with use_sliding_window, layers from max_window_layers on are windowed. */
void sl_config_late_window(sl_model_config *c, const sl_settings *s);
/* Rope settings out of a Hugging Face object (rope_parameters or rope_scaling); absent members keep their values. */
void sl_rope_from_json(sl_rope_config *r, const sl_json *o, const sl_model_config *c, const sl_settings *s);

/* ---- rope tables (rope_table.c) ---- */
/* inv_freq [n_rot / 2] and m, by spec formulas of the scaling; divisors [n_rot / 2] or NULL. */
void sl_rope_table(const sl_rope_config *r, uint32_t n_rot, const float *divisors, float *inv_freq, float *mscale);

#endif
