"""Requests that everybody sends who looks at a cluster from outside: a message, or the plain values of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from .fetch.messages import READ_UNCOMMITTED
from .messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2
"""Whose listeners DescribeCluster tells (KIP-919)."""
CONSUMER: Final = -1
"""In place of a replica's id."""


def metadata_of(topics: Sequence[str] | None) -> dict[str, Any]:
    """Metadata: the brokers, and the named topics or all of them; none is created by asking."""
    return {
        "topics": None if topics is None else [{"topic_id": None, "name": name} for name in topics],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def cluster_of(endpoint_type: int, *, include_fenced_brokers: bool = False) -> dict[str, Any]:
    """DescribeCluster: the nodes of one kind, and the cluster's id."""
    return {
        "include_cluster_authorized_operations": False,
        "endpoint_type": endpoint_type,
        "include_fenced_brokers": include_fenced_brokers,
    }


def configs_of(resource_type: int, resources: Iterable[tuple[str, Sequence[str] | None]]) -> dict[str, Any]:
    """DescribeConfigs: of each name these keys, or all."""
    return {
        "resources": [
            {
                "resource_type": resource_type,
                "resource_name": name,
                "configuration_keys": None if keys is None else list(keys),
            }
            for name, keys in resources
        ],
        "include_synonyms": False,
        "include_documentation": False,
    }


def offsets_of(
    partitions: Iterable[tuple[str, int]],
    timestamp: int,
    *,
    timeout_ms: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> ListOffsetsRequest:
    """Return the ListOffsets request of a consumer, for one timestamp."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=isolation_level,
        timeout_ms=timeout_ms,
        topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()),
    )
