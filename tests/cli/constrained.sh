# sluice run with --json, --json-schema, --grammar, --regex: on a tiny model with random weights, so what is right is not the
# model's doing.
. tests/cli/lib.sh
prompt="The quick brown fox"
schema='{"type": "object", "properties": {"a": {"type": "integer", "minimum": 10, "maximum": 99}, "b": {"enum": ["x", "yy"]}}, "required": ["a", "b"]}'

runs "--regex" "$SLUICE" run "$llama" -p "$prompt" -n 40 --seed 1 --regex '[0-9]{3}-[a-c]{2}'
check "the text matches" grep -qxE '[0-9]{3}-[a-c]{2}' "$out"
runs "--json-schema" "$SLUICE" run "$llama" -p "$prompt" -n 200 --seed 1 --json-schema "$schema"
is_json "the text satisfies the schema" "$out" '10 <= d["a"] <= 99 and d["b"] in ("x", "yy") and len(d) == 2'
printf '%s' "$schema" >"$work/schema.json"
cp "$out" "$work/text"
runs "--json-schema from a file" "$SLUICE" run "$llama" -p "$prompt" -n 200 --seed 1 --json-schema "$work/schema.json" --stats-json "$work/stats"
check "is the same text" cmp -s "$out" "$work/text"
is_json "it ended by itself" "$work/stats" 'd["finish"] == "end"'
runs "--memory counts it" "$SLUICE" run "$llama" -p "$prompt" -n 200 --seed 1 --json-schema "$work/schema.json" --memory 32M --stats-json "$work/stats"
check "the text is still the same" cmp -s "$out" "$work/text"
is_json "and stays below the budget" "$work/stats" 'd["peak_rss_bytes"] <= d["budget_bytes"]'
printf 'root ::= ("ab" | "cd"){2} "!"\n' >"$work/rules"
runs "--grammar" "$SLUICE" run "$llama" -p "$prompt" -n 40 --greedy --grammar "$work/rules"
check "the text keeps to the rules" grep -qxE '(ab|cd){2}!' "$out"
runs "--json" "$SLUICE" run "$llama" -p "$prompt" -n 5 --greedy --json
check "begins an object" grep -q '^{' "$out"

refuses "an unknown keyword" 1 'keyword "not" at #/properties/a is not supported' \
    "$SLUICE" run "$llama" -p x --json-schema '{"properties": {"a": {"not": {}}}}'
refuses "a bad expression" 1 'regular expression: .*not closed' "$SLUICE" run "$llama" -p x --regex '(a'
refuses "a missing file" 1 'no-such-file: cannot be read' "$SLUICE" run "$llama" -p x --grammar no-such-file
refuses "two of them" 2 'at most one' "$SLUICE" run "$llama" -p x --json --regex a
refuses "--ignore-eos" 2 'cannot go on' "$SLUICE" run "$llama" -p x --json --ignore-eos
finish
