"""Clients that follow one another in a place: a new one begins while the ones before may still live."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

Lives = dict[asyncio.Task[None], None]


async def live_on(lives: Lives, pause: Coroutine[Any, Any, None]) -> None:
    """Let clients live for a pause. Those that end are removed, in the order in which they began; raise what one of
    them raises.
    """
    pausing = asyncio.create_task(pause)
    try:
        while not pausing.done():
            await asyncio.wait([pausing, *lives], return_when=asyncio.FIRST_COMPLETED)
            for task in [each for each in lives if each.done()]:
                del lives[task]
                if not task.cancelled():
                    task.result()
    finally:
        pausing.cancel()
