"""Letting an event loop turn, for tests that something does *not* happen."""

from __future__ import annotations

import asyncio
from typing import Final

TURNS: Final = 100


async def turns(count: int = TURNS) -> None:
    """Return after so many turns of the event loop.

    Each turn runs what is ready and looks at the sockets, and loopback delivers within the turn: whatever code on this
    loop does without waiting for time or a thread is done, whatever the machine's speed.
    """
    for _ in range(count):
        await asyncio.sleep(0)
