"""What of the tier a thin replica takes back into its local log, newest first. Pure.

A segment is taken if local retention would keep it, it lies whole on the replica's lineage, and it ends where the local
log begins (only the first may reach beyond). The producer state at its base comes with the segment before it; where
that is not to be had, and the segment does not begin the log, the replica stays as it is: a truncation into the segment
could not be followed by the right state.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..log.config import UNLIMITED
from ..log.epochs import LeaderEpochCache
from ..remote.ledger import RemoteLogLedger
from ..remote.lineage import is_within_lineage
from ..remote.segment import RemoteLogSegmentMetadata
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
    """A segment to take, and the one before it, which has the producer state at its base; None where the log begins."""

    segment: RemoteLogSegmentMetadata
    before: RemoteLogSegmentMetadata | None


def to_warm(ledger: RemoteLogLedger, view: ThinView, now_ms: int) -> list[ToWarm]:
    """What is missing, in the order in which to take it."""
    by_end = _by_end(ledger, view)
    position, local_bytes = view.local_log_start_offset, view.local_bytes
    segment = by_end.get(position) or _across(by_end, position)
    found: list[ToWarm] = []
    while segment is not None and position > view.log_start_offset:
        position = segment.start_offset
        local_bytes += segment.segment_size_in_bytes
        before = by_end.get(position)
        has_state = before is not None or position <= view.log_start_offset
        if not has_state or not _is_kept(segment, view.policy, local_bytes, now_ms):
            break
        found.append(ToWarm(segment, before))
        segment = before
    return found


def _by_end(ledger: RemoteLogLedger, view: ThinView) -> dict[int, RemoteLogSegmentMetadata]:
    """The segments on the lineage by where they end (exclusive); of several the one that begins lowest."""
    found: dict[int, RemoteLogSegmentMetadata] = {}
    for segment in ledger.finished():
        if segment.start_offset >= view.local_log_start_offset:
            break
        if is_within_lineage(segment, view.epochs, view.log_end_offset):
            found.setdefault(segment.end_offset + 1, segment)
    return found


def _across(by_end: dict[int, RemoteLogSegmentMetadata], position: int) -> RemoteLogSegmentMetadata | None:
    """The segment that begins below a position and reaches least beyond it."""
    ends = [end for end, segment in by_end.items() if segment.start_offset < position < end]
    return by_end[min(ends)] if ends else None


def _is_kept(segment: RemoteLogSegmentMetadata, policy: TierPolicy, local_bytes: int, now_ms: int) -> bool:
    if policy.local_retention_bytes != UNLIMITED and local_bytes > policy.local_retention_bytes:
        return False
    return policy.local_retention_ms == UNLIMITED or now_ms - segment.max_timestamp_ms <= policy.local_retention_ms
