"""Whether a cluster comes to rest, or runs in a circle: judged once nothing fails any more.

| invariant  | violated when                                                                                        |
|------------|------------------------------------------------------------------------------------------------------|
| keeps pace | more events happen for seconds on end than any work explains: somebody asks the same again and again |

It would show at the end, too, as what never converges; but a circle takes a hundred times as long to be waited for.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

from ..machine.loop import SimLoop
from .core.partition import InvariantViolationError

EVENTS_MAX: Final = 12_000
"""A virtual second; a cluster that catches up takes less than half of it."""
SECONDS_MAX: Final = 3


async def keep_pace(loop: SimLoop) -> NoReturn:
    """Until cancelled. InvariantViolationError."""
    busy_s = 0
    while True:
        before = loop.events
        await asyncio.sleep(1.0)
        events = loop.events - before
        busy_s = busy_s + 1 if events > EVENTS_MAX else 0
        if busy_s >= SECONDS_MAX:
            raise InvariantViolationError("keeps pace", f"{events} events a second for {busy_s} s, without a fault")
