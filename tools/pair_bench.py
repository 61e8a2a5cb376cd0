#!/usr/bin/env python3
"""Times sluice and llama.cpp in turn on the same file, threads and memory limit, and prints medians and ratios.

    tools/pair_bench.py SLUICE PEER MODEL [--share 1.0] [--prompt 512] [--gen 64] [--rounds 5] [--readahead KB] [--threads 2]

PEER is a folder with peer_bench (a small program over libllama's public API that prints JSON per phase) and llama.cpp's
libraries below nlc/. --share: the memory limit as a part of the file; both programs then run in a cgroup of that size, and
llama.cpp without repacking and with mmap, its only way that survives. Without it nothing is limited and llama.cpp repacks.
Every round is one run of each, alternating; the page cache is dropped before a limited run. Needs root for limits.
"""

import argparse
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys

CGROUP = pathlib.Path("/sys/fs/cgroup/memory")


def in_cgroup(limit, command):
    """Runs command under limit bytes (None: no limit); returns its standard output, or None when it failed."""
    if limit is None:
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None
    group = CGROUP / f"pair-bench.{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        enter = f"echo $$ > {group}/cgroup.procs && exec \"$@\""
        done = subprocess.run(["bash", "-c", enter, "bash", *command], capture_output=True, text=True)
        peak = int((group / "memory.max_usage_in_bytes").read_text())
        print(f"    peak {peak / 1e6:.1f} MB of {limit / 1e6:.1f}", file=sys.stderr)
        if done.returncode:
            print(done.stderr[-300:], file=sys.stderr)
        return done.stdout if done.returncode == 0 else None
    finally:
        (group / "memory.force_empty").write_text("0")
        group.rmdir()


def sluice(a, limit):
    command = [a.sluice, "bench", a.model, "-p", str(a.prompt), "-n", str(a.gen), "-r", "1", "--json",
               "--threads", str(a.threads), "--ctx", str(a.prompt + a.gen + 8)]
    if limit:
        command += ["--memory", str(limit)]
    out = in_cgroup(limit, command)
    if out is None:
        return None
    r = json.loads(out)
    return {"prefill": r["prefill_tok_s"], "decode": r["decode_tok_s"], "read": r["bytes_read_per_token"] or 0,
            "share": r["share_of_limit"], "drive": r["drive_bytes_s"]}


def llamacpp(a, limit):
    lib = glob.glob(f"{a.peer}/nlc/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64")[0]
    command = [f"{a.peer}/peer_bench", "-m", a.model, "-b", lib, "-p", str(a.prompt), "-n", str(a.gen), "-t", str(a.threads),
               "-c", str(a.prompt + a.gen + 8), "-u", "512", "-r", "0" if limit else "1"]
    out = in_cgroup(limit, command)
    if out is None:
        return None
    r = json.loads(out)
    steps = r["step_seconds"][2:]  # the first two still find the prompt's pages
    return {"prefill": r["prefill"]["tok_s"], "decode": 1 / statistics.median(steps) if not limit else len(steps) / sum(steps),
            "read": r["decode"]["read_bytes"] / r["decode"]["tokens"], "share": None, "drive": None}


def set_readahead(kb):
    for knob in glob.glob("/sys/block/*/queue/read_ahead_kb"):
        if "/loop" not in knob and "/zram" not in knob:
            pathlib.Path(knob).write_text(str(kb))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("sluice")
    p.add_argument("peer")
    p.add_argument("model")
    p.add_argument("--share", type=float)
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--gen", type=int, default=64)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--readahead", type=int)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    limit = int(os.path.getsize(a.model) * a.share) if a.share else None
    if a.readahead:
        set_readahead(a.readahead)
    rows = {"sluice": [], "llama.cpp": []}
    for i in range(a.rounds):
        for name, run in (("sluice", sluice), ("llama.cpp", llamacpp)):
            r = run(a, limit)
            rows[name].append(r)
            print(f"  round {i + 1} {name:10s} {r}", file=sys.stderr)
    med = {}
    for name, rs in rows.items():
        ok = [r for r in rs if r]
        if not ok:
            print(f"{name}: killed or failed in every round")
            continue
        med[name] = {k: statistics.median(r[k] for r in ok) for k in ("prefill", "decode", "read")}
        d = [r["decode"] for r in ok]
        print(f"{name:10s} prefill {med[name]['prefill']:8.1f} tok/s  decode {med[name]['decode']:8.2f} "
              f"({min(d):.2f}-{max(d):.2f}) tok/s  {med[name]['read'] / 1e6:.1f} MB read per token, {len(ok)}/{len(rs)} runs")
    if len(med) == 2:
        print(f"ratio      prefill {med['sluice']['prefill'] / med['llama.cpp']['prefill']:.2f}  "
              f"decode {med['sluice']['decode'] / med['llama.cpp']['decode']:.2f}")


if __name__ == "__main__":
    main()
