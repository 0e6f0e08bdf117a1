"""G1: consumer groups of KIP-848 in whole brokers: what is asked about them, what fences, and what survives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.groups import consumer_groups, decided_groups
from tierfetch.broker.groups.core.consumer import topics
from tierfetch.broker.groups.core.consumer.records import (
    ClassicMetadata,
    ConsumerKey,
    Current,
    GroupEpoch,
    Kind,
    MemberState,
    Resolved,
    Subscriber,
    Target,
    TargetEpoch,
)
from tierfetch.broker.groups.core.records import GroupRecord, decode_record
from tierfetch.broker.groups.core.targeted import SETTLING_INTERVAL_MIN_MS
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from tierfetch.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
)
from tierfetch.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tierfetch.protocol.topics import GROUP_METADATA_TOPIC
from tierfetch.protocol.wire.primitives import TAGGED_ELEMENTS_MAX
from tierfetch.tests.broker.groups.conversation import Coordinator, ready
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until

NONE = ErrorCode.none


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_joins_stays_and_leaves(one: Coordinator, version: int) -> None:
    joined = await one.beat("m" if version else "", version=version)
    assert (joined.error_code, joined.member_epoch) == (NONE, 1)
    assert joined.heartbeat_interval_ms == SETTLING_INTERVAL_MIN_MS
    assert joined.assignment is not None
    assert [each.partitions for each in joined.assignment.topic_partitions] == [(0,)]
    assert joined.member_id
    stayed = await one.beat(joined.member_id, 1, version=version)
    assert (stayed.error_code, stayed.member_epoch, stayed.assignment) == (NONE, 1, None)
    left = await one.beat(joined.member_id, -1, version=version)
    assert (left.error_code, left.member_epoch) == (NONE, -1)
    assert (await one.beat(joined.member_id, 1, version=version)).error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
async def test_a_group_needs_a_name_that_is_not_blank(one: Coordinator, name: str) -> None:
    assert (await one.beat(group=name)).error_code is ErrorCode.invalid_request


async def test_offsets_are_fenced_by_the_member_epoch(one: Coordinator) -> None:
    await one.beat()
    assert await one.commit(5, "c", member="m", generation=1) is NONE
    assert await one.commit(6, "c", member="m", generation=2) is ErrorCode.stale_member_epoch
    assert await one.commit(6, "c", member="x", generation=1) is ErrorCode.unknown_member_id
    assert await one.commit(6, "c") is ErrorCode.unknown_member_id
    assert await one.commit(6, "c", member="m", generation=1, version=8) is ErrorCode.unsupported_version
    for member, epoch, error in [
        ("m", 1, NONE),
        ("m", 2, ErrorCode.stale_member_epoch),
        ("x", 1, ErrorCode.unknown_member_id),
        (None, -1, NONE),
    ]:
        group = OffsetFetchRequestGroup(group_id="c", topics=None, member_id=member, member_epoch=epoch)
        answer = await one.ask(OffsetFetchRequest(groups=(group,)), 9)
        assert answer.groups[0].error_code is error
    assert await one.committed("c") == {"t-0": 5}


async def test_G1_a_commit_in_an_epoch_before_the_members_own_counts_for_what_it_has_had_since(
    one: Coordinator,
) -> None:
    """KIP-1251: the answer that raises its epoch may be under way."""
    await one.beat()
    assert (await one.beat("n")).member_epoch == 2
    assert (await one.beat("m", 1)).member_epoch == 2, "this answer is lost"
    assert await one.commit(5, "c", member="m", generation=1) is NONE
    assert await one.commit(6, "c", member="m", generation=0) is ErrorCode.stale_member_epoch
    assert await one.commit(6, "c", member="n", generation=1) is ErrorCode.stale_member_epoch
    group = OffsetFetchRequestGroup(group_id="c", topics=None, member_id="m", member_epoch=1)
    answer = await one.ask(OffsetFetchRequest(groups=(group,)), 9)
    assert answer.groups[0].error_code is ErrorCode.stale_member_epoch
    assert await one.committed("c") == {"t-0": 5}


async def test_what_an_operator_sees(one: Coordinator) -> None:
    await one.beat(instance_id="i", rack_id="r")
    await one.commit(1, "simple")
    listed = (await one.ask(ListGroupsRequest())).groups
    assert {(each.group_id, each.group_type, each.group_state) for each in listed} == {
        ("c", "consumer", "Stable"),
        ("simple", "classic", "Empty"),
    }
    assert [each.group_id for each in (await one.ask(ListGroupsRequest(types_filter=("Consumer",)))).groups] == ["c"]
    asked = ConsumerGroupDescribeRequest(group_ids=("c", "simple", "c"), include_authorized_operations=True)
    group, other = (await one.ask(asked)).groups
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable",
        1,
        1,
        "uniform",
    )
    (member,) = group.members
    assert (member.instance_id, member.rack_id, member.member_epoch, member.member_type) == ("i", "r", 1, 1)
    assert member.subscribed_topic_names == ("t",)
    assert member.assignment == member.target_assignment
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert other.error_code is ErrorCode.group_id_not_found
    described = (await one.ask(DescribeGroupsRequest(groups=("c",)))).groups[0]
    assert described.error_code is ErrorCode.group_id_not_found
    for error in (ErrorCode.non_empty_group, NONE, ErrorCode.group_id_not_found):
        assert (await one.ask(DeleteGroupsRequest(groups_names=("c",)))).results[0].error_code is error
        await one.beat("m", -1)


async def test_a_group_is_of_one_protocol_until_it_is_empty(one: Coordinator) -> None:
    await one.beat()
    assert (await one.join("c")).error_code is ErrorCode.inconsistent_group_protocol  # It is no consumer.
    heartbeat = await one.ask(HeartbeatRequest(group_id="c", generation_id=1, member_id="m"))
    assert heartbeat.error_code is ErrorCode.unknown_member_id
    assert await one.commit(3, "c", member="m", generation=1) is NONE
    await one.beat("m", -1)
    member = (await one.enter("c")).member_id
    assert (await one.beat("n")).error_code is ErrorCode.group_id_not_found
    assert await one.committed("c") == {"t-0": 3}
    assert member


async def test_another_coordinator_goes_on_with_the_group(nodes: Nodes, one: Coordinator) -> None:
    await one.beat()
    await one.commit(4, "c", member="m", generation=1)
    (active,) = nodes[1].groups.shards
    before = list(active.shard.consumers["c"].records())
    await nodes.stop(1)
    await nodes.start(1)
    again = await ready(nodes, 1)
    (active,) = nodes[1].groups.shards
    assert list(active.shard.consumers["c"].records()) == before
    assert active.shard.consumers["c"].deadline_ms() is not None
    assert (await again.beat("m", 1)).error_code is NONE
    assert await again.commit(5, "c", member="m", generation=1) is NONE


async def test_an_expression_is_matched_after_the_join(nodes: Nodes, one: Coordinator) -> None:
    await nodes.topic("other", 1)
    joined = await one.beat(subscribed_topic_names=None, subscribed_topic_regex="oth.*")
    assert joined.assignment is not None
    assert joined.assignment.topic_partitions == ()
    (active,) = nodes[1].groups.shards
    await until(lambda: bool(active.shard.consumers["c"].regexes))
    found = await one.beat("m", 1)
    assert found.assignment is not None
    assert len(found.assignment.topic_partitions) == 1


async def test_an_expression_that_is_not_valid_here_does_not_hold_up_the_others(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer_groups, "REGEX_INTERVAL_MS", 60_000)
    await one.beat()
    (active,) = nodes[1].groups.shards
    group, consumers = active.shard.consumers["c"], active.consumers
    other = Subscriber(client_id="c", client_host="/h", regex="(")
    group.apply(group.record(Kind.MEMBER, "other", other))  # Another coordinator took it in.
    await one.beat("n", subscribed_topic_names=None, subscribed_topic_regex="t")
    await until(lambda: "t" in group.regexes)
    matched = consumers._matched["c"]
    await one.beat("o", subscribed_topic_names=None, subscribed_topic_regex="u")
    assert consumers._matched["c"] is matched, "not before the interval is over"

    monkeypatch.setattr(consumer_groups, "REGEX_INTERVAL_MS", 0)
    await one.beat("m", 1)
    await until(lambda: "u" in group.regexes)
    assert caplog.text.count("matches no topic") == 1
    for member in ("m", "n", "o"):
        await one.beat(member, -1)
    await one.ask(LeaveGroupRequest(group_id="c", members=(MemberIdentity(member_id="other"),)))
    assert not group.members
    assert "c" not in consumers._matched


async def test_A2_heavy_expressions_of_a_group_hold_up_neither_another_group_nor_its_own_end(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "COMPILE_COST", topics.STEP_ELEMENTS)
    monkeypatch.setattr(consumer_groups, "MATCHING_REST", 200)
    monkeypatch.setattr(consumer_groups, "REGEX_INTERVAL_MS", 0)
    (active,) = nodes[1].groups.shards
    await one.beat(group="heavy", subscribed_topic_names=None, subscribed_topic_regex="t")
    heavy, resolving = active.shard.consumers["heavy"], active.consumers._resolving
    await until(lambda: "t" in heavy.regexes and not resolving)
    for number in range(1_000):
        other = Subscriber(client_id="c", client_host="/h", regex=f"t{number}")
        heavy.apply(heavy.record(Kind.MEMBER, f"m{number}", other))
    await one.beat(epoch=1, group="heavy")
    await one.beat(group="light", subscribed_topic_names=None, subscribed_topic_regex="t")
    await until(lambda: bool(active.shard.consumers["light"].regexes))
    assert resolving == {"heavy"}
    assert list(heavy.regexes) == ["t"]
    members = tuple(MemberIdentity(member_id=each) for each in heavy.members)
    await one.ask(LeaveGroupRequest(group_id="heavy", members=members))
    await until(lambda: not resolving)


async def test_ordinary_expressions_are_matched_soon_however_many_steps_they_take(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest after a step is by what the step took, mostly less than a millisecond."""
    monkeypatch.setattr(topics, "COMPILE_COST", topics.STEP_ELEMENTS)
    monkeypatch.setattr(consumer_groups, "REGEX_INTERVAL_MS", 0)
    (active,) = nodes[1].groups.shards
    await one.beat(subscribed_topic_names=None, subscribed_topic_regex="t")
    group, resolving = active.shard.consumers["c"], active.consumers._resolving
    await until(lambda: "t" in group.regexes and not resolving)
    for number in range(1_000):
        other = Subscriber(client_id="c", client_host="/h", regex=f"t{number}")
        group.apply(group.record(Kind.MEMBER, f"m{number}", other))
    await one.beat(epoch=1)
    await until(lambda: len(group.regexes) == 1_001)


