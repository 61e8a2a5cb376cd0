# sluice bench and selftest on tiny models.
. tests/cli/lib.sh

# Scripts rely on these names; docs/sluice.1 lists them.
keys="prompt_tokens decode_tokens repetitions prefill_tok_s prefill_tok_s_min prefill_tok_s_max prefill_bytes_read
prefill_compute_s prefill_wait_s prefill_other_s decode_tok_s decode_tok_s_min decode_tok_s_max bytes_read_per_token
decode_compute_s decode_wait_s decode_other_s load_s hit_rate hit_rate_expected limit_tok_s share_of_limit limit forecast_tok_s forecast_error
forecast_prefill_tok_s forecast_prefill_error forecast_load_s drive_bytes_s memory_bytes_s stream_bytes model_bytes
budget_bytes peak_rss_bytes backend cpu threads io_method policy kv huge_pages"

runs "bench" "$SLUICE" bench "$llama" -p 16 -n 8 -r 2
check "reports decoding" grep -qE '^decode  .* tok/s' "$out"
check "says where the time went" grep -qE '^  per token .* computing, .* waiting for reads, .* other$' "$out"
check "sets the forecast beside it" grep -qE '^forecast    prompt [0-9.]+ tok/s, measured is .* decode [0-9.]+ tok/s' "$out"
runs "bench --json" "$SLUICE" bench "$llama" -p 16 -n 8 -r 3 --json
cp "$out" "$work/json"
is_json "the keys, all of them and no others" "$work/json" "sorted(d) == sorted('''$keys'''.split())"
is_json "rates and bounds" "$work/json" 'd["decode_tok_s_min"] <= d["decode_tok_s"] <= d["decode_tok_s_max"] and
    d["prefill_tok_s_min"] <= d["prefill_tok_s"] <= d["prefill_tok_s_max"] and d["prefill_tok_s"] > 0 and d["repetitions"] == 3'
is_json "shares follow" "$work/json" 'abs(d["share_of_limit"] * d["limit_tok_s"] / d["decode_tok_s"] - 1) < 1e-6 and
    abs((1 + d["forecast_error"]) * d["forecast_tok_s"] / d["decode_tok_s"] - 1) < 1e-6'
is_json "the parts of the time" "$work/json" 'd["decode_compute_s"] > 0 and d["decode_wait_s"] == 0 and
    0 <= d["decode_other_s"] and d["decode_compute_s"] + d["decode_other_s"] < 4 / d["decode_tok_s"]'
for key in $keys; do grep -qw "$key" docs/sluice.1 || echo "$key"; done >"$work/missing"
check "the man page names every key" test ! -s "$work/missing"
refuses "a context that is too small" 2 "--ctx '8': .* 24 tokens" "$SLUICE" bench "$llama" -p 16 -n 8 --ctx 8

runs "bench --vs" "$SLUICE" bench "$llama" -p 16 -n 8 -r 2 --json --vs "--threads 1  --io pread"
cp "$out" "$work/json"
is_json "both halves have every key" "$work/json" "all(sorted(d[k]) == sorted('''$keys'''.split() + ['settings']) for k in 'ab')"
is_json "the settings were applied" "$work/json" 'd["b"]["threads"] == 1 and d["b"]["io_method"] == "pread" and
    d["b"]["settings"] == "--threads 1  --io pread" and d["a"]["settings"] == "" and d["a"]["repetitions"] == 2'
is_json "ratios of pairs" "$work/json" 'd["decode_ratio"] > 0 and d["prefill_ratio"] > 0 and
    d["a"]["decode_tok_s_min"] / d["b"]["decode_tok_s_max"] <= d["decode_ratio"] <= d["a"]["decode_tok_s_max"] / d["b"]["decode_tok_s_min"]'
runs "bench --vs in words" "$SLUICE" bench "$llama" -p 4 -n 4 -r 1 --vs "--threads 1"
check "prints the ratio" grep -qE '^A / B  .*prompt [0-9.]+, decode [0-9.]+' "$out"
refuses "settings that are none" 2 "--vs '-n 3': '-n' is not a flag of how to run" "$SLUICE" bench "$llama" --vs "-n 3"
refuses "a word among the settings" 2 "'other.gguf' is not a flag" "$SLUICE" bench "$llama" --vs "--threads 1 other.gguf"
refuses "a wrong value among the settings" 2 "--threads 'x': " "$SLUICE" bench "$llama" --vs "--threads x"
refuses "settings that do not fit" 3 "does not fit" "$SLUICE" bench "$llama" -r 1 --quiet --vs "--memory 1M"

for family in llama gemma3; do
    runs "selftest $family" "$SLUICE" selftest $tiny/$family/$family-f32.gguf --quick -n 6
    check "$family: one digest" grep -qE '^selftest: [0-9]+ runs, one digest [0-9a-f]{16}$' "$out"
    check "$family: every run has a line" test "$(grep -c '^budget .* [0-9a-f]\{16\}$' "$out")" -eq "$(sed -n 's/^selftest: \([0-9]*\) runs.*/\1/p' "$out")"
done
runs "selftest, every combination" "$SLUICE" selftest "$llama" -n 3
check "one digest" grep -qE '^selftest: [0-9]+ runs, one digest' "$out"
if [ -f "$smollm2" ]; then
    runs "selftest of a real model" "$SLUICE" selftest "$smollm2" --quick -n 4
    check "one digest of a real model" grep -qE '^selftest: [0-9]+ runs, one digest' "$out"
else skip "selftest of a real model" "$smollm2 is not there"; fi
finish
