"""Whether requests are answered in time, faults or not.

| invariant        | violated when                                                                                   |
|------------------|-------------------------------------------------------------------------------------------------|
| answered in time | a client gives up a request that it sent on a connection, longer ago than the broker may take,  |
|                  | and neither host was touched by a fault since `LINGER_MS` before it was sent                    |

Which hosts are touched (`troubled`) is asked whenever a fault begins or ends, and every quarter of a second. The store
excuses nothing: a reader that waits for the tier is answered without it. Nor do other nodes: acks=all has a time limit,
too. A host whose process ends, or stops in order, is touched, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from ..events import AnswerMissing, FaultsChanged, MomentPassed, NodeStopped, Observed, ProcessEnded
from ..partition import InvariantViolationError

APIS: Final = frozenset({"PRODUCE", "FETCH", "LIST_OFFSETS", "METADATA"})
"""Others wait for what brokers do not promise within the clients' patience: markers, ids of the controllers'."""
LINGER_MS: Final = 3_000
"""What a fault has held up is sent again after a back-off, and connections are made again."""


class AnswersJudge:
    """`troubled` gives the hosts that faults touch now; `now_ms` is virtual time."""

    def __init__(self, troubled: Callable[[], Collection[str]], now_ms: Callable[[], int]) -> None:
        self._troubled = troubled
        self._now_ms = now_ms
        self._touched_ms: dict[str, int] = {}
        """When a host was touched last."""

    def on(self, event: Observed) -> None:
        match event:
            case FaultsChanged() | MomentPassed():
                self._touched_ms.update(dict.fromkeys(sorted(self._troubled()), self._now_ms()))
            case ProcessEnded(host) | NodeStopped(host):
                self._touched_ms[host] = self._now_ms()
            case AnswerMissing():
                self._missing(event)

    def _missing(self, event: AnswerMissing) -> None:
        """InvariantViolationError."""
        excused_since_ms = event.asked_ms - LINGER_MS
        touched_ms = max(self._touched_ms.get(host, -LINGER_MS - 1) for host in (event.host, event.client_host))
        if event.api in APIS and touched_ms < excused_since_ms:
            detail = (
                f"{event.client} sent {event.api} to {event.host} at {event.asked_ms} ms, and gave up at "
                f"{self._now_ms()} ms; no fault has touched either since {touched_ms} ms"
            )
            raise InvariantViolationError("answered in time", detail)
