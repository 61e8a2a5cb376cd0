#!/usr/bin/env python3
"""Random JSON Schemas against a real model: every answer that ends by itself must satisfy its schema, by PyPI's jsonschema.

    tools/check_schemas.py SLUICE MODEL [--n 200] [--seed 1] [--tokens 160] [--jobs 1]

Needs `pip install 'jsonschema[format]'`: without its extras the package checks formats by drafts long gone, or not at all.  Each schema is one run at temperature 1 (--temp 1 --top-k 0 --top-p 1 --min-p 0), so the
text is as unlikely as the grammar lets it be.  Prints a line per failure and a sum; exit code 1 when an answer does not validate or
a run fails.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile

import jsonschema
import rfc3339_validator  # noqa: F401 - jsonschema checks date-time and time by it

WORDS = ["name", "age", "city", "tags", "id", "price", "note", "kind", "ok", "items", "next", "é", "a b", 'q"x', "x\\y"]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "duration", "uri"]
PATTERNS = ["^[a-z]{2,8}$", "[0-9]+", "^(yes|no|maybe)$", "^\\d{3}-\\d{4}$", "^[A-Z][a-z]*( [A-Z][a-z]*){0,2}$", "x|^y", "^[^\"\\\\]{1,10}$"]


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.defs = {}

    def string(self):
        r = self.rng.random()
        s = {"type": "string"}
        if r < 0.2:
            s["pattern"] = self.rng.choice(PATTERNS)
            if self.rng.random() < 0.3:
                s["maxLength"] = self.rng.randint(10, 20)
        elif r < 0.45:
            s["format"] = self.rng.choice(FORMATS)
        elif r < 0.75:
            s["maxLength"] = self.rng.randint(3, 24)
            if self.rng.random() < 0.5:
                s["minLength"] = self.rng.randint(0, s["maxLength"])
        return s

    def number(self):
        s = {"type": self.rng.choice(["integer", "number"])}
        lo = self.rng.choice([-1000, -17, -1, 0, 0, 1, 5, 99])
        whole = s["type"] == "integer" or self.rng.random() < 0.5
        step = self.rng.choice([1, 3, 20, 1000]) if whole else self.rng.choice([0.5, 0.25, 3.125, 12.75])
        if self.rng.random() < 0.6:
            s[self.rng.choice(["minimum", "exclusiveMinimum"])] = lo
        if self.rng.random() < 0.6:
            s[self.rng.choice(["maximum", "exclusiveMaximum"])] = lo + 1 + step
        if s["type"] == "integer" and self.rng.random() < 0.2 and len(s) == 1:
            s["multipleOf"] = self.rng.choice([2, 5, 7, 10, 100])
        return s

    def constants(self):
        pool = ["red", "green", "", "a\"b", 1, -2.5, 10000000000, None, True, False, [1, "x"], {"k": [None]}, "日本"]
        if self.rng.random() < 0.3:
            return {"const": self.rng.choice(pool)}
        return {"enum": self.rng.sample(pool, self.rng.randint(1, 5))}

    def array(self, depth):
        s = {"type": "array"}
        if self.rng.random() < 0.3:
            s["prefixItems"] = [self.any(depth - 1) for _ in range(self.rng.randint(1, 3))]
            if self.rng.random() < 0.5:
                s["items"] = self.rng.choice([False, self.any(depth - 1)])
        else:
            s["items"] = self.any(depth - 1)
        if self.rng.random() < 0.5:
            s["minItems"] = self.rng.randint(0, 2)
        s["maxItems"] = self.rng.randint(s.get("minItems", 0), 4)
        return s

    def object(self, depth):
        names = self.rng.sample(WORDS, self.rng.randint(0, 4))
        s = {"type": "object", "properties": {n: self.any(depth - 1) for n in names}}
        s["required"] = [n for n in names if self.rng.random() < 0.6]
        r = self.rng.random()
        if r < 0.4:
            s["additionalProperties"] = False
        elif r < 0.55:
            s["additionalProperties"] = self.any(0)
        if self.rng.random() < 0.2:
            s["title"] = "A thing"
        return s

    def logic(self, depth):
        r = self.rng.random()
        if r < 0.5:
            return {"anyOf": [self.any(depth - 1) for _ in range(self.rng.randint(2, 3))]}
        if r < 0.75:
            a, b = self.object(depth - 1), self.object(depth - 1)
            for o in (a, b):
                o.pop("additionalProperties", None)
            for n in set(a["properties"]) & set(b["properties"]):
                del b["properties"][n]
                b["required"] = [x for x in b["required"] if x != n]
            return {"allOf": [a, b]}
        if self.defs:
            return {"$ref": "#/$defs/" + self.rng.choice(sorted(self.defs))}
        return {"type": self.rng.choice([["string", "null"], ["integer", "boolean"], ["null", "array"]])}

    def any(self, depth):
        kinds = [self.string, self.number, self.constants, lambda: {"type": "boolean"}, lambda: {"type": ["null", "string"], "maxLength": 8}]
        if depth > 0:
            kinds += [lambda: self.array(depth), lambda: self.object(depth), lambda: self.object(depth), lambda: self.logic(depth)]
        return self.rng.choice(kinds)()

    def schema(self):
        if self.rng.random() < 0.3:
            self.defs["node"] = {}
            self.defs["node"] = {
                "type": "object",
                "properties": {"value": self.any(0), "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                "required": ["value", "next"],
                "additionalProperties": False,
            }
        s = self.object(3)
        if self.defs:
            s["properties"]["list"] = {"$ref": "#/$defs/node"}
            s["$defs"] = self.defs
        return s


def run(sluice, model, schema, seed, tokens, work):
    path = work + "/schema.json"
    stats = work + "/stats.json"
    with open(path, "w") as f:
        json.dump(schema, f)
    prompt = "<|im_start|>user\nWrite an example of this JSON object.<|im_end|>\n<|im_start|>assistant\n"
    p = subprocess.run([sluice, "run", model, "--quiet", "-p", prompt, "-n", str(tokens), "--temp", "1", "--top-k", "0", "--top-p", "1",
                        "--min-p", "0", "--seed", str(seed), "--json-schema", path, "--stats-json", stats, "--ctx", "512"],
                       capture_output=True)
    if p.returncode != 0:
        return None, p.stderr.decode(errors="replace"), None
    with open(stats) as f:
        return p.stdout, None, json.load(f)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("sluice")
    ap.add_argument("model")
    ap.add_argument("--n", type=int, default=200)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--tokens", type=int, default=160)
    a = ap.parse_args()
    ended = cut = bad = refused = 0
    n_tok = seconds = 0
    with tempfile.TemporaryDirectory() as work:
        for i in range(a.seed, a.seed + a.n):
            schema = Maker(random.Random(i)).schema()
            jsonschema.Draft202012Validator.check_schema(schema)
            text, err, stats = run(a.sluice, a.model, schema, i, a.tokens, work)
            if text is None:
                refused += 1
                print(f"schema {i}: {err.strip()}\n    {json.dumps(schema)}")
                continue
            n_tok += stats["generated_tokens"]
            seconds += stats["decode_s"]
            if stats["finish"] != "end":
                cut += 1
                continue
            ended += 1
            try:
                value = json.loads(text.decode("utf-8"))
                checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
                checker.validate(value)
            except Exception as e:
                bad += 1
                print(f"schema {i}: does not validate: {str(e).splitlines()[0]}\n    {json.dumps(schema)}\n    {text!r}")
    print(f"{a.n} schemas: {ended} answers ended by themselves, {bad} of them invalid; {cut} were cut at {a.tokens} tokens; "
          f"{refused} runs failed; {n_tok} tokens, {1e3 * seconds / max(n_tok, 1):.2f} ms each")
    sys.exit(1 if bad or refused or not ended else 0)


if __name__ == "__main__":
    main()
