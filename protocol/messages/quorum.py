"""The KRaft quorum: votes, epochs, snapshots, voters. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithError, WithErrorMessage


@message
class VoteResponsePartitionData(WithError):
    """Versions 0 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int
    vote_granted: bool


@message
class VoteResponseTopicData(Message):
    """Versions 0 to 2."""

    topic_name: str
    partitions: tuple[VoteResponsePartitionData, ...]


@message
class VoteResponseNodeEndpoint(Message):
    """Versions 1 to 2."""

    node_id: int
    host: str
    port: int


@message
class VoteResponse(WithError):
    """Versions 0 to 2."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[VoteResponseTopicData, ...]
    node_endpoints: tuple[VoteResponseNodeEndpoint, ...] = ()  # Versions 1 to 2.


@message
class VoteRequestPartitionData(Message):
    """Versions 0 to 2."""

    partition_index: int
    replica_epoch: int
    replica_id: int
    last_offset_epoch: int
    last_offset: int
    replica_directory_id: UUID | None = None  # Versions 1 to 2.
    voter_directory_id: UUID | None = None  # Versions 1 to 2.
    pre_vote: bool = False  # Version 2.


@message
class VoteRequestTopicData(Message):
    """Versions 0 to 2."""

    topic_name: str
    partitions: tuple[VoteRequestPartitionData, ...]


@message
class VoteRequest(Request[VoteResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 52
    cluster_id: str | None = None
    topics: tuple[VoteRequestTopicData, ...]
    voter_id: int = -1  # Versions 1 to 2.


@message
class BeginQuorumEpochResponsePartitionData(WithError):
    """Versions 0 to 1."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int


@message
class BeginQuorumEpochResponseTopicData(Message):
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[BeginQuorumEpochResponsePartitionData, ...]


@message
class BeginQuorumEpochResponseNodeEndpoint(Message):
    """Version 1."""

    node_id: int
    host: str
    port: int


@message
class BeginQuorumEpochResponse(WithError):
    """Versions 0 to 1."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[BeginQuorumEpochResponseTopicData, ...]
    node_endpoints: tuple[BeginQuorumEpochResponseNodeEndpoint, ...] = ()  # Version 1.


@message
class BeginQuorumEpochRequestPartitionData(Message):
    """Versions 0 to 1."""

    partition_index: int
    leader_id: int
    leader_epoch: int
    voter_directory_id: UUID | None = None  # Version 1.


@message
class BeginQuorumEpochRequestTopicData(Message):
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[BeginQuorumEpochRequestPartitionData, ...]


@message
class BeginQuorumEpochRequestLeaderEndpoint(Message):
    """Version 1."""

    name: str
    host: str
    port: int


@message
class BeginQuorumEpochRequest(Request[BeginQuorumEpochResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 53
    cluster_id: str | None = None
    topics: tuple[BeginQuorumEpochRequestTopicData, ...]
    voter_id: int = -1  # Version 1.
    leader_endpoints: tuple[BeginQuorumEpochRequestLeaderEndpoint, ...] = ()  # Version 1.


@message
class EndQuorumEpochResponsePartitionData(WithError):
    """Versions 0 to 1."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int


@message
class EndQuorumEpochResponseTopicData(Message):
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[EndQuorumEpochResponsePartitionData, ...]


@message
class EndQuorumEpochResponseNodeEndpoint(Message):
    """Version 1."""

    node_id: int
    host: str
    port: int


@message
class EndQuorumEpochResponse(WithError):
    """Versions 0 to 1."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[EndQuorumEpochResponseTopicData, ...]
    node_endpoints: tuple[EndQuorumEpochResponseNodeEndpoint, ...] = ()  # Version 1.


@message
class ReplicaInfo(Message):
    """Version 1."""

    candidate_id: int
    candidate_directory_id: UUID | None


@message
class EndQuorumEpochRequestPartitionData(Message):
    """Versions 0 to 1."""

    partition_index: int
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...] = ()  # Version 0.
    preferred_candidates: tuple[ReplicaInfo, ...] = ()  # Version 1.


@message
class EndQuorumEpochRequestTopicData(Message):
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[EndQuorumEpochRequestPartitionData, ...]


@message
class EndQuorumEpochRequestLeaderEndpoint(Message):
    """Version 1."""

    name: str
    host: str
    port: int


@message
class EndQuorumEpochRequest(Request[EndQuorumEpochResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 54
    cluster_id: str | None = None
    topics: tuple[EndQuorumEpochRequestTopicData, ...]
    leader_endpoints: tuple[EndQuorumEpochRequestLeaderEndpoint, ...] = ()  # Version 1.


@message
class ReplicaState(Message):
    """Versions 0 to 2."""

    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int = -1  # Versions 1 to 2.
    last_caught_up_timestamp: int = -1  # Versions 1 to 2.
    replica_directory_id: UUID | None = None  # Version 2.


@message
class DescribeQuorumResponsePartitionData(WithErrorMessage):
    """Versions 0 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    error_message: str | None = ""  # Version 2.


