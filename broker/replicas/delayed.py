"""What waits for offsets to move: produce requests for the high watermark, fetch requests for anything new.

Nothing polls. The owner of a partition calls `advance` and `wake` when offsets moved, from the event loop; a request
that waits has a deadline of its own and takes itself out in every case.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from operator import attrgetter
from typing import Final

PURGE_SIZE_MIN: Final = 64
"""Waiters who gave up are dropped when their number has doubled, but not below this."""

_arrivals = itertools.count()


class OffsetWaiters:
    """Futures that are done once an offset was reached, in the order of the offsets."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._purge_size = PURGE_SIZE_MIN

    def __len__(self) -> int:
        return len(self._heap)

    def wait_for(self, offset: int) -> asyncio.Future[None]:
        """Done at the first `advance(reached)` with `reached >= offset`; cancel it to give up."""
        if len(self._heap) >= self._purge_size:
            self._purge()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (offset, next(self._order), future))
        return future

    def advance(self, reached: int) -> None:
        while self._heap and self._heap[0][0] <= reached:
            future = heapq.heappop(self._heap)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Everybody who waits gets the error."""
        heap, self._heap = self._heap, []
        for _, _, future in heap:
            if not future.done():
                future.set_exception(error)

    def _purge(self) -> None:
        self._heap = [entry for entry in self._heap if not entry[2].done()]
        heapq.heapify(self._heap)
        self._purge_size = max(PURGE_SIZE_MIN, 2 * len(self._heap))


class Wakeup:
    """One fetch request that sleeps on any number of partitions; the first that has news wakes it."""

    __slots__ = ("_future", "arrival")

    def __init__(self) -> None:
        self.arrival = next(_arrivals)
        self._future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self._future.done():
            self._future.set_result(True)

    async def wait(self, until_s: float | None) -> bool:
        """False if the loop's time has come without news; None: without a limit of its own."""
        if until_s is None:
            return await self._future
        timer = asyncio.get_running_loop().call_at(until_s, self._give_up)
        try:
            return await self._future
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        if not self._future.done():
            self._future.set_result(False)


class Sleepers:
    """The fetch requests that sleep on one kind of news of one partition."""

    __slots__ = ("_wakeups",)

    def __init__(self) -> None:
        self._wakeups: dict[Wakeup, None] = {}

    def __len__(self) -> int:
        return len(self._wakeups)

    def add(self, wakeup: Wakeup) -> None:
        self._wakeups[wakeup] = None

    def discard(self, wakeup: Wakeup) -> None:
        self._wakeups.pop(wakeup, None)

    def wake(self) -> None:
        """Wake all, once, who came first first: they look again and come back if what they found is not enough."""
        if not self._wakeups:
            return
        wakeups, self._wakeups = self._wakeups, {}
        for wakeup in sorted(wakeups, key=attrgetter("arrival")):
            wakeup.wake()
