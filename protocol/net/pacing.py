"""A share of the event loop: long work is cut into slices, and a limited number of slices runs in each iteration.

    request, batch, ... -> spend(elements) -- this iteration's share suffices --> the slice runs at once
                                 |
                                 +-- it is used up --> wait; the work that has had least so far continues first

Work is counted in elements (of an array, records of a batch), not in time, so that tests and the simulation see the
same slices as production. An element costs a few microseconds, so that `ELEMENTS_PER_ITERATION` of them take less than
20 ms; work whose elements cost more says how many plain ones each is worth.

Invariants:
* However many requests are under way, one iteration performs `ELEMENTS_PER_ITERATION` elements and one slice at most.
* Small work overtakes large work, because what has had least continues first; among equals the oldest continues.
* Work that is cancelled while it waits leaves nothing.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from ..wire.primitives import STEP_ELEMENTS
from ..wire.stepping import Steps

T = TypeVar("T")

ELEMENTS_PER_ITERATION: Final = 2000
"""Elements that all long work may use up in one iteration of the loop."""
SLICE_ELEMENTS: Final = 1000
"""Elements of one slice; the limit of an iteration is exceeded by one slice at most."""


class Pace:
    """The share of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = ELEMENTS_PER_ITERATION
        self._waiting: list[tuple[int, int, int, asyncio.Future[None]]] = []
        """A heap of (elements had so far, number of the wait, elements wanted, the turn)."""
        self._waits = 0
        self._is_refill_due = False

    async def spend(self, elements: int, had: int = 0) -> None:
        """Account for the next slice, of so many elements, of work that has had `had` so far; wait for its turn."""
        if not self._is_refill_due:
            self._is_refill_due = True
            self._loop.call_soon(self._refill)
        if self._left > 0 and not self._waiting:
            self._left -= elements
            return
        turn = self._loop.create_future()
        self._waits += 1
        heapq.heappush(self._waiting, (had, self._waits, elements, turn))
        await turn

    def _refill(self) -> None:
        """A new iteration: let those continue that have had least."""
        self._left = ELEMENTS_PER_ITERATION
        while self._waiting and self._left > 0:
            _, _, elements, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._left -= elements
                turn.set_result(None)
        self._is_refill_due = self._left < ELEMENTS_PER_ITERATION
        if self._is_refill_due:
            self._loop.call_soon(self._refill)


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace() -> Pace:
    """Return the share of the running loop."""
    loop = asyncio.get_running_loop()
    found = _paces.get(loop)
    if found is None:
        found = _paces[loop] = Pace(loop)
    return found


class Slices(Generic[T]):
    """`async for some in Slices(items)`: lists of consecutive items, each within the loop's share.

    `weight` is what an item costs, in elements. Nothing waits for up to `free` items: the first list is had without an
    account, so that ordinary requests cost nothing and keep their order. A class, not a generator, so that leaving the
    loop early leaves nothing.
    """

    __slots__ = ("_cost", "_free", "_had", "_has_ended", "_items", "_size")

    def __init__(self, items: Iterable[T], *, weight: float = 1, free: int = 0) -> None:
        self._items: Iterator[T] = iter(items)
        self._size = max(int(SLICE_ELEMENTS / weight), 1)
        self._cost = int(self._size * weight)
        self._free = free
        self._had = 0
        self._has_ended = False
        """Whether the free list was all: to look for more would take a turn."""

    def __aiter__(self) -> Slices[T]:
        return self

    async def __anext__(self) -> list[T]:
        if self._free:
            some, free, self._free = list(islice(self._items, self._free)), self._free, 0
            self._has_ended = len(some) < free
            if some:
                return some
        if self._has_ended:
            raise StopAsyncIteration
        await pace().spend(self._cost, self._had)
        self._had += self._cost
        some = list(islice(self._items, self._size))
        if not some:
            raise StopAsyncIteration
        return some


class Portions(Generic[T]):
    """`async for some in Portions(items, cost)`: as `Slices`, of items each of which costs what `cost` returns, in
    elements: lists of at most a slice, or of one item. Nothing waits for the first `free` elements.
    """

    __slots__ = ("_cost", "_free", "_had", "_items", "_next")

    def __init__(self, items: Iterable[T], cost: Callable[[T], int], *, free: int = 0) -> None:
        self._items = iter(items)
        self._cost = cost
        self._free = free
        self._had = 0
        self._next: list[T] = []
        """The item that found no place in the last portion, if there is one."""

    def __aiter__(self) -> Portions[T]:
        return self

    async def __anext__(self) -> list[T]:
        some, self._next = self._next, []
        used = sum([self._cost(item) for item in some])
        for item in self._items:
            used += (cost := self._cost(item))
            if some and used > (self._free or SLICE_ELEMENTS):
                self._next, used = [item], used - cost
                break
            some.append(item)
        if not some:
            raise StopAsyncIteration
        if used > self._free:
            await pace().spend(used, self._had)
            self._had += used
        self._free = 0
        return some


async def exhausted(steps: Steps[T], elements: int = STEP_ELEMENTS) -> T:
    """Run work that yields after each `elements` elements to its end, within the loop's share; return its result."""
    had = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        had += elements
        await pace().spend(elements, had)
