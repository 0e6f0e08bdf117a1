"""ListGroups, DescribeGroups, DeleteGroups: what an operator wants to know of the groups that this broker coordinates.

A group that is not there is described as Dead, from version 6 on with GROUP_ID_NOT_FOUND (KIP-1043). A list taken while
a partition is being read would miss groups: it is refused with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ...protocol import GROUP_OPERATIONS, ErrorCode, KafkaError
from ...protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ...protocol.net import RequestContext
from ..groups.coordinator import GroupCoordinator
from ..groups.core.group import Group
from ..groups.core.group_state import CONSUMER_PROTOCOL, GroupState
from ..groups.core.shard import Shard

NOT_FOUND_SINCE: Final = 6
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"


class GroupAdminHandlers:
    """Answers for the groups that this broker coordinates."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def list_groups(self, _: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        if any(not active.is_loaded for active in self._coordinator.shards):
            return ListGroupsResponse(error_code=ErrorCode.coordinator_load_in_progress, groups=())
        listed = [
            group
            for active in self._coordinator.shards
            for group in sorted(_listed(active.shard), key=lambda each: each.group_id)
            if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
        ]
        return ListGroupsResponse(groups=tuple(listed))

    async def describe_groups(self, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        described = [self._describe(group_id, context.api_version) for group_id in request.groups]
        if request.include_authorized_operations:
            described = [
                replace(group, authorized_operations=GROUP_OPERATIONS) if group.error_code is ErrorCode.none else group
                for group in described
            ]
        return DescribeGroupsResponse(groups=tuple(described))

    def _describe(self, group_id: str, version: int) -> DescribeGroupsResponseDescribedGroup:
        """Describe any group; the group "" is not there either."""
        try:
            group = self._coordinator.shard_for(group_id).shard.groups.get(group_id)
            if group is None and version >= NOT_FOUND_SINCE:
                raise KafkaError(ErrorCode.group_id_not_found, f"group {group_id!r} is not there")
        except KafkaError as refusal:
            return _without_members(group_id, refusal.code, refusal.message)
        return _without_members(group_id) if group is None else _contents(group_id, group)

    async def delete_groups(self, _: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        names = list(dict.fromkeys(request.groups_names))
        errors = await asyncio.gather(*(self._delete(group_id) for group_id in names))
        results = [
            DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in zip(names, errors, strict=True)
        ]
        return DeleteGroupsResponse(results=tuple(results))

    async def _delete(self, group_id: str) -> ErrorCode:
        try:
            return await self._coordinator.shard_for(group_id).delete(group_id)
        except KafkaError as error:
            return error.code


def _listed(shard: Shard) -> Iterator[ListedGroup]:
    for group_id, group in shard.groups.items():
        yield ListedGroup(
            group_id=group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC,
        )
    for group_id, consumers in shard.consumers.items():
        yield ListedGroup(
            group_id=group_id,
            protocol_type=CONSUMER_PROTOCOL,
            group_state=consumers.state.value,
            group_type=CONSUMER,
        )
    for group_id, share in shard.shares.items():
        yield ListedGroup(group_id=group_id, protocol_type=SHARE, group_state=share.state.value, group_type=SHARE)


def _without_members(
    group_id: str, error: ErrorCode = ErrorCode.none, error_message: str | None = None
) -> DescribeGroupsResponseDescribedGroup:
    """Describe a group that is not there (Dead), or of which nothing is known here."""
    is_absent = error in (ErrorCode.none, ErrorCode.group_id_not_found)
    return DescribeGroupsResponseDescribedGroup(
        error_code=error,
        error_message=error_message,
        group_id=group_id,
        group_state=GroupState.DEAD.value if is_absent else "",
        protocol_type="",
        protocol_data="",
        members=(),
    )


def _contents(group_id: str, group: Group) -> DescribeGroupsResponseDescribedGroup:
    """Describe a group, with metadata and assignments if it is stable: otherwise they are not agreed on."""
    is_stable = group.state is GroupState.STABLE
    return DescribeGroupsResponseDescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members
        ),
    )
