"""What is observed of a run: each event a frozen value, `Observed` the union of all. Judges are given nothing else.

| observed at                      | events                                                                            |
|----------------------------------|-----------------------------------------------------------------------------------|
| brokers, after each loop event   | `ReplicaChanged`, `ReplicaLeft`, `Committed`, `LeaderProgressed`,                 |
|                                  | `LeaderElected`, `Truncated`, `LogStartMoved`, `LocalStartMoved`,                 |
|                                  | `JoinersRequested`, `LeaversRequested`, `IsrChangeSettled`, `ReplicaMoved`        |
| the quorum, after the same       | `VoteCast`, `QuorumLeaderElected`, `QuorumEpochMoved`, `QuorumCommitted`,         |
|                                  | `VotersMoved`                                                                     |
| the metadata log                 | `MetadataChanged`, `ControllerElected`, `UncleanlyElected`                        |
| the controllers' listeners       | `HeartbeatReceived`, `HeartbeatAnswered`                                          |
| clients                          | `CommitReported`, `LogStartReported`, `OffsetRefused`, `SequenceRefused`,         |
|                                  | `BatchesRead`, `DamageRead`, `AnswerMissing`, `Throttled`, `PartitionsAssigned`,  |
|                                  | `CommitAsked`, `OffsetCommitted`, `OffsetFound`, `ProducerInitialized`,           |
|                                  | `TransactionCommitted`, `MemberAsked`, `MemberAssigned`, those of                 |
|                                  | `clients.share_events`                                                            |
| the object store                 | `UploadStarted`, `Uploaded`, `ObjectRemoved` (`machine.store_events`)             |
| the fault injector               | `FaultsChanged`, `NodeCrashing`, `ProcessEnded`, `MachinesCrashed`, `DiskWiped`,  |
|                                  | `PagesGivenUp`, `FilesChanged`                                                    |
| the scenario                     | `SecondPassed`, `MomentPassed`, `RecordsDeleted`, `NodeStopped`, `MoveRequested`, |
|                                  | `MoveAnswered`, `VoterAddAsked`, `VoterAddAnswered`                               |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from ....broker.cluster import ClusterImage
from ....controller import MetadataImage
from ....light_dataclass import dataclass
from ....protocol import ErrorCode, TopicIdPartition, TopicPartition
from ....protocol.messages.brokers import BrokerHeartbeatRequest
from ....quorum import CommittedBatch, ReplicaKey, VotersAt
from ...machine.store_events import StoreEvent
from .clients.share_events import ShareEvent
from .history import Send
from .partition import ReplicaStatus

Logs = Mapping[str, ReplicaStatus]
"""The replicas of one partition, by host."""


@dataclass(frozen=True, slots=True)
class ReplicaChanged:
    """Something about a replica has changed since the last event of the loop; `now` is how it stands."""

    partition: TopicIdPartition
    now: ReplicaStatus


@dataclass(frozen=True, slots=True)
class ReplicaLeft:
    """A running broker no longer hosts this replica."""

    node_id: int
    partition: TopicIdPartition


@dataclass(frozen=True, slots=True)
class Committed:
    """A leader's high watermark rose, or was seen for the first time."""

    partition: TopicIdPartition
    leader: ReplicaStatus


@dataclass(frozen=True, slots=True)
class LeaderProgressed:
    """Something about a replica that leads has changed."""

    partition: TopicIdPartition
    leader: ReplicaStatus


@dataclass(frozen=True, slots=True)
class LeaderElected:
    """A broker begins to lead a partition."""

    host: str
    partition: TopicIdPartition


@dataclass(frozen=True, slots=True)
class Truncated:
    """A log became shorter."""

    partition: TopicIdPartition
    before: ReplicaStatus
    after: ReplicaStatus


@dataclass(frozen=True, slots=True)
class LogStartMoved:
    """A log start offset rose; `before` is None when the replica is seen for the first time."""

    partition: TopicIdPartition
    before: ReplicaStatus | None
    now: ReplicaStatus


@dataclass(frozen=True, slots=True)
class LocalStartMoved:
    """A local log start offset rose, or is seen for the first time."""

    partition: TopicIdPartition
    now: ReplicaStatus


@dataclass(frozen=True, slots=True)
class JoinersRequested:
    """A leader begins to ask for new members of its ISR."""

    partition: TopicIdPartition
    leader: ReplicaStatus
    brokers: Collection[int]


@dataclass(frozen=True, slots=True)
class LeaversRequested:
    """A leader begins to ask for members to be removed from its ISR."""

    partition: TopicIdPartition
    leader: ReplicaStatus
    brokers: Collection[int]


