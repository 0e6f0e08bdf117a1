"""Whether a quota slows the client that it is set for, and no other.

| invariant        | violated when                                                                                  |
|------------------|------------------------------------------------------------------------------------------------|
| own quota        | a client for which there is no quota is throttled                                              |
| bounded throttle | a throttle time is longer than it takes, at the lowest quota so far, to send what the client   |
|                  | can have used in the windows that count                                                        |

While a quota stays what it is, that is the length of those windows: a client had to wait before it had used more. After
a quota was lowered it may have used what the highest one allowed, and a broker may only just learn of the new one. Then
Kafka's throttle times are longer than all windows, and so are ours: the client waits until, had nothing come since, its
rate would be at the new bound (seed 151). That it gets on is judged with all others: it must end with them.
"""

from __future__ import annotations

from typing import Final

from .events import MetadataChanged, Observed, Throttled
from .partition import InvariantViolationError

THROTTLED: Final = "throttled"
"""The client that operators set quotas for."""
THROTTLE_MAX_MS: Final = 11_000
"""Kafka's defaults: 11 samples of a second."""
BEYOND_BYTES: Final = 10_000
"""The processes that share the client's quota send so much above it, at most, before all of them wait."""


class ThrottlesJudge:
    """Judges each answer with a throttle time."""

    def __init__(self) -> None:
        self._quotas: dict[str, tuple[float, float]] = {}
        """The lowest and the highest value that each quota has had."""
        self.throttles = 0
        """How often the client with quotas had to wait."""

    def on(self, event: Observed) -> None:
        match event:
            case MetadataChanged(_, metadata, _, _):
                for _, quotas in metadata.quotas.items():
                    for key, value in quotas.items():
                        self._note(key, value)
            case Throttled():
                self._check(event)

    def _note(self, key: str, value: float) -> None:
        lowest, highest = self._quotas.get(key, (value, value))
        self._quotas[key] = min(lowest, value), max(highest, value)

    def _check(self, event: Throttled) -> None:
        """InvariantViolationError."""
        detail = f"{event.client} is throttled for {event.throttle_ms} ms by {event.key}"
        if event.client != THROTTLED:
            raise InvariantViolationError("own quota", f"{detail}, and has no quota")
        if event.throttle_ms > self._longest_ms(event.key):
            lowest, highest = self._quotas.get(event.key, (0.0, 0.0))
            raise InvariantViolationError("bounded throttle", f"{detail}, set to {lowest:g} to {highest:g} so far")
        self.throttles += 1

    def _longest_ms(self, key: str) -> float:
        lowest, highest = self._quotas.get(key, (0.0, 0.0))
        if lowest == highest:
            return THROTTLE_MAX_MS
        return (THROTTLE_MAX_MS * highest + BEYOND_BYTES * 1000) / lowest
