#!/usr/bin/env python3
"""Writes GGUF files with the shapes of real models and random weights: speed depends on shapes and types, not on values.

    bench/make_shapes.py DIR [--shape qwen3-0.6b qwen3-4b] [--type q4_0 q8_0] [--quantize LLAMA_QUANTIZE]
    bench/make_shapes.py DIR --shape qwen3moe-9b --type q4_0 [--router-skew 0.45]        8.8 GB: minutes

Each file is DIR/SHAPE-TYPE.gguf; one that is there is left alone.  Types written here: q4_0, q8_0.  Others (q4_k, say) are
made from the q8_0 file by llama.cpp's llama-quantize, whose path --quantize names; its mix of types is then llama.cpp's.

Of mixtures of experts (qwen3moe-9b: half the layers of Qwen3 30B-A3B; qwen3moe-tiny: to try it) values do matter, since they
route: weights are scaled so that each token's state is its own and keeps its size.  Experts are then chosen about evenly;
--router-skew S (file SHAPE-skewS-TYPE.gguf) makes router row after row smaller, the k-th by k^-S, in an order of each layer's
own, so that some experts are chosen far more often.
Needs numpy.
"""

import argparse
import math
import pathlib
import struct
import subprocess

import numpy

# layers, width, query heads, key heads, head width, MLP width; all share the vocabulary's size; these tie the head
DENSE = {
    "qwen3-0.6b": (28, 1024, 16, 8, 128, 3072),
    "qwen3-4b": (36, 2560, 32, 8, 128, 9728),
}
# the same (no layer uses the MLP's width) and experts, experts of a token, an expert's width; the head is a matrix of its own
MIXTURES = {
    "qwen3moe-9b": (24, 2048, 32, 4, 128, 6144, 128, 8, 768),
    "qwen3moe-tiny": (2, 256, 4, 2, 64, 512, 8, 2, 256),
}
SHAPES = DENSE | MIXTURES
VOCAB, CONTEXT = 151936, 40960
F32, Q4_0, Q8_0 = 0, 2, 8  # ggml's numbers
TYPES = {"q4_0": (Q4_0, 16, 4.6, 2), "q8_0": (Q8_0, 32, 73.9, 7)}  # number, bytes of codes in 32, their deviation, file_type
QUANTIZED = {"q4_k": "Q4_K_M", "q5_k": "Q5_K_M", "q6_k": "Q6_K"}
ALIGN = 32


# ---- metadata ----

