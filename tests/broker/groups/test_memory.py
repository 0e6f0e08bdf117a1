"""What the members of groups may take: of their group's record, and of the broker's memory."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tierfetch.broker.groups.core.events import Join, MemberIdentity, Sync
from tierfetch.broker.groups.core.group import Group
from tierfetch.broker.groups.core.group_state import GroupSettings, GroupState
from tierfetch.broker.groups.core.memory import GROUP_BYTES, MEMBER_BYTES, GroupMemory, bytes_of
from tierfetch.broker.groups.core.records import encode_value
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.groups import (
    DeleteGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tierfetch.protocol.messages.groups import (
    MemberIdentity as LeavingMember,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.tests.broker.groups.conversation import ready
from tierfetch.tests.broker.groups.stage import DELAY_MS, Stage
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until

NONE, TOO_LARGE, FULL = ErrorCode.none, ErrorCode.group_max_size_reached, ErrorCode.coordinator_not_available
MIB = 1024 * 1024


def join(*metadata: bytes, member: str = "") -> Join:
    return Join(
        token=object(),
        who=MemberIdentity(member),
        new_member_id="new-member",
        client_id="app",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=tuple((f"p{number}", said) for number, said in enumerate(metadata)),
    )


def test_a_member_must_fit_into_the_groups_record_by_its_largest_protocol() -> None:
    memory, group = GroupMemory(), Group("g", GroupSettings())
    limit = 1_000
    fixed = 22 + len("new-member") + len("app") + len("/127.0.0.1")
    assert memory.judge(group, join(bytes(limit - fixed)), limit) is NONE
    assert memory.judge(group, join(bytes(limit - fixed + 1)), limit) is TOO_LARGE
    assert memory.judge(group, join(bytes(400), bytes(500)), limit) is NONE
    assert memory.judge(group, join(bytes(500), bytes(500)), limit) is TOO_LARGE, "all of it is kept meanwhile"


def test_a_group_that_is_let_in_can_be_stored() -> None:
    memory, stage = GroupMemory(), Stage()
    refused = 0
    for number in range(20):
        if memory.judge(stage.group, join(bytes(900)), 10_000) is NONE:
            stage.enter(f"m{number}", protocols=(("range", bytes(900)),))
        else:
            refused += 1
    for _ in range(2):
        stage.tick(DELAY_MS)
    assert stage.state is GroupState.COMPLETING_REBALANCE
    assert refused > 5
    assert 8_000 < len(encode_value(stage.group.as_value())) <= 10_000 + 100


def test_a_static_member_that_comes_back_with_other_protocols_counts_once() -> None:
    stage = Stage()
    stage.join("a", instance="s1", protocols=(("range", bytes(10)), ("other", bytes(20))))
    for _ in range(2):
        stage.tick(DELAY_MS)
    (member,) = stage.group.members.ids
    stage.sync(member, {member: b"x"}, instance="s1")
    assert stage.state is GroupState.STABLE
    stage.join("b", instance="s1", protocols=(("other", bytes(300)),))
    assert stage.group.members.protocol_bytes == len("other") + 300


def test_a_member_that_joins_again_counts_once() -> None:
    memory, stage = GroupMemory(bytes_max=10_000), Stage()
    stage.enter("a", protocols=(("p0", bytes(600)),))
    (member,) = stage.group.members.ids
    memory.hold("g", 9_900)
    assert memory.judge(stage.group, join(bytes(600), member=member), 1_000) is NONE
    assert memory.judge(stage.group, join(bytes(800), member=member), 1_000) is FULL
    assert memory.judge(stage.group, join(bytes(980), member=member), 1_000) is TOO_LARGE


def test_memory_is_that_of_all_groups() -> None:
    texts = len("new-member") + len("app") + len("/127.0.0.1")
    memory, group = GroupMemory(bytes_max=10_000 + texts), Group("g", GroupSettings())
    memory.hold("one", 5_000)
    memory.hold("two", 2_900)
    memory.hold("one", 5_050)
    assert memory.used == 7_950
    assert memory.judge(group, join(b""), MIB) is NONE
    memory.hold("two", 3_000)
    assert memory.judge(group, join(b""), MIB) is FULL
    memory.hold("two", 0)
    assert (memory.used, memory.judge(group, join(b""), MIB)) == (5_050, NONE)


def test_members_are_counted_while_their_group_is_there() -> None:
    memory = GroupMemory()
    memory.hold("one", 5_000, 5)
    memory.hold("two", 1_000, 1)
    memory.hold("one", 4_000, 4)
    assert memory.members == 5
    memory.hold("one", 0)
    assert memory.members == 1


async def test_a_group_that_is_being_deleted_when_leadership_ends_holds_nothing(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nodes.start(1)
    coordinator, memory = await ready(nodes, 1), nodes[1].groups.memory
    await coordinator.beat()
    await coordinator.beat(epoch=-1)
    (shard,) = nodes[1].groups.shards
    never = asyncio.Event()
    monkeypatch.setattr(shard.partition, "append", lambda *_, **__: never.wait())
    deleting = asyncio.create_task(coordinator.ask(DeleteGroupsRequest(groups_names=("c",))))
    await until(lambda: bool(shard._writer._under_way))
    nodes[1].groups.resigned(shard.partition.partition.topic_partition)
    await nodes[1].groups.close()
    assert (await deleting).results[0].error_code is ErrorCode.not_coordinator
    assert (memory.used, memory._held) == (0, {})


async def test_groups_are_accounted_for_while_they_are_there(nodes: Nodes) -> None:
    await nodes.start(1)
    coordinator, memory = await ready(nodes, 1), nodes[1].groups.memory
    assert memory.used == 0
    joined = await coordinator.enter()
    texts = sum(map(len, ("g", joined.member_id, "test", "/127.0.0.1")))
    assert memory.used == GROUP_BYTES + MEMBER_BYTES + texts + len("range") + len(b"meta")
    leaving = LeavingMember(member_id=joined.member_id)
    await coordinator.ask(LeaveGroupRequest(group_id="g", members=(leaving,)))
    assert memory.used == GROUP_BYTES + len("g")
    await coordinator.ask(DeleteGroupsRequest(groups_names=("g",)))
    assert memory.used == 0
    await coordinator.enter("h")
    (shard,) = nodes[1].groups.shards
    assert memory.used == bytes_of(shard.shard.groups["h"])
    nodes[1].groups.resigned(shard.partition.partition.topic_partition)
    await nodes[1].groups.close()
    assert memory.used == 0


async def test_members_that_are_too_large_or_too_many_are_refused(nodes: Nodes) -> None:
    await nodes.start(1)
    coordinator = await ready(nodes, 1)
    assert (await coordinator.join(metadata=bytes(2 * MIB))).error_code is TOO_LARGE
    first = await coordinator.join("h", metadata=bytes(700_000), version=3)
    assert first.error_code is NONE
    assert (await coordinator.join("h", metadata=bytes(700_000), version=3)).error_code is TOO_LARGE
    nodes[1].groups.memory.bytes_max = 2 * MIB
    assert (await coordinator.join("i", metadata=bytes(900_000), version=3)).error_code is NONE
    assert (await coordinator.join("j", metadata=bytes(900_000), version=3)).error_code is FULL


def test_A1_what_clients_call_themselves_and_what_they_assign_counts() -> None:
    """Each text may have 32 KiB, and four bytes for each character; an id that is given out holds its client's."""
    stage, wide = Stage(), "\N{GRINNING FACE}" * 1_000
    stage.join(wide, version=4)
    (given,) = stage.group.pending_joins
    assert bytes_of(stage.group) >= GROUP_BYTES + MEMBER_BYTES + 4_000
    stage.leave(MemberIdentity(given))
    before = bytes_of(stage.group)
    assert before == GROUP_BYTES + len("g")
    stage.enter(wide)
    for _ in range(2):
        stage.tick(DELAY_MS)
    (member,) = stage.group.members
    joined = bytes_of(stage.group)
    assert joined >= before + MEMBER_BYTES + 4 * (len(member.member_id) + len(member.client_id))
    stage.sync(member.member_id, {member.member_id: bytes(700)})
    assert bytes_of(stage.group) == joined + 700
    memory = GroupMemory(bytes_max=joined + 900)
    memory.hold("g", joined + 700)
    for size, code in ((900, NONE), (901, FULL), (700, NONE)):
        sync = Sync(token=object(), who=member.identity, generation_id=1, assignments={member.member_id: bytes(size)})
        assert memory.judge_assignments(stage.group, sync) is code
    stage.leave(member.identity)
    assert bytes_of(stage.group) == before