@dataclass(frozen=True, slots=True)
class IsrChangeSettled:
    """A leader no longer waits for the ISR that it has asked for: it was decided, refused, or is out of date."""

    partition: TopicIdPartition
    leader: ReplicaStatus


@dataclass(frozen=True, slots=True)
class ReplicaMoved:
    """The open log of a replica is in another log directory than before."""

    partition: TopicIdPartition
    node_id: int
    directory: Path


@dataclass(frozen=True, slots=True)
class VoteCast:
    """A voter of the quorum has voted for another one."""

    host: str
    candidate: str


@dataclass(frozen=True, slots=True)
class QuorumLeaderElected:
    """A voter begins to lead the quorum."""

    host: str


@dataclass(frozen=True, slots=True)
class QuorumEpochMoved:
    """The epoch of a replica of the quorum is another one, or is seen for the first time."""

    host: str
    epoch: int


@dataclass(frozen=True, slots=True)
class QuorumCommitted:
    """The high watermark of the quorum's leader rose."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class VotersMoved:
    """The voter sets of a replica of the quorum are others, or are committed further, or it leads or no longer does.

    `run` numbers the processes of the host. `entries` are the sets that may yet be in effect, the last one is.
    """

    host: str
    run: int
    key: ReplicaKey
    epoch: int
    leads: bool
    entries: tuple[VotersAt, ...]
    high_watermark: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """The first controller has applied a batch of the metadata log, and brokers will see another image."""

    batch: CommittedBatch
    metadata: MetadataImage
    before: ClusterImage
    after: ClusterImage


@dataclass(frozen=True, slots=True)
class ControllerElected:
    """A controller knows that it leads in this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class UncleanlyElected:
    """A replica was elected that was not in the ISR: by an operator, or as the topic's configs say (`by_config`).
    Then who led before may live, and know nothing of it.
    """

    partition: TopicIdPartition
    leader: int
    by_config: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """The active controller of `epoch`, whose log ends at `next_offset`, receives a BrokerHeartbeat."""

    epoch: int
    next_offset: int
    request: BrokerHeartbeatRequest


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """A controller answers a BrokerHeartbeat; `registered_epoch` is the broker's then, None if it is not registered."""

    request: BrokerHeartbeatRequest
    code: ErrorCode
    registered_epoch: int | None


@dataclass(frozen=True, slots=True)
class CommitReported:
    """A client that asked at `asked_ms` believes that everything below `end_offset` is committed: because of records,
    acks=all, a high watermark or the latest offset.
    """

    partition: TopicPartition
    end_offset: int
    client: str
    asked_ms: int


@dataclass(frozen=True, slots=True)
class LogStartReported:
    """A client is given the start of a log."""

    partition: TopicPartition
    start_offset: int
    client: str


@dataclass(frozen=True, slots=True)
class OffsetRefused:
    """The leader on `host` answers that an offset is out of range; `logs` are the replicas as the client asked."""

    partition: TopicPartition
    offset: int
    host: str
    logs: Logs


@dataclass(frozen=True, slots=True)
class SequenceRefused:
    """A leader refuses a batch for good because of its sequence."""

    partition: TopicPartition
    send: Send


@dataclass(frozen=True, slots=True)
class BatchesRead:
    """A reader was given these whole batches."""

    partition: TopicPartition
    data: bytes
    reader: str


@dataclass(frozen=True, slots=True)
class DamageRead:
    """A reader was given bytes that are no batch."""

    detail: str


@dataclass(frozen=True, slots=True)
class AnswerMissing:
    """A client on `client_host` has given up to wait for an answer to a request that it sent at `asked_ms` on a
    connection to `host`.
    """

    client: str
    client_host: str
    host: str
    api: str
    asked_ms: int


@dataclass(frozen=True, slots=True)
class FaultsChanged:
    """A fault has begun or ended."""


@dataclass(frozen=True, slots=True)
class NodeCrashing:
    """The node on this host, which runs, is about to crash."""

    host: str


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """The process on this host has crashed."""

    host: str


@dataclass(frozen=True, slots=True)
class MachinesCrashed:
    """These machines have crashed together; their files are now what survived."""

    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiskWiped:
    """The files of this host are about to go: all of them, or those in one log directory."""

    host: str
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class PagesGivenUp:
    """An fsync has failed on this host: what it should have written will leave the page cache."""

    host: str


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """The files of this host no longer hold all that its node has written."""

    host: str


@dataclass(frozen=True, slots=True)
class SecondPassed:
    """A second of the liveness phase, in which the loop ran so many events."""

    events: int


@dataclass(frozen=True, slots=True)
class MomentPassed:
    """A quarter of a second of the run, in any phase: what must have happened by now is judged."""


