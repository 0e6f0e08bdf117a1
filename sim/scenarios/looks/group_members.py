"""The members of a group that changes its protocol: one of the classic protocol, and one of KIP-848; and what they say.

They read nothing: what a member owns is what it was assigned last.
"""

from __future__ import annotations

from random import Random
from typing import Final
from uuid import UUID

from ....protocol import ErrorCode
from ....protocol.messages import Request, ResponseT
from ....protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from ....protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from ....protocol.messages.offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ....protocol.wire import OWNED_SINCE, read_assignment, write_assignment, write_subscription
from ..workers.coordinators import OF_GROUPS, CoordinatorClient
from ..workers.members import BY_NAME, CONSUMER

SESSION_MS: Final = 5_000
PROTOCOL: Final = "range"
INSTANCE: Final = "one"
REJOINS: Final = frozenset({ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation})


class WrongGroupError(Exception):
    """What the coordinator answers contradicts what it has answered, or what must be."""


class GroupMembers:
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


class ClassicMember:
    """The member of the classic protocol, which gives all up when it joins."""

    def __init__(self, members: GroupMembers) -> None:
        self._members = members
        self._member_id = ""
        self._generation = -1
        self.owned: frozenset[int] = frozenset()

    async def join(self) -> None:
        """Join, and take what is assigned."""
        members, self.owned = self._members, frozenset()
        subscription = write_subscription([members.topic], owns_nothing=True)
        request = JoinGroupRequest(
            group_id=members.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self._member_id,
            protocol_type=CONSUMER,
            protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription),),
        )
        joined = await members.ask(request)
        if joined.error_code is ErrorCode.member_id_required:
            self._member_id = joined.member_id
            await self.join()
            return
        if joined.error_code in REJOINS:
            return
        expect(joined.error_code, "JoinGroup")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        leads = joined.leader == joined.member_id
        assignment = write_assignment({members.topic: members.everything}, OWNED_SINCE)
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
        expect(synced.error_code, "SyncGroup")
        self.owned = partitions_in(synced.assignment, members.topic)

    async def beat(self) -> None:
        """Stay, or join again where the coordinator says so."""
        answer = await self._members.ask(
            HeartbeatRequest(group_id=self._members.group, generation_id=self._generation, member_id=self._member_id)
        )
        if answer.error_code in REJOINS:
            await self.join()
        else:
            expect(answer.error_code, "Heartbeat")

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
            expect(each.error_code, "OffsetCommit")

    async def leave(self) -> None:
        identity = MemberIdentity(member_id=self._member_id)
        answer = await self._members.ask(LeaveGroupRequest(group_id=self._members.group, members=(identity,)))
        expect(answer.error_code, "LeaveGroup")


class NewMember:
    """A member of KIP-848. `owned` is what it was assigned last: it uses nothing, and so gives up at once."""

    def __init__(self, members: GroupMembers) -> None:
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
        expect(answer.error_code, "ConsumerGroupHeartbeat")
        if epoch is None:
            self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = frozenset(number for each in answer.assignment.topic_partitions for number in each.partitions)


def expect(code: ErrorCode, what: str) -> None:
    if code is not ErrorCode.none:
        raise WrongGroupError(f"{what}: {code.name}")


def partitions_in(data: bytes, topic: str) -> frozenset[int]:
    """Return the partitions of the one topic that an assignment may have."""
    found = read_assignment(data)
    if found is None:
        raise WrongGroupError(f"{data!r} is no assignment")
    for name in found.keys() - {topic}:
        raise WrongGroupError(f"{name} is assigned, to a member that reads {topic}")
    return found.get(topic, frozenset())
