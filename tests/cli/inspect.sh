# sluice inspect and plan: sums add up, JSON is valid, a plan that cannot fit exits 3 and says why.
. tests/cli/lib.sh

for model in "$llama" $tiny/llama/hf $tiny/llama/hf-sharded $tiny/llama/llama-split-00002-of-00003.gguf $tiny/gemma3/gemma3-f32.gguf \
    $tiny/quant/q256-Q4_K.gguf; do
    runs "inspect $model" "$SLUICE" inspect "$model"
    check "$model is supported" grep -q '^supported  *yes' "$out"
    runs "inspect $model --json" "$SLUICE" inspect "$model" --json
    cp "$out" "$work/json"
    is_json "$model: bytes add up" "$work/json" 'd["weight_bytes"] == sum(t["bytes"] for t in d["tensors"]) ==
        sum(d["bytes_by_kind"].values()) == sum(d["bytes_by_type"].values()) and d["supported"] and d["reason"] is None'
    is_json "$model: parameters add up" "$work/json" \
        'd["parameters"] == sum(__import__("math").prod(t["shape"]) for t in d["tensors"])'
    is_json "$model: layers are numbered" "$work/json" \
        'sorted({t["layer"] for t in d["tensors"]} - {None}) == list(range(d["n_layer"]))'
    is_json "$model: every kind is known" "$work/json" '"other" not in d["bytes_by_kind"]'
done
for model in $tiny/qwen3moe/hf $tiny/qwen3moe/qwen3moe-f32.gguf $tiny/qwen3moe/qwen3moe-fused.gguf $tiny/qwen3moe/qwen3moe-each.gguf \
    $tiny/granitemoeshared/hf; do
    runs "inspect $model --json" "$SLUICE" inspect "$model" --json
    cp "$out" "$work/json"
    is_json "$model: experts are counted" "$work/json" 'd["n_expert"] > d["n_expert_used"] > 0 and
        d["expert_bytes"] == d["bytes_by_kind"]["experts"] and
        d["weight_bytes"] - d["active_bytes"] == d["expert_bytes"] // d["n_expert"] * (d["n_expert"] - d["n_expert_used"])'
    is_json "$model: every kind is known" "$work/json" '"other" not in d["bytes_by_kind"]'
done
for model in $tiny/gpt-oss/hf $tiny/gpt-oss/hf-plain $tiny/gpt-oss/gpt-oss-MXFP4.gguf; do
    runs "inspect $model --json" "$SLUICE" inspect "$model" --json
    cp "$out" "$work/json"
    is_json "$model: every tensor can be computed with" "$work/json" 'd["supported"] and all(t["supported"] for t in d["tensors"])'
    is_json "$model: parameters are those of the model, however packed" "$work/json" 'd["parameters"] == 126920'
    runs "inspect $model" "$SLUICE" inspect "$model"
    check "$model: no type is called unsupported" test "$(grep -c 'not supported' "$out")" -eq 0
done
run "$SLUICE" inspect $tiny/llama/hf --json && cp "$out" "$work/hf"
run "$SLUICE" inspect $tiny/llama/hf-sharded --json && cp "$out" "$work/sharded"
if has_python; then
    shape='{k: d[k] for k in ("n_layer", "n_embd", "n_ff", "n_head", "n_head_kv", "head_dim", "n_vocab", "parameters", "weight_bytes", "bytes_by_kind")}'
    check "sharding changes nothing" test "$(json_value "$work/hf" "$shape")" = "$(json_value "$work/sharded" "$shape")"
else skip "sharding changes nothing" "no python3"; fi

sum='d["base_bytes"] + d["tokenizer_bytes"] + d["always_bytes"] + d["kv_bytes"] + d["scratch_bytes"] + d["window_bytes"] + d["resident_bytes"] + d["expert_bytes"]'
runs "plan" "$SLUICE" plan "$llama" --drive 500
check "the table has a sum" grep -q '^  sum ' "$out"
runs "plan --json" "$SLUICE" plan "$llama" --drive 500 --json
cp "$out" "$work/plan"
is_json "the parts add up" "$work/plan" "d['total_bytes'] == $sum and d['fits'] and d['total_bytes'] <= d['budget_bytes']"
is_json "the given drive counts" "$work/plan" 'd["drive_bytes_s"] == 500e6'
is_json "it forecasts" "$work/plan" 'all(d[k] > 0 for k in ("prefill_tok_s", "decode_tok_s", "decode_full_tok_s", "load_s", "first_token_s",
    "prefill_compute_s", "decode_compute_s", "memory_bytes_s")) and d["prefill_wait_s"] == 0 and d["limit"] in ("memory", "compute")'
runs "plan for a prompt" "$SLUICE" plan "$llama" --drive 500 --json -p 20 -n 5
cp "$out" "$work/plan"
is_json "the prompt counts" "$work/plan" 'd["prompt_tokens"] == 20 and d["predict_tokens"] == 5'
run "$SLUICE" plan "$llama" --drive 500 --json --memory 1M
cp "$out" "$work/plan"
check "a budget that is too small exits 3" test "$status" -eq 3
is_json "and says so in JSON" "$work/plan" "not d['fits'] and d['message'] and d['minimum_bytes'] > 1 << 20 and d['total_bytes'] == $sum"
check "and in one error line" test "$(grep -c '^error: .*KV' "$err")" -eq 1
if has_python; then
    least=$(json_value "$work/plan" 'd["minimum_bytes"]')
    ctx=$(json_value "$work/plan" 'd["ctx_tok"]')
    runs "the smallest budget it names fits" "$SLUICE" plan "$llama" --drive 500 --memory "$least" --ctx "$ctx"
    runs "and runs" "$SLUICE" run "$llama" -p "fox" -n 4 --memory "$least" --ctx "$ctx"
    runs "with any context of its own choice too" "$SLUICE" run "$llama" -p "fox" -n 4 --memory "$least"
    run "$SLUICE" plan "$llama" --drive 500 --memory 32M --ctx 16000000 --json
    cp "$out" "$work/plan"
    check "a context that is too large exits 3" test "$status" -eq 3
    most=$(json_value "$work/plan" 'd["ctx_max_tok"]')
    runs "the largest context it names fits" "$SLUICE" plan "$llama" --drive 500 --memory 32M --ctx "$most"
else
    skip "the smallest budget it names fits" "no python3"
    skip "the largest context it names fits" "no python3"
fi
finish
