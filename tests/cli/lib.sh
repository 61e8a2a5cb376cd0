# What the shell tests share.  A test sources this, makes checks, and calls finish.  Each check prints one line: "ok - ...",
# "not ok - ..." or "skip - ...".  Runs from the repository's root; $SLUICE is the command, $MODELS the real models' folder.
set -u
SLUICE=${SLUICE:-build/sluice}
MODELS=${MODELS:-build/models}
BUILD=${BUILD:-build}
tiny=tests/fixtures/tiny
llama=$tiny/llama/llama-f32.gguf
smollm2=$MODELS/smollm2-135m-instruct-q4_1.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
out=$work/out err=$work/err
status=0

ok() { echo "ok - $1"; }
skip() { echo "skip - $1: $2"; }
# not_ok NAME WHY: shows what the last command said, too
not_ok() {
    echo "not ok - $1: $2"
    [ ! -s "$err" ] || { echo "    stderr:" && head -c 2000 "$err" | sed 's/^/    | /'; }
    [ ! -s "$out" ] || { echo "    stdout:" && head -c 500 "$out" | sed 's/^/    | /' && echo; }
}
# check NAME COMMAND ...: the command's success is the check's
check() {
    local name=$1
    shift
    if "$@"; then ok "$name"; else not_ok "$name" "'$*' failed"; fi
}
finish() { echo "done"; }

# Runs a command; leaves $status, $out and $err.
run() {
    "$@" >"$out" 2>"$err" </dev/null
    status=$?
}

# runs NAME COMMAND ...: exit code 0
runs() {
    local name=$1
    shift
    run "$@"
    if [ "$status" -eq 0 ]; then ok "$name"; else not_ok "$name" "exit code $status"; fi
}

# refuses NAME STATUS REGEX COMMAND ...: that exit code, nothing on stdout, one line "error: ..." that matches
refuses() {
    local name=$1 want=$2 regex=$3
    shift 3
    run "$@"
    if [ "$status" -ne "$want" ]; then not_ok "$name" "exit code $status, not $want"
    elif [ -s "$out" ]; then not_ok "$name" "wrote to stdout"
    elif [ "$(grep -c '^error: ' "$err")" -ne 1 ]; then not_ok "$name" "not one error line"
    elif ! grep -qE "^error: .*$regex" "$err"; then not_ok "$name" "the message does not match /$regex/"
    elif grep -qvE '^(error|warning|note): ' "$err"; then not_ok "$name" "a line without prefix"
    else ok "$name"; fi
}

# Every line of stderr is a message or progress.
clean_stderr() { ! grep -qvE '^(error|warning|note): |^(loading|reading the prompt|measuring|selftest|perplexity)' "$err"; }

has_python() { python3 -c 'import json, struct, math' 2>/dev/null; }
# is_json NAME FILE [EXPRESSION]: valid, and the Python expression over d is true
is_json() {
    if ! has_python; then skip "$1" "no python3"; return; fi
    local why
    if why=$(python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
ok = eval("(" + sys.argv[2] + ")")
sys.exit(0 if ok else "false: " + sys.argv[2])' "$2" "${3:-True}" 2>&1); then ok "$1"
    else not_ok "$1" "$(echo "$why" | tail -1)"; fi
}
# json_value FILE EXPRESSION
json_value() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval("(" + sys.argv[2] + ")"))' "$1" "$2"; }
