"""Numbers, names and bytes that no client sends: each is answered, nothing is half-done, and the next coordinator reads
what is left of it. An honest member beside them keeps what it has.
"""

from __future__ import annotations

from itertools import cycle, product
from uuid import UUID

import pytest

from tierfetch.broker.groups.core.consumer.state import ConsumerGroup
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequestTopicPartitions
from tierfetch.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tierfetch.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tierfetch.tests.broker.groups.conversation import Coordinator, ready
from tierfetch.tests.broker.nodes import Nodes

NONE = ErrorCode.none
INT32 = (0, -1, 2**31 - 1, -(2**31))
INT64 = (0, -1, 2**63 - 1, -(2**63))
NAMES = ("", "\0", "t", "a" * 300, "ä" * 80)
BYTES = (b"", b"\0", b"\xff" * 9, bytes(1000))


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_A2_offsets_and_expiries_of_any_size_are_kept_or_refused(one: Coordinator, version: int) -> None:
    """A client's wish may end after the last moment that a record can name."""
    for number, (retention_ms, offset) in enumerate(product(INT64, INT64)):
        committed = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        topics = (OffsetCommitRequestTopic(name="t", partitions=(committed,)),)
        request = OffsetCommitRequest(
            group_id=f"g{number}", member_id="", topics=topics, retention_time_ms=retention_ms
        )
        answer = await one.ask(request, version)
        assert answer.topics[0].partitions[0].error_code is NONE
        assert await one.committed(f"g{number}") == {"t-0": offset}


async def test_A2_partitions_that_no_topic_has_are_not_committed(one: Coordinator) -> None:
    for number in (1, -1, 2**31 - 1, -(2**31)):
        assert await one.commit(1, partition=number) is ErrorCode.unknown_topic_or_partition
    for name in NAMES:
        expected = NONE if name == "t" else ErrorCode.unknown_topic_or_partition
        assert await one.commit(1, topic=name) is expected
    assert await one.committed() == {"t-0": 1}


async def test_A2_a_consumer_group_stays_whole_whatever_its_members_say(nodes: Nodes, one: Coordinator) -> None:
    topic_id = nodes[1].view.image.topics["t"].topic_id
    owned = cycle(
        [None, ()]
        + [
            tuple(
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=each, partitions=numbers)
                for each in (topic_id, UUID(int=2**128 - 1), topic_id)
            )
            for numbers in ((), INT32, (0, 0))
        ]
    )
    names = cycle([None, (), NAMES, ("t", "t")])
    texts = cycle([None, "", "t", "uniform", "(", "a" * 300])
    epoch = (await one.beat("honest")).member_epoch
    for number, (member_epoch, timeout_ms) in enumerate(product((*INT32, 1, -2, -3), INT32)):
        for _ in range(6):
            await one.beat(
                f"m{number % 5}" if number % 7 else "",
                member_epoch,
                rebalance_timeout_ms=timeout_ms,
                subscribed_topic_names=next(names),
                subscribed_topic_regex=next(texts),
                server_assignor=next(texts),
                instance_id=next(texts),
                rack_id=next(texts),
                topic_partitions=next(owned),
            )
        beat = await one.beat("honest", epoch)
        assert beat.error_code is NONE
        epoch = beat.member_epoch
    group = _consumers(nodes)
    assert "honest" in group.members
    others = [MemberIdentity(member_id=each) for each in group.members if each != "honest"]
    assert others, "some were let in"
    await nodes.stop(1)
    await nodes.start(1)
    again = await ready(nodes, 1)
    assert list(_consumers(nodes).records()) == list(group.records())
    await again.ask(LeaveGroupRequest(group_id="c", members=tuple(others)))
    for _ in range(3):
        epoch = (await again.beat("honest", epoch)).member_epoch
    assert _consumers(nodes).current("honest").assigned == {topic_id: frozenset({0})}


def _consumers(nodes: Nodes) -> ConsumerGroup:
    (active,) = nodes[1].groups.shards
    return active.shard.consumers["c"]


@pytest.mark.parametrize("version", [0, 9])
async def test_A2_classic_groups_answer_whatever_their_members_say(
    nodes: Nodes, one: Coordinator, version: int
) -> None:
    joined = 0
    kinds = cycle(["consumer", "", "connect"])
    instances = cycle([None, "", "i"])
    metadata = cycle(BYTES)
    for number, (session_ms, rebalance_ms) in enumerate(product((*INT32, 10_000), INT32)):
        for names in ((), ("",), ("range", "range"), NAMES):
            group_id, kind, instance = f"x{number}-{len(names)}", next(kinds), next(instances)
            protocols = tuple(JoinGroupRequestProtocol(name=name, metadata=next(metadata)) for name in names)
            request = JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                member_id="",
                group_instance_id=instance if version >= 5 else None,
                protocol_type=kind,
                protocols=protocols,
            )
            answer = await one.ask(request, version)
            if answer.error_code is not NONE:
                continue
            joined += 1
            for generation in (*INT32, 1):
                who = {"group_id": group_id, "generation_id": generation, "member_id": answer.member_id}
                strangers = tuple(SyncGroupRequestAssignment(member_id=each, assignment=b"\0") for each in NAMES)
                assigned = SyncGroupRequestAssignment(member_id=answer.member_id, assignment=next(metadata))
                await one.ask(SyncGroupRequest(**who, assignments=(*strangers, assigned)), version and 4)  # type: ignore[arg-type]
                await one.ask(HeartbeatRequest(**who), version and 4)  # type: ignore[arg-type]
    assert joined, "some were let in"
    (active,) = nodes[1].groups.shards
    values = {group_id: group.as_value() for group_id, group in active.shard.groups.items()}
    await nodes.stop(1)
    await nodes.start(1)
    await ready(nodes, 1)
    (active,) = nodes[1].groups.shards
    restored = {group_id: group.as_value() for group_id, group in active.shard.groups.items()}
    assert {group_id: (value.generation_id, value.members) for group_id, value in restored.items()} == {
        group_id: (value.generation_id, value.members) for group_id, value in values.items() if group_id in restored
    }
