"""`GET /metrics` for Prometheus: a listener of its own, on the broker's event loop, in the text format.

The loop gets its turn after every part of a metric family, so that thousands of partitions do not hold it. What a peer
may do is limited; it is disconnected when it sends more than `REQUEST_HEAD_MAX` bytes before its request is complete,
when request and answer take longer than `SCRAPE_TIMEOUT_S`, when it is silent for `SILENCE_TIMEOUT_S` before its
request is complete, and when `SCRAPES_MAX` others came later while it was silent. Only if so many are being answered is
a new scrape refused.

One request a connection; bodies are not read. The endpoint has the keys of a listener METRICS: with TLS the handshake
is a part of the request, with SASL's PLAIN each request needs HTTP's Basic authentication. Without either it listens on
loopback, or the log says at start that it is open.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ..security.core import plain
from ..security.core.mechanism import Accepted
from ..security.core.node import OPEN_METRICS, is_loopback
from ..security.core.settings import ListenerSettings
from ..security.credentials import ScramCredentials
from ..security.listener import ListenerIdentity
from ..security.principal import SecurityProtocol

REQUEST_HEAD_MAX: Final = 16 * 1024
SCRAPE_TIMEOUT_S: Final = 10.0
SILENCE_TIMEOUT_S: Final = 3.0
SCRAPES_MAX: Final = 8
PATH: Final = "/metrics"

_log = logging.getLogger(__name__)


class MetricsEndpoint:
    """`families` returns the metrics, once for each scrape."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families
        self._identity: ListenerIdentity | None = None
        self._server: asyncio.Server | None = None
        self._scrapes: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """Scrapes whose requests are not complete, the oldest first."""

    async def start(self, host: str, port: int, settings: ListenerSettings = OPEN_METRICS) -> None:
        """Port 0 takes a free one; see `port`. OSError, SecurityConfigError."""
        if settings.protocol is not SecurityProtocol.PLAINTEXT:
            self._identity = await asyncio.to_thread(ListenerIdentity, settings, ScramCredentials)
        elif not is_loopback(host):
            _log.warning("metrics on %s are open: every host that reaches them may read names of topics", host)
        self._server = await asyncio.start_server(self._accept, host, port, limit=REQUEST_HEAD_MAX)
        scheme = "https" if settings.protocol.has_tls else "http"
        _log.info("metrics on %s://%s:%d%s", scheme, host, self.port, PATH)

    @property
    def port(self) -> int:
        assert self._server is not None, "the metrics endpoint is not started"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for scrape in self._scrapes:
            scrape.cancel()
        if self._scrapes:
            await asyncio.wait(self._scrapes)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._scrapes) >= SCRAPES_MAX and self._silent:
            oldest, silent = next(iter(self._silent.items()))
            self._ended_early(oldest)
            silent.transport.abort()
            oldest.cancel()
        if len(self._scrapes) >= SCRAPES_MAX:
            _log.warning("a metrics scrape was refused: %d are in progress, the limit", len(self._scrapes))
            writer.transport.abort()
            return
        scrape = asyncio.create_task(self._serve(reader, writer), name="metrics-scrape")
        self._scrapes.add(scrape)
        self._silent[scrape] = writer
        scrape.add_done_callback(self._ended)

    def _ended_early(self, scrape: asyncio.Task[None]) -> None:
        self._scrapes.discard(scrape)
        self._silent.pop(scrape, None)

    def _ended(self, scrape: asyncio.Task[None]) -> None:
        self._ended_early(scrape)
        if not scrape.cancelled() and (error := scrape.exception()) is not None:
            _log.error("internal error in a metrics scrape", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SCRAPE_TIMEOUT_S):
                async with asyncio.timeout(SILENCE_TIMEOUT_S):
                    if (tls := None if self._identity is None else self._identity.tls()) is not None:
                        await writer.start_tls(tls)
                    head = await reader.readuntil(b"\r\n\r\n")
                if (scrape := asyncio.current_task()) is not None:
                    self._silent.pop(scrape, None)
                status = _status(head.split(b"\r\n", 1)[0])
                if not await self._is_let_in(head):
                    status = HTTPStatus.UNAUTHORIZED
                body = await self._text() if status is HTTPStatus.OK else b""
                writer.write(_response_head(status, len(body)) + body)
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            _log.info("a metrics scrape by %s ended early: %r", writer.get_extra_info("peername"), error)
        finally:
            writer.transport.abort()

    async def _is_let_in(self, head: bytes) -> bool:
        """Return whether a request needs no password, or has the right one. A wrong one is answered late."""
        if self._identity is None or not self._identity.mechanisms:
            return True
        if isinstance(self._identity.authentication(plain.MECHANISM).step(_basic(head)), Accepted):
            return True
        await asyncio.sleep(self._identity.settings.failed_delay_ms / 1000)
        return False

    async def _text(self) -> bytes:
        """Parts of one family follow each other: its name and type are said once."""
        parts, before = [], ""
        for family in self._families():
            text = generate_latest(_OneFamily(family))
            if family.name == before:
                text = text.removeprefix(generate_latest(_OneFamily(_without_samples(family))))
            before = family.name
            parts.append(text)
            await asyncio.sleep(0)
        return b"".join(parts)


def _without_samples(family: Metric) -> Metric:
    return Metric(family.name, family.documentation, family.type)


class _OneFamily(Collector):
    """What `generate_latest` takes."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def _basic(head: bytes) -> bytes:
    """Return the user and password of Basic authentication as PLAIN has them; without them, what nobody has."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        scheme, _, credentials = value.strip().partition(b" ")
        if name.strip().lower() == b"authorization" and scheme.lower() == b"basic":
            with suppress(ValueError):
                return b"\0" + b64decode(credentials.strip(), validate=True).replace(b":", b"\0", 1)
    return b""


def _status(request_line: bytes) -> HTTPStatus:
    method, _, rest = request_line.partition(b" ")
    if not rest.endswith((b" HTTP/1.1", b" HTTP/1.0")):
        return HTTPStatus.BAD_REQUEST
    if method != b"GET":
        return HTTPStatus.METHOD_NOT_ALLOWED
    path = rest.rpartition(b" ")[0].partition(b"?")[0]
    return HTTPStatus.OK if path == PATH.encode() else HTTPStatus.NOT_FOUND


def _response_head(status: HTTPStatus, size: int) -> bytes:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {CONTENT_TYPE_PLAIN_0_0_4}",
        f"Content-Length: {size}",
        "Connection: close",
        *(('WWW-Authenticate: Basic realm="metrics", charset="UTF-8"',) if status is HTTPStatus.UNAUTHORIZED else ()),
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii")
