"""The gate: each request of a listener passes the row of its API before its handler sees it.

Handlers know no principal. Without an authorizer there is no gate, and nothing is added to a request's way.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...security import Authorizer
from ..api import ApiKey
from ..fetch.messages import FetchRequest
from ..messages.base import Message
from ..messages.producers import WriteTxnMarkersRequest
from ..net.dispatch import Handler, RequestContext
from .access import Access, Gate, TopicName
from .rows import CONTROLLER_FETCH, ROWS
from .topics import unread
from .whole import markers_denied


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
    """Return the handlers, with replica fetches and WriteTxnMarkers kept off the listeners of clients. With None, where
    clients use the brokers' listener too, they must be served.
    """
    if broker_listener is None:
        return dict(handlers)
    kept = (ApiKey.FETCH, ApiKey.WRITE_TXN_MARKERS)
    rest = {api: handler for api, handler in handlers.items() if api not in kept}
    return rest | {api: _internal(handlers[api], broker_listener) for api in kept if api in handlers}


def _internal(handler: Handler, broker_listener: str) -> Handler:
    async def internal_handler(context: RequestContext, request: Message) -> Message | None:
        if context.listener == broker_listener or (isinstance(request, FetchRequest) and request.replica_id < 0):
            return await handler(context, request)
        if isinstance(request, FetchRequest):
            return unread(request.topics, ())
        assert isinstance(request, WriteTxnMarkersRequest), request
        return markers_denied(request)

    return internal_handler
