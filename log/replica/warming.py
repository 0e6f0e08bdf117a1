"""Warms a thin replica: puts a segment from the tier in front of the local log.

A thin replica serves offsets below its local start from the tier. Warming brings such segments back, newest first, one
at a time, so that the local log grows downwards without a hole. A segment is built aside and checked before the log is
touched; the renames of `segment.swap` then add it completely or not at all:

    step                                                          a crash or a disk error then leaves
    ------------------------------------------------------------  --------------------------------------------------
    1 write `.cleaned` files; fsync them                          files that the next start or attempt removes
    2 check every batch: CRC, offsets, the epochs of this log     the same
    3 the producer state at its base offset, as a `.snapshot`     a snapshot below the log, which is never read
    4 under the log's locks: does it still fit? rename to `.swap` the old log (`.cleaned` is there) or the new one
    5 rename to the live names; the local log start falls         the new one: the start finishes the renames

The segment fits if the log still begins where it ends, none of its epochs have changed, and the log start is not above
it. A log that was truncated, trimmed or closed meanwhile rejects it. The log start, the high watermark and the recovery
point stay: every record that comes in was committed, and is durable before it counts.

The checks prove that the segment is part of this log, whatever the tier claims: its batches rise from its base offset,
each has the epoch that this replica's epoch cache has for it, and the last one ends where the local log begins. If the
segment reaches above that, the rest is left out; so is its beginning if only the part from an offset on is requested.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.net import SLICE_ELEMENTS, pace
from ...protocol.records import BATCH_HEADER_SIZE, BatchHeader, parse_header
from ..core.epochs import LeaderEpochCache
from ..core.index import TransactionIndex
from ..disk.port import DiskFile
from ..disk.run_to_completion import run_to_completion
from ..segment.batch_scan import BatchScan
from ..segment.snapshot_files import decoded_producers
from .staged_segment import StagedSegment
from .state import LogState

CHUNK_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentToWarm:
    """A segment from the tier. `read(start, end)` returns bytes of its `.log`; `transactions` is its `.txnindex`, empty
    without one; `producers` is the `.snapshot` at its base offset, None if the log begins there.
    """

    base_offset: int
    size_bytes: int
    read: Callable[[int, int], Awaitable[bytes]]
    transactions: bytes
    producers: bytes | None
    begins_below: bool = False
    """Whether the `.log` has batches below `base_offset`, which are left out."""


class Warming:
    """Warms the log whose state it is given; one segment at a time."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    async def prepend(self, source: SegmentToWarm) -> int:
        """Add one segment; return its size in bytes. Raise CorruptRecordError or CorruptFileError if it is not part of
        this log, NOT_LEADER_OR_FOLLOWER if the log has changed meanwhile, OSError, and whatever `read` raises.
        """
        state = self._state
        state.check_usable()
        if not max(source.base_offset, state.log_start_offset) < state.segments.first_base_offset:
            raise _changed(state)
        building = _Building(state, source)
        try:
            return await building.run()
        except BaseException:
            with suppress(OSError):
                await building.segment.discard()
            raise


