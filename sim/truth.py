"""The cluster as its metadata log has it, told by whichever controller applies a batch first; judged batch by batch.

    controller 1 --on_commit--> |                    | --> image (as brokers see it), metadata (as controllers do)
    controller 2 --on_commit--> | same at an offset? | --> invariants of the metadata
    controller 3 --on_commit--> |                    | --> listeners: what became of it

| invariant          | violated when                                                                          |
|--------------------|----------------------------------------------------------------------------------------|
| same state machine | two controllers apply different records at one offset                                  |
| new topic id       | a topic has the id of one that was there before                                        |
| last member stays  | an ISR becomes empty, and its last member has not lost its disk                        |
| allowed election   | somebody outside of the ISR becomes leader, and no operator asked for that             |
| (those of `metadata_invariants`) |                                                                          |

A batch that was committed is known here from the moment the first controller has applied it. A controller that starts
anew applies everything again, from its snapshot on, and is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from ..broker.cluster_view import ClusterImage
from ..broker.metadata_view import MetadataView
from ..controller.image import MetadataImage
from ..controller.records import PartitionChangeRecord, TopicRecord, decode_record
from ..controller.registrations import NO_LEADER, PartitionKey, PartitionRegistration
from ..protocol.topics import TopicIdPartition
from ..quorum.delivery import CommittedBatch, SnapshotContent
from ..quorum.state import LeaderAndEpoch
from .invariants import InvariantViolationError
from .metadata_invariants import check_change, check_image

OnChange = Callable[[MetadataImage, ClusterImage, ClusterImage], None]
"""The controllers' image, and the brokers' before and after a batch."""


class ClusterTruth:
    """`tap` is for each run of a controller. `image` is the newest; `version` counts its changes."""

    def __init__(self, cluster_id: str, listener_name: str) -> None:
        self.metadata = MetadataImage()
        self.version = 0
        self.violation: Exception | None = None
        self.next_offset = 0
        self.on_change: list[OnChange] = []
        self.wiped: set[int] = set()
        """Brokers that have lost their disks, ever."""
        self.on_unclean: Callable[[TopicIdPartition, int], None] = lambda *_: None
        """Told of an election that an operator asked for: partition and leader."""
        self.uncleanly_asked: set[PartitionKey] = set()
        """Of which an operator wants any live replica to lead."""
        self.topics: dict[UUID, str] = {}
        """All that ever were: id and name."""
        self._view = MetadataView(cluster_id, listener_name)
        self._records: dict[int, tuple[bytes, ...]] = {}

    @property
    def image(self) -> ClusterImage:
        return self._view.cluster

    def tap(self, host: str) -> Tap:
        return Tap(self, host)

    def check(self) -> None:
        """After every event: raises what was found. A listener that raised would only stop its controller."""
        if self.violation is not None:
            raise self.violation

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
        before = self.image
        if self._view.apply(batch.records):
            self.version += 1
            for listener in self.on_change:
                listener(self.metadata, before, self.image)

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
        self.metadata.replay(record)
        now = self.metadata.registration(key)
        check_change(self.metadata.name(key), before, now)
        self._check_loss(key, before, now)

    def _check_loss(self, key: PartitionKey, before: PartitionRegistration, now: PartitionRegistration) -> None:
        where = f"{self.metadata.name(key)}: {before} -> {now}"
        if before.isr and not now.isr and not set(before.isr) <= self.wiped:
            raise InvariantViolationError("last member stays", where)
        joined = before.adding_replicas if before.is_reassigning and not now.is_reassigning else ()
        if now.leader not in (NO_LEADER, before.leader, *before.isr, *joined):
            if key not in self.uncleanly_asked:
                raise InvariantViolationError("allowed election", where)
            self.on_unclean(TopicIdPartition(key.topic_id, self.topics[key.topic_id], key.partition), now.leader)


class Tap:
    """A `QuorumListener` of one controller's replica."""

    def __init__(self, truth: ClusterTruth, host: str) -> None:
        self._truth = truth
        self._host = host

    def on_commit(self, batch: CommittedBatch) -> None:
        try:
            self._truth.applied(self._host, batch)
        except (AssertionError, LookupError) as violation:
            self._truth.violation = self._truth.violation or violation

    def on_load_snapshot(self, snapshot: SnapshotContent) -> None:
        """What it says was committed, and told, before."""

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Who leads is asked of the replica."""
