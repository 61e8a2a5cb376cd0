/* What the flags say the answer must be; refused before any weight is read. */
#include "cli/constrain.h"

#include <stdlib.h>
#include <string.h>

static cli_exit from_text(cli_constraint *c, sl_grammar_kind kind, const char *text)
{
    c->opt.kind = kind;
    c->opt.text = text;
    c->opt.text_bytes = text ? strlen(text) : 0;
    return CLI_DONE;
}

static cli_exit from_file(cli_constraint *c, sl_grammar_kind kind, const char *path)
{
    cli_exit code = cli_read_file(path, &c->file, &c->opt.text_bytes);
    c->opt.kind = kind;
    c->opt.text = c->file;
    return code;
}

/* A schema is an object: no file's name begins with a brace in earnest. */
static bool is_schema_text(const char *s)
{
    return s[strspn(s, " \t\r\n")] == '{';
}

static cli_exit read_one(cli_constraint *c, const cli_options *o)
{
    if (o->json) return from_text(c, SL_GRAMMAR_JSON, NULL);
    if (o->regex) return from_text(c, SL_GRAMMAR_REGEX, o->regex);
    if (o->grammar) return from_file(c, SL_GRAMMAR_GBNF, o->grammar);
    if (is_schema_text(o->json_schema)) return from_text(c, SL_GRAMMAR_SCHEMA, o->json_schema);
    return from_file(c, SL_GRAMMAR_SCHEMA, o->json_schema);
}

cli_exit cli_constraint_read(cli_constraint *c, const cli_options *o)
{
    sl_err err = {0};
    int n = o->json + !!o->json_schema + !!o->grammar + !!o->regex;
    sl_grammar_options_init(&c->opt);
    if (!n) return CLI_DONE;
    if (n > 1) {
        cli_error("--json, --json-schema, --grammar and --regex: at most one of them can say what the text is");
        return CLI_USAGE;
    }
    if (o->ignore_eos) {
        cli_error("--ignore-eos: a text that must be complete at its end cannot go on after it");
        return CLI_USAGE;
    }
    c->wanted = true;
    cli_exit code = read_one(c, o);
    if (code == CLI_DONE && sl_grammar_check(&c->opt, &err) != SL_OK) code = cli_fail(&err);
    return code;
}

void cli_constraint_free(cli_constraint *c)
{
    free(c->file);
}
