/* The template engine: one construct a case against Jinja2 (tests/fixtures/template, made by
 * tools/make_template_cases.py), where text came from, hostile templates, and allocations that fail. */
#include "support.h"

#include "base/json.h"
#include "text/chat_int.h"

#include <time.h>

enum { NOW = 1764600000 }; /* as in the script */

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    char *text = calloc(1, 1 << 20);
    *n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    return text;
}

/* Processor seconds of this process. */
static double now_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Renders with variables as they are; the text is to be freed. */
static sl_status render(const char *source, size_t n, const char *json, char **text, sl_err *err)
{
    sl_chat *c = NULL;
    sl_chat_prompt *p = NULL;
    sl_chat_options opt;
    sl_chat_options_init(&opt);
    opt.now_s = NOW;
    opt.as_is = true;
    *text = NULL;
    sl_status rc = sl_chat_open_text(&c, "T", source, n, err);
    if (rc == SL_OK) rc = sl_chat_render(&p, c, json, strlen(json), &opt, err);
    if (rc == SL_OK) *text = strdup(sl_chat_prompt_text(p, &n));
    sl_chat_prompt_close(p);
    sl_chat_close(c);
    return rc;
}

/* ---- against Jinja2 ---- */

static bool check_case(const sl_json *c, const char *variables)
{
    size_t n;
    const char *name = sl_json_string(sl_json_get(c, "name"), &n), *want = sl_json_string(sl_json_get(c, "text"), &n);
    const char *result = sl_json_string(sl_json_get(c, "result"), &n);
    const char *source = sl_json_string(sl_json_get(c, "template"), &n);
    sl_err err = {0};
    char *text;
    sl_status rc = render(source, n, variables, &text, &err);
    bool good;
    if (strcmp(result, "ok") == 0)
        good = rc == SL_OK && strcmp(text, want) == 0;
    else if (strcmp(result, "raised") == 0)
        good = rc == SL_ERR_ARG && strcmp(err.msg, want) == 0;
    else
        good = rc != SL_OK && rc != SL_ERR_ARG && strstr(err.msg, ", line ");
    if (!good) printf("%s: %s\n  want %s: %s\n  got %d: %s\n", name, source, result, want, rc, rc ? err.msg : text);
    free(text);
    return good;
}

static void test_cases_equal_jinja(void **state)
{
    (void)state;
    size_t n, n_bad = 0;
    sl_err err = {0};
    sl_json *root;
    char *text = read_file("tests/fixtures/template/cases.json", &n);
    ASSERT_OK(sl_json_parse(&root, "cases.json", text, n, &err), err);
    const sl_json *cases = sl_json_get(root, "cases");
    const char *variables = sl_json_string(sl_json_get(root, "variables"), &n);
    assert_true(sl_json_count(cases) > 150);
    for (size_t i = 0; i < sl_json_count(cases); i++)
        n_bad += !check_case(sl_json_at(cases, i), variables);
    assert_int_equal(n_bad, 0);
    sl_json_free(root);
    free(text);
}

static void test_errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *source, *json, *words;
        sl_status rc;
    } rows[] = {
        {"a\n\n{% include 'x' %}", "[]", "line 3: the tag 'include' is not supported", SL_ERR_UNSUPPORTED},
        {"a\n{{ x | frobnicate }}", "[]", "line 2: the filter 'frobnicate' is not supported", SL_ERR_UNSUPPORTED},
        {"{{ x is frob }}", "[]", "line 1: the test 'frob' is not supported", SL_ERR_UNSUPPORTED},
        {"{% if x %}\n\n", "[]", "'{% endif %}'", SL_ERR_FORMAT},
        {"\n{{ x.y.z }}", "{\"messages\": [], \"x\": {}}", "line 2: 'dict object' has no attribute 'y'", SL_ERR_FORMAT},
        {"{{ nope.z }}", "[]", "'nope' is undefined", SL_ERR_FORMAT},
        {"{{ messages.append(1) }}", "[]", "access to attribute 'append' of 'list' object is unsafe", SL_ERR_FORMAT},
        {"{{ raise_exception('é: ' ~ 5) }}", "[]", "é: 5", SL_ERR_ARG},
        {"x", "{\"messages\": 3}", "no list of messages", SL_ERR_ARG},
        {"x", "{\"messages\": [], }", "the request is no JSON", SL_ERR_ARG},
        {"x", "{\"messages\": []} 1", "the request is no JSON", SL_ERR_ARG},
        {"\xff", "[]", "not valid UTF-8", SL_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sl_err err = {0};
        char *text;
        sl_status rc = render(rows[i].source, strlen(rows[i].source), rows[i].json, &text, &err);
        if (rc != rows[i].rc || !strstr(err.msg, rows[i].words)) fail_msg("%s: %d %s", rows[i].source, rc, err.msg);
        free(text);
    }
}

