# sluice logits: a valid NPY file, the reference's numbers, and the same bits however the tokens are fed.
. tests/cli/lib.sh
ids=$(cat $tiny/llama/ids.txt)
n=$(($(tr -cd , <$tiny/llama/ids.txt | wc -c) + 1))

runs "all rows" "$SLUICE" logits "$llama" --tokens "$ids" --all --out "$work/all.npy"
check "nothing is printed" test ! -s "$out" -a ! -s "$err"
check "the header" test "$(head -c 6 "$work/all.npy" | tail -c 5)" = NUMPY
vocab=$(($(($(stat -L -c %s $tiny/llama/logits.f32))) / 4 / n))
check "the shape" grep -aq "'shape': ($n, $vocab), }" "$work/all.npy"
check "the size" test "$(stat -L -c %s "$work/all.npy")" -eq $((128 + n * vocab * 4))
runs "the last row" "$SLUICE" logits "$llama" --tokens "$ids" --out "$work/last.npy"
check "its shape" grep -aq "'shape': ($vocab,), }" "$work/last.npy"
check "is the last of all" cmp -s <(tail -c +129 "$work/last.npy") <(tail -c $((vocab * 4)) "$work/all.npy")
for split in 1 7 $((n - 1)) "$n"; do
    runs "--split $split" "$SLUICE" logits "$llama" --tokens "$ids" --all --split "$split" --out "$work/split.npy"
    check "--split $split gives the same bits" cmp -s "$work/split.npy" "$work/all.npy"
done
runs "--prefill-chunk 5" "$SLUICE" logits "$llama" --tokens "$ids" --all --prefill-chunk 5 --out "$work/split.npy"
check "a chunk of 5 gives the same bits" cmp -s "$work/split.npy" "$work/all.npy"

# against transformers in float32: relative L2 at every position
distance() {
    python3 - "$@" <<'PY'
import array, math, sys
rows = lambda path, skip: array.array("f", open(path, "rb").read()[skip:])
got, want, n = rows(sys.argv[1], 128), rows(sys.argv[2], 0), int(sys.argv[3])
v = len(want) // n
far = max(math.sqrt(sum((got[i] - want[i]) ** 2 for i in range(r * v, r * v + v)) /
                    sum(want[i] ** 2 for i in range(r * v, r * v + v))) for r in range(n))
sys.exit(0 if len(got) == len(want) and far <= float(sys.argv[4]) else "relative L2 %g" % far)
PY
}
if has_python; then
    # float32 weights: what is left is the 16-bit KV cache
    check "cpu is close to the reference" distance "$work/all.npy" $tiny/llama/logits.f32 "$n" 1e-3
    runs "--kv f32" "$SLUICE" logits "$llama" --tokens "$ids" --all --kv f32 --out "$work/kv32.npy"
    check "with a 32-bit cache it is closer" distance "$work/kv32.npy" $tiny/llama/logits.f32 "$n" 1e-4
    runs "scalar" "$SLUICE" logits "$llama" --tokens "$ids" --all --backend scalar --out "$work/scalar.npy"
    check "scalar is close to the reference" distance "$work/scalar.npy" $tiny/llama/logits.f32 "$n" 1e-4
else skip "close to the reference" "no python3"; fi

refuses "an id beyond the vocabulary" 2 "99999999" "$SLUICE" logits "$llama" --tokens 1,99999999 --out "$work/bad.npy"
check "leaves no file" test ! -e "$work/bad.npy"
refuses "a folder that is not there" 1 "/no/such/dir/x.npy': .*No such file" "$SLUICE" logits "$llama" --tokens 1 --out /no/such/dir/x.npy
run "$SLUICE" logits "$llama" --tokens "$ids" --all --out /dev/full
check "a full disk fails" test "$status" -eq 1
check "and is named" grep -q '^error: .*No space left' "$err"
check "and is still there" test -c /dev/full
refuses "more tokens than --ctx" 1 "$n tokens, the context holds 8" "$SLUICE" logits "$llama" --tokens "$ids" --ctx 8 --out "$work/bad.npy"
finish
