/* Chat templates: the part of Jinja that real ones use, with Python's rules.  A template is compiled once (syntax
 * tree, names resolved to slots) and rendered any number of times; rendering never changes it, so several threads may
 * render one at once.
 *
 * Left out by design: files, imports, inheritance, attribute access into anything but the values below.  Templates are
 * hostile until proven otherwise: steps, depth, memory, output and time are bounded.
 *
 * Read in this order: template_int.h, lexer.c, parser.c, names.c, value.c, eval.c, exec.c. */
#ifndef SL_TEXT_TEMPLATE_H
#define SL_TEXT_TEMPLATE_H

#include "text/text.h"

enum {
    SL_TPL_MAX_BYTES = 1 << 18,        /* of a template; the largest known has 17 KB */
    SL_TPL_MAX_OUTPUT = 64 << 20,      /* bytes */
    SL_TPL_MAX_STEPS = 100000000,      /* evaluated nodes and the like */
    SL_TPL_MAX_DEPTH = 1500,           /* nested evaluations, macro calls, values in values */
    SL_TPL_MAX_MS = 1000,              /* of one rendering, in processor time */
};

typedef struct sl_tpl sl_tpl;
typedef struct sl_tpl_run sl_tpl_run;
typedef struct sl_tpl_dict sl_tpl_dict;

/* name: for messages.  text: UTF-8, borrowed for the call.
 * errors  FORMAT (syntax) and UNSUPPORTED (a tag, filter or test that this engine lacks), both with the line; LIMIT */
sl_status sl_tpl_compile(sl_tpl **out, const char *name, const char *text, size_t n_bytes, sl_err *err);
void sl_tpl_close(sl_tpl *t);
/* Does the template read this variable anywhere?  Or write this attribute or key in a literal way (x.key, x['key'])? */
bool sl_tpl_mentions(const sl_tpl *t, const char *word);

/* What a rendering gave.  plain: the stretches that came from the variables and not from the template. */
typedef struct {
    char *text; /* NUL-terminated */
    size_t n_bytes;
    sl_text_span *plain;
    size_t n_plain;
} sl_tpl_output;
void sl_tpl_output_free(sl_tpl_output *o);

/* Puts the variables into vars, with the functions of template_int.h (which leave by a jump when they fail: hold
 * nothing that must be freed). */
typedef void (*sl_tpl_setup)(sl_tpl_run *r, sl_tpl_dict *vars, void *user);
typedef struct {
    int64_t now_s;      /* what strftime_now shows, seconds since 1970 */
    size_t input_bytes; /* how large the variables are, for the bound of memory */
    uint32_t max_ms;    /* of this rendering; 0: SL_TPL_MAX_MS */
} sl_tpl_terms;
/* errors  ARG when the template raises, with its message alone; FORMAT for every other mistake of a template with these
 *         variables, with the line; LIMIT; NOMEM */
sl_status sl_tpl_render(const sl_tpl *t, sl_tpl_setup setup, void *user, const sl_tpl_terms *terms, sl_tpl_output *out,
                        sl_err *err);

#endif
