"""The quorum's messages to and from the wire: votes, epochs, voter changes, and what they say of themselves.

Fetch and FetchSnapshot, which carry bytes, are in `wire.fetch`. What holds for all of them:

* A request is for `__cluster_metadata-0` and nothing else: INVALID_REQUEST otherwise.
* INVALID_REQUEST and INCONSISTENT_CLUSTER_ID are said for the response as a whole, without partitions; every other
  error for the partition, with the leader that the answering node knows, and its endpoint where a version has one.
* An id of -1, a zero directory id and an empty endpoint stand for "not known".
* A version that lacks a field leaves it out, except `pre_vote`: see `min_version`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar
from uuid import UUID

from ...protocol import CONTROLLER_ENDPOINTS, ErrorCode, KafkaError
from ...protocol.messages import quorum as kafka
from ...protocol.messages.cluster import DescribeClusterBroker, DescribeClusterResponse
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

WallClock = Callable[[int], int]
"""From the core's clock to Unix time, both in ms."""


class Partition(Protocol):
    """A partition in a message."""

    @property
    def partition_index(self) -> int: ...


P = TypeVar("P", bound=Partition)
P_co = TypeVar("P_co", bound=Partition, covariant=True)
MadeT_co = TypeVar("MadeT_co", covariant=True)


class Topic(Protocol[P_co]):
    """A topic in a message, with its partitions."""

    @property
    def topic_name(self) -> str: ...
    @property
    def partitions(self) -> tuple[P_co, ...]: ...


class NamesLeader(Protocol):
    """A part of a message that says who leads."""

    @property
    def leader_id(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


class Listener(Protocol):
    """Where a node listens, under the listener's name."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class NodeEndpoint(Protocol):
    """Where a node listens, under the node's id."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class MakeListener(Protocol[MadeT_co]):
    """The class of a message's listeners."""

    def __call__(self, *, name: str, host: str, port: int) -> MadeT_co: ...


class MakeNodeEndpoint(Protocol[MadeT_co]):
    """The class of a message's node endpoints."""

    def __call__(self, *, node_id: int, host: str, port: int) -> MadeT_co: ...


def min_version(request: object) -> int:
    """The oldest version that can say it: a pre-vote without its field would be a vote."""
    return PRE_VOTE_SINCE if isinstance(request, VoteRequest) and request.pre_vote else 0


# Vote.


def vote_request(request: VoteRequest) -> kafka.VoteRequest:
    voter = request.voter or ReplicaKey(UNKNOWN_ID)
    partition = kafka.VoteRequestPartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.offset,
        pre_vote=request.pre_vote,
    )
    topic = kafka.VoteRequestTopicData(topic_name=TOPIC, partitions=(partition,))
    return kafka.VoteRequest(cluster_id=request.cluster_id, voter_id=voter.id, topics=(topic,))


def read_vote_request(request: kafka.VoteRequest) -> VoteRequest:
    partition = only_partition(request.topics)
    return VoteRequest(
        cluster_id=request.cluster_id,
        candidate=ReplicaKey(partition.replica_id, directory(partition.replica_directory_id)),
        epoch=partition.replica_epoch,
        last=OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        pre_vote=partition.pre_vote,
        voter=_addressee(request.voter_id, partition.voter_directory_id),
    )


def vote_response(response: VoteResponse) -> kafka.VoteResponse:
    if response.error in REQUEST_ERRORS:
        return vote_error(response.error)
    partition = kafka.VoteResponsePartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=leader_id_of(response.leader),
        leader_epoch=response.leader.epoch,
        vote_granted=response.granted,
    )
    return kafka.VoteResponse(
        topics=(kafka.VoteResponseTopicData(topic_name=TOPIC, partitions=(partition,)),),
        node_endpoints=node_endpoints(kafka.VoteResponseNodeEndpoint, response.leader, response.leader_endpoint),
    )


def vote_error(error: ErrorCode, _: str = "") -> kafka.VoteResponse:
    return kafka.VoteResponse(error_code=error, topics=())


def read_vote_response(response: kafka.VoteResponse) -> VoteResponse:
    if response.error_code is not ErrorCode.none:
        return VoteResponse(error=response.error_code, leader=NO_LEADER)
    partition = only_partition(response.topics)
    return VoteResponse(
        error=partition.error_code,
        leader=leader_of(partition),
        granted=partition.vote_granted,
        leader_endpoint=leader_endpoint(response.node_endpoints, partition.leader_id),
    )


