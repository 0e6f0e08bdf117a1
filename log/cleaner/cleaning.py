"""One cleaning of one log: a pass to build the map, a pass to rewrite, a swap for each group of segments.

    decide the range -> map of keys, from the clean end up -> for each group from the log start up:
        rewrite into .cleaned files -> gate and flush lock: nothing truncated? -> swap -> the new one is live
    -> the clean end rises to the map's end

The passes hold no lock: closed segments do not change; appends and reads continue. A truncation or trim meanwhile may
have removed the newer records that superseded others: the output is dropped, and the next round begins again. Readers
of the old segments keep their slices. An error before a swap leaves the log unchanged; an error inside a swap fails
it, and recovery finishes the swap.

Records are decoded on the event loop, in slices (`batch_cleaning`); after each `PAUSE_BYTES` a pass pauses for as long
as it has worked, and longer if its rate is limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, suppress
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError
from ...protocol.records import BatchHeader, decompressed_bytes_max, parse_header
from ..core.index import AbortedTransaction
from ..disk.port import Buffer, DiskFile
from ..disk.run_to_completion import run_to_completion
from ..replica.reader import Reader
from ..replica.staged_segment import StagedSegment
from ..replica.state import LogState
from ..segment.batch_scan import BatchScan, HeaderScan
from ..segment.segment import LogSegment
from .batch_cleaning import clean_batch, note_batch
from .core.batches import BatchCleaner, Transactions
from .core.offset_map import OffsetMap
from .core.plan import DirtyRange, find_dirty_range, grouped

PAUSE_BYTES: Final = 64 * 1024
WRITE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result of a cleaning: the size of the cleaned segments before and after, and the new clean end."""

    before_bytes: int = 0
    after_bytes: int = 0
    clean_end_offset: int = 0


