"""FindCoordinator: which broker coordinates a group.

| asked for | answer |
|---|---|
| a group | the leader of its partition of `__consumer_offsets`; COORDINATOR_NOT_AVAILABLE while there is none |
| a transactional id, a share group | INVALID_REQUEST, with the reason: nobody coordinates these here |

Version 4 asks for any number of keys at once (KIP-699).
"""

from __future__ import annotations

from typing import Final

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.net import RequestContext
from ..groups.coordinator import GroupCoordinator

GROUP_KEY: Final = 0
NO_NODE: Final = -1


class CoordinatorHandler:
    """Answers on any broker."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def find_coordinator(
        self, context: RequestContext, request: FindCoordinatorRequest
    ) -> FindCoordinatorResponse:
        found = [await self._find(key, request.key_type, context.listener) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=tuple(found))

    async def _find(self, key: str, key_type: int, listener: str) -> Coordinator:
        try:
            if key_type != GROUP_KEY:
                raise KafkaError(ErrorCode.invalid_request, "only consumer groups have a coordinator here")
            broker = await self._coordinator.find(key)
            end_point = broker.end_point(listener)
            if end_point is None:
                raise KafkaError(ErrorCode.listener_not_found, f"broker {broker.id} has no listener {listener}")
        except KafkaError as error:
            return Coordinator(
                key=key,
                error_code=error.code,
                error_message=error.message,
                node_id=NO_NODE,
                host="",
                port=NO_NODE,
            )
        return Coordinator(key=key, error_message="", node_id=broker.id, host=end_point.host, port=end_point.port)
