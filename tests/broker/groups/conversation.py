"""Requests of any version to the groups of a broker, answered through kio's own codec."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tierfetch.broker.environment import wall_clock_ms
from tierfetch.broker.handlers.coordinators import CoordinatorHandler
from tierfetch.broker.handlers.group_admin import GroupAdminHandlers
from tierfetch.broker.handlers.group_offsets import OffsetCommitHandlers
from tierfetch.broker.handlers.groups import GroupHandlers
from tierfetch.broker.node import Broker
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.wire.entities import build_entity
from tierfetch.tests.broker.requests import ask as ask_handler

RETRIED = {ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator, ErrorCode.coordinator_not_available}


class Coordinator:
    """The group handlers of one broker."""

    def __init__(self, broker: Broker) -> None:
        members = GroupHandlers(broker.groups, random.Random(1))
        offsets = OffsetCommitHandlers(broker.groups, wall_clock_ms)
        admin = GroupAdminHandlers(broker.groups)
        self._handlers = {
            ApiKey.FIND_COORDINATOR: CoordinatorHandler(broker.groups).find_coordinator,
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
        }

    async def ask(self, api: ApiKey, version: int | None = None, **fields: Any) -> Any:
        """`fields` of any version; the newest one unless another is named."""
        version = api.max_version if version is None else version
        return await ask_handler(self._handlers[api], build_entity(api.request_type(version), fields))

    async def ask_until(self, done: Any, api: ApiKey, version: int | None = None, **fields: Any) -> Any:
        """As a client does: again, until it is answered as wanted."""
        async with asyncio.timeout(10):
            while not done(answer := await self.ask(api, version, **fields)):  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.01)
        return answer

    # Shorthands.

    async def find(self, group: str = "g") -> int:
        """The node that coordinates; waits until it is ready."""
        answer = await self.ask(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(group,))
        (found,) = answer.coordinators
        assert found.error_code is ErrorCode.none, found
        node: int = found.node_id
        return node

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
        answer = await self.ask(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            retention_time_ms=-1,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": offset,
                            "committed_leader_epoch": 1,
                            "committed_metadata": metadata,
                        }
                    ],
                }
            ],
        )
        error: ErrorCode = answer.topics[0].partitions[0].error_code
        return error

    async def committed(self, group: str = "g") -> dict[str, int]:
        """All offsets of a group, by partition."""
        answer = await self.ask_until(
            lambda answer: answer.groups[0].error_code not in RETRIED,
            ApiKey.OFFSET_FETCH,
            9,
            groups=[{"group_id": group, "topics": None}],
        )
        assert answer.groups[0].error_code is ErrorCode.none, answer
        return {
            f"{topic.name}-{partition.partition_index}": partition.committed_offset
            for topic in answer.groups[0].topics
            for partition in topic.partitions
        }

    async def join(self, group: str = "g", *, version: int = 9, member: str = "", **options: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": member,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"meta"}],
        }
        return await self.ask(ApiKey.JOIN_GROUP, version, **fields | options)

    async def enter(self, group: str = "g", **options: Any) -> Any:
        """As a client does: come again with the id that was given."""
        joined = await self.join(group, **options)
        if joined.error_code is ErrorCode.member_id_required:
            joined = await self.join(group, member=joined.member_id, **options)
        assert joined.error_code is ErrorCode.none, joined
        return joined
