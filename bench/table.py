"""Medians and ratios out of the lines that run.py wrote."""

import json
import statistics
import sys

import mixture

CELL_TEXT = {
    "decode": "decoding, everything in memory (64 tokens from an empty context)",
    "prefill": "reading a prompt of 512 tokens, everything in memory",
    "long": "decoding at a context of 4,000 tokens, everything in memory",
    "half": "decoding in a cgroup of half the file",
    "quarter": "decoding in a cgroup of a quarter of the file",
    "eighth": "decoding in a cgroup of 12 % of the file",
    "prefill-quarter": "reading a prompt of 512 tokens in a cgroup of a quarter of the file",
    "first": "seconds to the first token of a 16-token prompt, whole process, in a cgroup of a quarter of the file",
}
HEAD = ("model", "runs", "sluice", "of the limit", "forecast off by", "best peer", "which", "/ best", "llama.cpp", "/ llama.cpp",
        "memory GB/s", "drive GB/s")
MIXTURE_HEAD = ("model", "cell", "tok/s", "of the physical limit", "limit tok/s", "resident tok/s", "MB read per token", "/ LRU's",
                "ms a token", "computing", "waiting", "drive GB/s", "slots", "path")


def load(paths):
    records = []
    for path in paths:
        with open(path) as f:
            records += [json.loads(line) for line in f if line.strip()]
    return records


def value(r):
    return r["seconds"] if r["cell"] == "first" else r["tok_s"]


def speed(r):
    """More is better."""
    return 1 / value(r) if r["cell"] == "first" else value(r)


def median_of(records, get):
    found = [v for v in map(get, records) if v is not None]
    return statistics.median(found) if found else None


def spread(values, digits):
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def number(v, form="{:.2f}"):
    return "" if v is None else form.format(v)


def in_bench(key):
    return lambda r: (r.get("bench") or r).get(key)


def error_of(cell):
    key = "prefill_forecast_error" if cell == "prefill" else "forecast_error"
    return lambda r: (r.get("bench") or r).get(key)


def share_of(cell, own, resident):
    """Of the physical limit: decoding as sluice reports it; a mixture under a memory limit against what an LRU would read; a
    first token against one reading of the file."""
    if cell == "first":
        return median_of(own, lambda r: r["file_bytes"] / r["drive_bytes_s"] / r["seconds"] if r.get("drive_bytes_s") else None)
    if own and "lru_bytes_per_token" in own[0]:
        return median_of(own, mixture_share(resident)) if cell != "prefill-quarter" else None
    return None if cell == "prefill" else median_of(own, in_bench("share_of_limit"))


def mixture_limit(resident):
    return lambda r: mixture.limit_tok_s(r["lru_bytes_per_token"], r["drive_bytes_s"], resident)


def mixture_share(resident):
    def share(r):
        limit = mixture_limit(resident)(r)
        return r["tok_s"] / limit if limit else None
    return share


def resident_tok_s(records, model):
    """What sluice decodes with all in memory, by the same results."""
    return median_of([r for r in records if (r["model"], r["cell"], r["engine"]) == (model, "decode", "sluice")],
                     lambda r: r.get("tok_s"))


def ratio(cell, ours, theirs):
    """How many times as fast as the other we are."""
    if not ours or not theirs:
        return None
    return theirs / ours if cell == "first" else ours / theirs


def row(cell, model, records, resident):
    """One line; an engine that failed has no values."""
    good, failed = {}, {}
    for r in records:
        if "failed" in r:
            failed[r["engine"]] = r["failed"]
        else:
            good.setdefault(r["engine"], []).append(value(r))
    medians = {name: statistics.median(v) for name, v in good.items()}
    better = min if cell == "first" else max
    rivals = {n: m for n, m in medians.items() if n != "sluice"}
    best = better(rivals, key=rivals.get) if rivals else None
    llama = {n: m for n, m in rivals.items() if n.startswith("llama.cpp")}
    llama_best = better(llama, key=llama.get) if llama else None
    own = [r for r in records if r["engine"] == "sluice" and "failed" not in r]
    ours, top = medians.get("sluice"), max(medians.values(), default=0)
    digits = 0 if top >= 1000 else 1 if top >= 100 else 2
    share, memory, drive = share_of(cell, own, resident), median_of(own, in_bench("memory_bytes_s")), median_of(own, in_bench("drive_bytes_s"))
    return [model, str(max((len(v) for v in good.values()), default=0)),
            spread(good["sluice"], digits) if ours else failed.get("sluice", ""), number(share and 100 * share, "{:.0f} %"),
            number(median_of(own, error_of(cell)), "{:+.0%}"), spread(good[best], digits) if best else "; ".join(sorted(set(failed.values()))),
            best or "", number(ratio(cell, ours, rivals.get(best))), spread(good[llama_best], digits) if llama_best else "",
            number(ratio(cell, ours, llama.get(llama_best))), number(memory and memory / 1e9, "{:.1f}"), number(drive and drive / 1e9)]


