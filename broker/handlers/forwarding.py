"""Requests that only the active controller can answer, passed on as they came and answered as it answers.

Tools and clients may ask any broker. The broker has decided what the client may do, so the controller need not know
who it is; except for changes to topics while some client has a quota for them (KIP-599): these go in an Envelope
(KIP-590), and the controller decides again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ...controller.core.quotas.mutations import STRICT_SINCE
from ...controller.core.refusals import refusal
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.base import Request, ResponseT
from ...protocol.net.dispatch import Handler, RequestContext
from ..cluster.controller_channel import ControllerChannel, ControllerUnavailableError, is_from_another
from ..cluster.envelope import unwrapped, wrapped

FORWARDED: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
)


RETRY_S: Final = 0.1
"""Between two questions to controllers that stopped being active when they had a forwarded request."""


class Forwarding:
    """Through `channel`, each within `timeout_s`. `has_mutation_quotas`: whether some client may not change topics as
    fast as it likes.
    """

    def __init__(
        self, channel: ControllerChannel, timeout_s: float, has_mutation_quotas: Callable[[], bool] = lambda: False
    ) -> None:
        self._channel = channel
        self._timeout_s = timeout_s
        self._has_mutation_quotas = has_mutation_quotas

    def table(self) -> dict[int, Handler]:
        return dict.fromkeys(FORWARDED, self.forward)

    async def forward(self, context: RequestContext, request: Request[ResponseT]) -> ResponseT:
        """Return the controller's response, or UNSUPPORTED_VERSION where the controller is too old for the request.
        REQUEST_TIMED_OUT closes the connection: the client asks again, or another broker.
        """
        try:
            if context.api in STRICT_SINCE and self._has_mutation_quotas():
                return await self._send_in_envelope(context, request)
            return await self._channel.send(request, timeout_s=self._timeout_s, max_version=context.api_version)
        except ControllerUnavailableError as error:
            raise KafkaError(ErrorCode.request_timed_out, str(error)) from error
        except KafkaError as error:
            return refusal(request, error)

    async def _send_in_envelope(self, context: RequestContext, request: Request[ResponseT]) -> ResponseT:
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + self._timeout_s
        envelope = wrapped(context, request)
        while True:
            response = await self._channel.send(envelope, timeout_s=deadline_s - now_s())
            answer = unwrapped(context, request, response)
            if not is_from_another(answer):
                return answer
            await asyncio.sleep(RETRY_S)
