"""The append path of one log: decide under the gate, submit the bytes, wait until they are published.

    check -> gate [ reject | duplicate | roll? -> note a new epoch? -> assign offsets, account, submit ] -> wait

* The last step has no await; the writes follow in the order of the gate (`WritePipeline`), so several appends may be
  under way.
* A roll needs the disk before the decision; the gate stays held meanwhile. A new leader epoch does not: it is durable
  before its first batch counts as flushed (`state`).
* Nothing is acknowledged before its bytes are in the file, a duplicate of something still under way included.
* A failed write leaves memory ahead of the file: the whole log fails and must be reopened. It also fails if the disk
  rejects the roll that an append needs: a replica that cannot append must leave the ISR.

A leader stamps offset and epoch into the network buffer and writes that; a follower writes the leader's bytes as they
are, one write for all batches that go into one segment. Filling segments batch by batch, it rolls by size where the
leader did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...protocol import ErrorCode, KafkaError, value
from ...protocol.net import reading_batch
from ...protocol.records import (
    BatchHeader,
    TimestampType,
    decompressed_bytes_max,
    stamp_batch,
)
from ..core.config import LogConfig
from ..core.index import NO_TIMESTAMP, RELATIVE_OFFSET_MAX
from ..core.producer_state import AppendOrigin, BatchMetadata
from ..core.validation import check_follower_batches, check_follower_order, check_key, check_leader_batch
from ..disk.port import Buffer
from ..in_order import InOrder
from ..segment.batch_scan import Markers, end_transaction_markers
from .flusher import Flusher
from .state import LogState
from .write_pipeline import QUEUED_BYTES_MAX, WritePipeline


@value
class LogAppendInfo:
    """The result of an append. `last_offset` is inclusive.

    For a duplicate the offsets are those of the original batch in the log. `log_append_time_ms` is -1 where
    records keep their create time.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    leader_epoch: int
    duplicate: bool = False


