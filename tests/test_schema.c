/* JSON Schema: what each keyword takes and refuses, how schemas are put together, masks, tool calls, hostile schemas. */
#include "gram_world.h"

#define SCHEMA(s, yes, no) check_texts(SL_GRAMMAR_SCHEMA, s, yes, no)

static void test_types(void **state)
{
    (void)state;
    SCHEMA("{\"type\": \"string\"}", LIST("\"\"", "\"a\\\"b\"", "\"\\u0041\""), LIST("a", "1", "\"a", "\"\"\""));
    SCHEMA("{\"type\": \"integer\"}", LIST("0", "-5", "123456789012345"), LIST("", "01", "1.0", "1e3", "-", "1234567890123456"));
    SCHEMA("{\"type\": \"number\"}", LIST("0", "-0.5", "1e3", "1.25E-12"), LIST("1.", ".5", "+1", "1e"));
    SCHEMA("{\"type\": \"boolean\"}", LIST("true", "false"), LIST("null", "tru", "True"));
    SCHEMA("{\"type\": \"null\"}", LIST("null"), LIST("false"));
    SCHEMA("{\"type\": [\"string\", \"null\"]}", LIST("null", "\"x\""), LIST("1", "nul"));
    SCHEMA("{}", LIST("1", "\"a\"", "[1, {}]", "{\"a\": null}", "true"), LIST("", "a"));
    SCHEMA("true", LIST("1", "[]"), LIST(""));
    SCHEMA("{\"type\": \"object\"}", LIST("{}", "{\"a\": 1}"), LIST("[]"));
    SCHEMA("{\"type\": \"array\"}", LIST("[]", "[1, \"a\"]"), LIST("{}"));
}

static void test_objects(void **state)
{
    (void)state;
    SCHEMA("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"string\"}, \"c\": {}}, \"required\": [\"b\"]}",
           LIST("{\"b\": \"x\"}", "{\"a\": 1, \"b\": \"x\"}", "{\"b\": \"\", \"c\": [1]}", "{\n  \"a\": 1,\n  \"b\": \"x\",\n  \"c\": null\n}"),
           LIST("{}", "{\"a\": 1}", "{\"b\": 1}", "{\"b\": \"x\", \"a\": 1}", "{\"b\": \"x\", \"d\": 1}", "{\"b\": \"x\",}", "{,\"b\": \"x\"}", "{\"b\": \"x\" \"c\": 1}"));
    SCHEMA("{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}", LIST("{}", "{ }"), LIST("{\"a\": 1}"));
    SCHEMA("{\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}", LIST("{}", "{\"a\": 1}", "{\"a\": 1, \"b\": 2}"), LIST("{\"a\": \"x\"}"));
    SCHEMA("{\"properties\": {\"ab\": {\"type\": \"integer\"}, \"ac\": {}, \"\": {}, \"\\u00e9\": {}}, \"additionalProperties\": {\"type\": \"string\"}}",
           LIST("{}", "{\"ab\": 1, \"abc\": \"x\"}", "{\"a\": \"x\"}", "{\"ab\": 1, \"x\": \"y\", \"z\": \"\"}", "{\"ad\": \"x\"}"),
           LIST("{\"ab\": \"x\"}", "{\"abc\": 1}", "{\"x\": \"y\", \"ab\": \"x\"}", "{\"\\u0061b\": \"x\"}", "{\"x\": \"a\", \"ac\": \"x\"}", "{\"x\": \"a\", \"\xc3\xa9\": \"x\"}"));
    SCHEMA("{\"type\": \"object\", \"properties\": {\"q\\\"\\\\\\n\": {\"const\": 1}}, \"required\": [\"q\\\"\\\\\\n\"]}", LIST("{\"q\\\"\\\\\\n\": 1}"), LIST("{\"q\": 1}"));
    SCHEMA("{\"type\": \"object\", \"required\": [\"x\"], \"additionalProperties\": {\"type\": \"null\"}}", LIST("{\"x\": null}", "{\"x\": null, \"y\": null}"), LIST("{}", "{\"y\": null}"));
    SCHEMA("{\"properties\": {\"a\": false, \"b\": {}}}", LIST("{}", "{\"b\": 1}"), LIST("{\"a\": 1}"));
}

