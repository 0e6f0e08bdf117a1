"""The slices that readers hold of one segment, and a truncation that waits for their release."""

from __future__ import annotations

import asyncio

from .slices import LogSlice


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
