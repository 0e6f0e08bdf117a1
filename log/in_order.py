"""Keeps batches in the order of their arrival where only some have to wait.

A topic's config decides whether a batch waits before it is appended: to be recompressed, or until its keys are checked.
It may change while some wait. A batch that comes then waits its turn as well, until the line is empty.
"""

from __future__ import annotations

import asyncio


class InOrder:
    """A line: one at a time is in `async with`, in the order in which they came to it."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._present = 0

    @property
    def is_empty(self) -> bool:
        """Whether none is in it, or waits for its turn."""
        return not self._present

    async def __aenter__(self) -> None:
        self._present += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self._present -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        self._present -= 1
        self._lock.release()
