"""A piece of one segment's `.log` that a reader is about to send or read, and its hold on the segment.

| state | bytes under it | ends by |
|---|---|---|
| held | stay as they are: truncation waits, deletion unlinks the name but keeps the file open | `release` |
| aborted | may change: truncation stopped waiting | `read` and `send` raise; `release` |
| released | no longer held | - |

A truncation that has waited long enough aborts the slices above its cut: a `send` under way loses its connection (the
peer would get a mixture of old and new bytes), a `read` under way ends by itself, and only then are the bytes cut.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol, Self

from ...protocol import ErrorCode, KafkaError
from ..disk.port import DiskFile


class SliceOwner(Protocol):
    """The segment of a slice: notified when the slice is released, and when a transfer of it has ended."""

    def slice_changed(self, log_slice: LogSlice, *, released: bool) -> None: ...


class LogSlice:
    """`size` bytes from `position` of one file: whole batches, of which the first holds `first_offset`.

    All their offsets are below `end_offset`, which may be too large by about an index interval, or a batch. Release it
    in every case, best by `with`. An empty slice (size 0) holds nothing.
    """

    __slots__ = (
        "_aborted",
        "_file",
        "_owner",
        "_transport",
        "_under_way",
        "end_offset",
        "first_offset",
        "position",
        "size",
    )

    def __init__(
        self,
        owner: SliceOwner | None,
        file: DiskFile | None,
        position: int,
        size: int,
        *,
        first_offset: int,
        end_offset: int,
    ) -> None:
        assert (size == 0) == (file is None), (file, size)
        self._owner = owner
        self._file = file
        self.position = position
        self.size = size
        self.first_offset = first_offset
        self.end_offset = end_offset
        self._under_way = False
        self._aborted = False
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    def empty(cls, offset: int) -> LogSlice:
        return cls(None, None, 0, 0, first_offset=offset, end_offset=offset)

    @property
    def end_position(self) -> int:
        return self.position + self.size

    @property
    def is_busy(self) -> bool:
        """Whether a transfer is under way."""
        return self._under_way

    async def read(self) -> bytes:
        """Read the bytes. Raise OSError if the file has become shorter."""
        if self._file is None:
            return b""
        file = self._begin()
        try:
            data = await file.read(self.position, self.size)
        finally:
            self._end()
        if len(data) != self.size:
            raise OSError(f"{file.path}: expected {self.size} bytes at {self.position}, read {len(data)}")
        self._check_not_aborted()
        return data

    async def read_at(self, start: int, size: int) -> bytes:
        """Read some of the bytes, from `start` within the slice; fewer at its end."""
        if self._file is None:
            return b""
        file = self._begin()
        try:
            data = await file.read(self.position + start, min(size, self.size - start))
        finally:
            self._end()
        self._check_not_aborted()
        return data

    def keep(self, start: int, end: int) -> None:
        """Shorten the slice to the bytes from `start` to below `end` within it: whole batches."""
        assert 0 <= start < end <= self.size, (start, end, self.size)
        assert not self._under_way, "a slice is shortened while it is read"
        self.position += start
        self.size = end - start

    def at_once(self) -> bytes | None:
        """Return all bytes if they are in memory; None if they must be read or sent, or if that would fail."""
        if self._file is None:
            return b""
        data = None if self._aborted else self._file.read_at_once(self.position, self.size)
        return data if data is not None and len(data) == self.size else None

    async def send(self, transport: asyncio.WriteTransport) -> None:
        """Send the bytes without a copy where the platform can; on any error the caller closes the transport."""
        if self._file is None:
            return
        file = self._begin()
        self._transport = transport
        try:
            await file.send(self.position, self.size, transport)
        finally:
            self._transport = None
            self._end()

    def abort(self) -> None:
        """Reject every further transfer, and abort the connection of one that is under way."""
        self._aborted = True
        if self._transport is not None:
            self._transport.abort()

    def release(self) -> None:
        """Release the segment. Idempotent."""
        owner, self._owner, self._file = self._owner, None, None
        self.size = 0
        if owner is not None:
            owner.slice_changed(self, released=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _begin(self) -> DiskFile:
        assert self._file is not None, "a released slice is used"
        assert not self._under_way, "a slice is used twice at the same time"
        self._check_not_aborted()
        self._under_way = True
        return self._file

    def _end(self) -> None:
        self._under_way = False
        if self._owner is not None:
            self._owner.slice_changed(self, released=False)

    def _check_not_aborted(self) -> None:
        if self._aborted:
            raise KafkaError(
                ErrorCode.not_leader_or_follower,
                f"offset {self.first_offset} was truncated during the read: retry at the leader",
            )


class HeldSlices:
    """The held slices of one segment; each slice calls `changed` when its transfer ends and on release."""

    __slots__ = ("_slices", "_waiter")

    def __init__(self) -> None:
        self._slices: dict[LogSlice, None] = {}
        self._waiter: asyncio.Future[None] | None = None

    def add(self, log_slice: LogSlice) -> None:
        self._slices[log_slice] = None

    def changed(self, log_slice: LogSlice, *, released: bool) -> None:
        if released:
            self._slices.pop(log_slice, None)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def above(self, position: int) -> list[LogSlice]:
        """Return the slices that reach beyond a byte position."""
        return [log_slice for log_slice in self._slices if log_slice.end_position > position]

    async def wait(self) -> None:
        """Wait until a slice has changed; for one caller at a time."""
        assert self._waiter is None, self._slices
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
