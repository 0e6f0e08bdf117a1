"""The cluster as its metadata log has it, told by whichever controller applies a batch first; judged batch by batch.

    controller 1 --on_commit--> |                    | --> image (as brokers see it), metadata (as controllers do)
    controller 2 --on_commit--> | same at an offset? | --> invariants of the metadata
    controller 3 --on_commit--> |                    | --> judges: what became of it

| invariant          | violated when                                                                          |
|--------------------|----------------------------------------------------------------------------------------|
| same state machine | two controllers apply different records at one offset                                  |
| same snapshot      | a controller loads a snapshot that is not what the log says up to its offset           |
| new topic id       | a topic has the id of one that was there before                                        |
| last member stays  | an ISR becomes empty, and the directory in which its last member lay was not lost      |
| allowed election   | somebody becomes leader who was not in the ISR before, neither joins it as a           |
|                    | reassignment ends, nor was asked for by an operator; nor is it so that at this offset  |
|                    | `unclean.leader.election.enable` is true, and no member of the ISR can lead            |
| (those of `metadata_image`)      |                                                                          |

A batch that was committed is known here from the moment the first controller has applied it. A controller that starts
again applies everything, from its snapshot on, and is compared.
"""

from __future__ import annotations

from collections import Counter
from typing import Final
from uuid import UUID

from ....broker.cluster import ClusterImage
from ....broker.core import MetadataView
from ....controller import (
    BROKER_RESOURCE,
    LOST_DIRECTORY,
    NO_LEADER,
    TOPIC_RESOURCE,
    MetadataImage,
    PartitionKey,
    PartitionRegistration,
    is_reserved_directory,
)
from ....controller.records import PartitionChangeRecord, TopicRecord, decode_record
from ....protocol import TopicIdPartition
from ....quorum import CommittedBatch, LeaderAndEpoch, SnapshotContent
from .events import ControllerElected, MetadataChanged, UncleanlyElected
from .judge import Judges
from .metadata_image import check_change, check_image
from .partition import InvariantViolationError

UNCLEAN_KEY: Final = "unclean.leader.election.enable"


class OperatorElections:
    """Unclean elections that an operator asks for: each request permits one, until an answer says that it is over.

    | the request                 | permits                                               |
    |-----------------------------|-------------------------------------------------------|
    | is under way                | elections of its partition                            |
    | was answered                | none any longer: what it did was committed before     |
    | got no answer               | one: it may be carried out at any time, or never      |
    """

    def __init__(self) -> None:
        self._under_way = Counter[PartitionKey]()
        self._unanswered = Counter[PartitionKey]()

    def begins(self, key: PartitionKey) -> None:
        self._under_way[key] += 1

    def ends(self, key: PartitionKey, *, is_answered: bool) -> None:
        """A request has ended, for who made it."""
        assert self._under_way[key] > 0, key
        self._under_way[key] -= 1
        self._unanswered[key] += not is_answered

    def permits(self, key: PartitionKey) -> bool:
        """An election happened: whether a request permitted it."""
        if self._under_way[key]:
            return True
        is_permitted = self._unanswered[key] > 0
        self._unanswered[key] -= is_permitted
        return is_permitted


