"""A broker that coordinates a thousand groups: 10,000 members of KIP-848, 100,000 offsets; then a hundred share groups.

Each state topic has one partition, so that one broker coordinates them all. Members are of one process, over shared
connections (`population`).

| figure | what |
|---|---|
| settled | seconds until 10,000 members that come at once have what they shall have |
| CPU of a heartbeat, of a commit | of all brokers; a commit has ten offsets |
| commits | requests a second, each of ten offsets |
| memory | PSS of the coordinator, more than before |
| loaded | seconds from the first sign of the next coordinator after SIGTERM to its first answer |
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tierfetch.protocol import ErrorCode
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tierfetch.protocol.net import Address

from ..measure import Elapsed, Results, elapsed, pss_mib
from ..systems import Cluster, System
from ..workload import create_topic
from .population import Kind, Population
from .raw import BY_NAME_MAX, STATE_TOPICS, bootstrap_of, new_client, raise_features, topic_of

BROKERS: Final = (1, 2, 3)
PARTITIONS: Final = 100
TOPIC: Final = "coordinated"
GROUPS: Final = {Kind.CONSUMER: 1_000, Kind.SHARE: 100}
MEMBERS_EACH: Final = 10
WAVES: Final = 3
LOOK_INTERVAL_S: Final = 0.01
LOAD_TIMEOUT_S: Final = 120.0
CONFIGS: Final = {
    **STATE_TOPICS,
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.max.session.timeout.ms": "600000",
    "group.share.session.timeout.ms": "600000",
    "group.share.max.session.timeout.ms": "600000",
}


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """Measure each kind of groups, in a cluster of its own, and a change of the coordinator of the first."""
    del total_mb
    for number in range(runs):
        for kind in GROUPS:
            with system.run(base / f"{kind.name}-{number}", len(BROKERS), False, CONFIGS) as cluster:
                raise_features(cluster)
                create_topic(cluster, [[1 + each % 3, 1 + (each + 1) % 3] for each in range(PARTITIONS)], {}, TOPIC)
                asyncio.run(_Run(cluster, kind, results, system.name).measure())


class _Run:
    """One population on one cluster."""

    def __init__(self, cluster: Cluster, kind: Kind, results: Results, system: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self._results = results
        self._system = system
        self._pids = [cluster.process(broker).pid for broker in BROKERS]
        self._members = GROUPS[kind] * MEMBERS_EACH
        self._case = f"{GROUPS[kind]:,} {kind.value}, {self._members:,} members"

    async def measure(self) -> None:
        async with self._population() as population:
            before = [pss_mib(pid) for pid in self._pids]
            with elapsed(self._pids) as joining:
                waves = await population.settle()
            self._add("settled", joining.wall_s, "s")
            self._add("CPU until it was settled", joining.cpu_s, "s")
            self._add("waves until it was settled", waves, "")
            with elapsed(self._pids) as beating:
                for _ in range(WAVES):
                    await population.heartbeats()
            self._add_each("heartbeat", beating)
            if self._kind is Kind.CONSUMER:
                with elapsed(self._pids) as committing:
                    for offset in range(WAVES):
                        await population.commit(offset)
                self._add_each("commit", committing)
            grown = max(pss_mib(pid) - old for pid, old in zip(self._pids, before, strict=True))
            self._add("memory of the coordinator", grown, "MiB")
            if self._kind is Kind.CONSUMER:
                self._add("loaded after a change of coordinator", await self._change(population), "s")

    @asynccontextmanager
    async def _population(self) -> AsyncIterator[Population]:
        bootstrap, client = bootstrap_of(self._cluster), new_client()
        topic = await topic_of(client, bootstrap, TOPIC)
        await client.close()
        async with Population(bootstrap, topic, self._kind, GROUPS[self._kind], MEMBERS_EACH) as population:
            yield population

    async def _change(self, population: Population) -> float:
        """Stop the coordinator in order, and return the seconds that the next one loads."""
        last = population.peers[-1].group_id
        old = await population.peers[-1].coordinator.address()
        victim = next(broker for broker in BROKERS if self._cluster.port(broker) == old.port)
        survivor = Address(old.host, self._cluster.port(next(broker for broker in BROKERS if broker != victim)))
        ending = threading.Thread(target=self._cluster.stop, args=(victim,), name="end")
        ending.start()
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                return await _load_s(last, old, survivor)
        finally:
            await asyncio.to_thread(ending.join)

    def _add_each(self, what: str, spent: Elapsed) -> None:
        count = WAVES * self._members
        self._add(f"{what}s", count / spent.wall_s, "a second")
        self._add(f"CPU of a {what}", spent.cpu_s / count * 1e6, "us")

    def _add(self, quantity: str, value: float, unit: str) -> None:
        self._results.add("coordinators", self._case, self._system, quantity, value, unit)


async def _load_s(group_id: str, old: Address, survivor: Address) -> float:
    """Return the seconds from the first answer of another coordinator, which may be that it loads, to offsets."""
    client, began = new_client(), None
    try:
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            answer = await client.send(survivor, FindCoordinatorRequest(coordinator_keys=(group_id,)))
            (found,) = answer.coordinators
            address = Address(found.host, found.port)
            if found.error_code is not ErrorCode.none or address == old:
                continue
            request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=None),))
            fetched = await client.send(address, request, max_version=BY_NAME_MAX)
            (group,) = fetched.groups
            if group.error_code in (ErrorCode.none, ErrorCode.coordinator_load_in_progress):
                began = time.perf_counter() if began is None else began
            if group.error_code is ErrorCode.none and group.topics and began is not None:
                return time.perf_counter() - began
    finally:
        await client.close()
