"""One lock of a log directory for the two parts of a node that work in it: the logs, and the metadata log's replica."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..log.keeper import HeldLock


class SharedLocks:
    """`lock_directory` for several holders in one process; the last one to let go releases the lock."""

    def __init__(self, lock_directory: Callable[[Path], HeldLock]) -> None:
        self._lock_directory = lock_directory
        self._held: dict[Path, HeldLock] = {}
        self._holders: dict[Path, int] = {}

    def lock(self, directory: Path) -> HeldLock:
        """LogDirectoryLockedError if another process works there."""
        if directory not in self._held:
            self._held[directory] = self._lock_directory(directory)
        self._holders[directory] = self._holders.get(directory, 0) + 1
        return _Share(self, directory)

    def release(self, directory: Path) -> None:
        self._holders[directory] -= 1
        if self._holders[directory] == 0:
            del self._holders[directory]
            self._held.pop(directory).release()


class _Share:
    """One holder's part."""

    def __init__(self, locks: SharedLocks, directory: Path) -> None:
        self._locks = locks
        self._directory = directory

    def release(self) -> None:
        self._locks.release(self._directory)
