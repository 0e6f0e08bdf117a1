"""One log directory of a node: its owner, its logs, its checkpoints; opened at start, closed at the end.

    identify -> open -> close, or identify -> close: a directory that was not opened is left unchanged

| file | meaning |
|---|---|
| `.lock` | a process uses the directory |
| `meta.properties` | cluster, node and directory id; a directory of another cluster or node is rejected |
| `.kafka_cleanshutdown` | every log was closed cleanly; removed, durably, before any log is opened |
| the offset checkpoints | see `directory_checkpoints` |

Subdirectories at start: a partition's is opened; one marked `-delete` is removed; `.adopt` is resolved by
`side_directories`, `-future` by `future_logs`; `-stray` (another incarnation of a topic) and foreign ones are left
alone. A log that cannot be opened is a failure of that partition alone, with its error in `failures`; its checkpoint
entries stay. A future log has its partition's checkpoint entries here: the current log is in another directory.

A directory whose disk no longer accepts writes goes offline (`probe`, `take_offline`): all its partitions have failed
from then on, and nothing in it is touched until the next start.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final, Protocol
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import CLUSTER_METADATA_TOPIC, OUTSIDE, ErrorCode, KafkaError, TopicPartition
from ...protocol.net import for_each
from ..core.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    MetaProperties,
    decode_clean_shutdown,
    decode_meta_properties,
    encode_clean_shutdown,
    encode_meta_properties,
)
from ..core.config import LogConfig
from ..core.errors import CorruptFileError
from ..core.file_names import DELETE_SUFFIX, FUTURE_SUFFIX, marked_directory, parse_directory
from ..core.free_space import FreeSpace
from ..disk.directory_lock import lock_directory
from ..disk.durable_directory import make_directory_durably
from ..disk.port import Disk, FilesystemSync
from ..partition_log import LogLocation, PartitionLog
from ..segment.open_limit import OpenSegments
from .directory_checkpoints import DirectoryCheckpoints
from .side_directories import promote_futures, resolve_adoptions

DIRECTORIES_MAX: Final = 100_000
"""The number of directories that may wait for removal; a further one is removed without delay."""

logger = logging.getLogger(__name__)

OPENINGS_MAX: Final = 16
"""The number of logs that are opened or closed at the same time."""
SYNC_TOGETHER_MIN: Final = 64
"""Logs that are closed together with one sync of their filesystem: it also writes what others have left unsynced there,
which is not worth it for a few.
"""
LOG_WEIGHT: Final = 50
"""What one of these costs on the loop, in elements of `pace`."""
NO_BROKER_EPOCH: Final = -1
PROBE_FILE: Final = ".probe"
OF_THE_TIER: Final = frozenset({"remote-log-index-cache", "remote-log-metadata"})
"""The tier's directories beside the partitions: its index cache, metadata in files. The logs leave them alone."""


