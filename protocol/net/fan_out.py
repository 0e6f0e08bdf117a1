"""One function called for many items on one loop: some at the same time, each iteration beginning its share only.

What is begun may run to its end without ever waiting (a log that is open already), so a limit of what is under way does
not bound the time on the loop; `pace` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from .pacing import pace

T = TypeVar("T")


async def for_each(
    items: Collection[T], do: Callable[[T], Awaitable[object]], *, at_once: int, weight: int = 1
) -> None:
    """Do all of them in order, `at_once` at the same time; `weight` is what one costs on the loop, in elements of
    `pace`. The first exception cancels the others; it is raised in an ExceptionGroup.
    """
    left = iter(items)

    async def work() -> None:
        for item in left:  # shared: each takes the next one
            await pace().spend(weight)
            await do(item)

    if len(items) == 1:  # most requests are of one: a task would cost more than what it does
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - it is raised again, as by the group
            raise ExceptionGroup("unhandled errors", [error]) from None
        return
    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(items))):
            group.create_task(work())
