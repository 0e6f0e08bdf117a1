"""Whether a quota slows the client that it is set for, and no other.

| invariant        | violated when                                                                                  |
|------------------|------------------------------------------------------------------------------------------------|
| own quota        | a client for which there is no quota is throttled                                              |
| bounded throttle | a throttle time is longer than quotas are measured over                                        |

That the throttled client gets on is judged with all others: it must end with them.
"""

from __future__ import annotations

from typing import Final

from .events import Observed, Throttled
from .partition import InvariantViolationError

THROTTLED: Final = "throttled"
"""The client that operators set quotas for."""
THROTTLE_MAX_MS: Final = 11_000
"""Kafka's defaults: 11 samples of a second."""


class ThrottlesJudge:
    """Judges each answer with a throttle time."""

    def __init__(self) -> None:
        self.throttles = 0
        """How often the client with quotas had to wait."""

    def on(self, event: Observed) -> None:
        if not isinstance(event, Throttled):
            return
        detail = f"{event.client} is throttled for {event.throttle_ms} ms"
        if event.client != THROTTLED:
            raise InvariantViolationError("own quota", f"{detail}, and has no quota")
        if event.throttle_ms > THROTTLE_MAX_MS:
            raise InvariantViolationError("bounded throttle", detail)
        self.throttles += 1
