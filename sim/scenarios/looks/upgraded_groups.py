"""A group whose clients are upgraded one after the other, and taken back (KIP-848), at the end of a run.

| step                                                     | must hold then                                       |
|----------------------------------------------------------|------------------------------------------------------|
| a member of the classic protocol joins, leads, commits   | it has all partitions                                |
| one of KIP-848 joins, with an expression and an instance | both have some, none has two owners, all have one    |
| that one leaves for a while, another one is the instance | it gets what the instance had                        |
| it leaves                                                | the first one leads a classic group again, with all  |
| the first one leaves                                     | the group has no members                             |

Offsets that were committed at first are there after each step, and the coordinator describes the group as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from itertools import count
from random import Random
from typing import Final
from uuid import UUID

from ....protocol import GROUP_METADATA_TOPIC, ErrorCode
from ....protocol.messages import Request, ResponseT
from ....protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from ....protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from ....protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ....protocol.wire import Reader, Writer
from ...judges.core.truth import ClusterTruth
from ..administrator import GROUP_VERSION
from ..client import AttemptFailedError
from ..workers.coordinators import OF_GROUPS, CoordinatorClient, LaterError
from ..workers.members import BY_NAME, CONSUMER
from .asker import broker_addresses

SESSION_MS: Final = 5_000
ROUNDS_MAX: Final = 60
ROUND_S: Final = 0.25
OFFSET: Final = 7
PROTOCOL: Final = "range"
AWAY: Final = -2
GONE: Final = -1
INSTANCE: Final = "one"
REJOINS: Final = frozenset({ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation})


class WrongGroupError(Exception):
    """What the coordinator answers contradicts what it has answered, or what must be."""


class _Members:
    """The members of one group, which read one topic with so many partitions."""

    def __init__(
        self, group: str, topic: str, topic_id: UUID, partitions: int, coordinators: CoordinatorClient, rng: Random
    ) -> None:
        self.group = group
        self.topic = topic
        self.topic_id = topic_id
        self.everything = frozenset(range(partitions))
        self.rng = rng
        self._coordinators = coordinators

    async def ask(self, request: Request[ResponseT], max_version: int | None = None) -> ResponseT:
        return await self._coordinators.ask(OF_GROUPS, self.group, request, max_version)


class _Classic:
    """The member of the classic protocol, which gives all up when it joins."""

    def __init__(self, members: _Members) -> None:
        self._members = members
        self._member_id = ""
        self._generation = -1
        self.owned: frozenset[int] = frozenset()

    async def join(self) -> None:
        """Join, and take what is assigned."""
        members, self.owned = self._members, frozenset()
        request = JoinGroupRequest(
            group_id=members.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self._member_id,
            protocol_type=CONSUMER,
            protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription(members.topic)),),
        )
        joined = await members.ask(request)
        if joined.error_code is ErrorCode.member_id_required:
            self._member_id = joined.member_id
            await self.join()
            return
        if joined.error_code in REJOINS:
            return
        _expect(joined.error_code, "JoinGroup")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        leads = joined.leader == joined.member_id
        assignment = assigned(members.topic, members.everything)
        synced = await members.ask(
            SyncGroupRequest(
                group_id=members.group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type=CONSUMER,
                protocol_name=PROTOCOL,
                assignments=(SyncGroupRequestAssignment(member_id=self._member_id, assignment=assignment),)
                if leads
                else (),
            )
        )
        if synced.error_code in REJOINS:
            return
        _expect(synced.error_code, "SyncGroup")
        self.owned = partitions_in(synced.assignment, members.topic)

    async def beat(self) -> None:
        """Stay, or join again where the coordinator says so."""
        answer = await self._members.ask(
            HeartbeatRequest(group_id=self._members.group, generation_id=self._generation, member_id=self._member_id)
        )
        if answer.error_code in REJOINS:
            await self.join()
        else:
            _expect(answer.error_code, "Heartbeat")

    async def commit(self, offset: int) -> None:
        topic = OffsetCommitRequestTopic(
            name=self._members.topic,
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=offset + number, committed_metadata=None
                )
                for number in sorted(self.owned)
            ),
        )
        request = OffsetCommitRequest(
            group_id=self._members.group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=(topic,),
        )
        answer = await self._members.ask(request, BY_NAME)
        for each in answer.topics[0].partitions:
            _expect(each.error_code, "OffsetCommit")

    async def leave(self) -> None:
        identity = MemberIdentity(member_id=self._member_id)
        answer = await self._members.ask(LeaveGroupRequest(group_id=self._members.group, members=(identity,)))
        _expect(answer.error_code, "LeaveGroup")


class _Consumer:
    """A member of KIP-848. `owned` is what it was assigned last: it uses nothing, and so gives up at once."""

    def __init__(self, members: _Members) -> None:
        self._members = members
        self._member_id = str(UUID(int=members.rng.getrandbits(128)))
        self._epoch = 0
        self.owned: frozenset[int] = frozenset()

    async def beat(self, epoch: int | None = None) -> None:
        """Stay, or join at first; -1 leaves, -2 for a while."""
        members, is_first = self._members, self._epoch == 0
        owned = (
            ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=members.topic_id, partitions=tuple(sorted(self.owned))
            ),
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=members.group,
            member_id=self._member_id,
            member_epoch=self._epoch if epoch is None else epoch,
            instance_id=INSTANCE,
            rebalance_timeout_ms=SESSION_MS if is_first else -1,
            subscribed_topic_regex=f"[{members.topic[0]}]{members.topic[1:]}" if is_first else None,
            server_assignor="range" if is_first else None,
            topic_partitions=() if is_first or not self.owned else owned,
        )
        answer = await members.ask(request)
        _expect(answer.error_code, "ConsumerGroupHeartbeat")
        if epoch is None:
            self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = frozenset(number for each in answer.assignment.topic_partitions for number in each.partitions)


class UpgradedGroups:
    """`look` takes a group of its own through all of it, where a cluster has coordinators of both protocols."""

    def __init__(self, truth: ClusterTruth, has_lost: Callable[[str], bool], rng: Random) -> None:
        self._truth = truth
        self._has_lost = has_lost
        self._rng = rng
        self._numbers = count(1)

    async def look(self) -> list[str]:
        """Return what is wrong; nothing where there are no such groups, or their log may have lost something."""
        image, features = self._truth.image, self._truth.metadata.features
        topics = [each for each in image.topics.values() if not each.name.startswith("_")]
        is_there = GROUP_METADATA_TOPIC in image.topics and not self._has_lost(GROUP_METADATA_TOPIC)
        if not is_there or not topics or not features.get(GROUP_VERSION, 0):
            return []
        topic = max(topics, key=lambda each: (len(each.partitions), each.name))
        coordinators = CoordinatorClient("upgraded", broker_addresses(self._truth), self._rng)
        group = f"upgraded-{next(self._numbers)}"
        members = _Members(group, topic.name, topic.topic_id, len(topic.partitions), coordinators, self._rng)
        try:
            await _upgrade(members)
        except (AttemptFailedError, LaterError, WrongGroupError) as error:
            return [f"{group} of {topic.name}: {error}"]
        finally:
            await coordinators.close()
        return []


async def _upgrade(members: _Members) -> None:
    """Raise WrongGroupError."""
    everything, classic = members.everything, _Classic(members)
    await _until(lambda: classic.owned == everything, "the classic member has all", classic.join)
    await classic.commit(OFFSET)
    consumer = _Consumer(members)
    await _share(members, classic, consumer)
    await _check_shown(members, "consumer", [classic.owned, consumer.owned])
    had = consumer.owned
    await consumer.beat(AWAY)
    consumer = _Consumer(members)
    await _share(members, classic, consumer)
    if consumer.owned != had:
        raise WrongGroupError(f"the instance had {sorted(had)}, and has {sorted(consumer.owned)} once it is back")
    await consumer.beat(GONE)
    await _until(lambda: classic.owned == everything, "the classic member has all again", classic.beat)
    await _check_shown(members, "classic", [])
    await classic.leave()


async def _share(members: _Members, classic: _Classic, consumer: _Consumer) -> None:
    async def beat() -> None:
        for member in (classic, consumer):
            await member.beat()
            if twice := classic.owned & consumer.owned:
                raise WrongGroupError(f"partitions {sorted(twice)} have two owners")

    def is_shared() -> bool:
        has_each = bool(classic.owned and consumer.owned) or len(members.everything) == 1
        return has_each and classic.owned | consumer.owned == members.everything

    await _until(is_shared, "both members together have all", beat)


async def _until(is_so: Callable[[], bool], what: str, act: Callable[[], Awaitable[None]]) -> None:
    for _ in range(ROUNDS_MAX):
        await act()
        if is_so():
            return
        await asyncio.sleep(ROUND_S)
    raise WrongGroupError(f"not within {ROUNDS_MAX * ROUND_S:g} s: {what}")


async def _check_shown(members: _Members, kind: str, owned: Collection[frozenset[int]]) -> None:
    """Look at the group's kind, at the members of one of KIP-848, and at its offsets."""
    listed = {each.group_id: each.group_type for each in (await members.ask(ListGroupsRequest())).groups}
    if listed.get(members.group) != kind:
        raise WrongGroupError(f"the group is listed as {listed.get(members.group)}, not as {kind}")
    if owned:
        request = ConsumerGroupDescribeRequest(group_ids=(members.group,), include_authorized_operations=False)
        (found,) = (await members.ask(request)).groups
        said = [
            frozenset(number for each in member.assignment.topic_partitions for number in each.partitions)
            for member in found.members
        ]
        if sorted(map(sorted, said)) != sorted(map(sorted, owned)):
            raise WrongGroupError(f"its members are said to have {said}, and have {list(owned)}")
    topic = OffsetFetchRequestTopics(name=members.topic, partition_indexes=tuple(sorted(members.everything)))
    fetch = OffsetFetchRequestGroup(group_id=members.group, topics=(topic,))
    answer = await members.ask(OffsetFetchRequest(groups=(fetch,), require_stable=True), BY_NAME)
    _expect(answer.groups[0].error_code, "OffsetFetch")
    offsets = {each.partition_index: each.committed_offset for each in answer.groups[0].topics[0].partitions}
    if offsets != (right := {number: OFFSET + number for number in members.everything}):
        raise WrongGroupError(f"its offsets are {offsets}, {right} were committed")


