"""Metadata and DescribeCluster: who is there and who leads what, straight from the cluster image.

The broker that is asked names itself as the controller, once it is unfenced: admin clients go there, and any broker
passes on what only the active controller can answer (`forwarding`).

A partition that the image has this broker lead has a leader once its replica has that role, LEADER_NOT_AVAILABLE until
then: a client that asks the leader it was given must not get NOT_LEADER_OR_FOLLOWER. What others lead is answered from
the image, as in Kafka: no broker knows how far another one is.

When a broker goes, every client of its partitions asks for them at once, and again until each has a leader. So what
was answered is kept and given again, the same object, whose bytes are written once (`WrittenOften`):

| kept | while these are what they were | an answer then costs |
|---|---|---|
| a topic | the topic's image, the brokers, the role of each of its replicas here (`role_changed`) | one look |
| a partition | its registration, the brokers, the role of its replica here | one look at each partition |

The topics of a broker that takes over change one after the other: of each, the rest of it is given again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from ...protocol import (
    BROKER_ENDPOINTS,
    CLUSTER_OPERATIONS,
    CONTROLLER_ENDPOINTS,
    INTERNAL_TOPICS,
    OPERATIONS_NOT_ASKED,
    TOPIC_OPERATIONS,
    ErrorCode,
    TopicPartition,
    check_topic_name,
    is_named_rightly,
)
from ...protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...protocol.net import RequestContext, Slices
from ..cluster.view import NO_LEADER, BrokerRegistration, ClusterImage, ClusterView, PartitionRegistration, TopicImage

TOPIC_WEIGHT: Final = 20
"""What a topic costs the event loop, in elements of `pace`."""
TOPICS_AT_ONCE: Final = 50


class _Answered(NamedTuple):
    """What was answered of a partition, and for what."""

    registration: PartitionRegistration
    available: bool
    partition: MetadataResponsePartition


class _AnsweredTopic(NamedTuple):
    """What was answered of a topic, and for what."""

    image: TopicImage
    topic: MetadataResponseTopic


class ClusterHandlers:
    """Answers for the broker `node_id`. `leads` says whether it is the leader of a partition in an epoch by now; when
    it may say something else, `role_changed` is called.
    """

    def __init__(self, view: ClusterView, node_id: int, leads: Callable[[TopicPartition, int], bool]) -> None:
        self._view = view
        self._node_id = node_id
        self._leads = leads
        self._answered: dict[UUID, dict[int, _Answered]] = {}
        """What was answered, by topic id: of topics that exist, and with the brokers of `_answered_for`."""
        self._topics: dict[str, _AnsweredTopic] = {}
        """The same, by name."""
        self._answered_for: Mapping[int, BrokerRegistration] = {}

    def role_changed(self, name: TopicPartition) -> None:
        """Look at the partitions of the topic again before it is answered."""
        self._topics.pop(name.topic, None)

    async def metadata(self, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
        """All topics for null, else those asked for, by name or by id."""
        image, version = self._view.image, context.api_version
        topics: list[MetadataResponseTopic] = []
        if request.topics is None:
            async for some in Slices(sorted(image.topics), weight=TOPIC_WEIGHT, free=TOPICS_AT_ONCE):
                topics += [self._topic(image, image.topics[name], version) for name in some]
        elif not is_named_rightly(request, version):
            code = ErrorCode.invalid_request
            topics = [_unknown_topic(asked.name or "", asked.topic_id, code) for asked in request.topics]
        else:
            topics = [self._requested(image, asked, version) for asked in request.topics]
        if request.include_topic_authorized_operations:
            topics = [replace(topic, topic_authorized_operations=TOPIC_OPERATIONS) for topic in topics]
        return MetadataResponse(
            cluster_authorized_operations=_operations_of_cluster(request),
            cluster_id=image.cluster_id,
            controller_id=self._controller_of(image),
            brokers=tuple(
                MetadataResponseBroker(node_id=broker.id, host=end_point.host, port=end_point.port, rack=broker.rack)
                for broker in image.brokers.values()
                if not broker.fenced and (end_point := broker.end_point(context.listener)) is not None
            ),
            topics=tuple(topics),
        )

    def _requested(self, image: ClusterImage, asked: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
        topic_id = asked.topic_id
        if topic_id is not None and asked.name is None:
            name = image.topic_names.get(topic_id)
            if name is None:
                return _unknown_topic(None, topic_id, ErrorCode.unknown_topic_id)
        else:
            name = asked.name or ""
        topic = image.topics.get(name)
        if topic is not None:
            return self._topic(image, topic, version)
        try:
            check_topic_name(name)
        except ValueError:
            return _unknown_topic(name, None, ErrorCode.invalid_topic_exception)
        return _unknown_topic(name, None, ErrorCode.unknown_topic_or_partition)

    def _topic(self, image: ClusterImage, topic: TopicImage, version: int) -> MetadataResponseTopic:
        if version == 0:
            return self._built(image, topic, version, {})
        answered = self._answered_of(image, topic)
        known = self._topics.get(topic.name)
        if known is None or known.image is not topic:
            known = self._topics[topic.name] = _AnsweredTopic(topic, self._built(image, topic, version, answered))
        return known.topic

    def _built(
        self, image: ClusterImage, topic: TopicImage, version: int, answered: dict[int, _Answered]
    ) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(
                self._partition(image, topic, number, version, answered) for number in sorted(topic.partitions)
            ),
        )

    def _partition(
        self, image: ClusterImage, topic: TopicImage, number: int, version: int, answered: dict[int, _Answered]
    ) -> MetadataResponsePartition:
        registration, available = topic.partitions[number], self._has_leader(image, topic, number)
        known = answered.get(number)
        if known is not None and known.registration is registration and known.available == available:
            return known.partition
        partition = _partition(image, number, registration, version, available=available)
        answered[number] = _Answered(registration, available, partition)
        return partition

    def _answered_of(self, image: ClusterImage, topic: TopicImage) -> dict[int, _Answered]:
        if image.brokers is not self._answered_for:
            self._answered_for = image.brokers
            self._answered.clear()
            self._topics.clear()
        answered = self._answered.setdefault(topic.topic_id, {})
        if len(self._answered) > len(image.topics):
            self._answered = {id_: known for id_, known in self._answered.items() if id_ in image.topic_names}
            self._topics = {name: known for name, known in self._topics.items() if name in image.topics}
        return answered

    def _has_leader(self, image: ClusterImage, topic: TopicImage, number: int) -> bool:
        found = topic.partitions[number]
        if found.leader == self._node_id and not self._leads(TopicPartition(topic.name, number), found.leader_epoch):
            return False
        return found.leader != NO_LEADER and _is_alive(image, found.leader)

    def _controller_of(self, image: ClusterImage) -> int:
        """One of the brokers that the answer names: a client looks for its address there."""
        if _is_alive(image, self._node_id):
            return self._node_id
        return min((id_ for id_ in image.brokers if _is_alive(image, id_)), default=NO_LEADER)

    async def describe_cluster(
        self, context: RequestContext, request: DescribeClusterRequest
    ) -> DescribeClusterResponse:
        image, endpoint_type = self._view.image, request.endpoint_type
        if endpoint_type != BROKER_ENDPOINTS:
            known = endpoint_type == CONTROLLER_ENDPOINTS
            return DescribeClusterResponse(
                error_code=ErrorCode.mismatched_endpoint_type if known else ErrorCode.unsupported_endpoint_type,
                error_message="this listener is a broker's: ask a controller for the controllers' endpoints",
                cluster_id=image.cluster_id,
                brokers=(),
            )
        return DescribeClusterResponse(
            endpoint_type=endpoint_type,
            cluster_id=image.cluster_id,
            controller_id=self._controller_of(image),
            cluster_authorized_operations=_operations_of_cluster(request),
            brokers=tuple(
                DescribeClusterBroker(
                    broker_id=broker.id,
                    host=end_point.host,
                    port=end_point.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
                for broker in image.brokers.values()
                if (not broker.fenced or request.include_fenced_brokers)
                and (end_point := broker.end_point(context.listener)) is not None
            ),
        )


def _operations_of_cluster(request: MetadataRequest | DescribeClusterRequest) -> int:
    return CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED


def _partition(
    image: ClusterImage, number: int, registration: PartitionRegistration, version: int, *, available: bool
) -> MetadataResponsePartition:
    """Version 0 names no replica that is down, and says that one is missing."""
    offline = tuple(replica for replica in registration.replicas if not _is_online(image, registration, replica))
    error = ErrorCode.none if available else ErrorCode.leader_not_available
    replicas, isr = registration.replicas, registration.isr
    if version == 0 and offline:
        replicas, isr = (tuple(replica for replica in nodes if replica not in offline) for nodes in (replicas, isr))
        error = ErrorCode.replica_not_available if available else error
    return MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=registration.leader if available else NO_LEADER,
        leader_epoch=registration.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )


def _is_online(image: ClusterImage, registration: PartitionRegistration, broker_id: int) -> bool:
    """Whether the broker is alive, and has the directory that its replica lies in, as far as that is known."""
    return _is_alive(image, broker_id) and image.brokers[broker_id].serves_from(registration.directory_of(broker_id))


def _is_alive(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced


def _unknown_topic(name: str | None, topic_id: UUID | None, error: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=())
