"""What brokers have reported to the active controller in their heartbeats, read at the controllers' listeners.

    a broker --heartbeat--> listener of a controller --`HeartbeatReceived`--> when, and where its log ended
                                                    --`HeartbeatAnswered`--> was it right to accept it?

A controller knows what it was told itself, in the epoch in which it leads, and decides before it appends: what it knew
when it wrote the batch at an offset is what it was told while its next record would have had that offset, or a lower
one.

| invariant          | violated when                                                                           |
|--------------------|-----------------------------------------------------------------------------------------|
| the past is refused | a heartbeat under another epoch than that of the broker's registration is accepted     |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from typing import Final
from uuid import UUID

from ....controller import PartitionKey
from ....light_dataclass import dataclass
from ....protocol import ErrorCode
from ....protocol.messages.brokers import BrokerHeartbeatRequest
from .events import HeartbeatAnswered, HeartbeatReceived, Observed
from .partition import InvariantViolationError

REMEMBERED_MAX: Final = 64
"""Heartbeats of one broker to one controller: more are not sent while one decision is written."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One heartbeat. `next_offset` is that of the controller's log when it came, `metadata_offset` how far its broker
    had replayed it; `thin` names replicas that have not warmed, `offline` log directories.
    """

    at_s: float
    next_offset: int
    broker_epoch: int
    metadata_offset: int
    wants_to_go: bool
    thin: frozenset[PartitionKey]
    offline: frozenset[UUID]


class HeartbeatJudge:
    """Keeps what was heard. A replica has warmed with `warm_bytes`, or after `warm_ms`."""

    def __init__(self, now_s: Callable[[], float], *, warm_bytes: int, warm_ms: int) -> None:
        self._now_s = now_s
        self._warm_bytes = warm_bytes
        self._warm_ms = warm_ms
        self._heard: dict[tuple[int, int], deque[Heard]] = {}

    def on(self, event: Observed) -> None:
        match event:
            case HeartbeatReceived(epoch, next_offset, request):
                self._note(epoch, next_offset, request)
            case HeartbeatAnswered(request, code, registered_epoch):
                self._check_answer(request, code, registered_epoch)

    def _note(self, epoch: int, next_offset: int, request: BrokerHeartbeatRequest) -> None:
        """Record a heartbeat at a controller that leads in `epoch`."""
        heard = self._heard.setdefault((epoch, request.broker_id), deque(maxlen=REMEMBERED_MAX))
        heard.append(
            Heard(
                self._now_s(),
                next_offset,
                request.broker_epoch,
                request.current_metadata_offset,
                request.want_fence or request.want_shut_down,
                frozenset(self._thin(request)),
                frozenset(request.offline_log_dirs),
            )
        )

    def _check_answer(self, request: BrokerHeartbeatRequest, code: ErrorCode, registered_epoch: int | None) -> None:
        """A heartbeat that is accepted comes from the registration that counts. InvariantViolationError."""
        if code is ErrorCode.none and request.broker_epoch != registered_epoch:
            detail = f"broker {request.broker_id} of epoch {request.broker_epoch}; registered is {registered_epoch}"
            raise InvariantViolationError("the past is refused", detail)

    def known(self, epoch: int, broker_id: int, broker_epoch: int, offset: int) -> list[Heard]:
        """What the controller of `epoch` knew of a registration when it wrote at `offset`, the latest last."""
        return [
            heard
            for heard in self._heard.get((epoch, broker_id), ())
            if heard.next_offset <= offset and heard.broker_epoch == broker_epoch
        ]

    def last_s(self, broker_id: int) -> float:
        """When any controller received a heartbeat of a broker last; -inf before the first."""
        times_s = [each[-1].at_s for (_, sender), each in self._heard.items() if sender == broker_id and each]
        return max(times_s, default=-inf)

    def has_heard(self, epoch: int, broker_id: int, offset: int) -> bool:
        """Whether the controller of `epoch` had heard a broker at all, when it wrote at `offset`."""
        return any(heard.next_offset <= offset for heard in self._heard.get((epoch, broker_id), ()))

    def _thin(self, request: BrokerHeartbeatRequest) -> Iterator[PartitionKey]:
        for item in request.thin_replicas:
            is_warm = item.local_bytes >= self._warm_bytes or item.age_ms >= self._warm_ms
            if item.topic_id is not None and not is_warm:
                yield PartitionKey(item.topic_id, item.partition_index)
