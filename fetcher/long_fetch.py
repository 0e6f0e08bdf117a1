"""A wait that others may end: `asyncio.timeout(None)` and its `reschedule`, at a quarter of the cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class LongFetch:
    """What `task` waits for; not to be ended by `task` itself.

    Where CancelledError comes out of the wait, `is_only_ended` tells whether it has no other origin. However the wait
    came to its end, the task is to `uncancel` itself if it was ended.
    """

    task: asyncio.Task[None]
    is_ended: bool = False

    def end(self) -> None:
        if not self.is_ended:
            self.is_ended = True
            self.task.cancel()

    @property
    def is_only_ended(self) -> bool:
        return self.is_ended and self.task.cancelling() == 1
