"""The segments that retention may delete, from the oldest on. Pure: this decides, the log deletes.

| limit | a segment is deleted while |
|---|---|
| log start | it is wholly below the log start offset (DeleteRecords, or the tier's expiry) |
| `retention.ms` | its largest timestamp is older; without any, its last change |
| `retention.bytes` | the log is still that large without it |

For all of them: only a prefix of the segments, only below the high watermark. The active segment expires only if all
before it expire, by time or size, and it has data: it is rolled first, so that the log keeps an empty one. A log
without `delete` in its clean-up policy loses only segments below its log start. So does a tiered log here: the remote
log manager applies its time and size limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...light_dataclass import dataclass
from .config import UNLIMITED, LogConfig


class SegmentView(Protocol):
    """The facts about a segment that retention needs; `next_offset` is exclusive."""

    @property
    def next_offset(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def written_bytes(self) -> int: ...

    @property
    def largest_timestamp_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Expired:
    """The decision: the oldest `count` segments expire; `roll_first` if they include the active one, with data."""

    count: int
    roll_first: bool = False


def below_log_start(segments: Sequence[SegmentView], log_start_offset: int) -> Expired:
    """Count the closed segments wholly below the log start."""
    count = 0
    for segment in segments[:-1]:
        if segment.next_offset > log_start_offset:
            break
        count += 1
    return Expired(count)


def expired(
    segments: Sequence[SegmentView], config: LogConfig, *, now_ms: int, high_watermark: int, log_start_offset: int
) -> Expired:
    """Count the segments that expire under any limit of the log."""
    assert segments, "a log has an active segment"
    breached = below_log_start(segments, log_start_offset)
    if config.remote_storage_enable or "delete" not in config.cleanup_policy:
        return breached
    # Only committed segments: the rest may not have reached any follower yet.
    committed = 0
    for segment in segments:
        if segment.next_offset > high_watermark:
            break
        committed += 1
    by_limits = min(committed, max(_by_time(segments, config, now_ms), _by_size(segments, config)))
    if by_limits == len(segments):
        has_data = segments[-1].size_bytes > 0
        return Expired(by_limits if has_data else by_limits - 1, roll_first=has_data)
    return Expired(max(breached.count, by_limits))


def _by_time(segments: Sequence[SegmentView], config: LogConfig, now_ms: int) -> int:
    if config.retention_ms == UNLIMITED:
        return 0
    count = 0
    for segment in segments:
        if now_ms - segment.largest_timestamp_ms <= config.retention_ms:
            break
        count += 1
    return count


def _by_size(segments: Sequence[SegmentView], config: LogConfig) -> int:
    """Count expired segments by size. Bytes that are still being written do not count: the write may fail."""
    if config.retention_bytes == UNLIMITED:
        return 0
    excess = sum(segment.written_bytes for segment in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        excess -= segment.written_bytes
        if excess < 0:
            break
        count += 1
    return count
