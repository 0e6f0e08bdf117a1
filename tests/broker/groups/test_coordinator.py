"""Coordinators in whole brokers: every version of every request, and what survives a change of coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import NewTopic, TopicImage
from tierfetch.broker.coordinator import log_writer, state_topic
from tierfetch.broker.coordinator.log_writer import InTransaction
from tierfetch.broker.coordinator.state_topic import java_hash, partition_for
from tierfetch.broker.environment import wall_clock_ms
from tierfetch.broker.groups.active_shard import ActiveShard
from tierfetch.broker.groups.core.group import Group
from tierfetch.broker.groups.core.group_state import GroupState
from tierfetch.broker.groups.core.records import GroupRecord, OffsetKey, OffsetValue, encode_key, encode_value
from tierfetch.broker.handlers import txn_markers
from tierfetch.broker.handlers.txn_markers import TransactionMarkerHandler
from tierfetch.log.core import AppendOrigin
from tierfetch.log.partition_log import LogAppendInfo
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponseDescribedGroup,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tierfetch.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tierfetch.protocol.messages.producers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import GROUP_METADATA_TOPIC, TopicPartition
from tierfetch.tests.broker.groups.conversation import Coordinator, ready
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.requests import all_versions, ask_message
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.turns import TURNS, turns

NONE = ErrorCode.none


def syncing(member: str, group: str = "g") -> SyncGroupRequest:
    """The only member, in generation 1, assigns itself everything."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupRequestAssignment(member_id=member, assignment=b"all"),),
    )


# Where a group is.


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("g", 103), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_A2_hashes_are_kept_of_few_keys_and_of_no_long_ones() -> None:
    """A client may name as many as it likes, of 32 KiB each."""
    kept = state_topic._kept_hash.cache_info
    long, longest_kept = "g" * (state_topic.KEPT_KEY_LENGTH_MAX + 1), "g" * state_topic.KEPT_KEY_LENGTH_MAX
    before = kept()
    assert java_hash(long) == java_hash(long) == state_topic._hash(long)
    assert kept() == before
    assert java_hash(longest_kept) == java_hash(longest_kept) == state_topic._hash(longest_kept)
    assert kept().hits > before.hits
    for number in range(state_topic.HASHES_MAX + 1):
        assert java_hash(f"group-{number}") == state_topic._hash(f"group-{number}")
    assert kept().currsize == state_topic.HASHES_MAX


def test_a_group_without_an_absolute_hash_is_in_the_first_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("g", 50) == 3


@pytest.mark.parametrize("version", all_versions(ApiKey.FIND_COORDINATOR))
async def test_the_topic_is_made_when_a_coordinator_is_looked_for(nodes: Nodes, version: int) -> None:
    await nodes.start(1)
    answer = await Coordinator(nodes[1]).ask(
        FindCoordinatorRequest(coordinator_keys=("g", "h") if version >= 4 else ("g",)), version
    )
    assert len(answer.coordinators) == (2 if version >= 4 else 1)
    for found in answer.coordinators:
        assert (found.error_code, found.node_id, found.port) == (NONE, 1, nodes[1].address.port)
    topic = nodes[1].view.image.topics[GROUP_METADATA_TOPIC]
    assert (len(topic.partitions), topic.configs["cleanup.policy"]) == (1, "compact")


async def test_without_enough_brokers_groups_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes(tmp_path)
    await nodes.start(1)
    answer = await Coordinator(nodes[1]).ask(FindCoordinatorRequest(coordinator_keys=("g",)))
    assert answer.coordinators[0].error_code is ErrorCode.coordinator_not_available
    assert "offsets.topic.replication.factor=3" in (answer.coordinators[0].error_message or "")
    assert "no group can be coordinated until it exists" in caplog.text
    await nodes.close()


async def test_a_topic_that_another_broker_has_just_made_is_no_fault(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await nodes.start(1)

    async def made_already(topic: NewTopic) -> TopicImage:
        raise KafkaError(ErrorCode.topic_already_exists, topic.name)

    with monkeypatch.context() as patch:
        patch.setattr(nodes[1].view, "create_topic", made_already)
        with pytest.raises(KafkaError) as caught:
            await nodes[1].groups.find_broker("g")
    assert caught.value.code is ErrorCode.coordinator_not_available
    assert "cannot be created" not in caplog.text
    assert (await nodes[1].groups.find_broker("g")).id == 1


async def test_other_kinds_of_keys_have_no_coordinator(one: Coordinator) -> None:
    answer = await one.ask(FindCoordinatorRequest(key_type=3, coordinator_keys=("x",)))
    assert answer.coordinators[0].error_code is ErrorCode.invalid_request
    assert (answer.coordinators[0].error_message or "").startswith("key type 3: groups (0), transactional ids (1)")


async def test_a_broker_that_does_not_coordinate_says_so(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    first = Coordinator(nodes[1])
    leader = await first.find()
    other = Coordinator(nodes[3 - leader])
    await until(lambda: GROUP_METADATA_TOPIC in nodes[3 - leader].view.image.topics)
    assert await other.commit(1, topic="t") is ErrorCode.unknown_topic_or_partition
    await nodes.topic("t", leader, 3 - leader)
    assert await other.commit(1) is ErrorCode.not_coordinator
    for version, top, each in ((1, NONE, [ErrorCode.not_coordinator]), (2, ErrorCode.not_coordinator, [])):
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=(0,))
        (refused,) = (await other.ask(fetching(topic), version)).groups
        assert refused.error_code is top, "version 1 has only errors of partitions"
        assert [found.error_code for topics in refused.topics for found in topics.partitions] == each
    heartbeat = await other.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="a"))
    assert heartbeat.error_code is ErrorCode.not_coordinator
    assert (await other.join()).error_code is ErrorCode.not_coordinator
    described = await other.ask(DescribeGroupsRequest(groups=("g",)))
    assert described.groups[0].error_code is ErrorCode.not_coordinator
    deleted = await other.ask(DeleteGroupsRequest(groups_names=("g",)))
    assert deleted.results[0].error_code is ErrorCode.not_coordinator
    listed = await other.ask(ListGroupsRequest())
    assert (listed.error_code, listed.groups) == (NONE, ())


