# Mixtures of experts from the command line: the same logits and text whatever stays in memory, counters, traces, the record
# that runs keep, and what is refused.
. tests/cli/lib.sh
moe=$tiny/qwen3moe/qwen3moe-f32.gguf
ids=$(seq -s, 3 42)

runs "logits of a mixture" "$SLUICE" logits "$moe" --tokens "$ids" --split 30 --out "$work/want.npy"
i=0
for flags in "--experts cache_slots=1" "--experts exact,cache_slots=5 --predict history" "--experts staged_k4 --predict lookahead" \
    "--experts hot,cache_slots=9,hot_update_interval=1" "--experts layer,cache_slots=11 --io pread" "--experts prod_k8" \
    "--experts cache_slots=7 --io mmap --predict history" "--experts cache_slots=8 --threads 1 --prefill-chunk 3" "--memory 16M"; do
    i=$((i + 1))
    runs "logits $flags" "$SLUICE" logits "$moe" --tokens "$ids" --split 30 --out "$work/$i.npy" $flags
    check "$flags changes nothing" cmp -s "$work/$i.npy" "$work/want.npy"
done
run "$SLUICE" logits "$moe" --tokens "$ids" --out "$work/x.npy" --experts cache_slots=2
check "too few slots are warned of" grep -q '^warning: memory holds 2 experts, one token uses' "$err"

# --- refusals ---
refuses "an unknown path" 2 "--experts 'fast': .*no path" "$SLUICE" logits "$moe" --tokens 1 --out "$work/x.npy" --experts fast
refuses "an unknown field" 2 "'top_k'" "$SLUICE" logits "$moe" --tokens 1 --out "$work/x.npy" --experts top_k=4
refuses "a value out of bounds" 2 "hot_decay is '7'" "$SLUICE" logits "$moe" --tokens 1 --out "$work/x.npy" --experts hot,hot_decay=7
refuses "an unknown predictor" 2 "--predict 'guess'" "$SLUICE" logits "$moe" --tokens 1 --out "$work/x.npy" --predict guess

# --- plan and bench ---
runs "plan" "$SLUICE" plan "$moe" --drive 500 --memory 64M --experts cache_slots=10
check "plan shows the slots" grep -q 'slots  *10 of ' "$out"
runs "plan --json" "$SLUICE" plan "$moe" --drive 500 --memory 64M --experts cache_slots=10 --json
is_json "and as JSON" "$out" 'd["expert_slots"] == 10 < d["expert_count"] and d["expert_bytes"] > 10 * 4096 and 0 <= d["expert_hit_rate"] < 1'
runs "bench" "$SLUICE" bench "$moe" -p 8 -n 4 -r 1 --drive 500 --experts cache_slots=10 --json
is_json "bench tells the hit rate" "$out" '0 <= d["hit_rate"] < 1 and d["bytes_read_per_token"] > 0'
runs "bench with everything resident" "$SLUICE" bench "$moe" -p 8 -n 4 -r 1 --drive 500 --json
is_json "hits always, and reads nothing" "$out" 'd["hit_rate"] == 1 and d["bytes_read_per_token"] == 0'

# --- run: counters, trace, record ---
model=
for m in $tiny/*moe*/hf $tiny/olmoe/hf $tiny/mixtral/hf; do
    [ -z "$model" ] && "$SLUICE" tokenize "$m" -p x >/dev/null 2>&1 && model=$m
done
if [ -z "$model" ]; then
    skip "run of a mixture" "no tiny mixture with a tokenizer"
else
    go="$SLUICE run $model -p abc -n 8 --greedy --ignore-eos --experts cache_slots=10"
    runs "run" $go --stats-json "$work/cold" --expert-trace "$work/trace"
    cp "$out" "$work/text"
    is_json "counters" "$work/cold" 'd["expert_misses"] > 0 and d["expert_slots"] == 10 and d["warm_issued"] == 0 and d["routing"] == "native"'
    check "the trace marks where decoding begins" grep -qx decode "$work/trace"
    check "and has a line per layer" grep -qE '^0:( [0-9]+)+$' "$work/trace"
    check "what was learned is kept" test "$(ls "$XDG_CACHE_HOME/sluice" | wc -l)" -eq 1
    runs "the next run" $go --stats-json "$work/warm"
    check "gives the same text" cmp -s "$out" "$work/text"
    is_json "and begins with what the first one used" "$work/warm" 'd["warm_issued"] > 0'
    runs "--no-warm" $go --no-warm --stats-json "$work/none"
    is_json "does not" "$work/none" 'd["warm_issued"] == 0'
    refuses "a trace that cannot be written" 1 "--expert-trace '/no/where'" $go --expert-trace /no/where
fi
finish
