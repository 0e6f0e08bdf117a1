"""The state that the parts of one open log share (append, read, truncate, retain): one object, changed between awaits.

Offsets, and what holds after every change:

    log_start_offset <= local_log_start_offset <= log_end_offset <= next_offset
    last_stable_offset <= high_watermark <= log_end_offset

* `log_start_offset`: the first offset of the partition, which may be in the tier; it only rises.
* `local_log_start_offset`: the first offset on this disk.
* `log_end_offset`: the offset after the last batch written. `next_offset`: the offset after the last batch accepted.
* `high_watermark`: records below it are committed. It rises; only a truncation lowers it. The high watermark and the
  last stable offset may be below the local log start, where no look-up uses them.
* `recovery_point`: everything below it was flushed.
* `settled_end_offset`: the offset after the last record that counts as stored here: under `flush.messages`, and in the
  future log too while the controller may count on that one.

Leader epochs: `leader-epoch-checkpoint` follows the memory. What is durable when:

    every entry that begins below the recovery point   before the recovery point passes its start (`flusher`)
    all entries                                        within seconds (the log's upkeep), and when the log is closed

An entry at or above the recovery point needs no sync of its own. After a crash recovery believes the batches alone from
the segment that holds the recovery point on, so that an entry without a flushed batch is dropped whether it was saved
or not; and no epoch is led twice: a broker that registers again leads in a new one. A broker that becomes the leader of
thousands of partitions therefore waits for no disk.

`PartitionLog.state` shows all of it to the owners of the log, to read: only the modules of `log` change it.

Locks: the structure (segments, epochs, producer state, roll, truncation, removal) changes only under `gate`; files of
closed segments and snapshots change only under `flush_lock`, taken after the gate. Appends wait for the gate, so
nothing that takes time with size is done under it: a removal releases it before it touches a file (`locked`), and
unlinks after both locks (`unlink_deleted`). A log with a `failure` rejects every
append and read: its memory may be ahead of its files, or its files cannot be trusted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError, TopicPartition
from ..core.checkpoints import LEADER_EPOCH_CHECKPOINT, encode_leader_epochs
from ..core.config import LogConfig
from ..core.epochs import LeaderEpochCache
from ..core.file_names import UNSYNCED_FILE
from ..core.producers import ProducerStateManager
from ..disk.port import Disk
from ..segment.open_limit import OpenSegments
from ..segment.segment import LogSegment, Published, SegmentExtent
from ..segment.segment_list import LogSegments
from ..segment.snapshot_files import ProducerSnapshots

logger = logging.getLogger(__name__)


class LogKeeper(Protocol):
    """The keeper of the log: it saves what is outside the partition's directory, and schedules flushes."""

    async def save_log_start_offsets(self) -> None:
        """Make the log start offsets of all logs durable."""

    async def ensure_log_start_saved(self, partition: TopicPartition) -> None:
        """Make the log start offset of one log durable; write nothing if it is already, as the disk may be full."""

    async def save_recovery_points(self) -> None:
        """Make the recovery points and high watermarks of all logs durable."""

    def segment_closed(self) -> None:
        """Note that a segment was rolled and must be flushed. Does not wait."""

    @property
    def accepts_clients(self) -> bool:
        """Whether the disk has room for what clients produce; see `free_space`."""

    @property
    def accepts_replicas(self) -> bool:
        """Whether the disk has room for what is copied from leaders."""

    def has_room_for(self, size_bytes: int) -> bool:
        """Whether clients' records would still be accepted after a write of that size."""

    def writing(self, size_bytes: int) -> AbstractContextManager[None]:
        """Count an append as taken from the disk's room, from when it is accepted; it is under way inside."""


class LogOffsets(NamedTuple):
    """The offsets of one log at one instant: where it begins, how far it may be read, and how far it is durable."""

    log_start_offset: int
    local_log_start_offset: int
    first_unstable_offset: int | None
    """The first offset of the oldest open transaction; None without one."""
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    recovery_point: int
    settled_end_offset: int
    """The log end, unless `flush.messages` or more records below it are not durable yet, or not in the future log."""


