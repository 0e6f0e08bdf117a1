"""Every message through the bytes of every version: what a version can say comes back as it was said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import (
    RequestHeader,
    read_request_body,
    read_request_header,
    read_response,
    write_request,
    write_response,
)
from tierfetch.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from tierfetch.protocol.fetch.messages import (
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchTopic,
    FetchTopicResponse,
    SnapshotId,
)
from tierfetch.protocol.fetch.messages import FetchRequest as WireFetchRequest
from tierfetch.protocol.fetch.messages import FetchResponse as WireFetchResponse
from tierfetch.protocol.messages import quorum as kafka
from tierfetch.protocol.topics import METADATA_TOPIC_ID
from tierfetch.quorum.core.effects import DataBatch
from tierfetch.quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReplicaProgress,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from tierfetch.quorum.core.state import NO_DIRECTORY_ID, Endpoint, LeaderAndEpoch, OffsetAndEpoch, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode, VotersAt, VoterSet
from tierfetch.quorum.storage.snapshot_file import FileChunk
from tierfetch.quorum.wire import fetch as wire_fetch
from tierfetch.quorum.wire import messages as wire
from tierfetch.tests.messages import request_of
from tierfetch.tests.quorum.test_control_batches import NODE, append, append_bytes

ids = st.integers(0, 2**31 - 1)
epochs = st.integers(0, 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)
keys = st.builds(ReplicaKey, ids, st.uuids())
endpoints = st.builds(Endpoint, st.text(max_size=8), st.text(min_size=1, max_size=20), st.integers(0, 65535))
positions = st.builds(OffsetAndEpoch, offsets, epochs)
clusters = st.none() | st.text(min_size=1, max_size=22)
leaders = st.builds(LeaderAndEpoch, st.none() | ids, epochs)
errors = st.sampled_from([ErrorCode.none, ErrorCode.fenced_leader_epoch, ErrorCode.not_leader_or_follower])


def through_request(api: ApiKey, version: int, body: Any) -> Any:
    """As the server's handler gets it."""
    frame = b"".join(bytes(part) for part in write_request(RequestHeader(api, version, 1, "c"), body))
    header, reader = read_request_header(memoryview(frame)[4:])
    return read_request_body(header, reader)


def through_response(api: ApiKey, version: int, body: Any) -> Any:
    frame = b"".join(bytes(part) for part in write_response(api, version, 1, body))
    return read_response(api, version, memoryview(frame)[4:])


def versions(api: ApiKey) -> st.SearchStrategy[int]:
    return st.integers(api.min_version, api.max_version)


@given(
    st.builds(
        VoteRequest,
        cluster_id=clusters,
        candidate=keys,
        epoch=epochs,
        last=positions,
        pre_vote=st.booleans(),
        voter=st.none() | keys,
    ),
    versions(ApiKey.VOTE),
)
def test_Q2_vote_request(request: VoteRequest, version: int) -> None:
    found = wire.read_vote_request(through_request(ApiKey.VOTE, version, wire.vote_request(request)))
    if version < 2:
        request = replace(request, pre_vote=False)
    if version < 1:
        request = replace(request, candidate=ReplicaKey(request.candidate.id), voter=None)
    assert found == request
    assert wire.min_version(replace(request, pre_vote=True)) == 2


def with_endpoint(leader: LeaderAndEpoch, endpoint: Endpoint | None, *, known: bool) -> Endpoint | None:
    """As it comes back: nameless, and only where the version and the leader allow it."""
    if endpoint is None or leader.leader_id is None or not known:
        return None
    return Endpoint("", endpoint.host, endpoint.port)


@given(errors, leaders, st.booleans(), st.none() | endpoints, versions(ApiKey.VOTE))
def test_Q2_vote_response(
    error: ErrorCode, leader: LeaderAndEpoch, granted: bool, endpoint: Endpoint | None, version: int
) -> None:
    response = VoteResponse(error=error, leader=leader, granted=granted, leader_endpoint=endpoint)
    found = wire.read_vote_response(through_response(ApiKey.VOTE, version, wire.vote_response(response)))
    assert found == replace(response, leader_endpoint=with_endpoint(leader, endpoint, known=version >= 1))


