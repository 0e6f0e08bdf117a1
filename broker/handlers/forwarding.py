"""Requests that only the active controller can answer, forwarded in an Envelope and answered as it answers (KIP-590).

Tools and clients may ask any broker. The Envelope has the client's principal and address: the controller decides what
the client may, and the broker itself needs no right but ClusterAction.
"""

from __future__ import annotations

import logging
from typing import Final

from ...controller import refusal
from ...limited_log import LimitedLog
from ...protocol import ApiKey, EnvelopeError, ErrorCode, KafkaError
from ...protocol.messages import Request, ResponseT
from ...protocol.net import Handler, RequestContext
from ..cluster.controller_channel import ControllerChannel, ControllerUnavailableError

_log = LimitedLog(logging.getLogger(__name__))

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


class Forwarding:
    """Through `channel`, each within `timeout_s`."""

    def __init__(self, channel: ControllerChannel, timeout_s: float) -> None:
        self._channel = channel
        self._timeout_s = timeout_s

    def table(self) -> dict[int, Handler]:
        return dict.fromkeys(FORWARDED, self.forward)

    async def forward(self, context: RequestContext, request: Request[ResponseT]) -> ResponseT:
        """Return the controller's response, or UNSUPPORTED_VERSION where the controller is too old for the request, or
        UNKNOWN_SERVER_ERROR where it does not let this broker forward. REQUEST_TIMED_OUT closes the connection: the
        client asks again, or another broker.
        """
        try:
            return await self._channel.forward(request, context, timeout_s=self._timeout_s)
        except EnvelopeError as error:
            if error.code is not ErrorCode.unsupported_version:
                _log.warning(
                    str(context.principal),
                    "%s of %s cannot be forwarded: %s; this broker's principal needs ClusterAction on the cluster",
                    context.api.name,
                    context.principal,
                    error.message,
                )
                return refusal(request, KafkaError(ErrorCode.unknown_server_error, "the broker could not forward it"))
            return refusal(request, error)
        except ControllerUnavailableError as error:
            raise KafkaError(ErrorCode.request_timed_out, str(error)) from error
        except KafkaError as error:
            return refusal(request, error)
