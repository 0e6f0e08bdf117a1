"""The requests of clients that look at a cluster from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from .fetch.messages import READ_UNCOMMITTED
from .messages.cluster import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from .messages.configs import DescribeConfigsRequest, DescribeConfigsResource

BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2
"""Whose listeners DescribeCluster tells (KIP-919)."""
CONSUMER: Final = -1
"""In place of a replica's id."""


def metadata_of(topics: Iterable[str] | None) -> MetadataRequest:
    """Return a Metadata request: the brokers, and the named topics or all of them; none is created by asking."""
    return MetadataRequest(
        topics=None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics),
        allow_auto_topic_creation=False,
    )


def cluster_of(endpoint_type: int, *, include_fenced_brokers: bool = False) -> DescribeClusterRequest:
    """Return a DescribeCluster request: the nodes of one kind, and the cluster's id."""
    return DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
        include_fenced_brokers=include_fenced_brokers,
    )


def configs_of(resource_type: int, resources: Iterable[tuple[str, Sequence[str] | None]]) -> DescribeConfigsRequest:
    """Return a DescribeConfigs request: of each name these keys, or all."""
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configuration_keys=None if keys is None else tuple(keys),
            )
            for name, keys in resources
        )
    )


def offsets_of(partitions: Iterable[tuple[str, int]], timestamp: int, *, timeout_ms: int) -> dict[str, Any]:
    """ListOffsets as a consumer asks it, for one timestamp."""
    topics: dict[str, list[dict[str, int]]] = {}
    for topic, partition in partitions:
        asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
        topics.setdefault(topic, []).append(asked)
    return {
        "replica_id": CONSUMER,
        "isolation_level": READ_UNCOMMITTED,
        "timeout_ms": timeout_ms,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
    }
