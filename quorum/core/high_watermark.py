"""Majority arithmetic: how far is the log committed, and how long ago was a majority last in touch.

The high watermark of a leader is the largest offset that a majority of the voters has on disk, but it moves only once
that offset is above the first record of the leader's *own* epoch (Raft section 5.4.2, KIP-595): a majority that holds
records of an old epoch may still lose an election to a voter that does not. It never falls.
"""

from __future__ import annotations

from collections.abc import Iterable


def majority_reached(values: Iterable[int], majority: int) -> int:
    """The largest value that at least `majority` of `values` have reached."""
    ordered = sorted(values, reverse=True)
    assert 0 < majority <= len(ordered), (majority, ordered)
    return ordered[majority - 1]


def advanced_high_watermark(
    high_watermark: int, voter_end_offsets: Iterable[int], majority: int, epoch_start_offset: int
) -> int:
    """The leader's next high watermark; `voter_end_offsets`: flushed, the leader's own among them if it votes."""
    reached = majority_reached(voter_end_offsets, majority)
    if reached <= epoch_start_offset:  # a majority holds it, but a voter without it may still win (Raft, figure 8)
        return high_watermark
    return max(high_watermark, reached)
