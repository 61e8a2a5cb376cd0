#!/usr/bin/env python3
"""Measures sluice beside llama.cpp, ik_llama.cpp and BigMoeOnEdge on the same files, and writes one table.  README.md tells
the story.

    bench/run.py setup DIR [--ik GIT] [--bmoe GIT]         installs and builds the peers in DIR (npm, cmake; minutes)
    bench/run.py run --peer DIR --results F MODEL.gguf ... [--cell CELL ...] [--repeat 5]
                     [--engine NAME ...] [--sluice build/sluice] [--threads N] [--readahead 128 8192] [--rivals SHARE]
    bench/run.py table --results F [--out BASE]            BASE.md and BASE.tsv, else markdown on standard output

Every repetition runs each engine once, in turn.  Results are added to F, a JSON object a line, so a long table can be made
of many short calls.  A limit on memory (half, quarter, eighth, prefill-quarter, first) takes root.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

import engines
import machine
import peers
import table

SHARES = {"half": 0.5, "quarter": 0.25, "eighth": 0.12, "prefill-quarter": 0.25, "first": 0.25}
DENSE_CELLS = ("decode", "prefill", "long", "half", "quarter", "first")
MIXTURE_CELLS = ("decode", "prefill", "half", "quarter", "eighth", "prefill-quarter")
CELLS = tuple(dict.fromkeys(DENSE_CELLS + MIXTURE_CELLS))
LARGE_BYTES = 1 << 30  # of larger files fewer tokens are decoded under a limit: a peer's token takes seconds
MIXTURE_READAHEAD_KB = 128  # an expert's matrix is smaller than the largest read-ahead


@dataclasses.dataclass
class Setting:
    """What a run is told beyond model and cell."""
    n_gen: int
    limit: int | None
    mixture: bool
    readahead_kb: int | None = None


def is_mixture(a, model):
    told = subprocess.run([a.sluice, "inspect", model, "--json"], capture_output=True, text=True, check=True)
    return json.loads(told.stdout)["n_expert"] > 0


def setting(cell, model, mixture):
    size = os.path.getsize(model)
    if cell not in SHARES:
        return Setting(64 if cell == "decode" else 32, None, mixture)
    n_gen = 1 if cell == "prefill-quarter" else 8 if size > LARGE_BYTES and not mixture else 24
    return Setting(n_gen, int(size * SHARES[cell]), mixture)


def capped_runners(a, mixture):
    llama, ik, bmoe = peers.tools(a.peer)
    for kb in a.readahead or ([MIXTURE_READAHEAD_KB] if mixture else [128, 8192]):
        yield f"llama.cpp, read-ahead {kb} KiB", engines.LlamaCpp(llama, a.threads), kb
        yield f"ik, read-ahead {kb} KiB", engines.Ik(ik, a.threads), kb
    if not mixture:
        return
    yield "ik --prefetch-experts", engines.Ik(ik, a.threads, ["--prefetch-experts"]), MIXTURE_READAHEAD_KB
    if bmoe.exists():
        yield "BigMoeOnEdge", engines.BigMoe(bmoe, a.threads, known_caches(a.results)), None
    else:
        print(f"note: BigMoeOnEdge takes no part: {bmoe} is not there (setup --bmoe GIT)", file=sys.stderr)


def known_caches(results):
    """The sizes of a cache that worked in earlier calls: engines.BigMoe."""
    with open(results) as f:
        found = [r for r in map(json.loads, f) if r.get("cache_mib") is not None]
    return {(r["cell"], r["model"], r["limit_bytes"]): r["cache_mib"] for r in found}


def runners(a, cell, mixture):
    """(name, engine, read-ahead) for each thing that takes part in a cell."""
    llama, ik, _ = peers.tools(a.peer)
    yield "sluice", engines.Sluice(a.sluice, a.threads), None
    if cell in SHARES:
        yield from capped_runners(a, mixture)
        return
    yield "llama.cpp", engines.LlamaCpp(llama, a.threads), None
    yield "ik", engines.Ik(ik, a.threads), None
    yield "ik -rtr", engines.Ik(ik, a.threads, ["-rtr", "1"]), None


def chosen(a, cell, mixture):
    for name, engine, kb in runners(a, cell, mixture):
        if not a.engine or any(name.startswith(wanted) for wanted in a.engine):
            yield name, engine, kb


def measure(engine, cell, model, s):
    try:
        return engine.first(model, s) if cell == "first" else engine.rate(cell, model, s)
    except (engines.Failed, machine.NotPossible) as e:
        return {"failed": str(e)}


def show(record):
    value = record.get("failed") or (f"{record['seconds']:.2f} s" if record["cell"] == "first" else f"{record['tok_s']:.2f} tok/s")
    print(f"{record['model']:32s} {record['cell']:15s} {record['engine']:30s} {value}", file=sys.stderr, flush=True)


def run_cell(a, model, cell, mixture, out):
    common = {"model": pathlib.Path(model).stem, "file_bytes": os.path.getsize(model), "cell": cell, "threads": a.threads,
              "mixture": mixture, "machine": machine.describe()}
    if not a.no_first_reading:
        machine.read_once(model)
    done, seen = set(), {}  # done: what is not run again; seen: the first round's values
    for i in range(a.repeat):
        for name, engine, kb in chosen(a, cell, mixture):
            if name in done:
                continue
            s = setting(cell, model, mixture)
            s.readahead_kb = kb
            facts = measure(engine, cell, model, s)
            if "failed" in facts:
                done.add(name)
            record = {**common, "engine": name, "version": engine.version(), "round": i, "time": time.strftime("%F %T"),
                      "limit_bytes": s.limit, "cache": "dropped" if s.limit else "warm", "n_gen": s.n_gen, **facts}
            out.write(json.dumps(record) + "\n")
            out.flush()
            show(record)
            if "failed" not in facts:
                seen.setdefault(name, table.speed(record))
        done |= behind(seen, a.rivals)


def behind(seen, share):
    """Peers that did less than share of the best peer's speed: they would only lengthen the next rounds."""
    rivals = {name: speed for name, speed in seen.items() if name != "sluice"}
    return {name for name, speed in rivals.items() if speed < share * max(rivals.values())}


