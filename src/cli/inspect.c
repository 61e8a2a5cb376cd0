/* sluice inspect: what a model's headers say, where its bytes are, and whether this build runs it. */
#include "cli/commands.h"
#include "cli/json_out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes and tensors that share a label. */
typedef struct {
    const char *label;
    uint64_t bytes, n;
} share;

enum { MAX_TYPES = 64 };

typedef enum { EMBEDDING, ATTENTION, FFN, EXPERTS, NORM, HEAD, OTHER, N_KIND } tensor_kind;

typedef struct {
    sl_model_file *file;
    sl_model_info info;
    size_t n_tensor;
    share kinds[N_KIND];
    share types[MAX_TYPES];
    size_t n_type;
    bool supported;
    sl_err why; /* when not */
} summary;

/* "blk.3.ffn_up.7.weight": files from before stacked experts. */
static bool has_expert_number(const char *name)
{
    const char *p = strstr(name, ".ffn_");
    p = p ? strchr(p + 1, '.') : NULL;
    return p && p[1] >= '0' && p[1] <= '9';
}

/* By name, in GGUF's and in Hugging Face's way of naming; the first row that is part of the name wins. */
static tensor_kind kind_of(const char *name)
{
    static const struct {
        const char *part;
        tensor_kind kind;
    } rules[] = {
        {"norm", NORM},
        {"layernorm", NORM},
        {"token_embd", EMBEDDING},
        {"embed_tokens", EMBEDDING},
        {"lm_head", HEAD},
        {"_exps", EXPERTS},
        {".experts.", EXPERTS},
        {"moe.input_linear", EXPERTS}, /* Granite's stacks */
        {"moe.output_linear", EXPERTS},
        {"exp_probs_b", FFN},
        {"moe", FFN},
        {"attn", ATTENTION},
        {"self_attn", ATTENTION},
        {"ffn", FFN},
        {"mlp", FFN},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strstr(name, rules[i].part)) return rules[i].kind == FFN && has_expert_number(name) ? EXPERTS : rules[i].kind;
    }
    return strcmp(name, "output.weight") == 0 ? HEAD : OTHER;
}

static void count_type(summary *s, const sl_tensor_info *t)
{
    size_t i = 0;
    while (i < s->n_type && strcmp(s->types[i].label, t->type) != 0)
        i++;
    if (i == MAX_TYPES) return;
    if (i == s->n_type) s->types[s->n_type++].label = t->type;
    s->types[i].bytes += t->size_bytes;
    s->types[i].n++;
}

static void count_tensors(summary *s)
{
    static const char *const labels[N_KIND] = {"embedding", "attention", "ffn", "experts", "norm", "head", "other"};
    for (size_t k = 0; k < N_KIND; k++)
        s->kinds[k].label = labels[k];
    for (size_t i = 0; i < s->n_tensor; i++) {
        sl_tensor_info t;
        sl_model_file_tensor(s->file, i, &t);
        share *k = &s->kinds[kind_of(t.name)];
        k->bytes += t.size_bytes;
        k->n++;
        count_type(s, &t);
    }
}

/* Asks the engine, which knows every reason; with memory to spare, so that the budget is none of them. */
static void check_support(summary *s, const char *model)
{
    sl_engine_options opt;
    sl_plan plan;
    sl_engine_options_init(&opt);
    opt.memory_bytes = UINT64_C(1) << 50;
    opt.no_probe = true;
    s->supported = sl_engine_plan(model, &opt, &plan, &s->why) == SL_OK;
}

/* ---- for people ---- */

static void put_line(const char *label, const char *text)
{
    if (!text || !*text) return;
    printf("%-14s", label);
    cli_put_clean(stdout, text);
    putchar('\n');
}

static void put_number(const char *label, uint64_t v)
{
    if (v) printf("%-14s%" PRIu64 "\n", label, v);
}

static void print_model(const summary *s)
{
    const sl_model_info *m = &s->info;
    char size[24];
    put_line("format", m->format);
    put_line("name", m->name);
    put_line("architecture", m->architecture);
    put_line("family", m->family ? m->family : "none of this build");
    if (s->supported)
        puts("supported     yes");
    else
        put_line("supported", "no:"), put_line("", s->why.msg);
    put_number("parameters", m->n_param);
    printf("%-14s%s in %zu tensors, %u file%s\n", "weights", cli_size_text(m->weight_bytes, size), s->n_tensor,
           m->n_file, m->n_file == 1 ? "" : "s");
    put_number("layers", m->n_layer);
    put_number("hidden size", m->n_embd);
    put_number("feed-forward", m->n_ff);
    printf("%-14s%u heads, %u for keys and values, of %u\n", "attention", m->n_head, m->n_head_kv, m->head_dim);
    if (m->n_expert) {
        char experts[24], active[24];
        printf("%-14s%u, of which a token uses %u; %s, a token uses %s of all weights\n", "experts", m->n_expert,
               m->n_expert_used, cli_size_text(m->expert_bytes, experts), cli_size_text(m->active_bytes, active));
    }
    printf("%-14s%u tokens, %s head\n", "vocabulary", m->n_vocab, m->tied_head ? "tied" : "untied");
    put_number("context", m->ctx_train_tok);
}

static void print_shares(const char *title, const share *shares, size_t n, uint64_t total)
{
    char size[24];
    printf("\n%-14s%10s%9s%10s\n", title, "bytes", "share", "tensors");
    for (size_t i = 0; i < n; i++) {
        if (!shares[i].n) continue;
        printf("%-14s%10s%7.1f %%%10" PRIu64 "\n", shares[i].label, cli_size_text(shares[i].bytes, size),
               total ? 100.0 * (double)shares[i].bytes / (double)total : 0, shares[i].n);
    }
}

