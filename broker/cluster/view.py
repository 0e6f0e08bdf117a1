"""The `ClusterView` port: what a broker knows of its cluster, and the few things it may ask to change.

Whoever implements it (`quorum_view`) keeps these rules:

* `image` is an immutable value; a change is a new value. Listeners are called on the event loop, in the order of the
  changes, with the old and the new image, before any call that caused the change returns.
* `leader_epoch` and `partition_epoch` never go back. `alter_partition` is conditional on both, so that of two leaders
  that believe in themselves only one can change an ISR.
* A broker that registers with a new directory id no longer holds what the old one held: it leaves every ISR, also as
  the last member, and never leads what it lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol
from uuid import UUID

from ...protocol.topics import TopicIdPartition, TopicPartition
from ...security.acls import Acls
from ...security.credentials import ScramCredentials
from ...security.principal import SecurityProtocol

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


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """Leadership and replicas of one partition; the first replica is the preferred leader. `directories`: where each
    replica lies, None where that is not known; empty where the cluster does not keep it.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[UUID | None, ...] = ()

    def directory_of(self, broker_id: int) -> UUID | None:
        """The directory of a broker's replica as far as the cluster knows it."""
        if broker_id not in self.replicas or len(self.directories) != len(self.replicas):
            return None
        return self.directories[self.replicas.index(broker_id)]


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
    scram: ScramCredentials = field(default_factory=ScramCredentials, compare=False)
    """The users' SCRAM credentials, always the newest: one value for all images of a log."""
    acls: Acls = field(default_factory=Acls, compare=False)
    """The ACLs, always the newest: one value for all images of a log."""
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


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create: either explicit `assignments` (replicas by partition, from 0) or the two numbers."""

    name: str
    partitions: int
    replication_factor: int
    assignments: tuple[tuple[int, ...], ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Producer ids [first, first + size) that nobody else is given."""

    first: int
    size: int


NO_EPOCHS: Final[Mapping[int, int]] = MappingProxyType({})

ImageListener = Callable[[ClusterImage, ClusterImage], None]
"""Called with the old and the new image."""


class ClusterView(Protocol):
    """The port. Calls that change something raise KafkaError when refused and OSError when the view cannot be
    reached.
    """

    @property
    def image(self) -> ClusterImage: ...

    def subscribe(self, listener: ImageListener) -> None: ...

    async def start(self) -> None:
        """Learn the first image and follow changes from now on."""

    async def close(self) -> None: ...

    async def register(self, broker: BrokerRegistration) -> None:
        """Announce the broker; afterwards the image has all that the cluster had decided by then.

        `broker.epoch` is that of its registration before, if it has stopped in order since then, else -1. It may lead
        and join ISRs only after `serve`, if the cluster has a controller.
        """

    @property
    def broker_epoch(self) -> int:
        """Of this broker's registration; -1 before it has one, or where the cluster keeps none."""

    async def serve(self) -> None:
        """This broker serves from now on; returns when the cluster counts on it."""

    async def leave(self) -> None:
        """This broker will stop soon: returns when others lead what it led, or cannot."""

    async def alter_partition(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        stated_epochs: Mapping[int, int] = NO_EPOCHS,
    ) -> PartitionRegistration:
        """Replace the ISR, as its leader, and return what is registered now. `stated_epochs`: of the incarnations whose
        fetches made followers fit, as these stated them; another one is not what the leader saw (KIP-903).

        KafkaError: FENCED_LEADER_EPOCH or INVALID_UPDATE_VERSION when another change came first, UNKNOWN_TOPIC_ID,
        INELIGIBLE_REPLICA for a new member that is fenced, INVALID_REQUEST for an ISR that is empty or not among the
        replicas.
        """

    def assign_directory(self, partition: TopicIdPartition, directory_id: UUID) -> None:
        """This broker's replica lies in that directory; told to the cluster when it can be. Returns at once.

        A directory that the broker does not have, as the reserved LOST (KIP-858), takes the replica out of the ISR, and
        its leadership from it under the next leader epoch. The last member of an ISR stays, without a leader, until it
        has a directory again, and leads then under another epoch. No other partition changes.
        """

    async def create_topic(self, topic: NewTopic) -> TopicImage: ...

    async def allocate_producer_ids(self) -> ProducerIdBlock: ...
