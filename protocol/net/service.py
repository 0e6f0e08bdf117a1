"""What starts and stops as one: a broker, a controller, a replica of the quorum.

start    its parts one after the other; each puts on `_stack` how it is stopped
stop     the parts, the other way round
a start that fails, or is cancelled, stops what was started
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol, Self, TypeVar

from ..start_waits import StartWaits


class Closes(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closes)


class Service(ABC):
    """`async with service:` has it serving."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self.waits = StartWaits()
        """What its start waits for, for the process that runs it to say."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Raises what its parts raise."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        await self._stack.aclose()

    @abstractmethod
    async def _start(self) -> None: ...


@asynccontextmanager
async def closing(resource: C) -> AsyncIterator[C]:
    """What is closed when the block ends, however that comes."""
    try:
        yield resource
    finally:
        await resource.close()


async def cancelled(task: asyncio.Task[object]) -> None:
    """Cancel the task and wait for its end; an error of it stays with the task."""
    task.cancel()
    await asyncio.wait([task])
