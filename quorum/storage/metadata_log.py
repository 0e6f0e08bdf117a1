"""The metadata log on disk: `__cluster_metadata-0`, a `PartitionLog` with its snapshots, as one thing.

    [ earliest snapshot ]   [ latest snapshot ]
    |--- log start = earliest snapshot's end ---- flushed end -- log end |

* What is appended is whole batches that carry their offsets and epochs: a leader's own and a fetched one's are written
  the same way. `append` makes them visible, `flush` durable; no replica acknowledges above `flushed_end_offset`.
* A log that ends below its latest snapshot, or holds a record of another epoch where the snapshot ends, begins again at
  the snapshot's end: the crash came between the snapshot's rename and the end of the truncation.
* The log begins at 0 or at the end offset of a snapshot (`start_id`). Retention (`metadata.max.retention.*`) moves it
  to the next snapshot's end; segments and snapshots below go, the latest snapshot never.
* What is below the recovery point was flushed: damage there is refused when the log is opened, never cut away, for a
  voter that forgets committed records could help to elect a leader without them.
* The epoch of the last record is the latest snapshot's where the log is empty above it.

One caller at a time changes the log: `log_owner`. Errors: CorruptLogError and CorruptFileError when it is opened,
OSError and KAFKA_STORAGE_ERROR when a write or an fsync fails. After these the log is closed to everybody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, Self

from ...log import LogLocation, PartitionLog
from ...log.core import (
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    CorruptFileError,
    LeaderEpochCache,
    decode_offsets,
    decode_partition_metadata,
    encode_offsets,
    encode_partition_metadata,
)
from ...log.disk import Disk, make_directory_durably
from ...log.segment import LogSlice, OpenSegments
from ...protocol import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from ...protocol.fetch import SnapshotId
from ..core.config import MetadataLogConfig
from .snapshots import SnapshotStore

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
CATCH_UP_READ_BYTES: Final = 1024 * 1024
RECOVERY_POINT_EVERY: Final = 1000
"""Records flushed before their checkpoint follows."""

_logger = logging.getLogger(__name__)


class _RecoveryPoint:
    """The keeper of the log: up to where it was flushed, in a checkpoint in the log's own directory.

    Raised now and then without an fsync, for an older one is safe; lowered durably.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path = directory / RECOVERY_POINT_CHECKPOINT
        self.log: PartitionLog
        self._saved = 0

    async def load(self) -> int:
        """0 where it is not known: a machine crash may leave an unsynced file empty or cut."""
        if not await self._disk.exists(self._path):
            return 0
        try:
            offsets = decode_offsets(await self._disk.read_file(self._path), name=str(self._path))
        except CorruptFileError as error:
            _logger.warning("%s; the whole log is looked at", error)
            return 0
        self._saved = offsets.get(METADATA_PARTITION, 0)
        return self._saved

    async def opened(self) -> None:
        """After recovery, which may have cut the log."""
        if self.log.state.offsets.recovery_point != self._saved:
            await self._save(sync=True)

    async def save_log_start_offsets(self) -> None:
        """The log start is a snapshot's end."""

    async def ensure_log_start_saved(self, partition: TopicPartition) -> None:
        """There is nothing to wait for: the log start is a snapshot's end."""

    async def save_recovery_points(self) -> None:
        await self._save(sync=True)

    async def flushed(self) -> None:
        """After a flush."""
        if self.log.state.offsets.recovery_point - self._saved >= RECOVERY_POINT_EVERY:
            await self._save(sync=False)

    def segment_closed(self) -> None:
        """Every append is flushed anyway."""

    @property
    def accepts_clients(self) -> bool:
        """No client produces to it."""
        return True

    @property
    def accepts_replicas(self) -> bool:
        """The room that data leaves on the disk is for this log."""
        return True

    def has_room_for(self, size_bytes: int) -> bool:
        """As `accepts_replicas`."""
        return True

    def writing(self, size_bytes: int) -> AbstractContextManager[None]:
        """Nothing depends on it."""
        return nullcontext()

    async def _save(self, *, sync: bool) -> None:
        point = self.log.state.offsets.recovery_point
        await self._disk.write_file(self._path, encode_offsets({METADATA_PARTITION: point}), sync=sync)
        self._saved = point


