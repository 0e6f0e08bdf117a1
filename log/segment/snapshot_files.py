"""The `<offset>.snapshot` files of one log: the producer state at that offset.

A roll takes a snapshot in memory (`stage`), because an append must not wait for a file; `save` encodes it, in slices
between which the event loop is free, and makes it durable before the recovery point passes it. After a crash the newest
one at or below the log's end is loaded, and the batches after it are replayed; one above the end describes deleted
batches, and is removed before anything is appended.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...protocol.net import SLICE_ELEMENTS, exhausted
from ..core.file_names import SNAPSHOT_SUFFIX, offset_file
from ..core.producer_snapshot import SLICE_ENTRIES, ProducerSnapshot
from ..core.producers import ProducerStateManager
from ..disk.port import Disk


class ProducerSnapshots:
    """The snapshot files and staged snapshots of one log, by offset."""

    __slots__ = ("_directory", "_disk", "_offsets", "_staged")

    def __init__(self, disk: Disk, directory: Path, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self._directory = directory
        self._offsets = set(offsets)
        self._staged: dict[int, bytes | ProducerSnapshot] = {}

    @property
    def offsets(self) -> list[int]:
        """The offsets of all snapshots, staged ones included, in rising order."""
        return sorted(self._offsets | self._staged.keys())

    @property
    def has_staged(self) -> bool:
        """Whether `save` has anything to do."""
        return bool(self._staged)

    def is_staged(self, offset: int) -> bool:
        return offset in self._staged

    def path(self, offset: int) -> Path:
        return offset_file(self._directory, offset, SNAPSHOT_SUFFIX)

    def stage(self, offset: int, snapshot: bytes | ProducerSnapshot) -> None:
        self._staged[offset] = snapshot

    def relocate(self, directory: Path) -> None:
        """Note that the directory of the log was renamed."""
        self._directory = directory

    def is_saved(self, offset: int) -> bool:
        return offset in self._offsets and offset not in self._staged

    async def save(self, *, sync: bool = True, sync_names: bool = True) -> None:
        """Write every staged snapshot, durably; without `sync_names` once the directory is synced, without `sync` once
        all is.
        """
        for offset in sorted(self._staged):
            snapshot = self._staged.get(offset)
            if snapshot is None:
                continue  # removed while an earlier one was written
            await self._disk.write_file(self.path(offset), await _encoded(snapshot), sync=sync, sync_name=sync_names)
            self._offsets.add(offset)
            if self._staged.get(offset) is snapshot:
                del self._staged[offset]

    async def read(self, offset: int) -> bytes | None:
        """Return the snapshot at this offset, or None."""
        staged = self._staged.get(offset)
        if staged is not None:
            return await _encoded(staged)
        if offset not in self._offsets:
            return None
        return await self._disk.read_file(self.path(offset))

    async def decoded(self, data: bytes, offset: int) -> ProducerStateManager:
        """Return the producers of a snapshot at this offset, decoded in slices. CorruptFileError."""
        return await decoded_producers(data, offset, name=str(self.path(offset)))

    async def remove(self, offset: int) -> None:
        self._staged.pop(offset, None)
        if offset in self._offsets:
            await self._disk.remove(self.path(offset))
            self._offsets.discard(offset)

    async def remove_below(self, offset: int) -> None:
        for snapshot in self.offsets:
            if snapshot < offset:
                await self.remove(snapshot)

    async def remove_above(self, offset: int) -> None:
        """Remove the snapshots above `offset`, newest first."""
        for snapshot in reversed(self.offsets):
            if snapshot > offset:
                await self.remove(snapshot)


async def decoded_producers(data: bytes, end_offset: int, *, name: str) -> ProducerStateManager:
    """Return `ProducerStateManager.from_snapshot`, in slices between which the event loop is free."""
    steps = ProducerStateManager.from_snapshot_stepwise(data, end_offset, name=name)
    return await exhausted(steps, SLICE_ELEMENTS)


async def _encoded(snapshot: bytes | ProducerSnapshot) -> bytes:
    if isinstance(snapshot, bytes):
        return snapshot
    return await exhausted(snapshot.encode_stepwise(), SLICE_ENTRIES)
