"""`tierfetch brokers wait`: until a broker that was down, or replaced, holds again what it has to, and how far it is.

| the broker                              | shown                                                 |
|-----------------------------------------|-------------------------------------------------------|
| is not registered, or fenced            | that it is waited for                                 |
| lives, and replicas are out of sync     | how many are in sync, and the time that is left       |
| with `--warm`: has thin replicas        | how many, when they are warm at the latest, and what  |
|                                         | comes from the tier where they are being filled       |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from ...protocol import ErrorCode, KafkaError
from ...protocol.net.client import BrokerUnavailableError
from ..cluster_session import Admin
from .local_state import Warming, local_state, warming_text
from .status_bar import StatusBar

LOOK_INTERVAL_S: Final = 0.5
LOOKS_A_PAUSE: Final = 4
"""A pause is at least as long as so many looks: large clusters are not kept busy."""


@dataclass(frozen=True, slots=True)
class BrokerProgress:
    """The progress of one broker at one look; `warming` only if the command waits for it."""

    broker: int
    is_alive: bool
    replicas: int
    in_sync: int
    warming: Warming | None = None
    thin: int = 0
    warm_in_ms: int = 0
    """Until the last thin replica is warm at the latest."""

    @property
    def is_done(self) -> bool:
        return self.is_alive and self.in_sync == self.replicas and self.warming is None and not self.thin

    def __str__(self) -> str:
        if not self.is_alive:
            return f"broker {self.broker} is not alive"
        if self.in_sync < self.replicas or (self.warming is None and not self.thin):
            return f"broker {self.broker}: {self.in_sync} of {self.replicas} replicas are in sync"
        waits = []
        if self.thin:
            latest = timedelta(seconds=-(-self.warm_in_ms // 1000))
            waits.append(f"{self.thin} of {self.replicas} replicas are thin, warm in {latest} at the latest")
        if self.warming is not None:
            waits.append(f"{warming_text(self.warming.as_json())} to come from the tier")
        return f"broker {self.broker}: {'; '.join(waits)}"

    def as_json(self) -> dict[str, object]:
        warming = None if self.warming is None else self.warming.as_json()
        return {
            "broker": self.broker,
            "replicas": self.replicas,
            "in_sync": self.in_sync,
            "thin": self.thin,
            "warming": warming,
        }


async def look(admin: Admin, broker: int, *, with_warming: bool) -> BrokerProgress:
    """Look once. KafkaError; OSError if no broker responds."""
    cluster = await admin.cluster()
    hosted = [part for topic in cluster.topics for part in topic.partitions if broker in part.replica_nodes]
    in_sync = sum(broker in part.isr_nodes for part in hosted)
    seen = BrokerProgress(broker, broker in cluster.brokers, len(hosted), in_sync)
    if not with_warming or not seen.is_alive:
        return seen
    state = await local_state(admin, cluster.brokers[broker])
    if state is None and in_sync == len(hosted):
        raise BrokerUnavailableError(f"broker {broker} does not report what it has to read from the tier")
    if state is None:
        return seen
    left_ms = state.warm_in_ms
    return replace(seen, warming=state.total_warming(), thin=len(left_ms), warm_in_ms=max(left_ms.values(), default=0))


async def wait_for(
    admin: Admin, broker: int, show: Callable[[BrokerProgress], None], *, with_warming: bool, timeout_s: float
) -> BrokerProgress:
    """The last look, when all is done. REQUEST_TIMED_OUT says how far it was by then. That no broker responds passes
    too: who is asked may be the broker itself.
    """
    began_s = time.monotonic()
    while True:
        look_s = time.monotonic()
        try:
            progress = await look(admin, broker, with_warming=with_warming)
            seen = str(progress)
            show(progress)
            if progress.is_done:
                return progress
        except OSError as error:
            seen = str(error)
        now_s = time.monotonic()
        if now_s - began_s > timeout_s:
            raise KafkaError(ErrorCode.request_timed_out, f"{seen}, after {timeout_s:g} s")
        await asyncio.sleep(max(LOOK_INTERVAL_S, LOOKS_A_PAUSE * (now_s - look_s)))


class WaitingBar(StatusBar):
    """Replicas in sync, then bytes from the tier."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes_left_max = 0

    def show(self, progress: BrokerProgress) -> None:
        done, total = progress.in_sync, progress.replicas
        if progress.warming is not None and done == total:
            left = progress.warming.bytes_left
            self._bytes_left_max = max(self._bytes_left_max, left)
            done, total = self._bytes_left_max - left, self._bytes_left_max
        self.show_line(str(progress), str(progress), done, total or 1)
