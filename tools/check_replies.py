#!/usr/bin/env python3
"""Parses what real chat templates render back to the messages they were rendered from.

For each template that renders tool calls or reasoning: a conversation with one assistant message is rendered with Jinja2 as
transformers does; the assistant's part (what follows the generation prompt) goes through the library's reply parser, whole,
cut at every byte, and byte by byte, and the joined events and the final message must be the original.  Not part of
`make test`: it needs jinja2 and a folder of templates, for instance llama.cpp's models/templates.

  make build/libsluice.so.0
  tools/check_replies.py --templates DIR [--only NAME] [--write tests/fixtures/replies/rendered.jsonl] [--corpus fuzz/corpus/reply] [-v]

--write makes the fixture of tests/test_reply.c: a selection of the renderings with the messages expected of them.
Prints a line per template: the dialect found, how many renderings came back, and what the template did not render at all
(content beside calls, reasoning) and so nobody could bring back.
"""
import argparse
import copy
import ctypes
import datetime
import json
import os
import re
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

# ---- the library ----


class Event(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("text", ctypes.POINTER(ctypes.c_char)), ("n_bytes", ctypes.c_size_t),
                ("i_call", ctypes.c_uint32), ("id", ctypes.c_char_p), ("name", ctypes.c_char_p)]


EACH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Event))


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("dialect", ctypes.c_char_p), ("chat_template", ctypes.c_char_p),
                ("tokenizer", ctypes.c_void_p), ("prompt", ctypes.c_char_p), ("thinking", ctypes.c_int),
                ("tools", ctypes.c_char_p), ("id_seed", ctypes.c_uint64), ("max_bytes", ctypes.c_size_t),
                ("max_call_bytes", ctypes.c_size_t), ("each", EACH), ("user", ctypes.c_void_p)]


class Err(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("os_errno", ctypes.c_int), ("msg", ctypes.c_char * 768)]


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.sl_reply_dialect.restype = ctypes.c_char_p

    def parse(self, template, prompt, tools, pieces):
        """Feeds the pieces; returns (message from the library, message joined from events, dialect)."""
        joined = {"role": "assistant", "content": b"", "reasoning_content": b"", "tool_calls": []}

        def each(_, pointer):
            e = pointer.contents
            text = ctypes.string_at(e.text, e.n_bytes) if e.n_bytes else b""
            text.decode()  # whole characters only
            if e.kind < 2:
                joined["reasoning_content" if e.kind == 0 else "content"] += text
            elif e.kind == 2:
                assert e.i_call == len(joined["tool_calls"])
                joined["tool_calls"].append({"id": e.id.decode(), "type": "function",
                                             "function": {"name": e.name.decode(), "arguments": b""}})
            elif e.kind == 3:
                joined["tool_calls"][e.i_call]["function"]["arguments"] += text

        opt, err, r = Options(), Err(), ctypes.c_void_p()
        self.lib.sl_reply_options_init(ctypes.byref(opt))
        opt.chat_template, opt.prompt, opt.tools = template.encode(), prompt.encode(), tools.encode()
        opt.id_seed, opt.each = 7, EACH(each)
        self.must(self.lib.sl_reply_open(ctypes.byref(r), ctypes.byref(opt), ctypes.byref(err)), err)
        for p in pieces:
            self.must(self.lib.sl_reply_push(r, p, ctypes.c_size_t(len(p)), ctypes.byref(err)), err)
        self.must(self.lib.sl_reply_finish(r, ctypes.byref(err)), err)
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        self.must(self.lib.sl_reply_message(r, ctypes.byref(text), ctypes.byref(n), ctypes.byref(err)), err)
        message = json.loads(ctypes.string_at(text, n.value))
        dialect = self.lib.sl_reply_dialect(r).decode()
        self.lib.sl_reply_close(r)
        for c in joined["tool_calls"]:
            c["function"]["arguments"] = c["function"]["arguments"].decode()
        for k in ("content", "reasoning_content"):
            joined[k] = joined[k].decode()
        return message, joined, dialect

    def dialects(self):
        self.lib.sl_reply_dialect_count.restype = ctypes.c_size_t
        self.lib.sl_reply_dialect_name.restype = ctypes.c_char_p
        return [self.lib.sl_reply_dialect_name(ctypes.c_size_t(i)).decode() for i in range(self.lib.sl_reply_dialect_count())]

    @staticmethod
    def must(rc, err):
        if rc:
            raise RuntimeError(err.msg.decode())


