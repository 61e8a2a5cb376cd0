# sluice chat from a pipe: turns, entries of several lines, commands, what is kept of a conversation, a full context.
. tests/cli/lib.sh
model=$tiny/qwen2/qwen2-f32.gguf
flags=(--template chatml --greedy -n 4)

# chat NAME TEXT [FLAG ...]: a conversation from a pipe that ends well
chat() {
    local name=$1 text=$2
    shift 2
    printf '%b' "$text" >"$work/in"
    "$SLUICE" chat "$model" "${flags[@]}" "$@" <"$work/in" >"$out" 2>"$err"
    status=$?
    if [ "$status" -eq 0 ]; then ok "$name"; else not_ok "$name" "exit code $status"; fi
}
# fails NAME STATUS REGEX TEXT [FLAG ...]
fails() {
    local name=$1 want=$2 regex=$3 text=$4
    shift 4
    printf '%b' "$text" >"$work/in"
    "$SLUICE" chat "$model" "${flags[@]}" "$@" <"$work/in" >"$out" 2>"$err"
    status=$?
    if [ "$status" -ne "$want" ]; then not_ok "$name" "exit code $status, not $want"
    elif ! grep -qE "^error: .*$regex" "$err"; then not_ok "$name" "the message does not match /$regex/"
    else ok "$name"; fi
}

refuses "a model without a template" 1 "has no chat template" "$SLUICE" chat "$llama"
refuses "-n 0" 2 "-n '0'" "$SLUICE" chat "$llama" -n 0
refuses "--thinking of nothing" 2 "auto.off.on" "$SLUICE" chat "$llama" --thinking maybe

chat "one turn" 'hello\n'
cp "$out" "$work/answer"
check "its notes are on standard error" clean_stderr
check "one status line" grep -qE '^note: 4 tokens, [0-9.]+ tok/s; prompt [0-9]+ new, 0 kept, [0-9.]+ tok/s; memory .*; context [0-9]+ of [0-9]+$' "$err"
runs "the same by run --chat" "$SLUICE" run "$model" "${flags[@]}" --chat -p hello
echo >>"$out"
check "is the same answer" cmp -s "$out" "$work/answer"
chat "no turn" ''
check "says nothing" test ! -s "$out"
chat "blank lines are no turns" '\n  \n\t\n'
check "say nothing" test ! -s "$out"
chat "--quiet" 'hello\n' --quiet
check "leaves standard error empty" test ! -s "$err"
chat "a last line without an end" 'hello'
check "is a turn" cmp -s "$out" "$work/answer"

# the messages that text makes, as /save writes them
saved=$work/saved.json
chat "entries of several lines" 'a\\\nb\n"""c "d"\n\ne"""\n"""\nf\n"""\n /g\n/save '"$saved"'\n'
is_json "are one text each" "$saved" '[m["content"] for m in d if m["role"] == "user"] == ["a\nb", "c \"d\"\n\ne", "f", " /g"]'
is_json "and each has its answer" "$saved" '[m["role"] for m in d] == ["user", "assistant"] * 4'
runs "sluice template reads the file" "$SLUICE" template "$model" -f "$saved" --template chatml
chat "a block that the input cuts" '"""x\ny\n/save '"$saved.2"'\n'
check "is no command" test ! -e "$saved.2"
chat "--system, /system" 'a\n/system be\\\nkind\n/save '"$saved.3"'\n/system\n/save '"$saved.4"'\n' --system S
is_json "the text is replaced" "$saved.3" 'd[0] == {"role": "system", "content": "be\nkind"} and len(d) == 3'
is_json "and taken away" "$saved.4" 'd[0]["role"] == "user" and len(d) == 2'
chat "/drop" 'a\nb\nc\n/drop 2\n/save '"$saved.5"'\n/drop 9\n/save '"$saved.6"'\n' --system S
is_json "leaves the youngest" "$saved.5" '[m["content"] for m in d][:2] == ["S", "c"] and len(d) == 3'
is_json "and the system text" "$saved.6" 'd == [{"role": "system", "content": "S"}]'
chat "/clear" 'hello\n/clear\nhello\n'
check "begins anew" test "$(sort -u "$out" | wc -l)" -eq "$(sort -u "$work/answer" | wc -l)"
chat "/load" '/load '"$saved"'\n/save '"$saved.7"'\n'
check "brings back what was saved" cmp -s "$saved" "$saved.7"
chat "/regen" 'hello\n/regen\n/save '"$saved.8"'\n'
cat "$work/answer" "$work/answer" >"$work/twice"
check "answers again" cmp -s "$out" "$work/twice"
is_json "in place of the first answer" "$saved.8" 'len(d) == 2'
check "and reads one token for it" grep -q 'prompt 1 new' "$err"
chat "/set" '/set temp 0.5\n/set\nhello\n'
check "lists" grep -q '^note: temp 0.5, top-k' "$err"
chat "/stats" 'hello\nyou\n/stats\n'
check "counts" grep -qE '^note: answers +2 with 8 tokens; prompts [0-9]+ tokens read, [0-9]+ kept' "$err"
chat "/help" '/help\n'
check "lists the commands" test "$(grep -c '^note: /' "$err")" -eq 10
chat "/quit" '/quit\nhello\n'
check "ends" test ! -s "$out"

fails "an unknown command" 2 "'/nope' is no command" '/nope\nhello\n'
check "and the rest is not answered" test ! -s "$out"
fails "a word too many" 2 "/clear 'x': takes no words" '/clear x\n'
fails "/set of nothing" 2 "no such setting" '/set nope 1\n'
fails "/set out of bounds" 2 "--top-p '7': must be a number from" '/set top-p 7\n'
fails "/set without a value" 2 "value is missing" '/set temp\n'
fails "/regen without an answer" 1 "no answer" '/regen\n'
fails "/load of nothing" 1 "cannot be read" '/load '"$work"'/nope\n'
echo 5 >"$work/five"
fails "/load of no list" 1 "no list of messages" '/load '"$work/five"'\n'
printf '[{"role": "user", "content": tru}]' >"$work/broken"
fails "/load of broken JSON" 1 "JSON" '/load '"$work/broken"'\n'
fails "/save over something else" 1 "no saved conversation" '/save '"$work/five"'\n'
check "leaves it" test "$(cat "$work/five")" = 5
fails "/save nowhere" 1 "cannot be written" '/save '"$work"'/nope/x\n'
fails "a full context" 1 "the conversation has [0-9]+ tokens, the context holds 32: /clear" 'hello\nhow are you today\n' --ctx 32
chat "/clear makes room" 'hello\n/clear\nhello\n' --ctx 32
printf '{{ raise_exception("not today") }}' >"$work/raise.jinja"
flags=(--greedy -n 4)
fails "a template that raises" 1 "not today" 'hello\n' --template "$work/raise.jinja"
finish
