"""A `ClusterView` for simulated brokers without a controller: one state in memory, seen late by each broker.

The state lives on a host of its own (`CONTROLLER`), so that links to it can be slow or blocked:

| step of a change                          | a block of the link there meanwhile means                       |
|-------------------------------------------|-----------------------------------------------------------------|
| the request travels                       | nothing happened: OSError after `REQUEST_TIMEOUT_S`             |
| decided at once (`static_changes`)        | -                                                               |
| the answer travels; the caller catches up | it happened, and the caller does not know: OSError all the same |
| every other view hears of it, in order    | it hears later                                                  |

It detects no failures: whoever does (a scenario) calls `change`.
"""

from __future__ import annotations

import errno
import os
from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from ..broker import static_changes
from ..broker.cluster_view import (
    NO_EPOCHS,
    BrokerRegistration,
    ClusterImage,
    ImageListener,
    NewTopic,
    PartitionRegistration,
    ProducerIdBlock,
    TopicImage,
)
from ..protocol.topics import TopicIdPartition, TopicPartition, uuid_to_text
from .network import Network
from .process import Process, current_process

T = TypeVar("T")

CONTROLLER: Final = "controller"
REQUEST_TIMEOUT_S: Final = 5.0
HEAR_AGAIN_S: Final = 0.5
"""A view behind a blocked link looks this often whether it is open again."""
PRODUCER_ID_BLOCK_SIZE: Final = 1000


class SimCluster:
    """The state, and its views. `image` is the truth; `history` every image so far."""

    def __init__(self, network: Network, rng: Random) -> None:
        cluster_id = uuid_to_text(UUID(int=rng.getrandbits(128), version=4))
        self.history = [ClusterImage(cluster_id, {}, {}, {})]
        self.network = network
        self.rng = rng
        self._next_producer_id = 0
        self.on_register: Callable[[ClusterImage, int], ClusterImage] = lambda image, broker_id: image
        """What happens to the image before a broker of that id registers."""
        self._views: dict[SimClusterView, None] = {}
        network.machine_up(CONTROLLER)

    @property
    def image(self) -> ClusterImage:
        return self.history[-1]

    @property
    def version(self) -> int:
        """Changes with `image`."""
        return len(self.history)

    def view(self) -> SimClusterView:
        """For one run of a broker: made in its process."""
        view = SimClusterView(self)
        self._views[view] = None
        return view

    def change(self, decide: Callable[[ClusterImage], ClusterImage]) -> ClusterImage:
        """Change the state at once; the views hear of it. KafkaError if it is refused."""
        after = decide(self.image)
        if after != self.image:
            self.history.append(after)
            for view in list(self._views):
                if view.is_dead:
                    del self._views[view]
                else:
                    self.tell(view)
        return self.image

    def close(self) -> None:
        """Let go of the views."""
        self._views.clear()

    def tell(self, view: SimClusterView) -> None:
        """Let the view hear of the newest image, after the way there."""
        loop = self.network.loop
        delay_s = self.network.link(CONTROLLER, view.host).delay_s(self.rng, 0)
        loop.call_later(delay_s, self._arrive, view, len(self.history) - 1, context=self.network.context)

    def allocate_producer_ids(self) -> ProducerIdBlock:
        block = ProducerIdBlock(self._next_producer_id, PRODUCER_ID_BLOCK_SIZE)
        self._next_producer_id += PRODUCER_ID_BLOCK_SIZE
        return block

    def _arrive(self, view: SimClusterView, version: int) -> None:
        loop = self.network.loop
        if view.is_dead:
            return
        if self.network.is_blocked(CONTROLLER, view.host):
            loop.call_later(HEAR_AGAIN_S, self._arrive, view, version, context=self.network.context)
        else:
            view.deliver(version)


class SimClusterView:
    """What one run of a broker sees."""

    def __init__(self, cluster: SimCluster) -> None:
        process = current_process.get()
        assert process is not None, "a view is made in the process of its broker"
        self.host = process.host
        self._process: Process = process
        self._context = copy_context()
        self._cluster = cluster
        self._version = len(cluster.history) - 1
        self._listeners: list[ImageListener] = []
        self._is_closed = False

    @property
    def image(self) -> ClusterImage:
        return self._cluster.history[self._version]

    @property
    def is_dead(self) -> bool:
        return self._is_closed or self._process.is_dead

    def subscribe(self, listener: ImageListener) -> None:
        self._listeners.append(listener)

    async def start(self) -> None:
        await self._ask(lambda: None)

    async def close(self) -> None:
        self._is_closed = True

    def deliver(self, version: int) -> None:
        """What the cluster tells; runs when the process does."""
        self._cluster.network.loop.call_soon(self._publish, version, context=self._context)

    async def register(self, broker: BrokerRegistration, found: Sequence[TopicPartition]) -> None:
        def decide(image: ClusterImage) -> ClusterImage:
            return static_changes.register(self._cluster.on_register(image, broker.id), broker, found)[0]

        await self._change(decide)

    @property
    def broker_epoch(self) -> int:
        return -1

    async def serve(self) -> None:
        """There is nobody to tell."""

    async def leave(self) -> None:
        """Nobody takes over."""

    async def alter_partition(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        stated_epochs: Mapping[int, int] = NO_EPOCHS,
    ) -> PartitionRegistration:
        image = await self._change(
            lambda image: static_changes.alter_partition(
                image, partition, leader_epoch=leader_epoch, partition_epoch=partition_epoch, isr=isr
            )
        )
        return image.topics[partition.topic].partitions[partition.partition]

    def assign_directory(self, partition: TopicIdPartition, directory_id: UUID) -> None:
        """Nobody asks for it here."""

    async def renew_leadership(self, partition: TopicIdPartition, leader_epoch: int) -> None:
        await self._change(lambda image: static_changes.renew_leadership(image, partition, leader_epoch))

    async def create_topic(self, topic: NewTopic) -> TopicImage:
        topic_id = UUID(int=self._cluster.rng.getrandbits(128), version=4)
        image = await self._change(lambda image: static_changes.create_topic(image, topic, topic_id))
        return image.topics[topic.name]

    async def delete_topic(self, name: str) -> None:
        await self._change(lambda image: static_changes.delete_topic(image, name))

    async def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> None:
        await self._change(lambda image: static_changes.alter_topic_configs(image, name, changes))

    async def alter_broker_configs(self, broker: str, changes: Mapping[str, str | None]) -> None:
        await self._change(lambda image: static_changes.alter_broker_configs(image, broker, changes))

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        return await self._ask(self._cluster.allocate_producer_ids)

    async def _change(self, decide: Callable[[ClusterImage], ClusterImage]) -> ClusterImage:
        return await self._ask(lambda: self._cluster.change(decide))

    async def _ask(self, decide: Callable[[], T]) -> T:
        """There and back; the module's table says what goes wrong where."""
        await self._travel(self.host, CONTROLLER)
        answer = decide()
        version = len(self._cluster.history) - 1
        await self._travel(CONTROLLER, self.host)
        self._publish(version)
        return answer

    async def _travel(self, source: str, target: str) -> None:
        network = self._cluster.network
        await sleep(network.link(source, target).delay_s(self._cluster.rng, 0))
        if network.is_blocked(source, target):
            await sleep(REQUEST_TIMEOUT_S)
            raise OSError(errno.ETIMEDOUT, f"{os.strerror(errno.ETIMEDOUT)}: no answer from the cluster")

    def _publish(self, version: int) -> None:
        """Every image up to this one, in order."""
        while self._version < version and not self._is_closed:
            old = self.image
            self._version += 1
            for listener in self._listeners:
                listener(old, self.image)
