"""Syncs a whole filesystem at once (syncfs(2)): one journal commit for many small files, not one each.

The descriptor is opened before what is to be synced is written: a write that the kernel could not carry out since then
fails the sync. Kernels before Linux 5.8 did not say so, and other systems have no such call: there every file is synced
by itself.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

REPORTS_ERRORS_SINCE: Final = (5, 8)
Syncfs = Callable[[int, str], None]
"""Takes a descriptor, and the name for errors."""


class OsFilesystemSync:
    """Syncs by the descriptor of a directory, which this owns. `call` runs what blocks, on a thread of its disk."""

    def __init__(
        self, call: Callable[[Callable[[], None], Path], Awaitable[None]], syncfs: Syncfs, path: Path, descriptor: int
    ) -> None:
        self._call = call
        self._syncfs = syncfs
        self._path = path
        self._descriptor: int | None = descriptor

    async def sync(self) -> None:
        descriptor = self._descriptor
        assert descriptor is not None, f"the sync of {self._path} is closed"
        await self._call(partial(self._syncfs, descriptor, str(self._path)), self._path)

    async def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            await self._call(partial(os.close, descriptor), self._path)


def open_filesystem(path: Path) -> int:
    """Return a descriptor by which the filesystem of this directory can be synced."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def find_syncfs(platform: str = sys.platform, release: str | None = None) -> Syncfs | None:
    """Return syncfs(2); None where it is missing or tells no errors."""
    kernel = os.uname().release if release is None else release
    if platform != "linux" or _version(kernel) < REPORTS_ERRORS_SINCE:
        return None
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return None

    def sync(descriptor: int, name: str) -> None:
        if syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)

    return sync


def _version(release: str) -> tuple[int, ...]:
    major, _, rest = release.partition(".")
    minor = "".join(character for character in rest.partition(".")[0] if character.isdigit())
    return (int(major), int(minor or 0)) if major.isdigit() else (0, 0)
