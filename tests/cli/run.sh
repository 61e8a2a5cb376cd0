# sluice run on a tiny model: stdout is the generated text and nothing else; limits, stop texts, statistics, errors.
. tests/cli/lib.sh
prompt="The quick brown fox"

runs "run" "$SLUICE" run "$llama" -p "$prompt" -n 12 --greedy --ignore-eos
cp "$out" "$work/text"
check "there is a text" test -s "$work/text"
check "nothing on stderr" test ! -s "$err"
printf '%s' "$prompt" >"$work/prompt"
runs "the prompt from a file" "$SLUICE" run "$llama" -f "$work/prompt" -n 12 --greedy --ignore-eos
check "is the same text" cmp -s "$out" "$work/text"
"$SLUICE" run "$llama" -f - -n 12 --greedy --ignore-eos <"$work/prompt" >"$out" 2>"$err"
check "the prompt from standard input" cmp -s "$out" "$work/text"
runs "flags before the model" "$SLUICE" run --greedy --ignore-eos -n 12 -p "$prompt" -- "$llama"
check "is the same text again" cmp -s "$out" "$work/text"
runs "from safetensors" "$SLUICE" run $tiny/llama/hf -p "$prompt" -n 12 --greedy --ignore-eos
check "is the same text from safetensors" cmp -s "$out" "$work/text"

for flags in "--io mmap" "--io buffered" "--threads 1" "--prefill-chunk 1" "--policy lru" "--ctx 64" "--memory 64M"; do
    runs "run $flags" "$SLUICE" run "$llama" -p "$prompt" -n 12 --greedy --ignore-eos $flags
    check "$flags changes nothing" cmp -s "$out" "$work/text"
done

