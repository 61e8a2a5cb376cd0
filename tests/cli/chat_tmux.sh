# sluice chat on a terminal: a scripted session under tmux at temperature 0, its screen compared.
. tests/cli/lib.sh
name="a scripted session under tmux"
command -v tmux >/dev/null || { skip "$name" "tmux is not installed"; finish; exit; }
[ -f "$smollm2" ] || { skip "$name" "$smollm2 is not there"; finish; exit; }
ldd "$SLUICE" 2>/dev/null | grep -q libedit || { skip "$name" "the build has no libedit"; finish; exit; }

socket=$work/tmux.socket screen=$work/screen
tm() { tmux -S "$socket" -f /dev/null "$@"; }
trap 'tm kill-server 2>/dev/null; rm -rf "$work"' EXIT
history=$work/state/sluice/chat-history
mkdir -p "$work/home"

keys() { tm send-keys -t chat "$@"; }
shot() { tm capture-pane -p -J -t chat -S -200 "$@" >"$screen" 2>/dev/null; }
# sees NAME REGEX [COUNT]: the screen shows that many lines like it within thirty seconds
sees() {
    local i
    for i in $(seq 600); do
        shot
        [ "$(grep -cE -- "$2" "$screen")" -ge "${3:-1}" ] && ok "$1" && return 0
        sleep 0.05
    done
    cp "$screen" "$out" && : >"$err"
    not_ok "$1" "the screen never showed /$2/ ${3:-1} times"
    return 1
}
# prompts: the last thing on the screen is an empty prompt
prompts() {
    local i
    for i in $(seq 600); do
        shot
        grep -v '^ *$' "$screen" | tail -1 | grep -qx '> *' && return
        sleep 0.05
    done
}
# begins [VARIABLE=VALUE ...] [FLAG ...]: a chat in a new window of tmux
begins() {
    local variables=()
    while [[ ${1:-} == *=* ]]; do variables+=("$1") && shift; done
    tm kill-server 2>/dev/null
    socket=$socket. # a server that is about to go may still hold the former one
    tm new-session -d -s chat -x 100 -y 50 "env -u NO_COLOR HOME='$work/home' XDG_STATE_HOME='$work/state' TERM=screen \
LC_ALL=C.UTF-8 ${variables[*]} '$SLUICE' chat '$smollm2' --greedy --threads 2 $*; echo \"exit code \$?\"; sleep 100"
}

begins
sees "it says what it is" '^note: .*/help lists the commands'
keys 'What is the capital of Germany? One wrd.' Left Left Left o C-a C-e Enter
sees "an answer" '^note: [0-9]+ tokens, ' 1
check "to the line that was edited" grep -qx '> What is the capital of Germany? One word\.' "$screen"
check "is there" grep -q 'Berlin' "$screen"
sed -n '/^> What is the capital/,/^note: /p' "$screen" | sed '1d;$d' >"$work/answer"
runs "the same question to run" "$SLUICE" run "$smollm2" --greedy --chat -n 200 -p 'What is the capital of Germany? One word.'
echo >>"$out"
check "has the same answer" cmp -s "$out" "$work/answer"

keys '/set n 2000' Enter
prompts
keys 'Write a very long story about a whale and its friends, at least two thousand words.' Enter
sees "another answer streams" '^In the depths'
keys C-c
sees "Ctrl-C stops an answer" '^note: the answer was stopped' 1
prompts
keys Up Up Up Enter
sees "history brings a line back, another turn follows" '^note: [0-9]+ tokens, .* [1-9][0-9]* kept' 2
check "the turn is the first one's text" test "$(grep -cxE '> What is the capital of Germany\? One word\. *' "$screen")" -eq 2
prompts
keys '/clear' Enter
prompts
keys 'first line \' Enter '"""' Enter
sees "a line goes on" '^\. """$'
sees "and is answered" '^note: [0-9]+ tokens, ' 4
prompts
keys '"""' Enter 'a' Enter 'b"""' Enter
sees "a block is answered" '^note: [0-9]+ tokens, ' 5
prompts
keys "/save $work/saved" Enter
sees "saved" '^note: 4 messages are in'
is_json "both are one text" "$work/saved" '[m["content"] for m in d[::2]] == ["first line \n\"\"\"", "a\nb"]'
keys '/stats' Enter
sees "statistics" '^note: answers +5 with'
prompts
keys 'grüße' BSpace BSpace C-c
sees "Ctrl-C drops a line" '^> grü.*\^C$'
keys C-c
sees "a second one ends it" '^exit code 0$'
check "the lines were kept" test "$(head -1 "$history")" = 'What is the capital of Germany? One word.'
check "for the owner only" test "$(stat -c %a "$history")" = 600
n_line=$(wc -l <"$history")

printf '%s' "{#</think>#}{{ '<|im_start|>user\n' }}{{ messages[-1].content }}{{ '<|im_end|>\n<|im_start|>assistant\n<think>\n' }}" >"$work/think.jinja"
begins --template "$work/think.jinja" -n 12 --no-history
sees "a second session" '^note: .*/help lists the commands'
keys Up 'hello' Enter
sees "has nothing to go back to" '^note: [0-9]+ tokens, '
check "but what is typed" grep -qx '> hello' "$screen"
shot -e
check "a thought is dimmed" grep -q $'\033\[[0-9;]*2m' "$screen"
keys C-d
sees "Ctrl-D ends" '^exit code 0$'
check "--no-history keeps nothing" test "$(wc -l <"$history")" -eq "$n_line"
begins NO_COLOR=1 --template "$work/think.jinja" -n 12
sees "a third session" '^note: .*/help lists the commands'
keys 'hello' Enter
sees "with NO_COLOR says so in words" '^\[thinking\]$'
sees "and answers" '^note: [0-9]+ tokens, '
shot -e
check "and sends no colour" sh -c "! grep -q '$(printf '\033')' '$screen'"
keys '/quit' Enter
sees "/quit ends" '^exit code 0$'
finish
