"""ListGroups, DescribeGroups, DeleteGroups: what an operator wants to know of the groups that this broker coordinates.

A group that is not there is described as Dead, from version 6 on with GROUP_ID_NOT_FOUND (KIP-1043). A list taken while
a partition is being read would miss groups: it is refused with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

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
from ...protocol.net import SLICED_ELEMENTS_MIN, RequestContext, Slices, for_each
from ..groups.coordinator import GroupCoordinator
from ..groups.core.group import Group
from ..groups.core.group_state import CONSUMER_PROTOCOL, GroupState
from ..groups.core.membership import metadata_of
from ..groups.core.shard import Shard
from .consumer_groups import GROUP_WEIGHT, GROUPS_FREE, MEMBER_COST

NOT_FOUND_SINCE: Final = 6
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
LIST_WEIGHT: Final = 2
"""What a group in the list costs on the loop, in elements of `pace`."""
DELETES_MAX: Final = 100
"""The groups of a request that are being deleted at a time."""


class GroupAdminHandlers:
    """Answers for the groups that this broker coordinates."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def list_groups(self, _: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        if any(not active.is_loaded for active in self._coordinator.shards):
            return ListGroupsResponse(error_code=ErrorCode.coordinator_load_in_progress, groups=())
        listed: list[ListedGroup] = []
        async for some in Slices(self._all(), weight=LIST_WEIGHT, free=SLICED_ELEMENTS_MIN):
            listed += [
                group
                for group in some
                if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
            ]
        return ListGroupsResponse(groups=tuple(listed))

    def _all(self) -> Iterator[ListedGroup]:
        for active in list(self._coordinator.shards):
            yield from _listed(active.shard)

    async def describe_groups(self, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        described: list[DescribeGroupsResponseDescribedGroup] = []
        async for some in Slices(request.groups, weight=GROUP_WEIGHT, free=GROUPS_FREE):
            described += [await self._describe(group_id, context.api_version) for group_id in some]
        if request.include_authorized_operations:
            described = [
                replace(group, authorized_operations=GROUP_OPERATIONS) if group.error_code is ErrorCode.none else group
                for group in described
            ]
        return DescribeGroupsResponse(groups=tuple(described))

    async def _describe(self, group_id: str, version: int) -> DescribeGroupsResponseDescribedGroup:
        """Describe any group; the group "" is not there either."""
        try:
            group = self._coordinator.shard_for(group_id).shard.groups.get(group_id)
            if group is None and version >= NOT_FOUND_SINCE:
                raise KafkaError(ErrorCode.group_id_not_found, f"group {group_id!r} is not there")
        except KafkaError as refusal:
            return _without_members(group_id, refusal.code, refusal.message)
        return _without_members(group_id) if group is None else await _contents(group_id, group)

    async def delete_groups(self, _: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        errors = dict.fromkeys(request.groups_names, ErrorCode.none)

        async def delete(group_id: str) -> None:
            errors[group_id] = await self._delete(group_id)

        await for_each(list(errors), delete, at_once=DELETES_MAX, weight=GROUP_WEIGHT)
        results = [DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in errors.items()]
        return DeleteGroupsResponse(results=tuple(results))

    async def _delete(self, group_id: str) -> ErrorCode:
        try:
            return await self._coordinator.shard_for(group_id).delete(group_id)
        except KafkaError as error:
            return error.code


def _listed(shard: Shard) -> Iterator[ListedGroup]:
    """Yield the groups of a partition; others may come and go between two of them."""
    for group_id, group in list(shard.groups.items()):
        yield ListedGroup(
            group_id=group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC,
        )
    for group_id, consumers in list(shard.consumers.items()):
        yield ListedGroup(
            group_id=group_id,
            protocol_type=CONSUMER_PROTOCOL,
            group_state=consumers.state.value,
            group_type=CONSUMER,
        )
    for group_id, share in list(shard.shares.items()):
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


async def _contents(group_id: str, group: Group) -> DescribeGroupsResponseDescribedGroup:
    """Describe a group, with metadata and assignments if it is stable: otherwise they are not agreed on."""
    is_stable = group.state is GroupState.STABLE
    name = group.protocol_name if is_stable else None
    described = DescribeGroupsResponseDescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=name or "",
        members=(),
    )
    # As they are now: a description that takes turns with heartbeats is of one generation.
    held = [(member, member.protocols, member.assignment) for member in group.members]
    members: list[DescribedGroupMember] = []
    async for some in Slices(held, weight=MEMBER_COST, free=GROUP_WEIGHT // MEMBER_COST):
        members += [
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=metadata_of(protocols, name) if is_stable else b"",
                member_assignment=assignment if is_stable else b"",
            )
            for member, protocols, assignment in some
        ]
    return replace(described, members=tuple(members))