static void shape_text(const sl_tensor_info *t, char buf[96])
{
    size_t used = 0;
    buf[0] = 0;
    for (uint32_t d = 0; d < t->n_dims && d < 4; d++) {
        int n = snprintf(buf + used, 96 - used, "%s%" PRIu64, d ? " x " : "", t->dims[d]);
        if (n > 0) used += (size_t)n;
    }
}

static void print_tensors(const summary *s)
{
    puts("\ntensors");
    for (size_t i = 0; i < s->n_tensor; i++) {
        char shape[96];
        sl_tensor_info t;
        sl_model_file_tensor(s->file, i, &t);
        shape_text(&t, shape);
        printf("  %-8s%12" PRIu64 "  %-20s ", t.type, t.size_bytes, shape);
        cli_put_clean(stdout, t.name);
        puts(t.supported ? "" : "  (type not supported)");
    }
}

static void print_metadata(const summary *s)
{
    char value[200];
    size_t n = sl_model_file_meta_count(s->file);
    if (n) puts("\nmetadata");
    for (size_t i = 0; i < n; i++) {
        const char *key = sl_model_file_meta(s->file, i, value, sizeof value);
        fputs("  ", stdout);
        cli_put_clean(stdout, key);
        fputs(" = ", stdout);
        cli_put_clean(stdout, value);
        putchar('\n');
    }
}

/* ---- for programs ---- */

static void put_info(cli_json *j, const summary *s)
{
    const sl_model_info *m = &s->info;
    cli_json_string(j, "format", m->format);
    cli_json_string(j, "name", m->name);
    cli_json_string(j, "architecture", m->architecture);
    cli_json_string(j, "family", m->family);
    cli_json_bool(j, "supported", s->supported);
    cli_json_string(j, "reason", s->supported ? NULL : s->why.msg);
    cli_json_u64(j, "parameters", m->n_param);
    cli_json_u64(j, "weight_bytes", m->weight_bytes);
    cli_json_u64(j, "files", m->n_file);
    cli_json_u64(j, "n_layer", m->n_layer);
    cli_json_u64(j, "n_embd", m->n_embd);
    cli_json_u64(j, "n_ff", m->n_ff);
    cli_json_u64(j, "n_head", m->n_head);
    cli_json_u64(j, "n_head_kv", m->n_head_kv);
    cli_json_u64(j, "head_dim", m->head_dim);
    cli_json_u64(j, "n_vocab", m->n_vocab);
    cli_json_bool(j, "tied_head", m->tied_head);
    cli_json_u64(j, "n_expert", m->n_expert);
    cli_json_u64(j, "n_expert_used", m->n_expert_used);
    cli_json_u64(j, "expert_bytes", m->expert_bytes);
    cli_json_u64(j, "active_bytes", m->active_bytes);
    cli_json_u64(j, "ctx_train_tok", m->ctx_train_tok);
}

static void put_shares(cli_json *j, const char *key, const share *shares, size_t n)
{
    cli_json_object(j, key);
    for (size_t i = 0; i < n; i++) {
        if (shares[i].n) cli_json_u64(j, shares[i].label, shares[i].bytes);
    }
    cli_json_close(j);
}

static void put_tensor(cli_json *j, const sl_tensor_info *t)
{
    cli_json_object(j, NULL);
    cli_json_string(j, "name", t->name);
    cli_json_string(j, "type", t->type);
    cli_json_array(j, "shape");
    for (uint32_t d = 0; d < t->n_dims && d < 4; d++)
        cli_json_u64(j, NULL, t->dims[d]);
    cli_json_close(j);
    cli_json_u64(j, "bytes", t->size_bytes);
    cli_json_string(j, "file", t->file);
    cli_json_u64(j, "offset", t->offset_bytes);
    if (t->layer < 0)
        cli_json_null(j, "layer");
    else
        cli_json_i64(j, "layer", t->layer);
    cli_json_bool(j, "supported", t->supported);
    cli_json_close(j);
}

static void put_metadata(cli_json *j, const summary *s)
{
    char value[200];
    cli_json_object(j, "metadata");
    for (size_t i = 0; i < sl_model_file_meta_count(s->file); i++) {
        const char *key = sl_model_file_meta(s->file, i, value, sizeof value);
        cli_json_string(j, key, value);
    }
    cli_json_close(j);
}

static void print_json(const summary *s)
{
    cli_json j;
    cli_json_begin(&j, stdout, true);
    put_info(&j, s);
    put_shares(&j, "bytes_by_kind", s->kinds, N_KIND);
    put_shares(&j, "bytes_by_type", s->types, s->n_type);
    put_metadata(&j, s);
    cli_json_array(&j, "tensors");
    for (size_t i = 0; i < s->n_tensor; i++) {
        sl_tensor_info t;
        sl_model_file_tensor(s->file, i, &t);
        put_tensor(&j, &t);
    }
    cli_json_end(&j);
}

static void print_text(const summary *s)
{
    print_model(s);
    print_shares("by kind", s->kinds, N_KIND, s->info.weight_bytes);
    print_shares("by type", s->types, s->n_type, s->info.weight_bytes);
    print_metadata(s);
    print_tensors(s);
}

cli_exit cli_inspect(const cli_options *o)
{
    summary s = {0};
    if (sl_model_file_open(&s.file, o->model, &s.why) != SL_OK) return cli_fail(&s.why);
    sl_model_file_info(s.file, &s.info);
    s.n_tensor = sl_model_file_tensor_count(s.file);
    count_tensors(&s);
    check_support(&s, o->model);
    if (o->json)
        print_json(&s);
    else
        print_text(&s);
    sl_model_file_close(s.file);
    return CLI_DONE;
}
