"""The gate: each request of a listener passes the row of its API before its handler sees it.

Handlers know no principal. Without an authorizer there is no gate, and nothing is added to a request's way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...security import Authorizer
from ..api import ApiKey
from ..fetch.messages import FetchRequest
from ..messages.base import Message
from ..net.dispatch import Handler, RequestContext
from . import shares
from .access import Access, Gate, TopicName
from .rows import CONTROLLER_FETCH, ROWS
from .topics import unread
from .whole import DENIED, markers_denied

_INTERNAL: Final[Mapping[ApiKey, Callable[[Any], Message]]] = {
    ApiKey.WRITE_TXN_MARKERS: markers_denied,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: lambda request: shares.initialize_denied(request, DENIED),
    ApiKey.READ_SHARE_GROUP_STATE: lambda request: shares.read_denied(request, DENIED),
    ApiKey.WRITE_SHARE_GROUP_STATE: lambda request: shares.write_denied(request, DENIED),
    ApiKey.DELETE_SHARE_GROUP_STATE: lambda request: shares.delete_denied(request, DENIED),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: lambda request: shares.summary_denied(request, DENIED),
}
"""What brokers alone ask for, and how a client is denied it."""


def guarded(
    handlers: Mapping[int, Handler],
    authorizer: Authorizer | None,
    topic_name: TopicName,
    *,
    is_controller: bool = False,
) -> dict[int, Handler]:
    """Return the handlers with the gate before them. An API without a row is a KeyError: it must not be served."""
    if authorizer is None:
        return dict(handlers)
    return {
        api: _guarded(handler, _gate(ApiKey(api), is_controller), authorizer, topic_name)
        for api, handler in handlers.items()
    }


def _gate(api: ApiKey, is_controller: bool) -> Gate:
    row = CONTROLLER_FETCH if is_controller and api is ApiKey.FETCH else ROWS[api]
    return row.gate


def _guarded(handler: Handler, gate: Gate, authorizer: Authorizer, topic_name: TopicName) -> Handler:
    async def guarded_handler(context: RequestContext, request: Message) -> Message | None:
        return await gate(Access(authorizer, context, topic_name), handler, request)

    return guarded_handler


def for_brokers_only(handlers: Mapping[int, Handler], broker_listener: str | None) -> dict[int, Handler]:
    """Return the handlers, with replica fetches, WriteTxnMarkers and the state of share groups kept off the listeners
    of clients. With None, where clients use the brokers' listener too, they must be served.
    """
    if broker_listener is None:
        return dict(handlers)
    kept = (ApiKey.FETCH, *_INTERNAL)
    rest = {api: handler for api, handler in handlers.items() if api not in kept}
    return rest | {api: _internal(api, handlers[api], broker_listener) for api in kept if api in handlers}


def _internal(api: ApiKey, handler: Handler, broker_listener: str) -> Handler:
    async def internal_handler(context: RequestContext, request: Message) -> Message | None:
        if context.listener == broker_listener or (isinstance(request, FetchRequest) and request.replica_id < 0):
            return await handler(context, request)
        if isinstance(request, FetchRequest):
            return unread(request.topics, ())
        return _INTERNAL[api](request)

    return internal_handler
