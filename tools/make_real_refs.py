#!/usr/bin/env python3
"""Makes tests/fixtures/real/<model>: what transformers (float32) and llama.cpp answer for the small real models.

    tools/make_real_refs.py PEER MODELS FULL [OUT] [--only MODEL]       OUT: tests/fixtures/real

PEER has llama.cpp's libraries and peer_ref (see make_fixtures.py), MODELS is where tools/fetch_models put the files, FULL
gets the complete logits: FULL/<model>/textN.f32, raw float32 [n][vocab] (0.5 GB for gemma3), which tools/check_real takes.

transformers reads the GGUF file itself (weights dequantised to float32, eager attention). Token ids are llama.cpp's, since
transformers ignores a GGUF tokenizer's pre-tokenizer. For each model OUT/<model>/ then holds

    texts.txt       a text per line, newline as \\n, tab as \\t, backslash as \\\\
    ids.txt         its ids, comma separated (BOS included where the model asks for it)
    logits.bin      the compact form of the float32 logits, little-endian:
                        u8  "SLRF";  u32 version = 1, n_texts, n_vocab, n_top = 16, n_fixed = 256
                        u32 fixed[n_fixed]                  vocabulary ids, ascending, the same for all positions
                        per text:      u32 n_pos;  u32 ids[n_pos]
                          per position:  f32 log_sum_exp;  u32 top_id[n_top];  f32 top_logit[n_top] (best first);
                                         f32 fixed_logit[n_fixed]
    prompts.txt     the prompts of the greedy runs, written like texts.txt
    greedy-llamacpp.jsonl, greedy-f32.jsonl
                    per prompt {"prompt_ids": [...], "ids": [64 ids], "gap": [best minus second best logit]}: llama.cpp
                    as it comes (f16 KV, 8-bit activations, 2 threads) and transformers in float32
    summary.json    llama.cpp's distance from float32 over the texts (kl_mean is the bound for our own), kl_top_mean the same
                    from the 16 best and the rest as one event; perplexities of tests/fixtures/text/prose.txt, by
                    llama-perplexity's method: chunks of 512 (first token BOS if the model asks), second half scored
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {"smollm2": "smollm2-135m-instruct-q4_1.gguf", "gemma3": "gemma-3-270m-q4_k_m.gguf"}
N_TOP, N_FIXED, N_GREEDY, CTX = 16, 256, 64, 512
FIXED_SEED = 20260602


def escape(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def write_lines(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


class LlamaCpp:
    def __init__(self, peer, model):
        libs = peer / "nlc/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
        self.command = [str(peer / "peer_ref"), "-m", str(model), "-b", str(libs)]

    def run(self, *args):
        return subprocess.run(self.command + list(map(str, args)), check=True, capture_output=True, text=True).stdout

    def tokenize(self, path):
        return [[int(i) for i in line.split(",")] for line in self.run("tokenize", path).splitlines()]

    def logits(self, ids):
        with tempfile.NamedTemporaryFile() as f:
            self.run("logits", ",".join(map(str, ids)), f.name)
            return np.fromfile(f.name, "<f4").reshape(len(ids), -1)


class Float32:
    def __init__(self, model):
        import torch
        import transformers
        self.torch = torch
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            str(model.parent), gguf_file=model.name, dtype=torch.float32, attn_implementation="eager").eval()

    def logits(self, ids):
        with self.torch.no_grad():
            return self.model(self.torch.tensor([ids]), use_cache=False).logits[0].numpy()

    def greedy(self, ids, n):
        made, gaps = [], []
        with self.torch.no_grad():
            out = self.model(self.torch.tensor([ids]), use_cache=True)
            while True:
                two = self.torch.topk(out.logits[0, -1], 2)
                made.append(int(two.indices[0]))
                gaps.append(round(float(two.values[0] - two.values[1]), 4))
                if len(made) == n:
                    return {"prompt_ids": ids, "ids": made, "gap": gaps}
                out = self.model(self.torch.tensor([[made[-1]]]), past_key_values=out.past_key_values, use_cache=True)


def compact(texts_ids, logits_of, n_vocab):
    fixed = np.sort(np.random.default_rng(FIXED_SEED).choice(n_vocab, N_FIXED, replace=False)).astype("<u4")
    out = [b"SLRF", struct.pack("<5I", 1, len(texts_ids), n_vocab, N_TOP, N_FIXED), fixed.tobytes()]
    for ids, logits in zip(texts_ids, logits_of):
        out += [struct.pack("<I", len(ids)), np.array(ids, "<u4").tobytes()]
        for row in logits:
            top = np.argsort(-row, kind="stable")[:N_TOP]
            wide = row.astype(np.float64)
            lse = wide.max() + np.log(np.exp(wide - wide.max()).sum())
            out += [struct.pack("<f", lse), top.astype("<u4").tobytes(), row[top].astype("<f4").tobytes(),
                    row[fixed].astype("<f4").tobytes()]
    return b"".join(out)


def top_divergence(ref, x):
    """KL of the distribution over ref's 16 best tokens and everything else as one event; what logits.bin allows."""
    from compare_logits import log_softmax
    total = 0.0
    for r, y in zip(ref, x):
        lr, ly = log_softmax(r), log_softmax(y)
        top = np.argsort(-r, kind="stable")[:N_TOP]
        p, q = np.exp(lr[top]), np.exp(ly[top])
        p, q = np.append(p, max(1 - p.sum(), 1e-12)), np.append(q, max(1 - q.sum(), 1e-12))
        total += np.sum(p * np.log(p / q))
    return total / len(ref)


