"""The memory of what large requests that only ask are made into, which is many times what has arrived of them.

    whole request --> take(a guess from its size) --> made into objects --> change(what they really are) --> handled
                            |                              --> change(the encoded response) --> sent --> change(-all)
                            +-- no room: the queue of its address; what has arrived of it is all that it holds

A request of 150 kB may name 20,000 topics. Thirty of them that were made into objects together would hold all memory
until the last one is answered, because all make progress alike; and a client that does not read its response would
hold it for as long as the listener allows. Only requests that ask come here (`slicing`): their answers wait for no
other request, so that what is held is given back. Others count in `request_memory`.

Rules:
* Addresses take turns; within an address the oldest comes first. Nothing overtakes the one whose turn it is.
* What is larger than the limit comes when nothing else is held.
* While others wait for this memory it `is_pressed`: a client that takes too little of its response is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

ELEMENT_BYTES: Final = 256
"""The memory of an element of a large request, whatever its size on the wire."""
ELEMENT_WIRE_BYTES: Final = 4
"""How few bytes an element has on the wire: the number of a partition."""


def guess(request_size: int, elements_max: int) -> int:
    """Return the memory of the objects that a request of so many bytes may be made into."""
    return min(request_size // ELEMENT_WIRE_BYTES, elements_max) * ELEMENT_BYTES


class ObjectMemory:
    """At most `limit` bytes, and what a guess, the response of a request, or a single large one exceed it by."""

    def __init__(self, limit: int) -> None:
        self.used = 0
        self.waiting = 0
        """The number of requests that wait now."""
        self.waits = 0
        """The number of times that a request had to wait."""
        self._limit = limit
        self._queues: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        """Sizes and turns of those that wait, by address."""

    @property
    def is_pressed(self) -> bool:
        return self.waiting > 0

    async def take(self, address: str, size: int) -> None:
        """Wait until there is room for so many bytes. Does not yield to the event loop if there is."""
        if not self._queues and self._has_room(size):
            self.used += size
            return
        turn = asyncio.get_running_loop().create_future()
        self.waits += 1
        self.waiting += 1
        self._queues.setdefault(address, deque()).append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.used -= size
            self._grant()
            raise
        finally:
            self.waiting -= 1

    def change(self, by: int) -> None:
        """Account for objects that turned out to be larger or smaller, or went. Never waits."""
        self.used += by
        assert self.used >= 0, f"{-by} bytes given back, {self.used - by} were taken"
        if by < 0:
            self._grant()

    def _has_room(self, size: int) -> bool:
        return self.used == 0 or self.used + size <= self._limit

    def _grant(self) -> None:
        while self._queues:
            address = next(iter(self._queues))
            queue = self._queues[address]
            while queue and queue[0][1].done():  # cancelled
                queue.popleft()
            if queue and not self._has_room(queue[0][0]):
                return
            del self._queues[address]
            if queue:
                size, turn = queue.popleft()
                self.used += size
                turn.set_result(None)
            if queue:
                self._queues[address] = queue  # after all other addresses