# ---- rendering as transformers does ----


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    def is_safe_attribute(self, obj, attr, value):
        # two Kimi templates append to a list of their own, which the strict sandbox refuses
        if isinstance(obj, list) and attr in ("append", "pop"):
            return True
        return super().is_safe_attribute(obj, attr, value)


def environment():
    env = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = datetime.datetime(2026, 1, 2, 3, 4, 5).strftime
    return env


# ---- conversations ----


# Renderings that no parser could bring back: the template puts a string between quotes without escaping the quotes in it.
CANNOT = {("LFM2.5-8B-A1B", "hard quotes/said")}


def function(name, **properties):
    return {"type": "function", "function": {"name": name, "description": "Does " + name, "parameters": {
        "type": "object", "properties": {k: dict({"type": t, "description": k}, **({"additionalProperties": {"type": "string"}} if t == "object" else
                                                                {"items": {"type": "string"}} if t == "array" else {}))
                                         for k, t in properties.items()},
        "required": list(properties)[:1], "additionalProperties": False}}}


TOOLS = [function("write_file", path="string", text="string", mode="integer", executable="boolean"),
         function("search", query="string", limit="integer", exact="boolean", filter="object", tags="array", weight="number"),
         function("ping")]

HARD = {"quotes": 'say "hi", it\'s \\ok\\', "lines": "a\n  b\n\tc\nd", "unicode": "Zürich 日本 😀 é", "tags": "<a>b</a> </x </", "empty": "",
        "number": "007", "json": '{"not": "an object"}', "python": "None", "brace": "}}]{[", "spaces": "  two  "}

CALLS = {
    "plain": [("search", {"query": "bread", "limit": 3})],
    "types": [("search", {"query": "bread", "limit": -3, "exact": True, "filter": {"k": [1, 2.5, "x", {"y": False}]},
                          "tags": ["a", "b c"], "weight": 0.25})],
    "two": [("search", {"query": "first"}), ("write_file", {"path": "/tmp/a b", "text": "hello", "mode": 420, "executable": False})],
    "none": [("ping", {})],
}
for _k, _v in HARD.items():
    CALLS["hard " + _k] = [("write_file", {"path": "x", "text": _v})]

TEXTS = {
    "all": ("I will look.\n\n- one\n- two", "First think,\nthen act. <b>"),
    "reasoned": ("", "Only a thought."),
    "said": ("Let me see: a < b, `[x]`.", ""),
    "silent": ("", ""),
}


def conversations():
    """(name, assistant message)."""
    for k, calls in CALLS.items():
        for t in ("all", "silent") if k in ("plain", "two") else ("said",):
            yield k + "/" + t, assistant(*TEXTS[t], calls)
    yield "answer/reasoned", assistant("The answer is 42.", "It is known.", [])
    yield "answer/plain", assistant("Hello there.", "", [])


def assistant(content, reasoning, calls):
    m = {"role": "assistant", "content": content}
    if reasoning:
        m["reasoning_content"] = reasoning
        m["reasoning"] = m["thinking"] = reasoning
    if calls:
        m["tool_calls"] = [{"id": "call%05d" % i, "type": "function", "function": {"name": n, "arguments": a}}
                           for i, (n, a) in enumerate(calls)]
    return m


# ---- the assistant's part ----

ENDS = ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<EOS>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<turn|>", "<|tool_response>",
        "<|role_end|>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<｜end▁of▁sentence｜>", "<seed:eos>",
        "[e~[", "<|message_sep|>", "<SPECIAL_12>", "</assistant>", "<sep>", "<end_of_sentence>", "<|end_of_text|>", "<|end_of_msg|>",
        "<｜hy_eos:opensource｜>", "<end_of_turn>", "<|eot|>", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>", "<|assistant_end|>"]


def cut_end(text):
    """Without the tokens that end the turn: generation stops before them."""
    while True:
        t = text.rstrip("\n")
        for e in ENDS:
            if t.endswith(e):
                text = t[:-len(e)]
                break
        else:
            return text


