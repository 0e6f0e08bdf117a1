"""The snapshots in the directory of one metadata log: cut, fetched in chunks, served in chunks, removed.

| state of a file | how it gets there | after a crash |
|---|---|---|
| `.part` | `write` makes it, `store_chunk` appends to it | removed by `load` |
| whole | checked, synced, renamed, directory synced, in this order | there, and counted |
| removed | `remove_before`, oldest first | there or not: counted again, and removed by the next clean-up |

A fetched snapshot is checked as a whole before its rename: what a leader sent with a wrong CRC or without its footer
never takes the name of a snapshot. A snapshot cut here is checked by its reader.

A leader says how large its snapshot is before it sends it. One above `bytes_max` is not fetched, nor one that would
leave less than `KEPT_FREE_BYTES` on the disk (`check_room`); and the check of what was fetched holds one batch of it in
memory. What is cut here is held to the same limit: a snapshot that its readers refuse must not take the log's place.

The owner of the log calls, one call after another. Reads, and `write`, may run beside them.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ...log.core import CorruptFileError
from ...log.disk import Disk, DiskFile
from ...protocol import ErrorCode, KafkaError, OperatorError
from ...protocol.fetch import SnapshotId
from ..core.config import SNAPSHOT_BYTES_MAX
from .snapshot_file import (
    FileChunk,
    ParsedSnapshot,
    QuorumSetup,
    SnapshotParser,
    cut_name,
    parse_in_slices,
    parse_snapshot_name,
    part_name,
    snapshot_name,
)

BYTES_MAX_KEY: Final = "metadata.log.max.snapshot.bytes"
KEPT_FREE_BYTES: Final = 64 * 1024 * 1024
"""What a fetched snapshot leaves free: room for the log itself, whose replica ends when it cannot be written."""
PIECE_BYTES: Final = 1024 * 1024
"""The bytes of a fetched snapshot that are checked at a time."""


class SnapshotTooLargeError(OperatorError):
    """A snapshot that is not fetched because of its size, or because of the disk's room."""


class CutSnapshot(NamedTuple):
    """One that is written, and has no name yet."""

    snapshot_id: SnapshotId
    path: Path
    size: int


