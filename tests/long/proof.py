#!/usr/bin/env python3
"""The proof that one number bounds a mixture that is larger than memory: real memory cgroups without swap, long runs.

    tests/long/proof.py MODEL [--sluice build/sluice] [--share 0.12 0.25 0.5] [--tokens 200] [--topics 10] [--prompt 2500]

For each share of the file's size, in a cgroup of that many bytes, `sluice chat --memory` a little less holds one
conversation of ten topics (languages, code, mathematics) with 200 tokens each; at the smallest, `sluice run` reads a prompt
of 2,500 tokens.  Whatever the kernel charges counts: at no time may it pass the limit, meet it, or kill, and the process's
own peak stays within --memory.  The answers are the same at every limit, and the prompt costs no more than one reading of
the file for each of its chunks.

Needs root and a model file whose context holds it all; takes minutes a limit.  Each check prints "ok - ..." or
"not ok - ..."; then come the figures, a line for each run.  Exit code 1 when a check failed.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import machine  # noqa: E402

TOPICS = (
    "Tell me about the bread that people baked in the Middle Ages, and who was allowed to own an oven.",
    "Écris une lettre à ta grand-mère où tu racontes une journée de pluie à la mer.",
    "int main(void) { return puts(\"hello\") < 0; }  -- what does this return, and why? Rewrite it in Rust.",
    "Prove that there are infinitely many primes, then that the square root of two is irrational.",
    "今日の東京の天気と、夕食に何を作るべきかを教えてください。",
    "Erkläre, warum der Himmel am Abend rot ist, und nenne drei Gedichte, die davon handeln.",
    "SELECT name, count(*) FROM orders GROUP BY name HAVING count(*) > 3; make this faster on ten million rows.",
    "Расскажи короткую сказку о лисе, которая научилась считать до ста.",
    "Integrate x^2 * exp(-x) from 0 to infinity; show each step, and check it by differentiating.",
    "اكتب قائمة مشتريات لعشاء من أربعة أشخاص ثم احسب ثمنها.",
)
MARGIN = 8 << 20  # --memory is this much below the limit
ANSWERED = re.compile(r"note: (\d+) tokens, ([0-9.]+) tok/s; .*?(?:, (\d+) % of experts found there)?; context (\d+) of")


class Report:
    def __init__(self):
        self.failed, self.lines = 0, []

    def check(self, name, holds, why=""):
        self.failed += not holds
        print(f"ok - {name}" if holds else f"not ok - {name}: {why}", flush=True)

    def figures(self, name, **values):
        line = f"{name}: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in values.items())
        self.lines.append(line)
        print(line, flush=True)


def limited(command, limit, text, timeout):
    """Runs command in a cgroup of limit bytes with text as its standard input.  A dict: code, out, err, seconds, rss (its own
    peak in bytes), and what the cgroup says."""
    group = machine.cgroup(limit)
    try:
        machine.drop_caches()  # a page that is cached already would be charged to nobody
        with tempfile.TemporaryDirectory() as here:
            files = [pathlib.Path(here) / n for n in ("in", "out", "err")]
            files[0].write_text(text)
            start = time.monotonic()
            with open(files[0]) as i, open(files[1], "wb") as o, open(files[2], "wb") as e:
                p = subprocess.Popen(command, stdin=i, stdout=o, stderr=e, env={**os.environ, "XDG_CACHE_HOME": here},
                                     preexec_fn=lambda: (group.dir / "cgroup.procs").write_text(str(os.getpid())))
                clock = threading.Timer(timeout, p.kill)
                clock.start()
                _, status, used = os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(status)
                clock.cancel()
            out, err = (f.read_text(errors="replace") for f in files[1:])
            return {"code": p.returncode, "out": out, "err": err, "seconds": time.monotonic() - start,
                    "rss": used.ru_maxrss * 1024, **group.report()}
    finally:
        machine.close_group(group)


def check_bounds(report, name, r, limit, memory):
    report.check(f"{name}: ends by itself", r["code"] == 0, f"exit code {r['code']}: {r['err'].strip()[-300:]}")
    report.check(f"{name}: nothing is killed", r["oom_kills"] == 0, f"{r['oom_kills']} kills")
    report.check(f"{name}: the limit is never met", r["limit_hits"] == 0, f"{r['limit_hits']} times")
    report.check(f"{name}: peak of the cgroup within the limit", (r["peak_bytes"] or 0) <= limit, f"{r['peak_bytes']}")
    report.check(f"{name}: peak of the process within --memory", r["rss"] <= memory, f"{r['rss']} > {memory}")


def memory_figures(r, limit, memory):
    return {"limit": limit, "cgroup_peak": r["peak_bytes"], "memory": memory, "peak_rss": r["rss"],
            "limit_hits": r["limit_hits"], "oom_kills": r["oom_kills"], "seconds": round(r["seconds"])}


def talk(a, report, share, limit):
    """Ten topics in one conversation; returns what it answered."""
    name, memory, n_topic = f"{share:.0%}, topics", limit - MARGIN, min(a.topics, len(TOPICS))
    ctx = n_topic * (2 * a.tokens + 160)  # an answer read as text may be cut into other tokens; a letter may be three
    command = [a.sluice, "chat", a.model, "--template", "chatml", "--memory", str(memory), "--ctx", str(ctx),
               "-n", str(a.tokens), "--greedy", "--no-warm", "--no-history"]
    r = limited(command, limit, "\n".join(TOPICS[:n_topic]) + "\n", a.timeout)
    check_bounds(report, name, r, limit, memory)
    turns = ANSWERED.findall(r["err"])
    n_token = sum(int(t[0]) for t in turns)
    report.check(f"{name}: every topic is answered", len(turns) == n_topic and n_token > 0.9 * n_topic * a.tokens,
                 f"{n_token} tokens in {len(turns)} answers")
    report.figures(name, tokens=n_token, tok_s="/".join(t[1] for t in turns), hits_percent="/".join(t[2] for t in turns),
                   context=turns[-1][3] if turns else "none", answers=hashlib.sha256(r["out"].encode()).hexdigest()[:16],
                   **memory_figures(r, limit, memory))
    return r["out"]


def read_long(a, report, share, limit):
    """A prompt of many chunks where hardly any expert stays in memory."""
    name, memory = f"{share:.0%}, prompt of {a.prompt}", limit - MARGIN
    text = " ".join("abcdefghijklmnopqrstuvwxyz"[i * 7 % 26] for i in range(a.prompt))
    with tempfile.NamedTemporaryFile("w") as prompt, tempfile.NamedTemporaryFile() as stats:
        prompt.write(text)
        prompt.flush()
        settings = ["--memory", str(memory), "--ctx", str(a.prompt + 64)]
        planned = subprocess.run([a.sluice, "plan", a.model, *settings, "--drive", "1000", "--json"], capture_output=True,
                                 check=True)
        r = limited([a.sluice, "run", a.model, "-f", prompt.name, "-n", "8", "--greedy", "--ignore-eos", "--no-warm",
                     "--stats-json", stats.name, *settings], limit, "", a.timeout)
        told = json.loads(pathlib.Path(stats.name).read_text() or "{}")
    check_bounds(report, name, r, limit, memory)
    n_prompt, n_read = told.get("prompt_tokens", 0), told.get("bytes_read", 0)
    n_sweep = -(-n_prompt // json.loads(planned.stdout)["prefill_chunk_tok"]) + told.get("generated_tokens", 0)
    report.check(f"{name}: all of it was read", n_prompt >= a.prompt and told["generated_tokens"] == 8, f"{n_prompt} tokens")
    report.check(f"{name}: at most one reading of the file for each sweep", n_read <= (n_sweep + 1) * os.path.getsize(a.model),
                 f"{n_read} bytes in {n_sweep} sweeps")
    report.figures(name, tokens=n_prompt, prefill_tok_s=round(told.get("prefill_tok_s", 0), 1), sweeps=n_sweep,
                   bytes_read=n_read, slots=told.get("expert_slots"), **memory_figures(r, limit, memory))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--sluice", default=str(ROOT / "build" / "sluice"))
    p.add_argument("--share", type=float, nargs="+", default=[0.12, 0.25, 0.5])
    p.add_argument("--tokens", type=int, default=200, help="of each answer")
    p.add_argument("--topics", type=int, default=len(TOPICS))
    p.add_argument("--prompt", type=int, default=2500, help="tokens of the long prompt; 0: none")
    p.add_argument("--timeout", type=float, default=3600, help="seconds for one run")
    a = p.parse_args()
    a.sluice, report, answers = os.path.abspath(a.sluice), Report(), {}
    limits = {share: int(os.path.getsize(a.model) * share) for share in sorted(a.share)}
    if a.prompt:
        read_long(a, report, *min(limits.items()))
    for share, limit in limits.items():
        answers[share] = talk(a, report, share, limit)
    first, *others = answers.values()
    report.check("the answers are the same at every limit", all(o == first for o in others) and first.strip(), "they differ")
    print("\n" + "\n".join(report.lines) + f"\n{report.failed} checks failed")
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