@dataclass(slots=True, kw_only=True, eq=False)
class LogState:
    """See the module's docstring."""

    topic_partition: TopicPartition
    topic_id: UUID | None
    directory: Path
    config: LogConfig
    disk: Disk
    keeper: LogKeeper
    open_segments: OpenSegments
    now_ms: Callable[[], int]
    segments: LogSegments
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    snapshots: ProducerSnapshots
    log_start_offset: int
    log_start_known: bool
    high_watermark: int
    log_end_offset: int
    recovery_point: int
    is_adopted: bool = False
    """Whether the log was rebuilt from the tier and has not been confirmed since (`confirm_adoption`)."""
    is_thin: bool = False
    """Whether the log was rebuilt from the tier and still holds less than other replicas (`confirm_warmed`)."""
    clean_end_offset: int = 0
    """The offset below which everything was compacted at least once."""
    failure: str | None = None
    """The reason why the log rejects every append and read, in words; None while it is usable."""
    failed_append_bytes: int = 0
    """The size of the appends that failed with the log."""
    failure_listeners: list[Callable[[], None]] = field(default_factory=list)
    """Callbacks that run once, when the log fails; not when it is closed."""
    leader_epoch_floor: int = 0
    """The lowest leader epoch whose appends are accepted: lower leaders decided before the leadership changed."""
    has_history: bool = False
    """Whether the future log of another one has taken from it what no batch says, since it was last emptied."""
    copied_end_offset: int | None = None
    """The offset up to which the log's future log has it, while the controller may count on that one (`takeover`)."""
    keeps_deletes: bool = False
    """Whether compaction keeps every tombstone and marker: a future log may have what they delete, and lack them."""
    read_limit: int | None = None
    """The offset at or above which no read begins while a truncation waits for readers; None without one."""
    removals: int = 0
    """The number of removals of segments or bytes so far: a look-up that a removal overtakes is repeated."""
    retired: list[LogSegment] = field(default_factory=list)
    """The removed segments that a reader still holds."""
    deleted_files: list[Path] = field(default_factory=list)
    """The files that were renamed to `.deleted` and are not unlinked yet."""
    names_changed: int = 0
    """The number of names created in the directory so far."""
    names_synced: int = 0
    """How many of these names are durable."""
    epochs_saved: int = 0
    """The version of the leader epochs that is durable."""
    listeners: list[Callable[[], None]] = field(default_factory=list)
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    flush_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def next_offset(self) -> int:
        return self.segments.active.next_offset

    @property
    def local_log_start_offset(self) -> int:
        return max(self.log_start_offset, self.segments.first_base_offset)

    @property
    def settled_end_offset(self) -> int:
        settled = min(self.log_end_offset, self.recovery_point + self.config.flush_messages - 1)
        return settled if self.copied_end_offset is None else min(settled, self.copied_end_offset)

    @property
    def is_flush_due(self) -> bool:
        """Whether `flush.messages` or more records are not durable."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a closed segment is not durable yet, or more records than `flush.messages` allows."""
        return self.recovery_point < self.segments.active.base_offset or self.is_flush_due

    @property
    def has_readers(self) -> bool:
        """Whether a reader still holds a removed segment."""
        return bool(self.retired)

    @property
    def has_deleted_files(self) -> bool:
        """Whether files of removed segments are not unlinked yet."""
        return bool(self.deleted_files)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open or not replicated yet, at least the log start."""
        first = self.producers.first_unstable_offset
        return None if first is None else max(first, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        first = self.first_unstable_offset
        return self.high_watermark if first is None else min(first, self.high_watermark)

    @property
    def offsets(self) -> LogOffsets:
        """The offsets at this instant."""
        log_start_offset, first_base_offset = self.log_start_offset, self.segments.first_base_offset
        high_watermark = last_stable_offset = self.high_watermark
        first_unstable_offset = self.producers.first_unstable_offset
        if first_unstable_offset is not None:
            if first_unstable_offset < log_start_offset:
                first_unstable_offset = log_start_offset
            if first_unstable_offset < high_watermark:
                last_stable_offset = first_unstable_offset
        return LogOffsets(
            log_start_offset,
            first_base_offset if first_base_offset > log_start_offset else log_start_offset,
            first_unstable_offset,
            last_stable_offset,
            high_watermark,
            self.log_end_offset,
            self.recovery_point,
            self.settled_end_offset,
        )

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[Callable[[], None]]:
        """Hold the gate and then the flush lock; the value releases the gate early, so that appends continue."""
        await self.gate.acquire()
        is_gate_held = True

        def release_gate() -> None:
            nonlocal is_gate_held
            if is_gate_held:
                is_gate_held = False
                self.gate.release()

        try:
            async with self.flush_lock:
                yield release_gate
        finally:
            release_gate()

    def check_usable(self) -> None:
        """Raise KAFKA_STORAGE_ERROR if the log has failed or was closed."""
        if self.failure is not None:
            raise self.storage_error()

    def fail(self, error: BaseException) -> BaseException:
        """Fail the log after a failed write; return the error for the callers that wait for the write."""
        if not isinstance(error, OSError):
            self._fail_because(f"stopped by an internal error: {error!r}")
            return error
        reason = f"{error.filename or self.directory}: {error.strerror or error}"
        self._fail_because(f"a write failed ({reason}); it must be reopened")
        return self.storage_error()

    def _fail_because(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
            for listener in tuple(self.failure_listeners):
                listener()

    async def fail_sync(self, error: OSError) -> KafkaError:
        """Fail the log after an error that may be a failed fsync. The kernel marks the pages that it could not write as
        clean: reads return them and no later fsync writes them. A marker file makes the next opening rewrite the tail.
        """
        self.fail(error)
        try:
            await self.disk.write_file(self.directory / UNSYNCED_FILE, b"")
        except OSError as refusal:
            self.failure = f"{self.failure}; {UNSYNCED_FILE} could not be written either ({refusal.strerror})"
        return self.storage_error()

    @asynccontextmanager
    async def all_or_failed(self) -> AsyncIterator[None]:
        """Fail the log on any error inside: memory and files agree only after the whole block."""
        try:
            yield
        except OSError as error:
            raise await self.fail_sync(error) from error
        except BaseException as error:
            self.fail(error)
            raise

    def storage_error(self) -> KafkaError:
        return KafkaError(
            ErrorCode.kafka_storage_error, f"the log of {self.topic_partition} is not available: {self.failure}"
        )

    def publish(self, segment: LogSegment, published: Published) -> None:
        """Make the bytes of `segment` up to `published` visible to readers; they are in its file."""
        assert published.end_offset > self.log_end_offset, (self.topic_partition, self.log_end_offset, published)
        # The log end moves only now: a reader or a high watermark must never pass bytes that are not in the file.
        segment.publish(published)
        self.log_end_offset = published.end_offset
        self.notify()

    def notify(self) -> None:
        """Call the listeners: an offset has moved."""
        for listener in tuple(self.listeners):
            listener()

    def new_segment(self, base_offset: int) -> LogSegment:
        return LogSegment(
            self.disk,
            self.directory,
            SegmentExtent.empty(base_offset),
            config=self.config,
            open_segments=self.open_segments,
            now_ms=self.now_ms(),
        )

    @property
    def has_unsaved_epochs(self) -> bool:
        """Whether the leader epochs have changed since their checkpoint was written."""
        return self.failure is None and self.epochs.version != self.epochs_saved

    async def save_epochs(self, *, sync: bool = True) -> None:
        """Make the leader epochs durable if they have changed since they were saved; without `sync` only write them."""
        version = self.epochs.version
        if version == self.epochs_saved:
            return
        path = self.directory / LEADER_EPOCH_CHECKPOINT
        await self.disk.write_file(path, encode_leader_epochs(self.epochs.entries), sync=sync)
        self.epochs_saved = version

    async def set_aside(self, removed: list[LogSegment]) -> None:
        """Take the files of removed segments out of the log, in this order; the caller holds the flush lock."""
        for segment in removed:
            self.deleted_files += await segment.set_aside()

    async def unlink_deleted(self) -> None:
        """Unlink the files that were set aside; the caller holds no lock, as this takes time with their size."""
        while self.deleted_files:
            path = self.deleted_files.pop(0)
            try:
                await self.disk.remove(path)
            except OSError as error:
                # Not retried: nothing depends on it but space, and the next start removes it.
                logger.error("%s could not be deleted: %s; the next start tries again", path, error)

    async def retire(self, removed: list[LogSegment]) -> None:
        """Close removed segments, now or when their last reader releases them."""
        self.retired += removed
        await self.reap()

    async def reap(self) -> None:
        """Close the removed segments that no reader holds any longer."""
        # A response under way sends from the open file, which outlives its name.
        free = [segment for segment in self.retired if segment.pins == 0]
        self.retired = [segment for segment in self.retired if segment.pins]
        for segment in free:
            await segment.park()
