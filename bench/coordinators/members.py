"""Members of groups by protocol, as clients behave: they join, read a record of what they own, send heartbeats.

A classic member is eager: it gives up everything before it joins again, and the leader deals the partitions out. One of
KIP-848 sends a heartbeat at once when its assignment has changed, and otherwise at the interval that the coordinator
names.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from tierfetch.protocol import ErrorCode
from tierfetch.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tierfetch.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tierfetch.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tierfetch.protocol.net import Address, KafkaClient
from tierfetch.protocol.wire import read_assignment, write_assignment, write_subscription

from .raw import BY_NAME_MAX, RETRY_S, Coordinator, Topic, new_client, read_first
from .roster import Roster

REBALANCE_TIMEOUT_MS: Final = 300_000
HEARTBEAT_S: Final = 3.0
"""The default of classic clients; those of KIP-848 learn theirs from the coordinator."""
_PROTOCOL: Final = "roundrobin"


@dataclass(frozen=True, slots=True)
class Scene:
    """What the members of one group share."""

    bootstrap: Address
    topic: Topic
    reader: KafkaClient
    roster: Roster
    group_id: str
    session_timeout_ms: int = 10_000


class Member(ABC):
    """One member with a connection of its own; it lives from `start` to `kill`."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.name = name
        self._scene = scene
        self._client = new_client()
        self._coordinator = Coordinator(self._client, scene.bootstrap, scene.group_id)
        self._owned: frozenset[int] = frozenset()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def run(self) -> None:
        """Be a member until cancelled."""

    def start(self) -> None:
        self._scene.roster.joins(self.name)
        self._task = asyncio.create_task(self.run(), name=self.name)
        self._task.add_done_callback(self._ended)

    async def kill(self) -> None:
        """End without a word to the coordinator."""
        assert self._task is not None, "it was started"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            task.get_loop().call_exception_handler({"message": f"{self.name} ended", "exception": task.exception()})

    async def _take(self, numbers: frozenset[int]) -> None:
        """Own these partitions from now on, and read a record of each new one."""
        new, self._owned = numbers - self._owned, numbers
        self._scene.roster.owns(self.name, numbers)
        if not new:
            return
        topics = (OffsetFetchRequestTopics(name=self._scene.topic.name, partition_indexes=tuple(sorted(new))),)
        group = OffsetFetchRequestGroup(group_id=self._scene.group_id, topics=topics)
        await self._coordinator.ask(OffsetFetchRequest(groups=(group,)), max_version=BY_NAME_MAX)
        await read_first(self._scene.reader, self._scene.topic, new)
        self._scene.roster.has_read(self.name, new)


class ClassicMember(Member):
    """See the module's docstring."""

    _member_id = ""

    async def run(self) -> None:
        while True:
            joined = await self._join()
            synced = await self._sync(joined)
            if await self._coordinator.has_moved(synced.error_code) or synced.error_code is not ErrorCode.none:
                continue
            await self._take(numbers_in(synced.assignment))
            await self._stay(joined.generation_id)
            await self._take(frozenset())

    async def _join(self) -> JoinGroupResponse:
        while True:
            subscription = JoinGroupRequestProtocol(
                name=_PROTOCOL, metadata=write_subscription([self._scene.topic.name])
            )
            request = JoinGroupRequest(
                group_id=self._scene.group_id,
                session_timeout_ms=self._scene.session_timeout_ms,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=(subscription,),
            )
            joined = await self._coordinator.ask(request)
            if joined.error_code is ErrorCode.none:
                return joined
            if joined.error_code is ErrorCode.member_id_required:
                self._member_id = joined.member_id
            elif joined.error_code is ErrorCode.unknown_member_id:
                self._member_id = ""
            elif not await self._coordinator.has_moved(joined.error_code):
                await asyncio.sleep(RETRY_S)

    async def _sync(self, joined: JoinGroupResponse) -> SyncGroupResponse:
        members = sorted(member.member_id for member in joined.members)
        assignments = tuple(
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=write_assignment({self._scene.topic.name: share_of(self._scene.topic, at, len(members))}),
            )
            for at, member_id in enumerate(members)
        )
        request = SyncGroupRequest(
            group_id=self._scene.group_id,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=assignments,
        )
        return await self._coordinator.ask(request)

    async def _stay(self, generation_id: int) -> None:
        """Send heartbeats until the group rebalances, or the member is no longer known."""
        request = HeartbeatRequest(
            group_id=self._scene.group_id, generation_id=generation_id, member_id=self._member_id
        )
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            answer = await self._coordinator.ask(request)
            if answer.error_code is ErrorCode.none or await self._coordinator.has_moved(answer.error_code):
                continue
            if answer.error_code is ErrorCode.unknown_member_id:
                self._member_id = ""
            return


class ConsumerMember(Member):
    """See the module's docstring."""

    _epoch = 0

    async def run(self) -> None:
        member_id, is_news = str(uuid4()), True
        while True:
            answer = await self._coordinator.ask(self._beat(member_id, is_news=is_news))
            if answer.error_code is not ErrorCode.none:
                await self._begin_again(answer.error_code)
                is_news = True
                continue
            self._epoch, is_news = answer.member_epoch, False
            numbers = assigned_in(answer)
            if numbers is not None and numbers != self._owned:
                await self._take(numbers)
                is_news = True
            else:
                await asyncio.sleep(answer.heartbeat_interval_ms / 1000)

    async def _begin_again(self, error: ErrorCode) -> None:
        if not await self._coordinator.has_moved(error):
            self._epoch = 0
            await self._take(frozenset())
            await asyncio.sleep(RETRY_S)

    def _beat(self, member_id: str, *, is_news: bool) -> ConsumerGroupHeartbeatRequest:
        is_joining, topic = self._epoch == 0, self._scene.topic
        owned = ConsumerGroupHeartbeatRequestTopicPartitions(
            topic_id=topic.topic_id, partitions=tuple(sorted(self._owned))
        )
        return ConsumerGroupHeartbeatRequest(
            group_id=self._scene.group_id,
            member_id=member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_joining else -1,
            subscribed_topic_names=(topic.name,) if is_joining else None,
            topic_partitions=((owned,) if self._owned else ()) if is_news else None,
        )


def numbers_in(assignment: bytes) -> frozenset[int]:
    """Return the partitions of a classic member's assignment, which has one topic at most."""
    return frozenset().union(*(read_assignment(assignment) or {}).values())


def share_of(topic: Topic, at: int, members: int) -> frozenset[int]:
    """Return the partitions of the member at this place."""
    return frozenset(range(at, len(topic.leaders), members))


def assigned_in(answer: ConsumerGroupHeartbeatResponse) -> frozenset[int] | None:
    """Return the partitions that a heartbeat's answer assigns, None if it says nothing of them."""
    if answer.assignment is None:
        return None
    return frozenset(number for topic in answer.assignment.topic_partitions for number in topic.partitions)