class Appender:
    """Appends to, and rolls, the log whose state it is given."""

    def __init__(self, state: LogState, flusher: Flusher) -> None:
        self._state = state
        self._flusher = flusher
        self.pipeline = WritePipeline(state.publish, self._fail_writes)
        self._checks = InOrder()

    async def append_as_leader(
        self,
        data: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        guard: object | None = None,
    ) -> LogAppendInfo:
        """Append one batch v2; the rules are in `validation` and `producer_state`. Offset and epoch are written into
        `data`, which belongs to the log until this returns or raises, and after a cancellation for good. `guard`: of a
        transactional batch that was verified (`ProducerStateManager.guard`).
        """
        state = self._state
        header = check_leader_batch(data, state.config, origin, now_ms)
        is_append_time = state.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        markers = end_transaction_markers(data, [header])
        if origin is AppendOrigin.CLIENT and (state.config.is_compacted or not self._checks.is_empty):
            async with self._checks:
                if state.config.is_compacted:
                    await _check_keys(data, header, state.config)
        # No wait in between: the gate is taken in the order in which the checks were.
        await state.gate.acquire()
        try:
            self._check_leader_epoch(leader_epoch)
            # Judged under the gate: between this check and `_take` no other batch of the producer may enter the log.
            duplicate = state.producers.check(
                header, origin, marker=markers.get(0), transaction_version=transaction_version, guard=guard
            )
            if duplicate is not None:
                return await self._duplicate(duplicate, leader_epoch)
            stamped = stamp_batch(
                data,
                0,
                header,
                base_offset=state.next_offset,
                partition_leader_epoch=leader_epoch,
                log_append_time_ms=now_ms if is_append_time else None,
            )
            if not self._may_take([stamped], now_ms):
                await self._make_room(stamped, now_ms)
                # That waited for the disk: a newer leader may have been announced meanwhile.
                self._check_leader_epoch(leader_epoch)
            written = self._take([stamped], data, markers, now_ms)
        except OSError as error:
            raise self._fail_append(error, len(data)) from error
        finally:
            state.gate.release()
        await written
        if self._flusher.is_due:
            await self._flusher.flush()
        append_time_ms = now_ms if is_append_time else NO_TIMESTAMP
        return LogAppendInfo(
            stamped.base_offset, stamped.last_offset, append_time_ms, state.log_start_offset, leader_epoch
        )

    async def append_as_follower(self, data: Buffer) -> LogAppendInfo:
        """Append whole batches, at least one, as the leader sent them. An error half-way fails the log. Raise
        CORRUPT_MESSAGE or INVALID_RECORD if they cannot follow what is here.
        """
        state = self._state
        headers = check_follower_batches(data)
        if not headers:
            raise KafkaError(ErrorCode.invalid_record, "expected at least one record batch, found none")
        markers = end_transaction_markers(data, headers)
        await state.gate.acquire()
        try:
            state.check_usable()
            check_follower_order(headers, state.next_offset, state.epochs.latest_epoch)
            now_ms = state.now_ms()
            if self._may_take(headers, now_ms):
                written = self._take(headers, data, markers, now_ms)
            else:
                await self._wait_for_room()
                self._note_epochs([(header.partition_leader_epoch, header.base_offset) for header in headers])
                written = await self._take_all(headers, memoryview(data), markers)
        except OSError as error:
            raise self._fail_append(error, memoryview(data).nbytes) from error
        finally:
            state.gate.release()
        await written
        if self._flusher.is_due:
            await self._flusher.flush()
        first, last = headers[0], headers[-1]
        return LogAppendInfo(
            first.base_offset, last.last_offset, NO_TIMESTAMP, state.log_start_offset, last.partition_leader_epoch
        )

    async def roll(self) -> bool:
        """Close the active segment and begin a new one; False if it is empty."""
        async with self._state.gate:
            return await self.roll_locked()

    async def roll_locked(self) -> bool:
        """Roll as `roll` does; the caller holds the gate."""
        self._state.check_usable()
        if self._state.segments.active.size_bytes == 0:
            return False
        await self._roll(self._state.next_offset)
        return True

    async def try_append(self, filler: bytes) -> None:
        """Write `filler` after the last batch, flush it, and truncate it again. Raise OSError if an append of that size
        would fail now; the log is unchanged. Raise KAFKA_STORAGE_ERROR if that is uncertain; the log has failed. A
        crash meanwhile leaves a torn tail, which is not a valid batch.
        """
        state = self._state
        async with state.gate, state.flush_lock:
            state.check_usable()
            await self.pipeline.drain()
            if state.segments.active.size_bytes + len(filler) > state.config.segment_bytes:
                await self.roll_locked()
            segment = state.segments.active
            with segment.pinned():
                file, end = await segment.file(), segment.size_bytes
                refusal: OSError | None = None
                try:
                    await file.write(end, filler)
                except OSError as error:
                    refusal = error
                async with state.all_or_failed():
                    if refusal is None:
                        await file.sync()
                    await file.truncate(end)
                    await file.sync()
            if refusal is not None:
                raise refusal

    async def assign_epoch(self, leader_epoch: int) -> None:
        """Record that this leader epoch begins at the log's end; reject earlier epochs from now on."""
        state = self._state
        async with state.gate:
            state.check_usable()
            await self.pipeline.drain()
            self._check_leader_epoch(leader_epoch)
            state.leader_epoch_floor = leader_epoch
            self._note_epochs([(leader_epoch, state.next_offset)])

    async def follow_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Record, durably, that the batches from the log's end on are of this epoch, which began at `start_offset`."""
        state = self._state
        async with state.gate:
            state.check_usable()
            self._note_epochs([(leader_epoch, start_offset)])
            # It may have begun below the recovery point: compaction has left none of its first batches.
            await state.save_epochs()

    async def skip_to(self, offset: int) -> None:
        """Begin a new segment at `offset`, which becomes the log's end: compaction has left nothing in between."""
        state = self._state
        async with state.gate:
            await self.pipeline.drain()
            state.check_usable()
            assert offset > state.log_end_offset, (state.topic_partition, state.log_end_offset, offset)
            await self._roll(offset)
            state.log_end_offset = offset
            state.notify()

    def _fail_writes(self, error: BaseException) -> BaseException:
        return self._fail_append(error, self.pipeline.queued_bytes)

    def _fail_append(self, error: BaseException, size_bytes: int) -> BaseException:
        state = self._state
        state.failed_append_bytes = max(state.failed_append_bytes, size_bytes)
        return state.fail(error)

    # Under the gate.

    def _check_leader_epoch(self, leader_epoch: int) -> None:
        state = self._state
        state.check_usable()
        known, latest = state.leader_epoch_floor, state.epochs.latest_epoch
        if leader_epoch < known or leader_epoch < latest:
            raise KafkaError(
                ErrorCode.not_leader_or_follower,
                f"{state.topic_partition}: append with leader epoch {leader_epoch}, the log is at epoch "
                f"{max(known, latest)}",
            )

    async def _duplicate(self, duplicate: BatchMetadata, leader_epoch: int) -> LogAppendInfo:
        """Return the result of the original append, once its batch is as durable as an append requires."""
        # The original may still be in flight: acknowledging the retry first would acknowledge an unwritten batch.
        await self.pipeline.drain()
        self._state.check_usable()
        if self._flusher.is_due:
            await self._flusher.flush()
        is_append_time = self._state.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return LogAppendInfo(
            first_offset=duplicate.first_offset,
            last_offset=duplicate.last_offset,
            log_append_time_ms=duplicate.timestamp_ms if is_append_time else NO_TIMESTAMP,
            log_start_offset=self._state.log_start_offset,
            leader_epoch=leader_epoch,
            duplicate=True,
        )

    def _may_take(self, headers: Sequence[BatchHeader], now_ms: int) -> bool:
        """Whether these batches, whose epochs rise, can be accepted without waiting for the disk: almost always."""
        state = self._state
        return (
            self.pipeline.queued_bytes <= QUEUED_BYTES_MAX
            and headers[-1].partition_leader_epoch <= state.epochs.latest_epoch
            and state.segments.active.fitting(headers, now_ms, state.config) == len(headers)
        )

    async def _make_room(self, header: BatchHeader, now_ms: int) -> None:
        """Roll, and note the epoch, as a leader's batch requires before `_take`."""
        state = self._state
        await self._wait_for_room()
        if not state.segments.active.fitting([header], now_ms, state.config):
            await self._roll(header.base_offset)
        self._note_epochs([(header.partition_leader_epoch, header.base_offset)])

    async def _wait_for_room(self) -> None:
        if self.pipeline.queued_bytes > QUEUED_BYTES_MAX:
            await self.pipeline.drain()
            self._state.check_usable()

    async def _take_all(self, headers: list[BatchHeader], view: memoryview, markers: Markers) -> asyncio.Future[None]:
        """Submit all batches, those of one segment as one write; return the future of the last write."""
        state = self._state
        now_ms = state.now_ms()
        taken = position = 0
        while True:
            rest = headers[taken:]
            count = state.segments.active.fitting(rest, now_ms, state.config)
            if count == 0:
                await self._roll(self._base_before(rest[0]))
                continue
            end = position + sum([header.size_bytes for header in rest[:count]])
            run_markers = {index - taken: marker for index, marker in markers.items()}
            written = self._take(rest[:count], view[position:end], run_markers, now_ms)
            if count == len(rest):
                return written
            taken, position = taken + count, end

    def _take(
        self, headers: Sequence[BatchHeader], data: Buffer, markers: Markers, now_ms: int
    ) -> asyncio.Future[None]:
        """Accept the batches: from here on they are in the log unless their write fails. No await."""
        state = self._state
        # A write may have failed while this append waited for the disk: a batch after it would follow a hole.
        state.check_usable()
        segment = state.segments.active
        assert headers[0].base_offset >= segment.next_offset, (headers[0], segment)
        accounted = segment.account(headers, now_ms)
        for index, header in enumerate(headers):
            if header.producer_id < 0:
                continue
            completed = state.producers.apply(header, marker=markers.get(index))
            if completed is not None and completed.is_aborted:
                segment.account_aborted(completed.aborted)
        state.producers.advance_to(segment.next_offset)
        return self.pipeline.submit(segment, data, accounted)

    def _note_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        """Record the first offset of each new epoch, in memory."""
        epochs = self._state.epochs
        for epoch, start_offset in starts:
            if epoch > epochs.latest_epoch:
                epochs.assign(epoch, start_offset)

    def _base_before(self, header: BatchHeader) -> int:
        """Return the base offset of a new segment for this batch: the log's end, so that a hole always means a loss."""
        next_offset = self._state.next_offset
        return next_offset if header.last_offset - next_offset <= RELATIVE_OFFSET_MAX else header.base_offset

    async def _roll(self, base_offset: int) -> None:
        """Begin a new segment; an OSError leaves the log unchanged."""
        state = self._state
        segment = state.new_segment(base_offset)
        await segment.start()
        state.producers.advance_to(base_offset)
        state.snapshots.stage(base_offset, state.producers.freeze())
        state.segments.active.deactivate(base_offset)
        state.segments.append(segment)
        state.names_changed += 1
        state.keeper.segment_closed()


async def _check_keys(data: Buffer, header: BatchHeader, config: LogConfig) -> None:
    """Raise INVALID_RECORD for a record without a key, CorruptRecordError for records that cannot be read.

    The records are checked in slices of the event loop's share.
    """
    async with reading_batch(data, 0, header, decompressed_bytes_max(config.max_message_bytes)) as slices:
        async for some in slices:
            for record in some:
                check_key(record)