@dataclass(frozen=True, slots=True)
class RecordsDeleted:
    """An operator asks for the deletion of a partition's records below `offset`."""

    partition: TopicIdPartition
    offset: int


@dataclass(frozen=True, slots=True)
class NodeStopped:
    """The node on this host has shut down in order, which took so long."""

    host: str
    took_s: float


@dataclass(frozen=True, slots=True)
class MoveRequested:
    """An administrator begins to ask a broker to move a replica to one of its log directories."""

    partition: TopicIdPartition
    node_id: int
    directory: Path


@dataclass(frozen=True, slots=True)
class MoveAnswered:
    """The broker grants that, or refuses it."""

    partition: TopicIdPartition
    node_id: int
    directory: Path
    is_granted: bool


@dataclass(frozen=True, slots=True)
class Throttled:
    """A client gets an answer with a throttle time, because of the quota with this key."""

    client: str
    key: str
    throttle_ms: int


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """A member of a group that asked at `asked_ms` is given what it shall read in a generation. `member` is its
    instance id if it has one, else its member id.
    """

    group: str
    generation: int
    member: str
    partitions: tuple[TopicPartition, ...]
    asked_ms: int


@dataclass(frozen=True, slots=True)
class MemberAsked:
    """A member of a group of the consumer protocol (KIP-848) is about to send a heartbeat, or is fenced, or leaves:
    from now on it owns none but these partitions.
    """

    group: str
    member: str
    owned: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class MemberAssigned:
    """Its heartbeat, which it sent at `asked_ms`, is answered: it is in this epoch, and shall own these partitions."""

    group: str
    member: str
    epoch: int
    partitions: frozenset[TopicPartition]
    asked_ms: int


@dataclass(frozen=True, slots=True)
class CommitAsked:
    """A member begins to ask for an offset to be committed, at once or with a transaction."""

    group: str
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    """It gets the answer that this offset is committed; with a transaction, that the transaction is."""

    group: str
    partition: TopicPartition
    offset: int
    asked_ms: int


@dataclass(frozen=True, slots=True)
class OffsetFound:
    """A client that asked at `asked_ms` learns which offset is committed, -1 for none."""

    group: str
    partition: TopicPartition
    offset: int
    asked_ms: int
    client: str


@dataclass(frozen=True, slots=True)
class ProducerInitialized:
    """A process that asked at `asked_ms` is given an epoch of a transactional id: those before it are fenced."""

    transactional_id: str
    producer_id: int
    epoch: int
    asked_ms: int
    client: str


@dataclass(frozen=True, slots=True)
class TransactionCommitted:
    """A process that asked at `asked_ms` learns that its transaction is committed."""

    transactional_id: str
    producer_id: int
    epoch: int
    asked_ms: int
    client: str


@dataclass(frozen=True, slots=True)
class VoterAddAsked:
    """An operator asks for a voter to be added."""

    voter: int


@dataclass(frozen=True, slots=True)
class VoterAddAnswered:
    """The request to add a voter is answered: it has had its effect, or never will."""

    voter: int


OperatorEvent = RecordsDeleted | NodeStopped | MoveRequested | MoveAnswered | VoterAddAsked | VoterAddAnswered
FaultEvent = FaultsChanged | NodeCrashing | ProcessEnded | MachinesCrashed | DiskWiped | PagesGivenUp | FilesChanged
ReplicaEvent = (
    ReplicaChanged
    | ReplicaLeft
    | Committed
    | LeaderProgressed
    | LeaderElected
    | Truncated
    | LogStartMoved
    | LocalStartMoved
    | JoinersRequested
    | LeaversRequested
    | IsrChangeSettled
    | ReplicaMoved
)
QuorumEvent = VoteCast | QuorumLeaderElected | QuorumEpochMoved | QuorumCommitted | VotersMoved
MetadataEvent = MetadataChanged | ControllerElected | UncleanlyElected
HeartbeatEvent = HeartbeatReceived | HeartbeatAnswered
MemberEvent = MemberAsked | MemberAssigned
CoordinatorEvent = (
    PartitionsAssigned
    | MemberEvent
    | CommitAsked
    | OffsetCommitted
    | OffsetFound
    | ProducerInitialized
    | TransactionCommitted
)
ClientEvent = (
    CommitReported
    | LogStartReported
    | OffsetRefused
    | SequenceRefused
    | BatchesRead
    | DamageRead
    | AnswerMissing
    | Throttled
    | CoordinatorEvent
    | ShareEvent
)
Observed = (
    ReplicaEvent
    | QuorumEvent
    | MetadataEvent
    | HeartbeatEvent
    | ClientEvent
    | StoreEvent
    | FaultEvent
    | OperatorEvent
    | SecondPassed
    | MomentPassed
)
