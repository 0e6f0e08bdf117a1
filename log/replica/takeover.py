"""Switches an open log to its future log: the files of the copy take the place of its own, and it stays open (KIP-113).

All of it happens in the one `LogState`, under the gate and the flush lock, so appends, reads, the leadership and the
remote log manager notice nothing but a wait:

| step | a failure or crash in it leaves |
|---|---|
| 0 before the controller is asked: leader epochs below the copy, marks (`take_history`) | the log, and its future log |
| 1 drain the writes; copy what the future log lacks (little: the caller has checked) | the log, and its future log |
| 2 write to the future log: leader epochs, marks, producer snapshot at the log end; flush it | the same |
| 3 the checkpoints of the other log directory: its log start above all | the same |
| 4 rename `-future` to the live name, durably; open its active segment there | the same, or two live directories: |
|   | the next start keeps the one that the cluster names (`log/keeper/manager.py`) |
| 5 swap, in memory, without an await | - |

The directory that the log came from is left to the caller. Readers of the old segments keep their slices.

Hold: from before the controller is asked to count on the other directory until the switch, or until it counts on this
one again, nothing above `copied_end_offset` counts as stored: a leader does not count it for the high watermark
(`settled_end_offset`), a follower does not fetch beyond it (`wait_until_stored`). So whatever directory the controller
has at the moment of a crash, it has every acknowledged record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from ..core.checkpoints import LEADER_EPOCH_CHECKPOINT, encode_leader_epochs
from ..core.file_names import ADOPTED_FILE, THIN_FILE
from ..segment.segment import LogSegment
from .flusher import Flusher
from .state import LogState
from .write_pipeline import WritePipeline

CopyRest = Callable[[], Awaitable[bool]]
"""Copies what the future log lacks; returns False if that is too much to be done under the gate."""


class Takeover:
    """Switches the log of `state` to the files of `future`."""

    def __init__(self, state: LogState, pipeline: WritePipeline, future: LogState, future_flusher: Flusher) -> None:
        self._state = state
        self._pipeline = pipeline
        self._future = future
        self._future_flusher = future_flusher

    async def run(self, live: Path, copy_rest: CopyRest, on_taken: Callable[[], None]) -> bool:
        """Return False if the future log has not caught up. `on_taken` is called at the instant of the switch."""
        state = self._state
        async with state.gate, state.flush_lock:
            await self._pipeline.drain()
            state.check_usable()
            if not await copy_rest():
                return False
            self._future.check_usable()
            await self._complete()
            with ExitStack() as pins:
                await self._hold_open(pins)
                await self._rename(live)
                # From here to the end without an await.
                replaced = self._swap(live)
                on_taken()
            await state.retire(replaced)
        state.notify()
        return True

    async def _complete(self) -> None:
        """Give the future log what batches do not carry, and make all of it durable."""
        state, future = self._state, self._future
        assert future.log_end_offset == state.log_end_offset, (state.topic_partition, state.offsets, future.offsets)
        disk, directory = state.disk, future.directory
        await disk.write_file(directory / LEADER_EPOCH_CHECKPOINT, encode_leader_epochs(state.epochs.entries))
        await _copy_marks(state, future)
        # Producers whose batches have left the log are known from memory alone.
        future.snapshots.stage(state.log_end_offset, state.producers.freeze())
        future.high_watermark = state.high_watermark
        await self._future_flusher.flush()
        await future.keeper.save_log_start_offsets()
        await future.keeper.save_recovery_points()

    async def _hold_open(self, pins: ExitStack) -> None:
        """Open the old segments that are in use, so that their users need no file names: the directory will go."""
        for segment in self._state.segments:
            if segment.pins:
                pins.enter_context(segment.pinned())
                await segment.file()
                await segment.indexes()
                await segment.transaction_index()

    async def _rename(self, live: Path) -> None:
        future, disk = self._future, self._state.disk
        await disk.rename(future.directory, live)
        try:
            await disk.sync_directory(live.parent)
            for segment in future.segments:
                await segment.relocate(live)
        except OSError:
            with suppress(OSError):
                await disk.rename(live, future.directory)
            raise

    def _swap(self, live: Path) -> list[LogSegment]:
        """Take over the files; return the segments that were replaced."""
        state, future = self._state, self._future
        replaced = list(state.segments)
        future.snapshots.relocate(live)
        state.directory, state.keeper = live, future.keeper
        state.segments, state.snapshots = future.segments, future.snapshots
        state.recovery_point = future.recovery_point
        # Batches that compaction has removed meanwhile may be in the copy.
        state.clean_end_offset = min(state.clean_end_offset, future.clean_end_offset)
        state.epochs_saved = state.epochs.version
        state.names_changed, state.names_synced = future.names_changed, future.names_synced
        state.deleted_files = [live / path.name for path in future.deleted_files]
        state.removals += 1
        state.copied_end_offset, state.keeps_deletes = None, False
        future.failure = "it has taken the place of the current log"
        return replaced


async def take_history(state: LogState, future: LogState) -> None:
    """Give a future log, durably, what no batch of its copy says. Once the controller counts on its directory, a crash
    makes it the log: without the leader epochs of what only the tier has, it could find nothing there.
    """
    async with future.gate:
        future.check_usable()
        await _copy_marks(state, future)
        # Below the local start no batch is ever truncated: these are the same at whatever instant they are taken.
        start_offset = future.segments.first_base_offset
        future.epochs.prepend(entry for entry in state.epochs.entries if entry.start_offset < start_offset)
        await future.save_epochs()
        await future.disk.sync_directory(future.directory)
        future.has_history = True


def has_history(state: LogState, future: LogState) -> bool:
    """Return whether a future log has taken it, as it is now."""
    return future.has_history and (future.is_adopted, future.is_thin) == (state.is_adopted, state.is_thin)


async def _copy_marks(state: LogState, future: LogState) -> None:
    future.is_adopted, future.is_thin = state.is_adopted, state.is_thin
    marks = ((ADOPTED_FILE, future.is_adopted), (THIN_FILE, future.is_thin))
    for mark, is_set in marks:
        if is_set:
            await future.disk.write_file(future.directory / mark, b"")
    # After the others are there: at no instant does a replica that is either count as full.
    for mark, is_set in marks:
        if not is_set:
            await future.disk.remove(future.directory / mark)


async def wait_until_stored(state: LogState, end_offset: int) -> None:
    """Wait until everything below `end_offset` counts as stored, or the log fails or is truncated."""
    moved = asyncio.Event()
    state.listeners.append(moved.set)
    state.failure_listeners.append(moved.set)
    try:
        while (
            state.failure is None
            and state.copied_end_offset is not None
            and state.copied_end_offset < min(end_offset, state.log_end_offset)
        ):
            moved.clear()
            await moved.wait()
    finally:
        state.listeners.remove(moved.set)
        state.failure_listeners.remove(moved.set)
