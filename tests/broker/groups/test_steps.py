"""Whatever goes through all members or offsets of a group does so in steps: the loop is free between them.

What is counted are the items that one iteration of the loop handles.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tierfetch.broker.coordinator import log_writer
from tierfetch.broker.groups import active_shard
from tierfetch.broker.groups.core.consumer.decision import ConsumerSettings
from tierfetch.broker.groups.core.consumer.records import Current, Kind, MemberState, Subscriber, Target
from tierfetch.broker.groups.core.consumer.state import ConsumerGroup
from tierfetch.broker.groups.core.group import Group
from tierfetch.broker.groups.core.group_state import GroupSettings
from tierfetch.broker.groups.core.membership import Member
from tierfetch.broker.groups.core.records import GroupRecord, OffsetKey, OffsetValue
from tierfetch.broker.groups.core.shard import Shard
from tierfetch.broker.groups.core.share.records import ShareKind, ShareMember
from tierfetch.broker.groups.core.share.state import ShareGroup
from tierfetch.broker.handlers import consumer_groups, group_admin, group_offsets
from tierfetch.broker.handlers.consumer_groups import GROUP_WEIGHT, MEMBER_COST, ConsumerGroupHandlers
from tierfetch.broker.handlers.group_admin import LIST_WEIGHT, GroupAdminHandlers
from tierfetch.broker.handlers.group_offsets import OffsetCommitHandlers
from tierfetch.broker.handlers.shares import groups as share_groups
from tierfetch.broker.handlers.shares.groups import ShareGroupHandlers
from tierfetch.protocol import ApiKey, ErrorCode
from tierfetch.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from tierfetch.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from tierfetch.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tierfetch.protocol.messages.share_groups import ShareGroupDescribeRequest
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION, SLICE_ELEMENTS
from tierfetch.tests.broker.groups.conversation import Coordinator
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.broker.waiting import until

ELEMENTS_MAX = ELEMENTS_PER_ITERATION + SLICE_ELEMENTS
"""What one iteration performs at most, beside what is free."""
MEMBERS = 10_000
TOPIC = UUID(int=1)


class Busiest:
    """Counts calls of functions by iteration of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.most = 0
        self.all = 0
        self._monkeypatch = monkeypatch
        self._tick()

    def _tick(self) -> None:
        self.count = 0
        asyncio.get_running_loop().call_soon(self._tick)

    def count_calls(self, owner: ModuleType | type, name: str) -> None:
        self._monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            self.count += 1
            self.all += 1
            self.most = max(self.most, self.count)
            return function(*args, **options)

        return called


@pytest.fixture
async def busiest(monkeypatch: pytest.MonkeyPatch) -> Busiest:
    return Busiest(monkeypatch)


def coordinating(shard: Shard) -> Any:
    """A coordinator of one partition, in a cluster with topic "t" of any size."""
    active = SimpleNamespace(shard=shard, is_loaded=True, shares=None)
    topics = {"t": SimpleNamespace(topic_id=TOPIC)}
    return SimpleNamespace(
        shards=[active],
        shard_for=lambda _: active,
        has_share_groups=True,
        settings_of=lambda _: ConsumerSettings(),
        view=SimpleNamespace(image=SimpleNamespace(topic_names={TOPIC: "t"}, topics=topics)),
    )


def shard() -> Shard:
    return Shard(GroupSettings())


def names() -> Iterator[str]:
    return (f"m{number}" for number in range(MEMBERS))


def put_offsets(of: Shard, count: int, group: str = "g", *, topic_id: UUID | None = TOPIC) -> None:
    value = OffsetValue(offset=1, commit_timestamp_ms=0, topic_id=topic_id)
    for number in range(count):
        of.replay(GroupRecord(OffsetKey(group, "t", number), value))


# Descriptions.


async def test_D10_a_consumer_group_of_many_members_is_described_in_steps(busiest: Busiest) -> None:
    read, busy = shard(), busiest
    group = read.consumers["g"] = ConsumerGroup("g")
    assigned = {TOPIC: frozenset({0})}
    current = Current(epoch=1, previous_epoch=0, state=MemberState.STABLE, assigned=assigned)
    for name in names():
        group.apply(group.record(Kind.MEMBER, name, Subscriber(client_id="c", client_host="/h", topics=("t",))))
        group.apply(group.record(Kind.CURRENT, name, current))
        group.apply(group.record(Kind.TARGET_MEMBER, name, Target(assigned)))
    busy.count_calls(consumer_groups, "_member")
    handlers = ConsumerGroupHandlers(coordinating(read), random.Random(1))
    request = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
    describing = asyncio.create_task(handlers.describe(context_of(ApiKey.CONSUMER_GROUP_DESCRIBE, 1), request))
    await until(lambda: busy.all > 0)
    group.apply(group.record(Kind.CURRENT, f"m{MEMBERS - 1}", None))
    group.apply(group.record(Kind.MEMBER, "m1", None))
    (described,) = (await describing).groups
    assert len(described.members) == busy.all == MEMBERS
    assert {each.member_epoch for each in described.members} == {1}, "it is of the moment at which it began"
    assert {each.target_assignment.topic_partitions[0].partitions for each in described.members} == {(0,)}
    assert busy.most <= (ELEMENTS_MAX + GROUP_WEIGHT) // (MEMBER_COST + 4)