class _Building:
    """The building of one segment."""

    def __init__(self, state: LogState, source: SegmentToWarm) -> None:
        self._state = state
        self._source = source
        self._directory = state.directory
        self._end_offset = state.segments.first_base_offset
        self._epochs = LeaderEpochCache(state.epochs.range(source.base_offset, self._end_offset))
        self._log_start_offset = state.log_start_offset
        self._size_bytes = 0
        self._next_offset = source.base_offset
        self.segment = StagedSegment(state, source.base_offset)

    async def run(self) -> int:
        file = await self.segment.open_log()
        try:
            await self._check(file, await self._copy(file))
            await file.truncate(self._size_bytes)
            await file.sync()
        finally:
            await file.close()
        await self.segment.save_indexes()
        await self._commit()
        return self._size_bytes

    async def _copy(self, file: DiskFile) -> int:
        """Copy the segment's bytes; return how many."""
        begin = await self._position_of_base() if self._source.begins_below else 0
        for start in range(begin, self._source.size_bytes, CHUNK_BYTES):
            await file.write(start - begin, await self._read(start))
        return self._source.size_bytes - begin

    async def _position_of_base(self) -> int:
        """Return the position of the batch that begins at the base offset. CorruptRecordError if a batch crosses it."""
        position, next_offset = 0, -1
        while position < self._source.size_bytes:
            data, start = await self._read(position), position
            while position + BATCH_HEADER_SIZE <= start + len(data):
                header = parse_header(data, position - start)
                if header.base_offset >= self._source.base_offset >= next_offset:
                    return position
                position, next_offset = position + header.size_bytes, max(next_offset, header.next_offset)
            if position == start:
                break
        raise CorruptRecordError(f"{self._name}: no batch begins at its base offset", position)

    async def _read(self, start: int) -> bytes:
        end = min(start + CHUNK_BYTES, self._source.size_bytes)
        data = await self._source.read(start, end)
        if len(data) != end - start:
            raise CorruptRecordError(f"{self._name}: expected {end - start} bytes, read {len(data)}", start)
        return data

    async def _check(self, file: DiskFile, copied_bytes: int) -> None:
        """Check every batch up to the start of the local log, and build the segment's indexes from them."""
        async for chunk in BatchScan(file, 0, copied_bytes, check_crc=True):
            for position, header in chunk.batches:
                if header.base_offset >= self._end_offset:
                    break
                self._check_batch(position, header)
                self.segment.indexes.account((header,), position)
                self._next_offset = header.next_offset
                self._size_bytes = position + header.size_bytes
        if self._next_offset != self._end_offset:
            raise CorruptRecordError(
                f"{self._name}: it ends at offset {self._next_offset}, the local log begins at {self._end_offset}",
                self._size_bytes,
            )
        index = TransactionIndex.unchecked(self._source.transactions, name=self._name)
        for first in range(0, len(index), SLICE_ELEMENTS):
            await pace().spend(SLICE_ELEMENTS, first)
            index.check(name=self._name, first=first, end=first + SLICE_ELEMENTS)
            for aborted in index.slots(first, first + SLICE_ELEMENTS):
                if self._source.base_offset <= aborted.last_offset < self._end_offset:
                    self.segment.transactions.append(aborted)
        if self._source.producers is not None:
            await decoded_producers(self._source.producers, self._source.base_offset, name=self._name)

    def _check_batch(self, position: int, header: BatchHeader) -> None:
        if header.base_offset < self._next_offset:
            raise CorruptRecordError(
                f"{self._name}: offset {header.base_offset}, expected {self._next_offset} or more", position
            )
        epoch = self._epochs.epoch_for_offset(header.base_offset)
        # Epochs below the log start are forgotten; such offsets are never served.
        if epoch != header.partition_leader_epoch and header.base_offset >= self._log_start_offset:
            raise CorruptRecordError(
                f"{self._name}: offset {header.base_offset} has leader epoch {header.partition_leader_epoch}, "
                f"expected {epoch} as in the epoch history of this replica",
                position,
            )

    @property
    def _name(self) -> str:
        return f"segment {self._source.base_offset} of {self._state.topic_partition} from the tier"

    @run_to_completion
    async def _commit(self) -> None:
        state = self._state
        async with state.gate, state.flush_lock:
            state.check_usable()
            # The build held no lock: a truncation or a new epoch meanwhile may have made the segment foreign.
            if not self._still_fits():
                raise _changed(state)
            if self._source.producers is not None:
                state.snapshots.stage(self._source.base_offset, self._source.producers)
                await state.snapshots.save()
            async with state.all_or_failed():
                await self.segment.commit()
                await self.segment.make_live()
                state.segments.prepend(
                    self.segment.live(size_bytes=self._size_bytes, next_offset=self._end_offset, now_ms=state.now_ms())
                )
        state.notify()

    def _still_fits(self) -> bool:
        state = self._state
        return (
            state.directory == self._directory
            and state.segments.first_base_offset == self._end_offset
            and state.log_start_offset < self._end_offset
            and state.epochs.range(self._source.base_offset, self._end_offset) == self._epochs.entries
        )


def _changed(state: LogState) -> KafkaError:
    return KafkaError(
        ErrorCode.not_leader_or_follower,
        f"{state.topic_partition} has changed during warming; the next attempt begins again",
    )