def forms(message):
    """The message as templates may want it: arguments as object or string, reasoning in a field or as a content part."""
    for strings in (False, True):
        m = copy.deepcopy(message)
        for c in m.get("tool_calls", []) if strings else []:
            c["function"]["arguments"] = json.dumps(c["function"]["arguments"], ensure_ascii=False)
        yield m
        if "reasoning_content" in m:
            fewer = copy.deepcopy(m)
            del fewer["thinking"]
            yield fewer
            parts = [{"type": "thinking", "thinking": m["reasoning_content"]}]
            parts += [{"type": "text", "text": m["content"]}] if m["content"] else []
            yield dict(fewer, content=parts)


def render(template, message):
    """(prompt, whole conversation) in the form that loses least; raises when none renders."""
    history = [{"role": "user", "content": "Hi"}]
    args = dict(functions="[]", datetime="now", bos_token="<BOS>", eos_token="<EOS>",
                enable_thinking="reasoning_content" in message)
    best, error = None, None
    for m in forms(message):
        try:
            prompt = template.render(messages=copy.deepcopy(history), tools=copy.deepcopy(TOOLS), add_generation_prompt=True, **args)
            full = template.render(messages=history + [m], tools=copy.deepcopy(TOOLS), add_generation_prompt=False, **args)
        except Exception as e:
            error = error or e
            continue
        if re.search(r"""type['"]: ['"]thinking""", full):  # printed the part as it is
            continue
        n = sum(message.get(k, "") in full for k in ("content", "reasoning_content"))
        if not best or n > best[0]:
            best = n, prompt, full
    if not best:
        raise error
    return best[1:]


OPENERS = ("<think>", "<|START_THINKING|>", "Here are my reasoning steps:", "<think:opensource>")
# Templates that write one message as two turns of the model: the border goes.
BORDERS = ["\n<SPECIAL_12>\n<SPECIAL_11>Assistant\n", "<｜end▁of▁sentence｜><｜Assistant｜>"]


def assistant_part(prompt, full, message):
    """The prompt, and what the model would have written behind it."""
    common = os.path.commonprefix([prompt, full])
    rest, text = prompt[len(common):], full[len(common):]
    if rest.strip() and not (rest.strip() in OPENERS and message.get("reasoning_content", "\0") in text):
        # past turns leave out what the prompt opens (a thought): continue where both agree
        while common and not common.endswith((">", "\n", "]", ": ")):
            common = common[:-1]
        if rest.strip() in OPENERS and full[len(common):].lstrip().startswith("</"):
            common = prompt[:len(common) + len(rest)] if prompt.startswith(common) else common
            text = full[len(common) - len(rest):]
        else:
            text = full[len(common):]
        prompt = common
    text = cut_end(text)
    for b in BORDERS:
        text = text.replace(b, "")
    text = text.split("<|START_OF_TURN_TOKEN|>")[0].removeprefix("<|CHATBOT_TOKEN|>")
    text = cut_end(text)
    if prompt.endswith(":"):
        text = text.removeprefix(" ")
    if prompt.rstrip().endswith("<think>") and "</think>" not in text and (message.get("reasoning_content") or "\0") not in text:
        prompt = prompt.rstrip()[:-7]  # content behind a thought that the template opens and never closes
    return prompt, text


def held(message, text):
    """The message without the texts that the template left out, and what they were: nobody could bring them back."""
    m, lost = copy.deepcopy(message), []
    for k in ("content", "reasoning_content"):
        if m.get(k) and m[k].strip() not in text:
            m[k] = ""
            lost.append(k)
    calls = [c for c in m.get("tool_calls", []) if c["function"]["name"] in text]
    if len(calls) < len(m.get("tool_calls", [])):
        lost.append("the second call" if calls else "calls")
        m["tool_calls"] = calls
    return m, lost


def same_value(a, b):
    return a == b and type(a) is type(b) or isinstance(a, (int, float)) and isinstance(b, (int, float)) and \
        not isinstance(a, bool) and not isinstance(b, bool) and a == b or \
        isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys() and all(same_value(a[k], b[k]) for k in a) or \
        isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(map(same_value, a, b))


def differences(got, want):
    out = []
    for k in ("content", "reasoning_content"):
        if (got.get(k) or "") != (want.get(k) or ""):
            out.append("%s is %r, not %r" % (k, got.get(k), want.get(k)))
    a, b = got.get("tool_calls", []), want.get("tool_calls", [])
    if len(a) != len(b):
        out.append("%d calls, not %d" % (len(a), len(b)))
    for x, y in zip(a, b):
        if x["function"]["name"] != y["function"]["name"]:
            out.append("called %r" % x["function"]["name"])
        if not same_value(json.loads(x["function"]["arguments"]), y["function"]["arguments"]):
            out.append("arguments %s, not %r" % (x["function"]["arguments"], y["function"]["arguments"]))
    return out