def run(a):
    a.threads = a.threads or len(os.sched_getaffinity(0))
    a.model, a.sluice = [os.path.abspath(m) for m in a.model], os.path.abspath(a.sluice)
    with open(a.results, "a") as out:
        for model in a.model:
            mixture = is_mixture(a, model)
            for cell in a.cell or (MIXTURE_CELLS if mixture else DENSE_CELLS):
                run_cell(a, model, cell, mixture, out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="do", required=True)
    s = sub.add_parser("setup")
    s.add_argument("dir", type=pathlib.Path)
    s.add_argument("--ik", metavar="GIT", help="URL or path of ik_llama.cpp's repository")
    s.add_argument("--bmoe", metavar="GIT", help="URL or path of BigMoeOnEdge's repository")
    r = sub.add_parser("run")
    r.add_argument("model", nargs="+")
    r.add_argument("--peer", type=pathlib.Path, required=True)
    r.add_argument("--results", required=True)
    r.add_argument("--cell", nargs="+", choices=CELLS, help="default: " + ", ".join(DENSE_CELLS) + "; of a mixture of experts "
                   + ", ".join(MIXTURE_CELLS))
    r.add_argument("--repeat", type=int, default=5)
    r.add_argument("--engine", nargs="+", help="only those whose name begins so: sluice, llama.cpp, ik, 'ik -rtr', BigMoeOnEdge")
    r.add_argument("--sluice", default=str(pathlib.Path(__file__).resolve().parent.parent / "build" / "sluice"))
    r.add_argument("--threads", type=int)
    r.add_argument("--readahead", type=int, nargs="+", metavar="KIB",
                   help="tried for the peers under a limit [128 8192; of a mixture 128]")
    r.add_argument("--rivals", type=float, default=0, metavar="SHARE", help="after the first round only peers with at least this "
                   "share of the best peer's speed go on [0: all]")
    r.add_argument("--no-first-reading", action="store_true", help="of many short calls: the file was read once before")
    t = sub.add_parser("table")
    t.add_argument("--results", nargs="+", required=True)
    t.add_argument("--out", help="writes OUT.md and OUT.tsv")
    a = p.parse_args()
    {"setup": lambda: peers.setup(a.dir, a.ik, a.bmoe), "run": lambda: run(a), "table": lambda: table.write(a.results, a.out)}[a.do]()


if __name__ == "__main__":
    main()
