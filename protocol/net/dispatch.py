"""What a request handler gets and gives, and the answer to ApiVersions.

A handler is `async (context, request) -> response`. For Produce and Fetch both are the values of `wire.produce` and
`fetch.wire`; for all others they are the API's message classes in their newest form (`messages.versions`).

Rules of a handler:
* Handlers of one connection begin in the order in which their requests arrived and run concurrently; their responses
  leave in the same order. What must keep the order (appends) is done before the first `await`, or queued there.
* None sends nothing (Produce with acks=0).
* Any exception that leaves it closes the connection. A `KafkaError` does so on purpose, where Kafka does and no
  response could say it (a refused Produce with acks=0); otherwise the handler turns it into a response.
* When the connection is lost a Fetch or a ShareFetch is cancelled; all others run to their end, for they may have
  changed something. What a ShareFetch has changed is settled without it (`broker/share/live.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol
from uuid import UUID

from ...light_dataclass import dataclass
from ...security import ANONYMOUS, KafkaPrincipal, SecurityProtocol
from ..api import ApiKey
from ..errors import ErrorCode
from ..messages.base import Message
from ..messages.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..values import value

CANCELLED_WITH_CONNECTION: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_NAME_SINCE: Final = 3
_ZERO_MIN_FEATURES_SINCE: Final = 4


class TopicRights(Protocol):
    """What the consumer of one Fetch may read."""

    @property
    def version(self) -> object:
        """Equal for two requests only if both may read the same."""

    def may_read(self, topic: str | UUID) -> bool:
        """Return whether records of the topic, by name or id, may be read. What does not exist may."""


def unheld(_: int) -> None:
    """Charge nothing, for a request that came over no connection."""


def never_closed() -> bool:
    """Return False, for a request that came over no connection."""
    return False


def unmuted(_: float) -> None:
    """Leave the connection as it is."""


@value
class RequestContext:
    """The circumstances of one request. `arrival_time_s` is the event loop's clock when its last byte was there.

    `peer` is the client's address with its port, `client_host` the address alone; `listener` is the listener's name.
    `request_bytes` is its size on the wire. `mute(seconds)` has the connection read nothing for so long; what must be
    answered is answered (KIP-219). `hold(bytes)` charges objects that are made of the request to its memory, which is
    given back with it. `is_closed()` says whether its connection is closed. `rights` has what a consumer may
    read, where that is limited.
    """

    api: ApiKey
    api_version: int
    client_id: str | None
    connection_id: int
    peer: str
    listener: str
    arrival_time_s: float
    principal: KafkaPrincipal = ANONYMOUS
    client_host: str = ""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    request_bytes: int = 0
    mute: Callable[[float], None] = unmuted
    hold: Callable[[int], None] = unheld
    is_closed: Callable[[], bool] = never_closed
    rights: TopicRights | None = None


Handler = Callable[[RequestContext, Any], Coroutine[Any, Any, Message | None]]
"""A handler of some API. It gets requests of the class that its API's codec reads, which this type cannot say."""
Handlers = Mapping[int, Handler] | Mapping[ApiKey, Handler]
"""The handlers by API key. A listener offers exactly the APIs that have a handler."""


@dataclass(frozen=True, slots=True)
class SupportedFeature:
    """A feature and the levels that this node could run at."""

    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """Feature levels of the cluster, and the metadata offset from which they are."""

    epoch: int
    levels: Mapping[str, int]


def api_versions_response(
    apis: Iterable[int],
    api_version: int,
    *,
    error_code: ErrorCode = ErrorCode.none,
    supported_features: Collection[SupportedFeature] = (),
    finalized_features: FinalizedFeatures | None = None,
) -> ApiVersionsResponse:
    """Return an ApiVersions response that offers `apis`; one that refuses offers nothing. Before version 4 features
    from level 0 are left out, because old clients fail on them (KIP-1022).
    """
    if error_code is ErrorCode.invalid_request:
        return ApiVersionsResponse(error_code=error_code, api_keys=())
    levels = {} if finalized_features is None else finalized_features.levels
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=tuple(
            ApiVersion(api_key=int(api), min_version=api.min_version, max_version=api.max_version)
            for api in sorted(ApiKey(key) for key in apis)
        ),
        supported_features=tuple(
            SupportedFeatureKey(name=feature.name, min_version=feature.min_version, max_version=feature.max_version)
            for feature in supported_features
            if feature.min_version > 0 or api_version >= _ZERO_MIN_FEATURES_SINCE
        ),
        finalized_features_epoch=-1 if finalized_features is None else finalized_features.epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in sorted(levels.items())
        ),
    )


def api_versions_error(request: ApiVersionsRequest, api_version: int) -> ErrorCode:
    """INVALID_REQUEST for a client software name or version that is not one (KIP-511), else NONE."""
    if api_version < _SOFTWARE_NAME_SINCE:
        return ErrorCode.none
    names = (request.client_software_name, request.client_software_version)
    return ErrorCode.none if all(map(_SOFTWARE_NAME.fullmatch, names)) else ErrorCode.invalid_request
