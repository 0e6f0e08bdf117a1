"""What the parts of one open log share: appending, reading, truncating, retention. One object, changed between awaits.

Offsets, and what holds after every change:

    log_start_offset <= local_log_start_offset <= log_end_offset <= next_offset
    last_stable_offset <= high_watermark <= log_end_offset

* `log_start_offset`: the first offset of the partition, which may lie in the tier; only rises.
* `local_log_start_offset`: the first one that is here.
* `log_end_offset`: behind the last batch whose bytes are in the file; `next_offset`: behind the last one decided on.
* `high_watermark`: below it is committed. Rises, except that a truncation takes it along. It and the last stable offset
  may lie below the local log start, where nothing is looked up by them.
* `recovery_point`: below it everything was flushed.
* `settled_end_offset`: behind the last record that may count as stored here, by `flush.messages`.

Who may change what: structure (segments, epochs, producer state, roll, truncation, removal) only under `gate`; files of
closed segments and snapshots only under `flush_lock`, taken after the gate. A log that `failure` describes takes and
serves nothing more: its memory may be ahead of its files, or its files are not to be trusted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import UUID

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import TopicPartition
from ..core.checkpoints import LEADER_EPOCH_CHECKPOINT, encode_leader_epochs
from ..core.config import LogConfig
from ..core.epochs import LeaderEpochCache
from ..core.file_names import UNSYNCED_FILE
from ..core.producers import ProducerStateManager
from ..disk.port import Disk
from ..segment.open_limit import OpenSegments
from ..segment.segment import LogSegment, Published
from ..segment.segment_list import LogSegments
from ..segment.snapshot_files import ProducerSnapshots


class LogKeeper(Protocol):
    """Who keeps the log: what lies outside the partition's directory, and when to flush."""

    async def save_log_start_offsets(self) -> None:
        """Make the log start offsets of all logs durable."""

    async def ensure_log_start_saved(self, partition: TopicPartition) -> None:
        """Make that of one log durable; where it is already nothing is written, which a full disk may not take."""

    async def save_recovery_points(self) -> None:
        """Make the recovery points and high watermarks of all logs durable."""

    def segment_closed(self) -> None:
        """A segment was rolled and waits to be flushed. Does not wait."""


class LogOffsets(NamedTuple):
    """Where a log begins, locally too, and how far it may be read."""

    log_start_offset: int
    local_log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int


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
    """Whether it was rebuilt from the tier and nobody has confirmed it since."""
    is_thin: bool = False
    """Whether it was rebuilt from the tier, and holds less than others would since."""
    clean_end_offset: int = 0
    """Compaction has been through everything below it, at least once."""
    failure: str | None = None
    """Why the log takes and serves nothing more, in words."""
    failed_append_bytes: int = 0
    """Size of the appends that the failure took along."""
    failure_listeners: list[Callable[[], None]] = field(default_factory=list)
    """Called once, when the log fails; not when it is closed."""
    leader_epoch_floor: int = 0
    """Appends of leaders below it are refused: they decided before leadership moved on."""
    read_limit: int | None = None
    """While a truncation waits for readers, nobody begins to read at or above its offset."""
    removals: int = 0
    """How often segments or bytes were taken away: what was looked up before is looked up again."""
    retired: list[LogSegment] = field(default_factory=list)
    """Removed segments that a reader still holds."""
    names_changed: int = 0
    """How often a name in the directory was made."""
    names_synced: int = 0
    """How many of these changes are durable."""
    epochs_saved: int = 0
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
        return min(self.log_end_offset, self.recovery_point + self.config.flush_messages - 1)

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
        """All at this instant."""
        log_start_offset, first_base_offset = self.log_start_offset, self.segments.first_base_offset
        return LogOffsets(
            log_start_offset,
            first_base_offset if first_base_offset > log_start_offset else log_start_offset,
            self.last_stable_offset if self.producers.has_unstable else self.high_watermark,
            self.high_watermark,
            self.log_end_offset,
        )

    def check_usable(self) -> None:
        """KAFKA_STORAGE_ERROR if the log has failed or was closed."""
        if self.failure is not None:
            raise self.storage_error()

    def fail(self, error: BaseException) -> BaseException:
        """Close the log to everybody after a failed write; returns what those who wait for it are told."""
        if not isinstance(error, OSError):
            self._fail_because(f"it was stopped by {error!r}")
            return error
        reason = f"{error.filename or self.directory}: {error.strerror or error}"
        self._fail_because(f"a write failed ({reason}); it must be opened anew")
        return self.storage_error()

    def _fail_because(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
            for listener in tuple(self.failure_listeners):
                listener()

    async def fail_sync(self, error: OSError) -> KafkaError:
        """The same after what may be a failed fsync. The kernel takes what it could not write for written: it is read
        as if it were there, and no later fsync writes it. So a mark tells whoever opens the log to write it again.
        """
        self.fail(error)
        try:
            await self.disk.write_file(self.directory / UNSYNCED_FILE, b"")
        except OSError as refusal:
            self.failure = f"{self.failure}; nor could {UNSYNCED_FILE} be written ({refusal.strerror})"
        return self.storage_error()

    @asynccontextmanager
    async def all_or_failed(self) -> AsyncIterator[None]:
        """What is done inside leaves memory and files in step only if it ends: an error fails the log."""
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
        """The bytes of `segment` up to there are in its file: let readers see them."""
        assert published.end_offset > self.log_end_offset, (self.topic_partition, self.log_end_offset, published)
        segment.publish(published)
        self.log_end_offset = published.end_offset
        self.notify()

    def notify(self) -> None:
        """Tell the listeners that an offset has moved."""
        for listener in tuple(self.listeners):
            listener()

    def new_segment(self, base_offset: int) -> LogSegment:
        return LogSegment(
            self.disk,
            self.directory,
            base_offset,
            config=self.config,
            open_segments=self.open_segments,
            now_ms=self.now_ms(),
        )

    async def save_epochs(self) -> None:
        """Make the leader epochs durable if they have changed since."""
        version = self.epochs.version
        if version == self.epochs_saved:
            return
        path = self.directory / LEADER_EPOCH_CHECKPOINT
        await self.disk.write_file(path, encode_leader_epochs(self.epochs.entries))
        self.epochs_saved = version

    async def retire(self, removed: list[LogSegment]) -> None:
        """Close segments that were removed, now or when the last reader lets go of them."""
        self.retired += removed
        await self.reap()

    async def reap(self) -> None:
        """Close removed segments that nobody holds any more."""
        free = [segment for segment in self.retired if segment.pins == 0]
        self.retired = [segment for segment in self.retired if segment.pins]
        for segment in free:
            await segment.park()
