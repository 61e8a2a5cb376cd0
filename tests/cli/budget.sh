# One number bounds everything: `sluice run` writes 512 tokens inside a memory cgroup whose limit is --memory, without swap.
# The kernel's count includes page cache, page tables and the kernel's own buffers, and past the limit it kills.
. tests/cli/lib.sh
n_token=512 ctx=520

# --- a cgroup of our own, v1 or v2 ---
v1=/sys/fs/cgroup/memory v2=/sys/fs/cgroup
if [ -w "$v1/cgroup.procs" ] && [ -f "$v1/memory.limit_in_bytes" ]; then kind=v1 group=$v1/sluice-test.$$
elif [ -w "$v2/cgroup.procs" ] && grep -qw memory "$v2/cgroup.subtree_control" 2>/dev/null; then kind=v2 group=$v2/sluice-test.$$
else kind='' group=; fi
[ -n "$kind" ] && ! mkdir "$group" 2>/dev/null && kind=

# remove_group: what it still holds (page cache) goes to its parent
remove_group() { rmdir "$group" 2>/dev/null || { sleep 0.5 && rmdir "$group" 2>/dev/null; }; }
set_limit() {
    if [ $kind = v1 ]; then
        echo "$1" >"$group/memory.limit_in_bytes" || return
        [ ! -f "$group/memory.memsw.limit_in_bytes" ] || echo "$1" >"$group/memory.memsw.limit_in_bytes"
    else
        echo "$1" >"$group/memory.max" || return
        [ ! -f "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
    fi
}
peak() { cat "$group/memory.max_usage_in_bytes" 2>/dev/null || cat "$group/memory.peak" 2>/dev/null || echo 0; }
kills() { awk '$1 == "oom_kill" { print $2 }' "$group/memory.oom_control" "$group/memory.events" 2>/dev/null | head -1; }

# budget NAME BYTES [FLAG ...]
budget() {
    local name=$1 bytes=$2
    shift 2
    remove_group
    mkdir "$group" && set_limit "$bytes" || { not_ok "$name" "the limit of $bytes could not be set"; return; }
    (
        echo "$BASHPID" >"$group/cgroup.procs" || exit 125
        exec "$SLUICE" run "$smollm2" -p "Once upon a time" -n $n_token --ctx $ctx --ignore-eos --memory "$bytes" \
            --stats-json "$work/stats" "$@"
    ) >"$out" 2>"$err" </dev/null
    status=$?
    local most killed
    most=$(peak) killed=$(kills)
    echo "$name: limit $bytes, peak $most, oom kills ${killed:-0}, exit code $status"
    if [ "$status" -ne 0 ]; then not_ok "$name" "exit code $status, ${killed:-0} OOM kills"
    elif [ "${killed:-0}" -ne 0 ]; then not_ok "$name" "$killed OOM kills"
    elif [ "$most" -gt "$bytes" ]; then not_ok "$name" "peak $most is above $bytes"
    else ok "$name"; fi
    is_json "$name: all tokens, RSS within it" "$work/stats" "d['generated_tokens'] == $n_token and d['peak_rss_bytes'] <= $bytes"
}

if [ -z "$kind" ]; then skip "a real memory limit" "no memory cgroup can be made here"
elif [ ! -f "$smollm2" ]; then skip "a real memory limit" "$smollm2 is not there"
elif ! has_python; then skip "a real memory limit" "no python3"
else
    trap 'remove_group; rm -rf "$work"' EXIT
    size=$(stat -L -c %s "$smollm2")
    # least FLAG ...: the smallest budget that plan names
    least() {
        run "$SLUICE" plan "$smollm2" --ctx $ctx --drive 500 --memory 1M --json "$@"
        json_value "$out" 'd["minimum_bytes"]'
    }
    small=$(least)
    budget "the smallest budget" "$small"
    # a quarter of the file holds the context only with an 8-bit cache
    budget "the smallest budget with an 8-bit cache" "$(least --kv q8)" --kv q8
    budget "25 % of the file" $((size / 4)) --kv q8
    budget "50 % of the file" $((size / 2))
    budget "the file and as much as a large prompt chunk takes" $((size + size / 2 + small))
    # loaded along with the prompt; the last page of a direct read may hold less than was asked for
    is_json "then nothing is read after loading" "$work/stats" 'abs(d["bytes_read"] - d["load_bytes_read"]) < 4096'
fi
finish
