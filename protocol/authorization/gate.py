"""The gate: each request of a listener passes the row of its API before its handler sees it.

Handlers know no principal. Without an authorizer there is no gate, and nothing is added to a request's way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...security.authorizer import Authorizer
from ..api import ApiKey
from ..net.dispatch import Handler, RequestContext
from .access import Access, Gate, TopicName
from .rows import CONTROLLER_FETCH, ROWS


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
    async def guarded_handler(context: RequestContext, request: Any) -> Any:
        return await gate(Access(authorizer, context, topic_name), handler, request)

    return guarded_handler