@given(
    st.builds(
        BeginQuorumEpochRequest,
        cluster_id=clusters,
        leader_id=ids,
        epoch=epochs,
        endpoints=st.lists(endpoints, max_size=2).map(tuple),
        voter=st.none() | keys,
    ),
    versions(ApiKey.BEGIN_QUORUM_EPOCH),
)
def test_Q3_begin_request(request: BeginQuorumEpochRequest, version: int) -> None:
    api = ApiKey.BEGIN_QUORUM_EPOCH
    found = wire.read_begin_request(through_request(api, version, wire.begin_request(request)))
    assert found == (request if version >= 1 else replace(request, endpoints=(), voter=None))


@given(
    st.builds(
        EndQuorumEpochRequest,
        cluster_id=clusters,
        leader_id=ids,
        epoch=epochs,
        preferred_successors=st.lists(keys, max_size=3).map(tuple),
        endpoints=st.lists(endpoints, max_size=2).map(tuple),
    ),
    versions(ApiKey.END_QUORUM_EPOCH),
)
def test_Q4_end_request(request: EndQuorumEpochRequest, version: int) -> None:
    found = wire.read_end_request(through_request(ApiKey.END_QUORUM_EPOCH, version, wire.end_request(request)))
    if version < 1:
        successors = tuple(ReplicaKey(key.id) for key in request.preferred_successors)
        request = replace(request, endpoints=(), preferred_successors=successors)
    assert found == request


@given(errors, leaders, st.none() | endpoints, st.integers(0, 1))
def test_Q3_Q4_begin_and_end_responses(
    error: ErrorCode, leader: LeaderAndEpoch, endpoint: Endpoint | None, version: int
) -> None:
    back = with_endpoint(leader, endpoint, known=version >= 1)
    begun = BeginQuorumEpochResponse(error=error, leader=leader, leader_endpoint=endpoint)
    body = through_response(ApiKey.BEGIN_QUORUM_EPOCH, version, wire.begin_response(begun))
    assert wire.read_begin_response(body) == replace(begun, leader_endpoint=back)
    ended = EndQuorumEpochResponse(error=error, leader=leader, leader_endpoint=endpoint)
    body = through_response(ApiKey.END_QUORUM_EPOCH, version, wire.end_response(ended))
    assert wire.read_end_response(body) == replace(ended, leader_endpoint=back)


@given(
    st.builds(
        FetchRequest,
        cluster_id=clusters,
        replica=keys,
        epoch=epochs,
        fetch_offset=offsets,
        last_fetched_epoch=epochs,
        max_wait_ms=st.integers(0, 2**31 - 1),
        max_bytes=st.integers(1, 2**31 - 1),
        high_watermark=st.integers(-1, 2**62),
    ),
    st.integers(13, ApiKey.FETCH.max_version),
)
def test_Q5_fetch_request(request: FetchRequest, version: int) -> None:
    body = through_request(ApiKey.FETCH, version, wire_fetch.fetch_request(request))
    if version < 18:
        request = replace(request, high_watermark=-1)
    if version < 17:
        request = replace(request, replica=ReplicaKey(request.replica.id))
    assert wire_fetch.read_fetch_request(body) == request


def test_Q5_refusal_of_a_large_foreign_fetch_is_short() -> None:
    body = wire_fetch.fetch_request(
        FetchRequest(cluster_id="c", replica=ReplicaKey(1), epoch=1, fetch_offset=0, last_fetched_epoch=0)
    )
    with pytest.raises(KafkaError, match="alone, found") as raised:
        wire_fetch.read_fetch_request(replace(body, topics=body.topics * 1000))
    assert len(str(raised.value)) < 2 * wire_fetch.TEXT_MAX


@given(st.integers(13, ApiKey.FETCH.max_version), leaders, st.integers(-1, 2**62), st.booleans())
def test_Q5_fetch_response(version: int, leader: LeaderAndEpoch, high_watermark: int, diverges: bool) -> None:
    asked = WireFetchRequest(
        max_wait_ms=0, min_bytes=1, topics=(FetchTopic((FetchPartition(0),), topic_id=METADATA_TOPIC_ID),)
    )
    response = FetchResponse(
        error=ErrorCode.none,
        leader=leader,
        high_watermark=high_watermark,
        log_start_offset=3,
        diverging=wire_fetch.DivergingEpoch(2, 9) if diverges else None,
        snapshot_id=None if diverges else OffsetAndEpoch(50, 7),
    )
    body = through_response(ApiKey.FETCH, version, wire_fetch.fetch_response(asked, response, b""))
    found = wire_fetch.read_fetch_response(body, VotersAt(-1, VoterSet(), 0))
    assert found == response