# BeginQuorumEpoch, EndQuorumEpoch.


def begin_request(request: BeginQuorumEpochRequest) -> kafka.BeginQuorumEpochRequest:
    voter = request.voter or ReplicaKey(UNKNOWN_ID)
    partition = kafka.BeginQuorumEpochRequestPartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return kafka.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=voter.id,
        topics=(kafka.BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=(partition,)),),
        leader_endpoints=listeners(kafka.BeginQuorumEpochRequestLeaderEndpoint, request.endpoints),
    )


def read_begin_request(request: kafka.BeginQuorumEpochRequest) -> BeginQuorumEpochRequest:
    partition = only_partition(request.topics)
    return BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        endpoints=endpoints_of(request.leader_endpoints),
        voter=_addressee(request.voter_id, partition.voter_directory_id),
    )


def begin_response(response: BeginQuorumEpochResponse) -> kafka.BeginQuorumEpochResponse:
    if response.error in REQUEST_ERRORS:
        return begin_error(response.error)
    partition = kafka.BeginQuorumEpochResponsePartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=leader_id_of(response.leader),
        leader_epoch=response.leader.epoch,
    )
    make = kafka.BeginQuorumEpochResponseNodeEndpoint
    return kafka.BeginQuorumEpochResponse(
        topics=(kafka.BeginQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=(partition,)),),
        node_endpoints=node_endpoints(make, response.leader, response.leader_endpoint),
    )


def begin_error(error: ErrorCode, _: str = "") -> kafka.BeginQuorumEpochResponse:
    return kafka.BeginQuorumEpochResponse(error_code=error, topics=())


def read_begin_response(response: kafka.BeginQuorumEpochResponse) -> BeginQuorumEpochResponse:
    if response.error_code is not ErrorCode.none:
        return BeginQuorumEpochResponse(error=response.error_code, leader=NO_LEADER)
    partition = only_partition(response.topics)
    return BeginQuorumEpochResponse(
        error=partition.error_code,
        leader=leader_of(partition),
        leader_endpoint=leader_endpoint(response.node_endpoints, partition.leader_id),
    )


def end_request(request: EndQuorumEpochRequest) -> kafka.EndQuorumEpochRequest:
    partition = kafka.EndQuorumEpochRequestPartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=tuple(
            kafka.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.preferred_successors
        ),
    )
    return kafka.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=(kafka.EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=(partition,)),),
        leader_endpoints=listeners(kafka.EndQuorumEpochRequestLeaderEndpoint, request.endpoints),
    )


def read_end_request(request: kafka.EndQuorumEpochRequest) -> EndQuorumEpochRequest:
    partition = only_partition(request.topics)
    return EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        preferred_successors=tuple(
            ReplicaKey(item.candidate_id, directory(item.candidate_directory_id))
            for item in partition.preferred_candidates
        ),
        endpoints=endpoints_of(request.leader_endpoints),
    )


def end_response(response: EndQuorumEpochResponse) -> kafka.EndQuorumEpochResponse:
    if response.error in REQUEST_ERRORS:
        return end_error(response.error)
    partition = kafka.EndQuorumEpochResponsePartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=leader_id_of(response.leader),
        leader_epoch=response.leader.epoch,
    )
    make = kafka.EndQuorumEpochResponseNodeEndpoint
    return kafka.EndQuorumEpochResponse(
        topics=(kafka.EndQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=(partition,)),),
        node_endpoints=node_endpoints(make, response.leader, response.leader_endpoint),
    )


def end_error(error: ErrorCode, _: str = "") -> kafka.EndQuorumEpochResponse:
    return kafka.EndQuorumEpochResponse(error_code=error, topics=())


def read_end_response(response: kafka.EndQuorumEpochResponse) -> EndQuorumEpochResponse:
    if response.error_code is not ErrorCode.none:
        return EndQuorumEpochResponse(error=response.error_code, leader=NO_LEADER)
    partition = only_partition(response.topics)
    return EndQuorumEpochResponse(
        error=partition.error_code,
        leader=leader_of(partition),
        leader_endpoint=leader_endpoint(response.node_endpoints, partition.leader_id),
    )


# DescribeQuorum.


def read_describe_request(request: kafka.DescribeQuorumRequest) -> DescribeQuorumRequest:
    only_partition(request.topics)
    return DescribeQuorumRequest()


