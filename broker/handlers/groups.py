"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: from the wire to a group's events, and back.

What differs between versions, beyond what the messages have: JoinGroup before version 1 has no rebalance timeout of its
own, from version 4 on it makes a member known before it counts (KIP-394), from 9 on it may tell a leader to assign
nothing; SyncGroup has to name the protocol from version 5 on.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ...protocol.net import RequestContext
from ..groups.coordinator import GroupCoordinator
from ..groups.core.events import (
    Event,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    MemberIdentity,
    Sync,
    Synced,
    Token,
)

KNOWN_MEMBERS_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9
PROTOCOL_GIVEN_SINCE: Final = 5

A = TypeVar("A")


class GroupHandlers:
    """What members ask; member ids come from `rng`."""

    def __init__(self, coordinator: GroupCoordinator, rng: Random) -> None:
        self._coordinator = coordinator
        self._rng = rng

    async def join_group(self, context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
        try:
            joined = await self._ask(request.group_id, lambda token: self._join(token, context, request), Joined)
        except KafkaError as error:
            joined = Joined(error=error.code, member_id=request.member_id)
        return JoinGroupResponse(
            error_code=joined.error,
            generation_id=joined.generation_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            leader=joined.leader,
            skip_assignment=joined.skip_assignment,
            member_id=joined.member_id,
            members=tuple(
                JoinGroupResponseMember(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, metadata=metadata
                )
                for identity, metadata in joined.members
            ),
        )

    def _join(self, token: Token, context: RequestContext, request: JoinGroupRequest) -> Join:
        session_timeout_ms, rebalance_timeout_ms = request.session_timeout_ms, request.rebalance_timeout_ms
        identity = MemberIdentity(request.member_id, request.group_instance_id)
        stem = identity.group_instance_id or context.client_id or ""
        return Join(
            token=token,
            who=identity,
            new_member_id=f"{stem}-{UUID(int=self._rng.getrandbits(128), version=4)}",
            client_id=context.client_id or "",
            client_host=_host(context),
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            needs_known_member_id=context.api_version >= KNOWN_MEMBERS_SINCE,
            can_skip_assignment=context.api_version >= SKIP_ASSIGNMENT_SINCE,
        )

    async def sync_group(self, context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
        def event_of(token: Token) -> Sync:
            return Sync(
                token=token,
                who=MemberIdentity(request.member_id, request.group_instance_id),
                generation_id=request.generation_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments={each.member_id: each.assignment for each in request.assignments},
            )

        try:
            _check_protocol_given(context, request)
            synced = await self._ask(request.group_id, event_of, Synced)
        except KafkaError as error:
            synced = Synced(error=error.code)
        return SyncGroupResponse(
            error_code=synced.error,
            protocol_type=synced.protocol_type,
            protocol_name=synced.protocol_name,
            assignment=synced.assignment,
        )

    async def heartbeat(self, _: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        def event_of(token: Token) -> Heartbeat:
            who = MemberIdentity(request.member_id, request.group_instance_id)
            return Heartbeat(token=token, who=who, generation_id=request.generation_id)

        try:
            error = await self._ask(request.group_id, event_of, ErrorCode)
        except KafkaError as refusal:
            error = refusal.code
        return HeartbeatResponse(error_code=error)

    async def leave_group(self, _: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
        members = tuple(MemberIdentity(each.member_id, each.group_instance_id) for each in request.members)
        try:
            left = await self._ask(request.group_id, lambda token: Leave(token=token, members=members), Left)
        except KafkaError as error:
            left = Left(error=error.code)
        return LeaveGroupResponse(
            error_code=left.error,
            members=tuple(
                MemberResponse(member_id=who.member_id, group_instance_id=who.group_instance_id, error_code=error)
                for who, error in left.members
            ),
        )

    async def _ask(self, group_id: str, event_of: Callable[[Token], Event], kind: type[A]) -> A:
        answer = await self._coordinator.ask(group_id, event_of)
        assert isinstance(answer, kind), (group_id, answer, kind)
        return answer


def _check_protocol_given(context: RequestContext, request: SyncGroupRequest) -> None:
    """A member that can say what it thinks was agreed on has to (KIP-559)."""
    if context.api_version >= PROTOCOL_GIVEN_SINCE and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.inconsistent_group_protocol, "SyncGroup names no protocol type, or no protocol")


def _host(context: RequestContext) -> str:
    """As Kafka shows a client: the address with a slash before it."""
    return "/" + context.client_host