def rows(records):
    for cell in CELL_TEXT:
        models = dict.fromkeys(r["model"] for r in records if r["cell"] == cell)
        yield cell, [row(cell, m, [r for r in records if r["cell"] == cell and r["model"] == m], resident_tok_s(records, m))
                     for m in models]


def mixture_row(key, own, resident):
    """What sluice read of a mixture's experts, beside a plain LRU with as many slots on the same routing."""

    def middle(get, form, scale=1):
        found = median_of(own, get)
        return number(found and found * scale, form)
    lru, a_token = "lru_bytes_per_token", median_of(own, lambda r: 1 / r["tok_s"])
    return [*key, middle(lambda r: r["tok_s"], "{:.2f}"), middle(mixture_share(resident), "{:.0f} %", 100),
            middle(mixture_limit(resident), "{:.2f}"), number(resident), middle(lambda r: r["bytes_read_per_token"], "{:.0f}", 1e-6),
            middle(lambda r: r["bytes_read_per_token"] / r[lru] if r[lru] else None, "{:.2f}"), f"{1e3 * a_token:.0f}",
            middle(lambda r: r["compute_per_token_s"], "{:.0f}", 1e3), middle(lambda r: r["wait_per_token_s"], "{:.0f}", 1e3),
            middle(lambda r: r["drive_bytes_s"], "{:.2f}", 1e-9), str(own[-1]["expert_slots"]), own[-1]["expert_path"]]


def mixture_rows(records):
    found = [r for r in records if "lru_bytes_per_token" in r and r["cell"] != "prefill-quarter"]
    for key in dict.fromkeys((r["model"], r["cell"]) for r in found):
        own = [r for r in found if (r["model"], r["cell"]) == key]
        yield mixture_row(key, own, resident_tok_s(records, key[0]))


def conditions(records):
    """Machine, versions, caches: what the numbers were measured under."""
    versions = dict.fromkeys(f"{r['engine'].split(',')[0].split(' -')[0]} {r['version']}" for r in records)
    yield "Machine: " + "; ".join(dict.fromkeys(r["machine"] for r in records)) + "."
    yield f"Threads: {', '.join(sorted({str(r['threads']) for r in records}))}.  Versions: {', '.join(versions)}."
    yield f"Measured {min(r['time'] for r in records)} to {max(r['time'] for r in records)}."
    yield ("Medians (least-greatest) of runs that alternate between the engines.  Page cache: warm where everything is in memory, "
           "emptied before each run under a limit; the file was read once before, so a virtual drive's host may hold it.")
    wall = sum(r.get("wall_s", 0) for r in records)
    if wall:
        yield (f"While the engines ran, other programs used {sum(r.get('others_cpu_s', 0) for r in records) / wall:.2f} processors "
               f"and the host took {sum(r.get('steal_s', 0) for r in records) / wall:.2f}.")


def every_engine(records):
    """The medians of everything that ran, failures by name."""
    yield "| model | cell | " + " | ".join(names := sorted(dict.fromkeys(r["engine"] for r in records))) + " |"
    yield "|---|---|" + "---|" * len(names)
    for key in dict.fromkeys((r["model"], r["cell"]) for r in records):
        of = [r for r in records if (r["model"], r["cell"]) == key]
        cells = []
        for name in names:
            mine = [r for r in of if r["engine"] == name]
            values = [value(r) for r in mine if "failed" not in r]
            cells.append(f"{statistics.median(values):.4g}" if values else mine[0]["failed"] if mine else "")
        yield f"| {key[0]} | {key[1]} | " + " | ".join(cells) + " |"


def markdown(records):
    yield from ("\n".join(conditions(records)), "")
    for cell, lines in rows(records):
        if lines:
            unit = "" if cell == "first" else ", tok/s"
            yield from (f"### {CELL_TEXT[cell]}{unit}", "", "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|")
            yield from ("| " + " | ".join(line) + " |" for line in lines)
            yield ""
    if lines := list(mixture_rows(records)):
        yield from ("### sluice on mixtures: reads beside an LRU with as many slots", "", "| " + " | ".join(MIXTURE_HEAD) + " |",
                    "|---" * len(MIXTURE_HEAD) + "|", *("| " + " | ".join(line) + " |" for line in lines), "")
    yield from ("### every engine, medians", "", *every_engine(records), "")


def tsv(records):
    yield "\t".join(("cell", *HEAD))
    for cell, lines in rows(records):
        yield from ("\t".join((cell, *line)) for line in lines)


def write(paths, out):
    records = load(paths)
    if not records:
        sys.exit("no results")
    if not out:
        print("\n".join(markdown(records)))
        return
    for suffix, lines in ((".md", markdown(records)), (".tsv", tsv(records))):
        with open(out + suffix, "w") as f:
            f.write("\n".join(lines) + "\n")