def perplexity(model, ids, bos):
    from compare_logits import log_softmax
    nll, counted = 0.0, 0
    for k in range(len(ids) // CTX):
        chunk = list(ids[k * CTX:(k + 1) * CTX])
        if bos is not None:
            chunk[0] = bos
        logits = model.logits(chunk)
        for i in range(CTX // 2, CTX - 1):
            nll -= log_softmax(logits[i])[chunk[i + 1]]
            counted += 1
    return {"tokens": len(ids), "chunks": len(ids) // CTX, "ctx": CTX, "counted": counted,
            "perplexity": round(float(np.exp(nll / counted)), 5)}


def make(name, path, peer, full, out):
    import texts
    from compare_logits import compare, summary
    print(name)
    out.mkdir(parents=True, exist_ok=True)
    full.mkdir(parents=True, exist_ok=True)
    llama_cpp, exact = LlamaCpp(peer, path), Float32(path)
    write_lines(out / "texts.txt", [escape(t) for _, t in texts.TEXTS])
    write_lines(out / "prompts.txt", [escape(t) for t in texts.PROMPTS])
    texts_ids = llama_cpp.tokenize(out / "texts.txt")
    write_lines(out / "ids.txt", [",".join(map(str, ids)) for ids in texts_ids])

    rows, logits_of, parts, top_kl = [], [], [], []
    for k, ids in enumerate(texts_ids):
        ref, theirs = exact.logits(ids), llama_cpp.logits(ids)
        assert ref.shape == theirs.shape, (ref.shape, theirs.shape)
        ref.astype("<f4").tofile(full / ("text%d.f32" % k))
        theirs.astype("<f4").tofile(full / ("text%d.llamacpp.f32" % k))
        c = compare(ref, theirs)
        parts.append(c)
        top_kl.append(top_divergence(ref, theirs))
        rows.append(dict(name=texts.TEXTS[k][0], **summary(c)))
        logits_of.append(ref)
        print("  %-12s %3d positions, llama.cpp: rel L2 max %.4f mean %.4f, KL mean %.5f, clear %d of %d" % (
            rows[-1]["name"], len(ids), rows[-1]["rel_l2_max"], rows[-1]["rel_l2_mean"], rows[-1]["kl_mean"],
            rows[-1]["clear_agree"], rows[-1]["clear"]), flush=True)
    (out / "logits.bin").write_bytes(compact(texts_ids, logits_of, logits_of[0].shape[1]))
    whole = {k: np.concatenate([c[k] for c in parts]) for k in parts[0]}
    counts = [len(ids) for ids in texts_ids]
    theirs = dict(summary(whole), kl_top_mean=float(np.average(top_kl, weights=counts)), texts=rows)
    del logits_of

    (out / "greedy-llamacpp.jsonl").write_text(llama_cpp.run("greedy", N_GREEDY, out / "prompts.txt"))
    prompts = [json.loads(line)["prompt_ids"] for line in (out / "greedy-llamacpp.jsonl").open()]
    write_lines(out / "greedy-f32.jsonl", [json.dumps(exact.greedy(ids, N_GREEDY), separators=(",", ":")) for ids in prompts])

    prose = HERE.parent / "tests/fixtures/text/prose.txt"
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
        f.write(escape(prose.read_text(encoding="utf-8")) + "\n")
        f.flush()
        ids = llama_cpp.tokenize(f.name)[0]
    bos = texts_ids[0][0] if all(t[0] == texts_ids[0][0] for t in texts_ids) else None
    ppl = {"float32": perplexity(exact, ids, bos), "llamacpp": json.loads(llama_cpp.run("perplexity", CTX, prose))}
    (out / "summary.json").write_text(json.dumps(
        {"model": path.name, "llamacpp": theirs, "perplexity": ppl}, indent=1) + "\n")
    print("  llama.cpp over all: rel L2 max %.4f mean %.4f, KL mean %.6f (from the top 16: %.6f), clear %d of %d" % (
        theirs["rel_l2_max"], theirs["rel_l2_mean"], theirs["kl_mean"], theirs["kl_top_mean"], theirs["clear_agree"],
        theirs["clear"]))
    print("  perplexity " + json.dumps(ppl), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Makes the real models' references; see the head of this file.")
    parser.add_argument("peer", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("full", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, nargs="?", default=HERE.parent / "tests/fixtures/real")
    parser.add_argument("--only", choices=list(MODELS))
    args = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1", PYTHONWARNINGS="ignore")
    sys.path.insert(0, str(HERE))
    import warnings
    warnings.simplefilter("ignore")
    for name, file in MODELS.items():
        if args.only in (None, name):
            make(name, (args.models / file).resolve(), args.peer.resolve(), args.full / name, args.out / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
