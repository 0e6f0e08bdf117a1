"""Reads the tier for consumers: whole batches from the one that holds an offset on, and what was aborted among them.

What an offset leads to is decided and used without an `await` between; when the tier does not give the bytes, it is
decided again, because the segment may have been deleted meanwhile:

| offset                                      | answer                                                             |
|---------------------------------------------|--------------------------------------------------------------------|
| below the log start                         | OFFSET_OUT_OF_RANGE                                                |
| at or above the local log start             | None: the local log has it (it never falls back below)             |
| in a segment of this lineage                | batches of that segment, up to where it agrees with the lineage    |
| in none, or the ledger is not ready         | KAFKA_STORAGE_ERROR: the log start promises the offset; try again  |

| the tier                                    | answer                                                             |
|---------------------------------------------|--------------------------------------------------------------------|
| fails, or returns what is no such batch     | once more, fetched again; then KAFKA_STORAGE_ERROR                  |
| has an index that its log contradicts       | once more with the index fetched again, then built from the log     |
| takes longer than `remote.fetch.max.wait.ms` | no records; the fetch continues for the consumer's next attempt,  |
|                                             | whose read is no larger than what is kept for it                    |

The first of these that says where in its segment the batch of an offset begins is used, and the log has to confirm it
before anything is answered:

| by                                                   | what has to come from the tier before the answer           |
|------------------------------------------------------|------------------------------------------------------------|
| the offset: it is the segment's first                | the chunks of the answer                                   |
| the end of an earlier read of the segment, if a      | the chunks of the answer: a consumer that reads on needs   |
| batch that begins with the offset is there           | no index                                                   |
| the offset index, from memory or the local disk      | the chunks of the answer                                   |
| the offset index, from the tier                      | the index and, at the same time, the chunks where the      |
|                                                      | batch probably is (`core/guess.py`); others after it, if   |
|                                                      | the index leads elsewhere                                  |

Never another offset in place of the one that was asked for: a hole in the tier is an error, not a way past it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from typing import Final

from ..light_dataclass import dataclass
from ..limited_log import LimitedLog
from ..log import PartitionLog
from ..log.core import AbortedTransaction, OffsetPosition
from ..protocol import CorruptRecordError, ErrorCode, KafkaError, TopicIdPartition
from ..protocol.records import BATCH_HEADER_SIZE
from ..remote import (
    Found,
    RemoteIndexCache,
    RemoteLogMetadataManager,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    WholeBatches,
    WrongIndexError,
    batch_at,
    check_offset_entry,
    find_batch,
    whole_batches,
)
from ..remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata, is_within_lineage
from .chunks import RemoteChunks
from .core.guess import ByteRange, GuessTrust, probable_range

logger = LimitedLog(logging.getLogger(__name__))

ATTEMPTS_MAX: Final = 2
FIND_BYTES: Final = 64 << 10
"""How much is looked at for the batch of an offset at a time; an index interval is 4 KiB by default."""

ENDS_MAX: Final = 1024
"""The number of reads whose ends are remembered, to recognise consumers that read sequentially, and where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRead:
    """A consumer's position. `max_offset` (exclusive): the high watermark or the last stable offset."""

    partition: TopicIdPartition
    log: PartitionLog
    offset: int
    max_bytes: int
    max_offset: int
    min_one_batch: bool = True
    with_aborted: bool = False