def describe_response(response: DescribeQuorumResponse, wall_clock: WallClock) -> kafka.DescribeQuorumResponse:
    partition = kafka.DescribeQuorumResponsePartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        error_message=_message(response.error),
        leader_id=leader_id_of(response.leader),
        leader_epoch=response.leader.epoch,
        high_watermark=response.high_watermark,
        current_voters=tuple(_progress(replica, wall_clock) for replica in response.voters),
        observers=tuple(_progress(replica, wall_clock) for replica in response.observers),
    )
    make = kafka.DescribeQuorumResponseListener
    return kafka.DescribeQuorumResponse(
        error_message=None,
        topics=(kafka.DescribeQuorumResponseTopicData(topic_name=TOPIC, partitions=(partition,)),),
        nodes=tuple(kafka.Node(node_id=node.id, listeners=listeners(make, node.endpoints)) for node in response.nodes),
    )


def describe_error(error: ErrorCode, message: str) -> kafka.DescribeQuorumResponse:
    return kafka.DescribeQuorumResponse(error_code=error, error_message=message, topics=())


def _progress(replica: ReplicaProgress, wall_clock: WallClock) -> kafka.ReplicaState:
    return kafka.ReplicaState(
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=-1 if replica.last_fetch_ms < 0 else wall_clock(replica.last_fetch_ms),
        last_caught_up_timestamp=-1 if replica.last_caught_up_ms < 0 else wall_clock(replica.last_caught_up_ms),
    )


# DescribeCluster of a controller listener.


def cluster_response(cluster_id: str | None, leader: LeaderAndEpoch, voters: VoterSet) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        endpoint_type=CONTROLLER_ENDPOINTS,
        cluster_id=cluster_id or "",
        controller_id=leader_id_of(leader),
        brokers=tuple(
            DescribeClusterBroker(broker_id=node.id, host=node.endpoint.host, port=node.endpoint.port)
            for node in voters
            if node.endpoint is not None
        ),
    )


def cluster_error(error: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error, error_message=message, cluster_id="", brokers=())


# AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.


def add_request(request: AddVoterRequest) -> kafka.AddRaftVoterRequest:
    voter = request.voter
    return kafka.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=voter.id,
        voter_directory_id=voter.key.directory_id,
        listeners=listeners(kafka.AddRaftVoterRequestListener, voter.endpoints),
        ack_when_committed=request.ack_when_committed,
    )


def remove_request(request: RemoveVoterRequest) -> kafka.RemoveRaftVoterRequest:
    return kafka.RemoveRaftVoterRequest(
        cluster_id=request.cluster_id, voter_id=request.voter.id, voter_directory_id=request.voter.directory_id
    )


def read_change_response(
    response: kafka.AddRaftVoterResponse | kafka.RemoveRaftVoterResponse,
) -> VoterChangeResponse:
    """AddRaftVoter and RemoveRaftVoter do not say who leads."""
    return VoterChangeResponse(error=response.error_code, leader=NO_LEADER, message=response.error_message or "")


def read_add_request(request: kafka.AddRaftVoterRequest) -> AddVoterRequest:
    """The kraft.versions are asked of the new voter itself."""
    return AddVoterRequest(
        cluster_id=request.cluster_id,
        voter=VoterNode(_voter_key(request.voter_id, request.voter_directory_id), endpoints_of(request.listeners)),
        timeout_ms=request.timeout_ms,
        ack_when_committed=request.ack_when_committed,
    )


def read_remove_request(request: kafka.RemoveRaftVoterRequest) -> RemoveVoterRequest:
    return RemoveVoterRequest(
        cluster_id=request.cluster_id, voter=_voter_key(request.voter_id, request.voter_directory_id)
    )


def update_request(request: UpdateVoterRequest) -> kafka.UpdateRaftVoterRequest:
    voter = request.voter
    return kafka.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.id,
        voter_directory_id=voter.key.directory_id,
        listeners=listeners(kafka.UpdateRaftVoterRequestListener, voter.endpoints),
        k_raft_version_feature=kafka.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )


def read_update_request(request: kafka.UpdateRaftVoterRequest) -> UpdateVoterRequest:
    versions = request.k_raft_version_feature
    voter = VoterNode(
        _voter_key(request.voter_id, request.voter_directory_id),
        endpoints_of(request.listeners),
        versions.min_supported_version,
        versions.max_supported_version,
    )
    return UpdateVoterRequest(cluster_id=request.cluster_id, epoch=request.current_leader_epoch, voter=voter)


