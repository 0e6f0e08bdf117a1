"""The pending removals of a log directory: directories wait for `file.delete.delay.ms`, logs wait for their readers."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from ..disk.port import Disk
from ..partition_log import PartitionLog

DIRECTORIES_MAX: Final = 100_000
"""The number of directories that may wait for removal; a further one is removed without delay."""

logger = logging.getLogger(__name__)


class Removals:
    """The deleted directories and abandoned logs of one log directory; readers still hold slices of `logs`."""

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
