"""Scans one segment after a crash: every batch is checked, and all facts about the segment are rebuilt.

A batch is valid if it is complete, its CRC is right, its offsets are after those of the batch before and below the next
segment, and its control record, if it has one, can be read. The first invalid batch ends the segment; the caller, which
knows the recovery point, decides what to do.
"""

from __future__ import annotations

from pathlib import Path

from ...light_dataclass import dataclass
from ...protocol import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import BatchHeader, EndTransactionMarker
from ..core.epochs import LeaderEpochCache
from ..core.index import RELATIVE_OFFSET_MAX
from ..core.producers import ProducerStateManager
from .batch_scan import BatchChunk, BatchScan
from .segment import LogSegment


class CorruptLogError(KafkaError):
    """A partition that must not be served (KAFKA_STORAGE_ERROR): one of its files is damaged or missing.

    `position` is the first byte in question, if there is one.
    """

    def __init__(self, message: str, *, path: Path, position: int | None = None) -> None:
        super().__init__(ErrorCode.kafka_storage_error, message)
        self.path = path
        self.position = position


@dataclass(frozen=True, slots=True)
class SegmentFault:
    """The first byte that is not part of a valid batch, and why."""

    position: int
    reason: str


async def recover_segment(
    segment: LogSegment,
    producers: ProducerStateManager,
    epochs: LeaderEpochCache,
    *,
    end_offset_max: int | None,
    now_ms: int,
) -> SegmentFault | None:
    """Scan `segment`; bring it, the epochs, and the producer state (which ends at its base offset) to its valid end.

    `end_offset_max` is the base of the next segment. The file is not changed: a fault's position is where to cut it.
    """
    file_bytes = segment.size_bytes
    segment.rebuild_from_nothing()
    scan = BatchScan(await segment.file(), 0, file_bytes, check_crc=True)
    fault: SegmentFault | None = None
    limit = segment.base_offset + RELATIVE_OFFSET_MAX + 1
    if end_offset_max is not None:
        limit = min(limit, end_offset_max)
    try:
        async for chunk in scan:
            valid, fault = _valid_batches(chunk, segment.next_offset, limit)
            if valid:
                _take(segment, producers, epochs, valid, now_ms)
            if fault is not None:
                break
    except CorruptRecordError as error:
        fault = SegmentFault(error.position, error.reason)
    segment.publish_all()
    if fault is None and segment.size_bytes < file_bytes:
        fault = SegmentFault(
            segment.size_bytes, f"{file_bytes - segment.size_bytes} bytes that are not a complete batch"
        )
    assert fault is None or fault.position == segment.size_bytes, (segment, fault)
    return fault


_Valid = list[tuple[BatchHeader, EndTransactionMarker | None]]


def _valid_batches(chunk: BatchChunk, next_offset: int, limit: int) -> tuple[_Valid, SegmentFault | None]:
    """Return the batches of a chunk before the first with impossible offsets or control record, and that fault."""
    valid: _Valid = []
    for position, header in chunk.batches:
        end_offset = header.base_offset + header.last_offset_delta + 1
        if header.base_offset < next_offset or end_offset > limit:
            reason = f"offsets {header.base_offset}..{end_offset - 1} where [{next_offset}, {limit}) are expected"
            return valid, SegmentFault(position, reason)
        marker = None
        if header.is_control:
            try:
                marker = chunk.marker(position, header)
            except CorruptRecordError as error:
                return valid, SegmentFault(position, error.reason)
        valid.append((header, marker))
        next_offset = end_offset
    return valid, None


def _take(
    segment: LogSegment,
    producers: ProducerStateManager,
    epochs: LeaderEpochCache,
    batches: _Valid,
    now_ms: int,
) -> None:
    segment.account([header for header, _ in batches], now_ms)
    latest_epoch = epochs.latest_epoch
    for header, marker in batches:
        if header.partition_leader_epoch > latest_epoch:
            latest_epoch = header.partition_leader_epoch
            epochs.assign(latest_epoch, header.base_offset)
        if header.producer_id >= 0:
            completed = producers.apply(header, marker=marker)
            if completed is not None and completed.is_aborted:
                segment.account_aborted(completed.aborted)
    producers.advance_to(segment.next_offset)