class HeldLock(Protocol):
    """The lock of a directory, until it is released; see `directory_lock`."""

    def release(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """The services that all logs of a node share. `config_of` returns a topic's configuration by its name."""

    disk: Disk
    rng: Random
    now_ms: Callable[[], int]
    config_of: Callable[[str], LogConfig]
    lock: Callable[[Path], HeldLock] = lock_directory
    open_segments: OpenSegments = field(default_factory=OpenSegments)
    free_bytes_min: int = 0
    """Clients' records are refused while a directory's disk has less; 0: never."""


class Removals:
    """The pending removals of one log directory: deleted directories wait for `file.delete.delay.ms`, abandoned logs
    for the readers that still hold slices of them.
    """

    def __init__(self, disk: Disk) -> None:
        self.logs: list[PartitionLog] = []
        self._disk = disk
        self._directories: list[tuple[float, Path]] = []
        """The directories to remove, as (loop time when due, directory)."""

    async def abandon(self, log: PartitionLog) -> None:
        """Close the log's files, except for those that are being read. Raise OSError from the disk."""
        try:
            await log.abandon()
        finally:
            self.logs.append(log)  # not before: only now its remaining readers are known

    def add_directory(self, path: Path, delay_ms: int) -> None:
        now = asyncio.get_running_loop().time()
        is_full = len(self._directories) >= DIRECTORIES_MAX
        self._directories.append((now if is_full else now + delay_ms / 1000, path))

    def are_due(self, now: float) -> bool:
        """Return whether a directory's delay is over at loop time `now`, or a log still has readers."""
        return bool(self.logs) or any(when <= now for when, _ in self._directories)

    async def remove_directories(self) -> None:
        """Remove the directories whose delay is over."""
        now = asyncio.get_running_loop().time()
        due = [path for when, path in self._directories if when <= now]
        self._directories = [(when, path) for when, path in self._directories if when > now]
        for path in due:
            try:
                await self._disk.remove_tree(path)
            except OSError as error:
                logger.error("%s could not be deleted: %s; the next start tries again", path, error)


class _Writing:
    """An append that has its room while it is under way (`LogKeeper.writing`). A class, not a generator: each append
    enters one, or two.
    """

    __slots__ = ("_directory", "_size_bytes")

    def __init__(self, directory: LogDirectory, size_bytes: int) -> None:
        self._directory = directory
        self._size_bytes = size_bytes

    def __enter__(self) -> None:
        self._directory.begin_write(self._size_bytes)

    def __exit__(self, *_: object) -> None:
        self._directory.free_space.end_write(self._size_bytes)


class LogDirectory:
    """One log directory, and the keeper of its logs: `logs` are open, those in `failures` could not be opened, and
    `futures` follow logs of other directories, whose place they will take.
    """

    def __init__(
        self, path: Path, services: LogServices, directory_of: Callable[[TopicPartition], UUID | None] = lambda _: None
    ) -> None:
        """`directory_of` is the directory in which the cluster has this node's replica, None if it does not know."""
        self.path = path
        self._directory_of = directory_of
        self.directory_id = UUID(int=0)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.failures: dict[TopicPartition, KafkaError] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        self.checkpoints = DirectoryCheckpoints(services.disk, path, ChainMap(self.logs, self.futures), self.failures)
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """The broker epoch of the previous run; -1 unless that run shut down cleanly."""
        self.offline: str | None = None
        """The reason why the directory is offline until the next start; None while it is online."""
        self.removals = Removals(services.disk)
        self.free_space = FreeSpace(services.free_bytes_min)
        self.flush_wanted = asyncio.Event()
        """Set when a segment was closed, which wants to be flushed."""
        self._services = services
        self._lock: HeldLock | None = None
        self._is_open = False

    # The keeper's part.

    async def save_log_start_offsets(self) -> None:
        await self.checkpoints.save_log_start_offsets()

    async def ensure_log_start_saved(self, partition: TopicPartition) -> None:
        await self.checkpoints.ensure_log_start_saved(partition)

    async def save_recovery_points(self) -> None:
        await self.checkpoints.save_recovery_points()

    def segment_closed(self) -> None:
        self.flush_wanted.set()

    @property
    def accepts_clients(self) -> bool:
        return self.free_space.accepts_clients

    @property
    def accepts_replicas(self) -> bool:
        return self.free_space.accepts_replicas

    # Opening and closing.

    async def identify(self, cluster_id: str, node_id: int) -> None:
        """Lock the directory and check its owner; do not read its logs."""
        await make_directory_durably(self._services.disk, self.path)
        self._lock = self._services.lock(self.path)
        try:
            await self._identify(cluster_id, node_id)
            if await self._services.disk.exists(self.path / CLEAN_SHUTDOWN):
                self.previous_broker_epoch = await self._read_broker_epoch()
        except BaseException:
            self._unlock()
            raise

    async def open(self) -> None:
        """Open its logs, each with its topic's current configuration."""
        disk = self._services.disk
        await self.checkpoints.load()
        is_clean = await disk.exists(self.path / CLEAN_SHUTDOWN)
        if is_clean:
            await disk.remove(self.path / CLEAN_SHUTDOWN)
        # A killed process may not have synced: names that were read must not disappear in a later crash.
        await disk.sync_directory(self.path)
        await resolve_adoptions(disk, self.path)
        await promote_futures(disk, self.path, lambda name: self._directory_of(name) == self.directory_id)
        # Before anything is accepted: what is counted as written is counted from a measurement on.
        with suppress(OSError):
            await self.measure_space()
        await self._open_logs(is_clean)
        await self.checkpoints.save_all()
        self._is_open = True
        self.flush_wanted.set()

    async def _read_broker_epoch(self) -> int:
        try:
            return decode_clean_shutdown(await self._services.disk.read_file(self.path / CLEAN_SHUTDOWN))
        except CorruptFileError as error:
            logger.warning("%s: %s; the last shutdown counts as clean, its broker epoch is unknown", self.path, error)
            return NO_BROKER_EPOCH

    async def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Close every log; write a clean-shutdown marker if all logs and checkpoints were saved.

        A directory with a log that could not be opened gets no marker: the next start must recover it. A directory
        that was not opened, or is offline, is only unlocked.
        """
        if self._lock is None:
            return
        if self.offline is not None or not self._is_open:
            self._unlock()
            return
        try:
            is_saved = await self._close_logs()
            await self.checkpoints.save_all()
            # The marker makes the next start skip recovery, so one unsaved log forbids it for all.
            if is_saved and not self.failures:
                await self._services.disk.write_file(self.path / CLEAN_SHUTDOWN, encode_clean_shutdown(broker_epoch))
        finally:
            self._unlock()

    async def _close_logs(self) -> bool:
        """Close all of them, and return whether everything is durable."""
        logs, unsaved = [*self.logs.values(), *self.futures.values()], list[PartitionLog]()

        async def close_all(close_one: Callable[[PartitionLog], Awaitable[None]]) -> None:
            async def attempt(log: PartitionLog) -> None:
                try:
                    await close_one(log)
                except OUTSIDE as error:
                    unsaved.append(log)
                    name = log.state.topic_partition
                    logger.error("%s was not closed cleanly and will be recovered at the next start: %s", name, error)

            await for_each(logs, attempt, at_once=OPENINGS_MAX, weight=LOG_WEIGHT)

        together = await self._filesystem_sync() if len(logs) >= SYNC_TOGETHER_MIN else None
        if together is None:
            await close_all(PartitionLog.close)
            return not unsaved
        try:
            await close_all(PartitionLog.close_unsynced)
            await together.sync()
        except OSError as error:
            logger.error("%s was not closed cleanly and will be recovered at the next start: %s", self.path, error)
            return False
        finally:
            await together.close()
        for log in set(logs).difference(unsaved):
            log.note_durable()
        return not unsaved

    async def _filesystem_sync(self) -> FilesystemSync | None:
        try:
            return await self._services.disk.filesystem_sync(self.path)
        except OSError as error:
            logger.warning("%s: its filesystem cannot be synced at once, each log is: %s", self.path, error)
            return None

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    # Offline.

    async def probe(self) -> None:
        """Write and remove a small file durably; raise OSError if the disk cannot. A full disk is not an error."""
        path = self.path / PROBE_FILE
        try:
            await self._services.disk.write_file(path, b"")
            await self._services.disk.remove(path)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def has_trouble(self, logs: Iterable[PartitionLog] | None = None) -> bool:
        """Return whether the disk of a directory that is online hangs, or has failed a log: one of `logs`, any for
        None.
        """
        logs = self.logs.values() if logs is None else logs
        return self.offline is None and (
            self._services.disk.has_hung(self.path)
            or any(log.state.failure is not None for log in chain(logs, self.futures.values()))
            or any(isinstance(error.__cause__, OSError) for error in self.failures.values())
        )

    async def measure_space(self) -> None:
        """Look how much room the disk has, and say so in the log where that changes what is accepted. OSError."""
        mark = self.free_space.mark
        space = await self._services.disk.space(self.path)
        before = self.free_space.accepts_clients, self.free_space.accepts_replicas
        if self.free_space.measured(space.usable_bytes, mark):
            self._report_space(*before)

    def writing(self, size_bytes: int) -> _Writing:
        return _Writing(self, size_bytes)

    def begin_write(self, size_bytes: int) -> None:
        """Take the room of an append that was accepted, and say so in the log where that changes what is accepted."""
        before = self.free_space.accepts_clients, self.free_space.accepts_replicas
        if self.free_space.begin_write(size_bytes):
            self._report_space(*before)

    def has_room_for(self, size_bytes: int) -> bool:
        return self.free_space.has_room_for(size_bytes)

    def _report_space(self, accepted_clients: bool, accepted_replicas: bool) -> None:
        space = self.free_space
        if space.accepts_clients != accepted_clients:
            if space.accepts_clients:
                logger.warning(
                    "log directory %s: %d bytes are free, produce is accepted again", self.path, space.usable_bytes
                )
            else:
                logger.error(
                    "log directory %s: %d bytes are free, and %d are needed (log.dir.free.bytes.min): produce to its "
                    "partitions is refused until %d are; free space, lower the topics' retention, or move replicas",
                    self.path,
                    space.usable_bytes,
                    space.min_bytes,
                    space.resume_bytes,
                )
        if space.accepts_replicas != accepted_replicas:
            if space.accepts_replicas:
                logger.warning(
                    "log directory %s: %d bytes are free, its replicas follow their leaders again",
                    self.path,
                    space.usable_bytes,
                )
            else:
                logger.error(
                    "log directory %s: %d bytes are free, and %d are kept for the metadata log, checkpoints and "
                    "internal topics: its replicas follow no leader and leave their ISRs until %d are free; free "
                    "space, or move replicas",
                    self.path,
                    space.usable_bytes,
                    space.keep_bytes,
                    2 * space.keep_bytes,
                )

    async def take_offline(self, reason: str) -> None:
        """Close every log of the directory. Readers may still hold them: `removals` waits for these."""
        self.offline = reason
        logs = list(self.logs.values())
        self.logs.clear()
        futures = list(self.futures.values())
        self.futures.clear()
        for log in logs:
            self.failures[log.state.topic_partition] = self.offline_error()
        for log in (*logs, *futures):
            with suppress(OSError):
                await log.abandon()
        self.removals.logs += logs

    def offline_error(self) -> KafkaError:
        return KafkaError(ErrorCode.kafka_storage_error, f"log directory {self.path} is offline: {self.offline}")

    async def open_log(self, partition: TopicPartition, *, is_clean: bool = False) -> PartitionLog:
        """Open the log of a partition whose directory exists, with its checkpoint entries, and add it to `logs`.

        An error is added to `failures`, and raised.
        """
        try:
            log = await PartitionLog.open(self._location(partition, self.path / str(partition), is_clean=is_clean))
        except KafkaError as error:
            self.failures[partition] = error
            raise
        except OUTSIDE as error:
            self.failures[partition] = _storage_error(partition, error)
            self.failures[partition].__cause__ = error
            raise
        self.failures.pop(partition, None)
        self.logs[partition] = log
        return log

    async def open_future(
        self, partition: TopicPartition, path: Path, *, is_new: bool = False, is_clean: bool = False
    ) -> PartitionLog:
        """Open the future log in `path`, and add it to `futures`. Raise what opening a log raises."""
        location = self._location(partition, path, is_clean=is_clean)
        if is_new:
            # An entry of an earlier log of the partition here says nothing of this one.
            location = replace(location, recovery_point=0, log_start_offset=None, high_watermark=0, clean_end_offset=0)
        log = self.futures[partition] = await PartitionLog.open(location)
        return log

    async def drop_future(self, partition: TopicPartition, unique: str) -> None:
        """Delete the future log of a partition, if there is one here. After an OSError the next start has it again."""
        log = self.futures.pop(partition, None)
        if log is None:
            return
        path, going = log.state.directory, marked_directory(self.path / str(partition), unique, DELETE_SUFFIX)
        await self.removals.abandon(log)
        await self._services.disk.rename(path, going)
        await self._services.disk.sync_directory(self.path)
        self.removals.add_directory(going, self._services.config_of(partition.topic).file_delete_delay_ms)
        if self.checkpoints.may_have_entry(partition):
            await self.checkpoints.save_all()

    def _location(self, partition: TopicPartition, path: Path, *, is_clean: bool) -> LogLocation:
        services = self._services
        return LogLocation(
            topic_partition=partition,
            directory=path,
            disk=services.disk,
            config=services.config_of(partition.topic),
            keeper=self,
            open_segments=services.open_segments,
            now_ms=services.now_ms,
            is_clean=is_clean,
            recovery_point=self.checkpoints.recovery_point(partition),
            log_start_offset=self.checkpoints.log_start_offset(partition),
            high_watermark=self.checkpoints.high_watermark(partition),
            clean_end_offset=self.checkpoints.clean_end_offset(partition),
        )

    async def _open_logs(self, is_clean: bool) -> None:
        async def open_one(partition: TopicPartition) -> None:
            try:
                await self.open_log(partition, is_clean=is_clean)
            except OUTSIDE as error:
                logger.error("the log of %s is not available: %s", partition, error)

        partitions, futures = await self._list_logs()
        await for_each(partitions, open_one, at_once=OPENINGS_MAX, weight=LOG_WEIGHT)
        for partition, path in futures:
            await self._open_future_again(partition, path, is_clean)

    async def _open_future_again(self, partition: TopicPartition, path: Path, is_clean: bool) -> None:
        """Open the future log that an earlier process has left; remove one that cannot be used."""
        try:
            if partition not in self.futures and partition not in {*self.logs, *self.failures}:
                await self.open_future(partition, path, is_clean=is_clean)
                return
        except KafkaError as error:
            logger.error("%s cannot be used and is removed, request the move again: %s", path, error)
        await self._services.disk.remove_tree(path)

    async def _list_logs(self) -> tuple[list[TopicPartition], list[tuple[TopicPartition, Path]]]:
        """Return the partitions whose logs are here, and the future logs; remove the rest of deleted ones."""
        partitions, futures = [], []
        for entry in await self._services.disk.list_directory(self.path):
            name = parse_directory(entry.name) if entry.is_directory else None
            if name is None:
                if entry.is_directory and entry.name not in OF_THE_TIER:
                    logger.warning("%s is not a partition directory and is left alone", self.path / entry.name)
            elif name.marker == DELETE_SUFFIX:
                await self._services.disk.remove_tree(self.path / entry.name)
            elif name.marker == FUTURE_SUFFIX:
                futures.append((name.topic_partition, self.path / entry.name))
            elif name.marker:
                logger.warning(
                    "%s belongs to an earlier topic of that name and is left alone: remove it if not needed",
                    self.path / entry.name,
                )
            elif name.topic_partition.topic != CLUSTER_METADATA_TOPIC:
                partitions.append(name.topic_partition)
        return partitions, futures

    async def _identify(self, cluster_id: str, node_id: int) -> None:
        """Read `meta.properties`, or write it for a new directory, or complete one of an older Kafka."""
        disk, path = self._services.disk, self.path / META_PROPERTIES
        directory_id: UUID | None = None
        if await disk.exists(path):
            stored = decode_meta_properties(await disk.read_file(path), name=str(path))
            if stored.cluster_id != cluster_id:
                raise KafkaError(
                    ErrorCode.inconsistent_cluster_id,
                    f"{path} belongs to cluster {stored.cluster_id}, this broker to {cluster_id}: correct the "
                    f"configuration, or give the broker another log directory",
                )
            if stored.node_id != node_id:
                raise KafkaError(
                    ErrorCode.inconsistent_cluster_id,
                    f"{path} belongs to node {stored.node_id}, this broker is node {node_id}: "
                    f"correct node.id or log.dirs",
                )
            directory_id = stored.directory_id
        if directory_id is None:
            directory_id = UUID(int=self._services.rng.getrandbits(128), version=4)
            properties = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
            written_at = datetime.fromtimestamp(self._services.now_ms() / 1000, UTC)
            await disk.write_file(path, encode_meta_properties(properties, written_at=written_at))
        self.directory_id = directory_id


def _storage_error(partition: TopicPartition, error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.kafka_storage_error, f"the log of {partition} could not be opened: {error}")
