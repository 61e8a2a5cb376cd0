# sluice perplexity against the same number worked out here from `sluice logits`, with and without BOS.
. tests/cli/lib.sh
printf 'The sluice opens; water runs into the mill-race, turns the wheel, and the stones grind. %.0s' $(seq 5) >"$work/text"

# expected MODEL BOS: the definition, chunk by chunk (BOS: empty, or the id that replaces the first of each)
expected() {
    python3 - "$SLUICE" "$1" "$2" "$work" 64 <<'PY'
import array, json, math, subprocess, sys
sluice, model, bos, work, ctx = *sys.argv[1:5], int(sys.argv[5])
ids = json.loads(subprocess.run([sluice, "tokenize", model, "-f", work + "/text", "--json", "--no-special"],
                                stdout=subprocess.PIPE, check=True).stdout)
total, count = 0.0, 0
for begin in range(0, len(ids) - ctx + 1, ctx):
    chunk = ids[begin:begin + ctx]
    if bos: chunk[0] = int(bos)
    subprocess.run([sluice, "logits", model, "--all", "--tokens", ",".join(map(str, chunk)), "--out", work + "/p.npy"], check=True)
    flat = array.array("f", open(work + "/p.npy", "rb").read()[128:])
    v = len(flat) // ctx
    for i in range(ctx // 2, ctx - 1):
        row = flat[i * v:i * v + v]
        top = max(row)
        total += top + math.log(sum(math.exp(x - top) for x in row)) - row[chunk[i + 1]]
        count += 1
print("%.6f %d %d" % (math.exp(total / count), count, len(ids)))
PY
}
compare() {
    local name=$1 model=$2 bos=$3 want
    runs "$name" "$SLUICE" perplexity "$model" -f "$work/text" --ctx 64 --json
    cp "$out" "$work/json"
    want=$(expected "$model" "$bos")
    is_json "$name equals its definition" "$work/json" "(lambda w: abs(d['perplexity'] / float(w[0]) - 1) < 1e-6 and
        d['scored'] == int(w[1]) and d['tokens'] == int(w[2]) and d['chunks'] * 31 == d['scored'])('$want'.split())"
}
if has_python; then
    compare "without BOS" $tiny/qwen2/qwen2-f32.gguf ""
    run "$SLUICE" tokenize $tiny/gemma3/gemma3-f32.gguf -p "" --json
    compare "with BOS" $tiny/gemma3/gemma3-f32.gguf "$(tr -d '[]\n' <"$out")"
else skip "equals its definition" "no python3"; fi
runs "as text" "$SLUICE" perplexity "$llama" -f "$work/text" --ctx 64
check "has the number" grep -qE '^perplexity  [0-9.]+ \+/- [0-9.]+$' "$out"
refuses "a text shorter than a chunk" 1 "one chunk takes 4096" "$SLUICE" perplexity "$llama" -f "$work/text" --ctx 4096
refuses "no text" 2 "-f FILE" "$SLUICE" perplexity "$llama"
finish
