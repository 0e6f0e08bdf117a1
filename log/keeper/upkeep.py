"""The background work on the logs of a node: flush, save epochs, checkpoint, trim, compact, probe, remove.

Each log directory has loops of its own: the work on one never waits for another's disk. Compaction is the exception; it
goes through the logs of all directories, the dirtiest first.

Whether there is something to flush, remove or probe is checked often, and mostly there is not: the check is a timer's
callback, and wakes the task that does the work. Of thousands of logs an iteration of the loop looks at `LOOK_LOGS`.
Epochs are saved `EPOCHS_DELAY_S` after the first one has changed: of a broker that has just become the leader of
thousands of partitions each one is a file to replace, and its clients come first. Nothing depends on when that is:
records make their epochs durable with them, and a log that is closed saves its own.

An error of one log, or an internal error, is logged and the loops and looks continue: a failed log rejects every call
itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Final
from weakref import WeakKeyDictionary

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ...protocol import OUTSIDE
from ...protocol.net import Slices
from ..cleaner.cleaner import CleanerSettings, LogCleaner
from ..core.config import INT64_MAX
from ..core.producers import PRODUCER_ID_EXPIRATION_MS
from ..partition_log import PartitionLog
from .log_directory import LogDirectory

LOOK_LOGS: Final = 1_000
"""The number of logs that are looked at in one go: some 5 ms."""
EPOCHS_DELAY_S: Final = 10.0
FREE_LOGS: Final = 100
"""Logs that are looked at without an account of the loop's share."""

logger = logging.getLogger(__name__)
limited = LimitedLog(logger, source_lines_max=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepSettings:
    """The intervals of the work in ms; the defaults are Kafka's. `look_interval_ms` is the timer's, see the module."""

    checkpoint_interval_ms: int = 5_000
    retention_check_interval_ms: int = 300_000
    look_interval_ms: int = 1_000
    producer_expiration_check_interval_ms: int = 600_000
    producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)


