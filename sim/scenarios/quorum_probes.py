"""What a quorum does when nothing fails but a link: probes of one that has converged, one after the other.

| anomaly          | what is done                                      | found when                               |
|------------------|---------------------------------------------------|------------------------------------------|
| disturbed leader | a voter does not hear the leader, or neither      | somebody else leads, or the epoch has    |
|                  | hears the other, longer than the fetch timeout    | risen (KIP-996)                          |
| busy when idle   | nothing                                           | a node does more than idle ones have to  |
| leads unheard    | the leader is cut off for 1.5 fetch timeouts      | it still leads (KIP-595, check-quorum)   |

During the faults of a schedule the same promises hold, but what a node has heard by then is hard to tell from outside.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from ..judges.core.acknowledged_writes import Anomaly
from ..machine.network import Network

IDLE_S: Final = 2.0
IDLE_EVENTS_MAX: Final = 600
"""A second of one host, when there is nothing to do."""
UNHEARD_TIMEOUTS: Final = (1.3, 2.5)
"""Fetch timeouts that the first probe lasts."""
RESIGNS_S: Final = 0.25
"""What a leader may need to give up beyond the time that it has."""
Leading = Callable[[], tuple[str, int] | None]
"""Host and epoch of who leads; None unless exactly one does."""


class QuorumProbes:
    """`on_event` after every event. `leading` and `is_leader` look at the replicas."""

    def __init__(
        self,
        network: Network,
        rng: Random,
        *,
        fetch_timeout_ms: int,
        leading: Leading,
        is_leader: Callable[[str], bool],
    ) -> None:
        self._network = network
        self._rng = rng
        self._fetch_timeout_s = fetch_timeout_ms / 1000
        self._leading = leading
        self._is_leader = is_leader
        self._idle_events: Counter[str] | None = None

    def on_event(self, host: str) -> None:
        if self._idle_events is not None:
            self._idle_events[host] += 1

    async def disturb(self, voters: Iterable[str]) -> list[Anomaly]:
        """The first two rows."""
        before = self._leading()
        assert before is not None, "no leader to disturb"
        leader = before[0]
        voter = self._rng.choice(sorted(set(voters) - {leader}))
        links = [(leader, voter)] if self._rng.random() < 0.5 else [(leader, voter), (voter, leader)]
        await self._without(links, self._fetch_timeout_s * self._rng.uniform(*UNHEARD_TIMEOUTS))
        found = []
        if (after := self._leading()) != before:
            found.append(Anomaly("disturbed leader", leader, f"{voter} did not hear it: {before} became {after}"))
        return [*found, *await self._idle()]

    async def silence(self, others: Iterable[str]) -> list[Anomaly]:
        """The last row."""
        before = self._leading()
        assert before is not None, "no leader to cut off"
        leader = before[0]
        links = [pair for other in others if other != leader for pair in ((leader, other), (other, leader))]
        unheard_s = self._fetch_timeout_s * 1.5 + RESIGNS_S
        still_leads = await self._without(links, unheard_s, lambda: self._is_leader(leader))
        if not still_leads:
            return []
        return [Anomaly("leads unheard", leader, f"in epoch {before[1]}, after {unheard_s:.2f} s without a fetch")]

    async def _without(
        self, links: list[tuple[str, str]], seconds: float, look: Callable[[], bool] = lambda: False
    ) -> bool:
        """Block these for so long; what is seen at the end of it."""
        for link in links:
            self._network.block(*link)
        await asyncio.sleep(seconds)
        seen = look()
        for link in links:
            self._network.unblock(*link)
        return seen

    async def _idle(self) -> list[Anomaly]:
        events = self._idle_events = Counter()
        await asyncio.sleep(IDLE_S)
        self._idle_events = None
        return [
            Anomaly("busy when idle", host, f"{number / IDLE_S:.0f} events a second of an idle node")
            for host, number in sorted(events.items())
            if number > IDLE_EVENTS_MAX * IDLE_S
        ]
