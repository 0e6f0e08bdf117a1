"""The read path of one log: slices to send, aborted transactions, look-ups by time.

A read takes steps that wait for the disk (open a segment, load its index, read a few headers). The result is used only
if nothing was truncated or removed meanwhile; otherwise the read is repeated. An offset whose segment was removed is
then out of range: the next segment never takes its place.

| requested offset | result |
|---|---|
| below the local log start, or above the log end | OFFSET_OUT_OF_RANGE; the caller reads from the tier |
| from `max_offset` (high watermark, last stable offset) to the log end | an empty slice |
| offset of a record that compaction removed | the next batch, which may be in a later segment |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ...light_dataclass import dataclass
from ...protocol import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.net import reading_batch
from ...protocol.records import BatchHeader, decompressed_bytes_max
from ..core.errors import CorruptFileError
from ..core.index import AbortedTransaction
from ..disk.port import Buffer
from ..segment.batch_scan import HeaderScan
from ..segment.segment import LogSegment
from ..segment.slices import LogSlice
from .state import LogState

T = TypeVar("T")

ATTEMPTS_MAX: Final = 10
"""The limit of attempts; each further one follows a truncation or removal during the one before."""


@dataclass(frozen=True, slots=True)
class TimestampAndOffset:
    """A record found by its time: timestamp in ms, its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


class _Moved(Exception):
    """The log has changed during the read: repeat it."""


