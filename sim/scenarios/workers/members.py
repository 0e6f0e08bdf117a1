"""One membership of a group, in the classic protocol (JoinGroup, SyncGroup, Heartbeat), as Kafka's clients have it.

    join --(member id required)--> join --> generation --> sync --> partitions --heartbeats--> rejoin, or leave

The leader of a generation assigns the partitions in turn to the members, by instance id or member id. What is assigned,
committed and found committed is published: `judges.core.groups` judges it. After a commit whose outcome is not known a
member gives up its member id: that fences the request, which may still be on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ....protocol import ErrorCode, TopicPartition
from ....protocol.messages import Request, ResponseT
from ....protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
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
from ...judges.core.events import ClientEvent, CommitAsked, OffsetCommitted, OffsetFound, PartitionsAssigned
from ..client import AttemptFailedError
from .coordinators import OF_GROUPS, CoordinatorClient

SESSION_MS: Final = 2_000
REBALANCE_MS: Final = 2_000
BY_NAME: Final = 9
"""The newest version of OffsetCommit and OffsetFetch whose topics go by name."""
PROTOCOL: Final = "in-turn"
CONSUMER: Final = "consumer"


class GroupMember:
    """`partitions` are those of the one topic that the group reads. `name` is for the judges: one process."""

    def __init__(
        self,
        name: str,
        group: str,
        partitions: Sequence[TopicPartition],
        coordinators: CoordinatorClient,
        publish: Callable[[ClientEvent], None],
        *,
        instance_id: str | None = None,
    ) -> None:
        self._name = name
        self.group = group
        self._partitions = tuple(partitions)
        self._coordinators = coordinators
        self._publish = publish
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1

    def forget(self) -> None:
        """Be another member from now on: what this one has sent and was not answered is fenced then."""
        self.member_id, self.generation = "", -1

    async def join(self) -> tuple[TopicPartition, ...]:
        """Join, and return what is assigned to this member. Raise what `CoordinatorClient.check` raises."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=CONSUMER,
            protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=b""),),
        )
        asked_ms = self._now_ms()
        joined = await self._ask(request)
        if joined.error_code is ErrorCode.member_id_required:
            self.member_id = joined.member_id
            joined = await self._ask(replace(request, member_id=joined.member_id))
        self._check(joined.error_code, "JoinGroup")
        self.member_id, self.generation = joined.member_id, joined.generation_id
        synced = await self._ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type=CONSUMER,
                protocol_name=PROTOCOL,
                assignments=tuple(self._assignments(joined)),
            )
        )
        self._check(synced.error_code, "SyncGroup")
        assigned = tuple(self._partitions[number] for number in synced.assignment)
        owner = self.instance_id or self.member_id
        self._publish(PartitionsAssigned(self.group, self.generation, owner, assigned, asked_ms))
        return assigned

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """What this member decides if it leads the generation."""
        if joined.leader != self.member_id:
            return []
        members = [each.member_id for each in sorted(joined.members, key=lambda m: m.group_instance_id or m.member_id)]
        numbers = range(len(self._partitions))
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=bytes(numbers[place :: len(members)]))
            for place, member in enumerate(members)
        ]

    async def beat(self) -> None:
        answer = await self._ask(
            HeartbeatRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
        )
        self._check(answer.error_code, "Heartbeat")

    async def leave(self) -> None:
        """Leave; whether it is noticed does not matter."""
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        await self._ask(LeaveGroupRequest(group_id=self.group, members=(identity,)))

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets outside of transactions."""
        asked_ms = self._now_ms()
        for partition, offset in offsets.items():
            self._publish(CommitAsked(self.group, partition, offset))
        topics = tuple(
            OffsetCommitRequestTopic(
                name=partition.topic,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=partition.partition, committed_offset=offset, committed_metadata=self._name
                    ),
                ),
            )
            for partition, offset in offsets.items()
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=topics,
        )
        try:
            answer = await self._ask(request, BY_NAME)
        except AttemptFailedError:
            self.forget()
            raise
        for topic in answer.topics:
            for result in topic.partitions:
                if result.error_code is ErrorCode.request_timed_out:
                    self.forget()  # it may be written yet
                self._check(result.error_code, "OffsetCommit")
        for partition, offset in offsets.items():
            self._publish(OffsetCommitted(self.group, partition, offset, asked_ms))

    async def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets, 0 where none is; none that a transaction may still move."""
        asked_ms = self._now_ms()
        topic = OffsetFetchRequestTopics(
            name=self._partitions[0].topic, partition_indexes=tuple(each.partition for each in partitions)
        )
        group = OffsetFetchRequestGroup(group_id=self.group, topics=(topic,))
        answer = await self._ask(OffsetFetchRequest(groups=(group,), require_stable=True), BY_NAME)
        self._check(answer.groups[0].error_code, "OffsetFetch")
        found: dict[TopicPartition, int] = {}
        for result in answer.groups[0].topics[0].partitions:
            self._check(result.error_code, "OffsetFetch")
            partition = TopicPartition(self._partitions[0].topic, result.partition_index)
            self._publish(OffsetFound(self.group, partition, result.committed_offset, asked_ms, self._name))
            found[partition] = max(0, result.committed_offset)
        return found

    async def _ask(self, request: Request[ResponseT], max_version: int | None = None) -> ResponseT:
        return await self._coordinators.ask(OF_GROUPS, self.group, request, max_version)

    def _check(self, code: ErrorCode, what: str) -> None:
        if code is ErrorCode.unknown_member_id:
            self.forget()
        self._coordinators.check(OF_GROUPS, self.group, code, f"{self._name}: {what} of {self.group}")

    @staticmethod
    def _now_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)