# --- statistics ---
runs "--stats-json" "$SLUICE" run "$llama" -p "$prompt" -n 12 --greedy --ignore-eos --stats-json "$work/stats"
check "stdout stays pure" cmp -s "$out" "$work/text"
is_json "the fixed keys are there" "$work/stats" 'all(k in d for k in """seed prompt_tokens generated_tokens prefill_s
    decode_s decode_compute_s decode_wait_s prefill_tok_s decode_tok_s ttft_s budget_bytes peak_rss_bytes bytes_read bytes_read_per_token expert_hits
    expert_misses prefetch_issued prefetch_used io_wait_s compute_s io_method threads backend routing prompt_ids
    tokens""".split())'
is_json "counts agree" "$work/stats" \
    'd["generated_tokens"] == 12 == len(d["tokens"]) and d["prompt_tokens"] == len(d["prompt_ids"]) and d["finish"] == "length"'
run "$SLUICE" run "$llama" -p "$prompt" -n 12 --ignore-eos --memory 32M --stats-json "$work/bounded"
is_json "the process stays below --memory" "$work/bounded" 'd["peak_rss_bytes"] <= d["budget_bytes"] == 32 << 20'
is_json "times are sane" "$work/stats" '0 < d["prefill_s"] <= d["ttft_s"] and d["decode_s"] > 0 and d["peak_rss_bytes"] > 1e6'
if has_python; then
    run "$SLUICE" tokenize "$llama" -p "$prompt" --json
    check "prompt_ids are the tokenizer's" test "$(json_value "$work/stats" 'd["prompt_ids"]')" = "$(json_value "$out" d)"
    run "$SLUICE" detokenize "$llama" --no-special --tokens "$(json_value "$work/stats" '",".join(map(str, d["tokens"]))')"
    # this model's bytes are not always UTF-8, and a text stream has U+FFFD for those
    check "tokens give the text" test "$(tr -cd ' -~' <"$out")" = "$(tr -cd ' -~' <"$work/text")"
else
    skip "prompt_ids are the tokenizer's" "no python3"
    skip "tokens give the text" "no python3"
fi
runs "--stats" "$SLUICE" run "$llama" -p "$prompt" -n 12 --greedy --ignore-eos --stats
check "--stats leaves stdout alone" cmp -s "$out" "$work/text"
check "--stats reports on stderr" grep -q '^note: memory .*peak' "$err"
check "with prefixes only" clean_stderr
runs "--quiet keeps what --stats was asked for" "$SLUICE" run "$llama" -p "$prompt" -n 2 --stats --quiet
check "the report is there" grep -q '^note: memory' "$err"
refuses "an unwritable statistics file" 1 "--stats-json '/no/such/dir/f': .*No such file" \
    "$SLUICE" run "$llama" -p "$prompt" --stats-json /no/such/dir/f

# --- seeds ---
runs "a seed" "$SLUICE" run "$llama" -p "$prompt" -n 20 --ignore-eos --temp 1 --seed 7
cp "$out" "$work/seed7"
runs "the same seed" "$SLUICE" run "$llama" -p "$prompt" -n 20 --ignore-eos --temp 1 --seed 7
check "gives the same text" cmp -s "$out" "$work/seed7"
runs "another seed" "$SLUICE" run "$llama" -p "$prompt" -n 20 --ignore-eos --temp 1 --seed 8
check "gives another text" test "$(cmp "$out" "$work/seed7")"
runs "no seed" "$SLUICE" run "$llama" -p "$prompt" -n 20 --ignore-eos --temp 1 --stats-json "$work/stats"
cp "$out" "$work/unseeded"
if has_python; then
    runs "the reported seed" "$SLUICE" run "$llama" -p "$prompt" -n 20 --ignore-eos --temp 1 --seed "$(json_value "$work/stats" 'd["seed"]')"
    check "gives the text again" cmp -s "$out" "$work/unseeded"
else skip "the reported seed" "no python3"; fi

# --- ends ---
runs "-n 0 only reads the prompt" "$SLUICE" run "$llama" -p "$prompt" -n 0
check "and writes nothing" test ! -s "$out"
# a stop text taken from the middle of the text, so that it may lie across tokens
stop=$(head -c 9 "$work/text" | tail -c 4)
runs "--stop" "$SLUICE" run "$llama" -p "$prompt" -n 12 --greedy --ignore-eos --stop "never to be seen" --stop "$stop" --stats-json "$work/stats"
want=$(cat "$work/text")
want=${want%%"$stop"*}
check "ends before it" test "$(cat "$out")" = "$want"
is_json "and says so" "$work/stats" 'd["finish"] == "stop"'
runs "a stop text that does not come" "$SLUICE" run "$llama" -p "$prompt" -n 12 --greedy --ignore-eos --stop "$(tail -c 2 "$work/text")never"
check "loses nothing that was held back" cmp -s "$out" "$work/text"
runs "the context fills up" "$SLUICE" run "$llama" -p "$prompt" -n 100 --greedy --ignore-eos --ctx 24 --stats-json "$work/stats"
is_json "and ends the text there" "$work/stats" 'd["finish"] == "context" and d["prompt_tokens"] + d["generated_tokens"] == 25'
check "with a note" grep -q '^note: .*context of 24' "$err"

# --- refusals before any weight is read ---
long=$(printf 'word %.0s' $(seq 300))
refuses "a prompt beyond --ctx" 1 "the prompt has [0-9]+ tokens, the context holds 32" "$SLUICE" run "$llama" -p "$long" --ctx 32
refuses "a prompt beyond the model's context" 1 "the prompt has [0-9]+ tokens, the context holds" "$SLUICE" run "$llama" -p "$long$long$long"
refuses "a budget that is too small" 3 "does not fit" "$SLUICE" run "$llama" -p x --memory 1M
refuses "an empty prompt without BOS" 1 "prompt is empty" "$SLUICE" run $tiny/qwen2/qwen2-f32.gguf -p ""
runs "an empty prompt with BOS" "$SLUICE" run $tiny/gemma3/gemma3-f32.gguf -p "" -n 3 --ignore-eos

# --- output that cannot be written ---
"$SLUICE" run "$llama" -p "$prompt" -n 4 --ignore-eos >/dev/full 2>"$err"
status=$?
: >"$out"
check "a full disk fails the run" test "$status" -eq 1
check "and is named" grep -q '^error: standard output cannot be written: No space' "$err"
# --- a terminal gets a newline at the end, and only a terminal ---
if command -v script >/dev/null; then
    script -qec "$SLUICE run $llama -p '$prompt' -n 12 --greedy --ignore-eos --quiet" /dev/null </dev/null >"$out" 2>&1
    { cat "$work/text" && echo; } | sed 's/$/\r/' >"$work/want"
    check "a terminal gets a newline" test "$(tail -c 1 "$out" | od -An -c | tr -d ' ')" = '\n'
else skip "a terminal gets a newline" "no script command"; fi
finish