class Reader:
    """Reads the log whose state it is given."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    async def read(self, offset: int, *, max_bytes: int, max_offset: int, min_one_batch: bool = True) -> LogSlice:
        """Return whole batches from the one that holds `offset` on, all below `max_offset`, all from one segment;
        release the slice. OFFSET_OUT_OF_RANGE outside `[local_log_start_offset, log_end_offset]`.

        At most `max_bytes`, except that with `min_one_batch` a larger first batch is returned whole.
        """
        log_slice = self._tail_slice(offset, max_bytes, max_offset)
        if log_slice is not None:
            return log_slice
        return await self._with_retries(
            lambda removals: self._read(removals, offset, max_bytes, max_offset, min_one_batch)
        )

    async def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap `[start_offset, end_offset)`, by the offset of their marker."""
        try:
            return await self._with_retries(lambda removals: self._aborted(removals, start_offset, end_offset))
        except CorruptFileError as error:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{self._state.topic_partition}: {error}") from error

    async def offset_for_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """Return the first record of the local log that is not older than `timestamp_ms`, or None."""
        return await self._with_retries(lambda removals: self._offset_for_timestamp(removals, timestamp_ms))

    async def max_timestamp_offset(self) -> TimestampAndOffset | None:
        """Return the first record of the local log with the largest timestamp; None if no record has one."""
        return await self._with_retries(self._max_timestamp_offset)

    def _tail_slice(self, offset: int, max_bytes: int, max_offset: int) -> LogSlice | None:
        """Return the result of `read` if memory suffices, as for readers close to the log's end; otherwise None."""
        state = self._state
        state.check_usable()
        segment = state.segments.active
        end_offset = min(max_offset, state.log_end_offset)
        if not max(segment.base_offset, state.log_start_offset) <= offset < end_offset or state.read_limit is not None:
            return None
        span = None if segment.recent is None else segment.recent.span(offset, end_offset)
        if span is None or span[1] - span[0] > max_bytes or span[1] > segment.written_bytes:
            return None
        return segment.hold(*span, first_offset=offset, end_offset=end_offset)

    async def _with_retries(self, attempt: Callable[[int], Awaitable[T]]) -> T:
        """Return the result of an attempt without a concurrent removal. It gets the number of removals before it."""
        state = self._state
        for _ in range(ATTEMPTS_MAX):
            state.check_usable()
            removals = state.removals
            try:
                return await attempt(removals)
            except _Moved:
                continue
            except (FileNotFoundError, CorruptRecordError):
                # A file or batch may be missing because it was removed during the attempt, or by a truncation that
                # had begun before and has not ended: that is not damage.
                if removals == state.removals and state.read_limit is None:
                    raise
        raise KafkaError(ErrorCode.not_leader_or_follower, f"{state.topic_partition} is being truncated: retry")

    def _check_unmoved(self, removals: int) -> None:
        if removals != self._state.removals:
            raise _Moved

    async def _read(self, removals: int, offset: int, max_bytes: int, max_offset: int, min_one_batch: bool) -> LogSlice:
        state = self._state
        if not state.local_log_start_offset <= offset <= state.log_end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"{state.topic_partition}: offset {offset} is not in the local log "
                f"[{state.local_log_start_offset}, {state.log_end_offset}]",
            )
        end_offset = min(max_offset, state.log_end_offset)
        if state.read_limit is not None:
            end_offset = min(end_offset, state.read_limit)
        segment = state.segments.floor(offset) if offset < end_offset else None
        while segment is not None and segment.base_offset < end_offset:
            with segment.pinned():
                await segment.file()
                start = await segment.position_of(offset)
                limit = segment.written_bytes
                if end_offset < segment.next_offset:
                    limit = min(limit, await segment.position_of(end_offset))
                end = start
                if start < limit:
                    end = await segment.slice_end(start, limit, max_bytes=max_bytes, min_one_batch=min_one_batch)
                self._check_unmoved(removals)
                if start < limit:
                    if start == end:
                        return LogSlice.empty(offset)
                    return segment.hold(start, end, first_offset=offset, end_offset=end_offset)
            segment = state.segments.after(segment)
        return LogSlice.empty(offset)

    async def _aborted(self, removals: int, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        transactions: list[AbortedTransaction] = []
        for segment in self._state.segments.from_offset(start_offset):
            if not segment.has_transaction_index:
                continue
            with segment.pinned():
                aborted, is_complete = (await segment.transaction_index()).collect(start_offset, end_offset)
            self._check_unmoved(removals)
            transactions += aborted
            if is_complete:
                break
        return transactions

    async def _offset_for_timestamp(self, removals: int, timestamp_ms: int) -> TimestampAndOffset | None:
        for segment in self._state.segments.as_tuple():
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            record = await self._search(segment, timestamp_ms)
            self._check_unmoved(removals)
            if record is not None:
                return record
        return None

    async def _max_timestamp_offset(self, removals: int) -> TimestampAndOffset | None:
        segment = max(self._state.segments, key=lambda segment: segment.max_timestamp_ms)
        if segment.max_timestamp_ms < 0:
            return None
        record = await self._search(segment, segment.max_timestamp_ms)
        self._check_unmoved(removals)
        return record

    async def _search(self, segment: LogSegment, timestamp_ms: int) -> TimestampAndOffset | None:
        """Return the first record of a segment at or above the log start that is not older than `timestamp_ms`."""
        with segment.pinned():
            indexes = await segment.indexes()
            file = await segment.file()
            begin = indexes.offset.lookup(indexes.time.lookup(timestamp_ms).offset).position
            end = segment.written_bytes
            async for position, header in HeaderScan(file, begin, end, whole_until=end):
                if header.max_timestamp < timestamp_ms or header.last_offset < self._state.log_start_offset:
                    continue
                data = await file.read(position, header.size_bytes)
                try:
                    record = await self._first_not_older(data, header, timestamp_ms)
                except CorruptRecordError as error:
                    raise CorruptRecordError(f"{self._state.topic_partition}: {error.reason}", position) from error
                if record is not None:
                    return record
        return None

    async def _first_not_older(self, data: Buffer, header: BatchHeader, timestamp_ms: int) -> TimestampAndOffset | None:
        bytes_max = decompressed_bytes_max(self._state.config.max_message_bytes)
        async with reading_batch(data, 0, header, bytes_max) as slices:
            async for some in slices:
                for record in some:
                    if record.timestamp >= timestamp_ms and record.offset >= self._state.log_start_offset:
                        return TimestampAndOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        return None
