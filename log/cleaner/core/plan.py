"""Which part of a log may be cleaned, whether it is worth it, and which segments become one. Pure.

    log start ----- cleaned before ----- clean end ----- dirty ----- cleanable end ----- active segment -----
                                                                  at most the last stable offset and the flushed end

* Whole closed segments only, and only committed, stable and flushed records: records that may still be truncated, or
  belong to an open transaction, are not read.
* A record is not cleaned before `min.compaction.lag.ms`; after `max.compaction.lag.ms` it is, however few there are.
* Otherwise a log is cleaned once its dirty part exceeds `min.cleanable.dirty.ratio` of its clean and dirty bytes.
* Neighbours become one segment within the limits of `segment.bytes`, of its indexes and of relative offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ....light_dataclass import dataclass
from ...core.config import LogConfig
from ...core.index import RELATIVE_OFFSET_MAX

INDEX_ENTRY_BYTES = 12
"""The entry size of the time index, which is larger than that of the offset index."""


class SegmentView(Protocol):
    """The facts about a segment that the plan needs; `next_offset` is exclusive."""

    @property
    def base_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def largest_timestamp_ms(self) -> int: ...


S = TypeVar("S", bound=SegmentView)


@dataclass(frozen=True, slots=True)
class DirtyRange:
    """The dirty part of a log: its size beside the clean part's, and `end_offset`, the cleanable end."""

    clean_bytes: int
    dirty_bytes: int
    end_offset: int
    first_dirty_base: int | None
    """The base offset of the first dirty segment with data, whose first batch gives its age; None without one."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0


def find_dirty_range(
    segments: Sequence[SegmentView],
    config: LogConfig,
    *,
    clean_end_offset: int,
    stable_end_offset: int,
    now_ms: int,
) -> DirtyRange:
    """Return the dirty range. `stable_end_offset` is the last stable offset, or the flushed end if that is lower."""
    clean_bytes = dirty_bytes = 0
    end_offset = segments[0].base_offset
    first_dirty_base: int | None = None
    for segment in segments[:-1]:
        is_dirty = segment.next_offset > clean_end_offset
        is_young = is_dirty and segment.largest_timestamp_ms > now_ms - config.min_compaction_lag_ms
        if segment.next_offset > stable_end_offset or (is_young and config.min_compaction_lag_ms > 0):
            break
        end_offset = segment.next_offset
        if not is_dirty:
            clean_bytes += segment.size_bytes
            continue
        dirty_bytes += segment.size_bytes
        if first_dirty_base is None and segment.size_bytes:
            first_dirty_base = segment.base_offset
    return DirtyRange(clean_bytes, dirty_bytes, end_offset, first_dirty_base)


def is_worth_cleaning(dirty_range: DirtyRange, config: LogConfig, *, oldest_ms: int | None, now_ms: int) -> bool:
    """Return whether a log should be cleaned now. `oldest_ms` is the timestamp of the first dirty batch; None if it is
    unknown or irrelevant.
    """
    if dirty_range.dirty_bytes == 0:
        return False
    is_overdue = oldest_ms is not None and now_ms - oldest_ms > config.max_compaction_lag_ms
    return is_overdue or dirty_range.ratio > config.min_cleanable_dirty_ratio


def grouped(segments: Sequence[S], config: LogConfig) -> list[list[S]]:
    """Group the neighbours that become one segment, in order; every segment is in exactly one group."""
    groups: list[list[S]] = []
    size_bytes = 0
    for segment in segments:
        if groups and _fits(groups[-1][0], segment, size_bytes + segment.size_bytes, config):
            groups[-1].append(segment)
            size_bytes += segment.size_bytes
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups


def _fits(first: SegmentView, segment: SegmentView, size_bytes: int, config: LogConfig) -> bool:
    entries = size_bytes // max(1, config.index_interval_bytes) + 1
    return (
        size_bytes <= config.segment_bytes
        and entries * INDEX_ENTRY_BYTES <= config.segment_index_bytes
        and segment.next_offset - 1 - first.base_offset <= RELATIVE_OFFSET_MAX
    )
