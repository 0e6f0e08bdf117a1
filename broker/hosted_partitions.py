"""Look-up of the partitions that this broker hosts, by what a request says; the errors of a look-up that fails.

| the request names | answer |
|---|---|
| a topic name that does not exist, or a partition that its topic does not have | UNKNOWN_TOPIC_OR_PARTITION |
| a topic id that does not exist | UNKNOWN_TOPIC_ID |
| a partition that is elsewhere, or here but not yet set up | NOT_LEADER_OR_FOLLOWER |
| a partition whose log could not be opened | KAFKA_STORAGE_ERROR |

The replica manager alone changes what is hosted.
"""

from __future__ import annotations

from uuid import UUID

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from ..protocol.topics import TopicPartition, topic_partition
from .cluster_view import ClusterImage, ClusterView
from .partition import Partition


class HostedPartitions:
    """`partitions` are set up; `failures` say why one is not."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.partitions: dict[TopicPartition, Partition] = {}
        self.failures: dict[TopicPartition, str] = {}

    @property
    def image(self) -> ClusterImage:
        return self._view.image

    def find(self, topic: str | UUID, number: int) -> Partition:
        """KafkaError as in the module's table."""
        name: str | None
        topic_id: int | None
        if isinstance(topic, str):
            name, topic_id = topic, None
        else:
            name, topic_id = self._view.image.topic_names.get(topic), topic.int
        if name is None:
            raise KafkaError(ErrorCode.unknown_topic_id, f"no topic has the id {topic}")
        hosted = self.partitions.get(topic_partition(name, number))
        if hosted is not None and (topic_id is None or hosted.partition.topic_id.int == topic_id):
            return hosted
        raise self._absent(name, number)

    def _absent(self, name: str, number: int) -> KafkaError:
        partition = TopicPartition(name, number)
        if self.image.partition(partition) is None:
            return KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no partition {partition}")
        if partition in self.failures:
            return KafkaError(ErrorCode.kafka_storage_error, f"{partition}: {self.failures[partition]}")
        return KafkaError(ErrorCode.not_leader_or_follower, f"{partition} is not led by this broker")

    def leader_hint(self, topic: str | UUID, number: int) -> LeaderIdAndEpoch | None:
        """Who leads a partition as far as the cluster view knows, for a client that asked the wrong broker."""
        name = topic if isinstance(topic, str) else self.image.topic_names.get(topic)
        registration = None if name is None else self.image.partition(TopicPartition(name, number))
        return None if registration is None else LeaderIdAndEpoch(registration.leader, registration.leader_epoch)

    def endpoint(self, broker_id: int) -> NodeEndpoint | None:
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else NodeEndpoint(broker.id, broker.host, broker.port, broker.rack)

    def endpoints(self, hints: set[LeaderIdAndEpoch]) -> tuple[NodeEndpoint, ...]:
        """Of the leaders that the hints name."""
        found = [self.endpoint(broker_id) for broker_id in sorted({hint.leader_id for hint in hints})]
        return tuple(endpoint for endpoint in found if endpoint is not None)