async def test_D10_members_with_many_partitions_are_described_in_steps(busiest: Busiest) -> None:
    read, busy = shard(), busiest
    group = read.consumers["g"] = ConsumerGroup("g")
    for number in range(100):
        group.apply(group.record(Kind.MEMBER, f"m{number}", Subscriber(client_id="c", client_host="/h")))
        group.apply(group.record(Kind.TARGET_MEMBER, f"m{number}", Target({TOPIC: frozenset(range(500))})))
    busy.count_calls(consumer_groups, "_member")
    handlers = ConsumerGroupHandlers(coordinating(read), random.Random(1))
    request = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
    await handlers.describe(context_of(ApiKey.CONSUMER_GROUP_DESCRIBE, 1), request)
    assert busy.all == 100
    assert busy.most <= (ELEMENTS_MAX + GROUP_WEIGHT) // 500


async def test_D10_a_share_group_of_many_members_is_described_in_steps(busiest: Busiest) -> None:
    read, busy = shard(), busiest
    group = read.shares["g"] = ShareGroup("g")
    for name in names():
        group.apply(group.record(ShareKind.MEMBER, name, ShareMember(client_id="c", client_host="/h")))
    busy.count_calls(share_groups, "_member")
    handlers = ShareGroupHandlers(coordinating(read), cast(Any, None))
    request = ShareGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
    (described,) = (await handlers.describe(context_of(ApiKey.SHARE_GROUP_DESCRIBE, 1), request)).groups
    assert len(described.members) == busy.all == MEMBERS
    assert busy.most <= (ELEMENTS_MAX + GROUP_WEIGHT) // MEMBER_COST


async def test_D10_a_classic_group_of_many_members_is_described_in_steps(busiest: Busiest) -> None:
    read, busy = shard(), busiest
    group = read.groups["g"] = Group("g", GroupSettings())
    for name in names():
        group.members.add(
            Member(
                member_id=name, group_instance_id=None, client_id="c", client_host="/h", session_timeout_ms=1,
                rebalance_timeout_ms=1, protocol_type="consumer", protocols=(("range", b"m"),),
            )
        )  # fmt: skip
    busy.count_calls(group_admin, "DescribedGroupMember")
    handlers = GroupAdminHandlers(coordinating(read))
    request = DescribeGroupsRequest(groups=("g",))
    (described,) = (await handlers.describe_groups(context_of(ApiKey.DESCRIBE_GROUPS, 6), request)).groups
    assert len(described.members) == busy.all == MEMBERS
    assert busy.most <= (ELEMENTS_MAX + GROUP_WEIGHT) // MEMBER_COST


async def test_D10_many_groups_are_listed_in_steps(busiest: Busiest) -> None:
    read, busy = shard(), busiest
    for name in names():
        read.groups[name] = Group(name, GroupSettings())
    busy.count_calls(group_admin, "ListedGroup")
    handlers = GroupAdminHandlers(coordinating(read))
    listed = (await handlers.list_groups(context_of(ApiKey.LIST_GROUPS, 5), ListGroupsRequest())).groups
    assert [each.group_id for each in listed] == list(names())
    assert busy.most <= ELEMENTS_MAX // LIST_WEIGHT


async def test_D10_all_offsets_of_a_group_are_fetched_in_steps(busiest: Busiest) -> None:
    read, busy = shard(), busiest
    put_offsets(read, 20_000)
    busy.count_calls(group_offsets, "_fetched")
    handlers = OffsetCommitHandlers(coordinating(read), lambda: 0)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
    (group,) = (await handlers.offset_fetch(context_of(ApiKey.OFFSET_FETCH, 9), request)).groups
    (topic,) = group.topics
    assert [each.partition_index for each in topic.partitions] == list(range(20_000))
    assert {each.committed_offset for each in topic.partitions} == {1}
    assert busy.most <= ELEMENTS_MAX // SLICE_ELEMENTS * 100, "pieces of a hundred, each of a slice"


# What is deleted.


@pytest.fixture
async def shard_of_one(nodes: Nodes, one: Coordinator) -> active_shard.ActiveShard:
    await one.commit(1, "other")
    (active,) = nodes[1].groups.shards
    return active