@message
class DescribeQuorumResponseTopicData(Message):
    """Versions 0 to 2."""

    topic_name: str
    partitions: tuple[DescribeQuorumResponsePartitionData, ...]


@message
class DescribeQuorumResponseListener(Message):
    """Version 2."""

    name: str
    host: str
    port: int


@message
class Node(Message):
    """Version 2."""

    node_id: int
    listeners: tuple[DescribeQuorumResponseListener, ...]


@message
class DescribeQuorumResponse(WithErrorMessage):
    """Versions 0 to 2."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[DescribeQuorumResponseTopicData, ...]
    error_message: str | None = ""  # Version 2.
    nodes: tuple[Node, ...] = ()  # Version 2.


@message
class DescribeQuorumRequestPartitionData(Message):
    """Versions 0 to 2."""

    partition_index: int


@message
class DescribeQuorumRequestTopicData(Message):
    """Versions 0 to 2."""

    topic_name: str
    partitions: tuple[DescribeQuorumRequestPartitionData, ...]


@message
class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 55
    topics: tuple[DescribeQuorumRequestTopicData, ...]


@message
class FetchSnapshotResponseSnapshotId(Message):
    """Versions 0 to 1."""

    end_offset: int
    epoch: int


@message
class FetchSnapshotResponseLeaderIdAndEpoch(Message):
    """Versions 0 to 1."""

    leader_id: int
    leader_epoch: int


@message
class FetchSnapshotResponsePartitionSnapshot(WithError):
    """Versions 0 to 1."""

    index: int
    error_code: ErrorCode = ErrorCode.none
    snapshot_id: FetchSnapshotResponseSnapshotId
    current_leader: FetchSnapshotResponseLeaderIdAndEpoch = FetchSnapshotResponseLeaderIdAndEpoch(
        leader_id=0, leader_epoch=0
    )
    size: int
    position: int
    unaligned_records: bytes


@message
class FetchSnapshotResponseTopicSnapshot(Message):
    """Versions 0 to 1."""

    name: str
    partitions: tuple[FetchSnapshotResponsePartitionSnapshot, ...]


@message
class FetchSnapshotResponseNodeEndpoint(Message):
    """Version 1."""

    node_id: int
    host: str
    port: int


@message
class FetchSnapshotResponse(WithError):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    topics: tuple[FetchSnapshotResponseTopicSnapshot, ...]
    node_endpoints: tuple[FetchSnapshotResponseNodeEndpoint, ...] = ()  # Version 1.


@message
class FetchSnapshotRequestSnapshotId(Message):
    """Versions 0 to 1."""

    end_offset: int
    epoch: int


@message
class FetchSnapshotRequestPartitionSnapshot(Message):
    """Versions 0 to 1."""

    partition: int
    current_leader_epoch: int
    snapshot_id: FetchSnapshotRequestSnapshotId
    position: int
    replica_directory_id: UUID | None = None  # Version 1.


@message
class FetchSnapshotRequestTopicSnapshot(Message):
    """Versions 0 to 1."""

    name: str
    partitions: tuple[FetchSnapshotRequestPartitionSnapshot, ...]


@message
class FetchSnapshotRequest(Request[FetchSnapshotResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 59
    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 2147483647
    topics: tuple[FetchSnapshotRequestTopicSnapshot, ...]


@message
class AddRaftVoterResponse(WithErrorMessage):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class AddRaftVoterRequestListener(Message):
    """Versions 0 to 1."""

    name: str
    host: str
    port: int


@message
class AddRaftVoterRequest(Request[AddRaftVoterResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 80
    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: UUID | None
    listeners: tuple[AddRaftVoterRequestListener, ...]
    ack_when_committed: bool = True  # Version 1.


@message
class RemoveRaftVoterResponse(WithErrorMessage):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class RemoveRaftVoterRequest(Request[RemoveRaftVoterResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 81
    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID | None


@message
class CurrentLeader(Message):
    """Version 0."""

    leader_id: int = -1
    leader_epoch: int = -1
    host: str
    port: int


@message
class UpdateRaftVoterResponse(WithError):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    current_leader: CurrentLeader = CurrentLeader(host="", port=0)


@message
class UpdateRaftVoterRequestListener(Message):
    """Version 0."""

    name: str
    host: str
    port: int


@message
class KRaftVersionFeature(Message):
    """Version 0."""

    min_supported_version: int
    max_supported_version: int


@message
class UpdateRaftVoterRequest(Request[UpdateRaftVoterResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 82
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: UUID | None
    listeners: tuple[UpdateRaftVoterRequestListener, ...]
    k_raft_version_feature: KRaftVersionFeature
