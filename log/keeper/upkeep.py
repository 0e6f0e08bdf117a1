"""What the logs of a node need now and then: to be flushed, checkpointed, trimmed, compacted, probed, or removed.

Whether there is something to flush, to remove or to probe is looked at often, and mostly there is not: the look is a
callback of a timer, and wakes the task whose work it is.

An error of one log, or a fault of ours in it, is logged, and the loops go on: the log itself refuses to be used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from ...protocol.errors import OUTSIDE
from ..cleaner.cleaner import CleanerSettings, LogCleaner
from ..core.config import INT64_MAX
from ..partition_log import PartitionLog
from .log_directory import LogDirectory
from .removals import Removals

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepSettings:
    """How often what is done, in ms; the defaults are Kafka's. `look_interval_ms`: see the module."""

    checkpoint_interval_ms: int = 5_000
    retention_check_interval_ms: int = 300_000
    look_interval_ms: int = 1_000
    producer_expiration_check_interval_ms: int = 600_000
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)


class LogUpkeep:
    """Of the logs in these directories. `run` is a coroutine for a task of the owner's."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        settings: UpkeepSettings,
        removals: Removals,
        flush_wanted: asyncio.Event,
    ) -> None:
        self.cleaner = LogCleaner(lambda: {log.topic_partition: log for log in self._logs()}, settings.cleaner)
        self.on_offline: Callable[[], None] = lambda: None
        """Called when a directory went offline."""
        self._directories = directories
        self._settings = settings
        self._removals = removals
        self._flush_wanted = flush_wanted
        self._removal_wanted = asyncio.Event()
        self._probe_wanted = asyncio.Event()
        self._looks: asyncio.TimerHandle | None = None
        self._flushed_at: WeakKeyDictionary[PartitionLog, float] = WeakKeyDictionary()
        """When a log was flushed here last, or first looked at."""

    async def run(self) -> None:
        """Until it is cancelled."""
        settings = self._settings
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._whenever(self._flush_wanted, self.flush_due))
                group.create_task(self._whenever(self._removal_wanted, self.remove_due))
                group.create_task(self._whenever(self._probe_wanted, self.check_directories))
                group.create_task(self._every(settings.checkpoint_interval_ms, self.save_checkpoints))
                group.create_task(self._every(settings.retention_check_interval_ms, self.clean_up))
                group.create_task(self.cleaner.run())
                group.create_task(self._every(settings.producer_expiration_check_interval_ms, self._expire_producers))
                self._look()
        finally:
            if self._looks is not None:
                self._looks.cancel()

    def _look(self) -> None:
        """Wake whose work there is, and look again later."""
        loop = asyncio.get_running_loop()
        self._looks = loop.call_later(self._settings.look_interval_ms / 1000, self._look)
        now = loop.time()
        for log in self._logs():
            if self._is_flush_due(log, now):
                self._flush_wanted.set()
            if log.has_readers:
                self._removal_wanted.set()
        if self._removals.are_due(now):
            self._removal_wanted.set()
        if any(map(_has_failed, self._directories)):
            self._probe_wanted.set()

    async def flush_due(self) -> None:
        """Flush every log that has a closed segment to flush, or whose `flush.ms` is over."""
        now = asyncio.get_running_loop().time()
        for log in [log for log in self._logs() if self._is_flush_due(log, now)]:
            if self._is_here(log):
                self._flushed_at[log] = now
                await self._attempt(log, log.flush())

    def _is_flush_due(self, log: PartitionLog, now: float) -> bool:
        if log.has_unflushed_segments:
            return True
        flush_ms = log.config.flush_ms
        return flush_ms < INT64_MAX and (now - self._flushed_at.setdefault(log, now)) * 1000 >= flush_ms

    async def clean_up(self) -> None:
        """Let every log remove what its retention lets go of."""
        for log in list(self._logs()):
            if self._is_here(log):
                await self._attempt(log, log.delete_old_segments())

    async def check_directories(self) -> None:
        """Take those offline whose disk has failed a log, and takes nothing any more."""
        for directory in self._directories:
            if not _has_failed(directory):
                continue
            try:
                await directory.probe()
            except OSError as error:
                logger.error("log directory %s goes offline: %s", directory.path, error)
                self._removals.logs += await directory.take_offline(str(error))
                self.on_offline()

    async def save_checkpoints(self) -> None:
        for directory in self._directories:
            if directory.offline is not None:
                continue
            try:
                await directory.checkpoints.save_all()
            except OSError as error:
                logger.error("%s: checkpoints were not saved: %s", directory.path, error)

    async def remove_due(self) -> None:
        """Remove deleted directories whose delay is over, and close what readers have let go of."""
        await self._removals.remove_directories()
        for log in [log for log in (*self._logs(), *self._removals.logs) if log.has_readers]:
            await self._attempt(log, log.reap())
        self._removals.logs = [log for log in self._removals.logs if log.has_readers]

    def _logs(self) -> Iterator[PartitionLog]:
        return (log for directory in self._directories for log in directory.logs.values())

    def _is_here(self, log: PartitionLog) -> bool:
        """It may have been deleted, or moved, while others were looked after."""
        return any(directory.logs.get(log.topic_partition) is log for directory in self._directories)

    async def _expire_producers(self) -> None:
        for log in self._logs():
            log.expire_producers()

    async def _whenever(self, wanted: asyncio.Event, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await wanted.wait()
            wanted.clear()
            await action()

    async def _every(self, interval_ms: int, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await action()

    async def _attempt(self, log: PartitionLog, work: Awaitable[object]) -> None:
        try:
            await work
        except OUTSIDE as error:
            logger.error("%s: %s", log.topic_partition, error)
        except Exception:
            logger.exception("%s: its upkeep fails by a fault of ours", log.topic_partition)


def _has_failed(directory: LogDirectory) -> bool:
    """Whether its disk has failed a log; not again of one that is offline."""
    return directory.offline is None and (
        any(log.failure is not None for log in directory.logs.values())
        or any(isinstance(error.__cause__, OSError) for error in directory.failures.values())
    )
