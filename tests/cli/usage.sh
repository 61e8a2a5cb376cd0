# Commands and flags that are wrong: one line that names flag, value and bounds, exit code 2, nothing on stdout.
. tests/cli/lib.sh

refuses "no command" 2 "no command" "$SLUICE"
refuses "unknown command" 2 "'frobnicate'" "$SLUICE" frobnicate
for command in serve verify prerouter; do
    refuses "$command is not built yet" 2 "'$command' is not a command" "$SLUICE" $command "$llama"
done
for command in run chat inspect plan bench logits perplexity tokenize detokenize template selftest; do
    refuses "$command without a model" 2 "$command: the model is missing" "$SLUICE" $command
done
refuses "two models" 2 "'b': one model was named already, 'a'" "$SLUICE" run a b -p x
refuses "a word for version" 2 "version 'now'" "$SLUICE" version now

refuses "unknown flag" 2 "--frobnicate: " "$SLUICE" run "$llama" --frobnicate=3
refuses "unknown letter" 2 "-x: " "$SLUICE" run "$llama" -x
refuses "flag of another command" 2 "--lines: " "$SLUICE" run "$llama" --lines
refuses "abbreviated flag" 2 "--mem: " "$SLUICE" run "$llama" --mem 1G
refuses "missing value" 2 "--memory: the value is missing" "$SLUICE" run "$llama" -p x --memory
refuses "missing letter value" 2 "-n: the value is missing" "$SLUICE" run "$llama" -p x -n
refuses "value for a switch" 2 "--greedy '1': the flag takes no value" "$SLUICE" run "$llama" -p x --greedy=1

# flag, value, what the message must name
while read -r flag value bounds; do
    refuses "$flag $value" 2 "$flag '$value': .*$bounds" "$SLUICE" run "$llama" -p x "$flag" "$value"
    case $flag in --*) refuses "$flag=$value" 2 "$flag '$value': .*$bounds" "$SLUICE" run "$llama" -p x "$flag=$value" ;; esac
done <<'LIST'
-n -1 0 to 1000000000
-n 1e3 0 to 1000000000
-n 4000000000 0 to 1000000000
--memory 4X size
--memory -4G size
--memory 0 at least|from 1 byte
--memory 99999999T size
--ctx 0 1 to 16777216
--ctx ten 1 to 16777216
--ctx 99999999999999999999 1 to 16777216
--threads 0 1 to 1024
--threads 2000 1 to 1024
--prefill-chunk 0 1 to 65536
--temp -0.1 0 to 100
--temp hot 0 to 100
--temp nan 0 to 100
--top-p 1.5 0.0001 to 1
--min-p 2 0 to 1
--top-k -5 0 to
--repeat-penalty 0 0.01 to 100
--presence-penalty 101 -100 to 100
--frequency-penalty x -100 to 100
--seed -1 0 to 18446744073709551615
--seed 18446744073709551616 0 to 18446744073709551615
--kv q4 auto\|f32\|f16\|q8
--io direct auto\|uring\|pread\|buffered\|mmap
--policy random auto\|pin\|lru\|fifo
--backend gpu auto\|cpu\|scalar
--cpu sse2 auto\|portable\|avx2\|avx512
--max-layers 0 1 to
LIST
refuses "empty stop text" 2 "--stop ''" "$SLUICE" run "$llama" -p x --stop ""
stops=()
for i in $(seq 17); do stops+=(--stop "$i"); done
refuses "too many stop texts" 2 "--stop '17': .* limit is 16" "$SLUICE" run "$llama" -p x "${stops[@]}"
refuses "SLUICE_BACKEND" 2 "SLUICE_BACKEND 'abacus': .*cpu" env SLUICE_BACKEND=abacus "$SLUICE" run "$llama" -p x
refuses "run without a text" 2 "-p TEXT and -f FILE" "$SLUICE" run "$llama"
refuses "run with two texts" 2 "-p TEXT and -f FILE" "$SLUICE" run "$llama" -p x -f README.md
refuses "logits without tokens" 2 "--tokens" "$SLUICE" logits "$llama" --out "$work/x.npy"
refuses "logits without a file" 2 "--out" "$SLUICE" logits "$llama" --tokens 1,2
refuses "logits of no tokens" 2 "--tokens ''" "$SLUICE" logits "$llama" --tokens "" --out "$work/x.npy"
refuses "logits of a word" 2 "--tokens '1,x'" "$SLUICE" logits "$llama" --tokens 1,x --out "$work/x.npy"
refuses "split beyond the end" 2 "--split '3': .* 2" "$SLUICE" logits "$llama" --tokens 1,2 --split 3 --out "$work/x.npy"
refuses "layer list" 2 "9-|layer" "$SLUICE" run "$llama" -p x --layers 9-z
refuses "layer beyond the end" 2 "layer" "$SLUICE" run "$llama" -p x --layers 0,400

refuses "no such model" 1 "no/such/model" "$SLUICE" inspect no/such/model.gguf
refuses "no such text" 1 "no/such/text: .*No such file" "$SLUICE" run "$llama" -f no/such/text
refuses "a file that is no model" 1 "README.md" "$SLUICE" inspect README.md

runs "help" "$SLUICE" help
check "help lists every command" grep -q '^  selftest ' "$out"
check "help names the variable" grep -q 'SLUICE_BACKEND' "$out"
check "help is silent on stderr" test ! -s "$err"
for command in run chat inspect plan bench logits perplexity tokenize detokenize selftest models; do
    run "$SLUICE" help $command && cp "$out" "$work/help"
    runs "$command --help" "$SLUICE" $command --help
    check "help $command is the same" cmp -s "$out" "$work/help"
done
# every flag of every command is in the man page
missing=
for flag in $(for command in run chat inspect plan bench logits perplexity tokenize detokenize selftest models; do
    "$SLUICE" help $command; done | sed -n 's/^  \(-[-a-z]*\) .*/\1/p' | sort -u); do
    grep -qF -- "${flag//-/\\-}" docs/sluice.1 || [ "$flag" = --help ] || missing="$missing $flag"
done
check "the man page knows every flag" test -z "$missing"
[ -z "$missing" ] || echo "    missing:$missing"
refuses "help for an unknown command" 2 "'frobnicate'" "$SLUICE" help frobnicate
runs "version" "$SLUICE" version
check "version is the header's" test "$(cat "$out")" = "sluice $(sed -n 's/^.define SL_VERSION "\(.*\)"/\1/p' include/sluice.h)"
runs "--version" "$SLUICE" --version
runs "models" "$SLUICE" models
check "models lists llama" grep -qx llama "$out"
runs "models --json" "$SLUICE" models --json
is_json "models as JSON" "$out" '"llama" in d["families"]'
finish
