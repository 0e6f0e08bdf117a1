"""Tasks of a scenario: several are waited for, one ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from .loop import SimLoop


async def first_error(main: Awaitable[None], others: Sequence[asyncio.Task[None]]) -> None:
    """Do `main`, or raise the error with which one of the others ends before."""
    task = asyncio.ensure_future(main)
    running = {other for other in others if not other.done()}
    try:
        while not task.done():
            done, _ = await asyncio.wait({task, *running}, return_when=asyncio.FIRST_COMPLETED)
            for ended in done - {task}:
                running.discard(ended)
                ended.result()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def every_second(loop: SimLoop, tick: Callable[[int], None]) -> NoReturn:
    """Call `tick` with the number of events since its last call, until cancelled. Raises what it raises."""
    while True:
        before = loop.events
        await asyncio.sleep(1.0)
        tick(loop.events - before)
