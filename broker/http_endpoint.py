"""A node's own HTTP, on its event loop: one request a connection, answered by the route of its path. h11 reads and
writes HTTP; here are sockets, TLS, passwords and limits.

A peer is disconnected when its request's head is larger than `REQUEST_HEAD_MAX`, when request and answer take longer
than `REQUEST_TIMEOUT_S`, when it is silent for `SILENCE_TIMEOUT_S` before its request is complete, and when
`REQUESTS_MAX` others came later while it was silent. Only if so many are being answered is a new request refused. A
wrong password is answered late and counts no longer meanwhile; with `REFUSED_MAX` of them waiting, another one is
disconnected at once. So neither silence nor wrong passwords keep an honest client out.

The endpoint has the keys of a listener METRICS: with TLS the handshake is a part of the request, with SASL's PLAIN the
routes that say so need HTTP's Basic authentication. Without either it listens on loopback, or the log says at start
that it is open.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import h11

from ..light_dataclass import dataclass
from ..limited_log import LimitedLog
from ..security import ListenerIdentity, SecurityProtocol
from ..security.core import OPEN_METRICS, PLAIN, Accepted, ListenerSettings, ScramCredentials, is_loopback

REQUEST_HEAD_MAX: Final = 16 * 1024
REQUEST_TIMEOUT_S: Final = 10.0
SILENCE_TIMEOUT_S: Final = 3.0
REQUESTS_MAX: Final = 8
REFUSED_MAX: Final = 64
"""Wrong passwords whose answers wait."""
METHODS: Final = (b"GET", b"HEAD")

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its status, the type of its body, and the body."""

    status: HTTPStatus
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Route:
    """`answer` makes the response of one path; `needs_password` where the endpoint has passwords at all."""

    answer: Callable[[], Awaitable[Answer]]
    needs_password: bool = True


