"""How long the members of a group wait: from their start to the first record, and from the death of a member.

50 members start at once on 100 partitions that have a record each. Members are tasks of this process that speak the
protocol, each over a connection of its own, so that the coordinator is measured; a group of librdkafka's consumers is
beside them. A member that dies says nothing, and its session is over after 10 s.

| figure | from | to |
|---|---|---|
| begun | the members start | every member has read a record |
| even | the members start | every partition is read by one member, and no member has two more than another |
| recovered | a member is killed | every partition is read by one member again; several, one after the other |
| recovered, librdkafka | SIGKILL of a member's process | the last of its partitions is read by another process |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..measure import Results, cpu_seconds
from ..systems import Cluster, System
from ..workload import create_topic, produce
from .killed_member import measure_kill
from .members import ClassicMember, ConsumerMember, Member, Scene
from .raw import STATE_TOPICS, bootstrap_of, new_client, raise_features, topic_of
from .real_members import measure_real
from .roster import Roster

BROKERS: Final = (1, 2, 3)
MEMBERS: Final = 50
PARTITIONS: Final = 100
RECORD_BYTES: Final = 100
TOPIC: Final = "grouped"
STEP_TIMEOUT_S: Final = 120.0
KILLS: Final = 2
"""Members of a group that are killed: how far each is from its heartbeat is chance."""
KILLS_OF_PROCESSES: Final = 4
"""Groups of librdkafka that lose a member, each at another share of the heartbeat's interval."""
RECOVERED: Final = "recovered after a kill"
SESSIONS: Final = {
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
}
DELAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "default delay": {"group.initial.rebalance.delay.ms": "3000"},
    "no delay": {"group.initial.rebalance.delay.ms": "0"},
}
"""The first rebalance of a classic group is held back for others to come (KIP-134)."""
PROTOCOLS: Final[Mapping[str, type[Member]]] = {"classic": ClassicMember, "KIP-848": ConsumerMember}


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """Measure groups of both protocols; those of KIP-848 know no delay."""
    del total_mb
    for delay, configs in DELAYS.items():
        with system.run(
            base / delay.replace(" ", "-"), len(BROKERS), False, {**STATE_TOPICS, **SESSIONS, **configs}
        ) as cluster:
            raise_features(cluster)
            create_topic(cluster, [[1 + number % 3, 1 + (number + 1) % 3] for number in range(PARTITIONS)], {}, TOPIC)
            produce(cluster, PARTITIONS, PARTITIONS * RECORD_BYTES * 500, RECORD_BYTES, topic=TOPIC)
            is_first = delay == next(iter(DELAYS))
            for protocol, kind in PROTOCOLS.items():
                if kind is ClassicMember or is_first:
                    case = protocol if kind is ConsumerMember else f"{protocol}, {delay}"
                    _Case(cluster, kind, protocol, case, results, system.name).measure(runs, is_killed=is_first)


@dataclass(frozen=True, slots=True)
class _Case:
    """Groups of one protocol on one cluster."""

    cluster: Cluster
    kind: type[Member]
    protocol: str
    case: str
    results: Results
    system: str

    def measure(self, runs: int, *, is_killed: bool) -> None:
        """Measure groups, one after the other; what a kill costs does not depend on how they began."""
        asyncio.run(_warm_up(self.cluster, self.kind))
        for number in range(runs):
            group_id = f"{self.protocol}-{number}"
            used_s = _cpu_s(self.cluster)
            found = asyncio.run(_measure(self.cluster, self.kind, group_id, kills=KILLS if is_killed else 0))
            for quantity, seconds in found:
                self._add(self.case, quantity, seconds)
            self._add(self.case, "CPU of the brokers", _cpu_s(self.cluster) - used_s)
            real = f"{self.case}, librdkafka"
            self._add(real, "begun", measure_real(self.cluster, TOPIC, self.protocol, f"real-{group_id}"))
            for kill in range(KILLS_OF_PROCESSES if is_killed else 0):
                share, killed_id = (kill + 0.5) / KILLS_OF_PROCESSES, f"killed-{group_id}-{kill}"
                killed_s = measure_kill(self.cluster, TOPIC, PARTITIONS, self.protocol, killed_id, share)
                self._add(real, RECOVERED, killed_s)

    def _add(self, case: str, quantity: str, seconds: float) -> None:
        self.results.add("groups", case, self.system, quantity, seconds, "s")


async def _warm_up(cluster: Cluster, kind: type[Member]) -> None:
    """A group that is not counted: the topic of its coordinator is made, and its code is warm."""
    await _measure(cluster, kind, "warm-up", kills=0)


async def _measure(cluster: Cluster, kind: type[Member], group_id: str, *, kills: int) -> list[tuple[str, float]]:
    """Return the seconds of one group, with the names of the figures."""
    bootstrap, reader, roster = bootstrap_of(cluster), new_client(), Roster(PARTITIONS)
    scene = Scene(bootstrap, await topic_of(reader, bootstrap, TOPIC), reader, roster, group_id)
    await asyncio.gather(*[reader.connection(leader) for leader in set(scene.topic.leaders)])
    members = [kind(scene, f"{group_id}-{number}") for number in range(MEMBERS)]
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            began = time.perf_counter()
            for member in members:
                member.start()
            await roster.until(lambda: roster.has_begun)
            found = [("begun", time.perf_counter() - began)]
            await roster.until(lambda: roster.is_even)
            found.append(("even", time.perf_counter() - began))
            found += [(RECOVERED, await _kill(members, roster)) for _ in range(kills)]
            return found
    finally:
        await asyncio.gather(*[member.kill() for member in members])
        await reader.close()


async def _kill(members: list[Member], roster: Roster) -> float:
    """End a member, and return the seconds until the others have what it owned."""
    victim = members.pop()
    began = time.perf_counter()
    await victim.kill()
    roster.dies(victim.name)
    await roster.until(lambda: roster.is_served)
    return time.perf_counter() - began


def _cpu_s(cluster: Cluster) -> float:
    return cpu_seconds([cluster.process(broker).pid for broker in BROKERS])