def _expect(code: ErrorCode, what: str) -> None:
    if code is not ErrorCode.none:
        raise WrongGroupError(f"{what}: {code.name}")


def subscription(topic: str) -> bytes:
    """Return Kafka's ConsumerProtocolSubscription of one topic, of a member that owns nothing."""
    writer = Writer(flexible=False)
    writer.int16(1)
    writer.array_length(1)
    writer.string(topic)
    writer.int32(-1)
    writer.array_length(0)
    return bytes(writer.out)


def assigned(topic: str, partitions: Collection[int]) -> bytes:
    """Return Kafka's ConsumerProtocolAssignment of partitions of one topic."""
    writer = Writer(flexible=False)
    writer.int16(1)
    writer.array_length(1)
    writer.string(topic)
    writer.array_length(len(partitions))
    for number in sorted(partitions):
        writer.int32(number)
    writer.int32(-1)
    return bytes(writer.out)


def partitions_in(data: bytes, topic: str) -> frozenset[int]:
    """Return the partitions of the one topic that an assignment may have."""
    if not data:
        return frozenset()
    reader = Reader(memoryview(data), 0, flexible=False)
    reader.int16()
    found: set[int] = set()
    for _ in range(reader.array_length()):
        if (name := reader.string()) != topic:
            raise WrongGroupError(f"{name} is assigned, to a member that reads {topic}")
        found |= {reader.int32() for _ in range(reader.array_length())}
    return frozenset(found)
