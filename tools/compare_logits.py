#!/usr/bin/env python3
"""Compares logits: how far is X from REF, position by position.

    tools/compare_logits.py REF X [--vocab N] [--quiet] [--json]

REF and X are .npy files (float32, [n][vocab] or [vocab]) or raw little-endian float32, whose width is N or that of the
other file. Prints per position the relative L2 distance, KL(REF || X) in nats, both best tokens and REF's gap between its
two best; then the largest and mean distance, the mean divergence, and how often the best tokens agree where REF's gap is
above 0.5. Always exits 0 if the files could be compared: bounds are the caller's.
"""

import argparse
import json
import sys

import numpy as np

TIE_GAP = 0.5


def read_logits(path, vocab=None):
    if path.endswith(".npy"):
        x = np.load(path)
        if x.dtype != np.float32:
            raise ValueError("%s: %s, expected float32" % (path, x.dtype))
        return x.reshape(-1, x.shape[-1])
    x = np.fromfile(path, "<f4")
    if not vocab or x.size % vocab:
        raise ValueError("%s: %d values, not whole rows of %s" % (path, x.size, vocab or "unknown width (--vocab)"))
    return x.reshape(-1, vocab)


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def compare(ref, x):
    """Per-position arrays: rel_l2, kl, ref_top, top, gap. NaN in x counts as infinitely far."""
    n = len(ref)
    out = {k: np.zeros(n) for k in ("rel_l2", "kl", "gap")}
    out.update({k: np.zeros(n, np.int64) for k in ("ref_top", "top")})
    for i in range(n):  # a row at a time: whole arrays in float64 would be gigabytes
        r, y = ref[i].astype(np.float64), x[i].astype(np.float64)
        out["rel_l2"][i] = np.linalg.norm(y - r) / np.linalg.norm(r)
        lr, ly = log_softmax(r), log_softmax(y)
        out["kl"][i] = np.sum(np.exp(lr) * (lr - ly))
        two = np.partition(r, -2)[-2:]
        out["gap"][i] = two[1] - two[0]
        out["ref_top"][i], out["top"][i] = r.argmax(), y.argmax()
        for k in ("rel_l2", "kl"):
            if not np.isfinite(out[k][i]):
                out[k][i] = np.inf
    return out


def summary(c):
    clear = c["gap"] > TIE_GAP
    return {"positions": len(c["gap"]), "rel_l2_max": float(c["rel_l2"].max()), "rel_l2_mean": float(c["rel_l2"].mean()),
            "kl_mean": float(c["kl"].mean()), "kl_max": float(c["kl"].max()), "clear": int(clear.sum()),
            "clear_agree": int((c["ref_top"] == c["top"])[clear].sum()), "agree": int((c["ref_top"] == c["top"]).sum())}


def main():
    parser = argparse.ArgumentParser(description="Compares logits; see the head of this file.")
    parser.add_argument("ref")
    parser.add_argument("x")
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--quiet", action="store_true", help="only the summary")
    parser.add_argument("--json", action="store_true", help="only the summary, as JSON")
    args = parser.parse_args()
    try:
        vocab = args.vocab
        for path in (args.ref, args.x):
            if path.endswith(".npy") and not vocab:
                vocab = np.load(path, mmap_mode="r").shape[-1]
        ref, x = read_logits(args.ref, vocab), read_logits(args.x, vocab)
        if ref.shape != x.shape:
            raise ValueError("shapes differ: %s is %s, %s is %s" % (args.ref, ref.shape, args.x, x.shape))
    except (OSError, ValueError) as why:
        sys.stderr.write("error: %s\n" % why)
        return 1
    c = compare(ref, x)
    s = summary(c)
    if args.json:
        print(json.dumps(s))
        return 0
    if not args.quiet:
        print("  pos    rel L2        KL   gap   best (ref, x)")
        for i in range(len(ref)):
            print("%5d  %.2e  %.2e  %4.1f  %6d %6d%s" % (
                i, c["rel_l2"][i], c["kl"][i], c["gap"][i], c["ref_top"][i], c["top"][i],
                "" if c["ref_top"][i] == c["top"][i] else "  differs" if c["gap"][i] > TIE_GAP else "  differs (near-tie)"))
    print("%d positions: relative L2 max %.3e mean %.3e; KL mean %.3e max %.3e; best token %d of %d where the gap is above "
          "%.1f (%d of all)" % (s["positions"], s["rel_l2_max"], s["rel_l2_mean"], s["kl_mean"], s["kl_max"],
                                s["clear_agree"], s["clear"], TIE_GAP, s["agree"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
