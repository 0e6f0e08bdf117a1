"""The log of a segment on its way to the tier: every batch is checked while its bytes pass, so that what a disk let rot
is not taken for the copy that outlives it.

Pieces may be asked for in any order and more than once. Each byte is checked the first time that it is passed; what
lies before a piece, and was not asked for yet, is read for that. Of a file that a plugin copies by itself (the kernel
does that without the event loop) everything is read once more afterwards, which finds it in memory.
"""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from ..protocol import CorruptRecordError
from ..protocol.records import BATCH_HEADER_SIZE, iter_batches, parse_header
from ..remote import LogSegmentData, RemoteStorageManager, SegmentSource
from ..remote.core import RemoteLogSegmentMetadata

CHECK_BYTES: Final = 256 * 1024
"""Checked at a time: the event loop waits for that, which for the smallest batches takes some milliseconds."""


class DamagedSegmentError(OSError):
    """A local segment is not what was appended to it."""


class CheckedSource:
    """A `SegmentSource` in front of another one, whose `name` says what is damaged."""

    def __init__(self, name: str, source: SegmentSource) -> None:
        self._name = name
        self._source = source
        self._position = 0
        """Up to where bytes have been taken in."""
        self._rest = bytearray()
        """The beginning of a batch that continues after that."""
        self._needed = BATCH_HEADER_SIZE
        """How many bytes of it tell more."""
        self._turn = asyncio.Lock()

    @property
    def size(self) -> int:
        return self._source.size

    @property
    def path(self) -> Path | None:
        return self._source.path

    async def read(self, offset: int, count: int) -> bytes:
        """DamagedSegmentError if a batch is damaged; OSError."""
        async with self._turn:
            await self._check_up_to(offset)
            data = await self._source.read(offset, count)
            await self._check(data[max(0, self._position - offset) :] if offset + len(data) > self._position else b"")
        return data

    async def finish(self) -> None:
        """Check what was not asked for. DamagedSegmentError, also if it is no number of whole batches; OSError."""
        async with self._turn:
            await self._check_up_to(self.size)
            if self._rest:
                raise self._damage(f"the last {len(self._rest)} bytes are no whole batch")

    async def _check_up_to(self, end: int) -> None:
        while self._position < end:
            data = await self._source.read(self._position, min(CHECK_BYTES, end - self._position))
            if not data:
                raise self._damage(f"it ends at byte {self._position}, {self.size} are expected")
            await self._check(data)

    async def _check(self, data: bytes) -> None:
        for start in range(0, len(data), CHECK_BYTES):
            if start:
                await asyncio.sleep(0)
            self._take(data[start : start + CHECK_BYTES])

    def _take(self, data: bytes) -> None:
        rest, begin = self._rest, self._position - len(self._rest)
        rest += data
        try:
            end = _end_of_batches(rest) if len(rest) >= self._needed else 0
        except CorruptRecordError as damage:
            del rest[len(rest) - len(data) :]
            raise self._damage(str(damage.at(begin + damage.position))) from damage
        self._position += len(data)
        if end:
            del rest[:end]
            self._needed = BATCH_HEADER_SIZE
        if len(rest) >= BATCH_HEADER_SIZE:
            self._needed = parse_header(rest).size_bytes

    def _damage(self, what: str) -> DamagedSegmentError:
        message = f"{what}: the segment is damaged, and is not copied to the tier"
        return DamagedSegmentError(errno.EIO, message, self._name)


def _end_of_batches(data: bytearray) -> int:
    """Where the last whole batch ends. CorruptRecordError."""
    end = 0
    for position, header in iter_batches(data):
        end = position + header.size_bytes
    return end


@runtime_checkable
class ChecksCopies(Protocol):
    """A storage around another one that copies where the bytes are read."""

    async def copy_checked(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        """Copy a segment, every batch of it checked: the storage's part of the function below."""


def checked_log(data: LogSegmentData) -> CheckedSource:
    """Return the log of a segment, checked as it passes."""
    return CheckedSource(str(data.log.path or "a segment"), data.log)


async def copy_checked(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
) -> bytes | None:
    """Copy a segment, every batch of it checked. DamagedSegmentError, OSError, and what the storage raises."""
    if isinstance(storage, ChecksCopies):
        return await storage.copy_checked(metadata, data)
    checked = checked_log(data)
    custom_metadata = await storage.copy_log_segment_data(metadata, replace(data, log=checked))
    await checked.finish()
    return custom_metadata
