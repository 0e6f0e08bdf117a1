"""FindCoordinator: which broker coordinates a group or a transactional id, or keeps the state of a share-partition.

| asked for | answer |
|---|---|
| a group | the leader of its partition of `__consumer_offsets`; COORDINATOR_NOT_AVAILABLE while there is none |
| a transactional id | the leader of its partition of `__transaction_state`; the same while there is none |
| a share-partition, `group:topic id:partition` | the leader of its partition of `__share_group_state`; the same |
| a share-partition at `share.version` 0, or below version 6 | INVALID_REQUEST |

Version 4 asks for any number of keys at once (KIP-699).
"""

from __future__ import annotations

from typing import Any, Final

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.net import RequestContext
from ..coordinator.roles import Coordinator as AnyCoordinator
from ..groups.coordinator import GroupCoordinator
from ..share_state.coordinator import ShareCoordinator
from ..transactions.coordinator import TransactionCoordinator

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
SHARE_KEY: Final = 2
SHARES_SINCE: Final = 6
"""The first version of the request that asks for share-partitions."""
NO_NODE: Final = -1


class CoordinatorHandler:
    """Answers on any broker."""

    def __init__(
        self, groups: GroupCoordinator, transactions: TransactionCoordinator, shares: ShareCoordinator
    ) -> None:
        self._shares = shares
        self._coordinators: dict[int, AnyCoordinator[Any]] = {
            GROUP_KEY: groups,
            TRANSACTION_KEY: transactions,
            SHARE_KEY: shares,
        }

    async def find_coordinator(
        self, context: RequestContext, request: FindCoordinatorRequest
    ) -> FindCoordinatorResponse:
        found = [await self._find(context, key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=tuple(found))

    async def _find(self, context: RequestContext, key: str, key_type: int) -> Coordinator:
        listener = context.listener
        try:
            # Before anything is looked for: that creates the topic.
            if key_type == SHARE_KEY and (context.api_version < SHARES_SINCE or not self._shares.is_enabled):
                message = f"share-partitions are asked for from version {SHARES_SINCE} and share.version 1 on"
                raise KafkaError(ErrorCode.invalid_request, message)
            coordinator = self._coordinators.get(key_type)
            if coordinator is None:
                message = (
                    f"key type {key_type}: groups (0), transactional ids (1) and share-partitions (2) are coordinated"
                )
                raise KafkaError(ErrorCode.invalid_request, message)
            broker = await coordinator.find_broker(key)
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
