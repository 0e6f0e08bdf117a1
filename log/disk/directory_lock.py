"""The `.lock` file of a log directory: one holder at a time, and Apache Kafka's own broker takes the same lock.

The kernel's lock belongs to the process: it does not stop a second holder in the same process, and closing any
descriptor of the file releases it. `_HELD` does stop one, before the file is opened a second time.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from threading import Lock
from typing import Final

from ...protocol import OperatorError

LOCK_FILE: Final = ".lock"

_HELD: Final[set[tuple[int, int]]] = set()
"""The directories that this process has locked, as (device, inode)."""
_guard: Final = Lock()
os.register_at_fork(after_in_child=_HELD.clear)  # a child does not inherit the kernel's locks


class LogDirectoryLockedError(OperatorError):
    """Another process works in the directory."""


class DirectoryLock:
    """Held until `release`, or until the process ends, however it ends."""

    def __init__(self, descriptor: int, directory: tuple[int, int]) -> None:
        self._descriptor: int | None = descriptor
        self._directory = directory

    def release(self) -> None:
        """Idempotent."""
        with _guard:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)
                _HELD.discard(self._directory)


def lock_directory(directory: Path) -> DirectoryLock:
    """Lock an existing directory; LogDirectoryLockedError at once if somebody else has it.

    Called once at start-up, before anything is served: it does not wait, so it needs no thread.
    """
    with _guard:
        status = os.stat(directory)
        identity = status.st_dev, status.st_ino
        if identity in _HELD:
            raise LogDirectoryLockedError(f"{directory} is in use in this process: close it there first")
        descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in {errno.EACCES, errno.EAGAIN}:
                raise LogDirectoryLockedError(
                    f"{directory} is in use by another process: stop it, or give this node another log directory"
                ) from error
            raise
        _HELD.add(identity)
        return DirectoryLock(descriptor, identity)
