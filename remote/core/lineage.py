"""Which remote segments belong to this leader's history, how far they reach, and what the leader says about it.

A segment lies *whole on the lineage* of a replica if the replica's leader-epoch cache gives every offset of the segment
the same epoch as the segment does, and the log reaches beyond its last offset. After an unclean election the tier also
holds segments of the lost history; one that straddles the divergence agrees with the cache on its first offsets only.
Such a segment may be read up to there (`RemoteLogLedger.find` asks by epoch) and covers the offsets up to there, but
is not counted as tiered: the local copy of its first offsets stays, and is uploaded once more.

    epoch cache      0@0          2@80                         log end 200
    A  epochs 0@0    [0 ... 59]                                 whole
    B  epochs 0@60        [60 ... 99]                           straddles: the cache gives 80 to epoch 2
    C  epochs 0@60 2@80   [60 ........ 149]                     whole
    D  epochs 1@100              [100 ... 149]                  lost leader: epoch 1 is not in the cache

Offsets below the cache's first entry (the log start) are not compared: their epochs are forgotten. Where the segment
has forgotten some itself (the log start lay in it when it was copied) it is whole only for who has that log start: of
another replica `find` would not find those offsets. Kafka's `isRemoteSegmentWithinLeaderEpochs` accepts a superset.

The answers to ListOffsets -5 and -6, `ready` meaning that the first pass has read the remote metadata, `whole` the last
segment that lies whole on the lineage:

| state                                 | -5 (latest tiered) | -6 (earliest pending upload)                       |
|---------------------------------------|--------------------|----------------------------------------------------|
| not ready                             | unknown            | unknown                                            |
| whole = none, local start = log start | unknown            | log start                                          |
| whole = none, local start > log start | unknown            | unknown: what lies below seems to be in no tier    |
| whole = [.., e]                       | e                  | max(e + 1, log start, local log start)             |

Unknown is -1 on the wire. The answer to -6 never lies below the local log start, which the leader would refuse to
serve, nor above the log end; at the log end its epoch is the leader's latest. Kafka answers -1 there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...light_dataclass import dataclass
from ...log.core import LeaderEpochCache
from .ledger import RemoteLogLedger
from .packed import last_epoch_of, max_timestamp_of, offsets_of, unpack
from .segment import RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """An offset of this lineage; `leader_epoch` is -1 where the epoch cache does not reach."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [start_offset, end_offset) that no segment holds on the lineage."""

    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        return f"[{self.start_offset}, {self.end_offset})"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The segments that cover a range with their offsets on the lineage, each beginning at or before the end of the one
    before it; up to the gap, if there is one.
    """

    segments: tuple[RemoteLogSegmentMetadata, ...]
    gap: Gap | None


def is_within_lineage(metadata: RemoteLogSegmentMetadata, epochs: LeaderEpochCache, log_end_offset: int) -> bool:
    """Whether the segment lies whole on the lineage. One that ends below the cache's first entry does not."""
    earliest = epochs.earliest_entry
    if earliest is None or not earliest.start_offset <= metadata.end_offset < log_end_offset:
        return False
    begin = max(metadata.start_offset, earliest.start_offset)
    if len(metadata.segment_leader_epochs) == 1:
        (only,) = metadata.segment_leader_epochs
        return only.start_offset <= begin and epochs.holds(only.epoch, begin, metadata.end_offset)
    known = epochs.range(begin, metadata.end_offset + 1)
    stated = [(epoch, max(first, begin)) for epoch, first, last in metadata.epoch_ranges() if last >= begin]
    return [(entry.epoch, entry.start_offset) for entry in known] == stated


def end_on_lineage(metadata: RemoteLogSegmentMetadata, epochs: LeaderEpochCache, log_end_offset: int) -> int:
    """Return the offset below which the segment's records are those of the lineage; its start offset if none is."""
    if is_within_lineage(metadata, epochs, log_end_offset):
        return metadata.end_offset + 1
    earliest = epochs.earliest_entry
    if earliest is None:
        return metadata.start_offset
    begin = position = max(metadata.start_offset, earliest.start_offset)
    for epoch, first, last in metadata.epoch_ranges():
        end = min(last + 1, log_end_offset)
        if end <= position:
            continue
        known = epochs.range(position, end)
        if first > position or known[0].epoch != epoch:
            break
        position = end if len(known) == 1 else known[1].start_offset
        if position <= last:
            break
    return position if position > begin else metadata.start_offset


def highest_whole_on_lineage(
    ledger: RemoteLogLedger, epochs: LeaderEpochCache, log_end_offset: int
) -> RemoteLogSegmentMetadata | None:
    """The readable segment that reaches farthest of those whole on the lineage."""
    for metadata in ledger.finished_before(log_end_offset):
        if is_within_lineage(metadata, epochs, log_end_offset):
            return metadata
    return None