async def test_A1_an_assignment_for_which_there_is_no_memory_is_refused(nodes: Nodes) -> None:
    await nodes.start(1)
    coordinator, memory = await ready(nodes, 1), nodes[1].groups.memory
    joined = await coordinator.enter()
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(1_000))
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(assignment,),
    )
    memory.bytes_max = memory.used + 999
    assert (await coordinator.ask(sync)).error_code is FULL
    memory.bytes_max += 1
    assert (await coordinator.ask(sync)).error_code is NONE
    assert memory.used == memory.bytes_max


async def test_an_assignment_that_no_record_holds_is_answered_as_kafka_does(nodes: Nodes) -> None:
    await nodes.start(1)
    coordinator = await ready(nodes, 1)
    joined = await coordinator.enter()
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(8 * MIB))
    answer = await coordinator.ask(
        SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(assignment,),
        )
    )
    assert answer.error_code is ErrorCode.unknown_server_error


@pytest.mark.parametrize("size", [5 * MIB, 40 * MIB])
async def test_a_large_assignment_over_a_socket_is_answered_and_its_connection_stays_open(
    nodes: Nodes, size: int
) -> None:
    """Requests may have up to `socket.request.max.bytes`, as in Kafka."""
    await nodes.start(1)
    joined = await (await ready(nodes, 1)).enter()
    member = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))
    sync = SyncGroupRequest(**member, protocol_type="consumer", protocol_name="range", assignments=(assignment,))
    client = KafkaClient(client_id="member", random=Random(1))
    try:
        connection = await client.connection(Address("127.0.0.1", nodes[1].server.port))
        assert (await connection.send(sync)).error_code is ErrorCode.unknown_server_error
        assert (await connection.send(HeartbeatRequest(**member))).error_code is ErrorCode.rebalance_in_progress
    finally:
        await client.close()
