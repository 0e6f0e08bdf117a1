"""What retention asks to go, by size and by time, computed as Kafka computes it. Asks only: the plan decides.

Both functions look at a log from its oldest end and stop at the first segment that may stay, so an old segment behind
a young one stays too. A limit of -1 is breached by nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...remote.core.segment import RemoteLogSegmentMetadata
from .view import LocalSegment


def breached_local_segments(
    segments: Sequence[LocalSegment], *, retention_bytes: int, retention_ms: int, now_ms: int
) -> int:
    """How many of the oldest `segments` breach: first by the size of all of them, then by the age of what is left.

    A segment goes by size only as a whole, that is while the rest still holds `retention_bytes` or more.
    """
    count = 0
    if retention_bytes >= 0:
        surplus = sum(segment.size_bytes for segment in segments) - retention_bytes
        while count < len(segments) and surplus >= segments[count].size_bytes:
            surplus -= segments[count].size_bytes
            count += 1
    if retention_ms >= 0:
        while count < len(segments) and now_ms - segments[count].max_timestamp_ms > retention_ms:
            count += 1
    return count


def breached_remote_segments(
    segments: Sequence[RemoteLogSegmentMetadata],
    *,
    local_only_bytes: int,
    retention_bytes: int,
    retention_ms: int,
    now_ms: int,
) -> int:
    """How many of the oldest remote `segments` breach the retention of the whole log.

    The log's size is theirs plus `local_only_bytes`, what lies in local segments that are not in the tier. Bytes that
    several segments hold because leaders copied the same offsets count once.
    """
    sizes = _sizes_without_overlaps(segments) if retention_bytes >= 0 else []
    surplus = sum(sizes) + local_only_bytes - retention_bytes
    count = 0
    for segment in segments:
        too_old = retention_ms >= 0 and segment.max_timestamp_ms <= now_ms - retention_ms
        too_much = retention_bytes >= 0 and surplus >= sizes[count]
        if not too_old and not too_much:
            break
        surplus -= sizes[count] if sizes else 0
        count += 1
    return count


def _sizes_without_overlaps(segments: Sequence[RemoteLogSegmentMetadata]) -> list[int]:
    """The size of each segment, in proportion to the offsets that no earlier one holds."""
    sizes = []
    next_offset = 0
    for segment in segments:
        start, end = segment.start_offset, segment.end_offset + 1
        if start >= next_offset:
            sizes.append(segment.segment_size_in_bytes)
        else:
            sizes.append(segment.segment_size_in_bytes * max(0, end - next_offset) // (end - start))
        next_offset = max(next_offset, end)
    return sizes
