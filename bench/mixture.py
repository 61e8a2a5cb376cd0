"""What mixtures of experts add to a measurement: a replay of the run's own routing against a plain LRU with as many slots, and
the physical limit that follows."""

import collections
import itertools


def read_trace(lines):
    """[(layer, expert)] in the order of use, from what `sluice run --expert-trace` writes, and the index at which decoding
    begins."""
    used, decode_at = [], 0
    for line in lines:
        if line.strip() == "decode":
            decode_at = len(used)
            continue
        layer, experts = line.split(":")
        used += zip(itertools.repeat(int(layer)), map(int, experts.split()))
    return used, decode_at


def lru_misses(used, slots, count_from):
    """Reads from index count_from on, when the slots keep what was used last; what is before fills them."""
    kept, misses = collections.OrderedDict(), 0
    for i, key in enumerate(used):
        if key in kept:
            kept.move_to_end(key)
            continue
        misses += i >= count_from
        if len(kept) == slots:
            kept.popitem(last=False)
        kept[key] = True
    return misses


def lru_bytes(lines, slots, slot_bytes, n_token):
    """Bytes per decoded token that a plain LRU would read."""
    used, decode_at = read_trace(lines)
    return lru_misses(used, max(slots, 1), decode_at) * slot_bytes / max(n_token, 1)


def limit_tok_s(lru, drive_bytes_s, resident_tok_s):
    """No engine with these slots is faster than its processors with all in memory, nor than the drive brings what an LRU
    misses.  None where one of the two is not known."""
    if not drive_bytes_s or not resident_tok_s:
        return None
    return min(resident_tok_s, drive_bytes_s / lru) if lru else resident_tok_s