# Members.


@pytest.mark.parametrize("version", all_versions(ApiKey.JOIN_GROUP))
async def test_join_in_every_version(one: Coordinator, version: int) -> None:
    joined = await one.enter(version=version)
    assert (joined.generation_id, joined.protocol_name, joined.leader) == (1, "range", joined.member_id)
    assert [member.metadata for member in joined.members] == [b"meta"]


async def test_a_join_without_a_rebalance_timeout_has_that_of_the_session(nodes: Nodes, one: Coordinator) -> None:
    """Version 0 has none of its own."""
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=7_000,
        rebalance_timeout_ms=9_000,
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"meta"),),
    )
    for version, timeout_ms in ((0, 7_000), (1, 9_000)):
        joined = await one.ask(replace(join, group_id=f"g{version}"), version)
        assert joined.error_code is NONE
        assert _group(nodes, f"g{version}").members.rebalance_timeout_ms == timeout_ms


@pytest.mark.parametrize("version", all_versions(ApiKey.SYNC_GROUP))
async def test_sync_in_every_version(one: Coordinator, version: int) -> None:
    member = (await one.enter()).member_id
    synced = await one.ask(syncing(member), version)
    assert (synced.error_code, synced.assignment) == (NONE, b"all")


@pytest.mark.parametrize("version", all_versions(ApiKey.HEARTBEAT))
async def test_heartbeat_in_every_version(one: Coordinator, version: int) -> None:
    member = (await one.enter()).member_id
    for generation, error in ((1, NONE), (2, ErrorCode.illegal_generation)):
        answer = await one.ask(HeartbeatRequest(group_id="g", generation_id=generation, member_id=member), version)
        assert answer.error_code is error


@pytest.mark.parametrize("version", all_versions(ApiKey.LEAVE_GROUP))
async def test_leave_in_every_version(one: Coordinator, version: int) -> None:
    member = (await one.enter()).member_id
    for error in (NONE, ErrorCode.unknown_member_id):
        request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=member),))
        left = await one.ask(request, version)
        assert (left.members[0].error_code if version >= 3 else left.error_code) is error


async def test_a_group_needs_a_name(one: Coordinator) -> None:
    assert (await one.join("")).error_code is ErrorCode.invalid_group_id


async def test_strangers_leave_nothing_behind(nodes: Nodes, one: Coordinator) -> None:
    await one.ask(HeartbeatRequest(group_id="x", generation_id=1, member_id="a"))
    await one.join("y", member="a")
    (active,) = nodes[1].groups.shards
    assert active.shard.groups == {}


# Offsets.


def fetching(topic: OffsetFetchRequestTopics, *, require_stable: bool = False) -> OffsetFetchRequest:
    group = OffsetFetchRequestGroup(group_id="g", topics=(topic,))
    return OffsetFetchRequest(groups=(group,), require_stable=require_stable)


@pytest.mark.parametrize(
    ("version", "fetch"),
    [
        *((version, 9) for version in all_versions(ApiKey.OFFSET_COMMIT)),
        *((9, fetch) for fetch in all_versions(ApiKey.OFFSET_FETCH)),
    ],
)
async def test_commit_and_fetch_in_every_version(nodes: Nodes, one: Coordinator, version: int, fetch: int) -> None:
    topic_id = nodes[1].view.image.topics["t"].topic_id
    partitions = tuple(
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=7, committed_leader_epoch=2, committed_metadata="m"
        )
        for number in (0, 1)
    )
    committing = OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=partitions)
    committed = await one.ask(OffsetCommitRequest(group_id="g", member_id="", topics=(committing,)), version)
    assert [each.error_code for each in committed.topics[0].partitions] == [NONE, ErrorCode.unknown_topic_or_partition]
    topic = OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=(0, 1))
    answer = await one.ask(fetching(topic), fetch)
    (found,) = answer.groups[0].topics
    known, unknown = found.partitions
    assert (known.committed_offset, known.metadata, known.error_code) == (7, "m", NONE)
    assert (unknown.committed_offset, unknown.metadata, unknown.error_code) == (-1, "", NONE)
    if fetch >= 5:
        assert known.committed_leader_epoch == (2 if version >= 6 else -1)


async def test_unknown_topic_ids(one: Coordinator) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topics = (OffsetCommitRequestTopic(topic_id=UUID(int=9), partitions=(partition,)),)
    committed = await one.ask(OffsetCommitRequest(group_id="g", member_id="", topics=topics))
    assert committed.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id
    fetched = await one.ask(fetching(OffsetFetchRequestTopics(topic_id=UUID(int=9), partition_indexes=(0,))))
    assert fetched.groups[0].topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id


