/* Grammars of an engine: the tree of its vocabulary, made with the first grammar, and what both hold, in the ledger. */
#include "engine/engine_int.h"

#include <string.h>

#define COMPILE_MOST  (8ull << 20)
#define COMPILE_LEAST (1ull << 19)
#define COMPILE_PLAN  (4ull << 20) /* kept free for compiling one grammar; most take a tenth */
#define FROZEN_PLAN   (1ull << 19) /* ... and for each that is in use */
#define GUIDE_EXTRA   (1ull << 20) /* beyond the least, so that what is known of a grammar is seldom dropped */

void sl_grammar_options_init(sl_grammar_options *opt)
{
    *opt = (sl_grammar_options){.struct_size = sizeof *opt};
}

void sl_tool_grammar_options_init(sl_tool_grammar_options *opt)
{
    *opt = (sl_tool_grammar_options){.struct_size = sizeof *opt};
}

uint64_t sl_grammar_reserve_bytes(const sl_parts *p, uint32_t n)
{
    if (!n || !p->tok) return 0;
    uint64_t guide = sl_guide_least_bytes(p->model->c.n_vocab) + GUIDE_EXTRA + FROZEN_PLAN;
    return sl_token_trie_bound_bytes(p->tok) + COMPILE_PLAN + n * (guide + FROZEN_PLAN);
}

/* ---- the vocabulary ---- */

static sl_status need_trie(sl_engine *e, sl_err *err)
{
    if (e->trie) return SL_OK;
    if (!e->parts.tok) return sl_fail(err, SL_ERR_UNSUPPORTED, "constrained output needs a tokenizer, this model has none");
    uint64_t bound = sl_token_trie_bound_bytes(e->parts.tok);
    sl_status rc = sl_ledger_take(&e->ledger, SL_MEM_GRAMMAR, bound, err);
    if (rc != SL_OK) return rc;
    rc = sl_token_trie_open(&e->trie, e->parts.tok, err);
    e->trie_bytes = rc == SL_OK ? sl_token_trie_bytes(e->trie) : 0;
    sl_ledger_give(&e->ledger, SL_MEM_GRAMMAR, bound - e->trie_bytes);
    return rc;
}

/* ---- grammars ---- */

typedef sl_status (*compile_fn)(sl_gram **out, const void *opt, uint64_t max_bytes, sl_err *err);

static sl_status compile_plain(sl_gram **out, const void *opt, uint64_t max_bytes, sl_err *err)
{
    const sl_grammar_options *o = opt;
    sl_gram_options g = {.kind = o->kind,
                         .text = o->text,
                         .text_bytes = o->text_bytes,
                         .trigger = o->trigger,
                         .trigger_required = o->trigger_required,
                         .max_bytes = max_bytes};
    return sl_gram_open(out, &g, err);
}

static sl_status compile_tools(sl_gram **out, const void *opt, uint64_t max_bytes, sl_err *err)
{
    return sl_gram_open_tools(out, opt, max_bytes, err);
}

/* Compiles within what the budget has left, and keeps in the ledger what the result holds. */
static sl_status compile(sl_grammar *g, compile_fn fn, const void *opt, sl_err *err)
{
    sl_ledger *l = &g->e->ledger;
    uint64_t most = COMPILE_MOST;
    while (most > COMPILE_LEAST && sl_ledger_take(l, SL_MEM_GRAMMAR, most, NULL) != SL_OK)
        most /= 2;
    sl_status rc = most > COMPILE_LEAST ? SL_OK : sl_ledger_take(l, SL_MEM_GRAMMAR, most, err);
    if (rc != SL_OK) return rc;
    rc = fn(&g->gram, opt, most, err);
    g->bytes = rc == SL_OK ? sl_min_u64(sl_gram_bytes(g->gram), most) : 0;
    sl_ledger_give(l, SL_MEM_GRAMMAR, most - g->bytes);
    return rc;
}

static sl_status open_any(sl_grammar **out, sl_engine *e, compile_fn fn, const void *opt, const int32_t *control,
                          size_t n_control, sl_err *err)
{
    if (n_control > SL_GUIDE_MAX_CONTROL)
        return sl_fail(err, SL_ERR_ARG, "%zu control tokens for a grammar, the limit is %d", n_control, SL_GUIDE_MAX_CONTROL);
    sl_status rc = need_trie(e, err);
    if (rc != SL_OK) return rc;
    sl_grammar *g = sl_calloc(1, sizeof *g);
    if (!g) return sl_fail(err, SL_ERR_NOMEM, "no memory for a grammar");
    g->e = e;
    g->n_control = n_control;
    if (n_control) memcpy(g->control, control, n_control * sizeof *control);
    rc = compile(g, fn, opt, err);
    if (rc != SL_OK) {
        sl_grammar_close(g);
        return rc;
    }
    *out = g;
    return SL_OK;
}

static sl_status check_options(const sl_grammar_options *o, sl_err *err)
{
    if (o->struct_size != sizeof *o)
        return sl_fail(err, SL_ERR_ARG, "grammar options of %zu bytes, this library has %zu", o->struct_size, sizeof *o);
    if (o->kind != SL_GRAMMAR_JSON && !o->text) return sl_fail(err, SL_ERR_ARG, "a grammar without a text");
    return SL_OK;
}

sl_status sl_grammar_open(sl_grammar **out, sl_engine *e, const sl_grammar_options *o, sl_err *err)
{
    sl_status rc = check_options(o, err);
    return rc == SL_OK ? open_any(out, e, compile_plain, o, o->control, o->n_control, err) : rc;
}

sl_status sl_grammar_check(const sl_grammar_options *o, sl_err *err)
{
    sl_gram *g = NULL;
    sl_status rc = check_options(o, err);
    if (rc == SL_OK) rc = compile_plain(&g, o, COMPILE_MOST, err);
    sl_gram_close(g);
    return rc;
}

sl_status sl_grammar_open_tools(sl_grammar **out, sl_engine *e, const sl_tool_grammar_options *o, sl_err *err)
{
    if (o->struct_size != sizeof *o)
        return sl_fail(err, SL_ERR_ARG, "tool options of %zu bytes, this library has %zu", o->struct_size, sizeof *o);
    return open_any(out, e, compile_tools, o, o->control, o->n_control, err);
}

void sl_grammar_close(sl_grammar *g)
{
    if (!g) return;
    sl_gram_close(g->gram);
    sl_ledger_give(&g->e->ledger, SL_MEM_GRAMMAR, g->bytes);
    sl_free(g);
}

/* ---- guides ---- */

sl_status sl_grammar_guide(sl_grammar *g, uint32_t n_vocab, sl_guide **out, uint64_t *bytes, sl_err *err)
{
    uint64_t most = sl_guide_least_bytes(n_vocab) + GUIDE_EXTRA + sl_gram_bytes(g->gram);
    sl_status rc = sl_ledger_take(&g->e->ledger, SL_MEM_GRAMMAR, most, err);
    if (rc != SL_OK) return rc;
    rc = sl_guide_open(out, g->gram, g->e->trie, n_vocab, g->control, g->n_control, most, err);
    *bytes = rc == SL_OK ? most : 0;
    if (rc != SL_OK) sl_ledger_give(&g->e->ledger, SL_MEM_GRAMMAR, most);
    return rc;
}

void sl_grammar_guide_close(sl_grammar *g, sl_guide *guide, uint64_t bytes)
{
    if (!guide) return;
    sl_guide_close(guide);
    sl_ledger_give(&g->e->ledger, SL_MEM_GRAMMAR, bytes);
}