class HttpEndpoint:
    """Answers `routes`, by path."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = {path.encode(): route for path, route in routes.items()}
        self._identity: ListenerIdentity | None = None
        self._server: asyncio.Server | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """Requests that are not complete, the oldest first."""
        self._refused: set[asyncio.Task[None]] = set()
        """Requests with a wrong password, whose answers wait."""

    async def start(self, host: str, port: int, settings: ListenerSettings = OPEN_METRICS) -> None:
        """Port 0 takes a free one; see `port`. OSError, SecurityConfigError."""
        if settings.protocol is not SecurityProtocol.PLAINTEXT:
            self._identity = await asyncio.to_thread(ListenerIdentity, settings, ScramCredentials)
        elif not is_loopback(host):
            _log.warning("metrics on %s are open: every host that reaches them may read names of topics", host)
        self._server = await asyncio.start_server(self._accept, host, port, limit=REQUEST_HEAD_MAX)
        scheme = "https" if settings.protocol.has_tls else "http"
        paths = ", ".join(path.decode() for path in self._routes)
        _log.info("HTTP on %s://%s:%d: %s", scheme, host, self.port, paths)

    @property
    def port(self) -> int:
        assert self._server is not None, "the endpoint is not started"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        running = self._requests | self._refused
        for request in running:
            request.cancel()
        if running:
            await asyncio.wait(running)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._requests) >= REQUESTS_MAX and self._silent:
            oldest, silent = next(iter(self._silent.items()))
            self._forget(oldest)
            silent.transport.abort()
            oldest.cancel()
        if len(self._requests) >= REQUESTS_MAX:
            _of_peers.warning("", "an HTTP request was refused: %d are in progress, the limit", len(self._requests))
            writer.transport.abort()
            return
        request = asyncio.create_task(self._serve(reader, writer), name="http-request")
        self._requests.add(request)
        self._silent[request] = writer
        request.add_done_callback(self._ended)

    def _forget(self, request: asyncio.Task[None]) -> None:
        self._requests.discard(request)
        self._silent.pop(request, None)
        self._refused.discard(request)

    def _ended(self, request: asyncio.Task[None]) -> None:
        self._forget(request)
        if not request.cancelled() and (error := request.exception()) is not None:
            _of_peers.error("", "internal error in an HTTP request", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_HEAD_MAX)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                async with asyncio.timeout(SILENCE_TIMEOUT_S):
                    if (tls := None if self._identity is None else self._identity.tls()) is not None:
                        await writer.start_tls(tls)
                    request = await _request(http, reader)
                self._silent.pop(task, None)
                answer = await self._answer(request, task)
                writer.write(_bytes_of(http, answer, is_head=_is_head(request)))
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError) as error:
            peer = writer.get_extra_info("peername")
            _of_peers.info(str(peer and peer[0]), "an HTTP request of %s ended early: %r", peer, error)
        finally:
            _cut_off(writer.transport)

    async def _answer(self, request: h11.Request | Answer, task: asyncio.Task[None]) -> Answer:
        if isinstance(request, Answer):
            return request
        if request.method not in METHODS:
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED)
        route = self._routes.get(request.target.partition(b"?")[0])
        if route is None:
            return Answer(HTTPStatus.NOT_FOUND)
        if route.needs_password and not self._has_password(request):
            await self._delay(task)
            return Answer(HTTPStatus.UNAUTHORIZED)
        return await route.answer()

    def _has_password(self, request: h11.Request) -> bool:
        """Return whether none is needed, or the request has a right one."""
        identity = self._identity
        if identity is None or not identity.mechanisms:
            return True
        return isinstance(identity.authentication(PLAIN).step(_basic(request)), Accepted)

    async def _delay(self, task: asyncio.Task[None]) -> None:
        """Have whoever guesses passwords wait, outside of the requests that count. ConnectionAbortedError if too many
        wait already: a connection that is cut says nothing either.
        """
        if len(self._refused) >= REFUSED_MAX:
            raise ConnectionAbortedError(f"{REFUSED_MAX} wrong passwords wait for their answers")
        self._requests.discard(task)
        self._refused.add(task)
        assert self._identity is not None
        await asyncio.sleep(self._identity.settings.failed_delay_ms / 1000)


def _cut_off(transport: asyncio.WriteTransport) -> None:
    """Abort a connection that has not ended. One that was closed with bytes to send, and has sent them since, must not
    be aborted: asyncio's plain transport raises AttributeError then.
    """
    if transport.get_extra_info("ssl_object") or not transport.is_closing() or transport.get_write_buffer_size():
        transport.abort()


async def _request(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | Answer:
    """Return the request, without its body, or the answer to what is none. EOFError if the peer ends before."""
    try:
        while (event := http.next_event()) is h11.NEED_DATA:
            if not (data := await reader.read(REQUEST_HEAD_MAX)):
                raise EOFError("it ended within its request")
            http.receive_data(data)
    except h11.RemoteProtocolError as error:
        return Answer(HTTPStatus(error.error_status_hint))
    return event if isinstance(event, h11.Request) else Answer(HTTPStatus.BAD_REQUEST)


def _is_head(request: h11.Request | Answer) -> bool:
    return isinstance(request, h11.Request) and request.method == b"HEAD"


def _bytes_of(http: h11.Connection, answer: Answer, *, is_head: bool) -> bytes:
    headers = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "close"),
    ]
    if answer.status is HTTPStatus.UNAUTHORIZED:
        headers.append(("WWW-Authenticate", 'Basic realm="metrics", charset="UTF-8"'))
    elif answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", "GET, HEAD"))
    response = h11.Response(status_code=answer.status.value, headers=headers, reason=answer.status.phrase.encode())
    events: list[h11.Event] = [response] if is_head else [response, h11.Data(data=answer.body)]
    return b"".join(http.send(event) or b"" for event in (*events, h11.EndOfMessage()))


def _basic(request: h11.Request) -> bytes:
    """Return the user and password of Basic authentication as PLAIN has them; without them, what nobody has."""
    for name, value in request.headers:
        scheme, _, credentials = value.partition(b" ")
        if name == b"authorization" and scheme.lower() == b"basic":
            with suppress(ValueError):
                return b"\0" + b64decode(credentials.strip(), validate=True).replace(b":", b"\0", 1)
    return b""
