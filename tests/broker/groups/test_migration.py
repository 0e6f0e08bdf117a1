"""G1: a group changes its protocol while clients are upgraded, or taken back; with its offsets, whatever fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tierfetch.broker.cluster.view import NewTopic
from tierfetch.broker.groups.core.consumer.subscription import read_assignment, written_assignment
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tierfetch.protocol.wire import read_subscription
from tierfetch.tests.broker.groups.consumers import A, subscription, topics
from tierfetch.tests.broker.groups.conversation import Coordinator, ready
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until

NONE = ErrorCode.none
METADATA = subscription(("t",), {}, {}, 1)


async def started(nodes: Nodes, **configs: str) -> Coordinator:
    nodes.configs |= {key.replace("_", "."): value for key, value in configs.items()}
    await nodes.start(1)
    await nodes[1].view.create_topic(NewTopic("t", 2, 1))
    await until(lambda: nodes.hosts(1, "t"))
    return await ready(nodes, 1)


async def join(one: Coordinator, member: str = "", instance: str | None = None) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=METADATA),),
    )
    joined = await one.ask(request)
    return await join(one, joined.member_id) if joined.error_code is ErrorCode.member_id_required else joined


async def sync(one: Coordinator, member: str, generation: int, assignment: bytes = b"") -> Any:
    request = SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupRequestAssignment(member_id=member, assignment=assignment),) if assignment else (),
    )
    return await one.ask(request)


async def heartbeat(one: Coordinator, member: str, generation: int) -> ErrorCode:
    return (await one.ask(HeartbeatRequest(group_id="g", generation_id=generation, member_id=member))).error_code


async def classic_group(one: Coordinator, nodes: Nodes) -> str:
    """A classic group "g" whose one member has all of "t" and has committed 7."""
    joined = await join(one)
    known = nodes[1].groups._topics_now()
    everything = {known["t"].topic_id: frozenset(range(known["t"].partitions))}
    await sync(one, joined.member_id, 1, written_assignment(everything, known, 1))
    assert await one.commit(7, member=joined.member_id, generation=1) is NONE
    return str(joined.member_id)


async def kind_of(one: Coordinator) -> tuple[str, str]:
    (group,) = (await one.ask(ListGroupsRequest())).groups
    return group.group_type, group.protocol_type


async def restarted(nodes: Nodes) -> Coordinator:
    await nodes.stop(1)
    await nodes.start(1)
    return await ready(nodes, 1)


async def test_a_group_is_upgraded_and_taken_back(nodes: Nodes) -> None:
    one = await started(nodes)
    old = await classic_group(one, nodes)
    assert await kind_of(one) == ("classic", "consumer")

    new = await one.beat("n", group="g")
    assert (new.error_code, new.member_epoch) == (NONE, 2)
    assert new.assignment is not None
    assert new.assignment.topic_partitions == (), "the old member has everything still"
    assert await kind_of(one) == ("consumer", "consumer")
    one = await restarted(nodes)
    assert await kind_of(one) == ("consumer", "consumer")
    assert await one.committed() == {"t-0": 7}

    assert await heartbeat(one, "stranger", 1) is ErrorCode.unknown_member_id
    assert await heartbeat(one, old, 9) is ErrorCode.illegal_generation
    assert await heartbeat(one, old, 1) is ErrorCode.rebalance_in_progress
    assert (await sync(one, old, 1)).error_code is ErrorCode.rebalance_in_progress
    joined = await join(one, old)
    assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 2, "")
    given = (await sync(one, old, 2)).assignment
    known = nodes[1].groups._topics_now()
    assert sum(map(len, (read_assignment(given, known) or {}).values())) == 1
    assert await heartbeat(one, old, 2) is NONE
    assert await one.commit(8, member=old, generation=0) is ErrorCode.illegal_generation
    assert await one.commit(8, member=old, generation=3) is ErrorCode.illegal_generation
    assert await one.commit(8, member=old, generation=1) is NONE, "it has had the partition since (KIP-1251)"
    assert await one.commit(8, member=old, generation=2, version=7) is NONE
    shared = await one.beat("n", 2, group="g")
    assert shared.assignment is not None
    assert sum(len(each.partitions) for each in shared.assignment.topic_partitions) == 1

    assert (await one.beat("n", -1, group="g")).error_code is NONE
    assert await kind_of(one) == ("classic", "consumer")
    assert await heartbeat(one, old, 3) is ErrorCode.rebalance_in_progress
    joined = await join(one, old)
    assert (joined.error_code, joined.leader, joined.generation_id) == (NONE, old, 4)
    one = await restarted(nodes)
    assert await kind_of(one) == ("classic", "consumer")
    assert await one.committed() == {"t-0": 8}


async def test_only_a_member_that_joins_upgrades_a_group(nodes: Nodes) -> None:
    one = await started(nodes)
    old = await classic_group(one, nodes)
    (active,) = nodes[1].groups.shards
    group = active.shard.groups["g"]
    for member, epoch in (("n", 1), ("n", -1), (old, 1), (old, -1)):
        assert (await one.beat(member, epoch, group="g")).error_code is ErrorCode.group_id_not_found
    assert active.shard.groups["g"] is group
    assert await heartbeat(one, old, 1) is NONE


async def test_requests_that_wait_in_a_replaced_group_are_answered(nodes: Nodes) -> None:
    one = await started(nodes)
    await classic_group(one, nodes)
    (active,) = nodes[1].groups.shards
    waits = asyncio.create_task(join(one))
    await until(lambda: len(active.shard.groups["g"].members) == 2)
    active.become_classic("g", active.shard.groups["g"].as_value())
    async with asyncio.timeout(5):
        assert (await waits).error_code is ErrorCode.rebalance_in_progress


async def test_a_group_that_is_being_deleted_is_not_upgraded(nodes: Nodes) -> None:
    one = await started(nodes)
    assert await one.commit(7) is NONE
    (active,) = nodes[1].groups.shards
    active.shard.groups["g"].die()
    assert (await one.beat("n", group="g")).error_code is ErrorCode.coordinator_not_available


async def test_groups_of_both_protocols_have_timers_of_their_own(nodes: Nodes) -> None:
    one = await started(nodes)
    await one.beat("n", group="g")
    await one.enter("\0g")
    (active,) = nodes[1].groups.shards
    timers = len(active._timers)
    active.consumers.forget("g")
    assert timers - len(active._timers) == 1
    assert "\0g" in active._timers


async def test_the_last_new_member_that_is_lost_gives_the_group_back(nodes: Nodes) -> None:
    one = await started(nodes)
    old = await classic_group(one, nodes)
    await one.beat("n", group="g")
    (active,) = nodes[1].groups.shards
    group = active.shard.consumers["g"]
    group.sessions["n"] = 0
    active.consumers.set_timer(group)
    await until(lambda: "g" in active.shard.groups)
    assert "g" not in active.shard.consumers
    assert await heartbeat(one, old, 3) is ErrorCode.rebalance_in_progress


async def test_a_static_member_is_taken_back_and_upgraded_while_its_old_one_is_there(nodes: Nodes) -> None:
    one = await started(nodes)
    assert (await one.beat("n", group="g", instance_id="i")).error_code is NONE
    joined = await join(one, instance="i")
    assert joined.error_code is NONE
    assert await kind_of(one) == ("classic", "consumer")
    again = await join(one, joined.member_id, instance="i")
    assert (again.error_code, again.leader) == (NONE, joined.member_id)

    assert (await one.beat("m", group="g", instance_id="i")).error_code is NONE
    assert await kind_of(one) == ("consumer", "consumer")
    (active,) = nodes[1].groups.shards
    assert active.shard.consumers["g"].static == {"i": "m"}


async def test_old_members_leave_a_group_of_both(nodes: Nodes) -> None:
    one = await started(nodes)
    old = await classic_group(one, nodes)
    await one.beat("n", group="g")
    left = await one.ask(LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=old),)))
    assert [each.error_code for each in left.members] == [NONE]
    found = await one.beat("n", 2, group="g")
    assert found.assignment is not None
    assert sum(len(each.partitions) for each in found.assignment.topic_partitions) == 2


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
async def test_a_policy_keeps_a_group_as_it_is(nodes: Nodes, policy: str) -> None:
    one = await started(nodes, group_consumer_migration_policy=policy)
    old = await classic_group(one, nodes)
    assert (await one.beat("n", group="g")).error_code is ErrorCode.group_id_not_found
    assert await heartbeat(one, old, 1) is NONE


async def test_a_policy_keeps_an_upgraded_group_upgraded(nodes: Nodes) -> None:
    one = await started(nodes, group_consumer_migration_policy="upgrade")
    await classic_group(one, nodes)
    await one.beat("n", group="g")
    await one.beat("n", -1, group="g")
    assert await kind_of(one) == ("consumer", "consumer")


async def test_an_upgrade_that_cannot_be_written_leaves_the_group_as_it_was(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await started(nodes)
    old = await classic_group(one, nodes)
    (active,) = nodes[1].groups.shards

    async def refuse(*_: Any, **__: Any) -> Any:
        raise KafkaError(ErrorCode.not_enough_replicas, "no")

    with monkeypatch.context() as patch:
        patch.setattr(type(active.partition), "append", refuse)
        assert (await one.beat("n", group="g")).error_code is ErrorCode.coordinator_not_available
    assert await kind_of(one) == ("classic", "consumer")
    assert await heartbeat(one, old, 1) is NONE
    assert (await one.beat("n", group="g")).error_code is NONE
    with monkeypatch.context() as patch:
        patch.setattr(type(active.partition), "append", refuse)
        assert (await one.beat("n", -1, group="g")).error_code is ErrorCode.coordinator_not_available
    assert await kind_of(one) == ("consumer", "consumer")
    assert (await one.beat("n", 2, group="g")).error_code is NONE


def test_what_clients_of_the_classic_protocol_say_is_read() -> None:
    known = topics(a=3, b=1)
    read = read_subscription(subscription(("b", "a"), {A: frozenset({2, 0})}, known, 1))
    assert read is not None
    assert (read.version, read.topics, read.owned) == (1, ("a", "b"), {"a": frozenset({0, 2})})
    assert read_subscription(b"meta") is None
    assert read_subscription(b"") is None
    written = written_assignment({A: frozenset({2, 0})}, known, 7)
    assert written.startswith(b"\x00\x03")
    assert read_assignment(written, known) == {A: frozenset({0, 2})}
    assert read_assignment(written, {}) == {}
    assert read_assignment(b"\x00", known) is None


@pytest.mark.parametrize(("version", "rack"), [(1, None), (2, None), (3, "r"), (3, None)])
def test_G1_the_rack_of_a_classic_member_is_told_where_its_protocol_has_one(version: int, rack: str | None) -> None:
    data = subscription(("t",), {}, {}, version, rack)
    found = read_subscription(data)
    assert found is not None
    assert (found.topics, found.rack_id) == (("t",), rack)
    cut = read_subscription(data[:-1] if version >= 2 else data)
    assert cut is not None, "nothing depends on it"
    assert (cut.topics, cut.rack_id) == (("t",), None)
