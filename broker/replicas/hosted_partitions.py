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

from collections.abc import Callable, Mapping
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.wire import LeaderIdAndEpoch, NodeEndpoint
from ..cluster.view import ClusterImage, ClusterView
from .partition import Partition


@dataclass(slots=True)
class LogFailures:
    """Since the start of the broker: how often the log of a hosted replica failed, and how many records were missing
    when one was opened again.
    """

    count: int = 0
    lost_records: int = 0


@dataclass(slots=True)
class Traffic:
    """Since the start of the broker: what clients produced here, and what was sent to consumers and to followers."""

    produced_bytes: int = 0
    produced_records: int = 0
    consumed_bytes: int = 0
    replicated_bytes: int = 0


class HostedPartitions:
    """`partitions` are set up; `failures` say why one is not."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._partitions: dict[TopicPartition, Partition] = {}
        self.failures: dict[TopicPartition, str] = {}
        self.log_failures = LogFailures()
        self.traffic = Traffic()
        self._found: dict[tuple[str | int, int], Partition] = {}
        """Look-ups, by the name or the number of the topic's id, that hold in `_found_in` and for what is hosted now.
        """
        self._found_in = view.image
        self._role_listeners: list[Callable[[TopicPartition], None]] = []

    @property
    def image(self) -> ClusterImage:
        return self._view.image

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        return self._partitions

    def out_of_service(self) -> set[TopicPartition]:
        """Return the partitions whose log does not let them serve."""
        failed = {name for name, partition in self._partitions.items() if partition.log.state.failure is not None}
        return failed | self.failures.keys()

    def refusing_produce(self) -> set[TopicPartition]:
        """Return the partitions that are led here, and whose log directory is too full for clients' records."""
        return {
            name
            for name, partition in self._partitions.items()
            if partition.leadership is not None and not partition.log.state.keeper.accepts_clients
        }

    def add(self, name: TopicPartition, partition: Partition) -> None:
        self._found.clear()
        self._partitions[name] = partition
        self.role_changed(name)

    def remove(self, name: TopicPartition) -> Partition:
        self._found.clear()
        partition = self._partitions.pop(name)
        self.role_changed(name)
        return partition

    def on_role_change(self, listener: Callable[[TopicPartition], None]) -> None:
        """Call it with each partition for which `leads` may have another answer from now on."""
        self._role_listeners.append(listener)

    def role_changed(self, name: TopicPartition) -> None:
        """The replica of that partition leads another epoch, or no longer leads, or is hosted no longer."""
        for listener in self._role_listeners:
            listener(name)

    def leads(self, name: TopicPartition, leader_epoch: int) -> bool:
        """Whether the replica here has the role of the leader in that epoch."""
        partition = self._partitions.get(name)
        leadership = None if partition is None else partition.leadership
        return leadership is not None and leadership.leader_epoch == leader_epoch

    def find(self, topic: str | UUID, number: int) -> Partition:
        """KafkaError as in the module's table."""
        image = self._view.image
        if image is not self._found_in:
            self._found_in = image
            self._found.clear()
        key = (topic if isinstance(topic, str) else topic.int, number)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look_up(image, topic, number)
        return found

    def _look_up(self, image: ClusterImage, topic: str | UUID, number: int) -> Partition:
        name = topic if isinstance(topic, str) else image.topic_names.get(topic)
        if name is None:
            raise KafkaError(ErrorCode.unknown_topic_id, f"no topic has the id {topic}")
        hosted = self._partitions.get(TopicPartition(name, number))
        if hosted is None or (isinstance(topic, UUID) and hosted.partition.topic_id != topic):
            raise self._absent(name, number)
        return hosted

    def _absent(self, name: str, number: int) -> KafkaError:
        partition = TopicPartition(name, number)
        if self.image.partition(partition) is None:
            return KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no partition {partition}")
        if partition in self.failures:
            return KafkaError(ErrorCode.kafka_storage_error, f"{partition}: {self.failures[partition]}")
        return KafkaError(ErrorCode.not_leader_or_follower, f"{partition} is not led by this broker")

    def leader_hint(self, topic: str | UUID, number: int) -> LeaderIdAndEpoch | None:
        """Return the leader of a partition as far as it is known, for a client that asked the wrong broker."""
        name = topic if isinstance(topic, str) else self.image.topic_names.get(topic)
        registration = None if name is None else self.image.partition(TopicPartition(name, number))
        return None if registration is None else LeaderIdAndEpoch(registration.leader, registration.leader_epoch)

    def endpoint(self, broker_id: int, listener: str) -> NodeEndpoint | None:
        """Return where a broker has a listener of that name, if it has one."""
        broker = self.image.brokers.get(broker_id)
        found = None if broker is None else broker.end_point(listener)
        return None if broker is None or found is None else NodeEndpoint(broker.id, found.host, found.port, broker.rack)

    def endpoints(self, hints: set[LeaderIdAndEpoch], listener: str) -> tuple[NodeEndpoint, ...]:
        """Return where the leaders that the hints name have a listener of that name."""
        found = [self.endpoint(broker_id, listener) for broker_id in sorted({hint.leader_id for hint in hints})]
        return tuple(endpoint for endpoint in found if endpoint is not None)
