"""A cluster without controllers, in memory: one state that all its views see at once.

cluster = FakeCluster(rng)
async with open_broker(config, NodeEnvironment(cluster_view=cluster.view())): ...
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from tierfetch.broker.cluster.view import (
    NO_EPOCHS,
    BrokerRegistration,
    ClusterImage,
    ImageListener,
    NewTopic,
    PartitionRegistration,
    ProducerIdBlock,
    TopicImage,
)
from tierfetch.protocol.topics import TopicIdPartition, uuid_to_text
from tierfetch.tests.fakes import cluster_rules as rules

PRODUCER_ID_BLOCK_SIZE = 1000


class FakeCluster:
    """The state; `image` is what every view sees."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(1)
        self.image = ClusterImage(uuid_to_text(UUID(int=self.rng.getrandbits(128), version=4)), {}, {}, {})
        self.next_producer_id = 0
        self.views: list[FakeClusterView] = []

    def view(self) -> FakeClusterView:
        return FakeClusterView(self)

    def change(self, decide: Callable[[ClusterImage], ClusterImage]) -> ClusterImage:
        """All views hear of it before this returns. KafkaError if it is refused."""
        before, after = self.image, decide(self.image)
        if after != before:
            self.image = after
            for view in list(self.views):
                view.publish(before, after)
        return after


class FakeClusterView:
    """One broker's `ClusterView`, or the test's own."""

    def __init__(self, cluster: FakeCluster | None = None) -> None:
        self.cluster = cluster or FakeCluster()
        self.cluster.views.append(self)
        self.directories: dict[TopicIdPartition, UUID] = {}
        """What `assign_directory` was told."""
        self.broker_id: int | None = None
        """Once it has registered."""
        self.is_reachable = True
        """Whether what is assigned reaches the cluster."""
        self.is_heard = True
        self._listeners: list[ImageListener] = []

    @property
    def image(self) -> ClusterImage:
        return self.cluster.image

    def subscribe(self, listener: ImageListener) -> None:
        self._listeners.append(listener)

    def publish(self, before: ClusterImage, after: ClusterImage) -> None:
        for listener in self._listeners:
            listener(before, after)

    async def start(self) -> None: ...

    async def close(self) -> None:
        self._listeners.clear()

    async def register(self, broker: BrokerRegistration) -> None:
        self.broker_id = broker.id
        self.cluster.change(lambda image: rules.register(image, broker))

    @property
    def broker_epoch(self) -> int:
        return -1

    async def serve(self) -> None: ...

    async def leave(self) -> None: ...

    async def alter_partition(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        stated_epochs: Mapping[int, int] = NO_EPOCHS,
    ) -> PartitionRegistration:
        image = self.cluster.change(
            lambda image: rules.alter_partition(
                image, partition, leader_epoch=leader_epoch, partition_epoch=partition_epoch, isr=isr
            )
        )
        return image.topics[partition.topic].partitions[partition.partition]

    def assign_directory(self, partition: TopicIdPartition, directory_id: UUID) -> None:
        self.directories[partition] = directory_id
        asyncio.get_running_loop().call_soon(self._assign, partition)

    def reach(self) -> None:
        """What was assigned while the cluster could not be reached arrives now."""
        self.is_reachable = True
        for partition in self.directories:
            self._assign(partition)

    def _assign(self, partition: TopicIdPartition) -> None:
        """The last word on each replica."""
        if self.is_reachable and self.image.topic_names.get(partition.topic_id) == partition.topic:
            assert self.broker_id is not None
            broker_id, directory_id = self.broker_id, self.directories[partition]
            self.cluster.change(lambda image: rules.assign_directory(image, partition, broker_id, directory_id))

    async def elect_leader(self, partition: TopicIdPartition, leader: int, *, unclean: bool = False) -> None:
        """What a controller does by itself."""
        self.cluster.change(lambda image: rules.elect_leader(image, partition, leader, unclean=unclean))

    async def fence_broker(self, broker_id: int) -> None:
        """The same."""
        self.cluster.change(lambda image: rules.fence_broker(image, broker_id))

    async def create_topic(self, topic: NewTopic) -> TopicImage:
        topic_id = UUID(int=self.cluster.rng.getrandbits(128), version=4)
        return self.cluster.change(lambda image: rules.create_topic(image, topic, topic_id)).topics[topic.name]

    async def delete_topic(self, name: str) -> None:
        self.cluster.change(lambda image: rules.delete_topic(image, name))

    async def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> None:
        self.cluster.change(lambda image: rules.alter_topic_configs(image, name, changes))

    async def alter_broker_configs(self, broker: str, changes: Mapping[str, str | None]) -> None:
        self.cluster.change(lambda image: rules.alter_broker_configs(image, broker, changes))

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        block = ProducerIdBlock(self.cluster.next_producer_id, PRODUCER_ID_BLOCK_SIZE)
        self.cluster.next_producer_id += PRODUCER_ID_BLOCK_SIZE
        return block
