"""What was deleted and is still there: directories for as long as `file.delete.delay.ms` says, logs until nobody reads
them.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from ..disk.port import Disk
from ..partition_log import PartitionLog

DIRECTORIES_MAX: Final = 100_000
"""That wait for their removal; beyond it the next one goes at once."""

logger = logging.getLogger(__name__)


class Removals:
    """`logs` were put aside while readers held slices of them."""

    def __init__(self, disk: Disk) -> None:
        self.logs: list[PartitionLog] = []
        self._disk = disk
        self._directories: list[tuple[float, Path]] = []
        """(due on the loop's clock, directory)."""

    async def abandon(self, log: PartitionLog) -> None:
        """Close its files, but for those that are being read. OSError."""
        try:
            await log.abandon()
        finally:
            self.logs.append(log)  # not before: only now it is known who reads it

    def add_directory(self, path: Path, delay_ms: int) -> None:
        now = asyncio.get_running_loop().time()
        is_full = len(self._directories) >= DIRECTORIES_MAX
        self._directories.append((now if is_full else now + delay_ms / 1000, path))

    def are_due(self, now: float) -> bool:
        """Whether a directory's delay is over on the loop's clock, or a log is still put aside."""
        return bool(self.logs) or any(when <= now for when, _ in self._directories)

    async def remove_directories(self) -> None:
        """Those whose delay is over."""
        now = asyncio.get_running_loop().time()
        due = [path for when, path in self._directories if when <= now]
        self._directories = [(when, path) for when, path in self._directories if when > now]
        for path in due:
            try:
                await self._disk.remove_tree(path)
            except OSError as error:
                logger.error("%s was not removed, the next start does it: %s", path, error)