@pytest.mark.parametrize(
    "told",
    [
        {"diverging_epoch": EpochEndOffset(-1, -1)},
        {"diverging_epoch": EpochEndOffset(1, -1)},
        {"snapshot_id": SnapshotId(-1, 2)},
    ],
    ids=str,
)
def test_Q5_a_place_that_is_none_is_no_answer(told: dict[str, Any]) -> None:
    """It must not become an assertion of ours: Kafka's partitions do answer DivergingEpoch(-1, -1)."""
    partition = FetchPartitionResponse(0, error_code=ErrorCode.none, **told)
    body = WireFetchResponse(topics=(FetchTopicResponse((partition,), "", METADATA_TOPIC_ID),))
    with pytest.raises(KafkaError, match="expected an epoch and an offset of 0 or more"):
        wire_fetch.read_fetch_response(body, VotersAt(-1, VoterSet(), 0))


def test_Q5_fetched_records_are_checked_before_anybody_sees_them() -> None:
    data = bytearray(append_bytes(append(DataBatch(0, (b"a",))), 1))
    asked = wire_fetch.fetch_request(
        FetchRequest(cluster_id=None, replica=ReplicaKey(1), epoch=1, fetch_offset=0, last_fetched_epoch=0)
    )
    response = FetchResponse(error=ErrorCode.none, leader=LeaderAndEpoch(1, 1))
    before = VotersAt(-1, VoterSet.of([NODE]), 0)
    body = through_response(ApiKey.FETCH, 17, wire_fetch.fetch_response(asked, response, bytes(data)))
    assert bytes(wire_fetch.read_fetch_response(body, before).records.payload) == data
    data[-1] ^= 1
    body = through_response(ApiKey.FETCH, 17, wire_fetch.fetch_response(asked, response, bytes(data)))
    with pytest.raises(CorruptRecordError):
        wire_fetch.read_fetch_response(body, before)


@given(
    st.builds(
        FetchSnapshotRequest,
        cluster_id=clusters,
        replica=keys,
        epoch=epochs,
        snapshot_id=positions,
        position=offsets,
        max_bytes=st.integers(1, 2**31 - 1),
    ),
    versions(ApiKey.FETCH_SNAPSHOT),
)
def test_Q9_fetch_snapshot_request(request: FetchSnapshotRequest, version: int) -> None:
    api = ApiKey.FETCH_SNAPSHOT
    body = through_request(api, version, wire_fetch.fetch_snapshot_request(request))
    if version < 1:
        request = replace(request, replica=ReplicaKey(request.replica.id))
    assert wire_fetch.read_fetch_snapshot_request(body) == request


@given(versions(ApiKey.FETCH_SNAPSHOT), st.binary(max_size=50), leaders)
def test_Q9_fetch_snapshot_response(version: int, data: bytes, leader: LeaderAndEpoch) -> None:
    asked = OffsetAndEpoch(50, 7)
    response = FetchSnapshotResponse(error=ErrorCode.none, leader=leader, snapshot_id=asked)
    body = wire_fetch.fetch_snapshot_response(response, asked, FileChunk(1000, 20, data))
    found = wire_fetch.read_fetch_snapshot_response(through_response(ApiKey.FETCH_SNAPSHOT, version, body))
    assert (found.error, found.leader, found.snapshot_id) == (ErrorCode.none, leader, asked)
    chunk = found.chunk
    assert (bytes(chunk.payload), chunk.position, chunk.length, chunk.size) == (data, 20, len(data), 1000)
    refused = replace(response, error=ErrorCode.snapshot_not_found)
    body = wire_fetch.fetch_snapshot_response(refused, asked, None)
    found = wire_fetch.read_fetch_snapshot_response(through_response(ApiKey.FETCH_SNAPSHOT, version, body))
    assert (found.error, found.chunk) == (ErrorCode.snapshot_not_found, None)


