"""Controllers and bare brokers under faults, while topics come, move and go; then everything heals and must agree.

A seed decides all. Brokers store nothing: whoever leads a partition asks for every live replica in its ISR, as a leader
does whose followers keep up. What was acknowledged is noted and must hold at the end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.image.registrations import NO_LEADER, PartitionKey
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.sim.judges.core.metadata_image import check_image

from .harness import same
from .nodes import NODES, Cluster, ask

BROKERS = (1, 2, 3)
CHAOS_S = 40.0
CALM_S = 60.0
REQUEST_S = 15.0


class Chaos:
    """One run. `acknowledged` is what an operator was told about each topic, None once its state is not known."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.acknowledged: dict[str, bool | None] = {}
        self.producer_ids: set[int] = set()
        self.watched: dict[int, MetadataImage] = {}
        self.is_calm = False

    async def run(self) -> None:
        await self.cluster.start(*BROKERS)
        tasks = [asyncio.create_task(work()) for work in (self._operate, self._lead, self._watch)]
        hurting = asyncio.create_task(self._hurt())
        await asyncio.sleep(CHAOS_S)
        await stop(hurting)
        await self._heal()
        self.is_calm = True
        await self.cluster.until(self._is_well, CALM_S)
        for task in tasks:
            await stop(task)
        await asyncio.sleep(REQUEST_S)
        self._check()

    # Work.

    async def _operate(self) -> None:
        while not self.is_calm:
            await asyncio.sleep(self.rng.uniform(0.1, 1.5))
            work = self.rng.choice([self._create, self._create, self._delete, self._reassign, self._allocate])
            with suppress(TimeoutError):
                async with asyncio.timeout(REQUEST_S):
                    await work()

    async def _create(self) -> None:
        name = f"topic-{len(self.acknowledged)}"
        self.acknowledged[name] = None
        topic = {"name": name, "num_partitions": 2, "replication_factor": 2, "assignments": [], "configs": []}
        answer = await self.cluster.ask(ApiKey.CREATE_TOPICS, {"topics": [topic], "timeout_ms": 1000})
        code = answer.topics[0].error_code
        if code in (ErrorCode.none, ErrorCode.topic_already_exists):
            self.acknowledged[name] = True

    async def _delete(self) -> None:
        there = sorted(name for name, is_there in self.acknowledged.items() if is_there)
        if not there:
            return
        name = self.rng.choice(there)
        self.acknowledged[name] = None
        values = {"topics": [{"name": name, "topic_id": None}], "timeout_ms": 1000}
        answer = await self.cluster.ask(ApiKey.DELETE_TOPICS, values)
        if answer.responses[0].error_code in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
            self.acknowledged[name] = False

    async def _reassign(self) -> None:
        there = sorted(name for name, is_there in self.acknowledged.items() if is_there)
        if there:
            partition = {"partition_index": 0, "replicas": self.rng.sample(BROKERS, 2)}
            topics = [{"name": self.rng.choice(there), "partitions": [partition]}]
            await self.cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"timeout_ms": 1000, "topics": topics})

    async def _allocate(self) -> None:
        broker = self.cluster.brokers[self.rng.choice(BROKERS)].node
        if broker is not None and broker.epoch >= 0:
            values = {"broker_id": broker.broker_id, "broker_epoch": broker.epoch}
            answer = await self.cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, values)
            if answer.error_code is ErrorCode.none:
                assert answer.producer_id_start not in self.producer_ids, "somebody has these ids already"
                self.producer_ids.add(answer.producer_id_start)

    async def _lead(self) -> None:
        """Leaders take every live replica into their ISRs."""
        while True:
            await asyncio.sleep(0.7)
            for service in list(self.cluster.running().values()):
                if service.controller.is_active:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(3):
                            await self._grow(service.controller.core.state.image.copy())

    async def _grow(self, image: MetadataImage) -> None:
        for topic in image.topics.values():
            for number, now in topic.partitions.items():
                leader = self.cluster.brokers[now.leader].node if now.leader != NO_LEADER else None
                wanted = [replica for replica in now.replicas if image.is_active(replica)]
                if leader is None or now.leader not in wanted or set(wanted) == set(now.isr):
                    continue
                item = {
                    "partition_index": number,
                    "leader_epoch": now.leader_epoch,
                    "partition_epoch": now.partition_epoch,
                    "new_isr_with_epochs": [
                        {"broker_id": replica, "broker_epoch": image.brokers[replica].epoch} for replica in wanted
                    ],
                }
                topics = [{"topic_id": topic.topic_id, "partitions": [item]}]
                values = {"broker_id": now.leader, "broker_epoch": leader.epoch, "topics": topics}
                await ask(self.cluster.client, ApiKey.ALTER_PARTITION, values)

    # Faults.

    async def _hurt(self) -> None:
        faults = [self._crash_controller, self._crash_broker, self._cut, self._pause]
        while True:
            await asyncio.sleep(self.rng.uniform(1, 6))
            await self.rng.choice(faults)()

    async def _crash_controller(self) -> None:
        node_id = self.rng.choice(NODES)
        self.cluster.controllers[node_id].crash(self.rng.choice(["process", "machine"]))
        await asyncio.sleep(self.rng.uniform(0.1, 8))
        await self.cluster.start_controller(node_id)

    async def _crash_broker(self) -> None:
        broker_id = self.rng.choice(BROKERS)
        self.cluster.brokers[broker_id].crash("process")
        await asyncio.sleep(self.rng.uniform(0.1, 12))
        await self.cluster.start_broker(broker_id)

    async def _cut(self) -> None:
        names = [f"controller-{node_id}" for node_id in NODES] + [f"broker-{broker_id}" for broker_id in BROKERS]
        alone = self.rng.choice(names)
        others = set(names) - {alone}
        self.cluster.world.network.partition({alone}, others)
        await asyncio.sleep(self.rng.uniform(0.5, 12))
        self.cluster.world.network.heal()

    async def _pause(self) -> None:
        host = self.cluster.controllers[self.rng.choice(NODES)]
        host.pause()
        await asyncio.sleep(self.rng.uniform(0.5, 8))
        host.resume()

    async def _heal(self) -> None:
        self.cluster.world.network.heal()
        for node_id, host in self.cluster.controllers.items():
            if host.is_paused:
                host.resume()
            if not host.is_up:
                await self.cluster.start_controller(node_id)
        for broker_id, host in self.cluster.brokers.items():
            if not host.is_up:
                await self.cluster.start_broker(broker_id)

    # Looking.

    async def _watch(self) -> None:
        """Every image of every controller keeps the invariants, from one look to the next."""
        while True:
            await asyncio.sleep(0.3)
            for node_id in NODES:
                if self.cluster.controllers[node_id].node is not None:
                    image = self.cluster.image(node_id)
                    check_image(image)
                    self._check_progress(node_id, image)

    def _check_progress(self, node_id: int, image: MetadataImage) -> None:
        before = self.watched.get(node_id)
        self.watched[node_id] = image.copy()
        if before is None or (len(before.topics) > 0 and not image.topics):
            return
        for topic_id, topic in before.topics.items():
            for number, then in topic.partitions.items():
                now = image.partition(PartitionKey(topic_id, number))
                if now is not None and now.partition_epoch >= then.partition_epoch and now.leader != then.leader:
                    assert now.leader_epoch > then.leader_epoch, (topic.name, number, then, now)

    def _is_well(self) -> bool:
        running = self.cluster.running()
        if len(running) < len(NODES) or any(host.node is None for host in self.cluster.brokers.values()):
            return False
        images = [self.cluster.image(node_id) for node_id in NODES]
        first = images[0]
        return (
            all(same(image, first) for image in images[1:])
            and all(broker.is_active for broker in first.brokers.values())
            and not first.indexes.leaderless
            and not first.indexes.reassigning
            and all(
                set(now.isr) == set(now.replicas)
                for topic in first.topics.values()
                for now in topic.partitions.values()
            )
        )

    def _check(self) -> None:
        image = self.cluster.image(1)
        for name, is_there in self.acknowledged.items():
            assert is_there is None or (name in image.topic_ids) == is_there, (name, is_there)
        for service in self.cluster.running().values():
            assert not service.controller.failed.done(), service.controller.failed.result()


async def stop(task: asyncio.Task[Any]) -> None:
    """Its failure is ours."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
