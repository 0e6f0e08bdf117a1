"""Old forms of messages and their newest one: there and back, through the bytes of a real version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from tierfetch.protocol.messages.cluster import (
    FeatureUpdateKey,
    MetadataRequest,
    MetadataRequestTopic,
    UpdateFeaturesRequest,
)
from tierfetch.protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tierfetch.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tierfetch.protocol.messages.quorum import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    ReplicaInfo,
)
from tierfetch.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tierfetch.protocol.messages.versions import lowered, upgraded
from tierfetch.protocol.wire.message_codec import message_reader, message_writer
from tierfetch.protocol.wire.primitives import Reader, Writer

TOPIC_ID = UUID(int=7)


def through_the_wire(message: Any, api: ApiKey, version: int, *, response: bool = False) -> Any:
    """Return what the other side of a connection sees of the message."""
    schema = api.response_type(version) if response else api.request_type(version)
    writer = Writer(flexible=api.is_flexible(version))
    message_writer(type(message), schema)(writer, lowered(message, version))
    data = b"".join(bytes(part) for part in writer.finish())  # type: ignore[arg-type]
    read = message_reader(type(message), schema)(Reader(memoryview(data), 0, flexible=api.is_flexible(version)))
    return upgraded(read, version)


@pytest.mark.parametrize("version", range(1, 10))
def test_A4_offset_fetch_of_one_group_reads_alike_in_every_version(version: int) -> None:
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0, 2)),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),))
    assert through_the_wire(request, ApiKey.OFFSET_FETCH, version).groups == request.groups
    partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, metadata="m")
    answered = (OffsetFetchResponseTopics(name="t", partitions=(partition,)),)
    response = OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=answered),))
    seen = through_the_wire(response, ApiKey.OFFSET_FETCH, version, response=True)
    assert [group.topics for group in seen.groups] == [answered]


def test_offset_fetch_of_all_topics_stays_so() -> None:
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
    assert through_the_wire(request, ApiKey.OFFSET_FETCH, 7).groups == request.groups


@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.not_coordinator])
@pytest.mark.parametrize("version", [2, 7])
def test_the_error_of_a_group_is_that_of_an_old_response(version: int, error: ErrorCode) -> None:
    response = OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=(), error_code=error),))
    assert lowered(response, version).error_code is error
    assert through_the_wire(response, ApiKey.OFFSET_FETCH, version, response=True).groups[0].error_code is error


def test_an_old_version_has_room_for_one_group() -> None:
    groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=()) for name in "ab")
    with pytest.raises(KafkaError, match="2 groups do not fit") as caught:
        lowered(OffsetFetchRequest(groups=groups), 7)
    assert caught.value.code is ErrorCode.unsupported_version


@pytest.mark.parametrize("version", range(7))
def test_A4_one_coordinator_reads_alike_in_every_version(version: int) -> None:
    request = FindCoordinatorRequest(coordinator_keys=("g",))
    assert through_the_wire(request, ApiKey.FIND_COORDINATOR, version).coordinator_keys == ("g",)
    found = Coordinator(key="g", node_id=3, host="h", port=9, error_message=None)
    response = FindCoordinatorResponse(coordinators=(found,))
    (seen,) = through_the_wire(response, ApiKey.FIND_COORDINATOR, version, response=True).coordinators
    assert (seen.node_id, seen.host, seen.port, seen.error_code) == (3, "h", 9, ErrorCode.none)


@pytest.mark.parametrize("name", [None, "range"])
@pytest.mark.parametrize("version", range(10))
def test_A4_no_protocol_is_none_in_every_version_of_a_join(version: int, name: str | None) -> None:
    response = JoinGroupResponse(protocol_name=name, leader="", member_id="m", members=())
    assert through_the_wire(response, ApiKey.JOIN_GROUP, version, response=True).protocol_name == name
    assert lowered(response, version).protocol_name == (name or ("" if version < 7 else None))


@pytest.mark.parametrize("version", range(6))
def test_A4_one_member_leaves_alike_in_every_version(version: int) -> None:
    request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),))
    assert through_the_wire(request, ApiKey.LEAVE_GROUP, version).members == request.members
    gone = MemberResponse(member_id="m", group_instance_id=None, error_code=ErrorCode.unknown_member_id)
    seen = through_the_wire(LeaveGroupResponse(members=(gone,)), ApiKey.LEAVE_GROUP, version, response=True)
    assert ErrorCode.unknown_member_id in (seen.error_code, *(member.error_code for member in seen.members))


@pytest.mark.parametrize("version", range(1, 7))
def test_A4_topics_are_deleted_by_name_alike_in_every_version(version: int) -> None:
    topics = (DeleteTopicState(name="a", topic_id=None), DeleteTopicState(name="b", topic_id=None))
    request = DeleteTopicsRequest(timeout_ms=5, topics=topics)
    assert through_the_wire(request, ApiKey.DELETE_TOPICS, version).topics == topics


def test_an_old_version_cannot_delete_by_id() -> None:
    request = DeleteTopicsRequest(timeout_ms=5, topics=(DeleteTopicState(name=None, topic_id=TOPIC_ID),))
    with pytest.raises(KafkaError, match="by id from version 6"):
        lowered(request, 5)


@pytest.mark.parametrize("version", [0, 1])
def test_A4_preferred_candidates_read_alike_in_every_version(version: int) -> None:
    candidates = tuple(ReplicaInfo(candidate_id=item, candidate_directory_id=None) for item in (2, 3))
    partition = EndQuorumEpochRequestPartitionData(
        partition_index=0, leader_id=1, leader_epoch=4, preferred_candidates=candidates
    )
    topic = EndQuorumEpochRequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
    seen = through_the_wire(EndQuorumEpochRequest(topics=(topic,)), ApiKey.END_QUORUM_EPOCH, version)
    assert seen.topics[0].partitions[0].preferred_candidates == candidates


@pytest.mark.parametrize("version", [2, 3])
def test_A4_an_isr_reads_alike_in_every_version(version: int) -> None:
    isr = tuple(BrokerState(broker_id=item) for item in (1, 2))
    partition = AlterPartitionRequestPartitionData(
        partition_index=0, leader_epoch=4, partition_epoch=7, new_isr_with_epochs=isr
    )
    topic = AlterPartitionRequestTopicData(topic_id=TOPIC_ID, partitions=(partition,))
    seen = through_the_wire(AlterPartitionRequest(broker_id=1, topics=(topic,)), ApiKey.ALTER_PARTITION, version)
    assert seen.topics[0].partitions[0].new_isr_with_epochs == isr


@pytest.mark.parametrize(("version", "asked", "seen"), [(0, 1, 1), (0, 2, 2), (0, 3, 2), (1, 3, 3), (2, 1, 1)])
def test_A4_a_downgrade_that_an_old_request_allows_is_a_safe_one(version: int, asked: int, seen: int) -> None:
    update = FeatureUpdateKey(feature="f", max_version_level=1, upgrade_type=asked)
    request = UpdateFeaturesRequest(feature_updates=(update,))
    assert through_the_wire(request, ApiKey.UPDATE_FEATURES, version).feature_updates[0].upgrade_type == seen


@pytest.mark.parametrize("version", [0, 1, 13])
def test_A4_metadata_of_all_topics_and_of_one(version: int) -> None:
    """Version 0 has no null: it asks for all topics by naming none."""
    everything, one = MetadataRequest(topics=None), MetadataRequest(topics=(MetadataRequestTopic(name="t"),))
    assert through_the_wire(everything, ApiKey.METADATA, version).topics is None
    assert through_the_wire(one, ApiKey.METADATA, version).topics == one.topics


def test_A4_metadata_of_no_topic_does_not_fit_version_0() -> None:
    assert through_the_wire(MetadataRequest(topics=()), ApiKey.METADATA, 1).topics == ()
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
        lowered(MetadataRequest(topics=()), 0)
