"""Offsets by time over both tiers (ListOffsets by timestamp, and -3; bootstrap rule 10).

The history of a partition is its lineage's remote segments, then its local log; they overlap. So the first record that
is not older than a time is looked for in the remote segments that begin below the local log, in their order, and then
locally. An index only says where to begin to read: the answer is always a record. When retention has moved meanwhile,
it is looked for again: what was only local has become what is only remote, or what was searched has been deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from ..limited_log import LimitedLog
from ..log import PartitionLog, TimestampAndOffset
from ..log.core import OffsetPosition
from ..protocol import CorruptRecordError, ErrorCode, KafkaError, TopicIdPartition
from ..protocol.net import reading_batch
from ..protocol.records import BATCH_HEADER_SIZE, DECOMPRESSED_BYTES_MAX, Buffer, iter_batches, parse_header
from ..remote import (
    IndexType,
    ReadOn,
    RemoteIndexCache,
    RemoteLogMetadataManager,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    WrongIndexError,
    check_offset_entry,
    has_time_entry,
)
from ..remote.core import RemoteLogLedger, RemoteLogSegmentMetadata, with_max_timestamp, with_timestamp_from
from .chunks import RemoteChunks

logger = LimitedLog(logging.getLogger(__name__))

_Found = TimestampAndOffset | None

SCAN_BYTES: Final = 1 << 20
"""How much of a segment is looked through at a time; a batch that is larger is read whole."""


class OffsetsByTime:
    """One for all partitions of a broker."""

    def __init__(
        self,
        metadata: RemoteLogMetadataManager,
        chunks: RemoteChunks,
        indexes: RemoteIndexCache,
        *,
        timeout_ms: int,
    ) -> None:
        self._metadata = metadata
        self._chunks = chunks
        self._indexes = indexes
        self._timeout_ms = timeout_ms

    async def offset_for_timestamp(
        self, partition: TopicIdPartition, log: PartitionLog, timestamp_ms: int
    ) -> TimestampAndOffset | None:
        """The first record from the log start on that is not older than `timestamp_ms`. KAFKA_STORAGE_ERROR or
        REQUEST_TIMED_OUT if the tier fails.
        """
        return await self._in_time(partition, log, lambda: self._offset_for_timestamp(partition, log, timestamp_ms))

    async def max_timestamp_offset(self, partition: TopicIdPartition, log: PartitionLog) -> TimestampAndOffset | None:
        """The first record with the largest timestamp; errors as above."""
        return await self._in_time(partition, log, lambda: self._max_timestamp_offset(partition, log))

    async def _in_time(
        self, partition: TopicIdPartition, log: PartitionLog, search: Callable[[], Awaitable[_Found]]
    ) -> _Found:
        """The result of a search during which the local log has kept its start, and what was found is still there."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while True:
                    log_start_offset, local_log_start_offset = (
                        log.state.log_start_offset,
                        log.state.offsets.local_log_start_offset,
                    )
                    try:
                        found = await search()
                    except WrongIndexError as error:
                        logger.warning(str(partition), "%s: cannot search the tier by time: %s", partition, error)
                        self._chunks.drop(error.segment)
                        if not await self._indexes.distrust(error.segment, error.index_type):
                            raise
                        continue
                    except RemoteResourceNotFoundError:
                        if log.state.log_start_offset == log_start_offset:
                            raise
                        continue
                    is_there = found is None or found.offset >= log.state.log_start_offset
                    if is_there and log.state.offsets.local_log_start_offset == local_log_start_offset:
                        return found
        except TimeoutError as error:
            raise KafkaError(
                ErrorCode.request_timed_out, f"{partition}: the tier was not searched within {self._timeout_ms} ms"
            ) from error
        except RemoteStorageError as error:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{partition}: the tier failed: {error}") from error

    async def _offset_for_timestamp(
        self, partition: TopicIdPartition, log: PartitionLog, timestamp_ms: int
    ) -> TimestampAndOffset | None:
        ledger = self._ledger(partition)
        start_offset = log.state.log_start_offset
        candidates = with_timestamp_from(ledger, log.state.epochs, log.state.log_end_offset, start_offset, timestamp_ms)
        for segment in list(candidates):
            if segment.start_offset >= log.state.offsets.local_log_start_offset:
                break
            found = await self._first_from(segment, start_offset, timestamp_ms)
            if found is not None:
                return found
        return await log.offset_for_timestamp(timestamp_ms)

    async def _max_timestamp_offset(self, partition: TopicIdPartition, log: PartitionLog) -> TimestampAndOffset | None:
        ledger = self._ledger(partition)
        segment = with_max_timestamp(ledger, log.state.epochs, log.state.log_end_offset, log.state.log_start_offset)
        local = await log.max_timestamp_offset()
        if segment is None or (local is not None and local.timestamp > segment.max_timestamp_ms):
            return local
        return await self._first_from(segment, log.state.log_start_offset, segment.max_timestamp_ms) or local

    def _ledger(self, partition: TopicIdPartition) -> RemoteLogLedger:
        ledger = self._metadata.ledger(partition)
        if ledger is None:
            raise KafkaError(
                ErrorCode.kafka_storage_error, f"{partition}: its remote log metadata has not been read yet"
            )
        return ledger

    async def _first_from(
        self, segment: RemoteLogSegmentMetadata, start_offset: int, timestamp_ms: int
    ) -> TimestampAndOffset | None:
        """The first record of `segment` at `start_offset` or above that is not older."""
        near = (await self._indexes.time_index(segment)).lookup(timestamp_ms)
        entry = (await self._indexes.offset_index(segment)).lookup(near.offset)
        first: TimestampAndOffset | ReadOn = ReadOn(0)
        is_proven = near.timestamp < 0
        try:
            async with aclosing(self._batches_from(segment, entry)) as pieces:
                async for data in pieces:
                    # An offset index may be sparse: until the batch of `near` was seen, records may have been skipped.
                    is_proven = is_proven or has_time_entry(data, segment, near)
                    if isinstance(first, ReadOn):
                        first = await first_record_from(data, start_offset=start_offset, timestamp_ms=timestamp_ms)
                    if isinstance(first, TimestampAndOffset) and is_proven:
                        return first
        except CorruptRecordError as error:
            self._chunks.drop(segment)
            raise RemoteStorageCorruptError(f"{segment.segment_id}: {error.message}") from error
        if not is_proven:
            raise WrongIndexError(segment, IndexType.TIMESTAMP, f"no batch holds the offset of {near}")
        return None

    async def _batches_from(
        self, segment: RemoteLogSegmentMetadata, entry: OffsetPosition
    ) -> AsyncGenerator[Buffer, None]:
        """Yield the segment from the entry's position on, in pieces that begin with a batch and hold a whole one."""
        scan_bytes = min(SCAN_BYTES, self._chunks.read_bytes_max)
        position, size_bytes = entry.position, scan_bytes
        while position < segment.segment_size_in_bytes:
            data = await self._chunks.read(segment, position, position + size_bytes)
            if position == entry.position:
                check_offset_entry(data, segment, entry)
            whole_bytes = max((at + header.size_bytes for at, header in iter_batches(data, check_crc=False)), default=0)
            if whole_bytes:
                yield data
            size_bytes = scan_bytes if whole_bytes else _size_of_large_batch(segment, position, data, size_bytes)
            position += whole_bytes