class LogUpkeep:
    """The upkeep of the logs in some directories. The owner runs `run` in a task."""

    def __init__(self, directories: Sequence[LogDirectory], settings: UpkeepSettings) -> None:
        self.on_offline: Callable[[], None] = lambda: None
        """The callback that runs when a directory has gone offline."""
        self._each = [_DirectoryUpkeep(each, settings, lambda: self.on_offline()) for each in directories]
        self.cleaner = LogCleaner(
            lambda: {name: log for each in directories for name, log in each.logs.items()}, settings.cleaner
        )

    async def run(self) -> None:
        """Run every loop until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cleaner.run())
            for each in self._each:
                group.create_task(each.run())

    async def flush_due(self) -> None:
        """Flush every log that has a closed segment to flush, or whose `flush.ms` is over."""
        await self._all(_DirectoryUpkeep.flush_due)

    async def save_epochs(self) -> None:
        """Make the leader epochs durable that have changed."""
        await self._all(_DirectoryUpkeep.save_epochs)

    async def clean_up(self) -> None:
        """Make every log remove the segments that its retention has expired."""
        await self._all(_DirectoryUpkeep.clean_up)

    async def check_directories(self) -> None:
        """Take the directories offline whose disk has failed a log and no longer accepts writes, or hangs."""
        await self._all(_DirectoryUpkeep.check_directory)

    async def measure_space(self) -> None:
        """Look how much room the disks have."""
        await self._all(_DirectoryUpkeep.measure_space)

    async def save_checkpoints(self) -> None:
        await self._all(_DirectoryUpkeep.save_checkpoints)

    async def remove_due(self) -> None:
        """Remove deleted directories whose delay is over, and close the segments that readers have released."""
        await self._all(_DirectoryUpkeep.remove_due)

    async def _all(self, work: Callable[[_DirectoryUpkeep], Awaitable[None]]) -> None:
        await asyncio.gather(*(work(each) for each in self._each))


class _DirectoryUpkeep:
    """The loops of one directory."""

    def __init__(self, directory: LogDirectory, settings: UpkeepSettings, on_offline: Callable[[], None]) -> None:
        self._directory = directory
        self._settings = settings
        self._on_offline = on_offline
        self._epochs_wanted = asyncio.Event()
        self._removal_wanted = asyncio.Event()
        self._probe_wanted = asyncio.Event()
        self._space_wanted = asyncio.Event()
        self._look_timer: asyncio.Handle | None = None
        """The next look, or the next part of one."""
        self._flushed_at: WeakKeyDictionary[PartitionLog, float] = WeakKeyDictionary()
        """The loop time when a log was last flushed here, or first checked."""

    async def run(self) -> None:
        settings = self._settings
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._whenever(self._directory.flush_wanted, self.flush_due))
                group.create_task(self._whenever(self._epochs_wanted, self.save_epochs, EPOCHS_DELAY_S))
                group.create_task(self._whenever(self._removal_wanted, self.remove_due))
                group.create_task(self._whenever(self._probe_wanted, self.check_directory))
                group.create_task(self._whenever(self._space_wanted, self.measure_space))
                group.create_task(self._every(settings.checkpoint_interval_ms, self.save_checkpoints))
                group.create_task(self._every(settings.retention_check_interval_ms, self.clean_up))
                group.create_task(self._every(settings.producer_expiration_check_interval_ms, self._expire_producers))
                self._look()
        finally:
            if self._look_timer is not None:
                self._look_timer.cancel()

    def _look(self) -> None:
        """Wake the tasks that have work, and check again later."""
        self._look_at(list(self._logs()))

    def _look_at(self, logs: Sequence[PartitionLog]) -> None:
        """Look at some of these logs, and at the others when the loop has had its turn."""
        loop = asyncio.get_running_loop()
        now, some = loop.time(), logs[:LOOK_LOGS]
        for log in some:
            self._look_at_one(log, now)
        try:
            if self._directory.removals.are_due(now):
                self._removal_wanted.set()
            if self._directory.has_trouble(some):
                self._probe_wanted.set()
        except Exception as error:  # noqa: BLE001 - a supervisor, which limits its lines
            path = str(self._directory.path)
            limited.error(path, "internal error in a look at of log directory %s", path, exc_info=error)
        if len(logs) > LOOK_LOGS:
            self._look_timer = loop.call_soon(self._look_at, logs[LOOK_LOGS:])
        else:
            self._space_wanted.set()
            self._look_timer = loop.call_later(self._settings.look_interval_ms / 1000, self._look)

    def _look_at_one(self, log: PartitionLog, now: float) -> None:
        try:
            if self._is_flush_due(log, now):
                self._directory.flush_wanted.set()
            if log.state.has_unsaved_epochs:
                self._epochs_wanted.set()
            if log.state.has_deleted_files or log.state.has_readers:
                self._removal_wanted.set()
        except Exception as error:  # noqa: BLE001 - a supervisor, which limits its lines
            name = str(log.state.topic_partition)
            limited.error(name, "internal error in a look at the log of %s", name, exc_info=error)

    async def flush_due(self) -> None:
        now = asyncio.get_running_loop().time()
        for log in await self._those(lambda log: self._is_flush_due(log, now)):
            if self._is_here(log):
                self._flushed_at[log] = now
                await self._attempt(log, log.flush())

    def _is_flush_due(self, log: PartitionLog, now: float) -> bool:
        if log.state.has_unflushed_segments:
            return True
        flush_ms = log.state.config.flush_ms
        return flush_ms < INT64_MAX and (now - self._flushed_at.setdefault(log, now)) * 1000 >= flush_ms

    async def save_epochs(self) -> None:
        # One after another: nothing waits for them, and a broker that has just become the leader of thousands of
        # partitions has clients to serve.
        for log in await self._those(lambda log: log.state.has_unsaved_epochs):
            if self._is_here(log) and log.state.has_unsaved_epochs:
                await self._attempt(log, log.save_epochs())

    async def clean_up(self) -> None:
        for log in list(self._logs()):
            if self._is_here(log):
                await self._attempt(log, log.delete_old_segments())

    async def check_directory(self) -> None:
        directory = self._directory
        if not directory.has_trouble():
            return
        try:
            await directory.probe()
        except OSError as error:
            logger.error(
                "log directory %s goes offline until the next start: %s; check the disk", directory.path, error
            )
            await directory.take_offline(str(error))
            self._on_offline()

    async def measure_space(self) -> None:
        """See `LogDirectory.measure_space`; a disk that cannot say it keeps what was known."""
        if self._directory.offline is None:
            with suppress(OSError):
                await self._directory.measure_space()

    async def save_checkpoints(self) -> None:
        directory = self._directory
        if directory.offline is not None:
            return
        try:
            await directory.checkpoints.save_all()
        except OSError as error:
            logger.error("log directory %s: the offset checkpoints could not be written: %s", directory.path, error)

    async def remove_due(self) -> None:
        removals = self._directory.removals
        await removals.remove_directories()
        for log in await self._those(lambda log: log.state.has_deleted_files or log.state.has_readers, *removals.logs):
            await self._attempt(log, log.reap())
        removals.logs = [log for log in removals.logs if log.state.has_readers]

    def _logs(self) -> Iterator[PartitionLog]:
        return iter(self._directory.logs.values())

    async def _those(self, is_wanted: Callable[[PartitionLog], bool], *others: PartitionLog) -> list[PartitionLog]:
        """Return which logs, of the directory and of `others`, are wanted."""
        wanted: list[PartitionLog] = []
        async for some in Slices([*self._logs(), *others], free=FREE_LOGS):
            wanted += [log for log in some if is_wanted(log)]
        return wanted

    def _is_here(self, log: PartitionLog) -> bool:
        """Return whether the log is still here: it may have been deleted or replaced while others were processed."""
        return self._directory.logs.get(log.state.topic_partition) is log

    async def _expire_producers(self) -> None:
        for log in list(self._logs()):
            await log.expire_producers(self._settings.producer_expiration_ms)

    async def _whenever(
        self, event: asyncio.Event, action: Callable[[], Awaitable[None]], delay_s: float = 0.0
    ) -> None:
        while True:
            await event.wait()
            if delay_s:
                await asyncio.sleep(delay_s)
            event.clear()
            await action()

    async def _every(self, interval_ms: int, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await action()

    async def _attempt(self, log: PartitionLog, work: Awaitable[object]) -> None:
        try:
            await work
        except OUTSIDE as error:
            logger.error("%s: upkeep of the log failed: %s", log.state.topic_partition, error)
        except Exception:
            logger.exception("internal error in the upkeep of the log of %s", log.state.topic_partition)
