"""What breaches retention, by size and by time, computed as Kafka computes it; the plan decides what goes.

Both functions look at a log from its oldest end and stop at the first segment that may stay, so an old segment after
a young one stays too. A limit of -1 is breached by nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...remote.core import RemoteLogSegmentMetadata
from .moment import Moment
from .view import LocalSegment


def breached_local_segments(
    segments: Sequence[LocalSegment], *, retention_bytes: int, retention_ms: int, moment: Moment
) -> int:
    """Return how many of the oldest `segments` breach: first by the size of all of them, then by the age of the rest.

    A segment goes by size only as a whole, that is while the rest still holds `retention_bytes` or more.
    """
    count = 0
    if retention_bytes >= 0:
        surplus = sum(segment.size_bytes for segment in segments) - retention_bytes
        while count < len(segments) and surplus >= segments[count].size_bytes:
            surplus -= segments[count].size_bytes
            count += 1
    if retention_ms >= 0:
        while count < len(segments) and moment.is_after(segments[count].max_timestamp_ms + retention_ms):
            count += 1
    return count


def breached_remote_segments(
    oldest: Iterable[tuple[RemoteLogSegmentMetadata, int]],
    *,
    total_bytes: int,
    retention_bytes: int,
    retention_ms: int,
    moment: Moment,
) -> list[RemoteLogSegmentMetadata]:
    """Return the remote segments that breach the retention of the whole log, which has `total_bytes`.

    `oldest` gives them by their start offsets, each with its size without what an earlier one holds: bytes that several
    segments hold, because several leaders copied the same offsets, count once, here and in the total. It is read up to
    the first segment that may stay.
    """
    surplus = total_bytes - retention_bytes
    breached = []
    for segment, size_bytes in oldest:
        too_old = retention_ms >= 0 and moment.is_after(segment.max_timestamp_ms + retention_ms - 1)
        too_much = retention_bytes >= 0 and surplus >= size_bytes
        if not too_old and not too_much:
            break
        surplus -= size_bytes
        breached.append(segment)
    return breached
