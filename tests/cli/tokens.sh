# sluice tokenize and detokenize: exact bytes there and back, lines, JSON.
. tests/cli/lib.sh

printf 'Hello, world!\n\tcaf\xc3\xa9 \xf0\x9f\x98\x80  two  spaces \xe6\xbc\xa2\xe5\xad\x97\r\nend' >"$work/text"
for family in llama qwen2 qwen3 gemma3 smollm2 llama3-rope; do
    model=$tiny/$family/$family-f32.gguf
    runs "$family: tokenize" "$SLUICE" tokenize "$model" -f "$work/text" --no-bos --json
    ids=$(tr -d '[]\n' <"$out")
    runs "$family: detokenize" "$SLUICE" detokenize "$model" --tokens "$ids"
    check "$family: the bytes come back" cmp -s "$out" "$work/text"
    run "$SLUICE" tokenize "$tiny/$family/hf" -f "$work/text" --no-bos --json
    check "$family: the same ids from tokenizer.json" test "$(tr -d '[]\n' <"$out")" = "$ids"
done

printf 'one\n\ntwo words\nlast' >"$work/lines"
runs "--lines --json" "$SLUICE" tokenize "$llama" -f "$work/lines" --lines --json --no-bos
check "a line for each text" test "$(wc -l <"$out")" -eq 4
check "an empty text has no ids" test "$(sed -n 2p "$out")" = "[]"
sed -n 3p "$out" >"$work/third"
runs "the third line alone" "$SLUICE" tokenize "$llama" -p "two words" --json --no-bos
check "has the same ids" cmp -s "$out" "$work/third"
is_json "is JSON" "$out" 'all(isinstance(i, int) for i in d)'
runs "pieces" "$SLUICE" tokenize "$llama" -p "two words" --no-bos
check "an id and its piece on every line" test "$(grep -cvE '^ *[0-9]+  "' "$out")" -eq 0
check "as many as ids" test "$(wc -l <"$out")" -eq "$(tr -cd , <"$work/third" | wc -c | awk '{ print $1 + 1 }')"

runs "BOS" "$SLUICE" tokenize $tiny/gemma3/gemma3-f32.gguf -p x --json
with=$(cat "$out")
runs "no BOS" "$SLUICE" tokenize $tiny/gemma3/gemma3-f32.gguf -p x --json --no-bos
check "BOS stands in front" test "${with#\[[0-9]*,}" = "$(tr -d '[' <"$out")"
runs "control tokens in the text" "$SLUICE" tokenize $tiny/qwen2/qwen2-f32.gguf -p '<|im_end|>' --json
check "are one id" test "$(tr -cd , <"$out" | wc -c)" -eq 0
id=$(tr -d '[]\n' <"$out")
runs "with --no-special" "$SLUICE" tokenize $tiny/qwen2/qwen2-f32.gguf -p '<|im_end|>' --json --no-special
check "they are many" test "$(tr -cd , <"$out" | wc -c)" -ge 3
runs "detokenize a control token" "$SLUICE" detokenize $tiny/qwen2/qwen2-f32.gguf --tokens "$id"
check "is its text" test "$(cat "$out")" = '<|im_end|>'
runs "and with --no-special" "$SLUICE" detokenize $tiny/qwen2/qwen2-f32.gguf --tokens "$id" --no-special
check "nothing" test ! -s "$out"
runs "no ids, no text" "$SLUICE" detokenize "$llama" --tokens ""
check "is empty" test ! -s "$out"
refuses "an id beyond the vocabulary" 2 "id 99999999 is outside the vocabulary" "$SLUICE" detokenize "$llama" --tokens 1,99999999
refuses "a list that is none" 2 "--tokens '1,,2'" "$SLUICE" detokenize "$llama" --tokens 1,,2
finish
