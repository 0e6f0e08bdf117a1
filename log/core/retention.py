"""Which segments of a log may go, from the oldest on. Pure: it decides, the log does.

| limit | a segment goes while |
|---|---|
| log start | it lies wholly below the log start offset (DeleteRecords, or the tier's expiry) |
| `retention.ms` | its largest timestamp is older; without any, its last change |
| `retention.bytes` | the log is still that large without it |

For all of them: only a prefix of the segments, only below the high watermark. The active segment goes only if all
before it goes, by time or size, and it has data: it is rolled first, so that the log keeps an empty one. A log without
`delete` in its clean-up policy loses only what lies below its log start; so does a tiered one here: its time and bytes
are the remote log manager's matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .config import UNLIMITED, LogConfig


class SegmentView(Protocol):
    """What retention looks at; `next_offset` is exclusive."""

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
    """The oldest `count` segments may go; `roll_first` if the active one, which has data, is among them."""

    count: int
    roll_first: bool = False


def below_log_start(segments: Sequence[SegmentView], log_start_offset: int) -> Expired:
    """The closed segments that lie wholly below the log start."""
    count = 0
    for segment in segments[:-1]:
        if segment.next_offset > log_start_offset:
            break
        count += 1
    return Expired(count)


def expired(
    segments: Sequence[SegmentView], config: LogConfig, *, now_ms: int, high_watermark: int, log_start_offset: int
) -> Expired:
    """What may go by all limits that apply to the log."""
    assert segments, "a log has an active segment"
    breached = below_log_start(segments, log_start_offset)
    if config.remote_storage_enable or "delete" not in config.cleanup_policy:
        return breached
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
    """Nothing that is still being written counts: it may fail."""
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
