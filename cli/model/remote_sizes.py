"""What an offset range takes in the tier, by the segments of the remote log metadata. Pure.

Segments of two leaders may overlap: an offset counts once, in the segment that begins first. Of a segment that begins
before the range or ends after it, the share of its offsets counts. Offsets are first inclusive, end exclusive.
"""

from __future__ import annotations

from collections.abc import Iterable

from .snapshot import RemoteSegment


def bytes_between(segments: Iterable[RemoteSegment], first: int, end: int) -> tuple[float, int]:
    """Return the bytes of [first, end) that segments hold, and how many of its offsets none of them holds."""
    size, held, next_offset = 0.0, 0, first
    for segment in sorted(segments, key=lambda each: (each.start_offset, -each.end_offset)):
        begin, stop = max(segment.start_offset, next_offset), min(segment.end_offset + 1, end)
        if begin >= stop:
            continue
        size += segment.size_bytes * (stop - begin) / (segment.end_offset + 1 - segment.start_offset)
        held += stop - begin
        next_offset = stop
    return size, max(0, end - first) - held


def record_bytes(segments: Iterable[RemoteSegment]) -> float | None:
    """Return the bytes that an offset takes on average; None without a segment."""
    found = list(segments)
    offsets = sum(each.end_offset + 1 - each.start_offset for each in found)
    return sum(each.size_bytes for each in found) / offsets if offsets else None
