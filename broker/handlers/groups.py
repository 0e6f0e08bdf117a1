"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: from the wire to what a group hears, and back.

What differs between versions, beyond fields: JoinGroup before version 1 has no rebalance timeout of its own, from
version 4 on it makes a member known before it counts (KIP-394), from 9 on it may tell a leader to assign nothing;
LeaveGroup before version 3 is for one member, whose error is the response's.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.net.dispatch import RequestContext
from ...protocol.wire.entities import milliseconds
from ..groups.coordinator import GroupCoordinator
from ..groups.core.events import (
    UNKNOWN_MEMBER_ID,
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
from . import Plain

KNOWN_MEMBERS_SINCE: Final = 4
PROTOCOL_TYPE_NULLABLE_SINCE: Final = 7
SKIP_ASSIGNMENT_SINCE: Final = 9
PROTOCOL_GIVEN_SINCE: Final = 5
MEMBER_ERRORS_SINCE: Final = 3
NO_TIMEOUT: Final = -1

A = TypeVar("A")


class GroupHandlers:
    """What members ask; member ids come from `rng`."""

    def __init__(self, coordinator: GroupCoordinator, rng: Random) -> None:
        self._coordinator = coordinator
        self._rng = rng

    async def join_group(self, context: RequestContext, request: Any) -> Plain:
        try:
            joined = await self._ask(request.group_id, lambda token: self._join(token, context, request), Joined)
        except KafkaError as error:
            joined = Joined(error=error.code, member_id=request.member_id)
        needs_protocol = context.api_version < PROTOCOL_TYPE_NULLABLE_SINCE
        return {
            "error_code": joined.error,
            "generation_id": joined.generation_id,
            "protocol_type": joined.protocol_type,
            "protocol_name": (joined.protocol_name or "") if needs_protocol else joined.protocol_name,
            "leader": joined.leader,
            "skip_assignment": joined.skip_assignment,
            "member_id": joined.member_id,
            "members": [
                {
                    "member_id": identity.member_id,
                    "group_instance_id": identity.group_instance_id,
                    "metadata": metadata,
                }
                for identity, metadata in joined.members
            ],
        }

    def _join(self, token: Token, context: RequestContext, request: Any) -> Join:
        session_timeout_ms = milliseconds(request.session_timeout)
        rebalance_timeout_ms = NO_TIMEOUT
        if hasattr(request, "rebalance_timeout"):
            rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
        identity = _identity(request)
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

    async def sync_group(self, context: RequestContext, request: Any) -> Plain:
        def event_of(token: Token) -> Sync:
            return Sync(
                token=token,
                who=_identity(request),
                generation_id=request.generation_id,
                protocol_type=getattr(request, "protocol_type", None),
                protocol_name=getattr(request, "protocol_name", None),
                assignments={each.member_id: each.assignment for each in request.assignments},
            )

        try:
            _check_protocol_given(context, request)
            synced = await self._ask(request.group_id, event_of, Synced)
        except KafkaError as error:
            synced = Synced(error=error.code)
        return {
            "error_code": synced.error,
            "protocol_type": synced.protocol_type,
            "protocol_name": synced.protocol_name,
            "assignment": synced.assignment,
        }

    async def heartbeat(self, _: RequestContext, request: Any) -> Plain:
        def event_of(token: Token) -> Heartbeat:
            return Heartbeat(token=token, who=_identity(request), generation_id=request.generation_id)

        try:
            error = await self._ask(request.group_id, event_of, ErrorCode)
        except KafkaError as refusal:
            error = refusal.code
        return {"error_code": error}

    async def leave_group(self, context: RequestContext, request: Any) -> Plain:
        is_batch = context.api_version >= MEMBER_ERRORS_SINCE
        members = tuple(map(_identity, request.members)) if is_batch else (MemberIdentity(request.member_id),)
        try:
            left = await self._ask(request.group_id, lambda token: Leave(token=token, members=members), Left)
        except KafkaError as error:
            left = Left(error=error.code)
        top_error = left.error
        if not is_batch and left.members:
            top_error = left.members[0][1]
        return {
            "error_code": top_error,
            "members": [
                {"member_id": who.member_id, "group_instance_id": who.group_instance_id, "error_code": error}
                for who, error in left.members
            ],
        }

    async def _ask(self, group_id: str, event_of: Callable[[Token], Event], kind: type[A]) -> A:
        answer = await self._coordinator.ask(group_id, event_of)
        assert isinstance(answer, kind), (group_id, answer, kind)
        return answer


def _check_protocol_given(context: RequestContext, request: Any) -> None:
    """A member that can say what it thinks was agreed on has to (KIP-559)."""
    if context.api_version >= PROTOCOL_GIVEN_SINCE and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.inconsistent_group_protocol, "SyncGroup names no protocol type, or no protocol")


def _identity(request: Any) -> MemberIdentity:
    return MemberIdentity(request.member_id or UNKNOWN_MEMBER_ID, getattr(request, "group_instance_id", None))


def _host(context: RequestContext) -> str:
    """As Kafka shows a client: the address with a slash before it."""
    return "/" + context.peer.rpartition(":")[0].strip("[]")
