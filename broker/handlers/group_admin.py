"""ListGroups, DescribeGroups, DeleteGroups: what an operator wants to know of the groups that this broker coordinates.

A group that is not there is described as Dead, from version 6 on with GROUP_ID_NOT_FOUND (KIP-1043). A list taken while
a partition is being read would miss groups: it is refused with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ...protocol.authorized_operations import NOT_ASKED, OF_GROUP
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.net.dispatch import RequestContext
from ..groups.coordinator import GroupCoordinator
from ..groups.core.group import Group
from ..groups.core.group_state import GroupState
from . import Plain

NOT_FOUND_SINCE: Final = 6
CLASSIC: Final = "classic"


class GroupAdminHandlers:
    """Answers for the groups that this broker coordinates."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def list_groups(self, _: RequestContext, request: Any) -> Plain:
        states = {state.lower() for state in getattr(request, "states_filter", ())}
        types = {kind.lower() for kind in getattr(request, "types_filter", ())}
        if any(not active.is_loaded for active in self._coordinator.shards):
            return {"error_code": ErrorCode.coordinator_load_in_progress, "groups": []}
        groups = [
            {
                "group_id": group_id,
                "protocol_type": group.protocol_type or "",
                "group_state": group.state.value,
                "group_type": CLASSIC,
            }
            for active in self._coordinator.shards
            for group_id, group in sorted(active.shard.groups.items())
            if (not states or group.state.value.lower() in states) and (not types or CLASSIC in types)
        ]
        return {"error_code": ErrorCode.none, "groups": groups}

    async def describe_groups(self, context: RequestContext, request: Any) -> Plain:
        operations = OF_GROUP if getattr(request, "include_authorized_operations", False) else NOT_ASKED
        described = [self._describe(group_id, context.api_version) for group_id in request.groups]
        return {
            "groups": [
                {**group, "authorized_operations": operations} if group["error_code"] is ErrorCode.none else group
                for group in described
            ]
        }

    def _describe(self, group_id: str, version: int) -> Plain:
        """Of the group "", too, which is not there."""
        error, message, group = ErrorCode.none, None, None
        try:
            group = self._coordinator.shard_for(group_id).shard.groups.get(group_id)
            if group is None and version >= NOT_FOUND_SINCE:
                raise KafkaError(ErrorCode.group_id_not_found, f"group {group_id!r} is not there")
        except KafkaError as refusal:
            error, message = refusal.code, refusal.message
        described: dict[str, Any] = {
            "error_code": error,
            "error_message": message,
            "group_id": group_id,
            "group_state": GroupState.DEAD.value if error in (ErrorCode.none, ErrorCode.group_id_not_found) else "",
            "protocol_type": "",
            "protocol_data": "",
            "members": (),
            "authorized_operations": NOT_ASKED,
        }
        return described if group is None else {**described, **_contents(group)}

    async def delete_groups(self, _: RequestContext, request: Any) -> Plain:
        names = list(dict.fromkeys(request.groups_names))
        errors = await asyncio.gather(*(self._delete(group_id) for group_id in names))
        return {
            "results": [
                {"group_id": group_id, "error_code": error} for group_id, error in zip(names, errors, strict=True)
            ]
        }

    async def _delete(self, group_id: str) -> ErrorCode:
        try:
            return await self._coordinator.shard_for(group_id).delete(group_id)
        except KafkaError as error:
            return error.code


def _contents(group: Group) -> dict[str, Any]:
    """Metadata and assignments only of a stable group: of any other one they are not agreed on."""
    is_stable = group.state is GroupState.STABLE
    return {
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol_name or "") if is_stable else "",
        "members": tuple(
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata(group.protocol_name) if is_stable else b"",
                "member_assignment": member.assignment if is_stable else b"",
            }
            for member in group.members
        ),
    }
