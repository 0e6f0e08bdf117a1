"""All logs of one node, in one or several log directories: opened at start; made, deleted, and looked after (`upkeep`)
meanwhile; closed at the end.

    identify -> load -> [create | delete | adopt | reopen] -> close

* A partition is in one directory: the one with the fewest partitions when it was made.
* What a log is called is its topic's name; what it is, its topic id. A directory with another id belongs to another
  incarnation: it is moved to `-stray` and kept for a person to look at, never mixed with the new one's data.
* A deleted log's directory is moved to `-delete`, durably and with its checkpoint entries, before `delete` returns; its
  files go after `file.delete.delay.ms`.
* Changes of one partition are made one after another, and run to their end.
* A directory that cannot be opened at the start, or whose disk takes nothing any more, is offline until the next start:
  its partitions have failed, the others go on. The first one, where the node keeps more than logs, must be there.
* A partition that is found in two directories (it was made anew while one was offline) is the one where the cluster
  believes it to be; the other goes to `-stray`. Where the cluster does not know, the node does not start.

It does not know who leads; a topic's configuration is asked of `config_of`, which must know every topic before `load`,
and all that was changed of it while this node was away: a tiered log that is opened as an untiered one would forget
that it begins in the tier. So `identify`, which tells what a broker registers with, opens none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import TopicPartition, check_topic_name
from ..core.checkpoints import PARTITION_METADATA, decode_partition_metadata, encode_partition_metadata
from ..core.config import LogConfig
from ..core.errors import CorruptFileError
from ..core.file_names import DELETE_SUFFIX, STRAY_SUFFIX, UNSYNCED_FILE, marked_directory
from ..disk.directory_lock import lock_directory
from ..disk.port import Disk
from ..disk.run_to_completion import run_to_completion
from ..partition_log import PartitionLog
from ..segment.open_limit import SEGMENTS_MAX, OpenSegments
from .log_directory import NO_BROKER_EPOCH, HeldLock, LogDirectory, LogServices
from .removals import Removals
from .side_directories import resolve_adoptions
from .upkeep import LogUpkeep, UpkeepSettings

logger = logging.getLogger(__name__)

DEFAULT_UPKEEP: Final = UpkeepSettings()
TRIAL_BYTES_MIN: Final = 4096
TRIAL_BYTES_MAX: Final = 4 * 1024 * 1024
"""As much as a follower fetches at a time."""


class LogManager:
    """See the module's docstring. What its logs need now and then is `upkeep`."""

    def __init__(
        self,
        log_dirs: Sequence[Path],
        disk: Disk,
        *,
        cluster_id: str,
        node_id: int,
        config_of: Callable[[str], LogConfig],
        directory_of: Callable[[TopicPartition], UUID | None] = lambda _: None,
        rng: Random,
        now_ms: Callable[[], int],
        upkeep: UpkeepSettings = DEFAULT_UPKEEP,
        lock: Callable[[Path], HeldLock] = lock_directory,
        open_segments_max: int = SEGMENTS_MAX,
    ) -> None:
        assert log_dirs, "a node needs a log directory"
        self.services = LogServices(
            disk=disk,
            rng=rng,
            now_ms=now_ms,
            open_segments=OpenSegments(open_segments_max),
            config_of=config_of,
            lock=lock,
            flush_wanted=asyncio.Event(),
        )
        self.directories = tuple(LogDirectory(path, self.services) for path in log_dirs)
        self._removals = Removals(disk)
        self.upkeep = LogUpkeep(self.directories, upkeep, self._removals, self.services.flush_wanted)
        self._directory_of = directory_of
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._placing: dict[TopicPartition, LogDirectory] = {}
        """Partitions that are on their way into a directory."""
        self._locks: WeakValueDictionary[TopicPartition, asyncio.Lock] = WeakValueDictionary()
        self.broker_epoch = NO_BROKER_EPOCH
        """Left in the clean-shutdown marker, for the registration of the next run."""

    # What is there.

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """The open logs of all directories, a copy."""
        return {partition: log for directory in self.directories for partition, log in directory.logs.items()}

    @property
    def failures(self) -> Mapping[TopicPartition, KafkaError]:
        """Partitions whose log could not be opened, and why."""
        return {partition: error for directory in self.directories for partition, error in directory.failures.items()}

    @property
    def known_partitions(self) -> frozenset[TopicPartition]:
        """Partitions that have a log here, whether it could be opened or not; none of directories that are offline."""
        online = [directory for directory in self.directories if directory.offline is None]
        return frozenset(name for directory in online for name in (*directory.logs, *directory.failures))

    def may_open_again(self, partition: TopicPartition) -> bool:
        """Whether its log could not be opened for a reason outside of its files: a disk that was full, say."""
        failure = self.failures.get(partition)
        return failure is not None and isinstance(failure.__cause__, OSError)

    @property
    def previous_broker_epoch(self) -> int:
        """What the run before left there; -1 unless every directory says the same."""
        epochs = {directory.previous_broker_epoch for directory in self.directories if directory.offline is None}
        return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        """Of those that were identified."""
        return tuple(directory.directory_id for directory in self.directories if directory.directory_id.int)

    @property
    def offline_directory_ids(self) -> tuple[UUID, ...]:
        """Of those that were identified, and went offline since."""
        return tuple(
            directory.directory_id
            for directory in self.directories
            if directory.directory_id.int and directory.offline is not None
        )

    def directory_id_of(self, partition: TopicPartition) -> UUID | None:
        """Where its log is open; None if it is not."""
        for directory in self.directories:
            if partition in directory.logs:
                return directory.directory_id
        return None

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        """None if there is none; KAFKA_STORAGE_ERROR, with what to do, if it could not be opened."""
        for directory in self.directories:
            log = directory.logs.get(partition)
            if log is not None:
                return log
            if partition in directory.failures:
                error = directory.failures[partition]
                raise KafkaError(error.code, error.message)
        return None

    # Beginning and end.

    async def identify(self) -> None:
        """Lock the directories and learn their ids. LogDirectoryLockedError, INCONSISTENT_CLUSTER_ID, CorruptFileError
        of `meta.properties`, or OSError mean that the node cannot start.
        """
        for directory in self.directories:
            try:
                await directory.identify(self._cluster_id, self._node_id)
            except OSError as error:
                await self._start_offline(directory, error)
                directory.directory_id = UUID(int=0)

    async def load(self) -> None:
        """Open everything. OSError, or two logs of one partition, mean that the node cannot start."""
        for directory in self.directories:
            if directory.offline is None:
                try:
                    await directory.open()
                except OSError as error:
                    await self._start_offline(directory, error)
        seen: dict[TopicPartition, LogDirectory] = {}
        for directory in self.directories:
            for partition in (*directory.logs, *directory.failures):
                other = seen.setdefault(partition, directory)
                if other is not directory:
                    seen[partition] = await self._choose_directory(partition, other, directory)

    async def _start_offline(self, directory: LogDirectory, error: OSError) -> None:
        """The node goes on without it."""
        if directory is self.directories[0]:
            raise error
        logger.error("log directory %s is offline: %s", directory.path, error)
        self._removals.logs += await directory.take_offline(str(error))

    async def _choose_directory(self, partition: TopicPartition, *candidates: LogDirectory) -> LogDirectory:
        """Of the two directories with a log of the partition."""
        directory_id = self._directory_of(partition)
        kept = [directory for directory in candidates if directory.directory_id == directory_id]
        if len(kept) != 1:
            paths = " and in ".join(str(directory.path) for directory in candidates)
            raise KafkaError(ErrorCode.kafka_storage_error, f"{partition} is in {paths}: remove one of the two")
        for directory in candidates:
            if directory not in kept:
                logger.warning("%s belongs to %s: what is in %s is put aside", partition, kept[0].path, directory.path)
                await self.put_aside(directory, partition, STRAY_SUFFIX)
        return kept[0]

    @run_to_completion
    async def close(self) -> None:
        """Close every log and directory; `run` has ended. The first OSError is raised after all were tried."""
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
        """The log of this incarnation of the topic: the one that is here, or a new, empty one.

        `directory_id`: where the cluster believes it to be. KAFKA_STORAGE_ERROR if it is here and cannot be opened, or
        may lie in a directory that is offline.
        """
        check_topic_name(partition.topic)
        async with self.changing(partition) as directory:
            self._check_not_offline(directory, partition, directory_id)
            stored_id = await self._topic_id_here(directory, partition)
            if stored_id is not None and stored_id != topic_id:
                logger.warning("%s is here with topic id %s, not %s: it is put aside", partition, stored_id, topic_id)
                await self.put_aside(directory, partition, STRAY_SUFFIX)
            log = self.get(partition)
            if log is None:
                log = await self._create(directory, partition, topic_id)
            elif log.topic_id is None:
                await log.assign_topic_id(topic_id)
            log.update_config(self.services.config_of(partition.topic))
            return log

    @run_to_completion
    async def delete(self, partition: TopicPartition) -> None:
        """Delete a partition's log, if there is one; durable when it returns."""
        async with self.changing(partition) as directory:
            if directory.offline is not None:
                directory.failures.pop(partition, None)
                return
            await self.put_aside(directory, partition)
            if directory.checkpoints.may_have_entry(partition):
                await directory.checkpoints.save_all()

    @run_to_completion
    async def reopen(self, partition: TopicPartition) -> PartitionLog:
        """Open a failed log again, as after a crash; what an fsync may have given up is written again. KafkaError or
        OSError if it fails again.
        """
        async with self.changing(partition) as directory:
            live = directory.path / str(partition)
            # It may not be there: an adoption has ended half-way.
            if directory.offline is None and await self.services.disk.exists(live):
                await self.services.disk.write_file(live / UNSYNCED_FILE, b"")
            return await self.reopen_locked(directory, partition)

    @run_to_completion
    async def try_append(self, partition: TopicPartition, size_bytes: int) -> None:
        """Prove that the log, which is open, takes an append of that size, within limits. OSError or KafkaError if it
        does not (see `PartitionLog.try_append`).
        """
        async with self.changing(partition):
            log = self.get(partition)
            assert log is not None, partition
            size = min(max(size_bytes, TRIAL_BYTES_MIN), TRIAL_BYTES_MAX)
            await log.try_append(self.services.rng.randbytes(size))

    async def topic_id_of(self, partition: TopicPartition) -> UUID | None:
        """Of the incarnation whose log is here, also if it could not be opened. OSError."""
        async with self.changing(partition) as directory:
            return await self._topic_id_here(directory, partition)

    # For who changes a partition.

    @asynccontextmanager
    async def changing(self, partition: TopicPartition) -> AsyncIterator[LogDirectory]:
        """The directory of a partition, its own or the one a new one belongs into; one change of it at a time."""
        async with self._locks.setdefault(partition, asyncio.Lock()):
            for directory in self.directories:
                if partition in directory.logs or partition in directory.failures:
                    yield directory
                    return
            usable = [directory for directory in self.directories if directory.offline is None]
            if not usable:
                raise self.directories[0].offline_error()
            directory = self._placing[partition] = min(usable, key=self._load_of)
            try:
                yield directory
            finally:
                del self._placing[partition]

    def _load_of(self, directory: LogDirectory) -> int:
        placing = sum(other is directory for other in self._placing.values())
        return len(directory.logs) + len(directory.failures) + placing

    def unique(self) -> str:
        """A name for a marked directory."""
        return f"{self.services.rng.getrandbits(128):032x}"

    async def put_aside(self, directory: LogDirectory, partition: TopicPartition, marker: str = DELETE_SUFFIX) -> None:
        """Close the log and move its directory to a marked name, durably; nothing happens where there is neither.

        OSError. The log has failed then, and `may_open_again`; unless its directory was moved, if not durably.
        """
        log = directory.logs.pop(partition, None)
        live = directory.path / str(partition)
        going = marked_directory(live, self.unique(), marker)
        try:
            if log is not None:
                await self._removals.abandon(log)
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
                self._removals.add_directory(going, delay_ms)

    async def reopen_locked(self, directory: LogDirectory, partition: TopicPartition) -> PartitionLog:
        """The same as `reopen` for who is `changing` the partition."""
        if directory.offline is not None:
            raise directory.offline_error()
        log = directory.logs.pop(partition, None)
        directory.failures.setdefault(
            partition, KafkaError(ErrorCode.kafka_storage_error, f"the log of {partition} is being opened anew")
        )
        if log is not None:
            await self._removals.abandon(log)
        await resolve_adoptions(self.services.disk, directory.path, partition)
        reopened = await directory.open_log(partition)
        await directory.save_recovery_points()
        return reopened

    def _check_not_offline(self, directory: LogDirectory, partition: TopicPartition, directory_id: UUID | None) -> None:
        """A new log in another directory would stand for the one that is out of reach."""
        usable = {known.directory_id for known in self.directories if known.offline is None}
        if partition in directory.logs or directory_id is None or directory_id in usable:
            return
        for other in self.directories:
            if other.offline is not None:
                raise KafkaError(
                    ErrorCode.kafka_storage_error,
                    f"{partition} lies in a directory that is not here, and {other.path} is offline: {other.offline}",
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
            return log.topic_id if log is not None else None
        path = directory.path / str(partition) / PARTITION_METADATA
        try:
            return decode_partition_metadata(await self.services.disk.read_file(path), name=str(path))
        except (FileNotFoundError, CorruptFileError):
            return None
