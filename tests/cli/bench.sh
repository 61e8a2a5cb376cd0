# sluice bench and selftest on tiny models.
. tests/cli/lib.sh

runs "bench" "$SLUICE" bench "$llama" -p 16 -n 8 -r 2
check "reports decoding" grep -qE '^decode  .* tok/s' "$out"
runs "bench --json" "$SLUICE" bench "$llama" -p 16 -n 8 -r 3 --json
cp "$out" "$work/json"
is_json "rates and bounds" "$work/json" 'd["decode_tok_s_min"] <= d["decode_tok_s"] <= d["decode_tok_s_max"] and
    d["prefill_tok_s"] > 0 and d["repetitions"] == 3'
is_json "shares follow" "$work/json" 'd["limit_tok_s"] is None or abs(d["share_of_limit"] * d["limit_tok_s"] / d["decode_tok_s"] - 1) < 1e-6'
refuses "a context that is too small" 2 "--ctx '8': .* 24 tokens" "$SLUICE" bench "$llama" -p 16 -n 8 --ctx 8

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
