"""What the metadata log says of one partition, topic, broker or controller: plain values.

`PartitionRegistration` and `BrokerRegistration` never change; a change is a new value, made by replay only. A cluster
has 100,000 partitions and more, so a partition is a tuple, and equal replica lists are one object (`image.Interned`).

| of a partition | |
|---|---|
| replicas | assigned brokers, the preferred leader first |
| directories | of each replica, in the order of `replicas`; None: unassigned |
| isr | in-sync replicas; empty only after the last member has lost its log |
| leader | member of the ISR, or NO_LEADER |
| leader_epoch | + 1 with each change that names a leader, even the same |
| partition_epoch | + 1 with each change |
| adding_replicas, removing_replicas | of the reassignment under way, if there is one |
| elr, last_known_elr | KIP-966; kept for round trips, never used: feature level 0 is the only one supported |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from ...light_dataclass import dataclass
from ..records import (
    LEADER_UNCHANGED,
    BrokerEndpoint,
    BrokerFeature,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from ..records.topics import RECOVERY_UNCHANGED

NO_LEADER: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader was elected out of the ISR and has not proven yet that it is done with recovering."""

RESERVED_DIRECTORIES: Final = 100
"""Directory ids below this number are not those of directories (KIP-858)."""


class PartitionKey(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: UUID
    partition: int


def directory_of(broker_id: int, replicas: Sequence[int], directories: Sequence[UUID | None]) -> UUID | None:
    """Return the directory of a broker's replica; None if it is not known, or the broker holds no replica."""
    if broker_id not in replicas or len(directories) != len(replicas):
        return None
    return directories[replicas.index(broker_id)]


class PartitionRegistration(NamedTuple):
    """See the module's table."""

    replicas: tuple[int, ...]
    directories: tuple[UUID | None, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def replication_factor(self) -> int:
        """While it is being reassigned, what it was before."""
        return len(self.replicas) - len(self.adding_replicas)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, broker_id: int) -> UUID | None:
        """None if the broker has not said yet, or holds no replica."""
        return directory_of(broker_id, self.replicas, self.directories)

    def check(self, key: PartitionKey) -> None:
        """The invariants of a registration, regardless of the record's writer."""
        assert self.leader == NO_LEADER or self.leader in self.isr, (key, self)
        assert set(self.isr) <= set(self.replicas), (key, self)
        assert len(self.directories) == len(self.replicas), (key, self)
        assert set(self.adding_replicas) | set(self.removing_replicas) <= set(self.replicas), (key, self)

    def changed_by(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """What the record makes of it."""
        names_leader = change.leader != LEADER_UNCHANGED
        replicas = self.replicas if change.replicas is None else change.replicas
        directories = self.directories if change.directories is None else change.directories
        recovery = change.leader_recovery_state
        return PartitionRegistration(
            replicas=replicas,
            directories=directories,
            isr=self.isr if change.isr is None else change.isr,
            leader=change.leader if names_leader else self.leader,
            leader_epoch=self.leader_epoch + names_leader,
            partition_epoch=self.partition_epoch + 1,
            adding_replicas=self.adding_replicas if change.adding_replicas is None else change.adding_replicas,
            removing_replicas=self.removing_replicas if change.removing_replicas is None else change.removing_replicas,
            leader_recovery_state=self.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery,
            elr=self.elr if change.eligible_leader_replicas is None else change.eligible_leader_replicas,
            last_known_elr=self.last_known_elr if change.last_known_elr is None else change.last_known_elr,
        )

    @classmethod
    def of_record(cls, record: PartitionRecord) -> PartitionRegistration:
        return cls(
            replicas=record.replicas,
            directories=record.directories or (None,) * len(record.replicas),
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            adding_replicas=record.adding_replicas,
            removing_replicas=record.removing_replicas,
            leader_recovery_state=record.leader_recovery_state,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
        )

    def to_record(self, key: PartitionKey) -> PartitionRecord:
        return PartitionRecord(
            partition_id=key.partition,
            topic_id=key.topic_id,
            replicas=self.replicas,
            isr=self.isr,
            removing_replicas=self.removing_replicas,
            adding_replicas=self.adding_replicas,
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=self.directories,
            eligible_leader_replicas=self.elr or None,
            last_known_elr=self.last_known_elr or None,
        )


class TopicRegistration:
    """One incarnation of a topic; `partitions` changes by replay only."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, PartitionRegistration] = {}

    def copy(self) -> TopicRegistration:
        other = TopicRegistration(self.name, self.topic_id)
        other.partitions = dict(self.partitions)
        return other


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker as it registered last, and what became of it since.

    `epoch` is the offset of its RegisterBrokerRecord. `cordoned_directories` is None until it reports them.
    """

    broker_id: int
    epoch: int
    incarnation_id: UUID | None
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[UUID | None, ...] = ()
    cordoned_directories: tuple[UUID | None, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Whether it may lead and join ISRs."""
        return not self.fenced and not self.in_controlled_shutdown

    def unfenced(self) -> BrokerRegistration:
        return replace(self, fenced=False)

    @property
    def is_placeable(self) -> bool:
        """Whether new replicas may be put there: not if all its directories are cordoned."""
        cordoned = self.cordoned_directories or ()
        return not cordoned or not set(self.directories) <= set(cordoned)

    @property
    def default_directory(self) -> UUID | None:
        """Where a new replica goes if that is sure already: the only directory."""
        return self.directories[0] if len(self.directories) == 1 else None

    @classmethod
    def of_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        return cls(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            end_points=record.end_points,
            features=record.features,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=record.log_dirs,
            cordoned_directories=record.cordoned_log_dirs,
        )

    def to_record(self) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=self.end_points,
            features=self.features,
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=self.directories,
            cordoned_log_dirs=self.cordoned_directories,
        )


def is_reserved_directory(directory: UUID | None) -> bool:
    """Unassigned, lost, migrating, or kept free: not the id of a directory."""
    return directory is None or directory.int < RESERVED_DIRECTORIES
