"""What one listener allows its connections; the table is in `server`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SMALL_REQUEST_SIZE: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Sizes in bytes; the table in `server` says what each one does."""

    connections_max: int = 10_000
    request_size_max: int = 100 * 1024 * 1024
    plain_request_size_max: int = 4 * 1024 * 1024
    in_flight_max: int = 16
    request_memory_max: int = 512 * 1024 * 1024
    idle_timeout_s: float = 600.0
    receive_timeout_s: float = 60.0
    send_timeout_s: float = 600.0
    send_buffer_size: int | None = None


class RequestMemory:
    """How many bytes of requests are held. Small ones count and never wait; one large one may overshoot the limit, so
    that any size gets through.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[tuple[Callable[[int], None], int]] = deque()

    def take(self, size: int, granted: Callable[[int], None]) -> bool:
        """Whether the bytes are taken. If not, the event loop calls `granted(size)` when they are."""
        if size <= SMALL_REQUEST_SIZE or self.used < self.limit:
            self.used += size
            return True
        self._waiting.append((granted, size))
        return False

    def give_back(self, size: int) -> None:
        assert size <= self.used, f"{size} bytes given back, {self.used} are taken"
        self.used -= size
        while self._waiting and self.used < self.limit:
            granted, wanted = self._waiting.popleft()
            self.used += wanted
            asyncio.get_running_loop().call_soon(granted, wanted)
