#!/usr/bin/env python3
"""Measures sluice beside llama.cpp and ik_llama.cpp on the same files, and writes one table.  README.md tells the story.

    bench/run.py setup DIR [--ik GIT]                      installs and builds the peers in DIR (npm, cmake; minutes)
    bench/run.py run --peer DIR --results F MODEL.gguf ... [--cell decode prefill long half quarter first] [--repeat 5]
                     [--engine NAME ...] [--sluice build/sluice] [--threads N] [--readahead 128 8192]
    bench/run.py table --results F [--out BASE]            BASE.md and BASE.tsv, else markdown on standard output

Every repetition runs each engine once, in turn.  Results are added to F, a JSON object a line, so a long table can be made
of many short calls.  A limit on memory (half, quarter, first) takes root.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time

import engines
import machine
import peers
import table

CELLS = ("decode", "prefill", "long", "half", "quarter", "first")
SHARES = {"half": 0.5, "quarter": 0.25, "first": 0.25}
LARGE_BYTES = 1 << 30  # of larger files fewer tokens are decoded under a limit: a peer's token takes seconds


@dataclasses.dataclass
class Setting:
    """What a run is told beyond model and cell."""
    n_gen: int
    limit: int | None
    readahead_kb: int | None = None


def setting(cell, model):
    size = os.path.getsize(model)
    if cell not in SHARES:
        return Setting(64 if cell == "decode" else 32, None)
    return Setting(8 if size > LARGE_BYTES else 24, int(size * SHARES[cell]))


def runners(a, cell):
    """(name, engine, read-ahead) for each thing that takes part in a cell."""
    llama, ik = peers.tools(a.peer)
    yield "sluice", engines.Sluice(a.sluice, a.threads), None
    if cell in SHARES:
        for kb in a.readahead:
            yield f"llama.cpp, read-ahead {kb} KiB", engines.LlamaCpp(llama, a.threads), kb
            yield f"ik, read-ahead {kb} KiB", engines.Ik(ik, a.threads), kb
        return
    yield "llama.cpp", engines.LlamaCpp(llama, a.threads), None
    yield "ik", engines.Ik(ik, a.threads), None
    yield "ik -rtr", engines.Ik(ik, a.threads, ["-rtr", "1"]), None


def chosen(a, cell):
    for name, engine, kb in runners(a, cell):
        if not a.engine or any(name.startswith(wanted) for wanted in a.engine):
            yield name, engine, kb


def measure(engine, cell, model, s):
    try:
        return engine.first(model, s) if cell == "first" else engine.rate(cell, model, s)
    except (engines.Failed, machine.NotPossible) as e:
        return {"failed": str(e)}


def show(record):
    value = record.get("failed") or (f"{record['seconds']:.2f} s" if record["cell"] == "first" else f"{record['tok_s']:.2f} tok/s")
    print(f"{record['model']:32s} {record['cell']:8s} {record['engine']:30s} {value}", file=sys.stderr, flush=True)


def run_cell(a, model, cell, out):
    common = {"model": pathlib.Path(model).stem, "file_bytes": os.path.getsize(model), "cell": cell, "threads": a.threads,
              "machine": machine.describe()}
    machine.read_once(model)
    broken = set()  # what fails once is not tried again
    for i in range(a.repeat):
        for name, engine, kb in chosen(a, cell):
            if name in broken:
                continue
            s = setting(cell, model)
            s.readahead_kb = kb
            facts = measure(engine, cell, model, s)
            if "failed" in facts:
                broken.add(name)
            record = {**common, "engine": name, "version": engine.version(), "round": i, "time": time.strftime("%F %T"),
                      "limit_bytes": s.limit, "cache": "dropped" if s.limit else "warm", "n_gen": s.n_gen, **facts}
            out.write(json.dumps(record) + "\n")
            out.flush()
            show(record)


def run(a):
    a.threads = a.threads or len(os.sched_getaffinity(0))
    a.model, a.sluice = [os.path.abspath(m) for m in a.model], os.path.abspath(a.sluice)
    with open(a.results, "a") as out:
        for model in a.model:
            for cell in a.cell:
                run_cell(a, model, cell, out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="do", required=True)
    s = sub.add_parser("setup")
    s.add_argument("dir", type=pathlib.Path)
    s.add_argument("--ik", metavar="GIT", help="URL or path of ik_llama.cpp's repository")
    r = sub.add_parser("run")
    r.add_argument("model", nargs="+")
    r.add_argument("--peer", type=pathlib.Path, required=True)
    r.add_argument("--results", required=True)
    r.add_argument("--cell", nargs="+", choices=CELLS, default=list(CELLS))
    r.add_argument("--repeat", type=int, default=5)
    r.add_argument("--engine", nargs="+", help="only those whose name begins so: sluice, llama.cpp, ik, 'ik -rtr'")
    r.add_argument("--sluice", default=str(pathlib.Path(__file__).resolve().parent.parent / "build" / "sluice"))
    r.add_argument("--threads", type=int)
    r.add_argument("--readahead", type=int, nargs="+", default=[128, 8192], metavar="KIB", help="tried for the peers under a limit")
    t = sub.add_parser("table")
    t.add_argument("--results", nargs="+", required=True)
    t.add_argument("--out", help="writes OUT.md and OUT.tsv")
    a = p.parse_args()
    {"setup": lambda: peers.setup(a.dir, a.ik), "run": lambda: run(a), "table": lambda: table.write(a.results, a.out)}[a.do]()


if __name__ == "__main__":
    main()
