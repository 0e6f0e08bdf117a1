"""The memory of one listener's requests: charged as bytes arrive, granted in turn to those that wait.

    bytes arrive -> charge() -> may_read()? -- room, or privileged --------------------> read on
                                    |
                                    +-- no --> the queue of its address --> granted() --> read on

    the request is whole -> complete() -> (handled, answered) -> give_back()

Rules:
* What a peer announces costs nothing; what has arrived is charged. A request up to `SMALL_REQUEST_SIZE` never waits; a
  larger one is not read on while the limit is reached, and one read may exceed it.
* Addresses take turns, and within an address the connection that has waited longest: many connections of one host
  cannot keep another host from its turn.
* If all memory is held by requests that are not whole yet, none of them would ever become so: one is privileged to
  exceed the limit until it is whole or closed. It is closed if it makes no progress (`ServerLimits.progress_window_s`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from ..wire import framing

READ_SIZE_MAX: Final = framing.READ_SIZE_MAX
"""What a connection may have read before it asks again."""
SMALL_REQUEST_SIZE: Final = 64 * 1024
"""Requests up to this size count, and never wait."""
WARNING_INTERVAL_S: Final = 10.0

_log = logging.getLogger(__name__)


class Holder(Protocol):
    """A connection, as its memory sees it."""

    @property
    def address(self) -> str:
        """The host of the peer."""

    def memory_granted(self) -> None:
        """Read on."""


class RequestMemory:
    """At most `limit` bytes of requests, and what one read and one privileged request exceed it by."""

    def __init__(self, limit: int, name: str = "") -> None:
        self.limit = limit
        self.used = 0
        self.waits = 0
        """The number of times that a connection had to wait."""
        self._name = name
        self._arriving = 0
        """The part of `used` that belongs to requests that are not whole."""
        self._queues: dict[str, deque[Holder]] = {}
        self._privileged: Holder | None = None
        self._warned_at_s = -WARNING_INTERVAL_S

    @property
    def waiting(self) -> int:
        """The number of connections that wait now."""
        return sum(map(len, self._queues.values()))

    def charge(self, size: int) -> None:
        """Account for bytes of a request that is arriving."""
        self.used += size
        self._arriving += size

    def may_read(self, holder: Holder) -> bool:
        """Return whether the holder may read more of a large request. If not, it is granted that later."""
        if self.used < self.limit or self._privileged is holder:
            return True
        self._queues.setdefault(holder.address, deque()).append(holder)
        self.waits += 1
        self._warn()
        self._grant()
        return False

    def complete(self, holder: Holder, size: int) -> None:
        """A request is whole; its bytes stay charged until they are given back."""
        self._arriving -= size
        self._end_privilege(holder)

    def hold(self, size: int) -> None:
        """Account for objects that were made of a whole request."""
        self.used += size

    def give_back(self, size: int) -> None:
        """Account for a request that was answered."""
        assert size <= self.used, f"{size} bytes given back, {self.used} are taken"
        self.used -= size
        self._grant()

    def abandon(self, holder: Holder, size: int) -> None:
        """Account for a connection that has ended, and for the part of a request that it had."""
        queue = self._queues.get(holder.address)
        if queue is not None and holder in queue:
            queue.remove(holder)
            if not queue:
                del self._queues[holder.address]
        self._arriving -= size
        self._end_privilege(holder)
        self.give_back(size)

    def _end_privilege(self, holder: Holder) -> None:
        if self._privileged is holder:
            self._privileged = None
            self._grant()

    def _grant(self) -> None:
        """Let those that wait read on: as many as have room to, else one if no request could end otherwise."""
        room = self.limit - self.used
        while self._queues and room > 0:
            room -= READ_SIZE_MAX
            self._call(self._next())
        if self._queues and self._privileged is None and self.used == self._arriving:
            self._privileged = self._next()
            self._call(self._privileged)

    def _next(self) -> Holder:
        address = next(iter(self._queues))
        queue = self._queues.pop(address)
        holder = queue.popleft()
        if queue:
            self._queues[address] = queue  # after all other addresses
        return holder

    @staticmethod
    def _call(holder: Holder) -> None:
        asyncio.get_running_loop().call_soon(holder.memory_granted)

    def _warn(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._warned_at_s + WARNING_INTERVAL_S:
            return
        self._warned_at_s = now_s
        message = (
            "%s: %d connections from %d hosts wait: requests hold %d bytes (%d of them of requests that still arrive), "
            "the limit is %d; raise queued.max.request.bytes, or look for clients that send slowly"
        )
        _log.warning(message, self._name, self.waiting, len(self._queues), self.used, self._arriving, self.limit)
