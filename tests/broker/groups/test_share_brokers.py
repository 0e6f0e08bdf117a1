"""Share groups (KIP-932) in whole brokers, over the wire: members, share-partitions, operators, other coordinators."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import NewTopic
from tierfetch.broker.groups import decided_groups, share_groups
from tierfetch.broker.groups.active_shard import ActiveShard
from tierfetch.broker.groups.core.share.heartbeat import ShareDecision
from tierfetch.broker.groups.core.share.records import TopicStarts
from tierfetch.broker.handlers.shares import groups as groups_of_shares
from tierfetch.broker.share_state.core.state import ShareState, is_fence
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from tierfetch.protocol.messages.groups import (
    DeleteGroupsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
)
from tierfetch.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tierfetch.protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tierfetch.protocol.messages.share_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
    InitializeStateData,
)
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until

NONE = ErrorCode.none
RETRIED = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}
CONFIGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
OFFSETS, STATE = "__consumer_offsets", "__share_group_state"


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path, CONFIGS)
    yield nodes
    await nodes.close()


@pytest.fixture
async def group(nodes: Nodes) -> AsyncIterator[Group]:
    client = KafkaClient(client_id="consumer", random=random.Random(1))
    await nodes.start(1)
    await nodes.topic("t", 1)
    group = Group(nodes, client)
    await group.find()
    yield group
    await client.close()


class Group:
    """Share group "g", as clients and operators ask for it."""

    def __init__(self, nodes: Nodes, client: KafkaClient) -> None:
        self.nodes = nodes
        self.client = client

    @property
    def active(self) -> ActiveShard:
        (active,) = self.nodes[1].groups.shards
        return active

    @property
    def initialized(self) -> dict[str, frozenset[int]]:
        held = self.active.shard.shares["g"].starts.initialized
        return {topic.name: topic.partitions for topic in held.values()}

    @property
    def kept(self) -> list[ShareState]:
        """What the share coordinator has of share-partitions that are not deleted."""
        (state,) = self.nodes[1].shares.shards
        return [held.state for held in state.shard.held.values() if not is_fence(held.state)]

    async def send(self, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        return await self.client.send(self.nodes[1].address, request, max_version=version, timeout_s=10)

    async def find(self) -> None:
        async with asyncio.timeout(30):
            while True:
                found = await self.send(FindCoordinatorRequest(coordinator_keys=("g",)))
                if found.coordinators[0].error_code is NONE:
                    break
                await asyncio.sleep(0.01)
        await until(lambda: [active.is_loaded for active in self.nodes[1].groups.shards] == [True])

    async def beat(
        self,
        member: str = "m",
        epoch: int = 0,
        topics: tuple[str, ...] | None = None,
        group: str = "g",
        rack: str | None = None,
    ) -> ShareGroupHeartbeatResponse:
        asked = ("t",) if topics is None and epoch == 0 else topics
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, rack_id=rack, subscribed_topic_names=asked
        )
        return await self.send(request)

    async def delete(self) -> ErrorCode:
        return (await self.send(DeleteGroupsRequest(groups_names=("g",)))).results[0].error_code

    async def alter(self, offset: int, *, partition: int = 0, topic: str = "t") -> tuple[ErrorCode, ErrorCode | None]:
        data = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
        asked = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=(data,))
        answer = await self.send(AlterShareGroupOffsetsRequest(group_id="g", topics=(asked,)))
        return answer.error_code, answer.responses[0].partitions[0].error_code if answer.responses else None

    async def offsets(self, *topics: str) -> dict[str, tuple[ErrorCode, int]]:
        asked = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(0,)) for name in topics]
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=tuple(asked) or None)
        (answer,) = (await self.send(DescribeShareGroupOffsetsRequest(groups=(wanted,)))).groups
        assert answer.error_code is NONE
        return {
            topic.topic_name: (each.error_code, each.start_offset)
            for topic in answer.topics
            for each in topic.partitions
        }


async def test_a_member_joins_is_assigned_at_once_and_leaves(group: Group) -> None:
    joined = await group.beat()
    assert (joined.error_code, joined.heartbeat_interval_ms) == (NONE, 5000)
    assert joined.assignment is not None
    assert [each.partitions for each in joined.assignment.topic_partitions] == [(0,)]
    assert group.initialized == {"t": frozenset({0})}
    stayed = await group.beat("m", joined.member_epoch)
    assert (stayed.error_code, stayed.member_epoch, stayed.assignment) == (NONE, joined.member_epoch, None)
    other = await group.beat("n")
    assert other.assignment == joined.assignment, "they share it"
    for member in ("m", "n"):
        assert (await group.beat(member, -1)).member_epoch == -1
    assert (await group.beat("m", 3)).error_code is ErrorCode.unknown_member_id
    for name in ("", " \t"):
        assert (await group.beat(group=name)).error_code is ErrorCode.invalid_request
    assert (await group.beat(" ")).error_code is ErrorCode.invalid_request, "a member's id"


async def test_what_an_operator_sees(group: Group) -> None:
    await group.beat(rack="r")
    (listed,) = (await group.send(ListGroupsRequest(types_filter=("share",)))).groups
    assert (listed.group_id, listed.group_state, listed.group_type, listed.protocol_type) == (
        "g",
        "Stable",
        "share",
        "share",
    )
    asked = ShareGroupDescribeRequest(group_ids=("g", "no"), include_authorized_operations=True)
    found, absent = (await group.send(asked)).groups
    (member,) = found.members
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        2,
        2,
        "simple",
    )
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == ("m", 2, ("t",))
    assert member.rack_id == "r"
    await group.beat("m", 2)
    (found, _) = (await group.send(asked)).groups
    assert found.members[0].rack_id == "r", "it is told once, and kept"
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert absent.error_code is ErrorCode.group_id_not_found
    again = (
        await group.send(ShareGroupDescribeRequest(group_ids=("g",) * 1000, include_authorized_operations=False))
    ).groups
    assert [each.group_id for each in again] == ["g"], "named often, told once"


async def test_a_group_is_of_one_kind(group: Group) -> None:
    await group.beat()
    consumer = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    assert (await group.send(consumer)).error_code is ErrorCode.group_id_not_found
    joining = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    assert (await group.send(joining)).error_code is ErrorCode.inconsistent_group_protocol
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    for group_id, error in (("g", ErrorCode.group_id_not_found), ("classic", NONE)):
        topic = OffsetCommitRequestTopic(name="t", topic_id=None, partitions=(offset,))
        commit = OffsetCommitRequest(group_id=group_id, member_id="", topics=(topic,))
        assert (await group.send(commit, 9)).topics[0].partitions[0].error_code is error
    assert (await group.beat(group="classic")).error_code is ErrorCode.group_id_not_found


async def test_another_coordinator_goes_on(nodes: Nodes, group: Group) -> None:
    epoch = (await group.beat()).member_epoch
    before = list(group.active.shard.shares["g"].records())
    await nodes.stop(1)
    await nodes.start(1)
    await until(lambda: any(active.is_loaded for active in nodes[1].groups.shards))
    assert list(group.active.shard.shares["g"].records()) == before
    assert (await group.beat("m", epoch)).error_code is NONE


async def test_offsets_are_set_and_deleted_while_nobody_reads(group: Group) -> None:
    await group.beat()
    assert await group.alter(5) == (ErrorCode.non_empty_group, None)
    assert await group.offsets() == {"t": (NONE, -1)}, "its first leader has not chosen one"
    await group.beat("m", -1)
    assert await group.alter(5) == (NONE, NONE)
    assert await group.alter(5, partition=7) == (NONE, ErrorCode.unknown_topic_or_partition)
    assert await group.alter(5, topic="no") == (NONE, ErrorCode.unknown_topic_or_partition)
    for unknown in (-1, -2):
        assert await group.alter(unknown) == (NONE, ErrorCode.invalid_request)
    assert await group.offsets() == {"t": (NONE, 5)}
    assert await group.offsets("t", "no") == {"t": (NONE, 5), "no": (ErrorCode.unknown_topic_or_partition, -1)}
    await group.nodes[1].view.create_topic(NewTopic("unused", 1, 1))
    names = tuple(DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "no", "unused"))
    unknown = ErrorCode.unknown_topic_or_partition
    for codes in ([NONE, unknown, unknown], [unknown] * 3):
        deleted = await group.send(DeleteShareGroupOffsetsRequest(group_id="g", topics=names))
        assert [each.error_code for each in deleted.responses] == codes
    assert await group.offsets() == {}
    assert group.kept == []


async def test_a_group_may_begin_with_its_offsets(group: Group) -> None:
    """As with Kafka: an operator says where it begins before its first member joins."""
    assert await group.alter(5, topic="no") == (NONE, ErrorCode.unknown_topic_or_partition)
    assert group.active.shard.shares == {}, "nothing was said of it"
    assert await group.alter(5) == (NONE, NONE)
    assert await group.offsets() == {"t": (NONE, 5)}
    await group.beat()
    assert await group.offsets() == {"t": (NONE, 5)}
    assert await group.alter(5) == (ErrorCode.non_empty_group, None)


async def test_offsets_are_told_once_and_in_time(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    await group.beat()
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=(number, 0)) for number in (0, 1)]
    wanted = [DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=(topic,)) for topic in topics]
    (answer,) = (await group.send(DescribeShareGroupOffsetsRequest(groups=tuple(wanted)))).groups
    assert [[each.partition_index for each in topic.partitions] for topic in answer.topics] == [[0, 1]]
    monkeypatch.setattr(groups_of_shares, "OFFSETS_S", 0.0)
    assert await group.offsets() == {"t": (ErrorCode.coordinator_not_available, -1)}


async def test_partitions_of_a_topic_that_is_named_twice_all_begin(group: Group) -> None:
    await group.nodes[1].view.create_topic(NewTopic("u", 2, 1))
    await group.beat(topics=("t",))
    await group.beat("m", -1)
    asked = tuple(
        AlterShareGroupOffsetsRequestTopic(
            topic_name="u",
            partitions=(AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=number),),
        )
        for number in range(2)
    )
    assert (await group.send(AlterShareGroupOffsetsRequest(group_id="g", topics=asked))).error_code is NONE
    assert group.initialized["u"] == frozenset({0, 1})


async def test_a_group_is_deleted_with_its_state(nodes: Nodes, group: Group) -> None:
    await group.beat()
    assert len(group.kept) == 1
    assert await group.delete() is ErrorCode.non_empty_group
    await group.beat("m", -1)
    assert await group.delete() is NONE
    assert group.kept == []
    assert await group.delete() is ErrorCode.group_id_not_found
    await nodes.stop(1)
    await nodes.start(1)
    await until(lambda: any(active.is_loaded for active in nodes[1].groups.shards))
    assert group.active.shard.shares == {}
    assert (await group.beat()).assignment is not None, "it begins again"


async def test_an_operator_waits_so_long_for_the_work_before_it(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    await group.beat()
    await group.beat("m", -1)
    monkeypatch.setattr(share_groups, "WORK_WAIT_S", 0.01)
    shares = group.active.shares
    shares._work["g"] = asyncio.get_running_loop().create_future()
    assert await group.delete() is ErrorCode.coordinator_not_available
    shares._end_work("g")
    assert await group.delete() is NONE


async def test_a_deletion_that_cannot_be_queued_never_was(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    await group.beat()
    await group.beat("m", -1)
    queue = group.active.shares._queue

    def full(decision: ShareDecision, was: object = None) -> None:
        if decision.group.is_nothing:
            raise KafkaError(ErrorCode.coordinator_not_available, "the queue is full")
        queue(decision, was)

    monkeypatch.setattr(group.active.shares, "_queue", full)
    assert await group.delete() is ErrorCode.coordinator_not_available
    assert group.active.shard.shares["g"].epoch > 0
    monkeypatch.undo()
    assert await group.delete() is NONE
    assert group.active.shard.shares == {}


async def test_a_topic_that_is_deleted_leaves_the_group(nodes: Nodes, group: Group) -> None:
    await group.beat()
    await nodes.operator.delete_topic("t")
    await until(lambda: group.initialized == {})
    told = await group.beat("m", 2)
    assert told.assignment is not None
    assert told.assignment.topic_partitions == ()


async def test_what_the_log_refuses_never_was(nodes: Nodes, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    await group.beat()
    before = sorted(map(repr, group.active.shard.shares["g"].records()))

    async def refused(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.not_enough_replicas, "one of two")

    monkeypatch.setattr(decided_groups, "RETRY_MS", 60_000)
    monkeypatch.setattr(nodes.partition(1, OFFSETS), "append", refused)
    answers = await asyncio.gather(group.beat("n"), group.beat("o"), group.beat("m", -1))
    assert {answer.error_code for answer in answers} == {ErrorCode.coordinator_not_available}
    assert sorted(map(repr, group.active.shard.shares["g"].records())) == before
    assert "m" in group.active.shard.shares["g"].sessions
    monkeypatch.undo()
    assert (await group.beat("n")).error_code is NONE


async def test_share_partitions_that_no_coordinator_takes_are_initialized_later(
    nodes: Nodes, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, failing = nodes[1].groups.states, share_groups.NoStates()
    nodes[1].groups.use(failing)
    joined = await group.beat()
    assert joined.assignment is not None
    assert joined.assignment.topic_partitions == ()
    assert group.initialized == {}
    nodes[1].groups.use(states)
    monkeypatch.setattr(group.active.shares, "_retry_at_ms", {})
    await group.beat("m", joined.member_epoch)
    await until(lambda: group.initialized == {"t": frozenset({0})})
    told = await group.beat("m", joined.member_epoch)
    assert told.assignment is not None
    assert told.assignment.topic_partitions[0].partitions == (0,)


async def test_a_deletion_that_another_coordinator_began_is_ended(nodes: Nodes, group: Group) -> None:
    await group.beat()
    await group.beat("m", -1)
    states = nodes[1].groups.states
    nodes[1].groups.use(share_groups.NoStates())
    assert await group.delete() is ErrorCode.coordinator_not_available
    held = group.active.shard.shares["g"].starts
    assert (held.initialized, list(held.deleting.values())) == ({}, ["t"])
    nodes[1].groups.use(states)
    assert await group.delete() is NONE
    assert group.kept == []
    assert replace(held, deleting={}).is_empty


async def test_a_deletion_that_was_not_ended_is_before_a_member_begins_again(nodes: Nodes, group: Group) -> None:
    await group.beat()
    await group.beat("m", -1)
    assert await group.alter(5) == (NONE, NONE)
    states = nodes[1].groups.states
    nodes[1].groups.use(share_groups.NoStates())
    assert await group.delete() is ErrorCode.coordinator_not_available
    nodes[1].groups.use(states)
    assert [state.snapshot.start_offset for state in group.kept] == [5]
    joined = await group.beat("n")
    assert joined.assignment is not None
    assert [each.partitions for each in joined.assignment.topic_partitions] == [(0,)]
    assert group.active.shard.shares["g"].starts.deleting == {}
    assert await group.offsets("t") == {"t": (NONE, -1)}, "nothing of the deleted state is left"


async def late(group: Group, state_epoch: int, start_offset: int) -> ErrorCode:
    """Let a share-partition begin as one that asked long ago."""
    data = InitializeShareGroupStateRequestPartitionData(
        partition=0, state_epoch=state_epoch, start_offset=start_offset
    )
    topic_id = group.nodes[1].view.image.topics["t"].topic_id
    topic = InitializeStateData(topic_id=topic_id, partitions=(data,))
    answer = await group.send(InitializeShareGroupStateRequest(group_id="g", topics=(topic,)))
    return answer.results[0].partitions[0].error_code


async def test_what_a_deleted_group_asked_for_and_comes_late_is_fenced_also_in_the_next_group(group: Group) -> None:
    """It came back to life, and a new group of the same name began there, or could not begin at all."""
    await group.beat()
    await group.beat("m", -1)
    assert await group.alter(5) == (NONE, NONE)
    epoch = group.active.shard.shares["g"].epoch
    assert await group.delete() is NONE
    assert await late(group, epoch, 500) is ErrorCode.fenced_state_epoch
    assert group.kept == []
    joined = await group.beat("n")
    assert joined.assignment is not None
    assert [each.partitions for each in joined.assignment.topic_partitions] == [(0,)]
    assert group.active.shard.shares["g"].epoch > epoch
    assert await late(group, epoch, 500) is ErrorCode.fenced_state_epoch
    assert await group.offsets("t") == {"t": (NONE, -1)}, "the new group begins where it wants"


async def test_a_group_begins_above_what_share_coordinators_know_of_one_before_it(nodes: Nodes, group: Group) -> None:
    """Such as a group whose records were lost: what it had read stays read."""
    await group.beat(group="other")
    assert await late(group, 50, 7) is NONE
    joined = await group.beat("n")
    assert joined.assignment is not None
    assert [each.partitions for each in joined.assignment.topic_partitions] == [(0,)]
    assert group.active.shard.shares["g"].epoch > 50
    assert await group.offsets("t") == {"t": (NONE, 7)}
    await nodes.stop(1)
    await nodes.start(1)
    await until(lambda: any(active.is_loaded for active in nodes[1].groups.shards))
    assert group.active.shard.shares["g"].epoch > 50, "it is durable"


async def test_a_fence_goes_with_the_first_upkeep_after_its_time(
    nodes: Nodes, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.beat()
    await group.beat("m", -1)
    assert await group.delete() is NONE
    (state,) = nodes[1].shares.shards
    await nodes[1].shares.prune(state)
    assert [is_fence(held.state) for held in state.shard.held.values()] == [True]
    monkeypatch.setattr("tierfetch.broker.share_state.core.state.FENCE_MS", 0)
    await nodes[1].shares.prune(state)
    assert state.shard.held == {}


def test_what_is_initialized_at_once_is_bounded() -> None:
    topic = TopicStarts("t", frozenset(range(share_groups.AT_ONCE_MAX + 5)))
    other = TopicStarts("u", frozenset({0}))
    some = share_groups._some({topic_id(1): topic, topic_id(2): other})
    assert some == {topic_id(1): TopicStarts("t", frozenset(range(share_groups.AT_ONCE_MAX)))}


def topic_id(number: int) -> UUID:
    return UUID(int=number)


async def test_A2_a_share_group_stays_whole_whatever_its_members_and_operators_say(nodes: Nodes, group: Group) -> None:
    int32, int64 = (0, -1, 2**31 - 1, -(2**31)), (0, -1, 2**63 - 1, -(2**63))
    names = ("", "\0", "t", "a" * 300, "\u00e4" * 80)
    asked = cycle([None, (), names, ("t", "t")])
    racks = cycle([None, "", "a" * 300])
    epoch = (await group.beat("honest")).member_epoch
    for number, member_epoch in enumerate((*int32, 1, -2)):
        for member in ("", f"m{number % 3}", "a" * 300):
            for _ in range(4):
                await group.beat(member, member_epoch, next(asked), rack=next(racks))
        beat = await group.beat("honest", epoch)
        assert beat.error_code is NONE
        epoch = beat.member_epoch
    members = group.active.shard.shares["g"].members
    for member in [each for each in members if each != "honest"]:
        await group.beat(member, -1)
    assert list(members) == ["honest"]
    for offset, partition in product(int64, int32):
        assert (await group.alter(offset, partition=partition))[0] is ErrorCode.non_empty_group
    await group.beat("honest", -1)
    for name in names:
        for offset, partition in product(int64, int32):
            code = (await group.alter(offset, partition=partition, topic=name))[1]
            is_right = (name, partition) == ("t", 0) and offset >= 0
            assert (code is NONE) is is_right, (name, partition, offset, code)
    before = list(group.active.shard.shares["g"].records())
    await nodes.stop(1)
    await nodes.start(1)
    await group.find()
    assert list(group.active.shard.shares["g"].records()) == before