def add_response(response: VoterChangeResponse) -> kafka.AddRaftVoterResponse:
    return kafka.AddRaftVoterResponse(error_code=response.error, error_message=_message_of_change(response))


def add_error(error: ErrorCode, message: str) -> kafka.AddRaftVoterResponse:
    return kafka.AddRaftVoterResponse(error_code=error, error_message=message)


def remove_response(response: VoterChangeResponse) -> kafka.RemoveRaftVoterResponse:
    return kafka.RemoveRaftVoterResponse(error_code=response.error, error_message=_message_of_change(response))


def remove_error(error: ErrorCode, message: str) -> kafka.RemoveRaftVoterResponse:
    return kafka.RemoveRaftVoterResponse(error_code=error, error_message=message)


def update_response(response: VoterChangeResponse) -> kafka.UpdateRaftVoterResponse:
    endpoint = response.leader_endpoint or Endpoint("", "", 0)
    leader = kafka.CurrentLeader(
        leader_id=leader_id_of(response.leader),
        leader_epoch=response.leader.epoch,
        host=endpoint.host,
        port=endpoint.port,
    )
    return kafka.UpdateRaftVoterResponse(error_code=response.error, current_leader=leader)


def update_error(error: ErrorCode, _: str = "") -> kafka.UpdateRaftVoterResponse:
    return update_response(VoterChangeResponse(error=error, leader=NO_LEADER))


def read_update_response(response: kafka.UpdateRaftVoterResponse) -> VoterChangeResponse:
    leader = response.current_leader
    return VoterChangeResponse(
        error=response.error_code,
        leader=leader_of(leader),
        leader_endpoint=Endpoint("", leader.host, leader.port) if leader.host else None,
    )


# Pieces.


def only_partition(topics: Sequence[Topic[P]]) -> P:
    """The one partition of a message; INVALID_REQUEST if it is not the metadata log's."""
    found = [(topic.topic_name, partition) for topic in topics for partition in topic.partitions]
    if len(found) != 1 or found[0][0] != TOPIC or found[0][1].partition_index != PARTITION:
        named = [(name, partition.partition_index) for name, partition in found]
        raise KafkaError(ErrorCode.invalid_request, f"expected {TOPIC}-{PARTITION} alone, found {named}")
    return found[0][1]


def directory(directory_id: UUID | None) -> UUID:
    """The directory id of a message, which may not say it."""
    return directory_id or NO_DIRECTORY_ID


def leader_of(part: NamesLeader) -> LeaderAndEpoch:
    return LeaderAndEpoch(None if part.leader_id < 0 else part.leader_id, max(part.leader_epoch, 0))


def leader_id_of(leader: LeaderAndEpoch) -> int:
    return UNKNOWN_ID if leader.leader_id is None else leader.leader_id


def leader_endpoint(nodes: Sequence[NodeEndpoint], leader_id: int) -> Endpoint | None:
    """Where a response says that the leader listens."""
    for node in nodes:
        if node.node_id == leader_id:
            return Endpoint("", node.host, node.port)
    return None


def node_endpoints(
    make: MakeNodeEndpoint[MadeT_co], leader: LeaderAndEpoch, endpoint: Endpoint | None
) -> tuple[MadeT_co, ...]:
    """Where the leader listens, if it is known."""
    if leader.leader_id is None or endpoint is None:
        return ()
    return (make(node_id=leader.leader_id, host=endpoint.host, port=endpoint.port),)


def listeners(make: MakeListener[MadeT_co], endpoints: Sequence[Endpoint]) -> tuple[MadeT_co, ...]:
    return tuple(make(name=item.name, host=item.host, port=item.port) for item in endpoints)


def endpoints_of(items: Sequence[Listener]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(item.name, item.host, item.port) for item in items)


def _addressee(voter_id: int, directory_id: UUID | None) -> ReplicaKey | None:
    return None if voter_id < 0 else _voter_key(voter_id, directory_id)


def _voter_key(voter_id: int, directory_id: UUID | None) -> ReplicaKey:
    return ReplicaKey(voter_id, directory(directory_id))


def _message_of_change(response: VoterChangeResponse) -> str | None:
    return response.message or _message(response.error)


def _message(error: ErrorCode) -> str | None:
    return None if error is ErrorCode.none else error.name.upper()
