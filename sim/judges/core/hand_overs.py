"""Whether a controlled shutdown hands over what it can.

| invariant       | violated when                                                                                   |
|-----------------|-------------------------------------------------------------------------------------------------|
| hands over      | a broker has shut down in order, in less time than it may take, and still leads a partition     |
|                 | that another live member of the ISR could lead                                                  |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ....broker.cluster import ClusterImage
from .events import NodeStopped, Observed
from .partition import InvariantViolationError

SHUTDOWN_S: Final = 4.5
"""A little less than `controlled.shutdown.timeout.ms`: after it a broker stops though it leads."""


class HandOversJudge:
    """`brokers` are ids by host."""

    def __init__(self, image: Callable[[], ClusterImage], brokers: Mapping[str, int]) -> None:
        self._image = image
        self._brokers = brokers

    def on(self, event: Observed) -> None:
        if isinstance(event, NodeStopped) and event.host in self._brokers and event.took_s < SHUTDOWN_S:
            self._check(self._brokers[event.host])

    def _check(self, broker_id: int) -> None:
        image = self._image()
        live = {broker.id for broker in image.brokers.values() if not broker.fenced and not broker.is_leaving}
        for topic in image.topics.values():
            for number, now in topic.partitions.items():
                others = set(now.isr) & live - {broker_id}
                if now.leader == broker_id and others:
                    detail = f"{broker_id} has shut down and leads {topic.name}-{number}, {sorted(others)} could"
                    raise InvariantViolationError("hands over", detail)
