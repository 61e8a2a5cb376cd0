"""The engines: how each is called for a cell, and how its answer is read.  Every function returns the facts of one run:
tok_s or seconds, and what else the engine tells."""

import json
import pathlib
import re
import subprocess
import tempfile

import machine
import mixture

# "long" is the context at which decoding is measured; text prompts of the capped cells have about this many tokens
PROMPT_TOK, LONG_TOK, FIRST_TOK, CAPPED_TOK = 512, 4000, 16, 32
MIB = 1 << 20


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
        if c.limit and c.mixture:
            return self.mixture_rate(cell, model, c)
        n_prompt = {"prefill": PROMPT_TOK, "long": LONG_TOK}.get(cell, FIRST_TOK)
        facts = self.bench(model, n_prompt, 1 if cell == "prefill" else c.n_gen, 1, c.limit)
        which = "prefill" if cell == "prefill" else "decode"
        return {"tok_s": facts["bench"][which + "_tok_s"], **facts}

    def complete(self, model, n_prompt, n, c):
        """Writes n tokens after a short text under the limit: cost, its statistics, the lines of its trace of experts."""
        with tempfile.NamedTemporaryFile() as stats, tempfile.NamedTemporaryFile() as trace:
            command = [self.command, "run", model, "-p", words(n_prompt), "-n", str(n), "--greedy", "--ignore-eos", "--quiet",
                       "--no-warm", "--memory", str(c.limit), "--stats-json", stats.name, *self.threads]
            command += ["--expert-trace", trace.name] if c.mixture else []
            r = check(machine.run(command, c.limit, drop=True))
            return r, json.loads(pathlib.Path(stats.name).read_text()), pathlib.Path(trace.name).read_text().splitlines()

    def plan(self, model, n_prompt, n, c):
        """The plan, with the rate of the drive as it is now."""
        r = machine.run([self.command, "plan", model, "--memory", str(c.limit), "--json", "-p", str(n_prompt), "-n", str(n),
                         *self.threads], c.limit)
        return json.loads(r["stdout"])

    def mixture_rate(self, cell, model, c):
        """The text that the peers get, since routing depends on it; the trace says what an LRU would have read."""
        n_prompt = PROMPT_TOK if cell == "prefill-quarter" else CAPPED_TOK
        told = self.plan(model, n_prompt, c.n_gen, c)
        r, facts, trace = self.complete(model, n_prompt, c.n_gen, c)
        n_step = max(facts["generated_tokens"] - 1, 1)
        lru = mixture.lru_bytes(trace, facts["expert_slots"], told["expert_slot_bytes"], n_step)
        kept = ("prompt_tokens", "bytes_read", "bytes_read_per_token", "prefill_s", "ttft_s", "peak_rss_bytes", "io_method",
                "expert_slots", "expert_path", "predict", "expert_decode_hits", "expert_decode_misses", "expert_demand_bytes",
                "prefetch_bytes", "prefetch_wasted_bytes", "predict_hidden_s", "drive_busy_s")
        return {"tok_s": facts["prefill_tok_s" if cell == "prefill-quarter" else "decode_tok_s"], **{k: facts[k] for k in kept},
                "compute_per_token_s": facts["decode_compute_s"] / n_step, "wait_per_token_s": facts["decode_wait_s"] / n_step,
                "lru_bytes_per_token": lru, "drive_bytes_s": self.drive_rate(told, facts), "memory_bytes_s": told["memory_bytes_s"],
                **cost(r)}

    @staticmethod
    def drive_rate(told, facts):
        """The probe's, or what the run itself reached while reads were under way: a limit can't be below that."""
        reached = (facts["expert_demand_bytes"] + facts["prefetch_bytes"]) / max(facts["drive_busy_s"], 1e-3)
        return max(told["drive_bytes_s"], reached)

    def first(self, model, c):
        r, facts, _ = self.complete(model, FIRST_TOK, 1, c)
        told = self.plan(model, FIRST_TOK, 1, c)
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
        if cell == "prefill-quarter":
            return self.completion(model, 1, PROMPT_TOK, c)
        if c.limit:
            return self.completion(model, c.n_gen, CAPPED_TOK, c)
        if cell == "prefill":
            return self.llama_bench(model, ["-p", str(PROMPT_TOK), "-n", "0"])
        if cell == "long":
            return self.llama_bench(model, self.long_tests(c.n_gen))
        return self.llama_bench(model, ["-p", "0", "-n", str(c.n_gen)])

    def completion(self, model, n, n_prompt, c):
        """Decodes n tokens after a prompt under the limit: mapped file, no repacking, and of a short prompt small batches so
        that what the program itself needs stays small."""
        batch = str(32 if n_prompt <= 32 else 512)
        command = [self.tools / self.completion_tool, "-m", model, *self.threads, "-p", words(n_prompt), "-n", str(n), "-c",
                   str(224 + max(n_prompt, 32)), "-b", batch, "-ub", batch, "--temp", "0", "--ignore-eos", "--no-warmup",
                   *self.capped_flags, *self.flags]
        with machine.readahead(model, c.readahead_kb):
            r = check(machine.run([str(x) for x in command], c.limit, drop=True))
        which = "eval time" if n > 1 else "prompt eval time"
        rate = re.search(r":\s+" + which + r" = .*?([0-9.]+) tokens per second", r["stderr"])
        if not rate:
            raise Failed("no rate in its output")
        return {"tok_s": float(rate.group(1)), "seconds": r["wall_s"], **cost(r)}

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


