"""The quorum's messages to and from the wire: votes, epochs, voter changes, and what they say of themselves.

Fetch and FetchSnapshot, which carry bytes, are in `wire.fetch`. What holds for all of them:

* A request is for `__cluster_metadata-0` and nothing else: INVALID_REQUEST otherwise.
* INVALID_REQUEST and INCONSISTENT_CLUSTER_ID are said for the response as a whole, without partitions; every other
  error for the partition, with the leader that the answering node knows, and its endpoint where a version has one.
* An id of -1, a zero directory id and an empty endpoint stand for "not known".
* A version that lacks a field leaves it out, except `pre_vote`: see `min_version`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.requests import CONTROLLER_ENDPOINTS
from ...protocol.wire.entities import milliseconds
from ..core.messages import (
    NO_LEADER,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    RemoveVoterRequest,
    ReplicaProgress,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from ..core.state import NO_DIRECTORY_ID, Endpoint, LeaderAndEpoch, OffsetAndEpoch, ReplicaKey
from ..core.voters import VoterNode, VoterSet

TOPIC: Final = "__cluster_metadata"
PARTITION: Final = 0
UNKNOWN_ID: Final = -1
PRE_VOTE_SINCE: Final = 2
REQUEST_ERRORS: Final = frozenset({ErrorCode.invalid_request, ErrorCode.inconsistent_cluster_id})
"""Said for the response as a whole."""

Body = Mapping[str, Any]
WallClock = Callable[[int], int]
"""From the core's clock to Unix time, both in ms."""


def min_version(request: object) -> int:
    """The oldest version that can say it: a pre-vote without its field would be a vote."""
    return PRE_VOTE_SINCE if isinstance(request, VoteRequest) and request.pre_vote else 0


# Vote.


def vote_request(request: VoteRequest) -> Body:
    voter = request.voter or ReplicaKey(UNKNOWN_ID)
    partition = {
        "partition_index": PARTITION,
        "replica_epoch": request.epoch,
        "replica_id": request.candidate.id,
        "replica_directory_id": request.candidate.directory_id,
        "voter_directory_id": voter.directory_id,
        "last_offset_epoch": request.last.epoch,
        "last_offset": request.last.offset,
        "pre_vote": request.pre_vote,
    }
    return {"cluster_id": request.cluster_id, "voter_id": voter.id, "topics": in_topic(partition)}


def read_vote_request(body: Any) -> VoteRequest:
    partition = only_partition(body)
    return VoteRequest(
        cluster_id=body.cluster_id,
        candidate=ReplicaKey(partition.replica_id, directory(partition, "replica_directory_id")),
        epoch=partition.replica_epoch,
        last=OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        pre_vote=getattr(partition, "pre_vote", False),
        voter=_addressee(body, partition),
    )


def vote_response(response: VoteResponse) -> Body:
    return _election_response(response, {"vote_granted": response.granted})


def read_vote_response(body: Any) -> VoteResponse:
    if body.error_code is not ErrorCode.none:
        return VoteResponse(error=body.error_code, leader=NO_LEADER)
    partition = only_partition(body)
    return VoteResponse(
        error=partition.error_code,
        leader=leader_of(partition),
        granted=partition.vote_granted,
        leader_endpoint=leader_endpoint(body, partition.leader_id),
    )


# BeginQuorumEpoch, EndQuorumEpoch.


def begin_request(request: BeginQuorumEpochRequest) -> Body:
    voter = request.voter or ReplicaKey(UNKNOWN_ID)
    partition = {
        "partition_index": PARTITION,
        "voter_directory_id": voter.directory_id,
        "leader_id": request.leader_id,
        "leader_epoch": request.epoch,
    }
    return {
        "cluster_id": request.cluster_id,
        "voter_id": voter.id,
        "topics": in_topic(partition),
        "leader_endpoints": endpoint_fields(request.endpoints),
    }


def read_begin_request(body: Any) -> BeginQuorumEpochRequest:
    partition = only_partition(body)
    return BeginQuorumEpochRequest(
        cluster_id=body.cluster_id,
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        endpoints=endpoints_of(getattr(body, "leader_endpoints", ())),
        voter=_addressee(body, partition),
    )


def begin_response(response: BeginQuorumEpochResponse) -> Body:
    return _election_response(response, {})


def read_begin_response(body: Any) -> BeginQuorumEpochResponse:
    if body.error_code is not ErrorCode.none:
        return BeginQuorumEpochResponse(error=body.error_code, leader=NO_LEADER)
    partition = only_partition(body)
    return BeginQuorumEpochResponse(
        error=partition.error_code,
        leader=leader_of(partition),
        leader_endpoint=leader_endpoint(body, partition.leader_id),
    )


