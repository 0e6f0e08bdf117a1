"""Metadata and DescribeCluster: who is there and who leads what, straight from the cluster image.

The broker that is asked names itself as the controller, once it is unfenced: admin clients go there, and any broker
passes on what only the active controller can answer (`forwarding`).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ...controller.core.state import LOST_DIRECTORY
from ...controller.image.registrations import is_reserved_directory
from ...protocol.errors import ErrorCode
from ...protocol.net.dispatch import RequestContext
from ...protocol.requests import BROKER_ENDPOINTS
from ...protocol.topics import INTERNAL_TOPICS, check_topic_name
from ..cluster.view import NO_LEADER, ClusterImage, ClusterView, PartitionRegistration, TopicImage
from . import Plain


class ClusterHandlers:
    """Answers for the broker `node_id`."""

    def __init__(self, view: ClusterView, node_id: int) -> None:
        self._view = view
        self._node_id = node_id

    async def metadata(self, _: RequestContext, request: Any) -> Plain:
        """All topics for null (in v0: for none), else those asked for, by name or by id."""
        image = self._view.image
        if request.topics is None or (request.__version__ == 0 and not request.topics):
            topics = [_topic(image, image.topics[name]) for name in sorted(image.topics)]
        else:
            topics = [self._requested(image, asked) for asked in request.topics]
        return {
            "error_code": ErrorCode.none,
            "cluster_id": image.cluster_id,
            "controller_id": self._controller_of(image),
            "brokers": [
                {"node_id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}
                for broker in image.brokers.values()
                if not broker.fenced
            ],
            "topics": topics,
        }

    def _requested(self, image: ClusterImage, asked: Any) -> Plain:
        topic_id: UUID | None = getattr(asked, "topic_id", None)
        if topic_id is not None and asked.name is None:
            name = image.topic_names.get(topic_id)
            if name is None:
                return _unknown_topic(None, topic_id, ErrorCode.unknown_topic_id)
        else:
            name = asked.name or ""
        topic = image.topics.get(name)
        if topic is not None:
            return _topic(image, topic)
        try:
            check_topic_name(name)
        except ValueError:
            return _unknown_topic(name, None, ErrorCode.invalid_topic_exception)
        return _unknown_topic(name, None, ErrorCode.unknown_topic_or_partition)

    def _controller_of(self, image: ClusterImage) -> int:
        """One of the brokers that the answer names: a client looks for its address there."""
        if _is_alive(image, self._node_id):
            return self._node_id
        return min((id_ for id_ in image.brokers if _is_alive(image, id_)), default=NO_LEADER)

    async def describe_cluster(self, _: RequestContext, request: Any) -> Plain:
        image = self._view.image
        endpoint_type = getattr(request, "endpoint_type", BROKER_ENDPOINTS)
        served = endpoint_type == BROKER_ENDPOINTS
        return {
            "error_code": ErrorCode.none if served else ErrorCode.unsupported_endpoint_type,
            "error_message": None if served else "ask a controller for its endpoints",
            "endpoint_type": endpoint_type,
            "cluster_id": image.cluster_id,
            "controller_id": self._controller_of(image),
            "brokers": tuple(
                {
                    "broker_id": broker.id,
                    "host": broker.host,
                    "port": broker.port,
                    "rack": broker.rack,
                    "is_fenced": broker.fenced,
                }
                for broker in (image.brokers.values() if served else ())
                if not broker.fenced or getattr(request, "include_fenced_brokers", False)
            ),
        }


def _topic(image: ClusterImage, topic: TopicImage) -> Plain:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": [_partition(image, number, topic.partitions[number]) for number in sorted(topic.partitions)],
    }


def _partition(image: ClusterImage, number: int, registration: PartitionRegistration) -> Plain:
    available = registration.leader != NO_LEADER and _is_alive(image, registration.leader)
    return {
        "error_code": ErrorCode.none if available else ErrorCode.leader_not_available,
        "partition_index": number,
        "leader_id": registration.leader if available else NO_LEADER,
        "leader_epoch": registration.leader_epoch,
        "replica_nodes": registration.replicas,
        "isr_nodes": registration.isr,
        "offline_replicas": tuple(
            replica for replica in registration.replicas if not _is_online(image, registration, replica)
        ),
    }


def _is_online(image: ClusterImage, registration: PartitionRegistration, broker_id: int) -> bool:
    """Whether the broker is alive, and has the directory that its replica lies in, as far as that is known."""
    if not _is_alive(image, broker_id):
        return False
    directory, known = registration.directory_of(broker_id), image.brokers[broker_id].directory_ids
    if directory == LOST_DIRECTORY:
        return False
    return not known or is_reserved_directory(directory) or directory in known


def _is_alive(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced


def _unknown_topic(name: str | None, topic_id: UUID | None, error: ErrorCode) -> Plain:
    return {"error_code": error, "name": name, "topic_id": topic_id, "partitions": ()}
