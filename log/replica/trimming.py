"""Trims the start of the log: raises the log start, removes the oldest segments.

* The log start is durable before anything below it is removed, and before the call returns: the expiry of the tier
  relies on it. Only retention of an untiered log writes it afterwards: there the first segment gives the log start,
  and a full disk must not keep retention from freeing it.
* The new beginning of the log is durable before the removal: a tiered log is flushed up to there with its producer
  state, because nothing else records where the local log continues; an untiered log's state is saved if there is room.
* The local log start follows the segments; the log start follows them only if the log is not tiered.
* Readers keep the slices that they hold.

A removal, and what the next start finds after a crash in each step (KIP-405's local retention and DeleteRecords alike):

| step | locks | a crash in it leaves |
|---|---|---|
| 1 flush a tiered log up to the new beginning | flush lock | the log as it was |
| 2 detach the segments, in memory | both | the log as it was; the next removal repeats this one |
| 3 rename their files to `.deleted`, oldest first | flush lock | a log that begins at one of these segments |
| 4 remove the snapshots below | flush lock | snapshots below the log, which are never read |
| 5 save the log start of an untiered log | - | an older log start; the first segment gives the new one |
| 6 unlink the `.deleted` files | - | `.deleted` files |

The next start removes `.deleted` files, and indexes without their log.
Appends wait for the gate, so only step 2 holds them up, for a time that does not depend on sizes or counts. Whatever
may create a file of the same name (truncation to a new start, warming, the swap of a compaction) needs the flush lock,
and so waits for step 3, whose renames take no time with size. Step 6 removes names that no log uses. A segment that can
be neither renamed nor unlinked in step 3 fails the log: no later one may be removed before it.
"""

from __future__ import annotations

from contextlib import suppress

from ...protocol import ErrorCode, KafkaError
from ..core.retention import Expired, below_log_start, expired
from ..disk.run_to_completion import run_to_completion
from ..segment.segment import LogSegment
from .appender import Appender
from .flusher import Flusher
from .state import LogState