class Throttle:
    """Limits a pass to half of the event loop's time and to `bytes_per_second` of reading, shared by all cleanings."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._resumed_at = 0.0
        self._walked = 0

    def begin(self) -> None:
        self._resumed_at = asyncio.get_running_loop().time()

    async def walked(self, size_bytes: int) -> None:
        """Account for bytes that were read and decoded; pause if that is due."""
        self._walked += size_bytes
        if self._walked < PAUSE_BYTES:
            return
        loop = asyncio.get_running_loop()
        worked_s = loop.time() - self._resumed_at
        await asyncio.sleep(max(worked_s, self._walked / self._bytes_per_second - worked_s))
        self._walked, self._resumed_at = 0, loop.time()


class CleanerPass:
    """Cleans the log whose state it is given, one cleaning at a time."""

    def __init__(self, state: LogState, reader: Reader) -> None:
        self._state = state
        self._reader = reader

    def dirty_range(self) -> DirtyRange:
        """Return the part of the log that may be cleaned now."""
        state = self._state
        return find_dirty_range(
            state.segments.as_tuple(),
            state.config,
            clean_end_offset=self._clean_end(),
            # What may be truncated, aborted, or lost in a crash must not supersede an older record.
            stable_end_offset=min(state.last_stable_offset, state.recovery_point),
            now_ms=state.now_ms(),
        )

    async def oldest_dirty_ms(self, dirty_range: DirtyRange) -> int | None:
        """Return the timestamp of the first dirty batch in ms; None if there is none or it has no timestamp."""
        segment = (
            None if dirty_range.first_dirty_base is None else self._state.segments.floor(dirty_range.first_dirty_base)
        )
        if segment is None:
            return None
        with segment.pinned():
            first = await anext(HeaderScan(await segment.file(), 0, segment.written_bytes), None)
        return None if first is None or first[1].max_timestamp < 0 else first[1].max_timestamp

    async def clean(self, map_bytes_max: int, throttle: Throttle) -> Cleaned:
        """Clean everything that may be cleaned now. Raise OSError from the disk; KafkaError if the log is not usable,
        was truncated meanwhile, or has a batch that cannot be read.
        """
        state = self._state
        state.check_usable()
        removals = state.removals
        try:
            return await self._clean(map_bytes_max, throttle)
        except FileNotFoundError as error:
            if removals == state.removals:
                raise
            raise _moved(state) from error

    async def _clean(self, map_bytes_max: int, throttle: Throttle) -> Cleaned:
        state = self._state
        dirty_range = self.dirty_range()
        segments = [segment for segment in state.segments if segment.next_offset <= dirty_range.end_offset]
        if not segments or dirty_range.dirty_bytes == 0:
            return Cleaned(clean_end_offset=state.clean_end_offset)
        throttle.begin()
        removals = state.removals
        offset_map = await self._build_map(segments, map_bytes_max, throttle)
        aborted = await self._reader.aborted_transactions(segments[0].base_offset, dirty_range.end_offset)
        cleaner = BatchCleaner(
            offset_map,
            Transactions(aborted),
            dict(state.producers.entries),
            now_ms=state.now_ms(),
            delete_retention_ms=state.config.delete_retention_ms,
            keeps_deletes=state.keeps_deletes,
        )
        before_bytes = after_bytes = 0
        in_range = [segment for segment in segments if segment.base_offset < offset_map.end_offset]
        for group in grouped(in_range, state.config):
            # A truncation may have taken the newer record that made an older one superfluous.
            if removals != state.removals:
                raise _moved(state)
            before_bytes += sum(segment.size_bytes for segment in group)
            rewriting = _Rewriting(state, group, cleaner, throttle)
            try:
                after_bytes += await rewriting.run()
            except BaseException:
                with suppress(OSError):
                    await rewriting.segment.discard()
                raise
            removals = state.removals
        state.clean_end_offset = offset_map.end_offset
        return Cleaned(before_bytes, after_bytes, state.clean_end_offset)

    def _clean_end(self) -> int:
        """Return the clean end. One above the closed segments is stale, so cleaning restarts at the log start."""
        state = self._state
        if state.clean_end_offset > state.segments.active.base_offset:
            state.clean_end_offset = 0
        return max(state.clean_end_offset, state.local_log_start_offset)

    async def _build_map(self, segments: Sequence[LogSegment], map_bytes_max: int, throttle: Throttle) -> OffsetMap:
        start_offset = self._clean_end()
        offset_map = OffsetMap(map_bytes_max, start_offset)
        dirty = [segment for segment in segments if segment.next_offset > start_offset]
        aborted = await self._reader.aborted_transactions(start_offset, dirty[-1].next_offset)
        transactions = Transactions(aborted)
        for segment in dirty:
            async for header, data, at in _batches(segment, throttle):
                is_below = header.next_offset <= start_offset
                if not is_below and not await note_batch(
                    offset_map, transactions, header, data, at, _bytes_max(self._state)
                ):
                    return offset_map
            offset_map.advance_to(segment.next_offset)
        return offset_map


class _Rewriting:
    """The rewriting of one group of segments into one segment."""

    def __init__(self, state: LogState, group: Sequence[LogSegment], cleaner: BatchCleaner, throttle: Throttle) -> None:
        self._state = state
        self._group = group
        self._cleaner = cleaner
        self._throttle = throttle
        self._removals = state.removals
        self._position = 0
        self._changed = len(group) > 1
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self.segment = StagedSegment(state, group[0].base_offset, index_bytes_max=state.config.segment_index_bytes)

    async def run(self) -> int:
        """Rewrite and swap; return the new segment's size. A single segment that loses nothing stays as it is."""
        file = await self.segment.open_log()
        try:
            for segment in self._group:
                async for header, data, at in _batches(segment, self._throttle):
                    await self._take(file, header, data, at)
            if not self._changed:
                await self.segment.discard()
                return self._position
            await self._flush(file)
            await file.sync()
        finally:
            await file.close()
        await self.segment.save_indexes()
        await self._state.keeper.save_recovery_points()
        await self._swap()
        await self._state.unlink_deleted()
        return self._position

    async def _take(self, file: DiskFile, header: BatchHeader, data: Buffer, at: int) -> None:
        left = await clean_batch(self._cleaner, header, data, at, _bytes_max(self._state))
        self._note_aborted()
        if left is None or len(left) != header.size_bytes:
            self._changed = True
        if left is None:
            return
        kept = header if isinstance(left, memoryview) else parse_header(left)
        self._changed = self._changed or kept is not header
        self.segment.indexes.account((kept,), self._position)
        self._position += len(left)
        self._pending.append(left)
        self._pending_bytes += len(left)
        if self._pending_bytes >= WRITE_BYTES:
            await self._flush(file)

    def _note_aborted(self) -> None:
        aborted: list[AbortedTransaction] = self._cleaner.kept_aborted
        for transaction in aborted:
            self.segment.transactions.append(transaction)
        aborted.clear()

    async def _flush(self, file: DiskFile) -> None:
        if self._pending:
            data = b"".join(self._pending)
            self._pending.clear()
            await file.write(self._position - self._pending_bytes, data)
            self._pending_bytes = 0

    @run_to_completion
    async def _swap(self) -> None:
        state, base_offset = self._state, self._group[0].base_offset
        async with state.gate, state.flush_lock:
            state.check_usable()
            # Under the locks this cannot change again before the swap.
            if self._removals != state.removals:
                raise _moved(state)
            with ExitStack() as pins:
                await self._hold_open(pins)
                async with state.all_or_failed():
                    await self.segment.commit()
                    # Renamed, not unlinked: appends wait for the gate meanwhile.
                    await state.set_aside(list(self._group))
                    await self.segment.make_live()
                    for offset in state.snapshots.offsets:
                        # A producer snapshot belongs to a segment's base offset, and these segments are gone.
                        if base_offset < offset < self._group[-1].next_offset:
                            await state.snapshots.remove(offset)
                    self._replace()
            await state.retire(list(self._group))

    async def _hold_open(self, pins: ExitStack) -> None:
        """Open the old segments, so that present readers need no file names: these are removed during the swap."""
        for segment in self._group:
            pins.enter_context(segment.pinned())
            await segment.file()
            await segment.indexes()
            await segment.transaction_index()

    def _replace(self) -> None:
        """Replace the group by the new segment, in memory and without an await."""
        state, group = self._state, self._group
        segment = self.segment.live(
            size_bytes=self._position,
            next_offset=group[-1].next_offset,
            now_ms=max(segment.last_modified_ms for segment in group),
        )
        state.segments.replace(group, segment)
        state.removals += 1


async def _batches(segment: LogSegment, throttle: Throttle) -> AsyncIterator[tuple[BatchHeader, bytes, int]]:
    """Yield `(header, data, position in data)` of every batch of a segment. CorruptRecordError if one is damaged, also
    in its length: what comes after such a batch must not go with it.
    """
    with segment.pinned():
        end = segment.written_bytes
        async for chunk in BatchScan(await segment.file(), 0, end, check_crc=True, whole_until=end):
            for position, header in chunk.batches:
                yield header, chunk.data, position - chunk.start
                await throttle.walked(header.size_bytes)


def _bytes_max(state: LogState) -> int:
    return decompressed_bytes_max(state.config.max_message_bytes)


def _moved(state: LogState) -> KafkaError:
    return KafkaError(
        ErrorCode.not_leader_or_follower,
        f"{state.topic_partition} was truncated or trimmed during compaction; the next pass tries again",
    )
