"""Waiting for several tasks as for one.

`asyncio.TaskGroup` wraps the error, and before Python 3.13 it may drop a cancellation that arrives with a child's error
and leave the parent half cancelled, which breaks its later timeouts.
"""

from __future__ import annotations

import asyncio


async def all_done(*tasks: asyncio.Task[object]) -> None:
    """Return once all have succeeded. At the first failure, or when cancelled, cancel the others, await their end, and
    raise that.
    """
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