@given(versions(ApiKey.DESCRIBE_QUORUM))
def test_Q10_describe_response(version: int) -> None:
    response = DescribeQuorumResponse(
        error=ErrorCode.none,
        leader=LeaderAndEpoch(1, 5),
        high_watermark=40,
        voters=(ReplicaProgress(NODE.key, 50, 1000, 900), ReplicaProgress(ReplicaKey(2), -1, -1, -1)),
        observers=(ReplicaProgress(ReplicaKey(9), 30, 800, -1),),
        nodes=(NODE,),
    )
    body = through_response(ApiKey.DESCRIBE_QUORUM, version, wire.describe_response(response, lambda ms: ms + 7))
    (partition,) = body.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 5, 40)
    assert [item.log_end_offset for item in (*partition.current_voters, *partition.observers)] == [50, -1, 30]
    if version >= 1:
        times = [(item.last_fetch_timestamp, item.last_caught_up_timestamp) for item in partition.current_voters]
        assert times == [(1007, 907), (-1, -1)]
    if version >= 2:
        assert partition.current_voters[0].replica_directory_id == NODE.key.directory_id
        assert [(node.node_id, node.listeners[0].port) for node in body.nodes] == [(1, 1)]


@given(st.builds(VoterNode, keys, st.lists(endpoints, max_size=2).map(tuple)), clusters, epochs)
def test_Q15_update_voter(voter: VoterNode, cluster_id: str | None, epoch: int) -> None:
    request = UpdateVoterRequest(cluster_id=cluster_id, epoch=epoch, voter=voter)
    body = through_request(ApiKey.UPDATE_RAFT_VOTER, 0, wire.update_request(request))
    assert wire.read_update_request(body) == request
    response = VoterChangeResponse(
        error=ErrorCode.none, leader=LeaderAndEpoch(1, epoch), leader_endpoint=Endpoint("", "h", 1)
    )
    body = through_response(ApiKey.UPDATE_RAFT_VOTER, 0, wire.update_response(response))
    assert wire.read_update_response(body) == response


@pytest.mark.parametrize("version", [0, 1])
def test_Q15_add_and_remove_requests(version: int) -> None:
    request = kafka.AddRaftVoterRequest(
        cluster_id="c",
        timeout_ms=1500,
        voter_id=4,
        voter_directory_id=NODE.key.directory_id,
        listeners=(kafka.AddRaftVoterRequestListener(name="CONTROLLER", host="h", port=1),),
        ack_when_committed=False,
    )
    added = wire.read_add_request(through_request(ApiKey.ADD_RAFT_VOTER, version, request))
    assert (added.voter.key, added.timeout_ms) == (ReplicaKey(4, NODE.key.directory_id), 1500)
    assert added.ack_when_committed is (version == 0)
    leaving = kafka.RemoveRaftVoterRequest(cluster_id=None, voter_id=4, voter_directory_id=None)
    removed = wire.read_remove_request(through_request(ApiKey.REMOVE_RAFT_VOTER, 0, leaving))
    assert (removed.cluster_id, removed.voter) == (None, ReplicaKey(4, NO_DIRECTORY_ID))


@pytest.mark.parametrize("error", sorted(wire.REQUEST_ERRORS))
def test_Q11_errors_of_the_request_are_said_for_the_whole(error: ErrorCode) -> None:
    response = VoteResponse(error=error, leader=LeaderAndEpoch(1, 2), granted=False)
    body = through_response(ApiKey.VOTE, 2, wire.vote_response(response))
    assert (body.error_code, body.topics) == (error, ())
    assert wire.read_vote_response(body).error is error


@pytest.mark.parametrize(
    ("api", "refuse"),
    [
        (ApiKey.VOTE, wire.vote_error),
        (ApiKey.BEGIN_QUORUM_EPOCH, wire.begin_error),
        (ApiKey.END_QUORUM_EPOCH, wire.end_error),
        (ApiKey.FETCH_SNAPSHOT, wire_fetch.fetch_snapshot_error),
        (ApiKey.DESCRIBE_QUORUM, wire.describe_error),
        (ApiKey.ADD_RAFT_VOTER, wire.add_error),
        (ApiKey.REMOVE_RAFT_VOTER, wire.remove_error),
        (ApiKey.UPDATE_RAFT_VOTER, wire.update_error),
    ],
)
def test_an_answer_with_nothing_but_an_error(api: ApiKey, refuse: Callable[[ErrorCode, str], Any]) -> None:
    for version in range(api.min_version, api.max_version + 1):
        body = through_response(api, version, refuse(ErrorCode.invalid_request, "why"))
        assert body.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [{"topic_name": "other", "partitions": [{"partition_index": 0}]}],
        [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 1}]}],
        [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}] * 2}],
    ],
)
def test_only_the_metadata_log_is_known(topics: list[Any]) -> None:
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        wire.read_describe_request(
            through_request(ApiKey.DESCRIBE_QUORUM, 2, request_of(ApiKey.DESCRIBE_QUORUM, {"topics": topics}))
        )