async def test_members_of_either_protocol_are_removed_by_a_leave_group_as_by_kafka(
    nodes: Nodes, one: Coordinator
) -> None:
    for member, instance in (("m", None), ("n", None), ("s", "one"), ("t", "two")):
        await one.beat(member, instance_id=instance)
    asked = [
        ("m", None),
        ("m", None),
        ("", None),
        ("x", None),
        ("", "one"),
        ("x", "two"),
        ("n", "nobody"),
        ("t", "two"),
    ]
    members = tuple(MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in asked)
    answer = await one.ask(LeaveGroupRequest(group_id="c", members=members))
    assert answer.error_code is ErrorCode.none
    assert [(each.member_id, each.group_instance_id) for each in answer.members] == asked
    assert [each.error_code.name for each in answer.members] == [
        "none",
        "none",
        "unknown_member_id",
        "unknown_member_id",
        "none",
        "fenced_instance_id",
        "unknown_member_id",
        "none",
    ]
    (active,) = nodes[1].groups.shards
    assert set(active.shard.consumers["c"].members) == {"n"}


async def test_groups_keep_the_version_of_the_topics_and_not_the_topics(nodes: Nodes, one: Coordinator) -> None:
    await one.beat(subscribed_topic_regex="t|u")
    (active,) = nodes[1].groups.shards
    group, consumers = active.shard.consumers["c"], active.consumers
    await until(lambda: "t|u" in group.regexes)
    world = consumers.world("c")
    assert group.seen_topics == consumers._matched["c"].topics_version == world.topics_version
    await nodes.topic("u", 1)
    await until(lambda: consumers.world("c").topics_version > world.topics_version)


