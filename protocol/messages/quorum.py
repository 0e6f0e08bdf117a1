"""The KRaft quorum: votes, epochs, snapshots, voters. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from ..values import value
from .base import Request


@value(kw_only=True)
class VoteResponsePartitionData:
    """Versions 0 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int
    vote_granted: bool


@value(kw_only=True)
class VoteResponseTopicData:
    """Versions 0 to 2."""

    topic_name: str
    partitions: tuple[VoteResponsePartitionData, ...]


@value(kw_only=True)
class VoteResponseNodeEndpoint:
    """Versions 1 to 2."""

    node_id: int
    host: str
    port: int


@value(kw_only=True)
class VoteResponse:
    """Versions 0 to 2."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[VoteResponseTopicData, ...]
    node_endpoints: tuple[VoteResponseNodeEndpoint, ...] = ()  # Versions 1 to 2.


@value(kw_only=True)
class VoteRequestPartitionData:
    """Versions 0 to 2."""

    partition_index: int
    replica_epoch: int
    replica_id: int
    last_offset_epoch: int
    last_offset: int
    replica_directory_id: UUID | None = None  # Versions 1 to 2.
    voter_directory_id: UUID | None = None  # Versions 1 to 2.
    pre_vote: bool = False  # Version 2.


@value(kw_only=True)
class VoteRequestTopicData:
    """Versions 0 to 2."""

    topic_name: str
    partitions: tuple[VoteRequestPartitionData, ...]


@value(kw_only=True)
class VoteRequest(Request[VoteResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 52
    cluster_id: str | None = None
    topics: tuple[VoteRequestTopicData, ...]
    voter_id: int = -1  # Versions 1 to 2.


@value(kw_only=True)
class BeginQuorumEpochResponsePartitionData:
    """Versions 0 to 1."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int


@value(kw_only=True)
class BeginQuorumEpochResponseTopicData:
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[BeginQuorumEpochResponsePartitionData, ...]


@value(kw_only=True)
class BeginQuorumEpochResponseNodeEndpoint:
    """Version 1."""

    node_id: int
    host: str
    port: int


@value(kw_only=True)
class BeginQuorumEpochResponse:
    """Versions 0 to 1."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[BeginQuorumEpochResponseTopicData, ...]
    node_endpoints: tuple[BeginQuorumEpochResponseNodeEndpoint, ...] = ()  # Version 1.


@value(kw_only=True)
class BeginQuorumEpochRequestPartitionData:
    """Versions 0 to 1."""

    partition_index: int
    leader_id: int
    leader_epoch: int
    voter_directory_id: UUID | None = None  # Version 1.


@value(kw_only=True)
class BeginQuorumEpochRequestTopicData:
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[BeginQuorumEpochRequestPartitionData, ...]


@value(kw_only=True)
class BeginQuorumEpochRequestLeaderEndpoint:
    """Version 1."""

    name: str
    host: str
    port: int


@value(kw_only=True)
class BeginQuorumEpochRequest(Request[BeginQuorumEpochResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 53
    cluster_id: str | None = None
    topics: tuple[BeginQuorumEpochRequestTopicData, ...]
    voter_id: int = -1  # Version 1.
    leader_endpoints: tuple[BeginQuorumEpochRequestLeaderEndpoint, ...] = ()  # Version 1.


@value(kw_only=True)
class EndQuorumEpochResponsePartitionData:
    """Versions 0 to 1."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int


@value(kw_only=True)
class EndQuorumEpochResponseTopicData:
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[EndQuorumEpochResponsePartitionData, ...]


@value(kw_only=True)
class EndQuorumEpochResponseNodeEndpoint:
    """Version 1."""

    node_id: int
    host: str
    port: int


@value(kw_only=True)
class EndQuorumEpochResponse:
    """Versions 0 to 1."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[EndQuorumEpochResponseTopicData, ...]
    node_endpoints: tuple[EndQuorumEpochResponseNodeEndpoint, ...] = ()  # Version 1.


@value(kw_only=True)
class ReplicaInfo:
    """Version 1."""

    candidate_id: int
    candidate_directory_id: UUID | None


@value(kw_only=True)
class EndQuorumEpochRequestPartitionData:
    """Versions 0 to 1."""

    partition_index: int
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...] = ()  # Version 0.
    preferred_candidates: tuple[ReplicaInfo, ...] = ()  # Version 1.


@value(kw_only=True)
class EndQuorumEpochRequestTopicData:
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[EndQuorumEpochRequestPartitionData, ...]


@value(kw_only=True)
class EndQuorumEpochRequestLeaderEndpoint:
    """Version 1."""

    name: str
    host: str
    port: int


@value(kw_only=True)
class EndQuorumEpochRequest(Request[EndQuorumEpochResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 54
    cluster_id: str | None = None
    topics: tuple[EndQuorumEpochRequestTopicData, ...]
    leader_endpoints: tuple[EndQuorumEpochRequestLeaderEndpoint, ...] = ()  # Version 1.


@value(kw_only=True)
class ReplicaState:
    """Versions 0 to 2."""

    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int = -1  # Versions 1 to 2.
    last_caught_up_timestamp: int = -1  # Versions 1 to 2.
    replica_directory_id: UUID | None = None  # Version 2.


@value(kw_only=True)
class DescribeQuorumResponsePartitionData:
    """Versions 0 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    error_message: str | None = ""  # Version 2.


