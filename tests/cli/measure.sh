# What bench/ computes about mixtures, against numbers worked out by hand.
. tests/cli/lib.sh

mixture() { PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 python3 -c "import mixture; print(eval(\"$1\"))"; }
if ! has_python; then skip "replaying a trace" "no python3"
else
    # two slots; the prompt leaves 0:1 and 0:2, so decoding misses 1:1, 0:1 and 0:2 and finds the second 0:2
    trace="['0: 1 2', 'decode', '1: 1', '0: 1', '0: 2', '0: 2']"
    check "an LRU of two slots" test "$(mixture "mixture.lru_bytes($trace, 2, 10, 2)")" = 15.0
    check "an LRU that holds all" test "$(mixture "mixture.lru_bytes($trace, 9, 10, 2)")" = 5.0
    check "the drive is the limit" test "$(mixture "mixture.limit_tok_s(100, 1000, 20)")" = 10.0
    check "the processors are the limit" test "$(mixture "mixture.limit_tok_s(10, 1000, 20)")" = 20
    check "nothing read" test "$(mixture "mixture.limit_tok_s(0, 1000, 20)")" = 20
    check "no limit without both rates" test "$(mixture "mixture.limit_tok_s(10, 1000, None)")" = None
fi
finish