def end_request(request: EndQuorumEpochRequest) -> Body:
    partition = {
        "partition_index": PARTITION,
        "leader_id": request.leader_id,
        "leader_epoch": request.epoch,
        "preferred_successors": [key.id for key in request.preferred_successors],
        "preferred_candidates": [
            {"candidate_id": key.id, "candidate_directory_id": key.directory_id} for key in request.preferred_successors
        ],
    }
    return {
        "cluster_id": request.cluster_id,
        "topics": in_topic(partition),
        "leader_endpoints": endpoint_fields(request.endpoints),
    }


def read_end_request(body: Any) -> EndQuorumEpochRequest:
    partition = only_partition(body)
    if hasattr(partition, "preferred_candidates"):
        successors = tuple(
            ReplicaKey(item.candidate_id, item.candidate_directory_id or NO_DIRECTORY_ID)
            for item in partition.preferred_candidates
        )
    else:
        successors = tuple(map(ReplicaKey, partition.preferred_successors))
    return EndQuorumEpochRequest(
        cluster_id=body.cluster_id,
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        preferred_successors=successors,
        endpoints=endpoints_of(getattr(body, "leader_endpoints", ())),
    )


def end_response(response: EndQuorumEpochResponse) -> Body:
    return _election_response(response, {})


def read_end_response(body: Any) -> EndQuorumEpochResponse:
    begun = read_begin_response(body)
    return EndQuorumEpochResponse(error=begun.error, leader=begun.leader, leader_endpoint=begun.leader_endpoint)


# DescribeQuorum.


def read_describe_request(body: Any) -> DescribeQuorumRequest:
    only_partition(body)
    return DescribeQuorumRequest()


def describe_response(response: DescribeQuorumResponse, wall_clock: WallClock) -> Body:
    partition = {
        "partition_index": PARTITION,
        "error_code": response.error,
        "error_message": _message(response.error),
        **_leader_fields(response.leader),
        "high_watermark": response.high_watermark,
        "current_voters": [_progress(replica, wall_clock) for replica in response.voters],
        "observers": [_progress(replica, wall_clock) for replica in response.observers],
    }
    nodes = [{"node_id": node.id, "listeners": endpoint_fields(node.endpoints)} for node in response.nodes]
    return {"error_code": ErrorCode.none, "error_message": None, "topics": in_topic(partition), "nodes": nodes}


def _progress(replica: ReplicaProgress, wall_clock: WallClock) -> Body:
    return {
        "replica_id": replica.key.id,
        "replica_directory_id": replica.key.directory_id,
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": -1 if replica.last_fetch_ms < 0 else wall_clock(replica.last_fetch_ms),
        "last_caught_up_timestamp": -1 if replica.last_caught_up_ms < 0 else wall_clock(replica.last_caught_up_ms),
    }


# DescribeCluster of a controller listener.


def cluster_response(cluster_id: str | None, leader: LeaderAndEpoch, voters: VoterSet) -> Body:
    nodes = [
        {"broker_id": node.id, "host": node.endpoint.host, "port": node.endpoint.port, "is_fenced": False}
        for node in voters
        if node.endpoint is not None
    ]
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "endpoint_type": CONTROLLER_ENDPOINTS,
        "cluster_id": cluster_id or "",
        "controller_id": UNKNOWN_ID if leader.leader_id is None else leader.leader_id,
        "brokers": nodes,
    }


def cluster_error(error: ErrorCode, message: str) -> Body:
    return {"error_code": error, "error_message": message, "cluster_id": "", "brokers": []}


# AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.


def add_request(request: AddVoterRequest) -> Body:
    voter = request.voter
    return {
        "cluster_id": request.cluster_id,
        "timeout_ms": request.timeout_ms,
        "voter_id": voter.id,
        "voter_directory_id": voter.key.directory_id,
        "listeners": endpoint_fields(voter.endpoints),
        "ack_when_committed": request.ack_when_committed,
    }


def remove_request(request: RemoveVoterRequest) -> Body:
    return {
        "cluster_id": request.cluster_id,
        "voter_id": request.voter.id,
        "voter_directory_id": request.voter.directory_id,
    }


def read_change_response(body: Any) -> VoterChangeResponse:
    """Read a response to AddRaftVoter or RemoveRaftVoter, which do not name the leader."""
    return VoterChangeResponse(error=body.error_code, leader=NO_LEADER, message=body.error_message or "")


def read_add_request(body: Any) -> AddVoterRequest:
    """The kraft.versions are asked of the new voter itself."""
    return AddVoterRequest(
        cluster_id=body.cluster_id,
        voter=VoterNode(_voter_key(body), endpoints_of(body.listeners)),
        timeout_ms=milliseconds(body.timeout),
        ack_when_committed=getattr(body, "ack_when_committed", True),
    )


def read_remove_request(body: Any) -> RemoveVoterRequest:
    return RemoveVoterRequest(cluster_id=body.cluster_id, voter=_voter_key(body))


def update_request(request: UpdateVoterRequest) -> Body:
    voter = request.voter
    return {
        "cluster_id": request.cluster_id,
        "current_leader_epoch": request.epoch,
        "voter_id": voter.id,
        "voter_directory_id": voter.key.directory_id,
        "listeners": endpoint_fields(voter.endpoints),
        "k_raft_version_feature": {
            "min_supported_version": voter.min_kraft_version,
            "max_supported_version": voter.max_kraft_version,
        },
    }