static void test_arrays(void **state)
{
    (void)state;
    SCHEMA("{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}", LIST("[]", "[1]", "[1,2, 3]", "[\n  1,\n  2\n]"), LIST("[\"a\"]", "[1,]", "[,1]", "[1 2]"));
    SCHEMA("{\"items\": {\"type\": \"null\"}, \"minItems\": 2, \"maxItems\": 3}", LIST("[null,null]", "[null, null, null]"), LIST("[]", "[null]", "[null,null,null,null]"));
    SCHEMA("{\"items\": {\"type\": \"null\"}, \"minItems\": 2}", LIST("[null,null]", "[null,null,null,null]"), LIST("[]", "[null]"));
    SCHEMA("{\"type\": \"array\", \"maxItems\": 0}", LIST("[]"), LIST("[1]"));
    SCHEMA("{\"prefixItems\": [{\"type\": \"integer\"}, {\"type\": \"string\"}], \"minItems\": 1}", LIST("[1]", "[1,\"a\"]"), LIST("[]", "[\"a\"]", "[1,2]", "[1,\"a\",1]"));
    SCHEMA("{\"prefixItems\": [{\"type\": \"integer\"}], \"items\": {\"type\": \"string\"}}", LIST("[]", "[1]", "[1,\"a\",\"b\"]"), LIST("[\"a\"]", "[1,2]"));
    SCHEMA("{\"prefixItems\": [{\"type\": \"integer\"}], \"items\": false}", LIST("[]", "[1]"), LIST("[1,1]"));
    SCHEMA("{\"prefixItems\": [{\"type\": \"integer\"}], \"minItems\": 3}", LIST("[1,\"a\",null]"), LIST("[1,2]", "[1,2,3,4]"));
    SCHEMA("{\"items\": [{\"type\": \"integer\"}]}", LIST("[1]", "[]"), LIST("[\"a\"]", "[1,2]"));
}