def _size_of_large_batch(segment: RemoteLogSegmentMetadata, position: int, beginning: Buffer, read_bytes: int) -> int:
    """Return the size of the batch at `position`, which is larger than what was read of it. Its records are needed, so
    it is held in memory: RemoteStorageCorruptError if it is larger than any batch, or does not fit into its segment.
    """
    left = segment.segment_size_in_bytes - position
    size_bytes = parse_header(beginning).size_bytes if len(beginning) >= BATCH_HEADER_SIZE else BATCH_HEADER_SIZE
    if read_bytes < size_bytes <= min(left, DECOMPRESSED_BYTES_MAX):
        return size_bytes
    raise RemoteStorageCorruptError(
        f"{segment.segment_id}: no whole batch at byte {position}: {size_bytes} bytes are claimed, {left} are left,"
        f" a batch has at most {DECOMPRESSED_BYTES_MAX}"
    )


async def first_record_from(data: Buffer, *, start_offset: int, timestamp_ms: int) -> TimestampAndOffset | ReadOn:
    """Return the first record of the complete batches in `data` that is not older and not below `start_offset`.
    CorruptRecordError.
    """
    end = 0
    for position, header in iter_batches(data):
        end = position + header.size_bytes
        if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
            continue
        async with reading_batch(data, position, header) as slices:
            async for some in slices:
                for record in some:
                    if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                        return TimestampAndOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return ReadOn(end)