/* ---- where text came from ---- */

/* The rendered text with [ ] around what is the user's. */
static char *marked(const char *source, const char *json)
{
    sl_chat *c = NULL;
    sl_chat_prompt *p = NULL;
    sl_chat_options opt;
    sl_err err = {0};
    sl_chat_options_init(&opt);
    opt.as_is = true;
    ASSERT_OK(sl_chat_open_text(&c, "T", source, strlen(source), &err), err);
    ASSERT_OK(sl_chat_render(&p, c, json, strlen(json), &opt, &err), err);
    size_t n, from, to, done = 0;
    const char *text = sl_chat_prompt_text(p, &n);
    char *out = calloc(1, n + 2 * sl_chat_prompt_user_count(p) + 1);
    for (size_t i = 0; i < sl_chat_prompt_user_count(p); i++) {
        sl_chat_prompt_user_span(p, i, &from, &to);
        assert_true(from >= done && to > from && to <= n);
        strncat(out, text + done, from - done);
        strcat(strncat(strcat(out, "["), text + from, to - from), "]");
        done = to;
    }
    strcat(out, text + done);
    sl_chat_prompt_close(p);
    sl_chat_close(c);
    return out;
}

static void test_user_text_is_known(void **state)
{
    (void)state;
    static const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \" <Hi> there \"}], \"x\": \"a-b-c\", "
                               "\"l\": [\"p\", \"q\"], \"n\": 5}";
    static const struct {
        const char *source, *want;
    } rows[] = {
        {"A{{ x }}B", "A[a-b-c]B"},
        {"{{ '<' + x + '>' }}", "<[a-b-c]>"},
        {"{{ '<' ~ x ~ '>' ~ n }}", "<[a-b-c]>5"},
        {"{{ '<|' + messages[0].role + '|>' }}", "<|user|>"},
        {"{{ messages[0]['content'] | trim }}", "[<Hi> there]"},
        {"{{ ('<' + x + '>')[1:4] }}|{{ ('<' + x)[::-1] }}", "[a-b]|[c-b-a]<"},
        {"{{ x | replace('-', '+') }}", "[a]+[b]+[c]"},
        {"{{ 'a-b' | replace('-', x) }}", "a[a-b-c]b"},
        {"{{ x | upper }}{{ 'y' | upper }}", "[A-B-C]Y"},
        {"{% for p in x.split('-') %}({{ p }}){% endfor %}", "([a])([b])([c])"},
        {"{{ x | tojson }}{{ {'k': x} | tojson }}", "\"[a-b-c]\"{\"k\": \"[a-b-c]\"}"},
        {"{{ l | join(', ') }}{{ l }}", "[p], [q]['[p]', '[q]']"},
        {"{% set y %}<{{ x }}>{% endset %}{{ y }}{{ y | length }}", "<[a-b-c]>7"},
        {"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) + m('t') }}", "<[a-b-c]><t>"},
        {"{{ '%s=%d' % (x, n) }}{{ '{}!'.format(x) }}", "[a-b-c]=5[a-b-c]!"},
        {"{% for c in x %}{{ c }}.{% endfor %}", "[a].[-].[b].[-].[c]."},
        {"{% set ns = namespace(s='') %}{% for p in l %}{% set ns.s = ns.s + '<' + p %}{% endfor %}{{ ns.s }}", "<[p]<[q]"},
        {"{% filter upper %}t{{ x }}{% endfilter %}", "T[A-B-C]"},
        {"{{ x | indent(2, true) }}|{{ x | default('z') }}|{{ missing | default(x) }}", "  [a-b-c]|[a-b-c]|[a-b-c]"},
        {"{{ x.partition('-')[2] }}{{ x | first }}{{ l | first }}", "[b-cap]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *got = marked(rows[i].source, json);
        assert_string_equal(got, rows[i].want);
        free(got);
    }
}

/* ---- hostile ---- */

static char *repeated(const char *unit, size_t n, const char *before, const char *after)
{
    size_t len = strlen(unit);
    char *s = malloc(strlen(before) + n * len + strlen(after) + 1), *p = stpcpy(s, before);
    for (size_t i = 0; i < n; i++)
        p = stpcpy(p, unit);
    strcpy(p, after);
    return s;
}

/* Ends soon, with a status and a sentence. */
static void ends_soon(const char *what, const char *source, sl_status want)
{
    sl_err err = {0};
    char *text;
    double begin = now_s();
    sl_status rc = render(source, strlen(source), "{\"messages\": [], \"x\": \"user\"}", &text, &err);
    double took = now_s() - begin;
    free(text);
    if (rc != want || (rc && !err.msg[0])) fail_msg("%s: status %d, not %d: %s", what, rc, want, rc ? err.msg : "");
    if (took > 2) fail_msg("%s: took %.1f s", what, took);
}

static void test_hostile_templates_end(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        sl_status rc;
    } rows[] = {
        {"{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}"
         "{% endfor %}", SL_ERR_LIMIT},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", SL_ERR_LIMIT},
        {"{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", SL_ERR_LIMIT},
        {"{{ range(10**9) }}", SL_ERR_FORMAT},
        {"{{ 'x' * 10**9 }}", SL_ERR_LIMIT},
        {"{{ ['x'] * 10**9 }}", SL_ERR_LIMIT},
        {"{{ 'x' * 10**30 }}", SL_ERR_LIMIT},
        {"{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", SL_ERR_LIMIT},
        {"{% set ns = namespace(s=['x']) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", SL_ERR_LIMIT},
        {"{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}", SL_ERR_LIMIT},
        {"{% set a = [] %}{% set _ = a.append(a) %}{{ a }}", SL_ERR_LIMIT},
        {"{% set a = [] %}{% set _ = a.append(a) %}{{ a | tojson }}", SL_ERR_LIMIT},
        {"{% set a = [] %}{% set b = [] %}{% set _ = a.append(b) %}{% set _ = b.append(a) %}{{ a == b }}", SL_ERR_LIMIT},
        {"{% set a = [] %}{% for x in [1] %}{% set _ = a.append(1) %}{% for y in a %}{% set _ = a.append(1) %}{% endfor %}"
         "{% endfor %}", SL_ERR_LIMIT},
        {"{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson }}",
         SL_ERR_LIMIT},
        {"{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
         "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}", SL_ERR_LIMIT},
        {"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", SL_ERR_LIMIT},
        {"{{ 2 ** 10000000000 }}", SL_ERR_LIMIT},
        {"{{ 9223372036854775807 + 1 }}", SL_ERR_LIMIT},
        {"{{ 99999999999999999999999 }}", SL_ERR_FORMAT},
        {"{{ '%99999999d' % 1 }}", SL_ERR_FORMAT},
        {"{{ 'x'.center(10**12) }}", SL_ERR_LIMIT},
        {"{{ 'x' | indent(10**12) }}", SL_ERR_LIMIT},
        {"{{ [1] | batch(10**12, 0) | list }}", SL_ERR_FORMAT},
        {"{{ {} | tojson(indent=10**12) }}", SL_ERR_LIMIT},
        {"{% set s = 'ab' * 5000000 %}{% for i in range(100000) %}{{ s | replace('a', 'b') | length }}{% endfor %}",
         SL_ERR_LIMIT},
        {"{% set s = 'a' * 20000000 %}{% for i in range(100000) %}{{ s.find('b') }}{% endfor %}", SL_ERR_LIMIT},
        {"{{ -9223372036854775807 - 1 }}{{ (-9223372036854775807 - 1) // -1 }}", SL_ERR_LIMIT},
        {"{{ (-9223372036854775807 - 1) % -1 }}{{ 5[::0] if false }}", SL_OK},
        {"{{ [1, 2][::-9223372036854775807] }}{{ 'abc'[9223372036854775807:] }}", SL_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ends_soon(rows[i].source, rows[i].source, rows[i].rc);
}

static void test_deep_sources_end(void **state)
{
    (void)state;
    static const struct {
        const char *unit, *before, *after;
        sl_status rc;
    } rows[] = {
        {"(", "{{ ", "", SL_ERR_LIMIT},          {"[", "{{ ", "", SL_ERR_LIMIT},
        {"{'a':", "{{ ", "", SL_ERR_LIMIT},     {"not ", "{{ ", " x }}", SL_ERR_LIMIT},
        {"-", "{{ ", " x }}", SL_ERR_LIMIT},     {"+1", "{{ 1", " }}", SL_ERR_LIMIT},
        {".a", "{{ x", " }}", SL_ERR_LIMIT},     {"|e", "{{ x", " }}", SL_ERR_LIMIT},
        {"[0]", "{{ x", " }}", SL_ERR_LIMIT},    {"{% if x %}", "", "", SL_ERR_LIMIT},
        {"{% for x in y %}", "", "", SL_ERR_LIMIT}, {"{% if x %}{% elif y %}", "", "", SL_ERR_LIMIT},
        {"1 if x else ", "{{ ", "2 }}", SL_ERR_LIMIT}, {"{#", "", "", SL_ERR_FORMAT},
        {"{{", "", "", SL_ERR_LIMIT},           {"{% raw %}", "", "", SL_ERR_FORMAT},
        {" and x", "{{ x", " }}", SL_ERR_LIMIT}, {"~x", "{{ x", " }}", SL_OK},
        {"{{ x }}", "", "", SL_OK},              {" == x", "{{ x", " }}", SL_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *s = repeated(rows[i].unit, 100000 / strlen(rows[i].unit), rows[i].before, rows[i].after);
        ends_soon(rows[i].unit, s, rows[i].rc);
        free(s);
    }
}

static void test_many_names_end(void **state)
{
    (void)state;
    char *s = malloc(1 << 20), *p = s;
    for (int i = 0; i < 10000; i++)
        p += sprintf(p, "{%% set a%d=1 %%}", i);
    ends_soon("many names", s, SL_ERR_LIMIT);
    free(s);
}

/* ---- allocations that fail ---- */

typedef struct {
    int calls, fail_at;
} failing;

static bool should_fail(void *user)
{
    failing *f = user;
    return ++f->calls == f->fail_at;
}

static void test_any_allocation_may_fail(void **state)
{
    (void)state;
    static const char source[] =
        "{% macro m(x) %}<{{ x | upper }}>{% endmacro %}{% for m1 in messages %}{{ m(m1.content) ~ m1 | tojson }}"
        "{{ '{\"a\": [1, \"two\"]}' | from_json }}{% endfor %}{{ messages | map(attribute='role') | join(',') }}";
    static const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"h\\u00e9\"}], \"continue_final_message\": false}";
    sl_status rc = SL_ERR_NOMEM;
    uint64_t live = sl_alloc_live_bytes();
    int n = 1;
    for (; rc != SL_OK; n++) {
        failing f = {.fail_at = n};
        sl_err err = {0};
        sl_chat *c = NULL;
        sl_chat_prompt *p = NULL;
        sl_alloc_set_hook(should_fail, &f);
        rc = sl_chat_open_text(&c, "T", source, sizeof source - 1, &err);
        if (rc == SL_OK) rc = sl_chat_render(&p, c, json, sizeof json - 1, NULL, &err);
        sl_alloc_set_hook(NULL, NULL);
        if (rc != SL_OK && (rc != SL_ERR_NOMEM || !err.msg[0])) fail_msg("allocation %d: %d %s", n, rc, err.msg);
        assert_true((rc == SL_OK) == (p != NULL));
        sl_chat_prompt_close(p);
        sl_chat_close(c);
        assert_int_equal(sl_alloc_live_bytes(), live);
    }
    assert_true(n > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_equal_jinja),  cmocka_unit_test(test_errors_name_the_line),
        cmocka_unit_test(test_user_text_is_known), cmocka_unit_test(test_hostile_templates_end),
        cmocka_unit_test(test_deep_sources_end),   cmocka_unit_test(test_many_names_end),
        cmocka_unit_test(test_any_allocation_may_fail),
    };
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