def youngest(ledger: RemoteLogLedger) -> RemoteLogSegmentMetadata | None:
    """The readable segment of the latest leader; its leader-epoch checkpoint is the history that survived."""
    row = max(ledger.rows_from(0), key=_epoch_and_end, default=None)
    return None if row is None else unpack(row, ledger.partition)


def covering(ledger: RemoteLogLedger, epochs: LeaderEpochCache, start_offset: int, end_offset: int) -> Coverage:
    """The fewest readable segments that hold every offset of [start_offset, end_offset) on the lineage of the log
    [.., end_offset); or those before the first gap.
    """
    chain: list[RemoteLogSegmentMetadata] = []
    parts = _parts_from(ledger, epochs, start_offset, end_offset)
    position = start_offset
    ahead = next(parts, None)
    while position < end_offset:
        best: _Part | None = None
        while ahead is not None and ahead.segment.start_offset <= position:
            if best is None or ahead.end_offset > best.end_offset:
                best = ahead
            ahead = next(parts, None)
        if best is None or best.end_offset <= position:
            return Coverage(tuple(chain), Gap(position, end_offset if ahead is None else ahead.segment.start_offset))
        chain.append(best.segment)
        position = best.end_offset
    return Coverage(tuple(chain), None)


def with_timestamp_from(
    ledger: RemoteLogLedger, epochs: LeaderEpochCache, log_end_offset: int, start_offset: int, timestamp_ms: int
) -> Iterator[RemoteLogSegmentMetadata]:
    """The segments whole on the lineage that reach `start_offset` or beyond and hold a record of `timestamp_ms` or
    later, lowest start offset first: where to search for an offset by time (ListOffsets). The first match may lie
    below `start_offset` within its segment: then take the next one.
    """
    for row in ledger.rows_from(start_offset):
        # Most segments are ruled out by their time, which costs a tenth of unpacking them.
        if max_timestamp_of(row) >= timestamp_ms:
            metadata = unpack(row, ledger.partition)
            if is_within_lineage(metadata, epochs, log_end_offset):
                yield metadata


def with_max_timestamp(
    ledger: RemoteLogLedger, epochs: LeaderEpochCache, log_end_offset: int, start_offset: int
) -> RemoteLogSegmentMetadata | None:
    """Return the first segment with the largest timestamp, among those whole on the lineage that reach `start_offset`
    or beyond (ListOffsets -3).
    """
    best: RemoteLogSegmentMetadata | None = None
    for row in reversed(ledger.rows_from(start_offset)):  # the largest is mostly among the last
        if best is None or max_timestamp_of(row) >= best.max_timestamp_ms:
            metadata = unpack(row, ledger.partition)
            if is_within_lineage(metadata, epochs, log_end_offset):
                best = metadata
    return best


def latest_tiered(
    ledger: RemoteLogLedger | None, epochs: LeaderEpochCache, log_end_offset: int
) -> OffsetAndEpoch | None:
    """The answer to ListOffsets -5; None is unknown. `ledger` is None until the remote metadata has been read."""
    whole = None if ledger is None else highest_whole_on_lineage(ledger, epochs, log_end_offset)
    return None if whole is None else _at(whole.end_offset, epochs)


def earliest_pending_upload(
    ledger: RemoteLogLedger | None,
    epochs: LeaderEpochCache,
    *,
    log_start_offset: int,
    local_log_start_offset: int,
    log_end_offset: int,
) -> OffsetAndEpoch | None:
    """The answer to ListOffsets -6 (KIP-1023) by the table above; None is unknown. `ledger` is None until the remote
    metadata has been read.
    """
    assert log_start_offset <= local_log_start_offset <= log_end_offset, (
        log_start_offset,
        local_log_start_offset,
        log_end_offset,
    )
    if ledger is None:
        return None
    whole = highest_whole_on_lineage(ledger, epochs, log_end_offset)
    if whole is not None:
        return _at(max(whole.end_offset + 1, local_log_start_offset), epochs)
    if local_log_start_offset == log_start_offset:
        return _at(log_start_offset, epochs)
    return None


def _epoch_and_end(row: bytes) -> tuple[int, int]:
    return last_epoch_of(row), offsets_of(row)[1]


class _Part(NamedTuple):
    """The records of a segment that are on the lineage: those below `end_offset`."""

    segment: RemoteLogSegmentMetadata
    end_offset: int


def _parts_from(
    ledger: RemoteLogLedger, epochs: LeaderEpochCache, start_offset: int, log_end_offset: int
) -> Iterator[_Part]:
    for metadata in ledger.finished_from(start_offset):
        part = _Part(metadata, end_on_lineage(metadata, epochs, log_end_offset))
        if part.end_offset > max(start_offset, metadata.start_offset):
            yield part


def _at(offset: int, epochs: LeaderEpochCache) -> OffsetAndEpoch:
    epoch = epochs.epoch_for_offset(offset)
    return OffsetAndEpoch(offset, -1 if epoch is None else epoch)
