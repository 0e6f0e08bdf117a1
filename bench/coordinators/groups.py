"""How long the members of a group wait: from their start to the first record, and from the death of a member.

50 members start at once on 100 partitions that have a record each. Members are tasks of this process that speak the
protocol, each over a connection of its own, so that the coordinator is measured; a group of librdkafka's consumers is
beside them. A member that dies says nothing, and its session is over after 10 s.

| figure | from | to |
|---|---|---|
| begun | the members start | every member has read a record |
| even | the members start | every partition is read by one member, and no member has two more than another |
| recovered | a member is killed | every partition is read by one member again |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..measure import Results, cpu_seconds
from ..systems import Cluster, System
from ..workload import create_topic, produce
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
            for protocol, kind in PROTOCOLS.items():
                case = protocol if kind is ConsumerMember else f"{protocol}, {delay}"
                if kind is ConsumerMember and delay != next(iter(DELAYS)):
                    continue
                asyncio.run(_warm_up(cluster, kind))
                for number in range(runs):
                    group_id = f"{protocol}-{number}"
                    used_s = _cpu_s(cluster)
                    found = asyncio.run(_measure(cluster, kind, group_id))
                    for quantity, seconds in found.items():
                        results.add("groups", case, system.name, quantity, seconds, "s")
                    results.add("groups", case, system.name, "CPU of the brokers", _cpu_s(cluster) - used_s, "s")
                    measured = measure_real(cluster, TOPIC, protocol, f"real-{group_id}")
                    results.add("groups", f"{case}, librdkafka", system.name, "begun", measured, "s")


async def _warm_up(cluster: Cluster, kind: type[Member]) -> None:
    """A group that is not counted: the topic of its coordinator is made, and its code is warm."""
    await _measure(cluster, kind, "warm-up", kills=False)


async def _measure(cluster: Cluster, kind: type[Member], group_id: str, *, kills: bool = True) -> dict[str, float]:
    """Return the seconds of one group, by figure."""
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
            found = {"begun": time.perf_counter() - began}
            await roster.until(lambda: roster.is_even)
            found["even"] = time.perf_counter() - began
            if kills:
                found["recovered after a kill"] = await _kill(members, roster)
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