TOMBSTONES_MAX = ELEMENTS_MAX // active_shard.BURY_WEIGHT + active_shard.FREE


async def test_a_group_is_deleted_as_a_whole_where_one_batch_takes_it(
    one: Coordinator, shard_of_one: active_shard.ActiveShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_offsets(shard_of_one.shard, 5_000)
    partition, appends = shard_of_one.partition, list[int]()
    append, end_offset = partition.append, partition.log.state.log_end_offset

    async def counted(data: memoryview, *args: Any, **options: Any) -> Any:
        appends.append(len(data))
        return await append(data, *args, **options)

    monkeypatch.setattr(partition, "append", counted)
    deleted = await one.ask(DeleteGroupsRequest(groups_names=("g",)))
    assert deleted.results[0].error_code is ErrorCode.none
    assert list(shard_of_one.shard.offsets) == ["other"]
    assert (len(appends), partition.log.state.log_end_offset - end_offset) == (1, 5_001)


async def test_D10_a_group_of_many_offsets_is_deleted_in_batches(
    one: Coordinator, shard_of_one: active_shard.ActiveShard, busiest: Busiest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "BATCH_BYTES_MAX", 20_000)
    put_offsets(shard_of_one.shard, 5_000)
    busiest.count_calls(Shard, "goes")
    deleted = await one.ask(DeleteGroupsRequest(groups_names=("g",)))
    assert deleted.results[0].error_code is ErrorCode.none
    assert list(shard_of_one.shard.offsets) == list(shard_of_one.shard.groups) == ["other"]
    assert busiest.all == 5_000
    assert busiest.most <= 20_000 // log_writer.RECORD_OVERHEAD_BYTES + TOMBSTONES_MAX


@pytest.mark.parametrize("is_over", [True, False])
async def test_D10_many_offsets_expire_in_steps(
    shard_of_one: active_shard.ActiveShard, busiest: Busiest, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """A group that ends with them goes in batches, as one that is deleted."""
    monkeypatch.setattr(log_writer, "BATCH_BYTES_MAX", 20_000)
    put_offsets(shard_of_one.shard, 5_000)
    if not is_over:
        shard_of_one.shard.replay_undecided(
            7, GroupRecord(OffsetKey("g", "t", 0), OffsetValue(offset=2, commit_timestamp_ms=1))
        )
    busiest.count_calls(Shard, "goes")
    assert await shard_of_one.expire("g", 1) is ErrorCode.none
    left = [] if is_over else ["g"]
    assert sorted(shard_of_one.shard.offsets) == sorted(shard_of_one.shard.groups) == [*left, "other"]
    assert busiest.all <= 2 * 5_000
    assert busiest.most <= 20_000 // log_writer.RECORD_OVERHEAD_BYTES + TOMBSTONES_MAX


async def test_D10_offsets_of_many_groups_in_a_deleted_topic_are_looked_for_in_steps(
    nodes: Nodes, shard_of_one: active_shard.ActiveShard, busiest: Busiest
) -> None:
    gone = UUID(int=7)
    for number in range(100):
        put_offsets(shard_of_one.shard, 100, f"kept{number}")
        put_offsets(shard_of_one.shard, 10, f"gone{number}", topic_id=gone)
    busiest.count_calls(active_shard, "incarnation_of")
    shard_of_one.forget_topics({("t", gone)})
    await until(lambda: not shard_of_one._is_forgetting)
    assert not any(name.startswith("gone") for name in shard_of_one.shard.offsets)
    assert len(shard_of_one.shard.offsets) == 101
    assert busiest.all > 11_000
    assert busiest.most <= ELEMENTS_MAX + TOMBSTONES_MAX


async def test_D10_absent_topics_are_looked_for_in_steps(
    shard_of_one: active_shard.ActiveShard, busiest: Busiest
) -> None:
    put_offsets(shard_of_one.shard, 10_000)
    busiest.count_calls(active_shard, "incarnation_of")
    await shard_of_one.forget_absent(lambda _: True)
    assert busiest.all > 10_000
    assert busiest.most <= ELEMENTS_MAX


async def test_a_topic_that_is_deleted_while_another_is_forgotten_is_forgotten_too(
    shard_of_one: active_shard.ActiveShard,
) -> None:
    ids = [UUID(int=number) for number in (7, 8)]
    for topic_id in ids:
        put_offsets(shard_of_one.shard, 1, f"g{topic_id.int}", topic_id=topic_id)
        shard_of_one.forget_topics({("t", topic_id)})
        await asyncio.sleep(0)
    await until(lambda: not shard_of_one._is_forgetting)
    assert list(shard_of_one.shard.offsets) == ["other"]