def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(key, kind, value):
    """kind: the struct letter of a number, 's' for a text, 'as' and 'ai' for lists of them."""
    number = {"I": 4, "i": 5, "f": 6, "?": 7, "s": 8, "as": 9, "ai": 9}[kind]
    out = text(key) + struct.pack("<I", number)
    if kind == "as":
        return out + struct.pack("<IQ", 8, len(value)) + b"".join(map(text, value))
    if kind == "ai":
        return out + struct.pack("<IQ", 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    return out + (text(value) if kind == "s" else struct.pack("<" + kind, value))


def vocabulary():
    """The 256 byte tokens under GPT-2's names, then words of letters with the merges that build them, then an end."""
    plain = [b for b in range(256) if chr(b).isprintable() and not chr(b).isspace() and b != 0xAD]
    names = [chr(b) for b in plain]
    names += [chr(256 + i) for i in range(256 - len(plain))]
    letters, merges = [chr(c) for c in range(97, 123)], []
    words = ["\u0120"] + letters  # a word begins with a space or not
    for left in words:  # grows while it is walked: breadth first
        for right in letters:
            if len(names) == VOCAB - 1:
                return names + ["<|endoftext|>"], merges
            merges.append(f"{left} {right}")
            names.append(left + right)
            words.append(left + right)


def metadata(name, shape, file_type):
    layers, width, heads, heads_kv, head_width, mlp, *experts = shape
    names, merges = vocabulary()
    family = "qwen3moe" if experts else "qwen3"
    q = family + "."
    keys = ("expert_count", "expert_used_count", "expert_feed_forward_length")
    return [
        entry("general.architecture", "s", family), entry("general.name", "s", f"random weights in the shape of {name}"),
        entry("general.file_type", "I", file_type), entry("general.quantization_version", "I", 2),
        entry(q + "block_count", "I", layers), entry(q + "context_length", "I", CONTEXT),
        entry(q + "embedding_length", "I", width), entry(q + "feed_forward_length", "I", mlp),
        entry(q + "attention.head_count", "I", heads), entry(q + "attention.head_count_kv", "I", heads_kv),
        entry(q + "attention.key_length", "I", head_width), entry(q + "attention.value_length", "I", head_width),
        entry(q + "attention.layer_norm_rms_epsilon", "f", 1e-6), entry(q + "rope.freq_base", "f", 1e6),
        *(entry(q + key, "I", n) for key, n in zip(keys, experts)),
        entry("tokenizer.ggml.model", "s", "gpt2"), entry("tokenizer.ggml.pre", "s", "qwen2"),
        entry("tokenizer.ggml.tokens", "as", names), entry("tokenizer.ggml.token_type", "ai", [1] * (VOCAB - 1) + [3]),
        entry("tokenizer.ggml.merges", "as", merges), entry("tokenizer.ggml.eos_token_id", "I", VOCAB - 1),
        entry("tokenizer.ggml.add_bos_token", "?", False),
    ]


# ---- tensors ----

def tensors(shape):
    """(name, inputs, outputs); outputs 0: a vector of norm weights.  The outputs of a layer's experts are in one tensor."""
    layers, width, heads, heads_kv, head_width, mlp, *experts = shape
    yield "token_embd.weight", width, VOCAB
    for i in range(layers):
        b = f"blk.{i}."
        yield b + "attn_norm.weight", width, 0
        yield b + "attn_q.weight", width, heads * head_width
        yield b + "attn_k.weight", width, heads_kv * head_width
        yield b + "attn_v.weight", width, heads_kv * head_width
        yield b + "attn_q_norm.weight", head_width, 0
        yield b + "attn_k_norm.weight", head_width, 0
        yield b + "attn_output.weight", heads * head_width, width
        yield b + "ffn_norm.weight", width, 0
        if not experts:
            yield b + "ffn_gate.weight", width, mlp
            yield b + "ffn_up.weight", width, mlp
            yield b + "ffn_down.weight", mlp, width
            continue
        n, _, expert_width = experts
        yield b + "ffn_gate_inp.weight", width, n
        yield b + "ffn_gate_exps.weight", width, n * expert_width
        yield b + "ffn_down_exps.weight", expert_width, n * width
        yield b + "ffn_up_exps.weight", width, n * expert_width
    yield "output_norm.weight", width, 0
    if experts:
        yield "output.weight", width, VOCAB


def is_router(name):
    return name.endswith("ffn_gate_inp.weight")


def tensor_info(name, kind, n_in, n_out, experts, at):
    """The entry of the file's table of tensors."""
    n = experts[0] if "_exps." in name else 0
    dims = (n_in, n_out // n, n) if n else (n_in, n_out) if n_out else (n_in,)
    number = TYPES[kind][0] if n_out and not is_router(name) else F32
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, at)


def tensor_bytes(name, kind, n_in, n_out):
    if is_router(name) or not n_out:
        return 4 * n_in * (n_out or 1)
    return n_in // 32 * n_out * (2 + TYPES[kind][1])


def blocks(rng, kind, n, deviation):
    """n blocks of 32: random codes under a scale, of either sign, that gives the weights their deviation."""
    _, code_bytes, code_deviation, _ = TYPES[kind]
    out = rng.integers(0, 256, (n, 2 + code_bytes), dtype=numpy.uint8)
    scale = rng.uniform(0.6, 1.4, n) * rng.choice((-1.0, 1.0), n) * deviation / code_deviation
    out[:, :2] = scale.astype("<f2").view(numpy.uint8).reshape(n, 2)
    return out.tobytes()


def router(rng, n_in, n_out, skew):
    """A larger row makes larger scores, so its expert is chosen more often; the mean row keeps its size."""
    size = (1.0 + rng.permutation(n_out)) ** -skew
    return (rng.normal(0, 1 / math.sqrt(n_in), (n_out, n_in)) * (size / size.mean())[:, None]).astype("<f4").tobytes()


def deviation_of(name, n_in, layers, experts):
    """So that the residual stream keeps its size through the layers; in a mixture what reads it gives numbers of size one, and
    an embedding is large beside what a layer adds."""
    if experts and name.startswith("token_embd"):
        return 1.0
    adds = name.endswith(("attn_output.weight", "ffn_down_exps.weight"))
    return 1 / math.sqrt(n_in * (2 * layers if adds or not experts else 1))


def write_tensor(f, rng, kind, name, n_in, n_out, shape, skew):
    if not n_out:
        f.write(rng.normal(1, 0.1, n_in).astype("<f4").tobytes())
        return
    if is_router(name):
        f.write(router(rng, n_in, n_out, skew))
        return
    deviation = deviation_of(name, n_in, shape[0], shape[6:])
    left = n_in // 32 * n_out
    while left:
        n = min(left, 1 << 18)
        f.write(blocks(rng, kind, n, deviation))
        left -= n


def pad(n):
    return -n % ALIGN


def write(path, name, kind, skew):
    shape = SHAPES[name]
    rng = numpy.random.default_rng(2026)
    meta, listed, at = metadata(name, shape, TYPES[kind][3]), [], 0
    for t, n_in, n_out in tensors(shape):
        listed.append(tensor_info(t, kind, n_in, n_out, shape[6:], at))
        size = tensor_bytes(t, kind, n_in, n_out)
        at += size + pad(size)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(meta)) + b"".join(meta) + b"".join(listed)
    part = path.with_suffix(".part")
    with open(part, "wb") as f:
        f.write(head + bytes(pad(len(head))))
        for t, n_in, n_out in tensors(shape):
            write_tensor(f, rng, kind, t, n_in, n_out, shape, skew)
            f.write(bytes(pad(tensor_bytes(t, kind, n_in, n_out))))
    part.rename(path)


def quantize(tool, path, name, kind, skew):
    source = path.with_name(path.name.replace(kind, "q8_0"))
    if not source.exists():
        write(source, name, "q8_0", skew)
    part = path.with_suffix(".part")
    subprocess.run([tool, "--allow-requantize", str(source), str(part), QUANTIZED[kind]], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    part.rename(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--shape", nargs="+", choices=SHAPES, default=list(DENSE))
    p.add_argument("--type", nargs="+", choices=[*TYPES, *QUANTIZED], default=list(TYPES))
    p.add_argument("--quantize", metavar="LLAMA_QUANTIZE")
    p.add_argument("--router-skew", type=float, default=0.0, metavar="S", help="of mixtures: 0 even, 1 very uneven")
    a = p.parse_args()
    a.dir.mkdir(parents=True, exist_ok=True)
    for name in a.shape:
        for kind in a.type:
            skew = a.router_skew if name in MIXTURES else 0
            path = a.dir / (f"{name}-skew{skew:g}-{kind}.gguf" if skew else f"{name}-{kind}.gguf")
            if path.exists():
                continue
            if kind in TYPES:
                write(path, name, kind, skew)
            elif a.quantize:
                quantize(a.quantize, path, name, kind, skew)
            else:
                p.error(f"{kind} takes --quantize")
            print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