@dataclass(frozen=True, slots=True)
class RemoteRecords:
    """Whole batches, the first of which holds the offset that was asked for; `next_offset` follows the last one."""

    records: memoryview
    next_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an offset lies: a segment, of which the offsets below `limit_offset` may be served."""

    segment: RemoteLogSegmentMetadata
    limit_offset: int


@dataclass(frozen=True, slots=True)
class _End:
    """Where a read ended: whole batches were served up to this position of the segment's log. `read_bytes` is what was
    read in sequence until there.
    """

    segment_id: RemoteLogSegmentId
    position: int
    read_bytes: int


class RemoteLogReader:
    """See the module's docstring. One for all partitions of a broker."""

    def __init__(
        self,
        metadata: RemoteLogMetadataManager,
        chunks: RemoteChunks,
        indexes: RemoteIndexCache,
        *,
        max_wait_ms: int,
    ) -> None:
        self._metadata = metadata
        self._chunks = chunks
        self._indexes = indexes
        self._find_bytes = max(BATCH_HEADER_SIZE, min(FIND_BYTES, chunks.read_bytes_max))
        self._max_wait_ms = max_wait_ms
        self._trust = GuessTrust()
        self._ends: OrderedDict[tuple[TopicIdPartition, int], _End] = OrderedDict()
        """The ends of reads, each under the offset after it."""

    async def read(self, request: RemoteRead) -> RemoteRecords | None:
        """None if the offset is local by now. KafkaError as in the tables above."""
        if request.max_bytes > self._chunks.read_bytes_max:
            request = replace(request, max_bytes=self._chunks.read_bytes_max)
        try:
            async with asyncio.timeout(self._max_wait_ms / 1000):
                return await self._read(request)
        except TimeoutError:
            name = str(request.partition)
            logger.info(name, "%s: the tier did not respond in time for offset %d", name, request.offset)
            return RemoteRecords(memoryview(b""), request.offset)

    async def _read(self, request: RemoteRead) -> RemoteRecords | None:
        failure: RemoteStorageError | None = None
        attempt = 0
        while attempt < ATTEMPTS_MAX:
            attempt += 1
            place = self._place(request)
            if place is None:
                return None
            try:
                return await self._read_at(request, place)
            except RemoteStorageError as error:
                logger.warning(
                    str(request.partition),
                    "%s: cannot read offset %d from the tier, attempt %d: %s",
                    request.partition,
                    request.offset,
                    attempt,
                    error,
                )
                await self._forget(place.segment, error)
                if isinstance(error, WrongIndexError) and await self._indexes.distrust(place.segment, error.index_type):
                    attempt -= 1  # at most twice: see there
                failure = error
        raise KafkaError(ErrorCode.kafka_storage_error, f"{request.partition}: the tier failed: {failure}")

    def _place(self, request: RemoteRead) -> _Place | None:
        log, offset = request.log, request.offset
        if offset >= log.state.offsets.local_log_start_offset:
            return None
        if offset < log.state.log_start_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"{request.partition}: offset {offset} is below the log start {log.state.log_start_offset}",
            )
        segment = self._segment_of(request, offset)
        return _Place(segment, min(_agreed_end(log, segment, offset), request.max_offset))

    def _segment_of(self, request: RemoteRead, offset: int) -> RemoteLogSegmentMetadata:
        """The segment that holds `offset` on this replica's lineage; KAFKA_STORAGE_ERROR if none does."""
        ledger = self._metadata.ledger(request.partition)
        if ledger is None:
            raise KafkaError(
                ErrorCode.kafka_storage_error, f"{request.partition}: its remote log metadata has not been read yet"
            )
        epoch = request.log.state.epochs.epoch_for_offset(offset)
        segment = ledger.find(epoch, offset) if epoch is not None else None
        if segment is None:
            raise KafkaError(
                ErrorCode.kafka_storage_error,
                f"{request.partition}: offset {offset} of leader epoch {epoch} is in neither the local"
                " log nor the tier, although the log "
                f"starts at {request.log.state.log_start_offset}; run `tierfetch tier verify`",
            )
        return segment

    async def _read_at(self, request: RemoteRead, place: _Place) -> RemoteRecords:
        segment = place.segment
        try:
            found = await self._find(request, segment)
            size_max = request.max_bytes
            if request.min_one_batch:
                size_max = max(size_max, found.header.size_bytes)
            data = await self._chunks.read(segment, found.position, found.position + size_max)
            batches = whole_batches(data, segment, limit_offset=place.limit_offset)
        except CorruptRecordError as error:
            raise RemoteStorageCorruptError(f"{segment.segment_id}: {error.message}") from error
        if batches.size_bytes == 0:
            return RemoteRecords(memoryview(b""), request.offset)
        self._fetch_ahead(request, segment, found.position, batches)
        aborted: tuple[AbortedTransaction, ...] = ()
        if request.with_aborted and batches.has_transactions:
            aborted = await self._aborted(request, segment, batches.next_offset)
        return RemoteRecords(data[: batches.size_bytes], batches.next_offset, aborted)

    async def _find(self, request: RemoteRead, segment: RemoteLogSegmentMetadata) -> Found:
        offset = request.offset
        if offset <= segment.start_offset:
            return await self._find_from(request, segment, OffsetPosition(segment.start_offset, 0))
        end = self._ends.get((request.partition, offset))
        if end is not None and end.segment_id == segment.segment_id:
            found = await self._find_at(request, segment, end.position)
            if found is not None:
                return found
        return await self._find_by_index(request, segment)

    async def _find_at(self, request: RemoteRead, segment: RemoteLogSegmentMetadata, position: int) -> Found | None:
        """Return the batch at the position; None if it is not the one that begins with the offset."""
        self._chunks.begin(segment, position, position + request.max_bytes)
        data = await self._chunks.read(segment, position, position + BATCH_HEADER_SIZE)
        header = batch_at(data, segment, request.offset)
        if header is None or position + header.size_bytes > segment.segment_size_in_bytes:
            return None
        return Found(position, header)

    async def _find_by_index(self, request: RemoteRead, segment: RemoteLogSegmentMetadata) -> Found:
        """Where the index is not here, fetch it and, if the partition is worth it, what it probably leads to, both at
        once. What a guess would be worth is judged where the index is here, too: a read that timed out comes again.
        """
        probable = probable_range(segment, request.offset, request.max_bytes, self._chunks.chunk_bytes)
        begun: list[ByteRange] = []
        if not self._indexes.has_offset_index(segment) and self._trust.may_guess(request.partition):
            begun = self._chunks.guess(segment, probable)
        index = await self._indexes.offset_index(segment)
        found = await self._find_from(request, segment, index.lookup(request.offset))
        self._chunks.judge(begun, found.position, found.position + max(request.max_bytes, found.header.size_bytes))
        self._trust.judge(request.partition, is_right=self._chunks.are_of(probable, found.position))
        return found

    async def _find_from(self, request: RemoteRead, segment: RemoteLogSegmentMetadata, entry: OffsetPosition) -> Found:
        """Return the batch of the offset, from the one that the entry leads to on. RemoteStorageCorruptError."""
        position = entry.position
        self._chunks.begin(segment, position, position + request.max_bytes)
        while position < segment.segment_size_in_bytes:
            data = await self._chunks.read(segment, position, position + self._find_bytes)
            if position == entry.position:
                check_offset_entry(data, segment, entry)
            found = find_batch(data, segment, request.offset)
            if isinstance(found, Found):
                position += found.position
                if position + found.header.size_bytes > segment.segment_size_in_bytes:
                    break
                return Found(position, found.header)
            if found.position == 0:
                break
            position += found.position
        raise RemoteStorageCorruptError(
            f"{segment.segment_id}: its log has no whole batch with offset {request.offset}, although it holds the "
            f"offsets {segment.start_offset} to {segment.end_offset}"
        )

    def _fetch_ahead(
        self, request: RemoteRead, segment: RemoteLogSegmentMetadata, position: int, batches: WholeBatches
    ) -> None:
        """Read ahead for a sequential consumer: this read began where an earlier one ended."""
        before = self._ends.pop((request.partition, request.offset), None)
        read_bytes = batches.size_bytes + (before.read_bytes if before is not None else 0)
        key = (request.partition, batches.next_offset)
        if key in self._ends:  # of another consumer, a little ahead of this one
            read_bytes = max(read_bytes, self._ends[key].read_bytes)
        end = position + batches.size_bytes
        self._ends[key] = _End(segment.segment_id, end, read_bytes)
        if len(self._ends) > ENDS_MAX:
            self._ends.popitem(last=False)
        if before is not None:
            following = partial(self._following, request, segment)
            self._chunks.fetch_ahead(segment, position, end, read_bytes, following)

    def _following(self, request: RemoteRead, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata | None:
        """Return the segment that a consumer reads next from the tier; None if there is none."""
        offset = segment.end_offset + 1
        ledger = self._metadata.ledger(request.partition)
        epoch = request.log.state.epochs.epoch_for_offset(offset)
        if offset >= request.log.state.offsets.local_log_start_offset or ledger is None or epoch is None:
            return None
        return ledger.find(epoch, offset)

    async def _aborted(
        self, request: RemoteRead, segment: RemoteLogSegmentMetadata, end_offset: int
    ) -> tuple[AbortedTransaction, ...]:
        """Aborted transactions that overlap [request.offset, end_offset): their markers, and so their index entries,
        may lie segments further on, or in the local log. Not asked for where no record is part of a transaction: all
        segments from here on may have to be looked at.
        """
        found: dict[AbortedTransaction, None] = {}
        position = request.offset
        while True:
            index = await self._indexes.transaction_index(segment)
            aborted, is_complete = index.collect(request.offset, end_offset)
            next_offset = _agreed_end(request.log, segment, position)
            found |= dict.fromkeys(each for each in aborted if each.last_offset < next_offset)
            if is_complete and next_offset > segment.end_offset:
                break
            if next_offset >= request.log.state.offsets.local_log_start_offset:
                local = await request.log.aborted_transactions(request.offset, end_offset)
                found |= dict.fromkeys(local)
                break
            following = self._segment_of(request, next_offset)
            if not following.txn_index_empty and await self._has_ended(request, segment, end_offset):
                break
            position, segment = next_offset, following
        return tuple(found)

    async def _has_ended(self, request: RemoteRead, segment: RemoteLogSegmentMetadata, end_offset: int) -> bool:
        """Whether all transactions that began below `end_offset` have ended within the segment, as far as that can be
        said: then the next index, which may have to be proven by a whole log, is not asked for.
        """
        if not is_within_lineage(segment, request.log.state.epochs, request.log.state.log_end_offset):
            return False
        try:
            open_offset = await self._indexes.first_open_offset(segment)
        except (RemoteResourceNotFoundError, RemoteStorageCorruptError) as error:
            name = str(segment.segment_id.topic_id_partition)
            message = "%s: cannot tell which transactions are open at its end: %s"
            logger.warning(name, message, segment.segment_id, error)
            return False
        return open_offset is None or open_offset >= end_offset

    async def _forget(self, segment: RemoteLogSegmentMetadata, error: RemoteStorageError) -> None:
        """What was kept may be the fault, or belong to a segment that is gone."""
        if isinstance(error, RemoteStorageCorruptError) and not isinstance(error, WrongIndexError):
            self._chunks.note_damage()
        if isinstance(error, RemoteStorageCorruptError | RemoteResourceNotFoundError):
            self._chunks.drop(segment)
            await self._indexes.drop(segment.segment_id)


def _agreed_end(log: PartitionLog, segment: RemoteLogSegmentMetadata, offset: int) -> int:
    """Up to where the segment, which holds `offset`, is of this log's history; what lies behind belongs to another."""
    epoch = log.state.epochs.epoch_for_offset(offset)
    if epoch is None or is_within_lineage(segment, log.state.epochs, log.state.log_end_offset):
        return segment.end_offset + 1
    return min(segment.end_offset + 1, log.state.epochs.end_offset_for(epoch, log.state.log_end_offset).end_offset)
