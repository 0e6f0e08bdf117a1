"""A page's changes as server-sent events: the page stays, and each part of it that has changed comes by itself.

    event   data                     when
    ------  -----------------------  ---------------------------------------------------------------------------------
    part    {"id": ID, "html": HTML} a part differs from what this reader has; at first from the page as it was loaded
    alive   {}                       nothing has changed, once a look: the connection is proven in both directions

Between two looks there is a pause; news, such as a connection to a broker that has ended, cuts it short.

A stream ends when its reader leaves, which is noticed at the next write, at the latest after a look; browsers connect
again by themselves. Invariants: a stream holds no value of the cluster between two looks, only a digest of each part.
At most `STREAMS_MAX` are open; more get 503, and their pages ask again later. A reader that reads nothing holds up its
own stream alone: a look begins once the one before is sent.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

STREAMS_MAX: Final = 100
CONTENT_TYPE: Final = "text/event-stream"
RETRY_MS: Final = 2000

Parts = Mapping[str, str]
"""The HTML of each part of a page, by its id."""


class Streams:
    """How many are open. A place is taken before the first look, and given back by its response at the end."""

    def __init__(self) -> None:
        self.count = 0

    def take(self) -> bool:
        """Take a place, if there is one."""
        if self.count >= STREAMS_MAX:
            return False
        self.count += 1
        return True

    def give_back(self) -> None:
        """Give a place back."""
        self.count -= 1


class StreamResponse(StreamingResponse):
    """A page's changes for ever; `look` returns its parts as they are now. It has a place, and gives it back when it
    ends, even before its first byte.
    """

    def __init__(
        self, streams: Streams, look: Callable[[], Awaitable[Parts]], pause: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(events(look, pause), media_type=CONTENT_TYPE)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the reader leaves."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.give_back()


async def events(look: Callable[[], Awaitable[Parts]], pause: Callable[[], Awaitable[None]]) -> AsyncIterator[str]:
    """Yield a page's changes for ever."""
    yield f"retry: {RETRY_MS}\n\n"
    sent: dict[str, bytes] = {}
    while True:
        parts = await look()
        for event in changes(parts, sent):
            yield event
        await pause()


def changes(parts: Parts, sent: dict[str, bytes]) -> list[str]:
    """Return the events for the parts that differ from those sent, and note them as sent."""
    found = []
    for name, html in parts.items():
        digest = blake2b(html.encode("utf-8", "replace"), digest_size=16).digest()
        if sent.get(name) != digest:
            sent[name] = digest
            found.append(event("part", {"id": name, "html": html}))
    return found or [event("alive", {})]


def event(name: str, data: Mapping[str, str]) -> str:
    """Return one event; JSON has no line breaks, which would end it."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
