"""The port to the machine that a replica runs on. A process's environment implements it, and so does a simulated host;
brokers, controllers and the quorum share it, so it stands apart from all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Protocol

from ..log.disk import Disk
from ..log.keeper import HeldLock


class Machine(Protocol):
    """The seams at which a simulation takes the machine's place; a process's environment implements it."""

    @property
    def disk(self) -> Disk: ...

    @property
    def rng(self) -> Random:
        """The only source of chance."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """Wall-clock time, in ms since 1970."""

    @property
    def lock_directory(self) -> Callable[[Path], HeldLock]:
        """Lock a log directory. Raise LogDirectoryLockedError if another process holds it."""
