#!/usr/bin/env python3
"""Makes tests/fixtures/template/cases.json: small templates, one construct each, with what Jinja2 (set up as
transformers does, see check_templates.py) makes of them.  Needs jinja2.  Run from the repository's root."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_templates import reference

VARS = {
    "n": 3, "f": 2.5, "t": True, "none": None, "s": "Hello World", "u": "Éa ßΣ \u00a0x", "e": "", "html": "<a href='x'>&\"",
    "l": [3, 1, 2], "words": ["beta", "Alpha", "gamma", "alpha"], "d": {"b": 1, "a": 2, "items": 3, "k v": "x"},
    "people": [{"name": "Ann", "age": 30, "at": {"city": "Rome"}}, {"name": "bob", "age": 25, "at": {"city": "Bern"}},
               {"name": "Cid", "age": 30}],
    "nested": {"x": [1, {"y": [True, None, 1.0, -0.5, 1e16, 1e-7, 123456789.125]}], "é": "\u2028\u007f\t\"\\"},
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}], "messages": [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
}

# One expression each; the template is "{{ ... }}".
EXPRESSIONS = """
1 + 2 * 3 - 4 / 2
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2
2 ** 10, 2 ** -1, -2 ** 2, 2 ** 3 ** 2
1_000, 0x1F, 0o17, 0b101, 1.5e3, 1e-7, 1e16, 123456789012345680.0, 0.1 + 0.2, 1 / 3, 100.0, -0.0
n + f, n + t, t + t, -t, +n, not n, not e
"a" + "b" ~ 1 ~ none ~ true ~ 2.0 ~ [1, "x"]
"ab" * 3, 2 * "x", [1, 2] * 2, "x" * -1
"it's", 'say "hi"', "tab\\tnew\\nline\\x41\\u00e9\\'\\q", 'a' 'b'
[1, 2] + [3], (1, 2) + (3,), (1,), (), [], {}
1 < 2, 2 <= 2, 3 > 4, "a" < "b", [1, 2] < [1, 3], 1 == 1.0, "1" == 1, none == false, 1 < 2 < 3, 1 < 3 < 2
1 in l, 5 not in l, "ell" in s, "a" in d, "zz" in d, 1 in (1, 2), "" in s, missing in l, 1 in missing
t and n, e or "x", none or 0, 0 and missing, not t or f
"yes" if t else "no", ("x" if e), "a" if e else "b" if none else "c"
s[0], s[-1], s[1:4], s[:-3], s[::-1], s[::2], s[-3:], s[10:2], s[100:], u[1], u[::-1], u[2:4]
l[0], l[-1], l[1:], l[::-1], l[:2], l[5] is defined, l[5:], l[-100:2], (1, 2, 3)[1:]
d.b, d["a"], d["k v"], d.items is callable, d["items"], d.zzz, d["zzz"] is defined, people[0].at.city, people.0.name
missing, missing is defined, missing is undefined, missing == "", missing | length, [missing]
[n, f, t, none, s, u, l, d]
nested
n is number, f is number, t is number, n is integer, t is integer, f is float, t is boolean, n is boolean
s is string, l is string, l is iterable, s is iterable, d is iterable, n is iterable, missing is iterable
l is sequence, s is sequence, d is sequence, n is sequence, d is mapping, l is mapping
t is true, n is true, e is false, false is false, none is none, missing is none, e is none
n is odd, 4 is even, 9 is divisibleby 3, 9 is divisibleby(2), "a" is lower, "A" is upper, "1" is upper
n is eq 3, n is ne 3, n is gt 2, n is lt(2), n is ge 3, n is le 2, n is sameas 3, "a" is in "abc", 2 is in l
n is not odd, n is defined and n is not none, range is callable
s | upper, s | lower, "hello wORLD" | capitalize, "hello-my wORLD (x)" | title, u | upper, u | lower, u.title()
"  x \\n" | trim, "xxaxx" | trim("x"), "  a b  ".strip(), "..a..".lstrip("."), "a\\n\\n".rstrip("\\n"), u.strip()
s | replace("l", "L"), s | replace("l", "L", 1), s.replace("o", "0"), "abc" | replace("", "-"), 121 | replace(1, 3)
s | length, l | length, d | count, u | length, e | length
l | first, l | last, s | first, s | last, [] | first, d | first, [] | last is defined
l | join, l | join(", "), words | join("-"), people | join("/", attribute="name"), s | join(".")
l | sort, l | sort(reverse=true), words | sort, words | sort(case_sensitive=true), people | map(attribute="name") | sort
people | sort(attribute="age") | map(attribute="name") | list, people | sort(attribute="age,name", reverse=true) | map(attribute="name") | list
d | dictsort, {"x": 3, "y": 1} | dictsort(by="value"), d | dictsort(reverse=true), {"B": 1, "a": 2} | dictsort(true)
l | sum, people | sum(attribute="age"), [] | sum, l | sum(start=10), l | min, l | max, words | min, words | max, [] | max
words | unique | list, l | reverse | list, s | reverse, words | map("upper") | list, words | map("length") | list
people | map(attribute="at.city", default="?") | list, people | map(attribute="age") | list
l | select("odd") | list, l | reject("odd") | list, l | select | list, l | select("gt", 1) | list
people | selectattr("age", "equalto", 30) | map(attribute="name") | list, people | selectattr("at") | list | length
people | rejectattr("name", "in", ["Ann"]) | list | length, people | selectattr("at", "defined") | list | length
l | batch(2) | list, l | batch(2, "x") | list, l | slice(2) | list, l | slice(2, "x") | list
"3" | int, "3.7" | int, "x" | int, "x" | int(7), 3.9 | int, "0x1F" | int(base=16), " 12 " | int, true | int
"3.5" | float, "x" | float, "x" | float(1.5), 3 | float, -3 | abs, 2.5 | round, 3.5 | round, 2.567 | round(2), 2.1 | round(0, "ceil"), 2.19 | round(1, "floor")
missing | default("d"), e | default("d"), e | default("d", true), none | default("d"), missing | d
html | escape, html | e | e, html | safe, (html | safe) + "<b>", "<b>" + (html | safe), "<b>" ~ (html | safe)
"a b&c/é" | urlencode, "a b c" | wordcount, "abc" | center(9), "x" | center(4)
"foo bar baz qux" | truncate(9), "foo bar baz qux" | truncate(9, true), "foo bar baz" | truncate(11), "foo bar baz qux" | truncate(11, false, "..", 0)
"a\\nb\\n\\nc" | indent, "a\\nb" | indent(2, true), "a\\n\\nb" | indent(1, blank=true), "a\\nb\\n" | indent("> "), "" | indent
d | items | list, d.items() | list, d.keys() | list, d.values() | list, d.get("b"), d.get("z"), d.get("z", 5)
d.items(), d.keys(), d.values(), range(3), range(5, 1, -2), range(3)[1], range(10)[2:5] | list
nested | tojson
nested | tojson(indent=2)
nested | tojson(ensure_ascii=true)
{"b": [], "a": {}, "c": [{}]} | tojson(indent=1, sort_keys=true)
d | tojson(separators=(",", ":")), d | tojson(indent=none), [] | tojson(indent=2), s | tojson, none | tojson, 1.0 | tojson, {1: 2, none: 3, true: 4, 1.5: 5} | tojson
s.split(), s.split("o"), s.split("o", 1), "a,b,,c".split(","), "  a  b ".split(), " a b c ".split(none, 1), "abc".split("x"), "a b c".rsplit(" ", 1)
s.startswith("Hell"), s.endswith(("x", "d")), s.startswith("l", 2), s.find("o"), s.find("o", 5), s.rfind("o"), s.find("zz"), s.count("l"), "aaa".count("aa"), u.find("x")
"a\\nb\\r\\nc\\u2028d".splitlines(), "a\\nb\\n".splitlines(true), "a-b-c".partition("-"), "a-b-c".rpartition("-"), "ab".partition("x")
"-".join(["a", "b"]), "ab".upper(), "AB".lower(), "aB".swapcase(), "aB cD".title(), "aB".capitalize()
"12".isdigit(), "1a".isdigit(), "ab".isalpha(), "a1".isalnum(), " ".isspace(), "AB".isupper(), "ab".islower(), "".isdigit()
"5".zfill(3), "-5".zfill(4), "a".ljust(3, "."), "a".rjust(3), "a".center(4, "*"), "prefix".removeprefix("pre"), "prefix".removesuffix("fix")
"%s is %d, %5.2f|%-5s|%05d|%x|%%" % ("a", 3, 2.5, "b", 42, 255), "%s" % 1, "%(x)s" % {"x": 1}, "%s-%s" | format(1, 2), "%r" % "x", "%+d" % 3
"{} {}".format(1, "x"), "{1}{0}".format("a", "b"), "{x:>5}|{y:<4}|{z:^5}".format(x=1, y="a", z="b"), "{:.2f} {:05d} {:,}".format(2.567, 42, 1234567), "{{}}".format()
l.index(2), l.count(1), (1, 2, 2).count(2), l.copy()
dict(a=1, b=2), dict([("a", 1)]), dict({"a": 1}, b=2), namespace(a=1).a, namespace(a=1).b is defined
"x" is filter, "upper" is filter, "odd" is test, [1, [2, [3]]] | string, {"a": (1,)} | string, 1 | string | length
"a" | attr("upper") is callable, d | attr("b") is defined, ("a" | attr("upper"))()
words | map("replace", "a", "o") | list
"ﬀ" | upper, "ŉ".title(), "İ" | lower, "ΑΣ" | lower, "ΑΣΑ" | lower, "ǆ".title(), "straße".upper().lower()
"\\u0001\\u007f\\u00ad\\u200b\\ud7ff\\ue000é" , ["\\u0001\\u007f\\u00ad\\u200b\\ue000é\\U0001f600"]
"" .join([]), [1, 2, 3][-2], "abc"[-2:], [0] or [1], {} or "empty", "0" and 0
true, True, false, False, none, None
s.upper()[0:2] | lower ~ "x" | upper, -1 | abs, (-1) | abs, 2 + 3 | string | length
people[0]["name"][0], people | length > 2 and people[2].at is not defined, people[2].at.city if people[2].at else "none"
"a" < "B", "a" == "a" != "b", [1, "a"] == [1, "a"], {"a": 1} == {"a": 1.0}, (1,) == [1]
""".strip().split("\n")

TEMPLATES = [
    ("data only", "plain text\nwith lines\n"),
    ("last newline", "a\n\n"),
    ("carriage returns", "a\r\nb\rc{{ 'x\r\ny' }}\r\n"),
    ("trim blocks", "a\n{% if t %}\nb\n{% endif %}\nc {{ n }}\nd\n"),
    ("lstrip blocks", "a\n   {% if t %}\n   b\n \t {% endif %}\n  c {% if t %}d{% endif %}\n   {{ n }}\n"),
    ("minus", "a  \n {%- if t -%} \n b \n {%- endif -%} \n c {{- n -}} \n d {#- x -#} e"),
    ("plus", "a\n   {%+ if t +%}\nb\n   {%+ endif %}\n  {#+ c +#}\nd"),
    ("minus variable keeps line", "x\n  {{- s -}}\n  y\n"),
    ("comments", "a{# one #}b\n{# two\nlines #}\nc {#- #} d\n  {# e #}\nf{#{{ x }}#}"),
    ("comment in line", "a {# x #}\nb\n  {# y #} c\n"),
    ("raw", "{% raw %}{{ n }} {% if %}{# #}{% endraw %} {%- raw -%}  x  {%- endraw -%} \n y"),
    ("raw newline", "a\n{% raw %}\n b\n {% endraw %}\nc"),
    ("braces", "{ } {{ '{{' }} {{ {'a': {'b': 1}} }} {{ '}}' }} %} #}"),
    ("if chain", "{% if e %}1{% elif n == 3 %}2{% elif t %}3{% else %}4{% endif %}{% if e %}x{% else %}y{% endif %}"),
    ("if tuple", "{% if e, t %}yes{% endif %}"),
    ("for", "{% for x in l %}{{ x }},{% endfor %}{% for c in 'aé日' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }} {% endfor %}"),
    ("for else", "{% for x in [] %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}none{% endfor %}"
                 "{% for x in l if x > 9 %}{% else %}no{% endfor %}"),
    ("for else after break", "{% for x in l %}{% break %}{% else %}else{% endfor %}|{% for x in l %}{{ x }}{% if x == 1 %}"
                             "{% break %}{% endif %}{% else %}else{% endfor %}"),
    ("unpacking", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}"
                  "{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set (p, q) = [4, 5] %}{{ p }}{{ q }}"),
    ("for filter", "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}"),
    ("loop", "{% for x in words %}{{ loop.index }} {{ loop.index0 }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} "
             "{{ loop.last }} {{ loop.length }} {{ loop.depth }} {{ loop.depth0 }} {{ loop.previtem }} {{ loop.nextitem }}\n{% endfor %}"),
    ("loop undefined neighbours", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}"),
    ("loop cycle changed", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.cycle('a', 'b', 'c') }}{{ loop.changed(x) }} {% endfor %}"),
    ("loop nested", "{% for a in l %}{% for b in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% set outer = loop %}"
                    "{% for c in 'xy' %}{{ outer.index }}{{ loop.last }}{% endfor %};{% endfor %}"),
    ("loop recursive", "{% for x in tree recursive %}{{ loop.depth }}:{{ x.v }}[{{ loop(x.c) }}]{% endfor %}"),
    ("break continue", "{% for x in range(10) %}{% if x is odd %}{% continue %}{% endif %}{% if x > 6 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
    ("loop over loop.last", "{% for x in l if x != 1 %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}"),
    ("scope for", "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}"),
    ("scope if", "{% if t %}{% set x = 1 %}{% endif %}{{ x }}{% if e %}{% set y = 1 %}{% endif %}{{ y is defined }}"),
    ("scope if keeps variable", "{% if e %}{% set n = 9 %}{% endif %}{{ n }}"),
    ("scope set hides", "{% for i in [1] %}{{ n is defined }}{% endfor %}{% set n = 9 %}{{ n }}"),
    ("scope read then set", "{{ n }}{% for i in [1] %}{{ n }}{% endfor %}{% set n = 9 %}{{ n }}"),
    ("scope loop variable", "{% set i = 'o' %}{% for i in l %}{{ i }}{% endfor %}{{ i }}"),
    ("scope block", "{% set x = 1 %}{% set y %}{% set x = 2 %}{{ x }}{% endset %}{{ x }}{{ y }}"),
    ("scope with", "{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% set x = 3 %}{{ x }}{% endwith %}{{ x }}{{ y is defined }}"),
    ("namespace", "{% set ns = namespace(x=0, l=[]) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}"
                  "{% set ns.new = 5 %}{{ ns.new }}{{ ns.zzz is defined }}{{ ns['x'] }}"),
    ("namespace tuple", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}"),
    ("set block", "{% set x %}a{{ n }}\nb{% endset %}[{{ x }}]{% set y | upper | trim %}  abc {{ s }} {% endset %}[{{ y }}]"),
    ("filter block", "{% filter upper | replace('L', '-') %}hello {{ s }}{% endfilter %}"),
    ("macro", "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}|{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='y') }}{{ m(b=1, a=0) }}{{ m() }}"),
    ("macro rest", "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(a=1) }}{{ m.name }}"),
    ("macro recursion", "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}"),
    ("macro later", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}"),
    ("macro scope", "{% set x = 1 %}{% macro m() %}{{ x }}{{ n }}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}{{ x }}"),
    ("macro default sees parameter", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}"),
    ("macro text", "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}[{{ m('a') | upper }}]{{ m('b') ~ m('c') }}{{ m('d') | length }}"),
    ("macro in loop", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}"),
    ("call block", "{% macro box(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call box('x') %}in {{ n }}{% endcall %}"),
    ("call block arguments", "{% macro each(l) %}{% for i in l %}{{ caller(i, i * 2) }};{% endfor %}{% endmacro %}"
                             "{% call(a, b=0) each(l) %}{{ a }}-{{ b }}{% endcall %}"),
    ("dynamic arguments", "{% macro m(a, b, c=0) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(1, **{'b': 2, 'c': 3}) }}"),
    ("generation", "a{% generation %}b{{ n }}{% set z = 1 %}{% endgeneration %}c{{ z is defined }}"),
    ("joiner", "{% set c = joiner('; ') %}{% for x in l %}{{ c() }}{{ x }}{% endfor %}"),
    ("own list changed", "{% set a = [1] %}{% set _ = a.append(2) %}{% set _ = a.insert(0, 0) %}{{ a }}{{ a.pop() }}{{ a.pop(0) }}{{ a }}"
                         "{% set _ = a.extend([7, 8]) %}{{ a }}{% set _ = a.remove(7) %}{% set _ = a.reverse() %}{{ a }}"),
    ("own dict changed", "{% set a = {'x': 1} %}{% set _ = a.update({'y': 2}) %}{{ a }}{{ a.pop('x') }}{{ a }}{{ a.setdefault('z', 3) }}{{ a }}"),
    ("generator used up", "{% set g = l | select('odd') %}{{ g | list }}{{ g | list }}{% if l | select('gt', 9) %}true{% endif %}"),
    ("last user", "{% set ns = namespace(i=messages | length - 1) %}{% for m in messages[::-1] %}{% if m.role == 'user' %}"
                  "{% set ns.i = messages | length - 1 - loop.index0 %}{% break %}{% endif %}{% endfor %}{{ ns.i }}"),
    ("strftime", "{{ strftime_now('%Y-%m-%d %b %B %a') }}"),
    ("many keys", "{% set d = {'a1': 1, 'a2': 2, 'a3': 3, 'a4': 4, 'a5': 5, 'a6': 6, 'a7': 7, 'a8': 8, 'a9': 9, 'a0': 0} %}"
                  "{{ d.a9 }}{{ d['a1'] }}{{ d.zz is defined }}{{ d | length }}{{ 'a5' in d }}{{ d }}"),
    ("keys of several types", "{{ {1: 'a', 1.0: 'b', true: 'c', none: 'd', (1, 2): 'e', 'x': 'f'} }}"),
    ("break in set block", "{% for x in l %}{% set y %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endset %}{{ y }}{% endfor %}"),
    ("long chain", "{{ 'a'" + " + 'b'" * 200 + " }}"),
    ("unicode name", "{% set größe = 5 %}{{ größe }}"),
    ("dot number", "{{ l.0 }}{{ people.1.name }}"),
    ("colon", "{% if t: %}a{% endif %}{% for x in l: %}{{ x }}{% endfor %}"),
    # raised and failing
    ("raise", "{{ raise_exception('No é \"way\"') }}"),
    ("raise in macro", "a{% macro m(x) %}{{ raise_exception('bad ' ~ x) }}{% endmacro %}{% for i in l %}{{ m(i) }}{% endfor %}"),
    ("undefined attribute", "{{ missing.x }}"),
    ("undefined key", "{{ d.zzz.y }}"),
    ("undefined added", "{{ 'a' + missing }}"),
    ("undefined called", "{{ missing() }}"),
    ("undefined compared", "{{ missing < 1 }}"),
    ("text and number", "{{ 'a' + 1 }}"),
    ("number and text", "{{ 1 + 'a' }}"),
    ("not iterable", "{% for x in 5 %}{% endfor %}"),
    ("none not iterable", "{% for x in none %}{% endfor %}"),
    ("unpack too many", "{% set a, b = [1, 2, 3] %}"),
    ("unpack too few", "{% set a, b = [1] %}"),
    ("no length", "{{ 5 | length }}"),
    ("zero", "{{ 1 / 0 }}"),
    ("none plus", "{{ none + 'a' }}"),
    ("in number", "{{ 1 in 5 }}"),
    ("number in text", "{{ 1 in 'abc' }}"),
    ("unhashable", "{{ {[]: 1} }}"),
    ("tojson of undefined", "{{ missing | tojson }}"),
    ("generator has no length", "{{ l | select | length }}"),
    ("not a namespace", "{% set x = {} %}{% set x.a = 1 %}"),
    ("too many arguments", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
    ("unknown keyword", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}"),
    ("range too big", "{{ range(10**9) | length }}"),
    ("bad index", "{{ [1].index(5) }}"),
    # refused
    ("unknown tag", "a\n{% frob %}"),
    ("unclosed if", "{% if t %}a"),
    ("unclosed block", "{% if t "),
    ("unclosed variable", "{{ t "),
    ("unclosed comment", "a {# b"),
    ("unclosed string", "{{ 'a }}"),
    ("unclosed raw", "{% raw %}x"),
    ("wrong end", "{% if t %}{% endfor %}"),
    ("stray else", "{% else %}"),
    ("wrong bracket", "{{ (1] }}"),
    ("stray bracket", "{{ 1) }}"),
    ("empty variable", "{{ }}"),
    ("two expressions", "{{ 1 2 }}"),
    ("assign to number", "{% set 1 = 2 %}"),
    ("break outside", "{% break %}"),
    ("bad character", "{{ 1 ! 2 }}"),
    ("unknown filter", "{{ 1 | frob }}"),
    ("unknown test", "{{ 1 is frob }}"),
    ("keyword before positional", "{{ dict(a=1, 2) }}"),
    ("default before plain", "{% macro m(a=1, b) %}{% endmacro %}"),
]


def main():
    cases = []
    for i, e in enumerate(EXPRESSIONS):
        cases.append((f"expression {i + 1}", "{{ [" + e.replace("\\\\", "\\") + "] }}"))
    cases += TEMPLATES
    variables = {k: v for k, v in VARS.items() if k != "none"}
    out = []
    for name, template in cases:
        kind, text = reference(template, {"messages": [], **variables})
        if kind == "error" and name.startswith("expression"):
            sys.exit(f"{name}: {template}: {text}")
        out.append({"name": name, "template": template, "result": kind, "text": text if kind != "error" else ""})
    os.makedirs("tests/fixtures/template", exist_ok=True)
    with open("tests/fixtures/template/cases.json", "w") as f:
        json.dump({"made_by": "tools/make_template_cases.py", "variables": json.dumps({"messages": [], **variables}),
                   "cases": out}, f, indent=1)
        f.write("\n")
    print(f"{len(out)} cases")


main()
