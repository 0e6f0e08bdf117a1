"""The files of a segment that the remote log manager uploads, and a hold on the segment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ..disk.port import DiskFile
from .segment import LogSegment


class FileSource:
    """An open file that no longer changes."""

    __slots__ = ("_file", "_size")

    def __init__(self, file: DiskFile, size: int) -> None:
        self._file = file
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    @property
    def path(self) -> Path | None:
        return self._file.path

    async def read(self, offset: int, count: int) -> bytes:
        return await self._file.read(offset, min(count, max(0, self._size - offset)))


class BytesSource:
    """A file whose content is in memory."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def path(self) -> Path | None:
        return None

    async def read(self, offset: int, count: int) -> bytes:
        return self._data[offset : offset + count]


class SegmentFiles:
    """The files of one closed segment by kind: `log`, `index`, `timeindex`, `txnindex`, `snapshot`,
    `leader_epoch_checkpoint`. `txnindex` is absent without an aborted transaction. Release it in every case.
    """

    __slots__ = ("_segment", "files")

    def __init__(self, files: Mapping[str, FileSource | BytesSource], segment: LogSegment) -> None:
        self.files = files
        self._segment: LogSegment | None = segment
        segment.pins += 1

    def release(self) -> None:
        """Release the segment. Idempotent."""
        if self._segment is not None:
            self._segment.pins -= 1
            self._segment = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
