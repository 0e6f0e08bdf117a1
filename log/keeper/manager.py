"""All logs of one node, in one or several log directories: opened at start; created, deleted and maintained (`upkeep`)
meanwhile; closed at the end.

    identify -> load -> [create | delete | adopt | reopen] -> close

* A partition is in one directory: the one that was requested for it (`prefer`), else the one that had the fewest
  partitions when it was created. `future_logs` moves it to another one.
* A log is named after its topic and identified by its topic id. A directory with another id belongs to another
  incarnation: it is moved to `-stray` and kept for an operator, never mixed with the new topic's data.
* A deleted log's directory is moved to `-delete`, durably and with its checkpoint entries, before `delete` returns; its
  files are removed after `file.delete.delay.ms`.
* Changes of one partition run one after another, each to its end.
* A directory that cannot be opened at the start, or whose disk no longer accepts writes, is offline until the next
  start: its partitions have failed, the others continue. The first directory, which holds more than logs, must be
  there.
* A partition in two directories (recreated while one was offline) is kept where the cluster has it assigned; the other
  is moved to `-stray`. If the cluster does not know, the node does not start.

The manager does not know leaders. It gets a topic's configuration from `config_of`, which must know every topic before
`load`, with all changes made while this node was down: a tiered log that is opened as an untiered one would forget that
it begins in the tier. So `identify`, which gives the directory ids for the registration, opens no log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

from ...protocol import ErrorCode, KafkaError, TopicPartition, check_topic_name
from ..core.checkpoints import PARTITION_METADATA, decode_partition_metadata, encode_partition_metadata
from ..core.errors import CorruptFileError
from ..core.file_names import DELETE_SUFFIX, STRAY_SUFFIX, UNSYNCED_FILE, marked_directory
from ..disk.run_to_completion import run_to_completion
from ..partition_log import PartitionLog
from .log_directory import NO_BROKER_EPOCH, LogDirectory, LogServices
from .side_directories import resolve_adoptions
from .upkeep import LogUpkeep, UpkeepSettings

logger = logging.getLogger(__name__)

DEFAULT_UPKEEP: Final = UpkeepSettings()
PREFERENCES_MAX: Final = 10_000
"""The number of partitions without a log whose requested directory is remembered; beyond it the oldest is forgotten."""
TRIAL_BYTES_MIN: Final = 4096
TRIAL_BYTES_MAX: Final = 4 * 1024 * 1024
"""The size of one follower fetch."""


class LogManager:
    """The manager of a node's logs, see the module's docstring. `upkeep` does the background work."""

    def __init__(
        self,
        log_dirs: Sequence[Path],
        services: LogServices,
        *,
        cluster_id: str,
        node_id: int,
        directory_of: Callable[[TopicPartition], UUID | None] = lambda _: None,
        upkeep: UpkeepSettings = DEFAULT_UPKEEP,
    ) -> None:
        assert log_dirs, "a node needs a log directory"
        self.services = services
        self.directories = tuple(LogDirectory(path, services, directory_of) for path in log_dirs)
        self.upkeep = LogUpkeep(self.directories, upkeep)
        self._directory_of = directory_of
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        """The directories that were requested for partitions without a log."""
        self._placing: dict[TopicPartition, LogDirectory] = {}
        """The partitions that are being created, and their directories."""
        self._locks: WeakValueDictionary[TopicPartition, asyncio.Lock] = WeakValueDictionary()
        self.broker_epoch = NO_BROKER_EPOCH
        """The broker epoch for the clean-shutdown marker, which the next run registers with."""

    # Look-ups.

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """A copy of the open logs of all directories."""
        return {partition: log for directory in self.directories for partition, log in directory.logs.items()}

    @property
    def failures(self) -> Mapping[TopicPartition, KafkaError]:
        """The partitions whose log could not be opened, with the error."""
        return {partition: error for directory in self.directories for partition, error in directory.failures.items()}

    @property
    def known_partitions(self) -> frozenset[TopicPartition]:
        """The partitions with a log here, whether it could be opened or not; without offline directories."""
        online = [directory for directory in self.directories if directory.offline is None]
        return frozenset(name for directory in online for name in (*directory.logs, *directory.failures))

    def may_open_again(self, partition: TopicPartition) -> bool:
        """Return whether the log failed for a reason outside its files, such as a full disk."""
        failure = self.failures.get(partition)
        return failure is not None and isinstance(failure.__cause__, OSError)

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch that the previous run left; -1 unless all directories agree."""
        epochs = {directory.previous_broker_epoch for directory in self.directories if directory.offline is None}
        return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        """The ids of the directories that were identified."""
        return tuple(directory.directory_id for directory in self.directories if directory.directory_id.int)

    @property
    def offline_directory_ids(self) -> tuple[UUID, ...]:
        """The ids of the directories that were identified and have gone offline since."""
        return tuple(
            directory.directory_id
            for directory in self.directories
            if directory.directory_id.int and directory.offline is not None
        )

    def directory_id_of(self, partition: TopicPartition) -> UUID | None:
        """Return the id of the directory with the partition's open log, or None."""
        for directory in self.directories:
            if partition in directory.logs:
                return directory.directory_id
        return None

    def future_of(self, partition: TopicPartition) -> tuple[LogDirectory, PartitionLog] | None:
        """Return the partition's future log, and its directory; None without one."""
        for directory in self.directories:
            if partition in directory.futures:
                return directory, directory.futures[partition]
        return None

    def prefer(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Create the log of a partition there, when it is created."""
        self._preferred.pop(partition, None)
        if len(self._preferred) >= PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[partition] = directory

    def open_log(self, partition: TopicPartition) -> PartitionLog | None:
        """Return the partition's log if it is open, else None."""
        for directory in self.directories:
            if (log := directory.logs.get(partition)) is not None:
                return log
        return None

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        """Return the partition's log, or None. Raise KAFKA_STORAGE_ERROR, with the remedy, if it failed to open."""
        for directory in self.directories:
            log = directory.logs.get(partition)
            if log is not None:
                return log
            if partition in directory.failures:
                error = directory.failures[partition]
                raise KafkaError(error.code, error.message)
        return None

    # Start and shutdown.

    async def identify(self) -> None:
        """Lock the directories and read their ids. LogDirectoryLockedError, INCONSISTENT_CLUSTER_ID, CorruptFileError
        for `meta.properties`, or OSError mean that the node cannot start.
        """
        await self._start_each(lambda directory: directory.identify(self._cluster_id, self._node_id))
        for directory in self.directories:
            if directory.offline is not None:
                directory.directory_id = UUID(int=0)

    async def load(self) -> None:
        """Open all logs. OSError, or two logs of one partition, mean that the node cannot start."""
        await self._start_each(LogDirectory.open)
        seen: dict[TopicPartition, LogDirectory] = {}
        for directory in self.directories:
            for partition in (*directory.logs, *directory.failures):
                other = seen.setdefault(partition, directory)
                if other is not directory:
                    seen[partition] = await self._choose_directory(partition, other, directory)
        await self._resolve_futures(frozenset(seen))

    async def _start_each(self, work: Callable[[LogDirectory], Awaitable[None]]) -> None:
        """Do this part of the start in all online directories at the same time: none waits for another one's disk.
        Raise what is no OSError once all have ended.
        """
        online = [directory for directory in self.directories if directory.offline is None]
        outcomes = await asyncio.gather(*(work(directory) for directory in online), return_exceptions=True)
        for directory, outcome in zip(online, outcomes, strict=True):
            if isinstance(outcome, OSError):
                await self._start_offline(directory, outcome)
            elif outcome is not None:
                raise outcome

    async def _resolve_futures(self, partitions: frozenset[TopicPartition]) -> None:
        """Keep one future log of each partition with a current log, which may be in a directory that is offline."""
        is_any_offline = any(directory.offline is not None for directory in self.directories)
        resolved: set[TopicPartition] = set()
        for directory in self.directories:
            for partition in list(directory.futures):
                if partition in resolved:
                    await directory.drop_future(partition, self.unique())
                elif partition not in partitions and not is_any_offline:
                    await self._put_future_aside(directory, partition)
                resolved.add(partition)

    async def _put_future_aside(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """Move a future log without its current log to `-stray`: it may be incomplete, and the only copy."""
        log = directory.futures.pop(partition)
        aside = marked_directory(directory.path / str(partition), self.unique(), STRAY_SUFFIX)
        logger.error("%s has no current log, and may be incomplete: it is moved to %s", log.state.directory, aside.name)
        await directory.removals.abandon(log)
        await self.services.disk.rename(log.state.directory, aside)
        await self.services.disk.sync_directory(directory.path)

    async def _start_offline(self, directory: LogDirectory, error: OSError) -> None:
        """Mark a directory as offline and continue without it; raise the error if it is the first directory."""
        if directory is self.directories[0]:
            raise error
        logger.error(
            "log directory %s is offline until the next start: %s; check the disk, then restart", directory.path, error
        )
        await directory.take_offline(str(error))

    async def _choose_directory(self, partition: TopicPartition, *candidates: LogDirectory) -> LogDirectory:
        """Choose between the two directories with a log of the partition; move the other log aside."""
        directory_id = self._directory_of(partition)
        kept = [directory for directory in candidates if directory.directory_id == directory_id]
        if len(kept) != 1:
            paths = " and in ".join(str(directory.path) for directory in candidates)
            raise KafkaError(
                ErrorCode.kafka_storage_error,
                f"{partition} is in {paths}, and must be in one log directory: remove one of the two",
            )
        for directory in candidates:
            if directory not in kept:
                logger.warning(
                    "%s belongs in %s: the copy in %s is moved to a -stray directory",
                    partition,
                    kept[0].path,
                    directory.path,
                )
                await self.put_aside(directory, partition, STRAY_SUFFIX)
        return kept[0]

    @run_to_completion
    async def close(self) -> None:
        """Close every log and directory; `run` has ended. Raise the first OSError after all were tried."""
        outcomes = await asyncio.gather(
            *(directory.close(self.broker_epoch) for directory in self.directories), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    # Changes.

    @run_to_completion
    async def create(
        self, partition: TopicPartition, topic_id: UUID, *, directory_id: UUID | None = None
    ) -> PartitionLog:
        """Return the log of this incarnation of the topic: the existing one, or a new, empty one.

        `directory_id` is the directory that the cluster has assigned. KAFKA_STORAGE_ERROR if the log exists and cannot
        be opened, or may be in a directory that is offline.
        """
        check_topic_name(partition.topic)
        async with self.changing(partition) as directory:
            self._check_not_offline(directory, partition, directory_id)
            stored_id = await self._topic_id_here(directory, partition)
            # Another incarnation's data is moved, never deleted here: only the controller's deletion may delete it.
            if stored_id is not None and stored_id != topic_id:
                logger.warning(
                    "%s has topic id %s on disk, expected %s: it is moved to a -stray directory",
                    partition,
                    stored_id,
                    topic_id,
                )
                await self._drop_futures(partition)
                await self.put_aside(directory, partition, STRAY_SUFFIX)
            log = self.get(partition)
            if log is None:
                log = await self._create(directory, partition, topic_id)
                self._preferred.pop(partition, None)
            elif log.state.topic_id is None:
                await log.assign_topic_id(topic_id)
            log.update_config(self.services.config_of(partition.topic))
            return log

    @run_to_completion
    async def delete(self, partition: TopicPartition) -> None:
        """Delete a partition's log, if there is one; the deletion is durable when this returns."""
        async with self.changing(partition) as directory:
            self._preferred.pop(partition, None)
            # First: without its current log it would be an incomplete replica.
            await self._drop_futures(partition)
            if directory.offline is not None:
                directory.failures.pop(partition, None)
                return
            await self.put_aside(directory, partition)
            # A new topic of this name must not inherit the entries of the deleted log.
            if directory.checkpoints.may_have_entry(partition):
                await directory.checkpoints.save_all()

    @run_to_completion
    async def reopen(self, partition: TopicPartition) -> PartitionLog:
        """Reopen a failed log as after a crash, and rewrite what a failed fsync may have dropped. Raise KafkaError or
        OSError if it fails again.
        """
        async with self.changing(partition) as directory:
            live = directory.path / str(partition)
            # The directory may be missing if an adoption ended half-way.
            if directory.offline is None and await self.services.disk.exists(live):
                await self.services.disk.write_file(live / UNSYNCED_FILE, b"")
            return await self.reopen_locked(directory, partition)

    @run_to_completion
    async def try_append(self, partition: TopicPartition, size_bytes: int) -> None:
        """Prove that the open log accepts an append of that size, within limits. Raise OSError or KafkaError if not
        (see `PartitionLog.try_append`).
        """
        async with self.changing(partition):
            log = self.get(partition)
            assert log is not None, partition
            size = min(max(size_bytes, TRIAL_BYTES_MIN), TRIAL_BYTES_MAX)
            await log.try_append(self.services.rng.randbytes(size))

    async def topic_id_of(self, partition: TopicPartition) -> UUID | None:
        """Return the topic id of the log on disk, also if it failed to open; None without one. Raise OSError."""
        async with self.changing(partition) as directory:
            return await self._topic_id_here(directory, partition)

    # For changes of a partition.

    @asynccontextmanager
    async def changing(self, partition: TopicPartition) -> AsyncIterator[LogDirectory]:
        """Yield a partition's directory, or the one for a new partition; one change of a partition at a time."""
        async with self._locks.setdefault(partition, asyncio.Lock()):
            for directory in self.directories:
                if partition in directory.logs or partition in directory.failures:
                    yield directory
                    return
            usable = [directory for directory in self.directories if directory.offline is None]
            if not usable:
                raise self.directories[0].offline_error()
            directory = self._preferred.get(partition) or usable[0]
            if directory.offline is not None or partition not in self._preferred:
                directory = min(usable, key=self._load_of)
            self._placing[partition] = directory
            try:
                yield directory
            finally:
                del self._placing[partition]

    async def _drop_futures(self, partition: TopicPartition) -> None:
        for directory in self.directories:
            await directory.drop_future(partition, self.unique())

    def _load_of(self, directory: LogDirectory) -> int:
        placing = sum(other is directory for other in self._placing.values())
        return len(directory.logs) + len(directory.failures) + placing

    def unique(self) -> str:
        """Return a unique part for the name of a marked directory."""
        return f"{self.services.rng.getrandbits(128):032x}"

    async def put_aside(self, directory: LogDirectory, partition: TopicPartition, marker: str = DELETE_SUFFIX) -> None:
        """Close the log and move its directory to a marked name, durably; do nothing if there is neither.

        After an OSError the log has failed and `may_open_again`, unless its directory was moved, though not durably.
        """
        log = directory.logs.pop(partition, None)
        live = directory.path / str(partition)
        going = marked_directory(live, self.unique(), marker)
        try:
            if log is not None:
                await directory.removals.abandon(log)
            is_here = await self.services.disk.exists(live)
            if is_here:
                await self.services.disk.rename(live, going)
        except OSError as error:
            failure = KafkaError(ErrorCode.kafka_storage_error, f"{live} could not be moved to {going.name}: {error}")
            failure.__cause__ = error
            directory.failures[partition] = failure
            raise
        directory.failures.pop(partition, None)
        if is_here:
            await self.services.disk.sync_directory(directory.path)
            if marker == DELETE_SUFFIX:
                delay_ms = self.services.config_of(partition.topic).file_delete_delay_ms
                directory.removals.add_directory(going, delay_ms)

    async def reopen_locked(self, directory: LogDirectory, partition: TopicPartition) -> PartitionLog:
        """Reopen as `reopen` does; the caller is `changing` the partition."""
        if directory.offline is not None:
            raise directory.offline_error()
        log = directory.logs.pop(partition, None)
        directory.failures.setdefault(
            partition, KafkaError(ErrorCode.kafka_storage_error, f"the log of {partition} is being reopened")
        )
        if log is not None:
            await directory.removals.abandon(log)
        await resolve_adoptions(self.services.disk, directory.path, partition)
        reopened = await directory.open_log(partition)
        await directory.save_recovery_points()
        return reopened

    def _check_not_offline(self, directory: LogDirectory, partition: TopicPartition, directory_id: UUID | None) -> None:
        """Raise KAFKA_STORAGE_ERROR if the log may be in an offline directory: a new, empty one must not replace it."""
        usable = {known.directory_id for known in self.directories if known.offline is None}
        if partition in directory.logs or directory_id is None or directory_id in usable:
            return
        for other in self.directories:
            if other.offline is not None:
                raise KafkaError(
                    ErrorCode.kafka_storage_error,
                    f"{partition} is assigned to a log directory that is not online, and {other.path} is offline: "
                    f"{other.offline}; repair the disk and restart",
                )

    async def _create(self, directory: LogDirectory, partition: TopicPartition, topic_id: UUID) -> PartitionLog:
        if directory.checkpoints.may_have_entry(partition):
            await directory.checkpoints.save_all()
        live = directory.path / str(partition)
        await self.services.disk.make_directory(live)
        await self.services.disk.write_file(live / PARTITION_METADATA, encode_partition_metadata(topic_id))
        await self.services.disk.sync_directory(directory.path)
        return await directory.open_log(partition)

    async def _topic_id_here(self, directory: LogDirectory, partition: TopicPartition) -> UUID | None:
        log = directory.logs.get(partition)
        if log is not None or partition not in directory.failures:
            return log.state.topic_id if log is not None else None
        path = directory.path / str(partition) / PARTITION_METADATA
        try:
            return decode_partition_metadata(await self.services.disk.read_file(path), name=str(path))
        except (FileNotFoundError, CorruptFileError):
            return None
