#!/usr/bin/env python3
"""Makes tests/fixtures/template/ids.json: conversations, and the ids of their prompts in real models.

    tools/make_chat_ids.py LLAMA_COMPLETION MODEL.gguf ...

The prompt is Jinja2's rendering of the model's own template, the ids are llama.cpp's (LLAMA_COMPLETION is its
llama-completion, which prints them); where `transformers` has other ids for the same text the script says so and stops,
except for digits, which transformers joins in SmolLM2's GGUF files because it ignores their pre-tokenizer.  Needs jinja2,
gguf and transformers.  Run from the repository's root."""
import json
import os
import re
import subprocess
import sys

import gguf
from transformers import AutoTokenizer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_templates import TOKENS, assistant, reference, system, user

CONVERSATIONS = [
    [user("Hello, world!")],
    [system("You are terse."), user("What is the capital of France?")],
    [user("Hi"), assistant("Hello! How can I help?"), user("Tell me about été, 日本語 and \U0001f600.")],
    [user("  spaces,\n\nlines\tand tabs  "), assistant("yes\n"), user("x = {'a': [1, 2.5]}; y += \"z\"")],
    [user("a")] + [m for i in range(9) for m in (assistant("word " * (i + 1)), user("and then?"))],
]


def token(fields, name):
    f = fields.get(f"tokenizer.ggml.{name}_token_id")
    return fields["tokenizer.ggml.tokens"].contents(int(f.contents())) if f else None


def by_llama(binary, model, text):
    out = subprocess.run([binary, "-m", model, "-p", text, "-n", "0", "--verbose-prompt", "-no-cnv", "--no-warmup", "-sp"],
                         capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    found = re.findall(r"^(?:[\d.]+ I )?\s*(\d+) -> '", out.stdout + out.stderr, re.M)
    if not found:
        sys.exit(out.stdout + out.stderr)
    return [int(i) for i in found]


def main():
    binary, models = sys.argv[1], sys.argv[2:]
    rows = []
    for model in models:
        fields = gguf.GGUFReader(model).fields
        template = fields["tokenizer.chat_template"].contents()
        tokens = {k: v for k in TOKENS if (v := token(fields, {"unk_token": "unknown", "pad_token": "padding"}.get(k, k[:3])))}
        hf = AutoTokenizer.from_pretrained(os.path.dirname(model), gguf_file=os.path.basename(model))
        for messages in CONVERSATIONS:
            kind, text = reference(template, {"messages": messages, "tools": None, "documents": None,
                                              "add_generation_prompt": True, **tokens})
            if kind != "ok":
                print(f"{os.path.basename(model)}: {kind}: {text}")
                continue
            ids, other = by_llama(binary, model, text), hf(text, add_special_tokens=False)["input_ids"]
            if ids != other:
                print(f"{os.path.basename(model)}: {len(ids)} ids of llama.cpp, {len(other)} of transformers: {text[:200]!r}")
                if not re.search(r"\d", text):
                    sys.exit("and no digit in it")
            rows.append({"model": os.path.basename(model), "request": json.dumps({"messages": messages}), "ids": ids})
    with open("tests/fixtures/template/ids.json", "w") as f:
        f.write('{"made_by": "tools/make_chat_ids.py", "rows": [\n')
        f.write(",\n".join(json.dumps(r) for r in rows))
        f.write("\n]}\n")
    print(f"{len(rows)} prompts")


main()
