"""Ledger snapshots as files of this broker: one for each metadata partition, in its first log directory.

    remote-log-metadata-<number>.snapshot       the last one that was written whole
    remote-log-metadata-<number>.snapshot.tmp   one that is being written, or was when the process died

A snapshot is private and only saves time, unless the topic is bounded: then it also has what the topic no longer has.

| crash, or failure, while              | afterwards                                                                |
|---------------------------------------|---------------------------------------------------------------------------|
| sections are written to the `.tmp`    | the former snapshot; the next one overwrites the `.tmp`                   |
| the `.tmp` is synced                  | the same: it is renamed only once it is durable                           |
| it is renamed, or the directory synced| the former snapshot or the new one, each whole                            |
| the disk is full, or refuses          | the former snapshot, and the broker continues without a new one           |
| bits flip later                       | a checksum is wrong: SnapshotError, and the topic is read from its start  |

Written and read section by section, each step bounded (`core/snapshot.py`), through the `Disk` port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from ..light_dataclass import dataclass
from ..log.disk import Disk, DiskFile
from ..protocol import TopicIdPartition
from .core.ledger import RemoteLogLedger
from .core.snapshot import (
    FRAME_SIZE,
    HEADER_SIZE,
    SnapshotError,
    SnapshotHeader,
    SnapshotLoader,
    encode_sections,
    read_frame,
)

READ_SIZE: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """A snapshot that was read whole, with the ledgers that were asked for."""

    header: SnapshotHeader
    ledgers: dict[TopicIdPartition, RemoteLogLedger]


class SnapshotFiles:
    """`turn` is held while a snapshot is cut: one at a time over all metadata partitions of a broker."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self.turn = asyncio.Lock()

    def path(self, number: int) -> Path:
        """Return where the snapshot of a metadata partition is."""
        return self._directory / f"remote-log-metadata-{number}.snapshot"

    async def read(self, number: int, wanted: Collection[TopicIdPartition] | None = None) -> LedgerSnapshot | None:
        """Return the snapshot of a metadata partition, with the ledgers of the `wanted` partitions, or all; None if
        there is none. Raise SnapshotError if it is not whole, OSError if it cannot be read.
        """
        path = self.path(number)
        if not await self._disk.exists(path):
            return None
        file = await self._disk.open(path)
        try:
            stream = _Stream(file)
            header = SnapshotHeader.decode(await stream.take(HEADER_SIZE))
            loader = SnapshotLoader(wanted)
            is_end = False
            while not is_end:
                length, checksum = read_frame(await stream.take(FRAME_SIZE))
                is_end = loader.take(await stream.take(length), checksum)
                await asyncio.sleep(0)
        finally:
            await file.close()
        return LedgerSnapshot(header, loader.ledgers)

    async def write(self, header: SnapshotHeader, ledgers: Iterable[RemoteLogLedger]) -> None:
        """Replace the snapshot. Raise OSError if it cannot be written; the former one is kept then."""
        path = self.path(header.partition)
        temporary = path.with_name(path.name + ".tmp")
        file = await self._disk.open(temporary, create=True)
        try:
            await file.truncate(0)
            position = HEADER_SIZE
            await file.write(0, header.encode())
            for section in encode_sections(ledgers):
                await file.write(position, section)
                position += len(section)
                await asyncio.sleep(0)
            await file.sync()
        finally:
            await file.close()
        await self._disk.rename(temporary, path)
        await self._disk.sync_directory(self._directory)

    async def remove(self, number: int) -> None:
        """Remove the snapshot of a metadata partition, if there is one."""
        await self._disk.remove(self.path(number))
        await self._disk.sync_directory(self._directory)


class _Stream:
    """The bytes of a file from its start on, read in larger pieces than they are taken."""

    def __init__(self, file: DiskFile) -> None:
        self._file = file
        self._position = 0
        self._buffer = b""

    async def take(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raise SnapshotError where the file ends before."""
        if len(self._buffer) < size:
            more = await self._file.read(self._position, max(READ_SIZE, size - len(self._buffer)))
            self._position += len(more)
            self._buffer += more
        if len(self._buffer) < size:
            raise SnapshotError("it ends within a section, or without its end")
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken
