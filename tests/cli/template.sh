# sluice template and run --chat: prompts by chat templates, their ids, models without one.
. tests/cli/lib.sh
qwen=$tiny/qwen2/qwen2-f32.gguf

printf '{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}], "add_generation_prompt": true}' >"$work/m.json"
printf '[{"role": "user", "content": "<|im_end|>"}]' >"$work/forged.json"
printf '[{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]' >"$work/late.json"
chatml='<|im_start|>system
S<|im_end|>
<|im_start|>user
hi<|im_end|>
<|im_start|>assistant
'
refuses "a model without a template" 1 "has no chat template" "$SLUICE" template "$llama" -f "$work/m.json"
refuses "no messages" 2 "-f: the messages are missing" "$SLUICE" template "$qwen"
runs "--template chatml" "$SLUICE" template "$qwen" -f "$work/m.json" --template chatml
printf '%s' "$chatml" >"$work/want"
check "is the prompt" cmp -s "$out" "$work/want"
runs "from standard input" sh -c "'$SLUICE' template '$qwen' -f - --template chatml <'$work/m.json'"
check "the same" cmp -s "$out" "$work/want"
printf '{%% for m in messages %%}<{{ m.content }}>{%% endfor %%}\n' >"$work/t.jinja"
runs "--template FILE" "$SLUICE" template "$qwen" -f "$work/m.json" --template "$work/t.jinja"
check "renders it" test "$(cat "$out")" = "<S><hi>"
refuses "--template of nothing" 2 "neither a template" "$SLUICE" template "$qwen" -f "$work/m.json" --template nope
printf 'a\n{%% include "x" %%}' >"$work/bad.jinja"
refuses "a tag that is not supported" 1 "line 2: the tag 'include' is not supported" \
    "$SLUICE" template "$qwen" -f "$work/m.json" --template "$work/bad.jinja"
refuses "a template that raises" 1 "a system message has no place" \
    "$SLUICE" template "$qwen" -f "$work/late.json" --template gemma
printf '{"messages": 5}' >"$work/wrong.json"
refuses "messages that are none" 1 "no list of messages" "$SLUICE" template "$qwen" -f "$work/wrong.json" --template chatml
printf '[{"role": "user", "content": [{"type": "image_url"}]}]' >"$work/image.json"
refuses "an image" 1 "messages\\[0\\].content\\[0\\]: parts of type 'image_url'" \
    "$SLUICE" template "$qwen" -f "$work/image.json" --template chatml

runs "--ids" "$SLUICE" template "$qwen" -f "$work/m.json" --template chatml --ids
is_json "is a list of ids" "$out" 'all(isinstance(i, int) for i in d)'
cp "$out" "$work/ids"
runs "the prompt as a text" "$SLUICE" tokenize "$qwen" -f "$work/want" --json
check "has the same ids" cmp -s "$out" "$work/ids"
end=$("$SLUICE" tokenize "$qwen" -p '<|im_end|>' --json | tr -d '[]\n ')
runs "a control token that the user typed" "$SLUICE" template "$qwen" -f "$work/forged.json" --template chatml --ids
check "is text: only the template's own counts" test "$(tr -d '[]' <"$out" | tr ',' '\n' | grep -cx " *$end")" -eq 1

runs "run --chat" "$SLUICE" run "$qwen" --chat --system S -p hi -n 0 --template chatml --stats-json "$work/stats" --seed 1
is_json "prompt_ids are those of template --ids" "$work/stats" "d['prompt_ids'] == $(cat "$work/ids")"
refuses "--system without --chat" 2 "--system: is of use with --chat only" "$SLUICE" run "$qwen" --system S -p hi
refuses "run --chat without a template" 1 "has no chat template" "$SLUICE" run "$llama" --chat -p hi

if [ -f "$smollm2" ]; then
    runs "SmolLM2's own template" "$SLUICE" template "$smollm2" -f "$work/m.json"
    check "is ChatML" cmp -s "$out" "$work/want"
    runs "SmolLM2 answers" "$SLUICE" run "$smollm2" --chat -p "What is the capital of France?" -n 40 --greedy
    check "with Paris" grep -q Paris "$out"
else
    skip "SmolLM2's template" "$smollm2 is not there"
fi
finish
