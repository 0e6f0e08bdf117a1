"""Builders of cluster images for tests."""

from __future__ import annotations

from uuid import UUID

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tierfetch.protocol.topics import uuid_to_text

CLUSTER_ID = uuid_to_text(UUID(int=77))
DIRECTORY_A, DIRECTORY_B = UUID(int=1001), UUID(int=1002)


def partition(
    leader: int, replicas: tuple[int, ...], isr: tuple[int, ...] | None = None, *, leader_epoch: int = 0, epoch: int = 0
) -> PartitionRegistration:
    return PartitionRegistration(
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=epoch,
        replicas=replicas,
        isr=replicas if isr is None else isr,
    )


def topic(name: str, *partitions: PartitionRegistration, topic_id: int = 500, **configs: str) -> TopicImage:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return TopicImage(name, UUID(int=topic_id), named, dict(enumerate(partitions)))


def image(*topics: TopicImage, brokers: tuple[int, ...] = (1, 2, 3)) -> ClusterImage:
    return ClusterImage(
        cluster_id=CLUSTER_ID,
        brokers={b: BrokerRegistration(b, "127.0.0.1", 9000 + b, None, (UUID(int=1000 + b),)) for b in brokers},
        topics={entry.name: entry for entry in topics},
        broker_configs={},
    )