class MetadataLog:
    """Open it with `open`."""

    def __init__(
        self,
        log: PartitionLog,
        snapshots: SnapshotStore,
        keeper: _RecoveryPoint,
        config: MetadataLogConfig,
        now_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._keeper = keeper
        self.snapshots = snapshots
        self._config = config
        self._now_ms = now_ms

    @classmethod
    async def open(cls, disk: Disk, log_dir: Path, config: MetadataLogConfig, now_ms: Callable[[], int]) -> Self:
        """Open the log below `log_dir`, made if it is absent."""
        directory = log_dir / str(METADATA_PARTITION)
        await _make_directory(disk, directory)
        snapshots = SnapshotStore(disk, directory, config.snapshot_bytes_max)
        await snapshots.load()
        keeper = _RecoveryPoint(disk, directory)
        location = LogLocation(
            topic_partition=METADATA_PARTITION,
            directory=directory,
            disk=disk,
            config=config.log_config,
            keeper=keeper,
            open_segments=OpenSegments(),
            now_ms=now_ms,
            is_clean=False,
            recovery_point=await keeper.load(),
        )
        log = keeper.log = await PartitionLog.open(location)
        latest = snapshots.latest
        if latest is not None and not _is_cut_from(log, latest):
            await log.truncate_fully_and_start_at(latest.end_offset)
        await log.flush()
        await keeper.opened()
        opened = cls(log, snapshots, keeper, config, now_ms)
        await opened._begin_at_a_snapshot()
        return opened

    # Offsets.

    @property
    def log_start_offset(self) -> int:
        return self._log.state.log_start_offset

    @property
    def start_id(self) -> SnapshotId:
        """The log start and the epoch of the record before it: a snapshot's id, or 0 and 0."""
        start = self._log.state.log_start_offset
        found = [known for known in self.snapshots.ids if known.end_offset == start]
        assert found or start == 0, f"the log begins at {start}, the snapshots end at {self.snapshots.ids}"
        return found[-1] if found else SnapshotId(0, 0)

    @property
    def log_end_offset(self) -> int:
        return self._log.state.log_end_offset

    @property
    def flushed_end_offset(self) -> int:
        """Below it everything survives a crash of the machine."""
        return self._log.state.offsets.recovery_point

    @property
    def high_watermark(self) -> int:
        return self._log.state.high_watermark

    @property
    def epochs(self) -> LeaderEpochCache:
        """To look into."""
        return self._log.state.epochs

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the log or in the latest snapshot; 0 of an empty log, as in Kafka."""
        latest = self.snapshots.latest
        return max(self._log.state.epochs.latest_epoch, 0 if latest is None else latest.epoch)

    @property
    def failure(self) -> str | None:
        return self._log.state.failure

    # Changes.

    async def append(self, data: bytearray | bytes | memoryview) -> int:
        """Append whole batches as they are; return the log end after them, visible but not durable yet."""
        await self._log.append_as_follower(data)
        return self._log.state.log_end_offset

    async def flush(self) -> int:
        """Make everything durable that was appended; where that ends."""
        await self._log.flush()
        await self._keeper.flushed()
        return self._log.state.offsets.recovery_point

    async def truncate_to(self, offset: int) -> int:
        """Cut every batch that holds `offset` or more; the new log end, durable."""
        assert offset >= self._log.state.high_watermark, (
            f"truncating to {offset} cuts committed {self._log.state.high_watermark}"
        )
        return await self._log.truncate_to(offset)

    async def begin_at_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Empty the log; it continues after a snapshot that is on this disk."""
        assert snapshot_id in self.snapshots.ids, snapshot_id
        await self._log.truncate_fully_and_start_at(snapshot_id.end_offset)
        await self.snapshots.remove_before(snapshot_id)

    def update_high_watermark(self, offset: int) -> None:
        self._log.update_high_watermark(offset)

    async def clean(self) -> bool:
        """Move the log start to the next snapshot's end as long as retention asks for it; whether it did."""
        is_moved = False
        while (snapshot_id := self._next_start()) is not None:
            await self.snapshots.remove_before(snapshot_id)
            await self._raise_log_start(snapshot_id.end_offset)
            is_moved = True
        return is_moved

    def _next_start(self) -> SnapshotId | None:
        """The next snapshot that the log could begin with, if what is below it is too much or too old."""
        start = self._log.state.log_start_offset
        following = next((known for known in self.snapshots.ids if known.end_offset > start), None)
        if following is None or following.end_offset > self._log.state.log_end_offset:
            return None
        config = self._config
        if 0 <= config.retention_bytes < self._log.state.segments.size_bytes + self.snapshots.size_bytes:
            return following
        older = [
            item
            for item in self._log.state.segments.as_tuple()
            if not item.is_active and item.next_offset <= following.end_offset
        ]
        is_old = older and 0 <= config.retention_ms < self._now_ms() - older[0].max_timestamp_ms
        return following if is_old else None

    async def _raise_log_start(self, offset: int) -> None:
        self._log.update_high_watermark(offset)  # a snapshot holds only what is committed
        await self._log.increment_log_start_offset(offset)
        await self._log.delete_old_segments_by_log_start()

    async def _begin_at_a_snapshot(self) -> None:
        """A removal of segments that a crash cut short, or Kafka's own, leaves the first one below a snapshot's end."""
        start = self._log.state.log_start_offset
        if start == 0 or any(known.end_offset == start for known in self.snapshots.ids):
            return
        following = next((known for known in self.snapshots.ids if known.end_offset > start), None)
        if following is None:
            raise CorruptFileError(
                f"{self._log.state.directory}: the log begins at offset {start}, and no snapshot covers what is below"
                " it: restore the snapshot, or remove the directory to have this replica fetch everything again"
            )
        await self.snapshots.remove_before(following)
        await self._raise_log_start(following.end_offset)

    # Reading.

    async def read(self, offset: int, *, max_bytes: int, max_offset: int) -> LogSlice:
        """As `PartitionLog.read`; release the slice."""
        return await self._log.read(offset, max_bytes=max_bytes, max_offset=max_offset)

    async def read_bytes(self, offset: int, *, max_offset: int, max_bytes: int = CATCH_UP_READ_BYTES) -> bytes:
        """Whole batches, the first of which holds `offset`."""
        with await self._log.read(offset, max_bytes=max_bytes, max_offset=max_offset) as found:
            return await found.read()

    async def close(self) -> None:
        """Flushed, unless it has failed; then nothing more is written."""
        await self.snapshots.close()
        if self._log.state.failure is None:
            await self._log.close()
            await self._keeper.save_recovery_points()
        else:
            await self._log.abandon()


def _is_cut_from(log: PartitionLog, snapshot: SnapshotId) -> bool:
    """Return whether the snapshot was cut from this log, as far as epochs show; else it was fetched to replace it."""
    last_epoch = log.state.epochs.epoch_for_offset(snapshot.end_offset - 1)
    return log.state.log_end_offset >= snapshot.end_offset and last_epoch in (None, snapshot.epoch)


async def _make_directory(disk: Disk, directory: Path) -> None:
    """Create the directory with the topic's id, durably."""
    path = directory / PARTITION_METADATA
    if await disk.exists(path):
        decode_partition_metadata(await disk.read_file(path), name=str(path))
        return
    await make_directory_durably(disk, directory)
    await disk.write_file(path, encode_partition_metadata(METADATA_TOPIC_ID))
