"""The cluster as a broker knows it at one offset of the metadata log: immutable values that all its parts share. Pure.

A change is a new image. `leader_epoch` and `partition_epoch` never go back from one image to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from ...controller import LOST_DIRECTORY, ClientQuotas, directory_of, has_directory
from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition, TopicPartition
from ...security import SecurityProtocol
from ...security.core import Acls, ScramCredentials

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class EndPoint:
    """One listener of a broker, as it is advertised."""

    listener: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker and its endpoints. `host` and `port` are those that other brokers use; `end_points` has all of them, and
    is empty where only one is known.

    A fenced broker is known to be down: it joins no ISR until it registers again. One that `is_leaving` still serves
    and joins none either. `epoch` is that of its registration, -1 where the cluster keeps none.
    """

    id: int
    host: str
    port: int
    rack: str | None = None
    directory_ids: tuple[UUID, ...] = ()
    fenced: bool = False
    is_leaving: bool = False
    epoch: int = -1
    end_points: tuple[EndPoint, ...] = ()

    def end_point(self, listener: str) -> EndPoint | None:
        """Return the endpoint of a listener; None if the broker has no listener of that name."""
        if not self.end_points:
            return EndPoint(listener, self.host, self.port)
        return next((item for item in self.end_points if item.listener == listener), None)

    @property
    def may_join_isr(self) -> bool:
        return not (self.fenced or self.is_leaving)

    def serves_from(self, directory: UUID | None) -> bool:
        """Whether it serves a replica in that directory, as far as that is known. One that went offline is no longer in
        its registration, while the replicas in it may stay registered there.
        """
        is_known = bool(self.directory_ids) or directory == LOST_DIRECTORY
        return not is_known or has_directory(directory, self.directory_ids)


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """Leadership and replicas of one partition; the first replica is the preferred leader. `directories`: where each
    replica is stored, None where that is not known; empty where the cluster does not keep it.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[UUID | None, ...] = ()

    def directory_of(self, broker_id: int) -> UUID | None:
        """The directory of a broker's replica as far as the cluster knows it."""
        return directory_of(broker_id, self.replicas, self.directories)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: its incarnation, the configs that differ from the brokers' defaults, and its partitions by number."""

    name: str
    topic_id: UUID
    configs: Mapping[str, str]
    partitions: Mapping[int, PartitionRegistration]

    def id_partition(self, partition: int) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.name, partition)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """One state of the cluster. `broker_configs` is keyed by broker id as text, and by "default". `features` are the
    finalized levels; None where the cluster has none, and all its brokers are of one release.
    """

    cluster_id: str
    brokers: Mapping[int, BrokerRegistration]
    topics: Mapping[str, TopicImage]
    broker_configs: Mapping[str, Mapping[str, str]]
    features: Mapping[str, int] | None = None
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The configs of groups that have any, by group id."""
    scram: ScramCredentials = field(default_factory=ScramCredentials, compare=False)
    """The users' SCRAM credentials, always the newest: one value for all images of a log."""
    acls: Acls = field(default_factory=Acls, compare=False)
    """The ACLs, always the newest: one value for all images of a log."""
    quotas: ClientQuotas = field(default_factory=ClientQuotas, compare=False)
    """The quotas of clients, always the newest: one value for all images of a log."""
    topic_names: Mapping[UUID, str] = field(init=False)

    def __post_init__(self) -> None:
        names = {topic.topic_id: topic.name for topic in self.topics.values()}
        object.__setattr__(self, "topic_names", names)

    def partition(self, topic_partition: TopicPartition) -> PartitionRegistration | None:
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def hosted_by(self, broker_id: int) -> dict[TopicIdPartition, PartitionRegistration]:
        """The partitions of which the broker has a replica, in the order of their names."""
        return {
            topic.id_partition(number): topic.partitions[number]
            for _, topic in sorted(self.topics.items())
            for number in sorted(topic.partitions)
            if broker_id in topic.partitions[number].replicas
        }
