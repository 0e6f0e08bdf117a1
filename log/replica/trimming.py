"""Trims the start of the log: raises the log start, removes the oldest segments.

* The log start is durable before anything below it is removed, and before the call returns: the expiry of the tier
  relies on it. Only retention of an untiered log writes it afterwards: there the first segment gives the log start,
  and a full disk must not keep retention from freeing it.
* Segments are removed oldest first, so that a crash leaves no hole; remaining files of a segment are swept at the next
  start. A segment that cannot be removed fails the log: no later one may be removed before it.
* The new beginning of the log is durable before the removal: a tiered log is flushed up to there with its producer
  state, because nothing else records where the local log continues; an untiered log's state is saved if there is room.
* The local log start follows the segments; the log start follows them only if the log is not tiered.
* Readers keep the slices that they hold.
"""

from __future__ import annotations

from contextlib import suppress

from ...protocol.errors import ErrorCode, KafkaError
from ..core.retention import Expired, below_log_start, expired
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
        async with state.gate, state.flush_lock:
            state.check_usable()
            # First the segments whose successors are flushed: removing them needs no write, and the disk may be full.
            removed = await self._remove_below(min(up_to_offset, state.recovery_point - 1))
            return removed + await self._remove_below(up_to_offset)

    async def delete_old_segments_by_log_start(self) -> int:
        """Remove the closed segments wholly below the log start. Return how many."""
        return await self.delete_local_segments(self._state.log_start_offset)

    async def delete_old_segments(self) -> int:
        """Remove the segments that retention has expired. Return how many."""
        state = self._state
        async with state.gate, state.flush_lock:
            state.check_usable()
            decision = self._expired()
            if decision.roll_first:
                with suppress(OSError):  # the active segment then stays until it can be rolled
                    await self._appender.roll_locked()
            count = min(decision.count, len(state.segments) - 1)
            # A tiered log keeps its log start: the removed records are still readable from the tier.
            if count == 0 or state.config.remote_storage_enable:
                return await self._remove_first(count)
            self._note_log_start(max(state.log_start_offset, state.segments.as_tuple()[count].base_offset))
            await self._remove_first(count)
            await state.keeper.save_log_start_offsets()
            await state.save_epochs()
            return count

    async def _remove_below(self, offset: int) -> int:
        return await self._remove_first(below_log_start(self._state.segments.as_tuple(), offset).count)

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
        """Flush up to a base offset; almost always the roll of the segment before has done so."""
        state = self._state
        if state.recovery_point < base_offset or state.snapshots.is_staged(base_offset):
            await self._flusher.flush_locked(min(base_offset, state.log_end_offset))

    async def _remove_first(self, count: int) -> int:
        state = self._state
        assert count < len(state.segments), (state.topic_partition, count, len(state.segments))
        if count == 0:
            return 0
        # After the removal no file says where a tiered log began: its log start must be durable before.
        if state.config.remote_storage_enable:
            await state.keeper.ensure_log_start_saved(state.topic_partition)
            await self._flush_up_to(state.segments.as_tuple()[count].base_offset)
        else:
            with suppress(OSError):
                await state.snapshots.save()
        async with state.all_or_failed():
            removed = state.segments.remove_first(count)
            state.removals += 1
            state.recovery_point = max(state.recovery_point, state.segments.first_base_offset)
            for segment in removed:
                await segment.remove_files()
            await state.snapshots.remove_below(state.segments.first_base_offset)
            await state.retire(removed)
        return count
