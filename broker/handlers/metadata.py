"""Metadata and DescribeCluster: who is there and who leads what, straight from the cluster image.

A static cluster has no controller: the broker that is asked names itself, so that admin clients, which go to the
controller, are served by any broker.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ...protocol.errors import ErrorCode
from ...protocol.topics import INTERNAL_TOPICS, TopicIdPartition, check_topic_name
from ..cluster_view import NO_LEADER, ClusterImage, ClusterView, PartitionRegistration, TopicImage
from .entities import NO_THROTTLE, ResponseEntities, entities_for

_BROKER_ENDPOINTS = 1


class ClusterHandlers:
    """Answers for the broker `node_id`."""

    def __init__(self, view: ClusterView, node_id: int) -> None:
        self._view = view
        self._node_id = node_id

    async def metadata(self, request: Any) -> Any:
        """All topics for null (in v0: for none), else those asked for, by name or by id."""
        image, make = self._view.image, entities_for(request)
        if request.topics is None or (request.__version__ == 0 and not request.topics):
            topics = [self._topic(image, make, image.topics[name]) for name in sorted(image.topics)]
        else:
            topics = [self._requested(image, make, asked) for asked in request.topics]
        return make(
            "MetadataResponse",
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            cluster_id=image.cluster_id,
            controller_id=self._node_id,
            brokers=tuple(
                make("MetadataResponseBroker", node_id=broker.id, host=broker.host, port=broker.port, rack=broker.rack)
                for broker in image.brokers.values()
            ),
            topics=tuple(topics),
        )

    def _requested(self, image: ClusterImage, make: ResponseEntities, asked: Any) -> Any:
        topic_id: UUID | None = getattr(asked, "topic_id", None)
        if topic_id is not None and asked.name is None:
            name = image.topic_names.get(topic_id)
            if name is None:
                return _unknown_topic(make, None, topic_id, ErrorCode.unknown_topic_id)
        else:
            name = asked.name or ""
        topic = image.topics.get(name)
        if topic is not None:
            return self._topic(image, make, topic)
        try:
            check_topic_name(name)
        except ValueError:
            return _unknown_topic(make, name, None, ErrorCode.invalid_topic_exception)
        return _unknown_topic(make, name, None, ErrorCode.unknown_topic_or_partition)

    def _topic(self, image: ClusterImage, make: ResponseEntities, topic: TopicImage) -> Any:
        return make(
            "MetadataResponseTopic",
            error_code=ErrorCode.none,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(
                _partition(image, make, topic.id_partition(number), topic.partitions[number])
                for number in sorted(topic.partitions)
            ),
        )

    async def describe_cluster(self, request: Any) -> Any:
        image, make = self._view.image, entities_for(request)
        endpoint_type = getattr(request, "endpoint_type", _BROKER_ENDPOINTS)
        served = endpoint_type == _BROKER_ENDPOINTS
        return make(
            "DescribeClusterResponse",
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none if served else ErrorCode.unsupported_endpoint_type,
            error_message=None if served else "a static cluster has no controllers",
            endpoint_type=endpoint_type,
            cluster_id=image.cluster_id,
            controller_id=self._node_id,
            brokers=tuple(
                make(
                    "DescribeClusterBroker",
                    broker_id=broker.id,
                    host=broker.host,
                    port=broker.port,
                    rack=broker.rack,
                    is_fenced=False,
                )
                for broker in (image.brokers.values() if served else ())
            ),
        )


def _partition(
    image: ClusterImage, make: ResponseEntities, partition: TopicIdPartition, registration: PartitionRegistration
) -> Any:
    available = registration.leader != NO_LEADER and registration.leader in image.brokers
    return make(
        "MetadataResponsePartition",
        error_code=ErrorCode.none if available else ErrorCode.leader_not_available,
        partition_index=partition.partition,
        leader_id=registration.leader if available else NO_LEADER,
        leader_epoch=registration.leader_epoch,
        replica_nodes=registration.replicas,
        isr_nodes=registration.isr,
        offline_replicas=tuple(replica for replica in registration.replicas if replica not in image.brokers),
    )


def _unknown_topic(make: ResponseEntities, name: str | None, topic_id: UUID | None, error: ErrorCode) -> Any:
    return make("MetadataResponseTopic", error_code=error, name=name, topic_id=topic_id, partitions=())