def joined_differs(message, joined):
    return (message["content"] or "") != joined["content"] or message.get("reasoning_content", "") != joined["reasoning_content"] \
        or message.get("tool_calls", []) != joined["tool_calls"]


def cuts(text, every):
    yield [text]
    yield [text[i:i + 1] for i in range(len(text))]
    if every:
        for i in range(1, len(text)):
            yield [text[:i], text[i:]]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--templates", required=True)
    p.add_argument("--library", default="build/libsluice.so.0")
    p.add_argument("--only", default="")
    p.add_argument("--write")
    p.add_argument("--corpus")
    p.add_argument("-v", action="store_true")
    a = p.parse_args()
    lib, env, bad, kept = Library(os.path.abspath(a.library)), environment(), 0, []
    for name in sorted(os.listdir(a.templates)):
        if name.endswith(".jinja") and a.only in name:
            with open(os.path.join(a.templates, name), encoding="utf-8") as f:
                bad += check(lib, env, name[:-6], f.read(), kept, a.v)
    if a.write:
        with open(a.write, "w", encoding="utf-8") as f:
            f.write(json.dumps(TOOLS) + "\n")
            for row in kept:
                f.write(json.dumps(row, ensure_ascii=False) + "\n")
    if a.corpus:  # one seed per dialect for fuzz/fuzz_reply.c
        names = lib.dialects()
        for row in reversed(kept):
            with open(os.path.join(a.corpus, row["dialect"]), "wb") as f:
                f.write(bytes([names.index(row["dialect"]), 128 + 5]) + row["text"].encode())
    print("%d renderings did not come back" % bad)
    return bad > 0


FIXTURE = ["two/all", "types/said", "hard quotes/said", "hard tags/said", "answer/reasoned"]
HINTS = ["</think>", "</seed:think>", "[/THINK]", "<|END_THINKING|>", "<|inner_suffix|>", "[BEGIN FINAL RESPONSE]"]


def fixture_row(name, what, source, dialect, prompt, text, message):
    """What tests/test_reply.c needs: no template, only which marker of thinking it shows and how its prompt ends."""
    calls = [{"name": c["function"]["name"], "arguments": c["function"]["arguments"]} for c in message.get("tool_calls", [])]
    return {"template": name, "case": what, "dialect": dialect, "hints": next((h for h in HINTS if h in source), ""),
            "prompt": prompt[-40:], "text": text,
            "message": {"content": message["content"], "reasoning_content": message.get("reasoning_content", ""), "tool_calls": calls}}


def check(lib, env, name, source, kept, verbose):
    template, good, bad, lost, dialect = env.from_string(source), 0, 0, [], "?"
    for what, message in conversations():
        if (name, what) in CANNOT:
            lost.append(what)
            continue
        try:
            prompt, full = render(template, message)
        except Exception as error:
            lost += [w for w in ["raises '%s'" % str(error)[:60]] if w not in lost]
            continue
        prompt, text = assistant_part(prompt, full, message)
        if "<|channel|>commentary" in text and message["content"]:  # gpt-oss's template writes such content as a thought
            message = dict(message, content="", reasoning_content=message["content"])
        message, gone = held(message, text)
        text = text if message.get("tool_calls") else text.rstrip("\n")
        lost += [k for k in gone if k not in lost]
        problems = []
        for pieces in cuts(text.encode(), what.endswith("/all") or verbose):
            got, joined, dialect = lib.parse(source, prompt, json.dumps(TOOLS), pieces)
            problems = differences(got, message)
            if joined_differs(got, joined):
                problems.append("events joined differ")
            if problems:
                break
        if problems:
            bad += 1
            if verbose:
                print("  %s: %s\n    %r" % (what, "; ".join(problems), text))
        good += not problems
        if not problems and what in FIXTURE:
            row = fixture_row(name, what, source, dialect, prompt, text, message)
            if not any(all(row[k] == r[k] for k in ("dialect", "hints", "text", "prompt")) for r in kept):
                kept.append(row)
    print("%-55s %-18s %3d of %3d%s" % (name, dialect, good, good + bad, "; lost: " + ", ".join(lost) if lost else ""))
    return bad


if __name__ == "__main__":
    sys.exit(main())
