"""Requests of any version to the groups of a broker, answered through the bytes of that version."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from tierfetch.broker.environment import wall_clock_ms
from tierfetch.broker.handlers.consumer_groups import ConsumerGroupHandlers
from tierfetch.broker.handlers.coordinators import CoordinatorHandler
from tierfetch.broker.handlers.group_admin import GroupAdminHandlers
from tierfetch.broker.handlers.group_offsets import OffsetCommitHandlers
from tierfetch.broker.handlers.groups import GroupHandlers
from tierfetch.broker.node import Broker
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tierfetch.protocol.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tierfetch.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.requests import ask_message
from tierfetch.tests.broker.waiting import until

RETRIED = {ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator, ErrorCode.coordinator_not_available}


class Coordinator:
    """The group handlers of one broker."""

    def __init__(self, broker: Broker) -> None:
        members = GroupHandlers(broker.groups, random.Random(1))
        offsets = OffsetCommitHandlers(broker.groups, wall_clock_ms)
        admin = GroupAdminHandlers(broker.groups)
        consumers = ConsumerGroupHandlers(broker.groups, random.Random(2))
        self._handlers: dict[int, Callable[[RequestContext, Any], Awaitable[Any]]] = {
            ApiKey.FIND_COORDINATOR: CoordinatorHandler(
                broker.groups, broker.transactions.coordinator, broker.shares
            ).find_coordinator,
            ApiKey.JOIN_GROUP: members.join_group,
            ApiKey.SYNC_GROUP: members.sync_group,
            ApiKey.HEARTBEAT: members.heartbeat,
            ApiKey.LEAVE_GROUP: members.leave_group,
            ApiKey.OFFSET_COMMIT: offsets.offset_commit,
            ApiKey.OFFSET_FETCH: offsets.offset_fetch,
            ApiKey.OFFSET_DELETE: offsets.offset_delete,
            ApiKey.LIST_GROUPS: admin.list_groups,
            ApiKey.DESCRIBE_GROUPS: admin.describe_groups,
            ApiKey.DELETE_GROUPS: admin.delete_groups,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: consumers.heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: consumers.describe,
        }

    async def ask(self, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        """Return the answer in the newest version unless another is named."""
        answer: ResponseT = await ask_message(self._handlers[request.api_key], request, version)
        return answer

    async def ask_until(
        self, done: Callable[[ResponseT], bool], request: Request[ResponseT], version: int | None = None
    ) -> ResponseT:
        """As a client does: again, until it is answered as wanted."""
        async with asyncio.timeout(10):
            while not done(answer := await self.ask(request, version)):  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.01)
        return answer

    # Shorthands.

    async def find(self, group: str = "g") -> int:
        """The node that coordinates; waits until it is ready."""
        answer = await self.ask(FindCoordinatorRequest(coordinator_keys=(group,)))
        (found,) = answer.coordinators
        assert found.error_code is ErrorCode.none, found
        return found.node_id

    async def commit(
        self,
        offset: int,
        group: str = "g",
        topic: str = "t",
        *,
        partition: int = 0,
        member: str = "",
        generation: int = -1,
        version: int = 9,
        metadata: str | None = None,
    ) -> ErrorCode:
        committed = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=1, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=(OffsetCommitRequestTopic(name=topic, partitions=(committed,)),),
        )
        answer = await self.ask(request, version)
        return answer.topics[0].partitions[0].error_code

    async def beat(
        self, member: str = "m", epoch: int = 0, group: str = "c", *, version: int = 1, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat of KIP-848; one that joins subscribes to "t"."""
        joining = {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": ("t",), "topic_partitions": ()}
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            **{"topic_partitions": None, **(joining if epoch == 0 else {}), **fields},
        )
        return await self.ask(request, version)

    async def committed(self, group: str = "g") -> dict[str, int]:
        """All offsets of a group, by partition."""
        answer = await self.ask_until(
            lambda answer: answer.groups[0].error_code not in RETRIED,
            OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),)),
            9,
        )
        assert answer.groups[0].error_code is ErrorCode.none, answer
        return {
            f"{topic.name}-{partition.partition_index}": partition.committed_offset
            for topic in answer.groups[0].topics
            for partition in topic.partitions
        }

    async def join(
        self, group: str = "g", *, version: int = 9, member: str = "", metadata: bytes = b"meta"
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
        )
        return await self.ask(request, version)

    async def enter(self, group: str = "g", *, version: int = 9) -> JoinGroupResponse:
        """As a client does: come again with the id that was given."""
        joined = await self.join(group, version=version)
        if joined.error_code is ErrorCode.member_id_required:
            joined = await self.join(group, member=joined.member_id, version=version)
        assert joined.error_code is ErrorCode.none, joined
        return joined


async def ready(nodes: Nodes, number: int) -> Coordinator:
    coordinator = Coordinator(nodes[number])
    assert await coordinator.find() == number
    await until(lambda: [active.is_loaded for active in nodes[number].groups.shards] == [True])
    return coordinator