static void test_strings(void **state)
{
    (void)state;
    SCHEMA("{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}", LIST("\"ab\"", "\"\xc3\xa9\xf0\x9f\x98\x80\"", "\"\\n\\\"\\\\\""), LIST("\"a\"", "\"abcd\"", "\"\""));
    SCHEMA("{\"minLength\": 1}", LIST("\"a\"", "\"abcdefghijk\""), LIST("\"\""));
    SCHEMA("{\"pattern\": \"^[a-c]+$\"}", LIST("\"abc\""), LIST("\"\"", "\"abd\""));
    SCHEMA("{\"pattern\": \"b\\\\d\"}", LIST("\"b1\"", "\"xxb1yy\"", "\"\\nb2\\\"\""), LIST("\"b\"", "\"1b\""));
    SCHEMA("{\"pattern\": \"^a|b$\"}", LIST("\"a\"", "\"axx\"", "\"xxb\""), LIST("\"xa\"", "\"bx\""));
    SCHEMA("{\"pattern\": \"^[^a]\\\"$\"}", LIST("\"b\\\"\"", "\"\\u0001\\\"\"", "\"\\t\\\"\""), LIST("\"a\\\"\"", "\"b\"\""));
    SCHEMA("{\"pattern\": \"^a*$\", \"minLength\": 2, \"maxLength\": 4}", LIST("\"aa\"", "\"aaaa\""), LIST("\"a\"", "\"aaaaa\"", "\"ab\""));
    SCHEMA("{\"pattern\": \"x\", \"maxLength\": 3}", LIST("\"x\"", "\"axb\"", "\"xxx\""), LIST("\"abc\"", "\"aaxx\"", "\"\""));
    SCHEMA("{\"format\": \"date\"}", LIST("\"2024-02-29\"", "\"2023-12-31\"", "\"2000-02-29\"", "\"0001-01-01\""),
           LIST("\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"24-01-01\"", "\"0000-01-01\""));
    SCHEMA("{\"format\": \"time\"}", LIST("\"23:59:59Z\"", "\"00:00:00.5+01:30\""), LIST("\"24:00:00Z\"", "\"12:00\"", "\"12:60:00Z\"", "\"12:00:00-00:00\""));
    SCHEMA("{\"format\": \"date-time\"}", LIST("\"2024-01-01T12:00:00Z\""), LIST("\"2024-01-01 12:00:00Z\"", "\"2024-01-01\""));
    SCHEMA("{\"format\": \"duration\"}", LIST("\"P1D\"", "\"PT5M\"", "\"P1Y2M3DT4H5M6S\"", "\"P2W\""), LIST("\"P\"", "\"PT\"", "\"1D\""));
    SCHEMA("{\"format\": \"uuid\"}", LIST("\"123e4567-e89b-12d3-a456-426614174000\""), LIST("\"123e4567\""));
    SCHEMA("{\"format\": \"email\"}", LIST("\"a.b@c.de\""), LIST("\"a@b\"", "\"@b.c\"", "\"a.@b.c\""));
    SCHEMA("{\"format\": \"ipv4\"}", LIST("\"255.0.10.1\""), LIST("\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""));
    SCHEMA("{\"format\": \"ipv6\"}", LIST("\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::1\"", "\"::\""), LIST("\"1:2\"", "\":::\"", "\"12345::\""));
    SCHEMA("{\"format\": \"hostname\"}", LIST("\"a-b.example\""), LIST("\"-a\"", "\"a..b\""));
    SCHEMA("{\"format\": \"uri\"}", LIST("\"https://a.b/c?d=e#f\""), LIST("\"a.b\"", "\"http:/x\""));
}

static void test_numbers(void **state)
{
    (void)state;
    SCHEMA("{\"type\": \"integer\", \"minimum\": 7, \"maximum\": 123}", LIST("7", "9", "10", "99", "100", "119", "123"), LIST("6", "124", "0", "200", "1000", "07", "-7", ""));
    SCHEMA("{\"type\": \"integer\", \"minimum\": -12, \"maximum\": 5}", LIST("-12", "-9", "0", "5", "-1"), LIST("-13", "6", "-20", "-100", "-0", "10"));
    SCHEMA("{\"type\": \"integer\", \"exclusiveMinimum\": 0}", LIST("1", "10", "999999999999999"), LIST("0", "-1"));
    SCHEMA("{\"type\": \"integer\", \"maximum\": -3}", LIST("-3", "-10", "-999"), LIST("-2", "0", "3"));
    SCHEMA("{\"type\": \"integer\", \"minimum\": 1.5, \"exclusiveMaximum\": 4}", LIST("2", "3"), LIST("1", "4"));
    SCHEMA("{\"type\": \"integer\", \"minimum\": -9223372036854775808, \"maximum\": 9223372036854775807}", LIST("0", "-12"), LIST("1.0"));
    SCHEMA("{\"type\": \"number\", \"minimum\": 0.25, \"maximum\": 10.5}", LIST("0.25", "0.250", "0.3", "1", "9.99", "10.5", "10.50", "10", "10.499999"), LIST("0.2", "0.249", "10.51", "11", "0", "-1", "1e1", "0."));
    SCHEMA("{\"type\": \"number\", \"exclusiveMinimum\": 0, \"exclusiveMaximum\": 1}", LIST("0.5", "0.001", "0.99"), LIST("0", "1", "0.0", "1.0", "-0.5", "-0"));
    SCHEMA("{\"type\": \"number\", \"minimum\": -1.5, \"maximum\": 0}", LIST("-1.5", "-1", "-0.1", "0", "0.0"), LIST("-1.51", "0.1", "-2", "1"));
    SCHEMA("{\"type\": \"integer\", \"multipleOf\": 7, \"minimum\": 10, \"maximum\": 150}", LIST("14", "21", "105", "147"), LIST("7", "15", "154", "0"));
    SCHEMA("{\"type\": \"integer\", \"multipleOf\": 5}", LIST("0", "-5", "100"), LIST("1", "52"));
    SCHEMA("{\"type\": \"number\", \"multipleOf\": 0.01}", LIST("1.25", "0.5", "3"), LIST("1.255", "1e2"));
    SCHEMA("{\"type\": \"number\", \"multipleOf\": 2}", LIST("4", "-2"), LIST("3", "2.5"));
    SCHEMA("{\"type\": [\"integer\", \"null\"], \"minimum\": 5}", LIST("null", "5"), LIST("4"));
}

static void test_constants(void **state)
{
    (void)state;
    SCHEMA("{\"enum\": [\"a\", \"ab\", 1, 1.5, null, true, [1, {\"x\": \"y\"}], {}]}",
           LIST("\"a\"", "\"ab\"", "1", "1.5", "null", "true", "[1, {\"x\": \"y\"}]", "[1,{\"x\":\"y\"}]", "{}"), LIST("\"b\"", "2", "false", "[1]", "\"abc\""));
    SCHEMA("{\"const\": null}", LIST("null"), LIST("1"));
    SCHEMA("{\"const\": \"\\u00e9\\n\\\"\"}", LIST("\"\xc3\xa9\\n\\\"\""), LIST("\"e\""));
    SCHEMA("{\"type\": \"string\", \"enum\": [\"a\", 1, null]}", LIST("\"a\""), LIST("1", "null"));
    SCHEMA("{\"allOf\": [{\"enum\": [1, 2, [3]]}, {\"enum\": [2, [3], 4]}]}", LIST("2", "[3]"), LIST("1", "4"));
}

static void test_logic(void **state)
{
    (void)state;
    SCHEMA("{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\", \"maxLength\": 1}]}", LIST("1", "\"a\""), LIST("\"ab\"", "null"));
    SCHEMA("{\"oneOf\": [{\"const\": 1}, {\"const\": 2}]}", LIST("1", "2"), LIST("3"));
    SCHEMA("{\"allOf\": [{\"properties\": {\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}, {\"properties\": {\"a\": {\"minimum\": 3}, \"b\": {}}}], \"type\": \"object\"}",
           LIST("{\"a\": 3}", "{\"a\": 5, \"b\": 1}"), LIST("{\"a\": 2}", "{}", "{\"b\": 1}"));
    SCHEMA("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"null\"}, \"b\": {\"type\": \"null\"}}, \"anyOf\": [{\"required\": [\"a\"]}, {\"required\": [\"b\"]}]}",
           LIST("{\"a\":null}", "{\"b\":null}", "{\"a\":null,\"b\":null}"), LIST("{}"));
    SCHEMA("{\"$defs\": {\"n\": {\"type\": \"object\", \"properties\": {\"v\": {\"type\": \"integer\"}, \"next\": {\"anyOf\": [{\"$ref\": \"#/$defs/n\"}, {\"type\": \"null\"}]}}, "
           "\"required\": [\"v\", \"next\"]}}, \"$ref\": \"#/$defs/n\"}",
           LIST("{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"), LIST("{\"v\":1}", "{\"v\":1,\"next\":{}}"));
    SCHEMA("{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}", LIST("[]", "[[],[[]]]"), LIST("[1]"));
    SCHEMA("{\"definitions\": {\"a/b\": {\"x y\": {\"const\": 1}}}, \"properties\": {\"k\": {\"$ref\": \"#/definitions/a~1b/x%20y\"}}, \"required\": [\"k\"]}", LIST("{\"k\": 1}"), LIST("{\"k\": 2}"));
    SCHEMA("{\"$defs\": {\"s\": {\"type\": \"string\"}}, \"$ref\": \"#/$defs/s\", \"maxLength\": 2}", LIST("\"ab\""), LIST("\"abc\"", "1"));
    SCHEMA("{\"title\": \"t\", \"description\": \"d\", \"default\": 1, \"x-own\": 1, \"uniqueItems\": false, \"type\": \"null\"}", LIST("null"), LIST("1"));
    /* an alternative that can never be finished is none */
    SCHEMA("{\"anyOf\": [{\"type\": \"array\", \"items\": false, \"minItems\": 1}, {\"const\": 1}]}", LIST("1"), LIST("[]", "["));
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sl_status rc;
        const char *part;
    } cases[] = {
        {"{", SL_ERR_FORMAT, "not valid JSON"},
        {"[]", SL_ERR_FORMAT, "must be an object"},
        {"{\"type\": \"text\"}", SL_ERR_FORMAT, "keyword \"type\" at # names no type"},
        {"{\"properties\": {\"a\": {\"not\": {}}}}", SL_ERR_UNSUPPORTED, "keyword \"not\" at #/properties/a is not supported"},
        {"{\"items\": {\"anyOf\": [{\"if\": true}]}}", SL_ERR_UNSUPPORTED, "keyword \"if\" at #/items/anyOf/0"},
        {"{\"patternProperties\": {}}", SL_ERR_UNSUPPORTED, "patternProperties"},
        {"{\"type\": \"array\", \"uniqueItems\": true}", SL_ERR_UNSUPPORTED, "uniqueItems"},
        {"{\"type\": \"string\", \"format\": \"iri\"}", SL_ERR_UNSUPPORTED, "format"},
        {"{\"pattern\": \"(?=a)\"}", SL_ERR_UNSUPPORTED, "look-around"},
        {"{\"pattern\": \"a\", \"format\": \"date\"}", SL_ERR_UNSUPPORTED, "beside another"},
        {"{\"enum\": [1], \"minimum\": 0}", SL_ERR_UNSUPPORTED, "together with enum"},
        {"{\"enum\": []}", SL_ERR_FORMAT, "enum"},
        {"{\"$ref\": \"#/nowhere\"}", SL_ERR_FORMAT, "leads nowhere"},
        {"{\"$ref\": \"http://x/y\"}", SL_ERR_UNSUPPORTED, "inside the document"},
        {"{\"$ref\": \"#\"}", SL_ERR_LIMIT, "circle"},
        {"{\"anyOf\": [{\"$ref\": \"#\"}, {\"type\": \"null\"}]}", SL_ERR_FORMAT, "circle"},
        {"{\"minLength\": -1}", SL_ERR_FORMAT, "minLength"},
        {"{\"minLength\": 20000}", SL_ERR_LIMIT, "10000"},
        {"{\"type\": \"string\", \"minLength\": 3, \"maxLength\": 2}", SL_ERR_FORMAT, "no text can ever"},
        {"false", SL_ERR_FORMAT, "no text can ever"},
        {"{\"type\": \"object\", \"properties\": {\"a\": false}, \"required\": [\"a\"]}", SL_ERR_FORMAT, "no text can ever"},
        {"{\"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}", SL_ERR_FORMAT, "no text can ever"},
        {"{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}", SL_ERR_FORMAT, "no text can ever"},
        {"{\"type\": \"number\", \"multipleOf\": 0.3}", SL_ERR_UNSUPPORTED, "multipleOf"},
        {"{\"type\": \"number\", \"minimum\": 1e-20}", SL_ERR_UNSUPPORTED, "1e-20"},
        {"{\"type\": \"number\", \"minimum\": \"3\"}", SL_ERR_FORMAT, "minimum"},
        {"{\"required\": \"a\"}", SL_ERR_FORMAT, "required"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_no(SL_GRAMMAR_SCHEMA, cases[i].text, cases[i].rc, cases[i].part);
}

static void test_masks(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"age\": {\"type\": \"integer\", \"minimum\": 10, \"maximum\": 250}, "
        "\"tags\": {\"type\": \"array\", \"items\": {\"enum\": [\"abc\", \"hello\", \"aa\"]}, \"maxItems\": 3}, \"d\": {\"format\": \"date\"}, "
        "\"r\": {\"anyOf\": [{\"$ref\": \"#\"}, {\"type\": \"null\"}]}}, \"required\": [\"name\"], \"additionalProperties\": {\"maxLength\": 4}}";
    static const char text[] = "{\"name\": \"a\\\"\xc3\xa9\", \"age\": 123, \"tags\": [\"hello\",\"aa\"],\n  \"d\": \"2024-02-29\", \"r\": {\"name\": \"\"}, \"nam\": \"abc\"}";
    world w;
    sl_err err = {0};
    open_world(&w, SL_GRAMMAR_SCHEMA, schema);
    for (size_t i = 0;; i++) {
        check_mask(&w, text, i);
        if (!text[i]) break;
        if (sl_guide_accept(w.gd, (uint8_t)text[i], &err) != SL_OK) fail_msg("at %zu: %s", i, err.msg);
    }
    assert_true(sl_guide_must_end(w.gd));
    world_close(&w);
}

/* ---- tool calls ---- */

static const char two_tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", \"properties\": {\"a\": "
                                "{\"$ref\": \"#/$defs/i\"}}, \"required\": [\"a\"], \"$defs\": {\"i\": {\"type\": \"integer\"}}}}}, {\"name\": \"now\"}]";

static void open_tools(world *w, const sl_tool_grammar_options *o)
{
    sl_err err = {0};
    *w = (world){.t = world_tokenizer()};
    uint32_t n = sl_tokenizer_vocab(w->t);
    ASSERT_OK(sl_gram_open_tools(&w->g, o, WORLD_BYTES_MAX, &err), err);
    ASSERT_OK(sl_token_trie_open(&w->trie, w->t, &err), err);
    ASSERT_OK(sl_guide_open(&w->gd, w->g, w->trie, n, NULL, 0, sl_guide_least_bytes(n) + sl_gram_bytes(w->g), &err), err);
}

static void check_tools(const sl_tool_grammar_options *o, const char *const *yes, const char *const *no)
{
    world w;
    open_tools(&w, o);
    for (; *yes; yes++)
        if (!takes(&w, *yes, strlen(*yes))) fail_msg("tools do not take '%s'", *yes);
    for (; *no; no++)
        if (takes(&w, *no, strlen(*no))) fail_msg("tools take '%s'", *no);
    world_close(&w);
}

static void test_tools(void **state)
{
    (void)state;
    sl_tool_grammar_options o = {.struct_size = sizeof o, .tools = two_tools, .tools_bytes = sizeof two_tools - 1, .prefix = "<tool_call>\n", .suffix = "\n</tool_call>", .separator = "\n"};
    o.required = true;
    check_tools(&o, LIST("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", "<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>"),
                LIST("", "hello", "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>", "<tool_call>\n{\"name\": \"sub\", \"arguments\": {}}\n</tool_call>",
                     "<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>\n<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>"));
    o.choice = "now";
    o.parallel = true;
    check_tools(&o, LIST("<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>\n<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>"),
                LIST("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"));
    o.choice = NULL;
    o.required = false;
    check_tools(&o, LIST("", "hello < there", "x<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>"), LIST("x<tool_call>\nhello", "<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call> bye"));
    o = (sl_tool_grammar_options){.struct_size = sizeof o, .tools = two_tools, .tools_bytes = sizeof two_tools - 1, .required = true, .parallel = true, .begin = "[TOOL_CALLS][", .separator = ", ",
                                  .end = "]", .arguments_key = "parameters", .after = "</think>"};
    check_tools(&o, LIST("hm</think>[TOOL_CALLS][{\"name\":\"now\",\"parameters\":{}}]", "</think>[TOOL_CALLS][{\"name\":\"now\",\"parameters\":{}}, {\"name\":\"now\",\"parameters\":{}}]"),
                LIST("[TOOL_CALLS][{\"name\":\"now\",\"parameters\":{}}]", "</think>"));
    sl_gram *g = NULL;
    sl_err err = {0};
    o.choice = "sub";
    assert_int_equal(sl_gram_open_tools(&g, &o, WORLD_BYTES_MAX, &err), SL_ERR_ARG);
    assert_non_null(strstr(err.msg, "no tool \"sub\""));
    o.choice = NULL;
    o.tools = "[{}]", o.tools_bytes = 4;
    assert_int_equal(sl_gram_open_tools(&g, &o, WORLD_BYTES_MAX, &err), SL_ERR_FORMAT);
    o.tools = "[]", o.tools_bytes = 2;
    assert_int_equal(sl_gram_open_tools(&g, &o, WORLD_BYTES_MAX, &err), SL_ERR_ARG);
}

/* ---- hostile ---- */

static void survive(const char *schema)
{
    world w;
    sl_err err = {0};
    const uint64_t *mask;
    double begin = cpu_s();
    sl_gram_options o = {.kind = SL_GRAMMAR_SCHEMA, .text = schema, .text_bytes = strlen(schema)};
    sl_status rc = world_open(&w, &o, &err);
    if (rc == SL_OK) {
        rc = sl_guide_mask(w.gd, &mask, &err);
        for (const char *p = "{\"a\": "; rc == SL_OK && *p; p++) {
            if (sl_guide_accept(w.gd, *p, &err) != SL_OK) break;
            rc = sl_guide_mask(w.gd, &mask, &err);
        }
        world_close(&w);
    }
    if (rc != SL_OK && !err.msg[0]) fail_msg("%.60s: no message", schema);
    if (cpu_s() - begin > 2) fail_msg("%.60s: %.1f s", schema, cpu_s() - begin);
}

static char *nested(const char *open, const char *inner, const char *close, int n)
{
    size_t a = strlen(open), b = strlen(close);
    char *p = malloc((a + b) * (size_t)n + strlen(inner) + 1), *q = p;
    for (int i = 0; i < n; i++, q += a)
        memcpy(q, open, a);
    q = stpcpy(q, inner);
    for (int i = 0; i < n; i++)
        q = stpcpy(q, close);
    return p;
}

static void test_hostile(void **state)
{
    (void)state;
    static const char *const shapes[][3] = {
        {"{\"properties\": {\"a\": ", "{}", "}}"}, {"{\"items\": ", "{}", "}"},         {"{\"anyOf\": [", "{}", "]}"}, {"{\"allOf\": [", "{\"type\": \"null\"}", "]}"},
        {"[", "", "]"},                            {"{\"const\": [", "1", "]}"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int n = 50; n <= 50000; n *= 10) {
            char *s = nested(shapes[i][0], shapes[i][1], shapes[i][2], n);
            survive(s);
            free(s);
        }
    /* 2^30 ways through references that double, and alternatives that multiply */
    char *text = NULL;
    size_t n_text;
    FILE *f = open_memstream(&text, &n_text);
    fprintf(f, "{\"$defs\": {\"d0\": {\"type\": \"null\"}");
    for (int i = 1; i <= 30; i++)
        fprintf(f, ", \"d%d\": {\"type\": \"array\", \"prefixItems\": [{\"$ref\": \"#/$defs/d%d\"}, {\"$ref\": \"#/$defs/d%d\"}], \"minItems\": 2}", i, i - 1, i - 1);
    fprintf(f, "}, \"$ref\": \"#/$defs/d30\"}");
    fclose(f);
    survive(text);
    free(text);
    f = open_memstream(&text, &n_text);
    fprintf(f, "{\"allOf\": [");
    for (int i = 0; i < 15; i++)
        fprintf(f, "%s{\"anyOf\": [{\"required\": [\"a%d\"]}, {\"required\": [\"b%d\"]}, {\"required\": [\"c%d\"]}]}", i ? ", " : "", i, i, i);
    fprintf(f, "]}");
    fclose(f);
    survive(text);
    free(text);
    f = open_memstream(&text, &n_text); /* a large enum, and many properties */
    fprintf(f, "{\"enum\": [");
    for (int i = 0; i < 60000; i++)
        fprintf(f, "%s\"word%d\"", i ? "," : "", i * 7919);
    fprintf(f, "]}");
    fclose(f);
    survive(text);
    free(text);
    f = open_memstream(&text, &n_text);
    fprintf(f, "{\"properties\": {");
    for (int i = 0; i < 1500; i++)
        fprintf(f, "%s\"p%d\": {\"type\": [\"string\", \"null\"], \"maxLength\": %d}", i ? "," : "", i, i % 7);
    fprintf(f, "}, \"additionalProperties\": true}");
    fclose(f);
    survive(text);
    free(text);
    survive("{\"maxLength\": 10000}");
    survive("{\"pattern\": \"^(a|aa|aaa)*$\", \"maxLength\": 5000}");
    survive("{\"items\": {\"items\": {\"maxLength\": 100}, \"maxItems\": 3000}, \"maxItems\": 10000}");
    survive("{\"type\": \"integer\", \"multipleOf\": 997, \"minimum\": 12345, \"maximum\": 987654321012345}");
}

/* ---- no memory ---- */

static bool fail_at(void *user)
{
    return --*(int *)user == 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char schema[] = "{\"properties\": {\"a\": {\"type\": \"number\", \"minimum\": 1.5, \"multipleOf\": 0.5}, \"b\": {\"pattern\": \"^[a-z]{2}$\", \"maxLength\": 3}, "
                                 "\"c\": {\"enum\": [1, \"x\"]}}, \"additionalProperties\": {\"items\": {\"$ref\": \"#\"}}}";
    uint64_t before = sl_alloc_live_bytes();
    sl_status rc = SL_ERR_NOMEM;
    char ok[sizeof schema];
    memcpy(ok, schema, sizeof ok);
    memcpy(strstr(ok, "0.5"), "0.1", 3);
    for (int n = 1; rc != SL_OK; n++) {
        int left = n;
        sl_err err = {0};
        sl_gram *g = NULL;
        sl_gram_options o = {.kind = SL_GRAMMAR_SCHEMA, .text = ok, .text_bytes = strlen(ok), .max_bytes = WORLD_BYTES_MAX};
        sl_alloc_set_hook(fail_at, &left);
        rc = sl_gram_open(&g, &o, &err);
        sl_alloc_set_hook(NULL, NULL);
        if (rc != SL_OK && (rc != SL_ERR_NOMEM || !err.msg[0])) fail_msg("%d: %s", rc, err.msg);
        sl_gram_close(g);
        assert_int_equal(sl_alloc_live_bytes(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_objects),   cmocka_unit_test(test_arrays), cmocka_unit_test(test_strings),
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_constants), cmocka_unit_test(test_logic),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_masks),     cmocka_unit_test(test_tools),     cmocka_unit_test(test_hostile), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
