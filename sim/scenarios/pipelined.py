"""A producer that keeps several idempotent batches of one partition in flight, as Java's does by default.

    numbered -> sent -> answered
                  |-> failed -> all older ones are answered -> sent again, under the same sequence

| rule                                           | why                                                             |
|------------------------------------------------|-----------------------------------------------------------------|
| at most `IN_FLIGHT_MAX` are unanswered         | a broker remembers that many of each producer                   |
| nothing new while one waits to be sent again   | it could only be refused                                        |
| the first one of a producer id is alone        | of a producer that it does not know a broker takes any sequence |
| what failed goes when nothing older is left    | the oldest is the next that can be taken                        |
| "out of order" means lost to the oldest only   | to others: an older one has not been taken yet                  |

What is under way to a leader of the past may still fail when younger ones have been sent to the next one: that is for
the broker to refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ...protocol import KafkaError
from ..judges.core.history import Send
from .client import AttemptFailedError
from .workload import SEQUENCE_LOST, Producer, Retries

IN_FLIGHT_MAX: Final = 5


class PipelinedProducer(Producer):
    """`run` it; what ends one of its requests unexpectedly ends it."""

    _flights: dict[asyncio.Task[None], None]
    """Unanswered batches, the oldest first."""
    _changed: asyncio.Event
    """Set when anything below may have."""
    _failed = 0
    """How many of them wait to be sent again."""
    _is_known = False
    """Whether a batch of this producer id was taken."""
    _is_lost = False
    """Whether a broker has forgotten it: what is under way is given up."""
    _error: BaseException | None = None

    async def run(self) -> None:
        """In bursts, at the same pace as one that waits for each answer."""
        self._flights, self._changed = {}, asyncio.Event()
        try:
            while not self._shared.stopping.is_set():
                burst = self._rng.randint(1, IN_FLIGHT_MAX)
                for _ in range(burst):
                    await self._room()
                    await self._launch()
                await self._pause(burst)
            await self._until(lambda: not self._flights)
        finally:
            for flight in self._flights:
                flight.cancel()
            await asyncio.gather(*self._flights, return_exceptions=True)

    async def _room(self) -> None:
        """Until another batch may go."""
        await self._until(lambda: not self._is_lost or not self._flights)
        if self._is_lost:
            self._producer, self._is_known, self._is_lost = None, False, False
        await self._until(lambda: len(self._flights) < (IN_FLIGHT_MAX if self._is_known else 1) and not self._failed)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while True:
            if self._error is not None:
                raise self._error
            if holds():
                return
            self._changed.clear()
            await self._changed.wait()

    async def _launch(self) -> None:
        send, batch = await self._prepare(None)
        self._sequence += len(send.values)
        flight = asyncio.create_task(self._fly(send, batch, list(self._flights)))
        self._flights[flight] = None
        flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        del self._flights[flight]
        if not flight.cancelled():
            self._error = self._error or flight.exception()
        self._changed.set()

    async def _fly(self, send: Send, batch: bytes, older: list[asyncio.Task[None]]) -> None:
        """Until it is answered, or its producer id is lost."""
        attempt = Retries(self._rng)
        while not self._is_lost:
            is_oldest = all(flight.done() for flight in older)
            try:
                await self._attempt(send, batch)
            except AttemptFailedError:
                pass
            except KafkaError as error:
                if error.code not in SEQUENCE_LOST:
                    self._check(error)
                elif is_oldest:
                    self._is_lost = True
                    self._refused(send, error)
            else:
                self._is_known = True
                return
            await self._wait_for(older, attempt)

    async def _wait_for(self, older: list[asyncio.Task[None]], attempt: Retries) -> None:
        self._failed += 1
        try:
            await attempt.back_off()
            for flight in older:
                await asyncio.wait([flight])
        finally:
            self._failed -= 1
            self._changed.set()
