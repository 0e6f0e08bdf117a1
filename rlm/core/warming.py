"""What of the tier a thin replica takes back into its local log, newest first. Pure.

A segment is taken if local retention would keep it, it lies whole on the replica's lineage, and it ends where the local
log begins (only the first may reach beyond). The producer state at its base comes with the segment that ends there:

| at the base is             | the segment is taken                                                          |
|----------------------------|-------------------------------------------------------------------------------|
| the log start              | whole: nothing came before                                                    |
| the end of another segment | whole, with that one's state                                                  |
| neither, but others end    | from the lowest of these ends on, with the state there; what is left out      |
| within the segment         | comes with the one that ends there                                            |
| none of these              | not at all: a truncation into it could not be followed by the right state     |

Others end within it where two leaders have uploaded: each cuts its own segments.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...light_dataclass import dataclass
from ...log.core import UNLIMITED, LeaderEpochCache
from ...remote.core import RemoteLogLedger, RemoteLogSegmentMetadata, is_within_lineage
from .view import TierPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinView:
    """A thin replica at one instant."""

    epochs: LeaderEpochCache
    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int
    local_bytes: int
    policy: TierPolicy


@dataclass(frozen=True, slots=True)
class ToWarm:
    """A segment to take from `start_offset` on, and the one that ends there, which has the producer state of that
    point; None where the log begins. `size_bytes` is a guess where it is not taken from its beginning.
    """

    segment: RemoteLogSegmentMetadata
    before: RemoteLogSegmentMetadata | None
    start_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Missing:
    """`segments` in the order in which to take them; `is_all`: nothing else that local retention would keep."""

    segments: tuple[ToWarm, ...]
    is_all: bool


def to_warm(ledger: RemoteLogLedger, view: ThinView, now_ms: int) -> Missing:
    """What is missing."""
    by_end = _by_end(ledger, view)
    position, local_bytes = view.local_log_start_offset, view.local_bytes
    segment = by_end.get(position) or _across(by_end, position)
    found: list[ToWarm] = []
    while position > view.log_start_offset:
        wanted = None if segment is None else _from_known_state(by_end, segment, position, view.log_start_offset)
        if wanted is None:
            return Missing(tuple(found), is_all=False)
        local_bytes += wanted.size_bytes
        if not _is_kept(wanted.segment, view.policy, local_bytes, now_ms):
            break
        found.append(wanted)
        position, segment = wanted.start_offset, wanted.before
    return Missing(tuple(found), is_all=True)


def _from_known_state(
    by_end: Mapping[int, RemoteLogSegmentMetadata], segment: RemoteLogSegmentMetadata, position: int, log_start: int
) -> ToWarm | None:
    """The segment up to `position`, as the module's table takes it."""
    start = segment.start_offset
    if start > log_start and start not in by_end:
        start = min((end for end in by_end if start < end < position), default=position)
    if start == position:
        return None
    size_bytes = segment.segment_size_in_bytes
    if start != segment.start_offset:
        size_bytes = size_bytes * (position - start) // (segment.end_offset + 1 - segment.start_offset)
    return ToWarm(segment, by_end.get(start), start, size_bytes)


def _by_end(ledger: RemoteLogLedger, view: ThinView) -> dict[int, RemoteLogSegmentMetadata]:
    """Return the segments on the lineage that reach the log start, by where they end (exclusive); of several the one
    that begins lowest.
    """
    found: dict[int, RemoteLogSegmentMetadata] = {}
    # The lowest one may begin below the log start: what ends where it begins has the producer state of that point.
    lowest = ledger.lowest_start_from(view.log_start_offset)
    for segment in () if lowest is None else ledger.finished_from(lowest - 1):
        if segment.start_offset >= view.local_log_start_offset:
            break
        if is_within_lineage(segment, view.epochs, view.log_end_offset):
            found.setdefault(segment.end_offset + 1, segment)
    return found


def _across(by_end: Mapping[int, RemoteLogSegmentMetadata], position: int) -> RemoteLogSegmentMetadata | None:
    """The segment that begins below a position and reaches least beyond it."""
    ends = [end for end, segment in by_end.items() if segment.start_offset < position < end]
    return by_end[min(ends)] if ends else None


def _is_kept(segment: RemoteLogSegmentMetadata, policy: TierPolicy, local_bytes: int, now_ms: int) -> bool:
    if policy.local_retention_bytes != UNLIMITED and local_bytes > policy.local_retention_bytes:
        return False
    return policy.local_retention_ms == UNLIMITED or now_ms - segment.max_timestamp_ms <= policy.local_retention_ms
