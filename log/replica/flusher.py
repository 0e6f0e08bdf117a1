"""Makes a log durable up to an offset, and moves its recovery point there.

The order, so that after a crash everything below the recovery point can be trusted without reading it:

1. the bytes of every segment that reaches above the old recovery point;
2. the indexes of the segments that are closed and complete, and the producer snapshots that rolls have staged;
3. the leader epochs, and the names of new files, all at once;
4. the recovery point, in memory, which lets a leader count the records that waited for it (`settled_end_offset`); the
   keeper's checkpoint follows at any time, because an older one is safe.

The active segment's indexes are not written: the segment that holds the recovery point is scanned after a crash. A
close writes them; one of a log that has not changed since it was opened in order writes and syncs nothing.
A failed sync proves nothing about the disk's content: the log fails, and leaves a marker file so that its tail is
rewritten (`LogState.fail_sync`), because a second fsync would succeed and prove nothing.
"""

from __future__ import annotations

from .state import LogState


class Flusher:
    """Flushes the log whose state it is given."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    async def flush(self) -> None:
        """Flush everything that was published when the call began. Return at once if it is durable already."""
        target = self._state.log_end_offset
        async with self._state.flush_lock:
            await self.flush_locked(min(target, self._state.log_end_offset))

    @property
    def is_due(self) -> bool:
        """Whether `flush.messages` or more records are not durable; checked after each append."""
        return self._state.is_flush_due

    async def flush_locked(self, target: int, *, sync: bool = True) -> None:
        """Flush up to `target`; the caller holds `flush_lock`. Raise KAFKA_STORAGE_ERROR if a sync fails.

        Without `sync` only the batches are made durable: the caller syncs the filesystem, then calls `note_durable`.
        """
        state = self._state
        state.check_usable()
        if (
            target <= state.recovery_point
            and state.names_changed == state.names_synced
            and not state.snapshots.has_staged
            and not state.segments.active.needs_saving
        ):
            return
        assert target <= state.log_end_offset, (state.topic_partition, target, state.log_end_offset)
        try:
            # From one below: a segment that was flushed to its end before it was closed has its indexes unsaved.
            for segment in state.segments.from_offset(max(0, state.recovery_point - 1)):
                if segment.base_offset > target:
                    break
                with segment.pinned():
                    await (await segment.file()).sync()
                if not segment.is_active and segment.next_offset <= target:
                    state.names_changed += segment.needs_saving
                    await segment.save_indexes(sync=sync, sync_names=False)
            state.names_changed += state.snapshots.has_staged
            await state.snapshots.save(sync=sync, sync_names=False)
            # Recovery takes the epochs of what it does not scan from the file.
            await state.save_epochs(sync=sync)
            if not sync:
                return
            names_changed = state.names_changed
            if names_changed != state.names_synced:
                await state.disk.sync_directory(state.directory)
                state.names_synced = names_changed
        except OSError as error:
            raise await state.fail_sync(error) from error
        self.note_durable(target)

    def note_durable(self, target: int) -> None:
        """Move the recovery point to `target`, only after every sync: recovery does not scan what is below."""
        state = self._state
        if target > state.recovery_point:
            state.recovery_point = target
            state.notify()
