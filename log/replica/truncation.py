"""Truncates the end of the log, or all of it, under the gate and the flush lock, in this order:

    stop new readers above the cut, wait for the present ones or abort them
    -> in memory, at once: log end, high watermark, recovery point, leader epochs
    -> remove segments above the cut, newest first, durably -> cut the active one -> remove snapshots above the cut
    -> leader epochs are saved -> names are durable -> the keeper's checkpoints -> producer state is rebuilt

| crash | what the next start finds |
|---|---|
| between two segments | a log that ends at the cut or above it, without a hole |
| before the epochs are saved | entries that begin at or above the log's end, which load drops |
| before the checkpoints are saved | a recovery point above the log's end, which load lowers |
| of an emptied log, after its higher log start is saved | all of the log below its log start, which load removes |
| after the batch with the log start is cut | the same |

Nothing is appended before all of it is durable: a snapshot or a recovery point that describes the cut batches would be
applied to their successors. An error half-way fails the log.

Removed segments stay readable for the readers that hold them. Readers of bytes that are cut off a file are waited for,
then aborted.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ..core.producers import ProducerStateManager
from ..segment.segment import LogSegment
from .replay import load_producers, replay
from .state import LogState
from .write_pipeline import WritePipeline

NO_OFFSET: Final = -1
READER_WAIT_S: Final = 1.0
"""The time in s that a truncation waits for readers above its cut before it aborts them."""


class Truncation:
    """Truncates the log whose state it is given."""

    def __init__(self, state: LogState, pipeline: WritePipeline) -> None:
        self._state = state
        self._pipeline = pipeline

    async def truncate_to(self, offset: int) -> int:
        """Cut every batch that holds `offset` or more; return the new log end, which may be lower.

        Below the local log start nothing is left: the log is empty and begins at `offset`. Where the log starts in the
        middle of a batch, and that batch goes, it is empty and begins at its log start: no log ends below that. At or
        above the log's end only epochs without data are dropped: another leader may have had them.
        """
        state = self._state
        async with state.gate, state.flush_lock:
            await self._pipeline.drain()
            state.check_usable()
            async with state.all_or_failed():
                if offset >= state.log_end_offset:
                    state.epochs.truncate_from_end(state.log_end_offset)
                elif offset < state.local_log_start_offset:
                    await self._start_at(offset, min(offset, state.log_start_offset))
                else:
                    await self._cut(offset)
            return state.log_end_offset

    async def truncate_fully_and_start_at(
        self, offset: int, log_start_offset: int | None, producers: bytes | None
    ) -> None:
        """Empty the log; the next batch is at `offset`. The log start is `offset` unless a lower one is given.
        `producers` is the producer state there in the `.snapshot` format, None if there are no producers.
        """
        state = self._state
        assert log_start_offset is None or log_start_offset <= offset, (offset, log_start_offset)
        async with state.gate, state.flush_lock:
            await self._pipeline.drain()
            state.check_usable()
            async with state.all_or_failed():
                await self._start_at(offset, offset if log_start_offset is None else log_start_offset)
                if producers is not None:
                    state.producers = await state.snapshots.decoded(producers, offset)
                    state.snapshots.stage(offset, producers)
                    await state.snapshots.save()

    async def _cut(self, offset: int) -> None:
        state = self._state
        keep = state.segments.floor(offset)
        assert keep is not None, (state.topic_partition, offset)
        state.read_limit = offset
        try:
            await self._wait_for_readers(keep, await keep.position_of(offset))
            removed = state.segments.remove_from(keep.base_offset + 1)
            # Memory first, without an await: from here on no reader can find the bytes that are about to be cut.
            self._lower_end(offset)
            await self._remove(removed)
            if removed:
                await state.disk.sync_directory(state.directory)
            await keep.truncate_to(offset)
            if keep.next_offset < state.log_start_offset:
                # The log starts in the middle of a batch that was cut: nothing above its log start is left.
                await self._start_at(state.log_start_offset, state.log_start_offset)
                return
            # The cut is at a batch, so the log may end below `offset`.
            self._lower_end(keep.next_offset)
            await state.snapshots.remove_above(keep.next_offset)
            await self._make_durable()
            # Rebuilt, not rolled back: an entry keeps too few batches to undo the ones that were cut.
            state.producers = await load_producers(state.snapshots, state.segments.first_base_offset, keep.next_offset)
            await replay(state.producers, state.segments, keep.next_offset)
            state.producers.on_high_watermark(state.high_watermark)
        finally:
            state.read_limit = None
        state.notify()

    def _lower_end(self, offset: int) -> None:
        """Lower the log end, and every offset above it, to `offset`; in memory only."""
        state = self._state
        state.removals += 1
        state.log_end_offset = offset
        # A high watermark above the log end would commit records that are still to come.
        state.high_watermark = min(state.high_watermark, offset)
        state.recovery_point = min(state.recovery_point, offset)
        state.clean_end_offset = min(state.clean_end_offset, offset)
        if state.copied_end_offset is not None:
            # The future log still has what was cut: what comes in its place is not copied yet.
            state.copied_end_offset = min(state.copied_end_offset, offset)
        state.epochs.truncate_from_end(offset)

    async def _start_at(self, offset: int, log_start_offset: int) -> None:
        state = self._state
        segment = state.new_segment(offset)
        segment.rebuild_from_nothing()
        removed = state.segments.replace_all(segment)
        self._lower_end(offset)
        state.epochs.clear()
        state.has_history = False
        state.high_watermark = state.recovery_point = state.log_end_offset = offset
        is_raised = log_start_offset > state.log_start_offset
        state.log_start_offset, state.log_start_known = log_start_offset, True
        state.producers = ProducerStateManager(offset)
        # A higher log start is saved first: a crash then finds only records below it, which load removes.
        if is_raised:
            await state.keeper.save_log_start_offsets()
        await self._remove(removed)
        await state.snapshots.remove_above(NO_OFFSET)
        await segment.start()
        await self._make_durable()
        # A lower one is saved last: until the segments are replaced, the checkpoint must fit the old log.
        if not is_raised:
            await state.keeper.save_log_start_offsets()
        state.notify()

    async def _make_durable(self) -> None:
        state = self._state
        await state.save_epochs()
        await state.disk.sync_directory(state.directory)
        state.names_synced = state.names_changed
        await state.keeper.save_recovery_points()

    async def _remove(self, removed: list[LogSegment]) -> None:
        """Remove segments from the directory, newest first, so that a crash leaves no hole."""
        # Renamed, not unlinked, as all of it is under the gate; the log's upkeep unlinks them (`reap`).
        await self._state.set_aside(removed)
        await self._state.retire(removed)

    async def _wait_for_readers(self, segment: LogSegment, position: int) -> None:
        """Wait until no reader holds bytes of the segment from `position` on; abort the readers that take too long."""
        slices = segment.slices
        try:
            async with asyncio.timeout(READER_WAIT_S):
                while slices.above(position):
                    await slices.wait()
        except TimeoutError:
            for log_slice in slices.above(position):
                log_slice.abort()
        while any(log_slice.is_busy for log_slice in slices.above(position)):
            await slices.wait()