class SnapshotStore:
    """`ids` are the whole snapshots, oldest first."""

    def __init__(self, disk: Disk, directory: Path, bytes_max: int = SNAPSHOT_BYTES_MAX) -> None:
        self._disk = disk
        self._bytes_max = bytes_max
        self._directory = directory
        self._sizes: dict[SnapshotId, int] = {}
        self._cuts = 0
        self._part: tuple[SnapshotId, DiskFile, int] | None = None

    async def load(self) -> None:
        """Look into the directory; parts are removed."""
        for entry in await self._disk.list_directory(self._directory):
            name = parse_snapshot_name(entry.name)
            if name is None:
                continue
            snapshot_id, is_part = name
            if is_part:
                await self._disk.remove(self._directory / entry.name)
            else:
                self._sizes[snapshot_id] = entry.size

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        return tuple(sorted(self._sizes))

    @property
    def latest(self) -> SnapshotId | None:
        return max(self._sizes, default=None)

    @property
    def earliest(self) -> SnapshotId | None:
        return min(self._sizes, default=None)

    @property
    def size_bytes(self) -> int:
        """The size of all snapshots."""
        return sum(self._sizes.values())

    def size_of(self, snapshot_id: SnapshotId) -> int:
        return self._sizes[snapshot_id]

    def path(self, snapshot_id: SnapshotId) -> Path:
        return self._directory / snapshot_name(snapshot_id)

    # Making.

    async def create(self, snapshot_id: SnapshotId, batches: Iterable[bytes]) -> None:
        """Write a snapshot; when this returns it is durable under its name."""
        await self.name(await self.write(snapshot_id, batches))

    async def write(self, snapshot_id: SnapshotId, batches: Iterable[bytes]) -> CutSnapshot:
        """Write one, durably, that has no name yet; others may call, and write more of the same id, meanwhile.

        OSError; what was written is removed then.
        """
        self._cuts += 1
        path, position = self._directory / cut_name(snapshot_id, self._cuts), 0
        try:
            file = await self._open_empty(path)
            try:
                for batch in batches:
                    if position + len(batch) > self._bytes_max:
                        raise OSError(errno.EFBIG, f"it has more than the {self._bytes_max} bytes of {BYTES_MAX_KEY}")
                    await file.write(position, batch)
                    position += len(batch)
                await file.sync()
            finally:
                await file.close()
        except OSError:
            await self._remove_if_possible(path)
            raise
        return CutSnapshot(snapshot_id, path, position)

    async def name(self, cut: CutSnapshot) -> None:
        """It counts, durably, when this returns. OSError; it does not count then, and the next start may find it."""
        assert cut.snapshot_id not in self._sizes, f"{cut.snapshot_id} is there already"
        try:
            await self._name_it(*cut)
        except OSError:
            await self._remove_if_possible(cut.path)
            raise

    async def drop(self, cut: CutSnapshot) -> None:
        """Give up the download."""
        await self._disk.remove(cut.path)

    async def check_room(self, snapshot_id: SnapshotId, size: int) -> None:
        """Raise SnapshotTooLargeError unless a snapshot of so many bytes may be fetched; OSError from the disk. What
        was fetched before is dropped.
        """
        name = snapshot_name(snapshot_id)
        if size > self._bytes_max:
            raise SnapshotTooLargeError(
                f"snapshot {name} has {size} bytes, expected were {self._bytes_max} at most ({BYTES_MAX_KEY}): raise "
                "the limit if the cluster has grown so much, or find out what the leader is"
            )
        await self.drop_part()
        usable_bytes = (await self._disk.space(self._directory)).usable_bytes
        if size + KEPT_FREE_BYTES > usable_bytes:
            raise SnapshotTooLargeError(
                f"snapshot {name} has {size} bytes, and the disk of {self._directory} {usable_bytes} free ones, of "
                f"which {KEPT_FREE_BYTES} stay free: expected were {size + KEPT_FREE_BYTES}; free space there"
            )

    async def store_chunk(self, snapshot_id: SnapshotId, position: int, data: bytes | memoryview) -> int:
        """Append a chunk of a fetched snapshot and return the position after it. A chunk at 0 starts the file again."""
        if position == 0:
            await self.drop_part()
            self._part = (snapshot_id, await self._open_empty(self._part_path(snapshot_id)), 0)
        assert self._part is not None, (snapshot_id, position)
        part_id, file, end = self._part
        assert (part_id, end) == (snapshot_id, position), (part_id, end, snapshot_id, position)
        await file.write(position, data)
        end += len(data)
        self._part = (part_id, file, end)
        return end

    async def finish_part(self, snapshot_id: SnapshotId) -> QuorumSetup:
        """Check what was fetched and give it its name. CorruptFileError if it is not whole; then it is removed."""
        assert self._part is not None, snapshot_id
        part_id, file, size = self._part
        assert part_id == snapshot_id, (part_id, snapshot_id)
        try:
            setup = await _checked(file, size)
        except CorruptFileError:
            await self.drop_part()
            raise
        try:
            await file.sync()
        finally:
            self._part = None
            await file.close()
        await self._name_it(snapshot_id, self._part_path(snapshot_id), size)
        return setup

    async def drop_part(self) -> None:
        """Give up what is being fetched."""
        if self._part is not None:
            (snapshot_id, file, _), self._part = self._part, None
            await file.close()
            await self._disk.remove(self._part_path(snapshot_id))

    async def _open_empty(self, path: Path) -> DiskFile:
        await self._disk.remove(path)
        return await self._disk.open(path, create=True)

    async def _remove_if_possible(self, path: Path) -> None:
        """It takes up room on a disk that may be full; the next start removes it in any case."""
        with suppress(OSError):
            await self._disk.remove(path)

    async def _name_it(self, snapshot_id: SnapshotId, part: Path, size: int) -> None:
        await self._disk.rename(part, self.path(snapshot_id))
        await self._disk.sync_directory(self._directory)
        self._sizes[snapshot_id] = size

    def _part_path(self, snapshot_id: SnapshotId) -> Path:
        return self._directory / part_name(snapshot_id)

    # Reading.

    async def read(self, snapshot_id: SnapshotId) -> ParsedSnapshot:
        """CorruptFileError, naming the file, if it is not whole.

        The limit is for what comes. A snapshot that is here is read, or a node whose limit was lowered would not start.
        """
        path = self.path(snapshot_id)
        size_max = max(self._bytes_max, self._sizes.get(snapshot_id, 0))
        return await _parse(await self._disk.read_file(path, size_max=size_max), path)

    async def chunk(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> FileChunk:
        """Return a chunk. SNAPSHOT_NOT_FOUND, also if the snapshot is removed meanwhile; POSITION_OUT_OF_RANGE."""
        name, size = snapshot_name(snapshot_id), self._sizes.get(snapshot_id)
        if size is None:
            raise KafkaError(ErrorCode.snapshot_not_found, f"there is no snapshot {name}")
        if not 0 <= position < size:
            raise KafkaError(
                ErrorCode.position_out_of_range, f"snapshot {name} has {size} bytes, asked for was position {position}"
            )
        try:
            file = await self._disk.open(self.path(snapshot_id))
        except FileNotFoundError:
            if snapshot_id in self._sizes:
                raise
            raise KafkaError(ErrorCode.snapshot_not_found, f"snapshot {name} was removed") from None
        try:
            return FileChunk(size, position, await file.read(position, max_bytes))
        finally:
            await file.close()

    # Removing.

    async def remove_before(self, snapshot_id: SnapshotId) -> int:
        """Remove those that end before this one; how many."""
        older = [known for known in self.ids if known < snapshot_id]
        for known in older:
            del self._sizes[known]
            await self._disk.remove(self.path(known))
        return len(older)

    async def close(self) -> None:
        await self.drop_part()


async def _checked(file: DiskFile, size: int) -> QuorumSetup:
    """Return what a snapshot says of the quorum. CorruptFileError unless it is whole."""
    parser = SnapshotParser(str(file.path), keeps_records=False)
    for position in range(0, size, PIECE_BYTES):
        for _ in parser.feed(await file.read(position, min(PIECE_BYTES, size - position))):
            await asyncio.sleep(0)
    return parser.finish().setup


async def _parse(data: bytes, path: Path) -> ParsedSnapshot:
    """Others have their turn between slices: a large snapshot takes longer than an election waits."""
    for parsed in parse_in_slices(data, name=str(path)):
        if parsed is not None:
            return parsed
        await asyncio.sleep(0)
    raise AssertionError(path)
