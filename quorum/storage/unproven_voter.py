"""`unproven-voter`: the mark of a replica that began with an empty disk, or without its `quorum-state` (see `proof`).

An empty file beside `quorum-state`, which Apache Kafka passes over. It is made before anything else is written, so that
a `quorum-state` without it says that the replica was there before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...log.disk.port import Disk

UNPROVEN_VOTER: Final = "unproven-voter"


class UnprovenVoterMark:
    """In the directory of one metadata log."""

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
