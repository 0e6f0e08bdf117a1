"""The one task that writes `quorum-state` and the mark beside it, in the core's order: PersistState, VoterProven.

The mark, `unproven-voter`, is an empty file that Apache Kafka ignores. It says that the replica began with an empty
disk, or without its `quorum-state` (see `core.probation`). It is made before anything else is written, so that a
`quorum-state` without it says that the replica was there before.

A failed write is reported as LogFailed, and nothing is written after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...log.disk import Disk
from ..core.effects import PersistState, VoterProven
from ..core.events import LogFailed, StatePersisted
from ..core.voters import VotersAt
from .election_file import ElectionFile

UNPROVEN_VOTER: Final = "unproven-voter"


class UnprovenVoterMark:
    """The mark in the directory of one metadata log."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path = directory / UNPROVEN_VOTER

    async def is_there(self) -> bool:
        return await self._disk.exists(self._path)

    async def put(self) -> None:
        """Durable when this returns."""
        await self._disk.write_file(self._path, b"")

    async def remove(self) -> None:
        """Durable when this returns."""
        await self._disk.remove(self._path)
        await self._disk.sync_directory(self._path.parent)


class VoteKeeper:
    """`put` effects once `run` is a task."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self.election_file = ElectionFile(disk, directory)
        self.unproven_mark = UnprovenVoterMark(disk, directory)
        self._effects: asyncio.Queue[PersistState | VoterProven] = asyncio.Queue()
        """The core awaits each PersistState, so there are two at most."""

    def put(self, effect: PersistState | VoterProven) -> None:
        self._effects.put_nowait(effect)

    async def run(self, voters: Callable[[], VotersAt], report: Callable[[StatePersisted | LogFailed], None]) -> None:
        """`voters` gives those at the end of the log, which decide about the version of the file."""
        while True:
            effect = await self._effects.get()
            try:
                if isinstance(effect, VoterProven):
                    await self.unproven_mark.remove()
                    continue
                now = voters()
                await self.election_file.write(effect.state, kraft_version=now.kraft_version, voters=now.voters)
                if effect.is_proven:
                    await self.unproven_mark.remove()
            except OSError as error:
                report(LogFailed(f"quorum-state could not be written: {error}"))
                return
            report(StatePersisted(effect.state))
