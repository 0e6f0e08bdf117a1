"""The request that is arriving on one connection: its memory, and whether its bytes keep coming.

| state | progress is judged by | ends |
|---|---|---|
| nothing, or a small request | `receive_timeout_s` of the connection | whole, or closed |
| reading | at least `progress_bytes_min` in each `progress_window_s` | whole, or closed |
| waiting for memory | bytes that wait in the kernel: none for a whole window is none sent | granted, or closed |

Requests of Fetch have memory of their own: a follower's fetch must get through while produce requests, which wait for
that very follower, hold all other memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...light_dataclass import dataclass
from ..api import ApiKey
from ..wire.framing import FrameAssembler
from ..wire.primitives import INT16, MalformedMessageError
from .object_memory import ObjectMemory, guess
from .request_memory import SMALL_REQUEST_SIZE, RequestMemory
from .server_limits import ServerLimits

PRESSED: Final = 5
"""While others wait for the memory, progress is judged so many times as often."""
OBJECTS_SHARE: Final = 2
"""The objects of large requests that only ask have this part of the memory of requests, besides it."""
API_KEY_SIZE: Final = INT16.size


@dataclass(frozen=True, slots=True)
class RequestMemories:
    """The memory of a listener's requests."""

    fetches: RequestMemory
    others: RequestMemory
    objects: ObjectMemory

    @classmethod
    def of_listener(cls, limits: ServerLimits, name: str) -> RequestMemories:
        """Return those of a listener with this name."""
        return cls(
            fetches=RequestMemory(limits.fetch_memory_max, f"{name}, Fetch"),
            others=RequestMemory(limits.request_memory_max, name),
            objects=ObjectMemory(limits.request_memory_max // OBJECTS_SHARE),
        )

    @property
    def used(self) -> int:
        return self.fetches.used + self.others.used + self.objects.used

    @property
    def waiting(self) -> int:
        return self.fetches.waiting + self.others.waiting + self.objects.waiting

    @property
    def waits(self) -> int:
        return self.fetches.waits + self.others.waits + self.objects.waits

    def of(self, api_key: int) -> RequestMemory:
        return self.fetches if api_key == ApiKey.FETCH else self.others


@dataclass(slots=True)
class Charge:
    """What one whole request holds: its bytes, what was made of them, and in the place of that the response to a
    request for which there was made room.
    """

    memory: RequestMemory
    size: int
    objects: ObjectMemory
    made_size: int = 0
    """The size of objects that count with the bytes."""
    room: int = 0
    """What it has of `objects`."""

    @property
    def is_pressed(self) -> bool:
        """Whether others wait for the room that this one has."""
        return self.room > 0 and self.objects.is_pressed

    async def make_room(self, address: str, elements_max: int) -> None:
        """Wait until there is room for the objects that a request which only asks is made into."""
        if self.size > SMALL_REQUEST_SIZE:
            size = guess(self.size, elements_max)
            await self.objects.take(address, size)
            self.room = size

    def hold(self, size: int) -> None:
        """Account for objects that were made of the request."""
        if self.room > 0:
            self._change_room(size)
        else:
            self.made_size += size
            self.memory.hold(size)

    def answered(self, response_size: int) -> None:
        """Account for a response that is encoded, in the place of the objects of the request."""
        if self.room > 0:
            self._change_room(response_size)

    def give_back(self) -> None:
        self._change_room(0)
        self.memory.give_back(self.size + self.made_size)

    def _change_room(self, size: int) -> None:
        by, self.room = size - self.room, size
        self.objects.change(by)


class Arrival:
    """The arriving request of one connection; `granted` is called when reading may continue."""

    def __init__(self, memories: RequestMemories, limits: ServerLimits, granted: Callable[[], None]) -> None:
        self.address = ""
        self.is_waiting = False
        self._memories = memories
        self._limits = limits
        self._granted = granted
        self._memory = memories.others
        self._charged = 0
        self._size = 0
        self._window_start_s: float | None = None
        self._window_received = 0

    def next_frame(self, frames: FrameAssembler, now_s: float) -> tuple[memoryview, Charge] | None:
        """Return the next whole request with what it holds, or None: more must arrive, or memory must be granted.
        MalformedMessageError for one that is too large.
        """
        size = frames.next_size()
        if size is None:
            return None
        frame = frames.frame(size)
        if frame is None:
            if frames.arriving is not None:
                self._receive(*frames.arriving, size, now_s)
            return None
        if self._charged == 0:
            self._begin(frame, size)
        self._memory.charge(size - self._charged)
        self._memory.complete(self, size)
        self._charged, self._window_start_s = 0, None
        return frame, Charge(self._memory, size, self._memories.objects)

    def _receive(self, arrived: memoryview, filled: int, size: int, now_s: float) -> None:
        if filled < API_KEY_SIZE:
            return
        if self._charged == 0:
            self._begin(arrived, size)
            self._window_start_s, self._window_received = now_s, 0
        more = filled - self._charged
        self._memory.charge(more)
        self._charged = filled
        if more and self._size > SMALL_REQUEST_SIZE and not self._memory.may_read(self):
            self.is_waiting = True

    def _begin(self, arrived: memoryview, size: int) -> None:
        self._size = size
        key = INT16.unpack_from(arrived)[0] if size >= API_KEY_SIZE else ApiKey.API_VERSIONS
        self._memory = self._memories.of(key)
        if key == ApiKey.FETCH and size > self._limits.fetch_request_size_max:
            raise MalformedMessageError(
                f"FETCH request of {size} bytes, allowed are {self._limits.fetch_request_size_max}"
            )

    def memory_granted(self) -> None:
        """Called by the memory."""
        self.is_waiting = False
        self._window_start_s = None
        self._granted()

    def resume(self) -> None:
        """Begin to judge progress again: nothing was read for a while, which is not the peer's doing."""
        self._window_start_s = None

    def abandon(self) -> None:
        """The connection has ended."""
        charged, self._charged = self._charged, 0
        self._memory.abandon(self, charged)

    def stalled(self, pending_bytes: int | None, now_s: float) -> bool:
        """Return whether the peer has stopped sending a large request. `pending_bytes` wait in the kernel, None where
        that is not known: while reading is paused, and as long as they are too few to wake the reader.
        """
        if self._charged == 0 or self._size <= SMALL_REQUEST_SIZE:
            return False
        received = self._charged + (pending_bytes or 0)
        if self._window_start_s is None or (self.is_waiting and pending_bytes != 0):
            self._window_start_s, self._window_received = now_s, received
            return False
        share = 1 / PRESSED if self._memory.waiting else 1.0
        if now_s < self._window_start_s + self._limits.progress_window_s * share:
            return False
        came = received - self._window_received
        self._window_start_s, self._window_received = now_s, received
        return came < self._limits.progress_bytes_min * share
