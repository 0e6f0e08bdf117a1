"""Stands in for the parts of a controller, and of its operator, that the simulated cluster does not have.

| what it sees                                          | what it does                                              |
|-------------------------------------------------------|-----------------------------------------------------------|
| a broker not heard of for the session timeout         | fences it: it leaves every ISR that has another member    |
| a fenced broker heard of again                        | unfences it: leaders may take it back into the ISR        |
| a broker that registers after an unclean stop         | the same as fenced and unfenced: what it had may be gone  |
| a leader that is fenced, with live in-sync replicas   | elects one of them                                        |
| a partition without a leader: all its disks were lost | lets any live replica lead; what is lost is lost          |
| a fault that asks for it                              | another in-sync replica leads each partition              |

Heard of is a broker whose process runs and that packets reach, both ways. It has the cluster's true image at hand, as a
controller has; when its changes reach a broker is the cluster view's matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from ..broker import static_changes
from ..broker.cluster_view import NO_LEADER, ClusterImage, PartitionRegistration
from ..protocol.topics import TopicIdPartition
from .static_cluster import CONTROLLER
from .world import World

CHECK_S: Final = 0.1


class Operator:
    """`nodes`: broker ids by host name. `run` beside everything else."""

    def __init__(self, world: World, nodes: Mapping[str, int], session_timeout_s: float, rng: Random) -> None:
        self._world = world
        self._nodes = dict(sorted(nodes.items()))
        self._session_timeout_s = session_timeout_s
        self._rng = rng
        self._heard_s: dict[int, float] = {}
        self._crashed: set[int] = set()
        world.cluster.on_register = self._on_register

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._listen()
            self._elect_where_needed()
            await asyncio.sleep(CHECK_S * self._rng.uniform(0.5, 1.0))

    def crashed(self, host: str) -> None:
        """Its next registration comes after an unclean stop."""
        self._crashed.add(self._nodes[host])

    def move_leaders(self) -> None:
        """Another live in-sync replica leads each partition that has one."""
        image = self._world.cluster.image
        for partition, registration in _partitions(image):
            others = [each for each in registration.isr if each != registration.leader and _is_live(image, each)]
            if others:
                self._elect(partition, self._rng.choice(others), unclean=False)

    def _on_register(self, image: ClusterImage, broker_id: int) -> ClusterImage:
        self._heard_s[broker_id] = self._world.now_s
        if broker_id not in self._crashed:
            return image
        self._crashed.discard(broker_id)
        return _unfenced(static_changes.fence_broker(image, broker_id), broker_id)

    def _listen(self) -> None:
        now_s = self._world.now_s
        for host, node_id in self._nodes.items():
            broker = self._world.cluster.image.brokers.get(node_id)
            if broker is None:
                continue
            if self._is_heard(host):
                self._heard_s[node_id] = now_s
                if broker.fenced:
                    self._change(f"unfences broker {node_id}", _unfenced, node_id)
            elif not broker.fenced and now_s - self._heard_s.get(node_id, 0.0) > self._session_timeout_s:
                self._change(f"fences broker {node_id}", static_changes.fence_broker, node_id)

    def _is_heard(self, name: str) -> bool:
        host, network = self._world.host(name), self._world.network
        is_cut = network.is_blocked(name, CONTROLLER) or network.is_blocked(CONTROLLER, name)
        return host.node is not None and not host.is_paused and not is_cut

    def _change(self, what: str, change: Callable[[ClusterImage, int], ClusterImage], node_id: int) -> None:
        self._world.record(CONTROLLER, what)
        self._world.cluster.change(lambda image: change(image, node_id))

    def _elect_where_needed(self) -> None:
        image = self._world.cluster.image
        for partition, registration in _partitions(image):
            if _is_live(image, registration.leader):
                continue
            in_sync = [each for each in registration.isr if _is_live(image, each)]
            live = [each for each in registration.replicas if _is_live(image, each)]
            if in_sync:
                self._elect(partition, in_sync[0], unclean=False)
            elif registration.leader == NO_LEADER and not registration.isr and live:
                self._elect(partition, self._rng.choice(live), unclean=True)

    def _elect(self, partition: TopicIdPartition, leader: int, *, unclean: bool) -> None:
        manner = " uncleanly" if unclean else ""
        self._world.record(CONTROLLER, f"{partition.topic_partition}: elects {leader}{manner}")
        self._world.cluster.change(lambda image: static_changes.elect_leader(image, partition, leader, unclean=unclean))


def _partitions(image: ClusterImage) -> list[tuple[TopicIdPartition, PartitionRegistration]]:
    return [
        (topic.id_partition(number), topic.partitions[number])
        for _, topic in sorted(image.topics.items())
        for number in sorted(topic.partitions)
    ]


def _is_live(image: ClusterImage, broker_id: int) -> bool:
    return broker_id in image.brokers and not image.brokers[broker_id].fenced


def _unfenced(image: ClusterImage, broker_id: int) -> ClusterImage:
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.fenced:
        return image
    return replace(image, brokers={**image.brokers, broker_id: replace(broker, fenced=False)})