class BigMoe:
    """BigMoeOnEdge: its largest cache of experts that the kernel doesn't kill."""

    # of the limit, tried downwards; then no cache
    CACHE_SHARES = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0)

    def __init__(self, tool, threads, known):
        """known: {(cell, model's name, limit): MiB that worked}; what is found is added."""
        self.tool, self.threads, self.known = pathlib.Path(tool), str(threads), known

    def version(self):
        return subprocess.run([self.tool, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def sizes(self, key, limit):
        """MiB, largest first; from the size that worked before on, if there is one."""
        first = self.known.get(key)
        tried = [int(share * limit) // MIB for share in self.CACHE_SHARES]
        return tried if first is None else [first, *(s for s in tried if s < first)]

    def complete(self, model, n_prompt, n, c, cache_mib):
        command = [self.tool, "-m", model, "-t", self.threads, "-p", words(n_prompt), "-n", str(n), "-c",
                   str(224 + max(n_prompt, 32)), "--ubatch", "256", "--moe-stream", "--cache-mb", str(cache_mib), "--force-cache",
                   "--dense-weights", "anon", "--io-threads", "4"]
        return check(machine.run([str(x) for x in command], c.limit, drop=True))

    def rate(self, cell, model, c):
        is_prompt, killed, key = cell == "prefill-quarter", [], (cell, pathlib.Path(model).stem, c.limit)
        for cache_mib in self.sizes(key, c.limit):
            try:
                r = self.complete(model, PROMPT_TOK if is_prompt else CAPPED_TOK, 2 if is_prompt else c.n_gen, c, cache_mib)
            except Failed as e:
                killed.append(f"{cache_mib} MiB: {e}")
                continue
            self.known[key] = cache_mib
            rate = re.search(("prefill" if is_prompt else "generation") + r": .*?\(([0-9.]+) tok/s\)", r["stdout"])
            hits = re.search(r"moe-cache: ([0-9.]+)% hit", r["stdout"])
            return {"tok_s": float(rate.group(1)), "cache_mib": cache_mib, "failed_sizes": killed,
                    "hit_percent": float(hits.group(1)) if hits else None, "seconds": r["wall_s"], **cost(r)}
        raise Failed("; ".join(killed))