class Trimming:
    """Trims the log whose state it is given."""

    def __init__(self, state: LogState, appender: Appender, flusher: Flusher) -> None:
        self._state = state
        self._appender = appender
        self._flusher = flusher

    async def increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start, durably; return False if it was there. OFFSET_OUT_OF_RANGE above the high watermark."""
        state = self._state
        async with state.gate:
            state.check_usable()
            # Records above the high watermark may be truncated again: only committed ones may be deleted.
            if offset > state.high_watermark:
                raise KafkaError(
                    ErrorCode.offset_out_of_range,
                    f"{state.topic_partition}: the log start cannot become {offset}, which is above the high "
                    f"watermark {state.high_watermark}",
                )
            return await self._raise_log_start(offset)

    async def follow_log_start_offset(self, offset: int) -> bool:
        """Raise the log start to the leader's, at most to the log end; return False if it was there. A lower high
        watermark rises with it: the records that it passes need not equal the leader's.
        """
        state = self._state
        async with state.gate:
            state.check_usable()
            assert offset <= state.log_end_offset, (state.topic_partition, state.log_end_offset, offset)
            return await self._raise_log_start(offset)

    async def set_log_start_from_ledger(self, offset: int) -> None:
        """Set an unknown log start: the start of the first remote segment, or of the local log if there is none."""
        state = self._state
        async with state.gate:
            state.check_usable()
            assert not state.log_start_known, (state.topic_partition, state.log_start_offset, offset)
            assert offset <= state.segments.first_base_offset, (state.topic_partition, state.segments, offset)
            if not await self._raise_log_start(offset):
                state.log_start_known = True
                await state.keeper.save_log_start_offsets()

    async def delete_local_segments(self, up_to_offset: int) -> int:
        """Remove the closed segments wholly below `up_to_offset`; the log start stays. Return how many."""
        state = self._state
        # First the segments whose successors are flushed: removing them needs no write, and the disk may be full.
        removed = await self._remove_below(up_to_offset, is_flushed=True)
        segments = state.segments.as_tuple()
        if count := below_log_start(segments, up_to_offset).count:
            # The flush may need the room that these have taken.
            await state.unlink_deleted()
            # Before the gate is taken: an fsync takes time with what is dirty.
            async with state.flush_lock:
                await self._flush_up_to(segments[count].base_offset)
            removed += await self._remove_below(up_to_offset, is_flushed=False)
        return removed

    @run_to_completion
    async def delete_old_segments(self) -> int:
        """Remove the segments that retention has expired. Return how many."""
        state = self._state
        async with state.locked() as release_gate:
            state.check_usable()
            decision = self._expired()
            if decision.roll_first:
                with suppress(OSError):  # the active segment then stays until it can be rolled
                    await self._appender.roll_locked()
            count = min(decision.count, len(state.segments) - 1)
            # A tiered log keeps its log start: the removed records are still readable from the tier.
            is_start_kept = count == 0 or state.config.remote_storage_enable
            if not is_start_kept:
                self._note_log_start(max(state.log_start_offset, state.segments.as_tuple()[count].base_offset))
            removed = await self._detach_first(count)
            release_gate()
            await self._remove_files(removed)
        if not is_start_kept:
            # Not before: the first segment gives this start, and a full disk must not stop the removal.
            await state.keeper.save_log_start_offsets()
            await state.save_epochs()
        return count

    @run_to_completion
    async def _remove_below(self, offset: int, *, is_flushed: bool) -> int:
        """Remove the closed segments wholly below `offset`; with `is_flushed` only those below the recovery point."""
        state = self._state
        async with state.locked() as release_gate:
            state.check_usable()
            limit = min(offset, state.recovery_point - 1) if is_flushed else offset
            removed = await self._detach_first(below_log_start(state.segments.as_tuple(), limit).count)
            release_gate()
            await self._remove_files(removed)
        return len(removed)

    def _expired(self) -> Expired:
        state = self._state
        return expired(
            state.segments.as_tuple(),
            state.config,
            now_ms=state.now_ms(),
            high_watermark=state.high_watermark,
            log_start_offset=state.log_start_offset,
        )

    async def _raise_log_start(self, offset: int) -> bool:
        """Raise the log start in memory and on disk; after an OSError both are unchanged, or both are raised."""
        state = self._state
        before = state.log_start_offset
        if offset <= before:
            return False
        was_known, state.log_start_known, state.log_start_offset = state.log_start_known, True, offset
        try:
            await state.keeper.save_log_start_offsets()
        except OSError:
            state.log_start_known, state.log_start_offset = was_known, before
            raise
        self._note_log_start(offset)
        await state.save_epochs()
        return True

    def _note_log_start(self, offset: int) -> None:
        state = self._state
        state.log_start_offset = offset
        # What is below the log start is committed, so a high watermark that was learned late follows it.
        if state.high_watermark < offset:
            state.high_watermark = offset
            state.producers.on_high_watermark(offset)
        state.producers.on_log_start_offset(offset)
        state.epochs.truncate_from_start(offset)
        state.notify()

    async def _flush_up_to(self, base_offset: int) -> None:
        """Flush up to a base offset; nothing is left to do unless the log has rolled since the caller's flush."""
        state = self._state
        if state.recovery_point < base_offset or state.snapshots.is_staged(base_offset):
            await self._flusher.flush_locked(min(base_offset, state.log_end_offset))

    async def _detach_first(self, count: int) -> list[LogSegment]:
        """Take the oldest `count` segments out of the log, in memory; return them oldest first."""
        state = self._state
        assert count < len(state.segments), (state.topic_partition, count, len(state.segments))
        if count == 0:
            return []
        # After the removal no file says where a tiered log began: its log start must be durable before.
        if state.config.remote_storage_enable:
            await state.keeper.ensure_log_start_saved(state.topic_partition)
            await self._flush_up_to(state.segments.as_tuple()[count].base_offset)
        removed = state.segments.remove_first(count)
        # A read that looked before this looks again: what it found is about to go.
        state.removals += 1
        # Recovery begins at the recovery point, and nothing is left below the first segment.
        state.recovery_point = max(state.recovery_point, state.segments.first_base_offset)
        return removed

    async def _remove_files(self, removed: list[LogSegment]) -> None:
        """Remove detached segments from the directory, oldest first; the caller holds the flush lock alone."""
        state = self._state
        if not removed:
            return
        if not state.config.remote_storage_enable:
            # A full disk must not stop the removal: without the snapshot, recovery replays what is left.
            with suppress(OSError):
                await state.snapshots.save()
        async with state.all_or_failed():
            await state.set_aside(removed)
            await state.snapshots.remove_below(removed[-1].next_offset)
            await state.retire(removed)
