"""The `.lock` file of a log directory: one process at a time, and Apache Kafka's own broker takes the same lock."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from ...protocol.errors import OperatorError

LOCK_FILE: Final = ".lock"


class LogDirectoryLockedError(OperatorError):
    """Another process works in the directory."""


class DirectoryLock:
    """Held until `release`, or until the process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def lock_directory(directory: Path) -> DirectoryLock:
    """Lock an existing directory; LogDirectoryLockedError at once if somebody else has it.

    Called once at start-up, before anything is served: it does not wait, so it needs no thread.
    """
    descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EACCES, errno.EAGAIN}:
            raise LogDirectoryLockedError(
                f"{directory} is in use by another process: stop it, or give this broker another log directory"
            ) from error
        raise
    return DirectoryLock(descriptor)
