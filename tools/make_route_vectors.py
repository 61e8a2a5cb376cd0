#!/usr/bin/env python3
"""Makes tests/fixtures/route.txt: routers' logits, and which experts with which weights every rule makes of them.

    tools/make_route_vectors.py [OUT]       OUT: tests/fixtures/route.txt

Every combination of score function, renormalisation, scale, selection bias and group limit, computed in float64 with numpy's
stable sort, apart from the C code and written from the rules in backend.h. Logits and biases are multiples of 1/64, so that
float32 holds them exactly; the last two tokens are full of equal logits.

Lines:  bias B0 B1 ...                                                       (once)
        token Z0 Z1 ...                                                      (in order)
        rule SCORE NORMALISE SCALE BIAS GROUPS GROUPS_USED GROUP_SCORE USED  then for every token
        = ID:WEIGHT ...
"""

import itertools
import pathlib
import sys

import numpy as np

N, N_GROUP, SEED = 16, 4, 20261130


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def best(values, k):
    """Indices of the k highest, the lowest index of equal ones first."""
    return np.argsort(-values, kind="stable")[:k]


def route(z, bias, score, normalise, scale, groups, groups_used, group_score, used):
    p = {"softmax": softmax(z), "sigmoid": 1 / (1 + np.exp(-z)), "selected": z}[score]
    c = p + bias
    if groups > 1:
        members = c.reshape(groups, -1)
        value = members.max(1) if group_score == "max" else np.sort(members, 1)[:, -2:].sum(1)
        kept = np.isin(np.arange(groups), best(value, groups_used))
        c = np.where(np.repeat(kept, N // groups), c, -np.inf)
    ids = best(c, used)
    w = softmax(z[ids]) if score == "selected" else p[ids]
    if normalise:
        w = w / (w.sum() + 1e-20)
    return ids, w * scale


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/route.txt"
    rng = np.random.default_rng(SEED)
    bias = np.round(rng.normal(0, 0.4, N) * 64) / 64
    tokens = [np.round(rng.normal(0, s, N) * 64) / 64 for s in (1, 3, 12)]
    tokens += [rng.integers(0, 3, N).astype(float), np.full(N, 0.5)]
    lines = ["bias " + " ".join("%.17g" % b for b in bias)]
    lines += ["token " + " ".join("%.17g" % z for z in t) for t in tokens]
    limits = [(1, 1, "max"), (N_GROUP, 2, "max"), (N_GROUP, 2, "top2"), (N_GROUP, 3, "top2")]
    for score, normalise, scale, biased, limit, used in itertools.product(
            ("softmax", "sigmoid", "selected"), (0, 1), (1, 2.5), (0, 1), limits, (1, 3)):
        lines.append("rule %s %d %g %d %d %d %s %d" % (score, normalise, scale, biased, *limit, used))
        for z in tokens:
            ids, w = route(z, bias if biased else 0 * bias, score, normalise, scale, *limit, used)
            lines.append("= " + " ".join("%d:%.9g" % pair for pair in zip(ids, w)))
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