@value(kw_only=True)
class DescribeQuorumResponseTopicData:
    """Versions 0 to 2."""

    topic_name: str
    partitions: tuple[DescribeQuorumResponsePartitionData, ...]


@value(kw_only=True)
class DescribeQuorumResponseListener:
    """Version 2."""

    name: str
    host: str
    port: int


@value(kw_only=True)
class Node:
    """Version 2."""

    node_id: int
    listeners: tuple[DescribeQuorumResponseListener, ...]


@value(kw_only=True)
class DescribeQuorumResponse:
    """Versions 0 to 2."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[DescribeQuorumResponseTopicData, ...]
    error_message: str | None = ""  # Version 2.
    nodes: tuple[Node, ...] = ()  # Version 2.


@value(kw_only=True)
class DescribeQuorumRequestPartitionData:
    """Versions 0 to 2."""

    partition_index: int


@value(kw_only=True)
class DescribeQuorumRequestTopicData:
    """Versions 0 to 2."""

    topic_name: str
    partitions: tuple[DescribeQuorumRequestPartitionData, ...]


@value(kw_only=True)
class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 55
    topics: tuple[DescribeQuorumRequestTopicData, ...]


@value(kw_only=True)
class FetchSnapshotResponseSnapshotId:
    """Versions 0 to 1."""

    end_offset: int
    epoch: int


@value(kw_only=True)
class LeaderIdAndEpoch:
    """Versions 0 to 1."""

    leader_id: int
    leader_epoch: int


@value(kw_only=True)
class FetchSnapshotResponsePartitionSnapshot:
    """Versions 0 to 1."""

    index: int
    error_code: ErrorCode = ErrorCode.none
    snapshot_id: FetchSnapshotResponseSnapshotId
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
    size: int
    position: int
    unaligned_records: bytes


@value(kw_only=True)
class FetchSnapshotResponseTopicSnapshot:
    """Versions 0 to 1."""

    name: str
    partitions: tuple[FetchSnapshotResponsePartitionSnapshot, ...]


@value(kw_only=True)
class FetchSnapshotResponseNodeEndpoint:
    """Version 1."""

    node_id: int
    host: str
    port: int


@value(kw_only=True)
class FetchSnapshotResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    topics: tuple[FetchSnapshotResponseTopicSnapshot, ...]
    node_endpoints: tuple[FetchSnapshotResponseNodeEndpoint, ...] = ()  # Version 1.


@value(kw_only=True)
class FetchSnapshotRequestSnapshotId:
    """Versions 0 to 1."""

    end_offset: int
    epoch: int


@value(kw_only=True)
class FetchSnapshotRequestPartitionSnapshot:
    """Versions 0 to 1."""

    partition: int
    current_leader_epoch: int
    snapshot_id: FetchSnapshotRequestSnapshotId
    position: int
    replica_directory_id: UUID | None = None  # Version 1.


@value(kw_only=True)
class FetchSnapshotRequestTopicSnapshot:
    """Versions 0 to 1."""

    name: str
    partitions: tuple[FetchSnapshotRequestPartitionSnapshot, ...]


@value(kw_only=True)
class FetchSnapshotRequest(Request[FetchSnapshotResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 59
    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 2147483647
    topics: tuple[FetchSnapshotRequestTopicSnapshot, ...]


@value(kw_only=True)
class AddRaftVoterResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@value(kw_only=True)
class AddRaftVoterRequestListener:
    """Versions 0 to 1."""

    name: str
    host: str
    port: int


@value(kw_only=True)
class AddRaftVoterRequest(Request[AddRaftVoterResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 80
    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: UUID | None
    listeners: tuple[AddRaftVoterRequestListener, ...]
    ack_when_committed: bool = True  # Version 1.


@value(kw_only=True)
class RemoveRaftVoterResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@value(kw_only=True)
class RemoveRaftVoterRequest(Request[RemoveRaftVoterResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 81
    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID | None


@value(kw_only=True)
class CurrentLeader:
    """Version 0."""

    leader_id: int = -1
    leader_epoch: int = -1
    host: str
    port: int


@value(kw_only=True)
class UpdateRaftVoterResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    current_leader: CurrentLeader = CurrentLeader(host="", port=0)


@value(kw_only=True)
class UpdateRaftVoterRequestListener:
    """Version 0."""

    name: str
    host: str
    port: int


@value(kw_only=True)
class KRaftVersionFeature:
    """Version 0."""

    min_supported_version: int
    max_supported_version: int


@value(kw_only=True)
class UpdateRaftVoterRequest(Request[UpdateRaftVoterResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 82
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: UUID | None
    listeners: tuple[UpdateRaftVoterRequestListener, ...]
    k_raft_version_feature: KRaftVersionFeature