def read_update_request(body: Any) -> UpdateVoterRequest:
    versions = body.k_raft_version_feature
    voter = VoterNode(
        _voter_key(body),
        endpoints_of(body.listeners),
        versions.min_supported_version,
        versions.max_supported_version,
    )
    return UpdateVoterRequest(cluster_id=body.cluster_id, epoch=body.current_leader_epoch, voter=voter)


def change_response(response: VoterChangeResponse) -> Body:
    """Return the body of a response to AddRaftVoter or RemoveRaftVoter."""
    message = response.message or _message(response.error)
    return {"error_code": response.error, "error_message": message}


def update_response(response: VoterChangeResponse) -> Body:
    endpoint = response.leader_endpoint or Endpoint("", "", 0)
    leader = {**_leader_fields(response.leader), "host": endpoint.host, "port": endpoint.port}
    return {"error_code": response.error, "current_leader": leader}


def read_update_response(body: Any) -> VoterChangeResponse:
    leader = body.current_leader
    known = leader is not None and leader.host
    return VoterChangeResponse(
        error=body.error_code,
        leader=NO_LEADER if leader is None else leader_of(leader),
        leader_endpoint=Endpoint("", leader.host, leader.port) if known else None,
    )


# Pieces.


def error_body(api: ApiKey, error: ErrorCode, message: str = "") -> Body:
    """A response that has nothing but an error."""
    if api in {ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER}:
        return {"error_code": error, "error_message": message}
    if api is ApiKey.UPDATE_RAFT_VOTER:
        return update_response(VoterChangeResponse(error=error, leader=NO_LEADER))
    if api is ApiKey.DESCRIBE_QUORUM:
        return {"error_code": error, "error_message": message, "topics": [], "nodes": []}
    return {"error_code": error, "topics": []}


def in_topic(partition: Body) -> Sequence[Body]:
    return [{"topic_name": TOPIC, "partitions": [partition]}]


def only_partition(body: Any) -> Any:
    """The one partition of a message; INVALID_REQUEST if it is not the metadata log's."""
    found = [(topic.topic_name, partition) for topic in body.topics for partition in topic.partitions]
    if len(found) != 1 or found[0][0] != TOPIC or found[0][1].partition_index != PARTITION:
        named = [(name, partition.partition_index) for name, partition in found]
        raise KafkaError(ErrorCode.invalid_request, f"expected {TOPIC}-{PARTITION} alone, found {named}")
    return found[0][1]


def directory(values: Any, name: str) -> UUID:
    """The directory id in a field that the version may not have."""
    return getattr(values, name, None) or NO_DIRECTORY_ID


def leader_of(values: Any) -> LeaderAndEpoch:
    leader_id: int = values.leader_id
    return LeaderAndEpoch(None if leader_id < 0 else leader_id, max(values.leader_epoch, 0))


def leader_endpoint(body: Any, leader_id: int) -> Endpoint | None:
    """Where a response says that the leader listens."""
    for node in getattr(body, "node_endpoints", ()):
        if node.node_id == leader_id:
            return Endpoint("", node.host, node.port)
    return None


def endpoint_fields(endpoints: Sequence[Endpoint]) -> Sequence[Body]:
    return [{"name": item.name, "host": item.host, "port": item.port} for item in endpoints]


def endpoints_of(items: Sequence[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(item.name, item.host, item.port) for item in items)


def _election_response(
    response: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse, fields: Body
) -> Body:
    if response.error in REQUEST_ERRORS:
        return {"error_code": response.error, "topics": []}
    partition = {
        "partition_index": PARTITION,
        "error_code": response.error,
        **_leader_fields(response.leader),
        **fields,
    }
    return {"topics": in_topic(partition), "node_endpoints": node_fields(response.leader, response.leader_endpoint)}


def node_fields(leader: LeaderAndEpoch, endpoint: Endpoint | None) -> Sequence[Body]:
    if leader.leader_id is None or endpoint is None:
        return []
    return [{"node_id": leader.leader_id, "host": endpoint.host, "port": endpoint.port}]


def _leader_fields(leader: LeaderAndEpoch) -> Body:
    return {"leader_id": UNKNOWN_ID if leader.leader_id is None else leader.leader_id, "leader_epoch": leader.epoch}


def _addressee(body: Any, partition: Any) -> ReplicaKey | None:
    voter_id: int = getattr(body, "voter_id", UNKNOWN_ID)
    return None if voter_id < 0 else ReplicaKey(voter_id, directory(partition, "voter_directory_id"))


def _voter_key(body: Any) -> ReplicaKey:
    return ReplicaKey(body.voter_id, directory(body, "voter_directory_id"))


def _message(error: ErrorCode) -> str | None:
    return None if error is ErrorCode.none else error.name.upper()
