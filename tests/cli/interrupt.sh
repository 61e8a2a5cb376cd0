# Ctrl-C: exit code 130 within a second, what was written so far stays.
. tests/cli/lib.sh

# interrupt NAME COMMAND ...: SIGINT after half a second of work
interrupt() {
    local name=$1 pid begin took
    shift
    "$@" >"$out" 2>"$err" </dev/null &
    pid=$!
    sleep "${DELAY:-0.7}"
    if ! kill -INT "$pid" 2>/dev/null; then
        wait "$pid"
        not_ok "$name" "had ended by itself (exit code $?)"
        return
    fi
    begin=$(date +%s%N)
    wait "$pid"
    status=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    if [ "$status" -ne 130 ]; then not_ok "$name" "exit code $status, not 130"
    elif [ "$took" -ge 1000 ]; then not_ok "$name" "took $took ms"
    elif grep -q '^error:' "$err"; then not_ok "$name" "printed an error"
    else ok "$name"; fi
}

interrupt "while generating" "$SLUICE" run "$llama" -p "The quick brown fox" -n 1000000 --ctx 1000000 --ignore-eos --greedy --stats-json "$work/stats"
check "the text so far stays" test -s "$out"
check "a note says why it ended" grep -qx 'note: interrupted' "$err"
is_json "statistics are written all the same" "$work/stats" 'd["finish"] == "interrupted" and d["generated_tokens"] > 0'
interrupt "while measuring" "$SLUICE" bench "$llama" -n 100000 -r 1000 -p 16 --ctx 100100
interrupt "in selftest" "$SLUICE" selftest "$llama" -n 10000
yes "the quick brown fox jumps over the lazy dog" | head -c 3000000 >"$work/text"
interrupt "in perplexity" "$SLUICE" perplexity "$llama" -f "$work/text" --ctx 128
if [ -f "$smollm2" ]; then
    DELAY=0.3 interrupt "soon after the start of a real model" "$SLUICE" run "$smollm2" -p "Once upon a time" -n 5000 --ctx 6000 --ignore-eos
    DELAY=1.5 interrupt "in the prompt of a real model" "$SLUICE" perplexity "$smollm2" -f "$work/text" --ctx 2048 --threads 1 --backend scalar
else
    skip "soon after the start of a real model" "$smollm2 is not there"
    skip "in the prompt of a real model" "$smollm2 is not there"
fi
finish
