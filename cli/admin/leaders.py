"""Asks the leader of each partition: one request for each broker, whose answers are put together again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Final, TypeVar

import click

from ...protocol import ErrorCode, KafkaError, TopicPartition, offsets_of
from ...protocol.messages.offsets import ListOffsetsPartitionResponse
from ...protocol.net import Address
from ..cluster_session import TIMEOUT_S, Admin, Cluster

T = TypeVar("T")

NO_LEADER: Final = -1


def partitions_of(cluster: Cluster, numbers: Sequence[int] = ()) -> list[TopicPartition]:
    """Return the partitions of the cluster's topics: all of them, or those with these numbers. UsageError."""
    found = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in cluster.topics
        for partition in topic.partitions
        if not numbers or partition.partition_index in numbers
    ]
    for topic in cluster.topics:
        if missing := sorted(set(numbers) - {partition.partition_index for partition in topic.partitions}):
            raise click.UsageError(f"{topic.name} has {len(topic.partitions)} partitions, and no {missing[0]}")
    return sorted(found)


def by_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[Address, list[TopicPartition]]:
    """Return the partitions by the address of their leader; those without a leader are left out."""
    leaders = {
        TopicPartition(topic.name, partition.partition_index): partition.leader_id
        for topic in cluster.topics
        for partition in topic.partitions
    }
    found: dict[Address, list[TopicPartition]] = {}
    for partition in partitions:
        address = cluster.brokers.get(leaders.get(partition, NO_LEADER))
        if address is not None:
            found.setdefault(address, []).append(partition)
    return found


async def list_offsets(
    admin: Admin, cluster: Cluster, partitions: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    """Return what the leaders answer to ListOffsets, errors included; without a leader there is no answer."""
    return await of_each_leader(
        by_leader(cluster, partitions), lambda address, asked: list_of_one(admin, address, asked, timestamp)
    )


async def of_each_leader(
    asked: dict[Address, list[TopicPartition]],
    question: Callable[[Address, Sequence[TopicPartition]], Coroutine[None, None, dict[TopicPartition, T]]],
) -> dict[TopicPartition, T]:
    """Put the same question to each leader, and return all answers."""
    found: dict[TopicPartition, T] = {}
    for address, partitions in asked.items():
        found |= await question(address, partitions)
    return found


async def list_of_one(
    admin: Admin,
    address: Address,
    partitions: Sequence[TopicPartition],
    timestamp: int,
    *,
    asks_any_replica: bool = False,
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    """Return what one broker answers, nothing if its version does not know the timestamp."""
    request = offsets_of(
        [(one.topic, one.partition) for one in partitions],
        timestamp,
        timeout_ms=int(TIMEOUT_S * 1000),
        asks_any_replica=asks_any_replica,
    )
    try:
        response = await admin.send_to(address, request)
    except KafkaError as error:
        if error.code is not ErrorCode.unsupported_version:
            raise
        return {}
    return {
        TopicPartition(topic.name, partition.partition_index): partition
        for topic in response.topics
        for partition in topic.partitions
    }
