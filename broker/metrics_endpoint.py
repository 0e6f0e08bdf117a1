"""`GET /metrics` for Prometheus: a listener of its own, on the broker's event loop, in the text format.

The loop gets its turn after every part of a metric family, so that thousands of partitions do not hold it. What a peer
may do is limited; it is disconnected when it sends more than `REQUEST_HEAD_MAX` bytes before its request is complete,
when request and answer take longer than `SCRAPE_TIMEOUT_S`, when it is silent for `SILENCE_TIMEOUT_S` before its
request is complete, and when `SCRAPES_MAX` others came later while it was silent. Only if so many are being answered is
a new scrape refused.

One request a connection; bodies are not read. There is no authentication: the default is to listen on loopback only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

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
        self._server: asyncio.Server | None = None
        self._scrapes: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """Scrapes whose requests are not complete, the oldest first."""

    async def start(self, host: str, port: int) -> None:
        """Port 0 takes a free one; see `port`."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=REQUEST_HEAD_MAX)
        _log.info("metrics on http://%s:%d%s", host, self.port, PATH)

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
                    head = await reader.readuntil(b"\r\n\r\n")
                if (scrape := asyncio.current_task()) is not None:
                    self._silent.pop(scrape, None)
                status = _status(head.split(b"\r\n", 1)[0])
                body = await self._text() if status is HTTPStatus.OK else b""
                writer.write(_response_head(status, len(body)) + body)
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            _log.info("a metrics scrape by %s ended early: %r", writer.get_extra_info("peername"), error)
        finally:
            writer.transport.abort()

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
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii")
