"""The engines: how each is called for a cell, and how its answer is read.  Every function returns the facts of one run:
tok_s or seconds, and what else the engine tells."""

import json
import pathlib
import re
import subprocess
import tempfile

import machine

# "long" is the context at which decoding is measured; text prompts of the capped cells have about this many tokens
PROMPT_TOK, LONG_TOK, FIRST_TOK, CAPPED_TOK = 512, 4000, 16, 32


class Failed(Exception):
    """The engine didn't do the run; the text says how it ended."""


def check(r):
    if r.get("oom_kills"):
        raise Failed("killed: out of memory")
    if r["returncode"] != 0:
        lines = r["stderr"].strip().splitlines() or ["no message"]
        raise Failed(f"exit {r['returncode']}: {lines[-1][:200]}")
    return r


def words(n):
    """A text of n short words: one token each in most vocabularies."""
    return " ".join("abcdefghijklmnopqrstuvwxyz"[i * 7 % 26] for i in range(n))


def cost(r):
    return {k: r[k] for k in ("wall_s", "others_cpu_s", "steal_s", "peak_bytes") if r.get(k) is not None}


class Sluice:
    def __init__(self, command, threads):
        self.command, self.threads = command, ["--threads", str(threads)]

    def version(self):
        out = subprocess.run([self.command, "version"], capture_output=True, text=True, check=True).stdout.strip()
        here = pathlib.Path(__file__).resolve().parent
        git = subprocess.run(["git", "-C", here, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        return f"{out} {git.stdout.strip()}".strip()

    def bench(self, model, n_prompt, n, repeat, limit=None):
        command = [self.command, "bench", model, "-p", str(n_prompt), "-n", str(n), "-r", str(repeat), "--json", *self.threads]
        if limit:
            command += ["--memory", str(limit)]
        r = check(machine.run(command, limit, drop=bool(limit)))
        facts = json.loads(r["stdout"])
        return {**cost(r), "bench": facts}

    def rate(self, cell, model, c):
        n_prompt = {"prefill": PROMPT_TOK, "long": LONG_TOK}.get(cell, FIRST_TOK)
        facts = self.bench(model, n_prompt, 1 if cell == "prefill" else c.n_gen, 1, c.limit)
        which = "prefill" if cell == "prefill" else "decode"
        return {"tok_s": facts["bench"][which + "_tok_s"], **facts}

    def first(self, model, c):
        with tempfile.NamedTemporaryFile() as stats:
            command = [self.command, "run", model, "-p", words(FIRST_TOK), "-n", "1", "--greedy", "--quiet", "--memory",
                       str(c.limit), "--stats-json", stats.name, *self.threads]
            r = check(machine.run(command, c.limit, drop=True))
            facts = json.loads(pathlib.Path(stats.name).read_text())
        plan = machine.run([self.command, "plan", model, "--memory", str(c.limit), "--json", "-p", str(FIRST_TOK), "-n", "1",
                            *self.threads], c.limit)
        told = json.loads(plan["stdout"])
        off = facts["ttft_s"] / told["first_token_s"] - 1 if told.get("first_token_s") else None
        return {"seconds": r["wall_s"], "ttft_s": facts["ttft_s"], "prompt_tokens": facts["prompt_tokens"], "forecast_error": off,
                "bytes_read": facts["bytes_read"], "drive_bytes_s": told["drive_bytes_s"], **cost(r)}


class Peer:
    """llama.cpp and what descends from it: llama-bench when all fits, the completion tool under a limit."""

    def __init__(self, tools, threads, flags=()):
        self.tools, self.threads, self.flags = pathlib.Path(tools), ["-t", str(threads)], list(flags)

    def version(self):
        """The commit that llama-bench was built from; the tool tells it with each result, git before any."""
        top = self.tools.parent.parent
        git = subprocess.run(["git", "-C", top, "log", "-1", "--format=%h of %cs"], capture_output=True, text=True)
        return git.stdout.strip() or "unknown"

    def llama_bench(self, model, tests):
        command = [self.tools / "llama-bench", "-m", model, *self.threads, "-r", "1", "-o", "json", *tests, *self.flags]
        r = check(machine.run([str(c) for c in command]))
        found = json.loads(r["stdout"][r["stdout"].index("["):])
        return {"tok_s": found[-1]["avg_ts"], "commit": found[-1].get("build_commit"), **cost(r)}

    def rate(self, cell, model, c):
        if c.limit:
            return self.completion(model, c.n_gen, CAPPED_TOK, c)
        if cell == "prefill":
            return self.llama_bench(model, ["-p", str(PROMPT_TOK), "-n", "0"])
        if cell == "long":
            return self.llama_bench(model, self.long_tests(c.n_gen))
        return self.llama_bench(model, ["-p", "0", "-n", str(c.n_gen)])

    def completion(self, model, n, n_prompt, c):
        """Decodes n tokens after a short prompt under the limit: mapped file, no repacking, small batches so that what the
        program itself needs stays small."""
        command = [self.tools / self.completion_tool, "-m", model, *self.threads, "-p", words(n_prompt), "-n", str(n), "-c", "256",
                   "-b", "32", "-ub", "32", "--temp", "0", "--ignore-eos", "--no-warmup", *self.capped_flags]
        with machine.readahead(model, c.readahead_kb):
            r = check(machine.run([str(x) for x in command], c.limit, drop=True))
        rate = re.search(r"[^ ]*:\s+eval time = .*?([0-9.]+) tokens per second", r["stderr"])
        if n > 1 and not rate:
            raise Failed("no rate in its output")
        return {"tok_s": float(rate.group(1)) if n > 1 else None, "seconds": r["wall_s"], **cost(r)}

    def first(self, model, c):
        facts = self.completion(model, 1, FIRST_TOK, c)
        return {k: v for k, v in facts.items() if k != "tok_s"}


class LlamaCpp(Peer):
    completion_tool, capped_flags = "llama-completion", ["--no-repack", "-no-cnv"]

    def long_tests(self, n):
        return ["-p", "0", "-n", str(n), "-d", str(LONG_TOK)]


class Ik(Peer):
    completion_tool, capped_flags = "llama-cli", []

    def long_tests(self, n):
        return ["-p", "0", "-n", "0", "-gp", f"{LONG_TOK},{n}"]