class ClusterTruth:
    """`tap` is for each run of a controller. `image` is the newest; `version` counts its changes."""

    def __init__(self, cluster_id: str, listener_name: str, judges: Judges) -> None:
        self.metadata = MetadataImage()
        self.version = 0
        self.next_offset = 0
        self._lost: dict[int, set[UUID]] = {}
        """Directories that are gone for ever, by broker."""
        self.asked = OperatorElections()
        self._unclean: list[tuple[PartitionKey, PartitionRegistration, PartitionRegistration]] = []
        """Elections of this batch that a config allows, if no member of the ISR can lead once all of it is applied."""
        self.unclean_elections = 0
        """The number of those."""
        self.topics: dict[UUID, str] = {}
        """All that ever were: id and name."""
        self.judges = judges
        self._view = MetadataView(cluster_id, listener_name)
        self._records: dict[int, tuple[bytes, ...]] = {}

    @property
    def image(self) -> ClusterImage:
        return self._view.cluster

    def tap(self, host: str) -> Tap:
        return Tap(self, host)

    def wiped(self, broker_id: int, directory: UUID) -> None:
        """A broker's log directory is lost, with all that it held."""
        self._lost.setdefault(broker_id, set()).add(directory)

    def applied(self, host: str, batch: CommittedBatch) -> None:
        """A controller has applied a committed batch. InvariantViolationError."""
        if batch.base_offset < self.next_offset:
            known = self._records.get(batch.base_offset, ())
            if known != batch.records:
                detail = f"{host} applies {batch.records} at offset {batch.base_offset}, where {known} was applied"
                raise InvariantViolationError("same state machine", detail)
            return
        self._records[batch.base_offset] = batch.records
        self.next_offset = batch.last_offset + 1
        for value in batch.records:
            self._replay(value)
        check_image(self.metadata)
        self._check_unclean()
        before = self.image
        if self._view.apply(batch.records):
            self.version += 1
            self.judges.on(MetadataChanged(batch, self.metadata, before, self.image))

    def loaded(self, host: str, snapshot: SnapshotContent) -> None:
        """A controller begins with a snapshot. InvariantViolationError."""
        if snapshot.offset > self.next_offset:
            detail = f"{host} loads one up to offset {snapshot.offset}, up to {self.next_offset} anything was applied"
            raise InvariantViolationError("same snapshot", detail)
        given, right = MetadataImage(), MetadataImage()
        given.replay_all(decode_record(value).record for values in snapshot.batches for value in values)
        for base_offset, values in self._records.items():
            if base_offset < snapshot.offset:
                right.replay_all(decode_record(value).record for value in values)
        for name, (one, other) in contents_of(given, right).items():
            if one != other:
                detail = f"{host} loads {name} {one} up to offset {snapshot.offset}, the log says {other}"
                raise InvariantViolationError("same snapshot", detail)

    def _replay(self, value: bytes) -> None:
        record = decode_record(value).record
        if isinstance(record, TopicRecord):
            assert record.topic_id is not None, record
            if record.topic_id in self.topics:
                raise InvariantViolationError("new topic id", f"{record} has that of {self.topics[record.topic_id]}")
            self.topics[record.topic_id] = record.name
        if not isinstance(record, PartitionChangeRecord):
            self.metadata.replay(record)
            return
        assert record.topic_id is not None, record
        key = PartitionKey(record.topic_id, record.partition_id)
        before = self.metadata.registration(key)
        now = before.changed_by(record)
        self._check_loss(key, before, now)
        check_change(self.metadata.name(key), before, now)
        self.metadata.replay(record)

    def _check_loss(self, key: PartitionKey, before: PartitionRegistration, now: PartitionRegistration) -> None:
        where = f"{self.metadata.name(key)}: {before} -> {now}"
        if before.isr and not now.isr and not all(self._is_lost(before, member) for member in before.isr):
            raise InvariantViolationError("last member stays", where)
        joined = before.adding_replicas if before.is_reassigning and not now.is_reassigning else ()
        allowed = {NO_LEADER, before.leader, *before.isr, *(set(joined) & set(now.isr))}
        if now.leader not in allowed:
            by_config = self._is_unclean_allowed(self.topics[key.topic_id])
            if by_config:
                self._unclean.append((key, before, now))
            elif not self.asked.permits(key):
                raise InvariantViolationError("allowed election", where)
            name = TopicIdPartition(key.topic_id, self.topics[key.topic_id], key.partition)
            self.judges.on(UncleanlyElected(name, now.leader, by_config))

    def _is_unclean_allowed(self, topic: str) -> bool:
        """The topic's config at this offset, else that of all brokers."""
        own = self.metadata.config(TOPIC_RESOURCE, topic).get(UNCLEAN_KEY)
        return (own or self.metadata.config(BROKER_RESOURCE, "").get(UNCLEAN_KEY, "false")) == "true"

    def _check_unclean(self) -> None:
        """No member of the ISR can lead, unless an operator did not care. InvariantViolationError."""
        unclean, self._unclean = self._unclean, []
        for key, before, now in unclean:
            able = [member for member in before.isr if member in now.replicas and self._can_lead(before, member)]
            if able and not self.asked.permits(key):
                detail = f"{self.topics[key.topic_id]}-{key.partition}: {before} -> {now}, {able} can lead"
                raise InvariantViolationError("allowed election", detail)
            self.unclean_elections += 1

    def _can_lead(self, before: PartitionRegistration, member: int) -> bool:
        broker, directory = self.metadata.brokers.get(member), before.directory_of(member)
        if broker is None or not broker.is_active or directory == LOST_DIRECTORY:
            return False
        return not broker.directories or is_reserved_directory(directory) or directory in broker.directories

    def _is_lost(self, registration: PartitionRegistration, member: int) -> bool:
        """A replica of which nobody had said yet where it lies may have been in any."""
        directory, lost = registration.directory_of(member), self._lost.get(member, set())
        return bool(lost) if is_reserved_directory(directory) else directory in lost


class Tap:
    """A `QuorumListener` of one controller's replica."""

    def __init__(self, truth: ClusterTruth, host: str) -> None:
        self._truth = truth
        self._host = host

    def on_commit(self, batch: CommittedBatch) -> None:
        try:
            self._truth.applied(self._host, batch)
        except (AssertionError, LookupError) as violation:
            self._truth.judges.report(violation)

    def on_load_snapshot(self, snapshot: SnapshotContent) -> None:
        try:
            self._truth.loaded(self._host, snapshot)
        except (AssertionError, LookupError) as violation:
            self._truth.judges.report(violation)

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Publish an election; the leader is the first replica to know."""
        if leader.leader_id is not None:
            self._truth.judges.on(ControllerElected(leader.epoch))


def contents_of(one: MetadataImage, other: MetadataImage) -> dict[str, tuple[object, object]]:
    """What two images say, side by side."""
    return {
        "features": (one.features, other.features),
        "brokers": (one.brokers, other.brokers),
        "controllers": (one.controllers, other.controllers),
        "topics": (_topics(one), _topics(other)),
        "configs": (one.configs, other.configs),
        "producer ids": (one.next_producer_id, other.next_producer_id),
        "other records": (one.kept, other.kept),
    }


def _topics(image: MetadataImage) -> dict[UUID, tuple[str, dict[int, PartitionRegistration]]]:
    return {topic_id: (topic.name, topic.partitions) for topic_id, topic in image.topics.items()}
