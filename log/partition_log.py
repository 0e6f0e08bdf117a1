"""One replica's log of one partition: the whole of it behind one class.

    PartitionLog -> appender (+ write_pipeline, validation)   append, roll, leader epochs
                 -> reader                                    slices, aborted transactions, times
                 -> truncation, trimming (+ retention)        taking away at the end, at the start
                 -> flusher, recovery                         durability, opening
    all over `state`, which has the offsets, the invariants and the rules about who may change what.

It knows no other node and no role: what an append of a leader or a follower is for, when the high watermark may rise,
and what the tier holds is given to it. Callbacks in `state.listeners` are called, without arguments and without
waiting, after the log end, the high watermark or the log start has moved.

Errors: KafkaError for what a peer asked for; OSError from the disk, after which a log whose memory may be ahead of its
files has failed. Every call on a failed or closed log raises KAFKA_STORAGE_ERROR; reopen it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Self
from uuid import UUID

from .cleaner.cleaning import CleanerPass
from .core.checkpoints import PARTITION_METADATA, encode_leader_epochs, encode_partition_metadata
from .core.config import LogConfig
from .core.file_names import ADOPTED_FILE, THIN_FILE
from .core.producers import PRODUCER_ID_EXPIRATION_MS
from .core.replica_copy import Copied
from .disk.run_to_completion import run_to_completion
from .replica.appender import Appender, LogAppendInfo
from .replica.flusher import Flusher
from .replica.reader import Reader, TimestampAndOffset
from .replica.recovery import LogLocation, load
from .replica.recovery_report import RecoveryReport
from .replica.replay import producer_snapshot_at
from .replica.state import LogState
from .replica.takeover import CopyRest, Takeover, has_history, take_history, wait_until_stored
from .replica.trimming import Trimming
from .replica.truncation import Truncation
from .replica.warming import SegmentToWarm, Warming
from .segment.segment import LogSegment
from .segment.slices import LogSlice
from .segment.upload_source import BytesSource, FileSource, SegmentFiles

__all__ = ["LogAppendInfo", "LogLocation", "LogSlice", "PartitionLog", "TimestampAndOffset"]


class PartitionLog:
    """Open it with `open`; close it before its directory is renamed or opened again."""

    def __init__(self, state: LogState, report: RecoveryReport) -> None:
        self.state = state
        self.recovery_report = report
        self._flusher = Flusher(state)
        self._appender = Appender(state, self._flusher)
        reader = Reader(state)
        cleaner = CleanerPass(state, reader)
        self._truncation = Truncation(state, self._appender.pipeline)
        self._trimming = Trimming(state, self._appender, self._flusher)
        # Callers get the parts' own methods: a layer here would only pass them on.
        self.append_as_leader = self._appender.append_as_leader
        self.append_as_follower = self._appender.append_as_follower
        self.read = reader.read
        self.aborted_transactions = reader.aborted_transactions
        self.offset_for_timestamp = reader.offset_for_timestamp
        self.max_timestamp_offset = reader.max_timestamp_offset
        self.dirty_range = cleaner.dirty_range
        self.oldest_dirty_ms = cleaner.oldest_dirty_ms
        self.clean = cleaner.clean
        self.flush = self._flusher.flush

    @classmethod
    async def open(cls, location: LogLocation) -> Self:
        """Open the log of an existing directory. CorruptLogError if it must not be served (table in `recovery`).

        What a process that died had not flushed as `flush.messages` wants is flushed before it counts for anybody.
        """
        log = cls(*await load(location))
        await log.settle()
        return log

    def __repr__(self) -> str:
        state = self.state
        return f"PartitionLog({state.topic_partition}, [{state.local_log_start_offset}, {state.log_end_offset}))"

    async def assign_topic_id(self, topic_id: UUID) -> None:
        """Write `partition.metadata` for a log that has none."""
        state = self.state
        async with state.gate:
            state.check_usable()
            assert state.topic_id in (None, topic_id), (state.topic_partition, state.topic_id, topic_id)
            await state.disk.write_file(state.directory / PARTITION_METADATA, encode_partition_metadata(topic_id))
            state.topic_id = topic_id

    def update_config(self, config: LogConfig) -> None:
        """Apply a configuration from the next append, roll or clean-up on; a segment keeps its index interval."""
        self.state.config = config

    def update_high_watermark(self, offset: int) -> bool:
        """Raise it to `offset`, at most to the log end; a lower one changes nothing. Return whether it moved."""
        state = self.state
        # Above the log end it would commit records that are still to come, whatever they are.
        offset = min(offset, state.log_end_offset)
        # Answers may come out of order, and consumers have read up to the higher one.
        if offset <= state.high_watermark:
            return False
        state.high_watermark = offset
        # A transaction is over for `read_committed` only when its marker is committed, not when it was appended.
        state.producers.on_high_watermark(offset)
        state.notify()
        return True

    # Appending.

    @run_to_completion
    async def try_append(self, filler: bytes) -> None:
        """Prove that the disk takes an append of that size. OSError if not: the log is as it was, and may still be read
        and trimmed; KAFKA_STORAGE_ERROR if it has failed. `filler` must not compress, or less than that is proven.
        """
        await self._appender.try_append(filler)

    @run_to_completion
    async def assign_epoch(self, leader_epoch: int) -> None:
        """Record that a leader epoch begins at the log end, also without data (durability: `log/replica/state.py`).

        NOT_LEADER_OR_FOLLOWER if a later one is known. Appends of earlier epochs are refused from now on.
        """
        await self._appender.assign_epoch(leader_epoch)

    def reject_leaders_below(self, leader_epoch: int) -> None:
        """Reject appends of earlier leaders from now on, those that wait for their turn included."""
        self.state.leader_epoch_floor = max(self.state.leader_epoch_floor, leader_epoch)

    @run_to_completion
    async def roll(self) -> bool:
        """Roll a new segment. Return False if the active one is empty."""
        return await self._appender.roll()

    # Taking away.

    @run_to_completion
    async def truncate_to(self, offset: int) -> int:
        """Cut every batch that holds `offset` or more; returns the new log end, durable with its epochs.

        Below the local log start nothing is left: the replica is empty. Readers above the cut are waited for, then
        aborted.
        """
        return await self._truncation.truncate_to(offset)

    @run_to_completion
    async def truncate_fully_and_start_at(
        self, offset: int, *, log_start_offset: int | None = None, producers: bytes | None = None
    ) -> None:
        """Empty the log; its next batch is at `offset`. For a tiered log the log start may lie lower. `producers` is
        the producer state there (`producer_snapshot_at`).
        """
        await self._truncation.truncate_fully_and_start_at(offset, log_start_offset, producers)

    @run_to_completion
    async def increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start, durably; False if it is there already. OFFSET_OUT_OF_RANGE above the high watermark."""
        return await self._trimming.increment_log_start_offset(offset)

    @run_to_completion
    async def follow_log_start_offset(self, offset: int) -> bool:
        """Raise the log start of a follower to its leader's: a high watermark below it rises with it.
        `offset` is at most the log end.
        """
        return await self._trimming.follow_log_start_offset(offset)

    @run_to_completion
    async def set_log_start_from_ledger(self, offset: int) -> None:
        """Set the log start of a tiered log that was opened without one: its first remote segment begins there."""
        await self._trimming.set_log_start_from_ledger(offset)

    @run_to_completion
    async def confirm_adoption(self) -> None:
        """Note that the replica has been in sync: it no longer counts as empty, but as thin if the tier holds the rest.
        Both also after a restart.
        """
        state = self.state
        async with state.gate:
            if state.is_adopted:
                if state.local_log_start_offset > state.log_start_offset and not state.is_thin:
                    # One mark becomes the other at once: a crash must not leave a replica that counts as full.
                    await state.disk.rename(state.directory / ADOPTED_FILE, state.directory / THIN_FILE)
                    state.is_thin = True
                    await state.disk.sync_directory(state.directory)
                else:
                    await self._forget(ADOPTED_FILE)
                state.is_adopted = False

    @run_to_completion
    async def confirm_warmed(self) -> None:
        """Note that the replica holds enough: it is no longer thin, also after a restart."""
        async with self.state.gate:
            if self.state.is_thin:
                await self._forget(THIN_FILE)
                self.state.is_thin = False

    async def _forget(self, mark: str) -> None:
        state = self.state
        await state.disk.remove(state.directory / mark)
        await state.disk.sync_directory(state.directory)

    async def delete_local_segments(self, up_to_offset: int) -> int:
        """Remove closed segments wholly below `up_to_offset`: the caller has proven them in the tier. Return how many.

        This and the next two take them out of the log at once, and return when their files are unlinked. A cancelled
        call leaves the unlinking to `reap`.
        """
        count = await self._trimming.delete_local_segments(up_to_offset)
        await self.state.unlink_deleted()
        return count

    async def delete_old_segments_by_log_start(self) -> int:
        """Remove closed segments wholly below the log start. Return how many."""
        return await self.delete_local_segments(self.state.log_start_offset)

    async def delete_old_segments(self) -> int:
        """Remove the segments that retention has expired (`retention`). Return how many."""
        count = await self._trimming.delete_old_segments()
        await self.state.unlink_deleted()
        return count

    # For a move to another log directory: `log/replica/takeover.py`, `log/keeper/future_logs.py`.

    @property
    def copied(self) -> Copied:
        """The log at this instant, as the decisions of a copy need it."""
        state, segments = self.state, self.state.segments.as_tuple()
        first_roll_offset = segments[1].base_offset if len(segments) > 1 else None
        end_offset = state.log_end_offset
        return Copied(
            state.log_start_offset,
            state.local_log_start_offset,
            end_offset,
            state.epochs,
            first_roll_offset,
        )

    def begin_copy(self) -> None:
        """A future log follows this log: compaction keeps every tombstone and marker until `end_copy`."""
        if not self.state.keeps_deletes:
            self.state.keeps_deletes = True
            # A compaction under way may be about to remove one, so it is given up.
            self.state.removals += 1

    def note_compacted(self, offset: int) -> None:
        """Compaction has been through everything below `offset` of the log that this one begins to copy."""
        self.state.clean_end_offset = offset

    def end_copy(self) -> None:
        """The copy is over."""
        self.state.keeps_deletes = False

    def hold_at(self, copied_end_offset: int | None) -> None:
        """What is not below this offset counts as not stored yet (`settled_end_offset`); None: everything counts."""
        self.state.copied_end_offset = copied_end_offset
        self.state.notify()

    async def stored(self, end_offset: int) -> None:
        """Wait until everything below `end_offset` counts as stored, or the log fails or is truncated."""
        if self.state.copied_end_offset is not None:
            await wait_until_stored(self.state, end_offset)

    @run_to_completion
    async def follow_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Record, durably, the epoch of the batches that follow, and where it began."""
        await self._appender.follow_epoch(leader_epoch, start_offset)

    @run_to_completion
    async def skip_to(self, offset: int) -> None:
        """Continue at `offset` with a new segment: no batch is left between the log's end and there."""
        await self._appender.skip_to(offset)

    @run_to_completion
    async def take_history(self, current: PartitionLog) -> None:
        """Take, durably, from the log that this one is a copy of what no batch says; see `takeover`."""
        await take_history(current.state, self.state)

    def has_history(self, current: PartitionLog) -> bool:
        """Return whether it has taken that, and nothing of it has changed since."""
        return has_history(current.state, self.state)

    @run_to_completion
    async def take_over(
        self, future: PartitionLog, live: Path, copy_rest: CopyRest, on_taken: Callable[[], None]
    ) -> bool:
        """Continue with the files of `future`, renamed to `live`; see `takeover`. False if it has not caught up.
        OSError and KafkaError leave this log as it was.
        """
        takeover = Takeover(self.state, self._appender.pipeline, future.state, future._flusher)
        return await takeover.run(live, copy_rest, on_taken)

    # For the tier.

    async def prepend(self, source: SegmentToWarm) -> int:
        """Put a segment from the tier in front of the local log (`warming`), which then begins lower; return its bytes.

        One caller at a time. Raise CorruptRecordError or CorruptFileError if it does not belong to this log,
        NOT_LEADER_OR_FOLLOWER if that has changed meanwhile, and what `source.read` raises.
        """
        return await Warming(self.state).prepend(source)

    async def producer_snapshot_at(self, offset: int) -> bytes | None:
        """Return the producer state at a segment's base offset or at the log end, in the `.snapshot` format.

        Made from an older one where it was never taken; None where `offset` is neither of the two.
        """
        return await producer_snapshot_at(self.state, offset)

    async def segment_files(self, segment: LogSegment) -> SegmentFiles:
        """Return what is uploaded of a closed segment, held until it is released; the epochs are those on return."""
        state = self.state
        state.check_usable()
        assert not segment.is_active, f"the active segment is never copied: {segment}"
        assert segment.next_offset <= state.log_end_offset, (segment, state.log_end_offset)
        snapshot = await self.producer_snapshot_at(segment.next_offset)
        with segment.pinned():
            indexes = await segment.indexes()
            files: dict[str, FileSource | BytesSource] = {
                "log": FileSource(await segment.file(), segment.size_bytes),
                "index": BytesSource(indexes.offset.encode()),
                "timeindex": BytesSource(indexes.time.encode()),
            }
            if snapshot is not None:
                files["snapshot"] = BytesSource(snapshot)
            if segment.has_transaction_index:
                files["txnindex"] = BytesSource((await segment.transaction_index()).encode())
            epochs = encode_leader_epochs(state.epochs.range(0, segment.next_offset))
            files["leader_epoch_checkpoint"] = BytesSource(epochs)
            return SegmentFiles(files, segment)

    # Upkeep.

    async def save_epochs(self) -> None:
        """Make the leader epochs durable. KAFKA_STORAGE_ERROR if the disk rejects them; the log has failed."""
        state = self.state
        async with state.flush_lock:
            state.check_usable()
            try:
                await state.save_epochs()
            except OSError as error:
                raise state.fail(error) from error

    async def settle(self) -> None:
        """Flush what `flush.messages` wants flushed, appends that are under way included (`settled_end_offset`)."""
        state = self.state
        if state.next_offset - state.recovery_point >= state.config.flush_messages:
            await self._appender.pipeline.drain()
            await self.flush()

    async def expire_producers(self, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> int:
        """Forget the producers that wrote nothing for that long and have no open transaction. Return how many."""
        expired = 0
        for count in self.state.producers.expire_stepwise(self.state.now_ms(), expiration_ms):
            expired += count
            await asyncio.sleep(0)
        return expired

    async def reap(self) -> None:
        """Close the removed segments that their last reader has released, and unlink the files of removed segments."""
        await self.state.reap()
        await self.state.unlink_deleted()

    @run_to_completion
    async def close(self) -> None:
        """Make everything durable, the indexes of the active segment and a producer snapshot at the log end included.

        Afterwards a clean-shutdown marker may be written. Raises OSError or KAFKA_STORAGE_ERROR if that failed; the
        files are closed in any case. Readers keep what they hold; `reap` closes it later.
        """
        state = self.state
        async with state.gate, state.flush_lock:
            try:
                await self._finish(sync=True)
            finally:
                await self._release_segments()

    @run_to_completion
    async def close_unsynced(self) -> None:
        """Do what `close` does, but for syncing small files: `note_durable` follows once the filesystem is synced.

        The indexes and the snapshot of a short active segment are left out: the next start scans it instead. They are
        most of what a stop of thousands of partitions would wait for.
        """
        async with self.state.gate, self.state.flush_lock:
            try:
                await self._finish(sync=False)
            finally:
                await self._release_segments()

    def note_durable(self) -> None:
        """Move the recovery point of a log that was closed to its end."""
        self._flusher.note_durable(self.state.log_end_offset)

    async def _finish(self, *, sync: bool) -> None:
        state = self.state
        await self._appender.pipeline.drain()
        state.check_usable()
        if sync or not state.segments.active.may_stay_unindexed:
            if not state.snapshots.is_saved(state.log_end_offset):
                state.snapshots.stage(state.log_end_offset, state.producers.freeze())
            state.segments.active.finish()
        await self._flusher.flush_locked(state.log_end_offset, sync=sync)
        await state.save_epochs(sync=sync)

    @run_to_completion
    async def abandon(self) -> None:
        """Close the files without making anything durable: the directory is about to go."""
        async with self.state.gate, self.state.flush_lock:
            await self._appender.pipeline.drain()
            await self._release_segments()

    async def _release_segments(self) -> None:
        self.state.failure = self.state.failure or "it was closed"
        await self.state.retire(list(self.state.segments))
