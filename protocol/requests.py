"""The requests of clients that look at a cluster from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from .fetch.messages import READ_UNCOMMITTED
from .messages.cluster import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from .messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from .messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2
"""The nodes whose listeners DescribeCluster returns (KIP-919)."""
METADATA_BY_ID_SINCE: Final = 12
"""The responses before cannot be without a topic's name."""
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
"""In place of a replica's id."""


def metadata_of(topics: Iterable[str] | None) -> MetadataRequest:
    """Return a Metadata request: the brokers, and the named topics or all of them; none is created by asking."""
    return MetadataRequest(
        topics=None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics),
        allow_auto_topic_creation=False,
    )


def is_named_rightly(request: MetadataRequest, api_version: int) -> bool:
    """Return whether the request names topics as its version may: before 12 by name only, whatever its fields allow."""
    return api_version >= METADATA_BY_ID_SINCE or not any(
        topic.name is None or topic.topic_id for topic in request.topics or ()
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


def offsets_of(
    partitions: Iterable[tuple[str, int]],
    timestamp: int,
    *,
    timeout_ms: int,
    isolation_level: int = READ_UNCOMMITTED,
    asks_any_replica: bool = False,
) -> ListOffsetsRequest:
    """Return the ListOffsets request of a consumer, for one timestamp. With `asks_any_replica` a follower answers too,
    out of its own log.
    """
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    return ListOffsetsRequest(
        replica_id=DEBUGGING_CONSUMER if asks_any_replica else CONSUMER,
        isolation_level=isolation_level,
        timeout_ms=timeout_ms,
        topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()),
    )
