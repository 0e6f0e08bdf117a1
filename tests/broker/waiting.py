"""Waiting for a condition with a deadline, where there is no event to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

POLL_S = 0.002
DEADLINE_S = 10.0


async def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Return once `condition()` holds; TimeoutError after the deadline."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other processes or views
            await asyncio.sleep(POLL_S)
