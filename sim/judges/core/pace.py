"""Whether a cluster comes to rest, or runs in a circle: judged once nothing fails.

| invariant  | violated when                                                                                        |
|------------|------------------------------------------------------------------------------------------------------|
| keeps pace | more events happen for seconds on end than any work explains: some node repeats the same without end |

It would show at the end, too, as what never converges; but a circle takes a hundred times as long to be waited for.
"""

from __future__ import annotations

from typing import Final

from .events import Observed, SecondPassed
from .partition import InvariantViolationError

EVENTS_MAX: Final = 12_000
"""Events in a virtual second; a cluster that catches up takes less than half of them."""
SECONDS_MAX: Final = 3


class PaceJudge:
    """Counts the busy seconds without a pause."""

    def __init__(self) -> None:
        self._busy_s = 0

    def on(self, event: Observed) -> None:
        if not isinstance(event, SecondPassed):
            return
        self._busy_s = self._busy_s + 1 if event.events > EVENTS_MAX else 0
        if self._busy_s >= SECONDS_MAX:
            detail = f"{event.events} events a second for {self._busy_s} s, without a fault"
            raise InvariantViolationError("keeps pace", detail)