async def test_what_an_expression_matches_counts_only_once_it_is_queued(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    (active,) = nodes[1].groups.shards
    submit, refused = active.submit, []

    def refuse(records: Sequence[GroupRecord], **options: Any) -> Any:
        refused.extend(record for record in records if getattr(record.key, "kind", None) is Kind.REGEX)
        if refused:
            raise KafkaError(ErrorCode.coordinator_not_available, "no")
        return submit(records, **options)

    with monkeypatch.context() as patch:
        patch.setattr(active, "submit", refuse)
        assert (await one.beat(subscribed_topic_names=None, subscribed_topic_regex="t")).error_code is NONE
        await until(lambda: bool(refused) and not active.consumers._resolving)
    group = active.shard.consumers["c"]
    assert (group.regexes, group.epoch) == ({}, 1)


async def test_a_decision_that_cannot_be_written_is_undone(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.beat()
    (active,) = nodes[1].groups.shards
    group = active.shard.consumers["c"]
    before = list(group.records())

    async def refuse(*_: Any, **__: Any) -> Any:
        raise KafkaError(ErrorCode.not_enough_replicas, "no")

    with monkeypatch.context() as patch:
        patch.setattr(type(active.partition), "append", refuse)
        assert (await one.beat("n")).error_code is ErrorCode.coordinator_not_available
        assert (await one.beat("n", group="new")).error_code is ErrorCode.coordinator_not_available
    assert list(group.records()) == before
    assert "new" not in active.shard.consumers
    assert (await one.beat("n")).error_code is NONE


async def test_A2_a_member_whose_records_no_batch_holds_is_refused_and_the_group_is_as_before(
    nodes: Nodes, one: Coordinator
) -> None:
    await one.beat()
    (active,) = nodes[1].groups.shards
    group = active.shard.consumers["c"]
    before = list(group.records())
    await nodes.operator.alter_topic_configs(GROUP_METADATA_TOPIC, {"max.message.bytes": "2000"})
    await until(lambda: active.partition.log.state.config.max_message_bytes == 2000)
    names = tuple(f"{number:0200}" for number in range(100))
    refused = await one.beat("n", subscribed_topic_names=names)
    assert refused.error_code is ErrorCode.unknown_server_error
    assert list(group.records()) == before
    assert (await one.beat("m", 1)).error_code is NONE
    assert (await one.beat("n")).error_code is NONE


async def test_A2_what_no_batch_holds_fails_alone(nodes: Nodes, one: Coordinator) -> None:
    """Neither other groups' records fail with it, nor are members refused for good who came after it."""
    await one.beat()
    (active,) = nodes[1].groups.shards
    await nodes.operator.alter_topic_configs(GROUP_METADATA_TOPIC, {"max.message.bytes": "2000"})
    await until(lambda: active.partition.log.state.config.max_message_bytes == 2000)
    names = tuple(f"{number:0200}" for number in range(100))
    answers = await asyncio.gather(
        one.beat("a", group="first"),
        one.beat("a", group="other"),
        one.beat("n", subscribed_topic_names=names),
        one.beat("o"),
    )
    codes = [each.error_code for each in answers]
    assert codes == [NONE, NONE, ErrorCode.unknown_server_error, ErrorCode.coordinator_not_available]
    assert (await one.beat("o")).error_code is NONE


async def test_a_member_that_is_refused_does_not_let_a_lost_one_stay(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.beat()
    (active,) = nodes[1].groups.shards
    group, timer = active.shard.consumers["c"], ("consumer", "c")
    group.sessions["m"] = round(1000 * asyncio.get_running_loop().time()) + 2_000
    active.consumers.set_timer(group)
    due = active._timers[timer].when()
    monkeypatch.setattr(nodes[1].groups.memory, "bytes_max", 0)
    monkeypatch.setattr(decided_groups, "RETRY_MS", 60_000)
    assert (await one.beat("n")).error_code is ErrorCode.coordinator_not_available
    assert (await one.beat("n", 7)).error_code is ErrorCode.unknown_member_id
    assert active._timers[timer].when() == due
    await until(lambda: not group.members)


async def test_members_whose_removal_no_batch_holds_are_lost_one_write_after_the_other(
    nodes: Nodes, one: Coordinator
) -> None:
    name = "c" * 20_000
    for number in range(20):
        assert (await one.beat(f"m{number}", group=name)).error_code is NONE
    (active,) = nodes[1].groups.shards
    group = active.shard.consumers[name]
    for member in group.members:
        group.sessions[member] = 0
    active.consumers.set_timer(group)
    await until(lambda: not group.members and not active.consumers._pending)
    assert (await one.beat("n", group=name)).error_code is NONE
    assert list(group.members) == ["n"]


@pytest.mark.parametrize("fails_at", ["append", "queue"])
async def test_a_lost_member_whose_removal_cannot_be_written_is_lost_later(
    nodes: Nodes, one: Coordinator, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    await one.beat()
    (active,) = nodes[1].groups.shards
    group = active.shard.consumers["c"]
    refused = []

    def refuse(*_: Any, **__: Any) -> Any:
        refused.append("c")
        raise KafkaError(ErrorCode.not_enough_replicas, "no")

    async def refuse_append(*_: Any, **__: Any) -> Any:
        refuse()

    def lose() -> None:
        group.sessions["m"] = 0
        active.consumers.set_timer(group)

    with monkeypatch.context() as patch:
        if fails_at == "append":
            patch.setattr(type(active.partition), "append", refuse_append)
        else:
            patch.setattr(active, "submit", refuse)
        lose()
        await until(lambda: bool(refused) and "m" in group.members)
        assert group.sessions.over(group.sessions["m"] - 1) == []
        assert group.deadline_ms() == group.sessions["m"] > 0
        refused.clear()
        lose()
        await until(lambda: bool(refused) and "m" in group.members)
    assert (await one.beat("m", 1)).error_code is NONE
    lose()
    await until(lambda: not group.members)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (Kind.GROUP, "", GroupEpoch(7, -5)),
        (Kind.GROUP, "", GroupEpoch(7)),
        (Kind.MEMBER, "m", Subscriber(client_id="c", client_host="/h", topics=("a", "b"), rebalance_timeout_ms=5)),
        (
            Kind.MEMBER,
            "m",
            Subscriber(
                instance_id="i",
                rack_id="r",
                client_id="c",
                client_host="/h",
                regex="a.*",
                assignor="range",
                classic=ClassicMetadata(10, (("range", b"meta"),)),
            ),
        ),
        (Kind.TARGET, "", TargetEpoch(3)),
        (Kind.TARGET_MEMBER, "m", Target({})),
        (Kind.REGEX, "a.*", Resolved(("a", "b"), 3, 4)),
        (Kind.CURRENT, "m", Current(epoch=3, previous_epoch=2, state=MemberState.UNREVOKED_PARTITIONS)),
        (
            Kind.CURRENT,
            "m",
            Current(
                epoch=3,
                previous_epoch=2,
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned={UUID(int=1): frozenset({0, 1, 2}), UUID(int=2): frozenset({7})},
                revoking={UUID(int=1): frozenset({3})},
                epochs={1: {UUID(int=1): frozenset({0, 3})}, 2: {UUID(int=1): frozenset({2})}},
            ),
        ),
        (
            Kind.CURRENT,
            "m",
            Current(
                epoch=2,
                previous_epoch=1,
                state=MemberState.STABLE,
                assigned={UUID(int=1): frozenset(range(TAGGED_ELEMENTS_MAX + 1))},
                epochs={1: {UUID(int=1): frozenset(range(TAGGED_ELEMENTS_MAX))}},
            ),
        ),
    ],
)
def test_G1_records_are_read_as_they_were_written(kind: Kind, name: str, value: Any) -> None:
    record = GroupRecord(ConsumerKey(kind, "g", name), value)
    key, data = record.encoded()
    assert decode_record(key, data) == record
    assert decode_record(key, None) == GroupRecord(record.key, None)