async def test_metadata_has_a_limit(one: Coordinator) -> None:
    assert await one.commit(1, metadata="x" * 4096) is NONE
    assert await one.commit(2, metadata="x" * 4097) is ErrorCode.offset_metadata_too_large
    assert await one.committed() == {"t-0": 1}


async def test_a_member_commits_in_its_generation_only(one: Coordinator) -> None:
    member = (await one.enter()).member_id
    assert await one.commit(1, member=member, generation=1) is ErrorCode.rebalance_in_progress
    await one.ask(replace(syncing(member), assignments=()))
    assert await one.commit(1, member=member, generation=1) is NONE
    assert await one.commit(2, member=member, generation=2) is ErrorCode.illegal_generation
    assert await one.commit(2) is ErrorCode.unknown_member_id
    assert await one.committed() == {"t-0": 1}


async def test_a_client_may_let_its_offsets_expire(nodes: Nodes, one: Coordinator) -> None:
    await commit_for_now(one, "g")
    (active,) = nodes[1].groups.shards
    await nodes[1].groups.expire(active)
    assert await one.committed() == {}
    assert active.shard.groups == {}


async def test_a_group_expires_with_its_last_offsets_in_one_batch(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever coordinates next finds all of it, or nothing."""
    await nodes.topic("u", 1)
    for topic in ("t", "u"):
        await commit_for_now(one, "g", topic)
    (active,) = nodes[1].groups.shards
    end_offset, append, appended = active.partition.log.state.log_end_offset, active.partition.append, 0

    async def noted(*args: Any, **options: Any) -> LogAppendInfo:
        nonlocal appended
        appended += 1
        return await append(*args, **options)

    monkeypatch.setattr(active.partition, "append", noted)
    await nodes[1].groups.expire(active)
    assert (appended, active.partition.log.state.log_end_offset - end_offset) == (1, 3)
    assert (active.shard.groups, active.shard.offsets) == ({}, {})


async def test_a_group_that_could_not_expire_is_as_it_was(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit_for_now(one, "g")
    (active,) = nodes[1].groups.shards

    async def refuse(_: object) -> ErrorCode:
        return ErrorCode.coordinator_not_available

    with monkeypatch.context() as patched:
        patched.setattr(active, "write_tombstones", refuse)
        await nodes[1].groups.expire(active)
    assert await one.committed() == {"t-0": 1}
    assert await one.commit(2) is NONE


async def commit_for_now(one: Coordinator, group: str, topic: str = "t") -> None:
    """An offset that expires at once."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topics = (OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)
    await one.ask(OffsetCommitRequest(group_id=group, member_id="", retention_time_ms=0, topics=topics), 4)


async def test_what_is_committed_while_other_groups_expire_stays(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit_for_now(one, "g1")
    await commit_for_now(one, "g2")
    (active,) = nodes[1].groups.shards
    bury = active.write_tombstones

    async def bury_and_commit(tombstones: Sequence[GroupRecord]) -> ErrorCode:
        error = await bury(tombstones)
        if any(record.key.group_id == "g1" for record in tombstones):
            await one.commit(7, "g2")
        return error

    monkeypatch.setattr(active, "write_tombstones", bury_and_commit)
    await nodes[1].groups.expire(active)
    assert await one.committed("g1") == {}
    assert await one.committed("g2") == {"t-0": 7}


async def test_nothing_expires_while_a_newer_offset_is_on_its_way(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit_for_now(one, "g")
    (active,) = nodes[1].groups.shards
    append, may_append = active.partition.append, asyncio.Event()

    async def held(*args: Any, **options: Any) -> LogAppendInfo:
        await may_append.wait()
        return await append(*args, **options)

    monkeypatch.setattr(active.partition, "append", held)
    committing = asyncio.create_task(one.commit(7))
    key = encode_key(OffsetKey("g", "t", 0))
    await until(lambda: active._writer.is_writing(key))
    await nodes[1].groups.expire(active)
    may_append.set()
    assert await committing is NONE
    assert await one.committed() == {"t-0": 7}
    assert not active._writer.is_writing(key)


async def test_offset_delete(nodes: Nodes, one: Coordinator) -> None:
    await one.commit(1)
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=number) for number in (0, 1))
    topics = (OffsetDeleteRequestTopic(name="t", partitions=partitions),)
    deleted = await one.ask(OffsetDeleteRequest(group_id="g", topics=topics))
    assert [each.error_code for each in deleted.topics[0].partitions] == [NONE, ErrorCode.unknown_topic_or_partition]
    assert await one.committed() == {}
    (active,) = nodes[1].groups.shards
    await active.write(
        [GroupRecord(OffsetKey("g", "t", 0), OffsetValue(offset=2, commit_timestamp_ms=3))], InTransaction(7, 0)
    )
    assert active.shard.has_undecided("g", TopicPartition("t", 0))
    await one.ask(OffsetDeleteRequest(group_id="g", topics=topics))
    assert not active.shard.has_undecided("g", TopicPartition("t", 0)), "no marker brings it back"
    deleted = await one.ask(OffsetDeleteRequest(group_id="x", topics=topics))
    assert deleted.error_code is ErrorCode.group_id_not_found


async def test_offsets_go_with_their_topic(nodes: Nodes, one: Coordinator) -> None:
    await one.commit(1)
    await nodes.operator.delete_topic("t")
    (active,) = nodes[1].groups.shards
    await until(lambda: active.shard.offsets == {})
    await nodes.topic("t", 1)
    assert await one.committed() == {}


async def test_offsets_go_with_a_topic_that_is_deleted_while_they_are_read(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.commit(1)
    await nodes.stop(1)
    may_read, read = asyncio.Event(), ActiveShard._read

    async def late(active: ActiveShard) -> int:
        await may_read.wait()
        return await read(active)

    monkeypatch.setattr(ActiveShard, "_read", late)
    await nodes.start(1)
    await until(lambda: any(nodes[1].groups.shards))
    (active,) = nodes[1].groups.shards
    await nodes.operator.delete_topic("t")
    await until(lambda: active._deleted)
    may_read.set()
    await until(lambda: active.is_loaded and active.shard.offsets == {})


@pytest.mark.parametrize("commits_first", [True, False])
async def test_what_is_committed_for_a_topic_that_has_the_name_of_a_deleted_one_stays(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch, *, commits_first: bool
) -> None:
    """Both are in one image: a request that was there before the coordinator has looked is of the new topic."""
    await one.commit(1)
    await one.commit(1, group="other")
    (active,) = nodes[1].groups.shards
    forget, deleted = active.forget_topics, []
    monkeypatch.setattr(active, "forget_topics", deleted.append)
    await nodes.operator.delete_topic("t")
    await nodes.topic("t", 1)
    await until(lambda: len(deleted) == 1)
    if commits_first:
        committing = asyncio.create_task(one.commit(2))
        forget(*deleted)
    else:
        forget(*deleted)
        committing = asyncio.create_task(one.commit(2))
    assert await committing is NONE
    await until(lambda: "other" not in active.shard.offsets and not active._is_forgetting)
    assert await one.committed() == {"t-0": 2}


async def test_what_was_on_its_way_when_its_topic_was_deleted_goes_with_it(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_append = appends_later(nodes, monkeypatch)
    committing = asyncio.create_task(one.commit(1))
    (active,) = nodes[1].groups.shards
    await until(lambda: active._writer.is_writing(encode_key(OffsetKey("g", "t", 0))))
    await nodes.operator.delete_topic("t")
    await until(lambda: active._is_forgetting)
    may_append.set()
    assert await committing is NONE
    await until(lambda: not active._is_forgetting)
    assert active.shard.offsets == {}


@pytest.mark.parametrize("comes_again", [True, False])
async def test_offsets_go_with_a_topic_that_is_deleted_while_no_broker_coordinates(
    nodes: Nodes, one: Coordinator, comes_again: bool
) -> None:
    """At the second look: a new topic may be known to a new coordinator later than its offsets are."""
    await nodes.topic("kept", 1)
    await one.commit(1)
    await one.commit(2, topic="kept")
    await nodes.stop(1)
    await nodes.operator.delete_topic("t")
    await nodes.start(1)
    if comes_again:
        await nodes.topic("t", 1)
    again = await ready(nodes, 1)
    (active,) = nodes[1].groups.shards
    partitions = [TopicPartition("t", 0), TopicPartition("kept", 0)]
    await nodes[1].groups.expire(active)
    await turns()
    assert sorted(active.shard.offsets["g"]) == sorted(partitions)
    assert await again.committed() == {"kept-0": 2} | ({"t-0": -1} if comes_again else {})
    await nodes[1].groups.expire(active)
    await until(lambda: list(active.shard.offsets["g"]) == partitions[1:])
    assert await again.committed() == {"kept-0": 2}


def appends_later(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the log of the groups take nothing until the event is set."""
    partition = nodes.partition(1, GROUP_METADATA_TOPIC)
    may_append, append = asyncio.Event(), partition.append

    async def later(*args: Any, **options: Any) -> LogAppendInfo:
        await may_append.wait()
        return await append(*args, **options)

    monkeypatch.setattr(partition, "append", later)
    return may_append


async def test_an_offset_that_is_committed_while_the_one_of_a_deleted_topic_goes_stays(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.commit(1)
    await nodes.stop(1)
    await nodes.operator.delete_topic("t")
    await nodes.start(1)
    await nodes.topic("t", 1)
    again = await ready(nodes, 1)
    (active,) = nodes[1].groups.shards
    await nodes[1].groups.expire(active)
    may_append = appends_later(nodes, monkeypatch)
    committing = asyncio.create_task(again.commit(2))
    await until(lambda: active._writer.is_writing(encode_key(OffsetKey("g", "t", 0))))
    await nodes[1].groups.expire(active)
    may_append.set()
    assert await committing is NONE
    await again.commit(3, partition=0, group="other")
    assert await again.committed() == {"t-0": 2}


@pytest.mark.parametrize("is_in_transaction", [False, True])
async def test_a_fetch_of_stable_offsets_waits_for_what_is_on_its_way(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch, *, is_in_transaction: bool
) -> None:
    """It may be of a transaction, or of the member that had the partition before."""
    await one.commit(1)
    may_append = appends_later(nodes, monkeypatch)
    (active,) = nodes[1].groups.shards
    record = GroupRecord(OffsetKey("g", "t", 0), OffsetValue(offset=2, commit_timestamp_ms=3))
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=(0,))

    def fetch(*, require_stable: bool) -> asyncio.Task[Any]:
        return asyncio.create_task(one.ask(fetching(topic, require_stable=require_stable), 9))

    written = active.submit([record], transaction=InTransaction(7, 0) if is_in_transaction else None)
    await until(lambda: active._writer.is_writing(encode_key(OffsetKey("g", "t", 0))))
    waiting, also_waiting = fetch(require_stable=True), fetch(require_stable=True)
    at_once = await fetch(require_stable=False)
    await until(lambda: len(active._writer._queue) == 1)
    await turns()
    assert not waiting.done()
    assert not also_waiting.done()
    may_append.set()
    await written
    answers = [answer.groups[0].topics[0].partitions[0] for answer in (at_once, await waiting, await also_waiting)]
    after = (-1, ErrorCode.unstable_offset_commit) if is_in_transaction else (2, NONE)
    assert [(answer.committed_offset, answer.error_code) for answer in answers] == [(1, NONE), after, after]


async def test_a_fetch_of_stable_offsets_does_not_wait_for_ever(nodes: Nodes, cut_off: Coordinator) -> None:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=(0,))
    asked = [cut_off.ask(fetching(topic, require_stable=True), 9) for _ in range(20)]
    answers = await asyncio.gather(*asked)
    assert {answer.groups[0].error_code for answer in answers} == {ErrorCode.not_coordinator}
    (active,) = nodes[1].groups.shards
    assert len(active._writer._queue) == 1, "commits find their place, however many fetches wait"
    await nodes[1].view.fence_broker(2)
    answer = await cut_off.ask(fetching(topic, require_stable=True), 9)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 2


async def test_a_fetch_of_stable_offsets_waits_for_all_its_groups_at_the_same_time(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another, each until the timeout, they would occupy the connection for as long as a client likes."""
    asked: list[str] = []

    async def never_settled(active: ActiveShard) -> None:
        asked.append("asked")
        await turns()
        raise KafkaError(ErrorCode.not_coordinator, "not committed yet")

    monkeypatch.setattr(ActiveShard, "settled", never_settled)
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=(0,))
    groups = tuple(OffsetFetchRequestGroup(group_id=f"g{number}", topics=(topic,)) for number in range(100))
    answer = await one.ask(OffsetFetchRequest(groups=groups, require_stable=True), 9)
    assert [group.error_code for group in answer.groups] == [ErrorCode.not_coordinator] * 100
    assert asked == ["asked"], "they are of one partition"


async def test_a_fetch_of_stable_offsets_is_answered_for_the_topic_that_has_the_name_after_the_wait(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the one before it would say that nothing is committed, and its consumer would begin anywhere."""
    settled = ActiveShard.settled

    async def made_again_and_committed(active: ActiveShard) -> None:
        await nodes.operator.delete_topic("t")
        await until(lambda: "t" not in nodes[1].view.image.topics)
        await nodes.topic("t", 1)
        assert await one.commit(5) is NONE
        await settled(active)

    monkeypatch.setattr(ActiveShard, "settled", made_again_and_committed)
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=(0,))
    answer = await one.ask(fetching(topic, require_stable=True), 9)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 5


async def test_offsets_of_deleted_topics_go_also_where_their_tombstones_are_more_than_a_batch(
    nodes: Nodes, one: Coordinator
) -> None:
    (active,) = nodes[1].groups.shards
    batch_max = active.partition.log.state.config.max_message_bytes
    topic, value = "d" * 249, OffsetValue(offset=1, commit_timestamp_ms=3, topic_id=UUID(int=7))
    for number in range(batch_max // len(topic)):
        active.shard.apply(GroupRecord(OffsetKey("g", topic, number), value))
    await one.commit(2)
    for _ in range(2):
        await nodes[1].groups.expire(active)
    assert list(active.shard.offsets["g"]) == [TopicPartition("t", 0)]


async def test_offsets_are_deleted_also_where_their_tombstones_are_more_than_a_batch(
    nodes: Nodes, one: Coordinator
) -> None:
    (active,) = nodes[1].groups.shards
    batch_max = active.partition.log.state.config.max_message_bytes
    name, count = "w" * 249, batch_max // 249
    await nodes[1].view.create_topic(NewTopic(name, -1, -1, ((1,),) * count))
    partitions = range(count)
    for number in partitions:
        active.shard.apply(GroupRecord(OffsetKey("g", name, number), OffsetValue(offset=1, commit_timestamp_ms=3)))
    wanted = tuple(OffsetDeleteRequestPartition(partition_index=number) for number in partitions)
    topics = (OffsetDeleteRequestTopic(name=name, partitions=wanted),)
    deleted = await one.ask(OffsetDeleteRequest(group_id="g", topics=topics))
    assert deleted.error_code is NONE
    assert {each.error_code for each in deleted.topics[0].partitions} == {NONE}
    assert "g" not in active.shard.offsets


async def test_tombstones_of_which_not_all_find_a_place_in_the_queue_are_none(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.commit(1)
    (active,) = nodes[1].groups.shards
    monkeypatch.setattr(log_writer, "BATCH_BYTES_MAX", 1)
    monkeypatch.setattr(log_writer, "QUEUED_MAX", 1)
    tombstones = [GroupRecord(OffsetKey("g", "t", number), None) for number in range(2)]
    assert await active.write_tombstones(tombstones) is ErrorCode.coordinator_not_available
    await turns()
    assert await one.committed() == {"t-0": 1}


async def test_many_commits_share_batches(nodes: Nodes, one: Coordinator) -> None:
    errors = await asyncio.gather(*(one.commit(number, f"g{number % 10}") for number in range(200)))
    assert set(errors) == {NONE}
    assert await one.committed("g3") == {"t-0": 193}
    log = nodes.partition(1, GROUP_METADATA_TOPIC).log
    assert log.state.log_end_offset == 200
    (active,) = nodes[1].groups.shards
    assert sorted(active.shard.groups) == sorted(f"g{number}" for number in range(10))


# Administration.


@pytest.mark.parametrize("version", all_versions(ApiKey.LIST_GROUPS))
async def test_list_in_every_version(one: Coordinator, version: int) -> None:
    await one.commit(1, "simple")
    await one.enter("joined")

    async def listed(**filters: tuple[str, ...]) -> list[str]:
        answer = await one.ask(ListGroupsRequest(**filters), version)
        return [f"{each.group_id} {each.protocol_type}".strip() for each in answer.groups]

    assert sorted(await listed()) == ["joined consumer", "simple"]
    if version >= 4:
        assert await listed(states_filter=("empty",)) == ["simple"]
    if version >= 5:
        assert sorted(await listed(types_filter=("Classic",))) == ["joined consumer", "simple"]
        assert await listed(types_filter=("consumer",)) == []


@pytest.mark.parametrize("version", all_versions(ApiKey.DESCRIBE_GROUPS))
async def test_describe_in_every_version(one: Coordinator, version: int) -> None:
    member = (await one.enter()).member_id

    async def described(group: str) -> DescribeGroupsResponseDescribedGroup:
        answer = await one.ask(DescribeGroupsRequest(groups=(group,)), version)
        return answer.groups[0]

    before = await described("g")
    assert (before.group_state, before.protocol_data) == ("CompletingRebalance", "")
    assert [each.member_metadata for each in before.members] == [b""]
    await one.ask(syncing(member))
    after = await described("g")
    assert (after.group_state, after.protocol_type, after.protocol_data) == ("Stable", "consumer", "range")
    (found,) = after.members
    assert (found.member_id, found.client_host) == (member, "/127.0.0.1")
    assert (found.member_metadata, found.member_assignment) == (b"meta", b"all")
    absent = await described("x")
    assert (absent.group_state, absent.error_code) == (
        "Dead",
        ErrorCode.group_id_not_found if version >= 6 else NONE,
    )


@pytest.mark.parametrize("version", all_versions(ApiKey.DELETE_GROUPS))
async def test_delete_in_every_version(nodes: Nodes, one: Coordinator, version: int) -> None:
    await one.commit(1, "empty")
    await one.enter("full")
    names = ("empty", "full", "absent")
    answer = await one.ask(DeleteGroupsRequest(groups_names=names), version)
    assert {each.group_id: each.error_code for each in answer.results} == {
        "empty": NONE,
        "full": ErrorCode.non_empty_group,
        "absent": ErrorCode.group_id_not_found,
    }
    (active,) = nodes[1].groups.shards
    assert sorted(active.shard.groups) == ["full"]
    assert await one.committed("empty") == {}


async def test_a_group_that_is_being_deleted_takes_no_member_and_no_commit(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.commit(1)
    (active,) = nodes[1].groups.shards
    may_append = appends_later(nodes, monkeypatch)
    deleting = asyncio.create_task(one.ask(DeleteGroupsRequest(groups_names=("g",))))
    await until(lambda: active.shard.groups["g"].state is GroupState.DEAD)
    assert await one.commit(2) is ErrorCode.coordinator_not_available
    may_append.set()
    assert (await deleting).results[0].error_code is NONE
    assert (active.shard.groups, active.shard.offsets) == ({}, {})
    assert await one.commit(3) is NONE


async def test_a_group_that_could_not_be_deleted_is_as_it_was(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.commit(1)
    (active,) = nodes[1].groups.shards
    value = active.shard.groups["g"].as_value()

    async def refuse(_: object) -> ErrorCode:
        return ErrorCode.coordinator_not_available

    with monkeypatch.context() as patched:
        patched.setattr(active, "write_tombstones", refuse)
        deleted = await one.ask(DeleteGroupsRequest(groups_names=("g",)))
    assert deleted.results[0].error_code is ErrorCode.coordinator_not_available
    assert active.shard.groups["g"].as_value() == value
    assert active.shard.groups["g"].state is GroupState.EMPTY
    assert await one.committed() == {"t-0": 1}


async def test_groups_are_counted_by_state(nodes: Nodes, one: Coordinator) -> None:
    await one.commit(1)
    await one.enter("h")
    counts = nodes[1].groups.count_by_state()
    assert counts == {GroupState.EMPTY: 1, GroupState.COMPLETING_REBALANCE: 1}


# A change of coordinators.


@pytest.fixture
async def two(nodes: Nodes) -> Nodes:
    """Two brokers with the groups on both, 1 leading, and topic "t"."""
    nodes.configs["offsets.topic.replication.factor"] = "2"
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await Coordinator(nodes[1]).find()
    await until(lambda: all(nodes.hosts(number, GROUP_METADATA_TOPIC) for number in (1, 2)))
    await move(nodes, 1)
    return nodes


async def move(nodes: Nodes, leader: int) -> Coordinator:
    topic = nodes[leader].view.image.topics[GROUP_METADATA_TOPIC]
    if nodes.registration(GROUP_METADATA_TOPIC).leader != leader:
        await nodes[leader].view.elect_leader(topic.id_partition(0), leader)
    await until(lambda: [active.is_loaded for active in nodes[leader].groups.shards] == [True])
    return Coordinator(nodes[leader])


async def test_the_next_coordinator_knows_what_was_committed(two: Nodes) -> None:
    first = Coordinator(two[1])
    member = (await first.enter()).member_id
    await first.ask(syncing(member))
    assert await first.commit(5, member=member, generation=1) is NONE
    assert await first.commit(6, "simple") is NONE
    second = await move(two, 2)
    heartbeat = await second.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=member))
    assert heartbeat.error_code is NONE
    synced = await second.ask(replace(syncing(member), assignments=()))
    assert synced.assignment == b"all"
    assert await second.committed() == {"t-0": 5}
    assert await second.committed("simple") == {"t-0": 6}
    assert await first.commit(7, "simple") is ErrorCode.not_coordinator
    assert await second.commit(7, "simple") is NONE
    third = await move(two, 1)
    assert await third.committed("simple") == {"t-0": 7}


async def test_who_waits_is_told_to_look_for_the_next_coordinator(two: Nodes) -> None:
    first = Coordinator(two[1])
    member = (await first.enter()).member_id
    waiting = asyncio.create_task(first.enter())
    await until(lambda: any(group.members.rebalance_timeout_ms for group in _groups(two, 1)))
    assert not waiting.done()
    await move(two, 2)
    with pytest.raises(AssertionError, match="not_coordinator"):
        await waiting
    heartbeat = await first.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=member))
    assert heartbeat.error_code is ErrorCode.not_coordinator


@pytest.mark.parametrize("is_committed", [True, False])
async def test_offsets_of_a_transaction_that_another_coordinator_took_count_with_its_marker(
    nodes: Nodes, one: Coordinator, is_committed: bool
) -> None:
    """As a Java broker leaves them: TxnOffsetCommit itself is not offered here."""
    await one.commit(1)
    key, value = encode_key(OffsetKey("g", "t", 0)), encode_value(OffsetValue(offset=2, commit_timestamp_ms=3))
    data = build_batch(
        [Record(0, 3, key, value)], base_offset=0, producer_id=7, producer_epoch=0, is_transactional=True
    )
    partition = nodes.partition(1, GROUP_METADATA_TOPIC)
    await partition.append(memoryview(bytearray(data)), AppendOrigin.COORDINATOR, acks_all=True)
    await nodes.stop(1)
    await nodes.start(1)
    again = await ready(nodes, 1)
    asked = fetching(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)), require_stable=True)
    unstable = await again.ask(asked, 9)
    assert unstable.groups[0].topics[0].partitions[0].error_code is ErrorCode.unstable_offset_commit
    assert await again.committed() == {"t-0": 1}
    handler = TransactionMarkerHandler(nodes[1].hosted, nodes[1].groups, wall_clock_ms)
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=is_committed,
        topics=(WritableTxnMarkerTopic(name=GROUP_METADATA_TOPIC, partition_indexes=(0,)),),
        coordinator_epoch=0,
    )
    await ask_message(handler.write_txn_markers, WriteTxnMarkersRequest(markers=(marker,)), 1)
    assert await again.committed() == {"t-0": 2 if is_committed else 1}
    stable = await again.ask(asked, 9)
    assert stable.groups[0].topics[0].partitions[0].error_code is NONE


async def test_a_marker_that_is_committed_after_its_request_was_answered_decides_the_offsets(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator may send it once."""
    (active,) = nodes[1].groups.shards
    active.shard.replay_undecided(7, GroupRecord(OffsetKey("g", "t", 0), OffsetValue(offset=2, commit_timestamp_ms=3)))
    waits: list[asyncio.Future[None]] = []

    def committed(*_: object) -> asyncio.Future[None]:
        waits.append(asyncio.get_running_loop().create_future())
        return waits[-1]

    monkeypatch.setattr(txn_markers, "COMMIT_TIMEOUT_S", 0.01)
    monkeypatch.setattr(active.partition, "committed", committed)
    handler = TransactionMarkerHandler(nodes[1].hosted, nodes[1].groups, wall_clock_ms)
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=(WritableTxnMarkerTopic(name=GROUP_METADATA_TOPIC, partition_indexes=(0,)),),
        coordinator_epoch=0,
    )
    answer = await ask_message(handler.write_txn_markers, WriteTxnMarkersRequest(markers=(marker,)), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code is ErrorCode.request_timed_out
    await until(lambda: bool(waits))
    assert active.shard.has_undecided("g", TopicPartition("t", 0))
    waits[-1].set_result(None)
    await turns()
    assert not active.shard.has_undecided("g", TopicPartition("t", 0))
    assert await one.committed() == {"t-0": 2}


async def test_a_marker_waits_for_offsets_whose_commit_has_timed_out_and_does_not_spin(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    (active,) = nodes[1].groups.shards
    append, may_append = active.partition.append, asyncio.Event()

    async def late(*args: Any, **options: Any) -> LogAppendInfo:
        await may_append.wait()
        return await append(*args, **options)

    monkeypatch.setattr(active.partition, "append", late)
    record = GroupRecord(OffsetKey("g", "t", 0), OffsetValue(offset=2, commit_timestamp_ms=3))
    with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
        await active._writer.write([record], timeout_s=0.01, transaction=InTransaction(7, 0))
    loop, calls = asyncio.get_running_loop(), list[object]()
    call_soon = loop.call_soon

    def counted(callback: Any, *args: Any, **options: Any) -> asyncio.Handle:
        calls.append(callback)
        return call_soon(callback, *args, **options)

    active.end_transaction(7, is_committed=True)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_soon", counted)
        await turns()
    assert len(calls) < TURNS + 10, "nothing else has called"
    assert active.shard.has_undecided("g", TopicPartition("t", 0)) is False, "it is not in the log yet"
    may_append.set()
    await until(lambda: "g" in active.shard.offsets)
    assert await one.committed() == {"t-0": 2}


def _group(nodes: Nodes, group_id: str) -> Group:
    (active,) = nodes[1].groups.shards
    return active.shard.groups[group_id]


def _groups(nodes: Nodes, number: int) -> list:  # type: ignore[type-arg]
    return [group for active in nodes[number].groups.shards for group in active.shard.groups.values()]


@pytest.fixture
async def cut_off(nodes: Nodes) -> Coordinator:
    """Of broker 1, whose only follower stopped behind offset 1 of group "g" and stays in the ISR; 2 was tried."""
    nodes.configs |= {"replica.lag.time.max.ms": "60000", "offsets.commit.timeout.ms": "1500"}
    nodes.configs["offsets.topic.replication.factor"] = "2"
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await Coordinator(nodes[1]).find()
    await until(lambda: all(nodes.hosts(number, GROUP_METADATA_TOPIC) for number in (1, 2)))
    first = await move(nodes, 1)
    assert await first.commit(1) is NONE
    await nodes[2].fetchers.remove(nodes.partition(2, GROUP_METADATA_TOPIC).partition)
    assert await first.commit(2) is ErrorCode.coordinator_not_available
    return first


async def test_what_is_not_replicated_is_not_acknowledged(nodes: Nodes, cut_off: Coordinator) -> None:
    """Told after the timeout that its outcome is not known, a client finds out in the end."""
    assert await cut_off.committed() == {"t-0": 1}, "read is what is committed"
    await nodes[1].view.fence_broker(2)
    (active,) = nodes[1].groups.shards
    await until(lambda: [value.offset for value in active.shard.offsets["g"].values()] == [2])


async def test_a_new_coordinator_gives_out_nothing_that_may_be_lost(nodes: Nodes, cut_off: Coordinator) -> None:
    """It waits until what it found in its log is committed."""
    partition = nodes.partition(1, GROUP_METADATA_TOPIC)
    (before,) = nodes[1].groups.shards
    assert partition.log.state.log_end_offset == partition.log.state.high_watermark + 1
    follower = nodes.partition(2, GROUP_METADATA_TOPIC)
    nodes[2].fetchers.add = lambda *_: None
    await nodes.operator.elect_leader(partition.partition, 1)
    await until(lambda: [active is not before for active in nodes[1].groups.shards] == [True])
    with await partition.log.read(0, max_bytes=1 << 20, max_offset=partition.log.state.log_end_offset) as piece:
        assert await piece.read(), "what loading reads, so it would have been done by then"
    await turns()
    assert await cut_off.commit(3) is ErrorCode.coordinator_load_in_progress
    assert follower.log.state.log_end_offset == 1
    await nodes[1].view.fence_broker(2)
    assert await cut_off.committed() == {"t-0": 2}


async def test_a_restarted_coordinator_goes_on(nodes: Nodes, one: Coordinator) -> None:
    await one.commit(4)
    member = (await one.enter("h")).member_id
    await one.ask(syncing(member, "h"))
    await nodes.stop(1)
    await nodes.start(1)
    again = await ready(nodes, 1)
    assert await again.committed() == {"t-0": 4}
    heartbeat = await again.ask(HeartbeatRequest(group_id="h", generation_id=1, member_id=member))
    assert heartbeat.error_code is NONE


async def test_a_broker_stops_although_members_wait(nodes: Nodes, one: Coordinator) -> None:
    await one.enter()
    waiting = asyncio.create_task(one.join(version=3))
    await until(lambda: any(len(group.members) == 2 for group in _groups(nodes, 1)))
    async with asyncio.timeout(5):
        await nodes.stop(1)
    assert (await waiting).error_code is ErrorCode.not_coordinator


async def test_compaction_keeps_what_the_groups_are(nodes: Nodes, one: Coordinator) -> None:
    for number in range(300):
        assert await one.commit(number, f"g{number % 3}", metadata="x" * 100) is NONE
    log = nodes.partition(1, GROUP_METADATA_TOPIC).log
    await log.roll()
    await log.flush()
    (active,) = nodes[1].groups.shards
    before = {group: dict(offsets) for group, offsets in active.shard.offsets.items()}
    size = log.state.segments.size_bytes
    cleaned = await nodes[1].logs.upkeep.cleaner.clean_dirtiest()
    assert cleaned
    assert log.state.segments.size_bytes < size / 50
    await nodes.stop(1)
    await nodes.start(1)
    await ready(nodes, 1)
    (again,) = nodes[1].groups.shards
    assert again.shard.offsets == before
