"""Turns: what is limited to a number at a time, such as requests on a connection or calls of a disk."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """`taken` at a time, at most `limit`; who finds none waits, in the order in which they came. `asyncio.Semaphore`
    costs several times as much where no task has to wait.
    """

    __slots__ = ("_limit", "_waiting", "taken")

    def __init__(self, limit: int) -> None:
        self.taken = 0
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_take(self) -> bool:
        """False if there is none, or others wait for one."""
        if self.taken >= self._limit or self._waiting:
            return False
        self.taken += 1
        return True

    async def take(self) -> None:
        """Does not yield to the event loop if there is one."""
        if self.try_take():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """To who has waited longest."""
        self.taken -= 1
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)
                return
